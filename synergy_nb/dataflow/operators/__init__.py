"""The logic of operators: one interface (``base``), and one module for each family of operators."""

from synergy_nb.dataflow.operators import (  # noqa: F401 - each registers its kinds
    aggregates,
    asof,
    crypto,
    joins,
    ordered,
    own,
    rows,
    sinks,
    tables,
)
from synergy_nb.dataflow.operators.base import OperatorLogic, create, kinds

__all__ = ["OperatorLogic", "create", "kinds"]
