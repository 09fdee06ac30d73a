"""The generator of NEXMark's events: one site in three streams, the same however it is read."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from synergy_nb import traces
from synergy_nb.dataflow.tuples import Batch, Punctuation
from synergy_nb.plan.operators.sources import NEXMARK, rate_of
from synergy_nb.traces.nexmark import GROUP, LONGEST, PIECE

COUNT = PIECE * GROUP + 130  # more than one piece
SITE: dict[str, Any] = {"connector": "nexmark", "seed": 3, "rate": 1000.0, "count": COUNT}


@pytest.fixture(scope="module")
def site() -> dict[str, pl.DataFrame]:
    return {table: traces.table({**SITE, "table": table}) for table in NEXMARK}


def test_of_50_events_one_is_a_person_three_are_auctions_and_46_bids(site: dict[str, pl.DataFrame]) -> None:
    groups = PIECE + 2  # and 30 events
    assert {name: table.height for name, table in site.items()} == {
        "person": groups + 1, "auction": 3 * groups + 3, "bid": 46 * groups + 26,
    }  # fmt: skip
    times = pl.concat([table["time"] for table in site.values()]).sort().to_physical()
    assert times.to_list() == [number * 1000 for number in range(COUNT)]
    for name, table in site.items():
        assert traces.schema_of({**SITE, "table": name}) == NEXMARK[name]
        assert table.columns == list(NEXMARK[name])
        assert table["time"].is_sorted()
        assert rate_of({**SITE, "table": name, "speed": 2.0}) == pytest.approx(2000 * table.height / COUNT, rel=0.02)


def test_bids_and_auctions_name_what_was_there_before(site: dict[str, pl.DataFrame]) -> None:
    began = {
        name: dict(site[name].select("id", pl.col("time").to_physical()).iter_rows()) for name in ("person", "auction")
    }
    assert all(len(began[name]) == site[name].height for name in began)
    for table, column, of in (
        ("bid", "auction", "auction"),
        ("bid", "bidder", "person"),
        ("auction", "seller", "person"),
    ):
        times = site[table]["time"].to_physical()
        assert all(began[of][each] < at for each, at in zip(site[table][column], times, strict=True)), column
    lasts = (site["auction"]["expires"] - site["auction"]["time"]).dt.total_microseconds()
    assert lasts.is_between(1_000_000, LONGEST).all()
    assert site["bid"]["price"].is_between(100, 99_999_999).all()
    hot = site["bid"]["auction"] % 100 == 0
    assert 0.45 < hot.mean() < 0.55  # type: ignore[operator]


def test_a_stream_depends_on_seed_and_start_but_not_on_batches_or_its_end(site: dict[str, pl.DataFrame]) -> None:
    params = {**SITE, "table": "bid"}
    items = list(traces.read({**params, "batch": 1000, "count": None, "duration": COUNT / 1000}))
    batches = [item for item in items if isinstance(item, Batch)]
    assert pl.concat([item.table for item in batches]).equals(site["bid"])
    assert max(item.rows for item in batches) == 1000
    assert [item.position for item in items] == sorted(item.position for item in items)
    promised = [item for item in items if isinstance(item, Punctuation)]
    assert len(promised) == len(batches)
    assert promised[-1].ends
    later = traces.table({**params, "start": 60.0, "count": 500})
    assert later["time"].to_physical().to_list() == [
        each + 60_000_000 for each in site["bid"]["time"].head(460).to_physical()
    ]
    assert later.drop("time").equals(site["bid"].head(460).drop("time"))
    assert not traces.table({**params, "seed": 4, "count": 500})["price"].equals(later["price"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "bids"}, "table: 'bids'; expected one of person, auction, bid"),
        ({"table": "bid", "rate": 0}, "rate: 0; expected a number from 1e-06 to 1e"),
        ({"table": "bid", "count": 1.5}, "count: 1.5; expected a whole number from 1"),
        ({"table": "bid", "duration": float("nan")}, "duration: nan; expected a number"),
    ],
)
def test_wrong_parameters_are_named_before_anything_starts(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        traces.read({"connector": "nexmark", **given})
