"""Why an application runs where it runs, or why not: the journal's account of one request, for people."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synergy_nb.account import lines, why_there
from synergy_nb.delays import Delay
from synergy_nb.journal import Event
from synergy_nb.readable import seconds
from synergy_nb.troubles import Trouble, gathered, observers
from synergy_nb.uncovered import told, uncovered

__all__ = ["Explanation", "readable"]


class Explanation:
    """An account of how a request was composed.

    Parameters
    ----------
    request
        Which.
    events
        Events of all peers that are about it, in order; errors of peers among them are told, too.
    names
        Peer address to a name for people.
    state
        Status and reason as far as its origin, or whoever lost touch with the origin, knows them. They are told where
        the events say less, as those of an origin that died do.

    Attributes
    ----------
    names : mapping
        Peer address to a name for people.
    asked : dict
        QoS requirement Q_ξ, in base units.
    candidates : dict
        Operator id to the peers that offer its component.
    accepted : list of dict
        Probes that passed the checks of a peer: ``operator``, ``at``, ``via`` (the peers before it), residual
        ``capacity`` (cores) and ``bandwidth`` (bytes/s, None within a peer), delay ``so_far_s``.
    dropped : list of dict
        Probes that failed a condition: ``operator``, ``at``, ``condition``, ``asked``, ``available``.
    graphs : list of dict
        Complete component graphs: ``peers``, ``phi`` (None where it does not qualify), ``delay_s``, ``unqualified``.
    selected : dict or None
        The graph that was set up.
    engines : dict
        Operator id to (engine, reason), of operators that might be executed by Spark.
    parts : dict
        Operator that stands for a part on Spark to all operators of the part.
    shared : dict
        Operator whose stream ran already to the application and operator that give it; empty unless it is used.
    sharable : dict
        Maximum sharable points that were found: operator to the peers that give its stream.
    unshared : str
        Why streams that were found are not used.
    deployed : list of dict
        What was to be deployed for want of components: ``operators``, and the ``stage`` of the search for a place.
    placed : str
        Why components are where they are, if they were placed and not composed.
    replicas : list of dict
        Where the replicas of its components are, as far as placement has decided: ``operator``, ``role`` (primary or
        backup), ``at``, whether that peer was ``used`` already, ``latency_s`` from whoever decided, candidates in their
        ``order``, and those that were ``passed`` over, each with why.
    replicated : dict or None
        The placement of replicas as it stands: ``primaries`` (λ), ``backups`` (ρ), ``degree``, and the exact
        ``availability`` if peers say how they fail.
    takeovers : list of str
        Components that backups took over.
    moves : list of str
        Components that moved, in how many seconds, and those that were to move and did not, with the reason.
    left : dict
        Operator to the number of its remaining replicas, for operators with fewer replicas than were asked for.
    uncovered : dict
        Peer to the parts of the application that only this peer has and no other could take over; empty without
        replicas.
    troubles : list of Trouble
        Errors of peers: protocols that raised an exception, links that broke, messages and data that were refused.
    delay : Delay or None
        The parts of the projected delay for which a request was refused, where whoever asked has found them out.
    outcome : str
        What became of the request, in a sentence.

    Examples
    --------
    >>> print(Explanation("r1", [Event(0.0, "a", "application_rejected", "r1", {"reason": "no peers"})], {}))
    r1: rejected: no peers
    """

    def __init__(
        self,
        request: str,
        events: Iterable[Event],
        names: Mapping[str, str],
        state: tuple[str, str] | None = None,
    ) -> None:
        events = list(events)
        self.request = request
        self.names = names
        self.asked: dict[str, float] = {}
        self.candidates: dict[str, list[str]] = {}
        self.accepted: list[dict[str, Any]] = []
        self.dropped: list[dict[str, Any]] = []
        self.graphs: list[dict[str, Any]] = []
        self.selected: dict[str, Any] | None = None
        self.engines: dict[str, tuple[str, str]] = {}
        self.parts: dict[str, list[str]] = {}
        self.changed = ""
        self.shared: dict[str, tuple[str, str]] = {}
        self.sharable: dict[str, list[str]] = {}
        self.unshared = ""
        self.deployed: list[dict[str, Any]] = []
        self.placed = ""
        self.takeovers: list[str] = []
        self.moves: list[str] = []
        self._moved: dict[str, str] = {}
        self._from: dict[str, str] = {}  # operators that are where they were moved to, and where they were before
        self.attempts: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.replicas: list[dict[str, Any]] = []
        self.replicated: dict[str, Any] | None = None
        self.unplaced: list[str] = []
        self.delay: Delay | None = None
        self.outcome = "being composed"
        self.setup_s: float | None = None
        self.left: dict[str, int] = {}
        self.uncovered: dict[str, list[str]] = {}
        self.troubles: list[Trouble] = gathered(events)
        submitted: float | None = None
        origin = orphaned = ""
        for event in events:
            detail = event.detail
            if event.kind == "request_submitted":
                submitted, origin = event.time, event.peer
                self.asked = dict(detail.get("qos", {}))
            elif event.kind == "engines_chosen":
                self.engines = {operator: (engine, why) for operator, (engine, why) in detail["reasons"].items()}
                self.parts = dict(detail["parts"])
            elif event.kind == "placed":
                self.placed = str(self.readable(detail["text"]))
            elif event.kind == "taking_over":
                lost = self._name(detail["dead"])
                moved = [f"{name} from {lost} to {self._name(peer)}" for name, peer in detail["operators"].items()]
                self.takeovers.append(", ".join(moved) or f"{lost} had backups alone")
                self._from = {name: at for name, at in self._from.items() if name not in detail["operators"]}
            elif event.kind == "taken_over":
                self._moved = self._graph(detail["peers"])
                self._count(detail["backups"])
            elif event.kind == "moved":
                self._moved = self._graph(detail["peers"])
                self._from[detail["operator"]] = before = self._name(detail["at"])
                took = seconds(detail["seconds"])
                self.moves.append(f"{detail['operator']} from {before} to {self._name(detail['to'])} in {took}")
            elif event.kind == "stream_moved":
                self._moved = self._graph(detail["peers"])
                before, to = self._name(detail["at"]), self._name(detail["to"])
                self.moves.append(f"{detail['operator']} of {detail['of']}, which it shares, from {before} to {to}")
            elif event.kind == "move_given_up":
                why = self.readable(detail["reason"])
                self.moves.append(f"{detail['operator']} did not move to {self._name(detail['to'])}: {why}")
            elif event.kind == "engines_changed":
                self.parts = dict(detail["parts"])
                self.changed = self.readable(detail["reason"])
                for operator, (engine, _) in self.engines.items():
                    if engine == "spark" and not any(operator in part for part in self.parts.values()):
                        self.engines[operator] = ("peer", f"on Spark: {self.changed}")
            elif event.kind == "sharing_found":
                self.sharable = {o: [self._name(peer) for peer in peers] for o, peers in detail["points"].items()}
            elif event.kind == "sharing_given_up":
                self.unshared = self.readable(detail["reason"])
            elif event.kind == "deploying":
                self.deployed.append(dict(detail))
            elif event.kind == "candidates_found":
                self.candidates = {o: [self._name(peer) for peer in peers] for o, peers in detail["candidates"].items()}
            elif event.kind == "probe_accepted":
                via = [self._name(peer) for peer in detail["via"]]
                self.accepted.append({**detail, "at": self._name(event.peer), "via": via})
            elif event.kind == "probe_dropped":
                self.dropped.append({**detail, "at": self._name(detail["at"])})
            elif event.kind == "graph_evaluated":
                self.graphs.append({**detail, "peers": self._graph(detail["peers"])})
            elif event.kind == "probing_ended":
                self.attempts.append(dict(detail))
            elif event.kind == "graph_selected":
                self.selected = {**detail, "peers": self._graph(detail["peers"])}
            elif event.kind == "placement_begun":
                self.replicas = []
            elif event.kind == "replica_decided":
                passed = [(self._name(peer), self.readable(why)) for peer, why in detail["passed"]]
                order = [self._name(peer) for peer in detail["order"]]
                self.replicas.append({**detail, "at": self._name(detail["at"]), "order": order, "passed": passed})
            elif event.kind == "placement_completed":
                backups = {o: [self._name(peer) for peer in peers] for o, peers in detail["backups"].items()}
                self.replicated = {**detail, "primaries": self._graph(detail["primaries"]), "backups": backups}
                self.outcome = "placed"
                alone = uncovered(detail["primaries"], backups, origin or event.peer)
                self.uncovered = {self._name(peer): what for peer, what in alone.items()}
            elif event.kind == "placement_attempt_failed":
                self.unplaced.append(self.readable(detail["reason"]))
            elif event.kind == "placement_failed":
                self.outcome = f"not placed: {self.readable(detail['reason'])}"
            elif event.kind == "placement_released" and self.outcome == "placed":
                self.replicated = None
                self.outcome = "its replicas have been given back"
            elif event.kind == "setup_failed":
                self.refused.append(self.readable(detail["reason"]))
            elif event.kind == "session_expired":
                orphaned = self._name(detail["origin"])
            elif event.kind.startswith("application_"):
                status = event.kind.removeprefix("application_")
                reason = self.readable(detail.get("reason", ""))
                self.outcome = f"{status}: {reason}" if reason else status
                if status == "running" and submitted is not None:
                    self.setup_s = event.time - submitted
                if status == "running":
                    self.shared = {tap: (of, op) for tap, (of, op) in detail.get("shared", {}).items()}
                if status == "rejected":
                    self.selected = None
        self._conclude(orphaned, state)

    def _conclude(self, orphaned: str, state: tuple[str, str] | None) -> None:
        """Say what became of it where the journal of its origin cannot."""
        if self.outcome in ("being composed", "running", "placed"):
            if state is not None and state[0] not in ("composing", self.outcome):
                status, reason = state[0], self.readable(state[1])
                self.outcome = f"{status}: {reason}" if reason else status
            elif orphaned:
                self.outcome = f"failed: its origin {orphaned} died or is not heard of any more"

    def _count(self, backups: Mapping[str, Sequence[str]]) -> None:
        """Find the operators that have fewer replicas left than were asked for."""
        counts = {name: 1 + len(peers) for name, peers in backups.items()}
        self.left = {name: count for name, count in counts.items() if count < self.degree}

    def _name(self, address: str) -> str:
        return self.names.get(address, address)

    def _graph(self, peers: Mapping[str, str]) -> dict[str, str]:
        return {operator: self._name(peer) for operator, peer in peers.items()}

    def readable(self, text: str) -> str:
        """A text with names of peers for their addresses."""
        return readable(text, self.names)

    @property
    def peers(self) -> dict[str, str]:
        """Component graph λ as it is now: operator to peer; empty where none was set up."""
        if self._moved:
            return dict(self._moved)
        if self.selected is not None:
            return dict(self.selected["peers"])
        return dict(self.replicated["primaries"]) if self.replicated is not None else {}

    @property
    def rule(self) -> str:
        """Which of the graphs that qualified was set up."""
        return "least φ" if self.selected is None else str(self.selected.get("rule", "least φ"))

    def why(self, operator: str) -> str:
        """Why an operator runs where it runs, in a sentence."""
        if operator in self._from:
            return f"it was moved there from {self._from[operator]}"
        if self.selected is None:
            placed = {} if self.replicated is None else self.replicated["primaries"]
            if placed.get(operator) != self.peers.get(operator):
                return f"its backup took over from {placed[operator]}"
            primaries = [each for each in self.replicas if (each["operator"], each["role"]) == (operator, "primary")]
            return why_there(primaries[-1]) if primaries else self.outcome
        operator = next((name for name, part in self.parts.items() if operator in part), operator)
        if operator not in self.selected["peers"]:
            return "not executed: what follows from it runs already"
        offering = self.candidates.get(operator, [])
        if operator in self.shared:
            of, other = self.shared[operator]
            return f"its stream runs there already, as {other} of {of}"
        peer = self.selected["peers"][operator]
        if peer not in offering:
            return "deployed there, for want of a component elsewhere"
        if offering == [peer]:
            return "its only candidate"  # pinned there, a sink, or offered by no other
        if self.placed:
            return f"placed there; {len(offering)} peers offer it"
        probed = sorted({graph["peers"][operator] for graph in self.graphs})
        drops = (f"{drop['at']} ({drop['condition']})" for drop in self.dropped if drop["operator"] == operator)
        failed = dict.fromkeys(drops)  # once, however many paths led there
        rest = f"; dropped: {', '.join(failed)}" if failed else ""
        return (
            f"in the graph of {self.rule}; {len(offering)} peers offer it, {len(probed)} in complete graphs"
            f" ({', '.join(probed)}){rest}"
        )

    @property
    def degree(self) -> int:
        """Replicas of each component that were asked for; 0 without replicas."""
        return 0 if self.replicated is None else int(self.replicated["degree"])

    @property
    def coverage(self) -> str:
        """What the replicas cover and what they do not; empty without replicas."""
        covered = [] if self.replicated is None else list(self.replicated["backups"])
        return told(covered, self.uncovered) if self.uncovered else ""

    def told(self, trouble: Trouble) -> str:
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
            if (replica["operator"], replica["at"]) == (operator, peer):
                return why_there(replica)
        return f"it has no replica of {operator}"

    @property
    def impacts(self) -> dict[str, dict[str, Any]]:
        """What those that ran are projected to take with the chosen graph: by probe, the few nearest their limits.

        ``before`` and ``after`` in seconds, its ``limit``, and the ``operator`` and peer (``at``) that harm it most.
        """
        found: dict[str, dict[str, Any]] = {}
        chosen = {} if self.selected is None else self.selected["peers"]
        for probe in self.accepted:
            if chosen.get(probe["operator"]) != probe["at"]:
                continue
            for name, before, after, limit in probe.get("impacts", ()):
                if name not in found or after > found[name]["after"]:
                    where = {"operator": probe["operator"], "at": probe["at"]}
                    found[name] = {"before": before, "after": after, "limit": limit, **where}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "request": self.request,
            "outcome": self.outcome,
            "asked": self.asked,
            "setup_s": self.setup_s,
            "candidates": self.candidates,
            "attempts": self.attempts,
            "accepted": self.accepted,
            "dropped": self.dropped,
            "graphs": self.graphs,
            "selected": self.selected,
            "refused": self.refused,
            "engines": {operator: {"engine": engine, "why": why} for operator, (engine, why) in self.engines.items()},
            "parts": self.parts,
            "sharable": self.sharable,
            "shared": self.shared,
            "unshared": self.unshared,
            "deployed": self.deployed,
            "placed": self.placed,
            "replicas": self.replicas,
            "replicated": self.replicated,
            "takeovers": self.takeovers,
            "moves": self.moves,
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


def readable(text: str, names: Mapping[str, str]) -> str:
    """A text with names for addresses, the longest first: one address may begin with another.

    >>> readable("a/1 and a/10", {"a/1": "one", "a/10": "ten"})
    'one and ten'
    """
    for address in sorted(names, key=len, reverse=True):
        text = text.replace(address, names[address])
    return text
