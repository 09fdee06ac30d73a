"""SQL expressions of ``sql.py``'s subset as Polars expressions.

The tree that :func:`synergy_nb.plan.sql.sql.parse` has checked is translated node by node
(:mod:`synergy_nb.plan.sql.sql_translation`); nothing is evaluated as Python. The meaning is what ``sql.py`` documents:
NULL as in SQL, AND and OR of Kleene, float division, NULL for division by zero, ``%`` with the sign of the dividend,
halves rounded away from zero.

Polars leaves some points open or differs in them; this module decides:

* ``x IN (1, NULL)`` is TRUE or NULL, never FALSE.
* Integers wrap around at 64 bits, as Polars and Spark do and DuckDB does not.
* Where a divisor is one value for several rows, Polars multiplies with its reciprocal, so that the last bit of a
  quotient depends on how the stream is cut. A constant divisor is therefore made a column.
* Where a computed constant is compared with a column that has one value in all rows, Polars returns one row, which fits
  no table. A constant operand of a comparison is therefore computed when the expression is compiled.
* NaN is the greatest float, also for greatest(): greatest(NaN, 1) is NaN, least(NaN, 1) is 1.
* A cast of text to int or float accepts what Polars reads (an optional sign, digits; blanks around are ignored) and
  returns NULL otherwise; text to bool accepts true, t, yes, y, 1 and their opposites in any case.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.sql_translation import Operations, Translation

_TRUE: Final = ["true", "t", "yes", "y", "1"]
_FALSE: Final = ["false", "f", "no", "n", "0"]


def compile_expression(text: str, schema: Mapping[str, str], kind: str | None = None) -> pl.Expr:
    """Compile one SQL expression to a Polars expression.

    ``text``: an expression of the subset of ``sql.py``, without aggregate calls; ``schema``: column to type
    (``tuples.TYPES``) of the tables that it will be used on; ``kind``: type that the result must have; it may be a
    float where the expression gives an integer, and anything where it gives a bare NULL.

    Returns: gives as many rows as the table has, or one row if it uses no column.

    Raises ``synergy_nb.plan.sql.sql.SqlError`` if ``text`` is outside the subset or does not fit ``schema``.

    Examples
    --------
    >>> table = pl.DataFrame({"bytes": [40, None, 1500]})
    >>> table.select(big=compile_expression("bytes / 2 > 100", {"bytes": "int"}))["big"].to_list()
    [False, None, True]
    """
    return _compiled(text, tuple(schema.items()), kind)


@lru_cache(maxsize=1024)
def _compiled(text: str, schema: tuple[tuple[str, str], ...], kind: str | None) -> pl.Expr:
    columns = dict(schema)
    tree, translation = sql.parse(text, columns), Translation(_POLARS, columns)
    expression = translation.of(tree)[0] if kind is None else translation.typed(tree, kind)
    # a constant, such as "a IN (NULL)", takes any number of rows
    return expression if expression.meta.root_names() else expression.first()


def compile_node(node: Any, schema: Mapping[str, str]) -> tuple[pl.Expr, str]:
    """Compile a checked sqlglot node; return the Polars expression and the type of its values, or ``null``.

    Raises ``ValueError`` if the node is not in the subset; ``sql.parse`` returns no such node.
    """
    return Translation(_POLARS, schema).of(node)


def _null(kind: str) -> pl.Expr:
    return pl.lit(None) if kind == "null" else pl.lit(None, dtype=TYPES[kind])


def _quotient(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    divisor = right if right.meta.root_names() else left.is_null().cast(pl.Float64) + right  # as a column; see above
    return pl.when(right != 0.0).then(left / divisor)


def _int_remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Polars' remainder has the sign of the divisor, and is NULL for 0."""
    rest = left % right
    return pl.when((rest != 0) & ((left < 0) != (right < 0))).then(rest - right).otherwise(rest)


def _float_remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    both = left.is_not_null() & (right != 0.0)
    return pl.when(both).then(pl.map_batches([left, right], _fmod, return_dtype=pl.Float64))


def _fmod(operands: Sequence[pl.Series]) -> pl.Series:
    """C's fmod, which is exact; Polars rounds the quotient on its way to a remainder."""
    left, right = (series.to_numpy() for series in operands)
    with np.errstate(invalid="ignore"):  # where an operand is NULL or the divisor 0, which the caller makes NULL
        return pl.Series(np.fmod(left, right))


def _in(value: pl.Expr, others: list[pl.Expr], kind: str, null: bool, literals: list[Any] | None) -> pl.Expr:
    if literals is not None:
        found = value.is_in(pl.Series(literals, dtype=TYPES[kind]).implode())
    else:
        found = reduce(operator.or_, [_POLARS["eq"](value, other) for other in others])
    return found | _null("bool") if null else found


def _like(text: pl.Expr, pattern: str) -> pl.Expr:
    inner = pattern.strip("%")
    if "%" in inner or "_" in inner:
        parts = (".*" if sign == "%" else "." if sign == "_" else re.escape(sign) for sign in pattern)
        return text.str.contains(f"(?s)^{''.join(parts)}$")
    leading, trailing = pattern.startswith("%"), pattern.endswith("%")  # the usual patterns need no automaton
    if leading:
        return text.str.contains(inner, literal=True) if trailing else text.str.ends_with(inner)
    return text.str.starts_with(inner) if trailing else text == inner


def _case(conditions: list[pl.Expr], values: list[pl.Expr], otherwise: pl.Expr) -> pl.Expr:
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        otherwise = pl.when(condition).then(value).otherwise(otherwise)
    return otherwise


def _cast(value: pl.Expr, kind: str, target: str, _: Any) -> pl.Expr:
    if kind == "str" and target == "bool":
        lower = value.str.strip_chars().str.to_lowercase()
        yes, no = (lower.is_in(pl.Series(words).implode()) for words in (_TRUE, _FALSE))
        return pl.when(yes).then(pl.lit(value=True)).when(no).then(pl.lit(value=False))
    return (value.str.strip_chars() if kind == "str" else value).cast(TYPES[target], strict=False)


def _greatest(parts: list[pl.Expr], kind: str) -> pl.Expr:
    greatest = pl.max_horizontal(parts)
    if kind != "float":
        return greatest
    has_nan = pl.any_horizontal(part.is_nan() for part in parts)  # which Polars leaves out here
    return pl.when(has_nan).then(pl.lit(math.nan)).otherwise(greatest)


def _compared(compare: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    """Return a comparison that also works for computed constants; see above."""

    def compared(left: pl.Expr, right: pl.Expr) -> pl.Expr:
        return compare(_value(left), _value(right))

    return compared


def _value(operand: pl.Expr) -> pl.Expr:
    if operand.meta.root_names() or operand.meta.is_literal():
        return operand
    (column,) = pl.select(operand).get_columns()
    return pl.lit(column.item(), dtype=column.dtype)


def _between(value: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
    at_least: pl.Expr = _POLARS["gte"](value, low)
    return at_least & _POLARS["lte"](value, high)


_POLARS: Final[Operations[pl.Expr]] = {
    "null": _null,
    "column": pl.col,
    "literal": lambda value, kind: pl.lit(value, dtype=TYPES[kind]),
    "boolean": pl.lit,
    "instant": lambda moment: pl.lit(moment, dtype=TYPES["time"]),
    "widen": lambda value: value.cast(pl.Float64),
    "cast": _cast,
    "is null": pl.Expr.is_null,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    "mod int": _int_remainder,
    "mod float": _float_remainder,
    "neg": operator.neg,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.invert,
    "eq": _compared(operator.eq),
    "neq": _compared(operator.ne),
    "lt": _compared(operator.lt),
    "lte": _compared(operator.le),
    "gt": _compared(operator.gt),
    "gte": _compared(operator.ge),
    "between": _between,
    "in": _in,
    "like": _like,
    "case": _case,
    "lower": lambda text: text.str.to_lowercase(),
    "upper": lambda text: text.str.to_uppercase(),
    "length": lambda text: text.str.len_chars().cast(pl.Int64),
    "substring": lambda text, start, length: text.str.slice(start - 1, length),
    "concat": pl.concat_str,
    "abs": pl.Expr.abs,
    "floor": lambda number, _: number.floor(),
    "ceil": lambda number, _: number.ceil(),
    "round": lambda number, decimals: number.round(decimals, mode="half_away_from_zero"),
    "hour": lambda time: time.dt.hour().cast(pl.Int64),
    "minute": lambda time: time.dt.minute().cast(pl.Int64),
    "coalesce": lambda parts, _: pl.coalesce(parts),
    "least": lambda parts, _: pl.min_horizontal(parts),
    "greatest": _greatest,
}
