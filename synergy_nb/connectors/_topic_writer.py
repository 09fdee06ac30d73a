"""A Kafka topic as the destination of a stream, one message a row.

Theory of operation
-------------------
Rows wait in memory until the next commit, which writes them in one transaction. Each message has a header ``synergy``:
the stream, the position of the row, the position at which its commit began, and the number of partitions. The last
message of a commit, which is sent when the brokers have all others, also has the position at which the commit ends. So
the newest messages of the partitions say how far the topic has the stream:

- up to the end of the last commit whose last message is there;
- and beyond it those rows of each partition that are not behind its newest message, where a commit has no last message.

The latter is only there where readers see messages of transactions that were not completed. A partition has the rows
that fall to it in the order of the stream, without gaps, since the producer is idempotent. To which partition a row
falls is a matter of its key, or else of its position, so it is known which rows are there.

The id of the transactions is that of topic and stream. So brokers refuse an earlier writer, such as a peer that was
suspended and was taken for dead, as soon as the next one has opened the topic.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from typing import Any, Final, NamedTuple

import polars as pl

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._appended_file import as_text
from synergy_nb.connectors._kafka_clients import FOR_GOOD, client_library, partitions_of, settings, told
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sinks.buffering import BufferedWriter
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import Batch

__all__ = ["TopicWriter"]

HEADER: Final = "synergy"
RUN: Final = 1000  # rows without a key that come to one partition before the next one has its turn
COMMIT_S: Final = 30.0  # longest time that brokers may take to complete a transaction, seconds
_NEWEST: Final = 16  # messages among which the newest one of a stream is looked for first
_WIDER: Final = 8  # factor by which more are looked at if it is not among them
_LATER: Final = ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")  # errors of a writer that another one follows


class _Messages(NamedTuple):
    """Messages of a batch, column by column: a tuple for each would cost as much as a column."""

    positions: list[int]  # positions of their rows
    partitions: list[int]
    keys: list[bytes | None]
    values: list[bytes]


class _Mark(NamedTuple):
    """What the header of a message says."""

    position: int  # position of its row
    begins: int  # position at which its commit begins
    partitions: int  # number of partitions among which rows were divided
    ends: Point | None  # where its commit ends, if it is the last message of it


class TopicWriter(BufferedWriter):
    """Writes a stream to a topic."""

    def __init__(self, to: Mapping[str, Any], streams: Sequence[str], secrets: Secrets) -> None:
        super().__init__()
        self._to = to
        self._topic: str = to["topic"]
        self._name = f"topic {self._topic!r}"
        self._key: str | None = to.get("key")
        self._streams = [hashlib.sha256(each.encode()).hexdigest()[:16] for each in streams]
        self._stream = self._streams[0]
        self._unfinished = self._streams[1:]  # streams whose writers may have left a transaction
        self._settings = settings(to, secrets)
        self._producer: Any = None
        self._errors: list[Any] = []  # what the client has told of
        self._partitions: list[int] = []
        self._committed = 0  # position up to which the topic has the stream
        self._there: dict[int, _Mark] = {}  # newest messages of a commit that was not completed, by partition

    def _begin(self) -> Point | None:
        """Return how far the topic has the stream; from here on the brokers refuse an earlier writer."""
        self._errors = []
        kafka, reader = client_library(), None
        with self._explained():
            try:
                # producers make topics that are not there, consumers do not
                reader = kafka.Consumer(
                    self._settings
                    | {"group.id": "synergy", "enable.auto.commit": False, "enable.partition.eof": True}
                    | {"fetch.wait.max.ms": 10, "auto.offset.reset": "earliest", "error_cb": self._errors.append}
                )
                self._partitions = partitions_of(reader, self._topic, PATIENCE_S)
                for stream in self._unfinished:  # a transaction of the writer before is completed, or aborted
                    self._opened_producer(stream)
                self._unfinished = []
                self._producer = self._opened_producer(self._stream)
                found = self._newest(reader)
            finally:
                if reader is not None:
                    reader.close()
        if not found:
            self._committed, self._there = 0, {}
            return None
        last = max(Point(mark.begins, ORIGIN.until) if mark.ends is None else mark.ends for mark in found.values())
        self._committed = last.position
        self._there = {number: mark for number, mark in found.items() if mark.position >= self._committed}
        return last

    def _opened_producer(self, stream: str) -> Any:
        """Return a producer of a stream; from here on the brokers refuse an earlier one."""
        producer = client_library().Producer(
            self._settings
            | {"transactional.id": f"synergy {self._topic} {stream}", "error_cb": self._errors.append}
            | {
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
                "delivery.report.only.error": True,
            }
        )
        producer.init_transactions(PATIENCE_S)
        return producer

    def _newest(self, reader: Any) -> dict[int, _Mark]:
        """Return what the newest message of this stream in each partition says, where there is one."""
        place = client_library().TopicPartition
        found: dict[int, _Mark] = {}
        for number in self._partitions:
            low, upto = reader.get_watermark_offsets(place(self._topic, number), timeout=PATIENCE_S)
            wide = _NEWEST
            while number not in found and upto > low:
                begin = max(low, upto - wide)
                reader.assign([place(self._topic, number, begin)])
                for message in self._messages(reader, upto):
                    mark = self._mark(message)
                    if mark is not None:
                        found[number] = mark
                wide, upto = wide * _WIDER, begin
        return found

    def _messages(self, reader: Any, upto: int) -> Iterator[Any]:
        """Yield the messages of the partition that is read, before an offset."""
        while True:
            message = reader.poll(PATIENCE_S)
            if message is None:
                error = told(self._errors)
                raise SinkUnavailable(f"{self._name}: {'no broker answers' if error is None else error.str()}")
            error = message.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise client_library().KafkaException(error)
            if error is not None or message.offset() >= upto:
                return
            yield message
            if message.offset() == upto - 1:
                return

    def _mark(self, message: Any) -> _Mark | None:
        """What a message says, if it is one of this stream."""
        for name, value in message.headers() or ():
            if name == HEADER and value is not None:
                stream, *numbers = value.decode("utf-8", "replace").split()
                if stream in self._streams:
                    position, begins, partitions, *ends = map(int, numbers)
                    return _Mark(position, begins, partitions, Point(*ends) if ends else None)
        return None

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Write rows in a transaction."""
        if not batches:
            self._committed = max(self._committed, point.position)
            return
        sent = [self._sent(batch) for batch in batches]
        count = sum(len(each.values) for each in sent)
        messages = chain.from_iterable(zip(*each, strict=True) for each in sent)
        with self._explained():
            if count:
                self._producer.begin_transaction()
                if count > 1:
                    self._send(islice(messages, count - 1), None)
                    self._flush()
                self._send(messages, point)
                self._flush()
                self._producer.commit_transaction(COMMIT_S)
        self._committed = point.position
        self._there = {number: mark for number, mark in self._there.items() if mark.position >= point.position}

    def _sent(self, batch: Batch) -> _Messages:
        """Return the messages of a batch, less those that the topic has of a commit that was not completed."""
        text, lines = as_text(batch.table), io.BytesIO()
        text.write_ndjson(lines)
        values = lines.getvalue().split(b"\n")[:-1]
        positions = list(range(batch.position, batch.position + len(values)))
        keys: list[bytes | None] = [None] * len(values)
        if self._key is not None:
            keys = text.get_column(self._key).cast(pl.String).cast(pl.Binary).to_list()
        for number, mark in self._there.items():
            partitions = _partitions_of(mark.partitions, positions, keys)
            lacks = [
                position > mark.position or partition != number
                for position, partition in zip(positions, partitions, strict=True)
            ]
            positions, keys = list(compress(positions, lacks)), list(compress(keys, lacks))
            values = list(compress(values, lacks))
        return _Messages(positions, _partitions_of(len(self._partitions), positions, keys), keys, values)

    def _send(self, messages: Iterable[tuple[int, int, bytes | None, bytes]], ends: Point | None) -> None:
        """Pass messages to the client; ``ends``: where the commit ends, if the last message of it is among them."""
        produce, topic = self._producer.produce, self._topic
        end = "" if ends is None else f" {ends.position} {ends.until}"
        before, behind = f"{self._stream} ".encode(), f" {self._committed} {len(self._partitions)}{end}".encode()
        for position, partition, key, value in messages:
            headers = [(HEADER, b"%b%d%b" % (before, position, behind))]
            while True:
                try:
                    produce(topic, value, key, partition, headers=headers)
                except BufferError:
                    self._producer.poll(0.1)
                    continue
                break

    def _flush(self) -> None:
        """Wait until the brokers have all messages."""
        left = len(self._producer)
        while left and (still := self._producer.flush(PATIENCE_S)):
            if still < left:
                left = still
                continue
            error = told(self._errors)
            raise SinkUnavailable(f"{self._name}: {'no broker answers' if error is None else error.str()}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of the client as those of a destination."""
        try:
            yield
        except client_library().KafkaException as raised:
            error = told(self._errors) or raised.args[0]
            if error.name() in _LATER:
                raise SinkFailed(f"{self._name}: another writer has opened it; expected one at a time") from None
            if error.name() in FOR_GOOD:
                raise SinkFailed(f"{self._name}: {error.str()}; expected a topic that may be written to") from None
            raise SinkUnavailable(f"{self._name}: {error.str()}") from None
        except ValueError as error:
            raise SinkFailed(str(error)) from None

    def _release(self) -> None:
        """Let the client go; what was not committed is discarded."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()


def _partitions_of(partitions: int, positions: Sequence[int], keys: Sequence[bytes | None]) -> list[int]:
    """Return the partition, of so many, to which each row falls."""
    return [
        (position // RUN if key is None else zlib.crc32(key)) % partitions
        for position, key in zip(positions, keys, strict=True)
    ]
