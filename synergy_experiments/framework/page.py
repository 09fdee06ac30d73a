"""The page of all claims: one HTML file with the verdicts and figures of stored results.

For each claim the page has the statement of the paper, the questions that its text leaves open with our choices, our
findings with reasons, and the observation that would change our verdict.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from synergy_experiments.framework import figures
from synergy_experiments.framework.claim import Check, Choices, Claim, Result, Verdict
from synergy_experiments.framework.stored import load, restore

__all__ = ["write_page"]

COMPLETE: Final = 10  # number of repetitions at the paper's scale from which a result counts as complete
MARKS: Final[Mapping[Verdict, str]] = {
    "holds": "✓",
    "more than claimed": "↑",
    "holds in part": "~",
    "undecided": "?",
    "does not hold": "✕",
    "not comparable": "·",
}
STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
details{margin:0 0 1rem}summary{cursor:pointer}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1rem}
th,td{border-bottom:1px solid #ddd;padding:.35rem .6rem;text-align:left;vertical-align:top}
th{font-weight:600}td.v,td small.i{white-space:nowrap}small{color:#555}img{max-width:100%}
h2{margin-top:3rem;border-top:2px solid #1a1a1a;padding-top:1rem}p.short{color:#8a3b00}
"""


def write_page(claims: Sequence[tuple[Claim, Choices]], folder: Path, path: Path) -> list[str]:
    """Write the page of claims.

    Parameters
    ----------
    claims
        Claims, each with our choices.
    folder
        Folder of stored results.
    path
        Path of the HTML file to write.

    Returns
    -------
    list of str
        Ids of the claims without a stored result.
    """
    found: dict[str, tuple[Result, Mapping[str, Any]]] = {}
    for claim, _ in claims:
        file = folder / f"{claim.id}.json"
        if file.is_file():
            stored = load(file)
            found[claim.id] = restore(claim, stored), stored
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>Claims of the papers</title>",
             f"<style>{STYLE}</style><h1>Claims of the papers, and what we found</h1>", _rules()]  # fmt: skip
    parts += ["<table><tr><th>claim<th>what is claimed<th>verdicts<th>measured"]
    for claim, _ in claims:
        result = found.get(claim.id)
        verdicts = _count_verdicts(result[0].checks) if result is not None else ""
        size = _marked_size(result[0]) if result is not None else "not stored"
        link = f'<a href="#{claim.id}">{claim.id}</a>'
        parts.append(f"<tr><td>{link}<td>{escape(claim.says)}<td class=v>{verdicts}<td>{size}")
    parts.append("</table>")
    for claim, choices in claims:
        parts += _section(claim, choices, found.get(claim.id))
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return [claim.id for claim, _ in claims if claim.id not in found]


def _rules() -> str:
    return (
        "<p>Policies are compared within repetitions, on the same network and the same requests: a gain is computed in "
        "each, and the mean of these gains is judged, with its 95 % interval over repetitions. A gain counts if its "
        "interval excludes zero. Then its mean decides: within the stated tolerance of the paper's number, in "
        "percentage points, it <em>holds</em>; a larger gain is <em>more than claimed</em>, a smaller one <em>holds in "
        "part</em>. Another number holds, or holds in part, if its mean is within the first or the second tolerance. "
        "A bound holds if the whole interval is above it. A statement about all points needs an interval at each of "
        "them. A verdict is <em>undecided</em> if the interval of a gain contains zero and what would hold, if that of "
        "a number reaches further than the second tolerance to either side, and if that of a bound contains it. "
        "What is not the paper's, but ours, says so. Runs that are smaller than the paper's, have other parameters or "
        "fewer than ten repetitions are in bold type.</p>"
    )


def _count_verdicts(checks: Sequence[Check]) -> str:
    counts = Counter(check.verdict for check in checks)
    return "<br>".join(f"{mark} {counts[verdict]} {verdict}" for verdict, mark in MARKS.items() if counts[verdict])


def _marked_size(result: Result) -> str:
    """Return the size of a run in words, marked if it is smaller than the paper's or has other parameters."""
    size = result.size
    if result.setup["repeat"] == 1:
        size += ": verdicts of one run, without intervals"
    if result.changed:
        size += f", with {escape(_values(result.changed))}"
    complete = result.setup["scale"] == "paper" and result.setup["repeat"] >= COMPLETE and not result.changed
    return size if complete else f"<strong>{size}</strong>"


def _values(parameters: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} {_shown_value(value)}" for name, value in parameters.items())


def _shown_value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _section(claim: Claim, choices: Choices, found: tuple[Result, Mapping[str, Any]] | None) -> Iterator[str]:
    """Yield the section of one claim."""
    yield f'<h2 id="{claim.id}">{claim.id}: {escape(claim.title)}</h2>'
    yield f"<p><strong>Claimed</strong> ({escape(claim.source)}): {escape(claim.says)}.</p>"
    yield "<table><tr><th>What the text leaves open<th>What we chose"
    yield from (f"<tr><td>{escape(question)}<td>{escape(answer)}" for question, answer in choices.open)
    yield "</table>"
    if found is None:
        command = f"synergy reproduce {claim.id} --scale paper --store DIR"
        yield f"<p class=short>No result is stored: <code>{command}</code>.</p>"
    else:
        yield from _findings(*found)
    if choices.reason:
        yield f"<p><strong>Why:</strong> {escape(choices.reason)}</p>"
    yield f"<p><strong>What would change our mind:</strong> {escape(choices.doubt)}</p>"


def _findings(result: Result, stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the checks of a stored result, its figure, and how it was measured."""
    yield "<table><tr><th><th>What we found<th>paper, or our aim<th>ours<th>verdict"
    for check in result.checks:
        ours = _shown_number(check.ours)
        if check.low is not None and check.high is not None:
            ours += f"<br><small class=i>{check.low:.3g} to {check.high:.3g}</small>"
        yield (
            f"<tr><td>{MARKS[check.verdict]}<td>{escape(check.name)}<br><small>{escape(check.rule)}</small>"
            f"<td>{_shown_number(check.paper)}<td>{ours}<td class=v>{check.verdict}"
        )
    yield "</table>"
    figure = io.BytesIO()
    figures.write(result, figure)
    svg = base64.b64encode(figure.getvalue()).decode("ascii")
    yield f'<img alt="figure of {result.claim.id}" src="data:image/svg+xml;base64,{svg}">'
    yield (
        f"<p><small>{_marked_size(result)}, seed {result.setup['seed']}, commit {escape(stored['commit'])}, "
        f"{escape(stored['machine'])}, {stored['seconds']:.0f} s of measuring</small></p>"
    )
    known = result.claim.parameters
    rows = "".join(
        f"<tr><td>{escape(name)}<td>{escape(_shown_value(result.setup[name]))}<td>{escape(each.about)}"
        for name, each in known.items()
        if name in result.setup
    )
    yield f"<details><summary>All {len(known)} parameters of the set-up</summary><table>{rows}</table></details>"


def _shown_number(value: float | str | None) -> str:
    return "not measured" if value is None else f"{value:.3g}" if isinstance(value, float) else escape(str(value))
