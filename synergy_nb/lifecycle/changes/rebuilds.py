"""Rebuilds: another peer gets a lost active replica, or a lost backup, while its application runs.

Theory of operation
-------------------
O is the origin, r the lost replica, S another replica of the same operator that lives, T the new peer.

1. O sends T :class:`Rebuild`, with a graph in which r is rebuilt from S at T. T joins the session, commits the
   resources of r, and answers :class:`Rebuilt`; or it refuses.
2. O publishes this graph. S gives T a copy, as it would give a backup: snapshots, and its output.
3. When the driver of T reports that the copy could take over, T answers with ``ready``. O publishes the graph in which
   T executes r. It begins with the state, the inputs and the output so far of S, so its windows are complete. From then
   on it decides on its own order of inputs, and emits a stream of its own, which its readers get as a further input.
4. When r has subscribed to all of its inputs, T answers with ``ready`` again. O publishes a graph without the copy.
   Until then, producers retain for S the tuples that r has yet to read.
5. O asks the peers of the readers until the stream of r is complete at each reader
   (:mod:`~synergy_nb.lifecycle.changes._rebuilt_streams`). Then the replica counts as rebuilt.

A lost backup takes steps 1 to 3: S is the component itself, T commits what a backup needs, and once the copy could take
over, O publishes the graph in which T has the backup. Before that no death makes a component of it.

In a durable cluster a lost replica goes on from the folder: T commits it, O publishes the graph in which T executes it
in the next epoch, and T reads the folder. It makes the stream that it made before, so its readers need nothing else.

A message that is not answered is sent again every second. If T refuses or is not ready in time, or if a peer dies
before step 3, O gives the rebuild up, and publishes a graph without it; the algorithm that decided on it tries again.
From step 3 on r is a replica like any other; if S dies then, r goes on from the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from synergy_nb.control.peer import Message
from synergy_nb.dataflow.deployments import FOLDER
from synergy_nb.events import BackupRestored, RebuildGivenUp, ReplicaRebuilt
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes._rebuilt_streams import RebuiltStreams
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.records.members import Member, other_replicas
from synergy_nb.lifecycle.records.messages import (
    End,
    Graph,
    Rebuild,
    Rebuilt,
)
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of

__all__ = ["Rebuilds"]


class _RunningRebuild:
    """A rebuild that this peer, the origin, leads."""

    __slots__ = ("before", "began", "done", "executes", "graph", "published", "replica", "source", "timer", "to")

    def __init__(
        self, before: Graph, replica: str, source: str, to: str, began: float, done: Callable[[str], None]
    ) -> None:
        # before, graph: graph before the rebuild, and the graph in which the new peer has a copy
        self.before = before
        self.graph = before.changed(before.roles.rebuilding(replica, source, to))
        # replica, source, to: lost replica, the replica from whose state it begins, and the address of its new peer.
        # For a backup both are the operator
        self.replica = replica
        self.source = source
        self.to = to
        self.began = began  # time at which the rebuild began, seconds
        self.done = done  # callback for the result, see `Rebuilds.rebuild`
        self.published = False  # whether that graph has been published, as the new peer has agreed
        self.executes = False  # whether the graph in which the new peer executes the replica has been published
        self.timer: AnswerLimit | None = None

    @property
    def is_backup(self) -> bool:
        """Whether the new peer is to have a backup, not a replica."""
        return self.replica == self.source

    @property
    def is_kept(self) -> bool:
        """Whether the replica goes on from the folder."""
        return self.source == FOLDER


class Rebuilds(GraphChanger):
    """Leads the rebuilds in applications of this peer, and takes part in those of others."""

    def __init__(
        self,
        changes: GraphChanges,  # the protocol for changed graphs
        # function of (member, operator) that returns the reason why the operator would harm an application at this
        # peer; empty if it harms none
        impact_refusal: Callable[[Member, str], str],
        # function of (application, operator) that returns the peers whose copy cannot take over at present
        cannot_take_over: Callable[[str, str], Collection[str]],
        # function of an application that returns the lost replicas that its graph has at the peers that they had
        lost: Callable[[str], Collection[str]],
    ) -> None:
        super().__init__(changes)
        self.lost = lost
        self.impact_refusal = impact_refusal
        self.cannot_take_over = cannot_take_over
        self._rebuilds: dict[str, _RunningRebuild] = {}
        self.streams = RebuiltStreams(changes)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Rebuild: self._rebuild,
            Rebuilt: self._rebuilt,
            **self.streams.handlers,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def rebuild(self, application: str, replica: str, source: str, to: str, done: Callable[[str], None]) -> None:
        """Rebuild a lost replica, or a lost backup, in a running application of this peer.

        ``application``, ``replica``: id of the application, and of the replica that was lost, or of the operator that
        is to have another backup; ``source``: id of the replica from whose state the lost one begins again; for a
        backup, of the operator; ``FOLDER`` if it goes on from there; ``to``: address of the new peer of the lost
        replica, or of the backup; ``done``: callback for the result: an empty text once the replica executes, or the
        backup could take over; or the reason why it does not.

        Raises ``ValueError`` if the replica cannot be rebuilt from ``source``, at ``to``, or at present.
        """
        request = self.led.get(application)
        if request is None or request.state is not State.RUNNING or application in self._rebuilds:
            raise ValueError(f"application: {application!r}; expected one of this peer that runs and does not change")
        graph = request.graph
        peers, plan = graph.roles.peers, Plan.from_bytes(graph.plan)
        group = replicas_of(plan).get(original(replica), (replica,) if replica == source else ())
        kept = source == FOLDER
        lost = replica in self.lost(application) if kept else not peers.get(replica) or replica == source
        if replica not in group or not lost:
            raise ValueError(f"replica: {replica!r}; expected a replica that was lost")
        if not kept and (source not in group or not peers.get(source) or self.membership.is_dead(peers[source])):
            raise ValueError(f"source: {source!r}; expected another replica of {original(replica)} that executes")
        others = {peers[source], *graph.roles.backups.get(source, ())} if replica == source else set[str]()
        others |= set() if kept else other_replicas(graph, plan, replica)
        if self.membership.is_dead(to) or to in others:
            raise ValueError(f"to: {to!r}; expected a peer that lives and has no replica of {original(replica)}")
        request.enter(State.REBUILDING)
        rebuild = self._rebuilds[application] = _RunningRebuild(graph, replica, source, to, self.peer.now, done)
        self.membership.watch(to)
        self._set_timeout(application, rebuild, self.config.setup)
        self._resend(application, rebuild)

    def target(self, application: str) -> str:
        """New peer of the replica that is rebuilt in an application that this peer leads; empty if none is."""
        rebuild = self._rebuilds.get(application)
        return "" if rebuild is None else rebuild.to

    def _set_timeout(self, application: str, rebuild: _RunningRebuild, seconds: float) -> None:
        if rebuild.timer is not None:
            rebuild.timer.cancel()
        rebuild.timer = self.membership.answers.after(seconds, (rebuild.to,), self._timed_out, application, rebuild)

    def _needed_graph(self, application: str, rebuild: _RunningRebuild) -> Graph:
        """The graph that the new peer has to learn: with the replica if that executes, otherwise with its copy."""
        return self.led[application].graph if rebuild.executes else rebuild.graph

    def _resend(self, application: str, rebuild: _RunningRebuild) -> None:
        """Send the graph to the new peer, now and once every interval, until the rebuild has ended."""
        if self._rebuilds.get(application) is not rebuild:
            return
        graph = self._needed_graph(application, rebuild)
        if rebuild.replica not in graph.roles.rebuilds:
            self._remove(application, rebuild)
            self._report(rebuild, "it was lost again")
            return
        self.peer.send(rebuild.to, Rebuild(graph, rebuild.replica))
        self.peer.after(RESEND_INTERVAL, self._resend, application, rebuild)

    def _rebuilt(self, sender: str, message: Rebuilt) -> None:
        """Go on with a rebuild by the answer of the new peer (steps 2 to 4), or give it up."""
        application = message.application
        request, rebuild = self.led.get(application), self._rebuilds.get(application)
        if request is None:
            if sender != self.peer.address:  # at the origin itself, the sinks retain their results
                self.peer.send(sender, End(application, message.attempt, "it has ended"))
            return
        graph = request.graph if rebuild is None else self._needed_graph(application, rebuild)
        if rebuild is None or (graph.attempt, graph.epoch) != (message.attempt, message.epoch) or sender != rebuild.to:
            self.changes.tell(application, sender)  # it may not know that the rebuild has been given up
        elif message.refusal:
            self._give_up(application, f"{rebuild.replica} at {sender}: {message.refusal}")
        elif rebuild.is_kept:
            self._go_on(application, rebuild)
        # from here on there is no way back: readers may have read from the replica, so a failure removes only its copy
        elif rebuild.executes:
            if message.ready:
                self._remove_copy(application, rebuild)
        elif message.ready and rebuild.to not in self.cannot_take_over(application, rebuild.source):
            (self._add_backup if rebuild.is_backup else self._execute)(application, rebuild)
        elif not rebuild.published:
            rebuild.published = True
            self.changes.change(application, rebuild.graph)
            self.changes.publish(application)
            self._set_timeout(application, rebuild, self.config.moving)

    def _execute(self, application: str, rebuild: _RunningRebuild) -> None:
        """Publish the graph in which the new peer executes the replica (step 3)."""
        rebuild.executes = True
        graph = rebuild.graph.changed(
            rebuild.graph.roles.with_rebuilt(Plan.from_bytes(rebuild.graph.plan), rebuild.replica)
        )
        self.changes.change(application, graph)
        self.changes.publish(application)
        self._set_timeout(application, rebuild, self.config.moving)
        self.peer.instruct(self.led[application].report())
        self.peer.send(rebuild.to, Rebuild(graph, rebuild.replica))
        self.streams.watch(application, rebuild.replica, rebuild.source, rebuild.began)

    def _go_on(self, application: str, rebuild: _RunningRebuild) -> None:
        """Publish the graph in which the new peer executes the replica, from the folder on."""
        request, replica = self.led[application], rebuild.replica
        before = rebuild.before.roles.peers[replica]
        graph = rebuild.graph.changed(rebuild.graph.roles.with_kept(replica))
        self._end(application, rebuild, graph, () if self.membership.is_dead(before) else (before,))
        group = replicas_of(Plan.from_bytes(graph.plan))[original(replica)]
        lost = self.lost(application)
        self.peer.record(
            ReplicaRebuilt,
            application,
            operator=replica,
            source="",
            at=rebuild.to,
            seconds=self.peer.now - rebuild.began,
            left=sum(each not in lost for each in group),
            peers=graph.roles.peers,
        )
        self.peer.instruct(request.report())
        self._report(rebuild, "")
        self.changes.change_ended(application)

    def _add_backup(self, application: str, rebuild: _RunningRebuild) -> None:
        """Publish the graph in which the copy is a backup, as it could take over."""
        request, operator = self.led[application], rebuild.replica
        graph = rebuild.graph.changed(rebuild.graph.roles.with_backup(operator))
        self._end(application, rebuild, graph)
        self.peer.record(
            BackupRestored,
            application,
            operator=operator,
            at=rebuild.to,
            seconds=self.peer.now - rebuild.began,
            backups=graph.roles.backups,
        )
        self.peer.instruct(request.report())
        self._report(rebuild, "")
        self.changes.change_ended(application)

    def _remove_copy(self, application: str, rebuild: _RunningRebuild) -> None:
        """Publish the graph without the copy (step 4); during another change of the graph, ask the peer again."""
        request = self.led[application]
        if request.state is State.REBUILDING:
            request.enter(State.RUNNING)
        if request.state is not State.RUNNING:
            return
        self._remove(application, rebuild)
        self.changes.change(application, request.graph.changed(request.graph.roles.released(rebuild.replica)))
        self.changes.publish(application)
        self._report(rebuild, "")
        self.changes.change_ended(application)

    def _end(self, application: str, rebuild: _RunningRebuild, graph: Graph, also: Collection[str] = ()) -> None:
        """End a rebuild: publish the graph that follows to the peers of the application, and to the peers ``also``."""
        self._remove(application, rebuild)
        self.led[application].enter(State.RUNNING)
        self.changes.change(application, graph)
        self.changes.publish(application, also)

    def _remove(self, application: str, rebuild: _RunningRebuild) -> None:
        """Forget a rebuild that has ended."""
        del self._rebuilds[application]
        self.membership.unwatch(rebuild.to)
        if rebuild.timer is not None:
            rebuild.timer.cancel()

    def _report(self, rebuild: _RunningRebuild, reason: str) -> None:
        """Call ``done`` after the present message is handled, as the graph may change because of a death."""
        self.peer.after(0.0, rebuild.done, reason)

    def _give_up(self, application: str, reason: str) -> None:
        """End a rebuild whose replica does not execute yet, without success: publish a graph without it."""
        rebuild = self._rebuilds[application]
        graph = msgspec.structs.replace(rebuild.before, epoch=rebuild.graph.epoch + 1)
        self._end(application, rebuild, graph, (rebuild.to,))
        self.peer.record(RebuildGivenUp, application, operator=rebuild.replica, at=rebuild.to, reason=reason)
        self._report(rebuild, reason)
        self.changes.change_ended(application)

    def settled(self, application: str) -> bool:
        """Return whether no replica is being rebuilt, and the streams of rebuilt ones are complete at their readers."""
        return application not in self._rebuilds and self.streams.settled(application)

    def interrupt(self, application: str, reason: str) -> None:
        """Give up a rebuild whose replica does not execute yet, so that another change of the graph can begin."""
        rebuild = self._rebuilds.get(application)
        if rebuild is None:
            return
        if not rebuild.executes:
            self._give_up(application, reason)
        elif self.led[application].state is State.REBUILDING:
            self.led[application].enter(State.RUNNING)

    def died(self, application: str, address: str) -> None:
        """Handle the death of a peer, before the replicas and backups there are replaced."""
        rebuild = self._rebuilds.get(application)
        if rebuild is not None and address in {*self.led[application].graph.addresses, rebuild.to}:
            self.interrupt(application, f"peer {address} died")
            if rebuild.executes and address == rebuild.to:
                self._remove(application, rebuild)
                self._report(rebuild, f"peer {address} died")

    def _timed_out(self, application: str, rebuild: _RunningRebuild) -> None:
        """Give a rebuild up that was not ready in time; if the replica executes already, only remove the copy."""
        if self._rebuilds.get(application) is not rebuild:
            return
        if rebuild.executes:  # the copy is removed anyway, so that producers need not retain tuples for ever
            self._remove_copy(application, rebuild)
            if self._rebuilds.get(application) is rebuild:
                self._set_timeout(application, rebuild, self.config.setup)
        else:
            waited = (
                f"{rebuild.replica} at {rebuild.to} was not ready"
                if rebuild.published
                else f"{rebuild.to} did not answer"
            )
            self._give_up(application, f"{waited} in time")

    def end(self, application: str, reason: str) -> None:
        """Cancel the rebuild of an application that has ended, or that this peer leads no more."""
        self.streams.end(application)
        rebuild = self._rebuilds.get(application)
        if rebuild is not None:
            self._remove(application, rebuild)
            # where all know it, the session tells it the end; and another peer that leads the application now goes on
            # with it, or tells it its graph: an End would have it leave for good
            # (test_who_leads_on_goes_on_with_what_executes_and_records_no_rebuild_of_another)
            unknown = not (rebuild.published or rebuild.executes)
            if unknown and rebuild.to not in {*rebuild.before.addresses, self.peer.address}:
                self.peer.send(rebuild.to, End(application, rebuild.graph.attempt, reason))
            self._report(rebuild, reason)

    def resume(self, application: str) -> None:
        """Go on with what the origin before this one had begun: replicas that execute, and have a copy or readers.

        A rebuild whose replica does not execute yet is given up with its origin.
        """
        graph = self.led[application].graph
        for replica in graph.roles.rebuilt:
            to = graph.roles.peers[replica]
            source = graph.roles.rebuilds.get(replica, ("", ""))[0]
            if to:
                self.streams.watch(application, replica, source, self.peer.now)
            if to and source:
                rebuild = _RunningRebuild(graph, replica, source, to, self.peer.now, lambda _reason: None)
                rebuild.graph, rebuild.published, rebuild.executes = graph, True, True
                self._rebuilds[application] = rebuild
                self.membership.watch(to)
                self._set_timeout(application, rebuild, self.config.moving)
                self._resend(application, rebuild)

    # -- at members --------------------------------------------------------------------------------------------------

    def _rebuild(self, sender: str, message: Rebuild) -> None:
        graph, replica = message.graph, message.operator
        known = self.changes.members.get(graph.application)
        if self.participation.refuses(sender, graph, "Rebuild"):
            return
        if known is not None and known.graph.epoch < graph.epoch and self._is_outdated(known, graph, replica):
            # first a graph without the copy, so that the old one is dropped here and the new one begins from a new
            # snapshot
            without = msgspec.structs.replace(graph, roles=graph.roles.released(replica), epoch=graph.epoch - 1)
            self.changes.adopt(known, without)
        member = self.participation.join(sender, graph, "Rebuild")
        refusal = "it has no part in the application" if member is None else self._prepare(member, graph, replica)
        self._answer(sender, graph, replica, member, refusal)

    def _is_outdated(self, member: Member, graph: Graph, replica: str) -> bool:
        """Whether this peer has an old copy, and does not know yet that nothing has been retained for it since."""
        source, peer = graph.roles.rebuilds.get(replica, ("", ""))
        executes = source != replica and bool(graph.roles.peers[replica])
        known, here = member.graph.roles, self.peer.address
        held = replica in known.backed_up(here) or known.rebuilds.get(replica, ("", ""))[1] == here
        return peer == here and not executes and held

    def _answer(self, origin: str, graph: Graph, replica: str, member: Member | None, refusal: str) -> None:
        awaited = replica if graph.roles.peers[replica] else graph.roles.rebuilds.get(replica, ("", ""))[0]
        ready = member is not None and awaited in member.ready
        self.peer.send(origin, Rebuilt(graph.application, graph.attempt, graph.epoch, replica, ready, refusal))

    def _prepare(self, member: Member, graph: Graph, replica: str) -> str:
        """Commit a replica that is to be rebuilt here; return an empty text, or the reason of a refusal."""
        if graph.roles.rebuilds.get(replica, ("", ""))[1] != self.peer.address:
            return ""  # a repetition: the copy is not needed any more
        begun = member.graph.roles.rebuilds.get(replica) == graph.roles.rebuilds[replica]
        copies = member.graph.roles.backed_up(self.peer.address) if member.backups_committed else []  # none as it joins
        anew = not begun or not (replica in member.deployed or replica in copies)
        if anew:
            if replica in member.deployed:  # this peer was declared dead, and does not know that
                self.changes.components.discard(member, replica)
            backup = graph.roles.rebuilds[replica][0] == replica
            refusal = self._refusal(member, graph, replica, backup=backup)
            if refusal:
                self.changes.ledger.drop(graph.application, replica)
                return refusal
            if not backup:
                self.changes.components.deploy(member, graph, replica)
        member.start()  # the application runs
        if anew or member.graph.epoch < graph.epoch:
            self.changes.adopt(member, graph)
        return ""

    def _refusal(self, member: Member, graph: Graph, operator: str, *, backup: bool) -> str:
        """Commit what a replica or a backup needs here; return an empty text, or the reason of a refusal."""
        if not backup:
            return self.impact_refusal(member, operator) or self.changes.components.commit(graph, member.plan, operator)
        self.changes.ledger.drop(graph.application, operator)
        return self.changes.components.commit_backup_link(graph, member.plan, operator)

    def ready(self, member: Member, operator: str) -> None:
        """The driver's report that its copy could take over, or that its rebuilt replica reads all of its inputs."""
        for replica, (source, peer) in member.graph.roles.rebuilds.items():
            if peer == self.peer.address and operator in (source, replica):
                self._answer(member.graph.origin, member.graph, replica, member, "")
