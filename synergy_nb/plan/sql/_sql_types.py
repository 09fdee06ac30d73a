"""Type checker of SQL expressions, for :mod:`synergy_nb.plan.sql.sql`: it infers types and finds all mistakes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any, Final

from synergy_nb.plan.sql._sql_calls import AGGREGATES, NATIVE, OVER, TABLE, call_name
from synergy_nb.plan.sql._sql_functions import CALLS, PART, Constant, check_constants, literal_value
from synergy_nb.plan.terms.column_types import (
    PLAIN,
    arithmetic,
    column_type,
    common,
    decimal_of_text,
    decimal_type,
    digits_of,
    element_of,
    family,
    fields_of,
    sum_of,
)
from synergy_nb.plan.terms.units import WrongValue, nearest

#: Functions whose arguments depend on each other: sqlglot's nodes.
_OWN_RULES: Final = ("abs", "ceil", "coalesce", "concat", "floor", "greatest", "least", "round", "trunc")
#: Scalar functions of the subset.
FUNCTIONS: Final = tuple(sorted((*_OWN_RULES, *CALLS)))
#: sqlglot's key of a function's node to its name in the subset.
NAME_OF_KEY: Final = {name: name for name in (*_OWN_RULES, *NATIVE)}
#: Where an expression stands, to the calls over several rows that it may hold.
MAY_CALL: Final = {"row": (), "aggregate": AGGREGATES, "over": OVER, "any": tuple(TABLE) + NATIVE}
#: sqlglot's key of a comparison's node to its sign.
COMPARISONS: Final = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
SUBSET: Final = "SQL of the documented subset (docs/plans.md)"

#: Words that an engine, or sqlglot, does not accept as an unquoted column name.
NOT_A_PLAIN_WORD: Final = frozenset(
    {
        "all", "and", "anti", "any", "array", "as", "asc", "at", "between", "both", "by", "case", "cast", "check",
        "collate", "column", "connect", "constraint", "create", "cross", "cube", "current", "current_date",
        "current_time", "current_timestamp", "current_user", "date", "datetime", "default", "desc", "describe",
        "distinct", "div", "drop", "else", "end", "escape", "except", "exists", "false", "fetch", "filter", "following",
        "for", "foreign", "from", "full", "function", "grant", "group", "grouping", "having", "if", "ilike", "in",
        "inner", "insert", "intersect", "interval", "into", "is", "join", "lateral", "left", "like", "limit", "map",
        "minus", "natural", "not", "null", "offset", "on", "or", "order", "outer", "over", "partition", "preceding",
        "primary", "qualify", "references", "right", "row", "rows", "select", "semi", "session_user", "set", "show",
        "similar", "some", "struct", "table", "then", "timestamp", "to", "top", "trailing", "true", "union", "unique",
        "unnest", "unpivot", "update", "user", "using", "values", "when", "where", "window", "with", "within",
    }
)  # fmt: skip

_NUMERIC: Final = frozenset({"int", "float", "decimal"})
_INSTANTS: Final = frozenset({"time", "date"})
_MOMENTS: Final = _INSTANTS | {"duration"}
_ORDERED: Final = _NUMERIC | _MOMENTS | {"str"}
_PLAIN: Final = frozenset({"int", "float", "str", "bool"})
#: Family that a CAST makes to those that it takes.
_CASTS: Final = {
    "int": _PLAIN | {"decimal"}, "float": _PLAIN | {"decimal"}, "str": _PLAIN | {"decimal", "date"}, "bool": _PLAIN,
    "decimal": frozenset({"int", "float", "str", "decimal"}), "date": _INSTANTS, "time": _INSTANTS,
}  # fmt: skip
_WORDS: Final = {
    _NUMERIC: "a number", frozenset({"bool"}): "a condition", frozenset({"str"}): "text (str)",
    frozenset(PLAIN): "a value without parts", frozenset({"list"}): "a list", frozenset({"struct"}): "a struct",
    frozenset({"str", "list"}): "text or a list", _INSTANTS: "a time or a date",
    _MOMENTS: "a time, a date or a duration",
}  # fmt: skip
#: Kinds of arguments of functions to the families that they take.
_GIVEN: Final = {"number": _NUMERIC, "time": _INSTANTS, "moment": _MOMENTS, "sized": frozenset({"str", "list"})}
_EQUAL: Final = frozenset(PLAIN)
_TAKES: Final = {"number": _NUMERIC, "ordered": _ORDERED, "plain": frozenset(PLAIN), "str": frozenset({"str"})}
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "mod", "intdiv"})
_NOT_PART: Final = {
    "select": "subquery", "subquery": "subquery", "exists": "subquery", "union": "subquery",
    "window": "window function", "alias": "alias", "placeholder": "parameter", "parameter": "parameter",
    "star": "'*'",
    "filter": "FILTER (WHERE ...) but of an aggregate call other than first and last",
    "escape": "ESCAPE", "ilike": "ILIKE but with a literal pattern", "array": "array", "struct": "struct",
    "tuple": "list of expressions", "dot": "field of a struct but by its name",
    "bracket": "slice of a list", "lambda": "lambda",
    "bitwisexor": "'^'", "bitwiseand": "'&'", "bitwiseor": "'|'", "distinct": "DISTINCT here",
    "attimezone": "AT TIME ZONE: local_time(time, 'zone') is the time there",
    "order": "ORDER BY within a call", "withingroup": "WITHIN GROUP but of percentile_cont or percentile_disc",
}  # fmt: skip
TYPE_OF_NAME: Final = {
    "INT": "int", "BIGINT": "int", "SMALLINT": "int", "TINYINT": "int", "INTEGER": "int", "LONG": "int",
    "FLOAT": "float", "DOUBLE": "float", "REAL": "float",
    "TEXT": "str", "VARCHAR": "str", "STRING": "str", "CHAR": "str", "STR": "str",
    "BOOLEAN": "bool", "BOOL": "bool",
    "TIMESTAMP": "time", "DATETIME": "time", "DATE": "date",
}  # fmt: skip
_INSTANT: Final = "ISO 8601 text, such as '2026-01-31' or '2026-01-31 12:30:00'"
_NO_SUCH: Final = (
    "a time or a date and a duration, two times, two dates, a date and an int, or a duration and an int as factor, "
    "not {} and {}"
)
_DAY: Final = "ISO 8601 text, such as '2026-01-31'"
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


def quoted(column: str) -> str:
    """Write ``column`` in SQL: in double quotes unless it is a plain word."""
    if _BARE.fullmatch(column) and column.lower() not in NOT_A_PLAIN_WORD:
        return column
    return '"' + column.replace('"', '""') + '"'


def instant(text: str) -> dt.datetime | None:
    """Read ISO 8601 text as a time in UTC, without a zone; None if it is none.

    >>> instant("2026-01-31T12:30:00+02:00")
    datetime.datetime(2026, 1, 31, 10, 30)
    """
    try:
        found = dt.datetime.fromisoformat(text.strip())
        return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def day(text: str) -> dt.date | None:
    """Read ISO 8601 text as a date; None if it is none.

    >>> day("2026-01-31"), day("2026-01-31 12:30")
    (datetime.date(2026, 1, 31), None)
    """
    try:
        return dt.date.fromisoformat(text.strip())
    except ValueError:
        return None


def cast_type(to: Any) -> str | None:
    """Type that a CAST makes, from sqlglot's node of it; None if there is no such type."""
    name = str(to.this.value if hasattr(to.this, "value") else to.this).upper()
    if name in ("DECIMAL", "NUMERIC"):
        parts = [part.name for part in to.expressions]
        return column_type(f"decimal({', '.join(parts)})" if parts else "decimal")
    return None if to.expressions else TYPE_OF_NAME.get(name)


def kinds_of_literals(nodes: list[Any], kinds: list[str]) -> list[str]:
    """Types of operands, of which literals with a fraction are decimals beside decimals, as in DuckDB."""
    if not any(family(kind) == "decimal" for kind in kinds):
        return kinds
    found = []
    for node, kind in zip(nodes, kinds, strict=True):
        number = node.this if node.key == "neg" else node
        exact = decimal_of_text(number.name) if kind == "float" and number.key == "literal" else None
        found.append(exact or kind)
    return found


def unquoted_hint(text: Any, columns: Iterable[str]) -> str:
    """Name a column that stands in an invalid expression without the double quotes that it needs; empty if none does.

    >>> unquoted_hint("User Name = 'ann'", ["User Name", "age"])
    '; the column User Name takes double quotes: "User Name"'
    """
    bare = _QUOTED.sub(" ", text) if isinstance(text, str) else ""
    for column in sorted(columns, key=len, reverse=True):
        sql = quoted(column)
        if sql != column and re.search(rf"(?<!\w){re.escape(column)}(?!\w)", bare):
            return f"; the column {column} takes double quotes: {sql}"
    return ""


def rounded(kind: str, decimals: Any) -> str:
    """Type of a number that is rounded to a literal number of ``decimals``, None for none: that of the number, but for
    decimals, which have no more digits behind the point.
    """
    if family(kind) != "decimal":
        return kind
    digits, scale = digits_of(kind)
    kept = min(scale, int(decimals.name)) if decimals is not None and decimals.name.isdigit() else 0
    return decimal_type(digits, kept)


class Checker:
    """Infer the types of all nodes of one tree, and append mistakes to ``wrongs``."""

    def __init__(self, schema: dict[str, str] | None, wrongs: list[WrongValue]) -> None:
        self.schema = schema  # column to type; None accepts every column, of any type
        self.wrongs = wrongs  # mistakes, in the order of the text
        #: Type of every node by its id (nodes compare by value).
        self.kinds: dict[int, str] = {}
        self._where = "row"
        self._may_call: tuple[str, ...] = ()  # calls over several rows that may stand here
        self._columns = True  # whether columns may stand here, or only within a call

    def outermost(self, node: Any, where: str) -> str:
        """Type of the whole tree, which stands in a ``row``, or in a value of an ``aggregate`` or of an ``over``.

        In an aggregate it needs a call, and columns stand within calls; ``any`` accepts what one of these accepts.
        """
        self._where, self._may_call = where, MAY_CALL[where]
        self._columns = where != "aggregate"
        if where == "aggregate" and not any(map(call_name, node.walk())):
            near = nearest(node.name, AGGREGATES) if node.key == "anonymous" else None
            self._columns = True
            return self._wrong_call(node, f"an aggregate call, such as {_example(node)}", near)
        return self.of(node)

    def _wrong(self, node: Any, expected: str, near: str | None = None) -> str:
        self.wrongs.append(WrongValue(_fragment(node), expected, near))
        return "any"  # fits everywhere, so that one fault is reported once

    def _wrong_call(self, node: Any, expected: str, near: str | None = None) -> str:
        """Record a call that the subset lacks, and mistakes with the columns in it."""
        from sqlglot import exp  # noqa: PLC0415

        self._wrong(node, expected, near)
        for column in node.find_all(exp.Column):
            self._column(column)
        return "any"

    def of(self, node: Any) -> str:
        """Type of ``node``; ``any`` if it is unknown or invalid."""
        kind = self.kinds[id(node)] = self._of(node)
        return kind

    def _of(self, node: Any) -> str:
        key = node.key
        if key == "column":
            if not self._columns:
                self._wrong(node, f"a call of it, such as {_example(node)}, as it has a value in each tuple")
            return self._column(node)
        if call_name(node) in self._may_call:
            return self._over_rows(node)
        if key == "literal":
            return self._literal(node)
        if key in ("boolean", "null"):
            return "bool" if key == "boolean" else "null"
        if key in ("add", "sub") and node.expression.key == "interval":
            kind = self._need(node.this, _MOMENTS)
            if kind != "duration":
                return "time"
            self.of(node.expression)
            return kind
        if key == "interval":
            if node.unit.name.lower() == "month":
                return self._wrong(node, "an interval of months only after '+' or '-' and a time or a date")
            return "duration"
        if key in _ARITHMETIC:
            return self._arithmetic(node, self.of(node.this), self.of(node.expression))
        if key == "neg":
            if node.this.key == "literal" and node.this.name == str(2**63):  # the least integer has no positive one
                return "int"
            return self._need(node.this, _NUMERIC | {"duration"})
        if key in ("and", "or"):
            self._need(node.this, {"bool"})
            self._need(node.expression, {"bool"})
            return "bool"
        if key == "not":
            self._need(node.this, {"bool"})
            return "bool"
        if key in COMPARISONS:
            self._alike(node, [node.this, node.expression], _EQUAL if key in ("eq", "neq") else _ORDERED)
            return "bool"
        if key == "in":
            if not node.expressions or any(node.args.get(part) for part in ("query", "unnest", "field")):
                return self._wrong(node, "a list of values after IN, not a subquery")
            self._alike(node, [node.this, *node.expressions], _EQUAL)
            return "bool"
        if key == "between":
            self._alike(node, [node.this, node.args["low"], node.args["high"]], _ORDERED)
            return "bool"
        if key == "is":
            if node.expression.key != "null":
                return self._wrong(node, "IS NULL or IS NOT NULL")
            self.of(node.this)
            return "bool"
        if key == "like":
            self._need(node.this, {"str"})
            if node.expression.key != "literal" or not node.expression.is_string:
                return self._wrong(node.expression, "a literal pattern, as in LIKE 'a%'")
            return "bool"
        if key == "case":
            for branch in node.args["ifs"]:
                self._need(branch.this, {"bool"})
            results = [branch.args["true"] for branch in node.args["ifs"]]
            default = node.args.get("default")
            return self._alike(node, results if default is None else [*results, default], None)
        if key == "cast":
            return self._cast(node)
        if key in NAME_OF_KEY and key not in NATIVE:
            return self._function(node)
        if key == "anonymous" and node.name in CALLS:
            return self._called(node, node.name)
        return self._foreign(node)

    def _arithmetic(self, node: Any, left: str, right: str) -> str:
        """Type of an operation; the operands are not looked at here, as deep nesting takes few frames for each."""
        operands = [node.this, node.expression]
        left, right = kinds_of_literals(operands, [left, right])
        if "any" in (left, right):
            numeric = {family(left), family(right)} <= {"int", "float", "decimal", "any", "null"}
            return "float" if numeric and (node.key == "div" or "float" in (left, right)) else "any"
        found = arithmetic(node.key, left, right)
        if found is not None:
            return found
        families = {family(left), family(right)}
        if families & _MOMENTS:
            return self._wrong(node, _NO_SUCH.format(left, right))
        if node.key == "mul" and families == {"decimal"}:
            return self._wrong(node, "factors of at most 38 digits behind the point in all: CAST one to fewer")
        kinds = _NUMERIC - {"decimal"} if node.key == "mod" else {"int"} if node.key == "intdiv" else _NUMERIC
        for each, kind in zip(operands, (left, right), strict=True):
            if family(kind) not in kinds and kind != "null":
                return self._fits(each, kind, kinds)
        return "any"

    def _column(self, node: Any) -> str:
        if node.this.key == "star" or len(node.parts) > 1:
            return self._wrong(node, "a column by its name alone, as in 'bytes'")
        name = node.name
        if self.schema is None:
            return "any"
        if name not in self.schema:
            expected = f"a column of its input ({', '.join(self.schema)})"
            if node.this.args.get("quoted"):
                text = "'" + name.replace("'", "''") + "'"
                expected += f"; text takes single quotes ({text}), double quotes are for names of columns"
            near = nearest(name, self.schema)
            return self._wrong(node, expected, None if near is None else quoted(near))
        return self.schema[name]

    def _literal(self, node: Any) -> str:
        if node.is_string:
            return "str"
        if re.fullmatch(r"\d+", node.name):
            if int(node.name) >= 2**63:
                return self._wrong(node, "an integer of 64 bits")
            return "int"
        try:
            finite = abs(float(node.name)) < float("inf")
        except ValueError:
            finite = False
        return "float" if finite else self._wrong(node, "a finite number")

    def _need(self, node: Any, kinds: frozenset[str] | set[str]) -> str:
        return self._fits(node, self.of(node), kinds)

    def _fits(self, node: Any, kind: str, kinds: frozenset[str] | set[str]) -> str:
        if family(kind) in kinds or kind in ("any", "null"):
            return kind
        return self._wrong(node, f"{_WORDS.get(frozenset(kinds), ' or '.join(sorted(kinds)))}, not {kind}")

    def _alike(self, whole: Any, nodes: list[Any], kinds: frozenset[str] | None) -> str:
        """Common type of ``nodes``: all numbers, or all of one type; text beside a time is a time."""
        found = [self.of(node) if kinds is None else self._need(node, kinds) for node in nodes]
        beside = "time" if "time" in found else "date" if "date" in found else ""
        if beside:
            found = [self._beside(node, kind, beside) for node, kind in zip(nodes, found, strict=True)]
        if "any" in found:
            return "any"
        result = "null"
        for kind in kinds_of_literals(nodes, found):
            both = common((result, kind))
            if both is None:
                written = {"time": f"; a time is written as {_INSTANT}", "date": f"; a date is written as {_DAY}"}
                remedy = written.get(beside, "")
                return self._wrong(whole, f"operands of one type, not {result} and {kind}{remedy}")
            result = both
        return result

    def _beside(self, node: Any, kind: str, beside: str) -> str:
        """Type of an operand beside times or dates, for which a literal is replaced by one of that type."""
        is_date = node.key == "cast" and kind == "date" and node.this.key == "literal"
        if (kind == "str" and node.key == "literal") or (is_date and beside == "time"):
            return self._instant(node, beside)
        return kind

    def _instant(self, literal: Any, kind: str = "time") -> str:
        """Replace a literal text, or a date that is one, by a cast to a time or a date."""
        from sqlglot import exp  # noqa: PLC0415

        name = exp.DataType.Type.TIMESTAMP if kind == "time" else exp.DataType.Type.DATE
        text = literal.this if literal.key == "cast" else literal
        cast = exp.Cast(this=text.copy(), to=exp.DataType(this=name))
        literal.replace(cast)
        return self.of(cast)

    def _cast(self, node: Any) -> str:
        to = node.args["to"]
        target = cast_type(to)
        if target is None:
            words = sorted({"int", "float", "str", "bool", "date", "time", "decimal(18, 2)"})
            name = str(to.this.value if hasattr(to.this, "value") else to.this)
            return self._wrong(node, f"CAST to {', '.join(words)}", nearest(name, words))
        if node.args.get("format") or node.args.get("action"):
            return self._wrong(node, "CAST without FORMAT")
        if target in _INSTANTS and node.this.key == "literal" and node.this.is_string:
            literal, read, form = node.this, *((instant, _INSTANT) if target == "time" else (day, _DAY))
            moment = read(literal.name)
            if moment is None:
                return self._wrong(literal, f"a {target} as {form}")
            literal.set("this", str(moment))
            node.to.set("this", getattr(type(node.to.this), "TIMESTAMP" if target == "time" else "DATE"))
            return target
        kind = self.of(node.this)
        if target in _INSTANTS and kind == "str":
            form = _INSTANT if target == "time" else _DAY
            return self._wrong(node, f"CAST of a time or a date, not of text; a {target} is written as {form}")
        self._fits(node.this, kind, _CASTS[family(target)])
        return target

    def _function(self, node: Any) -> str:
        name = NAME_OF_KEY[node.key]
        if name == "concat":
            for part in node.expressions:
                self._need(part, {"str"})
            return "str"
        if name in ("abs", "floor", "ceil", "round", "trunc"):
            if any(node.args.get(part) for part in ("to", "truncate")) or (
                name in ("floor", "ceil", "trunc") and node.args.get("decimals") is not None
            ):
                return self._wrong(node, f"{name} of one number")
            if name == "round":
                self._small(node, node.args.get("decimals"), 0, 15)
            kind = self._need(node.this, _NUMERIC)
            return kind if name == "abs" else rounded(kind, node.args.get("decimals"))
        kinds = None if name == "coalesce" else _ORDERED
        return self._alike(node, [node.this, *node.expressions], kinds)

    def _called(self, node: Any, name: str) -> str:
        """Type of a call of a function of the table."""
        call, given = CALLS[name], node.expressions
        if not call.needed <= len(given) <= len(call.arguments):
            return self._wrong_call(node, call.written)
        constants: list[Any] = []
        kinds: list[str] = []
        for argument, taken in zip(given, call.arguments, strict=False):
            constants.append(None)
            if isinstance(taken, Constant):
                constants[-1] = taken.read(literal_value(argument)) if argument.key == "literal" else None
                if constants[-1] is None:
                    self._wrong(node, f"{taken.expected} where {_fragment(argument)} stands, as in {call.written}")
            elif taken in ("time", "moment") and argument.key == "literal" and argument.is_string:
                self._instant(argument)
            elif taken == PART:
                self._element(node, argument, kinds[0])
            else:
                kinds.append(self._need(argument, _GIVEN.get(taken, {taken})))
        absent = any(isinstance(of, Constant) and it is None for it, of in zip(constants, call.arguments, strict=False))
        if not absent and (wrong := check_constants(name, constants)) is not None:
            self.wrongs.append(wrong[1])
        return self._part(node, kinds[0], constants) if call.result == PART else call.result

    def _part(self, node: Any, kind: str, constants: list[Any]) -> str:
        """Type of an element of a list, or of the field of a struct."""
        if family(kind) == "list":
            return element_of(kind)
        if family(kind) != "struct" or not isinstance(constants[1], str):
            return "any" if kind != "null" else kind
        fields = fields_of(kind)
        if constants[1] in fields:
            return fields[constants[1]]
        self.wrongs.append(WrongValue(constants[1], f"a field of {kind}", nearest(constants[1], fields)))
        return "any"

    def _element(self, node: Any, argument: Any, kind: str) -> None:
        """Check what is looked for in a list."""
        own = self._need(argument, _EQUAL)
        if family(kind) == "list" and own != "any" and common((element_of(kind), own)) != element_of(kind):
            self._wrong(node, f"an element of type {element_of(kind)}, not {own}")

    def _small(self, whole: Any, node: Any, least: int, most: int) -> None:
        if node is None:
            return
        if node.key != "literal" or node.is_string or not node.name.isdigit() or not least <= int(node.name) <= most:
            self._wrong(whole, f"an integer literal from {least} to {most} where {_fragment(node)} stands")

    def _over_rows(self, node: Any) -> str:
        """Type of a call over several rows, which holds no other."""
        before = self._may_call, self._columns
        self._may_call, self._columns = (), True
        kind = self._of_table(node) if node.key == "anonymous" else self._native(node)
        self._may_call, self._columns = before
        return kind

    def _of_table(self, node: Any) -> str:
        call, given = TABLE[node.name], node.expressions
        most = bool(call.takes) + bool(call.constant)
        if not most - call.optional <= len(given) <= most:
            return self._wrong_call(node, call.written)
        for constant in given[1:]:
            if (expected := _unlike(constant, call.constant)) is not None:
                self._wrong(node, f"{expected} where {_fragment(constant)} stands, as in {call.written}")
        if not call.takes:
            return call.result
        kind = self._need(given[0], _TAKES[call.takes]) if call.takes in _TAKES else self.of(given[0])
        return call.result or kind

    def _native(self, node: Any) -> str:
        argument = node.this
        if argument is None or node.expressions or any(node.args.get(part) for part in ("expression", "having")):
            what = "count(*), or count of one expression" if node.key == "count" else f"{node.key} of one expression"
            return self._wrong(node, what)
        if node.key == "count":
            if argument.key == "distinct" and self._where == "over":
                return self._wrong(node, "count(distinct x) only in a value of an aggregate")
            if argument.key == "distinct":
                if len(argument.expressions) != 1 or argument.args.get("on"):
                    return self._wrong(node, "count(distinct x) of one expression")
                self._need(argument.expressions[0], _EQUAL)
            elif argument.key != "star":
                self.of(argument)
            elif any(argument.args.values()):
                return self._wrong(node, "count(*)")
            return "int"
        if argument.key == "distinct":
            return self._wrong(node, f"{node.key} without DISTINCT")
        kind = self._need(argument, _ORDERED if node.key in ("min", "max") else _NUMERIC)
        return "float" if node.key == "avg" else sum_of(kind) if node.key == "sum" else kind

    def _foreign(self, node: Any) -> str:
        """Record a construct that the subset lacks, by its name."""
        if name := call_name(node):
            return self._wrong_call(node, _misplaced(name, self._may_call))
        if node.key == "anonymous" or _is_function(node):
            name = node.name if node.key == "anonymous" else node.sql_name().lower()
            known = (*FUNCTIONS, *(self._may_call or AGGREGATES))
            near = nearest(name, known)
            named = "of the documented subset (docs/plans.md)" if near else f"of the subset ({', '.join(FUNCTIONS)})"
            return self._wrong_call(node, f"a function {named}, not {name}()", near)
        return self._wrong(node, f"{SUBSET}, which has no {_NOT_PART.get(node.key, node.key.upper())}")


def _example(node: Any) -> str:
    return f"sum({_fragment(node)})" if node.key == "column" else "sum(x)"


def _misplaced(name: str, may_call: tuple[str, ...]) -> str:
    """Say where a call over several rows may stand, or which may stand in its place."""
    if may_call:
        return f"a call of {', '.join(may_call)}"
    where = [kind for kind, calls in (("an aggregate", AGGREGATES), ("an over", OVER)) if name in calls]
    return f"{name}() only in a value of {' or of '.join(where)}, and not within another such call"


def _unlike(literal: Any, what: str) -> str | None:
    """Say what the second argument of a call over several rows has to be; None if it is that."""
    is_literal = literal.key == "literal"
    if what == "text":
        return None if is_literal and literal.is_string else "a literal text"
    number = float(literal.name) if is_literal and not literal.is_string else None
    if what == "fraction":
        return None if number is not None and number <= 1.0 else "a number literal from 0 to 1"
    return (
        None if number is not None and literal.name.isdigit() and 1 <= number <= 10**6 else "a number of rows, from 1"
    )


def _is_function(node: Any) -> bool:
    from sqlglot import exp  # noqa: PLC0415

    return isinstance(node, exp.Func) and node.key not in _NOT_PART


def _fragment(node: Any) -> str:
    try:
        text = str(node.sql(comments=False))
    except Exception:  # noqa: BLE001 - only for a message
        text = node.key
    return text if len(text) <= 80 else text[:77] + "..."
