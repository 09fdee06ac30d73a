"""The speed of a live peer: what other programs leave of a processor, and how fast that is."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

from synergy_nb.control.driver_messages import SpeedMeasured
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.runtime.process import processor_share
from synergy_nb.runtime.process._peer_reports import ENOUGH, REFERENCE_S, MeasuredOverheads
from synergy_nb.runtime.process.processor_share import ProcessorShare, note_speeds, scheduled
from tests.stream_bench import component


def work_of(operator: str, waited: float) -> Work:
    made = component("n", operator=operator)
    made.waited_s = waited
    return Work(made, 0, [], [], ORIGIN)


def test_an_execution_has_the_share_of_the_processor_except_while_it_slept() -> None:
    last = work_of("g", 0.0), ExecutionOutcome(2.0, 2.5)
    work, outcome = work_of("f", 0.6), ExecutionOutcome(1.0, 2.0, then=last)
    note_speeds(work, outcome, 0.5)
    assert (outcome.speed, last[1].speed) == pytest.approx((0.8, 0.5))
    assert work.component.waited_s == 0.0
    for number in range(8):
        work.component.executed(100, 1.0, 2.0 + number, outcome.speed)
    assert (work.component.work, work.component.processing) == pytest.approx((0.008, 0.010))
    asleep = ExecutionOutcome(1.0, 1.0)
    note_speeds(work, asleep, 0.5)
    assert asleep.speed == 0.5


def test_only_intervals_count_in_which_the_process_ran() -> None:
    times = iter([(0.0, 0.0), (0.3, 0.9), (0.31, 0.9), (0.2, 0.9), (1.2, 0.9)])
    share = ProcessorShare(lambda: next(times))
    assert [share.at(float(second)) for second in range(5)] == [1.0, 0.25, 1.0, 1.0, 1.0]
    assert ProcessorShare(lambda: (0.0, 0.0)).at(5.0) == 1.0, "a system without such statistics"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts how long threads wait for a processor")
def test_the_system_counts_how_long_all_threads_of_a_process_ran() -> None:
    before = scheduled()
    thread = threading.Thread(target=lambda: sum(range(2_000_000)))
    thread.start()
    sum(range(2_000_000))
    assert max(scheduled()[0] for _ in range(10)) > before[0]  # nothing is told if a thread of others ends just then
    thread.join()


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_thread_that_has_just_ended_leaves_no_folder_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(3):  # threads whose statistics are gone, and others that have not been read yet
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(processor_share, "THREADS", str(tmp_path))
    assert scheduled() == (0.0, 0.0)
    gc.collect()


def test_a_speed_is_sent_to_the_peer_when_it_has_changed() -> None:
    sent: list[DriverMessage] = []

    overheads = MeasuredOverheads(0.0, sent.append)
    for number in range(ENOUGH):
        overheads.publish()
        assert not sent, number
        overheads.called(REFERENCE_S * (4.0 if number else 2.0))
    overheads.publish()
    overheads.publish()
    overheads.share.value = 0.95
    overheads.publish()
    overheads.share.value = 0.4
    overheads.publish()
    overheads.discount()  # what was measured while the peer started does not count
    for _ in range(ENOUGH):
        overheads.called(REFERENCE_S)
    overheads.publish()
    assert sent == [SpeedMeasured(1.0, 0.5), SpeedMeasured(0.4, 0.5), SpeedMeasured(0.4, 1.0)]
