"""The folder in which this machine keeps tables that streams look up, each as a file named by the hash of its content.

The processes of peers share the folder: whoever submits a plan puts its tables there, and each process maps the file
that it needs into its memory. ``SYNERGY_TABLES`` names another folder, such as one that several machines share.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

import polars as pl

__all__ = ["keep_table", "kept_file", "kept_table"]

MOST: Final = 256  # tables that are kept; the one that was used longest ago goes first
_VARIABLE: Final = "SYNERGY_TABLES"


def keep_table(content: str, table: pl.DataFrame) -> None:
    """Keep a table under the hash of its content, unless it is kept already."""
    folder = _folder()
    file = folder / f"{content}.arrow"
    if _used(file):
        return
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    os.close(handle)
    try:
        table.write_ipc(name, compat_level=pl.CompatLevel.newest())
        Path(name).replace(file)  # whole at once, as others may read it
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _make_room(folder)


def kept_table(content: str) -> pl.DataFrame | None:
    """Return the table with that content, mapped into memory; None if this machine has none."""
    file = kept_file(content)
    return None if file is None else pl.read_ipc(file)


def kept_file(content: str) -> Path | None:
    """Return the file with the table of that content; None if this machine has none."""
    file = _folder() / f"{content}.arrow"
    return file if _used(file) else None


def _folder() -> Path:
    """The folder, which no other user may write to."""
    named = os.environ.get(_VARIABLE)
    owner = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"synergy-tables-{owner}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not named and hasattr(os, "getuid") and (found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode)):
        raise PermissionError(f"{folder} belongs to somebody else; expected a folder of your own: set {_VARIABLE}")
    return folder


def _used(file: Path) -> bool:
    """Note that a file is used; return whether it exists."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True


def _make_room(folder: Path) -> None:
    """Remove the files that were used longest ago, if there are too many."""
    ages = []
    for file in folder.glob("*.arrow"):
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            ages.append((file.stat().st_mtime_ns, file))
    for _, file in sorted(ages)[:-MOST]:
        file.unlink(missing_ok=True)
