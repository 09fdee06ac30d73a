"""Where the credentials of running clusters lie, so that another notebook of the same user finds them.

The folder is its owner's alone (mode 0700), and so is each file in it (0600), which has the name of the address of a
scheduler. A folder or a file that others can read or write is not used. What a cluster has put there is removed when it
ends; what a killed one left behind is replaced when its address is used again, and opens nothing without its authority.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from synergy_nb.errors import SynergyError
from synergy_nb.runtime.identity.authority import Credentials

__all__ = ["CredentialError", "find", "folder", "keep", "read", "remove", "user_name", "write_new"]

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
VARIABLE: Final = "SYNERGY_CREDENTIALS"  # environment variable with another folder


class CredentialError(SynergyError, RuntimeError):
    """Credentials lie where others can read or change them, or are damaged."""


def folder() -> Path:
    """Return the folder of this user's credentials: that of the session if there is one, else that of states."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session and Path(session).is_dir():
        return Path(session) / "synergy"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "synergy" / "credentials"


def keep(scheduler: str, credentials: Credentials) -> Path:
    """Write credentials for the cluster of a scheduler, instead of earlier ones; return the file.

    Raises ``CredentialError`` if the folder is not the user's alone.
    """
    place = folder()
    place.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    _check(place, "folder")
    path = place / _name(scheduler)
    handle, written = tempfile.mkstemp(dir=place)  # mode 0600; whoever reads sees the old file or the new one
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(credentials.to_bytes())
        Path(written).replace(path)
    except BaseException:
        Path(written).unlink(missing_ok=True)
        raise
    return path


def find(scheduler: str) -> Credentials | None:
    """Return the credentials for the cluster of a scheduler; None if this user has none.

    Raises ``CredentialError`` if others can read or change them, or the file is damaged.
    """
    path = folder() / _name(scheduler)
    if not path.exists():
        return None
    _check(path.parent, "folder")
    _check(path, "file")
    try:
        return Credentials.from_bytes(path.read_bytes())
    except ValueError as error:
        raise CredentialError(f"credentials: {path} is damaged: {error}; remove it") from None


def write_new(file: str | os.PathLike[str], credentials: Credentials) -> None:
    """Write credentials to a new file that only this user can read.

    Raises ``FileExistsError`` if there is such a file.
    """
    with open(file, "xb", opener=partial(os.open, mode=PRIVATE_FILE)) as written:
        written.write(credentials.to_bytes())


def read(file: str | os.PathLike[str]) -> Credentials:
    """Return the credentials in a file.

    Raises ``CredentialError`` if there are none, or others can read or change them.
    """
    path = Path(file)
    try:
        _check(path, "file")
        return Credentials.from_bytes(path.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CredentialError(f"credentials: {path}: {why}; expected a file that Cluster.invite has written") from None


def remove(scheduler: str) -> None:
    """Remove the credentials for the cluster of a scheduler."""
    (folder() / _name(scheduler)).unlink(missing_ok=True)


def user_name() -> str:
    """Return the name of this user, with what a name in an identity may have."""
    try:
        found = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container whose user has no name
        found = ""
    return re.sub(r"[^A-Za-z0-9._-]", "-", found)[:64] or "owner"


def _name(scheduler: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "_", scheduler) + ".json"


def _check(path: Path, what: str) -> None:
    """Raise ``CredentialError`` if a file or a folder is not this user's alone."""
    if os.name == "nt":
        return  # the user's own folder, by its access list
    held = path.stat()
    expected = PRIVATE_FOLDER if what == "folder" else PRIVATE_FILE
    if held.st_uid != os.getuid():
        raise CredentialError(f"credentials: the {what} {path} belongs to another user; expected one of your own")
    if stat.S_IMODE(held.st_mode) & 0o077:
        raise CredentialError(
            f"credentials: the {what} {path} has mode {stat.S_IMODE(held.st_mode):04o}; "
            f"expected {expected:04o}, which only you can read: chmod {expected:04o} {path}"
        )
