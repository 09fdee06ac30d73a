"""Succession with all that an origin does: rebuilds, placement, agreements; and as clients see it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, Plan, Simulation, source
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents, StopApplication
from synergy_nb.control.roles import Roles
from synergy_nb.events import BackupRestored, Event, OriginSucceeded, ReplicaRebuilt, ReplicasLeft, SessionExpired
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.plan import plan as joined
from synergy_nb.plan.derived.active_replicas import degrees_of, replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.runtime.client._led_application import SUCCEEDS
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import ApplicationState, PeerUnreachable, pack
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.lifecycle.mixed_backups import chapter_4, mixed
from tests.moving_schedules import table
from tests.replica_schedules import ideal
from tests.simulated import Ring

E = TypeVar("E", bound=Event)


# -- rebuilds ----------------------------------------------------------------------------------------------------------


def prepared(graph: Graph) -> bool:
    return bool(graph.roles.rebuilds)


def executes(graph: Graph) -> bool:
    return any(graph.roles.peers[replica] for replica in graph.roles.rebuilds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "lost", "phase"),
    [(chapter_4, "c", prepared), (mixed, "e", executes)],
)
def test_a_rebuild_of_an_origin_that_dies_is_made_good(
    make: Callable[[], Plan], lost: str, phase: Callable[[Graph], bool]
) -> None:
    own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
    world = PeerWorld(1, tuple("abcdefgho"), Faults(delay=(0.002, 0.02)), config=own)
    for peer in "bcdefgh":
        world.control.report(peer, OfferComponents())
    world.run(2.0)
    world.pace = 0.8
    plan, rng = make(), random.Random(1)
    inputs = {name: table(rng, 200) for name in plan.sources}
    expanded = replicated(plan, {name: each.active for name, each in degrees_of(plan).items()})
    where = dict.fromkeys(expanded.operators, "a") | {"u": "b", "x": "c"} | {"f": "e", "f~1": "f"}
    where = {name: where[name] for name in expanded.operators}
    world.deploy("app", expanded, where, inputs, backups={"u": ("d",), "x": ("d",)}, origin="o")
    assert world.until(lambda: world.status("app") == "running")
    world.run(1.0)
    world.crash(lost)
    assert world.until(lambda: phase(world.graph("app")), 60.0)
    world.crash("o")
    journal = world.control.journal

    def of(kind: type[E]) -> list[E]:
        return [each for each in journal.about("app") if isinstance(each, kind)]

    def restored() -> bool:
        return bool(of(OriginSucceeded)) and len(of(BackupRestored)) + len(of(ReplicaRebuilt)) == 1

    assert world.until(restored, 60.0)
    assert world.synergy["a"].session.rebuilds.settled("app")
    graph = world.graph("app")
    assert not graph.roles.rebuilds
    assert all(graph.roles.peers.values())
    world.crash(graph.roles.peers["f~1" if lost == "e" else "x"])  # the other one
    results = world.results["app", "out"]
    assert world.until(lambda: results.ended, 900.0), world.failures()
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
    assert world.status("app") == "running"


# -- composed applications ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("availability", "agreed"), [(None, True), ("degree 2", False), ("active 2", False)])
def test_peers_hold_what_they_have_committed_under_a_successor(availability: str | None, *, agreed: bool) -> None:
    def config(number: int) -> PeerConfig:
        return PeerConfig(name=f"peer-{number}", seed=number, composition=CompositionConfig(agreed=agreed))

    ring = Ring(8, seed=3, codec=True, config=config)
    stream = source("packets", rate=100.0, at="peer-1", id="s").filter("bytes > 0", cost="1 ms", id="f")
    plan = stream.filter("bytes > 1", cost="1 ms", id="g").sink(
        id="out", at="peer-2", delay="3 s", availability=availability
    )
    ring.submit("peer-0", "r", plan)
    assert ring.until_decided("r").status == "running"
    ring.run(2.0)
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    assert (graph.roles.peers["out"], graph.successor) == ("peer-2", "peer-2")
    held = {address: each.ledger.load for address, each in ring.synergy.items() if address != "peer-0"}
    account = ring.synergy["peer-0"].session.agreements.delay("r")
    ring.crash("peer-0")
    ring.run(60.0)  # leases of sessions, and of placements, would be over
    now = ring.synergy["peer-2"].session.graph("r")
    assert now is not None
    assert (now.origin, now.roles) == ("peer-2", graph.roles)
    assert {address: each.ledger.load for address, each in ring.synergy.items()} == pytest.approx(held)
    assert ring.synergy["peer-2"].session.agreements.delay("r") == pytest.approx(account)
    assert not ring.events("r", ReplicasLeft)
    assert not ring.events("r", SessionExpired)
    assert not ring.overbooked()
    ring.simulation.report("peer-2", StopApplication("r"))
    ring.run(15.0)
    assert ring.status("r") == "stopped"
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())


# -- clients -----------------------------------------------------------------------------------------------------------


def query(duration: str = "8 s", speed: float = 1.0) -> Plan:
    packets = source("packets", rate="500 tuples/s", duration=duration, speed=speed, seed=3, id="packets", at="peer-3")
    totals = packets.filter("bytes > 100", id="large").aggregate("source", "500 ms", total="sum(bytes)", id="by")
    return totals.sink("out", id="out", at="peer-2")


@pytest.mark.slow
def test_a_simulation_follows_the_peer_that_leads() -> None:
    with Simulation(6) as simulation:
        undisturbed = simulation.submit(query(), origin="peer-2").results()
        application = simulation.submit(query(), origin="peer-1")
        assert (application.origin, application.graph["out"]) == ("peer-1", "peer-2")
        simulation.run(2.0)
        simulation.kill("peer-1")
        assert application.status == "running"
        assert application.results().equals(undisturbed)
        assert (application.origin, application.status) == ("peer-2", "finished")
        assert "led on: by peer-2, as its origin peer-1 died" in str(application.explain())
        assert application.qos()["tuples"] == undisturbed.height


@pytest.mark.slow
def test_sinks_of_a_plan_may_be_at_several_peers() -> None:
    packets = source("packets", rate="500 tuples/s", duration="2 s", seed=3, id="packets", at="peer-3")
    one = packets.filter("bytes > 100", id="large").sink("one", id="one", at="peer-2")
    both = joined(one, packets.sink("two", id="two", at="peer-4"))
    with Simulation(6) as simulation:
        application = simulation.submit(both, origin="peer-1")
        assert (application.graph["one"], application.graph["two"]) == ("peer-2", "peer-4")
        assert application.results("two").filter(pl.col("bytes") > 100).equals(application.results("one"))
        assert application.wait() == "finished"
        simulation.run(5.0)
        assert not any(each.session.applications for each in simulation.world.synergy.values()), "results were fetched"


@pytest.mark.slow
def test_live_clients_find_the_peer_that_leads_after_the_origin_was_killed() -> None:
    with Cluster(5, cores=1.0, spark=False) as cluster:
        undisturbed = cluster.submit(query("2 min", speed=0.0), origin="peer-2").results()
        application = cluster.submit(query("2 min"), origin="peer-1")
        assert (application.origin, application.graph["out"]) == ("peer-1", "peer-2")
        for operator, peer in dict(application.graph).items():
            if peer == "peer-1":  # what dies with it has no copy
                cluster.move(application, operator, "peer-3")
        application.head(20)
        cluster.kill("peer-1")
        assert application.status == "running", application.reason
        assert application.origin == "peer-2"
        assert cluster.applications[application.id].status == "running"
        assert "led on: by peer-2, as its origin peer-1 died" in str(application.explain())
        target = "peer-5" if application.graph["by"] == "peer-4" else "peer-4"
        cluster.move(application, "by", target)
        assert application.graph["by"] == target
        cluster.pace(application, "packets", 1000)  # the rest comes at once
        assert application.results().equals(undisturbed), "nothing is lost, nothing comes twice"
        assert application.wait() == "finished"


class _Silent(AsyncCluster):
    """A cluster whose peers do not say who leads an application, or that it is the peer ``b``."""

    def __init__(self, *, led: bool) -> None:
        self._names = {"a": "peer-1", "b": "peer-2"}
        self._led = led

    async def leader(self, application: str, without: str, seconds: float) -> tuple[str, ApplicationState] | None:
        assert (without, seconds) == ("a", SUCCEEDS)
        return ("b", ApplicationState(application, "running")) if self._led else None


def test_a_submission_whose_origin_dies_before_it_runs_fails_by_name() -> None:
    error = PeerUnreachable("peer-1 does not answer: its process has ended")
    with pytest.raises(PeerUnreachable, match=r"out: peer-1 does not answer.*; it had not run yet: submit it again"):
        asyncio.run(_Silent(led=False)._led_on(query(), "out-1", "a", error))
    found = asyncio.run(_Silent(led=True)._led_on(query(), "out-1", "a", error))
    assert found == ("b", ApplicationState("out-1", "running"))


class _Forgetful:
    """A cluster whose origin ``a`` remembers a finished application that the peer of its sink has forgotten."""

    def name(self, address: str) -> str:
        return address

    async def request_while_alive(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        if (peer, operation) == ("a", "application"):
            return pack(ApplicationState("out-1", "finished", roles=Roles({"out": "b"})))
        raise ClusterError(f"peer {peer}: {operation}: unknown application")

    request = request_while_alive


def test_results_that_another_client_has_collected_at_the_peer_of_a_sink_are_gone_by_name() -> None:
    state = ApplicationState("out-1", "running", roles=Roles({"out": "b"}))
    application = AsyncApplication(_Forgetful(), query(), "a", state)  # type: ignore[arg-type]  # what it asks is there
    with pytest.raises(ClusterError, match="its results have been discarded: another handle"):
        asyncio.run(application._fetch_once("out", 1.0))
