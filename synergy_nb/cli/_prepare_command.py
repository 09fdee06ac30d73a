"""``synergy data prepare``: raw traces become clean Parquet files, by a job on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synergy_nb.cli._input_checks import bad_input, fail, print_json, refuse
from synergy_nb.cli._options import Json

if TYPE_CHECKING:
    from spark_stream.pipeline import Progress
    from synergy_nb.cli._console import Bars


def prepare(
    inputs: Annotated[list[str], typer.Argument(metavar="FILE|FOLDER|GLOB...", help="Raw traces of one format.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the result, new or empty.")],
    spark: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark Connect server.", show_default="one of this machine"),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="Format of the files.", show_default="by their first lines"),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the event time.")] = None,
    time_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Unit of times that are numbers: s, ms, us, ns or date.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Time zone of times that state none.", show_default="UTC")
    ] = None,
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the text.")] = "utf-8",
    tolerance: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the lines of a file that may be malformed.")
    ] = 0.01,
    lateness: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Leave out rows that come later than this.", show_default="none is"),
    ] = None,
    derive: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=EXPRESSION", help="One more column, in SQL; may be repeated."),
    ] = None,
    duplicates: Annotated[
        str, typer.Option(metavar="files|rows|keep", help="What becomes of rows that are equal in all columns.")
    ] = "files",
    partition: Annotated[str, typer.Option("--by", metavar="day|hour", help="What the rows of a file share.")] = "day",
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more files, and add their rows, until Ctrl-C.")
    ] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks for files.")] = "10 s",
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time of the first line of --format counts, ISO 8601.")
    ] = None,
    step: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Period of a line of --format counts, such as '1 s'.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make clean Parquet files of raw traces, on Spark; a call that was stopped goes on where it was."""
    from spark_stream.pipeline import PrepareError
    from spark_stream.pipeline import prepare as prepared
    from synergy_nb.cli._console import Bars
    from synergy_nb.cli._console import out as console

    columns = {}
    for each in derive or []:
        name, sign, expression = each.partition("=")
        if not sign or not name.strip() or not expression.strip():
            refuse(f"--derive: {each!r}; expected NAME=EXPRESSION, such as 'large=bytes > 1000000'")
        columns[name.strip()] = expression.strip()
    with Bars() as bars:
        try:
            with bad_input():
                found = prepared(
                    *inputs, out=out, spark=spark, format=form, time=time, time_unit=time_unit, time_zone=time_zone,
                    encoding=encoding, tolerance=tolerance, lateness=lateness, derive=columns, duplicates=duplicates,
                    partition=partition, follow=follow, every=every, start=start, step=step, progress=stages(bars),
                )  # fmt: skip
        except PrepareError as error:
            fail(str(error))
    if as_json:
        print_json(found.as_dict())
    else:
        console.print(str(found), markup=False, soft_wrap=True)


def stages(bars: Bars) -> Callable[[Progress], None]:
    """Make the function that shows how far a job is."""
    stage = ""

    def progress(now: Progress) -> None:
        nonlocal stage
        if now.stage != stage:
            stage = now.stage
            bars.stage(stage)
        bars.told(f"{stage}: {now.rows:,} rows, {now.rate:,.0f} rows/s", now.share, now.left)

    return progress
