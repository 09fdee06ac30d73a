"""What peers have of the contents that plans only name: code of functions, and tables that streams look up.

Theory of operation
-------------------
A plan names a function or a table by the hash of its content. Whoever submits it sends the contents to the peers that
it knows, and a peer that has one offers the component that needs it. A peer that joins later, or starts anew, has none
of them: until the next submission nobody could move a component there, or place a backup. So peers tell each other:

1. A peer tells each new neighbour in the ring what it has.
2. A peer that has anything tells one neighbour after the other, one every ``TELLS`` seconds. So what was lost, what a
   client has sent meanwhile to peers that know of the newcomer, and a peer that has started anew at its old address are
   made good.
3. A peer that hears of what it lacks has its driver fetch it from the sender, over their link. It offers the component
   when the driver has it: a peer that refuses functions never does. A peer that is to execute what it lacks says no,
   and fetches it from the peer that executes it.

All that is said is what is; a message that comes late or twice does no harm. No more than the last ``MOST`` that were
needed are told. What a peer has dropped, as nobody needed it, it fetches again only when it is needed: its neighbours
may tell it of that content for a while, until they drop it, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from synergy_nb.control.driver_messages import ObtainContents
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.recently_seen import Recent

__all__ = ["AGAIN", "TELLS", "ContentsHeld", "HeldContents"]

TELLS: Final = 10.0  # seconds between two neighbours that are told
AGAIN: Final = 30.0  # seconds after which a content that has not come is asked for again
ASKED: Final = 4096  # contents that are remembered to have been asked for
MOST: Final = 256  # contents that are told, those that were needed last


class ContentsHeld(Message, frozen=True):
    """The sender has the contents of these components."""

    components: tuple[str, ...]


class HeldContents(Protocol):
    """The contents that a peer has, told to its neighbours in the ring."""

    def __init__(self, peer: Peer, pastry: Pastry) -> None:
        super().__init__(peer)
        self._pastry = pastry
        self._held: dict[str, None] = {}  # components whose contents are here, the last needed last
        self._asked: dict[str, float] = {}  # component to the time at which its content was asked for, seconds
        self._dropped = Recent(ASKED)  # components whose contents were here, and are not fetched unless they are needed
        self._known = pastry.leaves.member_set
        self._telling = False  # whether neighbours are told in turn
        self._told = 0  # neighbours that were told in turn
        self.handlers = {ContentsHeld: self._heard}
        pastry.on_change.append(self._leaves_changed)

    def hold(self, components: Iterable[str]) -> None:
        """Have contents from now on."""
        first = not self._telling
        for each in components:
            self._held.pop(each, None)
            self._held[each] = None
            self._asked.pop(each, None)
        if first and self._held:
            self._telling = True
            self.peer.after(TELLS, self._tell_next)

    def drop(self, components: Iterable[str]) -> None:
        """Have contents no more."""
        for each in components:
            if each in self._held:
                del self._held[each]
                self._dropped.add(each)

    def _leaves_changed(self) -> None:
        known, self._known = self._known, self._pastry.leaves.member_set
        for address in sorted(self._known - known):
            self._tell(address)

    def _tell_next(self) -> None:
        leaves = sorted(self._pastry.leaves.member_set)
        if leaves:
            self._tell(leaves[self._told % len(leaves)])
            self._told += 1
        self.peer.after(TELLS, self._tell_next)

    def _tell(self, address: str) -> None:
        if self._held and self._pastry.joined:
            self.peer.send(address, ContentsHeld(tuple(self._held)[-MOST:]))

    def want(self, component: str, holder: str) -> None:
        """Fetch a content from a peer that has it, unless it is on its way."""
        self._fetch(holder, (component,))

    def _heard(self, sender: str, message: ContentsHeld) -> None:
        self._fetch(sender, tuple(each for each in message.components[-MOST:] if each not in self._dropped))

    def _fetch(self, holder: str, components: tuple[str, ...]) -> None:
        now, asked = self.peer.now, self._asked
        unknown = (each for each in components if each not in self._held)
        lacking = tuple(each for each in unknown if now >= asked.get(each, -AGAIN) + AGAIN)
        if lacking:
            asked.update(dict.fromkeys(lacking, now))
            while len(asked) > ASKED:
                del asked[next(iter(asked))]
            self.peer.instruct(ObtainContents(holder, lacking))
