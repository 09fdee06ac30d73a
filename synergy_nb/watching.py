"""Connects a cluster or an application with its live view, neither of which imports the other."""

from __future__ import annotations

from synergy_nb.errors import user_facing
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.client.journal_follower import follow_journals
from synergy_nb.widgets.qos_view import QoSView

__all__ = ["watch"]


@user_facing
def watch(what: Application | Cluster | AsyncApplication | AsyncCluster) -> QoSView:
    """Watch an application, or all of a cluster, live.

    Parameters
    ----------
    what
        Application or cluster to show; those of coroutines are watched on their event loop.

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
    """
    plan, application = None, None
    cluster: object = what
    if isinstance(what, Application | AsyncApplication):
        cluster, plan, application = what.cluster, what.plan, what.id
    if not isinstance(cluster, Cluster | AsyncCluster):
        raise TypeError(f"watch: a {type(what).__name__}; expected an application or a cluster")
    follower = follow_journals(cluster)
    view = QoSView(follower.journal, plan, application=application, names=follower.names, reading=follower.reading)
    view.follow(follower.listen)
    return view
