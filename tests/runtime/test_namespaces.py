"""Two peers in network namespaces of their own, on a link that loses all frames of one direction for a while."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.runtime.network_namespaces import inside, namespaces_made, run
from tests.waiting import DEADLINE

NAMES: Final = "synergy-here", "synergy-there"
ADDRESSES: Final = "10.213.77.1", "10.213.77.2"
LINKS: Final = "veth-here", "veth-there"
NOBODY: Final = "02:00:00:00:00:99"  # address on the link that no interface has


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Two namespaces on a pair of interfaces."""
    pair = (
        "ip",
        "link",
        "add",
        LINKS[0],
        "netns",
        NAMES[0],
        "type",
        "veth",
        "peer",
        "name",
        LINKS[1],
        "netns",
        NAMES[1],
    )
    with namespaces_made(NAMES, pair):
        for name, link, address in zip(NAMES, LINKS, ADDRESSES, strict=True):
            run(*inside(name, "ip", "address", "add", f"{address}/24", "dev", link))
            run(*inside(name, "ip", "link", "set", link, "up"))
            run(*inside(name, "ip", "link", "set", "lo", "up"))
        yield


@pytest.fixture
def scheduler(namespaces: None) -> Iterator[str]:
    """The address of a scheduler, at which a worker in each namespace registers."""
    address = f"tcp://{ADDRESSES[0]}:8786"
    common = ("--no-dashboard",)
    commands = [
        inside(NAMES[0], sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", ADDRESSES[0],
               "--port", "8786", *common)
    ]  # fmt: skip
    for name, at in zip(NAMES, ADDRESSES, strict=True):
        short = name.removeprefix("synergy-")
        commands.append(
            inside(name, sys.executable, "-m", "distributed.cli.dask_worker", address, "--host", at, "--name", short,
                   "--nthreads", "1", "--no-nanny", *common)
        )  # fmt: skip
    processes = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for each in commands]
    try:
        yield address
    finally:
        for process in processes:
            process.kill()  # a worker whose scheduler has ended may look for it for longer than a test waits
        for process in processes:
            process.wait(DEADLINE)


@pytest.mark.slow(20)
def test_a_link_that_is_deaf_in_one_direction_loses_no_row(scheduler: str) -> None:
    """Frames of the far peer go to nobody; TCP sends them again, later and later.

    For a second, and for so long that the far peer is declared dead, which takes 2.5 s where nothing else runs.
    """
    deaf = " ".join(inside(NAMES[1], "ip", "neighbour", "replace", ADDRESSES[0], "lladdr", NOBODY, "dev", LINKS[1]))
    heal = " ".join(inside(NAMES[1], "ip", "neighbour", "delete", ADDRESSES[0], "dev", LINKS[1]))
    client = inside(
        NAMES[0], sys.executable, "-m", "tests.runtime.divided_query", scheduler, deaf + " nud permanent", heal
    )
    ended = subprocess.run([*client, "1", "5.5"], capture_output=True, text=True, timeout=6 * DEADLINE, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    for found in json.loads(ended.stdout.splitlines()[-1]):
        assert (found["status"], found["equal"], found["ApplicationFailed"]) == ("finished", True, 0), found
        assert found["rows"] > 0
