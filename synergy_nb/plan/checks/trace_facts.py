"""What the profile of a trace says that estimates need: rates, values of columns, groups of windows.

Rates, selectivities and groups of a plan follow from these where its author states none. So a filter on
``status = 404`` has the share of rows that was measured, and windows by host have as many groups as windows of such a
trace had.

Shares of conditions are computed as databases compute them: conditions on one column from its values, conditions on
several columns as if these were independent. Facts reach as far into a plan as columns keep their values: through
filters, samples, sorts and projections by name.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.sql import sql

__all__ = [
    "CLASSES",
    "PEAK",
    "ColumnFacts",
    "Thinned",
    "TraceFacts",
    "groups_of",
    "known_of",
    "measured",
    "pattern_of",
    "peak_of",
    "selectivity_of",
    "thinned",
]

#: Shares of the periods of a scale, the slowest first, whose mean rates are kept. The busiest quarter is one class, as
#: a limit is a promise about 95 % of the tuples: by the busiest hundredth alone, three times as many plans were refused
#: that would have kept their limits.
CLASSES: Final = (0.5, 0.25, 0.25)
#: Quantile of the periods, by their rows, for which there has to be memory.
PEAK: Final = 0.99
_PERIODS: Final = 100  # periods of a pattern
_AT_ONCE: Final = 1.0  # length of these, seconds of real time: shorter bursts are part of the variability within one
_PASSING: Final = ("filter", "sample", "sort", "delay")  # kinds whose tuples are those of their input
_HALF: Final = 0.5  # share of a condition that the facts do not tell


class ColumnFacts(msgspec.Struct, frozen=True, array_like=True):
    """What is known of the values of a column."""

    nulls: float  # share of the rows without a value
    frequent: dict[str, float]  # frequent value, as text, to its share of the rows
    other: float  # mean share of the rows of each other value
    quantiles: tuple[tuple[float, float], ...] = ()  # of numbers: share of the rows with a value, and the number


class TraceFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a profile says."""

    name: str  # of the profile
    rate: float  # mean rate, tuples per second of event time
    # length of the periods of a scale, seconds of event time, and mean rates of their CLASSES
    scales: tuple[tuple[float, tuple[float, ...]], ...]
    columns: dict[str, ColumnFacts]
    # windows: mean number of rows, and of different values of each column
    windows: tuple[tuple[float, dict[str, float]], ...]
    # rate of each hour of the day in UTC as a multiple of the mean, as far as the season explains it; empty: not known
    hours: tuple[float, ...] = ()
    # length of the periods of a scale, seconds of event time, and the PEAK of their rates as a multiple of the mean
    peaks: tuple[tuple[float, float], ...] = ()
    # windows: PEAK of the number of rows, and of different values of each column
    busy: tuple[tuple[float, dict[str, float]], ...] = ()

    def is_valid(self) -> bool:
        """Whether all numbers are finite, and those of shares and rates are at least 0."""
        rates = [self.rate, *(each for scale, levels in self.scales for each in (scale, *levels))]
        rates += [each for peak in self.peaks for each in peak]
        groups = [each for rows, found in (*self.windows, *self.busy) for each in (rows, *found.values())]
        shares = [
            each for column in self.columns.values() for each in (column.nulls, column.other, *column.frequent.values())
        ]
        points = [each for column in self.columns.values() for point in column.quantiles for each in point]
        known = all(len(levels) in (0, len(CLASSES)) for _, levels in self.scales) and len(self.hours) in (0, 24)
        return (
            known
            and all(0.0 <= each < math.inf for each in (*rates, *groups, *shares, *self.hours))
            and all(map(math.isfinite, points))
        )


class Thinned(NamedTuple):
    """The facts of a stream: those of its source, and what is left of its rows."""

    facts: TraceFacts
    share: float  # of the rows of the source
    names: Mapping[str, str]  # column of the stream to the column of the source


# -- rates -------------------------------------------------------------------------------------------------------------


def pattern_of(facts: TraceFacts, pace: float) -> tuple[tuple[float, float], ...]:
    """Return rates by which a replay comes, as seconds and tuples/s, the slowest first; empty if nothing is known.

    ``pace``: seconds of event time per second.
    """
    known = [(scale, rates) for scale, rates in facts.scales if rates]
    if not known or pace <= 0.0:
        return ()
    scale, rates = min(known, key=lambda each: abs(math.log(each[0] / pace / _AT_ONCE)))
    return tuple((share * _PERIODS * scale / pace, rate * pace) for share, rate in zip(CLASSES, rates, strict=True))


def peak_of(facts: TraceFacts | None, seconds: float) -> float:
    """Return the rows of a busy period as a multiple of those of a mean one, at least 1: no more is known.

    Busy is a period than which :data:`PEAK` of the others have fewer rows. Between two scales it follows from both, on
    a logarithmic scale.

    >>> facts = TraceFacts("log", 1.0, (), {}, (), (), ((1.0, 9.0), (100.0, 3.0)))
    >>> [round(peak_of(facts, seconds), 2) for seconds in (0.1, 1.0, 10.0, 100.0, 1e6)]
    [9.0, 9.0, 6.0, 3.0, 3.0]
    """
    if facts is None or not facts.peaks or not 0.0 < seconds < math.inf:
        return 1.0
    known = sorted(facts.peaks)
    if seconds <= known[0][0] or seconds >= known[-1][0]:
        return max((known[0] if seconds <= known[0][0] else known[-1])[1], 1.0)
    (x0, y0), (x1, y1) = next((one, two) for one, two in pairwise(known) if seconds <= two[0])
    return max(y0 + (y1 - y0) * math.log(seconds / x0) / math.log(x1 / x0), 1.0)


# -- conditions --------------------------------------------------------------------------------------------------------


def selectivity_of(condition: str, known: Thinned) -> float | None:
    """Return the share of the rows for which a condition holds; None if nothing is known of any of its columns.

    Examples
    --------
    >>> host = ColumnFacts(0.0, {"a": 0.5, "b": 0.2}, 0.1)
    >>> size = ColumnFacts(0.1, {}, 0.0, ((0.0, 0.0), (0.5, 10.0), (1.0, 110.0)))
    >>> facts = TraceFacts("log", 1.0, (), {"host": host, "size": size}, ())
    >>> known = Thinned(facts, 1.0, {"host": "host", "size": "size"})
    >>> [round(selectivity_of(each, known), 3) for each in ("host = 'a'", "host = 'x'", "host <> 'a'", "size > 60")]
    [0.5, 0.1, 0.5, 0.225]
    >>> round(selectivity_of("size > 10 AND size <= 60 AND host IN ('a', 'b')", known), 4)
    0.1575
    >>> selectivity_of("length(host) > 3", known) is None
    True
    """
    tree = _tree(condition)
    columns = set(sql.columns(tree)) & known.names.keys()
    if not any(known.names[each] in known.facts.columns for each in columns):
        return None
    found = _share(tree, known)
    return None if found is None else min(max(found, 0.0), 1.0)


@lru_cache(maxsize=256)
def _tree(condition: str) -> Any:
    return sql.parse(condition)


def _share(node: Any, known: Thinned) -> float | None:
    if node.key == "and":
        return _all_of(_operands(node, "and"), known)
    if node.key == "or":
        shares = [_share(each, known) for each in _operands(node, "or")]
        if all(each is None for each in shares):
            return None
        return 1.0 - math.prod(1.0 - (_HALF if each is None else each) for each in shares)
    if node.key == "not":
        inside = _share(node.this, known)
        return None if inside is None else max(1.0 - _nulls(node.this, known) - inside, 0.0)
    return _simple(node, known)


def _all_of(conditions: Sequence[Any], known: Thinned) -> float | None:
    """Share of several conditions: those on one column that bound it are one range."""
    bounds: dict[str, tuple[float, float]] = {}
    shares: list[float | None] = []
    for each in conditions:
        ranged = _range(each, known)
        if ranged is None:
            shares.append(_share(each, known))
            continue
        column, low, high = ranged
        before = bounds.get(column, (-math.inf, math.inf))
        bounds[column] = max(low, before[0]), min(high, before[1])
    shares += [_between(known.facts.columns[column], *ends) for column, ends in bounds.items()]
    if all(each is None for each in shares):
        return None
    return math.prod(_HALF if each is None else each for each in shares)


def _operands(node: Any, key: str) -> list[Any]:
    return [*_operands(node.this, key), *_operands(node.expression, key)] if node.key == key else [node]


def _simple(node: Any, known: Thinned) -> float | None:
    """Share of a comparison of a column with literals."""
    if (ranged := _range(node, known)) is not None:
        column, low, high = ranged
        return _between(known.facts.columns[column], low, high)
    facts = _column(node.this, known) if node.key in ("eq", "neq", "in", "is") else None
    if facts is None:
        return None
    if node.key == "is":
        return facts.nulls if node.expression.key == "null" else None
    listed = node.expressions if node.key == "in" else [node.expression]
    values = [_literal(each) for each in listed]
    if any(each is None for each in values):
        return None
    share = sum(_equal(facts, str(each)) for each in values)
    return max(1.0 - facts.nulls - share, 0.0) if node.key == "neq" else share


def _range(node: Any, known: Thinned) -> tuple[str, float, float] | None:
    """The column that a comparison bounds, and its bounds; None: it is none of a column of numbers."""
    if node.key not in ("gt", "gte", "lt", "lte"):
        return None
    facts, number = _column(node.this, known), _literal(node.expression)
    if facts is None or not facts.quantiles or isinstance(number, str) or number is None:
        return None
    column = known.names[node.this.name]
    step = 1e-9 * max(abs(number), 1.0)  # so that a number itself counts or not
    if node.key in ("gt", "gte"):
        return column, number + (step if node.key == "gt" else -step), math.inf
    return column, -math.inf, number + (step if node.key == "lte" else -step)


def _column(node: Any, known: Thinned) -> ColumnFacts | None:
    if node.key != "column" or node.name not in known.names:
        return None
    return known.facts.columns.get(known.names[node.name])


def _literal(node: Any) -> str | float | None:
    if node.key == "neg":
        inside = _literal(node.this)
        return None if inside is None or isinstance(inside, str) else -inside
    if node.key == "literal":
        return str(node.name) if node.is_string else float(node.name)
    return str(node.this).lower() if node.key == "boolean" else None


def _equal(facts: ColumnFacts, value: str) -> float:
    if value in facts.frequent:
        return facts.frequent[value]
    try:  # the same number, written otherwise
        return facts.frequent.get(f"{float(value):g}", facts.other)
    except ValueError:
        return facts.other


def _nulls(node: Any, known: Thinned) -> float:
    """Share of the rows of which a condition is neither true nor false."""
    sources = [known.names[each] for each in sql.columns(node) if each in known.names]
    return max((known.facts.columns[each].nulls for each in sources if each in known.facts.columns), default=0.0)


def _between(facts: ColumnFacts, low: float, high: float) -> float:
    """Share of the rows between two numbers: frequent numbers by themselves, the others by quantiles."""
    return max(_below(facts, high) - _below(facts, low), 0.0) * (1.0 - facts.nulls)


def _below(facts: ColumnFacts, number: float) -> float:
    shares = [share for share, _ in facts.quantiles]
    values = [value for _, value in facts.quantiles]
    if number < values[0]:
        return 0.0
    if number >= values[-1]:
        return 1.0
    place = bisect.bisect_right(values, number)
    low, high = values[place - 1], values[place]
    within = (number - low) / (high - low) if high > low else 0.0
    return shares[place - 1] + within * (shares[place] - shares[place - 1])


# -- streams -----------------------------------------------------------------------------------------------------------


def known_of(facts: TraceFacts | None) -> Thinned | None:
    """The facts of the stream of a source."""
    return None if facts is None else Thinned(facts, 1.0, {name: name for name in facts.columns})


def measured(
    operator: Operator, before: Thinned | None, taken: float, windows: float, *, busy: bool = False
) -> float | None:
    """Return how many tuples an operator gives of so many that it takes; None: the facts do not tell.

    ``windows``: number of its windows that close meanwhile; ``busy``: whether these are busy ones, and not mean ones.
    """
    if before is None:
        return None
    if operator.kind == "filter":
        share = selectivity_of(operator.params["where"], before)
        return None if share is None else taken * share
    if operator.kind == "aggregate" and operator.params.get("by") and "having" not in operator.params and windows > 0.0:
        window = operator.params.get("window") or {}
        shared = float(window.get("length", 0.0)) / float(window["slide"]) if window.get("slide") else 1.0
        groups = groups_of(before, operator.params["by"], taken * shared / windows, busy=busy)
        return None if groups is None else windows * groups
    return None


def thinned(operator: Operator, before: Thinned | None, share: float) -> Thinned | None:
    """Return the facts of the stream of an operator with one input; None: its columns have other values.

    ``share``: tuples out over tuples in.
    """
    if before is None:
        return None
    if operator.kind in _PASSING:
        return before._replace(share=before.share * share)
    if operator.kind == "project":
        names = {}
        for name, text in operator.params["columns"].items():
            column = text[1:-1].replace('""', '"') if text.startswith('"') else text
            if column in before.names:
                names[name] = before.names[column]
        return before._replace(names={**names, "time": "time"})
    return None


def groups_of(known: Thinned, columns: Sequence[str], tuples: float, *, busy: bool = False) -> float | None:
    """Expected number of groups of so many tuples of a window; None if nothing is known of one of the columns.

    ``busy``: whether that is a busy window rather than a mean one. Of several columns each combination may occur, so
    their product counts, up to the number of tuples.
    """
    found = 1.0
    for column in columns:
        source = known.names.get(column)
        windows = (known.facts.busy if busy else ()) or known.facts.windows
        points = [(rows, groups[source]) for rows, groups in windows if source in groups] if source else []
        if not points:
            return None
        found *= _groups_at(points, tuples)
    return max(min(found, tuples), min(tuples, 1.0))


def _groups_at(points: Sequence[tuple[float, float]], tuples: float) -> float:
    """Groups of so many tuples, between what windows of several lengths have, on logarithmic scales."""
    if tuples <= 1.0:
        return tuples
    known = [(0.0, 0.0), *sorted((math.log(rows), math.log(groups)) for rows, groups in points if rows > 1.0)]
    at = math.log(tuples)
    if len(known) == 1:
        return tuples
    (x0, y0), (x1, y1) = next(
        ((one, two) for one, two in pairwise(known) if at <= two[0] and two[0] > one[0]), (known[-2], known[-1])
    )
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    return math.exp(y0 + min(max(slope, 0.0), 1.0) * (at - x0))
