"""Application sessions: set-up, feedback and end (sections 2.3.1, step 5, and 2.3.4)."""

from synergy_nb.algorithms.session.messages import SessionConfig
from synergy_nb.algorithms.session.sessions import Session

__all__ = ["Session", "SessionConfig"]
