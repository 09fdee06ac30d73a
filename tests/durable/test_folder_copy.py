"""What is written of a component: which files there are, and which are removed when they are not needed any more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from synergy_nb.dataflow.streams.log.frames import Ack, Data, PieceReply, PieceRequest
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point
from synergy_nb.dataflow.tuples import START
from synergy_nb.durable._disk_files import DiskFiles
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.folder_copy import MOST_WAITING, PACKED
from synergy_nb.durable.records import DurableError, mark, packed
from synergy_nb.durable.restoring import restored
from tests.durable.durable_world import PowerFiles
from tests.durable.kept_component import Kept, piece_of, point
from tests.streams.items import batch


def test_output_is_acknowledged_once_it_is_to_be_written_and_is_read_again_as_it_was() -> None:
    kept = Kept()
    kept.begin()
    work = kept.emit(3)
    assert [type(each) for each in work.answers] == [Ack]
    assert kept.files.names() == ["f@0.0"]
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.log.end == point(3)
    assert found.copy.state is None


def test_pieces_that_are_missing_are_requested_and_the_snapshot_counts_when_they_are_there() -> None:
    kept = Kept()
    kept.begin()
    kept.emit(3)
    piece = piece_of(7, 500)
    (asked,) = kept.save(0, (piece,)).answers
    assert isinstance(asked, PieceRequest)
    assert asked.pieces == (7,)
    assert restored(kept.files, "f").copy.state is None  # type: ignore[union-attr]
    (ack,) = kept.take(PieceReply(kept.output, kept.copy.reader, piece)).answers
    assert isinstance(ack, Ack)
    assert ack.snapshot == 0
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.pieces == {7: piece.data}


def test_files_and_pieces_that_nobody_needs_are_removed() -> None:
    kept = Kept()
    kept.begin()
    for number in range(6):
        kept.emit(20, trimmed=kept.end)
        kept.save(number, (piece_of(number, 400),), (piece_of(number, 400),))
    assert len(kept.files.names()) <= 4
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.state is not None
    assert found.copy.state.number == 5
    assert found.copy.log.end == kept.end


def test_pieces_of_a_table_are_in_few_files_that_go_with_it() -> None:
    kept = Kept()
    kept.begin()
    first = tuple(piece_of(number, 10) for number in range(PACKED + 2))
    work = kept.save(0, first)
    while isinstance(asked := work.answers[0], PieceRequest):
        for number in asked.pieces:
            work = kept.take(PieceReply(kept.output, kept.copy.reader, first[number]))
    assert sorted(kept.files.names()) == ["f@0.0", "f@0.p0", f"f@0.p{PACKED}"]
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.pieces == {piece.number: piece.data for piece in first}
    kept.save(1, (piece_of(100, 10),), (piece_of(100, 10),))
    assert kept.files.names() == ["f@0.0"]


def test_output_back_to_the_last_snapshot_stays_though_no_reader_needs_it() -> None:
    kept = Kept()
    kept.begin()
    kept.save(0)
    for _ in range(8):
        kept.emit(20, trimmed=kept.end)
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.log.start == ORIGIN


def test_an_earlier_epoch_stays_until_a_snapshot_covers_what_the_folder_had_of_it() -> None:
    first = Kept()
    first.begin()
    first.save(0)
    first.emit(10)
    second = Kept(1, first.end, first.files)
    second.begin()
    second.save(0)  # before it has repeated anything
    assert any(name.startswith("f@0.") for name in first.files.names())
    second.emit(10)
    second.save(1)
    assert not any(name.startswith("f@0.") for name in first.files.names())


def test_what_a_replaced_component_writes_late_does_not_count() -> None:
    first = Kept()
    first.begin()
    first.emit(10)
    second = Kept(1, first.end, first.files)
    second.begin()
    second.emit(10)
    second.save(0)
    first.emit(5)  # to a file that was removed
    found = restored(first.files, "f")
    assert found is not None
    assert (found.copy.log.start, found.copy.log.end) == (ORIGIN, point(10))


def test_a_removed_file_that_is_back_after_a_power_failure_does_not_count() -> None:
    kept = Kept()
    kept.begin()
    first = dict(kept.files.found)
    for number in range(6):
        kept.emit(20, trimmed=kept.end)
        kept.save(number)
    assert "f@0.0" not in kept.files.found
    assert "f@0.1" not in kept.files.found
    kept.files.found |= first
    found = restored(kept.files, "f")
    assert found is not None
    assert (found.copy.log.end, found.copy.state.number) == (kept.end, 5)  # type: ignore[union-attr]


def test_output_that_is_made_again_is_not_written_and_a_snapshot_waits_until_readers_need_none_of_it() -> None:
    kept = Kept(again=True)
    kept.begin()
    assert kept.emit(20).writes == []
    saved = kept.end
    assert kept.save(0).writes == []
    kept.emit(20)
    kept.save(1)
    (ack,) = kept.read_up_to(saved).answers
    assert isinstance(ack, Ack)
    assert (ack.received, ack.snapshot) == (kept.end, 0)
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.state is not None
    assert (found.copy.state.end, found.copy.log.start, found.copy.log.end) == (saved, saved, saved)


def test_little_of_the_output_that_readers_still_need_is_written_with_a_snapshot() -> None:
    kept = Kept(again=True)
    kept.begin()
    kept.emit(20)
    read = kept.end
    kept.read_up_to(read)
    kept.emit(20)
    assert kept.save(0).writes == []
    kept.read = 1 << 20
    kept.read_up_to(read)
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.state is not None
    assert (found.copy.state.number, found.copy.log.start, found.copy.log.end) == (0, read, kept.end)


def test_a_snapshot_waits_if_what_readers_need_before_it_is_not_in_memory_any_more() -> None:
    kept = Kept(again=True, held=100)
    kept.begin()
    kept.emit(20)
    read = kept.end
    for _ in range(4):
        kept.emit(20)
    kept.read = 1 << 20
    assert kept.read_up_to(read).writes == []
    assert kept.save(0).writes == []
    (ack,) = kept.read_up_to(kept.end).answers
    assert isinstance(ack, Ack)
    assert ack.snapshot == 0


def test_a_snapshot_counts_though_promises_alone_came_before_its_output() -> None:
    kept = Kept(again=True)
    kept.begin()
    kept.emit(20)
    kept.read_up_to(kept.end)
    kept.save(0)
    kept.promise(1_000)
    read = kept.end
    kept.read_up_to(read)
    kept.emit(20)
    kept.read = 1 << 20
    (ack,) = kept.save(1).answers
    assert isinstance(ack, Ack)
    assert ack.snapshot == 1
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.state is not None
    assert (found.copy.state.number, found.copy.log.start.position, found.copy.log.end) == (1, 20, kept.end)


def test_a_folder_that_lacks_output_between_two_records_is_damaged() -> None:
    kept = Kept()
    kept.begin()
    kept.emit(20)
    chunks = (Chunk(Point(25, START), Point(30, START), batch(25, 5), 0),)
    kept.files.append("f@0.0", packed(Data(kept.output, kept.copy.reader, Point(25, START), chunks)))
    with pytest.raises(DurableError, match="f@0: its output goes on at 25, and ends at 20 before that; expected the"):
        restored(kept.files, "f")


def test_the_snapshot_of_a_large_state_waits_for_readers_and_its_pieces_do_not() -> None:
    kept = Kept(again=True)
    kept.begin()
    kept.emit(20)
    piece = piece_of(7, 500)
    kept.save(0, (piece,))
    (ack,) = kept.take(PieceReply(kept.output, kept.copy.reader, piece)).answers
    assert isinstance(ack, Ack)
    assert ack.snapshot == -1
    assert kept.files.names() == ["f@0.p7"]
    (ack,) = kept.read_up_to(kept.end).answers
    assert isinstance(ack, Ack)
    assert ack.snapshot == 0
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.pieces == {7: piece.data}


def test_no_more_than_some_snapshots_wait_and_the_pieces_of_all_of_them_stay() -> None:
    kept = Kept(again=True)
    kept.begin()
    for number in range(3 * MOST_WAITING):
        kept.emit(20)
        kept.save(number, (piece_of(number, 30),), (piece_of(number, 30),))
    last = 3 * MOST_WAITING - 1
    kept.read_up_to(kept.end)
    found = restored(kept.files, "f")
    assert found is not None
    assert found.copy.pieces == {last: piece_of(last, 30).data}
    assert found.copy.state.number == last  # type: ignore[union-attr]


def test_a_file_is_made_once_the_disk_holds_the_one_before_it(tmp_path: Path) -> None:
    for seed in range(10):
        power = PowerFiles(tmp_path / str(seed))
        power.opened.append("f@0.0", b"first")
        power.opened.append("f@0.1", b"second")
        power.lose(seed)
        assert b"first" in power.opened.read("f@0.0")


def test_a_file_that_another_peer_has_removed_takes_nothing_from_others(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, Disk())
    files.append("f@0.0", b"first")
    files.append("g@0.0", b"second")
    files.remove("f@0.0")
    files.sync()
    assert files.read("g@0.0").endswith(mark(len(files.read("g@0.0")) - len(mark(0))))
    files.append("g@0.0", b"third")
    shutil.rmtree(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.sync()
