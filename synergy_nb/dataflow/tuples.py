"""Items of streams: batches of tuples, punctuations, and their encoding on the wire.

A :class:`Batch` is a Polars table with event times, the time at which its oldest tuple entered the system, and the
position of its first tuple in its stream. A :class:`Punctuation` promises that no tuple with an earlier event time will
follow (Tucker et al. [1]_). Both are values: an operator never changes a batch that it receives, so one batch may be
sent to several readers.

On the wire an item is

    magic (1 byte) | version (1) | length of the header (2) | CRC-32 of all that follows (4) | header | Arrow IPC stream

with a MessagePack header. The checksum is necessary because Arrow readers trust the lengths and offsets that they read;
damaged items are refused before any of these is used. Tables are written by Polars when small (13 µs for one row, 57 µs
by pyarrow) and by pyarrow when large (0.3 ms for 100,000 rows of three integers, 4.4 ms by Polars), and read by Polars
(20 µs and 0.3 ms; pyarrow and conversion: 130 µs and 0.13 ms).

.. [1] P. Tucker, D. Maier, T. Sheard, L. Fegaras. Exploiting punctuation semantics in continuous data streams.
   IEEE TKDE 15(3), 2003.
"""

from __future__ import annotations

import datetime as dt
import io
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from synergy_nb.plan.tables.column_kinds import DTYPES, exact_kind
from synergy_nb.plan.terms.column_types import EXAMPLES

__all__ = [
    "END",
    "EPOCH",
    "START",
    "TYPES",
    "Batch",
    "Item",
    "Punctuation",
    "Reference",
    "concatenated",
    "conform",
    "decode",
    "decode_table",
    "empty",
    "encode",
    "encode_reference",
    "encode_table",
    "header_of",
    "microseconds_of",
    "selected",
]

END: Final = 2**63 - 1  # a punctuation with this time ends its stream
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times are in UTC, without a zone
START: Final = -(2**63)  # earlier than any event time: the watermark before the first punctuation

TYPES: Final[Mapping[str, pl.DataType]] = DTYPES

_PREFIX: Final = struct.Struct("<BBHI")
_MAGIC: Final = 0x5E
_FEW_ROWS: Final = 4096  # rows of a table up to which each of its columns is cut faster than all in one query
_VERSION: Final = 2
_LARGE: Final = 512 * 1024  # bytes from which pyarrow writes faster than Polars


class Batch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Consecutive tuples of one stream.

    Notes
    -----
    Two batches are equal when all fields are, tables cell by cell.
    """

    table: pl.DataFrame  # the tuples; a column `time` of type `Datetime("us")` holds the event time of each
    position: int  # position of the first tuple in its stream; positions count tuples from 0
    born: float  # wall-clock seconds at which the oldest item that caused these tuples entered the system at its source
    rows: int = 0  # number of tuples
    nbytes: int = 0  # bytes of the tuples in memory, as Polars estimates them; the unit of credits
    end_position: int = 0  # position of the tuple that would follow the last one

    def __post_init__(self) -> None:
        # Asked for at each step of the way, and three calls each in Polars: so once here, for good.
        rows = self.table.height
        _set(self, "rows", rows)
        _set(self, "nbytes", int(self.table.estimated_size()))
        _set(self, "end_position", self.position + rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return (
            self.position == other.position
            and self.born == other.born
            and self.table.schema == other.table.schema
            and self.table.equals(other.table)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {exact_kind(kind) or kind}" for name, kind in self.table.schema.items())
        return f"Batch({self.rows} tuples from position {self.position}, born {self.born:.6f}, {columns})"


class Punctuation(msgspec.Struct, frozen=True, gc=False):
    """A promise: no tuple with event time below ``time`` follows in this stream."""

    time: int  # event time in microseconds since 1970; `END` ends the stream
    position: int  # number of tuples that went before it, which is the position of the next one
    born: float  # wall-clock seconds at which the item that caused it entered the system

    @property
    def ends(self) -> bool:
        """Whether the stream ends here."""
        return self.time == END


Item: TypeAlias = Batch | Punctuation


def microseconds_of(time: dt.datetime) -> int:
    """Microseconds since 1970 of a time; without a zone it is in UTC.

    >>> microseconds_of(dt.datetime(1970, 1, 1, 0, 0, 2))
    2000000
    """
    own = time if time.tzinfo is None else time.astimezone(dt.UTC).replace(tzinfo=None)
    return (own - EPOCH) // dt.timedelta(microseconds=1)


class _BatchHeader(msgspec.Struct, frozen=True, array_like=True, tag="batch", gc=False):
    position: int
    born: float


class Reference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The location of a batch's table in memory that peers of one machine share."""

    # process, number: process that created the memory, and the number of the file there
    process: int
    number: int
    token: bytes  # bytes at the beginning of the memory, which identify it
    # start, size: offset of the table's Arrow IPC stream in the memory, and its length, bytes
    start: int
    size: int


class _ReferenceHeader(msgspec.Struct, frozen=True, array_like=True, tag="reference", gc=False):
    position: int
    born: float
    to: Reference


class _PunctuationHeader(msgspec.Struct, frozen=True, array_like=True, tag="punctuation", gc=False):
    time: int
    position: int
    born: float


_set = msgspec.structs.force_setattr
_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_BatchHeader | _PunctuationHeader | _ReferenceHeader).decode


def encode(item: Item) -> bytes:
    """Encode a batch or a punctuation.

    Raises ``TypeError`` if ``item`` is neither.
    """
    if isinstance(item, Batch):
        header = _encode_header(_BatchHeader(item.position, item.born))
        file = io.BytesIO() if item.nbytes < _LARGE else _room(item.nbytes)
        file.write(_PREFIX.pack(_MAGIC, _VERSION, len(header), 0))
        file.write(header)
        _write_table(item.table, item.nbytes, file)
        with file.getbuffer() as view:
            _PREFIX.pack_into(view, 0, _MAGIC, _VERSION, len(header), zlib.crc32(view[_PREFIX.size :]))
        return file.getvalue()
    if isinstance(item, Punctuation):
        header = _encode_header(_PunctuationHeader(item.time, item.position, item.born))
        return _PREFIX.pack(_MAGIC, _VERSION, len(header), zlib.crc32(header)) + header
    raise TypeError(f"item: {type(item).__name__}; expected Batch or Punctuation")


def encode_reference(batch: Batch, to: Reference) -> bytes:
    """Encode a batch whose table is in shared memory."""
    header = _encode_header(_ReferenceHeader(batch.position, batch.born, to))
    return _PREFIX.pack(_MAGIC, _VERSION, len(header), zlib.crc32(header)) + header


def _nowhere(_: Reference) -> pl.DataFrame:
    raise ValueError("item: a reference to memory of another process; expected a table")


def header_of(view: memoryview, what: str, prefix: struct.Struct, magic: int, version: int) -> tuple[int, int]:
    """Return where the header of an encoded item or frame ends, and the checksum that its prefix states.

    ``view``: bytes that were received; ``what``: noun for the item or frame in errors; ``prefix``: layout of the
    prefix: first byte, version, length of the header, checksum; ``magic``, ``version``: expected first byte and
    version.

    Raises ``ValueError`` if the prefix is another one, or the header is longer than the bytes received.
    """
    if len(view) < prefix.size:
        raise ValueError(f"{what}: {len(view)} bytes; expected at least {prefix.size}")
    first, found, length, check = prefix.unpack_from(view)
    if first != magic:
        raise ValueError(f"{what}: first byte {first:#04x}; expected {magic:#04x}")
    if found != version:
        raise ValueError(f"{what}: format version {found}; expected {version}")
    if prefix.size + length > len(view):
        raise ValueError(f"{what}: header of {length} bytes in {len(view) - prefix.size} bytes; it was cut off")
    return prefix.size + length, check


def decode(data: bytes | bytearray | memoryview, table_of: Callable[[Reference], pl.DataFrame] = _nowhere) -> Item:
    """Decode a batch or punctuation that :func:`encode` or :func:`encode_reference` wrote.

    ``table_of``: function that returns the table of a reference; by default, references are refused.

    Raises ``ValueError`` if ``data`` is not a valid item; the message names the wrong part.
    """
    view = memoryview(data)
    start, check = header_of(view, "item", _PREFIX, _MAGIC, _VERSION)
    found = zlib.crc32(view[_PREFIX.size :])
    if found != check:
        raise ValueError(f"item: checksum {found:#010x}; expected {check:#010x}: it was damaged or cut off")
    try:
        header = _decode_header(view[_PREFIX.size : start])
    except msgspec.MsgspecError as error:
        raise ValueError(f"item: header: {error}") from None
    if header.position < 0:
        raise ValueError(f"item: position {header.position}; expected at least 0")
    if isinstance(header, _PunctuationHeader):
        if start != len(view):
            raise ValueError(f"punctuation: {len(view) - start} bytes after its header; expected none")
        return Punctuation(header.time, header.position, header.born)
    if isinstance(header, _ReferenceHeader):
        if start != len(view):
            raise ValueError(f"reference: {len(view) - start} bytes after its header; expected none")
        table = table_of(header.to)
    else:
        table = _read_table(view[start:])
    kind = _check_types(table)
    if kind != TYPES["time"]:
        found_kind = "no such column" if kind is None else str(kind)
        raise ValueError(f"batch: column 'time': {found_kind}; expected {TYPES['time']}")
    _check_times(table)
    return Batch(table, header.position, header.born)


def encode_table(table: pl.DataFrame) -> bytes:
    """Encode a table as an uncompressed Arrow IPC stream."""
    size = int(table.estimated_size())
    file = _room(size)
    _write_table(table, size, file)
    return file.getvalue()


def decode_table(data: bytes | memoryview) -> pl.DataFrame:
    """Decode a table that :func:`encode_table` wrote.

    Raises ``ValueError`` if ``data`` is no Arrow IPC stream, or has a column of a type that tuples do not have.
    """
    table = _read_table(data)
    _check_types(table)
    return table


def _read_table(data: bytes | memoryview) -> pl.DataFrame:
    try:
        return pl.read_ipc_stream(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"table: no Arrow IPC stream: {_first_line(error)}") from None
    except pl.exceptions.PanicException as error:  # the reader's own assertions; not a subclass of Exception
        raise ValueError(f"table: no Arrow IPC stream: {_first_line(error)}") from None


def _check_types(table: pl.DataFrame) -> pl.DataType | None:
    """Check the types of all columns; return that of the event times, or None without these."""
    times = None
    for name, kind in zip(table.columns, table.dtypes, strict=True):  # its schema takes five times as long
        if exact_kind(kind) is None:
            raise ValueError(f"table: column {name!r}: type {kind}; expected one of {', '.join(EXAMPLES)}")
        if name == "time":
            times = kind
    return times


def concatenated(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate tables of the same columns, at least one, into one whose columns are contiguous.

    ``polars.concat`` and rechunking share the work between the threads of a pool. To wake these takes ten times as long
    as it takes to append the few rows of a batch, and on a busy machine they have to wait for a core.
    """
    first, *others = tables
    if not others:
        return first.rechunk() if first.n_chunks() > 1 else first
    whole = first.clone()
    for table in others:
        whole.extend(table)  # copies what the clone shares
    return whole


def selected(table: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Return the rows of a table that a mask selects; NULL selects none.

    A filter of Polars is a query: on a few rows it takes more than twice as long as to select from each column.
    """
    if table.height > _FEW_ROWS:
        return table.filter(mask)
    return pl.DataFrame([column.filter(mask) for column in table.get_columns()])


def empty(schema: Mapping[str, str]) -> pl.DataFrame:
    """Return a table without rows that has the columns ``schema`` (name to one of ``TYPES``)."""
    return pl.DataFrame(schema={name: TYPES[kind] for name, kind in schema.items()})


def conform(table: pl.DataFrame, schema: Mapping[str, str]) -> pl.DataFrame:
    """Return ``table`` with exactly the columns of ``schema``, in its order, cast where that is lossless.

    Raises ``ValueError`` if a column is missing or cannot be cast, or a tuple has no event time.
    """
    wanted = {name: TYPES[kind] for name, kind in schema.items()}
    if table.schema == wanted and table.columns == list(wanted):
        _check_times(table)
        return table
    for name in wanted:
        if name not in table.schema:
            raise ValueError(f"column {name!r}: missing; expected {schema[name]}, found {', '.join(table.columns)}")
    columns: list[Any] = []
    for name, kind in wanted.items():
        try:
            columns.append(table.get_column(name).cast(kind, strict=True))
        except pl.exceptions.PolarsError as error:
            found = table.schema[name]
            raise ValueError(f"column {name!r}: {found}; expected {schema[name]}: {_first_line(error)}") from None
    fitted = pl.DataFrame(columns)
    _check_times(fitted)
    return fitted


def _check_times(table: pl.DataFrame) -> None:
    """Check that every tuple has an event time; without it, punctuations would promise nothing about it."""
    missing = table.get_column("time").null_count() if "time" in table.columns else 0
    if missing:
        raise ValueError(f"column 'time': {missing} of {table.height} tuples have none; expected an event time in each")


def _room(size: int) -> io.BytesIO:
    """Create an empty file with memory for a large table: growing it while writing takes 2 ms for 2.4 MB."""
    file = io.BytesIO()
    if size >= _LARGE:
        file.seek(int(size * 1.1))
        file.write(b"\0")
        file.seek(0)
    return file


def _write_table(table: pl.DataFrame, size: int, file: io.BytesIO) -> None:
    if size < _LARGE:
        # Polars locks the table that it writes, and acquires the interpreter for each write; a thread that only reads
        # the table's height holds the interpreter and waits for the lock. So Polars gets a table of its own: 1 µs.
        table.clone().write_ipc_stream(file)
    else:
        arrow = table.to_arrow()
        with pa.ipc.new_stream(file, arrow.schema) as writer:
            writer.write_table(arrow)
    file.truncate()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
