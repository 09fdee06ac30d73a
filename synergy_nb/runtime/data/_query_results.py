"""Results of a part on Spark, from its query to its stream: three things that each have a life of their own.

The query hands over one micro-batch after the other, in its own threads; the event loop emits their results. So there
are results that wait for room (:class:`OutputRoom`), micro-batches of which some results are not emitted yet
(:class:`HandedSteps`), and one that Spark may not commit before all copies have it (:class:`CommitHold`).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from synergy_nb.dataflow.streams.log.values import Point


class OutputRoom:
    """Bytes of results that wait to be emitted; threads of the query wait while these are too many."""

    def __init__(self, limit: int) -> None:
        self.taken = 0
        self._limit = limit
        self._stopped = False
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Take room for results, once there is any; with the last ones the limit may be exceeded."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self.taken < self._limit)
            self.taken += size

    def free(self, size: int) -> None:
        """Results have been emitted."""
        with self._changed:
            self.taken -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody waits any more: what comes is discarded."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class CommitHold:
    """Holds the commit of a micro-batch until all copies have its results, while there are copies that are safe so."""

    def __init__(self, *, kept: bool = False) -> None:
        self._kept = kept  # whether one of the copies is in a durable folder, which is always waited for
        self.copies = kept  # whether there are copies
        self._waits = kept  # whether all copies have to have a micro-batch before Spark commits it
        self._known = False  # whether all copies have a snapshot of this part
        # last micro-batch that all copies have, and that Spark may have committed
        self._replicated = self.released = -1
        self._stopped = False
        self._changed = threading.Condition()

    def resume(self, batch: int) -> None:
        """The part goes on after a micro-batch that was committed at another peer."""
        self._replicated = self.released = batch

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        """Set whether there are copies, and whether these must have a micro-batch before Spark commits it."""
        with self._changed:
            self.copies, self._waits = copies or self._kept, (copies and safe) or self._kept
            self._changed.notify_all()

    def replicated(self, batch: int) -> None:
        """All copies have the output of the micro-batches up to this one."""
        with self._changed:
            self._replicated, self._known = max(self._replicated, batch), True
            self._changed.notify_all()

    def know(self) -> bool:
        """Wait until all copies have a snapshot of this part; returns False if it has left before that."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._known)
            return self._known

    def release(self, batch: int) -> bool:
        """Wait until Spark may commit a micro-batch; returns False if the part has left before that."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._waits or self._replicated >= batch)
            if self._stopped and self._replicated < batch:
                return False
            self.released = max(self.released, batch)
            return True

    def stop(self) -> None:
        """The part leaves: what copies do not have may not be committed any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class HandedStep(NamedTuple):
    """A micro-batch that was handed over, and the point where its results end."""

    handed: Any  # progress of the delivery, for the query; None before the first one
    end: Point


class HandedSteps:
    """Micro-batches that were handed over, until all their results are emitted. On the event loop alone."""

    def __init__(self, since: Point) -> None:
        self.last = HandedStep(None, since)  # the last micro-batch that was emitted completely
        self._emitted_to = since  # point up to which results were emitted
        self._waiting: deque[HandedStep] = deque()  # micro-batches handed over since

    def hand(self, step: HandedStep) -> bool:
        """A micro-batch was handed over; returns whether the last emitted one is another than before."""
        self._waiting.append(step)
        return self._advance()

    def emit(self, end: Point) -> bool:
        """Results were emitted up to a point; returns whether the last emitted micro-batch is another than before."""
        self._emitted_to = end
        return self._advance()

    def _advance(self) -> bool:
        before = self.last
        while self._waiting and self._emitted_to >= self._waiting[0].end:
            self.last = self._waiting.popleft()
        return self.last is not before
