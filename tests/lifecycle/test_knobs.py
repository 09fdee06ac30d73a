"""What a knob refuses, in a simulation: the same checks are before every driver."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb import Simulation
from synergy_nb.lifecycle.changes.knobs import MOST_LOAD
from synergy_nb.reporting.cluster_errors import ClusterError


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return Simulation(peers=2)


@pytest.mark.parametrize("share", [-0.01, 1.0, 2, True, "half", float("nan"), None])
def test_a_load_that_is_no_share_of_a_peer_is_refused(simulation: Simulation, share: Any) -> None:
    with pytest.raises(ClusterError, match=r"expected a share of the peer's cores from 0 to 0\.99"):
        simulation.load("peer-1", share)


@pytest.mark.parametrize("share", [0, 0.5, MOST_LOAD])
def test_a_share_of_a_peer_is_used(simulation: Simulation, share: float) -> None:
    simulation.load("peer-1", share)
