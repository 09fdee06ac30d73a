"""The origin of a placement: what it begins, what reports do to it, how often it tries, and what it renews."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.availability.messages import (
    PlacementDecision,
    PlacementNegotiation,
    PlacementRenewal,
    PlacementReply,
    PlacementReport,
    PlacementRequest,
    PlacementWithdrawn,
    decode_task,
)
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    DegreeChosen,
    PlacementAttemptFailed,
    PlacementBegun,
    PlacementCompleted,
    PlacementFailed,
    PlacementReleased,
    PlacementSubmitted,
    ReplicasLost,
)
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from tests.availability.lines import begin, chain
from tests.availability.placement_peer import PlacementPeer

CONFIG = PlacementConfig()
WHOLE = Roles({"source": "a", "o0": "x", "o1": "y", "sink": "v"}, {"o0": ("y",), "o1": ("x",)})


class Origin(PlacementPeer):
    """The origin v of a placement of two components that x, y and w can have; the source is at a."""

    def __init__(self, plan: Plan | None = None, able: tuple[str, ...] = ("w", "x", "y"), **asked: Any) -> None:
        super().__init__("v", placement=asked.pop("config", CONFIG))
        self.plan = plan or chain(2, at=None)
        self.outcome: list[tuple[Roles | None, str]] = []
        self.able = able
        given = {"degree": 2} if "target" not in asked else {}
        self.call(
            self.placement.submit, "r", self.plan, lambda *found: self.outcome.append(found),
            **{**given, "found": self.entries(), **asked},
        )  # fmt: skip

    def entries(self) -> dict[str, tuple[Entry, ...]]:
        found: dict[str, tuple[Entry, ...]] = {}
        for name, each in self.plan.operators.items():
            if each.kind != "sink":
                hosts = ("a",) if each.kind == "source" else self.able
                named = component_name(self.plan, name)
                found[named] = tuple(Entry(named, host, "component", {"peer": f"name-{host}"}, 60.0) for host in hosts)
        return found

    def begun(self) -> int:
        """Number of the attempt that has begun last."""
        return self.noted(PlacementBegun)[-1].attempt

    def reports(self, attempt: int, graph: Roles, *, by: str = "x", reason: str = "", silent: str = "") -> None:
        self.receive(by, PlacementReport(3, "r", attempt, "o0", graph, reason, silent))
        assert [(to, each.number, each.accepted) for to, each in self.sent(PlacementReply)] == [(by, 3, True)]

    def fails(self) -> list[str]:
        return [each.reason for each in self.noted(PlacementAttemptFailed)]


# -- what it begins ----------------------------------------------------------------------------------------------------


def test_it_begins_at_the_source_with_the_candidates_of_all_and_the_sink_here() -> None:
    origin = Origin(degrees={"o1": 1})
    origin.surveyed()
    ((to, request),) = origin.sent(PlacementRequest)
    assert (to, request.operator, request.graph) == ("a", "source", Roles())
    task, _ = decode_task(request.task)
    assert (task.request, task.origin, task.degree, task.degrees) == ("r", "v", 2, {"o1": 1})
    assert task.candidates == {"source": ("a",), "o0": origin.able, "o1": origin.able, "sink": ("v",)}
    assert (task.pinned, task.stuck) == ({"sink": "v"}, ())
    (submitted,) = origin.noted(PlacementSubmitted)
    assert (submitted.subject, submitted.plan, submitted.degree, submitted.availability) == ("r", "out", 2, None)
    (noted,) = origin.noted(PlacementBegun)
    assert (noted.attempt, noted.degree, noted.candidates) == (
        task.attempt,
        2,
        {"source": 1, "o0": 3, "o1": 3, "sink": 1},
    )
    assert task.attempt > 1000, "greater than that of any attempt before, also before a restart"
    assert origin.placement.pending == {"r"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"degree": None}, "degree, target: None, None; expected one of them"),
        ({"target": 0.9, "degree": 2}, "degree, target: 2, 0.9; expected one of them"),
        ({"degree": 0}, "degree: 0; expected at least 1"),
        ({"target": 1.0}, "target: 1.0; expected an availability from 0 to less than 1"),
        ({"target": -0.1}, "target: -0.1; expected an availability"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Origin(**given)


def test_a_request_is_placed_once_and_a_plan_needs_an_operator_to_replicate() -> None:
    origin = Origin()
    with pytest.raises(ValueError, match="request: 'r'; expected an identifier that is not in use"):
        origin.placement.submit("r", origin.plan, lambda *_: None, degree=2)
    with pytest.raises(ValueError, match="has sources and sinks alone"):
        Origin(begin(None).sink("out"))


@pytest.mark.parametrize("degree", [1, 3])
def test_the_least_and_the_greatest_degree_are_begun(degree: int) -> None:
    assert Origin(degree=degree).begun()


def test_what_has_no_peer_ends_the_request_and_is_named() -> None:
    several = Origin(degree=4)
    assert several.outcome == [(None, "degree: 4; expected at most 3, the peers that can have o0")]
    assert [each.reason for each in several.noted(PlacementFailed)] == [several.outcome[0][1]]
    assert several.placement.pending == frozenset()
    own = Origin(degrees={"o1": 4})
    assert own.outcome == [(None, "degree: 4; expected at most 3, the peers that can have o1")]
    nobody = Origin(able=())
    assert nobody.outcome == [(None, "operator o0: no peer that answers has its component")]


def test_operators_are_pinned_by_address_or_by_name_to_a_peer_that_has_the_component() -> None:
    for at, found in (("a", "a"), ("name-a", "a"), ("x", None), ("nobody", None)):
        origin = Origin(chain(2, at=at))
        if found is None:
            assert origin.outcome == [(None, f"operator source: no peer {at} has its component")]
        else:
            assert origin.noted(PlacementBegun)[0].pinned == {"source": "a", "sink": "v"}
    elsewhere = Origin(begin(None).delay("500 us", id="o0").sink("out", at="x"))
    assert elsewhere.noted(PlacementBegun)[0].pinned == {"sink": "x"}


def test_dead_peers_are_no_candidates() -> None:
    origin = Origin(degree=4)
    origin.loses("w")
    again = {"degree": 3, "found": origin.entries()}
    origin.call(origin.placement.submit, "r", origin.plan, lambda *each: origin.outcome.append(each), **again)
    assert origin.outcome[-1] == (None, "degree: 3; expected at most 2, the peers that can have o0")


def test_a_directory_that_does_not_answer_ends_the_request() -> None:
    origin = Origin(found=None)
    origin.wait(CONFIG.discovery * 3)
    assert origin.outcome == [(None, "the directory did not answer in time")]


# -- reports -----------------------------------------------------------------------------------------------------------


def test_it_is_placed_when_the_reports_have_all_primaries_and_all_backups() -> None:
    origin = Origin()
    attempt = origin.begun()
    parts = (
        Roles({"source": "a", "o0": "x"}),
        Roles({"source": "a", "o0": "x", "o1": "y", "sink": "v"}, {"o0": ("y",)}),
    )
    for part in parts:
        origin.reports(attempt, part)
        assert origin.outcome == []
    origin.reports(attempt, Roles(WHOLE.peers, {"o1": ("x",)}), by="y")
    assert origin.outcome == [(WHOLE, "")]
    (noted,) = origin.noted(PlacementCompleted)
    assert (noted.primaries, noted.backups, noted.availability) == (WHOLE.peers, {"o0": ["y"], "o1": ["x"]}, None)
    assert (origin.placement.graph("r"), origin.placement.attempt("r")) == (WHOLE, attempt)
    assert origin.placement.pending == frozenset()
    assert origin.fails() == []
    origin.wait(CONFIG.placement + 1.0)
    assert origin.outcome == [(WHOLE, "")]


def test_late_reports_are_answered_and_change_nothing() -> None:
    origin = Origin()
    attempt = origin.begun()
    origin.reports(attempt - 1, WHOLE)
    origin.reports(attempt + 1, WHOLE)
    assert origin.outcome == []
    origin.reports(attempt, WHOLE)
    origin.reports(attempt, Roles(), reason="it was full")
    assert origin.outcome == [(WHOLE, "")]
    assert origin.fails() == []


def test_a_placement_is_renewed_at_all_its_peers_until_it_is_released() -> None:
    origin = Origin()
    attempt = origin.begun()
    origin.reports(attempt, WHOLE)
    expected = {
        ("a", PlacementRenewal("r", attempt, ("source",))),
        ("x", PlacementRenewal("r", attempt, ("o0", "o1"))),
        ("y", PlacementRenewal("r", attempt, ("o0", "o1"))),
    }
    assert set(origin.sent(PlacementRenewal)) == expected
    origin.wait(CONFIG.refresh - 0.01)
    assert origin.sent(PlacementRenewal) == []
    origin.wait(0.02)
    assert set(origin.sent(PlacementRenewal)) == expected
    released: list[bool] = []
    for _ in range(2):
        origin.call(lambda: released.append(origin.placement.release("r")))
    assert released == [True, False]
    assert origin.sent(PlacementWithdrawn) == [(to, PlacementWithdrawn("r", attempt, "")) for to in ("a", "x", "y")]
    assert len(origin.noted(PlacementReleased)) == 1
    origin.wait(3 * CONFIG.refresh)
    assert origin.sent(PlacementRenewal) == []


def test_who_leads_on_renews_and_who_led_before_forgets_without_a_release() -> None:
    origin = PlacementPeer("v")
    origin.call(origin.placement.inherit, "r", 77, WHOLE)
    assert {to for to, each in origin.sent(PlacementRenewal) if each.attempt == 77} == {"a", "x", "y"}
    assert origin.placement.attempt("r") == 77
    origin.call(origin.placement.forget, "r")
    origin.wait(3 * CONFIG.refresh)
    assert origin.sent(PlacementRenewal) == []
    assert origin.sent(PlacementWithdrawn) == []
    assert (origin.placement.attempt("r"), origin.placement.graph("r")) == (0, None)


# -- failure -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("silent", "stuck", "able"), [("x", (), ("w", "y")), ("", ("y",), ("w", "x", "y"))])
def test_an_attempt_that_fails_is_withdrawn_and_the_next_goes_without_who_is_to_blame(
    silent: str, stuck: tuple[str, ...], able: tuple[str, ...]
) -> None:
    origin = Origin()
    first = origin.begun()
    origin.surveyed()
    origin.sent(PlacementRequest)
    origin.reports(first, Roles({"source": "a", "o0": "x"}), by="y", reason="why", silent=silent)
    assert origin.fails() == ["why"]
    assert origin.sent(PlacementWithdrawn) == [(to, PlacementWithdrawn("r", first, "")) for to in ("a", "x")]
    origin.reports(first, WHOLE)
    assert origin.outcome == []
    origin.wait(CONFIG.answer)
    origin.surveyed()
    (noted,) = origin.noted(PlacementBegun)
    assert noted.attempt > first
    task, _ = decode_task(origin.sent(PlacementRequest)[0][1].task)
    assert (task.candidates["o0"], task.stuck) == (able, stuck)


def test_after_the_last_attempt_the_request_is_refused_with_the_last_reason() -> None:
    origin = Origin()
    for number in range(CONFIG.attempts):
        assert origin.outcome == []
        origin.reports(origin.begun(), Roles(), reason=f"reason {number}")
        origin.wait(CONFIG.answer + 0.1)
    assert origin.outcome == [(None, "reason 2")]
    assert origin.noted(PlacementBegun) == []
    assert origin.placement.pending == frozenset()


def begun(plan: Plan | None = None) -> Origin:
    """An origin whose source has a host that has accepted it, and been told that it is decided."""
    origin = Origin(plan)
    origin.surveyed()
    ((to, request),) = origin.sent(PlacementRequest)
    origin.receive(to, PlacementReply(request.number, True, ""))
    ((to, decision),) = origin.sent(PlacementDecision)
    origin.receive(to, PlacementReply(decision.number, True, ""))
    return origin


def test_an_attempt_has_its_time_and_names_what_is_missing() -> None:
    origin = begun()
    origin.reports(origin.begun(), Roles({"source": "a", "o0": "x"}, {"o0": ("y",)}))
    origin.wait(CONFIG.placement - 0.1)
    assert origin.fails() == []
    origin.wait(0.2)
    assert origin.fails() == ["not placed in time: o1"]
    late = begun()
    late.reports(late.begun(), Roles({"source": "a", "o0": "x", "o1": "y"}, {"o0": ("y",), "o1": ("x",)}))
    late.wait(CONFIG.placement + 0.1)
    assert late.fails() == ["not placed in time: sink"]
    many = begun(chain(6, at=None))
    many.wait(CONFIG.placement + 0.1)
    assert many.fails() == ["not placed in time: o0, o1, o2, o3"]


def test_a_death_ends_the_attempt_that_needs_the_peer_and_of_a_placement_it_is_noted() -> None:
    origin = Origin()
    attempt = origin.begun()
    origin.reports(attempt, Roles({"source": "a", "o0": "x"}))
    origin.loses("w")
    assert origin.fails() == []
    origin.loses("x")
    assert origin.fails() == ["x died"]
    origin.wait(CONFIG.answer + 0.1)
    assert origin.noted(PlacementBegun)[-1].candidates["o0"] == 2
    placed = Origin()
    placed.reports(placed.begun(), WHOLE)
    placed.loses("w")
    placed.loses("y")
    assert [(each.at, each.replicas) for each in placed.noted(ReplicasLost)] == [
        ("y", {"o0": "backup", "o1": "primary"})
    ]
    assert placed.placement.graph("r") == WHOLE


def test_a_pinned_peer_that_has_died_is_named() -> None:
    origin = Origin(chain(2, at="a"))
    origin.reports(origin.begun(), Roles({"source": "a"}))
    origin.loses("a")
    origin.wait(CONFIG.answer + 0.1)
    assert origin.outcome == [(None, "operator source: a, where it has to be, has died")]


def test_what_is_being_placed_is_aborted_by_a_release() -> None:
    origin = Origin()
    attempt = origin.begun()
    origin.reports(attempt, Roles({"source": "a"}))
    origin.call(origin.placement.release, "r")
    assert origin.sent(PlacementWithdrawn) == [("a", PlacementWithdrawn("r", attempt, ""))]
    origin.reports(attempt, WHOLE)
    origin.wait(CONFIG.placement + 1.0)
    assert origin.outcome == []
    assert origin.fails() == []


def test_peers_are_watched_while_an_attempt_needs_them() -> None:
    origin = Origin()
    watched = origin.synergy.membership.watched
    attempt = origin.begun()
    for _ in range(2):
        origin.reports(attempt, Roles({"source": "a", "o0": "x"}))
    assert watched == {"a": 1, "x": 1}
    origin.reports(attempt, WHOLE)
    assert watched == {}


# -- an availability that is asked for ---------------------------------------------------------------------------------


def test_the_least_degree_is_chosen_and_the_next_where_the_placement_has_less() -> None:
    """Each peer fails with a hundredth; two pairs of peers, one of them in both, have less than one pair has."""
    origin = Origin(target=0.99985)
    assert origin.surveyed() == ["w", "x", "y"]
    assert [(each.degree, each.availability) for each in origin.noted(DegreeChosen)] == [(2, 0.99985)]
    origin.reports(origin.begun(), Roles(WHOLE.peers, {"o0": ("y",), "o1": ("w",)}))
    (noted,) = origin.noted(PlacementCompleted)
    assert noted.availability == pytest.approx(1.0 - 2 * 0.01**2 + 0.01**3)
    assert origin.fails() == ["availability 0.999801 is less than 0.99985, for peers had no room for more"]
    origin.wait(CONFIG.answer + 0.1)
    assert (origin.outcome, origin.noted(PlacementBegun)[-1].degree) == ([], 3)
    enough = Origin(target=0.99985)
    enough.surveyed()
    enough.reports(enough.begun(), WHOLE)
    assert enough.outcome == [(WHOLE, "")]


def test_where_no_higher_degree_is_left_the_request_is_refused_with_what_it_would_have() -> None:
    origin = Origin(target=0.99985, able=("x", "y"))
    origin.surveyed()
    origin.reports(origin.begun(), Roles(WHOLE.peers, {"o0": (), "o1": ("x",)}))
    (reason,) = origin.fails()
    assert reason.startswith("availability 0.99 is less than 0.99985")
    assert origin.outcome == [(None, reason)]


def test_an_availability_that_no_degree_reaches_is_refused_at_once() -> None:
    origin = Origin(target=0.99999999, able=("w", "x"))
    origin.surveyed()
    ((graph, reason),) = origin.outcome
    assert graph is None
    assert "0.9999" in reason
    assert origin.noted(PlacementBegun) == []


def test_who_answers_no_survey_is_no_candidate() -> None:
    origin = Origin(target=0.9, able=("w", "x", "y"))
    origin.silent = frozenset({"y"})
    origin.surveyed()
    origin.wait(CONFIG.survey + 0.1)
    (noted,) = origin.noted(PlacementBegun)
    assert noted.candidates["o0"] == 2


# -- negotiations by the origin ----------------------------------------------------------------------------------------


def test_a_list_for_a_host_that_is_not_known_yet_waits_for_it_and_then_goes_there() -> None:
    first, second = begin(None, "s1").delay("500 us", id="o0"), begin(None, "s2").delay("500 us", id="o1")
    origin = Origin(first.union(second, id="u", cost="500 us").sink("out"))
    origin.surveyed()
    data, attempt = origin.sent(PlacementRequest)[0][1].task, origin.begun()
    listed = PlacementNegotiation(9, data, "u", "o1", Roles({"s2": "a", "o1": "y"}), ("w",))
    origin.receive("y", listed)
    assert origin.replies() == [("y", 9, "")]
    assert origin.sent(PlacementNegotiation) == []
    origin.reports(attempt, Roles({"s1": "a", "s2": "a"}))
    assert origin.sent(PlacementNegotiation) == []
    origin.reports(attempt, Roles({"s1": "a", "o0": "x"}))
    ((to, message),) = origin.sent(PlacementNegotiation)
    assert (to, message.operator, message.upstream, message.candidates) == ("x", "u", "o1", ("w",))
    origin.receive("y", listed)
    assert [each for each, _ in origin.sent(PlacementNegotiation)] == ["x"]
