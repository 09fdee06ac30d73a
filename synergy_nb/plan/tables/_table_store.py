"""The folder in which this machine keeps tables that streams look up, each as a file named by the hash of its content.

The processes of peers share the folder: whoever submits a plan puts its tables there, and each process maps the file
that it needs into its memory. ``SYNERGY_TABLES`` names another folder, such as one that several machines share.

There are at most ``MOST`` files of ``ROOM`` bytes together, and none that was not used for ``KEPT`` seconds; those that
were used longest ago go first. Peers mark the tables of their applications as used every minute, so what was used
within ``FRESH`` seconds stays: where there is no room beside these, a new one is refused.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

import polars as pl

__all__ = ["is_file", "keep_table", "kept_file", "kept_table"]

MOST: Final = 1024  # tables that are kept
ROOM: Final = 16 << 30  # bytes of these
KEPT: Final = 30 * 86_400.0  # seconds for which a table is kept that nobody uses
FRESH: Final = 300.0  # seconds since its last use within which a table is not removed
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
    try:
        _make_room(folder)
    except OSError:
        file.unlink(missing_ok=True)
        raise


def kept_table(content: str) -> pl.DataFrame | None:
    """Return the table with that content, mapped into memory; None if this machine has none."""
    file = kept_file(content)
    return None if file is None else pl.read_ipc(file)


def kept_file(content: str) -> Path | None:
    """Return the file with the table of that content; None if this machine has none."""
    file = _folder() / f"{content}.arrow"
    return file if _used(file) else None


def is_file(content: str) -> bool:
    """Whether this machine has the table with that content, without a use of it."""
    return (_folder() / f"{content}.arrow").exists()


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
    """Remove what was used longest ago, if there is too much; ``OSError`` if what may go is too little."""
    found = []
    for file in folder.glob("*.arrow"):
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            state = file.stat()
            found.append((state.st_mtime, state.st_size, file))
    now, number, size = max(found)[0], len(found), sum(each[1] for each in found)  # the last one was just written
    for used, its, file in sorted(found):
        idle = now - used
        if idle < KEPT and number <= MOST and size <= ROOM:
            return
        if idle < FRESH:
            break
        file.unlink(missing_ok=True)
        number, size = number - 1, size - its
    if number > MOST or size > ROOM:
        raise OSError(
            errno.ENOSPC,
            f"{folder} has {number} tables of {size} bytes, all in use; expected at most {MOST} of {ROOM} bytes",
        )
