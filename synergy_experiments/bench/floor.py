"""What light applications cost at least: a bare program of asyncio that moves their tuples, without the platform.

Its processes are connected as peers are: by streams of tornado with TLS, whose messages are lists of frames behind
their length. Each has the sources of some applications, which give five tuples twice a second, as gathering sources do,
each a twentieth of a second later than the one before it. The next process decodes and filters them, as a peer does,
and acknowledges them. Nothing is planned, promised, predicted, measured, retained or sent again, and all tuples are
made beforehand.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import ssl
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.tcpclient import TCPClient
from tornado.tcpserver import TCPServer

from synergy_experiments.bench.measurements import Usage
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Batch, concatenated, decode, encode
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.instances import read_paced
from synergy_nb.runtime.identity.authority import Authority, Credentials
from synergy_nb.runtime.identity.security import IdentitySecurity

__all__ = ["floor"]

EVERY_S: Final = 0.5  # seconds between two times at which a source gives what it has gathered
STEP_S: Final = 0.05  # seconds between the instants of one source and of the next
READY_S: Final = 2.0  # seconds from the beginning of the sources until the measuring begins
MORE_S: Final = 5.0  # seconds for which sources have tuples beyond that, on a busy machine
LENGTH: Final = struct.Struct("<Q")  # length of a message, before it
AT_ONCE: Final = 1 << 16  # most bytes that are read at a time
HOST: Final = "127.0.0.1"

Frames = list[tuple[int, bytes]]
"""Number of an application, and tuples of it; or an acknowledgement."""


def floor(plans: Sequence[Plan], peers: int, seconds: float) -> dict[str, Any]:
    """Cores that a bare program takes for the applications of some plans: a source, a filter and a sink each.

    ``peers``: number of processes; ``seconds``: how long it is measured.
    """
    context, authority = multiprocessing.get_context("spawn"), Authority()
    ends: list[Connection] = []
    processes = []
    try:
        for number in range(peers):
            here, there = context.Pipe()
            credentials = authority.issue("peer", f"floor-{number}").to_bytes()
            own = {at: plan.to_bytes() for at, plan in enumerate(plans)}
            arguments = there, credentials, own, number, peers, seconds + READY_S
            process = context.Process(target=_run, args=arguments, daemon=True)
            process.start()
            there.close()
            ends.append(here)
            processes.append(process)
        ports = [end.recv() for end in ends]
        for number, end in enumerate(ends):
            end.send(ports[(number + 1) % peers])
        for end in ends:
            end.recv()  # it is connected
        for end in ends:
            end.send(None)  # its sources begin
        threading.Event().wait(READY_S)
        with Usage(process.pid for process in processes if process.pid is not None) as usage:
            threading.Event().wait(seconds)
        for end in ends:
            end.send(None)
        counts: Counter[str] = Counter()
        for end in ends:
            counts.update(end.recv())
    finally:
        for process in processes:
            process.terminate()
            process.join()
    cores = usage.cpu / usage.wall
    return {"cpu_cores": round(cores, 4), "cpu_s_a_second_each": round(cores / len(plans), 6), **counts}


def _run(end: Connection, credentials: bytes, plans: dict[int, bytes], number: int, peers: int, seconds: float) -> None:
    security = IdentitySecurity(Credentials.from_bytes(credentials))
    known = {at: Plan.from_bytes(plan) for at, plan in plans.items()}
    own = {at: _gathered(plan, seconds) for at, plan in known.items() if at % peers == number}
    before = {at: plan for at, plan in known.items() if at % peers == (number - 1) % peers}
    asyncio.run(_peer(end, security, own, before))


async def _peer(
    end: Connection, security: IdentitySecurity, own: dict[int, list[Batch]], before: dict[int, Plan]
) -> None:
    """Give the tuples of the own sources to the next process, and execute those of the process before."""
    loop = asyncio.get_running_loop()
    reader = _Reader(before, security.get_listen_args("worker")["ssl_context"])
    sockets = bind_sockets(0, HOST)
    reader.add_sockets(sockets)
    end.send(sockets[0].getsockname()[1])
    port = await loop.run_in_executor(None, end.recv)
    opened = security.get_connection_args("worker")["ssl_context"]
    stream = await TCPClient().connect(HOST, port, ssl_options=opened)
    tasks = [loop.create_task(_hear(stream, reader.counts))]
    end.send(None)
    await loop.run_in_executor(None, end.recv)
    tasks += [loop.create_task(_give(stream, at, batches)) for at, batches in own.items()]
    await loop.run_in_executor(None, end.recv)
    end.send(dict(reader.counts))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Reader(TCPServer):
    """The filters and sinks of the applications of another process."""

    def __init__(self, plans: dict[int, Plan], context: ssl.SSLContext) -> None:
        super().__init__(ssl_options=context)
        self.counts: Counter[str] = Counter()
        self._filters = {
            at: create(next(each for each in plan.operators.values() if each.kind == "filter"), plan)
            for at, plan in plans.items()
        }

    async def handle_stream(self, stream: IOStream, address: object) -> None:
        """Execute what comes, and acknowledge it."""
        async for frames in _messages(stream):
            for at, payload in frames:
                made = list(self._filters[at].execute(0, decode(payload)))
                self.counts["batches"] += 1
                self.counts["rows"] += sum(each.rows for each in made if isinstance(each, Batch))
            _send(stream, [(at, b"") for at, _ in frames])


async def _hear(stream: IOStream, counts: Counter[str]) -> None:
    async for frames in _messages(stream):
        counts["acknowledged"] += len(frames)


async def _give(stream: IOStream, at: int, batches: list[Batch]) -> None:
    """Send each batch of a source at its instant."""
    loop = asyncio.get_running_loop()
    due = (loop.time() // EVERY_S + 1.0) * EVERY_S + STEP_S * (at % round(EVERY_S / STEP_S))
    for batch in batches:
        await asyncio.sleep(due - loop.time())
        _send(stream, [(at, encode(batch))])
        due += EVERY_S


def _send(stream: IOStream, frames: Frames) -> None:
    body = msgspec.msgpack.encode(frames)
    with contextlib.suppress(StreamClosedError):  # the other process has ended
        stream.write(LENGTH.pack(len(body)) + body)


async def _messages(stream: IOStream) -> AsyncIterator[Frames]:
    """Yield the frames of each message until the stream is closed."""
    rest = b""
    with contextlib.suppress(StreamClosedError):
        while True:
            rest += await stream.read_bytes(AT_ONCE, partial=True)
            while len(rest) >= LENGTH.size and len(rest) >= (end := LENGTH.size + LENGTH.unpack_from(rest)[0]):
                yield msgspec.msgpack.decode(rest[LENGTH.size : end], type=Frames)
                rest = rest[end:]


def _gathered(plan: Plan, seconds: float) -> list[Batch]:
    """Make what a source gives in so many seconds, and in some more."""
    stream, _ = read_paced(plan.operators["source"].params, lambda _lines: None)
    tuples = (item for _, item in stream if isinstance(item, Batch))
    rows = round(EVERY_S * plan.rate("source"))
    return [_together(list(islice(tuples, rows))) for _ in range(round((seconds + MORE_S) / EVERY_S))]


def _together(tuples: list[Batch]) -> Batch:
    return Batch(concatenated([each.table for each in tuples]), tuples[0].position, tuples[0].born)
