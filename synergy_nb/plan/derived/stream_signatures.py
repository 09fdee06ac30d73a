"""Signatures of the streams of a plan: their rates over time (dissertation, section 2.3.4).

A plan may state the signature of a source, an earlier run may have measured it, or the profile of its trace has it;
those of all other streams follow from them. A signature here is a pattern: segments of constant rate, the earliest
first, which repeat, without absolute times. An empty one means a constant rate.

The segments of a stream are those of its inputs if the operator passes tuples on as they arrive. The stream of an
operator that emits the results of a window at its end has a constant rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from synergy_nb.plan.checks.trace_facts import pattern_of
from synergy_nb.plan.operators.catalogue import KINDS, PART
from synergy_nb.plan.operators.parameter_types import MOST_SEGMENTS, SIGNATURE
from synergy_nb.plan.operators.sources import pace_of
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.units import WrongValue

__all__ = ["Rates", "arrivals", "mean_rate", "read", "scaled", "shortened", "signature", "together", "write"]

Rates: TypeAlias = tuple[tuple[float, float], ...]
"""Seconds and rate of each segment."""

_CLOSE: Final = 1e-9  # share of a pattern: two closer changes count as one
_MOST_REPEATED: Final = 1024  # largest number of segments that are added


def mean_rate(pattern: Sequence[Sequence[float]]) -> float:
    """Mean rate of a pattern, in tuples/s.

    >>> mean_rate(((2.0, 400.0), (8.0, 25.0)))
    100.0
    """
    return sum(seconds * rate for seconds, rate in pattern) / sum(seconds for seconds, _ in pattern)


def scaled(pattern: Sequence[Sequence[float]], rate: float) -> Rates:
    """Scale a pattern to another mean rate.

    >>> scaled(((2.0, 400.0), (8.0, 25.0)), 10.0)
    ((2.0, 40.0), (8.0, 2.5))
    """
    mean = mean_rate(pattern)
    factor = rate / mean if mean > 0.0 else 0.0
    return tuple((float(seconds), each * factor) for seconds, each in pattern)


def shortened(pattern: Sequence[Sequence[float]], most: int = MOST_SEGMENTS) -> Rates:
    """Shorten a pattern to at most ``most`` segments: neighbours that differ least are merged.

    A merge of two segments adds n1 n2 / (n1 + n2) (r1 - r2)² to the variance within segments, where n is the length and
    r the rate (Ward); the two that add least are merged first.

    >>> shortened(((1.0, 10.0), (1.0, 12.0), (2.0, 90.0)), 2)
    ((2.0, 11.0), (2.0, 90.0))
    """
    kept = [(float(seconds), float(rate)) for seconds, rate in pattern]
    while len(kept) > most:
        costs = [one * two / (one + two) * (r1 - r2) ** 2 for (one, r1), (two, r2) in pairwise(kept)]
        at = costs.index(min(costs))
        (one, r1), (two, r2) = kept[at : at + 2]
        kept[at : at + 2] = [(one + two, (one * r1 + two * r2) / (one + two))]
    return tuple(kept)


def together(patterns: Sequence[Rates]) -> Rates:
    """Add patterns that end at the same time; the shorter ones repeat.

    >>> together([((4.0, 1.0), (4.0, 5.0)), ((1.0, 10.0), (3.0, 0.0))])
    ((1.0, 11.0), (3.0, 1.0), (1.0, 15.0), (3.0, 5.0))
    """
    if len(patterns) < 2:
        return patterns[0] if patterns else ()
    window = max(sum(seconds for seconds, _ in pattern) for pattern in patterns)
    least = min(sum(seconds for seconds, _ in pattern) / len(pattern) for pattern in patterns)
    if window > least * _MOST_REPEATED:
        return ((window, sum(mean_rate(pattern) for pattern in patterns)),)
    ends: set[float] = {0.0, window}
    laid: list[list[tuple[float, float]]] = []  # seconds before the end at which a segment begins, and its rate
    for pattern in patterns:
        back, segments = 0.0, []
        while back < window * (1.0 - _CLOSE):
            for seconds, rate in reversed(pattern):
                back += seconds
                segments.append((back, rate))
        laid.append(segments)
        ends.update(each for each, _ in segments if each < window)
    edges = sorted(ends)
    edges = [0.0, *(b for a, b in pairwise(edges) if b - a > _CLOSE * window)]
    edges[-1] = window
    found: list[tuple[float, float]] = []
    at = [0] * len(laid)
    for near, far in pairwise(edges):
        middle, rate = (near + far) / 2.0, 0.0
        for number, segments in enumerate(laid):
            while segments[at[number]][0] < middle:
                at[number] += 1
            rate += segments[at[number]][1]
        found.append((far - near, rate))
    return shortened(found[::-1])


# -- of a plan ---------------------------------------------------------------------------------------------------------


def signature(plan: Plan, operator: str) -> Rates:
    """Signature of an operator's stream, tuples/s; empty if no change of its rate is known.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> bursts = [["2 s", "400/s"], ["8 s", "25/s"]]
    >>> packets = source("packets", rate=10, signature=bursts)
    >>> plan = packets.filter("bytes > 9", selectivity=0.5).aggregate("link", "1 min", n="count(*)").sink()
    >>> signature(plan, "filter"), signature(plan, "aggregate")
    (((2.0, 20.0), (8.0, 1.25)), ())
    """
    return _signature(plan, operator, {}) if _stated(plan) else ()


def arrivals(plan: Plan, operator: str) -> Rates:
    """Signature of an operator's input, tuples/s; empty if its rate is constant."""
    return _arrivals(plan, operator, {}) if _stated(plan) else ()


def _stated(plan: Plan) -> bool:
    return any(_of_source(plan, each) for each in plan.sources)


def _of_source(plan: Plan, source: str) -> Sequence[Sequence[float]]:
    """The pattern of a source that its plan states, or else the one that the profile of its trace has."""
    params, size = plan.operators[source].params, plan.sizes.get(source)
    stated: Sequence[Sequence[float]] = params.get("signature") or ()
    if stated or size is None or size.facts is None:
        return stated
    return pattern_of(size.facts, pace_of(params))


def _signature(plan: Plan, operator: str, known: dict[str, Rates]) -> Rates:
    found = known.get(operator)
    if found is not None:
        return found
    node, rate = plan.operators[operator], plan.rate(operator)
    if not node.inputs:
        stated = _of_source(plan, operator)
        found = scaled(stated, rate) if len(stated) > 1 else ()
    elif node.kind == PART or KINDS[node.kind].waits or not rate:
        found = ()
    else:
        taken = _arrivals(plan, operator, known)
        found = scaled(taken, rate) if taken else ()
    known[operator] = found
    return found


def _arrivals(plan: Plan, operator: str, known: dict[str, Rates]) -> Rates:
    ups = plan.upstream(operator)
    if not ups:
        return _signature(plan, operator, known)
    patterns = [_signature(plan, up, known) or ((1.0, plan.rate(up)),) for up in ups]
    varied = [each for each in patterns if len(each) > 1]
    even = sum(each[0][1] for each in patterns if len(each) == 1)
    if not varied:
        return ()
    return tuple((seconds, rate + even) for seconds, rate in together(varied))


# -- as text, in the directory -----------------------------------------------------------------------------------------


def write(pattern: Sequence[Sequence[float]]) -> str:
    """Write a pattern as a short text.

    >>> write(((2.0, 400.0), (8.0, 25.125)))
    '2:400 8:25.12'
    """
    return " ".join(f"{seconds:.4g}:{rate:.4g}" for seconds, rate in pattern)


def read(text: Any) -> Rates:
    """Read a pattern from a text of :func:`write`; empty if the text is invalid.

    >>> read("2:400 8:25.12"), read("2:400 8"), read(7)
    (((2.0, 400.0), (8.0, 25.12)), (), ())
    """
    try:
        found = SIGNATURE.parse([[float(part) for part in each.split(":")] for each in str(text).split()])
    except (ValueError, WrongValue):
        return ()
    return tuple((seconds, rate) for seconds, rate in found if math.isfinite(rate))
