"""What a peer keeps of a component that another peer executes: the output that may be needed, and the last snapshot.

A :class:`Copy` reads the component's output like any reader, and nobody waits for it. If it lags so far that the log
has let go of what it needs, it begins anew where the log begins; its last snapshot stays good, as the inputs behind it
are kept until it has the next. Whoever takes over from it has all that the component's readers may ask for.
"""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.frames import Data, State
from synergy_nb.dataflow.streams.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.merge import InOrder, Taken
from synergy_nb.dataflow.streams.values import Chunk, Output, Point

__all__ = ["Copy"]


class Copy:
    """The copy of a component.

    Parameters
    ----------
    output
        Output of the component, in its present epoch.
    limits
        Bytes that a log holds, for whoever takes over.

    Attributes
    ----------
    log : StreamLog
        Output that a reader of the component may still need.
    state : State or None
        Last snapshot of which all output before it is here, or covered by it.
    merge : InOrder
        Reading end.
    retry_at : float
        Time in seconds at which it subscribes, if it is not known to be subscribed by then.
    ack_at : float or None
        Time in seconds at which it says how far it is.
    ready : bool
        Whether its peer has said that it has a snapshot.
    """

    def __init__(self, output: Output, limits: Limits = LIMITS) -> None:
        self.output = output
        self.merge = InOrder(None, output.epoch)
        self.log = StreamLog(limits=limits)
        self.log.held = True
        self.state: State | None = None
        self.retry_at = 0.0
        self.ack_at: float | None = None
        self.ready = False
        self._coming: State | None = None
        self._passed: list[State] = []  # that a follower is not beyond yet

    def follow(self, output: Output, now: float) -> None:
        """The component has been replaced: go on with the one that makes a later epoch."""
        self.output = output
        self.merge.epoch, self.merge.subscribed = output.epoch, False
        self.retry_at = now
        if self.state is not None:  # numbers begin anew with each epoch
            self.state = msgspec.structs.replace(self.state, number=-1)
        self._coming = None
        self._passed.clear()

    def resume(self, log: StreamLog) -> None:
        """A follower follows no longer: keep what it made, and go on from there."""
        log.cursors.clear()
        self.log = log
        self.merge = InOrder(log.end, self.output.epoch)
        self.retry_at = 0.0
        self._passed.clear()

    def begins_anew(self, data: Data) -> bool:
        """Whether a frame says that the log has let go of what would be next; an old one may say so of the past."""
        return data.began and (not self.merge.joined or data.start.position > self.merge.received.position)

    def take(self, data: Data, now: float) -> tuple[list[Chunk], bool]:
        """The new chunks of a frame, and whether something before it is missing."""
        merge = self.merge
        if self.begins_anew(data):
            self.merge = merge = InOrder(data.start, self.output.epoch)
            merge.subscribed = True
            self.log.restart(data.start)
        elif not merge.joined:  # it is meant for a copy that was here before
            return [], False
        elif not data.chunks and not merge.begin(data.start, now=now):
            return [], True
        gap = any(merge.take(data.output.epoch, chunk, now=now) is Taken.GAP for chunk in data.chunks)
        fresh = [entry.chunk for entry in merge.queue]
        merge.queue.clear()
        return fresh, gap

    def keep(self, chunks: list[Chunk], trimmed: Point) -> None:
        """Keep what the component has emitted, and what of it somebody needs."""
        self.log.append(chunks)
        self.log.trim(trimmed)
        self._adopt()

    def snapshot(self, state: State, follower: Component | None) -> None:
        """Take a snapshot that came; a follower has no need of it, but shows that it is as far."""
        if follower is not None:
            self._passed.append(state)
            follower.log.trim(state.trimmed)
        elif self._coming is None or state.number > self._coming.number:
            self._coming = state
            self._adopt()

    def _adopt(self) -> None:
        """Go over to the snapshot that came, if all output before it is here."""
        coming = self._coming
        if coming is None or not self.merge.joined or self.log.end.position < coming.end.position:
            return
        if self.state is None or coming.number > self.state.number:
            self.state = coming
            self.log.trim(coming.trimmed)
        self._coming = None

    def number(self, follower: Component | None) -> int:
        """Number of the last snapshot that this peer can go on from; -1 if there is none."""
        for state in tuple(self._passed) if follower is not None else ():
            ports = follower.ports if follower is not None else ()
            if all(port.consumed.covers(place) for port, place in zip(ports, state.inputs, strict=True)):
                self._passed.remove(state)
                if self.state is None or state.number > self.state.number:
                    self.state = state
        return -1 if self.state is None else self.state.number
