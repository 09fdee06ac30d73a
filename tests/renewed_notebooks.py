"""Makes the outputs of notebooks anew: ``python -m tests.renewed_notebooks [NAME...]``, as ``make notebooks`` does.

Each notebook runs in a kernel of its own, with what one does between the cells of running queries. A cell that is
compared by nbval runs once more, in a second kernel, and has to give the same. A new cell is not compared until it gets
the tag: who writes it knows whether its output is the same each time. A notebook that fails stays as it is, and the
others are renewed; what failed is said at the end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tests.conftest import ROOT
from tests.stored_outputs import COMPARED, LARGEST, NOT_COMPARED, kept, numbered, traces_of_here, with_readers

FOLDER: Final = ROOT / "notebooks"
CELL: Final = 300  # seconds that a cell, and the start of a kernel, may take


class NotRenewedError(Exception):
    """The outputs of a notebook are not as they are stored."""


def executed(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Outputs of each code cell of a notebook, by the cell's id, after a run."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["cells"] = with_readers(notebook["cells"], path.stem)
    whole = nbformat.reads(json.dumps(notebook), as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(whole, timeout=CELL, startup_timeout=CELL, resources=where, store_widget_state=False).execute()
    return {cell["id"]: kept(cell["outputs"]) for cell in whole["cells"] if cell["cell_type"] == "code"}


def renew(path: Path) -> str:
    """Store the outputs of a notebook; return a line about it."""
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = executed(path)
    compared = [cell["id"] for cell in code if COMPARED in cell["metadata"].get("tags", ())]
    if compared:
        again = executed(path)
        differing = [name for name in compared if again[name] != outputs[name]]
        if differing:
            raise NotRenewedError(f"{', '.join(differing)}: two runs differ; expected no tag {COMPARED} there")
    for number, cell in enumerate(code, start=1):
        cell["outputs"], cell["execution_count"] = numbered(outputs[cell["id"]], number), number
        tags = [tag for tag in cell["metadata"].get("tags", ()) if tag != NOT_COMPARED]
        if cell["outputs"] and COMPARED not in tags:
            tags.append(NOT_COMPARED)
        cell["metadata"] = {**cell["metadata"], "tags": tags} if tags else {}
    if traces := traces_of_here(notebook):
        raise NotRenewedError(f"outputs tell where it ran: {', '.join(sorted(set(traces))[:5])}")
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    if (size := len(text.encode())) > LARGEST:
        raise NotRenewedError(f"{size} bytes; expected at most {LARGEST}")
    path.write_text(text, "utf-8")
    return f"{len(code)} cells, {len(compared)} compared, {size / 1000:.0f} kB"


def main(names: list[str]) -> None:
    """Renew those that are named, or all."""
    paths = [path for path in sorted(FOLDER.glob("*.ipynb")) if not names or path.stem in names]
    failed = []
    for path in paths:
        began = time.monotonic()
        try:
            told = renew(path)
        except (NotRenewedError, AssertionError, CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            told = str(error)
            failed.append(path.stem)
        sys.stdout.write(f"{path.name}: {told}; {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
    if failed:
        sys.exit(f"not renewed: {' '.join(failed)}")


if __name__ == "__main__":
    main([Path(name).stem for name in sys.argv[1:]])
