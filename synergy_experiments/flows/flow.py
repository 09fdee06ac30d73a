"""Compiled simulation of the delays of tuples on shared peers and links.

A peer serves the tuples of all its components one at a time, first come first served. A link of finite bandwidth does
the same with the tuples of all streams between two peers, and then adds its delay. So applications delay each other as
the projection (section 2.3.4) assumes, and :mod:`synergy_nb.models.queueing` gives the exact results in simple cases.
:mod:`synergy_experiments.flows.flow_applications` describes components and sources,
:mod:`synergy_experiments.flows.flow_kernel` is the compiled part.

The same seed gives the same run. The random numbers of a component depend only on the seed and on the names of its
application and itself, so the same applications with different placements have the same arrivals and service times.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_experiments.flows import flow_kernel, flow_tables
from synergy_experiments.flows.flow_applications import Tap
from synergy_experiments.flows.flow_graph import DROPS, Distances, Drop, FlowGraph

__all__ = ["Delays", "Distances", "Drop", "Executed", "Flow", "Observed"]

Array = npt.NDArray[np.float64]
OBSERVED: int = 4096  # rows of the first log of observed tuples


class Delays(NamedTuple):
    """Delays at the sinks of an application.

    Parameters
    ----------
    tuples
        Number of tuples that have arrived.
    mean, deviation, most
        Mean, standard deviation and maximum of their delays, seconds; not a number where there are none.
    late
        Tuples beyond the application's limit.
    in_time
        Mean delay of the others, seconds; not a number where there are none.
    """

    tuples: int
    mean: float
    deviation: float
    most: float
    late: int
    in_time: float = math.nan

    @property
    def miss_rate(self) -> float:
        """Share of the tuples that were late."""
        return self.late / self.tuples if self.tuples else 0.0


class Executed(NamedTuple):
    """Statistics of a component.

    Parameters
    ----------
    tuples
        Served.
    waiting, time
        Mean seconds that they waited for the peer, and until they were done (x).
    busy
        Seconds of service in all.
    lost
        Number of dropped tuples: the queue of its peer was full, or the tuples to join them with came too late.
    dropped
        Tuples that it dropped because they were late.
    """

    tuples: int
    waiting: float
    time: float
    busy: float
    lost: int
    dropped: int = 0


class Observed(NamedTuple):
    """Tuples that arrived at components at peers, in the order of arrival.

    Parameters
    ----------
    component
        Number of the instance of the component of each; :meth:`Flow.instance` names it.
    arrived, born
        Times of arrival at the component and of birth, seconds.
    departed
        Times of departure, seconds, which may be in the future; not a number for those that are dropped or lost.
    """

    component: npt.NDArray[np.int64]
    arrived: Array
    born: Array
    departed: Array


class Flow(FlowGraph):
    """A simulation of the data path.

    Parameters
    ----------
    network
        Delays between peers; none if not given.
    bandwidth
        ``(sender, to)`` to the bytes/s of their virtual link; infinite if not given.
    speeds
        Peer to its speed: on a peer of speed 2, components need half their processing times; 1 if not named.
    seed
        Seed of all random draws.
    keep
        Records of single delays kept of an application; when there are more, every second one is dropped.
    backlog
        Seconds of work that may wait at a peer; a tuple that would wait longer is lost, and counted. It bounds the
        memory that an overloaded peer takes.
    drop
        Rule of peers for late tuples (:mod:`synergy_experiments.flows.flow_graph`).

    Attributes
    ----------
    now : float
        Virtual time, seconds.
    served : int
        Component-tuples so far: tuples executed by components on peers.

    Examples
    --------
    An M/M/1 queue of load 0.8, its mean delay 0.5 s in theory:

    >>> from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
    >>> queue = Component("v1", Service.exponential(0.1), ["feed"])
    >>> flow = Flow(seed=1)
    >>> flow.add(Application("a", {"feed": Component(), "queue": queue}, {"feed": Arrivals.poisson(8.0)}))
    >>> flow.run(until=20_000.0)
    160041
    >>> round(flow.delays("a").mean, 1)
    0.5
    """

    def __init__(
        self,
        network: Distances | None = None,
        *,
        bandwidth: Callable[[str, str], float] | None = None,
        speeds: Mapping[str, float] | None = None,
        seed: int = 0,
        keep: int = 1024,
        backlog: float = 60.0,
        drop: Drop = "none",
    ) -> None:
        if keep < 2 or not backlog > 0.0:
            raise ValueError(f"keep, backlog: {keep}, {backlog}; expected at least 2 records, and more than 0 s")
        if drop not in DROPS:
            raise ValueError(f"drop: {drop!r}; expected one of {', '.join(map(repr, DROPS))}")
        for peer, speed in (speeds or {}).items():
            if not 0.0 < speed < math.inf:
                raise ValueError(f"speeds: {peer!r}: {speed}; expected a positive number")
        super().__init__(network, bandwidth, speeds or {}, seed, keep, drop)
        self._backlog = float(backlog)
        self._began = 0.0  # of what is counted
        self._reported: dict[str, tuple[int, float]] = {}

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, until: float) -> int:
        """Advance virtual time.

        Returns
        -------
        int
            Component-tuples served meanwhile.
        """
        if not until < math.inf:
            raise ValueError(f"until: {until}; expected a finite time")
        before = self.served
        while self._switches and self._switches[0][0] <= until:
            moment, _, upstream, old, new = heapq.heappop(self._switches)
            self._advance(moment)
            if self._nodes.rows[new]["alive"]:
                self._switch(moment, upstream, old, new)
        self._advance(float(until))
        return self.served - before

    def _advance(self, until: float) -> None:
        while not flow_kernel.advance(
            until,
            self._backlog,
            self._reserve,
            self._state,
            self._days,
            self._events,
            self._nodes.rows,
            self._profiles.rows,
            self._sources.rows,
            self._edges.rows,
            self._brought.rows,
            self._links.rows,
            self._hosts.rows,
            self._totals.rows,
            self._pool.rows,
            self._rings.rows,
            self._ring_births.rows,
            self._births.rows,
            self._delays.rows,
            self._observed,
        ):
            self._look()
        self.now = max(self.now, until)

    def clear(self) -> None:
        """Reset all statistics, as after a warm-up; tuples in flight stay."""
        self._began = self.now
        total = self._totals.rows
        for column in ("tuples", "late", "total", "late_total", "squares", "kept"):
            total[column] = 0
        total["stride"], total["most"] = 1, -math.inf
        for column in ("served", "waiting", "busy"):
            self._nodes.rows[column] = 0
        for column in ("lost", "dropped"):
            self._profiles.rows[column] = 0
        self._hosts.rows["busy"] = 0.0
        self._links.rows["busy"] = 0.0
        self._reported.clear()

    # -- what was measured -------------------------------------------------------------------------------------------

    @property
    def served(self) -> int:
        """Component-tuples so far."""
        return int(self._state["served"][0])

    @property
    def in_flight(self) -> int:
        """Tuples at peers and on links now, and sources."""
        return int(self._state["events"][0])

    def delays(self, name: str) -> Delays:
        """Delays at the sinks of an application since the last :meth:`clear`."""
        row = self._totals.rows[self._known(name)]
        tuples = int(row["tuples"])
        if not tuples:
            return Delays(0, math.nan, math.nan, math.nan, 0)
        mean = float(row["total"]) / tuples
        variance = max(float(row["squares"]) / tuples - mean * mean, 0.0)
        late = int(row["late"])
        in_time = (float(row["total"]) - float(row["late_total"])) / (tuples - late) if tuples > late else math.nan
        return Delays(tuples, mean, math.sqrt(variance), float(row["most"]), late, in_time)

    def recent(self, name: str) -> float:
        """Mean delay since this was last asked, in seconds: t̂ of the feedback loop; not a number if nothing came."""
        row = self._totals.rows[self._known(name)]
        tuples, total = int(row["tuples"]), float(row["total"])
        before, seen = self._reported.get(name, (0, 0.0))
        self._reported[name] = tuples, total
        return (total - seen) / (tuples - before) if tuples > before else math.nan

    def records(self, name: str) -> tuple[Array, Array]:
        """When single tuples were born and what delay they had, in the order of arrival: all, or evenly thinned out."""
        number = self._known(name)
        kept = int(self._totals.rows[number]["kept"])
        return self._births.rows[number, :kept].copy(), self._delays.rows[number, :kept].copy()

    def quantile(self, name: str, fraction: float) -> float:
        """Delay that ``fraction`` of the kept records do not exceed, in seconds."""
        found = self.records(name)[1]
        return float(np.quantile(found, fraction)) if len(found) else math.nan

    def executed(self, name: str, operator: str) -> Executed:
        """Statistics of a component since the last :meth:`clear`."""
        nodes = self._instances[name, operator]
        rows, profiles = self._nodes.rows[nodes], self._profiles.rows[nodes]
        tuples, busy = int(rows["served"].sum()), float(rows["busy"].sum())
        lost, dropped = int(profiles["lost"].sum()), int(profiles["dropped"].sum())
        if not tuples:
            return Executed(0, math.nan, math.nan, 0.0, lost, dropped)
        waiting = float(rows["waiting"].sum()) / tuples
        return Executed(tuples, waiting, waiting + busy / tuples, busy, lost, dropped)

    def backlog(self, peer: str) -> float:
        """Work that waits at a peer now, seconds."""
        number = self._host.get(peer)
        return 0.0 if number is None else max(float(self._hosts.rows[number]["free"]) - self.now, 0.0)

    def observe(self) -> None:
        """Begin to observe the tuples that arrive at components at peers, for :meth:`observed`."""
        if not len(self._observed):
            self._observed = np.zeros(OBSERVED, dtype=flow_tables.OBSERVED)

    def observed(self) -> Observed:
        """Tuples that have arrived since this was last called, or since :meth:`observe`."""
        rows = self._observed[: int(self._state["observed"][0])]
        self._state["observed"] = 0
        return Observed(*(rows[column].copy() for column in ("node", "when", "born", "done")))

    def instance(self, component: int) -> Tap:
        """Application and operator of an observed component."""
        return self._component[component][0]

    def load(self, peer: str, to: str | None = None) -> float:
        """Work that came to a peer since the last :meth:`clear`, as a share of the time: p, above 1 if overloaded.

        With ``to``, what the link from ``peer`` to it had to carry, b; 0 where its bandwidth is infinite.
        """
        number = self._host.get(peer) if to is None else self._link.get((peer, to))
        elapsed = self.now - self._began
        if number is None or not elapsed:
            return 0.0
        table = self._hosts if to is None else self._links
        return float(table.rows[number]["busy"]) / elapsed

    @property
    def lost(self) -> int:
        """Tuples lost by all components since the last :meth:`clear`."""
        return int(self._profiles.rows["lost"].sum())
