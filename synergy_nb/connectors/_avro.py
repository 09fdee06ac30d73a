"""Messages in Avro, by a given schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.connectors._extras import imported

__all__ = ["decoder_of"]

_FRAME: Final = 5  # bytes before a message that name its schema to a registry: 0, and a number


def decoder_of(params: Mapping[str, Any]) -> Callable[[bytes], Any] | None:
    """Return the function that reads a message in the format of a source; None for JSON."""
    form = params.get("format", "json")
    if form == "json":
        return None
    avro = imported("fastavro", "avro")
    schema = avro.parse_schema(json.loads(params["schema"]))
    before = _FRAME if form == "framed-avro" else 0

    def decode(message: bytes) -> Any:
        data = io.BytesIO(message)
        if before and data.read(before)[:1] != b"\0":
            return message
        try:
            found = avro.schemaless_reader(data, schema)
        except (EOFError, IndexError, OverflowError, UnicodeDecodeError, ValueError):
            return message  # which is malformed
        return found if data.tell() == len(message) else message

    return decode
