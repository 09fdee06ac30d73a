"""The plans by which another one takes the place of one that runs, one change after another."""

from __future__ import annotations

from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.plan_transitions import transitions


def counts(window: str) -> Plan:
    return source("packets", id="s").filter("bytes > 9", id="large").count(window=window, id="n").sink(id="out")


def test_each_change_has_ids_and_numbers_of_its_own_and_the_sink_has_the_windows_of_its_plan() -> None:
    plan, taken = counts("1 s"), set[str]()
    for number, window in enumerate(("2 s", "1 s", "3 s"), 1):
        taken |= set(plan.operators)
        both, new, _ = transitions("app", plan, counts(window), number, taken)
        for each in (both, new):
            assert Plan.from_bytes(each.to_bytes()).transition == each.transition
        assert new.window("out") == counts(window).window("out")
        assert both.transition.switches["out"].inputs[1:] == new.transition.switches["out"].inputs == (number,)
        assert not set(new.operators) & taken - {"s", "large", "out"}
        assert both.transition.switches["out"].period == {1: 2.0, 2: 2.0, 3: 3.0}[number]
        plan = new
    assert plan.transition.switches["out"].former[-1] == counts("1 s").stream_name("out")


def test_an_equal_plan_changes_nothing() -> None:
    both, new, _ = transitions("app", counts("1 s"), counts("1 s"), 1)
    assert both == new == counts("1 s")
    assert not both.transition.switches
