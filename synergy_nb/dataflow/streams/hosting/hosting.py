"""Hosting: the components and copies of one peer, as a value that maps frames and the time to effects.

Theory of operation
-------------------
``receive`` handles a frame of another peer, ``converge`` a new deployment of an application, ``finished`` the outcome
of an execution, ``tick`` the passing of time. Each returns effects: frames to send, snapshots to make, sources to open,
facts. Frames for this very peer are handled alike, without leaving it. The driver calls ``next`` for work and executes
it on a thread of its choice. Frames may be lost, duplicated and reordered: every component that waits for a frame has a
timer.

This is the door: it knows which part each event concerns, and after each event it updates what may execute, the timers
and the reports of all components that were *touched*. It does so once, at the end, so that a part may touch a component
as often as it likes and in any state. Each part has a state of its own, and is given the others that it needs:

======================  ================================================================  ==========================
part                    its state                                                         what others ask it
======================  ================================================================  ==========================
``Outbox``              effects and frames that are to leave, components touched          to send, to report
``KnownDeployments``    the last deployment of each application                           who makes a stream
``HostedComponents``    what executes here, and what of it may run                        the component of a frame
``HeldRoles``           what the peer is for each component, and its copies               the role, the copy
``Senders``             none: it compares the senders of frames                          whether a frame is refused
``Exchange``            number of the last arrival (its subscriptions are in ports and    to send on, to acknowledge
                        cursors)
``Snapshots``           the progress of each component's snapshots                        to save a component soon
``Creation``            failures that it has reported                                     to create a component
``Standbys``            none: it works on the copies of the roles                         what a frame does to a copy
``OrderRecovery``       questions of others that it cannot answer yet                     orders of inputs
``PeerRoles``           none: it makes the transitions of the roles                       to carry out a deployment
``Waits``               how far each component was when it was looked at                  who waits for whom
======================  ================================================================  ==========================

Each is given parts above it only, so none calls back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.logic import Logic, error_reason
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Link, Work
from synergy_nb.dataflow.streams.component.predictions import PeerPredictions
from synergy_nb.dataflow.streams.hosting import _disciplines as disciplines
from synergy_nb.dataflow.streams.hosting._chains import chain
from synergy_nb.dataflow.streams.hosting._creation import Creation
from synergy_nb.dataflow.streams.hosting._exchange import Exchange
from synergy_nb.dataflow.streams.hosting._held_roles import HeldRoles, RoleState
from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
from synergy_nb.dataflow.streams.hosting._known_orders import Orders
from synergy_nb.dataflow.streams.hosting._order_recovery import OrderRecovery
from synergy_nb.dataflow.streams.hosting._outbox import Key, Outbox
from synergy_nb.dataflow.streams.hosting._roles import PeerRoles
from synergy_nb.dataflow.streams.hosting._senders import Senders
from synergy_nb.dataflow.streams.hosting._snapshots import SNAPSHOT_S, Snapshots
from synergy_nb.dataflow.streams.hosting._standbys import Standbys
from synergy_nb.dataflow.streams.hosting._timers import Timers
from synergy_nb.dataflow.streams.hosting._waits import Waits
from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.streams.hosting.effects import Arrived, Capture, Captured, Effect, Fact, FactKind, Restore
from synergy_nb.dataflow.streams.hosting.input_reports import InputReports
from synergy_nb.dataflow.streams.log.chunking import TOGETHER_WORK, mergeable
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Determinants,
    Frame,
    LastOrder,
    PieceReply,
    PieceRequest,
    Recall,
    Subscribe,
    Unsubscribe,
)
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import (
    CLIENT,
    COPY,
    Chunk,
    Determinant,
    Encoding,
    Output,
    Point,
    Reader,
    encoded,
)
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.models.hot_spot_config import HotSpotConfig

__all__ = ["Hosting"]


class Hosting:
    """The components and copies of one peer."""

    def __init__(
        self,
        peer: str,  # address of the peer
        # function that creates the logic of a new component of a deployed application, None for a source; it may set
        # the kind, limits and memory of the component
        create: Callable[[Deployment, Component], Logic | None],
        limits: Limits = LIMITS,  # limits of each log, bytes
        memory: Memory | None = None,  # memory that all components of the peer share; None: no limit
        # scheduling discipline of applications that state none, and between groups of applications with different ones,
        # see `_disciplines`
        discipline: str = "fcfs",
        # function that returns the unused cores of the peer, which acknowledgements report to its producers
        unused_cores: Callable[[], float] = float,
        # function that returns the machine whose memory the peer can read; empty where it reads only its own
        machine: Callable[[], str] = str,
        # predicate that decides whether the peer with an address shares memory with this one
        near: Callable[[str], bool] = lambda _: False,
        share: Callable[[Chunk], None] = encoded,  # encoder of a chunk for peers that share memory
        hotspots: HotSpotConfig | None = None,
        # function that returns the present speed of the peer, for components that it has not executed yet: the work
        # that its thread does in a second, in seconds at a peer of speed 1, less what other programs take
        speed: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.peer = peer
        self.create = create
        self.limits = limits
        self.memory = Memory() if memory is None else memory
        self.discipline = discipline
        self.near = near
        self.share = share
        self.orders = Orders()
        self.predictions = PeerPredictions(HotSpotConfig() if hotspots is None else hotspots)
        self._outbox = outbox = Outbox(peer)
        self._known = known = KnownDeployments()
        self._hosted = hosted = HostedComponents(outbox, self.predictions)
        self._peer = peer
        self._senders = Senders(known, hosted)
        self._held = held = HeldRoles()
        self.inputs = InputReports(hosted.found)
        self.waits = Waits(hosted.found, known.found, hosted.opened, limits)
        self._exchange = exchange = Exchange(
            peer, outbox, known, hosted, self.orders, limits, machine=machine, unused_cores=unused_cores
        )
        self._snapshots = Snapshots(peer, outbox, known, hosted, exchange, limits)
        creation = Creation(
            peer,
            outbox,
            known,
            hosted,
            limits,
            create=self._create,
            memory=self.memory,
            speed=speed,
        )
        self._standbys = Standbys(peer, outbox, known, hosted, held, exchange, self.orders, creation, limits, machine)
        self._recovery = OrderRecovery(peer, outbox, known, hosted, held, exchange, self.orders)
        self._roles = PeerRoles(
            peer,
            outbox,
            hosted,
            held,
            exchange,
            self._snapshots,
            self.orders,
            creation,
            self._standbys,
            self._recovery,
            limits,
        )
        self._timers: Timers[Key] = Timers()
        # time in seconds at which :meth:`tick` has work, as of the last settlement; None: never
        self.next_timer: float | None = None
        self.deployments, self.components, self.roles, self.opened = known.found, hosted.found, held, hosted.opened
        self.runnable = hosted.runnable
        self.changes = outbox  # of the events that are not settled yet
        self.hosts = hosted.has  # whether a component is still on this peer

    # -- what is here --------------------------------------------------------------------------------------------

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        return self.create(deployment, component)  # looked up each time: tests exchange it while peers run

    def assignment(self, application: str, operator: str) -> Assignment | None:
        """Return the assignment of a component; None if this peer does not know it."""
        return self._known.assignment(application, operator)

    def producer(self, output: Output) -> Component | None:
        """Return the component here that makes an output, for readers."""
        return self._hosted.producer(output)

    # -- for drivers ---------------------------------------------------------------------------------------------

    def receive(self, sender: str, frame: Frame, now: float) -> list[Effect]:
        """Receive a frame of another peer."""
        self.take(sender, frame, now)
        return self.settle(now)

    def take(self, sender: str, frame: Frame, now: float) -> None:
        """Take a frame of another peer, whose effects :meth:`settle` returns: once for all events before it.

        What may be executed, and when the next timer is due, is known after that.
        """
        if sender != self._peer and (refusal := self._senders.refusal(sender, frame)):
            output = frame.stream if isinstance(frame, Determinants) else frame.output
            reason = f"{type(frame).__name__} of {output.application}/{output.operator}: {refusal}"
            self._outbox.effect(Fact(FactKind.FRAME_REFUSED, output.application, output.operator, reason, (sender,)))
            return
        match frame:
            case Data():
                if frame.reader.port == COPY:
                    self._standbys.copied(frame, now)
                else:
                    self._exchange.data(sender, frame, now)
            case Ack():
                if frame.reader.port == COPY:
                    self._snapshots.acknowledge(frame, now)
                else:
                    self._exchange.acknowledge(frame, now)
            case Subscribe():
                if frame.reader.port == COPY:
                    self._snapshots.subscribe(frame, now)
                else:
                    self._exchange.subscribe(frame, now)
            case Unsubscribe():
                self._exchange.unsubscribe(sender, frame)
            case ComponentState():
                self._standbys.snapshot(frame, now)
            case PieceRequest():
                self._snapshots.send_pieces(frame, now)
            case PieceReply():
                self._standbys.receive_piece(frame, now)
            case Recall():
                self._recovery.recall(sender, frame)
            case Determinants():
                self._recovery.determinants(sender, frame)
            case LastOrder():
                self._recovery.last_order(frame)

    def converge(self, deployment: Deployment, now: float) -> list[Effect]:
        """Carry out a deployment on this peer; ignore one older than the known one.

        Of two deployments of the same version the later one counts, as a peer receives its own components before the
        rest. After a deployment without assignments, nothing is remembered of the application.
        """
        known = self._known.found.get(deployment.application)
        if known is None or known.version <= deployment.version:
            self._known.found[deployment.application] = deployment
            if known is None or known.version < deployment.version:
                self._exchange.refuse_older()
            for operator in deployment.held_since(known):  # of one that is opened from now on the driver asks
                self._hosted.hold((deployment.application, operator), on=deployment.assignments[operator].on_hold)
            self._roles.converge(deployment, now, () if known is None else deployment.replaced_since(known))
            if not deployment.assignments:
                del self._known.found[deployment.application]
                self.predictions.set_limits(deployment.application, {})
                if known is not None:
                    self._recovery.forget(known)
        return self.settle(now)

    def hold(self, copy: Copy, determinants: Iterable[Determinant]) -> None:
        """Hold the copy of a component that a folder had, from which the next deployment may make it active.

        ``determinants``: orders of inputs on which its output depends.
        """
        key = copy.output.application, copy.output.operator
        held = self._held.of(key)
        if held.copy is not None and held.copy.state is None:  # a backup that has got no snapshot yet
            self._held.leave(key)
            held = self._held.of(key)
        if held.state is RoleState.NONE:
            held.back_up(copy, kept=True)
            self.orders.add(determinants)

    def may_emit(self, application: str, operator: str) -> bool:
        """Whether a source may emit at present."""
        return self.emitting(application, operator) is not None

    def emitting(self, application: str, operator: str) -> Component | None:
        """Return the source, or the component of another engine, if it may emit at present."""
        component = self._hosted.emitting((application, operator))
        if component is None or (component.log.size > component.log.little and component.log.blocked):
            return None
        return None if not component.feeds and self._known.on_hold(application, operator) else component

    def on_hold(self, application: str, operator: str) -> bool:
        """Return whether a source stands still, as users have paused all applications that use it."""
        return self._known.on_hold(application, operator)

    def emit(self, application: str, operator: str, chunks: Sequence[Chunk], now: float) -> list[Effect]:
        """Append the output of a source or of another engine; only while :meth:`may_emit` is true.

        ``application``, ``operator``: component that made it; ``chunks``: consecutive chunks, of which the first begins
        where the component's log ends.
        """
        component = self._hosted.emitting((application, operator))
        if component is not None:
            self.append(component, chunks, now)
        return self.settle(now)

    def append(self, component: Component, chunks: Sequence[Chunk], now: float) -> None:
        """Append the output of a component that may emit, as :meth:`emit` does, until the events are settled."""
        component.emit(chunks, now)
        self._emitted(component, now)

    def committed(self, component: Component, now: float) -> list[Effect]:
        """Handle that another engine has committed or handed over more of a component."""
        if self._hosted.has(component) and not component.failed:
            component.committed(now)
            component.change()
            self._exchange.consumed(component, now)
            if component.copies:
                self._snapshots.soon(component, now, hurry=True)
        return self.settle(now)

    def pause(self, component: Component, paused: bool, now: float) -> list[Effect]:
        """Suspend or resume the execution of a component."""
        component.pause(paused)
        self._outbox.touch(component.application, component.operator)
        return self.settle(now)

    def abort(self, application: str, operator: str, error: BaseException, now: float) -> list[Effect]:
        """Fail a component for a reason outside of its own executions."""
        component = self._hosted.found.get((application, operator))
        if component is not None:
            self._exchange.fail(component, error_reason(error))
        return self.settle(now)

    def next(
        self, now: float, accept: Callable[[Component, Chunk], bool] | None = None, together: int = 0
    ) -> Work | None:
        """Return the work that the discipline orders first, or None if nothing may be executed.

        ``accept``: predicate that decides whether the driver can execute a chunk now. If given, no unfinished work is
        resumed. None: every chunk, and unfinished work too; ``together``: largest number of tuples of consecutive
        chunks executed together; 0: one chunk at a time. Chunks are joined only if they are accepted, entered the
        system at about the same time, fit half a window, and are not expected to take long. A punctuation joins the
        tuples before it, however many they are.
        """
        runnable = self._hosted.runnable
        chosen = disciplines.first(runnable, self.discipline, accept) if runnable else None
        if chosen is None:
            return None
        before = self._hosted.runnable.pop(chosen)

        def joins(chunk: Chunk, rows: int, size: int) -> bool:
            rows += chunk.rows
            if chunk.rows and (rows > together or size + chunk.size > self.limits.window // 2):
                return False
            if chunk.rows and rows * chosen.tuple_s.moving > TOGETHER_WORK:
                return False
            if chunk.born != before.chunk.born and not mergeable(before.chunk.born, chunk.born):
                return False
            return accept is None or accept(chosen, chunk)

        return chosen.next_work(now, before, joins if together else None)

    def encoder(self, component: Component) -> Callable[[Chunk], None] | None:
        """Return the encoder of a component's chunks; None if they need not be encoded."""
        match component.log.encoding(component.peer, self.near):
            case Encoding.NONE:
                return None
            case Encoding.SHARED:
                return self.share
        return encoded

    def chained(self, work: Work) -> Work:
        """Extend work by the components that may execute its output at once, and reserve them for it.

        Its thread encodes the output where readers need that; without, output is encoded as it is sent.
        """
        component = work.component
        links: tuple[Link, ...] = ()
        if component.reading.free and not component.reading.prescribed:
            links = chain(self._hosted.found, component, self.peer, self.encoder)
        for link in links:
            link.component.suspend()
        return work._replace(encode=self.encoder(component), then=links)

    def finished(self, work: Work, outcome: ExecutionOutcome, now: float) -> list[Effect]:
        """Handle the end of an execution and of the executions chained to it."""
        self.finish(work, outcome, now)
        return self.settle(now)

    def finish(self, work: Work, outcome: ExecutionOutcome, now: float) -> None:
        """Handle the end of an execution, as :meth:`finished` does, until the events are settled."""
        for link in work.then:  # including links that were not executed
            link.component.resume()
            self._outbox.touched[link.component.key] = None
        self._ended(work, outcome, now)
        while outcome.then is not None:
            work, outcome = outcome.then
            if work.component.prediction is not None:
                work.component.prediction.executing_since(outcome.started)
            self._deliver(now)
            if self._hosted.found.get(work.component.key) is work.component:
                work.component.overtake(work.chunks, work.rows, outcome.started, now)
            self._ended(work, outcome, now)

    def _ended(self, work: Work, outcome: ExecutionOutcome, now: float) -> None:
        component = work.component
        self._outbox.touched[component.key] = None
        if self._hosted.found.get(component.key) is not component:
            if outcome.then is not None:  # the chained component needs the determinants of its input
                component.finished(work, outcome)
            return
        if outcome.error is not None or component.failed:
            component.resume()
            if outcome.error is not None:
                self._exchange.fail(component, error_reason(outcome.error))
            return
        component.finished(work, outcome)
        if outcome.chunks or component.copy_holders.numbers:
            self._emitted(component, now)
        self._exchange.consumed(component, now)

    def _deliver(self, now: float) -> None:
        """Deliver frames that are for this very peer."""
        while self._outbox.inside:
            self.take(self._peer, self._outbox.inside.popleft(), now)

    def saved(self, capture: Capture, now: float) -> list[Effect]:
        """Resume a component whose state has been saved, while that state is encoded."""
        self._snapshots.saved(capture)
        return self.settle(now)

    def captured(
        self, capture: Capture, made: Captured | BaseException, now: float, seconds: float = 0.0
    ) -> list[Effect]:
        """Announce a snapshot, encoded in so many seconds, to copies; or fail the component if that raised an error."""
        self._snapshots.captured(capture, made, now, seconds)
        return self.settle(now)

    def restored(self, restore: Restore, error: BaseException | None, now: float) -> list[Effect]:
        """Resume a component whose state was restored, or fail it."""
        component = restore.component
        component.restored()
        self._outbox.touch(component.application, component.operator)
        if error is not None and self._hosted.has(component):
            self._exchange.fail(component, f"its state could not be restored: {error_reason(error)}")
        return self.settle(now)

    def results(self, application: str, operator: str, since: Point, most: float) -> list[Chunk]:
        """Return retained results of a sink after a point: at most ``most`` bytes, but one chunk if there is any.

        Those that copies lack which it waits for are left out: after a death there would be others in their place.
        """
        component = self._hosted.found.get((application, operator))
        found: list[Chunk] = []
        if component is None:
            return found
        end, size = component.log.confirmed(component.copy_holders.confirming), 0
        for chunk in component.log.chunks(since):
            size += chunk.size
            if chunk.end > end or (found and size > most):
                break
            found.append(chunk)
        return found

    def collected(self, application: str, operator: str, read: Point, kept: Point, now: float) -> list[Effect]:
        """Record that all clients have the results of a sink up to ``read``; discard those before ``kept``."""
        component = self._hosted.found.get((application, operator))
        if component is not None:
            component.log.acknowledge(Reader(application, operator, CLIENT, self.peer), read, read, min(read, kept))
            self._outbox.touch(application, operator)
        return self.settle(now)

    def link_down(self, peer: str, now: float) -> list[Effect]:
        """Handle a broken link: frames to or from a peer may be lost."""
        self._exchange.link_down(peer, now)
        self._standbys.link_down(peer, now)
        return self.settle(now)

    def tick(self, now: float) -> list[Effect]:
        """Do everything that is due."""
        for key in self._timers.due(now):
            self._outbox.touch(*key)
            component = self._hosted.found.get(key)
            if component is not None:
                self._exchange.tick(component, now)
            role = self._held.found.get(key)
            if role is not None and role.state is not RoleState.ACTIVE:
                self._roles.tick(key, now)
                component = self._hosted.found.get(key)
            if component is not None and component.copy_holders.numbers:
                self._snapshots.tick(component, now)
        self._outbox.effects.extend(self.predictions.tick(now))
        self._outbox.effects.extend(self.inputs.tick(now))
        return self.settle(now)

    def settle(self, now: float) -> list[Effect]:
        """Return the effects of all events since the last time, and update what may be executed, timers and reports.

        Several events are settled at once, as a component is touched by most of them, and once is enough.
        """
        if self._outbox.inside:
            self._deliver(now)
        timers = self._timers
        for key in self._outbox.touched:
            role, due = self._held.found.get(key), math.inf
            if role is not None and role.state is not RoleState.ACTIVE:
                self._roles.report(key, role, now)
                due = self._roles.due(role)
            component = self._hosted.found.get(key)
            if component is not None:
                due = min(due, self._exchange.due(component))
                if isinstance(component.logic, MergedLogic):
                    self.inputs.note(component, now)
                first = component.first if component.logic is not None else None
                if first is not None:
                    self._hosted.runnable[component] = first
                else:
                    self._hosted.runnable.pop(component, None)
                at = self._snapshots.at(component) if component.copy_holders.numbers else None
                if at is not None and at < due:
                    due = at
                if component.log.collected and component.has_news():
                    self._outbox.effects.append(Arrived(*key))
            if timers.at.get(key, math.inf) != due:
                timers.set(key, due if due < math.inf else None)
        self._outbox.touched.clear()
        at, predictions = self.inputs.due, self.predictions.due
        if timers.next is not None and timers.next < at:
            at = timers.next
        if predictions is not None and predictions < at:
            at = predictions
        self.next_timer = at if at < math.inf else None
        if self.predictions.violations:
            self._outbox.effects.extend(self.predictions.take_violations())
        effects = self._outbox.effects.copy()
        self._outbox.effects.clear()
        return effects

    def _emitted(self, component: Component, now: float) -> None:
        if component.role is not Role.ACTIVE:
            return
        for cursor in component.log.laggards() if component.log.size > self.limits.retain else ():
            self._exchange.dismiss(component, cursor, now)
        if component.copy_holders.numbers:
            self._snapshots.soon(component, now + SNAPSHOT_S)
        self._exchange.flush(component, now)
