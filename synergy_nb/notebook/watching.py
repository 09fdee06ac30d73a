"""Connects a cluster, a simulation or an application with its live view, neither of which imports the other."""

from __future__ import annotations

from synergy_nb.errors import user_facing
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import type_of
from synergy_nb.recording.kept_runs import KeptRun
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.client.following import follow_journals
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.simulator.simulation import Simulation
from synergy_nb.widgets.qos_view import QoSView

__all__ = ["watch"]


@user_facing
def watch(
    what: Application | Cluster | AsyncApplication | AsyncCluster | SimulatedApplication | Simulation | KeptRun,
) -> QoSView:
    """Watch an application, or all of a cluster or a simulation, live.

    Parameters
    ----------
    what
        Application, cluster or simulation to show; those of coroutines are watched on their event loop. A run that is
        kept shows what its view has shown last.

    Returns
    -------
    QoSView
        View of delay against its limit, throughput, miss rate, the load of peers, and the plan over them. As the last
        value of a notebook's cell it is displayed and updated. ``to_text()`` and ``to_svg()`` return its present state;
        ``close()`` ends it.

    Raises
    ------
    TypeError
        If ``what`` is something else.
    ClusterError
        If its cluster is closed, or one of coroutines is not watched on its event loop.

    Examples
    --------
    >>> from synergy_nb import Simulation, source, watch
    >>> packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s")
    >>> application = Simulation(8, seed=1).submit(packets.filter("bytes > 1000").sink(delay="10 s"))
    >>> rows = application.results()
    >>> print(watch(application).to_text().splitlines()[1])
    Every stream has ended after 2.16 s: 794 results, 0 % later than its limit.
    """
    if isinstance(what, KeptRun):
        return QoSView(what.journal(), what.plan, application=what.id, names=what.names)
    if isinstance(what, SimulatedApplication):
        return _simulated(what.simulation, what.plan, what.id)
    if isinstance(what, Simulation):
        return _simulated(what)
    plan, application = None, None
    cluster: object = what
    if isinstance(what, Application | AsyncApplication):
        cluster, plan, application = what.cluster, what.plan, what.id
    if not isinstance(cluster, Cluster | AsyncCluster):
        raise TypeError(f"watch: {type_of(what)}; expected an application, a cluster, a simulation or a run")
    follower = follow_journals(cluster)
    view = QoSView(follower.journal, plan, application=application, names=follower.names, reading=follower.reading)
    view.follow(follower.listen)
    return view


def _simulated(simulation: Simulation, plan: Plan | None = None, application: str | None = None) -> QoSView:
    """Watch a simulation, or one application in it; the view changes while virtual time passes."""
    view = QoSView(simulation.journal, plan, application=application, names=simulation.names)
    view.follow(simulation.listen)
    return view
