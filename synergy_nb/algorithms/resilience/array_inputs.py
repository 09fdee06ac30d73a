"""Checks of the arguments of the array functions, and their conversion to the normalised coordinates of section 3.3.

In these, x_k = l_k r_k / C_T: the ideal hyperplane is x_1 + ... + x_d = 1 for any units of the streams, and a placement
is its weight matrix W. A variable on which no operator's load depends is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Arcs", "Floats", "Ints", "Normalised", "checked_arcs", "checked_nodes", "checked_rates", "normalised"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Arcs(NamedTuple):
    """Streams between operators, and the load of sending them from one node to another (section 6.3)."""

    ends: Ints  # shape (a, 2): the operators that give and that read each
    # shape (a, d): load coefficients of its transfer, which both ends pay if they are on different nodes; 0 where
    # communication costs nothing
    load: Floats


class Normalised(NamedTuple):
    """A placement problem in normalised coordinates, over the variables that carry load."""

    share: Floats  # shape (m, d): l^o_jk / l_k
    capacity: Floats  # shape (n,): C_i / C_T
    bound: Floats  # shape (d,): B'
    total: Floats  # shape (d,): l_k
    carries: npt.NDArray[np.bool_]  # shape (all variables,): which of them carry load
    power: float  # C_T

    @property
    def room(self) -> float:
        """Distance of the ideal hyperplane from the lower bound along the axes; 1 without a lower bound."""
        return 1.0 - float(self.bound.sum())

    def weights(self, load: Floats) -> Floats:
        """W of the load coefficients of the nodes, L^n: shape (n, d)."""
        matrix: Floats = load[:, self.carries] / self.total / self.capacity[:, None]
        return matrix


def normalised(load: npt.ArrayLike, capacity: npt.ArrayLike, lower_bound: npt.ArrayLike | None = None) -> Normalised:
    """Check and normalise L^o, C and B.

    Raises ``ValueError`` if an argument is wrong; the text names the field, its value, and what was expected.
    """
    coefficients = _numbers("load", load, 2, "operators x input streams")
    power = _numbers("capacity", capacity, 1, "one a node")
    for node, value in enumerate(power):
        if not value > 0.0:
            raise ValueError(f"capacity: {value:g} of node {node}; expected a number above 0")
    bound = np.zeros(coefficients.shape[1]) if lower_bound is None else _bound(lower_bound, coefficients.shape[1])
    total = coefficients.sum(axis=0)
    carries = total > 0.0
    whole = float(power.sum())
    place = bound[carries] * total[carries] / whole
    if not place.sum() < 1.0:
        raise ValueError(
            f"lower_bound: takes {place.sum():.4g} of the capacity of all nodes together; expected less than all of it"
        )
    return Normalised(coefficients[:, carries] / total[carries], power / whole, place, total[carries], carries, whole)


def checked_nodes(name: str, given: npt.ArrayLike, operators: int, nodes: int, least: int = 0) -> Ints:
    """A checked array with a node for each operator; -1 stands for no node if ``least`` is -1.

    Raises ``ValueError`` if the argument is no such array.
    """
    found = np.asarray(given)
    expected = f"{operators} whole numbers from {least} to {nodes - 1}, the node of each operator"
    if found.shape != (operators,) or found.dtype.kind not in "iu":
        raise ValueError(f"{name}: {_shown(found)}; expected {expected}")
    wrong = (found < least) | (found >= nodes)
    if wrong.any():
        operator = int(np.argmax(wrong))
        raise ValueError(f"{name}: {found[operator]} of operator {operator}; expected {expected}")
    return found.astype(np.int64)


def checked_arcs(arcs: Arcs | None, operators: int, variables: int) -> Arcs:
    """Checked arcs as arrays; empty arrays if there are no arcs."""
    if arcs is None:
        return Arcs(np.zeros((0, 2), dtype=np.int64), np.zeros((0, variables)))
    ends, load = np.asarray(arcs.ends), np.asarray(arcs.load, dtype=np.float64)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu" or load.shape != (len(ends), variables):
        raise ValueError(
            f"arcs: {_shown(ends)} and {_shown(load)}; expected two operators and {variables} coefficients an arc"
        )
    if len(ends) and not (ends.min() >= 0 and ends.max() < operators):
        raise ValueError(f"arcs: operators {ends.min()} to {ends.max()}; expected 0 to {operators - 1}")
    if not (np.isfinite(load) & (load >= 0.0)).all():
        raise ValueError("arcs: a coefficient below 0 or not finite; expected finite numbers from 0")
    return Arcs(ends.astype(np.int64), load)


def checked_rates(rates: npt.ArrayLike, variables: int) -> Floats:
    """Checked points of rate space: shape (points, d)."""
    points = _numbers("rates", rates, 2, f"points x {variables} variables")
    if points.shape[1] != variables:
        raise ValueError(f"rates: {_shown(points)}; expected a column for each of {variables} variables")
    return points


def _bound(lower_bound: npt.ArrayLike, variables: int) -> Floats:
    bound = _numbers("lower_bound", lower_bound, 1, "one a variable")
    if bound.shape != (variables,):
        raise ValueError(f"lower_bound: {_shown(bound)}; expected one rate for each of {variables} variables")
    return bound


def _numbers(name: str, given: npt.ArrayLike, dimensions: int, what: str) -> Floats:
    """A checked array of finite, non-negative numbers."""
    expected = f"expected finite numbers from 0, {what}"
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {given!r}; {expected}") from None
    if found.ndim != dimensions or not found.size:
        raise ValueError(f"{name}: {_shown(found)}; {expected}")
    wrong = ~(np.isfinite(found) & (found >= 0.0))
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: {found[place]:g} at {list(place)}; {expected}")
    return found


def _shown(found: npt.NDArray[Any]) -> str:
    return f"an array of shape {found.shape} and type {found.dtype}"
