"""Where a user sees what a call is waiting for: in the output of the cell, or at the terminal.

Nothing is written into pipes and files, nor if :data:`QUIET` is set.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from synergy_nb.drawing.notebook_views import running_shell
from synergy_nb.runtime.client.waiting_display import Display

__all__ = ["QUIET", "NotebookLine", "TerminalLine", "line_for", "quiet"]

#: Environment variable; any text in it disables the line.
QUIET: Final = "SYNERGY_QUIET"

_silenced = False


class TerminalLine:
    """A line with a spinner on the standard error."""

    def __init__(self) -> None:
        self._status: Any = None

    def show(self, line: str) -> None:
        """Replace the line."""
        from rich.console import Console  # noqa: PLC0415 - seldom needed, and slow to import
        from rich.text import Text  # noqa: PLC0415

        if self._status is None:
            self._status = Console(stderr=True, highlight=False).status(Text(line))
            self._status.start()
        else:
            self._status.update(Text(line))

    def clear(self) -> None:
        """Remove the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class NotebookLine:
    """A line in the output of a cell, updated in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str) -> None:
        """Replace the line."""
        if self._handle is None:
            shown = importlib.import_module("IPython.display")  # it is installed: a notebook's kernel is running
            self._handle = shown.display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": line}, raw=True)

    def clear(self) -> None:
        """Remove the line, so that nothing remains visible."""
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)
            self._handle = None


def quiet() -> None:
    """Disable these lines in this process, because it reports its progress in another form, as the command does."""
    global _silenced  # noqa: PLW0603 - a property of the process
    _silenced = True


def line_for(_text: Callable[[], str]) -> Display | None:
    """Return the output of this process for a line about what a call waits for; None if there is none."""
    if _silenced or os.environ.get(QUIET):
        return None
    if hasattr(running_shell(), "kernel"):
        return NotebookLine()
    return TerminalLine() if sys.stderr.isatty() else None
