"""Plans over files with a profile: what they take from it, and what the account says of each number."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from synergy_nb import ClusterError, Simulation, source
from synergy_nb.plan import Plan
from synergy_nb.traces.profiles.profiling import profile_of
from synergy_nb.traces.profiles.surveys import surveyed

COLUMNS = {"status": "int"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A day of rows as ``prepare`` writes it, with its profile."""
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 3_600_000_000, 2000))
    rows = pl.DataFrame({"time": times, "status": rng.choice([200, 404], 2000, p=[0.9, 0.1])})
    rows = rows.with_columns(pl.col("time").cast(pl.Datetime("us")))
    (tmp_path / "day=1970-01-01").mkdir()
    rows.write_parquet(tmp_path / "day=1970-01-01/part-00.parquet")
    profile_of("log of yesterday", surveyed([rows], {"time": "time", **COLUMNS}, 1_000_000), None).save(
        tmp_path / "_profile.json"
    )
    return tmp_path


def plan_of(folder: Path, **more: str) -> Plan:
    path = str(folder / "day=1970-01-01/part-00.parquet")
    trace = source("trace", path=path, format="parquet", columns=COLUMNS, speed=360, **more)
    return trace.filter("status = 404").filter("status > 100", selectivity=0.9).sink("errors", delay="1 s")


def test_the_account_says_where_each_number_comes_from(folder: Path) -> None:
    simulation = Simulation(peers=2, seed=1)
    application = simulation.submit(plan_of(folder))
    told = str(application.explain())
    assert "source  200 tuples/s, by the rows of its file" in told.replace("    ", "  ")
    assert re.search(r"filter +selectivity 0\.\d+, measured by the profile\n", told)
    assert "as the plan states" in told
    assert "profile of source: log of yesterday" in told
    assert "as its profile has it" in told
    found = application.explain().to_dict()
    assert found["estimates"]["filter"]["from"] == "profile"
    assert found["estimates"]["filter"]["number"] == pytest.approx(0.1, abs=0.02)


def test_the_account_says_what_a_busy_window_needs(folder: Path) -> None:
    path = str(folder / "day=1970-01-01/part-00.parquet")
    trace = source("trace", path=path, format="parquet", columns=COLUMNS, speed=360)
    application = Simulation(peers=2, seed=1).submit(trace.sort("status", window="1 min", id="kept").sink("out"))
    kept = application.explain().to_dict()["state_bytes"]["kept"]
    assert kept["busy"] > 1.2 * kept["mean"] > 0.0, "33 rows a minute come at random, in one of 100 minutes 48 of them"
    assert re.search(r"state of kept: [\d.]+ k?B in a busy window", str(application.explain()))


def test_a_stated_profile_that_is_none_is_refused(folder: Path) -> None:
    simulation = Simulation(peers=2, seed=1)
    with pytest.raises((ValueError, ClusterError), match=r"no such file; expected the profile of a trace"):
        simulation.submit(plan_of(folder, profile=str(folder / "none")))
    (folder / "_profile.json").write_text("{}")
    simulation.submit(plan_of(folder))  # one that is only found is left out
