"""Revival of collected replicas when the inputs of a replica are late (V-C in [1]_).

A replica that observes delays above a threshold on all streams of an input revives a collected stream from a replica
that functions; if there is none, a collected upstream replica with its streams. A replica that waits for a late input
does not function: it would send what the reader has already, and its stream would only cost. A stream is late when its
next punctuation is overdue by the threshold: the time since the last one, less the usual interval. Silence alone would
be a delay whenever tuples come more rarely than the threshold, as every 10 s in the paper's experiments; then replicas
would be revived and collected in turn.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from statistics import median
from typing import Final, NamedTuple

from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica

__all__ = ["THRESHOLD", "InputDelays", "Revival", "revival"]

THRESHOLD: Final = 10.0  # delay above which a stream is late, seconds
_KEPT_INTERVALS: Final = 16  # number of latest intervals of a stream of which the median is taken


class InputDelays:
    """Delays of the stream replicas of one input.

    Parameters
    ----------
    interval
        Interval between punctuations, seconds, until two intervals of a stream are measured.
    threshold
        Delay above which a stream is late, seconds.

    Examples
    --------
    >>> delays = InputDelays(interval=10.0)
    >>> delays.begin("a", 0.0)
    >>> delays.promise("a", 10.0)
    >>> delays.late(29.9), delays.late(30.1)
    (False, True)
    """

    def __init__(self, interval: float, threshold: float = THRESHOLD) -> None:
        self._interval = interval
        self._threshold = threshold
        self._last: dict[str, float] = {}
        self._intervals: dict[str, deque[float]] = {}

    def begin(self, stream: str, now: float) -> None:
        """Record that a stream begins or is revived."""
        self._last[stream] = now
        self._intervals[stream] = deque(maxlen=_KEPT_INTERVALS)

    def end(self, stream: str) -> None:
        """Record that a stream was collected."""
        del self._last[stream], self._intervals[stream]

    def promise(self, stream: str, now: float) -> None:
        """Record a punctuation of a stream that is greater than its earlier ones."""
        self._intervals[stream].append(now - self._last[stream])
        self._last[stream] = now

    def delay(self, stream: str, now: float) -> float:
        """Return for how long the next punctuation of a stream is overdue, seconds; negative before it is due."""
        seen = self._intervals[stream]
        return now - self._last[stream] - (median(seen) if len(seen) > 1 else self._interval)

    def late(self, now: float) -> bool:
        """Whether every stream of the input is late."""
        return bool(self._last) and all(self.delay(stream, now) > self._threshold for stream in self._last)

    @property
    def streams(self) -> frozenset[str]:
        """Streams that have begun and have not ended."""
        return frozenset(self._last)


class Revival(NamedTuple):
    """Streams to revive, and the replica that is revived with them, if one is."""

    streams: tuple[StreamReplica, ...]
    replica: str = ""  # name of the upstream replica; empty if the streams come from a replica that runs


def revival(
    graph: ReplicaGraph, collected: Iterable[StreamReplica], consumer: str, stream: str, failed: Collection[str] = ()
) -> Revival | None:
    """Choose what to revive for an input whose streams are all late; of several possibilities, that of least cost.

    ``consumer``, ``stream``: name of the replica, and of its input, that is late; ``failed``: replicas and sources that
    do not function: those that have failed, and those that wait for a late input.

    Returns: streams to revive; None if no collected stream helps. A revived replica needs its state first.
    """
    possible = list(collected)
    wanted = [each for each in possible if (each.consumer, each.stream) == (consumer, stream)]
    wanted = sorted((each for each in wanted if each.producer not in failed), key=lambda each: each.cost)
    for each in wanted:
        if _runs(graph, each.producer):
            return Revival((each,))
    found: list[Revival] = []
    for each in wanted:
        inputs = _inputs(graph, possible, each.producer, failed)
        if inputs:
            found.append(Revival((*inputs, each), each.producer))
    return min(found, key=lambda each: sum(stream.cost for stream in each.streams), default=None)


def _runs(graph: ReplicaGraph, producer: str) -> bool:
    """Whether a producer is a source, or a replica that has inputs."""
    return producer not in graph.operators or producer in graph.inputs


def _inputs(
    graph: ReplicaGraph, collected: list[StreamReplica], replica: str, failed: Collection[str]
) -> list[StreamReplica]:
    """Return the cheapest stream from a functioning producer for each input of a collected replica; else nothing."""
    found: dict[str, StreamReplica | None] = {}
    for each in collected:
        if each.consumer == replica:
            present = found.setdefault(each.stream, None)
            functions = each.producer not in failed and _runs(graph, each.producer)
            if functions and (present is None or each.cost < present.cost):
                found[each.stream] = each
    chosen = [each for each in found.values() if each is not None]
    return chosen if len(chosen) == len(found) else []
