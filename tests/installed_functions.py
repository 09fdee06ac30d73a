"""A function of a user's own in a module that peers can import, and that imports little itself."""

from __future__ import annotations

import polars as pl

from synergy_nb import function


@function(columns={"kB": "float"}, deterministic=True)
def kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """The size of each packet, in kilobytes."""
    return batch.select(kB=pl.col("bytes") / 1000)
