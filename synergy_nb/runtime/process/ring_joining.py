"""Running peers form one ring: they join in waves, and the caller receives the progress.

A peer counts as joined when the ring has accepted it and the directory has confirmed its offers. At the end the first
and the last peer are asked for the hosts of all components, as a submission of a plan would ask them.

Peers that are in a ring already come first: a newcomer in their place would begin a second ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from synergy_nb.events import REFUSED
from synergy_nb.events.peer_names import peer_phrase
from synergy_nb.overlay.join_waves import JoinWaves
from synergy_nb.runtime.client.progress import Progress, ProgressDeadline
from synergy_nb.runtime.process.requests import ClusterError, FindHosts, HostsFound, JoinCommand, Joined, pack, unpack
from synergy_nb.runtime.transport.wire import LinkDown, LinkFull, RemoteError

__all__ = ["form_ring"]

KNOWN: Final = 5.0  # longest time until a peer says whether it is in a ring, seconds
ANSWER: Final = (
    30.0  # longest time to wait for an answer, seconds; a peer that cannot join answers within eight if it is not late
)
AGAIN: Final = 0.02  # seconds before the first repeated request to the directory or to a peer that could not join
LATER: Final = 0.5  # longest time between two repeated requests, seconds
IN_THE_RING: Final = "peers are in the ring"
FAILURES: Final = (LinkDown, LinkFull, RemoteError, TimeoutError, OSError)

Request = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Request to a peer: its address, the operation, the payload and the seconds until an answer is overdue."""


async def form_ring(
    peers: Mapping[str, str], request: Request, patience: float, on_progress: Callable[[Progress], object] | None = None
) -> None:
    """Let peers join one ring, and wait until the directory knows the components of all.

    ``peers``: peer name to address; ``request``: function that sends a request to a peer and returns the answer;
    ``patience``: seconds without progress after which the attempt fails; ``on_progress``: callback with the progress
    whenever it has changed; None: no callback.

    Raises ``ClusterError`` if there was no progress for ``patience`` seconds; the message names the missing peers. At
    once if the process of a peer has ended.
    """
    waiting = ProgressDeadline(patience, on_progress)
    forming = asyncio.create_task(_form(peers, request, waiting))
    try:
        while not forming.done():
            await asyncio.wait([forming], timeout=waiting.left)
            if not forming.done() and waiting.left <= 0.0:
                raise ClusterError(_given_up(waiting))
        await forming
    finally:
        forming.cancel()
        await asyncio.gather(forming, return_exceptions=True)


def _given_up(waiting: ProgressDeadline) -> str:
    last = waiting.last
    assert last is not None
    return (
        f"the peers have not formed a ring: {last}, and nothing has changed for {waiting.seconds:g} s; "
        f"missing: {last.missing_text}"
    )


async def _form(peers: Mapping[str, str], request: Request, waiting: ProgressDeadline) -> None:
    names = {address: name for name, address in peers.items()}
    offers: dict[str, frozenset[str]] = {}

    def note() -> None:
        missing = [names[address] for address in names if address not in offers]
        waiting.note(len(offers), len(names), IN_THE_RING, missing)

    async def enter(address: str, contact: str | None) -> None:
        try:
            answer = await request(address, "join", pack(JoinCommand(contact)), ANSWER)
        except FAILURES as error:
            if str(error).endswith(REFUSED):
                raise ClusterError(f"{peer_phrase(names[address])} has ended: nobody listens at its address") from error
            return  # it retries in a later wave, through another contact
        offers[address] = frozenset(unpack(answer, Joined).offers) - {"sink"}
        note()

    async def outside(address: str) -> bool:
        try:
            return not await request(address, "joined", b"", KNOWN)
        except FAILURES:
            return True

    note()
    out = dict(zip(names, await asyncio.gather(*map(outside, names)), strict=True))
    waves = JoinWaves(sorted(names, key=out.__getitem__))
    pause = AGAIN
    loop = asyncio.get_running_loop()
    while not waves.over:
        wave, began, before = waves.next(), loop.time(), len(offers)
        await asyncio.gather(*(enter(address, contact) for address, contact in wave.items()))
        waves.ended([address for address in wave if address in offers], loop.time() - began)
        if len(offers) == before:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LATER)
    await _found(offers, names, request, waiting)


async def _found(
    offers: Mapping[str, frozenset[str]], names: Mapping[str, str], request: Request, waiting: ProgressDeadline
) -> None:
    """Wait until the first and the last peer find every peer for each component that it offers."""
    question = pack(FindHosts(sorted(frozenset().union(*offers.values()))))
    checked = tuple(dict.fromkeys((next(iter(names)), list(names)[-1])))
    pause = AGAIN
    while True:
        directories = await asyncio.gather(*(_hosts(address, question, request) for address in checked))
        missing = [
            names[address]
            for address, offered in offers.items()
            if not all(address in hosts.get(name, ()) for hosts in directories for name in offered)
        ]
        waiting.note(len(offers) - len(missing), len(offers), "peers are in the directory", missing)
        if not missing:
            return
        await asyncio.sleep(pause)  # other processes cannot be awaited
        pause = min(2 * pause, LATER)


async def _hosts(address: str, question: bytes, request: Request) -> dict[str, frozenset[str]]:
    """Return the hosts of components as one peer finds them; empty while it does not answer."""
    try:
        answer = unpack(await request(address, "where", question, ANSWER), HostsFound)
    except FAILURES:
        return {}
    return {name: frozenset(hosts) for name, hosts in answer.hosts.items()}
