"""What waits for the answer to a request, and how many answers a peer remembers."""

from __future__ import annotations

import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.changes.approvals import Approvals, Asked
from synergy_nb.lifecycle.records.messages import Follow, Followed, Graph
from synergy_nb.plan import source
from tests.one_peer import OnePeer


def asked(number: int = 1) -> Asked:
    return Asked("old peer", number, "app", "count")


@pytest.mark.parametrize("refusal", ["", "it is full"])
def test_what_is_asked_before_the_answer_waits_for_it_and_is_called_once(refusal: str) -> None:
    approvals, heard = Approvals(), list[str]()
    approvals.when_answered(asked(), heard.append)
    approvals.when_answered(asked(2), lambda _: heard.append("another"))
    assert heard == []
    approvals.answer(asked(), refusal)
    approvals.answer(asked(), "again")
    assert heard == [refusal]


def test_a_later_question_about_a_request_replaces_the_one_that_waits() -> None:
    approvals, heard = Approvals(), list[str]()
    approvals.when_answered(asked(), lambda _: heard.append("first"))
    approvals.when_answered(asked(), lambda _: heard.append("second"))
    approvals.answer(asked(), "")
    assert heard == ["second"]


def test_the_last_answer_counts_and_a_peer_remembers_256_of_them() -> None:
    approvals, heard = Approvals(), list[str]()
    for number in range(256):
        approvals.answer(asked(number), f"{number}")
    approvals.answer(asked(0), "anew")
    approvals.answer(asked(256), "256")
    for number in (0, 1, 2, 256):
        approvals.when_answered(asked(number), heard.append)
    assert heard == ["anew", "2", "256"], "1 is the oldest, and forgotten; 0 has been answered anew"


@pytest.mark.parametrize("refusal", ["", "its utilisation would be 1.20"])
def test_a_peer_follows_a_component_once_it_has_answered_the_peer_that_asked_and_only_if_it_agrees(
    refusal: str,
) -> None:
    plan = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out")
    graph = Graph("r", 1, "o", plan.to_bytes(), Roles({"s": "a", "f": "b", "out": "o"}).with_follower("f", "c"))
    new = OnePeer("c")
    new.receive("o", Follow(graph, "f", request=3))
    new.call(new.synergy.session.moves.approvals.answer, Asked("b", 2, "r", "f"), "too late")
    assert not new.synergy.session.applications
    assert new.sent(Followed) == []
    new.call(new.synergy.session.moves.approvals.answer, Asked("b", 3, "r", "f"), refusal)
    assert [(to, each.refusal) for to, each in new.sent(Followed)] == [("o", refusal)]
    assert list(new.synergy.session.applications) == ([] if refusal else ["r"])
