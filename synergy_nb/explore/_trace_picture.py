"""The still picture of the charts of a trace: what a notebook's file keeps of a view, and what reports show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from synergy_nb.drawing.svg import element, label, picture, themed
from synergy_nb.explore._crossfilter import Counts
from synergy_nb.explore._trace_charts import Brush, ChartOfKeys, ChartOfRange, TraceChart
from synergy_nb.plan.terms.units import counted

__all__ = ["drawn_charts"]

WIDTH, MARGIN, GAP = 760.0, 16.0, 24.0
HEIGHT, LINE = 84.0, 18.0  # of the bars of a chart of ranges, and of a line of keys
LETTERS: Final = 22  # of a key that are shown
_LIGHT: Final = (
    "--ink:#16202b;--soft:#55616f;--page:#ffffff;--rule:#e6eaee;--bar:#1f6fbf;--out:#b9c6d3;color-scheme:light"
)
_DARK: Final = (
    "--ink:#e8edf3;--soft:#a9b4c0;--page:#111418;--rule:#2c343e;--bar:#62a5f0;--out:#465361;color-scheme:dark"
)
_STYLE: Final = (
    themed("synergy-trace-picture", _LIGHT, _DARK)
    + """
.synergy-trace-picture text{fill:var(--ink);font:12.5px system-ui,sans-serif;font-variant-numeric:tabular-nums}
.synergy-trace-picture .page{fill:var(--page);stroke:var(--rule)}.synergy-trace-picture .rule{stroke:var(--rule)}
.synergy-trace-picture .title{font-size:16px;font-weight:650}.synergy-trace-picture .name{font-weight:600}
.synergy-trace-picture .soft{fill:var(--soft);font-size:12px}
.synergy-trace-picture .bar{fill:var(--bar)}.synergy-trace-picture .out{fill:var(--out)}
"""
)


def drawn_charts(
    title: str, sentence: str, charts: Sequence[TraceChart], counts: Sequence[Counts], brushes: Sequence[Brush]
) -> str:
    """Draw the charts one below the other, those of times over the whole width, as one self-contained SVG."""
    parts = [label(MARGIN, 28, title, "title")]
    y = 50.0
    for line in _lines(sentence):
        parts.append(label(MARGIN, y, line, "soft"))
        y += 17
    half = (WIDTH - 2 * MARGIN - GAP) / 2
    column, low = 0, y
    for chart, found, brush in zip(charts, counts, brushes, strict=True):
        wide = chart.kind == "time"
        if wide or column == 2:
            y, column = low, 0
        x = MARGIN + column * (half + GAP)
        width = WIDTH - 2 * MARGIN if wide else half
        drawn, height = _chart(chart, found, brush, x, y + 8, width)
        parts += drawn
        low = max(low, y + 8 + height)
        column = 2 if wide else column + 1
    page = element("rect", "page", x=0.5, y=0.5, width=WIDTH - 1, height=low + 7, rx="8")
    return picture("synergy-trace-picture", f"{title}. {sentence}", (WIDTH, low + 8), [page, *parts], style=_STYLE)


def _chart(
    chart: TraceChart, counts: Counts, brush: Brush, x: float, y: float, width: float
) -> tuple[list[str], float]:
    """The parts of a chart, and its height."""
    parts = [label(x, y + 14, chart.column[:60], "name")]
    if isinstance(chart, ChartOfKeys):
        shown = [
            place for place in range(chart.bars + 1)
            if counts[place] or (place < len(chart.keys)) or (place == chart.bars - 1 and chart.others)
        ]  # fmt: skip
        most = max(int(counts.max()), 1)
        for line, place in enumerate(shown):
            at = y + 22 + line * LINE
            text = chart.read(place)
            kind = "bar" if brush is None or place in brush else "out"
            parts.append(label(x, at + 13, text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"))
            extent = (width - 230) * int(counts[place]) / most
            parts.append(
                element("rect", kind, x=x + 160, y=at + 3, width=max(extent, 1.0 * bool(counts[place])), height=12)
            )
            parts.append(label(x + width, at + 13, f"{int(counts[place]):,}", "soft", anchor="end"))
        return parts, 26 + len(shown) * LINE
    inside = counts[: chart.bars]
    most = max(int(inside.max()) if chart.bars else 0, 1)
    step = width / max(chart.bars, 1)
    base = y + 22 + HEIGHT
    parts.append(label(x + width, y + 14, f"at most {most:,} a bar", "soft", anchor="end"))
    for kind in ("out", "bar"):
        pieces = [
            f"M{x + place * step:.1f},{base:.1f}v-{max(HEIGHT * count / most, 1.5):.1f}h{step * 0.9:.2f}V{base:.1f}z"
            for place, count in enumerate(inside)
            if count and (kind == "bar") == (brush is None or place in brush)
        ]
        if pieces:
            parts.append(element("path", kind, d="".join(pieces)))
    parts.append(element("line", "rule", x1=x, x2=x + width, y1=base + 0.5, y2=base + 0.5))
    places = _ticks(chart, 3 if chart.kind == "time" else 2)
    for place in places:
        anchor = "start" if place == 0 else "end" if place == chart.bars else "middle"
        parts.append(label(x + place * step, base + 15, _short(chart, place), "soft", anchor=anchor))
    if not counts[chart.bars]:
        return parts, HEIGHT + 44
    words = f"{counted(int(counts[chart.bars]), 'row')} without {chart.column[:60]}"
    return [*parts, label(x, base + 32, words, "soft")], HEIGHT + 60


def _short(chart: ChartOfRange, place: int) -> str:
    """The label of a bound: a time of the day alone where that is the day of the first bound."""
    first, label = chart.read(chart.edges[0]), chart.read(chart.edges[place])
    return label[11:] if place and chart.kind == "time" and len(label) > 11 and label[:11] == first[:11] else label


def _ticks(chart: ChartOfRange, most: int) -> list[int]:
    """Places of the bounds that are labelled: the first, the last, and some between them."""
    if not chart.bars:
        return []
    gaps = max(min(most, 4, chart.bars), 1)
    return sorted({round(chart.bars * place / gaps) for place in range(gaps + 1)})


def _lines(words: str, width: int = 112) -> list[str]:
    """A sentence in lines."""
    found = [""]
    for word in words.split(" "):
        if found[-1] and len(found[-1]) + len(word) >= width:
            found.append("")
        found[-1] = f"{found[-1]} {word[:width]}".strip()
    return found[:6]
