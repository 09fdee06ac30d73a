"""Picture of one moment of a replay, as a self-contained SVG: peers on ring or map, message, verdict, graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from synergy_nb.drawing.svg import element, label, picture, themed
from synergy_nb.recording.moments import ComparedGraph, Moment, PeerPlace, Replay, ranked
from synergy_nb.reporting.formatting import seconds

ARRANGEMENTS: Final = ("ring", "map")  # arrangements of the peers
SIZE: Final = 440.0  # width and height of the arrangement, pixels
WIDTH: Final = 860.0
MARGIN: Final = 52.0
MOST_GRAPHS: Final = 6  # maximum number of graphs in a picture
LINE_LENGTH: Final = 58  # maximum number of characters of a line of text beside the arrangement
LETTER: Final = 6.6  # approximate width of a letter of a name, pixels
MOST_NAMED_PEERS: Final = 24  # number of peers up to which the names of all are shown
GLYPHS: Final = {"good": "✓", "bad": "▲", "note": "·"}

#: Rules of the picture's parts; § stands for "within the picture", ¤ for the picture.
_RULES: Final = """
¤{max-width:100%;height:auto;font-variant-numeric:tabular-nums;
font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
§.page{fill:var(--page);stroke:var(--rule)}§text{fill:var(--ink)}
§.soft{fill:var(--soft);font-size:12px}§.title{font-size:16px;font-weight:650}
§.strong{font-weight:600}§.good{fill:var(--good)}
§.bad{fill:var(--bad)}§.circle{fill:none;stroke:var(--rule);stroke-width:1.5}
§.peer{fill:var(--box);stroke:var(--edge)}§.at{stroke:var(--go);stroke-width:2.5}
§.dead{stroke:var(--bad);stroke-dasharray:3 2}§.busy{fill:var(--edge)}
§.way{stroke:var(--go);stroke-width:2.5;fill:none}§.tip{fill:var(--go)}
§.path{stroke:var(--path);stroke-width:2;fill:none;stroke-dasharray:5 4}
§.rule{stroke:var(--rule)}
"""
_STYLE: Final = themed(
    "synergy-stage-picture",
    "--page:#fff;--ink:#16202b;--soft:#55616f;--rule:#dfe4e9;--edge:#b3bdc8;--box:#f7f9fb;--good:#146c38;"
    "--bad:#b3261e;--go:#1f6fbf;--path:#b8500f",
    "--page:#14181d;--ink:#e8edf3;--soft:#a9b4c0;--rule:#333c47;--edge:#55616f;--box:#1c232b;--good:#7ddba3;"
    "--bad:#ff9a90;--go:#62a5f0;--path:#eb9256",
) + _RULES.replace("§", ".synergy-stage-picture ").replace("¤", ".synergy-stage-picture")


def default_arrangement(replay: Replay) -> str:
    """Return the arrangement in which a replay is shown first: the map if delays are known."""
    return "map" if any(peer.x is not None for peer in replay.peers) else "ring"


def places(
    replay: Replay, arrangement: str, size: float = SIZE, margin: float = MARGIN
) -> dict[str, tuple[float, float]]:
    """Return the coordinates of peers in pixels, by name.

    ``replay``: replay with the peers; ``arrangement``: arrangement, from :data:`ARRANGEMENTS`; ``size``, ``margin``:
    width and height of the arrangement, and the empty space at each side of it, pixels.
    """
    span = size - 2 * margin

    def at(peer: PeerPlace) -> tuple[float, float]:
        if arrangement == "map" and peer.x is not None and peer.y is not None:
            return margin + peer.x * span, margin + peer.y * span
        angle = 2 * math.pi * peer.ring - math.pi / 2
        return size / 2 + span / 2 * math.cos(angle), size / 2 + span / 2 * math.sin(angle)

    return {peer.name: at(peer) for peer in replay.peers}


def state_at(replay: Replay, step: int) -> tuple[dict[str, str], set[str], set[str]]:
    """Return the peer that executes each operator after a moment, the dead peers, and those that are not in the ring.

    ``replay``: replay with the moments; ``step``: number of the moment, from 0.
    """
    placed: dict[str, str] = {}
    dead: set[str] = set()
    absent: set[str] = set()
    for moment in replay.moments[: step + 1]:
        placed = placed if moment.placed is None else moment.placed
        dead = (dead | set(moment.dead)) - set(moment.alive) - set(moment.joined)
        absent = (absent | set(moment.left)) - set(moment.joined)
    return placed, dead, absent


def svg(replay: Replay, step: int, arrangement: str) -> str:
    """Draw one moment of a replay.

    ``replay``: replay to draw; ``step``: number of the moment, from 0; ``arrangement``: arrangement of the peers, from
    :data:`ARRANGEMENTS`.
    """
    moment = replay.moments[step] if replay.moments else None
    parts = [label(16, 28, f"{replay.request}: {_shortened(replay.outcome, 90)}", "title")]
    placed, dead, absent = state_at(replay, step)
    at = {name: place for name, place in places(replay, arrangement).items() if name not in absent}
    parts.append(
        element("g", "", *_arrangement(replay, moment, at, placed, dead, arrangement), transform="translate(0 34)")
    )
    y = 62.0
    if moment is not None:
        count = f"{step + 1} of {len(replay.moments)}"
        parts.append(label(SIZE + 16, y, f"{seconds(moment.at)} after submission, {moment.kind} ({count})", "soft"))
        way = f"{moment.sender} → {moment.to}" if moment.sender not in ("", moment.to) else moment.to
        parts += [label(SIZE + 16, y + 24, way, "strong"), label(SIZE + 16, y + 44, moment.title, "strong")]
        y += 64
        lines = [(line, "") for line in _lines(moment.text)]
        for tone, verdict in moment.verdicts[:4]:
            lines += [(line, tone) for line in _lines(f"{GLYPHS[tone]} {verdict}")]
        lines += [(f"{name}: {value}", "soft") for name, value in moment.numbers]
        for line, kind in lines[:14]:
            parts.append(label(SIZE + 16, y, line, kind))
            y += 18
    if replay.made_from:
        parts.append(label(SIZE + 16, SIZE + 22, _shortened(f"made from {replay.made_from}", 66), "soft"))
    y = SIZE + 50.0
    rows = _graphs(replay, step)
    if rows:
        parts += [label(16, y, "Complete graphs", "strong"), label(150, y, "φ", "soft"), label(230, y, "delay", "soft")]
        for graph in rows:
            y += 19
            verdict, reason = graph.verdict(step), graph.reason(step)
            kind = "good" if verdict == "chosen" else "bad" if verdict else ""
            where = ", ".join(f"{operator}@{peer}" for operator, peer in graph.peers.items())
            parts += [
                label(16, y, f"{'✓' if verdict == 'chosen' else '▲'} {verdict}" if verdict else "·", kind),
                label(150, y, "-" if graph.phi is None else f"{graph.phi:.4g}"),
                label(230, y, seconds(graph.delay_s)),
                label(310, y, _shortened(graph.unqualified or where, 84)),
            ]
            if reason and not graph.unqualified:
                y += 17
                parts.append(label(150, y, _shortened(f"by {reason}" if verdict == "chosen" else reason, 104), "soft"))
    size = (WIDTH, y + 16)
    page = element("rect", "page", x=0.5, y=0.5, width=WIDTH - 1, height=size[1] - 1, rx="8")
    title = f"{replay!r}"
    return picture("synergy-stage-picture", title, size, [page, *parts], style=_STYLE)


def _arrangement(
    replay: Replay,
    moment: Moment | None,
    at: Mapping[str, tuple[float, float]],
    placed: Mapping[str, str],
    dead: set[str],
    arrangement: str,
) -> list[str]:
    """Draw the peers on the ring or the map, with the names and operators that are of interest at the moment."""
    parts = []
    if arrangement == "ring":
        parts.append(element("circle", "circle", cx=SIZE / 2, cy=SIZE / 2, r=SIZE / 2 - MARGIN))
    parts += _travel_lines(moment, at)
    operators: dict[str, list[str]] = {}
    for operator, name in placed.items():
        operators.setdefault(name, []).append(operator)
    here = {moment.sender, moment.to} if moment is not None else set()
    names: list[tuple[int, str, str]] = []
    for peer in (each for each in replay.peers if each.name in at):
        x, y = at[peer.name]
        kind = f"peer{' at' if peer.name in here else ''}{' dead' if peer.name in dead else ''}"
        kind += " busy" if peer.name in operators else ""
        parts.append(element("circle", kind, cx=x, cy=y, r=6.0 if peer.name in here or peer.name in operators else 4.0))
        if len(replay.peers) <= MOST_NAMED_PEERS or peer.name in here or peer.name in operators:
            words = " · ".join([peer.name, *operators.get(peer.name, ()), *(["dead"] if peer.name in dead else [])])
            names.append((0 if peer.name in here else 1 if peer.name in operators else 2, peer.name, words))
    return parts + _names(names, at)


def _names(names: list[tuple[int, str, str]], at: Mapping[str, tuple[float, float]]) -> list[str]:
    """Write names beside their peers where they cover neither a peer nor another name.

    Names of rank 0 and 1 are written in any case, shortened to the room; one of rank 2 is left out where there is none.

    ``names``: rank, name of the peer, and words of each name; ``at``: coordinates of the peers in pixels, by name.
    """
    parts = []
    taken = {name: (x - 6, y - 6, x + 6, y + 6) for name, (x, y) in at.items()}
    for rank, name, words in sorted(names):
        wide = LETTER * len(words)
        boxed = []
        for x, y, anchor in _spots(*at[name]):
            left = x if anchor == "start" else x - wide if anchor == "end" else x - wide / 2
            boxed.append(((left, y - 11, left + wide, y + 3), (x, y, anchor)))
        others = [box for other, box in taken.items() if other != name]
        free = [each for each in boxed if _is_free(each[0], others)]
        if not free and rank == 2:
            continue
        box, (x, y, anchor) = free[0] if free else max(boxed, key=lambda each: _room(*each[1]))
        taken[f"name of {name}"] = box
        parts.append(label(x, y, _shortened(words, int(_room(x, y, anchor) / LETTER)), "soft", anchor=anchor))
    return parts


def _spots(x: float, y: float) -> list[tuple[float, float, str]]:
    """Places for a name beside its peer, each with its anchor, the one that is farthest from the middle first."""
    beside = [(x + 11, y + 4, "start"), (x - 11, y + 4, "end")]
    around = [(x, y - 11, "middle"), (x, y + 20, "middle")]
    corners = [(x + side, y + down, "start" if side > 0 else "end") for down in (-12, 18) for side in (7, -7)]
    if x < SIZE / 2:
        beside.reverse()
    if y > SIZE / 2:
        around.reverse()
    return [*around, *beside, *corners] if abs(x - SIZE / 2) < SIZE / 8 else [*beside, *around, *corners]


def _room(x: float, y: float, anchor: str) -> float:
    """Width of the words that stay within the arrangement at a place, pixels; 0 if it is above or below."""
    if not -6 < y - 11 <= y + 3 < SIZE - 2:
        return 0.0
    left, right = x - 2, SIZE + 12 - x
    return right if anchor == "start" else left if anchor == "end" else 2 * min(left, right)


def _is_free(box: tuple[float, float, float, float], others: list[tuple[float, float, float, float]]) -> bool:
    """Whether a box of left, top, right and bottom is within the arrangement and covers no other one."""
    left, top, right, bottom = box
    within = left > 2 and right < SIZE + 12 and top > -6 and bottom < SIZE - 2
    return within and all(right < each[0] or left > each[2] or bottom < each[1] or top > each[3] for each in others)


def _travel_lines(moment: Moment | None, at: Mapping[str, tuple[float, float]]) -> list[str]:
    """Lines of the message that travels, and of the path that its probe has passed."""
    if moment is None:
        return []
    parts = []
    path = [at[peer] for _, peer in moment.path if peer in at]
    if len(path) > 1:
        line = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in path)
        parts.append(element("path", "path", d=line))
    if moment.sender in at and moment.to in at and moment.sender != moment.to:
        (x1, y1), (x2, y2) = at[moment.sender], at[moment.to]
        angle = math.atan2(y2 - y1, x2 - x1)
        tip = (x2 - 8 * math.cos(angle), y2 - 8 * math.sin(angle))
        wings = [(tip[0] - 9 * math.cos(angle + turn), tip[1] - 9 * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
        parts.append(element("line", "way", x1=x1, y1=y1, x2=tip[0], y2=tip[1]))
        parts.append(element("polygon", "tip", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, *wings))))
    return parts


def _graphs(replay: Replay, step: int) -> list[ComparedGraph]:
    """Graphs that are known after a moment: the chosen one, those whose set-up failed, then those with the least φ."""
    best = ranked([graph for graph in replay.graphs if graph.since <= step], step)
    return best[:MOST_GRAPHS]


def _shortened(words: str, room: int) -> str:
    return words if len(words) <= room else f"{words[: room - 1]}…"


def _lines(words: str) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + len(word) >= LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines[:6] if lines != [""] else []
