"""The visual editor of plans: a canvas, forms and the text of one plan, which the kernel keeps and checks.

Theory of operation
-------------------
The document is the YAML text of a plan, in a :class:`~synergy_nb.editing.history.History`. Pages and programs send
operations (:mod:`synergy_nb.editing.operations`); the editor applies them to the present text, finds what is known of
the new one (:mod:`synergy_nb.editing.analysis`), and sends both to all pages as the trait ``document``, which has a
version. Pages show edits at once, and drop their own guess when the document of that version arrives. The answer to
each message of a page is a custom message with the ``id`` of the question, sent before the document.

The notebook's file holds a small loader, as for the live view, and a static picture for viewers that cannot run it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from synergy_nb.drawing import graphs
from synergy_nb.editing.analysis import analyse, shown_value
from synergy_nb.editing.applying import apply, copied
from synergy_nb.editing.forms import forms
from synergy_nb.editing.history import History
from synergy_nb.editing.operations import EditError, Operation, parsed
from synergy_nb.editing.plan_text import EMPTY
from synergy_nb.editing.templates import templates
from synergy_nb.errors import SynergyError
from synergy_nb.plan import Plan, PlanError, Problem
from synergy_nb.plan.builder import with_rows
from synergy_nb.plan.units import WrongValue, nearest
from synergy_nb.widgets.qos_view import BundleMissing, bundle

if TYPE_CHECKING:
    import polars as pl

    from synergy_nb.editing.sampling import Sample

__all__ = ["PlanEditor"]

#: Function that reads the rows of a source: plan, id of the source, rows as ``source(rows)`` takes them.
RowsReader = Callable[[Plan, str, Any], "pl.DataFrame"]

_SUFFIXES: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".svg": "svg"}
_LONGEST_LABEL: Final = 100  # characters of a gesture's name


class PlanEditor(anywidget.AnyWidget):
    """A visual editor of one plan; its document is the YAML text of the plan.

    Parameters
    ----------
    text
        YAML text of the plan, valid or not.
    file
        Path that :meth:`save` writes to if it is given none.
    rows
        Rows of sources by the name of the source, as ``source(rows)`` made them.
    reader
        Function that reads such rows for samples; None: these sources have no samples.

    Examples
    --------
    >>> editor = PlanEditor("operators:\\n  packets: {kind: source, connector: packets}\\n")
    >>> editor.apply({"op": "add", "kind": "filter", "fields": {"where": "bytes > 40"}, "inputs": ["packets"]})
    >>> print(editor.yaml, end="")
    operators:
      packets: {kind: source, connector: packets}
      filter: {kind: filter, input: packets, where: bytes > 40}
    >>> editor.undo(), editor.undo()
    ('add filter', '')
    >>> editor.close()
    """

    _esm = resources.files("synergy_nb.widgets").joinpath("loader.js").read_text("utf-8")
    _version = traitlets.Unicode().tag(sync=True)
    catalogue = traitlets.Dict().tag(sync=True)
    document = traitlets.Dict().tag(sync=True)
    live = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init__(
        self,
        text: str = EMPTY,
        *,
        file: Path | None = None,
        rows: Mapping[str, Any] | None = None,
        reader: RowsReader | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._history = History(text)
        self._analysis = analyse(text)
        self._readable = self._analysis  # of the last text that could be read
        self._saved = text
        self._file = file
        self._rows = dict(rows or {})
        self._reader = reader
        self._closed = False
        #: Function that starts another one beside the program.
        self._beside: Callable[[Callable[[], None]], None] = _in_thread
        try:
            version = bundle("planeditor")[0]
        except BundleMissing:
            version = ""
        super().__init__(_version=version, catalogue=self._forms(), document=self._contents())
        self.on_msg(lambda _, content, _buffers: self.on_page_message(content))

    # -- for people ----------------------------------------------------------------------------------------------

    @property
    def yaml(self) -> str:
        """The text of the plan; setting it is one gesture, which can be undone."""
        return self._history.text

    @yaml.setter
    def yaml(self, text: str) -> None:
        if not isinstance(text, str):
            raise EditError([Problem("", "yaml", type(text).__name__, "the YAML text of a plan")])
        with self._lock:
            self._change(text, "edit the text")

    @property
    def plan(self) -> Plan:
        """The plan; setting it replaces the text, as one gesture.

        Raises
        ------
        PlanError
            If the text is no valid plan; it holds all problems.
        """
        with self._lock:
            found = self._analysis
        if found.plan is None:
            raise PlanError(found.problems)
        return with_rows(found.plan, self._rows)

    @plan.setter
    def plan(self, plan: Plan) -> None:
        if not isinstance(plan, Plan):
            raise EditError([Problem("", "plan", type(plan).__name__, "a plan")])
        with self._lock:
            self._rows.update({plan.operators[name].params["name"]: rows for name, rows in plan.rows.items()})
            self._change(plan.to_yaml(), "replace the plan")

    @property
    def python(self) -> str:
        """Python that builds the plan.

        Raises
        ------
        PlanError
            If the text is no valid plan; it holds all problems.
        """
        return self.plan.to_python()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the present text; none if it is a valid plan."""
        return tuple(self._analysis.problems)

    @property
    def saved(self) -> bool:
        """Whether the text is that of the file, or the one that the editor was opened with."""
        return self._history.text == self._saved

    def mark_saved(self) -> None:
        """State that the present text is that of the file."""
        with self._lock:
            self._saved = self._history.text
            self._changed()

    @property
    def closed(self) -> bool:
        """Whether the editor was closed."""
        return self._closed

    def apply(self, *operations: Operation | Mapping[str, Any], gesture: str = "") -> None:
        """Apply operations to the plan, as one gesture: all of them or, if one cannot be applied, none.

        Parameters
        ----------
        operations
            Operations of :mod:`synergy_nb.editing.operations`, or mappings such as
            ``{"op": "set", "operator": "filter", "field": "where", "value": "bytes > 40"}``.
        gesture
            Name of the gesture in the history. Default: what the first operation does.

        Raises
        ------
        EditError
            If one cannot be applied; it holds all problems.
        """
        wanted = parsed(operations)
        with self._lock:
            done = apply(self._history.text, wanted)
            if done.problems:
                raise EditError(done.problems)
            self._change(done.text, gesture or _gesture(wanted))

    def undo(self) -> str:
        """Take the latest gesture back; return its name, empty if there is none."""
        with self._lock:
            gesture = self._history.undo()
            self._changed()
            return gesture

    def redo(self) -> str:
        """Make the gesture again that was taken back last; return its name, empty if there is none."""
        with self._lock:
            gesture = self._history.redo()
            self._changed()
            return gesture

    def save(self, path: str | Path | None = None) -> Path:
        """Write the plan to a file, and return its path.

        Parameters
        ----------
        path
            File that ends with ``.yaml`` (the text as it is), ``.py`` (Python that builds the plan) or ``.svg`` (a
            picture). Default: the file that was opened.

        Raises
        ------
        EditError
            If there is no path, or it ends otherwise.
        PlanError
            If Python is wanted of a text that is no valid plan.
        """
        wanted = self._file if path is None else Path(path)
        if wanted is None:
            raise EditError([Problem("", "path", None, "a file to save to, such as 'plan.yaml'")])
        form = _SUFFIXES.get(wanted.suffix.lower())
        if form is None:
            expected = f"a file that ends with {', '.join(_SUFFIXES)}"
            raise EditError([Problem("", "path", str(wanted), expected, nearest(wanted.suffix, _SUFFIXES))])
        with self._lock:
            text = {"yaml": lambda: self.yaml, "python": lambda: self.python, "svg": self.to_svg}[form]()
            wanted.write_text(text, "utf-8", newline="")
            if form == "yaml":
                self._file = self._file or wanted
                self.mark_saved()
        return wanted

    def to_svg(self) -> str:
        """The present plan as a self-contained SVG, also while it has problems."""
        if self._analysis.plan is not None:
            return self._analysis.plan.to_svg()
        found = self._readable
        known = {operator.id for operator in found.operators}
        wrong = {problem.operator for problem in found.problems}
        nodes = [
            graphs.Node(each.id, f"{each.id} ({each.kind})", state="failed" if each.id in wrong else "")
            for each in found.operators
        ]
        edges = {(up, each.id) for each in found.operators for up in each.inputs if up in known}
        try:
            return graphs.svg(nodes, sorted(edges), title=f"draft of query plan {found.name}")
        except ValueError:  # a cycle
            return graphs.svg(nodes, [], title=f"draft of query plan {found.name}")

    def close(self) -> None:
        """Remove the editor from the pages."""
        self._closed = True
        super().close()
        self.__dict__.pop("_repr_mimebundle_", None)  # closing hides it, but the last state can still be shown

    def __repr__(self) -> str:
        found, number = self._analysis, len(self._analysis.problems)
        state = "valid" if found.plan is not None else f"{number} problem{'s' if number != 1 else ''}"
        return f"<PlanEditor {self._readable.name!r}: {len(self._readable.operators)} operators, {state}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        note = ""
        try:
            self._version = bundle("planeditor")[0]
        except BundleMissing as missing:
            note = f"<p>{escape(str(missing)).capitalize()}. The picture shows the plan when the cell ran.</p>"
        shown = None if note or self._closed else super()._repr_mimebundle_(**options)
        data, metadata = shown if shown is not None else ({}, {})
        return {**data, "text/plain": repr(self), "text/html": f"{note}<div>{self.to_svg()}</div>"}, metadata

    # -- pages ---------------------------------------------------------------------------------------------------

    def on_page_message(self, content: Mapping[str, Any]) -> None:
        """Answer a message of a page; messages of unknown types are ignored."""
        if content.get("kind") == "bundle":
            with contextlib.suppress(BundleMissing):
                version, script, style = bundle("planeditor")
                self.send({"kind": "bundle", "version": version, "script": script, "style": style})
            return
        answers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "edit": self._edit,
            "text": self._text,
            "template": self._template,
            "undo": self._undo,
            "redo": self._undo,
            "copy": self._copy,
            "save": self._save,
            "sample": self._sample,
        }
        answer = answers.get(str(content.get("type")))
        if answer is not None:
            with self._lock:
                answer(content)

    def _reply(self, question: Mapping[str, Any], kind: str, **contents: Any) -> None:
        self.send({"type": kind, "id": question.get("id"), **contents})

    def _applied(self, question: Mapping[str, Any], problems: Iterable[Problem] = (), **contents: Any) -> None:
        """Answer an edit before its document is sent."""
        wrong = list(problems)
        if wrong:
            contents |= {"problem": "\n".join(map(str, wrong)), "problems": [_row(each, None) for each in wrong]}
        self._reply(question, "applied", version=self._history.version, **contents)

    def _edit(self, content: Mapping[str, Any]) -> None:
        try:
            operations = parsed(content.get("operations"))
        except EditError as error:
            self._applied(content, error.problems)
            return
        done = apply(self._history.text, operations)
        gesture = str(content.get("gesture") or _gesture(operations))[:_LONGEST_LABEL]
        self._history.change(done.text, gesture, continues=bool(content.get("continues")))
        self._applied(content, done.problems, **({"ids": done.ids} if done.ids else {}))
        self._changed()

    def _text(self, content: Mapping[str, Any]) -> None:
        text, version = content.get("yaml"), content.get("version", self._history.version)
        if not isinstance(text, str):
            self._applied(content, [Problem("", "yaml", type(text).__name__, "the text of a plan")])
            return
        try:
            text = self._history.rebased(text, version)
        except WrongValue as wrong:
            self._applied(content, [Problem("", wrong.field, wrong.value, wrong.expected)])
            return
        gesture = str(content.get("gesture") or "edit the text")[:_LONGEST_LABEL]
        self._history.change(text, gesture, continues=bool(content.get("continues")))
        self._applied(content)
        self._changed()

    def _template(self, content: Mapping[str, Any]) -> None:
        found = next((each for each in templates() if each.name == content.get("name")), None)
        if found is None:
            names = ", ".join(each.name for each in templates())
            self._applied(content, [Problem("", "template", content.get("name"), f"one of {names}")])
            return
        self._history.change(found.text, f"template {found.title}"[:_LONGEST_LABEL])
        self._applied(content)
        self._changed()

    def _undo(self, content: Mapping[str, Any]) -> None:
        gesture = self._history.undo() if content["type"] == "undo" else self._history.redo()
        self._applied(content, gesture=gesture)
        self._changed()

    def _copy(self, content: Mapping[str, Any]) -> None:
        wanted = content.get("operators")
        try:
            text = copied(self._history.text, [str(each) for each in wanted] if isinstance(wanted, list) else [])
        except EditError as error:
            self._reply(content, "copied", yaml="", error=str(error))
            return
        self._reply(content, "copied", yaml=text)

    def _save(self, content: Mapping[str, Any]) -> None:
        try:
            path = self.save(content.get("path") or None)
        except (SynergyError, OSError) as error:
            self._reply(content, "saved", error=str(error))
            return
        self._reply(content, "saved", path=str(path))

    def sample(self, operator: str, rows: int = 20) -> Sample:
        """Compute the first rows of the stream of an operator, from the first tuples of its sources.

        Parameters
        ----------
        operator
            Id of the operator; it and all that it needs may have no problem.
        rows
            Number of rows.

        Raises
        ------
        SampleError
            If there is no sample; the text says why.
        """
        from synergy_nb.editing.sampling import SampleError, sampled  # noqa: PLC0415 - only samples need Polars

        known = self._readable.known
        if known is None:
            raise SampleError(f"sample: {operator!r}; expected an operator of a text that can be read")
        given = {
            each.id: partial(self._read, known, each.id, self._rows[each.params["name"]])
            for each in known.operators.values()
            if self._reader is not None
            and each.params.get("connector") == "python"
            and each.params["name"] in self._rows
        }
        return sampled(known, operator, clock=time.monotonic, rows=rows, given=given)

    def _read(self, plan: Plan, operator: str, rows: Any) -> pl.DataFrame:
        assert self._reader is not None
        return self._reader(plan, operator, rows)

    def _sample(self, content: Mapping[str, Any]) -> None:
        operator = str(content.get("operator"))

        def answer() -> None:
            try:
                found = self.sample(operator)
            except SynergyError as error:
                self._reply(content, "sample", operator=operator, columns=[], rows=[], error=str(error))
                return
            self._reply(content, "sample", operator=operator, columns=found.columns, rows=found.rows, note=found.note)

        self._beside(answer)

    # -- the document --------------------------------------------------------------------------------------------

    def _change(self, text: str, gesture: str) -> None:
        self._history.change(text, gesture[:_LONGEST_LABEL])
        self._changed()

    def _changed(self) -> None:
        """Analyse the present text, and send it to the pages."""
        if self._history.version != self.document["version"]:
            self._analysis = analyse(self._history.text)
            if self._analysis.readable:
                self._readable = self._analysis
        self.document = self._contents()

    def _forms(self) -> dict[str, Any]:
        return {**forms(), "templates": [each._asdict() for each in templates()], "cluster": False}

    def _contents(self) -> dict[str, Any]:
        now, last, history = self._analysis, self._readable, self._history
        return {
            "version": history.version,
            "yaml": history.text,
            "readable": now.readable,
            "name": last.name,
            "qos": last.qos,
            "operators": [
                {
                    **{field: value for field, value in each._asdict().items() if field != "end_line"},
                    "endLine": each.end_line,
                }
                for each in last.operators
            ],
            "problems": [_row(problem, line) for problem, line in zip(now.problems, now.lines, strict=True)],
            "columns": last.columns,
            "rates": {each.id: last.rates.get(each.id) for each in last.operators},
            "loads": {each.id: last.loads.get(each.id) for each in last.operators},
            "python": now.plan.to_python() if now.plan is not None else "",
            "undo": history.undoable,
            "redo": history.redoable,
            "running": False,
            "draft": None,
            "file": str(self._file or ""),
            "saved": self.saved,
        }


def _in_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="synergy editor", daemon=True).start()


def _row(problem: Problem, line: int | None) -> dict[str, Any]:
    return {
        "operator": problem.operator,
        "field": problem.field,
        "value": shown_value(problem.value),
        "expected": problem.expected,
        "nearest": problem.nearest,
        "message": str(problem),
        "line": line,
    }


def _gesture(operations: Iterable[Operation]) -> str:
    """Name of a gesture for people, by its first operation."""
    first = next(iter(operations), None)
    if first is None:
        return "nothing"
    what = [getattr(first, name, None) for name in ("operator", "kind", "start", "field")]
    return f"{type(first).__name__.lower()} {next((each for each in what if each), '')}".strip()
