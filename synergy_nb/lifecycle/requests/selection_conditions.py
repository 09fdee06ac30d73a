"""The selection conditions that a complete component graph has to meet (section 2.3.1, step 4)."""

from __future__ import annotations

import math

from synergy_nb.control.graph import ComponentGraph
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import share

__all__ = ["by_more_than", "exceeds", "violated_condition"]


def exceeds(delay: float, limit: float, tolerated: float) -> bool:
    """Whether a projected delay (s) exceeds a limit (s) by more than the tolerated share of the limit.

    >>> exceeds(0.054, 0.05, 0.0), exceeds(0.054, 0.05, 0.1), exceeds(0.056, 0.05, 0.1)
    (True, False, True)
    """
    return delay > limit * (1.0 + tolerated)


def by_more_than(tolerated: float) -> str:
    """Return the words that say by which share a delay may exceed its limit; empty if it may not."""
    return f" by more than {share(tolerated)}" if tolerated else ""


def violated_condition(
    plan: Plan, graph: ComponentGraph, late: float | None, phi: float, tolerated: float = 0.0
) -> str:
    """Describe the first selection condition that a complete graph violates; return an empty text if it meets all.

    Condition 2.1 holds for every merged graph.

    ``late``: share of the tuples that may exceed the delay limit if the plan states no miss rate; None: the mean delay
    is compared with the limit; ``phi``: aggregate φ of the resource use of the graph; infinite if a peer or a link
    lacks capacity; ``tolerated``: share of the delay limit by which the projected delay may exceed it.
    """
    qos = plan.qos
    if qos.delay is not None:
        delay = graph.delay_quantile(plan, late if qos.miss_rate is None else None)
        if exceeds(delay, qos.delay, tolerated):
            return f"delay {delay:.4g} s exceeds {qos.delay:g} s{by_more_than(tolerated)} (2.2)"
    if not math.isfinite(phi):
        return "processing capacity or bandwidth of its peers does not suffice (2.3, 2.4)"
    if qos.miss_rate is not None and qos.delay is not None:
        missed = graph.miss_rate(plan, qos.delay)
        if missed > qos.miss_rate:
            return f"miss rate {missed:.3g} exceeds {qos.miss_rate:g} (2.2)"
    if qos.throughput_tuples is not None or qos.throughput is not None:
        tuples = graph.throughput(plan)
        size = min(plan.tuple_bytes(sink) for sink in plan.sinks)
        if qos.throughput_tuples is not None and tuples < qos.throughput_tuples:
            return f"throughput {tuples:.4g} tuples/s is below {qos.throughput_tuples:g} (2.2)"
        if qos.throughput is not None and tuples * size < qos.throughput:
            return f"throughput {tuples * size:.4g} bytes/s is below {qos.throughput:g} (2.2)"
    return ""
