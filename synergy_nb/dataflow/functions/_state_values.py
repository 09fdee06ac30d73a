"""Values of the state of one's own classes, as bytes: with the types that MessagePack does not tell apart."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

__all__ = ["EXPECTED", "decoded", "encoded"]

EXPECTED: Final = "numbers, text, bytes, times, lists, tuples, sets, dictionaries, tables or arrays"
_PLAIN: Final = (type(None), bool, float, str, bytes)
_LEAST, _MOST = -(2**63), 2**64 - 1


def encoded(value: Any) -> bytes:
    """Write a value.

    Raises ``TypeError`` if it, or one in it, is of another type; the text is that type.
    """
    return msgspec.msgpack.encode(_tagged(value))


def decoded(data: bytes) -> Any:
    """Read a value that :func:`encoded` has written, with the same types."""
    return _untagged(msgspec.msgpack.decode(data))


def _frame_bytes(table: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    table.write_ipc_stream(written)
    return written.getvalue()


def _array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.hasobject:
        raise TypeError("an array of objects")
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return written.getvalue()


def _pairs(values: dict[Any, Any]) -> list[Any]:
    return [[_tagged(key), _tagged(value)] for key, value in values.items()]


def _read(pairs: list[Any]) -> list[tuple[Any, Any]]:
    return [(_untagged(key), _untagged(value)) for key, value in pairs]


#: Class to its tag, and to functions that write it as a plain value, and read it.
_TYPES: Final[dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    tuple: ("t", lambda it: [_tagged(each) for each in it], lambda it: tuple(map(_untagged, it))),
    set: ("s", lambda it: [_tagged(each) for each in it], lambda it: set(map(_untagged, it))),
    frozenset: ("f", lambda it: [_tagged(each) for each in it], lambda it: frozenset(map(_untagged, it))),
    deque: ("q", lambda it: [it.maxlen, *map(_tagged, it)], lambda it: deque(map(_untagged, it[1:]), it[0])),
    dict: ("d", _pairs, lambda it: dict(_read(it))),
    OrderedDict: ("o", _pairs, lambda it: OrderedDict(_read(it))),
    Counter: ("c", _pairs, lambda it: Counter(dict(_read(it)))),
    dt.datetime: ("m", lambda it: it.isoformat(), dt.datetime.fromisoformat),
    dt.date: ("y", lambda it: it.isoformat(), dt.date.fromisoformat),
    dt.timedelta: ("u", lambda it: [it.days, it.seconds, it.microseconds], lambda it: dt.timedelta(*it)),
    int: ("i", str, int),  # one that MessagePack has no room for
    pl.DataFrame: ("p", _frame_bytes, pl.read_ipc_stream),
    pa.Table: ("a", lambda it: _frame_bytes(pl.DataFrame(it)), lambda it: pl.read_ipc_stream(it).to_arrow()),
    np.ndarray: ("n", _array_bytes, lambda it: np.load(io.BytesIO(it), allow_pickle=False)),
}
_READERS: Final = {tag: read for tag, _, read in _TYPES.values()}


def _tagged(value: Any) -> Any:
    """A plain value as it is, a list as a list, anything else as a dictionary of its tag."""
    kind = type(value)
    if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
        return value
    if kind is list:
        return [_tagged(each) for each in value]
    if isinstance(value, np.generic):
        return _tagged(value.item())
    if kind is defaultdict:  # what makes its defaults is code
        raise TypeError("defaultdict")
    known = _TYPES.get(kind)
    if known is None:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
    tag, write, _ = known
    return {tag: write(value)}


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(each) for each in value]
    if isinstance(value, dict):
        ((tag, inner),) = value.items()
        return _READERS[tag](inner)
    return value
