"""Raw files are divided into units; a large one that is packed, or not in UTF-8, is copied for that.

Copies, unpacked and in UTF-8, are in the folder of work. They are made side by side, while Spark starts, and go when
their units are parsed. If there is no room for one, the file is read as it is, by one task.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from spark_stream.pipeline._units import Unit, has_no_room, layout_of, source_of
from synergy_nb.traces.raw_files import RawLayout, likely_rows, may_be_divided, part_begins
from synergy_nb.traces.text_files import is_packed, is_utf8, pieces, unpacked
from synergy_nb.traces.trace_sizes import unpacking

PART_BYTES: Final = 128 << 20  # bytes of a part of a file that may be read in parts
#: Share of all files, by bytes, above which a packed one is worth a copy: a smaller one keeps no core waiting.
WORTH: Final = 1 / 16
_BACK: Final = 2 << 20  # bytes before a part that are read for the latest event time before it
_LOOK: Final = 0.2  # time between two looks at what is done, seconds


def divided(files: Mapping[int, Path], layout: RawLayout, work: Path, watch: Callable[[float], None]) -> list[Unit]:
    """Divide raw files, by their numbers, into units: their parts if they may be read in parts, or else all of each.

    ``watch``: is called with the share of the copies that is made; an error that it raises ends the work. Raises
    ``ValueError`` if a packed file is damaged, or a text is not in its encoding.
    """
    sizes = {number: text_bytes(path) for number, path in files.items()}
    least = max(PART_BYTES, WORTH * sum(sizes.values()))
    large = {
        number: path
        for number, path in files.items()
        if may_be_divided(layout) and sizes[number] > least and _needs_copy(path, layout)
    }
    copied = _copied(large, layout, work, watch)
    return [
        unit
        for number, path in files.items()
        for unit in units_of(path, number, layout, work if number in copied else None)
    ]


def _needs_copy(path: Path, layout: RawLayout) -> bool:
    """Whether a raw file can be read in parts only as a copy."""
    return is_packed(path) or not is_utf8(layout.encoding)


def copy_again(units: Sequence[Unit], layout: RawLayout, work: Path, watch: Callable[[float], None]) -> None:
    """Make the copies of files that units are parts of, and that are not there any more.

    Raises ``OSError`` if there is no room.
    """
    parts = [unit for unit in units if unit.unpacked]
    copied = _copied({unit.file: Path(unit.path) for unit in parts}, layout, work, watch)
    if lacking := next((unit for unit in parts if unit.file not in copied), None):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source_of(work, lacking)))


def remove_copies(work: Path) -> None:
    """Remove the copies of files, all units of which are parsed."""
    for left in work.glob("*.unpacked*"):
        left.unlink()


def units_of(path: Path, number: int, layout: RawLayout, work: Path | None = None) -> list[Unit]:
    """Divide a raw file, which has a number, into units; ``work``: folder with its copy, if there is one."""
    whole = Unit(_name(number, 0), str(path), number, unpacked=work is not None)
    source = path if work is None else source_of(work, whole)
    whole_only = work is None and _needs_copy(path, layout)
    begins = [0] if whole_only else part_begins(source, layout_of(whole, layout), _BACK)
    parts, before = [(0, 0)], 0
    for begin in begins:
        if begin >= parts[-1][1] + PART_BYTES:
            parts.append((before, begin))
        before = begin
    size = source.stat().st_size
    ends: list[int | None] = [*(begin for _, begin in parts[1:]), None]
    return [
        Unit(
            _name(number, part), str(path), number, part, begin, end, (size if end is None else end) - begin, before,
            whole.unpacked,
        )
        for part, ((before, begin), end) in enumerate(zip(parts, ends, strict=True))
    ]  # fmt: skip


def likely_lines(units: Sequence[Unit], layout: RawLayout, work: Path) -> dict[Unit, float]:
    """Number of lines that each unit seems to have; the longest come first, so that none begins when all others end."""
    sources = {source_of(work, unit): layout_of(unit, layout) for unit in units}
    density = {path: likely_rows(path, each) / max(path.stat().st_size, 1) for path, each in sources.items()}
    lines = {unit: density[source_of(work, unit)] * unit.size for unit in units}
    return dict(sorted(lines.items(), key=lambda pair: -pair[1]))


def text_bytes(path: Path) -> float:
    """Number of bytes that a file has, or seems to have once it is unpacked."""
    return path.stat().st_size * (unpacking(path) if is_packed(path) else 1.0)


def _name(number: int, part: int) -> str:
    return f"rows-{number:05}-{part:05}"


class _Copying:
    """How far the copies are."""

    def __init__(self, total: float) -> None:
        self.ended = False  # whether nobody wants them any more
        self._total = max(total, 1.0)  # bytes that they seem to get
        self._done: dict[int, int] = {}  # number of a file to bytes of its copy

    def note(self, number: int, size: int) -> None:
        if self.ended:
            raise _EndedError
        self._done[number] = self._done.get(number, 0) + size

    @property
    def share(self) -> float:
        return min(sum(self._done.values()) / self._total, 1.0)


class _EndedError(Exception):
    """A copy that nobody wants any more."""


def _copied(files: Mapping[int, Path], layout: RawLayout, work: Path, watch: Callable[[float], None]) -> set[int]:
    """Make the copies of files that are not there; return the numbers of the files for which there was room."""
    if not files:
        return set()
    copying = _Copying(sum(map(text_bytes, files.values())))
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="unpack") as pool:
        coming = {number: pool.submit(_copy, path, number, layout, work, copying) for number, path in files.items()}
        try:
            while (so_far := wait(coming.values(), _LOOK, FIRST_EXCEPTION)).not_done:
                for each in so_far.done:
                    each.result()
                watch(copying.share)
            return {number for number, each in coming.items() if each.result()}
        except BaseException:
            copying.ended = True
            raise


def _copy(path: Path, number: int, layout: RawLayout, work: Path, copying: _Copying) -> bool:
    """Make the copy of a file; return whether there was room."""
    target = source_of(work, Unit(_name(number, 0), str(path), number, unpacked=True))
    if target.exists():
        return True
    unfinished = target.with_name(f"{target.name}.part")
    try:
        with unfinished.open("wb") as file:
            for piece in unpacked(path) if is_utf8(layout.encoding) else pieces(path, layout.encoding):
                file.write(piece)
                copying.note(number, len(piece))
        unfinished.replace(target)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)  # makes room
        if isinstance(error, OSError) and has_no_room(error):
            return False
        raise
    return True
