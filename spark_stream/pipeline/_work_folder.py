"""The folder of a job: what it prepares and how, which of it is done, and who may write there.

`_manifest.json` says which raw files, of which sizes and times, are prepared with which settings. `_work` has what a
job needs to go on, and when it is done, what a later one needs that has more files: the counts of each raw file, of how
many rows each file of the result was made, and a survey of each day, of which the profile is made. Names that begin
with a low line are no data for readers of Parquet.

Raw files have numbers, by which equal times are ordered. A file keeps its number once rows of it may be in the result;
those that came later may still be replaced, as where one of them was refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from spark_stream.pipeline._results import Prepared
from spark_stream.pipeline._units import Unit, write_whole
from synergy_nb.durable.disk import Disk
from synergy_nb.traces.raw_files import RawLayout

MANIFEST: Final = "_manifest.json"
WORK: Final = "_work"
LOCK: Final = "lock"  # in `_work`
QUARANTINE: Final = "_quarantine"  # folder for the lines that were left out
UNITS: Final = "units.json"  # in `_work`: the units of the raw files
SURVEY: Final = ".survey"  # end of the names of surveys, in `_work`
WRITTEN: Final = "files.json"  # in `_work`: the files of the result that are written
_NUMBERED: Final = re.compile(r"rows-(\d+)-\d+\..*")  # name of a file of a unit


class RawFile(msgspec.Struct, frozen=True):
    """A raw file as it was when the job began."""

    path: str
    size: int  # bytes
    changed: int  # time of its last change, ns


class Manifest(msgspec.Struct, frozen=True):
    """What a job prepares and how, and what it has made if it is done."""

    files: list[RawFile]  # in the order of their numbers
    settings: dict[str, Any]
    layout: RawLayout
    kept: int = 0  # number of the first of them of which rows may be in the result
    prepared: Prepared | None = None


def raw_file(path: Path) -> RawFile:
    """Look at a raw file."""
    found = path.stat()
    return RawFile(str(path), found.st_size, found.st_mtime_ns)


def check_folder(folder: Path) -> None:
    """Raise ``ValueError`` if a folder can be no folder of a job, as it is a file, or holds other things."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out: {folder} is a file; expected a folder, which may be new")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        names = sorted(each.name for each in folder.iterdir() if each.name != WORK)
        if names:
            raise ValueError(f"out: {folder} holds other things, such as {names[0]!r}; expected a new or empty folder")


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[Path]:
    """Make the folder of work, and keep other jobs from it.

    Raises ``ValueError`` if it cannot be written, or another job writes there.
    """
    work = folder / WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = Disk().lock(work / LOCK, os.O_WRONLY | os.O_CREAT)
    except BlockingIOError:
        raise ValueError(f"out: another process prepares data in {folder}; expected one at a time") from None
    except OSError as error:
        raise ValueError(f"out: {folder}: {error.strerror}; expected a folder that can be written") from None
    try:
        yield work
    finally:
        os.close(lock)


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of the result."""

    start: int  # hour since 1970 at which its time begins
    hours: int  # length of its time: 1, or the 24 of a day
    rows: int
    of: int  # number of rows, with duplicates, of which it was made


def begun(folder: Path, settings: dict[str, Any]) -> Manifest | None:
    """Return the manifest of a folder; None: it has none, or one of other settings with which no data was written.

    Raises ``ValueError`` if the folder has data that were prepared with other settings.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, OSError):
        raise ValueError(f"out: {path} is damaged; expected the manifest of prepared data, or a new folder") from None
    for name, value in settings.items():
        if found.settings.get(name) != value:
            if not found.kept:
                return None
            raise ValueError(
                f"out: {folder} has data that was prepared with {name}={found.settings.get(name)!r}, not {value!r}; "
                "expected another folder"
            )
    return found


def numbered(folder: Path, found: Manifest, files: Sequence[RawFile], *, more: bool) -> list[RawFile]:
    """Return raw files in the order of their numbers: those that have one keep it, others follow.

    ``more``: whether the files are some beside those that the folder has rows of, which need not be named again.

    Raises ``ValueError`` if one of these was changed, or is not named.
    """
    kept, given = found.files[: found.kept], {each.path: each for each in files}
    for each in kept:
        why = ""
        if each.path not in given:
            why = "" if more else f"from {each.path}, too"
        elif given[each.path] != each:
            why = f"from {each.path} before it was changed"
        if why:
            raise ValueError(f"out: {folder} has data that was prepared {why}; expected another folder")
    known = {each.path for each in kept}
    stay = [each for each in found.files[found.kept :] if given.get(each.path) == each]
    return [*kept, *stay, *(each for each in files if each.path not in known and each not in stay)]


def renew(folder: Path, before: Manifest | None, manifest: Manifest) -> None:
    """Begin or go on in a folder of one's own (:func:`owned`), without what is left of files that are not wanted."""
    if before == manifest:
        return
    work, first = folder / WORK, 0
    if before is not None and before.layout == manifest.layout and before.settings == manifest.settings:
        same = (one == other for one, other in zip(before.files, manifest.files, strict=False))
        most = min(len(before.files), len(manifest.files))
        first = next((number for number, equal in enumerate(same) if not equal), most)
    for left in work.iterdir():
        named = _NUMBERED.fullmatch(left.name)
        if first and (named is None or int(named[1]) < first):
            continue
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != LOCK:
            left.unlink()
    if first:
        note_units(work, [unit for unit in noted_units(work) if unit.file < first])
    shutil.rmtree(folder / QUARANTINE, ignore_errors=True)
    write_manifest(folder, manifest)


def noted_units(work: Path) -> list[Unit]:
    """The units into which raw files were divided."""
    path = work / UNITS
    return msgspec.json.decode(path.read_bytes(), type=list[Unit]) if path.exists() else []


def note_units(work: Path, units: Sequence[Unit]) -> None:
    """Note into which units the raw files are divided."""
    write_whole(work / UNITS, msgspec.json.encode(units))


def written_files(work: Path) -> dict[str, WrittenFile]:
    """The files of the result that are written, by their paths in the folder."""
    path = work / WRITTEN
    return msgspec.json.decode(path.read_bytes(), type=dict[str, WrittenFile]) if path.exists() else {}


def note_written(work: Path, files: dict[str, WrittenFile]) -> None:
    """Note which files of the result are written."""
    write_whole(work / WRITTEN, msgspec.json.encode(files))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest, whole or not at all."""
    write_whole(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def finished(work: Path, surveys: Collection[Path]) -> None:
    """Remove what only this job has needed; ``surveys``: those that a later one needs."""
    for left in work.iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif left.suffix != ".json" and left.name != LOCK and left not in surveys:
            left.unlink()
