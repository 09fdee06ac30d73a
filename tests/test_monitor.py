"""The monitor reads /proc rightly and turns readings into a stream, with a clock and readings that the test gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from synergy_nb.runtime.process import machine_monitor
from synergy_nb.runtime.process.machine_monitor import Counters, Row, parse_proc, read_counters, sample

STAT = """\
cpu  100 20 30 800 50 6 4 10 70 5
cpu0 50 10 15 400 25 3 2 5 35 3
cpu1 50 10 15 400 25 3 2 5 35 2
intr 1 2 3
"""
MEMINFO = "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     400 kB\n"
SELF = "77 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 1 2 3\n"
STATM = "900 200 30 1 0 100 0\n"


def test_proc_is_read_by_its_manual_page() -> None:
    found = parse_proc(STAT, MEMINFO, SELF, STATM, ticks=100, page=4096)
    # idle and iowait are 800 + 50; guest time is already part of user time
    assert found == Counters(process=2.0, busy=1.7, idle=8.5, resident=200 * 4096, used=600 * 1024, cores=2)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("", MEMINFO, SELF, STATM), "/proc/stat: ''; expected 'cpu'"),
        (("cpu  1 2 x 4", MEMINFO, SELF, STATM), "/proc/stat: 'cpu  1 2 x 4'"),
        ((STAT, "MemTotal: 5 kB\n", SELF, STATM), "/proc/meminfo: .*expected MemTotal and MemAvailable"),
        ((STAT, MEMINFO, "77 (a) S 1", STATM), "/proc/self/stat: .*expected user and system time"),
        ((STAT, MEMINFO, SELF, "5"), "/proc/self/statm: '5'; expected resident pages"),
    ],
)
def test_a_strange_proc_is_refused_by_the_name_of_the_file(texts: tuple[str, str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_proc(*texts, ticks=100, page=4096)


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


def test_no_load_without_a_difference() -> None:
    reading = Counters(1.0, 10.0, 90.0, 0, 0, 2)
    assert [row.metric for row in sample(None, reading)] == ["memory", "memory"]
    assert [row.metric for row in sample(reading, reading)] == ["memory", "memory"]


def test_counters_that_run_backwards_never_give_a_load_outside_0_to_1() -> None:
    # Linux corrects idle time backwards; a process's ticks are rounded by themselves
    rows = sample(Counters(1.0, 10.0, 90.0, 0, 0, 2), Counters(3.0, 11.0, 89.0, 0, 0, 2))
    assert rows[:2] == [Row("cpu", "process", 1.0), Row("cpu", "machine", 1.0)]


def test_this_machine() -> None:
    first = read_counters()
    second = read_counters()
    assert second.process >= first.process > 0
    assert second.busy + second.idle > 0
    assert 0 < first.resident <= first.used * 2
    assert first.cores >= 1


def test_machines_without_proc_are_read_by_psutil(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = read_counters()
    monkeypatch.setattr(machine_monitor, "PROC", (str(tmp_path / "none"),))
    found = read_counters()
    assert found.cores >= 1
    if sys.platform == "linux":
        assert found.process == pytest.approx(expected.process, abs=1.0)
        assert found.resident == pytest.approx(expected.resident, rel=0.2)
