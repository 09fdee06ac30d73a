"""The campaign that kills everything: what it draws, and that it sees rows which are lost or doubled."""

from __future__ import annotations

from collections import Counter

from tests.killed_campaign import FORMATS, SHAPES, drawn, wrong


def test_a_hundred_tries_meet_each_plan_each_destination_and_five_kills() -> None:
    tries = [drawn(seed) for seed in range(1, 101)]
    assert {each.shape for each in tries} == set(SHAPES)
    assert {each.format for each in tries} == set(FORMATS)
    assert {len(each.kills) for each in tries} == {1, 2, 3, 4, 5}
    assert any(not kill.runs for each in tries for kill in each.kills), "some are killed while they start"
    assert drawn(7) == drawn(7)


def test_rows_that_are_lost_doubled_or_of_nobody_are_seen() -> None:
    wanted = Counter({(1, 2): 1, (3, 4): 2})
    assert wrong(wanted, wanted) == ""
    assert wrong(Counter({(3, 4): 2}), wanted).startswith("1 rows are lost, such as [(1, 2)], and 0 too many")
    assert wrong(wanted + Counter({(3, 4): 1}), wanted).startswith("0 rows are lost, such as [], and 1 too many")
    assert wrong(Counter({(1, 2): 1, (3, 5): 2}), wanted).startswith("2 rows are lost, such as [(3, 4)], and 2 too")
