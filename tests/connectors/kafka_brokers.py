"""Kafka brokers on the loopback: the mock cluster that the client library brings with it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import confluent_kafka
import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

_PRODUCER: Final = 0  # kind of a client in C


def _library() -> Any:
    """The client library in C that the package has been built with."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
    for name, result in (
        ("rd_kafka_conf_new", ctypes.c_void_p),
        ("rd_kafka_new", ctypes.c_void_p),
        ("rd_kafka_mock_cluster_new", ctypes.c_void_p),
        ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p),
    ):
        getattr(library, name).restype = result
    return library


class Brokers:
    """One mock broker, or several; it holds topics in memory, on no port that is known before."""

    def __init__(self, brokers: int = 1) -> None:
        self._library = _library()
        text = ctypes.create_string_buffer(512)
        configured = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        for name, value in ((b"log_level", b"0"),):
            self._library.rd_kafka_conf_set(configured, name, value, text, 512)
        self._client = ctypes.c_void_p(self._library.rd_kafka_new(_PRODUCER, configured, text, 512))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._client, brokers))
        self.servers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1, "log_level": 0})

    def make(self, topic: str, partitions: int = 1) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1) == 0

    def put(self, topic: str, values: Iterable[Any], partition: int = 0) -> None:
        """Add messages; what are no bytes already become JSON."""
        for value in values:
            sent = value if isinstance(value, bytes) or value is None else msgspec.json.encode(value)
            self._producer.produce(topic, sent, partition=partition)
        assert self._producer.flush(30.0) == 0

    def values(self, topic: str, partition: int = 0) -> list[Any]:
        """All messages of a partition, as JSON."""
        reader = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "reader", "enable.partition.eof": True}
            | {"fetch.wait.max.ms": 1}
        )
        found: list[Any] = []
        try:
            reader.assign([TopicPartition(topic, partition, 0)])
            while (message := reader.poll(30.0)) is not None and message.error() is None:
                found.append(message)
        finally:
            reader.close()
        return [msgspec.json.decode(each.value()) for each in found]

    def go(self, broker: int = 1) -> None:
        """Let a broker be gone."""
        assert self._library.rd_kafka_mock_broker_set_down(self._cluster, broker) == 0

    def come(self, broker: int = 1) -> None:
        """Let a broker be there again."""
        assert self._library.rd_kafka_mock_broker_set_up(self._cluster, broker) == 0

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del self._producer
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)
