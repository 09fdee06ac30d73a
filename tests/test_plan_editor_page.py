"""The modules of the plan editor's page that need no browser: YAML, operations, edits before an answer, layout."""

from __future__ import annotations

import os
import subprocess

import pytest

from hatch_build import NO_NODE, environment, find_npm
from tests.conftest import ROOT


def test_what_the_page_does_without_a_browser() -> None:
    npm = find_npm()
    if npm is None:
        pytest.skip(NO_NODE)
    done = subprocess.run(
        ["node", "--test", str(ROOT / "tests" / "plan_editor_page.mjs")],
        env={**os.environ, **environment(npm)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 0" not in done.stdout
