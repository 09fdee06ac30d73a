"""The choice of new peers for lost active replicas (the last resort of section V-C in [1]_) and for lost backups.

Theory of operation
-------------------
After a death an application goes on with fewer replicas. A rebuilt replica takes the place of each lost one, so that a
later death is survived, too. The origin chooses its peer by the conditions of the first placement: the peer offers the
operator, has room, has no other replica of it, and is further than ``qos.replica_distance`` from the others; of several
such peers, the one with the least cost of streams (line 9 of algorithm 5). All candidates are asked once more
(:mod:`.candidate_survey`), and :mod:`synergy_nb.lifecycle.changes.rebuilds` carries the choice out.

After a take-over, or when the peer of a backup dies, a component has fewer backups than it was placed with. It gets
another one likewise, at the first peer in the order of preference of chapter 4 (:mod:`.backup_peers`). While other
applications share its stream it has no new backup, as that would have to know their readers before it takes over.

One replica of an application is rebuilt at a time. If no peer qualifies, the journal states why, and the origin tries
again after :data:`FIRST_WAIT` seconds and then ever more rarely, at least once in :data:`LONGEST_WAIT`, as a peer may
have room by then. A replica that is lost again soon after its rebuild waits as long. The origin does not wait when a
dead peer is alive again, nor when a new one is in its leaf set and the directory has had time to list its components. A
peer that joins a large ring far from the origin is found by the next try.

In a durable cluster a lost replica goes on from the folder (``FOLDER`` is its source). As its producers retain for it
what it has yet to read, it goes on beside another replica of its operator where no other peer would execute it.

Replicas that ended because their streams were discarded are rebuilt only if a reader needs them (``wanted``).

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from synergy_nb.algorithms.replication.backup_peers import BackupPeers, Preferred
from synergy_nb.algorithms.replication.candidate_survey import (
    MOST_CANDIDATES,
    CandidateAnswer,
    CandidateSurvey,
    delays_between,
)
from synergy_nb.algorithms.replication.deployment import ALPHA, ReplicaLimits, eligible_servers
from synergy_nb.algorithms.replication.system import Query, QueryEdge, Servers, stream_costs
from synergy_nb.control.peer import Peer
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.events import RebuildImpossible
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.lifecycle.session import Session
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of
from synergy_nb.plan.operators.catalogue import PART
from synergy_nb.plan.terms.units import counted

__all__ = ["RebuildTarget", "ReplicaRebuilding", "lost_backups", "lost_replicas", "rebuild_targets"]

LOSS_PAUSE: Final = 0.5  # seconds from a loss to the search for a new peer: more deaths may become known meanwhile
FIRST_WAIT: Final = 5.0  # seconds from the first try to the second; doubled for each further one
#: Longest time between two tries, seconds; a rebuilt replica that is lost again earlier than this counts as a failed
#: try.
LONGEST_WAIT: Final = 60.0
TARGETS_A_TRY: Final = 3  # largest number of peers that one try asks
JOINED: Final = 2.0  # seconds until the directory has the components of a peer that has joined


class RebuildTarget(NamedTuple):
    """A peer at which a replica could be rebuilt, and the replica from whose state it would begin."""

    at: str  # address of the peer
    source: str  # id of the other replica of the operator; for a backup, of the operator; or `FOLDER`


def _is_discarded(plan: Plan, roles: Roles, replica: str) -> bool:
    """Whether a replica ended because all streams to its readers were discarded."""
    for reader, node in plan.operators.items():
        present = roles.present(plan, reader).values()
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


def lost_backups(plan: Plan, roles: Roles, placed: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the operators on peers that have fewer backups than were placed, in the plan's order.

    ``placed``: operator to the addresses of the backups that were placed.
    """
    return [
        name
        for name in roles.peers
        if len(roles.backups.get(name, ())) < len(placed.get(name, ()))
        and name not in roles.followers
        and plan.operators[name].kind != PART
    ]


def rebuild_targets(
    plan: Plan, roles: Roles, replica: str, origin: str, able: Mapping[str, str], answers: Mapping[str, CandidateAnswer]
) -> tuple[list[RebuildTarget], str]:
    """Return the peers at which a lost replica could be rebuilt, the best first; if there is none, the reason.

    ``origin``: address of the origin; ``able``: address of each candidate to the reason why it would not execute the
    replica, empty if it would; ``answers``: address of each peer that has answered to its answer.
    """
    operator, groups = original(replica), replicas_of(plan)
    group = {name: roles.peers[name] for name in groups[operator] if roles.peers[name]}
    willing = sorted(peer for peer, refusal in able.items() if not refusal)
    if not willing:
        refusals = "; ".join(f"{peer}: {refusal}" for peer, refusal in sorted(able.items())[:3])
        return [], refusals or f"no other peer offers {component_name(plan, replica)!r}"
    single = (name for name in roles.peers if original(name) not in groups and not roles.backups.get(name))
    fixed = {roles.peers[name] for name in single} | {origin}
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
        [QueryEdge(up, name, plan.bandwidth(up)) for up, name, _ in sorted(edges)],
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
    limits = ReplicaLimits.for_plan(plan, 1)
    possible = np.flatnonzero(eligible_servers(query, servers, placed, operator, limits))
    if not len(possible):
        distance = plan.qos.replica_distance
        far = "" if distance is None else f", further than {distance * 1e3:g} ms from the other replicas"
        return (
            [],
            f"no peer has {counted(plan.load(replica), 'core')} left, up to {100 * ALPHA:.0f} % of its capacity{far}",
        )
    costs, loads = stream_costs(query, servers, placed, operator), servers.loads(query, placed)

    def order(at: int) -> tuple[bool, float, float]:
        return peers[at] in fixed, float(costs[at]), float(loads[at] / capacity[at])

    def nearest(at: int) -> str:
        return min(group, key=lambda name: (float(servers.latency[at, number[group[name]]]), name))

    return [RebuildTarget(peers[at], nearest(at)) for at in sorted(map(int, possible), key=order)], ""


class _LostReplica:
    """A lost replica of an application, at its origin."""

    __slots__ = ("began", "failures", "reason", "since")

    def __init__(self) -> None:
        self.failures = 0  # number of tries in a row after which the replica did not execute for `LONGEST_WAIT`
        self.since = 0.0  # time from which the next try may begin, seconds
        # time at which the replica was rebuilt last, seconds; None if it was not rebuilt since it was lost
        self.began: float | None = None
        self.reason = ""  # last reason in the journal why the replica was not rebuilt

    def wait(self, now: float) -> None:
        """Set the time of the next try: twice as long from now as the last time."""
        self.since = now + min(FIRST_WAIT * 2.0**self.failures, LONGEST_WAIT)
        self.failures += 1


class ReplicaRebuilding:
    """Has lost active replicas of the applications of this peer rebuilt."""

    def __init__(
        self,
        peer: Peer,
        session: Session,
        directory: Directory,
        membership: Membership,
        survey: CandidateSurvey,
        latency: Latency,
        preferred: Preferred,  # function that orders candidates for a backup
    ) -> None:
        self._peer = peer
        self._session = session
        self._directory = directory
        self._is_dead = membership.is_dead
        self._leaves = membership.pastry.leaves
        self._known_leaves = self._leaves.member_set
        self._survey = survey
        self._latency = latency
        self._preferred = preferred
        self._lost: dict[str, dict[str, _LostReplica]] = {}  # by application and replica
        self._wanted: dict[str, set[str]] = {}  # application to the replicas that ``want`` names
        self._busy: set[str] = set()  # applications for which a try is under way
        self._due: dict[str, float] = {}  # application to the time of its next scheduled search, seconds
        session.changes.on_published.append(self._published)
        membership.on_alive.append(self._alive)
        membership.pastry.on_change.append(self._leaves_changed)

    def want(self, application: str, replica: str) -> None:
        """Have a replica rebuilt that had ended with its discarded streams, because a reader's input is late."""
        self._wanted.setdefault(application, set()).add(replica)
        self._published(application)

    # -- when --------------------------------------------------------------------------------------------------------

    def _missing(self, request: Request) -> list[str]:
        """Replicas of an application that have to be rebuilt, and operators that lack a backup, in the plan's order."""
        plan, roles = Plan.from_bytes(request.graph.plan), self._roles(request)
        backups = lost_backups(plan, roles, request.placed.backups)
        wanted = self._wanted.get(request.name, set())
        wanted -= {name for name in wanted if roles.peers.get(name, "-")}
        lost = {*lost_replicas(plan, roles), *wanted}
        lost.update(name for name in backups if not self._session.sharers.sharers_of(request.name, name))
        return [name for name in roles.peers if name in lost]

    def _roles(self, request: Request) -> Roles:
        """The roles of an application, without lost replicas, which the graph of a durable one still has."""
        return request.graph.roles.without(self._session.takeovers.lost(request.name))

    def _published(self, application: str) -> None:
        """Note the replicas that an application has lost, and schedule the search for new peers."""
        request = self._session.changes.led.get(application)
        missing = [] if request is None else self._missing(request)
        if not missing:
            return
        now, known = self._peer.now, self._lost.setdefault(application, {})
        for replica in missing:
            lost = known.setdefault(replica, _LostReplica())
            if lost.began is not None:  # it is lost once more
                if now - lost.began > LONGEST_WAIT:
                    lost.failures, lost.reason = 0, ""
                else:
                    lost.wait(now)
                lost.began = None
            self._schedule_search(application, max(now + LOSS_PAUSE, lost.since))

    def _alive(self, address: str) -> None:
        """Try again at once: a peer that has come back may be a target."""
        for application, known in self._lost.items():
            for lost in known.values():
                lost.since = self._peer.now
            self._published(application)

    def _leaves_changed(self) -> None:
        """Look for peers anew, soon, if the leaf set has a new peer: it may be a target."""
        new, self._known_leaves = self._leaves.member_set - self._known_leaves, self._leaves.member_set
        for application, known in self._lost.items() if new else ():
            for lost in known.values():
                if lost.began is None:
                    lost.failures, lost.since = 0, min(lost.since, self._peer.now + JOINED)
            self._published(application)

    def _schedule_search(self, application: str, at: float) -> None:
        """Schedule the search for a new peer at a time, unless an earlier one is scheduled."""
        if application in self._busy or self._due.get(application, at + 1.0) <= at:
            return
        self._due[application] = at
        self._peer.after(max(at - self._peer.now, 0.0), self._search_if_due, application, at)

    def _search_if_due(self, application: str, at: float) -> None:
        """Begin a try for a lost replica whose time has come, if the application runs and no other try is under way."""
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
        ready = [name for name in missing if known.setdefault(name, _LostReplica()).since <= now]
        if ready and request.state is State.RUNNING:
            self._busy.add(application)
            self._find_peer(request, ready[0])
        elif missing:
            soonest = min(known[name].since for name in missing)
            self._schedule_search(application, max(soonest, now + LOSS_PAUSE))

    # -- where -------------------------------------------------------------------------------------------------------

    def _find_peer(self, request: Request, replica: str) -> None:
        """Find peers for a lost replica: ask the directory, then the candidates, then rebuild at the best of them."""
        plan, attempt = Plan.from_bytes(request.graph.plan), request.graph.attempt
        name, groups = component_name(plan, replica), replicas_of(plan)
        submitted = request.plan if groups else plan  # the other one may have parts and taps

        def found(entries: DirectoryEntries | None) -> None:
            """Ask the candidates that the directory has named."""
            if not self._still_needed(request, attempt, replica):
                return
            roles = self._roles(request)
            here = {roles.peers[each] for each in groups.get(original(replica), (replica,))}
            here.update(roles.backups.get(replica, ()), {request.graph.roles.peers[replica]})
            hosts = {entry.host for entry in (entries or {}).get(name, ()) if not self._is_dead(entry.host)} - here
            own = hosts & {self._peer.address}
            offering = [*own, *self._latency.nearest(sorted(hosts - own), MOST_CANDIDATES)]
            involved = {peer for peer in roles.peers.values() if peer and not self._is_dead(peer)}
            asked = {*offering, *involved, self._peer.address}
            if entries is None or not (offering or self._is_kept(request, replica)):
                reason = "the directory did not answer in time" if entries is None else ""
                self._record_failure(request, replica, reason or f"no other peer offers {name!r}")
                return
            self._survey.ask(request.name, submitted, asked, lambda answers: surveyed(offering, answers))

        def surveyed(offering: list[str], answers: dict[str, CandidateAnswer]) -> None:
            """Try the best peers among those that answered."""
            if not self._still_needed(request, attempt, replica):
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
            roles, origin = self._roles(request), self._peer.address
            if original(replica) in groups:
                best, reason = rebuild_targets(plan, roles, replica, origin, able, answers)
                if self._is_kept(request, replica):
                    beside = sorted({roles.peers[each] for each in groups[original(replica)]} & answers.keys())
                    beside = [] if best else [at for at in beside if original(replica) in answers[at].hops]
                    best = [RebuildTarget(at, FOLDER) for at in [*(each.at for each in best), *beside]]
            else:
                single = {at for each, at in roles.peers.items() if at and original(each) not in groups}
                single -= {roles.peers[each] for each, several in roles.backups.items() if several}
                best, reason = self._backup_targets(submitted, roles, replica, single, able, answers)
            self._try(request, replica, best[:TARGETS_A_TRY], reason)

        self._directory.lookup([name], found)

    def _is_kept(self, request: Request, replica: str) -> bool:
        """Whether a lost replica goes on from the folder."""
        return replica in self._session.takeovers.lost(request.name)

    def _backup_targets(
        self,
        plan: Plan,
        roles: Roles,
        operator: str,
        single: Collection[str],
        able: Mapping[str, str],
        answers: Mapping[str, CandidateAnswer],
    ) -> tuple[list[RebuildTarget], str]:
        """Return the peers that can have one more backup, the preferred first; if there is none, the reason."""
        where = {name: at for name, at in roles.peers.items() if at}
        found = {name: peers for name, peers in roles.backups.items() if peers}
        chosen = BackupPeers(plan, where, answers, self._preferred, {*single, self._peer.address}, found)
        order = chosen.further(operator, sorted(peer for peer, refusal in able.items() if not refusal))
        refusals = "; ".join(f"{peer}: {refusal}" for peer, refusal in sorted(able.items()) if refusal)
        reason = "" if order else refusals or "no link from the primary to another peer has room"
        return [RebuildTarget(at, operator) for at in order], reason

    def _still_needed(self, request: Request, attempt: int, replica: str) -> bool:
        """Whether the replica still has to be rebuilt and can be now; if not, end the try."""
        known = self._session.changes.led.get(request.name)
        same = known is request and request.graph.attempt == attempt
        if same and request.state is State.RUNNING and replica in self._missing(request):
            return True
        self._end_try(request.name)
        return False

    def _end_try(self, application: str) -> None:
        self._busy.discard(application)
        if application in self._session.led:
            self._schedule_search(application, self._peer.now + LOSS_PAUSE)

    def _try(self, request: Request, replica: str, left: list[RebuildTarget], reason: str) -> None:
        """Have a replica rebuilt at the first of the targets that are left."""
        while left:
            target, *left = left

            def done(refusal: str, left: list[RebuildTarget] = left) -> None:
                if not refusal:
                    self._lost.setdefault(request.name, {}).setdefault(replica, _LostReplica()).began = self._peer.now
                    self._end_try(request.name)
                elif self._still_needed(request, request.graph.attempt, replica):
                    self._try(request, replica, left, refusal)

            try:
                self._session.rebuilds.rebuild(request.name, replica, target.source, target.at, done)
            except ValueError as error:
                reason = str(error)
            else:
                return
        self._record_failure(request, replica, reason)

    def _record_failure(self, request: Request, replica: str, reason: str) -> None:
        """End a try without success; the reason is recorded if it differs from the last one."""
        lost = self._lost.setdefault(request.name, {}).setdefault(replica, _LostReplica())
        lost.wait(self._peer.now)
        if reason != lost.reason:
            lost.reason = reason
            self._peer.record(RebuildImpossible, request.name, operator=replica, reason=reason)
        self._end_try(request.name)
