"""Each row is in a destination once: whatever step a writer has got to when its process ends, and whoever goes on."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import csv, jsonl, parquet
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.durable.disk import Disk
from tests.connectors.broken_disk import (
    COLUMNS,
    BrokenDisk,
    FailingDisk,
    Killed,
    opened,
    rows,
    stream,
    written,
)
from tests.connectors.file_destinations import EACH, EXPECTED, ROWS, SIZES, csv_file, found, lines

each = pytest.mark.parametrize("make", EACH)


@each
def test_a_stream_that_was_not_disturbed_is_whole(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    assert written(to, stream(SIZES), Disk()) == 0
    assert found(to) == EXPECTED
    writer = opened(to)
    there = writer.open()
    writer.close()
    assert there is not None
    assert Point(*there).position == ROWS


@pytest.mark.slow
@each
def test_a_writer_that_ends_at_any_step_leaves_what_the_next_one_completes(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    for steps in count():
        for halves in (False, True):
            to = make(tmp_path / f"{steps}{halves}")
            disk = BrokenDisk(steps, halves=halves)
            try:
                written(to, stream(SIZES), disk)
            except Killed:
                # whoever comes next divides the stream into other batches, as he likes
                written(to, stream((1, 5, 1, 2)))
                assert found(to) == EXPECTED, disk.done
            else:
                assert found(to) == EXPECTED
                assert steps > 15
                return


@each
def test_a_writer_may_end_at_any_step_of_the_repair_too(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    for steps in range(6, 18, 3):
        to = make(tmp_path / str(steps))
        with pytest.raises(Killed):
            written(to, stream(SIZES), BrokenDisk(steps, halves=True))
        for again in count():
            try:
                written(to, stream(SIZES), BrokenDisk(again, halves=True))
            except Killed:
                continue
            break
        assert found(to) == EXPECTED


@each
def test_what_is_whole_is_not_written_again(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES))
    disk = BrokenDisk(1000)
    assert written(to, stream((ROWS,)), disk) == ROWS
    assert not {"write", "rename", "truncate", "remove"}.intersection(disk.done)


@each
def test_a_stream_that_has_grown_goes_on_where_it_ended(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES[:2]))
    written(to, stream(SIZES))
    assert found(to) == EXPECTED


@each
def test_a_stream_without_rows_has_a_destination_with_its_columns(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    to = make(tmp_path)
    written(to, stream(()))
    if to["format"] == "jsonl":
        assert Path(to["path"]).read_text() == ""
    else:
        assert found(to) == []
    written(to, stream(SIZES))
    assert found(to) == EXPECTED


@each
def test_rows_of_another_stream_are_not_mixed_in(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES), name="one")
    with pytest.raises(SinkFailed, match="it has rows of one; expected rows of another, or"):
        written(to, stream(SIZES), name="another")
    assert found(to) == EXPECTED


@each
def test_a_stream_that_is_shorter_than_before_fails(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES))
    with pytest.raises(
        SinkFailed, match=r"it has 9 rows of the stream, which has ended after 5; expected .* what they"
    ):
        written(to, stream(SIZES[:2]))


@each
def test_two_writers_never_write_at_the_same_time(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    first = opened(to)
    first.open()
    with pytest.raises(SinkUnavailable, match="another process writes to it"):
        opened(to).open()
    first.close()
    second = opened(to)
    second.open()
    second.close()


@each
def test_rows_that_are_not_retained_any_more_and_not_there_fail(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES[:1], ends=False))
    reader = SinkReader(opened(to), "it", 1.0)
    expected = "it: it has the first 3 rows of the stream, which retains those from row 4 on; expected a place that all"
    with pytest.raises(SinkFailed, match=expected):
        reader.open(Point(4, 0))
    reader.close()


@each
def test_a_full_disk_is_waited_for_and_loses_nothing(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    written(to, stream(SIZES[:1], ends=False))
    full = FailingDisk("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), times=2)
    for _ in range(2):
        with pytest.raises(SinkUnavailable, match=rf"^'{re.escape(to['path'])}': No space left on device$"):
            written(to, stream(SIZES), full)
    assert written(to, stream(SIZES), full) == 3
    assert found(to) == EXPECTED


@each
def test_a_place_where_nobody_may_write_fails(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    to = make(tmp_path)
    refused = FailingDisk("lock", PermissionError(errno.EACCES, os.strerror(errno.EACCES)), times=1)
    with pytest.raises(SinkFailed, match="Permission denied; expected a place where this peer may write"):
        written(to, stream(SIZES), refused)
    # as in /proc, where no folder can be made
    absent = FailingDisk("make_folder", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), times=1)
    with pytest.raises(SinkFailed, match="No such file or directory; expected a place where files can be made"):
        written(to, stream(SIZES), absent)
    (tmp_path / "file").write_text("no folder")
    below = {**to, "path": str(tmp_path / "file" / "below" / "rows")}
    with pytest.raises(SinkFailed, match=r"Not a directory \('.*/file'\); expected a path whose folders are folders"):
        written(below, stream(SIZES))


@each
def test_a_destination_that_is_removed_while_it_is_written_fails(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    to = make(tmp_path)
    reader = SinkReader(opened(to), "it", 0.0)
    reader.open(ORIGIN)
    first, *rest = stream(SIZES)
    reader.write([first], 0.0)
    reader.commit()
    Path(to["path"]).rename(tmp_path / "elsewhere")
    reader.write(rest, 0.0)
    with pytest.raises(SinkFailed, match="it was removed while it was written; expected that it stays"):
        reader.commit()
    reader.close()


def test_a_folder_with_anything_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(
        SinkFailed, match=r"it has 'notes.txt'; expected a folder of its own, which is empty or has rows"
    ):
        written(parquet(tmp_path), stream(SIZES))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "notes.txt").unlink()
    rows(0, 3).write_parquet(tmp_path / f"rows-{0:015d}-{3:015d}.parquet")
    with pytest.raises(
        SinkFailed, match="no position of a stream; expected a file of format 1, by a sink of such a plan"
    ):
        written(parquet(tmp_path), stream(SIZES))


def test_a_file_with_anything_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SinkFailed, match="it has 8 bytes of something else; expected a new file"):
        written(csv(tmp_path / "mine.csv"), stream(SIZES))
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"


def test_a_file_without_its_positions_or_with_damaged_ones_is_refused(tmp_path: Path) -> None:
    to = csv(tmp_path / "rows.csv")
    written(to, stream(SIZES))
    positions = tmp_path / "rows.csv.positions"
    good = positions.read_text()
    for bad, said in (("{", "damaged"), (good.replace('"version": 1', '"version": 9'), "format 9; expected format 1")):
        positions.write_text(bad)
        with pytest.raises(SinkFailed, match=said):
            written(to, stream(SIZES))
    positions.write_text(good)
    whole = (tmp_path / "rows.csv").read_bytes()
    (tmp_path / "rows.csv").write_bytes(whole[:-1])
    with pytest.raises(SinkFailed, match=rf"it has {len(whole) - 1} bytes; expected at least {len(whole)}"):
        written(to, stream(SIZES))
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(SinkFailed, match=r"it is not there, and 'rows.csv.positions' beside it is"):
        written(to, stream(SIZES))


@pytest.mark.parametrize("make", [csv_file, lines])
def test_what_does_not_count_is_cut_off_when_a_file_is_opened(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    undisturbed = BrokenDisk(100)
    written(make(tmp_path / "undisturbed"), stream(SIZES), undisturbed)
    first_rows = [step for step, name in enumerate(undisturbed.done) if name == "write"][1]
    to = make(tmp_path / "killed")
    with pytest.raises(Killed):
        written(to, stream(SIZES), BrokenDisk(first_rows, halves=True))
    path = Path(to["path"])
    whole = path.read_bytes()
    writer = opened(to)
    writer.open()
    writer.close()
    counts = json.loads(path.with_name(f"{path.name}.positions").read_text())["bytes"]
    assert path.read_bytes() == whole[:counts]
    assert counts < len(whole)


def test_rows_of_a_period_are_in_a_folder_of_their_own(tmp_path: Path) -> None:
    written(parquet(tmp_path, partition="4 s"), stream(SIZES))
    folders = {path.name: pl.read_parquet(path / "*.parquet")["v"].to_list() for path in tmp_path.iterdir()}
    assert folders == {
        "period=1970-01-01T00-00-00": [0, 1, 2, 3],
        "period=1970-01-01T00-00-04": [4, 5, 6, 7],
        "period=1970-01-01T00-00-08": [8],
    }
    written(parquet(tmp_path / "days", partition="2 d"), stream(SIZES))
    assert [path.name for path in (tmp_path / "days").iterdir()] == ["period=1970-01-01"]


def test_rows_wait_no_longer_and_are_no_more_than_they_may(tmp_path: Path) -> None:
    reader = SinkReader(writer_of(jsonl(tmp_path / "rows"), COLUMNS, "s"), "it", every=2.0, most=1000)
    reader.open(ORIGIN)
    small, large = rows(0, 1), rows(1, 200)
    chunks = chunks_of([Batch(small, 0, 0.0), Batch(large, 1, 0.0), Punctuation(END, 200, 0.0)], ORIGIN)
    assert reader.write(chunks[:1], 10.0)
    assert (reader.due, reader.must_commit(11.9), reader.must_commit(12.0)) == (12.0, False, True)
    assert not reader.write(chunks[1:], 10.0), "the end waits until the rows before it are committed"
    assert not reader.ended
    assert reader.must_commit(10.0)
    assert reader.durable == ORIGIN
    reader.commit()
    assert reader.durable == Point(200, chunks[1].end.until)
    reader.write(chunks[2:], 10.0)
    assert reader.must_commit(10.0)
    reader.commit()
    assert reader.complete
    reader.close()


CHILD = """
import sys
from tests.connectors.broken_disk import BrokenDisk, end_process, stream, written
from tests.connectors.test_sink_commits import EACH, SIZES
from pathlib import Path
import os

for line in sys.stdin:
    number, steps, path = line.split()
    child = os.fork()
    if not child:
        written(EACH[int(number)](Path(path)), stream(SIZES), BrokenDisk(int(steps), end_process, halves=True))
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow(20)
def test_a_process_that_is_killed_at_any_step_leaves_what_the_next_one_completes(tmp_path: Path) -> None:
    """As above, with processes that are killed: the one that imports everything forks each of them."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for number, make in enumerate(EACH):
            for steps in count():
                path = tmp_path / f"{number}-{steps}"
                parent.stdin.write(f"{number} {steps} {path}\n")
                status = int(parent.stdout.readline())
                to = make(path)
                if status:
                    assert os.WTERMSIG(status) == signal.SIGKILL
                    written(to, stream((1, 5, 1, 2)))
                assert found(to) == EXPECTED
                if not status:
                    assert steps > 15
                    break
        parent.stdin.close()
