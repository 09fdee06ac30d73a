"""Recursive routing of messages to the live root of a key, with an acknowledgement at every hop.

Theory of operation
-------------------
The procedure is that of section 2.3 and figure 2 of the Pastry paper. If the leaf set covers the key, the next hop is
the nearest peer of the leaf set; else the peer of the routing table that shares one more digit; else any known peer
that shares as many digits and is nearer.

Every hop is acknowledged. If a hop through the table is not acknowledged within one timeout, the message is routed
around it. The last hop, to the root itself, is tried twice before the message goes to the next nearest peer, because a
lost message is likelier than a dead peer, and any other peer is wrong while the root lives. The message then names the
silent peer, and the next nearest peer tries it once more before it acts as root. A silent peer is avoided for a second,
and the failure detector is informed. Timeouts follow the measured round trips (:mod:`synergy_nb.overlay.latency`).

Duplicates are recognised at each hop by the sender's number, and at the root by the origin's.

A peer that hands a message on can change it, and can name any origin. So only messages that carry no authority of their
origin are routed (:attr:`.Message.routed`), and ``handed_on_by`` names the peer whose word for the origin is all that
there is.

References
----------
.. [1] A. Rowstron and P. Druschel, "Pastry: Scalable, decentralized object location and routing for large-scale
   peer-to-peer systems", Middleware 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from synergy_nb.control.peer import Message, Peer, Protocol, Timer
from synergy_nb.events import MessageRefused, RouteDropped
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.recently_seen import Recent
from synergy_nb.overlay.ring import LeafSet, RoutingTable, distance, number_of, ring_position, shared_digits

__all__ = ["RouteAck", "Routed", "Routing"]

HALF_LEAVES: Final = 8
HOP_LIMIT: Final = 24
LAST_HOP_TRIES: Final = 2
SILENCE: Final = 1.0  # seconds for which a peer that did not answer is avoided
QUEUE: Final = 256  # maximum number of routed messages that wait until the peer has joined
NOBODY: Final[frozenset[str]] = frozenset()


class Routed(Message, frozen=True, gc=False):
    """A message ``payload`` routed to the root of ``key``; each hop is acknowledged by its ``sequence`` number."""

    key: str
    payload: Any
    origin: str
    ident: int
    hops: int
    sequence: int
    silent: str = ""  # address of a peer that did not acknowledge an earlier hop


class RouteAck(Message, frozen=True, gc=False):
    """The acknowledgement of the hop with number ``sequence``."""

    sequence: int


class _Hop:
    """A routed message that the next peer has not acknowledged yet."""

    __slots__ = ("avoid", "deadline", "message", "sent", "to", "tries")

    def __init__(
        self, to: str, message: Routed, sent: float, deadline: float, avoid: frozenset[str], tries: int
    ) -> None:
        self.to = to
        self.message = message
        self.sent = sent
        self.deadline = deadline
        self.avoid = avoid
        self.tries = tries


class Routing(Protocol):
    """Routes by leaf set and routing table, which :class:`~synergy_nb.overlay.pastry.Pastry` maintains."""

    def __init__(self, peer: Peer, latency: Latency | None = None) -> None:
        super().__init__(peer)
        self.address = peer.address
        self.latency = latency if latency is not None else Latency()  # measured round trips; None for a new, empty one
        self.joined = False  # whether this peer is in the ring; otherwise it neither forwards nor acknowledges
        # number of messages that this peer has received as root after 0, 1, 2, ... hops
        self.hops = [0] * (HOP_LIMIT + 1)
        self.on_silent: list[Callable[[str], None]] = []  # listeners, called when a peer has not acknowledged a hop
        # functions that decide whether a mentioned peer may be added; all of them have to agree
        self.admission_checks: list[Callable[[str], bool]] = []
        self.leaves = LeafSet(peer.address, HALF_LEAVES)
        self.table = RoutingTable(peer.address)
        self._known: tuple[str, ...] | None = ()  # None when it has to be computed anew
        self._placed: dict[str, None] = {}
        self._silent: dict[str, float] = {}  # address to the time until which it is avoided, seconds
        self._unacknowledged: dict[int, _Hop] = {}
        self._sweeper: Timer | None = None
        self._sequence = 0
        self._seen = Recent(2048)  # (sender, sequence) of received hops
        self._received = Recent(1024)  # (origin, ident) of messages delivered at this peer as root
        self._queue: list[tuple[str, Message]] = []
        # while a message is delivered: the peer that has handed it on; empty if its origin has sent it here itself
        self.handed_on_by = ""
        self.handlers = {Routed: self._on_routed, RouteAck: self._on_ack}

    def route(self, key: str, payload: Message, first: str | None = None) -> None:
        """Send ``payload`` to the live root of ``key``, where its protocol receives it with this peer as sender.

        ``key``: key of 32 hexadecimal digits; ``payload``: message to deliver; it may be delivered more than once, and
        at two peers while the ring is repaired; ``first``: address of the presumed root, which is the first hop unless
        it is known to be silent or dead.
        """
        if not self.joined:
            if len(self._queue) < QUEUE:
                self._queue.append((key, payload))
            else:
                self.peer.record(RouteDropped, key, reason="not joined and the queue is full", limit=QUEUE)
            return
        if first is not None and (first in self._silent or first == self.address or not self.admissible(first)):
            first = None
        self._forward(key, payload, self.address, self._next(), 0, NOBODY, "", first)

    def admissible(self, address: str) -> bool:
        """Whether a mentioned peer may be added to leaf set and routing table."""
        return all(accepts(address) for accepts in self.admission_checks)

    def is_root(self, key: str) -> bool:
        """Whether this peer is nearer to ``key`` than all peers that it knows."""
        number = number_of(key)
        leaves = self.leaves
        return leaves.covers(number) and leaves.nearest(number) == self.address

    def root_of(self, key: str) -> str | None:
        """The root of ``key`` if the leaf set covers it, else None."""
        number = number_of(key)
        return self.leaves.nearest(number) if self.leaves.covers(number) else None

    def root_neighbours(self, count: int) -> tuple[str, ...]:
        """The nearest ``count`` peers on each side, nearest first; one of them would be the next root of a key."""
        return self.leaves.neighbours(count)

    @property
    def leaf_set(self) -> tuple[str, ...]:
        """The nearest peers on both sides."""
        return self.leaves.members

    def known(self) -> tuple[str, ...]:
        """All peers of the leaf set and the routing table."""
        if self._known is None:
            self._placed = dict.fromkeys(self.table.entries.values())
            self._known = tuple(dict.fromkeys((*self.leaves.members, *self._placed)))
        return self._known

    def placed(self) -> Mapping[str, None]:
        """The peers of the routing table."""
        if self._known is None:
            self.known()
        return self._placed

    # -- overridden by Pastry ----------------------------------------------------------------------------------------

    def missing(self, slot: int) -> None:
        """Note that a message would have needed a peer in an empty slot."""

    def passing(self, payload: Any, hops: int) -> tuple[Any, frozenset[str]]:
        """The payload to forward in place of ``payload``, and the peers that it must not be forwarded to."""
        del hops
        return payload, NOBODY

    def arrived(self, payload: Any) -> bool:
        """Handle a payload for the ring itself at its root; return whether it was one."""
        del payload
        return False

    # -- routing -----------------------------------------------------------------------------------------------------

    def next_hop(self, key: str, avoid: Collection[str] = ()) -> str:
        """The next hop to the root of ``key``; this peer's own address if it is the root itself."""
        number = number_of(key)
        leaves = self.leaves
        if leaves.covers(number):
            return leaves.nearest(number, avoid)
        table = self.table
        slot = table.slot(number)
        hop = table.entries.get(slot)
        if hop is not None and hop not in avoid:
            return hop
        if hop is None:
            self.missing(slot)
        row = slot >> 4
        best, least = self.address, distance(self.leaves.number, number)
        for address in self.known():
            position = ring_position(address)
            apart = distance(position, number)
            if apart < least and shared_digits(position, number) >= row and address not in avoid:
                best, least = address, apart
        return best

    def _forward(
        self,
        key: str,
        payload: Any,
        origin: str,
        ident: int,
        hops: int,
        avoid: frozenset[str],
        silent: str,
        first: str | None = None,
    ) -> None:
        around: Collection[str] = avoid
        now = self.peer.now
        if self._silent:
            self._silent = {address: until for address, until in self._silent.items() if until > now}
            # a peer that did not acknowledge is avoided by all messages for a while, not only by the one that has
            # waited for it
            around = avoid.union(self._silent)
        hop = first if first is not None else self.next_hop(key, around)
        if hop == self.address:
            self._deliver(payload, origin, ident, hops)
            return
        if hops >= HOP_LIMIT:
            self.peer.record(RouteDropped, key, reason="hop limit", limit=HOP_LIMIT, origin=origin)
            return
        sequence = self._next()
        message = Routed(key, payload, origin, ident, hops + 1, sequence, silent)
        deadline = now + self.latency.timeout(hop)
        self._unacknowledged[sequence] = _Hop(
            hop, message, now, deadline, avoid, LAST_HOP_TRIES if hop == silent else 1
        )
        if self._sweeper is None or self._sweeper.when > deadline:
            self._sweep_at(deadline)
        self.peer.send(hop, message)

    def _on_routed(self, sender: str, message: Routed) -> None:
        if not self.joined:
            return  # without an acknowledgement, the sender routes around this peer
        # acknowledged every time, as an acknowledgement may be lost, and taken once
        # (test_a_hop_is_acknowledged_every_time_and_taken_once)
        self.peer.send(sender, RouteAck(message.sequence))
        if not self._seen.add((sender, message.sequence)):
            return
        kind, origin = type(message.payload), message.origin
        if not kind.routed:
            self.peer.record(MessageRefused, sender, message=kind.__name__, reason="it is never routed")
            return
        self.handed_on_by = "" if origin == sender else sender
        payload, avoid = self.passing(message.payload, message.hops)
        self._forward(message.key, payload, origin, message.ident, message.hops, avoid, message.silent)
        self.handed_on_by = ""

    def _deliver(self, payload: Any, origin: str, ident: int, hops: int) -> None:
        # two copies of a message have different sequence numbers if one went around a hop that was only slow; one that
        # was handed on does not stand for what its origin says itself (test_a_forged_copy_suppresses_no_message)
        if not self._received.add((origin, ident, bool(self.handed_on_by))):
            return
        if self.arrived(payload):
            return
        self.hops[hops] += 1
        if origin == self.address and not self.handed_on_by:
            self.peer.send(origin, payload)  # handled at the end of this call
        else:
            self.peer.deliver(origin, payload)

    def _on_ack(self, sender: str, message: RouteAck) -> None:
        hop = self._unacknowledged.get(message.sequence)
        if hop is None or hop.to != sender:
            return
        del self._unacknowledged[message.sequence]
        if hop.tries == 1:  # Karn's rule: after a repetition it is unknown which of the two was acknowledged
            self.latency.sample(sender, self.peer.now - hop.sent)
        if self._silent:
            self._silent.pop(sender, None)

    def _sweep(self) -> None:
        """Repeat hops that were not acknowledged in time, or route around them."""
        now = self.peer.now
        for sequence, hop in list(self._unacknowledged.items()):
            if hop.deadline > now or sequence not in self._unacknowledged:
                continue
            if (
                # near the root there is no other way to it: around it, the message would reach a wrong root
                # (test_lost_messages_do_not_reach_the_wrong_root)
                hop.tries < LAST_HOP_TRIES
                and hop.to not in self._silent
                and self.leaves.covers(number_of(hop.message.key))
            ):
                hop.tries += 1
                hop.deadline = now + self.latency.timeout(hop.to)
                self.peer.send(hop.to, hop.message)
                self._report_silent(hop.to)
                continue
            del self._unacknowledged[sequence]
            self._silent[hop.to] = now + SILENCE
            self._report_silent(hop.to)
            self._around(hop)
        self._sweeper = None
        if self._unacknowledged:
            self._sweep_at(min(hop.deadline for hop in self._unacknowledged.values()))

    def _sweep_at(self, when: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweeper = self.peer.after(max(when - self.peer.now, 0.0), self._sweep)

    def _report_silent(self, address: str) -> None:
        for callback in self.on_silent:
            callback(address)

    def _around(self, hop: _Hop) -> None:
        message = hop.message
        # the hop that did not answer does not count, or a few silent peers would use up the limit of hops
        avoid = hop.avoid | {hop.to}
        self._forward(message.key, message.payload, message.origin, message.ident, message.hops - 1, avoid, hop.to)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _renumber(self) -> None:
        """Raise the sequence number to the clock's, so that a restarted peer does not use old numbers again."""
        self._sequence = max(self._sequence, int(self.peer.now * 1e6))
