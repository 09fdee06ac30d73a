"""Pictures of plans: complete, readable, free of anything from outside."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.drawing._layout import layered
from synergy_nb.drawing.graphs import STATES, Node, svg, text
from synergy_nb.plan.text.operator_texts import brief
from tests.example_plans import figure_2_6, monitoring

SVG = "{http://www.w3.org/2000/svg}"
UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
STROKES = {
    "│": {UP, DOWN}, "─": {LEFT, RIGHT}, "├": {UP, DOWN, RIGHT}, "╮": {DOWN, LEFT}, "╯": {UP, LEFT},
    "┬": {DOWN, LEFT, RIGHT}, "┴": {UP, LEFT, RIGHT},
}  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], list[tuple[str, str]]]:
    number = draw(st.integers(1, 9))
    nodes = [Node(f"n{index}", f"node{index}") for index in range(number)]
    pairs = [(f"n{one}", f"n{other}") for one in range(number) for other in range(one + 1, number)]
    return nodes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []


def test_the_monitoring_plan_is_drawn_as_text_with_its_peers() -> None:
    assert (
        monitoring().to_text({"sort": "peer-1", "compare": "peer-3"})
        == """\
•    source
•    filter
•    project
•    aggregate
├─╮
• │  sort                peer-1
│ •  count
├─╯
•    compare             peer-3
•    destination (sink)"""
    )


def test_figure_2_6_is_drawn_as_text() -> None:
    nodes = [Node(f"o{number}", f"o{number}") for number in range(1, 7)]
    edges = [("o1", "o2"), ("o1", "o3"), ("o2", "o4"), ("o3", "o5"), ("o4", "o6"), ("o5", "o6")]
    assert (
        text(nodes, edges)
        == """\
•    o1
├─╮
• │  o2
• │  o4
│ •  o3
│ •  o5
├─╯
•    o6"""
    )


def test_an_edge_across_a_lane_passes_behind_it_as_text() -> None:
    nodes = [Node(name, name) for name in "abcde"]
    edges = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("d", "e"), ("c", "e"), ("b", "d")]
    assert (
        text(nodes, edges)
        == """\
•        a
├─┬─╮
• │ │    b
├─│─│─╮
│ • │ │  c
│ │ ├─╯
│ │ •    d
├─┴─╯
•        e"""
    )


def test_a_text_drawing_shows_details_and_states() -> None:
    drawn = monitoring().to_text({"sort": "peer-1", "count": "peer-2"}, {"sort": "running", "count": "failed"})
    assert "● │  sort                peer-1" in drawn
    assert "│ ✕  count               peer-2" in drawn


def test_svg_holds_all_and_nothing_from_outside() -> None:
    query = monitoring()
    details = {name: f"peer-{number}" for number, name in enumerate(query.operators)}
    drawn = query.to_svg(details, {"sort": "overloaded"})
    root = ET.fromstring(drawn)
    labels = [each.text for each in root.iter(f"{SVG}text")]
    assert {"source", "filter", "▲ sort", "destination (sink)", *details.values()} <= set(labels)
    tooltips = [each.findtext(f"{SVG}title") or "" for each in root.iter(f"{SVG}g")]
    assert len(tooltips) == len(query.operators)
    assert any("filter[link = 'B']" in each and "tuples/s" in each for each in tooltips)
    assert any("overloaded" in each for each in tooltips)  # not by colour alone
    assert len([each for each in root.iter(f"{SVG}path") if each.get("class") == "link"]) == 8
    assert "prefers-color-scheme:dark" in drawn
    assert not re.findall(r"(?:href|src|url\(|@import|<script)", drawn)
    assert query._repr_svg_() == query.to_svg()
    assert query._repr_html_() == f"<div>{query.to_svg()}</div>"  # as large as the page has room


def test_svg_writes_foreign_text_as_text() -> None:
    drawn = svg([Node("a", "<b>&'\"", detail="</svg>", tooltip="<script>")], [], title='"><script>')
    assert [each.text for each in ET.fromstring(drawn).iter(f"{SVG}text")] == ["<b>&'\"", "</svg>"]
    assert "<script" not in drawn


def test_boxes_stay_apart_and_inside() -> None:
    for direction in ("right", "down"):
        nodes = [Node(f"n{number}", f"a longer label {number}", detail="peer-1") for number in range(9)]
        edges = [("n0", f"n{number}") for number in range(1, 8)] + [(f"n{number}", "n8") for number in range(1, 8)]
        root = ET.fromstring(svg(nodes, edges, direction=direction, notes={("n0", "n1"): "5 kB/s"}))
        boxes = [
            [float(box.get(name) or "nan") for name in ("x", "y", "width", "height")] for box in root.iter(f"{SVG}rect")
        ]
        for index, (x, y, width, height) in enumerate(boxes):
            assert 0 <= x <= float(root.get("width") or 0) - width
            assert 0 <= y <= float(root.get("height") or 0) - height
            for other_x, other_y, other_width, other_height in boxes[index + 1 :]:
                assert (
                    x + width < other_x
                    or other_x + other_width < x
                    or y + height < other_y
                    or other_y + other_height < y
                )


def test_a_long_chain_is_drawn_downwards() -> None:
    chain = [Node(f"n{number}", f"operator number {number}") for number in range(12)]
    edges = [(f"n{number}", f"n{number + 1}") for number in range(11)]
    root = ET.fromstring(svg(chain, edges))
    assert float(root.get("height") or 0) > float(root.get("width") or 0)


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ([Node("a", "a"), Node("a", "b")], [], "two with the same id; expected distinct ids"),
        ([Node("a", "a", state="ill")], [], f"state 'ill'; expected one of {', '.join(STATES)}"),
        ([Node("a", "a")], [("a", "b")], "'b'; expected one of a"),
        ([Node("a", "a"), Node("b", "b")], [("a", "b"), ("b", "a")], "a cycle through a, b"),
    ],
)
def test_a_graph_that_cannot_be_drawn_is_refused_by_name(
    nodes: list[Node], edges: list[tuple[str, str]], said: str
) -> None:
    for draw in (svg, text):
        with pytest.raises(ValueError, match=re.escape(said)):
            draw(nodes, edges)
    with pytest.raises(ValueError, match="direction: 'up'; expected right or down"):
        svg([], [], direction="up")


def test_an_empty_graph_is_an_empty_drawing() -> None:
    assert text([], []) == ""
    ET.fromstring(svg([], []))


@pytest.mark.slow
@given(graphs())
@settings(max_examples=80)
def test_layers_keep_order_and_distance(graph: tuple[list[Node], list[tuple[str, str]]]) -> None:
    nodes, edges = graph
    sizes = {node.id: 10.0 for node in nodes}
    layout = layered(sizes, edges, 3)
    rank = {place: index for index, row in enumerate(layout.ranks) for place in row}
    assert all(rank[one] < rank[other] for one, other in edges)
    assert all(rank[a] + 1 == rank[b] for chain in layout.chains.values() for a, b in pairwise(chain))
    for row in layout.ranks:
        for left, right in pairwise(row):
            needed = (sizes.get(str(left), 0) + sizes.get(str(right), 0)) / 2 + 3
            assert layout.at[right] - layout.at[left] >= needed - 1e-6


def linked(drawn: str) -> set[tuple[str, str]]:
    """Pairs of labels that a reader sees connected, following the lines downwards through the drawing."""
    rows = drawn.split("\n")
    cell = {(y, x): mark for y, row in enumerate(rows) for x, mark in enumerate(row) if mark != " "}
    label = {(y, row.index("•")): found[0] for y, row in enumerate(rows) if (found := re.search(r"node\d+", row))}
    pairs = set()
    for (top, left), name in label.items():
        waiting = [(top + 1, left, UP)]
        while waiting:
            y, x, side = waiting.pop()
            if (y, x) in label:
                pairs.add((name, label[y, x]))
                continue
            strokes = STROKES.get(cell.get((y, x), ""), set())
            if cell.get((y, x)) == "│" and side in (LEFT, RIGHT):  # it passes behind this lane
                strokes = {LEFT, RIGHT}
            if side in strokes:  # upwards leads only back to another node above
                waiting += [(y + dy, x + dx, (-dy, -dx)) for dy, dx in strokes - {side, UP}]
    return pairs


@pytest.mark.slow
@given(graphs())
@settings(max_examples=150)
def test_a_reader_of_the_text_sees_the_links_and_no_others(graph: tuple[list[Node], list[tuple[str, str]]]) -> None:
    nodes, edges = graph
    drawn = text(nodes, edges)
    for node in nodes:
        assert len(re.findall(rf"{node.label}(?!\d)", drawn)) == 1
    assert linked(drawn) == {(one.replace("n", "node"), other.replace("n", "node")) for one, other in edges}, drawn


def test_figure_2_6_as_a_plan_is_drawn_with_its_kinds() -> None:
    assert "o6 (union)" in figure_2_6().to_text()


def test_a_plan_is_drawn_with_what_its_operators_do_as_in_the_report() -> None:
    plan = monitoring()
    drawn = plan.to_svg()
    assert f">{escape(brief(plan.operators['filter']))}<" in drawn
    assert f">{escape(brief(plan.operators['aggregate']))}<" in drawn
    with_peers = plan.to_svg({"filter": "peer-1"})
    assert "peer-1" in with_peers
    assert f">{escape(brief(plan.operators['aggregate']))}<" not in with_peers
    assert "link = 'B'" in str(plan)
