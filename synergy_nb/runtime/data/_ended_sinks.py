"""Results of sinks that have been removed, for those who have not read them yet.

An application ends for all its handles when somebody stops it, perhaps in another process, or when one handle has read
everything. The others read on: what the sink retained then stays at its peer, by itself, while the protocols release
all else. The bound is that of one sink, and a number of applications; the results of the last one stay in any case.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.runtime.data._sinks import DeliveredSink

ENDED: Final = 16  # number of ended applications whose results are retained


class EndedSink(NamedTuple):
    """A sink that was removed, and the log of its results."""

    sink: DeliveredSink
    log: StreamLog


class EndedSinks:
    """Sinks that were removed from one peer, with their results."""

    def __init__(self, most: int) -> None:
        self._most = most  # most bytes of results, but those of the last application stay
        self._applications: dict[str, list[EndedSink]] = {}  # in the order of their ends

    def add(self, sink: DeliveredSink, log: StreamLog) -> None:
        """Retain the results of a sink that is being removed, if there are any; discard the oldest beyond the bound."""
        if log.size == 0 and not sink.ended:
            return
        others = self._applications.pop(sink.application, [])
        self._applications[sink.application] = [*others, EndedSink(sink, log)]
        sizes = {name: sum(each.log.size for each in found) for name, found in self._applications.items()}
        while len(sizes) > ENDED or (len(sizes) > 1 and sum(sizes.values()) > self._most):
            oldest = next(iter(sizes))
            del sizes[oldest], self._applications[oldest]

    def discard(self, application: str) -> None:
        """Discard the results of an application, which is deployed again."""
        self._applications.pop(application, None)

    def of(self, application: str) -> list[EndedSink]:
        """Return the removed sinks of an application."""
        return self._applications.get(application, [])

    def find(self, application: str, operator: str | None) -> EndedSink | None:
        """Return a removed sink of an application, or its only one; None if it is not here."""
        found = [each for each in self.of(application) if operator in (None, each.sink.operator)]
        return found[0] if len(found) == 1 else None
