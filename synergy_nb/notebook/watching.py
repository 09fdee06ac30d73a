"""Connects a cluster, a simulation or an application with its live view, neither of which imports the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from synergy_nb.dataflow.tuples import empty
from synergy_nb.errors import user_facing
from synergy_nb.notebook._simulated_rows import SimulatedRows
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.units import type_of
from synergy_nb.recording.kept_runs import KeptRun
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.client.following import follow_journals
from synergy_nb.runtime.client.row_following import follow_rows
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.simulator.simulation import Simulation
from synergy_nb.widgets.qos_view import FollowedRows, QoSView

__all__ = ["watch"]

ROWS: Final = 1000  # last rows that are shown of a stream without windows
MOST: Final = 100_000  # rows that are shown at most

Take = Callable[[pl.DataFrame, int, str], float | None]


@user_facing
def watch(
    what: Application | Cluster | AsyncApplication | AsyncCluster | SimulatedApplication | Simulation | KeptRun,
    *,
    rows: bool | int = False,
    sink: str | None = None,
) -> QoSView:
    """Watch an application, or all of a cluster or a simulation, live.

    Parameters
    ----------
    what
        Application, cluster or simulation to show; those of coroutines are watched on their event loop. A run that is
        kept shows what its view has shown last.
    rows
        Whether to show the newest rows of an application, too: of its newest window, or the last 1,000 of a stream
        without windows. A number is the largest number of rows, up to 100,000. To look at rows takes none from whoever
        reads the results.
    sink
        Name or operator id of the sink whose rows are shown; needed only where the plan has several.

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
    ValueError
        If ``rows`` is no such number, or ``what`` has no rows, as it is no application that runs or has run here.
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
    number = _number(rows)
    if number and not isinstance(what, Application | AsyncApplication | SimulatedApplication):
        raise ValueError(f"rows: {rows!r} with {type_of(what)}; expected an application, which has results")
    if isinstance(what, KeptRun):
        return QoSView(what.journal(), what.plan, application=what.id, names=what.names)
    if isinstance(what, SimulatedApplication):
        view = _simulated(what.simulation, what.plan, what.id)
        if number:
            _show_rows(view, what, sink, rows, lambda *given: SimulatedRows(what, *given))
        return view
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
    if number and isinstance(what, Application | AsyncApplication):
        _show_rows(view, what, sink, rows, lambda *given: follow_rows(what, *given))
    return view


def _number(rows: object) -> int:
    """The largest number of rows that is asked for; 0 for none."""
    if isinstance(rows, bool):
        return MOST if rows else 0
    if not isinstance(rows, int) or not 1 <= rows <= MOST:
        raise ValueError(f"rows: {rows!r}; expected True, False, or a number from 1 to {MOST}")
    return rows


def _show_rows(
    view: QoSView,
    what: Application | AsyncApplication | SimulatedApplication,
    sink: str | None,
    rows: bool | int,
    follow: Callable[[str, int, Take, Callable[[], bool]], FollowedRows],
) -> None:
    """Have a view show the rows of a sink, which ``follow`` follows."""
    name = what.plan.sink(sink)
    windows = what.plan.window(name) is not None
    number = ROWS if rows is True and not windows else _number(rows)
    label = str(what.plan.operators[name].params["name"])
    columns = empty(what.plan.schema(name))
    view.show_rows(label, columns, _keys(what.plan, name), lambda *given: follow(name, number, *given))


def _keys(plan: Plan, sink: str) -> tuple[str, ...]:
    """Columns whose values tell the rows of a window of a sink apart; empty if it is not known which do."""
    name, columns = sink, plan.schema(sink)
    while (inputs := plan.upstream(name)) and not KINDS[plan.operators[name].kind].keys:
        if len(inputs) > 1:
            return ()
        (name,) = inputs
    stated = plan.operators[name].params.get(KINDS[plan.operators[name].kind].keys)
    keys = (stated,) if isinstance(stated, str) else tuple(stated or ())
    return keys if all(key in columns for key in keys) else ()


def _simulated(simulation: Simulation, plan: Plan | None = None, application: str | None = None) -> QoSView:
    """Watch a simulation, or one application in it; the view changes while virtual time passes."""
    view = QoSView(simulation.journal, plan, application=application, names=simulation.names)
    view.follow(simulation.listen)
    return view
