"""Whoever takes over a component that reads several inputs asks in which order these were read. No IO, no clock.

All peers of the application are asked, and answer once they know the deployment that asks: from then on they refuse
what the earlier one still says, so what they know is all that anybody will ever depend on. With a new
deployment all are asked anew, as somebody has died who may have told others more.
"""

from __future__ import annotations

from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.deployments import Deployment
from synergy_nb.dataflow.streams.frames import Determinants, Recall
from synergy_nb.dataflow.streams.values import Determinant

__all__ = ["RECALL_S", "Recovery"]

RECALL_S = 0.1


class Recovery:
    """The answers that a component waits for before it goes on freely.

    Parameters
    ----------
    component
        Component that has taken over.

    Attributes
    ----------
    missing : set of str
        Addresses of the peers that have not answered.
    found : list of Determinant
        Determinants that those who answered know.
    retry_at : float
        Time in seconds at which those that are missing are asked again.
    """

    def __init__(self, component: Component) -> None:
        self.component = component
        self.missing: set[str] = set()
        self.found: list[Determinant] = []
        self.retry_at = 0.0
        self._version = 0

    def ask(self, deployment: Deployment, now: float) -> None:
        """All peers of a deployment are to be asked."""
        self._version = deployment.version
        self.missing = set(deployment.peers)
        self.found.clear()
        self.retry_at = now

    def recall(self, now: float) -> tuple[Recall, list[str]]:
        """The question, and who is to be asked now."""
        self.retry_at = now + RECALL_S
        return Recall(self.component.output, self._version), sorted(self.missing)

    def answer(self, sender: str, answer: Determinants) -> bool:
        """Take an answer; True if it was the last that was missing."""
        if answer.stream != self.component.output.stream or answer.version != self._version:
            return False
        if sender not in self.missing:
            return False
        self.missing.remove(sender)
        self.found += answer.found
        return not self.missing
