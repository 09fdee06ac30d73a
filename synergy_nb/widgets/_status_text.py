"""The status of an application or a cluster in words and numbers, for views and snapshots.

:func:`status_pieces` returns small named pieces of plain values, so that a view that has shown them needs only
those that have changed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from synergy_nb.events.application_states import ENDED, Status
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import rate, seconds, share
from synergy_nb.reporting.replica_streams import counts
from synergy_nb.reporting.stalls import stalls
from synergy_nb.reporting.troubles import observers
from synergy_nb.widgets._component_status import named, pieces_of, status
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._latest_values import LatestComponent, LatestFlow, LatestPeer, LatestRun
from synergy_nb.widgets._replica_events import stream_pieces

STALLS: Final = 2  # maximum number of stalls in the sentence about an application
WORST: Final = 8  # maximum number of errors of peers that are shown
PAST: Final = 5  # maximum number of ended applications in the view of a cluster
# difference between measured and promised load from which on it is explained, as a share of the capacity
APART: Final = 0.15
LOADS: Final = (
    "Measured is the processor time of the peer, of the cores that it offers. Promised is what admitted plans have "
    "reserved there, by the costs that they state or that peers have measured."
)
_STATUS: Final[dict[str, tuple[str, str, str]]] = {  # glyph, word and tone of each status
    Status.COMPOSING: ("○", "being composed", "note"),
    Status.RUNNING: ("●", "running", "good"),
    Status.ON_HOLD: ("◫", "on hold", "note"),
    Status.PAUSED: ("◌", "paused", "bad"),
    Status.FINISHED: ("✓", "finished", "good"),
    Status.STOPPED: ("■", "stopped", "note"),
    Status.FAILED: ("✕", "failed", "bad"),
    Status.REJECTED: ("✕", "rejected", "bad"),
}


def by_name(name: str) -> list[tuple[int, int | str]]:
    """Key that sorts ``peer-2`` before ``peer-10``.

    >>> sorted(["peer-10", "peer-2"], key=by_name)
    ['peer-2', 'peer-10']
    """
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]


def shown_runs(readings: JournalSeries) -> list[LatestRun]:
    """Applications that the view shows: its own, or those that run and those that ended last."""
    if readings.application is not None:
        return [readings.run(readings.application)]
    ended = [run for run in readings.runs.values() if run.status in ENDED]
    past = {run.application for run in ended[:-PAST]}
    return [run for run in readings.runs.values() if run.application not in past]


def shown_flows(readings: JournalSeries) -> list[LatestFlow]:
    """Sinks that the view shows."""
    shown = {run.application for run in shown_runs(readings)}
    return [flow for flow in readings.flows.values() if flow.application in shown]


def shown_peers(readings: JournalSeries) -> list[LatestPeer]:
    """Peers that the view shows, by name: those of the application's graph, or all that are in the ring."""
    if readings.application is not None:
        run = readings.run(readings.application)
        addresses = {*run.roles.addresses, *run.lost, *(at for at, _ in run.lost_replicas.values())}
    else:
        left = {address for address, peer in readings.peers.items() if peer.left}
        addresses = (set(readings.peers) | set(readings.names)) - left
    return sorted(
        (readings.peer(address) for address in addresses), key=lambda peer: by_name(readings.name(peer.address))
    )


def status_pieces(readings: JournalSeries, plan: Plan | None = None) -> dict[str, dict[str, Any]]:
    """The present status, in pieces by name.

    Returns
    -------
    dict
        ``head``: title, status and one sentence. ``flow:…`` of each sink, ``peer:…`` of each peer, ``part:…`` of each
        component: names, texts with units, and plain numbers for drawings. ``streams``: those between active replicas,
        with whether they are discarded. ``marks``: events of the applications; ``troubles``: errors of peers;
        ``loads``: the meaning of the two loads of a peer, and why they differ where they do.
    """
    flows, peers = shown_flows(readings), shown_peers(readings)
    many = readings.application is None or len(flows) > 1
    pieces = {"head": _head(readings, flows, peers, plan)}
    for flow in flows:
        pieces[f"flow:{flow.application}/{flow.sink}"] = _flow(readings, flow, plan, many=many)
    _tell_apart([pieces[f"flow:{flow.application}/{flow.sink}"] for flow in flows])
    for rank, peer in enumerate(peers):
        pieces[f"peer:{peer.address}"] = _peer(readings, peer, rank)
    components: dict[str, list[LatestComponent]] = {}
    for component in readings.components.values():
        components.setdefault(component.application, []).append(component)
    for run in shown_runs(readings):
        if readings.application is not None or run.status not in ENDED:
            pieces |= pieces_of(readings, run, components.get(run.application, ()), plan)
    if peers:
        shares = [_difference(readings, peer) for peer in peers]
        pieces["loads"] = {"about": LOADS, "list": [sentence for sentence in shares if sentence][:WORST]}
    if readings.application is not None and readings.run(readings.application).replication.active:
        own = {each.operator: each for each in components.get(readings.application, ())}
        pieces["streams"] = stream_pieces(readings.run(readings.application), own)
    pieces["marks"] = {"list": _marks(readings)}
    pieces["troubles"] = {"list": _troubles(readings)}
    return pieces


def _head(
    readings: JournalSeries, flows: list[LatestFlow], peers: list[LatestPeer], plan: Plan | None
) -> dict[str, Any]:
    zero, ended = readings.first, None
    if readings.application is not None:
        run = readings.run(readings.application)
        now, why = status(readings, run)
        glyph, word, tone = _STATUS[now]
        title = run.asked.plan or (plan.name if plan is not None else run.application)
        zero = run.began or run.asked.submitted or zero
        ended = run.ended
        until = ended or readings.now
        facts = [run.application] if run.application != title else []
        executed = {operator: peer for operator, peer in run.roles.peers.items() if peer}
        if executed:
            number = sum(len(run.engines.parts.get(operator, (operator,))) for operator in executed)
            used = len(set(executed.values()))
            facts.append(f"{counted(number, 'operator')} on {counted(used, 'peer')}")
        facts += _backed_up(run)
        facts += _active(run)
        sentence, worse = _sentence(readings, run, now, why, flows, plan)
        if worse == "bad":
            glyph = "▲"
        elif now == Status.RUNNING:
            sentence += _recovered(readings, run)
        if now == Status.RUNNING:
            sentence += _stalled(readings, run)
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
    readings: JournalSeries, run: LatestRun, now: str, why: str, flows: list[LatestFlow], plan: Plan | None
) -> tuple[str, str]:
    """One sentence about an application, and its tone if that differs from the tone of the status."""
    results = sum(flow.tuples for flow in flows)
    if now == "composing":
        return "The peers are composing it: they look for a peer for each operator.", ""
    if now == "rejected":
        return f"Not admitted: {why or 'no reason was given'}.", ""
    if now == "failed":
        return f"Failed: {why or 'no reason was given'}.", ""
    if now == "stopped":
        return f"Stopped after {counted(results, 'result')}{f': {why}' if why else ', on request'}.", ""
    if now == "paused":
        return f"Paused, {why}.", ""
    if now == "on hold":
        return f"On hold after {counted(results, 'result')}: a user has paused it, and its sources give no rows.", ""
    if now == "finished":
        took = "" if run.began is None or run.ended is None else f" after {seconds(run.ended - run.began)}"
        late = [flow.missed_share for flow in flows if flow.missed_share is not None]
        dropped = max((flow.dropped for flow in flows), default=0)
        how = f"later than its limit or dropped ({counted(dropped, 'tuple')})" if dropped else "later than its limit"
        missed = f", {share(max(late))} {how}" if late else ""
        return f"Every stream has ended{took}: {counted(results, 'result')}{missed}.", ""
    needed = run.peers | (run.lost if _short(run) else set())  # lost peers matter until others have replaced them
    missing = _missing(readings, [peer for peer in shown_peers(readings) if peer.address in needed])
    short = _short(run)
    if missing:
        return f"{missing}{f'; {short}' if short else ''}.", "bad"
    if short:
        return f"{short[0].upper()}{short[1:]}.", "bad"
    measured = [flow for flow in flows if flow.p99 is not None]
    if not measured:
        dropped = max((flow.dropped for flow in flows), default=0)
        if dropped:
            return f"No results yet: {counted(dropped, 'tuple')} dropped, as their deadline had passed.", "bad"
        return "No result has arrived yet.", "note"
    worst = max(measured, key=lambda flow: (flow.p99 or 0.0) / flow.limit if flow.limit else 0.0)
    last = f"of the last results at {worst.sink}" if len(flows) > 1 else "of the last results"
    if worst.limit is None:
        return f"99 % {last} took at most {seconds(worst.p99)}; the plan states no limit.", ""
    limit = seconds(worst.limit)
    if worst.within:
        return f"Within its limit: 99 % {last} took at most {seconds(worst.p99)} of {limit}{_hot(readings, run)}.", ""
    allowed = _requirements(run, plan).get("miss_rate", 0.0)
    how = f"took longer than {limit}{' or were dropped' if worst.dropped else ''}"
    if worst.miss is not None and worst.miss <= allowed:
        return f"{share(worst.miss)} {last} {how}; {share(allowed)} may.", ""
    return f"Too late: {share(worst.miss)} {last} {how}.", "bad"


def _stalled(readings: JournalSeries, run: LatestRun) -> str:
    """Sentences about what the application waits for; those in which nothing moves come first."""
    found = stalls(readings.waits, readings.now, run.application)
    return "".join(f" {str(each)[0].upper()}{named(readings, str(each)[1:])}." for each in found[:STALLS])


def _hot(readings: JournalSeries, run: LatestRun) -> str:
    """A clause about the operators without slack."""
    hot = [each for each in readings.components.values() if each.application == run.application and each.hot]
    names = ", ".join(f"{each.operator} at {readings.name(each.peer)}" for each in hot)
    return f"; no slack is left at {names}" if hot else ""


def _short(run: LatestRun) -> str:
    """A sentence about the operators with fewer replicas than requested."""
    found = []
    for asked, text in (
        (run.replication.active, "active replicas were asked for"),
        (run.replication.placed_replicas, "replicas were placed"),
    ):
        for number in sorted(set(asked.values())):
            left = {name: count for name, count in run.left.items() if asked.get(name) == number}
            found += [f"{number} {text}, {counts(left)}"] if left else []
    return "; ".join(found)


def _backed_up(run: LatestRun) -> list[str]:
    """How many replicas the operators with backups have."""
    by_number: dict[int, list[str]] = {}
    for name, number in run.replication.placed_replicas.items():
        by_number.setdefault(number, []).append(name)
    if len(by_number) == 1 and not run.replication.active:
        return [f"{number} replicas of each operator between sources and sinks" for number in by_number if number > 1]
    return [f"{number} replicas of {', '.join(names)}" for number, names in by_number.items() if number > 1]


def _active(run: LatestRun) -> list[str]:
    """How many active replicas of each operator run, and what they are expected to cost."""
    by_number: dict[tuple[int, int], list[str]] = {}
    for name, count in run.running_replicas.items():
        by_number.setdefault((count, run.replication.active[name]), []).append(name)
    facts = [f"{count} of {asked} active replicas of {', '.join(names)}" for (count, asked), names in by_number.items()]
    if run.replication.active and run.replication.times_cost is not None:
        facts.append(f"network cost {run.replication.times_cost:.3g} times that without replicas")
    weighed = run.replication.weighed
    if weighed is not None and weighed.whole:
        target = "" if weighed.bound is None else f", target θ {share(weighed.bound / weighed.whole)}"
        facts.append(f"{share(weighed.cost / weighed.whole)} of the cost of all streams{target}")
    if run.discarded:
        facts.append(f"{counted(len(run.discarded), 'stream')} discarded")
    return facts


def _marks(readings: JournalSeries) -> list[dict[str, Any]]:
    """Events of the shown applications, the latest last."""
    runs = shown_runs(readings)
    several = readings.application is None
    marks = []
    for run in runs:
        title = f"{run.asked.plan or run.application}: " if several else ""
        since = run.began or run.asked.submitted or readings.first
        for mark in run.marks:
            label, text = named(readings, mark.label), named(readings, mark.text)
            after = seconds(mark.time - since) if mark.time > since else ""
            marks.append({"at": mark.time, "tone": mark.tone, "label": label, "text": f"{title}{text}", "after": after})
    return sorted(marks, key=lambda mark: float(mark["at"]))


def _troubles(readings: JournalSeries) -> list[dict[str, Any]]:
    """Errors of peers, the latest first; for an application, the errors of its peers since its submission.

    That links to a dead peer broke says no more than its death.
    """
    dead = {address for address, peer in readings.peers.items() if peer.dead}
    since, peers = float("-inf"), None
    if readings.application is not None:
        run = readings.run(readings.application)
        since, peers = run.asked.submitted or run.began or since, run.peers | run.lost
    found = []
    for each in reversed(readings.troubles.values()):
        if each.last < since or each.link in dead or (peers is not None and peers.isdisjoint(each.peers)):
            continue
        names = {peer: readings.name(peer) for peer in each.peers}
        found.append(
            {
                "text": named(readings, each.text),
                "peers": observers(each.peers, names),
                "count": "" if each.times == len(each.peers) else f"{each.times} times",
            }
        )
    return found[:WORST]


def _missing(readings: JournalSeries, peers: list[LatestPeer]) -> str:
    """A sentence about the peers that have died, and those that do not answer."""
    dead = [readings.name(peer.address) for peer in peers if peer.dead]
    silent = [readings.name(peer.address) for peer in peers if peer.silent and not peer.dead]
    clauses = [f"{', '.join(dead)} died"] if dead else []
    if silent:
        clauses.append(f"{', '.join(silent)} {'does' if len(silent) == 1 else 'do'} not answer")
    return ", ".join(clauses)


def _recovered(readings: JournalSeries, run: LatestRun) -> str:
    """A sentence about the peers that have died and that it no longer needs; empty without any."""
    dead = [readings.name(address) for address in run.lost - run.peers]
    return f" {', '.join(sorted(dead, key=by_name))} died; other peers do its work." if dead else ""


def _requirements(run: LatestRun, plan: Plan | None) -> dict[str, float]:
    """QoS requirement Q_ξ: from the journal, or from the plan if the journal has discarded its beginning."""
    if run.asked.qos or plan is None:
        return run.asked.qos
    return plan.qos.numbers


def _cluster(
    readings: JournalSeries, going: list[LatestRun], flows: list[LatestFlow], peers: list[LatestPeer]
) -> tuple[str, str, str, str]:
    needed = set[str]().union(*(run.peers for run in going))
    gone = [peer for peer in peers if peer.gone]
    needless = [] if any(peer.silent or peer.address in needed for peer in gone) else gone
    late = [flow for flow in flows if flow.within is False]
    named = {run.application for run in going}
    late = [flow for flow in late if flow.application in named and not flow.finished]
    running = (
        f"{counted(len(going), 'application')} {'runs' if len(going) == 1 else 'run'}" if going else "nothing runs"
    )
    if not peers:
        return "○", "waiting", "note", "No peer has recorded an event yet."
    if readings.closed:
        return "■", "closed", "note", "The cluster has been closed."
    if gone and not (needless and going):
        return "▲", "peers missing", "bad", f"{_missing(readings, peers)}; {running}."
    if late:
        which = ", ".join(dict.fromkeys(readings.run(flow.application).asked.plan or flow.application for flow in late))
        return "▲", "late", "bad", f"{running}; later than its limit: {which}."
    if not going:
        return "○", "idle", "note", "No application runs."
    without = f"; {_missing(readings, needless)}, and other peers do the work" if needless else ""
    return "●", "running", "good", f"{running}, each within its limit{without}."


def _flow(readings: JournalSeries, flow: LatestFlow, plan: Plan | None, *, many: bool) -> dict[str, Any]:
    run = readings.run(flow.application)
    now = status(readings, run)[0]
    glyph, word, _ = _STATUS[now]
    within = flow.within
    qos = _requirements(run, plan)
    allowed_miss, required_rate = qos.get("miss_rate"), qos.get("throughput_tuples")
    miss_met = None if allowed_miss is None or flow.miss is None else flow.miss <= allowed_miss
    broken = "" if within is not False else "exceeded" if miss_met else "broken"
    rate_met = None if required_rate is None or flow.rate is None or now in ENDED else flow.rate >= required_rate
    title = run.asked.plan or flow.application
    dropped = f", {counted(flow.dropped, 'tuple')} dropped" if flow.dropped else ""
    label = flow.sink if readings.application is not None else f"{title} {flow.sink}".removesuffix(" sink")
    return {
        "label": label if many else "",
        "application": flow.application,
        "id": f"{flow.application}/{flow.sink}",
        "glyph": glyph,
        "status": word,
        "p50": seconds(flow.p50),
        "p99": seconds(flow.p99),
        "limit": seconds(flow.limit) if flow.limit is not None else "",
        "delay_met": within,
        "broken": broken,
        "rate": rate(flow.rate),
        "required_rate": rate(required_rate) if required_rate is not None else "",
        "rate_met": rate_met,
        "miss": share(flow.miss),
        "allowed_miss": share(allowed_miss) if allowed_miss is not None else "",
        "miss_met": miss_met,
        "missed": f"{share(flow.missed_share)}{dropped}",
        "tuples": f"{counted(flow.tuples, 'result')}{dropped}",
        "limits": {"delay": flow.limit, "miss": allowed_miss, "rate": required_rate},
    }


def _difference(readings: JournalSeries, peer: LatestPeer) -> str:
    """Why a peer uses much more than was promised; empty if it does not."""
    load = peer.load
    if load is None or peer.gone or load - peer.promised < APART:
        return ""
    running = [each.stats.load for each in readings.components.values()
               if each.peer == peer.address and each.deployed and each.stats is not None]  # fmt: skip
    work = sum(running) / peer.cores
    name = readings.name(peer.address)
    parts = f"{name} uses {load * 100:.0f} %, and {peer.promised * 100:.0f} % are promised: its operators use "
    if work - peer.promised >= APART:
        return f"{parts}{work * 100:.0f} %, more than was reserved, as their rates or costs are higher than expected."
    return f"{parts}{work * 100:.0f} %; the rest is work of the peer itself, such as messages and loading code."


def _tell_apart(flows: list[dict[str, Any]]) -> None:
    """Add its application's id to each sink that has the same label as another one."""
    labels = Counter(flow["label"] for flow in flows)
    for flow in flows:
        if flow["label"] and labels[flow["label"]] > 1:
            flow["label"] = f"{flow['label']} ({flow['application']})"


def _peer(readings: JournalSeries, peer: LatestPeer, rank: int) -> dict[str, Any]:
    load = peer.load
    if peer.dead:
        load_text = "dead"
    elif peer.silent:
        load_text = "does not answer"
    elif load is None:
        load_text = "not measured yet"
    else:
        load_text = f"{load * 100:.0f} %"
    return {
        "name": readings.name(peer.address),
        "id": peer.address,
        "rank": rank,
        "gone": peer.gone,
        "load": None if load is None or peer.gone else round(load, 3),
        "promised": None if peer.gone or not peer.cores else round(peer.promised, 3),
        "predicted": None if peer.gone or peer.predicted_load is None else round(peer.predicted_load, 3),
        "overloaded": peer.overloaded and not peer.gone,
        "load_text": load_text,
        "cores": "" if peer.gone or not peer.cores else f"of {counted(peer.cores, 'core')}",
        "promised_text": "" if peer.gone or not peer.cores else f"{peer.promised * 100:.0f} %",
        "memory": "" if peer.gone or not peer.memory else f"{peer.memory / 2**20:,.0f} MiB",
    }
