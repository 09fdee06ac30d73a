"""Round-trip times from a peer to others, for a client that selects the nearest one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from synergy_nb.overlay.latency import Latency
from synergy_nb.runtime.process.requests import MeasureDelays, unpack
from synergy_nb.runtime.transport.link import LinkDown, Links

PINGS: Final = 2  # pings to a peer that the overlay has not measured; the shortest counts, as the first opens the link
PATIENCE: Final = 1.0  # longest time to wait for an answer, seconds


class Delays:
    """Answers requests for the delays from this peer to others."""

    def __init__(self, links: Links, latency: Latency, clock: Callable[[], float]) -> None:
        self._links = links
        self._latency = latency
        self._clock = clock  # function that returns the time in seconds

    async def measure(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.MeasureDelays`: address to seconds of a round trip.

        Peers that do not answer are left out.
        """
        found: dict[str, float] = {}

        async def one(address: str) -> None:
            known = self._latency.one_way_overhead(address)
            if address == self._links.address:
                found[address] = 0.0
            elif known is not None:
                found[address] = 2.0 * known.mean
            else:
                for _ in range(PINGS):
                    began = self._clock()
                    try:
                        await self._links.request(address, "ping", b"", PATIENCE)
                    except (LinkDown, TimeoutError, OSError):
                        return
                    found[address] = min(found.get(address, PATIENCE), self._clock() - began)

        await asyncio.gather(*map(one, unpack(payload, MeasureDelays).addresses))
        return msgspec.msgpack.encode(found)
