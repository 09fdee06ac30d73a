"""The messages of the directory: between hosts, roots and the neighbours that store copies."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import Meta

from synergy_nb.control.peer import Message
from synergy_nb.overlay.directory_entries import Entry, EntryCopy, Kind, PeerLoad

__all__ = [
    "Copies",
    "CopiesStored",
    "EntriesRequested",
    "Found",
    "HostLoad",
    "Item",
    "LoadUpdate",
    "Lookup",
    "Pull",
    "Pulled",
    "Register",
    "Registered",
    "Renew",
    "RenewCopies",
    "RenewedItem",
]  # fmt: skip

#: Items of a message, which are sent in pages; a longer list is none that a peer sends.
MOST: Final = Meta(max_length=4096)
Item = tuple[str, Kind, int]  # name, kind, version of an entry of the sender or the receiver
RenewedItem = tuple[str, Kind, str, int, float]  # name, kind, host, version, seconds left
HostLoad = tuple[str, PeerLoad]  # host, its load


class Register(Message, frozen=True, gc=False):
    """Entries that the sender (their host) registers; the message is routed to the root of the first entry's key."""

    routed: ClassVar[bool] = True

    copies: Annotated[tuple[EntryCopy, ...], MOST]


class Registered(Message, frozen=True, gc=False):
    """A root's answer to a host."""

    held: tuple[Item, ...]  # entries that it stores
    missing: tuple[Item, ...]  # entries that it does not store, or of which it is not the root
    load: int  # version of the host's load that it stores; -1 if it stores none


class Renew(Message, frozen=True, gc=False):
    """Entries whose leases the sender (their host) renews at a root."""

    items: Annotated[tuple[Item, ...], MOST]


class LoadUpdate(Message, frozen=True, gc=False):
    """The load of the sender, which has left its level, for a root of components of the sender."""

    load: PeerLoad


class Copies(Message, frozen=True, gc=False):
    """Copies of entries and of loads of hosts: for a neighbour of the root that stores copies, or for a new root."""

    number: int
    copies: Annotated[tuple[EntryCopy, ...], MOST]
    loads: tuple[HostLoad, ...] = ()


class CopiesStored(Message, frozen=True, gc=False):
    """The acknowledgement of :class:`Copies` with that number."""

    number: int


class RenewCopies(Message, frozen=True, gc=False):
    """Renewals of entries, which a root forwards to the neighbours that store copies."""

    items: Annotated[tuple[RenewedItem, ...], MOST]


class EntriesRequested(Message, frozen=True, gc=False):
    """A neighbour asks a root for entries (name, kind, host) that were renewed but that it does not hold."""

    items: Annotated[tuple[tuple[str, Kind, str], ...], MOST]


class Lookup(Message, frozen=True, gc=False):
    """A look-up of names by the peer ``origin``; the message is routed to the root of the first name."""

    routed: ClassVar[bool] = True

    ticket: int
    origin: str
    names: Annotated[tuple[str, ...], MOST]


class Found(Message, frozen=True, gc=False):
    """The answer to a look-up: the entries of some of its names."""

    ticket: int
    found: dict[str, tuple[Entry, ...]]


class Pull(Message, frozen=True, gc=False):
    """A peer that has just joined asks a neighbour for the entries that it is to store."""

    ticket: int


class Pulled(Message, frozen=True, gc=False):
    """One of ``pages`` messages that answer a pull; ``pull_completed`` if the sender has completed its own pull."""

    ticket: int
    page: int
    pages: int
    pull_completed: bool
    copies: Annotated[tuple[EntryCopy, ...], MOST]
