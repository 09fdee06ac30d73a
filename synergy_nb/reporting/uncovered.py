"""The parts of an application that its replicas do not cover: sources, sinks, and the origin.

Only the operators between sources and sinks are replicated. So the peers of sources and sinks, and the origin, are
single points of failure at any degree. A notice names these peers to the user who submits a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["coverage_sentences", "uncovered"]


def uncovered(primaries: Mapping[str, str], replicated: Collection[str], origin: str) -> dict[str, list[str]]:
    """Find the parts of an application that no other peer could take over, by peer.

    Parameters
    ----------
    primaries
        Component graph λ: operator id to peer.
    replicated
        Operators that have replicas.
    origin
        Peer that leads the application and retains its results.

    Examples
    --------
    >>> uncovered({"source": "a", "filter": "b", "sink": "c"}, {"filter"}, "c")
    {'a': ['source'], 'c': ['sink', 'its results']}
    """
    found: dict[str, list[str]] = {}
    for operator, peer in primaries.items():
        if operator not in replicated:
            found.setdefault(peer, []).append(operator)
    found.setdefault(origin, []).append("its results")
    return found


def coverage_sentences(replicated: Collection[str], alone: Mapping[str, Collection[str]]) -> str:
    """Write two sentences: the operators that replicas cover, and the peers whose death ends the application.

    Examples
    --------
    >>> coverage_sentences(["filter", "sort"], {"a": ["source"], "c": ["sink", "its results"]})
    'Replicas cover filter, sort. The application ends when a (source) or c (sink, its results) dies.'
    """
    where = " or ".join(f"{peer} ({', '.join(what)})" for peer, what in alone.items())
    return f"Replicas cover {', '.join(replicated)}. The application ends when {where} dies."
