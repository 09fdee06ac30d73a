"""Parts of plans as streaming queries on a real Spark server: the same results as of peers, whatever happens."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from spark_stream._exchange import Exchange
from spark_stream.callbacks import QueryCallbacks
from spark_stream.part import Part
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.query import PartQuery, Progress, SparkAccess
from synergy_nb import source, traces
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.plan import Plan, Stream
from tests.feeding import Feed, accepted, feed, micros, through
from tests.spark_server import leftovers

if TYPE_CHECKING:
    from spark_stream.server import Endpoint, Event, Server

pytestmark = pytest.mark.slow

WITHIN = 180.0  # seconds that anything may take on a busy machine
COLUMNS = {"k": "int", "text": "str"}


class Run:
    """A part of a plan as a query, and what becomes of it."""

    def __init__(
        self, server: Server, endpoint: PeerEndpoint, plan: Plan, members: str | tuple[str, ...], folder: Path
    ) -> None:
        from spark_stream.session import connect

        self.items: list[Item] = []
        self.progress: list[Progress] = []
        self.failure: str | None = None
        self.is_ready = False
        self.rooms = 0
        self.held = False  # whether nothing is taken
        self.waiting = 0  # results that are not taken
        self.sessions: list[Any] = []
        self._changed = threading.Condition()
        inside = tuple(members.split()) if isinstance(members, str) else members
        end = inside[-1]
        inputs = dict.fromkeys(up for name in inside for up in plan.upstream(name) if up not in inside)
        self.plan, self.end = plan, end

        def session() -> Any:
            self.sessions.append(connect(server.ready(), timeout=WITHIN))
            return self.sessions[-1]

        self.query = PartQuery(
            Part("app", end, plan, inside, tuple(inputs)),
            SparkAccess(session, endpoint, lambda _: folder),
            QueryCallbacks(
                on_items=self._take,
                on_ready=lambda: self._set("is_ready", True),
                on_failed=lambda reason: self._set("failure", reason),
                on_progress=self._progressed,
                on_room=lambda: self._set("rooms", self.rooms + 1),
            ),
            secrets={"alpha": b"a" * 32},
        )
        self.query.start()

    def _set(self, name: str, value: Any) -> None:
        with self._changed:
            setattr(self, name, value)
            self._changed.notify_all()

    def _progressed(self, progress: Progress) -> None:
        with self._changed:
            self.progress.append(progress)
            self._changed.notify_all()

    def _take(self, items: list[Item]) -> None:
        with self._changed:
            self.waiting += len(items)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: not self.held, WITHIN)
            self.waiting -= len(items)
            self.items += items
            self._changed.notify_all()

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait for something to come of the query; not if it fails."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition() or self.failure is not None, WITHIN), "in time"
            assert self.failure is None or condition(), self.failure

    def wait_items(self, number: int) -> None:
        """Wait for so many items of the result."""
        self.wait(lambda: len(self.items) == number)

    def wait_room(self) -> None:
        """Wait until it has room, or until nobody takes its results."""
        self.wait(lambda: not self.query.input.full or self.waiting)

    def give(self, items: Feed) -> Run:
        """Give what comes in, when the query runs."""
        self.wait(lambda: self.is_ready)
        for port, item in items:
            self.query.input.append(port, item)
        return self

    def release(self) -> None:
        """Take results again."""
        self._set("held", False)

    def table(self) -> pl.DataFrame:
        """Wait for the end; gives all rows of the result, after looking whether the stream is a proper one."""
        self.wait(lambda: self.items and isinstance(self.items[-1], Punctuation) and self.items[-1].ends)
        position, low = 0, START
        tables = []
        for item in self.items:
            assert item.position == position, "positions are consecutive"
            if isinstance(item, Batch):
                assert item.rows
                assert min(micros(item.table)) >= low, "no tuple earlier than a punctuation before it"
                position = item.end_position
                tables.append(item.table)
            else:
                assert item.time > low, "punctuations rise"
                low = item.time
        schema = self.plan.schema(self.end)
        assert all(table.columns == list(schema) for table in tables)
        return pl.concat(tables) if tables else pl.DataFrame()


@pytest.fixture
def endpoint() -> Iterator[PeerEndpoint]:
    endpoint = PeerEndpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def run(spark_server: Server, endpoint: PeerEndpoint, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts queries, and stops them; nothing of them is left."""
    runs: list[Run] = []

    def start(plan: Plan, members: str | tuple[str, ...]) -> Run:
        runs.append(Run(spark_server, endpoint, plan, members, tmp_path / f"query-{len(runs)}"))
        return runs[-1]

    yield start
    for each in runs:
        each.release()
        each.query.stop()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("spark app")]
    assert not list(tmp_path.glob("query-*"))


def stream(name: str = "a", columns: dict[str, str] | None = None) -> Stream:
    return source("python", id=name, name=name, columns=columns or COLUMNS)


def rows(number: int, seed: int, disorder: int = 3_000_000) -> pl.DataFrame:
    """Rows over 100 s of event time, out of order."""
    rng = random.Random(seed)
    times = [place * 100_000_000 // number + rng.randrange(disorder) for place in range(number)]
    return pl.DataFrame(
        {"time": times, "k": [rng.randrange(7) for _ in times], "text": [f"t{rng.randrange(30)}" for _ in times]},
        schema={"time": pl.Datetime("us"), "k": pl.Int64(), "text": pl.String()},
    )


def same(found: pl.DataFrame, expected: pl.DataFrame, *, ordered: bool = False) -> None:
    """Hold that two tables have the same rows."""
    if ordered:
        assert found.rows() == expected.rows()
    assert Counter(found.rows()) == Counter(expected.rows())


def expected(plan: Plan, end: str, tables: dict[str, pl.DataFrame], items: Feed) -> tuple[pl.DataFrame, int]:
    """What peers make of what comes in, and how many rows of it are late."""
    kept, late = accepted(list(tables.values()), items)
    return through(plan, end, dict(zip(tables, (table.drop("pos") for table in kept), strict=True))), late


@pytest.mark.parametrize(
    ("name", "ordered"), [("stateless", False), ("windows", True), ("chained", True), ("by position", False)]
)
def test_a_query_on_spark_gives_the_rows_of_peers(run: Callable[..., Run], name: str, ordered: bool) -> None:
    made = {
        "stateless": lambda: stream().filter("k > 2", id="f").project("text", id="end", k="k * 2"),
        "windows": lambda: stream().filter("k > 0", id="f").aggregate(by="k", window="10 s", id="end", n="count(*)"),
        "chained": lambda: (
            stream().aggregate(by="text", window="20 s every 10 s", id="f", n="count(*)").sort("n desc", id="end")
        ),
        "by position": lambda: stream().sample("50 %", seed=3, id="f").filter("k < 5", id="end"),
    }[name]()
    plan = made.sink()
    table = rows(400, seed=1)
    items = feed([table], seed=2, eager=0.0 if name == "by position" else 0.3)
    wanted, late = expected(plan, "end", {"a": table}, items)
    started = run(plan, "f end").give(items)
    same(started.table(), wanted, ordered=ordered)
    for item in started.items:  # how much comes in a micro-batch is Spark's business, but its rows are in order
        if isinstance(item, Batch):
            following = iter(wanted.rows())
            assert all(row in following for row in item.table.rows())
    assert started.query.input.late == late
    assert name == "by position" or late > 0
    assert sum(each.late for each in started.progress) == 0  # Spark has nothing to drop
    started.wait(lambda: sum(each.rows for each in started.progress) == 400 - late)


def test_a_join_reads_two_inputs(run: Callable[..., Run]) -> None:
    left, right = stream("a"), stream("b", {"k": "int", "n": "int"})
    plan = left.join(right, on="k", within="2 s", id="end").sink()
    tables = {"a": rows(150, seed=3), "b": rows(150, seed=4).select("time", "k", n=pl.col("k") * 10)}
    # punctuations are as old as rows that follow them, on both sides
    items = feed(list(tables.values()), seed=5)
    wanted, _ = expected(plan, "end", tables, items)
    same(run(plan, "end").give(items).table(), wanted)
    assert wanted.height > 100


def test_a_query_may_read_a_stream_twice(run: Callable[..., Run]) -> None:
    both = stream()
    plan = both.filter("k > 3", id="f").union(both.filter("k < 5", id="g"), id="end").sink()
    table = rows(200, seed=6)
    items = feed([table], seed=7)
    same(run(plan, "f g end").give(items).table(), expected(plan, "end", {"a": table}, items)[0])


def test_input_in_small_portions_gives_output_in_small_portions(run: Callable[..., Run]) -> None:
    plan = stream().aggregate(by="k", window="10 s", id="end", n="count(*)").sink()
    started = run(plan, "end")
    for number in range(3):
        time = number * 10_000_000
        table = pl.DataFrame(
            {"time": [time, time + 9_999_999], "k": [1, 2], "text": ["a", "b"]},
            schema={"time": pl.Datetime("us"), "k": pl.Int64(), "text": pl.String()},
        )
        started.give(
            [(0, Batch(table, 2 * number, 100.0 + number)), (0, Punctuation(time + 10_000_000, 2, 50.0 + number))]
        )
        started.wait_items(2 * number + 2)
        batch, punctuation = started.items[-2:]
        assert isinstance(batch, Batch)
        assert batch.table["n"].to_list() == [1, 1]
        assert batch.born == punctuation.born == 50.0 + number  # of what has closed the window
        assert isinstance(punctuation, Punctuation)
        assert punctuation.time == time + 10_000_000


@pytest.mark.parametrize("form", ["as it is", "csv", "packets"])
def test_spark_reads_a_source_itself(run: Callable[..., Run], tmp_path: Path, form: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("spark_stream._staging.FILE_ROWS", 700)
    packets: dict[str, Any] = {"connector": "packets", "seed": 5, "count": 2000, "speed": 0}
    table = pl.concat([item.table for item in traces.read(packets) if isinstance(item, Batch)])
    columns = {"source": "str", "bytes": "int"}
    if form == "packets":
        read = source(id="a", **packets)
    elif form == "csv":
        path = tmp_path / "trace.csv"
        table.select("time", *columns).sample(fraction=1.0, shuffle=True, seed=1).write_csv(path)
        read = source("trace", id="a", path=str(path), format="csv", columns=columns)
    else:
        path = tmp_path / "trace.parquet"
        table.select("time", *columns).rename({"time": "when"}).write_parquet(path)
        read = source("trace", id="a", path=str(path), format="parquet", columns=columns, time="when")
    plan = (
        read.aggregate(by="source", window="500 ms", id="sums", total="sum(bytes)").sort("total desc", id="end").sink()
    )
    started = run(plan, "a sums end")
    wanted = through(plan, "end", {"a": table.select(*plan.schema("a"))})
    same(started.table(), wanted, ordered=True)
    started.wait(lambda: sum(each.rows for each in started.progress) == 2000)
    assert len([each for each in started.progress if each.rows]) == (1 if form == "as it is" else 3)
    if form != "packets":
        assert path.exists()


def test_a_trace_that_cannot_be_read_fails_the_query_by_name(run: Callable[..., Run], tmp_path: Path) -> None:
    read = source("trace", id="a", path=str(tmp_path / "none.csv"), format="csv", columns={"n": "int"})
    started = run(read.filter("n > 1", id="end").sink(), "a end")
    started.wait(lambda: started.failure is not None)
    assert "none.csv" in str(started.failure)
    assert "\n" not in str(started.failure)
    assert not started.is_ready


def test_a_failure_of_the_query_is_one_line(run: Callable[..., Run]) -> None:
    sealed = stream("a", {"sealed": "bytes"})
    plan = sealed.decrypt({"sealed": "str"}, key="alpha", id="end").sink()
    started = run(plan, "end")
    table = pl.DataFrame({"time": [1], "sealed": [b"x" * 40]}).with_columns(pl.col("time").cast(pl.Datetime("us")))
    started.give([(0, Batch(table, 0, 0.0)), (0, Punctuation(END, 1, 0.0))])
    started.wait(lambda: started.failure is not None)
    assert started.failure is not None
    assert "sealed" in started.failure
    assert "\n" not in started.failure
    assert "Traceback" not in started.failure
    assert len(started.failure) <= 300


def test_a_query_that_lost_its_session_goes_on(run: Callable[..., Run]) -> None:
    plan = stream().aggregate(by="k", window="10 s", id="end", n="count(*)").sink()
    table = rows(300, seed=8)
    items = feed([table], seed=9)
    started = run(plan, "end").give(items[: len(items) // 2])
    started.wait(lambda: started.items)
    with contextlib.suppress(Exception):  # the query may have left it before this returns
        started.sessions[0].client.release_session()
    started.give(items[len(items) // 2 :])
    same(started.table(), expected(plan, "end", {"a": table}, items)[0])
    assert len(started.sessions) == 2
    assert started.query.restarts == 1


def test_a_query_begins_again_where_spark_refused_it_beside_another_run(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after two moves in quick succession: three runs at once, of which Spark refuses the second or the third."""
    text = "(SparkConcurrentModificationException) [CONCURRENT_QUERY] Another instance of this query was just started."
    begin, refusals = PartQuery._begin, [RuntimeError(text)]

    def refused(self: PartQuery, session: Any, exchange: Any) -> Any:
        started = begin(self, session, exchange)
        if refusals:
            started.stop()
            raise refusals.pop()
        return started

    monkeypatch.setattr(PartQuery, "_begin", refused)
    plan = stream().filter("k > 2", id="end").sink()
    table = rows(50, seed=8)
    items = feed([table], seed=9)
    started = run(plan, "end").give(items)
    same(started.table(), expected(plan, "end", {"a": table}, items)[0])
    assert (len(started.sessions), started.query.restarts) == (2, 1)


class PlainQuery:
    """A streaming query of Spark's own, without peers, over the different numbers of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()

    def read_on(self, endpoint: Endpoint, number: int) -> None:
        """Add a file, and run the query until it has read it."""
        from spark_stream.session import connect, disconnect

        table = pl.DataFrame({"x": range(number * 100, number * 100 + 100)})
        table.write_parquet(self.folder / f"in/{number}.parquet")
        session = connect(endpoint, timeout=WITHIN)
        stream = session.readStream.schema("x long").parquet(str(self.folder / "in")).dropDuplicates(["x"])
        writer = stream.writeStream.option("checkpointLocation", f"{endpoint.folder}/plain")
        query = writer.trigger(availableNow=True).start(str(self.folder / "out"), format="parquet")
        assert query.awaitTermination(int(WITHIN))
        disconnect(session)

    def found(self) -> list[int]:
        """All that it has written."""
        return sorted(number for path in self.folder.glob("out/*.parquet") for number in pl.read_parquet(path)["x"])


def test_without_a_path_a_killed_server_loses_nothing_and_doubles_nothing(
    endpoint: PeerEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a query start programs: without a PATH, Hadoop's own file system could make no file.

    A query of peers and one of Spark's own are at the same server that is killed, as a start of one takes long.
    """
    from spark_stream.server import Server

    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    said: queue.Queue[Event] = queue.Queue()
    plan = stream().filter("k > 0", id="f").aggregate(by="k", window="5 s", id="end", n="count(*)").sink()
    table = rows(600, seed=10)
    items = feed([table], seed=11, batch=20)
    third = len(items) // 3
    plain = PlainQuery(tmp_path)
    with Server(directory=tmp_path, timeout=WITHIN, on_event=said.put) as server:
        ready = server.ready()
        folder = Path(ready.folder or "")
        plain.read_on(ready, 0)
        started = Run(server, endpoint, plan, "f end", folder / "query")
        started.give(items[:third])
        started.wait(lambda: started.items)
        started.held = True
        started.give(items[third : 2 * third])
        started.wait(lambda: started.waiting)  # a micro-batch is being committed
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        started.release()
        started.give(items[2 * third :])
        assert [said.get(timeout=WITHIN).kind for _ in range(2)] == ["ready", "died"]
        assert server.ready() == ready
        found = started.table()
        assert started.query.restarts >= 1
        started.query.stop()
        plain.read_on(ready, 1)
        assert plain.found() == list(range(200))
        assert list(folder.glob("plain/state/0/*/*.delta"))
        assert not list(folder.rglob("*.crc"))
        left = Run(server, endpoint, plan, "f end", folder / "left")
        left.wait(lambda: left.is_ready)
    left.query.stop()  # its server is dead
    assert left.failure is None
    assert leftovers(folder.parent) == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("spark app")]
    wanted, late = expected(plan, "end", {"a": table}, items)
    lost, doubled = Counter(wanted.rows()) - Counter(found.rows()), Counter(found.rows()) - Counter(wanted.rows())
    assert (late, sum(lost.values()), sum(doubled.values())) == (0, 0, 0)


def test_a_slow_reader_slows_the_input_of_a_query(run: Callable[..., Run]) -> None:
    plan = stream("a", {"text": "str"}).filter("text <> ''", id="end").sink()
    started = run(plan, "end")
    started.held = True
    piece = pl.DataFrame({"time": [0] * 5000, "text": ["x" * 200] * 5000}).with_columns(
        pl.col("time").cast(pl.Datetime("us"))
    )
    given = 0
    started.wait(lambda: started.is_ready)
    limit = 400  # of 1 MB each
    while given < limit and not (started.query.input.full and started.waiting):
        if started.query.input.full:
            started.wait_room()
            continue
        later = piece.with_columns(pl.lit(given).cast(pl.Datetime("us")).alias("time"))
        started.give([(0, Batch(later, 5000 * given, 0.0)), (0, Punctuation(given + 1, 5000 * (given + 1), 0.0))])
        given += 1
    assert given < limit, "it is full at some time"
    rooms = started.rooms
    started.release()
    started.wait(lambda: started.rooms > rooms)
    started.give([(0, Punctuation(END, 5000 * given, 0.0))])
    assert started.table().height == 5000 * given


def test_one_query_is_stopped_and_another_goes_on(run: Callable[..., Run]) -> None:
    plan = stream().aggregate(by="k", window="10 s", id="end", n="count(*)").sink()
    table = rows(200, seed=12)
    items = feed([table], seed=13)
    one, other = run(plan, "end"), run(plan, "end")
    one.give(items[: len(items) // 2])
    other.give(items[: len(items) // 2])
    one.wait(lambda: one.items)
    one.query.stop()
    taken = len(one.items)
    other.give(items[len(items) // 2 :])
    same(other.table(), expected(plan, "end", {"a": table}, items)[0])
    assert len(one.items) == taken
    assert one.failure is None


def test_sources_of_this_machine_are_not_read_by_spark_elsewhere(spark_server: Server, endpoint: PeerEndpoint) -> None:
    from spark_stream.session import connect

    plan = source("packets", id="a", count=5, speed=0).filter("bytes > 0", id="end").sink()
    failed = threading.Event()
    reasons: list[str] = []

    def fail(reason: str) -> None:
        reasons.append(reason)
        failed.set()

    query = PartQuery(
        Part("app", "end", plan, ("a", "end"), ()),
        SparkAccess(lambda: connect(spark_server.ready()), endpoint, lambda _: None),
        QueryCallbacks(on_failed=fail),
        secrets={},
    )
    query.start()
    assert failed.wait(WITHIN)
    query.stop()
    assert reasons == ["operator 'a': the trace is on this machine, and Spark is on another"]


@pytest.mark.parametrize("passes", [True, False])
def test_the_cause_of_a_micro_batch_that_cannot_be_aborted_either_is_found(
    run: Callable[..., Run], monkeypatch: Any, passes: bool
) -> None:
    finish, failures = Exchange.finish, iter([True] if passes else [True] * 9)

    def failing_finish(exchange: Exchange, number: int, batch: int, puts: list[str]) -> None:
        if batch and next(failures, False):
            raise ValueError("java.net.SocketException: Connection reset" if passes else "k: 3")
        finish(exchange, number, batch, puts)

    def failing_abort(exchange: Exchange, number: int, puts: list[str]) -> None:
        raise ValueError("no process for it")

    monkeypatch.setattr(Exchange, "finish", failing_finish)
    monkeypatch.setattr(Exchange, "abort", failing_abort)
    table = rows(100, seed=1).sort("time")
    started = run(stream().filter("k > 2", id="end").sink(), "end")
    started.give([(0, Batch(table, 0, 1.0)), (0, Punctuation(END, 100, 1.0))])
    if passes:
        same(started.table(), table.filter(pl.col("k") > 2))
        assert started.query.restarts == 1
    else:
        started.wait(lambda: started.failure)
        assert started.failure is not None
        assert started.failure.startswith("k: 3")
