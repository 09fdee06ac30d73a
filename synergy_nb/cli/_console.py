"""Output of the command line: results to the standard output, everything else to the standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from synergy_nb.notebook.waiting_lines import quiet
from synergy_nb.reporting.formatting import seconds

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


LINE_EVERY: Final = 60.0  # seconds between two lines of the same stage in a file
TELLING: Final = 10.0  # seconds after which the rest of a stage is estimated


class Bars:
    """Progress of a job: a bar at a terminal, or a line for each stage and minute if the output goes to a file."""

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
        self._stage = ""
        self._begun: tuple[float, float] | None = None  # time and share at the first report of the stage
        self._told = 0.0  # time of the last line

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
        self._finish()
        self._stage, self._begun, self._told = text, None, time.monotonic()
        if not self._watched:
            err.print(f"· {text}", markup=False)
            return
        self._task = self._progress.add_task(text, total=None)

    def note(self, text: str) -> None:
        """Print a warning, except at a terminal, where the client has displayed it already."""
        if not self._watched:
            err.print(f"! {text}", markup=False)

    def share(self, done: float) -> None:
        """Set the share of the stage that is done, from 0 to 1, and estimate how long the rest will take."""
        now = time.monotonic()
        since, before = self._begun = self._begun or (now, done)
        text = self._stage
        if before < done < 1.0 and now - since >= TELLING:
            left = (now - since) * (1.0 - done) / (done - before)
            text = f"{self._stage}: {done:.0%} done, about {seconds(left)} left"
        self._show(text, done, now)

    def told(self, text: str, done: float, left: float | None) -> None:
        """Set the share of the stage that is done, from 0 to 1, with a text, and the seconds that are left."""
        rest = f", about {seconds(left)} left" if left is not None and 0.0 < done < 1.0 else ""
        self._show(f"{text}, {done:.0%} done{rest}", done, time.monotonic())

    def _show(self, text: str, done: float, now: float) -> None:
        if self._watched and self._task is not None:
            self._progress.update(self._task, total=1.0, completed=done, description=text)
        elif not self._watched and text != self._stage and now - self._told >= LINE_EVERY:
            self._told = now
            err.print(f"· {text}", markup=False)

    def _finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1.0, completed=1.0, description=self._stage)


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
