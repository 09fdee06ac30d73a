"""Active replicas and backups in one plan: what plans may ask for, and what dies meanwhile."""

from __future__ import annotations

import random

import polars as pl
import pytest

from synergy_nb.dataflow.streams.sorted_input import in_order_of_time
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.active_replicas import degrees_of, replicated
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.placement_modes import check_placement
from synergy_nb.plan.replica_agreement import agreements
from synergy_nb.simulator.replica_world import ReplicaWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal

PEERS = tuple("abcdefgh")
SOURCES = "a"  # peer of the sources and of the sink


# -- plans -----------------------------------------------------------------------------------------------------------


def asked(filters: str | None = "active 3", sums: str | None = "degree 2", **qos: str) -> Plan:
    kept = source("packets", rate="100 tuples/s").filter("bytes > 9", availability=filters)
    return kept.aggregate("link", "1 s", n="count(*)", availability=sums).sink("x", **qos)


def test_an_operators_own_availability_overrides_that_of_the_plan() -> None:
    plan = asked("active 3", None, availability="degree 2")
    assert {name: tuple(each) for name, each in degrees_of(plan).items()} == {
        "source": (1, 1), "filter": (3, 1), "aggregate": (1, 2), "sink": (1, 1),
    }  # fmt: skip
    degrees = degrees_of(asked("degree 1", None, availability="active 2"))
    assert {name: each.active for name, each in degrees.items()} == {
        "source": 1,
        "filter": 1,
        "aggregate": 2,
        "sink": 1,
    }


def test_availability_of_operators_is_written_and_read_in_every_form() -> None:
    plan = asked()
    assert plan == Plan.from_yaml(plan.to_yaml()) == Plan.from_bytes(plan.to_bytes())
    assert plan != asked(sums="degree 3")
    made: dict[str, Plan] = {}
    exec(plan.to_python(), made)
    assert made["query"] == plan
    assert "active 3" in plan.to_text()


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (lambda: asked("active"), "operator 'filter', availability: 'active'; expected a number of replicas"),
        (lambda: asked("99 %"), "operator 'filter', availability: '99 %'; expected a number of replicas"),
        (lambda: asked("active 0"), "operator 'filter', availability: 'active 0'; expected a number of replicas"),
        (
            lambda: asked(availability="99 %"),
            "operator 'filter', availability: 'active 3'; expected none beside a share of the time in qos.availability",
        ),
        (
            lambda: source("packets", availability="active 2").sink("x"),
            "operator 'source', availability: 'active 2'; expected none: a",
        ),
        (
            lambda: source("packets").filter("bytes > 9", availability="active 2", at="peer-1").sink("x"),
            "operator 'filter', availability: 'active 2'; expected 'degree ...', or no at",
        ),
        (
            lambda: (
                source("packets").filter("bytes > 9", engine="spark").sample("5 %", availability="active 2").sink("x")
            ),
            "operator 'filter', engine: 'spark'; expected peer or auto",
        ),
        (
            lambda: asked(sums="degree 2", filters=None, replica_distance="30 ms"),
            "qos.replica_distance: '30 ms'; expected availability such as 'active 3'",
        ),
        (lambda: Plan.from_yaml(asked().to_yaml().replace("name: x\n", "name: x\n", 1).replace(
            "    kind: sink\n", "    kind: sink\n    availability: degree 2\n")),
            "operator 'sink', availability: 'degree 2'; expected none: a"),
    ],
)  # fmt: skip
def test_an_availability_that_cannot_be_had_is_refused_by_name(plan: object, problem: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan()  # type: ignore[operator]
    assert problem in str(raised.value)


def test_more_replicas_than_peers_are_refused_by_the_operator_that_asks_for_them() -> None:
    check_placement(asked(), "composed", peers=3)
    with pytest.raises(ValueError, match="operator 'filter': availability: 'active 3'; expected at most 2, a peer for"):
        check_placement(asked(), "composed", peers=2)
    with pytest.raises(ValueError, match="operator 'aggregate': availability: 'degree 4'; expected at most 3"):
        check_placement(asked(sums="degree 4"), "composed", peers=3)


def test_only_an_operator_with_backups_that_reads_active_replicas_sorts_for_them() -> None:
    found = agreements(asked())
    assert str(found["aggregate"]).startswith("aggregate (aggregate): it sorts its input: its backup has to repeat it")
    assert not found["filter"].sorts
    assert "aggregate" not in agreements(asked(sums="degree 1")), "nobody has to repeat it"
    assert "filter" not in agreements(asked("degree 2", "active 2")), "it reads a source"
    assert not agreements(asked("degree 2", "active 2"))["aggregate"].sorts, "it reads one stream"


# -- data path -------------------------------------------------------------------------------------------------------


def batch(times: list[int], value: str, position: int = 0) -> Batch:
    columns = {"time": pl.Series(times, dtype=pl.Datetime("us")), "v": [value] * len(times)}
    return Batch(pl.DataFrame(columns), position, 0.0)


@pytest.mark.parametrize("joined", [False, True])
def test_tuples_of_several_ports_are_read_in_the_order_of_their_times(joined: bool) -> None:
    ports = [[batch([1, 2, 5], "x", 7), batch([5], "y", 10)], [batch([2, 3, 9], "z", 4)], []]
    found = in_order_of_time(ports, joined=joined)
    whole = pl.concat([each.table for _, each in found])
    assert whole["time"].to_physical().to_list() == [1, 2, 2, 3, 5, 5, 9]
    assert whole["v"].to_list() == ["x", "x", "z", "z", "x", "y", "z"]
    if joined:
        assert [port for port, _ in found] == [0]
    else:
        assert [(port, each.position) for port, each in found] == [(0, 7), (1, 4), (0, 9), (1, 6)]


def one_input(left: Stream, right: Stream) -> Stream:
    merged = left.union(right, id="x", availability="active 2")
    return merged.filter("bytes > 100", id="p", availability="degree 2")


def union(left: Stream, right: Stream) -> Stream:
    up = left.filter("bytes > 50", id="x", availability="active 2")
    return up.union(right, id="p", availability="degree 2")


def join(left: Stream, right: Stream) -> Stream:
    up = left.filter("bytes > 50", id="x", availability="active 2")
    return up.join(right, on="source", within="30 ms", id="p", availability="degree 2")


@pytest.mark.slow
@pytest.mark.parametrize("make", [one_input, union, join])
@pytest.mark.parametrize("seed", [0, 2])
def test_a_backup_repeats_its_primary_although_a_stream_that_it_had_read_died_with_it(make: object, seed: int) -> None:
    rng = random.Random(seed)
    passive = make(packets("s", 1), packets("t", 2))  # type: ignore[operator]
    plan = passive.filter("TRUE", id="y", availability="active 2").sink("out", id="out")
    inputs = {name: table(rng) for name in "st"}
    world = ReplicaWorld(seed, PEERS, Faults(delay=(0.0, 0.05)), 0.3)
    world.pace = 0.04
    where = {"s": SOURCES, "t": SOURCES, "x": "b", "x~1": "c", "p": "b", "y": "d", "y~1": "e", "out": SOURCES}
    expanded = replicated(plan, {name: each.active for name, each in degrees_of(plan).items()})
    world.deploy("app", expanded, where, inputs, backups={"p": ("f",)})
    world.run(rng.uniform(0.2, 1.2))
    world.crash("b")
    world.run(40.0)
    results = world.results["app", "out"]
    assert results.ended, world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert not world.failures()
