"""Folders that earlier versions have written: an application in each goes on with the rows of an undisturbed run.

``python -m tests.durable.test_durable_versions FOLDER`` writes such a folder with this version. Those of released
versions stay as they are.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.plan import Plan
from synergy_nb.simulator.scripted_faults import Faults
from tests.durable.durable_world import DurableWorld, MemoryFiles
from tests.moving_schedules import undisturbed
from tests.stream_schedules import finish, inputs_of, sorted_rows, stream

PLAN = (
    stream("n").filter("v <> 3", id="f").union(stream("m"), id="u")
    .aggregate(by=["v"], window="300 ms", total="count(*)", id="agg").sink("out", id="out")
)  # fmt: skip
INPUTS = inputs_of(random.Random(1), PLAN, rows=40)
WRITTEN = sorted(Path(__file__).parent.glob("version_*"))


def world(seed: int, peers: str) -> DurableWorld:
    made = DurableWorld(seed, peers, Faults(), segment=1 << 20, small=100)
    made.clients["app", "out"] = 1e9  # nobody reads the results before the peers are killed
    made.deploy("app", PLAN, dict.fromkeys(PLAN.operators, peers[0]), INPUTS)
    return made


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_an_application_goes_on_from_the_folder_of_an_earlier_version(path: Path) -> None:
    folder = DurableFolder(path)
    folder.check()
    (kept,) = folder.applications()
    assert Plan.from_bytes(kept.plan).to_bytes() == PLAN.to_bytes()  # later versions may add fields
    assert kept.id == "app"
    folder.check_application("app")
    files = folder.files("app")
    assert any(".p" in name for name in files.names())

    went_on = world(2, "x")
    went_on.run(0.01)
    went_on.kill_all("yz")
    went_on.disk["app"] = MemoryFiles()
    for name in files.names():
        went_on.disk["app"].append(name, files.read(name))
    went_on.restart("app", {name: "yz"[number % 2] for number, name in enumerate(PLAN.operators)}, random.Random(3))
    went_on.clients["app", "out"] = 0.02
    went_on.collect_again("app", "out")
    finish(went_on)
    assert not went_on.failures(), went_on.failures()
    assert sorted_rows(went_on.results["app", "out"].rows) == sorted_rows(undisturbed(PLAN, INPUTS))


def write(path: Path) -> None:
    """Write the folder of an application that was killed in the middle of its run."""
    killed = world(1, "ab")
    killed.pace = 0.05
    killed.run(1.6)
    killed.kill_all("c")
    folder = DurableFolder(path)
    folder.prepare()
    folder.keep(KeptApplication("app", PLAN.to_bytes(), "composed", 0.0), {})
    files = folder.files("app")
    for name, data in killed.disk["app"].found.items():
        files.append(name, data)
        files.sync()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
