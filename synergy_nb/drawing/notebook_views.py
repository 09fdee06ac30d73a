"""Views that notebooks show for values of lower rooms, which do not know them.

A value asks for its view by :func:`view_of`, with a name for the kind of view; :mod:`synergy_nb.notebook.views` says,
by :func:`show_with`, which function makes that. So ``application.replay()`` is shown by a widget, and a program without
a notebook loads none. Whether there is a notebook is asked by :func:`running_shell`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["running_shell", "show_with", "view_of"]

_MAKERS: dict[str, Callable[[Any], Any]] = {}


def show_with(kind: str, make: Callable[[Any], Any]) -> None:
    """Have a function make the views of a kind.

    ``kind``: name of the kind of view; ``make``: function that makes the view of a value.

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


def running_shell() -> Any:
    """Return the IPython that runs this program; None if there is none. Its ``kernel`` exists in a notebook only."""
    python: Any = sys.modules.get("IPython")  # who has not imported it does not run in it
    return None if python is None else python.get_ipython()
