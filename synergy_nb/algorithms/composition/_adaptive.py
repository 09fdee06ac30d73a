"""A probing ratio that adapts to the needs of requests (section 2.3.1, step 1).

"The probing ratio can be statically defined, or dynamically decided by the system, based on the operator, the
components' availability, the user's QoS requirements, current conditions, or historical measurement data." Here the
configured ratio is multiplied by factors for three of these:

* *history*: the rounds of probes that recent requests of this origin took, on average. Where the first round was
  enough there is no reason for more probes; where it was not, a larger first round saves the time of a second one.
* *QoS*: if the delay limit hardly exceeds the processing times of the plan, near peers have to be found. The ratio
  doubles as the processing times approach the limit.
* *availability*: for an operator with many candidates, a smaller share gives the same choice. The ratio applies to the
  first few candidates in full, and grows with the square root of their number beyond.

The origin applies the first two to the ratio of a request; every probing peer applies the last one.
"""

from __future__ import annotations

import math
from typing import Final

from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import rank_of, ratio_of

LATEST_WEIGHT: Final = 0.2  # weight of the latest request in the smoothed number
MANY: Final = 20  # number of candidates up to which the ratio applies in full


class RoundsHistory:
    """Smoothed number of rounds of probes that requests needed.

    >>> history = RoundsHistory()
    >>> history.add(3)
    >>> round(history.rounds, 2)
    1.4
    """

    def __init__(self) -> None:
        self.rounds = 1.0

    def add(self, rounds: int) -> None:
        """Record the number of rounds that a request needed."""
        self.rounds += LATEST_WEIGHT * (rounds - self.rounds)


def adapted(ratio: float, plan: Plan, history: RoundsHistory) -> float:
    """Probing ratio of a request."""
    tight = 0.0
    if plan.qos.delay:
        least = max(sum(plan.processing_time(operator) for operator in route) for route in plan.routes)
        tight = min(least / plan.qos.delay, 1.0)
    return min(ratio * history.rounds * (1.0 + tight), 1.0)


def share(ratio: float, candidates: int) -> int:
    """Number of candidates to probe, given the ratio and the number of all candidates.

    >>> [share(0.1, number) for number in (10, 20, 80, 500)], share(0.55, 20), share(0.07, 500)
    ([1, 2, 4, 10], 11, 7)
    """
    if candidates <= MANY:
        return rank_of(ratio, candidates)
    part, whole = ratio_of(ratio)
    square = -(-part * part * candidates * MANY // (whole * whole))  # of the share of the root, rounded up
    return math.isqrt(square - 1) + 1 if square else 0
