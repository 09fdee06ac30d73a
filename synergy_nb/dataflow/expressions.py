"""SQL expressions of ``sql.py``'s subset as Polars expressions.

The tree that :func:`synergy_nb.plan.sql.parse` has checked is translated node by node; nothing is evaluated as Python,
and a node outside the subset is refused. The meaning is what ``sql.py`` documents: NULL as in SQL, AND and OR of
Kleene, float division, NULL for division by zero, ``%`` with the sign of the dividend, halves rounded away from zero.

Points that Polars leaves open or sees differently, and what is done here:

* A bare NULL has no type; every operation that is strict in it becomes a NULL of the operation's type at once.
* ``x IN (1, NULL)`` is TRUE or NULL, never FALSE.
* Integers wrap around at 64 bits, as Polars and Spark do and DuckDB does not.
* Where a divisor is one value for several rows, Polars multiplies with its reciprocal, so that the last bit of a
  quotient depends on how the stream is cut. A constant divisor is therefore made a column.
* NaN is the greatest float, for greatest() as well: greatest(NaN, 1) is NaN, least(NaN, 1) is 1.
* Text to int or float takes what Polars reads (an optional sign, digits; blanks around are ignored) and gives NULL
  otherwise; text to bool takes true, t, yes, y, 1 and their opposites in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan import sql

__all__ = ["Compiled", "compile_expression", "compile_node"]

Compiled = tuple[pl.Expr, str]  # an expression and the type of its values: one of tuples.TYPES, or "null"

_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "mod"})
_COMPARISONS: Final[Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]]] = {
    "eq": lambda left, right: left == right,
    "neq": lambda left, right: left != right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
}
_TRUE: Final = ["true", "t", "yes", "y", "1"]
_FALSE: Final = ["false", "f", "no", "n", "0"]
_CAST_TO: Final = {"BIGINT": "int", "INT": "int", "DOUBLE": "float", "FLOAT": "float", "TEXT": "str", "BOOLEAN": "bool"}


def compile_expression(text: str, schema: Mapping[str, str]) -> pl.Expr:
    """The Polars expression of one SQL expression.

    Parameters
    ----------
    text
        An expression of the subset of ``sql.py``, without aggregate calls.
    schema
        Column to type (``tuples.TYPES``) of the tables that it will be used on.

    Returns
    -------
    polars.Expr
        Gives as many rows as the table has, or one row if it uses no column.

    Raises
    ------
    synergy_nb.plan.sql.SqlError
        If ``text`` is outside the subset or does not fit ``schema``.

    Examples
    --------
    >>> table = pl.DataFrame({"bytes": [40, None, 1500]})
    >>> table.select(big=compile_expression("bytes / 2 > 100", {"bytes": "int"}))["big"].to_list()
    [False, None, True]
    """
    return _compiled(text, tuple(schema.items()))


@lru_cache(maxsize=1024)
def _compiled(text: str, schema: tuple[tuple[str, str], ...]) -> pl.Expr:
    columns = dict(schema)
    tree = sql.parse(text, columns)
    expression = compile_node(tree, columns)[0]
    return expression if sql.columns(tree) else expression.first()  # a constant that takes any number of rows


def compile_node(node: Any, schema: Mapping[str, str]) -> Compiled:
    """The Polars expression of a checked sqlglot node, and the type of its values.

    Raises
    ------
    ValueError
        If the node is not of the subset; ``sql.parse`` gives no such node.
    """
    key = node.key
    if key in _ARITHMETIC:
        return _arithmetic(key, compile_node(node.this, schema), compile_node(node.expression, schema))
    if key in _COMPARISONS:
        (left, right), kind = _alike([compile_node(node.this, schema), compile_node(node.expression, schema)])
        return (_null("bool") if kind == "null" else _COMPARISONS[key](left, right)), "bool"
    rule = _RULES.get(key)
    if rule is None:
        raise ValueError(f"expression: {key}; expected a construct of the subset of sql.py")
    return rule(node, schema)


# -- types -----------------------------------------------------------------------------------------------------------


def _null(kind: str) -> pl.Expr:
    return pl.lit(None, dtype=TYPES[kind])


def _typed(compiled: Compiled, kind: str) -> pl.Expr:
    """The expression, as ``kind`` if it is a bare NULL or an int where a float is due."""
    expression, own = compiled
    if own == "null":
        return _null(kind) if kind != "null" else expression
    return expression.cast(pl.Float64) if kind == "float" and own == "int" else expression


def _alike(parts: list[Compiled]) -> tuple[list[pl.Expr], str]:
    """The expressions in their common type, and that type; null only if all are."""
    kinds = {kind for _, kind in parts} - {"null"}
    kind = "float" if kinds == {"int", "float"} else next(iter(sorted(kinds)), "null")
    return [_typed(part, kind) for part in parts], kind


# -- nodes -----------------------------------------------------------------------------------------------------------


def _column(node: Any, schema: Mapping[str, str]) -> Compiled:
    name = node.name
    if name not in schema:
        raise ValueError(f"expression: column {name!r}; expected one of {', '.join(schema)}")
    return pl.col(name), schema[name]


def _literal(node: Any, _: Mapping[str, str]) -> Compiled:
    if node.is_string:
        return pl.lit(node.name), "str"
    if node.name.isdigit():
        return pl.lit(int(node.name), dtype=pl.Int64), "int"
    return pl.lit(float(node.name), dtype=pl.Float64), "float"


def _arithmetic(key: str, left: Compiled, right: Compiled) -> Compiled:
    (a, b), kind = _alike([left, right])
    if key == "div":
        kind = "float"
        a, b = _typed(left, kind), _typed(right, kind)
    if "null" in (left[1], right[1]):
        return _null("int" if kind == "null" else kind), "int" if kind == "null" else kind
    if key == "add":
        return a + b, kind
    if key == "sub":
        return a - b, kind
    if key == "mul":
        return a * b, kind
    if key == "div":
        divisor = b if b.meta.root_names() else a.is_null().cast(pl.Float64) + b  # as a column; see above
        return pl.when(b != 0.0).then(a / divisor), kind
    if kind == "int":  # Polars' remainder has the sign of the divisor, and is NULL for 0
        rest = a % b
        return pl.when((rest != 0) & ((a < 0) != (b < 0))).then(rest - b).otherwise(rest), kind
    both = a.is_not_null() & (b != 0.0)
    return pl.when(both).then(pl.map_batches([a, b], _remainder, return_dtype=pl.Float64)), kind


def _remainder(operands: Sequence[pl.Series]) -> pl.Series:
    """C's fmod, which is exact; Polars rounds the quotient on its way to a remainder."""
    left, right = (series.to_numpy() for series in operands)
    with np.errstate(invalid="ignore"):  # where an operand is NULL or the divisor 0, which the caller makes NULL
        return pl.Series(np.fmod(left, right))


def _negative(node: Any, schema: Mapping[str, str]) -> Compiled:
    expression, kind = compile_node(node.this, schema)
    return (_null("int"), "int") if kind == "null" else (-expression, kind)


def _boolean(node: Any, schema: Mapping[str, str]) -> pl.Expr:
    return _typed(compile_node(node, schema), "bool")


def _and(node: Any, schema: Mapping[str, str]) -> Compiled:
    return _boolean(node.this, schema) & _boolean(node.expression, schema), "bool"


def _or(node: Any, schema: Mapping[str, str]) -> Compiled:
    return _boolean(node.this, schema) | _boolean(node.expression, schema), "bool"


def _not(node: Any, schema: Mapping[str, str]) -> Compiled:
    return ~_boolean(node.this, schema), "bool"


def _in(node: Any, schema: Mapping[str, str]) -> Compiled:
    if not node.expressions:
        raise ValueError("expression: in; expected a list of values")
    items = [compile_node(item, schema) for item in node.expressions]
    given = [item for item in items if item[1] != "null"]
    (value, *others), kind = _alike([compile_node(node.this, schema), *given])
    if kind == "null" or not others:
        return _null("bool"), "bool"
    constants = [item for item in node.expressions if item.key == "literal"]
    if len(constants) == len(given):
        parse = str if kind == "str" else int if kind == "int" else float
        found = value.is_in(pl.Series([parse(item.name) for item in constants], dtype=TYPES[kind]).implode())
    else:
        found = reduce(lambda left, right: left | right, [value == other for other in others])
    return (found if len(given) == len(items) else found | _null("bool")), "bool"


def _between(node: Any, schema: Mapping[str, str]) -> Compiled:
    parts = [compile_node(part, schema) for part in (node.this, node.args["low"], node.args["high"])]
    (value, low, high), kind = _alike(parts)
    if kind == "null":
        return _null("bool"), "bool"
    return (value >= low) & (value <= high), "bool"


def _is_null(node: Any, schema: Mapping[str, str]) -> Compiled:
    return compile_node(node.this, schema)[0].is_null(), "bool"


def _like(node: Any, schema: Mapping[str, str]) -> Compiled:
    text = _typed(compile_node(node.this, schema), "str")
    pattern = node.expression.name
    inner = pattern.strip("%")
    if "%" not in inner and "_" not in inner:  # the usual patterns need no automaton
        leading, trailing = pattern.startswith("%"), pattern.endswith("%")
        if leading and trailing:
            found = text.str.contains(inner, literal=True)
        elif leading:
            found = text.str.ends_with(inner)
        else:
            found = text.str.starts_with(inner) if trailing else text == inner
    else:
        parts = (".*" if sign == "%" else "." if sign == "_" else re.escape(sign) for sign in pattern)
        found = text.str.contains(f"(?s)^{''.join(parts)}$")
    return (~found if node.args.get("negate") else found), "bool"


def _case(node: Any, schema: Mapping[str, str]) -> Compiled:
    branches = node.args["ifs"]
    default = node.args.get("default")
    results = [compile_node(branch.args["true"], schema) for branch in branches]
    if default is not None:
        results.append(compile_node(default, schema))
    values, kind = _alike(results)
    otherwise = values.pop() if default is not None else pl.lit(None) if kind == "null" else _null(kind)
    for branch, value in zip(reversed(branches), reversed(values), strict=True):
        otherwise = pl.when(_boolean(branch.this, schema)).then(value).otherwise(otherwise)
    return otherwise, kind


def _cast(node: Any, schema: Mapping[str, str]) -> Compiled:
    expression, kind = compile_node(node.this, schema)
    to = node.args["to"].this
    target = _CAST_TO.get(str(getattr(to, "value", to)).upper())
    if target is None:
        raise ValueError(f"expression: CAST to {to}; expected int, float, str or bool")
    if kind == "null":
        return _null(target), target
    if kind == "str":
        text = expression.str.strip_chars()
        if target == "bool":
            lower = text.str.to_lowercase()
            yes, no = (lower.is_in(pl.Series(words).implode()) for words in (_TRUE, _FALSE))
            return pl.when(yes).then(pl.lit(value=True)).when(no).then(pl.lit(value=False)), target
        return text.cast(TYPES[target], strict=False) if target != "str" else expression, target
    return expression.cast(TYPES[target], strict=False), target


def _text_function(node: Any, schema: Mapping[str, str]) -> Compiled:
    text = _typed(compile_node(node.this, schema), "str")
    key = node.key
    if key == "lower":
        return text.str.to_lowercase(), "str"
    if key == "upper":
        return text.str.to_uppercase(), "str"
    if key == "length":
        return text.str.len_chars().cast(pl.Int64), "int"
    length = node.args.get("length")
    start = int(node.args["start"].name) - 1
    return text.str.slice(start, None if length is None else int(length.name)), "str"


def _concat(node: Any, schema: Mapping[str, str]) -> Compiled:
    return pl.concat_str([_typed(compile_node(part, schema), "str") for part in node.expressions]), "str"


def _number_function(node: Any, schema: Mapping[str, str]) -> Compiled:
    expression, kind = compile_node(node.this, schema)
    if kind == "null":
        return _null("int"), "int"
    key = node.key
    if key == "abs":
        return expression.abs(), kind
    if kind == "int":
        return expression, kind
    if key == "floor":
        return expression.floor(), kind
    if key == "ceil":
        return expression.ceil(), kind
    decimals = node.args.get("decimals")
    return expression.round(0 if decimals is None else int(decimals.name), mode="half_away_from_zero"), kind


def _part_of_time(node: Any, schema: Mapping[str, str]) -> Compiled:
    time = _typed(compile_node(node.this, schema), "time")
    return (time.dt.hour() if node.key == "hour" else time.dt.minute()).cast(pl.Int64), "int"


def _first_of(node: Any, schema: Mapping[str, str]) -> Compiled:
    parts, kind = _alike([compile_node(part, schema) for part in (node.this, *node.expressions)])
    if kind == "null":
        return pl.lit(None), kind
    if node.key == "coalesce":
        return pl.coalesce(parts), kind
    if node.key == "least":
        return pl.min_horizontal(parts), kind
    greatest = pl.max_horizontal(parts)
    if kind != "float":
        return greatest, kind
    has_nan = pl.any_horizontal(part.is_nan() for part in parts)  # which Polars leaves out here
    return pl.when(has_nan).then(pl.lit(math.nan)).otherwise(greatest), kind


_RULES: Final[Mapping[str, Callable[[Any, Mapping[str, str]], Compiled]]] = {
    "column": _column,
    "literal": _literal,
    "boolean": lambda node, _: (pl.lit(bool(node.this)), "bool"),
    "null": lambda _node, _: (pl.lit(None), "null"),
    "paren": lambda node, schema: compile_node(node.this, schema),
    "neg": _negative,
    "and": _and,
    "or": _or,
    "not": _not,
    "in": _in,
    "between": _between,
    "is": _is_null,
    "like": _like,
    "case": _case,
    "cast": _cast,
    "lower": _text_function,
    "upper": _text_function,
    "length": _text_function,
    "substring": _text_function,
    "concat": _concat,
    "abs": _number_function,
    "round": _number_function,
    "floor": _number_function,
    "ceil": _number_function,
    "hour": _part_of_time,
    "minute": _part_of_time,
    "coalesce": _first_of,
    "least": _first_of,
    "greatest": _first_of,
}
