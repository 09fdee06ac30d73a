"""Simulated data paths: peers that hang and starve."""

from __future__ import annotations

import pytest

from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.simulator.data_paths import DataPaths


@pytest.mark.parametrize("starves", [False, True])
def test_a_peer_that_hung_twice_handles_what_waited_in_the_order_in_which_it_came(
    monkeypatch: pytest.MonkeyPatch, starves: bool
) -> None:
    paths = DataPaths(1, ("a", "b", "c", "d"))
    handled: list[str] = []

    def link_down(other: str, _: float) -> list[Effect]:
        handled.append(other)
        return []

    monkeypatch.setattr(paths.nodes["a"].hosting, "link_down", link_down)
    if starves:
        paths.starve("a", 4.0, share=0.5)
    paths.hang("a", 1.0)
    paths.cut("a", "d", 10.0)  # its reset waits until the first hang ends
    paths.run(0.5)
    paths.hang("a", 1.5)
    paths.run(0.1)
    paths.cut("a", "b", 10.0)  # waits until the second one ends
    paths.run(0.9)
    paths.cut("a", "c", 10.0)
    paths.run(0.4)
    assert handled == []
    paths.run(0.4)
    assert handled == ["d", "b", "c"]
