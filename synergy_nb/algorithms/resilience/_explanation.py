"""Explanation of the limits of a placement: its bottleneck node, and the rates that overload it; beyond the paper.

The bottleneck is the node with the least plane distance. Its hyperplane is nearest to the lower bound in the direction
of its weights W_i: for this mixture of streams, the least growth of load fills a node. The explanation also contains
how far each stream can grow alone (the axis distances of section 4.1), and the node that limits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience.array_inputs import Arcs, Floats, normalised
from synergy_nb.algorithms.resilience.feasible import distances, node_load

FEW = 3  # maximum number of operators that are named


@dataclass(frozen=True)
class SingleStreamGrowth:
    """Limit to which one stream can grow while the others stay at the lower bound."""

    variable: int  # number of the variable
    node: int  # node that is overloaded first
    rate: float  # tuples/s at which it is; infinite for a stream without load
    utilisation: float  # share of the total capacity that is used then; 1 in the ideal placement


@dataclass(frozen=True)
class BottleneckExplanation:
    """The bottleneck of a placement, and the limits of each stream."""

    node: int
    # plane distance of the node over that of the ideal hyperplane, r / r*: at most 1, and below 0 if it is overloaded
    # at the lower bound
    distance: float
    # growth of the rates, from the lower bound, that fills it first: tuples/s of each variable, up to where it is full
    direction: Floats
    rates: Floats  # tuples/s of each variable there
    utilisation: float  # share of the total capacity that is used there
    # number and share of each operator in the node's load there, the largest share first
    operators: tuple[tuple[int, float], ...]
    communication: float  # share of the load there that is the transfer of streams
    alone: tuple[SingleStreamGrowth, ...]  # limit to which each variable can grow alone
    distances: Floats  # plane distances of all nodes over that of the ideal hyperplane

    def to_text(
        self, nodes: Sequence[str] | None = None, operators: Sequence[str] | None = None,
        variables: Sequence[str] | None = None,
    ) -> str:  # fmt: skip
        """Readable text, with the given names in place of numbers."""
        node = _named(nodes, self.node, "node")
        if self.distance < 0.0:
            first = f"{node} is overloaded at the lower bound already"
        else:
            rates = ", ".join(
                f"{_named(variables, number, 'stream')} {rate:.4g}/s" for number, rate in enumerate(self.rates)
            )
            first = (
                f"{node} is full first: at {rates}, {100 * self.utilisation:.0f} % of all nodes "
                f"(plane distance {self.distance:.2f} of the ideal)"
            )
        shares = ", ".join(
            f"{_named(operators, number, 'operator')} {100 * share:.0f} %" for number, share in self.operators[:FEW]
        )
        sent = f", communication {100 * self.communication:.0f} %" if self.communication else ""
        lines = [first, f"of its load there: {shares or 'nothing'}{sent}"]
        lines += [
            f"{_named(variables, each.variable, 'stream')} alone can grow to {each.rate:.4g}/s, "
            f"{100 * each.utilisation:.0f} % of all nodes; then {_named(nodes, each.node, 'node')} is full"
            for each in self.alone
        ]
        return "\n".join(lines)


def explain(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> BottleneckExplanation:
    """Name the bottleneck node of a placement, and the direction in rate space in which it fails first.

    Parameters
    ----------
    load, capacity, assignment, lower_bound, arcs
        Arguments of :func:`feasible_ratio`.

    Examples
    --------
    Plan (c) of example 2:

    >>> found = explain([[14, 0], [6, 0], [0, 9], [0, 7]], [100, 100], [0, 1, 1, 0])
    >>> found.node, found.rates.round(2).tolist()
    (0, [5.14, 4.01])
    >>> print(found.to_text(["N1", "N2"], ["o1", "o2", "o3", "o4"], ["I1", "I2"]))
    N1 is full first: at I1 5.136/s, I2 4.013/s, 83 % of all nodes (plane distance 0.86 of the ideal)
    of its load there: o1 72 %, o4 28 %
    I1 alone can grow to 7.143/s, 71 % of all nodes; then N1 is full
    I2 alone can grow to 11.11/s, 89 % of all nodes; then N2 is full
    """
    setting = normalised(load, capacity, lower_bound)
    coefficients = np.asarray(load, dtype=np.float64)
    matrix = setting.weights(node_load(coefficients, assignment, len(setting.capacity), arcs))
    own = distances(matrix, setting.bound)
    node = int(own.argmin())
    norm = float(np.linalg.norm(matrix[node]))
    reach = max(float(own[node]), 0.0)
    step = reach * matrix[node] / norm if norm else np.zeros(matrix.shape[1])
    per = setting.power / setting.total
    rates, direction = np.zeros(coefficients.shape[1]), np.zeros(coefficients.shape[1])
    rates[setting.carries] = (setting.bound + step) * per
    direction[setting.carries] = step * per
    loads = coefficients @ rates
    on_node = np.flatnonzero(np.asarray(assignment) == node)
    whole = float(matrix[node] @ (setting.bound + step)) * float(setting.capacity[node]) * setting.power
    shares = sorted(((int(one), float(loads[one] / whole)) for one in on_node if whole), key=lambda each: -each[1])
    ideal = setting.room / np.sqrt(max(len(per), 1))
    return BottleneckExplanation(
        node=node,
        distance=float(own[node] / ideal),
        direction=direction,
        rates=rates,
        utilisation=float((setting.bound + step).sum()),
        operators=tuple(each for each in shares if each[1] > 0.0),
        communication=max(1.0 - float(loads[on_node].sum()) / whole, 0.0) if whole else 0.0,
        alone=_alone(matrix, setting.bound, setting.carries, per),
        distances=own / ideal,
    )


def _alone(
    matrix: Floats, bound: Floats, carries: npt.NDArray[np.bool_], per: Floats
) -> tuple[SingleStreamGrowth, ...]:
    left = np.maximum(1.0 - matrix @ bound, 0.0)
    found: list[SingleStreamGrowth] = []
    for column, variable in enumerate(np.flatnonzero(carries)):
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(matrix[:, column] > 0.0, left / matrix[:, column], np.inf)
        node = int(reach.argmin())
        place = float(bound[column] + reach[node])
        others = float(bound.sum() - bound[column])
        found.append(SingleStreamGrowth(int(variable), node, place * float(per[column]), place + others))
    return tuple(found)


def _named(names: Sequence[str] | None, number: int, what: str) -> str:
    return f"{what} {number}" if names is None else names[number]
