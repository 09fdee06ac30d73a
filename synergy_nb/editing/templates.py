"""Templates of an editor, which are plans to start from: that of the quickstart, and those of ``notebooks/plans``."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from synergy_nb.plan.text.plan_file import read

__all__ = ["Template", "templates"]

_FIRST_TEMPLATE: Final = "top_pairs"


class Template(NamedTuple):
    """A plan to start from."""

    name: str  # name of the file of the plan, without its suffix
    label: str  # short name for people, which no other template has
    title: str  # title of the plan for people
    text: str  # YAML text of the plan


@cache
def templates() -> tuple[Template, ...]:
    """All templates: those that the wheel holds or, in a checkout, the files that it is built from."""
    packaged = list((Path(str(resources.files("synergy_nb.editing"))) / "templates").glob("*.yaml"))
    notebooks = Path(__file__).resolve().parents[2] / "notebooks"
    files = packaged or [notebooks / "top_pairs.yaml", *(notebooks / "plans").glob("*.yaml")]
    files.sort(key=lambda file: (file.stem != _FIRST_TEMPLATE, file.stem))
    found = []
    for file in files:
        if file.is_file():
            text = file.read_text("utf-8")
            found.append(Template(file.stem, _label(file.stem), _title(text), text))
    return tuple(found)


def _label(name: str) -> str:
    """Short name of a template: the number of its query in the Stream Query Repository, and what it asks for.

    >>> _label("top_pairs"), _label("6_flows")
    ('quickstart: top pairs', 'query 6: flows')
    """
    number, _, words = name.partition("_")
    beginning, words = (f"query {number}", words) if number.isdigit() else ("quickstart", name)
    return f"{beginning}: {words.replace('_', ' ')}"


def _title(text: str) -> str:
    """Title of a plan: the first sentence of the comment at the top of its text, or its name."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#") or line == "#":
            break
        lines.append(line.removeprefix("#").strip())
    sentence = " ".join(lines).partition(". ")[0].partition(", every")[0]
    return sentence.removesuffix(".") or read(text).name
