"""The editor of plans: messages of pages, edits from Python, files, and cells that run again."""

# ruff: noqa: E501 - texts of plans are easier to compare on one line

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import synergy_nb
from synergy_nb import PlanError, edit, source
from synergy_nb.editing.forms import forms
from synergy_nb.editing.operations import EditError
from synergy_nb.editing.sampling import SampleError
from synergy_nb.editing.templates import templates
from synergy_nb.notebook import plan_editors
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.requirements import QOS_FIELDS
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.editors import Editor, ask
from tests.notebook_outputs import Notebook

pytestmark = pytest.mark.usefixtures("closed_editors")

TEXT = """\
format: 1
name: large
operators:
  packets: {kind: source, connector: packets}   # generated
  large: {kind: filter, input: packets, where: bytes > 1000}
  result: {kind: sink, input: large}
"""


@pytest.fixture
def editor() -> Iterator[Editor]:
    made = Editor(TEXT)
    yield made
    made.close()


def test_a_form_states_the_table_of_a_lookup(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("name,site\nA,Bonn\n")
    file = str(tmp_path / "sites.csv")
    (form,) = (each for each in forms()["kinds"] if each["kind"] == "lookup")
    assert {field["name"]: (field["type"], field["columns"]) for field in form["parameters"]} == {
        "table": ("table", ""), "on": ("keys", "many"), "how": ("choice", ""), "valid_from": ("name", ""),
        "prefix": ("name", ""),
    }  # fmt: skip
    editor = Editor(TEXT)
    fields = {"table": file, "on": {"link": "name"}}
    operations = [{"op": "add", "kind": "lookup", "operator": "sites", "inputs": ["large"], "fields": fields}]
    ask(editor, "edit", version=1, gesture="look up", operations=operations)
    assert file in editor.yaml, "the text says what was typed"
    ask(editor, "edit", version=2, gesture="no file", operations=[
        {"op": "set", "operator": "sites", "field": "table", "value": f"{file}x"}
    ])  # fmt: skip
    (problem,) = (each for each in editor.document["problems"] if each["field"] == "table")
    assert "a file" in problem["expected"]
    editor.close()


# -- pages -------------------------------------------------------------------------------------------------------------


def test_an_edit_is_answered_before_its_document_comes(editor: Editor) -> None:
    answer = ask(editor, "edit", version=1, gesture="make it larger", operations=[
        {"op": "set", "operator": "large", "field": "where", "value": "bytes > 2000"},
        {"op": "add", "kind": "filter", "operator": "large", "inputs": ["packets"], "fields": {"where": "byte < 5"}},
    ])  # fmt: skip
    assert answer == {"type": "applied", "id": 7, "version": 2, "ids": {"large": "large_2"}}
    assert editor.sent[-1][0] == 1  # the document was still the first when the answer went
    document = editor.document
    assert document["yaml"] == editor.yaml
    assert (document["version"], document["undo"], document["redo"], document["saved"]) == (
        2,
        "make it larger",
        "",
        False,
    )
    problem = document["problems"][0]
    assert (problem["operator"], problem["field"], problem["nearest"], problem["line"]) == (
        "large_2",
        "where",
        "bytes",
        5,
    )
    assert "did you mean 'bytes'" in problem["message"]
    assert document["python"] == ""
    assert [each["id"] for each in document["operators"]] == ["packets", "large_2", "large", "result"]
    assert document["operators"][2]["fields"] == {"where": "bytes > 2000"}
    assert document["columns"]["large"]["bytes"] == "int"
    assert document["rates"]["large_2"] is None
    assert document["rates"]["packets"] == 1000.0


def test_an_operator_that_is_gone_is_a_problem_and_the_rest_is_done(editor: Editor) -> None:
    answer = ask(editor, "edit", version=1, gesture="two", operations=[
        {"op": "remove", "operator": "gone"}, {"op": "name", "value": "other"}])  # fmt: skip
    assert answer["version"] == 2
    assert "'gone'; expected an operator of the plan (packets, large, result)" in answer["problem"]
    assert editor.plan.name == "other"
    assert "expected one of add" in ask(editor, "edit", operations=[{"op": "make"}])["problem"]
    assert "expected one of add" in ask(editor, "edit")["problem"]


def test_edits_of_pages_and_programs_are_undone_in_one_history(editor: Editor) -> None:
    ask(editor, "edit", gesture="type", operations=[{"op": "name", "value": "a"}])
    ask(editor, "edit", gesture="type", continues=True, operations=[{"op": "name", "value": "ab"}])
    editor.apply({"op": "rename", "operator": "large", "to": "big"}, {"op": "remove", "operator": "result"})
    editor.yaml = editor.yaml + "# more\n"
    assert ask(editor, "undo")["gesture"] == "edit the text"
    assert editor.undo() == "rename large"
    assert ask(editor, "redo")["gesture"] == "rename large"
    assert editor.undo() == "rename large"
    assert editor.plan.name == "ab"
    assert editor.undo() == "type"
    assert editor.yaml == TEXT
    assert (editor.undo(), ask(editor, "undo")["gesture"], editor.yaml) == ("", "", TEXT)
    assert editor.redo() == "type"


def test_text_that_is_typed_may_be_no_yaml_and_merges(editor: Editor) -> None:
    assert "problem" not in ask(editor, "text", version=1, yaml=TEXT + "operators: [")
    document = editor.document
    assert (document["readable"], [each["id"] for each in document["operators"]]) == (
        False,
        ["packets", "large", "result"],
    )
    assert document["problems"][0]["line"] == 7
    assert "edited" not in ask(editor, "edit", operations=[{"op": "name", "value": "x"}])
    assert "correct the text first" in ask(editor, "edit", operations=[{"op": "name", "value": "x"}])["problem"]
    assert "draft of query plan large" in editor.to_svg()
    ask(editor, "undo")
    ask(editor, "edit", operations=[{"op": "name", "value": "x"}])
    assert "problem" not in ask(editor, "text", version=1, yaml=TEXT.replace("1000", "77"))  # made on the first version
    assert editor.yaml == TEXT.replace("1000", "77").replace("large\noperators", "x\noperators")
    assert (
        "expected a change of other lines"
        in ask(editor, "text", version=1, yaml=TEXT.replace("large\n", "y\n", 1))["problem"]
    )
    assert "expected the text of a plan" in ask(editor, "text", yaml=5)["problem"]


def test_a_page_takes_templates_and_copies_and_unknown_messages_are_ignored(editor: Editor) -> None:
    assert len(templates()) == 7
    assert [each["name"] for each in editor.catalogue["templates"]] == [each.name for each in templates()]
    for field in ("name", "label", "title", "text"):
        assert len({each[field] for each in editor.catalogue["templates"]}) == 7, f"a page tells templates by {field}"
    for each in templates():
        assert each.title[:1].isupper()
        assert "problem" not in ask(editor, "template", name=each.name)
        assert editor.plan == Plan.from_yaml(each.text)
    assert "expected one of top_pairs" in ask(editor, "template", name="none")["problem"]
    for _ in templates():
        editor.undo()
    assert editor.yaml == TEXT
    copy = ask(editor, "copy", operators=["large"])["yaml"]
    assert copy == "operators:\n  large: {kind: filter, input: packets, where: bytes > 1000}\n"
    assert "expected operators of the plan" in ask(editor, "copy", operators=["gone"])["error"]
    editor.on_page_message({"type": "nothing", "id": 1})
    editor.on_page_message({})
    assert editor.yaml == TEXT


# -- programs ----------------------------------------------------------------------------------------------------------


def test_python_applies_all_operations_or_none(editor: Editor) -> None:
    with pytest.raises(EditError, match="'gone'; expected an operator of the plan"):
        editor.apply({"op": "name", "value": "x"}, {"op": "remove", "operator": "gone"})
    assert editor.yaml == TEXT
    with pytest.raises(EditError, match="expected one of add"):
        editor.apply({"op": "x"})
    editor.apply([{"op": "name", "value": "x"}, {"op": "remove", "operator": "result"}])  # a list will do
    assert editor.undo() == "name"
    with pytest.raises(EditError, match="yaml: 'int'; expected the YAML text"):
        editor.yaml = 5  # type: ignore[assignment]
    editor.yaml = TEXT.replace("bytes >", "byte >")
    assert repr(editor) == "<PlanEditor 'large': 3 operators, 1 problem>"
    with pytest.raises(PlanError, match="did you mean 'bytes'"):
        editor.plan  # noqa: B018
    with pytest.raises(PlanError):
        editor.python  # noqa: B018
    assert [problem.nearest for problem in editor.problems] == ["bytes"]


def test_rows_of_a_source_stay_with_the_plan() -> None:
    rows = pl.DataFrame({"time": [1.0, 2.0], "amount": [3, 4]})
    query = source(rows).filter("amount > 3").sink("large")
    made = edit(query)
    assert list(made.plan.rows) == ["source"]
    made.apply({"op": "rename", "operator": "source", "to": "sales"})
    assert made.plan.rows["sales"] is not None
    other = source(rows, id="b").sink()
    made.plan = other
    assert made.plan == other
    assert list(made.plan.rows) == ["b"]
    with pytest.raises(EditError, match="plan: 'int'; expected a plan"):
        made.plan = 5  # type: ignore[assignment]


def test_a_plan_is_saved_as_yaml_python_and_svg(editor: Editor, tmp_path: Path) -> None:
    assert editor.save(tmp_path / "plan.yaml").read_text() == TEXT
    assert editor.save(tmp_path / "plan.py").read_text() == editor.plan.to_python()
    assert editor.save(str(tmp_path / "plan.svg")).read_text().startswith("<svg")
    assert editor.document["file"] == str(tmp_path / "plan.yaml")
    assert ask(editor, "save")["path"] == str(tmp_path / "plan.yaml")
    assert editor.document["saved"]
    with pytest.raises(
        EditError, match=r"path: '.*plan.json'; expected a file that ends with .yaml, .yml, .py, .svg, .png"
    ):
        editor.save(tmp_path / "plan.json")
    with pytest.raises(EditError, match="path: missing; expected a file to save to"):
        Editor(TEXT).save()
    assert "expected a file that ends" in ask(editor, "save", path="x")["error"]
    assert ask(editor, "save", path=str(tmp_path / "no" / "plan.yaml"))["error"]


@pytest.mark.slow
def test_a_picture_is_saved_as_png_also_of_a_draft_and_needs_matplotlib(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = editor.save(tmp_path / "plan.png").read_bytes()
    editor.apply({"op": "set", "operator": "large", "field": "where", "value": "bites > 40"})
    assert editor.problems
    draft = editor.save(tmp_path / "plan.png").read_bytes()
    for data in (valid, draft):
        assert data.startswith(b"\x89PNG")
        assert int.from_bytes(data[16:20]) > 400  # pixels of width
    assert draft != valid
    assert editor.document["file"] == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EditError, match=r"plan.png'; expected a file that ends with .svg, or matplotlib, which is not"):
        editor.save(tmp_path / "plan.png")


@pytest.mark.parametrize("notebook", [1e6], indirect=True)
def test_a_notebook_keeps_the_last_picture(editor: Editor, notebook: Notebook) -> None:
    editor._ipython_display_()
    assert notebook.keys == ["", str(editor.model_id)]
    assert "bytes &gt; 1000" in notebook.outputs[-1]["text/html"]
    editor.apply({"op": "rename", "operator": "large", "to": "kept"})
    assert not notebook.replaced
    editor.close()
    assert notebook.keys[2:] == [notebook.keys[1]]
    assert "kept" in notebook.replaced[-1]


# -- cells that run again ----------------------------------------------------------------------------------------------


def test_the_same_file_keeps_what_was_edited(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(TEXT)
    made = edit(file)
    made.apply({"op": "name", "value": "mine"})
    assert edit(str(file)) is made
    file.write_text(TEXT.replace("1000", "5"))
    assert edit(file) is made
    assert made.plan.name == "mine"  # what is unsaved stays
    assert edit(file, anew=True) is not made
    assert edit(file).yaml == TEXT.replace("1000", "5")
    file.write_text(TEXT)
    assert edit(file).yaml == TEXT  # nothing was unsaved
    assert edit(file).document["saved"]


def test_saving_merges_what_another_program_has_written_and_never_overwrites_it_silently(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(TEXT)
    made = edit(file)
    made.apply({"op": "set", "operator": "large", "field": "where", "value": "bytes > 5"})
    file.write_text(TEXT.replace("name: large", "name: other"))  # as a notebook with another kernel does
    made.save()
    both = TEXT.replace("name: large", "name: other").replace("1000", "5")
    assert (file.read_text(), made.yaml, made.document["saved"]) == (both, both, True)
    assert made.undo() == "take the changes of the file"
    made.redo()
    made.apply({"op": "set", "operator": "large", "field": "where", "value": "bytes > 7"})
    theirs = both.replace("bytes > 5", "bytes > 6")
    file.write_text(theirs)
    with pytest.raises(
        EditError, match=r"nobody else has changed in the same place; .* as the path of save\(\) overwrites"
    ):
        made.save()
    assert (file.read_text(), made.document["saved"]) == (theirs, False)
    made.save(file)
    assert "bytes > 7" in file.read_text()


def test_an_editor_lists_the_folders_that_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    answers: list[Any] = []
    monkeypatch.setattr(PlanEditor, "send", lambda _, content, buffers=None: answers.append(content))
    for folders, path in ((["data"], "data"), (None, "data"), (["."], ".")):
        listed = edit("listed", folders=folders)
        monkeypatch.setattr(listed, "_beside", lambda task: task())
        listed.on_page_message({"type": "files", "id": 1, "folder": ""})
        assert answers.pop()["path"] == path, "another cell may change them"
    with pytest.raises(EditError, match="folders: 'gone'; expected a folder that exists"):
        edit("listed", folders=["gone"])


def test_a_new_file_is_begun_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "new one.yaml"
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "new ones.yaml").write_text(TEXT)
    (tmp_path / "other.yaml").write_text(TEXT)
    with pytest.raises(EditError, match=r"create=True\); did you mean '.*plans.new ones.yaml'"):
        edit(path)
    with pytest.raises(EditError, match=r"a new one, edit\(path, create=True\)$"):
        edit(tmp_path / "elsewhere" / "other.yaml")
    with pytest.raises(EditError, match="expected a file in a folder that exists"):
        edit(tmp_path / "elsewhere" / "other.yaml", create=True)
    with pytest.raises(EditError, match="create: 1; expected True or False"):
        edit(path, create=1)  # type: ignore[arg-type]
    made = edit(path, create=True)
    assert made.yaml == "format: 1\nname: new one\noperators:\n"
    assert (made.document["isNew"], made.document["saved"], path.exists()) == (True, False, False)
    made.apply({"op": "name", "value": "mine"})
    assert edit(path, create=True) is made  # the cell runs again
    assert "name: mine" in made.yaml
    made.save()
    assert (made.document["isNew"], made.document["saved"]) == (False, True)
    assert path.read_text() == made.yaml
    assert edit(path, create=True) is made


def test_the_same_name_plan_or_cell_keeps_what_was_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    named = edit("mine")
    named.apply({"op": "qos", "field": "delay", "value": "2 s"})
    assert edit("mine") is named
    assert edit("other") is not named
    assert edit() is not edit()
    query = source("packets").sink()
    assert edit(query) is edit(source("packets").sink())
    monkeypatch.setattr(plan_editors, "_cell", lambda: "c1")
    first = edit()
    assert edit() is first
    monkeypatch.setattr(plan_editors, "_cell", lambda: "c2")
    assert edit() is not first
    named.close()
    assert edit("mine") is not named


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (5, "edit: 'int'; expected a plan, the path of a YAML file"),
        ("", "edit: ''"),
        ("a/b.json", "ends with .yaml or .yml"),
    ],
)
def test_edit_refuses_what_is_no_plan_path_or_name(what: Any, said: str) -> None:
    with pytest.raises(EditError) as caught:
        edit(what)
    assert said in str(caught.value)


def test_a_wrong_argument_of_the_editor_is_named(tmp_path: Path) -> None:
    with pytest.raises(EditError, match="anew: 'yes'; expected True or False"):
        edit("mine", anew="yes")  # type: ignore[arg-type]
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(EditError, match=r"latin\.yaml'; expected a YAML file in UTF-8"):
        edit(file)
    with pytest.raises(SampleError, match="rows: 0; expected an integer from 1 to 10000"):
        edit("mine").sample("packets", rows=0)
    file.write_bytes(b"format: 1\r\nname: a\r\n")
    assert edit(file).yaml == "format: 1\r\nname: a\r\n"  # line breaks stay
    assert edit(file).save(tmp_path / "copy.yaml").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("limit", [1000, 20_000])
def test_messages_of_any_form_are_answered(editor: Editor, limit: int) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)  # packages raise it
    try:
        _ask_anything(editor)
    finally:
        sys.setrecursionlimit(before)


def _ask_anything(editor: Editor) -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    for operations in (deep, [deep], {"op": "set", "operator": "large", "field": "where", "value": deep}, None, "x"):
        assert "problem" in ask(editor, "edit", operations=operations)
    assert "problem" in ask(editor, "text", yaml="x", version=[1])
    assert "problem" in ask(editor, "text", yaml=TEXT, version={})
    assert "error" in ask(editor, "save", path=["x"])
    assert ask(editor, "copy", operators=7)["yaml"] == "operators:\n"
    assert editor.yaml == TEXT


# -- forms -------------------------------------------------------------------------------------------------------------


def test_forms_are_made_from_declarations() -> None:
    made = forms()
    assert [each["kind"] for each in made["kinds"]] == list(KINDS)
    assert {each["group"] for each in made["kinds"]} >= {"sources", "rows", "joins", "aggregates", "ordered", "sinks"}
    by_kind = {each["kind"]: {field["name"]: field for field in each["parameters"]} for each in made["kinds"]}
    where = by_kind["filter"]["where"]
    assert (where["required"], where["expression"], where["multiline"], where["default"]) == (True, True, True, "")
    assert by_kind["join"]["how"]["choices"] == ["inner", "left", "anti"]
    assert by_kind["join"]["on"]["columns"] == "many"
    assert by_kind["compare"]["value"]["columns"] == "one"
    assert by_kind["sample"]["fraction"]["range"] == "0 to 1"
    packets = {field["name"]: field for field in made["kinds"][0]["connectors"]["packets"]["parameters"]}
    assert (packets["rate"]["unit"], packets["rate"]["default"], packets["hosts"]["range"]) == (
        "tuples/s",
        "1000 tuples/s",
        "2 to 1e+06",
    )
    assert [field["name"] for field in made["common"]] == ["cost", "selectivity", "at", "engine", "availability"]
    assert [field["name"] for field in made["qos"]] == list(QOS_FIELDS)
    for field in [
        *made["common"],
        *made["qos"],
        *packets.values(),
        *(each for kind in by_kind.values() for each in kind.values()),
    ]:
        assert field["help"], field
        assert "`" not in field["help"] + field["default"]


def test_plans_do_not_import_the_editor() -> None:
    code = "import sys, synergy_nb; synergy_nb.source; print('anywidget' in sys.modules, 'synergy_nb.editing' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]
    assert "edit" in synergy_nb.__all__
