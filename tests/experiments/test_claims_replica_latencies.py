"""H2, H3 and H6: replicas beside shortest paths, processing time of replicas, collection and revival."""

from __future__ import annotations

import numpy as np
import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.collected_replicas import (
    COLLECTED,
    GUARANTEE,
    HINDSIGHT,
    REVIVALS,
    REVIVED,
    STATIC,
    collected_to,
    crashes,
)
from synergy_experiments.chapters.replica_costs import READ, passing
from synergy_experiments.chapters.replica_latencies import CHAIN, UNCHANGING_CHAIN, off_shortest
from synergy_experiments.framework import runner
from synergy_experiments.framework.claim import Result
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Value
from synergy_experiments.worlds.active_replicas import ActiveReplicas
from synergy_experiments.worlds.collected_streams import coordinated
from synergy_experiments.worlds.replicated_queries import Readings, chain, correlation, deployed_graph, shortest
from synergy_experiments.worlds.varying_delays import Array, DelaysOf, Network, episodes, exponential
from synergy_nb.algorithms.replication.collection import collect
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph

SERVERS = 6
MEASURED = [name for names in READ.values() for name in names]


def world(k: int, seed: int, servers: int = SERVERS) -> tuple[Readings, ReplicaGraph, dict[str, int], Array]:
    """Return the paper's query with replicas at random servers, and the latencies between them."""
    rng = np.random.default_rng(seed)
    one = rng.uniform(0.01, 0.3, (servers, servers))
    latency = (one + one.T) * (1.0 - np.eye(servers))
    readings = correlation(servers)
    pinned = {name: int(name.rpartition("_")[2]) for name in readings.sources}
    pinned |= {name: number for number, name in enumerate(readings.applications)}
    replicas = {name: [int(each) for each in rng.choice(servers, k, replace=False)] for name in readings.operators}
    graph, server_of = deployed_graph(readings, replicas, pinned, latency)
    return readings, graph, server_of, latency


def network(latency: Array, server_of: dict[str, int], periods: int, seed: int, extra: Array | None = None) -> Network:
    return Network(latency[None], server_of, (periods, len(latency)), seed, extra)


def run_of(claim: str, values: dict[str, Value], repeat: int = 2) -> Result:
    return next(iter(runner.reproduce([(find([claim])[0], values)], repeat=repeat)))


# -- H2 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_tuple_of_a_chain_takes_the_shortest_path(k: int) -> None:
    readings = chain(3)
    replicas = {name: range(1 + at * k, 1 + at * k + k) for at, name in enumerate(readings.operators)}
    pinned = {readings.sources[0]: 0, readings.applications[0]: 3 * k + 1}
    graph, _ = deployed_graph(readings, replicas, pinned, np.ones((3 * k + 2, 3 * k + 2)))
    assert off_shortest(readings, graph, exponential(1.0, (30, 1), k), 30) < 1e-9


@pytest.mark.slow
def test_every_result_of_joins_over_unions_takes_the_shortest_path_and_the_join_waits_for_both() -> None:
    readings, graph, server_of, latency = world(2, 1)
    of = network(latency, server_of, 4, 9)
    assert off_shortest(readings, graph, of, 4) < 1e-9

    def slower(stream: object) -> Array:
        return 2.0 * of(stream)  # type: ignore[arg-type]

    assert off_shortest(readings, graph, _once(of, slower), 4) > 1e-3  # other delays would be noticed


def _once(first: DelaysOf, then: DelaysOf) -> DelaysOf:
    """Return delays that are others once each stream was asked for."""
    asked = set[object]()

    def of(stream: object) -> Array:
        known = stream in asked
        asked.add(stream)
        return (then if known else first)(stream)  # type: ignore[arg-type]

    return of


@pytest.mark.slow
def test_a_discarded_stream_delivers_nothing_and_a_revived_one_what_was_missed() -> None:
    readings, graph, server_of, latency = world(2, 2)
    of = network(latency, server_of, 12, 3)
    run = ActiveReplicas(readings, graph, of, 12)
    run.run(21.0)
    groups = collect(graph, run.weights(), 0.0, 1)
    gone = [stream for group in groups for stream in group.streams]
    run.discard(gone)
    left = run.graph
    assert len(left.streams) == len(graph.streams) - len(gone)
    run.run(61.0)
    back = [stream for stream in gone if stream.producer in left.inputs and stream.consumer in left.inputs]
    assert back or len(left.replicas) == len(left.operators) / 2
    run.revive(back)
    run.run(np.inf)
    before, between = shortest(readings, graph, of, (12, SERVERS)), shortest(readings, left, of, (12, SERVERS))
    for name in readings.applications:
        found = np.where(np.isnan(run.latencies[name]), np.inf, run.latencies[name])
        assert found[:2] == pytest.approx(before[name][:2])
        assert found[3:5] == pytest.approx(between[name][3:5])


@pytest.mark.slow
def test_verdicts_of_h2_and_what_static_delays_hide() -> None:
    small: dict[str, Value] = {"degrees": (1, 2), "tuples": 10, "servers": SERVERS, "clusters": 1, "periods": 1}
    result = run_of("H2", {**small, "draws": 4000, "network": "transit-stub", "d_min": 1.0})
    found = {(row.x, row.algorithm, row.metric): row.value for row in result.rows}
    assert found[1, UNCHANGING_CHAIN, "mean"] == found[2, UNCHANGING_CHAIN, "mean"] == pytest.approx(4.0)
    assert found[2, CHAIN, "mean"] == pytest.approx(2.01, rel=0.1)
    verdicts = {check.name: check.verdict for check in result.checks}
    assert verdicts["the latency of every tuple is its shortest path over replicas"] == "holds"
    assert verdicts[f"mean with the degree, {CHAIN}"] == "holds"


# -- H3 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processing_time_is_measured_at_each_degree() -> None:
    result = run_of("H3", {"seconds": 0.2, "turns": 1, "batch": 100}, repeat=1)
    degrees = {(row.x, row.algorithm) for row in result.rows if row.metric == "ratio"}
    assert degrees == {(k, name) for k in (1, 2, 3, 4) for name in MEASURED}
    assert all(row.value > 0.0 for row in result.rows if row.metric == "cpu" and row.x != "further input")


def test_throughput_counts_all_tuples_that_a_filter_receives() -> None:
    assert passing(1000, 4, 1)["throughput"] > 0.0


# -- H6 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_collection_saves_cost_and_every_single_crash_is_survived() -> None:
    small: dict[str, Value] = {"degrees": (3,), "servers": 12, "draws": 60, "d_min": 1.0, "network": "transit-stub"}
    changing: dict[str, Value] = {"degrees_congested": (2,), "degrees_revived": (2,), "servers_congested": SERVERS}
    result = run_of("H6", small | changing | {"periods": 60, "thetas": (0.5, 1.0)}, repeat=1)
    found = {(row.algorithm, row.metric): row.value for row in result.rows}
    assert found[COLLECTED, "cost"] < found[STATIC, "cost"]
    assert found[COLLECTED, "crashes"] > 6
    verdicts = {check.name: check.verdict for check in result.checks}
    assert verdicts["every single crash of a replica or a server is survived after collection"] == "holds"
    assert verdicts["collection saves cost"] == "undecided", "one repetition has no interval"
    assert found[collected_to(1.0), "share over time"] == 1.0 == found[STATIC, "share over time"]
    assert found[collected_to(1.0), "late"] == found[STATIC, "late"] <= 0.01, "nothing was collected"
    assert found[collected_to(0.5), "late"] >= found[STATIC, "late"]
    assert found[collected_to(0.5), "share over time"] >= found[HINDSIGHT, "share over time"]


def test_crashes_that_are_not_survived_are_found() -> None:
    readings, graph, server_of, _ = world(2, 4)
    weights = {stream: float(number % 3) for number, stream in enumerate(graph.streams)}

    def after(k_min: int, failures: list[list[str]] | None) -> list[bool]:
        left = graph
        for group in collect(graph, weights, 0.0, k_min, failures):
            left = left.without(group.streams)
        return crashes(readings, left, server_of)[: len(graph.operators)]  # each replica alone

    assert all(after(2, None))
    assert not all(after(2, []))  # k_min as in the paper: both joins are left with the same union
    assert not all(after(1, None))


@pytest.mark.slow
def test_a_congested_path_is_masked_by_what_is_revived() -> None:
    """The path from a source to the only union that is left is congested; another union is revived in its place."""
    readings, graph, server_of, latency = world(2, 6)
    left = graph
    for group in collect(graph, {}, 0.0, 1):
        left = left.without(group.streams)
    busy = np.zeros((56, SERVERS, SERVERS))
    union = next(name for name in left.operators if name.startswith("union load") and name in left.inputs)
    source = 0 if server_of[union] else 1
    busy[36:50, source, server_of[union]] = 30.0
    of = network(latency, server_of, 56, 1, busy)
    late = {}
    for revives in (False, True):
        run = coordinated(readings, graph, of, 56, 0.0, 1, revives=revives)
        results = np.concatenate([each[:, list(readings.matched)].ravel() for each in run.latencies.values()])
        assert not np.isnan(results).any()
        late[revives] = int((results > 5.0).sum())
        assert (run.revived > 0) == revives
    assert 0 < late[True] < late[False]


def test_episodes_are_as_frequent_as_asked_and_those_of_a_path() -> None:
    found = episodes((20_000, 3), 0.1, 10.0, 30.0, 1)
    assert (found == found.transpose(0, 2, 1)).all()
    assert not np.diagonal(found, axis1=1, axis2=2).any()
    assert float((found[:, 0, 1] > 0.0).mean()) == pytest.approx(0.1, rel=0.2)


# -- verdicts that fail ------------------------------------------------------------------------------------------------


CHEAPER = "below the least of collection alone that keeps the guarantee"


@pytest.mark.parametrize(
    ("claim", "name", "points"),
    [
        ("H2", f"mean with the degree, {CHAIN}", [Point(1, CHAIN, "mean", 1.0), Point(2, CHAIN, "mean", 1.1)]),
        ("H2", "the latency of every tuple is its shortest path over replicas", [Point(1, CHAIN, "off", 1e-6)]),
        ("H2", "mean of the chain within 2% of another implementation's", [Point(2, CHAIN, "mean", 2.2)]),
        ("H2", f"replicas shorten the 99th percentile more if delays vary, {CHAIN}",
         [Point(k, name, "p99", value) for name in (CHAIN, UNCHANGING_CHAIN) for k, value in ((1, 8.0), (2, 6.0))]),
        ("H3", "time of a replica over that without replication, degree 2: filter", [Point(2, "filter", "ratio", 5.0)]),
        ("H3", "the time of a replica with the degree: filter",
         [Point(degree, "filter", "ratio", 1.0 / degree) for degree in (1, 2, 3, 4)]),
        ("H3", "of all operators, join has the least growth with a degree",
         [Point("further input", name, "rise", 0.2 if name.startswith("join") else 0.1) for name in MEASURED]),
        ("H3", "beyond the paper: the time over no replication at most its own: filter",
         [Point(degree, "filter", "ratio", 5.0) for degree in (1, 2, 3, 4)]),
        ("H3", "beyond the paper: each further input of a filter takes at most 0.5 of the plain filter",
         [Point("further input", "filter", "rise", 0.6)]),
        ("H3", "beyond the paper: million tuples/s through a filter, 10000 tuples a batch",
         [Point("10000 tuples a batch", "duplicate filter", "throughput", 1.9)]),
        ("H6", "every single crash of a replica or a server is survived after collection",
         [Point(2, COLLECTED, "share", 0.5), Point(2, COLLECTED, "not survived", 1.0)]),
        ("H6", "99th percentile unchanged (interval of the paired rise up to 1%)",
         [Point(2, COLLECTED, "share", 0.5), Point(2, COLLECTED, "rise", 0.02)]),
        ("H6", f"{collected_to(0.5)}, paths congested: {GUARANTEE}",
         [Point(2, STATIC, "late", 0.01), Point(2, collected_to(0.5), "late", 0.04)]),
        ("H6", "beyond the paper: collection alone, paths congested: at most half of the static cost",
         [Point(2, STATIC, "late", 0.01), Point(2, collected_to(0.5), "share over time", 0.6)]),
        *(("H6", f"with revival{name.removeprefix(REVIVED)}, paths congested: {GUARANTEE}",
           [Point(3, name, "late", 0.04)]) for name in REVIVALS),
        *(("H6", f"cost with revival{name.removeprefix(REVIVED)} {CHEAPER}",
           [Point(3, name, "late", 0.0), Point(3, name, "share over time", 0.5),
            Point(3, HINDSIGHT, "share over time", 0.4)]) for name in REVIVALS),
    ],
)  # fmt: skip
def test_a_worse_measurement_does_not_hold(claim: str, name: str, points: list[Point]) -> None:
    measured = Measured([points, points])
    checks = find([claim])[0].checks(measured, {"snapshots": (), "network": "transit-stub", "thetas": (0.5,)})
    assert next(check.verdict for check in checks if check.name == name) == "does not hold"
