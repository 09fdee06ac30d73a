"""Which operators Spark executes, and how parts on Spark are composed; in the simulator, where no Spark is needed."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_stream.supported import supported
from synergy_nb.assembly import PeerConfig
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import choose
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.spark_parts import PART, Profile, cones, pace, parts_of, profiled, replace_parts
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from tests.simulated import Ring

WITH_SPARK = (*ALL_COMPONENTS, PART)


def packets(speed: float = 0.0) -> Stream:
    return source("packets", duration="1 min", speed=speed)


def top(engine: str = "spark", delay: str | None = "10 s", speed: float = 1.0, rate: str = "1000 tuples/s") -> Plan:
    """The top-k query, with its window on an engine."""
    traffic = (
        source("packets", duration="1 min", speed=speed, rate=rate)
        .filter("link = 'B'")
        .aggregate(["source", "destination"], "20 min", total="sum(bytes)", engine=engine)
    )
    return traffic.sort("total desc").compare("total", "95 %", count=traffic.count()).sink("top", delay=delay)


class SparkRing(Ring):
    """Peers that take parts on Spark, which are ready after some time."""

    def __init__(
        self, peers: int, seed: int, *, takes: float = 1.0, offer: SparkOffer | None = None, **config: Any
    ) -> None:
        self.takes = takes
        components = config.pop("components", WITH_SPARK)
        super().__init__(peers, seed, config=lambda number: PeerConfig(
            name=f"peer-{number}", components=components, seed=seed * 1000 + number, **config
        ))  # fmt: skip
        for each in self.synergy.values():
            each.driver_port.spark = offer or SparkOffer()

    def _carry_out(self, address: str, instruction: object) -> None:
        before = set(self.deployed)
        super()._carry_out(address, instruction)
        if isinstance(instruction, Deployment):
            session = self.synergy[address].session
            for part in parts_of(Plan.from_bytes(instruction.plan)):
                key = (address, instruction.application, part)
                if key in self.deployed and key not in before:
                    self.synergy[address].peer.after(self.takes, session.component_ready, instruction.application, part)


# -- parts -----------------------------------------------------------------------------------------------------------


def test_a_part_has_one_exit_and_no_other_readers() -> None:
    plan = top(speed=0.0)
    inner = {"source", "filter", "aggregate", "sort", "count", "compare"}
    assert cones(plan, inner) == {"compare": tuple(name for name in plan.operators if name in inner)}
    assert cones(plan, {"aggregate", "sort"}) == {"aggregate": ("aggregate",), "sort": ("sort",)}
    assert cones(plan, {"filter", "sort", "compare", "count"}) == {
        "filter": ("filter",),
        "compare": tuple(name for name in plan.operators if name in {"sort", "count", "compare"}),
    }


def test_a_placed_plan_is_a_plan_of_the_same_streams() -> None:
    plan = top()
    placed = replace_parts(plan, {"filter", "aggregate"}, 0.5)
    assert list(placed.operators) == ["source", "aggregate", "sort", "count", "compare", "sink"]
    assert placed.operators["aggregate"].kind == PART
    assert placed.upstream("aggregate") == ("source",)
    assert placed.processing_time("aggregate") == pytest.approx(1.0)  # two micro-batches
    for name in placed.operators:
        assert placed.stream_name(name) == plan.stream_name(name)
        assert placed.rate(name) == pytest.approx(plan.rate(name))
        assert placed.schema(name) == plan.schema(name)
    again = Plan.from_bytes(placed.to_bytes())
    assert again == placed
    assert again.load("aggregate") > plan.load("filter")
    assert parts_of(again) == {"aggregate": ["filter", "aggregate"]}


@pytest.mark.parametrize("speed", [0.0, 2.0])
def test_a_part_keeps_the_pace_of_what_comes_in(speed: float) -> None:
    placed = replace_parts(top(speed=speed), {"filter", "aggregate"}, 0.5)  # no source is in the part
    assert pace(placed, "aggregate") == pace(placed, "sort") == speed


def test_a_part_that_came_damaged_is_refused_by_name() -> None:
    placed = replace_parts(top(), {"aggregate"}, 0.5)
    for field, value in (("members", ["nobody"]), ("plan", b"none"), ("load", -1.0), ("batches", 7)):
        params = {**placed.operators["aggregate"].params, field: value}
        bad = placed.operators["aggregate"].__class__("aggregate", PART, params, ("filter",), 1.0, None, None, "spark")
        operators = {**placed.operators, "aggregate": bad}
        schemas = {each: placed.schema(each) for each in placed.operators}
        checked = cast("Any", SimpleNamespace(operators=operators, schemas=schemas, windows=placed._windows))
        with pytest.raises(PlanError, match="aggregate"):
            Plan.from_bytes(Plan.composed("bad", placed.qos, checked).to_bytes())


def test_measured_rates_replace_assumed_ones() -> None:
    plan = source("trace", path="a", format="http").filter("operation = 'GET'").sink()
    measured = profiled(plan, {"source": Profile(rate=40.0)})
    assert measured.rate("source") == 40.0
    assert measured.rate("filter") == pytest.approx(20.0)
    both = {"source": Profile(rate=40.0), "filter": Profile(rate=30.0, selectivity=0.1)}
    assert profiled(plan, both).rate("sink") == pytest.approx(30.0)
    assert profiled(plan, {"filter": Profile(selectivity=0.1)}).selectivity("filter") == pytest.approx(0.1)
    assert profiled(plan, {}) is plan


def test_measured_costs_replace_assumed_ones_and_leave_those_that_a_plan_asks_for() -> None:
    plan = (
        source("trace", path="a", format="http")
        .filter("operation = 'GET'")
        .filter("host <> ''", id="large", cost="1 ms")
        .sink()
    )
    profiles = {name: Profile(rate=10.0, cost=3e-5, selectivity=1.0) for name in plan.operators}
    measured = profiled(plan, profiles)
    assert measured.processing_time("filter") == 3e-5
    assert measured.load("filter") == pytest.approx(10.0 * 3e-5)
    assert measured.processing_time("large") == 1e-3
    assert measured.processing_time("sink") == plan.processing_time("sink")  # what goes by its name is another's
    assert measured.processing_time("source") == plan.processing_time("source")


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (lambda: packets().aggregate("link", "100 rows", n="count(*)", engine="spark"), "a number of rows"),
        (lambda: packets().delay("1 ms", engine="spark"), "its purpose is load on a peer"),
        (lambda: source("packets", duration="1 min", engine="spark"), "a peer has to time"),
        (lambda: source("packets", speed=0, engine="spark"), "without an end"),
        (lambda: source("peers", engine="spark"), "come from peers"),
        (lambda: packets().filter("bytes > 1", engine="flink"), "auto, peer, spark"),
    ],
)
def test_engine_spark_is_refused_at_once_for_operators_that_spark_cannot_execute(stream: Any, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        stream().sink()


# -- choice ----------------------------------------------------------------------------------------------------------


def test_light_operators_stay_on_peers() -> None:
    choice = choose(top("auto"), SparkOffer(), {})
    assert choice.plan == top("auto")
    assert choice.otherwise is None
    assert choice.reasons["aggregate"][0] == "peer"
    assert "light" in choice.reasons["aggregate"][1]


def test_operators_with_large_state_go_to_spark_and_may_return() -> None:
    plan = top("auto", rate="1000000 tuples/s", delay="1 min")
    choice = choose(plan, SparkOffer(), {})
    assert parts_of(choice.plan) == {"compare": ["aggregate", "sort", "count", "compare"]}
    assert choice.otherwise == plan
    assert "more than the 256 MB of a peer" in choice.reasons["aggregate"][1]


def test_operators_that_spark_cannot_execute_stay_on_peers() -> None:
    """A sample can only be drawn from a stream with positions, so it cannot go along into a part."""
    rows = {"path": "a.parquet", "format": "parquet", "columns": {"size": "int", "f": "float"}}
    traffic = source("trace", **rows, rate="1000 tuples/s")

    def refuses(plan: Plan, operator: str, inside: Collection[str]) -> str:
        return supported(plan.operators[operator], plan, inside)

    offer = SparkOffer(state_bytes=0.0, refuses=refuses)
    drawn = traffic.filter("size > 3").sample(0.5).aggregate("size", "1 h", n="count(*)").sink()
    assert parts_of(choose(drawn, offer, {}).plan) == {"aggregate": ["aggregate"]}
    written = traffic.aggregate("size", "1 h", n="max(cast(f AS TEXT))").sink()
    assert not parts_of(choose(written, offer, {}).plan)
    assert parts_of(choose(written, SparkOffer(state_bytes=0.0), {}).plan)


def test_a_measured_rate_sends_a_heavy_operator_to_spark() -> None:
    traffic = source("trace", path="a.parquet", format="parquet", columns={"size": "int"}, speed=1)
    plan = traffic.aggregate("size", "1 h", n="count(*)").sink()
    assert not parts_of(choose(plan, SparkOffer(), {}).plan)
    choice = choose(plan, SparkOffer(), {plan.stream_name("source"): Profile(rate=1e6)})
    assert parts_of(choice.plan)
    assert "1,000,000 tuples/s, measured" in choice.reasons["aggregate"][1]


def test_a_limit_without_room_for_a_micro_batch_keeps_operators_on_peers() -> None:
    plan = top("auto", rate="1000000 tuples/s", delay="200 ms")
    choice = choose(plan, SparkOffer(), {})
    assert choice.plan == plan
    assert "results must come within 200 ms" in choice.reasons["aggregate"][1]


def test_spark_reads_a_trace_itself_where_all_above_may_follow() -> None:
    plan = top("spark", speed=0.0)
    assert parts_of(choose(plan, SparkOffer(), {}).plan) == {"aggregate": ["source", "filter", "aggregate"]}
    paced = top("spark", speed=1.0)
    assert parts_of(choose(paced, SparkOffer(), {}).plan) == {"aggregate": ["aggregate"]}
    kept = packets().filter("bytes > 9", engine="peer").aggregate("link", "1 min", n="count(*)", engine="spark").sink()
    assert parts_of(choose(kept, SparkOffer(), {}).plan) == {"aggregate": ["aggregate"]}


# -- composition and sessions ----------------------------------------------------------------------------------------


def test_a_part_is_composed_like_any_component_and_begins_when_it_is_ready() -> None:
    ring = SparkRing(6, seed=1, takes=20.0)
    before = ring.simulation.now
    ring.submit("peer-2", "r", top())
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert ring.simulation.now - before >= 20.0
    assert set(report.peers) == set(top().operators)
    ring.run(30.0)
    assert ring.status("r") == "running"  # the time to get ready is no lost lease
    explained = Explanation("r", ring.events("r"), {})
    assert explained.parts == {"aggregate": ["aggregate"]}
    assert explained.engines["aggregate"] == ("spark", "asked for by the plan")
    assert "spark: asked for by the plan" in str(explained)


def test_members_of_a_part_are_where_the_part_is() -> None:
    ring = SparkRing(4, seed=2)
    plan = top(speed=0.0)
    ring.submit("peer-1", "r", plan)
    report = ring.until_decided("r")
    assert set(report.peers) == set(plan.operators)
    assert report.peers["source"] == report.peers["filter"] == report.peers["aggregate"]
    ring.run(1.0)
    assert {operator for _, _, operator in ring.started} == {"aggregate"}
    assert Explanation("r", ring.events("r"), {}).why("filter")


def test_a_plan_that_names_spark_is_refused_by_name_without_it() -> None:
    ring = Ring(4, seed=3)
    ring.submit("peer-1", "r", top())
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "aggregate: no component offers 'spark'" in report.reason


@pytest.mark.slow
def test_a_part_that_is_never_ready_is_taken_back() -> None:
    ring = SparkRing(4, seed=4, takes=1e6, session=SessionConfig(prepare=20.0))
    ring.submit("peer-1", "r", top())
    report = ring.until_decided("r", 400.0)
    ring.run(5.0)
    assert report.status == "rejected"
    assert "no answer from every source in time" in report.reason
    assert not ring.deployed
    assert all(each.ledger.load == 0.0 for each in ring.synergy.values())


def test_a_limit_that_the_measured_micro_batch_breaks_is_refused_with_the_numbers() -> None:
    ring = SparkRing(4, seed=5)
    for each in ring.synergy.values():
        each.driver_port.spark = SparkOffer(micro_batch=3.0)
    # The origin does not know how slow the others are.
    ring.synergy["peer-1"].driver_port.spark = SparkOffer(micro_batch=0.1)
    ring.submit("peer-1", "r", top(delay="2 s"))
    report = ring.until_decided("r")
    chosen = report.peers.get("aggregate")
    assert chosen in ("peer-1", None)
    if chosen is None:
        assert "delay" in report.reason


def test_where_parts_cannot_be_composed_the_peers_execute_it() -> None:
    ring = SparkRing(4, seed=6, components=ALL_COMPONENTS, offer=SparkOffer(state_bytes=1.0))  # nobody offers Spark
    plan = top("auto")
    ring.submit("peer-1", "r", plan)
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert set(report.peers) == set(plan.operators)
    explained = Explanation("r", ring.events("r"), {})
    assert explained.parts == {}
    assert explained.engines["aggregate"][0] == "peer"
    assert "no component offers 'spark'" in explained.engines["aggregate"][1]


def test_a_measured_rate_is_found_in_the_directory() -> None:
    ring = SparkRing(4, seed=7)
    plan = source("trace", path="a.parquet", format="parquet", columns={"size": "int"}, speed=1).aggregate(
        "size", "1 h", n="count(*)"
    ).sink(delay="1 min")  # fmt: skip
    there = ring.synergy["peer-3"]
    ring.simulation.call("peer-3", there.directory.register, plan.stream_name("source"), "stream", {"rate": 1e5})
    ring.run(5.0)
    ring.submit("peer-1", "r", plan)
    ring.run(2.0)
    assert "measured" in Explanation("r", ring.events("r"), {}).engines["aggregate"][1]


def test_a_long_window_without_groups_holds_one_tuple_and_stays_on_peers() -> None:
    trace = source("trace", path="small.csv", format="csv", columns={"time": "time"})
    choice = choose(trace.aggregate(window="7 d", n="count(*)").sink(), SparkOffer(), {})
    assert choice.reasons["aggregate"][0] == "peer"
