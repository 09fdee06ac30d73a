"""The messages of a Kafka topic, one row a message.

Theory of operation
-------------------
One reader has all partitions, without a group of readers: which rows are known is said by our snapshots alone. The
position is, for each partition, the offset of the next message, and the greatest event time before it.

The partitions are merged by event time. Rows of a partition count as its greatest time so far, so they keep their
order. A row is given when no earlier one can come from another partition: when each has a later row, or none that was
not read yet (it is at its end). So a topic that is read again gives the same rows in the same order, however its
messages come; only what arrives at the ends of partitions may come in another order, which is why backups have the rows
of such a source before anybody else. A partition that is at its end is not waited for: it may be silent for long.

A partition that is far ahead of the others is paused, so that few rows wait here.

Where several peers read the topic, what each of them gives may not follow from when it reads. So they wait for
partitions that are at their ends, too, promise nothing in their place, and read no partition that is added.

Of several readers each has the partitions whose numbers have its remainder, and merges those. What follows waits for
the promises of all readers. So one whose partitions are all at their ends, or that has none, looks at the last messages
of the others' partitions, and promises the time that they had some seconds ago: as in one reader, a partition that is
at its end is not waited for.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import methodcaller
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import polars as pl

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._avro import decoder_of
from synergy_nb.connectors._kafka_clients import FOR_GOOD, client_library, partitions_of, settings, told
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.dataflow.tuples import START, empty
from synergy_nb.traces.line_tables import LineTables

MOST_MESSAGES: Final = 10_000  # messages that are taken at a time
AHEAD: Final = 50_000  # rows of a partition that wait for those of others, at most
LOOK_S: Final = 30.0  # time between two looks for new partitions, seconds
IDLE_S: Final = 2.0  # time between two looks at partitions of other readers, while there is nothing to read, seconds
GLANCE: Final = 10  # last messages of each of these that are looked at: those of transactions end with a mark
GLANCE_S: Final = 1.0  # longest time that such a look waits for the brokers, seconds
SILENT_S: Final = 5.0  # time after which it is said that a partition is waited for, seconds
_error, _partition, _value = methodcaller("error"), methodcaller("partition"), methodcaller("value")


class _Rows(NamedTuple):
    """Rows of a partition that wait for those of others."""

    table: pl.DataFrame
    keys: np.ndarray[Any, np.dtype[np.int64]]  # greatest event times up to each of them, microseconds
    offsets: np.ndarray[Any, np.dtype[np.int64]]  # offsets of their messages

    def head(self, count: int) -> _Rows:
        """The first rows."""
        return _Rows(self.table.head(count), self.keys[:count], self.offsets[:count])

    def rest(self, count: int) -> _Rows:
        """All but the first rows."""
        return _Rows(self.table.slice(count), self.keys[count:], self.offsets[count:])


@dataclass
class _Partition:
    """One partition, and how far it is."""

    number: int
    read: int  # offset of the next message to come
    given: int  # offset of the first message that was not given
    reached: int | None = None  # greatest event time that was given, microseconds
    latest: int | None = None  # greatest event time that was read, microseconds
    waiting: list[_Rows] = field(default_factory=list)  # rows that were not given
    count: int = 0  # number of these
    at_end: bool = False  # whether there was no message behind those that were read
    was_at_end: bool = False
    paused: bool = False
    since: float = 0.0  # time at which something came last, seconds


class TopicSource(Source):
    """The messages of a topic."""

    repeats: ClassVar[bool] = False  # a topic forgets its oldest messages

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self.parts: dict[int, _Partition] = {}  # by their numbers
        self._params = params
        self._secrets = secrets
        self._topic: str = params["topic"]
        self._name = f"topic {self._topic!r}"
        self._latest, self._ends = params.get("start") == "latest", bool(params.get("ends"))
        self._schema = schema
        self._lines = LineTables(self._name, schema, params)
        self._decode: Callable[[bytes], Any] | None = None  # None: messages in JSON
        self._consumer: Any = None
        self._errors: list[Any] = []  # what the client has told of
        self._said: list[str] = []  # what is to be said with the next rows
        self._told_silent: set[int] = set()  # partitions of which it was said that they are waited for
        self._told_new = False  # whether it was said that a partition is not read
        self._look = 0.0  # time of the next look for new partitions, seconds
        self._begun = False  # whether the position was given at which it was opened
        self._reader, self._readers = 0, 1
        self._others: list[int] = []  # partitions of other readers
        self._looked_at: dict[int, int] = {}  # of those whose last messages are awaited: how many may come
        self._elsewhere: int | None = None  # greatest event time among them, microseconds
        self._told_until = START  # the last such time that was promised
        self._glance = 0.0  # time of the next look at them, seconds
        self._glanced = LineTables(self._name, schema, {**params, "tolerance": 1.0, "strict": False})
        self._lateness = round((params.get("lateness") or 0.0) * 1e6)
        self._agrees = False  # whether other peers read the same, while messages come

    def split(self, reader: int, readers: int) -> None:
        """Read every ``readers``-th partition, from the one with the number ``reader`` on."""
        self._reader, self._readers = reader, readers

    def agree(self) -> None:
        """Give the rows in an order that does not depend on when messages come; one that ends does so anyway."""
        self._agrees = not self._ends

    def open(self, position: Any) -> None:
        """Go on behind a position, or at the beginning or the end of the topic."""
        kafka = client_library()
        self._decode = decoder_of(self._params)
        self._errors, self._said, self._begun = [], [], False
        self._told_silent.clear()
        self._consumer = kafka.Consumer(
            settings(self._params, self._secrets)
            | {
                "group.id": "synergy",  # needed, and not used: nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,  # so long it takes until the end of a partition is known
                "fetch.queue.backoff.ms": 10,  # the client pauses so long once 100,000 messages wait for us: else 1 s
                "error_cb": self._errors.append,
            }
        )
        try:
            numbers = self._own()
            if self._agrees and position is not None:
                numbers = [each for each in numbers if str(each) in position]
            self.parts = {number: self._begin(number, position) for number in numbers}
        except kafka.KafkaException as error:
            raise self._fault(told(self._errors) or error.args[0]) from None
        for number in sorted(set(map(int, position or {})) - set(numbers)):
            self._said.append(f"{self._name}: partition {number} is not there any more: its rows are lost")
        if not numbers:
            self._said.append(
                f"{self._name}: reader {self._reader + 1} of {self._readers} has no partition, as there are "
                f"{len(self._others)}: fewer readers suffice"
            )
        self._assign()
        self._look = time.monotonic() + LOOK_S
        self._elsewhere, self._told_until, self._glance = None, START, time.monotonic()

    def _own(self) -> list[int]:
        """Numbers of its partitions that are there."""
        there = partitions_of(self._consumer, self._topic, PATIENCE_S)
        own = [number for number in there if number % self._readers == self._reader]
        self._others = sorted({*there} - {*own})
        return own

    def _begin(self, number: int, position: Any) -> _Partition:
        """Say where a partition begins, and what is lost of it."""
        place = client_library().TopicPartition(self._topic, number)
        low, high = self._consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        if position is None:
            at = high if self._latest else low
            return _Partition(number, at, at, since=time.monotonic())
        at, reached = position.get(str(number), (low, None))
        if at < low:
            self._said.append(f"{self._name}: partition {number}: offsets {at} to {low - 1} are deleted: lost")
            at = low
        elif at > high:
            self._said.append(
                f"{self._name}: partition {number}: it ends at offset {high}, and was read up to {at}: it was made "
                "anew, and is read from its beginning"
            )
            at = low
        return _Partition(number, at, at, reached, reached, since=time.monotonic())

    def _assign(self) -> None:
        place = client_library().TopicPartition
        self._consumer.assign([place(self._topic, each.number, each.read) for each in self.parts.values()])
        self._looked_at.clear()
        for each in self.parts.values():
            each.paused = False

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows of the messages that have come."""
        if not self._begun:
            self._begun = True
            return Polled(empty(self._schema), self._position, said=self._taken())
        now = time.monotonic()
        if now >= self._look:
            self._look = now + LOOK_S
            self._find_new()
        messages = self._consumer.consume(MOST_MESSAGES, 0.0)
        if not messages:
            first = self._consumer.poll(seconds)
            messages = [] if first is None else [first]
        if not messages and (error := told(self._errors)) is not None:
            raise self._fault(error)
        if messages:
            self._errors.clear()
        if self._looked_at:
            messages = self._glimpsed(messages)
        rows = self._rows(messages)
        until = None if self._readers == 1 or self._agrees else self._promised(now, idle=not messages)
        self._hold_back()
        said = (*self._taken(), *self._lines.said())
        ends = self._ends and all(each.was_at_end and not each.count for each in self.parts.values())
        if not (rows.height or said or ends) and until is None:
            return None
        return Polled(rows, self._position, ends, said, self._lines.skipped, until)

    def _promised(self, now: float, *, idle: bool) -> int | None:
        """Event time before which none of its rows comes, as the others' were there some time ago, microseconds.

        ``idle``: whether nothing has come.
        """
        if not idle or any(each.count or not each.at_end for each in self.parts.values()):
            self._elsewhere, self._glance = None, now + IDLE_S
            return None
        if now < self._glance:
            return None
        until, self._elsewhere, self._glance = self._elsewhere, None, now + IDLE_S
        self._look_elsewhere()
        if until is None or until <= self._told_until:
            return None
        self._told_until = until
        return until - self._lateness

    def _look_elsewhere(self) -> None:
        """Ask for the last messages of the other readers' partitions, until one does not answer."""
        kafka = client_library()
        asked = []
        with contextlib.suppress(kafka.KafkaException):  # whoever reads that partition says so
            for number in self._others:
                place = kafka.TopicPartition(self._topic, number)
                low, high = self._consumer.get_watermark_offsets(place, timeout=GLANCE_S)
                if high > low and number not in self._looked_at:
                    asked.append(kafka.TopicPartition(self._topic, number, max(low, high - GLANCE)))
        if asked:
            self._consumer.incremental_assign(asked)
            self._looked_at |= {each.partition: GLANCE for each in asked}

    def _glimpsed(self, messages: list[Any]) -> list[Any]:
        """Note the times of messages of other readers; return those of its own partitions."""
        own, done = [], set()
        for message in messages:
            number = message.partition()
            if number not in self._looked_at:
                own.append(message)
                continue
            left = self._looked_at[number] = self._looked_at[number] - 1
            if message.error() is None and message.value() is not None:
                table, _ = self._table([message], self._glanced)
                for time_of in table.get_column("time").to_physical():
                    self._elsewhere = max(time_of, time_of if self._elsewhere is None else self._elsewhere)
            if left <= 0 or message.error() is not None:
                done.add(number)
        if done:
            place = client_library().TopicPartition
            self._consumer.incremental_unassign([place(self._topic, number) for number in done])
            for number in done:
                del self._looked_at[number]
        return own

    @property
    def _position(self) -> dict[str, list[int | None]]:
        return {str(each.number): [each.given, each.reached] for each in self.parts.values()}

    def _taken(self) -> tuple[str, ...]:
        said, self._said = tuple(self._said), []
        return said

    def _fault(self, error: Any) -> Exception:
        """What an error of the client means to who reads the topic."""
        if error.name() in FOR_GOOD:
            return ValueError(f"{self._name}: {error.str()}; expected a topic that may be read")
        return BrokenForNow(f"{self._name} of {', '.join(self._params['servers'])}: {error.str()}")

    def _find_new(self) -> None:
        """Begin to read partitions that were added."""
        try:
            numbers = self._own()
        except client_library().KafkaException as error:
            raise self._fault(error.args[0]) from None
        new = [number for number in numbers if number not in self.parts]
        if new and self._agrees:
            if not self._told_new:
                self._told_new = True
                self._said.append(
                    f"{self._name}: partition {new[0]} was added and is not read, as the peers that read the topic "
                    "would begin it at different rows: submit the plan again"
                )
        elif new:
            now = time.monotonic()
            self.parts |= {number: _Partition(number, 0, 0, since=now) for number in new}
            self._assign()

    def _rows(self, messages: list[Any]) -> pl.DataFrame:
        """Return the rows that are to be given, now that there are these messages."""
        apart: dict[int, list[Any]] = {}
        for number, run in groupby(messages, _partition):
            found = list(run)
            if any(map(_error, found)):
                self._note(found)
                found = [each for each in found if each.error() is None]
            else:
                self.parts[number].at_end = False
            if found:
                apart.setdefault(number, []).extend(found)
        if len(self.parts) == 1:
            (part,) = self.parts.values()
            return self._only(part, apart.get(part.number, []))
        if apart:
            self._keep(apart)
        return self._merged()

    def _note(self, messages: list[Any]) -> None:
        """Note which partitions are at their end, or say why one cannot be read."""
        for message in messages:
            part, error = self.parts[message.partition()], message.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise self._fault(error)
            part.at_end = error is not None
            part.was_at_end |= part.at_end

    def _only(self, part: _Partition, found: list[Any]) -> pl.DataFrame:
        """Rows of the only partition: there is nothing to merge."""
        if not found:
            return empty(self._schema)
        table, _ = self._table(found)
        part.read = part.given = found[-1].offset() + 1
        return table

    def _table(self, messages: list[Any], lines: LineTables | None = None) -> tuple[pl.DataFrame, list[int] | None]:
        """Rows of messages, and the places of those that have one; None if each has. Errors name offsets."""
        lines = lines or self._lines
        found: list[bytes | None] = list(map(_value, messages))
        places: list[int] | None = None
        values = [value for value in found if value is not None]
        if len(values) < len(found):  # marks of deleted keys
            places = [place for place, value in enumerate(found) if value is not None]
            messages = [messages[place] for place in places]

        def offset_of(place: int) -> int:
            return int(messages[place].offset())

        if self._decode is None:
            table, kept = lines.of_messages(values, offset_of)
        else:
            table, kept = lines.of_records([self._decode(value) for value in values], offset_of)
        if kept is None or places is None:
            return table, places if kept is None else kept
        return table, [places[each] for each in kept]

    def _keep(self, apart: Mapping[int, list[Any]]) -> None:
        """Keep the rows of messages, by partition, until they are due.

        All become one table first, as each table costs as much as hundreds of rows.
        """
        every, places = self._table([message for found in apart.values() for message in found])
        times = np.array(every.get_column("time").to_physical().to_numpy())
        begin, row = 0, 0  # of a partition: place of its first message, and of its first row
        now = time.monotonic()
        for number, found in apart.items():
            part, first, last = self.parts[number], found[0].offset(), found[-1].offset()
            if last - first + 1 == len(found):
                offsets = np.arange(first, last + 1)
            else:
                offsets = np.array([each.offset() for each in found])
            rows = len(found)
            if places is not None:
                own = [place - begin for place in places[row : bisect_left(places, begin + len(found))]]
                offsets, rows = offsets[own], len(own)
            if rows:
                keys = times[row : row + rows]
                np.maximum.accumulate(keys, out=keys)
                if part.latest is not None and part.latest > keys[0]:
                    np.maximum(keys, part.latest, out=keys)
                part.latest = int(keys[-1])
                part.waiting.append(_Rows(every.slice(row, rows), keys, offsets))
                part.count += rows
            part.read, part.since = last + 1, now
            self._told_silent.discard(number)
            if not part.count:
                part.given = part.read
            begin, row = begin + len(found), row + rows

    def _merged(self) -> pl.DataFrame:
        """Return the rows before which no other ones can come."""
        waited_for = [each for each in self.parts.values() if self._agrees or not each.at_end]
        if any(not each.count for each in waited_for):
            self._say_silent([each for each in waited_for if not each.count])
            return empty(self._schema)
        bound: tuple[int, int] | None = None
        for each in waited_for:
            assert each.latest is not None
            bound = min(bound or (each.latest, each.number), (each.latest, each.number))
        given: list[_Rows] = []
        for each in self.parts.values():
            rest: list[_Rows] = []
            for rows in each.waiting:
                free = len(rows.keys)
                if rest:
                    free = 0
                elif bound is not None:
                    free = int(rows.keys.searchsorted(bound[0], "right" if each.number <= bound[1] else "left"))
                if free:
                    each.reached, each.given = int(rows.keys[free - 1]), int(rows.offsets[free - 1]) + 1
                    given.append(rows.head(free))
                if free < len(rows.keys):
                    rest.append(rows.rest(free))
            each.waiting, each.count = rest, sum(len(rows.keys) for rows in rest)
            if not rest:
                each.given = each.read
        if not given:
            return empty(self._schema)
        merged = pl.concat([rows.table for rows in given])
        order = np.argsort(np.concatenate([rows.keys for rows in given]), kind="stable")
        return merged[order]

    def _say_silent(self, silent: list[_Partition]) -> None:
        """Say which partition is waited for, once."""
        if not any(each.count for each in self.parts.values()):
            return
        now = time.monotonic()
        for each in silent:
            if now - each.since >= SILENT_S and each.number not in self._told_silent:
                self._told_silent.add(each.number)
                why = "several peers read the topic" if each.at_end else "is not at its end"
                see = "" if each.at_end else "; see whether its broker runs"
                self._said.append(
                    f"{self._name}: partition {each.number} has given nothing for {now - each.since:.0f} s, and {why}: "
                    f"the rows of the other partitions wait for it{see}"
                )

    def _hold_back(self) -> None:
        """Pause partitions that are far ahead of others, and let them go on."""
        place = client_library().TopicPartition
        for each in self.parts.values():
            if each.paused != (each.count > (AHEAD // 2 if each.paused else AHEAD)):
                each.paused = not each.paused
                change = self._consumer.pause if each.paused else self._consumer.resume
                change([place(self._topic, each.number)])

    def close(self) -> None:
        """Let the client go."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
