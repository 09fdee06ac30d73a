"""The monitor turns counters of the machine into a stream, with readings that the test gives."""

from __future__ import annotations

from collections import namedtuple

import psutil
import pytest

from synergy_nb.runtime.process._machine_monitor import Counters, Row, read_counters, sample

Times = namedtuple("Times", "user nice system idle iowait irq softirq steal guest guest_nice")


def test_time_of_guests_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # idle and iowait are 800 + 50; time of guests is already part of user time
    times = Times(100.0, 20.0, 30.0, 800.0, 50.0, 6.0, 4.0, 10.0, 70.0, 5.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    found = read_counters()
    assert (found.busy, found.idle) == (170.0, 850.0)


def test_load_is_the_difference_of_two_readings() -> None:
    before = Counters(process=1.0, busy=10.0, idle=90.0, resident=0, used=0, cores=2)
    after = Counters(process=2.0, busy=13.0, idle=97.0, resident=5, used=6, cores=2)
    assert sample(before, after, {"b": 0.2, "a": 0.1}) == [
        Row("cpu", "process", 0.1),
        Row("cpu", "machine", 0.3),
        Row("memory", "process", 5.0),
        Row("memory", "machine", 6.0),
        Row("ping", "a", 0.1),
        Row("ping", "b", 0.2),
    ]


def test_equal_readings_give_no_row_of_cpu_load() -> None:
    reading = Counters(1.0, 10.0, 90.0, 0, 0, 2)
    assert [row.metric for row in sample(None, reading)] == ["memory", "memory"]
    assert [row.metric for row in sample(reading, reading)] == ["memory", "memory"]


def test_counters_that_run_backwards_never_give_a_load_outside_0_to_1() -> None:
    # Linux corrects idle time backwards; a process's ticks are rounded by themselves
    rows = sample(Counters(1.0, 10.0, 90.0, 0, 0, 2), Counters(3.0, 11.0, 89.0, 0, 0, 2))
    assert rows[:2] == [Row("cpu", "process", 1.0), Row("cpu", "machine", 1.0)]


def test_counters_of_this_machine_never_fall() -> None:
    first = read_counters()
    second = read_counters()
    assert second.process >= first.process > 0
    assert second.busy + second.idle > 0
    assert 0 < first.resident <= first.used * 2
    assert first.cores >= 1
