"""Whether real peers bear rates: Dask workers that execute a placed query graph at a point of the workload.

Input streams have evenly spaced tuples. Operators occupy the one thread of their peer for their cost, without using the
processor; sources and sinks are at a peer of their own. A point is feasible if no peer has more work waiting after some
seconds than a stated share of them: at a load p above 1, (p - 1) of the time waits.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.plan import Plan, plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.starting import start_cluster

__all__ = ["Forest", "borne", "forest"]

Array = npt.NDArray[np.float64]

TUPLES: Final = 100_000  # of an input stream, one a second before its speed
SLOWEST: Final = 0.05  # tuples/s of an input stream whose rate is next to nothing


class Forest(NamedTuple):
    """Query trees, one for each input stream, of operators that let all tuples through.

    Parameters
    ----------
    costs
        Cost of each operator, seconds a tuple.
    inputs
        Number of the input stream of each operator.
    upstream
        Number of the operator that each reads; -1 for its input stream.
    """

    costs: tuple[float, ...]
    inputs: tuple[int, ...]
    upstream: tuple[int, ...]

    @property
    def load(self) -> Array:
        """Load of each operator for a tuple a second of each input stream, operators x streams."""
        found = np.zeros((len(self.costs), max(self.inputs) + 1))
        found[np.arange(len(self.costs)), list(self.inputs)] = self.costs
        return found


def forest(inputs: int, each: int, cost: float, rng: np.random.Generator) -> Forest:
    """Draw a tree of ``each`` operators for each input stream, with costs of a tenth to once ``cost``, seconds."""
    upstream: list[int] = []
    for stream in range(inputs):
        first = stream * each
        upstream += [-1, *(int(rng.integers(first, first + number)) for number in range(1, each))]
    costs = rng.uniform(0.1 * cost, cost, inputs * each)
    return Forest(tuple(costs.tolist()), tuple(np.repeat(np.arange(inputs), each).tolist()), tuple(upstream))


def _query(trees: Forest, rates: Sequence[float], placed: Sequence[int], path: Path, outside: str) -> Plan:
    """Return the query plan at given rates, with every operator at its peer."""
    streams: list[Stream] = [
        source("trace", path=str(path), format="parquet", columns={"number": "int"}, speed=max(rate, SLOWEST),
               id=f"stream {number}", at=outside)
        for number, rate in enumerate(rates)
    ]  # fmt: skip
    found: list[Stream] = []
    for number, (cost, stream, before) in enumerate(zip(*trees, strict=True)):
        read = streams[stream] if before < 0 else found[before]
        found.append(read.delay(f"{cost!r} s", id=f"o{number}", at=f"peer-{placed[number] + 1}"))
    leaves = [number for number in range(len(found)) if number not in trees.upstream]
    return plan(
        *(found[leaf].sink(f"out {leaf}", id=f"out {leaf}", at=outside) for leaf in leaves), name="feasible set"
    )


def borne(
    trees: Forest, placed: Sequence[int], nodes: int, points: Sequence[Sequence[float]], seconds: float, share: float
) -> list[bool]:
    """Return whether real peers bear each of some points of the workload.

    Parameters
    ----------
    trees
        Query trees.
    placed
        Number of the node of each operator.
    nodes
        Number of nodes, of one core each.
    points
        Rates of the input streams, tuples/s.
    seconds
        Time at each point.
    share
        Share of this time that may wait as work at a peer at its end.
    """
    return asyncio.run(_borne(trees, placed, nodes, points, seconds, share))


async def _borne(
    trees: Forest, placed: Sequence[int], nodes: int, points: Sequence[Sequence[float]], seconds: float, share: float
) -> list[bool]:
    free = CompositionConfig(enforce=False, sharing="off", projection=None, deployment="off")
    outside = f"peer-{nodes + 1}"
    found: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="synergy-feasible-") as folder:
        path = Path(folder) / "stream.parquet"
        numbers = pl.int_range(TUPLES, eager=True)
        times = (numbers * 1_000_000).cast(pl.Datetime("us"))
        pl.DataFrame({"time": times, "number": numbers}).write_parquet(path)
        cluster = await start_cluster(nodes + 1, cores=1.0, composition=free, seed=1, spark=False)
        try:
            for rates in points:
                query = _query(trees, rates, placed, path, outside)
                application = await cluster.submit(query, origin=outside, timeout=60.0)
                await asyncio.sleep(seconds)
                waiting = await _waiting(cluster, trees)
                await application.stop()
                found.append(max(waiting, default=0.0) <= share * seconds)
        finally:
            await cluster.close()
    return found


async def _waiting(cluster: AsyncCluster, trees: Forest) -> list[float]:
    """Return the work that waits at each peer, seconds."""
    costs = {f"o{number}": cost for number, cost in enumerate(trees.costs)}
    return [
        sum(each["queue_tuples"] * costs.get(each["operator"], 0.0) for each in state.components)
        for state in (await cluster.states()).values()
        if state is not None
    ]
