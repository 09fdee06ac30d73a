"""The values that streams consist of: outputs, points, chunks, readers, and orders of inputs.

Theory of operation
-------------------
One component makes an :class:`Output` in one *epoch*. A component that replaces
it, after a death or a move, makes the next epoch of the same :class:`ComponentStream`, with the same tuples at the same
positions up to the last one that a reader has received.

A :class:`Point` is a point in a stream: the number of tuples before it, and the time of the last punctuation before
it. Along a stream points never decrease. Tuples have the same positions in all epochs. Punctuations may have other
positions, as these depend on how tuples were batched; but a promise that was made at a position is valid at each later
one, so a reader applies the promises that it receives and never needs a punctuation again at the same point.

A :class:`Chunk` is one batch or one punctuation with the points where it begins and ends.

A component with several inputs emits in the order in which it reads them, which no other peer can derive. So each of
its chunks carries that order, as a :class:`Determinant` (the term of causal logging, see Clonos [1]_): the
:class:`OrderRun` of each port since the previous chunk. Chunks that are made from such chunks carry these determinants
on, so every peer that depends on an order knows it, and a component that takes over from a snapshot reads its inputs in
the order that others depend on. Determinants that a snapshot covers are dropped (``Determinant.stable``).

.. [1] P. F. Silvestre, M. Fragkoulis, D. Spinellis, A. Katsifodimos. Clonos: Consistent causal recovery for
   highly-available streaming dataflows. SIGMOD 2021.

Examples
--------
>>> Point(10, 5) < Point(10, 7) < Point(11, 7)
True
>>> Output("app", "join", epoch=2).stream
ComponentStream(application='app', operator='join', rebuilt=0)
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
    "CarriedRate",
    "Chunk",
    "ComponentStream",
    "Determinant",
    "Encoding",
    "Loss",
    "OnLag",
    "OrderRun",
    "Output",
    "Point",
    "Reader",
    "SnapshotCut",
    "SourcePlace",
    "chunks_of",
    "encoded",
    "rows_of",
]

OVERHEAD: Final = 64  # bytes of an item beside its table; they make the size of each item positive
COPY: Final = -1  # port of a reader that holds a copy of a stream: a backup or a follower of its component
CLIENT: Final = -2  # port of a reader outside of the peers: the client that collects the results of a sink


class ComponentStream(NamedTuple):
    """The output of a component in all its epochs."""

    application: str
    operator: str
    # epoch in which the component was last rebuilt from the state of another replica, 0 if never: its stream began
    # anew, and what was at a position before is elsewhere now
    rebuilt: int = 0


class Output(NamedTuple):
    """The output of one component in one epoch: the scope in which chunks follow one another."""

    # application, operator: stream that it makes, with `rebuilt`, see `ComponentStream`
    application: str
    operator: str
    epoch: int = 0  # number of earlier components of the operator
    rebuilt: int = 0  # epoch in which the stream began, see `ComponentStream`

    @property
    def stream(self) -> ComponentStream:
        """The stream of the output."""
        return ComponentStream(self.application, self.operator, self.rebuilt)


class Point(NamedTuple):
    """A point in a stream."""

    position: int  # number of tuples before it
    until: int  # event time in µs of the last punctuation before it; `START` before the first

    def joined(self, other: Point) -> Point:
        """Return the point that has the later position and the later promise of two points."""
        return Point(max(self.position, other.position), max(self.until, other.until))

    def covers(self, other: Point) -> bool:
        """Whether all tuples and promises before ``other`` are before this point."""
        return self.position >= other.position and self.until >= other.until


ORIGIN: Final = Point(0, START)


class OrderRun(NamedTuple):
    """A part of an order of inputs: one port is read, or dropped, up to a point."""

    port: int  # number of the input
    # point in its stream. A run ends where another port is read, and after each punctuation
    upto: Point
    dropped: bool = False  # whether the tuples up to that point were dropped because their deadline had passed


class Loss(NamedTuple):
    """The tuples that one component of an application has dropped since the application began."""

    operator: str
    dropped: int  # number of tuples that it has dropped because their deadline had passed
    consumed: int  # number of tuples that it has consumed from its inputs, including those that it dropped
    made: int  # number of tuples that it has made from the others


class CarriedRate(NamedTuple):
    """The input rate of a component, as chunks carry it to the components after it (figure 3.2 of the dissertation)."""

    component: str  # application and operator of the component, as `application/operator`
    rate: float  # tuples that arrived there in a second
    # number of components between it and the one that the chunk comes from, that one included; 0 if it is that one
    hops: int


class SourcePlace(NamedTuple):
    """Where a source was when it had given so many tuples: a successor goes on from there, instead of reading anew."""

    position: int  # number of tuples before it
    reached: int  # greatest event time of the rows before it, in µs; `START` before the first
    mark: bytes  # position of the source itself, in MessagePack, as its connector has stated it


class Determinant(NamedTuple):
    """The order of inputs that made one chunk."""

    stream: ComponentStream
    # start, end: points at which the chunk begins and ends
    start: Point
    end: Point
    runs: tuple[OrderRun, ...]  # parts of the inputs, in the order in which they were read since the previous chunk
    stable: Point  # point in the same stream that a snapshot on all backups covers: no component resumes before it


class OnLag(enum.IntEnum):
    """The policy for a reader that falls behind."""

    BLOCK = 0  #: The component that makes the stream waits for it: a reader of the same application.
    FAIL = 1  #: It alone fails: an application that shares the stream of another one.
    RESYNC = 2  #: It resumes where the log begins, with the next snapshot: a backup or a follower.
    GROUP = 3  #: It alone fails, and the component waits for the fastest of its group: an active replica.


class Encoding(enum.IntEnum):
    """The form in which chunks leave a component."""

    NONE = 0  #: Not encoded: all readers are on the same peer.
    SHARED = 1  #: In memory that the peers of all readers share.
    WIRE = 2  #: Encoded: some reader shares no memory with this peer, or is a client.


class Reader(NamedTuple):
    """A reader of a stream."""

    # application, operator: component that reads; for a copy, the component that makes the stream
    application: str
    operator: str
    port: int  # number of its input, or `COPY` or `CLIENT`
    peer: str  # address of the peer of the reader
    epoch: int = 0  # epoch of the component that reads; 0 for a copy

    def replaces(self, other: Reader) -> bool:
        """Whether this is the same input of the same component as another reader, in a later epoch."""
        return self[:3] == other[:3] and self.epoch > other.epoch


class SnapshotCut(NamedTuple):
    """The points of each input and of the output that a snapshot covers, and what the next chunk has to carry.

    ``inputs`` are by number. ``consumed`` and ``dropped`` count tuples as in :class:`Loss`.
    """

    inputs: dict[int, Point]
    end: Point
    order: tuple[OrderRun, ...]
    causes: tuple[Determinant, ...]
    step: int = -1  # last step of another engine
    read: int = 0  # bytes of inputs before the cut
    consumed: int = 0
    dropped: int = 0


class Chunk(msgspec.Struct, eq=False, gc=False):
    """A piece of an output: one batch of tuples or one punctuation."""

    # start, end: points at which it begins and ends. In an output each chunk begins where the previous one ended
    start: Point
    end: Point
    item: Item
    size: int  # bytes that count against windows and bounds, the same for all readers
    # orders of inputs on which it depends and that no earlier chunk of the output carries; its own is the last
    determinants: tuple[Determinant, ...] = ()
    losses: tuple[Loss, ...] = ()  # cumulative losses of the component that made the chunk and of those upstream
    # input rates of the component that made the chunk and of those upstream, where any of them is new
    rates: tuple[CarriedRate, ...] = ()
    # encoded form of the chunk; it is made once, when the first reader on another peer needs it
    payload: bytes | None = None
    # where the source was that made the chunk, or one before it, no later than at its end; only copies are sent it
    place: SourcePlace | None = None
    # shared memory that peers of this machine read instead of the encoded form; None: they read the encoded form
    region: object = None
    rows: int = 0  # number of tuples; 0 for a punctuation
    born: float = 0.0  # wall-clock time at which the oldest input of the item entered the system, in seconds

    def __post_init__(self) -> None:
        # Attributes rather than properties: a batch is asked for them thirty times on its way.
        self.rows = self.end[0] - self.start[0]
        self.born = self.item.born

    def since(self, position: int) -> Chunk:
        """Return the part of the chunk that begins at a position inside of it."""
        item = self.item
        if not isinstance(item, Batch) or not self.start.position < position < self.end.position:
            return self
        rest = msgspec.structs.replace(item, table=item.table.slice(position - item.position), position=position)
        start = Point(position, self.start.until)
        size = rest.nbytes + OVERHEAD
        return msgspec.structs.replace(self, start=start, item=rest, size=size, payload=None, region=None)

    def unread(self, position: int) -> Chunk | None:
        """Return what of the chunk is new to whoever has all tuples before a position; None if it has all of it.

        A component that was restarted may cut the same tuples into other chunks, and promise more with them.
        """
        return None if self.rows and self.end.position <= position else self.since(position)

    def before(self, position: int) -> Chunk:
        """Return the part of the chunk that ends at a position inside of it."""
        item = self.item
        if not isinstance(item, Batch) or not self.start.position < position < self.end.position:
            return self
        first = msgspec.structs.replace(item, table=item.table.slice(0, position - item.position))
        end, size = Point(position, self.end.until), first.nbytes + OVERHEAD
        place = None if self.place is None or self.place.position > position else self.place
        return msgspec.structs.replace(self, end=end, item=first, size=size, payload=None, place=place, region=None)


def rows_of(chunks: Iterable[Chunk]) -> int:
    """Return the number of tuples of chunks."""
    rows = 0
    for chunk in chunks:
        rows += chunk.rows
    return rows


def encoded(chunk: Chunk) -> None:
    """Encode the tuples of a chunk; a punctuation is sent as its points."""
    if chunk.rows:
        chunk.payload, chunk.region = encode(chunk.item), None


def chunks_of(items: Iterable[Item], start: Point) -> list[Chunk]:
    """Cut consecutive items after a point into chunks; leave out empty batches and promises that are not new.

    Raises ``ValueError`` if a batch does not begin where the one before it ended.
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
