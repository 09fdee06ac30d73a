"""What streams are made of: who makes one, a place in it, a piece of it, who reads it.

Theory of operation
-------------------
An :class:`Output` is made by one component in one *epoch*. Whoever takes its place, after a death or a move, makes the
next epoch of the same :class:`Stream`, with the same tuples at the same positions as far as anybody has seen them.

A :class:`Point` is a place in a stream: the number of tuples before it, and the time of the last punctuation before
it. Along a stream points never decrease. Tuples have the same positions in all epochs. Punctuations may stand
elsewhere, as they depend on how tuples came together; but a promise that was made at a position is true at each later
one, so a reader applies what it hears and never needs a punctuation again at the same place.

A :class:`Chunk` is one batch or one punctuation with the points where it begins and ends.

A component with several inputs emits in the order in which it reads them, which no other peer can know. So each of its
chunks carries that order, as a :class:`Determinant` (the term of causal logging, see Clonos [1]_): the :class:`Run` of
each port since the chunk before. Chunks that follow from such chunks carry these determinants on, so everybody
who depends on an order knows it, and whoever takes over from a snapshot reads its inputs in the order that somebody
depends on. Determinants that a snapshot covers are dropped (``Determinant.stable``).

.. [1] P. F. Silvestre, M. Fragkoulis, D. Spinellis, A. Katsifodimos. Clonos: Consistent causal recovery for
   highly-available streaming dataflows. SIGMOD 2021.

Examples
--------
>>> Point(10, 5) < Point(10, 7) < Point(11, 7)
True
>>> Output("app", "join", epoch=2).stream
Stream(application='app', operator='join', replica=0)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from synergy_nb.dataflow.tuples import START, Batch, Item, Punctuation, encode

__all__ = [
    "CLIENT",
    "COPY",
    "ORIGIN",
    "OVERHEAD",
    "Chunk",
    "Cut",
    "Determinant",
    "Loss",
    "OnLag",
    "Output",
    "Point",
    "Reader",
    "Run",
    "Stream",
    "chunks_of",
    "encoded",
]

OVERHEAD: Final = 64  # bytes that an item takes beside its table; keeps the size of an item positive
COPY: Final = (
    -1
)  # port of a reader that keeps a copy of a stream: a backup or a follower of the component that makes it
CLIENT: Final = -2  # port of a reader outside of the peers: whoever collects the results of a sink


class Stream(NamedTuple):
    """What a component makes, whoever executes it.

    Parameters
    ----------
    application, operator
        Application and operator of the component.
    replica
        Number of the replica, where several components make the same stream at the same time.
    """

    application: str
    operator: str
    replica: int = 0


class Output(NamedTuple):
    """What one component makes in one epoch: the scope in which chunks follow one another.

    Parameters
    ----------
    application, operator, replica
        Stream that it makes, see :class:`Stream`.
    epoch
        Number of components that have made the stream before.
    """

    application: str
    operator: str
    replica: int = 0
    epoch: int = 0

    @property
    def stream(self) -> Stream:
        """The stream that it makes."""
        return Stream(self.application, self.operator, self.replica)


class Point(NamedTuple):
    """A place in a stream.

    Parameters
    ----------
    position
        Number of tuples before it.
    until
        Event time in µs of the last punctuation before it; ``START`` before the first.
    """

    position: int
    until: int

    def joined(self, other: Point) -> Point:
        """The place that both tuples and promises of two places have reached."""
        return Point(max(self.position, other.position), max(self.until, other.until))

    def covers(self, other: Point) -> bool:
        """Whether all tuples and promises before ``other`` are before this place."""
        return self.position >= other.position and self.until >= other.until


ORIGIN: Final = Point(0, START)


class Run(NamedTuple):
    """A part of an order of inputs: one port is read up to a place, or what comes up to there is dropped.

    Parameters
    ----------
    port
        Number of the input.
    upto
        Place in its stream. A run ends where another port is read, and behind each punctuation.
    dropped
        Whether the tuples up to that place were dropped, as their deadline had passed.
    """

    port: int
    upto: Point
    dropped: bool = False


class Loss(NamedTuple):
    """What one component of an application has dropped since the application began.

    Parameters
    ----------
    operator
        Operator of the component.
    dropped
        Number of tuples that it has dropped, as their deadline had passed.
    taken
        Number of tuples that it has taken from its inputs, those that it dropped among them.
    made
        Number of tuples that it has made of the others.
    """

    operator: str
    dropped: int
    taken: int
    made: int


class Determinant(NamedTuple):
    """The order of inputs that made one chunk.

    Parameters
    ----------
    stream
        Stream of the chunk.
    start, end
        Places where the chunk begins and ends.
    runs
        Inputs in the order in which they were read since the chunk before.
    stable
        Place in the same stream that a snapshot covers on all backups: nobody goes back behind it.
    """

    stream: Stream
    start: Point
    end: Point
    runs: tuple[Run, ...]
    stable: Point


class OnLag(enum.IntEnum):
    """What happens to a reader that does not keep up."""

    BLOCK = 0  #: The component that makes the stream waits for it, as for each of its consumers.
    FAIL = 1  #: It fails alone: an application that shares the stream of another one.
    RESYNC = 2  #: It goes on where the log begins: a backup or a follower, which the next snapshot helps.


class Reader(NamedTuple):
    """Who reads a stream.

    Parameters
    ----------
    application, operator
        Component that reads; of a copy, the component that makes the stream.
    port
        Number of its input, or :data:`COPY` or :data:`CLIENT`.
    peer
        Address of the peer that it is on.
    epoch
        Epoch of the component that reads; of a copy, 0.
    """

    application: str
    operator: str
    port: int
    peer: str
    epoch: int = 0

    def replaces(self, other: Reader) -> bool:
        """Whether this is the same input of the same component in a later epoch."""
        return self[:3] == other[:3] and self.epoch > other.epoch


class Cut(NamedTuple):
    """What a snapshot covers: places of each input and of the output, and what the next chunk has to carry.

    ``taken`` and ``dropped`` count tuples as in :class:`Loss`.
    """

    inputs: tuple[Point, ...]
    end: Point
    order: tuple[Run, ...]
    causes: tuple[Determinant, ...]
    step: int = -1  # of another engine
    read: int = 0  # bytes of inputs before it
    taken: int = 0
    dropped: int = 0


class Chunk(msgspec.Struct, eq=False, gc=False):
    """A piece of an output: one batch of tuples or one punctuation.

    Parameters
    ----------
    start, end
        Places where it begins and ends. In an output each chunk begins where the one before it ended.
    item
        The batch or the punctuation.
    size
        Bytes that count against windows and bounds, the same for all readers.
    determinants
        Orders of inputs that it depends on and that no earlier chunk of the output carries; its own is the last.
    losses
        Input of the chunk that was dropped, by the component that made the chunk and those before.
    payload
        Encoded form of the chunk; it is made once, when the first reader on another peer needs it.
    kept
        Memory that peers of this machine read instead of the encoded form, as long as this is there; None: they read
        the encoded form.
    """

    start: Point
    end: Point
    item: Item
    size: int
    determinants: tuple[Determinant, ...] = ()
    losses: tuple[Loss, ...] = ()
    payload: bytes | None = None
    kept: object = None

    @property
    def rows(self) -> int:
        """Number of tuples; 0 for a punctuation."""
        return self.end.position - self.start.position

    @property
    def born(self) -> float:
        """Wall-clock time at which the oldest item behind it entered the system, in seconds."""
        return self.item.born

    def since(self, position: int) -> Chunk:
        """The part of it that begins at a position inside of it."""
        item = self.item
        if not isinstance(item, Batch) or not self.start.position < position < self.end.position:
            return self
        rest = msgspec.structs.replace(item, table=item.table.slice(position - item.position), position=position)
        start = Point(position, self.start.until)
        size = rest.nbytes + OVERHEAD
        return msgspec.structs.replace(self, start=start, item=rest, size=size, payload=None, kept=None)

    def before(self, position: int) -> Chunk:
        """The part of it that ends at a position inside of it."""
        item = self.item
        if not isinstance(item, Batch) or not self.start.position < position < self.end.position:
            return self
        first = msgspec.structs.replace(item, table=item.table.slice(0, position - item.position))
        end, size = Point(position, self.end.until), first.nbytes + OVERHEAD
        return msgspec.structs.replace(self, end=end, item=first, size=size, payload=None, kept=None)


def encoded(chunk: Chunk) -> None:
    """Make the encoded form of a chunk."""
    chunk.payload, chunk.kept = encode(chunk.item), None


def chunks_of(items: Iterable[Item], start: Point) -> list[Chunk]:
    """The chunks of consecutive items that follow a place; what promises nothing new, or has no tuples, is left out.

    Raises
    ------
    ValueError
        If a batch does not begin where the one before it ended.
    """
    chunks: list[Chunk] = []
    for item in items:
        if isinstance(item, Punctuation):
            if item.time <= start.until:
                continue
            end, size = Point(start.position, item.time), OVERHEAD
        else:
            if not item.rows:
                continue
            if item.position != start.position:
                raise ValueError(f"batch at position {item.position}; expected {start.position}")
            end, size = Point(item.end_position, start.until), item.nbytes + OVERHEAD
        chunks.append(Chunk(start, end, item, size))
        start = end
    return chunks
