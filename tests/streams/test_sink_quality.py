"""Quality of service at a sink: rates since its first tuple entered the system, and since the last measurement."""

from __future__ import annotations

from synergy_nb.dataflow.streams.component.sink_quality import SinkQuality


def test_rates_are_those_from_when_the_first_tuple_entered_until_the_last_one_arrived() -> None:
    quality = SinkQuality("out", limit=1.0, now=1.0)
    assert quality.qos()["tuples_per_s"] == 0.0
    quality.measure(rows=10, size=100, born=6.0, now=6.5)
    quality.measure(rows=10, size=300, born=5.0, now=7.0)  # the older ones may be the later ones
    interval = quality.interval(9.0)
    assert (interval["tuples_per_s"], interval["bytes_per_s"]) == (20 / 8, 400 / 8), "since it has been there"
    quality.measure(rows=20, size=400, born=8.0, now=9.0)
    so_far, interval = quality.qos(), quality.interval(10.0)
    assert (so_far["tuples"], so_far["tuples_per_s"], so_far["bytes_per_s"]) == (40, 40 / 4, 800 / 4)
    assert (interval["tuples"], interval["tuples_per_s"], interval["bytes_per_s"]) == (40, 20.0, 400.0)
    assert so_far["miss_rate"] == 10 / 40
