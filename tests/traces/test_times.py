"""Numbers, texts and times of libraries as event times: their units, their years, and what is said of a guess."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import Feed, Simulation, source
from synergy_nb.cli._printing import show_rows
from synergy_nb.editing.sampling import json_rows
from synergy_nb.plan import PlanError
from synergy_nb.plan.data_frames import DataFrameError
from synergy_nb.plan.operators.sources import TIME_UNITS
from synergy_nb.runtime.client.feeds import check_rows_or_feed
from synergy_nb.traces import info, text_files
from synergy_nb.traces._typed_columns import convert
from synergy_nb.traces.rows import FeedError, RowReader
from synergy_nb.traces.times import PER_SECOND, times
from synergy_nb.traces.trace_sizes import size_of_trace
from tests.traces.whole_traces import load

DAY = dt.datetime(2026, 1, 1, 0, 0, 1)  # noqa: DTZ001 - times of streams have no zone
SECONDS = 1_767_225_601  # of that
OF_UNIT = {**{unit: SECONDS * per for unit, per in PER_SECOND.items()}, "date": 20260101}
BEYOND = 253_402_300_800  # seconds to the year 10000


def first(unit: str) -> dt.datetime:
    return DAY if unit != "date" else DAY.replace(second=0)


def test_all_units_are_tried() -> None:
    assert tuple(OF_UNIT) == TIME_UNITS


@pytest.mark.parametrize("unit", TIME_UNITS)
@pytest.mark.parametrize(
    "dtype", [pl.Int64(), pl.UInt64(), pl.Float64(), pl.String(), pl.Int128(), pl.Decimal(38, 0)], ids=str
)
def test_a_number_of_a_unit_is_that_time_in_any_type(unit: str, dtype: pl.DataType) -> None:
    column = pl.Series("t", [OF_UNIT[unit], None]).cast(dtype)
    assert times(column, unit).to_list() == [first(unit), None]


def test_integers_are_exact_and_what_is_smaller_than_a_microsecond_is_cut_off() -> None:
    count = 1_767_225_601_123_456_789
    for column in (pl.Series([count, -1]), pl.Series([str(count), "-1"])):
        assert times(column, "ns").to_physical().to_list() == [1_767_225_601_123_456, -1]
        assert times(column.head(1), "ns").to_list() == times(pl.Series([count]).cast(pl.Datetime("ns"))).to_list()
    assert times(pl.Series(["1.5", "0.25"]), "ms").to_physical().to_list() == [1500, 250]
    assert times(pl.Series([2**64 - 1], dtype=pl.UInt64), "us").to_list() == [None]
    assert times(pl.Series(["20260230", "2026010", "2026-01-01"]), "date").to_list() == [None, None, first("date")]


@pytest.mark.parametrize(
    "values", [[True], [dt.time(1)], [dt.timedelta(1)], [b"1"], [[1]], [{"a": 1}], [None]], ids=str
)
def test_what_is_no_time_becomes_none(values: list[Any]) -> None:
    for unit in (None, *TIME_UNITS):
        assert times(pl.Series(values), unit).to_list() == [None]


def test_times_of_other_years_are_none_for_python_has_none_and_polars_panics() -> None:
    for unit in ("ms", "us"):
        per = PER_SECOND[unit]
        bounds = [-62_135_596_800 * per - 1, -62_135_596_800 * per, BEYOND * per - 1, BEYOND * per, 2**62]
        for zone in (None, "UTC"):
            column = pl.Series(bounds).cast(pl.Datetime(unit, zone))
            assert times(column).is_null().to_list() == [True, False, False, True, True]
            assert convert(column, "str").is_null().to_list() == [True, False, False, True, True]
    days = pl.Series([-719_163, -719_162, 2_932_896, 2_932_897, 2**31 - 1], dtype=pl.Int32).cast(pl.Date)
    assert times(days).is_null().to_list() == [True, False, False, True, True]
    assert times(pl.Series(["9999-12-31T23:59:59.9", "+10000-01-01T00:00:00", "0000-01-01"])).is_null().to_list() == [
        False,
        True,
        True,
    ]
    reader = RowReader("clicks", {"seen": "time"})
    table = pl.DataFrame({"time": [DAY], "seen": pl.Series([2**62]).cast(pl.Datetime("us"))})
    with pytest.raises(FeedError, match=f"column 'seen': '{2**62} us since 1970' in row 0; expected a time"):
        reader.table(table)


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ("2026-01-31T12:34:56.123456", ["2026-02-30T12:34:56.123456", "2026-01-31 12:34:56.123456"]),
        ("2026-01-31T12:34:56.123456", ["2026-01-31T12:34:56.12345Z", "2026-01-31T12:34:56.1+0200"]),
        ("2026-01-31T12:34:56.123456", [" 2026-01-31T12:34:56.12345", "2026-1-031T12:34:56.123456"]),
        ("2026-01-31 12:34:56", ["2026-01-31 24:00:00", "2026-01-31T12:34:60", "0000-01-31 12:34:56"]),
        ("2026-01-31T12:34:56Z", ["2026-01-31T12:34:56.", "1969-12-31T23:59:59Z", "2026-01-31 12:34:56Z"]),
        ("2026-01-31T12:34:56.123Z", ["2026-01-31T12:34:56.1234", "2026-01-31T12:34:56+0200"]),
        ("2026-01-31T12:34:56.123456789", ["1969-12-31T23:59:59.999999999"]),
    ],
)
def test_texts_that_are_equally_long_are_the_times_that_they_are_among_others(first: str, others: list[str]) -> None:
    pairs: list[list[str | None]] = [[first, other] for other in (first, *others, None)]
    for values in pairs:
        longer = times(pl.Series("t", [*values, "2026-01-31T12:34:56.1"]))
        assert times(pl.Series("t", values)).to_list() == longer.to_list()[:-1]


@pytest.mark.parametrize("digits", [3, 6, 9])
@pytest.mark.parametrize("mark", [" ", "T"])
@pytest.mark.parametrize("zone", ["", "Z"])
def test_fractions_of_equal_length_are_read_as_those_of_any_length(digits: int, mark: str, zone: str) -> None:
    """By another parser of Polars, which must refuse the same dates and times that there are not."""
    parts = [
        ("0000", "0001", "1600", "1900", "1969", "2023", "2024", "9999"), ("00", "02", "12", "13"),
        ("00", "01", "29", "30", "31", "32"), ("00", "23", "24"), ("00", "60"), ("59", "60", "61"),
    ]  # fmt: skip
    made = ["{}-{}-{}{}{}:{}:{}".format(*each[:3], mark, *each[3:]) for each in itertools.product(*parts)]
    texts = pl.Series([f"{text}.{'123456789'[:digits]}{zone}" for text in made])
    alone = pl.concat([times(each) for each in (texts, pl.Series([f"2024-01-01{mark}00:00:00.1{zone}"]))])
    mixed = times(texts.append(pl.Series([f"2024-01-01{mark}00:00:00.1{zone}"])))
    assert alone.equals(mixed, null_equal=True)
    assert 0 < alone.null_count() < len(alone)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_number_of_another_unit_is_refused_with_that_unit_and_read_with_it(unit: str) -> None:
    value = OF_UNIT[unit]
    for row in ({"time": value}, {"time": float(value)}, {"time": str(value)}):
        with pytest.raises(FeedError, match=rf"row 0; .* is of the order of \w+seconds: time_unit='{unit}'"):
            RowReader("clicks", {}).table(row)
        reader = RowReader("clicks", {}, unit=unit)
        for _ in range(2):
            assert reader.table(row)["time"].to_list() == [DAY]
    reader = RowReader("clicks", {}, unit=unit)
    assert reader.accepts({"time": value})
    assert not reader.accepts({"time": BEYOND * PER_SECOND[unit]})
    with pytest.raises(FeedError, match="row 0; expected a time, seconds since 1970"):
        RowReader("clicks", {}, unit="s").table({"time": value})


def test_integers_that_are_dates_are_refused_at_the_beginning_only() -> None:
    """20260101 was 1970-08-23; a simulation that counts seconds comes past such numbers."""
    text = "20260101 may be a date, time_unit='date', or seconds, time_unit='s'"
    frame = pl.DataFrame({"time": [20260101, 20260102]})
    for rows in ({"time": 20260101}, [{"time": 20260101}], frame):
        reader = RowReader("clicks", {})
        assert not reader.accepts({"time": 20260101})
        with pytest.raises(FeedError, match=text):
            reader.table(rows)
        assert RowReader("clicks", {}, unit="s").table(rows)["time"][0] == dt.datetime(1970, 8, 23, 11, 48, 21)  # noqa: DTZ001
        assert RowReader("clicks", {}, unit="date").table(rows)["time"][0] == first("date")
    for begin in (RowReader.table, RowReader.accepts):
        reader = RowReader("clicks", {})
        begin(reader, {"time": 5})
        assert reader.accepts({"time": 20260101})
        assert reader.table({"time": 20260101})["time"][0].year == 1970


def test_one_warning_names_what_an_implausible_number_is_taken_for() -> None:
    """Milliseconds before 1978 are seconds of the years 2200 to 9999."""
    reader = RowReader("clicks", {})
    assert not reader.accepts({"time": 100_000_000_000})
    expected = (
        "clicks: column 'time': 100000000000 is the time 5138-11-16, as numbers count seconds since 1970; as "
        "milliseconds it is 1973-03-03: expected time_unit='ms', or time_unit='s' if seconds are meant"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        reader.table([{"time": 0}, {"time": 100_000_000_000}])
    assert [each.filename for each in caught] == [__file__], "the line of the user"
    assert reader.accepts({"time": 100_000_000_001})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.table({"time": 100_000_000_002})
        RowReader("clicks", {}, unit="s").table({"time": 100_000_000_000})
        RowReader("clicks", {}).table({"time": "5138-11-16"})
        RowReader("clicks", {}).table({"time": dt.datetime(5138, 11, 16)})  # noqa: DTZ001


def test_times_of_numpy_of_every_unit_are_those_of_python_or_refused() -> None:
    reader = RowReader("clicks", {})
    unit: Any
    for unit, value in (("Y", 56), ("M", 56 * 12), ("W", 2922), ("D", 20_454), ("h", 490_896), ("m", 29_453_760)):
        whole = first("date") if unit != "W" else dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a Thursday, as is 1970-01-01
        assert reader.table({"time": np.datetime64(value, unit)})["time"].to_list() == [whole], unit
    for unit in ("s", "ms", "us", "ns"):
        assert reader.table([{"time": np.datetime64(OF_UNIT[unit], unit)}])["time"].to_list() == [DAY]
    assert reader.table({"time": np.datetime64(5_000_000, ("ps", 2))})["time"].to_physical().to_list() == [10]
    for far in (np.datetime64(2**62, "s"), np.datetime64("30000-01-01"), np.datetime64(-5000, "Y"), np.bool_(1), True):
        with pytest.raises(FeedError, match=r"column 'time': .* in row 0; expected a time"):
            reader.table({"time": far})
    with pytest.raises(FeedError, match="no value in row 0"):
        reader.table({"time": np.datetime64("NaT", "ns")})


def test_pandas_and_polars_times_of_every_unit_and_zone_are_the_same_instants() -> None:
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Europe/Paris"):
            stamps = pd.Series([pd.Timestamp(SECONDS, unit="s", tz=zone and "UTC")]).dt.as_unit(unit)
            stamps = stamps.dt.tz_convert(zone) if zone else stamps
            assert RowReader("r", {}).table(pd.DataFrame({"time": stamps}))["time"].to_list() == [DAY]
            assert RowReader("r", {}).table({"time": stamps[0]})["time"].to_list() == [DAY]
            if unit != "s":
                column = pl.Series([SECONDS * PER_SECOND[unit]]).cast(pl.Datetime(unit, zone))  # type: ignore[arg-type]
                assert RowReader("r", {}).table(pl.DataFrame({"time": column}))["time"].to_list() == [DAY]


def test_a_feed_has_its_unit() -> None:
    feed = Feed({"n": "int"}, time="at", time_unit="ms")
    feed.push({"at": OF_UNIT["ms"], "n": 1})
    with pytest.raises(FeedError, match=r"time_unit: 'sec'; expected one of s, ms, us, ns, date"):
        Feed({"n": "int"}, time_unit="sec")
    with pytest.raises(TypeError, match="time_unit; expected none of them with a Feed"):
        source(feed, time_unit="s")
    with pytest.raises(FeedError, match="a feed with time_unit='ms'; expected 'us', as in the plan"):
        check_rows_or_feed(feed, RowReader("clicks", {"n": "int"}, "at", "us"))


def test_a_window_that_ends_in_the_year_10000_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended the command with a traceback of Polars."""
    last = pl.DataFrame({"time": [dt.datetime(9999, 12, 31, 23, 59, 59)]})  # noqa: DTZ001
    query = source(last).aggregate(window="1 h", n="count(*)").sink("r")
    with Simulation(peers=2, seed=1) as cluster:
        table = cluster.submit(query).results()
    end = "+10000-01-01 00:00:00.000000"
    assert json_rows(table)[0][1:] == ["9999-12-31 23:00:00", end, 1]
    show_rows(table, 1)
    assert f"9999-12-31 23:00:00 to {end}" in capsys.readouterr().out


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", TIME_UNITS)
@pytest.mark.parametrize("bad", ["", "oops,3\n"])  # with a malformed line both parsers are used
def test_files_have_a_unit(tmp_path: Path, unit: str, bad: str) -> None:
    value = OF_UNIT[unit]
    text = tmp_path / "t.csv"
    text.write_text(f"ts,n\n{value},1\n{bad}{value},2\n")
    found = load(text, "csv", columns={"n": "int"}, time="ts", time_unit=unit, tolerance=0.5).table
    assert found.rows() == [(first(unit), 1), (first(unit), 2)]
    stored = tmp_path / "t.parquet"
    for dtype in (pl.Int64(), pl.Float64(), pl.String()):
        pl.DataFrame({"ts": pl.Series([value, value]).cast(dtype), "n": [1, 2]}).write_parquet(stored)
        assert load(stored, time="ts", time_unit=unit).table.rows() == [(first(unit), 1), (first(unit), 2)]


def test_files_without_a_unit_are_refused_with_the_one_that_they_seem_to_have(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    far = pl.Series([2**62]).cast(pl.Datetime("us"))
    for column, said in (
        (pl.Series([OF_UNIT["ms"]]), "time_unit='ms'"),
        (pl.Series([20260101]), "20260101 may be a date, time_unit='date', or seconds, time_unit='s'"),
        (far, f"'{2**62} us since 1970'"),
    ):
        pl.DataFrame({"time": column, "other": far}).write_parquet(path)
        with pytest.raises(ValueError, match=said):
            load(path, columns={"time": "time"})
        params = {"connector": "trace", "path": str(path), "format": "parquet", "columns": {"time": "time"}}
        assert size_of_trace(params).rows in (None, 1.0)  # an estimate raises no error
    pl.DataFrame({"time": [1.0], "other": far}).write_parquet(path)
    with pytest.raises(ValueError, match="field 'other'"):
        load(path, columns={"time": "time", "other": "time"})
    path.with_suffix(".csv").write_text(f"time\n{OF_UNIT['us']}\n")
    with pytest.raises(ValueError, match="is of the order of microseconds: time_unit='us'"):
        load(path.with_suffix(".csv"), "csv")


@pytest.mark.parametrize("name", ["t.csv", "malformed.csv", "t.parquet"])
def test_explain_tells_of_implausible_numbers_of_a_file(tmp_path: Path, name: str) -> None:
    path, expected = tmp_path / name, "100000000000 is the time 5138-11-16"
    numbers = [5, 100_000_000_000]
    if name == "t.parquet":
        pl.DataFrame({"time": numbers}).write_parquet(path)
    else:
        path.write_text("time,n\n" + "oops,0\n" * name.startswith("malformed") + "".join(f"{n},1\n" for n in numbers))
    kind = path.suffix.removeprefix(".")
    assert expected in info(path, format=kind, tolerance=0.5).doubt
    params = {"path": str(path), "format": kind, "columns": {"time": "time"}, "tolerance": 0.5}
    with Simulation(peers=2, seed=1) as cluster:
        application = cluster.submit(source("trace", **params).sink("r"))
        assert application.results().height == 2
        text = str(application.explain())
        assert expected in text
        assert ("skipped by source: 1 malformed line" in text) == (name == "malformed.csv")
        assert ("times of source: " in text) == (name != "malformed.csv")
        sure = cluster.submit(source("trace", **params, time_unit="s").sink("r"))
        assert sure.results().height == 2
        assert expected not in str(sure.explain())
    path.with_suffix(".iso").write_text("time,n\n5138-11-16,1\n")
    assert not info(path.with_suffix(".iso"), format="csv").doubt


def test_a_unit_is_checked_with_the_plan_and_holds_on_peers_of_a_simulation(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"time_unit: 'sec'; expected one of s, ms, us, ns, date"):
        source([{"time": 1}], columns={}, time_unit="sec").sink("r")
    with pytest.raises(PlanError, match="no time_unit: the times of format tcp are fixed"):
        source("trace", path="x", format="tcp", time_unit="s").sink("r")
    path = tmp_path / "t.csv"
    path.write_text(f"time,n\n{OF_UNIT['ms']},1\n")
    row = {"time": OF_UNIT["ms"], "n": 1}
    with Simulation(peers=3, seed=1) as cluster:
        for given in (
            source([row], columns={"n": "int"}, time_unit="ms"),
            source(pl.DataFrame([row]), time_unit="ms"),
            source((each for each in [row]), columns={"n": "int"}, time_unit="ms"),
            source("trace", path=str(path), format="csv", columns={"time": "time", "n": "int"}, time_unit="ms"),
        ):
            assert cluster.submit(given.sink("r")).results().rows() == [(DAY, 1)]


# -- other values of frames --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 2**70], f"column 'x': {2**70} in row 1; expected an integer of 64 bits"),
        (
            [None, uuid.UUID(int=1)],
            "column 'x': UUID('00000000-0000-0000-0000-000000000001') in row 1; ",
        ),
        ([1, "a"], "column 'x': 'a' in row 1, and 1 before it; expected values of one type"),
        ([1.5, b"a"], "column 'x': b'a' in row 1, and 1.5 before it"),
    ],
)
def test_a_value_that_no_column_has_is_named_with_its_row_in_any_frame(values: list[Any], said: str) -> None:
    objects = pl.Series("x", values, dtype=pl.Object)
    for frame in (
        pd.DataFrame({"time": [0.0, 1.0], "x": pd.Series(values, dtype=object)}),
        pl.DataFrame({"time": [0.0, 1.0], "x": objects}),
        {"time": [0.0, 1.0], "x": values},
    ):
        with pytest.raises(DataFrameError) as caught:
            source(frame)
        assert str(caught.value).startswith(said)


def test_decimals_of_arrow_keep_their_digits_or_are_refused() -> None:
    D = decimal.Decimal  # noqa: N806
    table = pa.table({"time": [0.0], "x": pa.array([D(7)], pa.decimal256(60, 0)), "y": pa.array([D("1.10")])})
    plan = source(table).sink("r")
    assert RowReader("r", plan.schema("source")).table(plan.rows["source"]).select("x", "y").rows() == [(7, D("1.10"))]
    far = pa.table({"time": [0.0], "x": pa.array([D(10) ** 60], pa.decimal256(70, 0))})
    with pytest.raises(DataFrameError, match=r"column 'x': Decimal\('10+'\) in row 0; expected a number of 38 digits"):
        source(far)
    with pytest.raises(DataFrameError, match=r"column 'x': type month_day_nano_interval; expected numbers"):
        source(pa.table({"time": [0.0], "x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))


def test_a_float_has_the_digits_of_an_integer_or_a_decimal_or_it_is_none() -> None:
    D = decimal.Decimal  # noqa: N806
    for column, found in (
        (pl.Series([2**53, 2**53 + 1, -(2**63)]), [2.0**53, None, -(2.0**63)]),
        (pl.Series([2**64 - 1, 2**63], dtype=pl.UInt64), [None, 2.0**63]),
        (pl.Series([D("0.1"), D("12.345"), None]).cast(pl.Decimal(38, 18)), [0.1, 12.345, None]),
        (pl.Series([D("0.123456789012345678"), D("1e-18")]), [None, 1e-18]),
        (pl.Series([D(10) ** 22, D(10) ** 22 + 1]), [1e22, None]),
        (pl.Series([1.5], dtype=pl.Float32), [1.5]),
        (pl.Series([True]), [1.0]),
    ):
        assert convert(column, "float").to_list() == found, column
    reader = RowReader("r", {"x": "float"})
    assert reader.table({"time": 0, "x": 2**60})["x"][0] == 2.0**60
    for value in (2**60 + 1, D("0.1234567890123456789"), pl.Series([2**60 + 1])[0]):
        assert not reader.accepts({"time": 0, "x": value})
        with pytest.raises(FeedError, match=r"column 'x': .* in row 0; expected a number that a float has exactly"):
            reader.table({"time": 0, "x": value})


def test_a_row_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synergy_nb.traces.rows.LONGEST", 1 << 20)
    reader = RowReader("r", {"s": "str", "b": "bytes", "n": "int"})
    row = {"time": 0, "s": "a" * (600 << 10), "b": b"a" * (300 << 10), "n": 1}
    assert reader.table([row, row]).height == 2
    with pytest.raises(FeedError, match=f"r: {1100 << 10} bytes in row 1; expected at most 1 MB in a row"):
        reader.table([row, {**row, "b": b"a" * (500 << 10)}])
    assert not reader.accepts({**row, "s": "a" * (1025 << 10)})
    assert text_files.LONGEST == 32 << 20


@pytest.mark.parametrize("unit", [None, "s", "ms", "ns"])
def test_integers_of_any_width_are_the_times_that_a_wide_one_is(unit: str | None) -> None:
    narrow = pl.Series([1, None, 100, -7], dtype=pl.Int8)
    assert times(narrow, unit).equals(times(narrow.cast(pl.Int64), unit))
    wide = pl.Series([1_700_000_000, 2**62], dtype=pl.Int64)  # the second one is no time of any unit but ns
    assert times(wide, unit).null_count() == (unit != "ns")
