"""Limits on the answers of peers: lateness stretches them, and no request or change is lost because a peer hangs."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from synergy_nb import Plan, Simulation, source
from synergy_nb.control.peer import Peer
from synergy_nb.events import ApplicationFailed, ApplicationRunning, ReplicaRebuilt, RequestPostponed
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.overlay.answer_limits import MOST_RESTARTS, AnswerLimits
from synergy_nb.plan.derived.placement_modes import placement_of
from tests.late_peers import OWN, Late
from tests.rebuilding_run import Run as Replicas
from tests.succession_world import AT, ORIGIN


def limits(stretch: Callable[[Collection[str]], float]) -> tuple[Peer, AnswerLimits]:
    peer = Peer("me", 1)
    peer.start(0.0)
    return peer, AnswerLimits(peer, stretch)


# -- the limit ---------------------------------------------------------------------------------------------------------


def test_a_limit_is_as_long_as_the_lateness_that_is_known_at_its_end() -> None:
    late = {"b": 1.0, "c": 1.0}
    peer, answers = limits(lambda peers: max(late[each] for each in peers))
    over: list[str] = []
    answers.after(1.0, ("b",), over.append, "b")
    answers.after(1.0, ("b", "c"), over.append, "b or c")
    late["c"] = 4.0
    for now in (0.9, 1.0, 3.9):
        peer.tick(now)
    assert over == ["b"]
    peer.tick(4.0)
    assert over == ["b", "b or c"]


def test_a_peer_that_was_stopped_waits_once_more() -> None:
    peer, answers = limits(lambda _peers: 1.0)
    over: list[str] = []
    answers.after(1.0, ("b",), over.append, "b")
    peer.tick(20.0)
    assert over == []
    peer.tick(21.0)
    assert over == ["b"]


def test_a_peer_that_is_stopped_again_and_again_gives_up_in_the_end() -> None:
    peer, answers = limits(lambda _peers: 1.0)
    over: list[str] = []
    answers.after(1.0, ("b",), over.append, "b")
    for now in range(1, MOST_RESTARTS + 2):
        assert over == []
        peer.tick(20.0 * now)
    assert over == ["b"]


def test_a_cancelled_limit_does_nothing() -> None:
    peer, answers = limits(lambda _peers: 2.0)
    over: list[str] = []
    limit = answers.after(1.0, ("b",), over.append, "b")
    peer.tick(1.0)
    limit.cancel()
    assert peer.next_timer is None
    peer.tick(2.0)
    assert over == []


# -- set-up and placement ----------------------------------------------------------------------------------------------


def query(availability: str | None = None) -> Plan:
    packets = source("packets", rate="50 tuples/s", duration="3 s", seed=3, id="packets", at="peer-2", speed=1)
    totals = packets.filter("bytes > 100", id="large").aggregate("source", "500 ms", total="sum(bytes)", id="by")
    return totals.sink("out", id="out", at="peer-4", availability=availability)


class Submission:
    """A query that is submitted at peer-1, and a peer that hangs from some time before or after that on."""

    def __init__(self, hanging: str, seconds: float, after: float, availability: str | None = None) -> None:
        self.simulation = simulation = Simulation(6, network="local", seed=1)
        self.world = world = simulation.world
        simulation.run(5.0)
        plan = query(availability)
        if after < 0.0:
            world.hang(hanging, seconds)
            simulation.run(-after)
        self.began = world.now
        world.submit("q", plan, "peer-1", {}, placement_of(plan, "composed", spread=False, peers=6), 1)
        if after >= 0.0:
            simulation.run(after)
            world.hang(hanging, seconds)

    def status(self, *wanted: str, seconds: float = 90.0) -> str:
        """Advance until the status is one of these, and return it."""
        self.simulation.until(lambda: self.world.status("q") in wanted, seconds)
        return self.world.status("q")

    def held(self) -> list[str]:
        """Peers that hold something of a request or an application."""
        peers = self.world.synergy.items()
        return [name for name, each in peers if each.ledger.requests or each.session.applications or each.session.led]

    def released(self) -> None:
        self.world.stop("q")
        self.simulation.run(80.0)
        assert self.held() == []


HANGING = [
    (None, "peer-1", -4.0),
    (None, "peer-2", 0.001),
    (None, "peer-4", 0.001),
    (None, "peer-4", -4.0),
    ("degree 2", "peer-1", 0.05),
    ("degree 2", "peer-2", 0.001),
    ("degree 2", "peer-4", -4.0),
    ("active 2", "peer-1", 0.001),
    ("active 2", "peer-2", -4.0),
    ("active 2", "peer-4", 0.05),
]


@pytest.mark.slow
@pytest.mark.parametrize(("availability", "peer", "after"), HANGING)
def test_a_peer_that_hangs_while_a_plan_is_placed_delays_it(availability: str | None, peer: str, after: float) -> None:
    """Peer 1 is the origin, peer 2 has the source, and peer 4 the sink."""
    run = Submission(peer, 20.0, after, availability)
    assert run.status("finished", "rejected", "failed") == "finished", run.world.reports["q"][-1].reason
    run.released()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, 50.0])
def test_a_request_waits_for_the_peer_of_its_source(seconds: float) -> None:
    run = Submission("peer-2", seconds, -1.0)
    assert run.status("running") == "running"
    waited = run.world.now - run.began
    assert seconds - 1.0 < waited < seconds + 5.0  # virtual seconds
    reasons = [each.reason for each in run.simulation.events("q") if isinstance(each, RequestPostponed)]
    assert "packets: no component offers 'source:packets' at 'peer-2'" in reasons or seconds < 10.0
    assert reasons
    run.released()


def test_a_request_is_rejected_when_a_peer_was_silent_for_too_long() -> None:
    run = Submission("peer-2", 300.0, 0.001)
    assert run.status("rejected", "running") == "rejected"
    assert SessionConfig().patience <= run.world.now - run.began < SessionConfig().patience + 5.0
    assert "peer-2" in run.world.reports["q"][-1].reason
    run.simulation.run(20.0)
    assert run.held() == []


def test_a_request_is_rejected_at_once_if_nobody_is_silent() -> None:
    run = Submission("peer-2", 0.0, -1.0)
    run.world.crash("peer-2")
    run.simulation.run(5.0)
    plan, began = query(), run.world.now
    run.world.submit("r", plan, "peer-1", {}, placement_of(plan, "composed", spread=False, peers=6), 2)
    assert run.simulation.until(lambda: run.world.status("r") == "rejected", 10.0)
    assert run.world.now - began < 1.0


# -- moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, 20.0, 50.0])
@pytest.mark.parametrize("role", ["old", "new", "origin", "upstream"])
def test_a_peer_that_hangs_during_a_move_ends_nothing(role: str, seconds: float) -> None:
    at = OWN if seconds == 20.0 else AT
    run = Late(at, backups=seconds != 20.0)
    world = run.world
    began = world.now
    outcome = world.move("app", "x", "h")
    world.run(0.03)
    run.hang({"old": at["x"], "new": "h", "origin": ORIGIN, "upstream": at["f"]}[role], seconds)
    assert world.until(lambda: bool(outcome), 90.0), "the move neither ended nor was given up"
    world.run(max(0.0, began + seconds + 2.0 - world.now))
    run.ends()
    assert len(world.of(ApplicationRunning)) == 1


# -- rebuilds ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, 20.0])
@pytest.mark.parametrize("role", ["source", "new", "origin"])
def test_a_peer_that_hangs_during_a_rebuild_ends_nothing(role: str, seconds: float) -> None:
    """The first stream of the rebuilt replica is not complete at its readers yet, and the last whole one is silent."""
    run = Replicas()
    world = run.world
    world.crash("b")
    source_peer, new_peer = run.begins()
    world.run(0.1)
    world.hang({"source": source_peer, "new": new_peer, "origin": "a"}[role], seconds)
    run.ends()
    assert not run.of(ApplicationFailed)
    assert len(run.of(ReplicaRebuilt)) >= 1
    world.stop("app")
    world.run(max(20.0, seconds))
    held = [name for name, each in world.synergy.items() if each.ledger.requests or each.session.applications]
    assert held == []
