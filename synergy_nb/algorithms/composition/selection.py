"""Composition at the origin of a request: steps 1, 4 and 5 of section 2.3.1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from synergy_nb.algorithms.composition.messages import (
    UNIT,
    CompositionConfig,
    Dropped,
    Release,
    Request,
    Returned,
    component_name,
    encode_request,
)
from synergy_nb.algorithms.composition.probing import Probing
from synergy_nb.graph import ComponentGraph, Hop, Report, merge
from synergy_nb.overlay.directory import Directory, Entry
from synergy_nb.overlay.membership import Membership
from synergy_nb.peer import Peer, Protocol, Timer
from synergy_nb.plan import Plan
from synergy_nb.plan.parts import parts_of

__all__ = ["Composition", "Establish"]

ROUTES: Final = 256  # of a plan, from sources to sinks: each is probed, and splits that join again double them
UNITS: Final = {"processing capacity": " cores", "bandwidth": " bytes/s", "delay": " s"}
SHOWN: Final = 32  # graphs, and drops, that the journal tells of, a request

Establish = Callable[[str, Plan, dict[str, str], Callable[[str], None]], None]


class _Pending:
    """A request at its origin."""

    __slots__ = (
        "attempt",
        "before",
        "dropped",
        "graphs",
        "heard",
        "otherwise",
        "paths",
        "plan",
        "probed",
        "qualified",
        "request",
        "timer",
        "total",
        "tried",
    )

    def __init__(self, request: str, plan: Plan, otherwise: Plan | None) -> None:
        self.request = request
        self.plan = plan
        self.otherwise = otherwise
        self.attempt = 0
        self.before = 0  # attempts for another plan: peers know attempts by number
        self.total = 0
        self.heard = 0
        self.paths: dict[tuple[tuple[str, str], ...], tuple[Hop, ...]] = {}
        self.dropped: list[Dropped] = []
        self.probed: set[str] = set()
        self.graphs = 0
        self.tried = 0  # graphs that were to be set up, this attempt
        self.qualified: list[tuple[float, ComponentGraph]] = []
        self.timer: Timer | None = None


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
        self._pending: dict[str, _Pending] = {}
        self.handlers = {Returned: self._returned, Dropped: self._dropped}

    @property
    def pending(self) -> frozenset[str]:
        """Requests that are being composed."""
        return frozenset(self._pending)

    # -- step 1: at the origin ---------------------------------------------------------------------------------------

    def submit(self, request: str, plan: Plan, otherwise: Plan | None = None) -> None:
        """Compose and start the application that ``plan`` asks for; what comes of it is reported to the driver.

        If that is not possible, ``otherwise`` is composed: the same plan with less of it on Spark.
        """
        peer = self.peer
        if request in self._pending:
            raise ValueError(f"request: {request!r}; expected an identifier that is not in use")
        pending = self._pending[request] = _Pending(request, plan, otherwise)
        asked = {name: value for name, value in msgspec.structs.asdict(plan.qos).items() if value is not None}
        peer.record("request_submitted", request, plan=plan.name, operators=list(plan.operators), qos=asked)
        routes = _count_routes(plan)
        if routes > ROUTES:
            self._reject(pending, f"{routes} routes lead from its sources to its sinks; at most {ROUTES} can be probed")
            return
        self._discover(pending)

    def _discover(self, pending: _Pending) -> None:
        """Ask who offers the components of the plan, to probe them."""
        pending.probed.clear()
        names = sorted({component_name(pending.plan, operator) for operator in pending.plan.operators})
        self.directory.lookup(names, lambda found: self._discovered(pending, found), self.config.discovery)

    def cancel(self, request: str) -> bool:
        """Give up a request that is being composed; False if it is not."""
        pending = self._pending.get(request)
        if pending is None:
            return False
        self._give_up(pending)
        return True

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
        scale = 1 << (pending.attempt - pending.before)
        pending.attempt += 1
        pending.paths.clear()
        pending.dropped.clear()
        pending.heard = 0
        pending.tried = 0
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
                "probe_dropped",
                message.request,
                operator=message.operator,
                at=message.at,
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
        dead = self.membership.is_dead
        while pending.qualified and any(map(dead, pending.qualified[-1][1].peers.values())):
            pending.qualified.pop()
        if not pending.qualified or pending.tried >= self.config.tries:
            self._again(pending, reason)
            return
        phi, graph = pending.qualified.pop()
        pending.tried += 1
        self.peer.record(
            "graph_selected", pending.request, peers=graph.peers, phi=phi, delay_s=graph.delay(pending.plan)
        )

        def established(refusal: str) -> None:
            if self._pending.get(pending.request) is not pending:
                return  # given up meanwhile
            if refusal:
                self._try_next(pending, refusal)
            else:
                self._settle(pending)

        self.establish(pending.request, pending.plan, graph.peers, established)

    def _again(self, pending: _Pending, reason: str) -> None:
        """Another attempt with more probes, or rejection with what stood in the way."""
        why = reason or self._summary(pending)
        if pending.attempt - pending.before < self.config.attempts:
            self.peer.record("attempt_failed", pending.request, attempt=pending.attempt, reason=why)
            self._free(pending)
            self._discover(pending)
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
        failed: dict[tuple[str, str], list[Dropped]] = {}
        for drop in pending.dropped:
            failed.setdefault((drop.operator, drop.condition), []).append(drop)
        parts = []
        for (operator, condition), drops in sorted(failed.items(), key=lambda item: -len(item[1]))[:4]:
            if condition == "acknowledgement":
                silent = ", ".join(sorted({drop.at for drop in drops}))
                parts.append(f"operator {operator}: no acknowledgement from {silent}")
                continue
            nearest = min(drops, key=lambda drop: abs(drop.asked - drop.available))
            peers, unit = len({drop.at for drop in drops}), UNITS.get(condition, "")
            verb = "is needed" if condition != "delay" else "is allowed"
            parts.append(
                f"operator {operator}: {condition} at {peers} peer{'s' if peers > 1 else ''}, at best "
                f"{nearest.available:.4g}{unit} where {nearest.asked:.4g}{unit} {verb} ({nearest.at})"
            )
        return "; ".join(parts)

    def _free(self, pending: _Pending) -> None:
        for address in sorted(pending.probed | {self.peer.address}):
            self.peer.send(address, Release(pending.request, pending.attempt))

    def _settle(self, pending: _Pending) -> None:
        self._free(pending)
        del self._pending[pending.request]

    def _reject(self, pending: _Pending, reason: str) -> None:
        if pending.otherwise is not None:
            parts = parts_of(pending.otherwise)
            self.peer.record("engines_changed", pending.request, reason=reason, parts=parts)
            if pending.attempt:
                self._free(pending)
            pending.plan, pending.otherwise, pending.before = pending.otherwise, None, pending.attempt
            self._discover(pending)
            return
        self._give_up(pending)
        self.peer.record("application_rejected", pending.request, reason=reason)
        self.peer.instruct(Report(pending.request, "rejected", reason))

    def _give_up(self, pending: _Pending) -> None:
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
