"""Components that have failed, or that their peer has forgotten: what becomes of their application."""

from __future__ import annotations

import pytest

from synergy_nb.events import ComponentFailed, TakenOver
from synergy_nb.lifecycle.records.messages import Graph
from tests.lifecycle.backed_chain import BACKUPS, established
from tests.simulated import Ring


def running(backups: dict[str, tuple[str, ...]] | None = None) -> Ring:
    """An application ``r`` of peer 0, whose operators are at peer 2."""
    ring = Ring(6, seed=3)
    assert established(ring, backups) == [""]
    return ring


@pytest.mark.parametrize("backups", [{}, BACKUPS], ids=["alone", "with backups"])
def test_a_component_that_has_failed_ends_its_application_as_it_would_fail_at_a_backup_too(
    backups: dict[str, tuple[str, ...]],
) -> None:
    ring = running(backups)
    ring.simulation.call("peer-2", ring.synergy["peer-2"].session.lost.failed, "r", "o0", "it broke")
    ring.run(3.0)
    assert [(each.peer, each.operator) for each in ring.events("r", ComponentFailed)] == [("peer-2", "o0")]
    assert ring.status("r") == "failed"
    assert ring.reports["r"][-1].reason == "o0 at peer-2: it broke"


def test_backups_take_over_what_a_peer_has_forgotten_which_hears_that_it_has_no_part_any_more() -> None:
    ring = running()
    forgetful = ring.synergy["peer-2"].session.participation
    ring.simulation.call("peer-2", forgetful.leave, "r", "forgotten")
    heard: list[Graph] = []
    forgetful.on_received.append(heard.append)
    ring.run(3.0)
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    assert {graph.roles.peers[name] for name in ("o0", "o1")} == {"peer-3"}
    assert {each.subject for each in ring.events("r", TakenOver)} == {"r"}
    assert heard
    assert "peer-2" not in heard[-1].addresses


def test_nothing_can_replace_what_a_peer_without_backups_has_forgotten() -> None:
    ring = running({})
    ring.simulation.call("peer-2", ring.synergy["peer-2"].session.participation.leave, "r", "forgotten")
    ring.run(3.0)
    assert ring.status("r") == "failed"
