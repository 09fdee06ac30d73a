"""Compiled simulation of the delays of tuples on shared peers and links.

A peer serves the tuples of all its components one at a time, first come first served. A link of finite bandwidth does
the same with the tuples of all streams between two peers, and then adds its delay. So applications delay each other as
the projection (section 2.3.4) assumes, and :mod:`synergy_nb.models.queueing` gives the exact results in simple cases.
:mod:`synergy_nb.simulator.flow_applications` describes components and sources,
:mod:`synergy_nb.simulator.flow_kernel` is the compiled part.

The same seed gives the same run. The random numbers of a component depend only on the seed and on the names of its
application and itself, so the same applications with different placements have the same arrivals and service times.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from synergy_nb.simulator import flow_kernel, flow_tables
from synergy_nb.simulator.flow_applications import Application, Arrivals, Component, Service, Tap
from synergy_nb.simulator.flow_tables import Table, aligned

__all__ = ["Delays", "Distances", "Executed", "Flow"]

#: Maximum number of days of the calendar per second, so that the numbers of days stay exact for years of virtual time.
MOST_DAYS: Final = 1e9

Array = npt.NDArray[np.float64]
_SERVICES: Final = {
    "constant": flow_kernel.CONSTANT,
    "exponential": flow_kernel.EXPONENTIAL,
    "drawn": flow_kernel.DRAWN,
}
_ARRIVALS: Final = {
    "poisson": flow_kernel.POISSON,
    "periodic": flow_kernel.PERIODIC,
    "on_off": flow_kernel.ON_OFF,
    "trace": flow_kernel.TRACE,
}


class Distances(Protocol):
    """One-way delays between peers, as a :class:`~synergy_nb.simulator.network.Topology` gives them."""

    def delay(self, sender: str, to: str) -> float:
        """One-way delay from ``sender`` to ``to``, seconds."""
        ...


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
    """

    tuples: int
    mean: float
    deviation: float
    most: float
    late: int

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
        Tuples that it did not take: too much waited at its peer, or what they were to be matched with came too late.
    """

    tuples: int
    waiting: float
    time: float
    busy: float
    lost: int


class Flow:
    """A simulation of the data path.

    Parameters
    ----------
    network
        Delays between peers; none if not given.
    bandwidth
        ``(sender, to)`` to the bytes/s of their virtual link; infinite if not given.
    speeds
        Peer to its speed: on a peer of speed 2, components take half their processing times. 1 where nothing is said.
    seed
        Seed of all random draws.
    keep
        Records of single delays kept of an application; when there are more, every second one is dropped.
    backlog
        Seconds of work that may wait at a peer; a tuple that would wait longer is lost, and counted. It bounds the
        memory that an overloaded peer takes.

    Attributes
    ----------
    now : float
        Virtual time, seconds.
    served : int
        Component-tuples so far: tuples executed by components on peers.

    Examples
    --------
    An M/M/1 queue of load 0.8, its mean delay 0.5 s in theory:

    >>> from synergy_nb.simulator.flow_applications import Application, Arrivals, Component, Service
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
    ) -> None:
        if keep < 2 or not backlog > 0.0:
            raise ValueError(f"keep, backlog: {keep}, {backlog}; expected at least 2 records, and more than 0 s")
        for peer, speed in (speeds or {}).items():
            if not 0.0 < speed < math.inf:
                raise ValueError(f"speeds: {peer!r}: {speed}; expected a positive number")
        self.now = 0.0
        self.seed = seed
        self._network = network
        self._bandwidth = bandwidth
        self._speeds = speeds or {}
        self._backlog = float(backlog)
        self._began = 0.0  # of what is counted
        self._reserve = 2
        self._nodes, self._profiles = Table(flow_tables.NODE), Table(flow_tables.PROFILE)
        self._sources, self._edges = Table(flow_tables.SOURCE), Table(flow_tables.EDGE)
        self._brought = Table("i8")  # by each edge
        self._links, self._hosts = Table(flow_tables.LINK), Table(flow_tables.PEER)
        self._totals, self._pool = Table(flow_tables.APPLICATION), Table("f8")
        self._births, self._delays = Table("f8", keep), Table("f8", keep)
        self._rings, self._ring_births = Table("i8"), Table("f8")
        self._state: Any = np.zeros(1, dtype=flow_tables.STATE)
        self._state["unused"] = -1
        self._days: Any = np.zeros(0, dtype=flow_tables.DAY)
        self._events: Any = np.zeros(0, dtype=flow_tables.EVENT)
        self._host: dict[str, int] = {}
        self._place: list[str] = []  # of a host
        self._link: dict[tuple[str, str], int] = {}
        self._number: dict[str, int] = {}  # of an application
        self._node: dict[Tap, int] = {}
        self._ends: dict[str, list[int]] = {}  # nodes that are sinks
        self._size: list[float] = []  # of a tuple of a node
        self._inputs: dict[int, list[int]] = {}  # node to its edges in, and out
        self._outputs: dict[int, list[int]] = {}
        self._from: list[int] = []  # edge to the node that it leaves
        self._told: dict[str, tuple[int, float]] = {}
        self._looked = 0.0  # when, at the calendar

    # -- applications ----------------------------------------------------------------------------------------------

    def add(self, application: Application, at: float | None = None) -> None:
        """Start an application: its sources begin ``at`` a virtual time, by default now.

        Raises
        ------
        ValueError
            If there was one of that name, it taps a stream that does not run, or ``at`` has passed.
        """
        name, start = application.name, self.now if at is None else at
        if name in self._number:
            raise ValueError(f"application: {name!r}; expected a name that none had before")
        if not self.now <= start < math.inf:
            raise ValueError(f"at: {start}; expected a time from {self.now} on")
        for operator, component in application.components.items():
            for tap in component.inputs:
                if not isinstance(tap, str) and not self.running(*tap):
                    raise ValueError(f"application {name!r}, {operator!r}, inputs: {tap!r}; expected a running stream")
        self._number[name] = number = self._totals.add()
        self._ends[name] = []
        self._births.add()
        self._delays.add()
        total = self._totals.rows[number]
        total["limit"], total["stride"], total["most"] = application.limit, 1, -math.inf
        for operator, component in application.components.items():
            self._add_component(name, operator, component, number if operator in application.sinks else -1)
        for operator, arrivals in application.sources.items():
            self._add_source(self._node[name, operator], arrivals, start)

    def _add_component(self, name: str, operator: str, component: Component, application: int) -> None:
        self._node[name, operator] = node = self._nodes.add()
        self._profiles.add()
        self._inputs[node], self._outputs[node] = [], []
        row, profile = self._nodes.rows[node], self._profiles.rows[node]
        digest = hashlib.blake2b(f"{self.seed}\0{name}\0{operator}".encode(), digest_size=8).digest()
        row["generator"] = int.from_bytes(digest, "little")
        row["alive"], row["edge"], row["application"] = 1, -1, application
        row["peer"] = -1 if component.peer is None else self._host_of(component.peer)
        row["plain"] = component.selectivity == 1.0
        profile["selectivity"], profile["random"] = component.selectivity, component.random
        service = component.service
        speed = 1.0 if component.peer is None else self._speeds.get(component.peer, 1.0)
        row["service"] = _SERVICES[service.kind]
        row["mean"] = (1.0 if service.kind == "drawn" else service.mean) / speed
        profile["first"], profile["length"] = self._pooled(service.times)
        if component.match:
            row["matching"], profile["inputs"] = 1, len(component.inputs)
            profile["ring"] = self._rings.add(flow_kernel.RING)
            self._ring_births.add(flow_kernel.RING)
        self._size.append(component.size)
        if application >= 0:
            self._ends[name].append(node)
        at_once = component.peer is None and not component.match and component.service == Service.constant(0.0)
        for each in component.inputs:
            upstream = self._node[(name, each) if isinstance(each, str) else each]
            self._connect(upstream, node, application if at_once else -1)

    def _connect(self, upstream: int, node: int, sink: int) -> None:
        """Connect a component to a stream; ``sink`` is its application if it is a sink without service time."""
        edge = self._edges.add()
        self._brought.add()
        self._from.append(upstream)
        row = self._edges.rows[edge]
        row["to"], row["sink"], row["link"] = node, sink, -1
        ends = int(self._nodes.rows[upstream]["peer"]), int(self._nodes.rows[node]["peer"])
        if ends[0] != ends[1] and min(ends) >= 0:
            pair = self._place[ends[0]], self._place[ends[1]]
            delay = 0.0 if self._network is None else self._network.delay(*pair)
            bandwidth = math.inf if self._bandwidth is None else self._bandwidth(*pair)
            if not (0.0 <= delay < math.inf and bandwidth > 0.0):
                raise ValueError(f"link {pair}: {delay} s, {bandwidth} bytes/s; expected a delay and a bandwidth")
            row["delay"] = delay
            if bandwidth < math.inf:
                row["transmission"], row["link"] = self._size[upstream] / bandwidth, self._link_of(pair)
        for each in self._inputs[upstream]:
            self._edges.rows[each]["sink"] = -1  # a component with readers is no sink any more
        self._inputs[node].append(edge)
        self._outputs[upstream].append(edge)
        self._chain(upstream)

    def _chain(self, node: int) -> None:
        """Write the edges out of a node as the list that the compiled part follows."""
        edges = self._outputs[node]
        self._nodes.rows[node]["edge"] = edges[0] if edges else -1
        for place, edge in enumerate(edges, start=1):
            self._edges.rows[edge]["next"] = edges[place] if place < len(edges) else -1
        most = math.ceil(self._profiles.rows[node]["selectivity"]) + 1
        self._reserve = max(self._reserve, most * len(edges) + 1)

    def _add_source(self, node: int, arrivals: Arrivals, start: float) -> None:
        number = self._sources.add()
        row = self._sources.rows[number]
        row["node"], row["kind"], row["left"] = node, _ARRIVALS[arrivals.kind], arrivals.tuples
        row["high"], row["low"], row["on"], row["off"] = arrivals.high, arrivals.low, arrivals.on, arrivals.off
        row["exponential"], row["start"], row["until"] = arrivals.random, start, start + arrivals.duration
        row["first"], row["length"] = self._pooled(arrivals.times)
        if self._state["unused"][0] < 0:
            self._look()
        flow_kernel.schedule(self._state[0], self._days, self._events, float(start), node, ~number, float(start))

    def _pooled(self, times: tuple[float, ...]) -> tuple[int, int]:
        if not times:
            return 0, 0
        first = self._pool.add(len(times))
        self._pool.rows[first : self._pool.used] = times
        return first, len(times)

    def _host_of(self, peer: str) -> int:
        number = self._host.get(peer)
        if number is None:
            number = self._host[peer] = self._hosts.add()
            self._place.append(peer)
        return number

    def _link_of(self, pair: tuple[str, str]) -> int:
        number = self._link.get(pair)
        if number is None:
            number = self._link[pair] = self._links.add()
        return number

    def remove(self, name: str) -> None:
        """End an application: remove components without readers, from the sinks up to the sources.

        Components that other applications tap stay. Tuples on links to a removed component are dropped; work that waits
        at peers is still done.
        """
        self._known(name)
        ends, self._ends[name] = self._ends[name], []
        for node in ends:
            self._nodes.rows[node]["application"] = -1
        waiting = [node for node in ends if not self._outputs[node]]
        while waiting:
            node = waiting.pop()
            row = self._nodes.rows[node]
            if not row["alive"]:
                continue
            row["alive"] = 0
            for edge in self._inputs[node]:
                upstream = self._from[edge]
                self._outputs[upstream].remove(edge)
                self._chain(upstream)
                if not self._outputs[upstream] and self._nodes.rows[upstream]["application"] < 0:
                    waiting.append(upstream)

    def running(self, name: str, operator: str) -> bool:
        """Whether a component exists and emits its stream."""
        node = self._node.get((name, operator))
        return node is not None and bool(self._nodes.rows[node]["alive"])

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
        while not flow_kernel.advance(
            float(until),
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
        ):
            self._look()
        self.now = max(self.now, float(until))
        return self.served - before

    def _look(self) -> None:
        """Resize the calendar: room for more events, about two events in a day, and as many days as events."""
        state = self._state[0]
        now = float(state["today"]) / float(state["a_second"]) if state["a_second"] else 0.0
        rate, elapsed = float(state["carried_out"]), now - self._looked
        state["carried_out"], state["effort"], self._looked = 0, 0, now
        a_second = min(rate / elapsed / 2.0, MOST_DAYS) if rate and elapsed > 0.0 else float(state["a_second"]) or 1e3
        room = len(self._events)
        if int(state["events"]) + self._reserve > room:
            room = 2 * room + max(self._reserve, 1024)
        count = 1 << max(int(state["events"]), 512).bit_length()
        same = room == len(self._events) and count == len(self._days)
        if same and 0.5 < a_second / float(state["a_second"]) < 2.0:
            return
        days, events = aligned(flow_tables.DAY, count), aligned(flow_tables.EVENT, room)
        events[: len(self._events)] = self._events
        flow_kernel.replan(state, self._days, len(self._events), days, events, a_second)
        self._days, self._events = days, events

    def clear(self) -> None:
        """Reset all statistics, as after a warm-up; tuples in flight stay."""
        self._began = self.now
        total = self._totals.rows
        for column in ("tuples", "late", "total", "squares", "kept"):
            total[column] = 0
        total["stride"], total["most"] = 1, -math.inf
        for column in ("served", "waiting", "busy"):
            self._nodes.rows[column] = 0
        self._profiles.rows["lost"] = 0
        self._hosts.rows["busy"] = 0.0
        self._links.rows["busy"] = 0.0
        self._told.clear()

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
        return Delays(tuples, mean, math.sqrt(variance), float(row["most"]), int(row["late"]))

    def recent(self, name: str) -> float:
        """Mean delay since this was last asked, in seconds: t̂ of the feedback loop; not a number if nothing came."""
        row = self._totals.rows[self._known(name)]
        tuples, total = int(row["tuples"]), float(row["total"])
        before, seen = self._told.get(name, (0, 0.0))
        self._told[name] = tuples, total
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
        node = self._node[name, operator]
        row, lost = self._nodes.rows[node], int(self._profiles.rows[node]["lost"])
        tuples, busy = int(row["served"]), float(row["busy"])
        if not tuples:
            return Executed(0, math.nan, math.nan, 0.0, lost)
        waiting = float(row["waiting"]) / tuples
        return Executed(tuples, waiting, waiting + busy / tuples, busy, lost)

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

    def _known(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            raise KeyError(f"application: {name!r}; expected one that was added")
        return number
