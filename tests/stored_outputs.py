"""Outputs that notebooks are stored with: still pictures, tables and texts, and nothing of where they were made.

A reader on a page of a repository sees them without a kernel. A live view is its last picture; pictures are images of
their own, as such pages take markup apart. ``python -m tests.renewed_notebooks`` makes them anew.
"""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conftest import ROOT

__all__ = ["COMPARED", "LARGEST", "NOT_COMPARED", "WIDGET", "kept", "numbered", "traces_of_here", "with_readers"]

#: Tags of nbval: outputs that are the same in each run are compared, those of pictures and measurements are not.
COMPARED: Final = "nbval-check-output"
NOT_COMPARED: Final = "nbval-ignore-output"
LARGEST: Final = 500_000  # bytes of a notebook

#: Who reads between the cells of notebooks with queries that run: what has happened before the next cell. It looks,
#: five times a second: each look takes a peer's answer.
READERS: Final = {
    "00_tour": """
from threading import Event as _Event
_newest = lambda: application.latest(1)["window_end"].to_physical().max() or 0
_until = _newest() + 2_000_000  # two more windows
while application.status == "running" and _newest() < _until:
    _Event().wait(0.2)
""",
    "07_replication": """
_newest = lambda: steady.latest(1)["n"].max() or 0
_until = _newest() + 4 * RATE  # rows of two more seconds
while steady.status == "running" and not end.is_set() and _newest() < _until:
    end.wait(0.2)
""",
}
WIDGET: Final = "application/vnd.jupyter.widget-view+json"
_STILL: Final = re.compile(r'<div data-synergy-last="[^"]*"><style>.*?</style>(.*)</div>', re.DOTALL)
_SVG: Final = re.compile(r"<svg\b|</svg>")
_TAGS: Final = re.compile(r"<(div|p|span)>\s*</\1>")
SMALL: Final = 60  # height in pixels up to which a picture is part of a table
#: What is replaced, as it says where or when a notebook was run.
_HERE: Final = (
    (re.compile(r"\b(tcp|tls|ipc|sc)://[^\s'\"<>,)\]}]+"), r"\1://…"),
    (re.compile(r"\b(?:127\.0\.0\.1|localhost|0\.0\.0\.0):\d+"), "localhost:…"),
    (re.compile(r"\bsynergy_[0-9a-f]{6,}\b"), "synergy_…"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w.-]+"), "…"),
)
#: What must not be in an output.
_TRACES: Final = (
    re.compile(rf"(?<![\w.])(?:{re.escape(str(ROOT))}|/(?:home|root|tmp|work|Users|var|opt|usr|mnt)/)[\w./-]+"),
    re.compile(r"\b(?:tcp|tls|ipc)://[\w.]"),
    re.compile(r"\b(?:127\.0\.0\.1|localhost):\d"),
    re.compile(r"\b[0-9a-f]{32,}\b"),
    re.compile(re.escape(socket.gethostname())) if len(socket.gethostname()) > 3 else re.compile(r"(?!)"),
)


def with_readers(cells: list[dict[str, Any]], stem: str) -> list[dict[str, Any]]:
    """Cells of a notebook, with what one does between those with running queries."""
    if stem not in READERS:
        return cells
    sources = ["".join(cell["source"]) if cell["cell_type"] == "code" else "" for cell in cells]
    first = next(at for at, source in enumerate(sources) if "= cluster.submit(" in source)
    last = next(at for at, source in enumerate(sources) if ".close()" in source)
    found = cells[: first + 1]
    for cell in cells[first + 1 : last]:
        if cell["cell_type"] == "code":
            found.append(cell | {"id": f"read-{cell['id']}", "source": READERS[stem], "metadata": {}, "outputs": []})
        found.append(cell)
    return found + cells[last:]


def kept(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is stored of the outputs of a cell."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            text = _elsewhere("".join(output["text"]))
            if found and found[-1].get("name") == output["name"]:
                found[-1]["text"] += text
            elif text:
                found.append({"output_type": "stream", "name": output["name"], "text": text})
        elif output["output_type"] in {"display_data", "execute_result"}:
            found += _pictures(output)
        else:
            raise AssertionError(f"a cell failed: {output.get('ename')}: {output.get('evalue')}")
    return found


def numbered(outputs: Iterable[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Outputs as those of a cell that ran as the one of this number; nbval compares no cell that did not run."""
    return [each | ({"execution_count": number} if "execution_count" in each else {}) for each in outputs]


def _pictures(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An output as one with what is no picture, and one for each picture."""
    data = {kind: content for kind, content in output["data"].items() if kind != WIDGET}
    html = _joined(data.get("text/html", ""))
    still = _STILL.search(html)
    html = still[1] if still else html
    pictures = [each for each in _svgs(html) if _height(each) > SMALL]
    for each in pictures:
        html = html.replace(each, "")
    while pictures and (emptied := _TAGS.sub("", html)) != html:
        html = emptied  # without what held a picture; what has none stays as it is, to be compared
    html = html.strip()
    shown: list[dict[str, Any]] = []
    if pictures:
        text = _joined(data.get("text/plain", ""))
        shown += [_display({"image/svg+xml": _elsewhere(each), "text/plain": ""}) for each in pictures]
        shown[0]["data"]["text/plain"] = _elsewhere(text)
        return [*shown, _display({"text/html": _elsewhere(html), "text/plain": ""})] if html else shown
    if html:
        data["text/html"] = html
    if not any(_joined(content).strip() for content in data.values()):
        return []
    told = {kind: _elsewhere(_joined(each)) if kind.startswith("text/") else each for kind, each in data.items()}
    return [{**_display(told), **({} if output["output_type"] == "display_data" else _RESULT)}]


_RESULT: Final = {"output_type": "execute_result", "execution_count": None}


def _display(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _svgs(html: str) -> list[str]:
    """The outermost pictures in a text."""
    found: list[str] = []
    begins: list[int] = []
    for mark in _SVG.finditer(html):
        if mark[0] == "<svg":
            begins.append(mark.start())
        elif begins:
            begin = begins.pop()
            found += [] if begins else [html[begin : mark.end()]]
    return found


def _height(svg: str) -> float:
    stated = re.match(r'<svg[^>]*?\bheight="([\d.]+)', svg)
    return float(stated[1]) if stated else 1000.0


def _elsewhere(text: str) -> str:
    """A text without what says where or when it was made."""
    for here in (str(ROOT), str(Path.home())):
        text = text.replace(f"{here}/", "") if len(here) > 1 else text
    for pattern, instead in _HERE:
        text = pattern.sub(instead, text)
    return text


def traces_of_here(notebook: Mapping[str, Any]) -> list[str]:
    """What the outputs of a notebook tell of the machine on which it ran."""
    found: list[str] = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            texts = [output.get("text", ""), *output.get("data", {}).values()]
            kinds = ["text/plain", *output.get("data", {})]
            for kind, content in zip(kinds, texts, strict=True):
                if kind.startswith("image/") and kind != "image/svg+xml":
                    continue
                text = _joined(content) if isinstance(content, str | list) else str(content)
                found += [match[0] for pattern in _TRACES for match in pattern.finditer(text)]
    return found
