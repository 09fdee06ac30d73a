"""``synergy data profile``: what the rows of a trace are like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synergy_nb.cli._input_checks import bad_input, fail, print_json, writable
from synergy_nb.cli._options import Json
from synergy_nb.cli._prepare_command import stages


def profile(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder that synergy data prepare has made, or a raw trace.")
    ],
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE.html", help="Write the page, too.", show_default=False)
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark Connect server.", show_default="one of this machine"),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the event time.")] = None,
    time_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Unit of times that are numbers: s, ms, us, ns or date.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure rates, bursts, seasons, tails, skew, windows and drift of a trace; those of a folder are read from it."""
    from spark_stream.pipeline import PrepareError
    from spark_stream.pipeline import profile as profiled
    from synergy_nb.cli._console import Bars
    from synergy_nb.cli._console import out as console

    if page is not None:
        writable("--page", page)
    with Bars() as bars:
        try:
            with bad_input():
                found = profiled(path, spark=spark, time=time, time_unit=time_unit, progress=stages(bars))
        except PrepareError as error:
            fail(str(error))
    if page is not None:
        found.save_page(page)
    if as_json:
        print_json(found.as_dict())
    else:
        console.print(str(found), markup=False, soft_wrap=True)
