"""What is done for the copies in a folder, in a thread: the disk holds what is added before anything is removed.

A power failure may undo a removal, and take what was added last. So the disk holds what replaces a file before that
file goes, and what is answered is what the disk holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from synergy_nb.durable._component_files import Files, files_of
from synergy_nb.durable.folder_copy import FolderWork
from synergy_nb.durable.records import packed

__all__ = ["ComponentWork", "carry_out"]


class ComponentWork(NamedTuple):
    """What has to be done for one frame of a component."""

    operator: str
    epoch: int
    work: FolderWork


def carry_out(files: Files, todo: Sequence[ComponentWork]) -> tuple[int, OSError | None]:
    """Do what has to be done for an application, one after another, as far as the disk takes it.

    Returns how many were done, and why it ended there; what was added of the next one is not added again.

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
    except FileNotFoundError:
        raise
    except OSError as error:
        return 0, error
    for each in todo[:added]:
        _remove(files, each)
    return added, why


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
    with contextlib.suppress(OSError):
        for name in gone:
            files.remove(name)
