"""Placement of replicas at the origin of an application: bootstrapping, completion, renewal and release.

Theory of operation
-------------------
*Bootstrapping.* The origin v_s looks up the candidates of all components once, so that hosts need no look-ups, and
starts the placement at the source nodes. If the plan asks for an availability instead of a replication degree, v_s asks
the candidates for their failure probabilities, and chooses the least degree whose expected availability suffices
(:func:`~synergy_nb.algorithms.availability._evaluation.degree_for`).

*Propagation.* Each host reports to v_s when it has placed its part. So v_s knows which peers hold resources if the
attempt fails, and which peers it has to watch.

*Completion.* The report of a destination node contains the complete graphs λ and ρ. From then on v_s renews the
placement at every host from time to time; a host that receives no renewal during a lease releases its part. If the plan
requires an availability, v_s compares it with the exact availability of the placement; if that is less, it tries the
next higher degree.

*Failure.* If no candidate is left, or a peer has died or become silent, v_s releases the whole placement. Another
attempt follows without that peer, since concurrent placements may have held the resources for a moment only. After the
last attempt the request is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from synergy_nb.algorithms.availability._acknowledged_requests import AcknowledgedRequests
from synergy_nb.algorithms.availability._evaluation import availability, degree_for
from synergy_nb.algorithms.availability._failures import IndependentFailures
from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.algorithms.availability._primary_host import PrimaryHost
from synergy_nb.algorithms.availability._replica_host import ReplicaHost
from synergy_nb.algorithms.availability.link_survey import LinkSurvey, SurveyedLink, failures_of
from synergy_nb.algorithms.availability.messages import (
    PlacementConfig,
    PlacementNegotiation,
    PlacementRenewal,
    PlacementReport,
    PlacementWithdrawn,
    Task,
    decode_task,
    encode_task,
)
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Protocol, Timer
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    DegreeChosen,
    PlacementAttemptFailed,
    PlacementBegun,
    PlacementCompleted,
    PlacementFailed,
    PlacementReleased,
    PlacementSubmitted,
    ReplicasLost,
)
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.replication_techniques import technique_sentences
from synergy_nb.plan.operators.catalogue import TAP

Placed = Callable[[Roles | None, str], None]
"""Callback for the graphs λ and ρ, or for None and the reason."""
MOST_NAMED: Final = 4  # maximum number of missing operators that a reason names


class _Pending:
    """A placement that is under way."""

    __slots__ = (
        "attempt",
        "attempts",
        "avoid",
        "candidates",
        "degree",
        "degrees",
        "failures",
        "graph",
        "pinned",
        "placed",
        "plan",
        "relays",
        "request",
        "stuck",
        "target",
        "timer",
    )

    def __init__(
        self,
        request: str,
        plan: Plan,
        degree: int,
        target: float | None,
        placed: Placed,
        degrees: Mapping[str, int] | None = None,
    ) -> None:
        self.degrees = dict(degrees or {})
        self.request = request
        self.plan = plan
        self.degree = degree
        self.target = target
        self.placed = placed
        self.attempt = 0  # hosts know attempts by number
        self.attempts = 0  # at the present degree
        self.avoid: set[str] = set()
        self.stuck: set[str] = set()
        self.candidates: dict[str, tuple[str, ...]] = {}
        self.pinned: dict[str, str] = {}
        self.failures: IndependentFailures | None = None
        self.graph = Roles()
        self.relays: list[PlacementNegotiation] = []
        self.timer: AnswerLimit | Timer | None = None


class _Committed:
    """A committed placement."""

    __slots__ = ("attempt", "graph")

    def __init__(self, attempt: int, graph: Roles) -> None:
        self.attempt = attempt
        self.graph = graph


class PlacementOrigin(Protocol):
    """The placement protocol of one peer: leads placements of its requests, and hosts replicas of others."""

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        latency: Latency,
        directory: Directory,
        membership: Membership,
        offers: Callable[[Plan, str], bool],  # whether this peer has the component of an operator of a plan
        config: PlacementConfig,  # time limits
        # failure, domains: probability ϕ that this peer fails by itself, and the domains that it depends on, the widest
        # first, with the probability that each of them fails
        failure: float = 0.0,
        domains: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(peer)
        self.directory = directory
        self.membership = membership
        self.config = config
        self.acknowledged_requests = AcknowledgedRequests(peer, membership.is_dead, config, membership.answers)
        self.link_survey = LinkSurvey(
            peer, ledger, latency, membership.is_dead, config, membership.answers, failure, domains
        )
        self.primary_host = PrimaryHost(peer, self.acknowledged_requests, self.link_survey, config, self._relay)
        begin, end = self.primary_host.begin, self.primary_host.end
        self.replica_host = ReplicaHost(
            peer, ledger, self.acknowledged_requests, self.link_survey, offers, config, membership.answers, begin, end
        )
        # protocols to add to the peer: the parts of this one, and itself
        self.protocols: tuple[Protocol, ...] = (
            self.acknowledged_requests,
            self.link_survey,
            self.primary_host,
            self.replica_host,
            self,
        )
        self._pending: dict[str, _Pending] = {}
        self._committed: dict[str, _Committed] = {}
        membership.on_dead.append(self._peer_died)
        self.handlers = {PlacementReport: self._reported}

    @property
    def pending(self) -> frozenset[str]:
        """Requests that are being placed."""
        return frozenset(self._pending)

    def graph(self, request: str) -> Roles | None:
        """Component graph λ and replication graph ρ of a committed placement of this origin; None if there is none."""
        committed = self._committed.get(request)
        return None if committed is None else committed.graph

    def attempt(self, request: str) -> int:
        """Return the number of the attempt by which a request of this origin was placed; 0 if it was not."""
        committed = self._committed.get(request)
        return 0 if committed is None else committed.attempt

    def inherit(self, request: str, attempt: int, graph: Roles) -> None:
        """Take over the placement of an origin that has died: renew and release it from here."""
        self._committed[request] = committed = _Committed(attempt, graph)
        self._renew(request, committed)

    def forget(self, request: str) -> None:
        """Stop renewing a placement, because another peer renews it now; nothing is released."""
        self._committed.pop(request, None)

    # -- phase 1 -------------------------------------------------------------------------------------------------------

    def submit(
        self,
        request: str,  # name of the request, under which the ledgers of peers record its resources
        # query plan ξ. Sources are not replicated, nor are sinks that write nothing to the outside. The primary of a
        # pinned operator (`at`) is at that peer; a sink that is not pinned is at this peer
        plan: Plan,
        placed: Placed,  # callback, called once: with the graphs λ and ρ, or with the reason why the placement failed
        *,
        degree: int | None = None,  # replication degree ϱ
        target: float | None = None,  # required availability, instead of a degree, such as 0.999
        degrees: Mapping[str, int] | None = None,  # operator to its own replication degree, where it is another one
        # entries of the directory, by name, if the caller has them; otherwise they are looked up
        found: DirectoryEntries | None = None,
    ) -> None:
        """Place the replicas of an application.

        Raises ``ValueError`` if the request is being placed or has been placed, or if not exactly one of degree and
        target is given.
        """
        if request in self._pending or request in self._committed:
            raise ValueError(f"request: {request!r}; expected an identifier that is not in use")
        if (degree is None) == (target is None):
            raise ValueError(f"degree, target: {degree}, {target}; expected one of them")
        if degree is not None and degree < 1:
            raise ValueError(f"degree: {degree}; expected at least 1, the primary alone")
        if target is not None and not 0.0 <= target < 1.0:
            raise ValueError(f"target: {target}; expected an availability from 0 to less than 1")
        if not components_of(plan):
            raise ValueError(f"plan: {plan.name!r} has sources and sinks alone; expected an operator to replicate")
        pending = self._pending[request] = _Pending(request, plan, degree or 1, target, placed, degrees)
        self.peer.record(PlacementSubmitted, request, plan=plan.name, degree=degree, availability=target)
        if found is not None:
            self._discovered(pending, found)
            return
        names = {component_name(plan, name) for name, each in plan.operators.items() if each.kind != "sink"}
        self.directory.lookup(sorted(names), lambda entries: self._discovered(pending, entries), self.config.discovery)

    def _discovered(self, pending: _Pending, found: DirectoryEntries | None) -> None:
        if self._pending.get(pending.request) is not pending:
            return
        if found is None:
            self._fail(pending, "the directory did not answer in time")
            return
        own, plan = self.peer.address, pending.plan
        named = {str(entry.attributes.get("peer")): entry.host for each in found.values() for entry in each}
        hosts = {entry.host for each in found.values() for entry in each} | {own}
        backed_up = components_of(plan)
        for name, operator in plan.operators.items():
            entries = found.get(component_name(plan, name), ())
            offering = operator.params["providers"] if operator.kind == TAP else [entry.host for entry in entries]
            able = tuple(host for host in offering if not self.membership.is_dead(host))
            if operator.at is not None:
                at = operator.at if operator.at in hosts else named.get(operator.at)
                if at is None or (operator.kind != "sink" and at not in able):
                    self._fail(pending, f"operator {name}: no peer {operator.at} has its component")
                    return
                pending.pinned[name] = at
            elif operator.kind == "sink":
                pending.pinned[name] = own
            if operator.kind == "sink":  # any peer can have a backup of it
                able = tuple(sorted(each for each in hosts if not self.membership.is_dead(each)))
            pending.candidates[name] = able if operator.kind != "sink" or name in backed_up else (pending.pinned[name],)
        if pending.target is None:
            self._attempt(pending)
            return
        every = {peer for name in components_of(plan) for peer in pending.candidates[name]}
        self.link_survey.survey(sorted(every), lambda links: self._surveyed(pending, links))

    def _surveyed(self, pending: _Pending, links: Mapping[str, SurveyedLink]) -> None:
        """Find the least degree for the requested availability, from the failure probabilities of the candidates."""
        if self._pending.get(pending.request) is not pending or pending.target is None:
            return
        for name in components_of(pending.plan):
            pending.candidates[name] = tuple(peer for peer in pending.candidates[name] if peer in links)
        try:
            pending.failures = failures_of(links)
            pending.degree = degree_for(pending.target, pending.failures, self._most(pending)[0])
        except ValueError as error:
            self._fail(pending, str(error))
            return
        self.peer.record(DegreeChosen, pending.request, degree=pending.degree, availability=pending.target)
        self._attempt(pending)

    @staticmethod
    def _most(pending: _Pending) -> tuple[int, str]:
        """Number of candidates of the component that has the fewest, and the name of that component."""
        return min((len(pending.candidates[name]), name) for name in components_of(pending.plan))

    def _attempt(self, pending: _Pending) -> None:
        plan = pending.plan
        for name, able in pending.candidates.items():
            at = pending.pinned.get(name)
            if at is not None and self.membership.is_dead(at):
                self._fail(pending, f"operator {name}: {at}, where it has to be, has died")
                return
            pending.candidates[name] = tuple(peer for peer in able if peer not in pending.avoid or peer == at)
            if not pending.candidates[name]:
                self._fail(pending, f"operator {name}: no peer that answers has its component")
                return
        for name in components_of(plan):
            wanted, most = pending.degrees.get(name, pending.degree), len(pending.candidates[name])
            if wanted > most:
                self._fail(pending, f"degree: {wanted}; expected at most {most}, the peers that can have {name}")
                return
        pending.attempt = max(pending.attempt, int(self.peer.now * 1000)) + 1  # greater than that of any attempt before
        pending.attempts += 1
        pending.graph = Roles()
        task = Task(
            pending.request, pending.attempt, self.peer.address, plan.to_bytes(), pending.degree,
            pending.candidates, pending.pinned, pending.degrees,
            tuple(sorted(pending.stuck)),
        )  # fmt: skip
        data = encode_task(task)
        self.peer.record(
            PlacementBegun,
            pending.request,
            attempt=pending.attempt,
            degree=pending.degree,
            pinned=pending.pinned,
            candidates={name: len(each) for name, each in task.candidates.items()},
        )
        asked = {peer for able in pending.candidates.values() for peer in able}
        pending.timer = self.membership.answers.after(
            self.config.placement, asked, self._late, pending, pending.attempt
        )
        self.primary_host.begin(data, "", pending.graph)

    # -- phases 2 and 3 --------------------------------------------------------------------------------------------

    def _reported(self, sender: str, message: PlacementReport) -> None:
        self.acknowledged_requests.reply(sender, message.number)
        pending = self._pending.get(message.request)
        if pending is None or pending.attempt != message.attempt:
            return
        known = pending.graph.addresses
        pending.graph = pending.graph.merged(message.graph)
        for address in sorted(pending.graph.addresses - known):
            self.membership.watch(address)
        if message.reason:
            if message.silent:
                pending.avoid.add(message.silent)
            else:
                pending.stuck.add(sender)
            self._again(pending, message.reason)
            return
        relays, pending.relays = pending.relays, []
        for each in relays:
            if not self._relay(each):
                self.primary_host.negotiated(each)
        complete = pending.graph.peers.keys() == pending.plan.operators.keys()
        if complete and pending.graph.backups.keys() == set(components_of(pending.plan)):
            self._complete(pending)

    def _relay(self, message: PlacementNegotiation) -> bool:
        """Forward a negotiation to the peer that decides; store it until that peer is known."""
        task, plan = decode_task(message.task)
        pending = self._pending.get(task.request)
        if pending is None or task.origin != self.peer.address or pending.attempt != task.attempt:
            return False
        to = pending.graph.peers.get(plan.upstream(message.operator)[0])
        if to is None:
            pending.relays.append(message)
        elif to != self.peer.address:
            self.acknowledged_requests.send(
                to,
                lambda number: PlacementNegotiation(
                    number, message.task, message.operator, message.upstream, message.graph, message.candidates
                ),
                lambda _answer: None,  # if it does not come, the attempt ends by its time
            )
        return to != self.peer.address

    def _complete(self, pending: _Pending) -> None:
        request, graph = pending.request, pending.graph
        reached = None if pending.failures is None else availability(graph, pending.failures)
        primaries = {name: graph.peers[name] for name in pending.plan.operators}
        self.peer.record(PlacementCompleted, request, attempt=pending.attempt, degree=pending.degree,
                         primaries=primaries, backups={name: list(each) for name, each in graph.backups.items()},
                         availability=reached, techniques=technique_sentences(pending.plan))  # fmt: skip
        if reached is not None and pending.target is not None and reached < pending.target:
            reason = f"availability {reached:.6g} is less than {pending.target:g}, for peers had no room for more"
            pending.degree += 1
            pending.attempts = 0
            self._again(pending, reason, final=pending.degree > self._most(pending)[0])
            return
        self._cancel_timers(pending)
        self._committed[request] = committed = _Committed(pending.attempt, graph)
        self._renew(request, committed)
        pending.placed(graph, "")

    def _renew(self, request: str, committed: _Committed) -> None:
        """Renew the placement at every host, now and once every interval."""
        if self._committed.get(request) is not committed:
            return
        for address in sorted(committed.graph.addresses):
            operators = tuple(sorted(committed.graph.at(address)))
            self.peer.send(address, PlacementRenewal(request, committed.attempt, operators))
        self.peer.after(self.config.refresh, self._renew, request, committed)

    # -- failure and release -------------------------------------------------------------------------------------------

    def _late(self, pending: _Pending, attempt: int) -> None:
        if self._pending.get(pending.request) is pending and pending.attempt == attempt:
            missing = [name for name in pending.plan.operators if name not in pending.graph.backups]
            missing = [name for name in missing if name in components_of(pending.plan)] or list(pending.plan.sinks)
            self._again(pending, f"not placed in time: {', '.join(missing[:MOST_NAMED])}")

    def _peer_died(self, address: str) -> None:
        for pending in list(self._pending.values()):
            if address in pending.graph.addresses:
                pending.avoid.add(address)
                self._again(pending, f"{address} died")
        for request, committed in self._committed.items():
            lost = committed.graph.at(address)
            if lost:
                self.peer.record(ReplicasLost, request, at=address, replicas=lost)

    def _again(self, pending: _Pending, reason: str, *, final: bool = False) -> None:
        """Release the resources of a failed attempt, and start the next attempt if it can succeed."""
        self.peer.record(PlacementAttemptFailed, pending.request, attempt=pending.attempt, reason=reason)
        self._cancel_timers(pending)
        self._withdraw(pending.request, pending.attempt, pending.graph)
        if final or pending.attempts >= self.config.attempts:
            self._rejected(pending, reason)
            return
        self._pending[pending.request] = pending
        pending.attempt += 1  # reports about the attempt that failed are outdated
        pending.graph = Roles()
        pause = self.peer.rng.uniform(0.0, self.config.answer)
        pending.timer = self.peer.after(pause, self._attempt, pending)

    def _fail(self, pending: _Pending, reason: str) -> None:
        """End a placement that holds no resources at any peer."""
        self._pending.pop(pending.request, None)
        self._rejected(pending, reason)

    def _rejected(self, pending: _Pending, reason: str) -> None:
        self.peer.record(PlacementFailed, pending.request, reason=reason)
        pending.placed(None, reason)

    def _cancel_timers(self, pending: _Pending) -> None:
        """Cancel the time limit and the watches of an attempt that has ended."""
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None
        for address in pending.graph.addresses:
            self.membership.unwatch(address)
        del self._pending[pending.request]

    def _withdraw(self, request: str, attempt: int, graph: Roles) -> None:
        for address in sorted(graph.addresses | {self.peer.address}):
            self.peer.send(address, PlacementWithdrawn(request, attempt, ""))

    def release(self, request: str) -> bool:
        """Release a committed placement, or abort one that is under way; return False if there is none."""
        pending, committed = self._pending.get(request), self._committed.pop(request, None)
        if pending is not None:
            if pending.attempt:
                self._withdraw(request, pending.attempt, pending.graph)
            self._cancel_timers(pending)
        elif committed is not None:
            self._withdraw(request, committed.attempt, committed.graph)
        else:
            return False
        self.peer.record(PlacementReleased, request)
        return True
