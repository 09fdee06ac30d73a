"""Two hosts in one process whose wire is the event loop, and streams for them."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import polars as pl

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, decode
from synergy_nb.events import Event
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.data._sinks import Portion
from synergy_nb.runtime.data.host import Host
from synergy_nb.runtime.data.sources import Stream
from synergy_nb.traces import Skipped
from tests.waiting import DEADLINE, run_loop

OPENED: list[Pair] = []


class FakeRuntime:
    """A peer's runtime whose wire is the event loop: a frame arrives at a later turn of it."""

    def __init__(self, address: str, net: Mapping[str, FakeRuntime]) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.net = net
        self.channels: dict[str, Callable[[str, bytes], None]] = {}
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.frames = 0
        self.broken = False

    def clock(self) -> float:
        return time.time()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        if self.broken:
            raise BufferError(f"link to {to} is full")
        assert to != self.address, "what stays on a peer must not go over the wire"
        self.frames += 1
        self.loop.call_soon(self.net[to].channels[channel], self.address, payload)

    def on_channel(self, channel: str, receive: Callable[[str, bytes], None]) -> None:
        self.channels[channel] = receive

    def record(self, kind: Callable[..., Event], /, *fields: Any, **named: Any) -> None:
        event = kind(self.clock(), self.address, *fields, **named)
        self.events.append((event.kind, event.subject, event.detail))


class Pair:
    """Two hosts, a and b, and what they reported."""

    def __init__(self, **options: Any) -> None:
        OPENED.append(self)
        self.net: dict[str, Host] = {}
        self.runtimes: dict[str, FakeRuntime] = {}
        self.runtimes.update((address, FakeRuntime(address, self.runtimes)) for address in "ab")
        self.failed: list[tuple[str, str, str]] = []
        self.finished: list[tuple[str, str]] = []
        self.measured: list[tuple[str, str, dict[str, Any]]] = []
        for address, runtime in self.runtimes.items():
            self.net[address] = Host(
                runtime,
                failed=lambda *report: self.failed.append(report),
                finished=lambda *report: self.finished.append(report),
                measured=lambda *report: self.measured.append(report),
                **options,
            )

    def deploy(self, application: str, plan: Plan, peers: Mapping[str, str]) -> None:
        """Deploy all components, and start the sources."""
        order = deployment(application, plan, peers)
        for address in dict.fromkeys(peers.values()):
            self.net[address].carry_out(order)

    def undeploy(self, application: str, peers: Mapping[str, str]) -> None:
        for address in dict.fromkeys(peers.values()):
            self.net[address].carry_out(Deployment(application, 1))

    async def results(self, address: str, application: str, max_bytes: int = 1 << 20) -> list[Batch]:
        """All results until the end of the stream that nobody was given before."""
        batches: list[Batch] = []
        one = self.net[address]
        while True:
            found = portion(one, application, max_bytes)
            batches += [item for item in map(decode, found.items) if isinstance(item, Batch)]
            if found.finished:
                return batches
            if not found.items:
                await arrival(one, application)

    async def close(self) -> None:
        for one in self.net.values():
            await one.close()


def deployment(
    application: str,
    plan: Plan,
    peers: Mapping[str, str],
    *,
    backups: Mapping[str, tuple[str, ...]] | None = None,
    version: int = 1,
) -> Deployment:
    """All components of a plan, each on its peer."""
    assignments = {
        name: Assignment(
            peers[name],
            backups=(backups or {}).get(name, ()),
            inputs=tuple(InputFeed(application, up) for up in operator.inputs),
            sink=operator.kind == "sink",
        )
        for name, operator in plan.operators.items()
        if name in peers
    }
    return Deployment(application, version, assignments, plan=plan.to_bytes())


def play(scenario: Awaitable[None]) -> None:
    """Run ``scenario`` on an event loop of its own, close its hosts; no thread of theirs may be left."""
    before = set(threading.enumerate())  # a cluster that tests share has some

    async def whole() -> None:
        try:
            async with asyncio.timeout(1.5 * DEADLINE):
                await scenario
        finally:
            while OPENED:
                await OPENED.pop().close()

    run_loop(whole())
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not [name for name in left if name.startswith("synergy")], left


# -- streams ---------------------------------------------------------------------------------------------------------


def table(first: int, rows: int) -> pl.DataFrame:
    """Tuples of a TCP trace: one a millisecond, ``bytes`` counts them."""
    numbers = pl.int_range(first, first + rows, dtype=pl.Int64, eager=True)
    return pl.DataFrame(
        {
            "time": (numbers * 1000).cast(pl.Datetime("us")),
            "source": (numbers % 7).cast(pl.String),
            "destination": (numbers % 3).cast(pl.String),
            "source_port": numbers % 1000,
            "destination_port": numbers % 100,
            "bytes": numbers,
        }
    )


def items(batches: int, rows: int) -> Iterator[Item]:
    for number in range(batches):
        yield Batch(table(number * rows, rows), number * rows, 0.0)
        yield Punctuation((number + 1) * rows * 1000 if number + 1 < batches else END, (number + 1) * rows, 0.0)


def reading(
    batches: int, rows: int, counted: list[int] | None = None
) -> Callable[[Mapping[str, Any], Skipped], tuple[Stream, bool]]:
    """A reader of traces that gives ``batches`` of ``rows`` and counts in ``counted`` the items that were taken."""

    def read(params: Mapping[str, Any], skipped: Skipped) -> tuple[Stream, bool]:
        def stream() -> Stream:
            for item in items(batches, rows):
                if counted is not None:
                    counted.append(1)
                yield 0.0, item

        return stream(), False

    return read


def trace() -> Any:
    return source("trace", path="fake.tcp", format="tcp")


PLACES: weakref.WeakKeyDictionary[Host, dict[str, Point]] = weakref.WeakKeyDictionary()  # how far the tests have read


def portion(one: Host, application: str, max_bytes: int = 1 << 20) -> Portion:
    """The next results."""
    places = PLACES.setdefault(one, {})
    found = one.fetch(application, None, "test", places.get(application), max_bytes)
    places[application] = found.end
    return found


def fetched(one: Host, application: str, max_bytes: int = 1 << 20) -> list[Batch]:
    """The batches of the next results."""
    found = portion(one, application, max_bytes)
    return [item for item in map(decode, found.items) if isinstance(item, Batch)]


async def arrival(one: Host, application: str) -> None:
    """Acknowledge what was fetched; return when there are more results, or no more follow."""
    since = PLACES.get(one, {}).get(application)
    one.fetch(application, None, "test", since, 1)
    await one.arrival(application, None, since or ORIGIN, DEADLINE)


def numbers(batches: list[Batch]) -> list[int]:
    return [value for batch in batches for value in batch.table["bytes"].to_list()]


COLUMNS = {
    name: "int" if name in {"source_port", "destination_port", "bytes"} else "str" for name in table(0, 1).columns[1:]
}
