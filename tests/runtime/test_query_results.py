"""Results of a part on Spark: what waits for room, what is emitted completely, and what Spark may commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.runtime.data._query_results import CommitHold, HandedStep, HandedSteps, OutputRoom


def test_a_micro_batch_is_emitted_once_all_its_results_are_and_one_without_results_at_once() -> None:
    steps = HandedSteps(ORIGIN)
    first, second, empty = (HandedStep(None, Point(end, 0)) for end in (3, 5, 5))
    assert [steps.hand(each) for each in (first, second, empty)] == [False] * 3
    assert not steps.emit(Point(2, 0))
    assert steps.emit(Point(3, 0))
    assert steps.last is first
    assert steps.emit(Point(5, 0))
    assert steps.last is empty
    assert steps.hand(HandedStep(None, Point(5, 0)))


def test_a_part_without_copies_that_wait_holds_no_commit() -> None:
    hold = CommitHold()
    assert hold.release(0)
    hold.set_copies(copies=True, safe=False)
    assert (hold.release(1), hold.copies, hold.released) == (True, True, 1)


def test_a_commit_is_held_until_the_copies_have_its_results_or_the_part_leaves() -> None:
    hold = CommitHold()
    hold.resume(4)
    hold.set_copies(copies=True, safe=True)
    with ThreadPoolExecutor(2) as threads:
        held = [threads.submit(hold.release, batch) for batch in (5, 6)]
        hold.replicated(5)
        assert held[0].result()
        assert not held[1].done()
        assert hold.released == 5
        hold.stop()
        assert not held[1].result()
    assert hold.release(5), "all copies have it"


def test_a_folder_is_waited_for_from_the_beginning_and_never_left_behind() -> None:
    hold = CommitHold(kept=True)
    hold.set_copies(copies=False, safe=False)
    with ThreadPoolExecutor(2) as threads:
        known, held = threads.submit(hold.know), threads.submit(hold.release, 0)
        assert (hold.copies, known.done(), held.done()) == (True, False, False)
        hold.replicated(-1)  # it has a snapshot that knows of no micro-batch
        assert known.result()
        assert not held.done()
        hold.replicated(0)
        assert held.result()


def test_a_part_that_leaves_before_the_folder_knows_it_waits_no_longer() -> None:
    hold = CommitHold(kept=True)
    hold.stop()
    assert not hold.know()


@pytest.mark.parametrize("way", ["free", "stop"])
def test_results_wait_for_room_until_some_is_freed_or_the_part_leaves(way: str) -> None:
    room = OutputRoom(10)
    room.take(12)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(room.take, 5)
        assert not waits.done()
        room.free(4) if way == "free" else room.stop()
        waits.result()
    assert room.taken == (13 if way == "free" else 17)
