"""A component as a folder keeps it, without the peer that executes it."""

from __future__ import annotations

import zlib

from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, PieceReply
from synergy_nb.dataflow.streams.log.state_pieces import Part, Piece
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Output, Point, chunks_of
from synergy_nb.dataflow.tuples import START, Item
from synergy_nb.durable.folder_copy import FolderCopy, FolderWork
from synergy_nb.durable.writing import CarriedOut, ComponentWork, carry_out
from tests.durable.durable_world import MemoryFiles
from tests.streams.items import batch, promise

__all__ = ["Kept", "piece_of", "point"]


class Kept:
    """A copy in a folder in memory."""

    def __init__(
        self,
        epoch: int = 0,
        repeats: Point = ORIGIN,
        files: MemoryFiles | None = None,
        *,
        again: bool = False,
        held: int = 1 << 20,
    ) -> None:
        self.files = MemoryFiles() if files is None else files
        self.output = Output("app", "f", epoch)
        self.read = 0  # bytes of inputs since the last snapshot that was written
        unsaved = (lambda: self.read) if again else None
        self.copy = FolderCopy(self.output, repeats, segment=200, small=100, kept=held, unsaved=unsaved)
        self.end = ORIGIN
        self.held_back: list[ComponentWork] | None = None  # what is to be written later; None: all is written at once

    def take(self, frame: Data | ComponentState | PieceReply) -> FolderWork:
        work = self.copy.take(frame, 0.0)
        todo = ComponentWork("f", self.output.epoch, work)
        if self.held_back is None:
            assert carry_out(self.files, [todo]) == CarriedOut(1)
        else:
            self.held_back.append(todo)
        return work

    def begin(self, start: Point = ORIGIN) -> FolderWork:
        self.end = start
        return self.take(Data(self.output, self.copy.reader, start, (), True))

    def emit(self, rows: int, trimmed: Point = ORIGIN) -> FolderWork:
        return self._give(batch(self.end.position, rows), trimmed)

    def promise(self, until: int) -> FolderWork:
        return self._give(promise(until, self.end.position), ORIGIN)

    def _give(self, item: Item, trimmed: Point) -> FolderWork:
        chunks: tuple[Chunk, ...] = tuple(chunks_of([item], self.end))
        start, self.end = self.end, chunks[-1].end
        return self.take(Data(self.output, self.copy.reader, start, chunks, False, trimmed))

    def read_up_to(self, trimmed: Point) -> FolderWork:
        """Readers need nothing before a point any more."""
        return self.take(Data(self.output, self.copy.reader, self.end, (), False, trimmed))

    def save(self, number: int, pieces: tuple[Piece, ...] = (), enclosed: tuple[Piece, ...] = ()) -> FolderWork:
        parts = (Part(0, tuple(piece.number for piece in pieces)),) if pieces else ()
        state = ComponentState(
            self.output, self.copy.reader, number, {0: self.end}, self.end, ORIGIN, b"h", parts, enclosed
        )
        return self.take(state)


def piece_of(number: int, size: int) -> Piece:
    data = b"x" * size
    return Piece(number, data, zlib.crc32(data))


def point(position: int) -> Point:
    return Point(position, START)
