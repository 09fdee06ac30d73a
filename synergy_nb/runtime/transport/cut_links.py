"""Links that can be cut on purpose: a cut link is down at once, and is not opened before it is mended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.runtime.transport.link import Links, _Link

__all__ = ["CuttableLinks"]

CUT: Final = "cut on purpose"


class CuttableLinks(Links):
    """Links of a peer, some of which may be cut; parameters are those of :class:`.Links`.

    Attributes
    ----------
    severed : set of str
        Addresses of the peers to which the link is cut.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.severed: set[str] = set()

    def cut(self, to: str) -> None:
        """Cut the link to a peer; what is queued and under way is lost.

        Parameters
        ----------
        to
            Address of the peer.
        """
        self.severed.add(to)
        self.drop(to, CUT)

    def mend(self, to: str) -> None:
        """Let the link to a peer be opened again.

        Parameters
        ----------
        to
            Address of the peer.
        """
        self.severed.discard(to)

    async def accept(self, comm: Any, hello: Mapping[str, Any]) -> None:
        """Serve an incoming comm, unless the link to its sender is cut."""
        if hello.get("sender") in self.severed:
            comm.abort()
            return
        await super().accept(comm, hello)

    async def _open(self, link: _Link) -> None:
        if link.to in self.severed:
            self._fail(link, CUT)
            return
        await super()._open(link)
