"""A peer that comes later enters the ring of the others by itself.

Who starts peers together lets them form one ring (:mod:`~synergy_nb.runtime.process.ring_joining`). A worker that
joins a Dask cluster after that has nobody who does so for its peer. So the peer asks Dask's scheduler which workers
there are, and them whether they are in a ring, until it has found one. It never begins a ring: two newcomers would
begin two.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from synergy_nb.runtime.transport.wire import LinkDown, LinkFull, RemoteError

SOON: Final = 1.0  # seconds until a peer first looks for a ring: who starts several lets them form one meanwhile
SELDOM: Final = 30.0  # longest time between two looks, seconds
ASKED: Final = 8  # most workers that are asked in one look
KNOWN: Final = 5.0  # longest time until a peer says whether it is in a ring, seconds
FAILURES: Final = (LinkDown, LinkFull, RemoteError, TimeoutError, OSError, ValueError)


async def enter(
    own: str,  # address of the peer
    joined: Callable[[], Awaitable[bytes]],  # function that returns whether the peer is in a ring: nothing if it is not
    join: Callable[[str], Awaitable[object]],  # function by which the peer joins through a contact; it may raise
    workers: Callable[[], Awaitable[Iterable[str]]],  # function that returns the addresses of all workers
    ask: Callable[[str, str, bytes, float], Awaitable[bytes]],  # function that sends a request to a peer
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Return when the peer is in a ring."""
    pause = SOON
    while True:
        await sleep(pause)
        pause = min(2.0 * pause, SELDOM)
        if await joined():
            return
        try:
            others = sorted(set(await workers()) - {own})
        except FAILURES:  # the scheduler is gone, or does not answer now
            continue
        for contact in random.sample(others, min(ASKED, len(others))):
            try:
                if await ask(contact, "joined", b"", KNOWN):
                    await join(contact)
                    return
            except FAILURES:
                continue
