"""The journal: its readers, and its encoding and decoding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from synergy_nb.events import ComponentMeasurements, Event, PeerMeasured
from synergy_nb.events.journal import Journal


class Counted(Event, frozen=True, gc=False):
    """Something with a number."""

    n: int


class Other(Counted, frozen=True, gc=False):
    """Something else with a number."""


class Odd(Counted, frozen=True, gc=False):
    """Something with an odd number, and with plain values of several types."""

    several: Sequence[int | None]


def filled(events: int, capacity: int = 100_000) -> Journal:
    journal = Journal(capacity)
    for number in range(events):
        time, subject = number / 2, f"r{number % 3}"
        odd = Odd(time, "a", subject, number, several=[number, None])
        journal.append(odd if number % 2 else Other(time, "a", subject, number))
    return journal


def test_readers_follow_by_sequence_number() -> None:
    journal = filled(10)
    assert [event.sequence for event in journal.since(7)] == [7, 8, 9]
    assert [event.sequence for event in journal.since(2, limit=3)] == [2, 3, 4]
    assert journal.since(journal.next_sequence) == []


def test_the_oldest_go_first_and_a_reader_sees_the_gap() -> None:
    journal = filled(10, capacity=4)
    assert len(journal) == 4
    assert [event.sequence for event in journal.since(0)] == [6, 7, 8, 9]
    with pytest.raises(ValueError, match="capacity: 0 events; expected at least 1"):
        Journal(0)


def test_events_are_found_by_subject_and_kind() -> None:
    journal = filled(12)
    assert [event.detail["n"] for event in journal.about("r1")] == [1, 4, 7, 10]
    assert [event.n for event in journal.about("r1", Counted)] == [1, 4, 7, 10]
    assert [event.n for event in journal.about("r1", Odd)] == [1, 7]


@pytest.mark.parametrize("events", [0, 1, 1023, 1024, 2047, 2048, 2049, 3072, 10_000])
@pytest.mark.parametrize("capacity", [100_000, 3000, 2048, 5])
def test_older_events_that_are_encoded_read_like_those_that_are_not(events: int, capacity: int) -> None:
    plain, packed = Journal(capacity), Journal(capacity, volume=1 << 20)
    for number in range(events):
        odd = Odd(number / 2, "a", f"r{number % 7}", number, several=[number, None])
        event = odd if number % 2 else Other(number / 2, "a", f"r{number % 7}", number)
        assert plain.append(event) == packed.append(event)
    assert len(packed) == len(plain)
    assert list(packed) == list(plain)
    assert packed.next_sequence == plain.next_sequence
    for since in (0, 1, 1000, 1024, 2047, 2048, 5000, events - 1, events):
        for limit in (None, 0, 1, 1500):
            assert packed.since(since, limit) == plain.since(since, limit)
    assert packed.about("r3", Odd) == plain.about("r3", Odd)


@pytest.mark.slow
def test_the_events_of_a_journal_are_bounded_in_bytes() -> None:
    journal = Journal(volume=200_000)
    for number in range(50_000):
        components = [
            ComponentMeasurements(f"a{each}", "filter", "filter", 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, None, 0)
            for each in range(10)
        ]
        journal.append(PeerMeasured(float(number), "a", "", 0.0, 0, 0.5, 0.0, components))
    kept = list(journal)
    assert 2048 > len(kept) >= 1024
    assert [event.sequence for event in kept] == list(range(50_000 - len(kept), 50_000))
    assert journal._bytes <= 200_000
    with pytest.raises(ValueError, match="volume: 0 bytes; expected at least 1"):
        Journal(volume=0)
