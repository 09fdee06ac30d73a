"""Output of the command line: results to the standard output, everything else to the standard error."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from synergy_nb.runtime.client.waiting_display import quiet

__all__ = ["Bars", "err", "fields", "out"]

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class Bars:
    """Progress of a job: a bar at a terminal, and one line a stage if the output goes to a file."""

    def __init__(self) -> None:
        self._watched = sys.stderr.isatty()
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/green]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Bars:
        quiet()
        if self._watched:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watched:
            self._finish()
            self._progress.stop()

    def stage(self, text: str) -> None:
        """Begin the next stage."""
        if not self._watched:
            err.print(f"· {text}", markup=False)
            return
        self._finish()
        self._task = self._progress.add_task(text, total=None)

    def note(self, text: str) -> None:
        """Print a warning, except at a terminal, where the client has displayed it already."""
        if not self._watched:
            err.print(f"! {text}", markup=False)

    def share(self, done: float) -> None:
        """Set the share of the stage that is done, from 0 to 1."""
        if self._watched and self._task is not None:
            self._progress.update(self._task, total=1.0, completed=done)

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1.0, completed=1.0)


def fields(rows: list[tuple[str, str]]) -> None:
    """Print names and values in two columns; long values wrap within theirs."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    out.print(table)
