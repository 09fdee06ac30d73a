"""What is known of a source's rows, and what follows: engines, memory, rates and widths."""

from __future__ import annotations

import datetime as dt
import gzip
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import Simulation
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import choose
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.memory_estimates import check_memory, held, retained_bytes
from synergy_nb.plan.checks.source_sizes import Basis, SourceSize, tuples_within
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.plan.derived.spark_parts import parts_of
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.text.plan_encoding import _Wire
from synergy_nb.traces import trace_sizes
from synergy_nb.traces.trace_sizes import WHOLE, size_of_rows, size_of_trace, sized_by_traces, sizes_of_rows

DAY = 86_400.0
BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times have no zone
COLUMNS = {"time": "time", "v": "int", "country": "str", "text": "str"}


def table(rows: int, apart: float = 60.0) -> pl.DataFrame:
    """Rows that are so many seconds apart, of 50 countries."""
    numbers = pl.int_range(rows, eager=True)
    return pl.DataFrame({"v": numbers}).select(
        time=pl.lit(BEGIN) + pl.duration(microseconds=pl.col("v") * round(apart * 1e6)),
        v="v",
        country=pl.format("country-{}", pl.col("v") % 50),
        text=pl.lit("x" * 200),
    )


def trace(path: Path | str, **params: Any) -> Stream:
    form = "parquet" if "parquet" in str(path) else "csv"
    return source("trace", path=str(path), format=form, columns=COLUMNS, **params)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in several forms: a small file of 100 rows, and larger ones of 20,000."""
    folder = tmp_path_factory.mktemp("files")
    table(100, 3600.0).write_csv(folder / "small.csv")
    large = table(20_000)
    large.write_csv(folder / "large.csv")
    large.write_csv(folder / "quoted.csv", quote_style="always", line_terminator="\r\n")
    large.write_parquet(folder / "large.parquet", row_group_size=3000)
    text = (folder / "large.csv").read_bytes()
    (folder / "packed.csv").write_bytes(gzip.compress(text, 1))
    (folder / "wide.csv").write_bytes(text.decode().encode("utf-16"))
    return folder


# -- of files and tables -----------------------------------------------------------------------------------------------


def test_a_small_file_is_counted(files: Path) -> None:
    found = size_of_trace(trace(files / "small.csv").sink().operators["source"].params)
    assert (found.rows, found.seconds, found.exact) == (100.0, 99 * 3600.0, True)
    assert found.distinct == {"v": 100.0, "country": 50.0, "text": 1.0}
    assert found.widths == {"text": 216.0}


@pytest.mark.parametrize(
    ("name", "more", "spans"),
    [
        ("large.csv", {}, True),
        ("quoted.csv", {}, True),
        ("large.parquet", {}, True),
        ("packed.csv", {}, False),
        ("wide.csv", {"encoding": "utf-16"}, False),
    ],
)
def test_the_rows_of_a_large_file_are_estimated_from_its_size(
    files: Path, name: str, more: dict[str, Any], spans: bool
) -> None:
    assert (files / name).stat().st_size > WHOLE or name in ("packed.csv", "large.parquet")
    found = size_of_trace(trace(files / name, **more).sink().operators["source"].params)
    assert found.rows == pytest.approx(20_000, rel=0.02)
    assert found.exact == (name == "large.parquet")
    assert found.seconds == (19_999 * 60.0 if spans else None)
    assert found.distinct.get("country") == (pytest.approx(50, rel=0.1) if spans else None)
    assert found.distinct.get("v", 20_000) > 10_000
    assert found.widths == {"text": 216.0}


def test_parquet_without_statistics_or_with_numbers_as_times(tmp_path: Path) -> None:
    bare, seconds = tmp_path / "bare.parquet", tmp_path / "seconds.parquet"
    table(20_000).write_parquet(bare, statistics=False)
    assert size_of_trace(trace(bare).sink().operators["source"].params).seconds is None
    table(20_000).with_columns(pl.col("time").dt.epoch("s")).write_parquet(seconds)
    assert size_of_trace(trace(seconds).sink().operators["source"].params).seconds == 19_999 * 60.0


@pytest.mark.parametrize("content", [None, b"", b"time,v,country,text\n", b"PAR1 no", b"a,b\n1,2\n", b"\x1f\x8b no"])
def test_of_what_cannot_be_read_nothing_is_known(tmp_path: Path, content: bytes | None) -> None:
    """The source says what is wrong, once it is opened."""
    path = tmp_path / "rows.csv"
    if content is not None:
        path.write_bytes(content)
    for form in ("csv", "parquet"):
        params = {"connector": "trace", "path": str(path), "format": form, "columns": COLUMNS}
        assert size_of_trace(params).rows in (None, 0.0)
    assert size_of_trace({"connector": "trace", "path": str(tmp_path), "format": "csv"}) == SourceSize()


def test_times_of_parquet_are_found_beside_columns_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "nested.parquet"
    table(20_000).select(pair=pl.struct(a=pl.col("v") * 7, b="v"), country="country", time="time").write_parquet(path)
    params = {
        "connector": "trace",
        "path": str(path),
        "format": "parquet",
        "columns": {"time": "time", "country": "str"},
    }
    assert size_of_trace(params).seconds == 19_999 * 60.0


def test_lines_longer_than_what_is_looked_at_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_sizes, "WHOLE", 4000)
    monkeypatch.setattr(trace_sizes, "_PIECE", 1000)
    path = tmp_path / "long.csv"
    table(10).with_columns(text=pl.lit("x" * 3000)).write_csv(path)
    assert size_of_trace(trace(path).sink().operators["source"].params) == SourceSize()


def test_of_rows_that_a_program_gives_those_are_known_that_it_has() -> None:
    class Rows:
        def __iter__(self) -> Iterator[Any]:
            return iter(())

        def __len__(self) -> int:
            return 7

    frame = table(1000)
    assert size_of_rows(frame).seconds == 999 * 60.0
    assert size_of_rows(frame.with_columns(pl.col("time").dt.to_string())).seconds == 999 * 60.0
    for rows, known in (
        (frame, 1000.0), (frame.to_arrow(), 1000.0), ([{"v": 1}], 1.0), ([frame, frame.to_arrow()], 2000.0),
        (Rows(), 7.0),
        (frame.lazy(), None), ((row for row in [{"v": 1}]), None), ([frame.lazy()], None), (object(), None),
        (pa.RecordBatchReader.from_batches(frame.to_arrow().schema, []), None),
    ):  # fmt: skip
        assert size_of_rows(rows).rows == known, type(rows)


def test_a_period_in_the_rows_does_not_hide_values() -> None:
    many = pl.DataFrame({"n": pl.int_range(200_000, eager=True)}).select(c=pl.col("n") % 50, unique="n")
    found = size_of_rows(many).distinct
    assert found["c"] == pytest.approx(50, abs=1)
    assert found["unique"] > 100_000


# -- what a source can give --------------------------------------------------------------------------------------------


def test_a_stated_rate_comes_before_what_is_known_and_both_before_a_default() -> None:
    replay = {"connector": "trace", "path": "a.csv", "speed": 10.0}
    known = SourceSize(7200.0, 7200.0)
    assert tuples_within({**replay, "rate": 50.0}, known, 60.0).tuples == 300.0  # at ten times the speed of event time
    assert tuples_within({**replay, "rate": 50.0}, known, DAY).tuples == 7200.0
    assert tuples_within(replay, known, 60.0).tuples == 60.0
    assert tuples_within(replay, SourceSize(), 60.0) == (6000.0, Basis.ASSUMED, False)
    assert tuples_within({"connector": "packets", "rate": 5.0, "count": 100}, None, DAY) == (100.0, Basis.KNOWN, True)
    assert tuples_within(replay, None, math.inf).tuples == math.inf
    dense = {"connector": "python", "rate": 1000.0}  # the rate of a table is bounded, while its times are as they are
    assert tuples_within(dense, SourceSize(1e6, 100.0, True), 10.0).tuples == 1e5


def test_rates_and_widths_follow_from_the_rows() -> None:
    size = SourceSize(36_000.0, 3600.0, True, {"text": 2000.0})
    paced = trace("a.csv", speed=60).filter("v > 1", selectivity=0.5).count(window="1 min").sink()
    sized = paced.sized({"source": size})
    assert sized.rate("source") == 600.0
    assert sized.rate("count") == 1.0  # a window of a minute closes each second
    assert sized.tuple_bytes("filter") == paced.tuple_bytes("filter") + 2000.0 - 16.0
    assert sized.bandwidth("filter") == 300.0 * sized.tuple_bytes("filter")
    assert trace("a.csv", speed=60, rate="7/s").sink().sized({"source": size}).rate("source") == 7.0
    assert trace("a.csv").sink().sized({"source": size}).rate("source") == 1000.0  # its readers determine it
    assert replicated(sized, 2).tuple_bytes("filter~1") == sized.tuple_bytes("filter")
    assert reduced(sized, {"count": {"a": ("r", "count")}}).rate("count") == 1.0
    joined = trace("a.csv", id="one").join(trace("b.csv", id="two"), on="v", within="1 s").sink()
    running = reduced(joined.sized({"one": size, "two": size}), {"one": {"a": ("r", "one")}})
    assert running.tuple_bytes("two") == 2000.0 + 2 * 8.0 + 16.0
    assert source("packets", rate="100/s", speed=10).sink().rate("source") == 1000.0
    assert source("packets", rate="100/s", speed=0).sink().rate("source") == 100.0


def test_a_plan_carries_what_is_known_and_stays_equal() -> None:
    plan = trace("a.csv").sink()
    sized = plan.sized({"source": SourceSize(100.0, 9.0, True, {"text": 40.0}, {"country": 3.0})})
    again = Plan.from_bytes(sized.to_bytes())
    assert again.sizes == sized.sizes != plan.sizes
    assert sized == plan == again
    assert hash(sized) == hash(plan)
    assert sized.to_yaml() == plan.to_yaml()
    wire = msgspec.msgpack.decode(sized.to_bytes(), type=_Wire)
    for wrong in ({"source": SourceSize(math.nan)}, {"source": SourceSize(-1.0)}, {"other": SourceSize()}):
        with pytest.raises(PlanError, match="sizes of its sources"):
            Plan.from_bytes(msgspec.msgpack.encode(msgspec.structs.replace(wire, sizes=wrong)))


# -- engines -----------------------------------------------------------------------------------------------------------

OPERATORS: dict[str, Callable[[Stream], Stream]] = {
    "groups": lambda s: s.aggregate("v", window="1 d", n="count(*)"),
    "sliding groups": lambda s: s.aggregate("v", window="7 d every 1 h", n="count(*)"),
    "one group": lambda s: s.aggregate(window="7 d", n="count(*)"),
    "session": lambda s: s.aggregate("v", window="1 d gap", n="count(*)"),
    "sort": lambda s: s.sort("v", window="7 d"),
    "top": lambda s: s.top(3, "v", window="1 d"),
    "percentile": lambda s: s.percentile("v", "50 %", window="1 d"),
    "distinct": lambda s: s.distinct("v", window="1 d"),
    "count": lambda s: s.count(window="30 d"),
    "join": lambda s: s.join(s.filter("v > 3"), on="v", within="1 d"),
    "compare": lambda s: s.aggregate("v", window="1 d", n="count(*)").compare("n", 0.5),
    "two windows": lambda s: s.aggregate("v", window="30 d", n="count(*)").sort("n"),
    "rows": lambda s: s.aggregate("v", window="100000000 rows", n="count(*)"),
}


def sources(files: Path) -> dict[str, Plan | Stream]:
    rows = table(100, 3600.0)
    return {
        "csv": trace(files / "small.csv"),
        "table": source(rows),
        "list": source(rows.rows(named=True), columns=COLUMNS),
        "packets": source("packets", rate="1000/s", duration="2 s", speed=0).project(v="bytes"),
    }


@pytest.mark.parametrize("kind", ["csv", "table", "list", "packets"])
@pytest.mark.parametrize("name", OPERATORS)
def test_no_operator_over_few_rows_starts_spark(files: Path, name: str, kind: str) -> None:
    stream: Any = sources(files)[kind]
    plan = OPERATORS[name](stream).sink()
    sized = sized_by_traces(plan.sized(sizes_of_rows(plan, plan.rows)))
    choice = choose(sized, SparkOffer(), {})
    assert {engine for engine, _ in choice.reasons.values()} <= {"peer"}, choice.reasons
    assert all(0.0 <= held(sized, each).tuples <= 200 * 168 for each in sized.operators)


def test_the_reason_has_the_numbers() -> None:
    def why(size: SourceSize | None, stream: Stream, operator: str = "sort") -> tuple[str, str]:
        plan = stream.sink().sized({} if size is None else {"source": size})
        return choose(plan, SparkOffer(), {}).reasons[operator]

    whole, hourly = SourceSize(100.0, None, True), SourceSize(2400.0, 100 * DAY, True)
    assert (
        "hold about 19.2 kB (100 tuples, as its sources have no more)"
        in why(whole, trace("a").sort("v", window="1 d"))[1]
    )
    assert "hold about 4.61 kB (24 tuples)" in why(hourly, trace("a").sort("v", window="1 d"))[1]
    engine, text = why(SourceSize(1e9, 100 * DAY), trace("a").sort("v", window="1 d"))
    assert engine == "spark"
    assert "hold about 1.92 GB (10,000,000 tuples), more than the 256 MB of a peer" in text
    for unknown in (None, SourceSize()):
        engine, text = why(unknown, trace("a").sort("v", window="1 d"))
        assert engine == "peer"
        assert "nothing states how many tuples come: at 1,000 tuples/s windows of 1 d would hold about 16.6 GB" in text
        assert "state the rate of the source" in text
    assert why(SourceSize(), trace("a", rate="1000/s").sort("v", window="1 d"))[0] == "spark"


def test_groups_are_as_many_as_the_values_of_their_columns() -> None:
    size = SourceSize(1e9, 100 * DAY, False, {}, {"country": 50.0, "v": 1e9})

    def engine(by: str | list[str]) -> tuple[Any, Any]:
        stream = trace("a").filter("text = 'x'", selectivity=1.0).aggregate(by, "1 d", n="count(*)")
        plan = stream.sink().sized({"source": size})
        return choose(plan, SparkOffer(), {}).reasons["aggregate"][0], held(plan, "aggregate").tuples

    assert engine("country") == ("peer", pytest.approx(50))
    assert engine("v") == ("spark", pytest.approx(1e7, rel=0.01))
    assert engine(["country", "v"])[0] == "spark"
    assert engine("text")[1] == pytest.approx(1e6)  # of which nothing is known


def test_what_lies_between_operators_on_spark_goes_with_them() -> None:
    heavy = trace("a", speed=1, rate="100000/s").sort("v", window="1 d")
    plan = heavy.project("v", "country").filter("v > 3", selectivity=1.0).sort("v").sink()
    assert parts_of(choose(plan, SparkOffer(), {}).plan) == {"sort_2": ["sort", "project", "filter", "sort_2"]}
    kept = heavy.project("v", "country", engine="peer").filter("v > 3", selectivity=1.0).sort("v").sink()
    assert parts_of(choose(kept, SparkOffer(), {}).plan) == {"sort": ["sort"], "sort_2": ["sort_2"]}


# -- memory ------------------------------------------------------------------------------------------------------------


def test_a_small_file_is_not_refused_for_memory_that_it_cannot_use() -> None:
    stream = trace("a.csv", speed=1, rate="1000/s").sort("v", window="1 d")
    plan = stream.sink(memory="16 MB")  # nobody has looked at the file
    check_memory(plan.sized({"source": SourceSize(100.0, 3.6e5, True)}), ["sort"], 1e9)
    check_memory(plan.sized({"source": SourceSize(1e6, 3.6e4)}), ["sort"], 1e9)  # estimated, so it might be less
    with pytest.raises(PlanError, match="MB that it will keep at 1,000 tuples/s"):
        check_memory(plan.sized({"source": SourceSize()}), ["sort"], 1e9)
    with pytest.raises(PlanError, match="MB that it will keep of 1,000,000 tuples"):
        check_memory(plan.sized({"source": SourceSize(1e6, 3.6e4, True)}), ["sort"], 1e9)


def test_a_window_of_rows_keeps_no_more_than_its_rows() -> None:
    plan = trace("a.csv").sort("v", window="1000 rows").sink()
    assert held(plan.sized({"source": SourceSize(1e6, None, True)}), "sort").tuples == 1000.0
    assert held(plan.sized({"source": SourceSize(7.0, None, True)}), "sort").tuples == 7.0


def test_an_operator_that_takes_the_windows_of_its_input_keeps_one() -> None:
    sums = source("packets", rate="1000/s").aggregate("source", "1 h every 10 min", n="count(*)", selectivity=0.5)
    plan = sums.sort("n").sink()
    assert retained_bytes(plan, "sort") == pytest.approx(0.5 * 1000 * 600 * plan.tuple_bytes("aggregate"))


@pytest.mark.slow
def test_peers_know_the_rows_of_what_is_submitted(files: Path) -> None:
    simulation = Simulation(peers=2)
    fed = source("python", name="rows", columns={"v": "int"}).union(trace(files / "small.csv").project("v")).sink()
    application = simulation.submit(fed, feeds={"rows": table(10).select("time", "v")})
    request = simulation.world.synergy[application.origin].requests[application.id]
    assert {name: size.rows for name, size in request.plan.sizes.items()} == {"source": 10.0, "source_2": 100.0}
    told = str(application.explain())
    assert "sources, as estimates take them: source (10 rows over 9 min), source_2 (100 rows over 99 h)" in told
    assert application.results().height == 110
