"""Places of peers on a map: classical scaling of the delays between them, so near peers are near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from synergy_nb.models.delay_matrix import Matrix

MANY: Final = 300  # peers beyond which only the two eigenvectors that are used are computed: all take n³ steps


def map_of(addresses: Sequence[str], delays: Matrix) -> dict[str, tuple[float, float]]:
    """Places on a map by classical scaling of delays: address to coordinates from 0 to 1, near peers near.

    ``delays``: one-way delays in seconds, shape (peers, peers).

    Examples
    --------
    >>> places = map_of(["a", "b", "c"], np.array([[0.0, 0.1, 0.2], [0.1, 0.0, 0.1], [0.2, 0.1, 0.0]]))
    >>> [round(places[name][0], 2) for name in "abc"] in ([0.0, 0.5, 1.0], [1.0, 0.5, 0.0])
    True
    """
    count = len(addresses)
    squared = np.asarray(delays, dtype=np.float64) ** 2
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    if count > MANY:
        from scipy.sparse.linalg import eigsh  # noqa: PLC0415 - importing SciPy takes a second, and every cluster has a map

        start = np.linspace(1.0, 2.0, count)  # so that the map is the same each time
        values, vectors = eigsh(-0.5 * centred, k=2, which="LA", v0=start)
    else:
        values, vectors = np.linalg.eigh(-0.5 * centred)
    best = np.argsort(values)[::-1][:2]
    places = vectors[:, best] * np.sqrt(np.maximum(values[best], 0.0))
    if places.shape[1] < 2:
        places = np.zeros((count, 2))
    for axis in range(2):  # eigenvectors have no sign of their own
        if places[np.argmax(np.abs(places[:, axis])), axis] < 0.0:
            places[:, axis] *= -1.0
    low, span = places.min(axis=0), max(float(np.ptp(places, axis=0).max()), 1e-12)
    centre = (1.0 - np.ptp(places, axis=0) / span) / 2.0
    scaled = (places - low) / span + centre
    return {address: (float(x), float(y)) for address, (x, y) in zip(addresses, scaled, strict=True)}
