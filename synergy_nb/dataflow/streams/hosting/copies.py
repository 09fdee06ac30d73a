"""The copy of a component that another peer executes: the output that may be needed, and the last snapshot.

A :class:`Copy` reads the component's output like any reader, but nobody waits for it. If it lags so far that the log
has been trimmed beyond its position, it restarts where the log begins; its last snapshot remains valid, as the inputs
after it are retained until the copy has the next one. A peer that takes over from the copy thus has all output that
the component's readers may request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, PieceRequest
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.log.merge import ASKING, CLOSED, RETRY_S, SUBSCRIBED, InOrder, Receipt
from synergy_nb.dataflow.streams.log.state_pieces import Piece
from synergy_nb.dataflow.streams.log.values import COPY, Chunk, Output, Point, Reader
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable

MOST_REQUESTED: Final = 4  # maximum number of pieces that are requested at a time
FOLDER_REQUESTED: Final = 16  # the same for a folder: these cross no link, and the disk is asked once to hold them
REQUEST_S: Final = 0.5  # least time until missing pieces are requested again, seconds; doubled each time
LONGEST_S: Final = 8.0  # longest time between two requests, seconds


class _Snapshot:
    """A snapshot that was announced, and the pieces of it that have arrived."""

    def __init__(
        self,
        state: ComponentState,
        known: Mapping[int, bytes],  # piece number to the bytes of a piece that this peer already has
    ) -> None:
        self.state = msgspec.structs.replace(state, enclosed=())
        enclosed = {piece.number: piece.data for piece in state.enclosed}
        named = [number for part in state.parts for number in part.pieces]
        found = ((number, known.get(number, enclosed.get(number))) for number in named)
        self.pieces: dict[int, bytes] = {number: data for number, data in found if data is not None}
        self.missing = {number: None for number in named if number not in self.pieces}
        self.requested: dict[int, float] = {}  # piece number to the time of its request, seconds
        self.retry_at = 0.0
        self.patience = REQUEST_S

    def add(self, piece: Piece, now: float) -> None:
        """Add a piece; ignore one that is not missing."""
        if piece.number in self.missing:
            del self.missing[piece.number]
            self.pieces[piece.number] = piece.data
            took = now - self.requested.pop(piece.number, now)  # others may wait for the link, or this one, for as long
            self.patience = max(3.0 * took, REQUEST_S)
            self.retry_at = now + self.patience

    def missing_request(self, now: float) -> tuple[int, ...]:
        """Return the pieces to request now: once half of those requested have arrived, or on a timeout."""
        if self.retry_at <= now:
            if self.requested:
                self.patience = min(2 * self.patience, LONGEST_S)
            self.requested.clear()
        if len(self.requested) > MOST_REQUESTED // 2:
            return ()
        waiting = (number for number in self.missing if number not in self.requested)
        found = tuple(islice(waiting, MOST_REQUESTED - len(self.requested)))
        self.requested.update(dict.fromkeys(found, now))
        self.retry_at = now + self.patience
        return found


class Readiness(StrEnum):
    """What a copy is good for.

    A copy does not say whether somebody executes from it: that is the role of its peer. It goes from one snapshot to
    the next without a gap, so it is never less ready than it was, except by a new epoch: the numbers of snapshots and
    of their pieces begin anew, and a piece of the same number is another one (``test_snapshots``).
    """

    EMPTY = "empty"  #: It has no snapshot: nobody could resume from it.
    OUTDATED = "outdated"  #: Its snapshot is one of an earlier epoch: it serves if the present component dies at once.
    CURRENT = "current"  #: It has a snapshot of the present epoch.
    READY = "ready"  #: The same, and its peer has reported that it could take over.


#: State of a copy to the states that may follow it. A snapshot is never given up, only replaced by a later one.
READINESS_FOLLOWS: Final[StateTable[Readiness]] = {
    Readiness.EMPTY: frozenset({Readiness.CURRENT}),
    Readiness.OUTDATED: frozenset({Readiness.CURRENT}),
    Readiness.CURRENT: frozenset({Readiness.READY, Readiness.OUTDATED}),
    Readiness.READY: frozenset({Readiness.OUTDATED}),
}


class Copy:
    """The copy of a component."""

    def __init__(
        self,
        output: Output,  # of the component, in its present epoch
        limits: Limits = LIMITS,  # of the log, bytes, for the component that takes over
    ) -> None:
        self.output = output
        self.merge = InOrder(None, output.epoch)  # receiving side of the stream
        self.log = StreamLog(limits=limits, retains_all=True)  # output that a reader of the component may still need
        # last complete snapshot, with all output before it present or covered by it; and the bytes of its pieces
        self.state: ComponentState | None = None
        self.pieces: dict[int, bytes] = {}
        self.readiness = Readiness.EMPTY
        self.retry_at = 0.0  # time at which it subscribes, unless the subscription is confirmed by then, seconds
        self.ack_at: float | None = None  # time at which it acknowledges its progress, seconds
        self.ready_by = math.inf  # time at which its follower counts as ready even if it has not caught up, seconds
        self.move = 0  # number of the move for which this peer follows the component; 0: none
        self.least = -1  # number of the first snapshot from which a follower may start; -1: any
        self._coming: _Snapshot | None = None  # announced snapshot with missing pieces
        self._whole: list[_Snapshot] = []  # complete snapshots, without all output before them

    def follow(self, output: Output, now: float) -> None:
        """Continue with the output of the component's replacement in a later epoch."""
        self.output = output
        self.merge.follow(output.epoch)
        self.retry_at = now
        self.ready_by = math.inf
        if self.state is not None:  # numbers restart with each epoch
            self._become(Readiness.OUTDATED)
            self.state = msgspec.structs.replace(self.state, number=-1)
        self._coming, self.least = None, -1
        self._whole.clear()

    def _become(self, state: Readiness) -> None:
        if state is not self.readiness:
            thing = f"copy of {self.output.application}/{self.output.operator}"
            state_tables.check(thing, READINESS_FOLLOWS, self.readiness, state)
            self.readiness = state

    def _has(self, state: ComponentState, pieces: dict[int, bytes]) -> None:
        """Resume from a snapshot from now on; what was reported of an earlier one holds for it, too."""
        self.state, self.pieces = state, pieces
        if self.readiness is not Readiness.READY:
            self._become(Readiness.CURRENT)

    def resume(self, log: StreamLog) -> None:
        """Continue from the log of a component that no longer follows."""
        log.forget_readers()
        self.log, self.ready_by = log, math.inf
        self.merge = InOrder(log.end, self.output.epoch)
        self.retry_at = 0.0

    def keep(self, state: ComponentState, pieces: dict[int, bytes]) -> None:
        """Have a snapshot that was made on this peer."""
        self._has(state, pieces)

    def take_log(self, limits: Limits) -> StreamLog:
        """Hand over the log to the component that is made of this copy, and begin another one."""
        log, self.log = self.log, StreamLog(limits=limits, retains_all=True)
        return log

    def set_move(self, move: int) -> None:
        """Set the number of the move for which this peer follows the component; 0: none."""
        self.move = move

    def follows(self, ready_by: float) -> None:
        """Note that this peer executes the component from the snapshot, and counts as ready at the latest then."""
        self.ready_by = ready_by

    def becomes_ready(self) -> None:
        """Note that its peer reports that it could take over."""
        self._become(Readiness.READY)

    # -- its subscription ------------------------------------------------------------------------------------------

    def ask_again(self, at: float) -> None:
        """Subscribe at a time in seconds, unless the subscription has been confirmed by then."""
        self.merge.unsubscribed()
        self.retry_at = at

    def asked(self, now: float) -> None:
        """Note that it has subscribed, until it is confirmed."""
        self.retry_at = now + RETRY_S

    def acknowledge_at(self, at: float, *, earlier: bool = False) -> None:
        """Acknowledge at a time in seconds; or earlier, if an earlier acknowledgement is due."""
        if self.ack_at is None or not earlier:
            self.ack_at = at

    @property
    def due(self) -> float:
        """Time in seconds at which it has to subscribe, acknowledge, request pieces or report that it is ready."""
        ready_by = self.ready_by if self.readiness is Readiness.CURRENT else None
        retry_at = self.retry_at if self.merge.state is ASKING else None
        times = (retry_at, self.ack_at, self.next_request_time, ready_by)
        return min((time for time in times if time is not None), default=math.inf)

    def acknowledged(self) -> None:
        """Note that it has acknowledged its progress."""
        self.ack_at = None

    # -- its output and snapshots ----------------------------------------------------------------------------------

    def outruns(self, follower: Component) -> bool:
        """Whether a whole snapshot is ahead of a follower that its producers do not answer, as it asks for too little.

        They retain nothing for a copy that was left behind. The follower has to start again, from that snapshot.
        """
        for each in self._whole:
            ports = [
                (follower.ports[number], at) for number, at in each.state.inputs.items() if number in follower.ports
            ]
            if any(port.state is ASKING and not port.received.covers(at) for port, at in ports):
                self.least = each.state.number
                return True
        return False

    def log_restarted(self, data: Data) -> bool:
        """Whether a frame says that the log was trimmed beyond the next chunk; an old frame may say so of the past."""
        return data.began and (not self.merge.joined or data.start.position > self.merge.received.position)

    def receive(self, data: Data, now: float) -> tuple[list[Chunk], bool]:
        """Return the new chunks of a frame, and whether chunks before it are missing."""
        merge, confirms = self.merge, not data.unasked  # it may be that the producer does not know of this copy
        if self.log_restarted(data):
            subscribed = confirms or merge.state is SUBSCRIBED
            self.merge = merge = InOrder(data.start, self.output.epoch, subscribed=subscribed)
            self.log.restart(data.start)
        elif not merge.joined:  # it is meant for an earlier copy on this peer
            return [], False
        elif not data.chunks and not merge.begin(data.start, now=now, confirms=confirms):
            return [], True
        epoch = data.output.epoch
        gap = any(merge.receive(epoch, each, now=now, confirms=confirms) is Receipt.GAP for each in data.chunks)
        fresh = [entry.chunk for entry in merge.queue]
        merge.clear()
        return fresh, gap

    def append(self, chunks: list[Chunk], trimmed: Point) -> None:
        """Append output of the component, and trim what nobody needs any more."""
        self.log.append(chunks)
        self.log.trim(trimmed)
        self._adopt(None)

    def snapshot(self, state: ComponentState, follower: Component | None) -> None:
        """Handle the announcement of a snapshot; a follower only has to reach the same point."""
        if follower is not None:
            follower.log.trim(state.trimmed)
        seen = [self._coming.state] if self._coming is not None else []
        seen += [each.state for each in self._whole] + ([self.state] if self.state is not None else [])
        if all(state.number > each.number for each in seen):
            known: dict[int, bytes] = {}
            if self.readiness in (Readiness.CURRENT, Readiness.READY):  # numbers are valid in one epoch
                known |= self.pieces
            for each in self._whole if self._coming is None else (*self._whole, self._coming):
                known |= each.pieces
            self._coming = _Snapshot(state, known)
            self._adopt(follower)

    def receive_piece(self, piece: Piece, follower: Component | None, now: float) -> bool:
        """Add a piece of a snapshot; True if the snapshot is now complete."""
        if self._coming is None:
            return False
        self._coming.add(piece, now)
        self._adopt(follower)
        return self._coming is None

    @property
    def next_request_time(self) -> float | None:
        """Time in seconds at which missing pieces are requested again; None if none are missing."""
        return None if self._coming is None else self._coming.retry_at

    def missing_request(self, peer: str, now: float) -> PieceRequest | None:
        """Return the request that this peer has to send now, if any."""
        pieces = () if self._coming is None else self._coming.missing_request(now)
        if self._coming is None or not pieces:
            return None
        reader = Reader(self.output.application, self.output.operator, COPY, peer)
        return PieceRequest(self.output, reader, self._coming.state.number, pieces)

    def _adopt(self, follower: Component | None) -> None:
        """Switch to the last snapshot that is complete and has all output before it."""
        if self._coming is not None and not self._coming.missing:
            self._whole = [*self._whole[:1], self._coming]  # the first of them may be reached soon
            self._coming = None
        for each in tuple(self._whole):
            if self._reached(each.state, follower):
                self._whole.remove(each)
                self._has(each.state, each.pieces)
                if follower is None:
                    self.log.trim(each.state.trimmed)

    def _reached(self, state: ComponentState, follower: Component | None) -> bool:
        if follower is None:
            return self.merge.joined and self.log.end.position >= state.end.position
        ports = follower.ports
        return all(number not in ports or ports[number].consumed.covers(at) for number, at in state.inputs.items())

    def number(self, follower: Component | None) -> int:
        """Return the number of the last snapshot from which this peer can resume; -1 if there is none."""
        self._adopt(follower)
        return -1 if self.state is None else self.state.number


def has_caught_up(follower: Component, start: Point, emitted: Point) -> bool:
    """Whether a follower has executed all that has arrived, or has emitted more than the active component.

    ``start``: point in the output at which it began; ``emitted``: point up to which the output of the active component
    has arrived here.
    """
    reading = [port for port in follower.ports.values() if port.state is not CLOSED]
    if follower.running or any(port.state is ASKING or port.received < port.end for port in reading):
        return False
    end = follower.log.end.position
    return follower.first is None or (end > start.position and end >= emitted.position)
