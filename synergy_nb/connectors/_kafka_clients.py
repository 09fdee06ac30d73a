"""What readers and writers of Kafka topics share: settings of clients, and what errors mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._extras import imported
from synergy_nb.connectors.secret_values import Secrets

__all__ = ["FOR_GOOD", "client_library", "partitions_of", "settings", "told"]

#: Errors that do not pass by themselves.
FOR_GOOD: Final = (
    "_AUTHENTICATION",
    "_INVALID_ARG",
    "_SSL",
    "_UNKNOWN_TOPIC",
    "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "ILLEGAL_SASL_STATE",
    "MSG_SIZE_TOO_LARGE",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "TOPIC_EXCEPTION",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNKNOWN_TOPIC_OR_PART",
    "UNSUPPORTED_SASL_MECHANISM",
)


def client_library() -> Any:
    """The package of the client."""
    return imported("confluent_kafka", "kafka")


def settings(params: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    """The settings of a client by the parameters of a source or a destination."""
    user, tls = params.get("user"), bool(params.get("tls"))
    made: dict[str, Any] = {
        "bootstrap.servers": ",".join(params["servers"]),
        "security.protocol": ("SASL_" if user else "") + ("SSL" if tls else "PLAINTEXT"),
        "socket.connection.setup.timeout.ms": int(1000 * PATIENCE_S),
        "reconnect.backoff.max.ms": 2000,
        "log_level": 0,  # what matters is said by errors
    }
    if user:
        password = params.get("password")
        made |= {
            "sasl.mechanism": params.get("mechanism", "SCRAM-SHA-512"),
            "sasl.username": user,
            "sasl.password": "" if password is None else secrets.value(password),
        }
    return made


def told(errors: Sequence[Any]) -> Any:
    """Return the error, of those that a client has told of, that says why it cannot go on; None if it may."""
    last: Any = None
    for error in errors:
        if error.name() in FOR_GOOD:
            return error
        last = error if error.name() == "_ALL_BROKERS_DOWN" else last
    return last


def partitions_of(client: Any, topic: str, timeout: float) -> list[int]:
    """Return the numbers of the partitions of a topic.

    Raises ``ValueError`` if there is no such topic, and the library's exception if no broker answers.
    """
    found = client.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is not None and found.error.name() == "UNKNOWN_TOPIC_OR_PART":
        known = sorted(name for name in client.list_topics(timeout=timeout).topics if not name.startswith("__"))
        others = f"one of {', '.join(known[:20])}" if known else "a topic that the brokers have, which have none"
        raise ValueError(f"topic {topic!r}: it is not there; expected {others}")
    if found.error is not None:
        raise client_library().KafkaException(found.error)
    return sorted(found.partitions)
