"""A refused delay is reported in parts, which add up to the sum."""

from __future__ import annotations

import pytest

from synergy_nb.events import Event, GraphEvaluated, ProbeAccepted, ProbeDropped, RequestSubmitted
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.refused_delays import refused_delay

NAMES = {"a": "peer-1", "b": "peer-2"}
MEASURED = {
    "peer-1": {"source": (0.002, 0.0), "filter": (0.001, 0.0), "hop": (0.0005, 0.0), "link": (0.001, 0.0)},
    "peer-2": {"source": (0.004, 0.0), "filter": (0.003, 0.0), "hop": (0.0007, 0.0), "link": (0.002, 0.0)},
}


def plan() -> Plan:
    return source("packets").filter("bytes > 1", cost="1 ms").sink("x", delay="5 ms")


def asked() -> Event:
    return RequestSubmitted(0.0, "a", "r", qos={"delay": 0.005}, plan="", operators=())


def accepted(peer: str, operator: str, via: list[str], so_far: float) -> Event:
    return ProbeAccepted(
        1.0, peer, "r", operator=operator, via=via, so_far_s=so_far, capacity=0.0, bandwidth=None, impacts=()
    )


def dropped(peer: str, operator: str, delay: float, condition: str = "delay") -> Event:
    return ProbeDropped(2.0, "a", "r", operator=operator, at=peer, condition=condition, required=0.005, available=delay)


def test_the_parts_are_those_of_the_path_and_make_up_the_sum() -> None:
    events = [
        asked(),
        accepted("a", "source", [], 0.0031),
        accepted("b", "source", [], 0.0050),
        dropped("b", "source", 0.006),
        dropped("b", "filter", 0.0175),
        dropped("b", "filter", 0.0115),
    ]
    found = refused_delay(plan(), Explanation("r", events, NAMES), MEASURED)
    assert found is not None
    assert (found.operator, found.at, found.limit, found.total) == ("filter", "peer-2", 0.005, 0.0115)
    assert found.source == 0.002
    assert found.processing == pytest.approx(1e-6 + 0.001 + 0.003)
    assert found.waiting == pytest.approx(0.0031 - 0.002 - 1e-6)
    assert found.hops == pytest.approx(0.0027)
    assert found.crossings == 1
    assert sum((found.source, found.processing, found.waiting, found.hops, found.rest)) == pytest.approx(found.total)
    assert str(found) == (
        "the delay of 11.5 ms up to filter at peer-2 is about: "
        "source 2 ms, processing 4 ms, waiting 1.1 ms, 1 hop 2.7 ms, variation 1.7 ms"
    )


def test_the_delay_of_a_complete_graph_that_is_too_slow_is_explained() -> None:
    peers = dict.fromkeys(("source", "filter", "sink"), "a")
    failed = "delay 0.008 s exceeds 0.005 s (2.2)"
    graph = GraphEvaluated(2.0, "a", "r", peers=peers, phi=None, delay_s=0.008, unqualified=failed)
    events = [asked(), graph]
    found = refused_delay(plan(), Explanation("r", events, NAMES), MEASURED)
    assert found is not None
    assert (found.operator, found.total, found.crossings) == ("sink", 0.008, 0)
    assert "hop" not in str(found)


def test_the_time_for_which_a_source_gathers_tuples_is_that_of_the_source() -> None:
    slow = source("packets", rate=10.0).filter("bytes > 1").sink("x", delay="10 s")
    events = [asked(), accepted("a", "source", [], 0.25), dropped("a", "filter", 12.0)]
    found = refused_delay(slow, Explanation("r", events, NAMES), MEASURED)
    assert found is not None
    assert found.source == pytest.approx(0.002 + 0.2)
    unmeasured = refused_delay(slow, Explanation("r", events, NAMES), {})  # as in a simulation, whose sources do not
    assert unmeasured is not None
    assert unmeasured.source == 0.0


def test_requests_refused_for_other_reasons_have_no_parts_of_a_delay() -> None:
    events = [asked(), dropped("a", "filter", 0.3, "processing capacity")]
    assert refused_delay(plan(), Explanation("r", events, NAMES), MEASURED) is None
