"""The suite of ``synergy bench``: one function for each number, with other systems for comparison if there are any.

>>> sorted(name for name in NAMES if name.startswith("spark"))
['spark-delay', 'spark-kill', 'spark-ready', 'spark-sessions', 'spark-topk', 'spark-whole']

Other work on the machine disturbs every number here. So each is the median of several runs, results say how loaded the
machine was, and wherever another system is compared, both ran in turn in the same run: trust the ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from synergy_experiments.bench import (
    admissions,
    batches,
    day,
    durables,
    encryption,
    feeds,
    flows,
    growth,
    hotspots,
    ingest,
    local_peers,
    lookups,
    moves,
    nexmark,
    predictions,
    profiled_admissions,
    profiled_memory,
    profiled_placements,
    replicas,
    scales,
    seasonal_rates,
    simulated,
    simulations,
    soak,
    spark,
    states,
    takeovers,
    throughput,
    topics,
    view,
)
from synergy_nb.plan.terms.units import did_you_mean

__all__ = ["LONG", "NAMES", "run"]

_MEASUREMENTS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "ready": local_peers.ready,
    "compose": local_peers.compose,
    "admission": admissions.admission,
    "hop": local_peers.hop,
    "batch": batches.batch,
    "dataflow": throughput.dataflow,
    "tls": encryption.tls,
    "nexmark": nexmark.nexmark,
    "ingest": ingest.ingest,
    "feeds": feeds.feeds,
    "lookup": lookups.lookup,
    "kafka": topics.kafka,
    "dht": simulated.dht,
    "kernel": simulated.kernel,
    "flow": flows.flow,
    "sim": simulations.sim,
    "idle": local_peers.idle,
    "growth": growth.growth,
    "move": moves.move,
    "hotspots": hotspots.hotspots,
    "state": states.state,
    "takeover": takeovers.takeover,
    "replicas": replicas.replicas,
    "durable": durables.durable,
    "view": view.view,
    "prediction": predictions.prediction,
    "profiles": profiled_admissions.profiles,
    "peaks": profiled_memory.peaks,
    "placements": profiled_placements.placements,
    "seasons": seasonal_rates.seasons,
    "soak": soak.soak,
    "day": day.day,
    "scale": scales.scale,
    "spark-ready": spark.ready,
    "spark-topk": spark.topk,
    "spark-delay": spark.delay,
    "spark-sessions": spark.sessions,
    "spark-kill": spark.kill,
    "spark-whole": spark.whole,
}
NAMES: Final[tuple[str, ...]] = tuple(_MEASUREMENTS)

#: Measurements that take many minutes, with their duration; they report their progress.
LONG: Final[dict[str, str]] = {
    "admission": admissions.DURATION,
    "day": day.DURATION,
    "nexmark": nexmark.DURATION,
    "soak": soak.DURATION,
}


def run(name: str, *, small: bool = False, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Run one measurement.

    Parameters
    ----------
    name
        Name of the benchmark, an element of :data:`NAMES`.
    small
        Whether to run in a tiny size, as a check; the numbers mean nothing then.
    progress
        Callback with the share that is done, from 0 to 1; measurements in :data:`LONG` call it.

    Returns
    -------
    dict
        ``name``, ``value``, ``unit``, ``detail``, and ``peers``: for each other system that was measured in the same
        run the same four keys. A system that is not installed has the value 0 and a ``note`` in its detail.

    Raises
    ------
    ValueError
        If there is no such measurement.
    """
    measure = _MEASUREMENTS.get(name)
    if measure is None:
        raise ValueError(f"measurement: {name!r}; expected one of {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    found = measure(small=small, progress=progress) if progress and name in LONG else measure(small=small)
    return {**found, "peers": found.get("peers", [])}
