"""The receiving side of one input: its producer, its queue, the next chunk, and its progress. No IO, no clock.

Theory of operation
-------------------
An :class:`InOrder` merge reads one stream, whose producer may change: a later epoch continues with the same tuples at
the same positions. The merge expects the point at which its chunks end. Of a chunk that overlaps these it discards the
known part; a chunk after that point is a *gap*, for which it subscribes again; and once it reads epoch e + 1 it refuses
epoch e. A missing punctuation is a gap, too: it may carry an order of inputs on which later chunks depend.

Only where the producer states where it begins (:meth:`InOrder.begin`) a promise is accepted without its chunk, as the
log has trimmed that chunk.

Examples
--------
>>> from synergy_nb.dataflow.streams.log.values import chunks_of
>>> from synergy_nb.dataflow.tuples import Punctuation
>>> first, second = chunks_of([Punctuation(5, 0, 0.0), Punctuation(9, 0, 0.0)], ORIGIN)
>>> merge = InOrder(ORIGIN)
>>> merge.receive(0, second), merge.receive(0, first), merge.receive(0, second), merge.received.until
(<Receipt.GAP: 2>, <Receipt.NEW: 1>, <Receipt.NEW: 1>, 9)
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from synergy_nb.dataflow.streams.log.values import ORIGIN, OVERHEAD, Chunk, Determinant, Loss, Point
from synergy_nb.dataflow.tuples import START, Punctuation
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable

__all__ = [
    "ASKING",
    "CLOSED",
    "INPUT_FOLLOWS",
    "RETRY_S",
    "SUBSCRIBED",
    "InOrder",
    "InputState",
    "Port",
    "Receipt",
    "WaitingChunk",
]

RETRY_S: Final = 0.05  # seconds between the first two subscriptions, until the producer answers
RETRY_MOST_S: Final = 0.8  # longest time between two later ones, seconds


class Receipt(enum.IntEnum):
    """The result of :meth:`InOrder.receive` for a chunk that arrived."""

    OLD = 0  #: All of it had arrived before.
    NEW = 1  #: At least a part of it was new.
    GAP = 2  #: Chunks between the last one and this one are missing.
    STALE = 3  #: Its producer has been replaced.


class WaitingChunk(NamedTuple):
    """A chunk that waits to be executed."""

    sequence: int  # number that grows with the order of arrival, over all inputs
    arrived: float  # time of arrival in seconds
    chunk: Chunk  # part of the chunk that had not arrived before


class InputState(StrEnum):
    """What an input is to the producer of its stream."""

    ASKING = "asking"  #: It asks for chunks until the producer answers, or waits until it knows a peer to ask.
    SUBSCRIBED = "subscribed"  #: The producer is known to have its subscription.
    CLOSED = "closed"  #: Nothing that arrives counts any more: the producer ended, or the stream was discarded.


ASKING: Final = InputState.ASKING
SUBSCRIBED: Final = InputState.SUBSCRIBED
CLOSED: Final = InputState.CLOSED

#: State of an input to the states that may follow it. A closed one is never opened: its number belongs to one stream.
INPUT_FOLLOWS: Final[StateTable[InputState]] = {
    ASKING: frozenset({SUBSCRIBED, CLOSED}),
    SUBSCRIBED: frozenset({ASKING, CLOSED}),
    CLOSED: frozenset(),
}


class InOrder:
    """The receiving side of one stream: its queue and its progress.

    ``subscribed``: whether the producer has the subscription already; ``received``, ``consumed``, ``durable``: points
    up to which chunks have arrived, have been executed, and are covered by a snapshot on all backups; ``queued``,
    ``queued_rows``: bytes and tuples of the queue.
    """

    __slots__ = (
        "consumed", "durable", "end", "epoch", "joined", "late", "queue", "queued", "queued_rows", "received", "saved",
        "state", "unacknowledged",
    )  # fmt: skip

    def __init__(
        self, since: Point | None = ORIGIN, epoch: int = 0, *, late: bool = False, subscribed: bool = False
    ) -> None:
        self.joined = since is not None
        # whether it is a stream replica that joins while others run: the first promise in its queue is the event time
        # from which it is complete, which is later than all tuples before it
        self.late = late
        self.received = self.consumed = ORIGIN if since is None else since
        self.durable = ORIGIN  # point before which it will request nothing again
        self.saved = ORIGIN  # point up to which snapshots on all copies cover it
        self.unacknowledged = 0  # bytes that were consumed since the last acknowledgement
        self.queue: deque[WaitingChunk] = deque()  # chunks that wait to be executed
        self.queued = self.queued_rows = 0
        self.epoch = epoch  # epoch of the producer
        # whether the producer is known to have this reader's subscription
        self.state = SUBSCRIBED if subscribed else ASKING
        self.end = ORIGIN  # end of the producer's output when it answered the subscription

    def _become(self, state: InputState) -> None:
        if state is not self.state:
            state_tables.check("input", INPUT_FOLLOWS, self.state, state)
            self.state = state

    @property
    def since(self) -> Point | None:
        """Point from which it requests chunks; None if it joins the stream at its present end."""
        return self.received if self.joined else None

    @property
    def beginning(self) -> bool:
        """Whether it joined a stream, but the promise that states from when the stream is complete was not executed.

        It has to come before all tuples: after them it would say that the tuples before it have been in the stream. A
        copy that went on from here would not get it.
        """
        return self.late and self.consumed.until == START and bool(self.queue) and not self.queue[0].chunk.rows

    def begin(
        self,
        start: Point,
        # sequence, now: number and time in seconds of the arrival
        sequence: int = 0,
        now: float = 0.0,
        end: Point = ORIGIN,
        latest: int = START,  # greatest event time before the end, in µs, if the producer is an active replica
        *,
        confirms: bool = True,  # whether that shows that the producer has the subscription
    ) -> bool:
        """Handle the producer's statement where it begins, and where its output ends at present.

        Returns whether it has all tuples before the point where the producer begins.
        """
        self.end = end
        if confirms:
            self._become(SUBSCRIBED)
        if not self.joined:
            self.joined = True
            self.received = self.consumed = Point(start.position, START)
            if self.late and latest > START:
                start = Point(start.position, max(start.until, latest + 1))
        if start.position > self.received.position:
            self._become(ASKING)
            return False
        self._promise(start.until, now, sequence, now)
        return True

    def _promise(self, until: int, born: float, sequence: int, now: float, carrier: Chunk | None = None) -> bool:
        """Queue a promise if it is new, with what the chunk ``carrier`` carries."""
        if until <= self.received.until:
            return False
        position = self.received.position
        item = Punctuation(until, position, born)
        carried = ((), (), ()) if carrier is None else (carrier.determinants, carrier.losses, carrier.rates)
        self._put(Chunk(self.received, Point(position, until), item, OVERHEAD, *carried), sequence, now)
        return True

    def _put(self, chunk: Chunk, sequence: int, now: float) -> None:
        self.queue.append(WaitingChunk(sequence, now, chunk))
        self.queued += chunk.size
        self.queued_rows += chunk.rows
        self.received = chunk.end

    def receive(
        self, epoch: int, chunk: Chunk, sequence: int = 0, now: float = 0.0, *, confirms: bool = True
    ) -> Receipt:
        """Queue the new part of a chunk.

        ``epoch``: epoch of the producer that sent it; ``chunk``: chunk that arrived; ``sequence``, ``now``: number and
        time in seconds of the arrival; ``confirms``: whether the chunk shows that the producer has the subscription.
        """
        if epoch != self.epoch:
            return Receipt.STALE
        if not self.joined or chunk.start > self.received:
            return Receipt.GAP
        if confirms and self.state is not SUBSCRIBED:
            self._become(SUBSCRIBED)
        received, end = self.received, chunk.end
        # usual: what comes next, tuples or a promise
        if chunk.start == received and (end.until == received.until if chunk.rows else end.until > received.until):
            self.queue.append(WaitingChunk(sequence, now, chunk))
            self.queued += chunk.size
            self.queued_rows += chunk.rows
            self.received = end
            return Receipt.NEW
        promised = self._promise(chunk.start.until, chunk.born, sequence, now)
        if not chunk.rows:
            fresh = self._promise(chunk.end.until, chunk.born, sequence, now, chunk)
            return Receipt.NEW if fresh or promised else Receipt.OLD
        if chunk.end.position <= self.received.position:
            return Receipt.NEW if promised else Receipt.OLD
        if chunk.start.position < self.received.position:
            chunk = chunk.since(self.received.position)
        if chunk.start != self.received or chunk.end.until != self.received.until:
            end = Point(chunk.end.position, self.received.until)
            chunk = msgspec.structs.replace(chunk, start=self.received, end=end)
        self._put(chunk, sequence, now)
        return Receipt.NEW

    def first(self, together: Callable[[Chunk, int, int], bool] | None) -> list[Chunk]:
        """Remove the first chunk from the queue, with following ones that may be executed together with it.

        ``together``: predicate that decides whether a chunk may join the preceding ones, whose tuples and bytes are
        passed; None: no chunk is joined.
        """
        alone = self.late and self.beginning  # what is executed together has its promises after its tuples
        removed = [self._pop()]
        if alone or not self.queue:
            return removed
        rows, size = removed[0].rows, removed[0].size
        while together is not None and self.queue and together(self.queue[0].chunk, rows, size):
            removed.append(self._pop())
            rows, size = rows + removed[-1].rows, size + removed[-1].size
        return removed

    def overdue(self, passed: Callable[[Chunk], bool]) -> list[Chunk]:
        """Remove the first chunk from the queue, with all following ones before the first tuples that are in time.

        ``passed``: predicate that decides whether the deadline of a chunk has passed.
        """
        removed = [self._pop()]
        while self.queue and (not self.queue[0].chunk.rows or passed(self.queue[0].chunk)):
            removed.append(self._pop())
        return removed

    def run(self, upto: Point) -> list[Chunk]:
        """Remove the run of a prescribed order that ends at a point, or those of its tuples that have arrived.

        A run may be longer than a window, so one that has not arrived completely must not wait. Tuples after the point
        remain in the queue. Promises before the point are left out, as they had not arrived there when the order was
        made; the promise of the point itself is made, wherever it is in the queue.
        """
        removed: list[Chunk] = []
        point = self.consumed
        if self.received.position < upto.position:
            upto = Point(self.received.position, point.until)
        born = self.queue[0].chunk.born if self.queue else 0.0
        withheld: Chunk | None = None
        determinants: tuple[Determinant, ...] = ()  # of promises that are left out: later chunks depend on them
        losses: tuple[Loss, ...] = ()  # likewise
        while self.queue and point.position < upto.position:
            chunk = self._pop()
            if not chunk.rows:
                withheld = chunk
                determinants += chunk.determinants
                losses = chunk.losses
                continue
            if chunk.end.position > upto.position:
                self._put_back(chunk.since(upto.position))
                chunk = chunk.before(upto.position)
            end = Point(chunk.end.position, point.until)
            removed.append(msgspec.structs.replace(chunk, start=point, end=end))
            point, born = end, chunk.born
        if upto.until > point.until:
            promise = Punctuation(upto.until, upto.position, born)
            removed.append(Chunk(point, Point(upto.position, upto.until), promise, OVERHEAD))
        while self.queue and not self.queue[0].chunk.rows and self.queue[0].chunk.end.until <= upto.until:
            chunk = self._pop()
            determinants += chunk.determinants
            losses = chunk.losses
        if removed and (determinants or losses):
            determinants = removed[-1].determinants + determinants
            removed[-1] = msgspec.structs.replace(removed[-1], determinants=determinants, losses=losses)
        if withheld is not None and withheld.end.until > upto.until:  # it is valid, and nobody will send it again
            item = Punctuation(withheld.end.until, upto.position, withheld.born)
            end = Point(upto.position, withheld.end.until)
            self._put_back(Chunk(upto, end, item, withheld.size, losses=withheld.losses))
        return removed

    def follow(self, epoch: int) -> None:
        """Read the stream of a later epoch; its producer does not have the subscription yet."""
        self.epoch = epoch
        self._become(ASKING)

    def unsubscribed(self) -> None:
        """Note that the producer may not have the subscription any more."""
        self._become(ASKING)

    def cover(self, point: Point | None = None) -> None:
        """Note that copies cover all before a point, so that it is not requested again; None: all that was executed."""
        self.durable = self.consumed if point is None else max(self.durable, point)
        self.saved = self.consumed if point is None else max(self.saved, point)

    def start(self, point: Point | None, *, late: bool = True) -> None:
        """Start at a point; None: where the producer says, if it is one that joins others (``late``) from there on."""
        self.joined, self.late = point is not None, point is None and late
        self.received = self.consumed = ORIGIN if point is None else point

    def clear(self) -> None:
        """Drop what waits to be executed."""
        self.queue.clear()
        self.queued = self.queued_rows = 0

    def overtake(self, upto: Point) -> None:
        """Record that tuples up to a point were executed without waiting here: they are discarded when they arrive."""
        if self.queue:
            self.run(upto)
        if self.received != upto:
            self.received = self.received.joined(upto)
        self.consumed = self.consumed.joined(upto)

    def _pop(self) -> Chunk:
        chunk = self.queue.popleft().chunk
        self.queued -= chunk.size
        self.queued_rows -= chunk.rows
        return chunk

    def _put_back(self, chunk: Chunk) -> None:
        self.queue.appendleft(WaitingChunk(0, 0.0, chunk))
        self.queued += chunk.size
        self.queued_rows += chunk.rows

    def consume(self, chunks: list[Chunk], *, durable: bool = False) -> None:
        """Record that chunks have been executed; and if that is durable, that none will be requested again."""
        position, until = self.consumed
        for chunk in chunks:
            end = chunk.end
            position, until = max(position, end[0]), max(until, end[1])
            self.unacknowledged += chunk.size
        self.consumed = Point(position, until)
        if durable:
            self.durable = self.consumed


class Port(InOrder):
    """One input of a component: a merge, and its subscription at the producer.

    It *asks* the producer's peer, at growing intervals, until that answers; it is *subscribed* until a frame is
    missing, the link breaks or the producer is replaced, and then asks again. While no peer makes the stream, it waits
    for a deployment. Once it is *closed*, nothing that arrives counts any more.

    Examples
    --------
    >>> port = Port()
    >>> port.read_from("a", 1, 5.0), port.asks_at, port.asked(5.0), port.asks_at
    (None, 5.0, None, 5.05)
    >>> port.begin(ORIGIN), port.asks_at, port.missed(6.0), port.asks_at
    (True, None, None, 5.05)
    >>> port.close(), port.ask_again(7.0), port.state
    (None, None, <InputState.CLOSED: 'closed'>)
    """

    __slots__ = ("_wait_s", "ack_at", "acknowledged", "ahead", "former", "older", "peer", "retry_at")

    def __init__(self, since: Point | None = ORIGIN, *, late: bool = False, closed: bool = False) -> None:
        super().__init__(since, late=late)
        self.peer = ""  # address of the peer that makes the stream; empty if that is not known yet
        self.former = ""  # address of the peer that has made it before; empty if there was none
        self.retry_at = 0.0
        self._wait_s = RETRY_S  # between this question and the next
        # time in seconds of the next acknowledgement; None if there is nothing to acknowledge
        self.ack_at: float | None = None
        # points that were acknowledged last: received, consumed, durable and saved
        self.acknowledged = (ORIGIN, ORIGIN, ORIGIN, ORIGIN)
        # epoch whose chunks are accepted, too, as the producer has moved, and chunks of the old peer may be on their
        # way
        self.older: int | None = None
        # version of the deployment by which the peer makes the stream, if that is not known here yet; else 0
        self.ahead = 0
        if closed:
            self.state = CLOSED

    @property
    def asks_at(self) -> float | None:
        """Time in seconds at which it asks again; None if it need not, or knows nobody to ask."""
        return self.retry_at if self.peer and self.state is ASKING else None

    def read_from(self, peer: str, epoch: int, now: float, *, older: bool = False, ahead: int = 0) -> None:
        """Read from the peer that makes the stream from now on.

        ``peer``, ``epoch``: address of the peer, and the epoch of the producer there; ``older``: whether chunks of the
        epoch before may be on their way, and are accepted; ``ahead``: version of the deployment by which that peer
        makes it, if that is not known here yet.
        """
        if older:
            self.older = self.epoch
        if self.peer != peer:
            self.former = self.peer
        self.peer, self.epoch, self.ahead = peer, epoch, ahead
        self.ask_again(now)

    def lose_producer(self) -> None:
        """Ask nobody, as no peer makes the stream any more, or yet."""
        self.peer = ""

    def ask_again(self, at: float) -> None:
        """Subscribe again at a time in seconds; a closed one has nothing to ask for."""
        if self.state is not CLOSED:
            self._become(ASKING)
        self.retry_at, self._wait_s = at, RETRY_S

    def asked(self, now: float) -> None:
        """Record that it has asked; it waits twice as long each time."""
        self.retry_at = now + self._wait_s
        self._wait_s = min(2.0 * self._wait_s, RETRY_MOST_S)

    def answered(self, now: float, ack_at: float, *, gap: bool) -> None:
        """Record that the producer has sent something, of which it acknowledges the receipt.

        ``ack_at``: time at which it acknowledges, unless it does so earlier; ``gap``: whether chunks before that are
        missing.
        """
        self._wait_s = RETRY_S
        if gap:
            self.missed(now)
        if self.ack_at is None:
            self.ack_at = ack_at

    def missed(self, now: float) -> None:
        """Subscribe again, as chunks are missing."""
        self._become(ASKING)
        self.retry_at = min(self.retry_at, now + RETRY_S)

    def acknowledge_at(self, at: float) -> None:
        """Acknowledge at a time in seconds, unless that is done earlier."""
        self.ack_at = at

    def acknowledge(self) -> tuple[Point, Point, Point, Point]:
        """Return the progress, and record that it is acknowledged."""
        self.acknowledged = progress = (self.received, self.consumed, self.durable, self.saved)
        self.unacknowledged, self.ack_at = 0, None
        return progress

    def refuse_older(self) -> None:
        """Accept chunks of the present epoch only."""
        self.older = None

    def close(self) -> None:
        """Read nothing more; what has arrived is still executed."""
        self._become(CLOSED)
