"""The queue of one link: chunks, backpressure, and imposed delays.

A comm has no backpressure: it buffers without limit what the socket does not accept. So :meth:`Outgoing.write` writes
one chunk at a time and waits until the previous one has been sent. The queue behind it is counted in bytes; the caller
of :meth:`Outgoing.put` limits it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.models.link_bandwidth import Backlog

__all__ = [
    "FRAME_OVERHEAD",
    "MARK",
    "Comm",
    "Frame",
    "LinkDown",
    "LinkFull",
    "LinkLimits",
    "Outgoing",
    "RemoteError",
    "Shape",
]

MARK: Final = 3  # first element of a frame with the number of bytes sent, see synergy_nb.models.link_bandwidth
FRAME_OVERHEAD: Final = 16  # bytes counted for a frame beyond its payload

Frame = bytes | tuple[Any, ...]


class Comm(Protocol):
    """The methods of a connection that a link needs; every Dask comm has them."""

    async def read(self) -> Any:
        """Return the next message; raise ``OSError`` when the comm is closed."""

    async def write(self, msg: Any) -> Any:
        """Pass a message to the comm, which may buffer it."""

    def abort(self) -> None:
        """Close at once."""

    def closed(self) -> bool:
        """Whether it is closed."""


class Shape(Protocol):
    """Properties imposed on the link to another peer: ``shape(to) -> (one-way delay in s, bandwidth in bytes/s)``."""

    def __call__(self, to: str, /) -> tuple[float, float]: ...


class LinkDown(SynergyError, ConnectionError):
    """A link failed before the answer to a request arrived."""


class LinkFull(SynergyError, BufferError):
    """A frame, or the queue of a link, exceeds its limit in bytes."""


class RemoteError(SynergyError, RuntimeError):
    """The handler of a request failed at the other peer; the message is that of its error."""


class LinkLimits(msgspec.Struct, frozen=True):
    """Limits of all links of a peer."""

    connect: float = 2.5  # seconds until an attempt to open a link counts as failed
    # limit of control messages and requests queued on one link, bytes. A longer request counts as data
    control: int = 8 << 20
    # limit of data and answers queued on one link, bytes. Credits limit hosting far below it
    data: int = 256 << 20
    chunk: int = 256 << 10  # bytes passed to the comm at a time; at most two chunks (and one frame) are inside the comm
    frames: int = 1024  # most frames in one chunk, so that its receiver does not occupy its event loop for long
    # limit of one frame, bytes. No peer sends a longer one, and a peer that receives one closes the link
    message: int = 1 << 30
    serving: int = 1024  # most requests that are served at the same time; half of them of one sender
    clients: int = 256  # most links of clients, which have no address to connect to
    peers: int = 4096  # most links of peers
    flush: float = 0.5  # seconds that closing waits until queued frames are sent
    patience: float = 30.0  # seconds within which a message that has begun must bring 256 KiB more or end

    @property
    def longest(self) -> int:
        """Bytes of the longest message that a link can carry: a chunk is full when its last frame is added."""
        return self.message + 2 * self.chunk


class Outgoing:
    """The queue of frames for one other peer, in order."""

    def __init__(self, to: str, limits: LinkLimits, resumed: Callable[[str, int], None]) -> None:
        self.to = to  # address of the other peer
        # control, data: bytes in the queue, including delayed frames
        self.control = 0
        self.data = 0
        self.dropped = 0  # control messages dropped since the queue last moved; the caller counts them
        self._moved = asyncio.Event()  # event whose waiters resume whenever frames have left the queue
        self._waiting = 0  # number of these waiters: nearly always there are none
        self._limits = limits  # limits of chunks
        # callback with the number of control messages that were dropped, once the queue moves again
        self._resumed = resumed
        self._queue: deque[tuple[Frame, int, bool, bool]] = deque()  # frame, size, is data, had to wait
        self._delayed: deque[tuple[float, Frame, int, bool, bool]] = deque()
        self._backlog = Backlog()
        self._wake = asyncio.Event()
        self._free_at = 0.0  # time at which a shaped link has sent everything so far
        self._timer: asyncio.TimerHandle | None = None

    def put(self, frame: Frame, size: int, *, data: bool | None, shape: Shape | None) -> None:
        """Add a frame of ``size`` bytes; with a shape it leaves when the modelled link has carried it.

        It counts as data or as a control message; if ``data`` is None, as what its size makes it.
        """
        data = self._long(size) if data is None else data
        behind = self.control + self.data > 0
        if data:
            self.data += size
        else:
            self.control += size
        if shape is None and not self._delayed:
            self._queue.append((frame, size, data, behind))
            self._wake.set()
            return
        loop = asyncio.get_running_loop()
        delay, bandwidth = (0.0, float("inf")) if shape is None else shape(self.to)
        behind = self._free_at > loop.time()  # travelling frames block nothing, only those not sent yet
        self._free_at = max(self._free_at, loop.time()) + size / bandwidth
        due = self._free_at + delay
        if self._delayed:
            due = max(due, self._delayed[-1][0])  # the delay may change; the order must not
        self._delayed.append((due, frame, size, data, behind))
        if self._timer is None:
            self._timer = loop.call_at(due, self._release)

    def _release(self) -> None:
        """Queue all delayed frames that are due."""
        loop = asyncio.get_running_loop()
        now = loop.time() + 1e-4  # a timer may fire a clock tick early
        delayed = self._delayed
        while delayed and delayed[0][0] <= now:
            self._queue.append(delayed.popleft()[1:])
        self._timer = loop.call_at(delayed[0][0], self._release) if delayed else None
        self._wake.set()

    def clear(self) -> None:
        """Discard the queue."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queue.clear()
        self._delayed.clear()
        self.control = self.data = 0
        self._tell()

    def fits(self, size: int) -> bool:
        """Whether a request of ``size`` bytes fits into the queue; one that exceeds the limit fits if it is alone."""
        limits = self._limits
        queued, limit = (self.data, limits.data) if self._long(size) else (self.control, limits.control)
        return not queued or queued + size <= limit

    def _long(self, size: int) -> bool:
        return size > self._limits.control

    async def movement(self) -> None:
        """Return when frames have left the queue."""
        self._waiting += 1
        try:
            await self._moved.wait()
        finally:
            self._waiting -= 1

    async def drained(self) -> None:
        """Return when everything has left the queue."""
        while self.control or self.data:
            await self.movement()

    def _tell(self) -> None:
        """Resume all who wait until the queue moves."""
        self._moved.set()
        self._moved.clear()

    async def write(self, comm: Comm) -> None:
        """Write all frames that are put here, until the task is cancelled; raise ``OSError`` when the comm fails."""
        queue, limits = self._queue, self._limits
        flushed: Awaitable[Any] | None = None
        while True:
            if not queue:
                self._wake.clear()
                await self._wake.wait()
            frames: list[Frame] = []
            control = data = 0
            contiguous = True
            while queue and control + data < limits.chunk and len(frames) < limits.frames:
                frame, size, is_data, behind = queue.popleft()
                frames.append(frame)
                contiguous = contiguous and behind
                if is_data:
                    data += size
                else:
                    control += size
            mark = self._backlog.sent(control + data, contiguous)
            if mark is not None:
                frames.append((MARK, *mark))
            await comm.write(tuple(frames))
            if flushed is not None:
                await flushed  # the previous chunk
            stream = getattr(comm, "stream", None)
            flushed = stream.write(b"") if stream is not None and stream.writing() else None
            self.control -= control
            self.data -= data
            if self._waiting:
                self._tell()
            if self.dropped:
                self._resumed(self.to, self.dropped)
                self.dropped = 0
