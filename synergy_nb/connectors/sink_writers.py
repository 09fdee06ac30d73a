"""The writer of a destination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    former: Sequence[str] = (),
) -> SinkWriter:
    """Return the writer of a destination.

    ``to``: destination as a plan holds it; ``columns``: columns of the stream with their types; ``stream``: what the
    rows are, see :func:`synergy_nb.plan.derived.repeatable_results.results_name`; ``disk``: steps of the writer;
    ``secrets``: values by the names that plans use for them; ``former``: streams whose rows may be there, too, up to
    the position at which this stream follows them.

    Raises ``ValueError`` if the destination names a secret that is not there.
    """
    named = Secrets(secrets_of_destination(to), secrets or {})
    names = (stream, *former)
    match to["format"]:
        case "parquet":
            return ParquetFolder(to["path"], columns, names, to.get("partition"), disk)
        case "duckdb":
            return DuckTable(to, columns, names)
        case "sqlite":
            return SqliteTable(to, columns, names)
        case "postgresql":
            return discreet(PostgresTable(to, columns, names, named), named, ("open", "write", "commit", "close"))
        case "delta":
            return DeltaTable(to, columns, names)
        case "websocket":
            return discreet(MessageWriter(to, named), named, ("open", "write", "commit", "close"))
        case "mqtt":
            return discreet(MqttWriter(to, named), named, ("open", "write", "commit", "close"))
        case "kafka":
            return discreet(TopicWriter(to, names, named), named, ("open", "write", "commit", "close"))
        case _:
            return AppendedFile(to["path"], columns, names, to["format"], disk)
