"""Hot spots: who acts, what leaves, where to, and what peers journal of it; whole peers in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from synergy_nb import Cluster
from synergy_nb.algorithms.migration.messages import MigrationReply
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import PredictionsMade, StopApplication
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction
from synergy_nb.events import (
    ComponentMoved,
    Event,
    HotSpotDetected,
    HotSpotDismissed,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
    MigrationProjected,
    MoveBegun,
    MoveGivenUp,
)
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.overlay.pastry import Leaving
from synergy_nb.plan import Plan, plan, source
from synergy_nb.runtime.process.starting import _config
from tests.loaded import Loaded, chain, rising, with_a_strict_target
from tests.moving import lost, move
from tests.quick_cases import quick_first
from tests.simulated import Ring

E = TypeVar("E", bound=Event)
START = 30.0


def configured(**changes: object) -> PeerConfig:
    return PeerConfig(hotspots=HotSpotConfig(**changes))  # type: ignore[arg-type]


def seconds(ring: Loaded, many: int) -> None:
    for _ in range(many):
        ring.second()


def journaled(ring: Loaded, kind: type[E]) -> list[E]:
    return [event for event in ring.simulation.journal if isinstance(event, kind)]


def place(ring: Loaded, application: str, operator: str) -> str:
    (found,) = (peer for peer, app, op in ring.deployed if (app, op) == (application, operator))
    return found


def test_a_rising_rate_has_one_component_move_and_both_applications_are_in_time() -> None:
    ring = Loaded(6, 1)
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    ring.start("a", chain(0.12), where, lambda _now: 300.0)
    ring.start("b", chain(0.12), where, rising(100.0, 700.0, START))
    seconds(ring, 10)
    assert not journaled(ring, HotSpotDetected), "no hot spot before the rate has risen"
    seconds(ring, 20)
    (moved,) = journaled(ring, ComponentMoved)
    assert moved.operator == "f0"
    assert moved.at == "peer-2"
    assert place(ring, "a", "f0") != place(ring, "b", "f0")
    (ended,) = journaled(ring, MigrationEnded)
    assert (ended.failure, ended.target) == ("", moved.to)
    decided = journaled(ring, MigrationDecided)[0]
    assert decided.rate > decided.remaining_rate
    assert all(slack > 0 for slack in decided.slacks.values())
    detected = journaled(ring, HotSpotDetected)[0]
    assert detected.slack <= 0.0
    assert detected.slack == pytest.approx(detected.departure_limit - detected.age - detected.predicted)
    assert detected.predicted == pytest.approx(detected.intercept + detected.slope * 1000.0)


class Behind(Loaded):
    """A peer that has to execute what waits there: ``queue`` has its seconds, ``late`` the age of what comes in."""

    def __init__(self, peers: int, seed: int) -> None:
        self.queue = self.late = 0.0
        super().__init__(peers, seed)

    def age(self, application: str, operator: str) -> float:
        return super().age(application, operator) + self.late

    def _prediction(self, address: str, application: str, operator: str) -> Prediction:
        made = super()._prediction(address, application, operator)
        if address != "peer-2":
            return made
        predicted = self.queue if journaled(self, ComponentMoved) else made.predicted
        return msgspec.structs.replace(made, measured=self.queue, predicted=max(predicted, made.predicted))


def busy(ring: Loaded) -> None:
    """Two applications at a peer: the rate of the one that has to stay rises to a utilisation of .9."""
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    stream = source("packets", rate=10.0, at="peer-1", id="source")
    pinned = stream.filter("bytes > 0", cost="1 ms", id="f0", at="peer-2")
    ring.start("a", chain(0.14), where, lambda _now: 300.0, tau=1e-3)
    ring.start("b", pinned.sink(id="sink", delay=0.14), where, rising(100.0, 900.0, START))
    until(ring, START)


def test_while_the_queue_drains_nothing_is_decided_unless_the_load_exceeds_the_peer_again() -> None:
    ring = Behind(6, 1)
    ring.queue = 0.8  # eight seconds to drain
    busy(ring)
    seconds(ring, 2)
    assert [each.failure for each in journaled(ring, MigrationEnded)] == [""]
    detected = len(journaled(ring, HotSpotDetected))
    seconds(ring, 5)
    assert len(journaled(ring, HotSpotDetected)) == detected
    ring.rates["b"] = lambda _now: 1100.0
    seconds(ring, 1)
    assert len(journaled(ring, HotSpotDetected)) > detected


def test_nothing_moves_because_of_tuples_that_come_too_late_for_any_peer() -> None:
    """After a take-over, or where a source has stood still, tuples are older than their limit on arrival."""
    ring = Behind(6, 1)
    ring.late = 1.0
    busy(ring)
    seconds(ring, 3)
    (dismissed, *_) = journaled(ring, HotSpotDismissed)
    assert dismissed.reason == f"tuples come too late to f0 of {dismissed.subject} for any peer"
    assert not journaled(ring, MigrationDecided)
    ring.late = 0.0
    seconds(ring, 3)
    assert [each.failure for each in journaled(ring, MigrationEnded)] == [""], "nobody counts as unable to help"


def test_an_application_whose_tuples_come_too_late_does_not_restrict_the_others() -> None:
    ring = Behind(3, 1)
    ring.start("late", chain(0.01), {"source": "peer-1", "f0": "peer-0", "sink": "peer-0"}, lambda _now: 50.0)
    ring.start("more", chain(0.01), {"source": "peer-1", "f0": "peer-1", "sink": "peer-0"}, lambda _now: 50.0)
    busy(ring)
    seconds(ring, 3)
    assert {each.subject for each in journaled(ring, HotSpotDismissed)} >= {"late"}
    assert [(each.subject, each.failure) for each in journaled(ring, MigrationEnded)] == [("a", "")]


def hot(
    ring: Loaded, rate: float = 700.0, *, even: float = 300.0, at: str = "peer-2", names: tuple[str, str] = ("a", "b")
) -> None:
    """Two applications at a peer, the second of which has a rate that rises."""
    where = {"source": "peer-1", "f0": at, "sink": "peer-0"}
    ring.start(names[0], chain(0.12), where, lambda _now: even)
    ring.start(names[1], chain(0.12), where, rising(100.0, rate, START))


def varying(seed: str) -> Callable[[float], float]:
    """A rate that is drawn anew each time."""
    drawn = random.Random(seed)
    return lambda _now: drawn.uniform(200.0, 380.0)


def until(ring: Loaded, when: float) -> None:
    while ring.simulation.now < when:
        ring.second()


def test_nothing_moves_while_the_risen_rate_still_fits() -> None:
    ring = Loaded(6, 1)
    hot(ring, 400.0)
    until(ring, 60.0)
    assert not journaled(ring, HotSpotDetected)


def test_a_target_whose_applications_would_lose_their_slack_refuses_and_the_next_one_is_asked() -> None:
    ring = with_a_strict_target()
    hot(ring)
    until(ring, 45.0)
    (begun, *_) = journaled(ring, MoveBegun)
    messages = [
        type(event)
        for event in ring.simulation.journal
        if isinstance(event, MigrationProjected | MigrationAnswered) and event.time <= begun.time
    ]
    assert messages == [MigrationProjected, MigrationAnswered] * 2, "two requests and two replies before the move"
    first, second = journaled(ring, MigrationAnswered)[:2]
    assert (first.target, first.accepted) == ("peer-0", False)
    assert "slack of" in first.reason
    refused = journaled(ring, MigrationProjected)[0]
    assert min(refused.slacks.values()) <= 0.0
    assert second.accepted
    assert place(ring, second.subject, "f0") == second.target
    (graph,) = {
        each.session.members[second.subject].graph.epoch
        for each in ring.synergy.values()
        if second.subject in each.session.members
    }
    assert graph == 4, "a move to the first began while that decided, and was given up; then one to the second"
    assert len(journaled(ring, MoveBegun)) == 1
    assert not journaled(ring, MoveGivenUp), "what the first one refused was no move yet"
    assert not ring.synergy[second.target].hot_spots.target.reservations.at(ring.simulation.now), "it has arrived"


class NearOrigin:
    """Delays of which that between peer-2 and the origin, peer-0, is the least."""

    def delay(self, sender: str, to: str) -> float:
        return 0.002 if {sender, to} == {"peer-0", "peer-2"} else 0.02


def beside_a_move() -> Loaded:
    """A component that is to leave peer 2 belongs to an application of which another component moves."""

    def config(number: int) -> PeerConfig:
        offered = ("source:packets",) if number in (0, 1) else ("filter",)
        return PeerConfig(name=f"peer-{number}", seed=number, components=offered)

    ring = Loaded(8, 3, config=config, network=NearOrigin())
    where = {"source": "peer-1", "f0": "peer-2", "f1": "peer-3", "sink": "peer-0"}
    ring.start("a", chain(0.2, operators=2), where, lambda _now: 300.0)
    ring.start("b", stated("off"), {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}, rising(100.0, 1500.0, START))
    until(ring, START)
    ring.takes = 30.0
    assert move(ring, "f1", "peer-4", "a") == []
    return ring


def test_a_migration_waits_for_no_other_change_of_its_application_and_says_so() -> None:
    """The move cannot begin, which the old peer hears before the answer of the new one; it awaits that nevertheless."""
    ring = beside_a_move()
    seconds(ring, 8)
    answered, ended = journaled(ring, MigrationAnswered)[0], journaled(ring, MigrationEnded)[0]
    assert answered.accepted
    assert ended.failure == "operator: 'f0'; f1 is moving to peer-4; expected one change at a time"
    assert ended.target == answered.target


def test_after_a_move_that_could_not_begin_the_answer_is_awaited_as_long_as_without_it() -> None:
    ring = beside_a_move()
    with lost(ring, MigrationReply):
        seconds(ring, 12)
    first, second, *_ = journaled(ring, MigrationAnswered)
    assert {first.reason, second.reason} == {"it did not answer in time"}
    assert first.target != second.target
    assert [first.seconds, second.seconds] == pytest.approx([3.0, 6.0], abs=0.2)


def test_only_the_component_that_exceeds_its_processing_time_by_most_acts() -> None:
    """Toy 11: every component of the path sees the violation, and one migration follows, of the worst one."""
    ring = Loaded(8, 3)
    where = {"source": "peer-1", "f0": "peer-2", "f1": "peer-3", "f2": "peer-4", "sink": "peer-0"}
    ring.start("a", chain(0.2, operators=3), where, lambda _now: 200.0)
    ring.start("b", chain(None), {"source": "peer-1", "f0": "peer-3", "sink": "peer-0"}, rising(100.0, 900.0, START))
    until(ring, 50.0)
    assert {event.peer for event in journaled(ring, MigrationDecided)} == {"peer-3"}
    dismissed = journaled(ring, HotSpotDismissed)
    assert {event.peer for event in dismissed} <= {"peer-2", "peer-4"}
    assert dismissed
    assert dismissed[0].reason == "f1 of a at peer-3 exceeds its processing time by more"
    detected = [event for event in journaled(ring, HotSpotDetected) if event.subject == "a"]
    assert {max(event.excesses, key=event.excesses.__getitem__) for event in detected} == {"a/f1"}
    assert len(journaled(ring, ComponentMoved)) == 1


def test_an_observing_peer_journals_its_decisions_and_asks_no_other() -> None:
    ring = Loaded(6, 1, config=configured(mode="observe"))
    hot(ring)
    until(ring, 45.0)
    decided = journaled(ring, MigrationDecided)
    assert decided
    assert not any(each.act for each in decided)
    assert not journaled(ring, MigrationProjected)
    assert not journaled(ring, ComponentMoved)


def test_a_peer_that_has_died_is_no_target_although_the_directory_still_has_it() -> None:
    ring = Loaded(6, 1)
    hot(ring)
    until(ring, START)
    for gone in ("peer-4", "peer-5"):
        ring.simulation.put(ring.simulation.now, "peer-2", gone, Leaving(()))
    until(ring, START + 2.0)
    decided = journaled(ring, MigrationDecided)[0]
    assert decided.peer == "peer-2"
    assert decided.candidates
    assert not {"peer-4", "peer-5"} & {*decided.candidates}


def test_two_hot_spots_do_not_get_the_same_capacity() -> None:
    """Toy 12: one peer has room for one of both."""

    def config(number: int) -> PeerConfig:
        offered = ("source:packets",) if number in (0, 1) else ("filter",)
        return PeerConfig(name=f"peer-{number}", seed=number, components=offered)

    ring = Loaded(5, 4, config=config)
    hot(ring, 500.0, even=600.0, at="peer-2", names=("a", "b"))
    hot(ring, 500.0, even=600.0, at="peer-3", names=("c", "d"))
    until(ring, 50.0)
    moved = journaled(ring, ComponentMoved)
    assert [each.to for each in moved] == ["peer-4"]
    refused = [each for each in journaled(ring, MigrationProjected) if each.peer == "peer-4" and not each.accepted]
    assert {"b/f0", "d/f0"} <= set(refused[0].slacks), "with the reserved one it has no room"
    assert next(each.failure for each in journaled(ring, MigrationEnded) if each.failure) == "no peer accepts it"


@pytest.mark.slow
def test_equal_loads_that_vary_move_no_component_to_and_fro() -> None:
    """Toy 12: three peers at equal load for ten minutes; predictions vary, and no component moves twice."""
    ring = Loaded(6, 5)
    for number, name in enumerate("abcdef"):
        where = {"source": "peer-1", "f0": f"peer-{2 + number % 3}", "sink": "peer-0"}
        ring.start(name, chain(0.1), where, varying(name))
    until(ring, 600.0)
    moved = [event.subject for event in journaled(ring, ComponentMoved)]
    assert len(moved) == len(set(moved)) <= 3, moved


@pytest.mark.parametrize("seed", quick_first(range(12), 2))
def test_with_lost_doubled_and_late_messages_a_component_is_at_one_peer_and_nothing_stays_reserved(seed: int) -> None:
    ring = Loaded(8, seed)
    hot(ring)
    network = ring.simulation
    network.loss, network.duplication, network.reordering = 0.15, 0.2, 0.2
    until(ring, 60.0)
    network.loss = network.duplication = network.reordering = 0.0
    until(ring, 90.0)
    moves = journaled(ring, ComponentMoved)
    assert len(moves) <= 1
    for moved in moves:
        assert place(ring, moved.subject, "f0") == moved.to
    check_quiet(ring)


def check_quiet(ring: Loaded) -> None:
    """Each component is executed once, nothing is reserved or sought any more, and no peer promised too much."""
    places = [(app, op) for _, app, op in ring.deployed]
    assert len(places) == len(set(places))
    for each in ring.synergy.values():
        assert not each.hot_spots.target.reservations.at(ring.simulation.now)
        assert each.hot_spots.quiet, each.peer.address
    assert not ring.overbooked()


@pytest.mark.parametrize("victim", quick_first(["peer-2", "target", "peer-1"], 1))
@pytest.mark.parametrize("after", quick_first([0.15, 0.4, 0.0, 0.03, 0.08, 0.25, 0.6, 1.0], 1))
def test_a_death_at_any_moment_of_a_migration_leaves_one_executing_peer_or_fails_by_name(
    victim: str, after: float
) -> None:
    ring = Loaded(7, 6)
    hot(ring)
    while not journaled(ring, MigrationDecided):
        ring.second_reports()
        ring.run(0.01)
    ring.run(after)
    if victim == "target":
        answered = [each.target for each in journaled(ring, MigrationAnswered) if each.accepted]
        victim = answered[0] if answered else journaled(ring, MigrationDecided)[0].candidates[0]
    if victim in ring.synergy and victim != "peer-0":
        ring.crash(victim)
    ring.run(40.0)
    for application in ("a", "b"):
        if ring.status(application) == "running":
            place(ring, application, "f0")
        else:
            assert ring.status(application) == "failed"
            assert victim in ring.reports[application][-1].reason
    assert all(each.hot_spots.quiet for each in ring.synergy.values())


def test_a_shared_component_leaves_because_of_the_limit_of_another_application_and_its_readers_follow() -> None:
    ring = Loaded(8, 9)
    stem = source("packets", rate=10.0, seed=4, id="source").filter("bytes > 0", cost="1 ms", id="f0")
    ring.rates = {"a": rising(100.0, 500.0, START), "b": lambda _now: 50.0}
    ring.tau = {"f0": 1e-4, "g": 1e-4}
    ring.submit("peer-0", "a", stem.sink(id="sink", delay=5.0))
    ring.run(2.0)
    shared = stem.filter("bytes > 99", cost="1 ms", id="g")
    ring.submit("peer-3", "b", shared.sink(id="sink", delay=0.12))
    ring.run(2.0)
    assert ring.status("a") == ring.status("b") == "running"
    graph = ring.synergy["peer-3"].session.members["b"].graph
    assert [producer[:2] for producer in graph.producers] == [("a", "f0"), ("a", "source")]
    before = place(ring, "a", "f0")
    where = {"source": "peer-1", "f0": before, "sink": "peer-0"}
    pinned = source("packets", rate=10.0, id="source").filter("bytes > 0", cost="1 ms", id="f0", at=before)
    ring.start("c", pinned.sink(id="sink"), where, lambda _now: 450.0)
    until(ring, 60.0)
    detected = journaled(ring, HotSpotDetected)
    assert ("a", "f0", before) in {(event.subject, event.operator, event.peer) for event in detected}
    (moved,) = journaled(ring, ComponentMoved)
    assert (moved.subject, moved.operator, moved.at) == ("a", "f0", before)
    assert place(ring, "a", "f0") == moved.to
    readers = {
        reader.peer
        for (_, app), known in ring.deployments.items()
        if app == "a"
        for each in known.assignments.values()
        for reader in each.shared_readers
    }
    assert readers == {place(ring, "b", "g")}


def test_a_component_that_runs_on_for_others_stays_when_its_application_has_ended() -> None:
    ring = Loaded(8, 9)
    stem = source("packets", rate=10.0, id="source").filter("bytes > 0", cost="1 ms", id="f0", at="peer-0")
    ring.rates = {"a": lambda _now: 100.0, "b": lambda _now: 50.0}
    ring.tau = {"f0": 1e-4, "g": 1e-4}
    ring.submit("peer-0", "a", stem.sink(id="sink"))
    ring.run(2.0)
    ring.submit("peer-3", "b", stem.filter("bytes > 99", cost="1 ms", id="g").sink(id="sink", delay=0.1))
    ring.run(2.0)
    ring.simulation.report("peer-0", StopApplication("a"))
    ring.run(1.0)
    assert (ring.status("a"), ring.status("b"), place(ring, "a", "f0")) == ("stopped", "running", "peer-0")
    pinned = source("packets", rate=10.0, id="source").filter("bytes > 0", cost="1 ms", id="f0", at="peer-0")
    where = {"source": "peer-1", "f0": "peer-0", "sink": "peer-0"}
    ring.start("c", pinned.sink(id="sink"), where, lambda _now: 900.0)
    seconds(ring, 2)
    (dismissed,) = {each.reason for each in journaled(ring, HotSpotDismissed)}
    assert "a/f0: its application has ended" in dismissed


def test_a_component_whose_plan_states_its_peer_stays_there() -> None:
    ring = Loaded(6, 1)
    stream = source("packets", rate=10.0, at="peer-1", id="source").filter(
        "bytes > 0", cost="1 ms", id="f0", at="peer-2"
    )
    ring.start(
        "a",
        stream.sink(id="sink", delay=0.12),
        {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"},
        rising(100.0, 1000.0, START),
    )
    until(ring, 45.0)
    (dismissed, *_) = journaled(ring, HotSpotDismissed)
    assert "a/f0: its plan places it at peer-2" in dismissed.reason
    assert not journaled(ring, ComponentMoved)


def stated(mode: str) -> Plan:
    """The plan of :func:`chain`, which states what peers may do about hot spots."""
    stream = source("packets", rate=10.0, at="peer-1", id="source")
    return stream.filter("bytes > 0", cost="1 ms", id="f0").sink(id="sink", delay=0.12, hotspots=mode)


def both(first: Plan, second: Plan, **changes: object) -> Loaded:
    """Two applications at a peer, the second of which has a rate that rises."""
    ring = Loaded(6, 1, config=configured(**changes))
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    ring.start("a", first, where, lambda _now: 300.0)
    ring.start("b", second, where, rising(100.0, 700.0, START))
    until(ring, 45.0)
    return ring


def test_components_of_a_plan_without_hot_spots_neither_trigger_nor_move() -> None:
    ring = both(chain(0.12), stated("off"))
    assert {event.subject for event in journaled(ring, HotSpotDetected)} == {"a"}, "b triggers nothing"
    (moved,) = journaled(ring, ComponentMoved)
    assert moved.subject == "a"
    assert not journaled(both(stated("off"), stated("off")), HotSpotDetected)


def test_components_of_a_plan_that_observes_trigger_entries_only_and_do_not_move() -> None:
    ring = both(stated("observe"), stated("observe"))
    decided = journaled(ring, MigrationDecided)
    assert decided
    assert not any(each.act for each in decided)
    assert not journaled(ring, MigrationProjected)
    assert not journaled(ring, ComponentMoved)
    ring = both(chain(0.12), stated("observe"))
    assert [moved.subject for moved in journaled(ring, ComponentMoved)] == ["a"], "what acts goes on beside it"
    alone = both(chain(0.12), stated("on"), mode="observe")
    assert not journaled(alone, ComponentMoved), "a plan permits no more than the peer does"


def test_a_plan_without_hot_spots_that_is_late_does_not_prevent_the_relief_of_others() -> None:
    ring = Loaded(6, 1)
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    ring.start("a", stated("off"), where, lambda _now: 900.0)
    ring.start("b", chain(0.12), where, rising(20.0, 300.0, START))
    until(ring, 45.0)
    assert {event.subject for event in journaled(ring, HotSpotDetected)} == {"b"}
    assert [event.subject for event in journaled(ring, ComponentMoved)] == ["b"]


# -- options -----------------------------------------------------------------------------------------------------------


def test_a_plan_states_the_mode_of_hot_spots_in_python_yaml_and_bytes() -> None:
    query = stated("off")
    assert "hotspots: 'off'" in query.to_yaml()
    assert Plan.from_yaml(query.to_yaml()) == query == Plan.from_bytes(query.to_bytes())
    assert Plan.from_yaml(query.to_yaml().replace("'off'", "off")) == query, "YAML's truth values are no modes"
    with pytest.raises(ValueError, match=r"qos\.hotspots: 'of'; expected one of on, observe, off; did you mean 'off'"):
        stated("of")
    with pytest.raises(ValueError, match=r"qos\.hotspots: 'observe and off'; expected the same of all plans"):
        plan(stated("observe"), source("packets").sink("other", hotspots="off"))
    assert plan(stated("observe"), source("packets").sink("other")).qos.hotspots == "observe"


def test_the_mode_of_a_cluster_is_checked_before_anything_is_started() -> None:
    with pytest.raises(ValueError, match=r"hotspots: 'onn'; expected one of on, observe, off; did you mean 'on'"):
        Cluster(1, hotspots="onn")
    with pytest.raises(ValueError, match=r"confidence: -1\.0; expected a finite number from 0"):
        Cluster(1, hotspots=HotSpotConfig(confidence=-1.0))


def test_live_peers_have_the_parameters_of_hot_spots_of_their_cluster() -> None:
    assert PeerConfig().hotspots.mode == "on", "by default they act"
    found = _config(1.0, 0.0, {"hotspots": HotSpotConfig(mode="observe", confidence=0.5)})["hotspots"]
    assert msgspec.convert(found, HotSpotConfig) == HotSpotConfig(mode="observe", confidence=0.5)
    assert _config(1.0, 0.0, {"hotspots": "off"})["hotspots"]["mode"] == "off"


def test_components_of_one_path_at_one_peer_are_relieved_together() -> None:
    """Their times fall together when another application leaves, so the limit of the path is what counts."""
    ring = Loaded(6, 1)
    where = {"source": "peer-1", "f0": "peer-2", "f1": "peer-2", "sink": "peer-0"}
    ring.start("a", chain(0.15, operators=2), where, lambda _now: 200.0)
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    ring.start("b", chain(None), where, rising(100.0, 800.0, START))
    until(ring, 45.0)
    (moved,) = journaled(ring, ComponentMoved)
    assert (moved.subject, moved.operator, moved.at) == ("b", "f0", "peer-2")


def test_a_time_without_a_trusted_line_waits_in_proportion_to_the_rate_of_the_peer() -> None:
    """By a time that does not depend on the rate nothing would help as long as the component stays."""
    ring = Ring(2, 1)
    ring.simulation.report("peer-1", PredictionsMade(PeerPrediction((), 0.0, 200.0, 0.5, 0.5)))
    found = Prediction("a", "f0", 100.0, 100.0, "", 0.05, 0.05, "last measurement", 0.0, 0.0, -1.0, 0.01, 0.0)
    assert ring.synergy["peer-1"].hot_spots.monitor.line(found) == pytest.approx((0.01, 0.04 / 200.0))


def test_the_published_load_is_the_share_of_the_time_that_the_data_path_measures() -> None:
    """Its times are those at this peer: divided by its cores, they would count its speed twice."""
    ring = Ring(2, 1, config=lambda n: PeerConfig(name=f"peer-{n}", cores=4.0, seed=n))
    each = ring.synergy["peer-1"]
    ring.simulation.report("peer-1", PredictionsMade(PeerPrediction((), 0.0, 0.0, 2.0, 6.0)))
    assert (each.loads.load.measured, each.loads.load.predicted) == (2.0, 6.0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mode": "maybe"}, "mode: 'maybe'; expected one of on, observe, off"),
        ({"selection": "all"}, "selection: 'all'; expected 'largest_first' or 'fewest'"),
        ({"predict": "yes"}, "predict: 'yes'; expected True or False"),
        ({"confidence": "5 %"}, "confidence: '5 %'; expected a finite number from 0"),
        ({"rest": -1}, "rest: -1; expected a finite number from 0"),
        ({"horizon": float("nan")}, "horizon: nan; expected a finite number from 0"),
        ({"report": 0}, "report: 0; expected a positive number"),
        ({"tuples": 2.5}, "tuples: 2.5; expected a whole number from 1"),
        ({"candidates": True}, "candidates: True; expected a whole number from 1"),
    ],
)
def test_wrong_parameters_are_refused_by_name(changes: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        HotSpotConfig(**changes)  # type: ignore[arg-type]
