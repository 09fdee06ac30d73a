"""The workload of section 7.3.5: 16 aggregates over each of ten sub-streams of a packet trace.

Number and mean size of packets in each second and each minute, and over the last ten seconds and the last minute, by
source or by source and destination: 16 queries, which are executed separately for every sub-stream. A sub-stream has
the packets of about a tenth of the sources, and its own rate.

:func:`monitoring_plan` is the query plan for any sources of packets, so the same set-up runs in the simulator and on
peers. :func:`assignments` places its aggregates, by every algorithm from the same statistics; the
caller places sources and sinks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_experiments.worlds.monitors_under_load import requests_per_second
from synergy_experiments.worlds.operator_placements import place_by
from synergy_nb import traces
from synergy_nb.algorithms.resilience import Arcs, LoadModel, load_model
from synergy_nb.plan import Plan, Stream, plan

__all__ = [
    "AGGREGATES",
    "DRIFTS",
    "aggregated",
    "aggregates_of",
    "assignments",
    "costs_of",
    "drifted",
    "monitoring_model",
    "monitoring_plan",
    "named",
    "packets_of",
    "rates_of",
    "substreams",
]

Array = npt.NDArray[np.float64]

WINDOWS: Final = {
    "second": "1 s",
    "minute": "1 min",
    "last 10 s": "10 s every 1 s",
    "last minute": "1 min every 10 s",
}
KEYS: Final = {"source": ["source"], "pair": ["source", "destination"]}
VALUES: Final = {"packets": "count(*)", "size": "avg(bytes)"}
#: Names of the aggregates: window, key, value.
AGGREGATES: Final = tuple(product(WINDOWS, KEYS, VALUES))
COLUMNS: Final = ("time", "source", "destination", "bytes")
DRIFTS: Final = ("steady", "walk", "requests")
DAY: Final = 86_400  # seconds
STEPS: Final = 60  # parts of a trace with one mean rate each
DEVIATION: Final = 0.5  # of the logarithm of a rate
FADING: Final = 0.95  # share of a deviation that is left after a step


def substreams(packets: pl.DataFrame, count: int, seed: int) -> list[pl.DataFrame]:
    """Divide a trace into parts, each with the packets of as many sources.

    Parameters
    ----------
    packets
        Packets with the columns time, source, destination and bytes; ``since`` (:func:`packets_of`) is kept.
    count
        Number of parts.
    seed
        Seed of the assignment of sources to streams.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    missing = [column for column in COLUMNS if column not in packets.columns]
    kept = [*COLUMNS, *(column for column in packets.columns if column == "since")]
    if missing:
        raise ValueError(f"packets: columns {', '.join(packets.columns)}; expected {', '.join(missing)} too")
    sources = packets["source"].unique().sort()
    part = np.random.default_rng(seed).permutation(np.arange(len(sources)) % count)
    parts = pl.DataFrame({"source": sources, "part": part})
    with_part = packets.select(kept).join(parts, on="source", how="left", maintain_order="left")
    return [with_part.filter(pl.col("part") == number).drop("part") for number in range(count)]


def packets_of(trace: str, rate: float, duration: float, seed: int) -> pl.DataFrame:
    """Return the first ``duration`` seconds of a trace, or generated packets; ``since`` are seconds from its start."""
    if trace:
        packets = traces.table({"connector": "trace", "path": trace})
    else:
        packets = traces.table({"connector": "packets", "seed": seed, "rate": rate, "duration": duration})
    since = (pl.col("time") - pl.col("time").min()).dt.total_microseconds() / 1e6
    return packets.with_columns(since=since).filter(pl.col("since") < duration)


def drifted(times: Array, seconds: float, drift: str, number: int, seed: int) -> Array:
    """Return arrival times whose mean rate drifts; the packets, their order and the length of the trace stay.

    Parameters
    ----------
    times
        Arrival times of a sub-stream, seconds.
    seconds
        Length of the trace, seconds.
    drift
        Drift from :data:`DRIFTS`: ``steady``; ``walk``, a random walk of the logarithm of the rate that returns to its
        mean, with a deviation of one half; or ``requests``, the course of one day of a web server, another day for
        each sub-stream.
    number
        Number of the sub-stream.
    seed
        Seed of the drift.

    Raises
    ------
    ValueError
        If there is no such drift.
    """
    if drift not in DRIFTS:
        raise ValueError(f"drift: {drift!r}; expected one of {', '.join(DRIFTS)}")
    if drift == "steady":
        return times
    if drift == "walk":
        rng = np.random.default_rng([seed, number, 18])
        level, levels = DEVIATION * float(rng.normal()), []
        for change in rng.normal(0.0, DEVIATION * math.sqrt(1.0 - FADING * FADING), STEPS).tolist():
            levels.append(math.exp(level))
            level = FADING * level + change
        rates = np.array(levels)
    else:
        second = requests_per_second(seed)
        days = len(second) // DAY
        day = second[(number % days) * DAY : (number % days + 1) * DAY]
        rates = day.reshape(STEPS, -1).sum(axis=1) + 1.0
    until = np.append(0.0, np.cumsum(rates) / rates.sum() * seconds)
    return np.asarray(np.interp(times, until, np.linspace(0.0, seconds, STEPS + 1)))


def costs_of(mean: Sequence[float], cores: float, seed: int) -> list[float]:
    """Return the seconds of a packet at each aggregate: uniform in [0.1, 1], scaled to ``cores`` in all."""
    relative = np.random.default_rng([seed, 7]).uniform(0.1, 1.0, len(AGGREGATES))
    costs: list[float] = (relative * cores / (sum(mean) * relative.sum())).tolist()
    return costs


def named(number: int, aggregate: tuple[str, str, str]) -> str:
    """Return the id of one of :data:`AGGREGATES` over the stream of that number."""
    window, key, value = aggregate
    return f"{value} by {key} {window} {number}"


def aggregated(stream: Stream, number: int, aggregate: tuple[str, str, str], **profile: Any) -> Stream:
    """Return one of :data:`AGGREGATES` over a stream."""
    window, key, value = aggregate
    values = {value: VALUES[value]}
    return stream.aggregate(KEYS[key], WINDOWS[window], values, id=named(number, aggregate), **profile)


def monitoring_plan(packets: Sequence[Stream], costs: Sequence[float], selectivity: float = 0.1) -> Plan:
    """Return the query plan: every aggregate of every stream, each with its own sink.

    Parameters
    ----------
    packets
        Sources of packets, with the columns time, source, destination and bytes.
    costs
        Processing time of a packet at each of :data:`AGGREGATES`, seconds.
    selectivity
        Output tuples of an aggregate over its packets.
    """
    sinks: list[Plan] = []
    for number, stream in enumerate(packets):
        for aggregate, cost in zip(AGGREGATES, costs, strict=True):
            name = named(number, aggregate)
            found = aggregated(stream, number, aggregate, cost=cost, selectivity=selectivity)
            sinks.append(found.sink(name, id=f"{name} sink", cost=0.0))
    return plan(*sinks, name="network monitoring")


def aggregates_of(query: Plan) -> tuple[str, ...]:
    """Return the ids of the operators that are placed."""
    return tuple(name for name, operator in query.operators.items() if operator.kind == "aggregate")


def monitoring_model(query: Plan) -> LoadModel:
    """Return the load model of the aggregates; those of one stream count as connected, as they share its transfer."""
    model = load_model(query)
    names = aggregates_of(query)
    rows = [model.operators.index(name) for name in names]
    of = np.array([query.sources.index(query.upstream(name)[0]) for name in names])
    beside = np.flatnonzero(of[1:] == of[:-1])
    ends = np.stack([beside, beside + 1], axis=1)
    arcs = Arcs(ends, np.zeros((len(ends), len(model.variables))))
    return replace(model, operators=names, load=model.load[rows], arcs=arcs)


def rates_of(times: Sequence[Array], until: float, width: float) -> Array:
    """Return the rates of streams in intervals of ``width`` seconds up to ``until``: intervals x streams, tuples/s."""
    count = max(round(until / width), 1)
    found = [np.histogram(own, bins=count, range=(0.0, count * width))[0] / width for own in times]
    return np.stack(found, axis=1).astype(np.float64)


def assignments(
    query: Plan, capacities: Mapping[str, float], rates: Array, algorithms: Sequence[str], seed: int
) -> dict[str, dict[str, str]]:
    """Return the peer of each aggregate, by algorithm.

    Parameters
    ----------
    query
        Query of :func:`monitoring_plan`.
    capacities
        Peer to its cores.
    rates
        Statistics: intervals x streams, in the order of the plan's sources.
    algorithms
        Names that :func:`~synergy_experiments.worlds.operator_placements.place_by` knows.
    seed
        Seed of the random placement.
    """
    model = monitoring_model(query)
    peers = list(capacities)
    capacity = np.array([capacities[peer] for peer in peers])
    found: dict[str, dict[str, str]] = {}
    for algorithm in algorithms:
        nodes = place_by(algorithm, model, capacity, rates, np.random.default_rng(seed))
        found[algorithm] = {name: peers[node] for name, node in zip(model.operators, nodes, strict=True)}
    return found
