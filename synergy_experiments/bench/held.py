"""What is reachable from objects: the items of every container, and the objects of every class.

:mod:`synergy_nb.control.tables` counts the tables of a live peer once a minute. This looks at everything that they
hold, too, which takes a second; so whatever an ended application leaves behind is found, wherever that is.
"""

from __future__ import annotations

import functools
import gc
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final

__all__ = ["held"]

#: What neither holds anything nor comes and goes with applications.
ENDS: Final = (type, ModuleType, CodeType, BuiltinFunctionType, str, bytes, int, float, complex, type(None))
CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)
#: Packages whose objects are looked into; others, such as tables and compiled functions, are only counted.
OURS: Final = ("synergy_nb", "synergy_experiments", "builtins", "collections", "functools")


def held(roots: Iterable[object], beyond: Iterable[object] = (), left_out: Collection[str] = ()) -> Counter[str]:
    """Number of items of all containers with a name, and of all objects of a class, that are reachable from ``roots``.

    A container is named after the class of its owner and the attribute, with ``[]`` for each container around it.
    Nothing behind the objects ``beyond`` is looked at, unless it can be reached in another way; and no attribute whose
    name is ``left_out``.

    >>> class Memory:
    ...     def __init__(self) -> None:
    ...         self.seen = {"a": [1, 2], "b": [3]}
    >>> found = held([Memory()])
    >>> found["Memory.seen"], found["Memory.seen[]"], found["objects of builtins.list"]
    (2, 3, 2)
    """
    found: Counter[str] = Counter()
    alive = list(beyond)  # and what is made while this looks: an id is of one object as long as that lives
    known = set(map(id, alive))
    waiting: deque[tuple[str, object]] = deque()

    def meet(name: str, it: object) -> None:
        if not isinstance(it, ENDS) and id(it) not in known and name not in left_out:
            known.add(id(it))
            alive.append(it)
            waiting.append((name, it))

    for root in roots:
        meet("", root)
    while waiting:
        name, it = waiting.popleft()
        kind = type(it)
        found[f"objects of {kind.__module__}.{kind.__qualname__}"] += 1
        if isinstance(it, CONTAINERS):
            found[name] += len(it)
            for each in it:
                meet(f"{name}[]", each)
            if isinstance(it, dict):
                for each in it.values():
                    meet(f"{name}[]", each)
        if kind.__module__.partition(".")[0] in OURS:
            for attribute, value in _attributes(it):
                meet(f"{kind.__qualname__}.{attribute}", value)
    return found


def _attributes(it: object) -> Iterator[tuple[str, Any]]:
    if isinstance(it, FunctionType):
        yield from zip(it.__code__.co_freevars, it.__closure__ or (), strict=True)
    elif isinstance(it, CellType | GeneratorType):
        yield from (("inside", each) for each in gc.get_referents(it))
    elif isinstance(it, MethodType):
        yield "__self__", it.__self__
    elif isinstance(it, functools.partial):
        yield from (("func", it.func), ("args", it.args), ("keywords", it.keywords))
    else:
        yield from list(getattr(it, "__dict__", {}).items())
        for kind in type(it).__mro__:
            for name in (slots,) if isinstance(slots := kind.__dict__.get("__slots__", ()), str) else slots:
                of_class = (
                    f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and name[-2:] != "__" else name
                )
                if name not in ("__dict__", "__weakref__") and hasattr(it, of_class):
                    yield name, getattr(it, of_class)
