"""What the project is installed from: pins with hashes, licences, a bill of materials, builds that can be repeated; and
that a run tells nobody of itself."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from supply_chain.licences import refused
from supply_chain.materials import PROJECT, Material, bill, in_the_bundle, installed, needed
from supply_chain.materials import main as write_bill
from supply_chain.pins import CONSTRAINTS, PINS, TOOLS, extras, pins_of, plain, versions
from tests.conftest import ROOT

FILES = {path.stem: pins_of(path.read_text("utf-8")) for path in sorted(PINS.glob("*.txt"))}


def test_every_pin_has_hashes_and_no_index() -> None:
    assert set(FILES) == {"base", *extras(), *TOOLS}
    for name, pins in FILES.items():
        assert pins, name
        for line, block in pins.items():
            assert re.fullmatch(r"[a-z0-9.-]+==[^ ;]+( ; .+)?", line), f"{name}: {line}"
            assert re.fullmatch(r"[^\n]+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), f"{name}: {block}"
        assert "://" not in (PINS / f"{name}.txt").read_text("utf-8")


def test_the_constraints_are_the_pins_without_hashes() -> None:
    stated = {line for line in CONSTRAINTS.read_text("utf-8").splitlines() if not line.startswith("#")}
    assert stated == set(plain(line for pins in FILES.values() for line in pins))


def test_constraints_have_one_version_of_a_package_for_each_python() -> None:
    one = "a==1 ; python_full_version < '3.12'"
    other = "a==2 ; python_full_version >= '3.12'"
    assert plain([one, other, "b==1 ; os_name == 'nt'", "b==1"]) == [one, other, "b==1"]
    lines = CONSTRAINTS.read_text("utf-8").splitlines()
    bare = [line.partition("==")[0] for line in lines if "==" in line and ";" not in line]
    assert len(bare) == len({*bare})


@pytest.mark.slow
def test_all_that_an_installation_needs_is_pinned() -> None:
    pinned = {pin.partition("==")[0] for pin in versions(FILES["base"])}
    assert needed().keys() - pinned == {PROJECT}


@pytest.mark.slow
def test_the_licences_of_all_packages_are_allowed() -> None:
    python = list(installed())
    assert len(python) > 100
    assert not [why for name, licence in python if (why := refused(name, licence))]


def test_a_licence_is_refused_by_name() -> None:
    for expression in ("MIT", "GPL-3.0-only OR MIT", "(MIT OR GPL-3.0-only) AND Apache-2.0 WITH LLVM-exception"):
        assert not refused("a", expression)
    assert refused("a", "MIT AND GPL-3.0-only").startswith("a: MIT AND GPL-3.0-only; expected licences of 0BSD, ")
    assert "state no licence that is known" in refused("a", "")
    assert "is no SPDX expression" in refused("a", "BSD-like")


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / "synergy_nb/widgets/js/node_modules").is_dir(),
    reason="the bundle was not built here",
)
def test_the_bill_names_all_packages_with_licences_and_hashes(tmp_path: Path) -> None:
    assert not [why for material in in_the_bundle() if (why := refused(material.name, material.licence))]
    write_bill([str(tmp_path / "a.json")])
    write_bill([str(tmp_path / "b.json")])
    text = (tmp_path / "a.json").read_text("utf-8")
    assert text == (tmp_path / "b.json").read_text("utf-8")
    components = {each["name"]: each for each in json.loads(text)["components"]}
    assert {"numpy", "pyspark", "uplot", "d3-color"} <= components.keys()
    assert all("licenses" in each for each in components.values())
    assert all("hashes" in each for each in components.values() if each["purl"].startswith("pkg:pypi/"))
    assert not {"pytest", "ruff"} & components.keys()  # of the tests alone


def test_a_bill_that_is_not_valid_is_not_written() -> None:
    project = Material("pypi", PROJECT, "1.0", "Apache-2.0")
    assert '"specVersion": "1.6"' in bill([project])
    with pytest.raises(ValueError, match="the bill is no CycloneDX"):
        bill([project._replace(hashes=("no hash",))])


# -- builds ----------------------------------------------------------------------------------------------------------


def _built(folder: Path, to: Path) -> dict[str, str]:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(to)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=200)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in to.iterdir()}


@pytest.mark.slow(15)
def test_wheel_and_sdist_are_the_same_wherever_they_are_built(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "copy"
    left_out = (".git", ".venv", "node_modules", "build", "dist", ".*_cache", ".hypothesis", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*left_out), copy_function=shutil.copy)  # as of now
    here = _built(ROOT, tmp_path / "one")
    assert len(here) == 2
    assert _built(copy, tmp_path / "two") == here


# -- no telemetry ----------------------------------------------------------------------------------------------------

# Each interpreter imports this module as it starts, before any other code; an audit hook cannot be taken back.
WATCHED = """
import ipaddress, os, sys

def note(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
            said = f"{event} {address}"
        else:
            said = "loopback"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        try:
            if host is None or ipaddress.ip_address(host):
                return
        except ValueError:
            pass
        if host in ("localhost", "", None):
            return
        said = f"{event} {host}"
    else:
        return
    fd = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (said + "\\n").encode())
    os.close(fd)

sys.addaudithook(note)
"""
RUN = """
import synergy_nb

if __name__ == "__main__":
    packets = synergy_nb.source("packets", seed=1, rate="1000 tuples/s", duration="1 s", speed=0)
    with synergy_nb.Cluster(2, spark=False) as cluster:
        application = cluster.submit(packets.count(window="1 s", name="packets").sink())
        assert len(application.results()["packets"]) == 1
"""


def _watched(code: str, folder: Path) -> set[str]:
    (folder / "sitecustomize.py").write_text(textwrap.dedent(WATCHED), "utf-8")
    (folder / "run.py").write_text(textwrap.dedent(code), "utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "WATCHED": str(folder / "connections"),
    }
    subprocess.run([sys.executable, str(folder / "run.py")], env=environment, check=True, timeout=200)
    return set((folder / "connections").read_text("utf-8").splitlines())


@pytest.mark.slow(15)
def test_a_run_connects_to_nothing_beyond_the_loopback(tmp_path: Path) -> None:
    assert _watched(RUN, tmp_path) == {"loopback"}


def test_a_connection_beyond_the_loopback_would_be_seen(tmp_path: Path) -> None:
    told = """
    import contextlib, socket
    with contextlib.suppress(OSError), socket.socket() as one:
        one.settimeout(0)
        one.connect(("192.0.2.1", 9))  # an address of documentation, which leads nowhere
    """
    assert _watched(told, tmp_path) == {"socket.connect ('192.0.2.1', 9)"}
