"""Traces whose rate rises, replayed until a component has moved, or would have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl

from synergy_nb import Application, Cluster, Plan, Simulation, source
from synergy_nb.events import (
    Event,
    HotSpotDetected,
    HotSpotDismissed,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
    MigrationProjected,
)
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.simulated_application import SimulatedApplication
from tests.waiting import asked_until

E = TypeVar("E", bound=Event)


EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times carry no zone


ORIGIN: Final = "peer-1"  # executes all sources and sinks


COST: Final = "2 ms"  # of a tuple: a peer executes less than 500 of them a second
LIMIT: Final = "1500 ms"
STEADY: Final = [(120.0, 200.0)]  # seconds and tuples/s
RISING: Final = [(4.0, 100.0), (116.0, 400.0)]


MIGRATION: Final = (
    HotSpotDetected, HotSpotDismissed, MigrationAnswered, MigrationDecided, MigrationEnded, MigrationProjected
)  # fmt: skip


def written(path: Path, rates: Sequence[tuple[float, float]], speed: float = 1.0) -> pl.DataFrame:
    """Write a trace whose tuples come at these rates (seconds, tuples/s) if it is replayed at a speed."""
    times: list[float] = []
    begin = 0.0
    for seconds, rate in rates:
        times += [begin + number / rate for number in range(round(seconds * rate))]
        begin += seconds
    table = pl.DataFrame(
        {
            "time": [EPOCH + dt.timedelta(seconds=each * speed) for each in times],
            "v": range(len(times)),
            "link": ["AB"[number % 2] for number in range(len(times))],
            "source": [number * number % 17 for number in range(len(times))],
            "destination": [number * 7 % 11 for number in range(len(times))],
            "bytes": [40 + number * 7919 % 1460 for number in range(len(times))],
        },
        schema_overrides={"time": pl.Datetime("us")},
    )
    table.write_parquet(path)
    return table


def replayed(path: Path, rates: Sequence[tuple[float, float]], speed: float = 1.0) -> Stream:
    """The stream of a trace, of which peers know the first rate only."""
    columns = {"v": "int", "link": "str", "source": "int", "destination": "int", "bytes": "int"}
    return source(
        "trace", path=str(path), format="parquet", columns=columns, speed=speed, rate=rates[0][1], id="rows", at=ORIGIN
    )  # fmt: skip


def journaled(cluster: Cluster | Simulation, kind: type[E]) -> list[E]:
    return [event for event in cluster.events() if isinstance(event, kind)]


def until_moved(cluster: Cluster, application: Application) -> None:
    """Wait until the peers themselves have moved a component of an application."""

    def moved() -> bool:
        ended = journaled(cluster, MigrationEnded)
        return any(each.subject == application.id and not each.failure for each in ended)

    def otherwise() -> str:
        found = [event for event in cluster.events() if isinstance(event, MIGRATION)]
        return "nothing has moved:\n" + "\n".join(map(str, found)) + f"\n{cluster!r}"

    asked_until(moved, otherwise)


def check_rows(application: Application | SimulatedApplication, wanted: pl.DataFrame) -> None:
    """Stop an application that passes on all rows, once some more have come; those that came are the first ones."""
    rows = application.head(int(application.qos()["tuples"]) + 50)
    application.stop()
    assert rows.equals(wanted.head(rows.height)), application.id


def away(cluster: Cluster | Simulation, application: Any, operator: str) -> str:
    """Bring a component to a peer other than the origin, before any rate has risen; return its peer."""
    if application.graph[operator] == ORIGIN:
        cluster.move(application, operator, "peer-2")
    at: str = application.graph[operator]
    return at


def load(path: Path, rates: Sequence[tuple[float, float]], at: str, limit: str | None = None) -> Plan:
    """A component of known cost that stays at a peer."""
    slow = replayed(path, rates).delay(COST, id="slow", at=at)
    return slow.sink("load", delay=limit, id="out")


def observe(
    peers: Cluster | Simulation, mode: str, folder: Path, until: Callable[[Callable[[], bool]], object]
) -> None:
    """A hot spot of which observing peers say what they would do, and peers without hot spots nothing.

    ``mode``: how the peers treat hot spots; ``until``: function that waits for a condition.
    """
    even, risen = folder / "even.parquet", folder / "risen.parquet"
    wanted = written(even, STEADY), written(risen, RISING)
    plan = replayed(even, STEADY).delay(COST, id="slow").sink("even", delay=LIMIT, id="out")
    first = peers.submit(plan, origin=ORIGIN)
    hot = away(peers, first, "slow")
    second = peers.submit(load(risen, RISING, hot, LIMIT), origin=ORIGIN)
    if mode == "observe":
        until(lambda: bool(journaled(peers, MigrationDecided)))
    else:
        until(lambda: (second.qos().get("miss_rate") or 0.0) > 0.1)
    assert first.graph["slow"] == second.graph["slow"] == hot
    for application, table in zip((first, second), wanted, strict=True):
        check_rows(application, table)
    events: list[Any] = [event for event in peers.events() if isinstance(event, MIGRATION)]
    if mode == "off":
        assert not events
        return
    decided = [event for event in events if isinstance(event, MigrationDecided)]
    assert decided
    assert not any(event.act for event in decided)
    assert {type(event) for event in events} <= {HotSpotDetected, HotSpotDismissed, MigrationDecided}
    assert f"slow would leave {hot}" in str(first.explain())
