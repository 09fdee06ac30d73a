"""The decision of admission about a plan, and the delay that the plan then had: live or simulated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["LONGEST", "SHORTEST", "Answer", "over_all_limits", "summarised"]

SHORTEST: Final = 0.001  # seconds of the shortest limit; limits are drawn evenly on a logarithmic scale
LONGEST: Final = 1.0  # seconds of the longest limit


class Answer(NamedTuple):
    """The outcome of one plan.

    Parameters
    ----------
    limit
        Delay limit in seconds.
    reason
        Reason why the plan was refused with that limit; empty if it was admitted.
    projected, measured
        Delay that all but the promised share of the tuples met, seconds: as projected for the graph that ran, and as
        measured at its sink. None if the plan could not run without a limit either, or no tuple reached its sink.
    again
        Measured delay of a second run of the same plan, right after the first, seconds; None if it was run once.
    """

    limit: float
    reason: str
    projected: float | None
    measured: float | None
    again: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the limit was met, or would have been."""
        return self.measured is not None and self.measured <= self.limit


def _spread(answers: Sequence[Answer]) -> dict[str, float]:
    """Ratios of measured to projected times: the median, and the middle half."""
    ratios = sorted(each.measured / each.projected for each in answers if each.measured and each.projected)
    if not ratios:
        return {}
    return {f"q{share}": round(ratios[len(ratios) * share // 100], 3) for share in (25, 50, 75)}


def over_all_limits(pairs: Iterable[tuple[float, float]], guard_band: float = 0.0) -> dict[str, float]:
    """Expected shares over all random limits, so that they do not depend on the limits that were drawn.

    A plan that is projected to take P seconds and takes m is admitted with limits from p = P / (1 + g) on, g being the
    guard band, and keeps limits from m on. So of ln(LONGEST / p) of the scale on which it is admitted, it breaks
    ln(m / p) where m > p; and of ln(p / SHORTEST) on which it is refused, it would have kept ln(p / m) where m < p. The
    shares are sums over all plans.

    Parameters
    ----------
    pairs
        Projected seconds and measured seconds, for each plan.
    guard_band
        Share by which a projected delay may exceed a limit before the plan is refused.

    Returns
    -------
    dict of str to float
        ``admitted_kept`` and ``refused_would_have_kept``; ``off`` is the mean distance of ln m from ln P.

    Examples
    --------
    >>> over_all_limits([(0.01, 0.01), (0.01, 0.1)])
    {'admitted_kept': 0.75, 'refused_would_have_kept': 0.0, 'off': 1.151}
    >>> over_all_limits([(0.011, 0.01)]), over_all_limits([(0.011, 0.01)], guard_band=0.1)["refused_would_have_kept"]
    ({'admitted_kept': 1.0, 'refused_would_have_kept': 0.0397, 'off': 0.095}, 0.0)
    """
    admitted = broken = refused = kept = off = 0.0
    number = 0
    for projected, measured in pairs:
        p, m = (math.log(min(max(each, SHORTEST), LONGEST)) for each in (projected / (1.0 + guard_band), measured))
        admitted += math.log(LONGEST) - p
        broken += max(m - p, 0.0)
        refused += p - math.log(SHORTEST)
        kept += max(p - m, 0.0)
        off += abs(math.log(measured / projected))
        number += 1
    return {
        "admitted_kept": round(1.0 - broken / admitted, 4) if admitted else 1.0,
        "refused_would_have_kept": round(kept / refused, 4) if refused else 0.0,
        "off": round(off / max(number, 1), 3),
    }


def summarised(answers: Sequence[Answer], guard_band: float = 0.0) -> dict[str, Any]:
    """Counts and shares of admitted plans that met their limit, and of refused plans that would have met it."""
    admitted = [each for each in answers if not each.reason]
    refused = [each for each in answers if each.reason]
    would = [each for each in refused if each.kept]
    return {
        "admitted": len(admitted),
        "admitted_kept": round(sum(each.kept for each in admitted) / max(len(admitted), 1), 4),
        "refused": len(refused),
        "refused_would_have_kept": round(len(would) / max(len(refused), 1), 4),
        "measured_to_projected": _spread(answers),
        "over_all_limits": over_all_limits(
            ((each.projected, each.measured) for each in answers if each.projected and each.measured), guard_band
        ),
    }
