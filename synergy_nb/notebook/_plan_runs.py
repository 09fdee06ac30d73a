"""Clusters and simulations as an editor of plans uses them: to submit a plan and follow it, and to ask for its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synergy_nb.editing.operations import EditError
from synergy_nb.plan import Plan, Problem
from synergy_nb.reporting.plan_trials import PlanTrial
from synergy_nb.widgets.running_plan import FollowedPlan, PlanRuns

if TYPE_CHECKING:
    from synergy_nb.runtime.client.cluster import Cluster
    from synergy_nb.simulator.simulation import Simulation


def runs_on(cluster: Any) -> PlanRuns:
    """Return a cluster or a simulation as an editor uses it.

    Raises ``EditError`` if ``cluster`` is neither.
    """
    from synergy_nb.runtime.client.cluster import Cluster  # noqa: PLC0415 - only those who submit need it
    from synergy_nb.simulator.simulation import Simulation  # noqa: PLC0415 - likewise

    if isinstance(cluster, Cluster):
        return _OnCluster(cluster)
    if isinstance(cluster, Simulation):
        return _OnSimulation(cluster)
    raise EditError([Problem("", "cluster", type(cluster).__name__, "a Cluster or a Simulation")])


class _OnCluster:
    """Plans on a live cluster."""

    advice = ""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def submit(self, plan: Plan) -> FollowedPlan:
        """Submit a plan, and follow the journal of its cluster."""
        from synergy_nb.runtime.client.following import follow_journals  # noqa: PLC0415 - needs a cluster

        follower = follow_journals(self._cluster)
        running = self._cluster.submit(plan)
        return FollowedPlan(
            running,
            plan,
            running.stop,
            follower.journal,
            follower.names,
            follower.listen,
            follower.reading,
        )

    def cost(self, plan: Plan) -> PlanTrial:
        """Find the graph that composition would choose."""
        return self._cluster.check(plan)


class _OnSimulation:
    """Plans in a simulation, whose virtual time passes while it is asked."""

    advice = 'Virtual time passes only by simulation.run("3 s"), or by Play of simulation.knobs().'

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def submit(self, plan: Plan) -> FollowedPlan:
        """Submit a plan, and follow the journal of the simulation."""
        simulation = self._simulation
        running = simulation.submit(plan)
        return FollowedPlan(running, plan, running.stop, simulation.journal, simulation.names, simulation.listen)

    def cost(self, plan: Plan) -> PlanTrial:
        """Find the graph that composition would choose."""
        return self._simulation.check(plan)
