"""Claims of the papers in a terminal: their parameters, and our measurements beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from synergy_experiments.chapters import find
from synergy_experiments.chapters.choices import choices
from synergy_experiments.chapters.guide import guide
from synergy_experiments.framework import figures, page
from synergy_experiments.framework.claim import Claim, Result
from synergy_experiments.framework.measurements import Row
from synergy_experiments.framework.parameters import SCALES, IncompatibleParameters, Scale, Value, parse
from synergy_experiments.framework.runner import reproduce
from synergy_experiments.framework.stored import FOLDER, Origin, save
from synergy_experiments.framework.verdicts import of_claim
from synergy_nb.cli._console import Bars, fields, out
from synergy_nb.cli._input_checks import bad_input, fail, print_json, refuse
from synergy_nb.plan.terms.units import WrongValue, nearest
from synergy_nb.reporting.formatting import cell, seconds

_VERDICTS: Final = {
    "holds": ("✓", "green"),
    "holds in part": ("~", "yellow"),
    "undecided": ("?", "yellow"),
    "does not hold": ("✕", "red"),
    "not comparable": ("·", "dim"),
}
#: Words that are added to the rule of a check which does not judge a statement of the paper.
_APART: Final = {"paper": "", "own": "; our own, does not count", "fitted": "; a fitted shape, does not count"}
MOST_ROWS: Final = 24  # maximum number of rows of a table of curves; the JSON and the figure have all


def requested(
    names: Sequence[str], settings: Sequence[str], scale: str, *, or_all: bool
) -> tuple[Scale, list[tuple[Claim, Mapping[str, Value]]]]:
    """Return the scale and the claims that a user has asked for, each with the values that replace those of its set-up.

    ``names``: ids of claims, or ``all``; ``settings``: texts ``name=value``; ``scale``: name of the scale; ``or_all``:
    whether no name means all claims, rather than an error.
    """
    chosen = next((each for each in SCALES if each == scale), None)
    if chosen is None:
        refuse(f"--scale: {WrongValue(scale, 'quick or paper', nearest(scale, SCALES))}")
    if not names and not or_all:
        refuse("ID: none given; expected all, or claims such as C5; --list lists them")
    with bad_input("ID"):
        found = find(list(names) or ["all"])
    with bad_input("--set"):
        given = parse(settings, [claim.parameters for claim in found])
    return chosen, list(zip(found, given, strict=True))


def run(
    claims: Sequence[tuple[Claim, Mapping[str, Value]]],
    *,
    scale: Scale,
    seed: int,
    repeat: int | None,
    processes: int,
    plot: Path | None,
    store: Path | None,
    as_json: bool,
) -> None:
    """Reproduce claims, and print each as soon as it is measured; as JSON print all at the end, several as a list.

    A cell that fails loses no other; all failures are told at the end.
    """
    origin = Origin.here() if store is not None else None
    if plot is not None:
        with bad_input("--plot"):
            figures.prepare_folder(plot)
    found: list[Result] = []
    with Bars() as bars:
        display = _ProgressDisplay(bars)
        try:
            for result in reproduce(
                claims, scale=scale, seed=seed, repeat=repeat, processes=processes, progress=display
            ):
                if store is not None:
                    save(result, store, origin)
                drawn = result if plot is None else replace(result, figures=(str(figures.draw(result, plot)),))
                found.append(drawn)
                if not as_json:
                    show_result(drawn)
        except IncompatibleParameters as error:
            refuse(str(error))
        except (ValueError, RuntimeError, OSError, TimeoutError) as error:
            fail(f"{display.claim}: {error}")
    if as_json:
        printed = [result.to_dict() | {"verdict": _verdict(result)} for result in found]
        print_json(printed if len(printed) != 1 else printed[0])
    failed = [f"{result.claim.id}: {each}" for result in found for each in result.failed]
    if failed:
        fail("\n".join(failed))


def write_page(claims: Sequence[Claim], results: Path | None, path: Path) -> None:
    """Write the page of claims from stored results, by default those of the package, and say which have none."""
    folder = results or FOLDER
    if results is not None and not results.is_dir():
        refuse(f"--results: {str(results)!r}; expected a folder")
    with bad_input("--page"):
        figures.prepare_folder(path.parent)
    known = choices()
    shown = [(claim, known[claim.id]) for claim in claims if claim.id in known]
    with bad_input("--results"), Bars() as bars:
        bars.stage("drawing the page")
        missing = page.write_page(shown, guide(), folder, path, lambda _, done, total: bars.share(done / total))
    out.print(f"written  {path}", markup=False, soft_wrap=True)
    if missing:
        out.print(f"without a stored result: {', '.join(missing)}", markup=False)


class _ProgressDisplay:
    """Displays the progress of the claims."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self.claim = ""

    def __call__(self, claim: str, done: int, cells: int) -> None:
        """Display that ``done`` of the ``cells`` of a claim are measured."""
        if claim != self.claim:
            self.claim = claim
            self._bars.stage(f"reproducing {claim}")
        self._bars.share(done / cells if cells else 1.0)


def list_dict(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Claims with their parameters, as plain values."""
    return [
        {
            "id": claim.id,
            "title": claim.title,
            "source": claim.source,
            "says": claim.says,
            "parameters": {
                name: {"about": each.about, "quick": each.quick, "paper": each.paper}
                for name, each in claim.parameters.items()
            },
            "repeat": {"quick": claim.repeat[0], "paper": claim.repeat[1]},
        }
        for claim in claims
    ]


def show_list(claims: Sequence[Claim], *, parameters: bool, as_json: bool) -> None:
    """Print a row for each claim; with ``parameters``, also its parameters."""
    if as_json:
        print_json(list_dict(claims))
        return
    for claim in claims:
        line = Table.grid(padding=(0, 2))
        line.add_column(width=4, style="bold")
        line.add_column(overflow="fold")
        line.add_row(claim.id, f"{claim.title} ({claim.source})")
        out.print(line)
        if not parameters:
            continue
        out.print(Text(claim.says, style="dim"))
        table = Table(box=None, pad_edge=False)
        table.add_column("--set", no_wrap=True, style="bold")
        table.add_column("quick", overflow="fold")
        table.add_column("paper", overflow="fold")
        table.add_column("what", overflow="fold", style="dim")
        for name, each in claim.parameters.items():
            table.add_row(name, _value(each.quick), _value(each.paper), each.about)
        out.print(table)


def show_result(result: Result) -> None:
    """Print the set-up of a claim, a table for each metric of its figure, and the checks."""
    claim = result.claim
    out.print(Text(f"\n{claim.id}  {claim.title}", style="bold"))
    fields(
        [
            ("paper", f"{claim.source}: {claim.says}"),
            ("set-up", ", ".join(f"{name} {_value(value)}" for name, value in result.setup.items())),
            ("took", f"{seconds(result.seconds)} of measuring"),
        ]
    )
    for panel in claim.panels:
        rows = [row for row in result.rows if row.metric == panel.metric]
        if rows:
            out.print()
            _show_rows(rows, claim.xlabel, panel.ylabel, panel.factor)
    out.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("", width=1)
    table.add_column("claim", overflow="fold")
    table.add_column("paper", overflow="fold", min_width=5)
    table.add_column("ours", overflow="fold", min_width=5)
    table.add_column("verdict", no_wrap=True)
    for check in result.checks:
        mark, colour = _VERDICTS[check.verdict]
        name = Text(check.name).append(f"\n{check.rule}{_APART[check.judges]}", style="dim")
        verdict = Text(check.verdict, style=colour)
        ours = Text(_number(check.ours))
        if check.low is not None and check.high is not None:
            ours.append(f"\n{check.low:.3g} to {check.high:.3g}", style="dim")
        table.add_row(Text(mark, style=colour), name, _number(check.paper), ours, verdict)
    out.print(table)
    out.print(Text(f"\n{claim.id}: {_verdict(result)}", style="bold"))
    for path in result.figures:
        out.print(f"figure  {path}", markup=False, soft_wrap=True)


def _verdict(result: Result) -> str:
    """Return the verdict of a claim in one word."""
    return of_claim(result.checks, whole=not result.failed)


def _show_rows(rows: Sequence[Row], xlabel: str, ylabel: str, factor: float) -> None:
    """Print a line for each point and a column for each algorithm; ± is half of the interval."""
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    places = list(dict.fromkeys(row.x for row in rows))
    table = Table(box=None, pad_edge=False, title=ylabel, title_justify="left", title_style="")
    table.add_column(xlabel, no_wrap=True, justify="right")
    for name in algorithms:
        table.add_column(name, justify="right")
    found = {(row.x, row.algorithm): row for row in rows}
    step = -(-len(places) // MOST_ROWS)
    for place in places[::step]:
        cells = [_mean(found.get((place, name)), factor) for name in algorithms]
        table.add_row(f"{place:g}" if isinstance(place, float | int) else place, *cells)
    out.print(table)


def _mean(row: Row | None, factor: float) -> str:
    if row is None:
        return ""
    value = f"{row.value * factor:.4g}"
    if row.low is None or row.high is None:
        return value
    return f"{value} ± {(row.high - row.low) / 2.0 * factor:.2g}"


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_value(each) for each in value) or "none"
    return "none" if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | str | None) -> str:
    return "not measured" if value is None else f"{value:.3g}" if isinstance(value, float) else cell(value)
