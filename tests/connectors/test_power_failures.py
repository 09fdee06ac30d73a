"""What a destination says that it has is there after a power failure, and the next run completes it: each row once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.runtime.client.result_files import ResultFile
from tests.campaigns import ALL
from tests.connectors.broken_disk import COLUMNS, Killed, rows, stream
from tests.connectors.file_destinations import EACH, EXPECTED, ROWS, SIZES, found
from tests.connectors.power_loss import PowerDisk

SEEDS = range(3000) if ALL else range(141, 201)  # for each destination; these few found all that was found
STEPS = 40  # steps after which a process ends, at most


def written(to: dict[str, Any], disk: PowerDisk, sizes: tuple[int, ...], has: int) -> int:
    """Write the stream until the process ends; return the number of rows that its peer then knows to be there."""
    writer = writer_of(to, COLUMNS, "stream", disk)
    reader = SinkReader(writer, "it", every=0.0)
    try:
        reader.open(ORIGIN)
        assert reader.committed.position >= has, "rows that were there"
        has = reader.committed.position
        for chunk in stream(sizes):
            reader.write([chunk], 0.0)
            if reader.must_commit(0.0):
                reader.commit()
            has = max(has, reader.committed.position)
    except Killed:
        pass
    finally:
        writer.close()  # as the system does when a process ends
    return has


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_a_file_of_results_or_its_parts_are_there_after_a_power_failure(name: str, tmp_path: Path) -> None:
    for seed in range(30):
        disk = PowerDisk(tmp_path / str(seed))
        file = ResultFile(tmp_path / str(seed) / name, COLUMNS, "stream", disk=disk)
        file.add(rows(0, 5))
        file.close(complete=True, ended=True)
        disk.lose(seed)
        read = pl.read_parquet if name.endswith("parquet") else pl.read_csv
        assert read(file.path)["v"].to_list() == list(range(5)), seed


@pytest.mark.slow
@pytest.mark.parametrize("make", EACH)
def test_what_a_destination_has_is_there_after_power_failures(
    make: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    met = set()
    for seed in SEEDS:
        rng = random.Random(seed)
        disk = PowerDisk(tmp_path / str(seed))
        to, has = make(tmp_path / str(seed)), 0
        for life in range(rng.randint(1, 5)):
            disk.left, disk.done = rng.randint(0, STEPS), 0
            has = written(to, disk, rng.choice((SIZES, (1, 5, 1, 2), (ROWS,))), has)
            met.add((has, life))
            if rng.random() < 0.6:
                disk.lose(seed)
        disk.left = None
        assert written(to, disk, SIZES, has) == ROWS
        disk.lose(seed)
        assert found(to) == EXPECTED, seed
    assert {has for has, _ in met} >= {0, 3, 5, ROWS}
    assert {life for _, life in met} == set(range(5))
