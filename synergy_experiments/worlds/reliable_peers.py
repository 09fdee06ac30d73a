"""Techniques for reliable streams through a fault, on Dask workers: the query and the sites of reliable_streams.

Six peers have the delays of the sites between them (:data:`~synergy_experiments.worlds.reliable_streams.DELAYS_MS`, and
those of the shortest path where that states none). The unions are pinned to WISC and to Purdue, and only these two
peers offer unions, so each has the backup, or the replica, of the other. A client pushes a tuple to each source once a
period and reads the results. So one clock states when a tuple entered and when its result came.

Everything else is the platform's own. The peer at WISC is killed, suspended, or has a link to OSU that takes 5 s; what
it executes is replaced when the failure detector has found that the peer died. The detector tests peers, not links, so
nobody is replaced because of a slow link.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping
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
from synergy_nb.plan.catalogue import ALL_COMPONENTS
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.feeds import FeedError
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["Lived", "lived"]

NAMES: Final = {site: f"peer-{number}" for number, site in enumerate(PEERS, 1)}
SOURCES: Final = {"latency_b": A, "latency_c": A, "load_b": B, "load_c": C}
BANDWIDTH: Final = 12.5e6  # bytes/s of each link
WARMING_S: Final = 2.0  # seconds of tuples before the first that counts: code is loaded, and backups get a snapshot
DRAINING_S: Final = 12.0  # longest time to wait for the last results, seconds


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
    """

    arrivals: list[Arrival]
    fault: float
    noticed: float


def area(slow_s: float | None = None) -> WideArea:
    """The sites with the delays between any two of them; ``slow_s``: seconds from WISC to OSU and back."""
    delays = np.full((len(PEERS), len(PEERS)), np.inf)
    np.fill_diagonal(delays, 0.0)
    for (one, other), each in DELAYS_MS.items():
        at = PEERS.index(one), PEERS.index(other)
        delays[at] = delays[at[::-1]] = each
    for via in range(len(PEERS)):
        delays = np.minimum(delays, delays[:, via, None] + delays[None, via, :])
    if slow_s is not None:
        at = PEERS.index(WISC), PEERS.index(OSU)
        delays[at] = delays[at[::-1]] = 1e3 * slow_s
    return WideArea(2.0 * delays, BANDWIDTH)


def lived(name: str, fault: str, at: float, after: float, period: float, hang: float) -> Lived:
    """Run a technique on Dask workers, through a fault of WISC.

    Parameters
    ----------
    name, fault
        Technique and fault, as in :func:`~synergy_experiments.worlds.reliable_streams.through_a_fault`.
    at, after
        Time of the fault, and seconds for which tuples enter after it.
    period
        Seconds between two tuples of a source.
    hang
        Seconds after which WISC resumes.
    """
    return asyncio.run(_lived(name, fault, at, after, period, hang))


async def _lived(name: str, fault: str, at: float, after: float, period: float, hang: float) -> Lived:
    others = [each for each in ALL_COMPONENTS if each != "union"]
    offers = {NAMES[site]: {"components": others} for site in PEERS if site not in (WISC, PURDUE)}
    cluster = await start_cluster(len(PEERS), cores=1.0, spark=False, wide_area=area(), of=offers)
    try:
        availability = TECHNIQUES[name].availability
        pinned = {each: NAMES[site] for each, site in SOURCES.items()} | {"join": NAMES[OSU]}
        if not availability.startswith("active"):  # which has one replica at each of the two
            pinned |= {"latencies": NAMES[WISC], "loads": NAMES[PURDUE]}
        plan = query(availability, period, pinned)
        feeds = {name: Feed({"server": "str", "value": "int"}) for name in SOURCES}
        application = await cluster.submit(plan, origin=NAMES[OSU], feeds=feeds)
        run = _Run(cluster, application, feeds, period)
        return await run.through(fault, at, after, hang)
    finally:
        await cluster.close()


class _Run:
    """A running query whose sources are fed."""

    def __init__(
        self, cluster: AsyncCluster, application: AsyncApplication, feeds: Mapping[str, Feed], period: float
    ) -> None:
        self._cluster = cluster
        self._application = application
        self._feeds = feeds
        self._period = period
        self._began = 0.0
        self._arrivals: list[Arrival] = []

    async def through(self, fault: str, at: float, after: float, hang: float) -> Lived:
        """Feed the query, let the fault happen, and return what has come."""
        self._began = time.time() + WARMING_S
        reading = asyncio.create_task(self._read())
        feeding = asyncio.create_task(self._feed(at + after))
        await asyncio.sleep(self._began + at - time.time())
        happened = time.time() - self._began
        process = self._process(NAMES[WISC])
        try:
            if fault == CRASH:
                os.kill(process, signal.SIGKILL)
            elif fault == HANG:
                os.kill(process, signal.SIGSTOP)
                await asyncio.sleep(hang)
            else:
                await self._slow_down()
        finally:
            if fault == HANG:
                os.kill(process, signal.SIGCONT)
        await feeding
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reading, DRAINING_S)
        events = [each for each in await self._cluster.events() if each.subject == self._application.id]
        noticed = [each.time - self._began for each in events if isinstance(each, (TakeoverBegun, ActiveReplicasLost))]
        return Lived(self._arrivals, happened, min(noticed, default=float("nan")))

    async def _feed(self, seconds: float) -> None:
        """Push a tuple to each source once a period."""
        first = -round(WARMING_S / self._period)
        with contextlib.suppress(FeedError):  # the application has ended
            for number in range(first, round(seconds / self._period)):
                stamp = self._began + number * self._period
                await asyncio.sleep(stamp - time.time())
                for source, feed in self._feeds.items():
                    feed.push({"time": stamp, "server": source[-1].upper(), "value": number})
            for feed in self._feeds.values():
                feed.close()

    async def _read(self) -> None:
        with contextlib.suppress(ClusterError):  # the application has failed
            async for table in self._application.stream():
                at = time.time() - self._began
                stamps = table.get_column("time").cast(pl.Int64) / 1e6 - self._began
                for stamp, server in zip(stamps, table.get_column("server"), strict=True):
                    if stamp > -self._period / 2.0:
                        self._arrivals.append(Arrival(at, stamp, server))

    def _process(self, peer: str) -> int:
        local = self._cluster.local
        assert local is not None
        return next(each.pid for each in local.processes.values() if peer in each.peers)

    async def _slow_down(self) -> None:
        """Have the link between WISC and OSU take 5 s."""
        slowed = area(SLOW_S)
        slowed.set_sites(list(self._cluster.peers.values()))
        for site in (WISC, OSU):
            await self._cluster.request(NAMES[site], "area", slowed.to_bytes())
