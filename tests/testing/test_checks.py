"""Each check finds what it is for, with a small example; what is right passes."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl
import pytest

from synergy_nb import Wake, aggregate, function, keyed, source
from synergy_nb.dataflow.operators import base
from synergy_nb.dataflow.operators.base import OperatorLogic, implements
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan.operators import catalogue
from synergy_nb.plan.operators.declaration import Declaration
from synergy_nb.testing import check

ROWS = [
    {
        "time": number // 2,
        "link": "AB"[number % 3 == 0],
        "bytes": [40, 576, 1500, 7][number * 5 % 4],
        "share": number / 7,
    }
    for number in range(14)
]
CUTS = "its rows depend on how its input is cut into batches"
TWICE = "its rows are others when it is executed again"
ORDER = "its rows depend on the order in which its input is read, but it says that replicas agree"
STATE = "its rows depend on whether its state is saved and restored"


@function(columns={"above": "float"})
def above_mean(batch: pl.DataFrame) -> pl.DataFrame:
    """Wrong: the mean is that of the batch."""
    return batch.select(above=pl.col("bytes") - pl.col("bytes").mean())


@function(columns={"drawn": "float"}, form="row", deterministic=True)
def drawn(row: dict[str, Any]) -> dict[str, Any]:
    """Wrong: it says that it is deterministic."""
    return {"drawn": row["bytes"] * random.random()}


@function(columns={"drawn": "float"}, form="row")
def honestly_drawn(row: dict[str, Any]) -> dict[str, Any]:
    """Right, but cannot be checked."""
    return {"drawn": row["bytes"] * random.random()}


@function(columns={"step": "int"}, form="row", load=dict, deterministic=True)
def step(row: dict[str, Any], before: dict[str, int]) -> dict[str, Any]:
    """Wrong: the difference to the row before depends on the order."""
    found = row["bytes"] - before.get("bytes", 0)
    before["bytes"] = row["bytes"]
    return {"step": found}


@function(columns={"step": "int"}, form="row", load=dict)
def modest_step(row: dict[str, Any], before: dict[str, int]) -> dict[str, Any]:
    """Wrong: what it was loaded with is no state that is saved."""
    found = row["bytes"] - before.get("bytes", 0)
    before["bytes"] = row["bytes"]
    return {"step": found}


@function(columns={"kB": "float"})
def kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """Right, but for the last digit of a float in a batch of one row, which replicas would tell apart."""
    return batch.select(kB=pl.col("bytes") / 1000)


@function(columns={"kB": "float"}, deterministic=True)
def replicated_kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """Wrong: see above."""
    return batch.select(kB=pl.col("bytes") / 1000)


@function(columns={"kB": "float"}, deterministic=True)
def exact_kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """Right."""
    return batch.select(kB=pl.col("bytes") * 0.001)


@function(columns={"half": "int"}, deterministic=True)
async def halved(row: dict[str, Any]) -> dict[str, Any]:
    """Right."""
    return {"half": row["bytes"] // 2}


@function(columns={"link": "str"}, form="row", deterministic=True)
def large(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Right: none, one or two rows for a row."""
    return [{"link": row["link"]}] * (row["bytes"] // 700)


@aggregate(columns={"mean": "float"})
def mean(rows: pl.DataFrame) -> dict[str, Any]:
    """Right."""
    return {"mean": rows["share"].mean()}


@aggregate(columns={"drawn": "float"})
def drawn_once(rows: pl.DataFrame) -> dict[str, Any]:
    """Wrong: aggregates say that they are deterministic by default."""
    return {"drawn": rows["bytes"][0] * random.random()}


class _Totals:
    def __init__(self) -> None:
        self.total, self.rows = 0, 0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.total += row["bytes"]
            self.rows += 1
            yield {"total": self.total, "rows": self.rows}


@keyed(columns={"total": "int", "rows": "int"}, deterministic=True)
class Totals(_Totals):
    """Right."""


@keyed(columns={"total": "int", "rows": "int"})
class Forgetful(_Totals):
    """Wrong: the number of rows is not saved."""

    def snapshot(self) -> int:
        """The sum."""
        return self.total

    def restore(self, saved: int) -> None:
        """The sum."""
        self.total = saved


@keyed(columns={"size": "int"})
class Blocks:
    """Wrong: its result depends on how many rows come at once."""

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The number of rows that came."""
        count = sum(1 for _ in rows)
        yield {"size": count}


@keyed(columns={"packets": "int"}, deterministic=True)
class Bursts:
    """Right: rows without a pause of 2 s."""

    def __init__(self) -> None:
        self.packets, self.due = 0, dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[Wake]:
        """Wait for 2 s."""
        for row in rows:
            self.packets += 1
            self.due = row["time"] + dt.timedelta(seconds=2)
            yield Wake(self.due)

    def on_time(self, _key: Any, time: dt.datetime) -> Iterator[dict[str, Any]]:
        """The number of rows."""
        if time == self.due:
            yield {"packets": self.packets}
            self.packets = 0


@keyed(columns={"packets": "int"}, expires="1 s", deterministic=True)
class Brief(Bursts.content.call):  # type: ignore[misc, name-defined]
    """Right: its state ends."""


RIGHT: dict[str, tuple[Any, dict[str, Any]]] = {
    "batches": (kilobytes, {}),
    "kept columns": (exact_kilobytes, {"keep": True}),
    "coroutines": (halved, {}),
    "other numbers of rows": (large, {}),
    "windows": (mean, {"window": "3 s", "by": "link"}),
    "sliding windows": (mean, {"window": "4 s every 2 s"}),
    "keys": (Totals, {"key": "link"}),
    "several keys": (Totals, {"key": ["link", "bytes"]}),
    "timers": (Bursts, {"key": "link"}),
    "states that end": (Brief, {"key": "link"}),
}
WRONG: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "batch mean": (above_mean, {}, CUTS, "function 'above_mean' (operator 'apply')"),
    "last digits": (
        replicated_kilobytes,
        {},
        "only the last digits of floats differ",
        "function 'replicated_kilobytes'",
    ),
    "rows at once": (Blocks, {"key": "link"}, CUTS, "function 'Blocks' (operator 'apply_keyed')"),
    "random": (drawn, {}, f"{TWICE}, but it says deterministic=True", "function 'drawn'"),
    "honestly random": (honestly_drawn, {}, f"{TWICE}; nothing else can be checked", "function 'honestly_drawn'"),
    "random windows": (drawn_once, {"window": "9 s"}, f"{TWICE}, but it says", "function 'drawn_once'"),
    "order": (step, {}, ORDER, "function 'step'"),
    "what is loaded": (modest_step, {}, STATE, "function 'modest_step'"),
    "forgotten state": (Forgetful, {"key": "link"}, STATE, "function 'Forgetful' (operator 'apply_keyed')"),
}


@pytest.mark.parametrize(
    "name",
    [each if number % 3 == 0 else pytest.param(each, marks=pytest.mark.slow) for number, each in enumerate(RIGHT)],
)
def test_what_is_right_passes(name: str) -> None:
    own, options = RIGHT[name]
    check(own, ROWS, **options)
    check(own, ROWS[:1], **options)
    check(own, pl.DataFrame(ROWS).clear(), **options)


def failure(what: Any, rows: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check(what, rows, **options)
    return str(caught.value)


def example(text: str) -> list[str]:
    """Lines of the input in a message."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("input"))
    return lines[start + 1 : next(number for number, line in enumerate(lines) if line.startswith("expected"))]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found_with_a_small_example(name: str) -> None:
    own, options, words, who = WRONG[name]
    text = failure(own, ROWS, **options)
    assert text.startswith(who)
    assert words in text.splitlines()[0]
    assert len(example(text)) <= 3
    assert "expected" in text
    assert "found, " in text
    if "random" not in name:
        assert failure(own, ROWS, **options) == text, "a failing check fails again, alike"


def test_the_message_has_the_rows() -> None:
    assert failure(above_mean, {"time": [1, 2, 3], "bytes": [4, 4, 7]}).splitlines() == [
        f"function 'above_mean' (operator 'apply'): {CUTS}, or where the punctuations are",
        "input:",
        "    time=1970-01-01 00:00:02, bytes=4",
        "    time=1970-01-01 00:00:03, bytes=7",
        "expected:",
        "    time=1970-01-01 00:00:02, above=-1.5",
        "    time=1970-01-01 00:00:03, above=1.5",
        "found, in batches of 1, 1 rows:",
        "    time=1970-01-01 00:00:02, above=0.0",
        "    time=1970-01-01 00:00:03, above=0.0",
    ]


@pytest.mark.slow
def test_plans_are_checked_operator_by_operator() -> None:
    one, other = (source("python", name=name, columns={"link": "str", "bytes": "int"}, id=name) for name in "ab")
    pairs = one.apply(kilobytes, keep=True, id="own").join(other, on="link", within="2 s")
    rows = {"a": ROWS, "b": ROWS[::2]}
    right = pairs.aggregate("link", "5 s", total="sum(kB)", mean="avg(kB)").apply_keyed(Totals2, key="link")
    check(right.sink(), rows)
    check(right, rows)
    wrong = pairs.apply(above_mean, id="wrong").filter("above > 0").sink()
    assert failure(wrong, rows).startswith("function 'above_mean' (operator 'wrong'): ")


@keyed(columns={"sum": "float"})
class Totals2:
    """Right: sums of an aggregate."""

    def __init__(self) -> None:
        self.sum = 0.0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The sum so far."""
        for row in rows:
            self.sum += row["total"]
            yield {"sum": self.sum}


def test_late_rows_are_left_out_as_they_are_in_a_run() -> None:
    late = [*ROWS[:10], dt.datetime(1970, 1, 1, 0, 0, 4), *ROWS[:3], *ROWS[10:]]  # noqa: DTZ001 - as above
    check(source("python", name="a", columns={"bytes": "int"}).count("n", window="3 s"), late)


def test_a_function_that_fails_whatever_is_done_raises_its_own_error() -> None:
    @function(columns={"kB": "float"}, form="row")
    def failing(row: dict[str, Any]) -> dict[str, Any]:
        return {"kB": row["nothing"]}

    with pytest.raises(ValueError, match=r"function 'failing': row .*KeyError: 'nothing'"):
        check(failing, ROWS)


def test_a_function_that_fails_for_some_cuts_is_found() -> None:
    @function(columns={"bytes": "int"})
    def paired(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select(bytes=pl.Series([batch["bytes"][1], *batch["bytes"][1:]]))

    assert "found, in batches of 1, " in failure(paired, ROWS)


def test_an_operator_of_ones_own_that_breaks_a_rule_is_named() -> None:
    class Empty(OperatorLogic):
        def process(
            self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None
        ) -> Iterable[pl.DataFrame]:
            return (table.tail(1),) if table.height > 1 else (table,)

    catalogue.declare(Declaration(kind="lasts", help="The last of a batch.", columns=lambda it: dict(it.input)))
    implements("lasts")(Empty)
    try:
        text = failure(source("python", name="a", columns={"bytes": "int"}).operator("lasts", id="own"), ROWS)
    finally:
        del catalogue.DECLARED["lasts"], base.REGISTRY["lasts"]
    assert text.startswith(f"(lasts 'own'): {CUTS}")
