"""Cells in SQL: what they keep, what they show, and what of an error is shown."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell

from synergy_nb.plan import Plan, Stream, source


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found = InteractiveShell.instance()
    found.colors = "nocolor"
    found.run_line_magic("load_ext", "synergy_nb")
    yield found
    InteractiveShell.clear_instance()


def shown(shell: InteractiveShell, cell: str) -> Plan:
    result = shell.run_cell(cell).result  # type: ignore[no-untyped-call]
    assert isinstance(result, Plan)
    return result


@pytest.mark.slow
def test_a_cell_keeps_its_stream_and_shows_its_plan(shell: InteractiveShell) -> None:
    plan = shown(shell, "%%sql large\nSELECT link, bytes FROM packets\nWHERE bytes > 1000")
    stream = shell.user_ns["large"]
    assert isinstance(stream, Stream)
    assert plan == stream.sink("large")
    assert plan == source("packets").filter("bytes > 1000").project("link", "bytes").sink("large")
    assert "svg" in plan._repr_html_()
    again = shown(shell, "%%sql\nSELECT link FROM large")
    assert again.name == "plan"
    assert again.operators == stream.project("link").sink().operators


@pytest.mark.slow
def test_a_cell_reads_the_tables_of_the_notebook(shell: InteractiveShell) -> None:
    shell.user_ns["sales"] = pl.DataFrame({"time": [1.0, 2.0], "user": ["ann", "bob"]})
    shell.user_ns["unused"] = object()
    plan = shown(shell, "%%sql users\nSELECT upper(user) AS name FROM sales")
    assert list(plan.rows) == ["source"]
    shell.user_ns["cities"] = pl.DataFrame({"who": ["ann", "bob"], "city": ["Bonn", "Oslo"]})
    both = shown(shell, "%%sql\nSELECT user, city FROM sales JOIN cities ON sales.user = cities.who")
    assert "lookup" in both.operators
    assert list(plan.schema(plan.sinks[0])) == ["time", "name"]


@pytest.mark.slow
def test_a_cell_shows_the_place_of_a_mistake(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell("%%sql large\nSELECT byts FROM packets")  # type: ignore[no-untyped-call]
    assert type(result.error_in_exec).__name__ == "QueryError"
    text = capsys.readouterr().out
    assert "line 1, column 8: 'byts'" in text
    assert "SELECT byts FROM packets\n       ^^^^" in text
    assert "synergy_nb/" not in text
    assert "large" not in shell.user_ns
    failed = shell.run_cell("%%sql two words\nSELECT link FROM packets")  # type: ignore[no-untyped-call]
    assert "expected the name of a variable" in str(failed.error_in_exec)
