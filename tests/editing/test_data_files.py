"""Folders and the beginnings of files, as the file picker of an editor gets them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from synergy_nb.editing.data_files import allowed_folders, check_file, file_fields, folder_contents
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


def test_an_editor_may_have_folders_beyond_which_its_picker_does_not_go(here: Path) -> None:
    (here / "inner" / "up").symlink_to(here)
    inner = allowed_folders(["inner"])
    first = folder_contents("", inner)
    assert (first.path, first.parent, first.files) == ("inner", "", [("taxi.csv", f"{len(TAXI)} bytes")])
    assert folder_contents("", allowed_folders([here])).path == "."
    assert file_fields("inner/taxi.csv", "", inner).time == "began"
    for path in (".", "inner/..", "/", "inner/up"):
        with pytest.raises(EditError, match=r"expected a path in inner, the folders of this editor"):
            folder_contents(path, inner)
    for path in ("numbers.csv", "inner/up/numbers.csv", "/etc/passwd"):
        with pytest.raises(EditError, match=r"expected a path in inner, the folders of this editor"):
            file_fields(path, "", inner)
        with pytest.raises(EditError, match=r"expected a path in inner, the folders of this editor"):
            check_file(path, inner)
    for wrong in (["gone"], ["numbers.csv"], [], "inner"):
        with pytest.raises(EditError, match=r"folders: .*expected a (list of folders|folder that exists)"):
            allowed_folders(wrong)


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
    frame.with_columns(pl.lit(dt.time(1)).alias("at")).write_parquet("taxi.parquet")
    assert file_fields("taxi.parquet")[1:5] == ("parquet", *taxi[2:5])  # without the column that tuples cannot have


@pytest.mark.parametrize(
    ("written", "stated", "found"),
    [
        ("utf-8", "", ""),
        ("utf-8", "windows-1252", ""),  # what was stated for another file before
        ("utf-16", "", "utf-16"),
        ("latin-1", "", "windows-1252"),
        ("latin-1", "iso-8859-2", "iso-8859-2"),
        ("latin-1", "no encoding", "windows-1252"),
        ("ascii", "iso-8859-2", "iso-8859-2"),
        ("ascii", "utf-16", ""),
    ],
)
def test_the_encoding_of_a_file_is_found_with_its_header(here: Path, written: str, stated: str, found: str) -> None:
    names = "grosse,n" if written == "ascii" else "größe,n"
    (here / "names.csv").write_text(
        f"time,{names}\n1,Müller,2\n".replace("ü", "u" if written == "ascii" else "ü"), written
    )
    fields = file_fields("names.csv", stated)
    assert (fields.encoding, list(fields.columns)) == (found, ["time", *names.split(",")])
    assert (f"read as {found}" in fields.note) == bool(found)


def test_the_encoding_of_a_log_and_of_bytes_in_none_is_found(here: Path) -> None:
    line = 'host - - [01/Jul/1995:00:00:01 -0400] "GET /größe HTTP/1.0" 200 6245\n'
    (here / "a.log").write_text(line, "latin-1")
    assert file_fields("a.log")[1:6] == ("ncsa", {}, "", [], "windows-1252")
    (here / "odd.csv").write_bytes(b"time,v\n1,\x81\n2,a\n")  # no text in Windows-1252 either
    assert (file_fields("odd.csv").encoding, file_fields("odd.csv").time) == ("", "time")


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
