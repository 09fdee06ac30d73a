"""The Spark server of a peer, as those know it who choose what it executes or project how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from synergy_nb.plan import Plan
from synergy_nb.plan.operators.engines import off_spark

__all__ = ["MICRO_BATCH", "SparkOffer"]

MICRO_BATCH: Final = 0.5  # seconds of a micro-batch on two cores, which are assumed until a peer has measured its own


def _refusal_by_plan(plan: Plan, operator: str, _inside: Collection[str]) -> str:
    node = plan.operators[operator]
    return off_spark(node.kind, node.params)


class SparkOffer(msgspec.Struct, frozen=True):
    """Properties of the Spark server that a peer can use."""

    micro_batch: float = MICRO_BATCH  # time of a micro-batch, seconds
    state_bytes: float = 256e6  # expected state above which an operator is too heavy for a peer, bytes
    cores: float = 1.0  # expected processing above which an operator is too heavy for a peer, cores
    # function of (plan, operator, other operators of the same part) that returns the reason why Spark cannot execute
    # the operator, empty if it can. The driver's function checks more than the plan alone can show
    refuses: Callable[[Plan, str, Collection[str]], str] = _refusal_by_plan
