"""Files of models: the checksum with which a function is declared, and whether the same file is on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["checksum", "wrong_file"]


def checksum(file: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal digits.

    Raises ``OSError`` if it cannot be read.
    """
    with Path(file).open("rb") as read:
        return hashlib.file_digest(read, "sha256").hexdigest()


def wrong_file(file: str, sha256: str) -> str:
    """Say why the file at a path is not the one with a checksum; empty if it is."""
    expected = f"expected the file that was declared, with the checksum {sha256[:12]}..."
    try:
        found = checksum(file)
    except OSError as error:
        return f"file: {file!r} cannot be read: {error.strerror or error}; {expected}"
    return "" if found == sha256 else f"file: {file!r}: {found[:12]}...; {expected}"
