"""The deployments that a peer knows, and what follows from them for its own components. No IO, no clock."""

from __future__ import annotations

from synergy_nb.dataflow.deployments import Assignment, Deployment, producer
from synergy_nb.dataflow.streams.hosting._outbox import Key


class KnownDeployments:
    """The last deployment of each application that a peer knows."""

    def __init__(self) -> None:
        self.found: dict[str, Deployment] = {}

    def assignment(self, application: str, operator: str) -> Assignment | None:
        """Return the assignment of a component; None if this peer does not know it."""
        deployment = self.found.get(application)
        return deployment.assignments.get(operator) if deployment is not None else None

    def on_hold(self, application: str, operator: str) -> bool:
        """Return whether users have paused all applications that use a component."""
        deployment = self.found.get(application)  # not by `assignment`: each emission asks
        known = None if deployment is None else deployment.assignments.get(operator)
        return known is not None and known.on_hold

    def version(self, application: str) -> int:
        """Return the version of an application's deployment; 0 if this peer knows none."""
        known = self.found.get(application)
        return 0 if known is None else known.version

    def producer(self, reader: str, stream: Key) -> tuple[str, int] | None:
        """Return the peer and the epoch of a component whose stream an application reads; None if they are not known.

        ``stream``: application and operator of the component.
        """
        return producer(self.found, reader, *stream)

    def epochs_used(self, application: str) -> list[dict[str, int]]:
        """Return the deployed applications that use components of an application: operator to epoch for each."""
        return [
            known.producer_epochs[application] for known in self.found.values() if application in known.producer_epochs
        ]
