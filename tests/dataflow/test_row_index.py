"""Rows are found by their keys: compiled and in NumPy, for keys of all types, as DuckDB finds them."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import polars as pl
import pytest

from synergy_nb.dataflow.operators import lookup_code, tables
from synergy_nb.dataflow.operators.lookup_code import NONE
from synergy_nb.dataflow.operators.tables import RowIndex

NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "int": [None, 0, -1, 2**63 - 1, -(2**63), *range(1, 300)],
    "float": [None, 0.0, NAN, float("inf"), -1.5, 5e-324, *(each / 7 for each in range(1, 300))],
    "str": [None, "", " ", "é", "0", *map(str, range(1, 300))],
    "bool": [None, True, False],
    "bytes": [None, b"", b"\0", b"\0\0", *(bytes([each % 256, each // 256]) for each in range(1, 300))],
}


@pytest.fixture(params=["compiled", "plain"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(tables, "lookup_code", lambda: lookup_code.PLAIN)
    else:
        from synergy_nb.dataflow.operators import _lookup_kernel

        monkeypatch.setattr(tables, "lookup_code", lambda: _lookup_kernel)
    return str(request.param)


@pytest.mark.parametrize("kind", VALUES)
def test_keys_of_each_type_are_found(code: str, kind: str) -> None:
    rng = random.Random(kind)
    known = rng.sample(VALUES[kind], k=len(VALUES[kind]) // 2 + 1)
    table = pl.DataFrame({"key": pl.Series(known, strict=False), "row": range(len(known))})
    asked = pl.Series("key", [*VALUES[kind], -0.0] if kind == "float" else VALUES[kind], dtype=table.schema["key"])
    index = RowIndex(table, ["key"])
    found = [None if row == NONE else index.rows.item(row, "row") for row in index.find([asked]).tolist()]
    connection = duckdb.connect()
    connection.register("known", table.to_arrow())
    connection.register("asked", pl.DataFrame({"key": asked, "place": range(len(asked))}).to_arrow())
    wanted = connection.execute("SELECT row FROM asked LEFT JOIN known USING (key) ORDER BY place").fetchall()
    assert found == [row for (row,) in wanted]


def test_versions_are_found_by_time(code: str) -> None:
    rng = random.Random(1)
    pairs = {(rng.randrange(20), rng.randrange(-50, 50)) for _ in range(300)}
    mixed = sorted(pairs, key=hash)
    table = pl.DataFrame(mixed, schema={"key": pl.Int64, "since": pl.Datetime("us")}, orient="row")
    asked = [(rng.randrange(25), rng.randrange(-60, 60)) for _ in range(500)]
    index = RowIndex(table, ["key"], "since")
    keys, times = pl.Series([key for key, _ in asked]), pl.Series([time for _, time in asked]).to_numpy()
    for place, row in enumerate(index.find([keys], times).tolist()):
        key, time = asked[place]
        early = [since for one, since in pairs if one == key and since <= time]
        if not early:
            assert row == NONE
        else:
            assert index.rows.item(row, "key") == key
            assert index.rows.get_column("since").cast(pl.Int64)[row] == max(early)


def test_keys_with_one_hash_are_told_apart_by_another_seed(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seeds = pl.DataFrame.hash_rows, []

    def hash_rows(self: pl.DataFrame, seed: int = 0) -> pl.Series:
        seeds.append(seed)
        return (real(self, seed=seed) % 2).cast(pl.UInt64) if seed == 0 else real(self, seed=seed)

    monkeypatch.setattr(pl.DataFrame, "hash_rows", hash_rows)
    index = RowIndex(pl.DataFrame({"a": [1, 2, 3, 4], "b": ["x"] * 4}), ["a", "b"])
    found = index.find([pl.Series([4, 1, 9]), pl.Series(["x", "y", "x"])])
    assert set(seeds) == {0, 1}
    assert index.rows.item(int(found[0]), "a") == 4
    assert found.tolist()[1:] == [NONE, NONE]


def test_a_hash_without_its_key_finds_nothing(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.DataFrame, "hash_rows", lambda self, seed=0: pl.Series([7] * self.height, dtype=pl.UInt64))
    index = RowIndex(pl.DataFrame({"a": [5]}), ["a"])
    assert index.find([pl.Series([5, 6, None])]).tolist() == [0, NONE, NONE]
    with pytest.raises(ValueError, match="no hash that tells them apart"):
        RowIndex(pl.DataFrame({"a": [5, 6]}), ["a"])
    assert RowIndex(pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)}), ["a"]).find([pl.Series([5])]).tolist() == [NONE]
