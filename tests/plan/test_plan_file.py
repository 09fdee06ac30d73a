"""Plans as YAML files: what is read, and what is said of the faults of a file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.operators.sources import CONNECTOR
from tests.example_plans import monitoring, plans, problems_of


def test_yaml_has_units_and_is_read_back() -> None:
    text = monitoring(source="peer-3").to_yaml()
    for line in ("format: 1", "name: top pairs", "delay: 20 s", "miss_rate: 5 %", "window: 20 min", "fraction: 95 %",
                 "where: link = 'B'", "inputs: [sort, count]", "at: peer-3"):  # fmt: skip
        assert line in text
    assert Plan.from_yaml(text) == monitoring(source="peer-3")


def test_a_plan_written_by_hand_in_yaml_is_read() -> None:
    query = Plan.from_yaml("""
format: 1
operators:
  - {id: left, kind: source, connector: packets}
  - {id: right, kind: filter, input: left, where: bytes > 1000}
  - {id: both, kind: join, inputs: [left, right], on: link, within: 500 ms}  # a bare "on" is no boolean here
  - {id: slow, kind: delay, input: both, cost: 1 ms}
  - {id: end, kind: sink, input: slow}
""")
    assert query.operators["both"].params == {"on": ["link"], "within": 0.5, "suffix": "_right", "how": "inner"}
    assert query.operators["slow"].cost == 0.001
    assert Plan.from_yaml(query.to_yaml()) == query
    assert "source_right" in query.schema("both")


def test_parameters_that_follow_from_others_do_not_tell_plans_of_files_apart() -> None:
    columns = {"time": "time", "amount": "float"}
    query = source("trace", path="orders.csv", format="csv", columns=columns).filter("amount > 10").sink("large")
    assert query.operators["source"].params["time"] == "time"  # the author has not stated it; YAML does
    assert Plan.from_yaml(query.to_yaml()) == query


FILE = "format: 1\noperators:\n  packets: {kind: source, connector: packets}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format: 1\noperators: [", "line 2: 'operators: ['; expected YAML"),
        ("format: 1\n\toperators: 1", "line 2: 'operators: 1'; expected YAML"),
        ("a: &x 1\nb: *x", "line 1: 'x'; expected no anchors and aliases"),
        ("- 1", "file: [1]; expected a mapping with the fields format, name, qos, operators"),
        ("", "file: missing; expected a mapping"),
        ("!!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("format: 2\noperators: {}", "format: 2; expected 1, the version that this program reads"),
        ("operators: {}", "format: missing; expected 1"),
        ("format: true\noperators: {}", "format: True; expected 1"),
        (
            "format: 1\noperator: {}",
            "operator: {}; expected one of the fields format, name, qos, operators; did you mean",
        ),
        ("format: 1\nqos: 3\noperators: {}", "qos: 3; expected fields such as delay: 2 s"),
        ("format: 1\nname: 3\noperators: {}", "name: 3; expected a name of 1 to 200 characters"),
        ("format: 1\noperators: 3", "operators: 3; expected operators by id, each with its kind"),
        ("format: 1\noperators: {a: 3}", "operator 'a', operator: 3; expected fields, with kind and input at least"),
        ("format: 1\noperators: [3]", "operators[1]: 3; expected an operator with an id and a kind"),
        ("format: 1\noperators: {a: {kind: [3]}}", "operator 'a', kind: '[3]'; expected one of source"),
        ("format: 1\noperators: {a: {kid: sort}}", "operator 'a', kind: missing; expected one of source"),
        (
            "format: 1\noperators:\n  a: {kind: sink}\n  a: {kind: sink}",
            ("id: 'a'; expected an id that no other operator has (line 4)"),
        ),
        (
            "format: 1\noperators:\n  a: {kind: filter, where: x, where: y}",
            ("operator 'a', where: 'where'; expected each field once (line 3)"),
        ),
        (
            "format: 1\noperators: {a: {kind: sink, input: {x: 1}}}",
            "operator 'a', input: {'x': 1}; expected the id of an",
        ),
        ("format: 1\noperators: {a: {kind: sink, input: b, inputs: [b]}}", "expected either input or inputs, not both"),
        ("format: 1\noperators: {a: {kind: filter, where: 2001-01-01}}", "operator 'a', input: missing"),
        ("[" * 1500, "expected values that are nested at most 50 deep"),
        ("format: 1\nname: credit: risk", "; put text with a colon in quotes: name: 'credit: risk'"),
        ("format: 1\nname: it's: so", '; put text with a colon in quotes: name: "it\'s: so"'),
        (
            "format: 1\noperators:\n  f: {kind: filter, where: a = 'b: c', input: p}",
            "; put text with a colon in quotes: where: \"a = 'b: c'\"",
        ),
        (
            f"{FILE}  end: {{kind: sink, input: packetz}}",
            "'end', input: 'packetz'; expected an operator of the plan (packets); did",
        ),
        (f"{FILE}  end: {{kind: sink, inputs: [packetz]}}", "'end', inputs: 'packetz'; expected an operator"),
        (
            f"{FILE}  end: {{kind: sink, from: packets}}",
            "'end', from: 'packets'; expected input or inputs as the field that names its inputs; did you mean",
        ),
        (
            "format: 1\noperators: {a: {kind: source, source: function}}",
            f"'a', source: 'function'; expected connector, {CONNECTOR}",
        ),
        (
            "format: 1\noperators: {a: {kind: source, connector: function}}",
            f"connector: 'function'; expected {CONNECTOR}",
        ),
        ("format: 1\noperators: {a: {source: function}}", f"source: 'function'; expected connector, {CONNECTOR}"),
    ],
)
def test_faults_in_yaml_are_named(text: str, said: str) -> None:
    found = problems_of(lambda: Plan.from_yaml(text))
    assert said in "\n".join(map(str, found))


@pytest.mark.slow
@given(
    plans(),
    st.integers(0, 10_000),
    st.sampled_from(["", ":", "  ", "- ", "{", "'", "x: 1\n", "&a ", "\x00", "kind", "é", "!!", "? "]),
)
@settings(max_examples=120)
def test_a_damaged_file_is_read_or_refused(query: Plan, at: int, junk: str) -> None:
    text = query.to_yaml()
    at %= len(text)
    try:
        Plan.from_yaml(text[:at] + junk + text[at + 3 :])
    except PlanError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
