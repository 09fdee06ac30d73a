"""Knobs of a peer, for demonstrations: links that are cut, load of other programs, costs of delays, pace of sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from synergy_nb.dataflow.operators.rows import Delay
from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.hosting import Hosting
from synergy_nb.runtime.data.sources import Feed
from synergy_nb.runtime.process.requests import ChangeCost, ChangeLink, ChangeLoad, ChangePace, unpack
from synergy_nb.runtime.transport.cut_links import CuttableLinks

__all__ = ["OtherLoad", "PeerKnobs"]

PERIOD: Final = 0.02  # seconds in which the load is busy for its share


class KnobbedHost(Protocol):
    """The part of a host that its knobs change."""

    hosting: Hosting

    @property
    def feeds(self) -> Mapping[Component, Feed]:
        """Feeds of the sources that are read here."""


class OtherLoad:
    """A thread that is busy for a share of the time, as another program on the peer's cores would be.

    Attributes
    ----------
    share : float
        Share of the time for which it is busy; 0: there is no thread.
    """

    def __init__(self) -> None:
        self.share = 0.0
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
    """The knobs of one peer.

    Parameters
    ----------
    links
        Links of the peer.
    host
        Host of the peer's components.

    Attributes
    ----------
    operations : dict
        Name of a request of clients to its handler.
    """

    def __init__(self, links: CuttableLinks, host: KnobbedHost) -> None:
        self._links = links
        self._host = host
        self._load = OtherLoad()
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
        if request.severed:
            self._links.cut(request.address)
        else:
            self._links.mend(request.address)
        return b""

    async def _change_load(self, payload: bytes) -> bytes:
        self._load.change(unpack(payload, ChangeLoad).share)
        return b""

    async def _change_cost(self, payload: bytes) -> bytes:
        request = unpack(payload, ChangeCost)
        component = self._host.hosting.components.get((request.application, request.operator))
        if component is None:
            raise LookupError(f"operator {request.operator!r} of {request.application} is not here")
        if not isinstance(component.logic, Delay):
            raise ValueError(f"operator {request.operator!r}: {component.kind}; expected a delay, whose cost is stated")
        component.logic.cost = request.seconds
        return b""

    async def _change_pace(self, payload: bytes) -> bytes:
        request = unpack(payload, ChangePace)
        for component, feed in self._host.feeds.items():
            if (component.application, component.operator) == (request.application, request.source):
                feed.change_pace(request.factor)
                return b""
        raise LookupError(f"source {request.source!r} of {request.application} is not read here")
