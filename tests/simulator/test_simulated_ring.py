"""Peers that join and leave the ring of a simulation while an application runs, on the ring and in views."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from synergy_nb import Simulation, source, watch
from synergy_nb.events import PeerDeclaredDead, PeerJoined, PeerLeft
from synergy_nb.recording.moments import Replay
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.simulator.network import transit_stub
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets._stage_picture import state_at, svg

PACKETS: dict[str, Any] = {"seed": 1, "rate": "50 tuples/s", "id": "packets"}


@pytest.fixture(scope="module")
def changed() -> tuple[Simulation, SimulatedApplication, str]:
    """An application during which a peer joins, and the peer of its operator leaves; the latter is returned."""
    simulation = Simulation(4, network="local", cores=1, seed=3)
    simulation.kill("peer-4")
    simulation.run(5)
    packets = source("packets", duration="10 s", at="peer-1", **PACKETS)
    plan = packets.aggregate(by="source", window="1 s", total="sum(bytes)", id="sums", at="peer-2").sink()
    application = simulation.submit(plan, origin="peer-1")
    simulation.run(1)
    simulation.join("new", near="peer-1", cores=8)
    simulation.leave("peer-2")
    application.results()
    return simulation, application, "peer-2"


@pytest.fixture(scope="module")
def replay(changed: tuple[Simulation, SimulatedApplication, str]) -> Replay:
    return changed[1].replay()


@pytest.mark.slow
def test_an_application_goes_on_when_its_peer_leaves(changed: tuple[Simulation, SimulatedApplication, str]) -> None:
    simulation, application, gone = changed
    assert application.status == "finished"
    assert application.graph["sums"] not in (gone, "peer-4")
    whole = source("packets", duration="10 s", **PACKETS).aggregate(by="source", window="1 s", total="sum(bytes)")
    apart = Simulation(1, network="local", cores=1).submit(whole.sink()).results()
    assert application.results()["total"].sum() == apart["total"].sum()
    assert list(simulation.peers) == ["peer-1", "peer-3", "new"]
    assert [event.subject for event in simulation.events().of(PeerJoined)] == ["new"]
    assert [event.subject for event in simulation.events().of(PeerLeft)] == [gone]
    assert {event.subject for event in simulation.events().of(PeerDeclaredDead)} == {"peer-4"}
    assert all(each.membership.is_dead(gone) for each in simulation.world.synergy.values())


@pytest.mark.slow
def test_a_peer_that_joined_executes_operators(changed: tuple[Simulation, SimulatedApplication, str]) -> None:
    simulation = changed[0]
    heavy = source("packets", duration="1 s", **PACKETS).delay(cost="40 ms", id="work").sink()
    assert simulation.submit(heavy, origin="peer-3").graph["work"] == "new"


def test_the_stage_shows_who_is_in_the_ring(replay: Replay) -> None:
    ring = [moment for moment in replay.moments if moment.kind == "ring"]
    assert [(moment.title, moment.to) for moment in ring] == [("Peer joined", "new"), ("Peer left", "peer-2")]
    first, last = state_at(replay, 0), state_at(replay, len(replay.moments) - 1)
    assert (first[1], first[2]) == ({"peer-4"}, {"new"})
    assert (last[1], last[2]) == ({"peer-4"}, {"peer-2"})
    assert ">new" not in svg(replay, 0, "ring")
    assert ">new" in svg(replay, len(replay.moments) - 1, "ring")
    assert not {key.root for key in replay.keys} & {"new", "peer-4"}


def test_a_view_drops_a_peer_that_left(changed: tuple[Simulation, SimulatedApplication, str]) -> None:
    view = watch(changed[0])
    text = view.to_text()
    view.close()
    assert "Cluster of 4 peers" in text  # one of them is dead
    assert "\npeer-2" not in text


def test_a_topology_of_the_caller_stays_as_it_is() -> None:
    topology = transit_stub(["a", "b"], seed=1)
    simulation = Simulation(2, network=topology)
    simulation.join("c", near="a")
    assert topology.peers == ("a", "b")
    here = simulation.world.topology
    assert here.delay("c", "b") == here.delay("a", "b") > 0.0
    assert here.delay("c", "a") > 0.0
    assert here.cores["c"] == here.cores["a"]
    assert here.bandwidth("c", "b") == here.bandwidth("a", "b") < math.inf


def _joined_through_nobody(simulation: Simulation) -> None:
    simulation.suspend("peer-3")
    simulation.join("late", near="peer-3", timeout="2 s")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it: it.join("peer-2"), "peer: 'peer-2' is or was a peer of this simulation"),
        (lambda it: it.join(" "), "peer: ' '; expected the name of a peer"),
        (lambda it: it.join("x", near="peer-9"), "near: 'peer-9'; expected a peer of this simulation"),
        (lambda it: it.join("x", near="gone"), "near: 'gone' has left; expected a peer that lives"),
        (lambda it: it.join("x", cores=0), "cores: 0; expected a positive number"),
        (lambda it: it.join("x", timeout="soon"), "timeout: 'soon'; expected a duration"),
        (lambda it: it.leave("peer-9"), "peer: 'peer-9'; expected a peer"),
        (lambda it: it.leave("gone"), "peer: 'gone' has left"),
        (lambda it: it.leave("peer-1"), "peer: 'peer-1' is the origin of plan-1"),
        (lambda it: it.leave("peer-2"), "peer: 'peer-2' stays, as a component of it cannot move: plan-1: samples"),
        (_joined_through_nobody, "peer: 'late' did not join through peer-3 in 2 s"),
        (lambda it: it.leave("peer-3"), "peer: 'peer-3' is suspended; expected one that answers: resume it first"),
        (lambda it: Simulation(1).leave("peer-1"), "peer: 'peer-1' is the last one"),
    ],
)
def test_what_cannot_join_or_leave_is_refused_by_name(
    small: Simulation, act: Callable[[Simulation], Any], message: str
) -> None:
    with pytest.raises((ClusterError, ValueError)) as refused:
        act(small)
    assert message in str(refused.value)


@pytest.fixture(scope="module")
def small() -> Simulation:
    simulation = Simulation(3, network="local", cores=1)
    simulation.join("gone")
    simulation.leave("gone")
    simulation.submit(source("peers", interval="1 s", at="peer-2", id="samples").sink(), origin="peer-1")
    return simulation
