"""Bounds of ports: impossible lengths are refused before a buffer is allocated, stalled connections are closed."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.comm.core import CommClosedError, connect
from distributed.comm.registry import backends
from distributed.core import Server
from distributed.protocol.serialize import to_serialize
from hypothesis import given
from hypothesis import strategies as st
from tornado.iostream import IOStream

from synergy_nb.runtime.identity.authority import Authority
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._plugin import client_links, install, runtime_of
from synergy_nb.runtime.transport import listening
from synergy_nb.runtime.transport._framing import LENGTH
from synergy_nb.runtime.transport.link import LinkFull, LinkLimits, RemoteError
from synergy_nb.runtime.transport.listening import BoundedComm, Bounds, MessageLengthError, _split, bound
from tests.memory_comm import Net, run
from tests.runtime.echo_workers import FACTORY, event
from tests.waiting import DEADLINE, run_loop, until

QUICK = Bounds(patience=0.25)


def q(*values: int) -> bytes:
    return struct.pack(f"{len(values)}Q", *values)


HANDSHAKE = msgspec.msgpack.encode({"compression": None, "python": (3, 11, 0), "pickle-protocol": 5})


def message(*frames: bytes) -> bytes:
    """Frames as Dask puts them on the wire."""
    prelude = q(len(frames), *map(len, frames))
    return q(len(prelude) + sum(map(len, frames))) + prelude + b"".join(frames)


def certificates() -> IdentitySecurity:
    return IdentitySecurity(Authority().issue("owner", "ada"))


class World:
    """A Dask server on a port, and what it refused."""

    def __init__(self, server: Server, certificates: Any = None) -> None:
        self.server = server
        self.certificates = certificates
        self.refused: list[str] = []

    @property
    def address(self) -> tuple[str, int]:
        listener: Any = self.server.listeners[0]
        host, port = listener.get_host_port()
        return host, port

    async def send(self, data: bytes, *more: bytes, end: bool = False) -> bytes:
        """What comes back until the server closes, after the handshake of its own."""
        reader, writer = await asyncio.open_connection(*self.address)
        async with asyncio.timeout(DEADLINE):
            (size,) = struct.unpack("Q", await reader.readexactly(8))
            await reader.readexactly(size)
            writer.write(data)
            for each in more:
                await writer.drain()
                writer.write(each)
            if end:
                writer.write_eof()
            try:
                found = await reader.read()
            except ConnectionResetError:  # it has closed before it had read all
                found = b""
            finally:
                writer.close()
            return found


@asynccontextmanager
async def serving(bounds: Bounds | None = None, security: Any = None) -> AsyncIterator[World]:
    """A bounded server that echoes; it still answers afterwards."""
    server = Server({"double": lambda x: {"twice": x + x}, "join": lambda parts: sum(map(len, parts))})
    listening_args = {} if security is None else security.get_listen_args("worker")
    await server.listen(f"{'tcp' if security is None else 'tls'}://127.0.0.1:0", **listening_args)
    await server
    world = World(server, security)
    bound(server, lambda address, reason: world.refused.append(reason), bounds)
    try:
        yield world
        bound(server, lambda address, reason: world.refused.append(reason))
        assert await ask(world, x=b"ab") == {"twice": b"abab"}, "it goes on"
    finally:
        await server.close()


@asynccontextmanager
async def talking(world: World) -> AsyncIterator[Any]:
    arguments = {} if world.certificates is None else world.certificates.get_connection_args("client")
    comm = await connect(world.server.address, **arguments)
    try:
        yield comm
    finally:
        comm.abort()


async def ask(world: World, op: str = "double", **arguments: Any) -> Any:
    async with asyncio.timeout(DEADLINE), talking(world) as comm:
        await comm.write({"op": op, **{name: to_serialize(value) for name, value in arguments.items()}})
        return await comm.read()


# -- before the handshake --------------------------------------------------------------------------------------------

LIES = [
    (b"\xde\xad\xbe\xef\x13\x37\x42\x99", "a handshake that says it has .* bytes; expected at most 1024"),
    (q(1 << 40), "a handshake that says it has 1099511627776 bytes; expected at most 1024"),
    (q(1 << 40) + bytes(100), "a handshake that says it has 1099511627776 bytes; expected at most 1024"),
    (q(2**64 - 1), "a handshake that says it has 18446744073709551615 bytes; expected at most 1024"),
    (q(16, 1 << 40, 8), "a handshake that says it has 1099511627776 frames; expected 1 to 1, as it has 16 bytes"),
    (q(16, 1, 1 << 40), "a handshake that says it has 1099511627792 bytes; expected at most 1024"),
    (q(24, 2, 1 << 63, 1 << 63), "a handshake that says it has 18446744073709551640 bytes; expected at most 1024"),
    (q(24, 1, 9, 0), "a handshake that says its frame 1 has 9 bytes; expected at most 8"),
    (q(24, 1, 7, 0), "a handshake of 24 bytes whose frames have 23 bytes"),
    (q(8, 0), "a handshake that says it has 0 frames; expected 1 to 0, as it has 8 bytes"),
    (q(0), "a handshake of 0 bytes; expected at least 8"),
    (q(3) + b"abc", "a handshake of 3 bytes; expected at least 8"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a handshake that says it has .* bytes"),
    (message(b"\xc1"), "an invalid handshake: .*"),
    (message(b"\xdd\xff\xff\xff\xff"), "an invalid handshake: .*"),
    (message(b"\x93\x01\x02\x03"), "an invalid handshake: Expected `object`, got `array`"),
    (message(msgspec.msgpack.encode({"compression": None})), "an invalid handshake: .*`pickle-protocol`"),
    (message(msgspec.msgpack.encode({"compression": None, "pickle-protocol": "5"})), "an invalid handshake: .*"),
]


@pytest.mark.parametrize(("lie", "reason"), LIES, ids=range(len(LIES)))
async def test_a_false_length_before_the_handshake_is_refused_before_memory_is_allocated(
    lie: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def buffer(size: int) -> memoryview:
        made.append(size)
        return memoryview(bytearray(size))

    monkeypatch.setattr(listening, "buffer", buffer)

    async with serving() as world:
        assert await world.send(lie) == b"", "it is closed"
        (found,) = world.refused
        assert_matches(found, reason)
        assert all(size <= 1024 for size in made)


def assert_matches(text: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=f"^{pattern}"):
        raise ValueError(text)


@pytest.mark.parametrize("part", [b"", b"\x05", q(100), q(100) + bytes(10), message(HANDSHAKE)[:-1]])
async def test_half_a_handshake_is_given_up(part: bytes) -> None:
    async with serving(QUICK) as world:
        assert await world.send(part) == b""
        assert world.refused == ["a handshake that was not there within 0.25 s"]


@pytest.mark.parametrize("part", [b"", b"\x05", q(100) + bytes(10)])
async def test_a_client_that_disconnects_is_not_reported(part: bytes) -> None:
    async with serving() as world:
        assert await world.send(part, end=True) == b""
        assert not world.refused


async def test_a_handshake_is_plain_data() -> None:
    """Dask would load what is pickled in it; here that is a mapping like any other, and no handshake."""

    async with serving() as world:
        assert await world.send(message(msgspec.msgpack.encode({"__Pickled__": 1}), b"\x80", b"")) == b""
        assert len(world.refused) == 1


# -- afterwards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (q(1 << 60), "a message that says it has 1152921504606846976 bytes; expected at most 4096"),
        (q(5000), "a message that says it has 5000 bytes; expected at most 4096"),
        (q(16, 1, 4090), "a message that says it has 4106 bytes; expected at most 4096"),
        (q(4096)[:3], "a message that did not go on within 0.25 s"),
        (q(4096), "a message that did not go on within 0.25 s"),
        (q(4096, 1, 4080) + bytes(100), "a message that did not go on within 0.25 s"),
        (q(16, 1, 100) + bytes(99), "a message that did not go on within 0.25 s"),
    ],
)
async def test_a_false_length_after_the_handshake_is_refused(lie: bytes, reason: str) -> None:
    async with serving(Bounds(message=4096, patience=0.25)) as world:
        assert await world.send(message(HANDSHAKE), lie) == b""
        assert world.refused == [reason]


async def test_a_message_that_the_memory_has_no_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def buffer(size: int) -> memoryview:
        if size > 1024:
            raise MemoryError
        return memoryview(bytearray(size))

    monkeypatch.setattr(listening, "buffer", buffer)

    async with serving() as world:
        assert await world.send(message(HANDSHAKE), q(1 << 30)) == b""
        assert world.refused == ["a message that the memory has no room for"]


async def test_a_comm_may_be_silent_between_messages() -> None:
    async with serving(QUICK) as world, talking(world) as comm, talking(world) as other:
        await world.send(message(HANDSHAKE), b"\x01")  # refused after the patience that the others have, too
        assert len(world.refused) == 1
        for each in (comm, other):
            await each.write({"op": "double", "x": 2})
            assert await each.read() == {"twice": 4}


@pytest.mark.parametrize("security", [False, True], ids=["tcp", "tls"])
async def test_messages_of_dask_are_read(security: bool) -> None:
    async with serving(security=certificates() if security else None) as world:
        assert await ask(world, x=b"x" * 3_000_000) == {"twice": b"x" * 6_000_000}
        array = np.arange(500_000)
        assert np.array_equal((await ask(world, x=array))["twice"], 2 * array)
        parts = [np.zeros(n, "u1") for n in (0, 1, 10, 100_000, 0, 70_000, 0)]
        assert await ask(world, "join", parts=parts) == sum(map(len, parts))
        assert await ask(world, "join", parts=[b"", b"a" * 9, b""] * 300) == 2700
        async with talking(world) as comm:  # several in one go
            for number in range(20):
                await comm.write({"op": "double", "x": number})
            assert [await comm.read() for _ in range(20)] == [{"twice": 2 * number} for number in range(20)]
        assert not world.refused


async def test_a_handshake_of_tls_that_does_not_go_on_is_given_up() -> None:
    async with serving(QUICK, certificates()) as world:
        reader, writer = await asyncio.open_connection(*world.address)
        async with asyncio.timeout(DEADLINE):
            writer.write(b"\x16\x03\x01")
            assert await reader.read() == b""
        writer.close()
        assert world.refused == ["a TLS handshake that was not done within 0.25 s"]


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_handshake_that_fails_after_its_listener_has_stopped_is_no_error(stopped: bool) -> None:
    async with serving(security=certificates()) as world:
        listener: Any = world.server.listeners[0]
        stream = IOStream(socket.socket())

        async def prepare(listener: Any, stream: Any, address: str) -> None:
            raise ValueError("invalid operation on non-started TCPListener")

        was, listener.tcp_server = listener.tcp_server, None if stopped else listener.tcp_server
        try:
            with nullcontext() if stopped else pytest.raises(ValueError, match="non-started"):
                assert await listening.prepared_stream(prepare, listener, Bounds(), print, stream, "tls://a:1") is None
        finally:
            listener.tcp_server = was
        assert stream.closed() == stopped
        stream.close()


@given(st.binary(max_size=80) | st.lists(st.integers(0, 12), max_size=9).map(lambda each: q(*each)))
def test_frames_are_taken_apart_without_loss_or_refused(data: bytes) -> None:
    try:
        frames, missing = _split(memoryview(data))
    except MessageLengthError:
        return
    together = b"".join(map(bytes, frames))
    count = len(frames) + len(missing)
    assert data == q(count, *map(len, frames), *missing) + together
    assert bool(missing) <= (sum(map(len, frames)) + 8 * (1 + count) == len(data))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.integers(0, 6))
def test_merged_frames_are_split(frames: list[bytes], sent: int) -> None:
    first, rest = frames[:sent], frames[sent:]
    found, missing = _split(memoryview(q(len(frames), *map(len, frames)) + b"".join(first)))
    assert [*map(bytes, found), *(b"?" * length for length in missing)][: len(found)] == frames[: len(found)]
    assert [*map(len, found), *missing] == [*map(len, frames)]
    assert sum(missing) == sum(map(len, rest))


def test_a_scan_of_ports_does_not_fill_a_journal() -> None:
    told: list[tuple[str, str]] = []
    now = 0.0
    report = listening.Reported(lambda *refused: told.append(refused), lambda: now)
    for number in range(1000):
        report(str(number), "a lie")
    assert told == [(str(number), "a lie") for number in range(10)]
    now = 1.0
    report("x", "a lie")
    report("y", "a lie")
    assert told[10:] == [("x", "a lie (990 more since the last report)")]
    now = 1000.0
    for number in range(20):
        report(str(number), "another")
    assert len(told) == 21
    assert told[11] == ("0", "another (1 more since the last report)")


# -- peers -----------------------------------------------------------------------------------------------------------


def test_a_peer_journals_refused_messages_and_goes_on() -> None:
    async def main() -> None:
        async with (
            LocalCluster(
                n_workers=1,
                processes=False,
                asynchronous=True,
                dashboard_address="127.0.0.1:0",
                protocol="tcp://",
                threads_per_worker=1,
            ) as made,
            Client(made, asynchronous=True) as client,
        ):
            await install(client, FACTORY)
            (worker,) = made.workers.values()
            runtime = runtime_of(worker)
            world = World(worker)
            assert await world.send(q(1 << 40)) == b""
            refused = await event(runtime, "frame_refused")
            assert refused.subject.startswith("tcp://127.0.0.1:")
            said = "a handshake that says it has 1099511627776 bytes; expected at most 1024"
            assert refused.detail == {"reason": said}
            links = client_links(client.connection_args)
            try:
                assert await links.request(worker.address, "ping", b"x") == b"x"
                (link,) = links.by_address.values()
                await link.comm.stream.write(LENGTH.pack(1 << 40))  # type: ignore[union-attr]
                refused = await event(runtime, "frame_refused", 2)
                said = f"a message that says it has 1099511627776 bytes; expected at most {LinkLimits().longest}"
                assert (refused.subject, refused.detail) == (links.address, {"reason": said})
                await until(lambda: not links.connected())
                assert await links.request(worker.address, "ping", b"x") == b"x"  # over another one
            finally:
                await links.close()

    run_loop(main())


def test_messages_that_the_receiver_would_refuse_are_not_sent() -> None:
    async def main() -> None:
        net = Net()
        limits = LinkLimits(message=1000)

        async def long(_sender: str, _operation: str, payload: bytes) -> bytes:
            return bytes(int(payload))

        one, _ = net.join("mem://a", limits=limits)
        other, _ = net.join("mem://b", limits=limits, answer=long)
        with pytest.raises(LinkFull, match="link to mem://b: a frame of 1017 bytes; limit 1000"):
            one.send_data(other.address, "channel", bytes(1001))
        with pytest.raises(LinkFull, match="link to mem://b: a request of 1020 bytes; limit 1000"):
            await one.request(other.address, "long", bytes(1000))
        with pytest.raises(RemoteError, match="LinkFull: an answer of 1016 bytes; limit 1000"):
            await one.request(other.address, "long", b"1000")
        assert len(await one.request(other.address, "long", b"900")) == 900
        await net.close()

    run(main())


async def test_reading_a_closed_comm_fails_by_name() -> None:
    async with serving():
        comm = BoundedComm.__new__(BoundedComm)
        comm.stream = None
        with pytest.raises(CommClosedError):
            await comm.read()


async def test_a_connection_that_is_there_as_its_caller_gives_up_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other end would wait for a handshake, and report that none came."""
    start_tls, made = IOStream.start_tls, list[Any]()

    def given_up(self: IOStream, *arguments: Any, **more: Any) -> Any:
        made.append(start_tls(self, *arguments, **more))
        made[-1].add_done_callback(lambda _: opening.cancel())
        return made[-1]

    monkeypatch.setattr(IOStream, "start_tls", given_up)
    identity = certificates()
    async with serving(QUICK, identity) as world:
        host, port = world.address
        connector = backends[listening.LINKS].get_connector()
        opening = asyncio.ensure_future(connector.connect(f"{host}:{port}", **identity.get_connection_args("client")))
        with pytest.raises(asyncio.CancelledError):
            await opening
        await until(made[0].result().closed)
        assert world.refused == []
