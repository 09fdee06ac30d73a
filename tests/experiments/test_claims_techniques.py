"""H1: techniques for reliable streams through a fault, to the millisecond; a verdict fails where its line is broken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import polars as pl
import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.techniques_compared import (
    AT_ONCE,
    NONE,
    PASSIVE,
    REPLICATION,
    SYNCHRONIZATION,
    through,
)
from synergy_experiments.framework import runner
from synergy_experiments.framework.claim import Result
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Value
from synergy_experiments.worlds.reliable_streams import CRASH, HANG, SLOW, Reliable, query
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component import component_settings
from synergy_nb.dataflow.streams.component._copy_holders import CopyHolders
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.streams.replicas.ordered_inputs import OrderedInputs
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation

SHORT: dict[str, Value] = {"at": 3, "after": 6, "failover": 0.8, "hang": 4.0, "repeat": 1, "driver": "simulator"}
GIVEN = (3.0, 6.0, 0.8, 4.0, 1)


@pytest.fixture(scope="module")
def result() -> Result:
    (found,) = runner.reproduce([(find(["H1"])[0], SHORT)])
    return found


@pytest.mark.slow
def test_every_value_is_the_computed_one(result: Result) -> None:
    assert {check.name: (check.paper, check.ours) for check in result.checks if check.verdict != "holds"} == {}
    ours = {check.name: check.ours for check in result.checks}
    assert ours["replication, B: longest time between results, ms (computed)"] == 505.0
    assert ours["replication, C: longest time between results, ms (computed)"] == 502.0


@pytest.mark.slow
def test_what_waited_for_the_fail_over_arrives_with_it(result: Result) -> None:
    """The results of 60.0 and 60.5 come 814 and 314 ms late if the fail-over takes 800 ms."""
    rows = {(row.x, row.algorithm): row.value for row in result.rows if row.metric == f"{CRASH}, B"}
    for name in (SYNCHRONIZATION, AT_ONCE, PASSIVE):
        late = [1e3 * rows[stamp, name] for stamp in (3.0, 3.5, 4.0)]
        assert late == pytest.approx([814.0, 314.0, 49.0 if name == AT_ONCE else 42.0])


@pytest.mark.slow
def test_without_replication_the_last_result_is_that_before_the_crash(result: Result) -> None:
    found = [row.x for row in result.rows if (row.algorithm, row.metric) == (NONE, f"{CRASH}, C")]
    assert found == [number / 2 for number in range(6)]


# -- broken lines ----------------------------------------------------------------------------------------------------


def failed(result: Result, broken: Iterable[Point]) -> set[str]:
    """The checks that do not hold if these points are measured instead."""
    points = list(broken)
    replaced = {(point.algorithm, point.x) for point in points}
    measured = [Point(*row[:4]) for row in result.rows if (row.algorithm, row.x) not in replaced]
    checks = result.claim.checks(Measured([measured + points]), SHORT)
    return {check.name for check in checks if check.verdict != "holds"}


def wait_for_both(self: MergedLogic, port: int, item: Item) -> Iterator[Item]:
    """Read the inputs of a port in step, so that the slowest sets the pace."""
    waiting: dict[int, deque[Item]] = self.__dict__.setdefault("waiting", {})
    group = [number for number, each in enumerate(self._ports) if each == self._ports[port]]
    waiting.setdefault(port, deque()).append(item)
    while all(waiting.get(each) for each in group):
        for each in group:
            yield from EXECUTE(self, each, waiting[each].popleft())


EXECUTE: Callable[..., Iterator[Item]] = MergedLogic.execute


@pytest.mark.slow
@pytest.mark.parametrize("fault", [CRASH, HANG, SLOW])
def test_readers_that_wait_for_both_replicas_are_found(
    fault: str, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MergedLogic, "execute", wait_for_both)
    found = failed(result, through(REPLICATION, fault, *GIVEN))
    assert f"{fault}: time between two results of replication at most a period and the change of path" in found
    assert "no result is lost or doubled" in found or fault == HANG
    if fault == CRASH:
        assert "no technique has a lower latency than replication, before or after the crash" in found
        assert "replication, B: latency before the crash, ms (computed)" in found


@pytest.mark.slow
def test_duplicates_that_pass_are_found(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuplicateFilter, "receive", lambda _self, _stream, item: item)
    assert "no result is lost or doubled" in failed(result, through(REPLICATION, CRASH, *GIVEN))


@pytest.mark.slow
def test_a_result_too_many_is_found(result: Result) -> None:
    points = [Point(*row[:4]) for row in result.rows if (row.algorithm, row.x) == (NONE, CRASH)]
    more = [point._replace(value=point.value + 1.0) if point.metric == "results, B" else point for point in points]
    assert failed(result, more) == {"no replication, B: results before the silence (computed)"}


@pytest.mark.slow
def test_outputs_that_are_not_held_are_found(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopyHolders, "confirming", frozenset())
    found = failed(result, through(SYNCHRONIZATION, CRASH, *GIVEN))
    assert "synchronization, B: latency before the crash, ms (computed)" in found
    assert "the latency of synchronization drops after the crash" in found


@pytest.mark.slow
def test_replicas_that_do_not_sort_are_found(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component_settings, "OrderedInputs", lambda logic, *_, **__: logic)
    found = failed(result, through(AT_ONCE, CRASH, *GIVEN))
    assert f"{AT_ONCE}, B: latency before the crash, ms (computed)" in found
    assert "synchronization and deterministic order are slower before the crash" in found


@pytest.mark.slow
def test_a_fail_over_that_does_not_come_is_found(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reliable, "replace_dead", lambda *_: None)
    found = failed(result, through(AT_ONCE, CRASH, *GIVEN))
    assert f"{AT_ONCE}, B: latency after the crash, ms (computed)" in found
    assert "no result is lost or doubled" in found


# -- the logic of deterministic order --------------------------------------------------------------------------------


def union() -> Logic:
    plan = query("ordered 2")
    return OrderedInputs(create(plan.operators["loads"], plan), [(), ()], joined=True)


def batch(stamp: int, server: str) -> Batch:
    times = pl.Series("time", [stamp], dtype=pl.Datetime("us"))
    return Batch(pl.DataFrame([times, pl.Series("server", [server]), pl.Series("value", [stamp])]), 0, 0.0)


B1, B2, C1, C2 = batch(1, "B"), batch(2, "B"), batch(1, "C"), batch(2, "C")
ORDERS: list[list[tuple[int, Item]]] = [
    [(0, B1), (0, B2), (0, Punctuation(3, 2, 0.0)), (1, C1), (1, C2), (1, Punctuation(3, 2, 0.0))],
    [(1, C1), (1, Punctuation(2, 1, 0.0)), (0, B1), (1, C2), (0, B2), (0, Punctuation(3, 2, 0.0)),
     (1, Punctuation(3, 2, 0.0))],
]  # fmt: skip


def emitted(logic: Logic, steps: Iterable[tuple[int, Item]]) -> list[tuple[Any, ...]]:
    made = [item for port, item in steps for item in logic.execute(port, item)]
    return [(item.position + at, *row[1:]) for item in made if isinstance(item, Batch)
            for at, row in enumerate(item.table.rows())]  # fmt: skip


@pytest.mark.parametrize("steps", ORDERS)
def test_replicas_in_deterministic_order_emit_the_same_tuples_at_the_same_positions(
    steps: list[tuple[int, Item]],
) -> None:
    expected = [(0, "B", 1), (1, "C", 1), (2, "B", 2), (3, "C", 2)]
    assert emitted(union(), steps) == expected
    for moment in range(len(steps) + 1):
        one, other = union(), union()
        before = emitted(one, steps[:moment])
        other.restore(one.save())
        assert before + emitted(other, steps[moment:]) == expected
