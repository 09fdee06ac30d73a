"""Type checker of SQL expressions, for :mod:`synergy_nb.plan.sql.sql`: it infers types and finds all mistakes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any, Final

from synergy_nb.plan.sql._sql_functions import CALLS, Constant, check_constants, literal_value
from synergy_nb.plan.terms.units import WrongValue, nearest

#: Functions whose arguments depend on each other: sqlglot's nodes.
_OWN_RULES: Final = ("abs", "ceil", "coalesce", "concat", "floor", "greatest", "least", "round", "trunc")
#: Scalar functions of the subset.
FUNCTIONS: Final = tuple(sorted((*_OWN_RULES, *CALLS)))
#: Aggregate functions, only in the values of an aggregate.
AGGREGATES: Final = ("avg", "count", "max", "min", "sum")
#: sqlglot's key of a function's node to its name in the subset.
NAME_OF_KEY: Final = {name: name for name in (*_OWN_RULES, *AGGREGATES)}
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

_NUMERIC: Final = frozenset({"int", "float"})
_ORDERED: Final = frozenset({"int", "float", "str", "time"})
_CASTABLE: Final = frozenset({"int", "float", "str", "bool"})
_WORDS: Final = {_NUMERIC: "a number", frozenset({"bool"}): "a condition", frozenset({"str"}): "text (str)"}
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "mod", "intdiv"})
_NOT_PART: Final = {
    "select": "subquery", "subquery": "subquery", "exists": "subquery", "union": "subquery",
    "window": "window function", "alias": "alias", "placeholder": "parameter", "parameter": "parameter",
    "star": "'*'", "interval": "INTERVAL but after '+' or '-' and a time",
    "filter": "FILTER (WHERE ...) but of an aggregate call",
    "escape": "ESCAPE", "ilike": "ILIKE but with a literal pattern", "array": "array", "struct": "struct",
    "tuple": "list of expressions", "dot": "field of a struct", "bracket": "subscript", "lambda": "lambda",
    "bitwisexor": "'^'", "bitwiseand": "'&'", "bitwiseor": "'|'", "distinct": "DISTINCT here",
    "attimezone": "AT TIME ZONE: local_time(time, 'zone') is the time there",
}  # fmt: skip
TYPE_OF_NAME: Final = {
    "INT": "int", "BIGINT": "int", "SMALLINT": "int", "TINYINT": "int", "INTEGER": "int", "LONG": "int",
    "FLOAT": "float", "DOUBLE": "float", "REAL": "float",
    "TEXT": "str", "VARCHAR": "str", "STRING": "str", "CHAR": "str", "STR": "str",
    "BOOLEAN": "bool", "BOOL": "bool",
    "TIMESTAMP": "time", "DATETIME": "time", "DATE": "time",
}  # fmt: skip
_INSTANT: Final = "ISO 8601 text, such as '2026-01-31' or '2026-01-31 12:30:00'"
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


class Checker:
    """Infer the types of all nodes of one tree, and append mistakes to ``wrongs``."""

    def __init__(self, schema: dict[str, str] | None, wrongs: list[WrongValue]) -> None:
        self.schema = schema  # column to type; None accepts every column, of any type
        self.wrongs = wrongs  # mistakes, in the order of the text
        #: Type of every node by its id (nodes compare by value).
        self.kinds: dict[int, str] = {}

    def outermost(self, node: Any, aggregate: bool | None) -> str:
        """Type of the whole tree, which must (True), may (None) or must not (False) be an aggregate call."""
        is_call = node.key in AGGREGATES
        if aggregate is True and not is_call:
            near = nearest(node.name, sorted(AGGREGATES)) if node.key == "anonymous" else None
            return self._wrong_call(node, "one call of count, sum, min, max or avg", near)
        if is_call and aggregate is not False:
            return self._call(node)
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
            return self._column(node)
        if key == "literal":
            return self._literal(node)
        if key in ("boolean", "null"):
            return "bool" if key == "boolean" else "null"
        if key in ("add", "sub") and node.expression.key == "interval":
            self._need(node.this, {"time"})
            return "time"
        if key in _ARITHMETIC:
            kinds = frozenset({"int"}) if key == "intdiv" else _NUMERIC
            left, right = self.of(node.this), self.of(node.expression)
            if key == "sub" and left == right == "time":
                return self._wrong(node, "date_diff('second', from, to), or another unit, for the time between times")
            left, right = self._fits(node.this, left, kinds), self._fits(node.expression, right, kinds)
            return "float" if key == "div" or "float" in (left, right) else _either(left, right)
        if key == "neg":
            if node.this.key == "literal" and node.this.name == str(2**63):  # the least integer has no positive one
                return "int"
            return self._need(node.this, _NUMERIC)
        if key in ("and", "or"):
            self._need(node.this, {"bool"})
            self._need(node.expression, {"bool"})
            return "bool"
        if key == "not":
            self._need(node.this, {"bool"})
            return "bool"
        if key in COMPARISONS:
            self._alike(node, [node.this, node.expression], None if key in ("eq", "neq") else _ORDERED)
            return "bool"
        if key == "in":
            if not node.expressions or any(node.args.get(part) for part in ("query", "unnest", "field")):
                return self._wrong(node, "a list of values after IN, not a subquery")
            self._alike(node, [node.this, *node.expressions], None)
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
        if key in NAME_OF_KEY and key not in AGGREGATES:
            return self._function(node)
        if key == "anonymous" and node.name in CALLS:
            return self._called(node, node.name)
        return self._foreign(node)

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
        if kind in kinds or kind in ("any", "null"):
            return kind
        return self._wrong(node, f"{_WORDS.get(frozenset(kinds), ' or '.join(sorted(kinds)))}, not {kind}")

    def _alike(self, whole: Any, nodes: list[Any], kinds: frozenset[str] | None) -> str:
        """Common type of ``nodes``: all numbers, or all of one type; text beside a time is a time."""
        found = [self.of(node) if kinds is None else self._need(node, kinds) for node in nodes]
        if "time" in found and "str" in found:
            found = [
                self._instant(node) if kind == "str" and node.key == "literal" else kind
                for node, kind in zip(nodes, found, strict=True)
            ]
        result = "null"
        for kind in found:
            if kind == "any" or result == "null":
                result = kind if result != "any" else result
            elif kind not in ("null", result) and result != "any":
                if not {kind, result} <= _NUMERIC:
                    remedy = f"; a time is written as {_INSTANT}" if "time" in (kind, result) else ""
                    return self._wrong(whole, f"operands of one type, not {result} and {kind}{remedy}")
                result = "float"
        return result

    def _instant(self, literal: Any) -> str:
        """Replace a literal text by a cast to a time."""
        from sqlglot import exp  # noqa: PLC0415

        cast = exp.Cast(this=literal.copy(), to=exp.DataType(this=exp.DataType.Type.TIMESTAMP))
        literal.replace(cast)
        return self.of(cast)

    def _cast(self, node: Any) -> str:
        to = node.args["to"]
        name = str(to.this.value if hasattr(to.this, "value") else to.this).upper()
        target = TYPE_OF_NAME.get(name) if not to.expressions else None
        if target is None:
            words = sorted({"int", "float", "str", "bool"})
            return self._wrong(node, f"CAST to {', '.join(words)}", nearest(name, words))
        if node.args.get("format") or node.args.get("action"):
            return self._wrong(node, "CAST without FORMAT")
        if target == "time":
            literal = node.this
            if literal.key != "literal" or not literal.is_string:
                return self._wrong(node, f"CAST to bool, float, int, str; a time is written as {_INSTANT}")
            moment = instant(literal.name)
            if moment is None:
                return self._wrong(literal, f"a time as {_INSTANT}")
            literal.set("this", moment.isoformat(sep=" "))
            node.to.set("this", type(node.to.this).TIMESTAMP)
            return target
        self._need(node.this, _CASTABLE)
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
            return self._need(node.this, _NUMERIC)
        kinds = None if name == "coalesce" else _ORDERED
        return self._alike(node, [node.this, *node.expressions], kinds)

    def _called(self, node: Any, name: str) -> str:
        """Type of a call of a function of the table."""
        call, given = CALLS[name], node.expressions
        if not call.needed <= len(given) <= len(call.arguments):
            return self._wrong_call(node, call.written)
        constants: list[Any] = []
        for argument, taken in zip(given, call.arguments, strict=False):
            constants.append(None)
            if isinstance(taken, Constant):
                constants[-1] = taken.read(literal_value(argument)) if argument.key == "literal" else None
                if constants[-1] is None:
                    self._wrong(node, f"{taken.expected} where {_fragment(argument)} stands, as in {call.written}")
            elif taken == "time" and argument.key == "literal" and argument.is_string:
                self._instant(argument)
            else:
                self._need(argument, _NUMERIC if taken == "number" else {taken})
        absent = any(isinstance(of, Constant) and it is None for it, of in zip(constants, call.arguments, strict=False))
        if not absent and (wrong := check_constants(name, constants)) is not None:
            self.wrongs.append(wrong[1])
        return call.result

    def _small(self, whole: Any, node: Any, least: int, most: int) -> None:
        if node is None:
            return
        if node.key != "literal" or node.is_string or not node.name.isdigit() or not least <= int(node.name) <= most:
            self._wrong(whole, f"an integer literal from {least} to {most} where {_fragment(node)} stands")

    def _call(self, node: Any) -> str:
        """Type of an aggregate call."""
        argument = node.this
        if argument is None or node.expressions or any(node.args.get(part) for part in ("expression", "having")):
            return self._wrong(node, f"{node.key} of one expression")
        if node.key == "count":
            if argument.key == "distinct":
                if len(argument.expressions) != 1 or argument.args.get("on"):
                    return self._wrong(node, "count(distinct x) of one expression")
                self.of(argument.expressions[0])
            elif argument.key != "star":
                self.of(argument)
            elif any(argument.args.values()):
                return self._wrong(node, "count(*)")
            return "int"
        if argument.key == "distinct":
            return self._wrong(node, f"{node.key} without DISTINCT")
        kind = self._need(argument, _ORDERED if node.key in ("min", "max") else _NUMERIC)
        return "float" if node.key == "avg" else kind

    def _foreign(self, node: Any) -> str:
        """Record a construct that the subset lacks, by its name."""
        if node.key in AGGREGATES:
            return self._wrong_call(node, "aggregate calls only as the whole of a value of an aggregate operator")
        if node.key == "anonymous" or _is_function(node):
            name = node.name if node.key == "anonymous" else node.sql_name().lower()
            known = (*FUNCTIONS, *AGGREGATES)
            near = nearest(name, known)
            named = "of the documented subset (docs/plans.md)" if near else f"of the subset ({', '.join(FUNCTIONS)})"
            return self._wrong_call(node, f"a function {named}, not {name}()", near)
        return self._wrong(node, f"{SUBSET}, which has no {_NOT_PART.get(node.key, node.key.upper())}")


def _is_function(node: Any) -> bool:
    from sqlglot import exp  # noqa: PLC0415

    return isinstance(node, exp.Func) and node.key not in _NOT_PART


def _either(left: str, right: str) -> str:
    return right if left in ("any", "null") else left


def _fragment(node: Any) -> str:
    try:
        text = str(node.sql(comments=False))
    except Exception:  # noqa: BLE001 - only for a message
        text = node.key
    return text if len(text) <= 80 else text[:77] + "..."
