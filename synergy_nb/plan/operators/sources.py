"""Sources, with the parameters and columns of their connectors, and the sink."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from synergy_nb.plan.operators.declaration import Declaration, Example, Parameter
from synergy_nb.plan.operators.destinations import DESTINATION, check_columns
from synergy_nb.plan.operators.own import FUNCTION, MEMORY, TIMEOUT
from synergy_nb.plan.operators.parameter_types import (
    ADDRESS,
    ADDRESSES,
    AVRO,
    COLUMN,
    COLUMN_TYPES,
    DURATION,
    ENCODING,
    FACTOR,
    FILES,
    FLAG,
    FRACTION,
    HEADERS,
    MECHANISMS,
    NAME,
    PATH,
    POSITIVE,
    RATE,
    SECRET,
    SECRET_TEXT,
    SIGNATURE,
    TEXT,
    TOPIC,
    TYPES,
    URL,
    WEBSOCKET,
    ValueType,
    account_without,
    avro_fields,
    choice,
    integer,
    listed,
    number,
)
from synergy_nb.plan.operators.schemas import Derivation, Schema
from synergy_nb.plan.terms.column_types import PLAIN, family
from synergy_nb.plan.terms.function_references import name_of
from synergy_nb.plan.terms.units import WrongValue, format_duration, nearest, parse_duration

__all__ = [
    "CONNECTOR",
    "CONNECTORS",
    "DEFAULT_RATE",
    "DIVISIBLE",
    "FORMATS",
    "FORMATS_OF",
    "GENERATED",
    "HEARTBEAT",
    "HELD",
    "NEXMARK",
    "OWN",
    "SINK",
    "SOURCE",
    "TIME_NAMES",
    "TIME_UNITS",
    "TRACE_SCHEMAS",
    "UNREPEATED",
    "WITHOUT_NULL",
    "heartbeat_of",
    "is_endless",
    "pace_of",
    "rate_of",
    "reader_of",
    "share_of",
    "share_text",
]

#: Expected rate of a source that states none, tuples/s.
DEFAULT_RATE: Final = 1000.0
#: Longest time between two punctuations of a source that states none, seconds of real time.
HEARTBEAT: Final = 0.1
#: Least heartbeat that a source may state, seconds: each punctuation is work for all components that read the stream.
LEAST_HEARTBEAT: Final = 0.001
#: Connector of the classes of sources that authors declare (:mod:`synergy_nb.plan.functions.declaring`).
OWN: Final = "own"
#: Connectors whose columns are those of a format of text or tables, and the formats that each reads.
FORMATS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "trace": ("csv", "http", "ncsa", "parquet", "tcp"),
    "directory": ("csv", "http", "jsonl", "ncsa", "parquet"),
    "tail": ("csv", "http", "jsonl", "ncsa"),
    "socket": ("csv", "jsonl"),
    "http": ("csv", "json", "jsonl"),
    "sse": ("json",),
    "websocket": ("json",),
    "kafka": ("avro", "framed-avro", "json"),
    "mqtt": ("json",),
    "sql": ("sql",),
    OWN: (OWN,),
}
#: Connectors whose rows another reading need not repeat in the same order, even from the same position. So what they
#: give leaves the peer only when all copies of the source have it.
HELD: Final = ("directory", "socket", "http", "sse", "websocket", "kafka", "mqtt", OWN)

#: Most components that may read one source: each is on all routes to its own part of the plan.
MOST_READERS: Final = 64

#: Connectors of which another reading, after the death of all peers, may have other rows: `HELD`, and those of rows
#: that only a program, or the peer itself, has.
UNREPEATED: Final = (*HELD, "python", "peers")
#: Formats of traces.
FORMATS: Final = FORMATS_OF["trace"]
#: Connectors whose tuples are generated.
GENERATED: Final = ("packets", "nexmark")
#: Columns of the connectors with fixed columns.
TRACE_SCHEMAS: Final[Mapping[str, Mapping[str, str]]] = {
    "http": {"time": "time", "host": "str", "file": "str", "directory": "str", "operation": "str", "request": "str"},
    "ncsa": {
        "time": "time",
        "host": "str",
        "file": "str",
        "directory": "str",
        "request": "str",
        "status": "int",
        "bytes": "int",
    },
    "tcp": {
        "time": "time",
        "source": "str",
        "destination": "str",
        "source_port": "int",
        "destination_port": "int",
        "bytes": "int",
    },
    "packets": {
        "time": "time",
        "link": "str",
        "source": "str",
        "destination": "str",
        "source_port": "int",
        "destination_port": "int",
        "bytes": "int",
    },
    "peers": {"time": "time", "peer": "str", "metric": "str", "target": "str", "value": "float"},
}
#: Tables of connector ``nexmark``, with their columns.
NEXMARK: Final[Mapping[str, Mapping[str, str]]] = {
    "person": {
        "time": "time",
        "id": "int",
        "name": "str",
        "emailAddress": "str",
        "creditCard": "str",
        "city": "str",
        "state": "str",
        "extra": "str",
    },
    "auction": {
        "time": "time",
        "id": "int",
        "itemName": "str",
        "description": "str",
        "initialBid": "int",
        "reserve": "int",
        "expires": "time",
        "seller": "int",
        "category": "int",
        "extra": "str",
    },
    "bid": {
        "time": "time",
        "auction": "int",
        "bidder": "int",
        "price": "int",
        "channel": "str",
        "url": "str",
        "extra": "str",
    },
}
_SHARES: Final = {"person": 1 / 50, "auction": 3 / 50, "bid": 46 / 50}  # of all events
#: Connectors whose tuples have a value in each column.
WITHOUT_NULL: Final = ("nexmark", "packets")
#: Default names of the column with the event time; the first existing one is used.
TIME_NAMES: Final = ("time", "timestamp", "ts", "datetime", "date")

#: What a number in a column of times may count since 1970; ``date``: it is a date such as 20260101.
TIME_UNITS: Final = ("s", "ms", "us", "ns", "date")


def _arguments(value: Any) -> dict[str, Any]:
    """Parse the arguments of a class: what JSON has, as a plan is text."""
    expected = "arguments by name with values that JSON has, as {'city': 'Pisa', 'limit': 10}"
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise WrongValue(value, expected)
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError):
        raise WrongValue(value, expected) from None
    return dict(json.loads(text))


#: What the constructor of a class gets; ``${shop}`` in a text is the secret `shop`.
ARGUMENTS: Final = ValueType("arguments", _arguments, annotation="Mapping[str, Any]")


def _share(value: Any) -> str:
    """Parse the share of one reader of several, ``1 of 2``."""
    parts = value.split(" of ") if isinstance(value, str) else []
    if len(parts) == 2 and all(re.fullmatch("[1-9][0-9]{0,2}", each) for each in parts):
        reader, readers = map(int, parts)
        if reader <= readers and 2 <= readers <= MOST_READERS:
            return share_text(reader - 1, readers)
    raise WrongValue(value, f"which reader it is of how many, such as '1 of 2', of {MOST_READERS} at most")


def share_text(reader: int, readers: int) -> str:
    """The ``share`` of a reader, by its number from 0 on.

    >>> share_text(0, 2), reader_of({"share": "1 of 2"}), reader_of({})
    ('1 of 2', (0, 2), None)
    """
    return f"{reader + 1} of {readers}"


def reader_of(params: Mapping[str, Any]) -> tuple[int, int] | None:
    """Which reader a source with these parameters is, from 0 on, and of how many; None: the only one."""
    share = params.get("share")
    if share is None:
        return None
    reader, readers = share.split(" of ")
    return int(reader) - 1, int(readers)


def _links(value: Any) -> list[str]:
    """Parse names of links; a number stands for A, B, ..."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [chr(65 + index) for index in range(integer(1, 26).parse(value))]
    links = listed(value, "a number of links from 1 to 26, or their names")
    if not links:
        raise WrongValue(value, "at least one link")
    return links


def _connector(value: Any) -> str:
    """Parse the connector of a source, with a hint if it is a format of traces or a path."""
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


_EXPECTED_RATE: Final = Parameter(RATE, "expected rate for admission, tuples/s", None, "1000 tuples/s", named=False)
_SIGNATURE: Final = Parameter(
    SIGNATURE,
    "repeating pattern of its rate, for admission: `[['2 s', '400/s'], ['8 s', '25/s']]`; with a `rate` only the "
    "proportions count",
    None,
    "as measured before, or else a constant rate",
    named=False,
)
_SPEED: Final = "speed of event time: 1 is real time, 10 is ten times as fast, 0 is as fast as possible"


def _interval(value: Any) -> float:
    seconds = parse_duration(value)
    if seconds < LEAST_HEARTBEAT:
        raise WrongValue(value, f"a duration of at least {format_duration(LEAST_HEARTBEAT)}")
    return seconds


_HEARTBEAT: Final = Parameter(
    ValueType("duration", _interval, format_duration, "s", least=LEAST_HEARTBEAT),
    "longest time between two punctuations of a source with a speed, in real time: a longer one costs less where "
    "tuples are rare, and a window without later tuples closes that much later",
    HEARTBEAT,
)

_TIME_UNIT: Final = "what numbers in columns of times are: `s`, `ms`, `us` or `ns` since 1970, or `date`, as 20260101"
_COLUMNS: Final = Parameter(
    COLUMN_TYPES,
    "column to type, for all formats but `http` and `ncsa`; columns that are not named are not read. A column that a "
    "line in JSON lacks is NULL",
    None,
    "required for csv, jsonl and parquet",
)
_CLOCK: Final = Parameter(
    COLUMN,
    "column with the event time, for all formats but `http` and `ncsa`; in the stream it is called `time`",
    None,
    "the first of `time`, `timestamp`, `ts`, `datetime`, `date` among `columns`, else `time`",
)
_UNIT: Final = Parameter(
    choice(*TIME_UNITS), f"{_TIME_UNIT}; for all formats but `http` and `ncsa`", None,
    "`s`; numbers that would be implausible times are reported or refused",
)  # fmt: skip
_QUOTES: Final = Parameter(
    FLAG,
    "whether fields may be within double quotes, only for csv",
    None,
    "yes, but not in files whose columns are separated by tabs",
)
_STRICT: Final = Parameter(FLAG, "whether a single malformed line is an error", False)
_BORNE: Final = Parameter(
    FRACTION,
    "share of malformed lines that are skipped and reported, of all lines so far and of a hundred at least; more of "
    "them are an error",
    0.01,
)
_LATENESS: Final = Parameter(
    DURATION,
    "largest age of a row relative to the latest row before it, `2 s`; older rows are dropped",
    None,
    "none: a row that is out of order ends the application",
)
_HEADERS: Final = Parameter(
    HEADERS,
    "further headers of the request, such as `{Authorization: 'Bearer ${mine}'}`, where `${mine}` stands for a "
    "[secret](sources.md#secrets)",
    None,
    "none",
)
_OF_LINES: Final[Mapping[str, Parameter]] = {
    "columns": _COLUMNS,
    "time": _CLOCK,
    "time_unit": _UNIT,
    "quotes": _QUOTES,
    "strict": _STRICT,
    "tolerance": _BORNE,
    "lateness": _LATENESS,
    "rate": _EXPECTED_RATE,
    "signature": _SIGNATURE,
}
_ACCOUNT: Final[Mapping[str, Parameter]] = {
    "tls": Parameter(
        FLAG, "whether the connection is encrypted, and the server has a certificate that is trusted", False
    ),
    "user": Parameter(TEXT, "name of the account", None, "none: without an account"),
    "password": Parameter(SECRET, "name of the secret with its password", None, "no password", spelling="keyword"),
}
_OF_PARTITIONS: Final[Mapping[str, Parameter]] = {
    "readers": Parameter(
        integer(1, MOST_READERS),
        "number of components that [read it together](sources.md#several-readers), each a share of its partitions, on "
        "a peer of its own where there are enough",
        None,
        "1",
    ),
    "share": Parameter(
        ValueType("share", _share, annotation="str"),
        "which of several readers it is: `1 of 2` reads every second partition. A plan that states `readers` has one "
        "source for each share when it is submitted",
        None,
        "it reads all partitions",
    ),
}
_OF_OBJECTS: Final = {name: each for name, each in _OF_LINES.items() if name != "quotes"}
#: Parameters of sources, by connector.
CONNECTORS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    "trace": {
        "path": Parameter(
            PATH,
            "path of the file. A relative path starts at the current directory of the command or notebook that starts "
            "the peers, not at the plan file; each peer that may run the source must have access to it",
        ),
        "format": Parameter(
            choice(*FORMATS),
            "format of the file: `csv`, `parquet`, `http`, `ncsa` or `tcp`; all but Parquet may be gzipped",
        ),
        "columns": Parameter(
            COLUMN_TYPES,
            "column to type, only for csv and parquet; columns that are not named are not read",
            None,
            "required for csv and parquet",
        ),
        "time": Parameter(
            COLUMN,
            "column with the event time, only for csv and parquet; in the stream it is called `time`",
            None,
            "the first of `time`, `timestamp`, `ts`, `datetime`, `date` among `columns`, else `time`",
        ),
        "time_unit": Parameter(
            choice(*TIME_UNITS),
            f"{_TIME_UNIT}; only for csv and parquet",
            None,
            "`s`; numbers that would be implausible times are reported or refused",
        ),
        "encoding": Parameter(
            ENCODING,
            "encoding of the text, such as `windows-1252` or `utf-16`, for all formats but parquet. A line that is not "
            "in UTF-8 is malformed; where another encoding is stated, a line that is not in it is an error",
            None,
            "`utf-8`",
        ),
        "quotes": Parameter(
            FLAG,
            "whether fields may be within double quotes, only for csv",
            None,
            "yes, but not in files whose columns are separated by tabs",
        ),
        "speed": Parameter(FACTOR, _SPEED, 0.0),
        "profile": Parameter(
            PATH,
            "file or prepared folder with the [profile](pipeline.md#the-profile) of this trace or of one like it: "
            "rates, selectivities and groups that the plan does not state are those that it has measured",
            None,
            "the one beside a prepared file",
            named=False,
        ),
        "heartbeat": _HEARTBEAT,
        "strict": Parameter(FLAG, "whether a single malformed line is an error", False),
        "tolerance": Parameter(
            FRACTION, "share of malformed lines that are skipped and reported; more of them are an error", 0.01
        ),
        "lateness": Parameter(
            DURATION,
            "bound of disorder: tuples stay in the order of the file, and a tuple that is older than an earlier one by "
            "more is an error. Without it tuples are sorted by time, those of equal time in the order of the file",
            None,
            "none: sorted",
        ),
        "rate": _EXPECTED_RATE,
        "signature": _SIGNATURE,
    },
    "directory": {
        "path": Parameter(
            FILES,
            "folder with a pattern of the names of its files, `folder/*.csv`; relative as the path of a trace. A file "
            "has to be whole when it gets such a name",
        ),
        "format": Parameter(
            choice(*FORMATS_OF["directory"]),
            "format of the files: `csv`, `jsonl`, `parquet`, `http` or `ncsa`; all but Parquet may be gzipped",
        ),
        "order": Parameter(
            choice("name", "time"),
            "order in which files are read, each whole before the next: `name`, or `time` of their last change. A file "
            "that comes behind one that has been read is left out, and the journal says so",
            "name",
        ),
        "ends": Parameter(FLAG, "whether the stream ends when all files that are there have been read", False),
        **_OF_PARTITIONS,
        **_OF_LINES,
        "tolerance": _BORNE._replace(
            help="share of malformed lines of a file that are skipped and reported; more of them are an error"
        ),
    },
    "tail": {
        "path": Parameter(
            PATH,
            "path of a file that grows; relative as the path of a trace. It may be renamed and begun anew (rotation), "
            "or emptied; it is waited for until it is there",
        ),
        "format": Parameter(
            choice(*FORMATS_OF["tail"]), "format of the lines: `csv` with a header, `jsonl`, `http` or `ncsa`"
        ),
        **_OF_LINES,
    },
    "sql": {
        "path": Parameter(
            PATH, "path of a DuckDB or SQLite file; relative as the path of a trace", None, "none: there is a `server`"
        ),
        "server": Parameter(ADDRESS, "PostgreSQL server, `db.local:5432`", None, "none: there is a `path`"),
        "database": Parameter(NAME, "database of the server", None, "that with the name of the account"),
        **_ACCOUNT,
        "query": Parameter(
            TEXT, "query in the database's SQL, or the name of a table, which is read again and again", spelling="plain"
        ),
        "by": Parameter(
            COLUMN,
            "column of the query that grows with each row: rows with a greater value than any before are new",
        ),
        "every": Parameter(POSITIVE, "time between two readings that have found nothing", 1.0),
        "ends": Parameter(FLAG, "whether the stream ends when all rows that are there have been read", False),
        **{name: each for name, each in _OF_LINES.items() if name not in ("quotes", "strict", "tolerance")},
    },
    "http": {
        "url": Parameter(
            URL, "page that is asked for again and again; its query may name [secrets](sources.md#secrets), `${mine}`"
        ),
        "headers": _HEADERS,
        "every": Parameter(POSITIVE, "time from one request to the next"),
        "format": Parameter(
            choice(*FORMATS_OF["http"]),
            "format of the answers: `json`, an object or a list of them, `jsonl`, or `csv` with a header",
            "json",
        ),
        "rows_in": Parameter(TEXT, "where rows are in an answer in JSON, as `data.items`", None, "the whole answer"),
        "by": Parameter(
            COLUMN,
            "column that grows: of an answer only rows with a greater value than any before are new",
            None,
            "none: all rows of an answer that differs from the one before",
        ),
        **_OF_LINES,
    },
    "sse": {
        "url": Parameter(URL, "page of server-sent events, each with an object in JSON or a list"),
        "headers": _HEADERS,
        **_OF_OBJECTS,
    },
    "websocket": {
        "url": Parameter(WEBSOCKET, "WebSocket whose messages are objects in JSON, or lists of them"),
        "headers": _HEADERS,
        "hello": Parameter(
            SECRET_TEXT,
            "text that is sent first, such as what one subscribes to; it may name [secrets](sources.md#secrets), "
            "`${mine}`",
            None,
            "nothing",
        ),
        **_OF_OBJECTS,
    },
    "socket": {
        "address": Parameter(ADDRESS, "host and port of a server that sends lines: `meter.local:7000`"),
        "format": Parameter(choice(*FORMATS_OF["socket"]), "format of lines: `jsonl`, or `csv` with a header", "jsonl"),
        "ends": Parameter(
            FLAG,
            "whether the stream ends when the server closes the connection; else it is connected again",
            False,
        ),
        **_OF_LINES,
    },
    "kafka": {
        "servers": Parameter(
            ADDRESSES, "brokers that are asked first, `broker.local:9092`, or several of them; they name the others"
        ),
        "topic": Parameter(TOPIC, "topic, of which all partitions are read"),
        "format": Parameter(
            choice(*FORMATS_OF["kafka"]),
            "format of messages: `json`, an object each; `avro`, or `framed-avro` with the five bytes before it that "
            "name its schema to a registry, by the schema that is stated",
            "json",
        ),
        "schema": Parameter(AVRO, "schema of messages in Avro, in JSON", None, "required for avro and framed-avro"),
        "start": Parameter(
            choice("earliest", "latest"),
            "where the stream begins: at the oldest messages, or at those that come from now on",
            "earliest",
        ),
        "ends": Parameter(FLAG, "whether the stream ends when all messages that are there have been read", False),
        **_OF_PARTITIONS,
        **_ACCOUNT,
        "mechanism": Parameter(choice(*MECHANISMS), "how the brokers are shown the password", MECHANISMS[0]),
        **_OF_OBJECTS,
    },
    "mqtt": {
        "server": Parameter(ADDRESS, "broker: `broker.local:1883`"),
        "topic": Parameter(
            TEXT, "topic whose messages are objects in JSON, or a pattern: `meters/+/power`, `meters/#`"
        ),
        "topic_as": Parameter(COLUMN, "column that gets the topic of the message", None, "none"),
        "session": Parameter(
            TEXT,
            "name of a session, which the broker keeps: it sends later what comes while nobody reads. One source at a "
            "time may have it",
            None,
            "none: what comes while nobody reads is lost",
        ),
        **_ACCOUNT,
        **_OF_OBJECTS,
    },
    OWN: {
        "function": FUNCTION._replace(
            help="class, as `@reader` returns it; in a file `package.module:Name`, installed at the peers"
        ),
        "arguments": Parameter(
            ARGUMENTS,
            "what its constructor gets, by name: values that JSON has; `${shop}` in a text is the secret `shop`",
            None,
            "nothing",
        ),
        "repeats": Parameter(
            FLAG, "whether it begins with the first row of its stream where no position is known", False
        ),
        "ends": Parameter(FLAG, "whether it ends at some time", False),
        **_OF_PARTITIONS,
        "columns": _COLUMNS._replace(help="column to type", absent="as its declaration says"),
        "time": Parameter(
            COLUMN, "column of its rows with the event time, which is called `time` in the stream", "time", named=False
        ),
        "time_unit": _UNIT._replace(help=_TIME_UNIT),
        "lateness": _LATENESS,
        "rate": _EXPECTED_RATE,
        "signature": _SIGNATURE,
        "timeout": TIMEOUT,
        "memory": MEMORY,
    },
    "packets": {
        "seed": Parameter(integer(0), "seed of all random choices: equal parameters give equal packets", 0),
        "rate": Parameter(RATE, "mean rate, packets per second of event time", DEFAULT_RATE),
        "signature": _SIGNATURE,
        "sources": Parameter(integer(1, 100_000), "number of superposed ON/OFF sources", 64),
        "hosts": Parameter(integer(2, 1_000_000), "hosts", 500),
        "links": Parameter(ValueType("names", _links), "names of links, or their number (for A, B, ...)", ["A", "B"]),
        "duration": Parameter(POSITIVE, "event time after which the stream ends", None, "never"),
        "speed": Parameter(FACTOR, _SPEED, 1.0),
        "heartbeat": _HEARTBEAT,
        "count": Parameter(integer(1), "packets after which the stream ends", None, "never"),
        "alpha": Parameter(
            number(1.01, 1.99),
            "tail index of the ON and OFF periods, 1.01 to 1.99; the Hurst parameter is (3 - alpha) / 2",
            1.4,
        ),
        "zipf": Parameter(number(0.0, 10.0), "exponent of the popularity of hosts", 1.0),
        "flags": Parameter(
            FLAG,
            "whether there is a column `flags` str: `SYN`, the first packet of a flow, `SYN-ACK`, the second one, "
            "which comes back, and `ACK`",
            False,
        ),
        "start": Parameter(number(-1e10, 1e11), "event time of the beginning, seconds since 1970", 0.0),
    },
    "nexmark": {
        "table": Parameter(choice(*NEXMARK), "which of its events: `person`, `auction` or `bid`"),
        "seed": Parameter(integer(0), "seed of all random choices: equal parameters give equal events", 0),
        "rate": Parameter(
            RATE,
            "events per second of event time, of all three tables: of 50 one is a person, 3 are auctions, 46 bids",
            DEFAULT_RATE,
        ),
        "signature": _SIGNATURE,
        "duration": Parameter(POSITIVE, "event time after which the stream ends", None, "never"),
        "speed": Parameter(FACTOR, _SPEED, 1.0),
        "heartbeat": _HEARTBEAT,
        "count": Parameter(integer(1), "events of all three tables after which the stream ends", None, "never"),
        "start": Parameter(number(-1e10, 1e11), "event time of the beginning, seconds since 1970", 0.0),
    },
    "peers": {
        "interval": Parameter(POSITIVE, "time between two samples", 1.0),
        "rate": _EXPECTED_RATE._replace(absent="10 tuples an interval"),
        "signature": _SIGNATURE,
    },
    "python": {
        "name": Parameter(
            NAME,
            "name under which `submit(..., feeds={name: rows})` feeds the source; for rows that `source` is given, "
            "the id of the source",
        ),
        "columns": Parameter(
            COLUMN_TYPES,
            "column to type; other columns of the rows are omitted. Default: those of a table",
        ),
        "time": Parameter(
            COLUMN,
            "column with the event time, which is called `time` in the stream; for a table by default the first "
            "existing one of `time`, `timestamp`, `ts`, `datetime`, `date`, or else its only column of times",
            "time",
            named=False,
        ),
        "time_unit": Parameter(
            choice(*TIME_UNITS),
            _TIME_UNIT,
            None,
            "`s`; numbers that would be implausible times are reported or refused",
        ),
        "lateness": Parameter(
            DURATION,
            "largest age of a row relative to the latest row before it, `2 s`; older rows are dropped",
            None,
            "none: a row that is out of order ends the application",
        ),
        "rate": _EXPECTED_RATE,
        "signature": _SIGNATURE,
    },
}

#: Connectors whose partitions several components may read.
DIVISIBLE: Final = tuple(name for name, parameters in CONNECTORS.items() if "readers" in parameters)

#: Description of valid connectors, for errors.
CONNECTOR: Final = (
    f"one of {', '.join(CONNECTORS)}; a file can use all but python, while tables and functions of your own "
    "are sources in Python: source(table), or source(rows(), columns={'user': 'str'})"
)


def rate_of(params: Mapping[str, Any]) -> float:
    """Expected rate of a source with these parameters, tuples/s; that of generated ones is stated for event time."""
    stated = params.get("rate")
    if stated is not None:
        pace = (pace_of(params) or 1.0) if params.get("connector") in GENERATED else 1.0
        return float(stated) * pace * share_of(params)
    signature = params.get("signature")
    if signature:
        return float(sum(seconds * rate for seconds, rate in signature) / sum(seconds for seconds, _ in signature))
    return 10 / params["interval"] if params.get("connector") == "peers" else DEFAULT_RATE


def share_of(params: Mapping[str, Any]) -> float:
    """Share of the events that its ``rate`` and ``count`` state which a source emits."""
    return _SHARES[params["table"]] if params.get("connector") == "nexmark" else 1.0


def is_endless(params: Mapping[str, Any]) -> bool:
    """Whether a source with these parameters never ends: measurements of peers, or generated tuples without a limit."""
    unbounded = params.get("count") is None and params.get("duration") is None
    connector = params["connector"]
    if connector in GENERATED:
        return unbounded
    return connector not in ("trace", "python") and not params.get("ends")


def pace_of(params: Mapping[str, Any]) -> float:
    """Seconds of event time per second; 0 for a source without a pace, whose readers determine its rate."""
    match params.get("connector", "trace"):
        case "peers":
            return 1.0
        case "packets" | "nexmark":
            return float(params.get("speed", 1.0))
        case "trace":
            return float(params.get("speed", 0.0))
        case _:
            return 0.0


def heartbeat_of(params: Mapping[str, Any]) -> float:
    """Longest time between two punctuations of a source with these parameters, seconds of real time."""
    return float(params.get("heartbeat", HEARTBEAT))


#: Types of columns of files that may hold the event time.
_CLOCKS: Final = ("time", "date", "int", "float")


def _source(it: Derivation) -> Schema | None:
    params = it.params
    if SOURCE.shaping & set(it.faulty):
        return None
    connector: str = params["connector"]
    if params.get("readers") == 1:
        del params["readers"]
    if "share" in params and "readers" in params:
        it.wrong("readers", params["readers"], f"1 beside the share {params['share']!r}, which is that of one reader")
    if connector in ("packets", "peers"):
        return {**TRACE_SCHEMAS[connector], **({"flags": "str"} if params.get("flags") else {})}
    if connector == "nexmark":
        return dict(NEXMARK[params["table"]]) if "table" in params else None
    if connector == "python":
        columns = {name: kind for name, kind in params["columns"].items() if (name, kind) != ("time", "time")}
        clock: str = params["time"]
        if clock != "time" and (own := columns.pop(clock, "time")) not in (*_CLOCKS, "str"):
            it.wrong("time", clock, f"a column of type time, date, int, float or str, not {own}")
        return it.output("columns", columns, windowed=False)
    trace_format: str = params.get("format", FORMATS_OF[connector][-1])
    for field, where in (("encoding", trace_format != "parquet"), ("quotes", trace_format == "csv")):
        if field in params and not where:
            it.wrong(field, params[field], f"no {field}: a file of format {trace_format} has none")
    if "time_unit" in params and trace_format in TRACE_SCHEMAS:
        it.wrong("time_unit", params["time_unit"], f"no time_unit: the times of format {trace_format} are fixed")
    if trace_format in TRACE_SCHEMAS:
        for field in ("columns", "time"):
            if field in params:
                it.wrong(field, params[field], f"no {field}: the columns of format {trace_format} are fixed")
        return dict(TRACE_SCHEMAS[trace_format])
    if "columns" not in params:
        example = 'columns={"user": "str", "amount": "float"}'
        it.wrong(
            "columns",
            None,
            f"columns with their types ({', '.join(TYPES)}), which format {trace_format} needs, as in {example}",
        )
        return None
    columns = dict(params["columns"])
    clock = params.setdefault("time", next((name for name in TIME_NAMES if name in columns), "time"))
    if columns.pop(clock, "time") not in _CLOCKS:
        it.wrong("time", clock, f"a column of type time, date, int or float, not {params['columns'][clock]}")
    # a PostgreSQL server may know a user by the connection alone
    if (lacks := account_without(params)) is not None and not (connector == "sql" and lacks[0] == "password"):
        it.wrong(lacks[0], None, lacks[1])
    if connector == "mqtt" and it.params.get("topic_as", clock) not in (clock, *columns):
        it.wrong("topic_as", it.params["topic_as"], f"one of the columns {', '.join(columns)}")
    if connector == "sql":
        _check_database(it)
    if connector == "kafka":
        _check_avro(it, trace_format, (clock, *columns))
    if connector == "http" and "by" in params and params["by"] not in (clock, *columns):
        known = (clock, *columns)
        it.wrong("by", params["by"], f"one of the columns {', '.join(known)}", nearest(params["by"], known))
    for name, kind in columns.items():
        if trace_format == "csv" and family(kind) not in PLAIN:
            it.wrong(
                f"columns.{name}", kind, f"a type that text has, such as str: {trace_format} has no lists and structs"
            )
    return it.output("columns", columns, windowed=False)


def _check_database(it: Derivation) -> None:
    """Report that there is no database, or two, or that a file has an account."""
    params = it.params
    if ("path" in params) == ("server" in params):
        it.wrong("path", params.get("path"), "either the path of a file, or a server with its database")
    for name in ("database", *_ACCOUNT) if "path" in params else ():
        if params.get(name):
            it.wrong(name, params[name], f"no {name}: a file has none")


def _check_avro(it: Derivation, form: str, names: Sequence[str]) -> None:
    """Report a schema that lacks columns, is missing, or is not needed."""
    schema = it.params.get("schema")
    if form == "json":
        if schema is not None:
            it.wrong("schema", "...", "no schema: format json has none; avro has one")
    elif schema is None:
        it.wrong("schema", None, f"a schema of Avro, which format {form} needs")
    else:
        fields = avro_fields(schema)
        for name in names:
            if name not in fields:
                it.wrong("columns", name, f"a field of the schema: {', '.join(fields)}", nearest(name, fields))


def _off_spark(params: Mapping[str, Any]) -> str:
    connector = params.get("connector")
    if connector != "trace" and connector not in GENERATED:
        return f"tuples of connector {connector} come from peers"
    if pace_of(params) > 0:
        return "a peer has to time a stream with a speed"
    if is_endless(params):
        return "a peer has to produce a stream without an end"
    return ""


def _brief(params: Mapping[str, Any]) -> str:
    share = f", {params['share']}" if "share" in params else ""
    if params["connector"] == OWN:
        return name_of(params["function"]) + share
    name = str(params.get("path", params.get("name", params.get("table", "")))).rpartition("/")[2]
    return (f"{params['connector']} {name}" if name else str(params["connector"])) + share


SOURCE: Final = Declaration(
    kind="source",
    help="Produces a stream.",
    inputs=(0, 0),
    parameters={
        "connector": Parameter(ValueType("connector", _connector, choices=tuple(CONNECTORS)), "origin of the tuples"),
    },
    columns=_source,
    shaping=frozenset({"connector", "format", "schema", "columns", "time", "flags", "table"}),
    component="connector",
    agrees="replicas of a source read the same tuples",
    off_spark=_off_spark,
    brief=_brief,
)


def _sink(it: Derivation) -> Schema:
    to = it.params.get("to")
    if to is not None and (fault := check_columns(to, it.input)) is not None:
        it.wrong(*fault)
    return dict(it.input)


SINK: Final = Declaration(
    kind="sink",
    help="Delivers the stream as a result under its `name`, and writes it `to` a destination if it has one. In Python "
    "it makes the plan, with the QoS requirement as arguments.",
    note="A destination is a format with its options, such as a folder of Parquet files, a table of DuckDB or a "
    "WebSocket. In Python, functions of `synergy_nb` with the name of the format make them, as in "
    '`to=parquet("everything", partition="1 hour")`. [Sinks](sinks.md) has all, and says what each guarantees.',
    python=(
        'query = slow.sink("everything", delay="2 s")',
        'query = slow.sink("everything", to={"format": "parquet", "path": "everything", "partition": "1 hour"})',
    ),
    yaml=(
        "everything: {kind: sink, input: slow, name: everything}",
        "everything: {kind: sink, input: slow, to: {format: parquet, path: everything, partition: 1 h}}",
    ),
    parameters={
        "name": Parameter(NAME, "name of the result", "result"),
        "to": Parameter(
            DESTINATION,
            "destination to which the results are written, such as `{format: parquet, path: FOLDER}`, `{format: csv, "
            "path: FILE}` or `{format: sqlite, path: FILE, table: NAME}`; with `every: 10 s` a row waits so long at "
            "most",
            None,
            "no destination: a peer retains the results for its readers",
            named=False,
        ),
    },
    columns=_sink,
    shaping=frozenset({"to"}),
    example=Example(lambda packets, _: packets),
    agrees="it passes each tuple on",
    off_spark="a peer retains the results",
    brief=lambda params: str(params["name"]),
)
