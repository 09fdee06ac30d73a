"""Verdicts by stated tolerances: comparisons of the paper's statements with our measurements.

==================  =================================================================================================
holds               ours is within the tolerance of the paper's number, or better than it where the claim is a gain;
                    a statement about all points is true of all
holds in part       ours has the same direction, but is smaller; a statement is true of more than half of the points
does not hold       otherwise
not comparable      no comparison is possible: not measured, or not the paper's input
==================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from synergy_experiments.framework.claim import Check, Verdict

__all__ = ["at_all", "at_least", "monotone", "near", "reduction", "unlike"]


def reduction(name: str, paper: float, ours: float | None, tolerance: float = 0.1) -> Check:
    """Check a reduction as a share: 0.45 for 45 % less.

    >>> reduction("delay", 0.45, 0.52).verdict, reduction("delay", 0.45, 0.2).verdict
    ('holds', 'holds in part')
    >>> reduction("delay", 0.45, -0.1).verdict
    'does not hold'
    """
    return at_least(name, paper, ours, tolerance, direction=0.0)


def at_least(
    name: str, paper: float, ours: float | None, tolerance: float, direction: float | None = None, unit: str = "%"
) -> Check:
    """Check that ours is at least the paper's number less a tolerance; in part if above ``direction``, if given."""
    rule = f"holds from {_shown(paper - tolerance, unit)} on"
    if direction is not None:
        rule += f", in part above {_shown(direction, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule)
    verdict: Verdict = "holds" if ours >= paper - tolerance else "does not hold"
    if verdict != "holds" and direction is not None and ours > direction:
        verdict = "holds in part"
    return Check(name, paper, ours, verdict, rule)


def near(name: str, paper: float, ours: float | None, tolerance: float, wider: float, unit: str = "%") -> Check:
    """Check that ours is within a tolerance of the paper's number; in part within a wider one."""
    rule = f"holds within ± {_shown(tolerance, unit)}, in part within ± {_shown(wider, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule)
    off = abs(ours - paper)
    return Check(
        name, paper, ours, "holds" if off <= tolerance else "holds in part" if off <= wider else "does not hold", rule
    )


def at_all(name: str, paper: str, found: Iterable[tuple[object, bool]]) -> Check:
    """Check a statement about each of some points; the result names the points at which it is not true.

    >>> at_all("lowest", "Synergy lowest at every load", [(100, True), (200, True), (300, False)])[2:4]
    ('at 2 of 3; not at 300', 'holds in part')
    """
    points = list(found)
    wrong = [point for point, true in points if not true]
    rule = "holds where it is true of all points, in part of more than half"
    if not points:
        return Check(name, paper, None, "not comparable", rule)
    ours = f"at {len(points) - len(wrong)} of {len(points)}"
    if wrong:
        ours += f"; not at {', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in wrong)}"
    verdict: Verdict = "holds" if not wrong else "holds in part" if 2 * len(wrong) < len(points) else "does not hold"
    return Check(name, paper, ours, verdict, rule)


def monotone(name: str, paper: str, course: Sequence[tuple[float, float]], sign: float) -> Check:
    """Check that values rise (sign 1) or fall (sign -1) from one coordinate to the next.

    >>> monotone("delay", "rises", [(1, 0.1), (2, 0.3), (3, 0.2), (4, 0.5)], 1.0)[2:4]
    ('at 2 of 3; not at 3', 'holds in part')
    """
    return at_all(name, paper, [(x, sign * (value - before) > 0.0) for (_, before), (x, value) in pairwise(course)])


def unlike(name: str, paper: float | str, ours: float | str | None, why: str) -> Check:
    """Return two numbers that cannot be compared, with the reason."""
    return Check(name, paper, ours, "not comparable", why)


def _shown(value: float, unit: str) -> str:
    return f"{value * 100:.3g} %" if unit == "%" else f"{value:.3g}{f' {unit}' if unit else ''}"
