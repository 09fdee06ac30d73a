"""``growth``: time until more peers are ready, and cost of more applications on the same peers."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from synergy_experiments.bench.floor import floor
from synergy_experiments.bench.measurements import Usage, machine_load, measurement
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Cluster
from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["growth"]

LIGHT_RATE: Final = 10.0  # tuples/s of a light application
LIMIT: Final = "1 h"  # delay limit of which sources may use a share to gather tuples
ENDS: Final = 10  # set-ups at either end whose medians are compared


def growth(*, small: bool = False) -> dict[str, Any]:
    """Seconds until more and more peers are ready; CPU time, memory and set-up of more and more applications."""
    rings = (2, 4) if small else (8, 16, 32, 64)
    peers, counts, seconds = (2, (0, 2), 0.2) if small else (4, (0, 50, 200), 5.0)
    light = counts[:2]
    before = machine_load()
    joined = [_ring(count) for count in rings]
    idle = _applications(peers, counts, seconds, rate=0.0)
    busy = _applications(peers, light, seconds, rate=LIGHT_RATE)
    least = floor([_plan(number + 1, LIGHT_RATE, LIMIT) for number in range(light[-1])], peers, seconds)
    at_once = _applications(peers, light, seconds, rate=LIGHT_RATE, limit=None)
    first, last = idle["setup_first_s"], idle["setup_last_s"]
    detail = {
        "way": "local peers in processes; applications of a source, a filter and a sink, placed by composition",
        "rings": joined,
        "peers": peers,
        "idle": idle,
        "light": {**busy, "rate_of_each": LIGHT_RATE, "limit": LIMIT},
        "light_without_limit": at_once,  # whose tuples leave their sources when they are due
        "floor": least,  # a bare program that moves the tuples of as many gathering applications
        "light_to_floor": round(busy["cpu_s_a_second_each"] / max(least["cpu_s_a_second_each"], 1e-6), 3),
        "gathered_to_at_once": round(busy["cpu_s_a_second_each"] / max(at_once["cpu_s_a_second_each"], 1e-6), 3),
        "setup_last_to_first": round(last / first, 3),
        "targets": {"setup_last_to_first": 1.5, "idle_cpu_s_a_second": 0.002, "idle_memory_mb": 0.5},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("growth", joined[-1]["ready_s"], "s", detail)


# -- more peers ------------------------------------------------------------------------------------------------------


def _ring(count: int) -> dict[str, Any]:
    """Seconds until a number of peers run, have joined the ring and are ready, with details of joining."""
    return asyncio.run(_start(count))


async def _start(count: int) -> dict[str, Any]:
    began = time.perf_counter()
    reached: dict[str, float] = {}

    def on_progress(progress: Progress) -> None:
        reached[progress.what] = time.perf_counter() - began

    cluster = await start_cluster(count, spark=False, on_progress=on_progress)
    ready = time.perf_counter() - began
    try:
        states = [state for state in (await cluster.states()).values() if state is not None]
    finally:
        await cluster.close()
    return {
        "peers": count,
        "ready_s": round(ready, 3),
        "running_s": round(reached["peers run"], 3),
        "join_s": round(ready - reached["peers run"], 3),
        "messages_a_peer": round(statistics.mean(state.messages for state in states), 1),
        "cpu_s_a_peer": round(statistics.mean(state.cpu_s for state in states), 3),
    }


# -- more applications -----------------------------------------------------------------------------------------------


class _Silence:
    """An endless feed without rows."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self

    def __next__(self) -> pl.DataFrame:
        self._ended.wait()
        raise StopIteration

    def end(self) -> None:
        """Release the reader."""
        self._ended.set()


def _plan(number: int, rate: float, limit: str | None) -> Plan:
    """An application of three operators, idle (its feed has no rows) or of so many tuples/s."""
    if rate:
        stream = source("packets", seed=number, rate=rate, duration="1 h", speed=1)
        return stream.filter("bytes > 100").sink(f"light {number}", delay=limit)
    stream = source("python", name=f"silent {number}", columns={"value": "int"}, rate=1.0)
    return stream.filter("value > 0").sink(f"idle {number}", delay=limit)


def _applications(
    peers: int, counts: tuple[int, ...], seconds: float, rate: float, limit: str | None = LIMIT
) -> dict[str, Any]:
    """CPU time and memory of the peers with each of ``counts`` applications, and the set-up times of these."""
    setups: list[float] = []
    steps: list[dict[str, Any]] = []
    silence = _Silence()
    with Cluster(peers, spark=False, cores=float(peers)) as cluster:
        processes = [state.pid for state in cluster.states().values() if state is not None]
        try:
            for count in counts:
                while len(setups) < count:
                    plan = _plan(len(setups) + 1, rate, limit)
                    feeds = None if rate else {f"silent {len(setups) + 1}": silence}
                    setups.append(cluster.submit(plan, feeds=feeds).setup_s)
                steps.append(_step(cluster, processes, seconds, count))
        finally:
            silence.end()
    none, most = steps[0], steps[-1]
    return {
        "steps": steps,
        "cpu_s_a_second_each": round((most["cpu_cores"] - none["cpu_cores"]) / most["applications"], 6),
        "memory_mb_each": round((most["memory_mb"] - none["memory_mb"]) / most["applications"], 3),
        "setup_first_s": round(statistics.median(setups[:ENDS]), 5),
        "setup_last_s": round(statistics.median(setups[-ENDS:]), 5),
    }


def _step(cluster: Cluster, processes: list[int], seconds: float, count: int) -> dict[str, Any]:
    threading.Event().wait(min(seconds, 2.0))  # what set-up left to be done
    sent = _messages(cluster)
    with Usage(processes) as usage:
        threading.Event().wait(seconds)
    memory = Usage(processes).memory()
    return {
        "applications": count,
        "cpu_cores": round(usage.cpu / usage.wall, 4),
        "memory_mb": round(sum(memory), 1),
        "memory_mb_of_largest_peer": round(max(memory), 1),
        "messages_a_second": round((_messages(cluster) - sent) / usage.wall, 1),
    }


def _messages(cluster: Cluster) -> int:
    return sum(state.messages for state in cluster.states().values() if state is not None)
