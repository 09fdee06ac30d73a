"""The directory: a map from the name of a component or a stream to the peers that offer it.

Theory of operation
-------------------
The key of a name is its SHA-1. The root of that key stores the entries of the name (dissertation, section 2.3.3), and
its neighbours store copies (:mod:`synergy_nb.overlay._directory_roots`). Several hosts may register under one name. All
entries are soft state (:mod:`synergy_nb.overlay.directory_entries`).

*Registration.* A host sends its entries in a routed message, and sends them again until the root answers. From then on
it renews them directly at the root, at a third of the lease, in one message for all names of that root. It registers
again those entries that the root does not hold or is no longer root of. A host that learns that it was declared dead
registers all its entries again.

*Loads.* All component entries of a host contain its load. A host publishes a new load in one message to each other peer
that is root of any of its components, and sends it again until the root answers that it stores it.

*Look-ups.* A peer groups names by root, as the leaf set or an earlier answer gives it, and sends one message to each; a
receiver forwards the names of which it is not the root. Unanswered names are looked up again until the deadline. Names
of which the peer is root itself need no message.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   sections 2.2.3, 2.3.1 (step 3), 2.3.3 and 3.4.3.
.. [2] A. Rowstron and P. Druschel, "Pastry: Scalable, decentralized object location and routing for large-scale
   peer-to-peer systems", Middleware 2001.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, get_args

import msgspec

from synergy_nb.control.peer import Peer, Timer, key_of
from synergy_nb.overlay._directory_roots import PAGE, DirectoryRoot
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.overlay.directory_entries import HELD_FRACTION, Entry, EntryCopy, Kind, PeerLoad
from synergy_nb.overlay.directory_messages import Found, Item, LoadUpdate, Lookup, Register, Registered, Renew
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry

__all__ = ["Directory", "Entry", "EntryCopy"]

LOOKUP_RETRY: Final = 0.6  # initial time until an unanswered name is looked up again, seconds
REGISTER_RETRY: Final = 1.0  # initial time until an unanswered registration or load update is sent again, seconds
ROOTS: Final = 2048  # maximum number of roots that are remembered from earlier answers

Done = Callable[[dict[str, tuple[Entry, ...]] | None], None]


class _Own:
    """An entry that this peer has registered, and the state of its registration."""

    __slots__ = ("confirmed", "due", "entry", "patience", "removed", "root", "version")

    def __init__(self, entry: Entry, version: int, due: float) -> None:
        self.entry = entry
        self.version = version
        self.removed = False
        self.confirmed = False
        self.root: str | None = None
        self.due = due  # time at which it is sent (again) unless confirmed, seconds
        self.patience = REGISTER_RETRY


class _PendingLookup:
    """A look-up that is not answered yet."""

    __slots__ = ("done", "found", "limit", "names", "patience", "timer")

    def __init__(self, names: set[str], done: Done) -> None:
        self.names = names
        self.done = done
        self.found: dict[str, tuple[Entry, ...]] = {}
        self.limit: AnswerLimit | None = None
        self.patience = LOOKUP_RETRY
        self.timer: Timer | None = None


class Directory(DirectoryRoot):
    """One peer's part of the directory: its own entries, those that it stores as root or neighbour, and its look-ups.

    ``membership``: failure detector; None if entries of dead hosts are to stay until their leases end; ``lease``: time
    that an entry outlives its host, seconds.
    """

    def __init__(self, peer: Peer, pastry: Pastry, membership: Membership | None = None, lease: float = 30.0) -> None:
        pastry.on_leave.append(self._leaving)  # before entries are handed over
        super().__init__(peer, pastry, membership, lease)
        # listeners, called when the roots have confirmed all entries of this peer, see `confirmed`
        self.on_confirmed: list[Callable[[], None]] = []
        self._answers = AnswerLimits(peer) if membership is None else membership.answers
        self._own: dict[tuple[str, Kind], _Own] = {}
        self._sender: Timer | None = None
        self.own_load: PeerLoad | None = None
        self._load_versions: dict[str, int] = {}  # root to the version of the load that it stores by its last answer
        self._load_sender: Timer | None = None
        self._load_patience = REGISTER_RETRY
        self.pending: dict[int, _PendingLookup] = {}
        self.known_roots: dict[str, str] = {}  # name: who answered for it last
        self.handlers = {**self.handlers, Registered: self._on_registered, Found: self._on_found}
        pastry.on_joined.append(self._register_all)
        if membership is not None:
            membership.on_refuted.append(self._register_all)

    def start(self) -> None:
        """Start renewing the entries of this peer."""
        super().start()
        self.peer.after(self.lease / 3 * (0.5 + 0.5 * self.peer.rng.random()), self._renew)

    # -- for the algorithms ----------------------------------------------------------------------------------------

    def register(self, name: str, kind: Kind, attributes: Mapping[str, str | float | int] | None = None) -> None:
        """Register a component or a stream of this peer under a name, or change its attributes.

        ``kind``: kind of the entry: ``component`` or ``stream``; ``attributes``: attributes that look-ups return.

        Raises ``ValueError`` if ``kind`` is neither ``component`` nor ``stream``.
        """
        if kind not in get_args(Kind):
            nearest = difflib.get_close_matches(str(kind), get_args(Kind), 1, 0.0)[0]
            raise ValueError(f"kind: {kind!r}; expected 'component' or 'stream', nearest {nearest!r}")
        load = self.own_load if kind == "component" else None
        entry = Entry(name, self.peer.address, kind, dict(attributes or {}), self.lease, load)
        old = self._own.get((name, kind))
        own = _Own(entry, self._next_version(old), self.peer.now)
        if old is not None:
            own.root = old.root
        self._own[name, kind] = own
        self._send_at(self.peer.now)

    def unregister(self, name: str, kind: Kind | None = None) -> None:
        """Remove the entry of a name (of both kinds if ``kind`` is None); no effect if there is none."""
        for key in ((name, kind),) if kind is not None else ((name, "component"), (name, "stream")):
            own = self._own.get(key)
            if own is not None and not own.removed:
                own.version = self._next_version(own)
                own.removed, own.confirmed, own.due, own.patience = True, False, self.peer.now, REGISTER_RETRY
                self._send_at(self.peer.now)

    def publish_load(self, load: PeerLoad) -> int:
        """Change the load in all component entries of this peer, and return the number of load updates sent.

        That is one to each other peer that is root of a component of this peer. Entries that are registered later
        contain the load, too.

        ``load``: load of this peer; its version is chosen here.
        """
        latest = 0 if self.own_load is None else self.own_load.version + 1
        self.own_load = load = msgspec.structs.replace(load, version=max(int(self.peer.now * 1e6), latest))
        for own in self._own.values():
            if own.entry.kind == "component":
                own.entry = msgspec.structs.replace(own.entry, load=load)
        roots = self.component_roots()
        self._load_versions = {root: version for root, version in self._load_versions.items() if root in roots}
        if self.peer.address in roots:
            self._update_load(self.peer.address, load)
        self._load_patience = REGISTER_RETRY
        if self._load_sender is not None:
            self._load_sender.cancel()
            self._load_sender = None
        return self._send_load()

    def component_roots(self) -> dict[str, None]:
        """The distinct peers, this one included, that are known to be roots of components of this peer."""
        if not self.pastry.joined:
            return {}
        own = [each for each in self._own.values() if each.entry.kind == "component" and not each.removed]
        roots = (self.pastry.root_of(key_of(each.entry.name)) or each.root for each in own)
        return {root: None for root in roots if root is not None}

    def lookup(self, names: Sequence[str], done: Done, deadline: float = 3.0) -> None:
        """Find the entries of ``names``.

        ``names``: names of components and streams; ``done``: callback, called once and never before this call returns:
        with name to entries (an empty tuple for a name without any), or with None if not all names were answered in
        time; ``deadline``: time limit where all peers are in time, seconds from now.
        """
        self._ticket += 1
        ticket = self._ticket
        pending = self.pending[ticket] = _PendingLookup(set(names), done)
        pending.limit = self._answers.after(deadline, (), self._give_up, ticket)
        mine = {name for name in pending.names if self.pull_completed and self.pastry.joined and self._is_mine(name)}
        if mine or not pending.names:
            answer = {name: self.store.get(name, self.peer.now) for name in sorted(mine)}
            self.peer.send(self.peer.address, Found(ticket, answer))
        if mine != pending.names:
            self._look_up(ticket, pending.names - mine)
        if pending.names:
            self._retry_later(ticket, pending)

    @property
    def registered(self) -> tuple[Entry, ...]:
        """The entries that this peer has registered."""
        return tuple(own.entry for own in self._own.values() if not own.removed)

    @property
    def confirmed(self) -> bool:
        """Whether roots have confirmed all registrations and removals of this peer."""
        return all(own.confirmed for own in self._own.values())

    # -- hosts -------------------------------------------------------------------------------------------------------

    def _next_version(self, old: _Own | None) -> int:
        """The next version of an entry, based on the clock, so that versions grow over a restart of the peer."""
        return max(int(self.peer.now * 1e6), 0 if old is None else old.version + 1)

    def _send_at(self, when: float) -> None:
        if self._sender is not None and self._sender.callback is not None:
            if self._sender.when <= when:
                return
            self._sender.cancel()
        self._sender = self.peer.after(max(when - self.peer.now, 0.0), self._send_own)

    def _send_own(self) -> None:
        """Send the entries that are due, grouped by root."""
        if not self.pastry.joined:
            return  # all entries are sent after joining
        now = self.peer.now
        groups: dict[str, list[_Own]] = {}
        later = []
        for own in self._own.values():
            if own.confirmed:
                continue
            if own.due <= now:
                groups.setdefault(self._guess(own.entry.name, own.root), []).append(own)
                own.due = now + own.patience * (0.75 + 0.5 * self.peer.rng.random())
                own.patience = min(own.patience * 1.6, self.lease / 3)
            later.append(own.due)
        for guess, group in groups.items():
            for start in range(0, len(group), PAGE):
                self._route_own(guess, group[start : start + PAGE])
        if later:
            self._send_at(min(later))

    def _route_own(self, guess: str, group: list[_Own]) -> None:
        copies = tuple(EntryCopy(own.entry, own.version, HELD_FRACTION * self.lease, own.removed) for own in group)
        first = group[0].root if group[0].root == guess else None
        self.pastry.route(key_of(copies[0].entry.name), Register(copies), first)

    def _guess(self, name: str, root: str | None) -> str:
        """The key by which names are grouped: their root if it is known, else the name itself."""
        known = self.pastry.root_of(key_of(name)) if self.pastry.joined else None
        return known or root or name

    def _send_load(self) -> int:
        """Send the load to the roots that have not confirmed that they store it; return their number."""
        load = self.own_load
        if load is None:
            return 0
        roots = [root for root in self.component_roots() if self._load_versions.get(root, -1) < load.version]
        others = [root for root in roots if root != self.peer.address]
        for root in others:
            self.peer.send(root, LoadUpdate(load))
        if others:
            self._send_load_later()
            self._load_patience = min(self._load_patience * 1.6, self.lease / 3)
        return len(others)

    def _send_load_later(self) -> None:
        if self._load_sender is None:
            self._load_sender = self.peer.after(self._load_patience, self._send_load_again)

    def _send_load_again(self) -> None:
        self._load_sender = None
        self._send_load()

    def _load_answered(self, root: str, version: int) -> None:
        """Remember which version of the load a root stores; if it is an older one, send the present load soon."""
        if self.own_load is None or root == self.peer.address:
            return
        self._load_versions[root] = version
        if version < self.own_load.version:
            self._send_load_later()

    def _on_registered(self, sender: str, message: Registered) -> None:
        now = self.peer.now
        self._load_answered(sender, message.load)
        for name, kind, version in message.held:
            own = self._own.get((name, kind))
            if own is None or own.version != version:
                continue
            if own.removed:
                del self._own[name, kind]
                continue
            own.confirmed, own.root, own.patience = True, sender, REGISTER_RETRY
        for name, kind, version in message.missing:
            own = self._own.get((name, kind))
            if own is not None and own.version == version:
                # a root that has it from others asks for it: it is sent there, once
                own.root = sender if not own.confirmed and own.root != sender else None
                own.confirmed, own.due = False, now
                self._send_at(now)
        if (message.held or message.missing) and self.confirmed:
            for callback in self.on_confirmed:
                callback()

    def _renew(self) -> None:
        """Renew the entries of this host at their roots."""
        now = self.peer.now
        groups: dict[str, list[Item]] = {}
        for (name, kind), own in self._own.items():
            if own.confirmed and own.root is not None:
                own.confirmed, own.due = False, now + REGISTER_RETRY  # then registered again unless the root answers
                groups.setdefault(own.root, []).append((name, kind, own.version))
        for root, items in groups.items():
            for start in range(0, len(items), PAGE):
                self.peer.send(root, Renew(tuple(items[start : start + PAGE])))
        if groups:
            self._send_at(now + REGISTER_RETRY)
        self.peer.after(self.lease / 3 * (0.9 + 0.2 * self.peer.rng.random()), self._renew)

    def _register_all(self) -> None:
        """Register all entries again, because other peers may have dropped them."""
        for own in self._own.values():
            own.confirmed, own.due, own.patience = False, self.peer.now, REGISTER_RETRY
        if self._own:
            self._send_at(self.peer.now)

    def _leaving(self) -> None:
        """Unregister all entries, once and without waiting for answers."""
        for name, kind in list(self._own):
            self.unregister(name, kind)
        self._send_own()
        self._own.clear()
        self._load_versions.clear()

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def _look_up(self, ticket: int, names: Iterable[str]) -> None:
        if not self.pastry.joined:
            return  # not in the ring; the deadline counts all the same
        groups: dict[str, list[str]] = {}
        for name in sorted(names):
            groups.setdefault(self._guess(name, self.known_roots.get(name)), []).append(name)
        for guess, group in groups.items():
            first = guess if self.known_roots.get(group[0]) == guess else None
            for start in range(0, len(group), PAGE):
                part = tuple(group[start : start + PAGE])
                self.pastry.route(key_of(part[0]), Lookup(ticket, self.peer.address, part), first)

    def _retry_later(self, ticket: int, pending: _PendingLookup) -> None:
        delay = pending.patience * (0.75 + 0.5 * self.peer.rng.random())
        pending.patience *= 1.5
        pending.timer = self.peer.after(delay, self._retry, ticket)

    def _retry(self, ticket: int) -> None:
        pending = self.pending.get(ticket)
        if pending is None:
            return
        for name in pending.names:
            self.known_roots.pop(name, None)
        self._look_up(ticket, pending.names)
        self._retry_later(ticket, pending)

    def _give_up(self, ticket: int) -> None:
        pending = self.pending.pop(ticket, None)
        if pending is not None:
            if pending.timer is not None:
                pending.timer.cancel()
            pending.done(None)

    def _on_found(self, sender: str, message: Found) -> None:
        pending = self.pending.get(message.ticket)
        if pending is None:
            return
        for name, entries in message.found.items():
            if name in pending.names:
                pending.names.discard(name)
                pending.found[name] = entries
                if sender != self.peer.address:
                    self.known_roots.pop(name, None)
                    self.known_roots[name] = sender
        while len(self.known_roots) > ROOTS:
            del self.known_roots[next(iter(self.known_roots))]
        if not pending.names:
            del self.pending[message.ticket]
            for each in (pending.timer, pending.limit):
                if each is not None:
                    each.cancel()
            pending.done(pending.found)
