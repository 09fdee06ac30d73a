"""The catalogue of operators: the declarations of all kinds, by name.

The builder, YAML files, validation and ``synergy plan`` read it; a parameter that it does not list does not exist. The
declarations are in :mod:`synergy_nb.plan.operators`, one family a module.

If a plan states no ``cost`` (core-seconds per tuple) or ``selectivity`` (tuples out over tuples in), those of the
declaration apply. Columnar operators on Polars cost about 1 µs per tuple with the batches of the data path. These are
initial values for admission; measured values replace them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from synergy_nb.plan.operators import aggregates, crypto, joins, ordered, own, rows, tables
from synergy_nb.plan.operators.declaration import Declaration, Parameter
from synergy_nb.plan.operators.sources import CONNECTORS, OWN, SINK, SOURCE

__all__ = ["ALL_COMPONENTS", "FAMILIES", "KINDS", "PART", "TAP", "declare", "parameters_of"]

#: Kind of the operator that replaces a part on Spark (:mod:`synergy_nb.plan.derived.spark_parts`); users cannot state
#: it.
PART: Final = "spark"
#: Kind of the operator that replaces the producers of a running stream (:mod:`synergy_nb.plan.derived.stream_sharing`);
#: users cannot state it.
TAP: Final = "stream"

_families: Final[dict[str, str]] = {"source": "sources", "sink": "sinks"}
#: Family of each kind that is part of the platform; others are users' own.
FAMILIES: Final[Mapping[str, str]] = MappingProxyType(_families)

DECLARED: Final[dict[str, Declaration]] = {}
#: All kinds of operators.
KINDS: Final[Mapping[str, Declaration]] = MappingProxyType(DECLARED)


def declare(declaration: Declaration) -> None:
    """Add a kind of operator, so that plans can use it.

    Peers that execute it need its logic under the same kind
    (:func:`synergy_nb.dataflow.operators.base.implements`).

    Raises ``ValueError`` if the kind is declared already.
    """
    if declaration.kind in DECLARED:
        raise ValueError(f"operator kind {declaration.kind!r} is declared twice")
    DECLARED[declaration.kind] = declaration


declare(SOURCE)
for _family in (rows, joins, tables, aggregates, ordered, crypto, own):
    for _each in vars(_family).values():
        if isinstance(_each, Declaration):
            declare(_each)
            _families[_each.kind] = _family.__name__.rpartition(".")[2]
declare(SINK)

#: Names of the components that all peers may offer: the kinds but those that execute what was sent to a peer, and one
#: source for each connector.
ALL_COMPONENTS: Final = tuple(
    sorted(
        [
            *(kind for kind, each in KINDS.items() if kind != "source" and not each.shipped),
            *(f"source:{connector}" for connector in CONNECTORS if connector != OWN),
        ]
    )
)


def parameters_of(kind: str, params: Mapping[str, Any]) -> Mapping[str, Parameter]:
    """Parameters of an operator of ``kind``; those of a source depend on the connector in ``params``."""
    parameters = KINDS[kind].parameters
    connector = params.get("connector")
    if kind == "source" and isinstance(connector, str) and connector in CONNECTORS:
        return {**parameters, **CONNECTORS[connector]}
    return parameters
