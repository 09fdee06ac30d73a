"""Names and texts with markup arrive as text in every view, report, page and picture, and in a terminal.

Whoever names a plan, a peer, a column or a file, or whose function raises an error, chooses a text that others see.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import msgspec
import pytest

from synergy_nb.events import Event
from synergy_nb.events.journal import Journal
from synergy_nb.plan import Plan, source
from synergy_nb.recording.stage import replay_events
from synergy_nb.reporting.application_display import application_rows, rows_as_html, rows_as_text
from synergy_nb.reporting.application_list import Applications, ListedApplication
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.tables import as_html
from synergy_nb.reporting.troubles import trouble
from synergy_nb.widgets.plan_editor import PlanEditor
from synergy_nb.widgets.protocol_stage import ProtocolStage
from synergy_nb.widgets.qos_view import QoSView
from synergy_nb.widgets.report import Number, Table, Verdict, report
from tests.qos_story import NAMES, actively_replicated, relieved, replicated, story, top_pairs
from tests.quick_cases import quick_first
from tests.report_pages import journal

PACKAGE: Final = Path(__file__).resolve().parents[1] / "synergy_nb"
TAG, HANDLER = "xq", "onxq"  # of elements and attributes that no page has
PAYLOADS: Final = (
    f"<{TAG}>",
    f"</script><{TAG}>",
    f"</style><{TAG} {HANDLER}=1>",
    f"</title></svg></textarea><{TAG}>",
    f"\"><{TAG} {HANDLER}='1'>",
    f"'><{TAG} {HANDLER}=1>",
    f"--><{TAG}>",
    f"]]><{TAG}>",
    f"' {HANDLER}=1 x='",
    f'" {HANDLER}=1 x="',
    f"&lt;{TAG}&gt;&#60;{TAG}&#62;",
    f"\\u003c{TAG}\\u003e<{TAG}/>",
    f"${{{TAG}}}{{{{{TAG}}}}}<%{TAG}%>",
    f"javascript:{TAG}()",
    f"[{TAG}](javascript:{TAG}) ![{TAG}](x) | a | `{TAG}` $<{TAG}>$",
    f"\U0001f680\u202e<{TAG}>\u200b",
)
#: What only texts that are no names may have: those of errors of somebody's function.
CONTROLS: Final = ("\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\x", "\x9b2J", "\r\x08", "\x00")
#: Fields of events whose text somebody else chooses.
FREE: Final = frozenset(
    {"reason", "error", "explanation", "doubt", "first", "path", "cause", "failure", "message", "plan"}
)


class Structure(HTMLParser):
    """Elements and attributes that a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.foreign: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag.startswith(TAG) or any(name.startswith(HANDLER) for name, _ in attrs):
            self.foreign.append(self.get_starttag_text() or tag)
        if any(
            (value or "").strip().lower().startswith("javascript:") for name, value in attrs if name in ("href", "src")
        ):
            self.foreign.append(str(attrs))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def marked(rng: random.Random, *, controls: bool = False) -> str:
    found = "".join(rng.sample(PAYLOADS, 3))[:150]
    return found + rng.choice(CONTROLS) + "z" if controls else found


def with_markup(rng: random.Random, events: list[Event], application: str) -> list[Event]:
    """The events of a run, as if everybody had chosen texts with markup."""

    def changed(value: Any, field: str) -> Any:
        if isinstance(value, str):
            return marked(rng, controls=field != "plan") if field in FREE and value else value
        if isinstance(value, dict):
            return {key: changed(each, str(key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([changed(each, "") for each in value])
        return value

    found = []
    for each in events:
        named = {key: changed(value, key) for key, value in msgspec.structs.asdict(each).items()}
        subject = application if each.subject in ("r1", "top-1") else each.subject
        found.append(msgspec.structs.replace(each, **{**named, "subject": subject}))
    return found


def journaled(events: list[Event]) -> Journal:
    journal = Journal()
    for each in events:
        journal.append(each)
    return journal


def plan(rng: random.Random) -> Plan:
    """A plan whose names, columns, texts and files have markup."""
    text = marked(rng).replace("'", "''")
    columns = {f"{rng.choice(PAYLOADS)}": "str", "n": "int"}
    made = source("python", name=rng.choice(PAYLOADS[:-1]), columns=columns, id="source").filter(
        f"n > 1 AND '{text}' <> 'x'", id="f"
    )
    return Plan(made.sink(delay="1 s").operators.values(), {"delay": "1 s"}, marked(rng))


def pages(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Every page and picture of a run, with the name of what has made it."""
    names = {address: f"{name} {marked(rng)}" for address, name in NAMES.items()}
    query = Plan(top_pairs().operators.values(), {"delay": "1 s"}, marked(rng))
    application = f"{marked(rng)}-1-0a1b2c"
    own = plan(rng)
    for which, of in (("plan", query), ("own plan", own)):
        yield f"svg of the {which}", of.to_svg()
        yield f"svg with details of the {which}", of.to_svg({name: marked(rng) for name in of.operators})
        yield f"html of the {which}", of._repr_html_()
    happened = with_markup(rng, [each for each in journal(query) if each.subject in ("r1", *names)], application)
    explanation = Explanation(application, happened, names, ("failed", marked(rng, controls=True)))
    yield "explanation", explanation._repr_html_()
    yield "report", report(
        query, explanation, happened, title=marked(rng), lead=marked(rng), verdicts=[Verdict("bad", marked(rng))],
        numbers=[Number(marked(rng), marked(rng), marked(rng))], data={marked(rng): [marked(rng)]}, footer=marked(rng),
        tables=[Table(marked(rng), (marked(rng), "n"), [(marked(rng, controls=True), 1)], marked(rng), bar="n")],
    )  # fmt: skip
    for run in (story(5), replicated(5), actively_replicated(5), relieved(8)):
        view = QoSView(journaled(with_markup(rng, list(run), application)), query, names=names)
        yield "svg of a view", view.to_svg()
        yield "view", view._repr_mimebundle_()[0]["text/html"]
        view.close()
    stage = ProtocolStage(replay_events(application, query, happened, names=names))
    yield "svg of a stage", stage.to_svg()
    yield "stage", stage._repr_mimebundle_()[0]["text/html"]
    stage.close()
    editor = PlanEditor(own.to_yaml())
    yield "svg of an editor", editor.to_svg()
    yield "editor", editor._repr_mimebundle_()[0]["text/html"]
    editor.close()
    rows = application_rows(query, "failed", marked(rng, controls=True), {}, {"sink": marked(rng)}, {})
    yield "application", rows_as_html(marked(rng), rows)
    yield "table", as_html(marked(rng), (marked(rng),), [(marked(rng, controls=True),)])
    listed = ListedApplication(query, "failed", marked(rng, controls=True), {}, frozenset({marked(rng)}))
    yield "applications", Applications({application: listed}, {}, marked(rng))._repr_html_()


def texts(rng: random.Random) -> Iterator[tuple[str, str]]:
    """What a terminal shows of a run."""
    query = Plan(top_pairs().operators.values(), {"delay": "1 s"}, marked(rng))
    happened = with_markup(rng, [each for each in journal(query) if each.subject in ("r1", *NAMES)], "top-1")
    yield "explanation", str(Explanation("top-1", happened, NAMES, ("failed", marked(rng, controls=True))))
    rows = application_rows(query, "failed", marked(rng, controls=True), {}, {"sink": "peer-1"}, {})
    yield "application", rows_as_text("top-1", rows)
    listed = ListedApplication(query, "failed", marked(rng, controls=True), {}, frozenset())
    yield "applications", repr(Applications({"top-1": listed}, {}))
    yield "plan", str(query)
    yield "replay", replay_events("top-1", query, happened, names=NAMES).to_text()
    yield "error", str(ClusterError(marked(rng, controls=True)))
    view = QoSView(journaled(with_markup(rng, list(story(5)), "top-1")), query, names=NAMES)
    yield "view", view.to_text()
    view.close()
    for event in with_markup(rng, happened, "top-1"):
        yield f"trouble {event.kind}", trouble(event) or ""


@pytest.mark.parametrize("seed", quick_first(range(12), 2))
def test_markup_makes_no_element_of_any_page(seed: int) -> None:
    for which, page in pages(random.Random(seed)):
        assert not Structure(page).foreign, which
        if which.startswith("svg"):
            root = ET.fromstring(page)
            assert not [each for each in root.iter() if each.tag.rpartition("}")[2].startswith(TAG)], which


@pytest.mark.parametrize("seed", quick_first(range(12), 2))
def test_a_terminal_gets_no_control_characters(seed: int) -> None:
    for which, text in texts(random.Random(seed)):
        found = {
            character for character in text if character != "\n" and (character < " " or "\x7f" <= character < "\xa0")
        }
        assert not found, which


def test_no_script_makes_markup_of_a_text() -> None:
    """The explorers set pictures and formulas that they have drawn themselves, of numbers and of names of their own."""
    scripts = [each for each in PACKAGE.rglob("*.js") if not {"static", "node_modules"} & set(each.parts)]
    assert len(scripts) > 10
    found = {
        (each.name, line.strip())
        for each in scripts
        for line in each.read_text("utf-8").splitlines()
        if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc", line)
    }
    assert found == {
        ("explorer.js", 'equation.innerHTML = model.get("equation");'),
        ("explorer.js", 'picture.innerHTML = model.get("picture");'),
    }


def test_the_check_finds_what_is_not_escaped() -> None:

    for payload in PAYLOADS[:8]:
        assert Structure(
            f"<script>{payload}</script><style>{payload}</style><p title='{payload}'>{payload}</p>"
        ).foreign
    assert Structure("<a href=' JavaScript:x'>x</a>").foreign
    assert not Structure(f"<p>{as_html('x', ('a',), [('b',)])}</p>").foreign
