"""Knobs of a peer, for demonstrations: links that are cut, load of other programs, costs of delays, pace of sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final

from synergy_nb.runtime.data.changed_values import ChangedValues
from synergy_nb.runtime.process.requests import HERE, ChangeCost, ChangeLink, ChangeLoad, ChangePace, unpack
from synergy_nb.runtime.transport.cut_links import CuttableLinks

PERIOD: Final = 0.02  # seconds in which the load is busy for its share


class OtherLoad:
    """A thread that is busy for a share of the time, as another program on the peer's cores would be."""

    def __init__(self) -> None:
        self.share = 0.0  # share of the time for which it is busy; 0: there is no thread
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def change(self, share: float) -> None:
        """Be busy for another share of the time from now on."""
        self.share = share
        if share > 0.0 and self._thread is None:
            self._end.clear()
            self._thread = threading.Thread(target=self._spin, name="synergy other load", daemon=True)
            self._thread.start()
        elif share == 0.0 and self._thread is not None:
            self._end.set()
            self._thread.join()
            self._thread = None

    def _spin(self) -> None:
        while not self._end.is_set():
            until = time.perf_counter() + PERIOD * self.share
            while time.perf_counter() < until:
                pass
            self._end.wait(PERIOD * (1.0 - self.share))


class PeerKnobs:
    """The knobs of one peer."""

    def __init__(self, links: CuttableLinks, changed: ChangedValues) -> None:
        self._links = links
        self._changed = changed  # costs and paces that users have changed
        self._load = OtherLoad()
        # name of a request of clients to its handler
        self.operations: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "cut": self._cut,
            "load": self._change_load,
            "cost": self._change_cost,
            "pace": self._change_pace,
        }

    def close(self) -> None:
        """End the load of other programs."""
        self._load.change(0.0)

    async def _cut(self, payload: bytes) -> bytes:
        request = unpack(payload, ChangeLink)
        if request.cut is None:
            self._links.mend(request.address)
        else:
            self._links.cut(request.address, request.cut)
        return b""

    async def _change_load(self, payload: bytes) -> bytes:
        self._load.change(unpack(payload, ChangeLoad).share)
        return b""

    async def _change_cost(self, payload: bytes) -> bytes:
        request = unpack(payload, ChangeCost)
        here = self._changed.change_cost(request.application, request.operator, request.seconds)
        return HERE if here else b""

    async def _change_pace(self, payload: bytes) -> bytes:
        request = unpack(payload, ChangePace)
        here = self._changed.change_pace(request.application, request.source, request.factor)
        return HERE if here else b""
