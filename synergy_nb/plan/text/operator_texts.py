"""The parameters of an operator in words, for drawings, tables and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.terms.units import counted

__all__ = ["brief", "own_requests", "parameters"]

LONGEST: Final = 22  # characters of a brief text, which has to fit in a box of a drawing


def brief(operator: Operator) -> str:
    """What an operator does, in few words, for the second line of its box.

    >>> from synergy_nb.plan import source
    >>> plan = source("packets").filter("bytes > 1000").sink("large")
    >>> brief(plan.operators["filter"])
    'bytes > 1000'
    """
    text = KINDS[operator.kind].brief(operator.params) if operator.kind in KINDS else ""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def parameters(operator: Operator) -> str:
    """All parameters that have another value than the default, with units."""
    known = parameters_of(operator.kind, operator.params)
    texts = []
    for name, value in operator.params.items():
        parameter = known.get(name)
        if parameter is None or value in (parameter.default, None, [], ""):
            continue
        if parameter.type.name == "table":
            texts.append(f"{name}: {value.get('path', 'a data frame')} of {counted(value['rows'], 'row')}")
        else:
            texts.append(f"{name}: {parameter.write(value) if parameter.write is not None else _written(value)}")
    return "; ".join(texts)


def own_requests(operators: Iterable[Operator]) -> list[str]:
    """The replicas that operators ask for themselves, in words.

    >>> from synergy_nb.plan import source
    >>> plan = source("packets").filter("bytes > 1000", availability="active 3").sink("large")
    >>> own_requests(plan.operators.values())
    ['active 3 for filter']
    """
    found: dict[str, list[str]] = {}
    for each in operators:
        if each.availability is not None:
            found.setdefault(each.availability, []).append(each.id)
    return [f"{asked} for {', '.join(names)}" for asked, names in found.items()]


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(name if name == inner else f"{name} = {inner}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
