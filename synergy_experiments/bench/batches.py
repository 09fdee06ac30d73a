"""``batch``: Python calls of a batch from its source to its sink, and functions on a leg of that way, by counting.

Counts do not depend on the load of the machine. Two peers are in this process, with their links, hosts and threads;
their clock is advanced by hand between two batches, so timers of protocols are due at the same places in each run.
What is counted begins with a batch that waits at its source: how it got there is the business of the source.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import polars as pl

import synergy_nb
from synergy_experiments.bench.measurements import measurement
from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, encode
from synergy_nb.events import Event
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.data.host import Host
from synergy_nb.runtime.transport.link import Links

__all__ = ["Calls", "TwoPeers", "batch", "counted"]

HOUSE: Final = str(Path(synergy_nb.__file__).parent)
WARM: Final = 5  # batches before the counting begins
ROWS: Final = 100  # tuples of a batch
ONE_S: Final = 0.1  # seconds of the peers' clock between two tuples of a light application
STEP_S: Final = 0.01  # seconds of that clock between two batches


class Calls:
    """The Python functions that are called on all threads while it counts, by their code.

    Attributes
    ----------
    counts : Counter of code
        Number of calls of each function; a generator counts each time that it goes on.
    """

    def __init__(self) -> None:
        self.counts: Counter[CodeType] = Counter()
        self._until = ""
        self._counts = False

    @contextmanager
    def counted(self, until: str = "") -> Iterator[None]:
        """Count while the context lasts, or until a function of a name, such as ``Filter.process``, is called."""
        self._until = until
        self._counts = True
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._counts = False

    @contextmanager
    def with_threads(self) -> Iterator[None]:
        """Count what threads call, too, that start while the context lasts."""
        threading.setprofile(self._called)
        try:
            yield
        finally:
            threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._counts:
            code = frame.f_code
            self.counts[code] += 1
            if code.co_qualname == self._until:
                self._counts = False

    @property
    def ours(self) -> int:
        """Number of calls of functions of the package."""
        return sum(count for code, count in self.counts.items() if code.co_filename.startswith(HOUSE))

    @property
    def every(self) -> int:
        """Number of calls of any Python function."""
        return sum(self.counts.values())

    @property
    def functions(self) -> list[str]:
        """Names of the functions of the package that were called, without expressions such as comprehensions."""
        codes = (code for code in self.counts if code.co_filename.startswith(HOUSE) and "<" not in code.co_name)
        return sorted(f"{Path(code.co_filename).stem}.{code.co_qualname}" for code in codes)


class _Comm:
    """One end of a connection within this process, as those of Dask."""

    def __init__(self, came: asyncio.Queue[Any], sent: asyncio.Queue[Any]) -> None:
        self._came, self._sent = came, sent
        self._closed = False
        self.allow_offload = True

    async def read(self) -> Any:
        message = await self._came.get()
        if message is None:
            raise OSError("closed")
        return message

    async def write(self, msg: Any) -> None:
        self._sent.put_nowait(msg)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._sent.put_nowait(None)
            self._came.put_nowait(None)

    def closed(self) -> bool:
        return self._closed


class _Peer:
    """A peer that has links and data alone, and whose clock is advanced by hand."""

    def __init__(self, address: str, connect: Callable[[str], Awaitable[Any]], options: Mapping[str, Any]) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.links = Links(address, connect, record=self.record)
        self.now = 1e9
        self.host = Host(self, **options)

    def clock(self) -> float:
        """Return the time in seconds."""
        return self.now

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Queue a data frame on the link to a peer."""
        self.links.send_data(to, channel, payload)

    def on_channel(self, channel: str, receive: Callable[[str, bytes], None]) -> None:
        """Have each frame of a channel be passed to a function."""
        self.links.on_channel(channel, receive)

    def record(self, _kind: Callable[..., Event], /, *_fields: Any, **_named: Any) -> None:
        """Keep no journal."""

    async def close(self) -> None:
        """Stop everything."""
        await self.host.close()
        await self.links.close()


class TwoPeers:
    """Two peers in this process: ``mem://a`` with sources, ``mem://b`` with what reads them.

    Parameters
    ----------
    options
        Options of their :class:`~synergy_nb.runtime.data.host.Host`.
    """

    def __init__(self, **options: Any) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.peers = {address: _Peer(address, self._connect, options) for address in ("mem://a", "mem://b")}
        self.source, self.reader = (peer.host for peer in self.peers.values())
        self._positions: Counter[str] = Counter()

    async def _connect(self, to: str) -> _Comm:
        there: asyncio.Queue[Any] = asyncio.Queue()
        back: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.get_running_loop().create_task(self._serve(to, _Comm(there, back)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return _Comm(back, there)

    async def _serve(self, to: str, comm: _Comm) -> None:
        hello = await comm.read()
        await self.peers[to].links.accept(comm, hello["hello"])

    def deploy(self, application: str, plan: Plan) -> None:
        """Deploy a plan: its source at the first peer, all else at the second."""
        assignments = {
            name: Assignment(
                "mem://a" if operator.kind == "source" else "mem://b",
                inputs=tuple(InputFeed(application, up) for up in operator.inputs),
                sink=operator.kind == "sink",
            )
            for name, operator in plan.operators.items()
        }
        for host in (self.source, self.reader):
            host.carry_out(Deployment(application, 1, assignments, plan=plan.to_bytes()))

    def push(self, application: str, *items: Item) -> None:
        """Give items to the source of an application; their positions follow those before them."""
        for item in items:
            at = self._positions[application]
            if isinstance(item, Batch):
                self._positions[application] += item.rows
                following: Item = Batch(item.table, at, item.born)
            else:
                following = Punctuation(item.time, at, item.born)
            if not self.source.pushed.push(application, "source", encode(following)):
                raise ValueError(f"an item at position {at} was refused; expected it to be next")

    def advance(self, seconds: float) -> None:
        """Advance the clock of both peers."""
        for peer in self.peers.values():
            peer.now += seconds

    async def settled(self) -> None:
        """Return when nothing is left to be sent or executed."""
        while not await self._quiet():
            pass

    async def _quiet(self) -> bool:
        for _ in range(20):  # turns of the loop: a frame takes a few
            await asyncio.sleep(0)
        components = [each for peer in self.peers.values() for each in peer.host.hosting.components.values()]
        if any(each.running for each in components):
            await asyncio.sleep(0.001)
            return False
        return not any(port.queue for each in components for port in each.ports.values())

    async def close(self) -> None:
        """Close both peers."""
        for peer in self.peers.values():
            await peer.close()
        for task in tuple(self._tasks):
            task.cancel()


# -- what is counted -------------------------------------------------------------------------------------------------


def _plan() -> Plan:
    stream = source("python", name="source", columns={"bytes": "int"}, rate=1.0)
    return stream.filter("bytes >= 0").sink("out", delay="1 h")


def _items(first: int, rows: int, *, promise: bool) -> Iterator[Item]:
    """Tuples from a number on, one each millisecond, and the promise behind them."""
    numbers = pl.int_range(first, first + rows, dtype=pl.Int64, eager=True)
    if rows:
        yield Batch(pl.DataFrame({"time": (numbers * 1000).cast(pl.Datetime("us")), "bytes": numbers}), 0, 0.0)
    if promise:
        yield Punctuation((first + max(rows, 1)) * 1000, 0, 0.0)


async def counted(rows: int, *, promise: bool, count: int, seconds: float) -> tuple[float, float, list[str]]:
    """Count the calls of a batch on its way over source, filter and sink.

    Parameters
    ----------
    rows, promise
        Tuples of a batch, and whether a punctuation comes with it.
    count, seconds
        Number of batches, and the time between two.

    Returns
    -------
    ours, all_calls
        Calls of functions of the package, and of any Python function, by batch.
    functions
        Functions of the package on the leg from the source until the filter processes a batch.
    """
    calls = Calls()
    leg: list[str] = []
    first = 0
    with calls.with_threads():  # of which the pool starts another one whenever none is free
        world = TwoPeers()
        world.deploy("counted", _plan())
        for _ in range(10):  # subscriptions are answered, operators are warm
            world.advance(ONE_S)
            await world.settled()
        for number in range(WARM + count):
            world.advance(seconds)
            world.push("counted", *_items(first, rows, promise=promise))
            first += max(rows, 1)
            with calls.counted(until="Filter.process" if number < WARM else ""):
                await world.settled()
            if number < WARM:  # the last of these batches tells the leg
                leg = calls.functions
                calls.counts.clear()
        await world.close()
    return calls.ours / count, calls.every / count, leg


def batch(*, small: bool = False) -> dict[str, Any]:
    """Python calls of a batch of 100 tuples over source, filter and sink; of one tuple, a promise, five together."""
    count = 10 if small else 100
    cases = {
        "batch": (ROWS, False, STEP_S),
        "batch_with_promise": (ROWS, True, STEP_S),
        "one_tuple_with_promise": (1, True, ONE_S),
        "promise": (0, True, ONE_S),
        "gathered": (5, True, 5 * ONE_S),
    }
    found: dict[str, dict[str, Any]] = {}
    functions: list[str] = []
    for name, (rows, promise, seconds) in cases.items():
        ours, every, leg = asyncio.run(counted(rows, promise=promise, count=count, seconds=seconds))
        found[name] = {"calls": round(ours, 1), "calls_with_libraries": round(every, 1)}
        functions = functions or leg
    detail = {
        "way": "two peers in one process, from the source's queue on one peer to filter and sink on the other; calls "
        "of functions of the package, counted",
        "tuples": ROWS,
        "calls": found,
        "functions_of_a_leg": len(functions),
        "leg": functions,
        "targets": {"calls": 200, "functions_of_a_leg": 30},
    }
    return measurement("batch", found["batch"]["calls"], "calls", detail)
