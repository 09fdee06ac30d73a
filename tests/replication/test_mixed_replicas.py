"""Active replicas and backups in one plan: what plans may ask for, and what dies meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.operators import base
from synergy_nb.dataflow.operators.base import implements
from synergy_nb.dataflow.streams.hosting._order_recovery import LAST_ORDER_S
from synergy_nb.dataflow.streams.hosting.effects import Restore
from synergy_nb.dataflow.streams.hosting.input_reports import InputReports
from synergy_nb.dataflow.streams.log.frames import LastOrder
from synergy_nb.dataflow.streams.replicas._sorted_input import in_order_of_time
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import ReplicasDeployed, TakenOver
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.active_replicas import degrees_of, replicated
from synergy_nb.plan.derived.placement_modes import decider_of
from synergy_nb.plan.derived.replica_agreement import agreements
from synergy_nb.plan.operators import catalogue as declared
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal
from tests.replica_world import ReplicaWorld
from tests.simulated import Ring

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
        (lambda: asked(delay="1 s", overdue="drop"), "qos.overdue: 'drop'; expected keep beside active replicas"),
        (
            lambda: (
                source("trace", path="t", format="csv", columns={"time": "time", "v": "int"}, engine="spark")
                .filter("v > 1", engine="spark", availability="degree 2")
                .sink("x")
            ),
            "operator 'source', engine: 'spark'; expected peer or auto with availability: no other peer can continue",
        ),
        (
            lambda: source("packets", availability="synchronized 2").sink("x"),
            "operator 'source', availability: 'synchronized 2'; expected 'active ...', of which several peers read it",
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
            "operator 'sink', availability: 'degree 2'; expected none: the plan states"),
    ],
)  # fmt: skip
def test_an_availability_that_cannot_be_had_is_refused_by_name(plan: object, problem: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan()  # type: ignore[operator]
    assert problem in str(raised.value)


def test_more_replicas_than_peers_are_refused_by_the_operator_that_asks_for_them() -> None:
    decider_of(asked(), "composed", peers=3)
    with pytest.raises(ValueError, match="operator 'filter': availability: 'active 3'; expected at most 2, a peer for"):
        decider_of(asked(), "composed", peers=2)
    with pytest.raises(ValueError, match="operator 'aggregate': availability: 'degree 4'; expected at most 3"):
        decider_of(asked(sums="degree 4"), "composed", peers=3)


def test_only_an_operator_with_backups_that_reads_active_replicas_sorts_for_them() -> None:
    found = agreements(asked())
    assert str(found["aggregate"]).startswith("aggregate (aggregate): it sorts its input: its backup has to repeat it")
    assert not found["filter"].sorts
    assert "aggregate" not in agreements(asked(sums="degree 1")), "nobody has to repeat it"
    assert "filter" not in agreements(asked("degree 2", "active 2")), "it reads a source"
    assert not agreements(asked("degree 2", "active 2"))["aggregate"].sorts, "it reads one stream"


# -- placement -------------------------------------------------------------------------------------------------------


def ring_of(peers: int, seed: int, **config: Any) -> Ring:
    return Ring(peers, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", seed=n, **config), codec=True)


def committed(ring: Ring, application: str, at: str) -> set[str]:
    """Operators whose backups have committed bandwidth at a peer."""
    member = ring.synergy[at].session.members[application]
    return set(member.graph.roles.backed_up(at)) if member.backups_committed else set()


def test_one_plan_gets_active_replicas_and_backups_and_the_journal_tells_what_they_cost() -> None:
    ring, plan = ring_of(7, 1), asked(sums="degree 3", delay="2 s")
    ring.submit("peer-2", "r", plan)
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert set(report.peers) == {"source", "filter", "filter~1", "filter~2", "aggregate", "sink"}
    backups = report.roles.backups["aggregate"]
    assert set(report.roles.backups) == {"aggregate"}
    assert len({report.peers["aggregate"], *backups}) == 3
    assert all(committed(ring, "r", at) == {"aggregate"} for at in backups)
    assert "peer-2" not in backups, "the application depends on its origin anyway"
    (deployed,) = ring.events("r", ReplicasDeployed)
    assert [each[:3] for each in deployed.streams] == [
        ("source", "filter", 3), ("filter", "aggregate", 3), ("aggregate", "sink", 1),
        ("aggregate", "backups of aggregate", 2),
    ]  # fmt: skip
    one, two, three = (plan.bandwidth(name) for name in ("source", "filter", "aggregate"))
    assert deployed.bandwidth == pytest.approx(3 * one + 3 * two + 3 * three)
    account = str(Explanation("r", ring.events("r"), {}))
    assert f"aggregate at {report.peers['aggregate']}, backups at {', '.join(backups)}" in account
    assert "filter to aggregate 3 streams" in account
    assert "2 fewer than required" not in account
    assert not ring.overbooked()


def test_between_two_groups_there_are_streams_from_each_replica_to_each() -> None:
    ring, plan = ring_of(7, 2), asked("active 3", "active 2")
    ring.submit("peer-0", "r", plan)
    assert ring.until_decided("r").status == "running"
    (deployed,) = ring.events("r", ReplicasDeployed)
    assert [each[2] for each in deployed.streams] == [3, 6, 2]
    assert {name: len(peers) for name, peers in deployed.replicas.items()} == {"filter": 3, "aggregate": 2}


def test_a_backup_takes_over_and_active_replicas_stay() -> None:
    ring = ring_of(7, 3)
    ring.submit("peer-0", "r", asked("active 2", "degree 2"))
    before = ring.until_decided("r").roles
    ring.run(2.0)
    ring.crash(before.peers["aggregate"])
    ring.run(10.0)
    assert ring.events("r", TakenOver)
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    roles = graph.roles
    assert roles.peers["aggregate"] == before.backups["aggregate"][0]
    assert any(roles.peers[name] for name in ("filter", "filter~1"))
    assert "its backup took over from" in str(Explanation("r", ring.events("r"), {}))


def test_a_backup_that_no_peer_can_have_is_refused_by_name() -> None:
    ring = ring_of(2, 4)
    ring.submit("peer-0", "r", asked("active 2", "degree 3"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "operator aggregate: no peer for backup 2 of 2: 2 peers would execute it" in report.reason


def test_operators_with_different_numbers_of_backups_are_placed_by_the_protocol_of_chapter_4() -> None:
    ring = ring_of(6, 5)
    ring.submit("peer-0", "r", asked("degree 3", "degree 1"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert {name: len(peers) for name, peers in report.roles.backups.items()} == {"filter": 2}
    assert not ring.events("r", ReplicasDeployed)


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


def running(seed: int, plan: Plan, inputs: dict[str, pl.DataFrame]) -> ReplicaWorld:
    """A world with the plan, in which one peer has the primary and one of the replicas that it reads."""
    world = ReplicaWorld(seed, PEERS, Faults(delay=(0.0, 0.05)), 0.3)
    world.pace = 0.04
    where = {"s": SOURCES, "t": SOURCES, "x": "b", "x~1": "c", "p": "b", "y": "d", "y~1": "e", "out": SOURCES}
    expanded = replicated(plan, {name: each.active for name, each in degrees_of(plan).items()})
    world.deploy("app", expanded, where, inputs, backups={"p": ("f",)})
    return world


def between(make: Callable[[Stream, Stream], Stream]) -> Plan:
    """A plan with a passive operator between two with active replicas."""
    passive = make(packets("s", 1), packets("t", 2))
    return passive.filter("TRUE", id="y", availability="active 2").sink("out", id="out")


@pytest.mark.slow
@pytest.mark.parametrize("make", [one_input, union, join])
@pytest.mark.parametrize("seed", [0, 2])
def test_a_backup_repeats_its_primary_although_a_stream_that_it_had_read_died_with_it(
    make: Callable[[Stream, Stream], Stream], seed: int
) -> None:
    rng = random.Random(seed)
    plan, inputs = between(make), {name: table(rng) for name in "st"}
    world = running(seed, plan, inputs)
    world.run(rng.uniform(0.2, 1.2))
    world.crash("b")
    world.run(40.0)
    results = world.results["app", "out"]
    assert results.ended, world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert not world.failures()


def readers(availability: str) -> Plan:
    """A plan in which ``p`` reads active replicas."""
    kept = packets("s", 1).filter("bytes > 50", id="x", availability="active 2")
    return kept.union(packets("t", 2), id="p", availability=availability).sink("out", id="out")


def placed(
    plan: Plan,
    inputs: dict[str, pl.DataFrame],
    seed: int,
    kind: type[ReplicaWorld] = ReplicaWorld,
    faults: Faults | None = None,
) -> ReplicaWorld:
    """A world with the plan, each replica at a peer of its own."""
    world = kind(seed, PEERS, faults or Faults(delay=(0.0, 0.05)), 0.3)
    world.pace = 0.04
    where = {"s": SOURCES, "t": SOURCES, "x": "b", "x~1": "c", "p": "f", "p~1": "h", "out": SOURCES}
    expanded = replicated(plan, {name: each.active for name, each in degrees_of(plan).items()})
    world.deploy("app", expanded, {name: where[name] for name in expanded.operators}, inputs)
    return world


@pytest.mark.parametrize("availability", ["degree 1", "active 2"])
@pytest.mark.parametrize(("seed", "at", "died"), [(8, 0.21, 0.3), (14, 0.35, 0.44), (21, 0.45, 0.52)])
def test_a_component_moves_on_although_a_replica_that_it_reads_dies_meanwhile(
    availability: str, seed: int, at: float, died: float
) -> None:
    plan, inputs = readers(availability), {name: table(random.Random(seed + n)) for n, name in enumerate("st")}
    world = placed(plan, inputs, seed)
    world.run(at)
    world.move("app", "p", "g", 0.0)
    world.run(died - at)
    world.crash("b")
    world.run(8.0)
    results, here = world.results["app", "out"], world.nodes["g"].hosting.components["app", "p"]
    assert results.ended, world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert here.role is Role.ACTIVE
    assert here.log.end.until == END, "it has read all, too"
    assert not here.alignment.holds, "it waits for promises no longer than it moves"


class Untold(ReplicaWorld):
    """A world in which no old peer of a component can tell how far its output went."""

    def _send(self, peer: str, to: str, frame: Any) -> None:
        if not isinstance(frame, LastOrder):
            super()._send(peer, to, frame)


@pytest.mark.slow
@pytest.mark.parametrize("availability", ["degree 1", "active 2"])
@pytest.mark.parametrize("dies", [False, True], ids=["the frame is lost", "the old peer dies"])
def test_a_component_that_nobody_tells_how_far_it_repeats_asks_and_waits_for_promises_no_longer(
    availability: str, dies: bool
) -> None:
    plan, inputs = readers(availability), {name: table(random.Random(n), 400) for n, name in enumerate("st")}
    world = placed(plan, inputs, 5, Untold)
    world.run(0.3)
    world.move("app", "p", "g", 0.0)
    while world.nodes["g"].hosting.deployments["app"].assignments["p"].active != "g":
        world.run(0.01)
    here = world.nodes["g"].hosting.components["app", "p"]
    held = [here.alignment.holds]
    if dies:
        world.crash("f")
    world.run(LAST_ORDER_S + 1.0)
    results = world.results["app", "out"]
    assert not results.ended
    assert [*held, here.alignment.holds] == [True, False], "it knows how far others have received what it repeats"
    world.run(40.0)
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)


class LateState(ReplicaWorld):
    """A world in which a state is restored late, and an old peer is slow to tell in which order it has read."""

    restoring = 0.0  # seconds that it takes to restore a state
    telling = 0.0  # additional seconds until a new peer hears the order

    def _restore(self, peer: str, restore: Restore) -> None:
        self.after(self.restoring, super()._restore, peer, restore)

    def _send(self, peer: str, to: str, frame: Any) -> None:
        self.after(self.telling if isinstance(frame, LastOrder) else 0.0, super()._send, peer, to, frame)


@pytest.fixture
def in_turn() -> Iterator[None]:
    """An operator with two inputs whose replicas have to sort them, as a user may declare one."""
    merges = declared.DECLARED["union"]
    declared.declare(msgspec.structs.replace(merges, kind="in_turn", agrees="", needs_order="reads each by turns"))
    implements("in_turn")(base.REGISTRY["union"])
    yield
    del declared.DECLARED["in_turn"], base.REGISTRY["in_turn"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize(("restoring", "telling"), [(1.3, 0.1), (2.0, 0.4)])
def test_a_moved_replica_is_replaced_by_one_whose_state_is_restored_only_once_it_is_active(
    restoring: float, telling: float
) -> None:
    """It waited for an order that nobody had recorded: the old peer read aligned for the move. Or stayed aligned."""
    union = packets("s", 1).operator("in_turn", packets("t", 2), id="p", availability="active 2")
    plan, inputs = union.sink("out", id="out"), {name: table(random.Random(n)) for n, name in enumerate("st")}
    world = placed(plan, inputs, 1, LateState)
    assert isinstance(world, LateState)
    world.restoring, world.telling = restoring, telling
    world.run(0.1)
    world.move("app", "p", "g", 0.0)
    world.run(0.5)
    world.crash("h")
    world.run(6.0)
    results, here = world.results["app", "out"], world.nodes["g"].hosting.components["app", "p"]
    assert results.ended, world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert here.role is Role.ACTIVE
    assert not here.alignment.endless, "it knows how long it has to wait for promises"


class Deaf(ReplicaWorld):
    """A world in which one peer does not hear that a move to it was given up."""

    unheard = -1  # version of the deployment that it does not receive

    def _converge(self, peer: str, deployment: Deployment) -> None:
        if (peer, deployment.version) != ("g", self.unheard):
            super()._converge(peer, deployment)


@pytest.mark.slow
@pytest.mark.parametrize("died", [False, True], ids=["all live", "a stream dies"])
@pytest.mark.parametrize("seed", [0, 4, 5, 9, 10])
def test_a_follower_that_has_not_heard_that_its_move_was_given_up_follows_the_next_one_anew(
    seed: int, died: bool
) -> None:
    """Meanwhile the component reads a chunk as it arrives: the follower would emit other tuples at its positions.

    The component records that order for the follower, which does not get the chunk: the link is cut, and if the stream
    dies, nobody sends the chunk any more. A follower that obeys the order stands still for ever.
    """
    plan, inputs = readers("degree 1"), {name: table(random.Random(seed + n)) for n, name in enumerate("st")}
    world = placed(plan, inputs, seed, Deaf, Faults(delay=(0.0, 0.02), deployment=0.002, capture=0.001))
    assert isinstance(world, Deaf)
    world.pace, world.service = 0.3, 0.003
    world.run(0.9)
    there, follower = world.nodes["f"].hosting.components["app", "p"], world.nodes["g"].hosting
    while there.running or any(port.queue for port in there.ports.values()):
        world.run(0.001)
    world.cut("g", "b", 2.0)
    world.move("app", "p", "g", 100.0)
    while ("app", "p") not in follower.components:
        world.run(0.001)
    assert not there.running, "it has read nothing since its snapshot"
    world.unheard = world.deployments["app"].version + 1
    known = world.deployments["app"].assignments
    world.change("app", {**known, "p": msgspec.structs.replace(known["p"], follower="")})
    while not any(component.running for component in (there,)):
        world.run(0.0005)
    world.move("app", "p", "g", 0.0)
    world.run(0.03)
    assert follower.deployments["app"].version == world.unheard + 1
    if died:
        world.crash("b")
    world.run(60.0)
    results = world.results["app", "out"]
    assert results.ended, world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert world.deployments["app"].assignments["p"].active == "g"


def test_a_follower_starts_from_no_snapshot_that_was_begun_before_it_was_known() -> None:
    world = placed(readers("degree 1"), {name: table(random.Random(1)) for name in "st"}, 1)
    world.run(0.3)
    reader = world.nodes["f"].hosting.components["app", "p"]
    reader.set_copy_holders(Assignment("x", backups=("g",)))
    reader.capture()
    reader.set_copy_holders(Assignment("x", backups=("g",), follower="h"))
    assert not reader.alignment.suits("h", reader.cuts.number)
    assert reader.alignment.suits("g", reader.cuts.number)
    reader.capture()
    assert reader.alignment.suits("h", reader.cuts.number)
    assert reader.alignment.holds


class Recorded:
    """An operator that records what it is given: port, times or promise, position."""

    def __init__(self) -> None:
        self.given: list[tuple[int, object, int]] = []

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        times = item.table["time"].to_physical().to_list() if isinstance(item, Batch) else item.time
        self.given.append((port, times, item.position))
        return iter(())


def test_an_operator_reads_on_where_it_was_when_alignment_begins_and_ends() -> None:
    operator: Any = Recorded()
    merged = MergedLogic(operator, {0: 0, 1: 0, 2: 1}, [(), ()])

    def given(port: int, item: Item) -> list[tuple[int, object, int]]:
        operator.given.clear()
        assert not list(merged.execute(port, item))
        return list(operator.given)

    assert given(0, batch([1, 5], "x")) == [(0, [1, 5], 0)]
    assert given(0, Punctuation(3, 2, 0.0)) == [(0, 3, 2)]
    merged.align()
    assert not given(2, batch([7, 2], "y"))
    assert not given(0, batch([6], "x", 2))
    assert given(2, Punctuation(4, 2, 0.0)) == [(1, [2], 0), (1, 3, 1)]
    assert given(0, Punctuation(8, 3, 0.0)) == [(0, 4, 2), (1, 4, 1)]
    merged.relax()
    assert given(2, batch([9], "y", 2)) == [(0, [6], 2), (1, [7], 1), (0, 8, 3), (1, [9], 2)]
    assert not merged.aligned


@pytest.mark.slow
def test_a_reader_needs_other_streams_until_its_copies_have_a_snapshot_without_them() -> None:
    world = running(1, between(one_input), {name: table(random.Random(1)) for name in "st"})
    world.run(0.3)
    passive, active = (world.nodes[peer].hosting.components["app", name] for peer, name in (("b", "p"), ("d", "y")))
    reports = InputReports({("app", "p"): passive, ("app", "y"): active})
    for each in passive, active:
        reports.note(each, -1.0)

    def complete(now: float) -> dict[str, set[bool]]:
        (measured,) = reports.tick(now)
        return {of.operator: {each.complete for each in of.inputs.values()} for of in measured.components}

    assert complete(1.0) == {"p": {False}, "y": {True}}
    world.run(1.5)
    assert complete(3.0) == {"p": {True}, "y": {True}}
