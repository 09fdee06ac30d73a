"""The page about sinks: its examples run, and its table names every format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from synergy_nb.plan.operators.destinations import DESTINATIONS
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "sinks.md").read_text(encoding="utf-8")


def test_the_sink_of_the_page_keeps_the_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [
        each for each in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "SinkWriter" in each
    ]
    exec(block, {"__name__": "page"})


@pytest.mark.parametrize("form", DESTINATIONS)
def test_the_table_of_guarantees_has_every_format(form: str) -> None:
    (table,) = re.findall(r"^\| destination \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert re.search(rf"`{form}\(", table)
