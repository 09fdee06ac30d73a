"""Names of secrets in texts of a plan: ``Bearer ${shop}`` stands for a text with the secret ``shop`` in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = ["filled", "names_in"]

_NAMED: Final = re.compile(r"\$\{([^${}]+)\}")


def names_in(text: str) -> list[str]:
    """Names of the secrets that a text has, each once.

    >>> names_in("Basic ${shop}"), names_in("no-cache")
    (['shop'], [])
    """
    return list(dict.fromkeys(_NAMED.findall(text)))


def filled(text: str, value: Callable[[str], str]) -> str:
    """A text with values in place of names.

    >>> filled("Bearer ${shop}", {"shop": "abc"}.__getitem__)
    'Bearer abc'
    """
    return _NAMED.sub(lambda found: value(found[1]), text)
