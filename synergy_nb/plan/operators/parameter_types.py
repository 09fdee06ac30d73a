"""Types of the parameters of operators: each parses all spellings of a value to one normal value, and writes it.

A :class:`ValueType` states the valid values (unit, choices, range), so that validation, documentation and forms use
the same words. A plan holds normal values: seconds, fractions of one, sorted lists where order means nothing. So
equal work gets equal stream names.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from synergy_nb.plan.terms.column_types import EXAMPLES, column_type
from synergy_nb.plan.terms.secret_names import names_in
from synergy_nb.plan.terms.units import (
    WrongValue,
    WrongValues,
    format_duration,
    format_fraction,
    format_rate,
    format_size,
    nearest,
    parse_duration,
    parse_fraction,
    parse_rate,
    parse_size,
)

__all__ = [
    "CALLS",
    "COLUMN",
    "COLUMN_TYPES",
    "CONDITION",
    "DURATION",
    "ENCODING",
    "EXPRESSIONS",
    "FACTOR",
    "FLAG",
    "FRACTION",
    "HEADERS",
    "MOST_SEGMENTS",
    "NAME",
    "ORDER",
    "OVER_VALUES",
    "PATH",
    "POSITIVE",
    "RATE",
    "SECRET",
    "SECRET_TEXT",
    "SIGNATURE",
    "SIZE",
    "TEXT",
    "TOPIC",
    "TYPES",
    "WINDOW",
    "ValueType",
    "account_without",
    "choice",
    "columns",
    "format_window",
    "integer",
    "listed",
    "number",
    "parse_number",
    "parse_window",
]

#: Types of columns, as people write them.
TYPES: Final = EXAMPLES
_LONGEST_NAME: Final = 200
_MOST_INTEGER: Final = 2**63 - 1


class ValueType(NamedTuple):
    """A type of values."""

    name: str  # name of the type in forms and tables: `duration`, `fraction`, `columns`, `condition`, ..
    parse: Callable[[Any], Any]  # function that returns the normal value, or raises `WrongValues`
    # function that returns the value for a YAML file; None: the normal value itself
    write: Callable[[Any], Any] | None = None
    unit: str = ""  # unit of the normal value
    choices: tuple[str, ...] = ()  # all valid values, if there are few
    # least, most: range of a number
    least: float | None = None
    most: float | None = None
    annotation: str = "Any"  # type of the spellings in Python
    # function that returns the text within the name of a stream; None: that of `write`, or of the normal value
    text: Callable[[Any], str] | None = None


# -- parsers ---------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    expected = f"a text of 1 to {_LONGEST_NAME * 20} characters"
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= _LONGEST_NAME * 20 or "\0" in value:
        raise WrongValue(value, expected)
    if any("\ud800" <= each <= "\udfff" for each in value):  # half of a surrogate pair, which UTF-8 cannot encode
        raise WrongValue(value, f"{expected} that can be written as UTF-8")
    return value


def _files(value: Any) -> str:
    """Parse a folder with a pattern of names in it, ``folder/*.csv``."""
    text = _text(value)
    folder, _, name = text.replace("\\", "/").rpartition("/")
    if not name or any(mark in folder for mark in "*?["):
        raise WrongValue(value, "a folder and a pattern of the names of its files, such as 'folder/*.csv'")
    return text


def host_and_port(address: str) -> tuple[str, int]:
    """Take an address apart; one of IPv6 is in brackets.

    >>> host_and_port("meter.local:7000"), host_and_port("[::1]:80")
    (('meter.local', 7000), ('::1', 80))
    """
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def host_of(value: str) -> str:
    """Host of an address or a URL, in lower case.

    >>> host_of("https://Meter.local:8443/now"), host_of("[::1]:80")
    ('meter.local', '::1')
    """
    return (urlsplit(value).hostname or "") if "://" in value else host_and_port(value)[0].lower()


def _address(value: Any) -> str:
    text = _text(value)
    host, colon, port = text.rpartition(":")
    plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not (colon and host and plain and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise WrongValue(value, "a host and a port, such as 'meter.local:7000'")
    return text


def _addresses(value: Any) -> list[str]:
    """Parse the addresses of several servers, or a text with commas between them."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not given:
        raise WrongValue(value, "addresses of servers, such as 'broker.local:9092'")
    return list(dict.fromkeys(_address(each.strip() if isinstance(each, str) else each) for each in given))


def _avro(value: Any) -> str:
    """Parse a schema of Avro, as JSON or as the value that this has, which must be one of records."""
    expected = "a schema of Avro, in JSON, of a record with fields"
    try:
        found = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(found, separators=(",", ":"))
    except (TypeError, ValueError):
        raise WrongValue(value, expected) from None
    if not isinstance(found, dict) or found.get("type") != "record" or not avro_fields(text):
        raise WrongValue(value, expected)
    return text


def avro_fields(schema: str) -> list[str]:
    """Names of the fields of a record by its schema.

    >>> avro_fields('{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}')
    ['id']
    """
    fields = json.loads(schema).get("fields")
    named = isinstance(fields, list) and all(isinstance(each, dict) and "name" in each for each in fields)
    return [str(each["name"]) for each in fields] if named else []


def _url(*schemes: str) -> Callable[[Any], str]:
    expected = f"a URL such as '{schemes[0]}://meter.local/now'"

    def parse(value: Any) -> str:
        text = _text(value)
        try:
            parts = urlsplit(text)
            right = parts.scheme in schemes and parts.hostname and (parts.port or 1) and text.isprintable()
            right = right and "$" not in parts.netloc
        except ValueError:
            right = False
        shown = re.sub(r"//[^/]*@", "//...@", text)  # an error is shown, too, and kept in the output of a notebook
        if not right or any(each.isspace() for each in text):
            raise WrongValue(shown, expected)
        if parts.username or parts.password:
            raise WrongValue(shown, f"{expected}, without a name and a password, which a plan would show")
        for name, given in parse_qsl(parts.query):
            if _SECRET_FIELD.search(name) and not names_in(given):
                shown = text.partition("?")[0] + f"?{name}=..."
                raise WrongValue(shown, f"the name of a secret there, as {name}=${{mine}}: a plan is shown to others")
        return text

    return parse


#: Names of fields whose values are secret.
_SECRET_FIELD: Final = re.compile(r"(?i)auth|cookie|passw|secret|(?:^|[_-])token$|api[_-]?key$")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_SET_BY_CONNECTORS: Final = re.compile(
    r"(?i)host|connection|upgrade|transfer-encoding|content-length|if-none-match|last-event-id|sec-websocket-.*"
)


def _headers(value: Any) -> dict[str, str]:
    """Parse headers of requests; a value that is secret is named in them."""
    if not isinstance(value, Mapping) or not value:
        raise WrongValue(type(value).__name__, "headers with their values, as {'Authorization': 'Bearer ${mine}'}")
    wrongs = []
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name) or _SET_BY_CONNECTORS.fullmatch(name):
            wrongs.append(WrongValue(name, "the name of a header that the connector does not set itself"))
        elif not isinstance(text, str) or not text.strip() or not text.isascii() or not text.isprintable():
            wrongs.append(WrongValue("...", "a line of ASCII text", None, f".{name}"))
        elif _SECRET_FIELD.search(name) and not names_in(text):
            expected = "the name of a secret in it, as 'Bearer ${mine}': a plan is shown to others"
            wrongs.append(WrongValue("...", expected, None, f".{name}"))
    if wrongs:
        raise WrongValues(wrongs)
    return {name: value[name].strip() for name in sorted(value)}


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


_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _topic(value: Any) -> str:
    """Parse the name of a Kafka topic, which brokers restrict."""
    if not isinstance(value, str) or not _TOPIC.fullmatch(value) or value in (".", ".."):
        expected = "a topic of 1 to 249 letters of ASCII, digits, '.', '_' and '-', other than '.' and '..'"
        raise WrongValue(value, expected)
    return value


def account_without(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what an account lacks, and what is expected; None: it has a name and a password, or there is none.

    >>> account_without({"user": "ann"})
    ('password', "the name of the secret with the password of user 'ann'")
    """
    user, password = params.get("user"), params.get("password")
    if (user is None) == (password is None):
        return None
    if password is None:
        return "password", f"the name of the secret with the password of user {user!r}"
    return "user", "the name of the account to which the password belongs"


def _secret(value: Any) -> str:
    with contextlib.suppress(WrongValue):
        name = _name(value)
        if not any(each in name for each in "${}"):
            return name
    raise WrongValue("...", "the name of a secret, without '$', '{' and '}'")  # it may be the secret: it is not shown


_NO_ENCODINGS: Final = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")  # codecs of text only


def _encoding(value: Any) -> str:
    """Return the name of an encoding as Python spells it."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        found = codecs.lookup(value)
        if found.name not in _NO_ENCODINGS and isinstance(b"".decode(value), str):
            return found.name
    raise WrongValue(value, "the name of an encoding of text that Python knows, such as 'utf-8' or 'windows-1252'")


def _integers(least: int, most: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            limit = f"of at least {least}" if most == _MOST_INTEGER else f"from {least} to {most}"
            raise WrongValue(value, f"an integer {limit}")
        return number

    return parse


def _factor(value: Any) -> float:
    number = parse_number(value, "a factor of at least 0 (0: as fast as possible)")
    if number < 0:
        raise WrongValue(value, "a factor of at least 0 (0: as fast as possible)")
    return number


def parse_number(value: Any, expected: str) -> float:
    """Parse a finite float; if it is none, raise :class:`.WrongValue` with what was ``expected``."""
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


def listed(value: Any, expected: str) -> list[str]:
    """Parse a list of distinct names."""
    values = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else None
    if values is None:
        raise WrongValue(value, expected)
    for each in values:
        _name(each)
    if len(set(values)) < len(values):
        raise WrongValue(value, f"{expected}, each of them once")
    return values


def _names(least: int) -> Callable[[Any], list[str]]:
    """Make a parser of column names whose order does not matter."""

    def parse(value: Any) -> list[str]:
        values = listed(value, "a list of column names")
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
        if column_type(kind) is None:
            wrongs.append(WrongValue(kind, f"one of {', '.join(TYPES)}", nearest(kind, TYPES), f".{column}"))
    if wrongs:
        raise WrongValues(wrongs)
    return {column: column_type(kind) or kind for column, kind in value.items()}


def _expressions(value: Any) -> dict[str, str]:
    """Parse column name to SQL; a list of names stands for the columns themselves."""
    from synergy_nb.plan.sql.sql import quoted  # noqa: PLC0415 - in this direction, text only

    expected = "columns with their SQL expressions"
    if isinstance(value, (list, tuple)):
        value = {name: quoted(name) for name in listed(value, expected)}
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


#: Largest number of windows of a tuple. Each window has a result, so one tuple may lead to as many results.
MOST_OVERLAP: Final = 100_000
_WINDOW_EXPECTED: Final = "a window such as '20 min', '20 min every 5 min', '2 min gap' or '1000 rows'"


def parse_window(value: Any) -> dict[str, Any]:
    """Parse a window to its normal form.

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
            return {"kind": "count", "rows": _integers(1, _MOST_INTEGER)(value["rows"])}
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
    """Parse sort keys ``column asc`` and ``column desc`` to the normal forms ``column`` and ``column desc``."""
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


def _order_text(keys: list[str]) -> str:
    from synergy_nb.plan.sql.sql import quoted  # noqa: PLC0415 - in this direction, text only

    return f"[{', '.join(quoted(key.removesuffix(' desc')) + (' desc' * key.endswith(' desc')) for key in keys)}]"


#: Largest number of segments of the signature of a stream.
MOST_SEGMENTS: Final = 32


def _signature(value: Any) -> list[list[float]]:
    """Parse the segments of a stream to [seconds, tuples/s], the earliest first."""
    expected = f"1 to {MOST_SEGMENTS} segments with duration and rate, such as [['2 s', '400/s'], ['8 s', '25/s']]"
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MOST_SEGMENTS:
        raise WrongValue(value, expected)
    segments: list[list[float]] = []
    for each in value:
        if not isinstance(each, (list, tuple)) or len(each) != 2:
            raise WrongValue(each, expected)
        segments.append([_positive(each[0]), parse_rate(each[1])])
    if not any(rate > 0.0 for _, rate in segments):
        raise WrongValue(value, f"{expected}, at least one rate of them above 0")
    return segments


def _write_signature(segments: list[list[float]]) -> list[list[str]]:
    return [[format_duration(seconds), format_rate(rate)] for seconds, rate in segments]


# -- types -----------------------------------------------------------------------------------------------------------

TEXT: Final = ValueType("text", _text, annotation="str")
#: Files of one folder, by a pattern of their names.
FILES: Final = ValueType("text", lambda value: _files(fspath(value) if isinstance(value, PathLike) else value))
PATH: Final = ValueType("text", lambda value: _text(fspath(value) if isinstance(value, PathLike) else value))
#: Hosts with ports, pages of the web, and WebSockets.
ADDRESS: Final = ValueType("text", _address, annotation="str")
#: How Kafka brokers are shown a password.
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
#: Addresses of servers.
ADDRESSES: Final = ValueType("names", _addresses, annotation="str | Iterable[str]")
#: Schema of Avro, in JSON.
AVRO: Final = ValueType("text", _avro, annotation="str | Mapping[str, Any]")
URL: Final = ValueType("text", _url("https", "http"), annotation="str")
WEBSOCKET: Final = ValueType("text", _url("wss", "ws"), annotation="str")
NAME: Final = ValueType("name", _name, annotation="str")
#: Name of a Kafka topic.
TOPIC: Final = ValueType("name", _topic, annotation="str")
#: Name of a secret; text that has names of secrets, as `${mine}`; and headers of requests, whose values may.
SECRET: Final = ValueType("secret", _secret, annotation="str")
SECRET_TEXT: Final = ValueType("text", _text, annotation="str")
HEADERS: Final = ValueType("headers", _headers, annotation="Mapping[str, str]")
ENCODING: Final = ValueType("encoding", _encoding, annotation="str")
COLUMN: Final = ValueType("column", _name, annotation="str")
CONDITION: Final = ValueType("condition", _condition, annotation="str")
#: Column to SQL expression.
EXPRESSIONS: Final = ValueType("expressions", _expressions, annotation="Mapping[str, str]")
#: Column to aggregate call.
CALLS: Final = ValueType("calls", _expressions, annotation="Mapping[str, str]")
#: Column to expression over rows in order.
OVER_VALUES: Final = ValueType("over", _expressions, annotation="Mapping[str, str]")
#: Column to type.
COLUMN_TYPES: Final = ValueType("column types", _types, annotation="Mapping[str, str]")
ORDER: Final = ValueType("order", _order, annotation="str | Iterable[str]", text=_order_text)
WINDOW: Final = ValueType("window", parse_window, format_window)
DURATION: Final = ValueType("duration", parse_duration, format_duration, "s", least=0.0)
#: A duration that is not 0.
POSITIVE: Final = ValueType("duration", _positive, format_duration, "s", least=1e-6)
#: Bytes.
SIZE: Final = ValueType("size", parse_size, format_size, "bytes", least=1.0)
FRACTION: Final = ValueType("fraction", parse_fraction, format_fraction, least=0.0, most=1.0)
RATE: Final = ValueType("rate", _rate, format_rate, "tuples/s", least=0.0)
#: Segments of seconds and tuples/s.
SIGNATURE: Final = ValueType("signature", _signature, _write_signature, annotation="Iterable[Sequence[str | float]]")
FACTOR: Final = ValueType("number", _factor, least=0.0, annotation="float")
FLAG: Final = ValueType("flag", _flag, annotation="bool")


def integer(least: int, most: int = _MOST_INTEGER) -> ValueType:
    """Type of the integers of a range."""
    bound = None if most == _MOST_INTEGER else most
    return ValueType("integer", _integers(least, most), least=least, most=bound, annotation="int")


def number(least: float, most: float) -> ValueType:
    """Type of the numbers of a range."""
    return ValueType("number", _between(least, most), least=least, most=most, annotation="float")


def choice(*names: str) -> ValueType:
    """Type of a choice among a few words."""
    return ValueType("choice", _choice(*names), choices=names, annotation="str")


def columns(least: int) -> ValueType:
    """Type of a set of column names, at least ``least`` of them."""
    return ValueType("columns", _names(least), least=least, annotation="str | Iterable[str]")
