"""Peers on a heap of events in virtual time.

Theory of operation
-------------------
The heap holds (time, sequence, kind, ...) tuples: arrivals of messages and
wake-ups of peers. Ties are broken by the sequence number, so a run is a function of its seed. Peers are the very
objects that the runtime drives; what they return is carried out here: a :class:`~synergy_nb.control.peer.Send` becomes
an arrival after the delay that the network gives it, unless it is lost; a :class:`~synergy_nb.control.peer.Record` goes
to the journal; an :class:`~synergy_nb.control.peer.Instruct` is kept in :attr:`SimulatedPeers.instructions`, or given
to the handler that was set.

A crashed peer takes no message and no timer any more; a hung one takes them later, all that came in the meantime at
once, as a process does that was stopped and continued; one that gets little of a processor takes them in its turns
(:class:`~synergy_nb.simulator._processor_turns.Turns`); across a partition messages are lost, or arrive when it heals
(:class:`~synergy_nb.control.cuts.Cut`).
"""

from __future__ import annotations

import gc
import heapq
import math
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any, Protocol

import msgspec

from synergy_nb.control.cuts import Cut
from synergy_nb.control.peer import DRIVER, Codec, DriverMessage, Message, Peer, Record, Send
from synergy_nb.events.journal import Journal
from synergy_nb.simulator._processor_turns import HANDLING, Turns

__all__ = ["Network", "SimulatedPeers", "Uniform", "collector_at_rest"]


class Network(Protocol):
    """One-way delays between peers."""

    def delay(self, sender: str, to: str) -> float:
        """Seconds that a message takes from ``sender`` to ``to``."""
        ...


class Uniform:
    """A network in which every pair has its own fixed delay, drawn uniformly."""

    def __init__(self, low: float = 0.01, high: float = 0.1, seed: int = 0) -> None:
        if not 0 <= low <= high:
            raise ValueError(f"low, high: {low}, {high} s; expected 0 <= low <= high")
        # low, high: bounds of the one-way delay, in seconds
        self.low = low
        self.high = high
        self.seed = seed  # pairs have equal delays in both directions, as a function of the seed and of their names
        self._delays: dict[str, dict[str, float]] = {}  # by sender

    def delay(self, sender: str, to: str) -> float:
        """Seconds from ``sender`` to ``to``, the same at every call."""
        try:
            return self._delays[sender][to]
        except KeyError:
            first, second = (sender, to) if sender < to else (to, sender)
            # no hash(), which differs from process to process
            drawn = zlib.crc32(f"{self.seed}/{first}/{second}".encode()) / 0xFFFFFFFF
            delay = self.low + (self.high - self.low) * drawn
            self._delays.setdefault(sender, {})[to] = delay
            return delay


class SimulatedPeers:
    """A set of simulated peers, a network between them, and faults.

    Examples
    --------
    >>> from synergy_nb.control.peer import Message, Peer, Protocol
    >>> class Ball(Message):
    ...     bounces: int
    >>> class Player(Protocol):
    ...     def __init__(self, peer):
    ...         super().__init__(peer)
    ...         self.handlers = {Ball: self.hit}
    ...     def hit(self, sender, ball):
    ...         if ball.bounces < 3:
    ...             self.peer.send(sender, Ball(ball.bounces + 1))
    >>> simulation = SimulatedPeers(seed=1, network=Uniform(0.5, 0.5))
    >>> for address in "ab":
    ...     peer = Peer(address, seed=1)
    ...     _ = peer.add(Player(peer))
    ...     simulation.add(peer)
    >>> simulation.call("a", simulation.peers["a"].send, "b", Ball(0))
    >>> simulation.run(until=10.0)
    4
    >>> simulation.messages, simulation.last_event
    (4, 2.0)
    """

    def __init__(
        self,
        # seed of the faults. Peers have their own seeds
        seed: int,
        # source of the delays of messages; `Uniform` between 10 and 100 ms if not given
        network: Network | None = None,
        *,
        # encode and decode every message on its way, as the runtime does; slower, for tests of the messages themselves
        codec: bool = False,
        # keep what peers ask of their driver in `instructions` (time, address, instruction)
        keep_instructions: bool = True,
        journal: Journal | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.network: Network = network if network is not None else Uniform(seed=seed)
        self.journal = journal if journal is not None else Journal()
        self.peers: dict[str, Peer] = {}
        self.now = 0.0
        self.last_event = 0.0
        self.messages = 0
        self.events = 0
        # loss, duplication, reordering: probabilities that a message is lost, arrives twice, or is held up by up to ten
        # times its delay
        self.loss = 0.0
        self.duplication = 0.0
        self.reordering = 0.0
        self.instructions: list[tuple[float, str, msgspec.Struct]] = []
        self.on_instruction: list[Callable[[str, msgspec.Struct], None]] = []
        self._keep = keep_instructions
        self._use_codec = codec
        self._codec: Codec | None = None
        self._heap: list[tuple[float, int, str, str, Message | None]] = []
        self._sequence = 0
        self._wakeups: dict[str, float] = {}
        self.hung: dict[str, float] = {}
        self.turns: dict[str, Turns] = {}  # peers that get only a share of a processor
        self._group: dict[str, int] = {}
        self._cut = Cut.LOSE
        self._held: list[tuple[str, str, Message]] = []  # what a partition delays: sender, receiver, message
        # listeners, called with each peer and another one the link to which a partition resets
        self.on_link_failed: list[Callable[[str, str], None]] = []
        # listeners, called when a message arrives where a peer has crashed, as the machine says so
        self.on_refused: list[Callable[[str, str], None]] = []

    # -- peers and faults --------------------------------------------------------------------------------------------

    def add(self, peer: Peer) -> None:
        """Put a peer into the simulation; it does nothing before :meth:`start`."""
        if peer.address in self.peers:
            raise ValueError(f"address: {peer.address!r}; expected one that no live peer has")
        self.peers[peer.address] = peer
        self._codec = None

    def start(self, address: str) -> None:
        """Start all protocols of a peer now."""
        peer = self.peers[address]
        self._carry_out(peer, peer.start(self.now))

    def call(self, address: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call into a protocol of a peer now, as another protocol of it does: for tests of single protocols."""
        peer = self.peers[address]
        self._carry_out(peer, peer.call(self.now, function, *arguments))

    def report(self, address: str, message: DriverMessage) -> None:
        """Send a message of its driver to a peer now: a command of a user, or what happens on its machine.

        A peer that hangs handles it later.
        """
        peer = self.peers[address]
        if self.hung.get(address, 0.0) > self.now:
            self.put(self.hung[address], address, DRIVER, message)
        elif address in self.turns and (at := self.turns[address].resumes(self.now)) > self.now:
            self.put(at, address, DRIVER, message)
        else:
            self._carry_out(peer, peer.receive(DRIVER, message, self.now))

    def crash(self, address: str) -> None:
        """End a peer without warning; messages on their way to it are lost."""
        self.peers.pop(address, None)
        self._wakeups.pop(address, None)
        self.hung.pop(address, None)

    def restart(self, peer: Peer) -> None:
        """Put a new peer in the place of a crashed one, with nothing of its state, and start it."""
        self.crash(peer.address)
        self.add(peer)
        self.start(peer.address)

    def hang(self, address: str, seconds: float) -> None:
        """Stop a peer for a time; what arrives meanwhile waits."""
        if address in self.peers:
            self.hung[address] = self.now + seconds

    def partition(self, groups: Iterable[Iterable[str]], how: Cut = Cut.LOSE) -> None:
        """Cut the network into groups; peers of no group form one more; what an earlier partition held up is lost."""
        self._group = {address: number for number, group in enumerate(groups, 1) for address in group}
        self._cut = how
        self._held.clear()
        if how is Cut.RESET:
            for address, other in permutations(sorted(self.peers), 2):
                if self._parted(address, other):
                    for listener in self.on_link_failed:
                        listener(address, other)

    def heal(self) -> None:
        """End the partition; what it has delayed is on its way."""
        self._group = {}
        held, self._held = self._held, []
        for sender, to, message in held:
            self.transmit(sender, to, message)

    def _refuse(self, sender: str, to: str, now: float) -> None:
        """Tell a sender that no process listens any more at the peer to which it has sent a message."""
        if sender != to and sender in self.peers and not self._parted(sender, to):
            self.now = now
            for listener in self.on_refused:
                listener(sender, to)

    def _parted(self, one: str, other: str) -> bool:
        """Whether two peers are in different groups."""
        return self._group.get(one, 0) != self._group.get(other, 0)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, until: float, stop: Callable[[], bool] | None = None, limit: int | None = None) -> int:
        """Let virtual time pass.

        ``until``: virtual time at which to stop, in seconds; ``stop``: asked after each event; true ends the run at
        that event's time; ``limit``: events after which to end the run in any case.

        Returns: events handled: messages received and wake-ups.
        """
        heap, peers, wakeups, hung, turns = self._heap, self.peers, self._wakeups, self.hung, self.turns
        pop, push, delay = heapq.heappop, heapq.heappush, self.network.delay
        handled = 0
        ceiling = limit if limit is not None else 1 << 62
        plain = self._plain()
        with collector_at_rest():
            while heap and heap[0][0] <= until and handled < ceiling:
                when, _, address, sender, message = pop(heap)
                peer = peers.get(address)
                if peer is None:
                    if self.on_refused and message is not None:
                        self._refuse(sender, address, when)
                    continue
                if hung and address in hung:
                    # what arrives meanwhile is put off in the order of arrival, so that it keeps that order
                    if when < hung[address]:
                        self.put(hung[address], address, sender, message)
                        continue
                    del hung[address]
                if turns and address in turns:
                    at = turns[address].resumes(when)
                    if at > when:
                        self.put(at, address, sender, message)
                        continue
                    turns[address].spend(HANDLING, when)
                if message is None:
                    if wakeups.get(address) != when:
                        continue  # an earlier wake-up has taken its place
                    del wakeups[address]
                    self.now = self.last_event = when
                    effects = peer.tick(when)
                else:
                    self.now = self.last_event = when
                    effects = peer.receive(sender, message, when)
                handled += 1
                if plain:  # transmit, put and next_timer written out, for this is what most events do
                    for effect in effects:
                        if type(effect) is Send:
                            self.messages += 1
                            self._sequence = sequence = self._sequence + 1
                            to = effect.to
                            push(heap, (when + delay(address, to), sequence, to, address, effect.message))
                        else:
                            self._carry_out(peer, [effect])
                    timers = peer.timers
                    if timers:
                        first = timers[0]
                        due = first[0] if first[2].callback is not None else peer.next_timer
                        planned = wakeups.get(address)
                        if due is not None and (planned is None or due < planned):
                            # a timer may be overdue where a peer has hung: time never goes back
                            due = max(when, due)
                            self._sequence = sequence = self._sequence + 1
                            wakeups[address] = due
                            push(heap, (due, sequence, address, address, None))
                else:
                    self._carry_out(peer, effects)
                if stop is not None:
                    if stop():
                        self.events += handled
                        return handled
                    plain = self._plain()  # it may have set faults
        if handled < ceiling:
            self.now = max(self.now, until)
        self.events += handled
        return handled

    @property
    def next_event(self) -> float:
        """Time of the next message or wake-up, seconds; infinite if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def _plain(self) -> bool:
        """Whether every message arrives once, after its delay, as it is."""
        return not (self.loss or self.duplication or self.reordering or self._group or self._use_codec)

    # -- inside --------------------------------------------------------------------------------------------------------

    def put(self, when: float, address: str, sender: str, message: Message | None) -> None:
        """Have a message arrive at a time, or a peer woken where there is none."""
        self._sequence += 1
        if message is None:
            self._wakeups[address] = when
        heapq.heappush(self._heap, (when, self._sequence, address, sender, message))

    def _carry_out(self, peer: Peer, effects: list[Any]) -> None:
        address = peer.address
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self.messages += 1
                self.transmit(address, effect.to, effect.message)
            elif kind is Record:
                self.journal.append(effect.event)
            else:
                if self._keep:
                    self.instructions.append((self.now, address, effect.instruction))
                for listener in self.on_instruction:
                    listener(address, effect.instruction)
        due = peer.next_timer
        if due is not None:
            planned = self._wakeups.get(address)
            if planned is None or due < planned:
                self.put(max(due, self.now), address, address, None)

    def transmit(self, sender: str, to: str, message: Message) -> None:
        """Carry a message to another peer, unless it is lost on its way."""
        if self._group and self._parted(sender, to):
            if self._cut is Cut.DELAY:
                self._held.append((sender, to, message))
            return
        rng = self.rng
        if self.loss and rng.random() < self.loss:
            return
        if self._use_codec:
            message = self._through_codec(message)
        copies = 2 if self.duplication and rng.random() < self.duplication else 1
        for _ in range(copies):
            delay = self.network.delay(sender, to)
            if self.reordering and rng.random() < self.reordering:
                delay *= 1.0 + 9.0 * rng.random()
            self.put(self.now + delay, to, sender, message)

    def _through_codec(self, message: Message) -> Message:
        if self._codec is None:
            kinds = {kind for peer in self.peers.values() for kind in peer.message_types}
            self._codec = Codec(sorted(kinds, key=lambda kind: kind.__name__))
        return self._codec.decode(self._codec.encode(message))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Context without the cyclic collector: messages have no cycles, and it would walk all peers again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
