"""Streams in virtual time whose deployments come from a director in place of the control plane.

Theory of operation
-------------------
The director knows the deployments, learns of deaths after a delay, and sends new deployments to all peers, to each at a
different time.

Examples
--------
>>> from synergy_nb.plan import source
>>> import polars as pl
>>> plan = source("python", name="n", columns={"v": "int"}, rate=10.0, id="n").filter("v > 2", id="f").sink("out")
>>> rows = pl.DataFrame({"time": pl.Series([0, 1, 2, 3, 4], dtype=pl.Datetime("us")), "v": [1, 2, 3, 4, 5]})
>>> world = StreamWorld(seed=1, peers=("a", "b", "c"))
>>> world.deploy("app", plan, {"n": "a", "f": "b", "sink": "c"}, {"n": rows}, backups={"f": ("a",)})
>>> world.run(10.0)
>>> world.results["app", "sink"].rows["v"].to_list(), world.results["app", "sink"].ended
([3, 4, 5], True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, SharedReader
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import Technique, technique
from synergy_nb.plan.derived.active_replicas import replicas_of
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.data_paths import DataPaths
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["StreamWorld"]


class StreamWorld(DataPaths):
    """Peers, the network between them, applications on them, a director, and faults.

    Parameters
    ----------
    seed, peers, faults
        Arguments of :class:`~synergy_nb.simulator.data_paths.DataPaths`.
    detection
        Time until the director detects a death, seconds.
    settings
        Further arguments of :class:`~synergy_nb.simulator.data_paths.DataPaths`.

    Attributes
    ----------
    doubted : set of str
        Peers that the director is going to replace.
    """

    def __init__(
        self, seed: int, peers: Sequence[str], faults: Faults | None = None, detection: float = 0.3, **settings: Any
    ) -> None:
        super().__init__(seed, peers, faults, **settings)
        self.detection = detection
        self.doubted: set[str] = set()
        self._ready: set[tuple[str, str, str]] = set()  # application, operator, peer: it said that it can take over
        self._first: set[tuple[str, str, str]] = set()  # it has kept a backup from the beginning

    # -- the director --------------------------------------------------------------------------------------------

    def deploy(
        self,
        application: str,
        plan: Plan,
        peers: Mapping[str, str],
        inputs: Mapping[str, pl.DataFrame],
        *,
        backups: Mapping[str, tuple[str, ...]] | None = None,
        shares: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """Deploy an application.

        Parameters
        ----------
        application, plan
            Id and plan.
        peers
            Operator to the peer that executes it.
        inputs
            Source to its tuples, in the order of their event times.
        backups
            Operator to the peers that keep backups of it.
        shares
            Source to the application and operator whose stream it shares, instead of tuples of its own.
        """
        self.plans[application] = plan
        self._inputs[application] = inputs
        shared = shares or {}
        replicas = {each: name for name, several in replicas_of(plan).items() for each in several}
        assignments: dict[str, Assignment] = {}
        for name, operator in plan.operators.items():
            if name in shared:
                continue
            feeds = tuple(
                InputFeed(*shared[up]) if up in shared else InputFeed(application, up) for up in operator.inputs
            )
            copies, sink = (backups or {}).get(name, ()), operator.kind == "sink"
            assignments[name] = Assignment(
                peers[name], 0, copies, "", feeds, (), sink, ports=operator.ports, replica_of=replicas.get(name, "")
            )
            if all(feed.application == application for feed in feeds):  # who shares a stream joins it somewhere
                self._first |= {(application, name, peer) for peer in assignments[name].backups}
            if sink:
                self.results[application, name] = CollectedResults(application, name, plan.qos.delay)
                self.clients.setdefault((application, name), 0.05)
                self.after(0.05, self._collect, application, name)
        for owner in {feed.application for each in assignments.values() for feed in each.inputs} - {application}:
            self._add_sharer(application, owner, assignments)
        self._publish(Deployment(application, 1, self._with_techniques(application, assignments)))

    def _with_techniques(self, application: str, assignments: Mapping[str, Assignment]) -> dict[str, Assignment]:
        """The same assignments, whose backups do what the plan asks for."""
        plan, found = self.plans[application], dict(assignments)
        for name, each in assignments.items():
            node = plan.operators.get(name)
            how = Technique.PASSIVE if node is None else technique(node, plan.qos)
            waited = each.backups if how is Technique.SYNCHRONIZED else ()
            found[name] = msgspec.structs.replace(each, synchronized=waited, in_order=how is Technique.ORDERED)
        return found

    def _add_sharer(self, application: str, owner: str, assignments: Mapping[str, Assignment]) -> None:
        """Publish the readers of shared streams to the peers of their owner."""
        owned = self.deployments[owner]
        changed: dict[str, Assignment] = {}
        for name, assignment in owned.assignments.items():
            kept = tuple(reader for reader in assignment.shared_readers if reader.application != application)
            added = tuple(
                SharedReader(application, reader, port, there.active, there.epoch)
                for reader, there in assignments.items()
                for port, feed in enumerate(there.inputs)
                if feed == (owner, name)
            )
            changed[name] = msgspec.structs.replace(assignment, shared_readers=(*kept, *added))
        everybody = {peer for there in assignments.values() for peer in (there.active, *there.copies)}
        witnesses = tuple(sorted(peer for peer in everybody.union(owned.witnesses) if not self.dead(peer)))
        known = self.deployments.get(application)
        requires = {**owned.requires, application: 1 if known is None else known.version + 1}
        version = owned.version + 1
        self._publish(
            msgspec.structs.replace(owned, version=version, assignments=changed, witnesses=witnesses, requires=requires)
        )

    def change(self, application: str, assignments: Mapping[str, Assignment]) -> None:
        """Publish a new deployment of an application, and of those whose streams it shares."""
        for owner in {feed.application for each in assignments.values() for feed in each.inputs} - {application}:
            self._add_sharer(application, owner, assignments)
        known = self.deployments[application]
        witnesses = tuple(peer for peer in known.witnesses if not self.dead(peer))
        version = known.version + 1
        changed = self._with_techniques(application, assignments)
        self._publish(msgspec.structs.replace(known, version=version, assignments=changed, witnesses=witnesses))

    def _publish(self, deployment: Deployment) -> None:
        """Send a deployment to all peers, to each at a different time."""
        self.deployments[deployment.application] = deployment
        for peer in self.nodes:
            late = 20.0 if self.faults.late and self.rng.random() < self.faults.late else 1.0
            self.after(self.rng.uniform(0.001, self.faults.deployment * late), self._converge, peer, deployment)

    def _converge(self, peer: str, deployment: Deployment) -> None:
        self._at(peer, lambda hosting: hosting.converge(deployment, self.now))

    def ready(self, application: str, operator: str, peer: str) -> bool:
        """Whether a peer has reported that it can take over a component, or has had a backup from the beginning."""
        key = (application, operator, peer)
        return key in self._ready or key in self._first

    def replace_dead(self, dead: str) -> None:
        """Have backups take over the components of a peer, and create new backups."""
        self.doubted.discard(dead)
        for application in tuple(self.deployments):
            known = self.deployments[application].assignments
            assignments = {name: self._without(application, name, each, dead) for name, each in known.items()}
            if assignments != known or dead in self.deployments[application].witnesses:  # nobody waits for its answers
                self.change(application, assignments)

    def _without(self, application: str, operator: str, assignment: Assignment, dead: str) -> Assignment:
        """The new peer of a component after a death; its old peer if no backup can take over."""
        backups = tuple(peer for peer in assignment.backups if peer != dead)
        follower = "" if assignment.follower == dead else assignment.follower
        active, epoch = assignment.active, assignment.epoch
        if active == dead:
            heirs = [peer for peer in (*backups, follower) if peer and self.ready(application, operator, peer)]
            if not heirs:
                return assignment
            active, epoch, follower = self.rng.choice(heirs), epoch + 1, ""
            backups = tuple(peer for peer in backups if peer != active)
        if len(backups) < len(assignment.backups):
            backups += self._another(application, operator, {active, follower, *backups})
        return msgspec.structs.replace(assignment, active=active, epoch=epoch, backups=backups, follower=follower)

    def _another(self, application: str, operator: str, taken: set[str]) -> tuple[str, ...]:
        """A further peer for a backup, if there is one."""
        free = [peer for peer in self.nodes if not self.dead(peer) and peer not in taken]
        if not free:
            return ()
        peer = self.rng.choice(free)
        self._begins(application, operator, peer)
        return (peer,)

    def _begins(self, application: str, operator: str, peer: str) -> None:
        """Note a new copy at a peer, which cannot take over before it reports so."""
        self._ready.discard((application, operator, peer))
        self._first.discard((application, operator, peer))

    def move(self, application: str, operator: str, to: str, patience: float) -> None:
        """Move a component: a follower first, which replaces it once it is ready.

        Parameters
        ----------
        application, operator
            Component that moves.
        to
            Address of the peer that it moves to.
        patience
            Seconds until the director looks for the first time whether the follower is ready.
        """
        assignment = self.deployments[application].assignments[operator]
        if to == assignment.active or assignment.follower or self.dead(to):
            return
        if to not in assignment.backups:
            self._begins(application, operator, to)
        backups = tuple(peer for peer in assignment.backups if peer != to)
        number = self.deployments[application].version + 1
        self._assign(
            application, operator, msgspec.structs.replace(assignment, follower=to, backups=backups, move=number)
        )
        self.after(patience, self._finish_move, application, operator, to, assignment.epoch, 40)

    def _finish_move(self, application: str, operator: str, to: str, epoch: int, tries: int) -> None:
        assignment = self.deployments[application].assignments.get(operator)
        if assignment is None or assignment.epoch != epoch or assignment.follower != to or self.dead(to):
            return
        if self.ready(application, operator, to):
            new = msgspec.structs.replace(assignment, active=to, epoch=epoch + 1, follower="")
            self._assign(application, operator, new)
        elif tries:
            self.after(0.05, self._finish_move, application, operator, to, epoch, tries - 1)
        else:
            self._assign(application, operator, msgspec.structs.replace(assignment, follower=""))

    def _assign(self, application: str, operator: str, assignment: Assignment) -> None:
        self.change(application, {**self.deployments[application].assignments, operator: assignment})

    # -- faults and facts ----------------------------------------------------------------------------------------

    def crash(self, peer: str) -> None:
        """Crash a peer; the director learns of it later."""
        super().crash(peer)
        self.doubted.add(peer)
        self.after(self.detection, self.replace_dead, peer)

    def suspect(self, peer: str, seconds: float) -> None:
        """Hang a peer and declare it dead: backups take over, and then it resumes."""
        self.hang(peer, seconds)
        self.doubted.add(peer)
        self.after(self.detection, self.replace_dead, peer)

    def _stated(self, peer: str, fact: Fact) -> None:
        super()._stated(peer, fact)
        if fact.kind is FactKind.COPY_READY:
            self._ready.add((fact.application, fact.operator, peer))
