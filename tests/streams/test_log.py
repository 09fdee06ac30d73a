"""The log of an output and the cursors of its readers, driven by hand."""

from __future__ import annotations

import pytest

from synergy_nb.dataflow.streams.log.log import Cursor, CursorState, Limits, LogTrimmed, StreamLog
from synergy_nb.dataflow.streams.log.values import (
    CLIENT,
    COPY,
    ORIGIN,
    OVERHEAD,
    Chunk,
    OnLag,
    Point,
    Reader,
    chunks_of,
)
from synergy_nb.dataflow.tuples import START, Punctuation
from tests.streams.items import batch, values

READER = Reader("app", "sink", 0, "b")
SECOND = Reader("app", "other", 0, "c")
SHARER = Reader("reader", "count", 0, "d")
BACKUP = Reader("app", "source", COPY, "e")
ROOM = OVERHEAD  # bytes of a chunk that is a promise


def filled(chunks: int, window: int = 1 << 20, retain: int = 1 << 20) -> StreamLog:
    """A log that one reader is expected to read, with some promises, each of the same size."""
    log = StreamLog(limits=Limits(window, retain))
    log.expect(READER)
    emit(log, chunks)
    return log


def emit(log: StreamLog, chunks: int) -> None:
    first = max(log.end.until, 0) + 1
    log.append(chunks_of([Punctuation(first + number, log.end.position, 0.0) for number in range(chunks)], log.end))


def blocked(log: StreamLog) -> bool:
    return log.blocked


def at(until: int) -> Point:
    return Point(0, until)


def untils(chunks: list[Chunk]) -> list[int]:
    return [each.end.until for each in chunks]


def had(log: StreamLog, reader: Reader, until: int, durable: int | None = None) -> None:
    """A reader says that it has consumed all up to a place."""
    log.acknowledge(reader, at(until), at(until), at(until if durable is None else durable))


# -- windows -------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_a_reader_subscribes() -> None:
    log = filled(2)
    assert log.due(log.cursors[READER]) == []
    assert untils(log.due(log.subscribe(READER, None))) == [1, 2]


def test_tuples_sent_and_not_consumed_fit_into_the_window() -> None:
    log = filled(9, window=4 * ROOM)
    cursor = log.subscribe(READER, None)
    assert untils(log.due(cursor)) == [1, 2, 3, 4]
    assert log.due(cursor) == []
    log.acknowledge(READER, at(4), at(2), at(2))  # credit is what was consumed, not what was received
    assert untils(log.due(cursor)) == [5, 6]
    had(log, READER, 6)
    assert untils(log.due(cursor)) == [7, 8, 9]


def test_a_chunk_larger_than_half_a_window_goes_once_half_of_it_is_free() -> None:
    log = StreamLog(limits=Limits(window=4 * ROOM, retain=1 << 20))
    cursor = log.subscribe(READER, ORIGIN)
    emit(log, 3)
    log.append(chunks_of([batch(0, 40)], log.end))
    assert untils(log.due(cursor)) == [1, 2, 3]
    log.acknowledge(READER, at(3), at(1), at(1))
    assert len(log.due(cursor)) == 1, "half is free"


def test_a_withheld_punctuation_takes_no_room_from_the_tuples_behind_it() -> None:
    log = StreamLog(limits=Limits(window=400, retain=4_000))
    cursor = log.subscribe(READER, ORIGIN)
    log.append(chunks_of([batch(0, 1), Punctuation(5, 1, 0.0), batch(1, 20), batch(21, 20)], ORIGIN))
    assert len(log.due(cursor)) == 3
    log.acknowledge(READER, Point(21, 5), Point(21, START), ORIGIN)
    assert values(log.due(cursor)) == [list(range(21, 41))]


def test_after_a_broken_link_only_received_tuples_count_as_sent() -> None:
    log = filled(4)
    cursor = log.subscribe(READER, None)
    log.due(cursor)
    log.acknowledge(READER, at(2), at(1), at(1))
    cursor.sent = cursor.received
    assert untils(log.due(cursor)) == [3, 4]


def test_an_acknowledgement_of_the_past_changes_nothing() -> None:
    log = filled(4)
    cursor = log.subscribe(READER, None)
    log.due(cursor)
    had(log, READER, 3)
    had(log, READER, 1)
    assert (cursor.received, cursor.consumed, cursor.durable) == (at(3), at(3), at(3))
    assert log.due(cursor) == []


def test_messages_of_peers_that_are_no_readers_are_ignored() -> None:
    log = filled(2)
    assert not log.acknowledge(SECOND, at(2), at(2), at(2))
    assert len(log) == 2


# -- what is kept --------------------------------------------------------------------------------------------------


def test_the_log_is_trimmed_to_the_least_durable_place() -> None:
    log = filled(5)
    log.expect(SECOND)
    had(log, READER, 4)
    assert len(log) == 5
    had(log, SECOND, 5, durable=2)
    assert (len(log), log.start, log.size) == (3, at(2), 3 * ROOM)
    log.unsubscribe(SECOND)
    assert log.start == at(4)


def test_copies_do_not_delay_trimming_and_a_copy_retains_all_until_it_is_told_to_trim() -> None:
    log = filled(3)
    log.subscribe(BACKUP, None, OnLag.RESYNC)
    had(log, READER, 3)
    assert len(log) == 0
    copy = StreamLog()
    copy.retains_all = True
    emit(copy, 3)
    assert len(copy) == 3
    copy.trim(at(2))
    assert (len(copy), copy.start) == (1, at(2))
    copy.trim(at(5))
    emit(copy, 3)
    assert untils(copy.chunks(ORIGIN)) == [6], "what comes later goes, too"


def test_a_log_without_readers_retains_nothing() -> None:
    log = StreamLog()
    emit(log, 3)
    assert (len(log), log.end) == (0, at(3))


def test_chunks_follow_one_another() -> None:
    log = filled(2)
    with pytest.raises(ValueError, match=r"expected Point\(position=0, until=2\)"):
        log.append(chunks_of([Punctuation(9, 0, 0.0)], ORIGIN))


def test_the_bytes_between_two_points_are_right_after_trimming() -> None:
    log = filled(6)
    had(log, READER, 4)
    emit(log, 2)
    assert log.between(at(4), at(7)) == 3 * ROOM
    assert log.between(at(0), log.end) == log.size == 4 * ROOM
    assert log.between(log.end, at(5)) == 0


# -- who reads -----------------------------------------------------------------------------------------------------


def test_the_log_retains_tuples_for_an_expected_reader() -> None:
    log = StreamLog()
    log.expect(READER)
    emit(log, 3)
    cursor = log.subscribe(READER, None)
    assert untils(log.due(cursor)) == [1, 2, 3]


def test_an_unexpected_reader_begins_at_the_end_and_a_copy_at_the_beginning() -> None:
    log = filled(3)
    assert log.subscribe(SHARER, None).sent == at(3)
    assert log.subscribe(BACKUP, None).sent == ORIGIN


def test_a_successor_begins_at_the_durable_position_of_the_reader_that_it_replaces() -> None:
    log = filled(4)
    log.subscribe(READER, None)
    log.due(log.cursors[READER])
    had(log, READER, 4, durable=2)
    heir = READER._replace(peer="f", epoch=1)
    cursor = log.expect(heir)
    assert READER not in log.cursors
    assert cursor.state is CursorState.EXPECTED
    assert (cursor.sent, cursor.consumed, cursor.durable) == (at(2), at(2), at(2))
    assert untils(log.due(log.subscribe(heir, at(2)))) == [3, 4]


def test_a_successor_of_two_readers_begins_at_the_one_for_which_tuples_are_retained() -> None:
    log = filled(4)
    log.subscribe(READER, None)
    log.due(log.cursors[READER])
    had(log, READER, 4, durable=1)
    follower = log.subscribe(READER._replace(peer="f", epoch=1), at(3), OnLag.RESYNC)
    assert follower.durable == at(3)
    cursor = log.expect(READER._replace(peer="g", epoch=2))  # the follower has died, too
    assert list(log.cursors.values()) == [cursor]
    assert (cursor.sent, cursor.durable) == (at(1), at(1))


def test_a_follower_that_replaces_a_reader_continues_and_retains_the_same_tuples() -> None:
    log = filled(4)
    log.subscribe(READER, None)
    had(log, READER, 3, durable=1)
    heir = READER._replace(peer="f", epoch=1)
    follower = log.subscribe(heir, at(1), OnLag.RESYNC)
    log.due(follower)
    had(log, heir, 4)
    assert log.start == at(1), "nobody waits for one that follows"
    assert log.expect(heir) is follower
    assert (follower.on_lag, follower.sent, follower.durable) == (OnLag.BLOCK, at(4), at(1))
    assert log.start == at(1)
    had(log, heir, 4)
    emit(log, 1)
    assert untils(log.due(follower)) == [5]


def test_a_recreated_follower_reads_the_tuples_of_its_predecessor_again() -> None:
    log = filled(4)
    log.subscribe(READER, None)
    follower = log.subscribe(READER._replace(peer="f", epoch=1), at(1), OnLag.RESYNC)
    log.due(follower)
    had(log, follower.reader, 4)
    assert log.subscribe(follower.reader, at(2), OnLag.RESYNC) is follower
    assert untils(log.due(follower)) == [3, 4]


def test_a_reader_of_an_earlier_epoch_replaces_nobody() -> None:
    log = filled(2)
    late = READER._replace(peer="f", epoch=1)
    log.expect(late)
    assert READER not in log.cursors
    log.expect(READER)
    assert {READER, late} == set(log.cursors)


def test_an_outdated_subscription_does_not_send_received_tuples_again() -> None:
    log = filled(4)
    cursor = log.subscribe(READER, None)
    log.due(cursor)
    had(log, READER, 3, durable=2)
    log.subscribe(READER, at(1))
    assert untils(log.due(cursor)) == [4]


def test_a_component_that_is_created_anew_reads_from_its_snapshot_on() -> None:
    """A follower may become a backup and then active, before its farewell has arrived at its producer."""
    log = filled(4)
    cursor = log.subscribe(READER, None)
    log.due(cursor)
    had(log, READER, 3, durable=1)
    log.subscribe(READER, at(1))
    assert untils(log.due(cursor)) == [2, 3, 4]


def test_an_outdated_subscription_of_a_follower_does_not_request_trimmed_tuples() -> None:
    log = filled(0)
    log.append(chunks_of([batch(0, 2), batch(2, 2)], ORIGIN))
    follower = READER._replace(peer="f", epoch=1)
    cursor = log.subscribe(follower, ORIGIN, OnLag.RESYNC)
    log.acknowledge(READER, Point(2, START), Point(2, START), Point(2, START))
    log.subscribe(follower, ORIGIN)  # it was sent before, and has been overtaken
    assert values(log.due(cursor)) == [[2, 3]]


def test_a_subscription_whose_answer_was_lost_is_answered_again() -> None:
    log = filled(4)
    cursor = log.subscribe(READER, None)
    log.due(cursor)
    log.subscribe(READER, ORIGIN)
    assert untils(log.due(cursor)) == [1, 2, 3, 4]


def test_a_reader_cannot_begin_at_trimmed_tuples_but_at_trimmed_punctuations() -> None:
    log = StreamLog()
    log.expect(READER)
    log.append(chunks_of([batch(0, 2), Punctuation(5, 2, 0.0), batch(2, 2)], ORIGIN))
    log.acknowledge(READER, *[Point(2, 5)] * 3)
    assert log.next_point(log.subscribe(SECOND, Point(2, START)).sent) == Point(2, 5)
    with pytest.raises(LogTrimmed, match="from position 1 on are requested; those from 2 on are retained"):
        log.subscribe(SHARER, Point(1, START))
    assert log.subscribe(BACKUP, Point(1, START)).sent == Point(2, 5), "a copy begins anew"


@pytest.mark.parametrize("reader", [BACKUP, READER._replace(peer="f", epoch=1)])
def test_a_reader_that_is_told_to_begin_later_has_received_that_only_once_it_says_so(reader: Reader) -> None:
    log = filled(2)
    follower = log.subscribe(reader, ORIGIN, OnLag.RESYNC)
    had(log, READER, 2)
    log.subscribe(reader, at(1), OnLag.RESYNC)
    assert (follower.sent, follower.received, log.start) == (at(2), at(1), at(2))
    had(log, reader, 2)
    assert follower.received == at(2)


def test_the_trim_position_is_the_beginning_of_the_first_needed_chunk() -> None:
    log = StreamLog()
    log.expect(READER)
    log.append(chunks_of([batch(0, 2), Punctuation(5, 2, 0.0), batch(2, 2)], ORIGIN))
    assert log.next_point(Point(1, START)) == ORIGIN
    assert log.next_point(Point(2, START)) == Point(2, START)
    assert log.next_point(Point(2, 7)) == Point(2, 5)
    assert log.next_point(Point(4, 5)) == Point(4, 5)


# -- who has to wait, and who fails ----------------------------------------------------------------------------------


def test_a_consumer_delays_its_producer_by_tuples_not_consumed_or_not_durable() -> None:
    log = filled(2, window=3 * ROOM, retain=5 * ROOM)
    log.subscribe(READER, None)
    assert not blocked(log)
    emit(log, 1)
    assert blocked(log)
    had(log, READER, 2, durable=0)
    assert not blocked(log)
    emit(log, 1)
    had(log, READER, 4, durable=0)
    assert not blocked(log)
    emit(log, 1)
    assert blocked(log), "five are kept for the sake of its state"
    had(log, READER, 4)
    assert not blocked(log)


def test_a_follower_is_blocked_until_it_is_told_which_tuples_nobody_needs() -> None:
    log = StreamLog(limits=Limits(2 * ROOM, 4 * ROOM))
    log.retains_all = True
    emit(log, 3)
    assert not blocked(log)
    emit(log, 1)
    assert blocked(log)
    log.trim(at(1))
    assert not blocked(log)


def test_copies_do_not_delay_the_producer() -> None:
    log = filled(0, window=2 * ROOM, retain=2 * ROOM)
    log.subscribe(BACKUP, None, OnLag.RESYNC)
    emit(log, 1)
    had(log, READER, 1)
    emit(log, 1)
    had(log, READER, 2)
    assert not blocked(log)


def test_a_sharer_that_needs_too_much_fails_alone_and_once() -> None:
    log = filled(0, window=2 * ROOM, retain=3 * ROOM)
    log.expect(SHARER, None, OnLag.FAIL)
    cursor = log.subscribe(SHARER, None, OnLag.FAIL)
    for _ in range(3):
        emit(log, 1)
        had(log, READER, log.end.until)
        assert not blocked(log), "a sharer holds nothing up beside a consumer"
        assert log.laggards() == []
    emit(log, 1)
    had(log, READER, 4)
    assert log.laggards() == [cursor]
    assert log.laggards() == []
    assert cursor.state is CursorState.LOST
    assert len(log) == 0, "nothing is kept for it"
    emit(log, 1)
    assert log.due(cursor) == []
    assert not log.acknowledge(SHARER, at(1), at(1), at(1))


def test_sharers_alone_set_the_pace_by_the_fastest_of_them() -> None:
    log = StreamLog(limits=Limits(4 * ROOM, 9 * ROOM))
    other = SHARER._replace(peer="f")
    for sharer in (SHARER, other):
        log.expect(sharer, None, OnLag.FAIL)
        log.subscribe(sharer, None, OnLag.FAIL)
    emit(log, 2)
    assert not blocked(log)
    emit(log, 1)
    assert blocked(log), "no sharer is within half a window"
    had(log, other, 1)
    assert not blocked(log)
    log.cursors[other].lose()
    assert blocked(log), "one that has failed is not counted"
    log.cursors[SHARER].lose()
    assert not blocked(log)


def mixed() -> StreamLog:
    log = StreamLog()
    log.retains_all = True
    log.append(chunks_of([batch(0, 3), Punctuation(15, 3, 0.0), batch(3, 3)], ORIGIN))
    return log


def test_a_cut_splits_a_batch_and_includes_the_punctuations_before_it() -> None:
    log = mixed()
    log.cut(Point(4, START))
    assert (log.end, values(log.chunks(ORIGIN))) == (Point(4, 15), [[0, 1, 2], 15, [3]])
    log.append(chunks_of([batch(4, 2)], log.end))
    assert log.size == sum(each.size for each in log.chunks(ORIGIN))


def test_a_cut_at_a_punctuation_includes_it_and_adds_a_missing_one() -> None:
    log = mixed()
    log.cut(Point(3, START))
    assert values(log.chunks(ORIGIN)) == [[0, 1, 2], 15]
    log.cut(Point(3, 20))
    assert (log.end, values(log.chunks(ORIGIN))) == (Point(3, 20), [[0, 1, 2], 15, 20])


@pytest.mark.parametrize("place", [Point(9, 40), Point(1, 40)])
def test_a_cut_at_a_position_outside_the_log_empties_it(place: Point) -> None:
    log = mixed()
    log.trim(Point(3, 15))
    log.cut(place)
    assert (log.start, log.end, len(log), log.size) == (place, place, 0, 0)


def test_the_text_of_a_cursor_names_its_reader() -> None:
    assert "consumed 0" in repr(Cursor(READER._replace(port=CLIENT), ORIGIN))
