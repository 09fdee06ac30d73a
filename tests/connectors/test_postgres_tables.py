"""A table of a PostgreSQL server as the destination of a stream, where such a server is installed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import SinkFailed, SinkUnavailable, SinkWriter, postgresql, source
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, conform
from synergy_nb.testing import check_sink
from tests.connectors.broken_disk import COLUMNS, rows
from tests.connectors.postgres_server import PASSWORD, SECRETS, Postgres, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


def table(
    server: Postgres, name: str, columns: Mapping[str, str] = COLUMNS, secret: bytes = SECRETS["shop"], **options: Any
) -> SinkWriter:
    account = {"database": "postgres", "user": "ann", "password": "shop"}
    to = postgresql(server.address, name, **{**account, **options})
    return writer_of(to, columns, "s", secrets={"shop": secret})


def found(server: Postgres, query: str) -> list[tuple[Any, ...]]:
    from adbc_driver_postgresql import dbapi

    address = f"postgresql://ann:{PASSWORD}@{server.address}/postgres"
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


@pytest.mark.slow
def test_it_keeps_the_protocol(server: Postgres) -> None:
    def written(place: Path) -> list[dict[str, Any]]:
        return [{"v": v, "text": text} for v, text in found(server, f'SELECT v, text FROM "{place.name}"')]

    check_sink(lambda place: table(server, place.name), written, kills=4)


@pytest.mark.slow
def test_types_are_those_of_the_server_and_a_row_replaces_the_one_with_its_key(server: Postgres) -> None:
    columns = {"time": "time", "k": "str", "n": "int", "x": "float", "ok": "bool", "raw": "bytes", "day": "date"}
    columns |= {"span": "duration", "price": "decimal(10, 2)"}
    at = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    row = {"time": at.replace(tzinfo=None), "k": "a", "n": 1, "x": 0.5, "ok": True, "raw": b"\0", "day": at.date()}
    row |= {"span": dt.timedelta(seconds=2), "price": Decimal("1.25")}
    writer = table(server, "types", columns, key="k")
    writer.open()
    for position, other in enumerate((row, {**row, "n": 2, "price": None}, {**row, "k": "b"})):
        writer.write(Batch(conform(pl.DataFrame([other]), columns), position, 0.0))
        writer.commit(Point(position + 1, 0))
    said = "SELECT k, n, price, time = '2026-01-01 12:00Z', day = '2026-01-01', span = '2 s', x FROM types ORDER BY k"
    assert [(k, n, price and float(price), *same) for k, n, price, *same in found(server, said)] == [
        ("a", 2, None, True, True, True, 0.5),
        ("b", 1, 1.25, True, True, True, 0.5),
    ]


@pytest.mark.slow
def test_what_is_wrong_is_said(server: Postgres) -> None:
    server.execute("CREATE TABLE others (v BIGINT)")
    with pytest.raises(SinkFailed, match="table 'others': it has no column 'time'; expected time, v, text"):
        table(server, "others").open()
    with pytest.raises(SinkFailed, match="password authentication failed for user"):
        table(server, "mine", secret=b"wrong").open()
    table(server, "mine").open()
    with pytest.raises(SinkFailed, match="it has rows of s; expected rows of t, or a new table"):
        writer_of(
            postgresql(server.address, "mine", database="postgres", user="ann", password="shop"),
            COLUMNS, "t", secrets=SECRETS,
        ).open()  # fmt: skip
    server.execute("CREATE TABLE keyless (time TIMESTAMPTZ, v BIGINT, text TEXT)")
    writer = table(server, "keyless", key="v")
    writer.open()
    writer.write(Batch(rows(0, 1), 0, 0.0))
    with pytest.raises(SinkFailed, match="expected a table that has a primary key of v"):
        writer.commit(Point(1, 0))


def test_nobody_who_answers_is_waited_for_and_lists_are_refused() -> None:
    writer = writer_of(postgresql("127.0.0.1:9", "mine"), COLUMNS, "s")
    with pytest.raises(SinkUnavailable, match=r"127.0.0.1:9/: .*refused"):
        writer.open()
    lists = source("trace", path="a.parquet", format="parquet", columns={"all": "int[]"})
    with pytest.raises(ValueError, match=r"columns of type .* in a table of PostgreSQL"):
        lists.sink(to=postgresql("db.local:5432", "mine"))
