"""Verdicts by stated rules: comparisons of the paper's statements with our measurements.

A measurement is an :class:`~synergy_experiments.framework.measurements.Estimate`: a mean over repetitions with its 95 %
interval. So that a verdict can fail, chance alone must not be able to give it.

==================  =================================================================================================
holds               a gain has an interval that excludes zero, and its mean is within the tolerance of the paper's
                    number; the mean of a number is within its tolerance, and known that accurately; the whole interval
                    is above a bound; a statement about all points is true of all of them, each by an interval
more than claimed   a gain has an interval that excludes zero, and is larger than the paper's by more than the
                    tolerance; the rule says how many times as large
holds in part       a gain has an interval that excludes zero, and is smaller than the paper's by more than the
                    tolerance; a statement is true of more than half of the points
undecided           the interval of a gain contains zero and what would hold; that of a number reaches too far to
                    either side; that of a bound contains it; or there is only one repetition
does not hold       otherwise
not comparable      no comparison is possible: not measured, or not the paper's input
==================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable

from synergy_experiments.framework.claim import Check, Verdict
from synergy_experiments.framework.measurements import Estimate

__all__ = ["at_all", "at_least", "both", "monotone", "near", "not_comparable", "reduction"]


def reduction(name: str, paper: float, ours: Estimate | None, tolerance: float = 0.1, unit: str = "%") -> Check:
    """Check a gain as a share: 0.45 for 45 % less.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Gain in the paper, and our estimate; None: not measured.
    tolerance
        Difference from the paper's gain up to which ours holds, a share.
    unit
        Unit in which numbers are shown.

    >>> reduction("delay", 0.45, Estimate(0.42, 0.3, 0.54)).verdict
    'holds'
    >>> reduction("delay", 0.45, Estimate(0.42, -0.3, 1.1)).verdict
    'undecided'
    >>> reduction("delay", 0.45, Estimate(0.9, 0.8, 1.0))[3:5]
    ('more than claimed', 'holds within ± 10 points of it, in part above 0 %; ours is 2 times as large')
    """
    rule = f"holds within ± {_distance(tolerance, unit)} of it, in part above {_shown(0.0, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule)
    verdict: Verdict
    if ours.above() is not True:
        reaches = ours.high is None or ours.high >= paper - tolerance
        verdict = "undecided" if ours.above() is None and reaches else "does not hold"
    elif ours.value > paper + tolerance:
        verdict = "more than claimed"
        if paper > 0.0:
            rule += f"; ours is {ours.value / paper:.2g} times as large"
    else:
        verdict = "holds" if ours.value >= paper - tolerance else "holds in part"
    return Check(name, paper, ours.value, verdict, rule, ours.low, ours.high)


def at_least(
    name: str,
    paper: float,
    ours: Estimate | None,
    tolerance: float,
    direction: float | None = None,
    unit: str = "%",
) -> Check:
    """Check that the whole interval of our estimate is above the paper's number less a tolerance.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Number of the paper, and our estimate; None: not measured.
    tolerance
        Difference below the paper's number up to which the statement holds, in its unit.
    direction
        Number above which the statement still holds in part, such as that of no effect; None: it never does.
    unit
        Unit in which numbers are shown.

    >>> at_least("success", 0.8, Estimate(0.9, 0.85, 0.95), 0.0).verdict
    'holds'
    >>> at_least("success", 0.8, Estimate(0.9, 0.75, 1.05), 0.0).verdict
    'undecided'
    """
    bound = paper - tolerance
    rule = f"holds if the interval is above {_shown(bound, unit)}"
    if direction is not None:
        rule += f", in part above {_shown(direction, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule)
    verdict: Verdict
    if ours.low is None or ours.high is None:
        verdict = "undecided"
    elif ours.low >= bound:
        verdict = "holds"
    elif direction is not None and ours.low > direction:
        verdict = "holds in part"
    else:
        verdict = "undecided" if ours.high >= (bound if direction is None else direction) else "does not hold"
    return Check(name, paper, ours.value, verdict, rule, ours.low, ours.high)


def near(
    name: str,
    paper: float,
    ours: Estimate | float | None,
    tolerance: float,
    wider: float,
    unit: str = "%",
    why: str = "",
) -> Check:
    """Check that our estimate is near the paper's number, and known accurately.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Number of the paper, and our estimate or computed number; None: not measured.
    tolerance, wider
        Differences from the paper's number within which the statement holds, and holds in part. Unless the whole
        interval is further away, it may not reach further than ``wider`` to either side of our estimate; a computed
        number has no interval.
    unit
        Unit in which numbers are shown.
    why
        Known reason of a difference; it is shown if the number is not within the tolerance.

    >>> near("share", 0.5, Estimate(0.52, 0.5, 0.54), 0.1, 0.2).verdict
    'holds'
    >>> near("share", 0.5, Estimate(0.52, 0.1, 0.94), 0.1, 0.2).verdict
    'undecided'
    >>> near("share", 0.0, Estimate(0.6, 0.3, 0.9), 0.1, 0.2).verdict
    'does not hold'
    """
    rule = f"holds within ± {_distance(tolerance, unit)}, in part within ± {_distance(wider, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule)
    found = ours if isinstance(ours, Estimate) else Estimate.exact(ours)
    off = abs(found.value - paper)
    verdict: Verdict
    if found.low is None or found.high is None:
        verdict = "undecided"
    elif found.low > paper + wider or found.high < paper - wider:
        verdict = "does not hold"
    elif found.high - found.value > wider:
        verdict = "undecided"
    else:
        verdict = "holds" if off <= tolerance else "holds in part" if off <= wider else "does not hold"
    if why and verdict != "holds":
        rule += f"; {why}"
    between = (found.low, found.high) if isinstance(ours, Estimate) else (None, None)
    return Check(name, paper, found.value, verdict, rule, *between)


def at_all(name: str, paper: str, found: Iterable[tuple[object, bool | None]], why: str = "") -> Check:
    """Check a statement about all points; the result names the points at which it is not true.

    Parameters
    ----------
    name, paper
        Name of the comparison, and the statement.
    found
        Pairs of a point and whether the statement is true there; None if the interval does not decide it.
    why
        Known reason why the statement is not true everywhere; it is shown if that is so.

    >>> at_all("lowest", "Synergy lowest at every load", [(100, True), (200, True), (300, False)])[2:4]
    ('at 2 of 3; not at 300', 'holds in part')
    >>> at_all("lowest", "Synergy lowest at every load", [(100, True), (200, None)])[2:4]
    ('at 1 of 2; undecided at 200', 'undecided')
    """
    points = list(found)
    wrong = [point for point, true in points if true is False]
    unsure = [point for point, true in points if true is None]
    rule = "holds where it is true of all points, in part of more than half"
    if not points:
        return Check(name, paper, None, "not comparable", rule)
    right = len(points) - len(wrong) - len(unsure)
    ours = f"at {right} of {len(points)}"
    for word, places in (("not", wrong), ("undecided", unsure)):
        if places:
            ours += f"; {word} at {', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in places)}"
    verdict: Verdict = "does not hold"
    if right == len(points):
        verdict = "holds"
    elif 2 * right > len(points):
        verdict = "holds in part"
    elif 2 * (right + len(unsure)) > len(points):
        verdict = "undecided"
    if why and verdict != "holds":
        rule += f"; {why}"
    return Check(name, paper, ours, verdict, rule)


def monotone(name: str, paper: str, changes: Iterable[tuple[float, Estimate | None]], sign: float) -> Check:
    """Check that values rise (sign 1) or fall (sign -1) from one coordinate to the next, each by an interval.

    Parameters
    ----------
    name, paper
        Name of the comparison, and the statement.
    changes
        Pairs of a coordinate and the change to it from the one before.
    sign
        Direction of the change.

    >>> rising, unclear = Estimate(0.2, 0.1, 0.3), Estimate(0.1, -0.1, 0.3)
    >>> monotone("delay", "rises", [(2, rising), (3, unclear), (4, rising)], 1.0)[2:4]
    ('at 2 of 3; undecided at 3', 'holds in part')
    """
    found = ((x, None if change is None else change.above() if sign > 0.0 else change.below()) for x, change in changes)
    return at_all(name, paper, found)


def both(one: bool | None, other: bool | None) -> bool | None:
    """Whether two statements are true; None if that is undecided.

    >>> both(True, None), both(False, None)
    (None, False)
    """
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def not_comparable(name: str, paper: float | str, ours: Estimate | float | str | None, why: str) -> Check:
    """Return the check of two numbers that cannot be compared; ``why`` is the reason."""
    if isinstance(ours, Estimate):
        return Check(name, paper, ours.value, "not comparable", why, ours.low, ours.high)
    return Check(name, paper, ours, "not comparable", why)


def _distance(value: float, unit: str) -> str:
    """Return a difference of two numbers in words: that of two shares is in percentage points."""
    return f"{value * 100:.3g} points" if unit == "%" else _shown(value, unit)


def _shown(value: float, unit: str) -> str:
    return f"{value * 100:.3g} %" if unit == "%" else f"{value:.3g}{f' {unit}' if unit else ''}"
