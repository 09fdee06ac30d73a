"""A component that executes: its inputs, its output, the order in which it reads, and its snapshots. No IO, no clock.

Theory of operation
-------------------
A component takes chunks from its inputs, hands their items to its operator's logic, and appends what that makes to its
log. Operators keep no positions of a stream: of an output the log's end counts, of an input its merge.

A component with several inputs notes the order in which it reads them
(:mod:`~synergy_nb.dataflow.streams.reading_order`), and each chunk carries the order since the chunk before. A
component that takes another's place *replays*: it reads its inputs in the order that is prescribed, up to the last
chunk that anybody depends on, and is *free* from there on.

Its *snapshots* are cuts between two executions. Once all who keep copies have one, it is *stable*: the inputs up to
it will not be asked for again.

A component that another engine executes (:class:`~synergy_nb.dataflow.streams.execution.Engine`) hands its inputs to
that, and needs them until the engine has committed them. Its snapshots say how far the engine is, and hold no state.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, cast

from synergy_nb.dataflow.chunking import coalesce
from synergy_nb.dataflow.component_metrics import ComponentMetrics
from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.memory_shares import Memory, Share
from synergy_nb.dataflow.streams.copy_holders import CopyHolders
from synergy_nb.dataflow.streams.deployments import Feed, Place, Role
from synergy_nb.dataflow.streams.execution import Committed, Engine, Logic, Outcome, Work
from synergy_nb.dataflow.streams.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.losses import Losses
from synergy_nb.dataflow.streams.merge import Entry, InOrder
from synergy_nb.dataflow.streams.reading_order import ReadingOrder
from synergy_nb.dataflow.streams.values import (
    CLIENT,
    ORIGIN,
    Chunk,
    Cut,
    Output,
    Reader,
)
from synergy_nb.dataflow.tuples import START, Item, Punctuation

__all__ = ["NOTHING", "Component", "Encoding"]


#: What stands for work that no chunk triggers: a promise that was heard, and is taken where the order prescribes it.
NOTHING: Final = Entry(0, 0.0, Chunk(ORIGIN, ORIGIN, Punctuation(START, 0, 0.0), 0))


Together: TypeAlias = Callable[[Chunk, int, int], bool]
"""Whether a chunk may be executed together with what comes before it, of which tuples and bytes are given."""
FEW: Final = 64  # tuples of a batch that may be executed without a thread of its own


class Encoding(enum.IntEnum):
    """In which form chunks leave a component."""

    NONE = 0  #: As they are: all readers are on the same peer.
    SHARED = 1  #: In memory that the peers of all readers share.
    WIRE = 2  #: Encoded: some reader is elsewhere, or a client.


class Component(ComponentMetrics):
    """An operator's instance that executes, as the active one or as a follower.

    Parameters
    ----------
    application, operator
        Application and operator that it executes.
    peer
        Address of the peer that it is on.
    place
        Peer, epoch and inputs of the component.
    role
        Active or follower.
    logic
        Logic that executes its items; None for a source, which the driver reads.
    limits
        Bytes that its log holds.
    share
        Share of the memory of the peer: the bytes that it may hold; None: no limit.
    measure_s
        Seconds over which rates and loads are averaged.
    now
        Time at which it begins, in seconds.

    Attributes
    ----------
    limit : float
        Delay limit of the application in seconds; infinite for none.
    sharers_limit : float
        Least delay limit of other applications that share its stream, in seconds; infinite for none.
    discipline : str
        Scheduling discipline of the application; empty: that of the peer.
    remaining : float
        Predicted processing time downstream of it, in seconds a tuple.
    drops : bool
        Whether it drops tuples whose deadline has passed when it would execute them.
    losses : Losses
        Tuples that the component and those before it have dropped.
    transit : float
        Predicted time from it to the sink beside that, such as communication, in seconds.
    paused : bool
        Whether it takes nothing more at the moment.
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
        *,
        share: Share | None = None,
        measure_s: float = 5.0,
        now: float = 0.0,
    ) -> None:
        share = Memory().share(application, operator) if share is None else share
        super().__init__(measure_s=measure_s, share=share, now=now)
        self.application = application
        self.operator = operator
        self.peer = peer
        self.role = role
        self.epoch = place.epoch + (role is Role.FOLLOWER)
        self.feeds: tuple[Feed, ...] = place.inputs
        self.keepers = CopyHolders(place.copies)
        self._saved = 0  # bytes that it had executed at its last snapshot
        self.logic = logic
        self.limit = self.sharers_limit = math.inf
        self.discipline = ""
        self.remaining = self.transit = 0.0
        self.drops = False
        self.losses = Losses(operator)
        self.limits = limits
        self.log = StreamLog(limits=limits)
        self._client = Reader(application, operator, CLIENT, peer)  # who collects what it makes, if it is a sink
        self.ports = [InOrder(ORIGIN if feed.application == application else None) for feed in place.inputs]
        self.reading = ReadingOrder()
        self.running = False
        self.paused = False
        self.failed = ""
        self.expecting = False  # knows its readers
        self.dirty = True  # has changed since its last snapshot
        self.unsaved = 0  # bytes that it has executed since its last snapshot
        self.saving: Callable[[], SavedState] = (
            SavedState  # gives its operator's state for the snapshot that is being made
        )
        self.number = -1  # of its last snapshot
        self.stable = ORIGIN  # place in its output that a snapshot on all copies covers
        self.steps: Iterator[Item | int] | None = None  # of work that is unfinished
        self._cuts: dict[int, Cut] = {}
        self._port = 0  # at which the last work came
        self.light_s = self.light_punctuation_s = math.inf  # what an item of few tuples takes, in seconds
        self._recent: deque[float] = deque(maxlen=9)
        self._late = 0  # tuples that its logic has dropped as late, as it said last
        self._since: Entry | None = None  # the first of what it took last

    @property
    def output(self) -> Output:
        """What it makes."""
        return Output(self.application, self.operator, 0, self.epoch)

    @property
    def ordered(self) -> bool:
        """Whether what it makes depends on what it decides as it reads its inputs; another engine notes that itself."""
        return (len(self.ports) > 1 or (self.drops and bool(self.ports))) and not self.elsewhere

    @property
    def engine(self) -> Engine | None:
        """Another engine that executes it, if one does."""
        return cast("Engine", self.logic) if self.elsewhere else None

    def reader(self, port: int) -> Reader:
        """What it is as a reader."""
        return Reader(self.application, self.operator, port, self.peer, self.epoch)

    def release_memory(self) -> None:
        """Give back memory: it has failed, and nothing is executed any more."""
        self.share.release()
        self.steps = None
        for port in self.ports:
            port.queue.clear()
            port.queued = 0

    def begin(self, cut: Cut) -> None:
        """Begin at a cut, where the log has to end."""
        for port, since in zip(self.ports, cut.inputs, strict=True):
            port.received = port.consumed = since
            port.joined = True
        self.reading.begin(cut)
        self.losses.begin(cut)

    # -- execution -----------------------------------------------------------------------------------------------

    @property
    def first(self) -> Entry | None:
        """What it may execute next, or None if that is nothing."""
        if self.running or self.failed or self.paused or self.logic is None or self.log.blocked:
            return None
        if self.steps is not None:
            return self._since
        run = self.reading.next_run(self.ports) if self.reading.prescribed else None
        if run is not None:
            port = self.ports[run.port]
            arrived = port.received.position >= min(run.upto.position, port.consumed.position + 1)
            return (port.queue[0] if port.queue else NOTHING) if arrived else None
        if not self.reading.free:
            return None
        if len(self.ports) == 1:
            queue = self.ports[0].queue
            return queue[0] if queue else None
        return min((port.queue[0] for port in self.ports if port.queue), default=None, key=lambda one: one.sequence)

    @property
    def idle(self) -> bool:
        """Whether it could execute at once what came at its only input, and nobody keeps a copy of it."""
        if self.running or self.failed or self.paused or self.elsewhere or self.logic is None or self.copies:
            return False
        if self.role is not Role.ACTIVE or len(self.ports) != 1 or self.ports[0].queue or self.steps is not None:
            return False
        return self.reading.free and not self.reading.prescribed and not self.log.blocked

    def take(
        self,
        now: float,
        together: Together | None = None,
        encode: Callable[[Chunk], None] | None = None,
    ) -> Work:
        """Take what it executes next; only if there is something.

        Parameters
        ----------
        now
            Time in seconds.
        together
            Whether a chunk may be executed together with what comes before it, of which tuples and bytes are given.
            None: one chunk at a time.
        encode
            Makes the encoded form of a chunk that is made; None: none is needed.
        """
        first = self.first
        self.running, self._since = True, first
        if self.steps is not None:
            return Work(self, self._port, [], [], self.log.end, encode)
        run = self.reading.next_run(self.ports)
        dropped = False
        if run is not None:
            self._port, dropped = run.port, run.dropped
            chunks = self.ports[run.port].run(run.upto)
        else:
            self._port = next(number for number, port in enumerate(self.ports) if port.queue and port.queue[0] is first)
            port = self.ports[self._port]
            dropped = self.drops and first is not None and self.overdue(first.chunk, now)
            if dropped:
                chunks = port.overdue(lambda chunk: self.overdue(chunk, now))
            else:
                chunks = port.first(self._in_time(together, now) if self.drops else together)
        if first is not None and not dropped:
            self.queueing.add(now - first.arrived, max(sum(chunk.rows for chunk in chunks), 1))
        items = coalesce([chunk.item for chunk in chunks if not (dropped and chunk.rows)])
        return Work(self, self._port, chunks, items, self.log.end, encode, dropped=dropped)

    def overdue(self, chunk: Chunk, now: float) -> bool:
        """Whether it drops the tuples of a chunk, as their deadline has passed."""
        return self.drops and chunk.rows > 0 and now - chunk.born > self.limit

    def _in_time(self, together: Together | None, now: float) -> Together | None:
        """What may be executed together, but for tuples that are to be dropped."""
        if together is None:
            return None
        return lambda chunk, rows, size: not self.overdue(chunk, now) and together(chunk, rows, size)

    def encoding(self, near: Callable[[str], bool]) -> Encoding:
        """The form in which what it makes is needed.

        Parameters
        ----------
        near
            Whether a peer shares memory with this one.
        """
        found = Encoding.NONE
        for reader in self.log.cursors:
            if reader.port == CLIENT or (reader.peer != self.peer and not near(reader.peer)):
                return Encoding.WIRE
            if reader.peer != self.peer:
                found = Encoding.SHARED
        return found

    @property
    def collectable(self) -> bool:
        """Whether a client has something to collect."""
        client = self.log.cursors.get(self._client)
        return client is not None and client.consumed < self.log.end

    def stats(self, now: float) -> dict[str, Any]:
        """What was measured (:meth:`.ComponentMetrics.measurements`), and what waits."""
        return {
            "application": self.application,
            "operator": self.operator,
            **self.measurements(now),
            "thinned": self.losses.thinned,
            "queue_bytes": sum(port.queued for port in self.ports),
            "queue_tuples": sum(entry.chunk.rows for port in self.ports for entry in port.queue),
        }

    def _account(self, outcome: Outcome) -> None:
        """Remember how long items take, those of batches of few tuples and of punctuations apart.

        Of batches the median of the last nine counts, so that neither the first, cold one nor one during which the
        machine was busy elsewhere does; of punctuations the longest, fading, since one in many may close a window.
        """
        for rows, seconds in outcome.spent:
            self.executed(rows, seconds, outcome.finished)
            if not rows:
                longest = self.light_punctuation_s
                self.light_punctuation_s = seconds if longest == math.inf else max(seconds, 0.9 * longest)
            elif rows < FEW:
                self._recent.append(seconds)
                self.light_s = sorted(self._recent)[len(self._recent) // 2]

    def finished(self, work: Work, outcome: Outcome) -> None:
        """Work has been executed: note what was read, and append what was made."""
        self.running = False
        port = self.ports[work.port]
        self._account(outcome)
        self.late += max(outcome.late - self._late, 0)
        self._late = outcome.late
        if work.chunks:
            if self.ordered:
                self.reading.note(work, port.consumed)
            port.consume(work.chunks)
            if self.drops:
                taken = sum(chunk.rows for chunk in work.chunks)
                self.losses.count(taken, taken if work.dropped else 0)
                self.dropped += taken if work.dropped else 0
            if self.drops or self.elsewhere:
                self.losses.read(work.chunks)
            causes = self.reading.causes
            for chunk in work.chunks:
                causes += chunk.determinants
                self.unsaved += chunk.size
        self.dirty = True
        self.produce(outcome.chunks, outcome.finished)
        if self.elsewhere:
            self.committed()
        elif not self.keepers.waited:
            for each in self.ports:
                each.durable = each.consumed

    def overtake(self, chunks: list[Chunk], now: float) -> None:
        """Chunks were executed as soon as they had been made: they do not wait here, or will not when they come."""
        port = self.ports[0]
        before = port.received.position
        port.overtake(chunks[-1].end)
        fresh = port.received.position - before  # what has not been delivered, and will be cut off
        if fresh:
            self.arrived(fresh, now)
            self.tuples_in += fresh
        self.queueing.add(0.0, max(sum(chunk.rows for chunk in chunks), 1))

    def produce(self, chunks: list[Chunk], now: float) -> None:
        """Append what was made to the log, with the order of inputs that made it."""
        keep = self.ordered and bool(self.keepers.numbers or self.role is Role.FOLLOWER)
        self.reading.carry(chunks, self.output.stream if keep else None, self.stable)
        rows = 0
        for chunk in chunks:
            rows += chunk.rows
            self.bytes_out += chunk.size
        self.tuples_out += rows
        self.departed(rows, now)
        self.log.append(chunks)
        if self.losses.thinned:
            losses = self.losses.carried(self.log.end.position)
            for chunk in chunks:
                chunk.losses = losses

    def committed(self) -> None:
        """See how far another engine is that executes it: inputs are kept from there on, if that is not too much."""
        engine = self.engine
        if engine is None:
            return
        known = engine.committed
        most = self.limits.retain // 2
        for port, place in zip(self.ports, known.inputs, strict=True):
            if engine.uncovered_bytes > most or (not self.keepers.waited and engine.state_bytes > most // 2):
                port.durable = port.consumed
            elif not self.keepers.waited:
                port.durable = max(port.durable, place)
        engine.copied(copies=self.keepers.waited, safe=self._keeps(known))

    def _keeps(self, known: Committed) -> bool:
        """Whether all inputs that another engine may ask for again are kept."""
        return all(place.covers(port.durable) for port, place in zip(self.ports, known.inputs, strict=True))

    @property
    def _is_resumable(self) -> bool:
        """Whether somebody could go on from a snapshot that is made now."""
        engine = self.engine
        if engine is None:
            return True
        if not self._keeps(engine.committed):
            return False
        engine.copied(copies=True, safe=True)  # it commits nothing more on its own
        known = engine.committed
        return known.whole and self.log.end.covers(known.end) and self._keeps(known)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def capture(self) -> None:
        """Begin a snapshot: nothing may be executed until the operator's state is saved."""
        self.running = True
        self.dirty = False
        self._saved += self.unsaved
        self.unsaved = 0
        self.number += 1
        if self.engine is not None:
            known = self.engine.committed
            self.saving = known.state
            self._cuts[self.number] = Cut(
                known.inputs, known.end, (), tuple(self.reading.causes), known.step, self._saved
            )
            return
        self.saving = SavedState if self.logic is None else self.logic.save
        inputs = tuple(port.consumed for port in self.ports)
        order, causes = tuple(self.reading.runs), tuple(self.reading.causes)
        self._cuts[self.number] = Cut(
            inputs, self.log.end, order, causes, read=self._saved, taken=self.losses.taken, dropped=self.losses.dropped
        )

    def cut(self, number: int) -> Cut:
        """What a snapshot covers."""
        return self._cuts[number]

    @property
    def capturable(self) -> bool:
        """Whether a snapshot can be made now."""
        if not self.copies or self.running or self.failed or self.steps is not None:
            return False
        return all(port.joined for port in self.ports) and self._is_resumable

    @property
    def copies(self) -> dict[str, int]:
        """Peers that keep a copy, and the last snapshot that each has."""
        return self.keepers.numbers

    @property
    def read(self) -> int:
        """Bytes of inputs that it has executed."""
        return self._saved + self.unsaved

    def copied(self, peer: str, number: int) -> bool:
        """A peer has a snapshot; True if inputs need no longer be kept up to some place."""
        cut = self._cuts.get(number)
        return self.keepers.has(peer, number, self.read if cut is None else cut.read) and self._settle()

    def set_copy_holders(self, peers: Iterable[str]) -> None:
        """These peers keep copies from now on."""
        self.keepers.keep(peers, self.read)
        self.dirty = True
        self._settle()
        self.committed()

    def drop_copy(self, peer: str) -> None:
        """Nothing is heard of a copy: keep nothing more for it."""
        self.keepers.drop(peer)
        self._settle()
        self.committed()

    def catch_up(self, peer: str) -> None:
        """A copy that was left behind is heard of: keep what comes, until it has the next snapshot."""
        self.keepers.catch_up(peer, self.number, self.read)
        self.dirty = True
        self.committed()

    def _settle(self) -> bool:
        number = self.keepers.number
        if not self.keepers.waited:
            for port in self.ports if not self.elsewhere else ():
                port.durable = port.consumed
            return True
        cut = None if number is None else self._cuts.get(number)
        if cut is None:
            return False
        self.stable = max(self.stable, cut.end)
        for port, place in zip(self.ports, cut.inputs, strict=True):
            port.durable = max(port.durable, place)
        for old in [old for old in self._cuts if number is not None and old < number]:
            del self._cuts[old]
        if self.engine is not None:
            self.engine.kept(cut.step)
        return True
