"""Frames of links on the stream of a comm: several in one read, partial, too long, and malformed ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tornado.iostream import IOStream

from synergy_nb.runtime.transport._framing import LENGTH, FramedComm, framed
from synergy_nb.runtime.transport.listening import MessageLengthError
from synergy_nb.runtime.transport.wire import LinkLimits


class StreamComm:
    """A comm that has nothing but a stream, as far as frames are concerned."""

    def __init__(self, stream: IOStream) -> None:
        self.stream = stream

    async def read(self) -> Any:
        raise AssertionError("not by the comm's own protocol")

    async def write(self, msg: Any) -> Any:
        raise AssertionError("not by the comm's own protocol")

    def abort(self) -> None:
        self.stream.close()

    def closed(self) -> bool:
        return self.stream.closed()


def over(check: Callable[[FramedComm, FramedComm], Awaitable[None]], limits: LinkLimits | None = None) -> None:
    """Run a check on both ends of a connection."""

    async def main() -> None:
        ends = [framed(StreamComm(IOStream(end)), limits or LinkLimits()) for end in socket.socketpair()]
        one, other = ends
        assert isinstance(one, FramedComm)
        assert isinstance(other, FramedComm)
        try:
            await check(one, other)
        finally:
            one.abort()
            other.abort()

    asyncio.run(main())


def message(*frames: Any) -> bytes:
    body = msgspec.msgpack.encode(frames)
    return LENGTH.pack(len(body)) + body


def test_frames_arrive_as_they_were_written() -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        await one.write((b"control", ("stream", b"data"), (1, 7, "ping", b""), (2, 7, True, b"x" * 300_000)))
        came: list[Any] = list(await other.read())
        assert came == [b"control", ["stream", b"data"], [1, 7, "ping", b""], [2, 7, True, b"x" * 300_000]]

    over(check)


def test_several_messages_in_one_read_are_taken_together() -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        await one.stream.write(message(b"1", b"2") + message(b"3") + message(b"4")[:5])
        assert await other.read() == (b"1", b"2", b"3")
        await one.stream.write(message(b"4")[5:])
        assert await other.read() == (b"4",)

    over(check)


@pytest.mark.parametrize("size", [0, 10, (1 << 16) - 20, 1 << 16, 1 << 20])
@pytest.mark.parametrize("cut", [1, 7, 8, 9, 15])
def test_a_message_that_comes_in_parts_is_one(size: int, cut: int) -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        whole = message(bytes(size), b"end")
        reading = asyncio.ensure_future(other.read())
        for part in (whole[:cut], whole[cut : cut + size // 2], whole[cut + size // 2 :]):
            await one.stream.write(part)
        await one.write((b"after",))
        frames = [*await reading]
        while len(frames) < 3:
            frames += await other.read()
        assert frames == [bytes(size), b"end", b"after"]

    over(check)


def test_a_length_beyond_the_bound_is_refused_before_memory_is_taken() -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        await one.stream.write(LENGTH.pack(1 << 60))
        with pytest.raises(MessageLengthError, match="says it has 1152921504606846976 bytes; expected at most"):
            await other.read()

    over(check)


def test_a_message_that_is_no_list_of_frames_is_refused() -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        body = msgspec.msgpack.encode("text")
        await one.stream.write(LENGTH.pack(len(body)) + body)
        with pytest.raises(ValueError, match="a message that is str; expected a list of frames"):
            await other.read()

    over(check)


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_a_message_that_does_not_go_on_is_refused(size: int) -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        await one.stream.write(message(bytes(size))[:20])
        with pytest.raises(ValueError, match=r"did not go on within 0\.01 s"):
            await other.read()

    over(check, LinkLimits(patience=0.01))


def test_messages_before_an_abort_arrive_and_reading_then_fails() -> None:
    async def check(one: FramedComm, other: FramedComm) -> None:
        await one.stream.write(message(b"last") + b"\0")
        one.abort()
        assert one.closed()
        assert await other.read() == (b"last",)
        with pytest.raises(OSError, match="closed"):
            await other.read()
        with pytest.raises(OSError, match="closed"):
            await one.write((b"too late",))

    over(check)
