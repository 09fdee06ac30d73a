"""Hot spots in the flow simulator: predicted and alleviated by the formulas and decisions of chapter 3.

After each step of virtual time, every component measures and predicts its rate and execution time
(:mod:`~synergy_experiments.flows.flow_meters`), and computes the slack of the tuples that arrived
(:mod:`~synergy_nb.models.slack`). Where tuples persistently have none, the component that exceeds its processing time
by most acts: its peer selects the executions that leave (:mod:`~synergy_nb.algorithms.migration._selection`), and asks
peers that offer the operator, the least loaded first. A peer that is asked projects the slack of all its executions and
of the newcomer (:mod:`~synergy_nb.algorithms.migration._candidates`), and accepts or refuses. The migration itself
takes the time of its messages (section 3.4.4), and tuples on their way to the old peer are executed there.

=========================  =============================================================================================
feedback                   predicted times are known to all components of an application at the end of the step
loads                      those that peers have reported: one reports when its load leaves its level (section 3.4.3);
                           a load of 1 is the capacity of a peer, 10 on the scale of the levels
one after the other        a component whose neighbour is migrating does not migrate. A peer that components have left
                           rests (:class:`~synergy_nb.algorithms.migration._relief.Rest`), as other peers do
a newcomer without a       its own processing time and what tuples wait at that peer, instead of the last measurement at
line at the target         the source, which says how long they wait there
more load than capacity    a target refuses, whatever the horizon
no slack by another peer   an execution that has no slack without the newcomer, or before the selection because a
                           component at another peer is slower, counts neither against the newcomer nor in the
                           selection: nothing that the peer could do would give it slack
refused by all             a component is not offered again for the duration of a reservation
reaction                   with ``predict=False``, slack is computed with the last measured execution times. What
                           leaves, and where to, is decided alike
=========================  =============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Tap
from synergy_experiments.flows.flow_meters import RATE_WINDOW, ComponentMeter, RateReading
from synergy_nb.algorithms.migration import (
    Candidate,
    Execution,
    MoveHistory,
    Reservations,
    Rest,
    allowed_at,
    fewest,
    largest_first,
    least_loaded,
    project,
    slacks,
)
from synergy_nb.models.execution_times import ExecutionTimes, Predicted, confidence_level
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.overlapping_levels import SEVERE, OverlappingLevels
from synergy_nb.models.slack import PredictedPaths

__all__ = ["FlowControl", "Migrated"]

PREPARATION: Final = 0.005  # seconds to instantiate a component


class Migrated(NamedTuple):
    """A migration.

    Parameters
    ----------
    decided
        Time of the decision, seconds.
    application, operator
        The component.
    source, target
        Peers that it leaves and arrives at.
    refusals
        Number of peers that refused before.
    switched
        Time at which the last of its upstream components sent to the target, seconds.
    """

    decided: float
    application: str
    operator: str
    source: str
    target: str
    refusals: int
    switched: float


class _Running(NamedTuple):
    """An application that runs: its description, its meters by operator, and the profiled time τ of each."""

    application: Application
    meters: dict[str, ComponentMeter]
    order: tuple[str, ...]


class FlowControl:
    """Predicts hot spots in a flow simulation, and migrates components.

    Parameters
    ----------
    flow
        The simulation, without applications.
    peers
        Names of the peers.
    config
        Parameters of hot spots.
    offered
        Peer to the operators that it offers; by default all peers offer all.
    rates
        Predictor of rates.
    step
        Seconds of virtual time from one decision to the next.
    levels
        Number of load levels of a peer's reports.
    all_act
        Whether all peers on a path without slack act, not only that of the worst component; for comparison.

    Attributes
    ----------
    migrations : list of Migrated
        All migrations, in their order.
    hot_spots, refusals, unsolved, reports : int
        Number of hot spots that were acted upon, of negative replies, of components for which no peer was found, and of
        load reports.
    """

    def __init__(
        self,
        flow: Flow,
        peers: Sequence[str],
        config: HotSpotConfig | None = None,
        *,
        offered: Mapping[str, Collection[str]] | None = None,
        rates: RateReading = "combined",
        step: float = 1.0,
        levels: int = 5,
        all_act: bool = False,
    ) -> None:
        if not 0.0 < step < math.inf:
            raise ValueError(f"step: {step}; expected a positive number of seconds")
        self.flow = flow
        self.peers = list(peers)
        self.config = HotSpotConfig() if config is None else config
        self._offered = offered
        self._reading: RateReading = rates
        self._step = step
        self._all_act = all_act
        self._steps = 0
        self._running: dict[str, _Running] = {}
        self._members: dict[str, dict[str, ComponentMeter]] = {peer: {} for peer in self.peers}
        self._meter: dict[int, ComponentMeter | None] = {}  # of an observed instance; None for one that has been left
        self._paths: dict[str, PredictedPaths[str]] = {}
        self._totals: dict[str, tuple[float, float, float]] = {}  # peer to r_t, r̂_t, and expected load
        self._levels = {peer: OverlappingLevels(levels) for peer in self.peers}
        self._reservations = {peer: Reservations(self.config.reservation) for peer in self.peers}
        self._history = MoveHistory(self.config.return_ban, self.config.rest)
        # Migrating component to the time until which, its meter, its target, and its τ there.
        self._moving: dict[str, tuple[float, ComponentMeter, str, float]] = {}
        self._refused: dict[str, float] = {}  # component to the time at which all peers refused it
        self._rest = {peer: Rest(self.config.seconds) for peer in self.peers}
        self.migrations: list[Migrated] = []
        self.hot_spots = self.refusals = self.unsolved = self.reports = 0
        flow.observe()

    def add(self, application: Application, at: float | None = None) -> None:
        """Start an application, which is controlled from then on; see :meth:`.Flow.add`.

        Raises
        ------
        ValueError
            If a component has no peer, or reads a stream of another application.
        """
        meters: dict[str, ComponentMeter] = {}
        ancestors: dict[str, dict[str, int]] = {}  # operator to those upstream of it, and how far they are
        for operator, component in application.components.items():
            if component.peer not in self._members:
                found = f"{application.name!r}, {operator!r}, peer: {component.peer!r}"
                raise ValueError(f"{found}; expected one of those that are controlled")
            producers = [each for each in component.inputs if isinstance(each, str)]
            if len(producers) < len(component.inputs):
                raise ValueError(f"{application.name!r}, {operator!r}, inputs: {component.inputs}; expected its own")
            distances = ancestors[operator] = dict.fromkeys(producers, 1)
            for producer in producers:
                for each, distance in ancestors[producer].items():
                    distances[each] = min(distances.get(each, distance + 1), distance + 1)
            tau = component.service.mean / self.flow.speed(component.peer)
            meters[operator] = ComponentMeter(
                (application.name, operator),
                component.peer,
                tau,
                producers,
                [each for _, each in sorted((distance, each) for each, distance in distances.items())],
                self.config,
                self._reading,
                max(round(RATE_WINDOW / self._step), 1),
            )
        self.flow.add(application, at)
        self._running[application.name] = _Running(application, meters, tuple(meters))
        for operator, meter in meters.items():
            self._members[meter.peer][meter.name] = meter
            self._meter[self.flow.present(application.name, operator)] = meter

    def run(self, until: float) -> None:
        """Advance virtual time, with decisions after each step."""
        while self.flow.now < until:
            self._steps += 1
            self.flow.run(min(self._steps * self._step, until))
            self.control()

    def control(self) -> None:
        """Measure, predict, and decide, at the present time."""
        now = self.flow.now
        self._complete(now)
        self._measure(now)
        self._predict(now)
        if not self.config.acts:
            return
        for peer, hot in self._hot_spots(now).items():
            self._alleviate(peer, hot, now)

    # -- what each component measures ------------------------------------------------------------------------------

    def _measure(self, now: float) -> None:
        seen = self.flow.observed()
        order = np.argsort(seen.component, kind="stable")
        component, born = seen.component[order], seen.born[order]
        arrived, departed = seen.arrived[order], seen.departed[order]
        ages = arrived - born
        starts = np.flatnonzero(np.diff(component, prepend=-1))
        ends = np.append(starts, len(component))[1:]
        slices: dict[str, list[tuple[int, int, bool, int]]] = {}  # first and last row; whether present; number
        for number, (first, last) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            instance = int(component[first])
            meter = self._meter.get(instance)
            present = meter is not None
            if meter is None:
                name, operator = self.flow.instance(instance)
                meter = self._running[name].meters[operator]
            slices.setdefault(meter.name, []).append((first, last, present, number))
        means, oldest, latest = (
            (np.add.reduceat(ages, starts) / (ends - starts)).tolist(),
            np.maximum.reduceat(ages, starts).tolist(),
            np.maximum.reduceat(born, starts).tolist(),
        )
        nothing = np.zeros(0)
        for running in self._running.values():
            for meter in running.meters.values():
                found = slices.get(meter.name)
                if found is None:
                    meter.arrived(nothing, 0.0, 0.0, 0.0, self._step)
                    continue
                *_, (first, last, _, number) = found
                part = ages[first:last]
                if len(found) > 1:
                    part = np.concatenate([ages[begin:end] for begin, end, _, _ in found])
                of = [each for *_, each in found]
                meter.arrived(
                    part, means[number], max(oldest[each] for each in of), max(latest[each] for each in of), self._step
                )
        arrivals, departures = arrived.tolist(), departed.tolist()
        for peer, members in self._members.items():
            total = math.fsum(meter.rate for meter in members.values())
            self._totals[peer] = (total, 0.0, 0.0)
            for meter in members.values():
                for first, last, present, _ in slices.get(meter.name, ()):
                    if present:
                        meter.executed(arrivals[first:last], departures[first:last], total)
                meter.observe(now)

    def _predict(self, now: float) -> None:
        config = self.config
        for running in self._running.values():
            for meter in running.meters.values():
                meter.expect(running.meters)
        for peer, members in self._members.items():
            rate = math.fsum(meter.expected for meter in members.values())
            load = math.fsum(meter.expected * meter.tau for meter in members.values())
            total = self._totals[peer][0]
            self._totals[peer] = total, rate, load
            if self._levels[peer].leaves(SEVERE * load):
                self.reports += 1
            for meter in members.values():
                if config.predict:
                    level = self._confidence(meter, total)
                    ahead = config.ahead(self._running[meter.key[0]].application.limit)
                    meter.predicted = meter.times.predict(rate, level, load=load, horizon=ahead)
                else:
                    last = meter.times.last
                    meter.predicted = Predicted(meter.tau if last is None else last, "last measurement", False, None)
        for name, running in self._running.items():
            times = {operator: meter.predicted.seconds for operator, meter in running.meters.items()}
            self._paths[name] = PredictedPaths(self._hops(running), times, self._limits(running.application))

    def _confidence(self, meter: ComponentMeter, total: float) -> float:
        return confidence_level(self._running[meter.key[0]].application.limit, total, self.config.confidence)

    def _hops(self, running: _Running, moved: str = "", to: str = "") -> dict[tuple[str, str], float]:
        """Communication times t̂_c of an application, if a component were moved."""
        at = {operator: meter.peer for operator, meter in running.meters.items()} | ({moved: to} if moved else {})
        return {
            (producer, operator): self.flow.hop(at[producer], at[operator])
            for operator, meter in running.meters.items()
            for producer in meter.producers
        }

    @staticmethod
    def _limits(application: Application) -> dict[str, float]:
        return dict.fromkeys(application.sinks, application.limit) if application.limit < math.inf else {}

    # -- hot spots -------------------------------------------------------------------------------------------------

    def _hot_spots(self, now: float) -> dict[str, list[ComponentMeter]]:
        """Peers that act, with the components that exceed their times by most on a path without slack."""
        found: dict[str, list[ComponentMeter]] = {}
        left = {meter.peer for _, meter, _, _ in self._moving.values()}  # peers that components are leaving
        for name, running in self._running.items():
            paths = self._paths[name]
            worst: tuple[float, str] | None = None
            for operator, meter in running.meters.items():
                if not len(meter.ages):
                    continue
                headroom = paths.headroom(operator)
                violated = meter.oldest >= headroom
                if not (violated or meter.suspicious):
                    continue
                meter.suspicious = violated
                if meter.persistence.observe(now, paths.slack(operator, meter.ages)) and (
                    worst is None or headroom - meter.oldest < worst[0]
                ):
                    worst = headroom - meter.oldest, operator
            if worst is None:
                continue
            profiled = {operator: meter.tau for operator, meter in running.meters.items()}
            for operator, _ in paths.excesses(worst[1], profiled):
                meter = running.meters[operator]
                alleviated = meter.peer in left or self._rest[meter.peer].lasts(now, self._totals[meter.peer][2])
                if not alleviated and self._movable(meter, now):
                    found.setdefault(meter.peer, []).append(meter)
                    alleviated = True
                if alleviated and not self._all_act:
                    break
        return found

    def _movable(self, meter: ComponentMeter, now: float) -> bool:
        name, operator = meter.key
        if not meter.producers or self._history.resting(meter.name, now) or not self._offering(meter):
            return False
        if now - self._refused.get(meter.name, -math.inf) < self.config.reservation:
            return False
        running = self._running[name]
        readers = [each for each, other in running.meters.items() if operator in other.producers]
        return not any(running.meters[each].name in self._moving for each in (operator, *meter.producers, *readers))

    def _offering(self, meter: ComponentMeter) -> list[str]:
        """Other peers that offer the operator of a component."""
        operator = meter.key[1]
        return [
            peer
            for peer in self.peers
            if peer != meter.peer and (self._offered is None or operator in self._offered.get(peer, ()))
        ]

    def _alleviate(self, peer: str, hot: Sequence[ComponentMeter], now: float) -> None:
        """Select the executions that leave a peer, and find a target for each."""
        self.hot_spots += 1
        rate, load = self._totals[peer][1:]
        executions = [
            each if each.slack(rate) > 0.0 or self._responsible(peer, each.name) else each._replace(allowed=math.inf)
            for each in self._executions(peer, rate, load, 0.0)
        ]
        members = self._members[peer]
        fixed = {name for name, meter in members.items() if not self._movable(meter, now)}
        select = fewest if self.config.selection == "fewest" else largest_first
        selected = select(executions, fixed)
        moved = selected.moved if selected is not None else tuple(meter.name for meter in hot)
        for name in moved:
            if self._movable(members[name], now):  # a neighbour may have been moved just now
                self._find_target(members[name], now)

    def _responsible(self, peer: str, name: str) -> bool:
        """Whether an execution of a peer exceeds its processing time by most on the worst path through it."""
        if self._all_act:
            return True
        application, operator = self._members[peer][name].key
        meters = self._running[application].meters
        profiled = {each: meter.tau for each, meter in meters.items()}
        return self._paths[application].excesses(operator, profiled)[0][0] == operator

    def _executions(self, peer: str, rate: float, load: float, margin: float) -> Iterator[Execution]:
        """Executions of a peer at a total rate and load; ``margin`` is the share of each limit that must be left."""
        total = self._totals[peer][0]
        for meter in self._members[peer].values():
            name, operator = meter.key
            level = self._confidence(meter, total)
            ahead = self.config.ahead(self._running[name].application.limit)
            predicted = meter.times.predict(rate, level, load=load, horizon=ahead)
            allowed = float(self._paths[name].allowed(operator, meter.age))
            allowed -= margin * self._running[name].application.limit if margin else 0.0
            yield Execution.of(meter.name, meter.expected, predicted, allowed, meter.tau, rate)

    # -- targets ---------------------------------------------------------------------------------------------------

    def _find_target(self, meter: ComponentMeter, now: float) -> None:
        """Ask peers one after the other; migrate to the first that accepts."""
        source = meter.peer
        known = [Candidate(each, (self._levels[each].reported or 0.0) / SEVERE) for each in self._offering(meter)]
        excluded = self._history.left(meter.name, now)
        after = now
        for refusals, target in enumerate(least_loaded(known, excluded)[: self.config.candidates]):
            newcomer = self._accepts(target, meter, now)
            if newcomer is not None:
                self._migrate(meter, target, newcomer, refusals, now, after)
                return
            self.refusals += 1
            after += 2.0 * self.flow.hop(source, target)
        self.unsolved += 1
        self._refused[meter.name] = now
        self._rest[source].begin(now)

    def _accepts(self, target: str, meter: ComponentMeter, now: float) -> Execution | None:
        """Projected execution of a newcomer if a peer accepts it (phase 2 of section 3.4.4)."""
        name, operator = meter.key
        running = self._running[name]
        application = running.application
        reserved = self._reservations[target].at(now)
        total, rate, load = self._totals[target]
        ratio = self.flow.speed(meter.peer) / self.flow.speed(target)
        tau = meter.tau * ratio
        rate += math.fsum(each.rate for each in reserved)
        load += math.fsum(each.rate * each.floor for each in reserved)
        before = slacks([*self._executions(target, rate, load, self.config.margin), *reserved])
        rate += meter.expected
        load += meter.expected * tau
        if load >= 1.0:
            return None
        level = confidence_level(application.limit, total or rate, self.config.confidence)
        measured = [each for each in self._members[target].values() if each.times.last is not None]
        own = [each.times for each in measured if each.key[1] == operator]
        times = max(own, key=lambda each: len(each.pairs)) if own else meter.times.scaled(ratio)
        predicted = times.predict(rate, level, load=load, horizon=self.config.ahead(application.limit))
        if not own and predicted.basis != "line":
            seconds = tau + max(((each.times.last or 0.0) - each.tau for each in measured), default=0.0)
            predicted = ExecutionTimes.of([(rate, seconds)]).predict(rate, level)
        departed = {}
        for each in meter.producers:
            producer = running.meters[each]
            taken = producer.times.last
            departed[each] = producer.age + (producer.tau if taken is None else taken)
        known = {each: other.predicted.seconds for each, other in running.meters.items()}
        margin = self.config.margin
        allowed = allowed_at(
            operator, self._hops(running, operator, target), known, self._limits(application), departed
        )
        allowed -= margin * application.limit if application.limit < math.inf else 0.0
        newcomer = Execution.of(meter.name, meter.expected, predicted, allowed, tau, rate)
        together = [
            each if before[each.name] > 0.0 else each._replace(allowed=math.inf)
            for each in (*self._executions(target, rate, load, margin), *reserved)
        ]
        return newcomer if project(together, newcomer).accepted else None

    def _migrate(
        self, meter: ComponentMeter, target: str, newcomer: Execution, refusals: int, now: float, after: float
    ) -> None:
        """Carry out the phases of a migration: the upstream components switch when their messages arrive."""
        source, (name, operator) = meter.peer, meter.key
        meters = self._running[name].meters
        accepted = after + 2.0 * self.flow.hop(source, target) + PREPARATION
        switches: dict[str | Tap, float] = {
            each: accepted + self.flow.hop(source, meters[each].peer) for each in meter.producers
        }
        self.flow.migrate(name, operator, target, switches)
        self._reservations[target].reserve(newcomer, now)
        self._history.moved(meter.name, source, target, now)
        switched = max(switches.values())
        last = switched + max(self.flow.hop(meters[each].peer, source) for each in meter.producers)
        self._moving[meter.name] = last, meter, target, newcomer.floor
        del self._members[source][meter.name]
        meter.predicted = Predicted(newcomer.seconds(newcomer.rate), "profile", False, None)
        self.migrations.append(Migrated(now, name, operator, source, target, refusals, switched))

    def _complete(self, now: float) -> None:
        """Let components that have left their peers be executions of their new ones."""
        for name, (last, meter, target, tau) in list(self._moving.items()):
            if last > now:
                continue
            del self._moving[name]
            source = meter.peer
            self._reservations[target].release(name)
            meter.arrive_at(target, tau, self.config)
            self._members[target][name] = meter
            present = self.flow.present(*meter.key)
            for number, of in self._meter.items():
                if of is meter:
                    self._meter[number] = None
            self._meter[present] = meter
            self._rest[source].begin(now, self.flow.backlog(source), self._totals[source][2])
