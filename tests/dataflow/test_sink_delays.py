"""Delays at a sink: what views and ``qos()`` show of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.dataflow.meters import DelayHistogram


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50))
def test_quantiles_are_in_order_between_the_shortest_and_the_longest_delay(delays: list[float]) -> None:
    histogram = DelayHistogram()
    for each in delays:
        histogram.add(each)
    found = [histogram.quantile(share) or 0.0 for share in (0.0, 0.5, 0.95, 0.99, 1.0)]
    assert found == sorted(found)
    assert min(delays) <= found[0]
    assert found[-1] <= max(delays)
    assert histogram.most == max(delays)
