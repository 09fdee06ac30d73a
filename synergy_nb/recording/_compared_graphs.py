"""The complete graphs of one request: which was chosen when, by which rule, and whose set-up failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from synergy_nb import events
from synergy_nb.recording.moments import ComparedGraph


class ComparedGraphs:
    """Collects complete graphs from events, in the order of these.

    Examples
    --------
    >>> found = ComparedGraphs(lambda peer: peer.upper(), lambda text: text)
    >>> found.note(events.GraphEvaluated(1.0, "a", "r", {"sink": "b"}, 0.5, 0.1), 3)
    >>> found.note(events.GraphSelected(1.1, "a", "r", {"sink": "b"}, 0.5, 0.1), 4)
    >>> found.note(events.SetupFailed(1.2, "a", "r", 1, "b has died"), 5)
    >>> found.graphs[0].chosen, found.graphs[0].verdict(4), found.graphs[0].verdict(5), found.graphs[0].failure
    (4, 'chosen', 'set-up failed', 'b has died')
    """

    def __init__(self, name: Callable[[str], str], readable: Callable[[str], str]) -> None:
        self._name = name  # function from the address of a peer to its name
        self._readable = readable  # function from a text with addresses to the text with names
        self._latest = -1  # place of the graph that was chosen last
        self.graphs: list[ComparedGraph] = []

    def note(self, event: events.Event, number: int) -> None:
        """Note what an event of the moment ``number`` says about graphs."""
        match event:
            case events.GraphEvaluated():
                peers = self._named(event.peers)
                self.graphs.append(ComparedGraph(peers, event.phi, event.delay_s, event.unqualified, number))
            case events.GraphSelected():
                peers = self._named(event.peers)
                places = [place for place, graph in enumerate(self.graphs) if graph.peers == peers]
                self._latest = places[-1] if places else -1
                if places:
                    self._change(chosen=number, why=self._rule(event), failed=-1, failure="")
            case events.SetupFailed():
                if self._latest >= 0:
                    self._change(failed=number, failure=self._readable(event.reason))
            case _:
                pass

    def _change(self, **fields: object) -> None:
        self.graphs[self._latest] = msgspec.structs.replace(self.graphs[self._latest], **fields)

    def _named(self, peers: Mapping[str, str]) -> dict[str, str]:
        return {operator: self._name(peer) for operator, peer in peers.items()}

    def _rule(self, event: events.GraphSelected) -> str:
        """Rule by which a graph was chosen; with the least φ of those that had not been tried, if it has a greater one.

        The rule may prefer a faster graph, or one on more peers.
        """
        known = [graph.phi for graph in self.graphs if graph.chosen < 0 and not graph.unqualified]
        least = min((phi for phi in known if phi is not None), default=event.phi)
        return event.rule if event.phi <= least else f"{event.rule}; the least φ is {least:.4g}"
