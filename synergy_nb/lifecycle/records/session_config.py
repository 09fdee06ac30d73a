"""The time limits and intervals of sessions, and how often messages are repeated that nobody acknowledges."""

from __future__ import annotations

from typing import Final

import msgspec

from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART

__all__ = ["RESEND_INTERVAL", "SENDS", "SessionConfig"]

RESEND_INTERVAL: Final = 1.0  # seconds until a message is sent again
SENDS: Final = 3  # number of times that a message is sent to a peer that does not acknowledge it


class SessionConfig(msgspec.Struct, frozen=True):
    """Time limits and intervals of sessions."""

    # time limit of the set-up: from the first Confirm to the last Confirmed of a source or helper, seconds
    setup: float = 3.0
    feedback: float = 1.0  # interval between two feedback messages, seconds
    lease: float = 10.0  # time without feedback after which a peer asks whether the application goes on, seconds
    prepare: float = 120.0  # additional time limit of set-up and lease while parts on Spark start, seconds
    moving: float = 60.0  # time limit for the follower of a moving component to become ready, seconds
    # time for which an application waits for a peer that is silent, and has no backup, before it ends, seconds. A peer
    # whose process has ended is not waited for
    patience: float = 60.0
    compares: bool = False  # whether readers compare the streams of active replicas
    durable: bool = False  # whether each component has a copy in a folder, besides those of its plan

    @property
    def silence(self) -> float:
        """Time without feedback or an answer after which a peer leaves a session, seconds."""
        return self.lease + self.patience

    def preparation(self, plan: Plan) -> float:
        """Additional time limit for the set-up of a plan, seconds."""
        return self.prepare if any(each.kind == PART for each in plan.operators.values()) else 0.0
