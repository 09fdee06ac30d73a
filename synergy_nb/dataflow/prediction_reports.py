"""Reports of what the data path predicts: of a peer once a second, and of tuples without slack at once."""

from __future__ import annotations

import msgspec

__all__ = ["PeerPrediction", "Prediction", "SlackViolation"]


class Prediction(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the data path measured and predicts of one component (sections 3.3.2 and 3.3.3)."""

    # application, operator: id of the application, and of the component's operator
    application: str
    operator: str
    # rate, predicted_rate: input rate of the last second, and the predicted rate of the next one, tuples/s
    rate: float
    predicted_rate: float
    # component upstream whose rate the prediction follows, as application/operator; empty if the prediction follows the
    # component's own rates
    ancestor: str
    # measured, predicted: last measured execution time t_e, and predicted execution time t̂_e, seconds
    measured: float
    predicted: float
    basis: str  # basis of the predicted time, see `synergy_nb.models.execution_times.Basis`
    # intercept, slope, error: line of the regression: a in seconds, b in seconds per tuple/s, and its standard error
    # se(b). `error` is negative if there is no line
    intercept: float
    slope: float
    error: float
    processing: float  # processing time τ of a tuple at this peer, seconds
    # mean age of the tuples that arrived since the last report, on their arrival, seconds; negative if none arrived
    age: float
    # speed of the peer to which `processing` belongs: the work that it does in a second, in seconds at a peer of speed
    # 1
    speed: float = 1.0
    # ratio of its measured to its predicted execution times, if they are not as predicted, see `Deviations`
    off: float | None = None
    # rate of the next seconds as a multiple of the predicted one, by the season of its sources; see `Season`
    rise: float = 1.0

    @property
    def coming_rate(self) -> float:
        """Mean input rate of the seconds for which a growing backlog is predicted, tuples/s."""
        return self.predicted_rate * self.rise

    @property
    def work(self) -> float:
        """Work of a tuple: the seconds that it takes at a peer of speed 1, without waiting."""
        return self.processing * self.speed


class PeerPrediction(msgspec.Struct, frozen=True):
    """Report the measurements and predictions of all components that execute at the peer, once a second."""

    components: tuple[Prediction, ...]
    # rate, predicted_rate: total input rate r_t of the peer, and the predicted one, tuples/s
    rate: float
    predicted_rate: float
    # load, predicted_load: load of the peer, measured and predicted: share of the time in which it executes, plus the
    # seconds that it needs for what waits
    load: float
    predicted_load: float


class SlackViolation(msgspec.Struct, frozen=True):
    """Report that the tuples of a component persistently have no slack; repeated once a second while that lasts."""

    prediction: Prediction  # prediction of the component by which the slack was computed
    slack: float  # slack t_s of the last of these tuples, seconds; not positive
    age: float  # age of that tuple on its arrival, seconds
    # tuples, seconds: number of consecutive evaluations without slack, and the time that they cover in seconds
    tuples: int
    seconds: float
