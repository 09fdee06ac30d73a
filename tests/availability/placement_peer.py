"""One peer that takes part in placements; a test is all other peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.algorithms.availability import PlacementConfig, PlacementOrigin
from synergy_nb.algorithms.availability.messages import (
    PlacementReply,
    Survey,
    Surveyed,
    Task,
    encode_task,
)
from synergy_nb.assembly._synergy_peer import Machine
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan
from tests.availability.lines import chain
from tests.one_peer import OnePeer

__all__ = ["STREAM", "PlacementPeer", "task"]

STREAM = 1600.0  # bytes/s of each stream of the plans of `lines`
SOURCE = Roles({"source": "a"})


def task(components: int = 2, attempt: int = 5, *, plan: Plan | None = None, **changed: Any) -> bytes:
    """A task of the origin v: the source at a, the sink at z, and components that h, x and y can have."""
    query = plan or chain(components, at=None)
    able = dict.fromkeys(query.operators, ("h", "x", "y"))
    ends = dict.fromkeys(query.sources, ("a",)) | dict.fromkeys(query.sinks, ("z",))
    pinned = {name: peer for name, (peer,) in ends.items()}
    given: dict[str, Any] = {"degree": 2, "candidates": {**able, **ends}, "pinned": pinned} | changed
    return encode_task(Task("r", attempt, "v", query.to_bytes(), **given))


class PlacementPeer(OnePeer):
    """A peer that is asked, and asks, for replicas; links to all others carry ``bandwidth`` bytes/s, by peer."""

    def __init__(
        self,
        address: str = "h",
        *,
        bandwidth: Mapping[str, float] | None = None,
        silent: frozenset[str] = frozenset(),
        machine: Machine | None = None,
        placement: PlacementConfig | None = None,
        **config: Any,
    ) -> None:
        super().__init__(address, machine, placement=placement or PlacementConfig(), **config)
        self.bandwidth = dict(bandwidth or {})
        self.silent = silent  # peers that answer no survey

    @property
    def placement(self) -> PlacementOrigin:
        found = self.synergy.placement
        assert found is not None
        return found

    def surveyed(self, seconds: float = 0.01) -> list[str]:
        """Answer all surveys a moment later; gives who was asked."""
        asked = self.sent(Survey)
        self.wait(seconds)
        for to, message in asked:
            if to not in self.silent:
                self.receive(to, Surveyed(message.number, self.bandwidth.get(to, 1e6), 1.0, 0.01, {}))
        return [to for to, _ in asked]

    def replies(self) -> list[tuple[str, int, str]]:
        """Its answers: to whom, to which message, and why not."""
        return [(to, each.number, each.reason) for to, each in self.sent(PlacementReply)]

    @property
    def books(self) -> tuple[float, frozenset[str]]:
        """Cores that are taken, and the requests that hold anything."""
        ledger = self.synergy.ledger
        return round(ledger.cores - ledger.residual_cores(""), 9), ledger.requests
