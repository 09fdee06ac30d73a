"""What pages of an editor ask for, and what they are answered: edits, texts, files, samples, costs and submissions.

Each message of a page has a ``type`` and an ``id``, and is answered by a message with the same ``id``. Quick ones are
answered under the lock of the editor, and those that take time by a thread.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import traitlets

from synergy_nb.editing.data_files import check_file, file_fields, folder_contents
from synergy_nb.editing.document import PlanDocument, gesture_of, problem_row
from synergy_nb.editing.operations import EditError, parse_operations
from synergy_nb.editing.templates import templates
from synergy_nb.errors import SynergyError
from synergy_nb.plan import Problem
from synergy_nb.plan.terms.units import WrongValue
from synergy_nb.reporting.plan_trials import PlanTrial
from synergy_nb.widgets.bundled_view import BundledView
from synergy_nb.widgets.running_plan import PlanRuns

if TYPE_CHECKING:
    from synergy_nb.editing.sampling import SampledRows

RESULTS: Final = 20  # maximum number of rows of the results of a sink that a page shows


class EditorPages(BundledView):
    """The part of an editor that answers its pages; the other part is :class:`.plan_editor.PlanEditor`."""

    document = traitlets.Dict().tag(sync=True)
    folders: Sequence[Path] = ()  # that the file picker lists, with those below; none: any

    _lock: threading.RLock
    _document: PlanDocument
    _submitting: bool  # whether a page waits for a submission
    _beside: Callable[[Callable[[], None]], None]  # runs a function in a thread

    @abstractmethod
    def save(self, path: str | Path | None = None) -> Path:
        """Write the plan to a file, and return its path."""

    @abstractmethod
    def sample(self, operator: str, rows: int = 20) -> SampledRows:
        """Compute the first rows of the stream of an operator."""

    @abstractmethod
    def cost(self) -> PlanTrial:
        """Find the graph that composition would choose."""

    @abstractmethod
    def submit(self) -> Any:
        """Submit the present plan, and return the application."""

    @property
    @abstractmethod
    def application(self) -> Any:
        """The application that was submitted last; None before."""

    @abstractmethod
    def stop(self) -> None:
        """End what was submitted."""

    @abstractmethod
    def _cluster(self) -> PlanRuns:
        """The cluster on which plans are submitted."""

    @abstractmethod
    def _contents(self) -> dict[str, Any]:
        """The document as pages show it."""

    def on_page_message(self, content: Mapping[str, Any]) -> None:
        """Answer a message of a page; messages of unknown types are ignored."""
        if content.get("kind") == "bundle":
            self.send_bundle()
            return
        if content.get("type") == "here":  # the page asks whether the kernel lives
            self.send({"type": "here"})
            return
        answers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "edit": self._edit,
            "text": self._text,
            "template": self._template,
            "undo": self._undo,
            "redo": self._undo,
            "copy": self._copy,
            "save": self._save,
        }
        long: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "sample": self._sample,
            "results": self._results,
            "cost": self._cost,
            "submit": self._submit,
            "stop": self._stop,
            "files": self._files,
            "header": self._header,
            "file": self._file,
        }
        kind = str(content.get("type"))
        if kind in answers:
            with self._lock:
                answers[kind](content)
        elif kind in long:
            self._beside(lambda: self._answer(content, long[kind]))

    def _answer(self, content: Mapping[str, Any], work: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        """Answer a message whose answer needs slow work; an error is an answer, too."""
        kind = {"submit": "submitted", "stop": "stopped"}.get(str(content["type"]), str(content["type"]))
        about = {"operator": str(content.get("operator"))} if kind in ("sample", "results") else {}
        try:
            found = work(content)
        except (SynergyError, OSError, ValueError, TypeError, RuntimeError) as error:  # the page waits for an answer
            found = {"error": str(error)}
        self._reply(content, kind, **about, **found)

    def _reply(self, question: Mapping[str, Any], kind: str, **contents: Any) -> None:
        self.send({"type": kind, "id": question.get("id"), **contents})

    def _applied(self, question: Mapping[str, Any], problems: Iterable[Problem] = (), **contents: Any) -> None:
        """Answer a change of the text, and then send the new document."""
        wrong = list(problems)
        if wrong:
            contents |= {"problem": "\n".join(map(str, wrong)), "problems": [problem_row(each, None) for each in wrong]}
        self._reply(question, "applied", version=self._document.history.version, **contents)
        self.document = self._contents()

    def _edit(self, content: Mapping[str, Any]) -> None:
        try:
            operations = parse_operations(content.get("operations"))
        except EditError as error:
            self._applied(content, error.problems)
            return
        gesture = str(content.get("gesture") or gesture_of(operations))
        done = self._document.apply(operations, gesture, continues=bool(content.get("continues")))
        self._applied(content, done.problems, **({"ids": done.ids} if done.ids else {}))

    def _text(self, content: Mapping[str, Any]) -> None:
        """Merge a text that was typed in a page with the changes since its version."""
        text, history = content.get("yaml"), self._document.history
        if not isinstance(text, str):
            self._applied(content, [Problem("", "yaml", type(text).__name__, "the text of a plan")])
            return
        try:
            text = history.rebase(text, content.get("version", history.version))
        except WrongValue as wrong:
            self._applied(content, [Problem("", wrong.field, wrong.value, wrong.expected)])
            return
        gesture = str(content.get("gesture") or "edit the text")
        self._document.change(text, gesture, continues=bool(content.get("continues")))
        self._applied(content)

    def _template(self, content: Mapping[str, Any]) -> None:
        found = next((each for each in templates() if each.name == content.get("name")), None)
        if found is None:
            names = ", ".join(each.name for each in templates())
            self._applied(content, [Problem("", "template", content.get("name"), f"one of {names}")])
            return
        self._document.change(found.text, f"template {found.title}")
        self._applied(content)

    def _undo(self, content: Mapping[str, Any]) -> None:
        gesture = self._document.undo() if content["type"] == "undo" else self._document.redo()
        self._applied(content, gesture=gesture)

    def _copy(self, content: Mapping[str, Any]) -> None:
        wanted = content.get("operators")
        try:
            text = self._document.copy([str(each) for each in wanted] if isinstance(wanted, list) else [])
        except EditError as error:
            self._reply(content, "copied", yaml="", error=str(error))
            return
        self._reply(content, "copied", yaml=text)

    def _save(self, content: Mapping[str, Any]) -> None:
        try:
            path = self.save(str(content["path"]) if content.get("path") else None)
        except (SynergyError, OSError, ValueError) as error:
            self._reply(content, "saved", error=str(error))
            return
        self._reply(content, "saved", path=str(path))

    def _sample(self, content: Mapping[str, Any]) -> dict[str, Any]:
        found = self.sample(str(content.get("operator")))
        return {"columns": found.columns, "rows": found.rows, "note": found.note}

    def _results(self, content: Mapping[str, Any]) -> dict[str, Any]:
        from synergy_nb.editing.sampling import json_rows  # noqa: PLC0415 - only rows need Polars

        if self.application is None:
            return {"error": "Nothing was submitted here."}
        table = self.application.latest(RESULTS, str(content.get("operator")))
        return {"columns": table.columns, "rows": json_rows(table), "note": ""}

    def _cost(self, _content: Mapping[str, Any]) -> dict[str, Any]:
        return self.cost()._asdict()

    def _submit(self, _content: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._submitting:  # a second click, here or in another page
                return {"error": "The plan is being submitted."}
            self._submitting = True
        try:
            return {"application": str(self.submit().id), "advice": self._cluster().advice}
        finally:
            self._submitting = False

    def _stop(self, _content: Mapping[str, Any]) -> dict[str, Any]:
        self.stop()
        return {}

    def _files(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return folder_contents(str(content.get("folder") or ""), self.folders)._asdict()

    def _file(self, content: Mapping[str, Any]) -> dict[str, Any]:
        check_file(str(content.get("path") or ""), self.folders)
        return {}

    def _header(self, content: Mapping[str, Any]) -> dict[str, Any]:
        found = file_fields(str(content.get("path") or ""), str(content.get("encoding") or ""), self.folders)
        return {**found._asdict(), "columns": list(found.columns.items())}  # in order: JavaScript puts "1" first
