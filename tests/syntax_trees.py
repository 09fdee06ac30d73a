"""Syntax trees of modules, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from functools import cache

__all__ = ["syntax_tree"]


@cache
def syntax_tree(source: str) -> ast.Module:
    """Parse a module; collections of garbage, which would find none, would take longer than parsing.

    Parameters
    ----------
    source
        Text of the module.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if paused:
            gc.enable()
