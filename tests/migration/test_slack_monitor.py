"""Slack of the components of one peer, by the equations of section 3.4 with times that the data path has reported."""

from __future__ import annotations

import math

import pytest

from synergy_nb.algorithms.migration._selection import Execution
from synergy_nb.algorithms.migration._slack_monitor import SlackMonitor
from synergy_nb.algorithms.migration.messages import Departure
from synergy_nb.control.driver_messages import PredictionsMade
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction
from synergy_nb.plan import source
from tests.simulated import Ring

STREAM = source("packets", rate=10, id="s", at="peer-1").filter("bytes > 9", id="f0", at="peer-2")
PLAN = STREAM.filter("bytes > 10", id="f1", at="peer-2").sink("out", id="out", at="peer-0", delay="500 ms")
FIRST = Prediction("r", "f0", 10.0, 10.0, "", 0.03, 0.05, "last measurement", 0.0, 0.0, -1.0, 0.01, 0.02)
SECOND = Prediction("r", "f1", 10.0, 10.0, "", 0.07, 0.11, "last measurement", 0.0, 0.0, -1.0, 0.02, 0.06)


def running() -> Ring:
    """Both filters are at peer 2, and have been reported."""
    ring = Ring(4, seed=5)
    ring.submit("peer-0", "r", PLAN)
    assert ring.until_decided("r").status == "running"
    ring.run(2.0)
    ring.simulation.report("peer-2", PredictionsMade(PeerPrediction((FIRST, SECOND), 20.0, 20.0, 0.5, 0.5)))
    return ring


def monitor_of(ring: Ring, peer: str) -> SlackMonitor:
    return ring.synergy[peer].hot_spots.monitor


def test_what_leaves_gives_its_time_to_the_others_of_its_path_at_the_peer() -> None:
    monitor = monitor_of(running(), "peer-2")
    leaves = {name: monitor.departure_limit(("r", name)) for name in ("f0", "f1")}
    assert leaves["f1"] - leaves["f0"] == pytest.approx(SECOND.predicted), "no link is between them"
    assert leaves["f1"] < 0.5
    first, second = (monitor.execution(("r", each.operator), each) for each in (FIRST, SECOND))
    assert first.allowed == pytest.approx(leaves["f0"] - FIRST.age + SECOND.predicted)
    assert second.allowed == pytest.approx(leaves["f1"] - SECOND.age + FIRST.measured)
    assert monitor.execution(("r", "f0"), FIRST, age=0.1).allowed == pytest.approx(
        leaves["f0"] - 0.1 + SECOND.predicted
    )


def test_paths_are_computed_once_for_each_report_and_anew_without_one() -> None:
    ring = running()
    monitor = monitor_of(ring, "peer-2")
    computed = monitor.paths
    assert monitor.paths is computed
    ring.run(2.0 * monitor.config.report)
    later = monitor.paths
    assert later is not computed
    monitor.predictions_reported(PeerPrediction((FIRST, SECOND), 20.0, 20.0, 0.5, 0.5))
    assert monitor.paths is not later


def test_a_newcomer_without_a_trusted_line_waits_as_the_components_of_the_target_do() -> None:
    ring = running()
    target = ring.synergy["peer-2"].hot_spots.target
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    departure = Departure(graph, "f0", 10.0, 0.004, 0.0, -1.0, 0.01, math.inf, {}, math.inf)
    newcomer = target.newcomer(departure, PLAN)
    waiting = (FIRST.measured - FIRST.processing + SECOND.measured - SECOND.processing) / 2
    assert (newcomer.intercept, newcomer.slope) == pytest.approx((0.004 + waiting, 0.0))


def test_what_is_reserved_for_a_component_is_free_once_it_has_arrived() -> None:
    ring = running()
    reservations = ring.synergy["peer-2"].hot_spots.target.reservations
    now = ring.simulation.now
    for name in ("r/f0", "q/f0"):
        reservations.reserve(Execution(name, 10.0, 0.01, 0.0, math.inf), now)
    ring.simulation.report("peer-2", PredictionsMade(PeerPrediction((FIRST, SECOND), 20.0, 20.0, 0.5, 0.5)))
    assert [each.name for each in reservations.at(now)] == ["q/f0"]
