"""Raw files: they are recognised, read whole or in parts with the same rows, and each malformed line is described."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest

from synergy_nb.traces import text_files
from synergy_nb.traces.raw_files import RawLayout, Tally, likely_rows, lines_before, part_begins, raw_layout, raw_tables

LOG = 'a{n}.example - - [01/Jul/1995:00:00:{n:02} -0400] "GET /x/{n}.html HTTP/1.0" 200 {n}\n'


def written(path: Path, lines: list[str], encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(lines).encode(encoding))
    return path


def rows(path: Path, layout: RawLayout, tally: Tally, begin: int = 0, end: int | None = None) -> pl.DataFrame:
    tables = list(raw_tables(path, layout, tally, begin, end))
    return pl.concat(tables) if tables else pl.DataFrame()


ZEEK = (
    "#separator \\x09\n#set_separator\t,\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tduration\tlocal_orig\n"
    "#types\ttime\tstring\taddr\tport\tinterval\tbool\n"
)
MAKERS: dict[str, Callable[[int], str]] = {
    "ncsa": lambda n: LOG.format(n=n),
    "http": lambda n: f"{n}+1: Tue Aug 22 00:00:{n:02} 1995 (/a): Sent text: GET /a HTTP/1.0\n",
    "jsonl": lambda n: f'{{"time": {n}, "value": {n / 2}, "name": "x{n}"}}\n',
    "combined": lambda n: LOG.format(n=n).strip() + rf' "http://from/{n}" "Agent/{n} (\"x\")"' + "\n",
    "tcpdump": lambda n: f"2026-01-31 12:00:{n:02}.5 IP 10.0.0.{n}.80 > 10.0.0.2.{n}: Flags [P.], length {n}\n",
    "zeek": lambda n: (ZEEK if not n else "") + f"{n}.5\tC{n}\t10.0.0.1\t{n}\t-\tT\n",
    "tcp": lambda n: f"{n}.5 1 2 80 1024 {n}\n",
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_format_is_recognised_and_read(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "raw", [MAKERS[kind](n) for n in range(40)])
    layout, tally = raw_layout(path), Tally()
    assert layout.format == kind
    found = rows(path, layout, tally)
    assert found.columns == list(layout.schema)
    assert (found.height, tally.malformed) == (40, None)
    assert 20 < likely_rows(path, layout) < 80
    zipped = tmp_path / "raw.gz"
    data = path.read_bytes()
    zipped.write_bytes(gzip.compress(data[:700]) + gzip.compress(data[700:]))
    assert rows(zipped, raw_layout(zipped), Tally()).equals(found)


@pytest.mark.parametrize("kind", ["ncsa", "jsonl", "zeek", "tcp"])
def test_parts_of_a_file_have_its_rows_wherever_they_begin(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "raw", [MAKERS[kind](n) for n in range(12)])
    layout = raw_layout(path)
    whole, size = rows(path, layout, Tally()), path.stat().st_size
    assert part_begins(path, layout, 100) == list(range(0, size, 100))
    choices = random.Random(1)
    for _ in range(60):
        cuts = [0, *sorted(choices.sample(range(size + 1), 2))]
        ends = [*cuts[1:], None]
        parts = [rows(path, layout, Tally(), begin, end) for begin, end in zip(cuts, ends, strict=True)]
        assert pl.concat(part for part in parts if part.height).equals(whole), cuts


def test_parts_of_a_csv_file_cut_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "raw"
    path.write_text("time,name,n\n" + "".join(f'{n},"a\n{"b" * (n % 9)}""\n,",{n}\n' for n in range(40)))
    layout, size = raw_layout(path), path.stat().st_size
    whole = rows(path, layout, Tally())
    assert whole.height == 40
    for block, part in ((64, 90), (37, 200), (1 << 20, 10)):
        monkeypatch.setattr(text_files, "BLOCK", block)
        begins = part_begins(path, layout, part)
        assert (len(begins) > 3) == (block < 100), block  # the whole file is one block, and so one part
        tally, ends = Tally(), [*begins[1:], None]
        parts = [rows(path, layout, tally, begin, end) for begin, end in zip(begins, ends, strict=True)]
        assert pl.concat(parts).equals(whole)
        assert tally.malformed is None
        assert begins[-1] < size
    path.write_text(path.read_text() + '41,"a"b,3\n' * 9)
    assert part_begins(path, layout, 90) == [0]  # nobody knows what is within quotes
    path.write_bytes(path.read_bytes().replace(b'"', b""))
    monkeypatch.setattr(text_files, "BLOCK", 64)
    assert len(part_begins(path, layout, 90)) > 3


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_line_that_is_too_long_has_its_number_in_the_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"csv": "9," + "x" * 900, "jsonl": json.dumps({"time": 9, "n": "x" * 900})}[kind]
    lines = ["time,n\n"] if kind == "csv" else []
    lines += [f"{n},{n}\n" if kind == "csv" else f'{{"time": {n}, "n": "{n}"}}\n' for n in range(40)]
    path = written(tmp_path / "raw", [*lines, long])
    for name in ("raw_files._BLOCK", "text_files.BLOCK", "raw_files.LONGEST", "_tabular.LONGEST"):
        monkeypatch.setattr(f"synergy_nb.traces.{name}", 100)
    layout = raw_layout(path, columns={"time": "time", "n": "str"})
    *_, begin = (each for each in part_begins(path, layout, 100) if each < sum(map(len, lines)))
    with pytest.raises(ValueError, match=f"raw: line {len(lines) + 1}: longer than"):
        rows(path, layout, Tally(), begin)


@pytest.mark.parametrize("clock", [pl.Float64, pl.Int64, pl.String])
def test_parts_of_a_parquet_file_have_whole_row_groups(clock: type[pl.DataType], tmp_path: Path) -> None:
    path = tmp_path / "raw"
    times = pl.Series([*range(40), *range(20_260_101, 20_260_111), *range(20_300_000, 20_300_020)]).cast(clock)
    counts = [None if n % 9 == 0 else 2.5 if n % 7 == 0 else float(n) for n in range(70)]
    pl.DataFrame({"time": times, "n": counts}).write_parquet(path, row_group_size=10)
    layout = raw_layout(path, columns={"time": "time", "n": "int"})
    whole = Tally(99)
    expected = rows(path, layout, whole)
    assert len(whole.lines) == 8
    begins = part_begins(path, layout, 1)
    assert [lines_before(path, layout, begin) for begin in begins] == [*range(0, 70, 10)]
    begins = begins[::2]
    tallies = [Tally(99) for _ in begins]
    parts = [
        rows(path, layout, tally, begin, end)
        for tally, begin, end in zip(tallies, begins, [*begins[1:], None], strict=True)
    ]
    assert pl.concat(parts).equals(expected)
    found = [
        msgspec.structs.replace(each, line=each.line + lines_before(path, layout, begin))
        for tally, begin in zip(tallies, begins, strict=True)
        for each in tally.lines
    ]
    assert found == whole.lines
    assert [tally.malformed.text for tally in tallies if tally.malformed][1] == str((times[21], 2.5))


def test_dates_without_separators_are_dates_in_all_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    pl.DataFrame({"time": ["20260101", "20260102", "20260103"]}).write_parquet(path, row_group_size=1)
    found = rows(path, raw_layout(path), Tally())["time"].to_list()
    assert found == [at("2026-01-01"), at("2026-01-02"), at("2026-01-03")]


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def first_row(path: Path, *lines: str) -> dict[str, object]:
    written(path, [f"{line}\n" for line in lines])
    return rows(path, raw_layout(path), Tally()).row(0, named=True)


def test_fields_of_combined_logs(tmp_path: Path) -> None:
    row = first_row(tmp_path / "raw", MAKERS["combined"](1).strip())
    assert row == {
        "time": at("1995-07-01T04:00:01"), "host": "a1.example", "method": "GET", "file": "/x/1.html",
        "request": "GET /x/1.html HTTP/1.0", "status": 200, "bytes": 1, "referer": "http://from/1",
        "agent": 'Agent/1 (\\"x\\")',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1700000000.25 IP 10.0.0.1.80 > 10.0.0.2.5000: Flags [S], length 0",
         ("IP", "10.0.0.1", 80, "10.0.0.2", 5000, 0)),
        ("1700000000.25 IP6 fe80::1.53 > 2001:db8::2.9: UDP, length 44", ("IP6", "fe80::1", 53, "2001:db8::2", 9, 44)),
        ("1700000000.25 IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 1, seq 1, length 64",
         ("IP", "10.0.0.1", None, "10.0.0.2", None, 64)),
        ("1700000000.25 ARP, Request who-has 10.0.0.1 tell 10.0.0.2, length 28", ("ARP", None, None, None, None, 28)),
        ("1700000000.25 IP a.example.org.443 > b.5: UDP", ("IP", "a.example.org", 443, "b", 5, None)),
    ],
)  # fmt: skip
def test_lines_of_tcpdump(line: str, expected: tuple[object, ...], tmp_path: Path) -> None:
    row = first_row(tmp_path / "raw", line)
    assert row["time"] == at("2023-11-14T22:13:20.250")
    assert tuple(row.values())[1:-1] == expected


def test_logs_of_zeek_have_the_columns_that_they_state(tmp_path: Path) -> None:
    path = written(tmp_path / "raw", [MAKERS["zeek"](n) for n in range(3)])
    layout = raw_layout(path)
    assert layout.schema == {
        "time": "time", "uid": "str", "id_orig_h": "str", "id_orig_p": "int", "duration": "float", "local_orig": "bool",
    }  # fmt: skip
    assert rows(path, layout, Tally()).row(2)[1:] == ("C2", "10.0.0.1", 2, None, True)
    path.write_text("#separator \\x09\n#fields\tts\n1\n")
    with pytest.raises(ValueError, match="no lines #fields and #types with as many names; expected a log of Zeek"):
        raw_layout(path)


def test_columns_of_json_lines_are_those_of_all_first_objects(tmp_path: Path) -> None:
    path = written(
        tmp_path / "raw",
        ['{"at": "2026-01-01T00:00:00Z", "n": 1}\n', '{"at": "2026-01-01T00:00:01Z", "n": 1.5, "s": "x"}\n'],
    )
    layout = raw_layout(path, time="at")
    assert layout.schema == {"time": "time", "n": "float", "s": "str"}
    assert rows(path, layout, Tally())["s"].to_list() == [None, "x"]


@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        ("csv", ["time,n\n", "1,1\n", "2\n", "x,3\n", "4,4\n", "5,5,5\n"], [(3, "line"), (4, "time"), (6, "line")]),
        ("csv", ["time,n\n", '1,"a"\n', '2,"b"c\n', '3,"d"\n', "4\n"], [(3, "line"), (5, "line")]),
        ("ncsa", [LOG.format(n=1), "what\n", LOG.format(n=2), LOG.format(n=3).replace("Jul", "Foo")],
         [(2, "line"), (4, "time")]),
        ("jsonl", ['{"time": 1, "n": 1}\n', "{\n", '{"time": 2, "n": 2}\n', '{"time": "x", "n": 3}\n'],
         [(2, "line"), (4, "time")]),
        ("zeek", [ZEEK, "1\tC\ta\t1\t1\tF\n", "1\tC\n", "2\tC\ta\tx\t1\tF\n"], [(6, "line"), (7, "id_orig_p")]),
        ("tcpdump", ["x\n", "1700000000.5 IP a.1 > b.2: x\n", "12:00:00.1 IP a.1 > b.2: x\n"],
         [(1, "line"), (3, "line")]),
        ("combined", [MAKERS["combined"](1), LOG.format(n=1), MAKERS["combined"](1).replace("Jul", "Foo")],
         [(2, "line"), (3, "time")]),
        ("tcp", ["1 1 2 3 4 5\n", "1 1 2 3\n", "2 1 2 3 4 x\n", "3 1 2 3 4 5\n"], [(2, "line"), (3, "bytes")]),
    ],
)  # fmt: skip
def test_each_malformed_line_is_described(
    kind: str, lines: list[str], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    path = written(tmp_path / "raw", lines)
    tally = Tally(10)
    rows(path, raw_layout(path, kind), tally)
    assert [(each.line, each.field) for each in tally.lines] == expected
    assert tally.malformed is not None
    assert tally.malformed.count == len(expected)
    few = Tally(1)
    rows(path, raw_layout(path, kind), few)
    assert few.lines == tally.lines[:1]


def test_the_path_of_a_parquet_file_is_no_pattern(tmp_path: Path) -> None:
    path = tmp_path / "day=1" / "a[1]*?.parquet"
    path.parent.mkdir()
    pl.DataFrame({"time": [1.0, 2.0], "v": [3, 4]}).write_parquet(path)
    (table,) = raw_tables(path, raw_layout(path), Tally())
    assert table["v"].to_list() == [3, 4]
    assert table.columns == ["time", "v"]


def test_each_malformed_row_of_parquet_is_described(tmp_path: Path) -> None:
    pl.DataFrame({"time": [1.0, None, 3.0, 1e300]}).write_parquet(tmp_path / "raw")
    tally = Tally(10)
    rows(tmp_path / "raw", raw_layout(tmp_path / "raw"), tally)
    assert [each.line for each in tally.lines] == [2, 4]


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        (["time,n\n", "2026-07-01 12:00:00,1\n"], True),
        (["time,n\n", "2026-07-01,1\n"], True),
        (["time,n\n", "2026-07-01T12:00:00Z,1\n"], False),
        (["time,n\n", "1751371200,1\n"], False),
        (["time,n\n", "2026-07-01 12:00:00+02:00,1\n"], False),
        (['{"time": "2026-07-01 12:00:00"}\n'], True),
        (['{"time": 1}\n'], False),
        ([MAKERS["http"](1)], True),
        ([MAKERS["ncsa"](1)], False),
        ([MAKERS["tcpdump"](1)], True),
        (["1700000000.25 IP 10.0.0.1.80 > 10.0.0.2.5000: x\n"], False),
    ],
)
def test_a_time_zone_is_for_times_that_state_none(lines: list[str], known: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "raw", lines)
    if known:
        plain = rows(path, raw_layout(path), Tally())["time"][0]
        found = rows(path, raw_layout(path, zone="Asia/Tokyo"), Tally())["time"][0]
        assert plain - found == dt.timedelta(hours=9)
    else:
        with pytest.raises(
            ValueError, match=r"raw: time_zone: 'Asia/Tokyo', but its times say which instants they are"
        ):
            raw_layout(path, zone="Asia/Tokyo")


def test_a_time_zone_is_there_and_parquet_may_have_local_times(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    pl.DataFrame({"time": [at("2026-03-29T02:30:00")]}).write_parquet(path)
    assert rows(path, raw_layout(path, zone="Europe/Berlin"), Tally())["time"][0] == at("2026-03-29T01:30:00")
    pl.DataFrame({"time": [at("2026-03-29T02:30:00")]}).cast(pl.Datetime("us", "UTC")).write_parquet(path)
    with pytest.raises(ValueError, match="its times say which instants they are"):
        raw_layout(path, zone="Europe/Berlin")
    with pytest.raises(ValueError, match="time_zone: 'Europe/Berlinn'; expected the name of a time zone"):
        raw_layout(path, zone="Europe/Berlinn")


def test_a_count_a_line_becomes_as_many_rows_of_its_period(tmp_path: Path) -> None:
    lines = ["2\n", "0\r\n", "\n", "x\n", "3\n", "-1\n", "1000001\n"]
    path = written(tmp_path / "raw", lines)
    start = int(at("1995-07-01T04:00:00").replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    layout = raw_layout(path, "counts", start=start, step=500_000)
    tally = Tally(10)
    found = rows(path, layout, tally)
    assert found.columns == list(layout.schema)
    assert found["time"].to_list() == [at("1995-07-01T04:00:00")] * 2 + [at("1995-07-01T04:00:02")] * 3
    assert found["number"].to_list() == [1, 2, 1, 2, 3]
    assert [(each.line, each.value) for each in tally.lines] == [(4, "x"), (6, "-1"), (7, "1000001")]
    assert tally.lines[0].expected == "an integer from 0 to 1,000,000"
    assert tally.rows == 6
    assert part_begins(path, layout, 4) == [0]


def test_large_counts_come_in_tables_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "raw.gz"
    path.write_bytes(gzip.compress(b"900000\n200000\n0\n5\n"))
    layout = raw_layout(path, "counts", start=0, step=1_000_000)
    tables = list(raw_tables(path, layout, Tally()))
    assert [each.height for each in tables] == [900_000, 200_005]
    assert tables[1]["time"].to_physical().unique().sort().to_list() == [1_000_000, 3_000_000]
    assert tables[1]["number"][-1] == 5


def test_counts_need_a_start_and_a_step_and_others_have_none(tmp_path: Path) -> None:
    path = written(tmp_path / "raw", ["1\n"])
    with pytest.raises(
        ValueError, match=r"raw: format 'counts' without start and step; expected the time of its first"
    ):
        raw_layout(path, "counts", start=0)
    other = written(tmp_path / "other", ["time,n\n", "1,1\n"])
    with pytest.raises(
        ValueError, match=r"other: start and step with format 'csv'; expected them with format 'counts'"
    ):
        raw_layout(other, start=0, step=1)
    with pytest.raises(ValueError, match="its times say which instants they are"):
        raw_layout(path, "counts", start=0, step=1, zone="Asia/Tokyo")
