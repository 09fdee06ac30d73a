"""The workload of R6 on real peers: Dask workers with one thread each, which components occupy for stated times.

Upstream of each aggregate, an operator occupies the one thread of its peer for the aggregate's cost of every packet,
without using the processor. So a machine with fewer cores can run peers of one core each. Admission is disabled, since
the experiment overloads peers. A source with backpressure retains its packets, and their delays are counted from their
due times. So an overloaded peer has full queues and growing delays, and no application fails. It counts as overloaded
when more bytes wait in its queues than a stated number, which stands for its memory.

A batch also takes time: a millisecond or so of the machine. So packets are few, and the cost of each is several times
that, or the batches and not the placement would decide which peer is overloaded. For the same reason the sources and
the sinks are at one more peer, which no placement uses and which does not count, as those of the simulated run are.

Delays are those of results, from the last packet that they need: of an aggregate over a second, once a second.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from synergy_experiments.framework.measurements import Point
from synergy_experiments.worlds.packet_monitoring import (
    AGGREGATES,
    aggregated,
    assignments,
    costs_of,
    monitoring_plan,
    named,
    packets_of,
    rates_of,
    substreams,
)
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.plan import Plan, Stream, plan, source
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["measured_live", "monitored", "pinned_plan"]

COLUMNS: Final = {"source": "str", "destination": "str", "bytes": "int"}
OVERDUE: Final = 5.0  # seconds beyond its duration that a run may take to empty its queues
HEARTBEAT: Final = 1.0  # seconds between the punctuations of a sub-stream, each of which 48 components process
LOOK: Final = 0.25  # seconds between two measurements of waiting work


def monitored(
    multiplier: float,
    trace: str,
    rate: float,
    collected: float,
    seconds: float,
    streams: int,
    peers: int,
    load: float,
    memory: float,
    algorithms: tuple[str, ...],
    seed: int,
) -> list[Point]:
    """Measure delays and loads at a multiple of the trace's rate, by algorithm, on real peers.

    Parameters
    ----------
    multiplier, trace, rate, streams, peers, load, algorithms, seed
        Arguments of the simulated :func:`~synergy_experiments.worlds.replayed_packets.replayed`.
    collected
        First seconds of the trace, from which statistics are taken.
    seconds
        Duration of the replay at the multiple, seconds.
    memory
        Bytes in its queues beyond which a peer is overloaded.
    """
    parts = substreams(packets_of(trace, rate, collected + seconds * multiplier, seed), streams, seed)
    stated = [part.filter(pl.col("since") < collected)["since"].to_numpy() for part in parts]
    mean = [max(len(own) / collected, 1e-6) for own in stated]
    costs = costs_of(mean, load * peers, seed)
    model = monitoring_plan(
        [source("packets", rate=own, id=f"packets {number}") for number, own in enumerate(mean)], costs
    )
    names = [f"peer-{number}" for number in range(1, peers + 1)]
    placements = assignments(model, dict.fromkeys(names, 1.0), rates_of(stated, collected, 1.0), algorithms, seed)
    points: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="synergy-r6-") as folder:
        sources = []
        for number, part in enumerate(parts):
            path = Path(folder) / f"{number}.parquet"
            part.filter(pl.col("since") >= collected).drop("since").write_parquet(path)
            where = {"path": str(path), "format": "parquet", "columns": COLUMNS, "speed": multiplier}
            where |= {"heartbeat": HEARTBEAT}
            sources.append(source("trace", **where, id=f"packets {number}", at=f"peer-{peers + 1}"))
        for algorithm, placed in placements.items():
            plans = [pinned_plan(number, stream, costs, placed) for number, stream in enumerate(sources)]
            found = measured_live(plans, peers, seconds, memory, seed)
            points += [Point(multiplier, algorithm, metric, value) for metric, value in found.items()]
    return points


def pinned_plan(number: int, packets: Stream, costs: Sequence[float], placed: Mapping[str, str]) -> Plan:
    """Return the part of :func:`~synergy_experiments.worlds.packet_monitoring.monitoring_plan` on one sub-stream.

    Parameters
    ----------
    number, packets
        Number of the sub-stream, and its source.
    costs
        Processing time of a packet at each aggregate, seconds.
    placed
        Aggregate to peer.
    """
    sinks: list[Plan] = []
    for aggregate, cost in zip(AGGREGATES, costs, strict=True):
        name = named(number, aggregate)
        held = packets.delay(f"{cost!r} s", id=f"{name} cost", at=placed[name])
        found = aggregated(held, number, aggregate, at=placed[name])
        sinks.append(found.sink(name, id=f"{name} sink"))
    return plan(*sinks, name=f"network monitoring {number}")


def measured_live(queries: Sequence[Plan], peers: int, seconds: float, memory: float, seed: int) -> dict[str, float]:
    """Execute plans whose operators are all pinned, and measure their results.

    Parameters
    ----------
    queries
        Queries with every operator pinned to one of the peers, and sources that end.
    peers
        Number of peers, ``peer-1`` and so on, of one core each, whose loads count. The next one is outside: it is the
        origin, and has the sinks and whatever is pinned to it, such as sources.
    seconds
        Duration of its sources, seconds.
    memory
        Bytes in its queues beyond which a peer is overloaded.
    seed
        Seed of the peers.

    Returns
    -------
    dict of float
        ``delay`` and ``greatest delay`` of results, seconds; ``utilisation``, the mean load of the peers, and
        ``busiest``; ``waiting``, the most work that waited at a peer, seconds, and ``queued``, the most bytes;
        ``survives``, 1 unless a peer was overloaded.
    """
    return asyncio.run(_measured(queries, peers, seconds, memory, seed))


async def _measured(queries: Sequence[Plan], peers: int, seconds: float, memory: float, seed: int) -> dict[str, float]:
    free = CompositionConfig(enforce=False, sharing="off", projection=None, deployment="off")
    outside = f"peer-{peers + 1}"
    cluster = await start_cluster(peers + 1, cores=1.0, composition=free, seed=seed, spark=False)
    try:
        applications = [await cluster.submit(query, origin=outside, timeout=60.0) for query in queries]
        costs = {
            (each.id, name): node.cost or 0.0
            for each, query in zip(applications, queries, strict=True)
            for name, node in query.operators.items()
        }
        loop = asyncio.get_running_loop()
        began = loop.time()
        most = queued = 0.0
        busy: dict[str, list[float]] = {}
        overloaded = False
        while loop.time() - began < seconds + OVERDUE:
            await asyncio.sleep(LOOK)
            states = [await each.state() for each in applications]
            for peer, waiting, size, load in await _looked(cluster, costs, outside):
                most, queued = max(waiting, most), max(size, queued)
                if loop.time() - began < seconds:
                    busy.setdefault(peer, []).append(load)
            overloaded = queued > memory
            if overloaded or not any(state.status == "running" for state in states):
                break
        records = [record for each in applications for record in (await each.state()).qos.values()]
        for each in applications:
            await each.stop()
    finally:
        await cluster.close()
    loads = [sum(own) / len(own) for own in busy.values()]
    counts = [(int(record["tuples"]), record) for record in records if record["delay_mean_s"] is not None]
    total = sum(count for count, _ in counts)
    return {
        "delay": sum(count * record["delay_mean_s"] for count, record in counts) / total if total else math.nan,
        "greatest delay": max((record["delay_max_s"] for _, record in counts), default=math.nan),
        "utilisation": sum(loads) / len(loads),
        "busiest": max(loads),
        "waiting": most,
        "queued": queued,
        "survives": float(not overloaded),
    }


async def _looked(
    cluster: AsyncCluster, costs: Mapping[tuple[str, str], float], outside: str
) -> list[tuple[str, float, float, float]]:
    """Return the waiting work in seconds, the bytes in queues, and the recent load of each peer but that outside."""
    found = []
    for name, state in (await cluster.states()).items():
        if state is not None and name != outside:
            waiting = sum(
                each["queue_tuples"] * costs.get((each["application"], each["operator"]), 0.0)
                for each in state.components
            )
            size = sum(float(each["queue_bytes"]) for each in state.components)
            found.append((name, waiting, size, sum(each["load"] for each in state.components)))
    return found
