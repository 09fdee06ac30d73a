"""P7: times of moves on measured or generated delays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.migration_times import (
    BOUND,
    IN_ALL,
    LEAST,
    OLD,
    OTHER,
    TYPICAL,
    WITH_REQUEST,
    WITHIN,
    times,
)
from synergy_experiments.framework import runner
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Value
from synergy_experiments.worlds.moved_components import migrated, moved
from synergy_nb.simulator.kernel import Network


class Line:
    """Peers on a line, and a delay that grows with their distance."""

    def __init__(self, places: dict[str, float]) -> None:
        self.places = places

    def delay(self, sender: str, to: str) -> float:
        return abs(self.places[sender] - self.places[to])


PLACES = {"O": 0.0, "S": 0.02, "T": 0.05, "U0": 0.11}


def on_a_line(_peers: Sequence[str]) -> Network:
    return Line(PLACES)


def test_a_move_takes_the_round_trips_that_it_needs() -> None:
    """O-S 20, S-T 30, O-T 50, U-T 60 ms: over the old peer to the new one, upstream and back, and out."""
    found = moved(on_a_line, 1, seed=1)
    assert found.bound == pytest.approx(2 * 0.03 + 2 * 0.09)
    assert found.decided == pytest.approx((0.02 + 0.03) + 2 * 0.06 + 0.05, abs=0.01)
    assert found.released == pytest.approx(found.decided + 0.02, abs=0.001)


def test_a_move_that_the_old_peer_leads_takes_two_round_trips() -> None:
    found = moved(on_a_line, 1, seed=1, led_by_old=True)
    assert found.released == pytest.approx(2 * 0.03 + 2 * 0.06, abs=0.01)
    assert found.released == pytest.approx(found.decided, abs=0.001)


def test_a_migration_begins_while_the_new_peer_is_asked_and_waits_for_no_answer() -> None:
    """It had begun when the answer had arrived, a round trip of 60 ms later."""
    move, found = moved(on_a_line, 1, seed=1, led_by_old=True), migrated(on_a_line, 1, seed=1, led_by_old=True)
    assert found is not None
    assert found.decided == pytest.approx(2 * 0.03, abs=0.001)
    assert found.released == pytest.approx(move.released, abs=0.01)
    assert found.released <= found.bound


def test_both_peers_of_a_migration_wait_for_no_graph_of_an_origin_elsewhere() -> None:
    """S tells U at once, which reaches T after 150 ms; what is left is the way from T over the origin to S."""
    found = migrated(on_a_line, 1, seed=1)
    assert found is not None
    assert found.released == pytest.approx((0.09 + 0.06) + 0.05 + 0.02, abs=0.01)
    assert found.released <= found.bound


def test_an_origin_far_from_both_peers_is_not_waited_for() -> None:
    """S has agreed when it asks, and T says that it is ready before it has the graph of O: by it O waited 560 ms."""
    far = {"O": 0.2, "S": 0.02, "T": 0.03, "U0": 0.04}
    found = migrated(lambda _: Line(far), 1, seed=1)
    assert found is not None
    assert found.least == pytest.approx((0.02 + 0.01) + 0.17 + 0.18)
    assert found.released == pytest.approx(found.least, abs=0.01)


class Short(Line):
    """Peers S and T, which are far from each other, and near all others."""

    def delay(self, sender: str, to: str) -> float:
        return 0.1 if {sender, to} == {"S", "T"} else 0.01


def test_a_migration_that_is_over_before_the_answer_is_back_is_measured() -> None:
    """T accepts after 100 ms, asks U once more, and O has S release the component; S hears the answer after 200 ms."""
    found = migrated(lambda _: Short({}), 1, seed=1)
    assert found is not None
    assert found.least == pytest.approx(0.1 + 0.02)
    assert found.released == pytest.approx(found.least + 0.02, abs=0.01)
    assert found.decided == found.released


class Detour(Line):
    """From O to S it takes longer than over U."""

    def delay(self, sender: str, to: str) -> float:
        return 0.6 if {sender, to} == {"O", "S"} else 0.1 if "O" in (sender, to) else 0.01


def test_a_peer_that_has_released_its_component_asks_the_origin_on_until_it_hears_so() -> None:
    """S repeats its request after 1 s, and hears of the end by the graph of O itself: it believes no other peer."""
    found = migrated(lambda _: Detour({}), 2, seed=1)
    assert found is not None
    assert found.released == pytest.approx(0.6 + 0.1 + 0.1 + 0.6, abs=0.02)


class Slow(Line):
    """A peer upstream whose answer takes longer than a second."""

    def delay(self, sender: str, to: str) -> float:
        return 0.7 if {sender, to} == {"T", "U0"} else 0.01


def test_a_peer_that_refuses_is_an_outcome_and_no_error() -> None:
    assert migrated(lambda _: Slow({}), 1, seed=1, led_by_old=True) is None


@pytest.mark.slow
def test_times_of_placements_have_quantiles_and_the_bound_beside_them() -> None:
    points = {(point.algorithm, point.metric): point.value for point in times(2, OLD, "", 4, 1)}
    least = f"{LEAST}, {OLD}"
    assert {algorithm for algorithm, _ in points} == {OLD, f"{OLD}{WITH_REQUEST}", least, BOUND}
    assert points[OLD, "median"] <= points[OLD, "90th percentile"]
    assert points[least, IN_ALL] == pytest.approx(points[least, "mean"] / points[BOUND, "mean"])
    assert points[least, "mean"] <= points[f"{OLD}{WITH_REQUEST}", "mean"] + 0.001
    assert 0.0 <= points[OLD, WITHIN] <= 1.0
    assert points[OLD, TYPICAL] > 0.0
    assert points == {(point.algorithm, point.metric): point.value for point in times(2, OLD, "", 4, 1)}


@pytest.mark.slow
def test_the_claim_states_the_paper_s_time_and_ours() -> None:
    (claim,) = find(["P7"])
    setup: dict[str, Value] = {"inputs": (1,), "placements": 3, "network": "transit-stub", "repeat": 1}
    (result,) = runner.reproduce([(claim, setup)])
    assert [check.judges for check in result.checks if check.paper == 1144.0] == ["paper", "own"]
    assert {row.algorithm for row in result.rows} == {
        *(f"{leader}{phases}" for leader in (OLD, OTHER) for phases in ("", WITH_REQUEST)), BOUND,
        *(f"{LEAST}, {leader}" for leader in (OLD, OTHER)),
    }  # fmt: skip
    assert [point.value for point in claim.paper] == [1.144]


def judged(times: float, bound: float, least: float) -> dict[str, tuple[str, str]]:
    """Verdicts on made-up times of moves in ten repetitions, in seconds."""
    (claim,) = find(["P7"])
    repetitions = []
    for number in range(10):
        vary = 1.0 + number / 1000.0
        points = [Point(1, BOUND, "mean", bound * vary)]
        for leader in (OLD, OTHER):
            for name, value in ((f"{leader}{WITH_REQUEST}", times), (f"{LEAST}, {leader}", least)):
                points.append(Point(1, name, "mean", value * vary))
                points += [Point(1, name, metric, value * vary / bound) for metric in (IN_ALL, TYPICAL)]
        repetitions.append(points)
    return {
        check.name: (check.verdict, check.judges) for check in claim.checks(Measured(repetitions), {"inputs": (1,)})
    }


def test_milliseconds_are_not_compared_and_ours_are_judged_by_round_trips() -> None:
    time, of_other = f"mean time of all phases in ms, {OLD}", f"at most 1.15 {IN_ALL}, {OTHER}"
    near_least = f"at most 1.05 times the least time while the leader alone changes the graph, {OTHER}"
    alike = judged(1.1, 1.0, 1.09)
    assert (alike[of_other], alike[near_least]) == (("holds", "own"), ("holds", "own"))
    assert alike[f"at most 1 {TYPICAL}, {OLD}"] == ("does not hold", "own")
    shorter = judged(0.3, 0.25, 0.2)
    assert shorter[time] == alike[time] == ("not comparable", "paper")  # milliseconds of another network
    assert (shorter[of_other][0], shorter[near_least][0]) == ("does not hold", "does not hold")
