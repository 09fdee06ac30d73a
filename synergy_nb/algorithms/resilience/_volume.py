"""The exact volume of {y >= 0 : V y <= 1}, a polytope that contains, with a point, all points below it.

The polytope is scaled so that its least axis distance is 1 on every axis. Then it lies between the unit simplex and the
unit cube for every placement: its numbers are of similar size, and an interior point is known. Qhull intersects the
halfspaces and computes the volume of the hull of the corners. If many planes meet in one corner, as with loads that are
small integers, Qhull may find no hull that is convex within its rounding. Then its input is joggled, which loses some
digits.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from synergy_nb.algorithms.resilience.array_inputs import Floats

MOST_INPUTS: Final = 6  # maximum number of dimensions: polytopes of more have too many corners
SAME: Final = 1e-12  # tolerance within which two numbers of a scaled plane are equal
ROUNDED: Final = 1e-8  # relative error of a volume from rounding
JOGGLED: Final = 1e-5  # relative error of a volume from joggled input


def down_closed_volume(planes: Floats) -> tuple[float, float]:
    """Volume of {y >= 0 : V y <= 1}, and its relative error.

    Parameters
    ----------
    planes
        Matrix V of shape (n, d), numbers from 0, with one above 0 in each column; d at most 6.

    Examples
    --------
    >>> down_closed_volume(np.array([[1.0, 0.0], [0.0, 0.5]]))
    (2.0, 1e-08)
    """
    greatest = planes.max(axis=0)
    d = len(greatest)
    scale = float(np.prod(1.0 / greatest))
    if d == 1:
        return scale, ROUNDED
    scaled = _needed(planes / greatest)
    halfspaces = np.block([[scaled, -np.ones((len(scaled), 1))], [-np.eye(d), np.zeros((d, 1))]])
    inside = np.full(d, 0.5 / d)  # within the simplex of the axis distances
    try:
        corners = HalfspaceIntersection(halfspaces, inside).intersections
        return float(ConvexHull(np.unique(corners.round(14), axis=0)).volume) * scale, ROUNDED
    except QhullError:
        corners = HalfspaceIntersection(halfspaces, inside, qhull_options="QJ").intersections
        return float(ConvexHull(corners, qhull_options="QJ").volume) * scale, JOGGLED


def _needed(planes: Floats) -> Floats:
    """Remove the planes that another plane dominates."""
    kept: list[Floats] = []
    for plane in planes[np.argsort(-planes.sum(axis=1), kind="stable")]:
        if not any((plane <= other + SAME).all() for other in kept):
            kept.append(plane)
    return np.array(kept)
