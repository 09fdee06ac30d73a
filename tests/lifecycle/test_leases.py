"""When a peer asks about an application of which it hears nothing, and when it leaves it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from synergy_nb.control.peer import Peer, Send
from synergy_nb.lifecycle.sessions.leases import Leases

LEASE, SILENCE, FEEDBACK, PREPARATION = 5.0, 20.0, 1.0, 30.0


class Session:
    """A peer that takes part in one application, led by o; ``asked`` and ``left`` have the times of what it does."""

    def __init__(self) -> None:
        self.peer = Peer("me", seed=1)
        self.peer.start(0.0)
        self.left: list[float] = []
        self.asked: list[float] = []
        graph = SimpleNamespace(application="a", attempt=1, origin="o", successor="")
        self.member: Any = SimpleNamespace(graph=graph, plan=None, ended=False, leader="o")
        config = SimpleNamespace(lease=LEASE, silence=SILENCE, feedback=FEEDBACK, preparation=lambda _: PREPARATION)
        participation: Any = SimpleNamespace(
            peer=self.peer, membership=SimpleNamespace(is_dead=lambda _: False), config=config, led={},
            members={"a": self.member}, on_joined=[], on_left=[], expire=lambda *_: self.left.append(self.peer.now),
        )  # fmt: skip
        sinks: Any = None
        self.leases = Leases(participation, sinks, lambda _application, _address: None)
        self.peer.call(0.0, participation.on_joined[0], self.member)

    def until_left(self) -> None:
        while not self.left and (due := self.peer.next_timer) is not None:
            self.asked += [due for each in self.peer.tick(due) if isinstance(each, Send) and each.to == "o"]


@pytest.mark.parametrize(
    ("heard", "from_then"),
    [
        ([], PREPARATION),
        ([(2.0, False)], 2.0),
        ([(2.0, True)], PREPARATION),
        ([(2.0, False), (4.0, True)], 4.0),
    ],
    ids=["nothing", "feedback", "a new leader while it prepares", "a new leader later"],
)
def test_a_lease_lasts_from_what_was_heard_last(heard: list[tuple[float, bool]], from_then: float) -> None:
    session = Session()
    for now, at_least in heard:
        session.peer.tick(now)
        session.leases.heard(session.member, at_least=at_least)
    session.until_left()
    assert session.asked
    assert session.asked == pytest.approx(
        [session.asked[0] + FEEDBACK * number for number in range(len(session.asked))]
    )
    assert session.left == pytest.approx([from_then + SILENCE])


def test_a_peer_that_was_stopped_asks_again_before_it_leaves() -> None:
    session = Session()
    session.leases.heard(session.member)
    session.peer.tick(1000.0)
    assert session.left == []
    session.until_left()
    assert session.asked[0] == pytest.approx(1000.0 + FEEDBACK)
    assert session.left == pytest.approx([1000.0 + LEASE])
