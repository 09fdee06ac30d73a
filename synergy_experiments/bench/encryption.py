"""``tls``: what mutual TLS costs, on two clusters of Dask that differ in nothing else, used in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from synergy_experiments.bench.local_peers import added_by_hops, paced_tuples
from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_experiments.bench.rivals import reference
from synergy_experiments.bench.throughput import query, ran, tuples, written
from synergy_nb.runtime.client.cluster import Cluster
from synergy_nb.runtime.process.processes import start

__all__ = ["tls"]


def tls(*, small: bool = False) -> dict[str, Any]:
    """Rate of ``dataflow`` with TLS as a part of that without, and what TLS adds to ``hop``."""
    count, repeats, seconds, hops = (20_000, 1, 0.2, 2) if small else (8_000_000, 6, 4.0, 8)
    before = machine_load()
    table = tuples(count)
    expected = reference(table)
    taken: dict[str, list[float]] = {"plain": [], "tls": []}
    processor: dict[str, list[float]] = {"plain": [], "tls": []}
    added: dict[str, list[float]] = {"plain": [], "tls": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        plan = query(written(table, Path(folder))["parquet"], early=False)
        path = paced_tuples(Path(folder), seconds)
        clusters = {
            "plain": stack.enter_context(_plain()),
            "tls": stack.enter_context(Cluster(2, spark=False)),
        }
        for repeat in range(repeats + 1):  # the first warms up
            for way in sorted(clusters, reverse=bool(repeat % 2)):
                time, cpu, rows = ran(clusters[way], plan)
                if rows != expected:
                    raise RuntimeError(f"{way}: other rows than those of the reference")
                hop = added_by_hops(clusters[way], path, hops)
                if repeat:
                    taken[way].append(count / time)
                    processor[way].append(cpu / count * 1e6)
                    added[way].append(hop)
    rates, cpus, delays = ({way: spread(runs) for way, runs in each.items()} for each in (taken, processor, added))
    part = rates["tls"]["median"] / rates["plain"]["median"]
    detail = {
        "way": "two clusters of two peers, which share memory, one with TLS and one without, used in turn",
        "rate": rates,
        "cpu_s_a_million": cpus,
        "hop_s": delays,
        "hop_added_s": round(delays["tls"]["median"] - delays["plain"]["median"], 6),
        "target": {"part_of_the_rate": 0.85, "hop_added_s": 0.0001},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("tls", part, "of the rate in plain text", detail)


@contextmanager
def _plain() -> Iterator[Cluster]:
    """Two peers of this machine without TLS, which only a Dask cluster of somebody else may be."""
    with start(2) as workers, Cluster(workers.scheduler_address, spark=False) as cluster:
        yield cluster
