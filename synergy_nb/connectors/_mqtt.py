"""Messages of MQTT topics, as a source and as a destination. No threads: a client works while it is called.

Theory of operation
-------------------
A message is confirmed to the broker when the next one is asked for, so when the stream has its row. A broker that keeps
a session sends unconfirmed messages again, to whoever opens the session next, and it sends no more than some messages
ahead of the confirmed ones: so a source that is not polled holds the broker back. There are no positions: what was
confirmed is never sent again.

As a destination, a row is a message of which the broker has confirmed that it has it. No broker says later which ones
it has, so rows whose commit was interrupted are sent again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._appended_file import as_text
from synergy_nb.connectors._extras import imported
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sinks.buffering import BufferedWriter
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan.operators.parameter_types import host_and_port
from synergy_nb.traces.line_tables import LineTables

__all__ = ["MessageSource", "MqttWriter"]

ALIVE_S: Final = 60  # longest time in which client and broker say nothing, seconds
MOST: Final = 10_000  # messages of one poll
AHEAD: Final = 500  # messages that are sent before the broker has confirmed the first of them
_BUSY: Final = ("Server unavailable", "Server busy", "Unspecified error")  # refusals that may be others later


class _Refused(Exception):
    """A broker that refuses a client for good."""


class _Lost(Exception):
    """A connection that is not there, and may be later."""


class _Connection:
    """A connection to a broker."""

    def __init__(self, params: Mapping[str, Any], secrets: Secrets, session: str | None, *, confirm: bool) -> None:
        library = imported("paho.mqtt.client", "mqtt")
        self.what = f"broker {params['server']}"
        self.arrived: list[Any] = []
        self._answers: list[Any] = []  # to the request to be connected
        self._granted: list[Any] = []  # answers to the request of topics
        self._library = library
        name = session or f"synergy-{uuid.uuid4().hex[:12]}"
        version = library.CallbackAPIVersion.VERSION2
        self.client = library.Client(version, name, session is None, reconnect_on_failure=False, manual_ack=confirm)
        self.client.connect_timeout = PATIENCE_S
        self.client.max_inflight_messages_set(AHEAD)
        self.client.on_connect = self._connected
        self.client.on_subscribe = self._subscribed
        self.client.on_message = lambda *message: self.arrived.append(message[-1])
        if params.get("tls"):
            self.client.tls_set()
        if (user := params.get("user")) is not None:
            password = params.get("password")
            self.client.username_pw_set(user, None if password is None else secrets.value(password))
        host, port = host_and_port(params["server"])
        try:
            self.client.connect(host, port, ALIVE_S)
        except OSError as error:
            raise self._fault(error) from None
        try:
            self.wait_for(lambda: bool(self._answers), "it does not answer")
        except _Lost:  # as after an answer that refuses
            if not self._answers:
                raise
        answer = self._answers[0]
        if answer.is_failure:
            said = f"{self.what}: {answer}"
            raise _Lost(said) if str(answer) in _BUSY else _Refused(said)

    def _connected(self, *answer: Any) -> None:
        self._answers.append(answer[3])

    def _subscribed(self, *answer: Any) -> None:
        self._granted += answer[3]

    def _fault(self, error: OSError) -> Exception:
        import ssl  # noqa: PLC0415 - only where a connection fails

        if isinstance(error, ssl.SSLCertVerificationError):
            return _Refused(f"{self.what}: {error.verify_message}; expected a certificate that is trusted")
        return _Lost(f"{self.what}: {error.strerror or error or type(error).__name__}")

    def subscribe(self, topic: str) -> None:
        """Ask for the messages of topics, each at least once."""
        self.client.subscribe(topic, qos=1)
        self.wait_for(lambda: bool(self._granted), "it does not answer")
        if self._granted[0].is_failure:
            raise _Refused(f"{self.what}: topic {topic!r}: {self._granted[0]}; expected topics that may be read")

    def work(self, seconds: float) -> None:
        """Read and write what there is, or the first thing to come within a time."""
        code = self.client.loop(seconds)
        if code != self._library.MQTT_ERR_SUCCESS:
            raise _Lost(f"{self.what}: {self._library.error_string(code)}")

    def wait_for(self, there: Any, otherwise: str) -> None:
        """Work until something is there; give up if nothing has come for long."""
        until = time.monotonic() + PATIENCE_S
        while not there():
            left = until - time.monotonic()
            if left <= 0.0:
                raise _Lost(f"{self.what}: {otherwise}")
            self.work(min(left, 0.5))

    def close(self) -> None:
        """Say good-bye."""
        self.client.disconnect()


class MessageSource(Source):
    """The messages of topics."""

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._params, self._secrets = params, secrets
        self._topic: str = params["topic"]
        self._column: str | None = params.get("topic_as")
        self._lines = LineTables(f"topic {self._topic!r}", schema, {**params, "format": "json"})
        self._connection: _Connection | None = None
        self._taken: list[Any] = []  # messages that are not confirmed
        self._number = 1  # number of the next message

    def open(self, position: Any) -> None:
        """Connect, and ask for the messages that come."""
        self._taken = []
        try:
            self._connection = _Connection(self._params, self._secrets, self._params.get("session"), confirm=True)
            self._connection.subscribe(self._topic)
        except _Lost as lost:
            raise BrokenForNow(str(lost)) from None
        except _Refused as refused:
            raise ValueError(str(refused)) from None

    def poll(self, seconds: float) -> Polled | None:
        """Confirm the messages before, and return the rows of those that have come."""
        connection = self._connection
        assert connection is not None
        for message in self._taken:
            connection.client.ack(message.mid, message.qos)
        self._taken = []
        try:
            before = -1
            while before < len(connection.arrived) < MOST:
                before = len(connection.arrived)
                connection.work(0.0 if before else seconds)
        except _Lost as lost:
            if not connection.arrived:
                raise BrokenForNow(str(lost)) from None
        found, connection.arrived = connection.arrived, []
        if not found:
            return None
        self._taken = [message for message in found if message.qos]
        values = [self._value(message) for message in found]
        number, self._number = self._number, self._number + len(found)
        table = self._lines.of_values(values, number)
        return Polled(table, said=self._lines.said(), skipped=self._lines.skipped)

    def _value(self, message: Any) -> Any:
        try:
            value = msgspec.json.decode(message.payload)
        except msgspec.DecodeError:
            return message.payload
        if self._column is None or not isinstance(value, dict):
            return value
        return value | {self._column: message.topic}

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class MqttWriter(BufferedWriter):
    """Writes a stream to a topic."""

    remembers: ClassVar[bool] = False

    def __init__(self, to: Mapping[str, Any], secrets: Secrets) -> None:
        super().__init__()
        self._to, self._secrets = to, secrets
        self._topic: str = to["topic"]
        self._connection: _Connection | None = None

    def _begin(self) -> None:
        """Connect."""
        try:
            self._connection = _Connection(self._to, self._secrets, None, confirm=False)
        except _Lost as lost:
            raise SinkUnavailable(str(lost)) from None
        except (_Refused, ValueError) as error:
            raise SinkFailed(str(error)) from None

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Send rows, and wait until the broker has confirmed each."""
        connection = self._connection
        assert connection is not None
        sent: list[Any] = []
        try:
            for batch in batches:
                for line in as_text(batch.table).write_ndjson().encode().splitlines():
                    sent.append(connection.client.publish(self._topic, line, qos=1, retain=self._to["retain"]))
                    first = sent[-AHEAD] if len(sent) >= AHEAD else None
                    if first is not None and not first.is_published():
                        connection.wait_for(first.is_published, "it does not confirm messages")
            for each in sent[-AHEAD:]:
                connection.wait_for(each.is_published, "it does not confirm messages")
        except _Lost as lost:
            raise SinkUnavailable(str(lost)) from None

    def _release(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
