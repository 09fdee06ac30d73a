"""Malformed lines that a source skips are told wherever rows that came too late are: once, with the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synergy_nb import Simulation
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.events import LateRows, LinesSkipped, OriginSucceeded, SkippedLines
from synergy_nb.events.application_states import State
from synergy_nb.events.journal import Journal
from synergy_nb.lifecycle.records.messages import SkippedReported
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.widgets._journal_series import JournalSeries
from tests.qos_story import START, story
from tests.session_streams import STEP, Both, packets
from tests.skipped_rows import ROWS, assert_told, few, rows_of, written

# -- in a simulation ---------------------------------------------------------------------------------------------------


def local(peers: int = 6, **options: Any) -> Simulation:
    return Simulation(peers, network="local", cores=1, seed=3, **options)


@pytest.mark.parametrize(
    ("name", "accented"), [("rows.csv", (150, 320)), ("rows.csv.gz", (0,)), ("last.csv", (ROWS - 1,))]
)
def test_a_simulation_tells_of_skipped_lines(tmp_path: Path, name: str, accented: tuple[int, ...]) -> None:
    path = written(tmp_path / name, *accented)
    application = local(2).submit(rows_of(path).sink("rows"))
    assert application.results().height == ROWS - len(accented)
    assert_told(application, few(path, accented[0] + 2, len(accented)))
    assert "source skips" in application.replay().to_text()


def test_without_malformed_lines_nothing_is_told(tmp_path: Path) -> None:
    application = local(2).submit(rows_of(written(tmp_path / "rows.csv")).sink("rows"))
    assert application.results().height == ROWS
    assert (application.qos()["malformed"], application.qos()["malformed_first"]) == (0, None)
    assert not application.events().of(LinesSkipped)
    assert "skip" not in str(application.explain()) + repr(application)


def test_more_malformed_lines_than_are_tolerated_end_the_application(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", *range(5))
    application = local(2).submit(rows_of(path).sink("rows"))
    with pytest.raises(ClusterError, match=r"5 of 400 lines are not of format 'csv' \(up to 1 % are skipped\); line 2"):
        application.results()
    assert not application.events().of(LinesSkipped)


def test_lines_of_several_sources_are_added_and_told_apart(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.csv", 3), written(tmp_path / "b.csv", 5, 6)
    both = rows_of(first, id="a").union(rows_of(second, id="b"))
    application = local(2).submit(both.sink("rows"))
    assert application.results().height == 2 * ROWS - 3
    assert application.qos()["malformed"] == 3
    assert application.explain().skipped == {"a": few(first, 5), "b": few(second, 7, 2)}


@pytest.mark.slow
def test_a_source_that_is_read_again_elsewhere_and_shared_counts_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, simulation = written(tmp_path / "rows.csv", 7), local(composition=CompositionConfig(sharing="all"))
    query = rows_of(path, speed=10.0).filter("v >= 0", id="all")
    application = simulation.submit(query.sink("rows"))
    simulation.run(1)
    sharer = simulation.submit(query.aggregate(window="10 s", n="count(*)").sink("counts"))
    simulation.run(1)
    assert sharer.explain().shared
    at = application.graph["source"]
    simulation.move(
        application, "source", next(peer for peer in simulation.peers if peer not in application.graph.values())
    )
    assert application.graph["source"] != at
    assert application.results().height == ROWS - 1
    assert len(caplog.messages) == 2, "it was read twice"
    assert_told(application, few(path, 9))
    assert_told(sharer, few(path, 9), f"source of {application.id}")


@pytest.mark.slow
def test_a_successor_of_the_origin_learns_of_them(tmp_path: Path) -> None:
    path, simulation = written(tmp_path / "rows.csv", 7), local()
    plan = rows_of(path, speed=10.0, at="peer-2").sink("rows", at="peer-3")
    application = simulation.submit(plan, origin="peer-1")
    simulation.run(1)
    simulation.kill("peer-1")
    assert application.results().height == ROWS - 1
    assert application.events().of(OriginSucceeded)
    assert application.qos()["malformed"] == 1
    assert application.explain().skipped == {"source": few(path, 9)}


def test_lines_that_are_told_before_the_application_runs_are_kept() -> None:
    """A part on Spark reads its files when it is prepared, and may have ended before they are told of again."""
    ring, lines = Both(3, 1), SkippedLines("rows.csv", 2, "line 7: field 'v': 'x'; expected an integer")
    ring.submit("peer-0", "a", packets(0, "peer-1").sink(id="sink", at="peer-2"))
    session, peer = ring.synergy["peer-0"].session, ring.synergy["peer-0"].peer
    while session.sharers.led.get("a") is None or session.sharers.led["a"].state is not State.ESTABLISHING:
        ring.run(STEP)
    for attempt, found in ((1, lines), (2, few(Path("rows.csv"), 2))):  # of this attempt, and of another one
        ring.simulation.call("peer-0", peer.receive, "peer-1", SkippedReported("a", attempt, "s0", found), peer.now)
    ring.until_running("a")
    assert session.sharers.led["a"].skipped == {"s0": lines}


# -- in the view -------------------------------------------------------------------------------------------------------


def test_the_view_marks_what_a_source_leaves_out_with_its_latest_number() -> None:
    journal = Journal()
    for event in story(0):
        journal.append(event)
    lines = SkippedLines("rows.csv", 2, "line 7: field 'v': 'x'; expected an integer")
    for time, each in ((1.0, 3), (2.0, 7)):
        journal.append(LateRows(START + time, "a", "top-1", operator="packets", dropped=each))
        journal.append(LinesSkipped(START + time, "a", "top-1", operator="packets", lines=lines))
    found = JournalSeries("top-1")
    found.read(journal)
    told = [
        (mark.label, mark.text) for mark in found.run("top-1").marks if mark.label in ("late rows", "lines skipped")
    ]
    assert told == [
        ("late rows", "packets dropped 7 rows that came too late"),
        ("lines skipped", f"packets skips {lines}"),
    ]
