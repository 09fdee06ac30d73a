"""Fixtures of all tests: the same examples in every run, and the folder of the real data."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import inspect
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from tests.browser import bare, browser, page, profile, tab
from tests.fork_servers import forked_servers, fresh_servers
from tests.jupyterlab import jupyterlab
from tests.kernels import kernels
from tests.notebook_outputs import notebook
from tests.scheduling import LongFirst, in_random_order, long_first, unit, workers
from tests.spark_server import end_shared, quick_java, spark, spark_peers, spark_server
from tests.waiting import run_loop

__all__ = [
    "bare",
    "browser",
    "forked_servers",
    "fresh_servers",
    "jupyterlab",
    "kernels",
    "notebook",
    "page",
    "profile",
    "quick_java",
    "real_data",
    "spark",
    "spark_peers",
    "spark_server",
    "tab",
    "wide_terminal",
]

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent

# Hypothesis keeps what it has learnt of the sources here rather than in a folder of its own.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".pytest_cache" / "hypothesis"))

# Credentials of the clusters that tests start do not lie where those of this user's clusters do.
os.environ.setdefault("SYNERGY_CREDENTIALS", str(ROOT / ".pytest_cache" / "credentials"))

# A shell that starts a run in the background has it ignore interrupts, and so would each process that the tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test means the same today and tomorrow, here and on a slower machine: fixed examples, no database, no deadline.
settings.register_profile("deterministic", derandomize=True, database=None, deadline=None)
settings.load_profile("deterministic")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a random order of tests; without it, a run has the same order each time."""
    parser.addoption("--random-order-seed", type=int, metavar="N", help="run the tests in a random order, by this seed")


#: Seconds after which a test that is not slow fails: one that hangs is named before the whole run has taken too long.
QUICK: Final = 100


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long goes first, unless a random order is asked for; the rest has a limit of its own."""
    for item in items:
        if item.get_closest_marker("slow") is None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(QUICK))
    long_first(items)
    seed = config.getoption("random_order_seed")
    if seed is not None:
        in_random_order(items, seed)


class Examples:
    """Modules that have examples in their docstrings; nobody searches the others for any.

    No test has examples, and two thirds of the modules have none: the search took a seventh of each collection.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Drop what would be searched in vain."""
        found = yield
        if TESTS in file_path.parents or not any(isinstance(each, DoctestModule) for each in found):
            return [each for each in found if not isinstance(each, DoctestModule)]
        return found if b">>>" in file_path.read_bytes() else []


def pytest_configure(config: pytest.Config) -> None:
    """A hook of a file of fixtures sees the files of its folder only, but one of a plugin sees all."""
    config.pluginmanager.register(Examples(), "examples")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """No collection of garbage looks at what is imported and collected: all of that stays, and it took a quarter."""
    gc.disable()
    try:
        worker = getattr(session.config, "workerinput", None)
        if worker is not None and not session.config.option.file_or_dir:
            import_all_from(int(worker["workerid"].removeprefix("gw")) / worker["workercount"])
        return (yield)
    finally:
        gc.enable()


def import_all_from(share: float) -> None:
    """Import the test modules from the one at a share of them on, and then those before it.

    On a fresh clone pytest rewrites each of them first, 9 s of a processor, and stores the result. Workers that all
    began with the same one would all rewrite all of them.
    """
    paths = sorted(path.relative_to(ROOT).with_suffix("") for path in (ROOT / "tests").rglob("test_*.py"))
    names = [".".join(path.parts) for path in paths]
    first = int(len(names) * share)
    for name in (*names[first:], *names[:first]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # its collection will say so
            importlib.import_module(name)


def pytest_collection_finish() -> None:
    """What is there before the first test stays: a collection of garbage that looked at it all would find nothing.

    A worker has imported everything, so each would take 0.4 s: a twelfth of the processor time of all quick tests. They
    are rarer, too: what a simulation makes lives until its end, so that each would look at it in vain. Libraries that
    count what is left of them at the very end find all again, but not before: pytest collects garbage at the end.
    """
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.set_threshold(1_000_000, 5, 5)


def pytest_sessionfinish() -> None:
    """A run that was stopped ends its servers."""
    end_shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What the tests of a unit share ends with the last of them, and what those of a file have left is collected.

    Nor does a later collection look at what is left then. Late in a run, one took 2.4 s of a processor: each check of a
    sink asks for one.
    """
    yield
    if nextitem is None or unit(nextitem.nodeid) != unit(item.nodeid):
        end_shared()
    if nextitem is None or nextitem.path != item.path:  # its fixtures have ended: most of what it made is garbage now
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongFirst | None:
    """Whatever ``--dist`` says, if workers share the tests at all."""
    return None if config.getoption("dist") == "each" else LongFirst(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What ``--numprocesses auto`` means."""
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Workers share the cores of the machine: threads of one that wait for those of others only cost time."""
    share = str(max(1, (os.cpu_count() or 1) // len(specs)))
    for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, share)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on a loop of its own: by the ``on_loop`` of its module, else by ``run_loop``."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    getattr(pyfuncitem.module, "on_loop", run_loop)(pyfuncitem.obj(**given))
    return True


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 200 columns, also for consoles that another test has made at a different width."""
    from synergy_nb.cli import _console as console

    monkeypatch.setenv("COLUMNS", "200")
    for each in (console.out, console.err):
        monkeypatch.setattr(each, "_width", 200)


@pytest.fixture
def closed_editors() -> Iterator[None]:
    """No editor stays open after the test."""
    from synergy_nb.notebook import plan_editors

    yield
    for each in plan_editors.open_editors.values():
        each.close()
    plan_editors.open_editors.clear()


@pytest.fixture(scope="module")
def simulation() -> Any:
    """Three simulated peers, as those of the ``cluster`` of a module."""
    from synergy_nb import Simulation

    return Simulation(peers=3, cores=1, network="local", seed=1)


@pytest.fixture(scope="module", params=[pytest.param("cluster", marks=pytest.mark.slow), "simulation"])
def either(request: pytest.FixtureRequest) -> Any:
    """The cluster of a module, and then a simulation."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real traces: ``SYNERGY_DATA`` where that is set, else ``shared/data`` beside the checkout.

    Skips the test where there is none: the traces belong to others and are not part of this project.
    """
    named = os.environ.get("SYNERGY_DATA")
    folder = Path(named).expanduser() if named else ROOT.parent / "shared" / "data"
    if named and not folder.is_dir():
        raise FileNotFoundError(f"SYNERGY_DATA names {named!r}, expected a folder that holds the real traces")
    if not folder.is_dir():
        pytest.skip(f"no real data: neither SYNERGY_DATA is set nor is there a folder {folder.name} at ../shared")
    return folder
