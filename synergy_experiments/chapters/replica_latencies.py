"""H2: latency against the degree of replication (ICDE 2008, section VI-C, figure 3).

Two queries run in virtual time with real duplicate filters and real operators: a chain of three operators over links
with exponential delays, and the paper's query, two unions that two joins share, in clusters of servers with wide-area
delays. Delays differ from tuple to tuple. A tuple's latency at a sink is the time from the period in which its readings
were taken, if processing takes no time; the measured latency of each tuple is compared with the shortest path over
replicas, computed by itself. Means and quantiles are those of many more tuples, by shortest paths.

Details that the paper does not state
-------------------------------------
The numbers of figure 3 cannot be read, and its servers and links are not known. The delays of PlanetLab at hand are one
snapshot, so their variation is a model with two fitted numbers (:mod:`~synergy_experiments.worlds.varying_delays`);
``snapshots`` replaces it by measured matrices.

Findings
--------
Mean and standard deviation over time fall with each further degree. In the wide area the second replica takes most of
the variation away, and the 99th percentile hardly falls beyond that: what is left are the servers that are far away.
Where delays do not vary, replicas shorten nothing in the chain. In the wide area the mean falls there, too, from 121 to
102 ms at degree 5, where it falls from 126 to 103 ms if delays vary: most of what the mean gains is that results leave
a source by the nearer of two unions, not that variation is masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Estimate, Measured, Point, less
from synergy_experiments.framework.parameters import Setup, files, number, whole, wholes
from synergy_experiments.framework.verdicts import at_all, monotone, not_comparable, own
from synergy_experiments.worlds.active_replicas import ActiveReplicas
from synergy_experiments.worlds.measured_delays import matrix_path, network
from synergy_experiments.worlds.replicated_queries import Readings, chain, deployed_graph, shortest
from synergy_experiments.worlds.varying_delays import Array, DelaysOf, Network, exponential, unchanging
from synergy_experiments.worlds.wide_area_clusters import cluster
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph

__all__ = ["CLAIMED", "in_a_chain", "in_the_wide_area", "off_shortest", "snapshots_of"]

CHAIN: Final = "chain, exponential delays"
UNCHANGING_CHAIN: Final = "chain, unchanging delays"
WIDE: Final = "wide area, delays that vary"
UNCHANGING: Final = "wide area, unchanging delays"
#: Latency of a chain of three operators over links with exponential delays of mean 1: mean, standard deviation and 99th
#: percentile by the number of replicas (those of degree 1 are exact: 4 and 2).
EXPECTED: Final = {
    1: (4.004, 2.001, 10.05),
    2: (2.010, 0.931, 4.78),
    3: (1.373, 0.614, 3.18),
    4: (1.059, 0.465, 2.43),
    5: (0.868, 0.374, 1.96),
}
METRICS: Final = ("mean", "sd", "p99")
TOLERANCE: Final = 0.02


def in_a_chain(degrees: tuple[int, ...], tuples: int, draws: int, seed: int) -> list[Point]:
    """Measure latencies behind a chain of three operators, in units of the mean delay of a link.

    Parameters
    ----------
    degrees
        Numbers of replicas of each operator.
    tuples
        Number of tuples that real filters and operators process.
    draws
        Number of tuples of means and quantiles.
    seed
        Seed of the delays.
    """
    readings, points = chain(3), []
    for k in degrees:
        servers = 2 + 3 * k
        replicas = {name: range(1 + at * k, 1 + at * k + k) for at, name in enumerate(readings.operators)}
        pinned = {readings.sources[0]: 0, readings.applications[0]: servers - 1}
        graph, _ = deployed_graph(readings, replicas, pinned, np.ones((servers, servers)))
        shape, many = (tuples, 1), (draws, 1)
        off = off_shortest(readings, graph, exponential(1.0, shape, seed), tuples)
        points.append(Point(k, CHAIN, "off", off))
        for name, of in ((CHAIN, exponential(1.0, many, seed)), (UNCHANGING_CHAIN, unchanging(many))):
            points += _summary(k, name, [_results(readings, graph, of, many)])
    return points


def in_the_wide_area(
    degrees: tuple[int, ...],
    servers: int,
    clusters: int,
    d_min: float,
    periods: int,
    draws: int,
    paths: tuple[str, ...],
    seed: int,
) -> list[Point]:
    """Measure latencies of the paper's query in some clusters, ms.

    Parameters
    ----------
    degrees
        Numbers of replicas of each operator, deployed at least cost.
    servers
        Number of servers of a cluster, each with a source of either kind.
    clusters
        Number of clusters; in the first of them real filters and operators run.
    d_min
        One-way latency that two replicas of an operator exceed, ms.
    periods
        Number of periods in which real filters and operators process readings.
    draws
        Number of tuples of means and quantiles, over all clusters.
    paths
        Matrices of round-trip times, one a snapshot; none: delays of a transit-stub network.
    seed
        Seed of the cluster and the delays.
    """
    points, found = [], dict[tuple[int, str], list[Array]]()
    for drawing in range(clusters):
        drawn = cluster(servers, paths, d_min, 100 * seed + drawing)
        readings = drawn.readings
        many = (max(2, draws // (2 * sum(readings.matched) * clusters)), servers)
        for k in degrees:
            graph, server_of = drawn.replicated(k, d_min)
            if not drawing:
                few = Network(drawn.snapshots, server_of, (periods, servers), seed)
                points.append(Point(k, WIDE, "off", off_shortest(readings, graph, few, periods)))
            varying = Network(drawn.snapshots, server_of, many, seed)
            for name, of in ((WIDE, varying), (UNCHANGING, unchanging(many))):
                found.setdefault((k, name), []).append(1e3 * _results(readings, graph, of, many))
    for (k, name), results in found.items():
        points += _summary(k, name, results, "_ms")
    return points


def off_shortest(readings: Readings, graph: ReplicaGraph, of: DelaysOf, periods: int) -> float:
    """Run real filters and operators; return the largest difference from the shortest paths, seconds.

    Parameters
    ----------
    readings, graph
        Query and its stream replicas.
    of
        Delay of each tuple on each stream replica.
    periods
        Number of periods.

    Returns
    -------
    float
        Largest difference over all tuples and applications; infinite if one arrives only in one of the two.
    """
    run = ActiveReplicas(readings, graph, of, periods)
    run.run(np.inf)
    paths = shortest(readings, graph, of, (periods, readings.width))
    worst = 0.0
    for application, found in run.latencies.items():
        arrived, expected = np.isfinite(found), np.isfinite(paths[application])
        if (arrived != expected).any():
            return float("inf")
        worst = max(worst, float(np.abs(found[arrived] - paths[application][arrived]).max()))
    return worst


def snapshots_of(setup: Setup) -> tuple[str, ...]:
    """Return the matrices of a set-up: those given, else the one at hand; none where the network is generated."""
    given = setup["snapshots"]
    assert isinstance(given, tuple)
    path = matrix_path(setup)
    return tuple(map(str, given)) or ((path,) if path else ())


def _results(readings: Readings, graph: ReplicaGraph, of: DelaysOf, shape: tuple[int, int]) -> Array:
    """Return the latencies of all results, shape (periods, results of a period)."""
    found = shortest(readings, graph, of, shape)
    return np.concatenate([found[each][:, list(readings.matched)] for each in readings.applications], axis=1)


def _summary(k: int, name: str, results: list[Array], unit: str = "") -> Iterator[Point]:
    """Yield mean and 99th percentile over all results, and the standard deviation over time of each kind of result."""
    pooled = np.concatenate([each.ravel() for each in results])
    over_time = np.sqrt(np.mean(np.concatenate([each.var(axis=0) for each in results])))
    values = (float(pooled.mean()), float(over_time), float(np.percentile(pooled, 99)))
    for metric, value in zip(METRICS, values, strict=True):
        yield Point(k, name, metric + unit, round(value, 9))


def _cells(setup: Setup) -> Iterator[Cell]:
    yield Cell(in_a_chain, (setup["degrees"], setup["tuples"], setup["draws"]))
    given = [setup[name] for name in ("degrees", "servers", "clusters", "d_min", "periods", "draws")]
    yield Cell(in_the_wide_area, (*given, snapshots_of(setup)))


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    for name, unit in ((CHAIN, ""), (WIDE, "_ms")):
        for metric, words in zip(METRICS, ("mean", "standard deviation over time", "99th percentile"), strict=True):
            falls = measured.changes(name, metric + unit)
            check = monotone(f"{words} with the degree, {name}", "decreases", falls, -1.0)
            if name == CHAIN:  # the least of several copies: it cannot rise, and the paper has no such chain
                check = own(check)
            yield check if metric != "p99" else own(check._replace(paper="(ours)"))
    exact = [
        (f"{name} {k}", measured.always(k, name, "off", lambda off: off < 1e-9))
        for name in (CHAIN, WIDE)
        for k in measured.xs("off", name)
    ]
    yield own(at_all("the latency of every tuple is its shortest path over replicas", "(exact)", exact))
    for at, metric in enumerate(METRICS):
        ours = [(k, measured.estimate(k, CHAIN, metric), expected[at]) for k, expected in EXPECTED.items()]
        close = [
            (k, value.between((1.0 - TOLERANCE) * expected, (1.0 + TOLERANCE) * expected))
            for k, value, expected in ours
            if value is not None
        ]
        about = f"{metric} of the chain within {TOLERANCE:.0%} of another implementation's"
        numbers = " ".join(f"{expected[at]:g}" for expected in EXPECTED.values())
        yield own(at_all(about, f"{numbers} (not the paper's)", close))
    for name, still, unit in ((CHAIN, UNCHANGING_CHAIN, ""), (WIDE, UNCHANGING, "_ms")):
        better = [
            (k, None if more is None else more.above())
            for k in measured.xs("p99" + unit, name)
            if k != 1
            for more in [_shortened_more(measured, k, name, still, "p99" + unit)]
        ]
        yield own(at_all(f"replicas shorten the 99th percentile more if delays vary, {name}", "(ours)", better))
    yield not_comparable(
        "latencies in seconds", "figure 3", None, "the figure's numbers, servers and delays are not stated"
    )
    if len(snapshots_of(setup)) < 2:
        yield not_comparable(
            "variation of delays", "measured", "modelled", "one snapshot is at hand; the model is fitted"
        )


def _shortened_more(measured: Measured, k: Coordinate, name: str, still: str, metric: str) -> Estimate | None:
    """Return by how much larger the gain over degree 1 is with one name than with another, within repetitions."""

    def difference(of: Measured) -> float | None:
        gains = [of.paired((k, each, metric), (1, each, metric), less) for each in (name, still)]
        return None if None in gains else gains[0].value - gains[1].value  # type: ignore[union-attr]

    return measured.over_repetitions(difference)


CLAIMED: Final = (
    Claim(
        id="H2",
        title="latency against the degree of replication",
        source="Hwang, Çetintemel, Zdonik, ICDE 2008, section VI-C, figure 3",
        says="degrees 1 to 3: the average as well as the variance of latency decrease as more replicas are deployed",
        parameters={
            "degrees": wholes("numbers of replicas of each operator; the first is 1", (1, 2, 3, 4, 5), most=9),
            "tuples": whole("tuples that real operators process in the chain", 200, 2000),
            "servers": whole("servers of a cluster", 30, least=6),
            "clusters": whole("clusters of one repetition", 4, 12),
            "periods": whole("periods of 10 s that real operators process in a cluster", 2, 20),
            "draws": whole("tuples of means and quantiles", 60_000, 300_000, least=1000),
            "d_min": number("one-way latency that two replicas of an operator exceed, ms", 15.0),
            "network": network(),
            "snapshots": files("matrices of round-trip times between the same hosts, one a snapshot, in .npz files"),
        },
        cells=_cells,
        checks=_checks,
        panels=(
            Panel("mean", "mean latency (mean delays of a link)"),
            Panel("p99", "99th percentile (mean delays of a link)"),
            Panel("mean_ms", "mean latency (ms)"),
            Panel("sd_ms", "standard deviation of latency over time (ms)"),
            Panel("p99_ms", "99th percentile of latency (ms)"),
        ),
        xlabel="degree of replication",
        paper=[
            Point(k, "another implementation", metric, value)
            for k, each in EXPECTED.items()
            for metric, value in zip(METRICS, each, strict=True)
            if metric != "sd"
        ],
        repeat=(3, 10),
    ),
)
