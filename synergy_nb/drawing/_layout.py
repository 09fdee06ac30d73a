"""Layered layout of a directed acyclic graph, after Sugiyama, Tagawa and Toda [1]_: ranks, order, coordinates.

Ranks are the lengths of longest paths from the sources. Edges over several ranks get a dummy node in each rank between.
Sweeps over the barycentres of neighbours give orders; the order with the fewest crossings is used. Coordinates in a
rank are the least-squares fit to those of the neighbours that preserves order and distances (pool adjacent violators).

.. [1] K. Sugiyama, S. Tagawa, M. Toda. Methods for visual understanding of hierarchical system structures. IEEE
   Transactions on Systems, Man, and Cybernetics 11(2), 1981.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

Edge: TypeAlias = tuple[str, str]
#: A node, or a dummy node: its edge and its rank.
Place: TypeAlias = Hashable

_SWEEPS: Final = 12


class Layout(NamedTuple):
    """Ranks with their ordered places, the coordinate of each place along its rank, and the places of each edge."""

    ranks: list[list[Place]]
    at: dict[Place, float]
    chains: dict[Edge, list[Place]]


def layered(breadths: Mapping[str, float], edges: Sequence[Edge], gap: float) -> Layout:
    """Lay out a graph.

    ``breadths``: extent of every node along its rank; ``edges``: pairs of nodes; duplicates count once; ``gap``: least
    distance between neighbours in a rank.

    Raises ``ValueError`` if an edge names an unknown node, or the graph has a cycle.
    """
    edges = list(dict.fromkeys(edges))
    rank = ranks(list(breadths), edges)
    rows: list[list[Place]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node, number in rank.items():
        rows[number].append(node)
    chains: dict[Edge, list[Place]] = {}
    above: dict[Place, list[Place]] = {node: [] for node in breadths}
    below: dict[Place, list[Place]] = {node: [] for node in breadths}
    for edge in edges:
        chain: list[Place] = [edge[0], *((edge, number) for number in range(rank[edge[0]] + 1, rank[edge[1]])), edge[1]]
        chains[edge] = chain
        for number, dummy in enumerate(chain[1:-1], start=rank[edge[0]] + 1):
            rows[number].append(dummy)
        for upper, lower in pairwise(chain):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    rows = _ordered(rows, above, below)
    sizes: dict[Place, float] = {place: 0.0 for row in rows for place in row} | dict(breadths)
    return Layout(rows, _coordinates(rows, above, below, sizes, gap), chains)


def ranks(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Give each node its rank: one more than the highest of its predecessors, from 0.

    Raises ``ValueError`` if an edge names an unknown node, or the graph has a cycle.
    """
    for edge in edges:
        for end in edge:
            if end not in nodes:
                raise ValueError(f"edge {edge}: {end!r}; expected one of {', '.join(nodes)}")
    waiting = dict.fromkeys(nodes, 0)
    for _, lower in edges:
        waiting[lower] += 1
    rank = {node: 0 for node in nodes if not waiting[node]}
    ready = list(rank)
    for node in ready:  # grows while it is read
        for upper, lower in edges:
            if upper == node:
                rank[lower] = max(rank.get(lower, 0), rank[node] + 1)
                waiting[lower] -= 1
                if not waiting[lower]:
                    ready.append(lower)
    if len(ready) < len(nodes):
        raise ValueError(f"graph: a cycle through {', '.join(sorted(set(nodes) - set(ready)))}; expected none")
    # a source is in the rank directly above its first reader
    for node in nodes:
        following = [rank[lower] for upper, lower in edges if upper == node]
        if following and not any(lower == node for _, lower in edges):
            rank[node] = min(following) - 1
    return {node: rank[node] for node in nodes}


def _ordered(
    ranks: list[list[Place]], above: Mapping[Place, list[Place]], below: Mapping[Place, list[Place]]
) -> list[list[Place]]:
    best, fewest = ranks, _crossings(ranks, below)
    current = [list(row) for row in ranks]
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        neighbours = above if down else below
        indices = range(1, len(current)) if down else range(len(current) - 2, -1, -1)
        for index in indices:
            fixed = {place: number for number, place in enumerate(current[index - 1 if down else index + 1])}
            old = {place: number for number, place in enumerate(current[index])}

            def centre(place: Place, fixed: dict[Place, int] = fixed, old: dict[Place, int] = old) -> tuple[float, int]:
                known = [fixed[other] for other in neighbours[place] if other in fixed]  # noqa: B023 - used at once
                return (sum(known) / len(known) if known else float(old[place]), old[place])

            current[index].sort(key=centre)
        crossings = _crossings(current, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in current], crossings
    return best


def _crossings(ranks: list[list[Place]], below: Mapping[Place, list[Place]]) -> int:
    total = 0
    for row, following in pairwise(ranks):
        index = {place: number for number, place in enumerate(following)}
        ends = [sorted(index[lower] for lower in below.get(place, ())) for place in row]
        for number, first in enumerate(ends):
            for second in ends[number + 1 :]:
                total += sum(1 for a in first for b in second if a > b)
    return total


def _coordinates(
    ranks: list[list[Place]],
    above: Mapping[Place, list[Place]],
    below: Mapping[Place, list[Place]],
    sizes: Mapping[Place, float],
    gap: float,
) -> dict[Place, float]:
    at: dict[Place, float] = {}
    for row in ranks:
        edge = 0.0
        for place in row:
            at[place] = edge + sizes[place] / 2
            edge += sizes[place] + gap
    for sweep in range(_SWEEPS):
        order = range(len(ranks)) if sweep % 2 == 0 else range(len(ranks) - 1, -1, -1)
        for index in order:
            row = ranks[index]
            wanted = []
            for place in row:
                # neighbours in the direction of the sweep, and in its last pass all, so that nodes stay between both
                near = (above if sweep % 2 == 0 else below).get(place, [])
                near = near or (below if sweep % 2 == 0 else above).get(place, [])
                wanted.append(sum(at[other] for other in near) / len(near) if near else at[place])
            at.update(zip(row, _fitted(row, wanted, sizes, gap), strict=True))
    least = min((at[place] - sizes[place] / 2 for place in at), default=0.0)
    return {place: value - least for place, value in at.items()}


def _fitted(row: Sequence[Place], wanted: Sequence[float], sizes: Mapping[Place, float], gap: float) -> list[float]:
    """Fit coordinates to ``wanted`` by least squares, preserving order and distance."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (sizes[left] + sizes[right]) / 2 + gap)
    blocks: list[tuple[float, int]] = []  # mean and size of each block of places that move together
    for value, offset in zip(wanted, offsets, strict=False):
        mean, number = value - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean, number = (mean * number + other * count) / (number + count), number + count
        blocks.append((mean, number))
    means = [mean for mean, number in blocks for _ in range(number)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
