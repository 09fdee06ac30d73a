"""Comparison of the stream replicas of one input: who emits other tuples than most. No IO, no clock.

Active replicas emit the same tuples, so their streams are equal as multisets in each interval of event time. The filter
in front of a reader passes the n-th copy of a tuple from whichever stream delivers it first, so a tuple that one
replica has made up passes as well. The comparison finds that, afterwards: it adds up a hash of each tuple, by stream,
between the points up to which all streams have promised to be complete, and compares the sums. Where more than half of
the streams agree, the others are in the *minority*; where there is no majority, all of them are *doubtful*.

Nothing waits for it. What one stream has delivered ahead of the slowest is retained as 16 bytes a tuple, for at most
``MOST`` tuples of a stream; beyond that the comparison begins anew after what has arrived.

Sums of 64 bits are no signature: a replica that knows the hash could choose tuples of the same sum. It is told by what
it emits, as the sum does not leave the reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow.streams.replicas._tuple_words import canonical
from synergy_nb.dataflow.tuples import START, Item, Punctuation

__all__ = ["StreamComparison"]

MOST: Final = 1 << 20  # tuples of a stream that wait to be compared


class _Stream:
    """What a stream has delivered that is not compared yet, and how often it has differed."""

    __slots__ = ("begins", "doubtful", "hashes", "minority", "promise", "times", "waiting")

    def __init__(self, begins: int) -> None:
        self.begins = begins  # event time from which it has every tuple, microseconds
        self.promise = START
        self.times: list[npt.NDArray[np.int64]] = []
        self.hashes: list[npt.NDArray[np.uint64]] = []
        self.waiting = 0
        self.minority = self.doubtful = 0

    def sum_until(self, time: int) -> int:
        """Forget what is before a time, and return the sum of its hashes."""
        if not self.times:
            return 0
        times, hashes = np.concatenate(self.times), np.concatenate(self.hashes)
        before = times < time
        found = int(hashes[before].sum(dtype=np.uint64))
        left = ~before
        self.times, self.hashes = [times[left]], [hashes[left]]
        self.waiting = int(np.count_nonzero(left))
        return found


class StreamComparison:
    """Compares the stream replicas of one input of a component.

    Examples
    --------
    >>> from synergy_nb.dataflow.tuples import Batch
    >>> def batch(value):
    ...     return Batch(pl.DataFrame({"time": [0], "v": [value]}).cast({"time": pl.Datetime("us")}), 0, 0.0)
    >>> compared = StreamComparison(["a", "b", "c"])
    >>> for stream, value in (("a", 1), ("b", 2), ("c", 1)):
    ...     compared.receive(stream, batch(value))
    ...     compared.receive(stream, Punctuation(10, 1, 0.0))
    >>> compared.minority
    {'b': 1}
    """

    def __init__(self, streams: Iterable[str], begins: int = START) -> None:
        self._streams = {name: _Stream(begins) for name in streams}
        self._compared = begins  # event time up to which all streams have been compared, microseconds

    @property
    def minority(self) -> dict[str, int]:
        """Number of intervals in which each stream was in the minority; any thread may ask."""
        return {name: each.minority for name, each in list(self._streams.items()) if each.minority}

    @property
    def doubtful(self) -> dict[str, int]:
        """Number of intervals in which there was no majority; any thread may ask."""
        return {name: each.doubtful for name, each in list(self._streams.items()) if each.doubtful}

    @property
    def nbytes(self) -> int:
        """Bytes of the hashes that wait."""
        return 16 * sum(each.waiting for each in self._streams.values())

    def join(self, stream: str, begins: int) -> None:
        """Compare one more stream, which has every tuple from an event time on."""
        self._streams[stream] = _Stream(begins)

    def leave(self, stream: str) -> None:
        """Compare a stream no more."""
        self._streams.pop(stream, None)
        self._compare()

    def receive(self, stream: str, item: Item) -> None:
        """Take note of a batch or a punctuation of a stream."""
        found = self._streams[stream]
        if isinstance(item, Punctuation):
            if item.time > found.promise:
                found.promise = item.time
                self._compare()
            return
        if not item.table.height:
            return
        times = item.table.get_column("time").cast(pl.Int64).to_numpy()
        hashes = canonical(item.table).hash_rows().to_numpy()
        counts = times >= max(found.begins, self._compared)
        if not counts.all():  # what had arrived before the stream, or the comparison, began
            times, hashes = times[counts], hashes[counts]
        found.times.append(times)
        found.hashes.append(hashes)
        found.waiting += len(times)
        if found.waiting > MOST:
            self._begin_anew()

    def _compare(self) -> None:
        until = min((each.promise for each in self._streams.values()), default=START)
        if until <= self._compared:
            return
        sums = {}
        for name, each in self._streams.items():
            total = each.sum_until(until)
            if each.begins <= self._compared:
                sums[name] = total
        self._compared = until
        if len(set(sums.values())) < 2:
            return
        most, count = Counter(sums.values()).most_common(1)[0]
        for name, total in sums.items():
            if 2 * count <= len(sums):
                self._streams[name].doubtful += 1
            elif total != most:
                self._streams[name].minority += 1

    def _begin_anew(self) -> None:
        """Give up what waits, and compare from after all that has arrived."""
        after = max(int(times.max()) for each in self._streams.values() for times in each.times if len(times)) + 1
        self._compared = max(after, *(each.promise for each in self._streams.values()))
        for each in self._streams.values():
            each.times, each.hashes, each.waiting, each.begins = [], [], 0, max(each.begins, self._compared)
