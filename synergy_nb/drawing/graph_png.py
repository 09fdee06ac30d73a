"""Pictures of directed acyclic graphs as PNG, for papers, slides and mails that take no SVG.

The places are those of :mod:`synergy_nb.drawing.graphs`, the colours those of its light theme. Drawing needs
matplotlib, which this package does not require.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Sequence
from typing import Final

from synergy_nb.drawing._layout import Edge
from synergy_nb.drawing.graphs import Node, arranged, headline

__all__ = ["NO_MATPLOTLIB", "png"]

NO_MATPLOTLIB: Final = "matplotlib, which is not installed: pip install 'synergy-nb[lab]'"

_DENSITY: Final = 100.0  # pixels of the layout in an inch of matplotlib
_SCALE: Final = 2.0  # pixels of the picture for each pixel of the layout
_POINT: Final = 72.0 / _DENSITY  # points of matplotlib for each pixel of the layout
_INK, _SOFT, _LINE, _BOX, _EDGE = "#1b2430", "#5a6675", "#7a8694", "#f3f6fa", "#b9c4d0"
_BAD, _GOOD = "#b3261e", "#1b6e3c"
_BORDERS: Final = {"failed": _BAD, "dead": _BAD, "overloaded": _BAD, "running": _GOOD, "shared": _GOOD}
_DASHED: Final = ("failed", "dead", "stopped")


def png(nodes: Sequence[Node], edges: Sequence[Edge], *, title: str = "") -> bytes:
    """Draw a graph as PNG, on white.

    ``nodes``, ``edges``: nodes and edges of a directed acyclic graph; an edge is a pair of ids; ``title``: title of the
    picture, in the file's metadata.

    Raises ``ModuleNotFoundError`` if matplotlib is not installed; ``ValueError`` if
    :func:`synergy_nb.drawing.graphs.svg` would raise it.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(f"PNG needs {NO_MATPLOTLIB}")
    from matplotlib.figure import Figure  # noqa: PLC0415 - needed for drawing only
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon  # noqa: PLC0415 - likewise
    from matplotlib.path import Path  # noqa: PLC0415 - likewise

    place = arranged(nodes, edges)
    width, height = place.size
    figure = Figure(figsize=(width / _DENSITY, height / _DENSITY), dpi=_DENSITY * _SCALE, facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, width), ylim=(height, 0.0))
    axes.set_axis_off()
    for line, head in place.links.values():
        points = _points(line)
        codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
        axes.add_patch(PathPatch(Path(points, codes), fill=False, edgecolor=_LINE, linewidth=1.4 * _POINT))
        axes.add_patch(Polygon(_points(head), facecolor=_LINE, edgecolor="none"))
    for node in nodes:
        left, top, wide, high = place.boxes[node.id]
        border = _BORDERS.get(node.state)
        axes.add_patch(
            FancyBboxPatch(
                (left, top), wide, high, boxstyle="round,pad=0,rounding_size=7", facecolor=_BOX,
                edgecolor=border or _EDGE, linewidth=(2.0 if border else 1.2) * _POINT,
                linestyle="--" if node.state in _DASHED else "-",
            )
        )  # fmt: skip
        middle = (left + wide / 2, top + high / 2)
        shift = 8.5 if node.detail else 0.0
        rows = [(headline(node), -shift, 13.0, "bold", _INK), (node.detail, shift, 11.5, "normal", _SOFT)]
        for text, down, size, weight, colour in rows:
            drawn = axes.text(
                middle[0], middle[1] + down, text, ha="center", va="center", color=colour, fontsize=size * _POINT,
                fontweight=weight, parse_math=False,
            )  # fmt: skip
            extent = drawn.get_window_extent().width / _SCALE
            if extent > wide - 12:  # fonts of matplotlib are wider than those of browsers
                drawn.set_fontsize(size * _POINT * (wide - 12) / extent)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Title": title})
    return file.getvalue()


def _points(text: str) -> list[tuple[float, float]]:
    """Points of a path or a polygon of :mod:`synergy_nb.drawing.graphs`, in SVG notation."""
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))
