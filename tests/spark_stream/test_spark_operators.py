"""The contract of operators on Spark: the same rows as peers and DuckDB give, for late and disordered tuples as well.

Each case is a streaming query over the micro-batches of a feed with punctuations that come too early. Queries take
seconds, most of which Spark spends on planning, so those of the next tests run beside that of one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

from spark_stream._expressions import quote
from spark_stream._progress import watermark_of
from spark_stream.operators import END_TIME, POSITION, arrange, build, kinds, lag, numbered, readings, settings
from spark_stream.operators.frames import SHIFT
from spark_stream.supported import supported
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, conform
from synergy_nb.plan import Plan, Stream
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.engines import off_spark
from synergy_nb.plan.terms.column_types import PLAIN, family
from tests import stream_queries
from tests.campaigns import ALL
from tests.feeding import Feed, accepted, drive, feed, fresh, micros, rows_of, through
from tests.operator_cases import (
    CASES,
    HOSTS,
    PACKETS,
    SECOND,
    P,
    R,
    Totals,
    built,
    comparable,
    counted,
    expected,
    http_requests,
    joined,
    packets,
    python,
    replies,
    results,
    sums,
    ties,
    top_pairs,
)
from tests.spark_server import COMPILED
from tests.spark_stream.spark_feeding import SECONDS, Folder, in_two, micro_batches, rows, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_stream.server import Server

KEYS = {"alpha": b"a" * 32, "beta": b"b" * 32}
AT_ONCE = 4  # queries
Rows = list[tuple[Any, ...]]


def top() -> Stream:
    """The most traffic in each window; the count need not be read."""
    traffic = sums(P().filter("bytes >= 0"))
    return traffic.sort("total desc", "source desc").compare("total", "60 %", count=traffic.count())


def sampled() -> Stream:
    drawn = P().sample("60 %", seed=5).filter("bytes > 0").encrypt("source", "weight", key="alpha")
    return drawn.decrypt({"source": "str", "weight": "float"}, key="alpha").distinct("link", "ok", window="15 s")


def sealed() -> Stream:
    """Encrypted to other bytes than on peers, whose positions Spark does not know here."""
    hidden = sums().sort("source").encrypt("total", "link", key="beta")
    return hidden.decrypt({"total": "int", "link": "str"}, key="beta")


def united() -> Stream:
    packets = P()
    return packets.filter("bytes > 0").union(packets.filter("ok")).aggregate(by=["link"], window="7 s", n="count(*)")


def sessions() -> Stream:
    bursts = P().aggregate(by=["source"], window="session 1500 ms gap", n="count(*)", total="sum(bytes)")
    return bursts.aggregate(by=["source"], window="30 s", bursts="count(*)", n="sum(n)", last="max(window_end)")


def many_hosts() -> pl.DataFrame:
    """A table of 1.7 MB, which Spark does not take within a request: these end at 1 MB."""
    others = [f"host {number}" for number in range(40_000)]
    return HOSTS.vstack(pl.DataFrame({"source": others, "site": others, "rank": range(40_000)}))


#: Whole parts, in which operators follow each other.
PARTS: dict[str, Callable[[], Stream]] = {
    "top": top,
    "a count that is not of the same": counted,
    "order by text, downwards": lambda: sums().sort("source desc", "link", "most desc"),
    "join, then windows": lambda: P().join(R(), on=["source"], within="3 s").aggregate(
        by=["source"], window="10 s", n="count(*)", total="sum(bytes)", latest="max(time)"
    ),
    "windows joined": joined,
    "left alone, then windows": lambda: P().join(R(), on=["source"], within="1 s", how="anti").aggregate(
        by=["source"], window="10 s", n="count(*)", latest="max(time)"
    ),
    "union": united,
    "looked up, then windows": lambda: P().lookup(many_hosts(), on="source", how="left").filter("rank <> 1").aggregate(
        by=["site"], window="10 s", n="count(*)", total="sum(bytes)"
    ),
    "sessions, then windows": sessions,
    "many windows": lambda: P().aggregate(by=["link"], window="20 s every 1 s", n="count(*)", most="max(weight)"),
    "first of sorted": lambda: ties().project("link", "port", big="bytes > 100").distinct("link", "big"),
    "first of groups": lambda: sums().project("total").distinct(),
    "over keys, within windows": lambda: sums().over("source", order="total desc", n="row_number()", up="lag(total)"),
    "timers that set others, then windows": lambda: built("apply_keyed with timers that set others").case.build()
    .aggregate(by=["link"], window="10 s", n="count(*)", last="max(n)"),
    "patterns, then windows": lambda: P().filter("regexp_matches(source, '^(.*)*$')")
    .project("bytes", kind="regexp_replace(regexp_extract(source, '.$'), '[a-m]', '<\\0>')")
    .aggregate(by=["kind"], window="10 s", n="count(*)", some="sum(CASE WHEN kind LIKE '%<%>%' THEN bytes END)"),
    "sampled": sampled,
    "sealed": sealed,
    "counted": lambda: P().sort("bytes", window="20 s every 5 s").count(),
    "compared by groups, then joined": lambda: joined().compare("total", "30 %", by=["link"]).filter("n > 1"),
}  # fmt: skip


class Run(NamedTuple):
    """A query of a contract: what it is fed with, and what it gives."""

    plan: Plan
    end: str
    tables: list[pl.DataFrame]
    items: Feed
    take: Callable[[], Rows]


def part_of(plan: Plan) -> tuple[list[str], str]:
    """All operators between the sources and the sink, and the last of them."""
    (sink,) = plan.sinks
    return [name for name, each in plan.operators.items() if each.kind not in ("source", "sink")], plan.upstream(sink)[
        0
    ]


class Runner:
    """Runs queries, some at a time."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.running: list[StreamingQuery] = []
        self.started = 0

    def run(self, plan: Plan, members: list[str], end: str, ports: dict[str, pl.DataFrame], items: Feed) -> Run:
        """Start a query over a part; its streams come in on ports, in their order."""
        while len(self.running) >= AT_ONCE:
            with contextlib.suppress(Exception):  # its own test says so
                self.running.pop(0).awaitTermination(SECONDS)
        self.started += 1
        folders = {}
        for port, (stream, table) in enumerate(ports.items()):
            folder = Folder(self.folder / f"{self.started}-{port}", plan.schema(stream))
            folders[stream] = folder.add(micro_batches(table, port, items))
        take: Callable[[], Rows]
        needed = settings(plan, members)
        for name, value in needed.items():
            self.session.conf.set(name, value)
        try:
            result = build(plan, members, end, lambda up: folders[up].read(self.session), secrets=KEYS, ordered=True)
            query = start(result, f"q{self.started}")
        except Exception as error:  # noqa: BLE001 - is that of one test, not of all
            take = partial(_fail, error)
        else:
            self.running.append(query)
            take = partial(rows, self.session, query, plan.schema(end))
        for name in needed:
            self.session.conf.unset(name)
        return Run(plan, end, list(ports.values()), items, take)


def _fail(error: Exception) -> Rows:
    raise error


@pytest.fixture(scope="module")
def session(spark_server: Server) -> Iterator[SparkSession]:
    """A session as operators need it."""
    from spark_stream._expressions import MEANING
    from spark_stream.session import connect, disconnect

    session = connect(spark_server.ready(), settings={**MEANING, **COMPILED, "spark.sql.shuffle.partitions": "1"})
    yield session
    disconnect(session)


@pytest.fixture(scope="module")
def runner(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(session, tmp_path_factory.mktemp("contract"))


def _asked(request: pytest.FixtureRequest, names: Iterable[str]) -> list[str]:
    """Those of some cases that this run has tests of."""
    ids = {item.name for item in request.session.items}
    return [name for name in names if any(f"[{name}]" in each for each in ids)]


class Ahead:
    """The queries of some tests, by name: who asks for one begins those of the next tests, too."""

    def __init__(self, names: list[str], begin: Callable[[str], Run]) -> None:
        self._waiting = names
        self._begin = begin
        self._begun: dict[str, Run] = {}
        self._asked = 0

    def __getitem__(self, name: str) -> Run:
        self._asked += 1
        while self._waiting and len(self._begun) < self._asked + AT_ONCE:
            following = name if name in self._waiting else self._waiting[0]
            self._waiting.remove(following)
            self._begun[following] = self._begin(following)
        return self._begun[name]


@pytest.fixture(scope="module")
def cases(runner: Runner, request: pytest.FixtureRequest) -> Ahead:
    """The cases that Spark supports, as single operators."""

    def begin(name: str) -> Run:
        it = built(name)
        tables = [table.sort("time") for table in it.tables] if name == "apply_keyed" else it.tables
        ports = dict(zip(it.plan.operators[it.operator].inputs, tables, strict=True))
        return runner.run(it.plan, [it.operator], it.operator, ports, in_two(tables))

    return Ahead(_asked(request, [name for name in CASES if name not in UNSUPPORTED]), begin)


@pytest.fixture(scope="module")
def parts(runner: Runner, request: pytest.FixtureRequest) -> Ahead:
    """The parts."""

    def begin(name: str) -> Run:
        plan = PARTS[name]().sink()
        members, end = part_of(plan)
        ports = {source: packets() if source == "packets" else replies() for source in plan.sources}
        items = in_two(list(ports.values()), eager=name != "sampled")
        return runner.run(plan, members, end, ports, items)

    return Ahead(_asked(request, PARTS), begin)


def _off_spark(name: str) -> str:
    """Reason why Spark does not execute a case, by its declaration or its window."""
    it = built(name)
    operator = it.plan.operators[it.operator]
    kinds = [kind for stream in (*operator.inputs, it.operator) for kind in it.plan.schema(stream).values()]
    parts = supported(operator, it.plan) if any(family(kind) not in PLAIN for kind in kinds) else ""
    return off_spark(operator.kind, operator.params) or parts


UNSUPPORTED = {name: reason for name in CASES if (reason := _off_spark(name))}


def test_operators_that_spark_cannot_execute_state_the_reason() -> None:
    found = {}
    for name in CASES:
        it = built(name)
        found[name] = supported(it.plan.operators[it.operator], it.plan)
    assert {name: reason for name, reason in found.items() if reason} == UNSUPPORTED
    assert set(kinds()) == {kind for kind in KINDS if not off_spark(kind, {})}
    rows = {name for name, reason in UNSUPPORTED.items() if reason == "Spark has no windows of a number of rows"}
    assert rows == {name for name in CASES if "of rows" in name}
    assert UNSUPPORTED["aggregate of lists"] == "lists and structs such as column 'items' stay on peers"
    assert UNSUPPORTED["delay"] == "its purpose is load on a peer"
    assert UNSUPPORTED["sink"] == "a peer retains the results"


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (P().filter("CAST(weight AS str) = '1.5'"), "Spark writes floats differently, as in CAST(weight AS STRING)"),
        (P().project(a="concat('a', CAST(bytes / 2 AS str))"), "Spark writes floats differently, as in CAST(bytes / 2"),
        (P().aggregate(window="1 s", n="min(CAST(weight AS str))"), "Spark writes floats differently"),
        (P().filter("ok").sample("10 %"), "it selects tuples by their positions, which Spark knows only for"),
        (P().project(_mark="ok").filter("_mark"), "column '_mark' has a name that is needed"),
        (P().count(window="1 us gap"), "sessions in Spark have gaps of at least 2 us"),
        (
            python("packets", PACKETS, lateness="9 s").filter("ok").apply_keyed(Totals, key="link"),
            "its class has no on_t",
        ),
        (
            P().join(R(), on=["source"], within="3 s").apply_keyed(Totals, key="link"),
            "its class has no on_time, so it takes tuples as t",
        ),
    ],
)
def test_operators_that_spark_computes_differently_stay_on_peers(stream: Stream, reason: str) -> None:
    plan = stream.sink()
    members, end = part_of(plan)
    assert supported(plan.operators[end], plan, members).startswith(reason)
    with pytest.raises(ValueError, match=rf"operator '{end}' \({end}\) on Spark: "):
        build(plan, members, end, _never_read)


def _never_read(name: str) -> Any:
    raise AssertionError(f"{name} is read before all is checked")


def test_a_sample_is_supported_on_the_input_of_a_part_only() -> None:
    plan = P().sample("10 %").filter("ok").sink()
    assert not supported(plan.operators["sample"], plan, ["sample", "filter"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in UNSUPPORTED])
def test_rows_equal_those_of_peers_and_of_duckdb(name: str, cases: Ahead) -> None:
    it, run = built(name), cases[name]
    logic = fresh(run.plan, run.end)
    by_peers = drive(logic, run.items)
    found = run.take()
    assert logic.late > 0, "some are late, or it would show less"
    if run.end == "encrypt":
        assert found == rows_of(by_peers, it.schema), "the very bytes"
        found = [tuple("?" if isinstance(value, bytes) else value for value in row) for row in found]
    found = comparable(it, found)
    own, other = results(it, by_peers), expected(it, accepted(run.tables, run.items)[0])
    if name == "apply":  # its function returns fewer tuples than it gets, and does not say which
        found, own, other = (sorted(rows, key=repr) for rows in (found, own, other))
    assert found == own
    assert found == other


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_parts_on_spark_give_the_rows_of_peers(name: str, parts: Ahead) -> None:
    run = parts[name]
    in_time = [table.drop("pos") for table in accepted(run.tables, run.items)[0]]
    wanted = through(run.plan, run.end, dict(zip(run.plan.sources, in_time, strict=True))).rows()
    found = run.take()
    assert found, "it gives rows, or it would show nothing"
    if name == "windows joined" or "joined" in name:  # pairs have no order
        found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
    assert found == wanted


#: Cases and parts in which batches differ from streams, or where a stream has more than its rows; `make campaign`
#: compares all, whose translation is that of streams.
IN_BATCHES = [name for name in CASES if name not in UNSUPPORTED] + [*PARTS] if ALL else [
    "apply_keyed", "apply_keyed with timers", "join", "aggregate of sessions", "top", "sampled",
    "left alone, then windows", "many windows",
]  # fmt: skip


def in_one_batch(session: SparkSession, plan: Plan, members: list[str], end: str, ports: Mapping[str, Path]) -> Rows:
    """The rows of a part as a batch query, in the order of peers."""
    from pyspark.sql.connect import functions as sf

    needed = numbered(plan, members, end)

    def read(stream: str) -> DataFrame:
        columns = [*plan.schema(stream), *([POSITION] if stream in needed else [])]
        return session.read.parquet(str(ports[stream])).select(*(sf.col(quote(name)) for name in columns))

    result = build(plan, members, end, read, secrets=KEYS, ordered=True, finite=True)
    table: Any = pl.from_arrow(result.toArrow())
    return conform(arrange(table).with_columns(pl.col(pl.Datetime("us", "UTC")).dt.replace_time_zone(None)),
                   plan.schema(end)).rows()  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_BATCHES)
def test_a_batch_query_gives_the_rows_of_peers(name: str, session: SparkSession, tmp_path: Path) -> None:
    if name in PARTS:
        plan = PARTS[name]().sink()
        members, end = part_of(plan)
        tables = {source: packets() if source == "packets" else replies() for source in plan.sources}
        wanted = through(plan, end, tables).rows()
    else:
        it = built(name)
        plan, members, end = it.plan, [it.operator], it.operator
        sort = name == "apply_keyed"
        tables = {up: table.drop("pos", strict=False).sort("time") if sort else table.drop("pos", strict=False)
                  for up, table in zip(plan.operators[end].inputs, it.tables, strict=True)}  # fmt: skip
        items: Feed = [(port, Batch(table, 0, 0.0)) for port, table in enumerate(tables.values())]
        items += [(port, Punctuation(END, table.height, 0.0)) for port, table in enumerate(tables.values())]
        wanted = rows_of(drive(fresh(plan, end), items), plan.schema(end))
    ports = {}
    for number, (stream, table) in enumerate(tables.items()):
        ports[stream] = tmp_path / f"{number}.parquet"
        zoned = table.with_columns(
            pl.col(pl.Datetime("us")).dt.replace_time_zone("UTC"), pl.col(pl.Duration("us")).cast(pl.Int64),
            pl.int_range(table.height, dtype=pl.Int64).alias(POSITION),
        )  # fmt: skip
        zoned.write_parquet(ports[stream])
    found = in_one_batch(session, plan, members, end, ports)
    assert found
    if name not in PARTS:
        found, wanted = comparable(it, found), comparable(it, wanted)
    if end == "encrypt" or name in ("apply", "windows joined") or "join" in name:
        found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)  # their order is not stated
    assert found == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", stream_queries.QUERIES)
def test_a_plan_file_gives_what_its_query_means(name: str, runner: Runner) -> None:
    plan, packets = stream_queries.plan_of(name), stream_queries.packets_of(name, minutes=6.0)
    members, end = part_of(plan)
    run = runner.run(plan, members, end, {"packets": packets}, in_two([packets], eager=False))
    assert sorted(stream_queries.rounded(run.take())) == sorted(stream_queries.by_duckdb(name, packets))


@pytest.mark.slow
def test_top_pairs_of_real_requests_equal_those_of_duckdb(runner: Runner, real_data: Path) -> None:
    http = http_requests(real_data)
    plan, wanted = top_pairs(http)
    members, end = part_of(plan)
    run = runner.run(plan, members, end, {"source": http}, in_two([http], eager=False))
    assert run.take() == wanted


@pytest.mark.slow
def test_windows_leave_when_the_punctuation_has_reached_their_ends(runner: Runner) -> None:
    """The optimiser drops no punctuation with the rows, though these are filtered and have to have columns."""
    streams = {
        "tumbling": P().filter("bytes >= 0 AND link = 'B'").aggregate(window="5 s", n="count(*)"),
        "sessions": P().filter("bytes >= 0").aggregate(by=["source"], window="1500 ms gap", n="count(*)"),
        "compared": sums().compare("total", "10 %"),
        "joined": P().join(R(), on=["source"], within="3 s").aggregate(window="5 s", n="count(*)"),
        "left alone": P().join(R(), on=["source"], within="1 s", how="anti"),
        "left alone, then windows": P().join(R(), on=["source"], within="1 s", how="anti")
        .aggregate(window="5 s", n="count(*)"),
    }  # fmt: skip
    low = 20 * SECOND
    runs = {}
    for name, stream in streams.items():
        plan = stream.sink()
        members, end = part_of(plan)
        ports = {source: packets() if source == "packets" else replies() for source in plan.sources}
        whole = through(plan, end, ports)
        items: Feed = []
        for port, table in enumerate(ports.values()):
            items += [(port, Batch(table, 0, 0.0)), (port, Punctuation(5 * SECOND, table.height, 0.0))]
            items += [(port, Punctuation(low, table.height, 0.0))]
        run = runner.run(plan, members, end, ports, items)
        due = low - lag(plan, members, end)
        ends = micros(whole, "window_end") if "window_end" in whole.columns else [at + 1 for at in micros(whole)]
        runs[name] = run, [row for row, at in zip(whole.rows(), ends, strict=True) if at <= due]
    for name, (run, wanted) in runs.items():
        found = run.take()
        if name == "left alone":  # whose order is that of no window
            found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)  # noqa: PLW2901
        assert found == wanted, name
        assert wanted


@pytest.mark.slow
@pytest.mark.parametrize("make", [top, sessions])
def test_a_query_goes_on_where_it_stopped(make: Callable[[], Stream], session: SparkSession, tmp_path: Path) -> None:
    plan = make().sink()
    members, end = part_of(plan)
    items = feed([packets()], 2, 60)
    batches = micro_batches(packets(), 0, items)
    folder = Folder(tmp_path / "in", plan.schema("packets"))
    for some in (batches[:2], batches[2:3], batches[3:]):
        folder.add(some)
        result = build(plan, members, end, lambda _: folder.read(session), secrets=KEYS)
        writer = result.writeStream.format("parquet").option("path", str(tmp_path / "out")).outputMode("append")
        query = writer.option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)
        assert query.exception() is None
    found: Any = pl.from_arrow(session.read.parquet(str(tmp_path / "out")).toArrow())
    found = found.with_columns(pl.col(pl.Datetime("us", "UTC")).dt.replace_time_zone(None))
    assert sorted(found.rows(), key=repr) == sorted(through(plan, end, {"packets": packets()}).rows(), key=repr)


@pytest.mark.slow
def test_a_value_that_cannot_be_decrypted_ends_the_query(session: SparkSession, tmp_path: Path) -> None:
    plan = P().encrypt("source", key="alpha").decrypt({"source": "str"}, key="beta").sink()
    members, end = part_of(plan)
    folder = Folder(tmp_path / "in", plan.schema("packets"))
    folder.add(micro_batches(packets(), 0, [(0, Batch(packets(), 0, 0.0)), (0, Punctuation(END, 300, 0.0))]))
    with pytest.raises(ValueError, match=r"operator 'decrypt' \(decrypt\): key: 'beta'; expected a secret that this"):
        build(plan, members, end, lambda _: folder.read(session), secrets={"alpha": b"a" * 32})
    query = start(build(plan, members, end, lambda _: folder.read(session), secrets=KEYS), "undecryptable")
    with pytest.raises(
        Exception, match=r"operator 'decrypt' \(decrypt\): column 'source': cannot decrypt a value: key"
    ):
        query.awaitTermination(SECONDS)


@pytest.mark.parametrize(
    ("make", "read", "positions", "behind"),
    [
        (top, ["packets"], [], 0),
        (counted, ["packets", "packets"], [], 0),
        (joined, ["packets", "packets"], [], 0),
        (sampled, ["packets"], ["packets"], 0),
        (lambda: P().filter("ok"), ["packets"], ["packets"], 0),
        (lambda: P().join(R(), on=["source"], within="3 s"), ["packets", "replies"], [], 0),
        (lambda: P().join(R(), on=["source"], within="3 s", how="anti"), ["packets", "replies"], [], 2000),
        (PARTS["join, then windows"], ["packets", "replies"], [], 3 * SECOND + 2000),
    ],
)
def test_a_part_has_the_readings_positions_and_lag_of_its_operators(
    make: Callable[[], Stream], read: list[str], positions: list[str], behind: int
) -> None:
    plan = make().sink()
    members, end = part_of(plan)
    assert list(readings(plan, members, end)) == read
    assert numbered(plan, members, end) == set(positions)
    assert lag(plan, members, end) == behind
    assert END_TIME < END


@pytest.mark.slow
def test_times_of_all_years_are_in_their_windows(session: SparkSession, tmp_path: Path) -> None:
    """Windows of the years 8000 to 9999 were never closed, and their rows lost without a word."""
    ends = [dt.datetime(1, 1, 1), dt.datetime(1900, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001
    table = packets().head(3).with_columns(time=pl.Series(ends, dtype=pl.Datetime("us")))
    plan = P().aggregate(window="400 d", n="count(*)").aggregate(window="400 d", n="sum(n)").sink()
    members, end = part_of(plan)
    folder = Folder(tmp_path / "in", plan.schema("packets"))
    folder.add(micro_batches(table, 0, [(0, Batch(table, 0, 0.0)), (0, Punctuation(END, 3, 0.0))]))
    query = start(build(plan, members, end, lambda _: folder.read(session), secrets=KEYS), "years")
    assert query.awaitTermination(SECONDS)
    assert session.table("years").selectExpr("sum(n)").collect()[0][0] == 3


def test_a_watermark_of_any_year_is_read() -> None:
    for year, since in (("3970", 0), ("103970", END_TIME), ("3971", 365 * 86_400 * SECOND), ("1970", -SHIFT)):
        assert watermark_of(f"{year}-01-01T00:00:00.000Z") == since
