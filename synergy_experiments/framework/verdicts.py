"""Verdicts by stated rules: comparisons of the papers' statements with our measurements.

A measurement is an :class:`~synergy_experiments.framework.measurements.Estimate`: a mean over repetitions with its 95 %
interval. So that a verdict can fail, chance alone must not be able to give it.

==================  =================================================================================================
holds               the whole interval of a number or a gain is within the tolerance of the paper's (an equivalence
                    test: two one-sided tests); the whole interval is above a bound; a statement about all points is
                    true of each of them by an interval, or in every single run
holds in part       a gain has the paper's direction by an interval that excludes zero, but another size: smaller, or
                    larger by no more than a wider tolerance; a number is within the wider tolerance; a statement is
                    true of more than half of the points
undecided           the interval contains both what would hold and what would not; or there is only one repetition
does not hold       otherwise: the whole interval is outside of what would hold
not comparable      no comparison is possible: not measured, or not the paper's input
==================  =================================================================================================

Each check says how easily chance alone gives its "holds" (``p``), and :func:`corrected` takes back what holds by chance
alone among so many checks. A claim has one verdict (:func:`of_claim`): whether it was reproduced. Only the paper's
statements count for it, not what we check of our own arithmetic (:func:`own`), nor shapes that were fitted
(:func:`fitted`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from synergy_experiments.framework.claim import Check, ClaimVerdict, Verdict
from synergy_experiments.framework.measurements import UNDECIDED, Decision, Estimate, Measured, least_runs
from synergy_nb.plan.terms.units import counted

__all__ = [
    "CHANCE",
    "Statement",
    "at_all",
    "at_least",
    "corrected",
    "fitted",
    "in_every_run",
    "monotone",
    "near",
    "not_comparable",
    "of_claim",
    "own",
    "reduction",
    "threshold",
]

Statement: TypeAlias = tuple[str, str, Sequence[tuple[str, bool]]]
"""Name, statement of the paper, and pairs of a point and whether the statement is true there."""

FALSE_SHARE: Final = 0.05  # expected share of false ones among all checks that hold
CHANCE: Final = "chance is not excluded"  # in the rule of what would hold if fewer statements were tested
MORE: Final = 0.25  # a gain that is larger than the paper's by more than this is another one


def reduction(name: str, paper: float, ours: Estimate | None, tolerance: float = 0.1, unit: str = "%") -> Check:
    """Check a gain as a share: 0.45 for 45 % less.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Gain in the paper, and our estimate; None: not measured.
    tolerance
        Difference from the paper's gain up to which ours holds, a share; one that is larger by at most
        :data:`MORE`, or smaller, holds in part.
    unit
        Unit in which numbers are shown.

    >>> reduction("delay", 0.45, Estimate(0.42, 0.38, 0.46)).verdict
    'holds'
    >>> reduction("delay", 0.45, Estimate(0.42, -0.3, 1.1)).verdict
    'undecided'
    >>> reduction("delay", 0.45, Estimate(0.6, 0.56, 0.64))[3]
    'holds in part'
    >>> reduction("delay", 0.45, Estimate(0.9, 0.8, 1.0))[3:5]
    ('does not hold', 'holds if the interval is within ± 10 points, in part above 0 % up to 25 points more; larger')
    """
    wider = max(tolerance, MORE)
    rule = (
        f"holds if the interval is within ± {_distance(tolerance, unit)}, "
        f"in part above {_shown(0.0, unit)} up to {_distance(wider, unit)} more"
    )
    if ours is None:
        return Check(name, paper, None, "not comparable", rule, unit=unit)
    alike, gains = ours.between(paper - tolerance, paper + tolerance), ours.above()
    no_more, as_much = ours.at_most(paper + wider), ours.above(paper - tolerance)
    verdict: Verdict = "undecided"
    if alike.true and gains.true:
        verdict = "holds"
    elif no_more.true is False or gains.true is False or (gains.true is None and as_much.true is False):
        verdict = "does not hold"
    elif gains.true and no_more.true:
        verdict = "holds in part"
    if verdict != "holds":
        found = "larger" if ours.value > paper else "smaller"
        rule += "; its size is undecided" if alike.true is None else f"; {found}"
    return _check(name, paper, ours, verdict, rule, max(alike.p, gains.p), unit)


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
        return Check(name, paper, None, "not comparable", rule, unit=unit)
    above = ours.at_least(bound)
    verdict: Verdict
    if above.true:
        verdict = "holds"
    elif direction is not None and ours.above(direction).true:
        verdict = "holds in part"
    else:
        reached = ours.above(bound if direction is None else direction)
        verdict = "undecided" if reached.true is None else "does not hold"
    return _check(name, paper, ours, verdict, rule, above.p, unit)


def near(
    name: str, paper: float, ours: Estimate | None, tolerance: float, wider: float, unit: str = "%", why: str = ""
) -> Check:
    """Check that our estimate is surely near the paper's number.

    Parameters
    ----------
    name
        Name of the comparison.
    paper, ours
        Number of the paper, and our estimate (:meth:`.Estimate.exact` if it is computed); None: not measured.
    tolerance, wider
        Differences from the paper's number within which the whole interval holds, and holds in part.
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
    rule = f"holds if the interval is within ± {_distance(tolerance, unit)}, in part within ± {_distance(wider, unit)}"
    if ours is None:
        return Check(name, paper, None, "not comparable", rule, unit=unit)
    alike, about = (ours.between(paper - distance, paper + distance) for distance in (tolerance, wider))
    verdict: Verdict = "undecided"
    if alike.true:
        verdict = "holds"
    elif about.true:
        verdict = "holds in part"
    elif about.true is False:
        verdict = "does not hold"
    if why and verdict != "holds":
        rule += f"; {why}"
    return _check(name, paper, ours, verdict, rule, alike.p, unit)


def at_all(name: str, paper: str, found: Iterable[tuple[object, Decision | None]], why: str = "") -> Check:
    """Check a statement about all points; the result names the points at which it is not true.

    Parameters
    ----------
    name, paper
        Name of the comparison, and the statement.
    found
        Pairs of a point and whether the statement is true there, by an interval or in every run; None: not measured.
    why
        Known reason why the statement is not true everywhere; it is shown if that is so.

    >>> yes, no, unsure = Decision.fact(True), Decision.fact(False), Decision(None)
    >>> at_all("lowest", "Synergy lowest at every load", [(100, yes), (200, yes), (300, no)])[2:4]
    ('at 2 of 3; not at 300', 'holds in part')
    >>> at_all("lowest", "Synergy lowest at every load", [(100, yes), (200, unsure)])[2:4]
    ('at 1 of 2; undecided at 200', 'undecided')
    """
    points = [(point, UNDECIDED if each is None else each) for point, each in found]
    apart = "; " if any(", " in str(point) for point, _ in points) else ", "
    wrong = [point for point, each in points if each.true is False]
    unsure = [point for point, each in points if each.true is None]
    rule = "holds where it is true of all points, in part of more than half"
    if not points:
        return Check(name, paper, None, "not comparable", rule)
    right = len(points) - len(wrong) - len(unsure)
    ours = f"at {right} of {len(points)}"
    for word, places in (("not", wrong), ("undecided", unsure)):
        if places:
            ours += (
                f"; {word} at {apart.join(f'{each:g}' if isinstance(each, float) else str(each) for each in places)}"
            )
    verdict: Verdict = "does not hold"
    if right == len(points):
        verdict = "holds"
    elif 2 * right > len(points):
        verdict = "holds in part"
    elif 2 * (right + len(unsure)) > len(points):
        verdict = "undecided"
    if why and verdict != "holds":
        rule += f"; {why}"
    decided = [each for _, each in points]
    return Check(name, paper, ours, verdict, rule, p=max(each.p for each in decided), runs=least_runs(decided))


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


def in_every_run(measured: Measured, statements: Callable[[Measured], Iterable[Statement]]) -> Iterator[Check]:
    """Check statements about points that each run decides by itself: they have to be true in every one.

    Parameters
    ----------
    measured
        Measurements of all repetitions.
    statements
        Function of the measurements of one repetition that returns what it decides.
    """
    found: dict[tuple[str, str], dict[object, bool]] = {}
    for one in measured.each():
        for name, paper, points in statements(one):
            known = found.setdefault((name, paper), {})
            for point, true in points:
                known[point] = known.get(point, True) and true
    for (name, paper), known in found.items():
        yield at_all(name, paper, [(point, Decision.fact(true, len(measured.each()))) for point, true in known.items()])


def not_comparable(
    name: str, paper: float | str, ours: Estimate | float | str | None, why: str, unit: str = ""
) -> Check:
    """Return the check of two numbers that cannot be compared; ``why`` is the reason."""
    if isinstance(ours, Estimate):
        return _check(name, paper, ours, "not comparable", why, 1.0, unit)
    return Check(name, paper, ours, "not comparable", why, unit=unit)


def threshold(check: Check, words: str) -> Check:
    """Say that the number to which a check compares ours is our threshold for these words of the paper."""
    return check._replace(words=words)


def own(check: Check) -> Check:
    """Mark a check of our own arithmetic or aim: no paper states it, and it does not count for the claim."""
    return check._replace(judges="own")


def fitted(check: Check) -> Check:
    """Mark a check of a shape that was fitted to measurements: it does not count for the claim."""
    return check._replace(judges="fitted")


def corrected(checks: Sequence[Check]) -> list[Check]:
    """Return checks after the correction for their number: among those that hold, 5 % are expected to be false.

    The correction is that of Benjamini and Hochberg (1995) over the statements of the papers that chance can make true:
    not what is computed, or decided by each single run (``p`` is 0). Only what holds is corrected; a check that held
    and does so no longer is undecided.

    >>> sure, unsure = Check("a", "", 1.0, "holds", "", p=0.001), Check("b", "", 1.0, "holds", "", p=0.024)
    >>> [check.verdict for check in corrected([sure, unsure])]
    ['holds', 'holds']
    >>> [check.verdict for check in corrected([sure, unsure, *([unsure._replace(verdict="undecided", p=0.6)] * 3)])]
    ['holds', 'undecided', 'undecided', 'undecided', 'undecided']
    """
    tested = sorted(
        check.p for check in checks if check.judges == "paper" and check.verdict != "not comparable" and check.p > 0.0
    )
    passed = [p for rank, p in enumerate(tested, start=1) if p <= FALSE_SHARE * rank / len(tested)]
    most = passed[-1] if passed else 0.0
    told = f"{CHANCE}, as {counted(len(tested), 'statement')} are tested"
    return [
        check._replace(verdict="undecided", rule=f"{check.rule}; {told}")
        if check.judges == "paper" and check.verdict == "holds" and check.p > most
        else check
        for check in checks
    ]


def of_claim(checks: Iterable[Check], *, whole: bool = True) -> ClaimVerdict:
    """Return whether a claim was reproduced, by the statements of the paper.

    It was if each that can be compared holds, and at least half of them can; in part if at least half of those that can
    be compared hold, or hold in part; else it was not if one is surely wrong. Without the ``whole`` measurement, as
    cells failed, it was at most in part.

    >>> holds, wrong = Check("a", "", 1.0, "holds", ""), Check("b", "", 1.0, "does not hold", "")
    >>> of_claim([holds, own(wrong)]), of_claim([holds, wrong]), of_claim([holds, wrong, wrong]), of_claim([own(holds)])
    ('reproduced', 'in part', 'not reproduced', 'not comparable')
    >>> of_claim([holds, *[holds._replace(verdict="undecided")] * 2])
    'undecided'
    >>> of_claim([holds, *[not_comparable("", 1.0, None, "not measured")] * 2])
    'in part'
    """
    found = Counter(check.verdict for check in checks if check.judges == "paper")
    unknown = found.pop("not comparable", 0)
    if not found:
        return "not comparable"
    if found.keys() == {"holds"} and found["holds"] >= unknown and whole:
        return "reproduced"
    if 2 * (found["holds"] + found["holds in part"]) >= found.total():
        return "in part"
    return "not reproduced" if found["does not hold"] else "undecided"


def _check(name: str, paper: float | str, ours: Estimate, verdict: Verdict, rule: str, p: float, unit: str) -> Check:
    if ours.missing:
        rule += f"; {counted(ours.missing, 'repetition')} without a value"
    exact = not ours.values and ours.low == ours.high
    low, high = (None, None) if exact else (ours.low, ours.high)
    return Check(name, paper, ours.value, verdict, rule, low, high, p, unit=unit, runs=ours.runs)


def _distance(value: float, unit: str) -> str:
    """Return a difference of two numbers in words: that of two shares is in percentage points."""
    return f"{value * 100:.3g} points" if unit == "%" else _shown(value, unit)


def _shown(value: float, unit: str) -> str:
    return f"{value * 100:.3g} %" if unit == "%" else f"{value:.3g}{f' {unit}' if unit else ''}"
