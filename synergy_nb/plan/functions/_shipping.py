"""What travels of a function: its code and what it refers to, as bytes, and the hash of its content.

The bytes are written by cloudpickle, as Dask writes functions, and are read only in the process that executes the
function, never in that of a peer. The hash is of the same content without what a second execution of the same cell
changes: files and numbers of lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import cloudpickle

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.function_references import DIGEST_DIGITS
from synergy_nb.plan.terms.units import format_size

__all__ = ["NotShippable", "digest_of", "shipped"]

MOST_BYTES: Final = 64_000_000  # of a function and all that it refers to, which goes to each peer
_nothing: Final = object()
_HEX: Final = frozenset("0123456789abcdef")


class NotShippable(SynergyError, TypeError):
    """A function cannot travel; the text names the variable."""


def shipped(name: str, code: Any, content: Any) -> bytes:
    """Write ``content``, which contains ``code``, the function or class called ``name``.

    Raises ``NotShippable`` if a value that it refers to cannot be written, or all are too large; the text names it.
    """
    with _local_by_value(code), _declared(code):
        try:
            data = bytes(cloudpickle.dumps(content))
            if len(data) <= MOST_BYTES:
                return data
            what = f"function {name!r}: what it refers to has {format_size(round(len(data), -6))}"
            raise NotShippable(f"{what}; expected at most {format_size(MOST_BYTES)}: load it by load=, or look it up")
        except NotShippable:
            raise
        except Exception as error:  # noqa: BLE001 - a reducer may raise anything
            for variable, value in _variables(code):
                try:
                    cloudpickle.dumps(value)
                except Exception as reason:  # noqa: BLE001 - as above
                    raise NotShippable(_refusal(name, variable, value, reason)) from None
            raise NotShippable(f"function {name!r} cannot travel to the peers: {error}") from None


def digest_of(code: Any, content: Any) -> str:
    """Hash of ``content``, which is the same whenever and wherever the same code is declared."""
    written = io.BytesIO()
    with _local_by_value(code), _declared(code):
        _Normal(written).dump(content)
    return hashlib.sha256(written.getvalue()).hexdigest()[:DIGEST_DIGITS]


class _Normal(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that leaves out files, numbers of lines, the order of sets, and names that cloudpickle draws."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)

    def persistent_id(self, value: Any) -> Any:
        """Replace code and sets: of built-in types pickle asks no reducer, but it asks for this of all values."""
        if isinstance(value, types.CodeType):
            return tuple(getattr(value, f"co_{name}") for name in _CODE)
        if type(value) in (set, frozenset):
            return type(value).__name__, sorted(map(repr, value))
        return None

    def reducer_override(self, value: Any) -> Any:
        """Replace the names that cloudpickle draws at random for classes."""
        made = super().reducer_override(value)
        if not isinstance(made, tuple) or not isinstance(value, type | types.FunctionType):
            return made
        arguments = tuple(
            "" if isinstance(each, str) and len(each) == 32 and _HEX.issuperset(each) else _without_file(each)
            for each in made[1]
        )
        return (made[0], arguments, *(_without_file(each) for each in made[2:]))


def _without_file(value: Any) -> Any:
    """State of a function or a class without where it was written."""
    if isinstance(value, dict):
        return {name: _without_file(each) for name, each in value.items() if name not in _PLACES}
    return tuple(_without_file(each) for each in value) if type(value) is tuple else value


_PLACES: Final = ("__file__", "__firstlineno__", "__static_attributes__", "__module__", "__name__", "__package__")


#: What is hashed of code: all but its file, its lines, and the names that say where it was written.
_CODE: Final = (
    "name", "code", "consts", "names", "freevars", "argcount", "posonlyargcount", "kwonlyargcount", "flags", "varnames",
    "exceptiontable",
)  # fmt: skip


@contextlib.contextmanager
def _local_by_value(code: Any) -> Iterator[None]:
    """Write the module of ``code`` by its content, if it is not installed: peers cannot import what lies beside."""
    module = sys.modules.get(getattr(code, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or _is_installed(Path(file)):
        yield
        return
    known = module.__name__ in cloudpickle.list_registry_pickle_by_value()
    if not known:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        if not known:
            cloudpickle.unregister_pickle_by_value(module)


@contextlib.contextmanager
def _declared(code: Any) -> Iterator[None]:
    """Have the name of a function mean itself, as when it calls itself: nothing has that name while it is declared.

    When a cell runs again, its name means what the cell declared before.
    """
    methods = [each for each in vars(code).values() if inspect.isfunction(each)] if inspect.isclass(code) else [code]
    scope = getattr(methods[0], "__globals__", None) if methods else None
    name = getattr(code, "__name__", "")
    if scope is None or getattr(code, "__qualname__", "") != name:
        yield
        return
    before = scope.get(name, _nothing)
    scope[name] = code
    try:
        yield
    finally:
        if before is _nothing:
            del scope[name]
        else:
            scope[name] = before


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(sysconfig.get_path(each)) for each in ("stdlib", "purelib", "platlib"))


def _variables(code: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function, or a method of a class, refers to, and their values."""
    functions = [each for each in vars(code).values() if inspect.isfunction(each)] if inspect.isclass(code) else [code]
    for function in functions:
        with contextlib.suppress(TypeError, ValueError):
            found = inspect.getclosurevars(function)
            yield from found.nonlocals.items()
            yield from found.globals.items()
        yield from ((f"{function.__name__}'s default", each) for each in getattr(function, "__defaults__", None) or ())


def _refusal(name: str, variable: str, value: Any, reason: Exception) -> str:
    expected = "a value that can be copied; make it inside the function, or by load="
    what = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"function {name!r}: {variable}: {what}; expected {expected} ({reason})"
