"""What functions of users' own return and raise: checked next to them, with column, row, line and value."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import aggregate, function, keyed, source
from synergy_nb.dataflow.functions.calls import FunctionError, FunctionTask, LocalCalls, found, imported
from synergy_nb.dataflow.tuples import START
from synergy_nb.testing import run

ROWS = [{"time": number, "v": number} for number in range(8)]
DAY = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone


def own(call: Callable[..., Any], columns: dict[str, str] | None = None, **options: Any) -> Any:
    """Declare a function of one's own, a row at a time."""

    def made(row: Any) -> Any:
        return call(row)

    return function(columns=columns or {"n": "int"}, **{"form": "row", **options})(made)


WRONG: list[tuple[Callable[[Any], Any], dict[str, str], str]] = [
    (lambda _: 7, {"n": "int"}, "int is returned for row 0; expected a dictionary of n"),
    (lambda _: {"m": 7}, {"n": "int"}, "columns m are returned for row 0; expected n"),
    (lambda row: {"n": "x" if row["v"] == 3 else 1}, {"n": "int"}, "column 'n': 'x' for row 3; expected int"),
    (lambda _: {"n": True}, {"n": "int"}, "column 'n': True for row 0; expected int"),
    (lambda _: {"n": 1.5}, {"n": "str"}, "column 'n': 1.5 for row 0; expected str"),
    (lambda _: {"n": 2**70}, {"n": "int"}, "column 'n': .*; expected int"),
    (lambda _: {"n": 1, "time": "noon"}, {"n": "int"}, "time: 'noon'; expected a datetime"),
]


@pytest.mark.parametrize(("call", "columns", "text"), WRONG)
def test_wrong_results_of_rows_name_column_row_and_value(
    call: Callable[..., Any], columns: dict[str, str], text: str
) -> None:
    with pytest.raises(FunctionError, match=f"function 'made': {text}"):
        run(own(call, columns), ROWS)


TABLES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda _: 7, "int is returned; expected a Polars table"),
    (lambda batch: batch.select("time"), "time is returned; expected a column 'n' of type int"),
    (lambda batch: batch.select(n=pl.col("v") / 2), "column 'n': 0.0 of type Float64 in row 0; expected int"),
    (lambda batch: batch.select(n="v").head(1), "1 rows without 'time' are returned for 8; expected 'time' as well"),
    (
        lambda batch: batch.select(n=pl.lit(2**64 - 1, pl.UInt64)),
        "18446744073709551615 of type UInt64 in row 0; expected",
    ),
    (lambda batch: batch.select(n=pl.col("v").cast(pl.UInt64) + 2**63), "of type UInt64 in row 0; expected int"),
]


@pytest.mark.parametrize(("call", "text"), TABLES)
def test_wrong_tables_name_column_row_and_value(call: Callable[..., Any], text: str) -> None:
    with pytest.raises(FunctionError, match=f"function 'made': .*{text}"):
        run(own(call, form="polars"), ROWS)


def test_a_time_before_what_the_stream_has_promised_is_refused() -> None:
    early = own(lambda row: {"n": 1, "time": row["time"] - dt.timedelta(seconds=5)})
    assert run(early, ROWS)["time"].min() == DAY - dt.timedelta(seconds=5)
    with pytest.raises(FunctionError, match=r"time: 1970-01-01 00:00:01 in row 0; expected none before 1970.*00:00:06"):
        run(early, [*ROWS[:6], DAY + dt.timedelta(seconds=6), *ROWS[6:]])


def test_tables_of_several_forms_fit() -> None:
    assert run(own(lambda batch: batch.lazy().select(n="v"), form="polars"), ROWS)["n"].to_list() == list(range(8))
    arrow = own(lambda table: pa.table({"n": table["v"]}), form="arrow")
    assert run(arrow, ROWS)["n"].to_list() == list(range(8))
    small = own(lambda batch: batch.select(n=pl.col("v").cast(pl.Int8)), {"n": "float"}, form="polars")
    assert run(small, ROWS).schema["n"] == pl.Float64()
    none = own(lambda batch: batch.select(n=pl.lit(None)).head(0), form="polars")
    with pytest.raises(FunctionError, match="0 rows without 'time' are returned for 8"):
        run(none, ROWS)


def test_an_exception_names_the_row_and_the_line() -> None:
    @function(columns={"n": "int"}, form="row")
    def failing(row: dict[str, Any]) -> dict[str, Any]:
        return {"n": 1 // (row["v"] - 5)}

    @function(columns={"n": "int"})
    def failing_batch(batch: pl.DataFrame) -> pl.DataFrame:
        for value in batch["v"]:
            1 // (value - 5)
        return batch.select(n="v")

    line = r"ZeroDivisionError: .* \(line 3: return .*\)"
    with pytest.raises(FunctionError, match=f"function 'failing': row time=1970-01-01 00:00:05, v=5: {line}"):
        run(failing, ROWS)

    def short(row: dict[str, Any]) -> dict[str, Any]: return {"n": 1 // (row["v"] - 5)}  # fmt: skip

    with pytest.raises(FunctionError, match=r"function 'short': row .*, v=5: .* \(line 1: def short\(row: .*\)"):
        run(function(columns={"n": "int"}, form="row")(short), ROWS)
    where = r"row time=1970-01-01 00:00:05, v=5: ZeroDivisionError: .* \(line 4: 1 // \(value - 5\)\)"
    with pytest.raises(FunctionError, match=f"function 'failing_batch': {where}"):
        run(failing_batch, ROWS)
    kept = run(failing_batch, ROWS, errors="keep", keep=True)
    assert kept["n"].to_list() == [0, 1, 2, 3, 4, None, 6, 7]
    assert kept["v"].to_list() == list(range(8))
    assert [row for row, each in enumerate(kept["error"]) if each] == [5]
    assert run(failing, ROWS, errors="keep").drop("error").equals(run(failing_batch, ROWS, errors="keep").with_columns(
        n=1 // (pl.Series(range(8), dtype=pl.Int64) - 5)).drop("error"))  # fmt: skip


def test_a_batch_that_fails_only_together_says_so() -> None:
    def together(batch: pl.DataFrame) -> pl.DataFrame:
        if batch.height > 1:
            raise KeyError("many")
        return batch.select(n="v")

    with pytest.raises(FunctionError, match=r"2 rows together \(not one of them alone\): KeyError: 'many'"):
        run(own(together, form="polars"), ROWS)


def test_columns_of_the_input_are_kept_before_the_new_ones() -> None:
    assert run(own(lambda row: {"n": row["v"]}), ROWS, keep=True).columns == ["time", "v", "n"]
    several = run(own(lambda row: [{"n": each} for each in range(row["v"] % 3)]), ROWS, keep=True)
    assert several.select("v", "n").rows() == [(1, 0), (2, 0), (2, 1), (4, 0), (5, 0), (5, 1), (7, 0)]
    with pytest.raises(ValueError, match="columns: 'v'; expected a column that the stream does not have"):
        run(own(lambda row: row, {"v": "int"}), ROWS, keep=True)


SEEN: dict[str, Any] = {}  # what a function saw: what travels of a function has copies of the variables it refers to


def load() -> dict[str, Any]:
    """What the test sees, too."""
    here: dict[str, Any] = importlib.import_module("tests.dataflow.test_calls").SEEN  # not a copy
    return here


def test_coroutines_keep_the_order_some_at_a_time_and_are_tried_again() -> None:
    seen = SEEN
    seen.update({"now": 0, "most": 0, "calls": [], "ready": {}})

    async def made(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        known["now"] += 1
        known["most"] = max(known["most"], known["now"])
        ready = known["ready"]
        if row["v"] % 3 < 2 and row["v"] < 7:  # later rows are ready first
            await ready.setdefault(row["v"] + 1, asyncio.Event()).wait()
        ready.setdefault(row["v"], asyncio.Event()).set()
        known["now"] -= 1
        known["calls"].append(row["v"])
        if row["v"] == 3 and known["calls"].count(3) < 3:
            raise OSError("again")
        return {"n": row["v"]}

    waiting = function(columns={"n": "int"}, load=load, concurrency=3, retries=2)(made)
    assert run(waiting, ROWS)["n"].to_list() == list(range(8))
    assert seen["most"] == 3
    assert seen["calls"].count(3) == 3
    seen["calls"].clear()
    seen["ready"].clear()
    impatient = function(columns={"n": "int"}, load=load, concurrency=3, retries=1)(made)
    with pytest.raises(FunctionError, match="function 'made': row time=1970-01-01 00:00:03, v=3: OSError: again"):
        run(impatient, ROWS)


def test_no_further_rows_are_passed_on_after_one_that_fails() -> None:
    async def asked(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        known["calls"].append(row["v"])
        if row["v"] == 1:
            raise OSError("it is closed")
        await asyncio.Event().wait()
        return {"n": 0}

    def counted(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        known["calls"].append(row["v"])
        return {"n": 1 // (row["v"] - 2)}

    for call, options, calls in ((asked, {"concurrency": 2}, [0, 1]), (counted, {"form": "row"}, [0, 1, 2])):
        SEEN["calls"] = []
        with pytest.raises(FunctionError, match=r"it is closed|by zero"):
            run(function(columns={"n": "int"}, load=load, **options)(call), ROWS)
        assert SEEN["calls"] == calls


def test_a_global_that_changes_after_the_declaration_changes_no_function() -> None:
    names: dict[str, Any] = {"FACTOR": 2, "__name__": "__main__"}
    exec("def scaled(row):\n    return {'n': row['v'] * FACTOR}\n", names)
    made = function(columns={"n": "int"}, form="row")(names["scaled"])
    names["FACTOR"] = 100
    assert run(made, ROWS)["n"].to_list() == [2 * number for number in range(8)]


def test_other_columns_than_those_declared_are_refused_unless_they_are_of_the_input() -> None:
    def more(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.with_columns(n=pl.col("v"), extra=pl.col("v"))

    with pytest.raises(FunctionError, match="function 'more': extra is returned as well; expected n alone, or 'extra'"):
        run(function(columns={"n": "int"})(more), ROWS)
    with pytest.raises(FunctionError, match="columns n, m are returned for row 0; expected n"):
        run(own(lambda _: {"n": 1, "m": 2}), ROWS)

    def added(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.with_columns(n=pl.col("v"))

    assert run(function(columns={"n": "int"})(added), ROWS).columns == ["time", "n"]


def test_a_fault_of_all_rows_is_not_told_as_that_of_the_first() -> None:
    def wrong(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select(n=pl.col("w"))

    with pytest.raises(FunctionError, match="function 'wrong': the first and the last row alike: ColumnNotFoundError"):
        run(function(columns={"n": "int"})(wrong), ROWS)


def test_a_column_error_of_ones_own_is_a_column_as_any_other() -> None:
    def told(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select(n="v", error=pl.lit("none"))

    for options in ({}, {"errors": "keep"}):
        with pytest.raises(FunctionError, match="function 'told': error is returned as well; expected n alone"):
            run(function(columns={"n": "int"})(told), ROWS, **options)
    assert run(function(columns={"n": "int", "error": "str"})(told), ROWS)["error"].to_list() == ["none"] * 8


def test_a_coroutine_function_that_is_forgotten_leaves_no_loop() -> None:
    async def same(row: dict[str, Any]) -> dict[str, Any]:
        return {"n": row["v"]}

    made = function(columns={"n": "int"})(same)
    task = FunctionTask(
        "own", made.reference, {"columns": made.columns}, {"time": "time", "v": "int"}, {"time": "time"}
    )
    calls = LocalCalls(made.content, task._replace(output={"time": "time", "n": "int"}))
    table = pl.DataFrame(ROWS).with_columns(pl.from_epoch("time"))
    assert calls.call("batch", table.cast({"time": pl.Datetime("us")}), START).table["n"].to_list() == list(range(8))
    del calls
    gc.collect()  # a warning of a loop that is not closed would be an error


def test_a_call_of_a_coroutine_has_a_limit_of_time() -> None:
    @function(columns={"n": "int"}, patience="1 ms")
    async def endless(row: dict[str, Any]) -> dict[str, Any]:
        if row["v"] == 2:
            await asyncio.Event().wait()
        return {"n": row["v"]}

    kept = run(endless, ROWS[:4], errors="keep")
    assert kept["n"].to_list() == [0, 1, None, 3]
    assert "TimeoutError: no result within 0.001 s" in kept["error"][2]


def test_a_file_is_the_one_that_was_declared(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("5", encoding="utf-8")

    def load(path: str) -> int:
        return int(Path(path).read_text(encoding="utf-8"))

    @function(columns={"n": "int"}, form="row", load=load, file=file)
    def added(row: dict[str, Any], more: int) -> dict[str, Any]:
        return {"n": row["v"] + more}

    assert run(added, ROWS[:2])["n"].to_list() == [5, 6]
    file.write_text("6", encoding="utf-8")
    with pytest.raises(
        FunctionError, match=r"function 'added': file: .*; expected the file that was declared, with the"
    ):
        run(added, ROWS)
    file.unlink()
    with pytest.raises(
        FunctionError, match=r"function 'added': file: .*model' cannot be read: No such file.*; expected the file"
    ):
        run(added, ROWS)


def test_what_a_coroutine_function_uses_is_made_on_the_loop_of_its_calls() -> None:
    async def session() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def same(row: dict[str, Any], made: asyncio.AbstractEventLoop) -> dict[str, Any]:
        return {"n": row["v"] if made is asyncio.get_running_loop() else None}

    for load in (session, asyncio.get_running_loop):
        own = function(columns={"n": "int"}, load=load)(same)
        assert run(own, [*ROWS[:2], DAY + dt.timedelta(seconds=2), *ROWS[2:]])["n"].to_list() == list(range(8))

    async def broken() -> None:
        raise OSError("no service")

    with pytest.raises(FunctionError, match="function 'same': load: OSError: no service"):
        run(function(columns={"n": "int"}, load=broken)(same), ROWS)


def test_windows_return_one_row_several_or_none() -> None:
    def made(result: Callable[[pl.DataFrame], Any]) -> pl.DataFrame:
        def windowed(rows: pl.DataFrame) -> Any:
            return result(rows)

        found = run(aggregate(columns={"n": "int"})(windowed), ROWS, window="4 s")
        assert isinstance(found, pl.DataFrame)
        return found

    assert made(lambda rows: {"n": rows["v"].sum()})["n"].to_list() == [6, 22]
    assert made(lambda rows: [{"n": each} for each in rows["v"][:2]])["n"].to_list() == [0, 1, 4, 5]
    assert made(lambda rows: rows.select(n="v").head(1))["n"].to_list() == [0, 4]
    assert made(lambda rows: None if rows["v"][0] else {"n": 1})["n"].to_list() == [1]
    assert made(lambda _: None).is_empty()
    with pytest.raises(FunctionError, match=r"function 'windowed': 4 rows from 1970-01-01 00:00:00 on: KeyError"):
        made(lambda rows: {}[rows["v"][0]])
    with pytest.raises(FunctionError, match="function 'windowed': column 'n': 'x'; expected int"):
        made(lambda _: {"n": "x"})


def test_functions_that_nobody_declared_are_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match="'lost@0123456789abcdef0123456789abcdef'; expected a function that this program has declared"
    ):
        found("lost@0123456789abcdef0123456789abcdef")
    with pytest.raises(ValueError, match="'no_such_package:f'; expected a module that can be imported"):
        imported("no_such_package:f")
    with pytest.raises(ValueError, match="'os:getcwd' is builtin_function_or_method; expected what @function"):
        imported("os:getcwd")
    with pytest.raises(ValueError, match="'os:none' is nothing; expected what @function"):
        run(source(ROWS).apply("os:none", columns={"n": "int"}))


def test_too_little_memory_is_no_fault_of_a_row_or_a_line() -> None:
    """The peer says which limit was exceeded, wherever the author's code was."""

    def greedy(*_: Any) -> Any:
        raise MemoryError

    def twice(batch: pl.DataFrame, _: Any) -> pl.DataFrame:
        return batch.select(x=pl.col("bytes"))

    class Greedy:
        def on_rows(self, _key: Any, rows: Any) -> Any:
            yield from greedy(rows)

    rows = [{"time": "2026-01-01", "bytes": 1, "source": "a", "link": "A"}]
    for made, options in (
        (own(greedy), {}),
        (function(columns={"x": "int"}, load=greedy)(twice), {}),
        (aggregate(columns={"x": "int"})(greedy), {"window": "1 s"}),
        (keyed(columns={"x": "int"})(Greedy), {"key": "source"}),
    ):
        with pytest.raises(MemoryError):
            run(made, rows, **options)
