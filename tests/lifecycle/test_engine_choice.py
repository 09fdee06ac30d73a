"""Which operators `auto` gives to Spark: heavy ones, and what lies between them, as each hop between engines costs."""

from __future__ import annotations

import pytest

from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import choose
from synergy_nb.plan import Plan, source

OFFER = SparkOffer(state_bytes=100e6)


def heavy_twice(**between: str) -> Plan:
    """A day of packets by source, a light filter, and a day of these by number; before and after it light filters."""
    stream = source("packets", rate="10000 tuples/s", id="packets").filter("bytes > 9", id="before")
    sums = stream.aggregate("source", "1 day", n="count(*)", id="one", selectivity=1.0)
    rest = sums.filter("n > 1", id="between", **between).aggregate(
        "n", "1 day", m="count(*)", id="two", selectivity=1.0
    )
    return rest.filter("m > 1", id="after").sink("all", delay="2 days")


def on_spark(plan: Plan, offer: SparkOffer = OFFER) -> dict[str, str]:
    return {name: why for name, (engine, why) in choose(plan, offer, {}).reasons.items() if engine == "spark"}


def test_a_light_operator_between_heavy_ones_goes_to_spark_and_those_around_them_stay() -> None:
    found = on_spark(heavy_twice())
    assert set(found) == {"one", "between", "two"}
    assert found["between"] == "it lies between operators on Spark"
    assert "more than the 100 MB of a peer" in found["one"]
    placed = choose(heavy_twice(), OFFER, {}).plan
    assert [each.params["members"] for each in placed.operators.values() if each.engine == "spark"] == [
        ["one", "between", "two"]
    ]


def test_what_the_plan_or_spark_keeps_at_peers_is_no_part_of_it_though_it_lies_between() -> None:
    assert set(on_spark(heavy_twice(engine="peer"))) == {"one", "two"}
    refuses = SparkOffer(
        state_bytes=100e6, refuses=lambda _plan, name, _inside: "no" if name in ("packets", "between") else ""
    )
    assert set(on_spark(heavy_twice(), refuses)) == {"one", "two"}


def test_nothing_is_between_where_nothing_is_heavy() -> None:
    choice = choose(heavy_twice(), SparkOffer(state_bytes=1e15, cores=100.0), {})
    assert {engine for engine, _ in choice.reasons.values()} == {"peer"}
    assert choice.plan == heavy_twice()
    assert choice.otherwise is None


@pytest.mark.parametrize("limit", ["10 s", "300 ms"])
def test_a_delay_limit_without_room_for_a_micro_batch_keeps_all_at_peers(limit: str) -> None:
    plan = heavy_twice()
    choice = choose(Plan(plan.operators.values(), {"delay": limit}), OFFER, {})
    assert (choice.otherwise is None) == (limit == "300 ms")
    assert ({engine for engine, _ in choice.reasons.values()} == {"peer"}) == (limit == "300 ms")
