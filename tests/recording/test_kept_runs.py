"""Runs that are kept: what is read of them is what was written, and what a live view has shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from synergy_nb import Simulation, runs, source
from synergy_nb.cli.commands import app
from synergy_nb.recording.kept_runs import NotARun, RunWriter, create_folder
from synergy_nb.simulator.simulated_application import SimulatedApplication


def _keep(folder: Path, application: SimulatedApplication, at: float) -> None:
    """Keep a simulated run, in two parts, with times that begin at a moment of the clock."""
    events = list(application.simulation.events())
    writer = RunWriter(folder, application.id, application.plan)
    half = len(events) // 2
    names, graph = application.simulation.names, application.graph
    writer.write(
        events[:half], names, status="running", reason="", submitted=at, ended=None, qos={}, graph=graph
    )  # fmt: skip
    qos = {sink: application.qos(sink) for sink in application.plan.sinks}
    writer.write(
        events[half:], names, status="finished", reason="", submitted=at, ended=at + 4.0, qos=qos, graph=graph
    )  # fmt: skip


@pytest.fixture(scope="module")
def applications() -> list[SimulatedApplication]:
    simulation = Simulation(peers=3, cores=1, network="local", seed=1)
    packets = source("packets", seed=1, rate="200 tuples/s", count=200, id="packets")
    one = simulation.submit(packets.filter("bytes > 100", id="large").sink("one", id="out", delay="2 s"))
    one.wait()
    other = simulation.submit(packets.sink("two", id="out"))
    other.wait()
    return [one, other]


@pytest.fixture(scope="module")
def folder(applications: list[SimulatedApplication], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for number, each in enumerate(applications):
        _keep(place, each, 1000.0 * (number + 1))
    return place


def test_the_view_and_the_account_of_a_kept_run_are_those_of_a_live_one(
    folder: Path, applications: list[SimulatedApplication]
) -> None:
    one, kept = applications[0], runs(folder)["one"]
    live, after = one.watch(), kept.watch()
    assert after.to_text().splitlines()[:5] == live.to_text().splitlines()[:5]
    live.close()
    after.close()
    assert str(kept.explain()) == str(one.explain())
    assert (kept.id, kept.status, kept.graph) == (one.id, "finished", one.graph)
    assert kept.plan.to_bytes() == one.plan.to_bytes()
    assert kept.qos()["tuples"] == one.qos()["tuples"] > 0
    assert [each for each in kept.events() if each.subject == one.id] == list(one.events())
    with pytest.raises(KeyError, match="sink: 'in'; expected one of out"):
        kept.qos("in")


def test_runs_are_a_table_and_two_are_compared(folder: Path) -> None:
    found = runs(folder)
    assert [each.plan.name for each in found] == ["one", "two"]
    lines = repr(found).splitlines()
    assert lines[0] == f"2 runs in {folder}"
    assert lines[1].split() == ["run", "plan", "submitted", "took", "outcome", "delay", "rows", "rate", "peers"]
    assert found.table()["plan"].to_list() == ["one", "two"]
    assert "<table>" in found._repr_html_()
    compared = {row["what"]: row for row in found.compare("one", 1).table().to_dicts()}
    assert compared["plan"]["other"] == "two (another plan)"
    assert set(found.compare("one", "one").table()["differs"]) == {""}
    assert (compared["limit"]["one"], compared["limit"]["other"]) == ("2 s", "none")
    assert compared["took"]["differs"] == ""
    assert compared["rows"]["differs"] == "differs"
    assert compared["version of synergy-nb"]["differs"] == ""
    assert repr(found["two"]).startswith(f"Run {found[1].id}")
    with pytest.raises(KeyError, match=r"run: 'tow'; expected the id or the plan of a run in .*'two'"):
        found["tow"]


def test_anybody_can_query_the_files(folder: Path) -> None:
    written = pl.read_parquet(folder / "*" / "run.parquet")
    assert sorted(written["plan"]) == ["one", "two"]
    assert all("operators" in text or "source" in text for text in written["yaml"])
    kinds = pl.read_parquet(folder / "*" / "events-*.parquet")["kind"].to_list()
    assert {"request_submitted", "sink_measured", "application_finished"} <= set(kinds)


def test_a_damaged_run_or_one_of_another_format_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="expected a folder that Cluster"):
        runs(tmp_path / "none")
    place = tmp_path / "runs"
    shutil.copytree(folder, place)
    file = next(place.glob("one-*")) / "run.parquet"
    pl.read_parquet(file).with_columns(format=2).write_parquet(file)
    with pytest.raises(NotARun, match=r"run.parquet: format 2; expected 1: read it with the version that wrote it"):
        runs(place)
    file.write_bytes(b"PAR1")
    with pytest.raises(NotARun, match="expected a run, as Cluster"):
        runs(place)
    assert file.read_bytes() == b"PAR1", "it is never overwritten"


def test_a_run_that_had_not_ended_says_so(applications: list[SimulatedApplication], tmp_path: Path) -> None:
    (application, _) = applications
    writer = RunWriter(tmp_path, application.id, application.plan)
    writer.write([], {}, status="running", reason="", submitted=1.0, ended=None, qos={}, graph={})
    (run,) = runs(tmp_path)
    assert run.row()[3:5] == ("had not ended", "running")
    assert run.took_s is None
    assert list(run.events()) == []
    assert list(next(tmp_path.iterdir()).glob(".*")) == [], "nothing is left of what was written beside"


def test_a_plan_with_a_long_name_is_kept(applications: list[SimulatedApplication], tmp_path: Path) -> None:
    name = f"{'ä' * 300}-1-abcdef"
    writer = RunWriter(tmp_path, name, applications[0].plan)
    writer.write([], {}, status="running", reason="", submitted=1.0, ended=None, qos={}, graph={})
    assert runs(tmp_path)[name].id == name


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match=r"runs: '.*file': File exists; expected a folder"):
        create_folder(file)
    assert create_folder(tmp_path / "a" / "b").is_dir()


def synergy(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["runs", *arguments])


@pytest.mark.usefixtures("wide_terminal")
def test_the_command_lists_shows_and_compares(folder: Path) -> None:
    listed = synergy(str(folder))
    assert listed.exit_code == 0
    assert listed.stdout.startswith(f"2 runs in {folder}\n")
    assert "Run one-" in synergy(str(folder), "one").stdout
    assert "finished (set up in" in synergy(str(folder), "one", "--explain").stdout
    assert "differs" in synergy(str(folder), "one", "two").stdout
    assert [each["plan"] for each in json.loads(synergy(str(folder), "--json").stdout)] == ["one", "two"]
    assert json.loads(synergy(str(folder), "one", "--json").stdout)["explanation"]["outcome"] == "finished"
    assert json.loads(synergy(str(folder), "one", "two", "--json").stdout)[0]["what"] == "plan"
    wrong = synergy(str(folder), "tow")
    assert wrong.exit_code == 2
    assert "expected the id or the plan of a run" in wrong.stderr
    assert synergy(str(folder / "none")).exit_code == 2
