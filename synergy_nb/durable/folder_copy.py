"""The copy of one component in a folder: which frames are written where, and which files are not needed any more.

Theory of operation
-------------------
A :class:`FolderCopy` is a copy holder like the backup at a peer: it subscribes to the component's output and receives
its snapshots. It has the address ``FOLDER``, answers only what is written, and never dies; so logs are trimmed, and
readers wait, as with any backup. It differs in three things. It names *writes*, which its driver carries out in the
background (:class:`Write`), and has no rows in memory but the last :data:`KEPT` bytes of those that are made again. It
keeps the output back to its own last snapshot, although readers need it no more: after the death of all peers, nobody
else knows in which order inputs were read. And nobody leaves it behind: if the disk is full, the stream waits
(``hosting._snapshots``).

Output that the component makes *again* from a snapshot, as nothing but its one input decides it, is written only where
it has to be: a snapshot waits until readers are saved past its end themselves, or need little of the output before it
that is still in memory, and only that is written with it. How little counts is relative to what was read since the last
snapshot that was written. Nobody waits for such a snapshot, but it is what a restart begins with.

Output and snapshots are in one series of files, in the order in which they came (:mod:`.component_files`). A file of
more than :data:`SEGMENT` bytes is followed by another one, which begins with the last snapshot; a file is removed once
all of its output is older than what readers and the last snapshot need. Pieces of a state that are small are written
with each snapshot, others once, in files of their own: some pieces of a table in each, as they come and go together,
and each file that is made costs a turn of the disk. The files of an earlier epoch are removed once a snapshot of this
one covers all that they have: until then they have the only record of the order of inputs that the component repeats
(``test_durable_campaign``). How much that is, each record of output says (``Data.end``): a peer from which the
component has moved may write to files of its epoch after they were removed.

No IO, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.dataflow.streams.hosting.copies import FOLDER_REQUESTED, Copy
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Frame,
    PieceReply,
    PieceRequest,
    Subscribe,
)
from synergy_nb.dataflow.streams.log.state_pieces import Piece
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, OnLag, Output, Point, Reader
from synergy_nb.durable.component_files import log_name, piece_name

__all__ = ["MOST_WAITING", "PACKED", "FolderCopy", "FolderWork", "Write"]

SEGMENT: Final = 1 << 20  # bytes after which a file of output and snapshots is followed by another one
SMALL: Final = 64 << 10  # bytes of pieces that are written with each snapshot
KEPT: Final = 1 << 20  # bytes of output that is made again that are in memory
MOST_WAITING: Final = 8  # snapshots that wait until readers need little of the output before them
PACKED: Final = 64  # most pieces of a table that are in one file
LITTLE: Final = 16  # number of bytes read for one that may be written with a snapshot


class Write(NamedTuple):
    """A step of a writer."""

    name: str  # name of the file
    frame: Frame | None  # frame that is added to its end; None: the file is removed


class FolderWork(NamedTuple):
    """What has to be done for a frame: writes first, then answers."""

    writes: list[Write]
    answers: list[Frame]
    # whether the files of all earlier epochs of the component may be removed after the writes
    supersedes: bool = False


class FolderCopy:
    """The copy of a component in one epoch."""

    def __init__(
        self,
        output: Output,  # output of the component in its present epoch
        # point up to which the folder has the output in earlier epochs. Until a snapshot covers it, files of these have
        # the only record of the order of inputs that the component repeats
        repeats: Point = ORIGIN,
        segment: int = SEGMENT,  # bytes of a file of output and snapshots
        small: int = SMALL,  # bytes of pieces that are written with each snapshot
        kept: int = KEPT,  # bytes of output that is made again that are in memory
        least: int = 0,  # bytes for which each write counts at least
        *,
        # of a component that makes the same output again if it resumes from a snapshot: function that returns the bytes
        # that it has read, or a source has emitted, since the last one that is written; None for any other component
        unsaved: Callable[[], int] | None = None,
    ) -> None:
        self.output = output
        self.reader = Reader(output.application, output.operator, COPY, FOLDER)
        self._repeats = repeats
        self._superseded = False
        self._most, self._most_small, self._most_kept = segment, small, kept
        self._least = least
        self._unsaved = unsaved
        self._copy = Copy(output)  # for its receiving side; only output that is made again is kept in it
        self._written = ORIGIN  # end of such output that was written, or need not be
        self._trimmed = ORIGIN  # point before which no reader needs the output
        self._segments = [(log_name(output.operator, output.epoch, 0), ORIGIN)]  # files, and where their output ends
        self._size = 0  # bytes in the last of them, about
        self._next = 1  # number of the next file
        self._state: ComponentState | None = None  # last snapshot that is written
        self._coming: ComponentState | None = None  # announced one, some pieces or output of which are missing
        self._waiting: list[ComponentState] = []  # later ones that are here, before which readers need some output
        self._announced = -1  # number of the last one that was announced
        self._small: dict[int, Piece] = {}  # pieces that are written with each snapshot
        self._stored: dict[int, str] = {}  # pieces that have been written, and the file of each
        self._requested: set[int] = set()
        self._packs: dict[int, str] = {}  # pieces of the announced snapshot, and the file that each is written to

    @property
    def makes_again(self) -> bool:
        """Whether the component makes the same output again: that it is received does not say that it is written."""
        return self._unsaved is not None

    def begin(self) -> Subscribe:
        """Return the subscription to the output, and to the snapshots, of the component."""
        since = self._copy.merge.received if self._copy.merge.joined else None
        return Subscribe(self.output, self.reader, since, OnLag.BLOCK)

    def take(self, frame: Frame, now: float) -> FolderWork:
        """Handle a frame of the component; ``now``: time in seconds."""
        match frame:
            case Data():
                return self._data(frame, now)
            case ComponentState():
                return self._announce(frame)
            case PieceReply():
                return self._piece(frame.piece)
        return FolderWork([], [])

    # -- output ----------------------------------------------------------------------------------------------------

    def _data(self, data: Data, now: float) -> FolderWork:
        merge = self._copy.merge
        joined, began = merge.joined, self._copy.log_restarted(data)
        chunks, gap = self._copy.receive(data, now)
        merge = self._copy.merge
        if gap:
            return FolderWork([], [self.begin()])
        self._trimmed = max(self._trimmed, data.trimmed)
        writes: list[Write] = []
        if self._unsaved is not None:
            self._copy.append(chunks, self._trimmed)
            log = self._copy.log
            if log.size > self._most_kept:
                log.trim(log.behind(log.end, self._most_kept))
        elif chunks or (merge.joined and (began or not joined)):
            start = chunks[0].start if chunks else data.start
            kept = Data(self.output, self.reader, start, tuple(chunks), began, data.trimmed, self._repeats)
            self._add(writes, kept, sum(chunk.size for chunk in chunks))
            self._segments[-1] = self._segments[-1][0], merge.received
        supersedes = self._adopt(writes)
        return FolderWork(writes, [self._ack()] if merge.joined else [], supersedes)

    def _ack(self) -> Ack:
        received = self._copy.merge.received
        number = -1 if self._state is None else self._state.number
        return Ack(self.output, self.reader, received, received, received, number)

    def _add(self, writes: list[Write], frame: Frame, size: int) -> None:
        """Add a frame to the last file, or to a new one that begins with the last snapshot."""
        if self._size >= self._most:
            operator, epoch = self.output.operator, self.output.epoch
            self._segments.append((log_name(operator, epoch, self._next), self._segments[-1][1]))
            self._next += 1
            self._size = 0
            if self._state is not None and not isinstance(frame, ComponentState):
                self._write_state(writes, self._state)
        writes.append(Write(self._segments[-1][0], frame))
        self._size += max(size, self._least)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _announce(self, state: ComponentState) -> FolderWork:
        if state.number <= self._announced:
            return FolderWork([], [self._ack()])
        self._announced = state.number
        self._coming = msgspec.structs.replace(state, enclosed=())
        self._small.update((piece.number, piece) for piece in state.enclosed)
        self._requested.clear()
        operator, epoch = self.output.operator, self.output.epoch
        self._packs = {
            number: piece_name(operator, epoch, part.pieces[place - place % PACKED])
            for part in state.parts
            for place, number in enumerate(part.pieces)
            if number not in self._stored and number not in self._small
        }
        return self._go_on([])

    def _piece(self, piece: Piece) -> FolderWork:
        if piece.number not in self._requested:
            return FolderWork([], [])
        self._requested.discard(piece.number)
        writes: list[Write] = []
        self._store(writes, self._packs[piece.number], [piece])
        return self._go_on(writes)

    def _store(self, writes: list[Write], name: str, pieces: list[Piece]) -> None:
        """Write pieces to a file that has nothing else."""
        writes += [Write(name, PieceReply(self.output, self.reader, piece)) for piece in pieces]
        self._stored.update((piece.number, name) for piece in pieces)

    def _go_on(self, writes: list[Write]) -> FolderWork:
        """Request pieces that are missing, or write the snapshot if none is."""
        if self._coming is not None and not self._requested:
            missing = [each for each in _named(self._coming) if each not in self._stored and each not in self._small]
            self._requested.update(missing[:FOLDER_REQUESTED])
        if self._coming is not None and self._requested:
            asked = PieceRequest(self.output, self.reader, self._coming.number, tuple(sorted(self._requested)))
            return FolderWork(writes, [asked])
        supersedes = self._adopt(writes)
        return FolderWork(writes, [self._ack()], supersedes)

    def _adopt(self, writes: list[Write]) -> bool:
        """Write the snapshot that has come, if its pieces and all output before it are here.

        Returns whether the files of earlier epochs are not needed any more, the first time.
        """
        state, supersedes = self._due(), False
        if state is not None:
            if self._unsaved is not None:
                self._write_needed(writes, state)
            self._write_state(writes, state)
            self._state = state
            supersedes = not self._superseded and state.end.position >= self._repeats.position
            self._superseded = self._superseded or supersedes
        self._clean(writes)
        return supersedes

    def _due(self) -> ComponentState | None:
        """Return the snapshot that has to be written now."""
        state, merge = self._coming, self._copy.merge
        if state is not None and not self._requested and merge.joined:
            whole = all(each in self._stored or each in self._small for each in _named(state))
            if whole and merge.received.position >= state.end.position:
                del self._waiting[MOST_WAITING - 1 :]
                self._waiting.append(state)
                self._coming = None
        for place, each in reversed(list(enumerate(self._waiting))):
            if self._is_due(each):
                del self._waiting[: place + 1]
                return each
        return None

    def _is_due(self, state: ComponentState) -> bool:
        """Whether a snapshot has to wait no longer: its readers need little of the output before it, which is here."""
        start, log = max(self._trimmed, self._written), self._copy.log
        if self._unsaved is None or start >= state.end:
            return True
        little = log.between(start, state.end) <= max(self._most_small, self._unsaved() // LITTLE)
        return log.start <= start and little

    def _write_needed(self, writes: list[Write], state: ComponentState) -> None:
        """Write that the output goes on before a snapshot, with what of it readers still need."""
        start = min(max(self._trimmed, self._written), state.end)
        chunks = tuple(each for each in self._copy.log.chunks(start) if each.end <= state.end)
        start = chunks[0].start if chunks else start
        # first that it begins there: a promise before it, which no reader needs, is not missing then
        began = Data(self.output, self.reader, start, (), True, self._trimmed, self._repeats)
        self._add(writes, began, 0)
        if chunks:
            kept = msgspec.structs.replace(began, chunks=chunks, began=False)
            self._add(writes, kept, sum(chunk.size for chunk in chunks))
        self._written = state.end
        self._segments[-1] = self._segments[-1][0], state.end

    def _write_state(self, writes: list[Write], state: ComponentState) -> None:
        small = [self._small[each] for each in _named(state) if each in self._small]
        if sum(len(piece.data) for piece in small) > self._most_small:
            self._store(writes, piece_name(self.output.operator, self.output.epoch, small[0].number), small)
            small = []
        writes.append(Write(self._segments[-1][0], msgspec.structs.replace(state, enclosed=tuple(small))))
        self._size += max(len(state.head) + sum(len(piece.data) for piece in small), self._least)

    def _clean(self, writes: list[Write]) -> None:
        """Remove files whose output nobody needs, and pieces that no snapshot names."""
        if self._state is None:
            return
        least = min(self._trimmed, self._state.end)
        gone = [name for name, end in self._segments[:-1] if end <= least and self._superseded]
        self._segments = [each for each in self._segments if each[0] not in gone]
        coming = () if self._coming is None else (self._coming,)
        needed = {piece for state in (self._state, *self._waiting, *coming) for piece in _named(state)}
        self._small = {each: piece for each, piece in self._small.items() if each in needed - self._stored.keys()}
        files = {self._stored[each] for each in self._stored if each in needed}
        gone += sorted({name for name in self._stored.values() if name not in files})
        self._stored = {each: name for each, name in self._stored.items() if name in files}
        writes += [Write(name, None) for name in gone]


def _named(state: ComponentState) -> list[int]:
    return [number for part in state.parts for number in part.pieces]
