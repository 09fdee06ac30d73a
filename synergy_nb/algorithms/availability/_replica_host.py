"""Placement at a peer that is to host replicas: steps 3, 4 and 6 of section 4.4, and the release of replicas.

The peer reserves the resources of a primary when it accepts it, and commits them when the decision arrives. For a
backup there is no reservation: the decision itself is accepted or denied. So concurrent placements never allocate a
resource twice. The peer releases its part of a placement when the origin withdraws it, when a later attempt begins,
when the decision on an accepted primary does not arrive in time, and when no renewal has arrived during a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from synergy_nb.algorithms.availability._acknowledged_requests import AcknowledgedRequests
from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.algorithms.availability._offers import Offer, best_offer, following
from synergy_nb.algorithms.availability.link_survey import LinkSurvey, SurveyedLink
from synergy_nb.algorithms.availability.messages import (
    PlacementConfig,
    PlacementDecision,
    PlacementRenewal,
    PlacementRequest,
    PlacementWithdrawn,
    Task,
    decode_task,
)
from synergy_nb.control.ledger import ROUNDING, Ledger
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    MessageOutdated,
    MessageRefused,
    ReplicaAccepted,
    ReplicaDenied,
    ReplicaPlaced,
    ReplicasLeft,
    ReservationExpired,
)
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.overlay.recently_seen import Recent
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import needed_bytes

MOST_ENDED: Final = 4096  # ended attempts that a peer remembers, to refuse late messages
ACCEPTED, PRIMARY, BACKUP = "accepted", "primary", "backup"


class _AttemptState:
    """The state of one attempt to place an application, at this peer."""

    __slots__ = ("askers", "attempt", "evaluating", "expiry", "lease", "offers", "origin", "roles")

    def __init__(self, attempt: int, origin: str) -> None:
        self.attempt = attempt
        self.origin = origin  # peer that leads the application
        self.askers: set[str] = set()  # peers that have asked for replicas
        self.roles: dict[str, str] = {}  # operator to accepted, primary or backup
        self.expiry: dict[str, AnswerLimit] = {}  # accepted operator to the time limit for its decision
        self.evaluating: set[str] = set()
        self.offers: dict[str, Offer] = {}  # accepted operator to what was offered with it, until that is decided
        self.lease: AnswerLimit | None = None


class ReplicaHost(Protocol):
    """Hosts replicas of applications at one peer."""

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        acknowledged_requests: AcknowledgedRequests,
        link_survey: LinkSurvey,
        offers: Callable[[Plan, str], bool],  # whether this peer has the component of an operator of a plan
        config: PlacementConfig,
        answers: AnswerLimits,  # time limits on the answers of other peers, which lateness stretches
        # callback for (task bytes, operator, graph, offer or None) that continues the placement, once this peer has
        # received a primary
        on_primary: Callable[[bytes, str, Roles, Offer | None], None],
        # callback for (request, attempt), called when an attempt has ended at this peer
        on_end: Callable[[str, int], None],
    ) -> None:
        super().__init__(peer)
        self.ledger = ledger
        self.acknowledged_requests = acknowledged_requests
        self.link_survey = link_survey
        self.offers = offers
        self.config = config
        self._answers = answers
        self.on_primary = on_primary
        self.on_end = on_end
        self._attempts: dict[str, _AttemptState] = {}
        self._ended = Recent(MOST_ENDED)
        self.handlers = {
            PlacementRequest: self._requested,
            PlacementDecision: self._decided,
            PlacementRenewal: self._renewed,
            PlacementWithdrawn: self._withdrawn,
        }

    def roles(self, request: str) -> Mapping[str, str]:
        """Roles of this peer in an application: operator to ``accepted``, ``primary`` or ``backup``."""
        state = self._attempts.get(request)
        return {} if state is None else dict(state.roles)

    def origin(self, request: str) -> str:
        """Address of the peer that leads an application with replicas here; empty if there are none."""
        state = self._attempts.get(request)
        return "" if state is None else state.origin

    def askers(self, request: str) -> Collection[str]:
        """Peers that have asked for replicas of an application here."""
        state = self._attempts.get(request)
        return () if state is None else state.askers

    @property
    def requests(self) -> frozenset[str]:
        """Applications with a replica that this peer hosts or has accepted."""
        return frozenset(self._attempts)

    # -- step 3 ----------------------------------------------------------------------------------------------------

    def _read(self, sender: str, message: PlacementRequest | PlacementDecision) -> tuple[Task, Plan] | None:
        """Decode task and plan of a message, and create the state of its attempt; None if the message is refused."""
        kind = type(message).__name__
        try:
            task, plan = decode_task(message.task)
            if message.operator not in plan.operators:
                raise ValueError(f"operator: {message.operator!r}; expected one of the plan")
            if not plan.operators.keys() >= message.graph.peers.keys() >= set(plan.upstream(message.operator)):
                raise ValueError("graph: expected the primaries of all operators upstream")
        except (msgspec.MsgspecError, ValueError) as error:
            self.peer.record(MessageRefused, sender, message=kind, reason=str(error))
            return None
        state = self._attempts.get(task.request)
        stale = (task.request, task.attempt) in self._ended or (state is not None and task.attempt < state.attempt)
        if stale:
            self.peer.record(MessageOutdated, task.request, message=kind, sender=sender, reason="stale attempt")
            return None
        if state is not None and state.attempt < task.attempt:
            self._leave(task.request, "a later attempt")
        if task.request not in self._attempts:
            self._attempts[task.request] = _AttemptState(task.attempt, task.origin)
        self._attempts[task.request].askers.add(sender)
        return task, plan

    def _requested(self, sender: str, message: PlacementRequest) -> None:
        found = self._read(sender, message)
        if found is None:
            return
        task, plan = found
        operator, state = message.operator, self._attempts[task.request]
        if operator in state.roles:
            self._answer_for(state, sender, message)
        elif operator not in state.evaluating:
            state.evaluating.add(operator)
            names = [operator, *plan.downstream(operator)]
            if self.config.ahead and operator in components_of(plan):
                ahead = following(plan, message.graph, operator)
                names = list(dict.fromkeys([*ahead, *(after for name in ahead for after in plan.downstream(name))]))
            self.link_survey.survey_operators(
                task, names, message.graph, lambda links: self._evaluate(sender, message, state, links)
            )

    def _evaluate(
        self, sender: str, message: PlacementRequest, state: _AttemptState, links: Mapping[str, SurveyedLink]
    ) -> None:
        task, plan = decode_task(message.task)
        request, operator = task.request, message.operator
        if self._attempts.get(request) is not state:
            return  # the placement has been withdrawn meanwhile
        state.evaluating.discard(operator)
        if operator in state.roles:  # a duplicate of the message; a decision arrived in between
            self._answer_for(state, sender, message)
            return
        refusal = self._unmet_condition(task, plan, operator, links)
        refusal = refusal or self._reserve(task, plan, operator, message.graph)
        offer = None
        if not refusal and self.config.ahead and operator in components_of(plan):
            offer = self._offered(task, plan, message, state, links)
        for name in (operator,) if offer is None else offer.operators:
            refusal = refusal or self._send(task, plan, name, () if offer is None else offer.operators)
        if refusal:
            for name in (operator,) if offer is None else offer.operators:
                self.ledger.drop(request, name)
            self.peer.record(ReplicaDenied, request, operator=operator, role=PRIMARY, reason=refusal)
            self._tidy(request)
            self.acknowledged_requests.reply(sender, message.number, refusal)
            return
        if offer is not None:
            state.offers[operator] = offer
            self.link_survey.hold(request, operator, offer.bandwidth(plan, task, self.peer.address))
        left = self.ledger.residual_cores("")
        for name in (operator,) if offer is None else offer.operators:
            state.roles[name] = ACCEPTED
            limit, origin = self.config.reservation, (task.origin,)
            state.expiry[name] = self._answers.after(limit, origin, self._expire, request, state, name)
            self.peer.record(ReplicaAccepted, request, operator=name, by=sender, cores_left=left)
        self._answer_for(state, sender, message)

    def _reserve(self, task: Task, plan: Plan, operator: str, graph: Roles) -> str:
        """Reserve what the primary of an operator needs here, apart from the uplink; return the reason of a refusal."""
        return self.ledger.reserve_additional(
            task.request, operator, plan.load(operator), self._read_from(plan, operator, graph),
            external=plan.on_spark(operator), memory=needed_bytes(plan, operator),
        )  # fmt: skip

    def _send(self, task: Task, plan: Plan, operator: str, beside: Collection[str]) -> str:
        """Allocate what a primary sends to others than those ``beside`` it here; return the reason of a refusal."""
        streams = sum(each not in beside for each in plan.downstream(operator))
        streams += task.degree_of(operator) - 1 if operator in components_of(plan) else 0
        return self.ledger.send(task.request, operator, plan.bandwidth(operator) * streams)

    def _offered(
        self, task: Task, plan: Plan, message: PlacementRequest, state: _AttemptState, links: Mapping[str, SurveyedLink]
    ) -> Offer | None:
        """Reserve what this peer can take in addition to an operator whose primary it has reserved, and return that."""
        request, operator, own = task.request, message.operator, self.peer.address
        ahead = following(plan, message.graph, operator)
        graph, possible = message.graph.merged(Roles({operator: own})), [operator]
        for name in ahead[1:]:
            if name in state.roles or own not in task.for_primary(name) or not self.offers(plan, name):
                break
            graph = graph.merged(Roles({name: own}))
            if self._reserve(task, plan, name, graph):
                break
            possible.append(name)

        def returned(peer: str) -> float:
            return self.ledger.residual_bandwidth(request, peer)

        offer = best_offer(task, plan, message.graph, own, ahead, len(possible), links, returned,
                           self.ledger.residual_uplink, self.config)  # fmt: skip
        for name in possible[1:]:
            if offer is None or name not in offer.operators:
                self.ledger.drop(request, name)
        return offer

    def _answer_for(self, state: _AttemptState, sender: str, message: PlacementRequest) -> None:
        """Answer a repeated request for an operator in which this peer has a role already."""
        if state.roles[message.operator] == BACKUP:
            self.acknowledged_requests.reply(sender, message.number, "a backup of it is here")
            return
        offer = state.offers.get(message.operator)
        takes, groups = (1, 0) if offer is None else (len(offer.operators), offer.groups)
        self.acknowledged_requests.reply(sender, message.number, takes=takes, groups=groups)

    def _unmet_condition(self, task: Task, plan: Plan, operator: str, links: Mapping[str, SurveyedLink]) -> str:
        """The condition on the component or on outgoing links that does not hold, as text; empty if all hold."""
        own = self.peer.address
        if not self.offers(plan, operator):
            return "it does not offer the component"
        bandwidth = plan.bandwidth(operator) * (1.0 - ROUNDING)

        def reached(peers: Iterable[str]) -> list[str]:
            return [peer for peer in peers if peer in links and links[peer].bandwidth >= bandwidth]

        for name in plan.downstream(operator):
            if not reached(task.for_primary(name)):
                return f"bandwidth downstream: no peer for {name} can be given {plan.bandwidth(operator):.4g} bytes/s"
        if operator in components_of(plan):
            others = [peer for peer in reached(task.candidates[operator]) if peer != own]
            if len(others) < task.degree_of(operator) - 1:
                return (
                    f"bandwidth to backups: {len(others)} of {task.degree_of(operator) - 1} peers can be given "
                    f"{plan.bandwidth(operator):.4g} bytes/s"
                )
        return ""

    def _read_from(self, plan: Plan, operator: str, graph: Roles) -> dict[tuple[str, str], float]:
        """Link and stream to the bandwidth that a primary here reads from other peers, bytes/s."""
        senders = {(graph.peers[name], name) for name in plan.upstream(operator)}
        return {link: plan.bandwidth(link[1]) for link in senders if link[0] != self.peer.address}

    # -- steps 4 and 6 -----------------------------------------------------------------------------------------------

    def _decided(self, sender: str, message: PlacementDecision) -> None:
        found = self._read(sender, message)
        if found is None:
            return
        task, plan = found
        request, operator, state = task.request, message.operator, self._attempts[task.request]
        decided, offer = BACKUP if message.backup else PRIMARY, state.offers.get(operator)
        names = (operator, *message.also) if message.backup or offer is None else offer.operators
        if all(state.roles.get(name) == decided for name in names):
            self.acknowledged_requests.reply(sender, message.number)  # a repeated message, since the answer was lost
            return
        placed: list[str] = []
        refusal, graph = "", message.graph
        for name in names:
            if state.roles.get(name) == decided:
                continue
            if message.backup:
                refusal = self._commit_backup(task, plan, name, graph)
            else:
                refusal = self._commit_primary(task, plan, name, graph)
                graph = graph.merged(Roles({name: self.peer.address}))
            if refusal:
                break
            placed.append(name)
        if refusal:
            for name in placed:
                self.ledger.drop(request, name)
            self.peer.record(ReplicaDenied, request, operator=operator, role=decided, reason=refusal)
            self._tidy(request)
        for name in placed if not refusal else ():
            state.roles[name] = decided
            if name in state.expiry:
                state.expiry.pop(name).cancel()
            self.peer.record(ReplicaPlaced, request, operator=name, role=decided, by=sender)
        if not refusal and state.lease is None:
            state.lease = self._answers.after(self.config.lease, (task.origin,), self._abandoned, request, state)
        self.acknowledged_requests.reply(sender, message.number, refusal)
        if not refusal and not message.backup:
            state.offers.pop(operator, None)
            self.on_primary(message.task, operator, graph, offer)

    def _commit_primary(self, task: Task, plan: Plan, operator: str, graph: Roles) -> str:
        if self._attempts[task.request].roles.get(operator) != ACCEPTED:
            return "it is not reserved any more"
        links, external = self._read_from(plan, operator, graph), plan.on_spark(operator)
        memory = needed_bytes(plan, operator)
        return self.ledger.commit(task.request, operator, plan.load(operator), links, external=external, memory=memory)

    def _commit_backup(self, task: Task, plan: Plan, operator: str, graph: Roles) -> str:
        request, primary = task.request, graph.peers.get(operator, self.peer.address)
        if operator in self._attempts[request].roles or primary == self.peer.address:
            return "another replica of it is here"
        if not self.offers(plan, operator):
            return "it does not offer the component"
        links = {(primary, operator): plan.bandwidth(operator)}
        return self.ledger.reserve_additional(request, operator, 0.0, links) or self.ledger.commit(
            request, operator, 0.0, links
        )

    # -- the end -------------------------------------------------------------------------------------------------------

    def _expire(self, request: str, state: _AttemptState, operator: str) -> None:
        """Release an accepted primary whose decision has not arrived in time."""
        if self._attempts.get(request) is state:
            self.peer.record(ReservationExpired, request, operator=operator, attempt=state.attempt)
            self._drop(request, operator)

    def _abandoned(self, request: str, state: _AttemptState) -> None:
        if self._attempts.get(request) is state:
            self._leave(request, "its origin has sent no renewal")

    def _renewed(self, sender: str, message: PlacementRenewal) -> None:
        state = self._attempts.get(message.request)
        if state is None or state.attempt != message.attempt:
            return
        for operator in sorted(state.roles.keys() - set(message.operators)):
            self._drop(message.request, operator)  # its answer was lost, so another peer was chosen
        if state.lease is not None:
            state.lease.cancel()
        state.lease = self._answers.after(self.config.lease, (sender,), self._abandoned, message.request, state)

    def _withdrawn(self, sender: str, message: PlacementWithdrawn) -> None:
        request, state = message.request, self._attempts.get(message.request)
        if message.operator:
            released = (ACCEPTED,) if message.accepted else (ACCEPTED, BACKUP)
            if state is not None and state.attempt == message.attempt:
                offer = state.offers.get(message.operator) if message.accepted else None
                for name in (message.operator,) if offer is None else offer.operators:
                    if state.roles.get(name) in released:
                        self._drop(request, name)
            return
        if state is not None and state.attempt <= message.attempt:
            self._leave(request, "withdrawn")
        self._end(request, message.attempt)

    def _drop(self, request: str, operator: str) -> None:
        state = self._attempts[request]
        if state.roles.pop(operator, None) is not None:
            self.ledger.drop(request, operator)
        if state.offers.pop(operator, None) is not None:
            self.link_survey.let_go(request, operator)
        if operator in state.expiry:
            state.expiry.pop(operator).cancel()
        self._tidy(request)

    def _leave(self, request: str, reason: str) -> None:
        """Release all resources of an application at this peer."""
        state = self._attempts[request]
        for operator in list(state.roles):
            self.ledger.drop(request, operator)
        for operator in state.offers:
            self.link_survey.let_go(request, operator)
        self.link_survey.given_back(request)
        for timer in (*state.expiry.values(), *([state.lease] if state.lease is not None else [])):
            timer.cancel()
        del self._attempts[request]
        self._end(request, state.attempt)
        self.peer.record(ReplicasLeft, request, attempt=state.attempt, reason=reason)

    def _end(self, request: str, attempt: int) -> None:
        self._ended.add((request, attempt))
        self.on_end(request, attempt)

    def _tidy(self, request: str) -> None:
        """Remove the record of an application without replicas at this peer."""
        state = self._attempts[request]
        if not state.roles and not state.evaluating:
            if state.lease is not None:
                state.lease.cancel()
            del self._attempts[request]
