"""Compiled functions: numba's, kept on disk between processes where that is possible.

What is compiled is compiled anew when its file changes, and only then: the numbers that a compiled function holds for
good stand in the module that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile at the first call; keep it beside the module or in the user's cache, if either can be written."""
    try:
        return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # no place for the cache
        return cast("F", numba.njit(nogil=True, error_model="numpy")(function))
