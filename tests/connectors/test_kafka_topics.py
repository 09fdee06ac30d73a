"""The messages of Kafka topics, of the client library's own mock brokers."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from synergy_nb import PlanError, source
from synergy_nb.connectors import _kafka_topics
from synergy_nb.connectors._kafka_clients import settings, told
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.plan.derived.named_secrets import NamedSecret
from synergy_nb.testing import KafkaBrokers, check_source
from tests.connectors.declared import COLUMNS, declared, numbers

ORDER = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "n", "type": "long"},
        {"name": "word", "type": ["null", "string"]},
    ],
}


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaBrokers]:
    with KafkaBrokers() as brokers:
        yield brokers


@pytest.fixture
def brokers(shared: KafkaBrokers) -> KafkaBrokers:
    shared.come()
    return shared


def topic(brokers: KafkaBrokers, name: str, **params: Any) -> Source:
    return declared("kafka", servers=brokers.servers, topic=name, **params)


def row(n: int, time: int | None = None) -> dict[str, Any]:
    return {"time": n if time is None else time, "n": n, "word": f"w{n}"}


def polled(source: Source, wanted: int | None = None) -> tuple[list[int], Polled, list[str]]:
    """Poll until there are so many rows, or to the end; with the last answer, and what was said."""
    found: list[int] = []
    said: list[str] = []
    for _ in range(300):
        answer = source.poll(0.1)
        if answer is not None:
            found += numbers(answer)
            said += answer.said
            if answer.ends if wanted is None else len(found) >= wanted:
                return found, answer, said
    raise AssertionError(f"{found} are all that came; expected {wanted} rows")


@pytest.mark.slow
def test_a_topic_keeps_the_protocol(brokers: KafkaBrokers) -> None:
    brokers.make("one")
    brokers.put("one", [row(n) for n in range(5)])
    check_source(lambda: topic(brokers, "one", ends=True), wrong=lambda: topic(brokers, "none"))
    with pytest.raises(ValueError, match=r"topic 'none': it is not there; expected one of .*one"):
        topic(brokers, "none").open(None)


def test_brokers_that_do_not_answer_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_topics, "PATIENCE_S", 0.1)
    with pytest.raises(BrokenForNow, match=r"topic 'one' of 127.0.0.1:1: "):
        declared("kafka", servers="127.0.0.1:1", topic="one").open(None)


@pytest.mark.slow
def test_partitions_are_merged_by_event_time(brokers: KafkaBrokers) -> None:
    """However they come, a reading from any position has the rows in the same order."""
    brokers.make("three", 3)
    brokers.put("three", [row(0, 0), row(3, 3), row(4, 1), row(9, 9)], 0)  # one is late within its partition
    brokers.put("three", [row(1, 1), row(5, 3)], 1)
    reader = topic(brokers, "three", ends=True)
    reader.open(None)
    found, last, _ = polled(reader, 6)
    reader.close()
    assert found == [0, 1, 3, 4, 5, 9]
    assert last.position == {"0": [4, 9_000_000], "1": [2, 3_000_000], "2": [0, None]}
    check_source(lambda: topic(brokers, "three", ends=True))
    again = topic(brokers, "three", ends=True)
    again.open({"0": [2, 3_000_000], "1": [1, 1_000_000]})
    assert polled(again, 3)[0] == [4, 5, 9]
    again.close()


@pytest.mark.slow
def test_a_partition_that_is_far_ahead_waits(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_topics, "AHEAD", 10)
    monkeypatch.setattr(_kafka_topics, "MOST_MESSAGES", 5)
    brokers.make("ahead", 2)
    brokers.put("ahead", [row(n) for n in range(100, 200)], 1)
    brokers.put("ahead", [row(n) for n in range(100)], 0)
    reader = topic(brokers, "ahead")
    assert isinstance(reader, _kafka_topics.TopicSource)
    reader.open(None)
    found: list[int] = []
    most = 0
    while len(found) < 200:
        found += numbers(reader.poll(0.1))
        most = max(most, *(part.count for part in reader.parts.values()))
    reader.close()
    assert found == list(range(200))
    assert most <= 15


@pytest.mark.slow
def test_malformed_messages_are_counted_and_marks_of_deleted_keys_are_not(brokers: KafkaBrokers) -> None:
    brokers.make("bad", 2)
    brokers.put("bad", [row(0), None, b"{", row(1)], 0)
    brokers.put("bad", [row(2), row(3), None], 1)
    reader = topic(brokers, "bad", ends=True, tolerance=0.5)
    reader.open(None)
    found, last, _ = polled(reader)
    reader.close()
    assert sorted(found) == [0, 1, 2, 3]
    assert last.skipped is not None
    assert last.skipped.count == 1
    check_source(lambda: topic(brokers, "bad", ends=True, tolerance=0.5))
    strict = topic(brokers, "bad", strict=True)
    strict.open(None)
    with pytest.raises(ValueError, match=r"topic 'bad': line 2: .*'{'"):
        polled(strict, 4)
    strict.close()


def test_the_latest_messages_are_those_that_come(brokers: KafkaBrokers) -> None:
    brokers.make("late")
    brokers.put("late", [row(0)])
    reader = topic(brokers, "late", start="latest")
    reader.open(None)
    first = reader.poll(0.0)
    brokers.put("late", [row(1)])
    assert polled(reader, 1)[0] == [1]
    reader.close()
    assert first is not None
    successor = topic(brokers, "late", start="latest")
    successor.open(first.position)
    assert polled(successor, 1)[0] == [1]
    successor.close()


@pytest.mark.slow
@pytest.mark.parametrize(("form", "before"), [("avro", b""), ("framed-avro", b"\0\0\0\0\7")])
def test_messages_in_avro(brokers: KafkaBrokers, form: str, before: bytes) -> None:
    name = f"orders-{form}"
    brokers.make(name, 2)
    messages = []
    for n in range(3):
        data = io.BytesIO()
        fastavro.schemaless_writer(data, fastavro.parse_schema(ORDER), {"time": 1000 * n, "n": n, "word": None})
        messages.append(before + data.getvalue())
    brokers.put(name, [*messages, b"\1", before + b"\1\2\3\4\5\6\7\10\11"])
    reader = topic(brokers, name, format=form, schema=json.dumps(ORDER), ends=True, tolerance=0.9)
    reader.open(None)
    found, last, _ = polled(reader)
    reader.close()
    assert found == [0, 1, 2]
    assert last.position == {"0": [5, 2_000_000], "1": [0, None]}
    assert last.skipped is not None
    assert last.skipped.count == 2
    check_source(lambda: topic(brokers, name, format=form, schema=ORDER, ends=True, tolerance=0.9))
    few = topic(brokers, name, format=form, schema=ORDER, ends=True)
    few.open(None)
    with pytest.raises(ValueError, match=f"2 of 5 lines are not of format '{form}'.* line 3: .*one by the schema"):
        polled(few)
    few.close()


def test_one_message_in_place_of_several_is_refused(brokers: KafkaBrokers) -> None:
    with pytest.raises(
        TypeError, match=r"values: {'n': 1}; expected a list of the values of messages, as \[{'n': 1}\]"
    ):
        brokers.put("single", {"n": 1})


def test_what_brokers_do_not_have_is_refused(brokers: KafkaBrokers) -> None:
    brokers.make("small")
    for wrong in (lambda: brokers.put("small", [1], 7), lambda: brokers.values("small", 7), lambda: KafkaBrokers(0)):
        with pytest.raises(ValueError, match=r"partition: 7[:;]|brokers: 0; expected one at least"):
            wrong()
    with pytest.raises(ValueError, match=r"topic: 'nope'; expected one that is there: .*small"):
        brokers.values("nope")


@pytest.mark.slow
def test_brokers_that_go_and_come_are_said_and_waited_for(brokers: KafkaBrokers) -> None:
    brokers.make("gone")
    brokers.put("gone", [row(0)])
    reader = topic(brokers, "gone")
    reader.open(None)
    _, last, _ = polled(reader, 1)
    brokers.go()
    with pytest.raises(BrokenForNow, match=r"topic 'gone' of 127.0.0.1:[0-9]+: .*brokers are down"):
        polled(reader, 1)
    reader.close()
    brokers.come()
    brokers.put("gone", [row(1)])
    reader.open(last.position)
    assert polled(reader, 1)[0] == [1]
    reader.close()


def test_what_is_lost_is_said(brokers: KafkaBrokers) -> None:
    brokers.make("lost")
    brokers.put("lost", [row(0)])
    reader = topic(brokers, "lost")
    reader.open({"0": [7, 6_000_000], "4": [1, None]})
    found, _, said = polled(reader, 1)
    reader.close()
    assert found == [0]
    anew, gone = said
    assert anew == (
        "topic 'lost': partition 0: it ends at offset 1, and was read up to 7: it was made anew, and is read from its "
        "beginning"
    )
    assert gone == "topic 'lost': partition 4 is not there any more: its rows are lost"


@pytest.mark.slow
def test_a_partition_that_stops_is_named(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_topics, "SILENT_S", 0.0)
    brokers.make("stops", 2)
    brokers.put("stops", [row(0)], 0)
    brokers.put("stops", [row(1)], 1)
    reader = topic(brokers, "stops", ends=True)
    assert isinstance(reader, _kafka_topics.TopicSource)
    reader.open(None)
    assert polled(reader, 2)[0] == [0, 1]
    reader.parts[1].at_end = False
    brokers.put("stops", [row(2)], 0)
    said: list[str] = []
    while not said:
        said += getattr(reader.poll(0.1), "said", ())
    assert said[0].startswith(
        "topic 'stops': partition 1 has given nothing for 0 s, and is not at its end: the rows of"
    )
    reader.close()


def test_partitions_that_are_added_are_read(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.make("grows", 2)
    brokers.put("grows", [row(0)], 0)
    brokers.put("grows", [row(1)], 1)
    with monkeypatch.context() as patch:
        patch.setattr(_kafka_topics, "partitions_of", lambda *_: [0])
        monkeypatch.setattr(_kafka_topics, "LOOK_S", 0.0)
        reader = topic(brokers, "grows")
        reader.open(None)
        assert polled(reader, 1)[0] == [0]
    assert polled(reader, 1)[0] == [1]
    reader.close()


@pytest.mark.slow
def test_of_several_readers_each_partition_is_of_one(brokers: KafkaBrokers) -> None:
    brokers.make("divided", 3)
    for number in range(3):
        brokers.put("divided", [row(n) for n in range(number, 9, 3)], number)
    check_source(lambda: topic(brokers, "divided", ends=True), readers=2)
    surplus = topic(brokers, "divided", ends=True, share="4 of 4")
    surplus.open(None)
    found, _, said = polled(surplus)
    assert found == []
    assert said == ["topic 'divided': reader 4 of 4 has no partition, as there are 3: fewer readers suffice"]


def test_a_partition_that_is_added_is_of_one_reader(brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.make("added", 4)
    for number in range(4):
        brokers.put("added", [row(number)], number)
    monkeypatch.setattr(_kafka_topics, "LOOK_S", 0.0)
    readers = [topic(brokers, "added", share=share) for share in ("1 of 2", "2 of 2")]
    with monkeypatch.context() as patch:
        patch.setattr(_kafka_topics, "partitions_of", lambda *_: [0])
        for reader in readers:
            reader.open(None)
        assert polled(readers[0], 1)[0] == [0]
        assert polled(readers[1], 0)[2] == [
            "topic 'added': reader 2 of 2 has no partition, as there are 1: fewer readers suffice"
        ]
    assert polled(readers[0], 1)[0] == [2]
    assert polled(readers[1], 2)[0] == [1, 3]
    for reader in readers:
        reader.close()


def test_two_peers_read_a_topic_in_the_same_order_whenever_its_messages_come(
    brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads while messages come, the other one when all are there; alone the first would not wait."""
    monkeypatch.setattr(_kafka_topics, "SILENT_S", 0.0)
    monkeypatch.setattr(_kafka_topics, "LOOK_S", 0.0)
    brokers.make("alike", 3)
    brokers.put("alike", [row(n) for n in (0, 3, 6)], 0)
    brokers.put("alike", [row(n) for n in (1, 4)], 1)
    early, alone, later = (topic(brokers, "alike") for _ in range(3))
    early.agree()
    later.agree()
    with monkeypatch.context() as patch:
        patch.setattr(_kafka_topics, "partitions_of", lambda *_: [0, 1])
        for reader in (early, alone):
            reader.open(None)
        assert polled(alone, 5)[0] == [0, 1, 3, 4, 6], "the partitions are at their ends"
        assert polled(early, 4)[0] == [0, 1, 3, 4], "partition 1 may have more before 6"
        said: list[str] = []
        while not said:
            said += getattr(early.poll(0.1), "said", ())
        assert "partition 1 has given nothing for 0 s, and several peers read the topic: the rows of the" in said[0]
    while not any("partition 2 was added and is not read" in each for each in said):
        said += getattr(early.poll(0.1), "said", ())
    brokers.put("alike", [row(5), row(7)], 1)
    brokers.put("alike", [row(2)], 2)
    assert polled(early, 2)[0] == [5, 6]
    later.open({"0": [2, 3_000_000], "1": [1, 1_000_000]})
    assert polled(later, 3)[0] == [4, 5, 6]
    for reader in (early, alone, later):
        reader.close()


@pytest.mark.parametrize("share", ["2 of 2", "3 of 3"])
def test_a_reader_that_has_nothing_to_read_promises_what_others_have(
    brokers: KafkaBrokers, monkeypatch: pytest.MonkeyPatch, share: str
) -> None:
    """The first has a partition that is at its end, the second has none: windows do not wait for either."""
    monkeypatch.setattr(_kafka_topics, "IDLE_S", 0.0)
    name = f"idle-{share[0]}"
    brokers.make(name, 2)
    brokers.put(name, [row(n) for n in range(30)], 0)
    brokers.put(name, [row(3)] if share == "2 of 2" else [b"not JSON", row(50)], 1)
    reader = topic(brokers, name, share=share, lateness="2 s")
    reader.open(None)

    def promised(wanted: int) -> tuple[list[int], list[int]]:
        found, promises = list[int](), list[int]()
        for _ in range(300):
            answer = reader.poll(0.1)
            found += numbers(answer)
            promises += [] if answer is None or answer.until is None else [answer.until]
            if wanted in promises:
                return found, promises
        raise AssertionError(f"{promises} were promised; expected {wanted}")

    latest = 29 if share == "2 of 2" else 50
    found, promises = promised((latest - 2) * 1_000_000)
    assert found == ([3] if share == "2 of 2" else [])
    assert promises == sorted(promises)
    brokers.put(name, [row(60)], 0)
    promised(58_000_000)
    if share == "2 of 2":
        brokers.put(name, [row(70)], 1)
        assert polled(reader, 1)[0] == [70]
    reader.close()


def test_a_wrong_password_is_an_error_for_good() -> None:
    class Error:
        def __init__(self, name: str) -> None:
            self._name = name

        def name(self) -> str:
            return self._name

    down, refused, other = Error("_ALL_BROKERS_DOWN"), Error("_AUTHENTICATION"), Error("_TRANSPORT")
    assert told([refused, down]) is refused
    assert told([other, down]) is down
    assert told([other]) is None


def test_a_password_is_a_secret_that_the_plan_names() -> None:
    params = {"servers": ["a:1"], "user": "ann", "password": "shop", "tls": True}
    made = settings(params, Secrets([NamedSecret("password", "shop")], {"shop": b"abc"}))
    assert made["sasl.password"] == "abc"
    assert made["security.protocol"] == "SASL_SSL"
    with pytest.raises(ValueError, match="password: secret 'shop'; expected one that this peer has"):
        declared("kafka", servers="a:1", topic="one", user="ann", password="shop")


def test_without_the_client_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ValueError, match=r"expected `pip install 'synergy-nb\[kafka\]'`"):
        declared("kafka", servers="127.0.0.1:1", topic="one").open(None)


PARAMS: dict[str, Any] = {"servers": "a.local:9092, B.local:9093", "topic": "orders"}


def test_a_guest_reaches_only_brokers_that_were_named() -> None:
    plan = source("kafka", **PARAMS, columns=COLUMNS).sink()
    assert "'B.local:9093'; expected one of the hosts a.local" in refused_paths(plan, [], hosts=["a.local"])
    assert refused_paths(plan, [], hosts=["a.local", "b.local"]) == ""


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"servers": "broker"}, "expected a host and a port"),
        ({"servers": []}, "expected addresses of servers, such as 'broker.local:9092'"),
        ({"format": "avro"}, "expected a schema of Avro, which format avro needs"),
        ({"format": "avro", "schema": "{"}, "expected a schema of Avro, in JSON, of a record with fields"),
        ({"schema": ORDER}, "expected no schema: format json has none; avro has one"),
        ({"format": "avro", "schema": ORDER, "columns": {"m": "int"}}, "'m'; expected a field of the schema: time, n"),
        ({"topic": ".."}, "expected a topic of 1 to 249 letters of ASCII, digits, '.', '_' and '-', other than '.'"),
        ({"user": "ann"}, "password: missing; expected the name of the secret with the password of user 'ann'"),
        ({"password": "shop"}, "user: missing; expected the name of the account to which the password belongs"),
        ({"start": "yesterday"}, "expected one of earliest, latest"),
    ],
)
def test_wrong_parameters_are_one_error(params: dict[str, Any], expected: str) -> None:
    with pytest.raises(PlanError) as raised:
        source("kafka", **{**PARAMS, "columns": COLUMNS, **params}).sink("out")
    assert expected in str(raised.value)
