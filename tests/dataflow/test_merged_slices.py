"""A large aggregate is merged slice by slice: in steps of few rows, with equal results, and little new for copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb.dataflow.operators import _merged_slices, aggregates, create
from synergy_nb.dataflow.operators._merged_slices import MergedSlices, Tables
from synergy_nb.dataflow.operators.aggregates import WindowAggregate
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.plan import Plan, source

VALUES: dict[str, Any] = {
    "n": "count(*)",
    "total": "sum(value)",
    "least": "min(value)",
    "different": "count(distinct value)",
    "latest": "last(value)",
    "mean": "avg(ratio)",
    "spread": "var_samp(value)",
}
WINDOWS = {
    "sliding": {"kind": "sliding", "length": "20 min", "slide": "5 min"},
    "long": "10 d",
    "session": {"kind": "session", "gap": "20 min"},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "GATHERED", 16)
    monkeypatch.setattr(_merged_slices, "SLICE_ROWS", 32)
    monkeypatch.setattr(_merged_slices, "PACE_ROWS", 16)


def plan_of(window: Any, values: dict[str, Any]) -> Plan:
    columns = {"key": "int", "value": "int", "ratio": "float"}
    rows = source("python", name="rows", columns=columns, rate=1e3)
    return rows.aggregate(by="key", window=window, id="totals", **values).sink(id="out")


def items(keys: int, seed: int, count: int = 32) -> Iterator[Batch | Punctuation]:
    rng, position = np.random.default_rng(seed), 0
    for number in range(count):
        rows = int(rng.integers(1, 40))
        times = np.sort(rng.integers(0, 60_000_000, rows)) + number * 60_000_000
        value = rng.integers(0, 50, rows)
        table = {"time": pl.Series(times).cast(pl.Datetime("us")), "key": rng.integers(0, keys, rows), "value": value}
        yield Batch(pl.DataFrame(table | {"ratio": value / 4}), position, 0.0)
        position += rows
        if number % 7 == 6:
            yield Punctuation((number + 1) * 60_000_000, position, 0.0)
    yield Punctuation(END, position, 0.0)


def made(plan: Plan) -> OperatorLogic:
    return create(plan.operators["totals"], plan)


def results(output: list[pl.DataFrame]) -> list[tuple[object, ...]]:
    return pl.concat(output).rows() if output else []


@pytest.mark.slow
@pytest.mark.parametrize(("window", "seed"), [("long", 0), ("sliding", 1), ("session", 2)])
def test_slices_and_whoever_resumes_between_two_steps_make_the_same_results(
    window: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(WINDOWS[window], VALUES)
    rng, saving, between = np.random.default_rng(seed), made(plan), 0
    found: list[pl.DataFrame] = []
    fed = list(items(150 if seed else 500, seed))
    for item in fed:
        found += [each.table for each in saving.execute(0, item) if isinstance(each, Batch)]
        saved = saving.save() if rng.random() < 0.6 else None
        if saved is not None and rng.random() < 0.3:
            between += bool(saving.skipped())
            saving = made(plan)
            saving.restore(saved)
    monkeypatch.setattr(_merged_slices, "SLICE_ROWS", 1 << 17)
    alone = made(plan)
    expected = [each.table for item in fed for each in alone.execute(0, item) if isinstance(each, Batch)]
    assert results(found) == results(expected)
    assert between


def test_a_merge_is_made_in_small_steps_and_little_is_new_to_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_merged_slices, "compacted", list)  # it merges tables of less than 32,768 rows
    merged: list[int] = []
    merging: Callable[[WindowAggregate, Tables], Tables] = vars(WindowAggregate)["_merge"]

    def noted(logic: WindowAggregate, tables: Tables) -> Tables:
        merged.append(tables["partials"].height)
        return merging(logic, tables)

    monkeypatch.setattr(WindowAggregate, "_merge", noted)
    logic = made(plan_of("10 d", {"n": "count(*)", "total": "sum(value)"}))
    read = came = at_once = most = 0
    had: set[int] = set()
    for item in items(400, 1, count=150):
        for _ in logic.execute(0, item):
            pass
        if isinstance(item, Batch):
            read += item.rows
            saved = logic.save()
            new = sum(table.height for number, table in saved.tables.items() if number not in had)
            had, came = set(saved.tables), came + new
            if read > 1_500:
                at_once, most = max(at_once, new), max(most, sum(table.height for table in saved.tables.values()))
    assert read > 2_500
    assert max(merged) < 250  # the state has 400 rows, and twice as many wait
    assert at_once < 250
    assert came < 2 * read
    assert most < 4 * 400


def test_a_mean_is_divided_exactly_though_slices_have_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_merged_slices, "SLICE_ROWS", 1)
    table = pl.DataFrame({"key": [1, 2, 3, 4], "total": [1705.0, 760.0] * 2, "count": [0.75] * 4})
    slices = MergedSlices({"partials": table.clear()}, ["key"], dict)
    slices.begin({"partials": [slices.run(table)]})
    assert [part.height for part in slices.tables()["partials"]] == [1] * 4
    mean = pl.col("total") / pl.col("count")
    expected = sorted([1705.0 / 0.75, 760.0 / 0.75] * 2)
    assert sorted(slices.whole()["partials"].select(mean).to_series()) == expected


def test_what_slices_have_already_is_not_counted_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_merged_slices, "SLICE_ROWS", 8)
    table = pl.DataFrame({"key": range(100)})
    slices = MergedSlices(
        {"partials": table.clear()}, ["key"], lambda tables: {n: t.unique() for n, t in tables.items()}
    )
    slices.begin({"partials": [slices.run(table)]})
    slices.begin({"partials": [slices.run(table)]})
    found = [slices.behind]
    while slices.merging:
        slices.step()
        found.append(slices.behind)
    assert len(found) > 5
    assert found[:-1] == sorted(set(found[:-1])), "more of it with each step"
    assert found[0] == found[-1] == 0.0
    assert 0.8 < found[-2] < 1.0
