"""``synergy doctor``: whether this machine is ready, and an archive of classes with which Spark starts sooner."""

from __future__ import annotations

from typing import Annotated

import typer

from synergy_nb.cli._input_checks import fail, print_json
from synergy_nb.cli._options import Json


def doctor(
    archive: Annotated[
        bool,
        typer.Option("--archive", help="Write an archive of Spark's classes, too: servers then start sooner."),
    ] = False,
    security: Annotated[
        bool,
        typer.Option("--security", help="List what your clusters listen at on this machine, and who may use it."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check whether this machine is ready, and advise what to do if it is not."""
    if security:
        _list_listeners(as_json)
        return
    from synergy_nb.cli._console import Bars
    from synergy_nb.cli._doctor import examine
    from synergy_nb.cli._printing import show_finding

    findings = []
    with Bars() as bars:
        for finding in examine(bars.stage, archive=archive):
            findings.append(finding)
            if not as_json:
                show_finding(finding)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    bad = [finding.name for finding in findings if finding.state == "bad"]
    if bad:
        fail(f"not ready: {', '.join(bad)}")


def _list_listeners(as_json: bool) -> None:
    """Print what the clusters of this user listen at; fail if others may use any of it."""
    from synergy_nb.cli._console import out
    from synergy_nb.cli._listeners import listeners
    from synergy_nb.cli._printing import show_listeners

    found = listeners()
    if as_json:
        print_json([each._asdict() for each in found])
    elif found:
        show_listeners(found)
    else:
        out.print("no cluster of yours listens on this machine")
    opened = sorted({each.address for each in found if each.open})
    if opened:
        fail(f"open to others: {', '.join(opened)}; docs/security.md says what they can do, and how to close it")
