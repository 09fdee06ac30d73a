"""Editing plans as text: what is not touched stays byte for byte; YAML, plans and Python convert into each other."""

# ruff: noqa: E501 - texts of plans are easier to compare on one line

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.editing._analysis import analyse
from synergy_nb.editing._applying import apply, copy_operators
from synergy_nb.editing._history import History, difference, merge_texts
from synergy_nb.editing._yaml_text import YamlText
from synergy_nb.editing.operations import Add, EditError, Operation, Remove, Rename, Set, parse_operations
from synergy_nb.editing.plan_text import EMPTY
from synergy_nb.plan import Plan, PlanError
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.units import WrongValue
from tests.example_plans import built

FLOW = """\
# The pairs of hosts.
format: 1   # version
name: 'pairs'

qos:
  delay: 2 s   # as agreed
operators:
  # where it comes from
  packets: {kind: source, connector: packets, seed: 1}

  on_b: {kind: filter, input: packets, where: link = 'B'}   # only B
  # all of it
  sums: {kind: aggregate, input: on_b, by: [source, destination], window: 10 s, values: {total: sum(bytes), n: count(*)}}
  top: {kind: sort, input: sums, by: [total desc]}
  result: {kind: sink, input: top}
# the end
"""
BLOCK = """\
format: 1
operators:

  packets:   # generated
    kind: source
    connector: packets
    # as in the paper
    seed: 1

  on_b:
    kind: filter
    input: packets
    where: "link = 'B'"
  sums:
    kind: aggregate
    input: on_b
    by:
      - source
      - destination   # both
    window: 10 s
    values:
      total: sum(bytes)   # in bytes
      n: 'count(*)'

  result:
    kind: sink
    input: sums
"""
LIST = """\
format: 1
operators:
- id: packets
  kind: source
  connector: packets
- {id: on_b, kind: filter, input: packets, where: bytes > 40}   # large ones
-
  id: both
  kind: union
  inputs:
  - packets
  - on_b
- {id: result, kind: sink, input: both}
"""
ONE_LINE = "{format: 1, operators: {packets: {kind: source, connector: packets}, result: {kind: sink, input: packets}}}"
SPREAD = """\
{
  "format": 1,
  "operators": {
    "packets": {"kind": "source", "connector": "packets"},
    "on_b": {"kind": "filter", "input": "packets", "where": "link = 'B'"},  # JSON with a comment
    "result": {
      "kind": "sink",
      "input": "on_b"
    }
  }
}
"""
TEXTS = {
    "flow": FLOW,
    "block": BLOCK,
    "list": LIST,
    "one line": ONE_LINE,
    "spread": SPREAD,
    "windows": FLOW.replace("\n", "\r\n"),
}


def edited(text: str, *operations: dict[str, Any]) -> str:
    done = apply(text, parse_operations(operations))
    assert not done.problems, done.problems
    return done.text


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that only one of two texts has."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return [line for line in old if line not in new], [line for line in new if line not in old]


# -- one change --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operation", "gone", "come"),
    [
        ("flow", {"op": "set", "operator": "on_b", "field": "where", "value": "bytes > 40"},
         ["  on_b: {kind: filter, input: packets, where: link = 'B'}   # only B\n"],
         ["  on_b: {kind: filter, input: packets, where: bytes > 40}   # only B\n"]),
        ("flow", {"op": "set", "operator": "on_b", "field": "where", "value": "link IN ('A', 'B')"},
         ["  on_b: {kind: filter, input: packets, where: link = 'B'}   # only B\n"],
         ["  on_b: {kind: filter, input: packets, where: \"link IN ('A', 'B')\"}   # only B\n"]),
        ("flow", {"op": "qos", "field": "miss_rate", "value": "5 %"}, [], ["  miss_rate: 5 %\n"]),
        ("flow", {"op": "qos", "field": "delay", "value": "1500 ms"},
         ["  delay: 2 s   # as agreed\n"], ["  delay: 1500 ms   # as agreed\n"]),
        ("flow", {"op": "qos", "field": "delay", "value": None}, ["qos:\n", "  delay: 2 s   # as agreed\n"], []),
        ("flow", {"op": "name", "value": "5"}, ["name: 'pairs'\n"], ["name: '5'\n"]),
        ("block", {"op": "name", "value": "new"}, [], ["name: new\n"]),
        ("block", {"op": "qos", "field": "delay", "value": "2 s"}, [], ["qos: {delay: 2 s}\n"]),
        ("block", {"op": "set", "operator": "on_b", "field": "where", "value": "bytes > 40"},
         ["    where: \"link = 'B'\"\n"], ["    where: \"bytes > 40\"\n"]),
        ("block", {"op": "set", "operator": "sums", "field": "values.total", "value": "max(bytes)"},
         ["      total: sum(bytes)   # in bytes\n"], ["      total: max(bytes)   # in bytes\n"]),
        ("block", {"op": "set", "operator": "sums", "field": "values", "value": {"n": "count(*)", "least": "min(bytes)"}},
         ["      total: sum(bytes)   # in bytes\n"], ["      least: min(bytes)\n"]),
        ("block", {"op": "set", "operator": "sums", "field": "by", "value": "[source]"},
         ["    by:\n", "      - source\n", "      - destination   # both\n"], ["    by: [source]   # both\n"]),
        ("block", {"op": "set", "operator": "packets", "field": "seed", "value": None}, ["    seed: 1\n"], []),
        ("block", {"op": "set", "operator": "packets", "field": "rate", "value": "1_000/s"}, [], ["    rate: 1_000/s\n"]),
        ("block", {"op": "add", "kind": "count", "operator": "n", "inputs": ["sums"]},
         [], ["  n:\n", "    kind: count\n"]),
        ("block", {"op": "rename", "operator": "on_b", "to": "link b"},
         ["  on_b:\n", "    input: on_b\n"], ["  link b:\n", "    input: link b\n"]),
        ("list", {"op": "rename", "operator": "on_b", "to": "large"},
         ["- {id: on_b, kind: filter, input: packets, where: bytes > 40}   # large ones\n", "  - on_b\n"],
         ["- {id: large, kind: filter, input: packets, where: bytes > 40}   # large ones\n", "  - large\n"]),
        ("list", {"op": "remove", "operator": "on_b"},
         ["- {id: on_b, kind: filter, input: packets, where: bytes > 40}   # large ones\n", "  - on_b\n"], []),
        ("list", {"op": "disconnect", "from": "packets", "to": "both"}, ["  - packets\n"], []),
        ("list", {"op": "set", "operator": "packets", "field": "seed", "value": 7}, [], ["  seed: 7\n"]),
        ("list", {"op": "add", "kind": "source", "fields": {"connector": "peers"}},
         [], ["- {id: source, kind: source, connector: peers}\n"]),
        ("spread", {"op": "remove", "operator": "on_b"},
         ["    \"on_b\": {\"kind\": \"filter\", \"input\": \"packets\", \"where\": \"link = 'B'\"},  # JSON with a comment\n",
          "      \"input\": \"on_b\"\n"], ["      \"input\": \"packets\"\n"]),
        ("spread", {"op": "add", "kind": "sink", "operator": "all", "inputs": ["packets"]},
         [], ["    all: {kind: sink, input: packets},\n"]),
        ("windows", {"op": "qos", "field": "miss_rate", "value": "5 %"}, [], ["  miss_rate: 5 %\r\n"]),
    ],
)  # fmt: skip
def test_a_change_touches_nothing_else(name: str, operation: dict[str, Any], gone: list[str], come: list[str]) -> None:
    after = edited(TEXTS[name], operation)
    assert changed_lines(TEXTS[name], after) == (gone, come)


def test_a_plan_on_one_line_stays_on_one_line() -> None:
    text = edited(ONE_LINE, {"op": "insert", "kind": "filter", "fields": {"where": "link IN ('A', 'B')"},
                             "between": {"from": "packets", "to": "result"}},
                  {"op": "qos", "field": "delay", "value": "2 s"})  # fmt: skip
    assert text == (
        "{format: 1, qos: {delay: 2 s}, operators: {packets: {kind: source, connector: packets}, filter: {kind: filter, "
        "input: packets, where: \"link IN ('A', 'B')\"}, result: {kind: sink, input: filter}}}"
    )
    assert edited(text, {"op": "remove", "operator": "filter"}, {"op": "qos", "field": "delay"}) == ONE_LINE


@pytest.mark.parametrize("text", ["", "# only a comment", EMPTY, "format: 1\noperators: {}\n", "format: 1\noperators: []\n",
                                  "format: 1\noperators:   # none yet\n", "format: 1\n"])  # fmt: skip
def test_operators_are_added_to_an_empty_plan_and_removed_again(text: str) -> None:
    made = edited(text, {"op": "add", "kind": "source", "operator": "packets", "fields": {"connector": "packets"}},
                  {"op": "add", "kind": "sink", "inputs": ["packets"]})  # fmt: skip
    assert list(Plan.from_yaml(made).operators) == ["packets", "sink"]
    assert all(line in made for line in text.splitlines() if "#" in line and "operators" not in line)
    assert "# none yet" in made or "none yet" not in text
    less = edited(made, {"op": "remove", "operator": "packets"}, {"op": "remove", "operator": "sink"})
    assert "kind" not in less


@pytest.mark.slow
def test_a_typed_value_is_read_as_yaml_and_survives_a_second_edit() -> None:
    for typed, read in (("10 %", "10 %"), ("'B' = link", "'B' = link"), ("a # b", "a # b"), ("[a, b]", ["a", "b"]),
                        ("x: y: z", "x: y: z"), ("5", 5), ("'5'", "5"), ("true", True), ("a\nb", "a\nb"), ("", ""),
                        ("- a", "- a"), ("{total: 'sum(x), 1'}", {"total": "sum(x), 1"}), ("\u2028", "\u2028"),
                        ("ä: {", "ä: {"), ("*a", "*a"), ("&a b", "&a b"), ("!x y", "!x y"), ("%a", "%a"), ("@", "@")):  # fmt: skip
        for text in (FLOW, BLOCK, ONE_LINE):
            after = edited(text, {"op": "set", "operator": "packets", "field": "rate", "value": typed})
            stated = next(each for each in analyse(after).operators if each.id == "packets")
            again = edited(after, {"op": "set", "operator": "packets", "field": "rate", "value": stated.fields["rate"]})
            found = parsed_fields(again)["packets"]["rate"]
            assert found == read or (typed == "" and found in ("", None)), typed
            assert type(found) is type(read) or typed == ""


def parsed_fields(text: str) -> dict[str, dict[str, Any]]:
    from synergy_nb.editing.plan_text import PlanText

    return {name: dict(place.fields or {}) for name, place in PlanText(text).operators.items()}


ODD = {
    "explicit keys": "format: 1\noperators:\n  ? packets\n  : {kind: source, connector: packets}\n  ? [a]\n  : 5\n",
    "directives": "%YAML 1.2\n---\nformat: 1\noperators:\n  packets: {kind: source, connector: packets}\n...\n",
    "texts of lines": "operators:\n  packets:\n    kind: source\n    path: |+\n      a\n\n      b\n\n    connector: >-\n      packets\n\n  s: {kind: sink, input: packets}\n",
    "folded": "operators:\n  packets:\n    kind: source\n    path: one\n      two\n    connector: 'pac\n      kets'\n",
    "tags": "operators: {packets: !!map {kind: !!str source, seed: !!int '5'}}\n",
    "mark of bytes": "\ufeffformat: 1\noperators: {packets: {kind: source}}\n",
    "twice": "operators: {packets: {kind: source, kind: sink}, packets: {kind: sink}}\n",
    "no break at the end": "operators:\n  packets:\n    kind: source",
    "trailing comma": "operators: {\n  packets: {kind: source,},\n}\n",
    "nested list": "operators:\n  - id: packets\n    kind: source\n  - - 5\n  - id: s\n    kind: sink\n    inputs: [packets]\n",
    "empty values": "operators:\n  packets:\n    kind:\n    seed:   # none\nqos:\n",
}


@pytest.mark.parametrize("name", ODD)
def test_a_change_of_odd_yaml_is_made_or_refused(name: str) -> None:
    text = ODD[name]
    before = parsed_fields(text)
    done = apply(text, parse_operations([{"op": "set", "operator": "packets", "field": "seed", "value": 7}]))
    if done.problems:
        assert done.text == text
        assert "that can be changed in place" in str(done.problems[0])
    else:
        assert parsed_fields(done.text) == {**before, "packets": {**before["packets"], "seed": 7}}
    done = apply(text, parse_operations([{"op": "rename", "operator": "packets", "to": "p"}]))
    if not done.problems and name != "twice":  # there, the second one is left
        assert list(parsed_fields(done.text)) == ["p" if each == "packets" else each for each in before]
    done = apply(text, parse_operations([{"op": "add", "kind": "filter", "operator": "f", "inputs": ["packets"]}]))
    if not done.problems:
        assert parsed_fields(done.text) | {"f": {}} == {**before, "f": {}}
    done = apply(text, parse_operations([{"op": "remove", "operator": "packets"}]))
    if not done.problems:
        assert "packets" not in parsed_fields(done.text) or name == "twice"


def test_a_change_that_would_touch_something_else_is_refused() -> None:
    text = YamlText("a: 1\nb: 2\n")
    with pytest.raises(WrongValue, match=r"'2'; expected YAML at line 2 that can be changed in place"):
        text._splice(8, 9, "3\nc: 4", {"map": []})
    with pytest.raises(WrongValue, match="that can be changed in place"):
        text._splice(8, 9, "[", {"map": []})


# -- the graph, merging, problems ----------------------------------------------------------------------------------------


def test_readers_of_a_removed_operator_read_its_only_input() -> None:
    text = edited(FLOW, {"op": "remove", "operator": "on_b"}, {"op": "remove", "operator": "top"})
    assert Plan.from_yaml(text).upstream("result") == ("sums",)
    assert Plan.from_yaml(text).upstream("sums") == ("packets",)
    joined = edited(LIST, {"op": "remove", "operator": "both"})
    assert parsed_fields(joined)["result"] == {"id": "result", "kind": "sink"}
    doubled = edited(LIST, {"op": "remove", "operator": "on_b"})  # both reads packets already
    assert parsed_fields(doubled)["both"]["inputs"] == ["packets"]


def test_a_connection_to_an_operator_without_a_free_input_replaces_the_last_one() -> None:
    text = "operators: {a: {kind: source}, b: {kind: source}, c: {kind: source}, j: {kind: join, inputs: [a, b]}}"
    assert parsed_fields(edited(text, {"op": "connect", "from": "c", "to": "j"}))["j"]["inputs"] == ["a", "c"]
    assert parsed_fields(edited(text, {"op": "connect", "from": "c", "to": "j", "port": 0}))["j"]["inputs"] == [
        "c",
        "b",
    ]
    assert edited(text, {"op": "connect", "from": "a", "to": "j"}) == text


def test_a_connection_with_a_port_replaces_that_input() -> None:
    text = edited(LIST, {"op": "add", "kind": "filter", "operator": "small", "fields": {"where": "bytes < 9"}},
                  {"op": "connect", "from": "packets", "to": "small"}, {"op": "connect", "from": "small", "to": "both"})  # fmt: skip
    assert parsed_fields(text)["both"]["inputs"] == ["packets", "on_b", "small"]
    text = edited(
        text,
        {"op": "connect", "from": "both", "to": "small", "port": 0},
        {"op": "connect", "from": "small", "to": "result"},
    )
    assert parsed_fields(text)["small"]["input"] == "both"
    assert parsed_fields(text)["result"]["input"] == "small"
    assert [problem.field for problem in analyse(text).problems] == ["inputs"]  # a cycle is a problem of the plan


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (
            {"op": "set", "operator": "gone", "field": "where", "value": "x"},
            "where: 'gone'; expected an operator of the plan",
        ),
        ({"op": "remove", "operator": "gone"}, "expected an operator of the plan"),
        ({"op": "rename", "operator": "on_b", "to": "top"}, "id: 'top'; expected an id that no other operator has"),
        ({"op": "rename", "operator": "on_b", "to": "a/b"}, "did you mean 'a b'?"),
        ({"op": "connect", "from": "packet", "to": "top"}, "did you mean 'packets'?"),
        ({"op": "connect", "from": "result", "to": "top"}, "expected an operator other than a sink"),
        ({"op": "connect", "from": "top", "to": "packets"}, "expected an operator other than a source"),
        ({"op": "disconnect", "from": "packets", "to": "top"}, "expected an input of top (sums)"),
        (
            {"op": "insert", "kind": "filter", "between": {"from": "packets", "to": "top"}},
            "expected an input of top (sums)",
        ),
        ({"op": "paste", "yaml": "a: ["}, "expected YAML of operators"),
        ({"op": "paste", "yaml": "5"}, "expected YAML of operators"),
        ({"op": "add", "kind": "", "operator": "x"}, "kind: ''; expected one of source"),
        ({"op": "add", "kind": "filter", "inputs": ["gone"]}, "inputs: 'gone'; expected an operator of the plan"),
        ({"op": "qos", "field": "", "value": 1}, "expected a field of a QoS requirement"),
    ],
)
def test_an_operation_that_cannot_be_applied_gives_a_problem_and_the_others_are_applied(
    operation: dict[str, Any], said: str
) -> None:
    done = apply(FLOW, [*parse_operations([operation]), Set(operator="on_b", field="where", value="bytes > 7")])
    assert [str(problem) for problem in done.problems if said in str(problem)], done.problems
    assert done.text == FLOW.replace("link = 'B'", "bytes > 7")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"op": "ad", "kind": "filter"}, "operations[1].op: 'ad'; expected one of add, insert"),
        ({"op": "set", "operator": "x"}, "missing required field `field`"),
        ({"op": "set", "operator": 5, "field": "x"}, "Expected `str`, got `int`"),
        ({"op": "name", "value": "x", "more": 1}, "unknown field `more`"),
        (5, "operations[1].op: 'int'; expected one of"),
        ({}, "expected one of"),
    ],
)
def test_a_value_that_describes_no_operation_is_refused(given: Any, said: str) -> None:
    with pytest.raises(EditError) as caught:
        parse_operations([given])
    assert said in str(caught.value)


def test_a_text_that_is_not_yaml_is_not_edited() -> None:
    done = apply("operators: [", [Remove(operator="x"), Remove(operator="y")])
    assert done.text == "operators: ["
    assert [problem.field for problem in done.problems] == ["text"]


def test_operations_of_two_people_at_the_same_time_are_both_applied() -> None:
    one = [Set(operator="on_b", field="where", value="bytes > 7"), Rename(operator="top", to="ranked")]
    other = [Set(operator="packets", field="seed", value="5"), Add(kind="count", inputs=["sums"])]
    both = apply(apply(FLOW, one).text, other)
    assert not both.problems
    assert Plan.from_yaml(edited(both.text, {"op": "add", "kind": "sink", "operator": "n", "inputs": ["count"]}))
    assert "bytes > 7" in both.text
    assert "seed: 5" in both.text


def test_pasted_operators_get_new_ids() -> None:
    text = copy_operators(BLOCK, ["on_b", "sums"])
    assert text == (
        "operators:\n  on_b: {kind: filter, input: packets, where: link = 'B'}\n"
        "  sums: {kind: aggregate, input: on_b, by: [source, destination], window: 10 s, values: {total: sum(bytes), "
        "n: count(*)}}\n"
    )
    twice = apply(BLOCK, parse_operations([{"op": "paste", "yaml": text}, {"op": "paste", "yaml": text}]))
    fields = parsed_fields(twice.text)
    assert [fields["sums_2"]["input"], fields["sums_3"]["input"], fields["on_b_3"]["input"]] == [
        "on_b_2",
        "on_b_3",
        "packets",
    ]
    assert twice.ids == {"on_b": "on_b_3", "sums": "sums_3"}
    alone = apply("", parse_operations([{"op": "paste", "yaml": text}]))
    assert "input" not in parsed_fields(alone.text)["on_b"]
    with pytest.raises(EditError, match="operators of the plan"):
        copy_operators(BLOCK, ["gone"])


def test_a_whole_plan_that_is_pasted_into_an_empty_one_keeps_its_name_its_requirement_and_its_comments() -> None:
    whole = FLOW.replace("delay: 2 s", "delay: 3 s")
    paste = parse_operations([{"op": "paste", "yaml": whole}])
    assert apply("format: 1\nname: plan\noperators:\n", paste).text == whole
    into = apply(BLOCK, paste)
    assert (Plan.from_yaml(into.text).name, Plan.from_yaml(into.text).qos.delay) == (
        Plan.from_yaml(BLOCK).name,
        Plan.from_yaml(BLOCK).qos.delay,
    )


# -- history -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.tuples(st.text("ab\n", max_size=6), st.sampled_from(["type", "drag"]), st.booleans()), max_size=12))
def test_undoing_all_gestures_gives_the_first_text(changes: list[tuple[str, str, bool]]) -> None:
    history = History("start")
    texts = ["start"]
    for text, gesture, continues in changes:
        before = history.undoable
        if history.change(text, gesture, continues=continues):
            if continues and before == gesture:
                texts.pop()
            texts.append(text)
    for text in reversed(texts[:-1]):
        assert history.undo()
        assert history.text == text
    assert history.undo() == ""
    for text in texts[1:]:
        assert history.redo()
        assert history.text == text
    assert history.redo() == ""


@given(st.text("ab", max_size=8), st.text("ab", max_size=8))
def test_a_difference_is_one_change(before: str, after: str) -> None:
    change = difference(before, after)
    assert (change.do(before), change.undo(after)) == (after, before)


def test_texts_that_two_people_typed_at_the_same_time_merge_unless_they_changed_the_same_place() -> None:
    assert (
        merge_texts("a\nb\nc\n", "x\nb\nc\n", "a\nb\ny\n")
        == merge_texts("a\nb\nc\n", "a\nb\ny\n", "x\nb\nc\n")
        == "x\nb\ny\n"
    )
    with pytest.raises(WrongValue, match=r"'x'; expected a change of other lines .* \(line 2\)"):
        merge_texts("a\nb\n", "a\nx\n", "a\ny\n")
    history = History("a\nb\n")
    history.change("a\nb\nc\n", "type")
    assert history.rebase("x\nb\n", 1) == "x\nb\nc\n"
    with pytest.raises(WrongValue, match="9; expected a version from 1 to 2"):
        history.rebase("x", 9)


# -- analysis ----------------------------------------------------------------------------------------------------------


def test_an_invalid_plan_has_columns_and_rates_where_it_has_no_problem() -> None:
    text = edited(FLOW, {"op": "set", "operator": "sums", "field": "values.total", "value": "sum(byte)"},
                  {"op": "set", "operator": "on_b", "field": "where", "value": "lnk = 'B'"})  # fmt: skip
    found = analyse(text)
    assert found.plan is None
    lines = text.splitlines()
    assert [(each.operator, each.field, each.nearest) for each in found.problems] == [
        ("on_b", "where", "link"), ("sums", "values.total", "bytes")
    ]  # fmt: skip
    assert [lines[(line or 0) - 1].split(":")[0].strip() for line in found.lines] == ["on_b", "sums"]
    assert found.columns["on_b"] == found.columns["packets"]  # a wrong condition does not hide the columns
    windows = {"time": "time", "window_start": "time", "window_end": "time"}
    known = {
        "destination": "str",
        "source": "str",
        "total": "unknown",
        "n": "int",
    }  # nor does one expression of several
    assert found.columns["sums"] == windows | known
    assert set(found.rates) == {"packets"}
    with pytest.raises(PlanError) as caught:
        Plan.from_yaml(text)
    assert list(caught.value.problems) == found.problems


def test_a_valid_plan_has_the_columns_rates_and_loads_of_the_plan() -> None:
    found = analyse(FLOW)
    plan = Plan.from_yaml(FLOW)
    assert found.plan == plan
    assert found.rates == {name: plan.rate(name) for name in plan.operators}
    assert found.loads == {name: plan.load(name) for name in plan.operators}
    assert found.columns == {name: plan.schema(name) for name in plan.operators}
    sums = next(each for each in analyse(BLOCK).operators if each.id == "sums")
    assert sums.fields["by"] == "[source, destination]"
    assert sums.parts == {"by": ["source", "destination"], "values": {"total": "sum(bytes)", "n": "count(*)"}}
    assert (sums.style, BLOCK.splitlines()[sums.line - 1], BLOCK.splitlines()[sums.end_line - 1]) == (
        "block", "  sums:", "      n: 'count(*)'"
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["a: [", "5", "", "operators: 7", "operators: {a: 5}", "operators: {a: {kind: filter}, a: {kind: sink}}", "a: &b 5",
             "operators: [5, {id: 7}, {id: a}]", "format: 1\noperators: {? [a] : {kind: sink}}", "\0", "qos: 5\noperators: {}"]
)  # fmt: skip
def test_any_text_has_an_analysis_with_the_problems_of_from_yaml(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.from_yaml(text)
    found = analyse(text)
    if text:
        assert list(map(str, found.problems)) == list(map(str, caught.value.problems))
    assert len(found.lines) == len(found.problems)


# -- random operations -------------------------------------------------------------------------------------------------

IDS = ["packets", "on_b", "sums", "top", "result", "both", "new", "two words", "gone"]
VALUES = [
    "bytes > 9",
    "link IN ('A', 'B')",
    "10 s",
    "[source, destination]",
    "{n: count(*)}",
    "5 %",
    "5",
    "",
    "'x",
    "a: b",
    "#",
    "desc\n",
]
FIELDS = ["where", "by", "window", "values", "values.n", "seed", "rate", "cost", "at", "columns.x", "fraction"]
ids = st.sampled_from(IDS)
values = st.sampled_from(VALUES)
operations = st.one_of(
    st.builds(dict, op=st.just("add"), kind=st.sampled_from(list(KINDS)), operator=ids, inputs=st.lists(ids, max_size=2),
              fields=st.dictionaries(st.sampled_from(["where", "window", "connector", "at"]), values, max_size=2)),
    st.builds(dict, op=st.just("remove"), operator=ids),
    st.builds(dict, op=st.just("rename"), operator=ids, to=ids),
    st.builds(dict, op=st.just("set"), operator=ids, field=st.sampled_from(FIELDS), value=st.one_of(st.none(), values)),
    st.builds(dict, op=st.just("qos"), field=st.sampled_from(["delay", "miss_rate"]), value=st.sampled_from([None, "2 s", "5 %"])),
    st.builds(dict, op=st.just("name"), value=st.sampled_from(["x", "1e3", "a: b"])),
    st.builds(lambda op, a, b, port: {"op": op, "from": a, "to": b, "port": port},
              st.sampled_from(["connect", "disconnect"]), ids, ids, st.sampled_from([None, 0, 1, 2])),
    st.builds(lambda a, b: {"op": "insert", "kind": "filter", "fields": {"where": "TRUE"}, "between": {"from": a, "to": b}}, ids, ids),
    st.just({"op": "paste", "yaml": copy_operators(FLOW, ["on_b", "sums"])}),
)  # fmt: skip


def expected_lines(text: str) -> set[str]:
    """Comments on lines of their own, which no operation may lose, unless they are within an operator."""
    return {line.strip() for line in text.splitlines() if line.strip().startswith("#") and "paper" not in line}


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.lists(operations, max_size=8))
def test_random_operations_touch_only_their_operators_and_can_all_be_undone(
    name: str, gestures: list[dict[str, Any]]
) -> None:
    text = TEXTS[name]
    history = History(text)
    for gesture in gestures:
        before = parsed_fields(history.text)
        done = apply(history.text, parse_operations([gesture]))
        assert not any("changed in place" in str(problem) for problem in done.problems), (history.text, gesture)
        if done.problems:
            assert done.text == history.text
        history.change(done.text, gesture["op"])
        after = parsed_fields(done.text)
        touched = {gesture.get("operator"), gesture.get("to"), *(done.ids.values())}
        if gesture["op"] in ("set", "qos", "name", "connect", "disconnect"):  # all others stay as they were
            assert {each: fields for each, fields in before.items() if each not in touched} == {
                each: fields for each, fields in after.items() if each not in touched
            }
        assert set(expected_lines(text)) <= expected_lines(done.text)
        found = analyse(done.text)
        assert found.readable
        if found.plan is not None:
            assert Plan.from_yaml(done.text) == found.plan == Plan.from_yaml(found.plan.to_yaml())
            assert built(found.plan.to_python()) == found.plan
    while history.undo():
        pass
    assert history.text == text


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.sampled_from(IDS[:6]), st.sampled_from(FIELDS), values)
def test_a_field_that_is_set_touches_only_lines_of_its_operator(
    name: str, operator: str, field: str, value: str
) -> None:
    text = TEXTS[name]
    place = next((each for each in analyse(text).operators if each.id == operator), None)
    done: list[Operation] = [Set(operator=operator, field=field, value=value)]
    after = apply(text, done)
    if place is None:
        assert after.text == text
        return
    assert not after.problems
    lines, now = text.splitlines(keepends=True), after.text.splitlines(keepends=True)
    rest = len(lines) - place.end_line
    assert now[: place.line - 1] == lines[: place.line - 1]
    assert rest == 0 or now[-rest:] == lines[-rest:]
