"""How the rate of a stream is going to change by the time of day, as the profile of its trace has measured.

A replay that passes a day in minutes has its morning within seconds. What the hours before were like does not tell
that the next one has twice the rows, but the days before do. :class:`Season` is what a peer needs to know of that: the
mean rate of each hour of the day, and how fast the stream passes through it.

A mean rate of an hour counts only as far as the season explains the rates at all: its distance to the mean of the day
is multiplied by the season's strength, from 0 to 1 (:mod:`synergy_nb.models.seasons`).

The season of an operator's input is that of its sources if tuples are passed on as they arrive. What is given at the
end of a window has none, nor have inputs that pass through the day at different speeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from synergy_nb.plan.operators.catalogue import KINDS, PART
from synergy_nb.plan.operators.sources import pace_of
from synergy_nb.plan.query_plan import Plan

__all__ = ["Season", "season_of"]

_HOURS: Final = 24
_HOUR_US: Final = 3_600_000_000
_POINTS: Final = 8  # moments of the time ahead whose levels are averaged


class Season(NamedTuple):
    """The level of a rate by the hour of the day, and how fast a stream passes through the day.

    Examples
    --------
    >>> season = Season((1.0,) * 8 + (2.0,) * 16, 3600.0)
    >>> [round(season.rise(hour * 3_600_000_000, 2.0), 2) for hour in (3, 7, 12)]
    [1.0, 1.5, 1.0]
    """

    levels: tuple[float, ...]  # rate of each hour of the day in UTC, as a multiple of some rate
    pace: float  # seconds of event time per second

    def rise(self, at: int, seconds: float) -> float:
        """Return the mean rate of the next seconds as a multiple of the present one; 1 if that is 0.

        ``at``: event time that the stream has reached, in µs; ``seconds``: length of the time ahead, of real time.
        """
        now = self._level(at / _HOUR_US)
        if now <= 0.0:
            return 1.0
        ahead = seconds * self.pace * 1e6 / _HOUR_US
        step = ahead / _POINTS
        begin = at / _HOUR_US + step / 2.0
        return math.fsum(self._level(begin + number * step) for number in range(_POINTS)) / _POINTS / now

    def _level(self, hours: float) -> float:
        """Level at a moment, between those of the middles of two hours."""
        before = math.floor(hours - 0.5)
        share = hours - 0.5 - before
        return self.levels[before % _HOURS] * (1.0 - share) + self.levels[(before + 1) % _HOURS] * share


def season_of(plan: Plan, operator: str) -> Season | None:
    """Return the season of what an operator takes; None if nothing is known of it."""
    sources = _sources(plan, operator)
    found: list[tuple[float, Sequence[float]]] = []
    paces: set[float] = set()
    for source in sources or ():
        size, rate = plan.sizes.get(source), plan.rate(source)
        hours = () if size is None or size.facts is None else size.facts.hours
        if hours:
            paces.add(pace_of(plan.operators[source].params))
        found.append((rate, hours or (1.0,) * _HOURS))
    total = math.fsum(rate for rate, _ in found)
    if len(paces) != 1 or 0.0 in paces or not total:
        return None
    levels = tuple(math.fsum(rate * hours[hour] for rate, hours in found) / total for hour in range(_HOURS))
    return Season(levels, paces.pop())


def _sources(plan: Plan, operator: str) -> list[str] | None:
    """Return the sources of what an operator takes; None if it is not passed on as it arrives."""
    found: list[str] = []
    for up in plan.upstream(operator):
        node = plan.operators[up]
        if not node.inputs and node.kind == "source":
            found.append(up)
            continue
        above = None if not node.inputs or node.kind == PART or KINDS[node.kind].waits else _sources(plan, up)
        if above is None:
            return None
        found += above
    return found
