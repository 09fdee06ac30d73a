"""The log of one output, and the cursors of those who read it. No IO, no clock.

Theory of operation
-------------------
A :class:`StreamLog` holds the chunks of an output that somebody may still need. Each reader has a :class:`Cursor`: up
to which place it was *sent* chunks, up to which it has *received* and *consumed* them, and up to which its state is
*durable*, so that it will not ask for them again even if its peer dies. The log is trimmed to the least durable
place of all readers that it waits for.

Credit is derived: a cursor's window less the bytes between what it consumed and what it was sent. A link that broke
is ``sent := received``, and a reader that begins again says from where; nothing can leak.

The component that makes the output may execute if and only if no reader that it waits for is out of its window
(:attr:`StreamLog.blocked`).

Examples
--------
>>> from synergy_nb.dataflow.tuples import Punctuation
>>> log = StreamLog()
>>> reader = Reader("app", "sink", 0, "peer-2")
>>> cursor = log.subscribe(reader, ORIGIN)
>>> log.append(chunks_of([Punctuation(5, 0, 0.0), Punctuation(9, 0, 0.0)], log.end))
>>> [chunk.end.until for chunk in log.due(cursor)], log.due(cursor), len(log)
([5, 9], [], 2)
>>> log.acknowledge(reader, received=log.end, consumed=log.end, durable=log.end)
True
>>> len(log)
0
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from synergy_nb.dataflow.streams.values import COPY, ORIGIN, Chunk, OnLag, Point, Reader, chunks_of
from synergy_nb.dataflow.tuples import Punctuation
from synergy_nb.errors import SynergyError

__all__ = ["LIMITS", "Cursor", "Limits", "LogTrimmed", "StreamLog", "chunks_of"]


class Limits(NamedTuple):
    """How much a log holds.

    Parameters
    ----------
    window
        Bytes that a reader may have been sent without having consumed them.
    retain
        Bytes of chunks that are kept for the sake of readers whose state is not durable yet; a sharer that needs more
        fails.
    results
        Bytes of results that a sink keeps until a client has collected them.
    piece
        Bytes of a piece of a snapshot. A sixteenth of that may come with the snapshot's head, without being asked for.
    """

    window: int = 4 << 20
    retain: int = 16 << 20
    results: int = 64 << 20
    piece: int = 1 << 20


LIMITS: Final = Limits()


class LogTrimmed(SynergyError, LookupError):
    """A reader asks for chunks that the log no longer retains."""


class Cursor:
    """A reader of an output.

    Parameters
    ----------
    reader
        Component or client that reads.
    since
        Place from which it reads.
    on_lag
        Policy for a reader that falls behind.
    window
        Bytes that it may have been sent without having consumed them.

    Attributes
    ----------
    sent, received, consumed, durable : Point
        Places up to which it was sent chunks, has them, has executed them, and will not need them again.
    subscribed : bool
        Whether it has asked for chunks; nothing is sent before.
    patience : float
        Seconds for which what was sent may stay unacknowledged before it is sent once more: three times what was seen.
    unheard_since : float
        Time in seconds since which chunks that were sent have not been acknowledged.
    resend_at : float or None
        Time in seconds at which what it has not received is sent once more, or None.
    """

    __slots__ = (
        "consumed", "durable", "lost", "on_lag", "patience", "reader", "received", "resend_at", "sent", "subscribed",
        "unheard_since", "window",
    )  # fmt: skip

    def __init__(self, reader: Reader, since: Point, on_lag: OnLag = OnLag.BLOCK, window: int = LIMITS.window) -> None:
        self.reader = reader
        self.on_lag = on_lag
        self.window = window
        self.sent = self.received = self.consumed = self.durable = since
        self.subscribed = False
        self.lost = False  # has failed, and is only here until somebody takes notice
        self.patience = self.unheard_since = 0.0
        self.resend_at: float | None = None

    def __repr__(self) -> str:
        return (
            f"Cursor({self.reader}, {self.on_lag.name}, sent {self.sent.position}, consumed {self.consumed.position})"
        )


class StreamLog:
    """Chunks of one output that somebody may still need, and who reads them.

    Parameters
    ----------
    start
        Place at which it begins.
    limits
        Bytes that it holds at most, beside the output of one execution: beyond them, it is blocked.

    Attributes
    ----------
    cursors : dict
        Reader to its cursor.
    held : bool
        Whether all is kept until somebody says otherwise: in a copy, which does not know the readers.
    """

    def __init__(self, start: Point = ORIGIN, limits: Limits = LIMITS) -> None:
        self.cursors: dict[Reader, Cursor] = {}
        self.held = False
        self._limits = limits
        self._little = min(limits.window // 2, limits.retain // 2)
        self._least = ORIGIN  # of a copy: place before which nobody needs anything
        self._start = start
        self._chunks: list[Chunk] = []
        self._ends: list[Point] = []
        self._sizes: list[int] = []  # bytes from the beginning of time up to the end of each chunk
        self._trimmed = 0  # bytes up to the first chunk that is kept

    # -- chunks --------------------------------------------------------------------------------------------------

    @property
    def start(self) -> Point:
        """Place at which the first chunk that is kept begins."""
        return self._start

    @property
    def end(self) -> Point:
        """Place behind the last chunk."""
        return self._ends[-1] if self._ends else self._start

    @property
    def size(self) -> int:
        """Bytes of all chunks that are kept."""
        return self._sizes[-1] - self._trimmed if self._sizes else 0

    def __len__(self) -> int:
        return len(self._chunks)

    def append(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks, of which the first begins where the log ends.

        Raises
        ------
        ValueError
            If a chunk begins elsewhere.
        """
        end = self.end
        total = self._sizes[-1] if self._sizes else self._trimmed
        for chunk in chunks:
            if chunk.start != end:
                raise ValueError(f"chunk at {chunk.start}; expected {end}")
            end = chunk.end
            total += chunk.size
            self._chunks.append(chunk)
            self._ends.append(end)
            self._sizes.append(total)
        self.trim()

    def chunks(self, since: Point) -> list[Chunk]:
        """All chunks that are kept and do not end before a place."""
        return self._chunks[self._after(since) :]

    def next_point(self, place: Point) -> Point:
        """Where the first chunk begins that is not before a place, or the end."""
        index = self._after(place)
        return self._chunks[index].start if index < len(self._chunks) else self.end

    def restart(self, start: Point) -> None:
        """Drop all chunks, and begin at another place."""
        self._chunks, self._ends, self._sizes = [], [], []
        self._trimmed, self._start = 0, start

    def cut(self, end: Point) -> None:
        """End at a place, which the log may not have reached: what is behind it goes, and promises before it stay."""
        while self._chunks and self.end.position > end.position:
            chunk = self._chunks[-1]
            self._drop_last()
            if chunk.start.position < end.position:
                self.append([chunk.before(end.position)])
        if self.end.position != end.position:
            self.restart(end)
        elif self.end.until < end.until:
            self.append(chunks_of([Punctuation(end.until, end.position, 0.0)], self.end))

    def _drop_last(self) -> None:
        del self._chunks[-1], self._ends[-1], self._sizes[-1]

    def _after(self, point: Point) -> int:
        """Index of the first kept chunk that does not end at or before a place."""
        return bisect_right(self._ends, point)

    def _offset(self, point: Point) -> int:
        """Bytes from the beginning of time up to a place."""
        index = self._after(point)
        return self._sizes[index - 1] if index else self._trimmed

    def _executed(self, cursor: Cursor) -> int:
        """Bytes from the beginning of time up to what a reader has executed.

        A prescribed order may withhold a promise until tuples behind it have come. Then the tuples that were executed
        since that promise count, or those that it waits for might find no room in its window.
        """
        index = self._after(cursor.consumed)
        if index < len(self._chunks):
            chunk = self._chunks[index]
            index += bool(chunk.rows) and chunk.end.position <= cursor.consumed.position
        return self._sizes[index - 1] if index else self._trimmed

    def between(self, start: Point, end: Point) -> int:
        """Bytes of the kept chunks between two places."""
        return max(self._offset(end) - self._offset(start), 0)

    # -- readers -------------------------------------------------------------------------------------------------

    def expect(self, reader: Reader, since: Point | None = None, on_lag: OnLag = OnLag.BLOCK) -> Cursor:
        """A reader will come: keep all for it from a place on, or from where the one whose place it takes is.

        Parameters
        ----------
        since
            Place from which it may read; None: where the log begins.
        """
        cursor = self.cursors.get(reader)
        if cursor is None:
            since = self._start if since is None else since
            cursor = self.cursors[reader] = Cursor(reader, since, on_lag, self._limits.window)
        cursor.on_lag = on_lag
        replaced = [old for old in self.cursors.values() if reader.replaces(old.reader)]
        kept = [old for old in replaced if old.on_lag is not OnLag.RESYNC] or replaced  # nothing is kept for followers
        if kept:
            least = min(old.durable for old in kept)
            if cursor.subscribed:  # a follower: it was there beside the one whose place it takes
                cursor.durable = min(cursor.durable, least)
            else:
                cursor.sent = cursor.received = cursor.consumed = cursor.durable = least
        for old in replaced:
            del self.cursors[old.reader]
        return cursor

    def subscribe(self, reader: Reader, since: Point | None, on_lag: OnLag = OnLag.BLOCK) -> Cursor:
        """A reader asks for all chunks from a place on, for the first time or again.

        Parameters
        ----------
        since
            Place from which it reads. None: a copy begins where the log begins, any other reader where it was
            expected, or else where the log ends.

        Raises
        ------
        LogTrimmed
            If the log begins behind that place. A copy that has been here before goes on where the log begins.
        """
        cursor = self.cursors.get(reader)
        if since is None and cursor is not None and reader.port != COPY:
            since = cursor.durable
        elif since is None:
            since = self._start if reader.port == COPY else self.end
        elif cursor is not None and cursor.subscribed and reader.port != COPY:
            # It may be an old question, of who has had that since; a follower may also have been made anew.
            since = max(since, self._start if cursor.on_lag is OnLag.RESYNC else cursor.received, self._start)
        if since < self._start and since.position < self._start.position:
            if reader.port != COPY:
                kept = self._start.position
                raise LogTrimmed(
                    f"tuples from position {since.position} on are asked for; kept are those from {kept} on"
                )
            since = self._start
        if cursor is None:
            cursor = self.cursors[reader] = Cursor(reader, since, on_lag, self._limits.window)
        if not cursor.subscribed or reader.port == COPY:
            cursor.subscribed, cursor.consumed = True, since
        cursor.sent = cursor.received = since
        cursor.resend_at = None
        return cursor

    def unsubscribe(self, reader: Reader) -> bool:
        """Forget a reader; False if there is none."""
        found = self.cursors.pop(reader, None) is not None
        self.trim()
        return found

    def acknowledge(self, reader: Reader, received: Point, consumed: Point, durable: Point) -> bool:
        """A reader says how far it is; places that it said before are old news. False if it is none, or has failed."""
        cursor = self.cursors.get(reader)
        if cursor is None or cursor.lost:
            return False
        if received > cursor.received:
            cursor.received = received
            cursor.resend_at = None
        cursor.sent = max(cursor.sent, cursor.received)
        cursor.consumed = max(cursor.consumed, consumed)
        cursor.durable = max(cursor.durable, durable)
        self.trim()
        return True

    def due(self, cursor: Cursor) -> list[Chunk]:
        """The chunks that are to be sent to a reader now, which counts as done.

        A chunk goes if it fits into the window. One of more than half a window goes as soon as half of it is free, as
        readers acknowledge what they have consumed in quarters of a window.
        """
        if not cursor.subscribed or cursor.lost:
            return []
        index = self._after(cursor.sent)
        if index >= len(self._chunks):
            return []
        chunks = self._chunks
        flying = max(self._offset(cursor.sent) - self._executed(cursor), 0)
        begun = index
        while index < len(chunks):
            size = chunks[index].size
            if flying + size > cursor.window and flying > cursor.window // 2:
                break
            flying += size
            index += 1
        if index > begun:
            cursor.sent = self._ends[index - 1]
        return chunks[begun:index]

    @property
    def blocked(self) -> bool:
        """Whether the component that makes the output has to wait for a reader."""
        if self.size <= self._little:  # nobody can be that far behind
            return False
        if self.held:  # of a follower, which knows no readers: it waits to hear what nobody needs any more
            return self.size >= self._limits.retain
        end = self._offset(self.end)
        paced = False
        ahead = False
        for cursor in self.cursors.values():
            if cursor.on_lag is OnLag.BLOCK:
                if self.blocks(cursor):
                    return True
                paced = True
            elif cursor.on_lag is OnLag.FAIL and not cursor.lost:
                ahead = ahead or end - self._offset(cursor.consumed) <= cursor.window // 2
        sharers = any(cursor.on_lag is OnLag.FAIL and not cursor.lost for cursor in self.cursors.values())
        return not paced and sharers and not ahead  # it goes on for sharers alone: the fastest sets the pace

    def blocks(self, cursor: Cursor) -> bool:
        """Whether the component has to wait for a reader: it is out of its window, or its state is not durable."""
        end = self._offset(self.end)
        if end - self._executed(cursor) >= cursor.window:
            return True
        return end - self._offset(cursor.durable) >= max(self._limits.retain, cursor.window)

    def laggards(self) -> list[Cursor]:
        """Sharers that more bytes wait for than are kept for them; each is named once, and nothing is kept for it."""
        end = self._offset(self.end)
        sharers = [cursor for cursor in self.cursors.values() if cursor.on_lag is OnLag.FAIL and not cursor.lost]
        late = [cursor for cursor in sharers if end - self._offset(cursor.durable) > self._limits.retain]
        for cursor in late:
            cursor.lost = True
        if late:
            self.trim()
        return late

    def trim(self, least: Point | None = None) -> None:
        """Let go of chunks that nobody needs any more; in a copy of those before a place, now and later."""
        if self.held:
            least = self._least = max(self._least, ORIGIN if least is None else least)
        elif least is None:
            waited = [c.durable for c in self.cursors.values() if c.on_lag is not OnLag.RESYNC and not c.lost]
            least = min(waited, default=self.end)
        index = self._after(least)
        if index:
            self._trimmed, self._start = self._sizes[index - 1], self._ends[index - 1]
            del self._chunks[:index], self._ends[:index], self._sizes[:index]
