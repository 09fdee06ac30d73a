"""Placement hop by hop: the six steps of section 4.4 at the host of a primary.

Theory of operation
-------------------
The host of the primary of an operator o first finds hosts for the primaries of the next operators, then hosts for its
own backups, and only then sends its decisions to the former. So they continue with a graph that contains all earlier
decisions. The order of the steps is the paper's; sending a decision after the backups are placed is our addition.

1, 3. For each operator that reads only o, the host asks candidates in their order (:mod:`selection`) until one accepts.
5, 6. It asks candidates in their order to host the backups of o, until the replication degree is reached.
4.    It sends its decisions to the candidates that accepted a primary.
2.    For an operator with several inputs, the host of its first input decides. It waits for the candidate lists of the
      other hosts, joins their graphs, and asks those candidates on which all agree.

A host that looks ahead (:mod:`offers`) has offered several primaries, which were decided on together. It first sends
the decisions on the backups that it has offered, one for all at a peer, and then continues from all its primaries.
Where it asks for a primary, it compares offers, unless one can be no better.

The origin of the application begins the placement, as the host of an imaginary operator that all sources read.

The host skips a candidate that denies or does not answer. If none is left, it reports that to the origin. It does the
same if a peer becomes silent after it has accepted, since that peer may have continued already, and must not do so
twice.

A hop is a generator: each ``yield`` is a wait for an answer, and whatever arrives goes to the hop that waits for it
(:meth:`PrimaryHost._advance`). So the steps are read from top to bottom, and an attempt that has ended is a hop that is
not continued. Its messages have the request and the attempt, by which late ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from synergy_nb.algorithms.availability._acknowledged_requests import AcknowledgedRequests
from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.algorithms.availability._offers import Offer, following, least_groups
from synergy_nb.algorithms.availability.link_survey import LinkSurvey, SurveyedLink
from synergy_nb.algorithms.availability.messages import (
    PlacementConfig,
    PlacementDecision,
    PlacementNegotiation,
    PlacementReply,
    PlacementReport,
    PlacementRequest,
    PlacementWithdrawn,
    decode_task,
)
from synergy_nb.algorithms.availability.selection import agreed, ordered, single_peers, used_peers
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.control.roles import Roles
from synergy_nb.events import CandidatePassed, MessageRefused, PlacementNegotiated, ReplicaDecided

RECORDED: Final = 8  # maximum number of candidates in a record of the journal
SILENT: Final = "no answer"
SPREAD: Final = "with another one the application depends on fewer groups of peers, or needs fewer others"

Wait = Callable[[Callable[[Any], None]], None]
"""A step that waits: a function that receives the callback for the result."""
Steps = Generator[Wait, Any, None]


class _Failed(Exception):
    """The placement cannot be continued at this peer; ``silent`` is the peer that does not answer."""

    def __init__(self, reason: str, silent: str = "") -> None:
        super().__init__(reason)
        self.silent = silent


class _HopState:
    """State of the placement that this peer continues as the host of one primary."""

    __slots__ = ("data", "graph", "offered", "operator", "over", "plan", "steps", "taken", "task")

    def __init__(self, data: bytes, operator: str, graph: Roles, offer: Offer | None) -> None:
        self.data = data
        self.task, self.plan = decode_task(data)
        self.operator = operator
        self.taken = (operator,) if offer is None else offer.operators  # primaries from which this hop continues
        self.offered = {} if offer is None else offer.backups
        self.graph = graph
        self.over = False
        self.steps: Steps | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.task.request, self.task.attempt

    @property
    def used(self) -> frozenset[str]:
        """Peers that host a decided replica of the application."""
        return used_peers(self.plan, self.graph)

    @property
    def single(self) -> frozenset[str]:
        """Peers whose death ends the application: its origin, and the known peers of sources and sinks."""
        return single_peers(self.task, self.plan, self.graph)

    def needs(self, operator: str, peer: str) -> float:
        """Free cores that a peer needs to execute an operator and all operators that it backs up."""
        backed_up = (name for name, peers in self.graph.backups.items() if peer in peers)
        return sum(map(self.plan.load, {operator, *backed_up}))


class _CandidateLists:
    """Candidate lists received in one attempt, by the operator to be placed and its input."""

    __slots__ = ("received", "waiting")

    def __init__(self) -> None:
        self.received: dict[str, dict[str, PlacementNegotiation]] = {}
        self.waiting: dict[str, tuple[int, Callable[[Any], None]]] = {}


class PrimaryHost(Protocol):
    """Continues placements at one peer, as the host of primaries."""

    def __init__(
        self,
        peer: Peer,
        acknowledged_requests: AcknowledgedRequests,
        link_survey: LinkSurvey,
        config: PlacementConfig,
        # function that forwards a negotiation to the peer that decides, and returns False if that is this peer
        relay: Callable[[PlacementNegotiation], bool],
    ) -> None:
        super().__init__(peer)
        self.acknowledged_requests = acknowledged_requests
        self.link_survey = link_survey
        self.config = config
        self.relay = relay
        self._hops: dict[tuple[str, int], dict[str, _HopState]] = {}
        self._lists: dict[tuple[str, int], _CandidateLists] = {}
        self.handlers = {PlacementNegotiation: self._negotiation}

    def begin(self, task: bytes, operator: str, graph: Roles, offer: Offer | None = None) -> None:
        """Place what follows an operator whose primary is here, or what was offered with it, or the sources."""
        hop = _HopState(task, operator, graph, offer)
        self._hops.setdefault(hop.key, {})[operator] = hop
        hop.steps = self._steps(hop)
        self._advance(hop, None)

    def end(self, request: str, attempt: int) -> None:
        """End an attempt: stop its placement at this peer, and delete its state."""
        for hop in self._hops.pop((request, attempt), {}).values():
            hop.over = True
            self.link_survey.let_go(request, hop.operator)
        self._lists.pop((request, attempt), None)

    # -- one hop -------------------------------------------------------------------------------------------------------

    def _advance(self, hop: _HopState, found: Any) -> None:
        """Go on with a placement whose present step has got the answer that it waited for."""
        if hop.over or hop.steps is None:
            return
        try:
            wait = hop.steps.send(found)
        except StopIteration:
            self._report(hop, "")
        except _Failed as failed:
            self._report(hop, str(failed), failed.silent)
        else:
            wait(partial(self._advance, hop))

    def _report(self, hop: _HopState, reason: str, silent: str = "") -> None:
        hop.over = True
        self.link_survey.let_go(hop.task.request, hop.operator)
        hops = self._hops[hop.key]
        del hops[hop.operator]
        if not hops:
            del self._hops[hop.key]
        self._tell(hop, reason, silent)

    def _tell(self, hop: _HopState, reason: str = "", silent: str = "") -> None:
        """Tell the origin what is placed by now."""
        task, graph = hop.task, hop.graph
        self.acknowledged_requests.send(
            task.origin,
            lambda number: PlacementReport(number, task.request, task.attempt, hop.operator, graph, reason, silent),
            lambda _answer: None,
        )

    def _steps(self, hop: _HopState) -> Steps:
        plan = hop.plan
        yield from self._keep_offer(hop)
        after = [
            (each, name)
            for each in hop.taken
            for name in (plan.downstream(each) if each else plan.sources)
            if name not in hop.taken
        ]
        alone = [(each, name) for each, name in after if len(plan.upstream(name)) < 2]
        for each, name in alone:
            links = yield from self._survey(hop, [name])
            yield from self._request(hop, each, name, self._preferred(hop, each, name, links), links)
        for each in hop.taken:
            if each in components_of(plan):
                yield from self._back_up(hop, each)
        for _, name in alone:
            yield from self._decide(hop, name)
        joined = [(each, name) for each, name in after if len(plan.upstream(name)) > 1]
        if any(each == plan.upstream(name)[0] != hop.operator for each, name in joined):
            # others send their lists to the origin until it knows that an operator of an offer is here, and this peer
            # waits for them (test_operators_of_an_offer_may_be_inputs_of_a_join)
            self._tell(hop)
        # other hosts wait for these lists, and this one may wait for theirs
        for each, name in sorted(joined, key=lambda edge: edge[0] == plan.upstream(edge[1])[0]):
            links = yield from self._survey(hop, [name])
            upper = plan.upstream(name)[0]
            if upper != each:
                yield from self._negotiate(hop, each, name, self._preferred(hop, each, name, links))
                continue
            received: Mapping[str, PlacementNegotiation] = yield partial(self._negotiations, hop, name)
            for message in received.values():
                hop.graph = hop.graph.merged(message.graph)
            lists: list[tuple[float, Sequence[str]]] = [(plan.bandwidth(each), self._preferred(hop, each, name, links))]
            lists += [(plan.bandwidth(other), received[other].candidates) for other in plan.upstream(name)[1:]]
            yield from self._request(hop, each, name, agreed(lists, hop.used, self._single(hop, name)), links)
            yield from self._decide(hop, name)
        self._settle_uplink(hop)

    def _settle_uplink(self, hop: _HopState) -> None:
        """Release the part of the uplink that is not needed, because streams stay at this peer."""
        plan, own = hop.plan, self.peer.address
        for name in filter(None, hop.taken):
            leaving = sum(hop.graph.peers.get(each) != own for each in plan.downstream(name))
            leaving += len(hop.graph.backups.get(name, ()))
            self.link_survey.ledger.send(hop.task.request, name, plan.bandwidth(name) * leaving)

    # -- steps 1 to 4 --------------------------------------------------------------------------------------------------

    def _survey(self, hop: _HopState, operators: Sequence[str]) -> Generator[Wait, Any, dict[str, SurveyedLink]]:
        links: dict[str, SurveyedLink] = yield partial(
            self.link_survey.survey_operators, hop.task, operators, hop.graph
        )
        return links

    def _preferred(self, hop: _HopState, upstream: str, name: str, links: Mapping[str, SurveyedLink]) -> list[str]:
        """Candidates for the primary of an operator that reads one of this hop's, in the order of preference."""
        bandwidth = hop.plan.bandwidth(upstream) if upstream else 0.0
        return ordered(hop.task.for_primary(name), links, hop.used, bandwidth, single=self._single(hop, name))

    def _single(self, hop: _HopState, name: str) -> frozenset[str]:
        """Peers at which a replica of an operator should not be placed."""
        return hop.single if self.config.apart_first and name in components_of(hop.plan) else frozenset()

    def _request(
        self, hop: _HopState, upstream: str, name: str, order: Sequence[str], links: Mapping[str, SurveyedLink]
    ) -> Steps:
        """Ask candidates in their order to host a primary, until one accepts and no other can make a better offer."""
        passed: list[tuple[str, str]] = []
        offers: list[tuple[int, int, int, str]] = []
        fewest, all_of_it = max(1, least_groups(hop.graph.replicas.values())), len(following(hop.plan, hop.graph, name))
        for address in order:
            answer: PlacementReply | None = yield self._post(
                address, lambda number: PlacementRequest(number, hop.data, name, hop.graph)
            )
            if answer is None or not answer.accepted:
                passed.append((address, self._passed(hop, [name], address, answer)))
                continue
            worth = (answer.groups, -answer.takes)
            offers.append((*(reversed(worth) if hop.task.stuck else worth), len(offers), address))
            best = answer.groups <= fewest and answer.takes == all_of_it
            if not answer.groups or best or len(offers) == self.config.offers:
                break
        if not offers:
            unknown = set(hop.task.for_primary(name)) - links.keys()
            raise self._no_candidate_left(f"the primary of {name}", passed, unknown)
        *_, chosen = min(offers)
        for *_, other in offers:
            if other != chosen:
                # the others hold what they have offered until their time limits, unless they are told
                # (test_an_application_stays_on_few_peers_where_links_are_looked_at_ahead)
                withdrawn = PlacementWithdrawn(hop.task.request, hop.task.attempt, name, accepted=True)
                self.peer.send(other, withdrawn)
                passed.append((other, SPREAD))
                self.peer.record(CandidatePassed, hop.task.request, operator=name, at=other, reason=SPREAD)
        if chosen != self.peer.address and upstream:
            self.link_survey.subtract(chosen, hop.plan.bandwidth(upstream), hop.task.request, hop.operator)
        self._record_choice(hop, name, "primary", chosen, hop.used, order, passed, links)
        hop.graph = Roles({**hop.graph.peers, name: chosen}, hop.graph.backups)

    def _decide(self, hop: _HopState, name: str) -> Steps:
        """Send the decision to the peer that has accepted a primary."""
        address = hop.graph.peers[name]
        answer: PlacementReply | None = yield self._post(
            address, lambda number: PlacementDecision(number, hop.data, name, backup=False, graph=hop.graph)
        )
        if answer is None:
            raise _Failed(f"{address} has accepted the primary of {name} and does not answer any more", address)
        if not answer.accepted:
            raise _Failed(f"{address} has accepted the primary of {name}, but {answer.reason}")

    def _negotiate(self, hop: _HopState, upstream: str, name: str, order: Sequence[str]) -> Steps:
        """Send this peer's candidate list for an operator to the peer that decides on it."""
        to = hop.graph.peers.get(hop.plan.upstream(name)[0], hop.task.origin)
        chosen = tuple(order)
        self.peer.record(PlacementNegotiated, hop.task.request, operator=name, upstream=upstream, to=to,
                         candidates=order[:RECORDED])  # fmt: skip
        answer: PlacementReply | None = yield self._post(
            to, lambda number: PlacementNegotiation(number, hop.data, name, upstream, hop.graph, chosen)
        )
        if answer is None:
            raise _Failed(f"{to} does not answer to negotiate on {name}", to)

    # -- steps 5 and 6 -------------------------------------------------------------------------------------------------

    def _keep_offer(self, hop: _HopState) -> Steps:
        """Place the backups that were offered with this hop's operators, with one decision for each peer."""
        together: dict[tuple[str, ...], list[str]] = {}
        for name, peers in hop.offered.items():
            together.setdefault(peers, []).append(name)
        for name in hop.taken[1:]:
            own = self.peer.address
            self._record_choice(hop, name, "primary", own, hop.used, [own], (), {own: self.link_survey.own})
        for peers, names in together.items():
            for address in peers:
                message = partial(
                    PlacementDecision,
                    task=hop.data,
                    operator=names[0],
                    backup=True,
                    graph=hop.graph,
                    also=tuple(names[1:]),
                )
                answer: PlacementReply | None = yield self._post(address, message)
                if answer is None or not answer.accepted:
                    self._passed(hop, names, address, answer)
                    break  # the backups that are missing are placed one after the other
                for name in names:
                    self.link_survey.subtract(address, hop.plan.bandwidth(name), hop.task.request, hop.operator)
                    links = self.link_survey.known(peers)
                    self._record_choice(hop, name, "backup", address, hop.used, peers, (), links)
                    before = hop.graph.backups.get(name, ())
                    hop.graph = Roles(hop.graph.peers, {**hop.graph.backups, name: (*before, address)})

    def _back_up(self, hop: _HopState, name: str) -> Steps:
        """Place the backups of an operator that are missing, one after the other."""
        own = self.peer.address
        bandwidth = hop.plan.bandwidth(name)
        chosen = list(hop.graph.backups.get(name, ()))
        passed: list[tuple[str, str]] = []
        while len(chosen) < hop.task.degree_of(name) - 1:
            links = yield from self._survey(hop, [name])
            used = hop.used
            needs = partial(hop.needs, name) if self.config.room_first else (lambda _peer: 0.0)
            order = ordered(
                hop.task.candidates[name], links, used, bandwidth, [own, *chosen], needs, self._single(hop, name)
            )
            order = [address for address in order if address not in dict(passed)]
            if not order:
                what = f"backup {len(chosen) + 1} of {hop.task.degree_of(name) - 1} of {name}"
                raise self._no_candidate_left(what, passed, set(hop.task.candidates[name]) - links.keys())
            address = order[0]
            answer: PlacementReply | None = yield self._post(
                address, lambda number: PlacementDecision(number, hop.data, name, backup=True, graph=hop.graph)
            )
            if answer is None or not answer.accepted:
                passed.append((address, self._passed(hop, [name], address, answer)))
                continue
            self.link_survey.subtract(address, bandwidth, hop.task.request)
            self._record_choice(hop, name, "backup", address, used, order, passed, links)
            chosen.append(address)
            hop.graph = Roles(hop.graph.peers, {**hop.graph.backups, name: tuple(chosen)})
        if not chosen:
            hop.graph = Roles(hop.graph.peers, {**hop.graph.backups, name: ()})

    # -- shared by several steps ---------------------------------------------------------------------------------------

    def _post(self, to: str, make: Callable[[int], Message]) -> Wait:
        return partial(self.acknowledged_requests.send, to, make)

    def _passed(self, hop: _HopState, names: Sequence[str], address: str, answer: PlacementReply | None) -> str:
        """Record that a candidate for operators is skipped; return the reason."""
        self.link_survey.forget(address)
        reason = SILENT if answer is None else answer.reason
        for name in names:
            if answer is None:
                self.peer.send(address, PlacementWithdrawn(hop.task.request, hop.task.attempt, name))
            self.peer.record(CandidatePassed, hop.task.request, operator=name, at=address, reason=reason)
        return reason

    @staticmethod
    def _no_candidate_left(what: str, passed: Sequence[tuple[str, str]], unknown: Collection[str]) -> _Failed:
        """Create the error that no candidate is left; the peers ``unknown`` have not answered a survey of links."""
        tried = [f"{address}: {reason}" for address, reason in passed]
        tried += [f"{address}: {SILENT}" for address in sorted(unknown)]
        text = f"no peer for {what}: " + ("; ".join(tried[:RECORDED]) or "no link to a candidate has the bandwidth")
        return _Failed(text)

    def _record_choice(
        self,
        hop: _HopState,
        name: str,
        role: str,
        address: str,
        used: frozenset[str],
        order: Sequence[str],
        passed: Sequence[tuple[str, str]],
        links: Mapping[str, SurveyedLink],
    ) -> None:
        """Record the reason for the choice of a replica's peer."""
        self.peer.record(
            ReplicaDecided,
            hop.task.request,
            operator=name,
            role=role,
            at=address,
            used=address in used,
            apart=bool(self._single(hop, name)),
            latency_s=links[address].latency if address in links else None,
            order=list(order[:RECORDED]),
            candidates=len(order),
            passed=list(passed),
        )

    # -- step 2, at the peer that decides ------------------------------------------------------------------------------

    def _negotiations(self, hop: _HopState, name: str, resume: Callable[[Any], None]) -> None:
        """Decide on an operator once the candidate lists of all its inputs have arrived."""
        known = self._lists_of(hop.key)
        known.waiting[name] = len(hop.plan.upstream(name)) - 1, resume
        self._resume_if_complete(known, name)

    def _negotiation(self, sender: str, message: PlacementNegotiation) -> None:
        try:
            plan = decode_task(message.task)[1]
            if message.upstream not in plan.upstream(message.operator)[1:]:
                raise ValueError(f"upstream: {message.upstream!r}; expected an input of the operator, except the first")
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            self.peer.record(MessageRefused, sender, message="PlacementNegotiation", reason=str(error))
            return
        self.acknowledged_requests.reply(sender, message.number)
        if not self.relay(message):
            self.negotiated(message)

    def negotiated(self, message: PlacementNegotiation) -> None:
        """Store a candidate list for an operator on which this peer decides."""
        task, _ = decode_task(message.task)
        known = self._lists_of((task.request, task.attempt))
        known.received.setdefault(message.operator, {})[message.upstream] = message
        self._resume_if_complete(known, message.operator)

    def _resume_if_complete(self, known: _CandidateLists, name: str) -> None:
        count, resume = known.waiting.get(name, (0, None))
        received = known.received.get(name, {})
        if resume is not None and len(received) == count:
            del known.waiting[name]
            resume(received)

    def _lists_of(self, key: tuple[str, int]) -> _CandidateLists:
        """The received candidate lists of an attempt; deleted after the maximum duration of an attempt."""
        if key not in self._lists:
            self._lists[key] = _CandidateLists()
            self.peer.after(self.config.placement, self._forget, key)
        return self._lists[key]

    def _forget(self, key: tuple[str, int]) -> None:
        self._lists.pop(key, None)
