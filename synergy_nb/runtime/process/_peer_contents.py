"""Contents that plans only name at a peer: received from clients, or fetched from another peer, and offered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from synergy_nb.control.driver_messages import ObtainContents
from synergy_nb.plan.tables.lookup_tables import is_here, keep_encoded
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.process.contents import is_table, name_of, piece
from synergy_nb.runtime.process.requests import (
    ContentPiece,
    ContentsFound,
    FetchContent,
    FindContents,
    SendContent,
    pack,
    unpack,
)
from synergy_nb.runtime.transport.arenas import machine
from synergy_nb.runtime.transport.wire import LinkDown, LinkFull, RemoteError

__all__ = ["PeerContents"]

# contents that are received at a time; what has come of the oldest of the sender with the most is dropped
MOST: Final = 8
LARGEST: Final = 1 << 30  # bytes of a content
ANSWER: Final = 30.0  # seconds within which another peer sends a piece
FAILURES: Final = (LinkDown, LinkFull, RemoteError, TimeoutError, OSError, ValueError)

Offer = Callable[[tuple[str, ...], bool], Awaitable[None]]
"""Coroutine function that has the peer offer components, and tell its neighbours or not; it returns when the directory
knows."""
Request = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Request to another peer: its address, the operation, the payload and the seconds until an answer is overdue."""


class PeerContents:
    """What a peer has of the contents that plans only name, and how it gets others."""

    def __init__(self, functions: FunctionProcesses, offer: Offer, request: Request) -> None:
        self._functions = functions
        self._offer = offer
        self._request = request
        self._received: dict[tuple[str, str], bytearray] = {}  # by sender and component
        # components whose contents are of guests: other peers get them from the guest, if their owners accept them
        self._of_guests: set[str] = set()

    async def find(self, payload: bytes) -> bytes:
        """Say which contents are here, and offer the components that need them."""
        wanted = unpack(payload, FindContents).contents
        refused = {each: reason for each in wanted if (reason := await self._refusal(each))}
        here = [each for each, terms in wanted.items() if each not in refused and await self._has(each, terms)]
        for told in (True, False):
            if offered := tuple(each for each in here if (each in self._of_guests) is not told):
                await self._offer(offered, told)
        lacking = tuple(each for each in wanted if each not in refused and each not in here)
        return pack(ContentsFound(machine(), lacking, refused))

    async def receive(self, payload: bytes) -> bytes:
        """Take the next piece of a content; have the content once it is whole.

        Raises ``ValueError`` if a piece before it is missing, the content is not the one that was announced, or this
        peer does not accept it.
        """
        sent = unpack(payload, SendContent)
        await self._take(sent.sender, sent.piece)
        return b""

    async def receive_from_guest(self, sent: SendContent, user: str, folders: Sequence[str]) -> None:
        """Take the next piece of a content of a guest, as :meth:`receive` does.

        ``folders``: folders from which the file of a model may be.
        """
        await self._take(f"user/{user} {sent.sender}", sent.piece, folders)

    async def give(self, payload: bytes) -> bytes:
        """Return a piece of a content to another peer.

        Raises ``ValueError`` if it is not here.
        """
        wanted = unpack(payload, FetchContent)
        of_guest = wanted.component in self._of_guests
        found = None if of_guest else await asyncio.to_thread(piece, wanted.component, wanted.start)
        if found is None:
            raise ValueError(f"content of {wanted.component!r}; expected one that this peer has")
        return pack(found)

    async def obtain(self, instruction: ObtainContents) -> None:
        """Fetch contents from another peer, except what this peer refuses, and offer their components.

        If that fails, because the other peer has died, say, the protocol asks for them again.
        """
        for component in instruction.components:
            try:
                if await self._refusal(component):
                    continue
                if await self._has(component, {}):
                    await self._offer((component,), True)
                else:
                    await self._fetch(instruction.sender, component)
            except FAILURES:
                continue

    async def _fetch(self, sender: str, component: str) -> None:
        start, size = 0, 1
        while start < size:
            request = pack(FetchContent(component, start))
            got = unpack(await self._request(sender, "content", request, ANSWER), ContentPiece)
            await self._take(sender, got)
            start, size = start + max(len(got.data), 1), got.size

    async def _take(self, sender: str, got: ContentPiece, folders: Sequence[str] | None = None) -> None:
        """Take a piece; ``folders`` limits where the file of a guest's model may be, None: it is no guest's."""
        key = sender, got.component
        if got.size > LARGEST:
            raise ValueError(f"content of {got.component!r}: {got.size} bytes; expected at most {LARGEST}")
        have = self._received.setdefault(key, bytearray())
        if got.start != len(have):
            del self._received[key]
            raise ValueError(f"content of {got.component!r}: a piece at {got.start}; expected that at {len(have)}")
        have += got.data
        if len(have) >= min(got.size, LARGEST):
            del self._received[key]
            if is_table(got.component):
                await asyncio.to_thread(keep_encoded, name_of(got.component), bytes(have))
            else:
                await asyncio.to_thread(self._functions.accept, name_of(got.component), bytes(have), folders)
            if folders is not None:
                self._of_guests.add(got.component)
            await self._offer((got.component,), folders is None)
        while len(self._received) > MOST:
            held = Counter(of for of, _ in self._received)
            del self._received[next(key for key in self._received if held[key[0]] == max(held.values()))]

    async def _refusal(self, component: str) -> str:
        return "" if is_table(component) else await asyncio.to_thread(self._functions.refusal, name_of(component))

    async def _has(self, component: str, terms: dict[str, object]) -> bool:
        if is_table(component):
            return await asyncio.to_thread(is_here, name_of(component), terms)
        return self._functions.has(name_of(component))
