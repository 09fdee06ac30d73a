"""Small things at the edges of the library: names of modules, paths, generators that end, and the exit of Python."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Security
from distributed.protocol import pickle as shipping

import synergy_nb
from synergy_nb import Cluster, ClusterError, plan, source
from synergy_nb.plan import plan as function
from synergy_nb.plan.data_frames import is_frame
from synergy_nb.runtime.client.feeds import supply
from synergy_nb.traces.rows import row_reader
from tests.waiting import DEADLINE

ROOT = Path(__file__).resolve().parent.parent


def test_no_name_hides_a_package() -> None:
    packages = [each.name for each in pkgutil.walk_packages(synergy_nb.__path__, "synergy_nb.") if each.ispkg]
    assert len(packages) > 30
    modules = {name: importlib.import_module(name) for name in packages}
    parents = {name: sys.modules[name.rpartition(".")[0]] for name in packages}
    assert [name for name in packages if getattr(parents[name], name.rpartition(".")[2]) is not modules[name]] == []


def test_the_package_of_plans_is_the_function_too() -> None:
    made = source("packets", rate="10 tuples/s").filter("bytes > 10")
    assert plan(made.sink("a"), made.sink("b"), name="p").name == "p"
    code = (
        "import synergy_nb.plan.query_plan as q, synergy_nb.plan.derived.spark_parts as deeper\n"
        "import synergy_nb\n"
        "from synergy_nb import plan\n"
        "from synergy_nb.plan import plan as function\n"
        "print(q.Plan.__name__, deeper.__name__, plan is synergy_nb.plan, plan.query_plan is q)\n"
        "made = synergy_nb.source('packets').sink('a')\n"
        "print(synergy_nb.plan(made) == plan(made) == function(made) == plan.plan(made))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert ran.stdout == "Plan synergy_nb.plan.derived.spark_parts True True\nTrue\n"
    assert inspect.signature(plan) == inspect.signature(function)
    shipped: Any = shipping
    assert shipped.loads(shipped.dumps(lambda: plan))() is plan  # a function of a user's own goes to a worker


def test_a_path_may_be_a_path_object(tmp_path: Path) -> None:
    for path in (tmp_path / "a.csv", str(tmp_path / "a.csv")):
        made = source("trace", path=path, format="csv", columns={"time": "time"}).sink()
        assert made.operators["source"].params["path"] == str(tmp_path / "a.csv")


def test_a_generator_is_closed_when_its_feed_is_refused() -> None:
    closed = threading.Event()

    def rows() -> Iterator[dict[str, Any]]:
        try:
            while True:
                yield {"time": 0, "x": 1}
        finally:
            closed.set()

    given = rows()  # the test holds it, as a plan does: nobody collects it as garbage
    assert not is_frame(given)
    made = source("python", name="mine", columns={"x": "int"}).sink()
    feed, task = supply(given, row_reader(made, "source"))
    assert task is None
    feed.refuse("its application has ended")
    assert closed.wait(DEADLINE)


@pytest.mark.slow
def test_a_cluster_may_be_closed_at_the_exit_of_python() -> None:
    code = (
        "import atexit\nfrom synergy_nb import Cluster\nc = Cluster(peers=1, spark=False)\natexit.register(c.close)\n"
    )
    where = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=where, capture_output=True, text=True, timeout=100, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("peers", [1, "tcp://127.0.0.1:1"])
def test_a_security_that_holds_no_certificates_is_refused(peers: int | str) -> None:
    with pytest.raises(ClusterError, match=r"security: True; expected a distributed\.Security with certificates"):
        Cluster(peers, security=True)


def test_peers_are_not_started_with_a_security_without_certificates() -> None:
    with pytest.raises(ClusterError, match="security: it has no certificate for workers; expected"):
        Cluster(1, security=Security())  # type: ignore[no-untyped-call]
