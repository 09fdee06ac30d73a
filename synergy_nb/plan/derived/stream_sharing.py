"""Maximum stream sharing: the running streams that a plan can use, and the reduced plan (section 2.3.3).

Theory of operation
-------------------
Two streams are the same if they have the same canonical name: equal names mean equal work
(:meth:`.Plan.stream_name`). So whether an operator's stream runs is one look-up of a name in the directory, and this
module needs no more than the plan and the answers.

*Points.* The search goes backwards from the sinks and stops at the first operator of each branch whose stream runs:
what is upstream of it runs for that stream already. Sinks are no points, as each application has its own. It goes on
above a point only where another branch needs what is there.

*The reduced plan.* In a *reduced* plan, one operator of kind :data:`TAP` replaces all operators that produce a running
stream. A tap has no inputs and no work of its own; a peer that provides the stream executes it. The tap states the name
and the rate of its stream, as both follow from operators that the reduced plan does not have: so the names, rates and
loads of all operators downstream are those of the whole plan.

*Streams with more rows.* A filter whose stream does not run may read one that contains it
(:mod:`.stream_containment`): the tap has the id of the filter's input, and the filter tests the rest. So may an
aggregate one of finer windows (:mod:`.coarser_windows`).

*Who may share.* A later reader misses the beginning of a stream. So only streams without a beginning are shared unless
users ask for more (:func:`is_live`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from synergy_nb.plan._stream_names import StreamForm
from synergy_nb.plan.checks.validation import Checked, Operator
from synergy_nb.plan.derived.stream_containment import Container
from synergy_nb.plan.derived.stream_signatures import scaled, signature
from synergy_nb.plan.operators.catalogue import TAP
from synergy_nb.plan.operators.sources import is_endless
from synergy_nb.plan.query_plan import Plan

__all__ = ["TAP", "endless_sources", "is_live", "provider", "reduced", "sharable_points", "taps_of"]

Provider = tuple[str, str]
"""Application and operator that provide a stream at a peer."""


def sharable_points(plan: Plan, runs: Callable[[str], bool]) -> tuple[str, ...]:
    """Find the maximum sharable points: the first operators, backwards from the sinks, whose streams run.

    ``runs``: function that returns whether the stream of an operator runs and may be used; it is called as rarely as
    possible.

    Returns: ids of operators; several where branches of the plan each have one. The search continues above a point only
    if another branch needs it.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", rate=5).filter("bytes > 9").project("link").sink()
    >>> sharable_points(plan, {"filter", "project"}.__contains__)
    ('project',)
    """
    points: list[str] = []
    waiting = list(plan.sinks)
    seen = set(waiting)
    for name in waiting:
        if plan.operators[name].kind not in ("sink", TAP) and runs(name):
            # and no further up: what is there runs for this stream already
            # (test_a_query_that_begins_alike_takes_the_stream_where_they_part)
            points.append(name)
            continue
        for up in plan.upstream(name):
            if up not in seen:
                seen.add(up)
                waiting.append(up)
    return tuple(points)


def reduced(
    plan: Plan, points: Mapping[str, Mapping[str, Provider]], within: Mapping[str, Container] = MappingProxyType({})
) -> Plan:
    """Return the part of a plan that remains to be composed when some of its streams run already.

    ``plan``: query plan ξ; it is not changed; ``points``: providers of each operator whose stream is used: address of a
    peer to the application and operator that provide the stream there; ``within``: operator to the stream of which it
    makes its own, in place of an operator whose id the tap has.
    """
    inputs = {container.tap: container for container in within.values()}
    rewritten = {name: operator for container in within.values() for name, operator in container.rewritten.items()}
    needed: set[str] = set()
    waiting = list(plan.sinks)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(() if name in points else rewritten.get(name, plan.operators[name]).inputs)
    operators: dict[str, Operator] = {}
    for name, operator in plan.operators.items():
        if name in points:
            other = inputs.get(name)
            form = plan.stream_form(name) if other is None else other.form
            params: dict[str, Any] = {
                "name": form.name,
                # stated, as the operators from which it follows are not in the reduced plan
                "rate": plan.rate(name) if other is None else other.rate,
                "providers": {address: list(provider) for address, provider in sorted(points[name].items())},
            }
            if form != StreamForm(form.name):  # names of streams that are made of this one need it
                params["form"] = msgspec.to_builtins(form)
            pattern = signature(plan, name)
            pattern = scaled(pattern, params["rate"]) if pattern and other is not None else pattern
            if pattern:
                params["signature"] = [list(segment) for segment in pattern]
            operators[name] = Operator(name, TAP, params, (), 0.0, None, None, "peer")
        elif name in within:
            rate = within[name].rate
            share = min(plan.rate(name) / rate, 1.0) if rate else 1.0
            operators[name] = msgspec.structs.replace(rewritten[name], selectivity=share)
        elif name in needed:
            operators[name] = rewritten.get(name, operator)
    schemas = {name: plan.schema(name) for name in operators}
    windows = {name: plan.window(name) for name in operators}
    for name, container in within.items():
        for each in (container.tap, *container.rewritten) if container.columns is not None else ():
            if each != name:
                schemas[each], windows[each] = dict(container.columns or {}), container.window
    return Plan.composed(plan.name, plan.qos, Checked(operators, schemas, windows), plan.sizes)


def taps_of(plan: Plan) -> tuple[str, ...]:
    """Taps of a reduced plan."""
    return tuple(name for name, operator in plan.operators.items() if operator.kind == TAP)


def provider(operator: Operator, address: str) -> Provider | None:
    """Application and operator that provide the stream of a tap at a peer; None if the peer does not provide it."""
    found = operator.params["providers"].get(address)
    return None if found is None else (found[0], found[1])


def is_live(plan: Plan, operator: str) -> bool:
    """Whether the stream of an operator has no beginning that a later reader would miss.

    A replayed trace, or a number of packets, begins when its application does; measurements of peers and endless
    packets do not.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", rate=5, count=100).filter("bytes > 9").sink()
    >>> is_live(plan, "filter"), is_live(source("packets", rate=5).sink(), "source")
    (False, True)
    """
    node = plan.operators[operator]
    if node.kind == TAP:
        return True
    if node.kind == "source":
        return is_endless(node.params)
    return all(is_live(plan, up) for up in plan.upstream(operator))


def endless_sources(plan: Plan, operator: str) -> tuple[str, ...]:
    """Sources of an operator's stream that never end by themselves.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> endless_sources(source("packets", rate=5).sink(), "sink")
    ('source',)
    """
    before, waiting = {operator}, [operator]
    while waiting:
        new = set(plan.upstream(waiting.pop())) - before
        before |= new
        waiting += new
    return tuple(each for each in plan.sources if each in before and is_endless(plan.operators[each].params))
