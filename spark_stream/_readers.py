"""The readers that Spark has of the inputs of a query: how far each has asked, and reads."""

from __future__ import annotations

from collections.abc import Sequence

from spark_stream._spool import FIRST, Inlet, Offset
from synergy_nb.dataflow.tuples import START


class SparkReader:
    """One reader of one input, on its tap."""

    __slots__ = ("asked", "inlet", "planned", "requested", "rounds", "tap")

    def __init__(self, inlet: Inlet, tap: int) -> None:
        self.inlet = inlet
        self.tap = tap
        self.asked = False  # whether Spark has asked for it at all, in this query or at another peer
        self.requested = FIRST  # where Spark stood when it asked last
        self.rounds = 0  # times that it has asked since the last micro-batch
        self.planned = START  # time in microseconds up to which Spark reads

    def resume(self, time: int) -> None:
        """Go on where the reader of another peer was, which had read up to a time in microseconds."""
        self.asked, self.planned = True, time

    def ask(self, start: Offset) -> None:
        """Spark asks what comes after an offset."""
        self.asked, self.requested = True, start
        self.rounds += 1
        self.plan(start)

    def plan(self, end: Offset) -> None:
        """Spark reads up to an offset."""
        self.planned = max(self.planned, end.time)

    def rest(self) -> None:
        """A micro-batch is over, or a run begins: Spark has asked for nothing since."""
        self.rounds = 0

    @property
    def has_news(self) -> bool:
        """Whether there is more than where Spark stood."""
        return self.inlet.news(self.tap, self.requested)


class SparkReaders:
    """All readers of a query, by port and tap."""

    def __init__(self, resumed: Sequence[tuple[int, int, int]]) -> None:
        # port and tap of each reader that the query had at another peer, and the time up to which it had read
        self._resumed = resumed
        self._found: dict[tuple[int, int], SparkReader] = {}

    def attach(self, port: int, inlet: Inlet, taps: int) -> None:
        """Add the readers of an input."""
        for tap in range(taps):
            self._found[port, tap] = SparkReader(inlet, tap)
        for each, tap, time in self._resumed:
            if each == port:
                self._found[port, tap].resume(time)

    def of(self, port: int, tap: int) -> SparkReader:
        """Return a reader."""
        return self._found[port, tap]

    @property
    def covered(self) -> int:
        """Time in microseconds up to which all readers that Spark has asked for have read."""
        return min((reader.planned for reader in self._found.values() if reader.asked), default=START)

    @property
    def progress(self) -> tuple[tuple[int, int, int], ...]:
        """Port, tap and time of each reader that Spark has asked for."""
        asked = ((*key, reader.planned) for key, reader in self._found.items() if reader.asked)
        return tuple(sorted(asked))

    @property
    def have_news(self) -> bool:
        """Whether there is anything to read."""
        return any(reader.has_news for reader in self._found.values())

    def rest(self) -> None:
        """A micro-batch is over, or a run begins."""
        for reader in self._found.values():
            reader.rest()

    def drop_unasked(self) -> None:
        """Forget readers that the query does not have: those that it has were asked before its first micro-batch."""
        if not any(reader.asked for reader in self._found.values()):
            return
        for key, reader in tuple(self._found.items()):
            if not reader.asked:
                reader.inlet.drop(reader.tap)
                del self._found[key]
