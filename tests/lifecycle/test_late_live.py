"""Live peers whose processes are stopped, and continued after they have been declared dead: nothing ends or is lost."""

from __future__ import annotations

import pytest

from synergy_nb import Application, Cluster, Plan, source
from synergy_nb.events import ApplicationContinued, ApplicationPaused, PeerDeclaredDead
from synergy_nb.runtime.client.following import follow_journals
from tests.following import heard
from tests.waiting import asked_until


def query(at: str, availability: str | None = None, speed: float = 1.0) -> Plan:
    """A query for which its source sets the pace, until it is told to hurry; source and filter are at one peer each."""
    packets = source("packets", rate="100 tuples/s", duration="2 min", seed=3, speed=speed, id="packets", at="peer-3")
    large = packets.filter("bytes > 100", id="large", at=at)
    return large.aggregate("source", "500 ms", total="sum(bytes)", id="by").sink("out", availability=availability)


def until_declared(cluster: Cluster, peer: str) -> None:
    """Wait until another peer has declared a peer dead."""
    address = cluster.peers[peer]
    heard(
        follow_journals(cluster),
        lambda events: any(isinstance(each, PeerDeclaredDead) and each.subject == address for each in events),
    )


def rows(application: Application) -> list[tuple[object, ...]]:
    """All rows of an application that has them already, or whose source gives the rest at once."""
    return application.results().sort("source", "window_end").rows()


@pytest.mark.slow
def test_a_query_without_backups_is_paused_while_a_peer_is_stopped() -> None:
    with Cluster(4, cores=1.0, spark=False) as cluster:
        undisturbed = rows(cluster.submit(query("peer-2", speed=0.0), origin="peer-1"))
        application = cluster.submit(query("peer-2"), origin="peer-1")
        application.head(5)
        cluster.suspend("peer-2")
        asked_until(lambda: application.status == "paused")
        assert application.reason.startswith("waiting for peer-2 (")
        assert "large" in application.reason
        assert application.explain().outcome == f"paused: {application.reason}"
        cluster.resume("peer-2")
        cluster.pace(application, "packets", 1000)
        assert rows(application) == undisturbed
        assert application.wait() == "finished"
        happened = [type(each) for each in application.events()]
        assert happened.index(ApplicationPaused) < happened.index(ApplicationContinued)


@pytest.mark.slow(30)
def test_a_query_leads_on_when_its_stopped_origin_continues() -> None:
    with Cluster(5, cores=1.0, spark=False) as cluster:
        undisturbed = rows(cluster.submit(query("peer-2", speed=0.0), origin="peer-1"))
        application = cluster.submit(query("peer-2", "degree 2"), origin="peer-1")
        application.head(5)
        cluster.suspend("peer-1")
        until_declared(cluster, "peer-1")
        asked_until(lambda: application.reason == "waiting for peer-1, which leads it and does not answer")
        cluster.resume("peer-1")
        cluster.pace(application, "packets", 1000)
        assert rows(application) == undisturbed
        assert application.wait() == "finished"
        assert application.origin == "peer-1"
