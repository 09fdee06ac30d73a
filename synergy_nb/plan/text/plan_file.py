"""Plans as YAML, format version 1.

::

    format: 1
    name: top pairs
    qos:
      delay: 20 s
      miss_rate: 5 %
    operators:
      packets: {kind: source, connector: packets, seed: 1, rate: 1000 tuples/s}
      filter: {kind: filter, input: packets, where: link = 'B'}
      ...
      result: {kind: sink, input: compare}

An operator has its ``kind``, its ``input`` or ``inputs``, the parameters of its kind
(:mod:`synergy_nb.plan.operators.catalogue`), and optionally the fields of
:mod:`synergy_nb.plan.operators.profile_fields`. ``operators`` may also be a list of operators that have an ``id``.

Scalars are read as in YAML 1.2: only ``true`` and ``false`` are booleans, so that a join may say ``on:``, and dates and
``20:30`` are text. Anchors and aliases are refused: a small file must not stand for a large plan. So is what is nested
more than :data:`_DEEPEST` deep, before it is read: the scanner looks at all open brackets again at each character.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from synergy_nb.plan.checks.validation import Operator, Problem
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.profile_fields import PROFILE
from synergy_nb.plan.terms.availability import Availability
from synergy_nb.plan.terms.naming import NAME, is_name
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.units import (
    format_duration,
    format_fraction,
    format_rate,
    format_size,
    format_throughput,
    nearest,
)

__all__ = ["INPUT_FIELDS", "Written", "compose", "dump", "read", "write", "written_qos"]

_FORMAT: Final = 1
_LONGEST: Final = 1_000_000  # maximum number of characters of a file
_DEEPEST: Final = 50  # maximum depth of brackets, and of indentations
_PROFILE: Final = tuple(PROFILE)
#: Fields that may name the inputs of an operator.
INPUT_FIELDS: Final = ("input", "inputs")
_TOP: Final = ("format", "name", "qos", "operators")


class _Refused(yaml.YAMLError):
    def __init__(self, line: int, value: str, expected: str) -> None:
        self.line, self.value, self.expected = line, value, expected
        super().__init__(expected)


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that refuses aliases and deep nesting, records duplicate keys and uses the first of each."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.doubled: list[tuple[tuple[str, ...], str, int]] = []

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Refused(event.start_mark.line + 1, str(event.anchor), "no anchors and aliases; write the value out")
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, kind: Any) -> Any:
        self._check_depth(self.flow_level, "brackets")
        return super().fetch_flow_collection_start(kind)

    def add_indent(self, column: Any) -> Any:
        self._check_depth(len(self.indents), "indentations")
        return super().add_indent(column)

    def _check_depth(self, depth: int, what: str) -> None:
        if depth >= _DEEPEST:
            raise _Refused(self.line + 1, what, f"values that are nested at most {_DEEPEST} deep")

    def note_doubled(self, node: Any, path: tuple[str, ...] = ()) -> None:
        """Record keys that occur twice in one mapping: YAML forbids them, PyYAML uses the last one."""
        if isinstance(node, yaml.MappingNode):
            first: dict[str, Any] = {}
            for key, value in node.value:
                name = str(key.value)
                if name in first:
                    self.doubled.append((path, name, key.start_mark.line + 1))
                else:
                    first[name] = key, value
                    self.note_doubled(value, (*path, name))
            if len(first) < len(node.value):
                node.value = list(first.values())
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                self.note_doubled(value, path)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SCALARS: Final = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes short lists and plain mappings on one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _firsts in _SCALARS:
    for _class in (_Loader, _Dumper):  # text that YAML 1.1 or 1.2 reads as a number is quoted
        _class.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_firsts))


def _flow_list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


_Dumper.add_representer(list, _flow_list)


# -- reading ---------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """A plan as a file states it: parameters are not yet checked."""

    name: str
    qos: Mapping[str, Any]  # QoS requirement, field by field
    # operators in the order of the file; None if the form of the file leaves them unknown
    operators: list[Operator] | None
    # operator id to the field that names its inputs: `input`, `inputs`, or a misspelling of these
    fields: dict[str, str]
    stated: dict[str, frozenset[str]]  # operator id to the names of the fields that the file states
    problems: list[Problem]  # problems with the form of the file

    def named(self, problems: Iterable[Problem]) -> list[Problem]:
        """Give problems with inputs the name that the field has in the file."""
        return [
            msgspec.structs.replace(each, field=self.fields[each.operator])
            if each.field == "inputs" and each.operator in self.fields
            else each
            for each in problems
        ]


def read(text: str, nodes: yaml.Node | None = None) -> Written:
    """Read a plan as a file states it, with the problems of its form.

    ``text``: YAML text; ``nodes``: nodes of the text, if :func:`compose` has made them already; keys that occur twice
    are dropped from them.
    """
    problems: list[Problem] = []
    document = _document(text, problems, nodes)
    if document is None:
        return Written("plan", {}, None, {}, {}, problems)
    version = document.get("format")
    if version is None or isinstance(version, bool) or version != _FORMAT:
        problems.append(Problem("", "format", version, f"{_FORMAT}, the version that this program reads"))
    for field, value in document.items():
        if field not in _TOP:
            problems.append(
                Problem("", str(field), value, f"one of the fields {', '.join(_TOP)}", nearest(field, _TOP))
            )
    name = document.get("name", "plan")
    if not is_name(name):
        problems.append(Problem("", "name", name, f"{NAME}, as text"))
        name = "plan"
    qos = document.get("qos") or {}
    if not isinstance(qos, Mapping):
        problems.append(Problem("", "qos", qos, "fields such as delay: 2 s"))
        qos = {}
    fields: dict[str, str] = {}
    stated: dict[str, frozenset[str]] = {}
    operators = _operators(document, fields, stated, problems)
    return Written(name, {str(field): value for field, value in qos.items()}, operators, fields, stated, problems)


def compose(text: str) -> yaml.Node | None:
    """Nodes of a YAML text with their marks; None for a text without a document.

    Raises ``yaml.YAMLError`` if the text is not one YAML document.
    """
    try:
        node: yaml.Node | None = _Loader(text).get_single_node()
    except (RecursionError, ValueError, OverflowError) as error:
        raise yaml.YAMLError(str(error) or "too deep") from None
    return node


def dump(value: Any, style: str | None = None) -> str:
    """Write a value as flow YAML on one line; ``style`` is the quote of all texts in it, or None."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, default_style=style, sort_keys=False, allow_unicode=True,
        width=float("inf"),
    )  # fmt: skip
    return text.removesuffix("\n").removesuffix("\n...")


def _document(text: Any, problems: list[Problem], nodes: yaml.Node | None) -> Mapping[str, Any] | None:
    if not isinstance(text, str) or len(text) > _LONGEST:
        problems.append(Problem("", "file", type(text).__name__, f"YAML text of at most {_LONGEST} characters"))
        return None
    try:
        loader = _Loader("" if nodes is not None else text)
        node = nodes if nodes is not None else loader.get_single_node()
        loader.note_doubled(node)
        document = loader.construct_document(node) if node is not None else None
    except _Refused as error:
        problems.append(Problem("", f"line {error.line}", error.value, error.expected))
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        lines = text.splitlines()
        shown = lines[line - 1].strip() if line <= len(lines) else "end of the file"
        what = " ".join(str(part) for part in (error.context, error.problem) if part)
        problems.append(Problem("", f"line {line}", shown, f"YAML ({what}){_quotes(lines, mark)}"))
        return None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        problems.append(Problem("", "file", text[:60], f"YAML ({' '.join(str(error).split())[:200] or 'too deep'})"))
        return None
    if not isinstance(document, Mapping):
        problems.append(Problem("", "file", document, f"a mapping with the fields {', '.join(_TOP)}"))
        return None
    for path, key, line in loader.doubled:
        if path == ("operators",):
            problems.append(Problem(key, "id", key, f"an id that no other operator has (line {line})"))
        else:
            operator = path[1] if len(path) > 1 and path[0] == "operators" else ""
            problems.append(Problem(operator, key, key, f"each field once (line {line})"))
    return {str(field): value for field, value in document.items()}


def _quotes(lines: Sequence[str], mark: Any) -> str:
    """Hint at a colon within a text, which may be the cause of YAML's error."""
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if not line[mark.column if line else 0 :].startswith(":"):
        return ""
    before, after = line[: mark.column], line[mark.column :]
    found = re.search(r"(?:^|[{,])\s*(?:- )?([\w ]+):\s+([^{,]*)$", before)
    if found is None:
        return "; put text with a colon in quotes"
    rest = re.match(r"[^,}]*", after) if "{" in before else re.match(r".*", after)
    value = f"{found[2]}{rest[0] if rest else ''}".strip()
    quote = '"' if "'" in value else "'"
    return f"; put text with a colon in quotes: {found[1]}: {quote}{value}{quote}"


def _operators(
    document: Mapping[str, Any], fields: dict[str, str], stated: dict[str, frozenset[str]], problems: list[Problem]
) -> list[Operator] | None:
    given = document.get("operators")
    if isinstance(given, Mapping):
        entries = [(str(name), spec) for name, spec in given.items()]
    elif isinstance(given, list):
        entries = []
        for number, spec in enumerate(given, start=1):
            if not isinstance(spec, Mapping) or not isinstance(spec.get("id"), str):
                problems.append(Problem("", f"operators[{number}]", spec, "an operator with an id and a kind"))
                continue
            entries.append((spec["id"], {field: value for field, value in spec.items() if field != "id"}))
    else:
        problems.append(Problem("", "operators", given, "operators by id, each with its kind"))
        return None
    operators = []
    for name, spec in entries:
        if not isinstance(spec, Mapping):
            problems.append(Problem(name, "operator", spec, "fields, with kind and input at least"))
            continue
        own = {str(field): value for field, value in spec.items()}
        stated[name] = frozenset(own)
        fields[name] = _inputs_field(name, own, {other for other, _ in entries}, problems)
        operators.append(_operator(name, own, fields[name], problems))
    return operators


def _inputs_field(name: str, spec: Mapping[str, Any], names: Collection[str], problems: list[Problem]) -> str:
    """Find the field that names the inputs of an operator; record a problem if it is not ``input`` or ``inputs``."""
    kind = str(spec.get("kind"))
    if "inputs" in spec or "input" in spec or kind not in KINDS:
        return "inputs" if "inputs" in spec else "input"
    known = {*parameters_of(kind, spec), "kind", *_PROFILE}
    for field, value in spec.items():
        ups = value if isinstance(value, list) else [value]
        if KINDS[kind].inputs[1] != 0 and field not in known and ups and all(up in names for up in map(str, ups)):
            problems.append(Problem(name, field, value, "input or inputs as the field that names its inputs", "input"))
            return field
    return "input"


def _operator(name: str, spec: dict[str, Any], field: str, problems: list[Problem]) -> Operator:
    kind = spec.pop("kind", None)
    if "input" in spec and "inputs" in spec:
        problems.append(Problem(name, "inputs", spec["inputs"], "either input or inputs, not both"))
    inputs = spec.pop(field, None)
    spec.pop("input", None)
    ups = [] if inputs is None else inputs if isinstance(inputs, list) else [inputs]
    foreign = [up for up in ups if not isinstance(up, (str, int, float))]
    problems.extend(Problem(name, field, up, "the id of an operator, or a list of ids") for up in foreign)
    profile = {}
    for part in _PROFILE:
        if part in spec and not (str(kind) in KINDS and part == KINDS[str(kind)].cost_from):
            profile[part] = spec.pop(part)
    ids = tuple(str(up) for up in ups if isinstance(up, (str, int, float)))
    return Operator(name, "" if kind is None else str(kind), spec, ids, **profile)


# -- writing ---------------------------------------------------------------------------------------------------------


def write(name: str, qos: QoS, operators: Iterable[Operator], stated: Mapping[str, Collection[str]]) -> str:
    """Write a plan as YAML, with units, and without defaults that its author did not state.

    ``qos``: QoS requirement of the plan; ``operators``: operators in normal form; ``stated``: operator id to the names
    of the fields that its author stated.
    """
    document: dict[str, Any] = {"format": _FORMAT, "name": name}
    required = written_qos(qos)
    if required:
        document["qos"] = required
    document["operators"] = {operator.id: _spec(operator, stated.get(operator.id, ())) for operator in operators}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def written_qos(qos: QoS) -> dict[str, Any]:
    """Fields of a QoS requirement for a YAML file, with units."""
    given = {field: value for field, value in msgspec.structs.asdict(qos).items() if value is not None}
    fields: dict[str, Any] = {}
    for field, value in given.items():
        if field in ("delay", "replica_distance"):
            fields[field] = format_duration(value)
        elif field == "throughput":
            fields[field] = format_throughput(value)
        elif field == "throughput_tuples":
            fields["throughput" if "throughput" not in given else field] = (
                format_rate(value) if "throughput" not in given else value
            )
        elif field == "memory":
            fields[field] = format_size(value)
        elif field in Availability._fields:  # beside a share of the time, it is a field of its own
            fields["availability" if "availability" not in given else field] = (
                f"{field} {value}" if "availability" not in given else value
            )
        elif isinstance(value, str):
            fields[field] = value
        else:
            fields[field] = format_fraction(value)
    return fields


def written_parameters(operator: Operator, stated: Collection[str]) -> dict[str, Any]:
    """Parameters of an operator as a plan states them, with units.

    ``operator``: operator in normal form; ``stated``: names of the parameters that are written although their value is
    the default, unless that is empty.
    """
    found = {}
    for name, parameter in parameters_of(operator.kind, operator.params).items():
        value = operator.params.get(name)
        if value is not None and (value != parameter.default or (name in stated and value not in ([], {}))):
            found[name] = parameter.write(value) if parameter.write is not None else value
    return found


def _spec(operator: Operator, stated: Collection[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"kind": operator.kind}
    if len(operator.inputs) == 1:
        spec["input"] = operator.inputs[0]
    elif operator.inputs:
        spec["inputs"] = list(operator.inputs)
    spec |= written_parameters(operator, stated)
    if operator.cost is not None:
        spec["cost"] = format_duration(operator.cost)
    if operator.selectivity is not None:
        spec["selectivity"] = operator.selectivity
    if operator.at is not None:
        spec["at"] = operator.at
    if operator.engine != "auto" or "engine" in stated:
        spec["engine"] = operator.engine
    if operator.availability is not None:
        spec["availability"] = operator.availability
    return spec
