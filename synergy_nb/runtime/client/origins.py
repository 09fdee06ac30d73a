"""The order in which peers are asked to become the origin of a plan: by name, by measured delays, or in turn."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from synergy_nb.lifecycle.origins import CLIENT, ends_of, nearest
from synergy_nb.plan import Plan
from synergy_nb.runtime.process.requests import MeasureDelays, PeerState, pack

__all__ = ["Origins"]

PINGS: Final = 3  # to each peer, of which the shortest counts: others waited for what the peer was doing
FRESH: Final = 60.0  # seconds for which the client's own delays are believed
ANSWERS: Final = 2.0  # seconds that a peer may take to measure its delays to others

Asked = Callable[..., Awaitable[dict[str, bytes]]]
_delays = msgspec.msgpack.Decoder(dict[str, float])


class Origins:
    """Finds the peer that is nearest to the client, to sources and to sinks (section 2.2.4).

    Parameters
    ----------
    asked
        Has peers asked: (operation, payload, addresses, timeout in seconds) gives address to answer of those that
        answer.
    clock
        Gives the time in seconds.
    beside
        Whether the client is on one machine with all peers, so that all of them are equally near to it.
    """

    def __init__(self, asked: Asked, clock: Callable[[], float] = time.monotonic, *, beside: bool) -> None:
        self._asked = asked
        self._clock = clock
        self._beside = beside
        self._known: dict[str, tuple[float, float]] = {}  # to each peer: seconds of a round trip, and when it was found

    async def order(
        self, plan: Plan, origin: str | None, peers: Mapping[str, str], states: Callable[[], Awaitable[Any]], turn: int
    ) -> list[str]:
        """Addresses of the peers that may become the origin, the preferred one first.

        Parameters
        ----------
        plan
            Query plan that is submitted.
        origin
            Name of a peer, one of :data:`~synergy_nb.lifecycle.origins.POLICIES`, or None, which is ``client``.
        peers
            Name of each peer to its address.
        states
            Gives what each peer says of itself, by name; None for one that does not answer.
        turn
            Number of the peer that goes first among those that are equally near.
        """
        if origin is not None and origin in peers:
            return [peers[origin]]
        addresses = list(peers.values())
        start = (turn - 1) % len(addresses)
        addresses = addresses[start:] + addresses[:start]
        if origin is None and self._beside:
            return addresses
        if origin in (None, "client"):
            found = await self._to_client(addresses)
            return [each for each in nearest(addresses, [CLIENT], found, lambda *_: None) if each in found] or addresses
        said: Mapping[str, PeerState | None] = await states()
        offers = {peers[name]: state.offers for name, state in said.items() if state is not None}
        candidates = [each for each in addresses if each in offers]
        ends = ends_of(plan, str(origin), offers, {address: name for name, address in peers.items()})
        client = await self._to_client(candidates) if CLIENT in ends else {}
        places = {each for end in ends if end is not None and not end.issuperset(candidates) for each in end}
        return nearest(candidates, ends, client, await self._between(sorted(places), candidates)) or addresses

    async def _to_client(self, addresses: Sequence[str]) -> dict[str, float]:
        """Seconds of a round trip between the client and each peer that answers."""
        if self._beside:
            return dict.fromkeys(addresses, 0.0)
        clock = self._clock

        async def ping(address: str) -> None:
            least = math.inf
            for _ in range(PINGS):
                began = clock()
                if not await self._asked("ping", b"", [address], 1.0):
                    return
                least = min(least, clock() - began)
            self._known[address] = least, clock()

        long_ago = clock() - FRESH
        for address in [each for each, (_, when) in self._known.items() if when < long_ago]:
            del self._known[address]
        await asyncio.gather(*(ping(each) for each in addresses if each not in self._known))
        return {each: self._known[each][0] for each in addresses if each in self._known}

    async def _between(self, places: Sequence[str], candidates: Sequence[str]) -> Callable[[str, str], float | None]:
        """Round trips between the peers where an application's ends are and the candidates, as the former measure."""
        answers = await self._asked("delays", pack(MeasureDelays(list(candidates))), places, ANSWERS) if places else {}
        measured = {place: _delays.decode(answer) for place, answer in answers.items()}

        def between(one: str, other: str) -> float | None:
            return measured.get(one, {}).get(other)

        return between
