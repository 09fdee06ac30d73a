"""Measurements and predictions of components in the flow simulator, as the peers of chapter 3 have them.

At the end of each step of virtual time a component has the tuples that arrived since the last step: their number, which
gives its input rate, their ages, and the execution times of those that have departed. From these it predicts its next
rate (section 3.3.3) and its execution time (section 3.3.2). Only a few execution times of a step are paired with the
total rate of the peer, as a pair for each tuple costs more than the simulation of the tuple.

Rates travel with tuples (figure 3.2). A tuple is known by its time of birth, so the rate that it carries of an ancestor
is the one that this ancestor had measured when tuples of the same birth passed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from synergy_experiments.flows.flow_applications import Tap
from synergy_nb.models.execution_times import ExecutionTimes
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import CorrelatedRate, RatePredictor
from synergy_nb.models.slack import Persistence

__all__ = ["ComponentMeter", "RateReading"]

Array = npt.NDArray[np.float64]

RateReading = Literal["combined", "equation 3.6"]
"""Predictor of rates: :class:`.CombinedRate`, or :class:`.CorrelatedRate` as the dissertation has it."""

RATE_WINDOW: Final = 1.0  # seconds over which the tuples of a rate are counted
PAIRS: Final = 2  # execution times of a step that are paired with the total rate, at most


class ComponentMeter:
    """The measurements of one component, at the peer that executes it.

    Parameters
    ----------
    key
        Application and operator.
    peer
        Peer that executes the component.
    tau
        Processing time τ of a tuple at that peer, seconds.
    producers, ancestors
        Operators that it reads; and all operators upstream, nearest first.
    config
        Parameters of hot spots.
    rates
        Predictor of rates.
    window
        Steps over which the tuples of a rate are counted.

    Attributes
    ----------
    rate, expected : float
        Measured and predicted input rate, tuples/s.
    age : float
        Mean age on arrival of the tuples of the last step that had any, seconds.
    ages : array
        Ages on arrival of the tuples of this step, seconds.
    predicted : Predicted
        Predicted execution time.
    """

    __slots__ = (
        "_births",
        "_counts",
        "_departing",
        "_predictor",
        "_rates",
        "_window",
        "age",
        "ages",
        "ancestors",
        "expected",
        "key",
        "name",
        "oldest",
        "peer",
        "persistence",
        "predicted",
        "producers",
        "rate",
        "suspicious",
        "tau",
        "times",
    )

    def __init__(
        self,
        key: Tap,
        peer: str,
        tau: float,
        producers: Sequence[str],
        ancestors: Sequence[str],
        config: HotSpotConfig,
        rates: RateReading,
        window: int,
    ) -> None:
        self.key = key
        self.name = f"{key[0]}/{key[1]}"
        self.producers = producers
        self.ancestors = ancestors
        self._predictor: RatePredictor | None = None
        if config.predict:
            self._predictor = CombinedRate(ancestors) if rates == "combined" else CorrelatedRate(ancestors)
        self._window = window
        self._counts: deque[int] = deque(maxlen=window)
        self._births: list[float] = []  # latest birth that had arrived by the end of each step, and the rate then
        self._rates: list[float] = []
        self.rate = self.expected = self.age = self.oldest = 0.0
        self.ages: Array = np.zeros(0)
        self.arrive_at(peer, tau, config)

    def arrive_at(self, peer: str, tau: float, config: HotSpotConfig) -> None:
        """Begin to measure at a peer: execution times depend on it, rates do not."""
        self.peer = peer
        self.tau = tau
        self.times = ExecutionTimes(floor=tau)
        self.predicted = self.times.predict(0.0, 0.0)
        self.persistence = Persistence(config.tuples, config.seconds)
        self.suspicious = False  # whether tuples of the last step had no slack
        self._departing: deque[tuple[float, float, float]] = deque()  # times of departure, t_e, and r_t on arrival

    def arrived(self, ages: Array, mean: float, oldest: float, latest: float, step: float) -> None:
        """Count the tuples of a step.

        Parameters
        ----------
        ages
            Age of each on arrival, seconds; may be empty.
        mean, oldest
            Mean and greatest age, seconds.
        latest
            Latest time of birth of them, seconds.
        step
            Duration of the step, seconds.
        """
        count = len(ages)
        self._counts.append(count)
        self.rate = sum(self._counts) / (len(self._counts) * step)
        self.ages = ages
        if count:
            self.age = mean
            self.oldest = oldest
            self._births.append(max(latest, self._births[-1]) if self._births else latest)
            self._rates.append(self.rate)

    def rate_of(self, born: float) -> float | None:
        """Rate that was measured when tuples born at a time had passed; None before there was any."""
        if not self._rates:
            return None
        return self._rates[min(bisect_left(self._births, born), len(self._rates) - 1)]

    def expect(self, others: Mapping[str, ComponentMeter]) -> None:
        """Predict the rate from what the latest tuples carry; ``others`` are the components of the application."""
        if self._predictor is None or not len(self.ages):
            self.expected = self.rate
            return
        born = self._births[-1]
        found = ((each, others[each].rate_of(born)) for each in self.ancestors)
        carried = {each: rate for each, rate in found if rate is not None}
        self.expected = self._predictor.predict(carried).rate
        self._predictor.observe(self.rate, carried)

    def executed(self, arrived: Sequence[float], departed: Sequence[float], total: float) -> None:
        """Record the execution times t_e of some tuples of a step, evenly spaced.

        Parameters
        ----------
        arrived, departed
            Times of arrival and departure of each, seconds; the latter is not a number for those that were dropped.
        total
            Total rate r_t of the peer, tuples/s.
        """
        spacing = -(-len(departed) // PAIRS)
        for place in range((len(departed) - 1) % spacing, len(departed), spacing):
            gone = departed[place]
            if not math.isnan(gone):
                self._departing.append((gone, gone - arrived[place], total))

    def observe(self, now: float) -> None:
        """Add the pairs of the tuples that have departed."""
        departing = self._departing
        while departing and departing[0][0] <= now:
            _, seconds, total = departing.popleft()
            self.times.observe(total, seconds)
