"""Requests that wait while another one for the same stream is composed: how long, and how often they look."""

from __future__ import annotations

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import ApplicationRunning, RequestPostponed
from synergy_nb.lifecycle.requests.claims import CLAIM, COMPOSING
from synergy_nb.plan import source
from tests.simulated import Ring


def test_a_request_that_waits_for_another_looks_again_four_times_a_second() -> None:
    config = CompositionConfig(patience=0.6)
    ring = Ring(4, seed=3, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    plan = source("packets", rate=10.0, id="s").filter("bytes > 1", cost="1 ms", id="f").sink("out", id="out")
    for peer in ring.synergy.values():
        peer.streams.offer(plan.stream_name("f"), "another", "", {CLAIM: COMPOSING})
    ring.run(1.0)
    submitted = ring.simulation.now
    ring.submit("peer-2", "r", plan)
    assert ring.until_decided("r").status == "running"
    (postponed,) = ring.events("r", RequestPostponed)
    assert postponed.reason == "another, which has the same stream, is being composed"
    (running,) = ring.events("r", ApplicationRunning)
    assert postponed.time - submitted < 0.2
    assert running.time - submitted == pytest.approx(0.75, abs=0.24), "at 0.25 and 0.5 s it waits on, then no more"
