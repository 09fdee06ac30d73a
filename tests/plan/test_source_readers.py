"""Sources with several readers: what a plan says of them, what is submitted, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb import Plan, PlanError, edit, source
from synergy_nb.plan import Stream
from synergy_nb.plan.derived.plan_changes import change_of
from synergy_nb.plan.derived.source_readers import readers_of, with_readers_apart

TOPIC: dict[str, Any] = {"servers": "a.local:9092", "topic": "orders", "columns": {"n": "int"}}


def orders(**params: Any) -> Stream:
    return source("kafka", **TOPIC, id="orders", **params)


def test_each_reader_is_a_source_of_its_own_with_a_share_of_the_rate() -> None:
    plan = orders(readers=3, rate="600 tuples/s", at="a", lateness="2 s").filter("n > 0", id="f").sink("out", id="out")
    apart = with_readers_apart(plan)
    assert list(apart.operators) == ["orders_1", "orders_2", "orders_3", "orders", "f", "out"]
    assert readers_of(apart) == (("orders_1", "orders_2", "orders_3"),)
    assert apart.operators["orders"].inputs == ("orders_1", "orders_2", "orders_3")
    assert {apart.operators[each].at for each in apart.sources} == {"a"}
    assert [apart.rate(each) for each in apart.operators] == [200.0, 200.0, 200.0, 600.0, plan.rate("f"), 300.0]
    assert len({apart.stream_name(each) for each in apart.sources}) == 3
    again = with_readers_apart(orders(readers=3, lateness="2 s", at="a").sink("other"))
    assert again.stream_name("orders") == apart.stream_name("orders"), "another application can share it"
    assert apart.schema("orders") == plan.schema("orders")
    assert "kafka, 3 of 3" in str(apart)
    assert with_readers_apart(apart) is apart
    one = orders(readers=1).sink("out")
    assert with_readers_apart(one) is one
    assert one == orders().sink("out")


def test_plans_are_the_same_as_files_and_as_python_before_and_after() -> None:
    plan = orders(readers=2, rate="100 tuples/s").filter("n > 0").sink("out")
    for each in (plan, with_readers_apart(plan)):
        names: dict[str, Any] = {}
        exec(each.to_python(), names)
        assert {Plan.from_yaml(each.to_yaml()), Plan.from_bytes(each.to_bytes()), names["query"]} == {each}


def test_a_reader_gets_an_id_that_no_operator_has_and_the_union_the_replicas_of_what_follows() -> None:
    stream = orders(readers=2, availability="degree 2").filter("n > 0", id="orders_1", availability="active 2")
    apart = with_readers_apart(stream.sink("out", id="out"))
    assert list(apart.operators) == ["orders_1_", "orders_2", "orders", "orders_1", "out"]
    assert [each.availability for each in apart.operators.values()] == ["degree 2", "degree 2", *["active 2"] * 2, None]


def test_rows_of_a_program_stay_with_their_source() -> None:
    table = source({"time": [1.0], "n": [2]}, id="mine")
    apart = with_readers_apart(table.union(orders(readers=2), id="all").sink("out"))
    assert list(apart.rows) == ["mine"]


def test_a_plan_in_place_of_another_goes_on_with_the_same_readers_only() -> None:
    old, new = (with_readers_apart(orders(readers=2).filter(f"n > {n}", id="f").sink("out", id="out")) for n in (0, 1))
    change = change_of(old, new)
    assert {*change.kept} == {"orders_1", "orders_2", "orders"}
    for readers in (1, 3):
        other = with_readers_apart(orders(readers=readers).filter("n > 0", id="f").sink("out", id="out"))
        with pytest.raises(PlanError, match=f"'orders', readers: {readers}; expected 2, as in the plan") as wrong:
            change_of(old, other)
        assert len(wrong.value.problems) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"readers": 0}, "readers: 0; expected an integer from 1 to 64"),
    ({"readers": -1}, "readers: -1; expected an integer from 1 to 64"),
    ({"readers": 65}, "readers: 65; expected an integer from 1 to 64"),
    ({"readers": "two"}, "readers: 'two'; expected an integer from 1 to 64"),
    ({"share": "3 of 2"}, "share: '3 of 2'; expected which reader it is of how many, such as '1 of 2', of 64 at most"),
    ({"share": "1 of 2", "readers": 2}, "readers: 2; expected 1 beside the share '1 of 2', which is that of one"),
]


@pytest.mark.parametrize(("params", "expected"), WRONG)
def test_wrong_numbers_are_one_error_in_python_in_files_and_in_the_editor(
    params: dict[str, Any], expected: str
) -> None:
    text = orders().sink("out").to_yaml()
    fields = "".join(f"    {name}: {value}\n" for name, value in params.items())
    with pytest.raises(PlanError) as written:
        Plan.from_yaml(text.replace("    topic: orders\n", f"    topic: orders\n{fields}"))
    with pytest.raises(PlanError) as built:
        orders(**params).sink("out")
    for raised in (built, written):
        assert [str(each) for each in raised.value.problems] == [str(built.value.problems[0])]
        assert expected in str(raised.value)
    editor = edit(Plan.from_yaml(text), anew=True)
    for field, value in params.items():
        editor.apply({"op": "set", "operator": "orders", "field": field, "value": value})
    assert expected in " ".join(map(str, editor.problems))


@pytest.mark.parametrize(
    "alone",
    [
        source("trace", path="a.csv", format="csv", columns={"n": "int"}, readers=2),
        source("packets", readers=2),
        source("mqtt", server="a:1", topic="t", columns={"n": "int"}, readers=2),
        source("sql", path="a.db", query="t", by="n", columns={"n": "int"}, readers=2),
    ],
)
def test_a_source_without_partitions_has_one_reader(alone: Stream) -> None:
    with pytest.raises(
        PlanError, match=r"readers: 2; expected no readers: source of \w+ is read by one component; d"
    ) as wrong:
        alone.sink("out")
    assert len(wrong.value.problems) == 1
