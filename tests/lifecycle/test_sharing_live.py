"""Sharing and impact projection between real peers, each a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import Cluster, NotAdmitted, Plan, source
from synergy_nb.plan.builder import Stream
from tests.peer_states import states_of


def stem() -> Stream:
    return source("packets", rate="400 tuples/s", seed=1, id="packets").filter("bytes > 100", id="large")


def by(column: str) -> Plan:
    return stem().aggregate(column, "200 ms", n="count(*)", id=f"by_{column}").sink(column)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4, cores=1.0, spark=False) as cluster:
        yield cluster


def components(cluster: Cluster) -> dict[tuple[str, str], dict[str, Any]]:
    """What is measured of each component, by application and operator."""
    states = states_of(cluster).values()
    return {(each["application"], each["operator"]): each for state in states for each in state.components}


@pytest.mark.slow
def test_two_plans_that_begin_alike_share_a_stream(cluster: Cluster) -> None:
    first = cluster.submit(by("link"), origin="peer-1")
    rows = iter(first)
    next(rows)  # it runs
    second = cluster.submit(by("source"), origin="peer-2")
    others = iter(second)
    joined = next(others)
    assert set(joined.columns) == {"time", "window_start", "window_end", "source", "n"}
    explained = second.explain()
    assert explained.shared == {"large": (first.id, "large")}
    assert second.graph["large"] == first.graph["large"]
    assert "packets" not in second.graph

    there = components(cluster)
    assert {operator for application, operator in there if application == second.id} == {"by_source", "sink"}
    assert there[first.id, "large"]["load"] > 0.0

    first.stop()
    for _ in range(3):  # it goes on without the one that had the producers deployed
        assert next(others).height
    there = components(cluster)
    assert {operator for application, operator in there if application == first.id} == {"packets", "large"}
    second.stop()
    assert not components(cluster)


@pytest.mark.slow
def test_the_same_query_again_needs_no_processing_and_has_the_same_results(cluster: Cluster) -> None:
    first = cluster.submit(by("link"), origin="peer-1")
    rows = iter(first)
    next(rows)
    second = cluster.submit(by("link"), origin="peer-3")
    others = iter(second)
    table = next(others)
    wanted = {tuple(row) for row in table.rows()}
    seen: set[tuple[Any, ...]] = set()
    while not wanted <= seen:  # the first reader gets the same rows
        seen |= {tuple(row) for row in next(rows).rows()}
    assert set(second.graph) == {"by_link", "sink"}
    first.stop()
    second.stop()


@pytest.mark.slow
def test_a_refusal_names_the_application_that_would_be_harmed_with_the_numbers(cluster: Cluster) -> None:
    """All is slow here, so that what a busy machine adds does not count."""

    def work(cost: str, delay: str | None = None) -> Plan:
        stream = source("packets", rate=0.5, seed=3, count=10_000, at="peer-1")
        return stream.delay(cost, id="work", at="peer-2").sink("out", delay=delay)

    first = cluster.submit(work("400 ms", "4 s"), origin="peer-1")
    with pytest.raises(NotAdmitted, match=rf"QoS impact.*{first.id}: .* s projected, limit 4 s"):
        cluster.submit(work("1520 ms"), origin="peer-3")
    assert first.status == "running"
    first.stop()
