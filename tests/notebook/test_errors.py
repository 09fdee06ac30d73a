"""Errors in a notebook: the user's own line and the message; all frames by %tb; errors of others unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from synergy_nb import errors
from synergy_nb.errors import SynergyError, brief, user_facing
from synergy_nb.notebook import short_errors
from synergy_nb.notebook.short_errors import FULL
from synergy_nb.plan import source
from synergy_nb.runtime.client._synchronous import LoopThread
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.process.requests import ApplicationState, ClusterError, NotAdmitted

MESSAGE = "filter: no peer has room"


class Notebook:
    """Cells that are run by a real IPython; what it would show of an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shell = InteractiveShell.instance()
        self.shell.colors = "nocolor"
        self.shown: list[str] = []
        monkeypatch.setattr(
            self.shell, "_showtraceback", lambda _kind, _error, lines: self.shown.append("\n".join(lines))
        )

    def run(self, cell: str, **names: Any) -> str:
        """What is shown of the error of a cell."""
        self.shell.user_ns.update(names)
        self.shown.clear()
        self.shell.run_cell(cell, store_history=True)  # type: ignore[no-untyped-call]
        (shown,) = self.shown
        return shown


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.delenv(FULL, raising=False)
    yield Notebook(monkeypatch)
    InteractiveShell.clear_instance()


def within(shown: str) -> list[str]:
    """Files of our own package that are named in what is shown."""
    return [line for line in shown.splitlines() if "synergy_nb/" in line or "synergy_nb\\" in line]


@pytest.mark.slow
def test_a_plan_error_is_the_users_line_and_the_message(notebook: Notebook) -> None:
    shown = notebook.run("from synergy_nb import source\n\nplan = source('packets').filter('bytez > 1').sink()\n")
    lines = [line for line in shown.splitlines() if line.strip()]
    assert lines[0].startswith("Cell In[")
    assert lines[0].endswith("line 3")
    assert lines[1] == "----> 3 plan = source('packets').filter('bytez > 1').sink()"
    assert lines[2] == "PlanError: the plan has a problem:"
    assert "bytez" in shown
    assert not within(shown)
    assert len(lines) < 8


@pytest.mark.slow
def test_every_frame_is_shown_when_asked_for(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "from synergy_nb import source\nsource('packetz').sink()"
    first = notebook.run(cell)
    assert not within(first)
    assert "%tb" in first
    notebook.shown.clear()
    notebook.shell.run_line_magic("tb", "")
    assert within(notebook.shown[0])
    monkeypatch.setenv(FULL, "full")
    assert within(notebook.run(cell))


async def refused() -> None:
    try:
        raise ConnectionError("refused by the network")
    except ConnectionError as error:
        raise NotAdmitted(MESSAGE) from error


def test_an_error_that_went_through_the_loops_thread_is_shown_alike(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "OURS", (*errors.OURS, __file__))  # as if this file were a module of the runtime
    thread = LoopThread()
    try:
        shown = notebook.run("def ask():\n    thread.run(refused())\n\nask()", thread=thread, refused=refused)
    finally:
        thread.close()
    assert "----> 4 ask()" in shown
    assert "line 2, in ask" in shown
    assert f"NotAdmitted: {MESSAGE}" in shown
    assert "refused by the network" not in shown


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("from synergy_nb import source\nsource('packets').filter('a > 1', hostt='a')", "TypeError: filter: unknown"),
        ("from synergy_nb import CompositionConfig\nCompositionConfig(ratio=0)", "ValueError: ratio: 0; expected"),
        ("from synergy_nb import watch\nwatch(3)", "watch: an int; expected an application, a cluster, a"),
        ("from synergy_nb import Cluster\nCluster(0)", "ValueError: peers: 0; expected a number of at least 1"),
        ("from synergy_nb import start_cluster\nawait start_cluster(0)", "ValueError: peers: 0; expected"),
        ("from synergy_nb import WideArea\nWideArea([[0, 1], [1, 0]], bandwidth=0)", "ValueError: bandwidth: 0"),
    ],
)  # fmt: skip
def test_expected_errors_of_plain_types_are_brief(notebook: Notebook, cell: str, said: str) -> None:
    shown = notebook.run(cell)
    assert f"----> 2 {cell.splitlines()[1]}" in shown
    assert said in shown
    assert not within(shown)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("await application.results(seconds='soon')", "ValueError: seconds: 'soon'; expected a duration"),
        ("await application.head(-1)", "ValueError: n: -1; expected a number of rows"),
        ("await application.wait('2 parsecs')", "ValueError: timeout: '2 parsecs'; expected a duration"),
        ("async for _ in application.stream('nowhere'): pass", "ClusterError: sink: 'nowhere'; expected one of sink"),
    ],
)
def test_errors_of_awaited_methods_are_brief(notebook: Notebook, line: str, said: str) -> None:
    plan = source("packets").sink()
    application = AsyncApplication(None, plan, "", ApplicationState("r1", "running"))  # type: ignore[arg-type]
    shown = notebook.run(f"pass\n{line}", application=application)
    assert f"----> 2 {line}" in shown
    assert said in shown
    assert not within(shown)


def test_the_users_own_error_in_a_feed_is_shown_with_its_line(notebook: Notebook) -> None:
    cell = """
def readings():
    raise OSError("the sensor is gone")

try:
    readings()
except OSError as error:
    raise ClusterError("its feed raised OSError: the sensor is gone") from error
"""
    shown = notebook.run(cell, ClusterError=ClusterError)
    assert '----> 2 raise OSError("the sensor is gone")' in shown
    assert shown.index("OSError: the sensor is gone") < shown.index("which led to") < shown.index("ClusterError")


def test_errors_of_others_and_our_own_bugs_are_shown_in_full(notebook: Notebook) -> None:
    @user_facing
    def buggy() -> None:
        dict[str, int]()["key"]

    assert "in called" in notebook.run("buggy()", buggy=buggy) or "called(" in notebook.shown[0]
    shown = notebook.run("def f():\n    return 1 / 0\nf()")
    assert "ZeroDivisionError" in shown
    assert "%tb" not in shown
    assert not hasattr(ValueError("another's"), "_render_traceback_")


def test_an_error_that_is_raised_again_is_brief_again(notebook: Notebook) -> None:
    error = ClusterError(MESSAGE)
    for cell in ("raise error", "\nraise error"):
        shown = notebook.run(cell, error=error)
        assert "%tb" in shown
        assert MESSAGE in shown


def test_without_a_line_of_the_user_every_frame_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_errors, "_users", lambda _file: False)
    with pytest.raises(SynergyError) as caught:
        raise ClusterError(MESSAGE)
    assert "Traceback" in "".join(caught.value._render_traceback_()) or MESSAGE in "".join(
        caught.value._render_traceback_()
    )


def test_only_expected_errors_of_this_package_are_marked() -> None:
    def users() -> None:
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match="own") as caught:
        users()
    assert not hasattr(brief(caught.value), "_render_traceback_")
    with pytest.raises(ValueError, match="peers") as refusal:
        asyncio.run(_start())
    assert hasattr(refusal.value, "_render_traceback_")


async def _start() -> None:
    from synergy_nb import start_cluster

    await start_cluster(0)
