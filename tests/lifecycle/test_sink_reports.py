"""What the peers of sinks hear of an application that has ended."""

from __future__ import annotations

from typing import Any

from synergy_nb.control.peer import Effect, Peer, Send
from synergy_nb.lifecycle.records.messages import End
from synergy_nb.lifecycle.sessions.sink_reports import SinkReports
from tests.moving import plan
from tests.simulated import Ring


def ended() -> tuple[Peer, SinkReports, Any, str]:
    """The leader of an application that has ended, its graph, and the peer of its sink."""
    ring = Ring(4, seed=5)
    ring.submit("peer-0", "r", plan())
    assert ring.until_decided("r").status == "running"
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    (sink,) = (name for name in graph.roles.peers if name.startswith("sink"))
    peer = Peer("leader", seed=1)
    peer.start(0.0)
    return peer, SinkReports(peer, {}, {}, lambda *_: None), graph, graph.roles.peers[sink]


def told(effects: list[Effect]) -> list[tuple[str, str]]:
    return [
        (each.to, each.message.status) for each in effects if isinstance(each, Send) and isinstance(each.message, End)
    ]


def test_only_peers_of_sinks_are_told_again_that_it_has_ended() -> None:
    peer, reports, graph, sink = ended()
    answers: list[bool] = []

    def ask(who: str, application: str = "r") -> list[tuple[str, str]]:
        return told(peer.call(1.0, lambda: answers.append(reports.answer(who, application))))

    assert ask(sink) == []
    assert told(peer.call(1.0, reports.retain, graph, "finished", "")) == [(sink, "finished")]
    assert ask(sink) == [(sink, "finished")]
    assert [ask("stranger"), ask("leader"), ask(sink, "another")] == [[], [], []]
    assert answers == [False, True, False, False, False]
    assert told(peer.call(2.0, lambda: reports.discard("r") or None)) == [(sink, "")]
    assert ask(sink) == []
