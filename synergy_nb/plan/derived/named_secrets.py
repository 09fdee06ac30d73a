"""Which secrets a plan names: its passwords, tokens and keys are given to peers, and are in no plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from synergy_nb.plan.derived.spark_parts import works_of
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.destinations import DESTINATION, DESTINATIONS
from synergy_nb.plan.operators.parameter_types import HEADERS, SECRET, SECRET_TEXT, URL, WEBSOCKET, ValueType
from synergy_nb.plan.operators.sources import ARGUMENTS
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.secret_names import names_in

__all__ = ["NamedSecret", "secrets_of", "secrets_of_destination", "secrets_of_plan"]


class NamedSecret(NamedTuple):
    """A secret that an operator names."""

    field: str  # parameter that names it
    name: str


def secrets_of_plan(plan: Plan) -> Iterator[tuple[str, NamedSecret]]:
    """Yield the secrets that a plan names, each with the id of the operator."""
    for name, operator in plan.operators.items():
        for _, kind, params in works_of(operator):
            yield from ((name, each) for each in secrets_of(kind, params))


def secrets_of(kind: str, params: Mapping[str, Any]) -> Iterator[NamedSecret]:
    """Yield the secrets that the parameters of an operator name."""
    for field, parameter in parameters_of(kind, params).items() if kind in KINDS else ():
        value = params.get(field)
        if parameter.type is DESTINATION and value is not None:
            yield from (NamedSecret(f"{field}.{each.field}", each.name) for each in secrets_of_destination(value))
        else:
            yield from (NamedSecret(field, name) for name in _names(parameter.type, value))


def secrets_of_destination(to: Mapping[str, Any]) -> Iterator[NamedSecret]:
    """Yield the secrets that a destination names."""
    for field, option in DESTINATIONS[to["format"]].items():
        yield from (NamedSecret(field, name) for name in _names(option.type, to.get(field)))


def _names(kind: ValueType, value: Any) -> list[str]:
    if value is None:
        return []
    if kind is SECRET:
        return [value]
    if kind is HEADERS or kind is ARGUMENTS:
        return list(dict.fromkeys(name for text in _texts(value) for name in names_in(text)))
    return names_in(value) if kind in (SECRET_TEXT, URL, WEBSOCKET) else []


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value that JSON has, but names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
