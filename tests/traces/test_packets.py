"""Generated packets: the same in every version, whatever the size of batches, and self-similar as in theory."""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb import traces
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Punctuation
from synergy_nb.traces import packets
from synergy_nb.traces.packets import Parameters, generate, parameters, tables

FIRST_ROW = ("1970-01-01 00:00:00.000038", "A", "h091", "h253", 31299, 80, 552)
DIGEST = "3764b0f459a08f0d3b1a29fa95f1277194bff64b378312e7e182b9709b518264"


def table_of(**given: Any) -> pl.DataFrame:
    return pl.concat(tables(Parameters(**given)))


def counts_of(seconds: int, **given: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Packets in each second."""
    pieces = tables(Parameters(duration=float(seconds), **given))
    return sum(
        (np.bincount(piece["time"].to_physical().to_numpy() // 1_000_000, minlength=seconds) for piece in pieces),
        start=np.zeros(seconds, dtype=np.int64),
    )


def test_the_same_seed_gives_the_same_packets_for_ever() -> None:
    table = table_of(seed=7, rate=5000.0, count=3000)
    # Pinned: whoever changes these changes all results that were published with a seed.
    assert table.row(0)[1:] == FIRST_ROW[1:]
    assert str(table.row(0)[0]) == FIRST_ROW[0]
    assert hashlib.sha256(table.write_csv().encode()).hexdigest() == DIGEST


def test_another_seed_gives_other_packets() -> None:
    assert not table_of(seed=1, count=1000).equals(table_of(seed=2, count=1000))


def test_the_first_packets_of_a_slow_source_do_not_wait_for_those_of_an_hour() -> None:
    first = next(traces.read({"connector": "packets", "rate": 10.0, "duration": 3600.0}))
    assert isinstance(first, Batch)
    assert first.rows == packets.LEAST


@pytest.mark.parametrize("rows", [1, 7, 1000, 65_536, 10**9])
def test_batches_of_any_size_hold_the_same_stream(rows: int) -> None:
    made = Parameters(seed=3, rate=1000.0, count=500 if rows < 10 else 150_000)
    items = list(generate(made, rows))
    batches = [item for item in items if isinstance(item, Batch)]
    assert pl.concat([batch.table for batch in batches]).equals(table_of(seed=3, rate=1000.0, count=made.count))
    assert all(batch.rows == rows for batch in batches[:-1])
    assert [batch.position for batch in batches] == [0, *itertools.accumulate(b.rows for b in batches)][:-1]
    for batch, promise, following in zip(items[::2], items[1::2], [*batches[1:], None], strict=True):
        assert isinstance(batch, Batch)
        assert isinstance(promise, Punctuation)
        assert promise.position == batch.end_position
        assert promise.time == (END if following is None else following.table["time"].to_physical()[0])


def test_packets_are_in_order_typed_and_in_their_ranges() -> None:
    table = table_of(seed=5, rate=10_000.0, duration=2.0, hosts=20, links=("north", "south", "east"), start=1e9)
    assert table.schema == {name: TYPES[kind] for name, kind in packets.SCHEMA.items()}
    assert list(packets.SCHEMA) == table.columns
    assert table["time"].is_sorted()
    times = table["time"].to_physical().to_numpy()
    assert 10**15 <= times[0] <= times[-1] < 10**15 + 2_000_000
    assert set(table["link"].unique()) == {"north", "south", "east"}
    assert (table["source"] != table["destination"]).all()
    assert table["source"].is_in([f"h{index:02}" for index in range(20)]).all()
    assert table["source_port"].is_between(1024, 65_535).all()
    assert set(table["destination_port"].unique()) <= {port for port, _ in packets.SERVICES}
    assert set(table["bytes"].unique()) == {size for size, _ in packets.SIZES}


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 300.0, 1e6])
def test_the_rate_is_the_stated_one(rate: float) -> None:
    found = [table_of(seed=seed, rate=rate, duration=20_000 / rate, alpha=1.6).height for seed in range(12)]
    assert np.mean(found) == pytest.approx(20_000, rel=0.1)


def test_endless_without_a_limit_and_lazy() -> None:
    stream = generate(Parameters(rate=1e5), 1000)
    taken = list(itertools.islice(stream, 400))
    assert sum(item.rows for item in taken if isinstance(item, Batch)) == 200_000


def test_duration_and_count_end_the_stream_whichever_comes_first() -> None:
    assert table_of(rate=1000.0, duration=1e6, count=10).height == 10
    assert table_of(rate=1000.0, duration=0.5, count=10**6).height < 2000
    # a stream that ends before its first packet still ends
    assert list(generate(Parameters(rate=1e-6, duration=1e-6))) == [Punctuation(END, 0, 0.0)]


def test_popularity_of_hosts_is_zipf() -> None:
    # Over flows, not packets: flows are as heavy-tailed as their ON periods.
    flows = table_of(seed=1, rate=20_000.0, count=400_000, hosts=100, zipf=1.0).unique(
        ["source", "destination", "source_port", "destination_port", "link"]
    )
    shares = flows["source"].value_counts(normalize=True)
    share = dict(shares.iter_rows())
    harmonic = sum(1 / rank for rank in range(1, 101))
    for rank in (1, 2, 4, 10):
        assert share[f"h{rank - 1:02}"] == pytest.approx(1 / rank / harmonic, rel=0.15)
    assert flows["destination"].value_counts(sort=True)["destination"][0] == "h50"


def hurst(counts: Any, method: str = "wavelet") -> float:
    """The Hurst parameter of a series: 0.5 for independent counts, up to 1 for long-range dependent ones.

    ``wavelet``: slope of the energy of Haar details over the octaves (Abry and Veitch 1998). ``variance``: slope of the
    variance of means over blocks of growing size; it is biased low when H is large.
    """
    octaves, logs, weights = [], [], []
    sums = np.asarray(counts, dtype=np.float64)
    for octave in range(1, int(math.log2(len(sums))) - 4):  # at least 16 blocks in the last
        half = len(sums) // 2
        left, right = sums[: 2 * half : 2], sums[1 : 2 * half : 2]
        # both are normalised by the power of two of a sum: means, and orthonormal Haar details
        variance, details = (left + right).var() / 4.0**octave, ((left - right) ** 2).mean() / 2.0**octave
        sums = left + right
        if octave > 2:  # the finest scales show the packets of one burst
            octaves.append(octave)
            logs.append(math.log2(variance if method == "variance" else details))
            weights.append(math.sqrt(half))
    slope = float(np.polyfit(octaves, logs, 1, w=weights)[0])
    return (slope + 2) / 2 if method == "variance" else (slope + 1) / 2


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.2, 1.4, 1.6])
def test_counts_are_self_similar_as_the_tail_index_says(alpha: float) -> None:
    series = [counts_of(2**13, seed=seed, rate=60.0, alpha=alpha) for seed in range(3)]
    expected = (3 - alpha) / 2
    assert np.mean([hurst(counts) for counts in series]) == pytest.approx(expected, abs=0.1)
    assert np.mean([hurst(counts, "variance") for counts in series]) == pytest.approx(expected, abs=0.12)


@pytest.mark.parametrize("method", ["variance", "wavelet"])
def test_the_estimator_finds_no_memory_in_poisson_counts(method: str) -> None:
    found = [hurst(np.random.default_rng(seed).poisson(60, 2**13), method) for seed in range(5)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("h", [0.6, 0.75, 0.9])
def test_the_estimator_finds_the_memory_of_fractional_noise(h: float) -> None:
    # Fractional Gaussian noise by circulant embedding (Davies and Harte 1987): H is exact, so the estimator is tested.
    size = 2**14
    lag = np.arange(size + 1.0)
    covariance = 0.5 * (np.abs(lag - 1) ** (2 * h) - 2 * lag ** (2 * h) + (lag + 1) ** (2 * h))
    spectrum = np.fft.fft(np.concatenate((covariance, covariance[-2:0:-1]))).real
    rng = np.random.default_rng(11)
    noise = rng.standard_normal(2 * size) + 1j * rng.standard_normal(2 * size)
    series = np.fft.fft(np.sqrt(spectrum / (2 * size)) * noise).real[:size]
    assert hurst(series) == pytest.approx(h, abs=0.05)
    assert hurst(series, "variance") == pytest.approx(h, abs=0.08)


def test_the_source_reads_the_parameters_of_a_plan() -> None:
    params = {"connector": "packets", "seed": 3, "rate": 1000.0, "count": 100, "links": 3, "speed": 1.0, "batch": 64}
    items = list(traces.read(params))
    assert [item.rows for item in items if isinstance(item, Batch)] == [64, 36]
    assert traces.schema_of(params) == packets.SCHEMA
    assert parameters(params).links == ("A", "B", "C")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 0}, "rate: 0; expected a number from 1e-06 to 1e"),
        ({"rate": "fast"}, "rate: 'fast'; expected a number"),
        ({"rate": float("nan")}, "rate: nan; expected a number"),
        ({"seed": -1}, "seed: -1; expected a whole number from 0"),
        ({"seed": True}, "seed: True; expected a whole number"),
        ({"sources": 1.5}, "sources: 1.5; expected a whole number"),
        ({"hosts": 1}, "hosts: 1; expected a whole number from 2"),
        ({"alpha": 2.0}, "alpha: 2.0; expected a number from 1.01 to 1.99"),
        ({"count": 0}, "count: 0; expected a whole number from 1"),
        ({"duration": -1.0}, "duration: -1.0; expected a number"),
        ({"links": []}, r"links: \[\]; expected a number of links or their names"),
        ({"links": ["A", "A"]}, "expected distinct names"),
        ({"links": 0}, "links: 0; expected a number of links"),
        ({"rate": 1e9, "sources": 1}, r"sources: 1 at rate 1e\+09; expected at least 334"),
    ],
)
def test_wrong_parameters_are_named_before_anything_starts(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        traces.read({"connector": "packets", **given})


@pytest.mark.parametrize("rate", [50.0, 5000.0])
def test_flags_tell_how_far_the_handshake_of_a_flow_went(rate: float) -> None:
    """Whatever is made at once: slices of time cut flows in two."""
    plain, flagged = table_of(seed=3, rate=rate, duration=40.0), table_of(seed=3, rate=rate, duration=40.0, flags=True)
    assert flagged.schema == {name: TYPES[kind] for name, kind in packets.schema_of({"flags": True}).items()}
    back = pl.col("flags") == "SYN-ACK"
    there, here = ("source", "source_port"), ("destination", "destination_port")
    turned = [
        pl.when(back).then(pl.col(other)).otherwise(pl.col(own)).alias(own)
        for own, other in zip((*there, *here), (*here, *there), strict=True)
    ]
    flows = flagged.with_columns(turned)
    assert flows.drop("flags").equals(plain), "but for the direction of what comes back, they are the same packets"
    found = flows.group_by("link", *there, *here, maintain_order=True).agg("flags")["flags"].to_list()
    assert {len(flags) for flags in found} >= {1, 2, 3, 20}
    assert all(flags == ["SYN", "SYN-ACK", *["ACK"] * (len(flags) - 2)][: len(flags)] for flags in found)
