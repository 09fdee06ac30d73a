"""QoS impact projection as the third condition of a probe (sections 2.3.1 and 2.3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import ProbeDropped
from synergy_nb.models.projection import ProjectionConfig
from synergy_nb.models.signatures import Segment
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.explanation import Explanation
from tests.simulated import Ring

WORKERS = ("delay", "sink")


def work(cost: str, *, rate: float = 20.0, delay: str | None = None, at: str = "peer-1", signature: Any = None) -> Plan:
    """One component that is pinned, so that applications meet there."""
    stream = source("python", name="n", columns={"v": "float"}, rate=rate, at="peer-0", signature=signature)
    return stream.delay(cost, id="work", at=at).sink("out", delay=delay)


def paced(cost: str = "10 ms", *, rate: float = 18.0) -> Plan:
    """The same work on a stream with a pace of its own."""
    return source("packets", rate=rate, seed=1, count=1000, at="peer-0").delay(cost, id="work", at="peer-1").sink("out")


def ring(seed: int, projection: ProjectionConfig | None) -> Ring:
    config = CompositionConfig(projection=projection, deployment="off")
    return Ring(4, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))


def test_an_admission_is_refused_for_the_harm_that_it_would_do() -> None:
    made = ring(1, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))  # load 0.2: 12.5 ms of execution, and the network
    assert made.until_decided("a").status == "running"
    made.run(2.0)
    made.submit("peer-3", "b", work("37 ms"))  # load 0.74: a would take 10 ms / (1 - 0.94), 167 ms
    report = made.until_decided("b")
    assert report.status == "rejected"
    assert "QoS impact" in report.reason
    assert "a: " in report.reason
    assert "limit 0.15 s" in report.reason
    made.run(2.0)
    assert made.status("a") == "running"
    explained = str(Explanation("b", made.events("b"), {}))
    assert "dropped: work at peer-1: QoS impact: a: " in explained
    drops = made.events("b", ProbeDropped)
    assert all(drop.available > drop.required == pytest.approx(0.15) for drop in drops)


@pytest.mark.slow
def test_without_projection_a_harmful_request_is_admitted() -> None:
    made = ring(1, None)
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))
    made.until_decided("a")
    made.submit("peer-3", "b", work("37 ms"))
    assert made.until_decided("b").status == "running"


def test_running_components_count_in_the_projection_of_the_new_application() -> None:
    made = ring(2, ProjectionConfig())
    made.submit("peer-2", "a", work("40 ms"))  # load 0.8
    made.until_decided("a")
    made.submit("peer-3", "b", work("8 ms", delay="210 ms"))  # 8 ms alone, 8 / (1 - 0.96) = 200 ms there
    report = made.until_decided("b")
    assert report.status == "rejected"
    assert "delay" in report.reason
    made.submit("peer-3", "c", work("2 ms", delay="250 ms"))  # 2 / (1 - 0.84) = 12.5 ms
    assert made.until_decided("c").status == "running"


def test_another_peer_is_chosen_where_nobody_is_harmed() -> None:
    made = ring(3, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))
    made.until_decided("a")
    made.run(2.0)
    stream = source("python", name="n", columns={"v": "float"}, rate=20.0, at="peer-0")
    made.submit("peer-3", "b", stream.delay("37 ms", id="work").sink("out"))
    report = made.until_decided("b")
    assert report.status == "running", report.reason
    assert report.peers["work"] != "peer-1"


def test_an_explanation_contains_the_projected_delays_of_running_applications() -> None:
    made = ring(3, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="500 ms"))
    made.until_decided("a")
    made.run(2.0)
    made.submit("peer-3", "b", work("15 ms"))  # 10 ms / (1 - 0.2) now, 10 ms / (1 - 0.5) with it
    made.until_decided("b")
    explained = Explanation("b", made.events("b"), {})
    impact = explained.impacts["a"]
    assert impact["after"] - impact["before"] == pytest.approx(0.0075)
    assert (impact["operator"], impact["at"], impact["limit"]) == ("work", "peer-1", 0.5)
    assert "projected: a: " in str(explained)
    assert "of 500 ms (work at peer-1)" in str(explained)


def test_the_impact_is_projected_from_the_measured_delay() -> None:
    made = ring(4, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))
    made.until_decided("a")
    made.run(1.0)
    made.simulation.call("peer-2", made.synergy["peer-2"].session.sinks.measured, "a", 0.149)
    made.run(2.0)
    made.submit("peer-3", "b", work("5 ms"))
    report = made.until_decided("b")
    assert report.status == "rejected"
    assert "a: 0.149 s now" in report.reason


def test_of_two_concurrent_requests_only_one_is_admitted_if_both_would_harm() -> None:
    """Each alone is bearable; the second to be confirmed is refused when its component is committed."""
    made = ring(5, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))
    made.until_decided("a")
    made.run(2.0)
    for origin, name in (("peer-3", "b"), ("peer-2", "c")):
        made.submit(origin, name, work("18 ms"))  # load 0.36 each: with both 10 / (1 - 0.92) = 125 ms more than now
    made.run(30.0)
    decided = sorted(made.reports[name][0].status for name in ("b", "c"))
    assert decided == ["rejected", "running"]
    reports = [made.reports[name][0] for name in ("b", "c")]
    assert any("QoS impact" in report.reason for report in reports)


def test_a_stream_that_is_shared_is_counted_once_and_for_all_who_use_it() -> None:
    made = ring(6, ProjectionConfig())
    stream = source("packets", rate=20.0, seed=1, at="peer-0").delay("10 ms", id="work", at="peer-1")
    made.submit("peer-2", "a", stream.sink("out", delay="2 s"))
    made.until_decided("a")
    made.run(2.0)
    made.submit("peer-3", "b", stream.sink("out", delay="150 ms"))
    assert made.until_decided("b").status == "running"
    made.run(2.0)
    running = made.synergy["peer-1"].session.impacts.running()
    assert {name: len(each.components) for name, each in running.items()} == {"a": 1, "b": 1}
    loads = [local.load for each in running.values() for local in each.components]
    assert sorted(map(repr, loads)) == ["0.0", "0.2"]
    made.submit("peer-2", "c", work("37 ms"))
    report = made.until_decided("c")
    assert report.status == "rejected"
    assert "b: " in report.reason


BURSTS = [["1 s", "75/s"], ["9 s", "700 tuples/min"]]


def test_a_newcomer_is_projected_by_its_signature() -> None:
    """Of load 0.18 on average it is bearable; in its bursts, which its plan states, a would take 10 / (1 - 0.95) ms."""
    for signature, status in ((None, "running"), (BURSTS, "rejected")):
        made = ring(8, ProjectionConfig())
        made.submit("peer-2", "a", work("10 ms", delay="150 ms"))  # load 0.2: 12.5 ms of execution
        made.until_decided("a")
        made.run(2.0)
        made.submit("peer-3", "b", work("10 ms", rate=18.0, signature=signature))
        report = made.until_decided("b")
        assert report.status == status, report.reason
        assert ("QoS impact" in report.reason) == (status == "rejected")
        told = "signature of source, as the plan states: 1 s at 75 tuples/s, 9 s at 11.7 tuples/s"
        assert (told in str(Explanation("b", made.events("b"), {}))) == (signature is not None)


def test_the_signature_of_a_newcomer_comes_from_where_its_stream_was_measured() -> None:
    made = ring(9, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="150 ms"))
    made.until_decided("a")
    made.run(2.0)
    stream = paced()
    measured = {"rate": 40.0, "signature": "1:75 9:11.667"}  # only the proportions count: the plan states the rate
    for name in (stream.stream_name("source"), work("1 ms").stream_name("source")):
        made.simulation.call("peer-0", made.synergy["peer-0"].streams.profile, name, measured)
    made.run(2.0)
    made.submit("peer-3", "b", work("10 ms", rate=18.0))
    assert made.until_decided("b").status == "running", "a source without a pace has no signature"
    made.simulation.call("peer-3", made.synergy["peer-3"].requests.stop, "b")
    made.run(2.0)
    made.submit("peer-2", "c", stream)
    report = made.until_decided("c")
    assert report.status == "rejected"
    assert "QoS impact" in report.reason
    explained = Explanation("c", made.events("c"), {})
    assert explained.to_dict()["signatures"]["source"]["from"] == "as measured before"
    assert "signature of source, as measured before: 1 s at 75 tuples/s, 9 s at 11.7 tuples/s" in str(explained)


def test_running_applications_are_projected_by_their_plans_until_they_are_measured() -> None:
    """In its bursts there is no room for another, though there is on average."""
    made = ring(10, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", rate=18.0, delay="600 ms", signature=BURSTS))
    assert made.until_decided("a").status == "running"
    made.run(2.0)
    made.submit("peer-3", "b", work("11.75 ms"))  # load 0.235: 0.985 with the burst, 0.415 on average
    report = made.until_decided("b")
    assert report.status == "rejected"
    assert "QoS impact" in report.reason
    even = (Segment(0.0, 5.0, 0.1, 10.0), Segment(5.0, 5.0, 0.12, 12.0))
    made.simulation.call("peer-1", made.synergy["peer-1"].session.components.load_measured, ("a", "work"), even)
    made.submit("peer-3", "c", work("11.75 ms"))
    assert made.until_decided("c").status == "running"


def test_a_varying_load_counts_at_its_maximum() -> None:
    """On average there is room for both, but not while what runs has its bursts (equation 2.11)."""
    made = ring(7, ProjectionConfig())
    made.submit("peer-2", "a", work("10 ms", delay="600 ms"))
    made.until_decided("a")
    made.run(2.0)
    burst = (Segment(0.0, 2.0, 0.85, 85.0), Segment(2.0, 8.0, 0.04, 4.0))
    made.simulation.call("peer-1", made.synergy["peer-1"].session.components.load_measured, ("a", "work"), burst)
    made.submit("peer-3", "b", work("7 ms"))  # load 0.14: 0.99 with the burst
    report = made.until_decided("b")
    assert report.status == "rejected"
    assert "QoS impact" in report.reason
    made.simulation.call("peer-1", made.synergy["peer-1"].session.components.load_measured, ("a", "work"), ())
    made.submit("peer-3", "c", work("7 ms"))
    assert made.until_decided("c").status == "running"


def test_a_component_that_takes_no_time_hides_no_other_one_at_its_peer() -> None:
    made = ring(1, ProjectionConfig())
    stream = source("python", name="n", columns={"v": "float"}, rate=20.0, at="peer-0")
    stream = stream.filter("v > 0", id="first", cost="0 s", at="peer-1").delay("10 ms", id="work", at="peer-1")
    made.submit("peer-2", "a", stream.sink("out", id="out"))
    assert made.until_decided("a").status == "running"
    running = made.synergy["peer-1"].session.impacts.running()["a"]
    assert [local.operator for local in running.components] == ["work"]
