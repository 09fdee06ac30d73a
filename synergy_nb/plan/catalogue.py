"""The catalogue of operators: what kinds there are, their parameters, inputs, and what they cost unless profiled.

One table, :data:`KINDS`, is read by the builder, by YAML files, by validation and by ``synergy plan``; a parameter
that is not in it does not exist. Each parameter has a parser that turns every spelling into one normal value (seconds,
fractions of one, sorted lists where order means nothing), so that equal work gets equal stream names.

Default profiles
----------------
Where a plan states no ``cost`` (seconds a tuple) or ``selectivity`` (tuples out over tuples in), these hold. Columnar
operators on Polars cost about 1 µs a tuple with the batching that the data path does; they are starting points for
admission, which measured values replace.

=========  ======  ===========================================================================================
kind       cost    selectivity
=========  ======  ===========================================================================================
source     1 µs    1
filter     1 µs    0.5
project    1 µs    1
union      0.5 µs  1
aggregate  2 µs    0.1, times length / slide for sliding windows
sort       2 µs    1
count      0.5 µs  one tuple a window: nearly 0
compare    2 µs    1 - fraction (0.05 for 95 %)
join       4 µs    1
distinct   2 µs    0.5
sample     1 µs    its fraction
encrypt    5 µs    1
decrypt    5 µs    1
delay      stated  1
sink       1 µs    1
=========  ======  ===========================================================================================

A source is expected to give 1,000 tuples/s unless its ``rate`` says otherwise; ``peers`` 10 tuples an interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from synergy_nb.plan.units import (
    WrongValue,
    WrongValues,
    format_duration,
    format_fraction,
    format_rate,
    nearest,
    parse_duration,
    parse_fraction,
    parse_rate,
)

__all__ = [
    "COLUMN_BYTES",
    "CONNECTOR",
    "CONNECTORS",
    "DEFAULT_RATE",
    "FORMATS",
    "KINDS",
    "REQUIRED",
    "TRACE_SCHEMAS",
    "TYPES",
    "Kind",
    "Parameter",
    "format_window",
    "parameters_of",
    "parse_number",
    "parse_window",
]

#: Types of columns.
TYPES: Final = ("int", "float", "str", "bool", "time", "bytes")
#: Mean bytes of one value, by type: text is taken as 16 characters, encrypted values as 16 + 28 (nonce and tag).
COLUMN_BYTES: Final = {"int": 8.0, "float": 8.0, "str": 16.0, "bool": 1.0, "time": 8.0, "bytes": 44.0}
#: Tuples/s that a source is expected to give unless it says otherwise.
DEFAULT_RATE: Final = 1000.0
#: Formats of traces.
FORMATS: Final = ("csv", "http", "ncsa", "parquet", "tcp")
#: Columns of the sources whose columns are fixed.
TRACE_SCHEMAS: Final[Mapping[str, Mapping[str, str]]] = {
    "http": {"time": "time", "host": "str", "file": "str", "directory": "str", "operation": "str", "request": "str"},
    "ncsa": {
        "time": "time", "host": "str", "file": "str", "directory": "str", "request": "str", "status": "int",
        "bytes": "int",
    },
    "tcp": {
        "time": "time", "source": "str", "destination": "str", "source_port": "int", "destination_port": "int",
        "bytes": "int",
    },
    "packets": {
        "time": "time", "link": "str", "source": "str", "destination": "str", "source_port": "int",
        "destination_port": "int", "bytes": "int",
    },
    "peers": {"time": "time", "peer": "str", "metric": "str", "target": "str", "value": "float"},
}  # fmt: skip

REQUIRED: Final = object()
_LONGEST_NAME: Final = 200


class Parameter(NamedTuple):
    """One parameter of a kind of operator.

    ``parse`` gives the normal value or raises :class:`~synergy_nb.plan.units.WrongValues`; ``default`` is ``REQUIRED``,
    None (absent) or a normal value; ``write`` gives what a YAML file holds; ``named`` says whether the value is part
    of the stream's name, that is whether it changes the stream.
    """

    parse: Callable[[Any], Any]
    default: Any = REQUIRED
    write: Callable[[Any], Any] | None = None
    named: bool = True


class Kind(NamedTuple):
    """A kind of operator: numbers of inputs, parameters and default profile."""

    inputs: tuple[int, int | None]
    parameters: Mapping[str, Parameter]
    cost: float = 1e-6
    selectivity: float | None = 1.0
    commutative: bool = False


# -- parsers of values -----------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    expected = f"a text of 1 to {_LONGEST_NAME * 20} characters"
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= _LONGEST_NAME * 20 or "\0" in value:
        raise WrongValue(value, expected)
    if any("\ud800" <= each <= "\udfff" for each in value):  # half of a pair: it could not be sent or written down
        raise WrongValue(value, f"{expected} that can be written as UTF-8")
    return value


def _condition(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongValue(value, "a condition in SQL, as text, such as 'bytes > 1000'")
    return _text(value)


def _name(value: Any) -> str:
    expected = f"a name of 1 to {_LONGEST_NAME} printable characters"
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME or not value.isprintable():
        raise WrongValue(value, expected)
    if value != value.strip():
        raise WrongValue(value, f"{expected}, without blanks around it")
    return value


def _integer(least: int, most: int = 2**63 - 1) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            limit = f"of at least {least}" if most == 2**63 - 1 else f"from {least} to {most}"
            raise WrongValue(value, f"an integer {limit}")
        return number

    return parse


def _factor(value: Any) -> float:
    number = parse_number(value, "a factor of at least 0 (0: as fast as possible)")
    if number < 0:
        raise WrongValue(value, "a factor of at least 0 (0: as fast as possible)")
    return number


def parse_number(value: Any, expected: str) -> float:
    """A finite float, or a :class:`~synergy_nb.plan.units.WrongValue` that says what was ``expected``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e300 < value < 1e300:
        raise WrongValue(value, expected)
    return float(value)


def _between(least: float, most: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        expected = f"a number from {least:g} to {most:g}"
        number = parse_number(value, expected)
        if not least <= number <= most:
            raise WrongValue(value, expected)
        return number

    return parse


def _links(value: Any) -> list[str]:
    """Names of links; a number stands for A, B, ..."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [chr(65 + index) for index in range(_integer(1, 26)(value))]
    links = _listed(value, "a number of links from 1 to 26, or their names")
    if not links:
        raise WrongValue(value, "at least one link")
    return links


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValue(value, "true or false")
    return value


def _positive(value: Any) -> float:
    seconds = parse_duration(value)
    if seconds < 1e-6:
        raise WrongValue(value, "a duration of at least 1 us")
    return seconds


def _rate(value: Any) -> float:
    rate = parse_rate(value)
    if rate <= 0:
        raise WrongValue(value, "a rate above 0, such as '1000 tuples/s'")
    return rate


def _choice(*names: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in names:
            raise WrongValue(value, f"one of {', '.join(names)}", nearest(value, names))
        return str(value)

    return parse


def _connector(value: Any) -> str:
    """The connector of a source; formats of traces and paths are often taken for one."""
    if not isinstance(value, str):
        raise WrongValue(value, CONNECTOR)
    if value in CONNECTORS:
        return value
    expected = f"one of {', '.join(CONNECTORS)}"
    extension = value.lower().removesuffix(".gz").rpartition(".")[2]
    if value.lower() in FORMATS:
        example = f"source('trace', path='...', format='{value.lower()}')"
        raise WrongValue(value, f"{expected}; {value.lower()} is a format of connector trace, as in {example}")
    if "/" in value or extension in (*FORMATS, "log", "txt"):
        form = extension if extension in FORMATS else "..."
        raise WrongValue(value, f"{expected}; a file is read by source('trace', path='{value}', format='{form}')")
    near = nearest(value, CONNECTORS)
    raise WrongValue(value, CONNECTOR if near is None else expected, near)


def _listed(value: Any, expected: str) -> list[str]:
    values = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else None
    if values is None:
        raise WrongValue(value, expected)
    for each in values:
        _name(each)
    if len(set(values)) < len(values):
        raise WrongValue(value, f"{expected}, each of them once")
    return values


def _names(least: int) -> Callable[[Any], list[str]]:
    """Column names whose order means nothing."""

    def parse(value: Any) -> list[str]:
        values = _listed(value, "a list of column names")
        if len(values) < least:
            raise WrongValue(value, "at least one column")
        return sorted(values)

    return parse


def _types(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not value:
        raise WrongValue(value, f"columns with their types ({', '.join(TYPES)})")
    wrongs = []
    for column, kind in value.items():
        _name(column)
        if kind not in TYPES:
            wrongs.append(WrongValue(kind, f"one of {', '.join(TYPES)}", nearest(kind, TYPES), f".{column}"))
    if wrongs:
        raise WrongValues(wrongs)
    return dict(value)


def _expressions(value: Any) -> dict[str, str]:
    """Column name to SQL; a list of names stands for the columns themselves."""
    from synergy_nb.plan.sql import quoted  # noqa: PLC0415 - in this direction, text only

    expected = "columns with their SQL expressions"
    if isinstance(value, (list, tuple)):
        value = {name: quoted(name) for name in _listed(value, expected)}
    if not isinstance(value, Mapping) or not value:
        raise WrongValue(value, expected)
    wrongs = []
    for column, text in value.items():
        _name(column)
        if not isinstance(text, str):
            wrongs.append(WrongValue(text, "a SQL expression, as text", None, f".{column}"))
    if wrongs:
        raise WrongValues(wrongs)
    return dict(value)


#: Windows that a tuple may be in: each comes to a result, so a single tuple may come to so many.
MOST_OVERLAP: Final = 100_000
_WINDOW_EXPECTED: Final = "a window such as '20 min', '20 min every 5 min', '2 min gap' or '1000 rows'"


def parse_window(value: Any) -> dict[str, Any]:
    """A window in normal form.

    >>> parse_window("20 min every 5 min")
    {'kind': 'sliding', 'length': 1200.0, 'slide': 300.0}
    >>> parse_window("2 min gap")
    {'kind': 'session', 'gap': 120.0}
    """
    if isinstance(value, str):
        rows = re.fullmatch(r"\s*(\d[\d_]*)\s*(?:rows?|tuples?)\s*", value)
        gap = re.fullmatch(r"\s*(?:sessions?\s+)?(.*\S)\s+gap\s*", value)
        if rows:
            value = {"kind": "count", "rows": int(rows[1])}
        elif gap:
            value = {"kind": "session", "gap": gap[1]}
        else:
            length, every, slide = value.partition(" every ")
            sliding = {"kind": "sliding", "length": length.strip(), "slide": slide.strip()}
            value = sliding if every else length
    if not isinstance(value, Mapping):
        value = {"kind": "tumbling", "length": value}
    kind = value.get("kind")
    fields = {"tumbling": {"length"}, "sliding": {"length", "slide"}, "session": {"gap"}, "count": {"rows"}}
    if not isinstance(kind, str) or kind not in fields:
        raise WrongValue(kind, f"one of {', '.join(fields)}", nearest(kind, fields), ".kind")
    if set(value) - {"kind"} != fields[kind]:
        raise WrongValue(dict(value), f"{' and '.join(sorted(fields[kind]))} for a window of kind {kind}")
    if kind == "count":
        try:
            return {"kind": "count", "rows": _integer(1)(value["rows"])}
        except WrongValue:
            raise WrongValue(value["rows"], "at least 1 row") from None
    try:
        if kind == "session":
            return {"kind": "session", "gap": _positive(value["gap"])}
        extent = _positive(value["length"])
        step = _positive(value["slide"]) if "slide" in value else extent
    except WrongValue as wrong:
        raise WrongValue(wrong.value, _WINDOW_EXPECTED, wrong.nearest) from None
    if step > extent:
        raise WrongValue(value["slide"], f"a slide of at most the length ({format_duration(extent)})")
    if extent > MOST_OVERLAP * step * (1 + 1e-9):
        windows = f"each tuple would be in {extent / step:,.0f} windows, and may be in {MOST_OVERLAP:,}"
        raise WrongValue(value["slide"], f"a slide of at least {format_duration(extent / MOST_OVERLAP)}: {windows}")
    if step == extent:
        return {"kind": "tumbling", "length": extent}
    return {"kind": "sliding", "length": extent, "slide": step}


def format_window(window: Mapping[str, Any]) -> str:
    """Text that :func:`parse_window` reads as exactly ``window``."""
    if window["kind"] == "count":
        return f"{window['rows']} rows"
    if window["kind"] == "session":
        return f"{format_duration(window['gap'])} gap"
    length = format_duration(window["length"])
    return length if window["kind"] == "tumbling" else f"{length} every {format_duration(window['slide'])}"


def _order(value: Any) -> list[str]:
    """Sort keys as ``column asc`` or ``column desc``, in normal form ``column`` and ``column desc``."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not values:
        raise WrongValue(value, "columns to sort by, such as ['total desc', 'source']")
    keys: list[str] = []
    for each in values:
        match = re.fullmatch(r"\s*(.+?)(?:\s+(asc|desc))?\s*", each, re.IGNORECASE) if isinstance(each, str) else None
        if match is None:
            raise WrongValue(each, "a column, or a column and desc")
        keys.append(_name(match[1]) + (" desc" if (match[2] or "").lower() == "desc" else ""))
    if len({key.removesuffix(" desc") for key in keys}) < len(keys):
        raise WrongValue(value, "each column once")
    return keys


# -- the catalogue ---------------------------------------------------------------------------------------------------

_EXPECTED_RATE: Final = Parameter(_rate, None, format_rate, named=False)
_OWN_WINDOW: Final = Parameter(parse_window, None, format_window)

#: Parameters of a source, by its connector.
CONNECTORS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "trace": {
        "path": Parameter(_text),
        "format": Parameter(_choice(*FORMATS)),
        "columns": Parameter(_types, None),
        "time": Parameter(_name, None),
        "speed": Parameter(_factor, 0.0),
        "strict": Parameter(_flag, False),
        "tolerance": Parameter(parse_fraction, 0.01, format_fraction),
        "lateness": Parameter(parse_duration, None, format_duration),
        "rate": _EXPECTED_RATE,
    },
    "packets": {
        "seed": Parameter(_integer(0), 0),
        "rate": Parameter(_rate, DEFAULT_RATE, format_rate),
        "sources": Parameter(_integer(1, 100_000), 64),
        "hosts": Parameter(_integer(2, 1_000_000), 500),
        "links": Parameter(_links, ["A", "B"]),
        "duration": Parameter(_positive, None, format_duration),
        "speed": Parameter(_factor, 1.0),
        "count": Parameter(_integer(1), None),
        "alpha": Parameter(_between(1.01, 1.99), 1.4),
        "zipf": Parameter(_between(0.0, 10.0), 1.0),
        "start": Parameter(_between(-1e10, 1e11), 0.0),
    },
    "peers": {"interval": Parameter(_positive, 1.0, format_duration), "rate": _EXPECTED_RATE},
    "python": {
        "name": Parameter(_name),
        "columns": Parameter(_types),
        "time": Parameter(_name, "time", named=False),
        "lateness": Parameter(parse_duration, None, format_duration),
        "rate": _EXPECTED_RATE,
    },
}

#: Words for the connectors that there are, with the way to tables and functions of one's own.
CONNECTOR: Final = (
    f"one of {', '.join(CONNECTORS)}; a file can use trace, packets and peers, while tables and functions of your own "
    "are sources in Python: source(table), or source(rows(), columns={'user': 'str'})"
)

#: All kinds of operators.
KINDS: Final[Mapping[str, Kind]] = {
    "source": Kind((0, 0), {"connector": Parameter(_connector)}),
    "filter": Kind((1, 1), {"where": Parameter(_condition)}, selectivity=0.5),
    "project": Kind((1, 1), {"columns": Parameter(_expressions)}),
    "union": Kind((2, None), {}, cost=5e-7, commutative=True),
    "aggregate": Kind(
        (1, 1),
        {
            "by": Parameter(_names(0), []),
            "window": Parameter(parse_window, REQUIRED, format_window),
            "values": Parameter(_expressions),
        },
        cost=2e-6,
        selectivity=0.1,
    ),
    "sort": Kind((1, 1), {"by": Parameter(_order), "window": _OWN_WINDOW}, cost=2e-6),
    "count": Kind((1, 1), {"name": Parameter(_name, "n"), "window": _OWN_WINDOW}, cost=5e-7, selectivity=None),
    "compare": Kind(
        (1, 2),
        {
            "value": Parameter(_name),
            "fraction": Parameter(parse_fraction, REQUIRED, format_fraction),
            "by": Parameter(_names(0), []),
        },
        cost=2e-6,
        selectivity=None,
    ),
    "join": Kind(
        (2, 2),
        {
            "on": Parameter(_names(1)),
            "within": Parameter(parse_duration, REQUIRED, format_duration),
            "suffix": Parameter(_name, "_right"),
        },
        cost=4e-6,
    ),
    "distinct": Kind((1, 1), {"on": Parameter(_names(1), None), "window": _OWN_WINDOW}, cost=2e-6, selectivity=0.5),
    "sample": Kind(
        (1, 1),
        {"fraction": Parameter(parse_fraction, REQUIRED, format_fraction), "seed": Parameter(_integer(0), 0)},
        selectivity=None,
    ),
    "encrypt": Kind((1, 1), {"columns": Parameter(_names(1)), "key": Parameter(_name)}, cost=5e-6),
    "decrypt": Kind((1, 1), {"columns": Parameter(_types), "key": Parameter(_name)}, cost=5e-6),
    "delay": Kind(
        (1, 1), {"cost": Parameter(parse_duration, REQUIRED, format_duration), "component": Parameter(_name, None)}
    ),
    "sink": Kind((1, 1), {"name": Parameter(_name, "result")}),
}


def parameters_of(kind: str, params: Mapping[str, Any]) -> Mapping[str, Parameter]:
    """Parameters that an operator of ``kind`` has; those of a source depend on the connector in ``params``."""
    parameters = KINDS[kind].parameters
    connector = params.get("connector")
    if kind == "source" and isinstance(connector, str) and connector in CONNECTORS:
        return {**parameters, **CONNECTORS[connector]}
    return parameters
