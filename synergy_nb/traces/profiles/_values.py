"""What is measured of the rows of a trace, as one value with parts.

A number that is no count of all rows says so: a ``basis`` is ``exact``, or ``estimate, ±x %``. What the rows do not
tell is not guessed: ``unknown`` has the reason for each part that is missing.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "ColumnProfile",
    "DayProfile",
    "ForecastProfile",
    "GapProfile",
    "HurstProfile",
    "LatenessProfile",
    "MeasuredTrace",
    "PredicateProfile",
    "RateProfile",
    "SeasonProfile",
    "SkewProfile",
    "Spread",
    "TailProfile",
    "WindowProfile",
    "Within",
]


class Within(msgspec.Struct, frozen=True):
    """An estimate, and the interval in which the true value is in 95 of 100 cases if the model holds."""

    value: float
    low: float
    high: float


class Spread(msgspec.Struct, frozen=True):
    """How a number is distributed: mean, median, 99th percentile, greatest value."""

    mean: float
    p50: float
    p99: float
    most: float


class RateProfile(msgspec.Struct, frozen=True):
    """Rates at one scale: rows in periods of so many seconds, as rows/s.

    Parameters
    ----------
    seconds
        Length of the periods, seconds.
    periods
        Number of whole periods from the first row to the last.
    rate
        Rates of the periods, rows/s.
    empty
        Share of the periods without a row.
    dispersion
        Index of dispersion for counts: variance of the rows of a period over their mean, 1 for a Poisson process; None:
        there are too few periods.
    levels
        Mean rates of the slowest half of the periods, of the next quarter, and of the busiest one, rows/s; empty: there
        are fewer than 100 periods.
    """

    seconds: float
    periods: int
    rate: Spread
    empty: float
    dispersion: float | None = None
    levels: list[float] = []


class HurstProfile(msgspec.Struct, frozen=True):
    """A Hurst exponent: .5 without memory, up to 1 for self-similar traffic; ``low`` and ``high`` hold 95 of 100 cases.

    Parameters
    ----------
    estimator
        ``local Whittle`` or ``wavelets``.
    value, low, high
        Estimate and its interval.
    shortest, longest
        Scales between which it was estimated, seconds.
    """

    estimator: str
    value: float
    low: float
    high: float
    shortest: float
    longest: float


class ForecastProfile(msgspec.Struct, frozen=True):
    """Rates of the next periods, rows/s, with the bounds of 95 of 100 cases."""

    mean: list[float]
    low: list[float]
    high: list[float]


class SeasonProfile(msgspec.Struct, frozen=True):
    """Season, trend and memory of the rates.

    Parameters
    ----------
    seconds
        Length of the periods whose rates were looked at, seconds.
    daily, weekly
        Strength of the season, from 0 to 1; None: not known, see ``unknown`` of the profile.
    hours
        Mean rate of each hour of the day in UTC, rows/s; empty: not known.
    weekdays
        Mean rate of each day of the week, Monday first, rows/s; empty: not known.
    trend
        Change in a day as a share of the mean rate; None: not known.
    adf, kpss
        Probability of such a series if it were a random walk, and if it were stationary (from .01 to .1).
    verdict
        Sentence of both tests together.
    acf, pacf, bound
        Autocorrelations and partial ones from lag 1 on, and the bound beyond which one is no chance.
    forecast
        Rates of the next day, or of a quarter of the span where the daily season is not known; None: too short.
    """

    seconds: float
    daily: float | None = None
    weekly: float | None = None
    hours: list[float] = []
    weekdays: list[float] = []
    trend: Within | None = None
    adf: float | None = None
    kpss: float | None = None
    verdict: str = ""
    acf: list[float] = []
    pacf: list[float] = []
    bound: float = 0.0
    forecast: ForecastProfile | None = None


class TailProfile(msgspec.Struct, frozen=True):
    """A power law of the largest values of a column (Hill); ``distance`` is that of the values from it, 0 to 1."""

    alpha: Within
    above: float
    values: int
    distance: float


class SkewProfile(msgspec.Struct, frozen=True):
    """How unequally rows are distributed over the values of a column.

    Parameters
    ----------
    top
        Most frequent values as texts, with their share of all rows.
    share10, share100
        Share of the rows that have one of the 10, of the 100 most frequent values.
    zipf
        Exponent of Zipf's law; None: too few values have several rows.
    ranks
        Number of most frequent values to which it was fitted.
    fit
        Share of the variance of the logarithms of counts that the law explains.
    basis
        ``exact``, or how far counts may be off.
    """

    top: list[tuple[str, float]]
    share10: float
    share100: float
    zipf: Within | None
    ranks: int
    fit: float
    basis: str


class PredicateProfile(msgspec.Struct, frozen=True):
    """Share of the rows for which a predicate, as a filter has it, holds."""

    predicate: str
    selectivity: float
    basis: str


class ColumnProfile(msgspec.Struct, frozen=True):
    """What was measured of a column.

    Parameters
    ----------
    type
        Type, as in plans.
    nulls
        Number of rows without a value.
    distinct, distinct_basis
        Number of different values.
    nbytes
        Mean bytes of a value in memory.
    low, high, mean, deviation
        Range, mean and standard deviation of numbers; None: no numbers.
    quantiles
        Quantile to the value below which this share of the rows is, for numbers.
    quantiles_basis
        Error of these values.
    tail
        Heavy tail; None: no numbers, or too few above 0.
    skew
        Distribution of the rows over the values of a column by which rows may be grouped; None: others.
    predicates
        Candidate predicates with their selectivities.
    """

    type: str
    nulls: int
    distinct: float
    distinct_basis: str
    nbytes: float
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None
    quantiles: dict[str, float] = {}
    quantiles_basis: str = ""
    tail: TailProfile | None = None
    skew: SkewProfile | None = None
    predicates: list[PredicateProfile] = []


class WindowProfile(msgspec.Struct, frozen=True):
    """Windows of one length, aligned to it, that have a row.

    Parameters
    ----------
    seconds
        Length, seconds.
    rows, nbytes
        Rows of a window, and their bytes in memory.
    groups
        Column to the number of its different values in a window.
    groups_basis
        ``exact``, or how far numbers of groups may be off.
    """

    seconds: float
    rows: Spread
    nbytes: Spread
    groups: dict[str, Spread]
    groups_basis: str


class GapProfile(msgspec.Struct, frozen=True):
    """A time without rows: when it begins, ISO 8601, and its length in seconds."""

    start: str
    seconds: float


class LatenessProfile(msgspec.Struct, frozen=True):
    """Number of rows of the raw files that come later than so many seconds after a later row: these would be lost."""

    seconds: float
    lost: int


class DayProfile(msgspec.Struct, frozen=True):
    """One day beside the day before it.

    Parameters
    ----------
    day
        Date in UTC.
    rows
        Number of rows.
    ratio
        Rate over that of the day before, of the hours that both have; None: there is none.
    shifts
        Column to the population stability index of its values against those of all days.
    distances
        Column of numbers to the distance of Kolmogorov and Smirnov from the values of all days, from 0 to 1.
    """

    day: str
    rows: int
    ratio: float | None
    shifts: dict[str, float]
    distances: dict[str, float]


class MeasuredTrace(msgspec.Struct, frozen=True):
    """What was measured of the rows of a trace.

    Parameters
    ----------
    name
        Path or name of what it is of.
    rows
        Number of rows.
    first, last
        Least and greatest event time, ISO 8601, UTC.
    resolution
        Greatest time of which all event times are multiples, seconds: the clock of the trace.
    row_bytes
        Mean bytes of a row in memory.
    rates
        Rates at several scales, the shortest first.
    series, series_seconds
        Rows in each of up to 500 periods from the first row on, and the length of these, seconds.
    hurst
        Hurst exponents by two estimators.
    season
        Season, trend, memory and forecast; None: not known.
    columns
        Column to what was measured of it.
    windows
        Rows, bytes and groups of windows of several lengths.
    gaps
        Longest times without rows, the longest first.
    lateness
        Rows that are lost by lateness, the shortest first; empty: not known.
    disorder
        Greatest time by which a row comes after a later one in its raw file, seconds; None: not known.
    days
        Days, in their order.
    unknown
        Part to the reason why it is not known.
    """

    name: str
    rows: int
    first: str
    last: str
    resolution: float
    row_bytes: float
    rates: list[RateProfile]
    series: list[int]
    series_seconds: float
    hurst: list[HurstProfile]
    season: SeasonProfile | None
    columns: dict[str, ColumnProfile]
    windows: list[WindowProfile]
    gaps: list[GapProfile]
    lateness: list[LatenessProfile]
    disorder: float | None
    days: list[DayProfile]
    unknown: dict[str, str]

    @property
    def seconds(self) -> float:
        """Event time from the first row to the last, seconds."""
        return self.rates[0].seconds * self.rates[0].periods if self.rates else 0.0

    @property
    def rate(self) -> float:
        """Mean rate, rows/s."""
        return self.rates[0].rate.mean if self.rates else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all facts as values that JSON has."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
