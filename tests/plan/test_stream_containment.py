"""Which running streams contain the stream of a filter, and what the filter still has to do with one of them."""

from __future__ import annotations

import pytest

from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.stream_containment import Container, containers, read_parts, stated_part, write_parts
from synergy_nb.plan.derived.stream_sharing import reduced

PACKETS = source("packets", id="p")


def found(stream: Stream, *running: str) -> tuple[Plan, dict[str, tuple[Container, ...]]]:
    plan = stream.sink(id="out")
    return plan, containers(plan, {"packets": [stated(each) for each in running]})


def stated(where: str) -> tuple[str, ...]:
    part = stated_part(PACKETS.filter(where, id="f").sink(), "f")
    assert part is not None
    assert part.base == "packets"
    return tuple(part.value)


@pytest.mark.parametrize(
    ("running", "rest"),
    [
        ("bytes > 9", "link = 'A'"),
        ("link = 'A'", "bytes > 9"),
        ("bytes > 3", "bytes > 9 AND link = 'A'"),
        ("link IN ('A', 'B')", "bytes > 9 AND link = 'A'"),
        ("bytes > 9 AND link <> 'C'", "link = 'A'"),
    ],
)
def test_what_the_running_stream_does_not_imply_is_left(running: str, rest: str) -> None:
    _, several = found(PACKETS.filter("bytes > 9 AND link = 'A'", id="f"), running)
    (container,) = several["f"]
    assert (container.form.conditions, container.left) == (stated(running), f"tests {rest}")


@pytest.mark.parametrize(
    "running", ["bytes > 10", "link = 'B'", "source_port > 1", "bytes > 9 AND link = 'A'", "bytes > 9 OR link = 'B'"]
)
def test_a_stream_that_lacks_rows_or_has_the_same_is_none(running: str) -> None:
    _, several = found(PACKETS.filter("bytes > 9 AND link = 'A'", id="f"), running)
    assert not several


def test_the_nearest_comes_first_and_few_are_looked_up() -> None:
    wide = [f"bytes > {least}" for least in (1, 2, 3, 4, 5, 6)]
    _, several = found(PACKETS.filter("bytes > 9 AND link = 'A'", id="f"), *wide, "bytes > 5 AND link = 'A'")
    assert [each.form.conditions for each in several["f"]] == [
        ("bytes > 5", "link = 'A'"), ("bytes > 6",), ("bytes > 5",), ("bytes > 4",)
    ]  # fmt: skip


def test_the_input_of_a_filter_is_found_as_it_is() -> None:
    chain = PACKETS.filter("bytes > 9", id="e").filter("link = 'A'", id="f")
    assert not found(chain, "bytes > 9")[1]
    assert found(chain, "bytes > 9", "link <> 'B'")[1].keys() == {"f"}


def test_a_filter_whose_input_another_branch_needs_reads_that() -> None:
    both = PACKETS.filter("bytes > 9", id="f").union(PACKETS.filter("link = 'A'", id="g"))
    assert not found(both, "bytes > 3")[1]


def test_a_filter_behind_projections_tests_the_rest_by_its_own_columns() -> None:
    stream = PACKETS.project("link", size="bytes", id="q").project("size", "link", id="r")
    plan, several = found(stream.filter("size > 9 AND link = 'A'", id="f"), "link = 'A'", "bytes > 9")
    assert [(each.tap, each.left) for each in several["f"]] == [("p", "tests link = 'A'"), ("p", "tests size > 9")]
    left = reduced(plan, {"p": {"peer-1": ("a", "x")}}, {"f": several["f"][1]})
    assert list(left.operators) == ["p", "q", "r", "f", "out"]
    assert all(left.stream_name(each) == plan.stream_name(each) for each in ("f", "out"))
    assert left.rate("f") == pytest.approx(plan.rate("f"))
    lost = PACKETS.project("bytes", id="q").filter("bytes > 9", id="f")
    assert found(lost, "bytes > 3")[1]["f"][0].left == "tests bytes > 9"
    hidden = PACKETS.filter("link = 'A' AND bytes > 3", id="e").project("bytes", id="q").filter("bytes > 9", id="f")
    assert "f" not in found(hidden, "bytes > 9")[1], "what is left to test has a column that the projection drops"


def test_a_projection_that_another_branch_needs_is_kept() -> None:
    some = PACKETS.project("link", "bytes", id="q")
    assert not found(some.filter("bytes > 9", id="f").union(some.filter("link = 'A'", id="g")), "bytes > 3")[1]


def test_a_filter_that_nothing_passes_or_that_passes_all_is_no_part() -> None:
    for where in ("FALSE", "bytes > 9 AND bytes < 3", "TRUE"):
        assert stated_part(PACKETS.filter(where, id="f").sink(), "f") is None
    plan = PACKETS.filter("bytes > 9", id="f").project("link", id="q").sink(id="out")
    assert [name for name in plan.operators if stated_part(plan, name)] == ["f"]


def test_conditions_in_the_directory_may_be_invalid() -> None:
    assert read_parts(write_parts([("b > 3", "a > 1")])) == [("a > 1", "b > 3")]
    for wrong in ("", "[", "[3]", 3, '{"a": 1}'):
        assert read_parts(wrong) == []


def test_the_reduced_plan_has_the_names_and_the_rates_of_the_whole_one() -> None:
    stream = PACKETS.filter("bytes > 9 AND link = 'A'", selectivity=0.25, id="f").count(window="1 s", id="n")
    plan, several = found(stream, "bytes > 9")
    left = reduced(plan, {"p": {"peer-1": ("a", "x")}}, {"f": several["f"][0]})
    for known in (left, Plan.from_bytes(left.to_bytes())):
        assert list(known.operators) == ["p", "f", "n", "out"]
        assert known.stream_name("p") == "filter[bytes > 9](packets)"
        assert known.operators["f"].params == {"where": "link = 'A'"}
        assert all(known.stream_name(each) == plan.stream_name(each) for each in ("f", "n", "out"))
        assert known.rate("p") == pytest.approx(500.0), "of two conditions each is taken to keep a half"
        assert [known.rate(each) for each in ("f", "n")] == pytest.approx([plan.rate(each) for each in ("f", "n")])
        assert known.schema("p") == plan.schema("f")
