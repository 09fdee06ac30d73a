"""Translation of SQL expressions for an engine: one traversal of the tree that :func:`sql.parse` has checked.

The traversal infers the type of each value, converts operands to their common type, and gives bare NULLs a type. A
table per engine maps each operation to a function that makes the engine's expression. The keys of a table, with the
arguments of their functions:

* ``null`` (type; ``null`` for a bare NULL), ``column`` (name), ``literal`` (value, type), ``boolean`` (value)
* ``widen`` (value, its type, type: a number to a wider one, a date to a time), ``cast`` (value, its type, type, node),
  ``is null`` (value)
* ``add``, ``sub``, ``mul``, ``div`` (of floats), ``mod int``, ``mod float``, ``neg``
* ``add decimal``, ``sub decimal``, ``mul decimal`` (two decimals, type of the result); those of times, dates and
  durations by their operands, such as ``sub time duration`` and ``add date int``
* ``and``, ``or``, ``not``, ``eq``, ``neq``, ``lt``, ``lte``, ``gt``, ``gte``
* ``in`` (value, list of others without NULLs, type, whether NULL is among them, the literals if all are literals)
* ``like`` (text, pattern), ``case`` (conditions, values, value otherwise, type)
* ``abs``, and of floats ``floor``, ``ceil``, ``trunc``, ``round`` (number, decimals); ``int div``; of decimals ``floor
  decimal`` and so on (number, its type, that of the result)
* ``concat`` (texts), ``coalesce``, ``least``, ``greatest`` (values, type)
* ``instant`` (a literal time or date, its type), ``shift`` (time, months, microseconds); ``epoch duration``, ``length
  list``
* each function of the table in ``_sql_functions``, by its name: its values, and its constants as Python values, None
  where they are absent
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from synergy_nb.plan.sql._sql_functions import CALLS, MONTHS, PART, UNITS, Constant, literal_value
from synergy_nb.plan.sql._sql_types import COMPARISONS, cast_type, day, instant, kinds_of_literals, rounded
from synergy_nb.plan.terms.column_types import (
    arithmetic,
    common,
    decimal_type,
    digits_of,
    element_of,
    family,
    fields_of,
)

__all__ = ["BLANKS", "FIRST", "LAST", "MONTHS", "UNITS", "Operations", "Translation"]

E = TypeVar("E")
#: Key of an operation to the function that makes the engine's expression from its operands.
Operations = Mapping[str, Callable[..., E]]

#: What trim() takes away: the space and what Unicode calls a space separator.
BLANKS: Final = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
#: Times of the years 1 to 9999, microseconds since 1970.
FIRST: Final = -62_135_596_800 * 10**6
LAST: Final = 253_402_300_800 * 10**6 - 1

_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "mod", "intdiv"})


class Translation(Generic[E]):
    """Translator of expressions over one schema for one engine."""

    def __init__(self, does: Operations[E], schema: Mapping[str, str]) -> None:
        self._does = does
        self._schema = schema  # column to type

    def of(self, node: Any) -> tuple[E, str]:
        """Translate a node of the tree; return its expression and type, ``null`` for a bare NULL.

        Raises ``ValueError`` if the subset lacks the node; ``sql.parse`` returns no such node.
        """
        does, key = self._does, node.key
        if key in _ARITHMETIC:
            return self._arithmetic(node)
        if key in COMPARISONS:
            (left, right), kind = self._alike(node.this, node.expression)
            return (does["null"]("bool") if kind == "null" else does[key](left, right)), "bool"
        if key in ("and", "or"):
            return does[key](self.typed(node.this, "bool"), self.typed(node.expression, "bool")), "bool"
        if key in ("coalesce", "least", "greatest"):
            parts, kind = self._alike(node.this, *node.expressions)
            return (does[key](parts, kind) if kind != "null" and len(parts) > 1 else parts[0]), kind
        rule: Callable[[Any], tuple[E, str]] | None = getattr(self, f"_on_{key}", None)
        if rule is None:
            raise ValueError(f"expression: {key}; expected a construct of the subset of sql.py")
        return rule(node)

    def typed(self, node: Any, kind: str) -> E:
        """Translate a node as ``kind``, which may be float for an int node."""
        return self._as(self.of(node), kind)

    def _as(self, part: tuple[E, str], kind: str) -> E:
        expression, own = part
        if own == "null" != kind:
            return self._does["null"](kind)
        return expression if own == kind else self._does["widen"](expression, own, kind)

    def _alike(self, *nodes: Any) -> tuple[list[E], str]:
        """Translate nodes in their common type; return the type, too, which is ``null`` only if all are bare NULLs."""
        parts = self._exact(nodes, [self.of(node) for node in nodes])
        kind = common(own for _, own in parts)
        if kind is None:
            raise ValueError(f"expression: {', '.join(own for _, own in parts)}; expected operands of one type")
        return [self._as(part, kind) for part in parts], kind

    def _exact(self, nodes: Sequence[Any], parts: Sequence[tuple[E, str]]) -> list[tuple[E, str]]:
        """Make literals that stand beside decimals decimals of their digits."""
        found = list(parts)
        for number, kind in enumerate(kinds_of_literals(list(nodes), [own for _, own in parts])):
            if kind != parts[number][1]:
                node = nodes[number]
                text = f"-{node.this.name}" if node.key == "neg" else node.name
                found[number] = self._does["literal"](Decimal(text), kind), kind
        return found

    def _arithmetic(self, node: Any) -> tuple[E, str]:
        key, nodes = node.key, (node.this, node.expression)
        left = self.of(node.this)
        if node.expression.key == "interval" and key in ("add", "sub") and left[1] != "duration":
            return self._shifted(left, node)
        parts = self._exact(nodes, [left, self.of(node.expression)])
        own = [each for _, each in parts]
        kind = arithmetic(key, *own)
        if kind is None:
            raise ValueError(f"expression: {' and '.join(own)}; expected operands of {key}")
        if "null" in own:
            return self._does["null"](kind), kind
        families = [family(each) for each in own]
        if not {*families} <= {"int", "float", "decimal"}:
            if kind == "duration" and "time" in families:
                parts, families = [(self._as(part, "time"), "time") for part in parts], ["time", "time"]
            elif kind == "time":
                parts = [(self._as(part, "time"), "time") if part[1] == "date" else part for part in parts]
                families = [family(each) for _, each in parts]
            return self._does[f"{key} {' '.join(families)}"](*(part for part, _ in parts)), kind
        if family(kind) == "decimal":
            operands = [self._as(part, decimal_type(*digits_of(part[1]))) for part in parts]
            return self._does[f"{key} decimal"](*operands, kind), kind
        operands = [self._as(part, kind) for part in parts]
        name = f"mod {kind}" if key == "mod" else "int div" if key == "intdiv" else key
        return self._does[name](*operands), kind

    def _shifted(self, moved: tuple[E, str], node: Any) -> tuple[E, str]:
        unit, number = node.expression.unit.name.lower(), int(node.expression.this.name)
        number = -number if node.key == "sub" else number
        size = UNITS[unit]
        months, microseconds = (number, 0) if size is None else (0, number * size)
        if moved[1] == "null":
            return self._does["null"]("time"), "time"
        return self._does["shift"](self._as(moved, "time"), months, microseconds), "time"

    def _on_interval(self, node: Any) -> tuple[E, str]:
        size = UNITS[node.unit.name.lower()]
        if size is None:
            raise ValueError("expression: an interval of months; expected a time before it")
        return self._does["literal"](int(node.this.name) * size, "duration"), "duration"

    def _on_anonymous(self, node: Any) -> tuple[E, str]:
        call = CALLS.get(node.name)
        if call is None:
            raise ValueError(f"expression: {node.name}(); expected a function of the subset of sql.py")
        if any(argument.key == "null" for argument in node.expressions):  # all functions of the table are NULL of NULL
            kind = "null" if call.result == PART else call.result
            return self._does["null"](kind), kind
        parts: list[Any] = [None] * len(call.arguments)
        name, first = node.name, ""
        for number, (argument, taken) in enumerate(zip(node.expressions, call.arguments, strict=False)):
            if isinstance(taken, Constant):
                parts[number] = taken.read(literal_value(argument))
            else:
                value = self.of(argument)
                first = first or value[1]
                lasts, listed = taken == "moment" and value[1] == "duration", taken == "sized" and value[1] != "str"
                name += " duration" * lasts + " list" * listed
                kinds = {"number": "float", "moment": "duration" if lasts else "time", "sized": value[1]}
                kinds |= {"list": value[1], "struct": value[1], PART: element_of(first)}
                parts[number] = self._as(value, kinds.get(taken, taken))
        if call.result != PART:
            return self._does[name](*parts), call.result
        return self._does[name](*parts), element_of(first) if family(first) == "list" else fields_of(first)[parts[1]]

    def _on_column(self, node: Any) -> tuple[E, str]:
        if node.name not in self._schema:
            raise ValueError(f"expression: column {node.name!r}; expected one of {', '.join(self._schema)}")
        return self._does["column"](node.name), self._schema[node.name]

    def _on_literal(self, node: Any) -> tuple[E, str]:
        kind = "str" if node.is_string else "int" if node.name.isdigit() else "float"
        return self._does["literal"](_value(node.name, kind), kind), kind

    def _on_boolean(self, node: Any) -> tuple[E, str]:
        return self._does["boolean"](bool(node.this)), "bool"

    def _on_null(self, _: Any) -> tuple[E, str]:
        return self._does["null"]("null"), "null"

    def _on_paren(self, node: Any) -> tuple[E, str]:
        return self.of(node.this)

    def _on_neg(self, node: Any) -> tuple[E, str]:
        if node.this.key == "literal" and node.this.name == str(2**63):
            return self._does["literal"](-(2**63), "int"), "int"
        number, kind = self.of(node.this)
        return (self._does["null"]("int"), "int") if kind == "null" else (self._does["neg"](number), kind)

    def _on_not(self, node: Any) -> tuple[E, str]:
        return self._does["not"](self.typed(node.this, "bool")), "bool"

    def _on_is(self, node: Any) -> tuple[E, str]:
        return self._does["is null"](self.of(node.this)[0]), "bool"

    def _on_in(self, node: Any) -> tuple[E, str]:
        if not node.expressions:
            raise ValueError("expression: in; expected a list of values")
        listed = [(each, self.of(each)) for each in node.expressions]
        given = [(each, part) for each, part in listed if part[1] != "null"]
        (value, *others), kind = self._alike(node.this, *(each for each, _ in given))
        if kind == "null" or not others:
            return self._does["null"]("bool"), "bool"
        literals = [_value(each.name, family(kind)) for each, _ in given if each.key == "literal"]
        known = literals if len(literals) == len(given) else None
        return self._does["in"](value, others, kind, len(given) < len(listed), known), "bool"

    def _on_like(self, node: Any) -> tuple[E, str]:
        return self._does["like"](self.typed(node.this, "str"), node.expression.name), "bool"

    def _on_case(self, node: Any) -> tuple[E, str]:
        branches, default = node.args["ifs"], node.args.get("default")
        results = [branch.args["true"] for branch in branches]
        values, kind = self._alike(*results, *([] if default is None else [default]))
        otherwise = self._does["null"](kind) if default is None else values.pop()
        return self._does["case"]([self.typed(each.this, "bool") for each in branches], values, otherwise), kind

    def _on_cast(self, node: Any) -> tuple[E, str]:
        to = node.args["to"]
        target = cast_type(to)
        if target is None:
            raise ValueError(f"expression: CAST to {to}; expected a type of the subset")
        if target in ("time", "date") and node.this.key == "literal":
            moment = (instant if target == "time" else day)(node.this.name)
            return self._does["instant"](moment, target), target
        value, kind = self.of(node.this)
        if kind in ("null", target) or (kind, target) == ("date", "time"):
            return self._as((value, kind), target), target
        return self._does["cast"](value, kind, target, node), target

    def _on_concat(self, node: Any) -> tuple[E, str]:
        return self._does["concat"]([self.typed(part, "str") for part in node.expressions]), "str"

    def _on_abs(self, node: Any) -> tuple[E, str]:
        number, kind = self.of(node.this)
        return (self._does["null"]("int"), "int") if kind == "null" else (self._does["abs"](number), kind)

    def _on_round(self, node: Any) -> tuple[E, str]:
        number, kind = self.of(node.this)
        if kind in ("int", "null"):  # rounding does not change an integer
            return self._as((number, kind), "int"), "int"
        decimals = node.args.get("decimals")
        kept = 0 if decimals is None else int(decimals.name)
        if kind == "float":
            return self._does[node.key](number, kept), kind
        made = rounded(kind, decimals)
        return (number if made == kind else self._does[f"{node.key} decimal"](number, kind, made)), made

    _on_floor = _on_ceil = _on_trunc = _on_round


def _value(text: str, kind: str) -> str | int | float | Decimal:
    read: Callable[[str], str | int | float | Decimal] = {"str": str, "int": int, "decimal": Decimal}.get(kind, float)
    return read(text)
