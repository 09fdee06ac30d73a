"""Techniques for reliable streams through a fault, on Dask workers: the query and the sites of reliable_streams.

Six peers have the delays of the sites between them (:data:`~synergy_experiments.worlds.reliable_streams.DELAYS_MS`, and
those of the shortest path where that states none). The unions are pinned to WISC and to Purdue, and only these two
peers offer unions, so each has the backup, or the replica, of the other. A client pushes a tuple to each source once a
period and reads the results. So one clock states when a tuple entered and when its result came. All techniques run at
the same time, each as an application of its own, so one fault hits all of them, and all bear the same load.

Everything else is the platform's own. The peer at WISC is killed, suspended, or has a link to OSU that takes 5 s; what
it executes is replaced when the failure detector has found that the peer died. The detector tests peers, not links, so
nobody is replaced because of a slow link.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from synergy_experiments.worlds.reliable_streams import (
    CRASH,
    DELAYS_MS,
    HANG,
    OSU,
    PEERS,
    PURDUE,
    SLOW_S,
    TECHNIQUES,
    WISC,
    A,
    Arrival,
    B,
    C,
    query,
)
from synergy_nb import Feed, WideArea
from synergy_nb.events import ActiveReplicasLost, TakeoverBegun
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.feeds import FeedError
from synergy_nb.runtime.process.processes import PeerCluster
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["Lived", "lived"]

NAMES: Final = {site: f"peer-{number}" for number, site in enumerate(PEERS, 1)}
SOURCES: Final = {"latency_b": A, "latency_c": A, "load_b": B, "load_c": C}
BANDWIDTH: Final = 12.5e6  # bytes/s of each link
READY_S: Final = 1.0  # latency of the first result that is not late, seconds: active replicas load compiled code before
STARTING_S: Final = 90.0  # longest time until then, seconds
WARMING_S: Final = 2.0  # seconds of tuples between then and the first tuple that counts
DRAINING_S: Final = 20.0  # longest time to wait for the last results, seconds


class Lived(NamedTuple):
    """What a run on real peers has shown; times are in seconds since the first tuple that counts.

    Parameters
    ----------
    arrivals
        Results in the order in which they came.
    fault
        Time of the fault.
    noticed
        Time at which the origin replaced what was lost; NaN if it did not.
    early
        Number of times that it did so before the fault, as a busy peer was taken for dead.
    failed
        Reason why the application has failed; empty if it has not.
    """

    arrivals: list[Arrival]
    fault: float
    noticed: float
    early: int
    failed: str


def area(slow_s: float | None = None) -> WideArea:
    """The sites with the delays between any two of them; ``slow_s``: seconds from WISC to OSU and back."""
    delays = np.full((len(PEERS), len(PEERS)), np.inf)
    np.fill_diagonal(delays, 0.0)
    for (one, other), each in DELAYS_MS.items():
        at = PEERS.index(one), PEERS.index(other)
        delays[at] = delays[at[::-1]] = each
    for via in range(len(PEERS)):
        to, onward = delays[:, via, None], delays[None, via, :]
        delays = np.minimum(delays, to + onward)
    if slow_s is not None:
        at = PEERS.index(WISC), PEERS.index(OSU)
        delays[at] = delays[at[::-1]] = 1e3 * slow_s
    return WideArea(2.0 * delays, BANDWIDTH)


def lived(names: Sequence[str], fault: str, at: float, after: float, period: float, hang: float) -> dict[str, Lived]:
    """Run techniques side by side on Dask workers, through one fault of WISC.

    Parameters
    ----------
    names
        Techniques, of :data:`~synergy_experiments.worlds.reliable_streams.TECHNIQUES`.
    fault
        Fault, as in :func:`~synergy_experiments.worlds.reliable_streams.through_a_fault`.
    at, after
        Time of the fault, and seconds for which tuples enter after it.
    period
        Seconds between two tuples of a source.
    hang
        Seconds after which WISC resumes.
    """
    return asyncio.run(_lived(names, fault, at, after, period, hang))


async def _lived(
    names: Sequence[str], fault: str, at: float, after: float, period: float, hang: float
) -> dict[str, Lived]:
    others = [each for each in ALL_COMPONENTS if each != "union"]
    offers = {NAMES[site]: {"components": others} for site in PEERS if site not in (WISC, PURDUE)}
    cluster = await start_cluster(len(PEERS), cores=1.0, spark=False, wide_area=area(), of=offers)
    runs: dict[str, _Run] = {}
    try:
        for name in names:
            runs[name] = await _submitted(cluster, name, period)
        base = time.time()
        for number, run in enumerate(runs.values()):
            run.begin(base + number * period / len(runs))
        await _until_ready(runs)
        began = time.time() + WARMING_S
        for run in runs.values():
            run.count(began, at + after)
        await asyncio.sleep(began + at - time.time())
        happened = time.time()
        await _happen(cluster, fault, hang)
        await asyncio.wait_for(asyncio.gather(*(run.ended() for run in runs.values())), after + DRAINING_S)
        return {name: await run.lived(happened) for name, run in runs.items()}
    finally:
        for run in runs.values():
            run.cancel()
        await cluster.close()


async def _until_ready(runs: Mapping[str, _Run]) -> None:
    """Wait until each application has made a result that was not late.

    Raises
    ------
    ClusterError
        If an application fails before that, or if results stay late, as on a busy machine.
    """
    try:
        await asyncio.wait_for(asyncio.gather(*(run.ready.wait() for run in runs.values())), STARTING_S)
    except TimeoutError:
        late = ", ".join(name for name, run in runs.items() if not run.ready.is_set())
        what = f"results are later than {READY_S:g} s after {STARTING_S:g} s of {late}"
        raise ClusterError(f"{what}; expected a machine that does little else") from None
    for name, run in runs.items():
        if run.failed:
            raise ClusterError(f"{name}: the application has failed before the fault: {run.failed}")


async def _submitted(cluster: AsyncCluster, name: str, period: float) -> _Run:
    """Submit the query of a technique."""
    availability = TECHNIQUES[name].availability
    pinned = {each: NAMES[site] for each, site in SOURCES.items()} | {"join": NAMES[OSU]}
    if not availability.startswith("active"):  # which has one replica at each of the two
        pinned |= {"latencies": NAMES[WISC], "loads": NAMES[PURDUE]}
    plan = query(availability, period, pinned)
    feeds = {source: Feed({"server": "str", "value": "int"}) for source in SOURCES}
    application = await cluster.submit(plan, origin=NAMES[OSU], feeds=feeds)
    return _Run(cluster, application, feeds, period)


async def _happen(cluster: AsyncCluster, fault: str, hang: float) -> None:
    """Let a fault of WISC happen."""
    local = cluster.local
    assert isinstance(local, PeerCluster)
    process = next(each.pid for each in local.processes.values() if NAMES[WISC] in each.peers)
    if fault == CRASH:
        os.kill(process, signal.SIGKILL)
    elif fault == HANG:
        os.kill(process, signal.SIGSTOP)
        try:
            await asyncio.sleep(hang)
        finally:
            os.kill(process, signal.SIGCONT)
    else:
        slowed = area(SLOW_S)
        slowed.set_sites(list(cluster.peers.values()))
        for site in (WISC, OSU):
            await cluster.request(NAMES[site], "area", slowed.to_bytes())


class _Run:
    """A running query whose sources are fed.

    Parameters
    ----------
    cluster, application
        Peers, and the query on them.
    feeds
        Source to its rows.
    period
        Seconds between two tuples of a source.

    Attributes
    ----------
    ready : asyncio.Event
        Whether some result was not late, or the application has failed.
    failed : str
        Reason why the application has failed; empty if it has not.
    """

    def __init__(
        self, cluster: AsyncCluster, application: AsyncApplication, feeds: Mapping[str, Feed], period: float
    ) -> None:
        self._cluster = cluster
        self._application = application
        self._feeds = feeds
        self._period = period
        self._tasks: list[asyncio.Task[None]] = []
        self._base = self._began = 0.0  # times of the first tuple, and of the first one that counts
        self._until = math.inf  # number of the tuple after the last one
        self.failed = ""
        self._arrivals: list[Arrival] = []  # with times of the clock
        self.ready = asyncio.Event()

    def begin(self, base: float) -> None:
        """Feed the query from a time on, and read its results."""
        self._base = base
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._feed())]

    def cancel(self) -> None:
        """End what is still fed and read."""
        for task in self._tasks:
            task.cancel()

    def count(self, began: float, seconds: float) -> None:
        """Count tuples from a time on, for so many seconds."""
        zero = math.ceil((began - self._base) / self._period)
        self._began = self._base + zero * self._period
        self._until = zero + round(seconds / self._period)

    async def ended(self) -> None:
        """Wait until all has been fed and read."""
        await asyncio.gather(*self._tasks)

    async def lived(self, happened: float) -> Lived:
        """Return what has come, with a fault at a time."""
        began = self._began
        deaths = [
            event.time
            for event in await self._cluster.events()
            if event.subject == self._application.id and isinstance(event, (TakeoverBegun, ActiveReplicasLost))
        ]
        return Lived(
            [Arrival(each.at - began, each.stamp - began, each.server) for each in self._arrivals
             if each.stamp > began - self._period / 2.0],
            happened - began,
            min((each - began for each in deaths if each >= happened), default=math.nan),
            sum(each < happened for each in deaths),
            self.failed,
        )  # fmt: skip

    async def _feed(self) -> None:
        """Push a tuple to each source once a period."""
        with contextlib.suppress(FeedError):  # the application has ended
            number = 0
            while number < self._until:
                stamp = self._base + number * self._period
                await asyncio.sleep(stamp - time.time())
                for source, feed in self._feeds.items():
                    feed.push({"time": stamp, "server": source[-1].upper(), "value": number})
                number += 1
            for feed in self._feeds.values():
                feed.close()

    async def _read(self) -> None:
        try:
            async for table in self._application.stream():
                at = time.time()
                stamps = table.get_column("time").cast(pl.Int64) / 1e6
                pairs = zip(stamps, table.get_column("server"), strict=True)
                self._arrivals += [Arrival(at, stamp, server) for stamp, server in pairs]
                if stamps.len() and at - stamps.max() <= READY_S:  # type: ignore[operator]
                    self.ready.set()
        except ClusterError:
            state = await self._application.state()
            if state.status != "failed":
                raise
            self.failed = self._cluster.readable(state.reason)
        finally:
            self.ready.set()
