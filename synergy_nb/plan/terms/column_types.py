"""Types of columns: one table of names, sizes and spellings, and the rules by which types meet in expressions.

A type is a text. Most are a word, ``int``; some have parts: ``decimal(18, 2)``, ``int[]``, ``struct(a int, b str)``.
Everything that depends on the type of a column asks here, or reads a table by :func:`family`: ``decimal`` is the family
of all decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

__all__ = [
    "EXAMPLES",
    "INT_DIGITS",
    "MOST_DIGITS",
    "PLAIN",
    "UNSURE",
    "arithmetic",
    "column_bytes",
    "column_type",
    "common",
    "decimal_of_text",
    "decimal_type",
    "digits_of",
    "element_of",
    "family",
    "fields_of",
    "list_type",
    "struct_type",
    "sum_of",
]

#: Mean bytes of one value, by type: 16 characters for text, 16 + 28 (nonce and tag) for encrypted values.
_BYTES: Final = {
    "int": 8.0, "float": 8.0, "str": 16.0, "bool": 1.0, "time": 8.0, "bytes": 44.0, "date": 4.0, "duration": 8.0,
}  # fmt: skip
#: Families of types that Polars makes of other values with losses, unless it finds the type by itself.
UNSURE: Final = ("date", "duration", "decimal", "list", "struct")
_DECIMAL_BYTES: Final = 16.0
_LIST_BYTES: Final = 8.0  # beside its elements
_ELEMENTS: Final = 4.0  # mean number of elements of a list
_DEEPEST: Final = 8  # levels of lists and structs within each other
#: Types as people write them, each family once.
EXAMPLES: Final = (*_BYTES, "decimal(18, 2)", "int[]", "struct(a int, b str)")
#: Families of types whose values have no parts, which are compared, grouped and sorted by.
PLAIN: Final = (*_BYTES, "decimal")
#: Greatest number of digits of a decimal.
MOST_DIGITS: Final = 38
#: Digits of an integer of 64 bits.
INT_DIGITS: Final = 19
_DECIMAL: Final = re.compile(r"\s*decimal\s*(?:\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\))?\s*", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_STRUCT: Final = re.compile(r"struct\s*\(.*\)", re.IGNORECASE | re.DOTALL)
_FIELD: Final = re.compile(r"""\s*(?:([A-Za-z_]\w*)|"((?:[^"]|"")+)")\s+(.+?)\s*""", re.DOTALL)
_FRACTION: Final = re.compile(r"(\d*)\.(\d+)")
#: What arithmetic gives of the families of its operands, but for numbers among each other.
_OF_TIMES: Final = {
    ("add", "date", "duration"): "time",
    ("add", "date", "int"): "date",
    ("add", "duration", "date"): "time",
    ("add", "duration", "duration"): "duration",
    ("add", "duration", "time"): "time",
    ("add", "int", "date"): "date",
    ("add", "time", "duration"): "time",
    ("mul", "duration", "int"): "duration",
    ("mul", "int", "duration"): "duration",
    ("sub", "date", "date"): "int",
    ("sub", "date", "duration"): "time",
    ("sub", "date", "int"): "date",
    ("sub", "date", "time"): "duration",
    ("sub", "duration", "duration"): "duration",
    ("sub", "time", "date"): "duration",
    ("sub", "time", "duration"): "time",
    ("sub", "time", "time"): "duration",
}


@lru_cache(maxsize=1024)
def _normal(text: str) -> str | None:
    if text in _BYTES:
        return text
    text = text.strip()
    if text.endswith("[]"):
        element = _normal(text[:-2]) if text.count("[]") <= _DEEPEST else None
        return None if element is None else list_type(element)
    if _STRUCT.fullmatch(text):
        return _struct(text)
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    if found[1] is None:
        return decimal_type(18, 3)
    digits, scale = int(found[1]), int(found[2] or 0)
    return decimal_type(digits, scale) if 1 <= digits <= MOST_DIGITS and scale <= digits else None


def _struct(text: str) -> str | None:
    """Normal spelling of the type of structs; None if it is none."""
    fields: dict[str, str] = {}
    for part in _parts(text[text.index("(") + 1 : -1]):
        field = _FIELD.fullmatch(part)
        kind = _normal(field[3]) if field and text.count("(") <= 4 * _DEEPEST else None
        name = (field[1] or field[2].replace('""', '"')) if field else ""
        if kind is None or not name or name in fields:
            return None
        fields[name] = kind
    return struct_type(fields) if fields else None


def _parts(text: str) -> list[str]:
    """Parts of a text between commas that are not in parentheses or quotes."""
    parts, start, depth, quoted = [], 0, 0, False
    for place, sign in enumerate(text):
        quoted ^= sign == '"'
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if sign == "," and not depth and not quoted:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def list_type(element: str) -> str:
    """Type of lists of values of a type."""
    return f"{element}[]"


def struct_type(fields: Mapping[str, str]) -> str:
    """Type of structs with these fields: name to type.

    >>> struct_type({"a": "int", "b c": "str[]"})
    'struct(a int, "b c" str[])'
    """
    written = (name if _WORD.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in fields)
    return f"struct({', '.join(f'{name} {kind}' for name, kind in zip(written, fields.values(), strict=True))})"


def element_of(kind: str) -> str:
    """Type of the elements of lists of a type."""
    return kind.removesuffix("[]")


@lru_cache(maxsize=1024)
def fields_of(kind: str) -> Mapping[str, str]:
    """Fields of structs of a type: name to type.

    >>> dict(fields_of('struct(a int, "b c" struct(d decimal(9, 2)))'))
    {'a': 'int', 'b c': 'struct(d decimal(9, 2))'}
    """
    found = (_FIELD.fullmatch(part) for part in _parts(kind[kind.index("(") + 1 : -1]))
    return {(each[1] or each[2].replace('""', '"')): each[3] for each in found if each}


def column_type(text: Any) -> str | None:
    """Normal spelling of a type; None if there is no such type.

    >>> column_type("int"), column_type("DECIMAL(9,2)"), column_type("decimal"), column_type("decimal(40, 2)")
    ('int', 'decimal(9, 2)', 'decimal(18, 3)', None)
    """
    return _normal(text) if isinstance(text, str) else None


@lru_cache(maxsize=1024)
def family(kind: str) -> str:
    """Name of the family of a type: its first word, or list.

    >>> family("decimal(18, 2)"), family("int"), family("struct(a int)[]")
    ('decimal', 'int', 'list')
    """
    return "list" if kind.endswith("[]") else kind.partition("(")[0]


def column_bytes(kind: str) -> float:
    """Mean bytes of one value of a type."""
    match family(kind):
        case "list":
            return _LIST_BYTES + _ELEMENTS * column_bytes(element_of(kind))
        case "struct":
            return sum(map(column_bytes, fields_of(kind).values()))
        case _:
            return _BYTES.get(kind, _DECIMAL_BYTES)


def decimal_type(digits: int, scale: int) -> str:
    """Type of decimals of at most so many ``digits``, of which ``scale`` are behind the point."""
    return f"decimal({digits}, {scale})"


@lru_cache(maxsize=1024)
def digits_of(kind: str) -> tuple[int, int]:
    """Digits of the values of a decimal or an integer, in all and behind the point.

    >>> digits_of("decimal(18, 2)"), digits_of("int")
    ((18, 2), (19, 0))
    """
    found = _DECIMAL.fullmatch(kind)
    return (INT_DIGITS, 0) if found is None else (int(found[1]), int(found[2]))


def decimal_of_text(text: str) -> str | None:
    """Type of the decimal that a number with a fraction is beside decimals; None if it is none.

    >>> decimal_of_text("9.99"), decimal_of_text("0.5"), decimal_of_text("1e-7"), decimal_of_text("7")
    ('decimal(3, 2)', 'decimal(2, 1)', None, None)
    """
    found = _FRACTION.fullmatch(text)
    digits = len(found[1]) + len(found[2]) if found else 0
    return decimal_type(digits, len(found[2])) if found and digits <= MOST_DIGITS else None


def common(kinds: Iterable[str]) -> str | None:
    """Type that the values of several types have when they are compared, or are one column; None if there is none.

    Bare NULLs (``null``) fit any type. ``null`` if all are that.

    >>> common(["int", "decimal(9, 2)"]), common(["date", "time"]), common(["float", "decimal(9, 2)", "null"])
    ('decimal(21, 2)', 'time', 'float')
    >>> common(["int", "str"])
    """
    found = dict.fromkeys(kinds)
    found.pop("null", None)
    if len(found) < 2:
        return next(iter(found), "null")
    families = {family(kind) for kind in found}
    if families == {"date", "time"}:
        return "time"
    if not families <= {"int", "float", "decimal"}:
        return None
    if "float" in families:
        return "float"
    digits, scales = zip(*map(digits_of, found), strict=True)
    scale = max(scales)
    whole = max(each - behind for each, behind in zip(digits, scales, strict=True))
    return decimal_type(min(MOST_DIGITS, whole + scale), scale)


def arithmetic(key: str, left: str, right: str) -> str | None:
    """Type of ``left`` and ``right`` added, subtracted, multiplied or divided; None if that means nothing.

    ``key``: add, sub, mul, div, mod or intdiv. A bare NULL is taken as a value that fits the other.

    >>> arithmetic("sub", "time", "time"), arithmetic("add", "date", "int"), arithmetic("add", "date", "date")
    ('duration', 'date', None)
    >>> arithmetic("mul", "decimal(9, 2)", "decimal(4, 3)"), arithmetic("add", "decimal(9, 2)", "int")
    ('decimal(13, 5)', 'decimal(22, 2)')
    """
    if "null" in (left, right):
        other = right if left == "null" else left
        if other in ("date", "time", "duration"):
            return other if key in ("add", "sub") else None
        left = right = "int" if other == "null" else other
    families = family(left), family(right)
    if (key, *families) in _OF_TIMES:
        return _OF_TIMES[key, *families]
    if not {*families} <= {"int", "float", "decimal"}:
        return None
    if "decimal" not in families or "float" in families:
        if key == "intdiv":
            return "int" if families == ("int", "int") else None
        if key == "mod" and "decimal" in families:
            return None
        return "float" if key == "div" or "float" in families else "int"
    if key in ("mod", "intdiv"):
        return None
    if key == "div":
        return "float"
    (digits, scale), (others, behind) = digits_of(left), digits_of(right)
    if key == "mul":
        return (
            decimal_type(min(MOST_DIGITS, digits + others), scale + behind) if scale + behind <= MOST_DIGITS else None
        )
    most = max(scale, behind)
    return decimal_type(min(MOST_DIGITS, max(digits - scale, others - behind) + most + 1), most)


def sum_of(kind: str) -> str:
    """Type of the sum of a column of numbers."""
    return decimal_type(MOST_DIGITS, digits_of(kind)[1]) if family(kind) == "decimal" else kind
