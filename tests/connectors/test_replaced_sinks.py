"""A sink goes on in the destination of another one: the rows of that one up to a time, and its own after it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb as duckdb_files
import polars as pl
import pytest

from synergy_nb import duckdb, postgresql, sqlite
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks import sink_rows
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkWriter
from synergy_nb.dataflow.sinks.sink_rows import SinkRows
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.dataflow.streams.log.values import CLIENT, Point, Reader, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from tests.connectors.broken_disk import COLUMNS, BrokenDisk, Killed
from tests.connectors.file_destinations import EACH, found, lines
from tests.connectors.postgres_server import PASSWORD, SECRETS, postgres

LATE = 7  # seconds by which rows come out of order at most
ROWS = 60


def table_file(path: Path) -> dict[str, Any]:
    return sqlite(path / "rows.sqlite", "rows")


def duckdb_file(path: Path) -> dict[str, Any]:
    return duckdb(path / "rows.duckdb", "rows")


def there(to: Mapping[str, Any]) -> list[int]:
    """Values in a destination, sorted."""
    query = "SELECT v FROM rows ORDER BY v"
    if to["format"] == "sqlite":
        with closing(sqlite3.connect(to["path"])) as database:
            return [v for (v,) in database.execute(query)]
    if to["format"] == "duckdb":
        with duckdb_files.connect(to["path"]) as other:
            return [v for (v,) in other.execute(query).fetchall()]
    if to["format"] == "postgresql":
        from adbc_driver_postgresql import dbapi as adbc

        address = f"postgresql://ann:{PASSWORD}@{to['server']}/postgres"
        with adbc.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(query.replace("rows", to["table"]))
            return [v for (v,) in cursor.fetchall()]
    return [v for v, _ in found(dict(to))]


def numbered(values: list[int]) -> pl.DataFrame:
    """Rows with these values, each at the second of its value."""
    time = pl.Series(values, dtype=pl.Int64) * 1_000_000
    return pl.DataFrame({"time": time.cast(pl.Datetime("us")), "v": values, "text": [f"{each},\n" for each in values]})


def items(rng: random.Random, values: list[int]) -> Iterator[Item]:
    """The rows of a stream, out of order, in batches, with promises."""
    order = sorted(values, key=lambda value: value + rng.uniform(0.0, LATE))
    at = 0
    while at < len(order):
        size = rng.randint(1, 5)
        yield Batch(numbered(order[at : at + size]), at, 0.0)
        at = min(at + size, len(order))
        if rng.random() < 0.7 and order[at:]:
            yield Punctuation(min(order[at:]) * 1_000_000, at, 0.0)
    yield Punctuation(END, at, 0.0)


class Sink:
    """A sink of a plan, whose log grows, and what it gives."""

    def __init__(self, rng: random.Random, values: list[int]) -> None:
        self.log = StreamLog()
        self.reader = Reader("app", "sink", CLIENT, "")
        self.log.subscribe(self.reader, self.log.start)
        self.rows = SinkRows(self.log)
        self._coming = items(rng, values)

    def grow(self) -> bool:
        """Have one more item in the log; return whether there was any."""
        item = next(self._coming, None)
        if item is not None:
            self.log.append(chunks_of([item], self.log.end))
        return item is not None

    def needed(self, point: Point) -> None:
        """Discard what is before a point."""
        self.log.acknowledge(self.reader, received=point, consumed=point, durable=point)


class Destination:
    """What writes to a destination, and ends at random steps: then another one of its kind goes on."""

    def __init__(self, rng: random.Random, to: Mapping[str, Any], streams: tuple[str, ...], deaths: int = 0) -> None:
        self._rng, self._to = rng, to
        self.streams = streams
        self.deaths = deaths
        self._open()

    def _open(self) -> None:
        stream, *former = self.streams
        self.disk = BrokenDisk(self._rng.randint(0, 30 * (1 + self.deaths)), halves=self._rng.random() < 0.5)
        self.writer: SinkWriter = writer_of(self._to, COLUMNS, stream, self.disk, former=former, secrets=SECRETS)
        self.reader = SinkReader(self.writer, "it", every=0.0)

    def write(self, sink: Sink) -> None:
        """Write and commit what a sink gives now."""
        try:
            if not self.reader.opened:
                self.reader.open(sink.rows.start)
            self.reader.write(sink.rows.after(self.reader.read_to, sink.log.end), 0.0)
            if self.reader.must_commit(0.0):
                self.reader.commit()
        except Killed:
            self.deaths += 1
            self.reader.close()
            self._open()
        else:
            sink.needed(sink.rows.release(self.reader.durable))


def second(time: int) -> int:
    return time // 1_000_000


def change(seed: int, to: Mapping[str, Any]) -> tuple[str, int]:
    """Change the plan while it is written, or give that up; return what happened, and how often the writer ended."""
    rng = random.Random(seed)
    values = {"old": list(range(0, ROWS, 2)), "new": list(range(0, ROWS, 3))}
    old, new = (Sink(rng, values[name]) for name in ("old", "new"))
    writing = Destination(rng, to, ("old",))
    for _ in range(rng.randint(0, 10)):
        rng.choice((old.grow, new.grow, lambda: writing.write(old)))()
    at = old.rows.hold(-1)
    old.rows.held = None
    at = max(at, 0) + rng.randint(0, 10) * 1_000_000
    while (latest := old.rows.hold(at)) > at:
        at = latest
    new.needed(new.rows.skip(at))
    while not at < old.log.end.until < END:
        rng.choice((old.grow, new.grow, lambda: writing.write(old)))()
        new.needed(new.rows.skip(at))
        if old.log.end.until == END:
            break
    gives_up = not old.rows.promised(at) or rng.random() < 0.3
    if gives_up:
        old.rows.held = None
        last = old
    else:
        writing.reader.close()
        old.rows.finish(at)
        new.rows.follow(old.rows)
        writing, last = Destination(rng, to, ("new", "old"), writing.deaths), new
    while last.grow() or not writing.reader.complete:
        writing.write(last)
    writing.reader.close()
    upto = second(at)
    whole = [v for v in values["old"] if v <= upto] + [v for v in values["new"] if v > upto]
    assert there(to) == sorted(values["old"] if gives_up else whole), (seed, upto, gives_up)
    with pytest.raises(SinkFailed, match="it has rows of"):
        writer_of(to, COLUMNS, "new" if gives_up else "old", secrets=SECRETS).open()
    return "given up" if gives_up else "changed", writing.deaths


def test_a_destination_has_each_row_once_though_its_writer_ends_again_and_again_while_the_plan_changes(
    tmp_path: Path,
) -> None:
    seen = [change(seed, lines(tmp_path / str(seed))) for seed in range(6)]
    assert {what for what, _ in seen} == {"given up", "changed"}
    assert sum(deaths for _, deaths in seen) > 10


@pytest.fixture(autouse=True)
def _few_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_rows, "MOST_AT_ONCE", 200)


@pytest.mark.slow
@pytest.mark.parametrize("make", [*EACH, table_file, duckdb_file])
def test_a_campaign_of_changes_in_each_kind_of_file(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    for seed in range(100, 120 if make is table_file else 103 if make is duckdb_file else 200):
        (tmp_path / str(seed)).mkdir()
        change(seed, make(tmp_path / str(seed)))


@pytest.mark.slow
def test_changes_in_a_table_of_a_server() -> None:
    with postgres() as server:
        for seed in range(100, 103):
            change(seed, postgresql(server.address, f"t{seed}", database="postgres", user="ann", password="shop"))
