"""Long calls display what they wait for: at a terminal and in a notebook, never in a pipe."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any, cast

import pytest
from rich.console import Console

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.notebook import waiting_lines
from synergy_nb.notebook.waiting_lines import QUIET, NotebookLine, TerminalLine
from synergy_nb.runtime.client import waiting_display
from synergy_nb.runtime.client._synchronous import LoopThread
from synergy_nb.runtime.client.waiting_display import EVERY, FIRST, Display, WaitingDisplay


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


class Shown:
    """A display that keeps what it shows."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, line: str) -> None:
        self.lines.append(line)

    def clear(self) -> None:
        self.lines.append("cleared")


def test_the_line_appears_within_two_seconds_is_updated_and_removed() -> None:
    clock, shown, said = Clock(), Shown(), ["starting 8 peers"]
    line = WaitingDisplay(lambda: said[-1], shown, clock)
    began = clock.now
    while not shown.lines:
        clock.now += 0.1
        line.tick()
    assert FIRST <= clock.now - began + 1e-9 < 2.0
    assert shown.lines == ["starting 8 peers … 1 s"]
    line.tick()
    assert len(shown.lines) == 1
    said.append("6 of 8 peers are in the ring")
    clock.now += EVERY
    line.tick()
    assert shown.lines[-1].startswith("6 of 8 peers are in the ring … ")
    line.close()
    line.close()
    assert shown.lines.count("cleared") == 1


def test_a_quick_call_shows_nothing() -> None:
    clock, shown = Clock(), Shown()
    line = WaitingDisplay(lambda: "composing", shown, clock)
    clock.now += FIRST / 2
    line.tick()
    line.close()
    assert not shown.lines


def test_an_empty_text_is_not_shown() -> None:
    clock, shown = Clock(), Shown()
    line = WaitingDisplay(str, shown, clock)
    clock.now += 10
    line.tick()
    assert not shown.lines


@pytest.mark.parametrize("blocking", [False, True])
def test_a_coroutine_shows_its_progress_unless_its_caller_does(
    monkeypatch: pytest.MonkeyPatch, *, blocking: bool
) -> None:
    shown = Shown()
    monkeypatch.setattr(waiting_lines, "line_for", lambda _: shown)
    monkeypatch.setattr(waiting_display, "FIRST", 0.0)

    told = asyncio.Event()

    def doing(client: AsyncClient, plan: str) -> str:
        told.set()
        return f"composing {plan} for {client.name}"

    class AsyncClient:
        name = "pairs"

        @waiting_display.displays_waiting(doing)
        async def submit(self, plan: str) -> str:
            await told.wait()  # until its line has been asked for
            return await self.inner(plan)

        @waiting_display.displays_waiting(lambda *_: "what nobody hears")
        async def inner(self, plan: str) -> str:
            return plan.upper()

    if blocking:
        thread = LoopThread()
        try:
            assert thread.run(AsyncClient().submit("top")) == "TOP"
        finally:
            thread.close()
    else:
        assert asyncio.run(AsyncClient().submit("top")) == "TOP"
    assert {line.partition(" …")[0] for line in shown.lines} == {"composing top for pairs", "cleared"}


class Shell:
    kernel = object()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def display() -> Display | None:
    """What a call that waits is shown by."""
    return cast("Display | None", view_of("waiting", str))


def test_the_output_depends_on_terminal_or_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_lines, "_silenced", False)
    monkeypatch.delenv(QUIET, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", type("Python", (), {"get_ipython": staticmethod(lambda: None)}))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert display() is None  # a pipe
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(display(), TerminalLine)
    monkeypatch.setitem(sys.modules, "IPython", type("Python", (), {"get_ipython": staticmethod(Shell)}))
    assert isinstance(display(), NotebookLine)
    monkeypatch.setenv(QUIET, "1")
    assert display() is None
    monkeypatch.delenv(QUIET)
    waiting_lines.quiet()
    assert display() is None


def test_a_terminal_shows_a_line_that_is_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=written, force_terminal=True, width=80))
    line = TerminalLine()
    line.show("starting 8 peers … 1 s")
    line.show("starting [8] peers … 2 s")
    line.clear()
    line.clear()
    assert "starting [8] peers … 2 s" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")  # the line is erased


def test_a_notebook_has_one_output_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, data: Any, **_: Any) -> None:
            shown.append(data)

    def place(data: Any, **options: Any) -> Handle:
        assert options == {"raw": True, "display_id": True}
        shown.append(data)
        return Handle()

    monkeypatch.setattr("IPython.display.display", place)
    line = NotebookLine()
    line.show("one")
    line.show("two")
    line.clear()
    line.clear()
    assert [each["text/plain"] for each in shown] == ["one", "two", ""]
