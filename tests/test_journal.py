"""The journal: what readers see of it, and that it survives being written down."""

from __future__ import annotations

import pytest

from synergy_nb.journal import Event, Journal


def filled(events: int, capacity: int = 100_000) -> Journal:
    journal = Journal(capacity)
    for number in range(events):
        journal.append(
            Event(number / 2, "a", "probe_sent" if number % 2 else "probe_dropped", f"r{number % 3}", {"n": number})
        )
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


def test_events_are_found_by_what_they_are_about_and_by_kind() -> None:
    journal = filled(12)
    assert [event.detail["n"] for event in journal.about("r1")] == [1, 4, 7, 10]
    assert [event.detail["n"] for event in journal.about("r1", ["probe_sent"])] == [1, 7]


def test_a_journal_is_read_back_as_it_was_written() -> None:
    journal = filled(8)
    assert list(Journal.from_json_lines(journal.to_json_lines())) == list(journal)
