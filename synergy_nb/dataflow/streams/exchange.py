"""How chunks get from logs to readers: subscriptions, acknowledgements, and what is sent again. No IO, no clock.

A reader subscribes until it hears of the producer. It acknowledges what it consumed when that is a quarter of the
window, or after 50 ms. A producer sends again what nobody says to have received for half a second, or three times as
long as that took before, and asks a reader that it has to wait for how far that is. Whoever asks or sends in vain waits
twice as long the next time: on a slow link what is on its way must not be sent over and over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.copies import Copy
from synergy_nb.dataflow.streams.deployments import Role, producer
from synergy_nb.dataflow.streams.frames import Ack, Data, Frame, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log import Cursor, LogTrimmed
from synergy_nb.dataflow.streams.merge import Taken
from synergy_nb.dataflow.streams.values import COPY, OnLag, Output, Reader
from synergy_nb.dataflow.tuples import END

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting import Hosting

__all__ = ["ACK_S", "RESEND_MOST_S", "RESEND_S", "RETRY_S", "Exchange", "Source"]

ACK_S: Final = 0.05  # seconds until what was consumed is acknowledged
RETRY_S: Final = 0.05  # seconds between the first two subscriptions, until the producer answers
RETRY_MOST_S: Final = 0.8  # seconds between two later ones
RESEND_S: Final = 0.5  # seconds until what nobody has acknowledged is sent again for the first time
RESEND_MOST_S: Final = 16.0  # seconds until it is sent again later


class Source:
    """Where one input of a component reads.

    Attributes
    ----------
    peer : str
        Address of the peer that makes the stream; empty if that is not known yet.
    retry_at : float
        Time in seconds at which it subscribes, as long as it is not subscribed.
    wait_s : float
        Seconds until it subscribes again.
    ack_at : float or None
        Time in seconds at which it acknowledges; None if there is nothing to say.
    """

    __slots__ = ("ack_at", "peer", "retry_at", "wait_s")

    def __init__(self) -> None:
        self.peer = ""
        self.retry_at = 0.0
        self.wait_s = RETRY_S
        self.ack_at: float | None = None


class Exchange:
    """Subscriptions, acknowledgements and repetitions of one peer.

    Parameters
    ----------
    hosting
        Components and copies of the peer.
    """

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._sources: dict[Component, list[Source]] = {}

    # -- producers -----------------------------------------------------------------------------------------------

    def flush(self, component: Component, now: float) -> None:
        """Send readers what they have room for."""
        self._hosting.touch(component.application, component.operator)
        if component.role is not Role.ACTIVE:
            return
        log = component.log
        blocked = log.blocked
        for cursor in tuple(log.cursors.values()):
            if cursor.reader.port < COPY or cursor.lost:  # a client, who collects, or one that gets nothing more
                continue
            if cursor.subscribed and cursor.reader.port == COPY and cursor.sent.position < log.start.position:
                cursor.sent = log.start  # it has to begin anew
                self._send(cursor.reader.peer, Data(component.output, cursor.reader, log.start, (), True))
            chunks = log.due(cursor)
            if chunks:
                data = Data(component.output, cursor.reader, chunks[0].start, tuple(chunks), False, log.start)
                self._hosting.send(cursor.reader.peer, data)
            waits = blocked and cursor.subscribed and cursor.on_lag is OnLag.BLOCK
            if cursor.resend_at is None and (waits or cursor.sent > cursor.received):
                cursor.unheard_since = now
                cursor.resend_at = now + max(cursor.patience, RESEND_S)

    def dismiss(self, component: Component, cursor: Cursor, now: float) -> None:
        """Tell a sharer that nothing is kept for it any more, until it has heard that."""
        cursor.resend_at = now + RESEND_S
        limit = self._hosting.limits.retain
        reason = f"it reads too slowly: more bytes wait for it than are kept; expected at most {limit}"
        self._send(cursor.reader.peer, Unsubscribe(component.output, cursor.reader, reason))

    def subscribe(self, frame: Subscribe, now: float) -> None:
        """Let a reader read from where it asks to, or tell it that this cannot be."""
        component, reader = self._hosting.producer(frame.output), frame.reader
        if component is not None and component.failed and reader.application != component.application:
            self.refuse(component, reader, f"has failed: {component.failed}")
        if component is None or component.failed or (reader.port == COPY and reader.peer not in component.copies):
            return  # it is not here yet, or not known here yet, or no longer: the reader asks again
        log = component.log
        expected = log.cursors.get(reader)
        if expected is None and reader.port != COPY and not any(reader.replaces(known) for known in log.cursors):
            return  # nor is it one that follows or comes after another: the deployment that tells of it is not here yet
        try:
            cursor = log.subscribe(reader, frame.since, OnLag.RESYNC if expected is None else expected.on_lag)
        except LogTrimmed as error:
            if expected is not None and expected.on_lag is not OnLag.RESYNC:  # else it is an old question of a follower
                self._send(reader.peer, Unsubscribe(frame.output, reader, str(error)))
            return
        start = log.next_point(cursor.sent)
        began = reader.port == COPY and (frame.since is None or frame.since.position < start.position)
        self._send(reader.peer, Data(frame.output, reader, start, (), began))
        if reader.port == COPY:
            self._hosting.snapshots.subscribed(component, reader.peer, frame.since is None, now)
        self.flush(component, now)

    def notify_sharers(self, component: Component, what: str) -> None:
        """Tell all who share a stream what has become of the component that makes it; who has its end needs no more.

        Parameters
        ----------
        component
            Component that emits nothing more.
        what
            Predicate of a sentence about the component, such as "has moved".
        """
        end = component.log.end
        for cursor in component.log.cursors.values():
            if cursor.on_lag is OnLag.FAIL and not cursor.lost and (end.until != END or cursor.received < end):
                cursor.lost = True
                self.refuse(component, cursor.reader, what)

    def refuse(self, component: Component, reader: Reader, what: str) -> None:
        """Tell one who shares a stream that there is nothing more to come of it."""
        reason = f"{component.application}/{component.operator}, whose stream it shares, {what}"
        self._send(reader.peer, Unsubscribe(component.output, reader, reason))

    # -- readers -------------------------------------------------------------------------------------------------

    def readdress(self, component: Component, now: float) -> None:
        """Read each input where its producer now is."""
        self._hosting.touch(component.application, component.operator)
        sources = self._sources.setdefault(component, [Source() for _ in component.feeds])
        for feed, port, source in zip(component.feeds, component.ports, sources, strict=True):
            found = producer(self._hosting.deployments, component.application, feed.application, feed.operator)
            if found is None:  # nobody makes it any more, or not yet
                source.peer = ""
                continue
            if port.epoch > found[1] or (source.peer, port.epoch) == found:
                continue
            source.peer, port.epoch = found
            source.retry_at, source.wait_s, port.subscribed = now, RETRY_S, False

    def resubscribe(self, component: Component) -> None:
        """A component that has been a follower is now one that producers wait for: it subscribes anew."""
        for port, source in zip(component.ports, self._sources.get(component, ()), strict=False):
            port.subscribed, source.retry_at, source.wait_s = False, 0.0, RETRY_S

    def leave(self, component: Component) -> None:
        """A component reads no more."""
        for number, source in enumerate(self._sources.pop(component, [])):
            if source.peer:
                self._send(source.peer, Unsubscribe(self._output(component, number), component.reader(number)))

    def data(self, sender: str, frame: Data, now: float) -> None:
        """Take chunks for an input of a component."""
        reader = frame.reader
        component = self._hosting.components.get((reader.application, reader.operator))
        if component is None or component.reader(reader.port) != reader or reader.port >= len(component.ports):
            if sender != self._hosting.peer:
                self._send(sender, Unsubscribe(frame.output, reader))
            return
        port, source = component.ports[reader.port], self._sources[component][reader.port]
        if component.feeds[reader.port] != (frame.output.application, frame.output.operator):
            return
        if frame.output.epoch != port.epoch:
            return
        self._hosting.touch(component.application, component.operator)
        sequence = self._hosting.arrival()
        before = port.received.position
        gap = not frame.chunks and not port.begin(frame.start, sequence, now)
        source.wait_s = RETRY_S
        for chunk in frame.chunks:
            taken = port.take(frame.output.epoch, chunk, sequence, now)
            if taken is Taken.NEW:
                component.bytes_in += chunk.size
                self._hosting.orders.add(chunk.determinants)
            gap = gap or taken is Taken.GAP
        component.arrived(port.received.position - before if port.joined else 0, now)
        component.tuples_in += port.received.position - before
        if gap:
            port.subscribed, source.retry_at = False, min(source.retry_at, now + RETRY_S)
        if source.ack_at is None:
            source.ack_at = now + ACK_S

    def consumed(self, component: Component, now: float) -> None:
        """A component has executed something, or its copies cover more."""
        self._hosting.touch(component.application, component.operator)
        for number, (port, source) in enumerate(zip(component.ports, self._sources[component], strict=True)):
            places = (port.received, port.consumed, port.durable)
            if places == port.acknowledged:
                continue
            if port.unacknowledged >= self._hosting.limits.window // 4 or port.consumed.until == END:
                self._acknowledge(component, number, now)
            elif source.ack_at is None:
                source.ack_at = now + ACK_S

    def _acknowledge(self, component: Component, number: int, now: float) -> None:
        port, source = component.ports[number], self._sources[component][number]
        port.acknowledged = (port.received, port.consumed, port.durable)
        port.unacknowledged = 0
        source.ack_at = None
        if source.peer and port.subscribed:
            left = self._hosting.left()
            reader = component.reader(number)
            self._send(source.peer, Ack(self._output(component, number), reader, *port.acknowledged, left=left))

    def _output(self, component: Component, number: int) -> Output:
        feed = component.feeds[number]
        return Output(feed.application, feed.operator, 0, component.ports[number].epoch)

    def _send(self, to: str, frame: Frame) -> None:
        self._hosting.send(to, frame)

    # -- time ----------------------------------------------------------------------------------------------------

    def due(self, key: tuple[str, str]) -> float:
        """Time in seconds at which :meth:`tick` has something to do for a component, its copy or its recovery."""
        at = math.inf
        component = self._hosting.components.get(key)
        if component is not None and not component.failed:
            for port, source in zip(component.ports, self._sources[component], strict=True):
                if not port.subscribed and source.peer and source.retry_at < at:
                    at = source.retry_at
                if source.ack_at is not None and source.ack_at < at:
                    at = source.ack_at
            for cursor in component.log.cursors.values():
                if cursor.resend_at is not None and cursor.resend_at < at:
                    at = cursor.resend_at
        copy = self._hosting.roles.copies.get(key)
        if copy is not None:
            times = (None if copy.merge.subscribed else copy.retry_at, copy.ack_at, copy.next_request_time)
            at = min((at, *(time for time in times if time is not None)))
        recovery = self._hosting.roles.recoveries.get(key)
        return at if recovery is None else min(at, recovery.retry_at)

    def tick(self, key: tuple[str, str], now: float) -> None:
        """Subscribe, acknowledge, send again and ask again where it is time."""
        component = self._hosting.components.get(key)
        if component is not None and not component.failed:
            self._tick(component, now)
        copy = self._hosting.roles.copies.get(key)
        if copy is not None:
            self._tick_copy(key, copy, now)
        recovery = self._hosting.roles.recoveries.get(key)
        if recovery is not None and recovery.retry_at <= now:
            question, peers = recovery.recall(now)
            for peer in peers:
                self._send(peer, question)

    def _tick(self, component: Component, now: float) -> None:
        for number, (port, source) in enumerate(zip(component.ports, self._sources[component], strict=True)):
            if not port.subscribed and source.peer and source.retry_at <= now:
                source.retry_at = now + source.wait_s
                source.wait_s = min(2.0 * source.wait_s, RETRY_MOST_S)
                on_lag = OnLag.BLOCK
                if component.role is Role.FOLLOWER:
                    on_lag = OnLag.RESYNC
                elif component.feeds[number].application != component.application:
                    on_lag = OnLag.FAIL
                output, machine = self._output(component, number), self._hosting.machine()
                self._send(source.peer, Subscribe(output, component.reader(number), port.since, on_lag, machine))
            if source.ack_at is not None and source.ack_at <= now:
                self._acknowledge(component, number, now)
        for cursor in component.log.cursors.values():
            if cursor.resend_at is not None and cursor.resend_at <= now:
                if cursor.lost:
                    self.dismiss(component, cursor, now)
                    continue
                cursor.resend_at = None
                if cursor.sent > cursor.received:
                    cursor.sent = cursor.received
                    cursor.patience = min(2.0 * max(cursor.patience, RESEND_S), RESEND_MOST_S)
                elif cursor.on_lag is OnLag.BLOCK:  # what it said of what it consumed may be lost
                    self._send(cursor.reader.peer, Data(component.output, cursor.reader, cursor.sent))
        self.flush(component, now)

    def _tick_copy(self, key: tuple[str, str], copy: Copy, now: float) -> None:
        place = self._hosting.place(*key)
        if place is None:
            return
        reader = Reader(*key, COPY, self._hosting.peer)
        if not copy.merge.subscribed and copy.retry_at <= now:
            copy.retry_at = now + RETRY_S
            self._send(
                place.active, Subscribe(copy.output, reader, copy.merge.since, OnLag.RESYNC, self._hosting.machine())
            )
        if copy.next_request_time is not None and copy.next_request_time <= now:
            self._hosting.roles.ask(key, now)
        if copy.ack_at is not None and copy.ack_at <= now:
            copy.ack_at = None
            received = copy.merge.received
            number = copy.number(self._hosting.components.get(key))
            self._send(place.active, Ack(copy.output, reader, received, received, received, number))

    def link_down(self, peer: str, now: float) -> None:
        """What was on its way to or from a peer may be lost: subscribe again, and send again."""
        for key, component in self._hosting.components.items():
            self._hosting.touch(*key)
            for port, source in zip(component.ports, self._sources[component], strict=True):
                if source.peer == peer:
                    port.subscribed, source.retry_at, source.wait_s = False, now + RETRY_S, RETRY_S
            for cursor in component.log.cursors.values():
                if cursor.reader.peer == peer and cursor.subscribed:
                    cursor.sent = min(cursor.sent, cursor.received)
                    cursor.resend_at, cursor.patience = now + RESEND_S, RESEND_S
        for key, copy in self._hosting.roles.copies.items():
            self._hosting.touch(*key)
            place = self._hosting.place(*key)
            if place is not None and place.active == peer:
                copy.merge.subscribed, copy.retry_at = False, now + RETRY_S
