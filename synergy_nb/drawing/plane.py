"""Pictures of lines, areas and points between two axes, as self-contained SVG for light and dark.

What is drawn has one of eight colours, ``c0`` to ``c7``, or one with a meaning: ``good``, ``bad``, ``soft``. It is cut
at the edges of the plane. A value that is not finite interrupts a line.

>>> plane = Plane(Axis("load", 0.0, 1.0), Axis("seconds", 0.0, 4.0))
>>> plane.line([(0.0, 1.0), (0.5, 2.0)], "c0", name="M/M/1")
>>> plane.to_svg("time by load").startswith("<svg")
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from synergy_nb.drawing.svg import element, label, path, picture, themed

__all__ = ["PICTURE", "STYLE", "Axis", "Plane"]

PICTURE: Final = "synergy-plane"  # class of these pictures

_LIGHT: Final = (
    "--ink:#16202b;--soft:#55616f;--grid:#e1e6eb;--card:#fff;--good:#146c38;--bad:#b3261e;--c0:#1f6fbf;--c1:#b8500f;"
    "--c2:#11795a;--c3:#9a4692;--c4:#86690a;--c5:#4b4fb8;--c6:#b02a5b;--c7:#56646f"
)
_DARK: Final = (
    "--ink:#e8edf3;--soft:#a9b4c0;--grid:#333c47;--card:#14181d;--good:#7ddba3;--bad:#ff9a90;--c0:#62a5f0;--c1:#eb9256;"
    "--c2:#4fc49d;--c3:#d68acd;--c4:#d3b13f;--c5:#9fa3f5;--c6:#f088ab;--c7:#a5b3bf"
)
_COLOURS: Final = (*(f"c{number}" for number in range(8)), "good", "bad", "soft", "ink")

#: Style of the pictures.
STYLE: Final = (
    themed(PICTURE, _LIGHT, _DARK)
    + "".join(f"\n.{PICTURE} .{name}{{--of:var(--{name})}}" for name in _COLOURS)
    + """
.synergy-plane{font:12.5px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;max-width:100%;
height:auto;font-variant-numeric:tabular-nums}
.synergy-plane text{fill:var(--soft)}.synergy-plane text.strong{fill:var(--ink);font-weight:600}
.synergy-plane text.words{fill:var(--of);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:3px}
.synergy-plane .grid{stroke:var(--grid)}.synergy-plane .base{stroke:var(--soft);stroke-width:.8}
.synergy-plane .line{fill:none;stroke:var(--of);stroke-width:2;stroke-linejoin:round}
.synergy-plane .dashed{stroke-dasharray:6 4;stroke-width:1.5}
.synergy-plane .area{fill:var(--of);opacity:.2}
.synergy-plane .facet{fill:var(--of);stroke:var(--of);stroke-width:.6;fill-opacity:.45;stroke-opacity:.6}
.synergy-plane .dot{fill:var(--of);stroke:var(--card);stroke-width:1.2}
.synergy-plane .box{fill:var(--card);stroke:var(--of);stroke-width:1.4}
.synergy-plane .filled{fill:var(--of);stroke:var(--of)}.synergy-plane .filled+text{fill:var(--card)}
"""
)


@dataclass(frozen=True)
class Axis:
    """An axis of a plane."""

    name: str  # quantity and unit
    # low, high: values at its two ends, `low` below `high`; above 0 on a logarithmic axis
    low: float
    high: float
    log: bool = False  # whether it is logarithmic
    text: Callable[[float], str] = "{:g}".format  # text of a value beside its tick

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"axis {self.name!r}: from {self.low} to {self.high}; expected two rising numbers")
        if self.log and self.low <= 0.0:
            raise ValueError(f"axis {self.name!r}: from {self.low}; expected a number above 0 on a logarithmic axis")

    def share(self, value: float) -> float:
        """Part of the axis below a value; 0 at its low end, 1 at its high end."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log(max(value, self.low * 1e-3) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 7) -> list[float]:
        """Round values on the axis, at most about ``most``; of a logarithmic one powers of ten, and 2 and 5 if few.

        >>> Axis("load", 0.0, 1.0).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> Axis("seconds", 0.02, 30.0, log=True).ticks()
        [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        """
        if self.log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            powers = range(first - 1, math.floor(math.log10(self.high) + 1e-9) + 1)
            factors = (1, 2, 5) if 3 * len(powers) <= most + 5 else (1,)
            found = [factor * 10.0**power for power in powers for factor in factors]
            return [value for value in found if self.low <= value * (1 + 1e-9) and value <= self.high * (1 + 1e-9)]
        rough = (self.high - self.low) / max(most - 1, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(each for each in (power, 2 * power, 5 * power, 10 * power) if each >= rough * (1 - 1e-9))
        begin = math.ceil(self.low / step - 1e-9)
        return [round(number * step, 12) for number in range(begin, math.floor(self.high / step + 1e-9) + 1)]


class Plane:
    """A plane between two axes, to which lines, areas and points are added.

    ``size``: width and height of the picture, pixels; ``right``: room to the right of the plane for the names of lines,
    pixels.
    """

    def __init__(self, x: Axis, y: Axis, *, size: tuple[float, float] = (640.0, 340.0), right: float = 24.0) -> None:
        self.x, self.y, self.size = x, y, size
        self._left, self._top = 74.0, 12.0
        self._right, self._bottom = size[0] - right, size[1] - 42.0
        self._inside: list[str] = []
        self._names: list[tuple[float, str, str]] = []  # height, text and colour, to the right of the plane
        self._over: list[str] = []

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        """Coordinates of a point in the picture, pixels."""
        across = self._left + self.x.share(point[0]) * (self._right - self._left)
        up = self._bottom - self.y.share(point[1]) * (self._bottom - self._top)
        return min(max(across, -1e5), 1e5), min(max(up, -1e5), 1e5)

    def line(
        self, points: Iterable[tuple[float, float]], kind: str, *, name: str = "", tip: str = "", dashed: bool = False
    ) -> None:
        """Add a line.

        ``points``: points in their order; ``name``: name, which is written beside the last point; ``tip``: tooltip;
        ``dashed``: whether it is dashed, as limits and ideals are.
        """
        last: tuple[float, float] | None = None
        piece: list[tuple[float, float]] = []
        for x, y in [*points, (math.nan, math.nan)]:
            if math.isfinite(x) and math.isfinite(y):
                piece.append(self.place((x, y)))
                last = piece[-1]
                continue
            if len(piece) > 1:
                shown = f"<title>{escape(tip or name)}</title>" if tip or name else ""
                classes = f"line {kind} dashed" if dashed else f"line {kind}"
                self._inside.append(element("polyline", classes, shown, points=path(piece)))
            piece = []
        if name and last is not None:
            self._names.append((min(max(last[1], self._top), self._bottom), name, kind))

    def area(self, points: Iterable[tuple[float, float]], kind: str, *, tip: str = "", facet: bool = False) -> None:
        """Add a filled area by its corners; a ``facet`` is one of many that cover a surface."""
        shown = f"<title>{escape(tip)}</title>" if tip else ""
        corners = path(self.place(point) for point in points)
        self._inside.append(element("polygon", f"{'facet' if facet else 'area'} {kind}", shown, points=corners))

    def dots(
        self, points: Sequence[tuple[float, float]], kind: str, *, tips: Sequence[str] = (), radius: float = 4.0
    ) -> None:
        """Add points, each with a tooltip if there are any."""
        for number, point in enumerate(points):
            x, y = self.place(point)
            shown = f"<title>{escape(tips[number])}</title>" if tips else ""
            self._inside.append(element("circle", f"dot {kind}", shown, cx=x, cy=y, r=radius))

    def beside(self, value: float, text: str, kind: str) -> None:
        """Write a name to the right of the plane, at the height of a value."""
        self._names.append((min(max(self.place((self.x.low, value))[1], self._top), self._bottom), text, kind))

    def words(self, point: tuple[float, float], text: str, kind: str, *, anchor: str = "start") -> None:
        """Write beside a point."""
        x, y = self.place(point)
        self._over.append(label(x + (6 if anchor == "start" else -6 if anchor == "end" else 0), y - 6, text,
                                f"words {kind}", anchor=anchor))  # fmt: skip

    def to_svg(self, title: str, beside: Iterable[str] = (), *, below: float = 0.0) -> str:
        """Write the picture.

        ``title``: title for screen readers; ``beside``: further elements in the coordinates of the picture, drawn last;
        ``below``: additional height below the plane for these, pixels.
        """
        parts = []
        for value in self.y.ticks():
            at = self.place((self.x.low, value))[1]
            parts.append(element("line", "grid", x1=self._left, x2=self._right, y1=at, y2=at))
            parts.append(label(self._left - 8, at + 4, self.y.text(value), anchor="end"))
        for value in self.x.ticks():
            at = self.place((value, self.y.low))[0]
            parts.append(element("line", "base", x1=at, x2=at, y1=self._bottom, y2=self._bottom + 4))
            parts.append(label(at, self._bottom + 17, self.x.text(value), anchor="middle"))
        middle = (self._top + self._bottom) / 2
        parts.append(label((self._left + self._right) / 2, self._bottom + 35, self.x.name, anchor="middle"))
        upwards = element("g", "", label(0, 0, self.y.name, anchor="middle"),
                          transform=f"translate(14,{middle:.0f}) rotate(-90)")  # fmt: skip
        parts.append(upwards)
        box = {"x": self._left, "y": self._top, "width": self._right - self._left, "height": self._bottom - self._top}
        window = " ".join(f"{each:.1f}" for each in box.values())
        parts.append(element("svg", "", "".join(self._inside) or "<g/>", viewBox=window, **box))
        parts.append(element("line", "base", x1=self._left, x2=self._right, y1=self._bottom, y2=self._bottom))
        above = -math.inf
        for height, name, kind in sorted(self._names):
            above = max(height, above + 15.0)
            parts.append(label(self._right + 6, above + 4, name, f"words {kind}"))
        size = (self.size[0], self.size[1] + below)
        return picture(PICTURE, title, size, [*parts, *self._over, *beside], style=STYLE)
