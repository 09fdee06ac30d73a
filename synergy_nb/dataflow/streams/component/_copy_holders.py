"""The peers that hold copies of a component, the snapshot that each has, and who is waited for. No IO, no clock."""

from __future__ import annotations

from collections.abc import Iterable


class CopyHolders:
    """The peers that hold copies of a component.

    Inputs read since a snapshot are retained until all copies have the next one. A peer that does not answer is *left
    behind*: nothing is retained for it. When it answers again, it is waited for again, and could take over once it has
    a snapshot that was made after that.

    ``peers``: addresses of the peers.

    Examples
    --------
    >>> holders = CopyHolders(["a", "b"])
    >>> holders.acknowledged("a", 3, 100), holders.number
    (True, -1)
    >>> holders.leave_behind("b")
    >>> holders.number, sorted(holders.cannot_take_over)
    (3, ['b'])
    >>> holders.catch_up("b", 5, 200)
    >>> holders.acknowledged("b", 5, 180), holders.number, sorted(holders.cannot_take_over)
    (False, None, ['b'])
    >>> holders.acknowledged("b", 6, 220), holders.number, sorted(holders.cannot_take_over)
    (True, 3, [])
    """

    def __init__(self, peers: Iterable[str], synchronized: Iterable[str] = ()) -> None:
        self.numbers = dict.fromkeys(peers, -1)  # peer to the number of the last snapshot that it has; -1: none
        self.behind: set[str] = set()
        # addresses of those whose copies must have output before any reader is sent it
        self._synchronized = frozenset(synchronized)
        self.waited = bool(self.numbers)
        self._floors: dict[str, int] = {}  # of peers left behind: the last snapshot that is useless to them
        self._first: dict[str, int] = {}  # of later peers: the first snapshot after which all is retained for them
        self._read = dict.fromkeys(self.numbers, 0)  # bytes of inputs before the snapshot that each has

    def set_peers(self, peers: Iterable[str], read: int, synchronized: Iterable[str] = (), first: int = 0) -> None:
        """Set the peers with copies, once ``read`` bytes of inputs were read, and for which of them readers wait.

        ``first``: number of the first snapshot from which one that is new could go on.
        """
        self._synchronized = frozenset(synchronized)
        self._first = {peer: self._first.get(peer, 0) if peer in self.numbers else first for peer in peers}
        self.numbers = {peer: self.numbers.get(peer, -1) for peer in self._first}
        self._read = {peer: self._read.get(peer, read) for peer in self.numbers}
        self._floors = {peer: number for peer, number in self._floors.items() if peer in self.numbers}
        self.behind.intersection_update(self.numbers)
        self.waited = len(self.behind) < len(self.numbers)

    def acknowledged(self, peer: str, number: int, read: int) -> bool:
        """Record that a peer has a snapshot, made after ``read`` bytes of inputs; False if that was known."""
        if number <= max(self.numbers.get(peer, number), self._floors.get(peer, -1)):
            return False
        self._floors.pop(peer, None)
        self.numbers[peer] = number
        self._read[peer] = read
        return True

    def suits(self, peer: str, number: int) -> bool:
        """Whether a peer could go on from a snapshot, as what was read after it is retained."""
        return number >= self._first.get(peer, 0)

    def uncovered_bytes(self, peer: str, read: int) -> int:
        """Return the bytes of inputs that were read after the snapshot that a peer has."""
        return read - self._read.get(peer, 0)

    def leave_behind(self, peer: str) -> None:
        """Leave behind a peer that does not answer."""
        self.behind.add(peer)
        self.waited = len(self.behind) < len(self.numbers)

    def catch_up(self, peer: str, number: int, read: int) -> None:
        """Wait again for a peer that was left behind and answered after the snapshot of that number."""
        self.behind.discard(peer)
        self._floors[peer] = number
        self._read[peer] = read
        self.waited = True

    @property
    def confirming(self) -> frozenset[str]:
        """Peers whose copies must have output before any reader is sent it."""
        return self._synchronized - self.behind

    @property
    def number(self) -> int | None:
        """Number of the last snapshot that all awaited peers have; None if there is none, or no peer is awaited."""
        if not self.waited or any(peer not in self.behind for peer in self._floors):
            return None
        return min(number for peer, number in self.numbers.items() if peer not in self.behind)

    def missing(self, number: int, peers: Iterable[str]) -> set[str]:
        """Return those of the peers that are waited for and do not have the snapshot of this number yet."""
        return {peer for peer in peers if self.numbers.get(peer, number) < number} - self.behind

    @property
    def cannot_take_over(self) -> frozenset[str]:
        """Peers that could not take over: inputs read since their last snapshot may not be retained any more."""
        return frozenset((*self.behind, *self._floors))
