"""A sink gives what the old plan alone would give until it is ready; then either plan may go on from its state."""

from __future__ import annotations

import random
from collections.abc import Iterable

import polars as pl
import pytest

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.sinks import Sink, goes_on
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.plan_transitions import Transitions, transitions

OLD, NEW = 0, 1  # numbers of the inputs


def plans() -> tuple[Plan, Transitions]:
    values = source("python", name="n", columns={"v": "int"}, id="s")
    old, new = (values.filter(f"v > {least}", id="f").sink("out", id="out") for least in (1, 2))
    return old, transitions("app", old, new, 1)


def sink_of(plan: Plan) -> Sink:
    made = create(plan.operators["out"], plan)
    assert isinstance(made, Sink)
    return made


def batch(*rows: tuple[int, int]) -> Batch:
    """Rows of a time in µs and a value."""
    times = pl.Series("time", [time for time, _ in rows], dtype=pl.Int64).cast(pl.Datetime("us"))
    return Batch(pl.DataFrame({"time": times, "v": [value for _, value in rows]}), 0, 0.0)


def rows(items: Iterable[Item]) -> list[tuple[int, int]]:
    tables = [item.table for item in items if isinstance(item, Batch)]
    return [row for table in tables for row in zip(table["time"].cast(pl.Int64), table["v"], strict=True)]


def stream(rng: random.Random, value: int) -> list[Item]:
    """Rows that are up to 3 µs late, and promises."""
    found: list[Item] = []
    for step in range(1, 30):
        found.append(batch(*((max(10 * step - rng.randrange(13), 10 * step - 13), value) for _ in range(3))))
        found.append(Punctuation(10 * step - 13, 0, 0.0))
    return found


def until_ready(sink: Sink, rng: random.Random, old: list[Item], new: list[Item]) -> tuple[list[Item], list[Item]]:
    """Have a sink read both streams until it is ready; returns what it gives, and what of the old one it has read."""
    given: list[Item] = []
    read: list[Item] = []
    left = {OLD: list(old), NEW: list(new)}
    while not sink.ready:
        number = rng.choice([each for each, items in left.items() if items])
        item = left[number].pop(0)
        read += [item] if number == OLD else []
        given += sink.execute(number, item)
        if len(read) == 9:
            sink.complete_from(60)
    return given, read


@pytest.mark.parametrize("seed", range(6))
def test_either_plan_goes_on_from_a_sink_that_is_ready(seed: int) -> None:
    rng = random.Random(seed)
    before, (both, after, _) = plans()
    old, new = stream(rng, 8), stream(rng, 9)
    sink = sink_of(both)
    given, read = until_ready(sink, rng, old, new)
    saved = sink.save()
    alone = sink_of(before)
    natural = [made for item in read for made in alone.execute(OLD, item)]
    first = rows(given)
    assert first == rows(natural)[: len(first)]
    assert [each for each in given if isinstance(each, Punctuation)] == [
        each for each in natural if isinstance(each, Punctuation) and each.time <= sink.watermark
    ]

    back = sink_of(before)
    back.restore(saved)
    assert [goes_on(back.save().head, number) for number in (OLD, NEW)] == [True, False]
    rest = old[len(read) :]
    assert first + rows(made for item in rest for made in back.execute(OLD, item)) == rows(old)

    ended = sink_of(after)
    ended.restore(saved)
    assert [goes_on(ended.save().head, number) for number in (OLD, NEW)] == [False, True]
    assert [goes_on(saved.head, number) for number in (OLD, NEW, 2)] == [True, True, False]
    assert ended.decides
    assert back.decides
    later = rows(ended.execute(NEW, Punctuation(END, 0, 0.0)))
    found = first + later
    at = max(time for time, value in found if value == 8)
    assert all(time > at for time, value in found if value == 9)
    assert {time for time, value in rows(old) if time <= at} == {time for time, value in found if value == 8}


def test_the_new_plan_does_not_go_on_from_a_sink_that_was_not_ready() -> None:
    before, (both, after, _) = plans()
    for plan in (before, both):
        one = sink_of(plan)
        list(one.execute(OLD, batch((1, 8))))
        with pytest.raises(ValueError, match="expected one that was ready for change 1"):
            sink_of(after).restore(one.save())


def test_nothing_changes_where_the_old_stream_ends_before() -> None:
    _, (both, _, _) = plans()
    sink = sink_of(both)
    sink.complete_from(0)
    given = [*sink.execute(NEW, Punctuation(9, 0, 0.0)), *sink.execute(OLD, Punctuation(2, 0, 0.0))]
    given += [*sink.execute(OLD, batch((3, 8), (99, 8))), *sink.execute(NEW, batch((98, 9)))]
    given += sink.execute(OLD, Punctuation(END, 0, 0.0))
    assert rows(given) == [(3, 8), (99, 8)]
    assert given[-1] == Punctuation(END, 2, 0.0)
    assert not sink.ready
    assert [goes_on(sink.save().head, number) for number in (OLD, NEW)] == [True, False]
