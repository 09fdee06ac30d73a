"""Whether a source keeps the protocol of sources: the same rows from any position, waits that end, named breaks."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import error_reason
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.dataflow.tuples import EPOCH
from synergy_nb.errors import user_facing

__all__ = ["check_source"]

PATIENCE_S: Final = 30.0  # seconds after which a poll that may not wait counts as one that waits without end
_NOTHING: Final = 1000  # polls without a result, one after another, that are borne
_PLACES: Final = 12  # most positions at which a source is opened again
_POLL_S: Final = 0.01

Row = dict[str, Any]


class _Read(NamedTuple):
    """What a source has given."""

    rows: list[Row]
    places: list[tuple[int, Any]]  # number of rows, and the position after them
    ended: bool
    promises: Sequence[tuple[int, int]] = ()  # number of rows, and the time that no later one precedes, microseconds


@user_facing
def check_source(
    make: Callable[[], Source],
    rows: Sequence[Row] | None = None,
    *,
    broken: Callable[[], Source] | None = None,
    wrong: Callable[[], Source] | None = None,
    readers: int = 1,
    seed: int = 0,
) -> None:
    """Assert that a source keeps the protocol of sources.

    It is read to its end; or, if it has none, until it has given ``rows``. Then new instances, and one that was closed,
    are opened at positions that it has given: each has to give the rows that follow, all of them and nothing else. No
    poll may wait without end. Where the outside cannot be read at present, that has to be said by
    :class:`~synergy_nb.dataflow.sources.BrokenForNow`, and where it can never be read, by any other exception.

    Parameters
    ----------
    make
        Function that returns a new instance of the source. All instances read the same outside, which does not change.
    rows
        Rows that are expected, as dictionaries. By default they are those of the first reading, to its end.
    broken
        Function that returns an instance whose outside cannot be read at present.
    wrong
        Function that returns an instance that can never be read.
    readers
        Number of readers that are to read it together, too: each row has to be of exactly one of them, and each reader
        has to keep the protocol by itself.
    seed
        Seed of the choice of positions, if there are many.

    Raises
    ------
    AssertionError
        If it does not keep the protocol; the message says how.

    Examples
    --------
    >>> from synergy_nb.dataflow.sources import Polled, Source
    >>> class Letters(Source):
    ...     repeats = True
    ...
    ...     def open(self, position):
    ...         self.at = position or 0
    ...
    ...     def poll(self, seconds):
    ...         if self.at == 3:
    ...             return Polled(position=3, ends=True)
    ...         self.at += 1
    ...         return Polled([{"letter": "abc"[self.at - 1]}], position=self.at)
    >>> check_source(Letters)
    """
    if not isinstance(readers, int) or readers < 1:
        raise ValueError(f"readers: {readers!r}; expected an integer of at least 1")
    expected = _check_positions(make, rows, seed)
    if readers > 1:
        for reader, part in enumerate(_parts(make, expected, readers)):
            try:
                _check_positions(partial(_divided, make, reader, readers), part, seed)
            except AssertionError as error:
                raise AssertionError(f"reader {reader + 1} of {readers}: {error}") from None
    if broken is not None:
        _breaks(broken(), for_now=True)
    if wrong is not None:
        _breaks(wrong(), for_now=False)


def _check_positions(make: Callable[[], Source], rows: Sequence[Row] | None, seed: int) -> list[Row]:
    """Assert that instances go on from its positions; return its rows."""
    first = make()
    found = _read(first, None, None if rows is None else len(rows))
    expected = found.rows if rows is None else [dict(row) for row in rows]
    if rows is None and not found.ended:
        raise AssertionError("source: it has not ended; expected an end, or the rows that it gives as rows=[...]")
    _compare(expected, found.rows, "opened at its beginning")
    _check_promises(found)
    first.close()
    places = found.places
    chosen = places if len(places) <= _PLACES else random.Random(seed).sample(places, _PLACES)
    for number, position in sorted(chosen, key=lambda place: place[0]):
        if position is None:
            continue
        sent = _as_sent(position)
        rest = expected[number:]
        for source, how in ((make(), "a new instance"), (first, "the first instance, closed before,")):
            again = _read(source, sent, len(rest) if rows is not None else None, len(rest))
            _compare(rest, again.rows, f"{how} opened at the position {position!r}, after row {number}")
            source.close()
            source.close()
    if first.repeats:
        again = _read(first, None, None if rows is None else len(expected), len(expected))
        _compare(expected, again.rows, "opened at its beginning again, as it says that it repeats")
        first.close()
    make().close()  # which was never opened
    return expected


def _divided(make: Callable[[], Source], reader: int, readers: int) -> Source:
    """A new instance that is one of several readers."""
    source = make()
    source.split(reader, readers)
    return source


def _parts(make: Callable[[], Source], rows: Sequence[Row], readers: int) -> list[list[Row]]:
    """Read a source by several readers, and assert that each row is of one of them; return the rows of each."""
    sources = [_divided(make, reader, readers) for reader in range(readers)]
    parts: list[list[Row]] = [[] for _ in sources]
    left = set(range(readers))
    for source in sources:
        source.open(None)
    nothing = 0
    while left and (nothing <= _NOTHING if sum(map(len, parts)) < len(rows) else nothing <= 2 * readers):
        for reader in sorted(left):
            polled = _poll(sources[reader], _POLL_S)
            given = [] if polled is None else _dictionaries(polled.rows)
            parts[reader] += given
            nothing = 0 if given else nothing + 1
            if polled is not None and polled.ends:
                left.remove(reader)
    for source in sources:
        source.close()
    wanted = Counter(map(repr, rows))
    found = Counter(repr(row) for part in parts for row in part)
    for row, due in wanted.items():
        if found[row] != due:
            times = f"they have it {found[row]} times; expected {due}"
            raise AssertionError(f"split into {readers} readers: row {row}: {times}")
    if surplus := found - wanted:
        raise AssertionError(f"split into {readers} readers: row {next(iter(surplus))}; expected only those of one")
    return parts


def _dictionaries(rows: Any) -> list[Row]:
    return rows.to_dicts() if isinstance(rows, pl.DataFrame) else [dict(row) for row in rows]


def _read(source: Source, position: Any, most: int | None, known: int | None = None) -> _Read:
    """Read a source until it ends, or has given so many rows and then nothing, or more than it is ``known`` to have."""
    rows: list[Row] = []
    places: list[tuple[int, Any]] = []
    promises: list[tuple[int, int]] = []
    source.open(position)
    nothing = 0
    while most is None or len(rows) < most or nothing == 0:
        polled = _poll(source, 0.0 if nothing % 2 else _POLL_S)
        if polled is None:
            nothing += 1
            if nothing > _NOTHING:
                return _Read(rows, places, ended=False)
            continue
        if not isinstance(polled, Polled):
            raise AssertionError(f"poll: {polled!r}; expected Polled(rows, position), or None for nothing yet")
        nothing = 0
        rows += _dictionaries(polled.rows)
        places.append((len(rows), polled.position))
        if polled.until is not None:
            promises.append((len(rows), polled.until))
        if polled.ends or (known is not None and len(rows) > known):
            return _Read(rows, places, ended=polled.ends, promises=promises)
    return _Read(rows, places, ended=False, promises=promises)


def _poll(source: Source, seconds: float) -> Any:
    """Poll in a thread, and do not wait for one that never returns."""
    done: list[Any] = []
    errors: list[BaseException] = []

    def poll() -> None:
        try:
            done.append(source.poll(seconds))
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
            errors.append(error)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        raise AssertionError(f"poll: poll({seconds}) has not returned after {PATIENCE_S:g} s; expected a bounded wait")
    if errors:
        raise errors[0]
    return done[0]


def _as_sent(position: Any) -> Any:
    """A position as another machine gets it."""
    try:
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(position))
    except (TypeError, msgspec.MsgspecError) as error:
        raise AssertionError(f"position: {position!r}; expected a value that JSON has ({error})") from None
    return sent


def _compare(expected: Sequence[Row], found: Sequence[Row], how: str) -> None:
    if list(expected) == list(found):
        return
    place = next(
        (place for place, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other),
        min(len(expected), len(found)),
    )
    one = expected[place] if place < len(expected) else "no more rows"
    other = found[place] if place < len(found) else "no more rows"
    raise AssertionError(f"source, {how}: row {place}: {other!r}; expected {one!r}")


def _check_promises(found: _Read) -> None:
    """Assert that no row is of a time before the one that was promised; rows have it in the column ``time``."""
    for number, until in found.promises:
        for place, row in enumerate(found.rows[number:], number):
            time = row.get("time")
            if isinstance(time, dt.datetime | int | float) and _micros(time) < until:
                raise AssertionError(
                    f"until: row {place} is of {time}, and {until} µs was promised after row {number}; expected no "
                    "earlier row"
                )


def _micros(time: dt.datetime | float) -> int:
    """Microseconds since 1970."""
    if isinstance(time, dt.datetime):
        return (time.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    return round(time * 1e6)


def _breaks(source: Source, *, for_now: bool) -> None:
    """Assert that a source says that it is broken, and how."""
    wanted = "BrokenForNow" if for_now else "an exception other than BrokenForNow"
    try:
        source.open(None)
        for _ in range(_NOTHING):
            polled = _poll(source, _POLL_S)
            if polled is not None and (polled.ends or len(polled.rows)):
                break
    except BrokenForNow as error:
        if not for_now:
            raise AssertionError(f"source that can never be read: BrokenForNow: {error}; expected {wanted}") from None
        if not str(error):
            raise AssertionError("BrokenForNow: no text; expected what was tried, and what came of it") from None
        return
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - any other is for good
        if for_now:
            raise AssertionError(f"source that is broken for now: {error_reason(error)}; expected {wanted}") from None
        return
    finally:
        source.close()
    raise AssertionError(f"source that is broken: it gives rows, or nothing; expected {wanted}")
