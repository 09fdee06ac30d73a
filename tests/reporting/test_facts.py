"""Accounts of a request: events that no other view shows, and errors of peers in sentences."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from synergy_nb.events import (
    ApplicationFailed,
    ApplicationRejected,
    ApplicationRunning,
    AttemptFailed,
    ComponentMoved,
    DestinationBroken,
    Event,
    LateRows,
    LinkClosed,
    LinkResumed,
    MessageRefused,
    MoveBegun,
    MoveGivenUp,
    PeerTrouble,
    PlacementFailed,
    RequestPostponed,
    RequestSubmitted,
    SparkDied,
    SparkFailed,
)
from synergy_nb.plan import QoS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.troubles import trouble

A, B, C = "tcp://10.0.0.1:1", "tcp://10.0.0.2:1", "tcp://10.0.0.3:1"
NAMES = {A: "peer-1", B: "peer-2", C: "peer-3"}
ASKED = RequestSubmitted(0.0, A, "r", plan="p", operators=["filter"], qos={})
RUNS = ApplicationRunning(1.0, A, "r", peers={"filter": B})
MOVES = MoveBegun(2.0, A, "r", operator="filter", at=B, to=C, epoch=1)


def account(*events: Event) -> str:
    return str(Explanation("r", [ASKED, *events], NAMES))


def test_failed_attempts_are_listed_unless_the_outcome_has_the_same_text() -> None:
    failed = AttemptFailed(0.5, A, "r", attempt=1, reason=f"delay at {B}")
    assert "attempt failed: delay at peer-2" in account(failed, failed, RUNS)
    assert account(failed, failed, RUNS).count("attempt failed") == 1
    assert "attempt failed" not in account(failed, ApplicationRejected(1.0, A, "r", f"delay at {B}"))


def test_a_wait_lasts_until_now_also_if_nothing_happens_meanwhile() -> None:
    broken = DestinationBroken(2.0, B, "r", operator="sink", reason="no space", tries=1, wait_s=0.1)
    (stall,) = Explanation("r", [RUNS, broken], NAMES, None, 12.0).stalls
    assert stall.text == "sink at peer-2 has not reached for 10 s what it needs: no space"


def test_an_account_contains_a_move_in_progress() -> None:
    assert "moving: filter from peer-2 to peer-3" in account(RUNS, MOVES)
    moved = ComponentMoved(3.0, A, "r", operator="filter", at=B, to=C, seconds=1.0, peers={"filter": C})
    for end in (
        moved,
        MoveGivenUp(3.0, A, "r", operator="filter", to=C, reason=f"{C} died"),
        ApplicationFailed(3.0, A, "r", f"{B} died"),
    ):
        assert "moving:" not in account(RUNS, MOVES, end)
    assert Explanation("r", [RUNS, MOVES], NAMES).to_dict()["moving"] == {"filter": ("peer-2", "peer-3")}


def test_an_application_that_waits_for_another_placement_is_being_composed() -> None:
    late, again = (PlacementFailed(time, A, "r", reason=f"{B} is silent") for time in (0.5, 0.8))
    waits = [ASKED, late, RequestPostponed(0.5, A, "r", reason=f"{B} is silent"), again]
    assert Explanation("r", waits, NAMES).outcome == "being composed"
    died = Explanation("r", waits, NAMES, ("failed", f"its origin {A} has died"))
    assert died.outcome == "failed: its origin peer-1 has died"
    assert Explanation("r", [late], NAMES).outcome == "not placed: peer-2 is silent"


def test_late_rows_are_listed_with_their_latest_number() -> None:
    told = account(RUNS, LateRows(2.0, A, "r", "source", dropped=3), LateRows(4.0, A, "r", "source", dropped=7))
    assert "too late: 7 rows at source, dropped" in told
    assert "3 rows" not in told


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (LinkResumed(1.0, A, B, dropped=12), f"messages to {B} are sent again, after 12 messages had been dropped"),
        (SparkDied(1.0, A, "", cause="signal 9"), "the Spark server died and is restarted: signal 9"),
        (SparkFailed(1.0, A, "", cause="no Java"), "there is no Spark server: no Java"),
        (
            MessageRefused(1.0, A, B, message="Probe", reason="path: sink; expected one of the plan"),
            f"a message of {B} was refused: path: sink; expected one of the plan: Probe",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Event) else "",
)
def test_all_errors_of_peers_have_sentences(event: PeerTrouble, said: str) -> None:
    assert trouble(event) == said
    assert said.replace(B, "peer-2") in account(event)


def test_events_that_are_no_errors_have_no_sentence() -> None:
    assert trouble(LinkClosed(1.0, A, "client-1", "connection closed")) == ""


def test_every_number_of_a_requirement_is_in_the_account() -> None:
    said = ""
    for name in QoS.__struct_fields__:
        if name not in ("scheduling", "overdue", "hotspots", "on_death"):
            said = str(Explanation("r", [msgspec.structs.replace(ASKED, qos={name: 3e7})], {}))
            assert "requirements: " in said, name
    assert "at most 30 MB of memory for each operator" in said


def test_a_fact_of_any_subject_is_an_attribute_of_the_account() -> None:
    account = Explanation("r1", [RequestSubmitted(1.0, A, "r1", plan="top", operators=[], qos={"delay": 1.0})], {})
    assert account.qos is account.asked.qos
    assert {"qos", "takeovers", "outcome", "why"} <= set(dir(account))
    for copied in (copy.copy(account), pickle.loads(pickle.dumps(account))):
        assert str(copied) == str(account)
    with pytest.raises(AttributeError, match=r"no fact 'quality'; expected one of accepted, attempts, began, behind, "):
        _ = account.quality
