"""What a durable folder has of a component, as the copy from which a peer takes it over."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, Frame, PieceReply
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.state_pieces import Piece
from synergy_nb.dataflow.streams.log.values import ORIGIN, Determinant
from synergy_nb.durable.component_files import Files, files_of
from synergy_nb.durable.records import unpacked

__all__ = ["Restored", "restored"]


class Restored(NamedTuple):
    """A component as a folder has it."""

    copy: Copy
    determinants: tuple[Determinant, ...]  # orders of inputs on which its output depends


def restored(files: Files, operator: str, limits: Limits = LIMITS) -> Restored | None:
    """Return what a folder has of a component; None if it has nothing.

    The files of several epochs are those of a component that was restarted and killed again before its first snapshot:
    then its last snapshot is in an earlier epoch, and what it has emitted since in the later ones.

    Raises ``DurableError`` if a file was damaged.
    """
    copy: Copy | None = None
    orders: list[Determinant] = []
    for _, logs, packs in files_of(operator, files.names()):
        stored = {
            frame.piece.number: frame.piece
            for name in packs
            for frame in unpacked(files.read(name), name)
            if isinstance(frame, PieceReply)
        }
        frames = [frame for name in logs for frame in unpacked(files.read(name), name)]
        for frame in frames:
            if not isinstance(frame, Data | ComponentState):
                continue
            if copy is None:
                copy = Copy(frame.output, limits)
            elif frame.output.epoch > copy.output.epoch:
                copy.follow(frame.output, 0.0)
            orders += _replay(copy, frame, stored)
    return None if copy is None else Restored(copy, tuple(orders))


def _replay(copy: Copy, frame: Frame, stored: dict[int, Piece]) -> list[Determinant]:
    """Have a copy take a frame; return the orders of inputs in it."""
    if isinstance(frame, Data):
        if not copy.merge.joined:  # files before this one were removed
            frame = msgspec.structs.replace(frame, began=True)
        chunks, _ = copy.receive(frame, 0.0)
        copy.append(chunks, ORIGIN)
        return [each for chunk in chunks for each in chunk.determinants]
    assert isinstance(frame, ComponentState)
    pieces = stored | {piece.number: piece for piece in frame.enclosed}
    named = [number for part in frame.parts for number in part.pieces]
    if all(number in pieces for number in named):  # else it is an earlier snapshot, whose pieces are gone
        whole = tuple(pieces[number] for number in named)
        copy.snapshot(msgspec.structs.replace(frame, enclosed=whole), None)
    return list(frame.causes)
