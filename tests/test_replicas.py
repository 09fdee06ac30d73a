"""Passive replication between hosts: what backups keep, and how one goes on when its primary's peer is gone."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow.channels import Outlet, Parcel
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, decode, encode
from synergy_nb.graph import Deploy, Moving, Replicate, Start, Undeploy
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.host import Host
from synergy_nb.runtime.replicas import Replica
from tests.test_taps import COLUMNS
from tests.two_hosts import OPENED, FakeRuntime, Pair, play, table
from tests.waiting import DEADLINE, turns, until

ROWS = 40


class Wire(FakeRuntime):
    """A wire that can lose peers: at first what is sent to them vanishes, then sending fails."""

    silent: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        if to in self.gone:
            raise ConnectionResetError(to)
        if to not in self.silent and self.address not in self.silent:
            super().send_data(to, channel, payload)


class Hosts(Pair):
    """Hosts a (source and sink), p (primaries), b and c (backups)."""

    def __init__(
        self, plan: Plan, backups: dict[str, tuple[str, ...]], application: str = "app", **options: Any
    ) -> None:
        OPENED.append(self)
        self.plan = plan
        self.application = application
        self.net: dict[str, Host] = {}
        self.runtimes = {address: Wire(address, self.net) for address in "apbc"}
        self.failed: list[tuple[str, str, str]] = []
        for address, runtime in self.runtimes.items():
            self.net[address] = Host(runtime, failed=lambda *report: self.failed.append(report), **options)
        self.peers = {name: "p" if name in backups else "a" for name in plan.operators}
        self.backups = backups
        self.position = 0
        self.rows: list[pl.DataFrame] = []

    def begin(self) -> None:
        order = self.plan.to_bytes()
        for operator, peers in self.backups.items():
            for peer in peers:
                self.net[peer].carry_out(Replicate(self.application, operator, order, self.peers, self.backups))
        for operator in reversed(list(self.plan.operators)):
            self.net[self.peers[operator]].carry_out(
                Deploy(self.application, operator, order, self.peers, "fcfs", self.backups)
            )
        for operator in self.plan.sources:
            self.net["a"].carry_out(Start(self.application, operator))

    async def push(self, batches: int = 1, rows: int = ROWS) -> None:
        """Push tuples, and that nothing older follows, as soon as there is room."""
        for _ in range(batches):
            await self._put(Batch(table(self.position, rows), self.position, 0.0))
            self.position += rows
            await self._put(Punctuation(self.position * 1000, self.position, 0.0))

    async def _put(self, item: Any) -> None:
        async with asyncio.timeout(DEADLINE):
            for name in {self.plan.operators[each].params["name"] for each in self.plan.sources}:
                while not self.net["a"].push(self.application, name, encode(item)):
                    self.fetch()
                    await turns()
        self.fetch()
        await turns()

    def fetch(self) -> bool:
        items, ended = self.net["a"].fetch(self.application, 1 << 20)
        self.rows += [item.table for item in map(decode, items) if isinstance(item, Batch)]
        return ended

    async def finish(self) -> pl.DataFrame:
        await self._put(Punctuation(END, self.position, 0.0))
        await until(self.fetch)
        return pl.concat(self.rows)

    def lose(self, *addresses: str, failing: bool = True) -> None:
        """Let peers be gone; those who send to them notice at once, or do not."""
        for runtime in self.runtimes.values():
            assert isinstance(runtime, Wire)
            runtime.silent |= set(addresses)
            if failing:
                runtime.gone |= set(addresses)

    def take_over(self, *lost: str) -> None:
        """What sessions do when peers have died."""
        alive = {name: tuple(peer for peer in peers if peer not in lost) for name, peers in self.backups.items()}
        moved = [name for name, peer in self.peers.items() if peer in lost]
        for name in moved:
            self.peers = {**self.peers, name: alive[name][0]}
            alive[name] = alive[name][1:]
        self.backups = alive
        for name in moved:
            order = Deploy(self.application, name, self.plan.to_bytes(), self.peers, "fcfs", self.backups, resumed=True)
            self.net[self.peers[name]].carry_out(order)
        for address in set(self.net) - set(lost):
            self.net[address].carry_out(Moving(self.application, self.peers, self.backups))


def pushed() -> Stream:
    return source("python", name="mine", columns=COLUMNS)


def windowed() -> Plan:
    return (
        pushed()
        .filter("bytes % 3 <> 0")
        .aggregate("source", "100 ms", n="count(*)", total="sum(bytes)")
        .filter("n > 0", id="some")
        .sink()
    )


BACKED: dict[str, tuple[str, ...]] = {"filter": ("b",), "aggregate": ("b",), "some": ("b",)}


def undisturbed(plan: Plan, batches: int) -> pl.DataFrame:
    found: list[pl.DataFrame] = []

    async def scenario() -> None:
        hosts = Hosts(plan, {})
        hosts.begin()
        await hosts.push(batches)
        found.append(await hosts.finish())

    play(scenario)
    return found[0]


@pytest.mark.parametrize("failing", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_backup_goes_on_with_is_what_there_would_have_been(seed: int, failing: bool) -> None:
    batches = 40
    expected = undisturbed(windowed(), batches)
    rng = random.Random(seed)

    async def scenario() -> None:
        hosts = Hosts(windowed(), BACKED)
        hosts.begin()
        crash = rng.randrange(1, batches - 10)
        await hosts.push(crash)
        await turns(rng.randrange(200))
        if rng.random() < 0.7:  # with a state that the backup has
            kept = [hosts.net["b"]._path.replicas.kept("app", name) for name in BACKED]
            await until(lambda: all(one is not None and one.state is not None for one in kept))
        hosts.lose("p", failing=failing)
        await hosts.push(3)
        hosts.take_over("p")
        await hosts.push(batches - crash - 3)
        found = await hosts.finish()
        assert found.equals(expected)
        assert not hosts.failed
        assert not [event for event in hosts.runtimes["b"].events if event[0] == "gap"]

    play(scenario)


def test_one_after_the_other_takes_over() -> None:
    batches = 30
    expected = undisturbed(windowed(), batches)

    async def scenario() -> None:
        hosts = Hosts(windowed(), dict.fromkeys(BACKED, ("b", "c")))
        hosts.begin()
        await hosts.push(10)
        hosts.lose("p")
        hosts.take_over("p")
        await hosts.push(10)
        kept = [hosts.net["c"]._path.replicas.kept("app", name) for name in BACKED]
        await until(lambda: all(one is not None and one.state is not None for one in kept))
        hosts.lose("p", "b")
        hosts.take_over("b")
        await hosts.push(10)
        assert (await hosts.finish()).equals(expected)
        assert not hosts.failed

    play(scenario)


def test_only_what_was_on_the_lost_peer_moves() -> None:
    batches = 20
    expected = undisturbed(windowed(), batches)

    async def scenario() -> None:
        hosts = Hosts(windowed(), BACKED)
        hosts.peers = {**hosts.peers, "filter": "c", "some": "c"}
        hosts.begin()
        await hosts.push(8)
        hosts.lose("p")
        hosts.take_over("p")
        assert hosts.peers["aggregate"] == "b"
        await hosts.push(12)
        assert (await hosts.finish()).equals(expected)
        filtering = hosts.net["c"]._executions["app", "filter"]
        assert filtering.routes == {"data:app/filter>aggregate:0": "b"}
        (outlet,) = filtering.component.outlets
        assert not outlet.keepers, "nobody is left to take over"
        assert not outlet.retained

    play(scenario)


def test_a_join_that_is_taken_over_says_what_may_be_wrong() -> None:
    left, right = pushed(), source("python", name="other", columns=COLUMNS)
    plan = left.union(right).sink()

    async def scenario() -> None:
        hosts = Hosts(plan, {"union": ("b",)})
        hosts.begin()
        await hosts.push(10)
        kept = hosts.net["b"]._path.replicas.kept("app", "union")
        await until(lambda: kept is not None and kept.state is not None)
        hosts.lose("p")
        await hosts.push(2)
        hosts.take_over("p")
        await hosts.push(10)
        found = await hosts.finish()
        ((_, _, gap),) = [event for event in hosts.runtimes["b"].events if event[0] == "gap"]
        assert gap["operator"] == "union"
        for side in (
            found.filter(pl.col("time").cast(pl.Int64) >= gap["until"]),
            found.filter(pl.col("time").cast(pl.Int64) < (gap["since"] or 0)),
        ):
            assert side.height % 2 == 0
            assert side.group_by("bytes").len().get_column("len").unique().to_list() in ([2], [])

    play(scenario)


def test_who_has_no_backup_cannot_take_over() -> None:
    async def scenario() -> None:
        hosts = Hosts(windowed(), BACKED)
        hosts.begin()
        order = Deploy("app", "filter", hosts.plan.to_bytes(), hosts.peers, "fcfs", {}, resumed=True)
        hosts.net["c"].carry_out(order)
        assert hosts.failed == [("app", "filter", "there is no backup here that could take over")]

    play(scenario)


def test_what_backups_cover_is_not_retained() -> None:
    async def scenario() -> None:
        hosts = Hosts(windowed(), BACKED)
        hosts.begin()
        await hosts.push(20)
        outlet = hosts.net["a"]._path.hosting.outlet("data:app/source>filter:0")
        assert outlet is not None
        assert set(outlet.keepers) == {"b"}
        await until(lambda: outlet.keepers["b"] == 20 * ROWS)
        assert [parcel.rows for parcel in outlet.retained] == [0], "but for the last promise"
        for operator in BACKED:
            hosts.net["b"].carry_out(Undeploy("app", operator))
            assert hosts.net["b"]._path.replicas.kept("app", operator) is None

    play(scenario)


def test_a_backup_that_missed_something_goes_on_from_the_next_state() -> None:
    batches = 30
    expected = undisturbed(windowed(), batches)

    async def scenario() -> None:
        hosts = Hosts(windowed(), BACKED)
        hosts.begin()
        wire = hosts.runtimes["p"]
        assert isinstance(wire, Wire)
        await hosts.push(5)
        wire.gone = frozenset("b")
        await hosts.push(5)
        wire.gone = frozenset()
        await hosts.push(5)
        kept = [hosts.net["b"]._path.replicas.kept("app", name) for name in BACKED]
        told = [None if one is None else one.state for one in kept]
        await hosts.push(5)
        await until(
            lambda: all(one is not None and one.state not in (None, was) for one, was in zip(kept, told, strict=True))
        )
        hosts.lose("p")
        hosts.take_over("p")
        await hosts.push(10)
        assert (await hosts.finish()).equals(expected)

    play(scenario)


# -- the parts -------------------------------------------------------------------------------------------------------


def parcel(position: int, rows: int, size: int = 10, time: int | None = None) -> Parcel:
    return Parcel(None, position, rows, size, 0.0, time)


def test_an_outlet_retains_what_no_backup_covers() -> None:
    outlet = Outlet("c", 1000, local=False)
    outlet.keepers = {"x": 0, "y": 0}
    sent = [parcel(0, 2), parcel(2, 0, time=5), parcel(2, 3)]
    outlet.outbox.extend(sent)
    assert [outlet.send() for _ in sent] == sent
    outlet.settle("x", 5)
    outlet.settle("stranger", 5)
    assert list(outlet.retained) == sent
    outlet.settle("y", 2)
    assert list(outlet.retained) == sent[1:], "the punctuation at the very position may not have been seen"
    outlet.settle("y", 1)
    assert outlet.keepers == {"x": 5, "y": 2}
    outlet.held = True
    assert not outlet.open
    outlet.outbox.append(parcel(5, 1))
    outlet.rewind(lambda one: one, ["y"], local=True)
    assert outlet.outbox == deque([*sent[1:], parcel(5, 1)])
    assert (outlet.sent, outlet.size, outlet.held, outlet.local, outlet.keepers) == (0, 0, False, True, {"y": 2})


def test_a_replica_keeps_each_thing_once_and_in_order() -> None:
    replica = Replica(Replicate("app", "filter", windowed().to_bytes(), {}, {}))
    for one in (parcel(0, 2), parcel(0, 2), parcel(2, 0, time=5), parcel(2, 0, time=5), parcel(4, 1), parcel(2, 2)):
        replica.add(one)
    assert [(one.position, one.rows) for one in replica.log] == [(0, 2), (2, 0), (2, 2)]
    assert (replica.end, replica.until) == (4, 5)
