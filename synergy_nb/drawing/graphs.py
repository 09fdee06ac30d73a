"""Pictures of directed acyclic graphs: a self-contained SVG, and text for a terminal.

The same two functions draw query plans, and component graphs with their peers. Colour alone carries no information:
states have a glyph and a name in the tooltip. The SVG contains its style for light and dark.

>>> print(text([Node("a", "packets"), Node("b", "sort"), Node("c", "count"), Node("d", "compare", detail="peer-3")],
...            [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]))
•    packets
├─╮
• │  sort
│ •  count
├─╯
•    compare  peer-3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

import msgspec

from synergy_nb.drawing._layout import Edge, Layout, Place, layered, ranks
from synergy_nb.drawing.svg import element, label, picture, themed

__all__ = ["STATES", "Node", "Placed", "arranged", "headline", "placed", "svg", "text"]

#: Glyphs of the states of nodes.
STATES: Final[Mapping[str, str]] = {
    "waiting": "○",
    "running": "●",
    "moving": "⇄",
    "overloaded": "▲",
    "replica": "◇",
    "failed": "✕",
    "dead": "⊘",
    "stopped": "■",
    "shared": "◆",
}


class Node(msgspec.Struct, frozen=True):
    """A node of a picture."""

    id: str  # identifier of the node in edges
    label: str  # text of the first line
    detail: str = ""  # text of the second line, such as the peer of the operator
    state: str = ""  # state of the node, an element of `STATES`, or empty
    tooltip: str = ""  # text that a browser shows while the pointer rests on the node


def _checked(nodes: Sequence[Node]) -> dict[str, Node]:
    found = {node.id: node for node in nodes}
    if len(found) < len(nodes):
        raise ValueError("nodes: two with the same id; expected distinct ids")
    for node in nodes:
        if node.state and node.state not in STATES:
            raise ValueError(f"node {node.id!r}: state {node.state!r}; expected one of {', '.join(STATES)}")
    return found


def _label(node: Node) -> str:
    return " ".join(node.label.split()) or node.id


def headline(node: Node) -> str:
    """First line of the box of a node: the glyph of its state, and its label."""
    return f"{STATES[node.state]} {_label(node)}" if node.state else _label(node)


# -- SVG -------------------------------------------------------------------------------------------------------------

_STYLE: Final = (
    themed(
        "synergy-drawing",
        "--ink:#1b2430;--soft:#5a6675;--line:#7a8694;--box:#f3f6fa;--edge:#b9c4d0;--bad:#b3261e;--good:#1b6e3c",
        "--ink:#e8edf3;--soft:#a9b4c0;--line:#8b97a5;--box:#232c37;--edge:#4c5967;--bad:#ff8a80;--good:#7ddba3",
    )
    + """
.synergy-drawing{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
max-width:100%;height:auto}
.synergy-drawing .box{fill:var(--box);stroke:var(--edge);stroke-width:1.2}
.synergy-drawing .link{fill:none;stroke:var(--line);stroke-width:1.4}
.synergy-drawing .head{fill:var(--line)}
.synergy-drawing .label{fill:var(--ink);font-size:13px;font-weight:600}
.synergy-drawing .detail,.synergy-drawing .note{fill:var(--soft);font-size:11.5px}
.synergy-drawing .note{paint-order:stroke;stroke:var(--box);stroke-width:3px}
.synergy-drawing .failed .box,.synergy-drawing .dead .box,.synergy-drawing .overloaded .box{stroke:var(--bad);
stroke-width:2}
.synergy-drawing .failed .box,.synergy-drawing .dead .box,.synergy-drawing .stopped .box{stroke-dasharray:4 3}
.synergy-drawing .running .box,.synergy-drawing .shared .box{stroke:var(--good);stroke-width:2}
"""
)
_MARGIN: Final = 12.0
_WIDEST: Final = 960.0  # pixels; a drawing that is wider from left to right is drawn from top to bottom


def svg(
    # nodes, edges: nodes and edges of a directed acyclic graph; an edge is a pair of ids
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    *,
    title: str = "",  # title of the picture for screen readers
    notes: Mapping[Edge, str] | None = None,  # edge to a text beside it, such as the rate of its stream
    direction: str | None = None,  # direction of edges, `right` or `down`; None selects right unless it is too wide
) -> str:
    """Draw the graph as SVG.

    Raises ``ValueError`` if the graph has a cycle, an unknown state, or an edge with an unknown end.
    """
    place = arranged(nodes, edges, direction=direction, room=18.0 if notes else 0.0)
    return _svg(_checked(nodes), place, title, notes or {})


class Placed(NamedTuple):
    """Coordinates of a picture in pixels.

    ``boxes``: left, top, width and height of each node; ``links``: the path of each edge's line and the corners of its
    arrow head, in SVG notation; ``ends``: the points between which the text beside an edge is drawn; ``size``: width
    and height of the picture; ``right``: whether edges point to the right.
    """

    boxes: dict[str, tuple[float, float, float, float]]
    links: dict[Edge, tuple[str, str]]
    ends: dict[Edge, tuple[tuple[float, float], tuple[float, float]]]
    size: tuple[float, float]
    right: bool


def arranged(
    nodes: Sequence[Node], edges: Sequence[Edge], *, direction: str | None = None, room: float = 0.0
) -> Placed:
    """Compute the coordinates of a picture whose boxes have room for the texts of their nodes.

    ``nodes``, ``edges``: nodes and edges of a directed acyclic graph; an edge is a pair of ids; ``direction``:
    direction of edges, ``right`` or ``down``; None selects right unless it is too wide; ``room``: additional length of
    the lines for texts beside them, pixels.

    Raises ``ValueError`` if :func:`svg` would raise it.
    """
    found = _checked(nodes)
    widths = {name: max(64.0, 8.0 * len(headline(node)), 6.9 * len(node.detail)) + 24 for name, node in found.items()}
    height = 46.0 if any(node.detail for node in nodes) else 34.0
    return placed(widths, edges, height=height, direction=direction, room=room)


def placed(
    widths: Mapping[str, float],  # widths of the boxes in pixels, by id
    edges: Sequence[Edge],  # edges of a directed acyclic graph
    *,
    height: float = 46.0,  # height of every box in pixels
    direction: str | None = None,  # direction of edges, `right` or `down`; None selects right unless it is too wide
    room: float = 0.0,  # additional length of the lines for texts beside them, pixels
) -> Placed:
    """Compute the coordinates of each box and each line.

    Raises ``ValueError`` if the graph has a cycle or an edge with an unknown end, or the direction is unknown.
    """
    if direction not in (None, "right", "down"):
        raise ValueError(f"direction: {direction!r}; expected right or down")
    flat = layered(dict.fromkeys(widths, height), edges, 18)
    between = 46.0 + room
    columns = [max((widths[place] for place in row if isinstance(place, str)), default=0.0) for row in flat.ranks]
    across = sum(columns) + between * max(len(columns) - 1, 0)
    if direction == "right" or (direction is None and across <= _WIDEST):
        left = [_MARGIN + sum(columns[:index]) + between * index for index in range(len(columns))]
        centre = {
            place: (left[index] + columns[index] / 2, flat.at[place] + _MARGIN)
            for index, row in enumerate(flat.ranks)
            for place in row
        }
        size = (across + 2 * _MARGIN, max((y for _, y in centre.values()), default=0.0) + height / 2 + _MARGIN)
        return _linked(widths, height, flat, centre, size, right=True)
    tall = layered(widths, edges, 22)
    step = height + 36 + room * 7 / 9
    centre = {
        place: (tall.at[place] + _MARGIN, _MARGIN + height / 2 + index * step)
        for index, row in enumerate(tall.ranks)
        for place in row
    }
    breadth = max((x + (widths[place] if isinstance(place, str) else 0) / 2 for place, (x, _) in centre.items()),
                  default=0.0)  # fmt: skip
    size = (breadth + _MARGIN, step * max(len(tall.ranks) - 1, 0) + height + 2 * _MARGIN)
    return _linked(widths, height, tall, centre, size, right=False)


def _linked(
    widths: Mapping[str, float],
    height: float,
    layout: Layout,
    centre: Mapping[Place, tuple[float, float]],
    size: tuple[float, float],
    *,
    right: bool,
) -> Placed:
    boxes = {
        name: (centre[name][0] - width / 2, centre[name][1] - height / 2, width, height)
        for name, width in widths.items()
    }
    axis = 0 if right else 1
    links: dict[Edge, tuple[str, str]] = {}
    ends: dict[Edge, tuple[tuple[float, float], tuple[float, float]]] = {}
    for (upper, lower), chain in layout.chains.items():
        points = [centre[place] for place in chain]
        start, end = list(points[0]), list(points[-1])
        start[axis] += boxes[upper][2 + axis] / 2
        end[axis] -= boxes[lower][2 + axis] / 2 + 7  # room for the arrow head
        path = _curve([(start[0], start[1]), *points[1:-1], (end[0], end[1])], right=right)
        x, y = end
        head = f"{x:.1f},{y - 4:.1f} {x + 7:.1f},{y:.1f} {x:.1f},{y + 4:.1f}" if right else (
            f"{x - 4:.1f},{y:.1f} {x:.1f},{y + 7:.1f} {x + 4:.1f},{y:.1f}")  # fmt: skip
        links[upper, lower] = path, head
        ends[upper, lower] = (start[0], start[1]), points[1]
    return Placed(boxes, links, ends, size, right)


def _svg(found: Mapping[str, Node], place: Placed, title: str, notes: Mapping[Edge, str]) -> str:
    parts = []
    for (upper, lower), (line, head) in place.links.items():
        parts.append(element("path", "link", _title(f"{upper} to {lower}"), d=line))
        parts.append(element("polygon", "head", points=head))
    for name, node in found.items():
        left, top, width, height = place.boxes[name]
        x, y = left + width / 2, top + height / 2 + 4.5 - (8 if node.detail else 0)
        tooltip = "\n".join(part for part in (node.tooltip or node.label, node.detail, node.state) if part)
        box = element("rect", "box", x=left, y=top, width=width, height=height, rx="7")
        detail = label(x, y + 17, node.detail, "detail", anchor="middle") if node.detail else ""
        first = label(x, y, headline(node), "label", anchor="middle")
        parts.append(element("g", f"node {node.state}", _title(tooltip), box, first, detail))
    for edge, note in notes.items():
        (x, y), (to_x, to_y) = place.ends[edge]
        parts.append(label((x + to_x) / 2, (y + to_y) / 2 - 5, note, "note", anchor="middle"))
    return picture("synergy-drawing", title or "graph", place.size, parts, style=_STYLE)


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _curve(points: Sequence[tuple[float, float]], *, right: bool) -> str:
    """Draw cubic curves through ``points`` with ends along the direction of the drawing."""
    x, y = points[0]
    path = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in points[1:]:
        middle_x, middle_y = (x + to_x) / 2, (y + to_y) / 2
        first, second = ((middle_x, y), (middle_x, to_y)) if right else ((x, middle_y), (to_x, middle_y))
        path.append(f"C{first[0]:.1f},{first[1]:.1f} {second[0]:.1f},{second[1]:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(path)


# -- text ------------------------------------------------------------------------------------------------------------


def text(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """Draw the graph for a terminal: a line for each node, and lanes for the edges that continue below it.

    A node without a state is a dot. The next node is the one in the leftmost lane among the nodes whose predecessors
    are all drawn, so a branch is drawn to its end before the next one begins. An edge across a lane passes behind it.

    Raises ``ValueError`` if :func:`svg` would raise it.
    """
    found = _checked(nodes)
    below: dict[str, list[str]] = {name: [] for name in ranks(list(found), edges)}
    missing = dict.fromkeys(found, 0)  # predecessors that are not drawn yet
    for upper, lower in dict.fromkeys(edges):
        below[upper].append(lower)
        missing[lower] += 1
    lanes: list[str] = []  # node to which each lane leads, empty for a free lane
    lines: list[tuple[str, Node | None]] = []
    while missing:
        ready = [name for name, number in missing.items() if not number]
        name = min(ready, key=lambda one: lanes.index(one) if one in lanes else len(lanes))
        del missing[name]
        arriving = [lane for lane, to in enumerate(lanes) if to == name]
        if len(arriving) > 1:
            lines.append((_bar(lanes, arriving, "┴", "╯"), None))
        for lane in arriving:
            lanes[lane] = ""
        at = arriving[0] if arriving else _free(lanes, 0)
        marks = ["│" if to else " " for to in lanes]
        above = lines[-1][0] if lines else ""
        if not arriving and above[2 * at : 2 * at + 1].strip():  # the node above has no edge to this one
            lines.append((" ".join(marks).rstrip(), None))
        marks[at] = STATES.get(found[name].state, "•")
        lines.append((" ".join(marks), found[name]))
        leaving = []
        for lower in below[name]:
            leaving.append(_free(lanes, at))
            lanes[leaving[-1]] = lower
            missing[lower] -= 1
        if len(leaving) > 1:
            lines.append((_bar(lanes, leaving, "┬", "╮"), None))
    width = max((len(drawn.rstrip()) for drawn, _ in lines), default=0)
    longest = max((len(_label(node)) for node in nodes), default=0)
    return "\n".join(
        (f"{drawn.rstrip():<{width}}  {_label(node):<{longest}}  {node.detail}" if node else drawn).rstrip()
        for drawn, node in lines
    )


def _free(lanes: list[str], least: int) -> int:
    """Find the first free lane from ``least`` on; add one if there is none."""
    if "" not in lanes[least:]:
        lanes.append("")
    return lanes.index("", least)


def _bar(lanes: Sequence[str], ends: Sequence[int], between: str, last: str) -> str:
    """Draw the line on which the lanes ``ends`` leave one node, or meet at one."""
    drawn = []
    for lane, to in enumerate(lanes):
        across = ends[0] <= lane < ends[-1]
        mark = "│" if to else "─" if across else " "
        if lane in ends:
            mark = "├" if lane == ends[0] else last if lane == ends[-1] else between
        drawn.append(mark + ("─" if across else " "))
    return "".join(drawn)
