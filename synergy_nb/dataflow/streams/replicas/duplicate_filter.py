"""The duplicate filter: merges the stream replicas of one input into a stream without duplicates (algorithm 1 in [1]_).

Active replicas of a producer all send their output to each reader. Their streams contain the same tuples, in different
orders and batches. A tuple is identified by all of its columns, not by its position, and may occur several times. The
filter passes the n-th copy of a tuple from whichever stream delivers it first, and never waits. It retains the counters
of one punctuation interval: once one stream has promised that nothing earlier than q follows, all tuples before q have
passed.

That conclusion requires that this stream was complete. A stream that joins while the others run, or that is revived,
lacks what its producer sent before; if its promise counted at once, a tuple that another stream has yet to deliver
would be lost. So a stream states from which event time on it is complete, and its promises are valid only from then on.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Algorithm 1 and theorem 1 (IV-B), weights of streams (V-B).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.replicas._tuple_words import TupleWords, canonical
from synergy_nb.dataflow.streams.replicas.duplicate_code import TableCode, table_code
from synergy_nb.dataflow.tuples import START, Item, Punctuation, selected

__all__ = ["DuplicateFilter"]

_ROOM = 1024  # distinct tuples for which a filter has room at first


@dataclass
class _Stream:
    """State of a stream replica: its number, the time from which it is complete, and its last promise."""

    number: int
    complete_from: int
    promised: Punctuation | None = None


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The saved state without its tables: name of each stream, the time from which it is complete, last promise."""

    streams: list[tuple[str, int, tuple[int, float] | None]]
    promise: int
    passed: int


class DuplicateFilter:
    """Merge of the stream replicas of one input of a component; each input has a filter of its own.

    Examples
    --------
    >>> from synergy_nb.dataflow.tuples import Batch
    >>> table = pl.DataFrame({"time": [0, 0, 1]}).cast(pl.Datetime("us"))
    >>> merged = DuplicateFilter(["a", "b"])
    >>> merged.receive("a", Batch(table, 0, 0.0)).rows
    3
    >>> merged.receive("b", Batch(table, 0, 0.0)) is None
    True
    """

    def __init__(self, streams: Iterable[str]) -> None:
        # names of the stream replicas that are there from the beginning, such as the addresses of their producers
        self._streams = {name: _Stream(number, START) for number, name in enumerate(streams)}
        if not self._streams:
            raise ValueError("streams: none; expected at least one")
        count = len(self._streams)
        self._free: list[int] = []  # columns of streams that have left
        self._promise = START
        self._passed = 0
        self._next_table = 0
        self._identity: TupleWords | None = None
        self._used = 0
        self._words = np.zeros((0, 0), dtype=np.int64)
        self._counts = np.zeros((0, count), dtype=np.int64)
        self._greatest = np.zeros(0, dtype=np.int64)
        self._code: TableCode | None = None  # code that has made the index; None: there is no index
        self._index: Any = None
        self._ranks = np.zeros((count, count), dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy, which makes an index of its own."""
        return {**self.__dict__, "_code": None, "_index": None}

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the stream replicas."""
        return tuple(self._streams)

    @property
    def promise(self) -> int:
        """Greatest valid punctuation so far, microseconds: every tuple with an earlier event time has passed."""
        return self._promise

    @property
    def after(self) -> int:
        """Event time after that of all tuples that have arrived, as far as they are retained; at least the promise."""
        if self._identity is None or not self._used:
            return self._promise
        return max(self._promise, int(self._words[: self._used, self._identity.time].max()) + 1)

    @property
    def passed(self) -> int:
        """Number of tuples that have passed."""
        return self._passed

    @property
    def counters(self) -> int:
        """Number of counters, one for each pair of a distinct tuple and a stream that delivered it."""
        return int(np.count_nonzero(self._counts[: self._used]))

    @property
    def columns(self) -> int:
        """Number of streams for which there are counters, including streams that have left and may be replaced."""
        return self._counts.shape[1]

    @property
    def texts(self) -> int:
        """Number of distinct texts and byte strings that are retained."""
        return 0 if self._identity is None else self._identity.named

    @property
    def nbytes(self) -> int:
        """Bytes of the retained tuples and counters, without those of texts."""
        index = getattr(self._index, "nbytes", self._words.nbytes)  # the plain code's index repeats the words
        return self._words.nbytes + self._counts.nbytes + self._greatest.nbytes + index

    @property
    def weights(self) -> dict[str, float]:
        """Accumulated weight of each stream (V-B).

        The stream that delivers a copy of a tuple first has 1 for it, the second 1/2, the third 1/3, and so on. A tuple
        that comes after its counters are forgotten has the weight of the last rank.
        """
        streams = list(self._streams.items())  # first: a stream that joins in another thread has its ranks already
        shares = self._ranks @ (1.0 / np.arange(1, self._ranks.shape[1] + 1))
        return {name: float(shares[stream.number]) for name, stream in streams}

    @property
    def firsts(self) -> dict[str, int]:
        """Number of tuples that each stream delivered first, counting those that have passed."""
        streams = list(self._streams.items())  # first, as above
        return {name: int(self._ranks[stream.number, 0]) for name, stream in streams}

    def restart_weights(self) -> None:
        """Begin a new period of weights, with 0 for each stream."""
        self._ranks[:] = 0

    def is_complete(self, stream: str) -> bool:
        """Whether a stream contains every tuple that has not passed yet, so that its promises are valid."""
        found = self._streams.get(stream)
        return found is not None and found.complete_from <= self._promise

    def receive(self, stream: str, item: Item) -> Item | None:
        """Process a batch or a punctuation of a stream; return what passes, or None.

        The position of what passes is the number of tuples that passed before it. Tuples pass in their canonical form,
        so that it does not matter from which stream they came.
        """
        found = self._of(stream)
        if isinstance(item, Punctuation):
            if found.promised is None or item.time > found.promised.time:
                found.promised = item
            return self._advance()
        table = self._new(found.number, item.table)
        if table is None:
            return None
        position, self._passed = self._passed, self._passed + table.height
        return msgspec.structs.replace(item, table=table, position=position)

    def join(self, stream: str, complete_from: int) -> None:
        """Add a stream replica that begins while the others run; one that is revived has left before.

        ``stream``: name of the stream; ``complete_from``: least event time, microseconds, such that the stream will
        contain every tuple from this time on before the promises that it makes. A producer that begins with what it
        sent after the punctuation q states q; one that repeats nothing states a time after all that it sent.
        """
        if stream in self._streams:
            raise ValueError(f"stream: {stream!r} is one of {', '.join(self._streams)}; expected another")
        if self._free:
            number = self._free.pop()
            self._ranks[number] = 0
        else:
            number = self.columns
            self._counts = np.pad(self._counts, ((0, 0), (0, 1)))
            self._ranks = np.pad(self._ranks, ((0, 1), (0, max(0, number + 1 - self._ranks.shape[1]))))
        self._streams[stream] = _Stream(number, complete_from)

    def leave(self, stream: str) -> None:
        """Remove a stream replica; the tuples that it delivered count as delivered.

        The next stream that joins gets its column: nothing is moved, as another thread may ask for weights.
        """
        number = self._of(stream).number
        del self._streams[stream]
        self._counts[:, number] = 0
        self._free.append(number)

    # -- state ---------------------------------------------------------------------------------------------------

    def save(self) -> SavedState:
        """Return all that another filter needs to resume from here; weights are not part of it."""
        streams = [
            (name, each.complete_from, None if each.promised is None else (each.promised.time, each.promised.born))
            for name, each in self._streams.items()
        ]
        head = msgspec.msgpack.encode(_Head(streams, self._promise, self._passed))
        if self._identity is None:
            return SavedState(head)
        present = [each.number for each in self._streams.values()]
        words, counts = self._words[: self._used], self._counts[: self._used, present]
        columns = {f"word {number}": words[:, number] for number in range(words.shape[1])}
        columns |= {f"count {number}": counts[:, number] for number in range(counts.shape[1])}
        counters = pl.DataFrame({**columns, "greatest": self._greatest[: self._used]})
        tables = [pl.DataFrame(schema=self._identity.schema), counters, *self._identity.texts()]
        first, self._next_table = self._next_table, self._next_table + len(tables)
        return SavedState(head, dict(enumerate(tables, first)))

    def restore(self, saved: SavedState) -> None:
        """Resume where the filter was that saved this state."""
        head = msgspec.msgpack.decode(saved.head, type=_Head)
        self._promise, self._passed = head.promise, head.passed
        self._next_table = max(saved.tables, default=-1) + 1
        self._streams, self._free = {}, []
        for number, (name, complete_from, promised) in enumerate(head.streams):
            promise = None if promised is None else Punctuation(promised[0], 0, promised[1])
            self._streams[name] = _Stream(number, complete_from, promise)
        count = len(self._streams)
        self._ranks = np.zeros((count, count), dtype=np.int64)
        self._counts, self._greatest = np.zeros((0, count), dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._identity = None
        if saved.tables:
            empty, counters, *texts = (saved.tables[number] for number in sorted(saved.tables))
            self._identity = TupleWords(empty.schema)
            self._identity.restore(texts)
            values = np.ascontiguousarray(counters.to_numpy().astype(np.int64, copy=False))
            width, self._used = self._identity.width, len(values)
            self._words = np.ascontiguousarray(values[:, :width])
            self._counts = np.ascontiguousarray(values[:, width:-1])
            self._greatest = np.ascontiguousarray(values[:, -1])
            self._resize(slice(self._used), max(_ROOM, 1 << self._used.bit_length()))

    # -- inside --------------------------------------------------------------------------------------------------

    def _of(self, stream: str) -> _Stream:
        if stream not in self._streams:
            raise ValueError(f"stream: {stream!r}; expected one of {', '.join(self._streams)}")
        return self._streams[stream]

    def _advance(self) -> Punctuation | None:
        """Execute lines 7 to 11 for the greatest valid promise; it may make the promises of other streams valid."""
        greatest: Punctuation | None = None
        while True:
            valid = [
                each.promised
                for each in self._streams.values()
                if each.promised is not None
                and each.promised.time > self._promise
                and each.complete_from <= self._promise
            ]
            if not valid:
                break
            greatest = max(valid, key=lambda each: each.time)
            self._promise = greatest.time
        if greatest is None:
            return None
        self._forget()
        return msgspec.structs.replace(greatest, position=self._passed)

    def _new(self, stream: int, table: pl.DataFrame) -> pl.DataFrame | None:
        """Execute lines 1 to 6 for all tuples of a table; return those that pass, or None."""
        if self._identity is None:
            self._identity = TupleWords(table.schema)
            self._words = np.zeros((0, self._identity.width), dtype=np.int64)
        self._identity.check(table)
        self._make_room(table.height)
        new = np.zeros(table.height, dtype=np.bool_)
        self._used, passed, first = self._indexed().arrive(
            self._identity.words(table),
            self._identity.time,
            self._promise,
            stream,
            self._words,
            self._counts,
            self._greatest,
            self._used,
            self._index,
            self._ranks,
            len(self._streams),
            new,
        )
        if not passed:
            return None
        if passed < table.height:
            together = bool(new[first : first + passed].all())  # a slice takes a tenth of the time of a filter
            table = table.slice(first, passed) if together else selected(table, pl.Series(new))
        return canonical(table)

    def _make_room(self, more: int) -> None:
        needed = self._used + more
        if needed > len(self._words):
            self._resize(slice(self._used), max(_ROOM, 1 << (needed - 1).bit_length()))

    def _forget(self) -> None:
        """Remove the counters of all tuples before the promise (line 11), and their texts."""
        if self._identity is None:
            return
        retained = np.flatnonzero(self._words[: self._used, self._identity.time] >= self._promise)
        if len(retained) == self._used:
            return
        self._used = len(retained)
        self._resize(retained, max(_ROOM, 1 << self._used.bit_length()))
        if self._identity.named > 2 * self._used + _ROOM:
            self._identity.renumber(self._words[: self._used])
            self._code = self._index = None

    def _resize(self, retained: slice | npt.NDArray[np.intp], room: int) -> None:
        """Copy some slots to new arrays, which have room for a number of slots."""

        def copied(old: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            new = np.zeros((room, *old.shape[1:]), dtype=np.int64)
            new[: self._used] = old[retained]
            return new

        self._words, self._counts, self._greatest = map(copied, (self._words, self._counts, self._greatest))
        self._code = self._index = None

    def _indexed(self) -> TableCode:
        """Return the code; make an index of the tuples if there is none, or none of this code."""
        code = table_code()
        if code is not self._code:
            self._code, self._index = code, code.index_of(self._words, self._used)
        return code
