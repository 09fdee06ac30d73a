"""The visual editor of plans: a canvas, forms and the text of one plan, which the kernel keeps and checks.

Theory of operation
-------------------
The document is the YAML text of a plan (:mod:`synergy_nb.editing.document`). A *page* is one display of the editor in a
browser. Pages and programs send operations (:mod:`synergy_nb.editing.operations`). The editor applies them to the
present text, analyses the new text, and sends text and analysis to all pages as the trait ``document``, which has a
version. A page shows its own edit at once, as it expects it, and replaces that when the document of the version
arrives. Each message of a page has an ``id`` and is answered by a custom message with the same ``id``, which is sent
before the document. Slow work (samples, costs, submissions) runs in a thread, so that the program does not wait.

The notebook's file holds a small loader, as for the live view, and a static picture for viewers that cannot run it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from synergy_nb.editing.document import PlanDocument
from synergy_nb.editing.forms import forms
from synergy_nb.editing.operations import EditError, Operation, parse_operations
from synergy_nb.editing.plan_text import EMPTY
from synergy_nb.editing.templates import templates
from synergy_nb.plan import Plan, Problem
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.plan_trials import PlanTrial
from synergy_nb.widgets._editor_overlay import draft_of
from synergy_nb.widgets._editor_pages import EditorPages
from synergy_nb.widgets.running_plan import PlanRuns, RunningPlan

if TYPE_CHECKING:
    from synergy_nb.editing.sampling import SampledRows

__all__ = ["PlanEditor"]


class PlanEditor(EditorPages):
    """A visual editor of one plan; its document is the YAML text of the plan.

    Parameters
    ----------
    document
        Document, or YAML text of the plan, valid or not.
    runs
        Cluster on which the plan can be submitted; None: it can only be edited.
    opened
        Key of what the editor was opened with. A page that has shown an editor of the same before, in a kernel that
        has ended, offers its text. Empty: no page does.

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

    SCRIPT = "planeditor"
    catalogue = traitlets.Dict().tag(sync=True)
    live = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    opened = traitlets.Unicode().tag(sync=True)

    def __init__(self, document: PlanDocument | str = EMPTY, *, runs: PlanRuns | None = None, opened: str = "") -> None:
        self._lock = threading.RLock()
        self._document = PlanDocument(document) if isinstance(document, str) else document
        self._runs = runs
        self._running: list[RunningPlan] = []  # the latest last
        self._submitting = False  # whether a page waits for a submission
        self._closed = False
        #: Function that runs another one in a thread; a test may replace it.
        self._beside: Callable[[Callable[[], None]], None] = _in_thread
        super().__init__(catalogue=self._forms(), document=self._contents(), opened=opened)
        self.on_msg(lambda _, content, _buffers: self.on_page_message(content))
        self.observe(lambda _: self.keep_picture(), ["document"])

    # -- for people ----------------------------------------------------------------------------------------------

    @property
    def yaml(self) -> str:
        """The text of the plan; setting it is one gesture, which can be undone."""
        return self._document.text

    @yaml.setter
    def yaml(self, text: str) -> None:
        if not isinstance(text, str):
            raise EditError([Problem("", "yaml", type(text).__name__, "the YAML text of a plan")])
        with self._changing():
            self._document.change(text, "edit the text")

    @property
    def plan(self) -> Plan:
        """The plan; setting it replaces the text, as one gesture.

        Raises
        ------
        PlanError
            If the text is no valid plan; it holds all problems.
        """
        with self._lock:
            return self._document.plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        if not isinstance(plan, Plan):
            raise EditError([Problem("", "plan", type(plan).__name__, "a plan")])
        with self._changing():
            self._document.replace(plan)

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
        return tuple(self._document.analysis.problems)

    @property
    def saved(self) -> bool:
        """Whether the text is that of the file or, before the first save, that with which the editor was opened."""
        return self._document.saved

    @property
    def closed(self) -> bool:
        """Whether the editor was closed."""
        return self._closed

    @property
    def application(self) -> Any:
        """The application that was submitted last; None before."""
        return self._running[-1].followed.application if self._running else None

    def apply(
        self,
        *operations: Operation | Mapping[str, Any] | Sequence[Operation | Mapping[str, Any]],
        gesture: str = "",
    ) -> None:
        """Apply operations to the plan, as one gesture: all of them or, if one cannot be applied, none.

        Parameters
        ----------
        operations
            Operations of :mod:`synergy_nb.editing.operations`, or mappings such as
            ``{"op": "set", "operator": "filter", "field": "where", "value": "bytes > 40"}``, or lists of them.
        gesture
            Name of the gesture in the history. Default: what the first operation does.

        Raises
        ------
        EditError
            If one cannot be applied; it holds all problems.
        """
        flat = [one for each in operations for one in (each if isinstance(each, (list, tuple)) else [each])]
        wanted = parse_operations(flat)
        with self._changing():
            self._document.apply_all(wanted, gesture)

    def undo(self) -> str:
        """Undo the latest gesture, and return its name; empty if there is none."""
        with self._changing():
            return self._document.undo()

    def redo(self) -> str:
        """Redo the gesture that was undone last, and return its name; empty if there is none."""
        with self._changing():
            return self._document.redo()

    def reload(self, text: str) -> None:
        """Replace the text by that of its file, which another program has changed, as one gesture."""
        with self._changing():
            self._document.change(text, "reload the file")
            self._document.mark_saved()

    def save(self, path: str | Path | None = None) -> Path:
        """Write the plan to a file, and return its path.

        Parameters
        ----------
        path
            File that ends with ``.yaml`` (the text as it is), ``.py`` (Python that builds the plan), or ``.svg``
            or ``.png`` (a picture; PNG needs matplotlib). Default: the file that was opened;
            what another program has changed in it meanwhile is merged with the text.

        Raises
        ------
        EditError
            If there is no path, it has another suffix, PNG is wanted and matplotlib is not installed, or another
            program has changed the opened file in the same place.
        PlanError
            If Python is wanted of a text that is no valid plan.
        """
        with self._changing():
            return self._document.save(path)

    def sample(self, operator: str, rows: int = 20) -> SampledRows:
        """Compute the first rows of the stream of an operator, from the first tuples of its sources.

        Parameters
        ----------
        operator
            Id of the operator; neither it nor an operator upstream may have a problem.
        rows
            Largest number of rows of the sample.

        Raises
        ------
        SampleError
            If the stream has no sample; the message says why.
        """
        return self._document.sample(operator, rows, time.monotonic)

    def cost(self) -> PlanTrial:
        """Find the graph that composition would choose for the present plan, without starting it.

        Raises
        ------
        EditError
            If the editor has no cluster.
        PlanError
            If the text is no valid plan.
        """
        return self._cluster().cost(self.plan)

    def submit(self) -> Any:
        """Submit the present plan, and show over the canvas how it runs; return the application.

        Applications that were submitted before run on, so that the new one can share their streams.

        Raises
        ------
        EditError
            If the editor has no cluster.
        PlanError
            If the text is no valid plan.
        NotAdmitted
            If the peers refuse it.
        """
        followed = self._cluster().submit(self.plan)
        with self._changing():
            if self._running:
                self._running[-1].close()
            self._running.append(RunningPlan(followed, self._show, self._lock))
        return followed.application

    def stop(self) -> None:
        """End all applications that this editor has submitted; their results so far remain readable.

        If one cannot be ended, the others are, and its error is raised.
        """
        errors: list[Exception] = []
        for each in self._running:
            try:
                each.followed.stop()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        with self._changing():
            for each in self._running:
                each.update(at_once=True)
        if errors:
            raise errors[0]

    def to_svg(self) -> str:
        """The present plan as a self-contained SVG, also while it has problems."""
        return self._document.to_svg()

    def use(self, runs: PlanRuns | None) -> None:
        """Submit plans to another cluster from now on, or to none."""
        with self._lock:
            self._runs = runs
            self.catalogue = self._forms()

    def close(self) -> None:
        """Remove the editor from the pages; what it has submitted runs on."""
        with self._lock:
            self._closed = True
            for each in self._running:
                each.close()
            self._last_picture.changed(self._drawn, final=True)
        super().close()
        self.__dict__.pop("_repr_mimebundle_", None)  # closing hides it, but the last state can still be shown

    def __repr__(self) -> str:
        found, last = self._document.analysis, self._document.last_readable
        number = len(found.problems)
        state = "valid" if found.plan is not None else f"{counted(number, 'problem')}"
        return f"<PlanEditor {last.name!r}: {counted(len(last.operators), 'operator')}, {state}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        instead = "The picture shows the plan when the cell ran."
        note, data, metadata = self._live(options, instead, closed=self._closed)
        return {**data, "text/plain": repr(self), "text/html": f"{note}<div>{self.to_svg()}</div>"}, metadata

    # -- the state that pages show -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changing(self) -> Any:
        """Hold the lock during a change, and send the document after it."""
        with self._lock:
            yield
            self.document = self._contents()

    def _cluster(self) -> PlanRuns:
        if self._runs is None:
            expected = "a cluster or a simulation: edit(..., cluster=cluster)"
            raise EditError([Problem("", "cluster", None, expected)])
        return self._runs

    def _show(self, live: dict[str, Any]) -> None:
        """Show how the application that was submitted last runs; once it has ended, the plan is no draft of it."""
        self.live = live
        if self._running and self.document["running"] != (not self._running[-1].ended):
            self.document = self._contents()

    def _forms(self) -> dict[str, Any]:
        return {
            **forms(),
            "templates": [each._asdict() for each in templates()],
            "cluster": self._runs is not None,
        }

    def _contents(self) -> dict[str, Any]:
        latest = self._running[-1] if self._running else None
        draft = None
        if latest is not None and not latest.ended and self._document.last_readable.valid_part is not None:
            found = self._document.last_readable
            present = self._document.analysis.plan or found.valid_part
            assert present is not None
            draft = draft_of(present, latest.followed.plan, [each.id for each in found.operators])
        return {**self._document.contents(), "running": latest is not None and not latest.ended, "draft": draft}


def _in_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="synergy editor", daemon=True).start()
