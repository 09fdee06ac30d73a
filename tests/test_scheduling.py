"""The distribution of tests among workers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.conftest import QUICK, ROOT
from tests.scheduling import MOST_WORKERS, SERVERS, in_random_order, long_first, unit, workers
from tests.syntax_trees import nodes_of

HERE = Path(__file__).parent


def test_files_stay_together_servers_are_shared_and_schedules_are_apart() -> None:
    first, second = (f"tests/overlay/test_overlay_campaign.py::test_mixed_schedules[{seed}]" for seed in (100, 150))
    assert (unit(first), unit(second)) == (first, second)
    assert unit("tests/overlay/test_overlay_campaign.py::test_a_few") == "tests/overlay/test_overlay_campaign.py"
    assert (
        unit("tests/plan/test_units.py::test_a[b::c]")
        == unit("tests/plan/test_units.py::test_b")
        == "tests/plan/test_units.py"
    )
    notebook = "tests/test_notebooks.py::test_every_cell_runs[02]"
    assert unit(notebook) == notebook
    assert unit("synergy_nb/events/journal.py::synergy_nb.events.journal.Journal") == "synergy_nb/events/journal.py"
    for server, files in SERVERS.items():
        assert {unit(f"tests/{name}.py::test_it") for name in files} == {server}
        assert all(list(HERE.rglob(f"{name}.py")) for name in files)


def test_there_is_a_worker_more_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    for cores, expected in ((1, 2), (2, 3), (64, MOST_WORKERS)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: set(range(cores)), raising=False)
        assert workers() == expected
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    assert workers() == 1


class Item:
    """A test, as far as its order goes."""

    def __init__(self, name: str, *fixturenames: str, slow: bool | float = False) -> None:
        self.nodeid = name
        self.path = HERE / f"{name.partition(' ')[0]}.py"
        self.fixturenames = fixturenames
        self.slow = slow

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        if name != "slow" or self.slow is False:
            return None
        return pytest.mark.slow(self.slow).mark if self.slow is not True else pytest.mark.slow.mark


def test_files_that_take_long_go_first_and_keep_their_order() -> None:
    items = [
        Item("test_a 1"),
        Item("test_b 1"),
        Item("test_b 2", slow=True),
        Item("test_spark_query 1"),
        Item("test_spark_query 2", "spark_server", slow=True),
        Item("test_spark_cluster 1", "spark_peers", slow=True),
        Item("test_spark_server 1", "spark_server", slow=True),
        Item("test_c 1", slow=True),
        Item("test_d 1"),
        Item("test_d 2", slow=30),
        Item("test_e 1", slow=60.5),
    ]
    long_first(items)  # type: ignore[arg-type]
    shared = ["test_spark_cluster 1", "test_spark_query 1", "test_spark_query 2", "test_spark_server 1"]
    wanted = [*shared, "test_e 1", "test_d 1", "test_d 2", "test_b 1", "test_b 2", "test_c 1", "test_a 1"]
    assert [item.nodeid for item in items] == wanted


def test_cases_that_are_units_of_their_own_are_ordered_one_by_one() -> None:
    name = "tests/streams/test_moving_campaign.py::test_it"
    items = [Item(f"{name}[1]"), Item(f"{name}[2]", slow=True), Item(f"{name}[3]", slow=20), Item(f"{name}_once")]
    long_first(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [f"{name}[3]", f"{name}[2]", f"{name}[1]", f"{name}_once"]


def test_a_file_that_uses_a_server_has_to_be_among_those_that_share_it() -> None:
    with pytest.raises(pytest.UsageError, match=r"test_a 1: uses spark_server; expected its file in tests/scheduling"):
        long_first([Item("test_a 1", "spark_server")])  # type: ignore[list-item]


def test_a_random_order_is_that_of_its_seed_and_leaves_units_and_files_together() -> None:
    def ordered(seed: int) -> list[str]:
        files = ("test_a", "test_b", "test_spark_query", "test_spark_server")
        items = [Item(f"{name} {number}") for name in files for number in range(5)]
        for item in items:
            item.nodeid = f"tests/{item.path.name}::{item.nodeid}"
        in_random_order(items, seed)  # type: ignore[arg-type]
        return [item.nodeid for item in items]

    orders = {seed: ordered(seed) for seed in range(20)}
    assert orders == {seed: ordered(seed) for seed in range(20)}
    assert len({tuple(order) for order in orders.values()}) == 20
    for order in orders.values():
        files = [name for name, _ in groupby(order, lambda nodeid: nodeid.partition("::")[0])]
        assert len(files) == 4
        assert abs(files.index("tests/test_spark_query.py") - files.index("tests/test_spark_server.py")) == 1


def test_a_quick_test_has_a_short_limit(request: pytest.FixtureRequest) -> None:
    limit = request.node.get_closest_marker("timeout")
    assert limit is not None
    assert limit.args == (QUICK,)


CRASHES = """
import os
import pytest

@pytest.mark.parametrize("n", range(20))
def test_it(n):
    if n in (3, 19):
        os._exit(3)
"""


@pytest.mark.slow
def test_what_a_crashed_worker_has_left_is_done_by_another(tmp_path: Path) -> None:
    """A run went on for ever: new workers crashed at the same test, or waited for tests that were done already."""
    (tmp_path / "conftest.py").write_text(
        "from tests.scheduling import LongFirst\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return LongFirst(config, log)\n",
        "utf-8",
    )
    for name, text in (("test_a", CRASHES.replace("(3, 19)", "()")), ("test_b", CRASHES)):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), "--numprocesses", "2"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert "2 failed, 38 passed" in done.stdout, done.stdout[-2000:]


def test_a_library_that_notes_the_parents_of_nodes_leads_nowhere() -> None:
    """There is one ``==`` for all trees of a process; a walk that went to its parent ate the memory of the machine."""
    tree = ast.parse("if a == b:\n    pass")
    (equal,) = [node for node in ast.walk(tree) if isinstance(node, ast.Eq)]
    equal.parent = tree  # type: ignore[attr-defined]
    try:
        assert [type(node).__name__ for node in nodes_of(tree)] == ["Module", "If", "Compare", "Pass", "Name", "Name"]
    finally:
        del equal.parent  # type: ignore[attr-defined]
