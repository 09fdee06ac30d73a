"""Figures of claims as vector graphics: our numbers with intervals, and the paper's numbers if it states any.

A panel is as wide as half of a screen, and its letters are at least :data:`SMALLEST` high there. Colours are those of
Okabe and Ito, which can be distinguished with any colour vision; every line also has its own marker, every group of
bars a hatch. The paper's numbers are hollow stars. matplotlib is imported on the first drawing.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from synergy_experiments.framework.claim import Panel, Result
from synergy_experiments.framework.measurements import Coordinate, Point, Row

__all__ = ["describe", "draw", "drawn_panels", "height_of", "lines_of", "panel_svg", "prepare_folder", "write"]

WIDTH: Final = 6.1  # width of a panel, inches
HEIGHT: Final = 3.2  # height of a panel without its legend, inches
PIXELS: Final = 96.0  # of an inch, in a browser
SMALLEST: Final = 11.0 * 72.0 / PIXELS  # least size of letters, points: 11 px
LETTERS: Final = 9.5  # size of letters, points
LINE: Final = 0.18  # height of a line of letters, inches
LETTERS_IN_A_LINE: Final = 70  # letters that a panel is wide
NAME_LINES: Final = 3  # most lines of the name of a group below standing bars; with longer ones, bars lie
GROUP: Final = 0.13  # height of a lying bar, inches
CLOSE: Final = 0.7  # share of the greatest value above which all values of a panel of lines are close
COLUMNS: Final = 2  # largest number of panels in a row
INDENTED: Final = re.compile(r"\n\s+")
ATTRIBUTE: Final = re.compile(r'"[^"<>]*"')  # of an element; the text of ticks is between elements
DIGITS: Final = re.compile(r"(\d\.\d\d)\d+")  # a number with more than the hundredths of a point, which nobody sees


class _Style(NamedTuple):
    """Colour, marker and dashes of a line, and hatch of a bar."""

    colour: str
    marker: str
    hatch: str
    dashes: str = "-"


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


#: Names of policies and formulas as texts write them.
_WRITTEN: Final = {
    "llf": "LLF", "maxrate": "MaxRate", "mm1": "M/M/1", "mg1": "M/G/1", "rod": "ROD", "on/off": "ON/OFF",
    **{name: name.capitalize() for name in ("synergy", "composition", "greedy", "random", "partition", "connected")},
    **{name: name.capitalize() for name in ("correlation", "optimal", "latency")},
}  # fmt: skip
ROOM: Final = 0.6  # of the greatest value: intervals may be so much beyond the values before they are cut off


def _written(name: str) -> str:
    """Return the name of a line as texts write it.

    >>> _written("llf"), _written("synergy by delay")
    ('LLF', 'Synergy by delay')
    """
    word, space, rest = name.partition(" ")
    return _WRITTEN.get(name) or f"{_WRITTEN.get(word, word)}{space}{rest}"


def _of_paper(name: str) -> str:
    """Return the label of the paper's numbers of a line.

    >>> _of_paper("random"), _of_paper("random, paper"), _of_paper("dissertation")
    ('Random, paper', 'Random, paper', 'the dissertation')
    """
    return "the dissertation" if name == "dissertation" else f"{_written(name.removesuffix(', paper'))}, paper"


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
    panels = drawn_panels(result)[:most]
    file.write(_svg(result, panels, f"{result.claim.id}: {result.claim.title}").encode("utf-8"))


def drawn_panels(result: Result) -> list[Panel]:
    """Return the panels of a result for which something was measured."""
    measured = {row.metric for row in result.rows}
    return [panel for panel in result.claim.panels if panel.metric in measured]


def panel_svg(result: Result, panel: Panel) -> str:
    """Return one panel of a result as SVG."""
    return _svg(result, [panel], "")


def _svg(result: Result, panels: Sequence[Panel], title: str) -> str:
    """Return panels as SVG, below a title if that is not empty."""
    import matplotlib as mpl  # noqa: PLC0415 - needed for drawing only

    salt = f"{result.claim.id} {' '.join(panel.metric for panel in panels)}"
    with mpl.rc_context(_STYLE_SHEET | {"svg.hashsalt": salt}):
        file = io.BytesIO()
        _figure(result, panels, title).savefig(file, format="svg", metadata={"Date": None})
    text = ATTRIBUTE.sub(lambda found: DIGITS.sub(r"\1", found[0]), file.getvalue().decode("utf-8"))
    return INDENTED.sub("\n", text)


_STYLE_SHEET: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    **dict.fromkeys(
        ("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize", "xtick.labelsize", "ytick.labelsize"),
        LETTERS,
    ),
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
}


def _figure(result: Result, panels: Sequence[Panel], title: str) -> Any:
    """Return panels as a figure of matplotlib, with its layout."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - needed for drawing only

    columns = min(max(len(panels), 1), COLUMNS)
    lines = -(-max(len(panels), 1) // columns)
    heights = [height_of(result, panel) for panel in panels] or [HEIGHT]
    of_lines = [max(heights[number * columns : (number + 1) * columns]) for number in range(lines)]
    head = textwrap.wrap(title, LETTERS_IN_A_LINE * columns)
    figure = Figure(figsize=(WIDTH * columns, sum(of_lines) + len(head) * 2.0 * LINE), layout="constrained")
    places = figure.subfigures(lines, columns, squeeze=False, height_ratios=of_lines).flat
    for place, panel in zip(places, panels, strict=False):
        _draw_panel(place, result, panel)
    if head:
        figure.suptitle("\n".join(head), fontsize=LETTERS + 1.5)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")  # else it is drawn once more before it is written
    return figure


def _measured(result: Result, panel: Panel) -> tuple[list[Row], list[Point]]:
    """Return our rows and the paper's points of a panel."""
    return (
        [row for row in result.rows if row.metric == panel.metric],
        [point for point in result.claim.paper if point.metric == panel.metric],
    )


def height_of(result: Result, panel: Panel) -> float:
    """Return the height of a panel with its title and legend, inches."""
    rows, paper = _measured(result, panel)
    names = _algorithm_names(rows, paper)
    labels = [_written(name) for name in names if any(row.algorithm == name for row in rows)]
    labels += [_of_paper(name) for name in names if any(point.algorithm == name for point in paper)]
    labels += [label for _, label in panel.bounds]
    labels += [CUT] if _is_cut(panel, rows, paper) else []
    height = HEIGHT
    if panel.kind == "bars" and _lie(rows, paper):
        groups = len({row.x for row in rows} | {point.x for point in paper})
        height = max(height, 0.7 + groups * (len(names) * GROUP + 0.06))
    return height + LINE * (_legend_lines(labels) + len(_wrapped(_title(panel)).splitlines()))


def lines_of(result: Result, panel: Panel) -> list[str]:
    """Return the names of the lines, or groups of bars, of a panel."""
    return _algorithm_names(*_measured(result, panel))


def _title(panel: Panel) -> str:
    head, _, rest = panel.ylabel.partition("\n")
    return " ".join(f"{head.rstrip(',')}: {rest}".split()) if rest else head


def _wrapped(label: str) -> str:
    return textwrap.fill(label, LETTERS_IN_A_LINE)


def _draw_panel(place: Any, result: Result, panel: Panel) -> None:
    """Draw a panel: what its height means above it, and then the legend, where it covers nothing."""
    axes = place.add_subplot()
    rows, paper = _measured(result, panel)
    lying = panel.kind == "bars" and _lie(rows, paper)
    styles = _styles(_algorithm_names(rows, paper))
    if panel.kind == "bars":
        (_lying_bars if lying else _bars)(axes, panel, rows, paper, styles)
    else:
        _lines(axes, panel, rows, paper, styles)
    axes.set_title(_wrapped(_title(panel)), loc="left", fontweight="bold")
    name = panel.xlabel or result.claim.xlabel
    (axes.set_ylabel if lying else axes.set_xlabel)("" if lying else _wrapped(name))
    value_axis = axes.xaxis if lying else axes.yaxis
    if panel.logarithmic:
        (axes.set_xscale if lying else axes.set_yscale)("log")
        _plain_ticks(value_axis)
    elif panel.kind != "points" and _from_zero(panel, rows, paper):
        (axes.set_xlim if lying else axes.set_ylim)(0.0)
    if _is_cut(panel, rows, paper):
        low, high = _ends_of(panel, rows, paper)
        (axes.set_xlim if lying else axes.set_ylim)(low, high)
        axes.plot([], [], " ", label=CUT)
    for value, label in panel.bounds:
        bound = axes.axvline if lying else axes.axhline
        bound(value * panel.factor, color="#000000", linewidth=0.8, linestyle=":", label=label)
    _whole_ticks(axes, value_axis, panel, rows, paper)
    of_labels = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    ours = [_written(name) for name in styles if _written(name) in of_labels]
    labels = ours + [label for label in of_labels if label not in ours]
    if labels:
        place.legend(
            [of_labels[label] for label in labels],
            [_wrapped(label) for label in labels],
            loc="outside upper left",
            ncols=_legend_columns(labels),
            frameon=False,
            borderaxespad=0.2,
            columnspacing=1.2,
        )


CUT: Final = "intervals that leave the figure are cut off"


def _is_cut(panel: Panel, rows: Sequence[Row], paper: Sequence[Point]) -> bool:
    """Whether an interval is so far beyond the values that the axis follows the values."""
    if panel.logarithmic or panel.runs or panel.kind in ("curves", "points") or not rows:
        return False
    low, high = _ends_of(panel, rows, paper)
    return any(
        end * panel.factor > high or end * panel.factor < low
        for row in rows
        for end in (row.low, row.high)
        if end is not None
    )


def _ends_of(panel: Panel, rows: Sequence[Row], paper: Sequence[Point]) -> tuple[float, float]:
    """Return the ends of the axis of values: those of the values, with room for intervals."""
    values = [row.value * panel.factor for row in rows] + [point.value * panel.factor for point in paper]
    values += [value * panel.factor for value, _ in panel.bounds]
    least, most = min(values), max(values)
    room = ROOM * max(abs(least), abs(most))
    return (0.0 if least >= 0.0 else least - room), (most + room if room else math.inf)


def _from_zero(panel: Panel, rows: Sequence[Row], paper: Sequence[Point]) -> bool:
    """Whether an axis begins at zero: for bars always, for lines unless they are too close to be told apart."""
    values = [row.value for row in rows] + [point.value for point in paper]
    return min(values) >= 0.0 and (panel.kind == "bars" or min(values) < max(values) * CLOSE)


def _legend_columns(labels: Sequence[str]) -> int:
    """Return how many labels fit beside each other, each with the sample of its line."""
    longest = max(min(len(label), LETTERS_IN_A_LINE) for label in labels)
    return min(max(1, (LETTERS_IN_A_LINE + 6) // (longest + 8)), len(labels))


def _legend_lines(labels: Sequence[str]) -> int:
    """Return the number of lines of a legend."""
    if not labels:
        return 0
    return -(-sum(len(_wrapped(label).splitlines()) for label in labels) // _legend_columns(labels))


def _lie(rows: Sequence[Row], paper: Sequence[Point]) -> bool:
    """Whether names of groups are so long that bars lie, and names are read from left to right."""
    places = _groups(rows, paper)
    wrapped = [_below(place, len(places)).splitlines() for place in places]
    return any(len(lines) > NAME_LINES or max(map(len, lines)) > _beside(len(places)) for lines in wrapped if lines)


def _beside(groups: int) -> int:
    """Return how many letters fit below one of the groups of bars."""
    return max(1, (LETTERS_IN_A_LINE - 8) // groups - 1)


def _below(place: Coordinate, groups: int) -> str:
    """Return the name of a group of bars, in lines that fit below it."""
    return textwrap.fill(str(place), _beside(groups), break_long_words=False)


def _groups(rows: Sequence[Row], paper: Sequence[Point]) -> list[Coordinate]:
    return list(dict.fromkeys([row.x for row in rows] + [point.x for point in paper]))


def _plain_ticks(axis: Any) -> None:
    """Write the ticks of a logarithmic axis as plain numbers, which are as large as all letters."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 - needed for drawing only

    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0.0 else 3.0
    axis.set_major_locator(
        LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades > 0.8 else range(1, 10))
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _whole_ticks(axes: Any, value_axis: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point]) -> None:
    """Have ticks at whole numbers where all coordinates are whole: there are no 2.5 peers."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - needed for drawing only

    coordinates = [row.x for row in rows] + [point.x for point in paper]
    values = [row.value * panel.factor for row in rows] + [point.value * panel.factor for point in paper]
    if panel.kind != "bars" and all(float(each).is_integer() for each in coordinates):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not panel.logarithmic and all(each.is_integer() for each in values):
        value_axis.set_major_locator(MaxNLocator(integer=True))


def _styles(algorithms: Sequence[str]) -> dict[str, _Style]:
    known = {_STYLE_OF_POLICY[name] for name in algorithms if name in _STYLE_OF_POLICY}
    dashed = [style._replace(dashes=dashes) for dashes in ("--", ":", "-.") for style in _STYLES]
    free = iter([style for style in _STYLES if style not in known] + dashed)
    return {name: _STYLE_OF_POLICY.get(name) or next(free, _STYLES[0]) for name in algorithms}


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
                linestyle=style.dashes,
                label=_written(name),
            )
        elif own:
            axes.errorbar(
                [row.x for row in own],
                [row.value * factor for row in own],
                yerr=None if panel.runs else _error_bars(own, factor),
                color=style.colour,
                linestyle="none" if panel.kind == "points" else style.dashes,
                marker=style.marker,
                markersize=5.0,
                linewidth=1.2,
                capsize=2.5,
                label=_written(name),
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
                label=_of_paper(name),
            )


def _bars(axes: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point], styles: Mapping[str, _Style]) -> None:
    """Draw a panel of bars in groups, and the paper's numbers as stars."""
    places, bars = _placed(rows, paper)
    for name, shift, own, stars in bars:
        style, factor = styles[name], panel.factor
        if own:
            axes.bar(
                [places.index(row.x) + shift for row in own],
                [row.value * factor for row in own],
                0.8 / len(bars),
                yerr=_error_bars(own, factor),
                capsize=2.0,
                **_filled(style, name),
            )
        if stars:
            axes.plot(
                [places.index(point.x) + shift for point in stars],
                [point.value * factor for point in stars],
                **_starred(style, name),
            )
    axes.set_xticks(range(len(places)), [_below(place, len(places)) for place in places])


def _lying_bars(
    axes: Any, panel: Panel, rows: Sequence[Row], paper: Sequence[Point], styles: Mapping[str, _Style]
) -> None:
    """Draw a panel of lying bars, from the first group at the top, and the paper's numbers as stars."""
    places, bars = _placed(rows, paper)
    for name, shift, own, stars in bars:
        style, factor = styles[name], panel.factor
        if own:
            axes.barh(
                [places.index(row.x) + shift for row in own],
                [row.value * factor for row in own],
                0.8 / len(bars),
                xerr=_error_bars(own, factor),
                capsize=2.0,
                **_filled(style, name),
            )
        if stars:
            axes.plot(
                [point.value * factor for point in stars],
                [places.index(point.x) + shift for point in stars],
                **_starred(style, name),
            )
    axes.set_yticks(range(len(places)), [textwrap.fill(str(place), 34) for place in places])
    axes.invert_yaxis()


_Bar = tuple[str, float, list[Row], list[Point]]  # name, shift from the middle of a group, our rows, the paper's points


def _placed(rows: Sequence[Row], paper: Sequence[Point]) -> tuple[list[Coordinate], list[_Bar]]:
    """Return the groups of bars, and the bars of each policy."""
    names = _algorithm_names(rows, paper)
    width = 0.8 / max(len(names), 1)
    return _groups(rows, paper), [
        (
            name,
            (number - (len(names) - 1) / 2.0) * width,
            [row for row in rows if row.algorithm == name],
            [point for point in paper if point.algorithm == name],
        )
        for number, name in enumerate(names)
    ]


def _filled(style: _Style, name: str) -> dict[str, Any]:
    return {"color": style.colour, "hatch": style.hatch, "edgecolor": "white", "label": _written(name)}


def _starred(style: _Style, name: str) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": "*",
        "markersize": 11.0,
        "markerfacecolor": "white",
        "markeredgecolor": style.colour,
        "label": _of_paper(name),
    }


#: Most lines that a description names, and most numbers of a line, beyond which it names the ends, least and greatest.
MOST_LINES, MOST_NUMBERS = 8, 6


def describe(result: Result, panel: Panel) -> str:
    """Return what a panel shows, in words: for those who do not see it."""
    rows, paper = _measured(result, panel)
    kind = {"bars": "Bars", "lines": "Lines", "curves": "Curves", "points": "Points"}[panel.kind]
    name = panel.xlabel or result.claim.xlabel
    seen = f"{kind}: {_title(panel)}{f' by {name}' if name else ''}"
    ours = _of_lines(rows)
    lines = [f"{each} {_numbers(points, panel.factor)}" for each, points in ours.items()]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    theirs = [f"the paper's {each} {_numbers(points, panel.factor)}" for each, points in _of_lines(paper).items()]
    return "; ".join([seen, *lines[:MOST_LINES], *more, *theirs]) + "."


def _of_lines(points: Sequence[Row] | Sequence[Point]) -> dict[str, list[tuple[Coordinate, float]]]:
    """Return the coordinates and values of each line."""
    lines: dict[str, list[tuple[Coordinate, float]]] = {}
    for point in points:
        lines.setdefault(point.algorithm, []).append((point.x, point.value))
    return lines


def _numbers(found: Sequence[tuple[Coordinate, float]], factor: float) -> str:
    """Return the numbers of a line in words: all if they are few, else the ends, the least and the greatest."""
    shown = list(found)
    if len(found) > MOST_NUMBERS:
        ends = {0, len(found) - 1}
        values = [value for _, value in found]
        ends |= {values.index(min(values)), values.index(max(values))}
        shown = [found[number] for number in sorted(ends)]
    return ", ".join(f"{value * factor:.3g} at {x:g}" if isinstance(x, float | int) else f"{value * factor:.3g} at {x}"
                     for x, value in shown)  # fmt: skip
