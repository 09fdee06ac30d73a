"""Active replicas in virtual time, without a control side: tests discard, revive, remove and rebuild by calls.

A replica whose peer died is removed, and its readers read the others. A rebuilt one starts from the state of a replica
that lives: this one gets a copy at the new peer, and the copy becomes a replica with a new name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import Assignment, InputFeed
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.plan.derived.active_replicas import replica_id

__all__ = ["ReplicaWorld"]

_TRIES = 200  # largest number of checks whether the state of a replica has arrived
_WAIT_S = 0.05  # seconds between two checks


class ReplicaWorld(StreamWorld):
    """Peers with applications that have active replicas; parameters as of :class:`.StreamWorld`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._built = 99  # number of the last rebuilt replica: those of a plan have lower numbers

    def replicas(self, application: str, operator: str) -> list[str]:
        """Return the replicas of an operator whose peers live."""
        assignments = self.deployments[application].assignments
        return [
            name for name, each in assignments.items() if each.replica_of == operator and not self.dead(each.active)
        ]

    def streams(self, application: str) -> list[tuple[str, str]]:
        """Return producer and reader of each stream between replicas that is not discarded."""
        assignments = self.deployments[application].assignments
        return [
            (feed.operator, name)
            for name, each in assignments.items()
            for feed in each.inputs
            if feed.operator in assignments and assignments[feed.operator].replica_of
        ]

    def discard(self, application: str, producer: str, reader: str) -> None:
        """Discard the stream from a replica to a reader."""
        found = self.deployments[application].assignments[reader]
        self._assign(application, reader, _without(found, InputFeed(application, producer)))

    def revive(self, application: str, producer: str, reader: str, port: int) -> None:
        """Have a reader read the stream from a replica, again or for the first time."""
        found = self.deployments[application].assignments[reader]
        self._assign(application, reader, _with(found, InputFeed(application, producer), port))

    def remove(self, application: str, replica: str) -> None:
        """Remove a replica and all of its streams."""
        known = self.deployments[application].assignments
        feed = InputFeed(application, replica)
        self.change(application, {name: _without(each, feed) for name, each in known.items() if name != replica})

    def rebuild(self, application: str, operator: str, peer: str) -> None:
        """Build one more replica of an operator at a peer, from the state of a replica that lives."""
        known = self.deployments[application].assignments
        sources = [name for name in self.replicas(application, operator) if not known[name].copies]
        hosts = {each.active for each in known.values() if each.replica_of == operator}
        if not sources or peer in hosts or self.dead(peer):
            return
        source = self.rng.choice(sources)
        self._begins(application, source, peer)
        self._assign(application, source, msgspec.structs.replace(known[source], backups=(peer,)))
        self.after(_WAIT_S, self._finish_rebuild, application, source, peer, _TRIES)

    def _finish_rebuild(self, application: str, source: str, peer: str, tries: int) -> None:
        """Make the copy a replica with a new name, as soon as it has the state; give up after many checks."""
        known = dict(self.deployments[application].assignments)
        found = known.get(source)
        if found is None or peer not in found.backups or self.dead(peer):
            return
        if not tries or found.follower:
            self._assign(application, source, msgspec.structs.replace(found, backups=()))
        elif not self.ready(application, source, peer):
            self.after(_WAIT_S, self._finish_rebuild, application, source, peer, tries - 1)
        else:
            self._built += 1
            name = replica_id(found.replica_of, self._built)
            new = Assignment(
                peer,
                inputs=found.inputs,
                ports=found.ports,
                replica_of=found.replica_of,
                state_from=source,
                numbers=found.numbers,
            )
            readers = {
                reader: _with(each, InputFeed(application, name), _port_of(each, known, found.replica_of))
                for reader, each in known.items()
                if any(_is_of(feed, known, found.replica_of) for feed in each.inputs)
            }
            self.change(application, {**known, **readers, name: new})
            self.after(1.0 + self.faults.deployment * 25, self._release, application, source, peer, name)

    def _release(self, application: str, source: str, peer: str, name: str) -> None:
        """Remove the copy, so that a replica no longer retains tuples for the one that was rebuilt from its state."""
        known = dict(self.deployments[application].assignments)
        for each in (source, name):
            if each in known:
                backups = tuple(one for one in known[each].backups if one != peer)
                known[each] = msgspec.structs.replace(known[each], backups=backups, state_from="")
        self.change(application, known)

    def _without(self, application: str, operator: str, assignment: Assignment, dead: str) -> Assignment:
        if assignment.replica_of:
            backups = tuple(peer for peer in assignment.backups if peer != dead)
            follower = "" if assignment.follower == dead else assignment.follower
            return msgspec.structs.replace(assignment, backups=backups, follower=follower)
        return super()._without(application, operator, assignment, dead)

    def replace_dead(self, dead: str) -> None:
        """Remove the replicas of a dead peer; have backups take over other components."""
        super().replace_dead(dead)
        for application in tuple(self.deployments):
            self._remove_at(application, dead)

    def _remove_at(self, application: str, peer: str) -> None:
        known = self.deployments[application].assignments
        for name in [name for name, each in known.items() if each.replica_of and each.active == peer]:
            self.remove(application, name)

    def _stated(self, peer: str, fact: Fact) -> None:
        super()._stated(peer, fact)
        assignments = self.deployments[fact.application].assignments
        failed = fact.kind is FactKind.COMPONENT_FAILED and fact.operator in assignments
        if failed and assignments[fact.operator].replica_of and assignments[fact.operator].active == peer:
            self.after(self.detection, self._end_failed, fact.application, fact.operator)

    def _end_failed(self, application: str, replica: str) -> None:
        if replica in self.deployments[application].assignments:
            self.remove(application, replica)


def _without(assignment: Assignment, feed: InputFeed) -> Assignment:
    """Return an assignment without a stream; its input stays, empty, so the numbers of the others do not change."""
    empty = InputFeed(feed.application, "")
    return msgspec.structs.replace(assignment, inputs=tuple(empty if one == feed else one for one in assignment.inputs))


def _with(assignment: Assignment, feed: InputFeed, port: int) -> Assignment:
    """Return an assignment with one more stream for a port of the operator; inputs without a stream are forgotten."""
    if feed in assignment.inputs:
        return assignment
    feeds = assignment.feeds
    number, ports = max(feeds) + 1, assignment.feed_ports or {each: each for each in feeds}
    for each in [each for each, left in feeds.items() if not left.operator]:
        if len(feeds) > 2:
            del feeds[each], ports[each]
    feeds[number], ports[number] = feed, port
    return msgspec.structs.replace(
        assignment, inputs=tuple(feeds.values()), ports=tuple(ports[each] for each in feeds), numbers=tuple(feeds)
    )


def _is_of(feed: InputFeed, known: Mapping[str, Assignment], operator: str) -> bool:
    """Whether a feed is the stream from a replica of an operator."""
    return feed.operator in known and known[feed.operator].replica_of == operator


def _port_of(assignment: Assignment, known: Mapping[str, Assignment], operator: str) -> int:
    """Return the port that the replicas of an operator feed."""
    number = next(at for at, feed in assignment.feeds.items() if _is_of(feed, known, operator))
    return assignment.port(number)
