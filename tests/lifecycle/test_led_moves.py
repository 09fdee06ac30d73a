"""A move has one state: what its peers say and what happens to them changes it as the table says, and no other way."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import permutations
from typing import Any

import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import IllegalTransition
from synergy_nb.lifecycle.changes._led_moves import FOLLOWS, LedMove, MoveState
from synergy_nb.lifecycle.records.messages import End, Follow, Followed, Graph, GraphChanged
from synergy_nb.plan import source
from tests import moving_schedules
from tests.lifecycle.leading_peer import lead
from tests.moving import Movers, move, running
from tests.one_peer import OnePeer

OLD, NEW, OTHER = "b", "c", "d"


def led(*, asked: int = 0, backup: str = "") -> LedMove:
    """A move of the component ``o`` from one peer to another."""
    backups: dict[str, tuple[str, ...]] = {"o": (backup,)} if backup else {}
    graph = Graph("app", 1, "a", b"", Roles({"o": OLD, "p": "a"}, backups))
    return LedMove(graph, "o", NEW, 1.0, lambda _: None, asked)


#: What leads to a state.
STEPS: dict[MoveState, Callable[[LedMove], None]] = {
    MoveState.AGREEING: LedMove.accept,
    MoveState.FOLLOWING: LedMove.publish,
    MoveState.ORPHANED: LedMove.orphan,
    MoveState.COMPLETED: lambda it: it.end(MoveState.COMPLETED),
    MoveState.GIVEN_UP: lambda it: it.end(MoveState.GIVEN_UP),
}


def test_a_move_that_the_old_peer_asks_for_is_doubtful_until_the_new_one_accepts() -> None:
    doubtful = led(asked=7)
    states = [led().state, doubtful.state]
    doubtful.accept()
    assert [*states, doubtful.state] == [MoveState.AGREEING, MoveState.DOUBTFUL, MoveState.AGREEING]


@pytest.mark.parametrize("before", MoveState)
def test_a_move_changes_as_its_table_says(before: MoveState) -> None:
    ways = {MoveState.DOUBTFUL: (), MoveState.AGREEING: (MoveState.AGREEING,)}
    way = ways.get(before, (MoveState.AGREEING, MoveState.FOLLOWING, before))
    for after, step in STEPS.items():
        each = led(asked=7)
        for state in way:
            STEPS[state](each)
        assert each.state is before
        if after in FOLLOWS[before] or after is before:
            step(each)
            assert each.state is after
            assert each.over == (after in (MoveState.COMPLETED, MoveState.GIVEN_UP))
        else:
            with pytest.raises(IllegalTransition, match=f"move of app/o: {after} after {before}; expected "):
                step(each)


def test_peers_are_asked_until_both_have_agreed_and_then_until_the_move_can_be_completed() -> None:
    for first, second in permutations((OLD, NEW)):
        each = led(backup=NEW)
        assert each.swaps
        assert (each.silent, each.unanswered) == ([OLD, NEW], [OLD, NEW])
        each.hear(OTHER, ready=True)  # has no part in it
        each.hear(first, ready=first == OLD)
        assert (each.silent, each.unanswered) == ([second], [second])
        each.hear(second, ready=second == OLD)
        assert (each.silent, each.unanswered, each.both_ready) == ([], [NEW], False)
        each.hear(NEW, ready=True)
        assert each.both_ready
        assert each.unanswered == [NEW], "it may lag since then"


def test_what_a_peer_has_said_is_not_taken_back() -> None:
    each = led()
    each.hear(OLD, ready=True)
    each.hear(NEW, ready=True)
    each.hear(OLD, ready=False)  # overtaken on its way
    each.hear(NEW, ready=False)
    assert each.both_ready


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[StrEnum, StrEnum]]:
    """Changes of states of moves from now on, as the table permitted them."""
    found: list[tuple[StrEnum, StrEnum]] = []
    check = state_tables.check

    def noting(thing: str, follows: Any, before: Any, after: Any) -> None:
        check(thing, follows, before, after)
        if isinstance(after, MoveState):
            found.append((before, after))

    monkeypatch.setattr(state_tables, "check", noting)
    return found


def test_a_follower_is_orphaned_when_its_old_peer_dies(changes: list[tuple[StrEnum, StrEnum]]) -> None:
    ring = Movers(6, seed=8, takes=1e6)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    ring.crash("peer-2")
    ring.run(9.0)
    assert outcome == ["peer peer-2 died before o0 at peer-4 was ready"]
    assert changes == [
        (MoveState.AGREEING, MoveState.FOLLOWING),
        (MoveState.FOLLOWING, MoveState.ORPHANED),
        (MoveState.ORPHANED, MoveState.GIVEN_UP),
    ]


@pytest.mark.parametrize("published", [False, True])
def test_a_follower_that_all_know_is_not_ended_by_an_origin_that_leads_no_more(published: bool) -> None:
    """Whoever leads on may have it take over; one that nobody else knows is told to leave."""
    plan = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out")
    one = OnePeer("o")
    lead(one, plan, {"s": "a", "f": OLD, "out": OTHER})
    moves, outcome = one.synergy.session.moves, list[str]()
    one.call(moves.move, "r", "f", NEW, outcome.append)
    graph = one.sent(Follow)[0][1].graph
    for peer in (OLD, NEW) if published else ():
        one.receive(peer, Followed("r", 1, graph.epoch, "f", ready=False, refusal=""))
    assert bool(one.sent(GraphChanged)) is published
    one.call(moves.end, "r", "another leads")
    assert one.sent(End) == ([] if published else [(NEW, End("r", 1, "another leads"))])
    assert outcome == ["another leads"]


@pytest.mark.slow
def test_schedules_of_faults_make_listed_changes_and_no_others(changes: list[tuple[StrEnum, StrEnum]]) -> None:
    for seed in (1000, 1005, 1008, 1019, 1034):
        moving_schedules.run(seed)
    assert {
        (MoveState.AGREEING, MoveState.FOLLOWING),
        (MoveState.AGREEING, MoveState.COMPLETED),
        (MoveState.AGREEING, MoveState.GIVEN_UP),
        (MoveState.FOLLOWING, MoveState.COMPLETED),
        (MoveState.FOLLOWING, MoveState.GIVEN_UP),
    } <= set(changes)
