"""The two plans by which another plan takes the place of one that runs, in the same application.

While the new plan catches up, the application executes both (:attr:`Transitions.both`): all operators of the old one,
which go on as they are, and those of the new one that begin anew. Each sink whose stream is another one in the new plan
reads both streams, and gives the rows of the old one, until it is told from which event time on those of the new one
are complete, and both are later (:class:`synergy_nb.dataflow.operators.sinks.Sink`). Then the application executes the
new plan alone (:attr:`Transitions.new`), whose sinks go on from where they were.

Operators that go on keep the ids that they have in the old plan. One that begins anew gets another id if the old plan
has, or ever had, an operator with that of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from synergy_nb.plan.checks.validation import Checked, Operator, PlanError, Problem, Switch, Transition, check_graph
from synergy_nb.plan.derived.plan_changes import change_of
from synergy_nb.plan.derived.repeatable_results import results_name
from synergy_nb.plan.query_plan import Plan

__all__ = ["Transitions", "transitions"]


class Transitions(NamedTuple):
    """The plans that an application executes while another plan takes the place of its own, and after that."""

    both: Plan
    new: Plan
    number: int  # number of the change


def transitions(application: str, old: Plan, new: Plan, number: int, taken: Collection[str] = ()) -> Transitions:
    """Return the two plans.

    ``application``: its id; ``number``: number of the change, from 1; ``taken``: ids that an operator of the
    application has had.

    Raises ``PlanError`` if the new plan cannot take the place of the old one.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> large = source("packets", id="s").filter("bytes > 9", id="large")
    >>> old, new = large.count(window="1 s", id="n").sink(id="out"), large.count(window="2 s", id="n").sink(id="out")
    >>> found = transitions("app", old, new, 1)
    >>> list(found.both.operators), found.both.operators["out"].inputs
    (['s', 'large', 'n', 'n_2', 'out'], ('n', 'n_2'))
    >>> list(found.new.operators), found.both.transition.joined
    (['s', 'large', 'n_2', 'out'], ('n_2', 'out'))
    """
    change = change_of(old, new, durable=True)
    ids = _ids(new, change.kept, {*old.operators, *taken})
    started: dict[str, Operator] = {}  # operators that begin anew, by their new ids
    used: dict[str, Operator] = {}  # all that the new plan needs, by their new ids
    waiting = [up for sink in new.sinks for up in new.upstream(sink)]
    schemas = {name: old.schema(name) for name in old.operators}
    windows = {name: old.window(name) for name in old.operators}
    while waiting:
        name = waiting.pop()
        here = ids[name]
        if here in used:
            continue
        if name in change.kept:
            used |= _with_all_before(old, here)
            continue
        inputs = tuple(ids[up] for up in new.upstream(name))
        used[here] = started[here] = msgspec.structs.replace(new.operators[name], id=here, inputs=inputs)
        schemas[here], windows[here] = new.schema(name), new.window(name)
        waiting += new.upstream(name)
    sinks = {sink: ids[new.upstream(sink)[0]] for sink in new.sinks}
    changed = [sink for sink, up in sinks.items() if old.upstream(sink) != (up,)]
    during, after = dict(old.transition.switches), dict(old.transition.switches)
    both, rest = dict(old.operators), {name: used[name] for name in used if name not in new.sinks}
    both |= started
    for sink in new.sinks:
        if sink not in changed:
            rest[sink] = old.operators[sink]
            continue
        had = old.transition.switches.get(sink)
        stream, former = results_name(old, sink, application), () if had is None else had.former
        own = 0 if had is None else had.inputs[0]
        inputs = (*old.upstream(sink), sinks[sink])
        during[sink] = Switch(number, (own, number), stream, former, change.settles, change.period)
        after[sink] = Switch(
            number, (number,), f"{new.stream_name(sink)} of {application}", tuple(dict.fromkeys((stream, *former)))
        )
        both[sink] = msgspec.structs.replace(old.operators[sink], inputs=inputs)
        rest[sink] = msgspec.structs.replace(new.operators[sink], inputs=(sinks[sink],), at=old.operators[sink].at)
    begun = (*old.transition.joined, *started, *changed)

    def made(operators: dict[str, Operator], switches: dict[str, Switch], given: Plan) -> Plan:
        """The plan of some operators, whose sinks give what those of another plan give."""
        joined = tuple(dict.fromkeys(name for name in begun if name in operators))
        how = Transition({name: each for name, each in switches.items() if name in operators}, joined)
        problems: list[Problem] = []
        graph = check_graph([*operators.values()], problems, how)
        if graph is None or problems:
            raise PlanError(problems)
        order = graph[2]
        spans = {name: given.window(name) if name in given.sinks else windows[name] for name in order}
        checked = Checked({name: operators[name] for name in order}, {name: schemas[name] for name in order}, spans)
        return Plan.composed(new.name, new.qos, checked, {**new.sizes, **old.sizes}, how)

    return Transitions(made(both, during, old), made(rest, after, new), number)


def _with_all_before(plan: Plan, operator: str) -> dict[str, Operator]:
    """An operator and all that is upstream of it."""
    found: dict[str, Operator] = {}
    waiting = [operator]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = plan.operators[name]
            waiting += plan.upstream(name)
    return found


def _ids(new: Plan, kept: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """The id of each operator of the new plan in the application."""
    known, found = set(taken), dict[str, str]()
    for name, operator in new.operators.items():
        if operator.kind == "sink":
            found[name] = name
            continue
        found[name] = kept[name] if name in kept else _free(name, known)
        known.add(found[name])
    return found


def _free(name: str, known: Collection[str]) -> str:
    """An id like this one that is not in use."""
    number, found = 1, name
    while found in known:
        number += 1
        found = f"{name}_{number}"
    return found
