"""NEXMark's queries in simulations and on live peers, with a move and a death in the middle: the rows of DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import polars as pl
import pytest

from synergy_experiments.nexmark import NAMES, query
from synergy_nb import Cluster, Simulation
from synergy_nb.plan import Plan
from tests.nexmark import EVENTS, by_duckdb, comparable, events
from tests.quick_cases import quick_first

#: 30 s of event time in 1.5 s.
PACED: Final = {**EVENTS, "rate": 80.0, "count": 2400, "speed": 20.0, "heartbeat": 0.2}
#: Two minutes of event time at its own pace, of which the test has the rest come at once.
LONG: Final = {**PACED, "count": 9600, "speed": 1.0}
#: The first is quick: windows, their keys, and a join of these.
ORDER: Final = ("q8", *(name for name in NAMES if name != "q8"))


def with_backups(name: str, **params: Any) -> Plan:
    plan = query(name, **params)
    return Plan(plan.operators.values(), {"availability": "degree 2"}, name)


def disturbed(peers: Any, application: Any, plan: Plan, passes: Callable[[], object]) -> None:
    """Move the first operator to a peer that has none, and then kill the peer of the last one."""
    first, *_, last = [name for name, each in plan.operators.items() if each.kind not in ("source", "sink")] * 2
    kept = {application.origin, *application.graph.values()}
    peers.move(application.id, first, next(each for each in sorted(peers.peers) if each not in kept))
    passes()
    at = application.graph[last]
    assert at not in {application.origin, *(application.graph[name] for name in (*plan.sources, *plan.sinks))}
    peers.kill(at)


@pytest.mark.parametrize("name", quick_first(ORDER, 1))
def test_a_query_is_right_through_a_move_and_a_death_in_a_simulation(name: str) -> None:
    simulation = Simulation(peers=5, cores=1, network="local", seed=1)
    plan = with_backups(name, **PACED)
    application = simulation.submit(plan, origin="peer-1")
    simulation.run("400 ms")
    disturbed(simulation, application, plan, lambda: simulation.run("400 ms"))
    found = comparable(application.results())
    assert found == by_duckdb(name, events(**PACED))
    assert found
    assert application.explain().takeovers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["q5", "q6"])
def test_a_query_is_right_through_a_move_and_a_death_on_live_peers(name: str) -> None:
    with Cluster(peers=5, cores=1, spark=False) as cluster:
        plan = with_backups(name, **LONG)
        application = cluster.submit(plan, origin="peer-1")
        tables = iter(application)
        rows: list[pl.DataFrame] = []
        disturbed(cluster, application, plan, lambda: rows.extend(islice(tables, 1)))
        for each in plan.sources:
            cluster.pace(application, each, 1000)
        rows += tables
        assert comparable(pl.concat(rows)) == by_duckdb(name, events(**LONG))
        assert application.explain().takeovers
