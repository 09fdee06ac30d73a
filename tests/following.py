"""Waiting in a thread for what peers write to their journals: no peer is asked, and none is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from synergy_nb.events import Event
from synergy_nb.runtime.client.journal_follower import JournalFollower
from tests.waiting import DEADLINE

__all__ = ["heard"]


def heard(follower: JournalFollower, condition: Callable[[list[Event]], object]) -> None:
    """Wait in this thread until what has been followed fulfils ``condition``."""
    news = threading.Event()
    leave = follower.listen(news.set)
    while True:
        with follower.reading:
            if condition(list(follower.journal)):
                break
        assert news.wait(DEADLINE), "nothing new came"
        news.clear()
    leave()
