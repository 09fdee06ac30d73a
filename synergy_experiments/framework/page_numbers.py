"""How the page of claims writes verdicts and numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from synergy_experiments.framework.claim import Check, Verdict
from synergy_experiments.framework.verdicts import CHANCE

__all__ = [
    "LONG",
    "MARKS",
    "OUTCOMES",
    "PLURALS",
    "SHORT",
    "holding",
    "mark",
    "number",
    "outcome",
    "over_readings",
    "several",
    "short",
    "stated",
    "texts",
]

SHORT, LONG = 36, 56  # letters of a statement in words, in the summary and in a section; the whole one is folded
MARKS: Final[Mapping[Verdict, str]] = {
    "does not hold": "✕",
    "undecided": "?",
    "holds in part": "~",
    "not comparable": "·",
    "holds": "✓",
}
#: Verdicts of several checks.
PLURALS: Final[Mapping[Verdict, str]] = {
    "holds": "hold",
    "holds in part": "hold in part",
    "undecided": "undecided",
    "does not hold": "do not hold",
    "not comparable": "not comparable",
}
#: Marks of claims, from the best outcome to none.
OUTCOMES: Final = {"reproduced": "✓", "in part": "~", "undecided": "?", "not reproduced": "✕", "not comparable": "·"}
OURS: Final = ("(ours)", "our aim", "")  # what stands in place of the paper's words in checks of our own
COUNTED: Final = re.compile(r"at (\d+) of (\d+)")  # points at which a statement is true, and of all points
_CLASS: Final = {"✓": "yes", "~": "part", "?": "open", "✕": "no", "·": "open"}  # of the style of a mark


def mark(name: str) -> str:
    """Return the mark of an outcome or a verdict, with its name for those who do not see it."""
    sign = OUTCOMES.get(name) or {str(verdict): each for verdict, each in MARKS.items()}[name]
    return f'<span role=img class="m {_CLASS[sign]}" aria-label="{name}" title="{name}">{sign}</span>'


def texts(check: Check, most: int = sys.maxsize) -> tuple[str, str]:
    """Return the paper's number and ours, with its interval, as HTML; of words at most so many letters."""
    ours = number(short(check.ours, most), check.unit)
    if _varies(check):
        ours += f"<br><small>{_between(check, check.unit)}</small>"
    if CHANCE in check.rule:
        ours += f"<br><small>{CHANCE}</small>"
    return stated(check, most), ours


def stated(check: Check, most: int = sys.maxsize, unit: str = "") -> str:
    """Return the paper's number or words as HTML; a threshold of ours for its words is not the paper's number."""
    if check.words:
        return f"‘{escape(check.words)}’; we test for {number(check.paper, unit or check.unit)}"
    return "" if check.judges == "own" and check.paper in OURS else number(short(check.paper, most), unit or check.unit)


def number(value: float | str | None, unit: str = "") -> str:
    """Return a number with its unit, or a statement in words, as HTML; ``%`` shows a share in per cent."""
    if value is None:
        return "not measured"
    if not isinstance(value, float | int):
        return escape(value)
    return f"{_plain(value * 100)} %" if unit == "%" else f"{_plain(value)}{f' {unit}' if unit else ''}"


def _plain(value: float) -> str:
    """Return a number with three digits, large ones without an exponent."""
    return f"{value:.0f}" if 1000.0 <= abs(value) < 1e9 else f"{value:.3g}"


def _varies(check: Check) -> bool:
    """Whether our number has an interval that is more than a point."""
    return check.low is not None and check.high is not None and check.low != check.high


def _between(check: Check, unit: str) -> str:
    """Return the interval of our number."""
    return _ends(check.low or 0.0, check.high or 0.0, unit)


def _ends(low: float, high: float, unit: str) -> str:
    factor = 100.0 if unit == "%" else 1.0
    return f"{_plain(low * factor)} to {_plain(high * factor)}"


def holding(checks: Sequence[Check]) -> str:
    """Return how many of the statements that can be compared hold, in words; empty without any."""
    compared = [check for check in checks if check.verdict != "not comparable"]
    return f"{sum(check.verdict == 'holds' for check in compared)} of {len(compared)}" if compared else ""


def several(count: int, verdict: Verdict) -> str:
    """Return the verdict of so many checks."""
    return verdict if count == 1 else PLURALS[verdict]


def over_readings(checks: Sequence[Check], unit: str) -> str:
    """Return our number: with its interval if it is one, else from the least to the greatest over readings.

    Of statements about points it is the number of points at which they are true, over all readings.
    """
    first = checks[0]
    counts = [found for check in checks if (found := COUNTED.match(str(check.ours)))]
    if len(counts) == len(checks):
        right, points = (sum(int(found[group]) for found in counts) for group in (1, 2))
        return f"at {right} of {points}"
    numbers = [check.ours for check in checks if isinstance(check.ours, float | int)]
    if len(numbers) > 1:
        low, high = (number(float(f"{each:.2g}"), unit) for each in (min(numbers), max(numbers)))
        ends = [end for check in checks for end in (check.low, check.high) if end is not None]
        hull = f"; intervals {_ends(min(ends), max(ends), unit)}" if ends else ""
        return f"{low.removesuffix(f' {unit}')} to {high} <small>by reading{hull}</small>"
    interval = f" <small>{_between(first, unit)}</small>" if _varies(first) else ""
    return f"{number(short(first.ours, SHORT), unit)}{interval}"


def short(value: float | str | None, most: int) -> float | str | None:
    """Return a statement of words without its last words, if it is long."""
    if not isinstance(value, str) or len(value) <= most:
        return value
    end = max(value.rfind(each, 0, most) for each in ";,") if most == SHORT else -1
    return f"{value[: end if end > 0 else value.rfind(' ', 0, most)]} …"


def outcome(name: str) -> str:
    """Return what came out of a claim in words."""
    return "reproduced in part" if name == "in part" else name
