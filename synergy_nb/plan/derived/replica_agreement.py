"""Which operators of a plan have active replicas that agree, which of them sort their inputs first, and why.

Replicas agree if they emit the same tuples between two punctuations, in any order: then the duplicate filters of their
readers pass each tuple once (Hwang et al. [1]_, section IV). Replicas of an operator that needs an order read their
inputs sorted by punctuations, and then agree as well; a tuple waits there for the next punctuation. No other operator
sorts, except a sink whose plan states the order of its results. Nor does one that reads a single stream: its replicas
all read that in the order of the producer.

An operator with backups that reads active replicas sorts, too: what it emitted has to be what its backup will emit,
even if one of the streams that it had read is lost together with its peer.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from synergy_nb.plan.checks.replica_degrees import asks_for_active, degrees, is_replicable, read_twice_problem
from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import KINDS, TAP
from synergy_nb.plan.query_plan import Plan

__all__ = ["Agreement", "agreement", "agreement_text", "agreements", "readings", "stated_order"]

_REPEATED: Final = "its backup has to repeat it, even if a stream that it has read is lost"
_ONE_STREAM: Final = "its input is a single stream, which all of its replicas read in the same order"


class Agreement(NamedTuple):
    """How the active replicas of an operator agree."""

    # operator, kind: id and kind of the operator
    operator: str
    kind: str
    sorts: bool  # whether its replicas sort their inputs: each tuple then waits for the next punctuation
    # columns by which they order tuples of equal time before all others, each with whether it descends
    order: tuple[tuple[str, bool], ...]
    why: str  # reason why it need not sort, or why it must
    alone: bool = False  # whether it has no active replicas, but backups, and reads active replicas

    def __str__(self) -> str:
        """Return a sentence for people."""
        if self.kind == "sink" or self.alone:
            return (
                f"{self.operator} ({self.kind}): it {'sorts its input' if self.sorts else 'does not sort'}: {self.why}"
            )
        does = "sort their input" if self.sorts else "agree without a sort"
        return f"{self.operator} ({self.kind}): its replicas {does}: {self.why}"


def agreement(plan: Plan, operator: str) -> Agreement:
    """Return how the active replicas of an operator of a plan agree.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets").filter("bytes > 9").sample("10 %").sink()
    >>> print(agreement(plan, "filter"))
    filter (filter): its replicas agree without a sort: it processes each tuple alone
    >>> print(agreement(plan, "sample"))
    sample (sample): its replicas sort their input: it selects tuples by their positions
    """
    node = plan.operators[operator]
    order = stated_order(plan, node.inputs[0]) if node.inputs else ()
    if node.kind == "sink" and order:
        return Agreement(operator, node.kind, True, order, "the plan states the order of its results")
    active = _is_active(plan, operator)
    if not active and degrees(node, plan.qos).passive > 1 and any(_is_active(plan, up) for up in node.inputs):
        return Agreement(operator, node.kind, True, order, _REPEATED, True)
    agree, why = KINDS[node.kind].replicas(node.params)
    if agree:
        return Agreement(operator, node.kind, False, (), why)
    if len(node.inputs) == 1 and not _is_active(plan, node.inputs[0]):
        return Agreement(operator, node.kind, False, (), _ONE_STREAM)
    return Agreement(operator, node.kind, True, order, why)


def agreements(plan: Plan) -> dict[str, Agreement]:
    """Return how the active replicas of each operator agree, before or after a plan is expanded by its replicas.

    Of operators without active replicas, it contains those that sort, and sinks.
    """
    found = {
        name: agreement(plan, name) for name, node in plan.operators.items() if node.inputs and not node.replica_of
    }
    return {name: each for name, each in found.items() if each.sorts or each.kind == "sink" or _is_active(plan, name)}


def readings(plan: Plan) -> dict[str, str]:
    """Return each source to a sentence about the peers that read it, before a plan is expanded by its replicas.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> for asked in ("active 3", None):
    ...     plan = source("packets", id="s", availability=asked).filter("bytes > 9").sink(availability="active 3")
    ...     print(readings(plan)["s"])
    s (source): 3 peers read it: order and event times follow from what they read
    s (source): one peer reads it, and results stop with that peer; availability='active 3' at the source has 3 read it
    >>> print(readings(source("socket", address="a:1", columns={"v": "int"}, id="s").sink())["s"])
    s (source): one peer reads it: a server sends what it sends once, to whoever is connected
    """
    found = {}
    for name in plan.sources:
        node, of = plan.operators[name], degrees(plan.operators[name], plan.qos)
        if of.active > 1:
            how = f"{of.active} peers read it: order and event times follow from what they read"
        elif problem := read_twice_problem(node.params):
            how = f"one peer reads it: {problem}"
        elif of.passive > 1:
            how = "one peer reads it; results pause when that peer dies, until its backup goes on"
        else:
            most = max((degrees(each, plan.qos).active for each in plan.operators.values()), default=1)
            asked = f"availability='active {max(most, 2)}' at the source has {max(most, 2)} read it"
            how = f"one peer reads it, and results stop with that peer; {asked}"
        found[name] = f"{name} ({node.kind}): {how}"
    return found


def agreement_text(plan: Plan) -> str:
    """Return a line for each operator of a plan about the agreement of its active replicas."""
    return "\n".join(map(str, agreements(plan).values()))


def _is_active(plan: Plan, operator: str) -> bool:
    """Whether an operator has active replicas; in a plan that asks for none, whether it could have some."""
    node = plan.operators[operator]
    if not asks_for_active(plan.operators.values(), plan.qos):
        return is_replicable(node)
    return degrees(node, plan.qos).active > 1


def stated_order(plan: Plan, operator: str) -> tuple[tuple[str, bool], ...]:
    """Return the columns by which the plan has the tuples of a stream sorted, each with whether it descends.

    Replicas that sort their inputs retain that order, so the first tuple of a sorted window is still the first.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> sums = source("packets").aggregate(by="link", window="1 s", total="sum(bytes)")
    >>> plan = sums.sort("total desc").filter("total > 0").distinct("link").sink()
    >>> stated_order(plan, "filter")
    (('window_start', False), ('total', True))
    """
    node = plan.operators[operator]
    if node.kind in ("sort", "top"):
        if (node.params.get("window") or {}).get("kind") == "count":  # such windows may overlap in time
            return ()
        names = plan.schema(operator)
        keys = [(key, False) if key in names else (key.removesuffix(" desc"), True) for key in node.params["by"]]
        return tuple(
            dict([("window_start", False), *(key for key in keys if key[0] not in ("time", "window_end"))]).items()
        )
    if node.kind == TAP or not KINDS[node.kind].preserves_order:  # of a stream of others no order is known
        return ()
    order = stated_order(plan, node.inputs[0])
    for number, (name, _) in enumerate(order):
        if not _is_retained(node, name):
            return order[:number]
    return order


def _is_retained(node: Operator, name: str) -> bool:
    """Whether an operator that preserves the order passes on the values of a column of its input."""
    if node.kind == "project":
        return name in ("window_start", "window_end") or node.params["columns"].get(name) == name
    return node.kind not in ("encrypt", "decrypt") or name not in node.params["columns"]
