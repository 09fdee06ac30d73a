"""The house keeps its shape: imports point down, only drivers look at clocks, names stay what they should be.

Everything is read from the syntax trees of the modules, so nothing needs to be imported, and an import inside a
function or under ``TYPE_CHECKING`` counts like any other.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest

from tests.design_pages import named_modules
from tests.parameter_lines import described, fault
from tests.syntax_trees import nodes_of, syntax_tree

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "synergy_nb"
SPARK = "spark_stream"  # the data path on Spark: a package of its own, and a layer of the same house
EXPERIMENTS = "synergy_experiments"  # the papers' experiments and all that is measured: likewise, at the top
OURS = (PACKAGE, SPARK, EXPERIMENTS)

# From the bottom up. A module may import its own layer (with the exceptions below) and the layers under it.
LAYERS = (
    ("errors", "drawing"),
    ("plan",),
    ("models",),
    ("events",),
    ("reporting",),
    ("dataflow",),
    ("durable",),
    ("traces",),
    ("connectors",),
    ("testing",),
    ("editing",),
    (SPARK,),
    ("control",),
    ("overlay",),
    ("lifecycle",),
    ("algorithms",),
    ("assembly",),
    ("recording",),
    ("widgets", "simulator", "runtime"),
    ("notebook", "explore"),
    (EXPERIMENTS, "cli", "__init__", "__main__"),
)
LEVEL = {part: level for level, layer in enumerate(LAYERS, start=1) for part in layer}
DRIVERS = LEVEL["runtime"]
# Rooms inside a package, from the bottom up: a module may import its own room and those on the floors below it
FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "plan": (
        ("terms",),
        ("sql", "tables"),
        ("operators",),
        ("checks",),
        ("text",),
        ("_stream_names", "data_frames"),
        ("query_plan", "functions"),
        ("builder", "derived"),
        ("queries",),
    ),
    "dataflow": (
        ("deployments", "memory_shares", "meters", "prediction_reports", "tuples"),
        ("_expressions", "logic", "sources"),
        ("functions",),
        ("operators",),
        ("streams",),
        ("sinks",),
    ),
    "dataflow.streams": (("log", "replicas"), ("component",), ("hosting",)),
    "lifecycle": (("records",), ("requests", "sessions"), ("changes",), ("session",), ("engine",)),
    "synergy_experiments": (
        ("demo", "flows", "framework", "nexmark"),
        ("worlds",),
        ("bench",),
        ("chapters",),
        ("paper_figure",),
    ),
}
TOP = LEVEL["cli"]

# Of the runtime, what may know Dask: its certificates, the plugin on a worker, the bounds of its ports, the processes
# that hold workers, and what starts or joins
DASK_MODULES = {
    ("identity", "security"),
    ("process", "_plugin"),
    ("process", "_steady_worker"),
    ("process", "processes"),
    ("process", "starting"),
    ("transport", "listening"),
}
DASK = {"dask", "distributed"}
# The rows of users' asynchronous iterables come from an event loop wherever they are read
LOOPS = {("simulator", "_asynchronous_rows"), ("dataflow", "functions", "_coroutines")}
OUTSIDE_WORLD = {"asyncio", "socket", "selectors", "ssl", "time", "tornado"} | DASK
GLOBAL_RANDOMNESS = {"secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom"}
SEEDED_RANDOMNESS = {
    "Random",
    "Generator",
    "BitGenerator",
    "SeedSequence",
    "PCG64",
    "PCG64DXSM",
    "Philox",
    "default_rng",
}
# Only the data path on Spark knows PySpark; who knows the data path on Spark: the runtime's one entry to it, what makes
# peers of live runs, which asks what Spark can execute, and the top
SPARK_DOORS = {
    ("runtime", "data", "spark_servers"),
    ("runtime", "data", "_spark_part"),
    ("recording", "construction"),
}
# Modules that no other room imports by a statement, and who uses them; in the packages of FAMILIES whoever adds an
# operator or an event finds each family in a module of its own
FAMILIES = {("plan", "operators"), ("dataflow", "operators"), (SPARK, "operators"), ("events",)}
DOORS = {
    ("plan", "query_plan"): "users",
    ("plan", "operators", "method_arguments"): "the pages that docs/generate.py writes",
    ("notebook", "short_errors"): "drawing/notebook_views, by its name",
    ("widgets", "knob_panel"): "notebook/views, by its name",
    ("widgets", "protocol_stage"): "notebook/views, by its name",
}
CLOCKS = re.compile(r"(datetime\.)*(datetime\.(now|utcnow|today)|date\.today)")

SAY_NOTHING = {"util", "utils", "common", "helper", "helpers", "misc", "manager", "managers"}
# Written with a hyphen, as this file must not hold them itself. The second are ordinary words of code, not of comments.
UNFINISHED = re.compile(r"\b(TO-DO|FIX-ME|XX-X|HA-CK|NotImpl-ementedError)\b".replace("-", ""))
MACHINE = re.compile(r"/(root|home/[a-z]+|tmp/v|work)/")
BUILT_IN_ERRORS = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
POSTPONED = re.compile(r"\b(place-holder|for n-ow)\b".replace("-", ""))
UNFINISHED_WORDS = re.compile(f"{UNFINISHED.pattern}|{POSTPONED.pattern}".replace(r"\b", ""))


@dataclass(frozen=True)
class Module:
    """One source file and what the rules ask of it."""

    name: str  # dotted, without ".__init__"
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return syntax_tree(self.source)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Its place in the house: the names below the package, whose own is ``("__init__",)``; all names of Spark's."""
        return _place(self.name)

    @property
    def level(self) -> int:
        return LEVEL.get(self.parts[0], 0)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return nodes_of(self.tree)

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and absolute name of every module that is imported; elsewhere's ``from a import b`` gives ``a.b``."""
        return list(self._imports())

    @cached_property
    def uses(self) -> list[tuple[int, str]]:
        """Line and full name of every use of what is imported: ``np.random.rand`` gives ``numpy.random.rand``."""
        return list(self._uses())

    def _imports(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    here = self.name.split(".")
                    base = ".".join([*here[: len(here) - node.level + self.is_package], *([base] if base else [])])
                for alias in node.names:
                    name = f"{base}.{alias.name}"
                    ours = base.partition(".")[0] in OURS  # then it is known whether b is a module or in one
                    yield node.lineno, base if ours and name not in NAMES else name

    def _uses(self) -> Iterator[tuple[int, str]]:
        known: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    known[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in self.nodes:
            name = _dotted(node)
            if name:
                first, _, rest = name.partition(".")
                if first in known:
                    yield node.lineno, f"{known[first]}.{rest}" if rest else known[first]  # type: ignore[attr-defined]


def _place(name: str) -> tuple[str, ...]:
    names = name.split(".")
    return tuple(names[1:] if names[0] == PACKAGE else names) or ("__init__",)


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def _read(folder: Path) -> list[Module]:
    modules = []
    for path in sorted(folder.rglob("*.py")):
        names = list(path.relative_to(ROOT).with_suffix("").parts)
        is_package = names[-1] == "__init__"
        modules.append(Module(".".join(names[:-1] if is_package else names), path.read_text("utf-8"), is_package))
    return modules


@cache
def _modules_of_tests() -> list[Module]:
    return _read(ROOT / "tests")


MODULES = [module for name in OURS for module in _read(ROOT / name)]
NAMES = {module.name for module in MODULES}


# -- the rules: each yields what is wrong with a module ----------------------------------------------------------------


def _ours(module: Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and place in the house of what ``module`` imports from it."""
    for line, name in module.imports:
        if name.partition(".")[0] in OURS:
            yield line, _place(name)


def is_in_a_room(module: Module) -> Iterator[str]:
    """Every module is in a room that has its place in the order of imports."""
    if module.parts[0] not in LEVEL:
        yield f"{module.parts[0]!r} is none of {', '.join(LEVEL)}"


def is_on_the_page_of_its_room(module: Module) -> Iterator[str]:
    """The list of modules of a page in docs/design names every module, beside those of its package."""
    package, _, name = module.name.rpartition(".")
    if not module.is_package and name not in named_modules().get(package, ()):
        place = package.removeprefix(f"{PACKAGE}.").replace(".", "/")
        yield f'no page in docs/design names `{name}` in the line that begins with "- `{place}/`:"'


def imports_point_down(module: Module) -> Iterator[str]:
    """No module imports a higher layer."""
    for line, target in _ours(module):
        if LEVEL.get(target[0], 0) > module.level:
            yield f"line {line}: imports {'.'.join(target)}, which is higher in the house"


def rooms_point_down(module: Module) -> Iterator[str]:
    """Where a package has rooms, no module imports a room above its own, or beside it."""
    for package, floors in FLOORS.items():
        depth, floor = package.count(".") + 1, {room: level for level, rooms in enumerate(floors) for room in rooms}
        if ".".join(module.parts[:depth]) != package or len(module.parts) == depth:
            continue
        own = module.parts[depth]
        if own not in floor:
            yield f"{own!r} is none of the rooms of {package}: {', '.join(floor)}"
            continue
        for line, target in _ours(module):
            if target[:depth] == module.parts[:depth] and len(target) > depth:
                other = target[depth]
                if other != own and floor.get(other, len(floors)) >= floor[own]:
                    yield f"line {line}: imports {'.'.join(target)}; {package}.{own} is not above {other}"


def _outside(module: Module, package: str) -> bool:
    """Whether a module is neither of the package nor of one inside it."""
    return module.name != package and not module.name.startswith(f"{package}.")


def what_is_private_stays_in_its_room(module: Module) -> Iterator[str]:
    """A module whose name begins with "_" is imported within its package only."""
    for line, name in module.imports:
        parts = name.split(".")
        for end in range(1, len(parts)) if parts[0] in OURS else ():
            package = ".".join(parts[:end])
            if parts[end].startswith("_") and not parts[end].startswith("__") and _outside(module, package):
                yield f"line {line}: imports {name}, which is for {package} alone; a module without _ is a door"


@cache
def _used_elsewhere() -> frozenset[str]:
    """Names of modules that a module outside of their package imports."""
    found = {(module, name) for module in MODULES for _, name in module.imports if name in NAMES}
    return frozenset(name for module, name in found if _outside(module, name.rpartition(".")[0]))


def what_only_its_room_imports_is_private(module: Module) -> Iterator[str]:
    """A module that nobody outside of its package imports is named so; the few others are doors for a stated reason."""
    name = module.parts[-1]
    if module.is_package or name.startswith("_") or module.parts[0] == EXPERIMENTS or module.parts in DOORS:
        return
    if module.name not in _used_elsewhere() and module.parts[:-1] not in FAMILIES:
        yield f"only its own room imports it: it is _{name}, or one of DOORS with the reason"


def drivers_stand_apart(module: Module) -> Iterator[str]:
    """Widgets, simulator and runtime do not know each other."""
    for line, target in _ours(module):
        if module.level == DRIVERS == LEVEL.get(target[0]) and target[0] != module.parts[0]:
            yield f"line {line}: {module.parts[0]} imports {'.'.join(target)}; neither may know the other"


def algorithms_stand_alone(module: Module) -> Iterator[str]:
    """No algorithm imports another; one may be a package of several modules, and algorithms/__init__ lists them all."""
    if module.parts[0] != "algorithms" or len(module.parts) == 1:
        return
    for line, target in _ours(module):
        if target[0] == "algorithms" and target[1:2] != module.parts[1:2]:
            yield f"line {line}: imports {'.'.join(target)}; what two algorithms share moves down, or is passed in"


def _drives(module: Module) -> bool:
    """Whether it deals with the world as it is: drivers do, but for simulations, what runs Spark, and connectors."""
    simulated = module.parts[0] == "simulator" or module.parts[:2] == (EXPERIMENTS, "flows")
    return module.parts[0] in (SPARK, "connectors") or (module.level >= DRIVERS and not simulated)


def no_outside_world(module: Module) -> Iterator[str]:
    """Below the drivers, and in simulations, nobody sees an event loop, a socket, a clock or Dask."""
    if _drives(module):
        return
    outside = OUTSIDE_WORLD - {"asyncio"} if module.parts in LOOPS else OUTSIDE_WORLD
    for line, name in module.imports:
        if name.partition(".")[0] in outside:
            yield f"line {line}: imports {name}; time and messages are arguments here"
    for line, name in module.uses:
        if CLOCKS.fullmatch(name):
            yield f"line {line}: reads the clock by {name}; the time is an argument here"


def only_seeded_randomness(module: Module) -> Iterator[str]:
    """Below the drivers, and in simulations, randomness is a seeded generator."""
    if _drives(module):
        return
    for line, name in module.uses:
        for source in ("random.", "numpy.random."):
            if name.startswith(source) and name.removeprefix(source).partition(".")[0] not in SEEDED_RANDOMNESS:
                yield f"line {line}: {name} is global randomness; a seeded generator is passed in"
        if name in GLOBAL_RANDOMNESS or name.partition(".")[0] in GLOBAL_RANDOMNESS:
            yield f"line {line}: {name} cannot be seeded"
    for node in module.nodes:
        if isinstance(node, ast.Call) and not node.args and not node.keywords:
            maker = (_dotted(node.func) or "").rpartition(".")[2]
            if maker in SEEDED_RANDOMNESS:
                yield f"line {node.lineno}: {maker}() without a seed"


def few_modules_import_dask(module: Module) -> Iterator[str]:
    """Only named modules of the runtime import Dask."""
    if module.parts[0] == "runtime" and module.parts[1:] in DASK_MODULES:
        return
    for line, name in module.imports:
        if name.partition(".")[0] in DASK:
            allowed = sorted("/".join(each) for each in DASK_MODULES)
            yield f"line {line}: imports {name}; expected only in {allowed}"


def few_modules_import_spark(module: Module) -> Iterator[str]:
    """Only the data path on Spark, and what measures beside plain Spark, imports PySpark; few import that data path."""
    for line, name in module.imports:
        first = name.partition(".")[0]
        if first == "pyspark" and module.parts[0] not in {SPARK, EXPERIMENTS}:
            yield f"line {line}: imports {name}; PySpark is for {SPARK}"
        if first == SPARK and module.parts[0] != SPARK and module.level < TOP and module.parts[:3] not in SPARK_DOORS:
            yield f"line {line}: imports {name}; the doors to {SPARK} are runtime/data/{{spark_servers,_spark_part}}"


def few_rooms_know_notebooks(module: Module) -> Iterator[str]:
    """Only ``notebook`` and the widgets speak to IPython; lower rooms ask ``drawing/notebook_views``."""
    if module.parts[0] in {"notebook", "widgets"} or module.parts == ("drawing", "notebook_views"):
        return
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"IPython(\.\w+)*$", node.value):
            yield f"line {node.lineno}: {node.value}; drawing/notebook_views has the doors to a notebook"
    for line, name in module.imports:
        if name.partition(".")[0] == "IPython":
            yield f"line {line}: imports {name}; drawing/notebook_views has the doors to a notebook"


@cache
def _declared() -> frozenset[str]:
    """Import names of what pyproject.toml declares, for the package itself or in an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    names = [re.split(r"[^\w-]", name)[0].lower().replace("-", "_") for name in [*project["dependencies"], *extras]]
    return frozenset({"pyyaml": "yaml", "grpcio": "grpc"}.get(name, name) for name in names)


def imports_are_declared(module: Module) -> Iterator[str]:
    """What is imported is the standard library's, our own, or declared in pyproject.toml rather than there by luck."""
    for line, name in module.imports:
        first = name.partition(".")[0]
        if first not in sys.stdlib_module_names | _declared() | set(OURS):
            yield f"line {line}: imports {name}, which pyproject.toml does not declare"


def names_say_something(module: Module) -> Iterator[str]:
    """No module or class is named for being useful."""
    for name in module.parts:
        if SAY_NOTHING & set(name.split("_")):
            yield f"the module name {name!r} does not say what is in it"
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", node.name)}
            if words & SAY_NOTHING:
                yield f"line {node.lineno}: the class name {node.name!r} does not say what it is"


def _tokens(module: Module, pattern: re.Pattern[str]) -> Iterator[tokenize.TokenInfo]:
    """The tokens of a module that has the pattern anywhere; finding them takes fifty times as long as searching."""
    if pattern.search(module.source):
        yield from tokenize.generate_tokens(io.StringIO(module.source).readline)


def finished(module: Module) -> Iterator[str]:
    """Nothing is left for later."""
    for token in _tokens(module, UNFINISHED_WORDS):
        prose = token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in token.string)
        for found in [UNFINISHED.search(token.string), POSTPONED.search(token.string) if prose else None]:
            if found:
                yield f"line {token.start[0]}: {found[0]}"


NAMED_TEST = re.compile(r"\btest_[a-z]\w*")
MENTIONED_MODULE = re.compile(r":mod:`~?([\w.]+)`")


@cache
def _tests() -> frozenset[str]:
    """Names of all tests, and of the modules that hold them."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= {path.stem, *re.findall(r"(?m)^(?:async )?def (test_\w+)", path.read_text("utf-8"))}
    return frozenset(found)


def named_tests_exist(module: Module) -> Iterator[str]:
    """A comment that says which test shows it names one that exists."""
    for token in _tokens(module, NAMED_TEST):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in token.string):
            for name in sorted(set(NAMED_TEST.findall(token.string)) - _tests()):
                yield f"line {token.start[0]}: there is no {name}"


def mentioned_modules_exist(module: Module) -> Iterator[str]:
    """A docstring that refers to a module of ours by its name, or the end of it, refers to one that exists."""
    for name in sorted(set(MENTIONED_MODULE.findall(module.source))):
        ours = name.startswith(".") or name.partition(".")[0] in OURS
        if ours and name not in NAMES and not any(each.endswith(name) for each in NAMES if name.startswith(".")):
            yield f"there is no module {name}"


def free_of_this_machine(module: Module) -> Iterator[str]:
    """No path of the machine that it was written on."""
    for token in _tokens(module, MACHINE):
        if re.search(rf"(?<![\w./-]){MACHINE.pattern}", token.string):
            yield f"line {token.start[0]}: {token.string.strip()[:80]!r}"


def _documented(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node) is not None


def _spared(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Overloads and setters are documented where the function or property is."""
    names = [(_dotted(decorator) or "") for decorator in node.decorator_list]
    return any(name.rpartition(".")[2] in {"overload", "setter", "deleter"} for name in names)


@cache
def _classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for module in MODULES for node in module.nodes if isinstance(node, ast.ClassDef)}


def _inherits_docstring(owner: ast.ClassDef, method: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a base of this package documents ``method``, which the override then need not repeat."""
    for base in owner.bases:
        name = (_dotted(base.value if isinstance(base, ast.Subscript) else base) or "").rpartition(".")[2]
        parent = _classes().get(name)
        if parent is None or name in seen:
            continue
        for node in parent.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == method and _documented(node):
                return True
        if _inherits_docstring(parent, method, seen | {name}):
            return True
    return False


def documented(module: Module) -> Iterator[str]:
    """Every module, public class, public function and public method says what it is."""
    if ast.get_docstring(module.tree) is None:
        yield "the module has no docstring"
    yield from _undocumented(module.tree.body, None)


def _undocumented(body: list[ast.stmt], owner: ast.ClassDef | None) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if not _documented(node):
                yield f"line {node.lineno}: class {node.name} has no docstring"
            yield from _undocumented(node.body, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            inherited = owner is not None and _inherits_docstring(owner, node.name)
            if not (_documented(node) or _spared(node) or inherited):
                within = f"{owner.name}." if owner else ""
                yield f"line {node.lineno}: {within}{node.name} has no docstring"


ERROR_BASE = "SynergyError"


#: Modules of a component; the other modules of its room are parts of it.
COMPONENT = {f"{PACKAGE}.dataflow.streams.component.{name}" for name in ("component", "component_metrics")}
LABELS = {
    "determinants",
    "losses",
    "place",
    "rates",
}  # of a chunk: whoever makes one labels it before anybody else has it


#: Rooms in which all facts have one home, with the rooms below of which they write nothing either.
OWNED = {SPARK: (SPARK,), "lifecycle": ("lifecycle",), "algorithms": ("algorithms", "lifecycle")}
#: Methods that change a collection.
CHANGES = {"add", "append", "clear", "discard", "extend", "pop", "remove", "setdefault", "update"}


@cache
def _collections(name: str) -> frozenset[str]:
    """Names of those attributes of the classes of a module that begin as a collection; listeners are for others."""
    found: set[str] = set()
    for node in next(module for module in MODULES if module.name == name).nodes:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        value, targets = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
        made = isinstance(value, ast.Call) and ast.unparse(value.func).partition("[")[0] in ("set", "dict", "list")
        if made or isinstance(value, ast.Dict | ast.List | ast.Set):
            found |= {each.attr for each in targets if isinstance(each, ast.Attribute)}
    return frozenset(name for name in found if not name.startswith("on_"))


@cache
def _attributes(name: str) -> frozenset[str]:
    """Names of the attributes that the classes of a module have."""
    found: set[str] = set()
    for node in next(module for module in MODULES if module.name == name).nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            found |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    return frozenset(found)


def facts_have_one_home(module: Module) -> Iterator[str]:
    """In the data path, in the life of applications and in algorithms the module of a class writes its attributes.

    Whoever wants it changed asks its owner.
    """
    if module.parts[0] in OWNED:
        yield from _written_elsewhere(module)
        return
    if module.parts[:2] != ("dataflow", "streams") or len(module.parts) < 4:
        yield from _written_components(module)
        return
    homes = {module.name} | (COMPONENT if module.parts[2] == "component" else set())
    own = LABELS.union(*(_attributes(home) for home in homes if home in NAMES))
    for node in module.nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store | ast.Del)
            and node.attr not in own
            and ast.unparse(node.value) != "self"
        ):
            yield f"line {node.lineno}: writes {ast.unparse(node)}, which belongs to a class elsewhere"


def _written_elsewhere(module: Module) -> Iterator[str]:
    """Attributes of classes of other modules of these rooms; objects of Spark are set up by whoever uses them."""
    rooms = OWNED[module.parts[0]]
    others = [each.name for each in MODULES if each.parts[0] in rooms and each.name != module.name]
    own = _attributes(module.name) if module.name in NAMES else frozenset[str]()
    foreign = frozenset[str]().union(*map(_attributes, others)) - own
    collections = frozenset[str]().union(*map(_collections, others)) - own
    for node in module.nodes:
        written, names = node, frozenset[str]()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            written, names = node.func.value, collections
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            written, names = node.value, collections
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            names = foreign
        if isinstance(written, ast.Attribute) and written.attr in names and ast.unparse(written.value) != "self":
            yield f"line {written.lineno}: writes {ast.unparse(written)}, which belongs to a class elsewhere"


def _written_components(module: Module) -> Iterator[str]:
    """Attributes of a component that other rooms write; drivers and simulators call its methods."""
    if module.parts[:1] not in (("runtime",), ("simulator",)) and not module.name.startswith(EXPERIMENTS):
        return  # elsewhere a component is something else, such as one of a graph
    facts = frozenset[str]().union(*map(_attributes, COMPONENT))
    for node in module.nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store | ast.Del)
            and node.attr in facts
            and ast.unparse(node.value).split(".")[-1] in ("component", "_component")
        ):
            yield f"line {node.lineno}: writes {ast.unparse(node)}, which belongs to the component"


def errors_share_a_base(module: Module) -> Iterator[str]:
    """Every public exception class derives from SynergyError; it may derive from a built-in class as well."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            ancestors = _ancestors(node)
            if ancestors & BUILT_IN_ERRORS and ERROR_BASE not in {node.name, *ancestors}:
                yield f"line {node.lineno}: {node.name} does not derive from {ERROR_BASE}"


def _ancestors(owner: ast.ClassDef, seen: frozenset[str] = frozenset()) -> set[str]:
    """Names of all classes that a class derives from."""
    found = set()
    for base in owner.bases:
        name = (_dotted(base.value if isinstance(base, ast.Subscript) else base) or "").rpartition(".")[2]
        found.add(name)
        parent = _classes().get(name)
        if parent is not None and name not in seen:
            found |= _ancestors(parent, seen | {name})
    return found


def parameters_name_things(module: Module) -> Iterator[str]:
    """The description of a parameter names a thing and its unit: "Seed of the samples", not "Of the samples"."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name, text in described(ast.get_docstring(node) or ""):
                if found := fault(text):
                    yield f"{getattr(node, 'name', 'module')}, {name}: {text[:60]!r} {found}"


#: Classes of private modules whose methods users call: bases of ``Application``, ``Cluster`` and ``Simulation``.
BASES_OF_PUBLIC_CLASSES = {"LedApplication", "PeerRequests", "PeerChanges"}


def private_fields_speak_at_their_lines(module: Module) -> Iterator[str]:
    """In a private module, fields and parameters have comments at their lines; lists of them stand beside examples."""
    package, _, name = module.name.partition(".")
    if package == EXPERIMENTS or not name.rpartition(".")[2].startswith("_"):
        return
    for node in module.tree.body:
        if getattr(node, "name", "") in BASES_OF_PUBLIC_CLASSES:
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(each) or ""
                if re.search(r"(?m)^(Parameters|Attributes)\n-+$", text) and not re.search(r"(?m)^Examples\n-+$", text):
                    yield f"line {each.lineno}: {each.name} lists them"


def hides_no_module(module: Module) -> Iterator[str]:
    """No package gives the name of one of its modules to something else: ``import a.b.c as x`` is the module."""
    for node in module.tree.body:
        bound: list[tuple[str, str]] = []  # name, and what it is
        if isinstance(node, ast.ImportFrom):
            bound = [(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound = [(node.name, "")]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [(each.id, "") for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        for name, origin in bound:
            if f"{module.name}.{name}" in NAMES and origin not in (f"{module.name}.{name}", f".{name}"):
                yield f"line {node.lineno}: {name} hides the module {module.name}.{name}"


RULES: tuple[Callable[[Module], Iterator[str]], ...] = (
    is_in_a_room,
    is_on_the_page_of_its_room,
    imports_point_down,
    rooms_point_down,
    what_is_private_stays_in_its_room,
    what_only_its_room_imports_is_private,
    drivers_stand_apart,
    algorithms_stand_alone,
    no_outside_world,
    only_seeded_randomness,
    few_modules_import_dask,
    few_modules_import_spark,
    few_rooms_know_notebooks,
    imports_are_declared,
    names_say_something,
    finished,
    named_tests_exist,
    mentioned_modules_exist,
    free_of_this_machine,
    documented,
    errors_share_a_base,
    facts_have_one_home,
    parameters_name_things,
    hides_no_module,
)


def test_the_design_shows_the_same_layers() -> None:
    """DESIGN.md lists them from the top, numbered; what is after a colon says more of one."""
    text = (ROOT / "DESIGN.md").read_text("utf-8").partition("layers are:\n")[2]
    shown = re.findall(r"^\d+\. ([^:\n]+)", text.partition("\n## ")[0], re.MULTILINE)
    packages = [{part for part in layer if not part.startswith("__")} for layer in reversed(LAYERS)]
    assert [set(line.split(", ")) for line in shown] == packages


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Callable[[Module], Iterator[str]]) -> None:
    broken = [f"{module.name}: {fault}" for module in MODULES for fault in dict.fromkeys(rule(module))]
    assert not broken, f"{rule.__doc__}\n" + "\n".join(broken)


@pytest.mark.parametrize(
    "source", ["from synergy_nb.overlay import pastry", "import synergy_nb.runtime.data.spark_servers"]
)
def test_the_data_path_on_spark_knows_no_peer(source: str) -> None:
    module = Module(f"{SPARK}.session", source)
    assert list(imports_point_down(module))
    assert not list(imports_point_down(Module(module.name, "from synergy_nb.dataflow import tuples")))
    assert not list(few_modules_import_spark(Module(module.name, "import pyspark.sql, spark_stream.server")))


def _circles(modules: list[Module]) -> list[list[str]]:
    """Modules that import each other when they run; what only annotations need does not count."""
    names = {module.name for module in modules}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module in modules:
        typed: set[int] = set()
        for node in module.nodes:
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                typed |= {line for each in node.body for line in range(each.lineno, (each.end_lineno or 0) + 1)}
        for line, imported in module.imports:
            parts = imported.split(".")
            known = [".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in names]
            if known and known[0] != module.name and line not in typed:
                graph.add_edge(module.name, known[0])
    return [sorted(each) for each in nx.strongly_connected_components(graph) if len(each) > 1]


def test_no_modules_import_each_other() -> None:
    assert not _circles(MODULES), "of two modules that need each other, one is two, or what they share is a third"
    used = Module(f"{PACKAGE}.plan.terms.units", "import synergy_nb.plan.sql.sql")
    at_run_time = "def f():\n    import synergy_nb.plan.terms.units"
    only_typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import synergy_nb.plan.terms.units"
    assert _circles([used, Module(f"{PACKAGE}.plan.sql.sql", at_run_time)])
    assert not _circles([used, Module(f"{PACKAGE}.plan.sql.sql", only_typed)])


def test_a_public_class_name_means_one_thing() -> None:
    """Within the package: who reads a name knows the class, whatever room it is in."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in module.tree.body if module.name.startswith(f"{PACKAGE}.") else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_error_is_documented() -> None:
    """The tables of docs/errors.md list all public exception classes, and no others."""
    lines = (ROOT / "docs/errors.md").read_text("utf-8").splitlines()
    listed = [name for line in lines if line.startswith("| ") for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    errors = [name for name, node in _classes().items() if ERROR_BASE in {name, *_ancestors(node)}]
    assert sorted(listed) == sorted(name for name in errors if not name.startswith("_"))


@pytest.mark.parametrize(
    "text",
    [
        "Of the samples, in tuples.",
        "Those that run.",
        "For each operator the peer.",
        "As in the plan.",
        "What was measured.",
        "Whose load it is.",
        "How many there are; 2 by default.",
        "Its rate in tuples/s.",
        "None: there is no limit. Seconds otherwise.",
        "True: wait for the end.",
        "In pixels.",
        "That :func:`connect` gave.",
        "One of :data:`POLICIES`.",
        "All of them, and others.",
    ],
)
def test_a_description_without_a_thing_is_found(text: str) -> None:
    docstring = f"Do it.\n\nParameters\n----------\nvalue\n    {text}\n\nNotes\n-----\nOf no interest.\n"
    assert [(name, bool(fault(each))) for name, each in described(docstring)] == [("value", True)]


@pytest.mark.parametrize(
    "text",
    [
        "Seed of the samples.",
        "Limit of the end-to-end delay, seconds; None: no limit.",
        "Whether to wait for the end.",
        "All peers of the cluster.",
        "``composed`` or ``resilient``.",
        "Bytes that a reader may be\n    behind.",
        "Pinned operators: id to peer.",
    ],
)
def test_a_description_of_a_thing_is_not(text: str) -> None:
    docstring = f"Do it.\n\nReturns\n-------\nint\n    {text}\nstr\n    Name of the thing.\n"
    assert [(name, fault(each)) for name, each in described(docstring)] == [("int", ""), ("str", "")]


def test_tests_never_sleep() -> None:
    """Where one gives way to others on its event loop, it does so by name: ``sleep(0)`` in ``waiting``."""
    asleep = []
    for module in _modules_of_tests():
        if "sleep" not in module.source:
            continue
        sleeps = {line for line, name in module.uses if name in {"time.sleep", "asyncio.sleep"}}
        if module.name == "tests.waiting":
            calls = [node for node in module.nodes if isinstance(node, ast.Call) and node.lineno in sleeps]
            sleeps -= {call.lineno for call in calls if ast.unparse(call) == "asyncio.sleep(0)"}
        asleep += [f"{module.name}: line {line}" for line in sorted(sleeps)]
    assert not asleep, "a test waits for an event, not for time\n" + "\n".join(asleep)


#: Attributes that begin with ``_`` and belong to everybody: of named tuples, of notebooks, and of processes.
EVERYBODYS = re.compile(r"_(replace|fields|asdict|exit|ipython_display_|render_traceback_|repr_\w+_)")
MOST_PRIVATE = 60


def test_few_tests_look_into_what_is_private() -> None:
    """A test says what others can see. Where a state is only to be seen inside, it may look there."""
    looked = [
        f"{module.name}: line {node.lineno}: {ast.unparse(node)}"
        for module in _modules_of_tests()
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and re.match(r"_(?!_)", node.attr)
        and not EVERYBODYS.fullmatch(node.attr)
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]
    assert len(looked) <= MOST_PRIVATE, "\n".join(looked)


def test_no_module_of_tests_imports_from_another() -> None:
    """What several use is a helper, in the room that uses it or on top."""
    found = []
    for module in _modules_of_tests():
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("tests"):
                names = [*node.module.split("."), *(each.name for each in node.names)]
                found += [f"{module.name}: line {node.lineno}: {name}" for name in names if name.startswith("test_")]
    assert not found, "\n".join(found)


# -- the rules themselves: what each must find -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (is_in_a_room, "sharing", ""),
        (is_on_the_page_of_its_room, "plan.unheard_of", ""),
        (is_on_the_page_of_its_room, "control.units", ""),
        (imports_point_down, "control.peer", "from synergy_nb.overlay import pastry"),
        (imports_point_down, "plan.builder", "def f():\n    from ..control.peer import Peer"),
        (imports_point_down, "events.journal", "import synergy_nb.runtime.transport.link as link"),
        (imports_point_down, "overlay.pastry", "from ..algorithms import composition"),
        (imports_point_down, "dataflow.tuples", "from synergy_nb import source"),
        (
            rooms_point_down,
            "lifecycle.records.request",
            "from synergy_nb.lifecycle.requests.alternatives import Alternatives",
        ),
        (rooms_point_down, "lifecycle.sessions.impact", "from synergy_nb.lifecycle.requests import engine_choice"),
        (rooms_point_down, "lifecycle.changes.takeover", "from synergy_nb.lifecycle.session import Session"),
        (what_is_private_stays_in_its_room, "cli.printing", "from synergy_nb.widgets import _charts"),
        (what_is_private_stays_in_its_room, "plan.builder", "import synergy_nb.plan.sql._sql_types"),
        (what_only_its_room_imports_is_private, "widgets.nobody", ""),
        (rooms_point_down, "plan.terms.units", "from synergy_nb.plan.checks.validation import Problem"),
        (rooms_point_down, "plan.sql.sql", "def f():\n    from synergy_nb.plan.text import plan_file"),
        (rooms_point_down, "plan.query_plan", "from synergy_nb.plan.derived.spark_parts import parts_of"),
        (rooms_point_down, "dataflow.streams.cursors", ""),
        (rooms_point_down, "dataflow.streams.log.log", "from synergy_nb.dataflow.streams.hosting import roles"),
        (rooms_point_down, "dataflow.streams.log.log", "def f():\n    from ..replicas.sorted_input import in_order"),
        (rooms_point_down, "dataflow.meters", "from synergy_nb.dataflow.streams.log.values import Point"),
        (drivers_stand_apart, "runtime.host", "from synergy_nb.simulator.kernel import World"),
        (algorithms_stand_alone, "algorithms.sharing", "from .composition import messages"),
        (no_outside_world, "overlay.pastry", "import asyncio.queues"),
        (no_outside_world, "simulator.kernel", "from time import monotonic"),
        (no_outside_world, "dataflow.tuples", "import datetime as d\nd.datetime.now()"),
        (only_seeded_randomness, "traces", "import numpy as np\nnp.random.rand(3)"),
        (only_seeded_randomness, "traces", "from random import choice\nchoice([1])"),
        (only_seeded_randomness, "traces", "import random\nrandom.Random()"),
        (only_seeded_randomness, "dataflow.operators.encrypt", "import os\nos.urandom(12)"),
        (few_modules_import_dask, "runtime.host", "import distributed"),
        (few_modules_import_dask, "cli", "from dask import config"),
        (few_modules_import_spark, "runtime.host", "import spark_stream.session"),
        (few_modules_import_spark, "runtime.data.spark_servers", "from pyspark.sql import functions"),
        (few_rooms_know_notebooks, "errors", "import sys\nsys.modules.get('IPython')"),
        (few_rooms_know_notebooks, "runtime.client.cluster", "from IPython import display"),
        (imports_are_declared, "plan", "import left_pad"),
        (names_say_something, "overlay.ring_utils", ""),
        (names_say_something, "overlay.ring", "class LinkManager: ..."),
        (finished, "plan", "x = 1  # TO" + "DO: two"),
        (finished, "plan", "x = 1  # enough for" + " now"),
        (
            private_fields_speak_at_their_lines,
            "plan._one",
            'class A:\n    """A.\n\n    Parameters\n    ----------\n    x\n        A number.\n    """',
        ),
        (named_tests_exist, "plan", "x = 1  # test_that_nobody_has_written fails without it"),
        (mentioned_modules_exist, "plan", "'''See :mod:`.plan.nothing`.'''"),
        (free_of_this_machine, "plan", "'/ro" + "ot/data'"),
        (documented, "plan", "x = 1"),
        (documented, "plan", "'''Doc.'''\nclass A: ..."),
        (documented, "plan", "'''Doc.'''\nclass A:\n    '''Doc.'''\n    def f(self): ..."),
        (errors_share_a_base, "plan", "class BrokenPlan(ValueError): ..."),
        (facts_have_one_home, "dataflow.streams.hosting.exchange", "component.running = True"),
        (facts_have_one_home, "runtime.data.instances", "self._component.external = True"),
        (facts_have_one_home, "spark_stream.query", "self._exchange.inlets = []"),
        (facts_have_one_home, "lifecycle.changes.takeover", "member.leader = ''"),
        (facts_have_one_home, "lifecycle.sessions.feedback", "request.refused_by.add('a')"),
        (facts_have_one_home, "lifecycle.engine", "request.skipped['s'] = None"),
        (facts_have_one_home, "algorithms.replication.placement", "request.alternative = None"),
        (facts_have_one_home, "algorithms.migration._hot_spots", "relief.asked = ''"),
        (facts_have_one_home, "dataflow.streams.hosting.exchange", "cursor.sent, cursor.resend_at = start, None"),
        (hides_no_module, "plan.terms", "from synergy_nb.plan.terms.units import amount as naming"),
        (hides_no_module, "plan.terms", "def naming(): ..."),
        (hides_no_module, "plan.terms", "units: Final = 3"),
    ],
)
def test_a_broken_rule_is_found(rule: Callable[[Module], Iterator[str]], name: str, source: str) -> None:
    assert list(rule(Module(f"{PACKAGE}.{name}", source)))


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (is_on_the_page_of_its_room, "control.ledger", ""),
        (imports_point_down, "cli", "from synergy_nb.runtime import cluster"),
        (imports_point_down, "overlay.directory", "from synergy_nb.overlay.pastry import Pastry"),
        (
            rooms_point_down,
            "dataflow.streams.hosting.roles",
            "from synergy_nb.dataflow.streams.log.values import Point",
        ),
        (facts_have_one_home, "dataflow.streams.component.component_settings", "component.terms = 1.0"),
        (facts_have_one_home, "widgets.report", "component.peer = ''"),
        (facts_have_one_home, "spark_stream.query", "session.release_session_on_close = False"),
        (facts_have_one_home, "lifecycle.engine", "session.on_ended.append(print)"),
        (facts_have_one_home, "lifecycle.records.request", "class A:\n    def f(self): self.refused_by.add('a')"),
        (facts_have_one_home, "dataflow.streams.hosting.exchange", "class A:\n    def f(self): self.sent = 0"),
        (rooms_point_down, "dataflow.streams", "from synergy_nb.dataflow.streams.hosting.hosting import Hosting"),
        (drivers_stand_apart, "runtime.host", "from synergy_nb.runtime import link"),
        (algorithms_stand_alone, "algorithms.composition.probing", "from .messages import Probe"),
        (no_outside_world, "runtime.host", "import asyncio"),
        (only_seeded_randomness, "traces", "import numpy as np\nnp.random.default_rng(3)"),
        (only_seeded_randomness, "traces", "import random\nrandom.Random(3).random()"),
        (few_modules_import_dask, "runtime.process.starting", "import distributed"),
        (few_modules_import_spark, "runtime.data.spark_servers", "from spark_stream import session"),
        (few_modules_import_spark, "cli.doctor", "from spark_stream import java"),
        (few_rooms_know_notebooks, "notebook.watching", "import sys\nsys.modules.get('IPython')"),
        (imports_are_declared, "plan", "import yaml, polars as pl\nfrom collections.abc import Iterator"),
        (names_say_something, "overlay.ring", "class Commonality: ..."),
        (finished, "plan.sql", "kind = 'place" + "holder'"),
        (named_tests_exist, "plan", "x = 1  # test_numbers_agree_with_their_nouns fails without it"),
        (mentioned_modules_exist, "plan", "'''See :mod:`.plan.builder` and :mod:`numpy.random`.'''"),
        (documented, "plan", "'''Doc.'''\ndef _inner(): ..."),
        (
            errors_share_a_base,
            "plan",
            "class Broken(SynergyError, ValueError): ...\nclass _Inner(ValueError): ...",
        ),
        (errors_share_a_base, "plan", "class BrokenSource(PlanError): ..."),
        (hides_no_module, "traces", "from synergy_nb.traces import packets\nfrom synergy_nb.plan import plan"),
    ],
)
def test_a_kept_rule_finds_nothing(rule: Callable[[Module], Iterator[str]], name: str, source: str) -> None:
    assert not list(rule(Module(f"{PACKAGE}.{name}", source)))


@pytest.mark.slow
def test_numbers_agree_with_their_nouns() -> None:
    """``counted`` formats a number with its noun; a number before a plural is wrong when it is 1."""
    plural = re.compile(r"^ (?:more |complete |active )?[a-z]{2,}s\b")
    wrong = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        if path.relative_to(ROOT / PACKAGE).parts[0] in {"algorithms", "dataflow", "models", "plan", "traces"}:
            continue  # most of their numbers are limits, or bytes of frames
        for text in (
            node for node in nodes_of(syntax_tree(path.read_text("utf-8"))) if isinstance(node, ast.JoinedStr)
        ):
            for value, after in pairwise(text.values):
                if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                    continue
                if plural.match(str(after.value)) and re.match(r"len\(|.*\.height$", ast.unparse(value.value)):
                    wrong.append(f"{path.name}:{value.lineno}: {ast.unparse(text)}")
    assert not wrong, "\n".join(wrong)


def test_make_campaign_runs_each_module_with_schedules() -> None:
    """It runs the modules with a line that imports ``tests.campaigns``; whoever runs blocks of schedules has one."""
    command = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "SYNERGY_SCHEDULES" in line)
    assert 'grep -lr --include="test_*.py" "^from tests.campaigns import" tests' in command
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if re.search(r"\b(in_)?blocks\(|SYNERGY_SCHEDULES", text) and path.name != "test_house.py":
            assert re.search(r"^from tests\.campaigns import", text, re.MULTILINE), path.name
