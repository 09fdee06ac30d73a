"""The state of each component of an application, in words: its peer, state and load.

A component may be an operator on a peer, a part of the plan on Spark, which represents several operators, or the
stream of another application, which represents all operators that produce the stream there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from synergy_nb.events import ComponentMeasurements
from synergy_nb.events.application_states import ENDED
from synergy_nb.events.peer_names import readable
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicated
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import DISCIPLINE_NAMES, off, rate, seconds, share, size
from synergy_nb.reporting.stalls import wait_text
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._latest_values import LatestComponent, LatestRun

#: Words for a component in each of its states.
STATES: Final = {
    "waiting": "waiting",
    "running": "running",
    "shared": "shared",
    "overloaded": "overloaded",
    "failed": "failed",
    "dead": "peer dead",
    "stopped": "ended",
}
BEHIND: Final = 1.0  # waiting input, in seconds of its input rate, from which on a component counts as overloaded


def named(readings: JournalSeries, text: str) -> str:
    """A text in which names of peers replace their addresses."""
    names = {address: readings.name(address) for address in (*readings.peers, *readings.names)}
    return readable(text, {f"peer {address}": name for address, name in names.items()} | names)


def drawn_plan(readings: JournalSeries, plan: Plan) -> Plan:
    """The plan that the view of an application draws: with its active replicas, also those that were lost."""
    run = readings.runs.get(readings.application or "")
    if run is None or not run.replication.active:
        return plan
    degrees: dict[str, int] = {}
    for name in (*run.roles.peers, *run.lost_replicas):
        number = int(name.removeprefix(f"{original(name)}~")) if name != original(name) else 0
        degrees[original(name)] = max(degrees.get(original(name), 1), number + 1)
    return replicated(plan, degrees) if max(degrees.values(), default=1) > 1 else plan


def status(readings: JournalSeries, run: LatestRun) -> tuple[str, str]:
    """Status of an application, and why, addresses replaced by names.

    If the origin is silent, the application waits for it; once a peer has left it because of that, it counts as failed,
    since the origin can no longer report it.
    """
    if run.status not in ENDED and run.origin and readings.peer(run.origin).dead:
        origin = readings.name(run.origin)
        return (
            ("failed", f"its origin {origin} died") if run.orphaned else ("paused", f"waiting for its origin {origin}")
        )
    return run.status, named(readings, run.reason)


def state(readings: JournalSeries, component: LatestComponent) -> str:
    """State of a component: one of :data:`STATES`."""
    run = readings.run(component.application)
    if component.failure is not None:
        return "failed"
    if component.operator in run.lost_replicas:
        return "dead"
    if readings.peer(component.peer).gone:
        return "dead"
    now = status(readings, run)[0]
    if now in ENDED:
        return "stopped"
    if now != "running" or not (component.deployed or component.operator in run.sharing.shared):  # nobody deploys a tap
        return "waiting"
    stats = component.stats
    behind = stats is not None and stats.queue_tuples > max(BEHIND * stats.rate, 1.0)
    return "overloaded" if behind else "running"


def pieces_of(
    readings: JournalSeries, run: LatestRun, components: Iterable[LatestComponent], plan: Plan | None
) -> dict[str, dict[str, Any]]:
    """The pieces of all ``components`` of an application, by ``part:application/operator``."""
    pieces: dict[str, dict[str, Any]] = {}
    for component in components:
        if not run.roles.peers or component.operator in run.roles.peers or component.operator in run.lost_replicas:
            pieces |= _of_component(readings, component, run.engines.parts.get(component.operator))
    if readings.application is not None and run.sharing.shared and plan is not None:
        for tap in run.sharing.shared:
            for operator in _above(plan, tap):
                name = f"part:{run.application}/{operator}"
                if name not in pieces:
                    pieces[name] = _shared_piece(readings, run, tap, operator)
    return pieces


def _above(plan: Plan, tap: str) -> list[str]:
    """All operators that produce the stream of a tap."""
    found: list[str] = []
    waiting = list(plan.upstream(tap)) if tap in plan.operators else []
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting.extend(plan.upstream(name))
    return found


def _shared_piece(readings: JournalSeries, run: LatestRun, tap: str, operator: str) -> dict[str, Any]:
    """The piece of an operator that the application need not execute, because another one makes its stream."""
    of = run.sharing.shared[tap][0]
    exact = [peer for _, name, peer in run.sharing.producers.get(tap, ()) if name == operator]
    peers = exact[:1] or sorted({peer for _, _, peer in run.sharing.producers.get(tap, ())})
    on = ", ".join(readings.name(peer) for peer in peers)
    ended = status(readings, run)[0] in ENDED
    return {
        "application": run.application,
        "title": run.asked.plan or run.application,
        "operator": operator,
        "peer": peers[0] if len(peers) == 1 else "",
        "on": on or "another application",
        "state": "stopped" if ended else "shared",
        "state_text": STATES["stopped"] if ended else f"within {of}",
        "rate": "",
        "memory": "",
        "tip": f"{of} executes it; this application uses the stream of {tap} that comes of it",
    }


def _of_component(
    readings: JournalSeries, component: LatestComponent, members: list[str] | None
) -> dict[str, dict[str, Any]]:
    """The piece of a component; of a part on Spark, one of each of its operators, or of a cluster one for all."""
    piece = _part(readings, component)
    if members is None:
        return {f"part:{component.application}/{component.operator}": piece}
    if readings.application is None:
        label = (
            f"{component.operator}, {len(members)} on Spark" if len(members) > 1 else f"{component.operator} on Spark"
        )
        return {f"part:{component.application}/{component.operator}": {**piece, "operator": label}}
    piece["on"] = f"{piece['on']}, Spark"
    inside = {**piece, "rate": "", "memory": ""}  # Spark does not report the streams between its operators
    return {
        f"part:{component.application}/{each}": {**(piece if each == component.operator else inside), "operator": each}
        for each in members
    }


def _part(readings: JournalSeries, component: LatestComponent) -> dict[str, Any]:
    now = state(readings, component)
    stats = component.stats if now in ("running", "overloaded") else None
    memory = _memory(stats) if stats is not None else ""
    lines = []
    if stats is not None:
        lines = [
            f"{rate(stats.rate)} in, {rate(stats.output_rate)} out",
            f"load {share(stats.load)} of a core, {seconds(stats.processing_s)} a tuple",
            f"{counted(stats.queue_tuples, 'tuple')} waiting, {seconds(stats.queueing_s)} in the queue",
        ]
        lines += _predicted(component, stats)
        if component.discipline:
            lines.append(f"executed {DISCIPLINE_NAMES[component.discipline]}")
        if memory:
            lines.append(f"{memory} held")
        if stats.late:
            lines.append(f"{counted(stats.late, 'tuple')} came too late")
        if stats.dropped:
            lines.append(f"{counted(stats.dropped, 'tuple')} dropped, as their deadline had passed")
    waits = readings.waits.found.get((component.application, component.operator))
    if stats is not None and waits is not None:
        lines.insert(0, named(readings, wait_text(waits)))
    if component.failure:
        lines.append(component.failure)
    if component.moving:
        lines.insert(0, f"moving to {readings.name(component.moving)}")
    run = readings.run(component.application)
    state_text, on = STATES[now], readings.name(component.peer)
    name, running = original(component.operator), run.running_replicas
    if name in running:
        lines.append(f"active replicas of {name}: {running[name]} of {run.replication.active[name]} run")
    shares = component.first_shares() if stats is not None else {}
    if len(shares) > 1:
        lines.append(f"first: {', '.join(f'{each} {share(part)}' for each, part in sorted(shares.items()))}")
    if component.operator in run.lost_replicas and now == "dead":
        state_text = "replica lost"
        lines.append(f"lost: {named(readings, run.lost_replicas[component.operator][1])}")
    if component.operator in run.sharing.shared:
        of, other = run.sharing.shared[component.operator]
        lines.insert(0, f"uses the stream of {other}, which {of} executes")
        if now == "running":
            now, state_text = "shared", f"from {of}"
    keeping = [readings.name(peer) for peer in run.roles.backups.get(component.operator, ()) if peer not in run.lost]
    if keeping:
        lines.append(f"backup on {', '.join(keeping)}")
        on = f"{on} + {keeping[0] if len(keeping) == 1 else counted(len(keeping), 'backup')}"
    elif component.operator in run.replication.placed_replicas and component.operator in run.left:
        lines.append(f"no backup is left; {run.replication.placed_replicas[component.operator]} replicas were placed")
    busiest = max(stats.rate, stats.output_rate) if stats is not None else None
    return {
        "application": component.application,
        "title": run.asked.plan or component.application,
        "operator": component.operator,
        "replica_of": name if name != component.operator else "",
        "peer": component.peer,
        "on": on,
        "state": now,
        "state_text": state_text,
        "rate": rate(busiest) if busiest is not None else "",
        "memory": memory,
        "tip": "\n".join(lines),
        "moving": f"moving to {readings.name(component.moving)}" if component.moving else "",
        "slack": _slack(component, stats),
    }


def _predicted(component: LatestComponent, stats: ComponentMeasurements) -> list[str]:
    """Lines about the slack of a component and its predictions."""
    lines = []
    if stats.predicted_s is not None:
        lines.append(f"{seconds(stats.predicted_s)} predicted, {seconds(_measured_s(stats))} measured")
    if stats.prediction_off is not None:
        lines.append(f"predicted times are off: {off(stats.prediction_off)}")
    if stats.predicted_rate is not None:
        lines.append(f"{rate(stats.predicted_rate)} predicted in")
    if stats.slack is not None:
        lines.append(f"slack {seconds(stats.slack)}, {seconds(component.least_slack)} at least")
    return lines


def _measured_s(stats: ComponentMeasurements) -> float:
    """Measured execution time t_e of a component, seconds: the one that is also predicted, else queue and work."""
    if stats.measured_s is not None:
        return stats.measured_s
    return stats.queueing_s + stats.processing_s


def _slack(component: LatestComponent, stats: ComponentMeasurements | None) -> dict[str, Any] | None:
    """Slack of a component, and its predictions beside the measurements, in words; None if they are not known."""
    if stats is None or stats.slack is None:
        return None
    return {
        "now": seconds(stats.slack),
        "least": seconds(component.least_slack),
        "used_up": stats.slack <= 0.0,
        "was_used_up": component.least_slack is not None and component.least_slack <= 0.0,
        "measured_time": seconds(_measured_s(stats)),
        "predicted_time": f"{'off ' if stats.prediction_off is not None else ''}{seconds(stats.predicted_s)}",
        "off": off(stats.prediction_off),
        "measured_rate": rate(stats.rate),
        "predicted_rate": rate(stats.predicted_rate),
    }


def _memory(stats: ComponentMeasurements) -> str:
    """The memory of a component and its share; empty if it holds nothing."""
    held, most = stats.memory_bytes, stats.memory_share
    if not held:
        return ""
    return f"{size(held)} of memory" if most is None else f"{size(held)} of its {size(most)} of memory"
