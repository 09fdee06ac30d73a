"""Shares of a peer's memory: the bytes that each component uses and needs, and which one fails when memory runs out.

If an allocation fails within Polars or Arrow, the process ends, and with it the operators of all applications on the
peer. So every operator estimates the bytes of its state and of its next step, and a component whose sum exceeds its
share fails before the step begins. The shares of components may add up to more than the peer has: when all components
together would exceed the peer's memory, the largest component fails, whichever made the request.

A user may have a quota: the bytes that all components of his applications may use together. Of these, the component
fails that would exceed it, so that he harms nobody else.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

from synergy_nb.errors import SynergyError
from synergy_nb.plan.operators.catalogue import KINDS, PART

__all__ = ["Memory", "MemoryExceeded", "MemoryShare", "amount"]

_OF_PARTS: Final = "see that its input has punctuations, or shorten its windows"


def amount(size: float) -> str:
    """Format a number of bytes for users, with three digits.

    >>> amount(1_234_567), amount(12), amount(2.5e9)
    ('1.23 MB', '12 B', '2.5 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:.0f} {name}"
    return f"{size:.0f} B"


class MemoryExceeded(SynergyError, ValueError):
    """A component needs more memory than its share."""


class Memory:
    """The memory that the components of one peer share."""

    def __init__(
        self,
        limit: float = math.inf,  # limit of all components together, bytes; infinite for no limit
        # callback, in any thread, for the case that a step of another component would exceed `limit`; its arguments are
        # the largest share and the reason why that share's component has to fail
        exceeded: Callable[[MemoryShare, MemoryExceeded], None] = lambda _share, _error: None,
    ) -> None:
        self.limit = limit
        self.used = 0  # bytes that all components use
        # function that returns the user of an application, and the bytes that his components may use together; an empty
        # name for none
        self.quota_of: Callable[[str], tuple[str, float]] = lambda _application: ("", math.inf)
        self._used_by: dict[str, int] = {}  # user with a quota to the bytes that his components use
        self._exceeded = exceeded
        self._shares: dict[MemoryShare, None] = {}
        self._lock = threading.Lock()

    def share(self, application: str, operator: str, limit: float | None = None) -> MemoryShare:
        """Create the share of a new component, of ``limit`` bytes; None: all memory of the peer."""
        share = MemoryShare(self, application, operator, self.limit if limit is None else min(limit, self.limit))
        share.user, share.quota = self.quota_of(application)
        with self._lock:
            self._shares[share] = None
        return share

    def release(self, share: MemoryShare) -> None:
        """Release the share of a component that has been, or is about to be, removed."""
        with self._lock:
            if self._shares.pop(share, share) is None:
                self._count(share, -share.used)

    def use(self, share: MemoryShare, size: int) -> None:
        """Set the bytes that a component uses."""
        with self._lock:
            if share in self._shares:
                self._count(share, size - share.used)
            share.used = size

    def _count(self, share: MemoryShare, size: int) -> None:
        """Count bytes that a component uses more, or less."""
        self.used += size
        if share.user:
            left = self._used_by.get(share.user, 0) + size
            if left:
                self._used_by[share.user] = left
            else:
                self._used_by.pop(share.user, None)

    def used_by(self, user: str) -> int:
        """Bytes that the components of a user with a quota use."""
        return self._used_by.get(user, 0)

    def make_room(self, share: MemoryShare, needs: float) -> None:
        """Make the largest component fail if the peer lacks ``needs`` bytes for a step of the component of ``share``.

        Raises ``MemoryExceeded`` if the component of ``share`` is the largest itself.
        """
        while True:
            with self._lock:
                together = self.used + needs
                if together <= self.limit or share not in self._shares:
                    return
                largest = max(self._shares, key=lambda each: each.used + (needs if each is share else 0.0))
            error = largest.excess(needs if largest is share else 0.0, together)
            if largest is share:
                raise error
            self.release(largest)
            self._exceeded(largest, error)


class MemoryShare:
    """The share of one component in a peer's memory; made by :meth:`Memory.share`."""

    def __init__(self, memory: Memory, application: str, operator: str, limit: float) -> None:
        self.application = application
        self.operator = operator
        self.kind = ""
        self.limit = limit  # limit of the component, bytes, including its next step
        self.used = 0
        self.user, self.quota = "", math.inf  # its user, and the bytes of all his components; an empty name for none
        self._memory = memory

    def restrict(self, kind: str, most: float | None) -> None:
        """Set the kind of the component's operator; allow it at most so many bytes, None: no fewer than until now."""
        self.kind = kind
        self.limit = self.limit if most is None else min(self.limit, most)

    def use(self, size: int) -> None:
        """Set the bytes of the state.

        Raises ``MemoryExceeded`` if the component, or all components of the peer together, exceed their limit.
        """
        if size != self.used:
            self._memory.use(self, size)
        if size > self.limit or (self.user and self._beyond_quota(0.0)):
            raise self.excess(0.0)
        if self._memory.used > self._memory.limit:
            self._memory.make_room(self, 0.0)

    def admit(self, needs: float) -> None:
        """Check that a step which takes up to ``needs`` bytes in addition to the state may begin.

        Raises ``MemoryExceeded`` if the step does not fit into the share, or into the memory of the peer.
        """
        if self.used + needs > self.limit or (self.user and self._beyond_quota(needs)):
            raise self.excess(needs)
        if self._memory.used + needs > self._memory.limit:
            self._memory.make_room(self, needs)

    def _beyond_quota(self, needs: float) -> bool:
        return bool(self.user) and self._memory.used_by(self.user) + needs > self.quota

    def release(self) -> None:
        """Release the share of a component that was removed."""
        self._memory.release(self)

    def excess(self, needs: float, together: float = 0.0) -> MemoryExceeded:
        """Return the error of a component that exceeds its limit.

        ``needs``: bytes that its next step needs in addition to its state; ``together``: bytes that all components of
        the peer would use, if that is the limit exceeded.
        """
        step = f" and its next step needs up to {amount(needs)}" if needs else ""
        if together:
            why = (
                f"the components of this peer would take {amount(together)} of {amount(self._memory.limit)} together, "
                "of which it takes most"
            )
        elif self._beyond_quota(needs):
            together = self._memory.used_by(self.user) + needs
            quota = f"of the {amount(self.quota)} that he may have at this peer"
            why = f"the components of its user {self.user!r} would take {amount(together)} together, {quota}"
        else:
            why = f"its share is {amount(self.limit)}"
        return self._error(f"it uses {amount(self.used)}{step}, but {why}")

    def failed(self, error: BaseException) -> MemoryExceeded:
        """Return the error of a component of which an allocation has failed."""
        found = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
        used = f"it uses {amount(self.used)} of its share of {amount(self.limit)}"
        return self._error(f"{used}, and could not be given more: {found}")

    def _error(self, what: str) -> MemoryExceeded:
        remedy = KINDS[self.kind].remedy if self.kind in KINDS else _OF_PARTS if self.kind == PART else ""
        hint = remedy or "make its tuples smaller"
        whose = f"operator {self.operator!r} ({self.kind}) of application {self.application!r}"
        more = "or give it more with memory= of the sink or of the Cluster"
        return MemoryExceeded(f"out of memory: {whose}: {what}; {hint}, {more}")
