"""The files that streaming queries of Spark have committed to a folder, in the order in which they committed them.

Spark's file sink gives a file its name before it is whole, and leaves it there if its micro-batch fails. Which files
count is in the log beside them, ``_spark_metadata``: one entry for each micro-batch, which Spark renames to its number
when it is whole. Each tenth repeats all before it, in their order, and Spark removes those in time. Names of files are
random; so a file's number is that of its first mention.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

__all__ = ["LOG", "CommittedFiles"]

LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"  # the first line of an entry
_ENTRY: Final = re.compile(r"(\d+)(\.compact)?")


class CommittedFiles:
    """The files of a folder that its log names."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log = folder, folder / LOG
        self._read = -1  # number of the last entry that was read
        self._files: dict[str, int] = {}  # their numbers, by name; -1 for one that has no rows, or was removed

    def refresh(self) -> bool:
        """Read what is new in the log; return whether there is one.

        Raises ``OSError`` if it cannot be read, ``ValueError`` if Spark has not written it.
        """
        try:
            names = [found for each in self._log.iterdir() if (found := _ENTRY.fullmatch(each.name))]
        except FileNotFoundError:
            return False
        entries = sorted((int(name[1]), name[2] is not None, name[0]) for name in names if int(name[1]) > self._read)
        whole = max((number for number, is_whole, _ in entries if is_whole), default=-1)
        for number, _, name in entries:
            if number >= whole:
                self._take(self._log / name)
                self._read = number
        return True

    @property
    def keys(self) -> list[list[int | str]]:
        """Number and name of each file, in their order."""
        return [[number, name] for name, number in self._files.items() if number >= 0]

    def number_of(self, name: str) -> int:
        """Number of a file from whose position a source goes on.

        Raises ``ValueError`` if the log does not name it.
        """
        if self._files.get(name, -1) < 0:
            expected = "the folder in which this source has read before"
            raise ValueError(f"path: {str(self._folder)!r}: {name!r} is not in {LOG} any more; expected {expected}")
        return self._files[name]

    def _take(self, path: Path) -> None:
        version, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        try:
            if version != _VERSION:
                raise ValueError
            stated = [_stated(json.loads(line)) for line in lines]
        except (ValueError, KeyError, TypeError):
            expected = f"an entry of Spark's file sink, which begins by {_VERSION!r}"
            raise ValueError(f"path: {str(path)!r}: begins by {version[:40]!r}; expected {expected}") from None
        for above, name, has_rows in stated:
            if "=" in above and above != self._folder.name:
                place, expected = f"path: {str(self._folder)!r}", "files of the folder itself, without partitionBy"
                raise ValueError(f"{place}: Spark writes to folders in it, such as {above!r}; expected {expected}")
            number = self._files.setdefault(name, len(self._files))
            self._files[name] = number if has_rows else -1


def _stated(entry: dict[str, Any]) -> tuple[str, str, bool]:
    """What an entry says of a file: its folder's name, its name, and whether it has rows that count.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` if it is no such entry.
    """
    above, name = (unquote(part) for part in ("/" + str(entry["path"])).split("/")[-2:])
    if "/" in name or name in {"", ".", ".."}:
        raise ValueError
    return above, name, entry["action"] == "add" and int(entry["size"]) > 0
