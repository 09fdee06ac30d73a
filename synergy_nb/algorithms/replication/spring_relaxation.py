"""First placement without replicas by spring relaxation, in a space in which distances approximate latencies ([2]_).

Servers have coordinates such that distances approximate latencies. Each stream is a spring with its rate as constant,
so its energy is rate times squared distance. Sources and applications are fixed, and operators move to where the
forces on each of them are in equilibrium. Then each operator is assigned to the nearest server with room. [1]_ starts
from this placement (VI-A). The coordinates here are those of classical scaling, which needs no iterations and no random
numbers; the equilibrium is the solution of a linear system rather than the limit of small movements.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
.. [2] P. Pietzuch, J. Ledlie, J. Shneidman, M. Roussopoulos, M. Welsh, M. Seltzer. Network-aware operator placement for
   stream-processing systems. ICDE 2006.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.replication.deployment import ALPHA, ReplicaLimits, eligible_servers
from synergy_nb.algorithms.replication.system import Query, Servers

__all__ = ["coordinates", "equilibrium", "first_placement"]

Points = npt.NDArray[np.float64]


def coordinates(latency: npt.NDArray[np.float64], dimensions: int = 3) -> Points:
    """Return coordinates whose distances approximate latencies, by classical scaling; shape (servers, dimensions).

    Examples
    --------
    >>> found = coordinates(np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]]), 2)
    >>> [round(float(np.linalg.norm(found[one] - found[other])), 6) for one, other in ((0, 1), (1, 2), (0, 2))]
    [3.0, 4.0, 5.0]
    """
    count = len(latency)
    centring = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ (latency**2) @ centring)
    largest = np.argsort(values)[::-1][:dimensions]
    return np.asarray(vectors[:, largest] * np.sqrt(np.maximum(values[largest], 0.0)))


def equilibrium(query: Query, points: Points) -> dict[str, Points]:
    """Return the position of each operator at which the energy of all springs is least.

    ``query``: query, with the servers of its sources and applications; ``points``: coordinates of the servers.

    Raises ``ValueError`` if an operator is connected to no source and no application.
    """
    at = {operator: number for number, operator in enumerate(query.order)}
    stiffness = np.zeros((len(at), len(at)))
    forces = np.zeros((len(at), points.shape[1]))
    for operator, row in at.items():
        for other, rate in query.neighbours(operator):
            stiffness[row, row] += rate
            if other in at:
                stiffness[row, at[other]] -= rate
            else:
                forces[row] += rate * points[query.pinned[other]]
    try:
        found = np.linalg.solve(stiffness, forces)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"edges: {', '.join(at)}; expected streams of positive rate from each operator to a source or application"
        ) from None
    return {operator: found[row] for operator, row in at.items()}


def first_placement(query: Query, servers: Servers, alpha: float = ALPHA, dimensions: int = 3) -> dict[str, int]:
    """Return the server of each operator: the nearest to its equilibrium that has room, in topological order.

    ``alpha``: share α of a server's capacity below which its load must remain; ``dimensions``: number of dimensions of
    the space.

    Raises ``ValueError`` if no server has room for an operator.
    """
    points = coordinates(servers.latency, dimensions)
    placed: dict[str, list[int]] = {}
    for operator, position in equilibrium(query, points).items():
        room = eligible_servers(query, servers, placed, operator, ReplicaLimits(1, 0.0, alpha))
        if not room.any():
            raise ValueError(f"loads: {operator!r} has {query.loads[operator]:g}; expected a server with room for it")
        distance = np.where(room, np.linalg.norm(points - position, axis=1), np.inf)
        placed[operator] = [int(np.argmin(distance))]
    return {operator: found[0] for operator, found in placed.items()}
