"""Quantities with units, read from text and written back: durations, fractions, sizes, rates and throughputs.

Inside the platform every quantity is a plain number in a base unit (seconds, fractions of one, bytes, bytes/s,
tuples/s). Units exist only in the interfaces for users: the builder, YAML files and the command line. The text of
:func:`format_duration` and its siblings is parsed back to exactly the same number.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from synergy_nb.errors import SynergyError

__all__ = [
    "FRACTION_EXPECTED",
    "LONGEST",
    "WrongValue",
    "WrongValues",
    "amount",
    "counted",
    "did_you_mean",
    "duration",
    "format_duration",
    "format_fraction",
    "format_rate",
    "format_size",
    "format_throughput",
    "nearest",
    "parse_duration",
    "parse_fraction",
    "parse_rate",
    "parse_size",
    "parse_throughput",
    "rank_of",
    "ratio_of",
    "type_of",
]

#: A unit is (multiplier, divisor): dividing by 1000 rounds correctly where multiplying by 0.001 does not.
_Unit = tuple[float, float]

_DURATIONS: Final[dict[str, _Unit]] = {
    "d": (86400, 1),
    "h": (3600, 1),
    "min": (60, 1),
    "s": (1, 1),
    "ms": (1, 1e3),
    "us": (1, 1e6),
}
_DURATION_SPELLINGS: Final = {
    "days": "d",
    "day": "d",
    "hours": "h",
    "hour": "h",
    "hr": "h",
    "minutes": "min",
    "minute": "min",
    "seconds": "s",
    "second": "s",
    "sec": "s",
    "milliseconds": "ms",
    "millisecond": "ms",
    "microseconds": "us",
    "microsecond": "us",
    "µs": "us",
    "μs": "us",
}
_SIZES: Final[dict[str, _Unit]] = {
    "GB": (1e9, 1),
    "MB": (1e6, 1),
    "kB": (1e3, 1),
    "B": (1, 1),
    "GiB": (2.0**30, 1),
    "MiB": (2.0**20, 1),
    "KiB": (2.0**10, 1),
    "Gbit": (1e9, 8),
    "Mbit": (1e6, 8),
    "kbit": (1e3, 8),
    "bit": (1, 8),
}
_IN_BYTES: Final = {name: unit for name, unit in _SIZES.items() if "bit" not in name}
_SIZE_SPELLINGS: Final = {"bytes": "B", "byte": "B", "b": "B", "KB": "kB", "kb": "kB", "mb": "MB", "gb": "GB"}
_COUNTS: Final[dict[str, _Unit]] = {"M tuples": (1e6, 1), "k tuples": (1e3, 1), "tuples": (1, 1)}
_COUNT_SPELLINGS: Final = {"tuple": "tuples", "ktuples": "k tuples", "Mtuples": "M tuples", "": "tuples"}

SHOWN: Final = 2000  # characters of a value that an error shows
SPELLED: Final = 200  # characters of a name of which a similar one is looked for
_NUMBER: Final = r"[-+]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TERM: Final = re.compile(rf"\s*({_NUMBER})\s*([^\d\s+\-.][^\d+\-.]*)?")


class WrongValues(SynergyError, ValueError):
    """One or more values are invalid; the text gives each value and what was expected."""

    def __init__(self, wrongs: Iterable[WrongValue]) -> None:
        self.wrongs: tuple[WrongValue, ...] = tuple(wrongs)  # invalid values, in the order of the input
        super().__init__("; ".join(map(str, self.wrongs)))


class WrongValue(WrongValues):
    """A value is invalid; the text gives it and what was expected."""

    def __init__(self, value: Any, expected: str, nearest: str | None = None, field: str = "") -> None:
        self.value = value  # invalid value, or the invalid part of it
        self.expected = expected  # description of a valid value, in words
        self.nearest = nearest  # valid name with the most similar spelling, or None
        # path of the value within its field (such as `.bytes` of `columns.bytes`); empty for the whole field
        self.field = field
        super().__init__([self])

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest!r}?" if self.nearest is not None else ""
        return f"{_shown(self.value)}; expected {self.expected}{hint}"


def _shown(value: Any) -> str:
    """Write a value for an error; of a long one its beginning.

    >>> len(_shown("x" * 10_000_000))
    2003
    """
    shown = repr(value if not isinstance(value, str) else value[: SHOWN + 1])
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def nearest(name: Any, valid: Iterable[str]) -> str | None:
    """Find the name in ``valid`` with the spelling most similar to ``name``, or None if none is close.

    >>> nearest("agregate", ["filter", "aggregate"])
    'aggregate'
    """
    import difflib  # noqa: PLC0415 - only bad input needs it

    if not isinstance(name, str) or len(name) > SPELLED:
        return None
    names = [each for each in valid if len(each) <= SPELLED]
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.55)
    return folded[close[0]] if close else None


def did_you_mean(name: Any, valid: Iterable[str]) -> str:
    """Return a hint at the :func:`nearest` name for the end of an error's text; empty if no name is close.

    >>> did_you_mean("agregate", ["filter", "aggregate"]), did_you_mean("x", ["filter"])
    ("; did you mean 'aggregate'?", '')
    """
    near = nearest(name, valid)
    return "" if near is None else f"; did you mean {near!r}?"


def _finite(value: Any, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongValue(value, expected)
    try:
        number = float(value)
    except OverflowError:
        raise WrongValue(value, expected) from None
    if not math.isfinite(number) or number < 0:
        raise WrongValue(value, expected)
    return number


def _unit_of(
    text: str, spelling: str, units: Mapping[str, _Unit], spellings: Mapping[str, str], expected: str
) -> _Unit:
    name = " ".join(spelling.split())
    name = spellings.get(name, name)
    if name not in units:
        lower = name.casefold()
        folded = spellings.get(lower, lower)
        if folded in units:  # `2 MIN`: the case of a duration carries no meaning; that of a size (B, b) does
            return units[folded]
        near = nearest(name, units)
        before, _, after = text.rpartition(spelling)
        raise WrongValue(text, expected, None if near is None else f"{before}{near}{after}")
    return units[name]


def _scaled(text: str, number: str, unit: _Unit, expected: str) -> float:
    multiplier, divisor = unit
    if number.startswith("-"):
        raise WrongValue(text, expected)
    return _finite(float(number) * multiplier / divisor, expected)


def _shortest(value: float, units: Mapping[str, _Unit]) -> str | None:
    """Find the shortest ``number unit`` that is parsed to exactly ``value``, larger units first among equals."""
    best: str | None = None
    best_name = ""
    for name, (multiplier, divisor) in units.items():
        number = value * divisor / multiplier
        if not math.isfinite(number) or (number < 1 and value != 0 and name not in ("us", "B", "tuples", "%")):
            continue
        text = f"{number:.15g}"
        if "e" in text or float(text) * multiplier / divisor != value:
            continue
        written = f"{text} {name}"
        if best is None or len(written) - len(name) < len(best) - len(best_name):
            best, best_name = written, name
    return best


LONGEST: Final = 1e10  # seconds of a duration; later times have no microsecond in 64 bits
_DURATION_EXPECTED: Final = "a duration such as '2 s', '500 ms', '20 min' or '1 h', or a number of seconds"


def parse_duration(value: Any) -> float:
    """Parse ``'2 s'``, ``'500 ms'``, ``'20 min'``, ``'1 h 30 min'``, or a number of seconds, to seconds.

    >>> parse_duration("20 min"), parse_duration("500 ms"), parse_duration(3)
    (1200.0, 0.5, 3.0)

    Raises ``WrongValue`` if the value has another form, is negative or is not finite.
    """
    if not isinstance(value, str):
        return _within(value, _finite(value, _DURATION_EXPECTED))
    text = value.strip()
    position, total, terms = 0, 0.0, 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise WrongValue(value, _DURATION_EXPECTED)
        number, spelling = match[1], (match[2] or "").strip()
        if not spelling:
            if terms or match.end() < len(text):
                raise WrongValue(value, _DURATION_EXPECTED)
            spelling = "s"
        unit = _unit_of(value, spelling, _DURATIONS, _DURATION_SPELLINGS, _DURATION_EXPECTED)
        total += _scaled(value, number, unit, _DURATION_EXPECTED)
        terms += 1
        position = match.end()
    if not terms:
        raise WrongValue(value, _DURATION_EXPECTED)
    return _within(value, total)


def _within(value: Any, seconds: float) -> float:
    if seconds > LONGEST:
        raise WrongValue(value, "a duration of at most 300 years")
    return seconds


def duration(field: str, value: Any, *, least: float = math.ulp(0.0)) -> float:
    """Parse the duration in an argument, text with units or a number of seconds, to seconds.

    ``field``: name of the parameter, for the error; ``value``: duration as :func:`parse_duration` takes it; ``least``:
    least duration in seconds; by default above 0.

    Raises ``ValueError`` if the value is not a duration, or is too short; the text names the parameter.

    Examples
    --------
    >>> duration("seconds", "2 min"), duration("timeout", 0, least=0.0)
    (120.0, 0.0)
    """
    try:
        seconds = parse_duration(value)
    except WrongValue as wrong:
        raise ValueError(f"{field}: {wrong}") from None
    if seconds < least:
        raise ValueError(f"{field}: {value!r}; expected a duration above 0, such as '2 s' or a number of seconds")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds as text that :func:`parse_duration` parses to exactly ``seconds``.

    >>> format_duration(1200.0), format_duration(0.5), format_duration(5e-06), format_duration(90.0)
    ('20 min', '500 ms', '5 us', '90 s')
    """
    return "0 s" if seconds == 0 else _shortest(seconds, _DURATIONS) or f"{seconds!r} s"


_PERCENT_DIGITS: Final = 15
_FINEST: Final = 10**28
FRACTION_EXPECTED: Final = "a fraction between 0 and 1, such as '5 %' or 0.05"


def parse_fraction(value: Any) -> float:
    """Parse ``'5 %'``, ``'0.05'`` or ``0.05`` to a fraction of one.

    Raises ``WrongValue`` if the value has another form or lies outside 0-1.
    """
    number = value
    if isinstance(value, str):
        match = re.fullmatch(rf"\s*({_NUMBER})\s*(%|percent)?\s*", value)
        if match is None:
            raise WrongValue(value, FRACTION_EXPECTED)
        number = float(Fraction(match[1]) / (100 if match[2] else 1))
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
        raise WrongValue(value, FRACTION_EXPECTED)
    return float(number)


def format_fraction(fraction: float) -> str:
    """Write a fraction as text that :func:`parse_fraction` parses to exactly ``fraction``.

    >>> format_fraction(0.95), format_fraction(0.001)
    ('95 %', '0.1 %')
    """
    percent = format((Decimal(repr(float(fraction))) * 100).normalize(), "f")
    return f"{percent} %" if len(percent) <= _PERCENT_DIGITS else repr(float(fraction))


@functools.lru_cache(64)  # the shares of quantiles are asked for once a second for each sink
def ratio_of(fraction: float) -> tuple[int, int]:
    """Numerator and denominator of the decimal number that a fraction is written as, for exact shares of integers.

    In floats 7 % of 100 is more than 7. Digits behind the 28th are rounded up, so that 128 bits hold the product with
    any number of tuples.

    >>> ratio_of(0.07), -(-7 * 100 // 100), math.ceil(0.07 * 100)
    ((7, 100), 7, 8)
    """
    number = Fraction(repr(float(fraction)))
    if number.denominator > _FINEST:
        number = Fraction(math.ceil(number * _FINEST), _FINEST)
    return number.numerator, number.denominator


def rank_of(fraction: float, number: int) -> int:
    """Least number of things that is at least ``fraction`` of ``number``, exactly.

    >>> rank_of(0.07, 100), rank_of(0.0701, 100), rank_of(0.0, 100)
    (7, 8, 0)
    """
    part, whole = ratio_of(fraction)
    return -(-part * number // whole)


_SIZE_EXPECTED: Final = "a size such as '64 kB', '5 MB' or '1 MiB', or a number of bytes"


def parse_size(value: Any) -> float:
    """Parse ``'64 kB'``, ``'5 MB'``, ``'1 MiB'`` or a number of bytes to bytes."""
    return _parse(value, _SIZES, _SIZE_SPELLINGS, _SIZE_EXPECTED, "B")


def format_size(size: float) -> str:
    """Write bytes as text that :func:`parse_size` parses to exactly ``size``.

    >>> format_size(5e8)  # not 4 Gbit, which is as short
    '500 MB'
    """
    return "0 B" if size == 0 else _shortest(size, _IN_BYTES) or f"{size!r} B"


def _parse(value: Any, units: Mapping[str, _Unit], spellings: Mapping[str, str], expected: str, default: str) -> float:
    if not isinstance(value, str):
        return _finite(value, expected)
    match = _TERM.fullmatch(value.strip())
    if match is None:
        raise WrongValue(value, expected)
    unit = _unit_of(value, (match[2] or default).strip(), units, spellings, expected)
    return _scaled(value, match[1], unit, expected)


def _per_second(value: str, expected: str) -> tuple[str, float]:
    """Split ``'100 kB/s'`` into ``'100 kB'`` and the seconds of its denominator."""
    amount, slash, denominator = value.partition("/")
    if not slash:
        raise WrongValue(value, expected)
    name = denominator.strip()
    name = _DURATION_SPELLINGS.get(name, name)
    if name not in ("s", "min", "h"):
        raise WrongValue(value, expected, nearest(name, ("s", "min", "h")))
    return amount, _DURATIONS[name][0]


_RATE_EXPECTED: Final = "a rate such as '1000 tuples/s', or a number of tuples/s"


def parse_rate(value: Any) -> float:
    """Parse ``'1000 tuples/s'``, ``'60 tuples/min'``, ``'50/s'`` or a number to tuples/s."""
    if not isinstance(value, str) or re.fullmatch(rf"\s*{_NUMBER}\s*", value):
        return _parse(value, _COUNTS, _COUNT_SPELLINGS, _RATE_EXPECTED, "tuples")
    amount, seconds = _per_second(value, _RATE_EXPECTED)
    try:
        return _parse(amount, _COUNTS, _COUNT_SPELLINGS, _RATE_EXPECTED, "tuples") / seconds
    except WrongValue as wrong:
        raise WrongValue(value, _RATE_EXPECTED, wrong.nearest) from None


def format_rate(rate: float) -> str:
    """Write tuples/s as text that :func:`parse_rate` parses to exactly ``rate``.

    >>> format_rate(1000.0)
    '1000 tuples/s'
    """
    text = f"{rate:.15g}"
    return f"{text if float(text) == rate else repr(rate)} tuples/s"


_THROUGHPUT_EXPECTED: Final = "a throughput such as '100 kB/s', '5 MB/s' or '1000 tuples/s', or a number of bytes/s"


def parse_throughput(value: Any) -> tuple[float | None, float | None]:
    """Parse ``'100 kB/s'``, ``'1000 tuples/s'`` or a number of bytes/s to bytes/s and tuples/s, one of them None.

    >>> parse_throughput("100 kB/s"), parse_throughput("1000 tuples/s")
    ((100000.0, None), (None, 1000.0))
    """
    if not isinstance(value, str):
        return _finite(value, _THROUGHPUT_EXPECTED), None
    amount, seconds = _per_second(value, _THROUGHPUT_EXPECTED)
    try:
        if "tuple" in amount:
            return None, _parse(amount, _COUNTS, _COUNT_SPELLINGS, _THROUGHPUT_EXPECTED, "tuples") / seconds
        return _parse(amount, _SIZES, _SIZE_SPELLINGS, _THROUGHPUT_EXPECTED, "?") / seconds, None
    except WrongValue as wrong:
        raise WrongValue(value, _THROUGHPUT_EXPECTED, wrong.nearest) from None


def format_throughput(bytes_per_second: float) -> str:
    """Write bytes/s as text that :func:`parse_throughput` parses to exactly ``bytes_per_second``.

    >>> format_throughput(100000.0)
    '100 kB/s'
    """
    return f"{format_size(bytes_per_second)}/s"


def amount(value: float) -> str:
    """Format a number with separated thousands: every digit of an integer, fractions to three significant digits.

    >>> amount(28338), amount(1234567.8), amount(0.04567), amount(2**53 + 1)
    ('28,338', '1,234,568', '0.0457', '9,007,199,254,740,993')
    """
    if isinstance(value, int):
        return f"{value:,d}"  # as a float it would show other digits above 2^53
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def type_of(value: object) -> str:
    """Return the name of a value's type with its indefinite article.

    >>> type_of({}), type_of(1)
    ('a dict', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def counted(number: float, noun: str, singular: str = "", plural: str = "") -> str:
    """Format a number with its noun, and with a verb that agrees with it.

    ``noun``: the noun in the singular; ``singular``, ``plural``: the verb that follows, in both forms; empty: none
    follows.

    Examples
    --------
    >>> counted(1, "peer"), counted(28338, "tuple"), counted(0, "entry"), counted(0.5, "core")
    ('1 peer', '28,338 tuples', '0 entries', '0.5 cores')
    >>> counted(1, "row", "waits", "wait"), counted(2, "row", "waits", "wait")
    ('1 row waits', '2 rows wait')
    """
    shown = amount(number)
    one = shown == "1"
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    several = f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}{ending}"
    return f"{shown} {noun if one else several} {singular if one else plural}".rstrip()
