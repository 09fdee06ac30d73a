"""Contents that plans only name at a peer: received from clients, or fetched from another peer, offered, and dropped.

Theory of operation
-------------------
What has come of a content that is not whole yet is charged to who holds the certificate of the link. Of the sender with
the most, the oldest is dropped, when there are more than ``MOST`` or they have more than ``ROOM`` bytes.

A content that is whole is kept as long as an application here needs it, and for ``KEPT`` seconds after that: users
submit again. Functions have together ``FUNCTIONS`` bytes at most, of which those that were needed longest ago go first;
one that was announced within the last ``FRESH`` seconds goes only if all others are needed, and then of the sender with
the most. Where nothing may go, the new one is refused. Tables are files that the machine keeps (:mod:`._table_store`):
a peer marks those that its applications need as used, and offers no other one whose file is gone.

A reference states the hash of its content, and a peer compares it: so whoever sends a content, it is the one that a
plan means. What only guests have sent or named is passed to no other peer, as its owner may accept less.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from synergy_nb.control.driver_messages import ObtainContents
from synergy_nb.control.identity import holder_of
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.sources import CONNECTORS, SOURCE
from synergy_nb.plan.tables.lookup_tables import is_here, is_kept, keep_encoded, keep_longer
from synergy_nb.plan.terms.function_references import is_installed
from synergy_nb.plan.terms.known_functions import checked
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

__all__ = ["FRESH", "FUNCTIONS", "KEPT", "LOOKS", "MOST", "PeerContents"]

MOST: Final = 8  # contents that are received at a time
LARGEST: Final = 1 << 30  # bytes of a content
ROOM: Final = 2 * LARGEST  # bytes of all that are received at a time
FUNCTIONS: Final = 256 << 20  # bytes of all functions that are kept
KEPT: Final = 3600.0  # seconds for which a content is kept that no application here needs any more
FRESH: Final = 600.0  # seconds after its announcement within which an application that needs it may come
LOOKS: Final = 60.0  # seconds between two looks at what is needed
ANSWER: Final = 30.0  # seconds within which another peer sends a piece
FAILURES: Final = (LinkDown, LinkFull, RemoteError, TimeoutError, OSError)

Offer = Callable[[tuple[str, ...], bool], Awaitable[None]]
"""Coroutine function that has the peer offer components, and tell its neighbours or not; it returns when the directory
knows."""
Request = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Request to another peer: its address, the operation, the payload and the seconds until an answer is overdue."""


class _Kept:
    """A content that a peer has."""

    __slots__ = ("holder", "size", "used")

    def __init__(self, holder: str, size: int, used: float) -> None:
        self.holder = holder  # who has sent it
        self.size = size  # bytes of a function; 0 for what is on disk
        self.used = used  # time at which it was announced, or needed, last, seconds


class PeerContents:
    """What a peer has of the contents that plans only name, and how it gets others."""

    def __init__(
        self,
        functions: FunctionProcesses,
        offer: Offer,
        request: Request,
        clock: Callable[[], float],  # function that returns the time in seconds
        needed: Callable[[], Collection[str]] = frozenset,  # function that returns what applications here need
        withdraw: Callable[[tuple[str, ...]], None] = lambda _: None,  # function that has components offered no more
        # callback `(sender, reason)` for what another peer has given and is refused
        refused: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._functions = functions
        self._offer = offer
        self._request = request
        self._clock = clock
        self._needed = needed
        self._withdraw = withdraw
        self._refused = refused
        self._received: dict[tuple[str, str, str], bytearray] = {}  # by holder, transfer and component
        self._kept: dict[str, _Kept] = {}  # by component, the last announced or needed last
        # components whose contents are of guests: other peers get them from the guest, if their owners accept them
        self._of_guests: set[str] = set()

    async def find(self, payload: bytes) -> bytes:
        """Say which contents are here, and offer the components that need them."""
        self._of_guests.difference_update(unpack(payload, FindContents).contents)
        return await self.find_for_guest(payload)

    async def find_for_guest(self, payload: bytes) -> bytes:
        """The same for a guest."""
        wanted = unpack(payload, FindContents).contents
        refused = {each: reason for each in wanted if (reason := await self._refusal(each))}
        asked = (each for each in wanted if each not in refused)
        here = [each for each in asked if await self._has(each, wanted[each])]
        self._use(here)
        for told in (True, False):
            if offered := tuple(each for each in here if (each in self._of_guests) is not told):
                await self._offer(offered, told)
        lacking = tuple(each for each in wanted if each not in refused and each not in here)
        return pack(ContentsFound(machine(), lacking, refused))

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Take the next piece of a content from an owner; have the content once it is whole.

        ``sender``: name of the sender on its link.

        Raises ``ValueError`` if a piece before it is missing, the content is not the one that was announced, or this
        peer does not accept it.
        """
        sent = unpack(payload, SendContent)
        await self._take((holder_of(sender), sent.transfer), sent.piece)
        return b""

    async def receive_from_guest(self, sent: SendContent, user: str, folders: Sequence[str]) -> None:
        """Take the next piece of a content of a guest, as :meth:`receive` does.

        ``folders``: folders from which the file of a model may be.
        """
        await self._take((f"user/{user}", sent.transfer), sent.piece, folders)

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
                    self._of_guests.discard(component)
                    self._use([component])
                    await self._offer((component,), True)
                else:
                    await self._fetch(instruction.sender, component)
            except ValueError as error:
                self._refused(instruction.sender, str(error))
            except FAILURES:
                continue

    async def look(self) -> None:
        """Drop what has not been needed for long, and offer no table that the machine has dropped."""
        now, needed = self._clock(), self._needed()
        self._use([each for each in self._kept if each in needed])
        tables = [each for each in self._kept if is_table(each)]
        for each in tables:
            if each in needed:
                await asyncio.to_thread(keep_longer, name_of(each))
        gone = [each for each in tables if each not in needed and not await asyncio.to_thread(is_kept, name_of(each))]
        self._drop([*gone, *(each for each, kept in self._kept.items() if now - kept.used > KEPT and each not in gone)])

    async def _fetch(self, sender: str, component: str) -> None:
        start, size = 0, 1
        while start < size:
            request = pack(FetchContent(component, start))
            got = unpack(await self._request(sender, "content", request, ANSWER), ContentPiece)
            await self._take((sender, ""), got)
            start, size = start + max(len(got.data), 1), got.size

    async def _take(self, of: tuple[str, str], got: ContentPiece, folders: Sequence[str] | None = None) -> None:
        """Take a piece.

        ``of``: holder of the certificate of its link, and id of the transfer; ``folders``: limit of where the file of
        a guest's model may be; None: it is no guest's.
        """
        key = (*of, got.component)
        if got.size > LARGEST:
            raise ValueError(f"content of {got.component!r}: {got.size} bytes; expected at most {LARGEST}")
        have = self._received.setdefault(key, bytearray())
        if got.start != len(have):
            del self._received[key]
            raise ValueError(f"content of {got.component!r}: a piece at {got.start}; expected that at {len(have)}")
        have += got.data
        if len(have) >= min(got.size, LARGEST):
            del self._received[key]
            await self._have(got.component, bytes(have), of[0], folders)
            await self._offer((got.component,), got.component not in self._of_guests)
        while len(self._received) > MOST or sum(map(len, self._received.values())) > ROOM:
            held: Counter[str] = Counter()
            for each, data in self._received.items():
                held[each[0]] += 1 if len(self._received) > MOST else len(data)
            del self._received[next(each for each in self._received if held[each[0]] == max(held.values()))]

    async def _have(self, component: str, content: bytes, holder: str, folders: Sequence[str] | None) -> None:
        """Have a whole content from now on; ``ValueError`` if it is another one than its component states."""
        if folders is not None and await self._has(component, {}):
            self._use([component])
            return
        if is_table(component):
            await asyncio.to_thread(keep_encoded, name_of(component), content)
        else:
            await asyncio.to_thread(checked, name_of(component), content)  # before others go
            self._make_room(component, len(content), holder)
            await asyncio.to_thread(self._functions.accept, name_of(component), content, folders)
        self._kept.pop(component, None)
        self._kept[component] = _Kept(holder, 0 if is_table(component) else len(content), self._clock())
        if folders is None:
            self._of_guests.discard(component)
        else:
            self._of_guests.add(component)

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _use(self, components: Collection[str]) -> None:
        """Note that contents are needed, or may be soon."""
        for each in filter(is_shipped, components):
            kept = self._kept.pop(each, None) or _Kept("", 0, 0.0)
            kept.used = self._clock()
            self._kept[each] = kept

    def _make_room(self, component: str, size: int, holder: str) -> None:
        """Drop functions until there is room for another one; ``ValueError`` if those that may go are too few."""
        needed, now = self._needed(), self._clock()
        others = {each: kept for each, kept in self._kept.items() if kept.size and each != component}
        held: Counter[str] = Counter({holder: size})
        for kept in others.values():
            held[kept.holder] += kept.size
        most = max(held.values())

        def order(each: str) -> tuple[bool, float]:
            return now - others[each].used < FRESH, others[each].used

        room = FUNCTIONS - sum(kept.size for kept in others.values())
        dropped: list[str] = []
        for each in sorted((each for each in others if each not in needed), key=order):
            if room >= size:
                break
            if now - others[each].used < FRESH and held[others[each].holder] < most:
                continue
            dropped.append(each)
            room += others[each].size
        if room < size:
            raise ValueError(
                f"function {name_of(component)!r}: {size} bytes; this peer has room for {max(room, 0)} more of "
                f"{FUNCTIONS}, as applications need the others, or will soon"
            )
        self._drop(dropped)

    def _drop(self, components: Collection[str]) -> None:
        """Have contents no more, and offer their components no more."""
        gone = tuple(each for each in components if self._kept.pop(each, None) is not None)
        for each in gone:
            self._of_guests.discard(each)
            if not is_table(each):
                self._functions.drop(name_of(each))
        if gone:
            self._withdraw(gone)

    async def _refusal(self, component: str) -> str:
        return "" if is_table(component) else await asyncio.to_thread(self._functions.refusal, name_of(component))

    async def _has(self, component: str, terms: dict[str, object]) -> bool:
        if is_table(component):
            return await asyncio.to_thread(is_here, name_of(component), terms)
        return self._functions.has(name_of(component))


def is_shipped(component: str) -> bool:
    """Whether a content comes from elsewhere; what is installed at a peer stays.

    >>> is_shipped("apply:score@1f"), is_shipped("apply:my_package:score"), is_shipped("filter")
    (True, False, False)
    >>> is_shipped("source:Meters@1f"), is_shipped("source:kafka")
    (True, False)
    """
    kind = KINDS.get(component.partition(":")[0])
    shipped = kind is not None and (kind.shipped or (kind is SOURCE and name_of(component) not in CONNECTORS))
    return shipped and not is_installed(name_of(component))
