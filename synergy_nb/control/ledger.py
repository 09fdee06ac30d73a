"""The resources of a peer: capacity, reservations and commitments.

Only the :class:`Ledger` of a peer allocates and releases its processing capacity and the bandwidth of its incoming
virtual links, of its uplink and of its downlink, so no resource is allocated twice. All that arrives over virtual links
also passes the downlink. What leaves a peer is known to that peer where it chooses the readers, as in the placement of
replicas (:meth:`Ledger.send`); uplink and downlink are infinite unless stated.

One thread executes all operators of a peer. So together they get no more than what a thread does in a second (the
*server*), however many cores the peer has. Only what runs elsewhere on the machine, a part on Spark, may have the rest.

A *reservation* is transient and
expires; a *commitment* lasts until its application ends (section 2.3.1, step 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from synergy_nb.plan.terms.units import counted

__all__ = ["ROUNDING", "Ledger"]

RECOUNT: Final = 256  # changes after which sums are computed anew, so that rounding errors do not accumulate
ROUNDING: Final = 1e-9  # share of a resource by which sums in different orders may differ

Link = tuple[str, str]
"""Upstream peer and upstream operator, whose stream arrives over the virtual link from that peer."""

CORES: Final = ""  # key of the processing capacity; a link has the address of its upstream peer as its key
UPLINK: Final = "\0uplink"  # key of the uplink; no peer has such an address
DOWNLINK: Final = "\0downlink"
# key of the cores of the machine, for a peer that has more of them than its thread can use
MACHINE: Final = "\0machine"
# prefix of the key of what an operator sends to other peers; no id of an operator begins like this
SENT: Final = "\0sent by "
USER: Final = "\0user "  # prefix of the key of the cores that the components of one user may have together
MEMORY: Final = "\0memory of "  # and of the bytes of memory


class _Share:
    """The resources that one request holds at a peer."""

    __slots__ = ("committed", "limit", "reserved")

    def __init__(self) -> None:
        # reserved, committed: operator, then (resource, upstream operator), to the amount; cores have no upstream
        # operator
        self.reserved: dict[str, dict[Link, float]] = {}
        self.committed: dict[str, dict[Link, float]] = {}
        # resource to the amount that was left for this request when it last reserved or committed
        self.limit: dict[str, float] = {}

    def reserved_amount(self, resource: str) -> float:
        """Reserved amount of a resource.

        Of the operators that a request probes on a peer, some are alternatives and some belong to one graph, so
        together they may exceed the capacity. The reserved amount is at most the amount that was left, which covers
        every graph that fits.
        """
        return min(_sum(self.reserved, resource), self.limit.get(resource, 0.0))


def _sum(claims: Mapping[str, Mapping[Link, float]], resource: str) -> float:
    return sum(amount for claim in claims.values() for (of, _), amount in claim.items() if of == resource)


class Ledger:
    """Processing capacity of one peer and bandwidth of its incoming virtual links, and the requests that hold them.

    ``cores``: processing capacity for operators, in cores: what the peer offers, or less if its thread does less;
    ``machine``: processing capacity for operators and parts on Spark together, in cores.

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
        bandwidth: float,  # bandwidth of each incoming virtual link, in bytes/s
        # function from the address of an upstream peer to the bandwidth of the link from it, bytes/s; None if all links
        # have the same `bandwidth`
        bandwidth_from: Callable[[str], float] | None = None,
        *,
        # whether the measured bandwidth of a link is what may be promised, where there is one, instead of the
        # configured
        promise_measured: bool = False,
        enforce: bool = True,  # whether to refuse requests beyond the capacity; False only for baselines in experiments
        # uplink, downlink: bandwidth of all that the peer sends, and of all that it receives, bytes/s
        uplink: float = math.inf,
        downlink: float = math.inf,
        # cores that the thread which executes the operators can use; None: all cores of the peer. A peer that offers a
        # quarter of a core has a thread of a whole one, too: tuples wait for the thread, promises are for the quarter
        server: float | None = None,
    ) -> None:
        self.server = cores if server is None else server
        given = {"cores": cores, "bandwidth": bandwidth, "uplink": uplink, "downlink": downlink, "server": self.server}
        for field, value in given.items():
            if not value > 0:
                raise ValueError(f"{field}: {value}; expected a positive number")
        self.cores, self.machine = min(cores, self.server), cores
        self.enforce = enforce
        self.uplink = uplink
        self.downlink = downlink
        self.promise_measured = promise_measured
        self.measured: dict[str, float] = {}
        self._floors: dict[str, float] = {}  # upstream peer to what was allocated when less than that was measured
        self.bandwidth_from = bandwidth_from or (lambda _upstream: bandwidth)
        self.on_change: list[Callable[[], None]] = []  # listeners, called after each commitment and each release
        # called with each request whose last reservation is released, expires, or becomes a commitment
        self.on_unreserved: list[Callable[[str], None]] = []
        self._shares: dict[str, _Share] = {}
        # request to its share, for all shares with reservations. Nobody is in here that has only commitments: each
        # acknowledgement of a stream asks what is left
        self._holding: dict[str, _Share] = {}
        self._committed: dict[str, float] = {}  # resource to the amount committed to all requests
        self._users: dict[str, str] = {}  # request to the user on whom it counts, where that one has a limit
        self._quotas: dict[str, float] = {}  # resource of a user to what his requests may have together
        self._changes = 0

    # -- residual resources --------------------------------------------------------------------------------------

    def count_on(self, request: str, user: str, cores: float, memory: float = math.inf) -> None:
        """Count what a request holds on a user, whose requests may have so many cores and bytes together."""
        self._users[request] = user
        self._quotas[USER + user], self._quotas[MEMORY + user] = cores, memory

    def _capacity(self, resource: str) -> float:
        if resource.startswith((USER, MEMORY)):
            return self._quotas[resource]
        if resource in (CORES, MACHINE, UPLINK, DOWNLINK):
            known = {CORES: self.cores, MACHINE: self.machine, UPLINK: self.uplink, DOWNLINK: self.downlink}
            return known[resource]
        measured = self.measured.get(resource) if self.promise_measured else None
        if measured is None:
            return self.bandwidth_from(resource)
        return max(measured, self._floors.get(resource, 0.0))

    def measure(self, upstream: str, bandwidth: float) -> None:
        """Take the measured bandwidth of the link from a peer, bytes/s; allocations on the link stay as they are."""
        self.measured[upstream] = bandwidth
        self._floors[upstream] = math.inf
        self._lower_floors()

    def _lower_floors(self) -> None:
        """Reduce what links count as promised beyond their bandwidth to what is still allocated of them."""
        for upstream, floor in tuple(self._floors.items()):
            held = sum(share.reserved_amount(upstream) for share in self._holding.values())
            allocated = min(floor, self._committed.get(upstream, 0.0) + held)
            if allocated > self.measured[upstream]:
                self._floors[upstream] = allocated
            else:
                del self._floors[upstream]

    def bandwidth_account(self, upstream: str, required: float, left: float) -> str:
        """Words for a link that has not enough left; empty where numbers say all, as nothing was measured.

        ``upstream``: address of the peer from which the link comes; ``required``, ``left``: bytes/s.
        """
        measured, configured = self.measured.get(upstream), self.bandwidth_from(upstream)
        if measured is None:
            return ""
        counts = "measured" if self.promise_measured else "configured"
        both = f"configured for {configured:.4g} bytes/s, measured to carry {measured:.4g}"
        return (
            f"{left:.4g} bytes/s left where {required:.4g} are needed, from {upstream}: {both}; the {counts} one counts"
        )

    def _residual(self, request: str, resource: str) -> float:
        left = self._capacity(resource) - self._committed.get(resource, 0.0)
        for other, share in self._holding.items():
            # reservations of the request itself stay available to it: they are alternatives, of which one graph is
            # committed
            if other != request:
                left -= share.reserved_amount(resource)
        return left

    def _count(self, claims: Iterable[Mapping[Link, float]], sign: float) -> None:
        """Add committed amounts (``sign`` 1) to the totals, or subtract released ones (``sign`` -1)."""
        for claim in claims:
            for (resource, _), amount in claim.items():
                self._committed[resource] = self._committed.get(resource, 0.0) + sign * amount
        self._changes += 1
        # added and subtracted amounts leave rounding errors: a free peer has to have exactly all that it offers
        if self._changes >= RECOUNT or not any(share.committed for share in self._shares.values()):
            self._changes = 0
            self._committed = self._recounted()

    def _recounted(self) -> dict[str, float]:
        """Resource to its committed amount, added up anew over all commitments."""
        totals: dict[str, float] = {}
        for share in self._shares.values():
            for claim in share.committed.values():
                for (resource, _), amount in claim.items():
                    totals[resource] = totals.get(resource, 0.0) + amount
        return totals

    def residual_cores(self, request: str, *, external: bool = False) -> float:
        """Residual processing capacity rp for ``request``, in cores; its own resources are not subtracted.

        It is that for operators, or for an ``external`` one, which the peer's thread does not execute.
        """
        return min(
            self._residual(request, each) + self._own(request, each)
            for each, _ in self._processing(request, 0.0, external)
        )

    def _processing(self, request: str, cores: float, external: bool, memory: float = 0.0) -> dict[Link, float]:
        """Claim of ``cores`` and ``memory`` for an operator; the peer's thread does not execute an ``external`` one."""
        claim: dict[Link, float] = {} if external and self.machine != self.cores else {(CORES, ""): cores}
        if self.machine != self.cores:
            claim[MACHINE, ""] = cores
        if request in self._users:
            claim[USER + self._users[request], ""] = cores
            if memory:
                claim[MEMORY + self._users[request], ""] = memory
        return claim

    def beyond_limits(self, request: str, cores: float, *, external: bool = False) -> str:
        """Words for an operator that needs more ``cores`` than one thread can use, or than its user may have.

        They are empty if it needs no more.
        """
        user = self._users.get(request, "")
        if user:
            left = self._residual(request, USER + user) + self._own(request, USER + user)
            if left < cores - ROUNDING * self.cores:
                of = counted(
                    self._quotas[USER + user], "core", "that its user may have here", "that its user may have here"
                )
                return (
                    f"{max(left, 0.0):.4g} left of the {of}, where {cores:.4g} {'is' if cores == 1 else 'are'} needed"
                )
        if external or cores <= self.server * (1.0 + ROUNDING):
            return ""
        needed = counted(cores, "core", "is", "are")
        return f"{counted(self.server, 'core')} where {needed} needed, as one thread executes an operator"

    def beyond_memory(self, request: str, memory: float) -> str:
        """Words for an operator that needs more bytes of ``memory`` than its user has left; empty if it does not."""
        user = self._users.get(request, "")
        if not user or not memory:
            return ""
        resource = MEMORY + user
        left = self._residual(request, resource) + self._own(request, resource)
        if left >= memory * (1.0 - ROUNDING):
            return ""
        megabytes = [f"{each / 1e6:.4g} MB" for each in (max(left, 0.0), self._quotas[resource], memory)]
        return "memory: {} left of the {} that its user may have here, where {} are needed".format(*megabytes)

    def residual_bandwidth(self, request: str, upstream: str) -> float:
        """Residual bandwidth rb of the link from ``upstream`` for ``request``, in bytes/s, counted in the same way.

        It is not more than the downlink has left.
        """
        return min(self._residual(request, upstream) + self._own(request, upstream), self.residual_downlink(request))

    def residual_downlink(self, request: str) -> float:
        """Residual bandwidth of the downlink for ``request``, bytes/s, counted in the same way."""
        if self.downlink == math.inf:
            return math.inf
        return self._residual(request, DOWNLINK) + self._own(request, DOWNLINK)

    @property
    def residual_uplink(self) -> float:
        """Residual bandwidth of the uplink, bytes/s."""
        return math.inf if self.uplink == math.inf else self._residual("", UPLINK)

    def send(self, request: str, operator: str, bandwidth: float) -> str:
        """Commit what an operator at this peer sends to others, bytes/s; return "" or the reason of a refusal.

        It replaces what was committed for the operator before. :meth:`drop` of the operator releases it.
        """
        if self.uplink == math.inf:
            return ""
        self.drop(request, f"{SENT}{operator}")
        return self.commit(request, f"{SENT}{operator}", 0.0, {(UPLINK, operator): bandwidth})

    def _own(self, request: str, resource: str) -> float:
        """Amount of a resource that is committed to a request."""
        share = self._shares.get(request)
        return 0.0 if share is None else _sum(share.committed, resource)

    # -- allocation and release ------------------------------------------------------------------------------------

    def reserve(
        self, request: str, operator: str, cores: float, upstream: Link | None, bandwidth: float, *,
        external: bool = False, memory: float = 0.0,
    ) -> None:  # fmt: skip
        """Reserve ``cores`` and, from ``upstream`` (peer, operator), ``bandwidth`` for one operator of a request.

        Probes that reach the same component over other paths add the bandwidth of their link, but no further cores. An
        operator that is committed already, such as a placed replica, is not reserved again.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.committed:
            return
        self._holding[request] = share
        claim = share.reserved.setdefault(operator, {})
        for resource, amount in self._processing(request, cores, external, memory).items():
            claim[resource] = amount
            share.limit[resource[0]] = max(self._residual(request, resource[0]), 0.0)
        if upstream is not None:
            for link in (upstream, *([(DOWNLINK, "/".join(upstream))] if self.downlink < math.inf else [])):
                claim[link] = bandwidth
                share.limit[link[0]] = max(self._residual(request, link[0]), 0.0)

    def commit(
        self, request: str, operator: str, cores: float, links: Mapping[Link, float], *, external: bool = False,
        memory: float = 0.0,
    ) -> str:  # fmt: skip
        """Commit ``cores`` and ``links``; return an empty text, or the reason of a refusal.

        ``links`` maps (upstream peer, upstream operator) to bytes/s. The reservation of the same request and operator
        becomes the commitment. If there is none (it has expired, or an earlier graph of the request has used it), the
        residual resources decide.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.committed:
            return ""
        share.reserved.pop(operator, None)
        if not share.reserved:
            self._holding.pop(request, None)
        return self._allocate(
            request, share.committed, operator, cores, links, additional=False, external=external, memory=memory
        )

    def reserve_additional(
        self, request: str, operator: str, cores: float, links: Mapping[Link, float], *, external: bool = False,
        memory: float = 0.0,
    ) -> str:  # fmt: skip
        """Reserve resources for one operator in addition to all resources of the request; return "" or a reason.

        Unlike with :meth:`reserve`, the operators are not alternatives: all reservations can be committed.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.reserved or operator in share.committed:
            return ""
        return self._allocate(
            request, share.reserved, operator, cores, links, additional=True, external=external, memory=memory
        )

    def _allocate(
        self,
        request: str,
        claims: dict[str, dict[Link, float]],
        operator: str,
        cores: float,
        links: Mapping[Link, float],
        *,
        additional: bool,
        external: bool,
        memory: float,
    ) -> str:
        share = self._shares[request]
        processing = self._processing(request, cores, external, memory)
        required = {resource: amount for (resource, _), amount in processing.items()}
        if self.downlink < math.inf:
            received = {
                (DOWNLINK, f"{peer}/{name}"): amount for (peer, name), amount in links.items() if peer != UPLINK
            }
            links = {**links, **received}
        for (upstream, _), bandwidth in links.items():
            required[upstream] = required.get(upstream, 0.0) + bandwidth
        for resource, amount in required.items():
            # ROUNDING: sums in another order differ in their last digits, and a graph that its probes have found to fit
            # may fit exactly
            left = self._residual(request, resource) - (share.reserved_amount(resource) if additional else 0.0)
            if self.enforce and left < amount - ROUNDING * self._capacity(resource):
                self._tidy(request)
                if resource in (CORES, MACHINE) or resource.startswith(USER):
                    alone = self.beyond_limits(request, amount, external=external)
                    numbers = f"{counted(amount, 'core')} needed, {left:.4g} left"
                    return f"processing capacity: {alone or numbers}"
                if resource.startswith(MEMORY):
                    return self.beyond_memory(request, amount) or f"memory: {amount / 1e6:.4g} MB needed"
                what = {UPLINK: "the uplink", DOWNLINK: "the downlink"}.get(resource, f"bandwidth from {resource}")
                return f"{what}: {amount:.4g} bytes/s needed, {left:.4g} left"
        claim = claims[operator] = {**processing, **links}
        if claims is share.committed:
            self._count([claim], 1.0)
        else:
            self._holding[request] = share
        for resource in required:  # the request may have got more than it had reserved
            share.limit[resource] = max(self._residual(request, resource), 0.0)
        self._changed()
        return ""

    def drop(self, request: str, operator: str) -> None:
        """Release the resources of one operator of a request."""
        share = self._shares.get(request)
        if share is not None:
            share.reserved.pop(operator, None)
            claims = (share.committed.pop(name, None) for name in (operator, f"{SENT}{operator}"))
            held = [claim for claim in claims if claim is not None]
            if held:
                self._count(held, -1.0)
            self._tidy(request)
            self._changed()

    def expire(self, request: str) -> bool:
        """Release the reservations of a request, but not its commitments; return whether there were any."""
        share = self._shares.get(request)
        if share is None:
            self._users.pop(request, None)
        if share is None or not share.reserved:
            return False
        share.reserved.clear()
        self._tidy(request)
        return True

    def release(self, request: str) -> bool:
        """Release all that a request holds; return whether it held anything."""
        share = self._shares.pop(request, None)
        self._users.pop(request, None)
        self._unreserved(request)
        if share is not None and share.committed:
            self._count(share.committed.values(), -1.0)
        self._lower_floors()
        if share is not None and share.committed:
            self._changed()
        return share is not None

    def _changed(self) -> None:
        for listener in self.on_change:
            listener()

    def _unreserved(self, request: str) -> None:
        if self._holding.pop(request, None) is not None:
            for listener in self.on_unreserved:
                listener(request)

    def _tidy(self, request: str) -> None:
        self._lower_floors()
        share = self._shares[request]
        if not share.reserved:
            self._unreserved(request)
            if not share.committed:
                del self._shares[request]

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def load(self) -> float:
        """Committed share of the capacity for operators."""
        return max(self._committed.get(CORES, 0.0) / self.cores, self._committed.get(MACHINE, 0.0) / self.machine)

    @property
    def requests(self) -> frozenset[str]:
        """Requests that hold anything."""
        return frozenset(self._shares)

    @property
    def reservations(self) -> frozenset[str]:
        """Requests that hold transient reservations."""
        return frozenset(request for request, share in self._shares.items() if share.reserved)

    def holds(self, request: str) -> bool:
        """Whether a request holds transient reservations."""
        return request in self._holding

    def overbooked(self) -> str | None:
        """Text about a resource that is allocated beyond its capacity, or None; tests check that it is always None."""
        totals = self._recounted()
        for share in self._shares.values():
            for resource in {of for claim in share.reserved.values() for of, _ in claim}:
                totals[resource] = totals.get(resource, 0.0) + share.reserved_amount(resource)
        for resource, taken in totals.items():
            capacity = self._capacity(resource)
            if taken > capacity * (1.0 + 1e-6):
                what = (
                    "cores" if resource in (CORES, MACHINE) or resource.startswith(USER) else f"bytes/s from {resource}"
                )
                what = "bytes of memory" if resource.startswith(MEMORY) else what
                return f"{taken:g} of {capacity:g} {what} allocated"
        return None
