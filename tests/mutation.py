"""Break one line at a time, and see whether the tests of its room find it.

    python -m tests.mutation [--places 300] [--seed 1] [--rooms overlay plan] [--seconds 60] [--slow]

It is no part of the suite, as it takes long. It works on a copy of the tree in a temporary folder:

1. Places are drawn: lines of the rooms in which something can be broken, all with the same probability; and of what can
   be broken in a line one way (:class:`Break`).
2. The tests of a room are collected once, by a process that never runs one. A fork of it runs them as they are, and
   records which functions each test calls, and how long it takes. That is kept in ``build/mutation`` as long as the
   code and these tests stay.
3. For each place another fork puts the broken line's code into the functions that were imported (:func:`put`), and runs
   those tests of its room that call its function, the fastest first, until one fails. A line is found if one does, or
   if they no longer end.
4. What nobody has found so, is broken in the file of the copy, and the same tests run in a process that imports it
   anew: the line may be one that runs as its module is imported.

What is printed at the end are the lines that nobody found, each with what replaced it: either a test is missing, or the
line does nothing. Times are those of the processor, so that another program does not change what is found.

Tests of the room only, and for a minute at most: a fault that only a test of whole clusters finds is found late.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, FrameType, FunctionType
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
KEPT: Final = ROOT / "build" / "mutation"
# Modules of tests that have Polars start threads as they are imported. A fork has no threads, and would wait for them
# for ever: these tests find lines only in a process of their own.
APART: Final = (
    "tests/dataflow/test_expressions.py",
    "tests/dataflow/test_operator_contract.py",
    "tests/dataflow/test_tuples.py",
    "tests/plan/test_data_frames.py",
    "tests/replication/test_replica_agreement.py",
    "tests/streams/test_source_places.py",
)
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


def broken(text: bytes, each: Break) -> bytes:
    """The source of a module with a break. What comes after it stays in its line."""
    begin, end = each.span
    lines = b"\n" * text[begin:end].count(b"\n")
    after = each.after.encode()
    after = after[:-1] + lines + b")" if after.endswith(b")") and each.after.startswith("(") else after + lines
    return text[:begin] + after + text[end:]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def put(file: Path, source: bytes) -> bool:
    """Give the functions of a module that is imported the code of another source; returns whether there are any."""
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(compile(source, str(file), "exec"))}
    gc.unfreeze()  # what is frozen is not among all objects
    changed = False
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(file):
            code = codes.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
            if code is not None and code != each.__code__ and code.co_freevars == each.__code__.co_freevars:
                each.__code__ = code
                changed = True
    return changed


Say = Callable[[int, int], None]  # gets the number of a place and the exit code of its tests
Known = dict[str, tuple[float, list[str]]]  # of each test, by its name: seconds, and the functions that it calls


class _Recorder:
    """A plugin that writes for each test which functions of the house it calls, and how long it takes."""

    def __init__(self, root: Path, target: Path) -> None:
        self._root, self._target = root, target
        self._seen: set[CodeType] = set()
        self._passed = True

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and report.passed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.record(session.items)
        return True

    def record(self, items: list[pytest.Item]) -> int:
        """Run tests, and write what they call."""
        found: Known = {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            self._seen.clear()
            self._passed = True
            begin = time.process_time()
            threading.setprofile(self._called)
            sys.setprofile(self._called)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
            ours = [code for code in self._seen if code.co_filename.startswith(f"{self._root}/synergy_nb/")]
            names = {f"{code.co_filename.removeprefix(f'{self._root}/')}:{code.co_firstlineno}" for code in ours}
            if self._passed:  # one that is skipped, or does not pass in a copy, finds nothing
                found[item.nodeid] = (time.process_time() - begin, sorted(names))
        self._target.write_text(json.dumps(found), "utf-8")
        return 0


class _Room:
    """A plugin that has the tests of a folder collected and runs them in forks: as they are, then with breaks."""

    def __init__(self, root: Path, target: Path, places: list[tuple[int, Break]], seconds: int, say: Say) -> None:
        self._root, self._target, self._places, self._seconds, self._say = root, target, places, seconds, say
        self._ends = False  # whether the process ends with the first test that fails

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._ends:
            print(report.longreprtext)
            sys.stdout.flush()
            os._exit(1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        names = {each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")}
        if "polars-0" in names:
            raise SystemExit(f"a module of tests has started threads, expected it in APART: {sorted(names)}")
        if not self._target.exists():
            recorder = _Recorder(self._root, self._target)
            session.config.pluginmanager.register(recorder)
            forked(self._root, lambda: recorder.record(session.items), 3600)
            session.config.pluginmanager.unregister(recorder)
        if not self._target.exists():
            raise SystemExit((self._root / OUTPUT).read_text("utf-8"))
        known = json.loads(self._target.read_text("utf-8"))
        items = {item.nodeid: item for item in session.items}
        for number, each in self._places:
            chosen = [items[name] for name in tests_for(each, known, self._seconds)]
            self._say(number, forked(self._root, partial(self._run, each, chosen), self._seconds))
        return True

    def _run(self, each: Break, items: list[pytest.Item]) -> int:
        file = self._root / each.path
        if not items or not each.function or not put(file, broken(file.read_bytes(), each)):
            return 0
        self._ends = True
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        return 0


def tests_for(each: Break, known: Known, seconds: int) -> list[str]:
    """Return the tests that are to find a break: those that call its function, the fastest first."""
    function = f"{each.path}:{each.function}"
    calling = sorted((took, name) for name, (took, called) in known.items() if not each.function or function in called)
    chosen, total = [], 0.0
    for took, name in calling:
        total += took
        if total > seconds / 2:
            break
        chosen.append(name)
    return chosen


class _Chosen:
    """A plugin that runs only the tests named, in their order."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self._names if name in found]


def forked(root: Path, run: Callable[[], int], seconds: int) -> int:
    """Run a function in a fork; returns its result, or -1 where it does not end within the time of a processor."""
    child = os.fork()
    if not child:
        code = 3  # pytest's own for an error within it
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            said = os.open(root / OUTPUT, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for each in (0, 1, 2):
                os.dup2(said, each)
            os.setpgid(0, 0)
            ended = threading.Timer(10.0 * seconds, os.killpg, (0, 9))
            ended.daemon = True
            ended.start()
            code = run()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, 9)  # what a test has started and not ended
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -1


def in_pytest(root: Path, arguments: list[str], plugin: object, seconds: int, written: bool) -> int:
    """Run pytest with a plugin in a fork, in the copy; ``written`` says whether what is compiled is kept there."""

    def run() -> int:
        os.chdir(root)
        sys.dont_write_bytecode = not written
        sys.path[:] = [str(root), *(each for each in sys.path if each and Path(each).resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]  # this module's package, which is not the copy's
        os.environ["PYTHONPATH"] = str(root)
        return int(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *arguments], plugins=[plugin]))

    return forked(root, run, seconds)


class Copy:
    """A copy of the tree whose lines can be broken.

    Parameters
    ----------
    root
        Folder of the copy.
    marked
        Arguments of pytest that choose tests.
    seconds
        Seconds of a processor for the tests of a line.
    """

    def __init__(self, root: Path, marked: list[str], seconds: int) -> None:
        self.root, self._marked, self._seconds = root, marked, seconds
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\n")
        static = [str(file.relative_to(ROOT)) for file in (ROOT / "synergy_nb/widgets/static").glob("*")]
        self._listed = sorted(each for each in {*listed, *static} if each and (ROOT / each).is_file())
        for each in self._listed:
            (root / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / each, root / each)

    def _kept(self, place: str) -> Path:
        """Where it is kept what the tests of a folder call."""
        said = hashlib.sha256(" ".join(self._marked).encode())
        for each in self._listed:
            if each.endswith(".py") and (
                not each.startswith("tests/") or Path(each).parent.as_posix() in ("tests", place)
            ):
                said.update(each.encode() + (self.root / each).read_bytes())
        KEPT.mkdir(parents=True, exist_ok=True)
        return KEPT / f"{Path(place).name}-{said.hexdigest()[:16]}.json"

    def found(self, place: str, breaks: list[tuple[int, Break]]) -> Iterator[tuple[int, Break, str]]:
        """Yield each break of modules that have their tests in a folder, and how it was found, or an empty text."""
        kept, results = self._kept(place), self.root / "results.txt"
        results.write_text("")

        def say(number: int, code: int) -> None:
            with results.open("a") as file:
                file.write(f"{number} {code}\n")

        apart = [each for each in APART if each.startswith(f"{place}/")]
        plugin = _Room(self.root, kept, breaks, self._seconds, say)
        ignored = [f"--ignore={each}" for each in apart]
        in_pytest(self.root, [*self._marked, *ignored, place], plugin, 3600, written=True)
        if not kept.exists():
            raise SystemExit(f"{place}: its tests were not recorded:\n{(self.root / OUTPUT).read_text('utf-8')}")
        known: Known = json.loads(kept.read_text("utf-8"))
        if apart:
            kept = kept.with_stem(f"{kept.stem}-apart")
            if not kept.exists():
                in_pytest(self.root, [*self._marked, *apart], _Recorder(self.root, kept), 3600, written=True)
            known |= json.loads(kept.read_text("utf-8"))
        codes = {int(number): int(code) for number, code in map(str.split, results.read_text().splitlines())}
        for number, each in breaks:
            if number not in codes:
                raise SystemExit(f"{place} stopped at place {number}:\n{(self.root / OUTPUT).read_text('utf-8')}")
            code = codes[number] or self._anew(each, tests_for(each, known, self._seconds))
            yield number, each, "" if not code else "found" if code > 0 else "found: no end"

    def _anew(self, each: Break, chosen: list[str]) -> int:
        """Return the exit code of tests in a process that imports a broken file; 0 without tests."""
        if not chosen:
            return 0
        file = self.root / each.path
        text, cached = file.read_bytes(), Path(cache_from_source(str(file)))
        compiled = cached.read_bytes() if cached.exists() else None
        try:
            file.write_bytes(broken(text, each))
            cached.unlink(missing_ok=True)
            paths = sorted({name.partition("::")[0] for name in chosen})
            return in_pytest(self.root, ["-x", *self._marked, *paths], _Chosen(chosen), self._seconds, written=False)
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
    for name in LIBRARIES:
        __import__(name)
    chosen = drawn(tuple(given.rooms), given.places, given.seed)[given.skip :]
    places: dict[str, list[tuple[int, Break]]] = {}
    for number, each in enumerate(chosen, start=given.skip + 1):
        places.setdefault(tests_of(each.path), []).append((number, each))
    lost, found = [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder).resolve(), [] if given.slow else ["-m", "not slow"], given.seconds)
        for place, wanted in sorted(places.items()):
            for number, each, how in copy.found(place, wanted):
                line = f"{each.path}:{each.line}: {each.before!r} -> {each.after!r}"
                print(f"{number} {how or 'LOST'} {line}", flush=True)
                lost += [] if how else [line]
                found[place] += bool(how)
            print(f"{place}: {found[place]} of {len(wanted)} are found", flush=True)
    print(f"{found.total()} of {len(chosen)} are found; not:", *lost, sep="\n")


if __name__ == "__main__":
    main()
