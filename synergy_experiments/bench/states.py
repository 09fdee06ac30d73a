"""``state``: an aggregate with many keys, alone and with a copy on another peer: its speed, and stalls of the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement
from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation
from synergy_nb.events import Event
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.data.sources import ThreadFeed
from synergy_nb.runtime.data.stream_driver import StreamDriver

__all__ = ["state"]

KEYS: Final = (10_000, 100_000, 1_000_000, 5_000_000)
ROWS: Final = 65_536  # of a batch
TICK_S: Final = 1e-3  # seconds between two looks at the loop
OPERATOR: Final = "totals"


def query() -> Plan:
    """Totals by key in a window that does not end during the measurement."""
    packets = source("python", name="packets", columns={"key": "int", "bytes": "int"}, rate=1e6, id="packets")
    return packets.aggregate(by=["key"], window="1 h", total="sum(bytes)", n="count(*)", id=OPERATOR).sink(id="out")


class _Peer:
    """A peer of this process, whose link to the others is the event loop."""

    def __init__(self, address: str, peers: Mapping[str, _Peer]) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.sent = 0
        self.channels: dict[str, Callable[[str, bytes], None]] = {}
        self.refused: list[str] = []
        self._peers = peers

    def clock(self) -> float:
        """Wall-clock seconds."""
        return time.time()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Deliver a frame in a later turn of the loop."""
        self.sent += len(payload)
        self.loop.call_soon(self._peers[to].channels[channel], self.address, payload)

    def on_channel(self, channel: str, receive: Callable[[str, bytes], None]) -> None:
        """Have each frame of a channel be passed to a function."""
        self.channels[channel] = receive

    def record(self, kind: Callable[..., Event], /, *fields: Any, **named: Any) -> None:
        """Store the reason of a failure."""
        self.refused.append(f"{kind} {fields} {named}")


class _Stalls:
    """Monitor of an event loop: its largest lateness, seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._looked = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.longest = max(self.longest, time.perf_counter() - before - TICK_S)
            self._looked.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        while not condition():
            self._looked.clear()
            await self._looked.wait()

    async def stop(self) -> None:
        """Stop the measurement."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _tables(keys: int, count: int) -> list[pl.DataFrame]:
    """``count`` tuples of ``keys`` keys, in any order of these, in batches."""
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, keys, count)
    times = pl.Series("time", np.arange(count)).cast(pl.Datetime("us"))
    table = pl.DataFrame([times, pl.Series("key", chosen), pl.Series("bytes", rng.integers(40, 1500, count))])
    return list(table.iter_slices(ROWS))


async def _run(keys: int, count: int, copied: bool) -> dict[str, float]:
    """Feed tuples to an aggregate until its last snapshot is on the other peer."""
    plan, tables = query(), _tables(keys, count)
    peers: dict[str, StreamDriver] = {}
    failed: list[str] = []
    over = threading.Event()

    def made(_: Deployment, component: Component) -> Logic | None:
        operator = plan.operators[component.operator]
        return None if operator.kind == "source" else create(operator, plan)

    def items() -> Iterator[tuple[float, Item]]:
        for number, table in enumerate(tables, 1):
            yield 0.0, Batch(table, 0, 0.0)
            yield 0.0, Punctuation(number * ROWS - 1, 0, 0.0)
        over.wait()  # the window stays open

    def read(component: Component, since: Point, ready: Callable[[], None]) -> ThreadFeed:
        return ThreadFeed(
            ready,
            time.time,
            most=1 << 20,
            since=since,
            loop=asyncio.get_running_loop(),
            read=lambda _skipped: (items(), False),
            failed=lambda error: failed.append(str(error)),
            name=f"synergy bench {component.operator}",
        )

    def record(fact: Fact) -> None:
        if fact.kind is FactKind.COMPONENT_FAILED:
            failed.append(fact.reason)

    wires: dict[str, _Peer] = {}
    wires.update((name, _Peer(name, wires)) for name in ("one", "other"))
    for name, wire in wires.items():
        peers[name] = StreamDriver(wire, made, read, on_fact=record)
    assignments = {
        "packets": Assignment("one"),
        OPERATOR: Assignment("one", 0, ("other",) if copied else (), "", (InputFeed("app", "packets"),)),
        "out": Assignment("one", 0, (), "", (InputFeed("app", OPERATOR),), (), True),
    }
    stalls = _Stalls()
    began = time.perf_counter()
    try:
        for driver in peers.values():
            driver.converge(Deployment("app", 1, assignments))
        component = peers["one"].hosting.components["app", OPERATOR]
        port = component.ports[0]
        await stalls.until(lambda: bool(failed) or port.consumed.position >= count)
        seconds = time.perf_counter() - began
        await stalls.until(lambda: bool(failed) or port.durable.position >= count)
        covered = time.perf_counter() - began
        refused = [line for wire in wires.values() for line in wire.refused]
        if failed or refused:
            raise RuntimeError(f"state: {'; '.join([*failed, *refused])}")
        state_bytes = component.logic.state_bytes if component.logic is not None else 0
        return {
            "tuples_s": count / seconds,
            "stall_ms": stalls.longest * 1e3,
            "state_mb": state_bytes / 1e6,
            "snapshots": component.cuts.number + 1,
            "sent_mb": wires["one"].sent / 1e6,
            "sent_mb_s": wires["one"].sent / 1e6 / covered,
            "behind_s": covered - seconds,
        }
    finally:
        over.set()
        await stalls.stop()
        for driver in peers.values():
            driver.converge(Deployment("app", 2, {}))
        for driver in peers.values():
            await driver.close()


def state(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s of an aggregate with and without a copy, for each number of keys."""
    before = machine_load()
    sizes = (1_000, 10_000) if small else KEYS
    found: dict[str, dict[str, dict[str, float]]] = {}
    for keys in sizes:
        count = 100_000 if small else max(5_000_000, 3 * keys)
        found[f"{keys:,} keys"] = {
            name: {what: round(value, 3) for what, value in asyncio.run(_run(keys, count, copied)).items()}
            for name, copied in (("alone", False), ("with a copy", True))
        }
    largest = found[f"{sizes[-1]:,} keys"]
    detail = {
        "way": "sum and count by key in a window that stays open, of tuples of 24 bytes with random keys; two peers of "
        "one process, of which the other keeps a copy; a stall is by how much the event loop of both was late at "
        "most; behind is how long after the last tuple the copy has it",
        "keys": found,
        "ratio": round(largest["with a copy"]["tuples_s"] / largest["alone"]["tuples_s"], 3),
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("state", largest["with a copy"]["tuples_s"], "tuples/s", detail)
