"""The tables of states: each state is listed, can be reached, and follows only those that the table names before it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from spark_stream._query_states import QUERY_FOLLOWS, QueryState
from spark_stream._runs import EXCHANGE_FOLLOWS, ExchangeState
from synergy_nb.dataflow.streams.hosting import _held_roles as held_roles
from synergy_nb.dataflow.streams.hosting._held_roles import RoleState
from synergy_nb.dataflow.streams.hosting.copies import READINESS_FOLLOWS, Readiness
from synergy_nb.dataflow.streams.log.log import CURSOR_FOLLOWS, CursorState
from synergy_nb.dataflow.streams.log.merge import INPUT_FOLLOWS, InputState
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import IllegalTransition, StateTable
from synergy_nb.lifecycle.changes import _led_moves as led_moves
from synergy_nb.lifecycle.changes._led_moves import MoveState
from synergy_nb.lifecycle.records import _components_here as components_here
from synergy_nb.lifecycle.records import members
from synergy_nb.lifecycle.records._components_here import ComponentPhase
from synergy_nb.lifecycle.records.members import MemberState

#: Each table, with the states in which its things begin.
TABLES: list[tuple[type[StrEnum], StateTable[Any], set[StrEnum]]] = [
    (RoleState, held_roles.FOLLOWS, {RoleState.NONE}),
    (Readiness, READINESS_FOLLOWS, {Readiness.EMPTY}),
    (InputState, INPUT_FOLLOWS, {InputState.ASKING}),
    (CursorState, CURSOR_FOLLOWS, {CursorState.EXPECTED}),
    (MoveState, led_moves.FOLLOWS, {MoveState.DOUBTFUL}),
    (MemberState, members.FOLLOWS, {MemberState.JOINED}),
    (ComponentPhase, components_here.FOLLOWS, {ComponentPhase.ABSENT}),
    (QueryState, QUERY_FOLLOWS, {QueryState.NEW}),
    (ExchangeState, EXCHANGE_FOLLOWS, {ExchangeState.WAITING}),
]


@pytest.mark.parametrize(("states", "follows", "first"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_state_is_in_its_table_and_can_be_reached(
    states: type[StrEnum], follows: StateTable[Any], first: set[StrEnum]
) -> None:
    assert set(follows) == set(states)
    reached, waiting = set(first), sorted(first)
    for state in waiting:
        new = follows[state] - reached
        reached |= new
        waiting.extend(sorted(new))
    assert reached == set(states)
    assert not any(state in follows[state] for state in states), "staying is no change"


@pytest.mark.parametrize(("states", "follows", "first"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_change_that_is_not_listed_names_both_states(
    states: type[StrEnum], follows: StateTable[Any], first: set[StrEnum]
) -> None:
    for before in states:
        for after in states:
            if after in follows[before]:
                state_tables.check("it", follows, before, after)
            else:
                with pytest.raises(IllegalTransition, match=f"it: {after} after {before}; expected "):
                    state_tables.check("it", follows, before, after)
