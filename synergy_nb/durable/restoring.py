"""What a durable folder has of a component, as the copy from which a peer takes it over."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgspec

from synergy_nb.dataflow.operators.sinks import goes_on
from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, Frame, PieceReply
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.state_pieces import Piece
from synergy_nb.dataflow.streams.log.values import ORIGIN, Determinant
from synergy_nb.durable.component_files import Files, files_of
from synergy_nb.durable.records import DurableError, unpacked
from synergy_nb.plan import Plan

__all__ = ["Restored", "has_changed", "restored"]


class Restored(NamedTuple):
    """A component as a folder has it."""

    copy: Copy
    determinants: tuple[Determinant, ...]  # orders of inputs on which its output depends


def restored(files: Files, operator: str, limits: Limits = LIMITS) -> Restored | None:
    """Return what a folder has of a component; None if it has nothing.

    The files of several epochs are those of a component that was restarted and killed again before its first snapshot:
    then its last snapshot is in an earlier epoch, and what it has emitted since in the later ones.

    Raises ``DurableError`` if a file was damaged, or output is missing.
    """
    epochs = [_Epoch(files, logs, packs) for _, logs, packs in files_of(operator, files.names())]
    whole = [number for number, epoch in enumerate(epochs) if epoch.supersedes]
    copy: Copy | None = None
    orders: list[Determinant] = []
    for epoch in epochs[whole[-1] :] if whole else epochs:
        for frame in epoch.frames:
            if copy is None:
                copy = Copy(frame.output, limits)
            elif frame.output.epoch > copy.output.epoch:
                copy.follow(frame.output, 0.0)
            orders += _replay(copy, frame, operator)
    return None if copy is None else Restored(copy, tuple(orders))


def has_changed(files: Files, old: Plan, new: Plan) -> bool:
    """Whether the new one of two plans goes on, which was kept once all sinks could go on with it: unless one cannot.

    A sink gives nothing with either of them before the folder has a state from which the other one cannot go on
    (:mod:`synergy_nb.dataflow.operators.sinks`).

    Raises ``DurableError`` if a file was damaged.
    """
    for sink, switch in new.transition.switches.items():
        if old.transition.switches.get(sink) != switch:
            found = restored(files, sink)
            state = None if found is None else found.copy.state
            try:
                if state is None or not goes_on(state.head, switch.inputs[0]):
                    return False
            except msgspec.MsgspecError as error:
                raise DurableError(f"{sink}: {error}; expected the state of a sink") from None
    return True


def _joined(logs: list[str]) -> list[str]:
    """Return the last files that follow one another; one that was removed before may be back after a power failure."""
    numbers = [int(name.rpartition(".")[2]) for name in logs]
    gaps = [place for place, (before, after) in enumerate(pairwise(numbers), 1) if after > before + 1]
    return logs[gaps[-1] :] if gaps else logs


class _Epoch:
    """What the folder has of a component in one epoch: output and snapshots in their order, with all pieces."""

    def __init__(self, files: Files, logs: list[str], packs: list[str]) -> None:
        stored: dict[int, Piece] = {}
        for name in packs:
            found = (frame for frame in _read(files, name) or () if isinstance(frame, PieceReply))
            stored.update((frame.piece.number, frame.piece) for frame in found)
        written = {name: frames for name in _joined(logs) if (frames := _read(files, name)) is not None}
        logs = _joined(list(written))
        self.frames: list[Data | ComponentState] = []
        # whether a snapshot covers all that the folder had of earlier epochs: no file is removed before
        self.supersedes = bool(logs) and not logs[0].endswith(".0")
        repeats = ORIGIN
        for frame in (frame for name in logs for frame in written[name]):
            if isinstance(frame, Data):
                repeats = frame.end  # the same in each
                self.frames.append(frame)
            elif isinstance(frame, ComponentState):
                pieces = stored | {piece.number: piece for piece in frame.enclosed}
                named = [number for part in frame.parts for number in part.pieces]
                if all(number in pieces for number in named):  # else a later one has replaced it
                    whole = tuple(pieces[number] for number in named)
                    self.frames.append(msgspec.structs.replace(frame, enclosed=whole))
                    self.supersedes = self.supersedes or frame.end.position >= repeats.position


def _read(files: Files, name: str) -> list[Frame] | None:
    """Return the frames of a file; None if a peer that is late has removed it meanwhile, as others replace it."""
    try:
        data = files.read(name)
    except FileNotFoundError:
        return None
    return unpacked(data, name)


def _replay(copy: Copy, frame: Data | ComponentState, operator: str) -> list[Determinant]:
    """Have a copy take a frame; return the orders of inputs in it.

    Raises ``DurableError`` if output is missing before it: what was saved after that would be left out.
    """
    if isinstance(frame, Data):
        if not copy.merge.joined:  # files before this one were removed
            frame = msgspec.structs.replace(frame, began=True)
        known, (chunks, gap) = copy.merge.received, copy.receive(frame, 0.0)
        if gap:
            raise DurableError(
                f"{operator}@{frame.output.epoch}: its output goes on at {frame.start.position}, and ends at "
                f"{known.position} before that; expected the output between them: a file was damaged"
            )
        copy.append(chunks, ORIGIN)
        return [each for chunk in chunks for each in chunk.determinants]
    copy.snapshot(frame, None)
    return list(frame.causes)
