"""Kafka topics as destinations: each row is a message once, wherever a writer ends; on the client's mock brokers.

These neither hide messages of transactions that were not completed nor refuse an earlier writer, as real brokers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import confluent_kafka
import pytest

from synergy_nb import PlanError, kafka, source
from synergy_nb.connectors import _topic_writer
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.plan import Plan
from synergy_nb.testing import KafkaBrokers
from tests.connectors.broken_disk import COLUMNS, Killed, stream

SIZES = (2, 3)


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaBrokers]:
    with KafkaBrokers() as started:
        yield started


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_topic_writer, "RUN", 1)


def writing(to: dict[str, Any], name: str = "stream", former: tuple[str, ...] = ()) -> SinkReader:
    return SinkReader(writer_of(to, COLUMNS, name, former=former), "it", every=1.0)


def write(to: dict[str, Any], sizes: tuple[int, ...], name: str = "stream", former: tuple[str, ...] = ()) -> int:
    """Write a stream, with a commit after each chunk; the number of rows that were there already."""
    reader = writing(to, name, former)
    try:
        reader.open(ORIGIN)
        for chunk in stream(sizes):
            reader.write([chunk], 0.0)
            reader.commit()
        return reader.repeated
    finally:
        reader.close()


def found(brokers: KafkaBrokers, topic: str, partitions: int) -> list[int]:
    return sorted(row["v"] for number in range(partitions) for row in brokers.values(topic, number))


def test_values_of_a_topic_are_those_of_all_partitions(brokers: KafkaBrokers) -> None:
    brokers.make("both", partitions=2)
    for number in range(2):
        brokers.put("both", [number], number)
    assert brokers.values("both") == [0, 1]
    assert brokers.values("both", 1) == [1]
    with pytest.raises(ValueError, match=r"topic: 'neither'; expected one that is there: .*both"):
        brokers.values("neither")
    with pytest.raises(ValueError, match="partition: 2; expected one from 0 to 1"):
        brokers.values("both", 2)


class Breaking:
    """A producer that ends, as its process might, after some steps, with or without what it has not sent."""

    steps = 0
    halves = False

    def __init__(self, settings: dict[str, Any]) -> None:
        self._made = confluent_kafka.Producer(settings)

    def __len__(self) -> int:
        return len(self._made)

    def __getattr__(self, name: str) -> Any:
        made = getattr(self._made, name)
        if name not in ("begin_transaction", "commit_transaction", "flush", "produce"):
            return made

        def step(*given: Any, **named: Any) -> Any:
            Breaking.steps -= 1
            if Breaking.steps < 0:
                if Breaking.halves:
                    self._made.flush()
                self._made.purge(in_flight=False)
                self._made.flush()  # what is on its way arrives: only real brokers refuse it from now on
                raise Killed
            return made(*given, **named)

        return step


@pytest.mark.slow
def test_a_writer_that_ends_at_any_step_leaves_what_the_next_one_completes(
    brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in count():
        topic = f"steps-{steps}"
        brokers.make(topic, 2)
        to = kafka(topic, brokers.servers, key="text" if steps // 2 % 2 else None)
        Breaking.steps, Breaking.halves = steps, bool(steps % 2)
        with monkeypatch.context() as patch:
            patch.setattr(_topic_writer, "client_library", lambda: _Broken)
            try:
                write(to, SIZES)
                whole = True
            except Killed:
                whole = False
        if not whole:
            write(to, (1, 4))
        assert found(brokers, topic, 2) == list(range(5))
        if whole:
            assert steps > 10
            return


class _Broken:
    """The client library with producers that end."""

    Consumer, TopicPartition, KafkaException = (
        confluent_kafka.Consumer,
        confluent_kafka.TopicPartition,
        confluent_kafka.KafkaException,
    )
    Producer = Breaking


@pytest.mark.slow
def test_what_is_whole_is_not_written_again_and_a_stream_that_grows_goes_on(brokers: KafkaBrokers) -> None:
    brokers.make("whole", 3)
    to = kafka("whole", brokers.servers)
    write(to, SIZES)
    brokers.put("whole", [{"v": -1}] * 200, 1)  # of somebody else
    assert write(to, (*SIZES, 4)) == 5
    assert write(to, (9,)) == 9
    assert found(brokers, "whole", 3) == [-1] * 200 + list(range(9))
    assert write(to, (1,), "another stream") == 0


@pytest.mark.slow
def test_a_stream_goes_on_where_the_one_before_it_has_ended(brokers: KafkaBrokers) -> None:
    brokers.make("changed", 2)
    to = kafka("changed", brokers.servers)
    write(to, (2, 1), "old")
    assert write(to, (2, 3), "new", ("old",)) == 3
    assert write(to, (4, 4), "newest", ("new", "old")) == 5
    assert found(brokers, "changed", 2) == list(range(8))
    assert write(to, (3, 1), "old") == 3, "the old stream goes on by itself"
    assert found(brokers, "changed", 2) == [0, 1, 2, 3, 3, 4, 5, 6, 7]


@pytest.mark.slow
def test_rows_with_one_key_are_in_one_partition_in_order(brokers: KafkaBrokers) -> None:
    brokers.make("keys", 4)
    reader = writing(kafka("keys", brokers.servers, key="text"))
    reader.open(ORIGIN)
    reader.write(stream((40,)), 0.0)
    reader.commit()
    reader.close()
    parts = [[row["v"] for row in brokers.values("keys", number)] for number in range(4)]
    assert sorted(v for part in parts for v in part) == list(range(40))
    assert all(part == sorted(part) for part in parts)
    assert sum(bool(part) for part in parts) > 1


@pytest.mark.slow
def test_brokers_that_are_gone_make_it_unavailable(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.make("gone")
    to = kafka("gone", brokers.servers)
    reader = writing(to)
    reader.open(ORIGIN)
    reader.write(stream((3,)), 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(_topic_writer, "PATIENCE_S", 0.1)
        brokers.go()
        with pytest.raises(SinkUnavailable, match="topic 'gone': "):
            reader.commit()
        with pytest.raises(SinkUnavailable, match="topic 'gone': "):
            reader.open(ORIGIN)
    brokers.come()
    reader.close()
    write(to, (3,))
    assert found(brokers, "gone", 1) == [0, 1, 2]


def test_a_topic_that_is_not_there_fails(brokers: KafkaBrokers) -> None:
    with pytest.raises(SinkFailed, match="topic 'none': it is not there; expected"):
        write(kafka("none", brokers.servers), (1,))


def test_a_destination_in_a_topic_is_the_same_in_python_and_as_a_file() -> None:
    to = kafka("large", ["a.local:9092"], key="link", user="ann", password="shop", tls=True, every="2 s")
    plan = source("packets").sink("out", to=to)
    for text in (Plan.from_yaml(plan.to_yaml()), Plan.from_bytes(plan.to_bytes())):
        assert text.operators["sink"].params["to"] == to
    written: dict[str, Any] = {}
    exec(plan.to_python(), written)
    assert written["query"].operators["sink"].params["to"] == to
    with pytest.raises(PlanError, match="columns of the stream as the key"):
        source("packets").sink("out", to=kafka("large", "a:1", key="none"))
