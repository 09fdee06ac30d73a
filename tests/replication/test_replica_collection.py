"""Utilities of stream replicas, their collection (algorithm 6) and revival: sequences by hand, and invariants."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from synergy_nb.algorithms.replication.collection import collect, dependents
from synergy_nb.algorithms.replication.revival import InputDelays, Revival, revival
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica

TABLE = """
s1>U1a .020 100 | s1>U1b .050 100 | s2>U2a .030 100 | s2>U2b .040 100 | U1a>Ja .010 95 | U1b>Ja .060 55 | U2a>Ja .020 80
U2b>Ja .050 70 | U1a>Jb .070 60 | U1b>Jb .030 90 | U2a>Jb .080 50 | U2b>Jb .015 100 | Ja>app .025 180 | Jb>app .045 120
"""
OPERATORS = {"U1a": "U1", "U1b": "U1", "U2a": "U2", "U2b": "U2", "Ja": "J", "Jb": "J"}


def example() -> tuple[ReplicaGraph, dict[StreamReplica, float]]:
    weights = {}
    for text in TABLE.replace("\n", "|").strip("|").split("|"):
        ends, latency, weight = text.split()
        producer, consumer = ends.split(">")
        stream = OPERATORS.get(producer, producer)
        rate = 20.0 if producer.startswith("J") else 10.0
        weights[StreamReplica(producer, consumer, stream, rate, float(latency))] = float(weight)
    return ReplicaGraph(tuple(weights), OPERATORS), weights


def at(graph: ReplicaGraph, name: str) -> StreamReplica:
    return next(stream for stream in graph.streams if str(stream) == name)


def test_utilities_equal_a_calculation_by_hand() -> None:
    graph, weights = example()
    assert graph.cost == pytest.approx(6.15, rel=1e-12)
    streams, ends = graph.utilities(weights)
    found = {str(stream): utility for stream, utility in streams.items()}
    expected = {"Ja>app": 0.6, "Jb>app": 0.4, "U1a>Ja": 0.38, "U1b>Ja": 0.22, "U2a>Ja": 0.32, "U2b>Ja": 0.28,
                "U1a>Jb": 0.16, "U1b>Jb": 0.24, "U2a>Jb": 0.4 / 3, "U2b>Jb": 0.8 / 3}  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    replicas = {"U1a": 0.54, "U1b": 0.46, "U2a": 0.32 + 0.4 / 3, "U2b": 0.28 + 0.8 / 3, "app": 1.0}
    assert {name: ends[name] for name in replicas} == pytest.approx(replicas, rel=1e-12)


def test_streams_without_any_weight_have_equal_shares() -> None:
    graph, _ = example()
    _, ends = graph.utilities({})
    assert ends["U1a"] == ends["U1b"] == pytest.approx(0.5)


def test_dependents_equal_those_found_by_hand() -> None:
    graph, _ = example()

    def names(stream: str, k_min: int) -> set[str]:
        return {str(each) for each in dependents(graph, at(graph, stream), k_min)}

    assert names("Jb>app", 1) == {"Jb>app", "U1a>Jb", "U1b>Jb", "U2a>Jb", "U2b>Jb"}
    assert names("Jb>app", 2) == set()
    assert names("s1>U1b", 1) == {"s1>U1b", "U1b>Ja", "U1b>Jb"}
    assert names("U2a>Jb", 2) == {"U2a>Jb"}


@pytest.mark.parametrize(("theta", "count"), [(0.0, 4), (4.5, 3), (6.15 + 1e-9, 0), (5.0, 2)])
def test_collection_by_hand_with_two_replicas_retained(theta: float, count: int) -> None:
    graph, weights = example()
    found = collect(graph, weights, theta, k_min=2)
    expected = [("U2a>Jb", 1 / 6, 5.35), ("U1a>Jb", 0.16 / 0.7, 4.65), ("U1b>Ja", 0.22 / 0.6, 4.05),
                ("U2b>Ja", 0.56, 3.55)]  # fmt: skip
    assert len(found) == count
    for each, (name, ratio, left) in zip(found, expected, strict=False):
        assert [str(stream) for stream in each.streams] == [name]
        assert each.utility / each.cost == pytest.approx(ratio, rel=1e-12)
        assert each.left == pytest.approx(left, rel=1e-12)


def test_an_operator_that_has_too_few_replicas_already_loses_no_stream() -> None:
    graph, weights = example()
    assert collect(graph, weights, 0.0, k_min=3) == []


def test_collection_by_hand_down_to_one_replica() -> None:
    graph, weights = example()
    found = collect(graph, weights, 0.0, k_min=1)
    assert len(found) == 5
    assert {str(stream) for stream in found[4].streams} == {"Jb>app", "U1b>Jb", "U2b>Jb", "s1>U1b", "s2>U2b"}
    assert found[4].utility / found[4].cost == pytest.approx(8 / 9, rel=1e-12)
    assert found[4].left == pytest.approx(1.3, rel=1e-12)


def serves(graph: ReplicaGraph, dead: set[str], k: int) -> bool:
    """Whether results reach the application without some replicas, by following streams from the sources."""
    alive = {stream.producer for stream in graph.streams} - set(graph.operators)
    for _ in range(k):
        for replica in (*graph.operators, "app"):
            inputs = [stream for stream in graph.inputs.get(replica, ()) if stream.producer in alive]
            every = {stream.stream for stream in graph.inputs.get(replica, ())}
            if replica not in dead and every and every == {stream.stream for stream in inputs}:
                alive.add(replica)
    return "app" in alive


@pytest.mark.parametrize("seed", range(12))
def test_every_operator_retains_its_replicas_and_no_stream_is_left_without_use(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, k_min = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    chain = ["s", "U", "F", "J", "app"]
    operators = {f"{name}{number}": name for name in chain[1:-1] for number in range(k)}
    ends = {name: [each for each in operators if operators[each] == name] or [name] for name in chain}
    streams = [
        StreamReplica(one, other, name, 10.0, float(rng.uniform(0.01, 0.1)))
        for name, after in pairwise(chain)
        for one, other in product(ends[name], ends[after])
    ]
    graph = ReplicaGraph(tuple(streams), operators)
    weights = {stream: float(rng.uniform(0.0, 100.0)) for stream in streams}
    left = graph
    for each in collect(graph, weights, 0.0, k_min):
        left = left.without(each.streams)
        assert each.left == pytest.approx(left.cost)
        assert all(len(left.replicas[name]) >= k_min for name in chain[1:-1])
        for replica in operators:
            assert (replica in left.inputs) == (replica in left.outputs)
        assert serves(left, set(), k)
        assert k_min == 1 or all(serves(left, {replica}, k) for replica in operators)
    assert left.cost < graph.cost


def test_what_a_slow_path_needs_remains() -> None:
    """With one replica all results would pass one path to it, and one from it."""
    streams = [
        StreamReplica("s", "a", "s", 1.0, 0.1),
        StreamReplica("s", "b", "s", 1.0, 0.2),
        StreamReplica("a", "app", "o", 1.0, 0.1),
        StreamReplica("b", "app", "o", 1.0, 0.2),
    ]
    graph = ReplicaGraph(tuple(streams), {"a": "o", "b": "o"})
    weights = dict.fromkeys(streams, 1.0)
    assert len(collect(graph, weights, 0.0, 1)) == 1
    assert not collect(graph, weights, 0.0, 1, [{each} for each in streams])
    assert not collect(graph, weights, 0.0, 1, [{streams[0], streams[2]}, {streams[1]}])
    assert len(collect(graph, weights, 0.0, 1, [set(streams)])) == 1, "what was not survived before protects nothing"


# -- revival ---------------------------------------------------------------------------------------------------------


def test_an_input_is_late_only_if_all_of_its_streams_are() -> None:
    delays = InputDelays(interval=0.5)
    for name in "ab":
        delays.begin(name, 0.0)
    for tick in range(1, 11):
        delays.promise("a", 0.5 * tick)
        delays.promise("b", 0.5 * tick)
    delays.promise("b", 14.0)
    assert delays.delay("a", 15.6) == pytest.approx(10.1)
    assert not delays.late(15.6)
    delays.end("b")
    assert delays.late(15.6)
    assert not delays.late(15.4)


def test_tuples_that_come_every_ten_seconds_revive_nothing() -> None:
    """With some jitter; plain silence of 10 s would be a delay in every other interval."""
    rng = np.random.default_rng(3)
    delays = InputDelays(interval=10.0)
    delays.begin("a", 0.0)
    now, last, silent = 0.0, 0.0, 0
    for number in range(1, 500):
        now = 10.0 * number + float(rng.uniform(0.0, 3.0))
        silent += now - last > 10.0
        last = now
        assert not delays.late(now)
        delays.promise("a", now)
    assert silent > 150
    assert not delays.late(now + 18.0)
    assert delays.late(now + 23.0)


def test_a_revived_stream_has_its_interval_and_the_threshold_to_begin() -> None:
    delays = InputDelays(interval=10.0)
    delays.begin("a", 0.0)
    assert delays.late(25.0)
    delays.begin("b", 25.0)
    assert not delays.late(44.9)
    assert delays.late(45.1)


def test_a_collected_stream_from_a_replica_that_runs_comes_first() -> None:
    graph, weights = example()
    gone = collect(graph, weights, 4.5, k_min=2)
    collected = [stream for each in gone for stream in each.streams]
    left = graph.without(collected)
    assert revival(left, collected, "Jb", "U2") == Revival((at(graph, "U2a>Jb"),))
    assert revival(left, collected, "Ja", "U1") == Revival((at(graph, "U1b>Ja"),))
    assert revival(left, collected, "Ja", "U1", failed={"U1b"}) is None
    assert revival(left, collected, "Ja", "U2") is None


def test_else_a_collected_replica_is_revived_with_its_inputs() -> None:
    graph, weights = example()
    gone = collect(graph, weights, 0.0, k_min=1)
    collected = [stream for each in gone for stream in each.streams]
    left = graph.without(collected)
    found = revival(left, collected, "Ja", "U1")
    assert found == Revival((at(graph, "s1>U1b"), at(graph, "U1b>Ja")), "U1b")
    assert revival(left, collected, "Ja", "U1", failed={"s1"}) is None
    again = revival(left, collected, "app", "J", failed={"Ja"})
    assert again is not None
    assert again.replica == "Jb"
    assert {str(stream) for stream in again.streams} == {"U1a>Jb", "U2a>Jb", "Jb>app"}
