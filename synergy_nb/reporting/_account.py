"""The account of one request as text: an :class:`~synergy_nb.reporting.explanation.Explanation`, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from synergy_nb.errors import harmless
from synergy_nb.events import GraphSelected, ProbeDropped
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
SHOWN: Final = 8  # maximum number of errors of peers, of dropped probes, and of segments of a signature in the text
FEW: Final = 4  # maximum number of graphs that were not chosen, and of placements that failed, in the text

#: Origins of estimates in words.
ORIGINS: Final = {
    "stated": "as the plan states",
    "rows": "by the rows of its file",
    "profile": "measured by the profile",
    "before": "as measured before",
    "assumed": "assumed",
}

#: Stages of the search for a peer (section 2.3.2).
STAGES: Final = {
    1: "beside what comes before or after",
    2: "on the other side",
    3: "at neighbours in the overlay and along the path",
    4: "as a complete graph",
}


def lines(account: Reasons) -> list[str]:
    """Write the account of a request, line by line."""
    took = "" if account.course.setup_s is None else f" (set up in {seconds(account.course.setup_s)})"
    head = f"{account.request}: {account.course.outcome}{took}"
    return [*map(harmless, (head, *(f"  {line}" for subject in _SUBJECTS for line in subject(account))))]


def _request(account: Reasons) -> Iterator[str]:
    asked = account.asked
    if asked.qos:
        yield "requirements: " + "; ".join(_required(name, value) for name, value in asked.qos.items())
    if scheduling := _scheduling(account):
        yield f"scheduling: {scheduling}"
    if asked.hotspots:
        yield f"hot spots: {HOTSPOT_MODES[asked.hotspots]}, as the plan states"
    for name, (origin, segments) in asked.signatures.items():
        shown = ", ".join(f"{seconds(length)} at {rate(each)}" for length, each in segments[:SHOWN])
        yield f"signature of {name}, {origin}: {shown}{', ...' if len(segments) > SHOWN else ''}"
    if asked.estimates:
        yield "estimates:"
        width = max(map(len, asked.estimates))
        for name, (what, number, origin) in asked.estimates.items():
            shown = rate(number) if what == "rate" else f"{what} {number:.3g}"
            yield f"  {name:<{width}}  {shown}, {ORIGINS.get(origin, origin)}"
        for name, (busy, mean) in asked.held.items():
            yield f"state of {name}: {size(busy)} in a busy window (one of 100 has more), {size(mean)} in a mean one"
        for name, profile in asked.profiles.items():
            yield f"profile of {name}: {profile}"
    if asked.sources:
        known = ", ".join(f"{name} ({rows})" for name, rows in asked.sources.items())
        yield f"sources, as estimates take them: {known}"


def _required(name: str, value: float) -> str:
    """Text of a requirement and its value."""
    shown: float | str = value
    if name in REPLICAS:
        shown = counted(value, REPLICAS[name])
    elif name in ("delay", "replica_distance"):
        shown = seconds(value)
    elif name == "memory":
        shown = size(value)
    return REQUIREMENTS[name].format(shown)


def _scheduling(account: Reasons) -> str:
    """Scheduling disciplines of its components, and their origin; empty where none is known."""
    if account.asked.scheduling:
        return f"{DISCIPLINE_NAMES[account.asked.scheduling]}, as the plan states"
    found = account.composition.disciplines
    if len(found) == 1:
        return f"{DISCIPLINE_NAMES[next(iter(found))]}, the default of its peers"
    return "; ".join(f"{DISCIPLINE_NAMES[name]} at {', '.join(sorted(peers))}" for name, peers in sorted(found.items()))


def _engines(account: Reasons) -> Iterator[str]:
    engines = account.on_engines.engines
    if engines:
        yield "engines:"
        width = max(map(len, engines))
        yield from (f"  {name:<{width}}  {engine}: {why}" for name, (engine, why) in engines.items())
    for name, part in account.on_engines.parts.items():
        if len(part) > 1:
            yield f"  {', '.join(part)}: one part, composed as {name}"


def _sharing(account: Reasons) -> Iterator[str]:
    sharing = account.sharing
    yield from (f"waited: {reason}" for reason in sharing.postponed)
    if sharing.sharable:
        found = "; ".join(f"{operator} at {', '.join(peers)}" for operator, peers in sharing.sharable.items())
        yield f"running streams: {found}{f'; not used: {sharing.unshared}' if sharing.unshared else ''}"
        if not sharing.unshared:
            rests = sharing.rests.items()
            yield from (f"  {name} reads {stream}, which runs; it still {left}" for name, (stream, left) in rests)
        unfit = sharing.unfit.items()
        yield from (f"  {name} does not read {stream}, which runs: {why}" for name, (stream, why) in unfit)


def _moves(account: Reasons) -> Iterator[str]:
    if account.composition.placed:
        yield "placed: " + account.composition.placed.replace("\n", "\n    ")
    yield from (f"taken over: {move}" for move in account.movement.takeovers)
    yield from (f"moved: {move}" for move in account.movement.moves)
    yield from (f"moving: {name} from {at} to {to}" for name, (at, to) in account.movement.moving.items())


def _hot_spots(account: Reasons) -> Iterator[str]:
    yield from (line.removeprefix("  ") for line in account.hot_spots.lines(account.course.began))


def _stalls(account: Reasons) -> Iterator[str]:
    yield from map(str, account.stalls)


def _losses(account: Reasons) -> Iterator[str]:
    losses = account.losses
    yield from (f"too late: {counted(rows, 'row')} at {name}, dropped" for name, rows in losses.late.items() if rows)
    yield from losses.restarts
    yield from (f"said by {name}: {text}" for name, text in losses.remarks.items())
    yield from (f"{skipped.heading(name)}: {skipped}" for name, skipped in losses.skipped.items())
    if account.asked.drops:
        lost = [f"{counted(number, 'tuple')} at {name}" for name, number in losses.overdue.items()]
        yield f"dropped as their deadline had passed: {', '.join(lost) or 'no tuples'}"


def _covered(account: Reasons) -> Iterator[str]:
    """The replicas that are left, and what they do not cover."""
    if account.of_replicas.left:
        yield f"{account.placed_sentence}; {counts(account.of_replicas.left)}"
    for operator, peers in account.of_replicas.behind.items():
        yield from (f"  {peer} could not take {operator} over: {why}" for peer, why in peers.items())
    if account.coverage:
        yield account.coverage


def _errors(account: Reasons) -> Iterator[str]:
    yield from (f"error: {account.error_line(each)}" for each in account.troubles[-SHOWN:])


def _probing(account: Reasons) -> Iterator[str]:
    found = account.composition
    yield from (f"deployed: {', '.join(each.operators)}, {STAGES[each.stage]}" for each in found.deployed)
    for attempt in found.attempts:
        yield (
            f"probes: {counted(attempt.paths, 'path')} returned, {attempt.dropped} dropped; "
            f"{counted(attempt.graphs, 'complete graph')}, {attempt.qualified} qualified"
            + ("" if attempt.complete else " (time ran out)")
        )
    where: dict[str, dict[str, int]] = {}
    for probe in found.accepted:
        passed = where.setdefault(probe.operator, {})
        passed[probe.peer] = passed.get(probe.peer, 0) + 1
    if where:
        each = (
            f"{operator} "
            + ", ".join(f"{peer} ({count} paths)" if count > 1 else peer for peer, count in sorted(passed.items()))
            for operator, passed in where.items()
        )
        yield f"accepted: {'; '.join(each)}"


def _chosen(account: Reasons) -> Iterator[str]:
    selected = account.composition.selected
    if selected is not None:
        close = _close(account.asked.qos.get("delay"), selected)
        yield f"chosen: φ = {selected.phi:.4g}, projected delay {seconds(selected.delay_s)}{close}"
        width = max(map(len, selected.peers))
        for operator, peer in selected.peers.items():
            yield f"  {operator:<{width}}  {account.peers.get(operator, peer)}: {account.why(operator)}"
    for name, each in account.impacts.items():
        yield (
            f"projected: {name}: {seconds(each['before'])} now, {seconds(each['after'])} with it, of "
            f"{seconds(each['limit'])} ({each['operator']} at {each['at']})"
        )


def _close(limit: float | None, selected: GraphSelected) -> str:
    """Text about an admitted plan whose projected delay exceeds its limit; empty otherwise."""
    quantile, late = selected.quantile_s, selected.late
    if limit is None or quantile is None or quantile <= limit:
        return ""
    many = "" if late is None else f"; {share(1.0 - late)} of the tuples within {seconds(quantile)}"
    return f"{many}, close enough to the limit of {seconds(limit)}"


def _others(account: Reasons) -> Iterator[str]:
    """The graphs that were not chosen, and the probes that were dropped."""
    found = account.composition
    others = [graph for graph in found.graphs if found.selected is None or graph.peers != found.selected.peers]
    others.sort(key=lambda graph: math.inf if graph.phi is None else graph.phi)
    for graph in others[:FEW]:
        verdict = graph.unqualified or f"φ = {graph.phi:.4g}"
        where = ", ".join(f"{operator}@{peer}" for operator, peer in graph.peers.items())
        yield f"not chosen: {verdict}, {seconds(graph.delay_s)}: {where}"
    if len(others) > FEW:
        yield f"and {counted(len(others) - FEW, 'more graph')}"
    for drop in found.dropped[:SHOWN]:
        why = account.readable(drop.explanation) or compared(drop)
        yield f"dropped: {drop.operator} at {drop.at}: {drop.condition}: {why}"


def compared(drop: ProbeDropped) -> str:
    """Text about the required and the available value of a failed condition."""
    if drop.condition == "delay":
        over = f", more than {share(drop.tolerated)} over" if drop.tolerated else ""
        return f"a limit of {seconds(drop.required)}, {seconds(drop.available)} projected{over}"
    return f"{drop.required:.4g} required, {drop.available:.4g} available"


def _refused(account: Reasons) -> Iterator[str]:
    found = account.composition
    if account.delay is not None:
        yield str(account.delay)
    for reason in dict.fromkeys(found.tried):
        if reason not in account.course.outcome and reason not in found.refused:
            yield f"attempt failed: {reason}"
    yield from (f"refused at set-up: {reason}" for reason in found.refused)


def _backups(account: Reasons) -> Iterator[str]:
    replicated = account.replication.replicated
    if replicated is None:
        return
    yield from (f"not placed at first: {reason}" for reason in account.of_replicas.unplaced[:FEW])
    exact = replicated.availability
    uniform = len(set(account.replication.placed_replicas.values())) < 2
    placed = f"degree {replicated.degree}" if uniform else account.placed_sentence
    yield f"replicas: {placed}{'' if exact is None else f', available with probability {exact:.6g}'}"
    yield from (f"  {sentence}" for sentence in replicated.techniques.values())


def _active_replicas(account: Reasons) -> Iterator[str]:
    """Where the active replicas are, what they cost, and why an operator has fewer than its plan requires."""
    deployed = account.replication.replicas_deployed
    if deployed is None:
        return
    yield cost_sentence(deployed)
    for operator, peers in deployed.replicas.items():
        lacking = deployed.degrees[operator] - len(peers)
        where = ", ".join(peers)
        if operator in deployed.backups:
            where += f", backups at {', '.join(deployed.backups[operator])}"
        if lacking:
            apart = "" if deployed.distance_s is None else f" and is {seconds(deployed.distance_s)} from the others"
            where += f"; {lacking} fewer than required, as no other peer has room{apart}"
        yield f"  {operator} at {where}"
    yield f"  streams: {streams_sentence(deployed)}"
    yield from (f"  {sentence}" for sentence in deployed.agreement.values())


def _replicas(account: Reasons) -> Iterator[str]:
    """What became of replicas and their streams, and why the placed ones are at their peers."""
    found, weighed = account.of_replicas, account.replication.weighed
    for lost in found.replicas_lost:
        yield f"lost: {', '.join(lost.operators)} at {lost.at}: {lost.reason}; {counts(lost.left)}"
    if weighed is not None:
        yield weighed_sentence(weighed)
    yield from (stream_sentence(each, account.readable) for each in found.streams)
    yield from (f"  {each.operator} ({each.role}) at {each.at}: {replica_reason(each)}" for each in found.replicas)


_SUBJECTS: Final = (
    _request,
    _engines,
    _sharing,
    _moves,
    _hot_spots,
    _stalls,
    _losses,
    _covered,
    _errors,
    _probing,
    _chosen,
    _others,
    _refused,
    _backups,
    _active_replicas,
    _replicas,
)
