"""Composition at the candidates: processing and propagation of probes (section 2.3.1, steps 2 and 3).

Theory of operation
-------------------
A probe asks a peer whether it can execute one operator, after a path of others. The peer deals with it in this order:

1. *Is it news?* A probe of a round that is over here is refused by name, since nobody would release what it reserves. A
   probe with the operator and the path of an earlier one is a duplicate, and is dropped without an answer: each answer
   gives back a weight, and the origin would decide before all probes have ended.
2. *Check* the conditions of step 2. Nothing is reserved yet, so a refusal leaves nothing behind.
3. *Acknowledge* to the peer upstream, also if the probe is refused: that peer only has to know that the probe has
   arrived, or else it reports the silence to the origin. The origin hears from this peer what came of it.
4. *Reserve*, until the round is over or the time of a reservation has passed. Reservations of one request do not
   exclude each other, as only one of its graphs will run; so the check itself subtracts what the path of the probe
   takes here.
5. *Propagate* to candidates of the next operators, or return the path to the origin from a sink.

The origin knows that all probes have ended when it has got all weight back. So the shares of the children add up to the
weight of the probe exactly, in integers; a peer downstream that does not acknowledge counts as ended.

Where several routes of a plan meet, all peers that probe have to choose the same candidates, or no two paths could be
merged. There the choice depends on the request alone, not on what a peer knows or on the path.
"""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from synergy_nb.algorithms.composition import _component_placement as component_placement
from synergy_nb.algorithms.composition._adaptive import share
from synergy_nb.algorithms.composition._probed_paths import Extended, check_route, routes_meet, summed
from synergy_nb.algorithms.composition.messages import (
    APART,
    Acknowledged,
    CompositionConfig,
    Dropped,
    Merged,
    Probe,
    ProbedRequest,
    Release,
    Returned,
    decode_request,
)
from synergy_nb.control.graph import Hop, late_share
from synergy_nb.control.ledger import ROUNDING, Ledger
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.control.rights import Admission
from synergy_nb.control.shedding import Allowance, Allowances
from synergy_nb.events import MessageOutdated, MessageRefused, ProbeAccepted, ProjectedImpact, ReservationExpired
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.lifecycle.requests.selection_conditions import exceeds
from synergy_nb.models.overheads import HOP, Overhead, Overheads, quantile, together
from synergy_nb.models.projection import Impact, refused
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.recently_seen import Latest
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import needed_bytes
from synergy_nb.plan.derived.stream_sharing import Provider, provider
from synergy_nb.plan.operators import catalogue
from synergy_nb.plan.operators.sources import reader_of
from synergy_nb.plan.terms.units import rank_of

Project = Callable[[str, Plan, str, Sequence[str], float], tuple[float, list[Impact]]]

NO_CAPACITY: Final = "with this operator it would be busy all the time, so ever more tuples would wait"
FRESH: Final = 2.0  # seconds for which a report of another peer's free cores is used
RECORDED: Final = 4  # maximum number of applications whose projected impact the journal records for a probe
# closed requests that a peer remembers so as to refuse their late probes; also the limit of reports of free cores
MOST_RECORDS: Final = 4096
# what one sender may have this peer check; a peer checks some thousand probes in a second
PROBES: Final = Allowance(rate=500.0, burst=5000.0)
# share of this peer that one sender may hold for nothing in the long run; at once it may hold all of it, once. Each
# reservation costs its share of the peer for the time until it expires, less what is left of that when it is released
HELD: Final = 0.25


class _Waiting(msgspec.Struct):
    """Weights of probes that the next hops have not acknowledged yet, by (operator, address of the next hop)."""

    attempt: int
    weights: dict[tuple[str, str], int]


class _Held(msgspec.Struct):
    """What a request holds of a peer without a commitment, and for whom."""

    until: float  # time in seconds at which it expires
    shares: dict[str, tuple[str, float]]  # operator to the sender of its probe, and its share of the capacity


class Probing(Protocol):
    """Checks, reservations and propagation of probes at one peer."""

    allowances: Mapping[type[Message], Allowance] = {Probe: PROBES}

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        latency: Latency,  # measured latencies to other peers, in seconds
        config: CompositionConfig,  # parameters; only its times matter here, the rest travels with the request
        offers: Iterable[str],  # directory names of the components that this peer has
        overheads: Overheads | None,  # overheads of items at this peer, as its driver measures them
        # function that returns the execution time of a component here and its impact on the applications here, see
        # `project`
        project: Project,
        # function of (application, operator) and of the user who is to read it that returns the time from a source
        # until a component of this peer has executed a tuple, seconds; None if it has no such component for that user
        running: Callable[[Provider, str], float | None],
        # function that returns the addresses of other peers, neighbours in the overlay first
        known: Callable[[], Sequence[str]],
        answers: AnswerLimits,  # time limits on the answers of other peers
        admission: Admission | None = None,  # what this peer accepts of users; None: everything
    ) -> None:
        super().__init__(peer)
        self.answers = answers
        self._admission = admission
        self.ledger = ledger
        self.latency = latency
        self.config = config
        self.offers = set(offers)
        self.probes = 0  # probes that it has processed
        self.project = project
        self.running = running
        self.known = known
        self.overheads = overheads or Overheads()
        self._free: dict[str, tuple[float, float]] = {}  # peer to (free cores, time of the report in seconds)
        self._active: dict[str, tuple[int, AnswerLimit]] = {}
        self._seen: dict[str, set[tuple[str, tuple[tuple[str, str], ...]]]] = {}
        self._extended: dict[str, Extended] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._unsent: dict[tuple[str, str, int], dict[str, int]] = {}  # (upstream, request, attempt) to weights
        self._closed: Latest[int] = Latest(MOST_RECORDS)
        self._origins: dict[str, str] = {}  # request that is probed here to its origin
        self._allowed = Allowances(Allowance(rate=HELD, burst=1.01 * config.reservation))
        self._held: dict[str, _Held] = {}  # by request
        ledger.on_unreserved.append(self._unreserved)
        self.handlers = {Probe: self._probe, Acknowledged: self._acknowledged, Release: self._release}

    def tolerated_excess(self, plan: Plan) -> float:
        """Share by which a delay that is projected at this peer may exceed the plan's limit, see ``guard_band``."""
        return 0.0 if self.overheads.empty or plan.qos.miss_rate is not None else self.config.guard_band

    def origin(self, request: str) -> str:
        """Address of the peer that has a request probed here; empty if none is."""
        return self._origins.get(request, "")

    def cores_reported(self, address: str, cores: float) -> None:
        """The driver's report of another peer's free cores, which arrive with its data (step 3)."""
        self._free.pop(address, None)
        self._free[address] = cores, self.peer.now
        if len(self._free) > MOST_RECORDS:
            del self._free[next(iter(self._free))]

    def _free_cores(self, request: str, address: str, *, external: bool = False) -> float | None:
        """Free cores of this peer, or those that another peer has reported recently; None if unknown."""
        if address == self.peer.address:
            return self.ledger.residual_cores(request, external=external)
        cores, when = self._free.get(address, (0.0, -math.inf))
        return cores if self.peer.now - when < FRESH and not external else None

    def _probe(self, sender: str, probe: Probe) -> None:
        try:
            request, plan = decode_request(probe.request)
            check_route(plan, probe)
        except (msgspec.MsgspecError, ValueError) as error:
            self.peer.record(MessageRefused, sender, message="Probe", reason=str(error))
            return
        name, operator = request.request, probe.operator
        before = probe.path[-1] if probe.path else None
        upstream = before.peer if before is not None else request.origin
        origin = self._origins.get(name, request.origin)
        if sender != upstream or request.origin != origin:
            reason = f"its path comes from {upstream}" if sender != upstream else f"{origin} leads {name}"
            self.peer.record(MessageRefused, sender, message="Probe", reason=reason)
            return
        self.probes += 1
        active = self._active.get(name)
        # what it would reserve, nobody would release (test_a_probe_of_an_earlier_attempt_does_not_end_the_current_one)
        if request.attempt <= self._closed.get(name, 0) or (active is not None and request.attempt < active[0]):
            self.peer.record(MessageOutdated, name, message="Probe", sender=sender, reason="stale attempt")
            return
        trail = (operator, tuple((hop.operator, hop.peer) for hop in probe.path))
        self._extend(name, request.attempt)
        self._origins[name] = request.origin
        seen = self._seen.setdefault(name, set())
        if trail in seen:
            return  # a duplicate
        seen.add(trail)
        hop, impacts, refusal = self._check(request, plan, probe, before)
        # before the refusal is sent: upstream only has to know that the probe has arrived
        self._acknowledge((upstream, name, request.attempt), operator, probe.weight)
        if refusal is not None:
            self.peer.send(request.origin, refusal)
            return
        link = None
        if before is not None and before.peer != self.peer.address:
            link = (before.peer, before.operator)
        bandwidth = plan.bandwidth(before.operator) if before is not None else 0.0
        load = plan.load(operator)
        if self._may_hold(sender, name, operator, load):
            external, memory = plan.on_spark(operator), needed_bytes(plan, operator)
            self.ledger.reserve(name, operator, load, link, bandwidth, external=external, memory=memory)
        if not self.ledger.holds(name):
            self._held.pop(name, None)
        path = (*probe.path, hop)
        self.peer.record(
            ProbeAccepted,
            name,
            operator=operator,
            via=[each.peer for each in probe.path],
            capacity=hop.capacity,
            bandwidth=hop.bandwidth if math.isfinite(hop.bandwidth) else None,
            so_far_s=sum(each.processing + each.transmission for each in path),
            impacts=_nearest(impacts),
        )
        following = plan.downstream(operator)
        extended = self._extended.setdefault(name, Extended(request.merged)) if request.merged else None
        if following and extended is not None and not extended.worthwhile(plan, path):
            self.peer.send(request.origin, Merged(name, request.attempt, path, probe.weight))
        elif following:
            self.propagate(request, plan, probe.request, following, path, probe.budget, probe.weight)
        else:
            self.peer.send(request.origin, Returned(name, request.attempt, path, probe.weight))

    def _may_hold(self, sender: str, request: str, operator: str, load: float) -> bool:
        """Whether resources are reserved for a probe of a sender: not if it holds too much for too long for nothing.

        Without a reservation the probe goes on, and the residual resources decide when its graph is confirmed.
        """
        until = self.peer.now + self.config.reservation
        held = self._held.setdefault(request, _Held(until, {}))
        cost = (until - held.until) * sum(share for _, share in held.shares.values())  # all that it holds is extended
        if operator not in held.shares:
            held.shares[operator] = sender, min(load / self.ledger.cores, 1.0)
            cost += held.shares[operator][1] * self.config.reservation
        held.until = until
        if sender == self.peer.address or self._allowed.take(sender, self.peer.now, cost):
            return True
        self.peer.shed(sender, "reservations", f"{HELD:.0%} of this peer without a confirmation")
        self._held.pop(request)
        self.ledger.expire(request)
        return False

    def _unreserved(self, request: str) -> None:
        """Return to senders what was reserved for them and not used, as it was confirmed or released."""
        held = self._held.pop(request, None)
        if held is not None:
            for sender, share in held.shares.values():
                self._allowed.put_back(sender, share * max(held.until - self.peer.now, 0.0))

    def _check(
        self, request: ProbedRequest, plan: Plan, probe: Probe, before: Hop | None
    ) -> tuple[Hop, list[Impact], Dropped | None]:
        """Check the conditions of step 2; return the new hop, the impact on others, and the first failed condition."""
        name, operator, ledger = request.request, probe.operator, self.ledger
        address = self.peer.address
        refusal = "" if self._admission is None else self._admission.refusal(name, request.user)
        capacity = ledger.residual_cores(name, external=(external := plan.on_spark(operator)))
        bandwidth, transmission, variance = math.inf, 0.0, 0.0
        if before is not None and before.peer != address:
            bandwidth = ledger.residual_bandwidth(name, before.peer)
            transmission, variance = self._transmission(before.peer, probe.sent)
            if bandwidth > 0.0:
                transmission += plan.tuple_bytes(before.operator) / bandwidth
        shared_delay = self._shared_stream_delay(plan, operator, request.user)
        so_far = sum(each.processing + each.transmission for each in probe.path) + transmission
        beside = [each.operator for each in probe.path if each.peer == address]
        processing, impacts = (
            (shared_delay, []) if shared_delay is not None else self.project(name, plan, operator, beside, so_far)
        )
        if shared_delay is None:
            stated = plan.processing_time(operator)
            variance += max(processing * processing - stated * stated, 0.0) if processing < math.inf else 0.0
            overhead = self.overheads.component(plan, operator)
            processing += overhead.mean
            variance += overhead.variance
        added, impacts = summed(probe.path, impacts, self.config.projection) if request.summed else ((), impacts)
        hop = Hop(operator, address, capacity, bandwidth, processing, transmission, variance, added)
        via = tuple({hop.peer for hop in probe.path})

        def dropped(
            condition: str, required: float, available: float, detail: str = "", tolerated: float = 0.0
        ) -> tuple[Hop, list[Impact], Dropped]:
            attempt, weight, numbers = request.attempt, probe.weight, (required, available)
            drop = Dropped(name, attempt, operator, address, condition, *numbers, via, weight, detail, tolerated)
            return hop, impacts, drop

        if refusal:
            return dropped("acceptance", 1.0, 0.0, refusal)
        if shared_delay is None and not self._offered(request, plan, operator):
            return dropped("operator", 1.0, 0.0)
        if not self.config.enforce:
            return hop, impacts, None
        if request.user:
            memory = sum(needed_bytes(plan, each) for each in (operator, *beside))
            if beyond := ledger.beyond_memory(name, memory):
                return dropped("acceptance", 1.0, 0.0, beyond)
        load = plan.load(operator)
        # reservations of the request itself are not in the capacity: what its path takes here is subtracted by hand
        # (test_a_probe_counts_the_load_of_its_own_earlier_operators_at_the_same_peer)
        left = capacity - sum(plan.load(before_it.operator) for before_it in probe.path if before_it.peer == address)
        if left < load - ROUNDING * ledger.cores:
            return dropped("processing capacity", load, left, ledger.beyond_limits(name, load, external=external))
        if processing == math.inf:
            return dropped("processing capacity", load, 0.0, NO_CAPACITY)
        if before is not None and before.peer != address:
            required = plan.bandwidth(before.operator)
            spare = bandwidth - sum(
                plan.bandwidth(one.operator)
                for one, following in pairwise(probe.path)
                if (one.peer, following.peer) == (before.peer, address)
            )
            if spare < required * (1.0 - ROUNDING):
                return dropped("bandwidth", required, spare, ledger.bandwidth_account(before.peer, required, spare))
        limit = plan.qos.delay
        if limit is not None:
            delay = so_far + processing
            if self.config.late is not None and plan.qos.miss_rate is None:
                varies = together((*(each.variance for each in probe.path), variance))
                delay = quantile(delay, varies, 1.0 - self.config.late)
            if exceeds(delay, limit, tolerated_excess := self.tolerated_excess(plan)):
                return dropped("delay", limit, delay, tolerated=tolerated_excess)
        if limit is not None and plan.qos.miss_rate is not None:
            path = (*probe.path, hop)
            missed = late_share(path, [each.transmission for each in path], plan, limit)
            if missed > plan.qos.miss_rate:
                return dropped("miss rate", plan.qos.miss_rate, missed)
        victim = refused(impacts)
        if victim is not None:
            return dropped("QoS impact", victim.limit or 0.0, victim.after, str(victim))
        return hop, impacts, None

    def _offered(self, request: ProbedRequest, plan: Plan, operator: str) -> bool:
        """Whether this peer offers a component for an operator, or the request may deploy one here."""
        if plan.operators[operator].kind == catalogue.TAP:
            return False
        name = component_name(plan, operator)
        return name in self.offers or operator in request.deploy

    def _shared_stream_delay(self, plan: Plan, operator: str, user: str) -> float | None:
        """Time from its source until a tuple of a shared stream is at this peer, seconds; None if it is no tap."""
        tap = plan.operators[operator]
        if tap.kind != catalogue.TAP:
            return None
        component = provider(tap, self.peer.address)
        return None if component is None else self.running(component, user)

    def _transmission(self, upstream: str, sent: float) -> tuple[float, float]:
        """Mean transmission time from the upstream peer in seconds, and its variance in seconds squared.

        Both come from pings, or else from the time that the probe itself took. If overheads are measured, the reader's
        overhead for a frame is included.
        """
        one_way = None if self.overheads.empty else self.latency.one_way_overhead(upstream)
        if one_way is None:
            measured = self.latency.one_way(upstream)
            mean = measured if measured is not None else max(self.peer.now - sent, 0.0)
            one_way = Overhead(mean, self.latency.deviation(upstream) ** 2)
        reading = self.overheads.expected(HOP)
        return one_way.mean + reading.mean, one_way.variance + reading.variance

    def propagate(
        self,
        request: ProbedRequest,
        plan: Plan,
        data: bytes,
        operators: Sequence[str],
        path: tuple[Hop, ...],
        budget: int,
        weight: int,
    ) -> None:
        """Send probes for ``operators``, which follow ``path``; each branch may use the whole budget.

        Where paths are merged, so may each candidate: the budget limits the candidates that a peer chooses.
        """
        branches = len(operators)
        weights = self._await(request).weights
        for number, operator in enumerate(operators):
            share = weight // branches + (weight % branches if number == 0 else 0)
            chosen = self._choose(request, plan, operator, path, budget)
            many = len(chosen)
            each = share // many
            for position, address in enumerate(chosen):
                # the first child gets the rest of the division: if weight were lost, the origin would wait for its time
                # limit (test_where_routes_part_paths_are_merged_for_each_component_there)
                part = share - each * (many - 1) if position == 0 else each
                weights[operator, address] = weights.get((operator, address), 0) + part
                left = budget if request.merged else budget // many
                self.peer.send(address, Probe(data, operator, path, left, part, self.peer.now))

    def _choose(
        self, request: ProbedRequest, plan: Plan, operator: str, path: tuple[Hop, ...], budget: int
    ) -> list[str]:
        """Candidates of an operator to probe, as many as ratio and budget allow.

        Where several routes of the plan meet, all peers choose the same candidates. There they may exceed a budget of
        one, so that one full component does not end all paths; but only once on a path, since the budget is zero then.
        """
        meets, balances = routes_meet(plan, operator), request.choice in ("balanced", APART)
        candidates: Sequence[str] = request.candidates[operator]
        beside = self.config.deployment == "collocated" and path and path[-1].operator in request.deploy
        if beside and not meets and self.peer.address in candidates:
            return [self.peer.address]  # the previous component was deployed here because of this candidate
        if operator in request.deploy:
            candidates = self._deployment_peers(request, plan, operator, path, meets=meets)
            budget = max(budget, request.at_least)  # otherwise one full peer would end the path
        elif balances and not meets:
            load = plan.load(operator)
            external = plan.on_spark(operator)
            left = {address: self._free_cores(request.request, address, external=external) for address in candidates}
            candidates = [peer for peer, cores in left.items() if cores is None or cores >= load] or candidates
            if request.choice == APART:
                candidates = [peer for peer in candidates if all(peer != hop.peer for hop in path)] or candidates
        many = len(candidates)
        portion = share(request.ratio, many) if self.config.adaptive else rank_of(request.ratio, many)
        wanted = max(portion, request.at_least)
        allowed = max(budget, request.at_least) if meets and budget > 0 else budget
        many = max(1, min(wanted, allowed, len(candidates)))
        if operator in request.deploy and self.config.deployment == "collocated":
            return list(candidates[:many])  # in the order of preference
        if request.choice == "nearest" or (operator in request.deploy and self.config.deployment == "nearest"):
            own = self.peer.address

            def distance(address: str) -> float:
                known = self.latency.one_way(address)
                return 0.0 if address == own else math.inf if known is None else known

            return sorted(candidates, key=lambda address: (distance(address), address))[:many]
        if many == len(candidates):
            return list(candidates)
        adds = self._adds(request, plan, operator, path, alike=meets) if balances else None
        salt = f"{request.request}/{request.attempt}/{operator}/{'' if meets else '/'.join(hop.peer for hop in path)}"

        def drawn(address: str) -> int:
            return zlib.crc32((salt + address).encode())

        if adds is None:
            ranked = sorted(candidates, key=drawn)
        else:
            ranked = sorted(candidates, key=lambda address: (adds(address), drawn(address)))
        # of several readers of one source each begins with another candidate, or none could be apart from the others
        first, _ = reader_of(plan.operators[operator].params) or (0, 1)
        return [ranked[(first + number) % len(ranked)] for number in range(many)]

    def _adds(
        self, request: ProbedRequest, plan: Plan, operator: str, path: tuple[Hop, ...], *, alike: bool
    ) -> Callable[[str], float]:
        """A function from a candidate to the amount that it would add to φ (equation 2.5) after ``path``.

        It uses the free cores that the candidate or the directory has reported. Only the receiving end knows the
        bandwidth of a link; this peer assumes that of the opposite direction. Peers that have to choose ``alike`` use
        only the information that the request carries.
        """
        load, external = plan.load(operator), plan.on_spark(operator)
        used: dict[str, float] = {}
        bandwidth = 0.0
        if path and not alike:
            bandwidth = plan.bandwidth(path[-1].operator)
            for hop in path:
                used[hop.peer] = used.get(hop.peer, 0.0) + plan.load(hop.operator)

        def adds(address: str) -> float:
            left = None if alike else self._free_cores(request.request, address, external=external)
            free = (request.free.get(address, 0.0) if left is None else left) - used.get(address, 0.0)
            if free < load:
                return math.inf
            far = bandwidth / self.ledger.bandwidth_from(address) if bandwidth and address != self.peer.address else 0.0
            return (load / free if load else 0.0) + far

        return adds

    def _deployment_peers(
        self, request: ProbedRequest, plan: Plan, operator: str, path: tuple[Hop, ...], *, meets: bool
    ) -> Sequence[str]:
        """Peers at which a missing component may be deployed."""
        if self.config.deployment == "collocated":
            own = self.peer.address
            return component_placement.candidate_peers(request, plan, operator, path, own, meets=meets, near=self.known)
        # Baselines deploy at the peer nearest to the upstream one, or at a random one, but not at the upstream peer.
        return request.near if meets else tuple(self.known()) or (self.peer.address,)

    def _acknowledge(self, to: tuple[str, str, int], operator: str, weight: int) -> None:
        """Acknowledge a probe soon, together with others: after a twentieth of the time limit for acknowledgements."""
        if not self._unsent:
            self.peer.after(self.config.acknowledgement / 20, self._acknowledge_all)
        weights = self._unsent.setdefault(to, {})
        weights[operator] = weights.get(operator, 0) + weight

    def _acknowledge_all(self) -> None:
        unsent, self._unsent = self._unsent, {}
        for (upstream, request, attempt), weights in unsent.items():
            self.peer.send(upstream, Acknowledged(request, attempt, weights))

    def _acknowledged(self, sender: str, message: Acknowledged) -> None:
        waiting = self._waiting.get(message.request)
        if waiting is None or waiting.attempt != message.attempt:
            return
        for operator, weight in message.weights.items():
            left = waiting.weights.get((operator, sender), 0) - weight
            if left > 0:
                waiting.weights[operator, sender] = left
            else:
                waiting.weights.pop((operator, sender), None)

    def _await(self, request: ProbedRequest) -> _Waiting:
        waiting = self._waiting.get(request.request)
        if waiting is None or waiting.attempt < request.attempt:
            waiting = self._waiting[request.request] = _Waiting(request.attempt, {})
            asked = {peer for peers in request.candidates.values() for peer in peers}
            self.answers.after(self.config.acknowledgement, asked, self._unacknowledged, request, waiting)
        return waiting

    def _unacknowledged(self, request: ProbedRequest, waiting: _Waiting) -> None:
        """Report next hops that have not acknowledged to the origin, so that it does not wait for their probes.

        If only an acknowledgement was lost, its weight is counted twice, and the origin decides early, on fewer paths.
        """
        if self._waiting.get(request.request) is waiting:
            del self._waiting[request.request]
        for (operator, address), weight in waiting.weights.items():
            silence = Dropped(
                request.request, request.attempt, operator, address, "acknowledgement", 1.0, 0.0, (self.peer.address,),
                weight,
            )  # fmt: skip
            self.peer.send(request.origin, silence)

    def _extend(self, request: str, attempt: int) -> None:
        """Extend the reservations of a request, and its record at this peer, by the time of a reservation."""
        active = self._active.get(request)
        if active is not None:
            if active[0] < attempt:  # a new round of probes: the reservations of the last one are not needed any more
                self.ledger.expire(request)
                self._seen[request] = set()
                self._extended.pop(request, None)
            elif active[1].began > self.peer.now - 0.1 * self.config.reservation:
                return  # another probe of the same round has just extended them
            active[1].cancel()
        timer = self.answers.after(self.config.reservation, (), self._expire, request, attempt)
        self._active[request] = (attempt, timer)

    def _expire(self, request: str, attempt: int) -> None:
        if self.ledger.expire(request):
            self.peer.record(ReservationExpired, request, attempt=attempt)
        self._forget(request, attempt)

    def _release(self, sender: str, message: Release) -> None:
        active = self._active.get(message.request)
        if active is None or active[0] <= message.attempt:
            self.ledger.expire(message.request)
            self._forget(message.request, message.attempt)

    def _forget(self, request: str, attempt: int) -> None:
        active = self._active.pop(request, None)
        if active is not None:
            active[1].cancel()
        self._seen.pop(request, None)
        self._origins.pop(request, None)
        self._extended.pop(request, None)
        self._unreserved(request)  # where the ledger has told nothing of it, as it held nothing any more
        self._closed.raise_to(request, attempt)


def _nearest(impacts: Iterable[Impact]) -> list[ProjectedImpact]:
    """The impacts that the journal records: the few that are nearest to their limits, nearest first.

    If each probe recorded all of them, the journal would grow with the square of the number of applications.
    """
    limited = [each for each in impacts if each.limit]
    nearest = heapq.nsmallest(RECORDED, limited, key=lambda each: (each.limit or 0.0) - each.after)
    return [ProjectedImpact(each.application, each.before, each.after, each.limit or 0.0) for each in nearest]
