"""Folders and the beginnings of files, as the file picker of an editor gets them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from synergy_nb.editing.data_files import file_fields, folder_contents
from synergy_nb.editing.operations import EditError

TAXI = "tip,began,ended,paid\n3.75,2024-01-01 00:57:55,2024-01-01 01:17:43,true\n0,2024-01-01 00:03:00,,false\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with some files and a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "taxi.csv").write_text(TAXI, "utf-8")
    (tmp_path / "seconds.tsv").write_text("ts\tn\n1.5\t2\n", "utf-8")
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n", "utf-8")
    for other in ("notes.docx", ".hidden.csv"):
        (tmp_path / other).write_text("x", "utf-8")
    return tmp_path


def test_a_folder_is_listed_with_paths_as_plans_state_them(here: Path) -> None:
    found = folder_contents()
    assert (found.path, found.parent, found.folders) == (".", str(here.parent), ["inner"])
    assert found.files == [("numbers.csv", "8 bytes"), ("seconds.tsv", "11 bytes")]
    inner = folder_contents("inner")
    assert (inner.path, inner.parent, inner.files) == ("inner", ".", [("taxi.csv", f"{len(TAXI)} bytes")])
    assert folder_contents("/").parent == ""
    with pytest.raises(EditError, match="expected a folder that can be read"):
        folder_contents("numbers.csv")


def test_a_header_gives_format_types_and_the_columns_with_times(here: Path) -> None:
    taxi = file_fields(str(here / "inner" / "taxi.csv"))
    assert (taxi.path, taxi.format, taxi.time, taxi.times) == ("inner/taxi.csv", "csv", "began", ["began", "ended"])
    assert taxi.columns == {"tip": "float", "began": "time", "ended": "time", "paid": "bool"}
    assert taxi.note.endswith("Event time: began; ended holds times, too.")
    seconds = file_fields("seconds.tsv")  # numbers under a usual name are times
    assert (seconds.columns, seconds.time, seconds.times) == ({"ts": "time", "n": "int"}, "ts", [])
    numbers = file_fields("numbers.csv")
    assert (numbers.columns, numbers.time) == ({"a": "int", "b": "int"}, "")
    assert "No column holds times: choose the one with the event time" in numbers.note
    frame = pl.read_csv(here / "inner" / "taxi.csv", try_parse_dates=True)
    frame.with_columns(pl.lit([1]).alias("list")).write_parquet("taxi.parquet")
    assert file_fields("taxi.parquet")[1:5] == ("parquet", *taxi[2:5])  # without the column that tuples cannot have


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the path of a file"),
        ("gone.csv", "no such file"),
        ("inner", "a directory, not a file; expected a trace file"),
    ],
)
def test_what_is_no_trace_is_said(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        file_fields(path)
