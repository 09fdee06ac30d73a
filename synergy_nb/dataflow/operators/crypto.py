"""Encrypt and decrypt columns with AES-256-GCM, so that peers in between carry values that they cannot read.

A value becomes ``nonce (12 bytes) | ciphertext | tag (16)``, of type bytes. The plaintext is one byte for the type,
followed by the value; so decrypting as another type is refused, and NULL is indistinguishable from a short value.

The nonce is HMAC-SHA256 of the stream's name, the column, the tuple's position and the value, cut to 96 bits. A replay
after a failure therefore produces the same bytes, as take-overs need; and where one key serves several streams, or a
second run has other tuples at the same positions, nonces still differ (the construction of SIV, RFC 5297, for GCM).
Both keys are derived from the secret that the peer stores under the name in the plan; no plan, snapshot or error
message contains a secret.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import polars as pl
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from synergy_nb.dataflow.operators.base import Context, OperatorLogic, implements, positions
from synergy_nb.dataflow.tuples import TYPES, Batch

__all__ = ["Decrypt", "Encrypt"]

_LEAST_SECRET: Final = 16  # least length of a secret, bytes
_NONCE: Final = 12
_ASSOCIATED: Final = b"synergy_nb value 1"
_NULL: Final = b"\0"
_OBJECTS: Final = 600  # bytes that the Python objects of a value take during encryption or decryption

_INTEGER: Final = struct.Struct("<q")
_FLOAT: Final = struct.Struct("<d")
_WRITE: Final[Mapping[str, tuple[bytes, Callable[[Any], bytes]]]] = {
    "int": (b"i", _INTEGER.pack),
    "float": (b"f", _FLOAT.pack),
    "str": (b"s", str.encode),
    "bool": (b"?", lambda value: b"\1" if value else b"\0"),
    "time": (b"t", _INTEGER.pack),
    "bytes": (b"b", bytes),
}
_READ: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "int": lambda data: _INTEGER.unpack(data)[0],
    "float": lambda data: _FLOAT.unpack(data)[0],
    "str": bytes.decode,
    "bool": lambda data: data == b"\1",
    "time": lambda data: _INTEGER.unpack(data)[0],
    "bytes": bytes,
}
_TYPE_OF_TAG: Final = {tag: kind for kind, (tag, _) in _WRITE.items()}


def _derived(context: Context) -> tuple[AESGCM, bytes]:
    """Derive the cipher, and the key of nonces, from the secret that the operator names."""
    name = context.params["key"]
    secret = context.secrets.get(name)
    if secret is None:
        has = ", ".join(sorted(context.secrets)) or "none"
        raise context.error("key", name, f"a secret that this peer has ({has})")
    if len(secret) < _LEAST_SECRET:
        raise context.error("key", name, f"a secret of at least {_LEAST_SECRET} bytes under this name")
    return AESGCM(hmac.digest(secret, b"synergy_nb encrypt", "sha256")), hmac.digest(
        secret, b"synergy_nb nonce", "sha256"
    )


@implements("encrypt")
class Encrypt(OperatorLogic):
    """Encrypt the given columns, value by value."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._cipher, self._nonces = _derived(context)
        self._columns = [(name, *_WRITE[context.inputs[0][name]]) for name in context.params["columns"]]

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: for the values of a column as Python objects."""
        return 4.0 * batch.nbytes + _OBJECTS * batch.rows

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows, with encrypted columns."""
        numbers = positions(batch, kept).to_list()
        seal, nonces, digest = self._cipher.encrypt, self._nonces, hmac.digest
        columns = []
        for name, tag, write in self._columns:
            context = f"{self.context.stream}\0{name}\0".encode()
            values = table.get_column(name)
            if tag == b"t":
                values = values.cast(pl.Int64)
            sealed = []
            for position, value in zip(numbers, values.to_list(), strict=True):
                plain = _NULL if value is None else tag + write(value)
                nonce = digest(nonces, context + _INTEGER.pack(position) + plain, "sha256")[:_NONCE]
                sealed.append(nonce + seal(nonce, plain, _ASSOCIATED))
            columns.append(pl.Series(name, sealed, dtype=pl.Binary()))
        return (table.with_columns(columns),)


@implements("decrypt")
class Decrypt(OperatorLogic):
    """Decrypt the given columns; a value that was changed, or encrypted with another key, is an error."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._cipher, _ = _derived(context)
        self._columns = sorted(context.params["columns"].items())

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: for the values of a column as Python objects."""
        return 4.0 * batch.nbytes + _OBJECTS * batch.rows

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows, with decrypted columns."""
        columns = []
        for name, kind in self._columns:
            values = [self._read(name, kind, value) for value in table.get_column(name).to_list()]
            dtype = pl.Int64() if kind == "time" else TYPES[kind]
            columns.append(pl.Series(name, values, dtype=dtype).cast(TYPES[kind]))
        return (table.with_columns(columns),)

    def _read(self, name: str, kind: str, value: bytes | None) -> Any:
        if value is None or len(value) < _NONCE:
            raise self._refused(name, "the value is not encrypted")
        try:
            plain = self._cipher.decrypt(value[:_NONCE], value[_NONCE:], _ASSOCIATED)
        except InvalidTag:
            raise self._refused(name, f"key {self.context.params['key']!r} is wrong, or the value changed") from None
        if plain == _NULL:
            return None
        found = _TYPE_OF_TAG.get(plain[:1])
        if found != kind:
            raise self._refused(name, f"its type is {found or 'unknown'}; expected {kind}")
        return _READ[kind](plain[1:])

    def _refused(self, name: str, why: str) -> ValueError:
        context = self.context
        return ValueError(f"operator {context.id!r} ({context.kind}): column {name!r}: cannot decrypt a value: {why}")
