"""A failure detector on the overlay: which peers are alive, suspected, dead, or have left.

Theory of operation
-------------------
The protocol is SWIM, on the neighbours in Pastry. In every period a peer pings one peer of its leaf set or its routing
table, by turns and in random order (SWIM, section 4.3). If no acknowledgement has arrived by the next period, it asks k
other peers to ping on its behalf (section 3.1); if none has arrived by the period after that, it suspects the peer; if
the peer does not refute within the suspicion timeout, it declares the peer dead (section 4.2). With the default period
of 0.5 s, a death is declared after about 2.5 s.

News (suspected, dead, left, alive again) is sent with pings and acknowledgements: a bounded number of pieces in each
message, and each piece a number of times that is proportional to log2 of the ring's size (section 4.1). News of a death
reaches the whole ring, also through peers that never knew the dead one, because directories and applications far away
depend on it. A peer that declares a death sends it to its leaf set at once.

*One rule* orders all news: of two pairs (incarnation, status), with alive < suspect < dead < left, the higher one wins.
Only a peer itself raises its incarnation, when it learns that others suspect it or consider it dead. In SWIM a death is
final. Here a peer that was wrongly declared dead (it hung, or was cut off) learns of that as soon as it exchanges
messages with a peer that believes it, refutes with a higher incarnation, and is accepted again. Incarnations begin at
the clock's milliseconds, so a restarted peer overrides the news of its earlier death.

*After a partition* the peers of either side consider those of the other dead. So every few seconds each peer pings one
of the peers that it remembers as dead; it also pings a dead peer that a live one mentions, at most every few seconds.
What a peer says of others does not count as long as it is dead here: it was cut off, and may only not have reached
them. Once it learns that it was declared dead, it spreads its own verdicts no more.

*A peer that was itself stopped* would find all its pings overdue when it resumes. It notices that its own period came
late, and suspects nobody because of that time (compare Lifeguard's local health).

The detector informs Pastry: it calls ``remove`` for dead peers and ``consider`` for peers that are alive again, decides
which peers Pastry may add (:attr:`Pastry.admission_checks`), and measures round trips for it.

References
----------
.. [1] A. Das, I. Gupta and A. Motivala, "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership
   Protocol", DSN 2002.
.. [2] A. Dadgar, J. Phillips and J. Currey, "Lifeguard: Local Health Awareness for More Accurate Failure Detection",
   DSN-W 2018.
.. [3] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   section 2.2.3 (the overlay that finds and monitors peers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log2
from typing import Final

from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.events import PeerDeclaredDead, PeerRefutedDeath
from synergy_nb.overlay.gossip import ALIVE, DEAD, LEFT, SUSPECT, Gossip, News, Ping, PingAck, PingFor, PingForAck
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.peer_records import VERIFY_EVERY, PeerRecord, Probe

__all__ = ["ALIVE", "DEAD", "LEFT", "SUSPECT", "Membership"]

INDIRECT_PINGS: Final = 3  # other peers that are asked to ping a peer that did not answer, k of SWIM
SPREAD: Final = 3.0  # each piece of news is sent SPREAD * log2(ring size) times
WATCHED_A_PERIOD: Final = 8  # maximum number of pings to watched peers in one period
RELAYED: Final = 256  # maximum number of unanswered pings on behalf of others
MOST_MEMBERS: Final = 4096  # maximum number of remembered peers
MOST_DEAD: Final = 512  # maximum number of remembered dead peers
RETRY_FOR: Final = 1800.0  # seconds for which a dead peer is pinged from time to time


class Membership(Protocol):
    """The failure detector of one peer.

    Parameters
    ----------
    peer
        The peer.
    pastry
        The ring, whose neighbours it watches, and from which it removes dead peers.
    period
        Time between two pings, seconds.
    suspicion
        Time that a suspected peer has to refute, seconds; None for two periods.
    retry
        Time between two pings to remembered dead peers, seconds.

    Attributes
    ----------
    on_dead, on_alive : list of callables (address)
        Listeners, called when a peer was declared dead or has left, and when such a peer is alive again.
    on_ended : list of callables (address)
        Listeners, called when a dead peer is known to have ended, see :meth:`has_ended`.
    on_refuted : list of callables without arguments
        Listeners, called when this peer has learned that others considered it dead.
    """

    def __init__(
        self, peer: Peer, pastry: Pastry, period: float = 0.5, suspicion: float | None = None, retry: float = 5.0
    ) -> None:
        super().__init__(peer)
        if not period > 0:
            raise ValueError(f"period: {period} s; expected more than 0")
        self.pastry = pastry
        self.latency = pastry.latency
        self.period = period
        self.suspicion = 2.0 * period if suspicion is None else suspicion
        self.retry = retry
        self.incarnation = 0
        self._died = -1  # latest incarnation of this peer that others declared dead
        self.on_dead: list[Callable[[str], None]] = []
        self.on_alive: list[Callable[[str], None]] = []
        self.on_ended: list[Callable[[str], None]] = []
        self.on_refuted: list[Callable[[], None]] = []
        self._members: dict[str, PeerRecord] = {}
        self._refused: dict[str, None] = {}  # peers at whose addresses no process listens, in the order of that
        self._dead: dict[str, None] = {}  # peers in status dead or left, in the order of that
        self._probes: dict[str, Probe] = {}
        self._suspects: dict[str, float] = {}  # address to the time at which it is declared dead, seconds
        self._watched: dict[str, int] = {}  # address to its number of watchers
        self._watch_turn: list[str] = []
        self._leaf_turn: list[str] = []
        self._table_turn: list[str] = []
        self._to_table = False
        self._relayed: dict[int, tuple[str, int, str, float]] = {}  # my number: (asker, its number, target, until)
        self._gossip = Gossip()
        self._number = 0
        self._running = False
        self._epoch = 0  # number of times that this peer joined: timers from before the last time do nothing
        self._started = False
        self.handlers = {
            Ping: self._on_ping,
            PingAck: self._on_ack,
            PingFor: self._on_ping_for,
            PingForAck: self._on_ping_for_ack,
        }
        pastry.admission_checks.append(self._may_add)
        pastry.on_silent.append(self.suspect)
        pastry.on_left.append(self._left)
        pastry.on_joined.append(self._run)
        pastry.on_leave.append(self._stop)

    def start(self) -> None:
        """Choose an incarnation and start pinging, now or when this peer has joined."""
        self._started = True
        self.incarnation = max(self.incarnation, int(self.peer.now * 1000))
        self._died = self.incarnation - 1
        self._number = int(self.peer.now * 1000)
        if self.pastry.joined:
            self._run()

    # -- for the protocols above -----------------------------------------------------------------------------------

    def is_dead(self, address: str) -> bool:
        """Whether ``address`` was declared dead or has left, and has not come back."""
        return address in self._dead

    def has_ended(self, address: str) -> bool:
        """Whether a dead peer is more than silent: it has left, or no process listens at its address any more."""
        return address in self._dead and (address in self._refused or self._members[address].status == LEFT)

    def note_refused(self, address: str) -> None:
        """Note that no process listens at ``address``: once it counts as dead, it will not come back."""
        before = self.has_ended(address)
        self._refused[address] = None
        if len(self._refused) > MOST_DEAD:
            del self._refused[next(iter(self._refused))]
        if not before and self.has_ended(address):
            for callback in self.on_ended:
                callback(address)

    def status(self, address: str) -> int:
        """One of ``ALIVE`` (also if nothing is known), ``SUSPECT``, ``DEAD``, ``LEFT``."""
        member = self._members.get(address)
        return ALIVE if member is None else member.status

    def watch(self, address: str) -> None:
        """Ping ``address`` about every second, until :meth:`unwatch` has been called as often as this."""
        if address == self.peer.address:
            return
        self._watched[address] = self._watched.get(address, 0) + 1

    def unwatch(self, address: str) -> None:
        """Cancel one call of :meth:`watch`."""
        count = self._watched.get(address, 0)
        if count > 1:
            self._watched[address] = count - 1
        else:
            self._watched.pop(address, None)

    def suspect(self, address: str) -> None:
        """Ping ``address`` now, because it did not answer another protocol."""
        if address != self.peer.address and self._running and address not in self._probes:
            self._probe(address)

    # -- every period ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._running or not self._started:
            return
        self._running = True
        self._epoch += 1
        rng = self.peer.rng
        first = self.period * rng.random()
        self.peer.after(first, self._tick, self.peer.now + first, self._epoch)
        self.peer.after(self.retry * (0.5 + rng.random()), self._retry_dead, self._epoch)

    def _stop(self) -> None:
        self._running = False
        self._probes.clear()
        self._suspects.clear()
        self._gossip.clear()
        self.incarnation = max(self.incarnation + 1, int(self.peer.now * 1000))
        self._died = self.incarnation - 1

    def _tick(self, due: float, epoch: int) -> None:
        if epoch != self._epoch or not self._running:
            return
        now = self.peer.now
        late = now - due
        if late > self.period:  # this peer was stopped, so missing acknowledgements do not count
            self._probes.clear()
            for address in self._suspects:
                self._suspects[address] = max(self._suspects[address] + late, now + self.period)
        else:
            if self._probes:
                self._judge(now)
            if self._suspects:
                self._declare(now)
        target = self._next_target()
        if target is not None:
            self._probe(target)
        if self._watched:
            self._probe_watched()
        if self._relayed:
            self._relayed = {number: relayed for number, relayed in self._relayed.items() if relayed[3] > now}
        self.peer.after(self.period, self._tick, now + self.period, epoch)

    def _judge(self, now: float) -> None:
        """Have others ping the peers whose acknowledgement is overdue; suspect those that do not answer them either."""
        for address, probe in list(self._probes.items()):
            waited = now - probe.sent
            if waited < min(0.9 * self.period, self.latency.timeout(address)):
                continue  # sent after the last period, by a watch or another protocol
            if not probe.indirect:
                probe.indirect = True
                self._request_pings(address, probe.number, INDIRECT_PINGS)
            elif waited >= 1.8 * self.period:
                del self._probes[address]
                member = self._members.get(address)
                if member is None or member.status == ALIVE:
                    incarnation = 0 if member is None else member.incarnation
                    self._believe(address, SUSPECT, incarnation)

    def _declare(self, now: float) -> None:
        """Ping suspects once more with the suspicion, or declare them dead."""
        for address, deadline in list(self._suspects.items()):
            member = self._members[address]
            if now < deadline - 0.1 * self.period:  # periods are added up in floats
                self._number += 1
                self._ping(address, self._number)
                self._request_pings(address, self._number, 1)
                continue
            self.peer.record(PeerDeclaredDead, address, incarnation=member.incarnation)
            self._believe(address, DEAD, member.incarnation)
            for (
                other
            ) in self.pastry.leaves.members:  # the neighbours of the dead peer, which repair most, are among them
                self._number += 1
                self._ping(other, self._number)

    def _next_target(self) -> str | None:
        """The next peer to ping: one to be measured, or else by turns one of the leaf set and one of the table."""
        pastry = self.pastry
        rival = pastry.next_rival()
        if rival is not None and rival not in self._probes:
            return rival
        self._to_table = not self._to_table
        if self._to_table and not pastry.leaves.whole:
            return self._draw(self._table_turn, pastry.beyond)
        return self._draw(self._leaf_turn, pastry.leaves.__iter__)

    def _draw(self, turn: list[str], source: Callable[[], Iterable[str]]) -> str | None:
        """The next peer of a shuffled round; starts a new round of ``source`` at its end (SWIM, section 4.3)."""
        for _ in range(2):
            while turn:
                address = turn.pop()
                if address not in self._dead and address not in self._probes:
                    return address
            turn.extend(source())
            self.peer.rng.shuffle(turn)
        return None

    def _probe_watched(self) -> None:
        for _ in range(min(WATCHED_A_PERIOD, (len(self._watched) + 1) // 2)):
            address = self._draw(self._watch_turn, self._watched.__iter__)
            if address is not None and address in self._watched:
                self._probe(address)

    def _retry_dead(self, epoch: int) -> None:
        """Ping one of the remembered dead peers, which may be reachable again after a partition."""
        if epoch != self._epoch or not self._running:
            return
        now = self.peer.now
        lost = [address for address in self._dead if self._may_return(self._members[address], now)]
        if lost:
            self._number += 1
            self._ping(self.peer.rng.choice(lost[-64:]), self._number)
        alone = bool(lost) and not self.pastry.known()
        delay = self.period if alone else self.retry * (0.75 + 0.5 * self.peer.rng.random())
        self.peer.after(delay, self._retry_dead, epoch)

    def _may_return(self, member: PeerRecord, now: float) -> bool:
        """Whether a dead peer did not leave, and died so lately that it is still pinged."""
        return member.status == DEAD and now - member.since < RETRY_FOR

    # -- messages ----------------------------------------------------------------------------------------------------

    def _probe(self, address: str) -> None:
        self._number += 1
        self._probes[address] = Probe(self._number, self.peer.now)
        self._ping(address, self._number)

    def _ping(self, address: str, number: int) -> None:
        member = self._members.get(address)
        news = self._gossip.pick()
        if member is not None and member.status != ALIVE:  # what this peer believes of it, so that it can refute
            news = (News(address, member.status, member.incarnation), *news)
        self.peer.send(address, Ping(number, self.incarnation, news))

    def _request_pings(self, address: str, number: int, count: int) -> None:
        helpers = [
            other
            for other in self.pastry.known()
            if other != address and other not in self._suspects and other not in self._probes
        ]
        rng = self.peer.rng
        for helper in helpers if len(helpers) <= count else rng.sample(helpers, count):
            self.peer.send(helper, PingFor(number, address, self._gossip.pick()))

    def _on_ping(self, sender: str, message: Ping) -> None:
        if not self._running:
            return
        if message.news:
            self._learn(message.news, sender, message.incarnation)
        charge = self._observe_alive(sender, message.incarnation)
        news = self._gossip.pick()
        if charge is not None:
            news = (charge, *news)
        self.peer.send(sender, PingAck(message.number, self.incarnation, news))

    def _on_ack(self, sender: str, message: PingAck) -> None:
        if not self._running:
            return
        charged = bool(message.news) and self._learn(message.news, sender, message.incarnation)
        self._observe_alive(sender, message.incarnation)
        probe = self._probes.get(sender)
        if probe is not None:
            if probe.number == message.number:
                self.latency.ping(sender, self.peer.now - probe.sent)
                self.pastry.measured(sender)
            del self._probes[sender]
        if charged:  # refute at once
            self._number += 1
            self._ping(sender, self._number)
        if self._relayed:
            relayed = self._relayed.pop(message.number, None)
            if relayed is not None and relayed[2] == sender:
                self.peer.send(relayed[0], PingForAck(relayed[1], sender, message.incarnation))

    def _on_ping_for(self, sender: str, message: PingFor) -> None:
        if not self._running or message.target == self.peer.address:
            return
        if message.news:
            self._learn(message.news, sender, -1)
        now = self.peer.now
        if len(self._relayed) >= RELAYED:
            return
        self._number += 1
        self._relayed[self._number] = (sender, message.number, message.target, now + 4 * self.period)
        self._ping(message.target, self._number)

    def _on_ping_for_ack(self, sender: str, message: PingForAck) -> None:
        if not self._running:
            return
        probe = self._probes.get(message.target)
        if probe is not None and probe.number == message.number:
            del self._probes[message.target]
        self._observe_alive(message.target, message.incarnation)

    # -- beliefs -----------------------------------------------------------------------------------------------------

    def _observe_alive(self, address: str, incarnation: int) -> News | None:
        """Note that ``address`` is alive in ``incarnation``; return the news that it has still to refute, or None."""
        member = self._members.get(address)
        if member is None:
            self._remember(address, incarnation, ALIVE)
        elif incarnation > member.incarnation:
            if member.status == ALIVE:
                member.incarnation = incarnation
            else:
                self._believe(address, ALIVE, incarnation)
        elif member.status != ALIVE:
            return News(address, member.status, member.incarnation)
        return None

    def _learn(self, news: tuple[News, ...], sender: str, incarnation: int) -> bool:
        """Process news of a sender; return whether some of it says that this peer is suspect, dead or has left."""
        member = self._members.get(sender)
        cut_off = member is not None and member.status >= DEAD and incarnation <= member.incarnation
        charged = False
        for piece in news:
            if piece.address == self.peer.address:
                charged |= self._defend(piece)
            elif not cut_off and ALIVE <= piece.status <= LEFT:
                self._believe(piece.address, piece.status, piece.incarnation)
        return charged

    def _defend(self, piece: News) -> bool:
        """Refute news about this peer with a higher incarnation; return whether the sender needs the refutation."""
        if piece.status >= DEAD and piece.incarnation > self._died:
            self._died = piece.incarnation  # so that each death is reported once
            self._gossip.clear()  # peers that it declared dead while it was cut off may live
            self._probes.clear()
            self._suspects = dict.fromkeys(self._suspects, self.peer.now + self.suspicion)
            self.peer.record(PeerRefutedDeath, piece.address, incarnation=piece.incarnation)
            for callback in self.on_refuted:
                callback()
        if piece.incarnation > self.incarnation or (piece.status != ALIVE and piece.incarnation == self.incarnation):
            self.incarnation = piece.incarnation + 1
            self._spread(News(self.peer.address, ALIVE, self.incarnation))
        return piece.status != ALIVE

    def _believe(self, address: str, status: int, incarnation: int) -> None:
        """Adopt a status that is newer than the known one (see the one rule above), act on it and spread it."""
        member = self._members.get(address)
        if member is None:
            if status == SUSPECT and address not in self._watched and address not in self.pastry.known():
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
        self._spread(News(address, status, incarnation))
        if status < DEAD <= before:  # a peer that is suspected in a later incarnation has also come back
            del self._dead[address]
            self._refused.pop(address, None)
            self.pastry.consider(address)
            for callback in self.on_alive:
                callback(address)
        if status == SUSPECT:
            self._suspects.setdefault(address, now + self.suspicion)
            return
        self._suspects.pop(address, None)
        if status >= DEAD > before:
            self._probes.pop(address, None)
            self._bury(address)
            self.pastry.remove(address)
            for callback in self.on_dead:
                callback(address)

    def _remember(self, address: str, incarnation: int, status: int) -> PeerRecord:
        if len(self._members) >= MOST_MEMBERS:
            wanted = {*self.pastry.known(), *self._watched, *self._dead, *self._suspects}
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
        if self._running and now - member.verified >= VERIFY_EVERY:
            member.verified = now
            self._number += 1
            self._ping(address, self._number)
        return False

    def _spread(self, piece: News) -> None:
        self._gossip.add(piece, 2 + int(SPREAD * log2(self.pastry.leaves.size_estimate + 1.0)))
