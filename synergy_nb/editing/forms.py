"""Forms of an editor for operators and requirements, made from their declarations: type, unit, choices, range, help.

A form is a plain value (dictionaries, lists, texts) that a view in a browser shows as fields to fill in.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.requirements import QOS_TYPES
from synergy_nb.plan.operators.catalogue import FAMILIES, KINDS
from synergy_nb.plan.operators.declaration import REQUIRED, Declaration, Parameter
from synergy_nb.plan.operators.destinations import DESTINATION, DESTINATIONS
from synergy_nb.plan.operators.parameter_types import TYPES, ValueType
from synergy_nb.plan.operators.profile_fields import PROFILE
from synergy_nb.plan.operators.sources import CONNECTORS

__all__ = ["field_form", "forms"]

#: Parameter types whose value names columns of the input, to how many columns they name.
_COLUMN_TYPES: Final[Mapping[str, str]] = {"column": "one", "columns": "many", "order": "many", "keys": "many"}
_EXPRESSION_TYPES: Final = ("condition", "expressions", "calls", "over")
_MULTILINE_TYPES: Final = (*_EXPRESSION_TYPES, "column types")
_OWN_KINDS: Final = "own"  # group of the kinds of operators that a user has declared


def forms() -> dict[str, Any]:
    """All forms: of each kind of operator, of the fields that all operators have, and of the requirement."""
    return {
        "kinds": [_kind_form(declaration) for declaration in KINDS.values()],
        "common": [field_form(name, parameter) for name, parameter in PROFILE.items()],
        "qos": list(_requirement_fields()),
    }


def field_form(name: str, parameter: Parameter) -> dict[str, Any]:
    """Form of one field, such as its type, unit and default text."""
    kind = parameter.type
    formats = {"formats": _formats()} if kind is DESTINATION else {}
    choices = TYPES if kind.name == "column types" else kind.choices
    return {
        "name": name,
        "type": kind.name,
        "help": _without_markdown(parameter.help),
        "required": parameter.default is REQUIRED,
        "leads": parameter.leads,
        "default": ""
        if parameter.default is REQUIRED and not parameter.absent
        else _without_markdown(parameter.default_text),
        "choices": list(choices) or None,
        "multiline": kind.name in _MULTILINE_TYPES,
        "unit": kind.unit,
        "range": _range(kind),
        "columns": _COLUMN_TYPES.get(kind.name, ""),
        "expression": kind.name in _EXPRESSION_TYPES,
        **formats,
    }


def _formats() -> dict[str, list[dict[str, Any]]]:
    """Options of each format of a destination."""
    return {
        form: [
            {
                "name": name,
                "type": option.type.name,
                "required": option.needed,
                "default": "" if option.default is None else str((option.type.write or str)(option.default)),
                "choices": list(option.type.choices) or None,
            }
            for name, option in options.items()
        ]
        for form, options in DESTINATIONS.items()
    }


def _kind_form(each: Declaration) -> dict[str, Any]:
    """Form of a kind of operator: its fields, and those of each connector of a source."""
    least, most = each.inputs
    form: dict[str, Any] = {
        "kind": each.kind,
        "group": FAMILIES.get(each.kind, _OWN_KINDS),
        "help": _without_markdown(each.help),
        "inputs": [least, most],
        "ports": list(each.ports),
        "parameters": [field_form(name, parameter) for name, parameter in each.parameters.items()],
        "costFrom": each.cost_from,
        "example": next(iter(each.yaml), ""),
    }
    if each.kind == "source":
        form["connectors"] = {
            connector: {
                "help": "",
                "parameters": [_source_field(name, parameter) for name, parameter in fields.items()],
            }
            for connector, fields in CONNECTORS.items()
        }
    return form


def _source_field(name: str, parameter: Parameter) -> dict[str, Any]:
    return {**field_form(name, parameter), "columns": ""}  # a source has no input whose columns it could name


def _requirement_fields() -> Iterator[dict[str, Any]]:
    described = _parameter_texts(inspect.getdoc(Stream.sink) or "")
    for name, kind in QOS_TYPES.items():
        yield field_form(name, Parameter(kind, described.get(name, ""), None, "no requirement"))


def _parameter_texts(docstring: str) -> dict[str, str]:
    """Parameters of a numpydoc docstring to their descriptions."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in docstring.splitlines():
        if re.fullmatch(r"[a-z]\w*", line):
            current = found.setdefault(line, [])
        elif line.startswith("    "):
            current.append(line.strip())
        else:
            current = []
    return {name: " ".join(lines) for name, lines in found.items()}


def _range(kind: ValueType) -> str:
    """Range of a parameter type as words, such as ``at least 0``; empty if it has none."""
    if kind.name in ("columns", "choice", "size"):
        return ""
    least, most = (None if each is None else f"{each:g}" for each in (kind.least, kind.most))
    if least is not None and most is not None:
        return f"{least} to {most}"
    return f"at least {least}" if least is not None else f"at most {most}" if most is not None else ""


def _without_markdown(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text).replace("`", "")
