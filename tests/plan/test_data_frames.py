"""Frames of pandas, Polars and Arrow as rows of a source: columns, event time, and errors."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from synergy_nb import Feed, FeedError, Simulation, plan, source
from synergy_nb.plan import data_frames
from synergy_nb.plan.operators.sources import DEFAULT_RATE, TIME_NAMES
from synergy_nb.traces._typed_columns import convert
from synergy_nb.traces.rows import RowReader, check_rows

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times carry no zone
TABLE = pl.DataFrame({"time": [EPOCH, EPOCH + dt.timedelta(seconds=1)], "user": ["ann", None], "amount": [1.5, None]})


def rows_of(frame: Any, **options: Any) -> pl.DataFrame:
    """The tuples that a plan over a frame is fed with."""
    query = source(frame, **options).sink("all")
    reader = RowReader("source", query.schema("source"), query.operators["source"].params["time"])
    checked = check_rows(query.rows["source"], reader)
    if isinstance(checked, pl.DataFrame):
        return checked
    return pl.concat(reader.table(part) for part in checked)


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        TABLE.lazy(),
        TABLE.to_pandas(),
        TABLE.to_pandas().set_index("time"),
        TABLE.to_arrow(),
        TABLE.to_arrow().to_batches()[0],
        TABLE.to_dict(as_series=False),
        TABLE.to_dicts(),
        [TABLE.head(1), TABLE.tail(1)],
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_every_kind_of_frame_is_a_source(frame: Any) -> None:
    query = source(frame).sink("all")
    assert query.schema("source") == {"time": "time", "user": "str", "amount": "float"}
    assert_frame_equal(rows_of(frame), TABLE)


def test_objects_that_export_arrow_are_sources() -> None:
    assert_frame_equal(rows_of(duckdb.from_arrow(TABLE.to_arrow())), TABLE)


def test_a_record_batch_reader_is_read_part_by_part() -> None:
    batches = TABLE.to_arrow().to_batches(max_chunksize=1)
    assert_frame_equal(rows_of(pa.RecordBatchReader.from_batches(batches[0].schema, batches)), TABLE)


def test_types_are_those_that_duckdb_gives_but_for_what_tuples_do_not_have() -> None:
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime(["2026-01-01T02:00:00+02:00", "2026-01-01T03:00:00+02:00"]),
            "nanos": pd.to_datetime(["2026-01-01 00:00:00.123456789", None]),
            "share": [float("nan"), 2.0],
            "whole": pd.array([None, 7], dtype="Int64"),
            "kind": pd.Categorical(["a", None]),
            "known": [True, False],
            "raw": [b"x", None],
            "price": [decimal.Decimal("1.25"), None],
            "day": [dt.date(2026, 1, 2), None],
        }
    )
    query = source(frame, time="when").sink("all")
    assert query.schema("source") == {
        "time": "time", "nanos": "time", "share": "float", "whole": "int", "kind": "str", "known": "bool",
        "raw": "bytes", "price": "decimal(3, 2)", "day": "date",
    }  # fmt: skip
    found = rows_of(frame, time="when")
    asked = (
        "SELECT share, whole, kind::VARCHAR AS kind, known, price::DECIMAL(3, 2) AS price, day::DATE AS day FROM frame"
    )
    answer = duckdb.sql(asked)
    assert answer is not None
    duck = pl.from_arrow(answer.to_arrow_table())
    assert isinstance(duck, pl.DataFrame)
    assert_frame_equal(found.select(duck.columns), duck)
    assert found["time"].to_list() == [EPOCH, EPOCH + dt.timedelta(hours=1)]
    assert found["nanos"].to_list() == [EPOCH.replace(microsecond=123456), None]


def test_the_event_time_is_the_named_column_or_found_by_name_or_the_only_one_of_times() -> None:
    assert rows_of({"ts": [5.5], "date": ["2026-01-01"]}).columns == ["time", "date"]
    assert rows_of(pl.DataFrame({"opened": [EPOCH], "v": [1]})).columns == ["time", "v"]
    assert rows_of({"a": [1.0], "b": [2.0]}, time="b")["time"].to_list() == [dt.datetime(1970, 1, 1, 0, 0, 2)]  # noqa: DTZ001
    unnamed = pd.DataFrame({"v": [1]}, index=pd.DatetimeIndex([EPOCH]))
    assert rows_of(unnamed)["time"].to_list() == [EPOCH]


@pytest.mark.parametrize(
    ("index", "options"),
    [
        (pd.DatetimeIndex([EPOCH], name="when"), {}),
        (pd.Index([EPOCH], dtype=object), {}),
        (pd.Index([EPOCH.date()], dtype=object), {}),
        (pd.Index(["2026-01-01 00:00:00"]), {"time": "index"}),
        (pd.Index(["2026-01-01 00:00:00"]), {"time": "time"}),
        (pd.Index(["2026-01-01 00:00:00"], name="when"), {"time": "when"}),
    ],
)
def test_the_index_of_a_pandas_table_is_the_event_time(index: Any, options: dict[str, Any]) -> None:
    found = rows_of(pd.DataFrame({"v": [1]}, index=index), **options)
    assert found.columns == ["time", "v"]
    assert found["time"].to_list() == [EPOCH]
    own = pd.DataFrame({"v": [1], "ts": [5.0]}, index=index)
    assert rows_of(own, time="ts").columns == ["time", "v"], "a column that the user names comes first"


def test_rows_of_one_table_are_put_in_order() -> None:
    assert rows_of({"time": [3, 1, 2], "v": [3, 1, 2]})["v"].to_list() == [1, 2, 3]


def test_stated_columns_select_and_convert_those_of_a_frame() -> None:
    found = rows_of({"time": ["1", "2"], "n": ["7", None], "rest": [0, 0]}, columns={"n": "int"})
    assert found["n"].to_list() == [7, None]
    assert found.columns == ["time", "n"]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"a": [1], "b": [2]}, {}, "time: not given; expected the column that holds the event time, as in time='when'"),
        ({"when": ["2026-01-01"], "x": [[1]]}, {}, "date; found when (str), x (int[])"),
        (pd.DataFrame({"v": [1.5]}, index=["2026-01-01"]), {},
         "v (float); its index holds text such as '2026-01-01'; if these are the event times, expected time='index'"),
        (pd.DataFrame({"v": [1.5]}, index=pd.Index(["2026-01-01"], name="day")), {"time": "when"},
         "found v; its index holds text such as '2026-01-01'; if these are the event times, expected time='day'"),
        ([pd.DataFrame({"v": [1.5]}, index=["2026-01-01"])], {}, "its index holds text such as '2026-01-01'"),
        (pd.DataFrame({"v": [1]}, index=pd.period_range("2026-01", periods=1, freq="M")), {},
         "its index holds values of type period such as '2026-01'; expected times there, as pandas.to_datetime or"),
        (pd.DataFrame({"v": [1]}, index=pd.MultiIndex.from_tuples([("a", 1)], names=["user", "when"])), {},
         "its index has the levels user, when: frame.reset_index() makes columns of them"),
        ({"when": [1]}, {"time": "wen"}, "time: 'wen' is no column of the frame; found when; did you mean 'when'?"),
        ({"time": [1], "when": [1]}, {"time": "when"}, "time: 'when', but another column is called 'time'"),
        ({"time": [1], "x": [dt.time(1)]}, {}, "column 'x': type Time; expected numbers, text"),
        ({"time": [1], "x": [1]}, {"columns": {"X": "int"}}, "'X' is no column of the frame; found time, x; did you"),
        (pd.DataFrame({"time": [1, 2], "mixed": [1, "a"]}), {}, "column 'mixed': 'a' in row 1, and 1 before it;"),
        (pd.DataFrame([[1, 2, 3]], columns=["time", "a", "a"]), {}, "column 'a': the name occurs twice"),
        (pl.DataFrame({"time": [1]}).lazy().select("gone"), {}, "a LazyFrame whose columns cannot be read"),
        ({"time": [True]}, {}, "column 'time': True in row 0"),
        ({"time": [1.0, None]}, {}, "column 'time': no value in row 1; expected an event time in each"),
        ({"time": [float("inf")]}, {}, "column 'time': inf in row 0; expected a time, seconds since 1970, or ISO"),
        ({"time": ["soon"]}, {}, "column 'time': 'soon' in row 0"),
        ({"time": [1], "n": [1.5]}, {"columns": {"n": "int"}}, "column 'n': 1.5 in row 0; expected an integer of 64"),
        (pl.DataFrame({"time": [1], "n": [2**63]}), {}, "column 'n': 9223372036854775808 in row 0"),
    ],
)  # fmt: skip
def test_faults_of_a_frame_are_named_by_column(frame: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"column|time") as caught:
        rows_of(frame, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (7, {}, "source: int; expected the name of a connector, a pandas, Polars or Arrow table"),
        (pl.Series([1]), {}, "source: a Series, which is one column; expected a table"),
        ({"time": 1.0}, {}, "source: dict; expected the name"),
        (iter([]), {}, "source: columns: not given; expected column to type, as in columns={'user': 'str'}"),
        (
            Feed({"v": "int"}),
            {"columns": {"v": "int"}},
            "source: columns, time and time_unit; expected none of them with a Feed, which has its own",
        ),
        (TABLE, {"tim": "time"}, None),
    ],
)
def test_objects_without_rows_are_refused(rows: Any, options: dict[str, Any], message: str | None) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        source(rows, **options).sink()
    assert message is None or message in str(caught.value)


def test_a_plan_keeps_the_rows_of_its_sources_and_its_bytes_do_not() -> None:
    left, right = source(TABLE), source(TABLE, id="other")
    both = plan(left.sink("a", id="a"), right.sink("b", id="b"))
    assert set(both.rows) == {"source", "other"}
    assert [both.operators[each].params["name"] for each in both.sources] == ["source", "other"]
    again = type(both).from_bytes(both.to_bytes())
    assert again == both
    assert again.rows == {}
    assert type(both).from_yaml(both.to_yaml()) == both


# -- rows ------------------------------------------------------------------------------------------------------------

READER = RowReader("clicks", {"user": "str", "amount": "float", "n": "int", "ok": "bool", "seen": "time"}, "when")
ROW = {"when": 1.0, "user": "ann", "amount": 2, "n": 3, "ok": True, "seen": EPOCH}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": "much"}, "clicks: column 'amount': 'much' in row 0; expected a number"),
        ({"n": 2.5}, "clicks: column 'n': 2.5 in row 0; expected an integer of 64 bits"),
        ({"n": 2**70}, f"clicks: column 'n': {2**70} in row 0"),
        ({"ok": "perhaps"}, "clicks: column 'ok': 'perhaps' in row 0; expected true or false"),
        ({"user": {"name": "ann"}}, "clicks: column 'user': {'name': 'ann'} in row 0; expected text"),
        ({"when": None}, "clicks: column 'when': no value in row 0; expected an event time in each"),
        ({"when": float("nan")}, "clicks: column 'when': nan in row 0"),
        ({"seen": "yesterday"}, "clicks: column 'seen': 'yesterday' in row 0; expected a time"),
    ],
)
def test_a_wrong_value_is_named_with_its_column_and_row(change: dict[str, Any], message: str) -> None:
    row = {**ROW, **change}
    with pytest.raises(FeedError) as caught:
        READER.table(row)
    assert str(caught.value).startswith(message)
    assert not READER.accepts(row)


def test_a_missing_column_is_named_with_the_nearest_one() -> None:
    with pytest.raises(FeedError, match=r"clicks: column 'amount' is missing in row .* did you mean 'amout'\?"):
        READER.table({**{name: value for name, value in ROW.items() if name != "amount"}, "amout": 2.0})
    with pytest.raises(FeedError, match="clicks: 7; expected a dictionary with when, user, amount, n, ok, seen"):
        READER.table(7)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"n": 3.0},
        {"n": "3"},
        {"amount": "2"},
        {"amount": decimal.Decimal(2)},
        {"ok": 1},
        {"ok": "true"},
        {"when": "1"},
        {"when": "1970-01-01T00:00:01Z"},
        {"when": "1970-01-01 01:00:01+01:00"},
        {"when": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)},
        {"when": dt.datetime(1970, 1, 1, 1, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))},
        {"seen": dt.date(2026, 1, 1)},
        {"seen": "2026-01-01"},
        {"seen": 1767225600},
        {"n": pl.Series([3])[0]},
    ],
)
def test_a_value_of_another_kind_is_taken_where_that_loses_nothing(change: dict[str, Any]) -> None:
    plain = READER.table(ROW)
    assert_frame_equal(READER.table({**ROW, **change}), plain)
    assert_frame_equal(READER.table([ROW, {**ROW, **change}]), pl.concat([plain, plain]))  # several kinds in one column


def test_what_takes_finds_quickly_is_what_a_table_takes() -> None:
    assert READER.accepts(ROW)
    assert READER.accepts(dict.fromkeys(ROW, None) | {"when": 5})
    assert not READER.accepts(dict.fromkeys(ROW, None))
    assert not READER.accepts({"when": 1.0})


def test_names_of_frames_are_the_documented_ones() -> None:
    assert TIME_NAMES == ("time", "timestamp", "ts", "datetime", "date")


@pytest.mark.parametrize("as_text", [False, True])
def test_a_table_tells_the_rate_of_its_times(as_text: bool) -> None:
    """A thousand rows of two days are no thousand tuples a second: their daily windows are light for a peer."""
    times = pl.datetime_range(dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 3), "3m", eager=True)  # noqa: DTZ001 - no zone
    frame = pl.DataFrame({"when": times.dt.to_string() if as_text else times, "n": range(len(times))})
    plan = source(frame, time="when").aggregate("n", "1 day", rows="count(*)").sink()
    assert plan.rate("source") == pytest.approx(1 / 180, rel=0.01)
    assert source(frame, time="when", rate="5 tuples/s").sink().rate("source") == 5.0
    assert source(frame.head(1), time="when").sink().rate("source") == DEFAULT_RATE
    quick = frame.with_columns(when=pl.Series([0] * len(times)).cast(pl.Datetime("us")) + pl.duration(microseconds="n"))
    assert source(quick, time="when").sink().rate("source") == DEFAULT_RATE


@pytest.mark.parametrize("column", [pd.Series([1.0]), pl.Series([1.0]), pa.array([1.0])])
def test_a_single_column_is_no_table(column: Any) -> None:
    with pytest.raises(data_frames.DataFrameError, match=r"source: a \w+, which is one column; expected a table"):
        source(column)


def test_times_of_numpy_have_their_unit_and_no_time_is_beyond_its_years() -> None:
    reader = RowReader("clicks", {"n": "int", "x": "float", "s": "str"})
    row = {"n": 1, "x": 1.0, "s": "a"}
    unit: Any
    for unit, value in (("ns", 10**9), ("us", 10**6), ("ms", 1000), ("s", 1)):
        made = reader.table({**row, "time": np.datetime64(value, unit)})
        assert made["time"].to_physical().to_list() == [1_000_000]
    wrongs = {"time": 1_700_000_000_000, "n": np.timedelta64(5, "ns"), "x": 10**400, "s": "\ud800"}
    for name, bad in wrongs.items():
        wrong = {"time": 0.0, **row, name: bad}
        assert not reader.accepts(wrong)
        with pytest.raises(FeedError, match=f"column '{name}'"):
            reader.table(wrong)
    with pytest.raises(FeedError, match="no value in row 1"):
        reader.table(
            reader.table([{"time": 0.0, **row}] * 2).with_columns(time=pl.Series([0, None]).cast(pl.Datetime("us")))
        )


def test_stored_values_are_converted_only_where_nothing_is_lost() -> None:
    for values, kind, found in (
        ([1.0, 1.5], "int", [1, None]),
        ([0, 2], "bool", [False, None]),
        ([decimal.Decimal(2**53 + 1), decimal.Decimal("1.5")], "int", [2**53 + 1, None]),
        ([dt.time(1)], "time", [None]),
        ([dt.timedelta(1)], "int", [None]),
    ):
        assert convert(pl.Series(values), kind).to_list() == found, values


def test_a_frame_of_dask_is_computed_partition_by_partition() -> None:
    frames = pytest.importorskip("dask.dataframe")
    rows = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=30, freq="s"), "v": range(30)})
    computed: list[int] = []

    def noted(part: pd.DataFrame) -> pd.DataFrame:
        computed.append(len(part))
        return part

    frame = frames.from_pandas(rows, npartitions=3).map_partitions(noted, meta=rows)
    plan = source(frame, columns={"v": "float"}, time="when").sink("out")
    assert plan.schema("source") == {"time": "time", "v": "float"}
    computed.clear()
    given = iter(plan.rows["source"])
    assert len(next(given)) == 10
    assert computed == [10]
    assert [len(each) for each in given] == [10, 10]
    assert Simulation(peers=1).submit(plan).results()["v"].to_list() == [float(each) for each in range(30)]


def test_a_streaming_frame_of_spark_is_refused() -> None:
    streaming = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": True})
    with pytest.raises(TypeError, match="a streaming Spark frame, which never ends; expected a frame that ends"):
        source(streaming())
