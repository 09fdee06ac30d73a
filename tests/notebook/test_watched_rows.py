"""Rows beside a live view: of a simulated application, at the end, of a moment, and what has none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from synergy_nb import Simulation, source, watch
from synergy_nb.notebook import watching
from synergy_nb.notebook._simulated_rows import SimulatedRows
from synergy_nb.plan import Plan, plan
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets.qos_view import QoSView
from tests.notebook_outputs import Notebook
from tests.widgets.watched import Watched


def counts(name: str = "per link") -> Plan:
    packets = source("packets", seed=1, rate="200 tuples/s", duration="4 s")
    return packets.aggregate(by=["link"], window="1 s", n="count(bytes)").sort("n desc").sink(name, delay="10 s")


def started(query: Plan | None = None) -> SimulatedApplication:
    return Simulation(4, seed=1).submit(query or counts())


def sent(view: Any, kind: str = "rows") -> list[dict[str, Any]]:
    return [content for content in view.sent if content["kind"] == kind]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that collect what they send to pages."""
    monkeypatch.setattr(watching, "QoSView", Watched)


def test_the_newest_window_is_shown_and_taken_from_nobody() -> None:
    application = started()
    application.simulation.run("2.5 s")
    view = watch(application, rows=True)
    text = view.to_text()
    newest = application.latest(100)
    assert newest["window_end"].n_unique() == 2
    assert "rows of per link: 2 rows of the newest window, from 1970-01-01 00:00:01 to 1970-01-01 00:00:02" in text
    assert application.results().height == 8
    assert "00:00:03 to 1970-01-01 00:00:04" in view.to_text(), "what came until the end"
    assert "newest window" not in watch(application).to_text(), "without rows there are none"
    view.close()


@pytest.mark.usefixtures("watched")
def test_pages_get_rows_while_they_are_open_and_none_before() -> None:
    application = started()
    view: Any = watch(application, rows=True)
    application.simulation.run("2.5 s")
    assert not sent(view), "no page is open"
    view.on_page_message("ready", "one")
    while len(sent(view)) < 2:  # within a tenth of a second after the first look
        assert view.spoke.wait(20.0)
        view.spoke.clear()
    first, second = sent(view)
    assert (first["to"], first["rows"]) == ("one", 0), "what it had"
    assert second["caption"].startswith("2 rows of the newest window, from 1970-01-01 00:00:01"), "what is new"
    application.results()
    assert sent(view)[-1]["caption"].startswith("2 rows of the newest window, from 1970-01-01 00:00:03"), "the last"
    view.on_page_message("gone", "one")
    view.close()


class Followed:
    """Follows no rows; each time it is woken, another thread asks whether somebody watches."""

    def __init__(self, watched: Callable[[], bool]) -> None:
        self._watched = watched
        self.answers: list[bool] = []

    def wake(self, *, last: bool = False) -> None:
        asking = threading.Thread(target=lambda: self.answers.append(self._watched()), daemon=True)
        asking.start()
        asking.join(20.0)
        self.answers.append(last)

    def moment(self, since: float, until: float, answer: Any) -> None:
        """Have no rows."""

    def close(self) -> None:
        """Follow nothing."""


@pytest.mark.usefixtures("watched")
def test_whoever_follows_the_rows_is_woken_while_other_threads_may_use_the_view() -> None:
    """A timer that looked at the rows as the application ended, and the view that said so, waited for each other."""
    application = started()
    view: Any = watch(application)
    followed: list[Followed] = []

    def follow(_take: Any, watched: Callable[[], bool]) -> Followed:
        followed.append(Followed(watched))
        return followed[0]

    view.show_rows("per link", application.latest(1), [], follow)
    view.on_page_message("ready", "one")
    application.results()
    view.close()
    assert followed[0].answers == [True, False, True, True]


@pytest.mark.usefixtures("watched")
def test_a_page_asks_for_the_rows_of_a_moment() -> None:
    application = started()
    application.results()
    view: Any = watch(application, rows=True)
    for turn, (since, until) in enumerate(((0.0, 1e9), (1e8, 1e9), (1e8, 1e9), ("no", 2))):
        view.say({"kind": "look", "copy": "one", "turn": turn, "first": 0, "by": "n", "since": since, "until": until})
    view.say({"kind": "look", "copy": "one", "turn": "no", "first": 0})
    every, none, again, newest = sent(view)
    assert (every["rows"], every["to"], every["caption"], every["note"]) == (8, "one", "8 rows", "")
    assert every["cells"][-1] == sorted(every["cells"][-1], key=int), "in the order that is asked for"
    assert (none["rows"], none["moment"], none["turn"]) == (0, [1e8, 1e9], 1)
    assert again == {**none, "turn": 2}, "it is not asked for again"
    assert (newest["moment"], newest["rows"], newest["turn"]) == (None, 2, 3)
    view.close()


def test_rows_in_the_order_of_their_arrival_in_a_simulation() -> None:
    application = started()
    application.simulation.run("2.2 s")
    half = application.simulation.now
    application.results()
    (sink,) = application.plan.sinks
    collected = application.simulation.world.results[application.id, sink]
    early, late = collected.between(0.0, half), collected.between(half, 1e9)
    assert early is not None
    assert late is not None
    rows = application.results()
    assert 0 < early.height < rows.height
    assert rows.equals(early.vstack(late))


def test_rows_that_come_during_a_look_are_shown_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    application = started()
    application.simulation.run("2.5 s")
    latest, seen = application.latest, list[Any]()

    def meanwhile(*given: Any) -> Any:
        found = latest(*given)
        monkeypatch.undo()
        application.simulation.run("3 s")
        return found

    def take(table: Any, _came: int, _note: str) -> float:
        seen.append(table)
        return 0.0

    monkeypatch.setattr(application, "latest", meanwhile)
    (sink,) = application.plan.sinks
    rows = SimulatedRows(application, sink, 10, take, lambda: False)
    assert seen[-1].height < latest(10).height
    rows.wake(last=True)
    rows.close()
    assert seen[-1].equals(latest(10))


@pytest.mark.parametrize("notebook", [0.0], indirect=True)
def test_a_notebook_that_is_opened_again_has_the_last_rows(notebook: Notebook) -> None:
    application = started()
    view = watch(application, rows=True)
    view._ipython_display_()
    application.results()
    view.close()
    last = notebook.replaced[-1]
    assert "Rows of per link: 2 rows of the newest window, from 1970-01-01 00:00:03 to 1970-01-01 00:00:04" in last
    assert last.count("<td") == 4, "link and n of two rows"


def test_one_of_several_sinks_is_named() -> None:
    packets = source("packets", seed=1, rate="50 tuples/s", duration="1 s")
    application = started(plan(packets.sink("all"), packets.filter("bytes > 100").sink("large"), delay="9 s"))
    application.wait()
    with pytest.raises(ValueError, match=r"sink: not given; expected one of .*'all'.*'large'"):
        watch(application, rows=True)
    assert f"rows of large: the last {application.results('large').height} rows" in (
        watch(application, rows=True, sink="large").to_text()
    )
    assert "rows of all: the last 7 rows" in watch(application, rows=7, sink="all").to_text()


@pytest.mark.parametrize("rows", [0, -1, 2_000_000, 1.5, "all"])
def test_other_numbers_of_rows_are_refused(rows: Any) -> None:
    application = started()
    with pytest.raises(ValueError, match=rf"rows: {rows!r}; expected True, False, or a number from 1 to 100000"):
        watch(application, rows=rows)


def test_only_applications_have_rows() -> None:
    with pytest.raises(ValueError, match="rows: True with a Simulation; expected an application, which has results"):
        watch(Simulation(2, seed=1), rows=True)


def test_a_view_without_rows_asks_for_none() -> None:
    view: QoSView = watch(started())
    assert view.get_state()["_rows"] == ""
    view.close()
