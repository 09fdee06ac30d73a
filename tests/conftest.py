"""What all tests share: the same examples on every run, and the way to the real data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.browser import bare, browser, page
from tests.jupyterlab import jupyterlab
from tests.spark_server import quick_java, spark, spark_peers, spark_server

__all__ = [
    "bare",
    "browser",
    "jupyterlab",
    "page",
    "quick_java",
    "real_data",
    "spark",
    "spark_peers",
    "spark_server",
]

ROOT = Path(__file__).resolve().parent.parent

# Hypothesis keeps what it has learnt of the sources here rather than in a folder of its own.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".pytest_cache" / "hypothesis"))

# A test means the same today and tomorrow, here and on a slower machine: fixed examples, no database, no deadline.
settings.register_profile("deterministic", derandomize=True, database=None, deadline=None)
settings.load_profile("deterministic")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs on one worker, and what goes first, for ``--dist loadgroup --no-loadscope-reorder``.

    A file stays together, as it shares what its fixtures start, and so do all tests that share a Spark server, which
    would else be started once a worker. Schedules of a campaign share nothing. What takes long goes first, so that no
    worker is left alone with it at the end.
    """
    long: dict[Path, int] = {}
    for item in items:
        used: Sequence[str] = getattr(item, "fixturenames", ())
        server = next((name for name in ("spark_server", "spark_peers") if name in used), None)
        slow = item.get_closest_marker("slow") is not None
        if server is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))  # the first waits for the server: a minute on a busy machine
        if not (slow and item.path.stem.endswith("_campaign")):
            item.add_marker(pytest.mark.xdist_group(server or item.path.stem))
        long[item.path] = max(long.get(item.path, 0), 2 if server else 1 if slow else 0)
    items.sort(key=lambda item: -long[item.path])


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
