"""Canonical names of streams (section 2.2.1): equal work has equal names, and their keys place them on the ring."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.declaration import Parameter
from synergy_nb.plan.sql import sql

_LONGEST: Final = 1000  # characters of an input's name within a name; a longer one is replaced by its key


def stream_key(name: str) -> str:
    """Key of a stream on the ring: the leading 32 hex digits of the SHA-1 of its name."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:32]


def stream_name(operator: Operator, inputs: Sequence[tuple[str, str]]) -> str:
    """Name of the stream of an operator, from the names and the keys of its inputs."""
    if operator.kind == "sink":
        return inputs[0][0]
    own = own_name(operator)
    if not inputs:
        return own
    # otherwise a plan of repeated splits and joins would have names of exponential length
    arguments = [name if len(name) <= _LONGEST else f"~{key}" for name, key in inputs]
    if KINDS[operator.kind].commutative:
        arguments.sort()
    return f"{own}({', '.join(arguments)})"


def own_name(operator: Operator) -> str:
    """Kind and parameters; for a source connector, parameters, and the peer if its data depend on the peer."""
    declaration = KINDS[operator.kind]
    if declaration.bare:
        return f"{operator.kind}[{operator.params[declaration.bare]}]"
    parts = []
    for name, parameter in sorted(parameters_of(operator.kind, operator.params).items()):
        value = operator.params.get(name)
        if value is None or value == parameter.default or not parameter.named or name == "connector":
            continue
        parts.append(f"{name}={_value_text(value, parameter)}")
    kind: str = operator.params["connector"] if operator.kind == "source" else operator.kind
    place = f"@{sql.quoted(operator.at)}" if kind in ("trace", "python") and operator.at is not None else ""
    return f"{kind}[{', '.join(parts)}]{place}" if parts else kind + place


def _value_text(value: Any, parameter: Parameter) -> str:
    if parameter.type.text is not None:
        return parameter.type.text(value)
    if parameter.write is not None:
        return str(parameter.write(value))
    if isinstance(value, list):
        return f"[{', '.join(map(sql.quoted, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(_column_text(name, text) for name, text in value.items()) + "}"
    return sql.literal_text(value) if isinstance(value, str) else repr(value)


def _column_text(name: str, text: str) -> str:
    column = sql.quoted(name)
    return column if text == column else f"{column}: {text}"
