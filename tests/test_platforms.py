"""What works on a system without fork, memory files and POSIX modules, as ``docs/deploy.md`` says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT


@pytest.mark.slow
def test_without_fork_everything_but_peers_works_and_these_say_what_they_need() -> None:
    command = [sys.executable, "-m", "tests.other_system"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows, refusal = done.stdout.splitlines()
    assert rows == "2 rows"
    assert refusal.startswith("peer processes need os.fork, which ")


def test_containers_join_the_first_one_by_the_token_that_it_prints(tmp_path: Path) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services["first"]["command"] == [
        '.venv/bin/synergy up --host "$$(hostname -i)" --peers 2 --json | tee /token/first.json'
    ]
    (joins,) = services["host"]["command"]
    (tmp_path / "first.json").write_text(json.dumps({"scheduler": "tls://a:1", "join": "a:2/F/S"}, indent=2))
    line = joins.replace("$$", "$").replace("/token", str(tmp_path)).replace(".venv/bin/python", sys.executable)
    shown = subprocess.run(
        ["sh", "-c", line.replace("exec .venv/bin/synergy", "echo")], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "up --peers 2 --join a:2/F/S\n"
    steps = (ROOT / "Containerfile").read_text().splitlines()
    assert "RUN .ci/setup" in steps
    assert (ROOT / ".ci" / "setup").exists()
