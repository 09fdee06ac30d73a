"""The document of an editor: the text of a plan with its history, its analysis and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from synergy_nb.drawing import graphs
from synergy_nb.drawing.graph_png import NO_MATPLOTLIB, png
from synergy_nb.editing._analysis import analyse, shown_value
from synergy_nb.editing._applying import Applied, apply, copy_operators
from synergy_nb.editing._history import History, merge_texts
from synergy_nb.editing.operations import EditError, Operation
from synergy_nb.editing.plan_text import EMPTY
from synergy_nb.plan import Plan, PlanError, Problem
from synergy_nb.plan.builder import with_rows
from synergy_nb.plan.terms.units import WrongValue, nearest

if TYPE_CHECKING:
    import polars as pl

    from synergy_nb.editing.sampling import SampledRows

__all__ = ["PlanDocument", "RowsReader", "gesture_of", "problem_row"]

#: Function that reads the rows of a source of a plan: plan, id of the source, and what ``source(rows)`` was given.
RowsReader = Callable[[Plan, str, Any], "pl.DataFrame"]

#: Suffix of a file to the form that is written to it.
_SUFFIXES: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".svg": "svg", ".png": "png"}
_LONGEST_LABEL: Final = 100  # largest number of characters of the name of a gesture


class PlanDocument:
    """A plan that is edited as text; each change is a gesture, which can be undone."""

    def __init__(
        self,
        text: str = EMPTY,  # YAML text of the plan, valid or not
        *,
        file: Path | None = None,  # path to which `save` writes by default
        is_new: bool = False,  # whether this file does not exist yet, so that even the first text is not saved
        rows: Mapping[str, Any] | None = None,  # name of a source to its rows, as they were given to `source(rows)`
        # function that reads such rows for samples; None: streams of these sources have no samples
        reader: RowsReader | None = None,
    ) -> None:
        self.history = History(text)
        self.analysis = analyse(text)  # analysis of the present text
        # analysis of the last text that was YAML: views show its operators while the present text is not
        self.last_readable = self.analysis
        self.file = file
        self._saved: str | None = None if is_new else text
        self._rows = dict(rows or {})
        self._reader = reader

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The present text."""
        return self.history.text

    @property
    def plan(self) -> Plan:
        """The plan, with the rows of its sources.

        Raises ``PlanError`` if the text is no valid plan; it holds all problems.
        """
        if self.analysis.plan is None:
            raise PlanError(self.analysis.problems)
        return with_rows(self.analysis.plan, self._rows)

    @property
    def saved(self) -> bool:
        """Whether the text is that of the file; before the first save, that with which the editor was opened."""
        return self.text == self._saved

    def mark_saved(self) -> None:
        """Note that the file has the present text."""
        self._saved = self.text

    def copy(self, operators: Sequence[str]) -> str:
        """Text of some operators, to be pasted into another plan."""
        return copy_operators(self.text, operators)

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, text: str, gesture: str, *, continues: bool = False) -> None:
        """Replace the text, as one gesture; arguments as of :meth:`History.change`."""
        if self.history.change(text, gesture[:_LONGEST_LABEL], continues=continues):
            self._analyse()

    def replace(self, plan: Plan) -> None:
        """Replace the text by that of another plan, as one gesture; the rows of its sources are kept for samples."""
        self._rows.update({plan.operators[name].params["name"]: rows for name, rows in plan.rows.items()})
        self.change(plan.to_yaml(), "replace the plan")

    def apply(self, operations: Sequence[Operation], gesture: str = "", *, continues: bool = False) -> Applied:
        """Apply the operations that can be applied, as one gesture; the result has the problems of the others."""
        done = apply(self.text, operations)
        self.change(done.text, gesture or gesture_of(operations), continues=continues)
        return done

    def apply_all(self, operations: Sequence[Operation], gesture: str = "") -> None:
        """Apply all operations as one gesture or, if one cannot be applied, none.

        Raises ``EditError`` if one cannot be applied; it holds all problems.
        """
        done = apply(self.text, operations)
        if done.problems:
            raise EditError(done.problems)
        self.change(done.text, gesture or gesture_of(operations))

    def undo(self) -> str:
        """Undo the latest gesture, and return its name; empty if there is none."""
        gesture = self.history.undo()
        self._analyse()
        return gesture

    def redo(self) -> str:
        """Redo the gesture that was undone last, and return its name; empty if there is none."""
        gesture = self.history.redo()
        self._analyse()
        return gesture

    def _analyse(self) -> None:
        self.analysis = analyse(self.text)
        if self.analysis.readable:
            self.last_readable = self.analysis

    # -- files, pictures, samples ----------------------------------------------------------------------------------

    def save(self, path: str | Path | None = None) -> Path:
        """Write the plan to a file, and return its path; see :meth:`synergy_nb.widgets.plan_editor.PlanEditor.save`."""
        wanted = self.file if path is None else Path(path)
        if wanted is None:
            raise EditError([Problem("", "path", None, "a file to save to, such as 'plan.yaml'")])
        form = _SUFFIXES.get(wanted.suffix.lower())
        if form is None:
            expected = f"a file that ends with {', '.join(_SUFFIXES)}"
            raise EditError([Problem("", "path", str(wanted), expected, nearest(wanted.suffix, _SUFFIXES))])
        if form == "png":
            try:
                wanted.write_bytes(self.to_png())
            except ModuleNotFoundError:
                raise EditError(
                    [Problem("", "path", str(wanted), f"a file that ends with .svg, or {NO_MATPLOTLIB}")]
                ) from None
            return wanted
        if path is None:
            self._take_changes_of_others(wanted)
        text = self.text if form == "yaml" else self.plan.to_python() if form == "python" else self.to_svg()
        wanted.write_text(text, "utf-8", newline="")
        if form == "yaml":
            self.file = self.file or wanted
            if wanted == self.file:
                self.mark_saved()
        return wanted

    def _take_changes_of_others(self, file: Path) -> None:
        """Merge the text with what another program has written to the file since it was read or saved.

        Raises ``EditError`` if both have changed the same place.
        """
        if self._saved is None or not file.exists():
            return
        present = file.read_bytes().decode("utf-8", "replace")
        if present == self._saved:
            return
        try:
            merged = merge_texts(self._saved, self.text, present)
        except WrongValue:
            expected = (
                f"a file that nobody else has changed in the same place; {str(file)!r} as the path of save() "
                "overwrites it, edit(..., anew=True) discards what was edited here"
            )
            raise EditError([Problem("", "path", str(file), expected)]) from None
        self.change(merged, "take the changes of the file")

    def to_svg(self) -> str:
        """The present plan as a self-contained SVG, also while it has problems."""
        if self.analysis.plan is not None:
            return self.analysis.plan.to_svg()
        nodes, edges, title = self._draft()
        return graphs.svg(nodes, edges, title=title)

    def to_png(self) -> bytes:
        """The present plan as PNG, also while it has problems.

        Raises ``ModuleNotFoundError`` if matplotlib is not installed.
        """
        if self.analysis.plan is not None:
            return self.analysis.plan.to_png()
        nodes, edges, title = self._draft()
        return png(nodes, edges, title=title)

    def _draft(self) -> tuple[list[graphs.Node], list[tuple[str, str]], str]:
        """Nodes, edges and title of the picture of a plan that has problems; without edges if they form a circle."""
        found = self.last_readable
        known = {operator.id for operator in found.operators}
        wrong = {problem.operator for problem in found.problems}
        nodes = [
            graphs.Node(each.id, f"{each.id} ({each.kind})", state="failed" if each.id in wrong else "")
            for each in found.operators
        ]
        edges = sorted({(up, each.id) for each in found.operators for up in each.inputs if up in known})
        try:
            graphs.arranged(nodes, edges)
        except ValueError:  # a cycle
            edges = []
        return nodes, edges, f"draft of query plan {found.name}"

    def sample(self, operator: str, rows: int, clock: Callable[[], float]) -> SampledRows:
        """Compute the first rows of a stream; see :func:`synergy_nb.editing.sampling.compute_sample`."""
        from synergy_nb.editing.sampling import SampleError, compute_sample  # noqa: PLC0415 - only samples need Polars

        known = self.last_readable.valid_part
        if known is None:
            raise SampleError(f"sample: {operator!r}; expected an operator of a text that can be read")
        given: dict[str, Callable[[], pl.DataFrame]] = {}
        for each in known.operators.values():
            fed = each.params.get("connector") == "python" and each.params["name"] in self._rows
            if fed and self._reader is not None:
                given[each.id] = partial(self._reader, known, each.id, self._rows[each.params["name"]])
        return compute_sample(known, operator, clock=clock, rows=rows, given=given)

    # -- pages -----------------------------------------------------------------------------------------------------

    def contents(self) -> dict[str, Any]:
        """The document as plain values, for views in a browser."""
        now, last = self.analysis, self.last_readable
        operators = [each._asdict() for each in last.operators]
        for each in operators:
            each["endLine"] = each.pop("end_line")
        return {
            "version": self.history.version,
            "yaml": self.text,
            "readable": now.readable,
            "name": last.name,
            "qos": last.qos,
            "operators": operators,
            "problems": [problem_row(problem, line) for problem, line in zip(now.problems, now.lines, strict=True)],
            "columns": last.columns,
            "rates": {each.id: last.rates.get(each.id) for each in last.operators},
            "loads": {each.id: last.loads.get(each.id) for each in last.operators},
            "python": now.plan.to_python() if now.plan is not None else "",
            "undo": self.history.undoable,
            "redo": self.history.redoable,
            "file": str(self.file or ""),
            "saved": self.saved,
            "isNew": self.file is not None and self._saved is None,
        }


def problem_row(problem: Problem, line: int | None) -> dict[str, Any]:
    """A problem as plain values, for views in a browser.

    ``problem``: problem of a plan or of an operation; ``line``: line of the problem in the text, from 1; None if it has
    none.
    """
    return {
        "operator": problem.operator,
        "field": problem.field,
        "value": shown_value(problem.value),
        "expected": problem.expected,
        "nearest": problem.nearest,
        "message": str(problem),
        "line": line,
    }


def gesture_of(operations: Sequence[Operation]) -> str:
    """Name of a gesture for people, such as ``add filter``: the first of its operations, and what that names."""
    if not operations:
        return "nothing"
    first = operations[0]
    what = [getattr(first, name, None) for name in ("operator", "kind", "start", "field")]
    return f"{type(first).__name__.lower()} {next((each for each in what if each), '')}".strip()
