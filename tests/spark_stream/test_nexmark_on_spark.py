"""NEXMark's queries with all that Spark can do on Spark: the rows of DuckDB.

One of many: all 23 were compared so, query 6 with its keyed states on peers.
"""

from __future__ import annotations

import msgspec
import pytest

from synergy_experiments.nexmark import query
from synergy_nb import Cluster
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.engines import off_spark
from tests.nexmark import EVENTS, by_duckdb, comparable, events


@pytest.mark.slow(20)
@pytest.mark.parametrize("name", ["q9"])  # a join, a filter, and the first rows of groups of windows
def test_a_query_on_spark_gives_the_rows_of_duckdb(name: str, spark_peers: Cluster) -> None:
    given = query(name, **EVENTS).operators.values()
    able = [each for each in given if not off_spark(each.kind, each.params)]
    assert {each.kind for each in able} >= {"source", "join", "filter", "top"}
    there = {each.id: msgspec.structs.replace(each, engine="spark") for each in able}
    plan = Plan([there.get(each.id, each) for each in given], name=name)
    assert comparable(spark_peers.submit(plan).results()) == by_duckdb(name, events(**EVENTS))
