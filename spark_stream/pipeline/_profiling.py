"""The profile of any rows: that of a prepared folder is read, a raw trace or a frame is prepared for a while."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from spark_stream.pipeline._preparing import prepare
from spark_stream.pipeline._results import Progress
from spark_stream.pipeline._work_folder import MANIFEST
from spark_stream.server import Endpoint
from synergy_nb.plan.data_frames import described, is_frame, normal, tables
from synergy_nb.traces.profiles.trace_profile import PROFILE, TraceProfile, read_profile

__all__ = ["profile"]


def profile(
    data: Any,
    *,
    spark: str | Endpoint | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> TraceProfile:
    """Measure what rows are like: rates, bursts, seasons, tails, skew, selectivities, windows, disorder and drift.

    Parameters
    ----------
    data
        Path of a folder that :func:`prepare` has made, whose profile is read; path of a raw trace of any format, or of
        a folder of them; or a data frame: of Polars, pandas, Arrow, Dask or Spark, or a dictionary of columns.
    spark
        URL or endpoint of a Spark Connect server, as :func:`prepare` takes it. None: a server of this machine.
    time, time_unit
        Column with the event time, and unit of times that are numbers, as those of :func:`prepare`.
    progress
        Function that is called with the progress, several times a second.
    options
        Other arguments of :func:`prepare` by which a raw trace is read, such as ``format``, ``columns``, ``time_zone``.

    Returns
    -------
    TraceProfile
        Profile, with a text, a page, and all numbers.

    Raises
    ------
    ValueError
        If an argument is wrong, the data cannot be read, or the folder has no profile of this version.
    PrepareError
        If the disk is full, or Spark fails or is lost.

    Examples
    --------
    ``profile("clean")`` shows the page in a notebook, and ``print(profile("logs.gz"))`` a sentence for each part.

    >>> profile("clean data")
    Traceback (most recent call last):
    ...
    ValueError: clean data: no such file or folder; expected a raw trace
    """
    if isinstance(data, str | Path):
        folder = Path(data)
        if (folder / MANIFEST).exists() or (folder / PROFILE).exists():
            return read_profile(folder)
    with tempfile.TemporaryDirectory(prefix="synergy-profile-") as place:
        if isinstance(data, str | Path):
            inputs: str | Path = data
        else:
            inputs = Path(place) / "frame"
            inputs.mkdir()
            time, time_unit = _store(data, time, time_unit, inputs)
            options = {"duplicates": "keep", **options, "format": "parquet"}
        out = Path(place) / "clean"
        try:
            made = prepare(inputs, out=out, spark=spark, time=time, time_unit=time_unit, progress=progress, **options)
        except ValueError as error:
            raise ValueError(_without_paths(str(error), place)) from None
        return made.profile if isinstance(data, str | Path) else msgspec.structs.replace(made.profile, name="a frame")


def _without_paths(text: str, place: str) -> str:
    """An error without the paths of a folder that is gone when it is read."""
    text = re.sub(rf"; {re.escape(place)}\S* has more of them", "", text)
    return re.sub(rf"{re.escape(place)}\S*?(?=: )", "a frame", text)


def _store(frame: Any, time: str | None, unit: str | None, folder: Path) -> tuple[str, str | None]:
    """Store the rows of a frame as Parquet; return the column with the event time, and the unit of its numbers."""
    rows, params = described(frame, {} if time is None else {"time": time})
    clock, columns = str(params.get("time", "time")), list(params["columns"])
    names = [clock if name == "time" else name for name in columns]
    filled = (table for table in _tables(rows) if table.height)
    for number, table in enumerate(filled):
        table.select(names).write_parquet(folder / f"rows-{number:05}.parquet")
    if not any(folder.iterdir()):
        raise ValueError("a frame: no rows; expected at least one")
    return clock, unit


def _tables(rows: Any) -> Iterator[pl.DataFrame]:
    if is_frame(rows):
        yield from tables(rows)
        return
    given: Iterable[Any] = rows
    for each in given:
        yield from tables(normal(each))
