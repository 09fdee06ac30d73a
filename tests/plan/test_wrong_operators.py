"""What is refused of an operator's own parameters, all of it at once, and which operators peers certainly execute."""

from __future__ import annotations

import pytest

from synergy_nb.plan import source
from synergy_nb.plan.checks.memory_estimates import on_peers
from synergy_nb.plan.sql import sql
from tests.example_plans import problems_of

PACKETS = source("packets", rate="10/s", id="packets")


def test_each_wrong_column_of_a_projection_is_named() -> None:
    found = problems_of(lambda: PACKETS.project(a="byte + 1", b="bytes + 1", c="linc", d="NULL").sink())
    assert [each.field for each in found] == ["columns.a", "columns.c", "columns.d"]
    assert "expected a value with a type, such as CAST(NULL AS int)" in str(found[2])


def test_a_comparison_with_a_count_has_no_groups() -> None:
    sums = PACKETS.aggregate("link", "1 s", n="count(*)", id="sums")
    count = PACKETS.count("1 s", id="count")
    found = problems_of(lambda: sums.operator("compare", count, by=["link"]).sink())
    assert any("expected no columns: a count gives the rows of the whole window" in str(each) for each in found)


@pytest.mark.parametrize("text", ["lpad(link, -1, 'x')", "lpad(link, bytes, 'x')"])
def test_a_length_is_an_integer_literal_within_its_range(text: str) -> None:
    schema = {"link": "str", "bytes": "int"}
    sql.parse("lpad(link, 3, 'x')", schema)
    with pytest.raises(sql.SqlError, match="an integer literal from 0 to"):
        sql.parse(text, schema)


def test_peers_certainly_execute_what_names_them_and_what_spark_cannot() -> None:
    plan = (
        PACKETS.filter("bytes > 9", id="auto")
        .filter("bytes > 8", engine="peer", id="peer")
        .encrypt("link", key="k", id="secret")
        .filter("bytes > 7", engine="spark", id="spark")
        .sink("out", id="out")
    )
    assert "spark" not in on_peers(plan, spark=False)
    assert {"auto", "peer"} <= set(on_peers(plan, spark=False))
    with_spark = on_peers(plan, spark=True)
    assert "peer" in with_spark
    assert not {"auto", "spark"} & set(with_spark)


def test_a_source_of_rows_has_a_name_of_its_own() -> None:
    rows = [source("python", name="n", columns={"v": "int"}, id=each) for each in ("one", "two")]
    (problem,) = problems_of(lambda: rows[0].union(rows[1]).sink())
    assert "expected a name of its own: rows for 'n' would be those of operator 'one'" in str(problem)
