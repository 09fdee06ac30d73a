"""What is done for the copies in a folder, in a thread: the disk holds what is added before anything is removed.

A power failure may undo a removal, and take what was added last. So the disk holds what replaces a file before that
file goes, and what is answered is what the disk holds.

A peer that is late may write on for an attempt that has ended, while the next attempt reads the folder. What it is
answered would have others let go of what the next attempt lacks. So whoever reads the files of a component leaves a
*fence* of its epoch first, and whoever has written looks for a later one before it answers or removes anything: either
the reader finds what was written, or the writer finds the fence, and then has no answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from synergy_nb.durable.component_files import EVERY, Files, fence_name, files_of
from synergy_nb.durable.folder_copy import FolderWork
from synergy_nb.durable.records import packed

__all__ = ["CarriedOut", "ComponentWork", "carry_out", "fence"]


class ComponentWork(NamedTuple):
    """What has to be done for one frame of a component."""

    operator: str
    epoch: int
    work: FolderWork

    def outdated_by(self, fences: Mapping[str, int]) -> int:
        """The epoch in which somebody else goes on from what was written, so that nobody is answered; 0 for none."""
        latest = max(fences.get(self.operator, 0), fences.get(EVERY, 0))
        return latest if latest > self.epoch else 0


class CarriedOut(NamedTuple):
    """What was done for an application."""

    number: int  # number of works that were done; what was added of the next one is not added again
    error: OSError | None = None  # why it ended there
    fences: Mapping[str, int] = {}  # component to its latest fence after that


def fence(files: Files, epochs: Mapping[str, int]) -> None:
    """Have nobody be answered any more for earlier epochs of components, before they are read; by component.

    Raises ``OSError`` if the disk does not take it; ``FileNotFoundError`` if the application has ended.
    """
    for operator, epoch in epochs.items():
        files.append(fence_name(operator, epoch), b"")
    files.sync()


def carry_out(files: Files, todo: Sequence[ComponentWork]) -> CarriedOut:
    """Do what has to be done for an application, one after another, as far as the disk takes it.

    Raises ``FileNotFoundError`` if the application has ended.
    """
    added, why = 0, None
    for each in todo:
        try:
            _add(files, each.work)
        except FileNotFoundError:
            raise
        except OSError as error:
            why = error
            break
        added += 1
    try:
        files.sync()
        # only now: who leaves a fence after this look finds all that was written before it
        # (test_what_is_written_while_somebody_else_reads_it_is_found_or_not_answered)
        fences = files.fences()
    except FileNotFoundError:
        raise
    except OSError as error:
        return CarriedOut(0, error)
    for each in todo[:added]:
        if not each.outdated_by(fences):
            _remove(files, each)
    return CarriedOut(added, why, fences)


def _add(files: Files, work: FolderWork) -> None:
    """Add frames to files; those that were added are not among the writes any more."""
    coming = [each for each in work.writes if each.frame is not None]
    going = [each for each in work.writes if each.frame is None]
    try:
        while coming:
            name, frame = coming[0]
            assert frame is not None
            files.append(name, packed(frame))
            del coming[0]
    finally:
        work.writes[:] = [*coming, *going]


def _remove(files: Files, done: ComponentWork) -> None:
    """Remove files that are not needed any more; one that stays does no harm."""
    gone = [name for name, _ in done.work.writes]
    if done.work.supersedes:
        for known, logs, pieces in files_of(done.operator, files.names()):
            gone += (*logs, *pieces) if known < done.epoch else ()
    if gone:
        with contextlib.suppress(OSError):
            files.remove(*gone)
