"""Encryption and decryption of single columns; Spark decrypts values that peers have encrypted, and vice versa.

The scheme is that of :mod:`synergy_nb.dataflow.operators.crypto`. It runs in Spark's Python workers, as functions of
Arrow arrays that need only ``cryptography`` and ``pyarrow`` there. The derived keys are part of the serialised
functions, so no plan that Spark prints contains them; the server and its workers must be trusted with them.

If the input of a query has positions, the encrypted bytes are those that a peer would write. Otherwise nonces are
derived from a hash of all values of the row instead of its position, so that a repeated micro-batch has the same bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.connect import functions as sf

from spark_stream._expressions import quote
from spark_stream.operators._registry import implements
from spark_stream.operators.arrow_functions import arrow_function
from spark_stream.operators.frames import CLOCK, ORDER, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decrypt", "encrypt"]

_LEAST_SECRET: Final = 16  # least length of a secret, bytes
# Functions that are sent to Spark must not refer to names of this module, as Spark's workers do not have it.


def _derived(work: Work) -> tuple[bytes, bytes]:
    """Derive the keys of the cipher and of the nonces."""
    name = work.params["key"]
    secret = work.secrets.get(name)
    where = f"operator {work.operator.id!r} ({work.operator.kind}): key: {name!r}; expected"
    if secret is None:
        raise ValueError(f"{where} a secret that this peer has ({', '.join(sorted(work.secrets)) or 'none'})")
    if len(secret) < _LEAST_SECRET:
        raise ValueError(f"{where} a secret of at least {_LEAST_SECRET} bytes under this name")
    return hmac.digest(secret, b"synergy_nb encrypt", "sha256"), hmac.digest(secret, b"synergy_nb nonce", "sha256")


def encryptor(cipher: bytes, nonces: bytes, context: bytes, kind: str) -> Callable[[Any, Any], Any]:
    """Make the function from positions (int64) and values of type ``kind`` to ciphertexts."""

    def seal(places: Any, values: Any) -> Any:
        import hmac  # noqa: PLC0415 - imported by Spark's worker
        import struct  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        integer = struct.Struct("<q").pack
        codec: Any = {
            "int": (b"i", integer),
            "float": (b"f", struct.Struct("<d").pack),
            "str": (b"s", str.encode),
            "bool": (b"?", lambda value: b"\1" if value else b"\0"),
            "time": (b"t", integer),
            "bytes": (b"b", bytes),
        }
        tag, write = codec[kind]
        encrypt = AESGCM(cipher).encrypt
        if kind == "time":
            values = values.cast(pa.int64())
        sealed = []
        for place, value in zip(places.to_pylist(), values.to_pylist(), strict=True):
            plain = b"\0" if value is None else tag + write(value)
            nonce = hmac.digest(nonces, context + integer(place) + plain, "sha256")[:12]
            sealed.append(nonce + encrypt(nonce, plain, b"synergy_nb value 1"))
        return pa.array(sealed, pa.binary())

    return seal


def decryptor(cipher: bytes, kind: str, where: str, key: str) -> Callable[[Any], Any]:
    """Make the function from ciphertexts to values of type ``kind``."""

    def read(values: Any) -> Any:
        import struct  # noqa: PLC0415 - imported by Spark's worker

        import pyarrow as pa  # noqa: PLC0415
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        integer, number = struct.Struct("<q").unpack, struct.Struct("<d").unpack
        names = {b"i": "int", b"f": "float", b"s": "str", b"?": "bool", b"t": "time", b"b": "bytes"}
        codec: Any = {
            "int": (lambda plain: integer(plain)[0], pa.int64()),
            "float": (lambda plain: number(plain)[0], pa.float64()),
            "str": (bytes.decode, pa.string()),
            "bool": (lambda plain: plain == b"\1", pa.bool_()),
            "time": (lambda plain: integer(plain)[0], pa.int64()),
            "bytes": (bytes, pa.binary()),
        }
        decode, arrow = codec[kind]
        decrypt = AESGCM(cipher).decrypt
        opened: list[Any] = []
        for value in values.to_pylist():
            if value is None or len(value) < 12:
                raise ValueError(f"{where}: cannot decrypt a value: the value is not encrypted")
            try:
                plain = decrypt(value[:12], value[12:], b"synergy_nb value 1")
            except InvalidTag:
                raise ValueError(
                    f"{where}: cannot decrypt a value: key {key!r} is wrong, or the value changed"
                ) from None
            found = names.get(plain[:1])
            if plain != b"\0" and found != kind:
                raise ValueError(f"{where}: cannot decrypt a value: its type is {found or 'unknown'}; expected {kind}")
            opened.append(None if plain == b"\0" else decode(plain[1:]))
        result = pa.array(opened, arrow)
        return result.cast(pa.timestamp("us", "UTC")) if kind == "time" else result

    return read


@implements("encrypt")
def encrypt(work: Work) -> DataFrame:
    """The stream with encrypted columns."""
    cipher, nonces = _derived(work)
    schema, stream = work.schemas[0], work.plan.stream_name(work.operator.id)
    place = sf.col(quote(ORDER))
    if work.operator.inputs[0] in work.inside:
        place = sf.xxhash64(*(sf.col(quote(name)) for name in (*schema, ORDER)))
    columns = {}
    for name in work.params["columns"]:
        seal = encryptor(cipher, nonces, f"{stream}\0{name}\0".encode(), schema[name])
        columns[name] = arrow_function(seal, "bytes")(place, sf.col(quote(name))).alias(name)
    return _with(work, columns)


@implements("decrypt")
def decrypt(work: Work) -> DataFrame:
    """The stream with decrypted columns; a value that was changed, or encrypted with another key, ends the query."""
    cipher, _ = _derived(work)
    columns = {}
    for name, kind in work.params["columns"].items():
        where = f"operator {work.operator.id!r} (decrypt): column {name!r}"
        read = decryptor(cipher, kind, where, work.params["key"])
        columns[name] = arrow_function(read, kind)(sf.col(quote(name))).alias(name)
    return _with(work, columns)


def _with(work: Work, columns: dict[str, Any]) -> DataFrame:
    names = [columns.get(name, sf.col(quote(name))) for name in work.output]
    return work.inputs[0].select(*names, sf.col(CLOCK), sf.col(ORDER))
