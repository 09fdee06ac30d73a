"""Framing of a link on the stream of its comm: checked lengths, plain data, one step of the loop for each message.

After the handshake over a Dask comm, two peers send their messages over the comm's own stream without Dask's protocol,
which takes several steps of the event loop for each message. A message is its length (:data:`LENGTH`) and a list of
frames as MessagePack, which is plain data: it cannot contain pickled objects. The length is checked before a buffer is
allocated, and a message that has begun must continue in time.

Comms without such a stream, such as those within one process, transfer tuples of frames themselves.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import Any, Final

import msgspec
from tornado.iostream import BaseIOStream

from synergy_nb.runtime.transport.listening import PIECE, MessageLengthError, buffer, check
from synergy_nb.runtime.transport.wire import Comm, Frame, LinkLimits

LENGTH: Final = struct.Struct("<Q")  # format of the length in front of a message
AT_ONCE: Final = 1 << 16  # bytes read from a stream at a time; a longer message has its own buffer


class FramedComm:
    """Messages on the stream of a comm."""

    def __init__(self, comm: Comm, stream: Any, limits: LinkLimits) -> None:
        self.stream = stream  # tornado stream of the comm
        self._comm = comm  # comm after the handshake
        # limits of the link: the longest message, and the seconds within which a message that has begun must bring 256
        # KiB more or end
        self._limits = limits
        self._rest = b""  # the beginning of the next message
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder().decode

    async def read(self) -> tuple[Frame, ...]:
        """Return the frames of all messages that have arrived, at least of one.

        Raises ``MessageLengthError`` if a message is longer than the link allows; ``ValueError`` if a message is not a
        list of frames, or does not continue in time.
        """
        frames: list[Frame] = []
        while not frames:
            came = await self._more()
            if self._rest:
                came = self._rest + came
            at = 0
            while len(came) - at >= LENGTH.size:
                (size,) = LENGTH.unpack_from(came, at)
                try:
                    check(size, self._limits.longest)
                except MessageLengthError as error:
                    raise MessageLengthError(f"a message {error}") from None
                start, end = at + LENGTH.size, at + LENGTH.size + size
                if end > len(came):
                    if size <= AT_ONCE:
                        break
                    frames += self._frames(await self._long(came[start:], size))
                    at = len(came)
                    break
                frames += self._frames(memoryview(came)[start:end])
                at = end
            self._rest = came[at:]
        return tuple(frames)

    async def write(self, msg: tuple[Frame, ...]) -> None:
        """Pass a message to the stream, which may buffer it.

        Raises ``OSError`` if the comm is closed.
        """
        body = self._encode(msg)
        if len(body) < AT_ONCE:
            self.stream.write(LENGTH.pack(len(body)) + body)
        else:
            self.stream.write(LENGTH.pack(len(body)))
            self.stream.write(body)

    def abort(self) -> None:
        """Close at once."""
        self._comm.abort()

    def closed(self) -> bool:
        """Whether it is closed."""
        return self._comm.closed()

    def _frames(self, body: memoryview) -> list[Frame]:
        frames = self._decode(body)
        if not isinstance(frames, list):
            raise ValueError(f"a message that is {type(frames).__name__}; expected a list of frames")
        return frames

    async def _more(self) -> bytes:
        """Return the next bytes; within the time limit if a message has begun."""
        read = self.stream.read_bytes(AT_ONCE, partial=True)
        came: bytes = await (self._soon(read) if self._rest else read)
        return came

    async def _long(self, begun: bytes, size: int) -> memoryview:
        """Return a long message in a buffer of its own."""
        message = buffer(size)
        message[: len(begun)] = begun
        for start in range(len(begun), size, PIECE):
            await self._soon(self.stream.read_into(message[start : start + PIECE]))
        return message

    async def _soon(self, read: Awaitable[Any]) -> Any:
        """Await a read within the time limit; most data has arrived already, and needs no timer."""
        if isinstance(read, asyncio.Future) and read.done():
            return read.result()
        try:
            async with asyncio.timeout(self._limits.patience):
                return await read
        except TimeoutError:
            raise ValueError(f"a message that did not go on within {self._limits.patience:g} s") from None


def framed(comm: Comm, limits: LinkLimits) -> Comm:
    """Return what carries frames over a comm after the handshake: its stream, or itself if it has none."""
    stream = getattr(comm, "stream", None)
    return FramedComm(comm, stream, limits) if isinstance(stream, BaseIOStream) else comm
