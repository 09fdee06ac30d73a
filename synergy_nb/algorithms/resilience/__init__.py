"""Resilient operator placement: plans that withstand the largest set of input rates (ROD, VLDB 2006).

Theory of operation
-------------------
The load of each operator is a linear function of the rates of the input streams (:mod:`loadmodel`), so a placement on
nodes bounds the rates that it can carry by one hyperplane for each node. The rates below all hyperplanes are its
*feasible set*. No feasible set is larger than the *ideal* one, where each stream's load is spread over all nodes in
proportion to their capacities (theorem 1). The quality of a placement is the size of its feasible set as a share of the
ideal one (:mod:`feasible`, :mod:`volume`).

ROD (:mod:`greedy`) places operators one by one, the largest first: on a node whose hyperplane stays above the ideal
one, or else on the node whose hyperplane stays farthest from the origin. Clusters (:mod:`clustering`) reduce
communication before that. :mod:`baselines` has the placements that the paper compares with, :mod:`best_placement` the
best placement of small graphs.

Beyond the paper: :mod:`refinement` improves ROD's placement by local search, :mod:`explanation` names the node and the
rates where a placement fails first, and all functions can measure a feasible set by given points of rate space, such as
those of a trace, instead of its volume. :mod:`policy` places a query plan on peers.

In arrays, ``load`` is L^o with a row for each operator, ``capacity`` is C, and a placement holds each operator's node.

References
----------
.. [1] Y. Xing, J.-H. Hwang, U. Cetintemel, S. Zdonik, "Providing resiliency to load variations in distributed stream
   processing", VLDB 2006.
"""

from __future__ import annotations

from synergy_nb.algorithms.resilience._baselines import (
    connected,
    correlation_based,
    largest_load_first,
    max_rate,
    random_placement,
)
from synergy_nb.algorithms.resilience._best_placement import optimum
from synergy_nb.algorithms.resilience._clustering import Clustered, cluster, clustered_rod
from synergy_nb.algorithms.resilience._explanation import BottleneckExplanation, explain
from synergy_nb.algorithms.resilience._greedy import rod
from synergy_nb.algorithms.resilience._linear_load import LoadModel, QueryOperator, linearised, load_model
from synergy_nb.algorithms.resilience._policy import Placement, place
from synergy_nb.algorithms.resilience._random_graphs import random_trees
from synergy_nb.algorithms.resilience._refinement import refine
from synergy_nb.algorithms.resilience.array_inputs import Arcs
from synergy_nb.algorithms.resilience.feasible import (
    Ratio,
    feasible_ratio,
    mmad_bound,
    node_load,
    plane_distance,
    plane_distances,
    sphere_bound,
    weights,
)

__all__ = [
    "Arcs",
    "BottleneckExplanation",
    "Clustered",
    "LoadModel",
    "Placement",
    "QueryOperator",
    "Ratio",
    "cluster",
    "clustered_rod",
    "connected",
    "correlation_based",
    "explain",
    "feasible_ratio",
    "largest_load_first",
    "linearised",
    "load_model",
    "max_rate",
    "mmad_bound",
    "node_load",
    "optimum",
    "place",
    "plane_distance",
    "plane_distances",
    "random_placement",
    "random_trees",
    "refine",
    "rod",
    "sphere_bound",
    "weights",
]
