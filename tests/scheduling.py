"""How a run with several workers is shared out: what one worker has to do alone, and what goes first.

A file stays together, as it shares what its fixtures start. So do all files that share a Spark server or a JupyterLab,
which each worker would start for itself otherwise. Schedules of a campaign share nothing, and neither do notebooks.
What takes long goes first, so that no worker is left alone with it at the end: a test that takes longer than most of
the slow ones says so by ``slow(seconds)``, on a machine that does nothing else. In a random order, which
``--random-order-seed`` asks for, whatever stays together otherwise still does: units are shuffled, their files, and the
tests of each file.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["MOST_WORKERS", "SERVERS", "LongFirst", "in_random_order", "long_first", "unit", "workers"]

MOST_WORKERS: Final = 8  # each imports everything: 7 s of a processor, half a GB of memory

#: Files that share a server, by the fixture that has it.
SERVERS: Final = {
    "jupyterlab": ("test_plan_editor_browser", "test_quickstart"),
    "spark_peers": ("test_bench", "test_nexmark_on_spark", "test_spark_cluster"),
    "spark_server": (
        "test_class_archive",
        "test_demo",
        "test_prepare",
        "test_python_workers",
        "test_session_worker",
        "test_spark_external_server",
        "test_spark_expressions",
        "test_spark_frames",
        "test_spark_operators",
        "test_spark_patterns",
        "test_spark_query",
        "test_spark_server",
        "test_spark_servers",
        "test_whole_plans",
    ),
}

#: Files whose tests share nothing and take long, each case of a parameter a unit of its own.
APART: Final = ("test_notebooks",)


class LongFirst(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """A worker that has nothing left takes the next unit, in the order in which these were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # not by their number of tests

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Return the test at which a worker crashed; another worker does what it has left.

        xdist itself would run that test again, in one new worker after another, and hand out what was done already:
        then the new worker would wait for ever.
        """
        left = {name: tests for name, tests in self.assigned_work.pop(node).items() if not all(tests.values())}
        crashed = next((test for tests in left.values() for test, done in tests.items() if not done), None)
        for name, tests in left.items():
            rest = {test: True if test == crashed else done for test, done in tests.items()}
            if not all(rest.values()):
                self.workqueue[name] = rest
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def schedule(self) -> None:
        """Share out the tests; a worker that comes later gets at least two, as it begins none before it has a next."""
        begun = self.collection is not None
        super().schedule()
        for node in self.nodes if begun else ():
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)


def workers() -> int:
    """Number of workers for ``--numprocesses auto``: one more than there are cores.

    A sixth of the time of a run in which each core has one worker, tests wait: for processes that start, for virtual
    machines, for real delays. Another worker uses that time.
    """
    named = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    if named:
        return int(named)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, MOST_WORKERS)


def unit(nodeid: str) -> str:
    """The unit that a test belongs to, which one worker does alone."""
    path, _, test = nodeid.partition("::")
    name = PurePosixPath(path).stem
    if (name.endswith("_campaign") or name in APART) and "[" in test:
        return nodeid
    return next((server for server, files in SERVERS.items() if name in files), path)


def long_first(items: list[pytest.Item]) -> None:
    """Put files that share a server first, by that server, then slow tests, the longest first.

    Otherwise the order stays.

    Raises
    ------
    pytest.UsageError
        If a test uses a server that its file does not share.
    """
    rank: dict[object, tuple[int, float, str]] = {}
    for item in items:
        used = SERVERS.keys() & set(getattr(item, "fixturenames", ()))
        for server in used:
            if item.path.stem not in SERVERS[server]:
                raise pytest.UsageError(f"{item.nodeid}: uses {server}; expected its file in tests/scheduling.py")
        slow = item.get_closest_marker("slow")
        seconds = float(slow.args[0]) if slow is not None and slow.args else 0.0
        found = (-2, 0.0, min(used)) if used else (-1 if slow is not None else 0, -seconds, "")
        place = _place(item)
        rank[place] = min(rank.get(place, found), found)
    items.sort(key=lambda item: rank[_place(item)])


def _place(item: pytest.Item) -> object:
    """What stays together in the order: the cases of a file, if they are not units of their own."""
    return item.nodeid if "[" in item.nodeid and unit(item.nodeid) == item.nodeid else item.path


def in_random_order(items: list[pytest.Item], seed: int) -> None:
    """Shuffle units, the files of each, and the tests of each file; the order depends on the seed alone."""
    drawn: defaultdict[object, float] = defaultdict(random.Random(seed).random)
    items.sort(key=lambda item: (drawn[unit(item.nodeid)], drawn[item.path], drawn[item.nodeid]))
