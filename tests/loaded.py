"""Simulated peers whose processing times depend on the load of their peer, which drivers report every second."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import DepartureLimits, PredictionsMade, SlackLost
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.plan import Plan, source
from tests.moving import Movers

RATE = Callable[[float], float]


class Loaded(Movers):
    """Peers with a model of execution times: t_e = τ + slope · (total rate of the peer).

    Every second each driver reports the rates and times of its components, and which of them have no slack, by the
    departure limits that it was given: like the data path, without tuples.
    """

    def __init__(self, peers: int, seed: int, *, slope: float = 1e-4, **settings: object) -> None:
        self.slope = slope
        self.tau: dict[str, float] = {}  # operator to τ, seconds
        self.rates: dict[str, RATE] = {}  # application to its rate over time
        self.limits: dict[tuple[str, str], Mapping[str, float]] = {}
        self.capacity: dict[str, float] = {}  # peer to how many times as fast it is
        super().__init__(peers, seed, **settings)  # type: ignore[arg-type]

    def _carry_out(self, address: str, instruction: object) -> None:
        if isinstance(instruction, DepartureLimits):
            self.limits[address, instruction.application] = instruction.limits
        super()._carry_out(address, instruction)

    def rate_of(self, application: str) -> float:
        """Present rate of an application, tuples/s."""
        return self.rates[application](self.simulation.now)

    def here(self, address: str) -> list[tuple[str, str]]:
        """Components with inputs that a peer executes."""
        found = sorted((app, op) for peer, app, op in self.deployed if peer == address and app in self.rates)
        return [(app, op) for app, op in found if op in self.tau]

    def total(self, address: str) -> float:
        """Total rate of a peer, tuples/s."""
        return math.fsum(self.rate_of(application) for application, _ in self.here(address))

    def seconds(self, address: str, operator: str) -> float:
        """Execution time of an operator at a peer now, seconds."""
        return self.tau[operator] + self.slope * self.total(address) / self.capacity.get(address, 1.0)

    def age(self, application: str, operator: str) -> float:
        """Age of tuples of an application on arrival at an operator now, seconds."""
        peers = {op: peer for peer, app, op in self.deployed if app == application}
        members = [each.session.members for each in self.synergy.values()]
        plan = next((known[application].plan for known in members if application in known), None)
        age, at = 0.0, operator
        if plan is None:
            return age
        while plan.upstream(at):
            before = max(plan.upstream(at), key=lambda up: (up in self.tau, up))
            age += 0.0 if peers.get(before) == peers.get(at) else 0.02
            age += self.seconds(peers[before], before) if before in self.tau and before in peers else 0.0
            at = before
        return age

    def second(self) -> None:
        """Let a second pass, and report."""
        self.run(1.0)
        self.second_reports()

    def second_reports(self) -> None:
        """Have all drivers report what they measure and predict now."""
        for address in sorted(self.synergy):
            made = [self._prediction(address, *each) for each in self.here(address)]
            if not made:
                continue
            total = self.total(address)
            load = math.fsum(each.rate * each.processing for each in made)
            self.simulation.report(address, PredictionsMade(PeerPrediction(tuple(made), total, total, load, load)))
            for each in made:
                limit = self.limits.get((address, each.application), {}).get(each.operator)
                if limit is not None and limit - each.age - each.predicted <= 0.0 and address in self.synergy:
                    slack = limit - each.age - each.predicted
                    self.simulation.report(address, SlackLost(SlackViolation(each, slack, each.age, 50, 1.0)))

    def _prediction(self, address: str, application: str, operator: str) -> Prediction:
        rate, seconds = self.rate_of(application), self.seconds(address, operator)
        slope = self.slope / self.capacity.get(address, 1.0)
        tau, age = self.tau[operator], self.age(application, operator)
        return Prediction(
            application, operator, rate, rate, "", seconds, seconds, "line", tau, slope, 1e-7, tau, age
        )  # fmt: skip

    def start(
        self, name: str, plan: Plan, where: Mapping[str, str], rate: RATE, *, tau: float = 1e-4, at: str = "peer-0"
    ) -> None:
        """Run an application with each operator at a given peer."""
        hops = {each: Hop(each, where[each], 1.0, 1e8, 0.001, 0.01) for each in plan.operators}
        edges = [(up, each) for each in plan.operators for up in plan.upstream(each)]
        answers = self.establish(at, name, plan, ComponentGraph(hops, dict.fromkeys(edges, (math.inf, 0.01))))
        self.rates[name] = rate
        for operator, asked in plan.operators.items():
            if asked.inputs and asked.kind != "sink":
                self.tau.setdefault(operator, tau)
        self.run(1.0)
        assert answers == [""], answers


def chain(limit: float | None, *, at: str = "peer-1", operators: int = 1) -> Plan:
    """A plan of a source, filters and a sink, with a limit of its delay in seconds."""
    stream = source("packets", rate=10.0, at=at, id="source")
    for number in range(operators):
        stream = stream.filter(f"bytes > {number}", cost="1 ms", id=f"f{number}")
    return stream.sink(id="sink", delay=limit) if limit is not None else stream.sink(id="sink")


def rising(before: float, after: float, when: float) -> RATE:
    """A rate that changes at a time."""
    return lambda now: after if now >= when else before


def with_a_strict_target() -> Loaded:
    """Two targets: the less loaded one has an application of little slack, which refuses what would slow it down."""

    def config(number: int) -> PeerConfig:
        offered = ("filter",) if number in (0, 2, 3) else ("source:packets",)
        return PeerConfig(name=f"peer-{number}", seed=number, components=offered)

    ring = Loaded(5, 1, config=config)
    ring.start("c", chain(0.06), {"source": "peer-1", "f0": "peer-0", "sink": "peer-0"}, lambda _now: 100.0)
    ring.start("d", chain(0.5), {"source": "peer-1", "f0": "peer-3", "sink": "peer-0"}, lambda _now: 200.0)
    return ring
