"""``kafka``: processor time of a row from one topic to another, of each part, and of the client library alone.

Mock brokers in this process hold a topic of messages in JSON. Paths on peers, in processes of their own, read all of
it: a source alone; with keyed state, a lookup, a folder of Parquet files and another topic behind it, one part more
each time; all of these with the topic written by another peer; and with a class of one's own as the keyed state. The
client library alone consumes the same messages, and produces those that the sink writes. A path reads a small topic
first: that time is subtracted, as it is that of setting up.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
import psutil

from synergy_experiments.bench.measurements import Usage, machine_load, measurement, spread
from synergy_nb import keyed
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.plan import plan as one_plan
from synergy_nb.plan.operators.destinations import kafka as topic
from synergy_nb.plan.operators.destinations import parquet
from synergy_nb.runtime.client.cluster import Cluster
from synergy_nb.testing import KafkaBrokers

__all__ = ["kafka"]

COLUMNS: Final = {"time": "time", "user": "str", "item": "int", "amount": "float"}
PARTITIONS: Final = 16
USERS: Final = 977
ITEMS: Final = 5_000
EACH_US: Final = 5  # between two rows, microseconds of event time
AT_ONCE: Final = 10_000  # messages that the client is asked for
TARGET: Final = 200_000.0  # rows/s on two cores
RATIO: Final = 1.5  # of the time of the client alone
PARTS: Final = ("source", "keyed state", "lookup", "parquet", "topic")
WHOLE: Final = PARTS[-1]
APART: Final = "topic, by another peer"
HEADER: Final = "synergy"


@keyed(columns={"item": "int", "total": "float", "n": "int"}, needs=["item", "amount"])
class _Totals:
    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def on_rows(self, _key: str, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.total += row["amount"]
            self.n += 1
            yield {"item": row["item"], "total": self.total, "n": self.n}


def kafka(*, small: bool = False) -> dict[str, Any]:
    """Rows/s that two processors allow, from a topic to Parquet and a topic; in the detail what each part costs."""
    rows, few, repeats = (3_000, 500, 1) if small else (400_000, 20_000, 3)
    load = machine_load()
    client: dict[str, list[float]] = {}
    paths: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    at_brokers: list[float] = []
    with KafkaBrokers() as brokers, tempfile.TemporaryDirectory() as folder, Cluster(2, spark=False) as cluster:
        _fill(brokers, "few", few)
        _fill(brokers, "rows", rows)
        brokers.make("alone", PARTITIONS)
        place = _Place(brokers, cluster, Path(folder))
        for name in _PATHS:  # which loads what is loaded once
            place.used(name, "few", few)
        for _ in range(repeats):
            for name in _ALONE:
                client.setdefault(name, []).append(_alone(name, brokers, rows) / rows * 1e6)
            for name in _PATHS:
                before_it, used = place.used(name, "few", few), place.used(name, "rows", rows)
                cpu, others, seconds = (all_of - some for all_of, some in zip(used, before_it, strict=True))
                paths.setdefault(name, []).append(cpu / (rows - few) * 1e6)
                rates.setdefault(name, []).append((rows - few) / max(seconds, 1e-3))
                if name == WHOLE:
                    at_brokers.append(others / (rows - few) * 1e6)
    least = {name: min(each) for name, each in paths.items()}
    alone = {name: min(each) for name, each in client.items()}
    readings = {
        "bytes": alone["consumes"] + alone["produces"],
        "bytes and headers": alone["consumes"] + alone["produces with headers"],
        "dictionaries and headers": alone["consumes dictionaries"] + alone["produces dictionaries with headers"],
    }
    whole = least[WHOLE]
    detail = {
        "way": "microseconds of a processor a row, of peers without the brokers, the least of the runs; a row has "
        f"{len(COLUMNS)} columns in JSON, {USERS} keys and one of {ITEMS:,} rows of a table",
        "rows": rows,
        "client_us": {name: spread(each, digits=3) for name, each in client.items()},
        "paths_us": {name: spread(each, digits=3) for name, each in paths.items()},
        "parts_us": {
            name: round(least[name] - (least[PARTS[place - 1]] if place else 0.0), 3)
            for place, name in enumerate(PARTS)
        },
        "tuples/s": {name: spread(each, digits=0) for name, each in rates.items()},
        "brokers_us": spread(at_brokers, digits=3),
        "to_client": {name: round(whole / each, 3) for name, each in readings.items()},
        "beside_client": {name: round((whole - each) / each, 3) for name, each in readings.items()},
        "source_to_client": {
            name: round(least["source"] / alone[name], 3) for name in ("consumes", "consumes dictionaries")
        },
        "target": {"tuples/s": TARGET, "ratio": RATIO},
        "load": {"before": load, "after": machine_load()},
    }
    return measurement("kafka", 2e6 / max(whole, 0.1), "tuples/s", detail)


def _values(rows: int, partition: int) -> Iterator[dict[str, Any]]:
    """What the messages of a partition say."""
    for n in range(partition, rows, PARTITIONS):
        clock = 1_700_000_000 + n * EACH_US / 1e6
        yield {"time": clock, "user": f"user{n * 7919 % USERS}", "item": n * 31 % ITEMS, "amount": n % 1000 * 0.25}


def _fill(brokers: KafkaBrokers, name: str, rows: int) -> None:
    brokers.make(name, PARTITIONS)
    for partition in range(PARTITIONS):
        brokers.put(name, _values(rows, partition), partition)


# -- the paths ---------------------------------------------------------------------------------------------------------


def _state(rows: Stream) -> Stream:
    return rows.over("user", "1 s", total="sum(amount)", n="count(*)", at="peer-1")


def _class_state(rows: Stream) -> Stream:
    return rows.apply_keyed(_Totals, key="user", at="peer-1")


#: What is behind the source on each path: its keyed state, and the number of parts after that.
_PATHS: Final[Mapping[str, tuple[Callable[[Stream], Stream] | None, int]]] = {
    "source": (None, 0),
    **{name: (_state, more) for more, name in enumerate(PARTS[1:])},
    APART: (_state, len(PARTS) - 2),
    "topic, with a class": (_class_state, len(PARTS) - 2),
}


class _Place:
    """Where the paths are executed."""

    def __init__(self, brokers: KafkaBrokers, cluster: Cluster, folder: Path) -> None:
        self._brokers = brokers
        self._cluster = cluster
        self._folder = folder
        self._numbers = count()
        self._items = pl.DataFrame({"item": np.arange(ITEMS), "name": [f"item {each}" for each in range(ITEMS)]})

    def used(self, name: str, read: str, rows: int) -> tuple[float, float, float]:
        """Processor seconds of a path over so many rows, of peers and of this process with the brokers; and seconds."""
        number = next(self._numbers)
        plan = self._path(name, read, number)
        used = time.process_time()
        processes = [each.pid for each in psutil.Process().children()]  # peers, and what executes their functions
        with Usage(processes, descendants=True) as usage:
            application = self._cluster.submit(plan, origin="peer-2")
            status = application.wait(300.0)
        used = time.process_time() - used
        assert status == "finished", application.reason
        application.stop()
        self._check(name, number, rows)
        return usage.cpu, used, usage.wall

    def _path(self, name: str, read: str, number: int) -> Plan:
        state, more = _PATHS[name]
        stream = source(
            "kafka", servers=self._brokers.servers, topic=read, columns=COLUMNS, ends=True, id="rows", at="peer-1"
        )
        if state is not None:
            stream = state(stream)
        if more > 0:
            stream = stream.lookup(self._items, on="item", at="peer-1")
        sinks = []
        if more > 1:
            sinks.append(stream.sink("files", to=parquet(str(self._files(number))), id="files", at="peer-1"))
        if more > 2:
            self._brokers.make(self._topic(number), PARTITIONS)
            to = topic(self._topic(number), self._brokers.servers, key="user")
            sinks.append(stream.sink("messages", to=to, id="messages", at="peer-2" if name == APART else "peer-1"))
        return one_plan(*sinks) if sinks else stream.sink("none", at="peer-1")

    def _files(self, number: int) -> Path:
        return self._folder / f"files-{number}"

    def _topic(self, number: int) -> str:
        return f"messages-{number}"

    def _check(self, name: str, number: int, rows: int) -> None:
        """Assert that a path has written each row once, where it was to."""
        if (files := self._files(number)).exists():
            found = pl.read_parquet(files / "*.parquet", columns=["n"])
            assert found.height == rows, f"{found.height} rows are in the files; expected {rows}"
        if _PATHS[name][1] > 2:
            sent = len(self._brokers.values(self._topic(number)))
            assert sent == rows, f"{sent} rows are in the topic; expected {rows}"


# -- the client alone ------------------------------------------------------------------------------------------------


def _consumed(servers: str, rows: int, each: Callable[[list[Any]], object]) -> float:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - an extra

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "alone", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition("rows", number, 0) for number in range(PARTITIONS)])
    used = time.process_time()
    while rows > 0:
        messages = consumer.consume(AT_ONCE, 0.0) or consumer.consume(1, 0.1)
        rows -= len(messages)
        each([message.value() for message in messages if message.error() is None])
    used = time.process_time() - used
    consumer.close()
    return used


def _produced(servers: str, rows: int, *, encodes: bool, headed: bool) -> float:
    """Produce in transactions of as many rows as the sink writes in a second at the target."""
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    made = [
        {**value, "total": value["amount"] * 100, "n": place, "name": f"item {value['item']}"}
        for partition in range(PARTITIONS)
        for place, value in enumerate(_values(rows, partition))
    ]
    encode = msgspec.json.Encoder().encode
    values: list[Any] = made if encodes else list(map(encode, made))
    keys = [value["user"].encode() for value in made]
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": f"alone {encodes} {headed}", "linger.ms": 5}
        | {"compression.type": "lz4", "queue.buffering.max.messages": 1_000_000}
    )
    producer.init_transactions(30.0)
    used = time.process_time()
    for begin in range(0, rows, int(TARGET)):
        producer.begin_transaction()
        for place in range(begin, min(begin + int(TARGET), rows)):
            value, key = values[place], keys[place]
            text = encode(value) if encodes else value
            if headed:
                headers: list[tuple[str, str | bytes | None]] = [
                    (HEADER, b"0123456789abcdef %d %d 16" % (place, begin))
                ]
                producer.produce("alone", text, key, place % PARTITIONS, headers=headers)
            else:
                producer.produce("alone", text, key, place % PARTITIONS)
        producer.flush(30.0)
        producer.commit_transaction(30.0)
    return time.process_time() - used


def _decoded(servers: str, rows: int) -> float:
    decode = msgspec.json.Decoder().decode
    return _consumed(servers, rows, lambda values: [decode(value) for value in values])


def _headed(servers: str, rows: int) -> float:
    return _produced(servers, rows, encodes=False, headed=True)


def _encoded(servers: str, rows: int) -> float:
    return _produced(servers, rows, encodes=True, headed=True)


_ALONE: Final[Mapping[str, Callable[[str, int], float]]] = {
    "consumes": lambda servers, rows: _consumed(servers, rows, len),
    "consumes dictionaries": _decoded,
    "produces": lambda servers, rows: _produced(servers, rows, encodes=False, headed=False),
    "produces with headers": _headed,
    "produces dictionaries with headers": _encoded,
}


def _measured(name: str, servers: str, rows: int, answer: Any) -> None:
    answer.put(_ALONE[name](servers, rows))


def _alone(name: str, brokers: KafkaBrokers, rows: int) -> float:
    """Processor seconds of the client alone, in a process of its own, with its own threads."""
    apart = multiprocessing.get_context("spawn")
    answer: Any = apart.Queue()
    process = apart.Process(target=_measured, args=(name, brokers.servers, rows, answer))
    process.start()
    process.join()
    assert process.exitcode == 0, f"the client alone: {name}: it ended with exit code {process.exitcode}"
    found: float = answer.get()
    return found
