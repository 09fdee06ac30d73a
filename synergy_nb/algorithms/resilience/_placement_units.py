"""Units of placement: an operator, or a group of operators that stay together; a unit may be pinned to a node."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience.array_inputs import Floats, Ints, Normalised, checked_nodes

FREE: Final = -1


class Units(NamedTuple):
    """Units of a placement problem."""

    share: Floats  # load of each unit, in normalised coordinates; shape (u, d)
    pinned: Ints  # node of each unit, or `FREE`; shape (u,)
    of: Ints  # unit of each operator; shape (m,)

    def places(self, assignment: npt.ArrayLike, nodes: int) -> Ints:
        """Convert nodes of operators to nodes of units.

        Raises ``ValueError`` if operators of a unit are on different nodes, or not at the node to which they are
        pinned.
        """
        nodes_of = checked_nodes("assignment", assignment, len(self.of), nodes)
        found = np.zeros(len(self.pinned), dtype=np.int64)
        found[self.of] = nodes_of
        expected = np.where(self.pinned == FREE, found, self.pinned)[self.of]
        wrong = nodes_of != expected
        if wrong.any():
            operator = int(np.argmax(wrong))
            raise ValueError(
                f"assignment: {nodes_of[operator]} of operator {operator}; expected {expected[operator]}, "
                "the node to which it is pinned, or of its group"
            )
        return found


def units(setting: Normalised, groups: npt.ArrayLike | None = None, pinned: npt.ArrayLike | None = None) -> Units:
    """Group the operators of a placement problem into units.

    ``groups``: label of each operator; operators with equal labels stay together; ``pinned``: node to which each
    operator is pinned; -1 if it is free.

    Raises ``ValueError`` if the shape of an argument is wrong, a node does not exist, or a group is pinned to two
    nodes.
    """
    operators, nodes = len(setting.share), len(setting.capacity)
    of = np.arange(operators) if groups is None else _numbers(groups, operators)
    own = np.full(operators, FREE) if pinned is None else checked_nodes("pinned", pinned, operators, nodes, FREE)
    count = int(of.max()) + 1
    share = np.zeros((count, setting.share.shape[1]))
    np.add.at(share, of, setting.share)
    place = np.full(count, FREE)
    np.maximum.at(place, of, own)
    apart = (own != FREE) & (own != place[of])
    if apart.any():
        operator = int(np.argmax(apart))
        raise ValueError(
            f"pinned: {own[operator]} of operator {operator}, and {place[of[operator]]} of another of its group; "
            "expected one node for each group"
        )
    return Units(share, place, of)


def _numbers(groups: npt.ArrayLike, operators: int) -> Ints:
    labels = np.asarray(groups)
    if labels.shape != (operators,):
        raise ValueError(
            f"groups: an array of shape {labels.shape}; expected a label for each of {operators} operators"
        )
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
