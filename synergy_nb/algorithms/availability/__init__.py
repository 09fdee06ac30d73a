"""Placement of replicas for the availability of applications: chapter 4 of the dissertation [1]_.

===============  ====================================================================================================
evaluation       availability of a placement, exact or sampled, for failures of several kinds; the degree for a target
protocol         :class:`PlacementOrigin`: decentralized placement hop by hop (section 4.4)
baselines        Optimal, Random, Partition and Latency (section 4.5), with or without limits
best_placement   the most available placement within limits, by a mixed-integer programme
placement_costs  delays between operators and to backups; what no other placement dominates
===============  ====================================================================================================

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation,
   University of California, Riverside, 2008.
"""

from __future__ import annotations

from synergy_nb.algorithms.availability._baselines import (
    groups_of,
    latency_placement,
    optimal_placement,
    partition_placement,
    random_placement,
)
from synergy_nb.algorithms.availability._best_placement import Optimum, on_one_group, optimum
from synergy_nb.algorithms.availability._evaluation import (
    Estimate,
    availability,
    degree_for,
    optimal_availability,
    partition_availability,
    random_availability,
    sampled_availability,
)
from synergy_nb.algorithms.availability._failures import ExactlyFailed, Failures, IndependentFailures
from synergy_nb.algorithms.availability._limits import InsufficientCapacity, ResidualLimits, components_of
from synergy_nb.algorithms.availability._origin import Placed, PlacementOrigin
from synergy_nb.algorithms.availability._placement_costs import Costs, costs, nondominated
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.messages import PlacementConfig

__all__ = [
    "Costs",
    "Estimate",
    "ExactlyFailed",
    "Failures",
    "IndependentFailures",
    "InsufficientCapacity",
    "Optimum",
    "Placed",
    "PlacementConfig",
    "PlacementOrigin",
    "ResidualLimits",
    "SurveyedLink",
    "availability",
    "components_of",
    "costs",
    "degree_for",
    "groups_of",
    "latency_placement",
    "nondominated",
    "on_one_group",
    "optimal_availability",
    "optimal_placement",
    "optimum",
    "partition_availability",
    "partition_placement",
    "random_availability",
    "random_placement",
    "sampled_availability",
]
