"""Distances between distributions, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synergy_nb.models.drifts import kolmogorov_smirnov, stability_index


def test_the_index_by_hand_and_of_classes_without_rows() -> None:
    before, now = np.array([60.0, 40.0]), np.array([30.0, 70.0])
    assert stability_index(before, now) == pytest.approx(-0.3 * math.log(0.5) + 0.3 * math.log(1.75))
    assert math.isfinite(stability_index(np.array([10.0, 0.0]), np.array([0.0, 10.0])))


def test_the_distance_by_hand() -> None:
    assert kolmogorov_smirnov(np.array([4.0, 4.0, 2.0]), np.array([1.0, 1.0, 3.0])) == pytest.approx(0.4)
    assert kolmogorov_smirnov(np.zeros(3), np.ones(3)) == 0.0
