"""Events of hot spots: predictions, decisions to migrate, and the answers of targets (chapter 3 of the dissertation).

The subject of each is the application, except for :class:`PeerOverloaded`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from synergy_nb.events.base import Event, RequestEvent, Severity

__all__ = [
    "HotSpotDetected",
    "HotSpotDismissed",
    "MigrationAnswered",
    "MigrationDecided",
    "MigrationEnded",
    "MigrationProjected",
    "PeerOverloaded",
]


class HotSpotDetected(RequestEvent, frozen=True, gc=False):
    """The tuples of a component persistently have no slack: its application misses its limit, or is predicted to.

    Equation 3.1 reads ``slack = departure_limit - age - predicted``.

    Parameters
    ----------
    operator
        Operator of the component.
    slack
        Slack t_s of the last tuple, seconds.
    age
        Measured age of that tuple on its arrival, seconds.
    predicted, measured
        Predicted and last measured execution time at the component, seconds.
    basis
        Basis of the predicted time: ``line``, ``growing backlog``, ``last measurement`` or ``profile``.
    intercept, slope, error
        Line of the regression: a in seconds, b in seconds per tuple/s, and its standard error; a negative error stands
        for no line.
    departure_limit
        Greatest age at which the tuple could leave the component in time, seconds.
    rate, predicted_rate
        Measured and predicted input rate, tuples/s.
    tuples, seconds
        Number of consecutive executions without slack, and the time that they cover in seconds.
    excesses
        Name of each component of the path with the least slack, as application/operator, to its excess t̂_e - τ in
        seconds. The component with the greatest one has to be relieved.
    prediction_off
        Ratio of measured to predicted execution times at the component; None where they are as predicted.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    slack: float
    age: float
    predicted: float
    measured: float
    basis: str
    intercept: float
    slope: float
    error: float
    departure_limit: float
    rate: float
    predicted_rate: float
    tuples: int
    seconds: float
    excesses: Mapping[str, float] = {}
    prediction_off: float | None = None


class HotSpotDismissed(RequestEvent, frozen=True, gc=False):
    """A peer does not migrate because of a hot spot that it has detected, for a ``reason``.

    Parameters
    ----------
    operator
        Operator of the component without slack.
    reason
        Reason in plain words.
    """

    operator: str
    reason: str


class MigrationDecided(RequestEvent, frozen=True, gc=False):
    """A peer has selected components that should leave it (section 3.4.1), and the peers that it asks (section 3.4.2).

    Parameters
    ----------
    operator
        Operator of the component that should leave.
    cause
        Application and operator of the component without slack.
    selected
        Names of all components that should leave, as application/operator.
    rate, remaining_rate
        Total predicted rate of the peer before and without them, tuples/s.
    slacks
        Name of each component that stays to its slack afterwards, seconds.
    candidates
        Addresses of the peers to ask, the least loaded first.
    loads
        Address of each candidate to its load in the directory.
    act
        Whether the peer migrates; False if it only observes.
    """

    operator: str
    cause: tuple[str, str]
    selected: Sequence[str]
    rate: float
    remaining_rate: float
    slacks: Mapping[str, float]
    candidates: Sequence[str]
    loads: Mapping[str, float]
    act: bool

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class MigrationProjected(RequestEvent, frozen=True, gc=False):
    """A peer that was asked to take over a component has projected its own state with it (phase 2 of section 3.4.4).

    Parameters
    ----------
    operator
        Operator of the component.
    source
        Address of the peer that asked.
    accepted
        Whether the peer accepts.
    reason
        Reason of a refusal in plain words; empty if it accepts.
    rate
        Total predicted rate of the peer with the component, tuples/s.
    slacks
        Name of each component of the peer, the new one included, to its projected slack, seconds.
    """

    operator: str
    source: str
    accepted: bool
    reason: str
    rate: float
    slacks: Mapping[str, float]


class MigrationAnswered(RequestEvent, frozen=True, gc=False):
    """The answer of a peer that was asked to take over a component, at the peer that asked (phase 3).

    Parameters
    ----------
    operator
        Operator of the component.
    cause
        Application and operator of the component without slack.
    target
        Address of the peer that answered.
    accepted
        Whether it accepts.
    reason
        Reason of its refusal; empty if it accepts.
    seconds
        Time from the decision to this answer, seconds.
    """

    operator: str
    cause: tuple[str, str]
    target: str
    accepted: bool
    reason: str
    seconds: float

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class MigrationEnded(RequestEvent, frozen=True, gc=False):
    """A migration away from a hot spot has ended, at the peer that decided it.

    Parameters
    ----------
    operator
        Operator of the component.
    cause
        Application and operator of the component without slack.
    target
        Address of the target; empty if no peer accepted.
    failure
        Reason why the component has not moved; empty if it has.
    seconds
        Time from the decision, seconds.
    """

    operator: str
    cause: tuple[str, str]
    target: str
    failure: str
    seconds: float

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class PeerOverloaded(Event, frozen=True, gc=False):
    """The load of the peer reached, or left, the highest level. This alone triggers no migration.

    Parameters
    ----------
    load, predicted_load
        Measured and predicted load of the peer.
    overloaded
        Whether the load is in the highest level now.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    load: float
    predicted_load: float
    overloaded: bool
