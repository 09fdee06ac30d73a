"""Pieces: the tables of an operator's state, cut for their transfer to a copy. No IO, no clock.

A table is cut by rows, so no step of encoding, sending or decoding takes longer than a piece does, however large the
state is, and the receiver needs no second memory for the bytes of the whole.

Examples
--------
>>> table = pl.DataFrame({"v": range(1000)})
>>> pieces = encoded(table, 2000)
>>> len(pieces) > 3, decoded([piece.data for piece in pieces]).equals(table)
(True, True)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import polars as pl

from synergy_nb.dataflow.tuples import concatenated, decode_table, encode_table

__all__ = ["Archive", "Encoded", "Part", "Piece", "decoded", "encoded"]

_MOST_SNAPSHOTS: Final = 8  # number of snapshots whose pieces are known when copies acknowledge them
_SLACK: Final = 2048  # bytes of a piece beside its rows: the names and types of columns


class Encoded(NamedTuple):
    """Rows of a table as bytes, and their CRC-32."""

    data: bytes
    check: int


class Piece(NamedTuple):
    """A piece of a table."""

    number: int  # number of the piece in the output's epoch
    data: bytes  # rows of the piece, as `synergy_nb.dataflow.tuples.encode_table` writes them
    check: int  # CRC-32 of these bytes


class Part(NamedTuple):
    """A table of a snapshot."""

    table: int  # number by which the operator's state names it
    pieces: tuple[int, ...]  # numbers of its pieces, in the order of its rows


def encoded(table: pl.DataFrame, most: int) -> list[Encoded]:
    """Encode a table as pieces of at most ``most`` bytes, or of one row; at least one piece."""
    size = max(int(table.estimated_size()), 1)
    rows = max(table.height * most // size, 1)
    found: list[Encoded] = []
    for some in table.iter_slices(rows) if table.height > rows else (table,):
        found += [Encoded(data, zlib.crc32(data)) for data in _halved(some, most)]
    return found


def _halved(rows: pl.DataFrame, most: int) -> Iterator[bytes]:
    """Encode rows; in halves if they have far more bytes than the average row."""
    data = encode_table(rows)
    if len(data) <= 2 * most + _SLACK or rows.height < 2:
        yield data
        return
    half = rows.height // 2
    yield from _halved(rows.slice(0, half), most)
    yield from _halved(rows.slice(half), most)


def decoded(pieces: Sequence[bytes]) -> pl.DataFrame:
    """Decode the table that was cut into these pieces.

    Raises ``ValueError`` if they are not the pieces of one table.
    """
    if len(pieces) == 1:
        return decode_table(pieces[0])
    try:
        return concatenated([decode_table(piece) for piece in pieces])
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise ValueError(f"pieces of a table: {error}; expected those of one table") from None


class Archive:
    """The pieces of a component's last snapshot: the copies that have them, and the bytes that may be requested.

    Piece numbers are never reused. A table that is in two successive snapshots retains its pieces, and is not encoded
    again unless a new copy lacks them.
    """

    def __init__(self) -> None:
        self._tables: dict[int, tuple[int, ...]] = {}  # tables of the last snapshot, with the numbers of their pieces
        self._pieces: dict[int, Piece] = {}  # pieces with their bytes
        self._sums: dict[int, tuple[int, int]] = {}  # bytes and checksum of each piece of the last snapshot
        self._named: dict[int, frozenset[int]] = {}  # snapshot to the numbers of its pieces
        self._has: dict[str, frozenset[int]] = {}  # copy to the numbers of the pieces that it has
        self._next = 0

    def get(self, number: int) -> Piece | None:
        """Return a piece; None if its bytes are not here."""
        return self._pieces.get(number)

    def known(self, peers: Iterable[str]) -> dict[int, tuple[int, ...]]:
        """Return the tables whose pieces these copies have, or can be sent; these tables need not be encoded again."""
        had = [self._has.get(peer, frozenset()) for peer in peers]
        return {
            table: pieces
            for table, pieces in self._tables.items()
            if all(piece in self._pieces or all(piece in has for has in had) for piece in pieces)
        }

    def file(self, snapshot: int, tables: dict[int, list[Encoded] | None]) -> tuple[Part, ...]:
        """Add a snapshot.

        ``snapshot``: number of the snapshot; ``tables``: number of each table to its pieces; None: its pieces in the
        previous snapshot.
        """
        self._tables = {
            table: self._tables[table] if pieces is None else self._numbered(self._tables.get(table, ()), pieces)
            for table, pieces in tables.items()
        }
        named = frozenset(piece for pieces in self._tables.values() for piece in pieces)
        self._named[snapshot] = named
        for old in sorted(self._named)[:-_MOST_SNAPSHOTS]:
            del self._named[old]
        self._pieces = {number: piece for number, piece in self._pieces.items() if number in named}
        self._sums = {number: sums for number, sums in self._sums.items() if number in named}
        return tuple(Part(table, pieces) for table, pieces in self._tables.items())

    def _numbered(self, before: tuple[int, ...], pieces: list[Encoded]) -> tuple[int, ...]:
        """Number the pieces of a table; an encoding that is equal to an earlier one gets the numbers of that."""
        sums = [(len(data), check) for data, check in pieces]
        numbers = before
        if [self._sums.get(number) for number in before] != sums:
            numbers = tuple(range(self._next, self._next + len(pieces)))
            self._next += len(pieces)
        for number, each, (data, check) in zip(numbers, sums, pieces, strict=True):
            self._sums[number] = each
            self._pieces[number] = Piece(number, data, check)
        return numbers

    def lacking(self, peer: str) -> tuple[list[int], int]:
        """Return the pieces of the last snapshot that a copy may lack, and their bytes."""
        has = self._has.get(peer, frozenset())
        numbers = [piece for pieces in self._tables.values() for piece in pieces if piece not in has]
        return numbers, sum(self._sums[number][0] for number in numbers)

    def acknowledged(self, peer: str, snapshot: int) -> None:
        """Record that a copy has a snapshot."""
        named = self._named.get(snapshot)
        if named is not None:
            self._has[peer] = named

    def forget(self, peer: str) -> None:
        """Record that a copy has no pieces any more, or is a new one."""
        self._has.pop(peer, None)

    def missed(self, peer: str, pieces: Iterable[int]) -> None:
        """Record that a copy lacks these pieces, whatever it acknowledged."""
        self._has[peer] = self._has.get(peer, frozenset()).difference(pieces)

    def release(self, peers: Iterable[str]) -> None:
        """Release the bytes of pieces that all these copies have, and all that is known of other copies."""
        self._has = {peer: self._has.get(peer, frozenset()) for peer in peers}
        had = frozenset.intersection(*self._has.values()) if self._has else frozenset(self._pieces)
        self._pieces = {number: piece for number, piece in self._pieces.items() if number not in had}
