"""Traces are read in blocks: whatever their size, the rows are those that a literal reader finds in the whole file."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.tuples import TYPES, Batch
from synergy_nb.traces import _parquet as parquet
from synergy_nb.traces import _tabular as tabular
from synergy_nb.traces import _time_order as time_order
from synergy_nb.traces import read, text_files
from synergy_nb.traces._quoting import quoting
from synergy_nb.traces._records import AFTER_QUOTE, NOT_CLOSED, NOT_UTF8
from synergy_nb.traces._time_order import RowStore, TimeSurvey, sized
from synergy_nb.traces._typed_columns import Malformed, Tally
from synergy_nb.traces._typed_columns import expected as expected_of
from tests.traces.whole_traces import load

# -- a literal reader ----------------------------------------------------------------------------------------------

COLUMNS = {"time": "time", "n": "int", "s": "str"}


class Literal(NamedTuple):
    """A record, or a line that is none: its line, its lines, its text, its fields, and what was expected of a line."""

    line: int
    lines: int
    text: str
    fields: list[str]
    expected: str = ""


def literal_rows(text: str) -> Iterator[Literal]:
    """The records of a CSV text, character by character; a line that begins no record is skipped."""
    place, number = 0, 1
    while place < len(text):
        row: list[str] = []
        field, state, at, expected = "", "start", place, ""
        while (end := re.compile("\r*(?:\n|\\Z)").match(text, at)) is None or state == "quoted":
            if at == len(text):
                expected = NOT_CLOSED
                break
            mark = text[at]
            at += 1
            if state == "quoted":
                state, field = ("closed", field) if mark == '"' else (state, field + mark)
            elif mark == ",":
                row, field, state = [*row, field], "", "start"
            elif mark == '"' and state in ("start", "closed"):
                field, state = field + mark * (state == "closed"), "quoted"
            elif state == "closed":
                expected = AFTER_QUOTE
                break
            else:
                field, state = field + mark, "field"
        after = text.find("\n", place) + 1 or len(text)
        if not expected:
            assert end is not None
            after = end.end()
        record = text[place:after]
        lines = 1 if expected else record.count("\n") + (not record.endswith("\n"))
        shown = record.rstrip("\r\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if re.search("[\udc80-\udcff]", record):
            expected = NOT_UTF8
        if record.strip("\r\n"):
            yield Literal(number, lines, shown, [*row, field], expected)
        place, number = after, number + record.count("\n")


def literal_value(kind: str, text: str) -> Any:
    """The value of a field; ``...`` if it is malformed."""
    if kind == "str":
        return text
    if kind == "int":
        if not text:
            return None
        fits = re.fullmatch(r"[+-]?\d+", text.strip(" \t\r\n")) and -(2**63) <= int(text) < 2**63
        return int(text) if fits else ...
    try:
        seconds = float(text.strip(" \t\r\n"))
    except ValueError:
        return ...
    return round(seconds * 1e6) if abs(seconds) < 9e12 else ...


def judged(lines: Any, kinds: dict[str, str], expected: str, mark: str) -> tuple[list[Any], Malformed | None]:
    """The good rows of numbered records, and what is malformed."""
    good: list[Any] = []
    bad: list[Malformed] = []
    for number, spans, text, row, wrong in lines:
        values = [literal_value(kind, text) for kind, text in zip(kinds.values(), row, strict=False)]
        if wrong or len(row) != len(kinds):
            bad.append(Malformed(spans, 0, number, text, "line", text, wrong or expected))
        elif ... in values:
            place = values.index(...)
            field = list(kinds)[place]
            told = expected_of(kinds[field], row[place])
            bad.append(Malformed(spans, 0, number, mark.join(row), field, row[place], told))
        else:
            good.append(tuple(values))
    if not bad:
        return good, None
    count = sum(each.count for each in bad)
    return good, msgspec.structs.replace(bad[0], count=count, rows=len(good) + count)


def by_blocks(path: Path, read_blocks: Callable[[Tally], Iterator[pl.DataFrame]]) -> tuple[list[Any], Any]:
    """All rows of a file in blocks, times in microseconds, and what is malformed."""
    tally = Tally()
    rows = [row for table in read_blocks(tally) for row in table.with_columns(pl.col("time").to_physical()).rows()]
    return rows, tally.malformed


CSV_PIECES = (
    *(
        b"1",
        b"2.5",
        b"a",
        b" ",
        b",",
        b'"',
        b'""',
        b"\n",
        b"\r\n",
        b"\r",
        b"\xff",
        b"\xc3\xa9",
        b"\xef\xbb\xbf",
    ),
    *(b'1,"a"b,2\n', b'1,2,"a\n', b'1,2,"a\\"b"\n', b'",\n', b'1,2,x"\n'),
    *(b"1,2,a\n", b'1,"2","a"\r\n', b'3,4,"a,""b"\n', b'5,,"x\ny"\n', b'6,7,"x\r\n\r\ny,"\n', b'"",8,\n', b"9,9,\n"),
)


@pytest.mark.slow
@given(
    pieces=st.lists(st.sampled_from(CSV_PIECES), max_size=30),
    block=st.integers(1, 60),
    part=st.integers(1, 60),
    mark=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
@example(pieces=[b'5,,"x\ny"\n'] * 9, block=5, part=9, mark=False, end=b"\n")
@example(pieces=[b'1,"2","a"\r\n'] * 9 + [b"1,2"], block=60, part=9, mark=True, end=b"\r\n")
@example(pieces=[b"1,2,a\n", b"\xef\xbb\xbf", b"1,2,a\n"], block=6, part=9, mark=False, end=b"\n")
@example(pieces=[b"1", b",", b"2", b",", b'"', b"a", b"\n", b"1,2,a\n"], block=7, part=9, mark=False, end=b"\n")
@settings(max_examples=300, deadline=None)
def test_csv_in_blocks_is_what_a_literal_reader_makes_of_it(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], block: int, part: int, mark: bool, end: bytes
) -> None:
    body = b"".join(pieces)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"\xef\xbb\xbf" * mark + b"time,n,s" + end + body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK", block)
        patch.setattr(tabular, "_PART", part)
        patch.setattr(tabular, "_FEW", 1 + part // 4)
        layout = tabular.csv_layout(path, COLUMNS, None)
        found = by_blocks(path, lambda tally: tabular.csv_blocks(path, layout, tally))
    lines = [each._replace(line=each.line + 1) for each in literal_rows(body.decode("utf-8", "surrogateescape"))]
    assert found == judged(lines, COLUMNS, "3 fields as in the header", ",")


TCP_PIECES = (
    *(b"0.5 a b 1 2 3\n", b"1 a  b\t1 2 3 \r\n", b"2 a b 1 2\n", b"3 a b x 2 3\n", b"4 a b 1 2 3 4\n"),
    *(b"1", b"x", b" ", b"\t", b"\v", b"\n", b"\r\n", b"\xff", b"\xc2\xa0", b'"'),
)
TCP = {"time": "time", "source": "str", "destination": "str", "source_port": "int", "destination_port": "int"}


@pytest.mark.slow
@given(pieces=st.lists(st.sampled_from(TCP_PIECES), min_size=1, max_size=30), block=st.integers(1, 80))
@settings(max_examples=100, deadline=None)
def test_tcp_traces_in_blocks_are_what_a_literal_reader_makes_of_them(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], block: int
) -> None:
    body = b"0 a b 1 2 3\n" + b"".join(pieces)
    path = tmp_path_factory.getbasetemp() / "any.tcp"
    path.write_bytes(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK", block)
        found = by_blocks(path, lambda tally: tabular.tcp_blocks(text_files.whole_lines(path), tally))
    fields = []
    for number, line in enumerate(body.split(b"\n"), start=1):
        text = line.decode("utf-8", "replace")
        broken = "\ufffd" in text
        if text.strip():
            shown = text.rstrip("\r") if broken else " ".join(text.split())
            fields.append(Literal(number, 1, shown, text.split(), NOT_UTF8 * broken))
    expected = "6 fields: timestamp source destination source-port destination-port bytes"
    assert found == judged(fields, {**TCP, "bytes": "int"}, expected, " ")


@given(data=st.lists(st.sampled_from([*b'",\n\ra']), min_size=1, max_size=300).map(bytes), last=st.booleans())
def test_text_within_quotes_is_found_as_by_counting_quotes(data: bytes, last: bool) -> None:
    within = [data.count(b'"', 0, place + 1) % 2 == 1 for place in range(len(data))]
    ends = [place + 1 for place, mark in enumerate(data) if mark == ord("\n") and not within[place]]
    end = len(data) if last and not within[-1] else max(ends, default=0)
    around = b"\n" + data + (b"\n" if last and not within[-1] else b"")
    wrong = [
        place
        for place in range(end)
        if data[place] == ord('"')
        and not (
            around[place] in b',\n"' if within[place] else around[place + 2 : place + 3] in (b",", b"\n", b"\r", b'"')
        )
    ]
    clean = max((each for each in ends if each <= wrong[0]), default=0) if wrong else end
    inside = bytes(mark for mark, is_within in zip(data[:end], within, strict=False) if is_within)
    assert quoting(data, ",", last=last) == (end, clean, inside.count(b","), inside.count(b"\n"))


@pytest.mark.parametrize("quote", [False, True])
def test_clean_files_do_not_need_the_line_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quote: bool) -> None:
    numbers = np.arange(120_000)
    names = pl.Series(numbers).cast(pl.String)
    text = names + (', "é"\r\nend' if quote else "")
    table = pl.DataFrame({"time": numbers / 8, "n": numbers, "s": text, "t": names + "x"})
    path = tmp_path / "clean.csv"
    table.write_csv(path)
    monkeypatch.setattr(tabular._LineParser, "block", None)
    found = load(path, "csv", columns={"time": "time", "n": "int", "s": "str", "t": "str"}).table
    assert found.equals(table.with_columns((pl.col("time") * 1e6).cast(pl.Int64).cast(TYPES["time"])))


STRAY = [f"{number},a,{number}\n" for number in range(30_000)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({20_000: '0,"5 inch pipe,1\n'}, NOT_CLOSED),
        ({20_000: '0,"5 inch pipe,1\n', 20_200: '0,7 inch" pipe,1\n'}, AFTER_QUOTE),
        ({20_000: '0,"5 inch pipe,1\n', 20_200: '0,"7 inch pipe,1\n'}, AFTER_QUOTE),
        ({20_000: '0,"abc"def,1\n'}, AFTER_QUOTE),
        ({20_000: '0,"say \\"hi\\", twice",1\n'}, AFTER_QUOTE),
        ({at: f'0,"{at} inch,1\n' for at in range(20_000, 30_000, 1000)}, AFTER_QUOTE),
    ],
)
def test_a_malformed_quote_costs_one_line_which_is_named(
    tmp_path: Path, changed: dict[int, str], expected: str
) -> None:
    path = tmp_path / "stray.csv"
    path.write_text("time,s,n\n" + "".join(changed.get(number, line) for number, line in enumerate(STRAY)))
    found = load(path, "csv", columns={"time": "time", "s": "str", "n": "int"})
    stray = [number for number, line in changed.items() if ',"' in line]
    assert found.table["n"].to_list() == [1 if at in changed else at for at in range(30_000) if at not in stray]
    assert found.malformed is not None
    assert (found.malformed.count, found.malformed.rows) == (len(stray), 30_000)
    assert (found.malformed.line, found.malformed.text) == (20_002, changed[20_000].rstrip())
    assert found.malformed.expected == expected


def test_all_lines_of_a_malformed_row_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('time,s,n\n1,"a\nb\nc",x\n2,"a\nb",1,2\n3,"a\nb",4\n')
    found = load(path, "csv", columns={"time": "time", "s": "str", "n": "int"}, tolerance=1.0)
    assert found.table["n"].to_list() == [4]
    assert found.malformed is not None
    assert (found.malformed.count, found.malformed.rows, found.malformed.line) == (5, 6, 2)


def test_a_quoted_field_may_be_large_also_beside_a_malformed_line(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    large = "x\n" * 200_000
    path.write_text(f'time,s\n1,"{large}"\n2,"a"b\n3,"{large}"\n')
    found = load(path, "csv", columns={"time": "time", "s": "str"}, tolerance=0.5)
    assert found.table["s"].to_list() == [large, large]
    assert found.malformed is not None
    assert (found.malformed.count, found.malformed.line) == (1, 200_003)


def test_a_file_with_tabs_has_quotes_as_text_unless_it_is_asked_for_quoted_fields(tmp_path: Path) -> None:
    path = tmp_path / "pipes.tsv"
    path.write_text('time\ts\n1\t"5 inch"\n2\t"7 inch\n')
    columns = {"time": "time", "s": "str"}
    assert load(path, "csv", columns=columns).table["s"].to_list() == ['"5 inch"', '"7 inch']
    asked = load(path, "csv", columns=columns, quotes=True, tolerance=0.5)
    assert asked.table["s"].to_list() == ["5 inch"]
    assert asked.malformed is not None
    assert asked.malformed.line == 3
    path.write_text('"time"\t"s"\n1\t"a\tb"\n')
    with pytest.raises(ValueError, match=r"line 1: columns .*; expected quotes=True if fields are quoted"):
        load(path, "csv", columns=columns)
    assert load(path, "csv", columns=columns, quotes=True).table["s"].to_list() == ["a\tb"]
    path.write_text('time,s\n1,"a"\n')
    assert load(path, "csv", columns=columns, quotes=False).table["s"].to_list() == ['"a"']


@pytest.mark.parametrize("content", [b"time,s\n1," + b"x" * 5000, b"x" * 5000, b'time,s\n1,"' + b"x" * 5000])
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(gzip.compress(content))
    for module in (text_files, tabular):
        monkeypatch.setattr(module, "LONGEST", 1 << 10)
    monkeypatch.setattr(text_files, "BLOCK", 100)
    monkeypatch.setattr(tabular, "_SAMPLED", (20,))
    kind = "csv" if b"time" in content else "http"
    with pytest.raises(ValueError, match=r"line [12]: longer than .*; expected a text trace, line by line"):
        load(path, kind, columns={"time": "time", "s": "str"} if kind == "csv" else None)


# -- unpacking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_gzip_files_of_several_members_are_read_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    path = tmp_path / "members.gz"
    path.write_bytes(b"".join([gzip.compress(b"hello\n" * 30), gzip.compress(b""), gzip.compress(b"world"), b"\0" * 9]))
    monkeypatch.setattr(text_files, "BLOCK", block)
    pieces = list(text_files.pieces(path))
    assert b"".join(pieces) == b"hello\n" * 30 + b"world"
    assert max(map(len, pieces)) <= max(2 * block, 6)


def test_a_gzip_file_that_is_damaged_late_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    rows = "".join(f"{number},{number * 7919 % 1000}\n" for number in range(100_000))
    path.write_bytes(gzip.compress(("time,n\n" + rows).encode())[:-20])
    with pytest.raises(ValueError, match=r"damaged or cut-off gzip file after \d+ bytes of text"):
        read({"path": str(path), "format": "csv", "columns": {"time": "time", "n": "int"}})


# -- order ---------------------------------------------------------------------------------------------------------

TIMES = st.lists(st.integers(0, 12), max_size=9)


def table(times: list[int], first: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"time": times, "row": range(first, first + len(times))}, schema={"time": TYPES["time"], "row": pl.Int64()}
    )


def tables_of(blocks: list[list[int]]) -> list[pl.DataFrame]:
    firsts = [sum(map(len, blocks[:number])) for number in range(len(blocks))]
    return [table(times, first) for times, first in zip(blocks, firsts, strict=True) if times]


@pytest.mark.slow
@given(
    blocks=st.lists(TIMES, min_size=1, max_size=25),
    kept=st.sampled_from([1, 300, 1 << 20]),
    run=st.sampled_from([1, 200]),
    piece=st.sampled_from([1, 40, 1 << 20]),
    rows=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_rows_are_sorted_in_memory_or_on_disk_and_ties_keep_their_order(
    blocks: list[list[int]], kept: int, run: int, piece: int, rows: int
) -> None:
    tables = tables_of(blocks)
    if not tables:
        return
    whole = pl.concat(tables)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("IN_MEMORY", kept), ("RUN", run), ("PIECE", piece), ("MERGED_RUNS", 2)):
            patch.setattr(time_order, name, value)
        for ordered in (True, False):
            store = RowStore(ordered=ordered)
            for each in tables:
                store.add(each)
            found = list(sized(store.merged() if ordered else store.tables(), rows))
            assert {each.height for each in found[:-1]} <= {rows}
            assert 0 < found[-1].height <= rows
            assert pl.concat(found).equals(whole.sort("time", maintain_order=True) if ordered else whole)


@pytest.mark.slow
@given(blocks=st.lists(TIMES, min_size=1, max_size=9), batch=st.integers(1, 12))
def test_a_survey_of_blocks_equals_one_of_all_times(blocks: list[list[int]], batch: int) -> None:
    survey = TimeSurvey(batch)
    for times in blocks:
        survey.add(np.array(times, dtype=np.int64))
    times = [time for block in blocks for time in block]
    assert survey.rows == len(times)
    if not times:
        assert survey.first is survey.last is None
        return
    behind = [max(times[: place + 1]) - time for place, time in enumerate(times)]
    assert (survey.first, survey.last, survey.disorder) == (min(times), max(times), max(behind))
    if max(behind):
        assert survey.latest_row == behind.index(max(behind))
    assert survey.bounds().tolist() == [min(times[start:]) for start in range(0, len(times), batch)]


def test_a_full_disk_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def seek(self, *_: int) -> int:
            return 0

        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

    monkeypatch.setattr(time_order, "IN_MEMORY", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(ValueError, match=r"no room left for the rows of a trace; .*TMPDIR"):
        RowStore(ordered=True).add(table([1, 2], 0))


# -- Parquet -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def write(frame: pl.DataFrame, *, slices: bool) -> Path:
        path = tmp_path / "x.parquet"
        frame.write_parquet(path, row_group_size=30)
        if slices:  # row groups too large to be read at once
            monkeypatch.setattr(parquet, "_WHOLE", 0)
            monkeypatch.setattr(parquet, "_SLICE", 50)
        return path

    return write


@pytest.mark.parametrize("slices", [False, True])
@pytest.mark.parametrize("lateness", [None, 5])
def test_parquet_in_slices_is_the_same_stream(stored: Any, slices: bool, lateness: int | None) -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "ts": pl.Series(np.arange(100) + rng.integers(0, 5, 100)).cast(pl.Int32()),
            "s": pl.Series([f"text {number}" if number % 7 else None for number in range(100)], dtype=pl.Categorical()),
            "f": rng.normal(size=100).astype(np.float32),
        }
    )
    path = stored(frame, slices=slices)
    columns = {"s": "str", "f": "float"}
    params = {"path": str(path), "format": "parquet", "columns": columns, "time": "ts", "lateness": lateness}
    found = pl.concat(item.table for item in read({**params, "batch": 7}) if isinstance(item, Batch))
    wanted = frame.select(
        (pl.col("ts").cast(pl.Int64()) * 1_000_000).cast(TYPES["time"]).alias("time"),
        pl.col("s").cast(pl.String()),
        pl.col("f").cast(pl.Float64()),
    )
    assert found.equals(wanted.sort("time", maintain_order=True) if lateness is None else wanted)


@pytest.mark.parametrize("slices", [False, True])
def test_a_malformed_row_of_parquet_is_named_wherever_it_is(stored: Any, slices: bool) -> None:
    texts = [str(number) for number in range(200)]
    texts[77] = texts[170] = "x"
    path = stored(pl.DataFrame({"time": np.arange(200.0), "n": texts, "other": texts}), slices=slices)
    found = load(path, columns={"time": "time", "n": "int"}, tolerance=0.1)
    assert found.table["n"].to_list() == [number for number in range(200) if number not in (77, 170)]
    assert found.malformed == Malformed(2, 200, 78, "(77.0, 'x', 'x')", "n", "x", "an integer of 64 bits")
    with pytest.raises(ValueError, match="line 78: field 'n': 'x'; expected an integer"):
        load(path, columns={"time": "time", "n": "int"}, strict=True)


# -- memory --------------------------------------------------------------------------------------------------------

GROWTH = """
import sys
from synergy_nb import traces
from synergy_experiments.bench.ingest import peak
from synergy_nb.dataflow.tuples import Batch
path, kind = sys.argv[1:]
columns = {"time": "time", "n": "int", "s": "str"}
before = peak()
items = traces.read({"path": path, "format": kind, "columns": columns})
rows = sum(item.rows for item in items if isinstance(item, Batch))
print(rows, (peak() - before) >> 20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows tells no peak of memory this way")
@pytest.mark.parametrize("ordered", [True, False])
def test_a_trace_larger_than_its_memory_is_read(tmp_path: Path, ordered: bool) -> None:
    path = tmp_path / "large.csv.gz"
    text = "".join(
        f'{number if ordered else number * 7919 % 100_000},{number},"{"x" * 90},"\n' for number in range(100_000)
    )
    with gzip.open(path, "wb", compresslevel=1) as file:  # 11 MB of text, 30 times
        file.write(b"time,n,s\n")
        for _ in range(30):
            file.write(text.encode())
    done = subprocess.run([sys.executable, "-c", GROWTH, str(path), "csv"], capture_output=True, text=True, check=True)
    rows, growth = map(int, done.stdout.split())
    assert rows == 3_000_000
    assert growth < 512


def test_dates_without_separators_are_no_seconds(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text("time,v\n20260101,1\n20260102,2\n")
    found = load(path, columns={"time": "time", "v": "int"}).table
    assert found["time"].cast(pl.String).str.head(10).to_list() == ["2026-01-01", "2026-01-02"]
