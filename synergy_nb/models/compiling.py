"""Compilation of functions by numba, with a cache on disk between processes where that is possible.

A function is compiled again only when its file changes. So the constants that a compiled function uses must be in its
own module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function at its first call; cache it beside the module, or in the user's cache folder, if writable."""
    try:
        return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # no writable folder for the cache
        return cast("F", numba.njit(nogil=True, error_model="numpy")(function))
