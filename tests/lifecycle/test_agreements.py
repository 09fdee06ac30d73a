"""What a peer tells origins of the time that its components add to their applications: asked, corrected, told anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import Graph, GrowthAnswered, GrowthAsked, GrowthChanged
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.overlay.answer_limits import AnswerLimits
from synergy_nb.plan import source

PLAN = source("packets", rate=10, id="s").filter("bytes > 9", id="f").sink("out", id="out")


class Host:
    """A peer with components of application ``app`` of origin o; ``grown`` is what these add, in seconds."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.timers: list[Any] = []
        self.grown: dict[str, float] = {}
        peer = SimpleNamespace(now=0.0, send=lambda to, message: self.sent.append((to, message)), after=self._after)
        impacts = SimpleNamespace(grown=lambda *_: dict(self.grown))
        self.members: dict[str, Member] = {}
        self.agreements = Agreements(
            cast("Any", peer), cast("Any", impacts), self.members, AnswerLimits(cast("Any", peer))
        )
        self.refusals: list[str] = []
        self.member = self.join("app", "o")

    def _after(self, _delay: float, *_: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)

    def join(self, application: str, origin: str, attempt: int = 1) -> Member:
        graph = Graph(application, attempt, origin, PLAN.to_bytes(), Roles(dict.fromkeys(PLAN.operators, "p")))
        self.members[application] = Member(graph, PLAN, "p")
        return self.members[application]

    def agree(self, seconds: float) -> None:
        """Have the origin agree to so many seconds."""
        self.grown["app"] = seconds
        self.agreements.ask(self.member, "f", self.refusals.append)
        assert self.said() == [("o", GrowthAsked("app", 1, seconds))]
        self.agreements.handlers[GrowthAnswered]("o", GrowthAnswered("app", 1, seconds, 0.1 + seconds, ""))
        assert self.refusals.pop() == ""
        assert self.member.account == 0.1 + seconds

    def said(self) -> list[tuple[str, Any]]:
        found, self.sent[:] = list(self.sent), []
        return found


def test_an_origin_hears_once_that_its_components_here_take_another_time_than_it_has_booked() -> None:
    host = Host()
    host.agree(0.004)
    host.agreements.correct()
    assert host.said() == [], "it has booked just that"
    host.grown["app"] = 0.003
    host.agreements.correct()
    assert host.said() == [("o", GrowthChanged("app", 1, 0.003))]
    host.agreements.correct()
    assert host.said() == []


def test_an_origin_hears_of_what_has_left_that_it_takes_no_time_any_more() -> None:
    for leaves in (True, False):
        host = Host()
        host.agree(0.004)
        if leaves:
            del host.members["app"]
        else:
            host.join("app", "o", attempt=2)
        host.agreements.correct()
        assert host.said() == [("o", GrowthChanged("app", 1, 0.0))]
        host.agreements.correct()
        assert host.said() == []


def test_a_new_leader_hears_what_the_one_before_had_booked_and_corrections_go_to_it() -> None:
    host = Host()
    host.agreements.tell(host.member)
    assert host.said() == [], "nothing was booked"
    host.agree(0.004)
    host.member.promise("successor", 1)
    host.agreements.tell(host.member)
    assert host.said() == [("successor", GrowthChanged("app", 1, 0.004))]
    host.grown["app"] = 0.001
    host.agreements.correct()
    assert host.said() == [("successor", GrowthChanged("app", 1, 0.001))]
    host.join("app", "successor", attempt=2)
    host.agreements.tell(host.members["app"])
    assert host.said() == [], "of another attempt nothing was booked"


def test_a_refusal_of_an_origin_is_the_answer_and_what_waits_is_asked_next() -> None:
    host = Host()
    host.grown["app"] = 0.004
    host.agreements.ask(host.member, "f", host.refusals.append)
    host.agreements.ask(host.member, "f", host.refusals.append)
    host.agreements.ask(host.member, "g", host.refusals.append)
    assert host.said() == [("o", GrowthAsked("app", 1, 0.004))], "one question at a time, and a duplicate is none"
    host.agreements.handlers[GrowthAnswered]("o", GrowthAnswered("app", 1, 0.1, 0.2, ""))  # to another question
    host.agreements.handlers[GrowthAnswered]("o", GrowthAnswered("app", 1, 0.004, 0.2, "too late for it"))
    assert host.refusals == ["too late for it"]
    assert host.said() == [("o", GrowthAsked("app", 1, 0.004))]
    host.agreements.handlers[GrowthAnswered]("o", GrowthAnswered("app", 1, 0.004, 0.2, ""))
    assert host.refusals == ["too late for it", ""]


def test_what_waits_for_a_session_that_was_left_is_dropped_and_the_next_is_asked() -> None:
    host = Host()
    other = host.join("other", "q")
    host.grown = {"app": 0.004}
    host.agreements.ask(host.member, "f", host.refusals.append)
    host.agreements.ask(other, "g", lambda _: host.refusals.append("never"))
    host.agreements.ask(host.member, "h", host.refusals.append)
    del host.members["other"]
    host.said()
    host.agreements.handlers[GrowthAnswered]("o", GrowthAnswered("app", 1, 0.004, 0.2, ""))
    assert host.refusals == ["", ""], "the third needs no question: the origin has agreed to that time"
