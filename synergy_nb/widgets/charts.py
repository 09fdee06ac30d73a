"""Charts as inline SVG, without a script: what a pointer shows is a title, colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from synergy_nb.events import ApplicationRunning, Event, SinkMeasured, SourceStarted
from synergy_nb.reporting.formatting import amount, seconds

__all__ = ["Delay", "delay_chart", "delays", "exceeding"]

_TOP, _BOTTOM, _LEFT = 16.0, 40.0, 58.0
TINY = 1e-9  # seconds that stand for no delay on a logarithmic scale
_LINE = 15.0  # least distance of two labels, in pixels


class Delay(NamedTuple):
    """Delays of the tuples that reached a sink in one interval, and how many these were.

    ``at`` and delays in seconds, ``at`` since the application began to run.
    """

    at: float
    p50: float
    p99: float
    tuples: int


def delays(events: Iterable[Event], application: str) -> dict[str, list[Delay]]:
    """Delays over time by sink, as the sinks of an application journaled them."""
    began: float | None = None
    seen: dict[str, int] = {}
    found: dict[str, list[Delay]] = {}
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
            found.setdefault(sink, []).append(Delay(at, event.delay_p50_s, event.delay_p99_s, number))
    return found


def exceeding(line: Sequence[tuple[float, float]], limit: float) -> list[list[tuple[float, float]]]:
    """Stretches of a line that are above a limit, from where it crosses the limit to where it comes back.

    Between two points the line is straight on a logarithmic scale.

    Parameters
    ----------
    line
        Times and values, in order of time.
    limit
        The value that is not to be exceeded.

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
    points: Sequence[Delay],
    limit: float | None,
    *,
    marks: Sequence[tuple[float, str]] = (),
    width: float = 860.0,
    height: float = 300.0,
) -> str:
    """Median and 99th percentile of the delay over time, against the limit, on a logarithmic scale.

    Parameters
    ----------
    points
        In order of time, at least one.
    limit
        Delay limit q_t in seconds, or None.
    marks
        Events of the application: seconds since it began, and a word or two for each.
    width, height
        In pixels.
    """
    narrow = width < 600
    right = width - (86.0 if narrow else 104.0)
    bottom = height - _BOTTOM
    known = [value for point in points for value in (point.p50, point.p99)] + ([limit] if limit else [])
    lowest, highest = max(min(known), 1e-6), max(known)  # a limit is drawn however far the delays are from it
    low = math.floor(math.log10(lowest) - 0.05)
    high = max(math.ceil(math.log10(highest * 1.3)), low + 1)
    last = max(points[-1].at, 1.0)

    def x(at: float) -> float:
        return _LEFT + at / last * (right - _LEFT)

    def y(delay: float) -> float:
        return bottom - (math.log10(max(delay, 10.0**low)) - low) / (high - low) * (bottom - _TOP)

    summary = f"delay over {seconds(last)}: last p50 {seconds(points[-1].p50)}, last p99 {seconds(points[-1].p99)}"
    late = [] if limit is None else exceeding([(point.at, point.p99) for point in points], limit)
    if limit is not None:
        summary += f", limit {seconds(limit)}{', which was exceeded' if late else ''}"
    parts = [f'<svg class="chart" role="img" aria-label="{escape(summary)}" viewBox="0 0 {width:.0f} {height:.0f}">']
    if limit is not None:
        parts.append(
            f'<rect class="late" x="{_LEFT}" y="{_TOP}" width="{right - _LEFT:.1f}" height="{y(limit) - _TOP:.1f}"/>'
        )
    for decade in range(low, high + 1):
        at = y(10.0**decade)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
                     f"{seconds(10.0**decade)}</text>")  # fmt: skip
    step = _step(last, 4 if narrow else 8)
    for index in range(int(last / step + 1e-9) + 1):
        at = x(index * step)
        parts.append(f'<line class="tickmark" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>')
        parts.append(f'<text class="tick" x="{at:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">'
                     f"{index * step:g}</text>")  # fmt: skip
    middle = (_LEFT + right) / 2
    parts.append(f'<text class="axis" x="{middle:.1f}" y="{height - 6:.0f}" text-anchor="middle">'
                 "seconds since the sources started</text>")  # fmt: skip
    parts.append(f'<line class="base" x1="{_LEFT}" x2="{right:.1f}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>')
    if limit is not None:
        at = y(limit)
        for stretch in late:
            edge = [(stretch[0][0], limit), *stretch, (stretch[-1][0], limit)]
            corners = " ".join(f"{x(when):.1f},{y(value):.1f}" for when, value in edge)
            parts.append(f'<polygon class="broken" points="{corners}"/>')
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        about = f"{': broken' if late else ''}{'' if narrow else ' (above it, a tuple is late)'}"
        parts.append(f'<text class="limit-label" x="{_LEFT + 6}" y="{at - 6:.1f}">'
                     f"limit {seconds(limit)}{about}</text>")  # fmt: skip
    for when, label in marks:
        if 0 <= when <= last:
            at, left = x(when), when <= last / 2
            parts.append(f'<line class="event" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom:.1f}"/>')
            parts.append(f'<text class="event-label" x="{at + (4 if left else -4):.1f}" y="{bottom - 6:.1f}" '
                         f'text-anchor="{"start" if left else "end"}">{escape(label)}</text>')  # fmt: skip
    upper = [f"{x(point.at):.1f},{y(point.p99):.1f}" for point in points]
    lower = [f"{x(point.at):.1f},{y(point.p50):.1f}" for point in points]
    parts.append(f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>')
    for name, line in (("p99", upper), ("p50", lower)):
        parts.append(f'<polyline class="{name}" points="{" ".join(line)}"/>')
    for point in points:
        said = (f"at {point.at:.1f} s: p50 {seconds(point.p50)}, p99 {seconds(point.p99)}, "
                f"{amount(point.tuples)} tuple{'' if point.tuples == 1 else 's'}")  # fmt: skip
        for name, value in (("p99", point.p99), ("p50", point.p50)):
            spot = f'cx="{x(point.at):.1f}" cy="{y(value):.1f}"'
            parts.append(f'<g><title>{said}</title><circle class="reach" {spot} r="9"/>'
                         f'<circle class="{name}" {spot} r="3.2"/></g>')  # fmt: skip
    ends = {"p99": y(points[-1].p99), "p50": y(points[-1].p50)}
    if ends["p50"] - ends["p99"] < _LINE:
        centre = (ends["p50"] + ends["p99"]) / 2
        ends = {"p99": centre - _LINE / 2, "p50": centre + _LINE / 2}
    for name, value in (("p99", points[-1].p99), ("p50", points[-1].p50)):
        parts.append(f'<text class="{name}-label" x="{right + 8:.1f}" y="{ends[name] + 4:.1f}">'
                     f"{name} {seconds(value)}</text>")  # fmt: skip
    return "\n".join([*parts, "</svg>"])


def _step(last: float, most: int) -> float:
    """A round step that divides ``last`` seconds into at most ``most`` parts."""
    rough = last / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power) if last / step <= most + 1e-9)
