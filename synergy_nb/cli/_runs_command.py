"""``synergy runs``: the runs that are kept in a folder, one of them, or two side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synergy_nb.cli._input_checks import print_json, refuse
from synergy_nb.cli._options import Json

if TYPE_CHECKING:
    from synergy_nb.recording.kept_runs import KeptRun, Runs


def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that Cluster(runs=...) or --runs wrote.")],
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run, or the last one of a plan: show it.", show_default=False)
    ] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another one, side by side with it.", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the whole account of the run.")] = False,
    as_json: Json = False,
) -> None:
    """List the runs that are kept in a folder, show one, or compare two."""
    from synergy_nb.cli._console import out
    from synergy_nb.recording.kept_runs import NotARun
    from synergy_nb.recording.kept_runs import runs as kept

    try:
        found = kept(folder)
    except NotARun as error:
        refuse(str(error))
    if run is None:
        if as_json:
            print_json([{"run": each.id, **each.facts()} for each in found])
        else:
            out.print(repr(found), markup=False, soft_wrap=True, highlight=False)
        return
    chosen = _chosen(found, run)
    if other is not None:
        compared = found.compare(chosen.id, _chosen(found, other).id)
        if as_json:
            print_json(compared.table().to_dicts())
        else:
            out.print(repr(compared), markup=False, soft_wrap=True, highlight=False)
        return
    if as_json:
        print_json({"run": chosen.id, **chosen.facts(), "explanation": chosen.explain().to_dict()})
    else:
        shown = str(chosen.explain()) if explain else repr(chosen)
        out.print(shown, markup=False, soft_wrap=True, highlight=False)


def _chosen(found: Runs, run: str) -> KeptRun:
    try:
        return found[run]
    except KeyError as error:
        refuse(str(error.args[0]))
