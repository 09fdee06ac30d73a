"""Kafka brokers on the loopback, in this process: the mock cluster that the client library brings with it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

__all__ = ["KafkaBrokers"]

_PRODUCER: Final = 0  # kind of a client in C
_WITHIN: Final = 30.0  # time limit for the brokers to answer, seconds


def _library() -> Any:
    """The client library in C that the package has been built with."""
    import confluent_kafka  # noqa: PLC0415 - an extra

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


class KafkaBrokers:
    """Kafka brokers in this process, for tests and examples: they hold topics in memory, up to 5 MB a partition.

    They end with the context, or with the process. They know no passwords and no TLS, and hide no rows of transactions
    that are open or aborted. They need ``pip install 'synergy-nb[kafka]'`` on Linux.

    Parameters
    ----------
    brokers
        Number of brokers, from 1 on.

    Attributes
    ----------
    servers : str
        Addresses of the brokers, as ``source("kafka", servers=...)`` takes them.

    Examples
    --------
    >>> from synergy_nb.testing import KafkaBrokers
    >>> with KafkaBrokers() as brokers:
    ...     brokers.make("orders", partitions=2)
    ...     brokers.put("orders", [{"time": "2026-01-01T00:00:00Z", "amount": 3}], partition=1)
    ...     brokers.values("orders", partition=1)
    [{'time': '2026-01-01T00:00:00Z', 'amount': 3}]
    """

    def __init__(self, brokers: int = 1) -> None:
        if brokers < 1:
            raise ValueError(f"brokers: {brokers}; expected one at least")
        from confluent_kafka import Producer  # noqa: PLC0415 - an extra

        self._library = _library()
        text = ctypes.create_string_buffer(512)
        configured = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(configured, b"log_level", b"0", text, 512)
        self._client = ctypes.c_void_p(self._library.rd_kafka_new(_PRODUCER, configured, text, 512))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._client, brokers))
        self.servers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1, "log_level": 0})

    def make(self, topic: str, partitions: int = 1) -> None:
        """Make a topic.

        Parameters
        ----------
        topic
            Name of the topic, which is not there yet.
        partitions
            Number of its partitions.

        Raises
        ------
        ValueError
            If it is there already.
        """
        if self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1):
            raise ValueError(f"topic: {topic!r}; expected one that is not there yet, and a partition at least")

    def put(self, topic: str, values: Iterable[Any], partition: int = 0) -> None:
        """Add messages to a partition, and wait until it has them.

        Parameters
        ----------
        topic
            Name of the topic.
        values
            Values of the messages: bytes as they are, None for none, all else as JSON.
        partition
            Number of the partition, from 0 on.

        Raises
        ------
        TypeError
            If one value is given in place of several.
        ValueError
            If the topic has no such partition.
        TimeoutError
            If the brokers do not take them within 30 s.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        if isinstance(values, str | bytes | Mapping):
            raise TypeError(f"values: {values!r}; expected a list of the values of messages, as [{values!r}]")
        said: list[Any] = []  # of each message the error with which it ended, or None
        for value in values:
            sent = value if isinstance(value, bytes) or value is None else msgspec.json.encode(value)
            try:
                self._producer.produce(
                    topic, sent, partition=partition, on_delivery=lambda error, _: said.append(error)
                )
            except KafkaException as error:
                said.append(error.args[0])
        if left := self._producer.flush(_WITHIN):
            raise TimeoutError(f"topic: {topic!r}: {left} messages were not taken within {_WITHIN:g} s")
        if wrong := [error for error in said if error is not None]:
            raise ValueError(f"topic: {topic!r}, partition: {partition}: {wrong[0].str()}")

    def values(self, topic: str, partition: int | None = None) -> list[Any]:
        """Return the values of all messages of a topic, which are JSON.

        Parameters
        ----------
        topic
            Name of the topic.
        partition
            Number of the partition, from 0 on; None: of all, one after the other.

        Returns
        -------
        list
            The values, in the order of each partition.

        Raises
        ------
        ValueError
            If the topic or the partition is not there.
        """
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - an extra

        reader = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "reader", "enable.partition.eof": True}
            | {"fetch.wait.max.ms": 1}
        )
        found: list[Any] = []
        try:
            topics = reader.list_topics(timeout=_WITHIN).topics
            if topic not in topics:
                raise ValueError(f"topic: {topic!r}; expected one that is there: {', '.join(sorted(topics)) or 'none'}")
            there = sorted(topics[topic].partitions)
            if partition is not None and partition not in there:
                raise ValueError(f"partition: {partition!r}; expected one from 0 to {there[-1]}")
            for number in there if partition is None else [partition]:
                reader.assign([TopicPartition(topic, number, 0)])
                while (message := reader.poll(_WITHIN)) is not None and message.error() is None:
                    found.append(message)
        finally:
            reader.close()
        return [msgspec.json.decode(each.value()) for each in found]

    def go(self, broker: int = 1) -> None:
        """Let a broker be gone.

        Parameters
        ----------
        broker
            Number of the broker, from 1 on.
        """
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def come(self, broker: int = 1) -> None:
        """Let a broker be there again.

        Parameters
        ----------
        broker
            Number of the broker, from 1 on.
        """
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def __enter__(self) -> KafkaBrokers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del self._producer
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)
