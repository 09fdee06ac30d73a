"""Why an application runs where it runs, or why not: the journal's account of one request, for people."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from synergy_nb.journal import Event

__all__ = ["Explanation", "readable"]

# What is done about each requirement, said with it.
HELD: Final = {
    "delay": "delay at most {:g} s, checked by every probe",
    "miss_rate": "miss rate at most {:.4g}, projected for every graph",
    "throughput": "throughput of {:g} bytes/s, projected for every graph",
    "throughput_tuples": "throughput of {:g} tuples/s, projected for every graph",
    "availability": "availability of {:.6g}: as many replicas as that takes",
    "degree": "{:g} replicas of each component",
}

# Of an application with replicas, whose places follow from availability and resources.
MEASURED: Final = {
    "delay": "delay at most {:g} s, measured",
    "miss_rate": "miss rate at most {:.4g}, measured",
    "throughput": "throughput of {:g} bytes/s, measured",
    "throughput_tuples": "throughput of {:g} tuples/s, measured",
}

LATEST: Final = 253_402_300_800_000_000  # beyond the year 9999, microseconds: the end of a stream

#: How far the search for a place goes (section 2.3.2).
STAGES: Final = {
    1: "beside what comes before or after",
    2: "on the other side",
    3: "at neighbours in the overlay and along the path",
    4: "as a complete graph",
}


class Explanation:
    """An account of how a request was composed.

    Parameters
    ----------
    request
        Which.
    events
        Events of all peers that are about it, in order.
    names
        Peer address to a name for people.

    Attributes
    ----------
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
    moves : list of str
        What backups took over, and what was lost at that.
    outcome : str
        What became of the request, in a sentence.

    Examples
    --------
    >>> print(Explanation("r1", [Event(0.0, "a", "application_rejected", "r1", {"reason": "no peers"})], {}))
    r1: rejected: no peers
    """

    def __init__(self, request: str, events: Iterable[Event], names: Mapping[str, str]) -> None:
        self.request = request
        self._names = names
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
        self.moves: list[str] = []
        self._moved: dict[str, str] = {}
        self.attempts: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.replicas: list[dict[str, Any]] = []
        self.replicated: dict[str, Any] | None = None
        self.unplaced: list[str] = []
        self.outcome = "being composed"
        self.setup_s: float | None = None
        submitted: float | None = None
        for event in events:
            detail = event.detail
            if event.kind == "request_submitted":
                submitted = event.time
                self.asked = dict(detail.get("qos", {}))
            elif event.kind == "engines_chosen":
                self.engines = {operator: (engine, why) for operator, (engine, why) in detail["reasons"].items()}
                self.parts = dict(detail["parts"])
            elif event.kind == "placed":
                self.placed = str(self._readable(detail["text"]))
            elif event.kind == "taking_over":
                lost = self._name(detail["dead"])
                moved = [f"{name} from {lost} to {self._name(peer)}" for name, peer in detail["operators"].items()]
                self.moves.append(", ".join(moved) or f"{lost} had backups alone")
            elif event.kind == "taken_over":
                self._moved = self._graph(detail["peers"])
            elif event.kind == "gap":
                since, until = (_moment(detail[field]) for field in ("since", "until"))
                self.moves.append(f"{detail['operator']}: results from {since} to {until} may be missing or doubled")
            elif event.kind == "engines_changed":
                self.parts = dict(detail["parts"])
                self.changed = self._readable(detail["reason"])
                for operator, (engine, _) in self.engines.items():
                    if engine == "spark" and not any(operator in part for part in self.parts.values()):
                        self.engines[operator] = ("peer", f"on Spark: {self.changed}")
            elif event.kind == "sharing_found":
                self.sharable = {o: [self._name(peer) for peer in peers] for o, peers in detail["points"].items()}
            elif event.kind == "sharing_given_up":
                self.unshared = self._readable(detail["reason"])
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
                passed = [(self._name(peer), self._readable(why)) for peer, why in detail["passed"]]
                order = [self._name(peer) for peer in detail["order"]]
                self.replicas.append({**detail, "at": self._name(detail["at"]), "order": order, "passed": passed})
            elif event.kind == "placement_completed":
                backups = {o: [self._name(peer) for peer in peers] for o, peers in detail["backups"].items()}
                self.replicated = {**detail, "primaries": self._graph(detail["primaries"]), "backups": backups}
                self.outcome = "placed"
            elif event.kind == "placement_attempt_failed":
                self.unplaced.append(self._readable(detail["reason"]))
            elif event.kind == "placement_failed":
                self.outcome = f"not placed: {self._readable(detail['reason'])}"
            elif event.kind == "placement_released" and self.outcome == "placed":
                self.replicated = None
                self.outcome = "its replicas have been given back"
            elif event.kind == "setup_failed":
                self.refused.append(self._readable(detail["reason"]))
            elif event.kind.startswith("application_"):
                status = event.kind.removeprefix("application_")
                reason = self._readable(detail.get("reason", ""))
                self.outcome = f"{status}: {reason}" if reason else status
                if status == "running" and submitted is not None:
                    self.setup_s = event.time - submitted
                if status == "running":
                    self.shared = {tap: (of, op) for tap, (of, op) in detail.get("shared", {}).items()}
                if status == "rejected":
                    self.selected = None

    def _name(self, address: str) -> str:
        return self._names.get(address, address)

    def _graph(self, peers: Mapping[str, str]) -> dict[str, str]:
        return {operator: self._name(peer) for operator, peer in peers.items()}

    def _readable(self, text: str) -> str:
        return readable(text, self._names)

    @property
    def peers(self) -> dict[str, str]:
        """Component graph λ as it is now: operator to peer; empty where none was set up."""
        if self.selected is not None:
            return dict(self.selected["peers"])
        return self._moved or (dict(self.replicated["primaries"]) if self.replicated is not None else {})

    @property
    def rule(self) -> str:
        """Which of the graphs that qualified was set up."""
        return "least φ" if self.selected is None else str(self.selected.get("rule", "least φ"))

    def why(self, operator: str) -> str:
        """Why an operator runs where it runs, in a sentence."""
        if self.selected is None:
            placed = {} if self.replicated is None else self.replicated["primaries"]
            if placed.get(operator) != self.peers.get(operator):
                return f"its backup took over from {placed[operator]}"
            primaries = [each for each in self.replicas if (each["operator"], each["role"]) == (operator, "primary")]
            return _why(primaries[-1]) if primaries else self.outcome
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

    def why_replica(self, operator: str, peer: str) -> str:
        """Why a replica of an operator is at a peer, in a sentence."""
        for replica in self.replicas:
            if (replica["operator"], replica["at"]) == (operator, peer):
                return _why(replica)
        return f"it has no replica of {operator}"

    @property
    def impacts(self) -> dict[str, dict[str, Any]]:
        """What each application that ran is projected to take with the chosen graph.

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
            "moves": self.moves,
            "impacts": self.impacts,
        }

    def _lines(self) -> list[str]:
        took = "" if self.setup_s is None else f" (set up in {self.setup_s * 1e3:.0f} ms)"
        lines = [f"{self.request}: {self.outcome}{took}"]
        if self.asked:
            held = {**HELD, **MEASURED} if self.replicas else HELD
            lines.append("  asked: " + "; ".join(held[name].format(value) for name, value in self.asked.items()))
        if self.engines:
            lines.append("  engines:")
            width = max(map(len, self.engines))
            lines.extend(f"    {name:<{width}}  {engine}: {why}" for name, (engine, why) in self.engines.items())
        lines.extend(
            f"    {', '.join(part)}: one part, composed as {name}" for name, part in self.parts.items() if len(part) > 1
        )
        if self.sharable:
            found = "; ".join(f"{operator} at {', '.join(peers)}" for operator, peers in self.sharable.items())
            used = f"; not used: {self.unshared}" if self.unshared else ""
            lines.append(f"  running streams: {found}{used}")
        if self.placed:
            lines.append("  placed: " + self.placed.replace("\n", "\n    "))
        lines.extend(f"  taken over: {move}" for move in self.moves)
        lines.extend(f"  deployed: {', '.join(each['operators'])}, {STAGES[each['stage']]}" for each in self.deployed)
        lines.extend(
            f"  probes: {attempt['paths']} paths returned, {attempt['dropped']} dropped; "
            f"{attempt['graphs']} complete graphs, {attempt['qualified']} qualified"
            + ("" if attempt["complete"] else " (time ran out)")
            for attempt in self.attempts
        )
        if self.accepted:
            where: dict[str, dict[str, int]] = {}
            for probe in self.accepted:
                passed = where.setdefault(probe["operator"], {})
                passed[probe["at"]] = passed.get(probe["at"], 0) + 1
            lines.append("  accepted: " + "; ".join(f"{o} {_counted(passed)}" for o, passed in where.items()))
        if self.selected is not None:
            delay = self.selected["delay_s"]
            lines.append(f"  chosen: φ = {self.selected['phi']:.4g}, projected delay {delay * 1e3:.3g} ms")
            width = max(map(len, self.selected["peers"]))
            lines.extend(
                f"    {operator:<{width}}  {peer}: {self.why(operator)}"
                for operator, peer in self.selected["peers"].items()
            )
        lines.extend(
            f"  projected: {name}: {each['before'] * 1e3:.3g} ms now, {each['after'] * 1e3:.3g} ms with it, of "
            f"{each['limit'] * 1e3:.4g} ms ({each['operator']} at {each['at']})"
            for name, each in self.impacts.items()
        )
        others = [graph for graph in self.graphs if self.selected is None or graph["peers"] != self.selected["peers"]]
        others.sort(key=lambda graph: float("inf") if graph["phi"] is None else graph["phi"])
        for graph in others[:4]:
            verdict = graph["unqualified"] or f"φ = {graph['phi']:.4g}"
            places = ", ".join(f"{operator}@{peer}" for operator, peer in graph["peers"].items())
            lines.append(f"  not chosen: {verdict}, {graph['delay_s'] * 1e3:.3g} ms: {places}")
        if len(others) > 4:
            lines.append(f"  and {len(others) - 4} more graphs")
        lines.extend(
            f"  dropped: {drop['operator']} at {drop['at']}: {drop['condition']}: "
            + (self._readable(drop.get("detail", "")) or f"{drop['asked']:.4g} asked, {drop['available']:.4g} there")
            for drop in self.dropped[:8]
        )
        lines.extend(f"  refused at set-up: {reason}" for reason in self.refused)
        lines.extend(f"  not placed at first: {reason}" for reason in self.unplaced[:4] if self.replicated is not None)
        if self.replicated is not None:
            exact = self.replicated["availability"]
            reached = "" if exact is None else f", available with probability {exact:.6g}"
            lines.append(f"  replicas: degree {self.replicated['degree']}{reached}")
        lines.extend(f"    {each['operator']} ({each['role']}) at {each['at']}: {_why(each)}" for each in self.replicas)
        return lines

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre style='white-space: pre-wrap'>{html.escape(str(self))}</pre>"


def _why(replica: Mapping[str, Any]) -> str:
    """Why a replica is where it is."""
    if replica["candidates"] == 1:
        reason = "its only candidate"
    elif replica["used"]:
        reason = "the application uses that peer already"
    else:
        reason = "no peer that the application uses could take it; the nearest of the others that could"
        reason = reason if replica["passed"] else "the nearest that could"
    if replica["latency_s"]:
        reason += f", {replica['latency_s'] * 1e3:.3g} ms away"
    passed = dict.fromkeys(f"{peer} ({why})" for peer, why in replica["passed"])
    return f"{reason}; passed over: {', '.join(passed)}" if passed else reason


def _counted(passed: Mapping[str, int]) -> str:
    return ", ".join(f"{peer} ({count} paths)" if count > 1 else peer for peer, count in sorted(passed.items()))


def readable(text: str, names: Mapping[str, str]) -> str:
    """A text with names for addresses, the longest first: one address may begin with another.

    >>> readable("a/1 and a/10", {"a/1": "one", "a/10": "ten"})
    'one and ten'
    """
    for address in sorted(names, key=len, reverse=True):
        text = text.replace(address, names[address])
    return text


def _moment(time: int | None) -> str:
    """An event time in microseconds, for people."""
    if time is None:
        return "the beginning"
    if time >= LATEST:
        return "the end"
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
