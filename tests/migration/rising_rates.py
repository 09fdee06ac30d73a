"""Traces whose rate rises, replayed on live peers until a component has moved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import polars as pl

from synergy_nb import Application, Cluster, source
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
from tests.waiting import asked_until

E = TypeVar("E", bound=Event)


EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times carry no zone


ORIGIN: Final = "peer-1"  # executes all sources and sinks


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


def journaled(cluster: Cluster, kind: type[E]) -> list[E]:
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


def check_rows(application: Application, wanted: pl.DataFrame) -> None:
    """Stop an application that passes on all rows, once some more have come; those that came are the first ones."""
    rows = application.head(int(application.qos()["tuples"]) + 50)
    application.stop()
    assert rows.equals(wanted.head(rows.height)), application.id
