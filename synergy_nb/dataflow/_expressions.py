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

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.patterns import read_pattern, read_replacement
from synergy_nb.plan.sql.sql_translation import BLANKS, FIRST, LAST, MONTHS, UNITS, Operations, Translation
from synergy_nb.plan.terms.column_types import MOST_DIGITS, decimal_type, digits_of, family

_DAY: Final = 86_400 * 10**6  # microseconds
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


class _Direct(NamedTuple):
    """A part of a condition that is computed with the columns of a table themselves, without a query."""

    of: Callable[[pl.DataFrame], Any]  # gives a column, or the constant
    constant: Any = None  # its value if it is one


def direct_condition(text: str, schema: Mapping[str, str]) -> Callable[[pl.DataFrame], pl.Series] | None:
    """Compile a condition to a function that returns a mask of a table's rows; None if it needs a query.

    It may compare columns of one type with each other and with constants, and join comparisons by AND, OR and NOT. A
    query passes each table to a thread of Polars and waits for it, which takes longer than to compare a few rows.

    >>> condition = direct_condition("bytes > 100 AND link = 'a'", {"bytes": "int", "link": "str"})
    >>> condition(pl.DataFrame({"bytes": [40, 1500, None], "link": ["a", "a", "a"]})).to_list()
    [False, True, None]
    >>> direct_condition("bytes / 2 > 100", {"bytes": "int"}) is None
    True
    """
    columns = dict(schema)
    try:
        found = Translation(_DIRECT, columns).typed(sql.parse(text, columns), "bool")
    except KeyError:  # an operation that the table lacks
        return None
    return found.of if found.constant is None else None


def _direct_constant(value: Any, kind: str) -> _Direct:
    if kind not in ("int", "float", "str") and family(kind) != "decimal":
        raise KeyError(kind)
    column = pl.Series([value])  # Polars compares with it in half of the time that a Python value takes
    return _Direct(lambda _: column, value)


def _direct_widened(operand: _Direct, kind: str, wider: str) -> _Direct:
    if operand.constant is None:
        raise KeyError("a column of another type")
    return _direct_constant(pl.select(_literal(operand.constant, kind).cast(TYPES[wider], strict=False)).item(), wider)


def _direct_negative(operand: _Direct) -> _Direct:
    if operand.constant is None:
        raise KeyError("the negative of a column")
    negative = -operand.constant
    return _direct_constant(negative, "float" if isinstance(negative, float) else "int")


def _direct(compute: Callable[[Any, Any], Any]) -> Callable[[_Direct, _Direct], _Direct]:
    """Return an operation on two columns, or on a column and a constant of its type."""

    def made(left: _Direct, right: _Direct) -> _Direct:
        constants = [each.constant for each in (left, right) if each.constant is not None]
        if len(constants) == 2 or any(isinstance(each, Decimal) for each in constants):
            raise KeyError("two constants, or one that a column has to be cast for")
        return _Direct(lambda table: compute(left.of(table), right.of(table)))

    return made


def compile_node(node: Any, schema: Mapping[str, str]) -> tuple[pl.Expr, str]:
    """Compile a checked sqlglot node; return the Polars expression and the type of its values, or ``null``.

    Raises ``ValueError`` if the node is not in the subset; ``sql.parse`` returns no such node.
    """
    return Translation(_POLARS, schema).of(node)


def _null(kind: str) -> pl.Expr:
    return pl.lit(None) if kind == "null" else pl.lit(None, dtype=TYPES[kind])


def _literal(value: Any, kind: str) -> pl.Expr:
    # of microseconds Polars makes a time when it computes with constants
    return pl.lit(dt.timedelta(microseconds=value)) if kind == "duration" else pl.lit(value, dtype=TYPES[kind])


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
    if family(target) == "decimal" and (kind == "float" or family(kind) == "decimal"):
        return _rounded_decimal(value, digits_of(target)[1], target)
    if family(target) == "decimal" and kind == "str":  # with more digits behind the point, by which it is rounded
        digits, scale = digits_of(target)
        longer = decimal_type(MOST_DIGITS, min(MOST_DIGITS - digits + scale, scale + 10))
        return _rounded_decimal(value.str.strip_chars().cast(TYPES[longer], strict=False), scale, target)
    return (value.str.strip_chars() if kind == "str" else value).cast(TYPES[target], strict=False)


def _rounded_decimal(number: pl.Expr, scale: int, made: str) -> pl.Expr:
    """A number as a decimal; halves are rounded away from zero, which a cast of Polars does not."""
    return number.round(scale, mode="half_away_from_zero").cast(TYPES[made], strict=False)


def _whole_decimal(compute: Callable[[pl.Expr], pl.Expr]) -> Callable[[pl.Expr, str, str], pl.Expr]:
    """Floor or ceiling of decimals; NULL where it has more than 38 digits, at which Polars stops."""

    def computed(number: pl.Expr, own: str, made: str) -> pl.Expr:
        digits, scale = digits_of(own)
        least = number if digits < MOST_DIGITS else _where_fits(number.cast(pl.Float64), digits - scale, number)
        return compute(least).cast(TYPES[made], strict=False)

    return computed


def _where_fits(estimate: pl.Expr, digits: int, number: pl.Expr) -> pl.Expr:
    """A number where an estimate of a result has so many digits before the point."""
    return pl.when(estimate.abs() < 10.0**digits * (1 - 1e-9)).then(number)


def _of_decimals(key: str) -> Callable[..., pl.Expr]:
    """Arithmetic of decimals; NULL where the result has more than 38 digits, at which Polars stops."""
    compute: Callable[[pl.Expr, pl.Expr], pl.Expr] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}[
        key
    ]

    def computed(left: pl.Expr, right: pl.Expr, made: str) -> pl.Expr:
        digits, scale = digits_of(made)
        if digits == MOST_DIGITS:
            left = _where_fits(compute(left.cast(pl.Float64), right.cast(pl.Float64)), digits - scale, left)
        if key == "mul":  # of operands with other scales the product has the greater one
            left = left.cast(pl.Decimal(MOST_DIGITS, scale), strict=False)
        return compute(left, right).cast(TYPES[made], strict=False)

    return computed


def _trunc(number: pl.Expr) -> pl.Expr:
    return pl.when(number < 0).then(number.ceil()).otherwise(number.floor())


def _later(day: pl.Expr, days: pl.Expr) -> pl.Expr:
    """A date moved by days; NULL beyond the years that there are."""
    moved = day.cast(pl.Int64) + days
    least, most = FIRST // _DAY, LAST // _DAY
    held = pl.when(days.is_between(-2 * most, 2 * most) & moved.is_between(least, most)).then(moved)
    return held.cast(pl.Int32).cast(pl.Date)


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


def _where_known(found: pl.Expr, text: pl.Expr) -> pl.Expr:
    return pl.when(text.is_not_null()).then(found)


def _place(text: pl.Expr, part: str) -> pl.Expr:
    """Number of the first character of a part, from 1; 0 where it is missing. Polars finds it by bytes."""
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int64) + 1
    return pl.when(text.str.contains(part, literal=True)).then(before).otherwise(pl.lit(0).pipe(_where_known, text))


def _padded(text: pl.Expr, length: int, filling: str, *, left: bool) -> pl.Expr:
    """Fill text up to a length, or cut its end; Polars fills with one character alone."""
    missing = (length - text.str.len_chars().cast(pl.Int64)).clip(0, length)
    added = pl.lit(filling * (length // len(filling) + 1)).str.slice(0, missing)
    return pl.concat_str([added, text.str.slice(0, length)] if left else [text.str.slice(0, length), added])


def _replaced(text: pl.Expr, pattern: str, replacement: str, every: str | None) -> pl.Expr:
    read = read_pattern(pattern)
    pieces = read_replacement(replacement, read.groups)
    written = "".join(f"${{{each}}}" if isinstance(each, int) else each.replace("$", "$$") for each in pieces)
    return text.str.replace_all(read.plain, written) if every else text.str.replace(read.plain, written)


def _part(method: str) -> Callable[[pl.Expr], pl.Expr]:
    return lambda time: getattr(time.dt, method)().cast(pl.Int64)


#: Units of the calendar as Polars writes them.
_EVERY: Final = {
    "microsecond": "1us", "millisecond": "1ms", "second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w",
    "month": "1mo", "quarter": "1q", "year": "1y",
}  # fmt: skip
#: Parts of a time to the methods of Polars.
_PARTS: Final = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "week", "day": "day", "isodow": "weekday",
    "dayofyear": "ordinal_day", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip


def _boundaries(unit: str, time: pl.Expr) -> pl.Expr:
    """Number of the boundaries of a unit before a time."""
    size = UNITS[unit]
    if size is None:
        month = time.dt.year().cast(pl.Int64) * 12 + time.dt.month().cast(pl.Int64) - 1
        return month // MONTHS[unit]
    return time.cast(pl.Int64) // size


def _apart(unit: str, start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Number of boundaries of a unit between two times; of a week, as in DuckDB, of days in sevens."""
    counted = "day" if unit == "week" else unit
    number = _boundaries(counted, end) - _boundaries(counted, start)
    return (number - _int_remainder(number, pl.lit(7))) // 7 if unit == "week" else number


def _shifted(time: pl.Expr, months: int, microseconds: int) -> pl.Expr:
    return _held(time.dt.offset_by(f"{months}mo") if months else time + pl.duration(microseconds=microseconds))


def _held(time: pl.Expr) -> pl.Expr:
    """A time of the years that there are; NULL beyond them."""
    return pl.when(time.cast(pl.Int64).is_between(FIRST, LAST)).then(time)


def _element(values: pl.Expr, number: pl.Expr) -> pl.Expr:
    """The element with a number from 1, or from the end with one below 0; NULL where there is none."""
    place = pl.when(number > 0).then(number - 1).when(number < 0).then(number)
    return values.list.get(place, null_on_oob=True)


_POLARS: Final[Operations[pl.Expr]] = {
    "null": _null,
    "column": pl.col,
    "literal": _literal,
    "boolean": pl.lit,
    "instant": lambda moment, kind: pl.lit(moment, dtype=TYPES[kind]),
    "widen": lambda value, _, kind: value.cast(TYPES[kind], strict=False),
    "cast": _cast,
    "is null": pl.Expr.is_null,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    **{f"{key} decimal": _of_decimals(key) for key in ("add", "sub", "mul")},
    "floor decimal": _whole_decimal(pl.Expr.floor),
    "ceil decimal": _whole_decimal(pl.Expr.ceil),
    "trunc decimal": _whole_decimal(_trunc),
    "round decimal": lambda number, _, made: _rounded_decimal(number, digits_of(made)[1], made),
    "sub time time": operator.sub,
    "add time duration": lambda time, span: _held(time + span),
    "add duration time": lambda span, time: _held(time + span),
    "sub time duration": lambda time, span: _held(time - span),
    "add duration duration": operator.add,
    "sub duration duration": operator.sub,
    "mul duration int": operator.mul,
    "mul int duration": lambda number, span: span * number,
    "sub date date": lambda day, other: day.cast(pl.Int64) - other.cast(pl.Int64),
    "add date int": _later,
    "add int date": lambda days, day: _later(day, days),
    "sub date int": lambda day, days: _later(day, -days),
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
    "in": _in,
    "like": _like,
    "case": _case,
    "concat": pl.concat_str,
    "abs": pl.Expr.abs,
    "floor": lambda number, _: number.floor(),
    "ceil": lambda number, _: number.ceil(),
    "round": lambda number, decimals: number.round(decimals, mode="half_away_from_zero"),
    "trunc": lambda number, _: _trunc(number),
    "int div": lambda left, right: (left - _int_remainder(left, right)) // right,
    "shift": _shifted,
    "coalesce": lambda parts, _: pl.coalesce(parts),
    "least": lambda parts, _: pl.min_horizontal(parts),
    "greatest": _greatest,
    # the functions of the table of the subset
    "lower": lambda text: text.str.to_lowercase(),
    "upper": lambda text: text.str.to_uppercase(),
    "reverse": lambda text: text.str.reverse(),
    "length": lambda text: text.str.len_chars().cast(pl.Int64),
    "substr": lambda text, start, length: text.str.slice(start - 1, length),
    "trim": lambda text, signs: text.str.strip_chars(signs or BLANKS),
    "ltrim": lambda text, signs: text.str.strip_chars_start(signs or BLANKS),
    "rtrim": lambda text, signs: text.str.strip_chars_end(signs or BLANKS),
    "replace": lambda text, part, other: text.str.replace_all(part, other, literal=True),
    "split_part": lambda text, between, number: text.str.split(between).list.get(number - 1, null_on_oob=True)
    .fill_null("").pipe(_where_known, text),
    "strpos": _place,
    "starts_with": lambda text, part: text.str.starts_with(part),
    "ends_with": lambda text, part: text.str.ends_with(part),
    "contains": lambda text, part: text.str.contains(part, literal=True),
    "lpad": lambda text, length, filling: _padded(text, length, filling, left=True),
    "rpad": lambda text, length, filling: _padded(text, length, filling, left=False),
    "left": lambda text, number: text.str.slice(0, number),
    "right": lambda text, number: text.str.tail(number),
    "regexp_matches": lambda text, pattern: text.str.contains(read_pattern(pattern).plain),
    "regexp_extract": lambda text, pattern, group: text.str.extract(read_pattern(pattern).plain, group or 0)
    .fill_null("").pipe(_where_known, text),
    "regexp_replace": _replaced,
    "sqrt": pl.Expr.sqrt,
    "exp": pl.Expr.exp,
    "ln": pl.Expr.log,
    "log10": lambda number: number.log(10.0),
    "log2": lambda number: number.log(2.0),
    "sin": pl.Expr.sin,
    "cos": pl.Expr.cos,
    "tan": pl.Expr.tan,
    "power": pl.Expr.pow,
    "sign": lambda number: number.fill_nan(0.0).sign().cast(pl.Int64),
    "isnan": pl.Expr.is_nan,
    "isfinite": pl.Expr.is_finite,
    **{name: _part(method) for name, method in _PARTS.items()},
    "dayofweek": lambda time: time.dt.weekday().cast(pl.Int64) % 7,
    "epoch": lambda time: time.cast(pl.Int64) / 1e6,
    "epoch duration": lambda span: span.cast(pl.Int64) / 1e6,
    "dayname": lambda time: time.dt.strftime("%A"),
    "monthname": lambda time: time.dt.strftime("%B"),
    "date_trunc": lambda unit, time: time.dt.truncate(_EVERY[unit]),
    "date_diff": _apart,
    "length list": lambda values: values.list.len().cast(pl.Int64),
    "list_extract": _element,
    "list_contains": lambda values, element: values.list.contains(element).pipe(_where_known, element),
    "struct_extract": lambda value, name: value.struct.field(name),
    "local_time": lambda time, zone: time.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    .dt.replace_time_zone(None).pipe(_held),
}  # fmt: skip

_DIRECT: Final[Operations[_Direct]] = {
    "column": lambda name: _Direct(lambda table: table.get_column(name)),
    "literal": _direct_constant,
    "widen": _direct_widened,
    "neg": _direct_negative,
    "and": _direct(operator.and_),
    "or": _direct(operator.or_),
    "not": lambda operand: _Direct(lambda table: ~operand.of(table)),
    "eq": _direct(operator.eq),
    "neq": _direct(operator.ne),
    "lt": _direct(operator.lt),
    "lte": _direct(operator.le),
    "gt": _direct(operator.gt),
    "gte": _direct(operator.ge),
}
