"""What the pages of the design name: modules of rooms, files, tests and names of code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["DESIGN", "PAGES", "named_modules"]

ROOT = Path(__file__).resolve().parent.parent
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
PAGES = [ROOT / "DESIGN.md", *DESIGN]

# A line of a page's list of modules: "- `plan/operators/`: ... `rows`, ...", to the next line or an empty one. In it
# only modules are set as code, but for paths and options, which are no single word.
_ROOM = re.compile(r"^- `([a-z_/]+)/`: (.*?)(?=\n-|\n\n|\n\||\Z)", re.MULTILINE | re.DOTALL)


@cache
def named_modules() -> dict[str, set[str]]:
    """The modules that the pages name, by the dotted name of their package."""
    named: dict[str, set[str]] = {}
    for page in DESIGN:
        for place, text in _ROOM.findall(page.read_text("utf-8")):
            inside = (ROOT / "synergy_nb" / place).is_dir()
            package = f"synergy_nb/{place}" if inside else place
            named.setdefault(package.replace("/", "."), set()).update(re.findall(r"`([a-z_]\w*)`", text))
    return named
