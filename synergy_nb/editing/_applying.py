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
from synergy_nb.editing.plan_text import PlanText, read_field
from synergy_nb.plan.checks.validation import Problem
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.sources import CONNECTORS
from synergy_nb.plan.terms.naming import ID, is_id, suggested_id
from synergy_nb.plan.terms.units import WrongValue, WrongValues, nearest
from synergy_nb.plan.text.plan_file import dump


class Applied(NamedTuple):
    """The result of a list of operations."""

    text: str
    problems: list[Problem]  # problems of the operations that could not be applied
    ids: dict[str, str]  # wanted id of a new operator to the id that it got, where these differ


def apply(text: str, operations: Sequence[Operation]) -> Applied:
    """Apply operations in their order; one that cannot be applied changes nothing and gives a problem."""
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
            after = _apply_one(operation, _State(plan, ids))
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


def copy_operators(text: str, operators: Sequence[str]) -> str:
    """YAML text of some operators of a plan, which :class:`Paste` adds to another plan.

    Raises ``EditError`` if the text cannot be read, or there is no such operator.
    """
    try:
        plan = PlanText(text)
        for name in operators:
            plan.fields(name)
    except (yaml.YAMLError, WrongValue) as error:
        raise EditError([Problem("", "operators", list(operators), f"operators of the plan ({error})")]) from None
    wanted = set(operators)
    entries = []
    for name, entry in plan.operators.items():
        if name in wanted:
            fields = {field: value for field, value in (entry.fields or {}).items() if field != "id"}
            entries.append(f"  {dump(name)}: {dump(fields)}\n")
    return "operators:\n" + "".join(entries)


# -- each kind of operation ------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """The text after the operations so far, and the ids that operators got instead of the wanted ones."""

    plan: PlanText
    ids: dict[str, str]


@singledispatch
def _apply_one(operation: Operation, _state: _State) -> PlanText:
    """Apply one operation, and return the new text.

    Raises ``WrongValue`` if the operation cannot be applied.
    """
    expected = "an operation of synergy_nb.editing.operations"
    raise WrongValue(type(operation).__name__, expected)


def _unused_id(wanted: str, state: _State) -> str:
    """The wanted id or, if an operator has it, the id with the next free number, as the plan builder does it."""
    if not is_id(wanted):
        raise WrongValue(wanted, ID, suggested_id(wanted, state.plan.operators), "id")
    given, number = wanted, 1
    while given in state.plan.operators:
        number += 1
        given = f"{wanted}_{number}"
    if given != wanted:
        state.ids[wanted] = given
    return given


def _new_fields(kind: str, fields: Mapping[str, Any], inputs: Sequence[str], plan: PlanText) -> dict[str, Any]:
    """Fields of a new operator as they are written: kind, inputs, parameters."""
    if not kind:
        raise WrongValue(kind, f"one of {', '.join(KINDS)}", None, "kind")
    for up in inputs:
        _check_operator(plan, up, "inputs")
    spec: dict[str, Any] = {"kind": kind}
    if inputs:
        spec["input" if len(inputs) == 1 else "inputs"] = inputs[0] if len(inputs) == 1 else list(inputs)
    for field, value in fields.items():
        if field not in ("kind", "input", "inputs", "id") and value is not None:
            spec[field] = read_field(value)[0]
    return spec


def _check_operator(plan: PlanText, name: str, field: str) -> None:
    """Raise WrongValue, for this field of the operation, if the plan has no such operator."""
    if name not in plan.operators:
        others = list(plan.operators)
        raise WrongValue(
            name, f"an operator of the plan ({', '.join(others) or 'it has none'})", nearest(name, others), field
        )


@_apply_one.register
def _(operation: Add, state: _State) -> PlanText:
    plan = state.plan
    name = _unused_id(operation.operator or operation.kind, state)
    spec = _new_fields(operation.kind, operation.fields, operation.inputs, plan)
    order = list(plan.operators)
    after = max(operation.inputs, key=order.index) if operation.inputs else None
    return _keep_spelling(plan.add(name, spec, after), name, operation.fields)


@_apply_one.register
def _(operation: Insert, state: _State) -> PlanText:
    plan = state.plan
    edge = operation.between
    number = _input_number(plan, edge.start, edge.end, edge.port)
    name = _unused_id(operation.operator or operation.kind, state)
    spec = _new_fields(operation.kind, operation.fields, [edge.start, *operation.inputs], plan)
    inputs = list(plan.operators[edge.end].inputs)
    inputs[number] = name
    return _keep_spelling(plan.add(name, spec, edge.start), name, operation.fields).set_inputs(edge.end, inputs)


def _keep_spelling(plan: PlanText, name: str, fields: Mapping[str, Any]) -> PlanText:
    """Write the fields of a new operator as they were typed (``10 %``), where their values have another text."""
    for field, given in fields.items():
        value, raw = read_field(given)
        if raw is not None and field in plan.fields(name) and not isinstance(value, str):
            plan = plan.set(name, field, value, raw)
    return plan


@_apply_one.register
def _(operation: Remove, state: _State) -> PlanText:
    plan = state.plan
    name = operation.operator
    read = plan.operators[name].inputs if name in plan.operators else []
    readers = [each for each in plan.readers(name) if each != name]
    after = plan.remove(name)
    for reader in readers:
        before = after.operators[reader].inputs
        instead = [read[0]] if len(read) == 1 and read[0] not in before and read[0] != reader else []
        inputs: list[str] = []
        for each in before:
            inputs += [each] if each != name else [up for up in instead if up not in inputs]
        after = after.set_inputs(reader, inputs)
    return after


@_apply_one.register
def _(operation: Connect, state: _State) -> PlanText:
    plan = state.plan
    start, end, port = operation.start, operation.end, operation.port
    _check_operator(plan, start, "from")
    fields = plan.fields(end)
    if start == end:
        raise WrongValue(start, "another operator than the one that reads it", None, "from")
    if fields.get("kind") == "source":
        raise WrongValue(end, "an operator other than a source, which reads nothing", None, "to")
    if plan.fields(start).get("kind") == "sink":
        raise WrongValue(start, "an operator other than a sink, which has no output", None, "from")
    inputs = list(plan.operators[end].inputs)
    most = KINDS[fields["kind"]].inputs[1] if fields.get("kind") in KINDS else None
    if port is None and start not in inputs and most is not None and 0 < most <= len(inputs):
        port = len(inputs) - 1  # all inputs are taken: the last one is replaced
    if start in inputs and (port is None or inputs[port : port + 1] == [start]):
        return plan
    if port is not None and 0 <= port < len(inputs):
        inputs[port] = start
    else:
        inputs.append(start)
    return plan.set_inputs(end, inputs)


def _input_number(plan: PlanText, start: str, end: str, port: int | None) -> int:
    """Number of the input of ``end`` that reads ``start``."""
    _check_operator(plan, start, "from")
    _check_operator(plan, end, "to")
    inputs = plan.operators[end].inputs
    if port is not None and inputs[port : port + 1] == [start]:
        return port
    if start not in inputs:
        raise WrongValue(start, f"an input of {end} ({', '.join(inputs) or 'it has none'})", None, "from")
    return inputs.index(start)


@_apply_one.register
def _(operation: Disconnect, state: _State) -> PlanText:
    plan = state.plan
    number = _input_number(plan, operation.start, operation.end, operation.port)
    inputs = list(plan.operators[operation.end].inputs)
    del inputs[number]
    return plan.set_inputs(operation.end, inputs)


@_apply_one.register
def _(operation: Rename, state: _State) -> PlanText:
    plan = state.plan
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
        after = after.set_inputs(own, [to if each == name else each for each in after.operators[own].inputs])
    return after


@_apply_one.register
def _(operation: Set, state: _State) -> PlanText:
    plan = state.plan
    fields = plan.fields(operation.operator)
    if not operation.field or operation.field in ("id", "input", "inputs"):
        raise WrongValue(operation.field, "a field of the operator other than id, input and inputs", None, "field")
    value, raw = read_field(operation.value)
    after = plan.set(operation.operator, operation.field, value, raw)
    if operation.field == "connector" and value != fields.get("connector"):
        after = _without_fields_of_other_connectors(after, operation.operator)
    return after


def _without_fields_of_other_connectors(plan: PlanText, name: str) -> PlanText:
    """Remove the fields of a source that only other connectors have."""
    fields = plan.fields(name)
    if fields.get("connector") not in CONNECTORS:
        return plan
    known = parameters_of("source", fields)
    foreign = {field for parameters in CONNECTORS.values() for field in parameters} - set(known)
    for field in [field for field in fields if field in foreign]:
        plan = plan.set(name, field, None)
    return plan


@_apply_one.register
def _(operation: Qos, state: _State) -> PlanText:
    plan = state.plan
    if not operation.field or "." in operation.field:
        raise WrongValue(operation.field, "a field of a QoS requirement, such as delay", None, "field")
    return plan.set_top(f"qos.{operation.field}", *read_field(operation.value))


@_apply_one.register
def _(operation: Name, state: _State) -> PlanText:
    plan = state.plan
    return plan.set_top("name", operation.value)


@_apply_one.register
def _(operation: Paste, state: _State) -> PlanText:
    plan = state.plan
    try:
        pasted = PlanText(operation.yaml)
    except (yaml.YAMLError, WrongValue) as error:
        said = " ".join(str(error).split())[:200]
        raise WrongValue(
            operation.yaml[:60], f"YAML of operators, such as a copy of some ({said})", None, "yaml"
        ) from None
    if not pasted.operators:
        raise WrongValue(operation.yaml[:60], "YAML with the operators to paste", None, "yaml")
    if not plan.operators and any(pasted.yaml.find((), field) is not None for field in ("name", "qos")):
        return pasted  # a whole plan into an empty one: with its name, its requirement and its comments
    names: dict[str, str] = {}
    before = set(plan.operators)
    for name, entry in pasted.operators.items():
        if entry.fields is None:
            raise WrongValue(name, "fields, with kind and input at least", None, "yaml")
        names[name] = _unused_id(name, state._replace(plan=plan))
        spec = {field: value for field, value in entry.fields.items() if field != "id"}
        plan = plan.add(names[name], spec)
    for name, entry in pasted.operators.items():
        inputs = [names.get(each, each) for each in entry.inputs if each in names or each in before]
        plan = plan.set_inputs(names[name], inputs)
    return plan
