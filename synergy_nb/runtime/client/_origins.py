"""The order in which peers are considered as the origin of a plan: by name, by measured delays, or in turn."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from synergy_nb.lifecycle.requests.origins import CLIENT, ends_of, nearest
from synergy_nb.plan import Plan
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.process.requests import MeasureDelays, pack

PINGS: Final = 3  # pings to each peer; the shortest round trip counts, as a peer that is busy answers later
FRESH: Final = 60.0  # seconds for which the client's own delays are valid
PROMPT: Final = 1.0  # seconds within which a peer answers on a machine that is not overloaded
OVERLOADED: Final = 60.0  # seconds to wait for an answer where no peer has answered promptly
ANSWERS: Final = 2.0  # longest time for a peer to measure its delays to others, seconds

RequestAll = Callable[..., Awaitable[dict[str, bytes]]]
_delays = msgspec.msgpack.Decoder(dict[str, float])


class Origins:
    """Selects the peer that is nearest to the client, to sources or to sinks (section 2.2.4)."""

    def __init__(self, request: RequestAll, clock: Callable[[], float] = time.monotonic, *, same_machine: bool) -> None:
        # function that sends requests to peers: (operation, payload, addresses, timeout in seconds); it returns address
        # to answer for those that answer
        self._request = request
        self._clock = clock  # function that returns the time in seconds
        # whether the client is on the same machine as all peers, so that all of them are equally near to it
        self._same_machine = same_machine
        self._known: dict[str, tuple[float, float]] = {}  # address to round trip, s, and its time

    async def order(
        self, plan: Plan, origin: str | None, peers: Mapping[str, str], states: Callable[[], Awaitable[Any]], turn: int
    ) -> list[str]:
        """Return the addresses of the peers that may become the origin, the preferred one first.

        ``origin``: name of a peer, one of :data:`~synergy_nb.lifecycle.requests.origins.POLICIES`, or None, which is
        ``client``; ``peers``: name of each peer to its address; ``states``: function that returns the state of each
        peer, by name; None for one that does not answer; ``turn``: number that selects the first one among equally near
        peers.
        """
        if origin is not None and origin in peers:
            return [peers[origin]]
        addresses = list(peers.values())
        start = (turn - 1) % len(addresses)
        addresses = addresses[start:] + addresses[:start]
        if origin is None and self._same_machine:
            return addresses
        if origin in (None, "client"):
            found = await self._to_client(addresses)
            return [each for each in nearest(addresses, [CLIENT], found, lambda *_: None) if each in found] or addresses
        answers: Mapping[str, PeerState | None] = await states()
        offers = {peers[name]: state.offers for name, state in answers.items() if state is not None}
        candidates = [each for each in addresses if each in offers]
        ends = ends_of(plan, str(origin), offers, {address: name for name, address in peers.items()})
        client = await self._to_client(candidates) if CLIENT in ends else {}
        sources = {each for end in ends if end is not None and not end.issuperset(candidates) for each in end}
        return nearest(candidates, ends, client, await self._between(sorted(sources), candidates)) or addresses

    async def first_answering(self, addresses: Sequence[str]) -> str:
        """Return the first peer that answers within a second, or else within a minute; empty if none does.

        A peer of a machine that is overloaded may need more than a second. One whose process has ended is not waited
        for.
        """
        for address in addresses:
            if await self._request("ping", b"", [address], PROMPT):
                return address
        found = await self._request("ping", b"", addresses, OVERLOADED)
        return next((each for each in addresses if each in found), "")

    async def _to_client(self, addresses: Sequence[str]) -> dict[str, float]:
        """Return address to the seconds of a round trip between the client and each peer that answers."""
        if self._same_machine:
            return dict.fromkeys(addresses, 0.0)
        clock = self._clock

        async def ping(address: str) -> None:
            least = math.inf
            for _ in range(PINGS):
                began = clock()
                if not await self._request("ping", b"", [address], PROMPT):
                    return
                least = min(least, clock() - began)
            self._known[address] = least, clock()

        long_ago = clock() - FRESH
        for address in [each for each, (_, when) in self._known.items() if when < long_ago]:
            del self._known[address]
        await asyncio.gather(*(ping(each) for each in addresses if each not in self._known))
        return {each: self._known[each][0] for each in addresses if each in self._known}

    async def _between(self, sources: Sequence[str], candidates: Sequence[str]) -> Callable[[str, str], float | None]:
        """Return the function that gives the round trip between an end of the application and a candidate."""
        answers = (
            await self._request("delays", pack(MeasureDelays(list(candidates))), sources, ANSWERS) if sources else {}
        )
        measured = {source: _delays.decode(answer) for source, answer in answers.items()}

        def between(one: str, other: str) -> float | None:
            return measured.get(one, {}).get(other)

        return between
