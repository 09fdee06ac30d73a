"""A component that executes: its inputs, its output, the order in which it reads, and its snapshots. No IO, no clock.

Theory of operation
-------------------
A component takes chunks from its inputs, hands their items to its operator's logic, and appends what that makes to its
log. Operators keep no positions of a stream: of an output the log's end counts, of an input its merge.

A component with several inputs notes the order in which it reads them, and each chunk carries the order since the
chunk before. A component that takes another's place *replays*: it reads its inputs in the order that is prescribed,
up to the last chunk that anybody depends on, and is *free* from there on.

Its *snapshots* are cuts between two executions. Once all who keep copies have one, it is *stable*: the inputs up to
it will not be asked for again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from synergy_nb.dataflow.packing import coalesce
from synergy_nb.dataflow.streams.deployments import Feed, Place, Role
from synergy_nb.dataflow.streams.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.merge import InOrder
from synergy_nb.dataflow.streams.values import (
    COPY,
    ORIGIN,
    Chunk,
    Determinant,
    Output,
    Point,
    Reader,
    Run,
    chunks_of,
)
from synergy_nb.dataflow.tuples import END, Batch, Item

__all__ = ["Component", "Cut", "Logic", "Outcome", "Work", "copy_of"]


class Logic(Protocol):
    """What works on the items of a component."""

    def take(self, port: int, item: Item, /) -> Iterator[Item]:
        """Take an item on a port, and make its output piece by piece."""

    def snapshot(self) -> bytes:
        """All that a fresh instance needs to go on from here."""

    def restore(self, data: bytes, /) -> None:
        """Go on where the instance that wrote ``data`` was."""


class Outcome(msgspec.Struct):
    """The outcome of one execution.

    Parameters
    ----------
    items
        What was made.
    unfinished
        True if the work has more output to make.
    error
        Exception that the operator raised, or None.
    """

    items: list[Item] = []
    unfinished: bool = False
    error: BaseException | None = None


class Work(NamedTuple):
    """One execution of a component.

    Parameters
    ----------
    component
        Component whose operator works.
    port
        Input at which the chunks came.
    chunks
        Chunks that are taken; none where the output of earlier ones is not complete.
    items
        What the operator is given: batches without a punctuation between them have become one.
    """

    component: Component
    port: int
    chunks: list[Chunk]
    items: list[Item]

    @property
    def rows(self) -> int:
        """Number of tuples that are taken."""
        return sum(chunk.rows for chunk in self.chunks)

    def run(self, most: float = float("inf")) -> Outcome:
        """Execute, in any thread, but never twice at the same time.

        Parameters
        ----------
        most
            Bytes of output from which on the rest is made in another execution.
        """
        return self.component.execute(self, most)


class Cut(NamedTuple):
    """What a snapshot covers: places of each input and of the output, and what the next chunk has to carry."""

    inputs: tuple[Point, ...]
    end: Point
    order: tuple[Run, ...]
    causes: tuple[Determinant, ...]


class Component:
    """An operator's instance that executes, as the active one or as a follower.

    Parameters
    ----------
    application, operator
        Application and operator that it executes.
    peer
        Address of the peer that it is on.
    place
        Where it is and what its inputs read.
    role
        Active or follower.
    logic
        What works on its items; None: a source, which the driver reads.
    limits
        Bytes that its log holds.
    """

    def __init__(
        self,
        application: str,
        operator: str,
        peer: str,
        place: Place,
        role: Role,
        logic: Logic | None,
        limits: Limits = LIMITS,
    ) -> None:
        self.application = application
        self.operator = operator
        self.peer = peer
        self.role = role
        self.epoch = place.epoch + (role is Role.FOLLOWER)
        self.feeds: tuple[Feed, ...] = place.inputs
        self.copies: dict[str, int] = dict.fromkeys(place.copies, -1)  # who keeps one: last snapshot that it has
        self.logic = logic
        self.log = StreamLog(limits=limits)
        self.ports = [InOrder(ORIGIN if feed.application == application else None) for feed in place.inputs]
        self.order: list[Run] = []  # of what was read since the last chunk
        self.causes: list[Determinant] = []  # of what was read since the last chunk
        self.prescribed: deque[Run] = deque()
        self.free = True  # to read its inputs in any order
        self.running = False
        self.failed = ""
        self.expecting = False  # knows its readers
        self.dirty = True  # has changed since its last snapshot
        self.number = -1  # of its last snapshot
        self.stable = ORIGIN  # place in its output that a snapshot on all copies covers
        self.known = ORIGIN  # place in its output up to which it has heard in which order inputs were read
        self._cuts: dict[int, Cut] = {}
        self._steps: Iterator[Item] | None = None  # of work that is unfinished
        self._port = 0  # at which it came

    @property
    def output(self) -> Output:
        """What it makes."""
        return Output(self.application, self.operator, 0, self.epoch)

    @property
    def ordered(self) -> bool:
        """Whether what it makes depends on the order in which it reads its inputs."""
        return len(self.ports) > 1

    @property
    def ended(self) -> bool:
        """Whether the end of its stream has been made."""
        return self.log.end.until == END

    def reader(self, port: int) -> Reader:
        """What it is as a reader."""
        return Reader(self.application, self.operator, port, self.peer, self.epoch)

    def begin(self, cut: Cut) -> None:
        """Begin at a cut, where the log has to end."""
        for port, since in zip(self.ports, cut.inputs, strict=True):
            port.received = port.consumed = since
            port.joined = True
        self.known = cut.end
        self.order, self.causes = list(cut.order), list(cut.causes)

    # -- execution -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether it may execute something now."""
        if self.running or self.failed or self.logic is None or self.log.blocked:
            return False
        if self._steps is not None:
            return True
        run = self._next_run()
        if run is not None:
            return self.ports[run.port].received.position >= run.upto.position
        return self.free and any(port.queue for port in self.ports)

    def _next_run(self) -> Run | None:
        """The next part of the prescribed order that has not been read yet."""
        while self.prescribed:
            run = self.prescribed[0]
            if not self.ports[run.port].consumed.covers(run.upto):
                return run
            self.prescribed.popleft()
        return None

    @property
    def waits_since(self) -> int:
        """Number of the arrival that is to be executed next."""
        return min((port.queue[0].sequence for port in self.ports if port.queue), default=0)

    def take(self, together: int) -> Work:
        """Take what it executes next; only if it is ready.

        Parameters
        ----------
        together
            Tuples of consecutive chunks that may be executed together; 0: one chunk at a time.
        """
        self.running = True
        if self._steps is not None:
            return Work(self, self._port, [], [])
        run = self._next_run()
        if run is not None:
            self._port = run.port
            chunks = self.ports[run.port].take_out(run.upto, 0)
        else:
            waiting = [(port.queue[0].sequence, number) for number, port in enumerate(self.ports) if port.queue]
            self._port = min(waiting)[1]
            chunks = self.ports[self._port].take_out(None, together)
        items = coalesce([chunk.item for chunk in chunks])
        return Work(self, self._port, chunks, items)

    def execute(self, work: Work, most: float) -> Outcome:
        """Run the logic on what was taken, see :meth:`Work.run`."""
        outcome = Outcome([])
        size = 0
        try:
            steps = self._steps if self._steps is not None else self._all_of(work)
            self._steps = None
            for made in steps:
                outcome.items.append(made)
                size += made.nbytes if isinstance(made, Batch) else 0
                if size >= most:
                    self._steps, outcome.unfinished = steps, True
                    break
        except Exception as error:  # noqa: BLE001 - an operator may raise what it likes: only its application may suffer
            outcome.error = error
        return outcome

    def _all_of(self, work: Work) -> Iterator[Item]:
        for item in work.items:
            if self.logic is not None:
                yield from self.logic.take(work.port, item)

    def finished(self, work: Work, outcome: Outcome) -> None:
        """Work has been executed: note what was read, and append what was made."""
        self.running = False
        port = self.ports[work.port]
        if work.chunks:
            self._note(work, port.consumed)
            port.consume(work.chunks)
            for chunk in work.chunks:
                self.causes += chunk.determinants
        self.dirty = True
        self.produce(outcome.items)
        if not self.copies:
            for each in self.ports:
                each.durable = each.consumed

    def _note(self, work: Work, place: Point) -> None:
        if not self.ordered:
            return
        for item in work.items:
            here = Point(item.end_position, place.until) if isinstance(item, Batch) else Point(item.position, item.time)
            place = place.joined(here)
            last = self.order[-1] if self.order else None
            if last is not None and last.port == work.port and last.upto.until == place.until:
                self.order[-1] = Run(work.port, place)
            else:
                self.order.append(Run(work.port, place))

    def produce(self, items: Iterable[Item]) -> None:
        """Append what was made to the log, with the order of inputs that made it."""
        chunks = chunks_of(items, self.log.end)
        keep = self.ordered and bool(self.copies or self.role is Role.FOLLOWER)
        for chunk in chunks:
            own: tuple[Determinant, ...] = ()
            if keep:
                own = (Determinant(self.output.stream, chunk.start, chunk.end, tuple(self.order), self.stable),)
            chunk.determinants = (*self.causes, *own)
            self.order, self.causes = [], []
        self.log.append(chunks)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def capture(self) -> Callable[[], bytes]:
        """Begin a snapshot; what is given back makes its bytes, before anything else is executed."""
        self.running = True
        self.dirty = False
        self.number += 1
        self._cuts[self.number] = Cut(
            tuple(port.consumed for port in self.ports), self.log.end, tuple(self.order), tuple(self.causes)
        )
        return self.logic.snapshot if self.logic is not None else bytes

    def cut(self, number: int) -> Cut:
        """What a snapshot covers."""
        return self._cuts[number]

    @property
    def capturable(self) -> bool:
        """Whether a snapshot can be made now, and would tell anything new."""
        return self.dirty and not self.running and not self.failed and self._steps is None and bool(self.copies)

    def copied(self, peer: str, number: int) -> bool:
        """A peer has a snapshot; True if inputs need no longer be kept up to some place."""
        if number <= self.copies.get(peer, number):
            return False
        self.copies[peer] = number
        return self._settle()

    def keep_copies(self, peers: Iterable[str]) -> None:
        """These peers keep copies from now on."""
        self.copies = {peer: self.copies.get(peer, -1) for peer in peers}
        self.dirty = True
        self._settle()

    def _settle(self) -> bool:
        if not self.copies:
            for port in self.ports:
                port.durable = port.consumed
            return True
        number = min(self.copies.values())
        cut = self._cuts.get(number)
        if cut is None:
            return False
        self.stable = max(self.stable, cut.end)
        for port, place in zip(self.ports, cut.inputs, strict=True):
            port.durable = max(port.durable, place)
        for old in [old for old in self._cuts if old < number]:
            del self._cuts[old]
        return True

    # -- replay --------------------------------------------------------------------------------------------------

    def prescribe(self, found: Iterable[Determinant]) -> str:
        """Read inputs in the order of these determinants, and freely from there on; gives what is not known, or ''."""
        for each in sorted(found, key=lambda one: (one.end, one.start)):
            if each.end < self.known or (each.end == self.known and each.start < each.end):
                continue
            if each.start.position > self.known.position:
                return f"the order of inputs from position {self.known.position} to {each.start.position} is not known"
            self.prescribed.extend(each.runs)
            self.known = each.end
        return ""


def copy_of(application: str, operator: str, peer: str) -> Reader:
    """What the copy of a component is as a reader."""
    return Reader(application, operator, COPY, peer)
