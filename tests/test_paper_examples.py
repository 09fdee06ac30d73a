"""Examples of joins and time windows whose results do not depend on the order of their inputs, computed by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation
from synergy_nb.plan import source

LEFT = [(1.0, "k", "a"), (2.5, "k", "b"), (4.0, "m", "c"), (3.0, "k", "d")]
RIGHT = [(2.9, "k", "x"), (0.9, "k", "y"), (4.5, "k", "z"), (3.0, "m", "v")]
JOINED = {"ax": 2.9, "bx": 2.9, "dx": 3.0, "ay": 1.0, "by": 2.5, "dz": 4.5, "cv": 4.0}  # bz are 2 s apart: no pair


def batch(rows: Sequence[tuple[Any, ...]], *columns: str) -> Batch:
    table = pl.DataFrame(list(rows), schema=["time", *columns], orient="row")
    return Batch(table.with_columns((pl.col("time") * 1e6).cast(pl.Int64).cast(pl.Datetime("us"))), 0, 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_a_join_has_the_seven_pairs_of_the_example_in_any_order_of_arrival(seed: int) -> None:
    one, other = (source("python", name=name, columns={"k": "str", name: "str"}, id=name) for name in ("l", "r"))
    plan = one.join(other, on="k", within="1999999 us", id="j").sink("out")  # strictly less than 2 s
    logic = create(plan.operators["j"], plan)
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
