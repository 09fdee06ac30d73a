"""Requests placed in turn by a planner that knows all loads, delays and running streams: what an oracle can serve.

The share of the requests that some placement on idle peers would serve is above what any oracle can serve, as requests
take capacity from each other. This planner is below it: it knows the present load of every peer and the delay of every
running application, shares any running stream, and takes a placement only if all applications stay within their limits;
but it decides in the order of arrival and never revises a decision. The share that an oracle could serve is between
the two. Execution times are those of equation 2.6, transmission times those of the network; nothing is measured,
nothing takes time, and no two requests are composed at the same moment.

The delays that it counts with are projected: a component that reads the same tuples as another one at its peer waits
longer in fact. So its placements are executed tuple by tuple, too, as those of the protocols are: what is served then
is what this oracle reaches.

Candidates of a request are found by a beam search along its query: at every operator the fastest partial placements go
on, together with the running streams that end there. Of the complete ones, the planner takes the first acceptable one
in the order of a rule: the fewest new components, or the least delay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Tap, from_plan
from synergy_experiments.flows.workload import TUPLE_BYTES, Request, Workload
from synergy_experiments.worlds.scenario import Scenario
from synergy_nb.models.projection import WITHIN
from synergy_nb.simulator.network import Topology

__all__ = ["RULES", "Planner", "executed_in_turn", "served_in_turn"]

#: Rule to its order of complete placements.
RULES: Final = ("fewest components", "least delay")
WIDTH: Final = 48  # partial placements that go on at each operator
WARM_UP: Final = 10.0  # virtual seconds before delays count


class _Task(NamedTuple):
    """A component that runs: its peer, its work for a tuple there in seconds, and its share of the peer's capacity."""

    peer: str
    work: float
    load: float


class _Path(NamedTuple):
    """Tasks from a source on, the first ``shared`` of which run already; transmission times in seconds; last peer."""

    tasks: tuple[_Task, ...]
    shared: int
    sent: float
    at: str

    def delay(self, loads: Mapping[str, float]) -> float:
        """Time until a tuple leaves the last task, with its own new load, seconds; infinite if a peer is overloaded."""
        own: dict[str, float] = {}
        for task in self.tasks[self.shared :]:
            own[task.peer] = own.get(task.peer, 0.0) + task.load
        return self.sent + _executing(self.tasks, loads, own)


def _executing(tasks: Iterable[_Task], loads: Mapping[str, float], own: Mapping[str, float]) -> float:
    seconds = 0.0
    for task in tasks:
        left = 1.0 - loads.get(task.peer, 0.0) - own.get(task.peer, 0.0)
        if left <= 0.0:
            return float("inf")
        seconds += task.work / left
    return seconds


class Planner:
    """Places requests in turn.

    Parameters
    ----------
    topology, workload
        Peers, and requests for chains of operators.
    rule
        Order of complete placements, one of ``RULES``.

    Attributes
    ----------
    loads : dict of str to float
        Peer to its load, as a share of its capacity.
    running : list of (path, float)
        Paths of the placed requests with their limits in seconds, in the order of arrival.

    Raises
    ------
    ValueError
        If a query may have branches.
    """

    def __init__(self, topology: Topology, workload: Workload, rule: str) -> None:
        if workload.parameters.branching:
            raise ValueError(f"branching: {workload.parameters.branching}; expected 0, as only chains are placed")
        self.topology = topology
        self.workload = workload
        self.rule = rule
        self.loads: dict[str, float] = {}
        self.running: list[tuple[_Path, float]] = []  # with the limit, seconds
        self._at: dict[str, set[int]] = {}  # peer to the numbers of running applications with tasks there
        self._streams: dict[tuple[str, ...], list[_Path]] = {}  # source and components to the paths that produce it

    def admit(self, request: Request) -> bool:
        """Place a request, if all applications stay within their limits; return whether it was placed."""
        query = self.workload.queries[request.query]
        name: tuple[str, ...] = (query.source,)
        beams = [_Path((), 0, 0.0, self.workload.feeds[query.source].peer)]
        parts: list[tuple[tuple[str, ...], int]] = []
        for step in query.steps:
            name = (*name, step.component)
            parts.append((name, len(name) - 1))
            found = [self._extended(path, query.source, step.component, at)
                     for path in beams for at in self.workload.components[step.component].peers]  # fmt: skip
            found += self._streams.get(name, [])
            within = [(delay, path) for path in found if (delay := path.delay(self.loads)) <= request.limit]
            within.sort(key=lambda each: (each[0], each[1].at))
            beams = [path for _, path in within[:WIDTH]]
        complete = [path._replace(sent=path.sent + self._sent(path.at, request.origin), at=request.origin)
                    for path in beams]  # fmt: skip
        ranked = sorted((self._rank(path), number) for number, path in enumerate(complete))
        for _, number in ranked:
            if self._acceptable(complete[number], request.limit):
                self._run(complete[number], beams[number], request.limit, parts)
                return True
        return False

    def delays(self) -> list[float]:
        """Return the present delays of the placed requests, seconds, in the order of arrival."""
        return [path.sent + _executing(path.tasks, self.loads, {}) for path, _ in self.running]

    def _rank(self, path: _Path) -> tuple[float, float]:
        delay, new = path.delay(self.loads), float(len(path.tasks) - path.shared)
        return (new, delay) if self.rule == RULES[0] else (delay, new)

    def _extended(self, path: _Path, source: str, component: str, at: str) -> _Path:
        unique, rate = self.workload.components[component], self.workload.feeds[source].rate
        work = unique.cost / self.topology.cores[at]
        return _Path((*path.tasks, _Task(at, work, work * rate)), path.shared, path.sent + self._sent(path.at, at), at)

    def _sent(self, one: str, other: str) -> float:
        if one == other:
            return 0.0
        return self.topology.delay(one, other) + TUPLE_BYTES / self.topology.bandwidth(one, other)

    def _acceptable(self, path: _Path, limit: float) -> bool:
        if path.delay(self.loads) > limit * WITHIN:
            return False
        own: dict[str, float] = {}
        for task in path.tasks[path.shared :]:
            own[task.peer] = own.get(task.peer, 0.0) + task.load
        for number in set().union(*(self._at.get(peer, ()) for peer in own)):
            other, allowed = self.running[number]
            if other.sent + _executing(other.tasks, self.loads, own) > allowed * WITHIN:
                return False
        return True

    def _run(self, complete: _Path, made: _Path, limit: float, parts: Sequence[tuple[tuple[str, ...], int]]) -> None:
        number = len(self.running)
        self.running.append((complete, limit))
        for place, task in enumerate(complete.tasks):
            self._at.setdefault(task.peer, set()).add(number)
            if place >= complete.shared:
                self.loads[task.peer] = self.loads.get(task.peer, 0.0) + task.load
        sent, at = 0.0, self.workload.feeds[parts[0][0][0]].peer
        for name, many in parts:
            task = made.tasks[many - 1]
            sent, at = sent + self._sent(at, task.peer), task.peer
            if many > made.shared:
                self._streams.setdefault(name, []).append(_Path(made.tasks[:many], many, sent, at))


def executed_in_turn(given: Scenario, seed: int) -> dict[str, float]:
    """Return the share of the requests whose mean delay is within the limit when the planner's placements are executed.

    Of its rules, that counts with which more are served.

    Examples
    --------
    >>> from synergy_experiments.flows.workload import Parameters
    >>> executed_in_turn(Scenario(Parameters(components=20, requests=5, isolated="least"), peers=20), seed=1)
    {'success': 1.0}
    """
    topology, workload = given.world(seed)
    served = [_executed(Planner(topology, workload, rule), given, seed) for rule in RULES]
    return {"success": max(served) / max(len(workload.requests), 1)}


def _executed(planner: Planner, given: Scenario, seed: int) -> int:
    """Place all requests, execute them, and count those that are served."""
    topology, workload = planner.topology, planner.workload
    flow = Flow(topology, bandwidth=topology.bandwidth, speeds=topology.cores, seed=seed, keep=2)
    placed = [request for request in workload.requests if planner.admit(request)]
    maker: dict[int, Tap] = {}  # identity of a task to the application and component that it was placed for
    for request, (path, _) in zip(placed, planner.running, strict=True):
        plan = workload.plan(request)
        (source,), (sink,) = plan.sources, plan.sinks
        operators = [name for name in plan.operators if name not in (source, sink)]  # of a chain, in its order
        peers = {sink: request.origin}
        taps: dict[str, Tap] = {}
        if path.shared:
            taps[operators[path.shared - 1]] = maker[id(path.tasks[path.shared - 1])]
        else:
            peers[source] = workload.feeds[workload.queries[request.query].source].peer
        for name, task in list(zip(operators, path.tasks, strict=True))[path.shared :]:
            peers[name] = task.peer
            maker[id(task)] = request.name, name
        flow.add(from_plan(request.name, plan, peers, taps=taps))
    flow.run(WARM_UP)
    flow.clear()
    flow.run(WARM_UP + given.window)
    delays = [flow.delays(request.name).mean for request in placed]
    return sum(delay <= request.limit for delay, request in zip(delays, placed, strict=True))


def served_in_turn(given: Scenario, seed: int) -> dict[str, float]:
    """Return the share of the requests that the planner serves, by the better of its rules.

    Examples
    --------
    >>> from synergy_experiments.flows.workload import Parameters
    >>> served_in_turn(Scenario(Parameters(components=20, requests=5, isolated="least"), peers=20), seed=1)
    {'success': 1.0}
    """
    topology, workload = given.world(seed)
    served = []
    for rule in RULES:
        planner = Planner(topology, workload, rule)
        served.append(sum(planner.admit(request) for request in workload.requests))
    return {"success": max(served) / max(len(workload.requests), 1)}
