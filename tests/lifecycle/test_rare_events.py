"""What a schedule says that it has met, from journals made by hand."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest

from synergy_nb.events import (
    ApplicationFailed,
    BackupRestored,
    ComponentMoved,
    Event,
    MoveBegun,
    MoveGivenUp,
    MovePostponed,
    OriginSucceeded,
    PeerDeclaredDead,
    SuccessionBegun,
    TakenOver,
    TakeoverBegun,
)
from tests.lifecycle.rare_events import RARE, Rebuilding, Span, met
from tests.lifecycle.struck_schedules import SOMETIMES

BEGUN = MoveBegun(1.0, "o", "app", operator="x", at="a", to="b", epoch=1)
MOVED = ComponentMoved(2.0, "o", "app", operator="x", at="a", to="b", seconds=1.0, peers={"x": "b"})
GIVEN_UP = MoveGivenUp(2.0, "o", "app", operator="x", to="b", reason="peer c died")
TAKEOVER = TakeoverBegun(2.0, "o", "app", dead="c", operators={"y": "d"}, epoch=2)
TAKEN = TakenOver(3.0, "o", "app", peers={"x": "a", "y": "d"}, backups={}, epoch=2)
CLAIMED = SuccessionBegun(2.0, "s", "app", origin="o", epoch=1)
SUCCEEDED = OriginSucceeded(3.0, "s", "app", origin="o", epoch=9, peers={"x": "a"})
RESTORED = BackupRestored(3.0, "o", "app", operator="x", at="d", seconds=2.0, backups={"x": ("d",)})
DEAD = PeerDeclaredDead(2.0, "o", "a", incarnation=0)


def seen(
    *events: Event,
    killed: dict[str, float] | None = None,
    heals: tuple[float, ...] = (),
    rebuilds: dict[Rebuilding, float] | None = None,
) -> set[str]:
    """What a run has met, without what its events say by themselves."""
    numbers = count()
    journal = [msgspec.structs.replace(each, sequence=next(numbers)) for each in events]
    span = Span("app", 10.0, 11.0)
    alone = {"a succession", "a lost copy was rebuilt"}
    return met(journal, killed or {}, heals, [span], [span._replace(begun=11.0, until=12.0)], rebuilds or {}) - alone


@pytest.mark.parametrize(
    ("events", "killed", "expected"),
    [
        ((BEGUN, MOVED), {}, set()),
        ((BEGUN, MOVED), {"a": 0.5}, set()),
        ((BEGUN, MOVED), {"b": 2.5}, set()),
        ((BEGUN, MOVED), {"a": 1.5}, {"the old peer of a move died", "a follower took over from its dead peer"}),
        ((BEGUN, GIVEN_UP), {"a": 1.5}, {"the old peer of a move died"}),
        ((BEGUN, GIVEN_UP), {"b": 1.5}, {"the new peer of a move died"}),
        ((BEGUN, GIVEN_UP, TAKEOVER, TAKEN), {"c": 1.5}, {"a take-over during a move"}),
        ((BEGUN, MOVED, msgspec.structs.replace(TAKEOVER, time=2.5)), {}, set()),
        ((BEGUN, CLAIMED, SUCCEEDED), {"o": 1.5}, {"a death of the origin during a move"}),
        ((CLAIMED, SUCCEEDED), {"a": 2.5}, {"a death during a succession"}),
        ((TAKEOVER, TAKEN), {"c": 2.0}, set()),
        ((TAKEOVER, TAKEN), {"d": 2.5}, {"a death during a take-over"}),
        ((TAKEOVER, SUCCEEDED), {"o": 2.5}, {"a death during a take-over", "a death of the origin during a take-over"}),
        ((DEAD,), {"a": 1.0, "b": 1.5}, {"two deaths within one detection interval"}),
        ((DEAD,), {"a": 1.0, "b": 2.5}, set()),
        ((), {"a": 10.5}, {"a death during composition"}),
        ((), {"a": 11.5}, {"a death during set-up"}),
    ],
)
def test_a_death_is_named_by_what_went_on(
    events: tuple[Event, ...], killed: dict[str, float], expected: set[str]
) -> None:
    assert seen(*events, killed=killed) == expected


def test_a_heal_counts_while_something_goes_on() -> None:
    assert seen(TAKEOVER, TAKEN, heals=(1.5, 3.5)) == set()
    assert seen(TAKEOVER, TAKEN, heals=(2.5,)) == {"a partition that heals during a take-over"}
    assert seen(BEGUN, MOVED, heals=(1.5,)) == {"a partition that heals during a move"}


def test_a_rebuild_lasts_until_its_copy_is_there_or_all_is_over() -> None:
    rebuild = {Rebuilding("app", "x", "d", "o"): 1.0}
    during = {"a death while a replica is rebuilt"}
    assert seen(RESTORED, killed={"d": 2.0}, rebuilds=rebuild) == during
    assert seen(RESTORED, killed={"o": 2.0}, rebuilds=rebuild) == {
        *during, "a death of the origin while a replica is rebuilt",
    }  # fmt: skip
    assert seen(RESTORED, killed={"d": 4.0}, rebuilds=rebuild) == set()
    failed = ApplicationFailed(1.5, "o", "app", reason="x")
    assert seen(failed, killed={"d": 2.0}, rebuilds=rebuild) == set()


def test_a_move_is_retried_where_the_same_one_comes_later() -> None:
    refused = msgspec.structs.replace(GIVEN_UP, reason="x at b: no room")
    again = msgspec.structs.replace(MOVED, time=4.0)
    assert seen(BEGUN, refused, again) == {"a move that was refused and retried"}
    assert seen(BEGUN, refused) == set()
    assert seen(BEGUN, GIVEN_UP, again) == set()
    assert seen(BEGUN, refused, msgspec.structs.replace(again, to="c")) == set()
    waited = MovePostponed(2.0, "o", "app", operator="x", to="b", reason="backups take over")
    assert seen(waited, again) == {"a move waited for a take-over"}


def test_a_campaign_has_to_meet_each_of_them() -> None:
    assert set(RARE) < set(SOMETIMES)
    assert len(SOMETIMES) == len(set(SOMETIMES))
