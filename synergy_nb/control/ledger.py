"""The resources of a peer, and who holds them.

The :class:`Ledger` of a peer is the only place where its processing capacity and the bandwidth of its incoming virtual
links are taken and given back, so that nothing is promised twice: a *reservation* is transient and expires, a
*commitment* lasts as long as its application (section 2.3.1, step 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

__all__ = ["ROUNDING", "Ledger"]

RECOUNT: Final = 256  # changes after which sums are taken anew, before what rounding adds up to matters
ROUNDING: Final = 1e-9  # share of a resource by which sums in different orders may differ

Link = tuple[str, str]
"""Upstream peer and upstream operator: whose stream comes over the virtual link from that peer."""

CORES: Final = ""  # the resource that is no link; links go by the address of the upstream peer


class _Share:
    """What one request holds on a peer.

    Attributes
    ----------
    reserved, committed
        Operator to amounts by (resource, upstream operator); cores have no upstream operator.
    limit
        Resource to what was left for this request when it last reserved or committed.
    """

    __slots__ = ("committed", "limit", "reserved")

    def __init__(self) -> None:
        self.reserved: dict[str, dict[Link, float]] = {}
        self.committed: dict[str, dict[Link, float]] = {}
        self.limit: dict[str, float] = {}

    def held(self, resource: str) -> float:
        """Reserved amount of a resource.

        The operators that a request probes on a peer are alternatives as well as parts of one graph, so together they
        may ask for more than there is. The hold is never more than there was, and covers every graph that fits.
        """
        return min(_sum(self.reserved, resource), self.limit.get(resource, 0.0))


def _sum(claims: Mapping[str, Mapping[Link, float]], resource: str) -> float:
    return sum(amount for claim in claims.values() for (of, _), amount in claim.items() if of == resource)


class Ledger:
    """Processing capacity of one peer and bandwidth of its incoming virtual links, and who holds them.

    Parameters
    ----------
    cores
        Processing capacity, in cores.
    bandwidth
        Bandwidth of each incoming virtual link, in bytes/s.
    bandwidth_from
        Gives the bandwidth of the virtual link from an upstream peer, where it is not the same for all.
    enforce
        Whether more than there is can be refused; only policies to compare with go without.

    Attributes
    ----------
    on_change : list of callables ()
        Told when something was promised for good, or given back.

    Notes
    -----
    At all times, and for every resource, commitments and holds together do not exceed the capacity.

    Examples
    --------
    >>> ledger = Ledger(cores=1.0, bandwidth=1e6)
    >>> ledger.reserve("r1", "filter", 0.75, ("peer-2", "packets"), 1000.0)
    >>> ledger.residual_cores("another request")
    0.25
    >>> ledger.commit("r1", "filter", 0.75, {("peer-2", "packets"): 1000.0})
    ''
    >>> ledger.release("r1")
    True
    >>> ledger.residual_cores("another request")
    1.0
    """

    def __init__(
        self,
        cores: float,
        bandwidth: float,
        bandwidth_from: Callable[[str], float] | None = None,
        *,
        enforce: bool = True,
    ) -> None:
        for field, value in (("cores", cores), ("bandwidth", bandwidth)):
            if not value > 0:
                raise ValueError(f"{field}: {value}; expected a positive number")
        self.cores = cores
        self.enforce = enforce
        self.bandwidth_from = bandwidth_from or (lambda _upstream: bandwidth)
        self.on_change: list[Callable[[], None]] = []
        self._shares: dict[str, _Share] = {}
        self._holding: dict[str, _Share] = {}  # of these, by request, all that hold reservations, and perhaps others
        self._promised: dict[str, float] = {}  # by resource, what is committed to all
        self._changes = 0

    # -- what is left --------------------------------------------------------------------------------------------

    def _capacity(self, resource: str) -> float:
        return self.cores if resource == CORES else self.bandwidth_from(resource)

    def _residual(self, request: str, resource: str) -> float:
        left = self._capacity(resource) - self._promised.get(resource, 0.0)
        for other, share in self._holding.items():
            if other != request:
                left -= share.held(resource)
        return left

    def _count(self, claims: Iterable[Mapping[Link, float]], sign: float) -> None:
        """Add what has been committed, or given back, to what is promised to all."""
        for claim in claims:
            for (resource, _), amount in claim.items():
                self._promised[resource] = self._promised.get(resource, 0.0) + sign * amount
        self._changes += 1
        if self._changes >= RECOUNT or not any(share.committed for share in self._shares.values()):
            self._changes = 0
            self._promised = self._recounted()

    def _recounted(self) -> dict[str, float]:
        """What is promised, taken anew from all commitments."""
        totals: dict[str, float] = {}
        for share in self._shares.values():
            for claim in share.committed.values():
                for (resource, _), amount in claim.items():
                    totals[resource] = totals.get(resource, 0.0) + amount
        return totals

    def residual_cores(self, request: str) -> float:
        """Residual processing capacity rp for ``request``, in cores: what it holds itself is not taken off."""
        return self._residual(request, CORES) + self._own(request, CORES)

    def residual_bandwidth(self, request: str, upstream: str) -> float:
        """Residual bandwidth rb of the link from ``upstream`` for ``request``, in bytes/s, likewise."""
        return self._residual(request, upstream) + self._own(request, upstream)

    def _own(self, request: str, resource: str) -> float:
        """What is committed to a request already."""
        share = self._shares.get(request)
        return 0.0 if share is None else _sum(share.committed, resource)

    # -- taking and giving back ------------------------------------------------------------------------------------

    def reserve(self, request: str, operator: str, cores: float, upstream: Link | None, bandwidth: float) -> None:
        """Hold ``cores`` and, from ``upstream`` (peer, operator), ``bandwidth`` for one operator of a request.

        Probes that reach the same component by other paths add their link and take no cores twice. What is committed
        to the request already, as the place of a replica was, needs not be held.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.committed:
            return
        self._holding[request] = share
        claim = share.reserved.setdefault(operator, {})
        claim[CORES, ""] = cores
        share.limit[CORES] = max(self._residual(request, CORES), 0.0)
        if upstream is not None:
            claim[upstream] = bandwidth
            share.limit[upstream[0]] = max(self._residual(request, upstream[0]), 0.0)

    def commit(self, request: str, operator: str, cores: float, links: Mapping[Link, float]) -> str:
        """Promise ``cores`` and, by upstream (peer, operator), bytes/s for good; empty, or the reason why not.

        A reservation of the same request and operator is used up. Without one (it has expired, or an earlier graph of
        the request has used it up), what is left decides.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.committed:
            return ""
        share.reserved.pop(operator, None)
        return self._take(request, share.committed, operator, cores, links, beside=False)

    def hold(self, request: str, operator: str, cores: float, links: Mapping[Link, float]) -> str:
        """Reserve for one operator beside all else that the request holds here; empty, or the reason why not.

        Unlike those of :meth:`reserve`, its operators are no alternatives: what is held this way can be committed.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.reserved or operator in share.committed:
            return ""
        return self._take(request, share.reserved, operator, cores, links, beside=True)

    def _take(
        self,
        request: str,
        claims: dict[str, dict[Link, float]],
        operator: str,
        cores: float,
        links: Mapping[Link, float],
        *,
        beside: bool,
    ) -> str:
        share = self._shares[request]
        asked: dict[str, float] = {CORES: cores}
        for (upstream, _), bandwidth in links.items():
            asked[upstream] = asked.get(upstream, 0.0) + bandwidth
        for resource, amount in asked.items():
            left = self._residual(request, resource) - (share.held(resource) if beside else 0.0)
            if self.enforce and left < amount - ROUNDING * self._capacity(resource):
                self._tidy(request)
                if resource == CORES:
                    return f"processing capacity: {left:.4g} of {amount:.4g} cores left"
                return f"bandwidth from {resource}: {left:.4g} of {amount:.4g} bytes/s left"
        claim = claims[operator] = {(CORES, ""): cores, **links}
        if claims is share.committed:
            self._count([claim], 1.0)
        else:
            self._holding[request] = share
        for resource in asked:  # of what was not reserved, some was taken from what others left since
            share.limit[resource] = max(self._residual(request, resource), 0.0)
        self._changed()
        return ""

    def drop(self, request: str, operator: str) -> None:
        """Give back what one operator of a request holds."""
        share = self._shares.get(request)
        if share is not None:
            share.reserved.pop(operator, None)
            claim = share.committed.pop(operator, None)
            if claim is not None:
                self._count([claim], -1.0)
            self._tidy(request)
            self._changed()

    def expire(self, request: str) -> bool:
        """Drop the reservations of a request; its commitments stay."""
        share = self._shares.get(request)
        if share is None or not share.reserved:
            return False
        share.reserved.clear()
        self._tidy(request)
        return True

    def release(self, request: str) -> bool:
        """Drop all that a request holds."""
        share = self._shares.pop(request, None)
        self._holding.pop(request, None)
        if share is not None and share.committed:
            self._count(share.committed.values(), -1.0)
            self._changed()
        return share is not None

    def _changed(self) -> None:
        for listener in self.on_change:
            listener()

    def _tidy(self, request: str) -> None:
        share = self._shares[request]
        if not share.reserved:
            self._holding.pop(request, None)
            if not share.committed:
                del self._shares[request]

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def load(self) -> float:
        """Committed share of the capacity."""
        return self._promised.get(CORES, 0.0) / self.cores

    @property
    def requests(self) -> frozenset[str]:
        """Requests that hold anything."""
        return frozenset(self._shares)

    @property
    def reservations(self) -> frozenset[str]:
        """Requests that hold transient reservations."""
        return frozenset(request for request, share in self._shares.items() if share.reserved)

    def overbooked(self) -> str | None:
        """Which resource is promised beyond its capacity, or None: the invariant that tests hold."""
        totals = self._recounted()
        for share in self._shares.values():
            for resource in {of for claim in share.reserved.values() for of, _ in claim}:
                totals[resource] = totals.get(resource, 0.0) + share.held(resource)
        for resource, taken in totals.items():
            capacity = self._capacity(resource)
            if taken > capacity * (1.0 + 1e-6):
                what = "cores" if resource == CORES else f"bytes/s from {resource}"
                return f"{taken:g} of {capacity:g} {what} promised"
        return None
