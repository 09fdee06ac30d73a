"""Projections are made of wider ones that run: of which, and with the same rows."""

from __future__ import annotations

import pytest

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Item
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.stream_containment import Container, write_parts
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.derived.wider_projections import WiderProjection, read_columns, stated_columns, wider_streams
from synergy_nb.testing import drive, feed, run
from synergy_nb.testing._running import table_of

PACKETS = source("packets", count=300, seed=4, id="p")
WIDE = PACKETS.filter("bytes > 60", id="f").project("link", "source", "bytes", kb="bytes / 1000", id="wide")


def of(stream: Stream, *wide: Stream) -> tuple[Plan, tuple[Container, ...]]:
    plan = stream.sink(id="out")
    parts: dict[str, list[WiderProjection]] = {}
    for each in wide:
        part = stated_columns(each.sink(), "wide")
        assert part is not None
        parts.setdefault(part.base, []).extend(read_columns(write_parts([part.value])))
    return plan, next(iter(wider_streams(plan, parts).values()), ())


LARGE = PACKETS.filter("bytes > 60", id="f")


@pytest.mark.parametrize(
    ("stream", "columns", "left"),
    [
        (LARGE.project("link", "bytes", id="q"), {"link": "link", "bytes": "bytes"}, "projects link, bytes"),
        (LARGE.project(k="bytes / 1000", id="q"), {"k": "kb"}, "projects k"),
        (LARGE.project(k="bytes * 8", link="source", id="q"), {"k": "bytes * 8", "link": "source"}, "projects k, link"),
        (PACKETS.filter("bytes > 100 AND link = 'A'", id="f").project("source", id="q"), {"source": "source"},
         "tests bytes > 100 AND link = 'A' and projects source"),
    ],
)  # fmt: skip
def test_a_projection_is_made_of_a_wider_one(stream: Stream, columns: dict[str, str], left: str) -> None:
    plan, (found,) = of(stream, WIDE)
    assert (found.rewritten["q"].params["columns"], found.left) == (columns, left)
    part = reduced(plan, {found.tap: {"peer-1": ("x", "wide")}}, {"q": found})
    for known in (part, Plan.from_bytes(part.to_bytes())):
        assert all(known.stream_name(each) == plan.stream_name(each) for each in ("q", "out"))
        assert known.schema("q") == plan.schema("q")
    given: dict[str, list[Item]] = {found.tap: [item for _, item in feed([run(WIDE)], seed=1)]}
    for name, operator in part.operators.items():
        if name not in given:
            given[name] = drive(create(operator, part), [(0, item) for item in given[operator.inputs[0]]])
    assert table_of(given["out"], part.schema("out")).equals(run(plan))
    assert given["out"]


@pytest.mark.parametrize(
    "stream",
    [
        LARGE.project("destination", id="q"),
        LARGE.project(k="bytes + source_port", id="q"),
        PACKETS.project("link", id="q"),
        PACKETS.filter("bytes > 90 AND source_port > 9", id="f").project("link", id="q"),
        source("packets", seed=9, id="p").filter("bytes > 60").project("link", id="q"),
        LARGE.project("link", "source", "bytes", kb="bytes / 1000", id="q"),
        WIDE.project("link", id="q"),
        PACKETS.project("bytes", host="source").filter("bytes > 90", id="f").project("host", id="q"),  # it reads less
    ],
)
def test_a_stream_that_lacks_columns_or_rows_or_has_the_same_is_none(stream: Stream) -> None:
    assert not of(stream, WIDE)[1]


def test_the_narrowest_comes_first_and_none_is_wider_than_the_input() -> None:
    narrow = LARGE.project("link", "bytes", id="wide")
    more = {f"n{number}": f"source || '{number}'" for number in range(9)}
    _, found = of(LARGE.project("link", id="q"), LARGE.project({"link": "link", **more}, id="wide"), WIDE, narrow)
    assert [list(each.columns or ()) for each in found] == [
        ["time", "link", "bytes"],
        ["time", "link", "source", "bytes", "kb"],
    ]


def test_what_the_directory_has_may_be_invalid() -> None:
    known = WiderProjection((), (("k", "bytes"),), {"k": "number"})
    for text in ("", "[3]", 3, '[[[], [["k"]], {}]]', write_parts([known])):
        assert read_columns(text) == []
