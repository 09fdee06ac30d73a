"""``soak``: a live cluster for minutes or hours, with applications that come and go: what grows?

Every two seconds an application is submitted and the oldest one is stopped; components move, peers are killed, and
functions of users' own are started and ended. Samples of memory, files, threads, tasks, the journal and every table of
every peer (:mod:`synergy_nb.control.tables`) are taken all the time. After a warm-up the line through the samples of
each must not rise by more than its bound; else the measurement fails, and says what grew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import msgspec
import polars as pl
import psutil

from synergy_experiments.bench.measurements import machine_load, measurement
from synergy_nb.control.tables import tables
from synergy_nb.plan import Plan, source
from synergy_nb.plan.functions.declaring import function
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["ALLOWED", "BOUNDED", "DURATION", "allowed", "growing", "growth_of", "soak"]

DURATION: Final = "20 minutes"
STAYING: Final = 4  # peers that are not killed; the samples are theirs
KILLS: Final = 4  # peers that are killed, at even moments
ROUND: Final = 2.0  # seconds between two applications
AT_ONCE: Final = 6  # applications that run at a time
MOVES: Final = 5  # a component moves in each of so many rounds
SAMPLES: Final = 60
WARM: Final = 1 / 3  # share of the samples that are left out
#: What the four peers that stay may have more of after the warm-up, by the end of the name: MB, numbers.
ALLOWED: Final = {
    "client memory_mb": 100.0, "memory_mb": 100.0, "files": 16.0, "threads": 8.0, "tasks": 20.0,
    "peer.timers": 100.0,  # the peers that stay execute what those did that were killed
}  # fmt: skip
IN_A_TABLE: Final = 32.0  # items by which the tables of all four peers may grow, and
SHARE: Final = 0.1  # a share of what they hold
#: Memories of what was, each with its bound: they fill up, and may. End of the name of the table, and largest number.
BOUNDED: Final[dict[str, int]] = {
    "requests._requests": 1000,
    "host._measurements": 1000,
    "client _ended": 1000,
    "_changed._feeds": 1000,
    "_seen._new": 2048,
    "_seen._old": 2048,
    "_received._new": 1024,
    "_received._old": 1024,
    "replica_host._ended._new": 1024,
    "replica_host._ended._old": 1024,
    "_closed._values": 4096,
    "participation.ended._values": 4096,
    "grants._left._values": 4096,
    "streams._profiles": 64,
    "directory._mine": 4096,
    "directory.known_roots": 2048,
    "journal._pages": 1000,
    "journal._events": 2048,
    "journal.bytes": 16 << 20,
}


@function(columns={"kB": "float"}, deterministic=True)
def kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """The size of each packet, in kilobytes."""
    return batch.select(kB=pl.col("bytes") * 0.001)


def _plan(number: int) -> Plan:
    """One of five kinds of applications: light, grouped, backed up, with an own function, and one that ends."""
    kind = number % 5
    packets = source("packets", seed=number, rate=50.0, duration="1 s" if kind == 4 else "1 h", speed=1)
    if kind == 0:
        stream = packets.filter("bytes > 100")
    elif kind == 1:
        stream = packets.aggregate(by="link", window="1 s", total="sum(bytes)").sort("total desc")
    elif kind == 2:
        return packets.aggregate(window="1 s", total="sum(bytes)").sink(f"soak {number}", availability="degree 2")
    elif kind == 3:
        stream = packets.apply(kilobytes)
    else:
        stream = packets.count(window="200 ms")
    return stream.sink(f"soak {number}", delay="1 h")


def soak(
    *, small: bool = False, minutes: float = 20.0, progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """What the tables, files, threads and memory of peers have grown by, of what they may, at most."""
    before = machine_load()
    found = asyncio.run(_run(10.0 if small else 60.0 * minutes, small=small))
    if progress is not None:
        progress(1.0)
    series = found.pop("series")
    grown = {name: growth_of(line) for name, line in series.items()}
    wrong = growing(series)
    most = max((each / allowed(name, series[name]) for name, each in grown.items()), default=0.0)
    detail = {
        "way": "applications come and go, components move, peers are killed; sums over the peers that stay, growth of "
        "the line (Theil-Sen) through the samples after the warm-up",
        **found,
        "growing": wrong,
        "samples": {name: [line[0], statistics.median(line), line[-1]] for name, line in sorted(series.items())},
        "load": {"before": before, "after": machine_load()},
    }
    if wrong and not small:
        raise RuntimeError(f"it grows: {'; '.join(wrong)}")
    return measurement("soak", round(max(most, 0.0), 3), "of what is allowed", detail)


def growth_of(line: Sequence[float]) -> float:
    """Growth after the warm-up: the median slope between any two samples, times their number; no more than their range.

    >>> growth_of([0, 0, 5, 6, 7, 8, 9, 10])
    5.0
    >>> growth_of([0, 0, 0, 0, 8, 8, 8])
    8
    """
    late = line[int(len(line) * WARM) :]
    slopes = [(late[two] - late[one]) / (two - one) for one, two in combinations(range(len(late)), 2)]
    return min(statistics.median(slopes) * (len(late) - 1), max(late) - min(late)) if slopes else 0.0


def allowed(name: str, line: Sequence[float]) -> float:
    """By how much a line may grow."""
    for end, most in ALLOWED.items():
        if name.endswith(end):
            return most
    for end, bound in BOUNDED.items():
        if name.endswith(end):
            return float(bound * STAYING)
    return IN_A_TABLE + SHARE * statistics.median(line)


def growing(series: Mapping[str, Sequence[float]]) -> list[str]:
    """What grows by more than it may, in words.

    >>> growing({"peers files": [9.0] * 9, "peers x.seen": [float(number * 10) for number in range(9)]})
    ['peers x.seen: +50, of 36 allowed']
    """
    return [
        f"{name}: +{grown:.4g}, of {allowed(name, line):.4g} allowed"
        for name, line in sorted(series.items())
        if (grown := growth_of(line)) > allowed(name, line)
    ]


async def _run(seconds: float, *, small: bool) -> dict[str, Any]:
    kills = 0 if small else KILLS
    rng = random.Random(1)
    async with await start_cluster(STAYING + kills, spark=False, cores=4.0, seed=1) as cluster:
        states = {name: state for name, state in (await cluster.states()).items() if state is not None}
        staying, victims = list(states)[:STAYING], list(states)[STAYING:]
        processes = [psutil.Process(states[name].pid) for name in staying]
        began, samples = time.monotonic(), list[dict[str, float]]()
        counts = dict.fromkeys(("submitted", "refused", "moved", "not_moved", "killed", "ended", "late"), 0)
        running: list[AsyncApplication] = []
        number = 0
        while (passed := time.monotonic() - began) < seconds:
            number += 1
            await _round(cluster, number, running, staying, rng, counts)
            if victims and passed > seconds * (1.0 - len(victims) / (kills + 1)):
                os.kill(states[victims.pop()].pid, signal.SIGKILL)
                counts["killed"] += 1
            if passed >= len(samples) * seconds / (5 if small else SAMPLES):
                try:
                    samples.append(await _sample(cluster, staying, processes))
                except ClusterError:  # a peer is late on a busy machine: the next round asks again
                    counts["late"] += 1
            await asyncio.sleep(max(number * ROUND - (time.monotonic() - began), 0.0))
    names = sorted({name for sample in samples for name in sample})
    series = {name: [sample.get(name, 0.0) for sample in samples] for name in names}
    return {"minutes": round(seconds / 60, 2), **counts, "series": series}


async def _round(
    cluster: AsyncCluster,
    number: int,
    running: list[AsyncApplication],
    staying: list[str],
    rng: random.Random,
    counts: dict[str, int],
) -> None:
    """Submit an application, move a component now and then, and stop the oldest application."""
    try:
        running.append(await cluster.submit(_plan(number), origin=staying[number % len(staying)]))
        counts["submitted"] += 1
    except ClusterError:
        counts["refused"] += 1
    if number % MOVES == 0 and running:
        moving = rng.choice(running)
        operator = rng.choice([name for name in moving.plan.operators if name not in moving.plan.sinks])
        try:
            await cluster.move(moving.id, operator, rng.choice(staying))
            counts["moved"] += 1
        except (ClusterError, ValueError):
            counts["not_moved"] += 1
    while len(running) > AT_ONCE:
        with contextlib.suppress(ClusterError):
            await running.pop(0).stop(collect=bool(number % 2))
        counts["ended"] += 1


async def _sample(cluster: AsyncCluster, staying: list[str], processes: list[psutil.Process]) -> dict[str, float]:
    """Sums over the peers that stay, and what the client's process holds."""
    found: dict[str, float] = {}

    def add(who: str, held: Mapping[str, float]) -> None:
        for name, value in held.items():
            found[f"{who} {name}"] = found.get(f"{who} {name}", 0.0) + value

    for name in staying:
        add("peers", msgspec.msgpack.decode(await cluster.request(name, "tables", timeout=30.0)))
    for process in processes:
        add("peers", _process(process))
    add("client", _process(psutil.Process()))
    add("client", {**tables(cluster), "tasks": len(asyncio.all_tasks())})
    return found


def _process(process: psutil.Process) -> dict[str, float]:
    memory = process.memory_full_info().uss / 1e6
    return {"memory_mb": memory, "files": process.num_fds(), "threads": process.num_threads()}
