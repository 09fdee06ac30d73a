"""Plans with active replicas: each replica of an operator is an operator of its own (Hwang et al., ICDE 2008, II-B).

The replicas of an operator have the same kind and parameters. Each reads all replicas of each of its inputs, and uses
each tuple from whichever of them delivers it first. So there are k² streams between two operators of k replicas, and k
between an operator and a sink: sinks are not replicated, nor are operators that are pinned to a peer. Sources are if
they ask for it themselves; the replicas are the entry points of section II-B. Those of the paper send each other what
came to one of them, and stamp it. Here each reads the same for itself, and order and event times follow from what it
reads, so that a row has the same stamp whoever reads it. Between a source that does not ask and an operator there are k
streams.

So admission, projection, migration and measurement need no special case: they treat a replica as any other operator.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from synergy_nb.plan.checks.replica_degrees import Degrees, degrees, is_replicable
from synergy_nb.plan.checks.validation import Checked, Operator
from synergy_nb.plan.query_plan import Plan

__all__ = ["degrees_of", "least_degree", "original", "replica_id", "replicas_of", "replicated"]

_MARK = "~"  # between the id of an operator and the number of a replica; no id of a submitted plan has it


def replica_id(operator: str, number: int) -> str:
    """Id of a replica of an operator; the first one, number 0, has the operator's own id.

    >>> replica_id("join", 0), replica_id("join", 2), original("join~2")
    ('join', 'join~2', 'join')
    """
    return f"{operator}{_MARK}{number}" if number else operator


def original(operator: str) -> str:
    """Id, in the submitted plan, of an operator of an expanded plan: ``join`` for ``join~2`` and for ``join``."""
    return operator.partition(_MARK)[0]


def degrees_of(plan: Plan) -> dict[str, Degrees]:
    """Return each operator of a plan to the replicas that it is to have.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> readings = source("packets").filter("bytes > 9").aggregate("link", "1 s", n="count(*)", availability="degree 2")
    >>> {name: tuple(each) for name, each in degrees_of(readings.sink(availability="active 3")).items()}
    {'source': (1, 1), 'filter': (3, 1), 'aggregate': (1, 2), 'sink': (1, 1)}
    >>> degrees_of(source("packets", availability="active 2").sink())["source"].active
    2
    """
    return {name: degrees(operator, plan.qos) for name, operator in plan.operators.items()}


def least_degree(plan: Plan) -> int:
    """Return the least number of active replicas that a plan requires of an operator that is to have some; 1: none."""
    return min((each.active for each in degrees_of(plan).values() if each.active > 1), default=1)


def replicated(plan: Plan, degree: int | Mapping[str, int]) -> Plan:
    """Expand a plan by active replicas.

    ``plan``: query plan ξ; it is not changed; ``degree``: number of replicas of each operator, or id of an operator to
    its number; one that is left out has one.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", seed=1).filter("bytes > 9").project("bytes").sink()
    >>> expanded = replicated(plan, 2)
    >>> list(expanded.operators)
    ['source', 'filter', 'filter~1', 'project', 'project~1', 'sink']
    >>> expanded.operators["project~1"].inputs, expanded.operators["project~1"].ports
    (('filter', 'filter~1'), (0, 0))
    """
    operators: dict[str, Operator] = {}
    replicas: dict[str, tuple[str, ...]] = {}
    for name, operator in plan.operators.items():
        wanted = degree if isinstance(degree, int) else degree.get(name, 1)
        count = wanted if is_replicable(operator) else 1
        replicas[name] = tuple(replica_id(name, number) for number in range(count))
        inputs = [(each, port) for port, up in enumerate(operator.inputs) for each in replicas[up]]
        ports = tuple(port for _, port in inputs) if len(inputs) > len(operator.inputs) else ()
        for number, replica in enumerate(replicas[name]):
            operators[replica] = msgspec.structs.replace(
                operator,
                id=replica,
                inputs=tuple(each for each, _ in inputs),
                ports=ports,
                replica_of=name if number else "",
            )
    return Plan.composed(
        plan.name,
        plan.qos,
        Checked(
            operators,
            {each: plan.schema(name) for name in plan.operators for each in replicas[name]},
            {each: plan.window(name) for name in plan.operators for each in replicas[name]},
        ),
        {each: size for name, size in plan.sizes.items() for each in replicas[name]},
    )


def replicas_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Id of each operator with several active replicas in an expanded plan to the ids of its replicas."""
    found: dict[str, tuple[str, ...]] = {}
    for name, operator in plan.operators.items():
        if operator.replica_of:
            found[operator.replica_of] = (*found.get(operator.replica_of, (operator.replica_of,)), name)
    return found
