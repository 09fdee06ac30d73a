"""The engine of requests: how many it remembers, and what it forgets."""

from __future__ import annotations

import pytest

from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.events import LeadershipLost, RequestSubmitted
from synergy_nb.lifecycle import engine
from synergy_nb.plan import Plan, source
from tests.simulated import Ring


def plan(at: str = "peer-1") -> Plan:
    return source("packets", rate=10, id="s", at=at).sink("out", id="out")


def test_the_oldest_requests_that_have_ended_make_room_and_those_that_run_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_RETAINED", 3)
    ring = Ring(3, seed=5)
    requests = ring.synergy["peer-0"].requests
    for name in ("runs", "first", "second"):
        ring.submit("peer-0", name, plan())
        assert ring.until_decided(name).status == "running"
        if name != "runs":
            ring.simulation.report("peer-0", StopApplication(name))
    assert list(requests) == ["runs", "first", "second"]
    ring.submit("peer-0", "third", plan())
    assert list(requests) == ["runs", "second", "third"]
    assert ring.until_decided("third").status == "running"
    ring.submit("peer-0", "fourth", plan())
    with pytest.raises(ValueError, match="request: 'fifth'; expected one of at most 3 at a peer"):
        ring.submit("peer-0", "fifth", plan())
    assert list(requests) == ["runs", "third", "fourth"], "only what has ended is forgotten"


def test_what_is_submitted_is_in_the_journal_before_anything_is_decided() -> None:
    ring = Ring(3, seed=5)
    ring.submit("peer-0", "r", plan())
    (submitted,) = ring.events("r", RequestSubmitted)
    assert (submitted.peer, submitted.operators, submitted.trial) == ("peer-0", ["s", "out"], False)


def test_a_request_that_another_peer_leads_now_is_forgotten_where_it_was_submitted() -> None:
    ring = Ring(4, seed=5)
    ring.submit("peer-0", "r", plan())
    assert ring.until_decided("r").status == "running"
    at = ring.synergy["peer-0"]
    assert list(at.requests) == ["r"]
    ring.simulation.call("peer-0", at.session.succession.superseded, at.requests["r"], "peer-3", 1)
    assert list(at.requests) == []
    assert [(each.peer, each.to, each.epoch) for each in ring.events("r", LeadershipLost)] == [("peer-0", "peer-3", 1)]
