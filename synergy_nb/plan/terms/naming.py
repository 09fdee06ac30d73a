"""Valid names of plans and operators: free text for people, ids for files and commands.

The name of a plan, of a result or of a source is free text. People write the id of an operator in files and commands,
so it is one or more words: letters and digits of any script, ``_``, ``-``, ``.`` and single spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Any, Final

__all__ = ["ID", "NAME", "NO_PATTERN", "folder_name", "internal", "is_id", "is_name", "is_pattern", "suggested_id"]

NAME: Final = "a name of 1 to 200 characters, without control characters"
ID: Final = "an id of 1 to 100 characters: letters, digits, '_', '-', '.' and single spaces between words"
NO_PATTERN: Final = "a name other than '*' and '^...$', by which Polars means several columns"
_LONGEST_NAME: Final = 200
_LONGEST_ID: Final = 100
# categories of characters that cannot be printed: control characters, halves of pairs
_UNPRINTABLE: Final = ("Cc", "Cs")
_NONE: Final = "\ufffe\uffff"  # code points that are no characters; XML refuses them


def is_name(text: Any) -> bool:
    """Whether a value is a valid name: text that is not blank, not too long, and printable.

    Examples
    --------
    >>> is_name("credit: risk / 7 > 5"), is_name(" "), is_name("a\\0b")
    (True, False, False)
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_NAME:
        return False
    return all(each in "\n\t" or not (each in _NONE or unicodedata.category(each) in _UNPRINTABLE) for each in text)


def folder_name(application: str, most: int) -> str:
    """Name of the folder of an application among those of others, whatever its id is: clients and peers choose ids.

    The end of a long id stays, as it tells ids apart.

    Examples
    --------
    >>> folder_name("counts-1-a30f11", 8), folder_name("/etc", 8), folder_name("..", 8)
    ('1-a30f11', '%etc', '%%')
    """
    end = application[-most:]
    return re.sub(r"[/\\\0]", "%", end) if end.strip(".") else "%" * max(len(end), 1)


def is_pattern(column: str) -> bool:
    """Whether the name of a column means several ones in Polars."""
    return column == "*" or (column.startswith("^") and column.endswith("$"))


def internal(word: str) -> str:
    """Name of a column that an operator or an engine adds to a table for itself.

    It begins with a blank, which no column of a stream does (``parameter_types.COLUMN``), so the two never collide.
    """
    return f" {word}"


def is_id(text: Any) -> bool:
    """Whether a value is a valid id of an operator.

    Examples
    --------
    >>> [is_id(text) for text in ("by source", "größte-7.2", "a>b", "in/out", "", " a")]
    [True, True, False, False, False, False]
    """
    if not isinstance(text, str) or not 1 <= len(text) <= _LONGEST_ID or "  " in text or text != text.strip():
        return False
    return (text[0] == "_" or unicodedata.category(text[0])[0] in "LN") and all(map(_allowed, text))


def _allowed(character: str) -> bool:
    return character in "-. _" or unicodedata.category(character)[0] in "LMN"


def suggested_id(text: Any, taken: Collection[str] = ()) -> str | None:
    """Propose the unused id that is most similar to a text; None if there is none.

    Examples
    --------
    >>> suggested_id("in/out"), suggested_id("a > b", taken={"a b"}), suggested_id("??")
    ('in out', 'a b 2', None)
    """
    kept = "".join(each if _allowed(each) else " " for each in str(text)[:1000])
    found = " ".join(kept.split())[: _LONGEST_ID - 4].strip()
    while found and not is_id(found):
        found = found[1:].lstrip()
    if not found:
        return None
    number, free = 1, found
    while free in taken:
        number += 1
        free = f"{found} {number}"
    return free
