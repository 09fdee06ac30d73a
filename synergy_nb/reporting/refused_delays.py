"""What a projected delay consists of, for people: the parts of the delay for which a plan was refused.

Probes add up the delay hop by hop and tell the sum. The parts are put together again from what the journal has of the
path (:class:`~synergy_nb.reporting.explanation.Explanation`) and what its peers have measured
(:mod:`synergy_nb.models.overheads`). What neither tells, and what the slowest tuples take more than the mean, is the
last part, so that all parts make up the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from synergy_nb.events import GraphEvaluated, ProbeAccepted, ProbeDropped
from synergy_nb.models.overheads import HOP, LINK, SOURCE, Overhead, Overheads
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import counted, seconds

__all__ = ["Delay", "refused_delay"]

NEGLIGIBLE = 0.001  # share of a delay; a smaller part is not told
#: Stage to the mean (seconds) and the variance (seconds squared) that a peer has measured.
Stages = Mapping[str, tuple[float, float]]


class Delay(NamedTuple):
    """A projected delay and its parts, in seconds.

    Parameters
    ----------
    operator, at
        Operator at which the limit was exceeded, and the name of its peer.
    limit, total
        Limit of the plan, and the delay that was projected up to this operator.
    source
        Time in which a source hands a tuple over.
    processing
        Time of the calls of all operators, and of the tuple in them.
    waiting
        Time for which a tuple waits for others at the components.
    hops
        Time on the way between peers.
    crossings
        Number of ways between peers.
    rest
        Remainder of the delay, most of it variation: the slowest of the tuples that have to meet the limit take longer
        than the mean.

    Examples
    --------
    >>> print(Delay("sink", "peer-2", 0.001, 0.0026, 0.0004, 0.0005, 0.0, 0.0012, 1, 0.0005))
    the delay of 2.6 ms up to sink at peer-2 is about: source 400 µs, processing 500 µs, 1 hop 1.2 ms, variation 500 µs
    """

    operator: str
    at: str
    limit: float
    total: float
    source: float
    processing: float
    waiting: float
    hops: float
    crossings: int
    rest: float

    def __str__(self) -> str:
        parts = {
            "source": self.source,
            "processing": self.processing,
            "waiting": self.waiting,
            counted(self.crossings, "hop"): self.hops,
            "variation": self.rest,
        }
        said = ", ".join(f"{name} {seconds(part)}" for name, part in parts.items() if part > NEGLIGIBLE * self.total)
        return f"the delay of {seconds(self.total)} up to {self.operator} at {self.at} is about: {said}"


class Account(Protocol):
    """The account of a request, as far as it concerns delays."""

    asked: dict[str, float]
    dropped: list[ProbeDropped]
    accepted: list[ProbeAccepted]
    graphs: list[GraphEvaluated]


def refused_delay(plan: Plan, account: Account, measured: Mapping[str, Stages]) -> Delay | None:
    """The least delay for which a request was refused, in parts; None if no delay was a reason.

    Parameters
    ----------
    plan
        Query plan of the request.
    account
        Account of the request.
    measured
        Name of a peer to the stages that it has measured.
    """
    refused = _refused(plan, account)
    if refused is None:
        return None
    route, places, total, before = refused
    known = {
        peer: Overheads.known({stage: Overhead(*each) for stage, each in measured.get(peer, {}).items()})
        for peer in places
    }
    ways = [
        known[there].expected(LINK).mean + known[there].expected(HOP).mean if here != there else 0.0
        for here, there in pairwise(places)
    ]
    source = known[places[0]].expected(SOURCE).mean
    calls = [plan.processing_time(name) for name in route]
    for number, (name, peer) in enumerate(zip(route[1:], places[1:], strict=True), start=1):
        calls[number] += known[peer].expected(plan.operators[name].kind).mean
    waiting = max(before - source - sum(calls[:-1]) - sum(ways[:-1]), 0.0)
    rest = max(total - source - sum(calls) - sum(ways) - waiting, 0.0)
    limit, crossings = account.asked.get("delay", 0.0), sum(here != there for here, there in pairwise(places))
    return Delay(route[-1], places[-1], limit, total, source, sum(calls), waiting, sum(ways), crossings, rest)


def _refused(plan: Plan, account: Account) -> tuple[Sequence[str], Sequence[str], float, float] | None:
    """The path that was refused for its delay farthest from its source; of several, the fastest.

    Returns
    -------
    route, places, total, before
        Operators of the path, the names of their peers, the delay up to its end, and that up to the operator before, as
        far as it is known. Seconds.
    """
    found: list[tuple[int, float, Sequence[str], Sequence[str], float]] = []
    for drop in account.dropped:
        if drop.condition != "delay" or drop.operator not in plan.operators:
            continue
        route = next(route for route in plan.routes if drop.operator in route)
        route = route[: route.index(drop.operator) + 1]
        passed = [each for each in account.accepted if len(route) > 1 and _fits(each, route)]
        path = min(passed, key=lambda each: each.so_far_s, default=None)
        places = [drop.at] * len(route) if path is None else [*path.via, path.peer, drop.at]
        before = 0.0 if path is None else path.so_far_s
        found.append((-len(route), drop.available, route, places, before))
    for graph in account.graphs:
        if graph.unqualified.startswith("delay") and all(graph.peers.keys() >= {*route} for route in plan.routes):
            route = max(plan.routes, key=len)
            places = [graph.peers[name] for name in route]
            found.append((-len(plan.operators) - 1, graph.delay_s, route, places, 0.0))
    if not found:
        return None
    _, total, farthest, where, before = min(found, key=lambda each: each[:2])
    return farthest, where, total, before


def _fits(accepted: ProbeAccepted, route: Sequence[str]) -> bool:
    """Whether an accepted probe is one for the operator before the last of a route, and came along the route."""
    return accepted.operator == route[-2] and len(accepted.via) == len(route) - 2
