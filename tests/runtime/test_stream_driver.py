"""Streams on real event loops with real threads: two or three drivers whose wire is the loop."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.logic import Logic, SavedState
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.rows import Filter
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import Event
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.data.sources import ThreadFeed
from synergy_nb.runtime.data.stream_driver import SHARED, STREAM, StreamDriver
from synergy_nb.runtime.transport import arenas
from tests.waiting import DEADLINE, until

SMALL = Limits(window=1 << 14, retain=1 << 18, results=1 << 14)


MACHINE = [""]  # whose memory peers share
OPENED: list[World] = []


@pytest.fixture(autouse=True, params=["link", "memory"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Batches go over links, or through memory that peers share."""
    if request.param == "memory":
        if not arenas.machine():
            pytest.skip("this system has no memory that processes can share by reference")
        monkeypatch.setattr(arenas, "LEAST", 1000)
        monkeypatch.setattr(f"{__name__}.MACHINE", [arenas.machine()])
    return str(request.param)


class Wire:
    """A peer's runtime whose wire is the event loop: a frame arrives at a later turn of it."""

    def __init__(self, address: str, world: World) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self.world = world
        self.channels: dict[str, Callable[[str, bytes], None]] = {}
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.sent = 0

    def clock(self) -> float:
        return time.time()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        assert channel in (STREAM, SHARED)
        self.sent += len(payload)
        assert to != self.address, "what stays on a peer must not go over the wire"
        if frozenset((self.address, to)) in self.world.cut:
            raise OSError("the link is broken")
        if to in self.world.drivers and self.address in self.world.drivers:
            self.loop.call_soon(self.world.wires[to].channels[channel], self.address, payload)

    def on_channel(self, channel: str, receive: Callable[[str, bytes], None]) -> None:
        self.channels[channel] = receive

    def record(self, kind: Callable[..., Event], /, *fields: Any, **named: Any) -> None:
        event = kind(self.clock(), self.address, *fields, **named)
        self.events.append((event.kind, event.subject, event.detail))


class World:
    """Drivers, the applications on them, and what they said."""

    def __init__(self, plan: Plan, inputs: Mapping[str, Iterable[pl.DataFrame]], limits: Limits = LIMITS) -> None:
        self.plan = plan
        self.inputs = inputs
        self.cut: set[frozenset[str]] = set()
        self.facts: list[tuple[str, Fact]] = []
        self.wires = {peer: Wire(peer, self) for peer in "abc"}
        self.dead: list[StreamDriver] = []
        self.drivers = {peer: self._driver(peer, wire, limits) for peer, wire in self.wires.items()}
        self.gate = asyncio.Event()  # sources stop in the middle until it is set
        self.gate.set()
        self.tables: list[pl.DataFrame] = []
        self.collected = ORIGIN
        self.ended = False
        self.held: list[threading.Event] = []  # what threads wait for that would not end otherwise
        OPENED.append(self)

    def _driver(self, peer: str, wire: Wire, limits: Limits) -> StreamDriver:
        def said(fact: Fact) -> None:
            self.facts.append((peer, fact))

        return StreamDriver(
            wire,
            self._create,
            self._read(wire),
            on_fact=said,
            arrived=lambda *_: self.collect(peer),
            limits=limits,
            machine=lambda: MACHINE[0],
        )

    def _create(self, _: Deployment, component: Component) -> Logic | None:
        asked = self.plan.operators[component.operator]
        return None if asked.kind == "source" else create(asked, self.plan, wait=lambda _: None)

    def _read(self, wire: Wire) -> Callable[..., ThreadFeed]:
        def read(component: Component, since: Point, ready: Callable[[], None]) -> ThreadFeed:
            operator = component.operator

            def items() -> Iterator[tuple[float, Item]]:
                for table in self.inputs[operator]:
                    yield 0.0, Batch(table, 0, 0.0)
                    last = table.get_column("time").cast(pl.Int64)[-1]
                    yield 0.0, Punctuation(int(last), 0, 0.0)
                yield 0.0, Punctuation(END, 0, 0.0)

            return ThreadFeed(
                ready,
                wire.clock,
                most=1 << 20,
                since=since,
                loop=wire.loop,
                read=lambda _skipped: (items(), False),
                failed=lambda error: self.facts.append(
                    ("", Fact(FactKind.COMPONENT_FAILED, "app", operator, repr(error)))
                ),
                name=f"synergy test {operator}",
            )

        return read

    def deploy(self, deployment: Deployment) -> None:
        for driver in self.drivers.values():
            driver.converge(deployment)

    def collect(self, peer: str) -> None:
        if peer in self.drivers:
            driver = self.drivers[peer]
            for chunk in driver.hosting.results("app", "out", self.collected, math.inf):
                self.collected = chunk.end
                driver.collected("app", "out", chunk.end, chunk.end)
                if isinstance(chunk.item, Batch):
                    self.tables.append(chunk.item.table)
                else:
                    self.ended = self.ended or chunk.item.ends

    def kill(self, peer: str) -> None:
        self.dead.append(self.drivers.pop(peer))
        for other in self.drivers.values():
            other.link_down(peer)

    def break_link(self, one: str, other: str) -> None:
        self.cut.add(frozenset((one, other)))
        self.drivers[one].link_down(other)
        self.drivers[other].link_down(one)

    def said(self, kind: str) -> list[str]:
        return [fact.operator for _, fact in self.facts if fact.kind == kind]

    @property
    def rows(self) -> pl.DataFrame:
        return pl.concat(self.tables)

    async def close(self) -> None:
        for event in self.held:
            event.set()
        for driver in (*self.drivers.values(), *self.dead):
            await driver.close()


def on_loop(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on an event loop of its own, and close its drivers; no thread of theirs may be left."""
    before = set(threading.enumerate())

    async def whole() -> None:
        try:
            await test
        finally:
            while OPENED:
                await OPENED.pop().close()

    asyncio.run(whole())
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not [name for name in left if name.startswith("synergy")], left


def tables(batches: int, rows: int) -> list[pl.DataFrame]:
    return [
        pl.DataFrame(
            {
                "time": pl.int_range(number * rows, (number + 1) * rows, dtype=pl.Int64, eager=True).cast(
                    pl.Datetime("us")
                ),
                "v": pl.int_range(number * rows, (number + 1) * rows, dtype=pl.Int64, eager=True) % 10,
            }
        )
        for number in range(batches)
    ]


def numbers(name: str) -> Stream:
    return source("python", name=name, columns={"v": "int"}, rate=1000.0, id=name)


def chain() -> Plan:
    return numbers("n").filter("v <> 3", id="f").project("v", id="p").sink("out", id="out")


def union() -> Plan:
    return numbers("n").union(numbers("m"), id="u").filter("v >= 0", id="f").sink("out", id="out")


def assignments(plan: Plan, peers: Mapping[str, str], backups: Mapping[str, tuple[str, ...]]) -> dict[str, Assignment]:
    return {
        name: Assignment(
            peers[name],
            backups=backups.get(name, ()),
            inputs=tuple(InputFeed("app", up) for up in operator.inputs),
            sink=operator.kind == "sink",
        )
        for name, operator in plan.operators.items()
    }


def changed(deployment: Deployment, **new: Assignment) -> Deployment:
    return msgspec.structs.replace(
        deployment, version=deployment.version + 1, assignments={**deployment.assignments, **new}
    )


async def test_a_chain_over_three_peers_gives_all_its_rows_in_order(way: str) -> None:
    inputs = tables(30, 5000)

    world = World(chain(), {"n": inputs})
    world.deploy(Deployment("app", 1, assignments(world.plan, {"n": "a", "f": "b", "p": "c", "out": "a"}, {})))
    await until(lambda: world.ended)
    assert world.rows["v"].equals(pl.concat(inputs).filter(pl.col("v") != 3)["v"])
    assert not world.said("component_failed")
    assert (world.wires["a"].sent < 1_000_000) is (way == "memory")


@pytest.mark.slow
async def test_small_windows_hold_up_sources_and_lose_nothing() -> None:
    inputs = tables(40, 3000)

    world = World(chain(), {"n": inputs}, SMALL)
    world.deploy(Deployment("app", 1, assignments(world.plan, {"n": "a", "f": "b", "p": "a", "out": "b"}, {})))
    await until(lambda: world.ended)
    assert world.rows["v"].equals(pl.concat(inputs).filter(pl.col("v") != 3)["v"])


@pytest.mark.slow
async def test_links_that_break_in_the_middle_of_a_window_lose_and_stall_nothing() -> None:
    inputs = tables(60, 2000)

    world = World(chain(), {"n": inputs}, SMALL)
    world.deploy(Deployment("app", 1, assignments(world.plan, {"n": "a", "f": "b", "p": "a", "out": "b"}, {})))
    for tuples in (5_000, 20_000, 50_000):
        await until(lambda tuples=tuples: sum(map(len, world.tables)) > tuples)  # type: ignore[misc]
        world.break_link("a", "b")
        world.cut.clear()
    await until(lambda: world.ended)
    assert world.rows["v"].equals(pl.concat(inputs).filter(pl.col("v") != 3)["v"])


async def test_a_death_under_an_operator_with_two_inputs_loses_and_doubles_nothing() -> None:
    inputs = {"n": tables(40, 2000), "m": tables(40, 2000)}

    world = World(union(), inputs, Limits(window=1 << 16, retain=1 << 18, results=1 << 16))
    where = {"n": "a", "m": "a", "u": "b", "f": "a", "out": "a"}
    deployment = Deployment("app", 1, assignments(world.plan, where, {"u": ("c",)}))
    world.deploy(deployment)
    await until(lambda: "u" in world.said("copy_ready") and sum(map(len, world.tables)) > 30_000)
    world.kill("b")
    world.deploy(
        changed(deployment, u=msgspec.structs.replace(deployment.assignments["u"], active="c", epoch=1, backups=()))
    )
    await until(lambda: world.ended)
    assert "u" in world.said("taken_over")
    wanted = pl.concat([table for each in inputs.values() for table in each])
    assert world.rows.sort("time", "v").equals(wanted.select(world.rows.columns).sort("time", "v"))


class Held:
    """Tables of which those behind the second do not come before a test says so."""

    def __init__(self, held: list[pl.DataFrame]) -> None:
        self.tables = held
        self.go = threading.Event()

    def __iter__(self) -> Iterator[pl.DataFrame]:
        for number, table in enumerate(self.tables):
            if number == 2:
                self.go.wait()
            yield table


@pytest.mark.slow
@pytest.mark.parametrize("dies", [True, False])
async def test_a_large_state_goes_to_another_peer_in_pieces_and_on_from_there(dies: bool) -> None:
    rows = 100_000
    inputs = [table.with_columns(v=table["time"].cast(pl.Int64)) for table in tables(4, rows)]
    held = Held(inputs)
    plan = numbers("n").aggregate(by=["v"], window="100 ms", n="count(*)", id="counts").sink("out", id="out")

    world = World(plan, {"n": held})
    world.held.append(held.go)
    deployment = Deployment("app", 1, assignments(plan, {"n": "a", "counts": "b", "out": "a"}, {}))
    world.deploy(deployment)
    await until(lambda: sum(map(len, world.tables)) == rows)  # it has those of the second table
    at = deployment.assignments["counts"]
    copied = msgspec.structs.replace(at, **({"backups": ("c",)} if dies else {"follower": "c"}))
    keeping = changed(deployment, counts=copied)
    world.deploy(keeping)
    await until(lambda: "counts" in world.said("copy_ready"))
    assert len(world.drivers["c"].hosting.roles.copies["app", "counts"].pieces) > 2
    if dies:
        world.kill("b")
    else:
        held.go.set()
    world.deploy(changed(keeping, counts=msgspec.structs.replace(at, active="c", epoch=1)))
    held.go.set()
    await until(lambda: world.ended)
    assert "counts" in world.said("taken_over")
    assert world.rows["v"].sort().equals(pl.concat(inputs)["v"])
    assert world.rows["n"].unique().to_list() == [1]


@pytest.mark.slow
async def test_a_live_filter_moves_away_from_its_source_without_a_lost_row() -> None:
    """Its input was not encoded when it was made, as its reader was on the same peer, and has to be now."""
    inputs = tables(60, 2000)

    world = World(chain(), {"n": inputs}, SMALL)
    deployment = Deployment("app", 1, assignments(world.plan, {"n": "a", "f": "a", "p": "a", "out": "a"}, {}))
    world.deploy(deployment)
    await until(lambda: sum(map(len, world.tables)) > 10_000)
    at = deployment.assignments["f"]
    following = changed(deployment, f=msgspec.structs.replace(at, follower="b"))
    world.deploy(following)
    await until(lambda: "f" in world.said("copy_ready"))
    world.deploy(changed(following, f=msgspec.structs.replace(at, active="b", epoch=1)))
    await until(lambda: world.ended)
    assert "f" in world.said("taken_over")
    assert world.rows["v"].equals(pl.concat(inputs).filter(pl.col("v") != 3)["v"])


@pytest.mark.slow
async def test_a_damaged_frame_is_recorded_and_asked_for_again() -> None:
    inputs = tables(20, 2000)

    world = World(chain(), {"n": inputs}, SMALL)
    wire = world.wires["a"]
    send = wire.send_data
    sent: list[int] = []

    def damage(to: str, channel: str, payload: bytes) -> None:
        sent.append(len(payload))
        if len(sent) % 3 == 0:
            payload = payload[:-1] + bytes([payload[-1] ^ 1])
        send(to, channel, payload)

    wire.send_data = damage  # type: ignore[method-assign]
    world.deploy(Deployment("app", 1, assignments(world.plan, {"n": "a", "f": "b", "p": "b", "out": "b"}, {})))
    await until(lambda: world.ended)
    assert any(kind == "data_refused" for kind, *_ in world.wires["b"].events)
    assert world.rows["v"].equals(pl.concat(inputs).filter(pl.col("v") != 3)["v"])


async def test_an_operator_that_raises_fails_by_name() -> None:
    plan = numbers("n").project("v", w="v / 0", id="p").sink("out", id="out")
    world = World(plan, {"n": [pl.DataFrame({"time": pl.Series([0]).cast(pl.Datetime("us")), "x": [1]})]})
    world.deploy(Deployment("app", 1, assignments(plan, {"n": "a", "p": "a", "out": "a"}, {})))
    await until(lambda: bool(world.said("component_failed")))
    assert world.said("component_failed") == ["p"]


class Broken:
    """A logic that raises what Polars raises when it panics, which is no Exception."""

    late = 0
    state_bytes = 0

    def __init__(self, at: str) -> None:
        self.at = at

    def needs(self, _: int, __: Item) -> float:
        return 0.0

    def execute(self, _: int, item: Item) -> Iterator[Item]:
        if self.at == "execute":
            raise pl.exceptions.PanicException("it broke")
        yield item

    def save(self) -> SavedState:
        raise pl.exceptions.PanicException("it broke")

    def restore(self, _: SavedState) -> None:
        raise ValueError("there is nothing to restore")


class Heavy(Broken):
    """A logic that says to need much, and takes until a test lets it go on."""

    def __init__(self, go: threading.Event) -> None:
        super().__init__("nowhere")
        self.go = go

    def needs(self, _: int, item: Item) -> float:
        return 1e9 if isinstance(item, Batch) else 0.0

    def execute(self, _: int, item: Item) -> Iterator[Item]:
        if isinstance(item, Batch):
            self.go.wait(DEADLINE)
        yield item


async def test_nothing_is_executed_on_the_loop_while_an_operator_takes_long_elsewhere() -> None:
    """Polars has one pool of threads: a filter of two tuples would wait for a large sort, and the loop with it."""
    go, threads, slow = threading.Event(), set[str](), list[Component]()

    plan = numbers("n").filter("v >= 0", id="f").union(numbers("m").filter("v >= 0", id="g"), id="u")
    world = World(plan.sink("out", id="out"), {"n": tables(1, 100), "m": tables(30, 2)})
    world.held.append(go)
    driver, loop = world.drivers["a"], asyncio.get_running_loop()
    create = driver.hosting.create

    def made(deployment: Deployment, component: Component) -> Logic | None:
        if component.operator == "f":
            return Heavy(go)
        return create(deployment, component)

    driver.hosting.create = made
    execute = Filter.execute

    def recorded(self: Filter, port: int, item: Item) -> Iterator[Item]:
        if slow and slow[0].running and not go.is_set():
            threads.add(threading.current_thread().name)
        yield from execute(self, port, item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filter, "execute", recorded)
        world.deploy(Deployment("app", 1, assignments(world.plan, dict.fromkeys(world.plan.operators, "a"), {})))
        heavy = driver.hosting.components["app", "f"]
        slow.append(heavy)
        other = driver.hosting.components["app", "g"]
        other.light_s = other.light_punctuation_s = 0.0
        await until(lambda: heavy.running and bool(other.ports[0].queue))
        occupied = [driver.occupied]
        for _ in range(100):
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn
        assert other.ports[0].queue, "it waits for a thread"
        go.set()
        await until(lambda: world.ended)
    assert [*occupied, driver.occupied] == [True, False]
    assert len(world.rows) == 160
    assert threading.current_thread().name not in threads


@pytest.mark.parametrize("at", ["execute", "snapshot"])
async def test_an_operator_that_panics_in_a_thread_fails_by_name(at: str) -> None:
    world = World(chain(), {"n": tables(5, 2000)})
    for driver in world.drivers.values():
        create = driver.hosting.create
        driver.hosting.create = lambda deployment, component, create=create: (  # type: ignore[misc]
            Broken(at) if component.operator == "f" else create(deployment, component)
        )
    where = {"n": "a", "f": "b", "p": "a", "out": "a"}
    world.deploy(Deployment("app", 1, assignments(world.plan, where, {"f": ("c",)})))
    await until(lambda: bool(world.said("component_failed")))
    assert world.said("component_failed") == ["f"]
    (reason,) = [fact.reason for _, fact in world.facts if fact.kind is FactKind.COMPONENT_FAILED]
    assert "PanicException: it broke" in reason
