"""The logic of operators: one interface (``base``), and one module for each family of operators."""

from synergy_nb.dataflow.operators import aggregates, crypto, joins, ordered, rows  # noqa: F401 - each registers its kinds
from synergy_nb.dataflow.operators.base import OperatorLogic, create, kinds

__all__ = ["OperatorLogic", "create", "kinds"]
