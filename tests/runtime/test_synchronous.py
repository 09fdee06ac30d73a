"""Synchronous methods are the coroutine methods that they are made of: signatures, docstrings, types, results."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from mypy import api

from synergy_nb import Application, AsyncApplication, AsyncCluster, Cluster
from tests.conftest import ROOT

PAIRS = [
    *(
        (Cluster, AsyncCluster, name)
        for name in ("states", "events", "spark_session", "submit", "check", "stop", "move")
    ),
    *(
        (Application, AsyncApplication, name)
        for name in ("qos", "results", "head", "stream", "wait", "events", "explain", "stop")
    ),
]


@pytest.mark.parametrize(("blocking", "coroutines", "name"), PAIRS)
def test_a_method_has_the_signature_and_docstring_of_its_coroutine_method(
    blocking: type, coroutines: type, name: str
) -> None:
    own, other = getattr(blocking, name), getattr(coroutines, name)
    assert own.__doc__ == other.__doc__
    assert own.__qualname__ == f"{blocking.__name__}.{name}"
    assert not inspect.iscoroutinefunction(own)
    found, expected = inspect.signature(own), inspect.signature(other)
    assert found.parameters == expected.parameters
    assert "Async" not in str(found.return_annotation)
    if name not in {"submit", "stream"}:
        assert found.return_annotation == expected.return_annotation


CODE = """
from synergy_nb import Cluster, source

with Cluster(peers=2) as cluster:
    application = cluster.submit(source("packets").sink(), timeout="1 min")
    reveal_type(application)
    reveal_type(application.results)
    reveal_type(application.head(3))
    reveal_type([table for table in application.stream()])
    reveal_type(cluster.states())
    cluster.move(application, "filter", "peer-1")
    cluster.stop(application.id)
    application.results(wait="yes")
    cluster.move(application)
    cluster.submit(source("packets").sink(), placment="resilient")
"""
FOUND = """
6: note: Revealed type is "synergy_nb.runtime.client._application.Application"
7: note: Revealed type is "def (sink: str | None =, *, wait: bool =, seconds: float | str | None =) -> polars.dataframe.frame.DataFrame"
8: note: Revealed type is "polars.dataframe.frame.DataFrame"
9: note: Revealed type is "list[polars.dataframe.frame.DataFrame]"
10: note: Revealed type is "dict[str, synergy_nb.reporting.peer_states.PeerState | None]"
13: error: Argument "wait" has incompatible type "str"; expected "bool"  [arg-type]
14: error: Too few arguments  [call-arg]
15: error: Unexpected keyword argument "placment"; did you mean "placement"?  [call-arg]
"""  # noqa: E501


@pytest.mark.slow(20)
def test_type_checkers_see_synchronous_methods(tmp_path: Path) -> None:
    written = tmp_path / "notebook.py"
    written.write_text(CODE)
    root = ROOT
    said, _, _ = api.run(
        ["--strict", "--no-error-summary", "--config-file", str(root / "pyproject.toml"), str(written)]
    )
    lines = [line.partition("notebook.py:")[2] for line in said.splitlines() if "notebook.py:" in line]
    assert lines == FOUND.split("\n")[1:-1]
