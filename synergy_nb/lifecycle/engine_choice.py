"""Which operators of a plan Spark executes: as asked, or, where that is left open, by what they are expected to hold.

A peer's operators hold their state in memory and are executed by one thread; on light work they are ten times as fast
as Spark on the same machine. So ``auto`` chooses Spark only for what a peer would not cope with: an operator with state
that is expected to hold more than :attr:`Offer.state_bytes`, or to need more cores than a peer gives. What such an
operator reads goes along if Spark can then read the trace itself; otherwise peers go on filtering for it. A part adds
the time of a micro-batch to the delay, so where the limit leaves no room for that, peers execute it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from synergy_nb.plan import Plan
from synergy_nb.plan.engines import off_spark
from synergy_nb.plan.spark_parts import Profile, has_state, profiled, replace_parts, trusted_profiles, window_bytes
from synergy_nb.plan.units import format_duration

__all__ = ["MICRO_BATCH", "Choice", "Offer", "choose"]

MICRO_BATCH: Final = 0.5  # seconds, on two cores, until a peer has measured its own
WHY: Final = "asked for by the plan"
_ADDS: Final = "a micro-batch adds"


def _refuses(plan: Plan, operator: str, _inside: Collection[str]) -> str:
    asked = plan.operators[operator]
    return off_spark(asked.kind, asked.params)


class Offer(msgspec.Struct, frozen=True):
    """What a peer knows of the Spark that it can use.

    Parameters
    ----------
    micro_batch
        Time of a micro-batch, in seconds.
    state_bytes
        State that a peer's operator may be expected to hold before it is heavy.
    cores
        Processing that a peer's operator may be expected to need before it is heavy.
    refuses
        Called with a plan, an operator, and the operators that would be in the same part: why Spark cannot execute it,
        empty if it can. A driver that knows Spark knows more than the plan does.
    """

    micro_batch: float = MICRO_BATCH
    state_bytes: float = 256e6
    cores: float = 1.0
    refuses: Callable[[Plan, str, Collection[str]], str] = _refuses


class Choice(msgspec.Struct, frozen=True):
    """How a plan is to be composed.

    Parameters
    ----------
    plan
        With its parts on Spark as single operators.
    otherwise
        What is to be composed if that is not possible: with what ``auto`` left on peers; None where nothing was left.
    reasons
        Operator id to engine and reason, of operators for which there was something to decide.
    """

    plan: Plan
    otherwise: Plan | None
    reasons: dict[str, tuple[str, str]]


def choose(plan: Plan, offer: Offer | None, profiles: Mapping[str, Profile]) -> Choice:
    """Decide what Spark executes.

    Parameters
    ----------
    plan
        Query plan ξ.
    offer
        Spark as this peer knows it; None: there is none, and only what is asked for by name is put on it, so that
        composition finds nobody who offers it, and says so.
    profiles
        What was measured of operators, by the names of their streams.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> trace = source("trace", path="a.parquet", format="parquet", columns={"size": "int"}, rate="1000 tuples/s")
    >>> plan = trace.aggregate("size", "1 day", n="count(*)").sink(delay="1 min")
    >>> choice = choose(plan, Offer(state_bytes=1e8), {})
    >>> choice.reasons["aggregate"]
    ('spark', 'windows of 1 d hold about 1.38 GB, more than the 100 MB of a peer')
    >>> choice.plan.operators["aggregate"].params["members"]
    ['source', 'aggregate']
    """
    if offer is None:
        named = {name for name, operator in plan.operators.items() if operator.engine == "spark"}
        return Choice(replace_parts(plan, named, MICRO_BATCH) if named else plan, None, {})
    chosen, reasons = _on_spark(plan, offer, profiles)
    named = {name for name in chosen if plan.operators[name].engine == "spark"}
    if not chosen:
        return Choice(plan, None, reasons)
    placed = replace_parts(plan, chosen, offer.micro_batch)
    if chosen == _with_readable(plan, named, offer):  # all of it was asked for, or feeds what was
        return Choice(placed, None, reasons)
    rest = _with_readable(plan, named, offer)
    otherwise = replace_parts(plan, rest, offer.micro_batch) if rest else plan
    limit, added = plan.qos.delay, _added(placed)
    if limit is not None and added >= limit:
        late = f"{_ADDS} {format_duration(round(added, 3))}, and results must come within {format_duration(limit)}"
        for name in chosen - rest:
            if name in reasons:
                reasons[name] = ("peer", f"{late}, though {reasons[name][1]}")
        return Choice(otherwise, None, {name: why for name, why in reasons.items() if why[0] == "peer" or name in rest})
    return Choice(placed, otherwise, reasons)


def _added(placed: Plan) -> float:
    """Seconds that parts on Spark add on the route that has most of them."""
    return max(
        sum(placed.processing_time(name) for name in route if placed.operators[name].engine == "spark")
        for route in placed.routes
    )


def _on_spark(plan: Plan, offer: Offer, profiles: Mapping[str, Profile]) -> tuple[set[str], dict[str, tuple[str, str]]]:
    """Operators that Spark executes if the delay allows, and why."""
    known = trusted_profiles(plan, profiles)
    measured = profiled(plan, known)
    chosen: set[str] = set()
    reasons: dict[str, tuple[str, str]] = {}
    for name, operator in plan.operators.items():
        if operator.engine == "spark":
            chosen.add(name)
            reasons[name] = ("spark", WHY)
        elif operator.engine == "peer" or not has_state(operator) or offer.refuses(plan, name, ()):
            continue
        else:
            engine, why = _weigh(
                measured,
                name,
                offer,
                measured_rate=any(known[above].rate is not None for above in _above(plan, name) if above in known),
            )
            reasons[name] = engine, why
            if engine == "spark":
                chosen.add(name)
    together = _with_readable(plan, chosen, offer)
    for name in together - chosen:
        reasons[name] = ("spark", "Spark reads the trace itself")
    return together, reasons


def _weigh(plan: Plan, name: str, offer: Offer, *, measured_rate: bool) -> tuple[str, str]:
    """Engine and reason for one operator with state."""
    operator = plan.operators[name]
    window = operator.params.get("window") or plan.window(name) or {}
    length = window.get("length") or window.get("gap") or operator.params.get("within")
    span = f"windows of {format_duration(float(length))}" if length else "its state"
    state, load, rate = window_bytes(plan, name), plan.load(name), plan.input_rate(name)
    by = f" at {rate:,.0f} tuples/s, measured" if measured_rate else ""
    if state > offer.state_bytes:
        return "spark", f"{span} hold about {_size(state)}{by}, more than the {_size(offer.state_bytes)} of a peer"
    if load > offer.cores:
        return "spark", f"it needs {load:.3g} cores{by}, more than the {offer.cores:.3g} of a peer"
    return "peer", f"{span} hold about {_size(state)}{by}, and it needs {load:.2g} cores: light for a peer"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def _with_readable(plan: Plan, chosen: Iterable[str], offer: Offer) -> set[str]:
    """``chosen`` with what is above it, where all of that may go to Spark, up to sources that Spark can read itself.

    Each of these must be read by nobody else, so that it becomes part of the same query.
    """
    together = set(chosen)
    for name in [each for each in plan.operators if each in together]:
        above = _above(plan, name) - {name}
        if all(each in together or _may_follow(plan, each, above | {name}, offer) for each in above):
            together |= above
    return together


def _may_follow(plan: Plan, name: str, within: set[str], offer: Offer) -> bool:
    inside = set(plan.downstream(name)) <= within
    return plan.operators[name].engine != "peer" and inside and not offer.refuses(plan, name, within)


def _above(plan: Plan, name: str) -> set[str]:
    """The operator and all that it reads from, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(plan.upstream(each))
    return found
