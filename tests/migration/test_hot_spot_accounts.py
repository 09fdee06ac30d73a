"""Accounts of hot spots: what ``explain()`` writes of a hot spot, of a dismissal, and of a migration."""

from __future__ import annotations

import json

import msgspec
import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.dataflow.prediction_reports import Prediction
from synergy_nb.events import (
    Event,
    HotSpotDetected,
    HotSpotDismissed,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
)
from synergy_nb.events.journal import Journal
from synergy_nb.models.execution_times import ExecutionTimes, confidence_level
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.reporting.explanation import Explanation
from tests.loaded import Loaded, chain, rising, with_a_strict_target

START = 30.0


def ran(ring: Loaded) -> Loaded:
    """Two applications at one peer, the second of which has a rate that rises."""
    where = {"source": "peer-1", "f0": "peer-2", "sink": "peer-0"}
    ring.start("a", chain(0.12), where, lambda _now: 300.0)
    ring.start("b", chain(0.12), where, rising(100.0, 700.0, START))
    while ring.simulation.now < 45.0:
        ring.second()
    return ring


def account(ring: Loaded, application: str) -> str:
    return str(Explanation(application, ring.simulation.journal.about(application), {}))


@pytest.fixture(scope="module")
def relieved() -> Loaded:
    return ran(with_a_strict_target())


def caused(ring: Loaded) -> MigrationDecided:
    (found,) = [event for event in ring.simulation.journal if isinstance(event, MigrationDecided)]
    return found


def test_the_account_has_the_equation_with_its_values_and_what_the_time_was_predicted_from(relieved: Loaded) -> None:
    text = account(relieved, caused(relieved).cause[0])
    assert "f0 at peer-2 has no slack: limit 109 ms - age 20 ms - predicted 100 ms = -11.1 ms" in text
    assert "predicted by a line: 100 µs + 100 µs per tuple/s x 1,000 tuples/s of its peer" in text
    assert "worst of the path: f0, 100 ms above its processing time" in text


def test_the_account_names_the_component_that_leaves_the_peers_asked_and_the_duration(relieved: Loaded) -> None:
    text = account(relieved, caused(relieved).subject)
    assert "f0 leaves peer-2: 1,000 tuples/s before, 700 tuples/s without; slack of what stays: f0 of b 18.9 ms" in text
    assert "refused: the slack of c/f0 would be" in text
    assert "accepted: 500 tuples/s with it, least slack" in text
    assert "moved to peer-3 after " in text


class Noisy(Loaded):
    """Times that hardly depend on the rate: the line through them is not trusted, but stated."""

    RATES = (100.0, 140.0, 180.0, 220.0, 260.0, 300.0, 340.0, 380.0)
    NOISE = (0.12, 0.31, 0.11, 0.40, 0.13, 0.12, 0.55, 0.14)

    def _prediction(self, address: str, application: str, operator: str) -> Prediction:
        made = super()._prediction(address, application, operator)
        if self.simulation.now < START:
            return made
        times = ExecutionTimes.of(zip(self.RATES, self.NOISE, strict=True))
        found = times.predict(300.0, confidence_level(0.12, 240.0))
        assert found.line is not None
        line = {"intercept": found.line.intercept, "slope": found.line.slope, "error": found.line.error}
        seconds = {"predicted": found.seconds, "measured": self.NOISE[-1]}
        return msgspec.structs.replace(made, basis=found.basis, **seconds, **line)


def test_the_journal_states_that_a_time_was_not_predicted_where_the_line_is_not_trusted() -> None:
    ring = ran(Noisy(6, 1))
    detected = next(event for event in ring.simulation.journal if isinstance(event, HotSpotDetected))
    assert (detected.basis, detected.predicted) == ("last measurement", 0.14)
    assert detected.error == pytest.approx(6.810167233e-4), "the line that was refused"
    assert "predicted by the last measurement; last measured 140 ms" in account(ring, detected.subject)


def test_an_observing_peer_states_its_decision_once() -> None:
    ring = ran(Loaded(6, 1, config=PeerConfig(hotspots=HotSpotConfig(mode="observe"))))
    decided = next(event for event in ring.simulation.journal if isinstance(event, MigrationDecided))
    text = account(ring, decided.cause[0])
    assert "f0 would leave peer-2" in text
    assert "it only observes; it would ask, the least loaded first: peer-0" in text
    assert text.count("has no slack (") == 1, "its own hot spot is one"
    assert "(2 times, last after " in text


# -- single events -----------------------------------------------------------------------------------------------------


def detected(time: float, **changes: object) -> HotSpotDetected:
    event = HotSpotDetected(
        time, "peer-2", "a", "f0", -0.2, 0.3, 0.4, 0.1, "growing backlog", 0.0, 0.0, -1.0, 0.5, 100.0, 900.0, 5, 1.0,
    )  # fmt: skip
    return msgspec.structs.replace(event, **changes)


def written(*events: Event, application: str = "a") -> str:
    journal = Journal()
    for event in events:
        journal.append(event)
    return str(Explanation(application, journal.about(application), {"peer-2": "two", "peer-3": "three"}))


def test_dismissals_with_the_same_reason_are_one_line() -> None:
    reason = "f1 of a at peer-3 exceeds its processing time by more"
    events = [
        each
        for time in (10.0, 21.0, 32.0)
        for each in (detected(time), HotSpotDismissed(time, "peer-2", "a", "f0", reason))
    ]
    text = written(*events, detected(43.0), HotSpotDismissed(43.0, "peer-2", "a", "f0", "another reason"))
    assert "f0 at two has no slack (3 times, last after 22 s): limit 500 ms - age 300 ms - predicted 400 ms" in text
    assert "predicted from a growing backlog, at 900 tuples/s after 100 tuples/s; last measured 100 ms" in text
    assert "two does not act: f1 of a at three exceeds its processing time by more" in text
    assert text.count("hot spot after") == 2
    assert "two does not act: another reason" in text


def decided(time: float = 10.1) -> MigrationDecided:
    return MigrationDecided(
        time, "peer-2", "b", "f1", ("a", "f0"), ["b/f1", "a/f2"], 1000.0, 300.0, {"a/f0": 0.02}, ["peer-3"],
        {"peer-3": 0.25}, act=True,
    )  # fmt: skip


def test_a_component_of_another_application_that_leaves_is_in_the_accounts_of_both() -> None:
    events = (
        detected(10.0),
        decided(),
        MigrationAnswered(10.2, "peer-2", "b", "f1", ("a", "f0"), "peer-3", accepted=True, reason="", seconds=0.1),
    )
    ended = MigrationEnded(10.6, "peer-2", "b", "f1", ("a", "f0"), "peer-3", failure="", seconds=0.5)
    text = written(*events)
    assert "f1 of b, with f2 leaves two: 1,000 tuples/s before, 300 tuples/s without" in text
    assert "peers asked: three (load 0.25) accepted" in text
    assert "it is moving" in text
    assert "moved to three after 500 ms" in written(*events, ended)
    other = written(*events, ended, application="b")
    assert "f0 of a had no slack at two" in other
    assert "f1, with f2 of a leaves two" in other
    assert "moved to three after 500 ms" in other


def test_the_account_explains_why_a_component_did_not_move() -> None:
    ended = MigrationEnded(10.6, "peer-2", "b", "f1", ("a", "f0"), "", failure="no peer accepts it", seconds=0.5)
    refused = MigrationAnswered(
        10.2, "peer-2", "b", "f1", ("a", "f0"), "peer-3", accepted=False, reason="its utilisation would be 1.20",
        seconds=0.1,
    )  # fmt: skip
    text = written(detected(10.0), decided(), refused, ended)
    assert "peers asked: three (load 0.25) refused: its utilisation would be 1.20" in text
    assert "not moved after 500 ms: no peer accepts it" in text


def test_of_many_hot_spots_the_account_has_the_last_ones() -> None:
    events = [
        each
        for number in range(20)
        for each in (detected(10.0 + number), HotSpotDismissed(10.0, "peer-2", "a", "f0", f"reason {number}"))
    ]
    text = written(*events)
    assert "12 earlier hot spots omitted" in text
    assert "reason 11" not in text
    assert "reason 12" in text


def test_an_account_is_written_as_plain_values(relieved: Loaded) -> None:
    application = caused(relieved).cause[0]
    found = Explanation(application, relieved.simulation.journal.about(application), {}).to_dict()["hot_spots"]
    assert json.dumps(found)
    assert found[0]["detected"]["basis"] == "line"
    assert found[0]["migrations"][0]["answers"][0]["accepted"] is False
