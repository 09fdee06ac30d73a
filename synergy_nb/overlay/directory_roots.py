"""What roots and their neighbours do for the directory: hold entries, copy them, hand them over, answer.

Theory of operation
-------------------
*Roots* copy a new entry at once to the two nearest peers on each side. Whichever peer is the nearest to the key after
any two of them crash has a copy: with neighbours ``L2 L1 (key) R1 R2 R3`` and root R1, the copies are at L2, L1, R2
and R3, and no two crashes make any other peer the root. Copies are acknowledged and sent again. Renewals are passed on
in batches, a sixth of a lease late. When the leaf set changes, a root copies to its new neighbours, a peer that has
become root to all of its neighbours, and one that is root no more to the new root.

*A peer that has just joined* pulls what its neighbours hold before it answers: look-ups that come earlier wait. It has
enough when on each side one neighbour that is itself done has answered, or all that are asked have.

*Dead hosts.* The failure detector tells everybody who died; roots and copies drop its entries at once, and the lease
bounds how long one that was missed can stay.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   section 2.3.3 ("configuration changes caused by node arrivals and departures are handled gracefully by the DHT").
.. [2] A. Rowstron and P. Druschel, "Storage management and caching in PAST, a large-scale, persistent peer-to-peer
   storage utility", SOSP 2001 (copies on the leaf-set neighbours of the root).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from synergy_nb.control.peer import Message, Peer, Protocol, Timer, key_of
from synergy_nb.overlay.directory_entries import Entry, EntryCopy, Kind, Store
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry

__all__ = [
    "PAGE",
    "Copies",
    "CopiesTaken",
    "DirectoryRoot",
    "Found",
    "Item",
    "Lookup",
    "Pull",
    "Pulled",
    "Register",
    "Registered",
    "Renew",
    "Touch",
    "Wanted",
]  # fmt: skip

SIDE: Final = 2  # neighbours on each side that hold copies
PAGE: Final = 128  # entries in a message
SETTLE: Final = 0.15  # s that changes of the leaf set are collected before entries are moved
PULL_AGAIN: Final = 0.7  # s until an unanswered pull is sent again
PULLS: Final = 4
COPY_AGAIN: Final = 0.7  # s until copies that were not acknowledged are sent again
COPIES: Final = 5  # times that they are sent
WAITING: Final = 512  # look-ups kept until the pull is done

Item = tuple[str, Kind, int]  # name, kind, version of an entry of the sender or the receiver
Touched = tuple[str, Kind, str, int, float]  # name, kind, host, version, seconds left


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

    items: tuple[tuple[str, Kind, str], ...]


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


class _Copying:
    """Copies that are not acknowledged yet."""

    __slots__ = ("message", "times", "to")

    def __init__(self, to: str, message: Copies) -> None:
        self.to = to
        self.message = message
        self.times = 1


class DirectoryRoot(Protocol):
    """One peer's part in keeping entries for others; the base of :class:`~synergy_nb.overlay.directory.Directory`.

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
    store : Store
        The entries that this peer holds.
    settled : bool
        Whether this peer has pulled what its neighbours hold, since it joined.
    """

    def __init__(self, peer: Peer, pastry: Pastry, membership: Membership | None, lease: float) -> None:
        super().__init__(peer)
        if not lease > 0:
            raise ValueError(f"lease: {lease} s; expected more than 0")
        self.pastry = pastry
        self.lease = lease
        self.store = Store()
        self.settled = False
        self._dead: Callable[[str], bool] = _nobody if membership is None else membership.is_dead
        self._ticket = 0
        self._touched: dict[tuple[str, Kind, str], None] = {}  # (name, kind, host) renewed and not passed on yet
        self._copying: dict[int, _Copying] = {}
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
            Renew: self._on_renew,
            Copies: self._on_copies,
            CopiesTaken: self._on_copies_taken,
            Touch: self._on_touch,
            Wanted: self._on_wanted,
            Lookup: self._on_lookup,
            Pull: self._on_pull,
            Pulled: self._on_pulled,
        }
        pastry.on_joined.append(self._joined)
        pastry.on_change.append(self._changed)
        pastry.on_leave.append(self._hand_over)
        if membership is not None:
            membership.on_dead.append(self._host_died)

    def start(self) -> None:
        """Begin to pass renewals on and to expire entries."""
        self._ticket = max(self._ticket, int(self.peer.now * 1e6))  # never a number of an earlier life
        self.peer.after(self.lease / 6 * (0.5 + 0.5 * self.peer.rng.random()), self._pass_on)

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
        self.store.expire(now)
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
            self._copying[self._ticket] = _Copying(address, message)
            self.peer.send(address, message)
        if self._copying and (self._copier is None or self._copier.callback is None):
            self._copier = self.peer.after(COPY_AGAIN, self._copy_again)

    def _copy_again(self) -> None:
        for number, copying in list(self._copying.items()):
            if copying.times >= COPIES or copying.to not in self.pastry.leaves:
                del self._copying[number]  # dead or no neighbour any more: the next change of the leaf set sees to it
                continue
            copying.times += 1
            self.peer.send(copying.to, copying.message)
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
        copying = self._copying.get(message.number)
        if copying is not None and copying.to == sender:
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

    def _hand_over(self) -> None:
        """Before leaving: hand all to the neighbours, one of whom is root next."""
        now = self.peer.now
        held = [copy for name in self.store.names() if self._is_mine(name) for copy in self.store.copies(name, now)]
        others = [copy for copy in held if copy.entry.host != self.peer.address]
        for neighbour in self.pastry.root_neighbours(SIDE):
            self._copy_to(neighbour, others)
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


def _nobody(address: str) -> bool:  # noqa: ARG001 - the place of a failure detector
    return False
