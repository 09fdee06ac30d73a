"""A source that can be read again has backups: another peer retains its output, and goes on where it ended."""

from __future__ import annotations

import random

import polars as pl
import pytest

from synergy_nb import Simulation, traces
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import PlanError, Stream, source
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal
from tests.simulated import Ring

PEERS = tuple("abcdefg")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_where_the_peer_of_a_source_dies_its_backup_goes_on_and_no_row_is_lost_or_doubled(seed: int) -> None:
    rng = random.Random(seed)
    own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
    world = PeerWorld(seed, PEERS, Faults(delay=(0.002, 0.02)), config=own)
    for peer in PEERS:
        world.control.report(peer, OfferComponents())
    world.run(2.0)
    world.pace = 0.2
    merged = packets("s", 1).union(packets("t", 2), id="u").filter("bytes > 100", id="f")
    plan = merged.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x").sink("out", id="out")
    inputs = {name: table(rng, 300) for name in plan.sources}
    expanded = replicated(plan, 2)
    where = dict.fromkeys(expanded.operators, "a") | {"s": "d"}
    for several in replicas_of(expanded).values():
        where.update(zip(several, "bc", strict=True))
    world.deploy("app", expanded, where, inputs, backups={"s": ("e",)})
    assert world.until(lambda: world.status("app") == "running")
    world.run(2.0)
    copy = world.nodes["e"].hosting.roles.copies["app", "s"]
    emitted = world.nodes["d"].hosting.components["app", "s"].bytes_out
    assert copy.log.end.position > 20
    assert copy.log.size < emitted / 2, "what all readers have is not retained"
    world.crash("d")
    assert world.until(lambda: world.where("app")["s"] == "e", 20.0)
    results = world.results["app", "out"]
    assert world.until(lambda: results.ended, 300.0), world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)


def query(availability: str | None) -> Stream:
    readings = source("packets", rate=50.0, seed=1, id="packets", availability=availability)
    return readings.filter("bytes > 100", id="large").aggregate("source", "500 ms", n="count(*)", id="counts")


def test_a_source_with_a_backup_is_not_at_the_origin_and_the_account_says_who_covers_it() -> None:
    ring = Ring(7, seed=1, config=lambda n: PeerConfig(f"peer-{n}", seed=n), codec=True)
    ring.submit("peer-2", "alone", query(None).sink("alone", availability="active 2"))
    ring.submit("peer-2", "r", query("degree 2").sink("out", availability="active 2"))
    assert ring.until_decided("alone").peers["packets"] == "peer-2", "where the application depends on it anyway"
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    (backup,) = report.backups["packets"]
    assert len({report.peers["packets"], backup, "peer-2"}) == 3
    account = str(Explanation("r", ring.events("r"), {}))
    assert f"near the origin, backups at {backup}" in account


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda: query("degree 2").sink("out"),
            "'degree 2'; expected none, or availability such as 'active 3' of other operators as well",
        ),
        (
            lambda: query("ordered 2").sink("out", availability="active 2"),
            "'ordered 2'; expected 'active ...', of which several peers read it, or 'degree ...', of which one reads",
        ),
        (
            lambda: (
                source("peers", id="n", availability="degree 2")
                .filter("value > 0")
                .sink("out", availability="active 2")
            ),
            "'degree 2'; expected none: rows of connector 'peers' are measurements of the peer itself",
        ),
    ],
)
def test_backups_of_a_source_that_nobody_could_continue_are_one_error(build: object, expected: str) -> None:
    assert callable(build)
    with pytest.raises(PlanError) as raised:
        build()
    assert expected in str(raised.value)
    assert len(raised.value.problems) == 1


ROWS = [{"time": number / 100, "v": number} for number in range(500)]


def fed(kind: str) -> Stream:
    """Five seconds of a stream that each of these makes."""
    more = {"rate": 100.0, "availability": "degree 2", "id": "s"}
    match kind:
        case "generator":
            return source(iter(ROWS), columns={"v": "int"}, **more)
        case "table":
            return source(pl.DataFrame(ROWS), **more)
        case _:
            return source("packets", count=1500, seed=2, **more).project(v="bytes", id="p")


@pytest.mark.slow(40)
@pytest.mark.parametrize(
    ("kind", "how"), [("generator", "kill"), ("table", "suspend"), ("packets", "suspend"), ("generator", "move")]
)
def test_in_a_simulation_a_source_goes_on_at_the_peer_of_its_backup(kind: str, how: str) -> None:
    simulation = Simulation(peers=6, network="local", seed=4)
    plan = fed(kind).filter("v >= 0", id="f").sink("out", availability="active 2")
    application = simulation.submit(plan)
    simulation.run(2.0)
    first, (backup,) = application.graph["s"], application.backups["s"]
    if how == "move":
        used = {*application.graph.values(), backup}
        first, how = next(each for each in simulation.peers if each not in used), "kill"
        simulation.move(application, "s", first)
        simulation.run(0.3)
    getattr(simulation, how)(first)
    assert simulation.until(lambda: application.graph["s"] == backup, 20.0)
    if how == "suspend":
        simulation.resume(first)
    found = application.results()["v"].to_list()
    assert application.graph["s"] == backup
    if kind == "packets":
        items = traces.read(plan.operators["s"].params)
        assert found == [size for item in items if isinstance(item, Batch) for size in item.table["bytes"].to_list()]
    else:
        assert found == list(range(500))
        noticed = 0.3 if how == "kill" else 1.0  # seconds: the machine of a killed peer says that it has ended
        assert application.qos()["delay_max_s"] > noticed, "rows that waited for the take-over entered before it"
