"""All queries of the Stream Query Repository on network traffic are plan files, and give what they mean in SQL."""

from __future__ import annotations

import pytest

from tests.feeding import through
from tests.stream_queries import PLANS, QUERIES, by_duckdb, packets_of, plan_of, rounded


def test_there_is_a_file_for_each_query() -> None:
    assert sorted(each.stem for each in PLANS.glob("*.yaml")) == sorted(QUERIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_file_gives_what_its_query_means(name: str) -> None:
    plan, packets = plan_of(name), packets_of(name, minutes=15.0)
    (sink,) = plan.sinks
    found = rounded(through(plan, sink, {"packets": packets}).rows())
    wanted = by_duckdb(name, packets)
    assert wanted
    assert (sorted(found) if name == "5_half_open" else found) == wanted
