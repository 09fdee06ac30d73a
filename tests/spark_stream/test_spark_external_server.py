"""Clusters that use another owner's Spark server, or none."""

from __future__ import annotations

import pytest

from spark_stream.server import Server
from synergy_nb import Cluster
from synergy_nb.runtime.process.requests import ClusterError
from tests.spark_stream.packet_sums import expected, ordered, sums

pytestmark = pytest.mark.slow


def test_a_server_elsewhere_is_used_by_its_url(spark_server: Server) -> None:
    endpoint = spark_server.ready()
    url = f"{endpoint.url}/;token={endpoint.token}"
    with Cluster(2, cores=4.0, spark=url) as cluster:
        application = cluster.submit(sums("spark", speed=0.0), timeout=240.0)
        assert ordered(application.results()).equals(expected())


def test_without_spark_the_refusal_says_so() -> None:
    with Cluster(1, spark=False) as cluster, pytest.raises(ClusterError, match="it was started without"):
        cluster.submit(sums("spark", speed=0.0))


def test_an_url_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="sc://HOST"):
        Cluster(1, spark="http://somewhere")


@pytest.mark.parametrize("word", ["off", "local"])
def test_a_word_of_the_command_is_refused_with_the_values_of_python(word: str) -> None:
    with pytest.raises(ValueError, match=rf"^spark: '{word}'; expected True \(a server of this machine\), False"):
        Cluster(1, spark=word)
