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

*One rule* orders what is known of a peer: of two pairs (incarnation, status), with alive < suspect < dead < left, the
higher one wins. Only a peer itself raises its incarnation, when it learns that others suspect it or consider it dead.
In SWIM a death is final. Here a peer that was wrongly declared dead (it hung, or was cut off) learns of that as soon as
it exchanges messages with a peer that believes it, refutes with a higher incarnation, and is accepted again.
Incarnations begin at the clock's milliseconds, so a restarted peer overrides the news of its earlier death.

*A death that others tell is no more than a reason to look* (:mod:`~synergy_nb.overlay._beliefs`): each peer pings the
other one itself before it believes that. So old verdicts of peers that were late or cut off are harmless.

*A silent peer is dead when others confirm that it is silent*: two others that pinged it in vain, where there are so
many; a suspicion that nobody confirms lasts six times as long, so a peer that is cut off waits. *A peer whose machine
refuses connections has ended*: nobody else is needed, and a period is enough.

*A peer that is late says so, and waits longer* (:mod:`~synergy_nb.overlay._local_health`): all of its time limits are
stretched, those of others for it, too, and what it says of others does not count. It suspects nobody because of a time
in which it was stopped itself.

*Dead peers are pinged again* after a quarter of the time since their deaths, at most every minute, for half an hour:
after a partition either side considers the other dead.

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

from collections.abc import Callable, Collection, Iterable
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.control.shedding import Shares
from synergy_nb.events import PeerDeclaredDead
from synergy_nb.overlay._beliefs import CONFIRMATIONS, RELIABLE, Beliefs
from synergy_nb.overlay._peer_records import Relayed, UnansweredPing
from synergy_nb.overlay.answer_limits import AnswerLimits
from synergy_nb.overlay.gossip import ALIVE, DEAD, LEFT, SUSPECT, News, Ping, PingAck, PingFor, PingForAck
from synergy_nb.overlay.pastry import Pastry

__all__ = ["ALIVE", "DEAD", "LEFT", "SUSPECT", "Membership"]

INDIRECT_PINGS: Final = 3  # other peers that are asked to ping a peer that did not answer, k of SWIM
WATCHED_A_PERIOD: Final = 8  # maximum number of pings to watched peers in one period
RELAYED: Final = 256  # maximum number of unanswered pings on behalf of others


class Membership(Beliefs):
    """The failure detector of one peer.

    ``pastry``: the ring, whose neighbours it watches, and from which it removes dead peers; ``on_dead``, ``on_alive``:
    listeners, called when a peer was declared dead or has left, and when such a peer is alive again; ``on_ended``:
    listeners, called when a dead peer is known to have ended, see :meth:`has_ended`; ``on_refuted``: listeners, called
    when this peer has learned that others considered it dead.
    """

    def __init__(
        self, peer: Peer, pastry: Pastry, period: float = 0.5, suspicion: float | None = None, retry: float = 5.0
    ) -> None:
        super().__init__(peer, pastry)
        if not period > 0:
            raise ValueError(f"period: {period} s; expected more than 0")
        self.latency = pastry.latency
        # time limits on the answers of other peers, which the lateness of this one and of theirs stretches
        self.answers = AnswerLimits(peer, self._longest)
        self.period = period  # time between two pings, seconds
        # time that a suspected peer has to refute, seconds; None for two periods
        self.suspicion = 2.0 * period if suspicion is None else suspicion
        self.retry = retry  # time between two pings to remembered dead peers, seconds
        self._watch_turn: list[str] = []
        self._leaf_turn: list[str] = []
        self._table_turn: list[str] = []
        self._to_table = False
        self._number = 0  # of the latest ping
        self.relayed: dict[int, Relayed] = {}  # by the number of this peer's ping
        self._places = Shares(RELAYED)  # of `relayed`, by asker
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
        # the clock, as a restarted peer knows nothing of the incarnation in which it was declared dead
        self.incarnation = max(self.incarnation, int(self.peer.now * 1000))
        self._died = self.incarnation - 1
        self._number = int(self.peer.now * 1000)
        if self.pastry.joined:
            self._run()

    # -- for the protocols above -----------------------------------------------------------------------------------

    def watch(self, address: str) -> None:
        """Ping ``address`` about every second, until :meth:`unwatch` has been called as often as this."""
        if address == self.peer.address:
            return
        self.watched[address] = self.watched.get(address, 0) + 1

    def unwatch(self, address: str) -> None:
        """Cancel one call of :meth:`watch`."""
        count = self.watched.get(address, 0)
        if count > 1:
            self.watched[address] = count - 1
        else:
            self.watched.pop(address, None)

    def suspect(self, address: str) -> None:
        """Ping ``address`` now, because it did not answer another protocol; a dead peer is pinged at its own times.

        A ping to a dead peer ends in a link that fails, which is a reason to suspect it: that would go on for ever. Nor
        is one pinged of which this peer knows nothing: a link to it was opened because somebody else had named it.
        """
        # (test_a_dead_peer_whose_link_fails_again_is_not_pinged_for_that, and those of test_floods)
        if self._running and self._concerns(address) and address not in self._probes and not self.is_dead(address):
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
        self.suspects.clear()
        self._gossip.clear()
        self.incarnation = max(self.incarnation + 1, int(self.peer.now * 1000))
        self._died = self.incarnation - 1

    def _tick(self, due: float, epoch: int) -> None:
        if epoch != self._epoch or not self._running:
            return
        now = self.peer.now
        late = now - due
        self._health.ticked(late, self.period)
        in_time = late <= 0.5 * self.period
        if in_time:
            if self._probes:
                self._judge(now)
            if self.suspects:
                self._declare(now)
        else:  # this peer was stopped, so missing acknowledgements do not count
            self._probes.clear()
            for suspicion in self.suspects.values():
                suspicion.restart(now)
        target = self._next_target()
        if target is not None:
            self._probe(target)
        if self.watched:
            self._probe_watched()
        if self.relayed:
            self._answer_askers(now, in_time)
        self.peer.after(self.period, self._tick, now + self.period, epoch)

    def _judge(self, now: float) -> None:
        """Have others ping the peers whose acknowledgement is overdue; suspect those that do not answer them either."""
        for address, probe in list(self._probes.items()):
            waited = (now - probe.sent) / self._patience(address)
            if waited < min(0.9 * self.period, self.latency.timeout(address)):
                continue  # sent after the last period, by a watch or another protocol
            if not probe.indirect:
                probe.indirect = True
                self._request_pings(address, probe.number, INDIRECT_PINGS)
            elif waited >= 1.8 * self.period:
                del self._probes[address]
                if address not in self.suspects and not self.is_dead(address):
                    if not probe.silent and self._others(address):
                        self._health.missed()  # nobody says anything: this peer may be the one that is cut off
                    self._doubt(address, SUSPECT, self._incarnation_of(address), own=True)
                    self.suspects[address].confirmed |= probe.silent

    def _declare(self, now: float) -> None:
        """Ping suspects once more with the suspicion, or declare them dead."""
        for address, suspicion in list(self.suspects.items()):
            base = self.suspicion if suspicion.own and not suspicion.refused else self.period
            seconds = base * self._patience(address)
            if now < suspicion.deadline(seconds, self._others(address)) - 0.1 * self.period:  # periods are floats
                self._request_pings(address, self._ping(address), CONFIRMATIONS)
                continue
            member = self._members[address]
            if suspicion.own:
                self.peer.record(PeerDeclaredDead, address, incarnation=member.incarnation)
            self._believe(address, LEFT if suspicion.status == LEFT else DEAD, member.incarnation)
            if not suspicion.own or self.stretch > RELIABLE:
                continue
            for other in self.pastry.leaves.members:  # among them the neighbours of the dead peer, which repair most
                self._ping(other)

    def _patience(self, address: str) -> float:
        """Factor of the time limits for a peer: that peer has said that it is late, or this one is late itself."""
        member, own = self._members.get(address), self._health.stretch
        return own if member is None or member.stretch <= own else member.stretch

    def _longest(self, addresses: Collection[str]) -> float:
        """Factor of the time limits for several peers."""
        return max((self._patience(address) for address in addresses), default=self.stretch)

    def _others(self, address: str) -> int:
        """Number of other peers that have to confirm the silence of ``address``: two, if there are so many."""
        found = 0
        for other in self.pastry.known():
            found += other != address and other not in self._refused
            if found == CONFIRMATIONS:
                break
        return found

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
        for _ in range(min(WATCHED_A_PERIOD, (len(self.watched) + 1) // 2)):
            address = self._draw(self._watch_turn, self.watched.__iter__)
            if address is not None and address in self.watched:
                self._probe(address)

    def _retry_dead(self, epoch: int) -> None:
        """Ping one of the remembered dead peers, which may be reachable again after a partition."""
        if epoch != self._epoch or not self._running:
            return
        now = self.peer.now
        lost = [address for address in self._dead if self._may_return(self._members[address], now)]
        alone = bool(lost) and not self.pastry.known()
        self.peer.rng.shuffle(lost)
        for address in lost:
            if self._members[address].knocks(now, self.period):
                self._ping(address)
                break
        delay = self.period if alone else self.retry * (0.75 + 0.5 * self.peer.rng.random())
        self.peer.after(delay, self._retry_dead, epoch)

    # -- messages ----------------------------------------------------------------------------------------------------

    def _probe(self, address: str) -> None:
        self._probes[address] = UnansweredPing(self._ping(address), self.peer.now)

    def _ping(self, address: str) -> int:
        member = self._members.get(address)
        news = self._gossip.pick()
        if member is not None and member.status != ALIVE:  # what is said of it, so that it can refute
            suspicion = self.suspects.get(address)
            status = member.status if suspicion is None else suspicion.status
            news = (News(address, status, member.incarnation), *news)
        self._number += 1  # each its own: a late acknowledgement of an earlier one is no measured round trip
        self.peer.send(address, Ping(self._number, self.incarnation, news, self._health.stretch))
        return self._number

    def _request_pings(self, address: str, number: int, count: int) -> None:
        helpers = [
            other
            for other in self.pastry.known()
            if other != address and other not in self.suspects and other not in self._probes
        ]
        rng = self.peer.rng
        chosen = helpers if len(helpers) <= count else rng.sample(helpers, count)
        for asked in (self._probes.get(address), self.suspects.get(address)):
            if asked is not None:
                asked.helpers.update(chosen)
        for helper in chosen:
            self.peer.send(helper, PingFor(number, address, self._gossip.pick()))

    def _on_ping(self, sender: str, message: Ping) -> None:
        if not self._running:
            return
        if message.news:
            self._learn(message.news, sender, message.incarnation, message.stretch)
        charge = self._observe_alive(sender, message.incarnation, message.stretch)
        news = self._gossip.pick()
        if charge is not None:
            news = (charge, *news)
        self.peer.send(sender, PingAck(message.number, self.incarnation, news, self._health.stretch))

    def _on_ack(self, sender: str, message: PingAck) -> None:
        if not self._running:
            return
        charged = bool(message.news) and self._learn(message.news, sender, message.incarnation, message.stretch)
        self._observe_alive(sender, message.incarnation, message.stretch)
        probe = self._probes.get(sender)
        if probe is not None:
            if probe.number == message.number:
                self.latency.ping(sender, self.peer.now - probe.sent)
                self.pastry.measured(sender)
            del self._probes[sender]
        if charged:  # refute at once
            self._ping(sender)
        if self.relayed:
            relayed = self.relayed.get(message.number)
            if relayed is not None and relayed.target == sender:
                self._places.give_back(relayed.asker)
                del self.relayed[message.number]
                self.peer.send(relayed.asker, PingForAck(relayed.number, sender, message.incarnation))

    def _on_ping_for(self, sender: str, message: PingFor) -> None:
        if not self._running or message.target == self.peer.address:
            return
        if message.news:
            self._learn(message.news, sender, -1)
        if not self._places.take(sender):
            self.peer.shed(sender, "pings for others", f"its share of {RELAYED} at a time")
            return
        self.relayed[self._ping(message.target)] = Relayed(sender, message.number, message.target, self.peer.now)

    def _answer_askers(self, now: float, in_time: bool) -> None:
        """Tell those that asked which peers have not answered, unless this peer was stopped; forget old requests."""
        for number, relayed in list(self.relayed.items()):
            waited = now - relayed.sent
            if in_time and not relayed.told and waited >= 0.8 * self.period * self._patience(relayed.target):
                relayed.told = True
                self.peer.send(relayed.asker, PingForAck(relayed.number, relayed.target, -1, reached=False))
            if waited >= 4 * self.period * self.stretch:
                self._places.give_back(relayed.asker)
                del self.relayed[number]

    def _on_ping_for_ack(self, sender: str, message: PingForAck) -> None:
        if not self._running:
            return
        address = message.target
        probe, suspicion = self._probes.get(address), self.suspects.get(address)
        if not any(each is not None and sender in each.helpers for each in (probe, suspicion)):
            return  # nobody has asked it, or the answer comes too late
        if not message.reached:
            if probe is not None and probe.number == message.number:
                probe.silent |= {sender}
            if suspicion is not None:
                suspicion.confirmed.add(sender)
            return
        if probe is not None and probe.number == message.number:
            del self._probes[address]
        self._observe_alive(address, message.incarnation)
