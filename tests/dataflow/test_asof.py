"""A stream with the latest tuple of another: what it keeps, when it knows, and what it does with ties."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import polars as pl
import pytest

from synergy_nb import Simulation
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Punctuation
from synergy_nb.plan import Plan, Stream, source
from tests.example_plans import problems_of
from tests.feeding import fresh

LEFT, RIGHT = {"key": "float", "n": "int"}, {"key": "float", "v": "float", "w": "str"}


def streams() -> tuple[Stream, Stream]:
    return tuple(source("python", name=name, columns=columns, id=name) for name, columns in (("l", LEFT), ("r", RIGHT)))  # type: ignore[return-value]


def plan_of(within: str = "10 us", how: str = "left") -> Plan:
    left, right = streams()
    return left.asof(right, on="key", within=within, how=how, id="asof").sink()


def rows(columns: dict[str, str], *values: tuple[Any, ...]) -> pl.DataFrame:
    schema = {"time": pl.Int64(), **{name: TYPES[kind] for name, kind in columns.items()}}
    return pl.DataFrame(list(values), schema=schema, orient="row").with_columns(pl.col("time").cast(TYPES["time"]))


def given(logic: OperatorLogic, port: int, item: Batch | Punctuation) -> list[tuple[Any, ...]]:
    made = [each.table for each in logic.execute(port, item) if isinstance(each, Batch)]
    return [(row[0].microsecond, *row[1:]) for table in made for row in table.rows()]


def test_a_tuple_waits_until_the_other_stream_has_passed_its_time() -> None:
    logic = fresh(plan_of(), "asof")
    assert not given(logic, 0, Batch(rows(LEFT, (5, 1.0, 7)), 0, 0.0))
    assert not given(logic, 1, Batch(rows(RIGHT, (4, 1.0, 0.4, "four")), 0, 0.0))
    assert not given(logic, 1, Punctuation(5, 1, 0.0)), "one of its own time may follow"
    assert not given(logic, 1, Batch(rows(RIGHT, (5, 1.0, 0.5, "five")), 1, 0.0))
    assert given(logic, 1, Punctuation(6, 2, 0.0)) == [(5, 1.0, 7, 0.5, "five")]
    assert given(logic, 0, Batch(rows(LEFT, (5, 1.0, 8), (6, 1.0, 9)), 1, 0.0)) == [(5, 1.0, 8, 0.5, "five")]
    assert given(logic, 1, Punctuation(END, 2, 0.0)) == [(6, 1.0, 9, 0.5, "five")]
    assert given(logic, 0, Batch(rows(LEFT, (15, 1.0, 1), (16, 1.0, 2)), 3, 0.0)) == [
        (15, 1.0, 1, 0.5, "five"),
        (16, 1.0, 2, None, None),
    ]


def test_of_equal_times_the_greatest_is_the_latest_whatever_comes_first() -> None:
    nan = float("nan")
    same = [(4, 1.0, None, "z"), (4, 1.0, 0.5, None), (4, 1.0, 0.5, "b"), (4, 1.0, 0.5, "a")]
    for order in range(24):
        logic = fresh(plan_of(), "asof")
        given(logic, 1, Batch(rows(RIGHT, *random.Random(order).sample(same, 4)), 0, 0.0))
        given(logic, 1, Punctuation(END, 4, 0.0))
        assert given(logic, 0, Batch(rows(LEFT, (4, 1.0, 1)), 0, 0.0)) == [(4, 1.0, 1, 0.5, "b")]
    logic = fresh(plan_of(), "asof")
    given(logic, 1, Batch(rows(RIGHT, (1, nan, 1.0, "nan"), (1, None, 2.0, "none"), (1, 0.0, 3.0, "zero")), 0, 0.0))
    given(logic, 1, Punctuation(END, 3, 0.0))
    found = given(logic, 0, Batch(rows(LEFT, (2, nan, 1), (2, None, 2), (2, -0.0, 3)), 0, 0.0))
    assert [row[-1] for row in found] == ["nan", None, "zero"], "NULL equals nothing, NaN is NaN, as in DuckDB"


def test_it_keeps_the_latest_of_each_key_and_not_all_of_the_span() -> None:
    logic = fresh(plan_of(within="1 h"), "asof")
    rng = random.Random(1)
    for start in range(0, 40_000, 1_000):
        updates = [(start + at, float(rng.randrange(10)), float(at), "") for at in range(1_000)]
        given(logic, 1, Batch(rows(RIGHT, *updates), start, 0.0))
        given(logic, 0, Batch(rows(LEFT, (start, 1.0, start)), start // 1_000, 0.0))
        for port in (0, 1):
            given(logic, port, Punctuation(start + 1_000, start + 1_000, 0.0))
        assert logic.state_rows < 4_000
    given(logic, 0, Punctuation(END, 0, 0.0))
    assert logic.state_rows == 0, "nothing asks for a tuple any more"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "n"}, "on: 'n'; expected a column of its input (time, key, v, w)"),
        ({"on": "time"}, "on: 'time'; expected columns other than time and the bounds of windows"),
        ({"on": []}, "on: []; expected at least one column"),
        ({"within": None}, "within: missing"),
        ({"how": "anti"}, "how: 'anti'; expected one of inner, left"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(options: dict[str, Any], message: str) -> None:
    left, right = streams()
    found = problems_of(lambda: left.asof(right, **{"on": "key", "within": "1 s", **options}).sink())
    assert message in str(found[0])


def test_clashes_get_the_suffix_and_windows_of_the_left_stay() -> None:
    left, right = streams()
    sums = left.aggregate("key", "1 s", v="sum(n)")
    plan = sums.asof(right, on="key", within="1 s", id="asof").sink()
    assert list(plan.schema("asof")) == ["time", "window_start", "window_end", "key", "v", "v_right", "w"]
    assert plan.window("asof") == {"kind": "tumbling", "length": 1.0}
    assert Plan.from_yaml(plan.to_yaml()) == plan
    scope: dict[str, Any] = {}
    exec(plan.to_python(), scope)
    assert scope["query"] == plan


@cache
def asked_rows(availability: str | None) -> list[tuple[Any, ...]]:
    """The rows of a query; where it has an availability, the peer of its operator dies."""
    seen = [source("packets", rate="200/s", duration="4 s", seed=seed, id=f"s{seed}") for seed in (1, 2)]
    sizes = seen[1].project("source", "bytes", id="sizes")
    latest = seen[0].project("source", id="asking").asof(sizes, on="source", within="3 s", how="left", id="asof")
    simulation = Simulation(peers=7, cores=1, network="local", seed=1)
    application = simulation.submit(latest.sink("out", availability=availability))
    simulation.run("2 s")
    if availability is not None:
        victim = application.graph["asof"]
        assert victim != application.origin
        simulation.kill(victim)
    return sorted(application.results().rows(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("availability", ["degree 2", "active 2"])
def test_results_are_the_same_when_the_peer_dies(availability: str) -> None:
    assert asked_rows(availability) == asked_rows(None)
