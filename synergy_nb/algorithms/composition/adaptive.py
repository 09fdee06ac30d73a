"""A probing ratio that follows what requests need (section 2.3.1, step 1).

"The probing ratio can be statically defined, or dynamically decided by the system, based on the operator, the
components' availability, the user's QoS requirements, current conditions, or historical measurement data." Here it is
the configured ratio times what these say:

* *history*: the rounds of probes that recent requests of this origin took, on average. Where the first round was
  enough there is no reason for more probes; where it was not, a larger first round saves the time of a second one.
* *QoS*: a limit that leaves little beyond the processing times of the plan needs a choice of near peers. The ratio
  doubles as the processing times approach the limit.
* *availability*: of an operator with many candidates a smaller share gives the same choice. The ratio counts in full
  for as many candidates as a few probes cover, and by the square root beyond.

The first two are known to the origin and make up the ratio of a request; the last is taken by each prober, for it
goes by operator.
"""

from __future__ import annotations

import math
from typing import Final

from synergy_nb.plan import Plan

__all__ = ["History", "adapted", "share"]

MEMORY: Final = 0.2  # weight of the latest request
MANY: Final = 20  # candidates of which the ratio counts in full


class History:
    """Rounds of probes that requests took, smoothed.

    >>> history = History()
    >>> history.add(3)
    >>> round(history.rounds, 2)
    1.4
    """

    def __init__(self) -> None:
        self.rounds = 1.0

    def add(self, rounds: int) -> None:
        """A request was decided after so many rounds."""
        self.rounds += MEMORY * (rounds - self.rounds)


def adapted(ratio: float, plan: Plan, history: History) -> float:
    """Probing ratio of a request.

    Parameters
    ----------
    ratio
        Configured probing ratio.
    plan
        Query plan that is asked for.
    history
        History of the origin's requests.
    """
    tight = 0.0
    if plan.qos.delay:
        least = max(sum(plan.processing_time(operator) for operator in route) for route in plan.routes)
        tight = min(least / plan.qos.delay, 1.0)
    return min(ratio * history.rounds * (1.0 + tight), 1.0)


def share(ratio: float, candidates: int) -> int:
    """Candidates to probe of so many.

    >>> [share(0.1, number) for number in (10, 20, 80, 500)]
    [1, 2, 4, 10]
    """
    counted = min(candidates, math.sqrt(candidates * MANY)) if candidates > MANY else candidates
    return math.ceil(ratio * counted)
