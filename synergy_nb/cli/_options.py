"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]
Spark = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="A Spark Connect server (sc://host:port), or off.", show_default="one of this machine"
    ),
]
Peers = Annotated[int, typer.Option("--peers", metavar="N", help="Peers to start on this machine.")]
Discipline = Annotated[
    str,
    typer.Option(metavar="fcfs|edf|least_slack", help="Scheduling discipline of the peers, where plans state none."),
]
HotSpots = Annotated[
    str,
    typer.Option("--hotspots", metavar="on|observe|off", help="Move operators away from hot spots, or only observe."),
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Record the run to a new file, for synergy replay.", show_default=False),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=WHERE",
        help="A secret that plans name: env:VARIABLE, file:PATH or keyring:SERVICE/USER. May be repeated.",
    ),
]
PlanFile = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN.yaml",
        help="A query plan in YAML, or a query in SQL if the file ends with .sql; or nexmark-q0 to nexmark-q22, the "
        "queries of that benchmark.",
    ),
]
