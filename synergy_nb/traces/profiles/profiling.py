"""From the survey of rows to their profile: statistics of small series, and what cannot be known from so few rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from synergy_nb.models.burstiness import Interval, dispersion, local_whittle, totals, wavelet_hurst
from synergy_nb.models.drifts import kolmogorov_smirnov, stability_index
from synergy_nb.models.seasons import decomposed, forecast, memory, stationarity, trend_of
from synergy_nb.models.tails import tail_of, zipf_of
from synergy_nb.plan.checks.trace_facts import CLASSES
from synergy_nb.plan.terms.column_types import family
from synergy_nb.plan.terms.units import counted, format_duration
from synergy_nb.traces.profiles._values import (
    ColumnProfile,
    DayProfile,
    ForecastProfile,
    GapProfile,
    HurstProfile,
    LatenessProfile,
    PredicateProfile,
    RateProfile,
    SeasonProfile,
    SkewProfile,
    Spread,
    TailProfile,
    WindowProfile,
    Within,
)
from synergy_nb.traces.profiles.surveys import ACCURACY, BUCKETS, HASHES, OPEN, ColumnSurvey, RowSurvey, number_of
from synergy_nb.traces.profiles.trace_profile import TraceProfile

__all__ = ["RawOrder", "profile_of"]

Array = npt.NDArray[np.float64]
_SCALES: Final = (1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)  # seconds
_SHOWN: Final = 500  # periods of the series that is kept
_SEVERAL: Final = 4.0  # mean rows of a period from which on its counts are near to a Gaussian series
_HOUR: Final = 3600
_DAY: Final = 86_400
_SEASON: Final = 2016  # latest periods whose season is looked at: hours of 12 weeks
_LONGEST: Final = 7200.0  # longest scale of a Hurst exponent, seconds: beyond it the day has its own say
_QUANTILES: Final = (0.001, 0.01, *(round(0.05 * step, 2) for step in range(1, 20)), 0.99, 0.999)
_GAPS: Final = 5
_PERIODS: Final = 100  # least periods of a scale whose classes are kept
_MISSING: Final = 0.01  # share of a period before the first row, or after the last one, with which it is whole
_TOP: Final = 100  # frequent values that are kept
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of streams have no zone


class RawOrder(NamedTuple):
    """In which order the rows of the raw files came."""

    lost: Mapping[float, int]  # lateness, seconds, to the number of rows that come later than that
    disorder: float  # greatest time by which a row came late, seconds
    in_parts: bool = False  # whether large files were looked at part by part, each by itself


def profile_of(name: str, survey: RowSurvey, order: RawOrder | None) -> TraceProfile:
    """Return the profile of the rows of a survey.

    ``name``: path or name of what it is of; ``order``: None if nobody knows in which order the rows came.
    """
    unknown: dict[str, str] = {}
    if not survey.rows or survey.first is None or survey.last is None:
        nothing = dict.fromkeys(("rates", "burstiness", "season", "windows", "gaps", "drift"), "there are no rows")
        columns = {each: _column(each, column, survey) for each, column in survey.columns.items()}
        return TraceProfile(name, 0, "", "", 0.0, 0.0, [], [], 1.0, [], None, columns, [], [], [], None, [], nothing)
    counts = _Counts(survey)
    row_bytes = 8.0 + sum(column.nbytes for column in survey.columns.values()) / survey.rows
    columns = {each: _column(each, column, survey) for each, column in survey.columns.items()}
    series, seconds = counts.shown()
    if order is None:
        unknown["disorder"] = "the order of the raw rows is not kept; prepare() sees it"
    elif order.in_parts:
        unknown["disorder"] = "rows that are late beyond the part of 128 MB of their file are not among these"
    return TraceProfile(
        name=name,
        rows=survey.rows,
        first=_iso(survey.first),
        last=_iso(survey.last),
        resolution=survey.resolution / 1e6,
        row_bytes=row_bytes,
        rates=list(counts.rates()),
        series=series,
        series_seconds=seconds,
        hurst=_hurst(counts, unknown),
        season=_season(counts, unknown),
        columns=columns,
        windows=list(_windows(survey, columns, row_bytes)),
        gaps=counts.gaps(),
        lateness=[] if order is None else [LatenessProfile(late, rows) for late, rows in sorted(order.lost.items())],
        disorder=None if order is None else order.disorder,
        days=_days(survey, columns, unknown),
        unknown=unknown,
    )


# -- rates -------------------------------------------------------------------------------------------------------------


class _Counts:
    """The rows in each period, without gaps, at any scale that is not finer than the clock of the trace."""

    def __init__(self, survey: RowSurvey) -> None:
        assert survey.first is not None
        assert survey.last is not None
        at, rows = np.frombuffer(survey.periods, np.int64), np.frombuffer(survey.counts, np.int64)
        clock = max(survey.step, min(survey.resolution, 60_000_000))  # of one row, or equal times, it tells nothing
        scale = next((round(each * 1e6) for each in _SCALES if round(each * 1e6) >= clock), survey.step)
        scale = scale if scale % survey.step == 0 else survey.step
        at = at // (scale // survey.step)
        self.seconds = scale / 1e6
        self.begin = int(at[0])  # number of the first period since 1970
        self.counts: Array = np.bincount(at - self.begin, weights=rows).astype(np.float64)
        self.span = (survey.last - survey.first) / 1e6
        self._rows = survey.rows

    def at(self, seconds: float) -> Array:
        """The rows of each whole period of a scale; one of which less than a hundredth is missing counts as whole."""
        scale = round(seconds / self.seconds)
        early, late = self.begin % scale, -(self.begin + len(self.counts)) % scale
        counts = self.counts
        if late <= _MISSING * scale:
            counts = np.append(counts, np.zeros(late))
        if early <= _MISSING * scale:
            return totals(np.append(np.zeros(early), counts), scale)
        return totals(counts[scale - early :], scale)

    def begins(self, seconds: float) -> int:
        """Number since 1970 of the first whole period of a scale."""
        scale = round(seconds / self.seconds)
        early = self.begin % scale
        return self.begin // scale + (early > _MISSING * scale)

    def scales(self) -> list[float]:
        """The scales of at least two periods."""
        fit = [each for each in _SCALES if round(each * 1e6) % round(self.seconds * 1e6) == 0]
        return [self.seconds, *(each for each in fit if each > self.seconds and len(self.at(each)) >= 2)]

    def rates(self) -> Iterator[RateProfile]:
        """Rates at all scales."""
        for seconds in self.scales():
            counts = self.counts if seconds == self.seconds else self.at(seconds)
            index = dispersion(counts) if len(counts) >= 10 else math.nan
            spread = Spread(
                float(counts.mean()) / seconds,
                float(np.quantile(counts, 0.5)) / seconds,
                float(np.quantile(counts, 0.99)) / seconds,
                float(counts.max()) / seconds,
            )
            yield RateProfile(
                seconds,
                len(counts),
                spread,
                float((counts == 0).mean()),
                index if math.isfinite(index) else None,
                _levels(counts / seconds),
            )

    def shown(self) -> tuple[list[int], float]:
        """At most so many periods as a picture shows, and their length."""
        scale = -(-len(self.counts) // _SHOWN)
        whole = np.append(self.counts, np.zeros(-len(self.counts) % scale))
        return totals(whole, scale).astype(int).tolist(), scale * self.seconds

    def gaps(self) -> list[GapProfile]:
        """The longest times without rows, of at least two periods."""
        some = np.flatnonzero(self.counts)
        empty = np.diff(some) - 1
        longest = np.argsort(-empty, kind="stable")[:_GAPS]
        found = []
        for place in longest[empty[longest] >= 2].tolist():
            begin = (self.begin + int(some[place]) + 1) * self.seconds
            found.append(GapProfile(_iso(round(begin * 1e6)), float(empty[place]) * self.seconds))
        return found


def _levels(rates: Array) -> list[float]:
    """Mean rates of the classes of periods, the slowest first."""
    if len(rates) < _PERIODS:
        return []
    ends = np.round(np.cumsum(CLASSES) * len(rates)).astype(int)
    return [float(part.mean()) for part in np.split(np.sort(rates), ends[:-1])]


def _hurst(counts: _Counts, unknown: dict[str, str]) -> list[HurstProfile]:
    """Hurst exponents of the scales at which a period has several rows."""
    scales = [each for each in counts.scales() if each <= max(600.0, counts.seconds)]  # of centuries, it has hours
    seconds = next((each for each in scales if float(counts.at(each).mean()) >= _SEVERAL), scales[-1])
    series = counts.at(seconds)
    shortest, longest = 8.0 * seconds, min(counts.span / 8.0, max(_LONGEST, 64.0 * seconds))
    found = []
    if longest >= 4.0 * shortest:
        for name, estimate in (
            ("local Whittle", local_whittle(series, 8.0, longest / seconds)),
            ("wavelets", wavelet_hurst(series, 8.0, longest / seconds)),
        ):
            if estimate is not None:
                found.append(HurstProfile(name, *estimate, shortest, longest))
    if not found:
        unknown["Hurst exponent"] = (
            f"needs {format_duration(256.0 * seconds)} at this rate; there are {_span(counts.span)}, so too few scales"
        )
    return found


# -- season ------------------------------------------------------------------------------------------------------------


def _season(counts: _Counts, unknown: dict[str, str]) -> SeasonProfile | None:
    """Season, trend and memory of the rates by hour, or at a finer scale where the span is shorter than two days."""
    hourly = counts.at(_HOUR) if counts.seconds <= _HOUR else np.zeros(0)
    if len(hourly) > 2 * 24:
        seconds, series = float(_HOUR), hourly[-_SEASON:]
        begin = counts.begins(_HOUR) + len(hourly) - len(series)
    else:
        scales = [each for each in counts.scales() if len(counts.at(each)) >= 40]
        if not scales:
            unknown["season"] = f"needs 40 periods; there are {len(counts.counts)}"
            return None
        seconds = scales[-1]
        series, begin = counts.at(seconds)[-_SEASON:], 0
        unknown["daily season"] = f"needs more than two days; there are {_span(counts.span)}"
    if float(np.ptp(series)) == 0.0:
        unknown["season"] = "all periods have the same number of rows"
        return None
    rates = series / seconds
    if len(hourly) <= 2 * 168:
        unknown["weekly season"] = f"needs more than two weeks; there are {_span(counts.span)}"
    daily = weekly = None
    hours: list[float] = []
    weekdays: list[float] = []
    trend: Interval | None = None
    if not unknown.keys() & {"daily season"}:
        periods = [24, 168] if len(rates) > 2 * 168 else [24]
        parts = decomposed(rates, periods)
        daily, weekly = parts.strengths[0], parts.strengths[1] if len(periods) > 1 else None
        clock = (begin + np.arange(len(rates))) % 24
        hours = [float(rates[clock == hour].mean()) for hour in range(24)]
        if weekly is not None:
            weekday = ((begin + np.arange(len(rates))) // 24 + 3) % 7  # 1970 began on a Thursday
            weekdays = [float(rates[weekday == day].mean()) for day in range(7)]
        whole = len(rates) // 24 * 24
        trend = trend_of(rates[:whole], 24.0)
    else:
        unknown["trend"] = unknown["daily season"]
    remembered, tested = memory(rates, 48 if daily is not None else 40), stationarity(rates)
    period = 24 if daily is not None else None
    ahead = forecast(rates, period, 24 if period else max(len(rates) // 4, 1))
    if ahead is None:
        unknown["forecast"] = "there are too few periods"
    return SeasonProfile(
        seconds,
        daily,
        weekly,
        hours,
        weekdays,
        None if trend is None else Within(*trend),
        None if tested is None else tested.adf_p,
        None if tested is None else tested.kpss_p,
        "" if tested is None else tested.verdict,
        [] if remembered is None else remembered.acf.tolist(),
        [] if remembered is None else remembered.pacf.tolist(),
        0.0 if remembered is None else remembered.bound,
        None if ahead is None else ForecastProfile(*(np.maximum(each, 0.0).tolist() for each in ahead)),
    )  # fmt: skip


# -- columns -----------------------------------------------------------------------------------------------------------


def _column(name: str, column: ColumnSurvey, survey: RowSurvey) -> ColumnProfile:
    present = survey.rows - column.nulls
    distinct, exact = column.distinct
    number = family(column.kind) in ("int", "float", "decimal")
    complete = exact and not column.missed and 0 < len(column.values) == distinct
    found = ColumnProfile(
        column.kind,
        column.nulls,
        distinct,
        "exact" if exact else _within(2.0 / math.sqrt(HASHES)),
        column.nbytes / survey.rows if survey.rows else 0.0,
    )
    changes: dict[str, Any] = {}
    if number and column.finite:
        mean = column.total / column.finite
        spread = max(column.squares / column.finite - mean**2, 0.0)
        values, rows = _numbers(column, exact=complete and column.kind == "int")
        basis = "exact" if complete and column.kind == "int" else _within(ACCURACY)
        quantiles = _quantiles(values, rows, column.low, column.high)
        tail = tail_of(np.frombuffer(column.largest), column.finite)
        changes = {
            "low": column.low, "high": column.high, "mean": mean, "deviation": math.sqrt(spread),
            "quantiles": quantiles, "quantiles_basis": basis,
            "tail": None if tail is None else TailProfile(Within(*tail.alpha), tail.above, tail.values, tail.distance),
        }  # fmt: skip
    skew = None
    if column.values and distinct >= 2 and distinct <= 0.5 * present:
        skew = _skew(column, present, survey.rows)
        changes["skew"] = skew
    changes["predicates"] = list(_predicates(name, column, survey.rows, changes, skew))
    return msgspec.structs.replace(found, **changes)


def _numbers(column: ColumnSurvey, *, exact: bool) -> tuple[Array, Array]:
    """Numbers in their order, each with its rows: exact ones, or those in the middle of their classes."""
    pairs = [(float(value), rows) for value, rows in column.values.items()] if exact else \
        [(number_of(place), rows) for place, rows in column.numbers.items()]  # fmt: skip
    values, rows = np.array(sorted(pairs)).T
    return values, rows


def _quantiles(values: Array, rows: Array, low: float, high: float) -> dict[str, float]:
    reached = np.cumsum(rows)
    found = {}
    for share in _QUANTILES:
        place = int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-12)))
        found[f"{share:g}"] = float(min(max(values[min(place, len(values) - 1)], low), high))
    return found


def _skew(column: ColumnSurvey, present: int, rows: int) -> SkewProfile:
    counts = np.array(sorted(column.values.values(), reverse=True), dtype=np.float64)
    law = zipf_of(counts)
    top = sorted(column.values.items(), key=lambda each: (-each[1], each[0]))[:_TOP]
    return SkewProfile(
        [(value, number / rows) for value, number in top],
        float(counts[:10].sum()) / present,
        float(counts[:100].sum()) / present,
        None if law is None else Within(*law.exponent),
        0 if law is None else law.ranks,
        0.0 if law is None else law.fit,
        "exact" if not column.missed else f"estimate, up to {column.missed / rows * 100:.2g} % of all rows more",
    )


def _predicates(
    column_name: str, column: ColumnSurvey, rows: int, facts: Mapping[str, object], skew: SkewProfile | None
) -> Iterator[PredicateProfile]:
    """Candidate predicates: frequent values, and thresholds at quantiles of numbers."""
    if not rows:
        return
    name = column_name if column_name.isidentifier() else '"' + column_name.replace('"', '""') + '"'
    if skew is not None:
        for value, share in skew.top[:5]:
            shown = f"{value}" if column.kind in ("int", "bool") else "'" + value.replace("'", "''") + "'"
            shown = f"DATE {shown}" if column.kind == "date" else shown
            yield PredicateProfile(f"{name} = {shown}", share, skew.basis)
    quantiles = facts.get("quantiles")
    if isinstance(quantiles, dict):
        values, numbers = _numbers(column, exact=facts["quantiles_basis"] == "exact")
        for quantile in ("0.5", "0.9", "0.99"):
            threshold = float(quantiles[quantile])
            over = float(numbers[values > threshold].sum()) / rows
            yield PredicateProfile(f"{name} > {threshold:.6g}", over, str(facts["quantiles_basis"]))


# -- windows and days --------------------------------------------------------------------------------------------------


def _windows(survey: RowSurvey, columns: Mapping[str, ColumnProfile], row_bytes: float) -> Iterator[WindowProfile]:
    for length, window in sorted(survey.windows.items()):
        rows = spread_of(window.rows)
        groups = {
            key: spread_of(found)
            for key, found in window.groups.items()
            if found and columns[key].skew is not None
        }  # fmt: skip
        nbytes = Spread(*(each * row_bytes for each in (rows.mean, rows.p50, rows.p99, rows.most)))
        basis = _within(2.0 / math.sqrt(OPEN)) if window.estimated else "exact"
        yield WindowProfile(length / 1e6, rows, nbytes, groups, basis)


def spread_of(numbers: Mapping[int, int]) -> Spread:
    """Mean, median, 99th percentile and maximum of numbers, each with how often it occurs.

    >>> spread_of({1: 99, 3: 1})
    Spread(mean=1.02, p50=1.0, p99=1.0, most=3.0)
    """
    values, times = np.array(sorted(numbers.items()), dtype=np.float64).T
    reached = np.cumsum(times)
    middle, high = (float(values[np.searchsorted(reached, share * reached[-1] * (1 - 1e-12))]) for share in (0.5, 0.99))
    return Spread(float((values * times).sum() / reached[-1]), middle, high, float(values[-1]))


def _days(survey: RowSurvey, columns: Mapping[str, ColumnProfile], unknown: dict[str, str]) -> list[DayProfile]:
    """Each day beside the one before it, and its values beside those of all days."""
    if len(survey.days) < 2:
        unknown["drift"] = f"needs two days; there is {counted(len(survey.days), 'day')}"
    keys = {name: np.zeros(BUCKETS) for name, column in columns.items() if column.skew is not None}
    for day in survey.days.values():
        for name, classes in day.classes.items():
            if name in keys:
                keys[name] += classes
    cuts = {name: _cuts(column) for name, column in survey.columns.items() if column.numbers}
    whole = {name: _in_classes(survey.columns[name].numbers, cut) for name, cut in cuts.items()}
    found: list[DayProfile] = []
    names = sorted(survey.days)
    for place, name in enumerate(names):
        day = survey.days[name]
        before = survey.days[names[place - 1]] if place else None
        shifts, distances = {}, {}
        if len(names) > 1:
            for key, all_of_them in keys.items():
                shifts[key] = _shift(all_of_them, np.array(day.classes.get(key, [0] * BUCKETS), dtype=np.float64))
            for column, cut in cuts.items():
                mine = day.numbers.get(column, {})
                if column not in shifts:
                    shifts[column] = _shift(whole[column], _in_classes(mine, cut))
                distances[column] = _distance(survey.columns[column].numbers, mine)
        found.append(DayProfile(name, day.rows, _ratio(before, day), shifts, distances))
    return found


def _ratio(before: object, day: object) -> float | None:
    hours_before, hours = getattr(before, "hours", {}), getattr(day, "hours", {})
    both = hours_before.keys() & hours.keys()
    least = sum(hours_before[hour] for hour in both)
    return sum(hours[hour] for hour in both) / least if least else None


def _shift(whole: Array, part: Array) -> float:
    """Stability index of a part, less what chance makes of so many rows."""
    if not part.sum() or not whole.sum():
        return 0.0
    chance = (len(whole) - 1) * (1.0 / float(part.sum()) + 1.0 / float(whole.sum()))
    return max(stability_index(whole, part) - chance, 0.0)


def _cuts(column: ColumnSurvey) -> list[int]:
    """Bounds of ten classes with about as many rows each."""
    places = sorted(column.numbers)
    reached = np.cumsum([column.numbers[place] for place in places])
    return sorted({places[int(np.searchsorted(reached, share * reached[-1]))] for share in np.arange(0.1, 1.0, 0.1)})


def _in_classes(numbers: Mapping[int, int], cuts: list[int]) -> Array:
    found = np.zeros(len(cuts) + 1)
    if numbers:
        places = np.searchsorted(cuts, list(numbers))
        np.add.at(found, places, np.array(list(numbers.values()), dtype=np.float64))
    return found


def _distance(whole: Mapping[int, int], part: Mapping[int, int]) -> float:
    places = sorted(whole)
    first = np.array([whole[place] for place in places], dtype=np.float64)
    return kolmogorov_smirnov(first, np.array([part.get(place, 0) for place in places], dtype=np.float64))


def _iso(micros: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def _span(seconds: float) -> str:
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.3g} days"
    return f"{seconds / _HOUR:.3g} h" if seconds >= 2 * _HOUR else f"{seconds:.3g} s"


def _within(share: float) -> str:
    return f"estimate, ±{share * 100:.2g} %"
