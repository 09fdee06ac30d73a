"""Rights of a running application that its owner grants: all its peers learn them by its next graph."""

from __future__ import annotations

from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges

__all__ = ["Grants"]


class Grants:
    """Publishes the rights to the applications that a peer leads."""

    def __init__(self, changes: GraphChanges) -> None:
        self._changes = changes
        changes.on_change_ended.append(self.publish)

    def publish(self, application: str) -> None:
        """Publish the rights to an application if they have changed; while its graph changes, only after that."""
        request = self._changes.led.get(application)
        if request is None or request.state is not State.RUNNING or request.graph.rights == request.rights:
            return
        self._changes.change(application, request.graph.changed(request.graph.roles, rights=request.rights))
        self._changes.publish(application)
