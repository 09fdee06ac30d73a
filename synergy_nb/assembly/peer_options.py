"""Options of peers that users set for a cluster or a simulation: their checks, and what peers are made of."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly._synergy_peer import PeerConfig
from synergy_nb.control.rights import GUESTS, Acceptance
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.models.hot_spot_config import HotSpotConfig, hot_spot_config
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan.terms.units import duration

__all__ = ["LATE", "check_positive", "peer_config"]

LATE: Final = 0.05  # default share of the tuples that may miss a limit


def check_positive(**values: Any) -> None:
    """Raise ValueError if a value, given by the name of its option, is not positive; None is not checked."""
    for field, value in values.items():
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise ValueError(f"{field}: {value!r}; expected a positive number")


def peer_config(
    bandwidth: float,
    composition: object = None,
    hotspots: str | HotSpotConfig = "on",
    replication: object = None,
    overload: object = False,
    patience: float | str = SessionConfig().patience,
    guests: object = None,
) -> PeerConfig:
    """Return the configuration of peers; raise ValueError if an option is invalid, as ``Cluster`` describes them."""
    if composition is not None and not isinstance(composition, CompositionConfig):
        expected = "a CompositionConfig, such as CompositionConfig(ratio=0.2)"
        raise ValueError(f"composition: {composition!r}; expected {expected}")
    if replication is not None and not isinstance(replication, ReplicationConfig):
        expected = "a ReplicationConfig, such as ReplicationConfig(theta='60 %')"
        raise ValueError(f"replication: {replication!r}; expected {expected}")
    if guests is not None and not isinstance(guests, Acceptance):
        raise ValueError(f"guests: {guests!r}; expected an Acceptance, such as Acceptance(cores=0.25)")
    if not isinstance(overload, bool):
        raise ValueError(f"overload: {overload!r}; expected True or False")
    composing = composition or CompositionConfig(late=LATE)
    return PeerConfig(
        bandwidth=float(bandwidth),
        accepts=GUESTS if guests is None else guests,
        composition=msgspec.structs.replace(composing, enforce=False) if overload else composing,
        hotspots=hot_spot_config("hotspots", hotspots),
        placement=PlacementConfig(room_first=True, apart_first=True, ahead=True),
        replication=replication or ReplicationConfig(),
        session=SessionConfig(patience=duration("patience", patience, least=0.0)),
    )
