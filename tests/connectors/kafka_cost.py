"""Measures what our Kafka source costs beside the client alone: ``python -m tests.connectors.kafka_cost [MESSAGES]``.

Mock brokers hold a topic of some partitions, with messages in JSON of three columns. A process of its own each time
reads all of them: by the client alone, which takes the bytes of each message, by the client and ``msgspec`` into
dictionaries, and by our source into typed tables in the order of their times. The output is the processor time for a
message, with the client's own threads but without the brokers, as the least of some rounds, and the ratios.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from synergy_nb.connectors._kafka_clients import client_library
from synergy_nb.testing import KafkaBrokers
from tests.connectors.declared import declared

MESSAGES: Final = 240_000
PARTITIONS: Final = 4
ROUNDS: Final = 5
AT_ONCE: Final = 10_000


def _client(servers: str, count: int, each: Callable[[list[Any]], object]) -> None:
    kafka = client_library()
    consumer = kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "alone", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    )
    consumer.assign([kafka.TopicPartition("topic", number, 0) for number in range(PARTITIONS)])
    while count > 0:
        messages = consumer.consume(AT_ONCE, 0.0) or consumer.consume(1, 0.1)
        count -= len(messages)
        each([message.value() for message in messages if message.error() is None])
    consumer.close()


def _alone(servers: str, count: int) -> None:
    _client(servers, count, len)


def _decoded(servers: str, count: int) -> None:
    decode = msgspec.json.Decoder().decode
    _client(servers, count, lambda values: [decode(value) for value in values])


def _ours(servers: str, count: int) -> None:
    source = declared("kafka", servers=servers, topic="topic")
    source.open(None)
    while count > 0:
        answer = source.poll(0.1)
        count -= len(answer.rows) if answer is not None else 0
    source.close()


READERS: Final = {"the client alone": _alone, "with msgspec": _decoded, "our source": _ours}


def _measured(name: str, servers: str, count: int, answer: Any) -> None:
    read = READERS[name]
    began, used = time.perf_counter(), time.process_time()
    read(servers, count)
    answer.put((time.process_time() - used, time.perf_counter() - began))


def main(count: int) -> None:
    """Measure, and print what was found."""
    apart = multiprocessing.get_context("spawn")
    with KafkaBrokers() as brokers:
        brokers.make("topic", PARTITIONS)
        for number in range(PARTITIONS):
            brokers.put(
                "topic", ({"time": n, "n": n, "word": f"w{n}"} for n in range(number, count, PARTITIONS)), number
            )
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for name in READERS:
                answer: Any = apart.Queue()
                process = apart.Process(target=_measured, args=(name, brokers.servers, count, answer))
                process.start()
                found.setdefault(name, []).append(answer.get(timeout=300))
                process.join()
    alone = min(found["the client alone"])[0]
    for name, each in found.items():
        used, seconds = min(each)
        print(f"{name}: {used / count * 1e6:.2f} µs of a processor a message, {used / alone:.2f} times the client's")
        print(f"  {count / seconds:,.0f} messages/s in the quickest round, {count / used:,.0f} a second of a processor")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES)
