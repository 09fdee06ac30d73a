"""A component that executes: its inputs, its output, the order in which it reads, and its snapshots. No IO, no clock.

Theory of operation
-------------------
A component takes chunks from its inputs, passes their items to its operator's logic, and appends the output to its
log. Operators store no positions of a stream: the log knows the position in the output, the merge that in an input.

A component with several inputs records the order in which it reads them
(:mod:`.component._reading_order`), and each chunk carries the order since the previous chunk. A
component that replaces another one *replays*: it reads its inputs in the prescribed order up to the last chunk that
anybody depends on, and is *free* from there on.

Its *snapshots* are cuts between two executions. Once all copies have a snapshot, that snapshot is *stable*: the inputs
before it will not be requested again.

A component that another engine executes (:class:`.component.execution.Engine`) passes its inputs to
it, and retains them until the engine has committed them. Its snapshots record the engine's progress, and no state.

A source has no inputs and no logic; if its connector has positions, its state is the place that it has reached, which
its chunks carry to its copies (:class:`.log.values.SourcePlace`), and its snapshots to copies that came later.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast

import msgspec

from synergy_nb.dataflow.deployments import FOLDER, Assignment, InputFeed, Role
from synergy_nb.dataflow.logic import Logic, SavedState, Switching
from synergy_nb.dataflow.memory_shares import Memory, MemoryShare
from synergy_nb.dataflow.streams.component._alignment import Alignment
from synergy_nb.dataflow.streams.component._copy_holders import CopyHolders
from synergy_nb.dataflow.streams.component._cuts import Cuts
from synergy_nb.dataflow.streams.component._reading_order import ReadingOrder
from synergy_nb.dataflow.streams.component.component_metrics import ComponentMetrics
from synergy_nb.dataflow.streams.component.component_terms import ComponentTerms
from synergy_nb.dataflow.streams.component.execution import Committed, Engine, ExecutionOutcome, Unfinished, Work
from synergy_nb.dataflow.streams.component.losses import Losses
from synergy_nb.dataflow.streams.log.chunking import coalesce
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.log.merge import CLOSED, Port, WaitingChunk
from synergy_nb.dataflow.streams.log.values import (
    CLIENT,
    ORIGIN,
    Chunk,
    Output,
    Point,
    Reader,
    SnapshotCut,
    SourcePlace,
    rows_of,
)
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import START, Punctuation

__all__ = ["NOTHING", "Component"]

#: Stands for work that no chunk triggers: applying a promise that has arrived, where the order prescribes it.
NOTHING: Final = WaitingChunk(0, 0.0, Chunk(ORIGIN, ORIGIN, Punctuation(START, 0, 0.0), 0))

Together: TypeAlias = Callable[[Chunk, int, int], bool]
"""Whether a chunk may be executed together with the preceding ones, whose tuples and bytes are passed."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_place: Final = msgspec.msgpack.Decoder(SourcePlace).decode
FEW: Final = 64  # tuples of a batch that may be executed without a thread of its own


class Component(ComponentMetrics):
    """One instance of an operator, executed as the active component or as a follower."""

    def __init__(
        self,
        application: str,
        operator: str,
        peer: str,  # address of the peer that executes it
        assignment: Assignment,  # assignment of the component in the deployment of its application
        role: Role,
        logic: Logic | None,  # logic that executes its items; None for a source, which the driver reads
        limits: Limits = LIMITS,  # limits of its log, bytes
        *,
        share: MemoryShare | None = None,  # share of the peer's memory that it may use, bytes; None: no limit
        measure_s: float = 5.0,  # seconds over which rates and loads are averaged
        speed: float = 1.0,  # speed of the peer: the work, in seconds at a peer of speed 1, that it does in one second
        now: float = 0.0,  # time at which it starts, seconds
    ) -> None:
        share = Memory().share(application, operator) if share is None else share
        super().__init__(measure_s=measure_s, share=share, speed=speed, now=now)
        self.application = application
        self.operator = operator
        self.key = application, operator
        self.peer = peer
        self.role = role
        self.epoch = assignment.epoch + (role is Role.FOLLOWER)
        # feeds, ports: number of each input to the stream that it reads, and to its queue and progress
        self.feeds: dict[int, InputFeed] = assignment.feeds
        self.feed_ports: dict[int, int] = assignment.feed_ports
        self.replica_of, self.rebuilt, self.in_order = assignment.replica_of, assignment.rebuilt, assignment.in_order
        self.copy_holders = CopyHolders(assignment.copies, assignment.synchronized)
        # whether a peer has, or has had, a backup of it. Then one that has no snapshot yet may go on from the folder,
        # while its producers execute
        self._backed = False
        self.alone = False  # whether it requests nothing again that it has executed: the folder alone has a copy of it
        self._note_backups(assignment)
        self.cuts = Cuts()  # cuts of its snapshots
        self.logic = logic
        self.alignment = Alignment(self, assignment.follower)  # whether it reads its inputs aligned at present
        self.terms = ComponentTerms()  # terms of its application: limit, scheduling and what remains downstream
        # least delay limit of the other applications that share its stream, seconds; infinite for none
        self.sharers_limit = math.inf
        self.losses = Losses(operator)  # tuples that this component and those upstream of it have dropped
        self.limits = limits
        self.log = StreamLog(limits=limits)
        self._client = Reader(application, operator, CLIENT, peer)  # collects its output if it is a sink
        self.output = Output(application, operator, self.epoch, self.rebuilt)  # its output in this epoch
        self._readers: dict[int, Reader] = {}  # by number of the input, in the epoch in which it was asked for
        self._joins = assignment.joins  # whether what it has not read yet begins where it is retained
        self.ports = {number: self._port_of(feed) for number, feed in self.feeds.items()}
        # whether its output follows from its first input: of a sink in a durable cluster, whose other inputs say when
        # another plan may go on (synergy_nb.dataflow.operators.sinks). Active replicas feed one port together instead
        self._gives_first = assignment.sink and FOLDER in assignment.copies and not assignment.ports
        self._ready_after: int | None = None  # number of its last snapshot when another plan could go on; None: not yet
        self._decides = False  # whether it gives nothing before the folder has a snapshot that says which plan goes on
        self.reading = ReadingOrder()
        self.running = False
        self.paused = False  # whether it executes nothing at the moment
        self.failed = ""
        self.expecting = False  # whether it knows its readers
        self.dirty = True  # whether it has changed since its last snapshot
        self.unsaved = 0  # bytes that it has executed since its last snapshot
        self.saving: Callable[[], SavedState] = SavedState  # returns the operator's state for the present snapshot
        self.left: Unfinished | None = None  # what is left of work whose output was more than a window
        self._port = 0  # input of the last work
        self.light_s = self.light_punctuation_s = math.inf  # processing time of an item of few tuples, seconds
        self._recent: deque[float] = deque(maxlen=9)
        self._late = 0  # tuples that its logic had dropped as late after the last work
        self._since: WaitingChunk | None = None  # first entry of the last work
        self._told = ORIGIN  # end of the results of which the driver was told last
        self.executing_since: float | None = None  # time in seconds; None while its logic executes nothing

    @property
    def ordered(self) -> bool:
        """Whether the output depends on decisions made while reading inputs; another engine records these by itself."""
        several = len(self.ports) > 1 and not self.alignment.holds and not self._gives_first
        return (several or (self.terms.drops and bool(self.ports))) and not self.external

    @property
    def engine(self) -> Engine | None:
        """The other engine that executes it, if there is one."""
        return cast("Engine", self.logic) if self.external else None

    @property
    def executing(self) -> set[int]:
        """Number of the input whose chunks it executes at present; none if it is idle."""
        return {self._port} if self.running or self.left is not None else set()

    def reader(self, port: int) -> Reader:
        """Identify the component as the reader of a stream."""
        reader = self._readers.get(port)
        if reader is None or reader.epoch != self.epoch:
            reader = self._readers[port] = Reader(self.application, self.operator, port, self.peer, self.epoch)
        return reader

    def _port_of(self, feed: InputFeed) -> Port:
        """An input that begins with its stream; or where its producer says, if that stream may have begun before."""
        begins = feed.application == self.application and not self._joins
        return Port(ORIGIN if begins else None, closed=not feed.operator)

    # -- its life ------------------------------------------------------------------------------------------------

    def set_logic(self, logic: Logic | None) -> None:
        """Set the logic that executes its items; None for a source."""
        self.logic = logic

    def adopt_log(self, log: StreamLog) -> None:
        """Go on with the output that a copy of it has."""
        self.log = log

    def repeat(self, end: Point) -> None:
        """Know up to where others have its output, which it repeats."""
        if self._gives_first:
            cast("Switching", self.logic).repeat(*end)

    def restore(self, cut: SnapshotCut) -> None:
        """Start from a cut in its log; it executes nothing until its state is restored."""
        self.log.cut(cut.end)
        self.suspend()
        if isinstance(self.logic, MergedLogic):
            self.logic.await_state()
        self.begin(cut)

    def activate(self, epoch: int) -> None:
        """Become the active component, in an epoch; its log retains what readers need from now on."""
        self.role, self.epoch = Role.ACTIVE, epoch
        self.output = Output(self.application, self.operator, epoch, self.rebuilt)
        self.log.retain_all(retains=False)

    def agree(self, terms: ComponentTerms, kind: str = "", stream: str = "", planned_s: float = 0.0) -> None:
        """Execute on the terms of the application from now on.

        ``terms``: limit, scheduling and what remains downstream; ``kind``, ``stream``: kind of the operator, and name
        of its stream, for measurements; ``planned_s``: work of a tuple in the plan, seconds at a peer of speed 1.
        """
        self.terms = terms
        self.kind, self.stream, self.planned_s = kind, stream, planned_s

    def hand_over(self) -> None:
        """Have another engine execute it, which reports its own times."""
        self.external = True

    def stand_apart(self) -> None:
        """Have it executed beside the other components, as it waits for another process."""
        self.apart = True

    def know_readers(self) -> bool:
        """Note that it knows its readers from now on; return whether it did before."""
        known, self.expecting = self.expecting, True
        return known

    def set_sharers_limit(self, limit: float) -> None:
        """Set the least delay limit of the other applications that share its stream, seconds."""
        self.sharers_limit = limit

    def pause(self, paused: bool) -> None:
        """Execute nothing for a while; or go on."""
        self.paused = paused

    @property
    def settled(self) -> bool:
        """Whether the durable folder has the state of a sink from which another plan can go on."""
        return self._ready_after is not None and self.copies.get(FOLDER, -1) > self._ready_after

    def suspend(self) -> None:
        """Execute nothing while something else works on it: an execution, or a snapshot that is being made."""
        self.running = True

    def resume(self) -> None:
        """Be free to execute again."""
        self.running, self.executing_since = False, None

    def restored(self) -> None:
        """Go on from the state that was restored."""
        self.resume()
        if self._gives_first and cast("Switching", self.logic).decides:
            self.paused = self._decides = True

    def change(self) -> None:
        """Note that its copies need another snapshot."""
        self.dirty = True

    def fail(self, reason: str) -> None:
        """Fail, and release memory and queues; nothing is executed any more."""
        self.failed = reason
        self.share.release()
        self.left = None
        for port in self.ports.values():
            port.clear()

    def remove(self) -> None:
        """Release memory, as the component leaves the peer."""
        self.failed = self.failed or "it was removed"
        self.share.release()

    def begin(self, cut: SnapshotCut) -> None:
        """Start from a cut, where the log has to end. Inputs read before it that no longer exist are closed."""
        for number in cut.inputs.keys() - self.ports.keys():
            self.feeds[number], self.ports[number] = InputFeed(self.application, ""), Port(closed=True)
        for number, port in self.ports.items():
            port.start(cut.inputs.get(number), late=not self._joins)
        self.reading.begin(cut)
        self.losses.begin(cut)

    # -- execution -----------------------------------------------------------------------------------------------

    @property
    def first(self) -> WaitingChunk | None:
        """The next entry that may be executed; None if there is none."""
        log = self.log
        if self.running or self.failed or self.paused or self.logic is None or (log.size > log.little and log.blocked):
            return None
        if self.left is not None:
            return self._since
        if len(self.ports) == 1 and self.reading.free and not self.reading.prescribed:
            (port,) = self.ports.values()
            return port.queue[0] if port.queue else None
        run = self.reading.next_run(self.ports) if self.reading.prescribed else None
        if run is not None:
            if run.port not in self.ports:
                return None
            port = self.ports[run.port]
            arrived = port.received.position >= min(run.upto.position, port.consumed.position + 1)
            return (port.queue[0] if port.queue else NOTHING) if arrived else None
        if not self.reading.free:
            return None
        waiting = (port.queue[0] for port in self.ports.values() if port.queue)
        return min(waiting, default=None, key=lambda one: one.sequence)

    @property
    def idle(self) -> bool:
        """Whether it could execute at once what arrives at its only input, and has no copies."""
        if self.running or self.failed or self.paused or self.external or self.logic is None:
            return False
        if self.copy_holders.numbers:
            return False
        if self.role is not Role.ACTIVE or len(self.ports) != 1 or self.left is not None:
            return False
        (port,), log = self.ports.values(), self.log
        if port.queue or not self.reading.free or self.reading.prescribed:
            return False
        return not (log.size > log.little and log.blocked)

    def next_work(self, now: float, first: WaitingChunk, together: Together | None = None) -> Work:
        """Return what it executes next, and mark it as running.

        ``first``: its :attr:`first` at present; ``together``: predicate that decides whether a chunk may be executed
        with the preceding ones, whose tuples and bytes are passed. None: one chunk at a time.
        """
        self.running, self._since, self.executing_since = True, first, now
        if self.left is not None:
            return Work(self, self._port, [], [], self.log.end)
        run = self.reading.next_run(self.ports) if self.reading.prescribed else None
        dropped = False
        if run is not None:
            self._port, dropped = run.port, run.dropped
            chunks = self.ports[run.port].run(run.upto)
        else:
            for number, port in self.ports.items():
                if port.queue and port.queue[0] is first:
                    self._port = number
                    break
            port = self.ports[self._port]
            dropped = self.terms.drops and self.overdue(first.chunk, now)
            if dropped:
                chunks = port.overdue(lambda chunk: self.overdue(chunk, now))
            else:
                chunks = port.first(self._in_time(together, now) if self.terms.drops else together)
        if len(chunks) == 1 and not dropped:
            items, rows = [chunks[0].item], chunks[0].rows
        elif len(chunks) == 2 and chunks[0].rows and not (chunks[1].rows or dropped):  # tuples and their promise
            items, rows = [chunks[0].item, chunks[1].item], chunks[0].rows
        else:
            rows = 0 if dropped else rows_of(chunks)
            items = coalesce([chunk.item for chunk in chunks if not (dropped and chunk.rows)])
        if not dropped:
            self._queued += rows or 1
            self._queued_s += (now - first.arrived) * (rows or 1)
        return Work(self, self._port, chunks, items, self.log.end, None, (), dropped, rows)

    def overdue(self, chunk: Chunk, now: float) -> bool:
        """Whether the component drops the tuples of a chunk because their deadline has passed."""
        return self.terms.drops and chunk.rows > 0 and now - chunk.born > self.terms.limit

    def _in_time(self, together: Together | None, now: float) -> Together | None:
        """Restrict ``together`` to chunks whose tuples are not dropped."""
        if together is None:
            return None
        return lambda chunk, rows, size: not self.overdue(chunk, now) and together(chunk, rows, size)

    @property
    def collectable(self) -> bool:
        """Whether there are results for a client to collect."""
        client = self.log.cursors.get(self._client)
        return client is not None and client.consumed < self.log.end

    def has_news(self) -> bool:
        """Whether there are results to collect of which this has not said so before."""
        end = self.log.end
        if end == self._told:
            return False
        client = self.log.cursors.get(self._client)
        if client is None or client.consumed >= end:
            return False
        self._told = end
        return True

    @property
    def waiting(self) -> int:
        """Number of tuples in its queues."""
        return sum(port.queued_rows for port in self.ports.values())

    def stats(self, now: float) -> dict[str, Any]:
        """Return the measurements (:meth:`.ComponentMetrics.measurements`), the sizes of the queues, and the credit.

        ``windows`` is the share that each reader has used up of its window, by application and operator; by an empty
        application, that of a sink's readers.
        """
        windows: dict[str, dict[str, float]] = {}
        for cursor in self.log.cursors.values() if self.log.size else ():
            reader, used = cursor.reader, self.log.used(cursor)
            of = windows.setdefault("" if reader.port == CLIENT else reader.application, {})
            if reader.port == CLIENT or reader.operator != self.operator:
                of[reader.operator] = max(used, of.get(reader.operator, 0.0))
        return {
            "application": self.application,
            "operator": self.operator,
            "promised": self.log.end.until,
            **self.measurements(now),
            "thinned": self.losses.thinned,
            "queue_bytes": sum(port.queued for port in self.ports.values()),
            "queue_tuples": self.waiting,
            "windows": windows,
        }

    def finished(self, work: Work, outcome: ExecutionOutcome) -> None:
        """Record what executed work has read, and append its output."""
        self.running, self.executing_since = False, None
        port = self.ports[work.port]
        for rows, seconds in outcome.spent:
            self.executed(rows, seconds, outcome.finished, outcome.speed)
            if not rows:  # the longest counts, fading: one of many may close a window
                longest = self.light_punctuation_s
                self.light_punctuation_s = seconds if longest == math.inf else max(seconds, 0.9 * longest)
            elif rows < FEW:  # the third shortest of nine: not the first, cold one, nor those of a busy machine
                self._recent.append(seconds)
                self.light_s = sorted(self._recent)[len(self._recent) // 4]
        if outcome.late > self._late:
            self.late += outcome.late - self._late
        self._late = outcome.late
        if work.chunks:
            drops = self.terms.drops
            if (drops or len(self.ports) > 1) and self.ordered:
                self.reading.record(work, port.consumed)
            waited = self.copy_holders.waited and not self.alone
            port.consume(work.chunks, durable=not (self.external or waited))
            if drops:
                rows = rows_of(work.chunks)
                self.losses.count(rows, rows if work.dropped else 0)
                self.dropped += rows if work.dropped else 0
            if drops or self.external:
                self.losses.read(work.chunks)
            causes = self.reading.causes
            for chunk in work.chunks:
                causes += chunk.determinants
                self.unsaved += chunk.size
        if self.prediction is not None and self._since is not None:
            self.prediction.finished(self._since, work, outcome)
        self.dirty = True
        if self._gives_first and not self.paused and cast("Switching", self.logic).ready:
            self.paused = True  # it goes on from here with one of two plans, and gives nothing before
            self._ready_after = self.cuts.number
        self.produce(outcome.chunks, outcome.finished)
        if isinstance(self.logic, MergedLogic):
            self.alignment.settle()
        if self.external:
            self.committed()

    def overtake(self, chunks: list[Chunk], rows: int, began: float, now: float) -> None:
        """Account for chunks, of so many tuples, that were executed from ``began`` on, without waiting in the queue."""
        self._since = WaitingChunk(0, began, chunks[-1])
        (port,) = self.ports.values()
        before = port.received.position
        port.overtake(chunks[-1].end)
        fresh = port.received.position - before  # tuples that have not been delivered yet, and will be discarded
        if fresh:
            self.arrived(fresh, now)
        self._queued += rows or 1

    def produce(self, chunks: list[Chunk], now: float) -> None:
        """Append output to the log, with the order of inputs that led to it."""
        reading, records = self.reading, (self.copy_holders.numbers or self.role is Role.FOLLOWER) and self.ordered
        if records or reading.causes or reading.runs or reading.made:
            reading.carry(chunks, self.output.stream if records else None, self.cuts.stable)
        if chunks and self.prediction is not None and self.prediction.carries:
            chunks[0].rates = self.prediction.attached()
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

    def emit(self, chunks: Sequence[Chunk], now: float) -> None:
        """Append what a source has read, or another engine has made."""
        if not self.feeds:
            rows = 0
            for chunk in chunks:
                rows += chunk.rows
                self.unsaved += 0 if self.external else chunk.size
            self.entered(rows, now)
        self.produce(list(chunks), now)
        self.dirty = True

    def committed(self, now: float | None = None) -> None:
        """Note the progress of the other engine: inputs are retained from there on, within the limit of memory."""
        if (engine := self.engine) is None:
            return
        known = engine.committed
        if self.prediction is not None and now is not None:
            self.prediction.committed(known.inputs, now)
        most = self.limits.retain // 2 if FOLDER not in self.copies else math.inf  # a folder is never left behind
        for port, point in zip(self.ports.values(), known.inputs, strict=True):
            if engine.uncovered_bytes > most or (not self.copy_holders.waited and engine.state_bytes > most // 2):
                port.cover()
            elif not self.copy_holders.waited:
                port.cover(point)
        engine.set_copies(copies=self.copy_holders.waited, safe=self._inputs_retained(known))

    def _inputs_retained(self, known: Committed) -> bool:
        """Whether all inputs that another engine may request again are retained."""
        return all(point.covers(port.durable) for port, point in zip(self.ports.values(), known.inputs, strict=True))

    @property
    def _is_resumable(self) -> bool:
        """Whether another peer could resume from a snapshot that is made now."""
        if (engine := self.engine) is None:
            return True
        if not self._inputs_retained(engine.committed):
            return False
        engine.set_copies(copies=True, safe=True)  # it commits nothing more by itself
        known = engine.committed
        return known.whole and self.log.end.covers(known.end) and self._inputs_retained(known)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def capture(self) -> None:
        """Begin a snapshot: nothing may be executed until the operator's state is saved."""
        self.running = True
        self.dirty = False
        self.cuts.begin(self.unsaved)
        self.unsaved = 0
        self.alignment.begin()
        if self.engine is not None:
            known = self.engine.committed
            self.saving = known.state
            inputs, causes = dict(enumerate(known.inputs)), tuple(self.reading.causes)
            self.cuts.add(SnapshotCut(inputs, known.end, (), causes, known.step, self.cuts.read))
            return
        self.saving = self._saved_place() if self.logic is None else self.logic.save
        inputs = {number: port.consumed for number, port in self.ports.items() if not port.beginning}
        order, causes, losses = tuple(self.reading.runs), tuple(self.reading.causes), self.losses
        counts = {"read": self.cuts.read, "consumed": losses.consumed, "dropped": losses.dropped}
        self.cuts.add(SnapshotCut(inputs, self.log.end, order, causes, **counts))

    def _saved_place(self) -> Callable[[], SavedState]:
        """State of a source: where it is at the end of its log, or before it; it goes on while that is saved."""
        place = self.log.place
        return SavedState if place is None else partial(SavedState, _encode(place))

    def go_on(self, head: bytes) -> None:
        """Go on as the source that a snapshot was made of, from its place or a later one.

        Raises ``ValueError`` if the head of the snapshot is no place.
        """
        if head:
            try:
                self.log.know_place(_decode_place(head))
            except msgspec.MsgspecError as error:
                raise ValueError(f"head of the snapshot of {self.operator}: {error}; expected a place") from None

    @property
    def capturable(self) -> bool:
        """Whether a snapshot can be made now."""
        if not self.copies or self.running or self.failed or self.left is not None:
            return False
        return all(port.joined or port.state is CLOSED for port in self.ports.values()) and self._is_resumable

    @property
    def copies(self) -> dict[str, int]:
        """Peer with a copy to the number of its last snapshot."""
        return self.copy_holders.numbers

    @property
    def read(self) -> int:
        """Bytes of inputs that it has executed."""
        return self.cuts.read + self.unsaved

    def unsaved_at(self, peer: str) -> int:
        """Return the bytes that it has read, or a source has emitted, since the last snapshot that a copy has."""
        return self.copy_holders.uncovered_bytes(peer, self.read)

    def copied(self, peer: str, number: int) -> bool:
        """Record that a peer has a snapshot; True if inputs up to some point need no longer be retained."""
        read = self.cuts.read_before(number)
        known = self.read if read is None else read
        covers = self.copy_holders.acknowledged(peer, number, known) and self._advance_stable()
        if self._decides and self.copies.get(FOLDER, -1) >= 0:
            self.paused = self._decides = False
        return covers

    def _note_backups(self, assignment: Assignment) -> None:
        self._backed = self._backed or any(peer != FOLDER for peer in assignment.backups)
        self.alone = assignment.alone and not self._backed

    def follow_backup(self) -> None:
        """Note that it goes on from the backup of a peer."""
        self._backed, self.alone = True, False

    def set_copy_holders(self, assignment: Assignment) -> None:
        """Set the peers that hold copies from now on, which of them is a follower, and for which readers wait."""
        # a snapshot that has begun is of a moment since which it has let go of inputs
        first = self.cuts.number + 1 if self.alone else 0
        self._note_backups(assignment)
        self.copy_holders.set_peers(assignment.copies, self.read, assignment.synchronized, first)
        self.alignment.set_follower(assignment.follower)
        self.dirty = True
        self._advance_stable()
        self.committed()

    def drop_copy(self, peer: str) -> None:
        """Stop retaining anything for a copy that does not answer."""
        self.copy_holders.leave_behind(peer)
        self._advance_stable()
        self.committed()

    def catch_up(self, peer: str) -> None:
        """Retain again for a copy that was left behind and answers, until it has the next snapshot."""
        self.copy_holders.catch_up(peer, self.cuts.number, self.read)
        self.dirty = True
        self.committed()

    def _advance_stable(self) -> bool:
        number = self.copy_holders.number
        if not self.copy_holders.waited:
            for port in self.ports.values() if not self.external else ():
                port.cover()
            return True
        cut = None if number is None else self.cuts.cover(number)
        if cut is None:
            return False
        for port_number, point in cut.inputs.items():
            if port_number in self.ports:
                self.ports[port_number].cover(point)
        if self.engine is not None:
            self.engine.replicated(cut.step)
        return True
