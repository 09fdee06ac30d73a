"""Translation of SQL expressions of the plan's subset to Spark SQL.

The tree that :func:`synergy_nb.plan.sql.sql.parse` has checked is written node by node
(:mod:`synergy_nb.plan.sql.sql_translation`) as text that Spark parses, so that an expression is data on this engine,
too. The meaning is what ``sql.py`` documents and what :mod:`synergy_nb.dataflow._expressions` computes on peers. The
translation compensates for these differences of Spark:

* Operands get their common type by explicit casts.
* Integers wrap around, as on peers, only while ``spark.sql.ansi.enabled`` is off; :data:`MEANING` says what a session
  must be set to. Division and remainder by zero are NULL by :func:`nullif`, in either mode.
* ``floor`` and ``ceil`` of a float are integers in Spark and floats here. ``round`` to some decimals is that of a
  multiple, as on peers; Spark would round the decimal digits that it prints.
* ``greatest`` sees NaN as the greatest float, ``least`` as the last resort, on all engines.
* Text to a number takes what peers take: Spark alone would read ``12.7`` as an integer and ``1f`` as a float.
* Text that a float is written as differs between engines; :func:`translate` refuses it.
* A pattern of LIKE has no escape character; the translation names one that does not occur in it.
* Java backtracks, so regular expressions, and patterns of LIKE with ``%`` inside, are executed by functions of ours in
  Spark's Python workers (:mod:`spark_stream.operators.patterns`). Of the few that stay in Java, those of numbers are
  possessive, so that none tries a character twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from synergy_nb.dataflow.operators.kept_values import LONGEST_RUN, REGISTERS, SCALE
from synergy_nb.errors import SynergyError
from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.patterns import read_pattern, read_replacement
from synergy_nb.plan.sql.sql_translation import BLANKS, FIRST, LAST, MONTHS, UNITS, Operations, Translation
from synergy_nb.plan.terms.column_types import digits_of, family, sum_of
from synergy_nb.plan.terms.units import ratio_of

#: Settings that a session must have for expressions to mean the same here as on peers.
MEANING: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "false",  # integers wrap around
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # products of decimals keep their scale
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",  # ${...} in a name is part of the name
    # Letters change case by Java rather than by ICU, whose Unicode is newer than that of peers. ICU also makes a table
    # of all letters at first, which takes two seconds of a processor
    "spark.sql.icu.caseMappings.enabled": "false",
}


class _Types(dict[str, str]):
    """Spark's type of each type of columns; those of decimals are made when they are asked for."""

    def __missing__(self, kind: str) -> str:
        if family(kind) != "decimal":
            raise KeyError(kind)
        return kind.upper()


#: Spark's type of each type of columns.
TYPES: Final[Mapping[str, str]] = _Types(
    {
        "int": "BIGINT",
        "float": "DOUBLE",
        "str": "STRING",
        "bool": "BOOLEAN",
        "time": "TIMESTAMP",  # in UTC, as sessions are; Spark has no watermarks on times without zone
        "bytes": "BINARY",
        "date": "DATE",
        "duration": "BIGINT",  # microseconds: Spark's own intervals have no functions that streams need
    }
)

_DAY: Final = 86_400 * 10**6  # microseconds
#: Names of the functions that execute regular expressions in Spark's Python workers.
MATCHED: Final = "synergy_matched"
EXTRACTED: Final = "synergy_extracted"
REPLACED: Final = "synergy_replaced"
REPLACED_FIRST: Final = "synergy_replaced_first"
_LONGEST_PATTERN: Final = 1000  # characters: Spark sends it to its Python workers with each row
_ANYTHING: Final = "(?s:.)*"
_LONGEST: Final = 200_000  # characters of a translation; some functions name their operand more than once
# Characters that Unicode calls white space, which peers strip from text that is to be read as a value.
_BLANKS: Final = "".join(map(chr, [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
                                   0x202F, 0x205F, 0x3000]))  # fmt: skip
_TRUTHS: Final = "map({})".format(
    ", ".join([f"'{word}', TRUE" for word in ("true", "t", "yes", "y", "1")]
              + [f"'{word}', FALSE" for word in ("false", "f", "no", "n", "0")])
)  # fmt: skip
_INTEGER: Final = r"^[+-]?[0-9]++\z"
_NUMBER: Final = r"^[+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)\z"
_FLOAT: Final = (
    r"(?i)^(?:[+-](?=nan\z))?([+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:e[+-]?[0-9]++)?+|[+-]?inf(?:inity)?|nan)\z"
)
_NO_SUM: Final = 2**63  # size from which on 64 bits do not hold a sum
_BEYOND: Final = "9.223372036854775808E18D"  # 2**63, the least float that is no 64-bit integer
_GREATEST: Final = 1.7976931348623157e308


class UntranslatableExpression(SynergyError, ValueError):
    """An expression has another meaning in Spark; the text names the part and the reason."""


def quote(name: str) -> str:
    """``name`` as Spark SQL writes a column.

    >>> quote("Source IP")
    '`Source IP`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """``text`` as Spark SQL writes text."""
    for sign, escaped in (("\\", "\\\\"), ("'", "\\'"), ("$", "\\u0024")):  # ${...} would be a variable of the session
        text = text.replace(sign, escaped)
    return f"'{text}'"


def translate(text: str, schema: Mapping[str, str], kind: str | None = None) -> str:
    """The Spark SQL of one SQL expression.

    ``text``: an expression of the subset of ``sql.py``, without aggregate calls; ``schema``: column to type of the
    stream that it is used on; ``kind``: type that the result must have; it may be a float where the expression gives an
    integer.

    Raises ``synergy_nb.plan.sql.sql.SqlError`` if ``text`` is outside the subset or does not fit ``schema``;
    ``UntranslatableExpression`` if Spark sees some part of it differently.

    Examples
    --------
    >>> translate("bytes / 2 > 100", {"bytes": "int"})
    '((CAST(`bytes` AS DOUBLE) / nullif(CAST(2L AS DOUBLE), 0.0D)) > CAST(100L AS DOUBLE))'
    """
    return _translated(text, tuple(schema.items()), kind)


@lru_cache(maxsize=1024)
def _translated(text: str, schema: tuple[tuple[str, str], ...], kind: str | None) -> str:
    columns = dict(schema)
    tree, translation = sql.parse(text, columns), Translation(_SPARK, columns)
    return _bounded(translation.typed(tree, kind) if kind is not None else translation.of(tree)[0])


def aggregate(
    node: Any,
    schema: Mapping[str, str],
    kind: str,
    order: Sequence[str] = ("NULL",),
    totals: Mapping[str, int] | None = None,
) -> str:
    """The Spark SQL of one aggregate call, of type ``kind``; see :func:`translate`.

    ``node``: a call that :func:`.sql.calls` took out; ``order``: SQL by which tuples of equal time are ordered, for
    calls that need an order; ``totals``: column to the greatest size that a sum of its values can have, where it is
    known: of what 64 bits hold there is one plain sum.

    >>> aggregate(sql.parse("avg(weight)", {"weight": "float"}, aggregate=True), {"weight": "float"}, "float")
    '(CAST(sum(`weight`) AS DOUBLE) / nullif(count(`weight`), 0L))'
    """
    call = node.key
    if call == "anonymous":
        return _bounded(_of_table(node, schema, order))
    if call == "count" and node.this.key == "star":
        return "count(1L)"
    distinct = node.this.key == "distinct"
    value, own = _value_of(node.this.expressions[0] if distinct else node.this, schema)
    if distinct:
        written = f"CAST(size(collect_set({value})) AS BIGINT)"  # distinct aggregates are not for streams
        if own == "float":  # 0.0 and -0.0 are one value, and so is every NaN
            some = f"coalesce(CAST(max(isnan({value})) AS BIGINT), 0L)"
            written = f"(CAST(size(collect_set(nanvl({value}, {_null('float')}) + 0.0D)) AS BIGINT) + {some})"
    elif call in ("sum", "avg") and own == "int" and node.this.key == "column" and _is_held(node.this.name, totals):
        written = f"sum({value})" if call == "sum" else f"(CAST(sum({value}) AS DOUBLE) / nullif(count({value}), 0L))"
    elif call == "avg":  # of integers, Spark would add up floats
        total = _wide_sum(value) if own == "int" else _sum(value, own)
        written = f"(CAST({total} AS DOUBLE) / nullif(count({value}), 0L))"
    elif call == "sum" and own == "int":
        written = _whole_sum(value)
    elif call == "sum":
        written = _sum(value, own)
    else:
        written = f"{call}({value})"
        written = f"CAST({written} AS DOUBLE)" if own == "int" and kind == "float" else written
    return _bounded(written)


def _is_held(column: str, totals: Mapping[str, int] | None) -> bool:
    """Whether 64 bits hold every sum of values of a column."""
    return totals is not None and totals.get(column, _NO_SUM) < _NO_SUM


def _sum(value: str, kind: str) -> str:
    """The sum of floats or decimals; these have all digits that there are."""
    return f"sum({value})" if kind == "float" else f"sum(CAST({value} AS {TYPES[sum_of(kind)]}))"


def _value_of(argument: Any, schema: Mapping[str, str]) -> tuple[str, str]:
    """The Spark SQL of the argument of a call, and its type."""
    value, own = Translation(_SPARK, schema).of(argument)
    return (_null("int"), "int") if own == "null" else (value, own)


def _of_table(node: Any, schema: Mapping[str, str], order: Sequence[str]) -> str:
    """The Spark SQL of an aggregate call of the table of calls over several rows."""
    call, (argument, *constants) = node.name, node.expressions
    value, kind = _value_of(argument, schema)
    if call in ("first", "last"):
        return f"{'min' if call == 'first' else 'max'}_by({value}, {struct(['`time`', *order])})"
    if call == "string_agg":
        row = struct([*order, "`time`", value])
        rows = f"sort_array(collect_list(CASE WHEN {value} IS NOT NULL THEN {row} END))"
        joined = f"array_join(transform({rows}, p -> p.c{len(order) + 1}), {literal(constants[0].name)})"
        return f"CASE WHEN count({value}) > 0 THEN {joined} END"
    if call in ("quantile_cont", "quantile_disc"):
        values, fraction = f"sort_array(collect_list({value}))", float(constants[0].name)
        if call == "quantile_disc":
            place = share_of(fraction, f"count({value})", up=True)
            return f"get({values}, CAST(greatest({place}, 1L) AS INT) - 1)"
        place = f"({fraction!r}D * CAST(count({value}) - 1L AS DOUBLE))"
        low, high = (f"CAST(get({values}, CAST({way}({place}) AS INT)) AS DOUBLE)" for way in ("floor", "ceil"))
        rest = f"({place} - floor({place}))"
        return f"CASE WHEN {rest} = 0.0D THEN {low} ELSE {low} * (1.0D - {rest}) + {high} * {rest} END"
    if call == "approx_count_distinct":
        return _estimated(value, kind)
    return f"{call}(CAST({value} AS DOUBLE))"


def _estimated(value: str, kind: str) -> str:
    """The estimate that peers make of the number of different values, from the same registers."""
    if kind == "float":
        raise UntranslatableExpression("Spark has no bits of floats, which approx_count_distinct(x) needs")
    number = {
        "int": value, "time": f"unix_micros({value})", "bool": f"CAST({value} AS BIGINT)", "duration": value,
        "date": f"CAST(unix_date({value}) AS BIGINT)",
    }  # fmt: skip
    text = _decimal_text(value, kind) if family(kind) == "decimal" else value
    hashed = scattered(number.get(kind, f"crc32(CAST({text} AS BINARY))"))
    rest = f"({hashed} & {2**52 - 1}L)"
    run = f"least(53L - CASE WHEN {rest} = 0L THEN 0L ELSE char_length(bin({rest})) END, {LONGEST_RUN}L)"
    pairs = f"collect_set(shiftrightunsigned({hashed}, 52) * 64L + {run})"  # without NULL
    start = "named_struct('last', -1L, 'n', 0L, 'sum', 0L)"
    power = f"shiftleft(1L, CAST({LONGEST_RUN}L - v % 64L AS INT))"
    more = f"named_struct('last', v div 64L, 'n', a.n + 1L, 'sum', a.sum + {power})"
    raw = f"({SCALE!r}D / CAST(a.sum + ({REGISTERS}L - a.n) * {2**LONGEST_RUN}L AS DOUBLE))"
    few = f"({float(REGISTERS)!r}D * ln({float(REGISTERS)!r}D / CAST({REGISTERS}L - a.n AS DOUBLE)))"
    found = f"CASE WHEN {raw} <= {2.5 * REGISTERS!r}D AND a.n < {REGISTERS}L THEN {few} ELSE {raw} END"
    folded = f"a -> CAST(round({found}, 0) AS BIGINT)"
    # of the pairs of a register, that with the longest run comes first
    merge = f"(a, v) -> CASE WHEN a.last = v div 64L THEN a ELSE {more} END"
    return f"aggregate(sort_array({pairs}, FALSE), {start}, {merge}, {folded})"


def scattered(number: str) -> str:
    """SQL of SplitMix64's output function of an integer, as :func:`.splitmix64` of peers."""
    mixed = f"{number} + {signed(0x9E3779B97F4A7C15)}"
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = f"(({mixed}) ^ shiftrightunsigned({mixed}, {shift})) * {signed(factor)}"
    return f"(({mixed}) ^ shiftrightunsigned({mixed}, 31))"


def signed(number: int) -> str:
    """SQL of an unsigned 64-bit number as the signed one with the same bits."""
    value = number - 2**64 if number >= 2**63 else number
    return f"({value}L)" if value > -(2**63) else "(-9223372036854775807L - 1L)"


def struct(parts: Iterable[str]) -> str:
    """SQL for a struct of SQL expressions, with the fields c0, c1, ..."""
    return "named_struct({})".format(", ".join(f"'c{number}', {part}" for number, part in enumerate(parts)))


def share_of(fraction: float, number: str, *, up: bool = False) -> str:
    """SQL for the fraction of a number of rows, rounded down or up exactly."""
    part, whole = ratio_of(fraction)
    more = f" + {whole - 1}BD" if up else ""
    return f"((CAST({number} AS DECIMAL(20, 0)) * {part}BD{more}) div {whole}BD)"


def _halves(value: str) -> tuple[str, str]:
    """The sums of the upper and of the lower 32 bits of integers, of which 64 bits may not hold the sum."""
    return f"sum(shiftright({value}, 32))", f"sum({value} & 4294967295L)"


def _wide_sum(value: str) -> str:
    """The sum of integers, of up to 20 digits."""
    high, low = _halves(value)
    return f"(CAST({high} AS DECIMAL(20, 0)) * 4294967296BD + {low})"


def _whole_sum(value: str) -> str:
    """The sum of integers, NULL if 64 bits do not hold it: without decimals, which are objects."""
    high, low = _halves(value)
    upper = f"({high} + shiftright({low}, 32))"
    return (
        f"CASE WHEN {upper} BETWEEN -2147483648L AND 2147483647L THEN {upper} * 4294967296L + ({low} & 4294967295L) END"
    )


def decaying(node: Any, schema: Mapping[str, str]) -> tuple[str, str] | None:
    """What an aggregate call does with values, and the Spark SQL of these as floats; None if they do not decay."""
    if node.key not in ("count", "sum", "avg") or node.this.key == "distinct":
        return None
    if node.this.key == "star":
        return "count", "1.0D"
    value, own = Translation(_SPARK, schema).of(node.this)
    if node.key == "count":  # of whatever type
        return "count", f"CASE WHEN {value} IS NOT NULL THEN 1.0D END"
    return node.key, _bounded(f"CAST({_null('int') if own == 'null' else value} AS DOUBLE)")


def _bounded(text: str) -> str:
    if len(text) > _LONGEST:
        raise UntranslatableExpression(f"an expression takes {len(text)} characters of Spark SQL, more than {_LONGEST}")
    return text


def _null(kind: str) -> str:
    return "NULL" if kind == "null" else f"CAST(NULL AS {TYPES[kind]})"


def _literal(value: Any, kind: str) -> str:
    if family(kind) == "decimal":
        return f"CAST('{value}' AS {TYPES[kind]})"
    return literal(value) if kind == "str" else f"{value}L" if kind in ("int", "duration") else f"{value!r}D"


def _decimal_text(value: str, kind: str) -> str:
    """The text of a decimal; Java writes some with more than six digits behind the point with an exponent."""
    if digits_of(kind)[1] > 6:
        raise UntranslatableExpression(f"Spark writes values of type {kind} differently")
    return f"CAST({value} AS STRING)"


def _in(value: str, others: list[str], kind: str, null: bool, _: list[Any] | None) -> str:
    return f"({value} IN ({', '.join([*others, *([_null(kind)] if null else [])])}))"


def _like(text: str, pattern: str) -> str:
    if "%" in pattern.strip("%"):
        signs = {"%": _ANYTHING, "_": "(?s:.)"}
        return _called(MATCHED, text, rf"\A{''.join(signs.get(sign) or re.escape(sign) for sign in pattern)}\z")
    escape = next(sign for sign in map(chr, range(0x21, 0x11_0000)) if sign not in pattern and sign not in "%_'\\$")
    return f"({text} LIKE {literal(pattern)} ESCAPE {literal(escape)})"


def _called(name: str, text: str, pattern: str, *more: str) -> str:
    """The call of a function that executes a regular expression; the text is nowhere else in it."""
    if len(pattern) > _LONGEST_PATTERN:
        raise UntranslatableExpression(
            f"the pattern {pattern[:40]!r}... has {len(pattern)} characters, and Spark takes {_LONGEST_PATTERN}"
        )
    if why := _refused(pattern):
        raise UntranslatableExpression(f"RE2, which Spark has, does not take the pattern {pattern[:40]!r}: {why}")
    return f"{name}({', '.join([text, *map(literal, (pattern, *more))])})"


@lru_cache(maxsize=1024)
def _refused(pattern: str) -> str:
    """Why RE2 refuses a pattern, such as one that is too large; empty if it takes it."""
    import pyarrow as pa  # noqa: PLC0415 - needed for regular expressions only
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


def _with_groups(pattern: str, names: Mapping[int, str]) -> str:
    """A pattern, as :func:`read_pattern` writes it, in which just some groups count, by names; 0 is all of it."""
    number = 0

    def opened(found: re.Match[str]) -> str:
        nonlocal number
        if found[0] != "(":
            return found[0]
        number += 1
        return f"(?P<{names[number]}>" if number in names else "(?:"

    written = re.sub(r"\\.|\((?!\?)", opened, pattern, flags=re.DOTALL)
    return f"(?P<{names[0]}>{written})" if 0 in names else f"(?:{written})"


def _case(conditions: list[str], values: list[str], otherwise: str) -> str:
    pairs = zip(conditions, values, strict=True)
    return f"(CASE{''.join(f' WHEN {when} THEN {value}' for when, value in pairs)} ELSE {otherwise} END)"


def _cast(value: str, kind: str, target: str, node: Any) -> str:
    if kind == "float" and target == "str":
        raise UntranslatableExpression(f"Spark writes floats differently, as in {sql.canonical(node)}")
    if family(kind) == "decimal" and target == "str":
        return _decimal_text(value, kind)
    if family(kind) == "decimal" and target == "int":
        return f"try_cast({value} AS BIGINT)"
    if kind == "float" and family(target) == "decimal":
        return f"CAST({_round(value, digits_of(target)[1])} AS {TYPES[target]})"
    if kind == "float" and target == "int":
        return f"try_cast(nullif({value}, {_BEYOND}) AS BIGINT)"
    if kind != "str":
        return f"CAST({value} AS {TYPES[target]})"
    stripped = f"trim(BOTH {literal(_BLANKS)} FROM {value})"
    if target == "bool":
        return f"try_element_at({_TRUTHS}, lower({stripped}))"
    pattern, group = (_FLOAT, 1) if target == "float" else (_INTEGER if target == "int" else _NUMBER, 0)
    return f"try_cast(nullif(regexp_extract({stripped}, {literal(pattern)}, {group}), '') AS {TYPES[target]})"


def _later(day: str, days: str) -> str:
    """A date moved by days; NULL beyond the years that there are."""
    least, most = FIRST // _DAY, LAST // _DAY
    moved = f"(CAST(unix_date({day}) AS BIGINT) + {days})"
    held = f"{days} BETWEEN {-2 * most}L AND {2 * most}L AND {moved} BETWEEN {least}L AND {most}L"
    return f"(CASE WHEN {held} THEN date_from_unix_date(CAST({moved} AS INT)) END)"


def _moved(time: str, sign: str, span: str) -> str:
    return _held(f"timestamp_micros(unix_micros({time}) {sign} {span})")


def _of_decimals(sign: str) -> Callable[[str, str, str], str]:
    return lambda left, right, made: f"CAST(({left} {sign} {right}) AS {TYPES[made]})"


def _whole_decimal(name: str) -> Callable[[str, str, str], str]:
    return lambda number, _, made: f"CAST({name}({number}) AS {TYPES[made]})"


def _whole(name: str) -> Callable[[str, int], str]:
    return lambda number, _: (
        f"(CASE WHEN abs({number}) < {_BEYOND} THEN CAST({name}({number}) AS DOUBLE) ELSE {number} END)"
    )


def _round(number: str, decimals: int) -> str:
    if not decimals:
        return f"round({number}, 0)"
    factor = 10**decimals
    rounded = f"(round({number} * {float(factor)!r}D, 0) / {float(factor)!r}D)"
    return f"(CASE WHEN abs({number}) < {_GREATEST / factor!r}D THEN {rounded} ELSE {number} END)"


def _call(name: str) -> Callable[..., str]:
    return lambda parts, *_: f"{name}({', '.join(parts)})"


def _trimmed(side: str) -> Callable[[str, str | None], str]:
    return lambda text, signs: f"trim({side} {literal(signs or BLANKS)} FROM {text})"


def _extracted(text: str, pattern: str, group: int | None) -> str:
    return _called(EXTRACTED, text, _with_groups(read_pattern(pattern).re2, {group or 0: "g"}))


def _replaced(text: str, pattern: str, replacement: str, every: str | None) -> str:
    read = read_pattern(pattern)
    pieces = read_replacement(replacement, read.groups)
    if every and read.empty:
        raise UntranslatableExpression(f"RE2, which Spark has, finds other matches of nothing, as of {pattern!r}")
    if every:
        written = "".join(f"\\{each}" if isinstance(each, int) else each.replace("\\", r"\\") for each in pieces)
        return _called(REPLACED, text, read.re2, written)
    names = {each: f"g{each}" for each in pieces if isinstance(each, int)}
    first = rf"\A(?P<before>{_ANYTHING}?){_with_groups(read.re2, names)}(?P<after>{_ANYTHING})\z"
    parts = [["before"], *([names[each]] if isinstance(each, int) else each for each in pieces), ["after"]]
    return _called(REPLACED_FIRST, text, first, json.dumps(parts))


def _logarithm(name: str) -> Callable[[str], str]:
    """A logarithm that is minus infinity of 0 and NaN below; in Spark it is NULL."""
    return lambda number: (
        f"(CASE WHEN {number} = 0.0D THEN CAST('-Infinity' AS DOUBLE) WHEN {number} < 0.0D "
        f"THEN CAST('NaN' AS DOUBLE) ELSE {name}({number}) END)"
    )


def _count(unit: str, time: str) -> str:
    """Number of the boundaries of a unit before a time."""
    size = UNITS[unit]
    if size is None:
        month = f"(CAST(year({time}) AS BIGINT) * 12L + CAST(month({time}) AS BIGINT) - 1L)"
        return f"({month} div {MONTHS[unit]}L)"
    return f"((unix_micros({time}) - pmod(unix_micros({time}), {size}L)) div {size}L)"


def _apart(unit: str, start: str, end: str) -> str:
    counted = "day" if unit == "week" else unit
    number = f"({_count(counted, end)} - {_count(counted, start)})"
    return f"({number} div 7L)" if unit == "week" else number


def _shifted(time: str, months: int, microseconds: int) -> str:
    moved = f"timestamp_micros(unix_micros({time}) + {microseconds}L)"
    return _held(f"({time} + INTERVAL '{months}' MONTH)" if months else moved)


def _held(time: str) -> str:
    """A time of the years that there are; NULL beyond them."""
    return f"(CASE WHEN unix_micros({time}) BETWEEN {FIRST}L AND {LAST}L THEN {time} END)"


#: Parts of a time to Spark's functions.
_PARTS: Final = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "weekofyear", "day": "day",
    "dayofyear": "dayofyear", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip


def _nested(*_: Any) -> str:
    raise UntranslatableExpression("lists and structs stay on peers")


_SPARK: Final[Operations[str]] = {
    "null": _null,
    "column": quote,
    "literal": _literal,
    "boolean": lambda value: "TRUE" if value else "FALSE",
    "instant": lambda moment, kind: f"{TYPES[kind]} '{moment}'",
    "widen": lambda value, _, kind: f"CAST({value} AS {TYPES[kind]})",
    "cast": _cast,
    "is null": "({} IS NULL)".format,
    "add": "({} + {})".format,
    "sub": "({} - {})".format,
    "mul": "({} * {})".format,
    "div": "({} / nullif({}, 0.0D))".format,
    "add decimal": _of_decimals("+"),
    "sub decimal": _of_decimals("-"),
    "mul decimal": _of_decimals("*"),
    "floor decimal": _whole_decimal("floor"),
    "ceil decimal": _whole_decimal("ceil"),
    "trunc decimal": lambda number, _, made: (
        f"CAST((CASE WHEN {number} < 0 THEN ceil({number}) ELSE floor({number}) END) AS {TYPES[made]})"
    ),
    "round decimal": lambda number, _, made: f"CAST(round({number}, {digits_of(made)[1]}) AS {TYPES[made]})",
    "sub time time": "(unix_micros({}) - unix_micros({}))".format,
    "add time duration": lambda time, span: _moved(time, "+", span),
    "add duration time": lambda span, time: _moved(time, "+", span),
    "sub time duration": lambda time, span: _moved(time, "-", span),
    "add duration duration": "({} + {})".format,
    "sub duration duration": "({} - {})".format,
    "mul duration int": "({} * {})".format,
    "mul int duration": "({} * {})".format,
    "sub date date": "CAST(datediff({}, {}) AS BIGINT)".format,
    "add date int": _later,
    "add int date": lambda days, day: _later(day, days),
    "sub date int": lambda day, days: _later(day, f"(- {days})"),
    "mod int": "({} % nullif({}, 0L))".format,
    "mod float": "({} % nullif({}, 0.0D))".format,
    "neg": "(- {})".format,
    "and": "({} AND {})".format,
    "or": "({} OR {})".format,
    "not": "(NOT {})".format,
    "eq": "({} = {})".format,
    "neq": "({} <> {})".format,
    "lt": "({} < {})".format,
    "lte": "({} <= {})".format,
    "gt": "({} > {})".format,
    "gte": "({} >= {})".format,
    "in": _in,
    "like": _like,
    "case": _case,
    "concat": _call("concat"),
    "abs": "abs({})".format,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _round,
    "trunc": lambda number, _: (
        f"(CASE WHEN {number} < 0.0D THEN {_whole('ceil')(number, 0)} ELSE {_whole('floor')(number, 0)} END)"
    ),
    "int div": "({} div nullif({}, 0L))".format,
    "shift": _shifted,
    "coalesce": _call("coalesce"),
    "least": _call("least"),
    "greatest": _call("greatest"),
    # the functions of the table of the subset
    "lower": "lower({})".format,
    "upper": "upper({})".format,
    "reverse": "reverse({})".format,
    "length": "CAST(char_length({}) AS BIGINT)".format,
    "substr": lambda text, *places: f"substring({', '.join([text, *(str(at) for at in places if at is not None)])})",
    "trim": _trimmed("BOTH"),
    "ltrim": _trimmed("LEADING"),
    "rtrim": _trimmed("TRAILING"),
    "replace": lambda text, part, other: f"replace({text}, {literal(part)}, {literal(other)})",
    "split_part": lambda text, between, number: f"split_part({text}, {literal(between)}, {number})",
    "strpos": lambda text, part: f"CAST(instr({text}, {literal(part)}) AS BIGINT)",
    "starts_with": "startswith({}, {})".format,
    "ends_with": "endswith({}, {})".format,
    "contains": "contains({}, {})".format,
    "lpad": lambda text, length, filling: f"lpad({text}, {length}, {literal(filling)})",
    "rpad": lambda text, length, filling: f"rpad({text}, {length}, {literal(filling)})",
    "left": "left({}, {})".format,
    "right": "right({}, {})".format,
    "regexp_matches": lambda text, pattern: _called(MATCHED, text, read_pattern(pattern).re2),
    "regexp_extract": _extracted,
    "regexp_replace": _replaced,
    "sqrt": "sqrt({})".format,
    "exp": "exp({})".format,
    "ln": _logarithm("ln"),
    "log10": _logarithm("log10"),
    "log2": _logarithm("log2"),
    "sin": "sin({})".format,
    "cos": "cos({})".format,
    "tan": "tan({})".format,
    "power": "power({}, {})".format,
    "sign": "CAST(signum(nanvl({}, 0.0D)) AS BIGINT)".format,
    "isnan": "(CASE WHEN {0} IS NOT NULL THEN isnan({0}) END)".format,
    "isfinite": "(CASE WHEN {0} IS NOT NULL THEN abs({0}) <= 1.7976931348623157E308D END)".format,
    **{name: f"CAST({function}({{}}) AS BIGINT)".format for name, function in _PARTS.items()},
    "dayofweek": "CAST(dayofweek({}) - 1 AS BIGINT)".format,
    "isodow": "CAST(weekday({}) + 1 AS BIGINT)".format,
    "epoch": "(CAST(unix_micros({}) AS DOUBLE) / 1000000.0D)".format,
    "epoch duration": "(CAST({} AS DOUBLE) / 1000000.0D)".format,
    "dayname": "date_format({}, 'EEEE')".format,
    "monthname": "date_format({}, 'MMMM')".format,
    "date_trunc": lambda unit, time: f"date_trunc('{unit}', {time})",
    "date_diff": _apart,
    **dict.fromkeys(("length list", "list_extract", "list_contains", "struct_extract"), _nested),
    "local_time": lambda time, zone: _held(f"from_utc_timestamp({time}, {literal(zone)})"),
}  # fmt: skip
