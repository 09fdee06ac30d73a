"""Why an application runs where it runs, or why not: the journal's account of one request, for people."""

from __future__ import annotations

import html
from typing import Any

from msgspec import to_builtins

from synergy_nb.events import Event
from synergy_nb.reporting.account import lines, replica_reason
from synergy_nb.reporting.facts import Facts
from synergy_nb.reporting.troubles import Trouble, observers
from synergy_nb.reporting.uncovered import coverage_sentences

__all__ = ["Explanation"]


class Explanation(Facts):
    """An account of how a request was composed: :class:`~synergy_nb.reporting.facts.Facts`, and what they mean.

    Examples
    --------
    >>> from synergy_nb.events import ApplicationRejected
    >>> print(Explanation("r1", [ApplicationRejected(0.0, "a", "r1", "no peers")], {}))
    r1: rejected: no peers
    """

    @property
    def peers(self) -> dict[str, str]:
        """Component graph λ as it is now: operator to peer; empty where none was set up."""
        if self._moved:
            return dict(self._moved)
        if self.selected is not None:
            return dict(self.selected.peers)
        return dict(self.replicated.primaries) if self.replicated is not None else {}

    @property
    def rule(self) -> str:
        """Which of the graphs that qualified was set up."""
        return "least φ" if self.selected is None else self.selected.rule

    def why(self, operator: str) -> str:
        """Why an operator runs where it runs, in a sentence."""
        if operator in self._from:
            return f"it was moved there from {self._from[operator]}"
        if self.selected is None or self.replicated is not None:
            placed = {} if self.replicated is None else self.replicated.primaries
            if placed.get(operator) != self.peers.get(operator):
                return f"its backup took over from {placed[operator]}"
            primaries = [each for each in self.replicas if (each.operator, each.role) == (operator, "primary")]
            return replica_reason(primaries[-1]) if primaries else self.outcome
        operator = next((name for name, part in self.parts.items() if operator in part), operator)
        if operator not in self.selected.peers:
            return "not executed: what follows from it runs already"
        offering = self.candidates.get(operator, [])
        if operator in self.shared:
            of, other = self.shared[operator]
            return f"its stream runs there already, as {other} of {of}"
        peer = self.selected.peers[operator]
        if peer not in offering:
            return "deployed there, for want of a component elsewhere"
        if offering == [peer]:
            return "its only candidate"  # pinned there, a sink, or offered by no other
        if self.placed:
            return f"placed there; {len(offering)} peers offer it"
        probed = sorted({graph.peers[operator] for graph in self.graphs})
        drops = (f"{drop.at} ({drop.condition})" for drop in self.dropped if drop.operator == operator)
        failed = dict.fromkeys(drops)  # once, however many paths led there
        rest = f"; dropped: {', '.join(failed)}" if failed else ""
        return (
            f"in the graph of {self.rule}; {len(offering)} peers offer it, {len(probed)} in complete graphs"
            f" ({', '.join(probed)}){rest}"
        )

    @property
    def coverage(self) -> str:
        """What the replicas cover and what they do not; empty without replicas."""
        covered = [] if self.replicated is None else list(self.replicated.backups)
        return coverage_sentences(covered, self.uncovered) if self.uncovered else ""

    def error_line(self, trouble: Trouble) -> str:
        """An error of peers in a line."""
        times = f" ({trouble.times} times)" if trouble.times > len(trouble.peers) else ""
        return f"{observers(trouble.peers, self.names)}: {self.readable(trouble.said)}{times}"

    def where(self, operator: str) -> str:
        """Where an operator runs: a peer, Spark at a peer, or the peer whose stream is used; empty if nowhere."""
        part = next((name for name, members in self.parts.items() if operator in members), "")
        peer = self.peers.get(part or operator, "")
        if part:
            return f"{peer}, Spark"
        if operator in self.shared:
            return f"{peer}, shared"
        return peer or (f"within {', '.join(sorted({of for of, _ in self.shared.values()}))}" if self.shared else "")

    def why_replica(self, operator: str, peer: str) -> str:
        """Why a replica of an operator is at a peer, in a sentence."""
        for replica in self.replicas:
            if (replica.operator, replica.at) == (operator, peer):
                return replica_reason(replica)
        return f"it has no replica of {operator}"

    @property
    def impacts(self) -> dict[str, dict[str, Any]]:
        """What those that ran are projected to take with the chosen graph: by probe, the few nearest their limits.

        ``before`` and ``after`` in seconds, its ``limit``, and the ``operator`` and peer (``at``) that harm it most.
        """
        found: dict[str, dict[str, Any]] = {}
        chosen = {} if self.selected is None else self.selected.peers
        for probe in self.accepted:
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

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "request": self.request,
            "outcome": self.outcome,
            "asked": self.asked,
            "scheduling": self.scheduling,
            "disciplines": self.disciplines,
            "setup_s": self.setup_s,
            "candidates": self.candidates,
            "attempts": list(map(_plain, self.attempts)),
            "accepted": [{**_plain(probe), "at": probe.peer} for probe in self.accepted],
            "dropped": list(map(_plain, self.dropped)),
            "graphs": list(map(_plain, self.graphs)),
            "selected": None if self.selected is None else _plain(self.selected),
            "refused": self.refused,
            "signatures": {
                name: {"from": origin, "segments": segments} for name, (origin, segments) in self.signatures.items()
            },
            "engines": {operator: {"engine": engine, "why": why} for operator, (engine, why) in self.engines.items()},
            "parts": self.parts,
            "sharable": self.sharable,
            "shared": self.shared,
            "unshared": self.unshared,
            "deployed": list(map(_plain, self.deployed)),
            "placed": self.placed,
            "replicas": list(map(_plain, self.replicas)),
            "replicated": None if self.replicated is None else _plain(self.replicated),
            "takeovers": self.takeovers,
            "moves": self.moves,
            "moving": self.moving,
            "late": self.late,
            "tried": self.tried,
            "left": self.left,
            "uncovered": self.uncovered,
            "troubles": [each._asdict() for each in self.troubles],
            "impacts": self.impacts,
            "delay": None if self.delay is None else self.delay._asdict(),
        }

    def __str__(self) -> str:
        return "\n".join(lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre style='white-space: pre-wrap'>{html.escape(str(self))}</pre>"


def _plain(event: Event) -> dict[str, Any]:
    """The own fields of an event as plain values."""
    return {name: to_builtins(value) for name, value in event.detail.items()}
