"""What travels of a function: its code and what it refers to, as bytes whose hash is that of the content.

The bytes are written by cloudpickle, as Dask writes functions, and are read only in the process that executes the
function, never in that of a peer. What a second execution of the same cell changes, files and numbers of lines, is put
aside and travels beside them: so a peer computes the hash of what it gets, without reading it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import cloudpickle

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.units import format_size

__all__ = ["NotShippable", "Place", "Shipped", "shipped"]

MOST_BYTES: Final = 64_000_000  # of a function and all that it refers to, which goes to each peer
_nothing: Final = object()
_READ: Final = itertools.count()  # classes that this process has read
_HEX: Final = frozenset("0123456789abcdef")


class NotShippable(SynergyError, TypeError):
    """A function cannot travel; the text names the variable."""


def shipped(name: str, code: Any, content: Any) -> tuple[bytes, list[str | int | bytes]]:
    """Write ``content``, which contains ``code``, the function or class called ``name``; return bytes, and places.

    The bytes are the same whenever and wherever the same content is written. :class:`Shipped` reads both.

    Raises ``NotShippable`` if a value that it refers to cannot be written, or all are too large; the text names it.
    """
    with _local_by_value(code), _declared(code):
        try:
            written = io.BytesIO()
            pickler = _Shipping(written)
            pickler.dump(content)
            data = written.getvalue()
            if len(data) <= MOST_BYTES:
                return data, pickler.places
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


class Place:
    """A value that says where something was written: no part of what is hashed, as it changes nothing that happens."""

    __slots__ = ("value",)

    def __init__(self, value: str | int | bytes) -> None:
        self.value = value


class _Shipping(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that writes the same bytes whenever and wherever the same code is declared.

    It puts aside where code was written (:class:`Place`), numbers the classes to which cloudpickle gives random names,
    and writes sets in one order. So the hash of the bytes is that of the content, and who gets them can compute it.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.places: list[str | int | bytes] = []
        self._drawn: dict[str, int] = {}  # number of each random name
        self._sets: dict[int, tuple[int, Any]] = {}  # number of each set, and the set, so that its id stays its own

    def persistent_id(self, value: Any) -> Any:
        """Replace places, random names and sets: of built-in types pickle asks no reducer, but asks for this."""
        kind = type(value)
        if kind is Place:
            self.places.append(value.value)
            return "place", len(self.places) - 1
        if kind is _Drawn:
            return "drawn", self._drawn.setdefault(value.name, len(self._drawn))
        if kind is frozenset:
            return "frozenset", sorted(value, key=repr)
        if kind is set:
            if id(value) in self._sets:  # the same set, in two places of the content
                return "set", self._sets[id(value)][0], []
            number, _ = self._sets[id(value)] = len(self._sets), value
            return "set", number, sorted(value, key=repr)
        return None

    def reducer_override(self, value: Any) -> Any:
        """Put aside files, lines and random names."""
        if isinstance(value, types.CodeType):
            call, arguments = self.dispatch_table[types.CodeType](value)
            return call, tuple(Place(each) if at in _PLACES else each for at, each in enumerate(arguments))
        if isinstance(value, TypeVar):
            call, arguments = self.dispatch_table[TypeVar](value)
            return call, tuple(_Drawn(each) if _is_drawn(each) else each for each in arguments)
        made = super().reducer_override(value)
        if not isinstance(made, tuple) or len(made) < 3 or not isinstance(value, type | types.FunctionType):
            return made  # written by its name alone
        call, arguments, state, *others = made
        if isinstance(value, types.FunctionType):
            scope = arguments[1]  # which functions of one module share, so it stays the same object
            if isinstance(scope.get("__file__"), str):
                scope["__file__"] = Place(scope["__file__"])
            return made
        named = tuple(_Drawn(each) if _is_drawn(each) else each for each in arguments)
        return (call, named, (_without_lines(state[0]), *state[1:]), *others)


class Shipped(pickle.Unpickler):
    """Reads what :func:`shipped` has written; ``places``: what was put aside."""

    def __init__(self, code: bytes, places: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(code))
        self._places = places
        self._names: dict[int, str] = {}
        self._sets: dict[int, set[Any]] = {}

    def persistent_load(self, value: Any) -> Any:
        """Return what has been replaced."""
        match value:
            case ("place", number) if isinstance(place := self._places[number], str | int | bytes):
                return place
            case ("drawn", number):
                return self._names.setdefault(number, f"read {next(_READ)}")  # were it sent, its sender could choose it
            case ("frozenset", elements):
                return frozenset(elements)
            case ("set", number, elements):
                found = self._sets.setdefault(number, set())
                found.update(elements)
                return found
        raise pickle.UnpicklingError(f"{value!r:.100}; expected what a function that travels consists of")


class _Drawn:
    """A name that cloudpickle has drawn at random for a class."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


#: Arguments of code that say where it was written: its file, its first line, and the lines of its instructions.
_PLACES: Final = (10, 13, 14)


def _is_drawn(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 32 and _HEX.issuperset(value)


def _without_lines(members: dict[str, Any]) -> dict[str, Any]:
    """Members of a class, with those aside that later Pythons add to say where it was written."""
    if "__firstlineno__" in members:
        members = {**members, "__firstlineno__": Place(members["__firstlineno__"])}
    if "__static_attributes__" in members:  # in an order of their hashes
        members = {**members, "__static_attributes__": tuple(sorted(members["__static_attributes__"]))}
    return members


@contextlib.contextmanager
def _local_by_value(code: Any) -> Iterator[None]:
    """Write the module of ``code`` by its content, if it is not installed: peers cannot import what lies beside.

    This package they have, also where it is not installed.
    """
    module = sys.modules.get(getattr(code, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__" or _is_installed(Path(file)):
        yield
        return
    if module.__name__.partition(".")[0] == __name__.partition(".")[0]:
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
