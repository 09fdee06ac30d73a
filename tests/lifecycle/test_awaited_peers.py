"""For which peers an application waits, for how long, and what is recorded of that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from synergy_nb.control.peer import Effect, Peer, Record
from synergy_nb.events import ApplicationContinued, ApplicationPaused
from synergy_nb.lifecycle.changes.awaited_peers import AwaitedPeers

PATIENCE = 60.0


class Waiting:
    """A peer that leads one application; ``failed`` has the time and the reason of its end."""

    def __init__(self) -> None:
        self.peer = Peer("me", seed=1)
        self.peer.start(100.0)
        self.failed: list[tuple[float, str]] = []
        led: Any = {"a": SimpleNamespace(graph=SimpleNamespace(attempt=3))}
        self.awaited = AwaitedPeers(self.peer, led, PATIENCE, self._fail)

    def _fail(self, application: str, attempt: int, reason: str) -> None:
        assert (application, attempt) == ("a", 3)
        self.failed.append((self.peer.now, reason))
        self.awaited.end(application)

    def wait(self, now: float, **awaited: list[str]) -> list[Any]:
        """The events of a change of whom is waited for."""
        return events(self.peer.call(now, self.awaited.wait, "a", awaited))

    def until_failed(self) -> list[tuple[float, str]]:
        while not self.failed and (due := self.peer.next_timer) is not None:
            self.peer.tick(due)
        return self.failed


def events(effects: list[Effect]) -> list[Any]:
    return [each.event for each in effects if isinstance(each, Record)]


def test_a_pause_is_recorded_as_it_begins_changes_and_ends_with_its_length() -> None:
    made = Waiting()
    assert made.wait(100.0) == []
    (paused,) = made.wait(101.0, b=["f"])
    assert isinstance(paused, ApplicationPaused)
    assert (paused.awaited, paused.patience) == ({"b": ["f"]}, PATIENCE)
    assert made.wait(102.0, b=["f"]) == [], "it is recorded already"
    (more,) = made.wait(103.0, b=["f"], c=["g", "h"])
    assert more.awaited == {"b": ["f"], "c": ["g", "h"]}
    assert "c" in made.awaited.reason("a")
    (continued,) = made.wait(108.5)
    assert isinstance(continued, ApplicationContinued)
    assert continued.awaited == more.awaited
    assert continued.seconds == pytest.approx(7.5)
    assert (made.awaited.of("a"), made.awaited.reason("a"), made.peer.next_timer) == ({}, "", None)


def test_each_peer_has_the_same_time_from_when_it_is_awaited() -> None:
    made = Waiting()
    made.wait(101.0, b=["f"])
    made.wait(111.0, b=["f"], c=["h", "g"])
    made.wait(121.0, c=["h", "g"])
    assert made.until_failed() == [(171.0, "peer c has not answered for 60 s (g, h)")]


def test_the_time_in_which_the_leader_was_stopped_does_not_count() -> None:
    made = Waiting()
    made.wait(101.0, b=["f"])
    made.peer.tick(500.0)
    assert made.failed == []
    ((when, _),) = made.until_failed()
    assert when == pytest.approx(500.0 + 0.1 * PATIENCE)
