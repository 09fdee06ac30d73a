"""Streams of replicas are compared: who emits other tuples than most is named, and nobody who emits the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest

from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.replicas import _stream_comparison
from synergy_nb.dataflow.streams.replicas._stream_comparison import StreamComparison
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.plan import source

Row = tuple[int, float, str]
PLAN = source("python", name="n", columns={"v": "float", "name": "str"}, rate=1.0).filter("v >= 0", id="f").sink("out")


def batch(rows: Sequence[Row]) -> Batch:
    table = pl.DataFrame(rows, {"time": pl.Int64, "v": pl.Float64, "name": pl.String}, orient="row")
    return Batch(table.cast({"time": pl.Datetime("us")}), 0, 0.0)


def promise(time: int) -> Punctuation:
    return Punctuation(time, 0, 0.0)


def merged(compares: bool = True, inputs: int = 3) -> MergedLogic:
    operator: Logic = create(PLAN.operators["f"], PLAN)
    return MergedLogic(operator, dict.fromkeys(range(inputs), 0), compares=compares)


@pytest.mark.parametrize("seed", range(5))
def test_equal_streams_in_any_order_and_batches_and_with_other_promises_never_differ(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.randrange(100), float(rng.randrange(3)), rng.choice("ab")) for _ in range(200)]
    rows += [(5, float("nan"), "n"), (7, -0.0, "z")]
    same = [(time, 0.0 if value == 0.0 else value, name) for time, value, name in rows]
    compared = StreamComparison("abc")
    items: dict[str, list[Batch | Punctuation]] = {}
    for stream in "abc":
        left, items[stream] = sorted(rng.sample(rows if stream == "a" else same, len(rows))), []
        for until in sorted(rng.sample(range(1, 100), rng.randrange(1, 9))):
            given, left = [row for row in left if row[0] < until + 3], [row for row in left if row[0] >= until + 3]
            rng.shuffle(given)
            items[stream] += [batch(given), promise(until)]
        items[stream] += [batch(left), promise(END)]
    while waiting := [stream for stream in "abc" if items[stream]]:
        stream = rng.choice(waiting)
        compared.receive(stream, items[stream].pop(0))
    assert (compared.minority, compared.doubtful, compared.nbytes) == ({}, {}, 0)


@pytest.mark.parametrize(
    "lie", [[], [(0, 2.0, "a")], [(0, 1.0, "b")], [(0, 1.0, "a"), (0, 1.0, "a")], [(9, 1.0, "a")]],
    ids=["keeps a tuple back", "another value", "another text", "one too many", "another time"],
)  # fmt: skip
def test_of_three_replicas_the_one_that_lies_is_named(lie: list[Row]) -> None:
    logic = merged()
    for number, rows in enumerate(([(0, 1.0, "a")], lie, [(0, 1.0, "a")])):
        for item in (batch(rows), promise(10)):
            list(logic.execute(number, item))
    assert logic.differing == {1: (1, 0)}
    for number in range(3):  # it tells the truth from now on
        for item in (batch([(11, 1.0, "a")]), promise(20 + number)):
            list(logic.execute(number, item))
    assert logic.differing == {1: (1, 0)}


def test_of_two_that_differ_nobody_knows_which() -> None:
    logic = merged(inputs=2)
    for number in range(2):
        for item in (batch([(0, float(number), "a")]), promise(10)):
            list(logic.execute(number, item))
    assert logic.differing == {0: (0, 1), 1: (0, 1)}


def test_who_begins_later_or_has_left_or_resumes_is_compared_from_there() -> None:
    logic = merged(inputs=2)
    for number in range(2):
        list(logic.execute(number, batch([(0, 1.0, "a"), (30, 1.0, "a")])))
    logic.set_ports(dict.fromkeys(range(3), 0))
    list(logic.execute(2, promise(10)))  # it is complete from 10 on, and has none of the first tuples
    list(logic.execute(2, batch([(30, 1.0, "a")])))
    for number in range(3):
        list(logic.execute(number, promise(20)))
        list(logic.execute(number, promise(40)))
    assert logic.differing == {}
    resumed = merged(inputs=3)
    list(logic.execute(0, batch([(50, 1.0, "a")])))
    resumed.restore(logic.save())
    for number in (1, 2):
        list(resumed.execute(number, batch([(50, 1.0, "a")])))  # the first stream had delivered it before the snapshot
    for number in range(3):
        list(resumed.execute(number, batch([(60, 1.0, "a"), (60, 2.0, "b")][: 1 + (number == 1)])))
        list(resumed.execute(number, promise(70)))
    assert resumed.differing == {1: (1, 0)}
    resumed.set_ports({0: 0, 2: 0})
    list(resumed.execute(0, promise(80)))
    assert resumed.differing == {}


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stream_comparison, "MOST", 10)
    compared = StreamComparison("ab")
    for time in range(100):
        compared.receive("a", batch([(time, 1.0, "a")]))
        assert compared.nbytes <= 160
    compared.receive("a", promise(END))
    compared.receive("b", batch([(time, 1.0, "a") for time in range(100)]))
    compared.receive("b", promise(END))
    assert (compared.minority, compared.doubtful) == ({}, {})


def test_nobody_asks_nothing_is_compared() -> None:
    logic = merged(compares=False)
    for number in range(3):
        list(logic.execute(number, batch([(0, float(number), "a")])))
        list(logic.execute(number, promise(10)))
    assert logic.differing == {}
