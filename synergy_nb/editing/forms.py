"""Forms for operators and requirements, made from what is declared of them: type, unit, choices, range, help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from synergy_nb.plan.builder import Stream
from synergy_nb.plan.catalogue import FAMILIES, KINDS
from synergy_nb.plan.declaration import REQUIRED, Declaration, Parameter
from synergy_nb.plan.operators.sources import CONNECTORS
from synergy_nb.plan.parameter_types import TYPES, ValueType
from synergy_nb.plan.profile_fields import PROFILE
from synergy_nb.plan.requirements import QOS_TYPES

__all__ = ["field_form", "forms"]

#: Types whose value names columns of the input: one of them, or several.
_COLUMNS: Final[Mapping[str, str]] = {"column": "one", "columns": "many", "order": "many"}
_EXPRESSIONS: Final = ("condition", "expressions", "calls")
_LONG: Final = (*_EXPRESSIONS, "column types")
_OWN: Final = "own"  # group of kinds that users have declared


def forms() -> dict[str, Any]:
    """All kinds of operators with their fields, the fields of every operator, and those of the requirement."""
    return {
        "kinds": [_kind(declaration) for declaration in KINDS.values()],
        "common": [field_form(name, parameter) for name, parameter in PROFILE.items()],
        "qos": list(_requirements()),
    }


def field_form(name: str, parameter: Parameter) -> dict[str, Any]:
    """Form of one field."""
    kind = parameter.type
    choices = TYPES if kind.name == "column types" else kind.choices
    return {
        "name": name,
        "type": kind.name,
        "help": _plain(parameter.help),
        "required": parameter.default is REQUIRED,
        "default": "" if parameter.default is REQUIRED and not parameter.absent else _plain(parameter.default_text),
        "choices": list(choices) or None,
        "multiline": kind.name in _LONG,
        "unit": kind.unit,
        "range": _range(kind),
        "columns": _COLUMNS.get(kind.name, ""),
        "expression": kind.name in _EXPRESSIONS,
    }


def _kind(each: Declaration) -> dict[str, Any]:
    least, most = each.inputs
    form: dict[str, Any] = {
        "kind": each.kind,
        "group": FAMILIES.get(each.kind, _OWN),
        "help": _plain(each.help),
        "inputs": [least, most],
        "ports": list(each.ports),
        "parameters": [field_form(name, parameter) for name, parameter in each.parameters.items()],
        "costFrom": each.cost_from,
        "example": next(iter(each.yaml), ""),
    }
    if each.kind == "source":
        form["connectors"] = {
            connector: {"help": "", "parameters": [_of_source(name, parameter) for name, parameter in fields.items()]}
            for connector, fields in CONNECTORS.items()
        }
    return form


def _of_source(name: str, parameter: Parameter) -> dict[str, Any]:
    return {**field_form(name, parameter), "columns": ""}  # a source has no input whose columns it could name


def _requirements() -> Iterator[dict[str, Any]]:
    described = _described(inspect.getdoc(Stream.sink) or "")
    for name, kind in QOS_TYPES.items():
        yield field_form(name, Parameter(kind, described.get(name, ""), None, "no requirement"))


def _described(docstring: str) -> dict[str, str]:
    """Parameters of a docstring with their descriptions."""
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
    if kind.name in ("columns", "choice", "size"):
        return ""
    least, most = (None if each is None else f"{each:g}" for each in (kind.least, kind.most))
    if least is not None and most is not None:
        return f"{least} to {most}"
    return f"at least {least}" if least is not None else f"at most {most}" if most is not None else ""


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", text).replace("`", "")
