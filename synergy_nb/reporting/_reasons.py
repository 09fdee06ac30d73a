"""Reasons why the operators of a request run at their peers, derived from the facts of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synergy_nb.events import ReplicaDecided
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.facts import Facts
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.replica_streams import placed_sentence
from synergy_nb.reporting.stalls import Stall
from synergy_nb.reporting.troubles import Trouble, observers
from synergy_nb.reporting.uncovered import coverage_sentences


class Reasons(Facts):
    """The :class:`~synergy_nb.reporting.facts.Facts` of one request, and reasons that follow from them."""

    @property
    def peers(self) -> dict[str, str]:
        """Present component graph λ: operator to peer; empty where none was set up."""
        selected, replicated = self.composition.selected, self.replication.replicated
        if self.movement.graph:
            return dict(self.movement.graph)
        if selected is not None:
            lost = self.of_replicas.replicas_ended.union(*(each.operators for each in self.of_replicas.replicas_lost))
            return {name: peer for name, peer in selected.peers.items() if name not in lost}
        return dict(replicated.primaries) if replicated is not None else {}

    @property
    def rule(self) -> str:
        """Rule by which the graph was chosen among those that qualified."""
        selected = self.composition.selected
        return "least φ" if selected is None else selected.rule

    def why(self, operator: str) -> str:
        """Reason in a sentence why an operator runs at its peer."""
        selected, replicated = self.composition.selected, self.replication.replicated
        if operator in self.of_replicas.rebuilt:
            return f"it was rebuilt there {self.of_replicas.rebuilt[operator]}"
        if operator in self.movement.came_from:
            return f"it was moved there from {self.movement.came_from[operator]}"
        if selected is None or replicated is not None:
            placed = {} if replicated is None else replicated.primaries
            if placed.get(operator) != self.peers.get(operator):
                return f"its backup took over from {self.movement.died.get(operator, placed[operator])}"
            primaries = [
                each for each in self.of_replicas.replicas if (each.operator, each.role) == (operator, "primary")
            ]
            return replica_reason(primaries[-1]) if primaries else self.course.outcome
        operator = next((name for name, part in self.on_engines.parts.items() if operator in part), operator)
        if operator not in selected.peers:
            return "not executed: a stream that is derived from it runs already"
        if operator in self.sharing.shared:
            of, other = self.sharing.shared[operator]
            return f"its stream runs there already, as {other} of {of}"
        return self._why_composed(operator, selected.peers[operator])

    def _why_composed(self, operator: str, peer: str) -> str:
        """Reason why an operator of the graph that was set up is at its peer."""
        offering = self.composition.candidates.get(original(operator), [])
        if peer not in offering:
            return "deployed there, as no peer offered its component"
        if offering == [peer]:
            return "its only candidate"  # pinned there, a sink, or offered by no other
        offers = f"{counted(len(offering), 'peer', 'offers', 'offer')} it"
        if self.composition.placed:
            return f"placed there; {offers}"
        deployed = self.replication.replicas_deployed
        if deployed is not None:
            single = original(operator) not in deployed.replicas
            if self.peers.get(operator, peer) != peer:
                return f"its backup took over from {self.movement.died.get(operator, peer)}"
            which = "the nearest to the origin, not replicated" if single else f"active replica, by {self.rule}"
            if single and operator in deployed.backups:
                which = f"near the origin, backups at {', '.join(deployed.backups[operator])}"
            elif len(deployed.replicas.get(operator, ())) == 1 and deployed.degrees[operator] == 1:
                backups = ", ".join(deployed.backups.get(operator, ()))
                which = f"by {self.rule}, {f'backups at {backups}' if backups else 'not replicated'}"
            return f"{which}; {offers}"
        graphs = (graph.peers for graph in self.composition.graphs if operator in graph.peers)  # of other plans, too
        probed = sorted({peers[operator] for peers in graphs})
        drops = (f"{drop.at} ({drop.condition})" for drop in self.composition.dropped if drop.operator == operator)
        failed = dict.fromkeys(drops)  # once, however many paths led there
        rest = f"; dropped: {', '.join(failed)}" if failed else ""
        return f"in the graph of {self.rule}; {offers}, {len(probed)} in complete graphs ({', '.join(probed)}){rest}"

    @property
    def placed_backups(self) -> Mapping[str, Sequence[str]]:
        """Operator to the names of the peers at which its backups were placed."""
        placed = self.replication.replicas_deployed or self.replication.replicated
        return {} if placed is None else placed.backups

    @property
    def placed_sentence(self) -> str:
        """How many replicas of the components with backups were placed."""
        whole = self.replication.replicas_deployed is None
        return placed_sentence(self.replication.placed_replicas, whole=whole)

    @property
    def coverage(self) -> str:
        """Sentence about the operators that replicas cover, and those that they do not; empty without replicas."""
        replicated, alone = self.replication.replicated, self.of_replicas.uncovered
        return coverage_sentences([] if replicated is None else list(replicated.backups), alone) if alone else ""

    @property
    def stalls(self) -> list[Stall]:
        """What it waits for at present, from who has nothing to who is the reason."""
        return self.waits.stalls(self.request)

    def error_line(self, trouble: Trouble) -> str:
        """Write an error of peers in a line."""
        times = f" ({trouble.times} times)" if trouble.times > len(trouble.peers) else ""
        return f"{observers(trouble.peers, self.names)}: {self.readable(trouble.text)}{times}"

    def where(self, operator: str) -> str:
        """Place of an operator: a peer, Spark at a peer, or the peer whose stream is shared; empty if there is none."""
        part = next((name for name, members in self.on_engines.parts.items() if operator in members), "")
        peer, shared = self.peers.get(part or operator, ""), self.sharing.shared
        if part:
            return f"{peer}, Spark"
        if operator in shared:
            return f"{peer}, shared"
        return peer or (f"within {', '.join(sorted({of for of, _ in shared.values()}))}" if shared else "")

    def why_replica(self, operator: str, peer: str) -> str:
        """Reason in a sentence why a replica of an operator is at a peer."""
        for replica in self.of_replicas.replicas:
            if (replica.operator, replica.at) == (operator, peer):
                return replica_reason(replica)
        return f"it has no replica of {operator}"

    @property
    def impacts(self) -> dict[str, dict[str, Any]]:
        """Projected delays of running applications with the chosen graph: by probe, the few nearest to their limits.

        Fields are ``before``, ``after`` and ``limit`` in seconds, and the ``operator`` and peer (``at``) of the impact.
        """
        found: dict[str, dict[str, Any]] = {}
        selected = self.composition.selected
        chosen = {} if selected is None else selected.peers
        for probe in self.composition.accepted:
            if chosen.get(probe.operator) != probe.peer:
                continue
            for each in probe.impacts:
                if each.application not in found or each.after > found[each.application]["after"]:
                    found[each.application] = {
                        "before": each.before,
                        "after": each.after,
                        "limit": each.limit,
                        "operator": probe.operator,
                        "at": probe.peer,
                    }
        return found


def replica_reason(replica: ReplicaDecided) -> str:
    """Reason why a replica is at its peer."""
    if replica.candidates == 1:
        reason = "its only candidate"
    elif replica.used:
        reason = "the application uses that peer already"
    else:
        reason = "no peer that the application uses could take it; the nearest of the others that could"
        reason = reason if replica.passed else "the nearest that could"
    if replica.apart:
        reason += ", where it can be without a source, a sink or the origin"
    if replica.latency_s:
        reason += f", {seconds(replica.latency_s)} away"
    passed = dict.fromkeys(f"{peer} ({why})" for peer, why in replica.passed)
    return f"{reason}; passed over: {', '.join(passed)}" if passed else reason
