"""The snapshots of a component as cuts, and how far those on all copies cover its inputs and its output.

Theory of operation
-------------------
A *cut* says what a snapshot covers: a point in each input and one in the output, taken between two executions. Cuts are
numbered from 0 in each epoch. A copy acknowledges a number, and the cut of that number says what need not be retained
any more: so a cut is kept until every copy that is waited for has a later one, and no longer. The *stable* point is the
end of the last cut that all of them have; orders of inputs before it are recorded nowhere, as nobody replays them.
"""

from __future__ import annotations

from synergy_nb.dataflow.streams.log.values import ORIGIN, SnapshotCut


class Cuts:
    """The cuts of one component.

    Examples
    --------
    >>> cuts = Cuts()
    >>> for _ in range(2):
    ...     cuts.begin(100)
    ...     cuts.add(SnapshotCut({}, ORIGIN, (), (), read=cuts.read))
    >>> cuts.number, cuts.read_before(0), cuts.read_before(1)
    (1, 100, 200)
    >>> cuts.cover(1) is cuts.of(1), cuts.read_before(0)
    (True, None)
    """

    def __init__(self) -> None:
        self.number = -1  # number of the last snapshot; -1: none
        self.stable = ORIGIN  # point in the output that a snapshot on all copies covers
        self.read = 0  # bytes of inputs that were executed before the last snapshot
        self._found: dict[int, SnapshotCut] = {}

    def begin(self, size: int) -> None:
        """Begin a snapshot, before which so many bytes of inputs were executed since the last one."""
        self.number += 1
        self.read += size

    def add(self, cut: SnapshotCut) -> None:
        """Add the cut of the snapshot that has begun."""
        self._found[self.number] = cut

    def of(self, number: int) -> SnapshotCut:
        """Return the cut that a snapshot covers."""
        return self._found[number]

    def read_before(self, number: int) -> int | None:
        """Return the bytes of inputs that were executed before a snapshot; None if its cut is not needed any more."""
        cut = self._found.get(number)
        return None if cut is None else cut.read

    def cover(self, number: int) -> SnapshotCut | None:
        """Note that all copies have a snapshot; return its cut, or None if that was known before."""
        cut = self._found.get(number)
        if cut is not None:
            self.stable = max(self.stable, cut.end)
            for old in [old for old in self._found if old < number]:
                del self._found[old]
        return cut
