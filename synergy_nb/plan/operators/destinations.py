"""Destinations: where a sink writes its results to, outside of the peers.

A plan holds a destination as a mapping with all options of its format, in normal form: ``{"format": "parquet", "path":
"flows", "every": 10.0}``. :mod:`synergy_nb.connectors` writes them; a format is declared here so that plans are checked
without importing what writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from os import PathLike, fspath
from typing import Any, Final, NamedTuple, ParamSpec

from synergy_nb.plan.operators.parameter_types import (
    ADDRESS,
    ADDRESSES,
    COLUMN,
    FLAG,
    HEADERS,
    MECHANISMS,
    NAME,
    PATH,
    POSITIVE,
    SECRET,
    TEXT,
    TOPIC,
    WEBSOCKET,
    ValueType,
    account_without,
    choice,
    columns,
)
from synergy_nb.plan.terms.column_types import PLAIN, family
from synergy_nb.plan.terms.units import WrongValue, WrongValues, format_duration, nearest

__all__ = [
    "DESTINATION",
    "DESTINATIONS",
    "PERIOD",
    "check_columns",
    "csv",
    "delta",
    "duckdb",
    "jsonl",
    "kafka",
    "mqtt",
    "parquet",
    "place_of",
    "postgresql",
    "sqlite",
    "websocket",
]

#: Name of the folders of a period, and so of a column that readers of such a folder add.
PERIOD: Final = "period"
_DAY: Final = 86_400.0
_SECONDS: Final = 1.0


class DestinationOption(NamedTuple):
    """One option of a format."""

    type: ValueType
    default: Any = None  # normal value where a plan states none; None: the option is absent
    needed: bool = False


def _period(value: Any) -> float:
    """Parse the length of a period, which days are divided into without rest, or which is whole days."""
    seconds = float(POSITIVE.parse(value))
    whole = seconds % _DAY == 0.0 if seconds > _DAY else _DAY % seconds == 0.0
    if seconds % _SECONDS or not whole:
        raise WrongValue(value, "whole seconds that divide a day, or whole days, such as '1 hour' or '1 day'")
    return seconds


_PERIOD: Final = ValueType("duration", _period, format_duration, "s", least=_SECONDS)
_PATH: Final = DestinationOption(PATH, needed=True)

#: An account of a server.
_ACCOUNT: Final[Mapping[str, DestinationOption]] = {
    "tls": DestinationOption(FLAG, False),
    "user": DestinationOption(TEXT),
    "password": DestinationOption(SECRET),
}
_TABLE: Final = {
    "path": _PATH,
    "table": DestinationOption(NAME, needed=True),
    "key": DestinationOption(columns(1)),
    "every": DestinationOption(POSITIVE, 1.0),
}

#: Format to its options by name.
DESTINATIONS: Final[Mapping[str, Mapping[str, DestinationOption]]] = {
    "parquet": {"path": _PATH, "partition": DestinationOption(_PERIOD), "every": DestinationOption(POSITIVE, 10.0)},
    "csv": {"path": _PATH, "every": DestinationOption(POSITIVE, 1.0)},
    "jsonl": {"path": _PATH, "every": DestinationOption(POSITIVE, 1.0)},
    "kafka": {
        "topic": DestinationOption(TOPIC, needed=True),
        "servers": DestinationOption(ADDRESSES, needed=True),
        "key": DestinationOption(COLUMN),
        **_ACCOUNT,
        "mechanism": DestinationOption(choice(*MECHANISMS), MECHANISMS[0]),
        "every": DestinationOption(POSITIVE, 1.0),
    },
    "mqtt": {
        "topic": DestinationOption(TEXT, needed=True),
        "server": DestinationOption(ADDRESS, needed=True),
        "retain": DestinationOption(FLAG, False),
        **_ACCOUNT,
        "every": DestinationOption(POSITIVE, 0.1),
    },
    "duckdb": _TABLE,
    "sqlite": _TABLE,
    "postgresql": {
        "server": DestinationOption(ADDRESS, needed=True),
        "table": DestinationOption(NAME, needed=True),
        "database": DestinationOption(NAME),
        "key": DestinationOption(columns(1)),
        **_ACCOUNT,
        "every": DestinationOption(POSITIVE, 1.0),
    },
    "delta": {"path": _PATH, "every": DestinationOption(POSITIVE, 10.0)},
    "websocket": {
        "url": DestinationOption(WEBSOCKET, needed=True),
        "headers": DestinationOption(HEADERS),
        "every": DestinationOption(POSITIVE, 0.1),
    },
}
_EXAMPLES: Final = {
    **{each: f"{each}('results.{each}', table='large')" for each in ("duckdb", "sqlite")},
    "postgresql": "postgresql('db.local:5432', table='large')",
}
_EXPECTED: Final = "a destination such as parquet('folder'), csv('file.csv') or jsonl('file.jsonl')"


def place_of(to: Mapping[str, Any]) -> str:
    """What a destination is called in errors."""
    if "topic" in to:
        return f"topic {to['topic']!r}"
    if "server" in to:
        return f"table {to['table']!r}"
    return repr(to["path"] if "path" in to else to["url"])


#: How the text ends that may stand for a destination, to how this is stated in Python.
_MEANT: Final = {
    "csv": "csv({!r})",
    "jsonl": "jsonl({!r})",
    "ndjson": "jsonl({!r})",
    "parquet": "parquet({!r})",
    "duckdb": "duckdb({!r}, 'table')",
    "sqlite": "sqlite({!r}, 'table')",
    "db": "sqlite({!r}, 'table')",
}


def _meant(value: Any) -> str | None:
    """Return the destination that a text in place of one may mean; None if nothing says so.

    >>> _meant("out.csv")
    "csv('out.csv')"
    """
    text = fspath(value) if isinstance(value, str | PathLike) else ""
    if not isinstance(text, str):
        return None
    if text.startswith(("ws://", "wss://")):
        return f"websocket({text!r})"
    form = _MEANT.get(text.lower().rpartition(".")[2], "parquet({!r})" if text.endswith("/") else None)
    return None if form is None else form.format(text)


def _destination(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        meant = _meant(value)
        raise WrongValue(value, _EXPECTED if meant is None else f"a destination, such as {meant}")
    form = value.get("format")
    if not isinstance(form, str) or form not in DESTINATIONS:
        raise WrongValue(form, f"one of {', '.join(DESTINATIONS)}", nearest(form, DESTINATIONS), ".format")
    options = DESTINATIONS[form]
    found: dict[str, Any] = {"format": form}
    expected = f"one of the options {', '.join(options)} of {form}"
    unknown = sorted(map(str, value.keys() - {"format"} - options.keys()))
    wrongs = [WrongValue(name, expected, nearest(name, options)) for name in unknown]
    for name, option in options.items():
        given = value.get(name, option.default)
        if given is None and option.needed:
            example = _EXAMPLES.get(form, f"{form}('...')")
            wrongs.append(WrongValue(given, f"a {name}, as in {example}", None, f".{name}"))
        elif given is not None:
            try:
                found[name] = option.type.parse(given)
            except WrongValues as wrong:
                wrongs += [WrongValue(each.value, each.expected, each.nearest, f".{name}") for each in wrong.wrongs]
    lacks = account_without(found) if "user" in options and not wrongs else None
    # a PostgreSQL server may know a user by the connection alone
    if lacks is not None and (form, lacks[0]) != ("postgresql", "password"):
        wrongs.append(WrongValue(None, lacks[1], None, f".{lacks[0]}"))
    if wrongs:
        raise WrongValues(wrongs)
    return found


def _written(value: Mapping[str, Any]) -> dict[str, Any]:
    """Write a destination with units, without options at their default."""
    options = DESTINATIONS[value["format"]]
    found: dict[str, Any] = {"format": value["format"]}
    for name, each in value.items():
        if name != "format" and each != options[name].default:
            write = options[name].type.write
            found[name] = each if write is None else write(each)
    return found


#: A format with its options.
DESTINATION: Final = ValueType("destination", _destination, _written)


#: What the formats are called that hold no lists and structs.
_FLAT: Final = {"csv": "a CSV file", "postgresql": "a table of PostgreSQL", "sqlite": "a table of SQLite"}


def check_columns(to: Mapping[str, Any], columns: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return a wrong field, its value, and what was expected, where a destination does not fit a stream; or None."""
    form = to["format"]
    for name, kind in columns.items() if form in _FLAT else ():
        if family(kind) not in PLAIN:
            expected = f"columns of type {', '.join(PLAIN)} in {_FLAT[form]}, not {kind}; parquet and jsonl hold it"
            return "to", name, expected
    key = to.get("key", [])
    for name in [key] if isinstance(key, str) else key:
        if name not in columns:
            return "to.key", name, f"columns of the stream as the key: {', '.join(columns)}"
    if form == "mqtt" and set(to["topic"]) & {"+", "#"}:
        return "to.topic", to["topic"], "a topic without '+' and '#', which are patterns for readers"
    if "partition" in to:
        for name in columns:
            if name.casefold() == PERIOD:
                return "to", name, f"no column of this name with a partition, whose folders are named {PERIOD}=..."
    return None


# -- for users -------------------------------------------------------------------------------------------------------


P = ParamSpec("P")


def _stated(make: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
    """Have a function refuse an option that it does not have by a sentence, as a plan does."""
    options = list(signature(make).parameters)

    @wraps(make)
    def stated(*given: P.args, **named: P.kwargs) -> dict[str, Any]:
        expected = f"one of the options {', '.join(options)} of {make.__name__}"
        for name in named.keys() - set(options):
            raise ValueError(f"{name}: {WrongValue(named[name], expected, nearest(name, options))}")
        return make(*given, **named)

    return stated


@_stated
def parquet(path: str | PathLike[str], *, partition: Any = None, every: Any = None) -> dict[str, Any]:
    """Return a folder of Parquet files as the destination of a sink.

    Each file has its name when all of its rows are in it and on the disk, and the positions of its rows in the stream;
    so each row of the stream is in one file, once, whoever is killed at which moment.

    Parameters
    ----------
    path
        Folder, which is made. All peers that may execute the sink must have access to it.
    partition
        Length of a period of event time, ``"1 hour"`` or ``"1 day"``: rows of a period are in a folder
        ``period=2026-01-01T14-00-00`` of their own (``period=2026-01-01`` for days). Default: no such folders.
    every
        Longest time until a row is in a file, ``"10 s"`` by default; a file is written earlier when rows for it take 16
        MiB of memory.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import parquet, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=parquet("large", partition="1 hour"))
    >>> plan.operators["sink"].params["to"]
    {'format': 'parquet', 'path': 'large', 'partition': 3600.0, 'every': 10.0}
    """
    return _of_user("parquet", path=path, partition=partition, every=every)


@_stated
def csv(path: str | PathLike[str], *, every: Any = None) -> dict[str, Any]:
    """Return a CSV file as the destination of a sink.

    The file with ``.positions`` after its name says how many of its bytes count, and up to which position in the
    stream. So a row is in it once, whoever is killed at which moment; until the sink is opened again, the file may end
    with rows that do not count yet.

    Parameters
    ----------
    path
        File, which is made, and to which rows are appended.
    every
        Longest time until a row is in the file, ``"1 s"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import csv, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=csv("large.csv"))
    """
    return _of_user("csv", path=path, every=every)


@_stated
def jsonl(path: str | PathLike[str], *, every: Any = None) -> dict[str, Any]:
    """Return a file of JSON lines as the destination of a sink, as :func:`csv` a CSV file.

    Parameters
    ----------
    path, every
        File, and longest time until a row is in it, see :func:`csv`.

    Examples
    --------
    >>> from synergy_nb import jsonl, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=jsonl("large.jsonl"))
    """
    return _of_user("jsonl", path=path, every=every)


@_stated
def kafka(
    topic: str,
    servers: str | Iterable[str],
    *,
    key: str | None = None,
    tls: bool | None = None,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    every: Any = None,
) -> dict[str, Any]:
    """Return a Kafka topic as the destination of a sink.

    Each row is a message, an object in JSON. Rows are written in transactions, which consumers with
    ``isolation.level=read_committed``, their default, see as a whole.

    Parameters
    ----------
    topic
        Topic, which has to be there.
    servers
        Brokers that are asked first, ``"broker.local:9092"``, or several.
    key
        Column whose value is the key of a message: rows with the same key are in one partition. Default: no key, and a
        thousand rows after one another are in one partition.
    tls
        Whether connections are encrypted.
    user, password, mechanism
        Account: its name, the name of the secret with its password, and how the brokers are shown that:
        ``"SCRAM-SHA-512"`` (the default), ``"SCRAM-SHA-256"`` or ``"PLAIN"``.
    every
        Longest time until a row is in the topic, ``"1 s"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import kafka, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=kafka("large", "broker.local:9092", key="link"))
    """
    return _of_user(
        "kafka", topic=topic, servers=servers, key=key, tls=tls, user=user, password=password, mechanism=mechanism,
        every=every,
    )  # fmt: skip


@_stated
def mqtt(
    topic: str,
    server: str,
    *,
    retain: bool | None = None,
    tls: bool | None = None,
    user: str | None = None,
    password: str | None = None,
    every: Any = None,
) -> dict[str, Any]:
    """Return a topic of an MQTT broker as the destination of a sink.

    Each row is a message, an object in JSON. A row is there at least once: those whose commit was interrupted are sent
    again.

    Parameters
    ----------
    topic, server
        Topic, and the broker, ``"broker.local:1883"``.
    retain
        Whether the broker keeps the last row for those who ask later.
    tls
        Whether the connection is encrypted.
    user, password
        Account: its name, and the name of the secret with its password.
    every
        Longest time until a row is sent, ``"100 ms"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import mqtt, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=mqtt("net/large", "broker.local:1883"))
    """
    return _of_user(
        "mqtt", topic=topic, server=server, retain=retain, tls=tls, user=user, password=password, every=every
    )  # fmt: skip


@_stated
def duckdb(
    path: str | PathLike[str], table: str, *, key: str | Iterable[str] | None = None, every: Any = None
) -> dict[str, Any]:
    """Return a table of a DuckDB file as the destination of a sink.

    Rows are written by transactions, each with the point of the stream where it ends; so each row of the stream is
    written once, whoever is killed at which moment.

    Parameters
    ----------
    path
        File, which is made. All peers that may execute the sink must have access to it.
    table
        Table, which is made, or has these columns.
    key
        Columns by which a row replaces the one before it: of the rows with the same values there, the table has the
        last. A table that is there needs a primary key of these columns. Default: the table has all rows.
    every
        Longest time until a row is in the table, ``"1 s"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import duckdb, source
    >>> sums = source("packets").aggregate(by="link", window="1 min", total="sum(bytes)")
    >>> plan = sums.sink(to=duckdb("flows.duckdb", "sums", key=["link", "window_start"]))
    """
    return _of_user("duckdb", path=path, table=table, key=key, every=every)


@_stated
def sqlite(
    path: str | PathLike[str], table: str, *, key: str | Iterable[str] | None = None, every: Any = None
) -> dict[str, Any]:
    """Return a table of a SQLite file as the destination of a sink, as :func:`duckdb` one of DuckDB.

    Times, dates and decimals are text there.

    Parameters
    ----------
    path, table, key, every
        File, table, columns of a key, and longest time until a row is there, see :func:`duckdb`.

    Examples
    --------
    >>> from synergy_nb import source, sqlite
    >>> plan = source("packets").filter("bytes > 1000").sink(to=sqlite("flows.sqlite", "large"))
    """
    return _of_user("sqlite", path=path, table=table, key=key, every=every)


@_stated
def postgresql(
    server: str,
    table: str,
    *,
    database: str | None = None,
    key: str | Iterable[str] | None = None,
    tls: bool | None = None,
    user: str | None = None,
    password: str | None = None,
    every: Any = None,
) -> dict[str, Any]:
    """Return a table of a PostgreSQL server as the destination of a sink, as :func:`duckdb` one of a file.

    Peers need the extra ``postgresql``.

    Parameters
    ----------
    server
        Server, ``"db.local:5432"``.
    table, key, every
        Table, columns of a key, and longest time until a row is there, see :func:`duckdb`.
    database
        Database of the server, by default that with the name of the account.
    tls
        Whether the connection is encrypted, and the server has a certificate that is trusted.
    user, password
        Account: its name, and the name of the secret with its password.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import postgresql, source
    >>> sums = source("packets").aggregate(by="link", window="1 min", total="sum(bytes)")
    >>> account = {"database": "net", "user": "ann", "password": "db"}
    >>> plan = sums.sink(to=postgresql("db.local:5432", "sums", key=["link", "window_start"], **account))
    """
    return _of_user(
        "postgresql", server=server, table=table, database=database, key=key, tls=tls, user=user, password=password,
        every=every,
    )  # fmt: skip


@_stated
def delta(path: str | PathLike[str], *, every: Any = None) -> dict[str, Any]:
    """Return a Delta table as the destination of a sink; peers need the package ``deltalake`` (extra ``delta``).

    Each commit is a version of the table, with the point of the stream where its rows end; so each row of the stream is
    there once, whoever is killed at which moment.

    Parameters
    ----------
    path
        Folder, which is made.
    every
        Longest time until a row is in the table, ``"10 s"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import delta, source
    >>> plan = source("packets").filter("bytes > 1000").sink(to=delta("large"))
    """
    return _of_user("delta", path=path, every=every)


@_stated
def websocket(url: str, *, headers: Mapping[str, str] | None = None, every: Any = None) -> dict[str, Any]:
    """Return a WebSocket as the destination of a sink: each row is a message, an object in JSON, at least once.

    Parameters
    ----------
    url
        Server to which the peer connects, ``"wss://board.local/rows"``.
    headers
        Further headers of the request, where ``${mine}`` stands for a secret.
    every
        Longest time until a row is sent, ``"100 ms"`` by default.

    Raises
    ------
    ValueError
        If an option is invalid.

    Examples
    --------
    >>> from synergy_nb import source, websocket
    >>> board = websocket("wss://board.local/rows", headers={"Authorization": "Bearer ${board}"})
    >>> plan = source("packets").filter("bytes > 1000").sink(to=board)
    """
    return _of_user("websocket", url=url, headers=headers, every=every)


def _of_user(form: str, **options: Any) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return _destination({"format": form, **given})
    except WrongValues as wrong:
        raise ValueError("; ".join(f"{each.field.removeprefix('.')}: {each}" for each in wrong.wrongs)) from None
