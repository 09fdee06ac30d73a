"""Frames that tests of linked charts explore."""

from __future__ import annotations

import numpy as np
import polars as pl

__all__ = ["ODD", "mixed_frame"]

ODD = 'odd "name" <b>, it\'s'


def mixed_frame(rows: int = 600, seed: int = 1) -> pl.DataFrame:
    """Rows with all kinds of columns: NULLs, numbers that are none, heavy tails, odd names, many keys."""
    chance = np.random.default_rng(seed)
    size = chance.pareto(1.1, rows) * 40
    size[::17], size[5], size[6] = np.nan, np.inf, 0.0
    micros = np.sort(chance.integers(0, 5 * 3600 * 10**6, rows)) + 1_700_000_000_000_000
    number = pl.int_range(rows)
    return pl.DataFrame(
        {
            "time": pl.Series(micros).cast(pl.Datetime("us")),
            ODD: chance.choice(["<script>", "it's", "", "  ", "a\nb", 'say "no"'], rows),
            "size": size,
            "key": chance.integers(-7, 7, rows) * 10**15,
            "many": chance.integers(0, 10_000, rows).astype(str),
            "ok": chance.random(rows) < 0.4,
            "delay": pl.Series(chance.exponential(2e5, rows).astype(np.int64)).cast(pl.Duration("us")),
            "day": pl.Series(chance.integers(19_000, 19_400, rows)).cast(pl.Int32).cast(pl.Date),
            "normal": chance.normal(0.0, 1.0, rows),
        }
    ).with_columns(
        pl.when(number % 7 != 0).then(pl.col("size")),
        pl.when(number % 11 != 0).then(pl.col(ODD)),
        pl.when(number % 13 != 0).then(pl.col("delay")),
        pl.when(number % 5 != 0).then(pl.col("ok")),
    )
