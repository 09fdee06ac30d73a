"""Probes at their origin: what a round sends, which answers count, which graph is chosen, and when it is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.algorithms.composition._origin import RECORDED
from synergy_nb.algorithms.composition.messages import (
    UNIT,
    Acknowledged,
    Dropped,
    Merged,
    Probe,
    ProbedRequest,
    Release,
    Returned,
    decode_request,
)
from synergy_nb.control.graph import Hop
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    AttemptFailed,
    DeploymentConsidered,
    GraphEvaluated,
    GraphSelected,
    ProbeDropped,
    ProbingEnded,
)
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.decider import Decision, Refusal, component_name
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from tests.composition.plans import chain
from tests.one_peer import OnePeer

CONFIG = CompositionConfig(ratio=0.1)


class Origin:
    """The origin v of a request for one component, which x and y have; the source is at a, the sink at v."""

    def __init__(self, *, able: tuple[str, ...] = ("x", "y"), delay: str = "2 s", spread: bool = False, **config: Any):
        self.one = OnePeer("v", composition=msgspec.structs.replace(CONFIG, **config))
        self.plan: Plan = chain(100.0, delay, 1, "1 ms")
        self.request = Request("r", self.plan, "composed", 0.0, spread=spread)
        self.request.alternatives = []
        self.decider = self.one.synergy.composition
        self.answers: list[Decision | Refusal] = []
        self.able = able
        self.decide()

    def decide(self) -> None:
        found: dict[str, tuple[Entry, ...]] = {}
        for name, each in self.plan.operators.items():
            if each.kind != "sink":
                hosts = ("a",) if each.kind == "source" else self.able
                named = component_name(self.plan, name)
                found[named] = tuple(Entry(named, host, "component", {}, 60.0) for host in hosts)
        self.one.call(self.decider.decide, self.request, found, self.decided)

    def decided(self, request: Request, answer: Decision | Refusal) -> None:
        assert request is self.request
        self.answers.append(answer)

    def probed(self) -> tuple[str, Probe, ProbedRequest]:
        """The probe that the present round has sent: to whom, and of what."""
        ((to, probe),) = self.one.sent(Probe)
        self.one.receive(
            to, Acknowledged("r", decode_request(probe.request)[0].attempt, {probe.operator: probe.weight})
        )
        return to, probe, decode_request(probe.request)[0]

    def path(self, at: str, capacity: float = 1.0, processing: float = 0.001) -> tuple[Hop, ...]:
        return (
            Hop("source", "a", 1.0, 1e6, 0.0, 0.0),
            Hop("o0", at, capacity, 1e6, processing, 0.01),
            Hop("sink", "v", 1.0, 1e6, 0.0, 0.01),
        )

    def returns(self, at: str, *, attempt: int = 1, weight: int = UNIT // 2, **measured: float) -> None:
        path = self.path(at, **measured)
        self.one.receive(path[-1].peer, Returned("r", attempt, path, weight))

    def drops(
        self, at: str, condition: str = "processing capacity", *, attempt: int = 1, weight: int = UNIT // 2
    ) -> None:
        self.one.receive(at, Dropped("r", attempt, "o0", at, condition, 0.1, 0.05, ("a",), weight))

    def peers(self) -> list[str]:
        """Where o0 is in each decision."""
        return [each.roles.peers["o0"] for each in self.answers if isinstance(each, Decision)]

    def refusals(self) -> list[Refusal]:
        return [each for each in self.answers if isinstance(each, Refusal)]

    def released(self) -> dict[str, int]:
        return {to: message.attempt for to, message in self.one.sent(Release)}


def test_a_round_begins_at_the_source_with_all_candidates() -> None:
    origin = Origin()
    to, probe, request = origin.probed()
    assert (to, probe.operator, probe.path, probe.weight, probe.budget) == ("a", "source", (), UNIT, CONFIG.budget)
    assert request.candidates == {"source": ("a",), "o0": ("x", "y"), "sink": ("v",)}
    assert (request.request, request.attempt, request.origin) == ("r", 1, "v")
    assert (request.ratio, request.at_least, request.choice) == (0.1, CONFIG.at_least, "balanced")
    assert (request.deploy, request.stage, request.merged, request.summed) == ((), 0, "", False)
    spread = Origin(spread=True, merged=True).probed()[2]
    assert (spread.choice, spread.merged) == ("apart", "")
    assert Origin(merged=True).probed()[2].merged == "balance"


def test_it_decides_as_soon_as_all_probes_are_back_and_takes_the_graph_of_least_use() -> None:
    origin = Origin()
    origin.returns("y", capacity=0.5)
    assert origin.answers == []
    origin.returns("x")
    (decision,) = origin.answers
    assert isinstance(decision, Decision)
    assert decision.roles == Roles({"source": "a", "o0": "x", "sink": "v"})
    assert decision.reached == pytest.approx({"source": 0.0, "o0": 0.011, "sink": 0.021})
    assert decision.promised == {}
    (noted,) = origin.one.noted(ProbingEnded)
    assert (noted.attempt, noted.paths, noted.dropped, noted.graphs, noted.qualified, noted.complete) == (
        1,
        2,
        0,
        2,
        2,
        True,
    )
    (chosen,) = origin.one.noted(GraphSelected)
    assert chosen.peers["o0"] == "x"
    assert chosen.delay_s == pytest.approx(0.021)
    assert len(origin.one.noted(GraphEvaluated)) == 2
    origin.one.wait(CONFIG.probing + 1.0)
    origin.returns("y", capacity=9.0)
    assert origin.peers() == ["x"]


def test_within_the_tolerance_the_faster_graph_is_taken_and_with_the_other_objective_always() -> None:
    for tolerance, capacity, objective, taken in (
        (0.5, 0.9, "balance", "y"), (0.0, 0.9, "balance", "x"), (0.02, 0.15, "balance", "x"), (0.0, 0.15, "delay", "y"),
    ):  # fmt: skip
        origin = Origin(tolerance=tolerance, objective=objective)
        origin.returns("x", processing=0.002)
        origin.returns("y", capacity=capacity)
        assert origin.peers() == [taken]


def test_a_graph_by_chance_depends_on_the_request_and_not_on_the_order_of_answers() -> None:
    taken = []
    for order in (("x", "y"), ("y", "x")):
        origin = Origin(objective="chance")
        for at in order:
            origin.returns(at, capacity=1.0 if at == "x" else 0.2)
        taken += origin.peers()
    assert len(taken) == 2
    assert len(set(taken)) == 1


def test_the_journal_has_the_first_dropped_probes_of_a_round() -> None:
    origin = Origin()
    origin.probed()
    for number in range(RECORDED + 2):
        origin.drops(f"p{number}", weight=1)
    assert [each.at for each in origin.one.noted(ProbeDropped)] == [f"p{number}" for number in range(RECORDED)]
    origin.one.wait(CONFIG.probing + 0.1)
    assert [each.dropped for each in origin.one.noted(ProbingEnded)] == [RECORDED + 2]


def test_a_plan_that_is_spread_takes_the_graph_of_most_peers() -> None:
    origin = Origin(able=("v", "y"), spread=True)
    origin.returns("v")
    origin.returns("y", capacity=0.2)
    assert origin.peers() == ["y"]
    near = Origin(able=("v", "y"))
    near.returns("v")
    near.returns("y", capacity=0.2)
    assert near.peers() == ["v"]


def test_a_path_that_is_returned_twice_counts_once_and_answers_of_other_rounds_do_not() -> None:
    origin = Origin()
    for attempt in (0, 2):
        origin.returns("x", attempt=attempt, weight=UNIT)
        origin.drops("x", attempt=attempt, weight=UNIT)
        origin.one.receive("x", Merged("r", attempt, origin.path("x"), UNIT), Merged("q", 1, origin.path("x"), UNIT))
    origin.returns("x")
    origin.returns("x")
    assert origin.answers == []
    origin.one.receive("y", Merged("r", 1, origin.path("y")[:2], UNIT // 2))
    assert origin.peers() == ["x"], "a path that ended where another one was as good"


def test_what_is_not_back_in_time_is_not_waited_for() -> None:
    origin = Origin()
    origin.probed()
    origin.returns("y")
    origin.one.wait(CONFIG.probing - 0.01)
    assert origin.answers == []
    origin.one.wait(0.02)
    assert origin.peers() == ["y"]
    assert [each.complete for each in origin.one.noted(ProbingEnded)] == [False]


def test_the_limit_of_a_round_that_is_over_does_not_end_the_next_one() -> None:
    origin = Origin(deployment="off", attempts=2)
    origin.probed()
    origin.one.wait(0.8 * CONFIG.probing)
    origin.drops("x", weight=UNIT)
    origin.answers.clear()
    origin.decide()
    origin.probed()
    origin.one.wait(0.4 * CONFIG.probing)
    assert origin.answers == []
    origin.one.wait(0.7 * CONFIG.probing)
    assert [each.reason for each in origin.refusals()] == ["no probe has returned in time"]


def test_a_graph_that_cannot_be_set_up_gives_way_to_the_next_and_then_another_round_is_asked_for() -> None:
    origin = Origin()
    origin.returns("y", capacity=0.5)
    origin.returns("x")
    origin.one.call(origin.decider.next, origin.request, "x: it is full", origin.decided)
    assert origin.peers() == ["x", "y"]
    origin.one.call(origin.decider.next, origin.request, "y: it is full", origin.decided)
    (refusal,) = origin.refusals()
    assert (refusal.reason, refusal.retry, refusal.missing) == ("y: it is full", True, False)
    assert origin.released() == {"a": 1, "x": 1, "y": 1}
    assert [each.reason for each in origin.one.noted(AttemptFailed)] == ["y: it is full"]


def test_of_one_attempt_no_more_graphs_are_tried_than_stated() -> None:
    origin = Origin(tries=1)
    origin.returns("x")
    origin.returns("y")
    origin.one.call(origin.decider.next, origin.request, "it is full", origin.decided)
    assert len(origin.peers()) == 1
    assert [each.retry for each in origin.refusals()] == [True]


def test_graphs_with_dead_peers_are_passed_over() -> None:
    origin = Origin()
    origin.returns("x")
    origin.one.loses("x")
    origin.returns("y", capacity=0.5)
    assert origin.peers() == ["y"]


def test_the_next_round_has_twice_the_probes_and_after_the_last_new_components_are_considered() -> None:
    origin = Origin()
    origin.drops("x")
    origin.drops("y")
    (first,) = origin.refusals()
    assert first.retry
    assert (
        first.reason == "operator o0: processing capacity at 2 peers, at best 0.05 cores where 0.1 cores are needed (x)"
    )
    assert first.refused_by == {"x", "y"}
    assert [(each.at, each.condition) for each in origin.one.noted(ProbeDropped)] == [
        ("x", "processing capacity"), ("y", "processing capacity"),
    ]  # fmt: skip
    origin.probed()
    origin.decide()
    _, probe, request = origin.probed()
    assert (request.attempt, request.ratio, request.at_least, probe.budget) == (
        2,
        0.2,
        2 * CONFIG.at_least,
        2 * CONFIG.budget,
    )
    origin.drops("x", attempt=2)
    origin.drops("y", attempt=2)
    assert [each.retry for each in origin.refusals()] == [True, True]
    origin.decide()
    (noted,) = origin.one.noted(DeploymentConsidered)
    assert (noted.operators, noted.stage) == (["o0"], 1)
    ((_, probe),) = origin.one.sent(Probe)
    request = decode_request(probe.request)[0]
    assert (request.deploy, request.stage, request.ratio) == (("o0",), 1, 0.2)


def test_where_no_new_component_may_be_deployed_it_is_refused_after_the_last_round() -> None:
    origin = Origin(deployment="off", attempts=1)
    origin.drops("x", "delay")
    origin.drops("y")
    (refusal,) = origin.refusals()
    assert (refusal.retry, refusal.refused_by, refusal.unanswered) == (False, frozenset("y"), False), (
        "a delay is of the path"
    )
    assert origin.released() == {}, "its record is released by whoever has asked"
    origin.one.call(origin.decider.release, origin.request)
    assert origin.released() == {"a": 1, "x": 1, "y": 1}
    assert origin.request.rounds == 1
    origin.one.call(origin.decider.release, origin.request)
    assert origin.released() == {}


def test_a_missing_component_is_named_where_none_may_be_deployed_and_deployed_where_it_may() -> None:
    refused = Origin(able=(), deployment="off")
    (refusal,) = refused.refusals()
    assert (refusal.missing, refusal.retry, refusal.unanswered) == (True, False, False)
    assert refusal.reason.startswith("o0: no component offers 'delay")
    assert refused.one.sent(Probe) == []
    deployed = Origin(able=())
    assert (deployed.probed()[2].deploy, deployed.answers) == (("o0",), [])


@pytest.mark.parametrize(("condition", "unanswered"), [("acknowledgement", True), ("processing capacity", False)])
def test_silence_is_no_refusal(condition: str, unanswered: bool) -> None:
    origin = Origin(deployment="off", attempts=1)
    origin.drops("x", condition)
    origin.drops("y", "acknowledgement")
    assert [each.unanswered for each in origin.refusals()] == [unanswered]
    silent = Origin(deployment="off", attempts=1)
    silent.probed()
    silent.one.wait(CONFIG.probing + 0.1)
    assert [(each.reason, each.unanswered) for each in silent.refusals()] == [("no probe has returned in time", True)]


def test_a_refusal_names_each_condition_with_the_peer_that_was_nearest_to_it_and_who_was_silent() -> None:
    origin = Origin(deployment="off", attempts=1)
    origin.drops("x", "acknowledgement", weight=UNIT // 4)
    origin.drops("y", "acknowledgement", weight=UNIT // 4)
    origin.drops("y", "processing capacity")
    (refusal,) = origin.refusals()
    assert refusal.reason == (
        "operator o0: no acknowledgement from x, y; "
        "operator o0: processing capacity at 1 peer, at best 0.05 cores where 0.1 cores are needed (y)"
    )


def test_a_graph_that_is_too_slow_does_not_qualify_and_the_limit_itself_does() -> None:
    for limit, qualifies in (("21 ms", True), ("20 ms", False)):
        origin = Origin(delay=limit, deployment="off", attempts=1)
        origin.returns("x", weight=UNIT)
        assert bool(origin.peers()) is qualifies
        assert [each.reason for each in origin.refusals()] == (
            []
            if qualifies
            else ["the selection conditions hold for none of the composed graphs: delay 0.021 s exceeds 0.02 s (2.2)"]
        )


def test_the_promised_times_are_given_where_origins_have_to_agree() -> None:
    origin = Origin(agreed=True)
    origin.returns("x", weight=UNIT)
    ((decision),) = origin.answers
    assert isinstance(decision, Decision)
    assert decision.promised == {"source": 0.0, "o0": 0.001, "sink": 0.0}


def test_a_proposal_is_checked_with_its_peers_alone_and_keeps_its_backups() -> None:
    origin = Origin()
    origin.one.sent(Probe)
    proposed = Roles({"source": "a", "o0": "y", "sink": "v"}, {"o0": ("x",)})
    origin.one.call(origin.decider.probe, origin.request, proposed, origin.decided)
    request = origin.probed()[2]
    assert (request.attempt, request.candidates) == (2, {"source": ("a",), "o0": ("y",), "sink": ("v",)})
    origin.returns("y", attempt=2, weight=UNIT)
    (decision,) = origin.answers
    assert isinstance(decision, Decision)
    assert decision.roles == proposed


def test_what_runs_releases_what_was_reserved_for_the_other_graphs() -> None:
    origin = Origin()
    origin.returns("x")
    origin.returns("y", capacity=0.5)
    origin.one.call(origin.decider.established, origin.request)
    assert origin.released() == {"a": 1, "x": 1, "y": 1}
    origin.returns("y", capacity=9.0)
    assert origin.peers() == ["x"]
