"""Kafka topics on real peers: the one that reads is killed, and the one that writes, and each row comes once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from synergy_nb import Cluster, Feed, csv, kafka, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.runtime.process import starting
from synergy_nb.testing import KafkaBrokers
from tests.waiting import asked_until

COLUMNS = {"time": "time", "n": "int"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have peers ask one another less often: on a busy machine they would take each other for dead."""
    monkeypatch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)


def kill(cluster: Cluster, peer: str) -> None:
    state = cluster.states()[peer]
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)


def put(brokers: KafkaBrokers, start: int, stop: int) -> None:
    """Add rows to all partitions of the topic that is read."""
    for partition in range(3):
        brokers.put("read", [{"time": n, "n": n} for n in range(start, stop) if n % 3 == partition], partition)


def written(brokers: KafkaBrokers) -> list[int]:
    rows: list[dict[str, Any]] = brokers.values("written", 0) + brokers.values("written", 1)
    return sorted(row["n"] for row in rows)


@pytest.mark.slow(20)
def test_each_message_is_read_and_written_once_though_peers_are_killed() -> None:
    with KafkaBrokers() as brokers, Cluster(4, cores=1.0, spark=False) as cluster:
        brokers.make("read", 3)
        brokers.make("written", 2)
        messages = source(
            "kafka", servers=brokers.servers, topic="read", columns=COLUMNS, lateness="1 day", id="messages",
            availability="degree 2", readers=2,
        )  # fmt: skip
        reading = cluster.submit(
            messages.filter("n >= 0", id="kept").sink("out", availability="active 2"), origin="peer-1"
        )
        put(brokers, 0, 500)
        assert sorted(reading.head(500)["n"].to_list()) == list(range(500))
        first = reading.graph["messages_1"]
        assert reading.graph["messages_2"] != first
        kill(cluster, first)
        put(brokers, 500, 1000)
        assert sorted(reading.head(1000)["n"].to_list()) == list(range(1000))
        assert reading.graph["messages_1"] != first
        second = reading.graph["messages_2"]
        cluster.move(reading, "messages_2", next(each for each in cluster.peers if each not in (first, second)))
        put(brokers, 1000, 1100)
        assert sorted(reading.head(1100)["n"].to_list()) == list(range(1100))
        assert reading.graph["messages_2"] != second
        reading.stop()

        feed = Feed({"n": "int"})
        origin, writer, _ = (each for each in cluster.peers if each != first)
        to = kafka("written", brokers.servers, every="20 ms")
        plan = source(feed, id="rows", at=origin).sink("out", to=to, availability="degree 2", at=writer)
        writing = cluster.submit(plan, origin=origin)
        pushed = 0

        def push(count: int) -> None:
            nonlocal pushed
            for n in range(pushed, pushed + count):
                feed.push({"time": n / 1000, "n": n})
            pushed += count

        push(500)
        asked_until(lambda: written(brokers))
        kill(cluster, writer)
        while writing.status == "running" and writing.graph["sink"] == writer:
            push(20)
        push(500)
        feed.close()
        assert writing.wait(60.0) == "finished", writing.reason
        assert written(brokers) == list(range(pushed))


@pytest.mark.slow(5)
def test_after_the_death_of_all_each_partition_is_read_on_by_its_reader(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    def rows() -> list[int]:
        if not out.exists():
            return []
        return sorted(int(line.split(",")[1]) for line in out.read_text("utf-8").split("\n")[1:-1])

    with KafkaBrokers() as brokers:
        brokers.make("read", 3)
        messages = source(
            "kafka", servers=brokers.servers, topic="read", columns=COLUMNS, lateness="1 day", id="messages", readers=2
        )
        put(brokers, 0, 300)
        with Cluster(2, cores=1.0, spark=False, durable=tmp_path / "folder") as cluster:
            cluster.submit(messages.sink("out", to=csv(out, every="20 ms")))
            asked_until(lambda: len(rows()) >= 300)
        put(brokers, 300, 600)
        with Cluster(1, cores=1.0, spark=False, durable=tmp_path / "folder") as cluster:
            (application,) = cluster.applications.values()
            asked_until(lambda: len(rows()) >= 600)
            assert application.plan.operators["messages_2"].params["share"] == "2 of 2"
            assert "nothing is lost" in str(application.explain())
            application.stop()
    assert rows() == list(range(600))
