"""The parts of an application that its replicas do not cover: sources without backups, sinks, and their results.

Sinks are replicated only if they write their results to the outside, and sources only if they ask for it. So their
peers are single points of failure at any degree. The origin is one only if it has the first sink, as that peer leads
the application on otherwise. A notice names these peers to the user who submits a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted

__all__ = ["coverage_sentences", "notices_of", "uncovered"]


def uncovered(primaries: Mapping[str, str], replicated: Collection[str]) -> dict[str, list[str]]:
    """Find the parts of an application that no other peer could take over, by peer.

    ``primaries``: component graph λ: operator id to peer, in the order of the plan, whose last operator is a sink;
    ``replicated``: operators that have replicas.

    Examples
    --------
    >>> uncovered({"source": "a", "filter": "b", "sink": "c"}, {"filter"})
    {'a': ['source'], 'c': ['sink', 'its results']}
    """
    found: dict[str, list[str]] = {}
    for operator, peer in primaries.items():
        if operator not in replicated:
            found.setdefault(peer, []).append(operator)
    for operator, peer in list(primaries.items())[-1:]:
        if operator not in replicated:  # else the results are in its destination
            found.setdefault(peer, []).append("its results")
    return found


def coverage_sentences(replicated: Collection[str], alone: Mapping[str, Collection[str]]) -> str:
    """Write two sentences: the operators that replicas cover, and the peers whose death ends the application, if any.

    Examples
    --------
    >>> coverage_sentences(["filter", "sort"], {"a": ["source"], "c": ["sink", "its results"]})
    'Replicas cover filter, sort. The application ends when a (source) or c (sink, its results) dies.'
    """
    if not alone:
        return f"Replicas cover {', '.join(replicated)}."
    where = " or ".join(f"{peer} ({', '.join(what)})" for peer, what in alone.items())
    return f"Replicas cover {', '.join(replicated)}. The application ends when {where} dies."


def notices_of(graph: Mapping[str, str], backups: Mapping[str, Collection[str]], looped: int) -> list[str]:
    """Write the notices of an application: limits of replication, and rows that a loop has consumed.

    ``graph``, ``backups``: operator to its peer, and to the peers of its backups, without either the application is not
    replicated; ``looped``: number of rows that went to loops over the application.

    Examples
    --------
    >>> notices_of({"source": "a", "sink": "a"}, {}, 1)
    ['1 row went to a loop over the application: results() and head() give the others']
    """
    found = []
    if backups:
        running = {name: peer for name, peer in graph.items() if peer}
        replicas = Counter(map(original, running))
        covered = [name for name in running if name in backups or replicas[original(name)] > 1]
        alone = uncovered(running, covered)
        found.append(coverage_sentences([*dict.fromkeys(map(original, covered))], alone))
    if looped:
        found.append(
            f"{counted(looped, 'row')} went to a loop over the application: results() and head() give the others"
        )
    return found
