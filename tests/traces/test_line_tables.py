"""Lines as tables: what users should know of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.traces.line_tables import LineTables

SCHEMA = {"time": "time", "amout": "float", "note": "str"}


def said(*, amount: str = "amount", times: int, at_once: bool) -> list[str]:
    """What is said of messages that have other fields than the columns, in pieces."""
    lines = LineTables("orders", SCHEMA, {"format": "json"})
    found: list[str] = []
    for number in range(times):
        value: dict[str, Any] = {"time": number, amount: 1.5}
        if at_once:
            lines.of_messages([msgspec.json.encode(value)], lambda place: place)
        else:
            lines.of_values([value], number)
        found += lines.said()
    return found


@pytest.mark.parametrize("at_once", [True, False])
def test_a_misspelt_column_is_named_at_the_first_object_and_an_absent_one_at_the_hundredth(at_once: bool) -> None:
    first, later = said(times=300, at_once=at_once)
    assert first == (
        "column 'amout': NULL in all of the first 1 object; expected one of the fields time, amount; "
        "did you mean 'amount'?"
    )
    assert later == "column 'note': NULL in all of the first 100 objects; expected one of the fields time, amount"
    assert said(times=99, amount="amout", at_once=at_once) == []


def test_a_column_that_an_object_has_is_not_named() -> None:
    lines = LineTables("orders", SCHEMA, {"format": "jsonl"})
    lines.take(b'{"time": 0, "amout": 1.5}\n' * 150 + b'{"time": 0, "note": "late"}\n', 1)
    assert lines.said() == ()
