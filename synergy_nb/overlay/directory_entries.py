"""Directory entries as soft state: versions and leases, loads of hosts, and removal of the entries of a dead host.

Theory of operation
-------------------
Only the host of an entry changes it, and each change has a higher version. So peers agree on the newest copy, in
whatever order copies arrive. A removed entry stays as a tombstone (``removed``) for the rest of its lease, so that an
older copy does not restore it.

Clocks of peers are not compared. A copy contains its remaining time, which its holder counts from arrival. Holders
count nine tenths of a lease, so that time in transit does not extend an entry beyond the lease that its host asked for;
hosts renew at a third of the lease.

What a host itself has said (``itself``) counts more than copies, which others hand on: for half of a lease nobody else
changes its entry or its load, and what it says next replaces any copy, whatever version that has. So who lies about
another peer is found out when that peer renews its entries, and at its root has no effect.

The load of a host is part of each of its component entries (dissertation, section 3.4.3: "handlers to several peers
that host components that actually offer the operator, together with their loads"). It has a version of its own, so a
load update changes all of them without their versions, and whoever receives a copy of an entry receives the load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from synergy_nb.control.shedding import Shares

__all__ = ["Entry", "EntryCopy", "Kind", "PeerLoad", "Store"]

Kind: TypeAlias = Literal["component", "stream"]
HELD_FRACTION: Final = 0.9
LONGEST: Final = 600.0  # seconds; an entry that asks for a longer lease gets this one


class PeerLoad(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The load of a peer as a share of its processing capacity: 1.0 stands for a server that is fully used.

    Examples
    --------
    >>> PeerLoad(0.5).load, PeerLoad(0.5, measured=0.2).load, PeerLoad(0.5, 0.2, predicted=4.0).load
    (0.5, 0.2, 4.0)
    >>> PeerLoad(0.5, 0.2).free, PeerLoad(0.5, 0.2, 4.0).free
    (0.5, 0.125)
    """

    promised: float  # share of the capacity that is committed to applications
    # measured load, in which work that waits counts, so that it may exceed 1; None before the first measurement
    measured: float | None = None
    predicted: float | None = None  # predicted load; None without a prediction
    version: int = 0  # number of the load update; a later update of the same peer has a higher one

    @property
    def load(self) -> float:
        """The predicted load if there is one, else the measured load, else the promised one."""
        if self.predicted is not None:
            return self.predicted
        return self.promised if self.measured is None else self.measured

    @property
    def free(self) -> float:
        """Share of the capacity that a further component would get.

        It is the share that is not promised. Where more work waits than the server can process, a newcomer gets a part
        of it only: the n-th at a load of n.
        """
        return max(1.0 - self.promised, 0.0) / max(self.load, 1.0)


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A directory entry: ``host`` offers a component or a stream."""

    name: str  # name of the component or the stream; its key is `key_of` of it
    host: str  # address of the peer that offers it
    kind: Kind
    attributes: dict[str, str | float | int]  # attributes that the host has registered (cores, rate, ...)
    lease: float  # time that the entry outlives its host, seconds
    load: PeerLoad | None = None  # load of the host, if it has published one; for components only


class EntryCopy(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An entry as peers send it: with its version, its remaining time in seconds, and whether it is a tombstone."""

    entry: Entry
    version: int
    remaining: float
    removed: bool = False


class _StoredEntry:
    __slots__ = ("entry", "expires", "removed", "until", "version")

    def __init__(self, copy: EntryCopy, expires: float) -> None:
        self.until = -math.inf  # time until which only its host may change it, seconds
        self.entry = copy.entry
        self.version = copy.version
        self.removed = copy.removed
        self.expires = expires


class Store:
    """The entries that one peer stores: those of which it is root, and copies of its neighbours' entries.

    Examples
    --------
    >>> store = Store()
    >>> entry = Entry("filter", "b", "component", {}, 30.0)
    >>> store.put(EntryCopy(entry, 1, 27.0), now=0.0)
    True
    >>> [found.host for found in store.get("filter", now=26.0)], store.get("filter", now=27.0)
    (['b'], ())
    """

    __slots__ = ("_by_host", "_by_name", "_earliest", "_loads", "_loads_until", "_shares", "capacity", "lease")

    def __init__(self, capacity: int = 200_000, lease: float = 30.0) -> None:
        self.lease = lease  # longest time for which the word of others about a host counts, seconds
        self.capacity = capacity  # maximum number of entries; one of a host beyond its share is refused
        self._by_name: dict[str, dict[tuple[str, str], _StoredEntry]] = {}  # name, then (host, kind), to the entry
        self._by_host: dict[str, set[tuple[str, str]]] = {}  # host to (name, kind) of its entries
        self._loads: dict[str, PeerLoad] = {}  # host to its latest load, which all of its component entries have
        self._loads_until: dict[str, float] = {}  # host to the time until which only it may change its load, seconds
        self._shares = Shares(capacity)  # by host
        self._earliest = math.inf  # no lease ends before this time in seconds; renewals may have put it off

    def __len__(self) -> int:
        return self._shares.held

    def names(self) -> tuple[str, ...]:
        """All names with an entry or a tombstone."""
        return tuple(self._by_name)

    def put(self, copy: EntryCopy, now: float, *, itself: bool = False) -> bool:
        """Store a copy if it or its load is newer; return whether it is. A copy of equal version renews the lease.

        ``itself``: whether the host of the entry has sent it.
        """
        entry = copy.entry
        held = self._by_name.get(entry.name, {}).get((entry.host, entry.kind))
        longest = min(entry.lease, LONGEST) if itself else min(entry.lease, self.lease)
        expires = now + min(copy.remaining, HELD_FRACTION * longest)
        if held is not None and held.until > now and not itself:
            return False  # a copy of what it has said itself, or a lie
        newer = held is None or copy.version > held.version or (itself and held.until <= now != copy.version)
        if held is None:
            if not expires > now or not self._shares.take(entry.host):
                return False
            held = self._by_name.setdefault(entry.name, {})[entry.host, entry.kind] = _StoredEntry(copy, expires)
            self._by_host.setdefault(entry.host, set()).add((entry.name, entry.kind))
        elif newer:
            held.entry, held.version, held.removed, held.expires = entry, copy.version, copy.removed, expires
        elif copy.version == held.version:
            held.expires = max(held.expires, expires)
        if itself and copy.version == held.version:
            held.until = now + 0.5 * self.lease
        self._earliest = min(self._earliest, held.expires)
        if entry.load is not None and self.update_load(entry.host, entry.load, now, itself=itself):
            return True
        held.entry = self._with_load(held.entry)
        return newer

    def update_load(self, host: str, load: PeerLoad, now: float, *, itself: bool = False) -> bool:
        """Store the load of a host with its component entries if it is newer; return whether it is.

        ``itself``: whether the host has sent it.
        """
        version, closed = self.load_version(host), self._loads_until.get(host, -math.inf) > now
        if host not in self._by_host or (closed and not itself):
            return False
        if itself:
            self._loads_until[host] = now + 0.5 * self.lease
        if load.version == version or (load.version < version and (closed or not itself)):
            return False
        self._loads[host] = load
        for name, kind in self._by_host[host]:
            held = self._by_name[name][host, kind]
            held.entry = self._with_load(held.entry)
        return True

    def load_version(self, host: str) -> int:
        """The version of the stored load of a host; -1 if there is none."""
        load = self._loads.get(host)
        return -1 if load is None else load.version

    def _with_load(self, entry: Entry) -> Entry:
        """An entry with the latest load of its host."""
        load = self._loads.get(entry.host)
        if entry.kind != "component" or load is None or entry.load is load:
            return entry
        return msgspec.structs.replace(entry, load=load)

    def renew(self, name: str, kind: str, host: str, version: int, now: float, remaining: float | None = None) -> bool:
        """Extend the lease of a stored version; return whether it is stored.

        ``remaining``: seconds that another peer has left of it; None where its host renews it, for its whole length.
        """
        named = self._by_name.get(name)
        held = None if named is None else named.get((host, kind))
        if held is None or held.version != version or held.removed or held.expires <= now:
            return False
        end = now + HELD_FRACTION * min(held.entry.lease, LONGEST)
        if remaining is not None and now + remaining < end:
            end = now + remaining
        if end > held.expires:
            held.expires = end
        if remaining is None:
            held.until = now + 0.5 * self.lease
        return True

    def version(self, name: str, kind: str, host: str) -> int:
        """The version of the stored entry; -1 if there is none."""
        held = self._by_name.get(name, {}).get((host, kind))
        return -1 if held is None else held.version

    def has_said(self, name: str, kind: str, host: str, version: int, now: float) -> bool:
        """Whether the host itself has sent the stored version of an entry so lately that nobody else may change it.

        A copy of the same version that others have handed on does not count: it ends with its lease unless the host
        renews it.
        """
        held = self._by_name.get(name, {}).get((host, kind))
        return held is not None and held.version == version and held.until > now

    def get(self, name: str, now: float) -> tuple[Entry, ...]:
        """The live entries of a name, in the order of hosts."""
        held = self._by_name.get(name)
        if not held:
            return ()
        return tuple(held[key].entry for key in sorted(held) if held[key].expires > now and not held[key].removed)

    def copies(self, name: str, now: float) -> Iterator[EntryCopy]:
        """Copies of all entries and tombstones of a name, for another peer."""
        for held in self._by_name.get(name, {}).values():
            if held.expires > now:
                yield EntryCopy(held.entry, held.version, held.expires - now, held.removed)

    def copy(self, name: str, kind: str, host: str, now: float) -> EntryCopy | None:
        """A copy of one entry or tombstone, for another peer; None if there is none."""
        held = self._by_name.get(name, {}).get((host, kind))
        if held is None or held.expires <= now:
            return None
        return EntryCopy(held.entry, held.version, held.expires - now, held.removed)

    def renewal(self, name: str, kind: str, host: str, now: float) -> tuple[int, float] | None:
        """The version of one entry or tombstone, and the seconds until its lease ends; None if there is none."""
        named = self._by_name.get(name)
        held = None if named is None else named.get((host, kind))
        return None if held is None or held.expires <= now else (held.version, held.expires - now)

    def drop_host(self, host: str) -> int:
        """Remove all entries of a host; return their number."""
        keys = self._by_host.pop(host, set())
        self._forget_load(host)
        for name, kind in keys:
            self._drop(name, host, kind)
        return len(keys)

    def expire(self, now: float) -> None:
        """Remove entries whose lease has ended."""
        if now < self._earliest:
            return
        gone = [
            (name, host, kind)
            for name, held in self._by_name.items()
            for (host, kind), item in held.items()
            if item.expires <= now
        ]
        for name, host, kind in gone:
            self._drop(name, host, kind)
            keys = self._by_host[host]
            keys.discard((name, kind))
            if not keys:
                del self._by_host[host]
                self._forget_load(host)
        ends = (item.expires for held in self._by_name.values() for item in held.values())
        self._earliest = min(ends, default=math.inf)

    def give_up(self, name: str) -> None:
        """Take the word of others from now on, as the hosts of a name register with another root."""
        for (host, _), held in self._by_name.get(name, {}).items():
            held.until = -math.inf
            self._loads_until.pop(host, None)

    def _forget_load(self, host: str) -> None:
        self._loads.pop(host, None)
        self._loads_until.pop(host, None)

    def _drop(self, name: str, host: str, kind: str) -> None:
        held = self._by_name[name]
        del held[host, kind]
        self._shares.give_back(host)
        if not held:
            del self._by_name[name]
