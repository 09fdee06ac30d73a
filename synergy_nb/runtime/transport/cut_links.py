"""Links that can be cut on purpose: see :class:`~synergy_nb.control.cuts.Cut` for what becomes of what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.control.cuts import Cut
from synergy_nb.runtime.transport.link import Links, _Link
from synergy_nb.runtime.transport.wire import Comm, Frame

__all__ = ["CuttableLinks"]

CUT: Final = "cut on purpose"


class _Barred:
    """A comm of a link that may be cut: what is written waits while the cut delays, and is dropped while it loses."""

    def __init__(self, comm: Comm, links: CuttableLinks, to: str) -> None:
        self.stream = getattr(comm, "stream", None)
        self.read, self.abort, self.closed = comm.read, comm.abort, comm.closed
        self._comm = comm
        self._links = links
        self._to = to

    async def write(self, msg: tuple[Frame, ...]) -> None:
        if self._links.cuts:
            while (how := self._links.cuts.get(self._to)) is Cut.DELAY:
                await self._links.mended(self._to)
            if how is Cut.LOSE:
                return
        await self._comm.write(msg)


class CuttableLinks(Links):
    """Links of a peer, some of which may be cut; parameters are those of :class:`.Links`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.cuts: dict[str, Cut] = {}  # addresses of the peers to which the link is cut, and how
        self._mended: dict[str, asyncio.Event] = {}

    def cut(self, to: str, how: Cut = Cut.RESET) -> None:
        """Cut the link to a peer.

        ``to``: address of the peer; ``how``: kind of the cut; if it resets, what is queued and under way is lost.
        """
        self.mend(to)
        self.cuts[to] = how
        if how is Cut.RESET:
            self.drop(to, CUT)

    def mend(self, to: str) -> None:
        """End the cut of the link to a peer; what it has delayed is sent.

        ``to``: address of the peer.
        """
        self.cuts.pop(to, None)
        waiting = self._mended.pop(to, None)
        if waiting is not None:
            waiting.set()

    async def mended(self, to: str) -> None:
        """Wait until the cut of the link to a peer ends, or becomes another one."""
        await self._mended.setdefault(to, asyncio.Event()).wait()

    async def accept(self, comm: Any, hello: Mapping[str, Any]) -> None:
        """Serve an incoming comm, unless the link to its sender is cut; the sender waits while the cut is silent."""
        sender = str(hello.get("sender"))
        while (how := self.cuts.get(sender)) is not None:
            if how is Cut.RESET:
                comm.abort()
                return
            await self.mended(sender)
        if not comm.closed():
            await super().accept(comm, hello)

    async def _open(self, link: _Link) -> None:
        try:
            async with asyncio.timeout(self.limits.connect):
                while (how := self.cuts.get(link.to)) is not None:
                    if how is Cut.RESET:
                        self._fail(link, CUT)
                        return
                    await self.mended(link.to)
        except TimeoutError:
            self._fail(link, f"no link within {self.limits.connect:g} s")
            return
        await super()._open(link)

    async def _write(self, link: _Link, frames: Comm, welcome: Any) -> None:
        await super()._write(link, _Barred(frames, self, link.to), welcome)
