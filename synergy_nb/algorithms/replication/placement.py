"""Placement of active replicas: the origin computes a deployment of least network cost, and its peers commit it.

Theory of operation
-------------------
Routes of an expanded plan multiply: with k replicas of each of n operators there are k^n, so nothing here enumerates
them. The origin asks all candidates once (:mod:`.candidate_survey`), computes a deployment by algorithm 5 of [1]_ and a
local search, and compares the projected delay with the plan's limit: a port has a tuple when the fastest of its stream
replicas delivers it, so the delay is a recursion over the operators. Capacity, bandwidth and the impact on running
applications are checked by what the candidates answered, and once more by each peer that commits replicas. If one
refuses, the replicas are placed once more without it.

- Replicas of an operator are at different peers, further apart than ``qos.replica_distance`` where a plan has that.
  If there is no further candidate, an operator has fewer replicas, and the journal names it.
- An operator whose ``availability`` asks for backups has one primary, placed like an operator with one active replica,
  and backups in the order of preference of chapter 4 (:mod:`.backup_peers`). As with active replicas, nothing is
  reserved before the session commits; a peer that refuses is left out at the next attempt.
- Sinks that write nothing to the outside, operators that a plan pins to a peer, and sources that ask for no replicas
  have one peer. The application ends with their peers. So replicas are at other peers as long as there are enough; and
  such a source is at the origin if the origin offers it, while one with backups is not. The readers of one source are
  at different peers as long as there are enough. A source that asks for active replicas is placed as an operator is.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section V-A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from synergy_nb.algorithms.replication.backup_peers import BackupPeers, Preferred
from synergy_nb.algorithms.replication.candidate_survey import (
    MOST_CANDIDATES,
    CandidateAnswer,
    CandidateSurvey,
    IncomingLink,
    delays_between,
)
from synergy_nb.algorithms.replication.deployment import ALPHA, Deployed, ReplicaLimits
from synergy_nb.algorithms.replication.local_search import SEARCH_STARTS, best_deployment
from synergy_nb.algorithms.replication.system import Query, QueryEdge, Servers, network_cost
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.peer import Peer
from synergy_nb.control.roles import Roles
from synergy_nb.events import GraphSelected, ReplicasDeployed
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import Decided, Decision, Refusal, find_candidates
from synergy_nb.lifecycle.requests.selection_conditions import violated_condition
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.overlay.latency import Latency
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import is_replicable
from synergy_nb.plan.derived.active_replicas import degrees_of, least_degree, replica_id, replicated
from synergy_nb.plan.derived.replica_agreement import agreements, readings
from synergy_nb.plan.derived.source_readers import readers_of
from synergy_nb.plan.terms.units import counted

__all__ = ["ActivePlacement"]

MOST_TRIES: Final = 3  # largest number of placements for one request


class ActivePlacement:
    """The decider for plans with active replicas, in which all replicas of an operator execute."""

    def __init__(
        self,
        peer: Peer,  # the peer, which is the origin
        survey: CandidateSurvey,
        latency: Latency,
        is_dead: Callable[[str], bool],  # function from an address to whether that peer is known to have died
        # miss rate of plans that state none: share of the tuples that may exceed the limit of the delay. None: the mean
        # delay is compared with the limit
        late: float | None,
        # function from a plan to the share by which its projected delay may exceed its limit
        tolerated: Callable[[Plan], float],
        # function from the number of replicas that a plan requires to the number that collection retains
        retained: Callable[[int], int],
        # function that returns candidates for a backup in the order of preference, see `.Preferred`
        preferred: Preferred,
        *,
        durable: bool = False,  # whether each replica has a copy in a folder: none is left out
    ) -> None:
        self._durable = durable
        self._peer = peer
        self._survey = survey
        self._latency = latency
        self._is_dead = is_dead
        self._late = late
        self._tolerated = tolerated
        self._retained = retained
        self._preferred = preferred
        self._tries: dict[str, int] = {}  # by request that is not decided yet

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        """Ask the candidates, and place the replicas."""
        request.expand(request.plan)
        degree = least_degree(request.plan)
        retained = self._retained(degree)
        if retained > degree:
            expected = f"at most {degree}, as availability is 'active {degree}'"
            decided(request, Refusal(f"k_min: {retained}; expected {expected}"))
            return
        known = find_candidates(self._peer, request, found, self._is_dead)
        if known.missing:
            decided(request, Refusal("; ".join(known.missing.values()), missing=True))
            return
        attempt = self._tries[request.name] = self._tries.get(request.name, 0) + 1
        candidates = {name: self._candidates_to_ask(request, name, peers) for name, peers in known.candidates.items()}
        everyone = sorted({at for peers in candidates.values() for at in peers})
        for name, each in degrees_of(request.plan).items():
            if request.plan.operators[name].kind == "sink" and each.passive > 1:  # its own peer is the first
                candidates[name] += [at for at in everyone if at not in candidates[name]]

        def surveyed(answers: dict[str, CandidateAnswer]) -> None:
            if self._tries.get(request.name) == attempt:  # else it has ended meanwhile
                decided(request, self._place(request, candidates, answers))

        asked = {self._peer.address, *(peer for peers in candidates.values() for peer in peers)}
        self._survey.ask(request.name, request.plan, asked, surveyed)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Place the replicas once more, without the peers that refused them; refuse after several attempts."""
        decided(request, Refusal(reason, retry=self._tries.get(request.name, MOST_TRIES) < MOST_TRIES))

    def established(self, request: Request) -> None:
        """Forget the attempts of a request that runs: its peers now hold only what they have committed."""
        self._tries.pop(request.name, None)

    def release(self, request: Request) -> None:
        """Ignore answers that are still to come."""
        self._tries.pop(request.name, None)

    def _candidates_to_ask(self, request: Request, operator: str, peers: Sequence[str]) -> list[str]:
        """The candidates of an operator to ask: those that have not refused and, of many, the nearest ones."""
        willing = [each for each in peers if each not in request.refused_by] or list(peers)
        own = [each for each in willing if each == self._peer.address]
        others = [each for each in willing if each != self._peer.address]
        return own + self._latency.nearest(others, MOST_CANDIDATES)

    # -- placement -----------------------------------------------------------------------------------------------------

    def _place(
        self, request: Request, candidates: Mapping[str, Sequence[str]], answers: Mapping[str, CandidateAnswer]
    ) -> Decision | Refusal:
        """Compute the deployment from the answers, check it against the conditions of the plan, and record it."""
        plan, peers = request.plan, sorted(answers)
        able = {
            name: [each for each in found if each in answers and name in answers[each].hops]
            for name, found in candidates.items()
        }
        for name, found in able.items():
            if not found or (plan.operators[name].kind == "sink" and found[0] != candidates[name][0]):
                refusals = [f"{at}: {answers[at].refusals[name]}" for at in peers if name in answers[at].refusals]
                why = "; ".join(refusals[:3]) or f"no answer from {', '.join(candidates[name])}"
                reason = f"operator {name}: no candidate would execute it: {why}"
                return Refusal(reason, unanswered=not refusals)
        backed_up = {name for name, each in degrees_of(plan).items() if each.passive > 1}
        fixed: dict[str, str] = {}
        beside = {name: readers for readers in readers_of(plan) for name in readers}
        for name, found in able.items():
            if not is_replicable(plan.operators[name]):
                taken = {fixed.get(each) for each in beside.get(name, ())}  # readers of one source divide its work
                free = [each for each in found if each not in taken] or found
                sink = plan.operators[name].kind == "sink"
                fixed[name] = found[0] if sink else self._peer_of_one(free, name in backed_up)
        delays = delays_between(peers, answers, self._peer.address)
        distance = plan.qos.replica_distance
        deployed, cost, alone = _compute_deployment(plan, peers, answers, able, fixed, delays)
        refusal = _placement_problem(plan, deployed, able, peers, delays)
        if refusal:
            return Refusal(refusal)
        if self._durable and deployed.missing:
            if not (request.epoch or request.restarts):
                expected = "expected a peer for each of them, as this cluster is durable"
                return Refusal(f"replicas: {deployed}; {expected}")
            deployed = _completed(deployed, able, peers)
        degrees = {name: len(found) for name, found in deployed.replicas.items()}
        expanded = replicated(plan, degrees)
        where = dict(fixed)
        for name, servers in deployed.replicas.items():
            where.update((replica_id(name, number), peers[server]) for number, server in enumerate(servers))
        where = {name: where[name] for name in expanded.operators}
        single = {at for name, at in fixed.items() if name not in backed_up}
        backups = BackupPeers(plan, where, answers, self._preferred, {*single, self._peer.address})
        refusal = backups.place(self._peer, request.name, request.refused_by)
        if refusal:
            return Refusal(refusal)
        links = _links(expanded, where, answers)
        measured = {edge: link for edge, link in links.items() if link is not None}
        if len(measured) < len(links):
            one, other = next((where[up], where[name]) for (up, name), link in links.items() if link is None)
            why = f"the delay between {one} and {other} is not known: neither answered the other in time"
            retry = self._tries.get(request.name, MOST_TRIES) < MOST_TRIES
            return Refusal(why, retry=retry, unanswered=True)
        graph = _component_graph(expanded, where, answers, measured)
        phi = graph.balance(expanded)
        failed = violated_condition(expanded, graph, self._late, phi, self._tolerated(plan))
        if failed:
            return Refusal(f"the deployment of least network cost does not qualify: {failed}")
        request.expand(expanded)
        delay = graph.delay(expanded)
        late = self._late if plan.qos.miss_rate is None else plan.qos.miss_rate
        self._peer.record(
            ReplicasDeployed,
            request.name,
            replicas={name: [peers[server] for server in found] for name, found in deployed.replicas.items()},
            degrees={name: each.active for name, each in degrees_of(plan).items() if name in degrees},
            backups=backups.found,
            streams=(*_streams(plan, degrees), *backups.streams),
            distance_s=distance,
            cost=cost + backups.cost,
            cost_alone=alone,
            bandwidth=sum(each[3] for each in (*_streams(plan, degrees), *backups.streams)),
            bandwidth_alone=sum(each[3] for each in _streams(plan, {})),
            agreement=readings(plan) | {name: str(each) for name, each in agreements(expanded).items()},
        )
        self._peer.record(
            GraphSelected,
            request.name,
            peers=where,
            phi=phi,
            delay_s=delay,
            quantile_s=graph.delay_quantile(expanded, late),
            late=late,
            rule="least network cost",
        )
        return Decision(Roles(where, backups.found), graph.reached(expanded))

    def _peer_of_one(self, able: Sequence[str], avoided: bool) -> str:
        """The peer of an operator without active replicas: the origin if it is able, otherwise the nearest one to it.

        One with backups avoids the origin, whose death ends the application anyway.
        """
        own = self._peer.address
        others = [at for at in able if at != own]
        if own in able and not (avoided and others):
            return own
        return self._latency.nearest(others, 1)[0]


def _compute_deployment(
    plan: Plan,
    peers: Sequence[str],
    answers: Mapping[str, CandidateAnswer],
    able: Mapping[str, Sequence[str]],
    fixed: Mapping[str, str],
    delays: Matrix,
) -> tuple[Deployed, float, float]:
    """The deployment of least network cost, its cost, and the cost without replicas; both in bytes on the way."""
    number = {peer: at for at, peer in enumerate(peers)}
    degrees = {name: each.active for name, each in degrees_of(plan).items() if name not in fixed}
    most = max(degrees.values(), default=1)
    needed = set(fixed.values())
    loads = {name: plan.load(name) for name in plan.operators if name not in fixed}
    eligible: dict[str, frozenset[int]] = {}
    for name in loads:
        apart = [each for each in able[name] if each not in needed]
        eligible[name] = frozenset(number[each] for each in (apart if len(apart) >= degrees[name] else able[name]))
    edges = [QueryEdge(up, name, plan.bandwidth(up)) for name, each in plan.operators.items() for up in each.inputs]
    query = Query(loads, edges, {name: number[peer] for name, peer in fixed.items()}, eligible)
    capacity = np.array([answers[peer].cores for peer in peers])
    servers = Servers(delays, capacity, capacity - np.array([answers[peer].free for peer in peers]))
    limits = ReplicaLimits.for_plan(plan, most, degrees)
    if not loads:
        none = Deployed({}, {}, {})
        cost = network_cost(query, servers, {})
        return none, cost, cost

    def best(limits: ReplicaLimits) -> tuple[Deployed, float]:
        found = best_deployment(query, servers, limits, SEARCH_STARTS)
        return found, network_cost(query, servers, found.replicas)

    deployed, cost = best(limits)
    return deployed, cost, cost if most == 1 else best(ReplicaLimits(1, limits.d_min))[1]


def _completed(deployed: Deployed, able: Mapping[str, Sequence[str]], peers: Sequence[str]) -> Deployed:
    """The same deployment, with the replicas that it lacks beside others, at the able peers with the fewest replicas.

    What a folder has of a replica is of that replica alone, so an application goes on with all that it had.
    """
    replicas = dict(deployed.replicas)
    for name, lacking in deployed.missing.items():
        for _ in range(lacking):
            taken = [server for found in replicas.values() for server in found]
            there = min(map(peers.index, able[name]), key=lambda at: (replicas[name].count(at), taken.count(at), at))
            replicas[name] = (*replicas[name], there)
    return Deployed(replicas, deployed.costs, {})


def _placement_problem(
    plan: Plan,
    deployed: Deployed,
    able: Mapping[str, Sequence[str]],
    peers: Sequence[str],
    delays: Matrix,
) -> str:
    """Why a deployment cannot be used (no room for an operator, or all candidates too near); empty if it can."""
    for name, found in deployed.replicas.items():
        if not found:
            load = counted(plan.load(name), "core")
            return f"operator {name}: {load}; expected a peer with room, up to {100 * ALPHA:.0f} % of its capacity"
    distance = plan.qos.replica_distance
    several = [name for name, each in degrees_of(plan).items() if each.active > 1 and name in deployed.replicas]
    if distance is None or not several:
        return ""
    if all(len(deployed.replicas[name]) == 1 for name in several):
        at = sorted({peers.index(peer) for name in several for peer in able[name]})
        longest = 2.0 * float(delays[np.ix_(at, at)].max())
        if longest <= distance:
            return (
                f"qos.replica_distance: {distance * 1e3:g} ms; expected less than {longest * 1e3:.4g} ms, the longest "
                "round trip between two candidates"
            )
    return ""


def _streams(plan: Plan, degrees: Mapping[str, int]) -> list[tuple[str, str, int, float]]:
    """Producer, reader, number of stream replicas and their bandwidth in bytes/s, for each stream of a plan."""
    found = []
    for name, operator in plan.operators.items():
        for up in operator.inputs:
            count = degrees.get(up, 1) * degrees.get(name, 1)
            found.append((up, name, count, count * plan.bandwidth(up)))
    return found


def _links(
    plan: Plan, where: Mapping[str, str], answers: Mapping[str, CandidateAnswer]
) -> dict[tuple[str, str], IncomingLink | None]:
    """The link of each edge of an expanded plan, or the opposite one where only that was measured; None: neither was.

    The receiver checks the bandwidth again when it commits the link.
    """
    here = IncomingLink(math.inf, 0.0, 0.0, 0.0)

    def link(at: str, to: str) -> IncomingLink | None:
        return here if at == to else answers[to].links.get(at) or answers[at].links.get(to)

    return {
        (up, name): link(where[up], where[name]) for name, operator in plan.operators.items() for up in operator.inputs
    }


def _component_graph(
    plan: Plan,
    where: Mapping[str, str],
    answers: Mapping[str, CandidateAnswer],
    measured: Mapping[tuple[str, str], IncomingLink],
) -> ComponentGraph:
    """The component graph of an expanded plan, with the execution times and links that the candidates answered."""
    hops: dict[str, Hop] = {}
    links: dict[tuple[str, str], tuple[float, float]] = {}
    for name, operator in plan.operators.items():
        variance = 0.0
        for up in operator.inputs:
            link = measured[up, name]
            transmission = link.transmission
            if 0.0 < link.bandwidth < math.inf:
                transmission += plan.tuple_bytes(up) / link.bandwidth
            links[up, name] = link.bandwidth, transmission
            variance = max(variance, link.variance)
        hop = answers[where[name]].hops[operator.replica_of or name]
        hops[name] = msgspec.structs.replace(hop, operator=name, variance=hop.variance + variance)
    return ComponentGraph(hops, links)
