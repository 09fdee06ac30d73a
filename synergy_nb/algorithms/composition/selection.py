"""Composition at the origin of a request: steps 1, 4 and 5 of section 2.3.1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from synergy_nb.algorithms.composition.adaptive import History, adapted
from synergy_nb.algorithms.composition.messages import (
    TRACED,
    UNIT,
    CompositionConfig,
    Dropped,
    Release,
    Request,
    Returned,
    component_name,
    encode_request,
)
from synergy_nb.algorithms.composition.pending import Pending, failing
from synergy_nb.algorithms.composition.places import COMPLETE, NEIGHBOURS, deployable
from synergy_nb.algorithms.composition.probing import Probing
from synergy_nb.algorithms.composition.ways import Way, sharing_way
from synergy_nb.events import (
    ApplicationRejected,
    AttemptFailed,
    CandidatesFound,
    DeploymentConsidered,
    EnginesChanged,
    GraphEvaluated,
    GraphSelected,
    PlacementComputed,
    ProbeDropped,
    ProbingEnded,
    RequestSubmitted,
    SharingFound,
    SharingGivenUp,
)
from synergy_nb.graph import ComponentGraph, Place, Placed, Report, Use, merge
from synergy_nb.overlay.directory import Directory, Entry
from synergy_nb.overlay.load import told
from synergy_nb.overlay.membership import Membership
from synergy_nb.peer import Peer, Protocol
from synergy_nb.plan import Plan
from synergy_nb.plan.parts import parts_of
from synergy_nb.plan.sharing import TAP

__all__ = ["Composition", "Establish"]

ROUTES: Final = 256  # of a plan, from sources to sinks: each is probed, and splits that join again double them
SHOWN: Final = 32  # graphs, and drops, that the journal tells of, a request

Establish = Callable[[str, Plan, ComponentGraph, Mapping[str, tuple[Use, ...]], Callable[[str], None]], None]
Found = Mapping[str, tuple[Entry, ...]]


class Composition(Protocol):
    """Composition of the requests that are submitted at one peer.

    Parameters
    ----------
    peer
        The peer.
    probing
        Sends the first probes.
    directory, membership
        Where components are, which peers are dead.
    establish
        Sets a session up (``Session.establish``).
    config
        Parameters.

    Attributes
    ----------
    placed : callable (request, plan, entries) -> list of Plan
        Plans to compose for one that was asked for, the preferred one first: with its parts on Spark. It is given what
        the directory has, by name; by default the plan as it is.
    profiles : bool
        Whether ``placed`` wants what is known of the plan's streams.
    also : tuple of str
        Components that plans made by ``placed`` ask for besides those of the plan.
    """

    def __init__(
        self,
        peer: Peer,
        probing: Probing,
        directory: Directory,
        membership: Membership,
        establish: Establish,
        config: CompositionConfig | None = None,
    ) -> None:
        super().__init__(peer)
        self.probing = probing
        self.directory = directory
        self.membership = membership
        self.establish = establish
        self.config = config or CompositionConfig()
        self.placed: Callable[[str, Plan, Found], list[Plan]] = lambda _request, plan, _found: [plan]
        self.profiles = False
        self.also: tuple[str, ...] = ()
        self._history = History()
        self._pending: dict[str, Pending] = {}
        self.traced = TRACED
        self.handlers = {Returned: self._returned, Dropped: self._dropped}

    @property
    def pending(self) -> frozenset[str]:
        """Requests that are being composed."""
        return frozenset(self._pending)

    # -- step 1: at the origin ---------------------------------------------------------------------------------------

    def submit(self, request: str, plan: Plan, *, placed: bool = False) -> None:
        """Compose and start the application that ``plan`` asks for; what comes of it is reported to the driver.

        One that is to be ``placed`` has its graph decided by the driver (:class:`~synergy_nb.graph.Place`), and only
        that is probed.
        """
        peer = self.peer
        if request in self._pending:
            raise ValueError(f"request: {request!r}; expected an identifier that is not in use")
        pending = self._pending[request] = Pending(request, plan, placed=placed)
        asked = {name: value for name, value in msgspec.structs.asdict(plan.qos).items() if value is not None}
        peer.record(RequestSubmitted, request, plan=plan.name, operators=list(plan.operators), qos=asked)
        routes = _count_routes(plan)
        if routes > ROUTES:
            self._reject(pending, f"{routes} routes lead from its sources to its sinks; at most {ROUTES} can be probed")
            return
        self._discover(pending)

    def _discover(self, pending: Pending) -> None:
        """Ask who offers the components of the plan, to probe them, and at first which of its streams run."""
        pending.probed.clear()
        plan = pending.way.plan
        names = {component_name(plan, name) for name, each in plan.operators.items() if each.kind != TAP}
        if pending.ways is None:
            names.update(self.also)
            if self.profiles or self.config.sharing != "off":
                names.update(plan.stream_name(name) for name, each in plan.operators.items() if each.kind != "sink")
        self.directory.lookup(sorted(names), lambda found: self._discovered(pending, found), self.config.discovery)

    def cancel(self, request: str) -> bool:
        """Give up a request that is being composed; False if it is not."""
        pending = self._pending.get(request)
        if pending is None:
            return False
        self._give_up(pending)
        return True

    def _discovered(self, pending: Pending, found: dict[str, tuple[Entry, ...]] | None) -> None:
        if self._pending.get(pending.request) is not pending:
            return
        if found is None:
            self._reject(pending, "the directory did not answer in time")
            return
        if pending.ways is None:
            pending.ways = self._ways(pending, found)
            pending.way = pending.ways.pop(0)
            if pending.way.shared:
                points = {tap: sorted(hosts) for tap, hosts in pending.way.shared.items()}
                self.peer.record(SharingFound, pending.request, points=points)
        candidates, missing = self._candidates(pending.way.plan, found)
        free = told(entry for entries in found.values() for entry in entries)
        known = {operator: list(peers) for operator, peers in candidates.items()}
        self.peer.record(CandidatesFound, pending.request, candidates=known, free=free)
        lacking = {operator for operator in missing if not deployable(pending.way.plan, operator)}
        if missing and (lacking or pending.ways or self.config.deployment == "off"):
            self._next_way(pending, "; ".join(missing.values()))
            return
        if missing:
            pending.deploy.update(missing)
            pending.stage = max(pending.stage, 1)
        if pending.placed:
            self._have_placed(pending, candidates, free)
            return
        self._probe_all(pending, candidates, free)

    def _have_placed(
        self, pending: Pending, candidates: Mapping[str, tuple[str, ...]], free: Mapping[str, float]
    ) -> None:
        """Have the driver decide among the peers that can take on every operator which is not tied to its place."""
        pinned = {operator: peers[0] for operator, peers in candidates.items() if len(peers) == 1}
        offering = [set(peers) for operator, peers in candidates.items() if operator not in pinned]
        able = set.intersection(*offering) if offering else set()
        capacities = {peer: free[peer] for peer in sorted({*able, *pinned.values()}) if free.get(peer, 0.0) > 0.0}
        if offering and not able:
            self._reject(pending, "no peer offers all of the operators that are to be placed")
            return
        order = Place(pending.request, pending.attempt, pending.way.plan.to_bytes(), capacities, pinned)
        self.peer.instruct(order)

    def decided(self, found: Placed) -> None:
        """The driver's answer to :class:`~synergy_nb.graph.Place`."""
        pending = self._pending.get(found.request)
        if pending is None or pending.attempt != found.attempt or pending.timer is not None:
            return  # given up meanwhile
        if found.reason:
            self._reject(pending, found.reason)
            return
        self.peer.record(PlacementComputed, found.request, peers=found.peers, ratio=found.ratio, text=found.text)
        self._probe_all(pending, {operator: (peer,) for operator, peer in found.peers.items()}, {})

    def _ways(self, pending: Pending, found: Found) -> list[Way]:
        """How the plan can be composed, the preferred way first."""
        ways: list[Way] = []
        if pending.placed:
            return [Way(pending.plan)]
        if self.config.sharing != "off":
            everything = self.config.sharing == "all"
            shared = sharing_way(pending.plan, found, self.membership.is_dead, everything=everything)
            if shared is not None:
                ways.append(Way(self.placed(pending.request, shared.plan, found)[0], shared.shared))
        ways.extend(Way(plan) for plan in self.placed(pending.request, pending.plan, found))
        return ways

    def _candidates(self, plan: Plan, found: Found) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
        """Who may execute each operator, and what is missing of which."""
        candidates: dict[str, tuple[str, ...]] = {}
        missing: dict[str, str] = {}
        for operator, asked in plan.operators.items():
            if asked.kind == "sink":
                candidates[operator] = (self.peer.address,)
                continue
            if asked.kind == TAP:
                candidates[operator] = tuple(sorted(asked.params["providers"]))
                continue
            name = component_name(plan, operator)
            entries = [entry for entry in found.get(name, ()) if not self.membership.is_dead(entry.host)]
            if asked.at is not None:
                entries = [entry for entry in entries if asked.at in (entry.host, entry.attributes.get("peer"))]
            candidates[operator] = tuple(sorted({entry.host for entry in entries}))
            if not entries:
                where = f" at {asked.at!r}" if asked.at is not None else ""
                missing[operator] = f"{operator}: no component offers {name!r}{where}"
        return candidates, missing

    def _probe_all(self, pending: Pending, candidates: dict[str, tuple[str, ...]], free: dict[str, float]) -> None:
        """Send the probes of the next round, each round with twice the ratio and budget of the one before."""
        config, plan = self.config, pending.way.plan
        scale = 1 << min(pending.round, config.attempts - 1)
        pending.round += 1
        pending.attempt += 1
        pending.paths.clear()
        pending.dropped.clear()
        pending.heard = 0
        pending.tried = 0
        pending.total = UNIT * len(plan.sources)
        wide = pending.deploy and (pending.stage >= NEIGHBOURS or config.deployment != "collocated")
        ratio = adapted(config.ratio, plan, self._history) if config.adaptive else config.ratio
        request = Request(
            pending.request,
            pending.attempt,
            self.peer.address,
            plan.to_bytes(),
            candidates,
            min(1.0, ratio * scale),
            config.at_least * scale,
            config.choice,
            tuple(sorted(pending.deploy)),
            pending.stage,
            tuple(self.probing.known()) if wide else (),
            free,
        )
        if pending.deploy:
            self.peer.record(
                DeploymentConsidered, pending.request, operators=sorted(pending.deploy), stage=pending.stage
            )
        data = encode_request(request)
        pending.timer = self.peer.after(config.probing, self._select, pending)
        for source in plan.sources:
            self.probing.propagate(request, plan, data, (source,), (), config.budget * scale, UNIT)

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
        pending.dropped.append(message)
        pending.probed.update(message.via, (message.at,))
        if len(pending.dropped) <= SHOWN:
            self.peer.record(
                ProbeDropped,
                message.request,
                operator=message.operator,
                at=message.at,
                condition=message.condition,
                asked=message.asked,
                available=message.available,
                explanation=message.detail,
                tolerated=message.tolerated,
            )
        self._count(pending, message.weight)

    def _current(self, request: str, attempt: int) -> Pending | None:
        pending = self._pending.get(request)
        return pending if pending is not None and pending.attempt == attempt and pending.timer is not None else None

    def _count(self, pending: Pending, weight: int) -> None:
        pending.heard += weight
        if pending.heard >= pending.total:
            self._select(pending)

    def _select(self, pending: Pending) -> None:
        """Merge the paths, drop what does not qualify, and try the best graph."""
        if pending.timer is None:
            return
        pending.timer.cancel()
        pending.timer = None
        plan = pending.way.plan
        graphs = merge(plan, pending.paths.values())
        pending.graphs = len(graphs)
        pending.qualified = []
        pending.unqualified = ""
        shown, tolerated = 0, self.probing.tolerated(plan)
        for graph in graphs:
            delay, phi = graph.delay(plan), graph.balance(plan)
            failed = failing(plan, graph, self.config.late, phi, tolerated) if self.config.enforce else ""
            if not failed:
                pending.qualified.append((phi, graph))
                pending.unqualified = ""
            elif not pending.qualified:
                pending.unqualified = failed
            if shown < SHOWN:
                shown += 1
                self.peer.record(
                    GraphEvaluated,
                    pending.request,
                    peers=graph.peers,
                    phi=phi if math.isfinite(phi) else None,
                    delay_s=delay,
                    unqualified=failed,
                )
        by_delay = self.config.objective == "delay"
        equal = min((phi for phi, _ in pending.qualified), default=0.0) * (1.0 + self.config.tolerance)

        def rank(qualified: tuple[float, ComponentGraph]) -> tuple[float, float, list[tuple[str, str]]]:
            phi, graph = qualified
            phi, delay = round(max(phi, equal), 9), graph.delay(plan)
            return *((delay, phi) if by_delay else (phi, delay)), sorted(graph.peers.items())

        pending.qualified.sort(key=rank, reverse=True)
        self.peer.record(
            ProbingEnded,
            pending.request,
            attempt=pending.attempt,
            paths=len(pending.paths),
            dropped=len(pending.dropped),
            graphs=len(graphs),
            qualified=len(pending.qualified),
            complete=pending.heard >= pending.total,
        )
        self._try_next(pending, "")

    # -- step 5 ------------------------------------------------------------------------------------------------------

    def _try_next(self, pending: Pending, reason: str) -> None:
        dead = self.membership.is_dead
        while pending.qualified and any(map(dead, pending.qualified[-1][1].peers.values())):
            pending.qualified.pop()
        if not pending.qualified or pending.tried >= self.config.tries:
            self._again(pending, reason)
            return
        phi, graph = pending.qualified.pop()
        pending.tried += 1
        plan = pending.way.plan
        late = self.config.late if plan.qos.miss_rate is None else plan.qos.miss_rate
        rule = self.config.rule
        self.peer.record(
            GraphSelected,
            pending.request,
            peers=graph.peers,
            phi=phi,
            delay_s=graph.delay(plan),
            kept_s=graph.kept(plan, late),
            late=late,
            rule=rule,
        )

        def established(refusal: str) -> None:
            if self._pending.get(pending.request) is not pending:
                return  # given up meanwhile
            if refusal:
                self._try_next(pending, refusal)
            else:
                self._settle(pending)

        shared = {tap: hosts[graph.peers[tap]] for tap, hosts in pending.way.shared.items()}
        self.establish(pending.request, plan, graph, shared, established)

    def _again(self, pending: Pending, reason: str) -> None:
        """Another round with more probes, another way, new components, or rejection with what stood in the way."""
        why = reason or pending.summary()
        ways = pending.ways or []
        self.peer.record(AttemptFailed, pending.request, attempt=pending.attempt, reason=why)
        if not pending.stage and pending.round < (1 if pending.way.shared else self.config.attempts):
            self._free(pending)
            self._discover(pending)
        elif ways:
            self._next_way(pending, why)
        elif self._widen(pending):
            pending.why = pending.why or why
            self._free(pending)
            self._discover(pending)
        else:
            again = pending.why not in ("", why)
            self._reject(pending, f"{pending.why}; with new components: {why}" if again else why)

    def _next_way(self, pending: Pending, reason: str) -> None:
        """Compose the plan in another way, or reject it if there is none."""
        if not pending.ways:
            self._reject(pending, reason)
            return
        if pending.attempt:
            self._free(pending)
        given_up, pending.way = pending.way, pending.ways.pop(0)
        if given_up.shared:
            self.peer.record(SharingGivenUp, pending.request, reason=reason)
        else:
            self.peer.record(EnginesChanged, pending.request, reason=reason, parts=parts_of(pending.way.plan))
        pending.round = 0
        self._discover(pending)

    def _widen(self, pending: Pending) -> bool:
        """Have what failed deployed, in the next wider choice of places; False if there is nothing more to try."""
        last = COMPLETE if self.config.deployment == "collocated" else 1
        if self.config.deployment == "off" or pending.stage >= last:
            return False
        plan = pending.way.plan
        pending.stage += 1
        failed = {drop.operator for drop in pending.dropped} if pending.stage < COMPLETE else set(plan.operators)
        pending.deploy.update(operator for operator in failed if deployable(plan, operator))
        if not pending.deploy and pending.stage < COMPLETE:  # what failed is tied to its place, or nothing was heard
            return self._widen(pending)
        return bool(pending.deploy)

    def _free(self, pending: Pending) -> None:
        for address in sorted(pending.probed | {self.peer.address}):
            self.peer.send(address, Release(pending.request, pending.attempt))

    def _settle(self, pending: Pending) -> None:
        self._history.add(pending.attempt)
        self._free(pending)
        del self._pending[pending.request]

    def _reject(self, pending: Pending, reason: str) -> None:
        self._give_up(pending)
        self.peer.record(ApplicationRejected, pending.request, reason=reason)
        self.peer.instruct(Report(pending.request, "rejected", reason))

    def _give_up(self, pending: Pending) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None
        if pending.attempt:
            self._free(pending)
        del self._pending[pending.request]


def _count_routes(plan: Plan) -> int:
    """How many paths lead from a source to a sink, without following each."""
    count: dict[str, int] = {}
    for operator in plan.operators:
        count[operator] = sum(count[upstream] for upstream in plan.upstream(operator)) or 1
    return sum(count[sink] for sink in plan.sinks)
