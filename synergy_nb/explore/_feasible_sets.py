"""Explorer of the feasible set of a placement: the input rates that its nodes can process (ROD, section 3).

The set is drawn for two or three input streams, with the hyperplane of each node.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience import (
    feasible_ratio,
    largest_load_first,
    mmad_bound,
    optimum,
    plane_distance,
    plane_distances,
    rod,
    sphere_bound,
    weights,
)
from synergy_nb.algorithms.resilience.array_inputs import Floats, Ints, checked_nodes, normalised
from synergy_nb.algorithms.resilience.feasible import placed, reach
from synergy_nb.drawing.plane import PICTURE, STYLE, Axis, Plane
from synergy_nb.drawing.svg import element, label, path, picture
from synergy_nb.explore._explorer import Choice, Control, Drawn, Explorer, Range, Value
from synergy_nb.plan.terms.units import counted

TWO_INPUTS: Final = ((14.0, 0.0), (6.0, 0.0), (0.0, 9.0), (0.0, 7.0))  # load coefficients L^o of example 2 of the paper
THREE_INPUTS: Final = ((9.0, 0.0, 0.0), (6.0, 0.0, 0.0), (0.0, 8.0, 0.0), (0.0, 7.0, 0.0), (0.0, 0.0, 10.0),
                       (0.0, 0.0, 5.0))  # fmt: skip
MOST_OPERATORS: Final = 12
MOST_NODES: Final = 4
GRID: Final = 18  # number of pieces of each edge of the drawn surface, for three streams
EQUATION: Final = (
    "A node carries the rates r with <span class='formula'>L<sup>n</sup><sub>i</sub> r ≤ C<sub>i</sub></span>: those "
    "below its hyperplane. The feasible set is below all of them. No set is larger than the ideal one, "
    "<span class='formula'>Σ l<sub>k</sub> r<sub>k</sub> ≤ C<sub>T</sub></span> (theorem 1). ROD keeps the hyperplanes "
    "far away: it maximises the least distance <span class='formula'>r = min<sub>i</sub> (1 − W<sub>i</sub> B′) / "
    "‖W<sub>i</sub>‖</span> (sections 4.2 and 6.1)."
)


class FeasibleSet(NamedTuple):
    """The feasible set of a placement, in rates of the input streams, tuples/s."""

    # points of the boundary, shape (points, streams): its corners from axis to axis for two streams, a triangular grid
    # for three. Empty if a node is overloaded at the lower bound
    corners: Floats
    full_nodes: Ints  # number of the node that is full at each corner, from 0
    # rate at which the hyperplane of each node cuts the axis of each stream, tuples/s, shape (nodes, streams); infinite
    # where the node has no load from the stream
    intercepts: Floats
    ideal_intercepts: Floats  # rate at which the ideal hyperplane cuts the axis of each stream, tuples/s
    lower_bound: Floats
    distances: Floats  # distance of each node's hyperplane from the lower bound, in normalised rates
    ratio: float  # size of the set as a share of that of the ideal set
    plane_distance: float  # least distance r, that of the nearest hyperplane, in normalised rates
    # mmad_bound, sphere_bound: lower bounds of `ratio`: by the axis distances (MMAD), and by the sphere of radius r
    mmad_bound: float
    sphere_bound: float


def feasible_set(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
) -> FeasibleSet:
    """Compute the feasible set of a placement for two or three input streams.

    Parameters
    ----------
    load
        Load coefficients L^o, shape (operators, streams), see :func:`explorer`; two or three streams.
    capacity
        Capacity C of each node, cores.
    assignment
        Number of the node of each operator, from 0.
    lower_bound
        Lower bound B of the rate of each stream, tuples/s; by default 0.

    Raises
    ------
    ValueError
        If an argument is wrong, or there are not two or three input streams that carry load.

    Examples
    --------
    Plan (c) of example 2:

    >>> found = feasible_set([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1], [0, 1, 1, 0])
    >>> round(found.ratio, 4), found.corners.round(4).tolist()
    (0.7559, [[0.0714, 0.0], [0.0238, 0.0952], [0.0, 0.1111]])
    """
    setting = normalised(load, capacity, lower_bound)
    streams = len(setting.carries)
    if streams not in (2, 3) or not setting.carries.all():
        expected = "expected two or three input streams, each with load, as a picture has no more axes"
        raise ValueError(f"load: {int(setting.carries.sum())} of {counted(streams, 'stream')} with load; {expected}")
    arguments = (load, capacity, assignment, lower_bound)
    planes = placed(*arguments)
    unit = setting.power / setting.total  # rates at which normalised coordinates are 1
    if planes is None:
        corners, full = np.zeros((0, streams)), np.zeros(0, dtype=np.int64)
    else:
        along = _corner_directions(planes) if streams == 2 else _simplex_grid(GRID)
        corners = (setting.bound + setting.room * along * reach(planes, along)[:, None]) * unit
        full = np.asarray((along @ planes.T).argmax(axis=1), dtype=np.int64)
    with np.errstate(divide="ignore"):
        alone = unit / weights(load, capacity, assignment)
    return FeasibleSet(
        corners,
        full,
        alone,
        unit,
        setting.bound * unit,
        plane_distances(*arguments),
        float(feasible_ratio(*arguments, method="exact")),
        plane_distance(*arguments),
        mmad_bound(*arguments),
        sphere_bound(*arguments),
    )


def _corner_directions(planes: Floats) -> Floats:
    """Directions of the corners of a set in two rates: the axes, and the points where two hyperplanes meet."""
    steps = {0.0, 1.0}
    for number, one in enumerate(planes):
        for other in planes[:number]:
            across = one - other  # zero on the direction (1 - s, s) with across . (1 - s, s) = 0
            if across[0] != across[1]:
                share = float(across[0] / (across[0] - across[1]))
                if 0.0 < share < 1.0:
                    steps.add(share)
    along = np.array([(1.0 - share, share) for share in sorted(steps)])
    most = (along @ planes.T).max(axis=1)
    kept = [0] + [
        at
        for at in range(1, len(along) - 1)
        if (np.isclose(planes @ along[at], most[at])).sum() > 1  # the boundary bends here
    ] + [len(along) - 1]  # fmt: skip
    return np.asarray(along[kept])


def _simplex_grid(pieces: int) -> Floats:
    """Points of a triangular grid on the simplex of three shares, row by row."""
    return np.array(
        [(i, j, pieces - i - j) for i in range(pieces + 1) for j in range(pieces + 1 - i)], dtype=np.float64
    ) / pieces  # fmt: skip


# -- pictures ----------------------------------------------------------------------------------------------------------


def draw_placement(
    load: Floats, capacity: npt.ArrayLike, assignment: Ints, lower_bound: npt.ArrayLike | None = None
) -> Drawn:
    """Draw a placement: its feasible set, and the operators at their nodes."""
    found = feasible_set(load, capacity, assignment, lower_bound)
    nodes = len(np.asarray(capacity))
    chips = _operator_boxes(load, assignment, nodes)
    image = _draw_two_rates(found, nodes, chips) if load.shape[1] == 2 else _draw_three_rates(found, chips)
    numbers = (
        ("feasible / ideal", f"{found.ratio:.4f}"),
        ("plane distance r", f"{found.plane_distance:.3f}"),
        ("at least, by axis distances", f"{found.mmad_bound:.3f}"),
        ("at least, by the sphere", f"{found.sphere_bound:.3f}"),
    )
    if not len(found.corners):
        first = int(np.argmin(found.distances))
        return Drawn(image, numbers, f"N{first + 1} is overloaded at the lower bound already: no rates are feasible.")
    first = int(np.argmin(found.distances))
    sentence = f"N{first + 1} has the nearest hyperplane. The set has {100.0 * found.ratio:.1f} % of the ideal size."
    return Drawn(image, numbers, sentence)


def _draw_two_rates(found: FeasibleSet, nodes: int, chips: str) -> str:
    """Draw the feasible set for two streams: the lines of the nodes, the ideal line and the sphere of radius r."""
    most = 1.3 * found.ideal_intercepts
    plane = Plane(Axis("rate of I1, tuples/s", 0.0, float(most[0]), text="{:.3g}".format),
                  Axis("rate of I2, tuples/s", 0.0, float(most[1]), text="{:.3g}".format), right=96.0)  # fmt: skip
    if len(found.corners):
        corner = [(float(x), float(y)) for x, y in found.corners]
        low = (float(found.lower_bound[0]), float(found.lower_bound[1]))
        plane.area([low, *corner], "c2", tip="feasible set")
    x, y = (float(each) for each in found.ideal_intercepts)
    plane.line([(x, 0.0), (0.0, y)], "soft", dashed=True, tip="ideal hyperplane")
    plane.words((0.86 * x, 0.14 * y), "ideal", "soft")
    for node in range(nodes):
        one, other = (float(each) for each in found.intercepts[node])
        tip = f"N{node + 1} is full: distance {found.distances[node]:.3f}"
        if np.isfinite(one) or np.isfinite(other):
            ends = _line_ends(one, other, float(most[0]), float(most[1]))
            plane.line(ends, f"c{node}", tip=tip)
            plane.words(_label_at(ends, float(most[0]), float(most[1])), f"N{node + 1}", f"c{node}")
    if found.plane_distance > 0.0:
        turn = np.linspace(0.0, np.pi / 2, 40)
        arc = (
            found.lower_bound
            + found.plane_distance * np.stack([np.cos(turn), np.sin(turn)], axis=1) * found.ideal_intercepts
        )
        plane.line([(float(a), float(b)) for a, b in arc], "c3", tip="sphere of radius r", dashed=True)
    return plane.to_svg("Feasible set of the placement in two rates", [f'<g transform="translate(0,340)">{chips}</g>'],
                        below=40.0 * nodes + 16.0)  # fmt: skip


def _line_ends(one: float, other: float, most: float, highest: float) -> list[tuple[float, float]]:
    """Ends of a hyperplane with these intercepts; without one of them it is parallel to an axis."""
    if not np.isfinite(one):
        return [(most, other), (0.0, other)]
    if not np.isfinite(other):
        return [(one, 0.0), (one, highest)]
    return [(one, 0.0), (0.0, other)]


def _label_at(ends: list[tuple[float, float]], most: float, highest: float) -> tuple[float, float]:
    """Point for the label of a line: within the drawing, near its upper end."""
    (x, y), (to_x, to_y) = ends
    for share in (0.85, 0.7, 0.5, 0.3, 0.15):
        at = x + share * (to_x - x), y + share * (to_y - y)
        if at[0] < 0.95 * most and at[1] < 0.92 * highest:
            return at
    return x + 0.05 * (to_x - x), y + 0.05 * (to_y - y)


_AXIS_DIRECTIONS: Final = (  # directions of the three axes in the picture, whose y grows downwards
    (-0.866, 0.5),
    (0.866, 0.5),
    (0.0, -1.0),
)
_SIZE: Final = (640.0, 360.0)


def _draw_three_rates(found: FeasibleSet, chips: str) -> str:
    """Draw the surface of the feasible set for three streams, in the colours of the nodes that are full there."""
    origin, scale = (_SIZE[0] / 2, 222.0), 168.0
    share = found.corners / found.ideal_intercepts if len(found.corners) else found.corners

    def place(point: Any) -> tuple[float, float]:
        x = origin[0] + scale * sum(
            float(part) * across[0] for part, across in zip(point, _AXIS_DIRECTIONS, strict=True)
        )
        y = origin[1] + scale * sum(
            float(part) * across[1] for part, across in zip(point, _AXIS_DIRECTIONS, strict=True)
        )
        return x, y

    parts = []
    for number in range(3):
        end = [0.0, 0.0, 0.0]
        end[number] = 1.12
        (x, y), (to_x, to_y) = place((0.0, 0.0, 0.0)), place(end)
        parts.append(element("line", "base", x1=x, y1=y, x2=to_x, y2=to_y))
        rate = f"I{number + 1}: {found.ideal_intercepts[number]:.3g} tuples/s"
        parts.append(label(to_x, to_y + (16 if number < 2 else -6), rate, anchor="middle"))
    if len(share):
        at = {}
        number = 0
        for i in range(GRID + 1):
            for j in range(GRID + 1 - i):
                at[i, j] = number
                number += 1
        for i, j in at:
            for triangle in (((i, j), (i + 1, j), (i, j + 1)), ((i + 1, j), (i + 1, j - 1), (i, j))):
                if all(corner in at for corner in triangle):
                    own = [at[corner] for corner in triangle]
                    full = int(np.bincount(found.full_nodes[own]).argmax())
                    shown = path(place(share[one]) for one in own)
                    tip = f"<title>N{full + 1} is full</title>"
                    parts.append(element("polygon", f"facet c{full}", tip, points=shown))
    ideal = [place(each) for each in np.eye(3)]
    parts.append(element("polyline", "line soft dashed", "<title>ideal</title>", points=path([*ideal, ideal[0]])))
    parts.append(f'<g transform="translate(0,{_SIZE[1]:.0f})">{chips}</g>')
    nodes = len(found.intercepts)
    size = (_SIZE[0], _SIZE[1] + 40.0 * nodes + 16.0)
    return picture(PICTURE, "Feasible set of the placement in three rates", size, parts, style=STYLE)


def _operator_boxes(load: Floats, assignment: Ints, nodes: int) -> str:
    """Draw each node as a row with the operators at it; in a page, operators can be dragged from row to row."""
    parts = []
    for node in range(nodes):
        y = 8.0 + 40.0 * node
        parts.append(
            element("rect", f"box c{node}", x=74, y=y, width=542, height=34, rx="6", data_place=f"N{node + 1}")
        )
        parts.append(label(64, y + 22, f"N{node + 1}", f"words c{node}", anchor="end"))
        for place, operator in enumerate(np.flatnonzero(assignment == node)):
            x = 80.0 + 44.0 * place
            box = element("rect", f"filled c{node}", x=x, y=y + 5, width=40, height=24, rx="5")
            name = label(x + 20, y + 21.5, f"o{operator + 1}", anchor="middle")
            row = ", ".join(f"{each:g}" for each in load[operator])
            tip = f"<title>o{operator + 1}: load {row} a tuple/s of each input</title>"
            parts.append(element("g", "", tip, box, name, data_part=f"o{operator + 1}"))
    return "".join(parts)


# -- the explorer ------------------------------------------------------------------------------------------------------


def explorer(
    load: npt.ArrayLike | None = None,
    capacity: npt.ArrayLike = (1.0, 1.0),
    assignment: npt.ArrayLike | None = None,
    *,
    inputs: int | None = None,
) -> Explorer:
    """Explore which input rates a placement withstands (ROD, sections 3 to 5).

    Drag operators from node to node, or choose their nodes: the hyperplanes, the feasible set and its size follow.
    :func:`synergy_nb.explore.feasible_set` describes the parameters.
    """
    if inputs not in (None, 2, 3):
        raise ValueError(f"inputs: {inputs!r}; expected 2 or 3, as a picture has no more axes")
    coefficients = np.asarray((THREE_INPUTS if inputs == 3 else TWO_INPUTS) if load is None else load, dtype=np.float64)
    power = np.asarray(capacity, dtype=np.float64)
    normalised(coefficients, power)
    operators, streams = coefficients.shape
    if inputs not in (None, streams):
        raise ValueError(f"inputs: {inputs}; expected none or {streams}, as load has {counted(streams, 'column')}")
    if not (2 <= len(power) <= MOST_NODES and 2 <= operators <= MOST_OPERATORS):
        expected = f"expected 2 to {MOST_OPERATORS} operators, and 2 to {MOST_NODES} nodes"
        found = f"{counted(operators, 'operator')} and {counted(len(power), 'node')}"
        raise ValueError(f"load, capacity: {found}; {expected}")
    first = np.zeros(operators, dtype=np.int64) if assignment is None else assignment
    at = checked_nodes("assignment", first, operators, len(power))
    feasible_set(coefficients, power, at)
    nodes = tuple(f"N{node + 1}" for node in range(len(power)))
    names = [f"o{number + 1}" for number in range(operators)]

    def placement(values: dict[str, Any]) -> Ints:
        return np.array([nodes.index(values[name]) for name in names], dtype=np.int64)

    def settings(values: dict[str, Any]) -> tuple[Floats, Floats]:
        scaled = power * np.array([1.0, *(float(values[f"c{node}"]) for node in range(1, len(power)))])
        ideal = scaled.sum() / coefficients.sum(axis=0)
        low = np.array([float(values[f"b{stream}"]) / 100.0 for stream in range(streams)]) * ideal
        return scaled, low

    def draw(**values: Value) -> Drawn:
        scaled, low = settings(values)
        return draw_placement(coefficients, scaled, placement(values), low)

    def by(algorithm: Any) -> Any:
        def pressed(values: dict[str, Any]) -> dict[str, str]:
            scaled, low = settings(values)
            return {name: nodes[int(node)] for name, node in zip(names, algorithm(scaled, low), strict=True)}

        return pressed

    controls: list[Control] = [Choice(name, f"node of {name}", nodes) for name in names]
    controls += [
        Range(f"c{node}", f"capacity of N{node + 1}", 0.25, 4.0, 0.25, " times") for node in range(1, len(power))
    ]
    controls += [Range(f"b{stream}", f"I{stream + 1} at least", 0, 30, 1, " %") for stream in range(streams)]
    values: dict[str, Value] = {name: nodes[int(node)] for name, node in zip(names, at, strict=True)}
    values |= {f"c{node}": 1.0 for node in range(1, len(power))} | {f"b{stream}": 0 for stream in range(streams)}
    buttons = {
        "ROD": by(lambda scaled, low: rod(coefficients, scaled, low)),
        "optimum": by(lambda scaled, low: optimum(coefficients, scaled, low)),
        "largest load first": by(lambda scaled, _low: largest_load_first(coefficients, scaled, np.ones((1, streams)))),
    }
    slow = "The first search of many placements takes longer, as its code is compiled."
    title = "The rates that a placement withstands"
    return Explorer(title, EQUATION, controls, values, draw, cast("Any", buttons), slow=slow)
