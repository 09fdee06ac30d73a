"""Estimates of operators' memory by stated rates, so that a plan that cannot fit is refused before it starts.

Only statements of the plan count: rates of sources whose event times follow the clock, or a stated speed, and stated
selectivities. Where the plan omits either, nothing is refused; peers measure the memory of operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from synergy_nb.plan.catalogue import KINDS
from synergy_nb.plan.qos import QoS
from synergy_nb.plan.validation import Operator, PlanError, Problem

__all__ = ["check_memory", "on_peers", "retained_bytes"]


class RatedPlan(Protocol):
    """Interface of a query plan for these estimates; see :class:`~synergy_nb.plan.query_plan.Plan`."""

    @property
    def operators(self) -> Mapping[str, Operator]:
        """Operators by id."""

    @property
    def qos(self) -> QoS:
        """QoS requirement."""

    def rate(self, operator: str) -> float:
        """Tuples/s of the operator's stream."""

    def tuple_bytes(self, operator: str) -> float:
        """Mean bytes of a tuple of the operator's stream."""

    def selectivity(self, operator: str) -> float:
        """Tuples out of the operator over tuples in."""


def retained_bytes(plan: RatedPlan, operator: str) -> float:
    """Estimate the bytes of the tuples that an operator retains, by stated rates; 0 where they are unknown.

    >>> from synergy_nb.plan import source
    >>> packets = source("packets", seed=1, rate="1000 tuples/s", duration="10 min")
    >>> plan = packets.sort("bytes", window="1 h").sink()
    >>> retained_bytes(plan, "sort") == 600 * 1000 * plan.tuple_bytes("source")
    True
    """
    node = plan.operators[operator]
    span = _span(node)
    if not span:
        return 0.0
    seconds = ((up, min(span, _horizon(plan, up))) for up in node.streams)
    return sum(_density(plan, up) * each * plan.tuple_bytes(up) for up, each in seconds)


def check_memory(plan: RatedPlan, operators: Iterable[str], limit: float) -> None:
    """Check that the tuples that operators retain fit into their shares of memory.

    Parameters
    ----------
    plan
        Query plan to check.
    operators
        Ids of the operators to check.
    limit
        Share of each operator in bytes, if the plan states none.

    Raises
    ------
    PlanError
        If operators will retain more than their share; the text names each of them, the rate and the remedy.
    """
    problems = []
    share = limit if plan.qos.memory is None else min(plan.qos.memory, limit)
    for name in operators:
        operator, size = plan.operators[name], retained_bytes(plan, name)
        if size > share:
            rate = sum(plan.rate(up) for up in operator.streams)
            held = f"{size / 1e6:,.0f} MB that it will keep at {rate:,.6g} tuples/s"
            expected = (
                f"at most its share of {share / 1e6:,.0f} MB. Shorten its window, filter or aggregate before "
                "it, or give it more with memory= of the sink or of the Cluster"
            )
            problems.append(Problem(name, "memory", held, expected))
    if problems:
        raise PlanError(problems)


def on_peers(plan: RatedPlan, *, spark: bool) -> list[str]:
    """Operators that peers will certainly execute; with ``spark``, ``auto`` operators may run there instead."""
    engines = ("peer",) if spark else ("peer", "auto")
    return [name for name, operator in plan.operators.items() if operator.engine in engines]


def _span(operator: Operator) -> float:
    """Least time for which an operator retains each tuple, seconds of event time."""
    return KINDS[operator.kind].retention(operator.params) if operator.kind in KINDS else 0.0


def _horizon(plan: RatedPlan, operator: str) -> float:
    """Greatest duration of a stream, seconds of event time."""
    node = plan.operators[operator]
    if node.inputs:
        return max(_horizon(plan, up) for up in node.inputs)
    if node.params.get("connector") != "packets":
        return math.inf
    count, rate = node.params.get("count"), node.params["rate"]
    return min(node.params.get("duration") or math.inf, count / rate if count and rate else math.inf)


def _density(plan: RatedPlan, operator: str) -> float:
    """Tuples per second of event time by stated rates and selectivities; 0 where they are unknown."""
    node = plan.operators[operator]
    if node.kind not in KINDS or (KINDS[node.kind].guessed and node.selectivity is None):
        return 0.0
    if node.inputs:
        densities = [_density(plan, up) for up in node.streams]
        return sum(densities) * plan.selectivity(operator) if all(densities) else 0.0
    rate, speed = float(node.params.get("rate") or 0.0), 1.0
    if node.params["connector"] == "trace":
        speed = float(node.params.get("speed") or 0.0)
    return rate / speed if speed else 0.0
