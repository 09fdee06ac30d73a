"""Parts on Spark continue on another server, in a move and after the death of their peer, with the rows of Polars."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from spark_stream.server import Server
from synergy_nb import Application, Cluster, ClusterError, Feed, source, traces
from tests.spark_stream.packet_sums import PACKETS, expected, ordered

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(spark_server: Server) -> Iterator[Cluster]:
    """Peers of which every other has another server; each reads what the other writes, as they are on one machine."""
    with Server() as other:
        other.start()
        urls = [f"{each.url}/;token={each.token}" for each in (spark_server.ready(), other.ready())]
        with Cluster(6, cores=4.0, spark=urls) as started:
            yield started


class Sums:
    """Bytes by source of link B in every second, of rows that are pushed when the test says so."""

    def __init__(self, cluster: Cluster, availability: str | None = None) -> None:
        self.rows = traces.table(PACKETS)
        self.feed = Feed({"link": "str", "source": "str", "bytes": "int"})
        kept = source(self.feed).filter("link = 'B'", engine="peer")
        asked = kept.aggregate("source", "1 s", total="sum(bytes)", engine="spark", id="sums")
        self.application: Application = cluster.submit(asked.sink("sums", availability=availability), timeout=240.0)
        self.names = list(cluster.peers)

    @property
    def at(self) -> str:
        """The peer that has the part."""
        return self.application.explain().peers["sums"]

    def free(self, *taken: str) -> list[str]:
        """Peers that do nothing of it but, perhaps, execute the part."""
        peers = self.application.explain().peers
        busy = {*taken, *(peer for operator, peer in peers.items() if operator != "sums")}
        return [name for name in self.names if name not in busy]

    def apart(self, one: str, other: str) -> bool:
        """Whether two peers have different servers."""
        return self.names.index(one) % 2 != self.names.index(other) % 2

    def begin(self) -> None:
        """Push the first half, until some results are there."""
        self.feed.push(self.rows.head(2000).select(*self.feed.source_columns))
        assert self.application.head(1).height == 1

    def end(self) -> None:
        """Push the rest: all results are as if nothing had happened."""
        with self.feed:
            self.feed.push(self.rows.slice(2000).select(*self.feed.source_columns))
        assert ordered(self.application.results()).equals(expected())


def test_a_part_moves_to_another_server_while_it_works(cluster: Cluster) -> None:
    sums = Sums(cluster)
    sums.begin()
    here = sums.at
    to = next(name for name in sums.free() if sums.apart(name, here))
    cluster.move(sums.application, "sums", to)
    assert sums.at == to
    sums.end()


def test_a_part_goes_on_on_another_server_when_its_peer_is_killed(cluster: Cluster) -> None:
    sums = Sums(cluster, "degree 2")
    explained = sums.application.explain()
    assert explained.replicated is not None
    (backup,) = explained.replicated.backups["sums"]
    here = next(name for name in sums.free(backup) if sums.apart(name, backup))
    while sums.at != here:
        with contextlib.suppress(ClusterError):  # a server of a busy machine may answer too late for the move
            cluster.move(sums.application, "sums", here)
    sums.begin()
    cluster.kill(here)
    sums.end()
    assert sums.at == backup
