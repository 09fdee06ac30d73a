"""Which components of a plan can never move, and why."""

from __future__ import annotations

import pytest

from synergy_nb.lifecycle.changes.movable import movable
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.spark_parts import PART, replace_parts


def counted() -> Plan:
    packets = source("packets", id="packets", count=1000, speed=0).filter("bytes > 9", id="large")
    return packets.aggregate("link", "1 s", n="count(*)", id="sums").sink("all", id="end")


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ({"packets", "large", "sums"}, "is executed by Spark, which reads packets itself"),
        ({"large", "sums"}, ""),
    ],
)
def test_a_part_whose_source_spark_reads_stays(inside: set[str], why: str) -> None:
    plan = replace_parts(counted(), inside, 1.0)
    (part,) = [name for name, operator in plan.operators.items() if operator.kind == PART]
    assert movable(plan, part) == why


def test_sinks_and_what_cannot_be_read_again_stay() -> None:
    plan = counted()
    assert [movable(plan, name) for name in ("packets", "large", "sums")] == ["", "", ""]
    assert "is a sink" in movable(plan, "end")
    rows = source("python", name="rows", columns={"n": "int"}, id="rows").sink("all")
    assert movable(rows, "rows") == "is a source that cannot be read again (python)"
    read = source("python", name="rows", columns={"n": "int"}, id="rows", availability="degree 2")
    backed = read.filter("n > 1", availability="active 2").sink("all")
    assert movable(backed, "rows") == ""
