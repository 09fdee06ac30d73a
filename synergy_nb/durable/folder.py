"""A durable folder on a disk: its format, its applications and their files, and who may write to it.

    FOLDER/FORMAT             says what the folder is, and in which version
    FOLDER/lock               locked by the program that has started the cluster, as long as it lives
    FOLDER/writers            locked by each peer, likewise
    FOLDER/ID/application     the plan of an application, and how it was submitted
    FOLDER/ID/content-NUMBER  functions and tables that the plan only names
    FOLDER/ID/...             what each component has emitted, and its snapshots (:mod:`._component_files`)
    FOLDER/ID/spark/NAME      what Spark keeps of a query, in folders of its own making

Whatever is not as Synergy writes it is refused by a sentence, and left as it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from synergy_nb.durable._component_files import is_fence, operators_of
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.disk_files import DiskFiles
from synergy_nb.durable.records import DurableError, check_records, unmarked_end
from synergy_nb.plan.terms.naming import folder_name

__all__ = ["DurableFolder", "KeptApplication"]

T = TypeVar("T")
FORMAT: Final = "FORMAT"
KIND: Final = "synergy_nb durable folder, version "
VERSION: Final = 2
UNMARKED: Final = 1  # version without marks of what the disk holds
KNOWN: Final = (UNMARKED, VERSION)  # versions that are read
APPLICATION: Final = "application"
CONTENT: Final = "content-"
CHECKPOINTS: Final = "spark"
MOST_LETTERS: Final = 100  # of an id in the name of a folder, which has 255 bytes at most; its end tells ids apart
_CHECK: Final = struct.Struct(">I")


class KeptApplication(msgspec.Struct, frozen=True):
    """What a durable folder has of an application beside its rows and states."""

    id: str
    plan: bytes  # submitted plan, as `Plan.to_bytes()` makes it
    placement: str  # how its peers were found, see `Cluster.submit`
    submitted: float  # time of the submission, seconds
    epoch: int = 0  # epoch of its components when it was started last
    contents: dict[str, str] = {}  # component that needs a function or a table to the name of its file
    decided: bool = (
        True  # whether its peers have accepted it: if not, it is as one that is submitted for the first time
    )
    changes: int = 0  # number of changes of its plan that were begun
    before: bytes = b""  # plan of which this one took the place; some peers may have gone on with it. Empty: none


class DurableFolder:
    """A durable folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = DurableFolder(Path(tempfile.mkdtemp()) / "folder")
    >>> folder.prepare()
    >>> folder.keep(KeptApplication("app-1", b"plan", "composed", 0.0), {})
    >>> [each.id for each in folder.applications()], folder.files("app-1").names()
    (['app-1'], [])
    >>> folder.drop("app-1")
    >>> folder.applications()
    []
    """

    def __init__(self, path: str | os.PathLike[str], disk: Disk | None = None) -> None:
        """Raise ``DurableError`` if it is no path of a folder of this system; ``file://`` may be in front of one."""
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise DurableError(f"durable: {path!r}; expected the path of a folder")
        scheme, found, rest = path.partition("://") if isinstance(path, str) else ("", "", "")
        if found and (scheme != "file" or not rest.startswith("/")):
            raise DurableError(
                f"durable: {path!r}; expected a folder of this system, as no other place keeps a second cluster from "
                "writing to it"
            )
        self.path = Path(rest if found else path).absolute()
        self._locks: list[int] = []
        self._disk = Disk() if disk is None else disk
        self._changing = threading.Lock()  # lock of the thread that changes what is there of an application

    def _wrong(self, what: str) -> DurableError:
        return DurableError(f"durable: {str(self.path)!r}: {what}")

    # -- its format ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder, unless it is one of this format.

        Raises ``DurableError`` if it is something else, or cannot be made.
        """
        try:
            self._disk.make_folder(self.path.parent)
            if not self.path.is_dir():
                self.path.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(PermissionError):  # a folder that this one cannot read is not of its making
                self._disk.sync_folder(self.path.parent)
            if not any(each.name != f".{FORMAT}" for each in self.path.iterdir()):  # begun when the power failed
                self._put(self.path / FORMAT, f"{KIND}{VERSION}\n".encode())
        except OSError as error:
            expected = "a folder that exists or can be made, and be written to"
            raise self._wrong(f"{error.strerror}; expected {expected}") from None
        self.check()

    def check(self) -> None:
        """Raise ``DurableError`` unless the folder is there, and of a known format."""
        self._version()

    def upgrade(self) -> None:
        """Be a folder of this version: the peers that are started now write as it does.

        Raises ``DurableError`` if a file of a component is damaged, or if the disk takes nothing.
        """
        if self._version() == VERSION:
            return
        try:
            for each in self.applications():
                files = self.files(each.id)
                for name in files.names():
                    end = unmarked_end(files.read(name), name)
                    if end is not None:  # else damage of its beginning would be taken for what the disk never held
                        files.close_off(name, end)
            self._put(self.path / FORMAT, f"{KIND}{VERSION}\n".encode())
        except OSError as error:
            raise self._wrong(f"{error.strerror}; expected a folder that can be written to") from None

    def _version(self) -> int:
        try:
            text = (self.path / FORMAT).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise self._wrong(f"it has no readable file {FORMAT}; expected a durable folder or an empty one") from None
        for each in KNOWN:
            if text == f"{KIND}{each}\n":
                return each
        found = text.strip().splitlines()[0][:80] if text.strip() else "nothing"
        raise self._wrong(f"{FORMAT} says {found!r}; expected {KIND + str(VERSION)!r} or an earlier one")

    def check_there(self) -> None:
        """Raise ``OSError`` if the folder is not there any more."""
        (self.path / FORMAT).stat()

    # -- who writes to it ------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Be the only program with a cluster that writes to the folder, until it ends or lets go.

        Raises ``DurableError`` if another one has it.
        """
        if not self._lock("lock", exclusive=True):
            raise self._wrong("another cluster uses it; expected one at a time")

    @property
    def is_quiet(self) -> bool:
        """Whether no peer writes to the folder, once it is locked; those of a program that has died end soon."""
        quiet = self._lock("writers", exclusive=True)
        if quiet:
            os.close(self._locks.pop())  # the peers that are started now lock it
        return quiet

    def check_quiet(self) -> None:
        """Raise ``DurableError`` unless no peer writes to the folder."""
        if not self.is_quiet:
            raise self._wrong("peers of an earlier cluster still write to it; expected that they have ended")

    def lock_as_peer(self) -> None:
        """Note that this process writes to the folder until it ends.

        Raises ``DurableError`` if the folder is not there, or of another format.
        """
        self.check()
        if not self._lock("writers", exclusive=False):
            raise self._wrong("another cluster begins to use it; expected one at a time")

    def _lock(self, name: str, *, exclusive: bool) -> bool:
        try:
            opened = self._disk.lock(self.path / name, os.O_RDWR | os.O_CREAT, shared=not exclusive, mode=0o600)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._wrong(f"{name}: {error.strerror}; expected a folder whose files can be locked") from None
        self._locks.append(opened)
        return True

    def unlock(self) -> None:
        """Let go of the folder."""
        while self._locks:
            os.close(self._locks.pop())

    # -- its applications ------------------------------------------------------------------------------------------

    def _at(self, application: str) -> Path:
        return self.path / folder_name(application, MOST_LETTERS)

    def files(self, application: str) -> DiskFiles:
        """Return the files of the components of an application."""
        return DiskFiles(self._at(application), self._disk, self.checkpoints(application))

    def checkpoints(self, application: str) -> Path:
        """Return where Spark keeps the checkpoints of the queries of an application, each in a folder of its own."""
        return self._at(application) / CHECKPOINTS

    def keep(self, application: KeptApplication, contents: dict[str, bytes]) -> None:
        """Keep an application from now on, or note how it is started now.

        ``contents``: functions and tables that its plan only names, by the components that need them.

        Raises ``OSError`` if the disk does not take it.
        """
        at = self._at(application.id)
        at.mkdir(mode=0o700, exist_ok=True)
        self._disk.sync_folder(self.path)
        # numbers that none of it has: what is there belongs to the plan that goes on if this is interrupted
        first = 1 + max((int(name.removeprefix(CONTENT)) for name in application.contents.values()), default=-1)
        named = {each: f"{CONTENT}{number}" for number, each in enumerate(sorted(contents), first)}
        for component, name in named.items():
            self._put(at / name, _checked(contents[component]))
        kept = msgspec.structs.replace(application, contents={**application.contents, **named})
        self._put(at / APPLICATION, _checked(msgspec.msgpack.encode(kept)))

    def accept(self, application: str) -> None:
        """Note that the peers have accepted an application, unless it has ended since."""
        with self._changing:
            known = self.application(application)
            if known is not None and not known.decided:
                self._put(
                    self._at(application) / APPLICATION,
                    _checked(msgspec.msgpack.encode(msgspec.structs.replace(known, decided=True))),
                )

    def _put(self, path: Path, data: bytes) -> None:
        self._disk.replace(path, data, 0o600)

    def drop(self, application: str) -> None:
        """Forget an application that has ended."""
        at = self._at(application)
        with self._changing:
            self._disk.remove(at / APPLICATION)
            with contextlib.suppress(FileNotFoundError):
                self._disk.sync_folder(at)  # so that it never comes back without its rows
            shutil.rmtree(at, ignore_errors=True)

    def keep_checkpoints(self, application: str, kept: Collection[Path]) -> None:
        """Remove the checkpoints of an application but some, with the folders of their queries.

        Only before the application is started.
        """
        within = self.checkpoints(application)
        named = {each.relative_to(within).parts[0] for each in kept if each.is_relative_to(within)}
        for at in within.iterdir() if within.exists() else ():
            if at.name not in named:
                shutil.rmtree(at, ignore_errors=True)

    def clear_ended(self, application: str) -> None:
        """Remove what was written of an application after it was forgotten, as by a query that ended later."""
        at = self._at(application)
        with self._changing:
            if not (at / APPLICATION).exists():
                shutil.rmtree(at, ignore_errors=True)

    def clean(self) -> None:
        """Remove what is left of applications that have ended, and what nobody has to be kept from writing any more.

        Only while nobody else writes to the folder.
        """
        for at in [each for each in self.path.iterdir() if each.is_dir()]:
            if not (at / APPLICATION).exists():
                shutil.rmtree(at, ignore_errors=True)
                continue
            for name in filter(is_fence, DiskFiles(at, self._disk).names()):
                self._disk.remove(at / name)

    def has(self, application: str) -> bool:
        """Whether there is anything of an application, damaged or not."""
        return self._at(application).exists()

    def application(self, application: str) -> KeptApplication | None:
        """Return an application; None if there is none of that id. Raises ``DurableError`` if it is damaged."""
        at = self._at(application) / APPLICATION
        if not at.exists():
            return None
        return self._read(at, lambda data: msgspec.msgpack.decode(data, type=KeptApplication))

    def applications(self) -> list[KeptApplication]:
        """Return the applications that have not ended, the earliest first.

        Raises ``DurableError`` if one is damaged.
        """
        found = (self.application(at.name) for at in self.path.iterdir() if at.is_dir())
        return sorted((each for each in found if each is not None), key=lambda each: each.submitted)

    def forget_others(self, application: str, operators: Collection[str]) -> None:
        """Remove the files of operators that its plan has no more; only before the application is started."""
        files = self.files(application)
        for name in files.names():
            if not operators_of([name]) <= {*operators}:
                files.remove(name)

    def operators(self, application: str) -> set[str]:
        """Return the operators of an application that have files, also those that its plan has no more."""
        return operators_of(self.files(application).names())

    def content(self, application: KeptApplication, component: str) -> bytes:
        """Return a function or a table of an application; raises ``DurableError`` if it is damaged."""
        return self._read(self._at(application.id) / application.contents[component], lambda data: data)

    def check_application(self, application: str) -> None:
        """Raise ``DurableError`` if a file of a component is damaged."""
        files, marked = self.files(application), self._version() != UNMARKED
        for name in files.names():
            try:
                check_records(files.read(name), name, marked=marked)
            except DurableError as error:
                raise self._wrong(f"{application}: {error}") from None

    def _read(self, path: Path, decode: Callable[[bytes], T]) -> T:
        try:
            data = path.read_bytes()
            if len(data) < _CHECK.size or _CHECK.unpack_from(data)[0] != zlib.crc32(data[_CHECK.size :]):
                raise ValueError("it has another checksum than it states")
            return decode(data[_CHECK.size :])
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            name = path.relative_to(self.path)
            what = "expected a file that only Synergy has written: it was damaged"
            raise self._wrong(f"{name}: {error}; {what}") from None


def _checked(data: bytes) -> bytes:
    return _CHECK.pack(zlib.crc32(data)) + data
