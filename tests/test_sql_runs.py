"""Queries in SQL run on live peers and in simulations, also when a peer is killed: the rows are those of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from synergy_nb import Cluster, Plan, Simulation, sql
from synergy_nb.plan.operators.schemas import IMPLICIT
from tests.sql_examples import QUERIES, by_duckdb, comparable, packets, plan_of

#: Some of each kind: sessions, first rows of windows, joins of three tables, aggregates of given windows.
NAMES = [
    "sessions",
    "first rows of groups",
    "three tables",
    "most frequent",
    "common tables",
    "expressions of aggregates",
]


def found(application: Any) -> list[tuple[object, ...]]:
    results: pl.DataFrame = application.results()
    return comparable(results.drop([name for name in IMPLICIT if name in results.columns]).rows())


def wanted(name: str) -> list[tuple[object, ...]]:
    return by_duckdb(QUERIES[name].twin or QUERIES[name].text, packets())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_gives_the_rows_of_duckdb(name: str) -> None:
    simulation = Simulation(peers=4, cores=1, network="local", seed=1)
    assert found(simulation.submit(plan_of(QUERIES[name].text))) == wanted(name)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=3, cores=1, spark=False) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_live_peers_give_the_rows_of_duckdb(name: str, cluster: Cluster) -> None:
    assert found(cluster.submit(plan_of(QUERIES[name].text))) == wanted(name)


def paced() -> Plan:
    text = """
        SELECT source, count(*) AS n, sum(bytes) AS total
        FROM packets(seed = 3, rate = '500 tuples/s', duration = '6 s', at = 'peer-1')
        WHERE bytes > 100
        GROUP BY source, TUMBLE(time, INTERVAL '500 milliseconds')
        HAVING count(*) > 2
    """
    return sql(text).sink("out", availability="degree 2")


@pytest.mark.slow
def test_a_query_goes_on_when_a_peer_is_killed() -> None:
    simulation = Simulation(peers=5, cores=1, network="local", seed=1)
    undisturbed = found(simulation.submit(paced(), origin="peer-1"))
    simulation = Simulation(peers=5, cores=1, network="local", seed=1)
    application = simulation.submit(paced(), origin="peer-1")
    at = application.graph["aggregate"]
    assert at != "peer-1"
    simulation.run("2 s")
    simulation.kill(at)
    assert found(application) == undisturbed
    assert undisturbed
    assert application.explain().takeovers
