"""What a notebook feeds to a ``python`` source: from any iterable to batches and punctuations."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import polars as pl

from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation

__all__ = ["Feed", "items"]

Feed = Iterable[Any]
T = TypeVar("T")
ENDED: Final = object()


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
    ValueError
        If what it yields is no table of these columns.
    """
    schema = {column: TYPES[kind] for column, kind in columns.items()}
    iterator: Iterator[Any] = await _on_own_thread(lambda: iter(feed))
    position = 0
    while (made := await _on_own_thread(lambda: next(iterator, ENDED))) is not ENDED:
        table = _table(made, schema, source)
        if table.height:
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
        return table.select(pl.col(column).cast(kind) for column, kind in schema.items())
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        expected = ", ".join(f"{column} {kind}" for column, kind in schema.items())
        raise ValueError(f"{source}: its feed yielded {made!r:.80}; expected columns {expected}: {error}") from error
