"""Copies that could not take over: the origin receives and reports this, and prefers other copies."""

from __future__ import annotations

import random

import pytest

from synergy_nb.dataflow.deployments import Role
from synergy_nb.events import CopiesBehind
from synergy_nb.lifecycle.records.messages import CopiesLag
from synergy_nb.reporting.explanation import Explanation
from tests.lifecycle.backed_chain import at, established, stopped
from tests.moving import Movers, lost, move, roles, running, where
from tests.simulated import Ring

WHY = "it did not answer for long, and has no snapshot since"


def say(ring: Ring, address: str, operator: str, *peers: str) -> None:
    """The driver of a component's peer says which of its copies could not go on."""
    copies = ring.synergy[address].session.copies
    ring.simulation.call(address, copies.behind, "r", operator, dict.fromkeys(peers, WHY))


def unfit(ring: Ring, operator: str = "o0") -> dict[str, str]:
    """What the origin knows of the copies of an operator."""
    return ring.synergy["peer-0"].session.copies.cannot_take_over("r", operator)


def test_a_backup_that_lags_does_not_take_over_if_there_is_another() -> None:
    ring = Ring(6, seed=1, codec=True)
    assert established(ring) == [""]
    say(ring, "peer-2", "o0", "peer-3")
    ring.run(1.0)
    assert unfit(ring) == {"peer-3": WHY}
    ring.crash("peer-2")
    ring.run(8.0)
    assert at(ring)["o0"] == "peer-4"
    assert at(ring)["o1"] == "peer-3", "which could not take over o0 alone"
    assert unfit(ring) == {}, "who said so is no more"
    stopped(ring)


def test_a_lagging_backup_takes_over_if_there_is_no_other() -> None:
    """Its driver knows whether it can."""
    ring = Ring(6, seed=1)
    assert established(ring, {"o0": ("peer-3",), "o1": ("peer-3",)}) == [""]
    say(ring, "peer-2", "o0", "peer-3")
    ring.run(1.0)
    ring.crash("peer-2")
    ring.run(8.0)
    assert at(ring)["o0"] == "peer-3"
    stopped(ring)


def test_the_number_of_usable_replicas_is_recorded_and_their_recovery() -> None:
    ring = Ring(6, seed=1)
    assert established(ring) == [""]
    say(ring, "peer-2", "o0", "peer-3", "peer-4")
    ring.run(1.0)
    say(ring, "peer-2", "o0", "peer-4")
    ring.run(1.0)
    say(ring, "peer-2", "o0")
    ring.run(1.0)
    events = ring.events("r", CopiesBehind)
    assert [(each.degree, each.left) for each in events] == [(3, 1), (3, 2), (3, 3)]
    assert [sorted(each.peers) for each in events] == [["peer-3", "peer-4"], ["peer-4"], []]
    known = ring.events("r")
    told = [
        Explanation("r", [each for each in known if each.time <= event.time], {"peer-3": "three"}) for event in events
    ]
    assert [each.behind["o0"].keys() for each in told] == [{"three", "peer-4"}, {"peer-4"}, set()]
    assert f"peer-4 could not take o0 over: {WHY}" in str(told[0])
    assert "could not" not in str(told[2])
    stopped(ring)


def test_a_backup_that_discovers_that_it_cannot_continue_harms_nobody() -> None:
    ring = Ring(6, seed=1)
    assert established(ring) == [""]
    copies = ring.synergy["peer-3"].session.copies
    ring.simulation.call("peer-3", copies.failed, "r", "o0", "its Spark is elsewhere")
    ring.run(1.0)
    assert ring.status("r") == "running"
    assert unfit(ring) == {"peer-3": "its Spark is elsewhere"}
    ring.simulation.call("peer-3", copies.ready, "r", "o0")
    ring.run(1.0)
    assert unfit(ring) == {}
    stopped(ring)


def test_a_move_ends_if_its_follower_discovers_that_it_cannot_continue() -> None:
    ring = Movers(6, seed=6, takes=1e6)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    ring.simulation.call("peer-4", ring.synergy["peer-4"].session.copies.failed, "r", "o0", "its Spark is elsewhere")
    ring.run(3.0)
    assert outcome == ["o0 at peer-4: its Spark is elsewhere"]
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE}


def test_a_lagging_follower_does_not_become_the_primary_before_it_has_caught_up() -> None:
    ring = Movers(6, seed=6, takes=1.0)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    say(ring, "peer-2", "o0", "peer-4")
    ring.run(3.0)
    assert outcome == []
    say(ring, "peer-2", "o0")
    ring.run(2.0)
    assert outcome == [""]
    assert where(ring)["o0"] == "peer-4"


def test_lost_reports_are_repeated_and_late_ones_ignored() -> None:
    ring = Ring(6, seed=1)
    assert established(ring) == [""]
    with lost(ring, CopiesLag):
        say(ring, "peer-2", "o0", "peer-3")
        ring.run(0.5)
    assert unfit(ring) == {}
    ring.run(1.0)
    assert unfit(ring) == {"peer-3": WHY}
    origin = ring.synergy["peer-0"].session.copies
    messages = [CopiesLag("r", 1, "o0", number, {}) for number in (0, 1)]
    for message in [
        *messages,
        CopiesLag("r", 2, "o0", 9, {}),
        CopiesLag("r", 1, "x", 9, {}),
        CopiesLag("y", 1, "o0", 9, {}),
    ]:
        ring.simulation.call("peer-0", origin.handlers[CopiesLag], "peer-2", message)
    ring.simulation.call(
        "peer-0", origin.handlers[CopiesLag], "peer-5", CopiesLag("r", 1, "o0", 9, {"peer-4": "so says he"})
    )
    assert unfit(ring) == {"peer-3": WHY}
    stopped(ring)


@pytest.mark.parametrize("seed", range(10))
def test_the_report_with_the_highest_number_counts_in_any_order_of_arrival(seed: int) -> None:
    ring = Ring(6, seed=seed)
    assert established(ring) == [""]
    simulation, rng = ring.simulation, random.Random(seed)
    simulation.loss, simulation.duplication, simulation.reordering = 0.1, 0.2, 0.5
    for _ in range(6):
        say(ring, "peer-2", "o0", *rng.sample(["peer-3", "peer-4"], rng.randint(0, 2)))
        ring.run(rng.uniform(0.0, 0.5))
    simulation.loss = 0.0
    say(ring, "peer-2", "o0", "peer-3")
    ring.run(8.0)
    assert unfit(ring) == {"peer-3": WHY}
