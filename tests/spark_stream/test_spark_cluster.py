"""Plans with parts on Spark, on real peers: the same rows as on peers alone, through moves and the death of a peer.

A measurement kills the server (``test_bench``), and what it costs is checked there, as a start of one takes long.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from synergy_nb import Cluster, NotAdmitted
from tests.skipped_rows import ROWS, assert_told, few, rows_of, written
from tests.spark_stream.packet_sums import expected, ordered, sums

pytestmark = pytest.mark.slow


def test_a_part_on_spark_gives_the_rows_of_peers(spark_peers: Cluster) -> None:
    application = spark_peers.submit(sums("spark", speed=0.0), timeout=240.0)
    assert ordered(application.results()).equals(expected())
    explained = application.explain()
    assert explained.engines["aggregate"] == ("spark", "asked for by the plan")
    assert explained.selected is not None
    assert explained.selected.delay_s > 0.05  # a micro-batch is part of the projected delay


def test_malformed_lines_that_spark_skips_are_told(spark_peers: Cluster, tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", 150, 320)
    read = rows_of(path, id="read", engine="spark").filter("v >= 0", engine="spark")
    application = spark_peers.submit(read.sink("rows"), timeout=240.0)
    assert application.results().height == ROWS - 2
    assert len({application.graph["read"], application.graph["filter"]}) == 1
    assert_told(application, few(path, 152, 2), "read")


def elsewhere(cluster: Cluster, peer: str) -> str:
    """Another peer."""
    return next(name for name in cluster.peers if name != peer)


def test_a_part_on_spark_moves_while_it_works_and_back_again(spark_peers: Cluster) -> None:
    application = spark_peers.submit(sums("spark", speed=1.0), timeout=240.0)
    first = application.explain().peers["aggregate"]
    other = elsewhere(spark_peers, first)
    spark_peers.move(application, "aggregate", other)
    assert application.explain().peers["aggregate"] == other
    spark_peers.move(application, "aggregate", first)
    assert ordered(application.results()).equals(expected())


def test_a_part_on_spark_goes_on_at_its_backup_when_its_peer_is_killed(spark_peers: Cluster) -> None:
    """Peers are left for all other tests, also those of which a measurement names the peers."""
    application = spark_peers.submit(sums("spark", speed=1.0, availability="degree 2"), timeout=240.0)
    peers = application.explain().peers
    stay = {peers["source"], peers["sink"], "peer-1", "peer-2"}
    if peers["aggregate"] in stay:
        spark_peers.move(application, "aggregate", next(name for name in spark_peers.peers if name not in stay))
    killed = application.explain().peers["aggregate"]
    spark_peers.kill(killed)
    assert ordered(application.results()).equals(expected())
    assert application.explain().peers["aggregate"] != killed


def test_a_limit_that_a_micro_batch_breaks_is_refused_with_the_numbers(spark_peers: Cluster) -> None:
    with pytest.raises(NotAdmitted, match="delay"):
        spark_peers.submit(sums("spark", speed=1.0, delay="20 ms"), timeout=240.0)


def test_an_analyst_has_a_session_on_the_same_server(spark_peers: Cluster) -> None:
    assert spark_peers.spark_session().range(5).count() == 5
