"""The parts of a projected delay for which a plan was refused, for people.

Probes add up the delay hop by hop and report the sum. This module reconstructs the parts from the journal's events
about the path (:class:`~synergy_nb.reporting.explanation.Explanation`) and from the measurements of its peers
(:mod:`synergy_nb.models.overheads`). The last part is the remainder of the sum: unknown times, and the additional time
of the slowest tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from synergy_nb.events import GraphEvaluated, ProbeAccepted, ProbeDropped
from synergy_nb.models.overheads import HOP, LINK, SOURCE, Overhead, Overheads
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.gathering import gathering
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds

__all__ = ["RefusedDelay", "refused_delay"]

NEGLIGIBLE = 0.001  # share of a delay; smaller parts are omitted
#: Stage to the mean (seconds) and the variance (seconds squared) that a peer has measured.
Stages = Mapping[str, tuple[float, float]]


class RefusedDelay(NamedTuple):
    """A projected delay and its parts, in seconds.

    Examples
    --------
    >>> print(RefusedDelay("sink", "peer-2", 0.001, 0.0026, 0.0004, 0.0005, 0.0, 0.0012, 1, 0.0005))
    the delay of 2.6 ms up to sink at peer-2 is about: source 400 µs, processing 500 µs, 1 hop 1.2 ms, variation 500 µs
    """

    # operator, at: operator at which the limit was exceeded, and the name of its peer
    operator: str
    at: str
    # limit, total: limit of the plan, and the projected delay up to this operator, seconds
    limit: float
    total: float
    source: float  # time of a tuple at its source, seconds
    processing: float  # time of the calls of all operators, including the processing of the tuple, seconds
    waiting: float  # time for which a tuple waits for others at the components, seconds
    hops: float  # time on links between peers, seconds
    crossings: int  # number of hops between peers
    # remainder of the delay, seconds. Most of it is variation: the slowest of the tuples that have to meet the limit
    # take longer than the mean
    rest: float

    def __str__(self) -> str:
        parts = {
            "source": self.source,
            "processing": self.processing,
            "waiting": self.waiting,
            counted(self.crossings, "hop"): self.hops,
            "variation": self.rest,
        }
        parts_text = ", ".join(
            f"{name} {seconds(part)}" for name, part in parts.items() if part > NEGLIGIBLE * self.total
        )
        return f"the delay of {seconds(self.total)} up to {self.operator} at {self.at} is about: {parts_text}"


class Account(Protocol):
    """The part of a request's account that concerns delays."""

    qos: dict[str, float]
    dropped: list[ProbeDropped]
    accepted: list[ProbeAccepted]
    graphs: list[GraphEvaluated]


def refused_delay(plan: Plan, account: Account, measured: Mapping[str, Stages]) -> RefusedDelay | None:
    """Find the least delay for which a request was refused, with its parts; None if no delay was a reason.

    ``plan``: query plan of the request; ``account``: account of the request; ``measured``: name of a peer to the stages
    that it has measured.
    """
    refused = _refused(plan, account)
    if refused is None:
        return None
    route, peers, total, before = refused
    known = {
        peer: Overheads.known({stage: Overhead(*each) for stage, each in measured.get(peer, {}).items()})
        for peer in peers
    }
    links = [
        known[there].expected(LINK).mean + known[there].expected(HOP).mean if here != there else 0.0
        for here, there in pairwise(peers)
    ]
    first = known[peers[0]]
    source = 0.0 if first.empty else first.expected(SOURCE).mean + gathering(plan, route[0])
    calls = [plan.processing_time(name) for name in route]
    for number, (name, peer) in enumerate(zip(route[1:], peers[1:], strict=True), start=1):
        calls[number] += known[peer].expected(plan.operators[name].kind).mean
    waiting = max(before - source - sum(calls[:-1]) - sum(links[:-1]), 0.0)
    rest = max(total - source - sum(calls) - sum(links) - waiting, 0.0)
    limit, crossings = account.qos.get("delay", 0.0), sum(here != there for here, there in pairwise(peers))
    return RefusedDelay(route[-1], peers[-1], limit, total, source, sum(calls), waiting, sum(links), crossings, rest)


def _refused(plan: Plan, account: Account) -> tuple[Sequence[str], Sequence[str], float, float] | None:
    """Find the refused path whose limit was exceeded farthest from its source; of several, the fastest.

    Returns
    -------
    route, peers, total, before
        Operators of the path, the names of their peers, the delay up to its end, and the delay up to the previous
        operator if it is known, seconds.
    """
    found: list[tuple[int, float, Sequence[str], Sequence[str], float]] = []
    for drop in account.dropped:
        if drop.condition != "delay" or drop.operator not in plan.operators:
            continue
        route = next(route for route in plan.routes if drop.operator in route)
        route = route[: route.index(drop.operator) + 1]
        passed = [each for each in account.accepted if len(route) > 1 and _fits(each, route)]
        path = min(passed, key=lambda each: each.so_far_s, default=None)
        peers = [drop.at] * len(route) if path is None else [*path.via, path.peer, drop.at]
        before = 0.0 if path is None else path.so_far_s
        found.append((-len(route), drop.available, route, peers, before))
    for graph in account.graphs:
        if graph.unqualified.startswith("delay") and all(graph.peers.keys() >= {*route} for route in plan.routes):
            route = max(plan.routes, key=len)
            peers = [graph.peers[name] for name in route]
            found.append((-len(plan.operators) - 1, graph.delay_s, route, peers, 0.0))
    if not found:
        return None
    _, total, farthest, where, before = min(found, key=lambda each: each[:2])
    return farthest, where, total, before


def _fits(accepted: ProbeAccepted, route: Sequence[str]) -> bool:
    """Whether an accepted probe is for the last but one operator of a route, and came along the route."""
    return accepted.operator == route[-2] and len(accepted.via) == len(route) - 2
