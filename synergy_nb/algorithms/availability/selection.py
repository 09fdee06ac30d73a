"""Candidates for a replica in the order of preference (section 4.3; steps 1, 2 and 5 of section 4.4).

Peers that the application uses already come first: the fewer peers it depends on, the likelier all its components are
available. Among these and among the others, more reliable peers come first, since availability has priority over
performance, and then nearer ones. Peers whose link cannot carry the stream are left out. Replicas of a component are on
different peers, and as few of them as possible are in a common failure domain, which would fail with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.messages import Task
from synergy_nb.control.ledger import ROUNDING
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan

__all__ = ["agreed", "drawbacks", "ordered", "single_peers", "used_peers"]


def used_peers(plan: Plan, graph: Roles) -> frozenset[str]:
    """Peers that host a decided replica of the application."""
    return graph.hosts.union(graph.peers[name] for name in components_of(plan) if name in graph.peers)


def single_peers(task: Task, plan: Plan, graph: Roles) -> frozenset[str]:
    """Peers whose death ends the application: its origin, and the known peers of sources and sinks."""
    replicated = components_of(plan)
    peers = {**task.pinned, **graph.peers}
    return frozenset({task.origin, *(peer for name, peer in peers.items() if name not in replicated)})


def drawbacks(
    peer: str, links: Mapping[str, SurveyedLink], beside: Collection[str], needs: float, single: Collection[str]
) -> tuple[int, bool, bool]:
    """What counts against a peer before all else: failure domains in common, too few free cores, a single peer.

    Parameters are as of :func:`ordered`; ``needs`` are the cores that this peer should have left.
    """
    taken = {domain for each in beside if each in links for domain in links[each].domains}
    link = links[peer]
    return len(taken.intersection(link.domains)), link.cores < needs, peer in single


def ordered(
    candidates: Iterable[str],
    links: Mapping[str, SurveyedLink],
    used: Collection[str],
    bandwidth: float,
    beside: Collection[str] = (),
    needs: Callable[[str], float] = lambda _peer: 0.0,
    single: Collection[str] = (),
) -> list[str]:
    """Candidates in the order of preference; delays that differ by less than a nanosecond count as equal.

    Parameters
    ----------
    candidates
        Peers that can have the replica.
    links
        Known links from the deciding peer, by peer; the link to itself among them.
    used
        Peers of replicas of the application.
    bandwidth
        Bandwidth of the stream to the replica, bytes/s.
    beside
        Peers of other replicas of the same component, which cannot have this one.
    needs
        Cores that a peer should have left; those that have not come after all others.
    single
        Peers whose death ends the application anyway; they come after others with as much room, since a replica there
        covers nothing.

    Examples
    --------
    >>> delays = [("a", 0.03), ("b", 0.01), ("c", 0.02)]
    >>> links = {peer: SurveyedLink(delay, 1e6, 1.0, 0.0, {}) for peer, delay in delays}
    >>> ordered("abc", links, used={"a"}, bandwidth=1000.0)
    ['a', 'b', 'c']
    """

    def preference(peer: str) -> tuple[tuple[int, bool, bool], bool, float, float, str]:
        link = links[peer]
        alone = 1.0 - link.failure
        for value in link.domains.values():
            alone *= 1.0 - value
        failing, far = round(1.0 - alone, 12), round(link.latency, 9)  # sums of times are rounded, too
        return drawbacks(peer, links, beside, needs(peer), single), peer not in used, failing, far, peer

    possible = (
        peer
        for peer in candidates
        if peer in links and peer not in beside and links[peer].bandwidth >= bandwidth * (1.0 - ROUNDING)
    )
    return sorted(possible, key=preference)


def agreed(
    lists: Sequence[tuple[float, Sequence[str]]], used: Collection[str], single: Collection[str] = ()
) -> list[str]:
    """Candidates on which all upstream peers of a component agree, in the order in which they are asked.

    Parameters
    ----------
    lists
        Bandwidth of the stream and ordered candidates, for each upstream peer. The upstream peer with the highest
        bandwidth decides the order, the first of several such.
    used
        Known peers of replicas of the application; these come first.
    single
        Peers whose death ends the application anyway; these come last.

    Examples
    --------
    >>> agreed([(10.0, ["a", "b", "c"]), (20.0, ["c", "b", "d"])], used=())
    ['c', 'b']
    """
    ranked = [candidates for _, candidates in sorted(lists, key=lambda each: -each[0])]
    common = [peer for peer in ranked[0] if all(peer in candidates for candidates in ranked[1:])]
    return sorted(common, key=lambda peer: (peer in single, peer not in used))
