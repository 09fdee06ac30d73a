"""The modules of the plan editor's page that need no browser: YAML, operations, edits before an answer, layout."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hatch_build import NO_NODE, environment, find_npm
from synergy_nb.editing.operations import EditError
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.conftest import ROOT

KINDS = ("filter", "union", "join", "compare", "sink", "source", "aggregate")
VALUES = {"where": "link = 'B'", "by": "[source, link]", "values": "{n: count(*)}", "values.n": "sum(bytes)", "k": "3"}


def _run(script: str, **variables: str) -> str:
    npm = find_npm()
    if npm is None:
        pytest.skip(NO_NODE)
    done = subprocess.run(
        ["node", "--test", str(ROOT / "tests" / "widgets" / script)],
        env={**os.environ, **environment(npm), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_page_reads_writes_guesses_and_places_without_a_browser() -> None:
    assert "# pass 21\n" in _run("plan_editor_page.mjs")


def _operation(draw: random.Random, ids: list[str]) -> dict[str, Any]:
    one, other = draw.choice(ids), draw.choice(ids)
    kind, port = draw.choice(KINDS), draw.choice((None, 0, 1))
    field = draw.choice(list(VALUES))
    match draw.randrange(8):
        case 0 | 1:
            inputs = [] if kind == "source" else [one]
            name = next(f"x{number}" for number in range(99) if f"x{number}" not in ids)
            return {"op": "add", "kind": kind, "operator": name, "inputs": inputs, "fields": {"where": "bytes > 1"}}
        case 2:
            return {"op": "remove", "operator": one}
        case 3:
            return {"op": "connect", "from": one, "to": other, "port": port}
        case 4:
            return {"op": "rename", "operator": one, "to": f"{one}-r"[-12:]}
        case 5:
            pasted = f"operators:\n  {one}: {{kind: sort, input: {other}}}\n  q: {{kind: sink, input: {one}}}\n"
            return {"op": "paste", "yaml": pasted}
        case _:
            return {"op": "set", "operator": one, "field": field, "value": draw.choice((VALUES[field], None))}


@pytest.mark.slow
def test_the_page_guesses_what_the_kernel_does(tmp_path: Path) -> None:
    draw = random.Random(17)
    editor = PlanEditor((ROOT / "notebooks" / "top_pairs.yaml").read_text("utf-8"))
    cases: list[dict[str, Any]] = []
    while len(cases) < 80:
        before = editor.document["operators"]
        ids = [each["id"] for each in before]
        operations = [_operation(draw, ids)]
        edges = [(up, each["id"], port) for each in before for port, up in enumerate(each["inputs"])]
        if edges and draw.random() < 0.25:
            start, end, port = draw.choice(edges)
            between = {"from": start, "to": end, "port": port}
            name = next(f"i{number}" for number in range(99) if f"i{number}" not in ids)
            operations = [
                draw.choice(
                    (
                        {"op": "insert", "kind": "filter", "operator": name, "fields": {}, "between": between},
                        {"op": "disconnect", **between},
                    )
                )
            ]
        try:
            editor.apply(operations[0])
        except EditError:
            continue
        cases.append({"operation": operations[0], "before": before, "after": editor.document["operators"]})
    kinds = [{"kind": each["kind"], "inputs": each["inputs"]} for each in editor.catalogue["kinds"]]
    editor.close()
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"kinds": kinds, "cases": cases}), "utf-8")
    assert "# pass 80\n" in _run("plan_editor_agreement.mjs", PLAN_EDITOR_CASES=str(file))
