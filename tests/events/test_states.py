"""The states of an application: one table for the peer that leads it, for notebooks and for views."""

from __future__ import annotations

import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.events import ENDINGS
from synergy_nb.events.application_states import ENDED, FOLLOWS, LASTING, RUNS, STATUS, UNDECIDED, State, Status
from synergy_nb.events.state_tables import IllegalTransition
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.plan import source
from synergy_nb.widgets._status_text import _STATUS


def request() -> Request:
    return Request("r", source("packets").sink(), "composed", 1.0)


def reached(state: State) -> Request:
    """A request in a state, by the shortest way there."""
    ways: dict[State, list[State]] = {(first := request()).state: []}
    for at in (waiting := [first.state]):
        for after in sorted(FOLLOWS[at] - ways.keys()):
            ways[after] = [*ways[at], after]
            waiting.append(after)
    for each in ways[state]:
        first.enter(each)
    return first


def test_every_state_has_successors_and_a_status() -> None:
    assert FOLLOWS.keys() == STATUS.keys() == set(State)
    assert {*STATUS.values(), Status.ON_HOLD} == set(Status) == set(_STATUS)
    assert set(Status) == LASTING | ENDED
    assert not LASTING & ENDED
    assert ENDINGS.keys() == ENDED
    assert UNDECIDED | RUNS | {state for state, status in STATUS.items() if status in ENDED} == set(State)


def test_every_state_can_be_reached_and_each_can_end() -> None:
    reached, waiting = {State.DISCOVERING}, [State.DISCOVERING]
    for state in waiting:
        new = FOLLOWS[state] - reached
        reached |= new
        waiting.extend(sorted(new))
    assert reached == set(State)
    for state in UNDECIDED | RUNS:
        assert State.STOPPED in FOLLOWS[state]
    assert not any(FOLLOWS[state] & (UNDECIDED | RUNS) for state in set(State) - UNDECIDED - RUNS)


def test_a_request_enters_only_states_that_the_table_permits() -> None:
    for before in State:
        for after in State:
            each = reached(before)
            if after in FOLLOWS[before]:
                each.enter(after, "why")
                assert (each.state, each.status, each.reason) == (after, STATUS[after], "why")
            else:
                with pytest.raises(IllegalTransition, match=f"application 'r': {after} after {before}; expected "):
                    each.enter(after)
                assert each.state is before


def test_a_request_has_no_graph_before_it_is_decided() -> None:
    each = request()
    assert (each.roles, each.running) == (Roles(), False)
    with pytest.raises(ValueError, match="application: 'r'; expected one that has been decided"):
        _ = each.graph
