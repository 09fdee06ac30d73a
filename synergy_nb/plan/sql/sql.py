"""The SQL subset of predicates, projections and aggregate calls: parsing, checking, types, canonical text.

sqlglot parses expressions, and this module checks them against the subset below; no module evaluates them as Python.
This module writes the canonical text, not sqlglot, because it is part of the names of streams: the key of a stream
must not change with the version of a library.

The subset
----------
* columns (``link``, or ``"Source IP"``; upper and lower case differ), integers, decimals, strings, TRUE, FALSE, NULL
* ``+ - * / %`` and a sign · ``= <> < <= > >=`` · AND OR NOT · IN (list) · BETWEEN · IS [NOT] NULL
* LIKE with a literal pattern (``%``, ``_``; case matters; no ESCAPE) · CASE WHEN · CAST to int, float, str or bool
* a time, + or -, and a literal INTERVAL; ``//`` of integers, ILIKE as LIKE of lower()
* a literal time: ISO 8601 text beside a time, ``TIMESTAMP '2026-01-31 12:00:00'`` or a CAST of literal text
* concat abs round floor ceil trunc coalesce least greatest, and the functions of the table in ``_sql_functions``
* only in the values of an aggregate, and not within each other: count(*), count(x), count(distinct x), sum(x), min(x),
  max(x), avg(x), any_value(x), which is min(x), count_if(p), median(x), which is quantile_cont(x, 0.5), those of the
  table in ``_sql_calls``, and FILTER (WHERE p), which is CASE within a call; columns stand within calls there
* only in the values of an over, and not within each other: row_number(), rank(), dense_rank(), lag(x), lead(x), and
  count, sum, min, max, avg of the rows up to the present one

Meaning, on every engine
------------------------
Three-valued logic as in SQL: an operation on NULL is NULL, AND and OR follow Kleene, a filter keeps what is TRUE.
``/`` is float division, also of integers; ``//`` is that of integers, cut off towards zero; division by zero and
remainder by zero give NULL. ``%`` has the sign of the dividend. round() rounds halves away from zero; round, floor,
ceil, trunc and abs keep the type of their argument. Of a number for which it has no value a function is NaN or
infinite, as IEEE 754 says: ln(0) is minus infinity. A time beyond the years 1 to 9999 is NULL. CAST gives NULL where a
value has no counterpart; from float to int it truncates towards zero. concat() and ``||`` are NULL if any operand is.
coalesce, least and greatest take any number of arguments; the latter two ignore NULLs. substr counts characters from 1.
Integers have 64 bits and wrap around; a sum beyond them is NULL, an average that of the exact sum. Aggregates ignore
NULLs; sum, min, max and avg of nothing are NULL. IS binds less than comparisons, which are not chained.

DuckDB, Spark and Polars accept the canonical text. Where their meaning differs from the above, the translation for the
engine, or for the oracle of a test, must correct it: in DuckDB 2 division by zero gives infinity, remainder by zero and
a CAST that fails are errors, CAST from float to int rounds, and concat() skips NULLs; in Spark, with ANSI mode on,
division by zero and a CAST that fails are errors, and ceil and floor of a float are integers.

Types
-----
``int float str bool time bytes``, and ``null`` for a bare NULL, which is compatible with all of them.

The tree that :func:`parse` returns
-----------------------------------
sqlglot nodes, and only these: Column, Literal, Boolean, Null, Neg, Add, Sub, Mul, Div, Mod, EQ, NEQ, LT, LTE, GT, GTE,
And, Or, Not, In (``expressions``), Is (of Null), Like, Case (no ``this``), If (inside Case), Cast (DataType
BIGINT, DOUBLE, TEXT, BOOLEAN; TIMESTAMP of a literal), IntDiv, Interval (right of Add or Sub), Concat, Abs, Round,
Floor, Ceil, Trunc, Coalesce, Least, Greatest, Anonymous (a function of one of the tables), Count (of Star, Distinct or
an expression), Sum, Min, Max, Avg. No Paren.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from synergy_nb.plan.sql._sql_calls import AGGREGATES, OF_ORDER, OVER, TABLE, call_name
from synergy_nb.plan.sql._sql_functions import CALLS, MONTHS, UNITS
from synergy_nb.plan.sql._sql_precedence import with_parentheses
from synergy_nb.plan.sql._sql_types import (
    COMPARISONS,
    FUNCTIONS,
    NAME_OF_KEY,
    SUBSET,
    TYPE_OF_NAME,
    Checker,
    cast_type,
    quoted,
    unquoted_hint,
)
from synergy_nb.plan.terms.column_types import decimal_of_text
from synergy_nb.plan.terms.naming import internal
from synergy_nb.plan.terms.units import WrongValue, WrongValues

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "AGGREGATES",
    "CALLS",
    "FUNCTIONS",
    "OF_ORDER",
    "OVER",
    "TYPE_OF_NAME",
    "UNITS",
    "SqlError",
    "aligned",
    "call_name",
    "call_types",
    "calls",
    "canonical",
    "columns",
    "growth",
    "infer_type",
    "literal_text",
    "parse",
    "quoted",
    "read",
    "written",
]

_LONGEST: Final = 10_000  # maximum number of characters of one expression
_ENGINE_TYPE: Final = {
    "int": "BIGINT", "float": "DOUBLE", "str": "STRING", "bool": "BOOLEAN", "time": "TIMESTAMP", "date": "DATE",
}  # fmt: skip
_EXACT: Final = 2**53
_FLIPPED: Final = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "eq": "eq", "neq": "neq"}
_MOST_MONTHS: Final = 10_000 * 12
_MOST_MICROSECONDS: Final = 10_000 * 366 * 86_400 * 10**6
_OPPOSITE: Final = {"lt": "gte", "lte": "gt", "gt": "lte", "gte": "lt", "eq": "neq", "neq": "eq"}
#: What connects the operands of AND and OR, where their whole is negated and where it is not.
_JOINED: Final = {("and", False): "and", ("or", False): "or", ("and", True): "or", ("or", True): "and"}
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "//"}


class SqlError(WrongValues):
    """An expression is outside the SQL subset, or does not fit its columns; the text lists all mistakes."""

    place: tuple[int, int] | None = None  # line and column at which the parser gave up, from 1


def parse(
    text: Any, schema: Mapping[str, str] | None = None, *, aggregate: bool = False, over: bool = False
) -> exp.Expression:
    """Parse ``text`` to a checked and normalised sqlglot tree.

    ``text``: SQL expression; ``schema``: column to type; None checks only the syntax and the subset; ``aggregate``:
    whether ``text`` is an expression over aggregate calls; ``over``: whether it may hold calls over rows in order.

    Raises ``SqlError`` if the expression is invalid; it holds all mistakes.

    Examples
    --------
    >>> canonical(parse("bytes>1 and 'B' = link", {"bytes": "int", "link": "str"}))
    "bytes > 1 AND link = 'B'"
    """
    where = "over" if over else "aggregate" if aggregate else "row"
    return _checked(text, None if schema is None else tuple(schema.items()), where)[0].copy()


def calls(tree: exp.Expression) -> tuple[exp.Expression, dict[str, exp.Expression]]:
    """Take the calls over several rows out of a tree of :func:`parse`.

    Returns what is left, with a column in the place of each call, and the column to its call.

    >>> left, found = calls(parse("sum(bytes) / count(*)", {"bytes": "int"}, aggregate=True))
    >>> canonical(left), {name: canonical(call) for name, call in found.items()}
    ('" sum(bytes)" / " count(*)"', {' sum(bytes)': 'sum(bytes)', ' count(*)': 'count(*)'})
    """
    from sqlglot import exp  # noqa: PLC0415 - sqlglot takes 0.2 s to import, and most peers never need it

    found: dict[str, exp.Expression] = {}

    def taken(node: exp.Expression) -> exp.Expression:
        if not call_name(node):
            return node
        name = internal(_text(node))
        found[name] = node
        return exp.Column(this=exp.Identifier(this=name, quoted=True))

    return tree.copy().transform(taken, copy=False), found


def call_types(found: Mapping[str, exp.Expression], schema: Mapping[str, str], *, half_life: bool) -> dict[str, str]:
    """Types of calls that :func:`calls` took out; with a half-life, sums and counts are floats.

    >>> call_types(calls(parse("sum(bytes)", {"bytes": "int"}, aggregate=True))[1], {"bytes": "int"}, half_life=True)
    {' sum(bytes)': 'float'}
    """
    weighed = {
        name
        for name, call in found.items()
        if half_life and call.key in ("sum", "count", "avg") and call.this.key != "distinct"
    }
    return {name: "float" if name in weighed else infer_type(call, schema) for name, call in found.items()}


def canonical(expression: exp.Expression | str, schema: Mapping[str, str] | None = None) -> str:
    """Write the canonical text of an expression, the same for all of its spellings; it is parsed to the same tree.

    Keywords are upper case, functions lower case, operands of AND, OR, ``+``, ``*``, ``=`` and ``<>`` in order
    (those of a longer sum or product only between integers: floating-point addition is not associative), literals on
    the right of comparisons and there without a fraction that is 0, IN lists sorted.

    ``schema``: column to type of a text, as for :func:`parse`.
    """
    if isinstance(expression, str):
        expression = _checked(expression, None if schema is None else tuple(schema.items()), "any")[0]
    return _text(expression)


def read(text: str) -> exp.Expression:
    """Read an expression as it is written; names may have the name of a table before them.

    It is not checked: :func:`written` and :func:`parse` do so. Raises ``SqlError`` if it cannot be read.
    """
    try:
        return _read(text)
    except RecursionError:
        raise SqlError([WrongValue(text, "an expression that is nested less deeply")]) from None


def aligned(text: str) -> list[int]:
    """Place in ``text`` of each character of what :func:`read` parses, which may have more parentheses.

    >>> aligned("a = b IS NULL")[:3]
    [0, 0, 1]
    """
    clear = with_parentheses(text)
    places, at = [], 0
    for letter in clear if isinstance(clear, str) else text:
        places.append(min(at, len(text) - 1))
        at += at < len(text) and letter == text[at]
    return places


def written(tree: exp.Expression) -> str:
    """Write a tree of :func:`read` as text that is read as the same tree.

    Raises ``SqlError`` if it is outside the subset; it holds all mistakes.
    """
    wrongs: list[WrongValue] = []
    try:
        Checker(None, wrongs).outermost(tree, "any")
    except RecursionError:
        wrongs.append(WrongValue("...", "an expression that is nested less deeply"))
    if wrongs:
        raise SqlError(wrongs)
    return _text(tree)


def infer_type(expression: exp.Expression | str, schema: Mapping[str, str]) -> str:
    """Infer the type of ``expression`` over columns of ``schema``: int, float, str, bool, time, bytes or null.

    >>> infer_type("bytes / 2", {"bytes": "int"})
    'float'
    """
    text = expression if isinstance(expression, str) else _text(expression)
    return _checked(text, tuple(schema.items()), "any")[1]


def columns(expression: exp.Expression | str) -> tuple[str, ...]:
    """Names of the columns that ``expression`` uses, sorted."""
    from sqlglot import exp  # noqa: PLC0415 - sqlglot takes 0.2 s to import, and most peers never need it

    tree = _checked(expression, None, "any")[0] if isinstance(expression, str) else expression
    return tuple(sorted({column.name for column in tree.find_all(exp.Column)}))


def growth(expression: str) -> tuple[int, int]:
    """How much longer than its columns the text of an expression may be: a factor, and characters.

    >>> growth("lpad(replace(a, 'x', 'abc'), 9, '0')")
    (4, 9)
    """
    from sqlglot import exp  # noqa: PLC0415

    factor, characters = 1, 0
    for call in _checked(expression, None, "any")[0].find_all(exp.Anonymous):
        if call.name in ("replace", "regexp_replace"):  # each character, or the place between two, may be a match
            factor *= 1 + len(call.expressions[2].name)
        elif call.name in ("lpad", "rpad"):
            characters += int(call.expressions[1].name)
    return factor, characters


def literal_text(text: str) -> str:
    """Write ``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


# -- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _checked(text: Any, schema: tuple[tuple[str, str], ...] | None, where: str) -> tuple[exp.Expression, str]:
    """Return the normalised tree and its type; ``where``: see :meth:`.Checker.outermost`."""
    wrongs: list[WrongValue] = []
    try:
        tree = _with_fields(_read(text))
        checker = Checker(None if schema is None else dict(schema), wrongs)
        kind = checker.outermost(tree, where)
        if not wrongs:
            tree = _logical(_normal(tree, checker.kinds))
    except RecursionError:
        raise SqlError([WrongValue(text, "an expression that is nested less deeply")]) from None
    except SqlError as error:
        wrongs += error.wrongs
    if wrongs:
        if hint := unquoted_hint(text, dict(schema or ())):
            wrongs[0] = WrongValue(wrongs[0].value, wrongs[0].expected + hint)
        raise SqlError(wrongs)
    return tree, kind


def _read(text: Any) -> exp.Expression:
    import sqlglot  # noqa: PLC0415 - takes 0.2 s, and most peers never need it
    from sqlglot import exp  # noqa: PLC0415

    if not isinstance(text, str) or not text.strip():
        raise SqlError([WrongValue(text, "a SQL expression, as text")])
    if len(text) > _LONGEST:
        raise SqlError([WrongValue(text[:60] + "...", f"an expression of at most {_LONGEST} characters")])
    try:
        clear = with_parentheses(text)
        if isinstance(clear, WrongValue):
            raise SqlError([clear])
        tree = sqlglot.parse_one(clear, into=exp.Condition, dialect=_dialect())
    except SqlError:
        raise
    except sqlglot.errors.SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        where = details[0].get("highlight")
        at = f"{SUBSET}; it cannot be read at column {details[0].get('col')}, {where!r}" if where else SUBSET
        refused = SqlError([WrongValue(text, at)])
        refused.place = (details[0]["line"], details[0]["col"] - len(where) + 1) if where else None
        raise refused from None
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of the parser becomes a SqlError
        raise SqlError([WrongValue(text, f"{SUBSET}; the parser gave up ({type(error).__name__})")]) from None
    simpler: exp.Expression = _simpler(tree, exp)
    return simpler


@lru_cache(maxsize=1)
def _dialect() -> Any:
    """sqlglot's own dialect, but for functions of the table of this room, which it leaves as they are written."""
    from sqlglot import parser, tokens  # noqa: PLC0415
    from sqlglot.dialects.dialect import Dialect  # noqa: PLC0415

    ours = {name.upper() for name in (*CALLS, *TABLE, *_ALIASES, "median")}

    class Subset(Dialect):
        class Tokenizer(tokens.Tokenizer):
            KEYWORDS = {**tokens.Tokenizer.KEYWORDS, "//": tokens.Tokenizer.KEYWORDS["DIV"]}  # noqa: RUF012
            KEYWORDS.pop("SESSION")  # a window of a query

        class Parser(parser.Parser):
            FUNCTIONS = {name: make for name, make in parser.Parser.FUNCTIONS.items() if name not in ours}  # noqa: RUF012
            FUNCTION_PARSERS = {  # noqa: RUF012
                name: make for name, make in parser.Parser.FUNCTION_PARSERS.items() if name != "STRING_AGG"
            }

    return Subset


def _simpler(node: Any, exp: Any) -> Any:
    """Replace constructs that have an equivalent spelling within the subset."""
    node.comments = None
    for name, argument in list(node.args.items()):
        if isinstance(argument, list):
            node.set(name, [_simpler(part, exp) if isinstance(part, exp.Expression) else part for part in argument])
        elif isinstance(argument, exp.Expression):
            node.set(name, _simpler(argument, exp))
    key = node.key
    if key == "paren":
        return node.this
    if key == "trycast":
        return exp.Cast(this=node.this, to=node.args["to"])
    if key == "dpipe":
        return exp.Concat(expressions=[node.this, node.expression])
    if key == "like" and node.args.get("negate"):
        return exp.Not(this=exp.Like(this=node.this, expression=node.expression))
    if key in _SYNTAXES:
        name, parts = _SYNTAXES[key](node)
        return exp.Anonymous(this=name, expressions=[part for part in parts if part is not None])
    if key == "anonymous":
        return _called(node, exp)
    if key == "interval":
        return _interval(node, exp)
    if key == "dot" and node.expression.key == "identifier":
        return exp.Anonymous(this="struct_extract", expressions=[node.this, exp.Literal.string(node.expression.name)])
    if key == "bracket" and len(node.expressions) == 1 and node.expressions[0].key != "slice":
        part = node.expressions[0]
        name = "struct_extract" if part.key == "literal" and part.is_string else "list_extract"
        return exp.Anonymous(this=name, expressions=[node.this, part])
    if key == "add" and node.this.key == "interval":
        return exp.Add(this=node.expression, expression=node.this)
    if key in ("add", "sub") and node.expression.key == "interval" and node.expression.this.name.startswith("-"):
        positive = exp.Interval(this=exp.Literal.string(node.expression.this.name[1:]), unit=node.expression.unit)
        return (exp.Sub if key == "add" else exp.Add)(this=node.this, expression=positive)
    if key == "ilike" and node.expression.key == "literal":
        pattern = exp.Literal.string(node.expression.name.lower())
        found = exp.Like(this=exp.Anonymous(this="lower", expressions=[node.this]), expression=pattern)
        return exp.Not(this=found) if node.args.get("negate") else found
    if key == "countif":
        return exp.Count(this=_where(exp.Literal.number(1), node.this, exp))
    if key == "anyvalue" and node.this is not None:
        return exp.Min(this=node.this)  # any value will do, so it is one that does not depend on their order
    if key == "filter" and call_name(node.this) in _FILTERED and _argument(node.this) is not None:
        return _filtered(node.this, node.expression.this, exp)
    if key == "withingroup" and node.this.key in _QUANTILES and node.expression.key == "order":
        (by, *more), fraction = node.expression.expressions, node.this.this
        if not more and not by.args.get("desc"):
            return exp.Anonymous(this=_QUANTILES[node.this.key], expressions=[by.this, fraction])
    if key == "nullif":
        same = exp.EQ(this=node.this.copy(), expression=node.expression)
        return exp.Case(ifs=[exp.If(this=same, true=exp.Null())], default=node.this)
    if key == "if" and node.arg_key != "ifs":
        return exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false"))
    if key == "case" and node.this is not None:
        base = node.this
        ifs = [
            exp.If(this=exp.EQ(this=base.copy(), expression=branch.this), true=branch.args["true"])
            for branch in node.args["ifs"]
        ]
        return exp.Case(ifs=ifs, default=node.args.get("default"))
    return node


def _with_fields(tree: Any) -> Any:
    """Write fields of structs, ``a.b``, as calls; :func:`read` leaves them, as names of tables are written alike."""
    from sqlglot import exp  # noqa: PLC0415

    def extracted(node: Any) -> Any:
        if node.key != "column" or len(node.parts) < 2 or node.this.key == "star":
            return node
        first, *names = node.parts
        found: Any = exp.Column(this=first.copy())
        for name in names:
            found = exp.Anonymous(this="struct_extract", expressions=[found, exp.Literal.string(name.name)])
        return found

    return tree.transform(extracted) if tree.find(exp.Column) is not None else tree


def _where(value: Any, condition: Any, exp: Any) -> Any:
    """A value where a condition holds, and NULL elsewhere, which aggregates ignore."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def _argument(call: Any) -> Any:
    """The first argument of a call over several rows; None if it has none."""
    return next(iter(call.expressions), None) if call.key == "anonymous" else call.this


def _filtered(call: Any, condition: Any, exp: Any) -> Any:
    """Write an aggregate call with FILTER as one without."""
    argument = _argument(call)
    if call.key == "anonymous":
        value = _where(argument, condition, exp)
        return exp.Anonymous(this=call.this, expressions=[value, *call.expressions[1:]])
    if argument.key == "distinct" and len(argument.expressions) == 1:
        return type(call)(this=exp.Distinct(expressions=[_where(argument.expressions[0], condition, exp)]))
    value = exp.Literal.number(1) if argument.key == "star" else argument
    return type(call)(this=_where(value, condition, exp))


#: Other names of functions.
_ALIASES: Final = {
    "len": "length", "array_length": "length", "list_element": "list_extract", "array_contains": "list_contains",
    "list_has": "list_contains", "char_length": "length", "character_length": "length", "lcase": "lower",
    "ucase": "upper",
    "substring": "substr", "instr": "strpos", "regexp_like": "regexp_matches", "pow": "power",
    "datetrunc": "date_trunc", "datediff": "date_diff", "dayofmonth": "day", "weekofyear": "week", "doy": "dayofyear",
    "dow": "dayofweek", "day_of_week": "dayofweek", "day_of_month": "day", "day_of_year": "dayofyear",
    "week_of_year": "week", "minutes": "minute", "hours": "hour",
    "stddev": "stddev_samp", "variance": "var_samp", "quantile": "quantile_disc", "listagg": "string_agg",
    "group_concat": "string_agg", "approx_distinct": "approx_count_distinct",
}  # fmt: skip


#: Calls with a FILTER, which is CASE within them as they ignore NULLs.
_FILTERED: Final = frozenset(AGGREGATES) - {"first", "last"}
#: sqlglot's key of a node before WITHIN GROUP to the name of its call.
_QUANTILES: Final = {"percentilecont": "quantile_cont", "percentiledisc": "quantile_disc"}


def _trim(node: Any) -> tuple[str, list[Any]]:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return side, [node.this, node.expression]


#: sqlglot's key of a node with a syntax of its own to the name of its function, and the arguments.
_SYNTAXES: Final[Mapping[str, Callable[[Any], tuple[str, list[Any]]]]] = {
    "substring": lambda node: ("substr", [node.this, node.args.get("start"), node.args.get("length")]),
    "trim": _trim,
    "strposition": lambda node: ("strpos", [node.this, node.args["substr"]]),
    "regexplike": lambda node: ("regexp_matches", [node.this, node.expression]),
    "extract": lambda node: (_part(node.name), [node.expression]),
}


def _part(name: str) -> str:
    """Return the function of a part of a time, such as HOUR; of another part what is refused by its name."""
    lower = name.lower()
    lower = _ALIASES.get(lower, lower)
    return lower if lower in CALLS and CALLS[lower].arguments in (("time",), ("moment",)) else f"extract {lower}"


def _called(node: Any, exp: Any) -> Any:
    """Write a call of a function of the table under its own name."""
    name = node.name.lower()
    name = _ALIASES.get(name, name)
    parts = node.expressions
    if name == "date_part" and len(parts) == 2 and parts[0].key == "literal":
        return exp.Anonymous(this=_part(parts[0].name), expressions=parts[1:])
    if name == "median" and len(parts) == 1:
        return exp.Anonymous(this="quantile_cont", expressions=[parts[0], exp.Literal.number("0.5")])
    if name == "string_agg" and len(parts) == 1:
        parts = [*parts, exp.Literal.string(",")]
    if name == "mod" and len(parts) == 2:
        return exp.Mod(this=parts[0], expression=parts[1])
    if name in ("date_trunc", "date_diff") and parts and parts[0].key == "literal":
        unit = exp.Literal.string(parts[0].name.lower().removesuffix("s"))
        return exp.Anonymous(this=name, expressions=[unit, *parts[1:]])
    return exp.Anonymous(this=name if name in CALLS or name in TABLE else node.name, expressions=parts)


_LENGTH: Final = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)")


def _interval(node: Any, exp: Any) -> Any:
    """Write an interval in the largest unit that measures it: months, or else microseconds to days."""
    value = "" if node.this is None else f"-{node.this.this.name}" if node.this.key == "neg" else node.this.name
    text = f"{value} {node.args.get('unit') or ''}".lower()
    found = {"month": 0, "microsecond": 0}
    for number, name in _LENGTH.findall(text):
        unit = name.removesuffix("s")
        if unit not in UNITS:
            raise SqlError([WrongValue(text.strip(), f"an interval in one of the units {', '.join(UNITS)}")])
        size = UNITS[unit]
        found["month"] += MONTHS.get(unit, 0) * int(number)
        found["microsecond"] += (size or 0) * int(number)
    wrong = _LENGTH.sub("", text).strip() or not _LENGTH.search(text)
    longest = abs(found["month"]) > _MOST_MONTHS or abs(found["microsecond"]) > _MOST_MICROSECONDS
    if wrong or all(found.values()) or longest:
        expected = (
            "an interval of months, or else of other units, of at most 10000 years, such as INTERVAL '90 minutes' or "
            "INTERVAL '1' MONTH"
        )
        raise SqlError([WrongValue(text.strip(), expected)])
    unit, number = ("month", found["month"]) if found["month"] else ("microsecond", found["microsecond"])
    if unit != "month":
        unit = next(name for name in ("day", "hour", "minute", "second", "millisecond", "microsecond")
                    if number % (UNITS[name] or 1) == 0)  # fmt: skip
        number //= UNITS[unit] or 1
    return exp.Interval(this=exp.Literal.string(str(number)), unit=exp.Var(this=unit.upper()))


# -- the normal form and its text ------------------------------------------------------------------------------------


def _normal(node: Any, kinds: Mapping[int, str]) -> Any:
    """Return ``node`` with commutative operands in order."""
    from sqlglot import exp  # noqa: PLC0415

    key = node.key
    commutes_freely = key in ("and", "or") or (key in ("add", "mul") and kinds.get(id(node)) == "int")
    if commutes_freely:
        operands = [_normal(operand, kinds) for operand in _chain(node, key, kinds)]
        operands.sort(key=_order)
        if key in ("and", "or"):
            operands = list({_text(operand): operand for operand in operands}.values())
        result = operands[0]
        for operand in operands[1:]:
            result = type(node)(this=result, expression=operand)
        return result
    for name, argument in list(node.args.items()):
        if isinstance(argument, list):
            node.set(name, [_normal(part, kinds) if isinstance(part, exp.Expression) else part for part in argument])
        elif isinstance(argument, exp.Expression) and name != "to" and key != "column":
            node.set(name, _normal(argument, kinds))
    if key in ("between", "in", *COMPARISONS):
        for name, argument in list(node.args.items()):
            node.set(name, [_whole(part) for part in argument] if isinstance(argument, list) else _whole(argument))
    if key in ("add", "mul", *COMPARISONS):
        node = _turned(node)
    if key == "in":
        node.set(
            "expressions", [value for _, value in sorted({_text(each): each for each in node.expressions}.items())]
        )
    if key in ("least", "greatest"):
        first, *rest = sorted([node.this, *node.expressions], key=_order)
        return type(node)(this=first, expressions=rest)
    if key == "concat":
        parts = [inner for part in node.expressions for inner in (part.expressions if part.key == "concat" else [part])]
        return exp.Concat(expressions=parts)
    return node


def _turned(node: Any) -> Any:
    """Return a comparison, a sum or a product with its operands in order."""
    from sqlglot import exp  # noqa: PLC0415

    key = node.key
    if node.expression.key == "interval":  # it stands behind the time that it moves, and behind NULL
        return node
    if (_order(node.expression), key in ("lt", "lte")) >= (_order(node.this), key in ("gt", "gte")):
        return node
    turned = getattr(exp, _FLIPPED[key].upper()) if key in COMPARISONS else type(node)
    return turned(this=node.expression, expression=node.this)


def _logical(node: Any, *, negated: bool = False) -> Any:
    """Return ``node`` with one form for each condition: equal work is to have one name.

    NOT is at the leaves, BETWEEN is two comparisons, and what is compared with several literals for equality is IN.
    Three-valued logic allows all of this, as NOT of NULL is NULL, and so does NaN, which is greater than any number.
    """
    from sqlglot import exp  # noqa: PLC0415

    key = node.key
    if key == "not":
        return _logical(node.this, negated=not negated)
    if key == "between":
        low = _turned(exp.GTE(this=node.this, expression=node.args["low"]))
        high = _turned(exp.LTE(this=node.this.copy(), expression=node.args["high"]))
        return _logical(exp.And(this=low, expression=high), negated=negated)
    if key in ("and", "or"):
        operands = [_logical(operand, negated=negated) for operand in _chain(node, key, {})]
        joined = _JOINED[key, negated]
        flat = [each for operand in operands for each in _chain(operand, joined, {})]
        unique = {_text(operand): operand for operand in _listed(flat, negated=joined == "and")}
        first, *rest = sorted(unique.values(), key=_order)
        for operand in rest:
            first = (exp.And if joined == "and" else exp.Or)(this=first, expression=operand)
        return first
    if key == "in" and len(node.expressions) == 1:
        node = _turned(exp.EQ(this=node.this, expression=node.expressions[0]))
        key = node.key
    for name, argument in list(node.args.items()):
        if isinstance(argument, list):
            node.set(name, [_logical(part) if isinstance(part, exp.Expression) else part for part in argument])
        elif isinstance(argument, exp.Expression) and name != "to" and key != "column":
            node.set(name, _logical(argument))
    if negated and key in COMPARISONS:
        return _turned(getattr(exp, _OPPOSITE[key].upper())(this=node.this, expression=node.expression))
    return exp.Not(this=node) if negated else node


def _listed(operands: list[Any], *, negated: bool) -> list[Any]:
    """Combine operands of OR that compare one value with literals to IN, or those of AND that exclude them."""
    from sqlglot import exp  # noqa: PLC0415

    values: dict[tuple[str, str], list[Any]] = {}
    tested: dict[tuple[str, str], Any] = {}
    others: list[Any] = []
    for operand in operands:
        test = operand.this if negated and operand.key == "not" else operand
        found: list[Any] = []
        if test.key == "in" and (operand.key == "not") == negated:
            found = test.expressions
        elif test.key == ("neq" if negated else "eq"):
            found = [test.expression]
        kinds = {_literal_kind(each) for each in found} - {"null"} or {"null"}
        if not found or len(kinds) > 1 or "" in kinds:  # an int beside a float would be compared as one
            others.append(operand)
            continue
        group = _text(test.this), kinds.pop()
        tested[group] = test.this
        values.setdefault(group, []).extend(found)
    for group, found in values.items():
        listed = [value for _, value in sorted({_text(each): each for each in found}.items())]
        if len(listed) == 1:
            others.append((exp.NEQ if negated else exp.EQ)(this=tested[group], expression=listed[0]))
        else:
            found_in = exp.In(this=tested[group], expressions=listed)
            others.append(exp.Not(this=found_in) if negated else found_in)
    return others


def _literal_kind(node: Any) -> str:
    """Type of a literal; empty for anything else."""
    if node.key == "cast":
        kind = cast_type(node.args["to"]) or ""
        return kind if node.this.key == "literal" and kind in ("time", "date") else ""
    number = node.this if node.key == "neg" else node
    if number.key == "literal":
        return "str" if number.is_string else "int" if number.name.isdigit() else "float"
    return {"boolean": "bool", "null": "null"}.get(node.key, "")


def _whole(node: Any) -> Any:
    """Convert a compared number to an integer if it is one: 'bytes > 9.0' is 'bytes > 9'.

    A float represents each integer up to 2**53 exactly, so both compare equally with a column of either type.
    """
    from sqlglot import exp  # noqa: PLC0415

    number = node.this if getattr(node, "key", "") == "neg" else node
    if getattr(number, "key", "") != "literal" or number.is_string or not float(number.name).is_integer():
        return node
    if float(number.name) >= _EXACT:
        return node
    whole = exp.Literal.number(int(float(number.name)))
    return whole if number is node or whole.name == "0" else exp.Neg(this=whole)


def _chain(node: Any, key: str, kinds: Mapping[int, str]) -> list[Any]:
    """Operands of a chain of one associative operator."""
    operands, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        if current.key == key and (key in ("and", "or") or kinds.get(id(current)) == "int"):
            waiting += [current.expression, current.this]
        else:
            operands.append(current)
    return operands


def _order(node: Any) -> tuple[bool, str]:
    is_literal = node.key in ("literal", "boolean", "null", "interval") or (
        node.key in ("neg", "cast") and node.this.key == "literal"
    )
    return is_literal, _text(node)


_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(1, 9)


def _text(node: Any) -> str:
    return _written(node)[0]


def _at(node: Any, least: int) -> str:
    text, precedence = _written(node)
    return text if precedence >= least else f"({text})"


def _written(node: Any) -> tuple[str, int]:
    """Return the text of ``node`` and the precedence of its outermost operator."""
    key = node.key
    if key == "column":
        return quoted(node.name), _ATOM
    if key == "literal":
        return _literal(node), _ATOM
    if key in ("boolean", "null"):
        return ("NULL" if key == "null" else "TRUE" if node.this else "FALSE"), _ATOM
    if key in _SIGNS:
        level = _SUM if key in ("add", "sub") else _PRODUCT
        return f"{_at(node.this, level)} {_SIGNS[key]} {_at(node.expression, level + 1)}", level
    if key == "neg":
        return f"-{_at(node.this, _ATOM)}", _SIGN
    if key in ("and", "or"):
        level = _AND if key == "and" else _OR
        return f"{_at(node.this, level)} {key.upper()} {_at(node.expression, level + 1)}", level
    if key == "not":
        negated = _predicate(node.this, "NOT ")
        return (negated, _COMPARISON) if negated else (f"NOT {_at(node.this, _NOT)}", _NOT)
    if key in COMPARISONS:
        return f"{_at(node.this, _SUM)} {COMPARISONS[key]} {_at(node.expression, _SUM)}", _COMPARISON
    predicate = _predicate(node, "")
    if predicate:
        return predicate, _COMPARISON
    if key == "case":
        branches = "".join(f" WHEN {_text(part.this)} THEN {_text(part.args['true'])}" for part in node.args["ifs"])
        default = node.args.get("default")
        return f"CASE{branches}{'' if default is None else f' ELSE {_text(default)}'} END", _ATOM
    if key == "cast":
        kind = cast_type(node.args["to"]) or ""
        return f"CAST({_text(node.this)} AS {_ENGINE_TYPE.get(kind, kind.upper())})", _ATOM
    if key in ("star", "distinct"):
        return ("*" if key == "star" else f"DISTINCT {_text(node.expressions[0])}"), _ATOM
    if key == "interval":
        return f"INTERVAL {_text(node.this)} {node.unit.name}", _ATOM
    if key == "anonymous":
        return f"{node.name}({', '.join(map(_text, node.expressions))})", _ATOM
    parts = [node.this, node.args.get("decimals"), *node.expressions]
    return f"{NAME_OF_KEY[key]}({', '.join(_text(part) for part in parts if part is not None)})", _ATOM


def _predicate(node: Any, negation: str) -> str:
    """Write IN, BETWEEN, LIKE or IS NULL, plain or negated; empty for other nodes."""
    key = node.key
    if key == "in":
        return f"{_at(node.this, _SUM)} {negation}IN ({', '.join(map(_text, node.expressions))})"
    if key == "between":
        low, high = _at(node.args["low"], _SUM), _at(node.args["high"], _SUM)
        return f"{_at(node.this, _SUM)} {negation}BETWEEN {low} AND {high}"
    if key == "like":
        return f"{_at(node.this, _SUM)} {negation}LIKE {_text(node.expression)}"
    if key == "is":
        return f"{_at(node.this, _SUM)} IS {negation}NULL"
    return ""


def _literal(node: Any) -> str:
    if node.is_string:
        return literal_text(node.name)
    if node.name.isdigit():
        return str(int(node.name))
    text = repr(float(node.name)).replace("e+", "e")
    exact = decimal_of_text(node.name) is not None and Decimal(text) != Decimal(node.name)
    return node.name if exact else text  # beside a decimal all of its digits count
