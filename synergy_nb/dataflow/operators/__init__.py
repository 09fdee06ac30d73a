"""Operators: one interface (``base``), one family a module."""

from synergy_nb.dataflow.operators.base import OperatorLogic, create, kinds

__all__ = ["OperatorLogic", "create", "kinds"]
