"""Plans with parts on Spark: each connected part becomes one operator of the composed plan.

A part is executed as one streaming query and has one result, so parts are cones without fan-out: an operator on Spark
belongs to the part of its reader if all its readers are in that part, and is the exit of a part of its own otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.plan.checks.replica_degrees import degrees
from synergy_nb.plan.checks.validation import Checked, Operator
from synergy_nb.plan.operators.catalogue import KINDS, PART
from synergy_nb.plan.operators.sources import pace_of
from synergy_nb.plan.query_plan import Plan, part_of

__all__ = [
    "PART",
    "SPARK_COSTS",
    "Profile",
    "cones",
    "expanded",
    "has_state",
    "pace",
    "paced",
    "part_of",
    "parts_of",
    "profiled",
    "replace_parts",
    "spark_load",
    "trusted_profiles",
    "works_of",
]

#: Core-seconds per tuple on Spark, measured on one machine of two cores: for operators with state (sums in windows by
#: key: 2 cores process about 400,000 tuples/s), and for others (2 million tuples/s).
SPARK_COSTS: Final[Mapping[bool, float]] = {True: 5e-6, False: 1e-6}


def has_state(operator: Operator) -> bool:
    """Whether an operator retains state for later results."""
    return operator.kind in KINDS and KINDS[operator.kind].state not in ("", "table")


def works_of(operator: Operator) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield what an operator does, as (id, kind, parameters): also what it makes, and each operator of a part."""
    if operator.kind == PART:
        inner = Plan.from_bytes(operator.params["plan"])
        for member in operator.params["members"]:
            yield from works_of(inner.operators[member])
        return
    yield operator.id, operator.kind, operator.params
    if operator.makes is not None:
        yield operator.id, operator.makes.kind, operator.makes.params


def cones(plan: Plan, on_spark: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Find the parts of a plan: exit to all operators of the part, in the order of the plan.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> packets = source("packets", duration="1 s", speed=0)
    >>> plan = packets.filter("bytes > 9").aggregate("link", "1 min", n="count(*)").sort("n").sink()
    >>> cones(plan, {"filter", "aggregate"})
    {'aggregate': ('filter', 'aggregate')}
    """
    exits: dict[str, str] = {}
    for operator in reversed(plan.operators):
        if operator not in on_spark:
            continue
        readers = {exits.get(down) for down in plan.downstream(operator)}
        only = readers.pop() if len(readers) == 1 else None
        exits[operator] = operator if only is None else only
    found: dict[str, list[str]] = {}
    for operator in plan.operators:
        if operator in exits:
            found.setdefault(exits[operator], []).append(operator)
    return {end: tuple(members) for end, members in found.items()}


def replace_parts(plan: Plan, on_spark: Collection[str], latency: float) -> Plan:
    """Replace each part on Spark by one operator of kind ``spark``, which has the id of the part's exit.

    ``plan``: query plan ξ; it is not changed; ``on_spark``: ids of the operators that Spark executes; ``latency``: time
    of a micro-batch, seconds. A part delays its results by one, and by two if it holds state: windows that close in a
    micro-batch are emitted with the next.
    """
    parts = cones(plan, on_spark)
    absorbed = {member for members in parts.values() for member in members}
    operators: dict[str, Operator] = {}
    for name, operator in plan.operators.items():
        if name in parts:
            members = parts[name]
            inputs = dict.fromkeys(up for each in members for up in plan.upstream(each) if up not in members)
            batches = 2 if any(has_state(plan.operators[each]) for each in members) else 1
            params: dict[str, Any] = {
                "plan": plan.to_bytes(),
                "members": list(members),
                "load": sum(spark_load(plan, each) for each in members),
                "batches": batches,
            }
            at = next((plan.operators[each].at for each in members if plan.operators[each].at is not None), None)
            own = [plan.operators[each] for each in members if plan.operators[each].availability is not None]
            most = max((degrees(plan.operators[each], plan.qos).passive for each in members), default=1)
            backups = f"degree {most}" if own else None
            operators[name] = Operator(name, PART, params, tuple(inputs), batches * latency, None, at, "spark", backups)
        elif name not in absorbed:
            operators[name] = operator
    order = [name for name in plan.operators if name in operators]
    return Plan.composed(
        plan.name,
        plan.qos,
        Checked(
            {name: operators[name] for name in order},
            {name: plan.schema(name) for name in order},
            {name: plan.window(name) for name in order},
        ),
        plan.sizes,
    )


def parts_of(plan: Plan) -> dict[str, list[str]]:
    """Parts of a placed plan: id of the ``spark`` operator to the ids of the operators within it."""
    return {name: list(part_of(each)[1]) for name, each in plan.operators.items() if each.kind == PART}


def expanded(plan: Plan, peers: Mapping[str, str]) -> dict[str, str]:
    """Component graph λ by the operators of the submitted plan, with parts on Spark expanded: id to address."""
    members = {each: name for name, inside in parts_of(plan).items() for each in inside}
    return {**{each: peers[name] for each, name in members.items() if name in peers}, **peers}


class Profile(msgspec.Struct, frozen=True):
    """Measurements of an operator on any peer; None: not measured."""

    rate: float | None = None  # rate of the stream, tuples/s
    cost: float | None = None  # core-seconds per input tuple
    selectivity: float | None = None  # tuples out over tuples in
    # seconds and tuples/s of the segments of its stream, see `synergy_nb.plan.derived.stream_signatures`
    signature: tuple[tuple[float, float], ...] | None = None


_UNKNOWN: Final = Profile()


def pace(plan: Plan, operator: str) -> float:
    """Seconds of event time per second at an operator, for the slowest of its sources.

    It is 0 where a source has no pace: its readers determine the rate of a source that is read as fast as possible, and
    a notebook determines the rate of pushed rows. It is infinite where it is unknown: the sources of a shared stream
    are in another plan.

    >>> from synergy_nb.plan import source
    >>> [pace(source("packets", speed=speed).filter("bytes > 9").sink(), "filter") for speed in (0, 1, 60)]
    [0.0, 1.0, 60.0]
    """
    slowest = math.inf
    waiting, seen = [operator], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        node = plan.operators[name]
        if node.kind == "source":
            slowest = min(slowest, pace_of(node.params))
        if node.kind == PART:
            inner, members = part_of(node)
            slowest = min((slowest, *(pace(inner, each) for each in members if not inner.upstream(each))))
        waiting.extend(node.inputs)
    return slowest


def paced(plan: Plan, operator: str) -> bool:
    """Whether the sources of an operator set the pace, so that a rate measured now predicts the next run.

    A source without a pace (:func:`pace`) has no rate of its own: backpressure slows it to the available capacity.
    """
    return pace(plan, operator) > 0.0


def trusted_profiles(plan: Plan, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Select the measured profiles that admission relies on, by the plan's operators.

    A cost or a selectivity is a property of the operator. A rate or a signature is a property of the stream, and counts
    only if the stream has a pace (:func:`paced`): the rate of an unthrottled replay predicts nothing.

    ``profiles``: measured cost, selectivity and rate of operators, by the names of their work.
    """
    known: dict[str, Profile] = {}
    for name in plan.operators:
        measured = profiles.get(plan.work_name(name))
        if measured is not None:
            unpaced = msgspec.structs.replace(measured, rate=None, signature=None)
            known[name] = measured if paced(plan, name) else unpaced
    return known


def profiled(plan: Plan, profiles: Mapping[str, Profile]) -> Plan:
    """Return the plan with the measured profiles of its operators, given by id.

    Measured rates and selectivities replace those that the plan states or the catalogue assumes. A cost that the plan
    states remains, as its author asks peers to reserve it; other operators get the measured cost.

    >>> from synergy_nb.plan import source
    >>> plan = source("trace", path="a", format="http").filter("operation = 'GET'").sink()
    >>> measured = profiled(plan, {"source": Profile(rate=40.0), "filter": Profile(rate=30.0, cost=2e-5)})
    >>> measured.rate("sink"), measured.processing_time("filter")
    (30.0, 2e-05)
    """
    if not profiles:
        return plan
    given: dict[str, float] = {}
    operators: dict[str, Operator] = {}
    for name, operator in plan.operators.items():
        known = profiles.get(name, _UNKNOWN)
        taken = sum(given[up] for up in operator.inputs)
        changed = operator
        if operator.inputs and operator.kind != "sink":  # a sink's stream has the name of its input
            share = known.rate / taken if known.rate is not None and taken > 0.0 else known.selectivity
            changed = msgspec.structs.replace(
                operator,
                selectivity=operator.selectivity if share is None else share,
                cost=operator.cost if operator.cost is not None else known.cost,
            )
        elif not operator.inputs:
            measured = {"rate": known.rate if operator.kind == "source" else None, "signature": _listed(known)}
            stated = {field: value for field, value in measured.items() if value is not None}
            if stated:
                changed = msgspec.structs.replace(operator, params={**operator.params, **stated})
        operators[name] = changed
        if operator.inputs:
            share = changed.selectivity
            given[name] = taken * (plan.selectivity(name) if share is None else share)
        else:
            alone = Checked({name: changed}, {name: plan.schema(name)}, {name: plan.window(name)})
            given[name] = Plan.composed(plan.name, plan.qos, alone, plan.sizes).rate(name)
    return Plan.composed(
        plan.name,
        plan.qos,
        Checked(operators, {name: plan.schema(name) for name in operators}, {n: plan.window(n) for n in operators}),
        plan.sizes,
    )


def _listed(known: Profile) -> list[list[float]] | None:
    return None if known.signature is None else [list(segment) for segment in known.signature]


def spark_load(plan: Plan, operator: str) -> float:
    """Cores that Spark needs for an operator, by its profiled cost if the plan states one."""
    node = plan.operators[operator]
    cost = node.cost if node.cost is not None else SPARK_COSTS[has_state(node)]
    return plan.input_rate(operator) * cost
