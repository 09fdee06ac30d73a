"""The reading end of one input: what has come, what is next, and how far it is. No IO, no clock.

Theory of operation
-------------------
An :class:`InOrder` merge reads one stream, whose producer may change: a later epoch goes on with the same tuples at the
same positions. It expects the place behind what it has. What it had before is cut off, a chunk beyond that is a
*gap*, for which it subscribes again, and once it reads epoch e + 1 it refuses e. A punctuation that is missing is a
gap, too: it may carry an order of inputs that what follows depends on.

Only where the producer says that it begins (:meth:`InOrder.begin`) a promise is taken without its chunk, as the log has
let go of that.

Examples
--------
>>> from synergy_nb.dataflow.streams.values import chunks_of
>>> from synergy_nb.dataflow.tuples import Punctuation
>>> first, second = chunks_of([Punctuation(5, 0, 0.0), Punctuation(9, 0, 0.0)], ORIGIN)
>>> merge = InOrder(ORIGIN)
>>> merge.take(0, second), merge.take(0, first), merge.take(0, second), merge.received.until
(<Taken.GAP: 2>, <Taken.NEW: 1>, <Taken.NEW: 1>, 9)
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from synergy_nb.dataflow.streams.values import ORIGIN, OVERHEAD, Chunk, Determinant, Loss, Point
from synergy_nb.dataflow.tuples import START, Punctuation

__all__ = ["Entry", "InOrder", "Taken"]


class Taken(enum.IntEnum):
    """What became of a chunk that arrived."""

    OLD = 0  #: All of it had been here before.
    NEW = 1  #: At least a part of it was new.
    GAP = 2  #: Something between what is here and the chunk is missing.
    STALE = 3  #: Its producer has been replaced.


class Entry(NamedTuple):
    """A chunk that waits to be executed.

    Parameters
    ----------
    sequence
        Number that grows with the order of arrival, over all inputs.
    arrived
        Time of arrival in seconds.
    chunk
        The chunk, without what had been here before.
    """

    sequence: int
    arrived: float
    chunk: Chunk


class InOrder:
    """What a component reads at one of its inputs.

    Parameters
    ----------
    since
        Place from which it reads. None: where the stream is when it subscribes, as for who joins a stream later.
    epoch
        Epoch of the producer.

    Attributes
    ----------
    received, consumed, durable : Point
        Places up to which chunks have come, have been executed, and are covered by the snapshot that all backups have.
    queue : deque of Entry
        Chunks that wait to be executed.
    queued : int
        Bytes that wait.
    acknowledged : tuple of Point
        Received, consumed and durable as the producer was told last.
    unacknowledged : int
        Bytes that were consumed since then.
    subscribed : bool
        Whether the producer is known to know of this reader.
    """

    __slots__ = (
        "acknowledged", "consumed", "durable", "epoch", "joined", "queue", "queued", "received", "subscribed",
        "unacknowledged",
    )  # fmt: skip

    def __init__(self, since: Point | None = ORIGIN, epoch: int = 0) -> None:
        self.joined = since is not None
        self.received = self.consumed = ORIGIN if since is None else since
        self.durable = ORIGIN
        self.acknowledged = (ORIGIN, ORIGIN, ORIGIN)
        self.unacknowledged = 0
        self.queue: deque[Entry] = deque()
        self.queued = 0
        self.epoch = epoch
        self.subscribed = False

    @property
    def since(self) -> Point | None:
        """Place from which it has to be sent chunks; None if it joins the stream wherever that is."""
        return self.received if self.joined else None

    def begin(self, start: Point, sequence: int = 0, now: float = 0.0) -> bool:
        """The producer says where it is going to begin; False if tuples before that are missing."""
        self.subscribed = True
        if not self.joined:
            self.joined = True
            self.received = self.consumed = Point(start.position, START)
        if start.position > self.received.position:
            self.subscribed = False
            return False
        self._promise(start.until, now, sequence, now)
        return True

    def _promise(self, until: int, born: float, sequence: int, now: float, said: Chunk | None = None) -> bool:
        """Queue a promise if it is new, with what the chunk that said it carries."""
        if until <= self.received.until:
            return False
        position = self.received.position
        item = Punctuation(until, position, born)
        carried = ((), ()) if said is None else (said.determinants, said.losses)
        self._put(Chunk(self.received, Point(position, until), item, OVERHEAD, *carried), sequence, now)
        return True

    def _put(self, chunk: Chunk, sequence: int, now: float) -> None:
        self.queue.append(Entry(sequence, now, chunk))
        self.queued += chunk.size
        self.received = chunk.end

    def take(self, epoch: int, chunk: Chunk, sequence: int = 0, now: float = 0.0) -> Taken:
        """Queue what is new of a chunk.

        Parameters
        ----------
        epoch
            Epoch of the producer that sent it.
        chunk
            Chunk that arrived.
        sequence, now
            Number and time in seconds of the arrival.
        """
        if epoch != self.epoch:
            return Taken.STALE
        if not self.joined or chunk.start > self.received:
            return Taken.GAP
        self.subscribed = True
        promised = self._promise(chunk.start.until, chunk.born, sequence, now)
        if not chunk.rows:
            fresh = self._promise(chunk.end.until, chunk.born, sequence, now, chunk)
            return Taken.NEW if fresh or promised else Taken.OLD
        if chunk.end.position <= self.received.position:
            return Taken.NEW if promised else Taken.OLD
        if chunk.start.position < self.received.position:
            chunk = chunk.since(self.received.position)
        if chunk.start != self.received or chunk.end.until != self.received.until:
            end = Point(chunk.end.position, self.received.until)
            chunk = msgspec.structs.replace(chunk, start=self.received, end=end)
        self._put(chunk, sequence, now)
        return Taken.NEW

    def first(self, together: Callable[[Chunk, int, int], bool] | None) -> list[Chunk]:
        """Take out the first chunk that waits, and those behind it that may be executed together with it.

        Parameters
        ----------
        together
            Whether a chunk may go together with those before it, of which tuples and bytes are given; None: none may.
        """
        taken = [self._pop()]
        rows, size = taken[0].rows, taken[0].size
        while together is not None and self.queue and together(self.queue[0].chunk, rows, size):
            taken.append(self._pop())
            rows, size = rows + taken[-1].rows, size + taken[-1].size
        return taken

    def overdue(self, passed: Callable[[Chunk], bool]) -> list[Chunk]:
        """Take out the first chunk that waits, and those behind it up to the first tuples whose deadline is to come.

        Parameters
        ----------
        passed
            Whether the deadline of a chunk has passed.
        """
        taken = [self._pop()]
        while self.queue and (not self.queue[0].chunk.rows or passed(self.queue[0].chunk)):
            taken.append(self._pop())
        return taken

    def run(self, upto: Point) -> list[Chunk]:
        """Take out the run of a prescribed order that ends at a place, or the tuples of it that have come.

        A run may be longer than a window, so one that has not come as a whole must not wait.
        Tuples behind the place stay, and promises before it are left out, as they were not there when the order was
        made; the promise of the place itself is made, wherever it stands now.
        """
        taken: list[Chunk] = []
        place = self.consumed
        if self.received.position < upto.position:
            upto = Point(self.received.position, place.until)
        born = self.queue[0].chunk.born if self.queue else 0.0
        withheld: Chunk | None = None
        determinants: tuple[Determinant, ...] = ()  # of promises that are left out: what follows depends on them
        losses: tuple[Loss, ...] = ()  # likewise
        while self.queue and place.position < upto.position:
            chunk = self._pop()
            if not chunk.rows:
                withheld = chunk
                determinants += chunk.determinants
                losses = chunk.losses
                continue
            if chunk.end.position > upto.position:
                self._put_back(chunk.since(upto.position))
                chunk = chunk.before(upto.position)
            end = Point(chunk.end.position, place.until)
            taken.append(msgspec.structs.replace(chunk, start=place, end=end))
            place, born = end, chunk.born
        if upto.until > place.until:
            promise = Punctuation(upto.until, upto.position, born)
            taken.append(Chunk(place, Point(upto.position, upto.until), promise, OVERHEAD))
        while self.queue and not self.queue[0].chunk.rows and self.queue[0].chunk.end.until <= upto.until:
            chunk = self._pop()
            determinants += chunk.determinants
            losses = chunk.losses
        if taken and (determinants or losses):
            determinants = taken[-1].determinants + determinants
            taken[-1] = msgspec.structs.replace(taken[-1], determinants=determinants, losses=losses)
        if withheld is not None and withheld.end.until > upto.until:  # it is true, and nobody will say it again
            item = Punctuation(withheld.end.until, upto.position, withheld.born)
            end = Point(upto.position, withheld.end.until)
            self._put_back(Chunk(upto, end, item, withheld.size, losses=withheld.losses))
        return taken

    def overtake(self, upto: Point) -> None:
        """Tuples up to a place have been executed without having waited here: they are cut off wherever they come."""
        if self.queue:
            self.run(upto)
        self.received, self.consumed = self.received.joined(upto), self.consumed.joined(upto)

    def _pop(self) -> Chunk:
        chunk = self.queue.popleft().chunk
        self.queued -= chunk.size
        return chunk

    def _put_back(self, chunk: Chunk) -> None:
        self.queue.appendleft(Entry(0, 0.0, chunk))
        self.queued += chunk.size

    def consume(self, chunks: list[Chunk]) -> None:
        """Chunks have been executed."""
        for chunk in chunks:
            self.consumed = self.consumed.joined(chunk.end)
            self.unacknowledged += chunk.size
