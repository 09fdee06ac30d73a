"""Inputs of simulated streams: scripted sources, and a network that loses, duplicates and delays frames."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import msgspec
import polars as pl

from synergy_nb.control.cuts import Cut
from synergy_nb.dataflow.streams.log.values import OVERHEAD, Point
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.simulator.kernel import Network

__all__ = ["Faults", "ScriptedSource", "SimulatedLinks", "weight"]


class Faults(msgspec.Struct):
    """Probabilities and durations of the network's faults."""

    # loss, duplication, reordering: probabilities that a frame is lost, arrives twice, or is delayed so that others
    # overtake it
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay: tuple[float, float] = (0.001, 0.01)  # least and greatest transmission time of a frame, seconds
    slow: float = 0.0  # probability that a pair of peers is thirty times as far from one another as others
    deployment: float = 0.05  # greatest time until a peer receives a deployment, seconds
    late: float = 0.0  # probability that a peer receives a deployment up to twenty times as late
    capture: float = 0.01  # greatest time that a snapshot takes, seconds


class SimulatedLinks:
    """The network between simulated peers."""

    def __init__(
        self, rng: random.Random, faults: Faults, network: Network | None = None, rate: float = math.inf
    ) -> None:
        self.faults = faults
        self._rng = rng
        # delays between peers, which `faults.delay` is added to. None: all are near each other, or far with the
        # probability `faults.slow`
        self._network = network
        self._rate = rate  # bandwidth of each link in each direction, bytes/s
        self._free: dict[tuple[str, str], float] = {}  # time at which a link has sent all that it was given
        self._distances: dict[tuple[str, str], float] = {}
        # by sender and receiver:
        self._broken: dict[tuple[str, str], float] = {}  # time until which what is sent is lost
        self._delayed: dict[tuple[str, str], float] = {}  # time until which what is sent is held up
        self._held: dict[tuple[str, str], list[tuple[int, Callable[[float], None]]]] = {}
        self._linked: dict[str, dict[str, None]] = {}
        self._last: dict[tuple[str, str], float] = {}  # arrival of the last frame from one peer to another

    def spoken(self, one: str, other: str) -> None:
        """Note that two peers have a link."""
        if one != other:
            self._linked.setdefault(one, {})[other] = None
            self._linked.setdefault(other, {})[one] = None

    def of(self, peer: str) -> list[str]:
        """Return the peers to which a peer has a link, in the order in which the links were made."""
        return list(self._linked.get(peer, ()))

    def mend(self, one: str, other: str, now: float) -> None:
        """End the cut of the link between two peers; what it has delayed is on its way now."""
        for way in ((one, other), (other, one)):
            self._broken.pop(way, None)
            self._delayed.pop(way, None)
        for way in ((one, other), (other, one)):
            for size, deliver in self._held.pop(way, ()):
                self.send(*way, now, size, deliver)

    def expire(self, one: str, other: str, now: float) -> None:
        """Mend a link that delays, if its time is over; on other cuts, frames are only lost until a time."""
        for way in ((one, other), (other, one)):
            if self._delayed.get(way, math.inf) <= now:
                del self._delayed[way]
                for size, deliver in self._held.pop(way, ()):
                    self.send(*way, now, size, deliver)

    def cut(self, one: str, other: str, until: float, how: Cut = Cut.RESET, *, back: bool = True) -> None:
        """Cut the link between two peers until a time in seconds; call :meth:`expire` then.

        Without ``back``, what the second peer sends to the first one arrives.
        """
        for way in ((one, other), (other, one)) if back else ((one, other),):
            if how is Cut.DELAY:
                self._delayed[way] = max(until, self._delayed.get(way, -math.inf))
            else:
                self._broken[way] = max(until, self._broken.get(way, -math.inf))
                self._delayed.pop(way, None)
                self._held.pop(way, None)

    def broken(self, one: str, other: str, sent: float) -> bool:
        """Whether the way from one peer to another has been broken since a frame was sent."""
        return self._broken.get((one, other), -math.inf) >= sent

    def passes(self, one: str, other: str, now: float) -> bool:
        """Whether what one peer sends to another now arrives at once, unless the network loses it."""
        return (one, other) not in self._delayed and self._broken.get((one, other), -math.inf) <= now

    def send(self, peer: str, to: str, now: float, size: int, deliver: Callable[[float], None]) -> None:
        """Send a frame now.

        ``peer``, ``to``: sender and receiver; ``size``: bytes of the frame; ``deliver``: called with each time in
        seconds at which the frame arrives: at once, or when the link is mended that delays it; not at all if the frame
        is lost.
        """
        if (peer, to) in self._delayed and not self._broken.get((peer, to), -math.inf) > now:
            self._held.setdefault((peer, to), []).append((size, deliver))
            return
        for at in self._arrivals(peer, to, now, size):
            deliver(at)

    def _arrivals(self, peer: str, to: str, now: float, size: int) -> list[float]:
        """Times in seconds at which a frame of ``size`` bytes arrives that is sent now; none if it is lost."""
        rng, faults = self._rng, self.faults
        if not to:  # a lost active replica has no address: whoever sends to it has not looked
            raise ValueError(f"to: {to!r}, from {peer}; expected the address of a peer")
        if self._rate < math.inf:
            now = self._free[peer, to] = max(now, self._free.get((peer, to), -math.inf)) + size / self._rate
        if self._broken.get((peer, to), -math.inf) > now or rng.random() < faults.loss:
            return []
        found: list[float] = []
        low, high = faults.delay
        for _ in range(1 + (rng.random() < faults.duplication)):
            delay = low + (high - low) * rng.random()
            delay = delay * self._distance(peer, to) if self._network is None else delay + self._network.delay(peer, to)
            if rng.random() < faults.reordering:
                at = now + 10.0 * delay
            else:
                at = self._last[peer, to] = max(now + delay, self._last.get((peer, to), -math.inf))
            found.append(at)
        return found

    def _distance(self, peer: str, to: str) -> float:
        known = self._distances.get((peer, to))
        if known is None:
            known = 30.0 if self._rng.random() < self.faults.slow else 1.0
            self._distances[peer, to] = self._distances[to, peer] = known
        return known


class ScriptedSource:
    """A source that emits the same tuples each time it is read, in different batches.

    ``since``: place from which it is read.
    """

    def __init__(self, table: pl.DataFrame, rng: random.Random, since: Point) -> None:
        self._table = table
        self._times = table.get_column("time").cast(pl.Int64)
        self._rng = rng  # draws the batches
        self._at = since.position
        self._until = since.until

    @property
    def ended(self) -> bool:
        """Whether the end of the stream has been emitted."""
        return self._until == END

    def next(self, now: float) -> list[Item]:
        """The next batch, and at times a punctuation."""
        items: list[Item] = []
        rows = min(self._rng.randint(1, 8), self._table.height - self._at)
        if rows:
            items.append(Batch(self._table.slice(self._at, rows), self._at, now))
            self._at += rows
        if self._at == self._table.height:
            self._until = END
            items.append(Punctuation(END, self._at, now))
        elif self._rng.random() < 0.7:
            until = int(self._times[self._at])
            if until > self._until:
                self._until = until
                items.append(Punctuation(until, self._at, now))
        return items


def weight(items: Iterable[Item]) -> int:
    """Bytes that items take in a log."""
    return sum(OVERHEAD + (item.nbytes if isinstance(item, Batch) else 0) for item in items)
