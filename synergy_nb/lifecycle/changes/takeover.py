"""Take-over: when a peer with replicated components dies, their backups become active (section 4.2).

Theory of operation
-------------------
Every component with backups is replicated passively: the peers of its backups retain what the primary emits and
periodic snapshots of its state. When the failure detector declares a peer dead, the origin chooses, for each component
at that peer, the first backup that lives and can take over, and sends its peer :class:`TakeOver`. That peer commits the
resources, has its driver make the backup active, and answers :class:`TookOver`. When all backups have answered, the
origin publishes the new graph to all members (:mod:`~synergy_nb.lifecycle.changes.graph_changes`). Messages are sent
several times; receiving one again has no effect.

The new primary begins a new epoch of its stream, so readers can tell its output from that of the old one. If another
peer dies during a take-over, the next take-over starts from the graph that was being set up. If a component has no
backup that answers, the application waits for one of its peers that is only silent
(:mod:`~synergy_nb.lifecycle.changes.awaited_peers`). It fails, with a reason, when the processes of all of them have
ended, when it has waited too long, or when a backup refuses. A backup that lives and does not answer for that long is
passed over like one that has failed: it is cut off from the origin alone, or ignores what it is asked. Afterwards the
component gets another backup (:mod:`~synergy_nb.lifecycle.changes.rebuilds`). Sinks, the origin, and sources that did
not ask for any have no backups. Active replicas have none either: if one is lost, the other replicas of its operator
emit the same tuples already. The new graph has no peer for it, and its readers discard that input. In a durable cluster
the graph stays as it is until the replica goes on from the folder at another peer: what it has yet to read is retained
for it. If the last replica of an operator is lost, the application fails. A sharer waits for the origin of the owner
(:mod:`~synergy_nb.lifecycle.changes.shared_streams`).

*The way back.* A verdict may be wrong: then the old primary lives, and its readers read on from it, as no graph has
told them otherwise. Until a take-over is confirmed and published, only the peers that were asked know of it. If these
cannot go on, it is *undone*: its components go back to the peers that have them by the last published graph, in a new
epoch. They are asked like any backup (:class:`TakeOver`), also while they are silent, and go on with the state that
they have (:mod:`~synergy_nb.dataflow.streams.hosting._roles`). This is safe because

- whoever has heard of the take-over knows an earlier epoch than that of the graph that undoes it. So it leaves what is
  not its own any more, and its frames are refused;
- producers retain what the old primary has not read, as it is the reader that their graph names;
- the old primary has not heard of the take-over. Until that is confirmed, nobody is told its graph: not a peer that
  returns, nor one to which an earlier graph is sent again. Where a successor leads by now, the old primary has promised
  not to adopt graphs of this peer, and refuses;
- all of a take-over is undone, or nothing. A component that is replaced upstream of the old primary may read its inputs
  in another order than the old primary knows;
- nobody depends on what those who took over have decided. They may have executed, and components at peers that were
  asked may have read from them. So a take-over with such a reader is not undone if positions do not follow from inputs
  alone (several inputs, tuples that are dropped); nor is one of a source that cannot be read twice, of a sink, or of a
  part on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from synergy_nb.control.peer import Message
from synergy_nb.events import ActiveReplicasLost, ReplicaRebuilt, TakenOver, TakeoverBegun
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.awaited_peers import AwaitedPeers
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.records.messages import Graph, TakeOver, TookOver
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of
from synergy_nb.plan.derived.repeatable_results import acts_outside, decided

__all__ = ["TakeOvers"]


class _Unconfirmed(NamedTuple):
    """What nobody but the peers that were asked knows: the take-overs since the last published graph."""

    former: dict[str, str]  # operator to the peer that has it by that graph
    asked: set[str]  # addresses of the peers that were asked to take over

    @property
    def peers(self) -> set[str]:
        """Addresses of all peers that may execute the components."""
        return self.asked.union(self.former.values())


class _Loss(NamedTuple):
    """The loss of an active replica that is to go on from the folder."""

    epoch: int  # epoch of its component
    gone: bool  # whether its peer executes it no more, also if it lives
    since: float  # time at which it was lost, seconds


class TakeOvers(GraphChanger):
    """Leads the take-overs in applications of this peer, and makes backups at this peer active."""

    def __init__(
        self,
        changes: GraphChanges,
        # callback with (application, attempt, reason) when an application that this peer leads cannot go on
        fail: Callable[[str, int, str], None],
        awaited: AwaitedPeers,  # peers that the applications wait for
        # function of an application that returns the peers of components that it shares, and that it has to wait for,
        # to the names of these; None if one of them is lost for good
        shared: Callable[[str], Mapping[str, Sequence[str]] | None],
        # function of (application, operator) that returns the peers whose copy cannot take over; such a copy is chosen
        # only if there is no other
        cannot_take_over: Callable[[str, str], Collection[str]],
        # function of an application that returns its rebuilt replicas whose readers still need the other ones
        incomplete: Callable[[str], set[str]],
        # function of (application, operator) that returns the applications that share its stream
        sharers: Callable[[str, str], Collection[str]],
    ) -> None:
        super().__init__(changes)
        self.fail = fail
        self.awaited = awaited
        self.shared = shared
        self.cannot_take_over = cannot_take_over
        self.incomplete = incomplete
        self.sharers = sharers
        self._pending = changes.taking_over
        self._unconfirmed: dict[str, _Unconfirmed] = {}  # by application that this peer leads
        # application to how often its backups have been asked since some were chosen. Not the time: this peer may have
        # been stopped meanwhile, and the others had no chance to answer it
        self._asked: dict[str, int] = {}
        self._losses: dict[str, dict[str, _Loss]] = {}  # by application of a durable cluster, and active replica
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            TakeOver: self._take_over,
            TookOver: self._took_over,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def dispensable(self, application: str, operators: Collection[str]) -> bool:
        """Whether all of these are active replicas, and each of their operators has another replica that lives."""
        return bool(operators) and self._spared(self.led[application].graph, operators) == set(operators)

    def lost(self, application: str) -> set[str]:
        """Active replicas of an application that are lost and go on from the folder, at peers yet to be found."""
        roles, losses = self.led[application].graph.roles, self._losses.get(application, {})
        return {
            name
            for name, loss in losses.items()
            if loss.epoch == roles.epochs.get(name, 0) and (loss.gone or self.membership.is_dead(roles.peers[name]))
        }

    def _spared(self, graph: Graph, missing: Collection[str], silent: Collection[str] = ()) -> set[str]:
        """Those of the missing operators that are active replicas whose operators have another replica that lives.

        A replica that is only ``silent`` is not spared for one that was rebuilt and whose stream its readers cannot do
        with alone: the readers would have to do without the tuples before it.
        """
        peers, replicas = graph.roles.peers, replicas_of(Plan.from_bytes(graph.plan))
        without = {*missing, *self.lost(graph.application)}
        living = {
            name: {
                each for each in group
                if each not in without and peers[each] and not self.membership.is_dead(peers[each])
            }
            for name, group in replicas.items()
        }  # fmt: skip
        incomplete = self.incomplete(graph.application)
        return {
            name for name in missing if living.get(original(name), set()) - (incomplete if name in silent else set())
        }

    def concerns(self, application: str, address: str) -> bool:
        """Whether an application that this peer leads depends on whether a peer lives, by its graph or by the last."""
        unconfirmed = self._unconfirmed.get(application)
        known = self.led[application].graph.addresses
        return address in known or (unconfirmed is not None and address in unconfirmed.peers)

    def begin(
        self, application: str, address: str, reason: str = "", failed: Collection[str] = (), *, forgot: bool = False
    ) -> bool:
        """Replace what an application has lost: its backups take over, or its other active replicas go on alone.

        What nothing can replace is waited for, if its peer is only silent. Calling it again has no effect.

        ``application``: application that this peer leads; ``address``: address of the peer that died or has returned,
        or at which components have failed; ``reason``: reason why the components have failed; empty if the peer died;
        ``failed``: operators of the components that have failed; empty if the peer died.

        Returns whether the application goes on: for each lost component there is a living backup, another active
        replica, or a silent peer that may answer again.
        """
        request = self.led[application]
        graph = request.graph
        awaited = self.shared(application) if request.running else None
        if awaited is None:
            return False

        def lost_at(peer: str) -> bool:
            return self.membership.is_dead(peer) or (forgot and peer == address)

        backups = {name: tuple(each for each in at if not lost_at(each)) for name, at in graph.roles.backups.items()}
        moved: dict[str, str] = {}
        missing: set[str] = set()
        self._forget_losses(application)
        failed = {*failed, *(name for name, loss in self._losses.get(application, {}).items() if loss.gone)}
        for operator, peer in graph.roles.peers.items():
            if (lost_at(peer) or operator in failed) and operator not in graph.shared:  # owners replace shared ones
                if not backups.get(operator):
                    missing.add(operator)
                    continue
                unfit = self.cannot_take_over(application, operator)
                # the sort is stable: backups that can take over, in their order, before those that cannot, which may
                # still catch up (test_a_backup_that_lags_does_not_take_over_if_there_is_another)
                moved[operator], *rest = sorted(backups[operator], key=unfit.__contains__)
                backups[operator] = tuple(rest)
        may_return = {
            name
            for name in missing - set(failed)
            if not self.membership.has_ended(graph.roles.peers[name])
            and not (forgot and graph.roles.peers[name] == address)
        }
        lost = self._spared(graph, missing, may_return)
        if self.config.durable and lost:
            if request.running:  # else it is set up anew
                gone = {name for name in lost if name in failed or (forgot and graph.roles.peers[name] == address)}
                self._await_folder(application, address, lost, gone, reason)
                missing -= lost
            lost = set()
        silent = self._silent(graph, missing - lost, failed, address if forgot else "")
        back = self._way_back(application, failed, address if forgot else "")
        stuck = sorted(back.keys() & (missing - lost))
        if stuck and (silent is None or not any(map(self.membership.is_dead, back.values()))):
            self._replace(application, graph.roles.peers[stuck[0]], moved | back, backups, lost, reason)
            return self.begin(application, address, reason)  # they may be silent, too: then they are waited for
        if silent is None:
            return False
        for operator in silent:
            if operator in graph.roles.backups:
                backups[operator] = graph.roles.backups[operator]
        if moved or lost or backups != graph.roles.backups:
            self._replace(application, address, moved, backups, lost, reason)
        waits: dict[str, list[str]] = {peer: list(names) for peer, names in awaited.items()}
        for operator, peer in silent.items():
            waits.setdefault(peer, []).append(operator)
        if application in self.led:
            self._wait(application, waits)
        return True

    def _forget_losses(self, application: str) -> None:
        """Forget the losses of replicas that go on: at another peer, or at their own, which was only silent."""
        lost, graph = self.lost(application), self.led[application].graph
        known = self._losses.get(application, {})
        group = replicas_of(Plan.from_bytes(graph.plan)) if known else {}
        for name in [name for name in known if name not in lost]:
            loss = known.pop(name)
            if loss.epoch == graph.roles.epochs.get(name, 0):
                left = len(set(group[original(name)]) - lost)
                at, seconds = graph.roles.peers[name], self.peer.now - loss.since
                self.peer.record(
                    ReplicaRebuilt, application, operator=name, source=name, at=at, seconds=seconds, left=left,
                    peers=graph.roles.peers,
                )  # fmt: skip

    def _await_folder(
        self, application: str, address: str, lost: Collection[str], gone: Collection[str], reason: str
    ) -> None:
        """Have active replicas go on from the folder once there are peers for them; the others go on meanwhile.

        ``gone``: those of them that their peers execute no more, also if these live.
        """
        graph, known = self.led[application].graph, self._losses.setdefault(application, {})
        new = set(lost) - known.keys()
        for name in sorted(new):
            known[name] = _Loss(graph.roles.epochs.get(name, 0), name in gone, self.peer.now)
        for name in set(gone) - new:
            known[name] = known[name]._replace(gone=True)
        if new:
            self._record_lost(application, graph, address, new, reason or f"peer {address} died")
            self.changes.search(application)

    def _way_back(self, application: str, failed: Collection[str], forgetful: str) -> dict[str, str]:
        """Return to whom each component goes back if an unconfirmed take-over is undone; none if that cannot be.

        ``failed``: operators of components that have failed; ``forgetful``: peer that has no session of it any more.
        """
        unconfirmed, graph = self._unconfirmed.get(application), self.led[application].graph
        if unconfirmed is None:
            return {}
        former, peers, plan = unconfirmed.former, graph.roles.peers, Plan.from_bytes(graph.plan)
        if any(self.membership.has_ended(peer) or peer == forgetful for peer in former.values()):
            return {}
        if former.keys() & failed or any(acts_outside(plan, name) for name in former):
            return {}
        if any(decided(plan, name) for name in former):
            readers = {down for name in former for down in plan.downstream(name)} - former.keys()
            if any(peers[reader] in unconfirmed.asked for reader in readers):
                return {}
            if any(self.sharers(application, name) for name in former):
                return {}
        return {name: peer for name, peer in former.items() if peers[name] != peer}

    def _silent(
        self, graph: Graph, missing: Collection[str], failed: Collection[str], forgetful: str
    ) -> dict[str, str] | None:
        """Return a silent peer that may go on with each missing operator, by operator; None if an operator has none."""
        found: dict[str, str] = {}
        for operator in sorted(missing):
            own = () if operator in failed else (graph.roles.peers[operator],)
            for peer in (*own, *graph.roles.backups.get(operator, ())):
                if peer != forgetful and not self.membership.has_ended(peer):
                    found.setdefault(operator, peer)
            if operator not in found:
                return None
        return found

    def _replace(
        self,
        application: str,
        address: str,
        moved: dict[str, str],
        backups: Mapping[str, tuple[str, ...]],
        lost: Collection[str],
        reason: str,
    ) -> None:
        """Have backups take over, and leave out lost replicas and backups."""
        request = self.led[application]
        graph = request.graph
        graph = graph.changed(graph.roles.replaced(moved, backups).without(lost))
        if lost:
            self._record_lost(application, graph, address, lost, reason or f"peer {address} died")
        if lost and not moved and application not in self._pending:
            self.changes.change(application, graph)
            self.changes.publish(application, (address,))
            self.peer.instruct(request.report())
            return
        # the present graph has the take-overs that are not answered yet already: their peers are asked again
        self._pending[application] = self._pending.get(application, set()) | moved.keys()
        self._asked[application] = 0
        unconfirmed = self._unconfirmed.setdefault(application, _Unconfirmed({}, set()))
        unconfirmed.asked.update(moved.values())
        for operator in moved:
            unconfirmed.former.setdefault(operator, request.graph.roles.peers[operator])
        request.enter(State.TAKING_OVER)
        self.changes.change(application, graph)
        self.peer.record(TakeoverBegun, application, dead=address, operators=moved, epoch=graph.epoch)
        self._request(application, graph)
        self._complete_if_all(application)

    def _wait(self, application: str, awaited: Mapping[str, Sequence[str]]) -> None:
        """Have an application wait for silent peers, or go on if there are none any more."""
        request, before = self.led[application], self.awaited.reason(application)
        self.awaited.wait(application, awaited)
        reason = self.awaited.reason(application)
        if reason == before:
            return
        self._enter(application)
        self.peer.instruct(request.report())
        if request.state is State.RUNNING:
            self.changes.change_ended(application)

    def _enter(self, application: str) -> None:
        """Enter the state of an application as it is: paused, taking over, or running."""
        reason, request = self.awaited.reason(application), self.led[application]
        if reason:
            request.enter(State.PAUSED, reason)
        else:
            request.enter(State.TAKING_OVER if application in self._pending else State.RUNNING)

    def resume(self, application: str, operators: Collection[str]) -> None:
        """Ask peers again to take over operators that the graph has there and that they do not execute yet."""
        request = self.led[application]
        self._pending[application] = set(operators)
        self._asked[application] = 0
        request.enter(State.TAKING_OVER)
        self._request(application, request.graph)

    def _record_lost(self, application: str, graph: Graph, address: str, lost: Collection[str], reason: str) -> None:
        """Record lost active replicas, and how many are left of their operators."""
        replicas, kept = replicas_of(Plan.from_bytes(graph.plan)), self.lost(application)
        left = {
            name: sum(bool(graph.roles.peers[each]) and each not in kept for each in replicas[name])
            for name in map(original, lost)
        }
        self.peer.record(ActiveReplicasLost, application, at=address, operators=sorted(lost), left=left, reason=reason)

    def _request(self, application: str, graph: Graph) -> None:
        """Send TakeOver to all backups that have not answered, now and once every interval."""
        pending, request = self._pending.get(application), self.led.get(application)
        if pending and request is not None and request.graph.epoch == graph.epoch:
            if self._passed_over(application, graph, sorted(pending)):
                return
            for operator in sorted(pending):
                self.peer.send(graph.roles.peers[operator], TakeOver(graph, operator))
            self.peer.after(RESEND_INTERVAL, self._request, application, graph)

    def _passed_over(self, application: str, graph: Graph, pending: Sequence[str]) -> bool:
        """Whether living backups were asked in vain for too long: then others take over, or the application fails."""
        self._asked[application] += 1
        patience = self.awaited.patience
        if (self._asked[application] - 1) * RESEND_INTERVAL < patience:
            return False
        living = [name for name in pending if not self.membership.is_dead(graph.roles.peers[name])]
        if not living:
            return False
        at = graph.roles.peers[living[0]]
        mute = [name for name in living if graph.roles.peers[name] == at]
        reason = f"peer {at} was asked for {patience:g} s to take over {', '.join(mute)}, and did not answer"
        if not self.begin(application, at, reason, mute):
            self.fail(application, graph.attempt, reason)
        return True

    def _took_over(self, sender: str, message: TookOver) -> None:
        pending = self._pending.get(message.application)
        request = self.led.get(message.application)
        # an answer to an earlier take-over says nothing of the backups that were chosen since
        if pending is None or request is None or request.graph.epoch != message.epoch:
            return
        if message.refusal:
            self.fail(message.application, request.graph.attempt, message.refusal)
            return
        pending.discard(message.operator)
        self._complete_if_all(message.application)

    def _complete_if_all(self, application: str) -> None:
        """Publish the new graph if all backups have taken over."""
        if self._pending[application]:
            return
        del self._pending[application], self._asked[application]
        unconfirmed = self._unconfirmed.pop(application, _Unconfirmed({}, set()))
        self._enter(application)
        graph = self.led[application].graph
        peers, backups = graph.roles.peers, graph.roles.backups
        # who was replaced, or asked in vain, may have returned meanwhile
        self.changes.publish(application, {each for each in unconfirmed.peers if not self.membership.is_dead(each)})
        self.peer.record(TakenOver, application, peers=peers, backups=backups, epoch=graph.epoch)
        self.peer.instruct(self.led[application].report())
        if self.led[application].state is State.RUNNING:
            self.changes.change_ended(application)

    def end(self, application: str) -> None:
        """Forget the take-over and the pause of an application that has ended."""
        self._pending.pop(application, None)
        self._asked.pop(application, None)
        self._unconfirmed.pop(application, None)
        self._losses.pop(application, None)
        self.awaited.end(application)

    # -- at members --------------------------------------------------------------------------------------------------

    def _take_over(self, sender: str, message: TakeOver) -> None:
        graph, operator, address = message.graph, message.operator, self.peer.address
        if self.participation.refuses(sender, graph, "TakeOver"):
            return
        member = self.participation.member_of(graph)
        if member is None or member.ended:
            self.participation.absent(sender, graph.application, graph.attempt)
            return
        refusal = ""
        # all at this peer are committed before the graph is adopted, as adopting it discards backups
        # (test_a_peer_that_takes_over_several_components_loses_the_backups_of_none)
        for name in sorted(name for name, peer in graph.roles.peers.items() if peer == address):
            # all operators of the graph at this peer: adopting it would discard the backups of those left out
            if name not in member.deployed and not refusal:
                refusal = self.changes.components.commit(graph, member.plan, name)
                if refusal:
                    refusal = f"{name} at {address}: {refusal}"
                else:
                    self.changes.components.deploy(member, graph, name)
        if not refusal:
            self.changes.adopt(member, graph)
        self.peer.send(sender, TookOver(graph.application, graph.epoch, operator, refusal))
