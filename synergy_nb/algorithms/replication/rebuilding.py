"""The choice of new peers for lost active replicas (the last resort of section V-C in [1]_).

Theory of operation
-------------------
After a death an application goes on with fewer replicas. A rebuilt replica takes the place of each lost one, so that a
later death is survived, too. The origin chooses its peer by the conditions of the first placement: the peer offers the
operator, has room, has no other replica of it, and is further than ``qos.replica_distance`` from the others; of several
such peers, the one with the least cost of streams (line 9 of algorithm 5). All candidates are asked once more
(:mod:`.candidate_survey`), and :mod:`synergy_nb.lifecycle.rebuilds` carries the choice out.

One replica of an application is rebuilt at a time. If no peer qualifies, the journal states why, and the origin tries
again after :data:`FIRST` seconds and then ever more rarely, as a peer may have joined or have room by then. It waits as
long before it rebuilds a replica that is lost again soon. When a dead peer is alive again, it tries at once.

Replicas that ended because their streams were discarded are rebuilt only if a reader needs them (``wanted``).

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from synergy_nb.algorithms.replication.candidate_survey import CandidateAnswer, CandidateSurvey, delays_between
from synergy_nb.algorithms.replication.deployment import ALPHA, Limits, candidates
from synergy_nb.algorithms.replication.system import Edge, Query, Servers, stream_costs
from synergy_nb.control.peer import Peer
from synergy_nb.control.roles import Roles
from synergy_nb.events import RebuildImpossible
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.alternatives import DirectoryEntries
from synergy_nb.lifecycle.decider import component_name
from synergy_nb.lifecycle.request import Request
from synergy_nb.lifecycle.sessions import Session
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.active_replicas import original, replicas_of

__all__ = ["RebuildTarget", "ReplicaRebuilding", "lost_replicas", "rebuild_targets"]

GRACE: Final = 0.5  # seconds from a loss until a new peer is sought: other deaths may be about to be known
FIRST: Final = 5.0  # seconds until the second try; doubled each time
LONGEST: Final = 60.0  # longest time between two tries, and that for which a rebuilt replica has to last, seconds
MOST_CANDIDATES: Final = 32  # candidates that are asked, the nearest to the origin
TARGETS: Final = 3  # peers that are tried before the next wait
ANYWHERE: Final = -1.0  # a distance that any two peers exceed, even at the same place


class RebuildTarget(NamedTuple):
    """A peer at which a replica could be rebuilt, and the replica from whose state it would begin."""

    at: str
    source: str


def _is_discarded(plan: Plan, roles: Roles, replica: str) -> bool:
    """Whether a replica ended because all streams to its readers were discarded."""
    for reader, node in plan.operators.items():
        present = roles.inputs.get(reader, range(len(node.inputs)))
        if any(up == replica and number in present for number, up in enumerate(node.inputs)):
            return False
    return True


def lost_replicas(plan: Plan, roles: Roles) -> list[str]:
    """Return the replicas that no peer executes, without those whose streams were discarded, in the plan's order."""
    groups = {each for group in replicas_of(plan).values() for each in group}
    return [
        name
        for name, peer in roles.peers.items()
        if not peer and name in groups and not _is_discarded(plan, roles, name)
    ]


def rebuild_targets(
    plan: Plan, roles: Roles, replica: str, origin: str, able: Mapping[str, str], answers: Mapping[str, CandidateAnswer]
) -> tuple[list[RebuildTarget], str]:
    """Return the peers at which a lost replica could be rebuilt, the best first; if there is none, the reason.

    Parameters
    ----------
    plan, roles
        Plan with replicas, and its present roles.
    replica
        Replica that was lost.
    origin
        Address of the origin.
    able
        Address of each candidate to an empty text, or to the reason why it would not execute the replica.
    answers
        Address to what that peer has answered.
    """
    operator, groups = original(replica), replicas_of(plan)
    group = {name: roles.peers[name] for name in groups[operator] if roles.peers[name]}
    willing = sorted(peer for peer, refusal in able.items() if not refusal)
    if not willing:
        refusals = "; ".join(f"{peer}: {refusal}" for peer, refusal in sorted(able.items())[:3])
        return [], refusals or f"no other peer offers {component_name(plan, replica)!r}"
    fixed = {peer for name, peer in roles.peers.items() if original(name) not in groups} | {origin}
    peers = sorted({*willing, *filter(None, roles.peers.values()), origin})
    number = {peer: at for at, peer in enumerate(peers)}
    known = {name: [roles.peers[each] for each in several if roles.peers[each]] for name, several in groups.items()}
    edges = {
        (original(up), name, node.ports[at] if node.ports else at)
        for name, node in plan.operators.items()
        for at, up in enumerate(node.inputs)
        if not node.replica_of
    }
    query = Query(
        {name: plan.load(name) for name in groups},
        [Edge(up, name, plan.bandwidth(up)) for up, name, _ in sorted(edges)],
        {name: number[peer] for name, peer in roles.peers.items() if original(name) not in groups},
        {operator: frozenset(number[peer] for peer in willing)},
    )
    placed = {name: [number[peer] for peer in several] for name, several in known.items()}
    capacity = np.array([answers[peer].cores if peer in answers else 0.0 for peer in peers])
    free = np.array([answers[peer].free if peer in answers else 0.0 for peer in peers])
    pinned = np.zeros(len(peers))  # load of pinned operators: candidates do not count commitments of their own request
    for name, at in query.pinned.items():
        pinned[at] += plan.load(name)
    servers = Servers(delays_between(peers, answers, origin), capacity, capacity - free + pinned)
    distance = plan.qos.replica_distance
    limits = Limits(1, ANYWHERE if distance is None else distance / 2.0, ALPHA)
    possible = np.flatnonzero(candidates(query, servers, placed, operator, limits))
    if not len(possible):
        far = "" if distance is None else f", further than {distance * 1e3:g} ms from the other replicas"
        return [], f"no peer has {plan.load(replica):.4g} cores left, up to {ALPHA:.0%} of its capacity{far}"
    costs, loads = stream_costs(query, servers, placed, operator), servers.loads(query, placed)

    def order(at: int) -> tuple[bool, float, float]:
        return peers[at] in fixed, float(costs[at]), float(loads[at] / capacity[at])

    def nearest(at: int) -> str:
        return min(group, key=lambda name: (float(servers.latency[at, number[group[name]]]), name))

    return [RebuildTarget(peers[at], nearest(at)) for at in sorted(map(int, possible), key=order)], ""


class _Lost:
    """What the origin knows of a replica that it rebuilds.

    Attributes
    ----------
    failures
        Number of consecutive tries after which the replica did not execute for long.
    since
        Time from which the next try may begin, seconds.
    began
        Time at which the replica was rebuilt last, seconds; None if it was not rebuilt since it was lost.
    reason
        Last reason in the journal why the replica was not rebuilt.
    """

    __slots__ = ("began", "failures", "reason", "since")

    def __init__(self) -> None:
        self.failures = 0
        self.since = 0.0
        self.began: float | None = None
        self.reason = ""

    def wait(self, now: float) -> None:
        """Wait longer than before the last try."""
        self.since = now + min(FIRST * 2.0**self.failures, LONGEST)
        self.failures += 1


class ReplicaRebuilding:
    """Has lost active replicas of the applications of this peer rebuilt.

    Parameters
    ----------
    peer, session, directory, membership
        The peer, its sessions, its directory and its failure detector.
    survey
        Survey of candidates.
    latency
        Measured latencies to other peers.
    """

    def __init__(
        self,
        peer: Peer,
        session: Session,
        directory: Directory,
        membership: Membership,
        survey: CandidateSurvey,
        latency: Latency,
    ) -> None:
        self._peer = peer
        self._session = session
        self._directory = directory
        self._is_dead = membership.is_dead
        self._survey = survey
        self._latency = latency
        self._lost: dict[str, dict[str, _Lost]] = {}  # by application and replica
        self._wanted: dict[str, set[str]] = {}  # replicas without streams that readers need, by application
        self._busy: set[str] = set()  # applications of which a replica is being rebuilt, or a new peer is sought
        self._due: dict[str, float] = {}  # application to the time of its next look, seconds
        session.changes.on_published.append(self._published)
        membership.on_alive.append(self._alive)

    def want(self, application: str, replica: str) -> None:
        """Rebuild a replica although its streams were discarded, since a reader is late."""
        self._wanted.setdefault(application, set()).add(replica)
        self._published(application)

    # -- when --------------------------------------------------------------------------------------------------------

    def _missing(self, request: Request) -> list[str]:
        """Replicas of an application that are to be rebuilt."""
        plan, roles = Plan.from_bytes(request.graph.plan), request.graph.roles
        wanted = self._wanted.get(request.name, set())
        wanted -= {name for name in wanted if roles.peers.get(name, "-")}
        lost = {*lost_replicas(plan, roles), *wanted}
        return [name for name in roles.peers if name in lost]

    def _published(self, application: str) -> None:
        """Note what an application has lost, and look for new peers soon."""
        request = self._session.changes.led.get(application)
        missing = [] if request is None else self._missing(request)
        if not missing:
            return
        now, known = self._peer.now, self._lost.setdefault(application, {})
        for replica in missing:
            lost = known.setdefault(replica, _Lost())
            if lost.began is not None:  # it is lost once more
                if now - lost.began > LONGEST:
                    lost.failures, lost.reason = 0, ""
                else:
                    lost.wait(now)
                lost.began = None
            self._look_at(application, max(now + GRACE, lost.since))

    def _alive(self, address: str) -> None:
        """Try again at once, as the peer that is alive again may be a target."""
        for application, known in self._lost.items():
            for lost in known.values():
                lost.since = self._peer.now
            self._published(application)

    def _look_at(self, application: str, at: float) -> None:
        """Look for a new peer at a time, unless that is to happen earlier."""
        if application in self._busy or self._due.get(application, at + 1.0) <= at:
            return
        self._due[application] = at
        self._peer.after(max(at - self._peer.now, 0.0), self._look, application, at)

    def _look(self, application: str, at: float) -> None:
        if self._due.get(application) != at:
            return
        del self._due[application]
        for ended in self._lost.keys() - self._session.led:
            del self._lost[ended]
            self._wanted.pop(ended, None)
        request = self._session.changes.led.get(application)
        if request is None or application in self._busy:
            return
        now, known = self._peer.now, self._lost.setdefault(application, {})
        missing = self._missing(request)
        ready = [name for name in missing if known.setdefault(name, _Lost()).since <= now]
        if ready and request.state is State.RUNNING:
            self._busy.add(application)
            self._seek(request, ready[0])
        elif missing:
            soonest = min(known[name].since for name in missing)
            self._look_at(application, max(soonest, now + GRACE))

    # -- where -------------------------------------------------------------------------------------------------------

    def _seek(self, request: Request, replica: str) -> None:
        """Look for a new peer of a lost replica."""
        plan, attempt = Plan.from_bytes(request.graph.plan), request.graph.attempt
        name = component_name(plan, replica)

        def found(entries: DirectoryEntries | None) -> None:
            if not self._goes_on(request, attempt, replica):
                return
            roles = request.graph.roles
            here = {roles.peers[each] for each in replicas_of(plan)[original(replica)]}
            hosts = {entry.host for entry in (entries or {}).get(name, ()) if not self._is_dead(entry.host)} - here
            own = hosts & {self._peer.address}
            offering = [*own, *self._latency.nearest(sorted(hosts - own), MOST_CANDIDATES)]
            involved = {peer for peer in roles.peers.values() if peer and not self._is_dead(peer)}
            asked = {*offering, *involved, self._peer.address}
            if entries is None or not offering:
                reason = "the directory did not answer in time" if entries is None else ""
                self._failed(request, replica, reason or f"no other peer offers {name!r}")
                return
            self._survey.ask(request.name, request.plan, asked, lambda answers: surveyed(offering, answers))

        def surveyed(offering: list[str], answers: dict[str, CandidateAnswer]) -> None:
            if not self._goes_on(request, attempt, replica):
                return
            able: dict[str, str] = {}
            for peer in offering:
                answer = answers.get(peer)
                if answer is None:
                    able[peer] = "it did not answer in time"
                elif original(replica) not in answer.hops:
                    able[peer] = answer.refusals.get(original(replica), "it does not offer the operator")
                else:
                    able[peer] = ""
            roles, origin = request.graph.roles, self._peer.address
            best, reason = rebuild_targets(plan, roles, replica, origin, able, answers)
            self._try(request, replica, best[:TARGETS], reason)

        self._directory.lookup([name], found)

    def _goes_on(self, request: Request, attempt: int, replica: str) -> bool:
        """Whether a lost replica still is to be rebuilt now; if not, look again later."""
        known = self._session.changes.led.get(request.name)
        same = known is request and request.graph.attempt == attempt
        if same and request.state is State.RUNNING and replica in self._missing(request):
            return True
        self._idle(request.name)
        return False

    def _idle(self, application: str) -> None:
        self._busy.discard(application)
        if application in self._session.led:
            self._look_at(application, self._peer.now + GRACE)

    def _try(self, request: Request, replica: str, left: list[RebuildTarget], reason: str) -> None:
        """Have a replica rebuilt at the first of the targets that are left."""
        while left:
            target, *left = left

            def done(refusal: str, left: list[RebuildTarget] = left) -> None:
                if not refusal:
                    self._lost.setdefault(request.name, {}).setdefault(replica, _Lost()).began = self._peer.now
                    self._idle(request.name)
                elif self._goes_on(request, request.graph.attempt, replica):
                    self._try(request, replica, left, refusal)

            try:
                self._session.rebuilds.rebuild(request.name, replica, target.source, target.at, done)
            except ValueError as error:
                reason = str(error)
            else:
                return
        self._failed(request, replica, reason)

    def _failed(self, request: Request, replica: str, reason: str) -> None:
        """Record why a replica is not rebuilt, unless that is known, and try again later."""
        lost = self._lost.setdefault(request.name, {}).setdefault(replica, _Lost())
        lost.wait(self._peer.now)
        if reason != lost.reason:
            lost.reason = reason
            self._peer.record(RebuildImpossible, request.name, operator=replica, reason=reason)
        self._idle(request.name)
