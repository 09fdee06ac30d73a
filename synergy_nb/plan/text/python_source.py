"""Plans as Python: source text that builds an equal plan with ``source``, the methods of streams and ``plan``.

Each operator is one statement, in the order of the plan; values have the units that YAML files have. An id is stated
only where the builder would choose another one, and a default only where the author of the plan stated it.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from synergy_nb.plan.checks.requirements import QOS_FIELDS
from synergy_nb.plan.checks.validation import Operator, PlanError, Problem
from synergy_nb.plan.operators.catalogue import FAMILIES, KINDS, PART, TAP
from synergy_nb.plan.operators.declaration import REQUIRED
from synergy_nb.plan.operators.destinations import DESTINATION, DESTINATIONS
from synergy_nb.plan.operators.profile_fields import PROFILE
from synergy_nb.plan.sql.sql import quoted
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.units import format_duration
from synergy_nb.plan.text.plan_file import written_parameters, written_qos
from synergy_nb.plan.text.stream_ids import chosen, needed

__all__ = ["python_source"]

_WIDTH: Final = 100
_RESULT: Final = "query"
_ARGUMENTS: Final = frozenset({"self", "id", *PROFILE})  # names that no column may have as a keyword
_TAKEN: Final = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *DESTINATIONS, "plan", "source", _RESULT}
)


def python_source(
    title: str, requirement: QoS, operators: Mapping[str, Operator], stated: Mapping[str, Collection[str]]
) -> str:
    """Write Python that builds a plan as the variable ``query``.

    ``title``: name of the plan; ``operators``: operators in normal form, by id; ``stated``: operator id to the names of
    the fields that its author stated, which are written also at their default.

    Raises ``PlanError`` if the plan has operators that users cannot state, such as a part on Spark.
    """
    for operator in operators.values():
        if operator.kind in (PART, TAP) or operator.replica_of or operator.ports:
            expected = "an operator that plans can state; this one replaces others while the plan runs"
            raise PlanError([Problem(operator.id, "kind", operator.kind, expected)])
    variables = _variables(operators)
    sinks = [operator.id for operator in operators.values() if operator.kind == "sink"]
    named, order = _stated_ids(operators, sinks)
    qos = written_qos(requirement)
    name = operators[sinks[0]].params["name"]
    unnamed = title == "plan" and name == "result"
    one = len(sinks) == 1 and (title == name or unnamed) and set(qos) <= set(QOS_FIELDS)
    one = one and order == list(operators)
    lines = []
    for operator in operators.values():
        written = _Call(operator, variables, operator.id in named, stated.get(operator.id, ()))
        if operator.kind == "sink" and one:
            arguments = [*([] if unnamed else written.arguments), *_named(qos), *written.options]
            lines.append(_statement(_RESULT, f"{written.receiver}.sink", arguments))
        else:
            lines.append(_statement(variables[operator.id], written.function, [*written.arguments, *written.options]))
    if not one:
        ends = [variables[sink] for sink in sinks]
        listed = {} if order == list(operators) else {"order": list(operators)}
        arguments = [*ends, *_named({"name": title, **qos, **listed})]
        lines.append(_statement(_RESULT, "plan", arguments))
    formats = {operators[sink].params["to"]["format"] for sink in sinks if "to" in operators[sink].params}
    names = ", ".join(sorted({"source", *formats, *([] if one else ["plan"])}))
    return f"from synergy_nb import {names}\n\n" + "".join(lines)


class _Call:
    """The call that makes the stream of an operator: function, arguments, and options such as the id."""

    def __init__(
        self, operator: Operator, variables: Mapping[str, str], identified: bool, stated: Collection[str]
    ) -> None:
        ups = [variables[up] for up in operator.inputs]
        self.receiver = ups[0] if ups else ""
        self.options = [f"id={_literal(operator.id)}"] if identified else []
        declaration = KINDS[operator.kind]
        if operator.cost is not None and not declaration.cost_from:
            self.options.append(f"cost={_literal(format_duration(operator.cost))}")
        self.options += [f"selectivity={operator.selectivity!r}"] if operator.selectivity is not None else []
        self.options += [f"at={_literal(operator.at)}"] if operator.at is not None else []
        self.options += (
            [f"engine={_literal(operator.engine)}"] if operator.engine != "auto" or "engine" in stated else []
        )
        self.options += [f"availability={_literal(operator.availability)}"] if operator.availability else []
        values = written_parameters(operator, operator.params if operator.kind == "sink" else stated)
        if operator.kind == "source":
            self.function = "source"
            connector = values.pop("connector")
            self.arguments = [_literal(connector), *_named(values)]
        elif operator.kind not in FAMILIES:
            self.function = f"{self.receiver}.operator"
            self.arguments = [_literal(operator.kind), *ups[1:], *_by_name(values)]
        else:
            self.function = f"{self.receiver}.{operator.kind}"
            self.arguments = self._of_method(operator, values, ups[1:])

    def _of_method(self, operator: Operator, values: dict[str, Any], others: list[str]) -> list[str]:
        """Arguments of a method, in the order of its signature; see docs/generate.py."""
        declaration = KINDS[operator.kind]
        least, most = declaration.inputs
        first = list(others) if most is None or least > 1 else []
        last = [f"{port}={up}" for port, up in zip(declaration.ports, others, strict=False)] if not first else []
        named: list[str] = []
        positional = True  # whether all parameters so far are stated, so that the next one needs no name
        for name, parameter in declaration.parameters.items():
            if name not in values:
                positional = positional and parameter.spelling == "keyword"
                continue
            value = values[name]
            if parameter.type is DESTINATION:
                named.append(f"{name}={_destination(value)}")
                continue
            match parameter.spelling:
                case "many":
                    first += map(_literal, value)
                    positional = False
                case "columns":
                    first, named = [*first, *_columns(value)[0]], [*named, *_columns(value)[1]]
                    positional = False
                case "values":
                    plain = all(_is_argument(each, declaration.parameters) for each in value)
                    named += _named(value if plain else {name: value})
                    positional = False
                case "plain" if positional and (parameter.default is REQUIRED or operator.kind == "sink"):
                    first.append(_literal(value))
                case _:
                    named.append(f"{name}={_literal(_short(value))}")
                    positional = False
        return [*first, *last, *named]


def _columns(columns: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Positional arguments and those by name for new columns with their expressions."""
    names: list[str] = []
    rest = dict(columns)
    for name, text in columns.items():
        if text != quoted(name):
            break
        names.append(name)
        del rest[name]
    if all(_is_argument(name, ("columns",)) for name in rest):
        return list(map(_literal, names)), _named(rest)
    return [*map(_literal, names), _literal(rest)], []


def _is_argument(name: str, own: Iterable[str]) -> bool:
    """Whether a column may be the name of an argument, beside those of the method itself."""
    return name.isidentifier() and not keyword.iskeyword(name) and name not in _ARGUMENTS and name not in own


def _by_name(values: Mapping[str, Any]) -> list[str]:
    plain = all(name.isidentifier() and not keyword.iskeyword(name) for name in values)
    return _named(values) if plain else [f"**{_literal(values)}"]


def _short(value: Any) -> Any:
    """A list with one name as the name."""
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value


def _destination(written: Mapping[str, Any]) -> str:
    """The call that makes a destination."""
    _, (_, place), *options = written.items()
    return f"{written['format']}({', '.join([_literal(place), *_named(dict(options))])})"


def _statement(variable: str, function: str, arguments: list[str]) -> str:
    line = f"{variable} = {function}({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return f"{line}\n"
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{variable} = {function}(\n{inner})\n"


def _named(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_literal(value)}" for name, value in values.items()]


def _literal(value: Any) -> str:
    """Python source of a value, with double quotes where they need no backslash."""
    if isinstance(value, str):
        return f'"{value}"' if value.isprintable() and not re.search(r'["\\]', value) else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


def _variables(operators: Mapping[str, Operator]) -> dict[str, str]:
    """Operator id to a distinct name of a variable, as similar as possible."""
    found: dict[str, str] = {}
    taken = set(_TAKEN)
    for name, operator in operators.items():
        text = str(operator.params["connector"]) if operator.kind == name == "source" else name
        base = re.sub(r"\W+", "_", text).strip("_") or operator.kind
        base = base if base.isidentifier() else f"{operator.kind}_{base}"
        if base in _TAKEN:
            base += "_"
        own, number = base, 1
        while own in taken or not own.isidentifier():
            number += 1
            own = f"{base.rstrip('_')}_{number}" if base.isidentifier() else f"stream_{number}"
        taken.add(own)
        found[name] = own
    return found


def _stated_ids(operators: Mapping[str, Operator], sinks: Iterable[str]) -> tuple[set[str], list[str]]:
    """Ids that have to be stated, as the builder would choose others; and the order that it would choose."""
    order = needed(sinks, lambda name: operators[name].inputs, str)
    stated: set[str] = set()
    while True:
        ids = chosen({name: (operators[name].kind, name if name in stated else None) for name in order})
        wrong = {name for name, own in ids.items() if own != name}
        if not wrong:
            return stated, order
        stated |= wrong
