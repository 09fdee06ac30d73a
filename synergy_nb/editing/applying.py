"""Application of operations to the text of a plan, one after the other.

>>> done = apply("operators: {a: {kind: source, connector: packets}}  # mine\\n", [
...     Add(kind="filter", operator="b", fields={"where": "bytes > 40"}, inputs=["a"]), Rename(operator="a", to="c")])
>>> print(done.text, end="")
operators: {c: {kind: source, connector: packets}, b: {kind: filter, input: c, where: bytes > 40}}  # mine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import msgspec
import yaml

from synergy_nb.editing.operations import (
    Add,
    Connect,
    Disconnect,
    EditError,
    Insert,
    Name,
    Operation,
    Paste,
    Qos,
    Remove,
    Rename,
    Set,
)
from synergy_nb.editing.plan_text import PlanText, stated_value
from synergy_nb.plan.catalogue import KINDS, parameters_of
from synergy_nb.plan.naming import ID, is_id, suggested_id
from synergy_nb.plan.operators.sources import CONNECTORS
from synergy_nb.plan.plan_file import dump
from synergy_nb.plan.units import WrongValue, WrongValues, nearest
from synergy_nb.plan.validation import Problem

__all__ = ["Applied", "apply", "copied"]


class Applied(NamedTuple):
    """The result of operations.

    Parameters
    ----------
    text
        Text of the plan.
    problems
        Problem of each operation that was left out.
    ids
        Wanted id to given id, where these differ.
    """

    text: str
    problems: list[Problem]
    ids: dict[str, str]


def apply(text: str, operations: Sequence[Operation]) -> Applied:
    """Apply operations one after the other; one that cannot be applied is left out, with its problem."""
    ids: dict[str, str] = {}
    problems: list[Problem] = []
    try:
        plan = PlanText(text)
    except (yaml.YAMLError, WrongValue) as error:
        expected = "YAML that can be read; correct the text first, or undo"
        said = " ".join(str(error).split())[:200]
        return Applied(text, [Problem("", "text", said, expected) for _ in operations[:1]], ids)
    changed = False
    for operation in operations:
        try:
            after = _do(operation, _Draft(plan, ids))
        except WrongValues as wrong:
            problems += [_problem(operation, each) for each in wrong.wrongs]
            continue
        except RecursionError:
            deep = WrongValue(type(operation).__name__.lower(), "values that are not nested as deeply")
            problems.append(_problem(operation, deep))
            continue
        changed = changed or after.text != plan.text
        plan = after
    return Applied(plan.text if changed else text, problems, ids)


def _problem(operation: Operation, wrong: WrongValue) -> Problem:
    stated = msgspec.structs.asdict(operation)
    name = str(stated.get("operator") or stated.get("end") or "")
    field = wrong.field or (f"qos.{operation.field}" if isinstance(operation, Qos) else str(stated.get("field", "")))
    return Problem(name, field or type(operation).__name__.lower(), wrong.value, wrong.expected, wrong.nearest)


def copied(text: str, operators: Sequence[str]) -> str:
    """Text of some operators, which :class:`Paste` adds to another plan.

    Raises
    ------
    EditError
        If the text cannot be read, or there is no such operator.
    """
    try:
        plan = PlanText(text)
        for name in operators:
            plan.fields(name)
    except (yaml.YAMLError, WrongValue) as error:
        raise EditError([Problem("", "operators", list(operators), f"operators of the plan ({error})")]) from None
    wanted = set(operators)
    entries = []
    for name, place in plan.operators.items():
        if name in wanted:
            fields = {field: value for field, value in (place.fields or {}).items() if field != "id"}
            entries.append(f"  {dump(name)}: {dump(fields)}\n")
    return "operators:\n" + "".join(entries)


# -- one by one ------------------------------------------------------------------------------------------------------


class _Draft(NamedTuple):
    """The text so far, and the ids that were given instead of those that were wanted."""

    plan: PlanText
    ids: dict[str, str]


@singledispatch
def _do(operation: Operation, _draft: _Draft) -> PlanText:
    """Apply one operation to a draft."""
    expected = "an operation of synergy_nb.editing.operations"
    raise WrongValue(type(operation).__name__, expected)


def _free(wanted: str, draft: _Draft) -> str:
    """The wanted id, numbered as the builder does if it is taken."""
    if not is_id(wanted):
        raise WrongValue(wanted, ID, suggested_id(wanted, draft.plan.operators), "id")
    given, number = wanted, 1
    while given in draft.plan.operators:
        number += 1
        given = f"{wanted}_{number}"
    if given != wanted:
        draft.ids[wanted] = given
    return given


def _spec(kind: str, fields: Mapping[str, Any], inputs: Sequence[str], plan: PlanText) -> dict[str, Any]:
    if not kind:
        raise WrongValue(kind, f"one of {', '.join(KINDS)}", None, "kind")
    for up in inputs:
        _stream(plan, up, "inputs")
    spec: dict[str, Any] = {"kind": kind}
    if inputs:
        spec["input" if len(inputs) == 1 else "inputs"] = inputs[0] if len(inputs) == 1 else list(inputs)
    for field, value in fields.items():
        if field not in ("kind", "input", "inputs", "id") and value is not None:
            spec[field] = stated_value(value)[0]
    return spec


def _stream(plan: PlanText, name: str, field: str) -> None:
    if name not in plan.operators:
        others = list(plan.operators)
        raise WrongValue(
            name, f"an operator of the plan ({', '.join(others) or 'it has none'})", nearest(name, others), field
        )


@_do.register
def _(operation: Add, draft: _Draft) -> PlanText:
    plan = draft.plan
    name = _free(operation.operator or operation.kind, draft)
    spec = _spec(operation.kind, operation.fields, operation.inputs, plan)
    order = list(plan.operators)
    after = max(operation.inputs, key=order.index) if operation.inputs else None
    return _raw(plan.add(name, spec, after), name, operation.fields)


@_do.register
def _(operation: Insert, draft: _Draft) -> PlanText:
    plan = draft.plan
    edge = operation.between
    number = _edge(plan, edge.start, edge.end, edge.port)
    name = _free(operation.operator or operation.kind, draft)
    spec = _spec(operation.kind, operation.fields, [edge.start, *operation.inputs], plan)
    inputs = list(plan.operators[edge.end].streams)
    inputs[number] = name
    return _raw(plan.add(name, spec, edge.start), name, operation.fields).set_inputs(edge.end, inputs)


def _raw(plan: PlanText, name: str, fields: Mapping[str, Any]) -> PlanText:
    """Write fields of a new operator as they were typed, if that is another spelling."""
    for field, given in fields.items():
        value, raw = stated_value(given)
        if raw is not None and field in plan.fields(name) and not isinstance(value, str):
            plan = plan.set(name, field, value, raw)
    return plan


@_do.register
def _(operation: Remove, draft: _Draft) -> PlanText:
    plan = draft.plan
    name = operation.operator
    ups = plan.operators[name].streams if name in plan.operators else []
    readers = [each for each in plan.readers(name) if each != name]
    after = plan.remove(name)
    for reader in readers:
        before = after.operators[reader].streams
        heir = [ups[0]] if len(ups) == 1 and ups[0] not in before and ups[0] != reader else []
        inputs: list[str] = []
        for each in before:
            inputs += [each] if each != name else [up for up in heir if up not in inputs]
        after = after.set_inputs(reader, inputs)
    return after


@_do.register
def _(operation: Connect, draft: _Draft) -> PlanText:
    plan = draft.plan
    start, end, port = operation.start, operation.end, operation.port
    _stream(plan, start, "from")
    fields = plan.fields(end)
    if start == end:
        raise WrongValue(start, "another operator than the one that reads it", None, "from")
    if fields.get("kind") == "source":
        raise WrongValue(end, "an operator other than a source, which reads nothing", None, "to")
    if plan.fields(start).get("kind") == "sink":
        raise WrongValue(start, "an operator other than a sink, which has no output", None, "from")
    inputs = list(plan.operators[end].streams)
    most = KINDS[fields["kind"]].inputs[1] if fields.get("kind") in KINDS else None
    if port is None and start not in inputs and most is not None and 0 < most <= len(inputs):
        port = len(inputs) - 1  # there is no free one
    if start in inputs and (port is None or inputs[port : port + 1] == [start]):
        return plan
    if port is not None and 0 <= port < len(inputs):
        inputs[port] = start
    else:
        inputs.append(start)
    return plan.set_inputs(end, inputs)


def _edge(plan: PlanText, start: str, end: str, port: int | None) -> int:
    """Number of the input of ``end`` that reads ``start``."""
    _stream(plan, start, "from")
    _stream(plan, end, "to")
    inputs = plan.operators[end].streams
    if port is not None and inputs[port : port + 1] == [start]:
        return port
    if start not in inputs:
        raise WrongValue(start, f"an input of {end} ({', '.join(inputs) or 'it has none'})", None, "from")
    return inputs.index(start)


@_do.register
def _(operation: Disconnect, draft: _Draft) -> PlanText:
    plan = draft.plan
    number = _edge(plan, operation.start, operation.end, operation.port)
    inputs = list(plan.operators[operation.end].streams)
    del inputs[number]
    return plan.set_inputs(operation.end, inputs)


@_do.register
def _(operation: Rename, draft: _Draft) -> PlanText:
    plan = draft.plan
    name, to = operation.operator, operation.to
    plan.fields(name)
    if name == to:
        return plan
    if not is_id(to):
        raise WrongValue(to, ID, suggested_id(to, plan.operators), "id")
    if to in plan.operators:
        raise WrongValue(to, "an id that no other operator has", None, "id")
    readers = plan.readers(name)
    after = plan.rename(name, to)
    for reader in readers:
        own = to if reader == name else reader
        after = after.set_inputs(own, [to if each == name else each for each in after.operators[own].streams])
    return after


@_do.register
def _(operation: Set, draft: _Draft) -> PlanText:
    plan = draft.plan
    fields = plan.fields(operation.operator)
    if not operation.field or operation.field in ("id", "input", "inputs"):
        raise WrongValue(operation.field, "a field of the operator other than id, input and inputs", None, "field")
    value, raw = stated_value(operation.value)
    after = plan.set(operation.operator, operation.field, value, raw)
    if operation.field == "connector" and value != fields.get("connector"):  # fields of another connector go
        after = _without_others(after, operation.operator)
    return after


def _without_others(plan: PlanText, name: str) -> PlanText:
    fields = plan.fields(name)
    if fields.get("connector") not in CONNECTORS:
        return plan
    known = parameters_of("source", fields)
    foreign = {field for parameters in CONNECTORS.values() for field in parameters} - set(known)
    for field in [field for field in fields if field in foreign]:
        plan = plan.set(name, field, None)
    return plan


@_do.register
def _(operation: Qos, draft: _Draft) -> PlanText:
    plan = draft.plan
    if not operation.field or "." in operation.field:
        raise WrongValue(operation.field, "a field of a QoS requirement, such as delay", None, "field")
    return plan.set_top(f"qos.{operation.field}", *stated_value(operation.value))


@_do.register
def _(operation: Name, draft: _Draft) -> PlanText:
    plan = draft.plan
    return plan.set_top("name", operation.value)


@_do.register
def _(operation: Paste, draft: _Draft) -> PlanText:
    plan = draft.plan
    try:
        pasted = PlanText(operation.yaml)
    except (yaml.YAMLError, WrongValue) as error:
        said = " ".join(str(error).split())[:200]
        raise WrongValue(
            operation.yaml[:60], f"YAML of operators, such as a copy of some ({said})", None, "yaml"
        ) from None
    if not pasted.operators:
        raise WrongValue(operation.yaml[:60], "YAML with the operators to paste", None, "yaml")
    names: dict[str, str] = {}
    before = set(plan.operators)
    for name, place in pasted.operators.items():
        if place.fields is None:
            raise WrongValue(name, "fields, with kind and input at least", None, "yaml")
        names[name] = _free(name, draft._replace(plan=plan))
        spec = {field: value for field, value in place.fields.items() if field != "id"}
        plan = plan.add(names[name], spec)
    for name, place in pasted.operators.items():
        inputs = [names.get(each, each) for each in place.streams if each in names or each in before]
        plan = plan.set_inputs(names[name], inputs)
    return plan
