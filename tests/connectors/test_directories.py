"""The files of a folder: one after another in their order, from any position, and those that come too late."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from synergy_nb.dataflow.sources import Source
from synergy_nb.testing import check_source
from tests.connectors.declared import declared, numbers, taken


def table(start: int, stop: int) -> pl.DataFrame:
    """Rows of one file."""
    times = pl.Series(range(start, stop)).cast(pl.Int64) * 1_000_000
    return pl.DataFrame(
        {"time": times.cast(pl.Datetime("us")), "n": range(start, stop), "word": [f"w{n}" for n in range(start, stop)]}
    )


def put(path: Path, start: int, stop: int) -> None:
    """Write a file under another name, and give it its own when it is whole."""
    rows, begun = table(start, stop), path.with_name(f".{path.name}")
    match path.suffix:
        case ".csv":
            rows.write_csv(begun)
        case ".parquet":
            rows.write_parquet(begun)
        case _:
            text = "".join(json.dumps({"time": n, "n": n, "word": f"w{n}"}) + "\n" for n in rows["n"])
            begun.write_text(text, encoding="utf-8")
    begun.rename(path)


def folder(path: Path, form: str, **params: Any) -> Source:
    """A source of the files of a folder."""
    return declared("directory", path=path / f"*.{form}", format=form, **params)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_a_directory_keeps_the_protocol(tmp_path: Path, form: str) -> None:
    for name, (start, stop) in {"b": (3, 5), "a": (0, 3), "c": (5, 6)}.items():
        put(tmp_path / f"{name}.{form}", start, stop)
    check_source(lambda: folder(tmp_path, form, ends=True), table(0, 6).to_dicts())
    check_source(lambda: folder(tmp_path, form), table(0, 6).to_dicts())
    check_source(lambda: folder(tmp_path, form, ends=True), wrong=lambda: folder(tmp_path / "none", form))


def test_of_several_readers_each_file_is_of_one(tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path / f"{number}.csv", 2 * number, 2 * number + 2)
    check_source(lambda: folder(tmp_path, "csv", ends=True), table(0, 12).to_dicts(), readers=3)
    own = [folder(tmp_path, "csv", share=share) for share in ("1 of 2", "2 of 2")]
    for source in own:
        source.open(None)
    put(tmp_path / "6.csv", 12, 14)
    found = [numbers(source.poll(0.0)) for _ in range(20) for source in own]
    assert sorted(n for each in found for n in each) == list(range(14))


def read_all(source: Source) -> None:
    """Read what there is."""
    source.open(None)
    while (polled := source.poll(0.0)) is not None and not polled.ends:
        pass


def commit(path: Path, number: int, *names: str, whole: bool = False, action: str = "add") -> None:
    """State files in the log of a folder, as Spark's file sink does."""
    log = path / "_spark_metadata"
    log.mkdir(exist_ok=True)
    size = {name: (path / name).stat().st_size if (path / name).exists() else 1 for name in names}
    places = {name: "file://" + quote(str(path / name), safe="/%") for name in names}
    lines = [json.dumps({"path": places[name], "size": size[name], "isDir": False, "action": action}) for name in names]
    begun = log / f".{number}.tmp"
    begun.write_text("\n".join(["v1", *lines]), encoding="utf-8")
    begun.rename(log / (f"{number}.compact" if whole else str(number)))


def test_of_a_folder_of_spark_what_is_committed_is_read_in_the_order_of_the_commits(tmp_path: Path) -> None:
    folder_ = tmp_path / "k=1 ü"
    folder_.mkdir()
    for number, name in enumerate(["c", "a", "d", "b", "f"]):
        put(folder_ / f"{name}.parquet", 2 * number, 2 * number + 2)
    (folder_ / "torn.parquet").write_bytes(b"PAR1")  # of a micro-batch that is being written
    (folder_ / "none.parquet").touch()
    commit(folder_, 0, "c.parquet", "a.parquet")
    source = folder(folder_, "parquet")
    source.open(None)
    found, position, _ = taken(source, 4)
    assert found == [0, 1, 2, 3]
    commit(folder_, 1, "c.parquet", "a.parquet", "none.parquet", "d.parquet", whole=True)
    (folder_ / "_spark_metadata" / "0").unlink()
    commit(folder_, 2, "b.parquet")
    assert taken(source, 4)[0] == [4, 5, 6, 7]
    source.close()
    successor = folder(folder_, "parquet")
    successor.open(position)
    assert taken(successor, 4)[0] == [4, 5, 6, 7]
    successor.close()
    commit(folder_, 3, "f.parquet")
    check_source(lambda: folder(folder_, "parquet", ends=True), table(0, 10).to_dicts())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("k=2/x.parquet", "Spark writes to folders in it, such as 'k=2'; expected files of"),
        ("..%2Fx.parquet", "begins by 'v1'; expected an entry of Spark's file sink"),
        ("..", "begins by 'v1'; expected an entry of Spark's file sink"),
        ("gone.parquet", "gone.parquet"),
        ("link.parquet", "a symbolic link; expected a file"),
        (b"v2\n{}", "begins by 'v2'; expected an entry"),
        (b"v1\n{", "begins by 'v1'; expected an entry"),
        (b"v1\n[]", "begins by 'v1'; expected an entry"),
        (b"", "begins by ''; expected an entry"),
    ],
)
def test_a_log_that_spark_has_not_written_is_refused(tmp_path: Path, entry: str | bytes, message: str) -> None:
    put(tmp_path / "a.parquet", 0, 1)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "a.parquet")
    if isinstance(entry, str):
        commit(tmp_path, 0, entry)
    else:
        commit(tmp_path, 0)
        (tmp_path / "_spark_metadata" / "0").write_bytes(entry)
    with pytest.raises((ValueError, OSError), match=re.escape(message)):
        read_all(folder(tmp_path, "parquet", ends=True))


def test_a_position_is_of_the_log_that_named_its_file(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", 0, 2)
    commit(tmp_path, 0, "a.parquet")
    source = folder(tmp_path, "parquet")
    source.open(None)
    position = taken(source, 2)[1]
    (tmp_path / "_spark_metadata" / "0").unlink()
    put(tmp_path / "b.parquet", 2, 4)
    commit(tmp_path, 0, "b.parquet")
    with pytest.raises(ValueError, match=r"'a\.parquet' is not in _spark_metadata any more; expected the folder"):
        source.open(position)
    rmtree(tmp_path / "_spark_metadata")
    with pytest.raises(ValueError, match="files without _spark_metadata; expected what Spark has committed to it"):
        source.open(position)


def test_files_come_as_they_are_put_there(tmp_path: Path) -> None:
    put(tmp_path / "1.csv", 0, 2)
    source = folder(tmp_path, "csv")
    source.open(None)
    assert taken(source, 2)[0] == [0, 1]
    (tmp_path / "2.csv").touch()  # nothing is in it yet
    while source.poll(0.0) is not None:
        pass
    put(tmp_path / "2.csv", 2, 4)
    put(tmp_path / "3.txt", 4, 5)
    put(tmp_path / ".1c.csv", 4, 5)  # it is being written under a name of its own
    (tmp_path / "1b.csv").symlink_to(tmp_path / "1.csv")
    assert taken(source, 2)[0] == [2, 3]
    source.close()


def test_a_successor_reads_the_file_that_was_chosen_though_others_have_come(tmp_path: Path) -> None:
    put(tmp_path / "b.csv", 0, 2)
    source = folder(tmp_path, "csv")
    source.open(None)
    chosen = source.poll(0.0)
    assert chosen is not None
    assert numbers(chosen) == []
    put(tmp_path / "a.csv", 7, 9)
    put(tmp_path / "c.csv", 2, 3)
    again = folder(tmp_path, "csv")
    again.open(chosen.position)
    found, _, said = taken(again, 3)
    assert found == taken(source, 3)[0] == [0, 1, 2]
    assert said == [], "it cannot know whether a.csv was read"
    source.close()
    again.close()


def test_a_file_that_comes_too_late_for_its_order_is_left_out_and_said(tmp_path: Path) -> None:
    put(tmp_path / "b.csv", 0, 2)
    source = folder(tmp_path, "csv")
    source.open(None)
    taken(source, 2)
    put(tmp_path / "a.csv", 7, 9)
    put(tmp_path / "c.csv", 2, 3)
    found, _, said = taken(source, 1)
    assert found == [2]
    assert said == ["1 file is left out (a.csv): b.csv, which is later in the order, was read"]
    source.close()


def test_in_the_order_of_time_names_mean_nothing(tmp_path: Path) -> None:
    for place, (name, start) in enumerate({"b": 0, "a": 1, "c": 2}.items()):
        put(tmp_path / f"{name}.csv", start, start + 1)
        os.utime(tmp_path / f"{name}.csv", ns=(place, 1000 * (place + 1)))
    check_source(lambda: folder(tmp_path, "csv", order="time", ends=True), table(0, 3).to_dicts())


def test_a_file_that_is_not_as_declared_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,m\n0,1\n", encoding="utf-8")
    source = folder(tmp_path, "csv")
    source.open(None)
    with pytest.raises(ValueError, match=r"a\.csv: column 'n' is not there; expected one of time, m"):
        taken(source, 1)
    source.close()


def test_a_file_without_rows_is_passed_by(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,n,word\n", encoding="utf-8")
    put(tmp_path / "b.csv", 0, 1)
    check_source(lambda: folder(tmp_path, "csv", ends=True), table(0, 1).to_dicts())
