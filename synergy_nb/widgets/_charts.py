"""Charts as inline SVG, without a script: tooltips are SVG titles, and colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from synergy_nb.drawing.svg import element, label, path, picture
from synergy_nb.events import ApplicationRunning, Event, SinkMeasured, SourceStarted
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds

_TOP, _BOTTOM, _LEFT = 16.0, 40.0, 58.0
#: Style of charts; the page names the colours.
STYLE: Final = """
.synergy-chart{font-size:12.5px}.synergy-chart text{fill:var(--soft)}
.synergy-chart .grid{stroke:var(--grid)}
.synergy-chart .base,.synergy-chart .tickmark{stroke:var(--soft);stroke-width:.8}
.synergy-chart .late{fill:var(--late);opacity:.06}.synergy-chart .broken{fill:var(--late);opacity:.25}
.synergy-chart .limit{stroke:var(--late);stroke-width:1.4;stroke-dasharray:6 4}
.synergy-chart .limit-label{fill:var(--late);font-weight:600}
.synergy-chart .event{stroke:var(--soft);stroke-dasharray:2 3}.synergy-chart .event-label{font-size:12px}
.synergy-chart .band{fill:var(--p99);opacity:.1}
.synergy-chart polyline{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.synergy-chart polyline.p50{stroke:var(--p50);stroke-width:1.5}
.synergy-chart polyline.p99{stroke:var(--p99);stroke-width:3.5}
.synergy-chart circle.p50{fill:var(--p50)}.synergy-chart circle.p99{fill:var(--p99)}
.synergy-chart circle{stroke:var(--card);stroke-width:1.4}.synergy-chart circle.reach{fill:transparent;stroke:none}
.synergy-chart .p50-label{fill:var(--p50);font-weight:650}.synergy-chart .p99-label{fill:var(--p99);font-weight:650}
"""
TINY = 1e-9  # delay at which a delay of zero is drawn on a logarithmic scale, seconds
_LINE = 15.0  # least distance of two labels, in pixels


class SinkDelays(NamedTuple):
    """Delays and number of the tuples that reached a sink in one interval.

    ``at`` and delays in seconds, ``at`` since the application began to run.
    """

    at: float
    p50: float
    p99: float
    tuples: int


def delays(events: Iterable[Event], application: str) -> dict[str, list[SinkDelays]]:
    """Delays over time by sink, from the journal of an application."""
    began: float | None = None
    seen: dict[str, int] = {}
    found: dict[str, list[SinkDelays]] = {}
    for event in events:
        if event.subject != application:
            continue
        if isinstance(event, ApplicationRunning | SourceStarted) and began is None:
            began = event.time
        if not isinstance(event, SinkMeasured):
            continue
        sink, total = event.operator, event.tuples
        number, seen[sink] = total - seen.get(sink, 0), total
        if event.delay_p50_s is not None and event.delay_p99_s is not None:
            at = max(event.time - (event.time if began is None else began), 0.0)
            found.setdefault(sink, []).append(SinkDelays(at, event.delay_p50_s, event.delay_p99_s, number))
    return found


def exceeding(line: Sequence[tuple[float, float]], limit: float) -> list[list[tuple[float, float]]]:
    """Parts of a line that are above a limit, each from its crossing upwards to its crossing downwards.

    Between two points the line is straight on a logarithmic scale.

    ``line``: times and values, in order of time; ``limit``: limit of the values.

    Examples
    --------
    >>> exceeding([(0.0, 1.0), (2.0, 4.0), (3.0, 4.0), (5.0, 1.0)], limit=2.0)
    [[(1.0, 2.0), (2.0, 4.0), (3.0, 4.0), (4.0, 2.0)]]
    """
    found: list[list[tuple[float, float]]] = []
    before: tuple[float, float] | None = None
    for at, value in line:
        above = before is not None and before[1] > limit
        if before is not None and above != (value > limit):  # on a line between the two points
            low, high = max(before[1], TINY), max(value, TINY)
            crossing = before[0] + math.log(max(limit, TINY) / low) / math.log(high / low) * (at - before[0])
            if above:
                found[-1].append((crossing, limit))
            else:
                found.append([(crossing, limit)])
        elif value > limit and not above:
            found.append([])
        if value > limit:
            found[-1].append((at, value))
        before = at, value
    return found


def delay_chart(
    points: Sequence[SinkDelays],
    limit: float | None,
    *,
    marks: Sequence[tuple[float, str]] = (),
    size: tuple[float, float] = (860.0, 300.0),
) -> str:
    """Chart of the delays in each interval, with a text for each point; see :func:`chart` for the parameters."""
    lines = {"p99": [(each.at, each.p99) for each in points], "p50": [(each.at, each.p50) for each in points]}
    tips = [
        f"at {at:.1f} s: p50 {seconds(p50)}, p99 {seconds(p99)}, {counted(tuples, 'tuple')}"
        for at, p50, p99, tuples in points
    ]
    return chart(lines, limit, marks=marks, tips=tips, size=size)


def chart(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    limit: float | None,
    *,
    marks: Sequence[tuple[float, str]] = (),
    tips: Sequence[str] = (),
    size: tuple[float, float] = (860.0, 300.0),
    broken: str = "broken",
) -> str:
    """Median and 99th percentile of the delay over time, against the limit, on a logarithmic scale.

    ``lines``: points of ``p99`` and ``p50``, at least one each: seconds since the sources started, and the delay in
    seconds; ``limit``: delay limit q_t, seconds, None if the plan states none; ``marks``: events of the application:
    seconds since the sources started, and a short label for each; ``tips``: tooltips of the points, in order, if empty,
    the points are not marked; ``size``: width and height of the chart, in pixels; ``broken``: word for a limit that was
    exceeded.
    """
    width, height = size
    narrow = width < 600
    right, bottom = width - (86.0 if narrow else 104.0), height - _BOTTOM
    known = [value for line in lines.values() for _, value in line] + ([limit] if limit else [])
    lowest, highest = max(min(known), 1e-6), max(known)  # a limit is drawn however far the delays are from it
    low = math.floor(math.log10(lowest) - 0.05)
    high = max(math.ceil(math.log10(highest * 1.3)), low + 1)
    last = lines["p99"][-1][0]
    begin = 0.0 if tips else lines["p99"][0][0]  # earlier points may have been discarded
    step = _step(max(last - begin, 1.0), 4 if narrow else 8)

    def x(at: float) -> float:
        return _LEFT + (at - begin) / max(last - begin, 1.0) * (right - _LEFT)

    def y(delay: float) -> float:
        return bottom - (math.log10(max(delay, 10.0**low)) - low) / (high - low) * (bottom - _TOP)

    def places(line: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x(at), y(value)) for at, value in line]

    ends = {name: line[-1][1] for name, line in lines.items()}
    late = [] if limit is None else exceeding(lines["p99"], limit)
    title = ", ".join([f"delay over {seconds(last - begin)}", *(f"last {of} {seconds(ends[of])}" for of in ends)])
    parts = []
    if limit is not None:
        title += f", limit {seconds(limit)}{', which was exceeded' if late else ''}"
        parts.append(element("rect", "late", x=_LEFT, y=_TOP, width=right - _LEFT, height=y(limit) - _TOP))
    for decade in range(low, high + 1):
        at = y(10.0**decade)
        parts.append(element("line", "grid", x1=_LEFT, x2=right, y1=at, y2=at))
        parts.append(label(_LEFT - 8, at + 4, seconds(10.0**decade), "tick", anchor="end"))
    for index in range(math.ceil(begin / step), int(max(last, begin + 1.0) / step + 1e-9) + 1):
        at = x(index * step)
        parts.append(element("line", "tickmark", x1=at, x2=at, y1=bottom, y2=bottom + 4))
        parts.append(label(at, bottom + 17, f"{index * step:g}", "tick", anchor="middle"))
    parts.append(label((_LEFT + right) / 2, height - 6, "seconds since the sources started", "axis", anchor="middle"))
    parts.append(element("line", "base", x1=_LEFT, x2=right, y1=bottom, y2=bottom))
    if limit is not None:
        at = y(limit)
        for stretch in late:
            edge = [(stretch[0][0], limit), *stretch, (stretch[-1][0], limit)]
            parts.append(element("polygon", "broken", points=path(places(edge))))
        parts.append(element("line", "limit", x1=_LEFT, x2=right, y1=at, y2=at))
        about = f"{f': {broken}' if late else ''}{'' if narrow else ' (above it, a tuple is late)'}"
        parts.append(label(_LEFT + 6, at - 6, f"limit {seconds(limit)}{about}", "limit-label"))
    free = -math.inf  # labels that would overlap are omitted
    for when, words in marks:
        if begin <= when <= last:
            at, room = x(when), 7.0 * len(words) + 8.0
            parts.append(element("line", "event", x1=at, x2=at, y1=_TOP, y2=bottom))
            start = at - room if at + room > right else at
            if start > free:
                parts.append(label(start + 4, bottom - 6, words, "event-label"))
                free = start + room
    parts.append(element("polygon", "band", points=path(places([*lines["p99"], *reversed(lines["p50"])]))))
    parts += [element("polyline", name, points=path(places(line))) for name, line in lines.items()]
    for number, tip in enumerate(tips):
        for name, line in lines.items():
            ((cx, cy),) = places([line[number]])
            spots = (element("circle", "reach", cx=cx, cy=cy, r=9), element("circle", name, cx=cx, cy=cy, r=3.2))
            parts.append(f"<g><title>{escape(tip)}</title>{''.join(spots)}</g>")
    beside = {name: y(value) for name, value in ends.items()}
    if beside["p50"] - beside["p99"] < _LINE:
        centre = (beside["p50"] + beside["p99"]) / 2
        beside = {"p99": centre - _LINE / 2, "p50": centre + _LINE / 2}
    parts += [label(right + 8, beside[of] + 4, f"{of} {seconds(ends[of])}", f"{of}-label") for of in ends]
    return picture("synergy-chart", title, size, parts)


def _step(last: float, most: int) -> float:
    """A round step that divides ``last`` seconds into at most ``most`` parts."""
    rough = last / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if last / step <= most + 1e-9)
