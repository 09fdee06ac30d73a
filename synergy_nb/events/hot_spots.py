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
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    slack: float  # slack t_s of the last tuple, seconds
    age: float  # measured age of that tuple on its arrival, seconds
    # predicted, measured: predicted and last measured execution time at the component, seconds
    predicted: float
    measured: float
    basis: str  # basis of the predicted time: `line`, `growing backlog`, `last measurement` or `profile`
    # intercept, slope, error: line of the regression: a in seconds, b in seconds per tuple/s, and its standard error; a
    # negative error stands for no line
    intercept: float
    slope: float
    error: float
    departure_limit: float  # greatest age at which the tuple could leave the component in time, seconds
    # rate, predicted_rate: measured and predicted input rate, tuples/s
    rate: float
    predicted_rate: float
    # tuples, seconds: number of consecutive executions without slack, and the time that they cover in seconds
    tuples: int
    seconds: float
    # name of each component of the path with the least slack, as application/operator, to its excess t̂_e - τ in
    # seconds. The component with the greatest one has to be relieved
    excesses: Mapping[str, float] = {}
    # ratio of measured to predicted execution times at the component; None where they are as predicted
    prediction_off: float | None = None
    # mean rate of the next seconds as a multiple of the predicted one, by the season of a profile
    rise: float = 1.0


class HotSpotDismissed(RequestEvent, frozen=True, gc=False):
    """A peer does not migrate because of a hot spot that it has detected, for a ``reason``."""

    operator: str  # operator of the component without slack
    reason: str  # reason in plain words


class MigrationDecided(RequestEvent, frozen=True, gc=False):
    """A peer has selected components to leave it (section 3.4.1), and the peers that it asks (section 3.4.2)."""

    operator: str
    cause: tuple[str, str]  # application and operator of the component without slack
    selected: Sequence[str]  # names of all components that should leave, as application/operator
    # rate, remaining_rate: total predicted rate of the peer before and without them, tuples/s
    rate: float
    remaining_rate: float
    slacks: Mapping[str, float]  # name of each component that stays to its slack afterwards, seconds
    candidates: Sequence[str]  # addresses of the peers to ask, the least loaded first
    loads: Mapping[str, float]  # address of each candidate to its load in the directory
    act: bool  # whether the peer migrates; False if it only observes

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class MigrationProjected(RequestEvent, frozen=True, gc=False):
    """A peer that was asked to take over a component has projected its own state with it (phase 2 of section 3.4.4)."""

    operator: str
    source: str  # address of the peer that asked
    accepted: bool
    reason: str  # reason of a refusal in plain words; empty if it accepts
    rate: float  # total predicted rate of the peer with the component, tuples/s
    # name of each component of the peer, the new one included, to its projected slack, seconds
    slacks: Mapping[str, float]


class MigrationAnswered(RequestEvent, frozen=True, gc=False):
    """The answer of a peer that was asked to take over a component, at the peer that asked (phase 3)."""

    operator: str
    cause: tuple[str, str]  # application and operator of the component without slack
    target: str  # address of the peer that answered
    accepted: bool
    reason: str  # reason of its refusal; empty if it accepts
    seconds: float  # time from the decision to this answer, seconds

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class MigrationEnded(RequestEvent, frozen=True, gc=False):
    """A migration away from a hot spot has ended, at the peer that decided it."""

    operator: str  # operator of the component
    cause: tuple[str, str]  # application and operator of the component without slack
    target: str  # address of the target; empty if no peer accepted
    failure: str  # reason why the component has not moved; empty if it has
    seconds: float  # time from the decision, seconds

    @property
    def subjects(self) -> tuple[str, ...]:
        """Application of the component, and that of the component without slack."""
        return self.subject, self.cause[0]


class PeerOverloaded(Event, frozen=True, gc=False):
    """The load of the peer reached, or left, the highest level. This alone triggers no migration."""

    severity: ClassVar[Severity] = Severity.WARNING

    load: float
    predicted_load: float
    overloaded: bool  # whether the load is in the highest level now
