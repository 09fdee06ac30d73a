"""What is known of the text of a plan, valid or not: its operators, problems, columns, expected rates and loads.

The problems are those of :meth:`synergy_nb.plan.Plan.from_yaml`, found by the same functions. Columns, rates and loads
are known of each operator that has no problem, and whose inputs have none either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

import yaml

from synergy_nb.editing.plan_text import PlanText
from synergy_nb.editing.yaml_text import flow_text, yaml_data
from synergy_nb.plan import Plan, PlanError, Problem, QoS
from synergy_nb.plan.catalogue import KINDS
from synergy_nb.plan.memory_estimates import check_memory, on_peers
from synergy_nb.plan.plan_file import Written, read
from synergy_nb.plan.requirements import check_qos, check_together
from synergy_nb.plan.units import WrongValue
from synergy_nb.plan.validation import Checked, check

__all__ = ["Analysis", "StatedOperator", "analyse"]

_SHOWN: Final = 120  # characters of an invalid value


class StatedOperator(NamedTuple):
    """An operator as the text states it.

    Parameters
    ----------
    id, kind, inputs
        Id, kind, and ids of the operators that it reads.
    fields
        Field to the YAML text of its value.
    parts
        Field that is a list or a mapping to the texts of its entries.
    line, end_line
        First and last line, from 1.
    style
        Style of its fields: ``flow`` or ``block``.
    """

    id: str
    kind: str
    inputs: list[str]
    fields: dict[str, str]
    parts: dict[str, Any]
    line: int
    end_line: int
    style: str


class Analysis(NamedTuple):
    """What is known of a text.

    Parameters
    ----------
    plan
        The plan; None while it has problems.
    problems
        Problems of the text, in the order of :class:`~synergy_nb.plan.PlanError`.
    lines
        Line of each problem, from 1; None if it is unknown.
    readable
        Whether the text is YAML; otherwise nothing else is known.
    name, qos
        Name, and field of the requirement to its YAML text.
    operators
        Operators in the order of the text.
    columns
        Operator id to the columns of its stream with their types, as far as they are known.
    rates, loads
        Operator id to tuples/s of its stream, and to cores.
    known
        The part of the plan that has no problem; None if the text cannot be read.
    """

    plan: Plan | None
    problems: list[Problem]
    lines: list[int | None]
    readable: bool
    name: str
    qos: dict[str, str]
    operators: list[StatedOperator]
    columns: dict[str, dict[str, str]]
    rates: dict[str, float]
    loads: dict[str, float]
    known: Plan | None = None


def analyse(text: str) -> Analysis:
    """Find what is known of the text of a plan."""
    try:
        stated = PlanText(text)
    except (yaml.YAMLError, WrongValue):
        written = read(text)
        lines = [_line_in(problem) for problem in written.problems]
        return Analysis(None, written.problems, lines, False, "", {}, [], {}, {}, {})
    written = read(text, deepcopy(stated.yaml.root) if _has_doubled(stated.yaml.root) else stated.yaml.root)
    problems = list(written.problems)
    qos = check_qos(written.qos, problems)
    checked = check(written.operators, problems) if written.operators is not None else Checked({}, {}, {})
    if written.operators is not None:
        check_together(checked, qos, problems)
    valid = not problems
    plan = _plan(written, qos, checked, problems) if valid else None
    known = checked if valid else _known(checked, problems)
    partial = plan or Plan.composed("known", QoS(), known)
    rates = {name: _finite(partial.rate(name)) for name in known.operators}
    loads = {name: _finite(partial.load(name)) for name in known.operators}
    problems = written.named(problems)
    return Analysis(
        plan,
        problems,
        [_line(problem, stated) for problem in problems],
        True,
        written.name,
        {field: flow_text(value) for field, value in written.qos.items()},
        [_operator(name, stated) for name in stated.operators],
        {name: dict(schema) for name, schema in checked.schemas.items() if schema},
        rates,
        loads,
        partial,
    )


def _has_doubled(node: yaml.Node | None) -> bool:
    """Whether a mapping has a key twice."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        return len(set(keys)) < len(keys) or any(_has_doubled(value) for _, value in node.value)
    return isinstance(node, yaml.SequenceNode) and any(map(_has_doubled, node.value))


def _plan(written: Written, qos: QoS, checked: Checked, problems: list[Problem]) -> Plan | None:
    plan = Plan.composed(written.name, qos, checked)
    if qos.memory is not None:
        try:
            check_memory(plan, on_peers(plan, spark=True), math.inf)
        except PlanError as error:
            problems += error.problems
            return None
    return plan


def _known(checked: Checked, problems: list[Problem]) -> Checked:
    """The operators without a problem whose inputs have none either."""
    wrong = {problem.operator for problem in problems if problem.field != "output"}
    known: dict[str, Any] = {}
    for name, operator in checked.operators.items():
        least, most = KINDS[operator.kind].inputs if operator.kind in KINDS else (0, None)
        number = len(operator.inputs)
        complete = number >= least and (most is None or number <= most) and all(up in known for up in operator.inputs)
        if name not in wrong and complete and checked.schemas[name]:
            known[name] = operator
    return Checked(
        known, {name: checked.schemas[name] for name in known}, {name: checked.windows[name] for name in known}
    )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _operator(name: str, stated: PlanText) -> StatedOperator:
    place = stated.operators[name]
    first, last = stated.yaml.lines(place.path)
    fields: dict[str, str] = {}
    parts: dict[str, Any] = {}
    node = stated.yaml.node(place.path)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value in ("id", "kind", "input", "inputs"):
            continue
        if isinstance(value, yaml.ScalarNode):
            source = stated.text[value.start_mark.index : value.end_mark.index]
            fields[key.value] = source if "\n" not in source else flow_text(value.value)
            continue
        data = yaml_data(value)
        fields[key.value] = flow_text(data)
        parts[key.value] = (
            {each: _part(of) for each, of in data.items()} if isinstance(data, Mapping) else list(map(_part, data))
        )
    kind = (place.fields or {}).get("kind")
    style = "flow" if stated.yaml.is_flow(place.path) else "block"
    return StatedOperator(name, "" if kind is None else str(kind), place.streams, fields, parts, first, last, style)


def _part(value: Any) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else flow_text(value)


def _line_in(problem: Problem) -> int | None:
    """Line of a problem with the form of YAML."""
    word, _, number = problem.field.partition(" ")
    return int(number) if word == "line" and number.isdigit() else None


def _line(problem: Problem, stated: PlanText) -> int | None:
    """Line of a field in the text."""
    if not problem.operator:
        field = problem.field.partition(".")[0].partition("[")[0]
        at = stated.yaml.find((), field)
        inner = problem.field.partition(".")[2]
        return _line_in(problem) if at is None else _inner_line(stated, (at,), inner)
    place = stated.operators.get(problem.operator)
    if place is None:
        return None
    field, _, inner = problem.field.partition(".")
    field = place.inputs if field == "inputs" else field
    at = stated.yaml.find(place.path, field) if place.fields is not None else None
    return stated.yaml.lines(place.path)[0] if at is None else _inner_line(stated, (*place.path, at), inner)


def _inner_line(stated: PlanText, path: tuple[int, ...], inner: str) -> int:
    number = stated.yaml.find(path, inner) if inner else None
    return stated.yaml.lines(path if number is None else (*path, number))[0]


def shown_value(value: Any) -> str | None:
    """An invalid value as a short text; None if it is missing."""
    if value is None:
        return None
    text = " ".join((value if isinstance(value, str) else repr(value)).split()).encode("utf-8", "replace").decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
