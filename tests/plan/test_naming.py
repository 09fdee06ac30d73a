"""Names that are proposed, and what a plan is named and placed by."""

from __future__ import annotations

import pytest

from synergy_nb.plan import plan, source
from synergy_nb.plan.derived.placement_modes import placement_of
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.plan.derived.stream_sharing import sharable_points
from synergy_nb.plan.terms.naming import is_id, suggested_id


@pytest.mark.parametrize(
    ("text", "taken", "expected"),
    [
        ("in/out", (), "in out"),
        ("a > b", ("a b",), "a b 2"),
        ("a > b", ("a b", "a b 2", "a b 4"), "a b 3"),
        ("--_ first", (), "_ first"),
        ("??", (), None),
        (7, (), None),
    ],
)
def test_a_proposed_id_is_free_and_an_id(text: object, taken: tuple[str, ...], expected: str | None) -> None:
    found = suggested_id(text, taken)
    assert found is None or (is_id(found) and found not in taken)
    if expected is not None:
        assert found == expected


def test_the_longest_text_becomes_an_id_even_if_it_is_taken() -> None:
    long = suggested_id("x" * 500)
    assert long is not None
    assert is_id(long)
    again = suggested_id("x" * 500, {long})
    assert again is not None
    assert again != long
    assert is_id(again)


def test_plans_together_are_named_by_all_of_them_within_200_characters() -> None:
    one, other = (source("packets", id=name).sink(name * 150) for name in "ab")
    assert plan(one, other).name == f"{'a' * 150} and {'b' * 45}"
    assert plan(one, other, name="both").name == "both"


def test_what_runs_is_sharable_on_each_branch_and_nothing_above_it() -> None:
    packets = source("packets", rate=5, id="packets")
    left, right = packets.filter("bytes > 9", id="left"), packets.project("link", id="right")
    both = plan(left.sink("one", id="one"), right.sink("two", id="two"))
    runs = {"left", "right", "packets"}
    assert set(sharable_points(both, runs.__contains__)) == {"left", "right"}
    assert set(sharable_points(both, {"left", "packets"}.__contains__)) == {"left", "packets"}


def test_a_plan_is_placed_as_asked_and_only_a_composed_one_can_be_spread() -> None:
    asked = source("packets").sink()
    assert placement_of(asked, "composed", spread=False) == "composed"
    assert placement_of(asked, "resilient", spread=False) == "resilient"
    assert placement_of(asked, "composed", spread=True) == "spread"
    with pytest.raises(ValueError, match="spread: True; expected False with placement 'resilient'"):
        placement_of(asked, "resilient", spread=True)


def test_only_a_part_is_on_spark() -> None:
    asked = source("packets", id="packets").filter("bytes > 9", id="large").sink("x", id="x")
    placed = replace_parts(asked, {"large"}, 0.5)
    assert {name: placed.on_spark(name) for name in placed.operators} == {"packets": False, "large": True, "x": False}
    assert not any(map(asked.on_spark, asked.operators))
