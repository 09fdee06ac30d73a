"""The picture that a notebook's file keeps: the last one, seldom replaced, and at once at the end."""

from __future__ import annotations

import pytest

from synergy_nb.events import ApplicationFinished, ClusterClosed, PeerStarted
from synergy_nb.events.journal import Journal
from synergy_nb.explore._explorer import Drawn, Explorer, Range
from synergy_nb.recording.moments import Moment, Replay
from synergy_nb.simulator.simulation import Simulation
from synergy_nb.widgets.knob_panel import KnobPanel
from synergy_nb.widgets.last_picture import EVERY
from synergy_nb.widgets.plan_editor import PlanEditor
from synergy_nb.widgets.protocol_stage import ProtocolStage
from synergy_nb.widgets.qos_view import QoSView
from tests.notebook_outputs import Notebook


def test_a_view_is_two_outputs_of_which_an_export_shows_the_picture() -> None:
    notebook = Notebook()
    last = notebook.last()
    last.changed(lambda: ("no", "not displayed"), final=True)
    last.show({"application/vnd.jupyter.widget-view+json": {"model_id": "m"}}, {}, "idle", "<svg/>")
    live, still = notebook.outputs
    assert live["text/html"] == live["text/plain"] == live["key"] == ""
    assert "application/vnd.jupyter.widget-view+json" in live
    assert set(still) == {"text/plain", "text/html", "key"}
    assert 'data-synergy-last="k"' in still["text/html"]
    assert "<svg/>" in still["text/html"]
    assert not notebook.replaced


def test_pictures_are_replaced_seldom_and_at_the_end_at_once() -> None:
    notebook = Notebook()
    last = notebook.last()
    last.show({}, {}, "t", "first")
    last.changed(lambda: ("t", "soon"))  # waits until its time has come
    last.changed(lambda: ("t", "soon, too"))
    assert not notebook.replaced
    last.changed(lambda: ("t", "end"), final=True)
    assert [each.endswith(">end</div>") for each in notebook.replaced] == [True]
    notebook.now += EVERY
    last.changed(lambda: ("t", "end"))  # nothing to see
    last.changed(lambda: ("t", "later"))
    assert len(notebook.replaced) == 1  # that of the same picture counts
    last.stop()
    notebook.now += EVERY
    last.changed(lambda: ("t", "later"))
    assert len(notebook.replaced) == 2


@pytest.mark.parametrize("notebook", [1e6], indirect=True)
@pytest.mark.parametrize("ends", [ClusterClosed(2.0, "a", "cluster"), ApplicationFinished(2.0, "a", "r-1")])
def test_the_last_picture_of_a_view_is_that_of_the_end(
    notebook: Notebook, ends: ClusterClosed | ApplicationFinished
) -> None:
    journal = Journal()
    journal.append(PeerStarted(1.0, "a", "a", name="peer-1"))
    view = QoSView(journal, application="r-1" if isinstance(ends, ApplicationFinished) else None)
    view._ipython_display_()
    journal.append(PeerStarted(1.5, "b", "b", name="peer-2"))
    view.update()
    assert not notebook.replaced
    journal.append(ends)
    view.update()
    assert len(notebook.replaced) == 1
    assert ("closed" if isinstance(ends, ClusterClosed) else "finished") in notebook.replaced[0]
    view.close()


def test_the_picture_of_an_explorer_follows_its_controls(notebook: Notebook) -> None:
    explorer = Explorer("t", "e", [Range("n", "n", 0, 9)], {"n": 1}, lambda n: Drawn(f"<svg>{n}</svg>", (), f"{n}."))
    explorer._ipython_display_()
    explorer.set(n=7)
    assert "<svg>7</svg>" in notebook.replaced[-1]
    explorer.close()


def test_the_stage_and_the_editor_keep_their_pictures_too(notebook: Notebook) -> None:
    editor = PlanEditor()
    editor._ipython_display_()
    editor.apply({"op": "add", "kind": "source", "operator": "packets", "fields": {"connector": "packets"}})
    assert "packets" in notebook.replaced[-1]
    assert "packets" not in notebook.outputs[-1]["text/html"]
    editor.close()

    moments = tuple(Moment(float(at), "command", "", "peer-1", f"title {at}", "text") for at in range(2))
    stage = ProtocolStage(Replay("r1", "plan", {}, "peer-1", "running", "messages", (), (), moments, ()))
    stage._ipython_display_()
    stage.step = 1
    assert notebook.replaced[-1] != notebook.outputs[-1]["text/html"]
    assert len(notebook.replaced) == 2
    stage.close()


def test_the_knobs_leave_a_note(notebook: Notebook) -> None:
    panel = KnobPanel(Simulation(peers=2))
    panel._ipython_display_()
    assert "application/vnd.jupyter.widget-view+json" in notebook.outputs[0]
    assert "The knobs need a kernel" in notebook.outputs[1]["text/html"]
    panel.close()
