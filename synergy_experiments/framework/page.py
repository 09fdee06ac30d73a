"""The page of all claims: one HTML file with the verdicts and figures of stored results, without network.

Its first screen has one line for each claim: the verdict, the paper's main number and ours. Then each claim has a
section that fits on one screen of 1280 by 800: the statement, what came out with the statements that do not hold first,
a figure, the reason and the doubt. All else is folded: every check with its rule, all figures, the questions that the
paper's text leaves open with our choices, and the set-up. Heights are estimated from numbers of letters
(:mod:`~synergy_experiments.framework.page_heights`).
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final

from synergy_experiments.framework import figures
from synergy_experiments.framework.claim import Check, Choices, Claim, Panel, Result
from synergy_experiments.framework.guide import Glossary, Guide, Headline, main_checks
from synergy_experiments.framework.page_heights import LINE, Height, begins, fitting
from synergy_experiments.framework.page_numbers import (
    LONG,
    MARKS,
    OUTCOMES,
    PLURALS,
    SHORT,
    holding,
    mark,
    outcome,
    over_readings,
    several,
    stated,
    texts,
)
from synergy_experiments.framework.page_style import STYLE
from synergy_experiments.framework.runner import Progress
from synergy_experiments.framework.stored import load, restore
from synergy_experiments.framework.verdicts import corrected, of_claim
from synergy_nb.plan.terms.units import counted

__all__ = ["write_page"]

COMPLETE: Final = 10  # number of repetitions at the paper's scale from which a result counts as complete
CURVES: Final = 6  # most lines of a first figure, if there is one with so few
DOUBT: Final = "What would change our verdict:"
#: What checks judge.
JUDGED: Final = {
    "paper": "Statements of the paper",
    "own": "Our own arithmetic and aims, which do not count: in place of the paper's number is our aim",
    "fitted": "Shapes that were fitted, which do not count",
}

INTRODUCTION: Final = """\
Five texts of 2006 to 2008 say how queries over streams of data should be spread over many computers (peers), kept
fast, and kept alive. We built their algorithms into one system, and measured each claim again: in simulations and
models, as the letter behind a claim tells. The mark is our verdict of all that the paper states there, and 'hold'
tells how many of its statements that can be compared hold, of all readings and loads. Then come the paper's main
number, and ours with its 95 % interval. 'By reading' is from the smallest to the largest mean where the text can be
read in several ways, with the least and the greatest end of their intervals. 'At 3 of 4' counts comparisons, over
readings and loads. Where input, machine or network are not the paper's, numbers are not comparable: orders and
signs are judged."""
RULES: Final = (
    """\
Policies are compared within a repetition, on the same network and the same requests. A gain is computed in each
repetition; the mean of these gains is judged, with its 95 % interval. Each statement of the paper is tested by one
check or by several, as it is about several loads, policies or readings of the text.""",
    """\
A tolerance is how far ours may be from the paper's number. We chose them, usually 10 points; each is in the folded
list of checks. A gain, or another number, holds if its whole interval is within the tolerance. A gain that is
smaller, or larger by 25 points at most, holds in part, and so does a number within a second tolerance. A bound, a
number that is not to be passed, holds if the whole interval is on the stated side. A statement about several points
must be true of each, by an interval or in every single run; it holds in part if it is true of more than half. It
does not hold if the whole interval is outside of what would hold, or hold in part. What is neither surely right nor
surely wrong is undecided. On another input, machine or network than the paper's, numbers are not comparable; orders
and signs are judged.""",
    """\
With hundreds of tests some hold by luck. So we ask for more evidence until only 5 % of the ticks are expected to be
luck. Only what holds is corrected, and not what each single run decides or what is computed. So a '?' can stand
beside 'at 6 of 6': chance is not excluded there, as so many statements are tested.""",
    """\
A claim is reproduced if at least half of the paper's statements can be compared and each of these holds; in part if
at least half of those that can be compared hold, or hold in part; else not reproduced if one is surely wrong, or
undecided. What we check of our own work, or aim at beyond the paper, and shapes that were fitted to its numbers are
listed apart, and do not count. Runs that are smaller than the paper's, have other parameters, or fewer than ten
repetitions are in bold type. A text that names an option, such as traces=FILE, means the command: synergy reproduce
P1 --set traces=FILE.""",
)


@dataclass(frozen=True)
class _Found:
    """What is shown of a claim.

    Parameters
    ----------
    claim, choices, headline
        Claim, our choices, and its main number.
    result, stored
        Result, and the file that it was restored from; None if none is stored.
    """

    claim: Claim
    choices: Choices
    headline: Headline
    result: Result | None
    stored: Mapping[str, Any]

    @property
    def outcome(self) -> str:
        found = self.result
        return "not comparable" if found is None else of_claim(found.checks, whole=not found.failed)

    @property
    def main(self) -> list[Check]:
        return [] if self.result is None else main_checks(self.headline, _of_paper(self.result.checks))


def write_page(
    claims: Sequence[tuple[Claim, Choices]],
    guide: Guide,
    folder: Path,
    path: Path,
    progress: Progress | None = None,
) -> list[str]:
    """Write the page of claims.

    Parameters
    ----------
    claims
        Claims, each with our choices.
    guide
        Papers, main numbers and words that the page explains.
    folder
        Folder of stored results.
    path
        Path of the HTML file to write.
    progress
        Callback for the progress: the claim that is drawn, and the numbers of claims drawn and in all.

    Returns
    -------
    list of str
        Ids of the claims without a stored result.
    """
    found = _corrected([_read(claim, choices, guide, folder) for claim, choices in claims])
    glossary = Glossary(guide.words)
    groups = _groups(found, guide)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{len(found)} claims, measured again</title><style>{STYLE}</style>",
        _bar(groups, guide),
        "<main>",
        *_summary(groups, guide, glossary),
        _rules(guide, glossary),
    ]
    done = 0
    for letter, members in groups.items():
        paper = guide.papers.get(letter)
        if paper is not None:
            parts.append(
                f'<section class=paper id="paper-{letter}"><h2>{escape(paper.title)}</h2>'
                f"<p class=who>{escape(paper.who)}<p>{glossary.explained(paper.about, set())}</section>"
            )
        for each in members:
            if progress is not None:
                progress(each.claim.id, done, len(found))
            parts += _section(each, glossary)
            done += 1
    parts.append(f"<section id=words><h2>Words</h2>{glossary.listed()}</section></main>")
    if progress is not None and found:
        progress(found[-1].claim.id, done, len(found))
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return [each.claim.id for each in found if each.result is None]


def _read(claim: Claim, choices: Choices, guide: Guide, folder: Path) -> _Found:
    file = folder / f"{claim.id}.json"
    headline = guide.headlines.get(claim.id, Headline(claim.title))
    if not file.is_file():
        return _Found(claim, choices, headline, None, {})
    stored = load(file)
    return _Found(claim, choices, headline, restore(claim, stored), stored)


def _corrected(found: Sequence[_Found]) -> list[_Found]:
    """Return the claims with verdicts that are corrected for the number of all statements together."""
    judged = iter(corrected([check for each in found if each.result is not None for check in each.result.checks]))
    return [
        each
        if each.result is None
        else replace(each, result=replace(each.result, checks=[next(judged) for _ in each.result.checks]))
        for each in found
    ]


def _groups(found: Sequence[_Found], guide: Guide) -> Mapping[str, Sequence[_Found]]:
    """Return the claims by paper, in the order of the papers; others have an empty name."""
    named = [(letter, [each for each in found if each.claim.id[0] == letter]) for letter in guide.papers]
    others = [each for each in found if each.claim.id[0] not in guide.papers]
    return {letter: members for letter, members in [*named, ("", others)] if members}


def _of_paper(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that judge a statement of the paper."""
    return [each for each in checks if each.judges == "paper"]


# -- the first screen --------------------------------------------------------------------------------------------------


def _bar(groups: Mapping[str, Sequence[_Found]], guide: Guide) -> str:
    links = [("summary", "Summary"), ("rules", "How it was judged")]
    links += [(f"paper-{letter}", guide.papers[letter].title) for letter in groups if letter]
    links.append(("words", "Words"))
    shown = "".join(f'<a href="#{target}">{escape(name)}</a>' for target, name in links)
    return f'<nav aria-label="Contents"><a class=skip href="#summary">To the summary</a>{shown}</nav>'


def _summary(groups: Mapping[str, Sequence[_Found]], guide: Guide, glossary: Glossary) -> Iterator[str]:
    """Yield the first screen: what was claimed, by whom, and what came out."""
    every = [each for members in groups.values() for each in members]
    counts = Counter(each.outcome for each in every)
    tally = " ".join(
        f"<span class=tally>{mark(name)} {counts[name]} {outcome(name)}</span>" for name in OUTCOMES if counts[name]
    )
    yield f"<section id=summary><h1>{len(every)} claims, measured again</h1>"
    ways = "; ".join(f"<strong>{letter}</strong> {escape(way)}" for letter, way in guide.ways.items())
    yield f"<p>{glossary.explained(INTRODUCTION, set())}<p>{tally}</p><p class=more>How it was measured: {ways}.</p>"
    yield "<div class=two>"
    for half in _halves(list(groups.items())):
        yield (
            "<table class=claims><thead><tr><th scope=col><span class=vh>outcome</span><th scope=col>claim"
            "<th scope=col>hold<th scope=col>paper<th scope=col>ours</thead>"
        )
        for letter, members in half:
            paper = guide.papers.get(letter)
            title = f'<a href="#paper-{letter}">{escape(paper.title)}</a>' if paper is not None else "Others"
            who = f" <small>{escape(paper.who)}</small>" if paper is not None else ""
            yield f"<tbody><tr><th colspan=5 scope=rowgroup>{title}{who}"
            yield from (_line(each) for each in members)
            yield "</tbody>"
        yield "</table>"
    yield "</div></section>"


def _halves(groups: Sequence[tuple[str, Sequence[_Found]]]) -> Iterator[Sequence[tuple[str, Sequence[_Found]]]]:
    """Yield the groups in two columns of about the same height."""
    heights = [len(members) + 1.5 for _, members in groups]
    cut = min(range(len(groups) + 1), key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
    yield from (half for half in (groups[:cut], groups[cut:]) if half)


def _line(found: _Found) -> str:
    """Return the line of a claim in the summary."""
    claim, checks, unit = found.claim, found.main, found.headline.unit
    paper = found.headline.paper or (checks[0].words if checks else "")
    paper = escape(paper) if paper else stated(checks[0], SHORT, unit) if checks else ""
    way = f" <small>{found.headline.how}</small>" if found.headline.how else ""
    hold = "" if found.result is None else holding(_of_paper(found.result.checks))
    ours = over_readings(checks, unit) if checks else "" if found.result is not None else "not stored"
    return (
        f'<tr><td>{mark(found.outcome)}<th scope=row><a href="#{claim.id}">{claim.id}</a> '
        f"{escape(found.headline.of)}{way}<td>{hold}<td>{paper}<td>{ours}"
    )


def _rules(guide: Guide, glossary: Glossary) -> str:
    seen: set[str] = set()
    text = "".join(f"<p>{glossary.explained(each, seen)}" for each in RULES)
    texts_of = dict.fromkeys(paper.reference for paper in guide.papers.values() if paper.reference)
    listed = "".join(f"<li>{escape(each)}" for each in texts_of)
    papers = f"<h2>The papers</h2><ul>{listed}</ul>" if listed else ""
    return f"<section id=rules><h2>How it was judged</h2>{text}{papers}</section>"


# -- the section of a claim --------------------------------------------------------------------------------------------


def _section(found: _Found, glossary: Glossary) -> Iterator[str]:
    """Yield the section of one claim."""
    claim, choices = found.claim, found.choices
    seen: set[str] = set()
    told = f"{outcome(found.outcome)}{_holding(found)}"
    yield (
        f'<section class=claim id="{claim.id}" aria-labelledby="t-{claim.id}"><h3 id="t-{claim.id}">'
        f"{mark(found.outcome)} {claim.id}: {escape(claim.title)} <em>{told}</em></h3>"
    )
    says = f"{claim.says} ({claim.source})."
    yield f"<p><strong>The paper:</strong> {glossary.explained(says, seen)}</p>"
    panel: Panel | None = None
    doubt = f"{choices.doubt}."
    told = "" if found.result is None else _told(found.result)
    height = Height().heading().text(f"The paper: {says}").text(told).text(f"{DOUBT} {doubt}").folded()
    reason, rest = begins(choices.reason, height)
    height = height.text(f"Why: {reason}" if reason else "")
    if found.result is None:
        command = f"synergy reproduce {claim.id} --scale paper --store DIR"
        yield f"<p class=short>No result is stored: <code>{command}</code>.</p>"
    else:
        yield f"<p>{told}</p>"
        panel = _first_panel(found, found.result, height.left)
        yield from _shown(found, found.result, panel, height.left, glossary, seen)
    if reason:
        yield f"<p><strong>Why:</strong> {glossary.explained(reason, seen)}</p>"
    yield f"<p><strong>{DOUBT}</strong> {glossary.explained(doubt, seen)}</p>"
    yield "<div class=folds>"
    if rest:
        yield f"<details><summary>The whole reason</summary><p>{glossary.explained(choices.reason, seen)}</details>"
    if found.result is not None:
        yield from _all_checks(found.result, glossary, seen)
        yield from _other_panels(found.result, panel)
    yield f"<details><summary>{counted(len(choices.open), 'open question')}, our choices</summary><table>"
    yield "<tr><th scope=col>What the text leaves open<th scope=col>What we chose"
    for question, answer in choices.open:
        yield f"<tr><td>{glossary.explained(question, seen)}<td>{glossary.explained(answer, seen)}"
    yield "</table></details>"
    if found.result is not None:
        yield from _failures(found.result)
        yield _origin(found.result, found.stored)
    yield "</div></section>"


def _holding(found: _Found) -> str:
    """Return behind the outcome how many of the paper's statements hold."""
    hold = "" if found.result is None else holding(_of_paper(found.result.checks))
    return f": {hold} hold" if hold else ""


def _failures(result: Result) -> Iterator[str]:
    """Yield the cells that were not measured, with their errors, folded."""
    if result.failed:
        yield f"<details><summary>{counted(len(result.failed), 'cell')} not measured</summary>"
        yield from (f"<p>{escape(each)}</p>" for each in result.failed)
        yield "</details>"


def _told(result: Result) -> str:
    """Return what came out in a sentence: how many statements of the paper hold, and of how large a run."""
    checks = _of_paper(result.checks)
    counts = Counter(check.verdict for check in checks)
    told = ", ".join(f"{counts[each]} {MARKS[each]} {several(counts[each], each)}" for each in PLURALS if counts[each])
    apart = len(result.checks) - len(checks)
    more = f" {counted(apart, 'check')} of our own or of fitted shapes apart." if apart else ""
    size = marked_size(result)
    tests = counted(len(checks), "check")
    return f"<strong>{tests} of the paper's statements:</strong> {told}.{more} <small>{size}.</small>"


def marked_size(result: Result) -> str:
    """Return the size of a run in words, marked if it is smaller than the paper's or has other parameters."""
    planned, scale = result.setup["repeat"], result.setup["scale"]
    least = min((each.runs for each in result.checks if each.runs is not None), default=planned)
    size = f"{least} to {result.size}" if least < planned else result.size
    once = planned == 1 == result.claim.repeat[scale == "paper"]
    if once:
        size = f"one run at {scale} scale, in which nothing is random: without intervals"
    elif planned == 1:
        size += ": verdicts of one run, without intervals"
    if result.changed:
        size += f", with {escape(_values(result))}"
    if result.failed:
        size += f", {counted(len(result.failed), 'cell')} not measured"
    as_stated = not result.changed and not result.failed
    complete = scale == "paper" and (least >= COMPLETE or once) and as_stated
    return size if complete else f"<strong>{size}</strong>"


def _shown(
    found: _Found, result: Result, panel: Panel | None, height: float, glossary: Glossary, seen: set[str]
) -> Iterator[str]:
    """Yield the checks that fit on the screen beside a figure: the main one, and then those that do not hold first."""
    main, order = found.main[:1], list(MARKS)
    others = sorted(_of_paper(result.checks), key=lambda each: order.index(each.verdict))
    ranked = main + [each for each in others if each not in main]
    rows = [(each.name, *texts(each, LONG)) for each in ranked]
    shown = list(zip(ranked, rows, strict=True))[: fitting(rows, height - LINE)]  # a link may take one line more
    yield "<div class=two><div><table class=checks><thead><tr><th scope=col><span class=vh>verdict</span>"
    yield "<th scope=col>What we tested<th scope=col>paper<th scope=col>ours</thead>"
    for each, (name, paper, ours) in shown:
        yield f"<tr><td>{mark(each.verdict)}<td>{glossary.explained(name, seen)}<td>{paper}<td>{ours}"
    yield "</table>"
    if len(shown) < len(ranked):
        left = Counter(each.verdict for each in ranked[len(shown) :])
        told = ", ".join(f"{count} {several(count, each)}" for each, count in left.items())
        yield f"<p class=more>{len(ranked) - len(shown)} more below: {told}.</p>"
    yield "</div>"
    if panel is not None:
        yield _figure(result, panel)
    yield "</div>"


def _first_panel(found: _Found, result: Result, height: float) -> Panel | None:
    """Return the panel that belongs to the main number, or else the first one that is not too high."""
    panels = figures.drawn_panels(result)
    low = [panel for panel in panels if figures.height_of(result, panel) * figures.PIXELS <= height]
    low = [panel for panel in low if len(figures.lines_of(result, panel)) <= CURVES] or low
    named = (panel for panel in low if panel.metric == found.headline.panel)
    lowest = min(panels, key=lambda panel: figures.height_of(result, panel), default=None)
    return next(named, low[0] if low else lowest)


def _all_checks(result: Result, glossary: Glossary, seen: set[str]) -> Iterator[str]:
    """Yield all checks with their rules: those of the paper's statements, and those that do not count."""
    yield f"<details><summary>{counted(len(result.checks), 'check')} with rules</summary><table class='checks all'>"
    yield "<thead><tr><th scope=col><span class=vh>mark</span><th scope=col>tested<th scope=col>paper, or aim"
    yield "<th scope=col>ours<th scope=col>verdict</thead>"
    for judges, name in JUDGED.items():
        checks = [check for check in result.checks if check.judges == judges]
        if not checks:
            continue
        yield f"<tbody><tr><th colspan=5 scope=rowgroup>{name}"
        for check in checks:
            paper, ours = texts(check)
            yield (
                f"<tr><td>{mark(check.verdict)}<td>{glossary.explained(check.name, seen)}"
                f"<br><small>{escape(check.rule)}</small><td>{paper}<td>{ours}<td>{check.verdict}"
            )
        yield "</tbody>"
    yield "</table></details>"


def _other_panels(result: Result, first: Panel | None) -> Iterator[str]:
    others = [panel for panel in figures.drawn_panels(result) if panel is not first]
    if others:
        yield f"<details><summary>{counted(len(others), 'more figure')}</summary><div class=two>"
        yield from (_figure(result, panel) for panel in others)
        yield "</div></details>"


def _figure(result: Result, panel: Panel) -> str:
    svg = base64.b64encode(figures.panel_svg(result, panel).encode("utf-8")).decode("ascii")
    alt = escape(figures.describe(result, panel))
    return f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{svg}"></figure>'


def _origin(result: Result, stored: Mapping[str, Any]) -> str:
    """Return how a result was measured: commit, machine, seed and all parameters."""
    known = result.claim.parameters
    rows = "".join(
        f"<tr><td>{escape(name)}<td>{escape(_shown_value(result.setup[name]))}<td>{escape(each.about)}"
        for name, each in known.items()
        if name in result.setup
    )
    origin = (
        f"{marked_size(result)}, seed {result.setup['seed']}, commit {escape(stored['commit'])}, "
        f"{escape(stored['machine'])}, {stored['seconds']:.0f} s of measuring"
    )
    command = f"synergy reproduce {result.claim.id} --scale {result.setup['scale']}"
    origin += f"; measured again by <code>{command}</code>, with other values by <code>--set</code>"
    return (
        f"<details><summary>Set-up: {counted(len(known), 'parameter')}, origin</summary><p>{origin}</p>"
        f"<table><tr><th scope=col>parameter<th scope=col>value<th scope=col>meaning{rows}</table></details>"
    )


def _values(result: Result) -> str:
    """Return the parameters that are not those of the claim, in words."""
    known = result.claim.parameters
    return "; ".join(f"{known[name].about}: {_shown_value(value)}" for name, value in result.changed.items())


def _shown_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
