"""Load levels: worked examples of the frequency of reports."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.models.overlapping_levels import OverlappingLevels
from tests.overlay.walks import WALK, reported


@pytest.mark.parametrize(
    ("overlap", "expected"), [(0.0, [16, 16, 23, 19, 27]), (0.2, [8, 10, 17, 17, 20]), (0.5, [8, 10, 13, 15, 17])]
)
def test_the_number_of_reports_over_a_walk_depends_on_levels_and_overlap(overlap: float, expected: list[int]) -> None:
    assert [len(reported(WALK, levels, overlap)) for levels in range(3, 8)] == expected


@pytest.mark.parametrize(
    ("overlap", "levels", "expected"), [(0.0, 4, 15), (0.2, 4, 11), (0.2, 7, 21), (0.5, 4, 11), (0.5, 7, 18)]
)
def test_a_load_on_the_boundary_is_in_the_higher_level(overlap: float, levels: int, expected: int) -> None:
    """The load of 10 in the walk: just below it, reports are others."""
    below = [9.999 if load == 10.0 else load for load in WALK]
    assert len(reported(below, levels, overlap)) == expected != len(reported(WALK, levels, overlap))


def test_the_reported_loads_of_a_walk_are_those_by_hand() -> None:
    assert reported(WALK, 3) == [12, 17, 21, 26, 28, 29, 36, 39]


def test_a_load_that_goes_to_and_fro_is_reported_without_overlap_only() -> None:
    saw = [4.9, 5.1] * 20
    assert [len(reported(saw, 3, overlap)) for overlap in (0.0, 0.02, 0.05, 0.2)] == [39, 39, 0, 0]


@pytest.mark.parametrize("levels", range(3, 8))
def test_a_jump_is_one_report_however_many_levels_it_crosses(levels: int) -> None:
    assert len(reported([0.0, 12.0] * 20, levels)) == 39
    ramp = [number / 100 for number in (*range(1201), *range(1200, -1, -1))]
    assert len(reported(ramp, levels)) == 2 * (levels - 1)


def test_a_report_contains_the_load_itself() -> None:
    levels = OverlappingLevels()
    assert levels.reported is None
    assert levels.leaves(3.3)
    assert not levels.leaves(4.0)
    assert levels.reported == 3.3


@given(st.lists(st.floats(0.0, 20.0), max_size=30), st.integers(2, 9), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_the_last_report_is_never_further_off_than_a_level(loads: list[float], levels: int, overlap: float) -> None:
    found = OverlappingLevels(levels, overlap=overlap)
    width = 10.0 / (levels - 1)
    for load in loads:
        found.leaves(load)
        assert found.reported is not None
        both_severe = min(load, found.reported) >= 10.0 - overlap * width / 2.0
        assert both_severe or abs(load - found.reported) <= width * (1.0 + overlap) + 1e-9


def test_without_overlap_each_change_of_level_is_reported() -> None:
    found = OverlappingLevels(4, overlap=0.0)
    changes = sum(found.level(before) != found.level(after) for before, after in itertools.pairwise(WALK))
    assert len(reported(WALK, 4, 0.0)) == changes


def test_values_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="levels: 1; expected at least 2"):
        OverlappingLevels(1)
    with pytest.raises(ValueError, match=r"overlap, severe: 2, 10\.0; expected a share from 0 to 1"):
        OverlappingLevels(overlap=2)
    with pytest.raises(ValueError, match="load: -1; expected a finite number from 0"):
        OverlappingLevels().leaves(-1)
