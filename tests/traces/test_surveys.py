"""Surveys of rows: as a count of all rows, however they are divided, and as near as they say where they sketch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import polars as pl
import pytest

from synergy_nb.traces.profiles import surveys
from synergy_nb.traces.profiles.surveys import ACCURACY, WINDOWS, RowSurvey, added, number_of, step_for, surveyed

SCHEMA = {"time": "time", "key": "str", "size": "int", "load": "float", "parts": "int[]"}
HOUR = 3_600_000_000


def rows(number: int, seed: int = 1, hours: int = 5) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, hours * HOUR // 1000, number)) * 1000
    keys = rng.zipf(1.6, number).clip(0, 200)
    return pl.DataFrame({
        "time": pl.Series(times).cast(pl.Datetime("us")),
        "key": pl.Series([None if each == 7 else f"k{each}" for each in keys]),
        "size": rng.integers(0, 50, number),
        "load": rng.pareto(1.5, number) - 0.5,
        "parts": [[each % 3] for each in range(number)],
    })  # fmt: skip


def files(table: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows of each hour."""
    return table.with_columns(hour=pl.col("time").dt.truncate("1h")).partition_by("hour", include_key=False)


def pieces_of(table: pl.DataFrame, ends: Sequence[int]) -> list[pl.DataFrame]:
    return [table.slice(begin, end - begin) for begin, end in pairwise([0, *ends, table.height])]


def counted(survey: RowSurvey) -> dict[int, int]:
    at, number = (np.frombuffer(each, np.int64).tolist() for each in (survey.periods, survey.counts))
    return dict(zip(at, number, strict=True))


@pytest.mark.parametrize("size", [41, 10_000])
def test_a_survey_equals_a_count_of_all_rows(size: int) -> None:
    table = rows(3000)
    parts = [surveyed(pieces_of(part, range(size, part.height, size)), SCHEMA, 10_000_000) for part in files(table)]
    parts = [msgspec.msgpack.decode(msgspec.msgpack.encode(each), type=RowSurvey) for each in parts]  # as from Spark
    found = added([added(parts[:2]) or parts[0], *parts[2:]])
    assert found is not None
    times = table["time"].to_physical()
    assert (found.rows, found.first, found.last) == (3000, times[0], times[-1])
    assert found.resolution == int(np.gcd.reduce(times.to_numpy()))
    assert counted(found) == Counter((times // 10_000_000).to_list())
    for name in ("key", "size", "load"):
        column = found.columns[name]
        different, exact = column.distinct
        assert exact
        assert different == table[name].drop_nulls().n_unique()
        assert column.nulls == table[name].null_count()
    key = found.columns["key"]
    assert (key.values, key.missed) == (Counter(table["key"].drop_nulls().to_list()), 0)
    load = found.columns["load"]
    assert (load.low, load.high) == (table["load"].min(), table["load"].max())
    assert load.total == pytest.approx(table["load"].sum())
    assert np.frombuffer(load.largest)[-3:].tolist() == table["load"].sort()[-3:].to_list()
    for length in WINDOWS:
        window = table.with_columns(at=times // length).group_by("at")
        assert found.windows[length].rows == Counter(window.len()["len"].to_list())
        groups = window.agg(pl.col("key").n_unique())["key"].to_list()  # NULL is a group, too
        assert found.windows[length].groups["key"] == Counter(groups)
        assert not found.windows[length].estimated
    assert sum(day.rows for day in found.days.values()) == 3000


def test_numbers_are_kept_by_their_logarithms() -> None:
    table = rows(3000)
    numbers = surveyed([table], SCHEMA, 1_000_000).columns["load"].numbers
    places = np.array([place for place, times in sorted(numbers.items()) for _ in range(times)])
    near = np.array([number_of(place) for place in places.tolist()])
    exact = np.sort(table["load"].to_numpy())
    assert np.abs(near / exact - 1.0).max() <= ACCURACY * 1.0001
    assert surveyed([table], SCHEMA, 1_000_000).columns["size"].numbers[0] == table.filter(size=0).height


def test_what_does_not_fit_is_estimated_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "HASHES", 256)
    monkeypatch.setattr(surveys, "VALUES", 50)
    monkeypatch.setattr(surveys, "OPEN", 512)
    rng = np.random.default_rng(2)
    keys = np.concatenate([rng.integers(0, 5000, 20_000), np.zeros(3000, np.int64), np.ones(2000, np.int64)])
    rng.shuffle(keys)
    times = np.sort(rng.integers(0, HOUR, len(keys)))
    table = pl.DataFrame({"time": pl.Series(times).cast(pl.Datetime("us")), "key": keys})
    parts = [surveyed(pieces_of(part, range(9999, part.height, 9999)), {"time": "time", "key": "int"}, 1_000_000)
             for part in (table, table)]  # fmt: skip
    found = added(parts)
    assert found is not None
    truth = Counter(keys.tolist())
    number, exact = found.columns["key"].distinct
    assert not exact
    assert number == pytest.approx(len(truth), rel=4.0 / 16.0)
    key = found.columns["key"]
    for value in ("0", "1"):
        assert key.values[value] <= 2 * truth[int(value)] <= key.values[value] + key.missed
    assert found.windows[HOUR].estimated
    (groups,) = found.windows[HOUR].groups["key"]
    assert groups == pytest.approx(len(truth), rel=4.0 / 22.0)
    assert found.windows[HOUR].groups["key"][groups] == 2


def test_the_step_follows_from_the_span_and_is_one_for_all() -> None:
    assert [step_for(0, each * HOUR) for each in (1, 24, 24 * 60, 24 * 3650)] == [1000, 100_000, 1_000_000, 60_000_000]
    empty = surveyed([], SCHEMA, 1000)
    assert (empty.rows, added([]), added([empty, empty])) == (0, None, empty)
    with pytest.raises(ValueError, match="step: 2000; expected 1000"):
        added([surveyed([rows(5)], SCHEMA, 1000), surveyed([rows(5)], SCHEMA, 2000)])
