"""Plans with backups, alone and beside active replicas, for whole simulated peers."""

from __future__ import annotations

from synergy_nb.plan import Plan
from tests.moving_schedules import packets


def chapter_4(**qos: str) -> Plan:
    """A plan all of whose operators have backups."""
    merged = packets("s", 1).union(packets("t", 2), id="u")
    return merged.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x").sink("out", id="out", **qos)


def mixed() -> Plan:
    """A plan with active replicas before an operator with backups."""
    left = packets("s", 1).filter("bytes > 50", id="f", availability="active 2")
    merged = left.union(packets("t", 2), id="u", availability="degree 2")
    counts = merged.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x", availability="degree 2")
    return counts.sink("out", id="out")
