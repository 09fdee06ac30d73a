"""How far the season of a profile is believed: by what it foretold and what came."""

from __future__ import annotations

import math

import pytest

from synergy_nb.models.season_weight import SeasonWeight

DAY = 24  # seconds


def level(second: int) -> float:
    return 1.5 + math.sin(2.0 * math.pi * second / DAY)


def weighed(days: int, *, foretold: int, ahead: int = 5) -> SeasonWeight:
    """The weight after some days whose season a profile tells ``foretold`` seconds too early."""
    weight = SeasonWeight(ahead)
    for second in range(days * DAY):
        told = [level(second + foretold + each) for each in range(ahead + 1)]
        weight.add(100.0 * level(second), sum(told[1:]) / ahead / told[0])
    return weight


def test_a_season_that_comes_as_foretold_keeps_its_weight() -> None:
    assert weighed(10, foretold=0).value == pytest.approx(1.0)


@pytest.mark.parametrize("foretold", [6, 12, 18])
def test_one_that_is_off_by_hours_loses_it_within_two_days(foretold: int) -> None:
    assert weighed(2, foretold=foretold).value < 0.2


def test_rates_that_never_change_take_the_weight_of_a_season_that_tells_changes() -> None:
    weight = SeasonWeight(2)
    for second in range(2 * DAY):
        weight.add(100.0, level(second + 1) / level(second))
    assert weight.value < 0.3


def test_a_season_may_win_its_weight_back() -> None:
    weight = weighed(2, foretold=12)
    lost = weight.value
    for second in range(30 * DAY):
        told = [level(second + each) for each in range(6)]
        weight.add(100.0 * level(second), sum(told[1:]) / 5 / told[0])
    assert lost < 0.1
    assert weight.value > 0.8


def test_nothing_is_compared_before_all_seconds_ahead_have_come_nor_where_nothing_comes() -> None:
    weight = SeasonWeight(5)
    for _ in range(5):
        weight.add(10.0, 3.0)
    assert weight.value == 1.0
    weight.add(10.0, 3.0)
    assert weight.value < 1.0
    silent = SeasonWeight(1)
    for _ in range(5):
        silent.add(0.0, 3.0)
    assert silent.value == 1.0
