"""Estimates of what operators keep, so that a plan that cannot fit is refused before it starts, and engines are chosen.

They follow from what sources can give in the time of a window (:mod:`.source_sizes`) and the selectivities above an
operator. Refusals need more than the choice of an engine: only tuples count of which statements of the plan, or rows
that were counted, leave no doubt. Where these are missing nothing is refused; peers measure the memory of operators.

State is largest where the rate is highest, so where the profile of a trace knows the rates and groups of windows, an
estimate is that of a busy window: the quantile ``PEAK`` of all (:mod:`.trace_facts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from synergy_nb.plan.checks.operator_flows import pause_of
from synergy_nb.plan.checks.source_sizes import Amount, Basis, SourceSize, duration_of, tuples_within
from synergy_nb.plan.checks.trace_facts import Thinned, known_of, measured, thinned
from synergy_nb.plan.checks.validation import Operator, PlanError, Problem
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.declaration import Flow
from synergy_nb.plan.operators.engines import off_spark
from synergy_nb.plan.operators.tables import INDEX_BYTES
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.units import counted

__all__ = ["Held", "check_memory", "held", "needed_bytes", "on_peers", "retained_bytes", "span_of", "stream_within"]


class RatedPlan(Protocol):
    """Interface of a query plan for these estimates; see :class:`~synergy_nb.plan.query_plan.Plan`."""

    @property
    def operators(self) -> Mapping[str, Operator]:
        """Operators by id."""

    @property
    def qos(self) -> QoS:
        """QoS requirement."""

    @property
    def sizes(self) -> Mapping[str, SourceSize]:
        """What is known of the rows of sources."""

    def window(self, operator: str) -> dict[str, Any] | None:
        """Window of the operator's stream."""

    def rate(self, operator: str) -> float:
        """Tuples/s of the operator's stream."""

    def tuple_bytes(self, operator: str) -> float:
        """Mean bytes of a tuple of the operator's stream."""


class Held(NamedTuple):
    """What an operator is expected to keep."""

    tuples: float  # number of tuples
    nbytes: float  # bytes of these
    basis: Basis  # ground of the number: a default, or facts
    whole: bool  # whether these are all tuples of its sources, which have no more


def held(plan: RatedPlan, operator: str, *, mean: bool = False) -> Held:
    """Estimate what an operator keeps: tuples of its inputs, a result for each group of each open window, or a table.

    The tuples of a windowed stream arrive together, so an operator that takes the windows of its input keeps one.
    ``mean``: whether the windows are mean ones, and not busy ones.

    >>> from synergy_nb.plan import source
    >>> trace = source("trace", path="small.csv", format="csv", columns={"user": "str"})
    >>> plan = trace.aggregate("user", "7 d", n="count(*)").sink().sized({"source": SourceSize(100.0, 3.6e5, True)})
    >>> held(plan, "aggregate").tuples
    10.0
    """
    node = plan.operators[operator]
    state = KINDS[node.kind].state if node.kind in KINDS else ""
    if not state:
        return Held(0.0, 0.0, Basis.KNOWN, whole=False)
    if state == "table":
        table = node.params["table"]
        return Held(table["rows"], table["bytes"] + table["rows"] * INDEX_BYTES, Basis.KNOWN, whole=True)
    if state == "groups":
        results = _results(plan, operator, mean=mean)
        return Held(results.tuples, results.tuples * plan.tuple_bytes(operator), results.basis, whole=False)
    rows = (node.params.get("window") or {}).get("rows")
    span = math.inf if rows else span_of(plan, operator)
    parts = [(up, stream_within(plan, up, span, _busy(span, mean=mean))) for up in node.streams]
    most = rows or math.inf
    tuples = [min(part.tuples, most) for _, part in parts]
    nbytes = sum(each * plan.tuple_bytes(up) for each, (up, _) in zip(tuples, parts, strict=True))
    basis = min(part.basis for _, part in parts)
    return Held(sum(tuples), nbytes, basis, all(part.whole and part.tuples <= most for _, part in parts))


def retained_bytes(plan: RatedPlan, operator: str) -> float:
    """Bytes of the tuples that an operator will keep without any doubt; 0 where they are in doubt.

    >>> from synergy_nb.plan import source
    >>> packets = source("packets", seed=1, rate="1000 tuples/s", duration="10 min")
    >>> plan = packets.sort("bytes", window="1 h").sink()
    >>> retained_bytes(plan, "sort") == 600 * 1000 * plan.tuple_bytes("source")
    True
    """
    node = plan.operators[operator]
    state = KINDS[node.kind].state if node.kind in KINDS else ""
    if state not in ("tuples", "table") or (node.params.get("window") or {}).get("rows"):
        return 0.0
    kept = held(plan, operator)
    return kept.nbytes if kept.basis == Basis.KNOWN else 0.0


def needed_bytes(plan: RatedPlan, operator: str) -> float:
    """Bytes that an operator will need without any doubt: those of its tuples, and what is stated for its function."""
    params = plan.operators[operator].params
    return retained_bytes(plan, operator) + float((params.get("memory") if "function" in params else None) or 0.0)


def check_memory(plan: RatedPlan, operators: Iterable[str], limit: float) -> None:
    """Check that what operators retain, and the memory that functions are stated to need, fit into shares of memory.

    ``operators``: ids of the operators to check; ``limit``: share of each operator in bytes, if the plan states none.

    Raises ``PlanError`` if operators will retain more than their share; the text names each of them, the rate and the
    remedy.
    """
    problems = []
    share = limit if plan.qos.memory is None else min(plan.qos.memory, limit)
    for name in operators:
        operator, size = plan.operators[name], retained_bytes(plan, name)
        stated = operator.params.get("memory") if "function" in operator.params else None
        if stated is not None and stated > share:
            remedy = "state less, or give it more with memory= of the sink or of the Cluster"
            expected = f"at most its share of {share / 1e6:,.0f} MB: {remedy}"
            problems.append(Problem(name, "memory", f"{stated / 1e6:,.0f} MB for its function", expected))
        if size > share:
            rate = sum(plan.rate(up) for up in operator.streams)
            kept = held(plan, name)
            of = f"of {counted(round(kept.tuples), 'tuple')}" if kept.whole else f"at {rate:,.6g} tuples/s"
            expected = (
                f"at most its share of {share / 1e6:,.0f} MB. Shorten its window, filter or aggregate before "
                "it, or give it more with memory= of the sink or of the Cluster"
            )
            problems.append(Problem(name, "memory", f"{size / 1e6:,.0f} MB that it will keep {of}", expected))
    if problems:
        raise PlanError(problems)


def on_peers(plan: RatedPlan, *, spark: bool) -> list[str]:
    """Operators that peers will certainly execute; with ``spark``, ``auto`` ones run there instead if Spark can."""

    def on_peer(operator: Operator) -> bool:
        alone = not spark or bool(off_spark(operator.kind, operator.params))
        return operator.engine == "peer" or (operator.engine == "auto" and alone)

    return [name for name, operator in plan.operators.items() if on_peer(operator)]


def span_of(plan: RatedPlan, operator: str) -> float:
    """Least time for which an operator that keeps tuples keeps each, seconds of event time.

    That is what its declaration states, or else its window; of the windows of its input it keeps one, whose tuples are
    those that the input gives between the ends of two.
    """
    node = plan.operators[operator]
    declared = KINDS.get(node.kind)
    if declared is not None and declared.span is not None:
        return declared.span(node.params)
    if declared is None or declared.state != "tuples":
        return 0.0
    own = node.params.get("window")
    return pause_of(plan.window(operator) or {}) if own is None else float(own.get("length") or own.get("gap") or 0.0)


def stream_within(plan: RatedPlan, operator: str, seconds: float, busy: float = 0.0) -> Amount:
    """Estimate how many tuples the stream of an operator has within ``seconds`` of event time.

    ``busy``: length of the period whose rate counts where it is known, seconds of event time; 0: the mean rate counts.
    """
    node = plan.operators[operator]
    if node.kind not in KINDS:  # a part on Spark, or a stream of another application: both have a rate of their own
        return Amount(plan.rate(operator) * seconds if plan.rate(operator) else 0.0, Basis.GUESSED)
    if not node.inputs:
        return tuples_within(node.params, plan.sizes.get(operator), seconds, busy)
    declared, period = KINDS[node.kind], min(seconds, _duration(plan, operator))
    parts = [stream_within(plan, up, period, busy) for up in node.streams]
    taken, basis = sum(part.tuples for part in parts), min(part.basis for part in parts)
    whole = all(part.whole for part in parts)
    if declared.guessed and node.selectivity is None:
        basis = min(basis, Basis.GUESSED)
    if node.selectivity is not None:
        return Amount(taken * node.selectivity, basis, whole)
    if not 0.0 < period < math.inf:
        return Amount(taken, basis, whole)
    windows = _windows_within(plan, operator, period, taken)
    facts = _known(plan, node.inputs[0]) if len(node.inputs) == 1 else None
    known = measured(node, facts, taken, windows, busy=busy > 0.0)
    if known is not None:
        return Amount(known, basis, whole)
    flow = Flow(taken / period, parts[0].tuples / period, windows / period)
    given = declared.tuples(node.params, flow) * period
    groups = _groups(plan, operator) if declared.keys and taken else math.inf
    if groups < math.inf:
        window = node.params.get("window") or {}
        shared = float(window.get("length", 0.0)) / float(window["slide"]) if window.get("slide") else 1.0
        given = windows * groups * -math.expm1(-taken * shared / windows / groups)  # of n tuples in g groups at random
    return Amount(given, basis, whole)


def _results(plan: RatedPlan, operator: str, *, mean: bool) -> Amount:
    """Results of all windows of an operator that are open at a time."""
    node = plan.operators[operator]
    own = node.params.get("window")
    window = own or plan.window(operator) or {}
    pause = pause_of(window)
    length = float(window.get("length") or pause) if own else pause  # an input with windows has one open
    busy = _busy(length, mean=mean)
    results = stream_within(plan, operator, pause or math.inf, busy)
    inputs = [stream_within(plan, up, length or math.inf, busy) for up in node.streams]
    most = min(sum(part.tuples for part in inputs), window.get("rows") or math.inf)
    open_windows = min(length, _duration(plan, operator) + pause) / pause if pause else 1.0
    whole = all(part.whole for part in inputs)
    basis = max(results.basis, min(part.basis for part in inputs)) if whole else results.basis
    return Amount(min(results.tuples, most) * max(open_windows, 1.0), basis, whole)


def _busy(span: float, *, mean: bool) -> float:
    """Length of the period whose rate counts for windows of so many seconds; 0: the mean rate counts."""
    return 0.0 if mean or math.isinf(span) else span


def _windows_within(plan: RatedPlan, operator: str, seconds: float, taken: float) -> float:
    """Number of windows of an operator that end within a time in which it takes so many tuples; 0 without windows."""
    window = plan.operators[operator].params.get("window") or plan.window(operator) or {}
    if window.get("rows"):
        return max(taken / float(window["rows"]), 1.0)
    pause = pause_of(window)
    return max(seconds / pause, 1.0) if pause else 0.0


def _known(plan: RatedPlan, operator: str) -> Thinned | None:
    """What the profile of its trace says of a stream."""
    node = plan.operators[operator]
    if not node.inputs:
        return known_of(plan.sizes[operator].facts) if operator in plan.sizes else None
    if len(node.inputs) > 1 or (before := _known(plan, node.inputs[0])) is None:
        return None
    taken = plan.rate(node.inputs[0])
    return thinned(node, before, plan.rate(operator) / taken if taken else 1.0)


def _groups(plan: RatedPlan, operator: str) -> float:
    """Number of groups, by the different values that the columns of the sources have; infinite where it is unknown."""
    node = plan.operators[operator]
    columns = node.params.get(KINDS[node.kind].keys)
    if columns is None:
        return math.inf
    known = _distinct(plan, operator)
    return max(math.prod(known.get(column, math.inf) for column in columns), 1.0)


def _distinct(plan: RatedPlan, operator: str) -> dict[str, float]:
    """Column to its number of different values, for columns of sources; one that is computed has its name only."""
    known: dict[str, float] = {}
    for up in plan.operators[operator].streams:
        found = dict(plan.sizes[up].distinct) if up in plan.sizes else _distinct(plan, up)
        known.update((column, known.get(column, 0.0) + number) for column, number in found.items())
    return known


def _duration(plan: RatedPlan, operator: str) -> float:
    """Greatest duration of a stream, seconds of event time; infinite where it is unknown."""
    node = plan.operators[operator]
    if node.inputs:
        return max(_duration(plan, up) for up in node.inputs)
    return duration_of(node.params, plan.sizes.get(operator)) if node.kind in KINDS else math.inf
