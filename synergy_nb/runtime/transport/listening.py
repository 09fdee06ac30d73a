"""Limits for the ports on which Dask listens: the length of a message is checked before a buffer is allocated.

Dask's own reader allocates a buffer of the length that eight bytes from the network state, and waits without limit for
the rest of a message. :func:`bound` lets the listeners of a server accept comms that read the same wire format with
limits:

* *Before the handshake* the other end is unknown. The one message that is expected then has at most
  ``Bounds.handshake`` bytes, is plain data (Dask would accept pickled objects), and has to arrive within
  ``Bounds.patience`` seconds.
* *Afterwards* a message has at most ``Bounds.message`` bytes, the memory of the machine, as Dask may be used for other
  work; messages of our links are limited in :mod:`~synergy_nb.runtime.transport._framing`. Between two messages a comm
  may be silent for any time, but a message that has begun continues within ``Bounds.patience`` seconds.

A refused message closes its connection, and is reported with the reason. The number of frames and each of their lengths
have to agree with the total length before them, so a buffer is allocated only for a checked length. A Dask server
also has a port for HTTP, where Tornado limits lengths but not times; this module limits these.

Whoever can open a connection and speaks Dask's protocol can do what Dask allows clients, which is to run code. So
where a cluster has an authority, the certificate of a connection says what may be asked for on it (:class:`Door`): a
message of a role that may not ask for all is read as plain data, never unpickled, and what it asks for is compared with
a table. Who may ask for nothing, as its certificate was revoked, gets one answer that says so to a worker of Dask, to
who asks for anything else, and to a link: else it would try again and again.

Who connects reads with limits, too, and answers as plain data, where it opens a link (:func:`linked`): the peer at the
other end may lie.
"""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there)

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import time
import weakref
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from distributed.comm.core import CommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import (
    TCP,
    TLS,
    TCPListener,
    TLSBackend,
    TLSConnector,
    TLSListener,
    convert_stream_closed_error,
)
from distributed.comm.utils import from_frames
from distributed.system import MEMORY_LIMIT

from synergy_nb.control.identity import Identity, NotAllowed
from synergy_nb.errors import SynergyError
from synergy_nb.runtime.identity.dask_doors import Operations

__all__ = [
    "PIECE",
    "REFUSED",
    "BoundedComm",
    "Bounds",
    "Door",
    "MessageLengthError",
    "Reported",
    "bound",
    "buffer",
    "check",
    "linked",
    "prepared_stream",
    "without_pages",
]

# length of a message, and of each frame in it, in the byte order of the machine, as Dask has it
LENGTH: Final = struct.Struct("Q")
# Dask's marks of what runs code when it is read
PICKLED: Final = frozenset({"__Pickled__", "__Serialized__", "__Enum__"})
KEPT: Final = 64  # files that a process can still open when it accepts no more connections
AT_ONCE: Final = 10  # refusals that are reported one after another
LINKS: Final = "synergy-link"  # scheme of addresses of Dask by which connections of links are opened
REFUSED: Final = "refused"  # field of the answer to who may ask for nothing
ANSWER_READ: Final = 2.0  # seconds within which it has read it
PIECE: Final = 256 << 10  # bytes of a message that have to arrive within the patience: a rate of 9 kB/s

Refused = Callable[[str, str], None]
"""Callback for a refused message: the address of its sender, and the reason."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits of the messages that an accepted comm reads."""

    # bytes of the first message. Dask's has about a hundred
    handshake: int = 1024
    message: int = MEMORY_LIMIT  # bytes of any other message
    # seconds within which a handshake must arrive, and within which a message that has begun must bring 256 KiB more or
    # end
    patience: float = 30.0


class Reported:
    """Reports refused messages, at a limited rate: a port scan must not fill the journal."""

    def __init__(self, report: Refused, clock: Callable[[], float]) -> None:
        # callback with address and reason, for `AT_ONCE` refusals in a row, and one a second after that. The reason
        # includes the number of refusals since the last report
        self._report = report
        self._clock = clock  # function that returns the time in seconds
        self._room = float(AT_ONCE)
        self._then = clock()
        self._unreported = 0

    def __call__(self, address: str, reason: str) -> None:
        """Count a refused message, and report it if the rate allows."""
        now = self._clock()
        self._room = min(self._room + now - self._then, float(AT_ONCE))
        self._then = now
        if self._room < 1.0:
            self._unreported += 1
            return
        self._room -= 1.0
        others = f" ({self._unreported} more since the last report)" if self._unreported else ""
        self._unreported = 0
        self._report(address, reason + others)


class Door:
    """Who may ask for what at one server: roles by certificate, and operations by role."""

    def __init__(
        self,
        identify: Callable[[Any], Identity | None],  # function that returns who is at the other end of a comm
        revoked: AbstractSet[str],  # ids whose certificates no longer count; it grows
        operations: Operations,
    ) -> None:
        self._identify = identify
        self._revoked = revoked
        self._operations = operations
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()

    def admit(self, comm: Any) -> frozenset[str] | None:
        """Return the operations that the other end of a comm may ask for; None: all.

        Raises ``NotAllowed`` if it may ask for none.
        """
        identity = self._identify(comm)
        if identity is None or identity.id in self._revoked or identity.role not in self._operations:
            who = "who has no certificate of this cluster" if identity is None else identity.id
            why = ", whose certificate was revoked" if identity is not None and identity.id in self._revoked else ""
            raise NotAllowed(f"by {who}{why}")
        self._open.add(comm)
        return self._operations[identity.role]

    def hand_over(self, comm: Any) -> None:
        """Leave it to somebody else to close a comm when its certificate no longer counts."""
        self._open.discard(comm)

    def end_revoked(self) -> None:
        """Close the open comms of those whose certificates no longer count."""
        for comm in list(self._open):
            identity = None if comm.closed() else self._identify(comm)
            if identity is not None and identity.id in self._revoked:
                comm.abort()


class MessageLengthError(SynergyError, ValueError):
    """A message states a length that is impossible, or that exceeds the bounds."""


class _Handshake(msgspec.Struct):
    """The fields that Dask needs of the first message of a comm."""

    compression: str | None
    pickle_protocol: int = msgspec.field(name="pickle-protocol")


REFUSALS: Final = (
    MessageLengthError,
    NotAllowed,
    TimeoutError,
    MemoryError,
    msgspec.MsgspecError,
    UnicodeDecodeError,
)


class BoundedComm(TCP):
    """A TCP comm that checks lengths before it allocates buffers.

    ``arguments``: positional arguments of Dask's ``TCP`` comm.
    """

    def __init__(
        self, *arguments: Any, bounds: Bounds, refused: Refused, door: Door | None = None, answers: bool = False
    ) -> None:
        super().__init__(*arguments)
        self._door = door  # who may ask for what, or None
        self._answers = answers  # whether what comes are answers of whom this side has connected to: plain data
        self._operations: frozenset[str] | None = None  # those that the other end may ask for; None: all
        # bounds, refused: limits of its messages, and the callback for messages beyond them
        self._bounds = bounds
        self._refused = refused

    async def read(self, deserializers: Any = None) -> Any:
        """Return the next message.

        Raises ``CommClosedError`` if the comm is closed, also after a refused message.
        """
        stream = self.stream
        if stream is None:
            raise CommClosedError
        first = not self.remote_info  # no handshake yet
        try:
            frames = await self._frames(stream, first=first)
            if first:
                if self._door is not None:
                    self._operations = self._door.admit(self)
                return _handshake(frames)
            if self._answers:
                _check_plain(msgspec.msgpack.decode(frames[0]), PICKLED)
            if self._operations is not None:
                _check_asked(frames, self._operations, deserializes=bool(self.deserialize))
        except REFUSALS as error:
            if first and isinstance(error, NotAllowed):
                await self._answer(f"a handshake {error}")
            raise self._refusal(error, first=first) from None
        except OSError as error:  # the other end has closed
            self.abort()
            convert_stream_closed_error(self, error)
        except BaseException:
            self.abort()
            raise
        try:
            return await from_frames(
                frames, deserialize=self.deserialize, deserializers=deserializers, allow_offload=self.allow_offload
            )
        except EOFError:
            self.abort()
            raise CommClosedError("a message was cut short") from None

    async def _answer(self, refused: str) -> None:
        """Say why the comm is closed, and wait a moment until the other end has read it and closes."""
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(min(ANSWER_READ, self._bounds.patience)):
                # "missing" is what a worker of Dask understands, which asks to register or sends its heartbeat
                answer = {"status": "missing", "message": refused, REFUSED: refused, "time": time.time()}
                await self.write(answer, serializers=["msgpack"])
                while self.stream is not None:
                    await self.stream.read_bytes(PIECE, partial=True)

    def _refusal(self, error: Exception, *, first: bool) -> CommClosedError:
        """Close the comm and report why; return the error for its reader."""
        what = "handshake" if first else "message"
        if isinstance(error, TimeoutError):
            within = "was not there" if first else "did not go on"
            reason = f"a {what} that {within} within {self._bounds.patience:g} s"
        elif isinstance(error, MemoryError):
            reason = f"a {what} that the memory has no room for"
        elif isinstance(error, MessageLengthError | NotAllowed):
            reason = f"a {what} {error}"
        else:
            reason = f"an invalid {what}: {error}"
        self.abort()
        self._refused(self.peer_address, reason)
        return CommClosedError(f"refused: {reason}")

    async def _frames(self, stream: Any, *, first: bool) -> list[memoryview]:
        """Return the frames of the next message; buffers are allocated for checked lengths only."""
        if not first:
            return await self._message(stream, self._bounds.message)
        async with asyncio.timeout(self._bounds.patience):
            return await self._message(stream, self._bounds.handshake)

    async def _message(self, stream: Any, most: int) -> list[memoryview]:
        head = await stream.read_bytes(LENGTH.size, partial=True)  # returns as soon as the message has begun
        if len(head) < LENGTH.size:
            head += await self._soon(stream.read_bytes(LENGTH.size - len(head)))
        (size,) = LENGTH.unpack(head)
        check(size, most)
        frames, lengths = _split(await self._filled(stream, size))
        if lengths:
            check(size + sum(lengths), most)
            for length in lengths:
                frames.append(await self._filled(stream, length))
        return frames

    async def _filled(self, stream: Any, size: int) -> memoryview:
        """Read ``size`` bytes into a buffer."""
        filled = buffer(size)
        for begin in range(0, size, PIECE):
            await self._soon(stream.read_into(filled[begin : begin + PIECE]))
        return filled

    async def _soon(self, read: Awaitable[Any]) -> Any:
        """Await a read within the time limit; most data has arrived already, and needs no timer."""
        if isinstance(read, asyncio.Future) and read.done():
            return read.result()
        async with asyncio.timeout(self._bounds.patience):
            return await read


class BoundedTLSComm(BoundedComm, TLS):
    """A bounded comm over TLS."""


class _LinkConnector(TLSConnector):
    """Opens the connections of links."""

    def __init__(self) -> None:
        made: Any = partial(BoundedTLSComm, bounds=Bounds(), refused=_not_reported, answers=True)
        self.comm_class = made

    async def connect(self, *arguments: Any, **more: Any) -> Any:
        """Open a connection; if whoever asks for it gives up, it is closed once it is there.

        Where a loop is late, the connection is often there as the time is over, and then the cancellation of what opens
        it closes nothing (test_a_connection_that_is_there_as_its_caller_gives_up_is_closed). So that is not cancelled.
        """
        opening = asyncio.ensure_future(super().connect(*arguments, **more))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            late = asyncio.get_running_loop().call_later(Bounds().patience, opening.cancel)
            opening.add_done_callback(partial(_close_unused, late))
            raise


def _close_unused(late: asyncio.TimerHandle, opening: asyncio.Future[Any]) -> None:
    """Close a connection that nobody waits for any more."""
    late.cancel()
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abort()


class _LinkBackend(TLSBackend):
    """Dask's TLS for links."""

    _connector_class = _LinkConnector


def _not_reported(_address: str, _reason: str) -> None:
    """Stand in for a callback: who has connected gets the reason as an error."""


backends[LINKS] = _LinkBackend()


def linked(address: str) -> str:
    """Return the address by which Dask opens the connection of a link, so that its answers are bounded plain data.

    Only TLS has one: without it, whoever answers may run code anyhow.

    >>> linked("tls://127.0.0.1:4567"), linked("tcp://127.0.0.1:4567")
    ('synergy-link://127.0.0.1:4567', 'tcp://127.0.0.1:4567')
    """
    scheme, _, location = address.partition("://")
    return f"{LINKS}://{location}" if scheme == "tls" else address


def bound(server: Any, refused: Refused, bounds: Bounds | None = None, door: Door | None = None) -> None:
    """Limit the messages that a Dask server accepts on its ports; comms accepted earlier remain as they are.

    ``server``: worker or scheduler that listens. Only TCP and TLS have ports; within a process there is nothing to
    limit; ``refused``: callback for refused messages, see :class:`Reported`: the address of the sender, and the reason;
    ``bounds``: limits of the messages of each comm; by default those of :class:`Bounds`; ``door``: who may ask for
    what, if the cluster has an authority.
    """
    limits, reported = bounds or Bounds(), Reported(refused, asyncio.get_running_loop().time)
    for each in server.listeners:
        if isinstance(each, TCPListener | TLSListener):
            listener: Any = each
            kind = BoundedTLSComm if listener.encrypted else BoundedComm
            prepare = type(listener)._prepare_stream
            listener.comm_class = partial(kind, bounds=limits, refused=reported, door=door)
            listener._prepare_stream = partial(prepared_stream, prepare, listener, limits, reported)
    pages = getattr(server, "http_server", None)
    if pages is not None:
        pages.conn_params.header_timeout = pages.conn_params.body_timeout = limits.patience


def without_pages(server: Any) -> None:
    """Close the HTTP port of a Dask server without a dashboard: it has no pages then."""
    server.http_server.stop()
    server.services.pop("dashboard", None)


async def prepared_stream(
    prepare: Any, listener: Any, bounds: Bounds, refused: Refused, stream: Any, address: str
) -> Any:
    """Prepare an accepted connection as the listener does (over TLS, its handshake), within the time limit."""
    try:
        if (full := no_files_left(stream.socket.fileno())) is not None:
            stream.close()
            refused(address, full)
            return None
        async with asyncio.timeout(bounds.patience):
            prepared = await prepare(listener, stream, address)
    except TimeoutError:
        stream.close()
        refused(address, f"a TLS handshake that was not done within {bounds.patience:g} s")
        return None
    except ValueError:  # the listener cannot name its port where a handshake fails after it has stopped
        if listener.tcp_server is not None:
            raise
        stream.close()
        return None
    error = stream.error if prepared is None else None
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):  # not who only looks who listens
        refused(address, f"a TLS handshake that failed: {error.reason or error}")
    return prepared


def no_files_left(number: int, most: int | None = None) -> str | None:
    """Why a connection is refused whose socket has this number, if few files are left to the process; else None.

    The system gives the least free number, so it says how many files are open. ``most``: limit of the process.

    >>> no_files_left(1000, most=1024)
    'a connection, as the process has 1000 of 1024 files open; it keeps 64 for its work'
    """
    most = _most_files() if most is None else most
    if most is None or number < most - KEPT:
        return None
    return f"a connection, as the process has {number} of {most} files open; it keeps {KEPT} for its work"


def _most_files() -> int | None:
    """Return how many files this process may have open; None where the system states no limit."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ModuleNotFoundError:
        return None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


def _handshake(frames: list[memoryview]) -> dict[str, Any]:
    """Decode the first message of a comm, which is plain data.

    Raises ``DecodeError`` if it is not plain data.
    """
    msgspec.msgpack.decode(frames[0], type=_Handshake)
    return msgspec.msgpack.decode(frames[0], type=dict[str, Any])


def _check_asked(frames: list[memoryview], operations: AbstractSet[str], *, deserializes: bool) -> None:
    """Check that a message, or each of several in one, asks for nothing but some operations, and is plain data.

    Raises ``NotAllowed`` if it is not so; ``DecodeError`` if it is no MessagePack.
    """
    foreign = PICKLED if deserializes else PICKLED - {"__Serialized__"}
    message = msgspec.msgpack.decode(frames[0])
    _check_plain(message, foreign)
    for each in message if isinstance(message, list) else [message]:
        operation = each.get("op") if isinstance(each, dict) else None
        if operation not in operations:
            raise NotAllowed(f"that asks for {operation!r:.100}; expected one of {', '.join(sorted(operations))}")


def _check_plain(message: Any, foreign: AbstractSet[str]) -> None:
    """Raise ``NotAllowed`` if a message has a mark of what would have to be unpickled."""
    if _has_key(message, foreign):
        raise NotAllowed("with an object that would have to be unpickled; expected plain data")


def _has_key(value: Any, keys: AbstractSet[str]) -> bool:
    """Whether a value, or any that it contains, is a mapping with one of some keys."""
    remaining = [value]
    while remaining:
        each = remaining.pop()
        if isinstance(each, dict):
            if not keys.isdisjoint(each):
                return True
            remaining.extend(each.values())
        elif isinstance(each, list):
            remaining.extend(each)
    return False


def buffer(size: int) -> memoryview:
    """Allocate a buffer whose pages take memory when they are written; writable, as arrays are made on top of it."""
    return np.empty(size, "u1").data


def _split(message: memoryview) -> tuple[list[memoryview], list[int]]:
    """Return the frames in the first buffer of a message, and the lengths of those that follow it.

    The buffer begins with the number of frames and the length of each.
    """
    size = message.nbytes
    if size < LENGTH.size:
        raise MessageLengthError(f"of {size} bytes; expected at least {LENGTH.size}")
    (number,) = LENGTH.unpack_from(message)
    most = size // LENGTH.size - 1
    if not 1 <= number <= most:
        raise MessageLengthError(f"that says it has {number} frames; expected 1 to {most}, as it has {size} bytes")
    lengths = struct.unpack_from(f"{number}Q", message, LENGTH.size)
    at = LENGTH.size * (1 + number)
    frames: list[memoryview] = []
    for index, length in enumerate(lengths):
        if at == size:
            return frames, list(lengths[index:])
        if length > size - at:
            raise MessageLengthError(
                f"that says its frame {index + 1} has {length} bytes; expected at most {size - at}"
            )
        frames.append(message[at : at + length])
        at += length
    if at != size:
        raise MessageLengthError(f"of {size} bytes whose frames have {at} bytes")
    return frames, []


def check(size: int, most: int) -> None:
    """Check that a length is within a limit.

    Raises ``MessageLengthError`` if it is not.
    """
    if size > most:
        raise MessageLengthError(f"that says it has {size} bytes; expected at most {most}")
