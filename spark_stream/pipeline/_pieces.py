"""Which files the clean rows get: a file for each day or hour, and the groups of them that one job of Spark writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

PARTITIONS: Final = ("day", "hour")
PIECE_ROWS: Final = 8_000_000  # rows of a day from which on each of its hours has a file of its own
GROUP_ROWS: Final = 16_000_000  # rows after which the next group begins
SLICE_ROWS: Final = 2_000_000  # rows that a process of Spark's sorts at once
GROUP_PIECES: Final = 400  # most files of a group
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of streams have no zone


class Piece(NamedTuple):
    """A file of clean rows."""

    start: int  # hour since 1970 at which it begins; it is also its number
    hours: int  # length: 1, or the 24 of a day
    rows: int

    def path(self, partition: str) -> str:
        """Its path in the folder."""
        at = _EPOCH + dt.timedelta(hours=self.start)
        day = f"day={at.date().isoformat()}"
        if partition == "hour":
            return f"{day}/hour={at.hour:02}/part-00.parquet"
        return f"{day}/part-{at.hour:02}.parquet"


class Group(msgspec.Struct, frozen=True):
    """Files that one job writes."""

    pieces: list[Piece]
    gaps: bool = False  # whether there may be rows between its files which belong to none of them

    def has(self, hours: Iterable[int]) -> bool:
        """Whether some hours since 1970 are in its files."""
        within = {piece.start for piece in self.pieces if piece.hours == 1}
        days = {piece.start for piece in self.pieces if piece.hours > 1}
        return any(hour in within or hour - hour % 24 in days for hour in hours)

    @property
    def bounds(self) -> tuple[int, int]:
        """The hours since 1970 from which on, and before which, its rows are."""
        return self.pieces[0].start, self.pieces[-1].start + self.pieces[-1].hours

    @property
    def rows(self) -> int:
        """Number of its rows, with duplicates."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def divided(self) -> list[int]:
        """The days, by their first hours, of which each hour has a file."""
        return sorted({piece.start - piece.start % 24 for piece in self.pieces if piece.hours == 1})


def groups_of(pieces: Sequence[Piece], *, gaps: bool = False) -> list[Group]:
    """Divide files into groups; ``gaps``: whether they are not all files of the result."""
    return [Group(group, gaps) for group in _grouped(pieces)]


def pieces_of(hours: Mapping[int, int], partition: str, whole: Collection[int] = ()) -> Iterator[Piece]:
    """Divide rows, by their numbers in each hour since 1970, into files, in the order of time.

    ``whole``: days, by their first hours, that have one file however many rows they have.

    Examples
    --------
    >>> [piece.path("day") for piece in pieces_of({0: 5, 3: 1, 24: 2}, "day")]
    ['day=1970-01-01/part-00.parquet', 'day=1970-01-02/part-00.parquet']
    """
    days: dict[int, list[int]] = {}
    for hour in sorted(hours):
        days.setdefault(hour - hour % 24, []).append(hour)
    for day, within in days.items():
        rows = sum(hours[hour] for hour in within)
        if partition == "hour" or (rows > PIECE_ROWS and day not in whole):
            yield from (Piece(hour, 1, hours[hour]) for hour in within)
        else:
            yield Piece(day, 24, rows)


def slices_of(piece: Piece, hours: Mapping[int, int]) -> list[tuple[int, int]] | None:
    """Divide the hours of a file into slices of which the rows fit into memory; None: an hour has too many rows.

    ``hours``: hour since 1970 to number of rows.

    >>> slices_of(Piece(0, 24, 3_000_000), {0: 1_500_000, 5: 1_000_000, 6: 500_000})
    [(0, 5), (5, 24)]
    """
    found, begin, rows = [], piece.start, 0
    end = piece.start + piece.hours
    for hour in range(piece.start, end):
        more = hours.get(hour, 0)
        if more > PIECE_ROWS:
            return None
        if rows and rows + more > SLICE_ROWS:
            found.append((begin, hour))
            begin, rows = hour, 0
        rows += more
    return [*found, (begin, end)]


def _grouped(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    rows = 0
    for piece in pieces:
        if group and (rows + piece.rows > GROUP_ROWS or len(group) == GROUP_PIECES):
            yield group
            group, rows = [], 0
        group.append(piece)
        rows += piece.rows
    if group:
        yield group
