"""Measured and predicted rates, execution times and slack of the components of one peer (dissertation, section 3.3).

Theory of operation
-------------------
*Rates.* At each whole second of its clock the peer counts the tuples that have arrived at each component since the
previous one: that is its k-th rate. Rates travel with the tuples (figure 3.2): once a component has executed the tuples
of a count, the next chunk that it emits carries that rate, and each chunk carries on the rates of ancestors that came
with its inputs. When a chunk brings rates of ancestors, the reader predicts its own rate of the present second, and at
the end of that second it adds the pair of both (:class:`~synergy_nb.models.rate_combination.CombinedRate`). So rates
are paired by the tuple that carries them, however long tuples wait in queues on their way.

*Present rates.* Within a second the tuples that have arrived are known, and only the rest is predicted. The expected
rate is those tuples, plus the predicted rate times the rest of the second; the present rate has the previous rate in
place of the predicted one.

*Execution times.* Each execution gives a pair: the time from the arrival of its oldest tuple to its end, and the total
present rate of the peer. There are at most 50 pairs a second for each component, so that the window of 128 pairs covers
some seconds at any rate. Another engine's pair is the time from the arrival of a tuple until the engine commits it.

*Slack.* Each chunk that arrives is evaluated by equation 3.1 with the age of its oldest tuple. The predicted time of
the component itself is renewed every 50 ms at most, and only with the reports where tuples have more than a minute
left. Tuples persistently without slack are reported at once, and again once a second as long as that lasts.

*When it is computed.* The rate of the present second is predicted when somebody asks for it, from the latest rates of
ancestors: what came before these was of no use to anybody.

A component that the peer has just started has no rate before its first whole second, and no pairs until then.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.dataflow.streams.log.values import CarriedRate, Chunk, Point, rows_of
from synergy_nb.dataflow.tuples import START
from synergy_nb.models.execution_times import Deviations, ExecutionTimes, Predicted, confidence_level
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import PredictedRate
from synergy_nb.models.season_weight import SeasonWeight
from synergy_nb.models.slack import Persistence

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.component import Component
    from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
    from synergy_nb.dataflow.streams.log.merge import WaitingChunk

__all__ = ["ComponentPredictions", "PeerPredictions"]

COUNT_S: Final = 1.0  # seconds between two counts of tuples
# seconds after a count at which predictions are reported: by then the rates of ancestors have arrived
REPORT_AT: Final = 0.5
RENEWAL_S: Final = 0.05  # least time between two predictions of the same execution time, seconds
AMPLE_S: Final = 60.0  # seconds of slack from which on a prediction is renewed with the reports only
SCARCE_S: Final = 2.0  # seconds after a tuple with less slack during which the peer's expected load is renewed
PAIR_S: Final = 0.02  # least time between two pairs of one component, seconds
REPEAT_S: Final = 1.0  # seconds between two reports of the same component without slack
ANCESTORS: Final = 32  # maximum number of rates of ancestors that a chunk carries: those of the nearest ones
MARKS: Final = 600  # most counts whose tuples wait to be executed
PENDING: Final = 1024  # most tuples whose commitment by another engine is awaited as measurements

Key: TypeAlias = tuple[str, str]


class ComponentPredictions:
    """Measured rates and execution times of one component, and the predictions from them."""

    __slots__ = (
        "_ages", "_counts", "_fresh", "_held", "_latest", "_marks", "_own", "_pair_at", "_pending", "_persistence",
        "_predicted_rate", "_rates", "_renew_at", "_repeat_at", "_taken", "_tuples", "_weight", "age", "ancestors",
        "arrivals", "began", "carried", "carries", "component", "departure_limit", "deviations", "peer", "processing",
        "rate", "slack", "speed", "time", "times",
    )  # fmt: skip

    def __init__(self, component: Component, peer: PeerPredictions) -> None:
        self.component = component
        self.peer = peer
        self.rate = 0.0  # input rate of the last whole second, tuples/s
        self._predicted_rate: PredictedRate | None = PredictedRate(0.0)  # None: not since the last rates arrived
        self.processing, self.speed = component.processing, component.speed
        self.times = ExecutionTimes(floor=self.processing)  # pairs of the peer's total rate and execution times
        # predicted execution time t̂_e
        self.time = Predicted(self.processing, "profile", extrapolated=False, line=None)
        self.deviations = Deviations()  # predicted times beside those measured in the second after
        self._taken: list[float] = []  # execution times of the pairs since the last count, seconds
        self._held: float | None = None  # execution time that was predicted then; None: for a later time than this
        # greatest age in seconds at which a tuple may leave the component; None if slack is not computed
        self.departure_limit: float | None = None
        self.slack: float | None = None  # slack of the last tuple that was evaluated, seconds
        self.age = 0.0  # age of that tuple on its arrival, seconds
        # time at which the component executes what arrives next, where it executes it before the arrival is handled
        self.began: float | None = None
        self._persistence = Persistence(peer.config.tuples, peer.config.seconds)
        self._rates = CombinedRate(())
        self._weight = SeasonWeight(max(round(peer.config.horizon / COUNT_S), 1))
        # name of each component upstream to the number of components between it and this one
        self.ancestors: dict[str, int] = {}
        # name of ancestors to their rates that have arrived in the present second, tuples/s
        self.carried: dict[str, float] = {}
        self._latest: dict[str, CarriedRate] = {}  # latest rate of each ancestor that came with executed tuples
        self._own: CarriedRate | None = None  # own rate of the last count whose tuples are executed
        self._marks: deque[tuple[dict[int, int], float]] = deque(maxlen=MARKS)  # ends of later counts, and their rates
        self._fresh = False  # whether there is a rate that no chunk has carried yet
        self.carries = False  # whether there is one, or will be once the tuples of a count are executed
        self.arrivals = 0  # tuples since the last count
        self._counts = 0  # counts since its first tuple, of which the first does not cover a whole second
        self._pair_at = self._renew_at = self._repeat_at = -math.inf
        self._pending: deque[tuple[int, int, float, list[Chunk]]] = deque(maxlen=PENDING)
        self._ages, self._tuples = 0.0, 0  # of the tuples that arrived since the last report

    @property
    def name(self) -> str:
        """Name of the component in carried rates."""
        return f"{self.component.application}/{self.component.operator}"

    # -- rates ---------------------------------------------------------------------------------------------------

    def arrived(self, tuples: int, now: float) -> None:
        """Count tuples that arrived."""
        if now >= self.peer.next_count:
            self.peer.advance(now)
        self.arrivals += tuples

    def count(self) -> None:
        """End a second: the tuples that arrived in it are the next rate."""
        if not self._counts and not self.arrivals:
            return
        if self._predicted_rate is None:  # its error is found by what has come
            self._predicted_rate = self._predict_rate()
        self._counts += 1
        self.rate, self.arrivals = self.arrivals / COUNT_S, 0
        self.processing = self.component.processing
        self.times.set_floor(self.processing)
        self.speed = self.component.speed
        if self._counts > 1:
            self._rates.observe(self.rate, self.carried)
            self._weight.add(self.rate, self._foretold())
            positions = {number: port.received.position for number, port in self.component.ports.items()}
            self._marks.append((positions, self.rate))
            self.carries = True
        self.carried = {}
        self._predicted_rate = None
        self._compare()

    def _compare(self) -> None:
        """Compare what was predicted at the last count with what was measured since."""
        if self._taken and self._held is not None:
            self.deviations.add(self._held, math.fsum(self._taken) / len(self._taken))
        self._taken.clear()
        self._held = None if self.time.basis == "growing backlog" or self.times.last is None else self.time.seconds

    @property
    def predicted_rate(self) -> PredictedRate:
        """Predicted input rate of the present second, from the rates of ancestors that have arrived."""
        if self._predicted_rate is None:
            self._predicted_rate = self._predict_rate()
        return self._predicted_rate

    def _predict_rate(self) -> PredictedRate:
        if self._counts < 2 or not self.peer.config.predict:
            return PredictedRate(self.rate)
        return self._rates.predict(self.carried)

    def _carry(self, rates: Iterable[CarriedRate]) -> None:
        """Take the rates of ancestors that have arrived, from which the rate of the present second follows."""
        known = self.ancestors
        found = False
        for each in rates:
            if known.get(each.component, ANCESTORS) > each.hops:
                known[each.component] = each.hops
                found = True
            self.carried[each.component] = each.rate
        if found:
            self._rates.set_ancestors(sorted(known, key=known.__getitem__)[:ANCESTORS])
        self._predicted_rate = None

    def _read(self, rates: Iterable[CarriedRate]) -> None:
        """Take over the rates that came with an executed chunk."""
        for each in rates:
            self._latest[each.component] = CarriedRate(each.component, each.rate, each.hops + 1)
            self._fresh = self.carries = True

    def attached(self) -> tuple[CarriedRate, ...]:
        """Return the rates that the next chunk carries: the own one and those of ancestors, if any of them is new."""
        while self._marks and self._has_executed(self._marks[0][0]):
            self._own = CarriedRate(self.name, self._marks.popleft()[1], 0)
            self._fresh = True
        self.carries = bool(self._marks)
        if not self._fresh:
            return ()
        self._fresh = False
        found = sorted(self._latest.values(), key=lambda each: each.hops)[: ANCESTORS - 1]
        return tuple(found) if self._own is None else (self._own, *found)

    def _has_executed(self, positions: Mapping[int, int]) -> bool:
        """Whether all tuples before these positions of the inputs were executed, or their input has ended since."""
        ports, engine = self.component.ports, self.component.engine
        if engine is not None:
            return all(engine.committed.inputs[number].position >= at for number, at in positions.items())
        return all(number not in ports or ports[number].consumed.position >= at for number, at in positions.items())

    def rates(self, share: float) -> tuple[float, float]:
        """Rate so far in the present second, of which a share has passed, and expected rate of it, tuples/s."""
        arrived, left = self.arrivals / COUNT_S, 1.0 - share
        present = arrived + left * self.rate
        return present, arrived + left * self.predicted_rate.rate if self.peer.config.predict else present

    def rise(self) -> float:
        """Mean rate of the seconds ahead as a multiple of the expected one, as far as its season has proved right."""
        return 1.0 + self._weight.value * max(self._foretold() - 1.0, 0.0)

    def _foretold(self) -> float:
        """Mean rate of the seconds ahead as a multiple of the present one, by the season of its sources."""
        season = self.component.terms.season
        if season is None or not self.peer.config.predict:
            return 1.0
        reached = max((port.received.until for port in self.component.ports.values()), default=START)
        return 1.0 if reached == START else season.rise(reached, self.peer.config.horizon)

    # -- execution times -----------------------------------------------------------------------------------------

    def executed(self, arrived: float, finished: float) -> None:
        """Add a pair for an execution.

        ``arrived``, ``finished``: times of the arrival of its oldest tuple and of its end, seconds.
        """
        if finished < self._pair_at or self._counts < 2:
            return
        self._pair_at = finished + PAIR_S
        self.peer.renew_rate(finished)
        seconds = max(finished - arrived, 0.0)
        self.times.observe(self.peer.rate, seconds)
        self._taken.append(seconds)

    def executing_since(self, started: float) -> None:
        """Note when the execution began whose output is handled now."""
        self.began = started

    def finished(self, first: WaitingChunk, work: Work, outcome: ExecutionOutcome) -> None:
        """Add a pair for an execution, or note what was passed to another engine; ``first`` is its first entry."""
        self.began = None
        if self.component.external:
            if work.rows:
                self._pending.append((work.port, work.chunks[-1].end.position, first.arrived, work.chunks))
            return
        for chunk in work.chunks:
            if chunk.rates:
                self._read(chunk.rates)
        if outcome.unfinished or work.dropped or first.arrived <= 0.0:  # a replay's entry has no time of arrival
            return
        if outcome.finished >= self._pair_at and self._counts > 1 and (work.rows or rows_of(outcome.chunks)):
            self.executed(first.arrived, outcome.finished)

    def committed(self, inputs: Sequence[Point], now: float) -> None:
        """Add a pair for the oldest tuple that another engine has committed."""
        oldest = math.inf
        while self._pending and self._pending[0][1] <= inputs[self._pending[0][0]].position:
            _, _, arrived, chunks = self._pending.popleft()
            oldest = min(oldest, arrived)
            for chunk in chunks:
                self._read(chunk.rates)
        if oldest < math.inf:
            self.executed(oldest, now)

    def predict(self) -> None:
        """Predict the execution time at the expected total rate of the peer."""
        times, config = self.times, self.peer.config
        if not config.predict:
            last = self.processing if times.last is None else times.last
            basis: Predicted = Predicted(last, "profile" if times.last is None else "last measurement", False, None)
            self.time = basis
            return
        limit = min(self.component.terms.limit, self.component.sharers_limit)
        level = confidence_level(limit, times.mean_rate, config.confidence)
        load = 0.0 if self.component.external else self.peer.expected_load
        self.time = times.predict(self.peer.predicted_rate, level, load=load, horizon=config.ahead(limit))

    # -- slack ---------------------------------------------------------------------------------------------------

    def received(self, chunk: Chunk, now: float) -> None:
        """Handle a chunk that arrived, after :meth:`PeerPredictions.advance`: its rates and its slack."""
        if chunk.rates:
            self._carry(chunk.rates)
        rows = chunk.rows
        if not rows or self.component.role is not Role.ACTIVE:
            return
        self.age = age = (now if self.began is None else self.began) - chunk.born
        self._ages += age * rows
        self._tuples += rows
        if self.departure_limit is None:
            return
        left = self.departure_limit - age
        if left - self.time.seconds < AMPLE_S:
            self.peer.note_scarce(now)
            if now >= self._renew_at:
                self._renew_at = now + RENEWAL_S
                self.peer.renew(now)
                self.predict()
        self.slack = left - self.time.seconds
        if self._persistence.add(now, self.slack) and now >= self._repeat_at:
            self._repeat_at = now + REPEAT_S
            self.peer.violations.append(
                SlackViolation(
                    self.prediction(),
                    self.slack,
                    age,
                    self._persistence.count,
                    self._persistence.lasted(now),
                )
            )

    def set_limit(self, age: float | None) -> None:
        """Set the greatest age in seconds at which a tuple may leave; None: slack is not computed."""
        if age is None:
            self.slack = None
            self._persistence = Persistence(self.peer.config.tuples, self.peer.config.seconds)
        self.departure_limit = age

    def prediction(self, *, report: bool = False) -> Prediction:
        """Return the present prediction; the mean age is that since the last report."""
        time, line = self.time, self.time.line
        age = self._ages / self._tuples if self._tuples else -1.0
        if report:
            self._ages, self._tuples = 0.0, 0
        return Prediction(
            application=self.component.application,
            operator=self.component.operator,
            rate=self.rate,
            predicted_rate=self.predicted_rate.rate,
            ancestor=self.predicted_rate.ancestor or "",
            measured=time.seconds if self.times.last is None else self.times.last,
            predicted=time.seconds,
            basis=time.basis,
            intercept=0.0 if line is None else line.intercept,
            slope=0.0 if line is None else line.slope,
            error=-1.0 if line is None else line.error,
            processing=self.processing,
            age=age,
            speed=self.speed,
            off=self.deviations.ratio,
            rise=self.rise(),
        )


class PeerPredictions:
    """Predictions of all components of a peer, and of its total rate and load.

    ``rate``, ``predicted_rate``: present and expected total input rate of the components that execute here, tuples/s;
    ``expected_load``: expected load at that rate, or at that of the seconds ahead where a season tells it, Σ r̂ τ: share
    of the time of the one thread that executes;
    ``next_count``: time in seconds from which :meth:`advance` has tuples to count.
    """

    def __init__(self, config: HotSpotConfig) -> None:
        self.config = config
        self.rate = self.predicted_rate = self.expected_load = 0.0
        self.violations: list[SlackViolation] = []  # components without slack that were not yet reported
        self.due: float | None = None  # time in seconds at which `tick` has work; None while no tuples have arrived
        self._loads = ExecutionTimes()  # pairs of total rate and load: the line of section 3.4.3
        self._components: dict[Key, ComponentPredictions] = {}
        self._limits: dict[str, Mapping[str, float]] = {}
        self._second = self.next_count = -math.inf  # beginning of the present second, and its end
        self._renew_at = self._report_at = -math.inf
        self._scarce_until = -math.inf  # time until which all that is expected is computed, seconds

    def take_violations(self) -> list[SlackViolation]:
        """Return the violations that have not been taken yet."""
        taken, self.violations = self.violations, []
        return taken

    def add(self, component: Component) -> None:
        """Measure a new component, unless hot spots are off."""
        if not self.config.predicts:
            return
        key = component.application, component.operator
        component.prediction = made = self._components[key] = ComponentPredictions(component, self)
        made.set_limit(self._limits.get(key[0], {}).get(key[1]))

    def remove(self, component: Component) -> None:
        """Forget a component that was removed."""
        found = component.prediction
        key = component.application, component.operator
        if found is not None and self._components.get(key) is found:
            del self._components[key]
        if not self._components:
            self.due = None

    def set_limits(self, application: str, limits: Mapping[str, float]) -> None:
        """Set the departure limits of an application's components: operator to age in seconds; none: no slack."""
        self._limits.pop(application, None)
        if limits:
            self._limits[application] = limits
        for (owner, operator), each in self._components.items():
            if owner == application:
                each.set_limit(limits.get(operator))

    # -- time ----------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Count the tuples of a second that has ended."""
        if now < self.next_count:
            return
        self._second = math.floor(now / COUNT_S) * COUNT_S
        self.next_count = self._second + COUNT_S
        self._renew_at = now
        for each in self._components.values():
            each.count()
        if self.due is None:
            self.due = self._second + REPORT_AT + (0.0 if now < self._second + REPORT_AT else COUNT_S)

    def renew(self, now: float) -> None:
        """Compute total rates and the expected load, if that was long ago."""
        self.advance(now)
        if now < self._renew_at:
            return
        self._renew_at = now + RENEWAL_S
        share = self._share(now)
        rate = predicted = work = 0.0
        for each in self._components.values():
            component = each.component
            if component.feeds:
                present, expected = each.rates(share)
                rate += present
                predicted += expected
                if not component.external:
                    work += expected * each.rise() * each.processing
        self.rate, self.predicted_rate, self.expected_load = rate, predicted, work

    def renew_rate(self, now: float) -> None:
        """Compute the present total rate, if that was long ago; where slack is scarce, all that :meth:`renew` does."""
        if now < self._scarce_until:
            self.renew(now)
            return
        self.advance(now)
        if now < self._renew_at:
            return
        self._renew_at = now + RENEWAL_S
        left, rate = 1.0 - self._share(now), 0.0
        for each in self._components.values():
            if each.component.feeds:
                rate += each.arrivals / COUNT_S + left * each.rate
        self.rate = rate

    def note_scarce(self, now: float) -> None:
        """Note that a tuple has little slack: for some time, all that is expected is computed all the time."""
        if now >= self._scarce_until:
            self._renew_at = -math.inf  # the last renewal may have been one of the rate alone
        self._scarce_until = now + SCARCE_S

    def _share(self, now: float) -> float:
        """Return the share of the present second that has passed."""
        return min(max(now - self._second, 0.0) / COUNT_S, 1.0)

    def tick(self, now: float) -> list[PeerPrediction]:
        """Count what is due, and report if that is due."""
        if self.due is None or now < self.due:
            return []
        self.advance(now)
        self.due = self._second + COUNT_S + REPORT_AT
        if now < self._report_at - COUNT_S / 2:
            return []
        self._report_at = now + self.config.report
        self._renew_at = now
        self.renew(now)
        known = (self._components[key] for key in sorted(self._components))
        working = [each for each in known if each.component.feeds and not each.component.failed]
        for each in working:
            each.predict()
        load = sum(self._load(each.component, now) for each in working)
        rate = sum(each.rate for each in working)
        predicted = sum(each.predicted_rate.rate for each in working)
        self._loads.observe(rate, load)
        level = confidence_level(1.0, self._loads.mean_rate, self.config.confidence)
        expected = self._loads.predict(predicted, level).seconds if self.config.predict else load
        found = tuple(each.prediction(report=True) for each in working)
        return [PeerPrediction(found, rate, predicted, load, expected)] if found else []

    @staticmethod
    def _load(component: Component, now: float) -> float:
        """Return the seconds that a component is busy in a second, and those that waiting tuples will take."""
        if component.external:
            return 0.0
        return component.busy.per_second(now) / component.speed + component.waiting * component.processing
