"""A peer that is asked whether it can execute a component: it first measures the peers that it would talk to."""

from __future__ import annotations

import math
from typing import Any

import pytest

from synergy_nb.algorithms.migration.messages import (
    Departure,
    HopMeasured,
    MeasureHop,
    MigrationReply,
    MigrationRequest,
)
from synergy_nb.control.peer import Effect, Message, Send
from synergy_nb.plan import source
from tests.simulated import Ring

PLAN = source("packets", rate=10, id="s", at="peer-1").filter("bytes > 9", id="f", at="peer-2").sink("out", id="out")


class Asked:
    """Peer 3, which is asked for the filter of peer 2; it has never heard of peer 8 and 9, with which that talks."""

    def __init__(self, *hops: str) -> None:
        ring = Ring(4, seed=5)
        ring.submit("peer-0", "r", PLAN)
        assert ring.until_decided("r").status == "running"
        ring.run(2.0)
        graph = ring.synergy["peer-0"].session.graph("r")
        assert graph is not None
        departure = Departure(graph, "f", 10.0, 1e-3, 1e-3, 0.0, 0.01, math.inf, dict.fromkeys(hops, 0.01), math.inf)
        self.at = ring.synergy["peer-3"].peer
        self.latency = ring.synergy["peer-3"].hot_spots.monitor.latency
        self.begun = self.at.now
        effects = self.at.receive("peer-2", MigrationRequest(7, departure), self.begun)
        self.asked = {to: message.number for to, message in sent(effects, MeasureHop)}
        self.answers = sent(effects, MigrationReply)

    def measured(self, sender: str, number: int, after: float) -> list[tuple[str, Any]]:
        return sent(self.at.receive(sender, HopMeasured(number), self.begun + after), MigrationReply)


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Any]]:
    return [(each.to, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def test_it_answers_at_once_where_it_knows_the_round_trips() -> None:
    for hops in ((), ("peer-3",)):
        made = Asked(*hops)
        assert made.asked == {}
        ((to, reply),) = made.answers
        assert (to, reply.number) == ("peer-2", 7)


def test_it_answers_once_all_peers_have_and_only_their_own_answers_count() -> None:
    made = Asked("peer-8", "peer-9")
    assert set(made.asked) == {"peer-8", "peer-9"}
    assert made.answers == []
    assert made.measured("peer-9", made.asked["peer-8"], 0.1) == [], "it was not asked that"
    assert made.measured("peer-8", made.asked["peer-8"], 0.2) == []
    assert made.measured("peer-8", made.asked["peer-8"], 0.3) == []
    assert [to for to, _ in made.measured("peer-9", made.asked["peer-9"], 0.4)] == ["peer-2"]
    assert [made.latency.rtt(each) for each in ("peer-8", "peer-9")] == pytest.approx([0.2, 0.4])
    assert made.measured("peer-9", made.asked["peer-9"], 0.5) == []


def test_it_refuses_by_name_what_it_could_not_measure_within_a_second() -> None:
    made = Asked("peer-8", "peer-9")
    made.measured("peer-9", made.asked["peer-9"], 0.1)
    replies: list[tuple[float, Any]] = []
    while made.at.now < made.begun + 1.5:
        due = made.at.next_timer
        assert due is not None
        replies += [(due, reply) for _, reply in sent(made.at.tick(due), MigrationReply)]
    ((when, reply),) = replies
    assert reply.refusal == "peer-8 did not answer"
    assert 1.0 <= when - made.begun < 1.1
