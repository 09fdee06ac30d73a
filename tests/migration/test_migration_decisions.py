"""Decisions of migration: worked examples, brute force, and no ping-pong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.algorithms.migration import (
    Candidate,
    Execution,
    MoveHistory,
    Reservations,
    allowed_at,
    fewest,
    largest_first,
    least_loaded,
    project,
    slacks,
)
from synergy_nb.models.execution_times import ExecutionTimes, Predicted, RegressionLine

E1 = [
    Execution("p", 120, 0.004, 4e-5, 0.030),
    Execution("q", 300, 0.003, 5e-5, 0.045),
    Execution("r", 180, 0.002, 3e-5, 0.025),
    Execution("s", 90, 0.006, 4e-5, 0.040),
]
E2 = [
    Execution("big", 400, 0.002, 2e-5, 0.040),
    Execution("mid", 250, 0.003, 2e-5, 0.040),
    Execution("strict", 15, 0.010, 4e-5, 0.021),
    Execution("low", 60, 0.002, 2e-5, 0.030),
]
E3 = [Execution("a", 10, 0.001, 1e-5, 0.0105)] + [
    Execution(name, rate, 0.001, 1e-5, 0.02) for name, rate in (("b", 200), ("c", 300), ("d", 500), ("e", 500))
]


# -- what leaves -------------------------------------------------------------------------------------------------------


def test_the_least_number_of_components_leaves() -> None:
    present = slacks(E1)
    assert round(present["p"], 9) == -0.0016
    assert all(value > 0.0 for name, value in present.items() if name != "p")
    heuristic, exact = largest_first(E1), fewest(E1)
    assert heuristic is not None
    assert exact is not None
    assert (heuristic.moved, heuristic.before, heuristic.after) == (("q",), 690, 390)
    assert exact.moved == ("s",), "the least rate of those that are enough alone"
    assert set(exact.slacks) == {"p", "q", "r"}
    assert all(value > 0.0 for value in exact.slacks.values())


@pytest.mark.parametrize(
    ("executions", "total", "heuristic", "exact"),
    [(E2, 725, {"big", "mid"}, {"strict"}), (E3, 1510, {"e", "d"}, {"a"})],
)
def test_the_largest_rate_is_not_always_the_one_that_helps(
    executions: list[Execution], total: float, heuristic: set[str], exact: set[str]
) -> None:
    first, least = largest_first(executions), fewest(executions)
    assert first is not None
    assert least is not None
    assert first.before == least.before == total
    assert (set(first.moved), set(least.moved)) == (heuristic, exact)


def test_equal_rates_leave_by_slack_and_then_by_name() -> None:
    first = largest_first(E3)
    assert first is not None
    assert first.moved == ("d", "e"), "equal in rate and slack"
    tighter = [*E3[:-1], Execution("e", 500, 0.001, 1e-5, 0.019)]
    second = largest_first(tighter)
    assert second is not None
    assert second.moved == ("e", "d")


def test_nothing_leaves_where_all_have_slack() -> None:
    calm = [Execution("x", 10, 0.001, 1e-5, 0.02), Execution("y", 10, 0.001, 0.0, math.inf)]
    for choose in (largest_first, fewest):
        found = choose(calm)
        assert found is not None
        assert (found.moved, found.before, found.after) == ((), 20, 20)
        empty = choose([])
        assert empty is not None
        assert empty.moved == ()


def test_an_execution_with_a_slack_of_zero_leaves() -> None:
    exactly = [Execution("x", 100, 0.25, 0.0, 0.25)]
    for choose in (largest_first, fewest):
        found = choose(exactly)
        assert found is not None
        assert found.moved == ("x",)


def test_fixed_components_stay_and_others_leave() -> None:
    heuristic, exact = largest_first(E2, {"big"}), fewest(E2, {"strict"})
    assert heuristic is not None
    assert exact is not None
    assert "big" not in heuristic.moved
    assert set(exact.moved) == {"big", "low"}, "two leave, with the least rate that is enough"
    hopeless = [Execution("x", 5, 1.0, 0.0, 0.5), Execution("y", 5, 0.1, 0.0, 0.5)]
    assert largest_first(hopeless, {"x"}) is None
    assert fewest(hopeless, {"x"}) is None


numbers = st.integers(1, 40)
many = st.lists(st.tuples(numbers, st.integers(0, 20), st.integers(0, 3), st.integers(1, 160)), max_size=7)


@given(many, st.sets(st.integers(0, 6), max_size=2))
def test_the_fewest_are_as_few_as_brute_force_finds(rows: list[tuple[int, int, int, int]], fixed: set[int]) -> None:
    """Whole numbers, so that no rounding decides."""
    executions = [Execution(str(k), *map(float, row)) for k, row in enumerate(rows)]
    staying = {str(k) for k in fixed}

    def solves(leaving: tuple[Execution, ...]) -> bool:
        rest = [each for each in executions if each not in leaving]
        return all(value > 0.0 for value in slacks(rest).values()) and not staying & {each.name for each in leaving}

    least = next(
        (size for size in range(len(rows) + 1) if any(map(solves, itertools.combinations(executions, size)))), None
    )
    exact, heuristic = fewest(executions, staying), largest_first(executions, staying)
    if least is None:
        assert exact is None
        assert heuristic is None
        return
    assert exact is not None
    assert heuristic is not None
    assert len(exact.moved) == least <= len(heuristic.moved)
    for found in (exact, heuristic):
        assert solves(tuple(each for each in executions if each.name in found.moved))


def test_a_prediction_becomes_an_execution() -> None:
    rising = ExecutionTimes.of([(100.0, 0.01), (200.0, 0.02), (300.0, 0.031)]).predict(250.0, 1.0)
    found = Execution.of("x", 50.0, rising, 0.1, floor=0.012)
    assert found.seconds(250.0) == pytest.approx(rising.seconds)
    assert found.seconds(0.0) == 0.012
    measured = Execution.of("x", 50.0, Predicted(0.07, "last measurement", extrapolated=False, line=None), 0.1)
    assert (measured.seconds(0.0), measured.seconds(1e6)) == (0.07, 0.07)
    falling = RegressionLine(0.05, -1e-4, 1e-6, 9, 100.0, 50.0, 150.0)
    flat = Execution.of("x", 50.0, Predicted(0.04, "line", extrapolated=False, line=falling), 0.1)
    assert flat.seconds(400.0) == 0.04, "less load does not make it slower"
    assert (measured.tolerance, Execution("x", 1, 0.2, 0.0, 0.1).tolerance) == (math.inf, -math.inf)


def test_less_work_lets_a_growing_backlog_shrink() -> None:
    """A peer has 1.2 times the work that it can do: in 5 s times would be 1.3 s, and 0.3 s without a sixth of it."""
    growing = ExecutionTimes.of([(80.0, 0.3)]).predict(120.0, 1.0, load=1.2, horizon=5.0)
    found = Execution.of("x", 40.0, growing, 0.4, floor=0.01, total=120.0)
    assert found.seconds(120.0) == pytest.approx(growing.seconds) == pytest.approx(1.3)
    assert found.seconds(100.0) == pytest.approx(0.3), "a load of 1: what waits stays"
    assert found.seconds(10.0) == 0.01
    other = Execution.of("y", 80.0, growing, 0.4, floor=0.01, total=120.0)
    selected = fewest([found, other])
    assert selected is not None
    assert selected.moved == ("x",)


@pytest.mark.parametrize(
    ("executions", "message"),
    [
        ([Execution("x", 1, 0, 0, 1), Execution("x", 1, 0, 0, 1)], "expected distinct names"),
        ([Execution("x", -1, 0, 0, 1)], "rate, slope: -1, 0 of 'x'; expected finite numbers from 0"),
        ([Execution("x", 1, 0, -1, 1)], "rate, slope: 1, -1 of 'x'; expected finite numbers from 0"),
    ],
)
def test_executions_that_make_no_sense_are_refused(executions: list[Execution], message: str) -> None:
    for choose in (largest_first, fewest):
        with pytest.raises(ValueError, match=message):
            choose(executions)


# -- where it goes -----------------------------------------------------------------------------------------------------

T1 = [Execution("x", 200, 0.002, 3e-5, 0.020), Execution("y", 100, 0.004, 4e-5, 0.030)]
T2 = [Execution("z", 400, 0.002, 2e-5, 0.016)]


def newcomer(allowed: float) -> Execution:
    return Execution("new", 180, 0.002, 3e-5, allowed)


def test_the_least_loaded_node_may_refuse() -> None:
    order = least_loaded([Candidate("T2", 4.0), Candidate("S", 1.0), Candidate("T1", 3.0)], excluded={"S"})
    assert order == ["T1", "T2"]
    refused, accepted = project(T1, newcomer(0.015)), project(T2, newcomer(0.022))
    assert (refused.accepted, refused.rate, refused.tightest) == (False, 480, "new")
    assert [round(refused.slacks[name], 9) for name in ("x", "y", "new")] == [0.0036, 0.0068, -0.0014]
    assert (accepted.accepted, accepted.tightest) == (True, "z")
    assert [round(accepted.slacks[name], 9) for name in ("z", "new")] == [0.0024, 0.0026]
    assert project(T1, newcomer(0.025)).accepted, "the hops of the source would make it accept"


def test_a_margin_asks_for_more_slack() -> None:
    assert project(T2, newcomer(0.022), margin=0.0023).accepted
    assert not project(T2, newcomer(0.022), margin=0.0025).accepted


def test_running_components_have_to_keep_their_slack_at_the_target() -> None:
    found = project([Execution("z", 400, 0.002, 2e-5, 0.0135)], newcomer(0.022))
    assert (found.accepted, found.tightest) == (False, "z")


def test_hops_of_the_target_replace_those_of_the_source() -> None:
    """The dissertation's diamond, with C at a node that is 30 ms further from A and 10 ms nearer to D."""
    times = {"A": 0.022, "B": 0.055, "C": 0.340, "D": 0.040}
    here = {("A", "B"): 0.062, ("A", "C"): 0.070, ("B", "D"): 0.075, ("C", "D"): 0.058}
    there = here | {("A", "C"): 0.100, ("C", "D"): 0.048}
    at_source, at_target = (allowed_at("C", hops, times, {"D": 0.5}, {"A": 0.020}) for hops in (here, there))
    assert at_source == pytest.approx(0.312)
    assert at_target == pytest.approx(0.292)
    faster = times | {"C": 0.1}
    assert allowed_at("C", there, faster, {"D": 0.5}, {"A": 0.020}) == pytest.approx(0.292), "whatever it takes there"
    assert allowed_at("A", here, times, {"D": 0.5}, {}) == pytest.approx(0.5 - 0.070 - 0.340 - 0.058 - 0.040)


def test_of_several_producers_the_slowest_counts() -> None:
    hops = {("a", "join"): 0.02, ("b", "join"): 0.3, ("join", "sink"): 0.01}
    times = {"a": 0.1, "b": 0.1, "join": 0.05, "sink": 0.0}
    assert allowed_at("join", hops, times, {"sink": 1.0}, {"a": 0.1, "b": 0.1}) == pytest.approx(0.59)


def test_two_sources_do_not_get_the_same_room() -> None:
    reserved = Reservations(seconds=5.0)

    def ask(name: str, now: float) -> bool:
        wanted = newcomer(0.022)._replace(name=name)
        found = project([*T2, *reserved.at(now)], wanted)
        if found.accepted:
            reserved.reserve(wanted, now)
        return found.accepted

    assert [ask("first", 0.0), ask("second", 0.1), ask("first", 0.2)] == [True, False, True]
    reserved.release("first")
    assert ask("second", 0.3)
    assert not ask("first", 5.2)
    assert ask("first", 5.3), "the second never came, and its reservation has expired"


def test_values_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"seconds: 0\.0; expected a positive number"):
        Reservations(0.0)
    with pytest.raises(ValueError, match=r"memory, rest: -1\.0, 600\.0; expected seconds from 0"):
        MoveHistory(memory=-1.0)


# -- no ping-pong ------------------------------------------------------------------------------------------------------


def test_a_component_rests_after_its_last_move_not_only_after_its_first() -> None:
    history = MoveHistory(memory=600.0, rest=60.0)
    history.moved("app/sort", "p", "q", now=0.0)
    history.moved("app/sort", "q", "r", now=100.0)
    assert history.resting("app/sort", 159.0)
    assert not history.resting("app/sort", 160.0)


def test_a_component_does_not_go_back_at_once() -> None:
    history = MoveHistory(memory=600.0, rest=60.0)
    assert not history.resting("c", 0.0)
    assert history.left("c", 0.0) == set()
    history.moved("c", "p", "q", 0.0)
    history.moved("c", "q", "r", 100.0)
    assert history.left("c", 100.0) == {"p", "q"}
    assert history.left("c", 600.0) == {"q"}
    assert history.left("c", 700.0) == set()
    history.moved("c", "r", "p", 800.0)
    history.moved("c", "p", "r", 900.0)
    assert history.left("c", 900.0) == {"p"}, "it is at r again"
    history.forget("c")
    assert not history.resting("c", 900.0)


@pytest.mark.parametrize("seed", range(5))
def test_at_equal_load_nothing_moves_to_and_fro_for_ten_minutes(seed: int) -> None:
    """Three nodes near their limits, whose predictions vary: each application moves once, or not at all."""
    rng = np.random.default_rng(seed)

    def moves(history: MoveHistory | None) -> dict[str, list[tuple[str, str]]]:
        at = {f"a{number}": "xyz"[number % 3] for number in range(6)}
        found: dict[str, list[tuple[str, str]]] = {name: [] for name in at}
        for second in range(600):
            noise = {node: rng.normal(0.0, 0.004) for node in "xyz"}

            def executions(node: str, now: dict[str, float]) -> list[Execution]:
                return [Execution(name, 50.0, 0.01 + now[node], 1e-4, 0.025) for name in at if at[name] == node]

            for node in "xyz":
                selected = fewest(executions(node, noise))
                for name in selected.moved if selected is not None else ():
                    if history is not None and history.resting(name, second):
                        continue
                    left = history.left(name, second) if history is not None else set()
                    for target in least_loaded([Candidate(each, 1.0) for each in "xyz"], left | {node}):
                        wanted = Execution(name, 50.0, 0.01 + noise[target], 1e-4, 0.025)
                        if project(executions(target, noise), wanted).accepted:
                            at[name] = target
                            found[name].append((node, target))
                            if history is not None:
                                history.moved(name, node, target, second)
                            break
        return found

    without = moves(None)
    assert max(map(len, without.values())) > 2, "the projection alone does not prevent it"
    assert max(map(len, moves(MoveHistory()).values())) <= 1
    briefly = moves(MoveHistory(rest=0.0))
    assert all(len({node for node, _ in each}) == len(each) for each in briefly.values()), "never left the same twice"
