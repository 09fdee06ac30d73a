"""Messages of MQTT topics, as a source and as a destination."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from synergy_nb import PlanError, mqtt, source
from synergy_nb.connectors import _mqtt
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.sources import BrokenForNow, Source
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.testing import check_source
from tests.connectors.broken_disk import COLUMNS as WRITTEN
from tests.connectors.broken_disk import stream
from tests.connectors.declared import COLUMNS, declared, numbers
from tests.connectors.mqtt_broker import MqttBroker
from tests.waiting import asked_until


@pytest.fixture
def broker() -> Iterator[MqttBroker]:
    with MqttBroker() as started:
        yield started


def row(n: int) -> bytes:
    return json.dumps({"time": n, "n": n, "word": "w"}).encode()


def messages(address: str, topic: str = "meters/#", **params: Any) -> Source:
    return declared("mqtt", server=address, topic=topic, **params)


def polled(reader: Source, wanted: int) -> list[int]:
    """Poll until there are so many rows."""
    found: list[int] = []
    for _ in range(300):
        found += numbers(reader.poll(0.1))
        if len(found) >= wanted:
            return found
    raise AssertionError(f"{found} are all that came; expected {wanted} rows")


@contextmanager
def mosquitto(folder: Path) -> Iterator[str]:
    """Start the broker of Debian's package."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "settings").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n", encoding="utf-8")
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    assert program is not None
    with subprocess.Popen([program, "-c", str(folder / "settings")], stderr=subprocess.DEVNULL) as process:

        def answers() -> bool:
            with socket.socket() as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        try:
            asked_until(answers)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def keeps_the_protocol(address: str) -> None:
    """Rows are written by one plan and read by another."""
    reader = messages(address, "meters/#", session="mine")
    reader.open(None)
    reader.close()
    writing = SinkReader(writer_of(mqtt("meters/1", address), WRITTEN, "stream"), "it", 1.0)
    writing.open(ORIGIN)
    writing.write(stream((700,)), 0.0)
    writing.commit()
    writing.close()
    reader = declared("mqtt", server=address, topic="meters/#", session="mine", columns={"time": "time", "v": "int"})
    reader.open(None)
    found: list[int] = []
    while len(found) < 100:
        answer = reader.poll(0.1)
        found += [] if answer is None else [each["v"] for each in answer.rows.to_dicts()]  # type: ignore[union-attr]
    assert found == list(range(len(found)))
    reader.close()


@pytest.mark.slow
def test_a_source_reads_what_a_destination_writes(broker: MqttBroker) -> None:
    keeps_the_protocol(broker.address)
    assert len(broker.received) == 700


@pytest.mark.slow
@pytest.mark.skipif(not Path("/usr/sbin/mosquitto").exists(), reason="on Debian: apt-get install mosquitto")
def test_a_source_reads_what_a_destination_writes_by_mosquitto(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as address:
        keeps_the_protocol(address)


def test_what_the_stream_has_is_confirmed_and_the_rest_comes_again(broker: MqttBroker) -> None:
    reader = messages(broker.address, session="mine", topic_as="word")
    reader.open(None)
    for n in range(3):
        broker.publish(f"meters/{n}", row(n))
    broker.publish("other", row(7))
    assert polled(reader, 3) == [0, 1, 2]
    assert broker.confirmed == 0  # the stream may not have them yet
    for n in range(3, 5):
        broker.publish(f"meters/{n}", row(n))
    assert polled(reader, 2) == [3, 4]
    with broker.changed:
        assert broker.changed.wait_for(lambda: broker.confirmed == 3, 60.0)
    reader.close()
    broker.publish("meters/5", row(5))
    successor = messages(broker.address, session="mine", topic_as="word")
    successor.open(None)
    found: list[dict[str, Any]] = []
    while len(found) < 3:
        answer = successor.poll(0.1)
        found += [] if answer is None else answer.rows.to_dicts()  # type: ignore[union-attr]
    assert [(each["n"], each["word"]) for each in found] == [(3, "meters/3"), (4, "meters/4"), (5, "meters/5")]
    successor.close()


def test_a_source_that_is_not_polled_holds_the_broker_back(broker: MqttBroker) -> None:
    reader = messages(broker.address, session="mine")
    reader.open(None)
    for n in range(50):
        broker.publish("meters/1", row(n))
    first = numbers(reader.poll(1.0))
    assert len(first) <= 20
    assert first + polled(reader, 50 - len(first)) == list(range(50))
    reader.close()


def test_a_source_keeps_the_protocol() -> None:
    made: list[MqttBroker] = []

    def make() -> Source:
        broker = MqttBroker()
        broker.start()
        made.append(broker)
        reader = messages(broker.address)
        begin = reader.open

        def begun(position: Any) -> None:
            begin(position)
            for n in range(3):
                broker.publish("meters/1", row(n))

        reader.open = begun  # type: ignore[method-assign]
        return reader

    with MqttBroker("s3cret") as locked:
        check_source(
            make,
            [{"time": at, "n": n, "word": "w"} for n, at in enumerate(first_times())],
            broken=lambda: messages("127.0.0.1:1"),
            wrong=lambda: messages(locked.address),
        )
    for broker in made:
        broker.stop()


def first_times() -> list[Any]:
    """Event times of the rows 0, 1 and 2."""
    import datetime as dt

    return [dt.datetime(1970, 1, 1) + dt.timedelta(seconds=n) for n in range(3)]  # noqa: DTZ001 - as rows have them


def test_a_broker_that_goes_and_comes_is_waited_for() -> None:
    broker = MqttBroker()
    broker.start()
    port = broker.port
    reader = messages(broker.address, session="mine")
    reader.open(None)
    broker.publish("meters/1", row(0))
    assert polled(reader, 1) == [0]
    reader.poll(0.0)
    writing = SinkReader(writer_of(mqtt("meters/1", broker.address), WRITTEN, "stream"), "it", 1.0)
    writing.open(ORIGIN)
    writing.write(stream((3,)), 0.0)
    broker.stop()
    with pytest.raises(BrokenForNow, match=f"broker 127.0.0.1:{port}: "):
        polled(reader, 1)
    reader.close()
    with pytest.raises(SinkUnavailable, match=f"broker 127.0.0.1:{port}: "):
        writing.commit()
    with pytest.raises(SinkUnavailable, match="Connection refused"):
        writing.open(ORIGIN)
    broker.start(port)
    reader.open(None)
    writing.open(ORIGIN)
    writing.write(stream((3,)), 0.0)
    writing.commit()
    assert len(broker.received) == 4
    reader.close()
    writing.close()
    broker.stop()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"user": "ann", "password": "shop", "secrets": {"shop": b"wrong"}}, "Bad user name or password"),
        ({"user": "ann", "password": "shop", "topic": "secret"}, "topic 'secret': Unspecified error; expected topics"),
    ],
)
def test_what_is_refused_is_one_error(params: dict[str, Any], expected: str) -> None:
    with MqttBroker("s3cret") as broker:
        reader = declared("mqtt", **{"server": broker.address, "topic": "a", "secrets": {"shop": b"s3cret"}, **params})
        with pytest.raises(ValueError, match=expected):
            reader.open(None)
        reader.close()
        writer = writer_of(mqtt("a", broker.address, user="ann", password="shop"), WRITTEN, "s", secrets={"shop": b"x"})
        with pytest.raises(SinkFailed, match="Bad user name or password"):
            writer.open()
        writer.close()


def test_a_broker_that_says_nothing_is_broken_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mqtt, "PATIENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reader = messages(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BrokenForNow, match="it does not answer"):
            reader.open(None)
        reader.close()


def test_without_the_client_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(ValueError, match=r"expected `pip install 'synergy-nb\[mqtt\]'`"):
        messages("127.0.0.1:1").open(None)
    with pytest.raises(SinkFailed, match=r"expected `pip install 'synergy-nb\[mqtt\]'`"):
        writer_of(mqtt("a", "127.0.0.1:1"), WRITTEN, "s").open()


def test_a_guest_reaches_only_brokers_that_were_named_and_writes_to_none() -> None:
    plan = source("mqtt", server="Meter.local:1883", topic="a", columns=COLUMNS).sink()
    assert refused_paths(plan, [], hosts=["other"]).endswith("expected one of the hosts other")
    assert refused_paths(plan, [], hosts=["meter.local"]) == ""
    writing = source("packets").sink(to=mqtt("a", "meter.local:1883"))
    assert "expected no destination" in refused_paths(writing, [], hosts=["meter.local"])


def test_wrong_parameters_are_one_error() -> None:
    with pytest.raises(PlanError, match="topic_as: 'm'; expected one of the columns"):
        source("mqtt", server="a:1", topic="a", topic_as="m", columns=COLUMNS).sink()
    with pytest.raises(PlanError, match="a topic without '\\+' and '#'"):
        source("packets").sink(to=mqtt("meters/#", "a:1"))
