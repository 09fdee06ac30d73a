"""What a live peer is made from, as plain values, and the peer that is made from it: live, and again in a replay."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from synergy_nb.assembly import Machine, PeerConfig, SynergyPeer
from synergy_nb.control.peer import Peer
from synergy_nb.models.overheads import Overheads
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART

__all__ = ["Construction", "construct"]


THREAD: Final = 1.0  # cores that the one thread of a live peer can use


class Construction(msgspec.Struct, frozen=True):
    """What a live peer is made from. It holds no secrets: the keys of plans are known to its driver alone."""

    address: str
    config: PeerConfig  # resources and parameters of the peer, including the seed of its random generator
    # cores that can execute operators, one tuple after the other: those of one thread, however many the peer offers
    server: float = THREAD
    together: float = 0.0  # length of the stream, in seconds, that a source hands over in one batch


def construct(construction: Construction, kernel: Callable[[str, int], Peer] = Peer) -> SynergyPeer:
    """The peer that is made from a construction.

    ``kernel``: makes the kernel of the peer from its address and seed.
    """
    machine = Machine(
        server=construction.server,
        overheads=Overheads(construction.together),
        supports=_supports if PART in construction.config.components else None,
    )
    return SynergyPeer(construction.address, construction.config, machine, kernel)


def _supports(plan: Plan, operator: str, inside: Collection[str], local: bool) -> str:
    from spark_stream.supported import supported, supported_source  # noqa: PLC0415 - only who uses Spark needs it

    node = plan.operators[operator]
    return supported_source(node, local) if node.kind == "source" else supported(node, plan, inside)
