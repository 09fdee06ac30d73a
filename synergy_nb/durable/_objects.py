"""The objects of an object store below one prefix: written whole, seen by all at once, created by one alone.

These stores list an object as soon as it is written, and create one only if there is none of that name, in one step.
That is all that :mod:`._object_files` and :mod:`._object_place` rely on. The file systems of fsspec do so for the
stores in :data:`STORES`; for others, fsspec looks first, and writes then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import fsspec

__all__ = ["STORES", "Objects"]

T = TypeVar("T")
STORES: Final = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}
"""Schemes of the stores, and the package that reads and writes each."""


class Objects:
    """Objects by name. All methods raise ``OSError`` if the store refuses or cannot be reached; for any thread."""

    def __init__(self, url: str, system: Any = None) -> None:
        """``url``: URL of the prefix; ``system``: file system of fsspec, instead of that of the URL.

        Raises ``ImportError`` if the package of the store is missing.
        """
        if system is None:  # one of its own, which keeps no listings
            system, _ = fsspec.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
        self._system = system
        self._root = str(system._strip_protocol(url)).rstrip("/")

    def top(self) -> tuple[list[str], list[str]]:
        """Return the names of the objects, and those of the folders, that are at the top."""

        def found() -> list[dict[str, Any]]:
            self._system.invalidate_cache()
            return list(self._system.ls(self._root, detail=True))

        entries: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError):
            entries = [each for each in _asked(found) if each["name"].rstrip("/") != self._root]
        names: dict[bool, list[str]] = {True: [], False: []}
        for each in entries:
            names[each["type"] == "directory"].append(each["name"].rstrip("/").removeprefix(f"{self._root}/"))
        return sorted(names[False]), sorted(names[True])

    def has(self, name: str) -> bool:
        """Whether there is an object, or one in a folder."""

        def found() -> bool:
            self._system.invalidate_cache()
            return bool(self._system.exists(f"{self._root}/{name}"))

        return _asked(found)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all objects that begin with a prefix, which ends with ``/`` or is empty, in order."""
        at = f"{self._root}/{prefix}".rstrip("/")

        def found() -> list[str]:
            self._system.invalidate_cache()
            return sorted(self._system.find(at))

        with contextlib.suppress(FileNotFoundError):
            return [name.removeprefix(f"{self._root}/") for name in _asked(found)]
        return []

    def read(self, name: str) -> bytes:
        """Return an object. Raises ``FileNotFoundError`` if there is none."""
        return bytes(_asked(lambda: self._system.cat_file(f"{self._root}/{name}")))

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """Return objects, several of which are read at a time. Raises ``FileNotFoundError`` if one is not there."""
        paths = [f"{self._root}/{name}" for name in names]
        found = _asked(lambda: self._system.cat(paths, on_error="raise") if paths else {})
        return [bytes(found[path]) for path in paths]

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one of that name."""
        with _no_parent():
            _asked(lambda: self._system.pipe_file(f"{self._root}/{name}", data))

    def create(self, name: str, data: bytes) -> bool:
        """Write an object, unless there is one of that name; return whether it is there now as it is given.

        The answer to a write may be lost, and the write be made again: so one that is there, and is the same, counts.
        """
        try:
            with _no_parent():
                _asked(lambda: self._system.pipe_file(f"{self._root}/{name}", data, mode="create"))
        except OSError as error:
            if not _says_that_it_is_there(error):
                raise
            return self.read(name) == data
        return True

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, if they are there."""
        paths = [f"{self._root}/{name}" for name in names]
        with contextlib.suppress(FileNotFoundError):
            _asked(lambda: self._system.rm(paths) if paths else None)


def _asked(step: Callable[[], T]) -> T:
    """Do something with a store; raise ``OSError`` whatever its package raises."""
    try:
        return step()
    except OSError:
        raise
    except Exception as error:  # packages pass on what their clients raise, which is of no common class
        raise OSError(f"{type(error).__name__}: {error}") from error


def _says_that_it_is_there(error: OSError) -> bool:
    """Whether a store has an object that was to be created.

    ``s3fs`` passes the answer of a store on as another error if that has the interface of S3, but does not say which of
    the conditions of a request was not met.
    """
    answer = getattr(error.__cause__, "response", None) or {}
    return isinstance(error, FileExistsError) or answer.get("Error", {}).get("Code") == "PreconditionFailed"


@contextlib.contextmanager
def _no_parent() -> Iterator[None]:
    """Tell a store that has no place for an object from an object that is not there."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(f"the store takes nothing there: {error}") from error
