"""``scale``: 64 peers on one machine, and 200 light applications on them: what is refused, and what it costs.

Applications are submitted by several tasks at a time, as notebooks do, and each is read from again at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import psutil

from synergy_experiments.bench.measurements import Usage, machine_load, measurement, quantile
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["scale"]

PEERS = 64
APPLICATIONS = 200
TOGETHER = 4  # applications that are submitted at a time
RATE = 1.0  # tuples/s of an application
JOINING = 300.0  # seconds without progress after which the peers have not formed a ring, on a busy machine, too
PATIENCE = 60.0  # seconds within which an application that runs gives a row


def scale(*, small: bool = False) -> dict[str, Any]:
    """Seconds until all peers are ready; how many of the applications run, and give results; memory and CPU time."""
    before = machine_load()
    found = asyncio.run(_run(3 if small else PEERS, 4 if small else APPLICATIONS, 1.0 if small else 20.0))
    detail = {
        "way": f"local peers in processes; applications of a source, a filter and a sink, {TOGETHER} submitted at a "
        "time, all composed",
        **found,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("scale", found["ready_s"], "s", detail)


def _plan(number: int) -> Plan:
    stream = source("packets", seed=number, rate=RATE, duration="1 h", speed=1).filter("bytes > 0")
    return stream.sink(f"light {number}", delay="1 h")


async def _run(peers: int, applications: int, seconds: float) -> dict[str, Any]:
    began = time.perf_counter()
    cluster = await start_cluster(peers, spark=False, cores=float(peers), joining=JOINING)
    ready = time.perf_counter() - began
    try:
        pids = [state.pid for state in (await cluster.states()).values() if state is not None]
        empty = Usage(pids).memory()
        running, setups, refused = await _submit(cluster, applications)
        with Usage(pids) as usage:
            await asyncio.sleep(seconds)
        full = Usage(pids).memory()
        answering = sum(state is not None for state in (await cluster.states()).values())
        results = await asyncio.gather(*(_rows(each) for each in running), return_exceptions=True)
        status = Counter([str((await each.state()).status) for each in running])
        processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        files, threads = sum(each.num_fds() for each in processes), sum(each.num_threads() for each in processes)
    finally:
        began = time.perf_counter()
        await cluster.close()
    return {
        "peers": peers,
        "ready_s": round(ready, 3),
        "closed_s": round(time.perf_counter() - began, 3),
        "answering": answering,
        "applications": applications,
        "admitted": len(running),
        "refused": refused,
        "status": dict(status),
        "with_rows": sum(isinstance(rows, int) and rows > 0 for rows in results),
        "setup_p50_s": round(quantile(setups, 0.5), 4) if setups else 0.0,
        "setup_p99_s": round(quantile(setups, 0.99), 4) if setups else 0.0,
        "memory_mb_a_peer": [round(sum(each) / len(each), 1) for each in (empty, full)],
        "memory_mb_of_the_largest": [round(max(each), 1) for each in (empty, full)],
        "memory_mb": [round(sum(each), 1) for each in (empty, full)],
        "cpu_cores": round(usage.cpu / usage.wall, 3),
        "files": files,
        "threads": threads,
    }


async def _submit(
    cluster: AsyncCluster, applications: int
) -> tuple[list[AsyncApplication], list[float], dict[str, int]]:
    """Submit all; return those that run, the seconds until they did, and the reasons of the others, counted."""
    running: list[AsyncApplication] = []
    setups: list[float] = []
    refused: Counter[str] = Counter()
    numbers = iter(range(1, applications + 1))

    async def submit() -> None:
        for number in numbers:
            began = time.perf_counter()
            try:
                running.append(await cluster.submit(_plan(number)))
                setups.append(time.perf_counter() - began)
            except ClusterError as error:
                refused[str(error).partition(":")[2].strip()[:160]] += 1

    await asyncio.gather(*(submit() for _ in range(TOGETHER)))
    return running, setups, dict(refused)


async def _rows(application: AsyncApplication) -> int:
    """Number of rows that arrive within some time: one is enough."""
    return (await application.head(1, seconds=PATIENCE)).height
