"""Plans over files as one batch job on Spark: what can be one, and that the rows are those of peers everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import pytest
from typer.testing import CliRunner

from spark_stream import _opened_sessions, whole_plans
from spark_stream._tables import in_order
from spark_stream.java import SparkUnavailable
from spark_stream.operators import arrange
from spark_stream.operators._parts import _totals
from spark_stream.operators.frames import ORDER
from spark_stream.whole_plans import SparkJobFailed, SparkRun, check_on_spark, run_on_spark
from synergy_nb import Plan, PlanError, SinkFailed, csv, function, jsonl, parquet, plan, source
from synergy_nb.cli.commands import app
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.traces import read as read_items
from synergy_nb.traces import table
from tests.feeding import through

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from synergy_nb.plan import Stream

FLOWS = {"time": "time", "user": "str", "bytes": "int"}


def flows(path: Path, rows: int = 200) -> Path:
    """A CSV file out of the order of time, with a malformed line."""
    lines = [f"{1000 + n * 7 % 400},{'abc'[n % 3]},{n * n % 97}" for n in range(rows)]
    path.write_text("\n".join(["time,user,bytes", *lines, "soon,a,1", ""]))
    return path


def read(path: Path, form: str = "csv", name: str = "flows") -> Stream:
    return source("trace", path=str(path), format=form, columns=FLOWS, id=name)


def sums(stream: Stream) -> Stream:
    return stream.filter("bytes > 5").aggregate("user", "1 min", total="sum(bytes)", last="last(bytes)")


# -- without Spark -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda flows: flows.delay("1 s").sink(), "operator 'delay', kind: 'delay'; expected an operator that Spark "),
        (lambda flows: flows.filter("bytes > 1", engine="peer").sink(), "operator 'filter', engine: 'peer'; expected "),
        (lambda flows: flows.filter("bytes > 1", at="peer-1").sink(), "operator 'filter', at: 'peer-1'; expected no "),
        (lambda flows: flows.sink(delay="5 s"), "delay: 5.0; expected none: a batch job on Spark gives its results "),
        (lambda flows: flows.sink(availability="degree 2"), "degree: 2; expected none: a batch job on Spark gives "),
        (lambda _: source("packets", duration="1 s").sink(), "connector: 'packets'; expected files that end: a peer "),
        (lambda _: source("packets", speed=0).sink(), "expected files that end: a peer has to produce a stream"),
        (lambda _: source("tail", path="x", format="ncsa").sink(), "connector: 'tail'; expected files that end: tuple"),
        (
            lambda _: source("directory", path="in/*.csv", format="csv", columns=FLOWS).sink(),
            "expected files that end: the folder is read for ever; a plan with ends=True reads the files that are ",
        ),
        (
            lambda _: read(Path("gone.csv")).filter("bytes > 1").sink(),
            "operator 'flows', path: .*gone.csv: no such file",
        ),
    ],
)  # fmt: skip
def test_what_is_no_batch_job_is_said_in_a_sentence(make: Any, said: str, tmp_path: Path) -> None:
    made: Plan = make(read(flows(tmp_path / "flows.csv", 9)))
    with pytest.raises(PlanError, match=said):
        run_on_spark(made, spark="unix:///nowhere/connect")  # which is not asked


def test_what_a_plan_is_as_a_batch_job_is_a_sentence(tmp_path: Path) -> None:
    made = sums(read(flows(tmp_path / "flows.csv", 9))).sink("sums", to=csv("sums.csv"))
    assert check_on_spark(made) == (
        "one batch job on Spark: it reads trace flows.csv and executes filter, aggregate; sums is in 'sums.csv'"
    )
    with pytest.raises(PlanError, match="the trace is on this machine, and Spark is on another"):
        check_on_spark(made, spark="sc://spark.example.org")


def test_a_destination_that_cannot_be_written_is_named_before_spark_is_asked(tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_text("mine")
    made = sums(read(flows(tmp_path / "flows.csv", 9))).sink("sums", to=csv(str(tmp_path / "sums.csv")))
    with pytest.raises(SinkFailed, match=r"sums\.csv.: it has 4 bytes of something else; expected a new file"):
        run_on_spark(made, spark="unix:///nowhere/connect")


def test_the_command_says_why_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(sums(read(flows(tmp_path / "flows.csv", 9))).sink("sums", delay="2 s").to_yaml())
    for arguments in (["run", str(path), "--on", "spark"], ["plan", "check", str(path), "--on", "spark"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert "delay: 2.0; expected none: a batch job on Spark gives its results at its end" in result.stderr
    result = CliRunner().invoke(app, ["run", str(path), "--on", "spark", "--peers", "3"])
    assert "--peers and --on spark: expected one of them" in result.stderr
    result = CliRunner().invoke(app, ["run", str(path), "--on", "sparks"])
    assert "--on: 'sparks'; expected one of peers, spark; did you mean 'spark'" in result.stderr


def test_the_command_passes_rows_on_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of results has all rows, what is shown has some, and a job that fails leaves nothing under its name."""
    path, out = tmp_path / "plan.yaml", tmp_path / "large.csv"
    path.write_text(read(flows(tmp_path / "flows.csv", 9)).filter("bytes > 5").sink("large").to_yaml())
    times = pl.Series(range(5)).cast(pl.Datetime("us"))
    rows = pl.DataFrame({"time": times, "user": ["a"] * 5, "bytes": range(5)})
    fails = False

    def run(plan: Plan, *, into: Any, **_: Any) -> SparkRun:
        for some in (rows.head(3), rows.tail(2)):
            into["sink"](some)
            if fails:
                raise SparkJobFailed("Spark was lost")
        found = SparkRun(plan)
        found.rows = {"sink": 5}
        return found

    monkeypatch.setattr(whole_plans, "run_on_spark", run)
    arguments = ["run", str(path), "--on", "spark", "--out", str(out), "--limit", "4", "--json"]
    fails = True
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, out.exists()) == (1, False)
    fails = False
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["results"]["sink"]["rows"] == 5
    assert len(json.loads(result.stdout)["results"]["sink"]["sample"]) == 4
    assert pl.read_csv(out)["bytes"].to_list() == rows["bytes"].to_list()


def test_only_a_sink_without_a_destination_is_given_to_a_function(tmp_path: Path) -> None:
    made = sums(read(flows(tmp_path / "flows.csv", 9))).sink("sums", to=csv(str(tmp_path / "sums.csv")))
    with pytest.raises(ValueError, match="into: 'sums'; expected sinks without a destination, of which none is"):
        run_on_spark(made, spark="unix:///nowhere/connect", into={"sums": print})


def test_rows_whose_positions_rise_stay_where_they_are() -> None:
    """What is not known to be in order is sorted by time and all columns, where no position says more."""
    rows = pl.DataFrame({"time": pl.Series([3, 1, 2], dtype=pl.Datetime("us")), "n": [1, 2, 3]})
    orders = [((4, 7, 8), [1, 2, 3]), ((4, 8, 7), [1, 3, 2]), ((None,) * 3, [2, 3, 1]), ((5, 5, 4), [3, 2, 1])]
    for order, numbers in orders:
        given = rows.with_columns(pl.Series(ORDER, order, dtype=pl.Int64))
        assert in_order(rows, given[ORDER]) == (numbers == [1, 2, 3])
        assert arrange(given)["n"].to_list() == numbers
    windows = rows.with_columns(window_start="time", window_end="time")
    assert not in_order(windows, pl.Series([1, 2, 3]))


def test_what_processes_each_tuple_alone_is_done_as_a_source_is_converted(tmp_path: Path) -> None:
    """Only what nobody else reads, and nobody wants on Spark."""
    lines = read(flows(tmp_path / "flows.csv", 9))
    kept = lines.filter("bytes > 5", id="kept")
    short = kept.project("user", id="short")
    asked = lines.filter("bytes > 5", engine="spark")
    for made, done in [
        (short.aggregate("user", "1 min", n="count(*)").sink(), ["kept", "short"]),
        (plan(short.sink("a"), kept.sink("b")), ["kept"]),
        (plan(short.sink("a"), lines.sink("b")), []),
        (asked.sink(), []),
    ]:
        assert [each.id for each in whole_plans.ahead(made, "flows")] == done


def test_columns_of_a_file_that_are_only_chosen_keep_the_bounds_of_their_sums(tmp_path: Path) -> None:
    lines = read(flows(tmp_path / "flows.csv", 9))
    chosen = lines.filter("bytes > 5", id="kept").project("user", size="bytes", twice="bytes * 2", id="chosen")
    made = chosen.sort("size", window="1 min", id="sorted").sink()
    for stream, held in [("flows", {"bytes": 7}), ("kept", {"bytes": 7}), ("chosen", {"size": 7}), ("sorted", {})]:
        assert _totals(made, stream, ["kept", "chosen", "sorted"], {"flows": {"bytes": 7}}) == held


def test_java_compiles_only_quickly_where_the_sources_have_few_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder nobody knows how many there are."""
    path = flows(tmp_path / "flows.csv", 9)
    asked: list[bool] = []

    def server(*, brief: bool) -> NoReturn:
        asked.append(brief)
        raise SparkUnavailable("none here")

    monkeypatch.setattr(_opened_sessions, "Server", server)
    packets = source("packets", count=5_000_000 - 10, speed=0)
    folder = source("directory", path=f"{tmp_path}/*.csv", format="csv", columns=FLOWS, ends=True)
    several = plan(read(path).sink("a"), packets.sink("b"))
    for made in (read(path).sink(), packets.sink(), several, folder.sink()):
        with pytest.raises(SparkUnavailable):
            run_on_spark(made)
    assert asked == [True, True, True, False]
    more = flows(tmp_path / "more.csv", 11)
    with pytest.raises(SparkUnavailable):
        run_on_spark(plan(read(more).sink("a"), packets.sink("b")))
    assert not asked[-1]


# -- with Spark --------------------------------------------------------------------------------------------------------


@function(columns={"n": "int"}, deterministic=True)
def wrong(_rows: pl.DataFrame) -> pl.DataFrame:
    """Fail."""
    raise KeyError("no such thing")


@pytest.mark.slow
def test_files_of_each_kind_become_the_rows_of_peers_at_each_destination(spark: SparkSession, tmp_path: Path) -> None:
    """In one job: text that peers would sort, Parquet as it is, a folder of JSON lines, and three destinations."""
    lines = read(flows(tmp_path / "flows.csv"))
    rows = table(lines.sink().operators["flows"].params)
    unordered = rows.sample(fraction=1.0, shuffle=True, seed=3)
    unordered.write_parquet(tmp_path / "as it is.parquet")
    folder = tmp_path / "in"
    folder.mkdir()
    for number, some in enumerate(rows.sort("time", maintain_order=True).iter_slices(70)):
        some.with_columns(pl.col("time").dt.to_string("iso")).write_ndjson(folder / f"{number}.jsonl")
    whole = read(tmp_path / "as it is.parquet", "parquet", "shuffled").filter("user <> 'a'", id="whole")
    rows.with_columns(pl.when(pl.col("bytes") > 90).then(2**62).otherwise("bytes").alias("bytes")).write_parquet(
        tmp_path / "huge.parquet"
    )
    huge = read(tmp_path / "huge.parquet", "parquet", "huge").project("user", size="bytes", id="renamed")
    rising = tmp_path / "rising.csv"
    rising.write_text("".join(["time,user,bytes\n", *(f"{n // 3},{'abc'[n % 3]},{n}\n" for n in range(300))]))
    loose = source(
        "trace", path=str(tmp_path / "flows.csv"), format="csv", columns=FLOWS, lateness="1000 s", id="loose"
    )
    coming = source("directory", path=f"{folder}/*.jsonl", format="jsonl", columns=FLOWS, ends=True, id="coming")
    made = plan(
        sums(lines).sink("sums", to=csv(str(tmp_path / "sums.csv"))),
        lines.filter("bytes > 90", id="large").sink("large"),
        whole.aggregate("user", "1 min", n="count(*)", id="counts").sink(
            "counts", to=parquet(str(tmp_path / "counts"))
        ),
        coming.project("user", twice="bytes * 2").sink("twice", to=jsonl(str(tmp_path / "twice.jsonl"))),
        read(rising, name="rising").filter("bytes % 7 > 2", id="some").sink("some"),
        loose.filter("bytes > 50", id="left").sink("left"),
        huge.aggregate("user", "1 min", total="sum(size)", id="totals").sink("totals"),
        name="all",
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    run = run_on_spark(made, spark=spark)
    assert (spark.conf.get("spark.sql.ansi.enabled"), spark.conf.get("spark.sql.session.timeZone")) == ("true", zone)
    unsorted = pl.concat(
        item.table for item in read_items(loose.sink().operators["loose"].params) if isinstance(item, Batch)
    )
    assert not unsorted["time"].is_sorted()
    tables = {"rising": table({"path": str(rising), "format": "csv", "columns": FLOWS}), "loose": unsorted}
    tables["huge"] = pl.read_parquet(tmp_path / "huge.parquet")
    tables |= {"flows": rows, "coming": rows.sort("time", maintain_order=True), "shuffled": rows}
    wanted = {sink: through(made, made.upstream(sink)[0], tables) for sink in made.sinks}
    large, counts, twice, totals = (made.sinks[place] for place in (1, 2, 3, 0))
    assert all(
        run.results(name).equals(wanted[made.sinks[place]])
        for place, name in ((1, "large"), (4, "some"), (5, "left"), (6, "totals"))
    )
    assert wanted[large].height > 3
    assert 0 < wanted[made.sinks[6]]["total"].null_count() < wanted[made.sinks[6]].height  # 64 bits do not hold some
    assert run.rows == {sink: found.height for sink, found in wanted.items()}
    assert pl.read_parquet(tmp_path / "counts/*.parquet").equals(wanted[counts])
    assert pl.read_ndjson(tmp_path / "twice.jsonl")["twice"].to_list() == wanted[twice]["twice"].to_list()
    assert pl.read_csv(tmp_path / "sums.csv")["total"].to_list() == wanted[totals]["total"].to_list()
    assert [notice.partition(" skipped ")[0] for notice in run.notices] == ["source 'flows':", "source 'loose':"]
    before = (tmp_path / "sums.csv").read_bytes()
    run_on_spark(made, spark=spark)  # each row is there once
    assert (tmp_path / "sums.csv").read_bytes() == before
    with pytest.raises(ValueError, match=r"sink: 'sums'; expected one without a destination, as its results are in"):
        run.results("sums")
    assert repr(run).startswith("all: one batch job on Spark, ")
    passed: list[pl.DataFrame] = []
    given = run_on_spark(
        lines.filter("bytes > 90", id="large").sink("large"), spark=spark, into={"sink": passed.append}
    )
    assert pl.concat(passed).equals(wanted[large])
    with pytest.raises(ValueError, match="expected one without a destination, as its results went to a function"):
        given.results()
    with pytest.raises(SparkJobFailed, match=r"Spark failed: .*no such thing"):
        run_on_spark(lines.apply(wrong).sink("wrong"), spark=spark)


@pytest.mark.slow
def test_rows_of_a_file_in_many_pieces_come_in_the_order_of_peers(spark: SparkSession, tmp_path: Path) -> None:
    """Their times are of all years, without a zone, in no order and often equal; Spark reads some 40 pieces."""
    day, first = 86_400_000_000, -62_135_596_800_000_000  # the year 1
    times = [first + n * 7919 % 500 * 7300 * day for n in range(20_000)]
    rows = pl.DataFrame(
        {
            "time": pl.Series(times).cast(pl.Datetime("us")),
            "user": ["abc"[n % 3] for n in range(len(times))],
            "bytes": range(len(times)),
        }
    )
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=500)
    made = read(tmp_path / "rows.parquet", "parquet").filter("bytes % 5 > 1").project("user", twice="bytes * 2").sink()
    piece = str((tmp_path / "rows.parquet").stat().st_size // 40)
    spark.conf.set("spark.sql.files.maxPartitionBytes", piece)
    try:
        found = run_on_spark(made, spark=spark).results()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    wanted = through(made, made.upstream("sink")[0], {"flows": rows.sort("time", maintain_order=True)})
    assert found.equals(wanted)
    assert found.height == 12_000
