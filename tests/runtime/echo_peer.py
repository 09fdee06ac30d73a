"""A small peer for tests of the runtime: it echoes, fails, sets timers, and gives instructions to a recording host."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import polars as pl

from synergy_nb.control.peer import DriverMessage, Message, Peer, Protocol
from synergy_nb.events import Event
from synergy_nb.runtime.process._peer_driver import PeerRuntime


class Hello(Message, frozen=True):
    """Answered by its echo."""

    number: int


class Echo(Message, frozen=True):
    """The answer."""

    number: int


class Fail(Message, frozen=True):
    """Its handler raises."""


class Deploy(msgspec.Struct, frozen=True):
    """An instruction."""

    what: str


class Greet(DriverMessage, frozen=True):
    """Command: say hello to a peer, after a delay in seconds."""

    to: str
    number: int
    delay: float = 0.0


class Order(DriverMessage, frozen=True):
    """Command: have the host deploy something."""

    what: str


class Break(DriverMessage, frozen=True):
    """Command: its handler raises."""


class Deployed(DriverMessage, frozen=True):
    """What came of the instruction."""

    what: str


class Stranger(Message, frozen=True):
    """A message that no peer knows."""


class Greeted(Event, frozen=True, gc=False):
    """Somebody said hello."""

    number: int


class Echoed(Event, frozen=True, gc=False):
    """The answer came."""

    number: int


class DeployAsked(Event, frozen=True, gc=False):
    """The host is to deploy the subject."""


class DeployDone(Event, frozen=True, gc=False):
    """The host has deployed the subject."""


class DataArrived(Event, frozen=True, gc=False):
    """A frame came, of so many bytes."""

    channel: str
    size: int


class Talk(Protocol):
    """The protocol of the tests."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.handlers = {
            Hello: self.hello,
            Echo: self.echo,
            Fail: self.fail,
            Greet: self.greet,
            Order: self.order,
            Break: self.fail,
            Deployed: self.deployed,
        }

    def hello(self, sender: str, message: Hello) -> None:
        self.peer.record(Greeted, sender, number=message.number)
        self.peer.send(sender, Echo(message.number))

    def echo(self, sender: str, message: Echo) -> None:
        self.peer.record(Echoed, sender, number=message.number)

    def fail(self, sender: str, message: Fail | Break) -> None:
        raise RuntimeError("this handler fails")

    def greet(self, sender: str, message: Greet) -> None:
        if message.delay:
            self.peer.after(message.delay, self.peer.send, message.to, Hello(message.number))
        else:
            self.peer.send(message.to, Hello(message.number))

    def order(self, sender: str, message: Order) -> None:
        self.peer.instruct(Deploy(message.what))
        self.peer.record(DeployAsked, message.what)

    def deployed(self, sender: str, message: Deployed) -> None:
        self.peer.record(DeployDone, message.what)


class RecordingHost:
    """Carries out nothing, but says that it has."""

    def __init__(self, runtime: PeerRuntime) -> None:
        self.runtime = runtime
        self.closed = False
        for channel in ("echo", "echoed"):
            runtime.on_channel(channel, partial(self.arrived, channel))

    def carry_out(self, instruction: msgspec.Struct) -> None:
        assert isinstance(instruction, Deploy)
        if instruction.what == "impossible":
            raise ValueError("cannot deploy the impossible")
        self.runtime.report(Deployed(instruction.what))

    def arrived(self, channel: str, sender: str, payload: bytes) -> None:
        self.runtime.record(DataArrived, sender, channel=channel, size=len(payload))
        if channel == "echo":
            self.runtime.links.send_data(sender, "echoed", payload)

    async def close(self) -> None:
        self.closed = True


def make(runtime: PeerRuntime, config: Mapping[str, Any]) -> tuple[Peer, RecordingHost]:
    """The factory."""
    peer = Peer(runtime.address, seed=config.get("seed", 0))
    peer.add(Talk(peer))

    async def greet(payload: bytes) -> bytes:
        to, number = msgspec.msgpack.decode(payload)
        runtime.request(Greet(to, number))
        return msgspec.msgpack.encode(number)

    async def fail(_payload: bytes) -> bytes:
        raise KeyError("no such thing")

    async def hang(_payload: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    async def compute(_payload: bytes) -> bytes:
        frame = pl.DataFrame({"key": [1, 2] * 5000, "value": range(10_000)})
        summed = await asyncio.to_thread(lambda: frame.group_by("key").agg(pl.col("value").sum()).sort("key"))
        return msgspec.msgpack.encode(summed.rows())

    async def about(_payload: bytes) -> bytes:
        return msgspec.msgpack.encode(
            {"name": runtime.name, "pid": os.getpid(), "config": config, "interrupt": signal.getsignal(signal.SIGINT)}
        )

    runtime.operations.update(greet=greet, fail=fail, hang=hang, compute=compute, about=about)
    return peer, RecordingHost(runtime)
