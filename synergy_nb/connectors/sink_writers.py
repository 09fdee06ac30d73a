"""The writer of a destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.connectors._appended_file import AppendedFile
from synergy_nb.connectors._database_tables import DuckTable, SqliteTable
from synergy_nb.connectors._delta_tables import DeltaTable
from synergy_nb.connectors._message_writers import MessageWriter
from synergy_nb.connectors._mqtt import MqttWriter
from synergy_nb.connectors._parquet_folder import ParquetFolder
from synergy_nb.connectors._postgresql import PostgresTable
from synergy_nb.connectors._topic_writer import TopicWriter
from synergy_nb.connectors.secret_values import Secrets, discreet
from synergy_nb.dataflow.sinks.protocol import SinkWriter
from synergy_nb.durable.disk import Disk
from synergy_nb.plan.derived.named_secrets import secrets_of_destination

__all__ = ["writer_of"]


def writer_of(
    to: Mapping[str, Any],
    columns: Mapping[str, str],
    stream: str,
    disk: Disk | None = None,
    secrets: Mapping[str, bytes] | None = None,
) -> SinkWriter:
    """Return the writer of a destination.

    ``to``: destination as a plan holds it; ``columns``: columns of the stream with their types; ``stream``: what the
    rows are, see :func:`synergy_nb.plan.derived.repeatable_results.results_name`; ``disk``: steps of the writer;
    ``secrets``: values by the names that plans use for them.

    Raises ``ValueError`` if the destination names a secret that is not there.
    """
    named = Secrets(secrets_of_destination(to), secrets or {})
    match to["format"]:
        case "parquet":
            return ParquetFolder(to["path"], columns, stream, to.get("partition"), disk)
        case "duckdb":
            return DuckTable(to, columns, stream)
        case "sqlite":
            return SqliteTable(to, columns, stream)
        case "postgresql":
            return discreet(PostgresTable(to, columns, stream, named), named, ("open", "write", "commit", "close"))
        case "delta":
            return DeltaTable(to, columns, stream)
        case "websocket":
            return discreet(MessageWriter(to, named), named, ("open", "write", "commit", "close"))
        case "mqtt":
            return discreet(MqttWriter(to, named), named, ("open", "write", "commit", "close"))
        case "kafka":
            return discreet(TopicWriter(to, stream, named), named, ("open", "write", "commit", "close"))
        case _:
            return AppendedFile(to["path"], columns, stream, to["format"], disk)
