"""Engines that execute operators, and the operators that Spark's Structured Streaming can execute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.operators.catalogue import KINDS

__all__ = ["ENGINES", "off_spark"]

#: Engines of an operator; with ``auto`` the peer at which the plan is submitted chooses one.
ENGINES: Final = ("auto", "peer", "spark")


def off_spark(kind: str, params: Mapping[str, Any]) -> str:
    """Reason why an operator cannot run in Spark; empty if it can.

    >>> off_spark("aggregate", {"window": {"kind": "count", "rows": 100}})
    'Spark has no windows of a number of rows'
    """
    if (params.get("window") or {}).get("kind") == "count":
        return "Spark has no windows of a number of rows"
    reason = KINDS[kind].off_spark if kind in KINDS else ""
    return reason if isinstance(reason, str) else reason(params)
