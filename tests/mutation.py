"""Break one line at a time, and see whether the tests of its room find it.

    python -m tests.mutation [--places 300] [--seed 1] [--rooms overlay plan] [--seconds 60] [--slow]

It is no part of the suite, as it takes hours. It works on a copy of the tree in a temporary folder:

1. The tests of each room run once as they are. It is recorded which functions each test calls, and how long it takes.
2. Places are drawn: lines of the rooms in which something can be broken, all with the same probability; and of what can
   be broken in a line one way (:class:`Break`).
3. For each place the line is broken in the copy, and those tests of its room run that call its function, the fastest
   first, until one fails. A line is found if one does, or if they no longer end.

What is printed at the end are the lines that nobody found, each with what replaced it: either a test is missing, or the
line does nothing. Times are those of the processor, so that another program does not change what is found.

Tests of the room only, and for a minute at most: a fault that only a test of whole clusters finds is found late. Each
run is a fork of a process that has imported the libraries, but nothing of this house.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

__all__ = ["Break", "breaks"]

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("algorithms", "lifecycle", "dataflow", "overlay", "plan")
KERNELS: Final = (
    "_kernel.py"  # what numba compiles: tests compare it with the same code in Python, which is broken here
)
LIBRARIES: Final = ("networkx", "numpy", "polars", "statsmodels.tsa.api", "yaml")  # hypothesis is rewritten by pytest
SMALL: Final = 4
OUTPUT: Final = "output.txt"  # in the copy: what the latest tests said
OTHER: Final[dict[type[ast.AST], Any]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Break:
    """One way to break a line.

    Parameters
    ----------
    path
        File, below the root.
    line
        Number of the line, from 1.
    function
        First line of the innermost function that has it, decorators included, as code objects have it; 0 if none.
    before
        Source of the node that is replaced.
    after
        What replaces it.
    span
        Its place in the file: first and last character, as offsets in UTF-8.
    """

    path: str
    line: int
    function: int
    before: str
    after: str
    span: tuple[int, int]


def _replacement(node: ast.AST) -> ast.AST | None:
    """What a node becomes, or None if it stays."""
    found: ast.AST | None = None
    match node:
        case ast.Compare(left=left, ops=[op], comparators=others) if type(op) in OTHER:
            found = ast.Compare(left, [OTHER[type(op)]()], others)
        case ast.BoolOp(op=op, values=values):
            found = ast.BoolOp(OTHER[type(op)](), values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER and not isinstance(left, ast.JoinedStr):
            found = ast.BinOp(left, OTHER[type(op)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = operand
        case ast.Constant(value=bool() as value):
            found = ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            found = ast.Constant(value + 1 if value <= SMALL else 2 * value)  # of a larger one 1 is no difference
        case ast.IfExp(test=test, body=body, orelse=orelse):
            found = ast.IfExp(test, orelse, body)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            found = ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            found = ast.Pass()
        case ast.Break():
            found = ast.Continue()
        case ast.Continue():
            found = ast.Break()
    return found


def _executed(node: ast.AST, function: int = 0) -> Iterator[tuple[ast.AST, int]]:
    """Nodes that are executed, each with the first line of its function: no annotations, decorators or declarations."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        below = [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None), *node.body]
    elif isinstance(node, ast.ClassDef):
        below = [each for each in node.body if not isinstance(each, ast.AnnAssign | ast.Assign)]
    elif isinstance(node, ast.AnnAssign):
        below = [node.value] if node.value is not None else []
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        below = list(node.orelse)
    elif isinstance(
        node, ast.Raise | ast.Assert | ast.JoinedStr
    ):  # whether an error is raised is its condition's matter
        below = []
    else:
        below = list(ast.iter_child_nodes(node))
    for each in below:
        yield each, function
        yield from _executed(each, function)


def breaks(source: str, path: str) -> Iterator[Break]:
    """Return all ways to break a module, line by line."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    text = source.encode()
    for node, function in _executed(ast.parse(source)):
        after = _replacement(node)
        if after is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        shown = ast.unparse(ast.fix_missing_locations(after))
        if isinstance(node, ast.expr):
            shown = f"({shown})"
        yield Break(path, node.lineno, function, text[begin:end].decode(), shown, (begin, end))  # type: ignore[attr-defined]


def drawn(rooms: tuple[str, ...], places: int, seed: int) -> list[Break]:
    """Return breaks of lines drawn at random, one a line, in the order in which they were drawn."""
    lines: dict[tuple[str, int], list[Break]] = {}
    for room in rooms:
        for file in sorted((ROOT / "synergy_nb" / room).rglob("*.py")):
            if not file.name.endswith(KERNELS):
                path = file.relative_to(ROOT).as_posix()
                for each in breaks(file.read_text("utf-8"), path):
                    lines.setdefault((path, each.line), []).append(each)
    chance = random.Random(seed)
    if not lines or places < 1:
        raise SystemExit(
            f"--rooms {' '.join(rooms)}, --places {places}; expected rooms of synergy_nb, and 1 place or more"
        )
    chosen = chance.sample(sorted(lines), min(places, len(lines)))
    return [chance.choice(lines[line]) for line in chosen]


def tests_of(path: str) -> str:
    """Return the folder with the tests of a module: that of its room, or of the room around it."""
    place = Path(path).parent.relative_to("synergy_nb")
    for each in (place, *place.parents):
        if each.name and (ROOT / "tests" / each.name).is_dir():
            return f"tests/{each.name}"
    raise SystemExit(f"{path}: there is no folder of tests for its room")


class _Recorder:
    """A plugin that writes for each test which functions of the house it calls, and how long it takes."""

    def __init__(self, root: Path, target: Path) -> None:
        self._root, self._target = f"{root}/", target
        self._seen: set[CodeType] = set()
        self._failed: set[str] = set()
        self.found: dict[str, tuple[float, list[str]]] = {}

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._seen.clear()
        begin = time.process_time()
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            ours = [code for code in self._seen if code.co_filename.startswith(f"{self._root}synergy_nb/")]
            names = sorted({f"{code.co_filename.removeprefix(self._root)}:{code.co_firstlineno}" for code in ours})
            self.found[item.nodeid] = (time.process_time() - begin, names)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = {name: each for name, each in self.found.items() if name not in self._failed}
        self._target.write_text(json.dumps([passed, sorted(self._failed)]), "utf-8")


class _Chosen:
    """A plugin that runs only the tests named, in their order."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._names if name in found]


def _forked(root: Path, arguments: list[str], plugin: object, seconds: int) -> int:
    """Run tests in a fork; returns pytest's exit code, or -1 where they do not end within the time of a processor."""
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        said = os.open(root / OUTPUT, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for each in (0, 1, 2):
            os.dup2(said, each)
        os.chdir(root)
        sys.path[:] = [str(root), *(each for each in sys.path if each and Path(each).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]  # this module's package, which is not the copy's
        os.environ["PYTHONPATH"] = str(root)
        os.setpgid(0, 0)
        ended = threading.Timer(10.0 * seconds, os.killpg, (0, 9))
        ended.daemon = True
        ended.start()
        code = 3  # pytest's own for an error within it
        try:
            code = int(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *arguments], plugins=[plugin]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -1


class Copy:
    """A copy of the tree whose lines can be broken.

    Parameters
    ----------
    root
        Folder of the copy.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        for each in [
            *listed,
            *(str(file.relative_to(ROOT)) for file in (ROOT / "synergy_nb/widgets/static").glob("*")),
        ]:
            if each and (ROOT / each).is_file():
                (root / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / each, root / each)
        compileall.compile_dir(root / "synergy_nb", quiet=2, workers=1)
        self._tests: dict[str, dict[str, tuple[float, list[str]]]] = {}

    def tests(self, place: str, marked: list[str]) -> dict[str, tuple[float, list[str]]]:
        """Return seconds and functions of each test of a folder."""
        if place not in self._tests:
            target = self.root / f"{place.replace('/', '-')}.json"
            _forked(self.root, [*marked, place], _Recorder(self.root, target), 3600)
            if not target.exists():
                raise SystemExit((self.root / OUTPUT).read_text("utf-8"))
            self._tests[place], other = json.loads(target.read_text("utf-8"))
            for name in other:
                print(f"not used, as it does not pass in a copy: {name}", flush=True)
        return self._tests[place]

    def found(self, each: Break, marked: list[str], seconds: int) -> tuple[bool, int]:
        """Return whether tests find a break, and the number of tests that call its function."""
        known = self.tests(tests_of(each.path), marked)
        function = f"{each.path}:{each.function}"
        calling = sorted(
            (took, name) for name, (took, called) in known.items() if not each.function or function in called
        )
        chosen, total = [], 0.0
        for took, name in calling:
            total += took
            if total > seconds / 2:
                break
            chosen.append(name)
        if not chosen:
            return False, 0
        file = self.root / each.path
        text, cached = file.read_bytes(), Path(cache_from_source(str(file)))
        compiled = cached.read_bytes() if cached.exists() else None
        begin, end = each.span
        try:
            file.write_bytes(text[:begin] + each.after.encode() + text[end:])
            cached.unlink(missing_ok=True)
            paths = sorted({name.partition("::")[0] for name in chosen})
            return _forked(self.root, ["-x", *marked, *paths], _Chosen(chosen), seconds) != 0, len(calling)
        finally:
            file.write_bytes(text)
            shutil.copystat(ROOT / each.path, file)
            if compiled is not None:
                cached.write_bytes(compiled)


def main() -> None:
    """Break lines, and print those that no test has found."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--places", type=int, default=300, help="number of lines that are broken")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is drawn")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="rooms of synergy_nb")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of a processor for the tests of a line")
    parser.add_argument("--slow", action="store_true", help="with the tests that take long")
    parser.add_argument("--skip", type=int, default=0, help="number of places that are skipped")
    given = parser.parse_args()
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in LIBRARIES:
        __import__(name)
    marked = [] if given.slow else ["-m", "not slow"]
    lost = []
    with tempfile.TemporaryDirectory() as folder:
        chosen = drawn(tuple(given.rooms), given.places, given.seed)[given.skip :]
        copy = Copy(Path(folder).resolve())
        for number, each in enumerate(chosen, start=given.skip + 1):
            found, tests = copy.found(each, marked, given.seconds)
            line = f"{each.path}:{each.line}: {each.before!r} -> {each.after!r} ({tests} tests call it)"
            print(f"{number} {'found' if found else 'LOST '} {line}", flush=True)
            lost += [] if found else [line]
    done = len(chosen)
    print(f"{done - len(lost)} of {done} are found; not:", *lost, sep="\n")


if __name__ == "__main__":
    main()
