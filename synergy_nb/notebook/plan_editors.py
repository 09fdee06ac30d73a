"""``edit()``: opens editors of plans, and keeps them, so that a cell that runs again shows the edited plan.

The key of an editor is what it was opened with: the path of a file, a name, or a plan and its cell of a notebook. Who
opens the same again gets the same editor, with its edits and its history; ``anew=True`` makes a new one, from the file
or the plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from synergy_nb.drawing.notebook_views import running_shell
from synergy_nb.editing.data_files import allowed_folders
from synergy_nb.editing.document import PlanDocument
from synergy_nb.editing.operations import EditError
from synergy_nb.editing.plan_text import EMPTY, PlanText
from synergy_nb.errors import user_facing
from synergy_nb.notebook._plan_runs import runs_on
from synergy_nb.plan import Plan, Problem
from synergy_nb.plan.terms.naming import NAME, is_name
from synergy_nb.plan.terms.units import nearest, type_of
from synergy_nb.widgets.plan_editor import PlanEditor

if TYPE_CHECKING:
    import polars as pl

    from synergy_nb.runtime.client.cluster import Cluster
    from synergy_nb.simulator.simulation import Simulation

__all__ = ["edit"]

_SUFFIXES: Final = (".yaml", ".yml")
_MOST_FOLDERS: Final = 100  # maximum number of folders in which a file that may be meant is searched
open_editors: Final[dict[tuple[str, str], PlanEditor]] = {}  # editors of this process, by their keys
_first_texts: Final[dict[tuple[str, str], str]] = {}  # text of each editor when it was opened or read from its file


@user_facing
def edit(
    what: Plan | str | Path | None = None,
    *,
    cluster: Cluster | Simulation | None = None,
    create: bool = False,
    anew: bool = False,
    folders: Sequence[str | Path] | None = None,
) -> PlanEditor:
    """Edit a plan on a canvas, in forms, and as text.

    Parameters
    ----------
    what
        Plan to edit; path of a YAML file; or a name, under which a new plan is kept while this program runs. None: a
        new plan of this cell.
    cluster
        Cluster or simulation on which the editor can check what the plan would cost, submit it and show how it runs.
    create
        Whether the file may be a new one; it is written when the plan is saved.
    folders
        Folders that the file picker lists, with those below, such as ``["data"]``. None: any that the kernel can read.
        This protects nothing: the text of a plan may name any file.
    anew
        Whether to start again from the plan or the file, and discard all edits.

    Returns
    -------
    PlanEditor
        Editor of the plan; as the last value of a notebook's cell it is displayed. ``plan``, ``yaml`` and ``python``
        are the present plan; ``undo()``, ``redo()``, ``apply(...)`` edit it; ``save(path)`` writes it.

    Raises
    ------
    EditError
        If ``what`` is neither a plan, nor a path, nor a name, there is no such file or folder, or ``cluster`` is
        something else.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> editor = edit("traffic")
    >>> editor.apply({"op": "add", "kind": "source", "operator": "packets", "fields": {"connector": "packets"}})
    >>> edit("traffic") is editor, edit("traffic", anew=True).yaml
    (True, 'format: 1\\nname: traffic\\noperators:\\n')
    """
    allowed = () if folders is None else allowed_folders(folders)
    for field, value in (("create", create), ("anew", anew)):
        if not isinstance(value, bool):
            raise EditError([Problem("", field, value, "True or False")])
    key, text, file = _start(what, create)
    known = open_editors.get(key)
    if known is not None and not known.closed and not anew:
        if text is not None and file is not None and _first_texts.get(key) != text and known.saved:
            known.reload(text)  # another program changed the file, and nothing is unsaved
            _first_texts[key] = text
        if cluster is not None:
            known.use(runs_on(cluster))
        if folders is not None:
            known.folders = allowed
        return known
    if known is not None:
        known.close()
    rows = (
        {what.operators[name].params["name"]: rows for name, rows in what.rows.items()}
        if isinstance(what, Plan)
        else {}
    )
    first = text if text is not None else _named(str(file and file.stem))
    document = PlanDocument(first, file=file, is_new=text is None, rows=rows, reader=_first_rows)
    opened = "" if anew else hashlib.sha256(repr(key).encode()).hexdigest()
    editor = PlanEditor(document, runs=None if cluster is None else runs_on(cluster), opened=opened)
    editor.folders = allowed
    open_editors[key] = editor
    _first_texts[key] = first
    return editor


def _start(what: object, create: bool) -> tuple[tuple[str, str], str | None, Path | None]:
    """Key of an editor, its first text, and its file; the text is None if the file does not exist, which may be."""
    if isinstance(what, Plan):
        return (f"plan {_cell()}", what.to_bytes().hex()), what.to_yaml(), None
    if what is None:
        cell = _cell()
        return ("cell", cell or f"new {len(open_editors)}"), EMPTY, None
    if isinstance(what, Path) or (isinstance(what, str) and (what.endswith(_SUFFIXES) or re.search(r"[/\\]", what))):
        file = Path(what)
        if file.suffix.lower() not in _SUFFIXES:
            raise EditError([Problem("", "path", str(what), f"a file that ends with {' or '.join(_SUFFIXES)}")])
        key = ("file", str(file.resolve()))
        if not file.exists():
            kept = open_editors.get(key)
            if not create and (kept is None or kept.closed):
                raise EditError([_missing(file, str(what))])
            if not file.parent.is_dir():
                raise EditError([Problem("", "path", str(what), "a file in a folder that exists")])
            return key, None, file
        try:
            text = file.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise EditError([Problem("", "path", str(what), f"a YAML file in UTF-8 ({error.reason})")]) from None
        return key, text, file
    if isinstance(what, str) and is_name(what):
        return ("name", what), _named(what), None
    shown = what if isinstance(what, str) else type(what).__name__
    raise EditError([Problem("", "edit", shown, f"a plan, the path of a YAML file, {NAME}, or nothing")])


def _missing(file: Path, stated: str) -> Problem:
    """Problem of a path at which there is no file; it names the most similar one, or the files in that folder."""
    folder = file.parent
    inner = (each for each in folder.glob("[!.]*") if each.is_dir()) if folder.is_dir() else ()
    places = [folder, *islice(inner, _MOST_FOLDERS)]
    found = [each for place in places for ending in _SUFFIXES for each in sorted(place.glob(f"[!.]*{ending}"))]
    names = {each.stem: str(each) for each in reversed(found)}
    near = nearest(file.stem, names)
    expected = "a file that exists; to begin a new one, edit(path, create=True)"
    return Problem("", "path", stated, expected, None if near is None else names[near])


def _named(name: str) -> str:
    """Text of a new plan with a name."""
    return PlanText(EMPTY).set_top("name", name).text


def _first_rows(plan: Plan, operator: str, rows: Any) -> pl.DataFrame:
    """Read the first rows of a table that was given to ``source(rows)``, for a sample; a generator is not read."""
    from synergy_nb.editing.sampling import LARGEST_SAMPLE, SampleError  # noqa: PLC0415 - only samples need Polars
    from synergy_nb.plan.data_frames import is_frame, single_use  # noqa: PLC0415 - likewise
    from synergy_nb.traces.rows import row_reader  # noqa: PLC0415 - likewise

    if single_use(rows) or not (is_frame(rows) or isinstance(rows, list)):
        expected = "a table; rows of a generator or a feed are read when the plan is submitted"
        raise SampleError(f"operator {operator!r}, rows: {type_of(rows)}; expected {expected}")
    if isinstance(rows, list):
        rows = rows[:LARGEST_SAMPLE]
    elif hasattr(rows, "head"):
        rows = rows.head(LARGEST_SAMPLE)
    return row_reader(plan, operator).table(rows)


def _cell() -> str:
    """Id of the notebook's cell that runs; empty where there is none."""
    kernel = getattr(running_shell(), "kernel", None)
    if kernel is None:
        return ""
    parent = kernel.get_parent() or {}
    return str(parent.get("metadata", {}).get("cellId") or "")
