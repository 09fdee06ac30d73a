"""The functions of the SQL subset that take each argument by its type: one table, for checks, texts and engines.

A function gets its values as engines' expressions, and the others, which change its plan and so have to be literals, as
Python values. Functions whose arguments depend on each other, such as coalesce(), are not in the table.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from synergy_nb.plan.sql.patterns import read_pattern, read_replacement
from synergy_nb.plan.terms.units import WrongValue

__all__ = ["CALLS", "MONTHS", "PART", "UNITS", "Call", "Constant", "check_constants", "literal_value"]

#: Units of time, from short to long: microseconds, or None for those in :data:`MONTHS`.
UNITS: Final[dict[str, int | None]] = {
    "microsecond": 1, "millisecond": 1_000, "second": 10**6, "minute": 60 * 10**6, "hour": 3_600 * 10**6,
    "day": 86_400 * 10**6, "week": 7 * 86_400 * 10**6, "month": None, "quarter": None, "year": None,
}  # fmt: skip
#: Units of the calendar, in months.
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_LONGEST: Final = 10_000  # characters of padded text
_UNIT: Final = f"one of the units {', '.join(map(repr, UNITS))}"


#: Type of an element of the list, or of the field of the struct, that is the first argument of a call.
PART: Final = "part"


class Constant(NamedTuple):
    """An argument that has to be a literal: ``read`` makes its value of text or an integer, or returns None."""

    read: Callable[[str | int], Any]
    expected: str


class Call(NamedTuple):
    """A function.

    Attributes
    ----------
    arguments
        Type of each value, or a :class:`Constant`. ``number`` is any number, and what is computed is a float; a date
        is taken as a ``time``; ``moment`` is a time or a duration; ``sized`` text or a list.
    result
        Type of the result.
    written
        Form of a call, for errors.
    least
        Number of arguments that are needed; all of them if it is negative.
    """

    arguments: tuple[str | Constant, ...]
    result: str
    written: str
    least: int = -1

    @property
    def needed(self) -> int:
        """Number of arguments that are needed."""
        return len(self.arguments) if self.least < 0 else self.least


def _whole(least: int, most: int) -> Constant:
    def read(value: str | int) -> int | None:
        return value if isinstance(value, int) and least <= value <= most else None

    return Constant(read, f"an integer literal from {least} to {most}")


def _unit(value: str | int) -> str | None:
    name = value.lower().removesuffix("s") if isinstance(value, str) else ""
    return name if name in UNITS else None


def _zone(value: str | int) -> str | None:
    try:
        return zoneinfo.ZoneInfo(value).key if isinstance(value, str) else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # a folder is no zone, and neither is a path
        return None


_SOME_TEXT: Final = Constant(lambda value: value if isinstance(value, str) and value else None, "a literal text")
_ANY_TEXT: Final = Constant(lambda value: value if isinstance(value, str) else None, "a literal text")
_GLOBAL: Final = Constant(lambda value: value if value == "g" else None, "'g', for all matches")
_TRUNCATED: Final = Constant(_unit, _UNIT)
_NAME: Final = Constant(lambda value: value if isinstance(value, str) else None, "the name of a field, as text")
_ZONE: Final = Constant(_zone, "a time zone by its name, such as 'Europe/Berlin'")
_FLOATS: Final = ("sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan")
_PARTS: Final = ("year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear", "hour", "minute",
                 "second")  # fmt: skip

#: Name of each function of the table; those with the same arguments in groups.
CALLS: Final[dict[str, Call]] = {
    **{name: Call(("str",), "str", f"{name}(text)") for name in ("lower", "upper", "reverse")},
    "length": Call(("sized",), "int", "length(text) or length(list)"),
    "substr": Call(
        ("str", _whole(1, 10**9), _whole(0, 10**9)), "str", "substr(text, start) or substr(text, start, length)", 2
    ),
    **{
        name: Call(("str", _SOME_TEXT), "str", f"{name}(text) or {name}(text, characters)", 1)
        for name in ("trim", "ltrim", "rtrim")
    },
    "replace": Call(("str", _SOME_TEXT, _ANY_TEXT), "str", "replace(text, 'part', 'other')"),
    "split_part": Call(("str", _SOME_TEXT, _whole(1, 10**6)), "str", "split_part(text, 'separator', number)"),
    "strpos": Call(("str", _SOME_TEXT), "int", "strpos(text, 'part')"),
    **{
        name: Call(("str", "str"), "bool", f"{name}(text, part)") for name in ("starts_with", "ends_with", "contains")
    },
    **{name: Call(("str", _whole(0, _LONGEST), _SOME_TEXT), "str", f"{name}(text, length, 'filling')")
       for name in ("lpad", "rpad")},
    **{name: Call(("str", _whole(0, 10**9)), "str", f"{name}(text, number)") for name in ("left", "right")},
    "regexp_matches": Call(("str", _ANY_TEXT), "bool", "regexp_matches(text, 'pattern')"),
    "regexp_extract": Call(
        ("str", _ANY_TEXT, _whole(0, 99)), "str",
        "regexp_extract(text, 'pattern') or regexp_extract(text, 'pattern', group)", 2,
    ),
    "regexp_replace": Call(
        ("str", _ANY_TEXT, _ANY_TEXT, _GLOBAL), "str",
        "regexp_replace(text, 'pattern', 'replacement') or regexp_replace(text, 'pattern', 'replacement', 'g')", 3,
    ),
    **{name: Call(("number",), "float", f"{name}(number)") for name in _FLOATS},
    "power": Call(("number", "number"), "float", "power(number, exponent)"),
    "sign": Call(("number",), "int", "sign(number)"),
    **{name: Call(("number",), "bool", f"{name}(number)") for name in ("isnan", "isfinite")},
    **{name: Call(("time",), "int", f"{name}(time)") for name in _PARTS},
    "epoch": Call(("moment",), "float", "epoch(time)"),
    **{name: Call(("time",), "str", f"{name}(time)") for name in ("dayname", "monthname")},
    "date_trunc": Call((_TRUNCATED, "time"), "time", "date_trunc('unit', time)"),
    "date_diff": Call((_TRUNCATED, "time", "time"), "int", "date_diff('unit', from, to)"),
    "local_time": Call(("time", _ZONE), "time", "local_time(time, 'zone')"),
    "list_extract": Call(("list", "int"), PART, "list[number]"),
    "list_contains": Call(("list", PART), "bool", "list_contains(list, element)"),
    "struct_extract": Call(("struct", _NAME), PART, "struct.field"),
}  # fmt: skip


def literal_value(literal: Any) -> str | int:
    """Value of a literal: text, or an integer; a number with a fraction is text that no argument takes."""
    return int(literal.name) if not literal.is_string and literal.name.isdigit() else str(literal.name)


def check_constants(name: str, constants: list[Any]) -> tuple[int, WrongValue] | None:
    """Check the literals of a call together; return the number of the wrong one and what is wrong, or None.

    ``constants``: a value for each argument, None for those that are no literals or absent.
    """
    if not name.startswith("regexp_"):
        return None
    try:
        at = 1
        pattern = read_pattern(constants[1])
        at = 2
        if name == "regexp_replace":
            read_replacement(constants[2], pattern.groups)
        elif name == "regexp_extract" and (constants[2:3] or [0])[0] > pattern.groups:
            raise WrongValue(constants[2], f"at most {pattern.groups}, the number of groups of the pattern")
    except WrongValue as wrong:
        return at, wrong
    return None
