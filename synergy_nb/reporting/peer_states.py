"""The state of a peer, as a cluster and a simulation return it."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["PeerState"]


class PeerState(msgspec.Struct, frozen=True):
    """The state of a peer.

    A simulated peer has no process: its ``pid``, ``cpu_s`` and ``messages`` are 0.

    Parameters
    ----------
    load
        Committed fraction of its capacity.
    cores
        Capacity, in cores.
    cpu_s
        CPU time of its process so far, seconds.
    offers
        Components that it offers.
    applications
        Applications in which it takes part.
    components
        Measurements of each operator that it executes.
    neighbours
        Addresses in its leaf set.
    probes, messages
        Numbers of probes that it has processed and of control messages that it has sent, so far.
    overheads
        Stage to the mean (seconds) and the variance (seconds squared) of the time of an item beside the processing of
        its tuples, see :mod:`synergy_nb.models.overheads`; the stage ``link`` is the transfer from a neighbour.
    discipline
        Scheduling discipline of the peer.
    links
        Address of another peer to the configured and the measured bandwidth of the link from it, bytes/s; only links
        that were measured.
    """

    name: str
    address: str
    pid: int
    load: float
    cores: float
    cpu_s: float
    offers: list[str]
    applications: list[str]
    components: list[dict[str, Any]]
    neighbours: list[str]
    probes: int
    messages: int
    overheads: dict[str, tuple[float, float]] = {}
    discipline: str = "fcfs"
    links: dict[str, tuple[float, float]] = {}
