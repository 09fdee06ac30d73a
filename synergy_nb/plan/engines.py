"""What executes an operator, and which operators can run in Spark's Structured Streaming at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["ENGINES", "off_spark"]

#: What may execute an operator; ``auto`` leaves it to the peer at which the plan is submitted.
ENGINES: Final = ("auto", "peer", "spark")


def off_spark(kind: str, params: Mapping[str, Any]) -> str:
    """Why an operator cannot run in Spark; empty if it can.

    >>> off_spark("aggregate", {"window": {"kind": "count", "rows": 100}})
    'Spark has no windows of a number of rows'
    """
    window = params.get("window") or {}
    if window.get("kind") == "count":
        return "Spark has no windows of a number of rows"
    if kind == "sink":
        return "results are kept by a peer"
    if kind == "delay":
        return "it is there to keep a peer busy"
    if kind == "source":
        connector = params.get("connector")
        if connector not in ("trace", "packets"):
            return f"tuples of connector {connector} come from peers"
        if params.get("speed", 1.0 if connector == "packets" else 0.0) > 0:
            return "a stream that is replayed at a speed is timed by a peer"
        if connector == "packets" and params.get("count") is None and params.get("duration") is None:
            return "a stream without an end is made by a peer"
    return ""
