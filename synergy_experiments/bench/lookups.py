"""``lookup``: tuples a second of a processor that look up rows of a large table, beside a join of Polars."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_nb.dataflow.operators import create, lookup_code
from synergy_nb.dataflow.tuples import TYPES, Batch
from synergy_nb.plan import source

__all__ = ["lookup"]

BATCH: Final = 65_536  # tuples
VERSIONS: Final = 10  # of a key, on average
TARGET: Final = 5e6  # tuples/s
KINDS: Final = ("integers", "text", "versions")


def lookup(*, small: bool = False) -> dict[str, Any]:
    """Tuples a CPU second by integer keys; in the detail by keys of text, and by versions of a key.

    The table of a million rows is indexed before. A join of Polars hashes it for each batch.
    """
    rows, batches, repeats = (10_000, 2, 1) if small else (1_000_000, 10, 5)
    before = machine_load()
    lookup_code.COMPILED.load_in_background()
    found = {kind: _of(kind, rows, batches, repeats) for kind in KINDS}
    detail = {
        "way": f"batches of {BATCH:,} tuples, of which each has a row of two columns; one thread, after warming up",
        "rows": rows,
        "kinds": {kind: ours for kind, (ours, _) in found.items()},
        "target": TARGET,
        "load": {"before": before, "after": machine_load()},
    }
    made = measurement("lookup", found["integers"][0]["median"], "tuples/s", detail)
    joins = {kind: joined for kind, (_, joined) in found.items() if joined is not None}
    peer = measurement("polars join", joins["integers"]["median"], "tuples/s", {"kinds": joins})
    return {**made, "peers": [peer]}


def _of(kind: str, rows: int, batches: int, repeats: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Rates of the operator, and of a join of Polars, which knows no versions."""
    rng = np.random.default_rng(1)
    keys = pl.Series("key", rng.permutation(10 * rows)[:rows])
    if kind == "versions":
        keys = keys % (rows // VERSIONS)
    columns = {"key": keys, "size": rng.integers(0, 100, rows), "share": rng.random(rows)}
    table = pl.DataFrame(columns)
    tuples = pl.DataFrame({"time": np.arange(BATCH), "key": keys.gather(rng.integers(0, rows, BATCH))})
    tuples = tuples.with_columns(pl.col("time").cast(TYPES["time"]))
    options = {}
    if kind == "text":
        table, tuples = (each.with_columns(pl.format("key {}", "key").alias("key")) for each in (table, tuples))
    if kind == "versions":
        table = table.with_columns(pl.Series("since", rng.permutation(rows) - rows // 2).cast(TYPES["time"]))
        options = {"valid_from": "since"}
    stream = source("python", name="tuples", columns={"key": "str" if kind == "text" else "int"})
    plan = stream.lookup(table, on="key", how="left", id="lookup", **options).sink()
    logic, batch = create(plan.operators["lookup"], plan), Batch(tuples, 0, 0.0)
    ours = _rates(lambda: logic.on_batch(0, batch), batches, repeats)
    if kind == "versions":
        return ours, None
    return ours, _rates(lambda: tuples.join(table, on="key", how="left", maintain_order="left"), batches, repeats)


def _rates(step: Callable[[], object], batches: int, repeats: int) -> dict[str, Any]:
    """Tuples a CPU second."""
    step()
    while lookup_code.COMPILED.loaded() is None:  # a thread loads it
        step()
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        for _ in range(batches):
            step()
        rates.append(batches * BATCH / (time.process_time() - began))
    return spread(rates, digits=0)
