"""The results of the probes of a request at its origin, and the selection conditions (section 2.3.1, step 4)."""

from __future__ import annotations

import math
from typing import Final

from synergy_nb.algorithms.composition.messages import Dropped
from synergy_nb.control.graph import ComponentGraph, Hop, Roles
from synergy_nb.control.peer import Timer
from synergy_nb.lifecycle.alternatives import Alternative
from synergy_nb.lifecycle.decider import Decided
from synergy_nb.lifecycle.request import Request
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import share

__all__ = ["Pending", "exceeds", "failing"]

UNITS: Final = {"processing capacity": " cores", "bandwidth": " bytes/s", "delay": " s", "QoS impact": " s"}


class Pending:
    """An undecided request, with the results of its probes.

    Parameters
    ----------
    submitted
        The request.
    decided
        Function that receives the answer.
    """

    __slots__ = (
        "alternative",
        "attempt",
        "decided",
        "deploy",
        "dropped",
        "graphs",
        "paths",
        "probed",
        "proposed",
        "qualified",
        "returned",
        "round",
        "stage",
        "submitted",
        "timer",
        "total",
        "tried",
        "unqualified",
        "why",
    )

    def __init__(self, submitted: Request, decided: Decided) -> None:
        self.submitted = submitted
        self.decided = decided
        self.proposed: Roles | None = None  # placement that another decider has proposed
        self.alternative: Alternative | None = None  # alternative that these rounds of probes compose
        self.attempt = 0  # number of rounds of probes so far, which identifies a round at all peers
        self.round = 0  # number of rounds for the present alternative
        self.stage = 0  # stage of deployment, see component_placement
        self.deploy: set[str] = set()  # operators that are to be deployed
        self.total = 0  # weight of all probes of the round
        self.returned = 0  # weight of the probes that have been returned or dropped
        self.paths: dict[tuple[tuple[str, str], ...], tuple[Hop, ...]] = {}
        self.dropped: list[Dropped] = []
        self.probed: set[str] = set()
        self.graphs = 0
        self.why = ""  # reason why the existing components do not suffice
        self.unqualified = ""  # condition that the last unqualified graph violates
        self.tried = 0  # number of graphs of this attempt that were chosen for set-up
        self.qualified: list[tuple[float, ComponentGraph]] = []
        self.timer: Timer | None = None

    @property
    def request(self) -> str:
        """Id of the request."""
        return self.submitted.name

    @property
    def plan(self) -> Plan:
        """The plan that is to be composed: that of the present alternative of the request."""
        return self.submitted.alternative.plan

    def summary(self) -> str:
        """Readable list of the conditions that failed and the peers where they did, the most frequent first."""
        if self.graphs and not self.dropped and not self.unqualified:
            return "none of the composed graphs could be set up"
        if not self.graphs and not self.dropped:
            return "no probe has returned in time"
        parts = []
        if self.unqualified:
            parts.append(f"the selection conditions hold for none of the composed graphs: {self.unqualified}")
        failed: dict[tuple[str, str], list[Dropped]] = {}
        for drop in self.dropped:
            failed.setdefault((drop.operator, drop.condition), []).append(drop)
        for (operator, condition), drops in sorted(failed.items(), key=lambda item: -len(item[1]))[:4]:
            if condition == "acknowledgement":
                silent = ", ".join(sorted({drop.at for drop in drops}))
                parts.append(f"operator {operator}: no acknowledgement from {silent}")
                continue
            nearest = min(drops, key=lambda drop: abs(drop.required - drop.available))
            peers, unit = len({drop.at for drop in drops}), UNITS.get(condition, "")
            if nearest.detail:
                parts.append(
                    f"operator {operator}: {condition} at {peers} peer{'s' if peers > 1 else ''}: {nearest.detail}"
                )
                continue
            verb = "is needed" if condition not in ("delay", "miss rate") else "is allowed"
            if nearest.tolerated:
                verb += f", exceeded{_by_more_than(nearest.tolerated)}"
            parts.append(
                f"operator {operator}: {condition} at {peers} peer{'s' if peers > 1 else ''}, at best "
                f"{nearest.available:.4g}{unit} where {nearest.required:.4g}{unit} {verb} ({nearest.at})"
            )
        return "; ".join(parts)


def exceeds(delay: float, limit: float, tolerated: float) -> bool:
    """Whether a projected delay exceeds a limit by more than a tolerated share, so that the plan is refused.

    >>> exceeds(0.054, 0.05, 0.0), exceeds(0.054, 0.05, 0.1), exceeds(0.056, 0.05, 0.1)
    (True, False, True)
    """
    return delay > limit * (1.0 + tolerated)


def _by_more_than(tolerated: float) -> str:
    """Text for the tolerated share by which a refused delay exceeds the limit; empty if nothing is tolerated."""
    return f" by more than {share(tolerated)}" if tolerated else ""


def failing(plan: Plan, graph: ComponentGraph, late: float | None, phi: float, tolerated: float = 0.0) -> str:
    """The selection condition that a complete graph violates, as text; empty if none.

    Condition 2.1 holds for every merged graph. ``late`` is the share of tuples that may exceed the limit if the plan
    states no miss rate; None to compare the mean. ``tolerated`` is the share by which the projected delay may exceed
    the limit.
    """
    qos = plan.qos
    if qos.delay is not None:
        delay = graph.delay_quantile(plan, late if qos.miss_rate is None else None)
        if exceeds(delay, qos.delay, tolerated):
            return f"delay {delay:.4g} s exceeds {qos.delay:g} s{_by_more_than(tolerated)} (2.2)"
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
