"""Commands to move a component while the graph of its application changes already: they wait for the end of that."""

from __future__ import annotations

import pytest

from synergy_nb.control.driver_messages import MoveComponent, StopApplication
from synergy_nb.events import ComponentMoved, MovePostponed
from synergy_nb.events.application_states import State
from synergy_nb.reporting.explanation import Explanation
from tests.moving import PEERS, Movers, move, running, stopped, where
from tests.simulated import Ring


def command(ring: Ring, operator: str, to: str) -> list[str]:
    """Have a user ask for a move; what comes of it will be in the list."""
    outcome: list[str] = []
    ring.simulation.call("peer-0", ring.synergy["peer-0"].session.moves.command, "r", operator, to, outcome.append)
    return outcome


def moves(ring: Ring) -> list[tuple[str, str]]:
    """Components that have moved, and where to, in this order."""
    return [(event.operator, event.to) for event in ring.events("r", ComponentMoved)]


def test_commands_wait_for_the_present_move_and_are_carried_out_in_order() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    begun = move(ring, "o0", "peer-4")
    waiting = [command(ring, "o1", "peer-5"), command(ring, "o0", "peer-5")]
    ring.run(0.3)
    assert [begun, *waiting] == [[], [], []]
    ring.run(5.0)
    assert [begun, *waiting] == [[""], [""], [""]]
    assert moves(ring) == [("o0", "peer-4"), ("o1", "peer-5"), ("o0", "peer-5")]
    assert where(ring) == PEERS | {"o0": "peer-5", "o1": "peer-5"}
    assert [event.reason for event in ring.events("r", MovePostponed)] == ["o0 is moving to peer-4"] * 2
    told = Explanation("r", ring.events("r"), {}).moves
    assert told[0] == "o1 waited before it moved to peer-5: o0 is moving to peer-4"
    stopped(ring)


def test_a_component_that_goes_where_the_user_wants_it_moves_once() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    begun, wanted = move(ring, "o0", "peer-4"), command(ring, "o0", "peer-4")
    ring.run(3.0)
    assert begun == wanted == [""]
    assert moves(ring) == [("o0", "peer-4")]
    stopped(ring)


def test_a_command_waits_until_a_backup_has_taken_over() -> None:
    ring = Movers(7, seed=7)
    running(ring, {"o0": ("peer-4",)})
    ring.crash("peer-2")
    request = ring.synergy["peer-0"].requests["r"]
    ring.simulation.run(ring.simulation.now + 30.0, lambda: request.state is State.TAKING_OVER)
    assert request.state is State.TAKING_OVER
    wanted = command(ring, "o0", "peer-5")
    assert wanted == []
    ring.run(8.0)
    assert wanted == [""]
    assert where(ring)["o0"] == "peer-5"
    assert [event.reason for event in ring.events("r", MovePostponed)] == ["backups take over"]
    stopped(ring)


@pytest.mark.parametrize(
    ("operator", "to", "reason"),
    [
        ("o7", "peer-5", "operator: 'o7'; expected one of source, o0, o1"),
        ("sink", "peer-5", "operator: 'sink' is a sink, which stays at its peer"),
        ("o1", "", "to: ''; expected a peer that lives"),
    ],
)
def test_what_can_never_move_is_refused_at_once(operator: str, to: str, reason: str) -> None:
    ring = Movers(6, seed=1)
    running(ring)
    move(ring, "o0", "peer-4")
    with pytest.raises(ValueError, match=reason):
        command(ring, operator, to)
    ring.run(3.0)
    stopped(ring)


def test_a_command_whose_peer_dies_while_it_waits_is_answered() -> None:
    ring = Movers(6, seed=1, takes=5.0)
    running(ring)
    begun, wanted = move(ring, "o0", "peer-4"), command(ring, "o1", "peer-5")
    after = command(ring, "o1", "peer-2")
    ring.crash("peer-5")
    ring.run(40.0)
    assert begun == [""]
    assert wanted in (["to: 'peer-5'; expected a peer that lives"], ["peer-5 did not answer in time"])
    assert after == [""], "those behind it are carried out"
    assert where(ring)["o1"] == "peer-2"
    stopped(ring)


def test_commands_that_wait_when_the_application_ends_are_answered() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    begun, wanted = move(ring, "o0", "peer-4"), command(ring, "o1", "peer-5")
    stopped(ring)
    assert begun == wanted == ["the application has ended"]
    assert not ring.synergy["peer-0"].session.moves._commands


def test_the_driver_passes_commands_on() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    begun = move(ring, "o0", "peer-4")
    ring.simulation.report("peer-0", MoveComponent("r", "o1", "peer-5", 17))
    ring.run(4.0)
    assert begun == [""]
    assert where(ring)["o1"] == "peer-5"
    ring.simulation.report("peer-0", StopApplication("r"))
