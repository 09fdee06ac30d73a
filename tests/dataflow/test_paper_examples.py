"""Examples of joins and time windows whose results do not depend on the order of their inputs, computed by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.operators.windows import TimeWindows
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.plan import PlanError, source

LEFT = [(1.0, "k", "a"), (2.5, "k", "b"), (4.0, "m", "c"), (3.0, "k", "d")]
RIGHT = [(2.9, "k", "x"), (0.9, "k", "y"), (4.5, "k", "z"), (3.0, "m", "v")]
JOINED = {"ax": 2.9, "bx": 2.9, "dx": 3.0, "ay": 1.0, "by": 2.5, "dz": 4.5, "cv": 4.0}  # bz are 2 s apart: no pair


def batch(rows: Sequence[tuple[Any, ...]], *columns: str) -> Batch:
    table = pl.DataFrame(list(rows), schema=["time", *columns], orient="row")
    return Batch(table.with_columns((pl.col("time") * 1e6).cast(pl.Int64).cast(pl.Datetime("us"))), 0, 0.0)


def join(within: str) -> OperatorLogic:
    one, other = (source("python", name=name, columns={"k": "str", name: "str"}, id=name) for name in ("l", "r"))
    plan = one.join(other, on="k", within=within, id="j").sink("out")
    logic = create(plan.operators["j"], plan)
    assert isinstance(logic, OperatorLogic)
    return logic


@pytest.mark.parametrize("seed", range(10))
def test_a_join_has_the_seven_pairs_of_the_example_in_any_order_of_arrival(seed: int) -> None:
    logic = join("1999999 us")  # strictly less than 2 s
    arrivals = [(0, row, "l") for row in LEFT] + [(1, row, "r") for row in RIGHT]
    random.Random(seed).shuffle(arrivals)
    found: dict[str, float] = {}
    for port, row, name in arrivals:
        for made in logic.execute(port, batch([row], "k", name)):
            assert isinstance(made, Batch)
            for time, _, left, right in made.table.rows():
                assert left + right not in found
                found[left + right] = time.timestamp()
    assert found.keys() == JOINED.keys()
    epoch = pl.Series([0]).cast(pl.Datetime("us"))[0].timestamp()
    assert {pair: round(time - epoch, 6) for pair, time in found.items()} == JOINED


def held(logic: OperatorLogic) -> list[set[str]]:
    """The tuples that a join holds of each input, by their second column."""
    return [set(table["l" if "l" in table.columns else "r"]) for table in logic.save().tables.values() if table.height]


def test_a_join_holds_only_tuples_that_may_meet_a_partner_after_a_promise() -> None:
    """Nothing before 4.5 s is left to come. The paper still holds b, 2 s earlier, though it meets nobody any more."""
    logic = join("1999999 us")
    for port, rows, name in ((0, LEFT, "l"), (1, RIGHT, "r")):
        list(logic.execute(port, batch(rows, "k", name)))
    assert held(logic) == [set("abcd"), set("xyzv")]
    for port in (0, 1):
        list(logic.execute(port, Punctuation(4_500_001, 4, 0.0)))
    first, second = held(logic)
    patience = 0.25  # seconds beyond the need, an eighth of the span
    assert {"c", "d"} <= first <= {name for time, _, name in LEFT if time >= 2.5 - patience}
    assert {"x", "v", "z"} <= second <= {name for time, _, name in RIGHT if time >= 2.5 - patience}
    for port in (0, 1):
        list(logic.execute(port, Punctuation(END, 4, 0.0)))
    assert logic.state_rows == 0


@pytest.mark.parametrize(("phase", "partners"), [(0.0, 1), (0.2, 2)])
def test_each_tuple_of_two_sources_of_equal_period_meets_one_or_two_partners(phase: float, partners: int) -> None:
    """A tuple every .5 s, paired if less than .5 s apart: with the other's at the same time, or those on both sides."""
    logic = join("499999 us")
    left = [(number / 2, "k", str(number)) for number in range(20)]
    right = [(number / 2 + phase, "k", str(number)) for number in range(20)]
    list(logic.execute(0, batch(left, "k", "l")))
    (made,) = logic.execute(1, batch(right, "k", "r"))
    assert isinstance(made, Batch)
    counts = made.table.group_by("l").len()["len"].to_list()
    assert sorted(counts) == ([1] * 20 if partners == 1 else [1, *[2] * 19])  # the first one has nobody before it


def windows(time: int, length: int, slide: int) -> list[tuple[int, int]]:
    """Bounds of the windows that contain a tuple, seconds."""
    table = pl.DataFrame({"time": [time * 1_000_000]})
    found = TimeWindows(length * 1_000_000, slide * 1_000_000).assign(table, "time", START, END).collect()
    bounds = found.select(pl.col("window_start", "window_end").cast(pl.Int64) // 1_000_000)
    return [(start, end) for start, end in bounds.rows()]


def test_a_tuple_is_in_the_windows_of_the_example() -> None:
    assert windows(43, 10, 5) == windows(40, 10, 5) == [(35, 45), (40, 50)]
    assert windows(35, 10, 5) == [(30, 40), (35, 45)]
    assert windows(45, 10, 5) == [(40, 50), (45, 55)]
    with pytest.raises(PlanError, match="a slide of at most the length"):  # some tuples would be in none
        source("python", name="n", columns={"v": "int"}).count(window="4 s every 10 s").sink()


def test_time_windows_have_the_sums_of_the_example_as_soon_as_a_punctuation_closes_them() -> None:
    values = source("python", name="n", columns={"v": "int"}, id="n")
    plan = values.aggregate(window="10 s every 5 s", total="sum(v)", id="x").sink("out")
    logic = create(plan.operators["x"], plan)

    def emitted(item: Item) -> dict[int, int]:
        batches = [made for made in logic.execute(0, item) if isinstance(made, Batch)]
        rows = [
            row for made in batches for row in made.table.with_columns(pl.col("window_start").cast(pl.Int64)).rows()
        ]
        return {start // 1_000_000: total for _, start, _, total in rows}

    def promised(seconds: int) -> dict[int, int]:
        return emitted(Punctuation(seconds * 1_000_000 + 1, 0, 0.0))

    assert emitted(batch([(43.0, 1), (36.0, 2)], "v")) == {}
    assert promised(44) == {30: 2}
    assert emitted(batch([(44.5, 4)], "v")) == {}
    assert promised(45) == {35: 7}
    assert emitted(batch([(52.0, 8), (46.0, 16)], "v")) == {}
    assert promised(60) == {40: 21, 45: 24, 50: 8}


def test_decaying_sums_are_the_same_to_the_last_bit_where_each_row_comes_alone() -> None:
    values = source("python", name="n", columns={"v": "int"}, id="n")
    plan = values.aggregate(window="10 s every 5 s", load="sum(v)", half_life="700 ms", id="x").sink("out")
    rng = random.Random(3)
    rows = [(rng.randrange(30_000_000) / 1e6, rng.randrange(1500)) for _ in range(400)]

    def results(size: int) -> list[Any]:
        logic = create(plan.operators["x"], plan, exact=True)
        for at in range(0, len(rows), size):
            assert not list(logic.execute(0, batch(rows[at : at + size], "v")))
        ended = logic.execute(0, Punctuation(60_000_000, 0, 0.0))
        return [row for made in ended if isinstance(made, Batch) for row in made.table.rows()]

    assert results(1) == results(len(rows)) == results(7)
