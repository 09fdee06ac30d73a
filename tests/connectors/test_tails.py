"""A file that grows: its lines once each, over rotations, restarts and what is wrong with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from synergy_nb.dataflow.sources import BrokenForNow
from synergy_nb.testing import check_source
from tests.connectors.declared import declared, numbers, taken

HEADER = "time,n,word\n"


def lines(start: int, stop: int) -> str:
    """Lines of CSV."""
    return "".join(f"{n},{n},w{n}\n" for n in range(start, stop))


def objects(start: int, stop: int) -> str:
    """Lines of JSON."""
    return "".join(json.dumps({"time": n, "n": n, "word": f"w{n}"}) + "\n" for n in range(start, stop))


def write(path: Path, text: str) -> None:
    """Append to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(("form", "header", "make"), [("csv", HEADER, lines), ("jsonl", "", objects)])
def test_a_tail_keeps_the_protocol(tmp_path: Path, form: str, header: str, make: object) -> None:
    path = tmp_path / f"rows.{form}"
    path.write_text(header + make(0, 5), encoding="utf-8")  # type: ignore[operator]
    known = declared("tail", path=path, format=form)
    known.open(None)
    (first, at, _) = taken(known, 5)
    assert first == [0, 1, 2, 3, 4]
    write(path, make(5, 9))  # type: ignore[operator]
    assert taken(known, 4)[0] == [5, 6, 7, 8]
    known.close()
    again = declared("tail", path=path, format=form)
    again.open(at)
    assert taken(again, 4)[0] == [5, 6, 7, 8]
    again.close()
    rows: list[dict[str, object]] = []
    known.open(None)
    for _ in range(3):
        polled = known.poll(0.0)
        rows += [] if polled is None else polled.rows.to_dicts()  # type: ignore[union-attr]
    known.close()
    check_source(
        lambda: declared("tail", path=path, format=form),
        rows,
        broken=lambda: declared("tail", path=tmp_path / "none", format=form),
        wrong=lambda: declared("tail", path=tmp_path, format=form),
    )


def test_the_lines_of_a_web_server_come_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    line = 'host - - [01/Jul/1995:00:00:0{} -0400] "GET /x HTTP/1.0" 200 {}\n'
    path.write_text(line.format(1, 10), encoding="utf-8")
    tail = declared("tail", path=path, format="ncsa", columns=None)
    tail.open(None)
    assert tail.poll(0.0).rows["bytes"].to_list() == [10]  # type: ignore[union-attr, call-overload]
    write(path, line.format(2, 20))
    assert tail.poll(0.0).rows["bytes"].to_list() == [20]  # type: ignore[union-attr, call-overload]
    tail.close()


def test_a_line_comes_when_it_ends_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("time,n", encoding="utf-8")
    tail = declared("tail", path=path, format="csv", columns={"time": "time", "n": "int"})
    tail.open(None)
    assert tail.poll(0.0) is None
    write(path, "\n1,1")
    assert numbers(tail.poll(0.0)) == []
    write(path, "2\n")
    assert taken(tail, 1)[0] == [12]
    tail.close()


def test_over_a_rotation_no_line_is_lost_or_doubled(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + lines(0, 3), encoding="utf-8")
    tail = declared("tail", path=path, format="csv")
    tail.open(None)
    assert taken(tail, 3)[0] == [0, 1, 2]
    write(path, lines(3, 5))  # not read yet when it is renamed
    path.rename(tmp_path / "rows.csv.1")
    path.write_text("n,time,word\n5,5,w\n6,6,w", encoding="utf-8")  # with another order of columns
    assert taken(tail, 3)[0] == [3, 4, 5]
    write(path, "\n")
    found, _, said = taken(tail, 1)
    assert (found, said) == ([6], [])
    tail.close()


def test_a_successor_finds_the_file_under_its_new_name_and_goes_through_all_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(objects(0, 3), encoding="utf-8")
    tail = declared("tail", path=path, format="jsonl")
    tail.open(None)
    _, position, _ = taken(tail, 3)
    tail.close()
    write(path, objects(3, 4))
    path.rename(tmp_path / "rows.jsonl.2")
    path.write_text(objects(4, 5), encoding="utf-8")
    path.rename(tmp_path / "rows.jsonl.1")
    path.write_text(objects(5, 6), encoding="utf-8")
    for place, each in enumerate(("rows.jsonl.2", "rows.jsonl.1", "rows.jsonl")):
        os.utime(tmp_path / each, ns=(place * 1000 + 1, place * 1000 + 1))
    again = declared("tail", path=path, format="jsonl")
    again.open(position)
    found, _, said = taken(again, 3)
    assert (found, said) == ([3, 4, 5], [])
    again.close()


def test_a_file_that_is_gone_or_was_emptied_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + lines(0, 3), encoding="utf-8")
    tail = declared("tail", path=path, format="csv")
    tail.open(None)
    _, position, _ = taken(tail, 3)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER + lines(7, 8))
    found, _, said = taken(tail, 1)
    assert found == [7]
    assert "has become shorter than the" in said[0]
    tail.close()
    path.rename(tmp_path / "other")
    path.write_text(HEADER + lines(8, 9), encoding="utf-8")
    again = declared("tail", path=path, format="csv")
    again.open(position)
    found, _, said = taken(again, 1)
    assert found == [8]
    assert "is not there any more" in said[0]
    again.close()


def test_few_malformed_lines_are_counted_and_many_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(objects(0, 2) + '{"time": 2, "n": "x"}\n' + objects(3, 5), encoding="utf-8")
    tail = declared("tail", path=path, format="jsonl")
    tail.open(None)
    polled = tail.poll(0.0)
    assert numbers(polled) == [0, 1, 3, 4]
    assert polled is not None
    assert polled.skipped is not None
    assert polled.skipped.count == 1
    assert "line 3: field 'n'" in polled.skipped.first
    write(path, "no JSON\n")
    with pytest.raises(ValueError, match="2 of 6 lines are not of format 'jsonl'"):
        tail.poll(0.0)
    tail.close()
    strict = declared("tail", path=path, format="jsonl", strict=True)
    strict.open(None)
    with pytest.raises(ValueError, match="line 3: field 'n'"):
        strict.poll(0.0)
    strict.close()


def test_a_header_without_a_column_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("time,m,word\n0,0,w\n", encoding="utf-8")
    tail = declared("tail", path=path, format="csv")
    tail.open(None)
    with pytest.raises(ValueError, match="column 'n' is not there; expected one of time, m, word"):
        tail.poll(0.0)
    tail.close()


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    tail = declared("tail", path=tmp_path / "later.csv", format="csv")
    with pytest.raises(BrokenForNow, match="no such file"):
        tail.open(None)
    (tmp_path / "later.csv").write_text(HEADER + lines(0, 1), encoding="utf-8")
    tail.open(None)
    assert taken(tail, 1)[0] == [0]
    tail.close()
