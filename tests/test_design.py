"""What the pages of the design name exists, and their entries have one form."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.design_pages import DESIGN, PAGES, named_modules

GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Where a path that a page names may begin
BEGINNINGS = ("", "synergy_nb", "synergy_nb/widgets", "synergy_nb/widgets/js/src", "synergy_experiments", "tests")
LABELS = ("Decided", "Because", "Refused", "Open", "Held by")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _prose(page: Path) -> str:
    """The text without blocks of code, which show other things than names of this house."""
    return re.sub(r"^(```.*?^```|    .*?)$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def _codes(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"\n\s*", " ", _prose(page)))


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of a page's text that lead nowhere."""
    broken = []
    prose = re.sub(r"```.*?```|^    [^\n]*|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / path).resolve() if path else page
        headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE) if anchor and file.is_file() else []
        if not file.exists() or (anchor and anchor not in map(_anchor, headings)):
            broken.append(target)
    return broken


def is_there(path: str) -> bool:
    """Whether a path of the house exists; it may lack ``.py``, and end with a name in the module."""
    for beginning in BEGINNINGS:
        place = ROOT / beginning / path
        module = place.with_name(place.name.partition(".")[0] + ".py")
        if place.exists() or module.exists():
            return True
    return False


@cache
def _words() -> frozenset[str]:
    """All words of the sources."""
    folders = ("synergy_nb", "synergy_experiments", "spark_stream", "tests")
    words: set[str] = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".js", ".toml"} and "static" not in path.parts:
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
    return frozenset(words)


def is_known(name: str) -> bool:
    """Whether each word of a name such as ``Ledger.server`` or ``Plan.sized`` is one of the sources."""
    return all(word in _words() for word in re.findall(r"[A-Za-z_]\w*", name))


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page, page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_what_a_page_names_exists(page: Path) -> None:
    paths = [code for code in _codes(page) if re.fullmatch(r"[a-z_.]+(/[\w.]+)+/?", code)]
    assert not [path for path in paths if not is_there(path)], "no such file"
    tests = {code for code in _codes(page) if re.fullmatch(r"test_\w+", code)}
    files = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert not tests - files, "no such tests"
    named = re.compile(r"([A-Z]\w*(\.\w+)*|[a-z]\w*(\.\w+)+)(\(.*\))?")
    names = [code for code in _codes(page) if named.fullmatch(code)]
    names = [name for name in names if not re.search(r"\.(md|py|js|toml|yaml)$", name)]
    assert not [name for name in names if not is_known(name)], "no such names in the sources"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_lines_are_at_most_120_columns_long(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), start=1)
    assert not [number for number, line in lines if len(line) > 120]


@pytest.mark.parametrize("page", DESIGN, ids=_name)
def test_entries_say_what_was_decided_and_why(page: Path) -> None:
    for entry in re.split(r"^###? ", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        labels = re.findall(r"^- \*\*(.+?):\*\*", entry, re.MULTILINE)
        title = entry.partition("\n")[0]
        assert labels == [label for label in LABELS if label in labels], f"{title}: {labels}"
        assert not labels or labels[0] == "Decided", title


def test_each_room_has_one_page_and_each_page_is_linked() -> None:
    text = (ROOT / "DESIGN.md").read_text("utf-8")
    assert not [page.name for page in DESIGN if f"docs/design/{page.name}" not in text]


def test_no_page_names_a_module_that_is_gone() -> None:
    gone = [
        f"{package}.{name}"
        for package, names in sorted(named_modules().items())
        for name in sorted(names)
        if not (ROOT / package.replace(".", "/") / f"{name}.py").exists()
    ]
    assert not gone, "modules that a page of docs/design names, and that do not exist"


def test_what_is_wrong_is_found() -> None:
    page = ROOT / "DESIGN.md"
    assert broken_links(page, "[a](docs/design/nowhere.md) [b](#nothing) [c](docs/plans.md)") == [
        "docs/design/nowhere.md",
        "#nothing",
    ]
    assert is_there("overlay/ring.py")
    assert is_there("control/ledger.Ledger")
    assert not is_there("plan/nothing")
    assert is_known("Ledger.server")
    assert not is_known("Ledger." + "serv" + "ant")
