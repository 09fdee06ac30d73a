"""Delivery of chunks from logs to readers: subscriptions, acknowledgements and retransmission. No IO, no clock.

A reader subscribes until the producer answers. It acknowledges what it has consumed when that is a quarter of the
window, or after 50 ms. A producer retransmits what has not been acknowledged for half a
second, or for three times as long as acknowledgements took before, and asks a reader that blocks it for its progress.
Each timeout is doubled after it has passed in vain: on a slow link, data that are on their way must not be
retransmitted over and over.

A subscription has two ends, each with a state and a table: what the reader knows is the state of its input
(``InputState`` in ``log/merge``), what the producer knows is the state of the reader's cursor (``CursorState`` in
``log/log``). Each changes by what its own end hears, so they differ while frames are on their way. One difference would
last: a reader that believes that it is subscribed asks nobody, and a producer that only expects it sends nothing.

Frames that were overtaken may have the two ends disagree so: a late answer confirms a subscription that the producer
has not received, or a late Unsubscribe of a former component removes a cursor. So a producer also asks the readers that
its deployment names and that have not subscribed. An acknowledgement of such a reader, which believes that it has,
subscribes it from what it has received (``test_exchange`` loses and reorders each of these frames).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.input_changes import change_inputs, has_others, output_of
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.frames import Ack, Data, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log.log import EXPECTED, LOST, UNASKED, Cursor, Limits, LogTrimmed
from synergy_nb.dataflow.streams.log.merge import ASKING, CLOSED, RETRY_S, Port, Receipt
from synergy_nb.dataflow.streams.log.values import COPY, ComponentStream, OnLag, Point, Reader
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import END, START

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
    from synergy_nb.dataflow.streams.hosting._known_orders import Orders
    from synergy_nb.dataflow.streams.hosting._outbox import Outbox

ACK_S: Final = 0.05  # longest delay of an acknowledgement, seconds
TOGETHER: Final = 1 << 19  # bytes of output that is made again which a durable folder gets at a time
STALL_S: Final = 2.0  # seconds without progress after which nothing is retained any more for an active replica


class Exchange:
    """Subscriptions, acknowledgements and retransmission of one peer."""

    def __init__(
        self,
        peer: str,
        outbox: Outbox,
        known: KnownDeployments,
        hosted: HostedComponents,
        orders: Orders,
        limits: Limits,
        *,
        machine: Callable[[], str],  # returns the machine whose memory the peer can read
        unused_cores: Callable[[], float],  # returns the unused cores of the peer, which acknowledgements report
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._known = known
        self._hosted = hosted
        self._orders = orders
        self._limits = limits
        self._machine = machine
        self._unused_cores = unused_cores
        self._sequence = 0  # number of the last arrival

    def fail(self, component: Component, reason: str) -> None:
        """Fail a component: release its memory and its queues, and notify its sharers."""
        if not component.failed:
            component.fail(reason)
            self.notify_sharers(component, f"has failed: {reason}")
            self._outbox.effect(Fact(FactKind.COMPONENT_FAILED, component.application, component.operator, reason))

    # -- producers -----------------------------------------------------------------------------------------------

    def flush(self, component: Component, now: float, *, whole: bool = False) -> None:
        """Send each reader the chunks that its window has room for.

        ``whole``: whether a durable folder gets all, also the last output of a component that makes it again: otherwise
        that is sent once it is much, as nobody waits for it.
        """
        self._outbox.touched[component.key] = None
        if component.role is not Role.ACTIVE:
            return
        log = component.log
        blocked, holders = log.size > log.little and log.blocked, component.copy_holders
        confirming = holders.confirming if holders.numbers else ()
        version = self._known.found[component.application].version
        for cursor in tuple(log.cursors.values()):
            if cursor.reader.port < COPY or cursor.state is LOST:
                continue  # a client collects by itself; a lost reader gets nothing more
            unasked = version if cursor.state is UNASKED else 0
            if cursor.sent < log.start and cursor.state is not EXPECTED:
                self._begin_later(component, cursor, unasked)
            waits = cursor.reader.peer == FOLDER and not whole and FOLDER not in confirming
            waits = waits and log.between(cursor.sent, log.end) < min(TOGETHER, self._limits.window // 8)
            chunks = [] if waits else log.due(cursor, confirming)
            trimmed = log.saved if cursor.reader.peer == FOLDER else log.start
            if chunks or self._is_to_hear(cursor, trimmed, confirming):
                start = chunks[0].start if chunks else cursor.sent
                data = Data(component.output, cursor.reader, start, tuple(chunks), False, trimmed, unasked=unasked)
                self._outbox.send(cursor.reader.peer, data)
                if cursor.reader.peer == FOLDER:
                    cursor.hear_trimmed(trimmed)
            if blocked:
                self._wait_for(component, cursor, now)
            if cursor.resend_at is None and (cursor.state is EXPECTED or cursor.sent > cursor.received):
                cursor.await_answer(now)

    def _begin_later(self, component: Component, cursor: Cursor, unasked: int) -> None:
        """Have a reader that is behind the log begin where that does: a copy restarts, or it lacks only a promise."""
        start, copy = component.log.start, cursor.reader.port == COPY
        if copy or cursor.sent.position == start.position:
            cursor.skip_to(start)
            begun = Data(component.output, cursor.reader, start, (), copy, unasked=unasked)
            self._outbox.send(cursor.reader.peer, begun)

    @staticmethod
    def _is_to_hear(cursor: Cursor, trimmed: Point, confirming: Collection[str]) -> bool:
        """Whether a durable folder, which writes only output that readers still need, has to hear what they need."""
        if cursor.reader.peer != FOLDER or FOLDER in confirming:
            return False
        return cursor.state is not EXPECTED and cursor.trimmed < trimmed

    @staticmethod
    def _wait_for(component: Component, cursor: Cursor, now: float) -> None:
        """Expect an answer of a reader, if it is one for which a component that is blocked waits."""
        stalls = cursor.on_lag is OnLag.GROUP and component.log.holds_up(cursor)
        if stalls:
            cursor.stalls(now)
        if cursor.resend_at is None and (stalls or cursor.on_lag is OnLag.BLOCK):
            cursor.await_answer(now)

    def dismiss(self, component: Component, cursor: Cursor, now: float) -> None:
        """Notify a sharer, repeatedly until it confirms, that nothing is retained for it any more."""
        cursor.remind(now)
        limit = self._limits.retain
        reason = f"it reads too slowly: more bytes wait for it than are retained; expected at most {limit}"
        self._outbox.send(cursor.reader.peer, Unsubscribe(component.output, cursor.reader, reason))

    def subscribe(self, frame: Subscribe, now: float) -> None:
        """Let a reader read from the requested point, or notify it that this is impossible."""
        component = self.answer(frame)
        if component is not None:
            self.flush(component, now)

    def answer(self, frame: Subscribe) -> Component | None:
        """Answer a subscription; return the component that sends chunks from now on, or None if it sends none."""
        component, reader = self._hosted.producer(frame.output), frame.reader
        if component is not None and component.failed and reader.application != component.application:
            self.refuse(component, reader, f"has failed: {component.failed}")
        if component is None or not _can_answer(component, frame):
            return None  # the reader asks again
        cursor = self._subscribed(component, frame)
        if cursor is None:
            return None
        log = component.log
        start, losses = log.next_point(cursor.sent), component.losses.carried(log.end.position)
        latest = _latest(component)
        began = reader.port == COPY and (frame.since is None or frame.since.position < start.position)
        self._outbox.send(
            reader.peer, Data(frame.output, reader, start, (), began, end=log.end, losses=losses, latest=latest)
        )
        return component

    def _subscribed(self, component: Component, frame: Subscribe) -> Cursor | None:
        """Subscribe a reader; None if what it requests is gone, of which it is notified."""
        log, reader = component.log, frame.reader
        expected = log.cursors.get(reader)
        try:
            return log.subscribe(reader, frame.since, OnLag.RESYNC if expected is None else expected.on_lag)
        except LogTrimmed as error:
            if expected is not None and expected.on_lag is not OnLag.RESYNC:  # else it is an old request of a follower
                self._outbox.send(reader.peer, Unsubscribe(frame.output, reader, str(error)))
            return None

    def acknowledge(self, ack: Ack, now: float) -> None:
        """Record the progress of a component that reads, and send what its window has room for."""
        component = self._hosted.producer(ack.output)
        if component is None or not self.reads(ack, component, self.subscribe, now):
            return
        log = component.log
        # output that is not made again is retained until it is saved: who moves has to have what readers may need
        durable = ack.durable
        if ack.saved is not None and FOLDER in component.copy_holders.confirming:
            durable = ack.saved
        log.acknowledge(ack.reader, ack.received, ack.consumed, durable, now=now, saved=ack.saved)
        if ack.received < log.end or log.size > log.little or component.copy_holders.numbers:
            self.flush(component, now)
        else:  # there is nothing to send it, and it holds nobody up
            self._outbox.touched[component.key] = None

    def reads(self, ack: Ack, component: Component, subscribe: Callable[[Subscribe, float], None], now: float) -> bool:
        """Whether the reader of an acknowledgement is subscribed: if it only believes so, it is subscribed by that.

        ``subscribe``: function that subscribes it.
        """
        cursor = component.log.cursors.get(ack.reader)
        if cursor is None or cursor.state is LOST:
            return False
        if cursor.state is EXPECTED and ack.received.position >= component.log.start.position:  # else it is an old one
            subscribe(Subscribe(ack.output, ack.reader, ack.received, cursor.on_lag), now)
        return cursor.state is not EXPECTED

    def notify_sharers(self, component: Component, what: str) -> None:
        """Notify all sharers of a stream that its component has ended, unless they have received the whole stream.

        ``component``: component that emits nothing more; ``what``: predicate of a sentence about the component, such as
        "has moved".
        """
        end = component.log.end
        for cursor in component.log.cursors.values():
            if cursor.on_lag is OnLag.FAIL and cursor.state is not LOST and (end.until != END or cursor.received < end):
                cursor.lose()
                self.refuse(component, cursor.reader, what)

    def refuse(self, component: Component, reader: Reader, what: str) -> None:
        """Notify a sharer of a stream that it will receive nothing more."""
        reason = f"{component.application}/{component.operator}, whose stream it shares, {what}"
        self._outbox.send(reader.peer, Unsubscribe(component.output, reader, reason))

    def unsubscribe(self, sender: str, frame: Unsubscribe) -> None:
        """Handle that a reader has ended, or that a producer sends nothing more."""
        if frame.reason:
            if frame.reader.port >= 0:
                self._outbox.send(sender, Unsubscribe(frame.output, frame.reader))  # so it need not be repeated
                self._lose_producer(frame)
            return
        producer = self._hosted.producer(frame.output)
        if producer is not None and sender == frame.reader.peer:
            cursor = producer.log.cursors.get(frame.reader)
            if cursor is not None and (cursor.state is LOST or cursor.on_lag is OnLag.RESYNC):
                producer.log.unsubscribe(frame.reader)  # deployments remove others

    def _lose_producer(self, frame: Unsubscribe) -> None:
        """Handle that the producer of an input sends nothing more: the component fails, unless others read for it."""
        reader = frame.reader
        component = self._hosted.found.get((reader.application, reader.operator))
        if component is None or component.reader(reader.port) != reader or reader.port not in component.ports:
            return
        port = component.ports[reader.port]
        if port.epoch != frame.output.epoch or port.received.until == END or port.state is CLOSED:
            return
        if has_others(component, reader.port):
            port.close()
            self._check_streams(component)
            self._outbox.effect(Fact(FactKind.INPUT_LOST, component.application, component.operator, frame.reason))
        else:
            self.fail(component, f"input {reader.port}, {frame.output.operator}: {frame.reason}")

    # -- readers -------------------------------------------------------------------------------------------------

    def change_inputs(self, key: tuple[str, str], assignment: Assignment) -> None:
        """Add the stream replicas that a component has to read from now on, and leave those that are discarded."""
        component = self._hosted.found.get(key)
        if component is None or not assignment.inputs:  # a sink that only keeps results has no inputs any more
            return
        ports = dict(component.ports)
        changed = change_inputs(component, assignment)
        for number, output in changed.left.items():
            if ports[number].peer:
                self._outbox.send(ports[number].peer, Unsubscribe(output, component.reader(number)))
                ports[number].lose_producer()
        if any(changed):
            self._check_streams(component)

    def refuse_older(self, stream: ComponentStream | None = None) -> None:
        """Accept chunks of the present epochs only: others may depend from now on on what was read until now.

        ``stream``: stream that this concerns; None: all streams.
        """
        for component in self._hosted.found.values():
            for number, port in component.ports.items():
                feed = component.feeds[number]
                if stream is None or feed == (stream.application, stream.operator):
                    port.refuse_older()

    def readdress(self, component: Component, now: float, replaced: Collection[str] = ()) -> None:
        """Read each input from the peer that now makes it.

        If only one component has been replaced (``replaced``), as by a move, then both its peers emit the same tuples
        at the same positions, as the new one reads in the order of the old one. So chunks of the old peer that are on
        their way are accepted, and nothing pauses: until there is another deployment, or until the new peer asks for
        the order of inputs, and this peer answers.

        An input that reads a later epoch has followed a peer before its deployment arrived. If a later deployment has
        an earlier epoch, a successor leads that does not know of that peer: then it goes back.
        """
        self._outbox.touch(component.application, component.operator)
        for number, feed in component.feeds.items():
            port = component.ports[number]
            found = self._known.producer(component.application, feed)
            if found is None:  # no peer makes it any more, or yet
                port.lose_producer()
                continue
            back = 0 < port.ahead < self._known.version(feed.application)
            if (port.epoch > found[1] and not back) or (port.peer, port.epoch) == found or port.state is CLOSED:
                continue
            known, older = self._known.found.get(feed.application), False
            if known is not None and list(replaced) == [feed.operator]:
                made = known.assignments.get(feed.operator)
                older = made is not None and made.rebuilt < found[1] and not made.external
            port.read_from(*found, now, older=older)

    def resubscribe(self, component: Component) -> None:
        """Subscribe again in a later epoch: from now on the producers have to wait for the component as it is now."""
        for port in component.ports.values():
            port.ask_again(0.0)

    def subscribe_for(self, component: Component, follower: str, since: Mapping[int, Point]) -> None:
        """Have the producers of a component send to its new follower what comes after a snapshot.

        The follower subscribes itself once it has the snapshot; but that takes the way from it to the producers more.

        ``follower``: address of the peer that follows it; ``since``: number of each input to the point up to which the
        snapshot covers it.
        """
        for number, port in component.ports.items():
            if port.peer and number in since:
                reader = component.reader(number)._replace(peer=follower, epoch=component.epoch + 1)
                self._outbox.send(
                    port.peer, Subscribe(output_of(component, number), reader, since[number], OnLag.RESYNC)
                )

    def leave(self, component: Component) -> None:
        """Unsubscribe a component from all its inputs."""
        for number, port in component.ports.items():
            if port.peer:
                self._outbox.send(port.peer, Unsubscribe(output_of(component, number), component.reader(number)))

    def data(self, sender: str, frame: Data, now: float) -> None:
        """Receive chunks for an input of a component."""
        reader = frame.reader
        component = self._hosted.found.get((reader.application, reader.operator))
        if (
            component is None
            or (component.peer, component.epoch) != (reader.peer, reader.epoch)
            or reader.port not in component.ports
        ):
            if sender != self._peer:
                self._outbox.send(sender, Unsubscribe(frame.output, reader))
            return
        port = component.ports[reader.port]
        if component.feeds[reader.port] != (frame.output.application, frame.output.operator):
            return
        if frame.output.epoch == port.older:
            self._outbox.touch(reader.application, reader.operator)
            self._receive(component, port, frame, now, confirms=False)  # what is missing the new peer sends
            return
        if frame.output.epoch == port.epoch + 1 and self._is_later(frame) and port.state is not CLOSED:
            # It has moved. Only a peer that has replaced a component sends unasked, so this is no guess; chunks of the
            # old peer are on their way, as in `readdress`. Readers of other applications hear last of a move.
            port.read_from(sender, frame.output.epoch, now, older=True, ahead=frame.unasked)
        if frame.output.epoch != port.epoch:
            return
        self._outbox.touched[component.key] = None
        if port.state is CLOSED:
            return
        if frame.losses:
            component.losses.add(frame.losses)
        if frame.chunks:
            gap = self._receive(component, port, frame, now, confirms=not frame.unasked)
        else:
            self._sequence += 1
            gap = not port.begin(frame.start, self._sequence, now, frame.end, frame.latest)
        port.answered(now, now + ACK_S, gap=gap)

    def _is_later(self, frame: Data) -> bool:
        """Whether a producer has sent a frame unasked, by a deployment that is not known here yet."""
        return frame.unasked > self._known.version(frame.output.application)

    def _receive(self, component: Component, port: Port, frame: Data, now: float, *, confirms: bool) -> bool:
        """Queue what is new of the chunks of a frame; return whether chunks before them are missing.

        ``confirms``: whether the frame shows that the producer has the subscription.
        """
        self._sequence += 1
        sequence, before, size, gap = self._sequence, port.received.position, 0, False
        prediction = component.prediction
        if prediction is not None and now >= prediction.peer.next_count:
            prediction.peer.advance(now)
        for chunk in frame.chunks:
            receipt = port.receive(port.epoch, chunk, sequence, now, confirms=confirms)
            if receipt is Receipt.NEW:
                size += chunk.size
                if chunk.determinants:
                    self._orders.add(chunk.determinants)
                if prediction is not None:
                    prediction.received(chunk, now)
            gap = gap or receipt is Receipt.GAP
        component.arrived(port.received.position - before, now, size)
        return gap

    def _check_streams(self, component: Component) -> None:
        """Fail a component if streams have ended, and no other stream of the same port has all tuples."""
        logic, ports = component.logic, component.ports
        if not isinstance(logic, MergedLogic) or component.running:
            return
        closed = [port for port in ports.values() if port.state is CLOSED]
        if not closed or any(port.queue for port in closed):
            return
        left = [number for number, port in ports.items() if port.state is not CLOSED]
        port = logic.incomplete(left)
        if port is not None and not any(ports[number].queue for number in left):
            self.fail(component, f"input {port}: no stream is left that has all of its tuples")

    def consumed(self, component: Component, now: float) -> None:
        """Send the acknowledgements that are due after an execution, or after copies have covered more."""
        self._outbox.touched[component.key] = None
        for number, port in component.ports.items():
            if (port.received, port.consumed, port.durable, port.saved) == port.acknowledged:
                continue
            if port.unacknowledged >= self._limits.window // 4 or port.consumed.until == END:
                self._acknowledge(component, number)
            elif port.ack_at is None:
                port.acknowledge_at(now + ACK_S)
        if isinstance(component.logic, MergedLogic):
            self._check_streams(component)

    def _acknowledge(self, component: Component, number: int) -> None:
        port = component.ports[number]
        received, consumed, durable, saved = port.acknowledge()
        if port.peer and port.state is not ASKING:
            unused = 0.0 if port.peer == self._peer else self._unused_cores()  # a peer knows its own
            kept = saved if FOLDER in component.copies else None
            reader = component.reader(number)
            output = output_of(component, number)
            ack = Ack(output, reader, received, consumed, durable, unused_cores=unused, saved=kept)
            self._outbox.send(port.peer, ack)

    # -- time ----------------------------------------------------------------------------------------------------

    @staticmethod
    def due(component: Component) -> float:
        """Return the time in seconds at which :meth:`tick` has work for a component."""
        at = math.inf
        if component.failed:
            return at
        for port in component.ports.values():
            if port.state is ASKING and port.peer and port.retry_at < at:
                at = port.retry_at
            if port.ack_at is not None and port.ack_at < at:
                at = port.ack_at
        for cursor in component.log.cursors.values():
            if cursor.resend_at is not None and cursor.resend_at < at:
                at = cursor.resend_at
        return at

    def tick(self, component: Component, now: float) -> None:
        """Subscribe, acknowledge and retransmit where that is due."""
        if component.failed:
            return
        for number, port in component.ports.items():
            if port.state is ASKING and port.peer and port.retry_at <= now:
                self._ask(component, number, now)
            if port.ack_at is not None and port.ack_at <= now:
                self._acknowledge(component, number)
        silent = False
        for cursor in component.log.cursors.values():
            if cursor.resend_at is not None and cursor.resend_at <= now:
                self._deal_with_silence(component, cursor, now)
                silent = True
        if silent:
            self.flush(component, now)

    def _ask(self, component: Component, number: int, now: float) -> None:
        """Ask the producer of an input for what comes next."""
        port = component.ports[number]
        port.asked(now)
        on_lag = OnLag.BLOCK
        if component.role is Role.FOLLOWER:
            on_lag = OnLag.RESYNC
        elif component.feeds[number].application != component.application:
            on_lag = OnLag.FAIL
        output, machine = output_of(component, number), self._machine()
        self._outbox.send(port.peer, Subscribe(output, component.reader(number), port.since, on_lag, machine))

    def _deal_with_silence(self, component: Component, cursor: Cursor, now: float) -> None:
        """Deal with a reader from which no acknowledgement came in time."""
        log = component.log
        # with a folder a replica that died goes on from there: what it has not read is retained for it
        leaves = FOLDER not in component.copies
        stalls = cursor.on_lag is OnLag.GROUP and now - cursor.progressed_at >= STALL_S and leaves
        if cursor.state is LOST or (stalls and log.holds_up(cursor) and log.give_up(cursor)):
            self.dismiss(component, cursor, now)
            return
        cursor.timed_out()
        if cursor.state is EXPECTED:
            if not _restores(component):  # else nobody knows yet where it begins
                cursor.back_off()
                start = Point(max(cursor.sent, log.start).position, START)  # the reader may believe that it subscribed
                told = Data(component.output, cursor.reader, start, end=log.end, latest=_latest(component))
                self._outbox.send(cursor.reader.peer, told)
        elif cursor.sent > cursor.received:
            cursor.send_again()
        elif cursor.on_lag in (OnLag.BLOCK, OnLag.GROUP):  # its last acknowledgement may be lost
            self._outbox.send(cursor.reader.peer, Data(component.output, cursor.reader, cursor.sent))

    def link_down(self, peer: str, now: float) -> None:
        """Subscribe components again, and retransmit: frames on their way to or from a peer may be lost."""
        for key, component in self._hosted.found.items():
            self._outbox.touch(*key)
            for port in component.ports.values():
                if port.peer == peer:
                    port.ask_again(now + RETRY_S)
            for cursor in component.log.cursors.values():
                if cursor.reader.peer == peer and cursor.state is not EXPECTED:
                    cursor.link_broken(now)


def _latest(component: Component) -> int:
    """Greatest event time that an active replica has emitted, µs; ``START`` for any other component."""
    return component.logic.latest if isinstance(component.logic, MergedLogic) else START


def _can_answer(component: Component, frame: Subscribe) -> bool:
    """Whether a component can tell a reader where its stream begins for it."""
    reader, known = frame.reader, component.log.cursors
    if component.failed or (reader.port == COPY and reader.peer not in component.copies):
        return False  # not deployed here yet, or no longer
    if frame.since is None and reader.peer != FOLDER and _restores(component):
        return False  # a stream that joins others has to know what was before it; a folder joins none, and asks once
    # a reader that is unknown, and no follower or replacement: its deployment has not arrived here yet
    return reader.port == COPY or reader in known or any(reader.replaces(each) for each in known)


def _restores(component: Component) -> bool:
    """Whether the state of an active replica is still to be restored."""
    return isinstance(component.logic, MergedLogic) and component.logic.restoring
