"""The reader of a stream that has its results written to the outside, each once. No clock, no threads.

Theory of operation
-------------------
It is opened at what the outside has (:meth:`SinkReader.open`), and is given the chunks of the stream after that. What
the outside has already is skipped: a stream that is read again from its beginning has the same rows at the same
positions. Rows are committed when they have waited long enough, or are many, or when the stream has ended. After a
writer was unavailable, the reader is opened again, and reads again from the point that the outside states then; so
nobody needs to know whether the commit that has failed was carried out.

Each method but the properties may block, and may raise what the writer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkWriter
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point
from synergy_nb.dataflow.tuples import END, Batch

__all__ = ["MOST_WAITING", "SinkReader", "stated_point"]

#: Bytes of rows that wait for a commit, at most.
MOST_WAITING: Final = 16 << 20


def stated_point(name: str, found: Any) -> Point | None:
    """Return the point that the writer of a destination has stated as it was opened; ``name``: that of the destination.

    Raises ``SinkFailed`` if it is none.

    >>> stated_point("sink", (8, 2)), stated_point("sink", None)
    (Point(position=8, until=2), None)
    """
    if found is None:
        return None
    if not isinstance(found, tuple) or len(found) != 2 or any(type(each) is not int for each in found):
        raise SinkFailed(f"{name}: open: {found!r}; expected the pair of integers that commit was given, or None")
    return Point(*found)


class SinkReader:
    """Has the rows of one stream written."""

    def __init__(
        self,
        writer: SinkWriter,
        name: str,  # name of the destination, for errors
        every: float,  # longest time for which a row waits for a commit, seconds
        most: int = MOST_WAITING,  # bytes of rows that wait for a commit, at most
    ) -> None:
        self.name = name
        self.opened = False
        self.committed = ORIGIN  # point up to which the outside has the stream
        self.read_to = ORIGIN  # point up to which chunks were taken
        self.waiting = 0  # bytes of rows that were written and not committed
        self.repeated = 0  # number of rows that the outside had already when it was opened
        self._writer = writer
        self._every = every
        self._most = most
        self._since: float | None = None  # time at which the oldest of these rows was written, seconds; None: none

    def open(self, start: Point) -> None:
        """Open the destination, at first or again; the stream can be read from ``start`` on.

        Raises ``SinkFailed`` if it lacks rows that the stream does not retain any more.
        """
        found = stated_point(self.name, self._writer.open())
        self.committed = found or (ORIGIN if self._writer.remembers else start)
        self.read_to, self.repeated = start, max(self.committed.position - start.position, 0)
        self.waiting, self._since = 0, None
        if self.committed.position < start.position:
            raise SinkFailed(
                f"{self.name}: it has the first {self.committed.position} rows of the stream, which retains those from "
                f"row {start.position} on; expected a place that all peers of the sink see, and that nobody empties"
            )
        self.opened = True

    def write(self, chunks: Sequence[Chunk], now: float) -> bool:
        """Write the rows of the next chunks, as far as the outside lacks them; return whether more should wait.

        ``now``: time in seconds. Returns False once rows have to be committed before others are written.

        Raises ``SinkFailed`` if the stream has ended before what the outside has.
        """
        for chunk in chunks:
            if self.waiting >= self._most:
                return False
            had, item = self.committed.position, chunk.item
            self.read_to = chunk.end
            if isinstance(item, Batch) and chunk.end.position > had:
                rest = chunk.since(had).item
                assert isinstance(rest, Batch)
                self._writer.write(rest)
                self.waiting += rest.nbytes
                self._since = now if self._since is None else self._since
            elif chunk.end.until == END and chunk.end.position < had:
                raise SinkFailed(
                    f"{self.name}: it has {had} rows of the stream, which has ended after {chunk.end.position}; "
                    "expected a stream whose sources have what they had when it was written"
                )
        return self.waiting < self._most

    @property
    def due(self) -> float | None:
        """Time at which rows have to be committed, in seconds; None if none wait."""
        return None if self._since is None else self._since + self._every

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was taken."""
        return self.read_to.until == END

    @property
    def complete(self) -> bool:
        """Whether the outside has the stream up to its end."""
        return self.ended and self.committed == self.read_to

    def must_commit(self, now: float) -> bool:
        """Whether rows, or the end of the stream, have to be committed now."""
        over = self._since is not None and (self.waiting >= self._most or now >= self._since + self._every)
        return over or (self.ended and not self.complete)

    def commit(self) -> None:
        """Commit all rows that were written, and the point where they end."""
        if self.read_to.position >= self.committed.position:
            self._writer.commit(self.read_to)
            self.committed = self.read_to
        self.waiting, self._since = 0, None

    @property
    def durable(self) -> Point:
        """Point up to which nothing has to be read again."""
        return self.read_to if self._since is None else min(self.committed, self.read_to)

    def close(self) -> None:
        """Let go of the destination."""
        self.opened = False
        self._writer.close()
