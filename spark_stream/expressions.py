"""SQL expressions of the plan's subset as Spark SQL.

The tree that :func:`synergy_nb.plan.sql.parse` has checked is written node by node as text that Spark parses, so that
an expression is data on this engine as well. The meaning is what ``sql.py`` documents and what
:mod:`synergy_nb.dataflow.expressions` computes on peers. Where Spark sees it differently:

* Operands get their common type by explicit casts, a bare NULL the type of its place.
* Integers wrap around, as on peers, only while ``spark.sql.ansi.enabled`` is off; :data:`MEANING` says what a session
  must be set to. Division and remainder by zero are NULL by :func:`nullif`, in either mode.
* ``floor`` and ``ceil`` of a float are integers in Spark and floats here. ``round`` to some decimals is that of a
  multiple, as on peers; Spark would round the decimal digits that it prints.
* ``greatest`` sees NaN as the greatest float, ``least`` as the last resort, on all engines.
* Text to a number takes what peers take: Spark alone would read ``12.7`` as an integer and ``1f`` as a float.
* Text that a float is written as differs between engines; :func:`translate` refuses it.
* A pattern of LIKE has no escape character; Spark is told one that does not occur in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from synergy_nb.plan import sql

__all__ = ["MEANING", "TYPES", "Untranslatable", "aggregate", "decaying", "literal", "quote", "translate"]

#: What a session must be set to for expressions to mean here what they mean on peers.
MEANING: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "false",  # integers wrap around
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",  # ${...} in a name is part of the name
}

#: Spark's type of each type of columns.
TYPES: Final[Mapping[str, str]] = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "str": "STRING",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",  # in UTC, as sessions are; Spark has no watermarks on times without zone
    "bytes": "BINARY",
}

_LONGEST: Final = 200_000  # characters of a translation; some functions name their operand more than once
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_COMPARISONS: Final = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_CAST_TO: Final = {"BIGINT": "int", "INT": "int", "DOUBLE": "float", "FLOAT": "float", "TEXT": "str", "BOOLEAN": "bool"}
# What Unicode calls white space, which peers strip from text that is to be read as a value.
_BLANKS: Final = "".join(map(chr, [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
                                   0x202F, 0x205F, 0x3000]))  # fmt: skip
_TRUTHS: Final = "map({})".format(
    ", ".join([f"'{word}', TRUE" for word in ("true", "t", "yes", "y", "1")]
              + [f"'{word}', FALSE" for word in ("false", "f", "no", "n", "0")])
)  # fmt: skip
_INTEGER: Final = r"^[+-]?[0-9]+\z"
_FLOAT: Final = r"(?i)^(?:[+-](?=nan\z))?([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan)\z"
_BEYOND: Final = "9.223372036854775808E18D"  # 2**63, the least float that is no 64-bit integer
_GREATEST: Final = 1.7976931348623157e308

_Written = tuple[str, str]  # text in Spark SQL, fully in parentheses where it needs any, and type


class Untranslatable(ValueError):
    """An expression that means something else in Spark; the text says which part, and why."""


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

    Parameters
    ----------
    text
        An expression of the subset of ``sql.py``, without aggregate calls.
    schema
        Column to type of the stream that it is used on.
    kind
        Type that the result must have; it may be a float where the expression gives an integer.

    Raises
    ------
    synergy_nb.plan.sql.SqlError
        If ``text`` is outside the subset or does not fit ``schema``.
    Untranslatable
        If Spark sees some part of it differently.

    Examples
    --------
    >>> translate("bytes / 2 > 100", {"bytes": "int"})
    '((CAST(`bytes` AS DOUBLE) / nullif(CAST(2L AS DOUBLE), 0.0D)) > CAST(100L AS DOUBLE))'
    """
    return _translated(text, tuple(schema.items()), kind)


@lru_cache(maxsize=1024)
def _translated(text: str, schema: tuple[tuple[str, str], ...], kind: str | None) -> str:
    columns = dict(schema)
    written = _write(sql.parse(text, columns), columns)
    return _bounded(_typed(written, kind) if kind is not None else written[0])


def aggregate(text: str, schema: Mapping[str, str], kind: str) -> str:
    """The Spark SQL of one aggregate call, of type ``kind``; see :func:`translate`.

    >>> aggregate("avg(bytes)", {"bytes": "int"}, "float")
    '(CAST(sum(`bytes`) AS DOUBLE) / nullif(count(`bytes`), 0L))'
    """
    node = sql.parse(text, schema, aggregate=True)
    call = node.key
    if call == "count" and node.this.key == "star":
        return "count(1L)"
    distinct = node.this.key == "distinct"
    value, own = _write(node.this.expressions[0] if distinct else node.this, schema)
    if own == "null":
        value, own = _null("int"), "int"
    if distinct:
        written = f"CAST(size(collect_set({value})) AS BIGINT)"  # distinct aggregates are not for streams
        if own == "float":  # 0.0 and -0.0 are one value, and so is every NaN
            some = f"coalesce(CAST(max(isnan({value})) AS BIGINT), 0L)"
            written = f"(CAST(size(collect_set(nanvl({value}, {_null('float')}) + 0.0D)) AS BIGINT) + {some})"
    elif call == "avg":  # of integers, Spark would add up floats
        written = f"(CAST(sum({value}) AS DOUBLE) / nullif(count({value}), 0L))"
    else:
        written = f"{call}({value})"
        written = f"CAST({written} AS DOUBLE)" if own == "int" and kind == "float" else written
    return _bounded(written)


def decaying(text: str, schema: Mapping[str, str]) -> tuple[str, str] | None:
    """What an aggregate call does with values, and the Spark SQL of these as floats; None if they do not decay."""
    node = sql.parse(text, schema, aggregate=True)
    if node.key not in ("count", "sum", "avg") or node.this.key == "distinct":
        return None
    if node.this.key == "star":
        return "count", "1.0D"
    value, own = _write(node.this, schema)
    if node.key == "count":  # of whatever type
        return "count", f"CASE WHEN {value} IS NOT NULL THEN 1.0D END"
    return node.key, _bounded(f"CAST({_null('int') if own == 'null' else value} AS DOUBLE)")


def _bounded(text: str) -> str:
    if len(text) > _LONGEST:
        raise Untranslatable(f"an expression takes {len(text)} characters of Spark SQL, more than {_LONGEST}")
    return text


def _write(node: Any, schema: Mapping[str, str]) -> _Written:
    key = node.key
    if key in _COMPARISONS:
        (left, right), kind = _alike([node.this, node.expression], schema)
        return (_null("bool") if kind == "null" else f"({left} {_COMPARISONS[key]} {right})"), "bool"
    rule = _RULES.get(key)
    if rule is None:
        raise ValueError(f"expression: {key}; expected a construct of the subset of sql.py")
    return rule(node, schema)


# -- types -----------------------------------------------------------------------------------------------------------


def _null(kind: str) -> str:
    return f"CAST(NULL AS {TYPES[kind]})"


def _typed(written: _Written, kind: str) -> str:
    text, own = written
    if own == "null":
        return "NULL" if kind == "null" else _null(kind)
    return f"CAST({text} AS DOUBLE)" if kind == "float" and own == "int" else text


def _alike(nodes: list[Any], schema: Mapping[str, str]) -> tuple[list[str], str]:
    """The texts of ``nodes`` in their common type, and that type; null only if all are."""
    return _common([_write(node, schema) for node in nodes])


def _common(parts: list[_Written]) -> tuple[list[str], str]:
    kinds = {kind for _, kind in parts} - {"null"}
    kind = "float" if kinds == {"int", "float"} else next(iter(sorted(kinds)), "null")
    return [_typed(part, kind) for part in parts], kind


def _boolean(node: Any, schema: Mapping[str, str]) -> str:
    return _typed(_write(node, schema), "bool")


# -- nodes -----------------------------------------------------------------------------------------------------------


def _literal(node: Any, _: Mapping[str, str]) -> _Written:
    if node.is_string:
        return literal(node.name), "str"
    if node.name.isdigit():
        return f"{int(node.name)}L", "int"
    return f"{float(node.name)!r}D", "float"


def _arithmetic(node: Any, schema: Mapping[str, str]) -> _Written:
    parts = [_write(part, schema) for part in (node.this, node.expression)]
    (left, right), kind = _common(parts)
    if node.key == "div":
        kind = "float"
        left, right = (_typed(part, kind) for part in parts)
    if "null" in (parts[0][1], parts[1][1]):
        kind = "int" if kind == "null" else kind
        return _null(kind), kind
    if node.key in ("div", "mod"):
        right = f"nullif({right}, {'0L' if kind == 'int' else '0.0D'})"
    return f"({left} {_SIGNS[node.key]} {right})", kind


def _negative(node: Any, schema: Mapping[str, str]) -> _Written:
    text, kind = _write(node.this, schema)
    return (_null("int"), "int") if kind == "null" else (f"(- {text})", kind)


def _both(node: Any, schema: Mapping[str, str]) -> _Written:
    return f"({_boolean(node.this, schema)} {node.key.upper()} {_boolean(node.expression, schema)})", "bool"


def _in(node: Any, schema: Mapping[str, str]) -> _Written:
    parts = [_write(part, schema) for part in (node.this, *node.expressions)]
    (value, *others), kind = _common(parts)
    if kind == "null" or all(own == "null" for _, own in parts[1:]):
        return _null("bool"), "bool"
    return f"({value} IN ({', '.join(others)}))", "bool"


def _between(node: Any, schema: Mapping[str, str]) -> _Written:
    (value, low, high), kind = _alike([node.this, node.args["low"], node.args["high"]], schema)
    return (_null("bool") if kind == "null" else f"({value} BETWEEN {low} AND {high})"), "bool"


def _like(node: Any, schema: Mapping[str, str]) -> _Written:
    text, pattern = _typed(_write(node.this, schema), "str"), node.expression.name
    escape = next(sign for sign in map(chr, range(0x21, 0x11_0000)) if sign not in pattern and sign not in "%_'\\$")
    return f"({text} LIKE {literal(pattern)} ESCAPE {literal(escape)})", "bool"


def _case(node: Any, schema: Mapping[str, str]) -> _Written:
    branches, default = node.args["ifs"], node.args.get("default")
    results = [branch.args["true"] for branch in branches]
    values, kind = _alike(results if default is None else [*results, default], schema)
    otherwise = "" if default is None else f" ELSE {values.pop()}"
    pairs = zip(branches, values, strict=True)
    whens = "".join(f" WHEN {_boolean(branch.this, schema)} THEN {value}" for branch, value in pairs)
    return f"(CASE{whens}{otherwise} END)", kind


def _cast(node: Any, schema: Mapping[str, str]) -> _Written:
    text, kind = _write(node.this, schema)
    to = node.args["to"].this
    target = _CAST_TO.get(str(getattr(to, "value", to)).upper())
    if target is None:
        raise ValueError(f"expression: CAST to {to}; expected int, float, str or bool")
    if kind == "null":
        return _null(target), target
    if kind == target:
        return text, target
    if kind == "float" and target == "str":
        raise Untranslatable(f"Spark writes floats differently, as in {sql.canonical(node)}")
    if kind == "float" and target == "int":
        return f"try_cast(nullif({text}, {_BEYOND}) AS BIGINT)", target
    if kind == "str":
        stripped = f"trim(BOTH {literal(_BLANKS)} FROM {text})"
        if target == "bool":
            return f"try_element_at({_TRUTHS}, lower({stripped}))", target
        pattern, group = (_INTEGER, 0) if target == "int" else (_FLOAT, 1)
        found = f"nullif(regexp_extract({stripped}, {literal(pattern)}, {group}), '')"
        return f"try_cast({found} AS {TYPES[target]})", target
    return f"CAST({text} AS {TYPES[target]})", target


def _text_function(node: Any, schema: Mapping[str, str]) -> _Written:
    text = _typed(_write(node.this, schema), "str")
    if node.key == "length":
        return f"CAST(char_length({text}) AS BIGINT)", "int"
    if node.key != "substring":
        return f"{node.key}({text})", "str"
    length = node.args.get("length")
    return f"substring({text}, {node.args['start'].name}{'' if length is None else ', ' + length.name})", "str"


def _concat(node: Any, schema: Mapping[str, str]) -> _Written:
    return f"concat({', '.join(_typed(_write(part, schema), 'str') for part in node.expressions)})", "str"


def _number_function(node: Any, schema: Mapping[str, str]) -> _Written:
    text, kind = _write(node.this, schema)
    if kind == "null":
        return _null("int"), "int"
    if node.key == "abs":
        return f"abs({text})", kind
    if kind == "int":
        return text, kind
    if node.key != "round":
        return f"(CASE WHEN abs({text}) < {_BEYOND} THEN CAST({node.key}({text}) AS DOUBLE) ELSE {text} END)", kind
    decimals = node.args.get("decimals")
    factor = 1 if decimals is None else 10 ** int(decimals.name)
    if factor == 1:
        return f"round({text}, 0)", kind
    rounded = f"(round({text} * {float(factor)!r}D, 0) / {float(factor)!r}D)"
    return f"(CASE WHEN abs({text}) < {_GREATEST / factor!r}D THEN {rounded} ELSE {text} END)", kind


def _part_of_time(node: Any, schema: Mapping[str, str]) -> _Written:
    return f"CAST({node.key}({_typed(_write(node.this, schema), 'time')}) AS BIGINT)", "int"


def _first_of(node: Any, schema: Mapping[str, str]) -> _Written:
    parts, kind = _alike([node.this, *node.expressions], schema)
    if kind == "null":
        return "NULL", kind
    return (parts[0] if len(parts) == 1 else f"{node.key}({', '.join(parts)})"), kind


_RULES: Final[Mapping[str, Callable[[Any, Mapping[str, str]], _Written]]] = {
    "column": lambda node, schema: (quote(node.name), schema[node.name]),
    "literal": _literal,
    "boolean": lambda node, _: ("TRUE" if node.this else "FALSE", "bool"),
    "null": lambda _node, _: ("NULL", "null"),
    "paren": lambda node, schema: _write(node.this, schema),
    "add": _arithmetic,
    "sub": _arithmetic,
    "mul": _arithmetic,
    "div": _arithmetic,
    "mod": _arithmetic,
    "neg": _negative,
    "and": _both,
    "or": _both,
    "not": lambda node, schema: (f"(NOT {_boolean(node.this, schema)})", "bool"),
    "in": _in,
    "between": _between,
    "is": lambda node, schema: (f"({_write(node.this, schema)[0]} IS NULL)", "bool"),
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
