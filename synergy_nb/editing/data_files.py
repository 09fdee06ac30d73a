"""Files that an editor offers as sources: what a folder holds, and what a file is as the fields of a source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from synergy_nb.editing.operations import EditError
from synergy_nb.plan import Problem
from synergy_nb.plan.operators.sources import TIME_NAMES
from synergy_nb.plan.terms.units import counted

__all__ = ["FileFields", "Folder", "allowed_folders", "check_file", "file_fields", "folder_contents"]

MOST_ENTRIES: Final = 500  # folders, and files, of a folder that are listed
_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".dat", ".data", ".log", ".parquet", ".pq")
_PACKED: Final = ".gz"


class Folder(NamedTuple):
    """What a folder holds."""

    path: str  # path of the folder: relative to the current directory if it is in there, else absolute
    parent: str  # path of the folder around it; empty if there is none
    folders: list[str]  # names of the folders in it
    files: list[tuple[str, str]]  # name and size in words of each file that may be a trace
    note: str  # sentence about what is not listed; otherwise empty


class FileFields(NamedTuple):
    """Fields of a source that reads a file, from the beginning of the file."""

    # path, format: path as a plan states it, and format of the file
    path: str
    format: str
    columns: dict[str, str]  # columns with the types that they seem to have; empty where the format has fixed columns
    time: str  # column with the event time; empty where the format has one, or none was found
    times: list[str]  # columns that hold times
    encoding: str  # encoding of the text; empty: UTF-8, or none
    note: str  # sentence for people: what was read, and what is still to choose


def allowed_folders(folders: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the real paths of the folders that an editor may list.

    Raises ``EditError`` if one is no folder, or there is none.
    """
    if isinstance(folders, str | Path) or not folders:
        raise EditError([Problem("", "folders", str(folders), "a list of folders")])
    for folder in folders:
        if not Path(folder).expanduser().is_dir():
            raise EditError([Problem("", "folders", str(folder), "a folder that exists")])
    return tuple(Path(folder).expanduser().resolve() for folder in folders)


def _check_allowed(path: Path, allowed: Sequence[Path]) -> None:
    """Raise an ``EditError`` if a path, with links followed, is in none of the folders, where any are named."""
    if allowed and not any(path.resolve().is_relative_to(each) for each in allowed):
        expected = f"a path in {' or '.join(map(_stated, allowed))}, the folders of this editor"
        raise EditError([Problem("", "path", str(path), expected)])


def folder_contents(path: str = "", allowed: Sequence[Path] = ()) -> Folder:
    """List a folder; hidden entries, and files of other kinds than traces, are left out.

    ``path``: path of the folder; empty: the current directory, where relative paths of plans start, or the first one
    that is allowed; ``allowed``: folders of which one has to contain it; none: any may be listed.

    Raises ``EditError`` if it is no folder, or cannot be read, or is not allowed.
    """
    folder = Path(path or ".")
    if not path and allowed and not any(Path.cwd().resolve().is_relative_to(each) for each in allowed):
        folder = allowed[0]
    _check_allowed(folder, allowed)
    try:
        with os.scandir(folder) as entries:
            found = sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)
        folders = [each.name for each in found if each.is_dir()]
        files = [(each.name, _size(each.stat().st_size)) for each in found if _is_trace(each.name) and each.is_file()]
    except OSError as error:
        raise EditError([Problem("", "path", str(folder), f"a folder that can be read ({error.strerror})")]) from None
    left = max(len(folders) - MOST_ENTRIES, 0) + max(len(files) - MOST_ENTRIES, 0)
    note = f"{counted(left, 'more entry', 'more entries')} not listed: type the path" if left else ""
    whole = folder.resolve()
    ends = whole.parent == whole or (allowed and not any(whole.parent.is_relative_to(each) for each in allowed))
    parent = "" if ends else _stated(whole.parent)
    return Folder(_stated(whole), parent, folders[:MOST_ENTRIES], files[:MOST_ENTRIES], note)


def file_fields(path: str, encoding: str = "", allowed: Sequence[Path] = ()) -> FileFields:
    """Read the beginning of a file, and say how a source reads it.

    ``encoding``: encoding that the source states; empty if it states none; ``allowed``: as of :func:`folder_contents`.

    Raises ``EditError`` if ``path`` is empty or not allowed; ``ValueError`` if the file cannot be read, or has no known
    format.
    """
    from synergy_nb.traces.headers import header_of  # noqa: PLC0415 - only files need Polars
    from synergy_nb.traces.text_files import UTF8  # noqa: PLC0415 - likewise

    file = check_file(path, allowed)
    header = header_of(file, encoding or UTF8)
    stated, found = _stated(file.resolve()), "" if header.encoding == UTF8 else header.encoding
    text = f" Its text is read as {found}: look at the names in it." if found else ""
    if header.fixed:
        return FileFields(stated, header.format, {}, "", [], found, f"{file.name}: format {header.format}.{text}")
    usual = [name for name in TIME_NAMES if name in header.columns]
    times = [name for name, kind in header.columns.items() if kind == "time"]
    clock = next(iter([*usual, *times]), "")
    columns = {name: "time" if name == clock else kind for name, kind in header.columns.items()}
    read = f"{file.name}: {counted(len(columns), 'column')}, types from the first rows"
    others = [name for name in times if name != clock]
    if not clock:
        note = f"{read}. No column holds times: choose the one with the event time, which may hold seconds."
    else:
        also = f"; {', '.join(others)} {'holds' if len(others) == 1 else 'hold'} times, too" if others else ""
        note = f"{read}. Event time: {clock}{also}."
    return FileFields(stated, header.format, columns, clock, times, found, note + text)


def check_file(path: str, allowed: Sequence[Path] = ()) -> Path:
    """Return the path of a file that is there and can be read; ``allowed``: as of :func:`folder_contents`.

    Raises ``EditError`` if ``path`` is empty or not allowed; ``ValueError`` if there is no such file.
    """
    from synergy_nb.traces.text_files import head  # noqa: PLC0415 - only files need Polars

    if not path.strip():
        raise EditError([Problem("", "path", path, "the path of a file")])
    file = Path(path.strip()).expanduser()
    _check_allowed(file, allowed)
    head(file)
    return file


def _is_trace(name: str) -> bool:
    return name.lower().removesuffix(_PACKED).endswith(_SUFFIXES)


def _stated(path: Path) -> str:
    """A path as a plan states it: relative to the current directory if it is in there."""
    here = Path.cwd().resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _size(size: int) -> str:
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return f"{size / limit:.3g} {unit}"
    return counted(size, "byte")
