"""Assembly of a Synergy peer: its protocols in one kernel, and the protocol that handles its driver's messages."""

from synergy_nb.assembly._synergy_peer import Machine, PeerConfig, SynergyPeer, prepare

__all__ = ["Machine", "PeerConfig", "SynergyPeer", "prepare"]
