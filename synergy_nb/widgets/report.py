"""One self-contained HTML page about one application: its plan, its placement and the reasons, and its delays.

It is made from the plan, the explanation and the journal, of a simulated run as of a run on Dask workers.
It needs no network, no script and no other file, and follows the reader's light or dark setting.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from synergy_nb.drawing import graphs
from synergy_nb.events import Event, PeerMeasured, SinkMeasured
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.plan.text import operator_texts
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.formatting import DISCIPLINE_NAMES, HOTSPOT_MODES, cell, off, rate, seconds, share
from synergy_nb.reporting.replica_streams import counts
from synergy_nb.widgets._charts import STYLE, SinkDelays, delay_chart, delays
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces

__all__ = ["Number", "Table", "Verdict", "report"]

_MARKS = {"good": "✓", "bad": "✕", "note": "!"}
_MOST_ROWS = 1000


class Verdict(NamedTuple):
    """A sentence at the head of the page; ``kind`` is ``good``, ``bad`` or ``note``."""

    kind: str
    text: str


class Number(NamedTuple):
    """A figure with its name, and optionally a few words about it."""

    label: str
    value: str
    note: str = ""


class Table(NamedTuple):
    """Rows of results."""

    # title, about: heading, and a sentence under it
    title: str
    # columns, rows: names, and values of any plain type; at most 1,000 rows are shown
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    about: str = ""
    bar: str = ""  # name of the column whose numbers are also drawn as bars; empty for no bars


def report(
    plan: Plan,
    explanation: Explanation,
    events: Iterable[Event],
    *,
    title: str,
    lead: str = "",
    verdicts: Sequence[Verdict] = (),
    numbers: Sequence[Number] = (),
    tables: Sequence[Table] = (),
    data: Mapping[str, Any] | None = None,
    footer: str = "",
) -> str:
    """The page.

    Parameters
    ----------
    plan
        Query plan ξ.
    explanation
        Account of the composition; its request names the application among the ``events``.
    events
        Journal of all peers, by time.
    title, lead
        Heading, and a paragraph under it.
    verdicts, numbers, tables
        Sentences at the top, the important figures, and results.
    data
        Plain values that the page contains as JSON, at its end.
    footer
        Last line, such as the version of the program.
    """
    style = resources.files("synergy_nb.widgets").joinpath("report.css").read_text("utf-8") + STYLE
    events = list(events)
    found = delays(events, explanation.request)
    readings = JournalSeries(explanation.request, explanation.names)
    readings.add_events(
        event for event in events if not isinstance(event, SinkMeasured | PeerMeasured)
    )  # events, without the measurements
    marks = status_pieces(readings, plan)["marks"]["list"]
    began = readings.run(explanation.request).began
    moments = [(mark["at"] - began, mark["label"]) for mark in marks if mark["label"]] if began is not None else []
    body = [
        f'<header><p class="brand">Synergy</p><h1>{escape(title)}</h1>',
        f'<p class="lead">{escape(lead)}</p></header><main>' if lead else "</header><main>",
        _verdicts(verdicts),
        _numbers(numbers),
        _section("plan", "The plan and its requirements", _plan(plan)),
        _section("graph", "Where each operator runs, and why", _graph(plan, explanation)),
        *(_section("delay", _delay_title(plan, sink), _delay(plan, points, moments)) for sink, points in found.items()),
        _happened(marks, explanation),
        _hot_spots(explanation, _slacks(events, explanation)),
        *(_section("results", table.title, _table(table)) for table in tables),
        _section("decision", "How the peers decided", _decision(explanation)),
        _json(data),
        f"</main><footer>{escape(footer)}</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _section(name: str, title: str, content: str) -> str:
    return f'<section class="{name}"><h2>{escape(title)}</h2>\n{content}</section>'


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    items = "".join(
        f'<li class="{kind}"><span class="mark">{_MARKS[kind]}</span><span>{escape(text)}</span></li>'
        for kind, text in verdicts
    )
    return f'<ul class="verdicts">{items}</ul>'


def _numbers(numbers: Sequence[Number]) -> str:
    if not numbers:
        return ""
    tiles = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd>"
        + (f'<dd class="note">{escape(note)}</dd>' if note else "")
        + "</div>"
        for label, value, note in numbers
    )
    return f'<dl class="numbers">{tiles}</dl>'


# -- plan and graph --------------------------------------------------------------------------------------------------


def _pictures(nodes: Sequence[graphs.Node], plan: Plan, title: str) -> str:
    """The same picture twice, one of them for narrow pages; the style shows one."""
    edges = [(up, name) for name in plan.operators for up in plan.upstream(name)]
    across, down = (graphs.svg(nodes, edges, title=title, direction=way) for way in ("right", "down"))
    return f'<figure><div class="wide">{_inline(across)}</div><div class="narrow">{_inline(down)}</div></figure>'


def _inline(svg: str) -> str:
    """An SVG without the declaration of its namespace, which HTML does not need."""
    return re.sub(r'\sxmlns="[^"]*"', "", svg)


def _plan(plan: Plan) -> str:
    requirements = [
        f"a delay of at most {seconds(plan.qos.delay)}" if plan.qos.delay is not None else "",
        f"at most {share(plan.qos.miss_rate)} of the tuples later" if plan.qos.miss_rate is not None else "",
        f"at least {amount(plan.qos.throughput)} bytes/s" if plan.qos.throughput is not None else "",
        f"at least {rate(plan.qos.throughput_tuples)}" if plan.qos.throughput_tuples is not None else "",
        f"available {share(plan.qos.availability)} of the time" if plan.qos.availability is not None else "",
        f"{counted(plan.qos.degree, 'replica')} of each component" if plan.qos.degree is not None else "",
        f"{counted(plan.qos.active, 'active replica')} of each operator" if plan.qos.active is not None else "",
        f"{counted(plan.qos.synchronized, 'synchronized replica')} of each component" if plan.qos.synchronized else "",
        f"{counted(plan.qos.ordered, 'replica')} of each component in one order" if plan.qos.ordered else "",
        *operator_texts.own_requests(plan.operators.values()),
        DISCIPLINE_NAMES[plan.qos.scheduling] if plan.qos.scheduling is not None else "",
        "later tuples are dropped" if plan.qos.overdue == "drop" else "",
        HOTSPOT_MODES.get(plan.qos.hotspots or "", ""),
    ]
    stated = ", ".join(filter(None, requirements)) or "none"
    nodes = [
        graphs.Node(name, name, detail=operator_texts.brief(operator), tooltip=operator_texts.parameters(operator))
        for name, operator in plan.operators.items()
    ]
    edges = [(up, name) for name in plan.operators for up in plan.upstream(name)]
    picture = graphs.svg(nodes, edges, title=f"query plan {plan.name}", direction="down")
    operators = [
        (name, operator_texts.parameters(operator), rate(plan.rate(name)), counted(plan.load(name), "core"))
        for name, operator in plan.operators.items()
    ]
    streams = [(name, plan.stream_name(name), plan.stream_key(name)) for name in plan.operators]
    return (
        f'<p class="about">Query plan ξ “{escape(plan.name)}”: {counted(len(plan.operators), "operator")}. '
        f"Required quality of service: {escape(stated)}.</p>"
        f'<div class="beside"><figure>{_inline(picture)}</figure><div>'
        + _table(Table("", ("operator", "parameters", "expected output", "expected load"), operators))
        + "</div></div><details><summary>Streams, named by what made them, and their keys on the ring</summary>"
        + _table(Table("", ("stream of", "name", "key"), streams))
        + "</details>"
    )


def _graph(plan: Plan, explanation: Explanation) -> str:
    placed = explanation.peers
    if not placed:
        return f'<p class="about">It does not run: {escape(explanation.course.outcome)}.</p>'
    where = {name: explanation.where(name) for name in plan.operators}
    nodes = [graphs.Node(name, name, detail=where[name], tooltip=explanation.why(name)) for name in plan.operators]
    rows = [(name, where[name], explanation.why(name)) for name in plan.operators]
    used = len(set(placed.values()))
    took = f" It was set up in {seconds(explanation.course.setup_s)}." if explanation.course.setup_s is not None else ""
    return (
        f'<p class="about">Component graph λ: each operator with the peer that executes it, '
        f"{counted(used, 'peer')} in all.{took}</p>"
        + _pictures(nodes, plan, "component graph on its peers")
        + "<h3>Why there</h3>"
        + _table(Table("", ("operator", "peer", "why"), rows))
        + _replicas(explanation)
    )


def _replicas(explanation: Explanation) -> str:
    """The placed backups, and the components that they took over."""
    backups = explanation.placed_backups
    if not backups:
        return ""
    rows = [(name, peer, explanation.why_replica(name, peer)) for name, peers in backups.items() for peer in peers]
    taken = "".join(f"<li>{escape(move)}</li>" for move in explanation.movement.takeovers)
    left = (
        f"{explanation.placed_sentence}; {counts(explanation.of_replicas.left)}. "
        if explanation.of_replicas.left
        else ""
    )
    return (
        f'<h3>Backups</h3><p class="about">{escape(left + explanation.coverage)}</p>'
        + _table(Table("", ("operator", "backup at", "why"), rows))
        + (f"<p>Taken over:</p><ul>{taken}</ul>" if taken else "")
    )


def _happened(marks: Sequence[Mapping[str, Any]], explanation: Explanation) -> str:
    """Deaths, take-overs and failures in order of time, and errors of peers; empty if there were none."""
    rows = [
        f'<li class="{mark["tone"]}"><span class="mark">{_MARKS[mark["tone"]]}</span>'
        f"<span>{escape(mark['after'] and 'after ' + mark['after'] + ': ')}{escape(mark['text'])}</span></li>"
        for mark in marks
    ]
    rows += [
        f'<li class="bad"><span class="mark">✕</span><span>{escape(explanation.error_line(each))}</span></li>'
        for each in explanation.troubles
    ]
    return _section("happened", "What happened", f'<ul class="verdicts">{"".join(rows)}</ul>') if rows else ""


# -- hot spots -------------------------------------------------------------------------------------------------------


def _hot_spots(explanation: Explanation, slacks: Sequence[tuple[str, ...]]) -> str:
    """The slack of each operator, and the account of hot spots and migrations; empty if neither is known."""
    lines = explanation.hot_spots.lines(explanation.course.began)
    if not slacks and not lines:
        return ""
    columns = (
        "operator",
        "least slack",
        "last slack",
        "greatest predicted time",
        "greatest predicted rate",
        "predicted times are off",
    )
    about = (
        "Slack is the time that a tuple at an operator has left until its limit, less its predicted time there "
        "(equation 3.1); an operator without slack is a hot spot."
    )
    account = "\n".join(line.removeprefix("  ") for line in lines)
    content = (_table(Table("", columns, slacks, about)) if slacks else f'<p class="about">{about}</p>') + (
        f"<pre>{escape(account)}</pre>" if lines else "<p>There was no hot spot.</p>"
    )
    return _section("hot-spots", "Slack and hot spots", content)


def _slacks(events: Iterable[Event], explanation: Explanation) -> list[tuple[str, ...]]:
    """Operator, least and last slack, the greatest predicted time and rate, and how far off, for those with slack."""
    found: dict[str, list[float]] = {}
    wrong: dict[str, float | None] = {}
    for event in events:
        for each in event.components if isinstance(event, PeerMeasured) else ():
            if each.application != explanation.request or each.slack is None:
                continue
            least, _, time, rate_of = found.get(each.operator, [math.inf, 0.0, 0.0, 0.0])
            wrong[each.operator] = each.prediction_off
            found[each.operator] = [
                min(least, each.slack),
                each.slack,
                max(time, each.predicted_s or 0.0),
                max(rate_of, each.predicted_rate or 0.0),
            ]
    return [
        (operator, seconds(least), seconds(last), seconds(time), rate(rate_of), off(wrong[operator]) or "no")
        for operator, (least, last, time, rate_of) in found.items()
    ]


# -- delay -----------------------------------------------------------------------------------------------------------


def _delay_title(plan: Plan, sink: str) -> str:
    which = f" at {sink}" if len(plan.sinks) > 1 else ""
    return f"Delay over time{which}, against its limit" if plan.qos.delay is not None else f"Delay over time{which}"


def _delay(plan: Plan, points: Sequence[SinkDelays], marks: Sequence[tuple[float, str]]) -> str:
    wide, narrow = (
        _inline(delay_chart(points, plan.qos.delay, marks=marks, size=size)) for size in ((1030, 320), (400, 280))
    )
    rows = [(f"{each.at:.1f}", seconds(each.p50), seconds(each.p99), each.tuples) for each in points]
    table = Table("", ("second", "p50", "p99", "tuples"), rows)
    return (
        '<p class="about">From the entry of what completed a result to its arrival at the sink, measured there for '
        "every tuple; on a logarithmic scale.</p>"
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div></figure>'
        f"<details><summary>The same as a table</summary>{_table(table)}</details>"
    )


# -- tables ----------------------------------------------------------------------------------------------------------


def _table(table: Table) -> str:
    rows = [tuple(row) for row in table.rows[:_MOST_ROWS]]
    number = len(table.rows)
    numeric = {name for index, name in enumerate(table.columns) if rows and all(_is_number(row[index]) for row in rows)}
    barred = table.columns.index(table.bar) if table.bar else -1
    most = max((row[barred] for row in rows), default=0) if table.bar else 0
    head = "".join(
        f'<th class="{"number" if name in numeric else ""}">{escape(name)}</th>'
        + ("<th></th>" if index == barred else "")
        for index, name in enumerate(table.columns)
    )
    lines = []
    for row in rows:
        cells = []
        for index, (name, value) in enumerate(zip(table.columns, row, strict=True)):
            text = cell(value)
            kind = "number" if name in numeric else "nowrap" if len(text) <= 20 else "text"
            cells.append(f'<td class="{kind}">{escape(text)}</td>')
            if index == barred:
                cells.append(
                    f'<td class="bar"><span style="width:{100 * value / most if most else 0:.1f}%"></span></td>'
                )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    about = table.about
    if number > len(rows):
        about = f"{about} The first {amount(len(rows))} of {counted(number, 'row')}.".strip()
    tall = " tall" if len(rows) > 14 else ""
    description = f'<p class="about">{escape(about)}</p>' if about else ""
    return (
        f'{description}<div class="scroll{tall}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- decision --------------------------------------------------------------------------------------------------------


def _decision(explanation: Explanation) -> str:
    parts = [f'<p class="about">Request {escape(explanation.request)}: {escape(explanation.course.outcome)}.']
    for attempt in explanation.composition.attempts:
        late = "" if attempt.complete else ", when the time for probing was up"
        parts.append(
            f" Probes brought {counted(attempt.paths, 'path')} back, and {counted(attempt.dropped, 'probe')} failed"
            f"{late}; the paths merged into {counted(attempt.graphs, 'complete graph')}; conditions 2.1 to 2.4 "
            f"hold for {attempt.qualified} of them. "
            f"The one of {escape(explanation.rule)} was set up; the less φ (equation 2.5), the more balanced."
        )
    parts.append("</p>")
    ranked = sorted(explanation.composition.graphs, key=lambda graph: float("inf") if graph.phi is None else graph.phi)
    chosen = explanation.composition.selected.peers if explanation.composition.selected is not None else None
    rows = [
        (
            "-" if graph.phi is None else f"{graph.phi:.4g}",
            seconds(graph.delay_s),
            "set up" if graph.peers == chosen else graph.unqualified or "qualified",
            ", ".join(f"{operator} {peer}" for operator, peer in graph.peers.items()),
        )
        for graph in ranked
    ]
    if rows:
        about = "By φ; the projected delay is that of the longest path, processing and transmission."
        parts.append("<h3>Complete graphs</h3>")
        parts.append(_table(Table("", ("φ", "projected delay", "verdict", "peers"), rows, about)))
    if explanation.composition.dropped:
        dropped = [
            (drop.operator, drop.at, drop.condition, f"{drop.required:.4g}", f"{drop.available:.4g}")
            for drop in explanation.composition.dropped
        ]
        parts.append("<h3>Dropped probes</h3>")
        parts.append(_table(Table("", ("operator", "peer", "condition that failed", "required", "available"), dropped)))
    parts.append(f"<details><summary>The account as text</summary><pre>{escape(str(explanation))}</pre></details>")
    return "".join(parts)


def _json(data: Mapping[str, Any] | None) -> str:
    if data is None:
        return ""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    content = f"<details><summary>Show</summary><pre>{escape(text)}</pre></details>"
    return _section("numbers-json", "All numbers, as `synergy … --json` gives them", content)
