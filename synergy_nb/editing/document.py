"""The document of an editor: the text of a plan with its history, what is known of it, and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from synergy_nb.drawing import graphs
from synergy_nb.editing.analysis import analyse, shown_value
from synergy_nb.editing.applying import Applied, apply, copied
from synergy_nb.editing.history import History
from synergy_nb.editing.operations import EditError, Operation
from synergy_nb.editing.plan_text import EMPTY
from synergy_nb.plan import Plan, PlanError, Problem
from synergy_nb.plan.builder import with_rows
from synergy_nb.plan.units import nearest

if TYPE_CHECKING:
    import polars as pl

    from synergy_nb.editing.sampling import Sample

__all__ = ["PlanDocument", "RowsReader", "gesture_of", "problem_row"]

#: Function that reads the rows of a source: plan, id of the source, rows as ``source(rows)`` takes them.
RowsReader = Callable[[Plan, str, Any], "pl.DataFrame"]

_SUFFIXES: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".svg": "svg"}
_LONGEST_LABEL: Final = 100  # characters of a gesture's name


class PlanDocument:
    """The text of a plan that is edited.

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

    Attributes
    ----------
    analysis : Analysis
        Facts about the present text.
    readable : Analysis
        Facts about the last text that could be read.
    """

    def __init__(
        self,
        text: str = EMPTY,
        *,
        file: Path | None = None,
        rows: Mapping[str, Any] | None = None,
        reader: RowsReader | None = None,
    ) -> None:
        self.history = History(text)
        self.analysis = analyse(text)
        self.readable = self.analysis
        self.file = file
        self._saved = text
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

        Raises
        ------
        PlanError
            If the text is no valid plan; it holds all problems.
        """
        if self.analysis.plan is None:
            raise PlanError(self.analysis.problems)
        return with_rows(self.analysis.plan, self._rows)

    @property
    def saved(self) -> bool:
        """Whether the text is that of the file, or the one that the editor was opened with."""
        return self.text == self._saved

    def mark_saved(self) -> None:
        """State that the present text is that of the file."""
        self._saved = self.text

    def copy(self, operators: Sequence[str]) -> str:
        """Text of some operators, to be pasted into another plan."""
        return copied(self.text, operators)

    # -- changing ------------------------------------------------------------------------------------------------

    def change(self, text: str, gesture: str, *, continues: bool = False) -> None:
        """Make a new text the present one; arguments as of :meth:`History.change`."""
        if self.history.change(text, gesture[:_LONGEST_LABEL], continues=continues):
            self._analyse()

    def replace(self, plan: Plan) -> None:
        """Replace the text by that of another plan, as one gesture."""
        self._rows.update({plan.operators[name].params["name"]: rows for name, rows in plan.rows.items()})
        self.change(plan.to_yaml(), "replace the plan")

    def apply(self, operations: Sequence[Operation], gesture: str = "", *, continues: bool = False) -> Applied:
        """Apply the operations that can be applied, as one gesture; the others are the problems of the result."""
        done = apply(self.text, operations)
        self.change(done.text, gesture or gesture_of(operations), continues=continues)
        return done

    def apply_all(self, operations: Sequence[Operation], gesture: str = "") -> None:
        """Apply all operations as one gesture or, if one cannot be applied, none.

        Raises
        ------
        EditError
            If one cannot be applied; it holds all problems.
        """
        done = apply(self.text, operations)
        if done.problems:
            raise EditError(done.problems)
        self.change(done.text, gesture or gesture_of(operations))

    def undo(self) -> str:
        """Take the latest gesture back; return its name, empty if there is none."""
        gesture = self.history.undo()
        self._analyse()
        return gesture

    def redo(self) -> str:
        """Make the gesture again that was taken back last; return its name, empty if there is none."""
        gesture = self.history.redo()
        self._analyse()
        return gesture

    def _analyse(self) -> None:
        self.analysis = analyse(self.text)
        if self.analysis.readable:
            self.readable = self.analysis

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
        text = self.text if form == "yaml" else self.plan.to_python() if form == "python" else self.to_svg()
        wanted.write_text(text, "utf-8", newline="")
        if form == "yaml":
            self.file = self.file or wanted
            self.mark_saved()
        return wanted

    def to_svg(self) -> str:
        """The present plan as a self-contained SVG, also while it has problems."""
        if self.analysis.plan is not None:
            return self.analysis.plan.to_svg()
        found = self.readable
        known = {operator.id for operator in found.operators}
        wrong = {problem.operator for problem in found.problems}
        nodes = [
            graphs.Node(each.id, f"{each.id} ({each.kind})", state="failed" if each.id in wrong else "")
            for each in found.operators
        ]
        edges = sorted({(up, each.id) for each in found.operators for up in each.inputs if up in known})
        title = f"draft of query plan {found.name}"
        try:
            return graphs.svg(nodes, edges, title=title)
        except ValueError:  # a cycle
            return graphs.svg(nodes, [], title=title)

    def sample(self, operator: str, rows: int, clock: Callable[[], float]) -> Sample:
        """Compute the first rows of a stream; see :func:`synergy_nb.editing.sampling.sampled`."""
        from synergy_nb.editing.sampling import SampleError, sampled  # noqa: PLC0415 - only samples need Polars

        known = self.readable.known
        if known is None:
            raise SampleError(f"sample: {operator!r}; expected an operator of a text that can be read")
        given: dict[str, Callable[[], pl.DataFrame]] = {}
        for each in known.operators.values():
            fed = each.params.get("connector") == "python" and each.params["name"] in self._rows
            if fed and self._reader is not None:
                given[each.id] = partial(self._reader, known, each.id, self._rows[each.params["name"]])
        return sampled(known, operator, clock=clock, rows=rows, given=given)

    # -- pages -----------------------------------------------------------------------------------------------------

    def contents(self) -> dict[str, Any]:
        """The document as plain values for pages."""
        now, last = self.analysis, self.readable
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
        }


def problem_row(problem: Problem, line: int | None) -> dict[str, Any]:
    """A problem as plain values for pages, with its line in the text."""
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
    """Name of a gesture for people, by its first operation."""
    if not operations:
        return "nothing"
    first = operations[0]
    what = [getattr(first, name, None) for name in ("operator", "kind", "start", "field")]
    return f"{type(first).__name__.lower()} {next((each for each in what if each), '')}".strip()
