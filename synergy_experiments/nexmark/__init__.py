"""NEXMark: its 23 queries as plan files, and as texts of SQL that say the same.

>>> query("q2", count=1000, speed=0).schema("sink")
{'time': 'time', 'auction': 'int', 'price': 'int'}

``qN.sql`` is the query as people write it, ``qN.yaml`` its plan (written by ``docs/generate.py``); ``synergy run
nexmark-qN`` runs it. Query 6 is a plan with two keyed states (:mod:`.functions`), since SQL has no word for it here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from synergy_nb.plan import Plan
from synergy_nb.plan.text.plan_file import read

__all__ = ["FOLDER", "NAMES", "SIDE_INPUT", "plan_text", "query", "sql_text"]

#: Folder of all files.
FOLDER: Final = Path(__file__).parent
#: Names of the queries.
NAMES: Final = tuple(f"q{number}" for number in range(23))
#: File of the table that query 13 looks up.
SIDE_INPUT: Final = FOLDER / "side_input.csv"


def query(name: str, **params: Any) -> Plan:
    """The plan of a query; ``params`` are parameters of its sources, such as ``rate``, ``count``, ``speed``, ``seed``.

    Raises ``ValueError`` if there is no such query, and ``PlanError`` if a parameter is wrong.
    """
    if name not in NAMES:
        raise ValueError(f"query: {name!r}; expected one of {', '.join(NAMES)}")
    written = read(plan_text(name))
    given = {"source": params, "lookup": {"table": str(SIDE_INPUT)}}
    operators = [
        msgspec.structs.replace(each, params={**each.params, **given.get(each.kind, {})})
        for each in written.operators or ()
    ]
    return Plan(operators, written.qos, written.name)


def plan_text(name: str) -> str:
    """The text of the plan file of a query."""
    return (FOLDER / f"{name}.yaml").read_text("utf-8")


def sql_text(name: str) -> str | None:
    """The text of a query in SQL; None for query 6."""
    file = FOLDER / f"{name}.sql"
    return file.read_text("utf-8") if file.is_file() else None
