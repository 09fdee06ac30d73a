"""An editor submits its plan, and shows over its canvas how it runs; edits are then a draft above it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_nb import NotAdmitted, edit, source
from synergy_nb.editing.operations import EditError
from synergy_nb.notebook._plan_runs import runs_on
from synergy_nb.plan import Plan
from synergy_nb.simulator.simulation import Simulation
from synergy_nb.widgets._editor_overlay import draft_of, overlay
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets.running_plan import FollowedPlan, PlanRuns, RunningPlan
from tests.editors import Editor, ask
from tests.qos_story import NAMES, START, actively_replicated, filtered, relieved, replicated, story, top_pairs

pytestmark = pytest.mark.usefixtures("closed_editors")

TEXT = """\
format: 1
name: large
qos: {delay: 2 s}
operators:
  packets: {kind: source, connector: packets, seed: 1, rate: 200 tuples/s}
  large: {kind: filter, input: packets, where: bytes > 1000}
  result: {kind: sink, input: large}
"""


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return Simulation(peers=6, seed=5)


@pytest.fixture
def editor(simulation: Simulation) -> Iterator[Editor]:
    made = Editor(TEXT, waits=True, runs=runs_on(simulation))
    yield made
    made.stop()
    made.close()


def shown(editor: Editor, trait: str = "document") -> dict[str, Any]:
    """What pages show."""
    return dict(getattr(editor, trait))


# -- the overlay -------------------------------------------------------------------------------------------------------


def drawn(journal: Any, plan: Any) -> dict[str, Any]:
    readings = JournalSeries("top-1", NAMES)
    readings.read(journal)
    return overlay(readings, plan)


def test_the_overlay_has_peers_rates_and_queues_of_the_application() -> None:
    live = drawn(story(10), top_pairs())
    assert (live["state"], live["tone"], live["start"], live["now"]) == ("running", "good", START, START + 10)
    assert live["peers"]["source"] == "peer-1"
    assert set(live["peers"]) == set(top_pairs().operators)
    assert live["rates"]["filter>aggregate"] == "50 tuples/s"
    assert live["queues"]["filter"] == 0.03  # 3 tuples of 100 a second
    assert live["states"]["filter"] == "running"
    assert (live["backups"], live["replicas"], live["shared"], live["spark"], live["marks"]) == ({}, {}, {}, [], [])


def test_deaths_takeovers_and_moves_are_marks() -> None:
    live = drawn(replicated(), top_pairs())
    assert [mark["kind"] for mark in live["marks"]] == ["note", "death", "takeover"]
    assert live["marks"][1]["t"] == pytest.approx(START + 5, abs=1.0)
    assert live["backups"]["sort"] == ["peer-5"]
    assert live["peers"]["filter"] == "peer-4"
    moved = drawn(relieved(), top_pairs())
    assert "move" in [mark["kind"] for mark in moved["marks"]]
    assert moved["peers"]["filter"] == "peer-5"


def test_active_replicas_are_drawn_below_their_operator() -> None:
    journal = actively_replicated()
    name = next(event.subject for event in journal if type(event).__name__ == "RequestSubmitted")
    readings = JournalSeries(name, NAMES)
    readings.read(journal)
    live = overlay(readings, filtered())
    assert set(live["replicas"]) <= {"filter", "project"}
    assert all(live["replicas"].values())


def test_overlays_come_at_most_ten_times_a_second() -> None:
    journal, time = story(3), [0.0]
    drawings: list[dict[str, Any]] = []
    listeners: list[Any] = []

    def listen(callback: Any) -> Any:
        listeners.append(callback)
        return lambda: listeners.remove(callback)

    application = type("Application", (), {"id": "top-1"})()
    followed = FollowedPlan(application, top_pairs(), lambda: None, journal, NAMES, listen)
    running = RunningPlan(followed, drawings.append, threading.RLock(), lambda: time[0])
    assert len(drawings) == 1
    for each in list(story(8))[len(list(journal)) :]:
        journal.append(each)
        time[0] += 0.01
        running.update()
    assert len(drawings) <= 1 + time[0] / 0.1 + 1
    running.close()
    assert not listeners
    running.update()  # after the end nothing is drawn


# -- a draft above what runs -------------------------------------------------------------------------------------------


def test_a_draft_says_what_changes_and_what_is_shared() -> None:
    packets = source("packets", rate=5, id="packets")
    large = packets.filter("bytes > 9", id="large")
    submitted = large.project("link", id="links").sink(id="result")
    assert draft_of(submitted, submitted, list(submitted.operators)) is None
    changed = large.project("link", "bytes", id="links").count(window="1 s", id="n").sink(id="result")
    assert draft_of(changed, submitted, list(changed.operators)) == {
        "added": ["n"], "changed": ["links", "result"], "removed": [], "shared": ["packets", "large"],
    }  # fmt: skip
    other = source("packets", rate=5, count=9, id="packets").filter("bytes > 9", id="large").sink(id="result")
    draft = draft_of(other, submitted, list(other.operators))
    assert draft is not None
    assert (draft["removed"], draft["shared"]) == (["links"], [])  # packets with an end are not shared


# -- submission --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_editor_checks_submits_and_stops(editor: Editor, simulation: Simulation) -> None:
    assert editor.catalogue["cluster"]
    cost = ask(editor, "cost")
    assert (cost["type"], cost["admitted"], set(cost["peers"])) == ("cost", True, {"packets", "large", "result"})
    assert not shown(editor)["running"]
    submitted = ask(editor, "submit")
    assert submitted.pop("advice").startswith("Virtual time passes only by simulation.run(")
    assert submitted == {"type": "submitted", "id": 7, "application": editor.application.id}
    assert shown(editor)["running"]
    assert shown(editor)["draft"] is None
    assert ask(editor, "results", operator="result")["rows"] == []
    simulation.run("3 s")
    found = ask(editor, "results", operator="result")
    assert (found["operator"], len(found["rows"])) == ("result", 20)
    assert found["columns"] == list(editor.application.results(wait=False).columns)
    assert [row[-1] for row in found["rows"]] == editor.application.results(wait=False)["bytes"].to_list()[-20:]
    live: Any = editor.live
    assert live["state"] == "running"
    assert set(live["peers"]) == {"packets", "large", "result"}
    assert live["rates"]["packets>large"].endswith("tuples/s")
    editor.apply({"op": "set", "operator": "large", "field": "where", "value": "bytes > 5"})
    assert shown(editor)["draft"] == {"added": [], "changed": ["large"], "removed": [], "shared": ["packets"]}
    first = editor.application
    ask(editor, "submit")
    assert (first.status, editor.application.status) == ("running", "running")
    assert shown(editor)["draft"] is None
    delivered = first.qos()["tuples"]
    assert "sink: 'no'; expected one of result" in ask(editor, "results", operator="no")["error"]
    assert ask(editor, "stop") == {"type": "stopped", "id": 7}
    assert (first.status, editor.application.status) == ("stopped", "stopped")
    assert first.results().height == delivered > 0, "no button loses results"
    assert not shown(editor)["running"]
    assert shown(editor, "live")["state"] == "stopped"


def test_a_second_request_to_submit_is_refused_while_the_first_is_under_way(editor: Editor) -> None:
    assert editor._runs is not None
    inner: PlanRuns = editor._runs

    class Slow:
        cost = inner.cost
        advice = inner.advice

        def submit(self, plan: Plan) -> FollowedPlan:
            editor.use(inner)
            editor.on_page_message({"type": "submit", "id": 8})
            return inner.submit(plan)

    editor.use(Slow())
    editor.on_page_message({"type": "submit", "id": 7})
    answers = [content for _, content in editor.sent if content["type"] == "submitted"]
    assert [(each["id"], each.get("error", "")) for each in answers] == [(8, "The plan is being submitted."), (7, "")]
    assert "error" not in ask(editor, "submit")  # the first has ended


def test_a_plan_that_cannot_be_submitted_says_why(editor: Editor) -> None:
    editor.yaml = TEXT.replace("bytes >", "byte >")
    assert "did you mean 'bytes'" in ask(editor, "submit")["error"]
    assert "did you mean 'bytes'" in ask(editor, "cost")["error"]
    editor.yaml = TEXT.replace("rate: 200 tuples/s}", "rate: 1 M tuples/s}").replace("> 1000}", "> 1000, cost: 1 ms}")
    assert "large: " in ask(editor, "submit")["error"]
    with pytest.raises(NotAdmitted):
        editor.submit()
    assert not editor.document["running"]
    alone = Editor(TEXT, waits=True)
    assert not alone.catalogue["cluster"]
    for kind in ("submit", "cost"):
        assert "expected a cluster or a simulation: edit(..., cluster=cluster)" in ask(alone, kind)["error"]
    assert ask(alone, "results")["error"] == "Nothing was submitted here."
    assert ask(alone, "stop") == {"type": "stopped", "id": 7}
    alone.close()


def test_edit_takes_a_cluster_or_a_simulation(simulation: Simulation) -> None:
    made = edit("mine", cluster=simulation)
    assert made.catalogue["cluster"]
    assert edit("mine", cluster=simulation) is made
    with pytest.raises(EditError, match="cluster: 'int'; expected a Cluster or a Simulation"):
        edit("mine", cluster=5)  # type: ignore[arg-type]
