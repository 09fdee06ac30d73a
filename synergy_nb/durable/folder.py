"""A durable folder: its format, its applications and their files, and who may write to it.

    FOLDER/FORMAT             says what the folder is, and in which version
    FOLDER/ID/application     the plan of an application, and how it was submitted
    FOLDER/ID/content-NUMBER  functions and tables that the plan only names
    FOLDER/ID/...             what each component has emitted, and its snapshots (:mod:`.component_files`)
    FOLDER/ID/spark/NAME      what Spark keeps of a query, in folders of its own making

It is a folder of the system (:mod:`._disk_place`), or one in an object store (:mod:`._object_place`). Whatever is not
as Synergy writes it is refused by a sentence, and left as it is.
"""

from __future__ import annotations

import os
import shutil
import struct
import threading
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from synergy_nb.durable._disk_files import DiskFiles
from synergy_nb.durable._disk_place import UNMARKED, DiskPlace
from synergy_nb.durable._object_place import ObjectPlace
from synergy_nb.durable._objects import STORES
from synergy_nb.durable._places import Claimant, DurablePlace
from synergy_nb.durable.component_files import EVERY, Files, operators_of
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.records import DurableError, check_records, unmarked_end
from synergy_nb.durable.writing import fence
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.naming import folder_name

__all__ = ["DurableFolder", "KeptApplication"]

T = TypeVar("T")
FORMAT: Final = "FORMAT"
APPLICATION: Final = "application"
CONTENT: Final = "content-"
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

    def __init__(
        self,
        path: str | os.PathLike[str] | ObjectPlace,
        disk: Disk | None = None,  # steps by which files of a folder of this system are written
        claimant: Claimant | None = None,  # program that starts a cluster with it; None: none does
    ) -> None:
        """Raise ``DurableError`` if it is no path of a folder of this system, and of no object store that is known."""
        self._place = (
            path if isinstance(path, ObjectPlace) else _place(path, Disk() if disk is None else disk, claimant)
        )
        self.where = self._place.where  # the folder, as users write it
        self.least_write = self._place.least_write  # bytes for which a write to a file of a component counts at least
        self._changing = threading.Lock()  # lock of the thread that changes what is there of an application

    def _wrong(self, what: str) -> DurableError:
        return DurableError(f"durable: {self.where!r}: {what}")

    def _refused(self, error: OSError, expected: str) -> DurableError:
        return self._wrong(f"{error.strerror or error}; expected {expected}")

    # -- its format ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder, unless it is one of this format.

        Raises ``DurableError`` if it is something else, or cannot be made.
        """
        try:
            self._place.make()
            if self._place.is_empty(FORMAT):
                self._place.put(FORMAT, f"{self._place.formats[-1]}\n".encode())
        except OSError as error:
            raise self._refused(error, "a folder that exists or can be made, and be written to") from None
        self.check()

    def check(self) -> None:
        """Raise ``DurableError`` unless the folder is there, and of a known format."""
        self._format()

    def upgrade(self) -> None:
        """Be a folder of this version: the peers that are started now write as it does.

        Raises ``DurableError`` if a file of a component is damaged, or if the disk takes nothing.
        """
        if self._format() == self._place.formats[-1]:
            return
        try:
            for each in self.applications():
                files = self.files(each.id)
                assert isinstance(files, DiskFiles), "no earlier version wrote anywhere else"
                for name in files.names():
                    end = unmarked_end(files.read(name), name)
                    if end is not None:  # else damage of its beginning would be taken for what the disk never held
                        files.close_off(name, end)
            self._place.put(FORMAT, f"{self._place.formats[-1]}\n".encode())
        except OSError as error:
            raise self._refused(error, "a folder that can be written to") from None

    def _format(self) -> str:
        *earlier, latest = self._place.formats
        try:
            found = self._place.read(FORMAT).decode("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise self._wrong(f"it has no readable file {FORMAT}; expected a durable folder or an empty one") from None
        if found not in self._place.formats:
            said = found.splitlines()[0][:80] if found else "nothing"
            raise self._wrong(f"{FORMAT} says {said!r}; expected {latest!r}{' or an earlier one' if earlier else ''}")
        return found

    def check_there(self) -> None:
        """Raise ``OSError`` if the folder is not there any more."""
        self._place.read(FORMAT)

    # -- who writes to it ------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Be the only program with a cluster that writes to the folder, until it ends or lets go.

        Raises ``DurableError`` if another one has it.
        """
        if not self._locked(self._place.lock):
            raise self._wrong("another cluster uses it; expected one at a time")

    @property
    def is_quiet(self) -> bool:
        """Whether no peer is known to write to the folder, once it is locked; those of a dead program end soon."""
        return self._locked(self._place.is_quiet)

    def check_quiet(self) -> None:
        """Raise ``DurableError`` unless no peer is known to write to the folder."""
        if not self.is_quiet:
            raise self._wrong("peers of an earlier cluster still write to it; expected that they have ended")

    def lock_as_peer(self) -> None:
        """Note that this process writes to the folder until it ends.

        Raises ``DurableError`` if the folder is not there, or of another format.
        """
        self.check()
        if not self._locked(self._place.lock_as_peer):
            raise self._wrong("another cluster begins to use it; expected one at a time")

    def _locked(self, step: Callable[[], bool]) -> bool:
        try:
            return step()
        except OSError as error:
            raise self._refused(error, "a folder whose files can be locked") from None

    def shut_out(self, application: str, epoch: int) -> None:
        """Have no late peer of an earlier cluster be answered any more for an application that goes on in an epoch.

        Raises ``OSError`` if the place does not take that.
        """
        if not self._place.waits_for_peers:
            fence(self.files(application), {EVERY: epoch})

    def unlock(self) -> None:
        """Let go of the folder."""
        self._place.unlock()

    # -- its applications ------------------------------------------------------------------------------------------

    def _at(self, application: str) -> str:
        return folder_name(application, MOST_LETTERS)

    def files(self, application: str) -> Files:
        """Return the files of the components of an application."""
        return self._place.files(self._at(application))

    def check_engines(self, plan: Plan) -> None:
        """Raise ``DurableError`` if an operator of a plan could keep nothing here."""
        for name, operator in plan.operators.items():
            if operator.engine == "spark" and self._place.checkpoints("") is None:
                raise DurableError(
                    f"operator {name!r}: engine: 'spark'; expected 'peer', as Spark keeps no checkpoints "
                    f"in {self.where!r}"
                )

    def checkpoints(self, application: str) -> Path:
        """Return where Spark keeps the checkpoints of the queries of an application, each in a folder of its own.

        Raises ``DurableError`` if it can keep none here.
        """
        found = self._place.checkpoints(self._at(application))
        if found is None:
            raise self._wrong("Spark keeps no checkpoints there; expected a folder of this system")
        return found

    def keep(self, application: KeptApplication, contents: dict[str, bytes]) -> None:
        """Keep an application from now on, or note how it is started now.

        ``contents``: functions and tables that its plan only names, by the components that need them.

        Raises ``OSError`` if the disk does not take it, or a later cluster uses the folder.
        """
        self._check_ours()
        at = self._at(application.id)
        self._place.make_folder(at)
        # numbers that none of it has: what is there belongs to the plan that goes on if this is interrupted
        first = 1 + max((int(name.removeprefix(CONTENT)) for name in application.contents.values()), default=-1)
        named = {each: f"{CONTENT}{number}" for number, each in enumerate(sorted(contents), first)}
        for component, name in named.items():
            self._place.put(f"{at}/{name}", _checked(contents[component]))
        self._note(msgspec.structs.replace(application, contents={**application.contents, **named}))

    def accept(self, application: str) -> None:
        """Note that the peers have accepted an application, unless it has ended since.

        Raises ``OSError`` if the disk does not take it, or a later cluster uses the folder.
        """
        self._check_ours()
        with self._changing:
            known = self.application(application)
            if known is not None and not known.decided:
                self._note(msgspec.structs.replace(known, decided=True))

    def _note(self, application: KeptApplication) -> None:
        data = _checked(msgspec.msgpack.encode(application))
        self._place.put(f"{self._at(application.id)}/{APPLICATION}", data)

    def _check_ours(self) -> None:
        if not self._place.is_ours():
            raise OSError(f"{self.where}: a later cluster uses it")

    def drop(self, application: str) -> None:
        """Forget an application that has ended, unless a later cluster uses the folder."""
        with self._changing:
            if self._place.is_ours():
                self._place.remove_folder(self._at(application), APPLICATION)

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
            if not self._place.has(f"{at}/{APPLICATION}"):
                self._place.remove_folder(at)

    def clean(self) -> None:
        """Remove what is left of applications that have ended, and what nobody has to be kept from writing any more.

        Only before this cluster writes to the folder.
        """
        for at in self._place.folders():
            if self._place.has(f"{at}/{APPLICATION}"):
                self._place.clean(at)
            else:
                self._place.remove_folder(at)

    def has(self, application: str) -> bool:
        """Whether there is anything of an application, damaged or not."""
        return self._place.has(self._at(application))

    def application(self, application: str) -> KeptApplication | None:
        """Return an application; None if there is none of that id. Raises ``DurableError`` if it is damaged."""
        at = f"{self._at(application)}/{APPLICATION}"
        if not self._place.has(at):
            return None
        return self._read(at, lambda data: msgspec.msgpack.decode(data, type=KeptApplication))

    def applications(self) -> list[KeptApplication]:
        """Return the applications that have not ended, the earliest first.

        Raises ``DurableError`` if one is damaged.
        """
        found = map(self.application, self._place.folders())
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

    def has_begun(self, application: KeptApplication) -> bool:
        """Whether peers have accepted an application, or may have emitted something of it."""
        files = self.files(application.id)
        return application.decided or bool(files.names()) or any(files.fences().values())

    def content(self, application: KeptApplication, component: str) -> bytes:
        """Return a function or a table of an application; raises ``DurableError`` if it is damaged."""
        return self._read(f"{self._at(application.id)}/{application.contents[component]}", lambda data: data)

    def check_application(self, application: str) -> None:
        """Raise ``DurableError`` if a file of a component is damaged."""
        files, marked = self.files(application), self._format() != UNMARKED
        for name in files.names():
            try:
                check_records(files.read(name), name, marked=marked)
            except DurableError as error:
                raise self._wrong(f"{application}: {error}") from None

    def _read(self, name: str, decode: Callable[[bytes], T]) -> T:
        try:
            data = self._place.read(name)
            if len(data) < _CHECK.size or _CHECK.unpack_from(data)[0] != zlib.crc32(data[_CHECK.size :]):
                raise ValueError("it has another checksum than it states")
            return decode(data[_CHECK.size :])
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            what = "expected a file that only Synergy has written: it was damaged"
            raise self._wrong(f"{name}: {error}; {what}") from None


def _place(path: str | os.PathLike[str], disk: Disk, claimant: Claimant | None) -> DurablePlace:
    """Return the place of a folder; raises ``DurableError`` if it is none in which one can be."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise DurableError(f"durable: {path!r}; expected the path of a folder")
    scheme, found, rest = path.partition("://") if isinstance(path, str) else ("", "", "")
    if found and scheme in STORES:
        return ObjectPlace(str(path), None, claimant)
    if found and (scheme != "file" or not rest.startswith("/")):
        raise DurableError(
            f"durable: {path!r}; expected a folder of this system or of an object store ({', '.join(sorted(STORES))}), "
            "as no other place keeps a second cluster from writing to it"
        )
    return DiskPlace(Path(rest if found else path).absolute(), disk)


def _checked(data: bytes) -> bytes:
    return _CHECK.pack(zlib.crc32(data)) + data
