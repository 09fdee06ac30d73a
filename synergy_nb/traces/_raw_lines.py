"""Lines of formats that only raw files have: Combined logs, tcpdump's text, Zeek's logs, counts; block by block.

Each format makes texts of the fields of its lines; these are converted as those of a CSV file are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from synergy_nb.traces._records import LONE_RETURN, NOT_UTF8, decoded, numbered_lines
from synergy_nb.traces._typed_columns import Malformed, Tally, each_bad, exactly, typed
from synergy_nb.traces.first_lines import BOM
from synergy_nb.traces.logs import NCSA

_COMBINED: Final = (
    NCSA.removesuffix("(?: .*)?$") + r' "(?P<referer>(?:[^\\"]|\\.)*)" "(?P<agent>(?:[^\\"]|\\.)*)"(?: .*)?$'
)
_ADDRESS: Final = r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]*:[0-9a-fA-F:]*|[^\s>:]+?"
# "-tttt" writes dates, "-tt" seconds since 1970; without either a time has no date.
_TCPDUMP: Final = (
    r"^(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{6,}\.\d+) (?P<protocol>[^\s,]+),? "
    rf"(?:(?P<source>{_ADDRESS})(?:\.(?P<source_port>\d+))? > "
    rf"(?P<destination>{_ADDRESS})(?:\.(?P<destination_port>\d+))?: )?(?P<what>.*)$"
)
_COMBINED_EXAMPLE: Final = (
    '\'host - - [01/Jul/1995:00:00:01 -0400] "GET /x HTTP/1.0" 200 6245 "http://referer/" "agent"\''
)
_TCPDUMP_EXAMPLE: Final = "a line of tcpdump -tttt or -tt, such as '1700000000.5 IP 10.0.0.1.80 > 10.0.0.2.3: length 9'"


class LineFormat(NamedTuple):
    """A format whose rows are lines."""

    columns: Mapping[str, str]  # column to type: the event time is `time`
    texts: Callable[[pl.Series], pl.DataFrame]  # lines to texts of their columns: NULL in all of them if it is no line
    example: str  # what a line should be
    notes: str = ""  # sign with which lines begin that are no rows; empty: all are


def _combined(lines: pl.Series) -> pl.DataFrame:
    found = _groups(lines, _COMBINED)
    when = pl.col("time").str.to_datetime("%d/%b/%Y:%H:%M:%S %z", strict=False, time_unit="us")
    path = pl.col("request").str.extract(r"^(?:[A-Za-z]+\s+)?([^\s?]+)").fill_null("")
    method = pl.col("request").str.extract(r"^([A-Za-z]+)\s").fill_null("")
    return found.with_columns(
        time=pl.coalesce(when.dt.to_string("%Y-%m-%d %H:%M:%S"), "time"),
        file=pl.when(pl.col("time").is_not_null()).then(path),
        method=pl.when(pl.col("time").is_not_null()).then(method),
        bytes=pl.col("bytes").replace("-", "0"),
    )


def _tcpdump(lines: pl.Series) -> pl.DataFrame:
    return _groups(lines, _TCPDUMP).with_columns(bytes=pl.col("what").str.extract(r"length (\d+)"))


def _groups(lines: pl.Series, pattern: str) -> pl.DataFrame:
    return lines.str.extract_groups(pattern).struct.unnest()


#: Format to what is known of it.
LINE_FORMATS: Final[Mapping[str, LineFormat]] = {
    "combined": LineFormat(
        {
            "time": "time", "host": "str", "method": "str", "file": "str", "request": "str", "status": "int",
            "bytes": "int", "referer": "str", "agent": "str",
        },
        _combined,
        _COMBINED_EXAMPLE,
    ),
    "tcpdump": LineFormat(
        {
            "time": "time", "protocol": "str", "source": "str", "source_port": "int", "destination": "str",
            "destination_port": "int", "bytes": "int", "what": "str",
        },
        _tcpdump,
        _TCPDUMP_EXAMPLE,
    ),
}  # fmt: skip

#: Columns of counts: a line with n becomes n rows with the time at which its period begins, numbered from 1.
COUNT_COLUMNS: Final[Mapping[str, str]] = {"time": "time", "number": "int"}
MOST_COUNTED: Final = 1_000_000  # greatest count of a line
_AT_ONCE: Final = 1_000_000  # rows of a table
_COUNT_EXPECTED: Final = f"an integer from 0 to {MOST_COUNTED:,}"

_ZEEK: Final = {
    "time": "time", "interval": "float", "double": "float", "count": "int", "int": "int", "port": "int", "bool": "bool",
}  # fmt: skip


def zeek_columns(text: str) -> tuple[dict[str, str], str]:
    """Columns of a log of Zeek, by the lines at its beginning, and the one with the event time.

    Raises ``ValueError`` if they do not state fields and types.
    """
    stated = {line.split("\t")[0]: line.split("\t")[1:] for line in text.splitlines() if line.startswith("#")}
    names, kinds = stated.get("#fields", []), stated.get("#types", [])
    if not names or len(names) != len(kinds):
        raise ValueError("no lines #fields and #types with as many names; expected a log of Zeek")
    found = {name.replace(".", "_"): _ZEEK.get(kind, "str") for name, kind in zip(names, kinds, strict=True)}
    clock = next((name for name, kind in found.items() if kind == "time"), None)
    if clock is None:
        raise ValueError(f"fields {', '.join(names)}; expected one of type time")
    return found, clock


def zeek_format(columns: Mapping[str, str], clock: str) -> LineFormat:
    """The format of a log of Zeek with these columns."""
    names = ["time" if name == clock else name for name in columns]
    kinds = dict(zip(names, columns.values(), strict=True))

    def texts(lines: pl.Series) -> pl.DataFrame:
        fits = lines.str.count_matches("\t", literal=True) == len(names) - 1
        fields = lines.set(~fits, None).str.split_exact("\t", len(names) - 1).struct.unnest()
        fields = fields.rename(dict(zip(fields.columns, names, strict=True)))
        truths = [pl.col(name).replace({"T": "true", "F": "false"}) for name, kind in kinds.items() if kind == "bool"]
        return fields.with_columns(pl.all().replace({"-": None, "(empty)": ""})).with_columns(truths)

    return LineFormat(kinds, texts, f"{len(names)} fields, between tabs, as #fields says", "#")


def recognised_lines(lines: Sequence[str]) -> str | None:
    """Which of these formats most of the first lines have; None: none."""
    if lines and lines[0].startswith("#separator"):
        return "zeek"
    for kind, pattern in (("combined", _COMBINED), ("tcpdump", _TCPDUMP)):
        if sum(re.match(pattern, line) is not None for line in lines) * 2 > len(lines):
            return kind
    return None


def line_block(data: bytes, number: int, form: LineFormat, tally: Tally) -> pl.DataFrame:
    """Return whole lines, of which the first has a ``number``, typed; count malformed ones in ``tally``."""
    text, broken = decoded(data)
    frame = numbered_lines(text, number)
    if form.notes:
        frame = frame.filter(~pl.col("line").str.starts_with(form.notes))
    raw = form.texts(frame["line"])
    fits = raw["time"].is_not_null()
    if broken:
        fits &= ~frame["number"].is_in([number + place for place, _ in broken])
    if "\r" in text:
        fits &= ~frame["line"].str.contains("\r", literal=True)
    fitting, wanted = frame.filter(fits), exactly(raw.filter(fits), form.columns)
    table, bad = typed(wanted, form.columns, ["time"], "s")
    if bad is None and fits.all():
        tally.add(frame.height)
        return table
    odd = _odd(frame.filter(~fits), {number + place: line for place, line in broken}, form.example)
    wide: Iterator[Malformed] = iter(())
    if bad is not None:
        wide = (
            Malformed(1, 1, int(fitting["number"][place]), fitting["line"][place], one.field, one.value, one.expected)
            for place, one in each_bad(wanted, bad.where, form.columns, ["time"], "s")
        )
    each = merge(odd, wide, key=attrgetter("line"))
    first = next(each)
    count = frame.height - table.height
    tally.add(frame.height, msgspec.structs.replace(first, count=count, rows=frame.height), lines=chain([first], each))
    return table


def count_tables(blocks: Iterator[tuple[int, bytes]], start: int, step: int, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows that lines with counts stand for; count malformed lines in ``tally``.

    ``blocks``: whole lines, each block with the number of its first one; ``start``, ``step``: time at which the period
    of the first line begins, and length of a period, microseconds.
    """
    for number, data in blocks:
        text, broken = decoded(data.removeprefix(BOM) if number == 1 else data)
        frame = numbered_lines(text, number)
        counts = frame["line"].str.strip_chars().cast(pl.Int64, strict=False)
        fits = (counts.is_between(0, MOST_COUNTED)).fill_null(value=False)
        if fits.all():
            tally.add(frame.height)
        else:
            undecoded = {number + place: line for place, line in broken}
            odd = frame.filter(~fits)
            each = _odd(odd, undecoded, _COUNT_EXPECTED)
            first = next(each)
            malformed = msgspec.structs.replace(first, count=odd.height, rows=frame.height)
            tally.add(frame.height, malformed, lines=chain([first], each))
        periods = frame["number"].filter(fits).to_numpy().astype(np.int64) - 1
        rows = counts.filter(fits).to_numpy().astype(np.int64)
        ends = np.cumsum(rows)
        before = 0
        while before < len(rows):
            counted = ends[before - 1] if before else 0
            after = max(int(np.searchsorted(ends, counted + _AT_ONCE, side="right")), before + 1)
            part = rows[before:after]
            times = np.repeat(periods[before:after] * step + start, part)
            places = np.arange(len(times)) - np.repeat(np.cumsum(part) - part, part) + 1
            if len(times):
                yield pl.DataFrame({"time": pl.Series(times).cast(pl.Datetime("us")), "number": places})
            before = after


def _odd(lines: pl.DataFrame, undecoded: Mapping[int, str], example: str) -> Iterator[Malformed]:
    """Describe lines that are none of a format."""
    for number, line in lines.iter_rows():
        text = undecoded.get(number, line)
        expected = NOT_UTF8 if number in undecoded else LONE_RETURN if "\r" in line else example
        yield Malformed(1, 1, number, text, "line", text, expected)
