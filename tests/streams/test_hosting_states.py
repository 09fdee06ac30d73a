"""What lives in hosting has one state: the tables say which may follow which, and schedules of faults go by them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting import _held_roles as held_roles
from synergy_nb.dataflow.streams.hosting._held_roles import HeldRole, HeldRoles, RoleState
from synergy_nb.dataflow.streams.hosting._order_recovery import Recovery
from synergy_nb.dataflow.streams.hosting.copies import Copy, Readiness
from synergy_nb.dataflow.streams.log.log import Cursor, CursorState, StreamLog
from synergy_nb.dataflow.streams.log.merge import InputState, Port
from synergy_nb.dataflow.streams.log.values import ORIGIN, OnLag, Output, Reader
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import IllegalTransition
from tests.streams import fault_schedules

KEY = ("app", "u")
ACTIVE = {RoleState.REPLAYING, RoleState.ALIGNED, RoleState.REBUILDING, RoleState.ACTIVE}


def role(state: RoleState) -> HeldRole:
    """Return a role in a state, reached by steps that the table lists."""
    held = HeldRole(KEY)
    if state in (RoleState.BACKUP, RoleState.FOLLOWER):
        held.back_up(Copy(Output(*KEY)))
        if state is RoleState.FOLLOWER:
            held.follow()
    elif state is not RoleState.NONE:
        held.lead(state)
    return held


def change(held: HeldRole, after: RoleState) -> None:
    """Do to a role what leads to a state."""
    match after:
        case RoleState.FOLLOWER:
            held.follow()
        case RoleState.NONE:
            held.leave()
        case RoleState.BACKUP:
            held.back_up(Copy(Output(*KEY)))
        case _:
            held.lead(after)


@pytest.mark.parametrize("before", RoleState)
def test_a_role_changes_as_its_table_says_and_has_a_copy_or_leads(before: RoleState) -> None:
    for after in RoleState:
        held = role(before)
        if after in held_roles.FOLLOWS[before] or after is before:
            change(held, after)
            assert held.state is after
            assert (held.copy is not None) == (after in (RoleState.BACKUP, RoleState.FOLLOWER))
        else:
            with pytest.raises(IllegalTransition, match=f"role for app/u: {after} after {before}; expected "):
                change(held, after)
            assert held.state is before


def test_an_input_that_is_closed_asks_for_nothing_whatever_happens_to_its_link() -> None:
    port = Port()
    port.read_from("p", 0, 1.0)
    assert (port.state, port.asks_at) == (InputState.ASKING, 1.0)
    assert port.begin(ORIGIN)
    assert (port.state, port.asks_at) == (InputState.SUBSCRIBED, None)
    port.close()
    port.ask_again(2.0)
    assert (port.state, port.asks_at) == (InputState.CLOSED, None)
    with pytest.raises(IllegalTransition, match="input: subscribed after closed; expected no change"):
        port.begin(ORIGIN)


def test_a_lost_reader_stays_lost_although_it_asks_again() -> None:
    log, reader = StreamLog(), Reader("app", "u", 0, "p")
    cursor = log.expect(reader, None, OnLag.FAIL)
    cursor.begin_unasked(ORIGIN)
    assert log.subscribe(reader, ORIGIN).state is CursorState.SUBSCRIBED
    cursor.lose()
    assert log.subscribe(reader, ORIGIN).state is CursorState.LOST
    with pytest.raises(IllegalTransition, match="unasked after lost; expected no change"):
        Cursor.send_unasked(cursor)


def test_a_peer_remembers_nothing_of_what_it_left() -> None:
    roles = HeldRoles()
    roles.of(KEY).lead(RoleState.FAILED)
    roles.of(("app", "v")).back_up(Copy(Output("app", "v")))
    recovery = Recovery(Component("app", "w", "p", Assignment("p"), 3, None), 0.0)  # type: ignore[arg-type]
    roles.of(("app", "w")).lead(RoleState.REPLAYING, recovery)
    roles.leave_failed("app", {"u"})
    assert set(roles.found) == {KEY, ("app", "v"), ("app", "w")}
    roles.leave_failed("app", {"v"})
    assert (set(roles.copies), roles.recoveries) == ({("app", "v")}, {("app", "w"): recovery})
    for key in tuple(roles.found):
        roles.leave(key)
    roles.leave(KEY)
    assert (roles.found, roles.copies, roles.recoveries) == ({}, {}, {})


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> set[tuple[StrEnum, StrEnum]]:
    """Changes of states from now on, as the tables permitted them."""
    found: set[tuple[StrEnum, StrEnum]] = set()
    check = state_tables.check

    def noting(thing: str, follows: Any, before: Any, after: Any) -> None:
        check(thing, follows, before, after)
        found.add((before, after))

    monkeypatch.setattr(state_tables, "check", noting)
    return found


def consistent(world: StreamWorld) -> None:
    """What a peer is for a component agrees with what it has of it."""
    for node in world.nodes.values():
        hosting = node.hosting
        assert set(hosting.components) <= set(hosting.roles.found)
        for key, held in hosting.roles.found.items():
            component = hosting.components.get(key)
            executes = held.state in ACTIVE or held.state is RoleState.FOLLOWER
            assert (component is not None) == executes, f"{key}: {held.state}"
            assert (held.copy is not None) == (held.state in (RoleState.BACKUP, RoleState.FOLLOWER))
            assert (held.recovery is not None) == (held.state in (RoleState.REPLAYING, RoleState.ALIGNED))
            if held.copy is not None:
                assert (held.copy.state is None) == (held.copy.readiness is Readiness.EMPTY)
            if component is not None:
                assert component.role.name == ("FOLLOWER" if held.state is RoleState.FOLLOWER else "ACTIVE")


@pytest.mark.slow
def test_schedules_of_faults_make_listed_changes_and_no_others(
    changes: set[tuple[StrEnum, StrEnum]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every deployment of a campaign leaves each peer with the state that says what it has."""
    converge = StreamWorld._converge

    def checked(self: StreamWorld, peer: str, deployment: Any) -> None:
        converge(self, peer, deployment)
        consistent(self)

    monkeypatch.setattr(StreamWorld, "_converge", checked)
    for seed in range(12):
        fault_schedules.run(seed)
    assert {
        (RoleState.NONE, RoleState.ACTIVE),
        (RoleState.NONE, RoleState.BACKUP),
        (RoleState.BACKUP, RoleState.FOLLOWER),
        (RoleState.BACKUP, RoleState.REPLAYING),
        (RoleState.REPLAYING, RoleState.ACTIVE),
        (Readiness.EMPTY, Readiness.CURRENT),
        (Readiness.CURRENT, Readiness.READY),
        (Readiness.READY, Readiness.OUTDATED),
        (Readiness.OUTDATED, Readiness.CURRENT),
        (InputState.ASKING, InputState.SUBSCRIBED),
        (InputState.SUBSCRIBED, InputState.ASKING),
        (CursorState.EXPECTED, CursorState.SUBSCRIBED),
        (CursorState.EXPECTED, CursorState.UNASKED),
        (CursorState.UNASKED, CursorState.SUBSCRIBED),
    } <= changes
