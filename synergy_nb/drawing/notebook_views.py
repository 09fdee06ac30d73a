"""Views that notebooks show for values of lower rooms, which do not know them.

A value asks for its view by :func:`view_of`, with a name for the kind of view; the top of the house says, by
:func:`show_with`, which function makes that. So ``application.replay()`` is shown by a widget, and a program without a
notebook loads none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["show_with", "view_of"]

_MAKERS: dict[str, Callable[[Any], Any]] = {}


def show_with(kind: str, make: Callable[[Any], Any]) -> None:
    """Have a function make the views of a kind.

    Parameters
    ----------
    kind
        Name of the kind of view.
    make
        Function that makes the view of a value.

    Examples
    --------
    >>> show_with("example", lambda value: f"a view of {value}")
    >>> view_of("example", 7)
    'a view of 7'
    """
    _MAKERS[kind] = make


def view_of(kind: str, value: Any) -> Any:
    """Make the view of a value; None if nothing makes views of this kind."""
    make = _MAKERS.get(kind)
    return None if make is None else make(value)
