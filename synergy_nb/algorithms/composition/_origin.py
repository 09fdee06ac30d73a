"""Composition at the origin of a request: steps 1 and 4 of section 2.3.1."""

from __future__ import annotations

import math
import zlib
from typing import Final

from synergy_nb.algorithms.composition._adaptive import RoundsHistory, adapted
from synergy_nb.algorithms.composition._component_placement import COMPLETE, NEIGHBOURS, deployable
from synergy_nb.algorithms.composition._probe_results import Pending
from synergy_nb.algorithms.composition._probing import Probing
from synergy_nb.algorithms.composition.messages import (
    APART,
    UNIT,
    CompositionConfig,
    Dropped,
    Merged,
    ProbedRequest,
    Release,
    Returned,
    encode_request,
)
from synergy_nb.control.graph import ComponentGraph, merge
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    AttemptFailed,
    DeploymentConsidered,
    GraphEvaluated,
    GraphSelected,
    ProbeDropped,
    ProbingEnded,
)
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import Decided, Decision, Refusal, find_candidates
from synergy_nb.lifecycle.requests.selection_conditions import violated_condition
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan.derived.source_readers import readers_of

# conditions on a whole path, so that they say nothing about the peer where they fail
ALONG: Final = ("delay", "miss rate")
RECORDED: Final = 32  # maximum number of graphs, and of dropped probes, in the journal for each round of a request


class Composition(Protocol):
    """The decider that finds the peers of a request by probes, at its origin."""

    def __init__(
        self, peer: Peer, probing: Probing, membership: Membership, config: CompositionConfig | None = None
    ) -> None:
        super().__init__(peer)
        self.probing = probing
        self.membership = membership
        self.config = config or CompositionConfig()
        self._history = RoundsHistory()
        self._pending: dict[str, Pending] = {}
        self.handlers = {Returned: self._returned, Merged: self._merged, Dropped: self._dropped}

    # -- for the engine of requests ----------------------------------------------------------------------------------

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        """Choose the peers of a request by probes, from the candidates in the directory."""
        pending, plan = self._begin(request, decided), request.alternative.plan
        known = find_candidates(self.peer, request, found, self.membership.is_dead)
        lacking = {operator for operator in known.missing if not deployable(plan, operator)}
        if known.missing and (lacking or request.alternatives or self.config.deployment == "off"):
            self._refuse(pending, "; ".join(known.missing.values()), missing=True)
            return
        if known.missing:
            pending.lack(known.missing)
        self._probe_all(pending, known.candidates, known.free)

    def probe(self, request: Request, proposed: Roles, decided: Decided) -> None:
        """Check by probes whether the proposed peers can execute a request."""
        pending = self._begin(request, decided)
        pending.propose(proposed)
        self._probe_all(pending, {operator: (peer,) for operator, peer in proposed.peers.items()}, {})

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Choose the next best graph, because set-up of the last one failed for that reason."""
        pending = self._pending[request.name]
        pending.ask_next(decided)
        self._decide_next(pending, reason)

    def established(self, request: Request) -> None:
        """Release the reservations for graphs that were not chosen."""
        self._history.add(self._pending[request.name].attempt)
        self.release(request)

    def release(self, request: Request) -> None:
        """Release all reservations of a request, and ignore its further messages."""
        pending = self._pending.pop(request.name, None)
        if pending is None:
            return
        pending.stop_waiting()
        if pending.attempt:
            self._release_reservations(pending)

    def _begin(self, request: Request, decided: Decided) -> Pending:
        """Return the record of an undecided request for its next round of probes; a new request gets a new record."""
        pending = self._pending.get(request.name)
        if pending is None:
            pending = self._pending[request.name] = Pending(request, decided)
        pending.ask(decided)
        return pending

    def _refuse(self, pending: Pending, reason: str, *, retry: bool = False, missing: bool = False) -> None:
        """Refuse a request; reservations that its next attempt does not need are released first."""
        if pending.attempt and (retry or pending.submitted.alternatives):
            self._release_reservations(pending)
        at = frozenset(drop.at for drop in pending.dropped if drop.condition not in ALONG)
        unanswered = not missing and pending.unanswered
        pending.answer(Refusal(reason, retry, at, unanswered, missing))

    # -- step 1 ------------------------------------------------------------------------------------------------------

    def _probe_all(self, pending: Pending, candidates: dict[str, tuple[str, ...]], free: dict[str, float]) -> None:
        """Send the probes of the next round, with twice the ratio and budget of the previous round."""
        config, plan = self.config, pending.plan
        scale = 1 << min(pending.round, config.attempts - 1)
        pending.begin_round()
        wide = pending.deploy and (pending.stage >= NEIGHBOURS or config.deployment != "collocated")
        ratio = adapted(config.ratio, plan, self._history) if config.adaptive else config.ratio
        request = ProbedRequest(
            pending.request,
            pending.attempt,
            self.peer.address,
            plan.to_bytes(),
            candidates,
            min(1.0, ratio * scale),
            config.at_least * scale,
            APART if pending.submitted.spread else config.choice,
            tuple(sorted(pending.deploy)),
            pending.stage,
            tuple(self.probing.known()) if wide else (),
            free,
            config.objective if config.merged and not pending.submitted.spread else "",
            config.summed,
            pending.submitted.rights.owner,
        )
        if pending.deploy:
            self.peer.record(
                DeploymentConsidered, pending.request, operators=sorted(pending.deploy), stage=pending.stage
            )
        data = encode_request(request)
        asked = {peer for peers in candidates.values() for peer in peers}
        pending.wait(self.membership.answers.after(config.probing, asked, self._select, pending))
        for source in plan.sources:
            self.probing.propagate(request, plan, data, (source,), (), config.budget * scale, UNIT)

    # -- step 4 ------------------------------------------------------------------------------------------------------

    def _returned(self, sender: str, message: Returned) -> None:
        pending = self._current(message.request, message.attempt)
        if pending is not None:
            pending.found(message)
            self._select_if_complete(pending)

    def _merged(self, sender: str, message: Merged) -> None:
        pending = self._current(message.request, message.attempt)
        if pending is not None:
            pending.merge(message)
            self._select_if_complete(pending)

    def _dropped(self, sender: str, message: Dropped) -> None:
        pending = self._current(message.request, message.attempt)
        if pending is None:
            return
        pending.drop(message)
        if len(pending.dropped) <= RECORDED:
            self.peer.record(
                ProbeDropped,
                message.request,
                operator=message.operator,
                at=message.at,
                condition=message.condition,
                required=message.required,
                available=message.available,
                explanation=message.detail,
                tolerated=message.tolerated,
            )
        self._select_if_complete(pending)

    def _current(self, request: str, attempt: int) -> Pending | None:
        pending = self._pending.get(request)
        return pending if pending is not None and pending.attempt == attempt and pending.awaits else None

    def _select_if_complete(self, pending: Pending) -> None:
        if pending.complete:
            self._select(pending)

    def _select(self, pending: Pending) -> None:
        """Merge the paths, discard graphs that do not qualify, and choose the best graph."""
        if not pending.stop_waiting():
            return
        plan = pending.plan
        graphs = merge(plan, pending.paths.values())
        pending.compose(graphs)
        shown, tolerated_excess = 0, self.probing.tolerated_excess(plan)
        for graph in graphs:
            delay, phi = graph.delay(plan), graph.balance(plan)
            failed = (
                violated_condition(plan, graph, self.config.late, phi, tolerated_excess) if self.config.enforce else ""
            )
            pending.judge(graph, phi, failed)
            if shown < RECORDED:
                shown += 1
                self.peer.record(
                    GraphEvaluated,
                    pending.request,
                    peers=graph.peers,
                    phi=phi if math.isfinite(phi) else None,
                    delay_s=delay,
                    unqualified=failed,
                )
        objective = self.config.objective
        equal = min((phi for phi, _ in pending.qualified), default=0.0) * (1.0 + self.config.tolerance)

        spread, together = pending.submitted.spread, readers_of(plan)

        def rank(qualified: tuple[float, ComponentGraph]) -> tuple[int, float, float, list[tuple[str, str]]]:
            phi, graph = qualified
            phi, delay, peers = round(max(phi, equal), 9), graph.delay(plan), sorted(graph.peers.items())
            # readers of one source divide its work only if they are not at one peer
            apart = -sum([len({graph.peers[each] for each in readers}) for readers in together])
            apart = -len({*graph.peers.values()}) if spread else apart
            if objective == "chance":
                return apart, float(zlib.crc32(f"{pending.request}/{peers}".encode())), phi, peers
            return apart, *((delay, phi) if objective == "delay" else (phi, delay)), peers

        pending.rank(rank)
        self.peer.record(
            ProbingEnded,
            pending.request,
            attempt=pending.attempt,
            paths=len(pending.paths),
            dropped=len(pending.dropped),
            graphs=len(graphs),
            qualified=len(pending.qualified),
            complete=pending.complete,
        )
        self._decide_next(pending, "")

    def _decide_next(self, pending: Pending, reason: str) -> None:
        """Answer with the best of the graphs that have not been tried."""
        best = pending.take_best(self.membership.is_dead, self.config.tries)
        if best is None:
            self._retry_or_refuse(pending, reason)
            return
        (phi, graph), plan = best, pending.plan
        preferred = "most peers for the readers of a source" if readers_of(plan) else ""
        preferred = "most peers" if pending.submitted.spread else preferred
        late = self.config.late if plan.qos.miss_rate is None else plan.qos.miss_rate
        self.peer.record(
            GraphSelected,
            pending.request,
            peers=graph.peers,
            phi=phi,
            delay_s=graph.delay(plan),
            quantile_s=graph.delay_quantile(plan, late),
            late=late,
            rule=f"{preferred}, then {self.config.rule}" if preferred else self.config.rule,
        )
        backups = {} if pending.proposed is None else pending.proposed.backups
        # a peer beyond its capacity, which only peers that enforce nothing admit, has no time that could be projected
        reached = {operator: time if math.isfinite(time) else 0.0 for operator, time in graph.reached(plan).items()}
        promised = {name: hop.processing for name, hop in graph.hops.items()} if self.config.agreed else {}
        pending.answer(Decision(Roles(graph.peers, backups), reached, promised))

    def _retry_or_refuse(self, pending: Pending, reason: str) -> None:
        """Ask for another round with more probes or with new components, or else refuse with the reasons."""
        why = reason or pending.summary()
        alternative, alternatives = pending.submitted.alternative, pending.submitted.alternatives
        self.peer.record(AttemptFailed, pending.request, attempt=pending.attempt, reason=why)
        if not pending.stage and pending.round < (1 if alternative.shared else self.config.attempts):
            self._refuse(pending, why, retry=True)
        elif alternatives:
            self._refuse(pending, why)
        elif pending.proposed is None and pending.next_stage(self._last_stage, why):
            self._refuse(pending, why, retry=True)
        else:
            again = pending.why not in ("", why)
            self._refuse(pending, f"{pending.why}; with new components: {why}" if again else why)

    @property
    def _last_stage(self) -> int:
        """The last stage of deployment that is tried."""
        return {"off": 0, "collocated": COMPLETE}.get(self.config.deployment, 1)

    def _release_reservations(self, pending: Pending) -> None:
        for address in sorted(pending.probed | {self.peer.address}):
            self.peer.send(address, Release(pending.request, pending.attempt))
