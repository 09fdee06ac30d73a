"""The two ends of a channel between components: credits in bytes, and a filter for duplicates. No IO, no clock.

The ends agree on a *window* in bytes. The sending end (:class:`Outlet`) may have at most a window of bytes outside that
the receiving end (:class:`Inlet`) has not consumed yet; what does not fit waits in the outbox. Grants say how many
bytes were consumed *since the channel began*: one that is lost, doubled or overtaken does no harm.

Items travel in :class:`Parcel` values, which carry what queues need to know (position, rows, size), so nothing here
looks into a table. A receiving end expects the position after the last one that it took: what it took before is
dropped, what overlaps is cut (``Parcel.skip``), and a gap raises :class:`PositionGap`.

Where the reader is replicated, the sending end retains what it has sent until every backup of the reader has a state
that covers it, and sends it once more to the one that takes over (:meth:`Outlet.rewind`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

__all__ = ["Inlet", "Outlet", "Parcel", "PositionGap", "before"]

RETAIN_BYTES: Final = 8 << 20  # that a channel retains for the backups of its reader; then it waits for them


class PositionGap(ValueError):
    """Tuples of a stream are missing: an item begins after the position that its channel expects."""


class Parcel(msgspec.Struct):
    """An item of a stream with what queues need to know about it.

    Parameters
    ----------
    item
        The batch or punctuation itself; not looked at here.
    position
        Position of its first tuple in its stream; of a punctuation, of the tuple that follows it.
    rows
        Tuples in it; 0 for a punctuation.
    size
        Bytes that it takes from the window of a channel; both ends must count the same.
    born
        Wall-clock time at which the oldest item behind it entered the system, in seconds.
    time
        Event time of a punctuation in µs; None for a batch.
    payload
        Its encoded form, where it travels to another peer.
    skip
        Leading tuples that are duplicates and are to be cut off.
    """

    item: Any
    position: int
    rows: int
    size: int
    born: float
    time: int | None = None
    payload: bytes | None = None
    skip: int = 0

    @property
    def fresh(self) -> int:
        """Tuples in it that are no duplicates."""
        return self.rows - self.skip


def before(parcel: Parcel, position: int) -> bool:
    """Whether all of a parcel is before a position; a punctuation at the very position may not have been seen."""
    return parcel.position + max(parcel.rows, 1) <= position


class Outlet:
    """Sending end of a channel.

    Parameters
    ----------
    channel
        Name of the channel.
    window
        Bytes that may be outside.
    local
        Whether the receiving end is on the same peer.

    Attributes
    ----------
    keepers : dict
        Backups of the reader, each with the position up to which its state covers the stream.
    held : bool
        Whether nothing may be sent, since there is no reader at the moment.
    """

    __slots__ = ("acknowledged", "channel", "held", "keepers", "local", "outbox", "retained", "sent", "size", "window")

    def __init__(self, channel: str, window: int, local: bool) -> None:
        self.channel = channel
        self.window = window
        self.local = local
        self.sent = 0  # bytes since the channel began
        self.acknowledged = 0  # of these, bytes that the other end has consumed
        self.outbox: deque[Parcel] = deque()
        self.keepers: dict[str, int] = {}
        self.retained: deque[Parcel] = deque()
        self.size = 0  # bytes in it
        self.held = False

    @property
    def credit(self) -> int:
        """Bytes that may still be sent; negative only after a single parcel of more than half a window."""
        return self.window - self.sent + self.acknowledged

    @property
    def open(self) -> bool:
        """Whether the component may produce more for this channel."""
        if self.held or self.size >= RETAIN_BYTES:
            return False
        return not self.outbox and self.sent - self.acknowledged < self.window

    def ready(self) -> bool:
        """Whether the first parcel of the outbox may be sent now.

        Grants lag by up to a quarter of a window, so a parcel of more than half of it goes out as soon as half of it
        is free: asking for more could wait for ever.
        """
        return bool(self.outbox) and not self.held and self.credit >= min(self.outbox[0].size, self.window // 2)

    def send(self) -> Parcel:
        """Take the first parcel out of the outbox and pay for it."""
        parcel = self.outbox.popleft()
        self.sent += parcel.size
        if self.keepers:
            self.retained.append(parcel)
            self.size += parcel.size
        return parcel

    def settle(self, keeper: str, position: int) -> None:
        """A backup of the reader has a state that covers all before ``position``: it will not be asked for again."""
        if keeper in self.keepers:
            self.keepers[keeper] = max(position, self.keepers[keeper])
            self._trim()

    def guard(self, keepers: Iterable[str]) -> None:
        """The reader has these backups from now on; what is retained because of others goes."""
        self.keepers = {keeper: self.keepers.get(keeper, 0) for keeper in keepers}
        self._trim()

    def _trim(self) -> None:
        least = min(self.keepers.values(), default=None)
        while self.retained and (least is None or before(self.retained[0], least)):
            self.size -= self.retained.popleft().size

    def rewind(self, prepare: Callable[[Parcel], Parcel], keepers: Iterable[str], *, local: bool) -> None:
        """Another reader takes the place of the one that there was: send it all that is retained, on a new account.

        Parameters
        ----------
        prepare
            Gives a parcel in the form in which it goes to the new reader.
        keepers
            Backups of the new one.
        local
            Whether it is on this peer.
        """
        self.outbox = deque(prepare(parcel) for parcel in (*self.retained, *self.outbox))
        self.retained.clear()
        self.size = self.sent = self.acknowledged = 0
        self.held, self.local = False, local
        self.guard(keepers)

    def acknowledge(self, consumed: int) -> bool:
        """The other end has consumed ``consumed`` bytes since the channel began; False if that is old news."""
        if consumed <= self.acknowledged:
            return False
        self.acknowledged = min(consumed, self.sent)
        return True


class Inlet:
    """Receiving end of a channel, with its queue.

    Parameters
    ----------
    component
        Component that the input belongs to.
    port
        Which of its inputs.
    channel
        Name of the channel.
    window
        Bytes that the sending end may have outside.
    expected
        Position that the first item must have; None: whatever comes first (a stream that is joined later).
    """

    __slots__ = (
        "channel",
        "component",
        "consumed",
        "expected",
        "granted",
        "port",
        "queue",
        "queued",
        "until",
        "upstream",
        "window",
    )

    def __init__(self, component: Any, port: int, channel: str, *, window: int, expected: int | None) -> None:
        self.component = component
        self.port = port
        self.channel = channel
        self.window = window
        self.expected = expected
        self.until: int | None = None  # event time of the last punctuation
        self.queue: deque[tuple[int, float, Parcel]] = deque()  # with sequence number and time of arrival
        self.queued = 0  # bytes
        self.consumed = 0  # bytes since the channel began
        self.granted = 0  # of these, bytes that the sending end was told
        self.upstream: Outlet | None = None  # the sending end, if it is on this peer

    def screen(self, parcel: Parcel) -> Parcel | None:
        """What of ``parcel`` is new, or None.

        Raises
        ------
        PositionGap
            If tuples before it are missing.
        """
        expected = parcel.position if self.expected is None else self.expected
        if parcel.position > expected:
            raise PositionGap(
                f"channel {self.channel!r}: item at position {parcel.position}, expected {expected}: "
                f"{parcel.position - expected} tuples are missing"
            )
        if parcel.time is not None:
            if parcel.position < expected or (self.until is not None and parcel.time <= self.until):
                return None
            self.until = parcel.time
            self.expected = expected
            return parcel
        end = parcel.position + parcel.rows
        if end <= expected:
            return None
        self.expected = end
        if parcel.position < expected:
            return msgspec.structs.replace(parcel, skip=expected - parcel.position)
        return parcel

    def rewind(self) -> None:
        """Another sender takes the place of the one that there was, on a new account."""
        self.consumed = self.granted = 0

    def consume(self, size: int) -> bool:
        """``size`` bytes have left the queue for good; True if the sending end, on another peer, should hear of it."""
        self.consumed += size
        if self.upstream is not None:
            self.upstream.acknowledge(self.upstream.acknowledged + size)
            return False
        return self.consumed - self.granted >= self.window // 4
