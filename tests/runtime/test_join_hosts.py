"""Peers of other hosts join a cluster by a token, and take part at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from synergy_nb import connect_cluster, source, start_cluster
from synergy_nb.runtime.identity.joining import JoinRefused, JoinToken
from synergy_nb.runtime.process.host_peers import join_host
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import check_host
from tests.conftest import ROOT
from tests.runtime.network_namespaces import inside, namespaces_made
from tests.waiting import DEADLINE, until

NAMES: Final = "synergy-first", "synergy-second", "synergy-third"
ADDRESSES: Final = "10.213.78.1", "10.213.78.2", "10.213.78.3"
BRIDGE: Final = "synergy-hosts"


def packets(at: str) -> Any:
    return (
        source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
        .filter("bytes > 0", at=at, id="own")
        .count(window="1 s")
        .sink("joined", id="out")
    )


@pytest.mark.slow(20)
async def test_peers_that_join_by_a_token_take_part_and_clients_learn_of_them() -> None:
    async with await start_cluster(2, spark=False) as cluster:
        token = await cluster.join_token(within="1 min")
        async with await connect_cluster(cluster.local.scheduler_address, spark=False) as other:  # type: ignore[attr-defined]
            joined = await join_host(JoinToken.of(token), 1, "b")
            try:
                await until(lambda: "b-1" in cluster.peers and "b-1" in other.peers)
                assert cluster.peers["b-1"] == joined.peers["b-1"]
                for client in (cluster, other):
                    application = await client.submit(packets("b-1"))
                    assert application.graph["own"] == "b-1"
                    assert (await application.results()).height == 2
                with pytest.raises(JoinRefused, match="it is of another cluster, used up, or has expired"):
                    await join_host(JoinToken.of(token), 1, "c")
                with pytest.raises(
                    ClusterError, match="join_token: the program that started the cluster has its authority"
                ):
                    await other.join_token()
            finally:
                await joined.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "laptop", "10.0.0", "224.0.0.1"])
def test_a_cluster_listens_at_one_address(host: str) -> None:
    with pytest.raises(ValueError, match=r"^host: '.*'; expected one address of this machine"):
        check_host(host)


# -- hosts -----------------------------------------------------------------------------------------------------------


def _links() -> Iterator[list[str]]:
    """The commands that connect the hosts by a bridge."""
    first = ["ip", "-netns", NAMES[0]]
    yield [*first, "link", "add", BRIDGE, "type", "bridge"]
    yield [*first, "address", "add", f"{ADDRESSES[0]}/24", "dev", BRIDGE]
    yield [*first, "link", "set", BRIDGE, "up"]
    yield [*first, "link", "set", "lo", "up"]
    for number, (name, address) in enumerate(zip(NAMES[1:], ADDRESSES[1:], strict=True)):
        yield [*first, "link", "add", f"v{number}", "type", "veth", "peer", "name", "v", "netns", name]
        yield [*first, "link", "set", f"v{number}", "master", BRIDGE, "up"]
        there = ["ip", "-netns", name]
        yield [*there, "address", "add", f"{address}/24", "dev", "v"]
        yield [*there, "link", "set", "v", "up"]
        yield [*there, "link", "set", "lo", "up"]


@pytest.fixture
def hosts() -> Iterator[None]:
    """Three network namespaces with addresses of their own, on a bridge."""
    with namespaces_made(NAMES, *_links()):
        yield


def _on(host: int, *arguments: str) -> list[str]:
    """The command synergy on a host."""
    return inside(NAMES[host], sys.executable, "-m", "synergy_nb", *arguments)


def _up(stack: ExitStack, host: int, *arguments: str) -> dict[str, Any]:
    """``synergy up`` on a host until the end of a test, and what it printed."""
    process = subprocess.Popen(_on(host, "up", *arguments, "--json"), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait, DEADLINE)
    stack.callback(process.terminate)
    assert process.stdout is not None
    stack.callback(process.stdout.close)
    printed = ""
    for line in process.stdout:
        printed += line
        if line == "}\n":
            break
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.mark.slow(60)
def test_peers_of_three_hosts_are_one_cluster(hosts: None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = _up(stack, 0, "--host", ADDRESSES[0], "--peers", "1")
        assert first["scheduler"].startswith(f"tls://{ADDRESSES[0]}:")
        assert first["join"].startswith(f"{ADDRESSES[0]}:")
        more = [_up(stack, host, "--join", first["join"], "--name", f"h{host}", "--peers", "1") for host in (1, 2)]
        assert [[*each["peers"]] for each in more] == [["h1-1"], ["h2-1"]]
        for each, address in zip(more, ADDRESSES[1:], strict=True):
            assert next(iter(each["peers"].values())).startswith(f"tls://{address}:")
        (tmp_path / "plan.yaml").write_text(packets("h2-1").to_yaml(), "utf-8")
        query = _on(0, "run", str(tmp_path / "plan.yaml"), "--scheduler", first["scheduler"], "--json")
        ran = subprocess.run(query, cwd=ROOT, capture_output=True, text=True, timeout=4 * DEADLINE, check=False)
        assert ran.returncode == 0, ran.stderr
        result = json.loads(ran.stdout)
        assert (result["status"], result["peers"], result["placement"]["own"]) == ("finished", 3, "h2-1")
        lost = _on(1, "up", "--join", first["join"], "--name", "h2", "--peers", "1")
        refused = subprocess.run(lost, cwd=ROOT, capture_output=True, text=True, timeout=4 * DEADLINE, check=False)
        assert refused.returncode == 1
        assert "name: 'h2-1' is the name of an existing peer; expected another name, by --name" in refused.stderr
