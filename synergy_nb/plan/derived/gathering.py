"""Few tuples that leave a source together: for how long a source with a pace keeps them back.

A tuple that travels alone costs its peers what a batch costs, and so does a promise without tuples. Who states a delay
limit says which delay he accepts. So a slow source keeps what it has back for a small share of that limit
(:data:`SHARE`), and projections count that time (:meth:`synergy_nb.models.overheads.Overheads.component`). Nothing is
kept back by the source of a plan without a limit or with a tight one, nor by a source that gives many tuples in that
time.

All sources of a machine emit at the same instants, the multiples of :data:`STEP_S`, whatever their limits are. So its
peers wake up at most twenty times a second for all slow sources, and what applications send on a link at such an
instant leaves in one message.
"""

from __future__ import annotations

import math
from typing import Final

from synergy_nb.plan.operators.sources import GENERATED, pace_of
from synergy_nb.plan.query_plan import Plan

__all__ = ["STEP_S", "gathering", "leaving"]

SHARE: Final = 0.02  # share of the delay limit for which a source keeps tuples back
LONGEST_S: Final = 0.5  # longest time, seconds: rarer tuples would look like bursts to what measures rates
STEP_S: Final = 0.05  # seconds between two instants at which sources emit what they have gathered
REPLAYED: Final = frozenset({*GENERATED, "trace"})  # connectors whose tuples have due times
FEW: Final = 64  # tuples: a source that is expected to give more in that time keeps them back for a shorter time


def gathering(plan: Plan, source: str) -> float:
    """Longest time in seconds for which a source of a plan keeps tuples and promises back; 0 where it keeps none.

    ``source``: operator id of the source.

    >>> from synergy_nb.plan import source
    >>> plans = [source("packets", rate=10.0).sink(delay=delay) for delay in ("1 h", "10 s", "2 s", None)]
    >>> [gathering(plan, "source") for plan in plans]
    [0.5, 0.2, 0.0, 0.0]
    >>> [gathering(source("packets", rate=rate).sink(delay="1 h"), "source") for rate in (640.0, 64_000.0)]
    [0.1, 0.0]
    """
    node, limit = plan.operators[source], plan.qos.delay
    if limit is None or node.kind != "source" or not pace_of(node.params) or node.params["connector"] not in REPLAYED:
        return 0.0
    rate = plan.rate(source)  # 0 by a profile of a single row
    kept = min(SHARE * limit, LONGEST_S, FEW / rate if rate else math.inf)
    return kept if kept >= STEP_S else 0.0


def leaving(due: float, gathers: float) -> float:
    """Time at which a tuple leaves its source that is due at a time and may be kept back for so long, all in seconds.

    It is the last instant in that time at which sources emit; without one, the tuple leaves when it is due.

    >>> [round(leaving(7.02, gathers), 2) for gathers in (0.0, 0.02, 0.2, 0.5)]
    [7.02, 7.02, 7.2, 7.5]
    """
    if not gathers or due == math.inf:
        return due
    return max(due, math.floor((due + gathers) / STEP_S) * STEP_S)
