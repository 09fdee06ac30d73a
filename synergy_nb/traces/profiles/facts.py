"""What estimates need of a profile, and which profile is that of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from synergy_nb.plan.checks.trace_facts import ColumnFacts, TraceFacts
from synergy_nb.traces.profiles._values import ColumnProfile, SeasonProfile
from synergy_nb.traces.profiles.trace_profile import PROFILE, NotAProfile, TraceProfile, read_profile

__all__ = ["facts_of", "known_facts"]

_LEVELS: Final = 2  # folders above a file in which its profile may be: those of its day and hour


def known_facts(params: Mapping[str, Any]) -> TraceFacts | None:
    """Return what is known of the rows of a source with connector ``trace`` by its profile; None: there is none.

    That is the stated profile, or the one beside a prepared file. Raises ``NotAProfile`` if the stated one cannot be
    read; one that is found is then left out.
    """
    stated = params.get("profile")
    if stated is not None:
        return facts_of(read_profile(stated))
    folder = Path(params["path"]).parent
    for place in (folder, *list(folder.parents)[:_LEVELS]):
        if (place / PROFILE).is_file():
            try:
                return facts_of(read_profile(place))
            except NotAProfile:
                return None
    return None


def facts_of(profile: TraceProfile) -> TraceFacts | None:
    """Return what estimates need of a profile; None: it has no rows."""
    if not profile.rows:
        return None
    scales = tuple((each.seconds, tuple(each.levels)) for each in profile.rates if each.levels)
    columns = {name: _column(column, profile.rows) for name, column in profile.columns.items()}
    windows = tuple(
        (each.rows.mean, {name: groups.mean for name, groups in each.groups.items()}) for each in profile.windows
    )
    peaks = tuple((each.seconds, each.rate.p99 / each.rate.mean) for each in profile.rates if each.rate.mean > 0.0)
    busy = tuple(
        (each.rows.p99, {name: groups.p99 for name, groups in each.groups.items()}) for each in profile.windows
    )
    return TraceFacts(profile.name, profile.rate, scales, columns, windows, _hours(profile.season), peaks, busy)


def _hours(season: SeasonProfile | None) -> tuple[float, ...]:
    if season is None or not season.hours or not season.daily:
        return ()
    mean = sum(season.hours) / len(season.hours)
    return tuple(1.0 + season.daily * (each / mean - 1.0) for each in season.hours) if mean > 0.0 else ()


def _column(column: ColumnProfile, rows: int) -> ColumnFacts:
    nulls = column.nulls / rows
    frequent = {} if column.skew is None else dict(column.skew.top)
    rest = max(column.distinct - len(frequent), 1.0)
    other = max(1.0 - nulls - sum(frequent.values()), 0.0) / rest
    points: tuple[tuple[float, float], ...] = ()
    if column.quantiles and column.low is not None and column.high is not None:
        inner = [(float(share), value) for share, value in column.quantiles.items()]
        points = ((0.0, column.low), *inner, (1.0, column.high))
    return ColumnFacts(nulls, frequent, other, points)
