"""Plans whose sources have several readers: each reader is a source of its own, with its share of the partitions.

A source with ``readers: 3`` becomes three sources, ``ID_1`` to ``ID_3``, and a union with its id. So composition,
positions, snapshots, backups, moves and restarts need no special case: a reader is a source like any other, and what
followed the source reads the union.

Which partition is whose follows from its name and the number of readers alone
(:meth:`synergy_nb.dataflow.sources.Source.split`). So readers need not agree, wherever and whenever they are opened.
"""

from __future__ import annotations

from typing import Any

import msgspec

from synergy_nb.plan.checks.validation import Checked, Operator
from synergy_nb.plan.operators.catalogue import parameters_of
from synergy_nb.plan.operators.joins import UNION
from synergy_nb.plan.operators.sources import rate_of, share_text
from synergy_nb.plan.query_plan import Plan

__all__ = ["readers_of", "with_readers_apart"]


def with_readers_apart(plan: Plan) -> Plan:
    """Return the plan with a source for each reader of a source; the plan itself if each source has one reader.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> orders = source("kafka", servers="a:1", topic="orders", columns={"n": "int"}, readers=2, id="orders")
    >>> plan = with_readers_apart(orders.filter("n > 0").sink())
    >>> list(plan.operators), plan.operators["orders_2"].params["share"], plan.rate("orders_2")
    (['orders_1', 'orders_2', 'orders', 'filter', 'sink'], '2 of 2', 500.0)
    >>> readers_of(plan)
    (('orders_1', 'orders_2'),)
    """
    given: Any = plan
    if not isinstance(given, Plan) or not any("readers" in each.params for each in plan.operators.values()):
        return plan  # what is no plan, the check of the submission refuses
    operators: dict[str, Operator] = {}
    of: dict[str, str] = {}  # operator to the one that it was made of
    for name, operator in plan.operators.items():
        made = _apart(plan, operator) if "readers" in operator.params else [operator]
        operators |= {each.id: each for each in made}
        of |= dict.fromkeys((each.id for each in made), name)
    apart = Plan.composed(
        plan.name,
        plan.qos,
        Checked(
            operators,
            {name: plan.schema(of[name]) for name in operators},
            {name: plan.window(of[name]) for name in operators},
        ),
        plan.sizes,
    )
    object.__setattr__(apart, "_rows", plan.rows)
    return apart


def _apart(plan: Plan, operator: Operator) -> list[Operator]:
    """The readers of a source, and the union of them."""
    count = operator.params["readers"]
    known = parameters_of(operator.kind, operator.params)
    readers = []
    for number in range(count):
        name = f"{operator.id}_{number + 1}"
        while name in plan.operators:
            name += "_"
        own = {"share": share_text(number, count), "rate": rate_of(operator.params) / count}
        params = operator.params | own
        # in the order in which they are declared, as in each plan
        params = {each: params[each] for each in known if each in params and each != "readers"}
        readers.append(msgspec.structs.replace(operator, id=name, params=params))
    following = {plan.operators[each].availability for each in plan.downstream(operator.id)}
    asked = [each for each in following if each is not None]
    whole = Operator(
        operator.id,
        UNION.kind,
        {},
        tuple(each.id for each in readers),
        engine=operator.engine,
        # else it would be the only operator without replicas where each other one states its own
        availability=asked[0] if len(asked) == 1 else None,
    )
    return [*readers, whole]


def readers_of(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """The readers of each source that has several, in a plan with readers apart."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name in plan.sources:
        if "share" in plan.operators[name].params:
            found[plan.downstream(name)] = (*found.get(plan.downstream(name), ()), name)
    return tuple(found.values())
