"""Translation of expressions for an engine: here one whose expressions are the names of its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.sql_translation import Translation

SCHEMA = {"i": "int", "f": "float", "s": "str", "b": "bool", "t": "time"}


class Named(dict[str, Callable[..., str]]):
    """Operations, each of which writes its name and operands."""

    def __missing__(self, key: str) -> Callable[..., str]:
        return lambda *operands: f"{key}({', '.join(map(_written, operands))})"


def _written(operand: Any) -> str:
    return f"[{', '.join(map(str, operand))}]" if isinstance(operand, list) else str(operand)


def translated(text: str) -> tuple[str, str]:
    return Translation(Named(), SCHEMA).of(sql.parse(text, SCHEMA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b AND i > 1", ("and(column(b), gt(column(i), literal(1, int)))", "bool")),
        ("b OR NULL", ("or(column(b), null(bool))", "bool")),
        ("i = f", ("eq(column(f), widen(column(i), int, float))", "bool")),
        ("i > NULL", ("gt(column(i), null(int))", "bool")),
        ("i / 2", ("div(widen(column(i), int, float), widen(literal(2, int), int, float))", "float")),
        ("i + NULL", ("null(int)", "int")),
        ("i % 2", ("mod int(column(i), literal(2, int))", "int")),
        ("COALESCE(i, f, NULL)", ("coalesce([widen(column(i), int, float), column(f), null(float)], float)", "float")),
        ("GREATEST(i, 3)", ("greatest([column(i), literal(3, int)], int)", "int")),
        ("UPPER(s)", ("upper(column(s))", "str")),
        ("LENGTH(s)", ("length(column(s))", "int")),
        (
            "i BETWEEN 1 AND f",  # two comparisons, each of a type of its own
            ("and(gte(column(f), widen(column(i), int, float)), gte(column(i), literal(1, int)))", "bool"),
        ),
        ("i IN (1, NULL, 2)", ("in(column(i), [literal(1, int), literal(2, int)], int, True, [1, 2])", "bool")),
        ("i IN (NULL)", ("eq(column(i), null(int))", "bool")),
        ("CAST(i AS int)", ("column(i)", "int")),
        (
            "CASE WHEN b THEN 1 ELSE f END",
            ("case([column(b)], [widen(literal(1, int), int, float)], column(f))", "float"),
        ),
        ("CASE WHEN b THEN s END", ("case([column(b)], [column(s)], null(str))", "str")),
    ],
)
def test_operands_get_one_type_and_null_that_of_the_others(text: str, expected: tuple[str, str]) -> None:
    assert translated(text) == expected


@pytest.mark.parametrize("text", ["CASE WHEN i THEN 1 END", "IF(s, 1, 2)", "b AND i", "NOT s"])
def test_conditions_are_true_or_false_and_nothing_else(text: str) -> None:
    with pytest.raises(sql.SqlError, match="expected a condition, not"):
        sql.parse(text, SCHEMA)
