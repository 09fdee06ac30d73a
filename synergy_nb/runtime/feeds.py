"""What a notebook feeds to a ``python`` source: from any iterable to batches and punctuations."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import polars as pl

from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation

__all__ = ["Feed", "FeedError", "items"]

Feed = Iterable[Any]
T = TypeVar("T")
ENDED: Final = object()
NAMES: Final = {kind: name for name, kind in TYPES.items()}


class FeedError(ValueError):
    """What a feed yielded is not what its source declares."""


async def items(feed: Feed, columns: Mapping[str, str], source: str) -> AsyncIterator[Item]:
    """What ``feed`` yields, each with the word that nothing older follows, and the end.

    Parameters
    ----------
    feed
        Yields dictionaries, Polars tables, or anything that ``polars.DataFrame`` takes.
    columns
        Names and types of the source's columns.
    source
        Operator id, for errors.

    Raises
    ------
    FeedError
        If what it yields is no table of these columns, or older than what it has yielded before.

    Notes
    -----
    Tuples that are yielded together are put in order of time. Numbers in the column ``time`` are seconds since 1970.
    """
    schema = {column: TYPES[kind] for column, kind in columns.items()}
    iterator: Iterator[Any] = await _on_own_thread(lambda: iter(feed))
    position = 0
    reached: Any = None
    while (made := await _on_own_thread(lambda: next(iterator, ENDED))) is not ENDED:
        table = _table(made, schema, source).sort("time", maintain_order=True)
        if table.height:
            first, last = table["time"][0], table["time"][-1]
            if reached is not None and first < reached:
                raise FeedError(
                    f"{source}: its feed yielded a tuple of {first} after one of {reached}; expected event times "
                    "in order (tuples that are yielded together, as one table, are put in order)"
                )
            reached = last
            yield Batch(table, position, 0.0)
            position += table.height
            yield Punctuation(int(table["time"].dt.epoch("us").max()), position, 0.0)  # type: ignore[arg-type] # not empty
    yield Punctuation(END, position, 0.0)


async def _on_own_thread(work: Callable[[], T]) -> T:
    """Result of ``work``, which may wait for ever: a pool's threads would be used up, and be waited for at exit."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if outcome.done():  # nobody waits any more
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the feed's
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="synergy feed", daemon=True).start()
    return await outcome


def _table(made: Any, schema: Mapping[str, pl.DataType], source: str) -> pl.DataFrame:
    """A table of the declared columns from what a Python iterable yielded."""
    try:
        if isinstance(made, pl.DataFrame):
            table = made
        elif isinstance(made, Mapping) and not any(isinstance(value, list) for value in made.values()):
            table = pl.DataFrame([dict(made)])
        else:
            table = pl.DataFrame(made)
        if "time" in table.columns and table.schema["time"].is_numeric():
            table = table.with_columns((pl.col("time") * 1_000_000).round().cast(pl.Int64).alias("time"))
        elif table.schema.get("time") == pl.String:
            table = table.with_columns(pl.col("time").str.to_datetime(time_unit="us"))
        missing = [column for column in schema if column not in table.columns]
        if missing:
            raise ValueError(f"there is no {', '.join(missing)}")
        return table.select(pl.col(column).cast(kind) for column, kind in schema.items())
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        expected = ", ".join(f"{column} {NAMES[kind]}" for column, kind in schema.items())
        why = str(error).splitlines()[0]
        raise FeedError(f"{source}: its feed yielded {made!r:.80}; expected columns {expected}: {why}") from error
