"""Measurements that a peer takes of itself every second: CPU, memory, commitments, each component, and who waits.

One :class:`~synergy_nb.events.PeerMeasured` a second is journaled, but only while the peer executes components of a
running application, or while a client follows its journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from synergy_nb.events import ComponentMeasurements, PeerMeasured, encode_events
from synergy_nb.runtime.process._machine_monitor import resident
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process.requests import FollowJournal, JournalPart, pack, unpack

EVERY: Final = 1.0  # seconds between two measurements
FOLLOWED: Final = 5.0  # seconds after the last request for its journal during which a peer counts as followed
PORTION: Final = 1000  # maximum number of events in one answer
STATS: Final = ComponentMeasurements.__struct_fields__


class PeerMetrics:
    """Journals the measurements of one peer, and lets clients follow its journal."""

    def __init__(
        self,
        runtime: PeerRuntime,
        # function that returns the cores of the peer, and the share of them that is committed
        capacity: Callable[[], tuple[float, float]],
        # function that returns the measurements of each executing component
        components: Callable[[], list[dict[str, Any]]],
        # function that returns the predicted load of the peer as a share of its cores; None where none is predicted
        predicted_load: Callable[[], float | None] = lambda: None,
        note_waits: Callable[[], None] = lambda: None,  # function that journals which components wait, and for whom
    ) -> None:
        self._runtime = runtime
        self._capacity = capacity
        self._components = components
        self._predicted_load = predicted_load
        self._note_waits = note_waits
        self._name = f"{runtime.address} {time.time_ns()}"
        self._timer: asyncio.TimerHandle | None = None
        self._followed = -FOLLOWED
        self._last = runtime.loop.time(), time.process_time()
        self._closed = False

    def wake(self) -> None:
        """Start to measure, as long as there is a reason to."""
        if self._timer is None and not self._closed:
            left = self._last[0] + EVERY - self._runtime.loop.time()
            self._timer = self._runtime.loop.call_later(max(left, 0.0), self._measure)

    def close(self) -> None:
        """Stop measuring."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def follow(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.FollowJournal`."""
        request = unpack(payload, FollowJournal)
        self._followed = self._runtime.loop.time()
        self.wake()
        since = request.since if request.journal == self._name else 0
        events = self._runtime.journal.since(since, PORTION)
        following = events[-1].sequence + 1 if events else since
        more = following < self._runtime.journal.next_sequence
        return pack(JournalPart(self._name, following, more, msgspec.Raw(encode_events(events))))

    def _measure(self) -> None:
        self._timer = None
        now, used = self._runtime.loop.time(), time.process_time()
        components = self._components()
        if not components and now - self._followed > FOLLOWED:
            return
        since, before = self._last
        self._last = now, used
        cores, promised = self._capacity()
        self._runtime.record(
            PeerMeasured,
            "",
            cpu=(used - before) / max(now - since, 1e-3),
            memory=resident(),
            cores=cores,
            promised=promised,
            components=[ComponentMeasurements(**{name: stats[name] for name in STATS}) for stats in components],
            predicted_load=self._predicted_load(),
        )
        self._note_waits()
        self.wake()
