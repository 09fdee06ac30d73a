"""Syntax trees of modules, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from functools import cache

__all__ = ["nodes_of", "syntax_tree"]


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


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a tree, in the order of ``ast.walk``, which takes three times as long.

    Contexts of names and kinds of operators are left out: they are the same few objects in all trees, also in those of
    others. A library that notes the parent of each node there would lead from one tree to the next, without end.

    Parameters
    ----------
    tree
        The tree, or a part of one.
    """
    found = [tree]
    for node in found:
        for value in vars(node).values():
            if type(value) is list:
                found += [
                    each for each in value
                    if isinstance(each, ast.AST) and (each._fields or isinstance(each, ast.stmt))
                ]  # fmt: skip
            elif isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return found
