"""What a guest is told of his own applications names no other one that he may not read."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.events import (
    ApplicationFailed,
    ApplicationRunning,
    MigrationDecided,
    ProbeAccepted,
    ProjectedImpact,
    RequestPostponed,
)
from synergy_nb.runtime.process._hidden_names import HiddenNames

OWN, OTHER, SHARED = "mine-1-0a1b2c", "top_secret-2-0a1b2c", "shared-3-ffffff"


def names(*known: str, readable: tuple[str, ...] = (OWN, SHARED)) -> HiddenNames:
    return HiddenNames(lambda: (OWN, *known), lambda user, application: user == "ann" and application in readable)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (f"QoS impact on {OTHER}: 0.5 s now, 0.9 s with it, limit 0.6 s",
         "QoS impact on another application: 0.5 s now, 0.9 s with it, limit 0.6 s"),
        (f"{OTHER}, which has the same stream, is being composed",
         "another application, which has the same stream, is being composed"),
        (f"tap: merge of {OTHER} moves; source of {SHARED} at a has ended",
         f"tap: another application moves; source of {SHARED} at a has ended"),
        (f"{OTHER}/merge would have no slack, {OWN}/filter 2 s",
         f"another application would have no slack, {OWN}/filter 2 s"),
        (f"filter of {OWN} at tls://127.0.0.1:4567: no memory in 1-2-3 steps",
         f"filter of {OWN} at tls://127.0.0.1:4567: no memory in 1-2-3 steps"),
    ],
)  # fmt: skip
def test_reasons_name_another_application_where_the_guest_may_not_read_it(reason: str, told: str) -> None:
    event = names().event("ann", ApplicationFailed(1.0, "a", OWN, reason=reason))
    assert (event.reason, event.subject) == (told, OWN)


def test_fields_and_keys_are_hidden_with_the_operators_beside_them() -> None:
    hidden = names()
    impacts = [ProjectedImpact(each, 0.1, 0.2, 0.3) for each in (OTHER, SHARED)]
    accepted = ProbeAccepted(1.0, "a", OWN, "filter", [], 1.0, None, 0.1, impacts)
    assert [each.application for each in hidden.event("ann", accepted).impacts] == ["another application", SHARED]
    peers = {"source": "tls://127.0.0.1:4567"}
    producers = {"tap": [(OTHER, "merge", "a"), (SHARED, "source", "b")]}
    running = hidden.event("ann", ApplicationRunning(1.0, "a", OWN, peers, producers=producers))
    assert running.peers == peers
    assert [tuple(each[:3]) for each in running.producers["tap"]] == [
        ("another application", "", "a"), (SHARED, "source", "b"),
    ]  # fmt: skip
    assert OTHER not in str(running)
    same = ApplicationRunning(1.0, "a", OWN, peers)
    assert hidden.event("ann", same) is same


def test_ids_of_another_form_are_hidden_where_the_peer_knows_them() -> None:
    hidden = names("payroll", "payroll.2", readable=(OWN, "sales"))
    event = RequestPostponed(1.0, "a", OWN, reason="merge of payroll moves, payroll.2/f too, sales and payrolls do not")
    assert hidden.event("ann", event).reason == (
        "another application moves, another application too, sales and payrolls do not"
    )


def test_answers_are_hidden_and_bytes_stay() -> None:
    hidden = names()
    answer = {"application": OWN, "reason": f"QoS impact on {OTHER}", "plan": OTHER.encode(), "setup": 0.5}
    told = msgspec.msgpack.decode(hidden.answer("ann", msgspec.msgpack.encode(answer)))
    assert told == {**answer, "reason": "QoS impact on another application"}
    assert hidden.answer("ann", b"") == b""


def test_a_component_without_slack_is_hidden_as_a_whole() -> None:
    selected, slacks = [f"{OWN}/f", f"{OTHER}/merge"], {f"{OTHER}/merge": 0.2, f"{SHARED}/f": 0.3}
    decided = MigrationDecided(
        1.0, "a", OWN, "f", (OTHER, "merge"), selected, 1.0, 0.5, slacks, ["b"], {"b": 0.1}, True
    )
    told = names().event("ann", decided)
    assert tuple(told.cause) == ("another application", "")
    assert list(told.selected) == [f"{OWN}/f", "another application"]
    assert told.slacks == {"another application": 0.2, f"{SHARED}/f": 0.3}
