"""The catalogue of operators: the declarations of all kinds that there are, by name.

It is read by the builder, by YAML files, by validation and by ``synergy plan``; a parameter that is not in it does not
exist. The declarations are in :mod:`synergy_nb.plan.operators`, one family a module.

Where a plan states no ``cost`` (seconds a tuple) or ``selectivity`` (tuples out over tuples in), those of the
declarations hold. Columnar operators on Polars cost about 1 µs a tuple with the batching that the data path does; they
are starting points for admission, which measured values replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from synergy_nb.plan.declaration import Declaration, Parameter
from synergy_nb.plan.operators import aggregates, crypto, joins, ordered, rows
from synergy_nb.plan.operators.sources import CONNECTORS, SINK, SOURCE

__all__ = ["ALL_COMPONENTS", "KINDS", "PART", "TAP", "declare", "parameters_of"]

#: Kind of the operator that stands for a part on Spark (see :mod:`synergy_nb.plan.spark_parts`); no plan can ask for
#: it.
PART: Final = "spark"
#: Kind of the operator that stands for a stream that runs already (see :mod:`synergy_nb.plan.stream_sharing`);
#: likewise.
TAP: Final = "stream"

_declared: Final[dict[str, Declaration]] = {}
#: All kinds of operators.
KINDS: Final[Mapping[str, Declaration]] = MappingProxyType(_declared)


def declare(declaration: Declaration) -> None:
    """Add a kind of operator, so that plans may ask for it.

    Peers that are to execute it need its logic under the same kind
    (:func:`synergy_nb.dataflow.operators.base.implements`).

    Raises
    ------
    ValueError
        If there is one of that kind already.
    """
    if declaration.kind in _declared:
        raise ValueError(f"operator kind {declaration.kind!r} is declared twice")
    _declared[declaration.kind] = declaration


declare(SOURCE)
for _family in (rows, joins, aggregates, ordered, crypto):
    for _each in vars(_family).values():
        if isinstance(_each, Declaration):
            declare(_each)
declare(SINK)

#: Names of the components that peers may offer: the kinds, and for each connector one source.
ALL_COMPONENTS: Final = tuple(
    sorted([*(kind for kind in KINDS if kind != "source"), *(f"source:{connector}" for connector in CONNECTORS)])
)


def parameters_of(kind: str, params: Mapping[str, Any]) -> Mapping[str, Parameter]:
    """Parameters that an operator of ``kind`` has; those of a source depend on the connector in ``params``."""
    parameters = KINDS[kind].parameters
    connector = params.get("connector")
    if kind == "source" and isinstance(connector, str) and connector in CONNECTORS:
        return {**parameters, **CONNECTORS[connector]}
    return parameters
