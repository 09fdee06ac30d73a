"""What a peer believes of others: who lives, who is suspected, who is dead, and who has left.

Theory of operation
-------------------
:class:`~synergy_nb.overlay.membership.Membership` pings, and tells its beliefs what it finds. What others say is never
believed of a death: it is a reason to ping that peer oneself. So a stale verdict, of whoever was late or cut off, harms
nobody who reaches the peer that it is about, and nobody has to know who declared a death, when, and whether he still
stands by it. A peer that learns that it is suspected forgets what it was about to spread of others, gives its suspects
their time again, and, if it was declared dead, pings those that it has declared dead itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import log2
from typing import Final

from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.events import PeerRefutedDeath
from synergy_nb.overlay._local_health import MOST_STRETCH, LocalHealth
from synergy_nb.overlay._peer_records import VERIFY_EVERY, PeerRecord, Suspicion, UnansweredPing
from synergy_nb.overlay.gossip import ALIVE, DEAD, LEFT, SUSPECT, Gossip, News
from synergy_nb.overlay.pastry import Pastry

SPREAD: Final = 3.0  # each piece of news is sent this many times, multiplied by log2 of the ring's size
MOST_MEMBERS: Final = 4096  # maximum number of remembered peers
MOST_DEAD: Final = 512  # maximum number of remembered dead peers
RETRY_FOR: Final = 1800.0  # seconds for which a dead peer is pinged from time to time
RECALLED: Final = 64  # maximum number of dead peers that are pinged at once
RELIABLE: Final = 3.0  # stretch of a peer up to which its word about others counts
LAST_PINGS: Final = 2  # pings that a peer does not answer which is said to have left
MOST_INCARNATION: Final = 1 << 53  # an incarnation of which others tell is at most that: it is a time in milliseconds
# other peers that have to find a peer silent, too, before its suspicion is as short as it gets
CONFIRMATIONS: Final = 2


class Beliefs(Protocol):
    """What one peer believes of others."""

    period: float

    def __init__(self, peer: Peer, pastry: Pastry) -> None:
        super().__init__(peer)
        self.pastry = pastry
        self.incarnation = 0
        self._died = -1  # latest incarnation of this peer that others declared dead
        self.on_dead: list[Callable[[str], None]] = []
        self.on_alive: list[Callable[[str], None]] = []
        self.on_ended: list[Callable[[str], None]] = []
        self.on_refuted: list[Callable[[], None]] = []
        self._members: dict[str, PeerRecord] = {}
        self._refused: dict[str, None] = {}  # peers at whose addresses no process listens, in the order of that
        self._dead: dict[str, None] = {}  # peers in status dead or left, in the order of that
        self._probes: dict[str, UnansweredPing] = {}
        self.suspects: dict[str, Suspicion] = {}
        self.watched: dict[str, int] = {}  # address to its number of watchers
        self._health = LocalHealth()
        self._gossip = Gossip()
        self._running = False

    @abstractmethod
    def _ping(self, address: str) -> int:
        """Ping a peer, and say what is believed of it; return the number of the ping."""

    @abstractmethod
    def _request_pings(self, address: str, number: int, count: int) -> None:
        """Have so many others ping a peer."""

    def is_dead(self, address: str) -> bool:
        """Whether ``address`` was declared dead or has left, and has not come back."""
        return address in self._dead

    def has_ended(self, address: str) -> bool:
        """Whether a dead peer is more than silent: it has left, or no process listens at its address any more."""
        return address in self._dead and (address in self._refused or self._members[address].status == LEFT)

    def silent(self, seconds: float) -> list[str]:
        """Peers that are suspected, or have been dead for at most so many seconds, and whose processes may live."""
        since = self.peer.now - seconds
        dead = [each for each in self._dead if not self.has_ended(each) and self._members[each].since >= since]
        return [*self.suspects, *dead]

    def note_refused(self, address: str) -> None:
        """Note that no process listens at ``address``: once it counts as dead, it will not come back."""
        before = self.has_ended(address)
        if self._running and self._concerns(address) and not self.is_dead(address):
            self._doubt(address, SUSPECT, self._incarnation_of(address), own=True).refused = True
        self._refused[address] = None
        if len(self._refused) > MOST_DEAD:
            del self._refused[next(iter(self._refused))]
        if not before and self.has_ended(address):
            for callback in self.on_ended:
                callback(address)

    def _concerns(self, address: str) -> bool:
        """Whether this peer has to do with another one: it is in the ring, was heard of, or is watched.

        Somebody may have had this peer open a link to an address that nobody has.
        """
        if address == self.peer.address:
            return False
        return address in self._members or address in self.watched or address in self.pastry.known()

    @property
    def stretch(self) -> float:
        """Factor of time limits: 1 if this peer is in time, up to 8 if it is late (it gets little of a processor)."""
        return self._health.stretch

    def status(self, address: str) -> int:
        """One of ``ALIVE`` (also if nothing is known), ``SUSPECT``, ``DEAD``, ``LEFT``."""
        member = self._members.get(address)
        return ALIVE if member is None else member.status

    # -- beliefs -----------------------------------------------------------------------------------------------------

    def _observe_alive(self, address: str, incarnation: int, stretch: float | None = None) -> News | None:
        """Note a sign of life of ``address``; return the news that it has still to refute, or None."""
        if self._refused:
            self._refused.pop(address, None)
        member = self._members.get(address)
        if member is None:
            member = self._remember(address, incarnation, ALIVE)
        if stretch is not None and stretch != member.stretch:
            member.stretch = min(max(stretch, 1.0), MOST_STRETCH)
        if incarnation > member.incarnation:
            if member.status == ALIVE:
                member.incarnation = incarnation
            else:
                self._believe(address, ALIVE, incarnation)
        elif member.status == ALIVE:
            return None
        elif member.status == SUSPECT:  # it lives, whatever was said; but others may still believe that
            suspicion = self.suspects.pop(address, None)
            member.status = ALIVE
            return News(address, SUSPECT if suspicion is None else suspicion.status, member.incarnation)
        else:
            return News(address, member.status, member.incarnation)
        return None

    def _learn(self, news: tuple[News, ...], sender: str, incarnation: int, stretch: float = 1.0) -> bool:
        """Process news of a sender; return whether some of it says that this peer is suspect, dead or has left."""
        member = self._members.get(sender)
        # a peer that counts as dead here and has not refuted that was cut off: its verdicts on others are of that time
        cut_off = member is not None and member.status >= DEAD and incarnation <= member.incarnation
        charged = False
        for piece in news:
            if piece.address == self.peer.address:
                charged |= self._defend(piece)
            elif cut_off or not 0 <= piece.incarnation <= MOST_INCARNATION:
                continue
            elif piece.status in (SUSPECT, DEAD, LEFT):
                if stretch <= RELIABLE:
                    self._look(piece, sender)
            elif piece.status == ALIVE:
                self._hear_alive(piece)
        return charged

    def _hear_alive(self, piece: News) -> None:
        """Note that a peer is said to live: one that was found silent has to say so itself, so it is pinged."""
        member, suspicion = self._members.get(piece.address), self.suspects.get(piece.address)
        if member is None or member.status == ALIVE or (suspicion is not None and not suspicion.own):
            self._believe(piece.address, ALIVE, piece.incarnation)
        elif piece.incarnation > member.incarnation:
            self._ping(piece.address)

    def _look(self, piece: News, sender: str) -> None:
        """Ping a peer that is said to be silent or gone: what others say is a reason to look, none to believe."""
        address, member = piece.address, self._members.get(piece.address)
        if member is None and piece.status == SUSPECT and address not in {*self.watched, *self.pastry.known()}:
            return  # this peer need not know that
        dead = self.is_dead(address)
        if member is not None and piece.incarnation < member.incarnation + dead:
            return
        if address not in self.suspects and len(self.suspects) >= MOST_DEAD:
            return
        known = self.suspects.get(address)
        # with a later incarnation than that in which it died
        if dead:  # it has come back, and may have died again
            self._believe(address, SUSPECT, piece.incarnation)
        suspicion = self._doubt(address, piece.status, piece.incarnation, own=False)
        suspicion.confirmed.add(sender)
        if known is None or piece.status > known.status:
            suspicion.status = piece.status
            self._request_pings(address, self._ping(address), CONFIRMATIONS)
            if piece.status == LEFT:
                self._await_leaver(address, suspicion, LAST_PINGS)

    def _await_leaver(self, address: str, suspicion: Suspicion, pings: int) -> None:
        """Believe that a peer has left once it has not answered a few pings in the time of an answer."""
        if self.suspects.get(address) is not suspicion or not self._running:
            return
        if not pings:
            self._believe(address, LEFT, self._incarnation_of(address))
            return
        if pings < LAST_PINGS:
            self._ping(address)
        member = self._members[address]
        seconds = self.pastry.latency.timeout(address) * max(self.stretch, member.stretch) / LAST_PINGS
        self.peer.after(seconds, self._await_leaver, address, suspicion, pings - 1)

    def _doubt(self, address: str, status: int, incarnation: int, *, own: bool) -> Suspicion:
        """Suspect a peer, if this one does not yet; the suspicion is spread if it is this peer's own."""
        member = self._members.get(address) or self._remember(address, incarnation, ALIVE)
        member.incarnation = max(member.incarnation, incarnation)
        suspicion = self.suspects.get(address)
        if suspicion is None:
            suspicion = self.suspects[address] = Suspicion(self.peer.now, status, own=own)
            member.status, member.since = SUSPECT, self.peer.now
            if own and self.stretch <= RELIABLE:
                self._spread(News(address, SUSPECT, member.incarnation))
        return suspicion

    def _defend(self, piece: News) -> bool:
        """Refute news about this peer with a higher incarnation; return whether the sender needs the refutation."""
        if not 0 <= piece.incarnation <= MOST_INCARNATION:
            return False
        charged = piece.status != ALIVE and piece.incarnation >= self.incarnation
        if charged:  # this peer was late or cut off: what it believes of others may be wrong for that reason
            self._health.missed()
            self._gossip.clear()
            self._probes.clear()
            for suspicion in self.suspects.values():
                suspicion.restart(self.peer.now)
        if piece.status >= DEAD and piece.incarnation > self._died:
            self._died = piece.incarnation  # so that each death is reported once
            self.peer.record(PeerRefutedDeath, piece.address, incarnation=piece.incarnation)
            for callback in self.on_refuted:
                callback()
            self._look_again()
        if charged or piece.incarnation > self.incarnation:
            self.incarnation = piece.incarnation + 1
            self._spread(News(self.peer.address, ALIVE, self.incarnation))
        return piece.status != ALIVE

    def _look_again(self) -> None:
        """Ping the peers that this one has declared dead while it was itself taken for dead."""
        now = self.peer.now
        for address in [each for each in self._dead if self._may_return(self._members[each], now)][-RECALLED:]:
            self._ping(address)

    def _believe(self, address: str, status: int, incarnation: int) -> None:
        """Adopt a status that is newer than the known one (see the one rule above), act on it and spread it."""
        member = self._members.get(address)
        if member is None:
            if status == SUSPECT and address not in self.watched and address not in self.pastry.known():
                return  # this peer need not know that before the peer is dead
            member = self._remember(address, -1, ALIVE)
            if status == ALIVE:
                member.incarnation = incarnation
                return
        elif incarnation < member.incarnation or (incarnation == member.incarnation and status <= member.status):
            return
        before = member.status
        member.status, member.incarnation = status, incarnation
        if before == ALIVE == status:
            return
        now = self.peer.now
        member.since = now
        if status == ALIVE:
            self._refused.pop(address, None)
        if status not in (SUSPECT, DEAD) or self.stretch <= RELIABLE:
            self._spread(News(address, status, incarnation))
        if status < DEAD <= before:  # a peer that is suspected in a later incarnation has also come back
            del self._dead[address]
            self._refused.pop(address, None)
            self.pastry.consider(address)
            for callback in self.on_alive:
                callback(address)
        if status == SUSPECT:
            self.suspects.setdefault(address, Suspicion(now, SUSPECT, own=False))
            return
        self.suspects.pop(address, None)
        if status >= DEAD > before:
            self._probes.pop(address, None)
            self._bury(address)
            self.pastry.remove(address)
            for callback in self.on_dead:
                callback(address)

    def _incarnation_of(self, address: str) -> int:
        member = self._members.get(address)
        return 0 if member is None else member.incarnation

    def _may_return(self, member: PeerRecord, now: float) -> bool:
        """Whether a dead peer did not leave, and died so lately that it is still pinged."""
        return member.status == DEAD and now - member.since < RETRY_FOR

    def _remember(self, address: str, incarnation: int, status: int) -> PeerRecord:
        if len(self._members) >= MOST_MEMBERS:
            wanted = {*self.pastry.known(), *self.watched, *self._dead, *self.suspects}
            self._members = {other: member for other, member in self._members.items() if other in wanted}
        member = self._members[address] = PeerRecord(incarnation, status, self.peer.now)
        return member

    def _bury(self, address: str) -> None:
        self._dead[address] = None
        if len(self._dead) > MOST_DEAD:
            forgotten = next(iter(self._dead))
            del self._dead[forgotten]
            del self._members[forgotten]

    def _left(self, address: str) -> None:
        member = self._members.get(address)
        self._believe(address, LEFT, 0 if member is None else member.incarnation)

    def _may_add(self, address: str) -> bool:
        """Whether Pastry may add ``address``; a dead peer that others mention is pinged from time to time."""
        if address not in self._dead:
            return True
        member = self._members[address]
        now = self.peer.now
        if self._running and self._may_return(member, now) and member.knocks(now, VERIFY_EVERY):
            self._ping(address)
        return False

    def _spread(self, piece: News) -> None:
        self._gossip.add(piece, 2 + int(SPREAD * log2(self.pastry.leaves.size_estimate + 1.0)))
