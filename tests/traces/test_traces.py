"""Traces: every format is read, recognised and, where it is wrong, refused in one sentence; replay keeps event time."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation
from synergy_nb.plan import PlanError, source
from synergy_nb.plan.operators.sources import FORMATS
from synergy_nb.runtime.data import instances
from synergy_nb.simulator import _paced_sources as paced_sources
from synergy_nb.traces import info, paced, read, read_once, schema_of
from synergy_nb.traces.trace_files import sniff
from tests.traces.whole_traces import load

HTTP = """\
1+1: Tue Aug 22 00:00:00 1995 (/SDSC/vrml/cube.gif): Sent binary: GET /SDSC/vrml/cube.gif HTTP/1.0
UNR a.example: Tue Aug 22 00:00:05 1995 (/vrml): Sent cache: GET /vrml/ HTTP/1.0
3+1: Tue Aug  2 00:00:09 1995 (/index.html): Sent text: GET / HTTP/1.0
6+1: Tue Aug 22 00:00:28 1995 (): HTTP error: HTTP/1.0 403 Sorry: (no)
7+1: Tue Aug 22 00:00:46 1995 (/): Sent cache:
"""
NCSA = """\
in24.example.edu - - [01/Jul/1995:00:00:01 -0400] "GET /shuttle/missions/sts-68.txt?x=1 HTTP/1.0" 200 1713
1.2.3.4 - - [01/Jul/1995:04:00:02 +0000] "GET /" 304 -
h - u [01/Jul/1995:00:00:03 -0400] "GET /a b" c HTTP/1.0" 404 0 "http://r/" "Agent 200 1"
"""
TCP = "0.010445 2 1 2436 23 2\n0.023775 1 2 23 2436 0\n0.026558 2 1 2436 23 1\n"
CSV = "timestamp,pair,bytes,ok\n1.5,a,2,true\n2,b,3,false\n3.25,a,,true\n"
EXAMPLES = {"csv": CSV, "http": HTTP, "ncsa": NCSA, "tcp": TCP}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def make(content: str | bytes, name: str = "trace") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def micros(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"time": list(values)}, schema={"time": TYPES["time"]})


# -- formats -------------------------------------------------------------------------------------------------------


def test_an_http_log_is_read_with_its_columns(write: Any) -> None:
    trace = load(write(HTTP), "http")
    assert trace.malformed is None
    assert trace.table.rows() == [
        (
            at("1995-08-22T00:00:00"),
            "1+1",
            "/SDSC/vrml/cube.gif",
            "/SDSC",
            "Sent binary",
            "GET /SDSC/vrml/cube.gif HTTP/1.0",
        ),
        (at("1995-08-22T00:00:05"), "UNR a.example", "/vrml", "/vrml", "Sent cache", "GET /vrml/ HTTP/1.0"),
        (at("1995-08-02T00:00:09"), "3+1", "/index.html", "/", "Sent text", "GET / HTTP/1.0"),
        (at("1995-08-22T00:00:28"), "6+1", "", "", "HTTP error", "HTTP/1.0 403 Sorry: (no)"),
        (at("1995-08-22T00:00:46"), "7+1", "/", "/", "Sent cache", ""),
    ]


def test_an_ncsa_log_is_read_with_times_in_utc(write: Any) -> None:
    table = load(write(NCSA), "ncsa").table
    assert table.select("time", "host", "file", "directory", "status", "bytes").rows() == [
        (
            at("1995-07-01T04:00:01"),
            "in24.example.edu",
            "/shuttle/missions/sts-68.txt",
            "/shuttle",
            200,
            1713,
        ),
        (at("1995-07-01T04:00:02"), "1.2.3.4", "/", "/", 304, 0),
        (at("1995-07-01T04:00:03"), "h", "/a", "/a", 404, 0),
    ]


def test_a_tcp_trace_has_times_to_the_microsecond(write: Any) -> None:
    table = load(write(TCP), "tcp").table
    assert table["time"].to_physical().to_list() == [10_445, 23_775, 26_558]
    assert table.drop("time").row(0) == ("2", "1", 2436, 23, 2)


@pytest.mark.parametrize("text", [TCP.replace(" ", "\t"), TCP.replace(" ", "  "), TCP.replace("\n", "\r\n"), TCP[:-1]])
def test_tcp_traces_with_other_blanks_are_the_same(write: Any, text: str) -> None:
    assert load(write(text), "tcp").table.equals(load(write(TCP, "plain"), "tcp").table)


def test_csv_columns_have_the_stated_or_the_inferred_types(write: Any) -> None:
    path = write(CSV)
    found = load(path)
    assert found.schema == {"time": "time", "pair": "str", "bytes": "int", "ok": "bool"}
    assert found.table["bytes"].to_list() == [2, 3, None]
    stated = load(path, "csv", columns={"bytes": "float", "timestamp": "time"}, time="timestamp")
    assert stated.schema == {"time": "time", "bytes": "float"}
    assert stated.table["time"].to_physical().to_list() == [1_500_000, 2_000_000, 3_250_000]


def test_csv_values_may_contain_quotes_and_line_ends(write: Any) -> None:
    table = load(write('time;x;"y"\r\n1;"a;b\nc";2\r\n2;d;"3"\r\n')).table
    assert table.rows() == [(at("1970-01-01T00:00:01"), "a;b\nc", 2), (at("1970-01-01T00:00:02"), "d", 3)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00"),
        ("2020-01-01 00:00:00.25", "2020-01-01T00:00:00.250000"),
        ("2020-01-01T02:00:00.5+02:00", "2020-01-01T00:00:00.500000"),
        ("2020-01-02", "2020-01-02T00:00:00"),
        (" 1577836800.000001 ", "2020-01-01T00:00:00.000001"),
        ("-1", "1969-12-31T23:59:59"),
    ],
)
def test_event_times_of_every_text_form_are_read(write: Any, text: str, expected: str) -> None:
    assert load(write(f"time,x\n{text},1\n")).table["time"][0] == at(expected)


@pytest.mark.parametrize("dtype", [pl.Datetime("ns", "Europe/Paris"), pl.Datetime("ms"), pl.Float64, pl.Int32])
def test_parquet_traces_of_every_clock_type_have_the_same_times(tmp_path: Path, dtype: Any) -> None:
    moment = [1.0, 2.0] if dtype in (pl.Float64, pl.Int32) else [at("1970-01-01T00:00:01"), at("1970-01-01T00:00:02")]
    clock = pl.Series(moment).cast(pl.Datetime("us") if isinstance(moment[0], dt.datetime) else dtype)
    if isinstance(dtype, pl.Datetime):
        clock = clock.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Paris") if dtype.time_zone else clock
        clock = clock.cast(dtype)
    path = tmp_path / "x.parquet"
    pl.DataFrame({"n": pl.Series([1, 2], dtype=pl.UInt8), "ts": clock, "k": ["a", None]}).write_parquet(path)
    trace = load(path)
    assert (trace.format, trace.schema) == ("parquet", {"time": "time", "n": "int", "k": "str"})
    assert trace.table.rows() == [(at("1970-01-01T00:00:01"), 1, "a"), (at("1970-01-01T00:00:02"), 2, None)]
    assert load(path, "parquet", columns={"k": "str"}, time="ts").schema == {"time": "time", "k": "str"}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("packed", [False, True])
def test_formats_are_recognised_and_tables_have_their_schema(write: Any, kind: str, packed: bool) -> None:
    text = EXAMPLES[kind].encode()
    path = write(gzip.compress(text) if packed else text, "trace.gz" if packed else "trace")
    assert sniff(path) == kind
    trace = load(path)
    assert trace.table.schema == {name: TYPES[column] for name, column in trace.schema.items()}
    assert next(iter(trace.schema)) == "time"
    assert schema_of({"path": str(path), "format": kind}) == trace.schema


LATIN = {
    "csv": "time,name\n0,M\xfcller\n1,M\xf6ller\n2,Smith\n",
    "quoted": 'time,name\n0,"M\xfcller"\n1,M\xf6ller\n2,"Smith"\n',
    "http": HTTP.replace("vrml/cube", "caf\xe9/cube"),
    "ncsa": NCSA.replace("shuttle", "\xe9", 2),
    "tcp": TCP.replace("2 1", "\xfc 1"),
}


@pytest.mark.parametrize("kind", LATIN)
def test_bytes_that_are_no_utf8_are_refused_by_line_and_read_in_the_stated_encoding(write: Any, kind: str) -> None:
    form = "csv" if kind == "quoted" else kind
    columns = {"time": "time", "name": "str"} if form == "csv" else None
    expected = load(write(LATIN[kind]), form, columns=columns).table
    path = write(LATIN[kind].encode("cp1252"))
    first = next(number for number, line in enumerate(LATIN[kind].split("\n"), start=1) if not line.isascii())
    with pytest.raises(ValueError, match=rf"line {first}: field 'line': '.*\ufffd.*'; expected text in UTF-8, or"):
        load(path, form, columns=columns)
    assert load(path, form, columns=columns, encoding="windows-1252").table.equals(expected)
    skipped = load(path, form, columns=columns, tolerance=1.0)
    assert skipped.malformed is not None
    assert skipped.table.height == expected.height - skipped.malformed.count
    assert load(write(LATIN[kind].encode("utf-16")), form, columns=columns, encoding="utf-16").table.equals(expected)


def test_text_that_is_not_in_the_stated_encoding_is_refused_by_line(write: Any) -> None:
    with pytest.raises(ValueError, match=r"line 3: .*0x81.*; expected text in encoding 'cp1252'"):
        load(write(b"time,name\n0,a\n1,\x81\n"), "csv", columns={"time": "time", "name": "str"}, encoding="cp1252")
    with pytest.raises(ValueError, match=r"text in UTF-16; expected text in UTF-8, or encoding='utf-16'"):
        load(write("time,name\n0,a\n".encode("utf-16")), "csv")


def test_a_damaged_parquet_file_is_named_wherever_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    pl.DataFrame({"time": np.arange(500.0), "s": [f"x{each % 7}" for each in range(500)]}).write_parquet(path)
    whole = path.read_bytes()
    told = []
    for place in range(4, len(whole) - 8, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF, whole[place + 1] ^ 0xA5]) + whole[place + 2 :])
        try:
            load(path, "parquet", columns={"time": "time", "s": "str"})
        except ValueError as error:
            told.append(str(error))
    assert len(told) > 10, "most of this damage is noticed, also where Polars panics"
    assert all(each.startswith(str(path)) for each in told)


LINE = '198.51.100.7 - - [10/Oct/2000:13:55:36 -0700] "{}" 404 2326'


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (LINE.format("GET /a/b.gif HTTP/1.0") + ' "http://example.org/" "Agent/1.0" 423 2601', "/a/b.gif"),
        (LINE.format("GET /a/b.gif HTTP/1.0") + ' "-" "-" 123 5', "/a/b.gif"),
        (LINE.format("GET /a/b.gif HTTP/1.0") + ' "-" "x" 200 1 "cookie=1"', "/a/b.gif"),
        (LINE.format(r"GET /a/b.gif?q=\" 200 5 HTTP/1.0") + r' "-" "odd \"agent\" 200 5"', "/a/b.gif"),
        (LINE.format('GET /a/b.gif"x" HTTP/1.0'), '/a/b.gif"x"'),
        (LINE.format(r"\x99\xf3\x0fF"), r"\x99\xf3\x0fF"),
    ],
)
def test_status_and_bytes_of_a_web_log_are_those_after_the_request(write: Any, line: str, file: str) -> None:
    assert load(write(line + "\n"), "ncsa").table.select("file", "status", "bytes").row(0) == (file, 404, 2326)


def test_a_size_of_twenty_digits_is_a_malformed_line(write: Any) -> None:
    good = LINE.format("GET /a HTTP/1.0") + "\n"
    trace = load(write(good * 100 + good.replace("2326", "9" * 20) + good), "ncsa")
    assert (trace.table.height, trace.table["bytes"].sum()) == (101, 101 * 2326)
    assert str(trace.malformed) == f"line 101: field 'bytes': '{'9' * 20}'; expected an integer of 64 bits, or -"


@pytest.mark.slow
def test_a_log_longer_than_a_block_keeps_its_line_numbers(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(HTTP * 100 + "rubbish\n" + HTTP * 100)
    whole = load(path, "http")
    monkeypatch.setattr("synergy_nb.traces.text_files.BLOCK", 150)
    blocks = load(path, "http")
    assert blocks.table.equals(whole.table)
    assert blocks.malformed == whole.malformed
    assert whole.malformed is not None
    assert (whole.malformed.line, whole.malformed.count, whole.malformed.rows) == (501, 1, 1001)


# -- what is wrong -------------------------------------------------------------------------------------------------

BAD_LINES = {
    "http": ("nonsense", "line", "nonsense", "'N+H: Tue Aug"),
    "ncsa": ('h - - [01/Jly/1995:00:00:01 -0400] "GET /" 200 1', "time", "01/Jly/1995:00:00:01 -0400", "a date"),
    "tcp": ("0.5 1 2 23 x 4", "destination_port", "x", "an integer"),
    "csv": ("2.5,b,three,true", "bytes", "three", "an integer"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_malformed_line_is_named_and_skipped(write: Any, kind: str) -> None:
    line, field, value, expected = BAD_LINES[kind]
    rows = EXAMPLES[kind].splitlines()
    body = rows * 80 if kind != "csv" else [rows[0], *rows[1:] * 80]
    text = "\n".join([*body[:201], line, *body[201:], ""])
    path = write(text)
    columns = {"timestamp": "time", "pair": "str", "bytes": "int", "ok": "bool"} if kind == "csv" else None
    trace = load(path, kind, columns=columns)
    assert trace.malformed is not None
    assert (trace.malformed.count, trace.malformed.line, trace.malformed.text) == (1, 202, line)
    assert (trace.malformed.field, trace.malformed.value) == (field, value)
    assert trace.malformed.expected.startswith(expected)
    assert trace.table.height == trace.malformed.rows - 1
    with pytest.raises(
        ValueError, match=re.escape(f"{path}: line 202: field {field!r}: {value!r}; expected {expected}")
    ):
        load(path, kind, columns=columns, strict=True)


@pytest.mark.parametrize(("line", "field"), [("1,2", "line"), ("1,2,3,4", "line"), ("x,2,3", "time")])
@pytest.mark.parametrize("quote", ["", '"'])
def test_both_ways_of_splitting_agree_on_what_is_malformed(write: Any, line: str, field: str, quote: str) -> None:
    text = "time,a,b\n" + f"1,{quote}2{quote},3\n" * 150 + line + "\n" + "2,3,4\n" * 50
    trace = load(write(text), "csv", columns={"a": "int", "b": "int"})
    assert trace.malformed is not None
    assert (trace.malformed.line, trace.malformed.field, trace.malformed.text) == (152, field, line)
    assert (trace.malformed.count, trace.malformed.rows, trace.table.height) == (1, 201, 200)


def test_the_first_of_several_malformed_lines_is_named(write: Any) -> None:
    lines = TCP.splitlines() * 200
    lines[300] = "1 2 3"
    lines[200] = "inf 2 1 2436 23 1"
    trace = load(write("\n".join(lines)), "tcp")
    assert trace.malformed is not None
    assert (trace.malformed.count, trace.malformed.line, trace.malformed.field) == (2, 201, "time")


def test_more_than_a_share_malformed_is_an_error(write: Any) -> None:
    path = write(TCP * 20 + "1 2 3\n")
    with pytest.raises(ValueError, match=r"1 of 61 lines are not of format 'tcp' \(up to 1 % are skipped\); line 61"):
        load(path, "tcp")
    assert load(path, "tcp", tolerance=0.05).table.height == 60


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("tcp", "808446143.5 1 2 1023 25 512"),
        ("ncsa", 'host - - [01/Jul/1995:00:00:01 -0400] "GET /x HTTP/1.0" 200 6245'),
        ("http", "N+H: Tue Aug 22 00:00:00 1995 (/file): operation: request"),
    ],
)
def test_a_carriage_return_alone_ends_no_line(tmp_path: Path, kind: str, line: str) -> None:
    """Two lines with one between them were one row with the values of both."""
    path = tmp_path / "trace"
    path.write_bytes(f"{line}\r\n{line}\r{line}\n{line}\r\r\n{line.replace(' ', chr(13), 1)}\n".encode())
    found = load(path, kind, tolerance=0.5)
    assert found.table.height == 2
    assert found.malformed is not None
    assert (found.malformed.count, found.malformed.line) == (2, 2)
    assert "expected a line that ends with a line feed" in str(found.malformed)


def test_a_header_in_another_encoding_is_refused(write: Any) -> None:
    """It was a column with replacement characters, into which different names fall together."""
    path = write("")
    path.write_text("time,größe\n1,2\n", "latin-1")
    with pytest.raises(ValueError, match=r"line 1: 'time,gr..e'; expected text in UTF-8, or another encoding"):
        load(path, "csv")
    assert list(load(path, "csv", encoding="latin-1").schema) == ["time", "größe"]


def test_skipped_lines_are_logged(write: Any, caplog: pytest.LogCaptureFixture) -> None:
    path = write(TCP * 100 + "1 2 3\n")
    with caplog.at_level("WARNING", "synergy_nb.traces"):
        list(read({"connector": "trace", "path": str(path), "format": "tcp"}))
    assert f"skipped 1 malformed line of {path}; the first: line 301" in caplog.text


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "empty; expected a trace"),
        ("  \n\n", {}, "empty; expected a trace"),
        (gzip.compress(b"", mtime=0), {}, "empty; expected a trace"),
        (
            gzip.compress(HTTP.encode() * 500, mtime=0)[:-20],
            {"format": "http"},
            "damaged or cut-off gzip file after .* of text",
        ),
        (gzip.compress(HTTP.encode(), mtime=0)[:15] + b"rubbish", {"format": "http"}, "damaged or cut-off gzip file"),
        (b"\x1f\x9d\x90abc", {}, r"packed by compress \(.Z\); expected a plain or gzipped trace, so unpack it first"),
        (b"PK\x03\x04abc", {}, "packed by zip"),
        (b"\x00\x01\x02\x03" * 100, {}, "binary data; expected one of the formats csv, http, ncsa, parquet, tcp$"),
        ("hello\nworld\n", {}, "format not recognised .first line 'hello'.; expected one of csv, http, ncsa"),
        (HTTP, {"format": "tcp"}, "5 of 5 lines are not of format 'tcp'.*; it looks like format 'http'"),
        (NCSA, {"format": "http"}, "3 of 3 lines .*; it looks like format 'ncsa'"),
        (CSV, {"format": "parquet"}, "not a Parquet file; it looks like format 'csv'"),
        (b"PAR1" + b"x" * 100, {"format": "parquet"}, "damaged or cut-off Parquet file"),
        (b"PAR1" + b"x" * 100, {"format": "csv"}, "a Parquet file; expected text, or format 'parquet'"),
        (CSV, {"format": "cvs"}, "format: 'cvs'; expected one of .*; did you mean 'csv'"),
        (CSV, {"format": "csv", "time": "timestmp"}, "time: column 'timestmp' is not there.*did you mean 'timestamp'"),
        (CSV, {"format": "csv", "columns": {"byte": "int"}}, "column 'byte' is not there.*did you mean 'bytes'"),
        (CSV, {"format": "csv", "columns": {"bytes": "integer"}}, "'bytes' of type 'integer'; expected int, float"),
        ("a,b\n1,2\n", {}, "expected the column with the event time: one of a, b"),
        ("tip,began,ended\n1,2024-01-01,2024-01-02\n", {}, "event time: those with times are 'began', 'ended'"),
        (
            "tip,began\n1,2024-01-01\n",
            {"time": "begun"},
            "time: column 'begun' is not there; expected one of tip, began",
        ),
        ("time,a,a\n1,2,3\n", {"format": "csv"}, "line 1: columns .*; expected a header of distinct names"),
        ("1,0,5\n2,1,6\n", {"format": "csv", "time": "1"}, "line 1: columns .*; expected a header of distinct names"),
        ('time,"a\n1,2\n', {"format": "csv"}, "line 1: .*; expected a header in which each quote is closed"),
        ("time,a\r0,1\r", {"format": "csv"}, "carriage returns without line feeds; expected lines that end with a"),
        (gzip.compress(b"x" * 257 + b"ustar", mtime=0), {}, "packed twice, first by tar; expected a gzipped text"),
        ("time,a\n", {"format": "csv"}, "no tuples; expected at least one row of format 'csv'"),
        ("ts,time\n1,2\n", {"format": "csv", "time": "ts"}, "time: 'ts', but another column is named 'time'"),
    ],
)
def test_bad_files_give_one_clear_error_before_anything_starts(
    write: Any, content: str | bytes, options: dict[str, Any], message: str
) -> None:
    path = write(content)
    with pytest.raises(ValueError, match=message) as caught:
        read({"connector": "trace", "path": str(path), **options})
    assert "\n" not in str(caught.value)


def test_a_quoted_name_may_contain_the_separator_or_more_of_another_one(write: Any) -> None:
    path = write('when;"name, first, last, middle";"a;b"\n0;x;1\n1;y;2\n')
    table = load(path, "csv", columns={"name, first, last, middle": "str", "a;b": "int"}, time="when").table
    assert table.rows()[1][1:] == ("y", 2)


def test_a_csv_file_with_the_index_of_pandas_and_times_to_the_minute_is_read(write: Any) -> None:
    path = write(",when,a\n0,2026-01-01 09:00,5\n1,2026-01-01T10:05+01:00,6\n")
    assert sniff(path) == "csv"
    table = load(path, "csv", columns={"a": "int"}, time="when").table
    assert table.select(pl.col("time").dt.to_string("%H:%M:%S"), "a").rows() == [("09:00:00", 5), ("09:05:00", 6)]


def test_a_missing_trace_file_is_named_with_the_nearest_name(tmp_path: Path, write: Any) -> None:
    write(HTTP, "sdsc-http.txt")
    with pytest.raises(ValueError, match=r"sdsc-htp.txt: no such file; .*did you mean 'sdsc-http.txt'"):
        read({"path": str(tmp_path / "sdsc-htp.txt")})
    with pytest.raises(ValueError, match="a directory, not a file; expected a trace file"):
        read({"path": str(tmp_path)})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"connector": "tarce", "path": "x"},
            "'tarce'; expected one of packets, nexmark, trace; did you mean 'trace'",
        ),
        ({}, "path: None; expected the path of a trace"),
        ({"path": "x", "batch": 0}, "batch: 0; expected a number of tuples of at least 1"),
    ],
)
def test_wrong_parameters_of_a_trace_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(params)


def test_a_parquet_column_that_no_tuple_can_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"time": [1.0], "noon": [dt.time(12)]}).write_parquet(path)
    with pytest.raises(ValueError, match="column 'noon' of type Time; expected int, float"):
        load(path)


MARKS = (b"time", b",", b"\n", b'"', b"1", b"2.5", b" ", b"\t", b"\r\n", b"\x00", b"\xff", b"x", b";")
PIECES = st.sampled_from([*MARKS, *map(str.encode, EXAMPLES.values())])


@pytest.mark.slow
@given(pieces=st.lists(PIECES, max_size=12), kind=st.sampled_from([None, *FORMATS]), packed=st.booleans())
@settings(max_examples=150)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], kind: str | None, packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(gzip.compress(b"".join(pieces)) if packed else b"".join(pieces))
    try:
        trace = load(path, kind, tolerance=1.0)
    except ValueError:
        return
    assert trace.table.schema == {name: TYPES[column] for name, column in trace.schema.items()}
    assert not trace.table["time"].has_nulls()


# -- streams -------------------------------------------------------------------------------------------------------


def check_promises(items: list[Item]) -> None:
    """Positions are consecutive, no punctuation is undercut, and none could be later."""
    position = 0
    later = [
        min(
            (t for item in items[index:] if isinstance(item, Batch) for t in item.table["time"].to_physical()),
            default=END,
        )
        for index in range(len(items))
    ]
    for index, item in enumerate(items):
        assert item.position == position
        if isinstance(item, Batch):
            position += item.rows
        else:
            assert item.time == later[index]
    assert items[-1] == Punctuation(END, position, 0.0)


def test_a_trace_out_of_order_is_sorted_and_ties_keep_their_order(write: Any) -> None:
    path = write("time,x\n3,a\n1,b\n2,c\n1,d\n3,e\n")
    items = list(read({"path": str(path), "format": "csv", "batch": 2}))
    tables = [item.table for item in items if isinstance(item, Batch)]
    assert pl.concat(tables)["x"].to_list() == ["b", "d", "c", "a", "e"]
    assert [item.time for item in items if isinstance(item, Punctuation)] == [2_000_000, 3_000_000, END]
    check_promises(items)


def test_a_trace_in_order_is_read_once_and_one_out_of_order_says_so(write: Any) -> None:
    """As :func:`read` has it, with what it says of lines that were skipped, but at the end."""
    path = write("time,n\n1,0\n2,1\nsoon,2\n2,3\n7,4\n", "in.csv")
    params = {"path": str(path), "format": "csv", "batch": 3, "tolerance": 0.5}
    said: list[Any] = []

    def take(tables: Iterator[pl.DataFrame]) -> None:
        taken.extend(each["n"].to_list() for each in tables)
        assert not said

    taken: list[list[int]] = []
    assert read_once(params, take, said.append)
    assert taken == [[0, 1, 3], [4]]
    assert [each.count for each in said] == [1]
    with pytest.raises(ValueError, match=r"1 of 5 lines are not of format 'csv'"):
        read_once({**params, "tolerance": 0.1}, list)
    late = write("time,n\n1,0\n3,1\n2,2\n", "late.csv")
    assert not read_once({**params, "path": str(late)}, list, said.append)
    assert len(said) == 1


def test_lateness_keeps_the_order_of_the_file(write: Any) -> None:
    path = write("time,x\n3,a\n1,b\n2,c\n4,d\n3,e\n")
    params = {"path": str(path), "format": "csv", "batch": 1}
    items = list(read({**params, "lateness": 2}))
    assert [item.table["x"][0] for item in items if isinstance(item, Batch)] == list("abcde")
    check_promises(items)
    with pytest.raises(ValueError, match=r"lateness: tuple 1 is 2 s behind an earlier one; expected at most 1\.5 s"):
        read({**params, "lateness": 1.5})
    with pytest.raises(ValueError, match="lateness: 'x'; expected seconds"):
        read({**params, "lateness": "x"})


@pytest.mark.slow
@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    rows=st.integers(1, 10),
    lateness=st.sampled_from([None, 50]),
)
@settings(max_examples=40)
def test_punctuations_of_any_trace_are_true_and_greatest(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], rows: int, lateness: int | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("time,n\n" + "".join(f"{time},{index}\n" for index, time in enumerate(times)))
    params = {"path": str(path), "format": "csv", "batch": rows, "lateness": lateness}
    check_promises(list(read(params)))


def test_info_states_format_rows_times_and_disorder(write: Any) -> None:
    path = write(CSV + "1.25,c,4,true\n" + "4,d,5,false\n" * 200 + "5,e\n")
    found = info(path)
    assert (found.format, found.rows, found.size) == ("csv", 204, path.stat().st_size)
    assert (found.first, found.last, found.duration) == (
        "1970-01-01T00:00:01.250000",
        "1970-01-01T00:00:04.000000",
        2.75,
    )
    assert found.columns == {"time": "time", "pair": "str", "bytes": "int", "ok": "bool"}
    assert found.disorder == 2.0
    assert (found.malformed, found.complaint_text) == (1, "5,e")
    assert found.complaint == "line 206: field 'line': '5,e'; expected 4 fields as in the header"


# -- pacing --------------------------------------------------------------------------------------------------------


def test_speed_zero_reads_the_whole_trace_at_once() -> None:
    items: list[Item] = [Batch(micros(0, 10**9), 0, 0.0), Punctuation(END, 2, 0.0)]
    assert list(paced(items, 0)) == [(0.0, items[0]), (0.0, items[1])]


def test_a_tuple_is_due_by_its_event_time() -> None:
    items: list[Item] = [
        Batch(micros(1_000_000, 1_000_500, 1_003_000, 9_000_000), 5, 2.0),
        Punctuation(END, 9, 0.0),
    ]
    due = list(paced(items, 2, heartbeat=100.0))
    assert [(when, item.table["time"].to_physical().to_list()) for when, item in due if isinstance(item, Batch)] == [
        (0.00025, [1_000_000, 1_000_500]),
        (0.0015, [1_003_000]),
        (4.0, [9_000_000]),
    ]
    assert [(item.position, item.born) for _, item in due if isinstance(item, Batch)] == [
        (5, 2.0),
        (7, 2.0),
        (8, 2.0),
    ]
    assert due[-1] == (4.0, items[1])


def test_heartbeats_tell_how_far_a_silent_stream_is() -> None:
    items: list[Item] = [Batch(micros(0), 0, 0.0), Punctuation(5_000_000, 1, 0.0), Batch(micros(5_000_000), 1, 0.0)]
    told = [(when, item.time) for when, item in paced(items, 2, heartbeat=1.0) if isinstance(item, Punctuation)]
    assert told == [(1.0, 2_000_000), (2.0, 4_000_000), (2.5, 5_000_000)]


@pytest.mark.parametrize("open_source", [instances.read_paced, paced_sources.opened])
def test_the_heartbeat_of_a_source_is_that_of_its_plan_live_and_simulated(
    open_source: Callable[[Any, Callable[[Any], None]], Any],
) -> None:
    def punctuations(**stated: float) -> int:
        params = {"connector": "packets", "rate": 1.0, "duration": 60.0, "speed": 10.0, "seed": 3, **stated}
        items, timed = open_source(params, lambda _lines: None)
        assert timed
        return sum(isinstance(item, Punctuation) for _, item in items)

    most = punctuations()
    assert most >= 55, "ten a second, and 6 s of replay"
    assert punctuations(heartbeat=0.1) == most
    assert punctuations(heartbeat=60.0) <= 10


def test_a_heartbeat_that_is_no_positive_time_is_refused() -> None:
    for wrong in ("0 s", "1 us", "-1 s"):
        with pytest.raises(PlanError, match=rf"heartbeat: '{wrong}'; expected a duration"):
            source("packets", heartbeat=wrong).sink("out")
    with pytest.raises(PlanError, match=r"heartbeat"):
        source(pl.DataFrame({"time": [1]}), heartbeat="1 s").sink("out")


def test_without_a_promise_there_is_no_heartbeat() -> None:
    items: list[Item] = [Batch(micros(0, 9_000_000), 0, 0.0), Batch(micros(1_000_000), 2, 0.0)]
    assert not [item for _, item in paced(items, 1, heartbeat=1.0) if isinstance(item, Punctuation)]


@given(
    times=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=60),
    rows=st.integers(1, 20),
    speed=st.sampled_from([0.5, 1, 1000]),
    ordered=st.booleans(),
)
@settings(max_examples=60)
def test_pacing_keeps_the_stream_and_its_promises(times: list[int], rows: int, speed: float, ordered: bool) -> None:
    times = sorted(times) if ordered else times
    items: list[Item] = []
    for start in range(0, len(times), rows):
        items.append(Batch(micros(*times[start : start + rows]), start, 0.0))
        items.append(Punctuation(min(times[start + rows :], default=END), min(start + rows, len(times)), 0.0))
    result = list(paced(items, speed))
    batches = [item for _, item in result if isinstance(item, Batch)]
    assert pl.concat([batch.table for batch in batches]).equals(micros(*times))
    dues = [due for due, _ in result]
    assert dues == sorted(dues)
    promised = -1
    position = 0
    for due, item in result:
        assert item.position == position
        if isinstance(item, Batch):
            found = item.table["time"].to_physical().to_list()
            assert min(found) >= promised
            latest = max(times[: item.end_position])
            assert due >= (latest - times[0]) / speed / 1e6 - 1e-9
            assert max(found) - min(found) <= 0.001 * speed * 1e6 or not ordered
            position += item.rows
        elif item.time != END:
            assert item.time > promised
            assert due >= (item.time - times[0]) / speed / 1e6 - 1e-9
            promised = item.time
    assert isinstance(result[-1][1], Punctuation)
    assert result[-1][1].ends


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"speed": -1.0}, "speed: -1.0; expected a finite number of at least 0"),
        ({"speed": float("nan")}, "speed: nan"),
        ({"speed": 1.0, "span": -1.0}, "span: -1.0"),
        ({"speed": 1.0, "heartbeat": 0.0}, "heartbeat: 0.0; expected a finite number of at least 1e-06"),
    ],
)
def test_a_wrong_pace_is_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paced([], **arguments)


# -- the real trace ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_log_of_sdsc_is_read_completely(real_data: Path) -> None:
    path = real_data / "sdsc-http.txt.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} in the folder of real data")
    found = info(path)
    assert (found.format, found.rows, found.malformed, found.disorder) == ("http", 28_338, 0, 1.0)
    assert (found.first, found.last) == ("1995-08-22T00:00:00.000000", "1995-08-22T23:59:41.000000")
    items = list(read({"connector": "trace", "path": str(path), "format": "http", "speed": 0.0}))
    assert [item.rows for item in items if isinstance(item, Batch)] == [28_338]
    # Counted independently, by Python's own regular expressions and dates.
    line = re.compile(r"^(.+?): \w+ (\w+ +\d+ [\d:]+ \d+) \((.*?)\): ([^:]*):")
    with gzip.open(path, "rt", encoding="latin-1") as file:
        matches = [line.match(text) for text in file]
    parts = [match.groups() for match in matches if match is not None]
    assert len(parts) == 28_338
    assert isinstance(items[0], Batch)
    table = load(path, "http").table
    assert table.select("host", "file", "operation").rows() == [(host, file, done) for host, _, file, done in parts]
    clock = [dt.datetime.strptime(when, "%b %d %H:%M:%S %Y") for _, when, _, _ in parts]  # noqa: DTZ007
    assert table["time"].to_list() == clock
    assert items[0].table["time"].to_list() == sorted(clock)


def test_every_format_has_an_example() -> None:
    assert {*EXAMPLES, "parquet"} == set(FORMATS)
