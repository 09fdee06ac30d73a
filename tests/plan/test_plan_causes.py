"""Of many problems the causes are listed first, and their consequences are omitted."""

from __future__ import annotations

import pytest

from synergy_nb.plan import Plan
from tests.example_plans import problems_of

SOURCE = "  packets: {kind: source, connector: packets}"

FOLLOWING: list[tuple[list[str], list[tuple[str, str]]]] = [
    (
        ["large: {kind: filter, input: pakets, where: bytes > 1}", "end: {kind: sink, input: large}"],
        [("large", "input")],
    ),
    (
        [
            "a: {kind: filter, input: packets, where: 'TRUE'}",
            "b: {kind: filter, input: a, where: 'TRUE'}",
            "end: {kind: sink, input: nowhere}",
        ],
        [("end", "input")],
    ),
    (
        ["large: {kind: filter, inptu: packets, where: bytes > 1}", "end: {kind: sink, input: large}"],
        [("large", "inptu")],
    ),
    (["end: {kind: snk, input: packets}"], [("end", "kind")]),
    (["end: {kind: sink, input: [[packets]]}"], [("end", "input")]),
    (["end: {knd: sink, input: packets}"], [("end", "kind")]),
    (["large: 3", "end: {kind: sink, input: large}"], [("large", "operator")]),
    (["a: {kind: filter, input: packets, where: 'TRUE'}"], [("", "operators")]),
    (["a: {kind: filter, input: packets, wehre: 'TRUE'}", "end: {kind: sink, input: a}"], [("a", "wehre")]),
    (["end: {kind: sink, from: packets}"], [("end", "from")]),
    (["a: {kind: sort, input: packets, by: bytes, windw: 1 s}", "end: {kind: sink, input: a}"], [("a", "windw")]),
    (
        [
            "a: {kind: count, input: packets, window: 1 parsec}",
            "b: {kind: count, input: packets, window: 1 s}",
            "c: {kind: union, inputs: [a, b]}",
            "end: {kind: sink, input: c}",
        ],
        [("a", "window")],
    ),
]
INDEPENDENT: list[tuple[list[str], list[tuple[str, str]]]] = [
    (
        [
            "a: {kind: aggregate, input: packets, by: sorce, window: 1 x, cost: 1 y, values: {n: sum(b), m: maxx(l)}}",
            "b: {kind: sort, input: packets, by: byts desc, window: 1 x, at: ''}",
            "c: {kind: compare, input: b, value: byts, fraction: 200 %, by: lnk}",
            "d: {kind: filter, input: c, where: sorce = 1}",
            "e: {kind: join, inputs: [a, d], on: sorce, within: 1 x}",
            "end: {kind: sink, input: e}",
        ],
        [
            *[("a", field) for field in ("window", "cost", "by", "values.n", "values.m", "values.m")],
            *[("b", field) for field in ("window", "at", "by")],
            *[("c", field) for field in ("fraction", "value", "by")],
            ("d", "where"),
            ("e", "within"),
        ],
    ),
    (
        ["large: {kind: fliter, input: pakets, wehre: bytes > 1}", "end: {kind: sink, inputs: [large, packts]}"],
        [("large", "kind"), ("large", "wehre"), ("large", "input"), ("end", "inputs"), ("end", "inputs")],
    ),
    (
        [
            "a: {kind: filter, input: packets, wehre: bytes > 1}",
            "b: {kind: fliter, input: a, where: bytes > 1}",
            "end: {kind: sink, input: b}",
        ],
        [("a", "wehre"), ("b", "kind")],
    ),
    (
        [
            "a: {kind: filter, input: packets, where: byte > 1}",
            "b: {kind: filter, input: a, where: lnk = 'A'}",
            "end: {kind: sink, input: b}",
        ],
        [("a", "where"), ("b", "where")],
    ),
    (
        [
            "a: {kind: filter, input: packets, where: 'TRUE'}",
            "b: {kind: filter, input: packets, where: 'TRUE'}",
            "end: {kind: sink, input: aa}",
            "other: {kind: sink, input: packets, colour: red}",
        ],
        [("other", "colour"), ("end", "input"), ("b", "output")],
    ),
    (
        ["a: {kind: sample, input: packets, fraction: 2, selectivty: 0.1}", "end: {kind: sink, input: a}"],
        [("a", "fraction"), ("a", "selectivty")],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), FOLLOWING + INDEPENDENT)
def test_causes_come_first_and_what_follows_is_left_out(lines: list[str], expected: list[tuple[str, str]]) -> None:
    text = "\n".join(["format: 1", "operators:", SOURCE, *(f"  {line}" for line in lines)])
    found = problems_of(lambda: Plan.from_yaml(text))
    assert [(each.operator, each.field) for each in found] == expected


@pytest.mark.parametrize("limit", ["delay: 2 parsecs", "dely: 2 s"])
def test_a_wrong_limit_brings_no_word_on_misses(limit: str) -> None:
    text = f"format: 1\nqos: {{miss_rate: 5 %, {limit}}}\noperators:\n{SOURCE}\n  end: {{kind: sink, input: packets}}"
    (problem,) = problems_of(lambda: Plan.from_yaml(text))
    assert problem.field == f"qos.{limit.partition(':')[0]}"
