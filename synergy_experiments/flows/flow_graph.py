"""The components, streams, peers and links of a flow simulation, as tables that its compiled part executes.

*Moves.* A component that moves gets a second instance at its new peer. Each upstream component sends to it from a time
of its own on; the old instance executes what was sent to it before. So nothing is paused, and nothing is lost (section
3.4.4 of the dissertation). The statistics of a component include all of its instances. What a component retains
between tuples (a fraction of an output, the partners of tuples) is common to both instances, as if it were transferred
without delay.

*Drops.* A peer may drop tuples that are late when their turn comes, so that they take no service from others
(section 3.5):

======================  ================================================================================================
``none``                none is dropped
``overdue at dequeue``  those whose age exceeds the limit
``sure to be late``     those whose age would exceed the limit at the sink, even if they did not wait any more
======================  ================================================================================================

If several applications read a stream, a tuple is dropped only if it is too late for all of them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import heapq
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import numpy as np

from synergy_experiments.flows import flow_kernel, flow_tables
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service, Tap
from synergy_experiments.flows.flow_tables import Table, aligned

__all__ = ["DROPS", "Distances", "Drop", "FlowGraph"]

Drop = Literal["none", "overdue at dequeue", "sure to be late"]

#: Rules of peers for tuples that are late.
DROPS: Final[tuple[Drop, ...]] = ("none", "overdue at dequeue", "sure to be late")

#: Maximum number of days of the calendar per second, so that the numbers of days stay exact for years of virtual time.
MOST_DAYS: Final = 1e9

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


class FlowGraph:
    """Components, streams, peers and links, and the calendar of events; :class:`.Flow` executes them.

    Parameters
    ----------
    network, bandwidth, speeds, seed, keep, drop
        Parameters of :class:`.Flow`.
    """

    def __init__(
        self,
        network: Distances | None,
        bandwidth: Callable[[str, str], float] | None,
        speeds: Mapping[str, float],
        seed: int,
        keep: int,
        drop: Drop,
    ) -> None:
        self.now = 0.0
        self.seed = seed
        self._network = network
        self._bandwidth = bandwidth
        self._speeds = speeds
        self._drop = drop
        self._reserve = 2
        self._nodes, self._profiles = Table(flow_tables.NODE), Table(flow_tables.PROFILE)
        self._sources, self._edges = Table(flow_tables.SOURCE), Table(flow_tables.EDGE)
        self._brought = Table(flow_tables.PORT)  # by each edge
        self._links, self._hosts = Table(flow_tables.LINK), Table(flow_tables.PEER)
        self._totals, self._pool = Table(flow_tables.APPLICATION), Table("f8")
        self._births, self._delays = Table("f8", keep), Table("f8", keep)
        self._rings, self._ring_births = Table("i8"), Table("f8")
        self._state: Any = np.zeros(1, dtype=flow_tables.STATE)
        self._state["unused"] = -1
        self._days: Any = np.zeros(0, dtype=flow_tables.DAY)
        self._events: Any = np.zeros(0, dtype=flow_tables.EVENT)
        self._observed: Any = np.zeros(0, dtype=flow_tables.OBSERVED)
        self._host: dict[str, int] = {}
        self._peers: list[str] = []  # by number
        self._link: dict[tuple[str, str], int] = {}
        self._number: dict[str, int] = {}  # of an application
        self._node: dict[Tap, int] = {}  # of a component's present instance
        self._instances: dict[Tap, list[int]] = {}  # nodes, the present one last
        self._component: list[tuple[Tap, Component]] = []  # of a node
        self._ends: dict[str, list[int]] = {}  # nodes that are sinks
        self._inputs: dict[int, list[int]] = {}  # node to its edges in, and out
        self._outputs: dict[int, list[int]] = {}
        self._from: list[int] = []  # edge to the node that it leaves
        self._switches: list[tuple[float, int, Tap, int, int]] = []  # time, order, upstream, old and new instance
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
        node = self._add_instance((name, operator), component, application, shared=None)
        profile, service = self._profiles.rows[node], component.service
        profile["selectivity"], profile["random"] = component.selectivity, component.random
        profile["first"], profile["length"] = self._pooled(service.times)
        if component.match:
            profile["inputs"] = len(component.inputs)
            profile["ring"] = self._rings.add(flow_kernel.RING)
            self._ring_births.add(flow_kernel.RING)
        at_once = component.peer is None and not component.match and service == Service.constant(0.0)
        for each in component.inputs:
            upstream = self._node[(name, each) if isinstance(each, str) else each]
            self._connect(upstream, node, application if at_once else -1)
        self._update_patience(node)

    def _add_instance(self, tap: Tap, component: Component, application: int, shared: int | None) -> int:
        """Add a node for a component at its peer; ``shared`` is the first instance of a component that moves."""
        instances = self._instances.setdefault(tap, [])
        self._node[tap] = node = self._nodes.add()
        self._profiles.add()
        self._inputs[node], self._outputs[node] = [], []
        name = f"{self.seed}\0{tap[0]}\0{tap[1]}" + (f"\0{len(instances)}" if instances else "")
        row, service = self._nodes.rows[node], component.service
        row["generator"] = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        row["alive"], row["edge"], row["application"] = 1, -1, application
        row["peer"] = -1 if component.peer is None else self._host_of(component.peer)
        row["plain"], row["matching"] = component.selectivity == 1.0, component.match
        row["service"] = _SERVICES[service.kind]
        row["mean"] = (1.0 if service.kind == "drawn" else service.mean) / self.speed(component.peer)
        row["patience"] = math.inf
        self._profiles.rows[node]["shared"] = node if shared is None else shared
        instances.append(node)
        self._component.append((tap, component))
        if application >= 0:
            self._ends[tap[0]].append(node)
        return node

    def speed(self, peer: str | None) -> float:
        """Speed of a peer."""
        return 1.0 if peer is None else self._speeds.get(peer, 1.0)

    def _connect(self, upstream: int, node: int, sink: int, old: int = -1) -> int:
        """Connect a component to a stream; return the number of the edge.

        ``sink`` is its application if it is a sink without service time; ``old`` is the edge that the new one replaces,
        or -1.
        """
        edge = self._edges.add()
        self._brought.add()
        self._brought.rows[edge]["port"] = edge if old < 0 else self._brought.rows[old]["port"]
        self._from.append(upstream)
        row = self._edges.rows[edge]
        row["to"], row["sink"], row["link"] = node, sink, -1
        ends = int(self._nodes.rows[upstream]["peer"]), int(self._nodes.rows[node]["peer"])
        if ends[0] != ends[1] and min(ends) >= 0:
            pair = self._peers[ends[0]], self._peers[ends[1]]
            row["delay"] = self.hop(*pair)
            bandwidth = math.inf if self._bandwidth is None else self._bandwidth(*pair)
            if not bandwidth > 0.0:
                raise ValueError(f"link {pair}: {bandwidth} bytes/s; expected a bandwidth above 0")
            if bandwidth < math.inf:
                size = self._component[upstream][1].size
                row["transmission"], row["link"] = size / bandwidth, self._link_of(pair)
        for each in self._inputs[upstream]:
            self._edges.rows[each]["sink"] = -1  # a component with readers is no sink any more
        self._inputs[node].append(edge)
        self._outputs[upstream].append(edge)
        self._chain(upstream)
        return edge

    def hop(self, sender: str, to: str) -> float:
        """One-way delay from a peer to another one, seconds."""
        delay = 0.0 if self._network is None or sender == to else self._network.delay(sender, to)
        if not 0.0 <= delay < math.inf:
            raise ValueError(f"link {(sender, to)}: {delay} s; expected a delay from 0")
        return delay

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
            self._peers.append(peer)
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
            if not self._nodes.rows[node]["alive"]:
                continue
            for each in self._instances[self._component[node][0]]:
                self._nodes.rows[each]["alive"] = 0
                for edge in self._inputs[each]:
                    upstream = self._from[edge]
                    self._outputs[upstream].remove(edge)
                    self._chain(upstream)
                    if not self._outputs[upstream] and self._nodes.rows[upstream]["application"] < 0:
                        waiting.append(upstream)

    def running(self, name: str, operator: str) -> bool:
        """Whether a component exists and emits its stream."""
        node = self._node.get((name, operator))
        return node is not None and bool(self._nodes.rows[node]["alive"])

    def _known(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            raise KeyError(f"application: {name!r}; expected one that was added")
        return number

    # -- moves -----------------------------------------------------------------------------------------------------

    def migrate(self, name: str, operator: str, to: str, switches: Mapping[str | Tap, float]) -> None:
        """Move a component: a new instance at another peer gets what its upstream components send from then on.

        Parameters
        ----------
        name, operator
            The component, at a peer and with inputs.
        to
            Name of the peer.
        switches
            Each component that it reads, or stream of another application, to the time from which on that sends to the
            new instance, seconds.

        Raises
        ------
        ValueError
            If the component cannot move, it or a component beside it is moving, or a time is missing or has passed.
        """
        tap = (name, operator)
        if not self.running(name, operator):
            raise ValueError(f"component: {tap}; expected one that runs")
        old = self._node[tap]
        _, component = self._component[old]
        if component.peer is None or not component.inputs or component.peer == to:
            raise ValueError(
                f"component: {tap} at {component.peer!r}; expected one with inputs, at a peer other than {to!r}"
            )
        upstreams = [(name, each) if isinstance(each, str) else each for each in component.inputs]
        times = {(name, each) if isinstance(each, str) else each: time for each, time in switches.items()}
        for each in upstreams:
            if not self.now <= times.get(each, -1.0) < math.inf:
                raise ValueError(f"switches: {times.get(each)} of {each}; expected a time from {self.now} on")
        readers = [self._component[int(self._edges.rows[edge]["to"])][0] for edge in self._outputs[old]]
        for each in (tap, *upstreams, *readers):
            if self.moving(*each):
                raise ValueError(f"component: {tap}, beside {each}, which is moving; expected that to be complete")
        first = int(self._profiles.rows[old]["shared"])
        application = int(self._nodes.rows[old]["application"])
        node = self._add_instance(tap, dataclasses.replace(component, peer=to), application, first)
        for edge in self._outputs[old]:
            row = self._edges.rows[edge]
            self._connect(node, int(row["to"]), int(row["sink"]), edge)
        self._update_patience(node)
        for each in upstreams:
            heapq.heappush(self._switches, (times[each], len(self._edges.rows), each, old, node))

    def moving(self, name: str, operator: str) -> bool:
        """Whether a component that moves still gets tuples at its old peer."""
        return any(self._component[node][0] == (name, operator) for *_, node in self._switches)

    def placed(self, name: str, operator: str) -> str | None:
        """Peer of a component, of its new instance if it moves."""
        return self._component[self._node[name, operator]][1].peer

    def present(self, name: str, operator: str) -> int:
        """Number of the present instance of a component."""
        return self._node[name, operator]

    def _switch(self, moment: float, upstream: Tap, old: int, new: int) -> None:
        """Have all instances of an upstream component send to the new instance of its reader."""
        for sender in self._instances[upstream]:
            for edge in [each for each in self._outputs[sender] if self._edges.rows[each]["to"] == old]:
                self._inputs[old].remove(edge)
                self._outputs[sender].remove(edge)
                replacing = self._connect(sender, new, -1, edge)
                flow_kernel.reroute(
                    self._state[0],
                    self._days,
                    self._events,
                    self._edges.rows,
                    self._links.rows,
                    edge,
                    replacing,
                    moment,
                )
            self._update_patience(sender)

    # -- drops -----------------------------------------------------------------------------------------------------

    def _update_patience(self, node: int) -> None:
        """Compute when tuples at a component, and at those upstream of it, are too late."""
        if self._drop == "none":
            return
        waiting = [node]
        while waiting:
            node = waiting.pop()
            found = self._patience(node)
            if found != self._nodes.rows[node]["patience"] or not self._outputs[node]:
                self._nodes.rows[node]["patience"] = found
                waiting.extend(self._from[edge] for edge in self._inputs[node])

    def _patience(self, node: int) -> float:
        """Age up to which tuples are served by a component, seconds."""
        row, sure = self._nodes.rows[node], self._drop == "sure to be late"
        number = int(row["application"])
        latest = [float(self._totals.rows[number]["limit"])] if number >= 0 else []
        for edge in self._outputs[node]:
            after = self._edges.rows[edge]
            travel = float(after["delay"] + after["transmission"]) if sure else 0.0
            latest.append(float(self._nodes.rows[int(after["to"])]["patience"]) - travel)
        component = self._component[node][1]
        return max(latest, default=math.inf) - (component.service.mean / self.speed(component.peer) if sure else 0.0)

    # -- the calendar ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Resize the calendar: room for more events, about two in a day, as many days as events; and extend the log."""
        state = self._state[0]
        now = float(state["today"]) / float(state["a_second"]) if state["a_second"] else 0.0
        rate, elapsed = float(state["carried_out"]), now - self._looked
        state["carried_out"], state["effort"], self._looked = 0, 0, now
        a_second = min(rate / elapsed / 2.0, MOST_DAYS) if rate and elapsed > 0.0 else float(state["a_second"]) or 1e3
        room = len(self._events)
        if int(state["events"]) + self._reserve > room:
            room = 2 * room + max(self._reserve, 1024)
        count = 1 << max(int(state["events"]), 512).bit_length()
        if len(self._observed) and int(state["observed"]) == len(self._observed):
            grown = np.zeros(2 * len(self._observed), dtype=flow_tables.OBSERVED)
            grown[: len(self._observed)] = self._observed
            self._observed = grown
        same = room == len(self._events) and count == len(self._days)
        if same and 0.5 < a_second / float(state["a_second"]) < 2.0:
            return
        days, events = aligned(flow_tables.DAY, count), aligned(flow_tables.EVENT, room)
        events[: len(self._events)] = self._events
        flow_kernel.replan(state, self._days, len(self._events), days, events, a_second)
        self._days, self._events = days, events
