"""Component composition by probes (dissertation, section 2.3.1; Middleware 2006, section 3.1).

Theory of operation
-------------------
A request is composed in five steps by the peer v_s at which it was submitted, its *origin*, and the peers whose
components may serve it:

1. *Probe creation.* The origin looks the candidates of all operators up in the directory, once, and sends probes to
   candidates of the sources. A probe carries the request, with the candidates, so that a hop costs no look-up.
2. *Probe processing.* A peer checks, in this order, that it offers the component, that its residual processing
capacity and
   the residual bandwidth of the link that the probe came over suffice, and that the QoS so far is within what was
   asked. If so it acknowledges upstream and reserves what the operator takes, for a time; if not it drops the probe.
3. *Propagation.* It sends probes on to candidates of each next operator.
4. *Selection.* At the destination a probe goes back to the origin, which merges the paths into complete component
graphs,
   discards those against conditions 2.1-2.4 and takes the one of least φ (equation 2.5).
5. *Session set-up* is the business of the session that composition is given; a graph that is refused there gives way
to the
   next best.

Choice of candidates. The probing ratio gives the share of an operator's candidates that is probed. Which ones is
random, but decided by the request and not by the prober: all probers of an operator pick from the same shuffled order,
so the branches of a DAG meet in the same components and their paths can be merged.

Two numbers bound the work. The *budget* of a probe is the number of paths that it may still become; it is shared out
among its children. The *weight* tells the origin when all has been heard: it starts with one unit a source, each probe
divides its weight among its children, and what is dropped or returned gives its weight back.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from synergy_nb.graph import ComponentGraph, Hop, Ledger, Report, merge
from synergy_nb.overlay.directory import Directory, Entry
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.peer import Message, Peer, Protocol, Timer
from synergy_nb.plan import Plan

__all__ = ["Composition", "CompositionConfig", "Establish", "component_name"]

UNIT = 1 << 48  # weight of one source; divides evenly enough for any budget
MEMORY = 4096  # closed requests that a peer remembers, to refuse their late probes by name
SHOWN = 32  # graphs, and drops, that the journal tells of, a request

Establish = Callable[[str, int, Plan, dict[str, str], Callable[[str], None], str], None]


def component_name(plan: Plan, operator: str) -> str:
    """Directory name of the components that can execute an operator: its kind, and for a source its connector."""
    asked = plan.operators[operator]
    return f"source:{asked.params['connector']}" if asked.kind == "source" else asked.kind


class CompositionConfig(msgspec.Struct, frozen=True):
    """Parameters of composition.

    Parameters
    ----------
    ratio
        Probing ratio: share of an operator's candidates that is probed, in (0, 1].
    at_least
        Candidates probed in any case, where there are as many.
    budget
        Paths a request may probe from each source.
    choice
        ``random`` (by request) or ``nearest`` (least measured delay) candidates.
    discovery, probing
        Time allowed for the directory's answer, and for probes, in seconds.
    reservation
        After which a reservation without a confirmation expires, in seconds.
    attempts
        Rounds of probes; each doubles ratio and budget of the one before.
    """

    ratio: float = 0.1
    at_least: int = 2
    budget: int = 16
    choice: str = "random"
    discovery: float = 3.0
    probing: float = 3.0
    reservation: float = 8.0
    attempts: int = 2


class Request(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What every probe of a request carries."""

    request: str
    attempt: int
    origin: str
    plan: bytes
    candidates: dict[str, tuple[str, ...]]
    ratio: float
    at_least: int
    choice: str


class Probe(Message, frozen=True):
    """Check the component of ``operator`` at the receiver, which follows ``path``."""

    request: bytes
    operator: str
    path: tuple[Hop, ...]
    budget: int
    weight: int
    sent: float


class Acknowledged(Message, frozen=True):
    """The receiver's probe for ``operator`` has been accepted or dropped by the sender."""

    request: str
    attempt: int
    operator: str
    accepted: bool


class Returned(Message, frozen=True):
    """A probe that has reached a destination."""

    request: str
    attempt: int
    path: tuple[Hop, ...]
    weight: int


class Dropped(Message, frozen=True):
    """A probe that failed a condition, with what was asked and what there was."""

    request: str
    attempt: int
    operator: str
    condition: str
    asked: float
    available: float
    weight: int


class Release(Message, frozen=True):
    """Give back what is reserved for a request up to this attempt."""

    request: str
    attempt: int


class _Pending:
    """A request at its origin."""

    __slots__ = (
        "attempt",
        "dropped",
        "graphs",
        "heard",
        "paths",
        "plan",
        "probed",
        "qualified",
        "request",
        "timer",
        "total",
    )

    def __init__(self, request: str, plan: Plan) -> None:
        self.request = request
        self.plan = plan
        self.attempt = 0
        self.total = 0
        self.heard = 0
        self.paths: dict[tuple[tuple[str, str], ...], tuple[Hop, ...]] = {}
        self.dropped: list[tuple[str, Dropped]] = []
        self.probed: set[str] = set()
        self.graphs = 0
        self.qualified: list[tuple[float, ComponentGraph]] = []
        self.timer: Timer | None = None


_encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=512)
def _decode(data: bytes) -> Request:
    return msgspec.msgpack.decode(data, type=Request)


class Composition(Protocol):
    """Composition at one peer: for requests submitted here, and for probes of others.

    Parameters
    ----------
    peer
        The peer.
    ledger
        Its resources.
    directory, latency, membership
        Where components are, how far peers are, which are dead.
    establish
        Sets a session up (``Session.establish``).
    config
        Parameters.
    """

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        directory: Directory,
        latency: Latency,
        membership: Membership,
        establish: Establish,
        config: CompositionConfig | None = None,
    ) -> None:
        super().__init__(peer)
        self.ledger = ledger
        self.directory = directory
        self.latency = latency
        self.membership = membership
        self.establish = establish
        self.config = config or CompositionConfig()
        self.offers: set[str] = set()
        self._pending: dict[str, _Pending] = {}
        self._held: dict[str, tuple[int, Timer]] = {}
        self._seen: dict[str, set[tuple[str, tuple[tuple[str, str], ...]]]] = {}
        self._closed: OrderedDict[str, int] = OrderedDict()
        self._awaited: dict[tuple[str, int, str], int] = {}
        self.probes = 0
        self.handlers = {
            Probe: self._probe,
            Acknowledged: self._acknowledged,
            Returned: self._returned,
            Dropped: self._dropped,
            Release: self._release,
        }

    # -- step 1: at the origin ---------------------------------------------------------------------------------------

    def submit(self, request: str, plan: Plan) -> None:
        """Compose and start the application that ``plan`` asks for; what comes of it is reported to the driver."""
        peer = self.peer
        if request in self._pending:
            raise ValueError(f"request: {request!r}; expected an identifier that is not in use")
        pending = self._pending[request] = _Pending(request, plan)
        peer.record("request_submitted", request, plan=plan.name, operators=list(plan.operators))
        names = sorted({component_name(plan, operator) for operator in plan.operators})
        self.directory.lookup(names, lambda found: self._discovered(pending, found), self.config.discovery)

    def _discovered(self, pending: _Pending, found: dict[str, tuple[Entry, ...]] | None) -> None:
        if self._pending.get(pending.request) is not pending:
            return
        if found is None:
            self._reject(pending, "the directory did not answer in time")
            return
        plan = pending.plan
        candidates: dict[str, tuple[str, ...]] = {}
        missing: list[str] = []
        for operator, asked in plan.operators.items():
            name = component_name(plan, operator)
            entries = [entry for entry in found.get(name, ()) if not self.membership.is_dead(entry.host)]
            if asked.at is not None:
                entries = [entry for entry in entries if asked.at in (entry.host, entry.attributes.get("peer"))]
            hosts = (self.peer.address,) if asked.kind == "sink" else tuple(sorted({entry.host for entry in entries}))
            if not hosts:
                where = f" at {asked.at!r}" if asked.at is not None else ""
                missing.append(f"{operator}: no component offers {name!r}{where}")
            candidates[operator] = hosts
        self.peer.record("candidates_found", pending.request, candidates={o: list(c) for o, c in candidates.items()})
        if missing:
            self._reject(pending, "; ".join(missing))
            return
        self._probe_all(pending, candidates)

    def _probe_all(self, pending: _Pending, candidates: dict[str, tuple[str, ...]]) -> None:
        """Send the probes of the next attempt, each attempt with twice the ratio and budget of the one before."""
        config, plan = self.config, pending.plan
        scale = 1 << pending.attempt
        pending.attempt += 1
        pending.paths.clear()
        pending.dropped.clear()
        pending.heard = 0
        pending.total = UNIT * len(plan.sources)
        request = Request(
            pending.request,
            pending.attempt,
            self.peer.address,
            plan.to_bytes(),
            candidates,
            min(1.0, config.ratio * scale),
            config.at_least * scale,
            config.choice,
        )
        data = _encode(request)
        pending.timer = self.peer.after(config.probing, self._select, pending)
        for source in plan.sources:
            self._propagate(request, data, (source,), (), config.budget * scale, UNIT)

    # -- steps 2 and 3: at every peer --------------------------------------------------------------------------------

    def _probe(self, sender: str, probe: Probe) -> None:
        try:
            request = _decode(probe.request)
            plan = Plan.from_bytes(request.plan)
        except (msgspec.MsgspecError, ValueError) as error:
            self.peer.record("message_refused", sender, message="Probe", reason=str(error))
            return
        name, operator = request.request, probe.operator
        self.probes += 1
        if operator not in plan.operators or request.attempt <= self._closed.get(name, 0):
            self.peer.record("message_refused", name, message="Probe", sender=sender, reason="stale attempt")
            return
        trail = (operator, tuple((hop.operator, hop.peer) for hop in probe.path))
        seen = self._seen.setdefault(name, set())
        if trail in seen:
            return  # a duplicate
        self._hold(name, request.attempt)
        seen.add(trail)
        before = probe.path[-1] if probe.path else None
        hop, refusal = self._check(request, plan, probe, before)
        upstream = before.peer if before is not None else request.origin
        self.peer.send(upstream, Acknowledged(name, request.attempt, operator, refusal is None))
        if refusal is not None:
            self.peer.send(request.origin, refusal)
            return
        link = None
        if before is not None and before.peer != self.peer.address:
            link = (before.peer, before.operator)
        bandwidth = plan.bandwidth(before.operator) if before is not None else 0.0
        self.ledger.reserve(name, operator, plan.load(operator), link, bandwidth)
        path = (*probe.path, hop)
        following = plan.downstream(operator)
        if following:
            self._propagate(request, probe.request, following, path, probe.budget, probe.weight)
        else:
            self.peer.send(request.origin, Returned(name, request.attempt, path, probe.weight))

    def _check(self, request: Request, plan: Plan, probe: Probe, before: Hop | None) -> tuple[Hop, Dropped | None]:
        """Conditions of step 2: the hop as it would be, and the first condition that fails, if any."""
        name, operator, ledger = request.request, probe.operator, self.ledger
        address = self.peer.address
        capacity = ledger.residual_cores(name)
        bandwidth, transmission = math.inf, 0.0
        if before is not None and before.peer != address:
            bandwidth = ledger.residual_bandwidth(name, before.peer)
            transmission = self._transmission(before.peer, probe.sent)
            if bandwidth > 0.0:
                transmission += plan.tuple_bytes(before.operator) / bandwidth
        hop = Hop(operator, address, capacity, bandwidth, plan.processing_time(operator), transmission)

        def dropped(condition: str, asked: float, available: float) -> tuple[Hop, Dropped]:
            return hop, Dropped(name, request.attempt, operator, condition, asked, available, probe.weight)

        if component_name(plan, operator) not in self.offers:
            return dropped("operator", 1.0, 0.0)
        load = plan.load(operator)
        left = capacity - ledger.reserved_cores(name, besides=operator)
        if left < load:
            return dropped("processing capacity", load, left)
        if before is not None and before.peer != address:
            asked = plan.bandwidth(before.operator)
            spare = bandwidth - ledger.reserved_bandwidth(name, before.peer, besides=operator)
            if spare < asked:
                return dropped("bandwidth", asked, spare)
        limit = plan.qos.delay
        if limit is not None:
            so_far = hop.processing + hop.transmission + sum(h.processing + h.transmission for h in probe.path)
            if so_far > limit:
                return dropped("delay", limit, so_far)
        return hop, None

    def _transmission(self, upstream: str, sent: float) -> float:
        """Time from the upstream peer, in seconds: measured by pings, else what the probe itself took."""
        measured = self.latency.one_way(upstream)
        return measured if measured is not None else max(self.peer.now - sent, 0.0)

    def _propagate(
        self,
        request: Request,
        data: bytes,
        operators: Sequence[str],
        path: tuple[Hop, ...],
        budget: int,
        weight: int,
    ) -> None:
        """Spawn probes for ``operators``, the next ones after ``path``; each branch may use the whole budget."""
        branches = len(operators)
        for number, operator in enumerate(operators):
            share = weight // branches + (weight % branches if number == 0 else 0)
            chosen = self._choose(request, operator, budget)
            each = share // len(chosen)
            for position, address in enumerate(chosen):
                part = share - each * (len(chosen) - 1) if position == 0 else each
                self.peer.send(address, Probe(data, operator, path, max(1, budget // len(chosen)), part, self.peer.now))

    def _choose(self, request: Request, operator: str, budget: int) -> list[str]:
        """Candidates of an operator to probe: as many as ratio and budget allow, in the request's own random order."""
        candidates = request.candidates[operator]
        many = max(math.ceil(request.ratio * len(candidates)), request.at_least)
        many = max(1, min(many, budget, len(candidates)))
        if many == len(candidates) and request.choice != "nearest":
            return list(candidates)
        if request.choice == "nearest":
            own = self.peer.address

            def distance(address: str) -> float:
                known = self.latency.one_way(address)
                return 0.0 if address == own else math.inf if known is None else known

            return sorted(candidates, key=lambda address: (distance(address), address))[:many]
        salt = f"{request.request}/{request.attempt}/{operator}/"
        return sorted(candidates, key=lambda address: zlib.crc32((salt + address).encode()))[:many]

    def _acknowledged(self, sender: str, message: Acknowledged) -> None:
        """An answer of a next hop; deployment of missing components will start from the count of those that refused."""
        self.membership.heard(sender)

    def _hold(self, request: str, attempt: int) -> None:
        """Keep what this peer remembers and reserves for a request, for the time of a reservation from now on."""
        held = self._held.get(request)
        if held is not None:
            if held[0] < attempt:  # a new round of probes: what the last one reserved is not wanted any more
                self.ledger.expire(request)
                self._seen[request] = set()
            held[1].cancel()
        timer = self.peer.after(self.config.reservation, self._expire, request, attempt)
        self._held[request] = (attempt, timer)

    def _expire(self, request: str, attempt: int) -> None:
        if self.ledger.expire(request):
            self.peer.record("reservation_expired", request, attempt=attempt)
        self._forget(request, attempt)

    def _release(self, sender: str, message: Release) -> None:
        held = self._held.get(message.request)
        if held is None or held[0] <= message.attempt:
            self.ledger.expire(message.request)
            self._forget(message.request, message.attempt)

    def _forget(self, request: str, attempt: int) -> None:
        held = self._held.pop(request, None)
        if held is not None:
            held[1].cancel()
        self._seen.pop(request, None)
        self._closed[request] = max(attempt, self._closed.get(request, 0))
        self._closed.move_to_end(request)
        while len(self._closed) > MEMORY:
            self._closed.popitem(last=False)

    # -- step 4: at the origin ---------------------------------------------------------------------------------------

    def _returned(self, sender: str, message: Returned) -> None:
        pending = self._current(message.request, message.attempt)
        if pending is None:
            return
        key = tuple((hop.operator, hop.peer) for hop in message.path)
        if key in pending.paths:
            return
        pending.paths[key] = message.path
        pending.probed.update(hop.peer for hop in message.path)
        self._count(pending, message.weight)

    def _dropped(self, sender: str, message: Dropped) -> None:
        pending = self._current(message.request, message.attempt)
        if pending is None:
            return
        pending.dropped.append((sender, message))
        pending.probed.add(sender)
        if len(pending.dropped) <= SHOWN:
            self.peer.record(
                "probe_dropped",
                message.request,
                operator=message.operator,
                at=sender,
                condition=message.condition,
                asked=message.asked,
                available=message.available,
            )
        self._count(pending, message.weight)

    def _current(self, request: str, attempt: int) -> _Pending | None:
        pending = self._pending.get(request)
        return pending if pending is not None and pending.attempt == attempt and pending.timer is not None else None

    def _count(self, pending: _Pending, weight: int) -> None:
        pending.heard += weight
        if pending.heard >= pending.total:
            self._select(pending)

    def _select(self, pending: _Pending) -> None:
        """Merge the paths, drop what does not qualify, and try the graph of least φ."""
        if pending.timer is None:
            return
        pending.timer.cancel()
        pending.timer = None
        plan = pending.plan
        graphs = merge(plan, pending.paths.values())
        pending.graphs = len(graphs)
        pending.qualified = []
        shown = 0
        for graph in graphs:
            delay, phi = graph.delay(plan), graph.balance(plan)
            unqualified = self._unqualified(plan, delay, phi)
            if not unqualified:
                pending.qualified.append((phi, graph))
            if shown < SHOWN:
                shown += 1
                self.peer.record(
                    "graph_evaluated",
                    pending.request,
                    peers=graph.peers,
                    phi=phi if math.isfinite(phi) else None,
                    delay_s=delay,
                    unqualified=unqualified,
                )
        pending.qualified.sort(key=lambda ranked: (ranked[0], sorted(ranked[1].peers.items())), reverse=True)
        self.peer.record(
            "probing_ended",
            pending.request,
            attempt=pending.attempt,
            paths=len(pending.paths),
            dropped=len(pending.dropped),
            graphs=len(graphs),
            qualified=len(pending.qualified),
            complete=pending.heard >= pending.total,
        )
        self._try_next(pending, "")

    @staticmethod
    def _unqualified(plan: Plan, delay: float, phi: float) -> str:
        """Which of the selection conditions a complete graph fails; 2.1 holds by how paths are merged."""
        if plan.qos.delay is not None and delay > plan.qos.delay:
            return f"delay {delay:.4g} s exceeds {plan.qos.delay:g} s (2.2)"
        if not math.isfinite(phi):
            return "processing capacity or bandwidth of its peers does not suffice (2.3, 2.4)"
        return ""

    # -- step 5 ------------------------------------------------------------------------------------------------------

    def _try_next(self, pending: _Pending, reason: str) -> None:
        if self._pending.get(pending.request) is not pending:
            return
        if not pending.qualified:
            self._again(pending, reason)
            return
        phi, graph = pending.qualified.pop()
        self.peer.record(
            "graph_selected", pending.request, peers=graph.peers, phi=phi, delay_s=graph.delay(pending.plan)
        )

        def established(refusal: str) -> None:
            if refusal:
                self._try_next(pending, refusal)
            else:
                self._settle(pending)

        self.establish(pending.request, pending.attempt, pending.plan, graph.peers, established, "fcfs")

    def _again(self, pending: _Pending, reason: str) -> None:
        """Another attempt with more probes, or rejection with what stood in the way."""
        why = reason or self._summary(pending)
        if pending.attempt < self.config.attempts:
            self.peer.record("attempt_failed", pending.request, attempt=pending.attempt, reason=why)
            self._free(pending)
            pending.probed.clear()
            names = sorted({component_name(pending.plan, operator) for operator in pending.plan.operators})
            self.directory.lookup(names, lambda found: self._discovered(pending, found), self.config.discovery)
            return
        self._reject(pending, why)

    @staticmethod
    def _summary(pending: _Pending) -> str:
        """Which conditions failed where, most frequent first."""
        if not pending.dropped:
            return (
                "the selection conditions hold for none of the composed graphs"
                if pending.graphs
                else "no probe has returned in time"
            )
        counts = Counter((drop.operator, drop.condition) for _, drop in pending.dropped)
        parts = []
        for (operator, condition), count in counts.most_common(4):
            at, best = max(
                (
                    (at, drop)
                    for at, drop in pending.dropped
                    if (drop.operator, drop.condition) == (operator, condition)
                ),
                key=lambda pair: pair[1].available if condition != "delay" else -pair[1].available,
            )
            parts.append(
                f"{operator}: {condition} at {count} component(s), "
                f"at best {best.available:.4g} where {best.asked:.4g} was asked ({at})"
            )
        return "; ".join(parts)

    def _free(self, pending: _Pending) -> None:
        for address in sorted(pending.probed | {self.peer.address}):
            self.peer.send(address, Release(pending.request, pending.attempt))

    def _settle(self, pending: _Pending) -> None:
        self._free(pending)
        del self._pending[pending.request]

    def _reject(self, pending: _Pending, reason: str) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None
        if pending.attempt:
            self._free(pending)
        del self._pending[pending.request]
        self.peer.record("application_rejected", pending.request, reason=reason)
        self.peer.instruct(Report(pending.request, "rejected", reason))
