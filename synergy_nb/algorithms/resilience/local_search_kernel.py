"""The compiled heart of refinement and of the optimum: many placements, each compared on the same fixed sample.

What is compared is the mean of f(z_s) over sample points s, where z_s is the largest load of a node as a share of its
room. Of a sample of directions f(z) = z^-d, the feasible share of a direction (see
:mod:`~synergy_nb.algorithms.resilience.feasible`); of a sample of rates f(z) is 1 up to a load of 1, and beyond it so
little that all of it together is less than one point, but more for less load. A node that is overloaded at the lower
bound leaves nothing; then less overload is better, and the value is negative.

Per point, the load of a node is the sum of its units' (operators, or clusters of them) and of the streams that cross
to or from it. Moving a unit changes two nodes only, whatever it is connected to: a stream to a third node is paid there
before and after.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from synergy_nb.models.compiling import compiled

__all__ = ["improve"]


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
    """Mean of f over points, ``peak`` being z."""
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
    """Let a node with the loads ``row`` raise z; what it lacks at the lower bound, as a share of its capacity."""
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
    """Loads of two nodes after a change, into ``rows``: a unit comes to ``one`` (sign 1) or leaves it, and another."""
    for s in range(table.shape[1]):
        rows[0, s] = table[one, s] + sign * on_one[unit, s] + with_sign * on_one[with_unit, s]
        rows[1, s] = table[two, s] - sign * on_two[unit, s] - with_sign * on_two[with_unit, s]
    if stream >= 0:  # between the two, it crosses as before
        for s in range(table.shape[1]):
            rows[0, s] += 2.0 * streams[stream, s]
            rows[1, s] += 2.0 * streams[stream, s]


@compiled
def _bring(
    unit: int, node: int, loads: Any, places: Any, first: Any, other: Any, which: Any, streams: Any, out: Any
) -> None:
    """What a unit brings to a node: its load, its streams from elsewhere, less those that no longer cross."""
    _copy(loads[unit], out)
    for at in range(first[unit], first[unit + 1]):
        _add(streams[which[at]], -1.0 if places[other[at]] == node else 1.0, out)


@compiled
def improve(
    places: Any,
    movable: Any,
    loads: Any,
    first: Any,
    other: Any,
    which: Any,
    streams: Any,
    shares: Any,
    bounded: int,
    room: float,
    power: int,
    least_gain: float,
    budget: int,
) -> tuple[float, int]:
    """Move units, and swap them, as long as the value grows: the best change of two nodes, pair of nodes by pair.

    Parameters
    ----------
    places
        Node of each unit; changed in place.
    movable
        Mask of the units that are not pinned.
    loads
        Units x sample points; if ``bounded`` is 1, the last column is the load at the lower bound.
    first, other, which
        Streams of unit u are at ``first[u]`` to ``first[u + 1]``: the unit at their other end, and their row in
        ``streams``. There is one between two units at most.
    streams
        Streams x columns of ``loads``: what each end pays, if they are on different nodes.
    shares
        Capacity of each node.
    bounded, room
        Whether there is a lower bound, and how far the ideal hyperplane is from it.
    power
        d, or 0 for a sample of rates.
    least_gain
        Smallest improvement of the value for which a change is made.
    budget
        Changes that are looked at, but for those of the last pair of nodes.

    Returns
    -------
    tuple
        Value, and changes looked at.
    """
    units, width = loads.shape
    points = width - bounded
    nodes = len(shares)
    table, rows = np.zeros((nodes, width)), np.zeros((2, width))
    on_one, on_two = np.zeros((units, width)), np.zeros((units, width))  # what each unit brings to either node
    rest, peak, scratch, nothing = np.zeros(points), np.zeros(points), np.zeros(points), np.zeros(points)
    least = 1.0 if power else 0.0  # that z is everywhere, whatever the placement
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
    unchanged = 0  # pairs of nodes, since the last change
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
            continue  # not even without any load on the two
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
            best = value + least_gain
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
                    if found > best:
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
