"""The account of one request as text: an :class:`~synergy_nb.reporting.explanation.Explanation`, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from synergy_nb.events import (
    GraphSelected,
    ProbeDropped,
    ReplicasDeployed,
)
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting._reasons import Reasons, replica_reason
from synergy_nb.reporting.formatting import DISCIPLINE_NAMES, HOTSPOT_MODES, rate, seconds, share, size
from synergy_nb.reporting.replica_streams import (
    cost_sentence,
    counts,
    stream_sentence,
    streams_sentence,
    weighed_sentence,
)

# Text of each requirement, and of the check for it.
REQUIREMENTS: Final = {
    "delay": "delay at most {}, checked by every probe",
    "miss_rate": "miss rate at most {:.4g}, projected for every graph",
    "throughput": "throughput of {:g} bytes/s, projected for every graph",
    "throughput_tuples": "throughput of {:g} tuples/s, projected for every graph",
    "availability": "availability of {:.6g}: as many replicas as that takes",
    "degree": "{} of each component",
    "active": "{} of each operator",
    "synchronized": "{} of each component, which holds its output until its backups have it",
    "ordered": "{} of each component, which all execute in the order of event times",
    "replica_distance": "more than {} of round trip between two of them",
    "memory": "at most {} of memory for each operator",
}

#: Requirements that are numbers of replicas.
REPLICAS: Final = {"degree": "replica", "active": "active replica", "synchronized": "replica", "ordered": "replica"}
SHOWN: Final = 8  # largest numbers of errors of peers, and of segments of a signature, in the text

#: Stages of the search for a peer (section 2.3.2).
STAGES: Final = {
    1: "beside what comes before or after",
    2: "on the other side",
    3: "at neighbours in the overlay and along the path",
    4: "as a complete graph",
}


def lines(explanation: Reasons) -> list[str]:
    """Write the account of a request, line by line."""
    took = "" if explanation.setup_s is None else f" (set up in {seconds(explanation.setup_s)})"
    written = [f"{explanation.request}: {explanation.outcome}{took}"]
    if explanation.qos:
        lasting = ("delay", "replica_distance")
        values = {name: seconds(value) if name in lasting else value for name, value in explanation.qos.items()}
        values |= {"memory": size(explanation.qos["memory"])} if "memory" in values else {}
        values |= {name: counted(explanation.qos[name], noun) for name, noun in REPLICAS.items() if name in values}
        written.append(
            "  requirements: " + "; ".join(REQUIREMENTS[name].format(value) for name, value in values.items())
        )
    scheduling = _scheduling(explanation)
    if scheduling:
        written.append(f"  scheduling: {scheduling}")
    if explanation.hotspots:
        written.append(f"  hot spots: {HOTSPOT_MODES[explanation.hotspots]}, as the plan states")
    for name, (origin, segments) in explanation.signatures.items():
        shown = ", ".join(f"{seconds(length)} at {rate(each)}" for length, each in segments[:SHOWN])
        written.append(f"  signature of {name}, {origin}: {shown}{', ...' if len(segments) > SHOWN else ''}")
    if explanation.sources:
        known = ", ".join(f"{name} ({rows})" for name, rows in explanation.sources.items())
        written.append(f"  sources, as estimates take them: {known}")
    if explanation.engines:
        written.append("  engines:")
        width = max(map(len, explanation.engines))
        written.extend(f"    {name:<{width}}  {engine}: {why}" for name, (engine, why) in explanation.engines.items())
    written.extend(
        f"    {', '.join(part)}: one part, composed as {name}"
        for name, part in explanation.parts.items()
        if len(part) > 1
    )
    written.extend(f"  waited: {reason}" for reason in explanation.postponed)
    if explanation.sharable:
        found = "; ".join(f"{operator} at {', '.join(peers)}" for operator, peers in explanation.sharable.items())
        used = f"; not used: {explanation.unshared}" if explanation.unshared else ""
        written.append(f"  running streams: {found}{used}")
    if explanation.placed:
        written.append("  placed: " + explanation.placed.replace("\n", "\n    "))
    written.extend(f"  taken over: {move}" for move in explanation.takeovers)
    written.extend(f"  moved: {move}" for move in explanation.moves)
    written.extend(f"  moving: {name} from {at} to {to}" for name, (at, to) in explanation.moving.items())
    written.extend(explanation.hot_spots.lines(explanation.began))
    written.extend(
        f"  too late: {counted(rows, 'row')} at {name}, dropped" for name, rows in explanation.late.items() if rows
    )
    written.extend(f"  {lines.heading(name)}: {lines}" for name, lines in explanation.skipped.items())
    if explanation.drops:
        lost = [f"{counted(number, 'tuple')} at {name}" for name, number in explanation.overdue.items()]
        written.append(f"  dropped as their deadline had passed: {', '.join(lost) or 'no tuples'}")
    if explanation.left:
        written.append(f"  {explanation.placed_sentence}; {counts(explanation.left)}")
    written.extend(
        f"    {peer} could not take {operator} over: {why}"
        for operator, peers in explanation.behind.items()
        for peer, why in peers.items()
    )
    if explanation.uncovered:
        written.append(f"  {explanation.coverage}")
    written.extend(f"  error: {explanation.error_line(each)}" for each in explanation.troubles[-SHOWN:])
    written.extend(f"  deployed: {', '.join(each.operators)}, {STAGES[each.stage]}" for each in explanation.deployed)
    written.extend(
        f"  probes: {counted(attempt.paths, 'path')} returned, {attempt.dropped} dropped; "
        f"{counted(attempt.graphs, 'complete graph')}, {attempt.qualified} qualified"
        + ("" if attempt.complete else " (time ran out)")
        for attempt in explanation.attempts
    )
    if explanation.accepted:
        where: dict[str, dict[str, int]] = {}
        for probe in explanation.accepted:
            passed = where.setdefault(probe.operator, {})
            passed[probe.peer] = passed.get(probe.peer, 0) + 1
        written.append("  accepted: " + "; ".join(f"{o} {_counted(passed)}" for o, passed in where.items()))
    if explanation.selected is not None:
        delay = explanation.selected.delay_s
        close = _close(explanation.qos.get("delay"), explanation.selected)
        written.append(f"  chosen: φ = {explanation.selected.phi:.4g}, projected delay {seconds(delay)}{close}")
        width = max(map(len, explanation.selected.peers))
        written.extend(
            f"    {operator:<{width}}  {explanation.peers.get(operator, peer)}: {explanation.why(operator)}"
            for operator, peer in explanation.selected.peers.items()
        )
    written.extend(
        f"  projected: {name}: {seconds(each['before'])} now, {seconds(each['after'])} with it, of "
        f"{seconds(each['limit'])} ({each['operator']} at {each['at']})"
        for name, each in explanation.impacts.items()
    )
    others = [
        graph
        for graph in explanation.graphs
        if explanation.selected is None or graph.peers != explanation.selected.peers
    ]
    others.sort(key=lambda graph: float("inf") if graph.phi is None else graph.phi)
    for graph in others[:4]:
        verdict = graph.unqualified or f"φ = {graph.phi:.4g}"
        graph_text = ", ".join(f"{operator}@{peer}" for operator, peer in graph.peers.items())
        written.append(f"  not chosen: {verdict}, {seconds(graph.delay_s)}: {graph_text}")
    if len(others) > 4:
        written.append(f"  and {counted(len(others) - 4, 'more graph')}")
    written.extend(
        f"  dropped: {drop.operator} at {drop.at}: {drop.condition}: "
        + (explanation.readable(drop.explanation) or compared(drop))
        for drop in explanation.dropped[:8]
    )
    if explanation.delay is not None:
        written.append(f"  {explanation.delay}")
    written.extend(
        f"  attempt failed: {reason}"
        for reason in dict.fromkeys(explanation.tried)
        if reason not in explanation.outcome and reason not in explanation.refused
    )
    written.extend(f"  refused at set-up: {reason}" for reason in explanation.refused)
    written.extend(
        f"  not placed at first: {reason}" for reason in explanation.unplaced[:4] if explanation.replicated is not None
    )
    if explanation.replicated is not None:
        exact = explanation.replicated.availability
        reached = "" if exact is None else f", available with probability {exact:.6g}"
        uniform = len(set(explanation.placed_replicas.values())) < 2
        placed = explanation.placed_sentence
        written.append(f"  replicas: {f'degree {explanation.replicated.degree}' if uniform else placed}{reached}")
        written.extend(f"    {sentence}" for sentence in explanation.replicated.techniques.values())
    if explanation.replicas_deployed is not None:
        written.extend(_active_replicas(explanation.replicas_deployed))
    written.extend(
        f"  lost: {', '.join(lost.operators)} at {lost.at}: {lost.reason}; {counts(lost.left)}"
        for lost in explanation.replicas_lost
    )
    if explanation.weighed is not None:
        written.append(f"  {weighed_sentence(explanation.weighed)}")
    written.extend(f"  {stream_sentence(each, explanation.readable)}" for each in explanation.streams)
    written.extend(
        f"    {each.operator} ({each.role}) at {each.at}: {replica_reason(each)}" for each in explanation.replicas
    )
    return written


def _active_replicas(deployed: ReplicasDeployed) -> list[str]:
    """Where the active replicas are, what they cost, and why an operator has fewer than its plan requires."""
    written = [f"  {cost_sentence(deployed)}"]
    for operator, peers in deployed.replicas.items():
        lacking = deployed.degrees[operator] - len(peers)
        where = ", ".join(peers)
        if operator in deployed.backups:
            where += f", backups at {', '.join(deployed.backups[operator])}"
        if lacking:
            apart = "" if deployed.distance_s is None else f" and is {seconds(deployed.distance_s)} from the others"
            where += f"; {lacking} fewer than required, as no other peer has room{apart}"
        written.append(f"    {operator} at {where}")
    written.append(f"    streams: {streams_sentence(deployed)}")
    written.extend(f"    {sentence}" for sentence in deployed.agreement.values())
    return written


def _scheduling(explanation: Reasons) -> str:
    """Scheduling disciplines of its components, and their origin; empty where none is known."""
    if explanation.scheduling:
        return f"{DISCIPLINE_NAMES[explanation.scheduling]}, as the plan states"
    found = explanation.disciplines
    if len(found) == 1:
        return f"{DISCIPLINE_NAMES[next(iter(found))]}, the default of its peers"
    return "; ".join(f"{DISCIPLINE_NAMES[name]} at {', '.join(sorted(peers))}" for name, peers in sorted(found.items()))


def _close(limit: float | None, selected: GraphSelected) -> str:
    """Text about an admitted plan whose projected delay exceeds its limit; empty otherwise."""
    quantile, late = selected.quantile_s, selected.late
    if limit is None or quantile is None or quantile <= limit:
        return ""
    many = "" if late is None else f"; {share(1.0 - late)} of the tuples within {seconds(quantile)}"
    return f"{many}, close enough to the limit of {seconds(limit)}"


def compared(drop: ProbeDropped) -> str:
    """Text about the required and the available value of a failed condition."""
    if drop.condition == "delay":
        over = f", more than {share(drop.tolerated)} over" if drop.tolerated else ""
        return f"a limit of {seconds(drop.required)}, {seconds(drop.available)} projected{over}"
    return f"{drop.required:.4g} required, {drop.available:.4g} available"


def _counted(passed: Mapping[str, int]) -> str:
    return ", ".join(f"{peer} ({count} paths)" if count > 1 else peer for peer, count in sorted(passed.items()))
