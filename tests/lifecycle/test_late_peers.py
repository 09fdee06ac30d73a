"""Peers that are late, not dead: a wrong verdict ends nothing while the process lives and answers within a minute."""

from __future__ import annotations

import random

import pytest

from synergy_nb import Simulation, source
from synergy_nb.events import ApplicationContinued, ApplicationPaused, MovePostponed, OriginSucceeded, SessionExpired
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.widgets._component_status import status
from synergy_nb.widgets._journal_series import JournalSeries
from tests.late_peers import OWN, Late
from tests.moving_schedules import PEERS
from tests.succession_world import AT, ORIGIN, SINK

PATIENCE = SessionConfig().patience
ROLES = {
    "origin with the sink": (OWN, ORIGIN),
    "origin": (AT, ORIGIN),
    "sink": (AT, SINK),
    "source": (AT, AT["s"]),
    "filter": (AT, AT["f"]),
    "aggregate": (AT, AT["x"]),
    "backup": (AT, "g"),
}


@pytest.mark.slow
@pytest.mark.parametrize("backups", [True, False], ids=["degree 2", "no backups"])
@pytest.mark.parametrize("seconds", [4.0, 20.0, 50.0])
@pytest.mark.parametrize("how", ["hang", "cut"])
@pytest.mark.parametrize("role", ROLES)
def test_a_late_peer_of_any_role_ends_nothing(role: str, how: str, seconds: float, backups: bool) -> None:
    at, peer = ROLES[role]
    run = Late(at, backups=backups)
    getattr(run, how)(peer, seconds)
    run.world.run(seconds + 1.0)
    assert run.declared(peer)
    run.ends()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_halves_of_a_divided_network_end_nothing(seed: int) -> None:
    rng = random.Random(seed)
    run = Late(rng.choice((OWN, AT)), backups=rng.random() < 0.5, seed=seed)
    group = set(rng.sample(PEERS, rng.randint(1, 7)))
    run.divide(group, rng.choice((5.0, 20.0, 50.0)))
    run.ends()


def test_an_application_says_for_whom_it_waits_and_that_it_continues() -> None:
    run = Late(AT, backups=False)
    world = run.world
    run.hang("d", 20.0)
    assert world.until(lambda: world.status("app") == "paused", 10.0)
    assert world.reports["app"][-1].reason == "waiting for peer d (f)"
    (paused,) = world.of(ApplicationPaused)
    assert (paused.awaited, paused.patience) == ({"d": ["f"]}, PATIENCE)
    account = Explanation("app", world.control.journal.about("app"), {})
    assert account.outcome == "paused: waiting for peer d (f)"
    readings = JournalSeries("app")
    readings.read(world.control.journal)
    assert status(readings, readings.run("app")) == ("paused", "waiting for peer d (f)")

    assert world.until(lambda: world.status("app") == "running", 30.0)
    (continued,) = world.of(ApplicationContinued)
    assert continued.awaited == {"d": ["f"]}
    account = Explanation("app", world.control.journal.about("app"), {})
    assert account.outcome == "running"
    assert "of waiting for peer d (f)" in str(account)
    readings.read(world.control.journal)
    assert status(readings, readings.run("app"))[0] == "running"
    run.ends()


def test_a_process_that_has_ended_is_not_waited_for() -> None:
    run = Late(AT, backups=False)
    began = run.world.now
    run.world.crash("d")
    assert run.world.until(lambda: run.world.status("app") == "failed", 10.0)
    assert run.world.reports["app"][-1].reason == "peer d died (f)"
    assert run.world.now - began < 4.0  # virtual seconds
    assert not run.world.of(ApplicationPaused)
    run.world.stop("app")
    run.world.settled()


def test_a_silent_process_that_ends_is_waited_for_no_more() -> None:
    run = Late(AT, backups=False)
    run.hang("d", 50.0)
    assert run.world.until(lambda: run.world.status("app") == "paused", 10.0)
    began = run.world.now
    run.world.crash("d")
    assert run.world.until(lambda: run.world.status("app") == "failed", 5.0)
    assert run.world.reports["app"][-1].reason == "peer d died (f)"
    assert run.world.now - began < 1.0  # virtual seconds


def test_the_reason_is_that_a_peer_is_silent_where_nobody_knows_more() -> None:
    run = Late(AT, backups=False)
    run.hang("d", 300.0)
    began = run.world.now
    assert run.world.until(lambda: run.world.status("app") == "failed", 100.0)
    assert run.world.reports["app"][-1].reason == "peer d has not answered for 60 s (f)"
    assert run.world.now - began > PATIENCE


def test_a_user_says_how_long_an_application_waits() -> None:
    with Simulation(3, network="local", patience="5 s") as simulation:
        plan = source("packets", rate="50 tuples/s", at="peer-2", speed=1).sink("out")
        application = simulation.submit(plan, origin="peer-1")
        simulation.suspend("peer-2")
        assert simulation.until(lambda: application.status == "paused", 10.0)
        assert simulation.until(lambda: application.status == "failed", 6.0)
        assert application.reason.endswith("peer-2 has not answered for 5 s (source)")
    with pytest.raises(ValueError, match=r"^patience: 'soon'; expected"):
        Simulation(3, patience="soon")


def test_a_silent_origin_is_waited_for_by_all_and_one_that_has_ended_by_nobody() -> None:
    run = Late(OWN, backups=True)
    run.hang(ORIGIN, 40.0)
    run.world.run(39.0)
    assert not run.world.of(SessionExpired)
    run.world.crash(ORIGIN)
    run.world.run(3.0)
    assert {each.peer for each in run.world.of(SessionExpired)} == {"c", "d", "e", "f", "g"}
    run.world.settled()


def test_a_peer_whose_components_others_have_taken_over_leaves_as_it_returns() -> None:
    run = Late(AT, backups=True)
    run.hang("d", 20.0)
    assert run.world.until(lambda: run.world.where("app")["f"] == "g", 10.0)
    assert ("app", "f") in run.world.nodes["d"].hosting.components
    run.world.run(20.0)
    assert ("app", "f") not in run.world.nodes["d"].hosting.components
    run.ends()


def test_a_successor_that_is_cut_off_does_not_lead() -> None:
    run = Late(AT, backups=False)
    run.cut(SINK, 30.0)
    run.world.run(25.0)
    assert run.world.leaders() == [ORIGIN]
    assert run.world.status("app") == "paused"
    run.ends()


def test_a_successor_with_all_others_leads_and_the_origin_hands_over() -> None:
    run = Late(AT, backups=False)
    run.cut(ORIGIN, 30.0)
    assert run.world.until(lambda: bool(run.world.of(OriginSucceeded)), 10.0)
    run.world.run(40.0)
    assert run.world.leaders() == [SINK]
    run.ends()


def test_a_paused_application_can_be_stopped() -> None:
    run = Late(AT, backups=False)
    run.hang("d", 20.0)
    assert run.world.until(lambda: run.world.status("app") == "paused", 10.0)
    run.world.stop("app")
    assert run.world.status("app") == "stopped"
    run.world.settled()


def test_a_move_that_a_user_commands_waits_for_the_end_of_a_pause() -> None:
    run = Late(AT, backups=False)
    world = run.world
    run.hang("d", 15.0)
    assert world.until(lambda: world.status("app") == "paused", 10.0)
    moved = world.move("app", "x", "h")
    (postponed,) = world.of(MovePostponed)
    assert postponed.reason == "it is waiting for peer d (f)"
    assert world.until(lambda: moved == [""], 20.0)
    run.ends()
