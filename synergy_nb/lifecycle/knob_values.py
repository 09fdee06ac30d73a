"""Checks of what users set while applications run: shares, factors, operators of plans."""

from __future__ import annotations

import math
from typing import Any, Final

from synergy_nb.plan import Plan
from synergy_nb.plan.units import did_you_mean
from synergy_nb.reporting.cluster_errors import ClusterError

__all__ = ["checked_factor", "checked_operator", "checked_share", "checked_source"]

MOST_LOAD: Final = 0.99  # greatest share of a peer's cores that other programs may use


def checked_share(share: Any) -> float:
    """Return the share of a peer's cores that other programs are to use; raise a ClusterError if it is none.

    >>> checked_share(0.5)
    0.5
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= MOST_LOAD:
        raise ClusterError(f"share: {share!r}; expected a share of the peer's cores from 0 to {MOST_LOAD}")
    return float(share)


def checked_factor(factor: Any) -> float:
    """Return the factor of a source's pace; raise a ClusterError if it is none.

    >>> checked_factor(2)
    2.0
    """
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0.0 <= factor < math.inf:
        raise ClusterError(f"factor: {factor!r}; expected a finite number of at least 0")
    return float(factor)


def checked_operator(plan: Plan, operator: Any) -> str:
    """Return an operator id of a plan; raise a ClusterError if there is no such operator."""
    if operator not in plan.operators:
        hint = did_you_mean(operator, plan.operators)
        raise ClusterError(f"operator: {operator!r}; expected one of the plan: {', '.join(plan.operators)}{hint}")
    return str(operator)


def checked_source(plan: Plan, source: Any) -> str:
    """Return the operator id of a source of a plan; raise a ClusterError if it is none."""
    if plan.operators[checked_operator(plan, source)].kind != "source":
        raise ClusterError(f"source: {source!r}; expected a source of the plan: {', '.join(plan.sources)}")
    return str(source)
