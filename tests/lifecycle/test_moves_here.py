"""What a peer knows of moves in which it has a part, beside the graph: the next graph ends what it does not name."""

from __future__ import annotations

import msgspec

from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records._moves_here import AdoptedMoves, MovesHere
from synergy_nb.lifecycle.records.messages import Graph

ME, OLD, OTHER = "me", "old", "other"
CALM = Graph("app", 1, OLD, b"", Roles({"o": OLD, "p": ME}))


def moving(operator: str, to: str, epoch: int = 1) -> Graph:
    return msgspec.structs.replace(CALM, roles=CALM.roles.with_follower(operator, to), epoch=epoch)


def test_a_follower_before_its_graph_is_one_until_the_next_epoch() -> None:
    moves = MovesHere()
    moves.begin_early("o", ME)
    assert (moves.early("o"), moves.early("p"), moves.follows_early(ME), moves.follows_early(OTHER)) == (
        *(ME, "", True, False),
    )
    assert moves.adopt(CALM, CALM, ME) == AdoptedMoves({"o": ME}, {"o"}, set())
    assert moves.adopt(CALM, moving("o", ME), ME) == AdoptedMoves({"o": ME}, {"o"}, set())
    assert not moves.follows_early(ME), "the graph says so now"
    assert not moves.end_early("o")
    moves.begin_early("p", OTHER)
    assert moves.end_early("p")
    assert moves.early("p") == ""


def test_a_failure_is_forgotten_with_its_move_or_when_another_one_begins() -> None:
    moves, first = MovesHere(), moving("o", ME)
    moves.adopt(CALM, first, ME)
    moves.fail("o", "no room")
    assert moves.adopt(first, first, ME).anew == set()
    assert moves.failure("o") == "no room", "the graph came again"
    assert moves.adopt(first, moving("o", ME, 3), ME).anew == {"o"}
    assert moves.failure("o") == "", "of an earlier move, whose end this peer has not heard"
    moves.fail("o", "no room")
    assert moves.adopt(moving("o", ME, 3), msgspec.structs.replace(CALM, epoch=4), ME) == AdoptedMoves({}, set(), set())
    assert moves.failure("o") == ""


def test_a_snapshot_is_kept_as_long_as_a_graph_names_the_follower() -> None:
    moves, first = MovesHere(), moving("p", OTHER)
    moves.keep("p")
    assert moves.adopt(CALM, first, ME) == AdoptedMoves({"p": OTHER}, {"p"}, set())
    assert moves.keeps("p")
    moves.adopt(first, msgspec.structs.replace(CALM, epoch=2), ME)
    assert not moves.keeps("p")


def test_a_follower_waits_for_the_graphs_of_those_that_share_its_stream() -> None:
    moves = MovesHere()
    moves.wait_for("o", ("b", "c"))
    assert [moves.knows_sharers("o", known) for known in ((), ("b",), ("a", "b", "c"))] == [False, False, True]
    assert moves.knows_sharers("p", ())
