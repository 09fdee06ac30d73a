"""The present state of the live view as one self-contained SVG, and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from synergy_nb.drawing.svg import element, label, picture, themed
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.tables import as_text
from synergy_nb.widgets._charts import STYLE, chart
from synergy_nb.widgets._component_status import drawn_plan
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._latest_values import LatestFlow
from synergy_nb.widgets._status_text import shown_flows, status_pieces

WIDTH: Final = 760.0
CHART: Final = (WIDTH, 240.0)  # width and height of the chart, in pixels
POINTS: Final = 240  # maximum number of points of a line in a picture
SHOWN: Final = 8  # maximum number of sinks that are shown; of peers, twice as many
_TONES: Final = {"bad": "▲", "good": "✓", "note": "·"}

_STYLE: Final = (
    themed(
        "synergy-snapshot",
        "--page:#fff;--ink:#16202b;--soft:#55616f;--rule:#dfe4e9;--track:#e9edf1;--good:#146c38;--bad:#b3261e;"
        "--p50:#1f6fbf;--p99:#b8500f",
        "--page:#14181d;--ink:#e8edf3;--soft:#a9b4c0;--rule:#333c47;--track:#2a323c;--good:#7ddba3;--bad:#ff9a90;"
        "--p50:#62a5f0;--p99:#eb9256",
    )
    + """
.synergy-snapshot{--late:var(--bad);--grid:var(--rule);max-width:100%;height:auto;font-variant-numeric:tabular-nums;
font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.synergy-snapshot .page{fill:var(--page);stroke:var(--rule)}.synergy-snapshot text{fill:var(--ink)}
.synergy-snapshot .soft{fill:var(--soft);font-size:12px}
.synergy-snapshot .title{font-size:17px;font-weight:650}.synergy-snapshot .strong{font-weight:600}
.synergy-snapshot .good{fill:var(--good);font-weight:600}.synergy-snapshot .bad{fill:var(--bad);font-weight:600}
.synergy-snapshot .warning{fill:var(--bad);font-size:12px}
.synergy-snapshot .rule{stroke:var(--rule)}.synergy-snapshot .track{fill:var(--track)}
.synergy-snapshot .load{fill:var(--p50)}.synergy-snapshot .mark{fill:var(--ink)}
"""
)


def svg(readings: JournalSeries, plan: Plan | None = None) -> str:
    """The ``readings`` as one self-contained picture."""
    pieces = status_pieces(readings, plan)
    head = pieces["head"]
    parts = [
        label(16, 30, head["title"], "title"),
        label(WIDTH - 16, 30, f"{head['glyph']} {head['status']}", head["tone"] if head["tone"] != "note" else "soft",
              anchor="end"),
    ]  # fmt: skip
    y = 50.0
    for line in _wrapped(head["sentence"], 112):
        parts.append(label(16, y, line, "soft"))
        y += 17
    flows = [flow for flow in shown_flows(readings) if ("rate", f"{flow.application}/{flow.sink}") in readings.lines]
    rows = [pieces[f"flow:{flow.application}/{flow.sink}"] for flow in flows[:SHOWN]]
    if rows:
        y += 12
        for x, words in ((16, "Sink"), (300, "Delay p50"), (460, "Delay p99"), (610, "Throughput"), (744, "Miss rate")):
            parts.append(label(x, y, words, "soft", anchor="start" if x == 16 else "end"))
        for row in rows:
            y += 20
            of = f" of {row['limit']}" if row["limit"] else ""
            mark = "" if row["delay_met"] is None else "✓ " if row["delay_met"] else "▲ "
            name = row["label"] or row["id"].rpartition("/")[2]
            parts.append(label(16, y, f"{row['glyph']} {name}"))
            parts.append(label(300, y, row["p50"], anchor="end"))
            parts.append(
                label(460, y, f"{mark}{row['p99']}{of}", "bad" if row["delay_met"] is False else "", anchor="end")
            )
            parts.append(label(610, y, row["rate"], anchor="end"))
            parts.append(label(744, y, row["miss"], "bad" if row["miss_met"] is False else "", anchor="end"))
        parts.append(element("line", "rule", x1=16, x2=WIDTH - 16, y1=y + 10, y2=y + 10))
        y += 14
    for flow in flows[:1] if len(flows) == 1 else []:
        drawn = _delays(readings, flow, head["zero"], pieces["marks"]["list"], rows[0]["broken"])
        parts.append(element("g", "", drawn, transform=f"translate(0,{y:.0f})"))
        y += CHART[1] if drawn else 0.0
    if plan is not None and readings.application is not None:
        drawn, width, height = _plan(readings, plan, pieces, WIDTH - 32)
        parts.append(element("g", "", drawn, transform=f"translate({(WIDTH - width) / 2:.0f},{y + 8:.0f})"))
        y += height + 16
    peers = [piece for name, piece in pieces.items() if name.startswith("peer:")]
    for piece in peers[: 2 * SHOWN]:
        y += 21
        parts += _peer(piece, y)
    if len(peers) > 2 * SHOWN:
        y += 19
        parts.append(label(16, y, f"and {counted(len(peers) - 2 * SHOWN, 'more peer')}", "soft"))
    for words in [each for sentence in pieces.get("loads", {}).get("list", ()) for each in _wrapped(sentence, 112)]:
        y += 18
        parts.append(label(16, y, words, "soft"))
    slacks = [piece for name, piece in pieces.items() if name.startswith("part:") and piece.get("slack")]
    if slacks:
        rows_of_slack, y = _slacks(slacks[: 2 * SHOWN], y + 26)
        parts += rows_of_slack
    for title, lines in (
        ("What happened", [_happened(each) for each in pieces["marks"]["list"]]),
        ("Errors of peers", [f"▲ {_trouble(each)}" for each in pieces["troubles"]["list"]]),
    ):
        if lines:
            y += 26
            parts.append(label(16, y, title, "strong"))
        for each in lines[-SHOWN:]:
            for words in _wrapped(each, 112):
                y += 18
                parts.append(label(16, y, words, "warning" if each.startswith("▲") else "soft"))
    size = (WIDTH, y + 16)
    page = element("rect", "page", x=0.5, y=0.5, width=WIDTH - 1, height=size[1] - 1, rx="8")
    title = f"{head['title']}: {head['status']}. {head['sentence']}"
    return picture("synergy-snapshot", title, size, [page, *parts], style=_STYLE + STYLE)


def _wrapped(words: str, width: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines[:6]


def _delays(
    readings: JournalSeries, flow: LatestFlow, zero: float, marks: Sequence[Mapping[str, Any]], broken: str
) -> str:
    """Chart of the delay over time, its limit and events; empty without measurements."""
    of = f"{flow.application}/{flow.sink}"
    lines = {name: _thinned(*readings.line(name, of).points(), zero) for name in ("p99", "p50")}
    if not lines["p99"]:
        return ""
    moments = [(mark["at"] - zero, mark["label"]) for mark in marks if mark["label"]]
    return chart(lines, flow.limit, marks=moments, size=CHART, broken=broken or "exceeded")


def _thinned(times: Sequence[float], values: Sequence[float], zero: float) -> list[tuple[float, float]]:
    """At most :data:`POINTS` points: the greatest value in each of so many equal intervals."""
    known = [(at - zero, value) for at, value in zip(times, values, strict=True) if not math.isnan(value)]
    step = math.ceil(len(known) / POINTS) or 1
    return [max(known[start : start + step], key=lambda point: point[1]) for start in range(0, len(known), step)]


def _plan(readings: JournalSeries, plan: Plan, pieces: Mapping[str, Any], width: float) -> tuple[str, float, float]:
    """Drawing of the plan with its peers, at most ``width`` wide: its SVG, width and height."""
    own = {
        piece["operator"]: piece
        for name, piece in pieces.items()
        if name.startswith("part:") and piece["application"] == readings.application
    }
    details = {
        name: f"{piece['on']}, {(piece['state'] == 'running' and piece['rate']) or piece['state_text']}"
        for name, piece in own.items()
    }
    picture = drawn_plan(readings, plan).to_svg(details, {name: piece["state"] for name, piece in own.items()})
    size = picture.partition('viewBox="0 0 ')[2].partition('"')[0].split()
    wide, high = float(size[0]), float(size[1])
    scale = min(width / wide, 1.0)
    before = f'width="{size[0]}" height="{size[1]}"'
    scaled = f'width="{wide * scale:.0f}" height="{high * scale:.0f}"'
    return picture.replace(before, scaled, 1), wide * scale, high * scale


def _peer(piece: Mapping[str, Any], y: float) -> list[str]:
    left, right = 150.0, 480.0
    parts = [
        label(16, y, piece["name"], "soft" if piece["gone"] else "strong"),
        element("rect", "track", x=left, y=y - 9, width=right - left, height=9, rx="2"),
    ]
    if piece["load"] is not None:
        wide = min(piece["load"], 1.0) * (right - left)
        parts.append(element("rect", "load", x=left, y=y - 9, width=wide, height=9, rx="2"))
    if piece["promised"] is not None:
        at = left + min(piece["promised"], 1.0) * (right - left)
        parts.append(element("rect", "mark", x=at - 1, y=y - 12, width=2, height=15))
    sign = "⊘ " if piece["gone"] else "▲ " if piece["overloaded"] else ""
    parts.append(label(right + 12, y, f"{sign}{piece['load_text']}", "bad" if sign else ""))
    if piece["promised_text"]:
        parts.append(label(744, y, f"{piece['promised_text']} promised {piece['cores']}", "soft", anchor="end"))
    return parts


#: Columns of the slack of operators: heading, key, and right edge in pixels.
_SLACKS: Final = (
    ("Slack", "now", 316),
    ("least", "least", 392),
    ("Time measured", "measured_time", 498),
    ("predicted", "predicted_time", 574),
    ("Tuples/s", "measured_rate", 660),
    ("predicted", "predicted_rate", 744),
)


def _slacks(pieces: Sequence[Mapping[str, Any]], y: float) -> tuple[list[str], float]:
    """Rows of the slack of operators, and the height at which they end."""
    parts = [label(16, y, "Operator", "soft"), label(150, y, "Peer", "soft")]
    parts += [label(x, y, heading, "soft", anchor="end") for heading, _, x in _SLACKS]
    for piece in pieces:
        y += 19
        slack = piece["slack"]
        parts += [label(16, y, piece["operator"], "strong"), label(150, y, piece["on"], "soft")]
        bad = {"now": slack["used_up"], "least": slack["was_used_up"], "predicted_time": slack["off"]}
        parts += [
            label(x, y, slack[key].removesuffix(" tuples/s") if "/s" in slack[key] else slack[key],
                  "bad" if bad.get(key) else "", anchor="end")
            for _, key, x in _SLACKS
        ]  # fmt: skip
    return parts, y


def text(readings: JournalSeries, plan: Plan | None = None) -> str:
    """The ``readings`` as text for a terminal.

    Examples
    --------
    >>> print(text(JournalSeries()))
    Cluster of 0 peers: waiting
    No peer has recorded an event yet.
    """
    pieces = status_pieces(readings, plan)
    head = pieces["head"]
    blocks = [f"{head['title']}: {head['status']}\n{head['sentence']}"]
    rows = [
        (
            piece["label"] or piece["id"].rpartition("/")[2],
            piece["p50"],
            piece["p99"] + ("" if piece["delay_met"] is None else " ✓" if piece["delay_met"] else " ▲"),
            ", ".join(filter(None, (piece["limit"], piece["broken"]))) or "-",
            piece["rate"],
            piece["miss"],
            piece["tuples"],
        )
        for name, piece in pieces.items()
        if name.startswith("flow:")
    ]
    if rows:
        blocks.append(as_text("", ("sink", "delay p50", "p99", "limit", "throughput", "miss rate", "so far"), rows))
    parts = [piece for name, piece in pieces.items() if name.startswith("part:")]
    if plan is not None and readings.application is not None:
        own = {piece["operator"]: piece for piece in parts}
        details = {name: f"{piece['on']}, {piece['state_text']}" for name, piece in own.items()}
        blocks.append(
            drawn_plan(readings, plan).to_text(details, {name: piece["state"] for name, piece in own.items()})
        )
    peers = [
        (
            piece["name"],
            f"{piece['load_text']}, overloaded" if piece["overloaded"] else piece["load_text"],
            piece["promised_text"] or "-",
            ", ".join(
                f"{each['operator']} ({', '.join(filter(None, (each['state_text'], each['memory'])))})"
                for each in parts
                if each["peer"] == piece["id"]
            )
            or "-",
        )
        for name, piece in pieces.items()
        if name.startswith("peer:")
    ]
    if peers:
        blocks.append(as_text("", ("peer", "load", "promised", "components"), peers))
    slacks = [
        (piece["operator"], piece["on"], *(_written(piece["slack"], key) for _, key, _ in _SLACKS))
        for piece in parts
        if piece.get("slack")
    ]
    if slacks:
        headings = ("operator", "peer", "slack", "least", "time measured", "predicted", "rate measured", "predicted")
        blocks.append(as_text("", headings, slacks))
    if pieces["marks"]["list"]:
        blocks.append("\n".join(["what happened", *(f"  {_happened(each)}" for each in pieces["marks"]["list"])]))
    if pieces["troubles"]["list"]:
        blocks.append("\n".join(["errors of peers", *(f"  ▲ {_trouble(each)}" for each in pieces["troubles"]["list"])]))
    return "\n\n".join(blocks)


def _written(slack: Mapping[str, Any], key: str) -> str:
    """A cell of the slack of an operator, with what a page shows as its tooltip."""
    return f"{slack[key]} ({slack['off']})" if key == "predicted_time" and slack["off"] else str(slack[key])


def _trouble(trouble: Mapping[str, Any]) -> str:
    """An error of peers in a line: the peers, the error, and its count."""
    times = f" ({trouble['count']})" if trouble["count"] else ""
    return f"{trouble['peers']}: {trouble['text']}{times}"


def _happened(mark: Mapping[str, Any]) -> str:
    """An event of an application in a line."""
    after = f"after {mark['after']}: " if mark["after"] else ""
    return f"{_TONES[mark['tone']]} {after}{mark['text']}"
