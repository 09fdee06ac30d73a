"""The log of one output, and the cursors of its readers. No IO, no clock.

Theory of operation
-------------------
A :class:`StreamLog` retains the chunks of an output that some reader may still need. Each reader has a
:class:`Cursor`: the points up to which chunks were *sent* to it, and up to which it has *received* and *consumed*
them, and the point up to which its state is *durable*, so that it will not request chunks again even if its peer
dies. The log is trimmed to the least durable point of all readers that it waits for. A reader whose only copy is a
durable folder requests nothing again that it has executed, as whoever goes on from the folder does so with all
components. What the folder may let go of the output is another point then, up to which the readers are *saved* there.

Credit is derived: a cursor's window less the bytes between what was consumed and what was sent. After a broken link,
``sent := received``, and a reader that subscribes again names its own point; so no credit can leak.

The component that makes the output may execute unless a reader that it waits for has used up its window
(:attr:`StreamLog.blocked`). If it is *synchronized*, no reader is sent a chunk before all of its backups have confirmed
that they have it, with the order of inputs that it carries (:meth:`StreamLog.confirmed`).

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

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.dataflow.streams.log.values import (
    CLIENT,
    COPY,
    ORIGIN,
    Chunk,
    Encoding,
    OnLag,
    Point,
    Reader,
    SourcePlace,
    chunks_of,
)
from synergy_nb.dataflow.tuples import Punctuation
from synergy_nb.errors import SynergyError
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable

__all__ = [
    "CURSOR_FOLLOWS",
    "EXPECTED",
    "LIMITS",
    "LOST",
    "RESEND_MOST_S",
    "RESEND_S",
    "UNASKED",
    "Cursor",
    "CursorState",
    "Limits",
    "LogTrimmed",
    "StreamLog",
    "chunks_of",
]


class Limits(NamedTuple):
    """Limits of a log."""

    window: int = 4 << 20  # bytes that may be sent to a reader before it has consumed them
    # bytes of chunks that are retained for readers whose state is not durable yet; a sharer that needs more fails
    retain: int = 16 << 20
    # bytes of results that a sink retains for its readers; a quarter of them may be results that all have read
    results: int = 64 << 20
    # bytes of a piece of a snapshot. The head of the snapshot may enclose a sixteenth of that without a request
    piece: int = 1 << 20


LIMITS: Final = Limits()
RESEND_S: Final = 0.5  # seconds until unacknowledged chunks are sent again for the first time
RESEND_MOST_S: Final = 16.0  # longest time between two later retransmissions, seconds


class LogTrimmed(SynergyError, LookupError):
    """A reader requests chunks that the log no longer retains."""


class CursorState(StrEnum):
    """What the producer knows of a reader."""

    EXPECTED = "expected"  #: A deployment names it: chunks are retained for it, and nothing is sent before it asks.
    UNASKED = "unasked"  #: It is sent chunks although it has not asked, which saves a round trip in a move.
    SUBSCRIBED = "subscribed"  #: It has asked.
    LOST = "lost"  #: It gets nothing more, and nothing is retained for it; it is removed once it confirms that.


EXPECTED: Final = CursorState.EXPECTED
UNASKED: Final = CursorState.UNASKED
SUBSCRIBED: Final = CursorState.SUBSCRIBED
LOST: Final = CursorState.LOST

#: State of a cursor to the states that may follow it. Nobody comes back from being lost: what was retained is gone.
CURSOR_FOLLOWS: Final[StateTable[CursorState]] = {
    EXPECTED: frozenset({UNASKED, SUBSCRIBED, LOST}),
    UNASKED: frozenset({SUBSCRIBED, LOST}),
    SUBSCRIBED: frozenset({LOST}),
    LOST: frozenset(),
}


class Cursor:
    """A reader of an output, with its progress.

    ``sent``, ``received``, ``consumed``, ``durable``: points up to which chunks were sent to it, it has them, has
    executed them, and will not need them again; ``patience``: seconds until unacknowledged chunks are sent again: three
    times the usual time of an acknowledgement; ``unacknowledged_since``: time in seconds since which sent chunks have
    not been acknowledged.
    """

    __slots__ = (
        "confirmed", "consumed", "durable", "group", "on_lag", "patience", "progressed_at", "reader",
        "received", "resend_at", "saved", "sent", "state", "trimmed", "unacknowledged_since", "window",
    )  # fmt: skip

    def __init__(
        self,
        reader: Reader,  # component or client that reads
        since: Point,  # point from which it reads
        on_lag: OnLag = OnLag.BLOCK,  # policy for a reader that falls behind
        window: int = LIMITS.window,  # bytes that may be sent to it before it has consumed them
        # operator and port of which the reader is one of several active replicas; empty for every other reader
        group: tuple[str, int] = ("", 0),
    ) -> None:
        self.reader = reader
        self.group = group
        self.progressed_at = 0.0  # time in seconds at which it had executed more than before; 0 before the first time
        self.on_lag = on_lag
        self.window = window
        self.sent = self.received = self.consumed = self.durable = since
        # point up to which it has said itself that it has everything; the others are set by subscriptions, too
        self.confirmed = ORIGIN
        # point up to which it has said that copies cover what it has read: never set by what others expect of it
        self.saved = ORIGIN
        self.trimmed = ORIGIN  # point before which no reader needs the output, as the durable folder was told last
        self.state = EXPECTED  # whether it has asked for chunks, and whether it gets any
        self.patience = self.unacknowledged_since = 0.0
        self.resend_at: float | None = None  # time in seconds at which unacknowledged chunks are sent again, or None

    def _become(self, state: CursorState) -> None:
        if state is not self.state:
            state_tables.check(f"cursor of {self.reader}", CURSOR_FOLLOWS, self.state, state)
            self.state = state

    def collect(self, most: int) -> None:
        """Let a client collect results, of which at most so many bytes wait for it."""
        self.window = most
        self._become(SUBSCRIBED)

    def begin_unasked(self, start: Point) -> None:
        """Send to the reader from a point on before it has subscribed."""
        self.send_unasked()
        self.sent = self.received = self.consumed = start

    def send_unasked(self) -> None:
        """Send to the reader although it has not subscribed yet, from where it is expected to begin."""
        self._become(UNASKED)

    def subscribe(self, since: Point, start: Point) -> None:
        """Send to the reader from a point on, as it asks for that; unless it is lost, of which it has not heard yet.

        ``since``: point up to which it has everything; ``start``: where it is told to begin, which may be later. It has
        received that only once it says so, as the answer that tells it may be lost.

        Of a component that reads, only the first request says what it has executed; later ones may be old.
        """
        known = self.state is not EXPECTED
        if not known or self.reader.port == COPY:
            self.patience = self.patience if known else 0.0
            self.consumed = since
        self.sent, self.received = start, since
        self.resend_at = None
        if self.state is not LOST:
            self._become(SUBSCRIBED)

    def skip_to(self, start: Point) -> None:
        """Go on at a later point, as what is before it is not retained any more."""
        self.sent = start

    def lose(self) -> None:
        """Send nothing more to the reader, and retain nothing for it; it is removed once it confirms that."""
        self._become(LOST)

    # -- its answers -----------------------------------------------------------------------------------------------

    def await_answer(self, now: float) -> None:
        """Begin to wait for an acknowledgement."""
        self.unacknowledged_since = now
        self.resend_at = now + max(self.patience, RESEND_S)

    def stalls(self, now: float) -> None:
        """Note that others wait for the reader, if it has not executed anything yet."""
        self.progressed_at = self.progressed_at or now

    def progressed(self, received: Point, consumed: Point, now: float) -> None:
        """Measure how fast the reader is, before its progress is recorded."""
        if received > self.received:
            self.patience = min(3.0 * (now - self.unacknowledged_since), RESEND_MOST_S)
        if consumed > self.consumed:
            self.progressed_at = now

    def timed_out(self) -> None:
        """Note that no acknowledgement came in time."""
        self.resend_at = None

    def back_off(self) -> None:
        """Wait twice as long for the next acknowledgement."""
        self.patience = min(2.0 * max(self.patience, RESEND_S), RESEND_MOST_S)

    def send_again(self) -> None:
        """Send again what has not been acknowledged, and wait longer for that."""
        self.sent = self.received
        self.back_off()

    def remind(self, now: float) -> None:
        """Tell the reader again after a while that it gets nothing more, unless it confirms that."""
        self.resend_at = now + RESEND_S

    def hear_trimmed(self, trimmed: Point) -> None:
        """Note that the reader is told before which point no reader needs the output."""
        self.trimmed = trimmed

    def link_broken(self, now: float) -> None:
        """Send again what was on its way over a link that broke."""
        self.sent = min(self.sent, self.received)
        self.resend_at, self.patience = now + RESEND_S, RESEND_S

    def __repr__(self) -> str:
        return (
            f"Cursor({self.reader}, {self.on_lag.name}, sent {self.sent.position}, consumed {self.consumed.position})"
        )


class StreamLog:
    """The retained chunks of one output, and its readers.

    ``start``, ``end``: point at which the first retained chunk begins, and point after the last one.
    """

    def __init__(self, start: Point = ORIGIN, limits: Limits = LIMITS, *, retains_all: bool = False) -> None:
        self.cursors: dict[Reader, Cursor] = {}
        self.collected = False  # whether a client has ever read it
        # whether everything is retained until `trim` is called: in a copy, which does not know the readers
        self.retains_all = retains_all
        self._limits = limits  # limits beyond which it is blocked, bytes, apart from the output of one execution
        self.little = min(limits.window // 2, limits.retain // 2)
        self._least = ORIGIN  # in a copy: point before which nobody needs anything
        self.place: SourcePlace | None = None  # last place of the source that makes the output; None: none is known
        self.start = self.end = start
        # size, little: bytes of all retained chunks, and those up to which no reader can be far behind: then it is not
        # blocked
        self.size = 0
        self._chunks: list[Chunk] = []
        self._ends: list[Point] = []
        self._sizes: list[int] = []  # bytes from the beginning of time up to the end of each chunk
        self._trimmed = 0  # bytes before the first retained chunk

    # -- chunks --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._chunks)

    def append(self, chunks: Iterable[Chunk]) -> None:
        """Append chunks, of which the first begins where the log ends.

        Raises ``ValueError`` if a chunk begins elsewhere.
        """
        end, total = self.end, self._trimmed + self.size
        for chunk in chunks:
            if chunk.start != end:
                raise ValueError(f"chunk at {chunk.start}; expected {end}")
            end = chunk.end
            total += chunk.size
            if chunk.place is not None:
                self.place = chunk.place
            self._chunks.append(chunk)
            self._ends.append(end)
            self._sizes.append(total)
        self.end, self.size = end, total - self._trimmed
        for cursor in self.cursors.values():
            if cursor.on_lag is not OnLag.RESYNC and cursor.state is not LOST:
                return  # it needs what is new, and nobody needs less than before
        self.trim()

    def chunks(self, since: Point) -> list[Chunk]:
        """Return all retained chunks that end after a point."""
        return self._chunks[self._after(since) :]

    def know_place(self, place: SourcePlace) -> None:
        """Note where the source that makes the output was, unless a later place is known."""
        if self.place is None or self.place.position <= place.position <= self.end.position:
            self.place = place

    def _forget_later_place(self) -> None:
        if self.place is not None and self.place.position > self.end.position:
            self.place = None

    def next_point(self, point: Point) -> Point:
        """Return the start of the first chunk that begins at or after a point, or the end."""
        index = self._after(point)
        return self._chunks[index].start if index < len(self._chunks) else self.end

    def restart(self, start: Point) -> None:
        """Drop all chunks, and begin at another point."""
        self._chunks, self._ends, self._sizes = [], [], []
        self._trimmed = self.size = 0
        self.start = self.end = start
        self._forget_later_place()

    def cut(self, end: Point) -> None:
        """End the log at a point, which it may not have reached: drop what is after it, but no promise before it."""
        while self._chunks and self.end.position > end.position:
            chunk = self._chunks.pop()
            del self._ends[-1], self._sizes[-1]
            self.end = self._ends[-1] if self._ends else self.start
            self.size = self._sizes[-1] - self._trimmed if self._sizes else 0
            if chunk.start.position < end.position:
                self.append([chunk.before(end.position)])
        self._forget_later_place()
        if self.end.position != end.position:
            self.restart(end)
        elif self.end.until < end.until:
            self.append(chunks_of([Punctuation(end.until, end.position, 0.0)], self.end))

    def _after(self, point: Point) -> int:
        """Return the index of the first retained chunk that ends after a point."""
        return bisect_right(self._ends, point)

    def _offset(self, point: Point) -> int:
        """Return the bytes from the start of the stream up to a point."""
        index = self._after(point)
        return self._sizes[index - 1] if index else self._trimmed

    def _executed(self, cursor: Cursor) -> int:
        """Return the bytes from the start of the stream up to what a reader has executed.

        A prescribed order may withhold a promise until tuples after it have arrived. In that case the tuples executed
        since that promise count; otherwise the window might have no room for the tuples that it waits for.
        """
        index = bisect_right(self._ends, cursor.consumed)
        if index < len(self._chunks):
            chunk = self._chunks[index]
            index += bool(chunk.rows) and chunk.end.position <= cursor.consumed.position
        return self._sizes[index - 1] if index else self._trimmed

    def between(self, start: Point, end: Point) -> int:
        """Return the bytes of the retained chunks between two points."""
        return max(self._offset(end) - self._offset(start), 0)

    def behind(self, point: Point, size: int) -> Point:
        """Return the earliest retained point with at most ``size`` bytes of chunks from there to a point."""
        offset = self._offset(point) - size
        return self.start if offset <= self._trimmed else self._ends[bisect_left(self._sizes, offset)]

    # -- readers -------------------------------------------------------------------------------------------------

    def encoding(self, peer: str, near: Callable[[str], bool]) -> Encoding:
        """Return the form in which readers need the chunks.

        ``peer``: address of the peer of the log; ``near``: predicate that decides whether a peer shares memory with it.
        """
        found = Encoding.NONE
        for reader in self.cursors:
            if reader.peer == FOLDER:
                continue  # it encodes by itself what is written
            if reader.port == CLIENT or (reader.peer != peer and not near(reader.peer)):
                return Encoding.WIRE
            if reader.peer != peer:
                found = Encoding.SHARED
        return found

    def retain_all(self, *, retains: bool) -> None:
        """Retain everything from now on, as a copy does; or only what the readers need."""
        self.retains_all = retains

    def forget_readers(self) -> None:
        """Retain nothing for readers any more, as the log becomes that of a copy."""
        self.cursors.clear()

    def send_unasked(self) -> None:
        """Send all that is retained to the expected readers, before these have subscribed, as they still have to."""
        for cursor in self.cursors.values():
            if cursor.on_lag in (OnLag.BLOCK, OnLag.FAIL) and cursor.state is EXPECTED:
                cursor.send_unasked()

    def expect(
        self,
        reader: Reader,
        since: Point | None = None,  # point from which it may read; None: where the log begins
        on_lag: OnLag = OnLag.BLOCK,  # policy for the reader if it falls behind
        group: tuple[str, int] = ("", 0),  # operator and port of which it is one of several active replicas
    ) -> Cursor:
        """Expect a reader: retain chunks for it from a point on, or from where the reader is that it replaces."""
        cursor = self.cursors.get(reader)
        self.collected = self.collected or reader.port == CLIENT
        if cursor is None:
            since = self.start if since is None else since
            cursor = self.cursors[reader] = Cursor(reader, since, on_lag, self._limits.window)
        cursor.on_lag, cursor.group = on_lag, group
        replaced = [old for old in self.cursors.values() if reader.replaces(old.reader)]
        kept = [old for old in replaced if old.on_lag is not OnLag.RESYNC] or replaced  # followers retain nothing
        if kept:
            least = min(old.durable for old in kept)
            if cursor.state is not EXPECTED:  # a follower: it read beside the one that it replaces
                cursor.durable = min(cursor.durable, least)
            else:
                cursor.sent = cursor.received = cursor.consumed = cursor.durable = least
        for old in replaced:
            del self.cursors[old.reader]
        return cursor

    def subscribe(self, reader: Reader, since: Point | None, on_lag: OnLag = OnLag.BLOCK) -> Cursor:
        """Subscribe a reader to all chunks from a point on, for the first time or again.

        ``since``: point from which it reads. None: a copy begins where the log begins, any other reader where it was
        expected to begin, or else where the log ends.

        Raises ``LogTrimmed`` if the log begins after that point. A copy that has read before resumes where the log
        begins instead.
        """
        cursor = self.cursors.get(reader)
        if since is None and cursor is not None and reader.port != COPY:
            since = cursor.durable
        elif since is None:
            since = self.start if reader.port == COPY else self.end
        elif cursor is not None and cursor.state is not EXPECTED and reader.port != COPY:
            # An old request is one of before what is durable: the reader has read on since then. Any other may be that
            # of a component that was created anew at the same peer, as a follower often is, which has read nothing.
            old = cursor.on_lag is not OnLag.RESYNC and since < cursor.durable
            since = cursor.received if old else since
            if since.position < self.start.position:
                since = self.start
        if since.position < self.start.position and reader.port != COPY:
            kept = self.start.position
            raise LogTrimmed(
                f"tuples from position {since.position} on are requested; those from {kept} on are retained"
            )
        if cursor is None:
            cursor = self.cursors[reader] = Cursor(reader, since, on_lag, self._limits.window)
        cursor.subscribe(since, max(since, self.start))
        return cursor

    def unsubscribe(self, reader: Reader) -> bool:
        """Remove a reader; False if there is none."""
        found = self.cursors.pop(reader, None) is not None
        self.trim()
        return found

    def acknowledge(
        self,
        reader: Reader,
        received: Point,
        consumed: Point,
        durable: Point,
        *,
        now: float | None = None,
        saved: Point | None = None,
    ) -> bool:
        """Record a reader's progress, ignoring older points. False if there is no such reader, or it has failed.

        ``received``, ``consumed``, ``durable``: points up to which it has chunks, has executed them, and will not need
        them again; ``now``: time in seconds, if the answer tells how fast the reader is; ``saved``: point up to which
        copies cover what it has read; None: ``durable``.
        """
        cursor = self.cursors.get(reader)
        if cursor is None or cursor.state is LOST:
            return False
        if now is not None:
            cursor.progressed(received, consumed, now)
        if received > cursor.received:
            cursor.received = received
            cursor.resend_at = None
        cursor.sent = max(cursor.sent, cursor.received)
        cursor.confirmed = max(cursor.confirmed, received)
        cursor.consumed = max(cursor.consumed, consumed)
        cursor.durable = max(cursor.durable, durable)
        cursor.saved = max(cursor.saved, durable if saved is None else saved)
        self.trim()
        return True

    @property
    def saved(self) -> Point:
        """Point before which no reader needs the output, also if all go on from what copies have of them."""
        readers = (each for each in self.cursors.values() if each.reader.port != COPY and each.state is not LOST)
        return min([self.end, *(each.saved for each in readers if each.on_lag is not OnLag.RESYNC)])

    def confirmed(self, peers: Collection[str]) -> Point:
        """Return the point up to which this log and the copies at all of these peers have had the output.

        After a take-over copies may be ahead of the log.
        """
        copies = (each for each in self.cursors.values() if each.reader.port == COPY and each.reader.peer in peers)
        return min([self.end, *(each.confirmed for each in copies)])

    def copied(self, behind: Collection[str] = ()) -> Point:
        """Return the same for all copies but those ``behind``, for which nobody waits."""
        return self.confirmed({each.peer for each in self.cursors if each.port == COPY}.difference(behind))

    def due(self, cursor: Cursor, confirming: Collection[str] = ()) -> list[Chunk]:
        """Return the chunks to send to a reader now, and count them as sent.

        A chunk is sent if it fits the window, and if the copies at the peers ``confirming`` have it. One of more than
        half a window is sent as soon as half of the window is free, as readers acknowledge in quarters of a window.
        """
        if cursor.state is EXPECTED or cursor.state is LOST:
            return []
        index, last = bisect_right(self._ends, cursor.sent), len(self._chunks)
        if confirming and cursor.reader.port != COPY:
            last = self._after(self.confirmed(confirming))
        if index >= last:
            return []
        chunks = self._chunks
        if self.size <= cursor.window // 2:  # all that is retained fits
            cursor.sent = self._ends[last - 1]
            return chunks[index:last]
        sent = self._sizes[index - 1] if index else self._trimmed
        flying = 0 if cursor.sent == cursor.consumed else max(sent - self._executed(cursor), 0)
        begun = index
        while index < last:
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
        if self.size <= self.little:  # no reader can be far behind
            return False
        if self.retains_all:  # of a follower, which knows no readers: the active one says what to trim
            return self.size >= self._limits.retain
        end = self._offset(self.end)
        paced = False
        ahead = False
        groups: dict[tuple[str, int], bool] = {}  # whether each reader of a group has used up its window
        for cursor in self.cursors.values():
            if cursor.on_lag is OnLag.BLOCK:
                if self.blocks(cursor):
                    return True
                paced = True
            elif cursor.on_lag is OnLag.GROUP and cursor.state is not LOST:
                if self.holds_up(cursor):
                    return True
                groups[cursor.group] = groups.get(cursor.group, True) and self.blocks(cursor)
                paced = True
            elif cursor.on_lag is OnLag.FAIL and cursor.state is not LOST:
                ahead = ahead or end - self._offset(cursor.consumed) <= cursor.window // 2
        if True in groups.values():
            return True
        sharers = any(each.on_lag is OnLag.FAIL and each.state is not LOST for each in self.cursors.values())
        return not paced and sharers and not ahead  # only sharers read: the fastest of them sets the pace

    @property
    def blocking(self) -> list[Cursor]:
        """The readers for which the component that makes the output waits; none if it does not wait."""
        if not self.blocked:
            return []
        alive = [each for each in self.cursors.values() if each.state is not LOST]
        found = [each for each in alive if each.on_lag is OnLag.BLOCK and self.blocks(each)]
        found += [each for each in alive if each.on_lag is OnLag.GROUP and self.blocks(each)]
        return found or [each for each in alive if each.on_lag is OnLag.FAIL]

    def used(self, cursor: Cursor) -> float:
        """Return the share of its window that a reader has used up: what it has not executed, of what it may have."""
        return (self._offset(self.end) - self._executed(cursor)) / max(cursor.window, 1)

    def blocks(self, cursor: Cursor) -> bool:
        """Whether the component has to wait for a reader, whose window is used up or whose state is not durable."""
        end = self._offset(self.end)
        if end - self._executed(cursor) >= cursor.window:
            return True
        return end - self._offset(cursor.durable) >= max(self._limits.retain, cursor.window)

    def holds_up(self, cursor: Cursor) -> bool:
        """Whether an active replica has more chunks to read than are retained."""
        return self._offset(self.end) - self._offset(cursor.durable) >= max(self._limits.retain, cursor.window)

    def give_up(self, cursor: Cursor) -> bool:
        """Retain nothing more for an active replica that reads too slowly, if another one of its group is ahead of it.

        Returns whether it is lost now.
        """
        others = (each for each in self.cursors.values() if each.group == cursor.group and each.state is not LOST)
        if cursor.on_lag is not OnLag.GROUP or all(each.durable <= cursor.durable for each in others):
            return False
        cursor.lose()
        self.trim()
        return True

    def laggards(self) -> list[Cursor]:
        """Return the sharers with more unread bytes than are retained for sharers; each only once, then it is lost."""
        if self.size <= self._limits.retain:  # nobody can be further behind than that
            return []
        end = self._offset(self.end)
        sharers = [each for each in self.cursors.values() if each.on_lag is OnLag.FAIL and each.state is not LOST]
        late = [cursor for cursor in sharers if end - self._offset(cursor.durable) > self._limits.retain]
        for cursor in late:
            cursor.lose()
        if late:
            self.trim()
        return late

    def trim(self, least: Point | None = None) -> None:
        """Drop chunks that no reader needs any more; in a copy, those before ``least``."""
        if self.retains_all:
            least = self._least = max(self._least, ORIGIN if least is None else least)
        elif least is None:
            for cursor in self.cursors.values():
                if cursor.on_lag is not OnLag.RESYNC and cursor.state is not LOST:
                    least = cursor.durable if least is None or cursor.durable < least else least
            least = self.end if least is None else least
        if not self._ends or least < self._ends[0]:
            return
        index = bisect_right(self._ends, least)
        trimmed, self.start = self._sizes[index - 1], self._ends[index - 1]
        self.size -= trimmed - self._trimmed
        self._trimmed = trimmed
        del self._chunks[:index], self._ends[:index], self._sizes[:index]
