"""Whoever takes over a component that reads several inputs asks in which order these were read. No IO, no clock.

All peers of the application are asked, and answer once they know the deployment that asks: from then on they refuse
what the earlier one still says, so what they know is all that anybody will ever depend on. Peers of applications that
share its streams answer once they read from where its components are now. With a new deployment all are asked anew, as
somebody has died who may have told others more.
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
        self._deployment: Deployment | None = None
        self._question = 0

    def ask(self, deployment: Deployment, now: float) -> None:
        """All peers of a deployment are to be asked."""
        self._deployment = deployment
        self._question += 1
        self.missing = set(deployment.peers)
        self.found.clear()
        self.retry_at = now

    def recall(self, now: float) -> tuple[Recall, list[str]]:
        """The question, and who is to be asked now."""
        self.retry_at = now + RECALL_S
        known = self._deployment
        if known is None:
            return Recall(self.component.output, 0), []
        epochs = {operator: place.epoch for operator, place in known.places.items() if place.epoch}
        question = Recall(self.component.output, known.version, self._question, epochs, known.requires)
        return question, sorted(self.missing)

    def answer(self, sender: str, answer: Determinants) -> bool:
        """Take an answer; True if it was the last that was missing."""
        known = self._deployment
        if known is None or answer.stream != self.component.output.stream or answer.version != known.version:
            return False
        if answer.question != self._question or sender not in self.missing:
            return False
        self.missing.remove(sender)
        self.found += answer.found
        return not self.missing
