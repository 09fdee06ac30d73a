"""A durable folder in an object store, which has no locks, and does not tell whether who writes there still lives.

So one cluster at a time is found out in another way than on a disk. Each cluster has a *claim*: an object
``claim-NUMBER``, which only one can create, above all others. While its program lives, it writes its claim anew every
:data:`BEAT_S` seconds. A cluster that starts reads the last claim. If that has ended, or is of a program of this
machine that does not live, the cluster goes on at once; else only if the claim stays the same for :data:`LEASE_S`
seconds.

A program may be stopped for longer than that, and go on; no claim prevents that. It does no harm: the next cluster has
left a fence for each application before it read anything (:mod:`.writing`), so whoever is late is answered by nobody,
and passes no rows on. What is left to it is to note an application, or to forget one; it looks for a later claim first.
"""

from __future__ import annotations

import platform
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import psutil

from synergy_nb.durable.object_files import ObjectFiles
from synergy_nb.durable.objects import STORES, Objects
from synergy_nb.durable.records import DurableError

__all__ = ["ObjectPlace"]

BEAT_S: Final = 3.0  # seconds from one writing of a claim to the next
LEASE_S: Final = 15.0  # seconds for which a claim stays the same until another cluster begins
POLL_S: Final = 1.0  # seconds from one reading of a claim to the next
TOGETHER: Final = 16  # most objects that are written at a time
CLAIM: Final = "claim-"
LEAST: Final = 4 << 10  # bytes for which each write counts at least: so a file of 1 MiB has 256 objects at most


class _Claim(msgspec.Struct, frozen=True):
    """What a cluster says of itself."""

    token: str  # tells clusters apart
    machine: str  # machine on which its program is, since this was started
    process: int
    began: float  # time at which the process was started, seconds
    beats: int = 0  # how often it was written again
    ended: bool = False


class ObjectPlace:
    """A prefix in an object store. See :class:`~synergy_nb.durable._places.Place`."""

    formats: Final = ("synergy_nb durable objects, version 2",)
    least_write: Final = LEAST
    waits_for_peers: Final = False

    def __init__(
        self,
        url: str,
        objects: Objects | None = None,  # objects of the store; None: those below the URL
        wait: Callable[[float], object] = time.sleep,  # waits for seconds
    ) -> None:
        """Raise ``DurableError`` if the package of the store is missing, or the URL names no bucket."""
        scheme, _, path = url.partition("://")
        if not path.strip("/"):
            raise DurableError(f"durable: {url!r}; expected the name of a bucket after {scheme}://")
        try:
            self._objects = Objects(url) if objects is None else objects
        except ImportError:
            package = STORES[scheme]
            raise DurableError(f"durable: {url!r}; expected the package {package}: pip install {package}") from None
        self.where = url
        self._wait = wait
        self._executor = ThreadPoolExecutor(TOGETHER, thread_name_prefix="synergy objects")
        self._number = 0  # number of the claim of the cluster that this process belongs to; 0: of none
        self._claim: _Claim | None = None  # claim of this process
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    # -- objects ---------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Check, if there is nothing yet, that the store creates objects as it has to."""
        if any(self._objects.top()):
            return
        name = f"probe-{uuid.uuid4().hex}"
        try:
            if not self._objects.create(name, b"1") or self._objects.create(name, b"2"):
                raise OSError("the store creates an object that is there already")
            if name not in self._objects.top()[0]:
                raise OSError("the store does not list an object that was written")
        finally:
            self._objects.remove([name])

    def is_empty(self, but: str) -> bool:
        """Whether it has nothing; ``but`` is there as a whole, or not at all."""
        return not any(self._objects.top())

    def folders(self) -> list[str]:
        """Return the names of its folders."""
        return self._objects.top()[1]

    def has(self, name: str) -> bool:
        """Whether there is an object, or anything in a folder."""
        return self._objects.has(name)

    def read(self, name: str) -> bytes:
        """Return what an object contains. Raises ``FileNotFoundError`` if there is none."""
        return self._objects.read(name)

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self._objects.put(name, data)

    def make_folder(self, folder: str) -> None:
        """Do nothing: a folder is there with its first object."""

    def remove_folder(self, folder: str, first: str = "") -> None:
        """Remove a folder; the object ``first`` goes before all others."""
        if first:
            self._objects.remove([f"{folder}/{first}"])
        self._objects.remove(self._objects.names(f"{folder}/"))

    def files(self, folder: str) -> ObjectFiles:
        """Return the files of the components in a folder."""
        return ObjectFiles(self._objects, folder, self._executor)

    def checkpoints(self, folder: str) -> None:
        """Return None: Spark keeps its checkpoints in folders of the system."""

    def clean(self, folder: str) -> None:
        """Remove fences that later ones cover, and objects of files that are gone."""
        self.files(folder).clean()

    # -- claims ----------------------------------------------------------------------------------------------------

    def lock(self) -> bool:
        """Claim the place, and renew the claim from then on; False if another cluster has one."""
        number = self._latest()
        if number and not self._is_free(f"{CLAIM}{number:08}"):
            return False
        me = psutil.Process()
        claim = _Claim(uuid.uuid4().hex, _machine(), me.pid, me.create_time())
        if not self._objects.create(f"{CLAIM}{number + 1:08}", msgspec.json.encode(claim)):
            return False
        self._number, self._claim = number + 1, claim
        self._objects.remove([f"{CLAIM}{each:08}" for each in self._numbers() if each < self._number])
        self._over.clear()
        self._beating = threading.Thread(target=self._beat, name="synergy claim", daemon=True)
        self._beating.start()
        return True

    def _numbers(self) -> list[int]:
        found = (name.removeprefix(CLAIM) for name in self._objects.top()[0] if name.startswith(CLAIM))
        return sorted(int(each) for each in found if each.isdigit())

    def _latest(self) -> int:
        return max(self._numbers(), default=0)

    def _is_free(self, name: str) -> bool:
        """Whether the cluster of a claim has ended, or does not renew it."""
        first = self._read_claim(name)
        if first is None or first.ended:
            return True
        if first.machine == _machine():
            return not _lives(first)
        waited = 0.0
        while waited < LEASE_S:
            self._wait(POLL_S)
            waited += POLL_S
            now = self._read_claim(name)
            if now != first:
                return now is None or now.ended
        return True

    def _read_claim(self, name: str) -> _Claim | None:
        try:
            return msgspec.json.decode(self._objects.read(name), type=_Claim)
        except FileNotFoundError:  # a later cluster has removed it
            return None
        except msgspec.MsgspecError as error:
            raise OSError(f"{name}: {error}") from None

    def _beat(self) -> None:
        """Renew the claim, until another cluster has one, or this one lets go."""
        while not self._over.wait(BEAT_S):
            try:
                if not self.is_ours():
                    return
                self._renew(ended=False)
            except OSError:  # a store that is not there for the moment: nobody else can read the claim, either
                continue

    def _renew(self, *, ended: bool) -> None:
        assert self._claim is not None
        self._claim = msgspec.structs.replace(self._claim, beats=self._claim.beats + 1, ended=ended)
        self._objects.put(f"{CLAIM}{self._number:08}", msgspec.json.encode(self._claim))

    def is_quiet(self) -> bool:
        """Return True: nothing tells which peers write; those of an earlier cluster have a fence before them."""
        return True

    def lock_as_peer(self) -> bool:
        """Note the claim of the cluster that starts this peer."""
        self._number = self._latest()
        return True

    def is_ours(self) -> bool:
        """Whether no later cluster has a claim."""
        return self._latest() == self._number

    def unlock(self) -> None:
        """Say that this cluster has ended."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
            self._beating = None
            try:
                if self.is_ours():
                    self._renew(ended=True)
            except OSError:  # the next cluster waits a while, then
                pass
        self._claim, self._number = None, 0


def _machine() -> str:
    """Return what tells this machine, since it was started, from all others."""
    try:
        processes = Path("/proc/self/ns/pid").readlink()  # containers of a machine do not see each other's processes
    except OSError:
        processes = Path()
    return f"{uuid.getnode():x} {platform.node()} {psutil.boot_time():.0f} {processes}"


def _lives(claim: _Claim) -> bool:
    """Whether the process of a claim lives, on this machine."""
    try:
        return bool(abs(psutil.Process(claim.process).create_time() - claim.began) < 1.0)
    except psutil.NoSuchProcess:
        return False
