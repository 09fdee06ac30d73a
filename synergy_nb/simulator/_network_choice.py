"""The network and the peers that the arguments of a simulation ask for."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from synergy_nb.control.peer import DRIVER
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.simulator.network import CAPACITIES, Topology, measured, of_topohub, transit_stub

RESERVED: Final = (DRIVER, "timer")  # senders of messages that come from no peer
LOCAL_MS: Final = 1.0  # round-trip time of a local network, ms


def peers_named(peers: Any) -> list[str]:
    """Return the names of the peers of a simulation.

    ``peers``: number of peers, or their names.

    Raises ``ValueError`` if it is neither.

    Examples
    --------
    >>> peers_named(2), peers_named(["ann", "bob"])
    (['peer-1', 'peer-2'], ['ann', 'bob'])
    """
    if isinstance(peers, int) and not isinstance(peers, bool) and peers >= 1:
        return [f"peer-{number}" for number in range(1, peers + 1)]
    named = isinstance(peers, Sequence) and not isinstance(peers, str) and all(isinstance(each, str) for each in peers)
    if named and peers and len({*peers}) == len(peers):
        for each in peers:
            check_peer_name("peers", each)
        return [*peers]
    raise ValueError(f"peers: {peers!r}; expected a number of peers, at least 1, or their names, each once")


def check_peer_name(field: str, name: str) -> None:
    """Raise a ValueError if a text cannot be the name of a peer.

    ``field``: argument that the error names.
    """
    if not name.strip() or not name.isprintable() or name in RESERVED:
        reserved = " or ".join(map(repr, RESERVED))
        raise ValueError(f"{field}: {name!r}; expected the name of a peer: printable text, but not {reserved}")


def topology_of(names: list[str], network: Any, cores: float | None, seed: int) -> Topology:
    """Return the network of a simulation.

    ``names``: names of the peers; ``network``: network: ``"wide area"``, ``"local"``, round-trip times in ms or the
    path of a file with them, the name of a published network, or a topology, whose own peers count; ``cores``: capacity
    of each peer in cores; None for the classes of the papers; ``seed``: seed of the network, the sites and the
    capacities.

    Raises ``ValueError`` if it is no network; the text names what is.
    """
    capacities = CAPACITIES if cores is None else {float(cores): 100.0}
    if isinstance(network, Topology):
        return copy.copy(network)  # peers that join are added to the copy
    if isinstance(network, str) and network in ("wide area", "local"):
        if network == "wide area":
            return transit_stub(names, seed=seed, capacities=capacities)
        return measured(np.full((len(names), len(names)), LOCAL_MS), names, seed=seed, capacities=capacities)
    if isinstance(network, os.PathLike) or (isinstance(network, str) and network.endswith(".npz")):
        return measured(Path(network), names, seed=seed, capacities=capacities)
    if isinstance(network, str) and "/" in network:
        return of_topohub(network, names, seed=seed, capacities=capacities)
    if isinstance(network, str) or not hasattr(network, "__len__"):
        hint = did_you_mean(network, ("wide area", "local"))
        raise ValueError(
            f"network: {network!r}; expected 'wide area', 'local', round-trip times in ms or the path of an .npz file "
            f"with them, a published network such as 'sndlib/germany50', or a Topology{hint}"
        )
    return measured(network, names, seed=seed, capacities=capacities)
