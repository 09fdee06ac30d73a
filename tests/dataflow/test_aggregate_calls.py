"""Results of calls over several rows of odd values, which the rows of the contract do not have."""

from __future__ import annotations

import datetime as dt
import math

import duckdb
import polars as pl
import pytest

from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.plan import source
from tests.feeding import fresh, through

_MOMENT = dt.datetime(2026, 1, 31)  # noqa: DTZ001 - event times carry no zone


@pytest.mark.parametrize(
    ("values", "variances"),
    [
        ([1.0], (0.0, None)),
        ([None], (None, None)),
        ([], None),
        ([math.nan, 1.0], (math.nan, math.nan)),
        ([math.inf, 1.0], (math.nan, math.nan)),
        ([1e200, -1e200], (math.inf, math.inf)),
        ([7.1] * 3, (0.0, 0.0)),
        ([1e9 + 1.0, 1e9 + 3.0, None], (1.0, 2.0)),
        ([2.0**500, -(2.0**500)], (2.0**1000, 2.0**1001)),
    ],
)
def test_variances_of_odd_values(values: list[float | None], variances: tuple[float | None, ...] | None) -> None:
    rows = source("python", name="rows", columns={"x": "float"}, id="rows")
    plan = rows.aggregate(window="1 s", p="var_pop(x)", s="var_samp(x)").sink()
    table = pl.DataFrame(
        {"time": [_MOMENT] * len(values), "x": values}, schema={"time": pl.Datetime("us"), "x": pl.Float64}
    )
    found = through(plan, "aggregate", {"rows": table}).select("p", "s").rows()
    assert repr(found) == repr([] if variances is None else [variances])


def test_approximate_numbers_are_near_and_do_not_depend_on_batches() -> None:
    rows = source("python", name="rows", columns={"x": "int", "s": "str"}, id="rows")
    plan = rows.aggregate(window="1 s", n="approx_count_distinct(x)", m="approx_count_distinct(s)").sink()
    for number in (1, 1000, 20_000):
        x = pl.int_range(number, eager=True).alias("x")
        table = pl.DataFrame({"x": x, "s": "user " + x.cast(pl.String)}).select(time=pl.lit(_MOMENT), x="x", s="s")
        whole = through(plan, "aggregate", {"rows": table}).select("n", "m").row(0)
        logic = fresh(plan, "aggregate")
        for piece in table.iter_slices(number // 3 + 1):
            logic.on_batch(0, Batch(piece, 0, 0.0))
        (result, _) = logic.on_punctuation(0, Punctuation(END, number, 0.0))
        assert result.table.select("n", "m").row(0) == whole  # type: ignore[union-attr]
        assert all(abs(found / number - 1) < 0.05 for found in whole)


def test_operators_with_the_same_calls_share_no_sums() -> None:
    """One whose sums need more than 64 bits keeps their upper bits; another one does not begin to do so."""
    rows = source("python", name="rows", columns={"x": "int"}, id="rows")
    plan = rows.aggregate(window="1 s", total="sum(x)").sink()
    small, large = fresh(plan, "aggregate"), fresh(plan, "aggregate")
    widths = []
    for logic, x in ((small, 1), (large, 2**62), (small, 1)):
        table = pl.DataFrame({"time": [_MOMENT] * 3, "x": [x] * 3}, schema={"time": pl.Datetime("us"), "x": pl.Int64})
        logic.on_batch(0, Batch(table, 0, 0.0))
        widths.append(logic.state()["partials"][-1].width)
    assert widths == [widths[0], widths[0] + 1, widths[0]]
    (result, _) = small.on_punctuation(0, Punctuation(END, 6, 0.0))
    assert result.table["total"].to_list() == [6]  # type: ignore[union-attr]


def test_running_values_of_odd_values_are_those_of_duckdb() -> None:
    values = [None, math.nan, 1.0, None, -0.5, math.inf, 2.0, math.nan, -math.inf]
    times = [_MOMENT + dt.timedelta(milliseconds=number) for number in range(len(values))]
    table = pl.DataFrame({"time": times, "x y": values}, schema={"time": pl.Datetime("us"), "x y": pl.Float64})
    calls = ["min", "max", "sum", "avg", "count", "lag"]
    rows = source("python", name="rows", columns={"x y": "float"}, id="rows")
    plan = rows.over(window="1 s", values={call: f'{call}("x y")' for call in calls}).sink()
    found = through(plan, "over", {"rows": table}).select(calls).rows()
    connection = duckdb.connect(config={"threads": 1})
    connection.register("rows", table.to_arrow())
    running = ", ".join(f'{call}("x y") OVER k' for call in calls)
    wanted = connection.execute(
        f"SELECT {running} FROM rows WINDOW k AS (ORDER BY time ROWS UNBOUNDED PRECEDING)"
    ).fetchall()
    assert repr(found) == repr(wanted)
    assert through(plan, "over", {"rows": table.clear()}).rows() == []


def test_a_running_sum_beyond_64_bits_is_null_until_it_is_within_them_again() -> None:
    times = [_MOMENT + dt.timedelta(milliseconds=number) for number in range(3)]
    table = pl.DataFrame({"time": times, "n": [2**62, 2**62, -5]}).cast({"time": pl.Datetime("us")})
    rows = source("python", name="rows", columns={"n": "int"}, id="rows")
    plan = rows.over(window="1 s", total="sum(n)").sink()
    assert through(plan, "over", {"rows": table})["total"].to_list() == [2**62, None, 2**63 - 5]
