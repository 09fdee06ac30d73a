"""The components and copies of one peer, as a value: it takes frames and the time, and gives effects.

Theory of operation
-------------------
``receive`` takes a frame of another peer, ``converge`` a new deployment of an application, ``finished`` the outcome of
an execution, ``tick`` the time. Each returns effects: frames to send, snapshots to make, sources to open, facts. What
is for this very peer goes the same way, without leaving it. The driver asks ``next`` for work and executes it wherever
it likes.

How chunks get from logs to readers is in :mod:`~synergy_nb.dataflow.streams.exchange`; who executes what, and how one
takes the place of another, in :mod:`~synergy_nb.dataflow.streams.roles`. Frames may be lost, doubled and overtaken:
whoever waits for one has a timer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from synergy_nb.dataflow.batch_merging import TOGETHER_WORK, mergeable
from synergy_nb.dataflow.logic import error_reason
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.streams import disciplines
from synergy_nb.dataflow.streams.chains import chain
from synergy_nb.dataflow.streams.component import Component, Encoding
from synergy_nb.dataflow.streams.deployments import Deployment, Place, Role
from synergy_nb.dataflow.streams.effects import Arrived, Capture, Captured, Effect, Fact, FactKind, Restore, Send
from synergy_nb.dataflow.streams.exchange import RESEND_MOST_S, Exchange
from synergy_nb.dataflow.streams.execution import Logic, Outcome, Work
from synergy_nb.dataflow.streams.frames import (
    Ack,
    Data,
    Determinants,
    Frame,
    Recall,
    State,
    Subscribe,
    Supply,
    Unsubscribe,
    Want,
)
from synergy_nb.dataflow.streams.input_orders import Orders
from synergy_nb.dataflow.streams.log import LIMITS, Limits
from synergy_nb.dataflow.streams.merge import Entry
from synergy_nb.dataflow.streams.roles import Roles
from synergy_nb.dataflow.streams.snapshots import SNAPSHOT_S, Snapshots
from synergy_nb.dataflow.streams.timers import Timers
from synergy_nb.dataflow.streams.values import CLIENT, COPY, Chunk, OnLag, Output, Point, Reader, encoded
from synergy_nb.dataflow.tuples import END

__all__ = ["Hosting"]


class Hosting:
    """The components and copies of one peer.

    Parameters
    ----------
    peer
        Address of the peer.
    create
        Makes the logic of a new component of a deployed application, None for a source; it may set the kind, limits and
        memory of the component.
    limits
        Bytes that each log holds.
    memory
        Memory that all components of the peer share; None: no limit.
    discipline
        Scheduling discipline of applications that state none, and between those of others, see
        :mod:`~synergy_nb.dataflow.streams.disciplines`.
    left
        Gives the cores that the peer has left, which it tells those who send it data.
    machine
        Gives the machine whose memory the peer can read; empty where it reads none but its own.
    near
        Whether the peer with this address shares memory with this one.
    share
        Makes the encoded form of a chunk for peers that share memory.
    """

    def __init__(
        self,
        peer: str,
        create: Callable[[Deployment, Component], Logic | None],
        limits: Limits = LIMITS,
        memory: Memory | None = None,
        discipline: str = "fcfs",
        left: Callable[[], float] = float,
        machine: Callable[[], str] = str,
        near: Callable[[str], bool] = lambda _: False,
        share: Callable[[Chunk], None] = encoded,
    ) -> None:
        self.peer = peer
        self.create = create
        self.limits = limits
        self.memory = Memory() if memory is None else memory
        self.discipline = discipline
        self.left = left
        self.machine = machine
        self.near = near
        self.share = share
        self.deployments: dict[str, Deployment] = {}
        self.components: dict[tuple[str, str], Component] = {}
        self.orders = Orders()
        self.exchange = Exchange(self)
        self.roles = Roles(self)
        self.snapshots = Snapshots(self)
        self.opened: set[tuple[str, str]] = set()  # sources that are read
        self._timers: Timers[tuple[str, str]] = Timers()
        self._touched: dict[tuple[str, str], None] = {}
        self._runnable: dict[Component, Entry] = {}  # what may be executed first; looked up when a component is touched
        self._effects: list[Effect] = []
        self._inside: deque[Frame] = deque()
        self._sequence = 0

    # -- for drivers ---------------------------------------------------------------------------------------------

    def receive(self, sender: str, frame: Frame, now: float) -> list[Effect]:
        """Take a frame of another peer."""
        self._handle(sender, frame, now)
        return self._done(now)

    def converge(self, deployment: Deployment, now: float) -> list[Effect]:
        """Do what a deployment of an application asks of this peer; an older one than is known is ignored.

        Of two of the same version the one that comes later counts: a peer is told of its own components as it promises
        them. After a deployment without places, nothing is remembered of the application.
        """
        known = self.deployments.get(deployment.application)
        if known is None or known.version <= deployment.version:
            self.deployments[deployment.application] = deployment
            self.roles.converge(deployment, now)
            if not deployment.places:
                del self.deployments[deployment.application]
                if known is not None:
                    self.roles.left(known)
        return self._done(now)

    def may_emit(self, application: str, operator: str) -> bool:
        """Whether a source may emit now."""
        component = self._emitting(application, operator)
        return component is not None and not component.log.blocked

    def emit(self, application: str, operator: str, chunks: Sequence[Chunk], now: float) -> list[Effect]:
        """Take what a source gives, or what another engine has executed; only while :meth:`wants` says so.

        Parameters
        ----------
        application, operator
            Component that gives it.
        chunks
            Consecutive chunks, of which the first begins where the component's log ends.
        now
            Time in seconds.
        """
        component = self._emitting(application, operator)
        if component is not None:
            if not component.feeds:
                rows = sum(chunk.rows for chunk in chunks)
                component.tuples_in += rows
                component.arrived(rows, now)
            component.produce(list(chunks), now)
            component.dirty = True
            self._emitted(component, now)
        return self._done(now)

    def _emitting(self, application: str, operator: str) -> Component | None:
        """A component that emits without being executed here, if it may."""
        component = self.components.get((application, operator))
        if component is None or component.failed or component.role is not Role.ACTIVE:
            return None
        return component if component.elsewhere or (application, operator) in self.opened else None

    def committed(self, component: Component, now: float) -> list[Effect]:
        """Another engine that executes a component has committed or handed over more."""
        if self.hosts(component) and not component.failed:
            component.committed()
            component.dirty = True
            self.exchange.consumed(component, now)
            if component.copies:
                self.snapshots.soon(component, now, hurry=True)
        return self._done(now)

    def pause(self, component: Component, paused: bool, now: float) -> list[Effect]:
        """Have a component take nothing more at the moment, or go on."""
        component.paused = paused
        self.touch(component.application, component.operator)
        return self._done(now)

    def give_up(self, application: str, operator: str, error: BaseException, now: float) -> list[Effect]:
        """Have a component fail that cannot go on for a reason outside of its own executions."""
        component = self.components.get((application, operator))
        if component is not None:
            self.fail(component, error_reason(error))
        return self._done(now)

    def next(
        self, now: float, accept: Callable[[Component, Chunk], bool] | None = None, together: int = 0
    ) -> Work | None:
        """Take the work that the discipline puts first, or None if nothing may be executed.

        Parameters
        ----------
        now
            Time in seconds.
        accept
            Whether the driver can execute a chunk at the moment. Where it is given, no unfinished work is resumed.
            None: every chunk, and unfinished work too.
        together
            Tuples of consecutive chunks that may be executed together; 0: one chunk at a time. What comes along is
            accepted, too, was born at about the same time, fits half a window, and is not expected to take long. A
            punctuation goes with the tuples in front of it, however many they are.
        """
        chosen = disciplines.first(self._runnable, self.discipline, accept)
        if chosen is None:
            return None
        before = self._runnable.pop(chosen)

        def joins(chunk: Chunk, rows: int, size: int) -> bool:
            rows += chunk.rows
            if chunk.rows and (rows > together or size + chunk.size > self.limits.window // 2):
                return False
            if chunk.rows and rows * chosen.tuple_s.moving > TOGETHER_WORK:
                return False
            if not mergeable(before.chunk.born, chunk.born):
                return False
            return accept is None or accept(chosen, chunk)

        return chosen.take(now, joins if together else None, self.encoder(chosen))

    def encoder(self, component: Component) -> Callable[[Chunk], None] | None:
        """What makes the encoded form of the chunks of a component; None: none is needed."""
        match component.encoding(self.near):
            case Encoding.NONE:
                return None
            case Encoding.SHARED:
                return self.share
        return encoded

    def chained(self, work: Work) -> Work:
        """The same work with what may execute at once what it makes; nothing of it is executed otherwise meanwhile."""
        component = work.component
        if not component.reading.free or component.reading.prescribed:
            return work
        links = chain(self.components, component, self.peer, self.encoder)
        for link in links:
            link.component.running = True
        return work._replace(then=links)

    def finished(self, work: Work, outcome: Outcome, now: float) -> list[Effect]:
        """An execution has ended, and those that were chained to it."""
        for link in work.then:  # of what has not been executed, too
            link.component.running = False
            self.touch(link.component.application, link.component.operator)
        self._ended(work, outcome, now)
        while outcome.then is not None:
            work, outcome = outcome.then
            self._deliver(now)
            if self.hosts(work.component):
                work.component.overtake(work.chunks, now)
            self._ended(work, outcome, now)
        return self._done(now)

    def _ended(self, work: Work, outcome: Outcome, now: float) -> None:
        component = work.component
        self.touch(component.application, component.operator)
        if not self.hosts(component):
            if outcome.then is not None:  # whoever has executed what it made has to know what that depends on
                component.finished(work, outcome)
            return
        if outcome.error is not None or component.failed:
            component.running = False
            if outcome.error is not None:
                self.fail(component, error_reason(outcome.error))
            return
        component.finished(work, outcome)
        self._emitted(component, now)
        self.exchange.consumed(component, now)

    def _deliver(self, now: float) -> None:
        """Hand over what is for this very peer."""
        while self._inside:
            self._handle(self.peer, self._inside.popleft(), now)

    def saved(self, capture: Capture, now: float) -> list[Effect]:
        """The state of a component has been saved: it goes on, while that is encoded."""
        self.snapshots.saved(capture)
        return self._done(now)

    def captured(
        self, capture: Capture, made: Captured | BaseException, now: float, seconds: float = 0.0
    ) -> list[Effect]:
        """A snapshot has been made in so many seconds, and whoever keeps a copy gets it; or it could not be made."""
        self.snapshots.captured(capture, made, now, seconds)
        return self._done(now)

    def restored(self, restore: Restore, error: BaseException | None, now: float) -> list[Effect]:
        """A component has got the state that it goes on from, or could not."""
        component = restore.component
        component.running = False
        self.touch(component.application, component.operator)
        if error is not None and self.hosts(component):
            self.fail(component, f"its state could not be restored: {error_reason(error)}")
        return self._done(now)

    def results(self, application: str, operator: str, since: Point, most: float) -> list[Chunk]:
        """Results of a sink behind a place, as far as they are kept: so many bytes, but one chunk if there is any."""
        component = self.components.get((application, operator))
        found: list[Chunk] = []
        size = 0
        for chunk in component.log.chunks(since) if component is not None else ():
            size += chunk.size
            if found and size > most:
                break
            found.append(chunk)
        return found

    def collected(self, application: str, operator: str, upto: Point, now: float) -> list[Effect]:
        """A client has the results of a sink up to a place: they are not kept any longer."""
        component = self.components.get((application, operator))
        if component is not None:
            component.log.acknowledge(Reader(application, operator, CLIENT, self.peer), upto, upto, upto)
            self.touch(application, operator)
        return self._done(now)

    def link_down(self, peer: str, now: float) -> list[Effect]:
        """What was under way to or from a peer may be lost."""
        self.exchange.link_down(peer, now)
        return self._done(now)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due."""
        for key in self._timers.due(now):
            self.touch(*key)
            self.exchange.tick(key, now)
            component = self.components.get(key)
            if component is not None:
                self.snapshots.tick(component, now)
        return self._done(now)

    @property
    def next_timer(self) -> float | None:
        """Time in seconds at which :meth:`tick` has something to do; None: never."""
        return self._timers.next

    # -- for the parts of hosting --------------------------------------------------------------------------------

    def hosts(self, component: Component) -> bool:
        """Whether a component is (still) here."""
        return self.components.get((component.application, component.operator)) is component

    def effect(self, effect: Effect) -> None:
        """Ask something of the driver."""
        self._effects.append(effect)

    def send(self, to: str, frame: Frame) -> None:
        """Send a frame, to this peer itself without leaving it."""
        if to == self.peer:
            self._inside.append(frame)
        else:
            self._effects.append(Send(to, frame))

    def fail(self, component: Component, reason: str) -> None:
        """A component cannot go on; it gives back its memory, and what waits for it, and tells those who share it."""
        if not component.failed:
            component.failed = reason
            component.release_memory()
            self.exchange.notify_sharers(component, f"has failed: {reason}")
            self.effect(Fact(FactKind.COMPONENT_FAILED, component.application, component.operator, reason))

    def forget(self, component: Component) -> None:
        """A component has gone."""
        self.snapshots.forget(component)
        self._runnable.pop(component, None)

    def place(self, application: str, operator: str) -> Place | None:
        """Where a component is, as far as this peer knows."""
        deployment = self.deployments.get(application)
        return deployment.places.get(operator) if deployment is not None else None

    def arrival(self) -> int:
        """Number of the next arrival."""
        self._sequence += 1
        return self._sequence

    def touch(self, application: str, operator: str) -> None:
        """Something about a component, its copy or its recovery may have changed: what it may do, and when."""
        self._touched[application, operator] = None

    def _done(self, now: float) -> list[Effect]:
        self._deliver(now)
        for key in self._touched:
            due = self.exchange.due(key)
            component = self.components.get(key)
            if component is not None:
                first = component.first
                if first is not None:
                    self._runnable[component] = first
                else:
                    self._runnable.pop(component, None)
                at = self.snapshots.at(component)
                if at is not None and at < due:
                    due = at
                if component.collectable:
                    self.effect(Arrived(*key))
            self._timers.set(key, due if due < math.inf else None)
        self._touched.clear()
        effects, self._effects = self._effects, []
        return effects

    def _emitted(self, component: Component, now: float) -> None:
        if component.role is not Role.ACTIVE:
            return
        for cursor in component.log.laggards():
            self.exchange.dismiss(component, cursor, now)
        if component.copies:
            self.snapshots.soon(component, now + SNAPSHOT_S)
        self.exchange.flush(component, now)

    # -- frames --------------------------------------------------------------------------------------------------

    def _handle(self, sender: str, frame: Frame, now: float) -> None:
        match frame:
            case Data():
                if frame.reader.port == COPY:
                    self.roles.copied(frame, now)
                else:
                    self.exchange.data(sender, frame, now)
            case Ack():
                self._acknowledge(frame, now)
            case Subscribe():
                self.exchange.subscribe(frame, now)
            case Unsubscribe():
                self._unsubscribe(sender, frame)
            case State():
                self.roles.snapshot(frame, now)
            case Want():
                producer = self.producer(frame.output)
                if producer is not None:
                    self.snapshots.supply(producer, frame, now)
            case Supply():
                self.roles.supplied(frame, now)
            case Recall():
                self.roles.recall(sender, frame)
            case Determinants():
                self.roles.determinants(sender, frame)

    def producer(self, output: Output) -> Component | None:
        """The component here that makes an output, for readers."""
        component = self.components.get((output.application, output.operator))
        if component is None or component.epoch != output.epoch or component.role is not Role.ACTIVE:
            return None
        return component

    def _acknowledge(self, ack: Ack, now: float) -> None:
        component = self.producer(ack.output)
        if component is None:
            return
        cursor = component.log.cursors.get(ack.reader)
        if cursor is not None and ack.received > cursor.received:
            cursor.patience = min(3.0 * (now - cursor.unheard_since), RESEND_MOST_S)
        if not component.log.acknowledge(ack.reader, ack.received, ack.consumed, ack.durable):
            return
        if ack.reader.port == COPY:
            self.snapshots.acknowledged(component, ack.reader.peer, ack.snapshot)
            if component.copied(ack.reader.peer, ack.snapshot):
                self.exchange.consumed(component, now)
            self.snapshots.report_lagging(component)
        self.exchange.flush(component, now)

    def _unsubscribe(self, sender: str, frame: Unsubscribe) -> None:
        reader = frame.reader
        producer = self.producer(frame.output)
        if producer is not None and sender == reader.peer and not frame.reason:  # a reader has ended
            cursor = producer.log.cursors.get(reader)
            if cursor is not None and (cursor.lost or cursor.on_lag is OnLag.RESYNC):  # of others the deployment tells
                producer.log.unsubscribe(reader)
        if not frame.reason or reader.port < 0:
            return
        self.send(sender, Unsubscribe(frame.output, reader))  # it is heard, and need not be said again
        component = self.components.get((reader.application, reader.operator))
        if component is None or component.reader(reader.port) != reader:
            return
        port = component.ports[reader.port]
        if port.epoch == frame.output.epoch and port.received.until != END:
            self.fail(component, f"input {reader.port}, {frame.output.operator}: {frame.reason}")
