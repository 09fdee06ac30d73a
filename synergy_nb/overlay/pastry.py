"""Pastry: a ring of peers on which every key has one live root, reached in about log16 N hops.

Theory of operation
-------------------
*State.* A peer's key is the leading 128 bits of the SHA-1 of its id, which its address states
(:func:`~synergy_nb.control.identity.peer_id_of`). It has a leaf set of the 8 nearest peers on each side, and a routing
table with one peer for each prefix and next digit (:mod:`synergy_nb.overlay.ring`). If two peers fit the same slot, the
one with the shorter measured round trip stays (section 2.5 of Pastry); a peer that has not been measured waits as a
*rival* until the failure detector has pinged it.

*Routing* is in :mod:`synergy_nb.overlay.routing`.

*Joining* (section 2.4). The request is routed to the newcomer's own key. Every peer on the route adds the rows of its
table that fit, the root answers with its leaf set, and the newcomer announces itself to all these peers. A peer that
adds another one to its leaf set because a third mentioned it announces itself to it. So leaf sets become symmetric at
once, even if many peers join together.

*Repair.* When a peer has died, its position in the leaf set is filled from the known peers and from the leaf set of the
outermost peer on that side; a peer for an empty routing slot is requested from another peer of the same row. Immediate
neighbours exchange leaf sets every second after a change, and less often while nothing changes (up to every 16 s).

*Leaving* is announced, with the leaf set, to all known peers.

This module does not decide which peers are dead. The failure detector (:mod:`synergy_nb.overlay.membership`) is one of
:attr:`Pastry.admission_checks`, which decide whether a peer may be added; it calls :meth:`Pastry.remove` and
:meth:`Pastry.consider`.

References
----------
.. [1] A. Rowstron and P. Druschel, "Pastry: Scalable, decentralized object location and routing for large-scale
   peer-to-peer systems", Middleware 2001.
.. [2] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   sections 2.2.3 and 2.3.3 (the peer-to-peer overlay that finds components and streams).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final

from synergy_nb.control.peer import Message, Peer
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.ring import distance, ring_position, shared_digits
from synergy_nb.overlay.routing import NOBODY, RouteAck, Routed, Routing

__all__ = ["JoinReply", "JoinRequest", "Leaves", "Leaving", "Pastry", "RouteAck", "Routed", "RowReply", "RowRequest"]

FAST: Final = 1.0  # seconds between exchanges of leaf sets after a change
SLOW: Final = 16.0  # maximum number of seconds between exchanges of leaf sets
ROW_EVERY: Final = 45.0  # seconds between requests for a row of another peer's table
REQUEST_INTERVAL: Final = 60.0  # seconds between requests for one empty slot that messages would have needed
JOIN_FIRST: Final = 0.4  # initial time until a join is tried again, seconds
JOIN_LAST: Final = 3.0  # maximum time until a join is tried again, seconds
RIVALS: Final = 32  # maximum number of peers that wait to be measured


class JoinRequest(Message, frozen=True, gc=False):
    """A newcomer's request to join, routed to its key; every peer on the route adds addresses to ``learned``."""

    routed: ClassVar[bool] = True

    joiner: str
    attempt: int
    learned: tuple[str, ...]


class JoinReply(Message, frozen=True, gc=False):
    """The answer to :class:`JoinRequest`: the collected addresses, and the leaf set of the root."""

    attempt: int
    learned: tuple[str, ...]
    leaves: tuple[str, ...]


class Leaves(Message, frozen=True, gc=False):
    """The leaf set of the sender, which is in the ring; ``answer`` asks for the receiver's leaf set."""

    leaves: tuple[str, ...]
    answer: bool


class RowRequest(Message, frozen=True, gc=False):
    """A request for peers that share ``row`` digits with the sender; of one ``column`` only, unless that is -1."""

    row: int
    column: int


class RowReply(Message, frozen=True, gc=False):
    """The answer to :class:`RowRequest`: peers for a row of the routing table."""

    learned: tuple[str, ...]


class Leaving(Message, frozen=True, gc=False):
    """The sender leaves the ring; with its leaf set, by which receivers repair theirs."""

    leaves: tuple[str, ...]


class Pastry(Routing):
    """The ring protocol of one peer.

    ``latency``: measured round trips, shared with the failure detector; None for a new, empty one.
    """

    def __init__(self, peer: Peer, latency: Latency | None = None) -> None:
        super().__init__(peer, latency)
        # on_joined, on_leave: listeners, called when this peer has joined, and before it leaves
        self.on_joined: list[Callable[[], None]] = []
        self.on_leave: list[Callable[[], None]] = []
        self.on_change: list[Callable[[], None]] = []  # listeners, called when the leaf set has changed
        # listeners, called when another peer has announced that it leaves
        self.on_left: list[Callable[[str], None]] = []
        self.started = False
        self.prebuilt = False  # whether the ring was prebuilt, so that there are no entries to pull from neighbours
        self._rivals: dict[str, None] = {}
        self._contact: str | None = None
        self._attempt = 0
        self._interval = FAST
        self._exchanges = 0
        self._requested: dict[int, float] = {}  # slot (of 512) to the time of the last request for a peer, seconds
        self._epoch = 0  # number of times that this peer joined or left: earlier timers do nothing
        self.payloads = (JoinRequest,)
        self.handlers = {
            **self.handlers,
            JoinReply: self._on_join_reply,
            Leaves: self._on_leaves,
            RowRequest: self._on_row_request,
            RowReply: self._on_row_reply,
            Leaving: self._on_leaving,
        }

    # -- for the driver and the protocols above --------------------------------------------------------------------

    def start(self) -> None:
        """Start the timers of a peer whose state comes from :func:`~synergy_nb.overlay.prebuilt_ring.assemble`."""
        self.started = True
        self._renumber()
        if self.joined:
            self._enter()

    def join_prebuilt(self) -> None:
        """Mark this peer as joined, with the state of a prebuilt ring; ``start`` starts its timers."""
        self.joined = self.prebuilt = True
        self._known = None

    def join(self, contact: str | None) -> None:
        """Join the ring that ``contact`` is in, or begin a new one when it is None."""
        if self.joined:
            return
        self._renumber()
        if contact is None or contact == self.address:
            self.joined = True
            self._enter()
            return
        self._contact = contact
        self._attempt = self._next()
        self._try_to_join(self._attempt, JOIN_FIRST)

    def leave(self) -> None:
        """Announce to all known peers that this one leaves, and leave the ring; :meth:`join` may be called again."""
        self._contact = None
        if not self.joined:
            return
        for callback in self.on_leave:
            callback()
        farewell = Leaving(self.leaves.members)
        for address in self.known():
            self.peer.send(address, farewell)
        self.joined = self.prebuilt = False
        self._epoch += 1
        self.leaves.clear()
        self.table.entries.clear()
        self._known = ()
        self._rivals.clear()
        self._unacknowledged.clear()

    def remove(self, address: str) -> None:
        """Remove a peer that has died or left from all state, and repair that."""
        self._rivals.pop(address, None)
        self._silent.pop(address, None)
        version = self.leaves.version
        wing = self.leaves.left
        if self.leaves.discard(address):
            self._known = None
            for other in self.known():
                if other != address:
                    self.leaves.add(other)
            if self.joined:
                extremes = self.leaves.left if address in wing else self.leaves.right
                for other in dict.fromkeys(extremes[-1:] + self.leaves.neighbours(1)[:1]):
                    self.peer.send(other, Leaves(self.leaves.members, True))
        slot = self.table.slot(ring_position(address))
        if self.table.entries.get(slot) == address:
            del self.table.entries[slot]
            self._known = None
            for other in self.leaves.members:
                self._offer(other)
            if slot not in self.table.entries:
                self._request_entry(slot)
        for sequence, hop in list(self._unacknowledged.items()):
            if hop.to == address:
                del self._unacknowledged[sequence]
                # at once, without the time-outs that messages on their way through the dead peer would still wait for
                self._around(hop)
        self._changed_since(version)

    def consider(self, address: str) -> None:
        """Add a peer that is known to be alive to the leaf set and the routing table, where it fits."""
        if address == self.address:
            return
        version = self.leaves.version
        self._add_peer(address, mentioned=True)
        self._changed_since(version)

    def beyond(self) -> list[str]:
        """The peers of the routing table that are not in the leaf set."""
        here = self.leaves.member_set
        return [address for address in self.placed() if address not in here]

    def next_rival(self) -> str | None:
        """The next peer to be measured because another one occupies its slot; None if there is none."""
        while self._rivals:
            address = next(iter(self._rivals))
            del self._rivals[address]
            if address not in self.leaves and self.admissible(address):
                return address
        return None

    def measured(self, address: str) -> None:
        """Note a measured round trip to ``address``: it is not silent, and may replace a farther peer in the table."""
        if self._silent:
            self._silent.pop(address, None)
        if address in self.placed():
            return
        slot = self.table.slot(ring_position(address))
        incumbent = self.table.entries.get(slot)
        if incumbent is None:
            return
        mine, theirs = self.latency.rtt(address), self.latency.rtt(incumbent)
        if mine is not None and theirs is not None and mine < 0.9 * theirs:  # hysteresis: samples vary
            self.table.entries[slot] = address
            self._known = None

    # -- joining -----------------------------------------------------------------------------------------------------

    def _try_to_join(self, attempt: int, patience: float) -> None:
        if self.joined or self._contact is None or attempt != self._attempt:
            return
        self._request_join(self._contact, attempt)
        again = min(patience * 1.6, JOIN_LAST)
        self.peer.after(patience * (0.75 + 0.5 * self.peer.rng.random()), self._try_to_join, attempt, again)

    def _request_join(self, contact: str, attempt: int) -> None:
        number = self._next()
        request = JoinRequest(self.address, attempt, ())
        self.peer.send(contact, Routed(self.peer.key, request, self.address, number, 1, number))

    def passing(self, payload: Any, hops: int) -> tuple[Any, frozenset[str]]:
        """Add known peers to a join request; do not forward it to the joiner itself, which may have rejoined."""
        if type(payload) is not JoinRequest:
            return payload, NOBODY
        return self._teach(payload, hops), frozenset((payload.joiner,))

    def arrived(self, payload: Any) -> bool:
        """Answer a join request."""
        if type(payload) is not JoinRequest:
            return False
        learned = tuple(address for address in payload.learned if address != payload.joiner)
        self.peer.send(payload.joiner, JoinReply(payload.attempt, learned, (self.address, *self.leaves.members)))
        return True

    def _teach(self, request: JoinRequest, hops: int) -> JoinRequest:
        """Add this peer, and the rows of its table that fit the newcomer, to what a join request collects."""
        shared = shared_digits(self.leaves.number, ring_position(request.joiner))
        learned = dict.fromkeys(request.learned)
        learned[self.address] = None
        for row in range(0 if hops == 1 else min(hops - 1, shared), shared + 1):
            learned.update(dict.fromkeys(self.table.row(row)))
        return JoinRequest(request.joiner, request.attempt, tuple(learned))

    def _on_join_reply(self, sender: str, message: JoinReply) -> None:
        if self.joined:
            self._on_leaves(sender, Leaves((*message.leaves, *message.learned), False))
            return
        if message.attempt != self._attempt or self._contact is None:
            return
        for address in (sender, *message.leaves, *message.learned):
            self._add_peer(address, mentioned=False)
        self.joined = True
        announcement = Leaves(self.leaves.members, True)
        for address in self.known():
            self.peer.send(address, announcement)
        self._enter()

    def _enter(self) -> None:
        self._epoch += 1
        self._contact = None
        if self.started:
            self._interval = SLOW if self.prebuilt else FAST
            self.peer.after(self._interval * (0.5 + self.peer.rng.random()), self._stabilise, self._epoch)
            self.peer.after(ROW_EVERY * (0.5 + self.peer.rng.random()), self._look_at_rows, self._epoch)
        for callback in self.on_joined:
            callback()
        queue, self._queue = self._queue, []
        for key, payload in queue:
            self.route(key, payload)

    # -- maintenance -------------------------------------------------------------------------------------------------

    def _add_peer(self, address: str, mentioned: bool) -> None:
        """Add a peer where it fits; announce this peer to a new leaf that others mentioned (``mentioned``)."""
        if address == self.address or address in self.leaves or not self.admissible(address):
            return
        if self.leaves.add(address):
            self._known = None
            # only to peers of which a third has told: one that has written knows this peer, and would be answered
            # without end (test_a_peer_announces_itself_to_new_members_of_its_leaf_set)
            if mentioned and self.joined:
                self.peer.send(address, Leaves(self.leaves.members, True))
        self._offer(address)

    def _offer(self, address: str) -> None:
        slot = self.table.slot(ring_position(address))
        if slot < 0:
            return
        incumbent = self.table.entries.get(slot)
        if incumbent is None:
            self.table.entries[slot] = address
            self._known = None
        elif incumbent != address:
            if address in self.latency:
                self.measured(address)
            elif len(self._rivals) < RIVALS:
                self._rivals[address] = None

    def _changed_since(self, version: int) -> None:
        if self.leaves.version == version:
            return
        self._interval = FAST
        for callback in self.on_change:
            callback()

    def _on_leaves(self, sender: str, message: Leaves) -> None:
        if not self.joined:
            return
        version = self.leaves.version
        self._add_peer(sender, mentioned=False)
        here = self.leaves.member_set
        for address in message.leaves:
            if address not in here:
                self._add_peer(address, mentioned=True)
        if message.answer:
            if sender in self.leaves:
                self.peer.send(sender, Leaves(self.leaves.members, False))
            else:
                # it takes this one for a leaf and is none here: so it lacks its nearest neighbours, and learns of them
                # at once, not only by its next join request
                self._point(sender, message.leaves)
        self._changed_since(version)

    def _point(self, sender: str, leaves: Collection[str]) -> None:
        """Send a peer that is no leaf of this one the known peers that are nearest to it, if it lacks them."""
        position = ring_position(sender)
        near = sorted(
            (address for address in self.known() if address != sender),
            key=lambda address: distance(ring_position(address), position),
        )[: self.leaves.half]
        if near and near[0] not in leaves:
            self.peer.send(sender, Leaves(tuple(near), False))

    def _stabilise(self, epoch: int) -> None:
        """Exchange leaf sets with the left and the right neighbour by turns; every third time send a join request.

        The join request goes to this peer's own key through a random known peer. So this peer finds neighbours that
        none of its neighbours knows, as when two rings interleave.
        """
        if epoch != self._epoch:
            return
        version = self.leaves.version
        near = self.leaves.neighbours(1)
        if near:
            self._exchanges += 1
            turn = self._exchanges % 3
            # by its neighbours alone it would never hear of a peer between it and them
            # (test_a_ring_that_goes_round_twice_is_straightened)
            if turn < 2 or self.leaves.whole:
                self.peer.send(near[turn % len(near)], Leaves(self.leaves.members, True))
            else:
                self._request_join(self.peer.rng.choice(self.known()), self._attempt)
        delay = self._interval * (0.75 + 0.5 * self.peer.rng.random())
        self._interval = min(self._interval * 1.5, SLOW)
        self.peer.after(delay, self._stabilised, epoch, version)

    def _stabilised(self, epoch: int, version: int) -> None:
        if version != self.leaves.version:
            self._interval = FAST
        self._stabilise(epoch)

    def _look_at_rows(self, epoch: int) -> None:
        """Ask a peer of a random row for its own row, whose peers may be nearer (section 2.4, maintenance)."""
        if epoch != self._epoch:
            return
        if self.table.entries and not self.leaves.whole:
            slot = self.peer.rng.choice(list(self.table.entries))
            self.peer.send(self.table.entries[slot], RowRequest(slot >> 4, -1))
        self.peer.after(ROW_EVERY * (0.75 + 0.5 * self.peer.rng.random()), self._look_at_rows, epoch)

    def missing(self, slot: int) -> None:
        """Request a peer for an empty slot, at most once a minute, unless the ring is probably too small."""
        likely = self.leaves.size_estimate >= 16.0 ** ((slot >> 4) + 1) / 2
        if likely and self._requested.get(slot, -REQUEST_INTERVAL) + REQUEST_INTERVAL <= self.peer.now:
            self._request_entry(slot)

    def _request_entry(self, slot: int) -> None:
        """Request a peer for an empty slot from another peer of its row or the next rows (section 2.4, repair)."""
        if slot < 0 or not self.joined or self.leaves.whole:
            return
        self._requested[slot] = self.peer.now
        row = slot >> 4
        for nearby in range(row, row + 3):
            peers = [address for address in self.table.row(nearby) if address not in self._silent]
            if peers:
                self.peer.send(self.peer.rng.choice(peers), RowRequest(row, slot & 15))
                return

    def _on_row_request(self, sender: str, message: RowRequest) -> None:
        if not self.joined or not 0 <= message.row < 32 or not -1 <= message.column < 16:
            return
        position = ring_position(sender)
        found = [
            address
            for address in (*self.known(), self.address)
            if address != sender
            and shared_digits(ring_position(address), position) == message.row
            and message.column in (-1, ring_position(address) >> (124 - 4 * message.row) & 15)
        ]
        if found:
            self.peer.send(sender, RowReply(tuple(found[:16])))

    def _on_row_reply(self, sender: str, message: RowReply) -> None:
        self._on_leaves(sender, Leaves(message.learned, False))

    def _on_leaving(self, sender: str, message: Leaving) -> None:
        for callback in self.on_left:
            callback(sender)
        version = self.leaves.version
        self.remove(sender)
        if self.joined:
            for address in message.leaves:
                self._add_peer(address, mentioned=True)
        self._changed_since(version)
