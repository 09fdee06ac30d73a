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

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from synergy_nb.durable._object_files import FENCES, ObjectFiles
from synergy_nb.durable._objects import STORES, Objects
from synergy_nb.durable._places import Claimant
from synergy_nb.durable.component_files import EVERY, fence_name
from synergy_nb.durable.records import DurableError

__all__ = ["ObjectPlace"]

BEAT_S: Final = 3.0  # seconds from one writing of a claim to the next
LEASE_S: Final = 15.0  # seconds for which a claim stays the same until another cluster begins
POLL_S: Final = 1.0  # seconds from one reading of a claim to the next
TOGETHER: Final = 16  # most objects that are written at a time
CLAIM: Final = "claim-"
WILD: Final = "*?["  # fsspec takes a name with one of these for a pattern
LEAST: Final = 4 << 10  # bytes for which each write counts at least: so a file of 1 MiB has 256 objects at most


class _Claim(msgspec.Struct, frozen=True):
    """What a cluster says of itself."""

    token: str  # this and what follows: of the program that has started it (`Claimant`)
    machine: str
    process: str
    beats: int = 0  # how often it was written again
    ended: bool = False


class ObjectPlace:
    """A prefix in an object store. See :class:`~synergy_nb.durable._places.DurablePlace`."""

    formats: Final = ("synergy_nb durable objects, version 2",)
    least_write: Final = LEAST
    waits_for_peers: Final = False

    def __init__(
        self,
        url: str,
        objects: Objects | None = None,  # objects of the store; None: those below the URL
        claimant: Claimant | None = None,  # program that starts a cluster; None: one that reads only, or a peer
    ) -> None:
        """Raise ``DurableError`` if the package of the store is missing, or the URL names no prefix in a bucket."""
        scheme, _, path = url.partition("://")
        if not path.strip("/"):
            raise DurableError(f"durable: {url!r}; expected the name of a bucket after {scheme}://")
        if any(each in path for each in WILD):
            raise DurableError(f"durable: {url!r}; expected none of {' '.join(WILD)}, which stand for other names")
        try:
            self._objects = Objects(url) if objects is None else objects
        except ImportError:
            package = STORES[scheme]
            raise DurableError(f"durable: {url!r}; expected the package {package}: pip install {package}") from None
        self.where = url
        self._claimant = claimant
        self._executor = ThreadPoolExecutor(TOGETHER, thread_name_prefix="synergy objects")
        self._number = 0  # number of the claim of the cluster that this process belongs to; 0: of none
        self._claim: _Claim | None = None  # claim of this process
        self._end_renewing: Callable[[], None] = lambda: None

    # -- objects ---------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Check, if there is nothing yet, that the store creates objects as it has to."""
        if any(self._objects.top()):
            return
        name = f"probe-{'' if self._claimant is None else self._claimant.token}"
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
        """Make it with a fence that nobody meets: to list fences where there are none takes three requests, not one."""
        self._objects.create(f"{folder}/{FENCES}/{fence_name(EVERY, 0)}", b"")

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
        me = self._claimant
        assert me is not None, "a peer does not start a cluster"
        number = self._latest()
        if number and not self._is_free(f"{CLAIM}{number:08}", me):
            return False
        claim = _Claim(me.token, me.machine, me.process)
        if not self._objects.create(f"{CLAIM}{number + 1:08}", msgspec.json.encode(claim)):
            return False
        self._number, self._claim = number + 1, claim
        self._objects.remove([f"{CLAIM}{each:08}" for each in self._numbers() if each < self._number])
        self._end_renewing = me.every(BEAT_S, self._beat)
        return True

    def _numbers(self) -> list[int]:
        found = (name.removeprefix(CLAIM) for name in self._objects.top()[0] if name.startswith(CLAIM))
        return sorted(int(each) for each in found if each.isdigit())

    def _latest(self) -> int:
        return max(self._numbers(), default=0)

    def _is_free(self, name: str, me: Claimant) -> bool:
        """Whether the cluster of a claim has ended, or does not renew it."""
        first = self._read_claim(name)
        if first is None or first.ended:
            return True
        if first.machine == me.machine:
            return not me.lives(first.process)
        for _ in range(round(LEASE_S / POLL_S)):
            me.wait(POLL_S)
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

    def _beat(self) -> bool:
        """Renew the claim, unless another cluster has one."""
        try:
            if not self.is_ours():
                return False
            self._renew(ended=False)
        except OSError:  # the store is not there for the moment: nobody else can read the claim, either
            pass
        return True

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
        self._end_renewing()
        try:
            if self._claim is not None and self.is_ours():
                self._renew(ended=True)
        except OSError:  # the next cluster waits a while, then
            pass
        self._claim, self._number = None, 0
