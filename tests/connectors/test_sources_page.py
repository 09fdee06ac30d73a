"""The page about sources: its examples run, and its table and lines name every connector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from synergy_nb import Plan, source
from synergy_nb.connectors import POLLED
from synergy_nb.plan import Stream
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert isinstance(names["query"], Plan)
    assert isinstance(names["plan"], Plan)
    for line in re.findall(r"^    (source\(.*\))$", PAGE, re.MULTILINE):
        made = eval(line, {"source": source})
        assert isinstance(made, Stream)
        assert made.sink().validate() == []


@pytest.mark.parametrize("connector", POLLED)
def test_every_connector_has_a_section_and_a_line_of_the_table(connector: str) -> None:
    assert f"\n## {connector}\n" in PAGE
    (table,) = re.findall(r"^\| source \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert f"`{connector}`" in table
