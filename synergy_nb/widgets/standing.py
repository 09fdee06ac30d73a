"""How an application or a cluster stands, in words and numbers for people: what views and snapshots show.

:func:`standing` gives small named pieces of plain values, so that whoever has shown them before need be told only of
those that have changed.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from synergy_nb.explanation import readable
from synergy_nb.plan import Plan
from synergy_nb.widgets.readable import counted, rate, seconds, share
from synergy_nb.widgets.series import ENDED, Component, Flow, Peer, Readings, Run

__all__ = ["STATES", "by_name", "shown_flows", "shown_peers", "standing", "state"]

#: What is said of a component in each of its states.
STATES: Final = {
    "waiting": "waiting",
    "running": "running",
    "overloaded": "overloaded",
    "failed": "failed",
    "dead": "peer dead",
    "stopped": "ended",
}
BEHIND: Final = 1.0  # seconds of its input that wait at an overloaded component
PAST: Final = 5  # ended applications that the view of a cluster still shows
_STATUS: Final = {  # glyph, word, tone
    "composing": ("○", "being composed", "note"),
    "running": ("●", "running", "good"),
    "finished": ("✓", "finished", "good"),
    "stopped": ("■", "stopped", "note"),
    "failed": ("✕", "failed", "bad"),
    "rejected": ("✕", "rejected", "bad"),
}


def by_name(name: str) -> list[tuple[int, int | str]]:
    """Key that sorts ``peer-2`` before ``peer-10``.

    >>> sorted(["peer-10", "peer-2"], key=by_name)
    ['peer-2', 'peer-10']
    """
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]


def status(readings: Readings, run: Run) -> tuple[str, str]:
    """Status of an application, and why, addresses replaced by names.

    An origin that died cannot tell that its application has failed.
    """
    if run.status not in ENDED and run.origin and readings.peer(run.origin).dead:
        return "failed", f"its origin {readings.name(run.origin)} died"
    names = {address: readings.name(address) for address in (*readings.peers, *readings.names)}
    return run.status, readable(run.reason, {f"peer {address}": name for address, name in names.items()} | names)


def state(readings: Readings, component: Component) -> str:
    """State of a component: one of :data:`STATES`."""
    run = readings.run(component.application)
    if component.failure is not None:
        return "failed"
    if readings.peer(component.peer).gone:
        return "dead"
    now = status(readings, run)[0]
    if now in ENDED:
        return "stopped"
    if now != "running" or not component.deployed:
        return "waiting"
    queued, coming = component.stats.get("queue_tuples", 0), component.stats.get("rate", 0.0)
    return "overloaded" if queued > max(BEHIND * coming, 1.0) else "running"


def shown_runs(readings: Readings) -> list[Run]:
    """Applications that the view shows: its own, or those that run and the last that have ended."""
    if readings.application is not None:
        return [readings.run(readings.application)]
    ended = [run for run in readings.runs.values() if run.status in ENDED]
    past = {run.application for run in ended[:-PAST]}
    return [run for run in readings.runs.values() if run.application not in past]


def shown_flows(readings: Readings) -> list[Flow]:
    """Sinks that the view shows."""
    shown = {run.application for run in shown_runs(readings)}
    return [flow for flow in readings.flows.values() if flow.application in shown]


def shown_peers(readings: Readings) -> list[Peer]:
    """Peers that the view shows, by name: those of the application's graph, or all."""
    if readings.application is not None:
        addresses = set(readings.run(readings.application).graph.values())
    else:
        addresses = set(readings.peers) | set(readings.names)
    return sorted(
        (readings.peer(address) for address in addresses), key=lambda peer: by_name(readings.name(peer.address))
    )


def standing(readings: Readings, plan: Plan | None = None) -> dict[str, dict[str, Any]]:
    """Everything that is to be said now, in pieces by name.

    Returns
    -------
    dict
        ``head``: title, status and one sentence. ``flow:…`` of each sink, ``peer:…`` of each peer, ``part:…`` of each
        component: names, texts with units, and plain numbers where something is drawn by them.
    """
    flows, peers = shown_flows(readings), shown_peers(readings)
    many = readings.application is None or len(flows) > 1
    pieces = {"head": _head(readings, flows, peers, plan)}
    for flow in flows:
        pieces[f"flow:{flow.application}/{flow.sink}"] = _flow(readings, flow, plan, many=many)
    for rank, peer in enumerate(peers):
        pieces[f"peer:{peer.address}"] = _peer(readings, peer, rank)
    shown = {run.application: run for run in shown_runs(readings)}
    for (application, operator), component in readings.components.items():
        run = shown.get(application)
        if run is not None and (readings.application is not None or run.status not in ENDED):
            pieces |= _parts(readings, component, run.parts.get(operator))
    return pieces


def _head(readings: Readings, flows: list[Flow], peers: list[Peer], plan: Plan | None) -> dict[str, Any]:
    zero, ended = readings.first, None
    if readings.application is not None:
        run = readings.run(readings.application)
        now, why = status(readings, run)
        glyph, word, tone = _STATUS[now]
        title = run.plan or (plan.name if plan is not None else run.application)
        zero = run.began or run.submitted or zero
        ended = run.ended
        until = ended or readings.now
        facts = [run.application] if run.application != title else []
        if run.graph:
            number = sum(len(run.parts.get(operator, (operator,))) for operator in run.graph)
            facts.append(f"{counted(number, 'operator')} on {counted(len(peers), 'peer')}")
        sentence, worse = _sentence(readings, run, now, why, flows, plan)
        if worse == "bad":
            glyph = "▲"
        tone = worse or tone
        span = max(until - zero, 0.0) if run.began is not None else None
    else:
        title = f"Cluster of {counted(len(peers), 'peer')}"
        runs = shown_runs(readings)
        going = [run for run in runs if status(readings, run)[0] not in ENDED]
        glyph, word, tone, sentence = _cluster(readings, going, flows, peers)
        facts = []
        span = max(readings.now - zero, 0.0) if peers and readings.now > zero else None
    return {
        "title": title,
        "facts": " · ".join(facts),
        "glyph": glyph,
        "status": word,
        "tone": tone,
        "sentence": sentence,
        "zero": zero if zero != float("inf") else 0.0,
        "ended": ended,
        "span": None if span is None else int(span),
        "kind": "cluster" if readings.application is None else "application",
        "origin": "the sources started" if readings.application is not None else "the first event",
    }


def _sentence(
    readings: Readings, run: Run, now: str, why: str, flows: list[Flow], plan: Plan | None
) -> tuple[str, str]:
    """What is to be said of an application in one sentence, and its tone where that is not the status'."""
    results = sum(flow.tuples for flow in flows)
    if now == "composing":
        return "The peers are composing it: they look for a place for each operator.", ""
    if now == "rejected":
        return f"Not admitted: {why or 'no reason was given'}.", ""
    if now == "failed":
        return f"Failed: {why or 'no reason was given'}.", ""
    if now == "stopped":
        return f"Stopped after {counted(results, 'result')}{f': {why}' if why else ', on request'}.", ""
    if now == "finished":
        took = "" if run.began is None or run.ended is None else f" after {seconds(run.ended - run.began)}"
        late = [flow.missed_share for flow in flows if flow.missed_share is not None]
        missed = f", {share(max(late))} later than its limit" if late else ""
        return f"Every stream has ended{took}: {counted(results, 'result')}{missed}.", ""
    missing = _missing(readings, shown_peers(readings))
    if missing:
        return f"{missing}.", "bad"
    measured = [flow for flow in flows if flow.p99 is not None]
    if not measured:
        return "The first results are waited for.", "note"
    worst = max(measured, key=lambda flow: (flow.p99 or 0.0) / flow.limit if flow.limit else 0.0)
    last = f"of the last results at {worst.sink}" if len(flows) > 1 else "of the last results"
    if worst.limit is None:
        return f"99 % {last} took at most {seconds(worst.p99)}; no limit was asked.", ""
    limit = seconds(worst.limit)
    if (worst.p99 or 0.0) <= worst.limit:
        return f"Within its limit: 99 % {last} took at most {seconds(worst.p99)} of {limit}.", ""
    allowed = _asked(run, plan).get("miss_rate", 0.0)
    if worst.miss is not None and worst.miss <= allowed:
        return f"{share(worst.miss)} {last} took longer than {limit}; {share(allowed)} may.", ""
    return f"Too late: {share(worst.miss)} {last} took longer than {limit}.", "bad"


def _missing(readings: Readings, peers: list[Peer]) -> str:
    """Which peers have died, and which do not answer."""
    dead = [readings.name(peer.address) for peer in peers if peer.dead]
    silent = [readings.name(peer.address) for peer in peers if peer.silent and not peer.dead]
    said = [f"{', '.join(dead)} died"] if dead else []
    if silent:
        said.append(f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
    return ", ".join(said)


def _asked(run: Run, plan: Plan | None) -> dict[str, float]:
    """QoS requirement Q_ξ: as journaled, or as in the plan where the journal has lost its beginning."""
    if run.asked or plan is None:
        return run.asked
    return {name: value for name, value in msgspec.structs.asdict(plan.qos).items() if value is not None}


def _cluster(readings: Readings, going: list[Run], flows: list[Flow], peers: list[Peer]) -> tuple[str, str, str, str]:
    gone = any(peer.gone for peer in peers)
    late = [flow for flow in flows if flow.limit is not None and flow.p99 is not None and flow.p99 > flow.limit]
    named = {run.application for run in going}
    late = [flow for flow in late if flow.application in named and not flow.finished]
    running = (
        f"{counted(len(going), 'application')} {'runs' if len(going) == 1 else 'run'}" if going else "nothing runs"
    )
    if not peers:
        return "○", "waiting", "note", "Nothing has been heard of any peer yet."
    if readings.closed:
        return "■", "closed", "note", "The cluster has been closed."
    if gone:
        return "▲", "peers missing", "bad", f"{_missing(readings, peers)}; {running}."
    if late:
        which = ", ".join(dict.fromkeys(readings.run(flow.application).plan or flow.application for flow in late))
        return "▲", "late", "bad", f"{running}; later than its limit: {which}."
    if not going:
        return "○", "idle", "note", "No application runs."
    return "●", "running", "good", f"{running}, each within its limit."


def _flow(readings: Readings, flow: Flow, plan: Plan | None, *, many: bool) -> dict[str, Any]:
    run = readings.run(flow.application)
    now = status(readings, run)[0]
    glyph, word, _ = _STATUS[now]
    within = None if flow.limit is None or flow.p99 is None else flow.p99 <= flow.limit
    asked = _asked(run, plan)
    allowed, wanted = asked.get("miss_rate"), asked.get("throughput_tuples")
    kept = None if allowed is None or flow.miss is None else flow.miss <= allowed
    fast = None if wanted is None or flow.rate is None or now in ENDED else flow.rate >= wanted
    title = run.plan or flow.application
    label = flow.sink if readings.application is not None else f"{title} {flow.sink}".removesuffix(" sink")
    return {
        "label": label if many else "",
        "application": flow.application,
        "of": f"{flow.application}/{flow.sink}",
        "glyph": glyph,
        "status": word,
        "p50": seconds(flow.p50),
        "p99": seconds(flow.p99),
        "limit": seconds(flow.limit) if flow.limit is not None else "",
        "within": within,
        "rate": rate(flow.rate),
        "wanted": rate(wanted) if wanted is not None else "",
        "fast": fast,
        "miss": share(flow.miss),
        "allowed": share(allowed) if allowed is not None else "",
        "kept": kept,
        "missed": share(flow.missed_share),
        "tuples": counted(flow.tuples, "result"),
        "limits": {"delay": flow.limit, "miss": allowed, "rate": wanted},
    }


def _peer(readings: Readings, peer: Peer, rank: int) -> dict[str, Any]:
    load = peer.load
    if peer.dead:
        said = "dead"
    elif peer.silent:
        said = "does not answer"
    elif load is None:
        said = "not measured yet"
    else:
        said = f"{load * 100:.0f} %"
    return {
        "name": readings.name(peer.address),
        "of": peer.address,
        "rank": rank,
        "gone": peer.gone,
        "load": None if load is None or peer.gone else round(load, 3),
        "promised": None if peer.gone or not peer.cores else round(peer.promised, 3),
        "said": said,
        "about": "" if peer.gone or not peer.cores else f"of {peer.cores:.3g} cores",
        "reserved": "" if peer.gone or not peer.cores else f"{peer.promised * 100:.0f} %",
        "memory": "" if peer.gone or not peer.memory else f"{peer.memory / 2**20:,.0f} MiB",
    }


def _parts(readings: Readings, component: Component, members: list[str] | None) -> dict[str, dict[str, Any]]:
    """The piece of a component; of a part on Spark, one of each of its operators, or of a cluster one for all."""
    piece = _part(readings, component)
    if members is None:
        return {f"part:{component.application}/{component.operator}": piece}
    if readings.application is None:
        said = (
            f"{component.operator}, {len(members)} on Spark" if len(members) > 1 else f"{component.operator} on Spark"
        )
        return {f"part:{component.application}/{component.operator}": {**piece, "operator": said}}
    piece["on"] = f"{piece['on']}, Spark"
    inside = {**piece, "rate": ""}  # what goes on between its operators, Spark keeps to itself
    return {
        f"part:{component.application}/{each}": {**(piece if each == component.operator else inside), "operator": each}
        for each in members
    }


def _part(readings: Readings, component: Component) -> dict[str, Any]:
    now = state(readings, component)
    stats = component.stats
    live = now in ("running", "overloaded") and stats
    lines = []
    if live:
        lines = [
            f"{rate(stats['rate'])} in, {rate(stats['output_rate'])} out",
            f"load {share(stats['load'])} of a core, {seconds(stats['processing_s'])} a tuple",
            f"{counted(stats['queue_tuples'], 'tuple')} waiting, {seconds(stats['queueing_s'])} in the queue",
        ]
        if stats.get("late"):
            lines.append(f"{counted(stats['late'], 'tuple')} came too late")
    if component.failure:
        lines.append(component.failure)
    busiest = max(stats["rate"], stats["output_rate"]) if live else None
    return {
        "application": component.application,
        "title": readings.run(component.application).plan or component.application,
        "operator": component.operator,
        "peer": component.peer,
        "on": readings.name(component.peer),
        "state": now,
        "said": STATES[now],
        "rate": rate(busiest) if busiest is not None else "",
        "tip": "\n".join(lines),
    }
