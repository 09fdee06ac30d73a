"""A peer that relieves itself: how long it rests after a migration, and when a move may begin before the answer."""

from __future__ import annotations

import math

import pytest

from synergy_nb.algorithms.migration._candidates import Candidate
from synergy_nb.algorithms.migration._relief import Relief, Rest
from synergy_nb.algorithms.migration._selection import Selection


def lasts(rest: Rest, utilisation: float, *times: float) -> list[bool]:
    return [rest.lasts(now, utilisation) for now in times]


def test_a_peer_does_not_rest_before_the_first_migration() -> None:
    assert not Rest(3.0).lasts(0.0, 0.5)


def test_a_rest_has_a_least_length_at_any_utilisation() -> None:
    rest = Rest(3.0)
    rest.begin(100.0)
    for utilisation in (0.0, 0.99, 1.0, 2.0):
        assert lasts(rest, utilisation, 100.0, 102.9, 103.0) == [True, True, False]


def test_a_rest_lasts_until_the_queue_can_have_drained_unless_the_load_exceeds_the_peer_again() -> None:
    rest = Rest(1.0)
    rest.begin(100.0, queue=2.0, utilisation=0.5)  # empty after 2 / (1 - 0.5) seconds
    assert lasts(rest, 0.9, 101.0, 103.9, 104.0) == [True, True, False]
    assert lasts(rest, 1.0, 100.9, 101.0, 103.9) == [True, False, False]


def test_a_queue_gets_ten_seconds_to_drain_at_most_and_one_that_grows_gets_none() -> None:
    rest = Rest(1.0)
    rest.begin(100.0, queue=50.0, utilisation=0.5)
    assert lasts(rest, 0.5, 109.9, 110.0) == [True, False]
    growing = Rest(1.0)
    growing.begin(100.0, queue=2.0, utilisation=1.0)
    assert lasts(growing, 0.5, 100.9, 101.0) == [True, False]


def test_a_search_without_a_target_ends_no_longer_rest() -> None:
    rest = Rest(1.0)
    rest.begin(100.0, queue=2.0, utilisation=0.5)
    rest.begin(101.0)
    assert lasts(rest, 0.5, 103.9, 104.0) == [True, False]


@pytest.mark.parametrize(
    ("load", "speed", "begins"), [(0.5, 1.0, True), (0.6, 1.0, False), (0.75, 2.0, True), (0.8, 2.0, False)]
)
def test_a_move_begins_before_the_answer_only_where_the_first_peer_has_published_room(
    load: float, speed: float, begins: bool
) -> None:
    relief = Relief(("app", "f"), Selection(("app/f", "other/app/g"), 2.0, 1.0, {}), 5.0, act=True)
    assert relief.waiting == [("app", "f"), ("other/app", "g")]
    relief.offer(["dead", "p", "q"], {"p": Candidate("p", load, speed), "q": Candidate("q", 0.0, 9.0)})
    assert relief.next_candidate("dead".__eq__) == "p"
    relief.ask(1, 0.45, 7.0)
    assert (relief.moving, relief.asked_at) == (begins, 7.0)
    assert relief.next_candidate("dead".__eq__) == "q"
    relief.ask(2, 0.0, 8.0)
    assert not relief.moving, "the second one that is asked has to answer first"
    assert relief.next_candidate("dead".__eq__) == relief.asked == ""
    assert relief.selection.moved[0] == "app/f"
    assert math.isfinite(relief.began)
