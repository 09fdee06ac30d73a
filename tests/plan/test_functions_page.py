"""The examples of docs/functions.md run, as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from synergy_nb import function
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.plan.functions.declaring import OwnFunction
from synergy_nb.testing import check, run
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "functions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


async def look_up(address: str) -> str:
    """Stand in for a service."""
    return {"a": "DE"}.get(address, "FR")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names after running all blocks; both models add a half to their only feature."""
    import joblib
    from skl2onnx import to_onnx
    from sklearn.linear_model import LinearRegression

    features = np.array([[0.0], [1.0]])
    model = LinearRegression().fit(features, [0.5, 1.5])
    joblib.dump(model, tmp_path / "model.joblib")
    (tmp_path / "model.onnx").write_bytes(to_onnx(model, features[:1].astype("float32")).SerializeToString())
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {"look_up": look_up}
    for block in BLOCKS:
        exec(block, found)
    return found


@pytest.mark.slow
def test_all_examples_run_and_their_streams_give_rows(names: dict[str, Any]) -> None:
    others = {"destination": "b", "source_port": 1, "destination_port": 2}
    packets = [row | others for row in names["rows"]]
    assert run(names["query"], packets)["kB"].to_list() == [1.5, 0.04, 0.5]
    assert run(names["spreads"], packets).select("link", "spread").rows() == [("A", 1000), ("B", 0)]
    assert run(names["flows"], packets)["packets"].to_list() == [2, 1]
    assert run(names["located"], packets)["country"].to_list() == ["DE"] * 3
    for model in ("scored", "scored_by_onnx"):
        assert run(names[model], packets)["score"].to_list() == pytest.approx([1500.5, 40.5, 500.5])
    declared = {name for name, each in names.items() if isinstance(each, OwnFunction)}
    assert declared == {"kilobytes", "located", "scored", "scored_by_onnx", "spread", "Flows", "Sizes"}
    assert all(isinstance(names[each], Stream) for each in ("spreads", "flows"))


@pytest.mark.slow
def test_the_tests_of_the_page_pass(names: dict[str, Any]) -> None:
    tests = [each for name, each in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for each in tests:
        each()


def test_the_message_of_the_page_is_the_one_of_a_check() -> None:
    @function(columns={"above": "float"})
    def above_mean(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.select(above=pl.col("bytes") - pl.col("bytes").mean())

    (shown,) = re.findall(r"((?:    .*\n)+)", TEXT[TEXT.index("    function 'above_mean'") :])[:1]
    head, *rest = [line.removeprefix("    ") for line in shown.splitlines()]
    with pytest.raises(AssertionError) as caught:
        check(above_mean, {"time": [1, 2, 3], "bytes": [4, 4, 7]})
    first, *others = str(caught.value).splitlines()
    assert others == rest
    assert first.startswith(head.removesuffix("..."))


def test_the_line_of_a_file_is_a_valid_plan() -> None:
    (line,) = re.findall(r"^    (scored: .*)$", TEXT, re.MULTILINE)
    ((name, spec),) = yaml.safe_load(line).items()
    made = source("packets").operator(
        spec.pop("kind"), id=name, **{each: spec[each] for each in spec if each != "input"}
    )
    assert isinstance(made.sink(), Plan)
    assert made.sink().schema(name) == {"time": "time", "score": "float"}
