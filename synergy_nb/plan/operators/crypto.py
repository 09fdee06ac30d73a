"""Encryption of single columns: encrypt, decrypt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from synergy_nb.plan.operators.declaration import Declaration, Parameter
from synergy_nb.plan.operators.parameter_types import COLUMN_TYPES, SECRET, columns
from synergy_nb.plan.operators.schemas import IMPLICIT, Derivation, Schema

__all__ = ["DECRYPT", "ENCRYPT"]

#: Types of the values that can be encrypted.
SEALED: Final = ("int", "float", "str", "bool", "time", "bytes")


def _encrypt(it: Derivation) -> Schema:
    return _recoded(it, dict.fromkeys(it.params.get("columns", ()), "bytes"), SEALED)


def _decrypt(it: Derivation) -> Schema:
    for name, kind in it.params.get("columns", {}).items():
        if kind not in SEALED:
            it.wrong(f"columns.{name}", kind, f"a type that `encrypt` takes: {', '.join(SEALED)}")
    return _recoded(it, it.params.get("columns", {}), ("bytes",))


def _recoded(it: Derivation, kinds: Mapping[str, str], needed: Sequence[str]) -> Schema:
    schema = dict(it.input)
    for name, kind in kinds.items():
        if name in IMPLICIT:
            it.wrong("columns", name, "a column other than time and the bounds of windows, which stay readable")
        elif it.column("columns", name, schema, needed):
            schema[name] = kind
    return schema


ENCRYPT: Final = Declaration(
    kind="encrypt",
    help="Encrypts single values with AES-256-GCM, so that peers between this operator and `decrypt` cannot read them. "
    "Encrypted columns are of type bytes.",
    python=('sealed = packets.encrypt("source", "destination", key="mine")',),
    yaml=("sealed: {kind: encrypt, input: packets, columns: [source, destination], key: mine}",),
    parameters={
        "columns": Parameter(columns(1), "columns to encrypt", spelling="many"),
        "key": Parameter(
            SECRET,
            "name of a [secret](sources.md#secrets) of at least 16 bytes",
            spelling="keyword",
        ),
    },
    columns=_encrypt,
    shaping=frozenset({"columns"}),
    cost=5e-6,
    retains_all=True,
    preserves_order=True,
    needs_order="the encryption of a value depends on the position of its tuple",
    brief=lambda params: ", ".join(params["columns"]),
    off_spark="",
)

DECRYPT: Final = Declaration(
    kind="decrypt",
    help="Decrypts columns of `encrypt`.",
    python=('opened = sealed.decrypt({"source": "str", "destination": "str"}, key="mine")',),
    yaml=("opened: {kind: decrypt, input: sealed, columns: {source: str, destination: str}, key: mine}",),
    parameters={
        "columns": Parameter(COLUMN_TYPES, "column to its type before encryption"),
        "key": Parameter(SECRET, "name of the secret of `encrypt`", spelling="keyword"),
    },
    columns=_decrypt,
    shaping=frozenset({"columns"}),
    cost=5e-6,
    retains_all=True,
    preserves_order=True,
    agrees="it processes each tuple alone",
    brief=lambda params: ", ".join(params["columns"]),
    off_spark="",
)
