"""Comms in memory and an event loop in virtual time, for tests of links without sockets and without waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from synergy_nb.events import Event
from synergy_nb.runtime.transport.cut_links import CuttableLinks
from synergy_nb.runtime.transport.link import HANDLER

T = TypeVar("T")
_END = object()


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait, the clock jumps."""

    clock = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout is None:
            raise RuntimeError("nothing will ever happen: every task waits for another")
        if not events and timeout is not None and timeout > 0:
            self.clock += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes only when there is nothing else to do."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.clock


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in virtual time, and close its networks; no task may be left when it ends."""

    async def whole() -> T:
        try:
            return await main
        finally:
            while OPENED:
                await OPENED.pop().close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(whole())
        left = asyncio.all_tasks(runner.get_loop())
        assert not left, f"left behind: {left}"
        return result


CHANNELS = ("s", "one", "two", "three", "far", "results", "a stream")  # those of the tests


def _log_data(log: Log, channel: str, sender: str, payload: bytes) -> None:
    log(sender, channel, payload)


class Log:
    """What the callbacks of links were called with, and a way to wait for the next."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __call__(self, *entry: Any, **detail: Any) -> None:
        self.entries.append((*entry, detail) if detail else entry)
        for number, waiting in self._waiting:
            if len(self.entries) >= number and not waiting.done():
                waiting.set_result(None)

    async def reaches(self, number: int) -> list[tuple[Any, ...]]:
        """Wait until there are ``number`` entries, and return them all."""
        if len(self.entries) < number:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((number, waiting))
            await waiting
        return self.entries


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
        self.to = ""  # address of the other end
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
        self.links: dict[str, CuttableLinks] = {}
        self.dead: set[str] = set()  # connecting is refused
        self.silent: set[str] = set()  # connecting succeeds, but nothing is ever answered
        self.opened: list[MemoryComm] = []
        self.gates: dict[tuple[str, str], asyncio.Event] = {}  # (from, to): connecting waits for it
        self._tasks: set[asyncio.Task[None]] = set()
        OPENED.append(self)

    def join(
        self, address: str, *, answer: Callable[[str, str, bytes], Any] | None = None, **options: Any
    ) -> tuple[CuttableLinks, Mapping[str, Log]]:
        """New links at ``address``, and logs of their callbacks: message, data, down, record."""
        logs = {name: Log() for name in ("message", "data", "down", "record")}

        def record(kind: Callable[..., Event], /, *fields: Any, **named: Any) -> None:
            event = kind(0.0, address, *fields, **named)
            logs["record"](event.kind, event.subject, event.detail)

        links = self.links[address] = CuttableLinks(
            address,
            self.connector(address),
            on_message=logs["message"],
            channels={name: partial(_log_data, logs["data"], name) for name in CHANNELS},
            on_down=logs["down"],
            on_request=answer,
            record=record,
            **options,
        )
        return links, logs

    async def close(self) -> None:
        """Close all links."""
        for links in self.links.values():
            await links.close()
        await asyncio.gather(*self._tasks)

    def connector(self, own: str) -> Any:
        async def connect(address: str) -> MemoryComm:
            gate = self.gates.get((own, address))
            if gate is not None:
                await gate.wait()
            if address in self.dead or (address not in self.links and address not in self.silent):
                raise OSError(f"connection to {address} refused")
            here, there = pair()
            here.to, there.to = address, own
            self.opened.append(here)
            if address not in self.silent:
                task = asyncio.get_running_loop().create_task(self._serve(self.links[address], there))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return here

        return connect

    @staticmethod
    async def _serve(links: CuttableLinks, comm: MemoryComm) -> None:
        """What Dask does with an incoming comm."""
        try:
            message = await comm.read()
        except OSError:
            return
        assert message["op"] == HANDLER
        await links.accept(comm, message["hello"])


OPENED: Final[list[Net]] = []  # networks that are closed at the end of a run
