"""Files that a program has results written to: complete or not there, and continued by the next run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.runtime.client.result_files import ResultFile
from tests.connectors.broken_disk import COLUMNS, rows

ALL = [(number, f"{number},\n") for number in range(20)]
each = pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.ndjson"])


def read(path: Path) -> list[tuple[int, str]]:
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv}
    return readers.get(path.suffix, pl.read_ndjson)(path).select("v", "text").rows()  # type: ignore[operator,no-any-return]


def killed(path: Path, last: int, *, name: str = "stream") -> None:
    """A run that was killed after it had committed rows."""
    file = ResultFile(path, COLUMNS, name)
    file.add(rows(0, last))
    file.close(complete=False)


@each
def test_a_file_gets_its_name_when_all_rows_are_in_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("the one of before")
    file = ResultFile(path, COLUMNS, "stream")
    file.add(rows(0, 7))
    file.add(rows(7, 20), 7)
    assert path.read_text() == "the one of before"
    file.close(complete=True, ended=True)
    assert (file.complete, file.rows, file.repeated) == (True, 20, 0)
    assert read(path) == ALL
    assert list(tmp_path.iterdir()) == [path]


@each
def test_a_run_goes_on_where_the_one_that_was_killed_was(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    killed(path, 7)
    assert not path.exists()
    file = ResultFile(path, COLUMNS, "stream")
    assert file.repeated == 7
    for first in range(0, 20, 5):
        file.add(rows(first, first + 5))
    file.close(complete=True, ended=True)
    assert read(path) == ALL
    assert list(tmp_path.iterdir()) == [path]


@each
def test_rows_of_another_stream_are_discarded(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    killed(path, 7, name="another")
    file = ResultFile(path, COLUMNS, "stream")
    assert file.repeated == 0
    file.add(rows(0, 20))
    file.close(complete=True, ended=True)
    assert read(path) == ALL


@each
def test_a_run_with_fewer_rows_than_there_are_says_so_unless_it_was_stopped(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    killed(path, 20)
    file = ResultFile(path, COLUMNS, "stream")
    file.add(rows(0, 7))
    with pytest.raises(
        SinkFailed, match="it has 20 rows of the stream, which has ended after 7; expected a stream whose"
    ):
        file.close(complete=True, ended=True)
    assert not path.exists()
    stopped = ResultFile(path, COLUMNS, "stream")
    stopped.add(rows(0, 7))
    stopped.close(complete=True)
    assert read(path) == ALL


@each
def test_a_result_without_rows_is_a_file_too(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    ResultFile(path, COLUMNS, "stream").close(complete=True)
    if path.suffix in (".parquet", ".csv"):
        assert read(path) == []
    else:
        assert path.read_text() == ""
    assert list(tmp_path.iterdir()) == [path]


@each
def test_what_was_given_up_leaves_rows_or_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    ResultFile(path, COLUMNS, "stream").abandon()
    assert list(tmp_path.iterdir()) == []
    file = ResultFile(path, COLUMNS, "stream")
    file.add(rows(0, 3))
    file.abandon()
    assert ResultFile(path, COLUMNS, "stream").repeated == 3


def test_rows_that_are_lacking_are_said(tmp_path: Path) -> None:
    file = ResultFile(tmp_path / "a.csv", COLUMNS, "stream")
    file.add(rows(0, 3), 0)
    with pytest.raises(SinkFailed, match="rows 3 to 4 of the stream are not retained any more, or went to a loop"):
        file.add(rows(5, 7), 5)
    file.abandon()
