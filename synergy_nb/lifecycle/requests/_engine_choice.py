"""Choice of the operators that Spark executes: those that the plan names and, with engine ``auto``, heavy ones.

A peer's operators hold their state in memory, and one thread executes them; on light work they are ten times as fast as
Spark on the same machine. So ``auto`` chooses Spark only for an operator that is too heavy for a peer: one whose
expected state exceeds :attr:`SparkOffer.state_bytes`, or which is expected to need more cores than
:attr:`SparkOffer.cores`. Both follow from what its sources can give (:mod:`synergy_nb.plan.checks.source_sizes`). Where
nothing states how many tuples come, peers execute it: a server that takes seconds to start is started for a reason, and
a default rate is none.

The operators upstream of it go to Spark as well if Spark can then read the trace itself; otherwise they stay on peers.
What lies between operators on Spark goes with them. A part on Spark adds the time of a micro-batch to the delay, so
peers execute the operator if the delay limit leaves no room for that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from synergy_nb.lifecycle.records.spark_offer import MICRO_BATCH, SparkOffer
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import held
from synergy_nb.plan.checks.source_sizes import Basis
from synergy_nb.plan.derived.spark_parts import Profile, has_state, profiled, replace_parts, trusted_profiles
from synergy_nb.plan.terms.units import counted, format_duration
from synergy_nb.reporting.formatting import size

_LEAST_LOAD: Final = 0.001  # cores below which a load is not stated
STATE_OVERHEAD: Final = 4.0  # bytes of state for each byte of a tuple
NAMED_BY_PLAN: Final = "asked for by the plan"


class EngineChoice(msgspec.Struct, frozen=True):
    """The plan to compose, and the fallback if that cannot be composed."""

    plan: Plan  # plan to compose; each part on Spark is a single operator of it
    # fallback plan, in which peers execute all that `auto` had chosen for Spark; None if `auto` chose nothing
    otherwise: Plan | None
    reasons: dict[str, tuple[str, str]]  # operator id to engine and reason, for operators with a choice of engine


def choose(plan: Plan, offer: SparkOffer | None, profiles: Mapping[str, Profile]) -> EngineChoice:
    """Choose the operators that Spark executes.

    ``offer``: properties of the Spark server of this peer; None if it has none. Then Spark is chosen only for operators
    that the plan names, and composition rejects the plan because it finds no candidate for them; ``profiles``: measured
    profiles of operators by the names of their work.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> trace = source("trace", path="a.parquet", format="parquet", columns={"size": "int"}, rate="1000 tuples/s")
    >>> plan = trace.aggregate("size", "1 day", n="count(*)").sink(delay="1 min")
    >>> choice = choose(plan, SparkOffer(state_bytes=1e8), {})
    >>> choice.reasons["aggregate"]
    ('spark', 'windows of 1 d hold about 1.38 GB (8,640,000 tuples), more than the 100 MB of a peer')
    >>> choice.plan.operators["aggregate"].params["members"]
    ['source', 'aggregate']
    """
    if offer is None:
        named = {name for name, operator in plan.operators.items() if operator.engine == "spark"}
        return EngineChoice(replace_parts(plan, named, MICRO_BATCH) if named else plan, None, {})
    chosen, reasons = _on_spark(plan, offer, profiles)
    named = {name for name in chosen if plan.operators[name].engine == "spark"}
    if not chosen:
        return EngineChoice(plan, None, reasons)
    placed = replace_parts(plan, chosen, offer.micro_batch)
    if chosen == _with_readable(plan, named, offer):  # the plan names these operators, or they feed the named ones
        return EngineChoice(placed, None, reasons)
    rest = _with_readable(plan, named, offer)
    otherwise = replace_parts(plan, rest, offer.micro_batch) if rest else plan
    limit, added = plan.qos.delay, _added_delay(placed)
    if limit is not None and added >= limit:
        adds = format_duration(round(added, 3))
        late = f"a micro-batch adds {adds}, and results must come within {format_duration(limit)}"
        for name in chosen - rest:
            if name in reasons:
                reasons[name] = ("peer", f"{late}, though {reasons[name][1]}")
        return EngineChoice(
            otherwise, None, {name: why for name, why in reasons.items() if why[0] == "peer" or name in rest}
        )
    return EngineChoice(placed, otherwise, reasons)


def _added_delay(placed: Plan) -> float:
    """Longest time that parts on Spark add on any route, seconds."""
    return max(
        sum(placed.processing_time(name) for name in route if placed.operators[name].engine == "spark")
        for route in placed.routes
    )


def _on_spark(
    plan: Plan, offer: SparkOffer, profiles: Mapping[str, Profile]
) -> tuple[set[str], dict[str, tuple[str, str]]]:
    """Operators that Spark is to execute if the delay limit allows, and the reason for each choice."""
    known = trusted_profiles(plan, profiles)
    measured = profiled(plan, known)
    chosen: set[str] = set()
    reasons: dict[str, tuple[str, str]] = {}
    for name, operator in plan.operators.items():
        if operator.engine == "spark":
            chosen.add(name)
            reasons[name] = ("spark", NAMED_BY_PLAN)
        elif operator.engine == "peer" or not has_state(operator) or offer.refuses(plan, name, ()):
            continue
        else:
            engine, why = _weigh(
                measured,
                name,
                offer,
                measured_rate=any(
                    known[above].rate is not None for above in _with_upstream(plan, name) if above in known
                ),
            )
            reasons[name] = engine, why
            if engine == "spark":
                chosen.add(name)
    together = _with_readable(plan, chosen, offer)
    for name in together - chosen:
        reasons[name] = ("spark", "Spark reads the trace itself")
    for name in _between(plan, together, offer):
        together.add(name)
        reasons[name] = ("spark", "it lies between operators on Spark")
    return together, reasons


def _between(plan: Plan, chosen: Collection[str], offer: SparkOffer) -> set[str]:
    """Light operators between operators on Spark, or between light ones like these: at a peer they cost two hops."""
    found = {
        name
        for name, operator in plan.operators.items()
        if name not in chosen and operator.engine == "auto" and operator.inputs and operator.kind != "sink"
    }
    found = {name for name in found if not offer.refuses(plan, name, {*chosen, *found})} if chosen else set()
    while outside := {
        name for name in found if not {*plan.upstream(name), *plan.downstream(name)} <= {*chosen, *found}
    }:
        found -= outside
    return found


def _weigh(plan: Plan, name: str, offer: SparkOffer, *, measured_rate: bool) -> tuple[str, str]:
    """Engine and reason for one operator with state."""
    operator = plan.operators[name]
    window = operator.params.get("window") or plan.window(name) or {}
    length = window.get("length") or window.get("gap") or operator.params.get("within")
    span = f"windows of {format_duration(float(length))}" if length else "its state"
    kept, load, rate = held(plan, name), plan.load(name), plan.input_rate(name)
    state = kept.nbytes * STATE_OVERHEAD
    by = f" at {rate:,.0f} tuples/s, measured" if measured_rate else ""
    much, most = size(state), f"more than the {size(offer.state_bytes)} of a peer"
    tuples = (
        counted(math.ceil(float(f"{kept.tuples:.3g}")), "tuple") if kept.tuples < math.inf else "tuples without end"
    )
    of = f" ({tuples}, as its sources have no more)" if kept.whole else f" ({tuples})"
    needs = counted(load, "core") if load >= _LEAST_LOAD else f"less than {counted(_LEAST_LOAD, 'core')}"
    if (state > offer.state_bytes or load > offer.cores) and kept.basis == Basis.ASSUMED:
        heavy = f"{span} would hold about {much}, {most}" if state > offer.state_bytes else f"it would need {needs}"
        return "peer", (
            f"nothing states how many tuples come: at {rate:,.4g} tuples/s {heavy}; if so many come, state the rate of "
            "the source, or engine spark"
        )
    if state > offer.state_bytes:
        return "spark", f"{span} hold about {much}{of}{by}, {most}"
    if load > offer.cores:
        return "spark", f"it needs {needs}{by}, more than the {offer.cores:.3g} of a peer"
    return "peer", f"{span} hold about {much}{of}{by}, and it needs {needs}: light for a peer"


def _tuples(number: float) -> str:
    return counted(math.ceil(float(f"{number:.3g}")), "tuple") if number < math.inf else "tuples without end"


def _with_readable(plan: Plan, chosen: Iterable[str], offer: SparkOffer) -> set[str]:
    """``chosen`` and all operators upstream of each, if all of these, up to the sources, can go to Spark.

    No other operator may read these, since they become part of the same query.
    """
    together = set(chosen)
    for name in [each for each in plan.operators if each in together]:
        above = _with_upstream(plan, name) - {name}
        if all(each in together or _may_follow(plan, each, above | {name}, offer) for each in above):
            together |= above
    return together


def _may_follow(plan: Plan, name: str, within: set[str], offer: SparkOffer) -> bool:
    inside = set(plan.downstream(name)) <= within
    return plan.operators[name].engine != "peer" and inside and not offer.refuses(plan, name, within)


def _with_upstream(plan: Plan, name: str) -> set[str]:
    """The operator and all operators upstream of it."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(plan.upstream(each))
    return found
