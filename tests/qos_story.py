"""Journals of applications that never ran, with the events that peers and sinks would have recorded every second."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from synergy_nb import source
from synergy_nb.events import (
    ActiveReplicasLost,
    ApplicationRunning,
    ComponentDeployed,
    ComponentMeasurements,
    ComponentMoved,
    Event,
    GraphSelected,
    HotSpotDetected,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
    MoveBegun,
    PeerDeclaredDead,
    PeerMeasured,
    PeerOverloaded,
    PeerStarted,
    PlacementCompleted,
    ReplicasDeployed,
    ReplicasLost,
    RequestSubmitted,
    SinkMeasured,
    StreamRevived,
    StreamsDiscarded,
    StreamsWeighed,
    TakenOver,
    TakeoverBegun,
)
from synergy_nb.events.journal import Journal
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import replicated as replicated_plan

__all__ = [
    "NAMES",
    "PEERS",
    "START",
    "actively_replicated",
    "filtered",
    "measured",
    "qos",
    "relieved",
    "replicated",
    "story",
    "top_pairs",
    "weighed_streams",
]

PEERS = tuple(f"tcp://10.0.0.{number}:7000" for number in range(1, 6))
NAMES = {address: f"peer-{number}" for number, address in enumerate(PEERS, start=1)}
START = 1000.0  # when the application begins to run


def top_pairs() -> Plan:
    """Seven operators, in two branches that meet."""
    traffic = source("packets", seed=1).filter("link = 'B' AND bytes < 1500").aggregate(
        by=["source"], window="1 s", total="sum(bytes)"
    )  # fmt: skip
    top = traffic.sort("total desc").compare("total", "95 %", count=traffic.count())
    return top.sink("top pairs", delay="1 s", miss_rate="5 %")


def qos(time: float, p50: float | None, p99: float | None, tuples: int, **others: Any) -> Event:
    """What a sink writes at every measurement; ``tuples`` are all so far."""
    fields: dict[str, Any] = {
        "operator": "sink",
        "delay_p50_s": p50,
        "delay_p95_s": p99,
        "delay_p99_s": p99,
        "delay_mean_s": p50,
        "delay_max_s": p99,
        "miss_rate": None if p50 is None else 0.0,
        "limit_s": 1.0,
        "tuples_per_s": 200.0,
        "bytes_per_s": 9600.0,
        "tuples": tuples,
        "finished": False,
    }
    application = others.pop("application", "top-1")
    return SinkMeasured(time, PEERS[0], application, **{**fields, **others})


def measured(
    time: float,
    peer: str,
    cpu: float = 0.1,
    promised: float = 0.3,
    components: Sequence[Mapping[str, Any]] = (),
) -> Event:
    """What a peer of half a core writes every second."""
    fields: dict[str, Any] = {
        "application": "top-1",
        "kind": "filter",
        "rate": 100.0,
        "output_rate": 50.0,
        "load": 0.02,
        "processing_s": 2e-6,
        "queueing_s": 4e-4,
        "queue_tuples": 3,
        "memory_bytes": 0,
        "memory_share": None,
        "late": 0,
    }
    stats = [ComponentMeasurements(**{**fields, **component}) for component in components]
    return PeerMeasured(time, peer, "", cpu=cpu, memory=170 << 20, cores=0.5, promised=promised, components=stats)


def story(seconds: int = 60, *, journal: Journal | None = None, application: str = "top-1", seed: int = 1) -> Journal:
    """One application of :func:`top_pairs` that runs for a while on five peers, two measurements a second."""
    rng = random.Random(seed)
    journal = journal if journal is not None else Journal(1_000_000)
    operators = list(top_pairs().operators)
    graph = {operator: PEERS[number % len(PEERS)] for number, operator in enumerate(operators)}
    for address in PEERS:
        journal.append(PeerStarted(START - 5, address, address, name=NAMES[address]))
    asked = {"delay": 1.0, "miss_rate": 0.05}
    journal.append(
        RequestSubmitted(START - 0.2, PEERS[0], application, plan="top pairs", operators=operators, qos=asked)
    )
    journal.append(GraphSelected(START - 0.1, PEERS[0], application, peers=graph, phi=0.1, delay_s=0.005))
    for operator, address in graph.items():
        journal.append(ComponentDeployed(START - 0.05, address, application, operator=operator))
    journal.append(ApplicationRunning(START, PEERS[0], application, peers=graph))
    total = 0
    for half in range(1, 2 * seconds + 1):
        time = START + half / 2
        delay = 0.012 * math.exp(rng.gauss(0, 0.15))
        total += 100
        journal.append(qos(time, delay, 2.5 * delay, total, application=application))
        if half % 2 == 0:
            for address in PEERS:
                own = [{"application": application, "operator": name} for name, at in graph.items() if at == address]
                journal.append(measured(time, address, rng.uniform(0.05, 0.2), components=own))
    return journal


def relieved(seconds: int = 30) -> Journal:
    """A hot spot of the filter half-way: its peer asks two others, the second of which takes the filter over."""
    journal = Journal(1_000_000)
    operators = list(top_pairs().operators)
    graph = {operator: PEERS[number % len(PEERS)] for number, operator in enumerate(operators)}
    hot, refusing, target = graph["filter"], PEERS[2], PEERS[4]
    at, cause = START + seconds / 2, ("top-1", "filter")
    moved = {**graph, "filter": target}
    told: list[Event] = [
        PeerOverloaded(at, hot, "", load=0.9, predicted_load=1.3, overloaded=True),
        HotSpotDetected(
            at, hot, "top-1", operator="filter", slack=-0.04, age=0.01, predicted=0.93, measured=0.05,
            basis="growing backlog", intercept=0.0, slope=0.0, error=-1.0, departure_limit=0.9, rate=1200.0,
            predicted_rate=2400.0, tuples=60, seconds=1.0, excesses={"top-1/filter": 0.93},
        ),
        MigrationDecided(
            at + 0.01, hot, "top-1", operator="filter", cause=cause, selected=["top-1/filter"], rate=2600.0,
            remaining_rate=200.0, slacks={}, candidates=[refusing, target], loads={refusing: 0.4}, act=True,
        ),
        MigrationAnswered(
            at + 0.1, hot, "top-1", operator="filter", cause=cause, target=refusing, accepted=False,
            reason="its utilisation would be 1.20", seconds=0.09,
        ),
        MigrationAnswered(at + 0.2, hot, "top-1", "filter", cause, target, accepted=True, reason="", seconds=0.19),
        MoveBegun(at + 0.25, PEERS[0], "top-1", operator="filter", at=hot, to=target, epoch=1),
        ComponentDeployed(at + 0.3, target, "top-1", operator="filter"),
        ComponentMoved(at + 0.6, PEERS[0], "top-1", operator="filter", at=hot, to=target, seconds=0.35, peers=moved),
        MigrationEnded(at + 0.6, hot, "top-1", operator="filter", cause=cause, target=target, failure="", seconds=0.59),
    ]  # fmt: skip
    written = [_with_slack(event, hot, target, at) for event in story(seconds)]
    for event in sorted((*written, *told), key=lambda event: event.time):
        journal.append(event)
    return journal


def _with_slack(event: Event, hot: str, target: str, at: float) -> Event:
    """Measurements of a peer with slack and predictions; the filter is at another peer from ``at`` on."""
    if not isinstance(event, PeerMeasured):
        return event
    components = list(event.components)
    if event.time > at + 0.6:
        components = [each for each in components if each.operator != "filter"]
        if event.peer == target:
            numbers = (1200.0, 600.0, 0.02, 2e-6, 4e-4, 3, 0, None, 0)
            components.append(ComponentMeasurements("top-1", "filter", "filter", *numbers))
    components = [_slackened(each, event.time, at) for each in components]
    return msgspec.structs.replace(event, components=components, predicted_load=1.3 if event.peer == hot else 0.2)


def _slackened(stats: ComponentMeasurements, time: float, at: float) -> ComponentMeasurements:
    """Measurements with a slack, which of the filter ends at a time, and recovers two seconds later."""
    hot = stats.operator == "filter" and at - 1 <= time < at + 2
    slack = -0.04 if hot else 0.6 + 0.02 * len(stats.operator)
    return msgspec.structs.replace(
        stats, slack=slack, predicted_s=0.93 if hot else 5e-4, predicted_rate=2400.0 if hot else 110.0
    )


def replicated(seconds: int = 10) -> Journal:
    """The same with a backup of each operator; half-way the peer of the filter dies, and its backup takes over."""
    journal = Journal(1_000_000)
    graph = {operator: PEERS[number % len(PEERS)] for number, operator in enumerate(top_pairs().operators)}
    graph["sink"] = PEERS[0]
    copy_holders = {"filter": 3, "aggregate": 1, "sort": 4, "count": 0, "compare": 2}
    backups = {name: [PEERS[keeper]] for name, keeper in copy_holders.items()}
    death = START + seconds / 2
    placed = PlacementCompleted(
        START - 0.15, PEERS[0], "top-1", attempt=1, degree=2, primaries=graph, backups=backups, availability=0.999
    )
    told: list[Event] = [
        placed,
        PeerDeclaredDead(death, PEERS[0], graph["filter"], incarnation=0),
        ReplicasLost(death, PEERS[0], "top-1", at=graph["filter"], replicas={}),
    ]
    moved = {**graph, "filter": backups["filter"][0]}
    left = {**backups, "filter": [], "aggregate": []}
    taking = {"filter": moved["filter"]}
    told.append(TakeoverBegun(death, PEERS[0], "top-1", dead=graph["filter"], operators=taking, epoch=1))
    told.append(ComponentDeployed(death + 0.2, moved["filter"], "top-1", operator="filter"))
    told.append(TakenOver(death + 0.3, PEERS[0], "top-1", peers=moved, backups=left, epoch=1))
    written = [event for event in story(seconds) if event.time < death or event.peer != graph["filter"]]
    written = [event for event in written if not isinstance(event, GraphSelected)]  # it was placed, not composed
    for event in sorted((*written, *told), key=lambda event: event.time):
        if isinstance(event, ApplicationRunning | TakenOver):
            journal.append(msgspec.structs.replace(event, peers={**event.peers, "sink": PEERS[0]}))
        else:
            journal.append(event)
    return journal


def actively_replicated(seconds: int = 10) -> Journal:
    """A filter and its successor with three active replicas; half-way a peer dies, and a replica elsewhere fails."""
    journal = Journal(1_000_000)
    middle = START + seconds / 2
    plan = filtered()
    expanded = replicated_plan(plan, 3)
    where = {
        name: PEERS[1 + int(name[-1])] if "~" in name else PEERS[0] for name in expanded.operators
    } | {"filter": PEERS[1], "project": PEERS[1]}  # fmt: skip
    for address in PEERS:
        journal.append(PeerStarted(START - 5, address, address, name=NAMES[address]))
    asked = {"delay": 1.0, "active": 3.0}
    operators = list(plan.operators)
    journal.append(RequestSubmitted(START - 0.2, PEERS[0], "top-1", plan="busy", operators=operators, qos=asked))
    placed = {name: [where[name], where[f"{name}~1"], where[f"{name}~2"]] for name in ("filter", "project")}
    journal.append(
        ReplicasDeployed(
            START - 0.1, PEERS[0], "top-1", replicas=placed, degrees=dict.fromkeys(placed, 3), distance_s=None,
            cost=44.0, cost_alone=8.0, bandwidth=28800.0, bandwidth_alone=6400.0,
        )
    )  # fmt: skip
    journal.append(GraphSelected(START - 0.1, PEERS[0], "top-1", peers=where, phi=0.1, delay_s=0.005))
    for operator, address in where.items():
        journal.append(ComponentDeployed(START - 0.05, address, "top-1", operator=operator))
    journal.append(ApplicationRunning(START, PEERS[0], "top-1", peers=where))
    for second in range(1, seconds + 1):
        time = START + second
        journal.append(qos(time, 0.012, 0.03, 100 * second))
        if time == middle:
            journal.append(PeerDeclaredDead(time, PEERS[0], PEERS[1], incarnation=0))
            journal.append(
                ActiveReplicasLost(
                    time, PEERS[0], "top-1", at=PEERS[1], operators=["filter", "project"],
                    left={"filter": 2, "project": 2}, reason=f"peer {PEERS[1]} died",
                )
            )  # fmt: skip
            journal.append(
                ActiveReplicasLost(
                    time, PEERS[0], "top-1", at=PEERS[3], operators=["project~2"], left={"project": 1},
                    reason="out of memory",
                )
            )  # fmt: skip
    return journal


def filtered() -> Plan:
    """A filter and a projection, each with three active replicas."""
    stream = source("packets", seed=1).filter("link = 'B'").project("bytes")
    return stream.sink("busy", delay="1 s", availability="active 3")


def weighed_streams() -> Journal:
    """The same, with measurements of who was first, utilities, and two streams that are discarded, one for a while."""
    journal, origin = actively_replicated(), PEERS[0]

    def counted(time: float, counts: dict[str, int]) -> None:
        of_sink = ComponentMeasurements("top-1", "sink", "sink", 9.0, 9.0, 0.1, 0.0, 0.0, 0, 0, None, 0, firsts=counts)
        journal.append(PeerMeasured(time, origin, "", cpu=0.1, memory=1, cores=1.0, promised=0.1, components=[of_sink]))

    counted(START + 11, {"project": 900, "project~1": 100})
    counted(START + 31, {"project": 930, "project~1": 170})
    streams = [("project", "sink", 0.3, 2e3), ("project~1", "sink", 0.7, 1e3)]
    journal.append(StreamsWeighed(START + 31, origin, "top-1", streams=streams, cost=3e3, whole=6e3, bound=2.4e3))
    gone = [("filter", "project~1"), ("filter~2", "project")]
    journal.append(
        StreamsDiscarded(
            START + 32, origin, "top-1", streams=gone, ended=[], cost=3e3, left=2e3, bound=2.4e3, utility=0.1
        )
    )
    journal.append(StreamRevived(START + 33, origin, "top-1", producer="filter", reader="project~1", delay=12.0))
    return journal
