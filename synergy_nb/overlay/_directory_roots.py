"""Storage of directory entries at roots and their neighbours: replication, hand-over and answers to look-ups.

Theory of operation
-------------------
*Replication.* A root copies a new entry at once to the two nearest peers on each side. So the peer that is nearest to
the key after any two crashes has a copy: with neighbours ``L2 L1 (key) R1 R2 R3`` and root R1, the copies are at L2,
L1, R2 and R3, and no two crashes make any other peer the root. Copies are acknowledged, and sent again without an
acknowledgement. Renewals are forwarded in batches, up to a sixth of a lease later. When the leaf set changes, a root
copies its entries to its new neighbours; a peer that has become root of a name, to all its neighbours; and a former
root, to the new root.

*Loads.* A host sends a new load once to each root of its components, however many of them that root stores
(:class:`.LoadUpdate`). The root changes all entries of the host, copies the load alone to its neighbours, and answers
with the version that it stores; each answer to a registration or a renewal has that version, too, so that a lost update
is sent again. Entries that are copied contain the load of their host, so a new root has it.

*Who says so.* Only a host speaks of its entries and its load. A registration that another peer has handed on is not
stored: the root tells its host that it is missing, and that sends it directly. Copies count only between neighbours,
and never against what a host has said itself (:mod:`synergy_nb.overlay.directory_entries`). A peer that lies as root of
a name can hide what others offer under that name, or name peers that refuse when they are asked.

*Joining.* A peer that has just joined pulls the entries of its neighbours before it answers; earlier look-ups wait. The
pull is complete when on each side one neighbour that has completed its own pull has answered, or when all have.

*Dead hosts.* The failure detector informs all peers of a death; roots and copies drop the host's entries at once. An
entry that was missed expires with its lease.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   sections 2.3.3 ("configuration changes caused by node arrivals and departures are handled gracefully by the DHT") and
   3.4.3 ("each peer responsible for an operator is also responsible for monitoring the load of the peers that host
   components offering it").
.. [2] A. Rowstron and P. Druschel, "Storage management and caching in PAST, a large-scale, persistent peer-to-peer
   storage utility", SOSP 2001 (copies on the leaf-set neighbours of the root).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from synergy_nb.control.peer import Message, Peer, Protocol, Timer, key_of
from synergy_nb.control.shedding import Allowance, Shares
from synergy_nb.overlay.directory_entries import EntryCopy, Kind, PeerLoad, Store
from synergy_nb.overlay.directory_messages import (
    Copies,
    CopiesStored,
    EntriesRequested,
    Found,
    HostLoad,
    Item,
    LoadUpdate,
    Lookup,
    Pull,
    Pulled,
    Register,
    Registered,
    Renew,
    RenewCopies,
    RenewedItem,
)
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry

SIDE: Final = 2  # number of neighbours on each side that hold copies
PAGE: Final = 128  # maximum number of entries in a message
CHANGE_DELAY: Final = 0.15  # seconds for which changes of the leaf set are collected before entries are moved
PULL_RETRY: Final = 0.7  # seconds until an unanswered pull is sent again
PULLS: Final = 4  # number of times that a pull is sent
COPY_RETRY: Final = 0.7  # seconds until copies that were not acknowledged are sent again
COPIES: Final = 5  # number of times that copies are sent
MINE: Final = 4096  # number of names for which a peer remembers whether it is their root
WAITING: Final = 512  # maximum number of look-ups that wait until the pull is complete
# what one sender may send: a host registers once, and renews its entries every ten seconds; a change of its load is
# published when it leaves its level
OFTEN: Final = Allowance(rate=200.0, burst=4000.0)
LOOKUPS: Final = Allowance(rate=500.0, burst=5000.0)
PULLED: Final = Allowance(rate=2.0, burst=50.0)  # each is answered with all entries of a neighbour


class _Copying:
    """A :class:`.Copies` message that is not acknowledged yet."""

    __slots__ = ("message", "times", "to")

    def __init__(self, to: str, message: Copies) -> None:
        self.to = to
        self.message = message
        self.times = 1


class DirectoryRoot(Protocol):
    """Stores entries as root or neighbour of a root; base of :class:`~synergy_nb.overlay.directory.Directory`.

    ``membership``: failure detector; None: entries of dead hosts remain until their leases expire.
    """

    allowances: Mapping[type[Message], Allowance] = {
        **dict.fromkeys((Register, Renew, LoadUpdate, Copies, RenewCopies, EntriesRequested), OFTEN),
        Lookup: LOOKUPS,
        Pull: PULLED,
    }

    def __init__(self, peer: Peer, pastry: Pastry, membership: Membership | None, lease: float) -> None:
        super().__init__(peer)
        if not lease > 0:
            raise ValueError(f"lease: {lease} s; expected more than 0")
        self.pastry = pastry
        self.lease = lease  # time that an entry outlives its host, seconds
        self.store = Store(lease=lease)  # entries that this peer stores
        # whether this peer has completed the pull that follows its join. From then on it answers look-ups
        self.pull_completed = False
        self.is_dead: Callable[[str], bool] = _nobody if membership is None else membership.is_dead
        self._ticket = 0
        self._renewed: dict[tuple[str, Kind, str], None] = {}  # (name, kind, host) whose renewal is to be forwarded
        self.copying: dict[int, _Copying] = {}
        self._copier: Timer | None = None
        self._rooted: set[str] = set()  # names of which this peer was root when it last copied entries to neighbours
        self._neighbours: tuple[str, ...] = ()  # neighbours of this peer at that time
        self._mover: Timer | None = None
        self._mine: dict[str, bool] = {}  # name to whether this peer is its root, in a version of the leaf set
        self._mine_version = -1
        self._pull = 0
        self._pull_from: dict[str, dict[int, None] | None] = {}  # peer to pages received; None when complete
        self._completed_neighbours: set[str] = set()
        self.waiting: list[Lookup] = []
        self._places = Shares(WAITING)  # of `waiting`, by origin
        self.handlers = {
            Register: self._on_register,
            Renew: self._on_renew,
            LoadUpdate: self._on_load_update,
            Copies: self._on_copies,
            CopiesStored: self._on_copies_stored,
            RenewCopies: self._on_renew_copies,
            EntriesRequested: self._on_entries_requested,
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
        """Start forwarding renewals and expiring entries."""
        self._ticket = max(self._ticket, int(self.peer.now * 1e6))  # higher than all numbers before a restart
        self.peer.after(self.lease / 6 * (0.5 + 0.5 * self.peer.rng.random()), self._forward_renewals)

    # -- roots -------------------------------------------------------------------------------------------------------

    def _is_mine(self, name: str) -> bool:
        """Whether this peer is root of a name; the answer is kept until the leaf set changes."""
        version = self.pastry.leaves.version
        if self._mine_version != version:
            self._mine, self._mine_version = {}, version
        mine = self._mine.get(name)
        if mine is None:
            if len(self._mine) >= MINE:
                self._mine.clear()
            mine = self._mine[name] = self.pastry.is_root(key_of(name))
        return mine

    def _on_register(self, sender: str, message: Register) -> None:
        if not self.pastry.joined:
            return  # such as the removals of its own entries, of which a peer that leaves is itself the root
        now = self.peer.now
        taken: dict[str, list[Item]] = {}
        unheard: dict[str, list[Item]] = {}  # what others have handed on, by host
        fresh = []
        itself = not self.pastry.handed_on_by
        for index, copy in enumerate(message.copies):
            entry = copy.entry
            if index and not self._is_mine(entry.name):
                self.pastry.route(key_of(entry.name), Register((copy,)))
                continue
            if not copy.removed and self.is_dead(entry.host):
                continue  # the host registers again after it has refuted its death
            if not (itself and entry.host == sender):
                item = (entry.name, entry.kind, copy.version)
                said = self.store.has_said(entry.name, entry.kind, entry.host, copy.version, now)
                (taken if said else unheard).setdefault(entry.host, []).append(item)
                continue
            if self.store.put(copy, now, itself=True):
                fresh.append(copy)
            elif self.store.version(entry.name, entry.kind, entry.host) < 0:
                self.peer.shed(entry.host, "directory entries", f"its share of {self.store.capacity}")
                continue
            self._rooted.add(entry.name)
            self._renewed[entry.name, entry.kind, entry.host] = None
            taken.setdefault(entry.host, []).append((entry.name, entry.kind, copy.version))
        if fresh:
            for neighbour in self.pastry.root_neighbours(SIDE):
                self._copy_to(neighbour, fresh)
        for host in dict.fromkeys((*taken, *unheard)):
            held, missing = taken.get(host, ()), unheard.get(host, ())
            self.peer.send(host, Registered(tuple(held), tuple(missing), self.store.load_version(host)))

    def _on_renew(self, sender: str, message: Renew) -> None:
        now = self.peer.now
        held, missing = [], []
        for item in message.items:
            name, kind, version = item
            if self.pastry.joined and self._is_mine(name) and self.store.renew(name, kind, sender, version, now):
                self._renewed[name, kind, sender] = None
                held.append(item)
            else:
                missing.append(item)
        self.peer.send(sender, Registered(tuple(held), tuple(missing), self.store.load_version(sender)))

    def _on_load_update(self, sender: str, message: LoadUpdate) -> None:
        if not self.pastry.joined:
            return
        self._update_load(sender, message.load)
        self.peer.send(sender, Registered((), (), self.store.load_version(sender)))

    def _update_load(self, host: str, load: PeerLoad) -> None:
        """Store the load of a host with its entries, and copy it to the neighbours that store copies of these."""
        if self.store.update_load(host, load, self.peer.now, itself=True):
            for neighbour in self.pastry.root_neighbours(SIDE):
                self._copy_to(neighbour, (), ((host, load),))

    def _forward_renewals(self) -> None:
        """Forward renewals to the neighbours that store copies."""
        now = self.peer.now
        items: list[RenewedItem] = []
        for name, kind, host in self._renewed:
            renewal = self.store.renewal(name, kind, host, now)
            if renewal is not None and self._is_mine(name):
                items.append((name, kind, host, *renewal))
        self._renewed.clear()
        self.store.expire(now)
        self._rooted.intersection_update(self.store.names())
        if items and self.pastry.joined:
            for neighbour in self.pastry.root_neighbours(SIDE):
                for start in range(0, len(items), PAGE):
                    self.peer.send(neighbour, RenewCopies(tuple(items[start : start + PAGE])))
        self.peer.after(self.lease / 6 * (0.9 + 0.2 * self.peer.rng.random()), self._forward_renewals)

    def _on_renew_copies(self, sender: str, message: RenewCopies) -> None:
        now = self.peer.now
        missing = []
        for name, kind, host, version, remaining in message.items:
            if self._is_mine(name):
                continue  # its host renews it here
            if self.store.renew(name, kind, host, version, now, remaining) or self.is_dead(host):
                continue
            if self.store.version(name, kind, host) <= version:
                missing.append((name, kind, host))
        if missing:
            self.peer.send(sender, EntriesRequested(tuple(missing)))

    def _on_entries_requested(self, sender: str, message: EntriesRequested) -> None:
        copies = [self.store.copy(name, kind, host, self.peer.now) for name, kind, host in message.items]
        self._copy_to(sender, [copy for copy in copies if copy is not None])

    def _host_died(self, host: str) -> None:
        self.store.drop_host(host)

    # -- copies ------------------------------------------------------------------------------------------------------

    def _copy_to(self, address: str, copies: Sequence[EntryCopy], loads: Sequence[HostLoad] = ()) -> None:
        for start in range(0, max(len(copies), len(loads)), PAGE):
            self._ticket += 1
            page = slice(start, start + PAGE)
            message = Copies(self._ticket, tuple(copies[page]), tuple(loads[page]))
            self.copying[self._ticket] = _Copying(address, message)
            self.peer.send(address, message)
        if self.copying and (self._copier is None or self._copier.callback is None):
            self._copier = self.peer.after(COPY_RETRY, self._copy_again)

    def _copy_again(self) -> None:
        for number, copying in list(self.copying.items()):
            if copying.times >= COPIES or copying.to not in self.pastry.leaves:
                del self.copying[number]  # the next change of the leaf set brings another neighbour, which gets copies
                continue
            copying.times += 1
            self.peer.send(copying.to, copying.message)
        if self.copying:
            self._copier = self.peer.after(COPY_RETRY, self._copy_again)

    def _on_copies(self, sender: str, message: Copies) -> None:
        if not self.pastry.joined:
            return
        self.peer.send(sender, CopiesStored(message.number))
        self._store(message.copies)
        for host, load in message.loads:
            self.store.update_load(host, load, self.peer.now)

    def _store(self, copies: Iterable[EntryCopy]) -> None:
        now = self.peer.now
        for copy in copies:
            if not self.is_dead(copy.entry.host):
                self.store.put(copy, now)

    def _on_copies_stored(self, sender: str, message: CopiesStored) -> None:
        copying = self.copying.get(message.number)
        if copying is not None and copying.to == sender:
            del self.copying[message.number]

    def _changed(self) -> None:
        if self._mover is None or self._mover.callback is None:
            self._mover = self.peer.after(CHANGE_DELAY * (0.5 + self.peer.rng.random()), self._move)

    def _move(self) -> None:
        """Copy entries to the peers that the changed leaf set has made root or neighbour."""
        if not self.pastry.joined:
            return
        now = self.peer.now
        neighbours = self.pastry.root_neighbours(SIDE)
        fresh = [address for address in neighbours if address not in self._neighbours]
        rooted: set[str] = set()
        outgoing: dict[str, list[EntryCopy]] = {}
        for name in self.store.names():
            root = self.pastry.root_of(key_of(name))
            to: Iterable[str] = ()
            if root == self.peer.address:
                rooted.add(name)
                to = fresh if name in self._rooted else neighbours
            else:
                self.store.give_up(name)
                if name in self._rooted and root is not None:
                    to = (root,)
            for address in to:
                outgoing.setdefault(address, []).extend(self.store.copies(name, now))
        self._rooted, self._neighbours = rooted, neighbours
        for address, copies in outgoing.items():
            self._copy_to(address, copies)

    def _hand_over(self) -> None:
        """Copy all entries to the neighbours before leaving, since one of them becomes root."""
        now = self.peer.now
        held = [copy for name in self.store.names() if self._is_mine(name) for copy in self.store.copies(name, now)]
        others = [copy for copy in held if copy.entry.host != self.peer.address]
        for neighbour in self.pastry.root_neighbours(SIDE):
            self._copy_to(neighbour, others)
        self.copying.clear()
        self.pull_completed = False
        self.store = Store(self.store.capacity, self.lease)
        self._rooted.clear()

    # -- a peer that has just joined ---------------------------------------------------------------------------------

    def _joined(self) -> None:
        self._neighbours = self.pastry.root_neighbours(SIDE)
        self.pull_completed = False
        self._ticket += 1
        self._pull = self._ticket
        self._pull_from = {address: {} for address in self._neighbours}
        self._completed_neighbours.clear()
        if not self._pull_from or self.pastry.prebuilt:
            self._complete_pull()
        else:
            self._pull_again(self._pull, 0)

    def _pull_again(self, ticket: int, times: int) -> None:
        if self.pull_completed or ticket != self._pull:
            return
        if times >= PULLS:
            self._complete_pull()
            return
        for address in self.pastry.root_neighbours(SIDE):
            self._pull_from.setdefault(address, {})  # a neighbour that has joined since
        for address, pages in self._pull_from.items():
            if pages is not None:
                self.peer.send(address, Pull(ticket))
        self.peer.after(PULL_RETRY * (0.75 + 0.5 * self.peer.rng.random()), self._pull_again, ticket, times + 1)

    def _on_pull(self, sender: str, message: Pull) -> None:
        if not self.pastry.joined:
            return
        now = self.peer.now
        near: list[EntryCopy] = []
        for name in self.store.names():
            root = self.pastry.root_of(key_of(name))
            gap = None if root is None else self.pastry.leaves.gap(root, sender)
            if gap is None or gap <= SIDE + 1:  # one more, since the sender may not be in this leaf set yet
                near.extend(self.store.copies(name, now))
        pages = max(1, -(-len(near) // PAGE))
        for page in range(pages):
            copies = tuple(near[page * PAGE : (page + 1) * PAGE])
            self.peer.send(sender, Pulled(message.ticket, page, pages, self.pull_completed, copies))

    def _on_pulled(self, sender: str, message: Pulled) -> None:
        pages = self._pull_from.get(sender)
        if self.pull_completed or message.ticket != self._pull or pages is None:
            return
        self._store(message.copies)
        pages[message.page] = None
        if len(pages) < message.pages:
            return
        self._pull_from[sender] = None
        if message.pull_completed:
            self._completed_neighbours.add(sender)
        leaves = self.pastry.leaves
        sides = (leaves.left[:SIDE], leaves.right[:SIDE])
        if all(not self._completed_neighbours.isdisjoint(side) for side in sides) or not any(
            self._pull_from.get(address, {}) is not None for side in sides for address in side
        ):
            self._complete_pull()

    def _complete_pull(self) -> None:
        self.pull_completed = True
        self._pull_from.clear()
        self._changed()
        waiting, self.waiting, self._places = self.waiting, [], Shares(WAITING)
        for lookup in waiting:
            self._on_lookup(lookup.origin, lookup)

    def _on_lookup(self, sender: str, message: Lookup) -> None:
        if not self.pull_completed:
            if self._places.take(message.origin):
                self.waiting.append(message)
            else:
                self.peer.shed(message.origin, "look-ups", f"its share of {WAITING} that wait")
            return
        now = self.peer.now
        found = {}
        for index, name in enumerate(message.names):
            if index and not self._is_mine(name):
                self.pastry.route(key_of(name), Lookup(message.ticket, message.origin, (name,)))
            else:
                found[name] = self.store.get(name, now)
        self.peer.send(message.origin, Found(message.ticket, found))


def _nobody(address: str) -> bool:  # noqa: ARG001 - stands in for a failure detector
    return False
