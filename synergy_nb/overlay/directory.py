"""The directory: which peers have components of an operator, or a stream, by name.

Theory of operation
-------------------
The key of a name is its SHA-1; the entries of a name are kept by the root of that key (dissertation, section 2.3.3).
Several hosts may register under one name.

*Hosts* register by a routed message, are answered by the root, and try again until they are. From then on they renew
straight at the root, one message for all names that it has, at a third of the lease; what the root does not have, or is
no longer root of, is registered anew. A host that learns that it was held for dead registers everything anew.

*Roots* copy a new entry at once to the two nearest peers on each side. Whichever peer is the nearest to the key after
any two of them crash has a copy: with neighbours ``L2 L1 (key) R1 R2 R3`` and root R1, the copies are at L2, L1, R2
and R3, and no two crashes make any other peer the root. Renewals are passed on in batches, a sixth of a lease late.
When the leaf set changes, a root copies to its new neighbours, a peer that has become root to all of its neighbours,
and one that is root no more to the new root.

*A peer that has just joined* pulls what its neighbours hold before it answers: look-ups that come earlier wait.

*Look-ups* group names by the root that the leaf set (or an earlier answer) gives and send one message to each; a
peer that gets names of which it is not root passes them on. Unanswered names are asked for again until the deadline.

*Dead hosts.* The failure detector tells everybody who died; roots and copies drop its entries at once, and the lease
bounds how long one that was missed can stay.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   sections 2.2.3, 2.3.1 (step 3) and 2.3.3.
.. [2] A. Rowstron and P. Druschel, "Storage management and caching in PAST, a large-scale, persistent peer-to-peer
   storage utility", SOSP 2001 (copies on the leaf-set neighbours of the root).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, get_args

from synergy_nb.overlay.entries import HELD_FRACTION, Entry, EntryCopy, Kind, Store
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.peer import Message, Peer, Protocol, Timer, key_of

__all__ = ["Directory", "Entry", "EntryCopy"]

SIDE: Final = 2  # neighbours on each side that hold copies
PAGE: Final = 128  # entries in a message
ASK_AGAIN: Final = 0.6  # s until an unanswered name is looked up again, at first
REGISTER_AGAIN: Final = 1.0  # s until an unanswered registration is sent again, at first
SETTLE: Final = 0.15  # s that changes of the leaf set are collected before entries are moved
PULL_AGAIN: Final = 0.7  # s until an unanswered pull is sent again
PULLS: Final = 4
COPY_AGAIN: Final = 0.7
COPIES: Final = 5  # times that a copy is sent
WAITING: Final = 512  # look-ups kept until the pull is done
ROOTS: Final = 2048  # roots remembered from earlier answers

Done = Callable[[dict[str, tuple[Entry, ...]] | None], None]
Item = tuple[str, str, int]  # name, kind, version, of an entry of the sender or the receiver
Touched = tuple[str, str, str, int, float]  # name, kind, host, version, seconds left


class Register(Message, frozen=True, gc=False):
    """Routed to the root of the first entry's key: hold these entries of one host."""

    copies: tuple[EntryCopy, ...]


class Registered(Message, frozen=True, gc=False):
    """To a host, from a root: which entries it holds, and which it does not or is not root of."""

    held: tuple[Item, ...]
    missing: tuple[Item, ...]


class Renew(Message, frozen=True, gc=False):
    """From a host, straight to a root: these entries live on."""

    items: tuple[Item, ...]


class Copies(Message, frozen=True, gc=False):
    """Entries for a peer that should hold a copy, or be root of them."""

    number: int
    copies: tuple[EntryCopy, ...]


class CopiesTaken(Message, frozen=True, gc=False):
    """The copies of that number have arrived."""

    number: int


class Touch(Message, frozen=True, gc=False):
    """From a root to those that hold copies: these entries live on."""

    items: tuple[Touched, ...]


class Wanted(Message, frozen=True, gc=False):
    """To a root: these entries (name, kind, host) were touched but are not held in that version."""

    items: tuple[tuple[str, str, str], ...]


class Lookup(Message, frozen=True, gc=False):
    """Routed to the root of the first name: what entries are there?"""

    ticket: int
    origin: str
    names: tuple[str, ...]


class Found(Message, frozen=True, gc=False):
    """To the origin of a look-up: the entries of some of its names."""

    ticket: int
    found: dict[str, tuple[Entry, ...]]


class Pull(Message, frozen=True, gc=False):
    """From a peer that has joined: send me what I should hold."""

    ticket: int


class Pulled(Message, frozen=True, gc=False):
    """One of ``pages`` messages that answer a pull; ``whole`` if the sender itself is done with its pull."""

    ticket: int
    page: int
    pages: int
    whole: bool
    copies: tuple[EntryCopy, ...]


class _Own:
    """An entry of this host."""

    __slots__ = ("confirmed", "due", "entry", "patience", "removed", "root", "version")

    def __init__(self, entry: Entry, version: int, due: float) -> None:
        self.entry = entry
        self.version = version
        self.removed = False
        self.confirmed = False
        self.root: str | None = None
        self.due = due  # when it is sent (again) unless confirmed
        self.patience = REGISTER_AGAIN


class _Asked:
    """A look-up that is not answered yet."""

    __slots__ = ("deadline", "done", "found", "names", "patience", "timer")

    def __init__(self, names: set[str], done: Done, deadline: float) -> None:
        self.names = names
        self.done = done
        self.deadline = deadline
        self.found: dict[str, tuple[Entry, ...]] = {}
        self.patience = ASK_AGAIN
        self.timer: Timer | None = None


class Directory(Protocol):
    """One peer's part of the directory: its own entries, those that it keeps for others, and its look-ups.

    Parameters
    ----------
    peer
        The peer it belongs to.
    pastry
        The ring.
    membership
        The failure detector; without one, entries of dead hosts go when their leases end.
    lease
        Seconds that an entry outlives its host.

    Attributes
    ----------
    settled : bool
        Whether this peer has pulled what its neighbours hold, since it joined.
    """

    def __init__(self, peer: Peer, pastry: Pastry, membership: Membership | None = None, lease: float = 30.0) -> None:
        super().__init__(peer)
        if lease <= 0:
            raise ValueError(f"lease: {lease} s; expected more than 0")
        self.pastry = pastry
        self.lease = lease
        self.store = Store()
        self.settled = False
        self._dead: Callable[[str], bool] = _nobody if membership is None else membership.is_dead
        self._own: dict[tuple[str, str], _Own] = {}  # (name, kind)
        self._sender: Timer | None = None
        self._asked: dict[int, _Asked] = {}
        self._roots: dict[str, str] = {}  # name: who answered for it last
        self._ticket = 0
        self._touched: dict[tuple[str, str, str], None] = {}  # (name, kind, host) renewed and not passed on yet
        self._copying: dict[int, list[object]] = {}  # number: [to, message, times sent]
        self._copier: Timer | None = None
        self._rooted: set[str] = set()  # names that this peer was root of when entries were last moved
        self._beside: tuple[str, ...] = ()  # its neighbours then
        self._mover: Timer | None = None
        self._pull = 0
        self._pull_from: dict[str, dict[int, None] | None] = {}  # peer: pages received; None when done
        self._pull_whole: set[str] = set()
        self._waiting: list[Lookup] = []
        self.handlers = {
            Register: self._on_register,
            Registered: self._on_registered,
            Renew: self._on_renew,
            Copies: self._on_copies,
            CopiesTaken: self._on_copies_taken,
            Touch: self._on_touch,
            Wanted: self._on_wanted,
            Lookup: self._on_lookup,
            Found: self._on_found,
            Pull: self._on_pull,
            Pulled: self._on_pulled,
        }
        pastry.on_joined.append(self._joined)
        pastry.on_change.append(self._changed)
        pastry.on_leave.append(self._leaving)
        if membership is not None:
            membership.on_dead.append(self._host_died)
            membership.on_refuted.append(self._register_all)

    def start(self) -> None:
        """Begin to renew, pass on and expire."""
        self._ticket = max(
            self._ticket, int(self.peer.now * 1e6)
        )  # a restarted peer does not take answers to its earlier life
        rng = self.peer.rng
        self.peer.after(self.lease / 3 * (0.5 + 0.5 * rng.random()), self._renew)
        self.peer.after(self.lease / 6 * (0.5 + 0.5 * rng.random()), self._pass_on)

    # -- for the algorithms ----------------------------------------------------------------------------------------

    def register(self, name: str, kind: Kind, attributes: Mapping[str, str | float | int] | None = None) -> None:
        """Say that this peer has a component or a stream of that name, or that its attributes have changed.

        Parameters
        ----------
        name
            Name of the operator or the stream.
        kind
            ``component`` or ``stream``.
        attributes
            Plain values that look-ups return.

        Raises
        ------
        ValueError
            If ``kind`` is neither.
        """
        if kind not in get_args(Kind):
            nearest = difflib.get_close_matches(str(kind), get_args(Kind), 1, 0.0)[0]
            raise ValueError(f"kind: {kind!r}; expected 'component' or 'stream', nearest {nearest!r}")
        entry = Entry(name, self.peer.address, kind, dict(attributes or {}), self.lease)
        old = self._own.get((name, kind))
        own = _Own(entry, self._next_version(old), self.peer.now)
        if old is not None:
            own.root = old.root
        self._own[name, kind] = own
        self._send_at(self.peer.now)

    def unregister(self, name: str, kind: Kind | None = None) -> None:
        """Say that this peer does not have it any more (of either kind if none is given); harmless if it never had."""
        for key in ((name, kind),) if kind is not None else ((name, "component"), (name, "stream")):
            own = self._own.get(key)
            if own is not None and not own.removed:
                own.version = self._next_version(own)
                own.removed, own.confirmed, own.due, own.patience = True, False, self.peer.now, REGISTER_AGAIN
                self._send_at(self.peer.now)

    def lookup(self, names: Sequence[str], done: Done, deadline: float = 3.0) -> None:
        """Find the entries of ``names``.

        Parameters
        ----------
        names
            Names of operators and streams.
        done
            Called once, never before this call returns: with all entries of each name (none is an empty tuple), or
            with None if they were not all answered in time.
        deadline
            Seconds from now.
        """
        self._ticket += 1
        ticket = self._ticket
        asked = _Asked(set(names), done, self.peer.now + deadline)
        self._asked[ticket] = asked
        mine = {name for name in asked.names if self.settled and self.pastry.joined and self._is_mine(name)}
        if mine or not asked.names:
            answer = {name: self.store.get(name, self.peer.now) for name in sorted(mine)}
            self.peer.send(self.peer.address, Found(ticket, answer))
        if mine != asked.names:
            self._ask(ticket, asked.names - mine)
        if asked.names:
            self._ask_again_later(ticket, asked)

    @property
    def registered(self) -> tuple[Entry, ...]:
        """What this peer has registered."""
        return tuple(own.entry for own in self._own.values() if not own.removed)

    @property
    def confirmed(self) -> bool:
        """Whether roots have answered for all that this peer registered and took back."""
        return all(own.confirmed for own in self._own.values())

    # -- hosts -------------------------------------------------------------------------------------------------------

    def _next_version(self, old: _Own | None) -> int:
        """Versions go on from the clock, so that a restarted host's are higher than those of its earlier life."""
        return max(int(self.peer.now * 1e6), 0 if old is None else old.version + 1)

    def _send_at(self, when: float) -> None:
        if self._sender is not None and self._sender.callback is not None:
            if self._sender.when <= when:
                return
            self._sender.cancel()
        self._sender = self.peer.after(max(when - self.peer.now, 0.0), self._send_own)

    def _send_own(self) -> None:
        """Send what is due, one message a root."""
        if not self.pastry.joined:
            return  # joining sends everything
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
        """What names are grouped by: their root as far as known, else themselves."""
        known = self.pastry.root_of(key_of(name)) if self.pastry.joined else None
        return known or root or name

    def _on_registered(self, sender: str, message: Registered) -> None:
        now = self.peer.now
        for name, kind, version in message.held:
            own = self._own.get((name, kind))
            if own is None or own.version != version:
                continue
            if own.removed:
                del self._own[name, kind]
                continue
            own.confirmed, own.root, own.patience = True, sender, REGISTER_AGAIN
        for name, kind, version in message.missing:
            own = self._own.get((name, kind))
            if own is not None and own.version == version:
                own.confirmed, own.root, own.due = False, None, now
                self._send_at(now)

    def _renew(self) -> None:
        """Tell each root that its entries of this host live on."""
        now = self.peer.now
        groups: dict[str, list[Item]] = {}
        for (name, kind), own in self._own.items():
            if own.confirmed and own.root is not None:
                own.confirmed, own.due = False, now + REGISTER_AGAIN  # by a routed message unless the root answers
                groups.setdefault(own.root, []).append((name, kind, own.version))
        for root, items in groups.items():
            for start in range(0, len(items), PAGE):
                self.peer.send(root, Renew(tuple(items[start : start + PAGE])))
        if groups:
            self._send_at(now + REGISTER_AGAIN)
        self.store.expire(now)
        self.peer.after(self.lease / 3 * (0.9 + 0.2 * self.peer.rng.random()), self._renew)

    def _register_all(self) -> None:
        """Everything anew: others may have dropped it."""
        for own in self._own.values():
            own.confirmed, own.due, own.patience = False, self.peer.now, REGISTER_AGAIN
        if self._own:
            self._send_at(self.peer.now)

    # -- roots -------------------------------------------------------------------------------------------------------

    def _is_mine(self, name: str) -> bool:
        return self.pastry.is_root(key_of(name))

    def _on_register(self, sender: str, message: Register) -> None:
        now = self.peer.now
        taken: dict[str, list[Item]] = {}
        fresh = []
        for index, copy in enumerate(message.copies):
            entry = copy.entry
            if index and not self._is_mine(entry.name):
                self.pastry.route(key_of(entry.name), Register((copy,)))
                continue
            if not copy.removed and self._dead(entry.host):
                continue  # let it refute first: it will register again
            if self.store.put(copy, now):
                fresh.append(copy)
            self._rooted.add(entry.name)
            self._touched[entry.name, entry.kind, entry.host] = None
            taken.setdefault(entry.host, []).append((entry.name, entry.kind, copy.version))
        if fresh:
            for neighbour in self.pastry.root_neighbours(SIDE):
                self._copy_to(neighbour, fresh)
        for host, items in taken.items():
            self.peer.send(host, Registered(tuple(items), ()))

    def _on_renew(self, sender: str, message: Renew) -> None:
        now = self.peer.now
        held, missing = [], []
        for item in message.items:
            name, kind, version = item
            if self.pastry.joined and self._is_mine(name) and self.store.renew(name, kind, sender, version, now):
                self._touched[name, kind, sender] = None
                held.append(item)
            else:
                missing.append(item)
        self.peer.send(sender, Registered(tuple(held), tuple(missing)))

    def _pass_on(self) -> None:
        """Tell those that hold copies what was renewed."""
        now = self.peer.now
        items: list[Touched] = []
        for name, kind, host in self._touched:
            copy = self.store.copy(name, kind, host, now)
            if copy is not None and self._is_mine(name):
                items.append((name, kind, host, copy.version, copy.remaining))
        self._touched.clear()
        if items and self.pastry.joined:
            for neighbour in self.pastry.root_neighbours(SIDE):
                for start in range(0, len(items), PAGE):
                    self.peer.send(neighbour, Touch(tuple(items[start : start + PAGE])))
        self.peer.after(self.lease / 6 * (0.9 + 0.2 * self.peer.rng.random()), self._pass_on)

    def _on_touch(self, sender: str, message: Touch) -> None:
        now = self.peer.now
        wanted = []
        for name, kind, host, version, remaining in message.items:
            if self.store.renew(name, kind, host, version, now, remaining) or self._dead(host):
                continue
            if self.store.version(name, kind, host) <= version:
                wanted.append((name, kind, host))
        if wanted:
            self.peer.send(sender, Wanted(tuple(wanted)))

    def _on_wanted(self, sender: str, message: Wanted) -> None:
        copies = [self.store.copy(name, kind, host, self.peer.now) for name, kind, host in message.items]
        self._copy_to(sender, [copy for copy in copies if copy is not None])

    def _host_died(self, host: str) -> None:
        self.store.drop_host(host)

    # -- copies ------------------------------------------------------------------------------------------------------

    def _copy_to(self, address: str, copies: Sequence[EntryCopy]) -> None:
        for start in range(0, len(copies), PAGE):
            self._ticket += 1
            message = Copies(self._ticket, tuple(copies[start : start + PAGE]))
            self._copying[self._ticket] = [address, message, 1]
            self.peer.send(address, message)
        if self._copying and (self._copier is None or self._copier.callback is None):
            self._copier = self.peer.after(COPY_AGAIN, self._copy_again)

    def _copy_again(self) -> None:
        for number, item in list(self._copying.items()):
            address, message, times = item
            assert isinstance(address, str)
            assert isinstance(message, Copies)
            assert isinstance(times, int)
            if times >= COPIES or address not in self.pastry.leaves:
                del self._copying[
                    number
                ]  # dead, or not a neighbour any more: the next change of the leaf set sees to it
                continue
            item[2] = times + 1
            self.peer.send(address, message)
        if self._copying:
            self._copier = self.peer.after(COPY_AGAIN, self._copy_again)

    def _on_copies(self, sender: str, message: Copies) -> None:
        if not self.pastry.joined:
            return
        self.peer.send(sender, CopiesTaken(message.number))
        self._hold(message.copies)

    def _hold(self, copies: Iterable[EntryCopy]) -> None:
        now = self.peer.now
        for copy in copies:
            if not self._dead(copy.entry.host):
                self.store.put(copy, now)

    def _on_copies_taken(self, sender: str, message: CopiesTaken) -> None:
        item = self._copying.get(message.number)
        if item is not None and item[0] == sender:
            del self._copying[message.number]

    def _changed(self) -> None:
        if self._mover is None or self._mover.callback is None:
            self._mover = self.peer.after(SETTLE * (0.5 + self.peer.rng.random()), self._move)

    def _move(self) -> None:
        """Copy to whom the changed leaf set makes root or neighbour."""
        if not self.pastry.joined:
            return
        now = self.peer.now
        beside = self.pastry.root_neighbours(SIDE)
        fresh = [address for address in beside if address not in self._beside]
        rooted: set[str] = set()
        outgoing: dict[str, list[EntryCopy]] = {}
        for name in self.store.names():
            root = self.pastry.root_of(key_of(name))
            to: Iterable[str] = ()
            if root == self.peer.address:
                rooted.add(name)
                to = fresh if name in self._rooted else beside
            elif name in self._rooted and root is not None:
                to = (root,)
            for address in to:
                outgoing.setdefault(address, []).extend(self.store.copies(name, now))
        self._rooted, self._beside = rooted, beside
        for address, copies in outgoing.items():
            self._copy_to(address, copies)

    def _leaving(self) -> None:
        """Hand all over to the neighbours, who are root next, and take back what this host has."""
        now = self.peer.now
        for name, kind in list(self._own):
            self.unregister(name, kind)  # type: ignore[arg-type]
        for own in self._own.values():
            own.due = now
        self._send_own()
        held = [copy for name in self.store.names() if self._is_mine(name) for copy in self.store.copies(name, now)]
        others = [copy for copy in held if copy.entry.host != self.peer.address]
        for neighbour in self.pastry.root_neighbours(SIDE):
            self._copy_to(neighbour, others)
        self._own.clear()
        self._copying.clear()
        self.settled = False
        self.store = Store(self.store.capacity)
        self._rooted.clear()

    # -- a peer that has just joined ---------------------------------------------------------------------------------

    def _joined(self) -> None:
        self._beside = self.pastry.root_neighbours(SIDE)
        self._rooted.clear()
        self.settled = False
        self._ticket += 1
        self._pull = self._ticket
        self._pull_from = {address: {} for address in self._beside}
        self._pull_whole.clear()
        if not self._pull_from or self.pastry.adopted:
            self._settle()
        else:
            self._pull_again(self._pull, 0)
        self._register_all()

    def _pull_again(self, ticket: int, times: int) -> None:
        if self.settled or ticket != self._pull:
            return
        if times >= PULLS:
            self._settle()
            return
        for address in self.pastry.root_neighbours(SIDE):
            self._pull_from.setdefault(address, {})  # a neighbour that has come since
        for address, pages in self._pull_from.items():
            if pages is not None:
                self.peer.send(address, Pull(ticket))
        self.peer.after(PULL_AGAIN * (0.75 + 0.5 * self.peer.rng.random()), self._pull_again, ticket, times + 1)

    def _on_pull(self, sender: str, message: Pull) -> None:
        if not self.pastry.joined:
            return
        now = self.peer.now
        near: list[EntryCopy] = []
        for name in self.store.names():
            root = self.pastry.root_of(key_of(name))
            gap = None if root is None else self.pastry.leaves.gap(root, sender)
            if gap is None or gap <= SIDE + 1:  # one more: the sender is perhaps not in this leaf set yet
                near.extend(self.store.copies(name, now))
        pages = max(1, -(-len(near) // PAGE))
        for page in range(pages):
            copies = tuple(near[page * PAGE : (page + 1) * PAGE])
            self.peer.send(sender, Pulled(message.ticket, page, pages, self.settled, copies))

    def _on_pulled(self, sender: str, message: Pulled) -> None:
        self._hold(message.copies)
        pages = self._pull_from.get(sender)
        if self.settled or message.ticket != self._pull or pages is None:
            return
        pages[message.page] = None
        if len(pages) < message.pages:
            return
        self._pull_from[sender] = None
        if message.whole:
            self._pull_whole.add(sender)
        leaves = self.pastry.leaves
        sides = (leaves.left[:SIDE], leaves.right[:SIDE])
        if all(not self._pull_whole.isdisjoint(side) for side in sides) or not any(
            self._pull_from.get(address, {}) is not None for side in sides for address in side
        ):
            self._settle()

    def _settle(self) -> None:
        self.settled = True
        self._pull_from.clear()
        self._changed()
        waiting, self._waiting = self._waiting, []
        for lookup in waiting:
            self._on_lookup(lookup.origin, lookup)

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def _ask(self, ticket: int, names: Iterable[str]) -> None:
        if not self.pastry.joined:
            return  # the deadline goes on
        groups: dict[str, list[str]] = {}
        for name in sorted(names):
            groups.setdefault(self._guess(name, self._roots.get(name)), []).append(name)
        for guess, group in groups.items():
            first = guess if self._roots.get(group[0]) == guess else None
            for start in range(0, len(group), PAGE):
                part = tuple(group[start : start + PAGE])
                self.pastry.route(key_of(part[0]), Lookup(ticket, self.peer.address, part), first)

    def _ask_again_later(self, ticket: int, asked: _Asked) -> None:
        delay = asked.patience * (0.75 + 0.5 * self.peer.rng.random())
        asked.patience *= 1.5
        left = asked.deadline - self.peer.now
        asked.timer = self.peer.after(min(delay, max(left, 0.0)), self._ask_again, ticket)

    def _ask_again(self, ticket: int) -> None:
        asked = self._asked.get(ticket)
        if asked is None:
            return
        if self.peer.now >= asked.deadline:
            del self._asked[ticket]
            asked.done(None)
            return
        for name in asked.names:
            self._roots.pop(name, None)
        self._ask(ticket, asked.names)
        self._ask_again_later(ticket, asked)

    def _on_lookup(self, sender: str, message: Lookup) -> None:
        if not self.settled:
            if len(self._waiting) < WAITING:
                self._waiting.append(message)
            return
        now = self.peer.now
        found = {}
        for index, name in enumerate(message.names):
            if index and not self._is_mine(name):
                self.pastry.route(key_of(name), Lookup(message.ticket, message.origin, (name,)))
            else:
                found[name] = self.store.get(name, now)
        self.peer.send(message.origin, Found(message.ticket, found))

    def _on_found(self, sender: str, message: Found) -> None:
        asked = self._asked.get(message.ticket)
        if asked is None:
            return
        for name, entries in message.found.items():
            if name in asked.names:
                asked.names.discard(name)
                asked.found[name] = entries
                if sender != self.peer.address:
                    self._roots.pop(name, None)
                    self._roots[name] = sender
        while len(self._roots) > ROOTS:
            del self._roots[next(iter(self._roots))]
        if not asked.names:
            del self._asked[message.ticket]
            if asked.timer is not None:
                asked.timer.cancel()
            asked.done(asked.found)


def _nobody(address: str) -> bool:  # noqa: ARG001 - the place of a failure detector
    return False
