"""Who keeps copies of a component, which snapshot each has, and which of them are waited for. No IO, no clock."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CopyHolders"]


class CopyHolders:
    """The peers that keep copies of a component.

    What the component has read since a snapshot is kept until all have the next one. A peer of which nothing is heard
    is *left behind*: nothing is kept for it. When it is heard of again, it is waited for again, and could take over
    once it has a snapshot that was made from then on.

    Parameters
    ----------
    peers
        Addresses of the peers.

    Attributes
    ----------
    numbers : dict
        Peer to the number of the last snapshot that it has; -1: none.
    behind : set of str
        Peers that are left behind.
    waited : bool
        Whether anybody is waited for.

    Examples
    --------
    >>> keepers = CopyHolders(["a", "b"])
    >>> keepers.has("a", 3, 100), keepers.number
    (True, -1)
    >>> keepers.drop("b")
    >>> keepers.number, sorted(keepers.cannot_take_over)
    (3, ['b'])
    >>> keepers.catch_up("b", 5, 200)
    >>> keepers.has("b", 5, 180), keepers.number, sorted(keepers.cannot_take_over)
    (False, None, ['b'])
    >>> keepers.has("b", 6, 220), keepers.number, sorted(keepers.cannot_take_over)
    (True, 3, [])
    """

    def __init__(self, peers: Iterable[str]) -> None:
        self.numbers = dict.fromkeys(peers, -1)
        self.behind: set[str] = set()
        self.waited = bool(self.numbers)
        self._floors: dict[str, int] = {}  # of who has been behind: last snapshot that is of no use to it any more
        self._read = dict.fromkeys(self.numbers, 0)  # bytes of inputs up to the snapshot that each has

    def keep(self, peers: Iterable[str], read: int) -> None:
        """These keep copies from now on, when so many bytes of inputs have been read."""
        self.numbers = {peer: self.numbers.get(peer, -1) for peer in peers}
        self._read = {peer: self._read.get(peer, read) for peer in self.numbers}
        self._floors = {peer: number for peer, number in self._floors.items() if peer in self.numbers}
        self.behind.intersection_update(self.numbers)
        self.waited = len(self.behind) < len(self.numbers)

    def has(self, peer: str, number: int, read: int) -> bool:
        """A peer has a snapshot, up to which so many bytes had been read; False if that is old news."""
        if number <= max(self.numbers.get(peer, number), self._floors.get(peer, -1)):
            return False
        self._floors.pop(peer, None)
        self.numbers[peer] = number
        self._read[peer] = read
        return True

    def since(self, peer: str, read: int) -> int:
        """Bytes of inputs that have been read since the snapshot that a peer has."""
        return read - self._read.get(peer, 0)

    def drop(self, peer: str) -> None:
        """Nothing is heard of a peer."""
        self.behind.add(peer)
        self.waited = len(self.behind) < len(self.numbers)

    def catch_up(self, peer: str, number: int, read: int) -> None:
        """A peer that was left behind is heard of, after the snapshot of that number."""
        self.behind.discard(peer)
        self._floors[peer] = number
        self._read[peer] = read
        self.waited = True

    @property
    def number(self) -> int | None:
        """The snapshot that all have who are waited for; None: there is none, or nobody is."""
        if not self.waited or any(peer not in self.behind for peer in self._floors):
            return None
        return min(number for peer, number in self.numbers.items() if peer not in self.behind)

    def missing(self, number: int, peers: Iterable[str]) -> set[str]:
        """Which of these peers are waited for and have no snapshot of this number yet."""
        return {peer for peer in peers if self.numbers.get(peer, number) < number} - self.behind

    @property
    def cannot_take_over(self) -> frozenset[str]:
        """Peers that could not take over: what was read since their last snapshot may not be kept any more."""
        return frozenset((*self.behind, *self._floors))
