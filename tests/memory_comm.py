"""Comms in memory, for tests of links: a pair of queues, with a socket buffer that can be made to stall."""

from __future__ import annotations

import asyncio
from typing import Any

from synergy_nb.runtime.link import HANDLER, Links

_END = object()


class Stream:
    """What back-pressure looks at: ``write(b"")`` is done when everything before has left."""

    def __init__(self) -> None:
        self.stalled: asyncio.Future[None] | None = None

    def writing(self) -> bool:
        return self.stalled is not None

    def write(self, _nothing: bytes) -> asyncio.Future[None]:
        assert self.stalled is not None
        return self.stalled


class MemoryComm:
    """One end of a connection."""

    def __init__(self, read: asyncio.Queue[Any], write: asyncio.Queue[Any]) -> None:
        self.stream = Stream()
        self.written: list[Any] = []
        self.other: MemoryComm
        self._read, self._write = read, write
        self._closed = False
        self.allow_offload = True

    async def read(self) -> Any:
        if self._closed:
            raise OSError("closed here")
        message = await self._read.get()
        if message is _END:
            self._closed = True
            raise OSError("closed there")
        return message

    async def write(self, msg: Any) -> None:
        if self._closed:
            raise OSError("closed here")
        self.written.append(msg)
        self._write.put_nowait(msg)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._write.put_nowait(_END)
            self._read.put_nowait(_END)

    def closed(self) -> bool:
        return self._closed


def pair() -> tuple[MemoryComm, MemoryComm]:
    """Both ends of a new connection."""
    there: asyncio.Queue[Any] = asyncio.Queue()
    back: asyncio.Queue[Any] = asyncio.Queue()
    one, other = MemoryComm(back, there), MemoryComm(there, back)
    one.other, other.other = other, one
    return one, other


class Net:
    """A network in memory: addresses to links, and whether connecting to them succeeds."""

    def __init__(self) -> None:
        self.links: dict[str, Links] = {}
        self.dead: set[str] = set()  # connecting is refused
        self.silent: set[str] = set()  # connecting succeeds, but nothing is ever answered
        self.opened: list[MemoryComm] = []
        self.gates: dict[tuple[str, str], asyncio.Event] = {}  # (from, to): connecting waits for it
        self._tasks: set[asyncio.Task[None]] = set()

    def connector(self, own: str) -> Any:
        async def connect(address: str) -> MemoryComm:
            gate = self.gates.get((own, address))
            if gate is not None:
                await gate.wait()
            if address in self.dead or (address not in self.links and address not in self.silent):
                raise OSError(f"connection to {address} refused")
            here, there = pair()
            self.opened.append(here)
            if address not in self.silent:
                task = asyncio.get_running_loop().create_task(self._serve(self.links[address], there))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return here

        return connect

    @staticmethod
    async def _serve(links: Links, comm: MemoryComm) -> None:
        """What Dask does with an incoming comm."""
        try:
            message = await comm.read()
        except OSError:
            return
        assert message["op"] == HANDLER
        await links.accept(comm, message["hello"])
