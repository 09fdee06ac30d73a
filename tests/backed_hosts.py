"""Hosts in one process whose components have backups, and of which some are lost."""

from __future__ import annotations

import asyncio
from typing import Any

import polars as pl

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, decode, encode
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.data.host import Host
from tests.two_hosts import COLUMNS, OPENED, FakeRuntime, Pair, arrival, portion, table
from tests.waiting import DEADLINE, first_of, turns, until

ROWS = 40


class Wire(FakeRuntime):
    """A wire that can lose peers: at first what is sent to them vanishes, then sending fails."""

    silent: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        if to in self.gone or self.address in self.gone:
            raise ConnectionResetError(to)
        if to not in self.silent and self.address not in self.silent:
            super().send_data(to, channel, payload)


class Hosts(Pair):
    """Hosts a (source and sink), p (what has backups), b and c (backups)."""

    def __init__(
        self, plan: Plan, backups: dict[str, tuple[str, ...]], application: str = "app", **options: Any
    ) -> None:
        OPENED.append(self)
        self.plan = plan
        self.application = application
        self.net: dict[str, Host] = {}
        self.wires: dict[str, Wire] = {}
        self.wires.update((address, Wire(address, self.wires)) for address in "apbc")
        self.runtimes = dict(self.wires)
        self.failed: list[tuple[str, str, str]] = []
        self.ready: list[tuple[str, str]] = []
        for address, runtime in self.wires.items():
            self.net[address] = Host(
                runtime,
                failed=lambda *report: self.failed.append(report),
                copies=lambda fact, _: self.ready.append((fact.application, fact.operator)),
                **options,
            )
        self.peers = {name: "p" if name in backups else "a" for name in plan.operators}
        self.backups = backups
        self.epochs = dict.fromkeys(plan.operators, 0)
        self.version = 0
        self.position = 0
        self.rows: list[pl.DataFrame] = []

    def tell(self, *lost: str) -> None:
        """Tell all peers, but for those that are lost, who executes what."""
        self.version += 1
        assignments = {
            name: Assignment(
                self.peers[name],
                self.epochs[name],
                self.backups.get(name, ()),
                inputs=tuple(InputFeed(self.application, up) for up in operator.inputs),
                sink=operator.kind == "sink",
            )
            for name, operator in self.plan.operators.items()
        }
        order = Deployment(self.application, self.version, assignments, plan=self.plan.to_bytes())
        for address in set(self.net) - set(lost):
            self.net[address].carry_out(order)

    async def push(self, batches: int = 1, rows: int = ROWS) -> None:
        """Push tuples, and that nothing older follows, as soon as there is room."""
        for _ in range(batches):
            await self._put(Batch(table(self.position, rows), self.position, 0.0))
            self.position += rows
            await self._put(Punctuation(self.position * 1000, self.position, 0.0))

    async def _put(self, item: Any) -> None:
        async with asyncio.timeout(DEADLINE):
            host, application = self.net["a"], self.application
            for name in {self.plan.operators[each].params["name"] for each in self.plan.sources}:
                while not host.pushed.push(application, name, encode(item)):
                    self.fetch()
                    await first_of(host.pushed.room(application, name), arrival(host, application))
        self.fetch()
        await turns()

    def fetch(self) -> bool:
        found = portion(self.net["a"], self.application)
        self.rows += [item.table for item in map(decode, found.items) if isinstance(item, Batch)]
        return found.finished

    async def finish(self) -> pl.DataFrame:
        await self._put(Punctuation(END, self.position, 0.0))
        while not self.fetch():
            await arrival(self.net["a"], self.application)
        return pl.concat(self.rows)

    def kept(self, address: str, operator: str) -> Copy:
        return self.net[address].hosting.roles.copies[self.application, operator]

    async def covered(self, address: str) -> None:
        """Return when a peer could go on with all that it keeps backups of."""
        kept = [self.kept(address, name) for name, peers in self.backups.items() if address in peers]
        await until(lambda: all(copy.state is not None for copy in kept))

    def lose(self, *addresses: str, failing: bool = True) -> None:
        """Let peers be gone; those who send to them notice at once, or do not."""
        for runtime in self.wires.values():
            runtime.silent |= set(addresses)
            if failing:
                runtime.gone |= set(addresses)

    def take_over(self, *lost: str) -> None:
        """What sessions do when peers have died."""
        alive = {name: tuple(peer for peer in peers if peer not in lost) for name, peers in self.backups.items()}
        for name, peer in self.peers.items():
            if peer in lost:
                self.peers = {**self.peers, name: alive[name][0]}
                self.epochs[name] += 1
                alive[name] = alive[name][1:]
        self.backups = alive
        self.tell(*lost)


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


async def undisturbed(plan: Plan, batches: int, rows: int = ROWS) -> pl.DataFrame:
    hosts = Hosts(plan, {})
    hosts.tell()
    await hosts.push(batches, rows)
    found = await hosts.finish()
    await hosts.close()
    return found
