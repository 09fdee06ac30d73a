"""Compiled local search of the refinement: it compares many placements on the same fixed sample.

The value of a placement is the mean of f(z_s) over the sample points s, where z_s is the largest load of a node as a
share of its capacity above the lower bound. For a sample of directions, f(z) = z^-d is the feasible share of a
direction (see :mod:`~synergy_nb.algorithms.resilience.feasible`). For a sample of rates, f(z) is 1 up to a load of 1;
beyond it, f falls with the load and is so small that the sum over all points is less than one point. If a node is
overloaded at the lower bound, no rates are feasible; then the value is negative, and grows as the overload shrinks.

At each point, the load of a node is the load of its units (operators or clusters of them) plus the transfer of the
streams between it and other nodes. A move of a unit changes the loads of two nodes only: a third node pays for the
transfer of a stream before and after the move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from synergy_nb.models.compiling import compiled


@compiled
def _copy(row: Any, out: Any) -> None:
    for s in range(len(out)):
        out[s] = row[s]


@compiled
def _add(row: Any, factor: float, out: Any) -> None:
    for s in range(len(out)):
        out[s] += factor * row[s]


@compiled
def _mean_value(peak: Any, power: int, scratch: Any) -> float:
    """Return the mean of f over the points; ``peak`` contains z."""
    points = len(peak)
    if power == 0:
        for s in range(points):
            scratch[s] = 1.0 if peak[s] <= 1.0 else 1.0 / (points * peak[s])
    else:
        for s in range(points):
            peak[s] = 1.0 / peak[s]
            scratch[s] = peak[s]
        for _ in range(power - 1):
            for s in range(points):
                scratch[s] *= peak[s]
    total = 0.0
    for s in range(points):
        total += scratch[s]
    return total / points


@compiled
def _add_to_peak(row: Any, share: float, bounded: int, room: float, peak: Any) -> float:
    """Raise z to the loads ``row`` of a node; return the missing share of its capacity at the lower bound."""
    points = len(peak)
    left = share - row[points] if bounded else share
    scale = room / max(left, 1e-300)
    for s in range(points):
        peak[s] = max(peak[s], row[s] * scale)
    return -left / share


@compiled
def _changed(
    one: int,
    two: int,
    unit: int,
    with_unit: int,
    sign: float,
    with_sign: float,
    stream: int,
    table: Any,
    on_one: Any,
    on_two: Any,
    streams: Any,
    rows: Any,
) -> None:
    """Write the loads of two nodes after a change to ``rows``: a unit, or a pair, joins (sign 1) or leaves ``one``."""
    for s in range(table.shape[1]):
        rows[0, s] = table[one, s] + sign * on_one[unit, s] + with_sign * on_one[with_unit, s]
        rows[1, s] = table[two, s] - sign * on_two[unit, s] - with_sign * on_two[with_unit, s]
    if stream >= 0:  # a stream between two units that are swapped crosses before and after
        for s in range(table.shape[1]):
            rows[0, s] += 2.0 * streams[stream, s]
            rows[1, s] += 2.0 * streams[stream, s]


@compiled
def _bring(
    unit: int, node: int, loads: Any, places: Any, first: Any, other: Any, which: Any, streams: Any, out: Any
) -> None:
    """Compute the load that a unit adds to a node: its own, plus streams that begin to cross, less others."""
    _copy(loads[unit], out)
    for at in range(first[unit], first[unit + 1]):
        _add(streams[which[at]], -1.0 if places[other[at]] == node else 1.0, out)


@compiled
def improve(
    places: Any,
    movable: Any,  # mask of the units that are not pinned
    loads: Any,  # units x sample points; if `bounded` is 1, the last column is the load at the lower bound
    # first, other, which: streams of unit u are at `first[u]` to `first[u + 1]`: the unit at their other end, and their
    # row in `streams`. There is one between two units at most
    first: Any,
    other: Any,
    which: Any,
    # transfer load at each end of a stream if its ends are on different nodes: streams x columns of `loads`
    streams: Any,
    shares: Any,  # capacity of each node
    # bounded, room: whether there is a lower bound, and the distance of the ideal hyperplane from it
    bounded: int,
    room: float,
    power: int,  # d, or 0 for a sample of rates
    least_gain: float,  # smallest improvement of the value for which a change is made, or preferred to an earlier one
    budget: int,  # largest number of evaluated changes; the changes of the last pair of nodes are all evaluated
) -> tuple[float, int]:
    """Move and swap units while the value grows: for one pair of nodes after the other, make the best change.

    Returns: value, and number of evaluated changes.
    """
    units, width = loads.shape
    points = width - bounded
    nodes = len(shares)
    table, rows = np.zeros((nodes, width)), np.zeros((2, width))
    on_one, on_two = np.zeros((units, width)), np.zeros((units, width))  # load that each unit adds to either node
    rest, peak, scratch, nothing = np.zeros(points), np.zeros(points), np.zeros(points), np.zeros(points)
    least = 1.0 if power else 0.0  # lower bound of z for every placement
    members = np.zeros(units, dtype=np.int64)
    for unit in range(units):
        _add(loads[unit], 1.0, table[places[unit]])
        for at in range(first[unit], first[unit + 1]):
            if places[other[at]] != places[unit]:
                _add(streams[which[at]], 1.0, table[places[unit]])
    lacks = -1.0
    for node in range(nodes):
        lacks = max(lacks, _add_to_peak(table[node], shares[node], bounded, room, peak))
    value = -lacks if lacks >= 0.0 else _mean_value(peak, power, scratch)
    looked = 0
    unchanged = 0  # number of pairs of nodes since the last change
    pairs = nodes * (nodes - 1) // 2
    one, two = 0, 0
    while unchanged < pairs and looked < budget:
        two += 1
        if two == nodes:
            one = one + 1 if one + 2 < nodes else 0
            two = one + 1
        unchanged += 1
        _copy(nothing, rest)
        others_lack = -1.0
        for node in range(nodes):
            if node not in (one, two):
                others_lack = max(others_lack, _add_to_peak(table[node], shares[node], bounded, room, rest))
        for s in range(points):
            peak[s] = max(rest[s], least)
        if others_lack < 0.0 and _mean_value(peak, power, scratch) <= value + least_gain:
            continue  # no change of these two can help: even without load on them the value does not grow
        count = 0
        for unit in range(units):
            if movable[unit] and places[unit] in (one, two):
                members[count] = unit
                count += 1
        while True:
            for number in range(count):
                unit = members[number]
                _bring(unit, one, loads, places, first, other, which, streams, on_one[unit])
                _bring(unit, two, loads, places, first, other, which, streams, on_two[unit])
            best = value
            chosen, partner = -1, -1
            for number in range(count):
                unit = members[number]
                sign = -1.0 if places[unit] == one else 1.0
                for second in range(number, count):
                    with_unit = members[second]
                    if second > number and places[with_unit] == places[unit]:
                        continue
                    stream = -1
                    for at in range(first[unit], first[unit + 1]):
                        if other[at] == with_unit:
                            stream = which[at]
                    with_sign = -sign if second > number else 0.0
                    _changed(one, two, unit, with_unit, sign, with_sign, stream, table, on_one, on_two, streams, rows)
                    looked += 1
                    _copy(rest, peak)
                    lacks = others_lack
                    lacks = max(lacks, _add_to_peak(rows[0], shares[one], bounded, room, peak))
                    lacks = max(lacks, _add_to_peak(rows[1], shares[two], bounded, room, peak))
                    found = -lacks if lacks >= 0.0 else _mean_value(peak, power, scratch)
                    if found > best + least_gain:  # of equal changes the first, whatever the last digits of sums are
                        best, chosen, partner = found, unit, with_unit
            if chosen < 0:
                break
            sign = -1.0 if places[chosen] == one else 1.0
            stream = -1
            for at in range(first[chosen], first[chosen + 1]):
                if other[at] == partner:
                    stream = which[at]
            with_sign = -sign if partner != chosen else 0.0
            _changed(one, two, chosen, partner, sign, with_sign, stream, table, on_one, on_two, streams, rows)
            _copy(rows[0], table[one])
            _copy(rows[1], table[two])
            places[chosen] = two if places[chosen] == one else one
            if partner != chosen:
                places[partner] = two if places[partner] == one else one
            value = best
            unchanged = 0
    return value, looked
