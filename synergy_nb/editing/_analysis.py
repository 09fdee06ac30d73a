"""Analysis of the text of a plan, valid or not: its operators, problems, columns, expected rates and loads.

The problems are those of :meth:`synergy_nb.plan.Plan.from_yaml`, found by the same functions. Columns, rates and loads
are computed for each operator that has no problem, if no operator upstream has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

import yaml

from synergy_nb.editing._yaml_text import flow_text, node_value
from synergy_nb.editing.plan_text import PlanText
from synergy_nb.plan import Plan, PlanError, Problem, QoS
from synergy_nb.plan.checks.memory_estimates import check_memory, on_peers
from synergy_nb.plan.checks.requirements import check_qos, check_together
from synergy_nb.plan.checks.validation import Checked, check
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.units import WrongValue
from synergy_nb.plan.text.plan_file import Written, read

_LONGEST_SHOWN: Final = 120  # largest number of characters of an invalid value in a message


class StatedOperator(NamedTuple):
    """An operator as the text states it."""

    # id, kind: id of the operator, and its kind, which may be unknown
    id: str
    kind: str
    inputs: list[str]  # ids of the operators that it reads
    fields: dict[str, str]  # name of each field to the YAML text of its value
    parts: dict[str, Any]  # name of each field that is a list or a mapping to the YAML texts of its entries
    # line, end_line: first and last line of the operator in the text, from 1
    line: int
    end_line: int
    style: str  # style of the YAML of the operator: `flow` (in braces) or `block` (in lines)


class Analysis(NamedTuple):
    """All that is found of the text of a plan."""

    plan: Plan | None  # the plan; None while it has problems
    problems: list[Problem]  # problems of the text, in the order of `PlanError`
    lines: list[int | None]  # line of each problem, from 1; None if it is unknown
    readable: bool  # whether the text is YAML; if not, only problems are found
    name: str
    qos: dict[str, str]  # name of each field of the requirement to the YAML text of its value
    operators: list[StatedOperator]  # operators in the order of the text
    # operator id to the columns of its stream with their types, where these can be found
    columns: dict[str, dict[str, str]]
    rates: dict[str, float]  # operator id to the expected rate of its stream, tuples/s
    loads: dict[str, float]  # operator id to its expected load, cores
    # plan of the operators that have no problem, nor any upstream; None if the text is not YAML
    valid_part: Plan | None = None


def analyse(text: str) -> Analysis:
    """Analyse the text of a plan; any text has an analysis."""
    try:
        stated = PlanText(text)
    except (yaml.YAMLError, WrongValue):
        written = read(text)
        lines = [_line_of_syntax_error(problem) for problem in written.problems]
        return Analysis(None, written.problems, lines, False, "", {}, [], {}, {}, {})
    written = read(text, deepcopy(stated.yaml.root) if _has_doubled(stated.yaml.root) else stated.yaml.root)
    problems = list(written.problems)
    qos = check_qos(written.qos, problems)
    checked = check(written.operators, problems) if written.operators is not None else Checked({}, {}, {})
    if written.operators is not None:
        check_together(checked, qos, problems)
    valid = not problems
    plan = _valid_plan(written, qos, checked, problems) if valid else None
    known = checked if valid else _without_problems(checked, problems)
    partial = plan or Plan.composed("known", QoS(), known)
    rates = {name: _finite_or_zero(partial.rate(name)) for name in known.operators}
    loads = {name: _finite_or_zero(partial.load(name)) for name in known.operators}
    problems = written.named(problems)
    return Analysis(
        plan,
        problems,
        [_line(problem, stated) for problem in problems],
        True,
        written.name,
        {field: flow_text(value) for field, value in written.qos.items()},
        [_stated_operator(name, stated) for name in stated.operators],
        {name: dict(columns) for name, columns in {**checked.schemas, **checked.likely}.items() if columns},
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


def _valid_plan(written: Written, qos: QoS, checked: Checked, problems: list[Problem]) -> Plan | None:
    """The plan of a text without problems; None if it exceeds its limit of memory, which becomes a problem."""
    plan = Plan.composed(written.name, qos, checked).stating(written.stated)
    if qos.memory is not None:
        try:
            check_memory(plan, on_peers(plan, spark=True), math.inf)
        except PlanError as error:
            problems += error.problems
            return None
    return plan


def _without_problems(checked: Checked, problems: list[Problem]) -> Checked:
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


def _finite_or_zero(value: float) -> float:
    """Return the value, or 0 if it is infinite or NaN, as a rate of an unfinished plan may be."""
    return value if math.isfinite(value) else 0.0


def _stated_operator(name: str, stated: PlanText) -> StatedOperator:
    """An operator as the text states it."""
    entry = stated.operators[name]
    first, last = stated.yaml.lines(entry.path)
    fields: dict[str, str] = {}
    parts: dict[str, Any] = {}
    node = stated.yaml.node(entry.path)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value in ("id", "kind", "input", "inputs"):
            continue
        if isinstance(value, yaml.ScalarNode):
            source = stated.text[value.start_mark.index : value.end_mark.index]
            fields[key.value] = source if "\n" not in source else flow_text(value.value)
            continue
        data = node_value(value)
        fields[key.value] = flow_text(data)
        parts[key.value] = (
            {each: _part_text(of) for each, of in data.items()}
            if isinstance(data, Mapping)
            else list(map(_part_text, data))
        )
    kind = (entry.fields or {}).get("kind")
    style = "flow" if stated.yaml.is_flow(entry.path) else "block"
    return StatedOperator(name, "" if kind is None else str(kind), entry.inputs, fields, parts, first, last, style)


def _part_text(value: Any) -> str:
    """Text of one entry of a field, without quotes if it is a string, as a form shows it."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else flow_text(value)


def _line_of_syntax_error(problem: Problem) -> int | None:
    """Line of a problem that is an error in the YAML itself, as its field names it; None for all other problems."""
    word, _, number = problem.field.partition(" ")
    return int(number) if word == "line" and number.isdigit() else None


def _line(problem: Problem, stated: PlanText) -> int | None:
    """Line at which the field of a problem is written; otherwise that of its operator, or None."""
    if not problem.operator:
        field = problem.field.partition(".")[0].partition("[")[0]
        at = stated.yaml.find((), field)
        inner = problem.field.partition(".")[2]
        return _line_of_syntax_error(problem) if at is None else _inner_line(stated, (at,), inner)
    entry = stated.operators.get(problem.operator)
    if entry is None:
        return None
    field, _, inner = problem.field.partition(".")
    field = entry.input_field if field == "inputs" else field
    at = stated.yaml.find(entry.path, field) if entry.fields is not None else None
    return stated.yaml.lines(entry.path)[0] if at is None else _inner_line(stated, (*entry.path, at), inner)


def _inner_line(stated: PlanText, path: tuple[int, ...], inner: str) -> int:
    """Line of an entry of the field at a path, or that of the field."""
    number = stated.yaml.find(path, inner) if inner else None
    return stated.yaml.lines(path if number is None else (*path, number))[0]


def shown_value(value: Any) -> str | None:
    """An invalid value as a short text; None if it is missing."""
    if value is None:
        return None
    text = " ".join((value if isinstance(value, str) else repr(value)).split()).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
