"""Figures of claims as vector graphics: our numbers with intervals, and the paper's numbers if it states any.

Colours are those of Okabe and Ito, which can be distinguished with any colour vision; every line also has its own
marker, every group of bars a hatch. The paper's numbers are hollow stars. matplotlib is imported on the first drawing.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from synergy_experiments.framework.claim import Panel, Result
from synergy_experiments.framework.measurements import Coordinate, Point, Row

__all__ = ["draw", "prepare_folder", "write"]

SIZE: Final = (5.2, 3.6)  # width and height of a panel, inches
LEGEND_ROW: Final = 0.15  # height of a row of a legend, inches
LABEL_LETTERS: Final = 14  # letters of a legend in an inch of a panel, whose axes are narrower
COLUMNS: Final = 4  # largest number of panels in a row
LETTERS_IN_A_ROW: Final = 48  # largest number of letters of all group names in a row; longer ones are slanted


class _Style(NamedTuple):
    """Colour and marker of a line, and hatch of a bar."""

    colour: str
    marker: str
    hatch: str


# Without yellow, which is hardly visible on white.
_STYLES: Final = (
    _Style("#0072B2", "o", ""),
    _Style("#D55E00", "s", "//"),
    _Style("#009E73", "^", ".."),
    _Style("#CC79A7", "D", "xx"),
    _Style("#56B4E9", "v", "\\\\"),
    _Style("#E69F00", "P", "++"),
    _Style("#000000", "X", "oo"),
    _Style("#7F7F7F", "<", "--"),
)
#: Style of each policy, the same in all figures.
_STYLE_OF_POLICY: Final = {
    name: _STYLES[number]
    for number, name in enumerate(
        ("synergy", "composition", "composition+projection", "greedy", "random", "projection", "optimum", "isolated")
    )
}


def prepare_folder(folder: Path) -> None:
    """Create the folder for figures, and check that figures can be drawn.

    Raises
    ------
    ValueError
        If that is not possible, or matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("matplotlib is not installed; expected it for figures: pip install 'synergy-nb[experiments]'")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{str(folder)!r}: {error.strerror}; expected a folder that can be written") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{str(folder)!r} cannot be written; expected a folder that can")


def draw(result: Result, folder: Path) -> Path:
    """Draw the results of a claim to ``ID.svg`` in ``folder``."""
    path = folder / f"{result.claim.id}.svg"
    with path.open("wb") as file:
        write(result, file)
    return path


def write(result: Result, file: BinaryIO, most: int | None = None) -> None:
    """Write the figure of a result as SVG to a file, with its first ``most`` panels (None: all)."""
    import matplotlib as mpl  # noqa: PLC0415 - needed for drawing only
    from matplotlib.figure import Figure  # noqa: PLC0415

    claim = result.claim
    panels = [panel for panel in claim.panels if any(row.metric == panel.metric for row in result.rows)][:most]
    shown = {panel.metric for panel in panels}
    styles = _styles(
        _algorithm_names(
            [row for row in result.rows if row.metric in shown],
            [point for point in claim.paper if point.metric in shown],
        )
    )
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": claim.id, "font.size": 9.0, "axes.grid": True,
                         "grid.alpha": 0.3, "axes.axisbelow": True, "axes.spines.top": False,
                         "axes.spines.right": False, "hatch.linewidth": 0.5}):  # fmt: skip
        columns = min(max(len(panels), 1), COLUMNS)
        rows_of_panels = -(-max(len(panels), 1) // columns)
        figure = Figure(figsize=(SIZE[0] * columns, SIZE[1] * rows_of_panels), layout="constrained")
        in_legends = 0
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows_of_panels, columns, number)
            rows = [row for row in result.rows if row.metric == panel.metric]
            paper = [point for point in claim.paper if point.metric == panel.metric]
            (_bars if panel.kind == "bars" else _lines)(axes, panel, rows, paper, styles)
            axes.set_xlabel(panel.xlabel or claim.xlabel)
            axes.set_ylabel(panel.ylabel)
            if panel.logarithmic:
                axes.set_yscale("log")
            elif panel.kind != "points" and all(row.value >= 0.0 for row in rows):
                axes.set_ylim(bottom=0.0)
            for value, label in panel.bounds:
                axes.axhline(value * panel.factor, color="#000000", linewidth=0.8, linestyle=":", label=label)
            _whole_ticks(axes, panel, rows, paper)
            in_legends = max(in_legends, _legend(axes))
        figure.set_figheight((SIZE[1] + LEGEND_ROW * in_legends) * rows_of_panels)
        figure.suptitle(f"{claim.id}: {claim.title}", fontsize=10)
        figure.savefig(file, format="svg", metadata={"Date": None})


def _legend(axes: Any) -> int:
    """Add a legend above a panel, where it covers nothing; return the number of its rows."""
    labels = axes.get_legend_handles_labels()[1]
    if not labels:
        return 0
    columns = max(1, int(SIZE[0] * LABEL_LETTERS / (max(map(len, labels)) + 6)))  # letters, and the sample of a line
    columns = min(columns, len(labels))
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
    axes.legend(fontsize=7.5, frameon=False, borderaxespad=0.2, **above)
    return -(-len(labels) // columns)


def _whole_ticks(axes: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point]) -> None:
    """Have ticks at whole numbers where all coordinates are whole: there are no 2.5 peers."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - needed for drawing only

    coordinates = [row.x for row in rows] + [point.x for point in paper]
    values = [row.value * panel.factor for row in rows] + [point.value * panel.factor for point in paper]
    if panel.kind != "bars" and all(float(each).is_integer() for each in coordinates):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not panel.logarithmic and all(each.is_integer() for each in values):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _styles(algorithms: Sequence[str]) -> dict[str, _Style]:
    free = [style for style in _STYLES if style not in {_STYLE_OF_POLICY.get(name) for name in algorithms}]
    found: dict[str, _Style] = {}
    for name in algorithms:
        known = _STYLE_OF_POLICY.get(name)
        found[name] = known if known is not None else free.pop(0) if free else _STYLES[len(found) % len(_STYLES)]
    return found


def _algorithm_names(rows: Sequence[Row], paper: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys([row.algorithm for row in rows] + [point.algorithm for point in paper]))


def _error_bars(rows: Sequence[Row], factor: float) -> list[list[float]] | None:
    """Return the lengths of the error bars below and above the values; None with one repetition."""
    if all(row.low is None for row in rows):
        return None
    below = [(row.value - row.low) * factor if row.low is not None else 0.0 for row in rows]
    above = [(row.high - row.value) * factor if row.high is not None else 0.0 for row in rows]
    return [below, above]


def _lines(axes: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point], styles: Mapping[str, _Style]) -> None:
    """Draw a panel of lines, curves or points, and the paper's numbers as stars."""
    factor = panel.factor
    for name in _algorithm_names(rows, paper):
        style = styles[name]
        own = sorted((row for row in rows if row.algorithm == name), key=lambda row: float(row.x))
        if own and panel.kind == "curves":
            axes.plot(
                [row.x for row in own],
                [row.value * factor for row in own],
                color=style.colour,
                marker=style.marker,
                markevery=max(len(own) // 12, 1),
                markersize=4.0,
                linewidth=1.0,
                label=name,
            )
        elif own:
            axes.errorbar(
                [row.x for row in own],
                [row.value * factor for row in own],
                yerr=None if panel.runs else _error_bars(own, factor),
                color=style.colour,
                linestyle="none" if panel.kind == "points" else "-",
                marker=style.marker,
                markersize=5.0,
                linewidth=1.2,
                capsize=2.5,
                label=name,
            )
        stars = [point for point in paper if point.algorithm == name]
        if stars:
            axes.plot(
                [point.x for point in stars],
                [point.value * factor for point in stars],
                linestyle="none",
                marker="*",
                markersize=11.0,
                markerfacecolor="none",
                markeredgecolor=style.colour,
                label=f"{name}, paper",
            )


def _bars(axes: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point], styles: Mapping[str, _Style]) -> None:
    """Draw a panel of bars in groups, and the paper's numbers as stars."""
    algorithms = _algorithm_names(rows, paper)
    places: list[Coordinate] = list(dict.fromkeys([row.x for row in rows] + [point.x for point in paper]))
    width = 0.8 / max(len(algorithms), 1)
    factor = panel.factor
    for number, name in enumerate(algorithms):
        style = styles[name]
        shift = (number - (len(algorithms) - 1) / 2.0) * width
        own = [row for row in rows if row.algorithm == name]
        if own:
            axes.bar(
                [places.index(row.x) + shift for row in own],
                [row.value * factor for row in own],
                width,
                yerr=_error_bars(own, factor),
                color=style.colour,
                hatch=style.hatch,
                edgecolor="white",
                capsize=2.0,
                label=name,
            )
        stars = [point for point in paper if point.algorithm == name]
        if stars:
            axes.plot(
                [places.index(point.x) + shift for point in stars],
                [point.value * factor for point in stars],
                linestyle="none",
                marker="*",
                markersize=11.0,
                markerfacecolor="white",
                markeredgecolor=style.colour,
                label=f"{name}, paper",
            )
    labels = [str(place) for place in places]
    slanted = {"rotation": 25, "ha": "right"} if sum(map(len, labels)) > LETTERS_IN_A_ROW else {}
    axes.set_xticks(range(len(places)), labels, **slanted)
