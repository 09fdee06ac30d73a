"""Parameters of the prediction of hot spots and of the migration away from them (chapter 3 of the dissertation)."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from synergy_nb.plan.checks.requirements import HOTSPOTS, check_hotspots

__all__ = ["HotSpotConfig", "hot_spot_config"]


class HotSpotConfig(msgspec.Struct, frozen=True):
    """Parameters of hot spots.

    Parameters
    ----------
    mode
        ``on``: peers predict hot spots and migrate components; ``observe``: they predict and journal what they would
        decide, and migrate nothing; ``off``: they neither predict nor migrate.
    predict
        Whether execution times are predicted from predicted rates (equations 3.2 to 3.8). False: the last measured
        time counts, so peers react to slack that is already gone; for comparison.
    confidence
        Share ε of the delay limit by which the error of a regression's slope may change a predicted time; it gives the
        confidence level C = ε q_t / r̄_t. Where the error is greater, the last measurement counts.
    horizon
        Seconds ahead for which a growing backlog is predicted; a longer delay limit takes its place (:meth:`ahead`).
    tuples
        Least number of consecutive executions without slack that make a hot spot.
    seconds
        Least time from the first of them to the last, seconds.
    selection
        Rule that selects the components that leave: ``largest_first`` (section 3.4.1) or ``fewest`` (exact).
    margin
        Slack that each application must have at the target of a migration, as a share of its delay limit.
    rest
        Least time between two migrations of a component, seconds.
    return_ban
        Time for which a component does not return to a peer that it has left, seconds.
    reservation
        Time for which a target reserves capacity for a component that it has accepted, seconds.
    candidates
        Most peers that are asked for one component.
    report
        Interval between two reports of predictions to the origin of an application, seconds.

    Examples
    --------
    Peers say what they would move, and move nothing:

    >>> from synergy_nb import HotSpotConfig, Simulation
    >>> simulation = Simulation(4, hotspots=HotSpotConfig(mode="observe", horizon=2.0), seed=1)
    >>> simulation.close()
    """

    mode: str = "on"
    predict: bool = True
    confidence: float = 0.05
    horizon: float = 5.0
    tuples: int = 5
    seconds: float = 1.0
    selection: Literal["largest_first", "fewest"] = "fewest"
    margin: float = 0.05
    rest: float = 600.0
    return_ban: float = 1800.0
    reservation: float = 10.0
    candidates: int = 8
    report: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in HOTSPOTS:
            raise ValueError(f"mode: {self.mode!r}; expected one of {', '.join(HOTSPOTS)}")
        if self.selection not in ("largest_first", "fewest"):
            raise ValueError(f"selection: {self.selection!r}; expected 'largest_first' or 'fewest'")
        if not isinstance(self.predict, bool):
            raise ValueError(f"predict: {self.predict!r}; expected True or False")
        for field in ("confidence", "horizon", "seconds", "margin", "rest", "return_ban", "reservation", "report"):
            value, positive = getattr(self, field), field in ("reservation", "report")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0.0 <= value < math.inf or (positive and value == 0.0):
                expected = "a positive number" if positive else "a finite number from 0"
                raise ValueError(f"{field}: {value!r}; expected {expected}")
        for field in ("tuples", "candidates"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{field}: {value!r}; expected a whole number from 1")

    def ahead(self, limit: float) -> float:
        """Return the seconds ahead for which a growing backlog is predicted, given a delay limit in seconds.

        A queue needs the longer to become as long as the limit, the longer that is.

        Examples
        --------
        >>> [HotSpotConfig().ahead(limit) for limit in (0.5, 20.0, math.inf)]
        [5.0, 20.0, 5.0]
        """
        return max(self.horizon, limit) if limit < math.inf else self.horizon

    @property
    def acts(self) -> bool:
        """Whether peers migrate components away from hot spots."""
        return self.mode == "on"

    @property
    def predicts(self) -> bool:
        """Whether peers compute slack and predict hot spots."""
        return self.mode != "off"


def hot_spot_config(field: str, given: object) -> HotSpotConfig:
    """Read the value of an option: parameters of hot spots, or their mode alone.

    Raises
    ------
    ValueError
        If it is neither; the text names the field.

    Examples
    --------
    >>> hot_spot_config("hotspots", "observe").mode
    'observe'
    """
    return given if isinstance(given, HotSpotConfig) else HotSpotConfig(mode=check_hotspots(field, given))
