"""Streams in virtual time with a durable folder: all peers are killed at once, and others go on from what it has."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, Role
from synergy_nb.dataflow.streams.hosting.effects import Effect, SendFrame
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Frame
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.durable.component_files import files_of
from synergy_nb.durable.folder_copy import FolderCopy, FolderWork
from synergy_nb.durable.records import packed
from synergy_nb.durable.restoring import restored
from synergy_nb.simulator.scripted_faults import Faults


class MemoryFiles:
    """The files of an application, in memory."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return sorted(self.found)

    def read(self, name: str) -> bytes:
        return self.found[name]

    def append(self, name: str, data: bytes) -> None:
        self.found[name] = self.found.get(name, b"") + data

    def remove(self, name: str) -> None:
        self.found.pop(name, None)


def written(
    files: MemoryFiles, operator: str, epoch: int, work: FolderWork, most: int | None = None, part: float | None = None
) -> None:
    """Write what a copy asks for; with ``most``, so many writes, and that share of the next one."""
    for number, (name, frame) in enumerate(work.writes):
        if most is not None and number >= most:
            if frame is not None and part is not None:
                data = packed(frame)
                files.append(name, data[: int(part * len(data))])
            return
        if frame is None:
            files.remove(name)
        else:
            files.append(name, packed(frame))
    for known, logs, pieces in files_of(operator, files.names()) if work.supersedes else ():
        for name in (*logs, *pieces) if known < epoch else ():
            files.remove(name)


class DurableWorld(StreamWorld):
    """Peers that have a folder; what they write reaches it after a while, or in part, if they die."""

    def __init__(self, seed: int, peers: Sequence[str], faults: Faults | None = None, **settings: Any) -> None:
        self.segment, self.small = settings.pop("segment", 400), settings.pop("small", 300)
        self.slow = settings.pop("slow", 0.05)  # longest time until what is written is there, seconds
        super().__init__(seed, peers, faults, **settings)
        self.disk: dict[str, MemoryFiles] = {}
        self.copies: dict[tuple[str, str, str], FolderCopy] = {}  # peer, application, operator
        self.writing: dict[
            str, list[tuple[str, str, FolderWork]]
        ] = {}  # peer: application, operator, what is not there yet
        self.generation = 0

    # -- what a driver does ----------------------------------------------------------------------------------------

    def _with_folder(self, application: str, assignments: Mapping[str, Assignment]) -> dict[str, Assignment]:
        plan, found = self.plans[application], dict(assignments)
        for name, each in assignments.items():
            ordered = len(each.inputs) > 1 or plan.operators[name].kind == "sink"
            waited = (*each.synchronized, FOLDER) if ordered else each.synchronized
            found[name] = msgspec.structs.replace(each, backups=(*each.backups, FOLDER), synchronized=waited)
        return found

    def _publish(self, deployment: Deployment) -> None:
        assignments = self._with_folder(deployment.application, deployment.assignments)
        super()._publish(msgspec.structs.replace(deployment, assignments=assignments))

    def _with_techniques(self, application: str, assignments: Mapping[str, Assignment]) -> dict[str, Assignment]:
        without = {
            name: msgspec.structs.replace(each, backups=tuple(peer for peer in each.backups if peer != FOLDER))
            for name, each in assignments.items()
        }
        return super()._with_techniques(application, without)

    def _converge(self, peer: str, deployment: Deployment) -> None:
        def converge(hosting: Hosting) -> list[Effect]:
            application, files = deployment.application, self.disk.setdefault(deployment.application, MemoryFiles())
            for operator, assignment in deployment.assignments.items():
                if assignment.active == peer and (application, operator) not in hosting.components and assignment.epoch:
                    found = restored(files, operator, hosting.limits)
                    if found is not None:
                        hosting.hold(*found)
            effects = hosting.converge(deployment, self.now)
            for (owner, operator), component in hosting.components.items():
                key = peer, owner, operator
                known = self.copies.get(key)
                if component.role is Role.ACTIVE and (known is None or known.output != component.output):
                    found = restored(files, operator)
                    repeats = ORIGIN if found is None else found.copy.log.end
                    self.copies[key] = copy = FolderCopy(component.output, repeats, self.segment, self.small)
                    effects += hosting.receive(FOLDER, copy.begin(), self.now)
            return effects

        self._at(peer, converge)

    def _carry_out(self, peer: str, effects: list[Any]) -> None:
        super()._carry_out(peer, [each for each in effects if not isinstance(each, SendFrame) or each.to != FOLDER])
        for effect in effects:
            if isinstance(effect, SendFrame) and effect.to == FOLDER:
                self._keep(peer, effect.frame)

    def _keep(self, peer: str, frame: Frame) -> None:
        output = frame.output  # type: ignore[union-attr]
        copy = self.copies.get((peer, output.application, output.operator))
        if copy is None or copy.output != output:
            return
        kept = copy.take(frame, self.now)
        self.writing.setdefault(peer, []).append((output.application, output.operator, kept))
        self.after(self.rng.uniform(0.0, self.slow), self._written, peer, self.generation)

    def _written(self, peer: str, generation: int) -> None:
        if generation != self.generation or self.nodes[peer].crashed or not self.writing.get(peer):
            return
        application, operator, kept = self.writing[peer].pop(0)
        self._write(application, operator, kept, peer)
        for answer in kept.answers:
            self._hear(peer, answer)

    def _hear(self, peer: str, answer: Frame) -> None:
        self._at(peer, lambda hosting: hosting.receive(FOLDER, answer, self.now))

    def _write(self, application: str, operator: str, work: FolderWork, peer: str, most: int | None = None) -> None:
        """Write what a copy asks for; all of it, or up to the middle of a write in which the peer is killed."""
        epoch = self.copies[peer, application, operator].output.epoch
        part = self.rng.random() if most is not None else None
        written(self.disk[application], operator, epoch, work, most, part)

    # -- the end of everything -------------------------------------------------------------------------------------

    def kill_all(self, peers: Sequence[str]) -> None:
        """Kill all peers at once, at any step of what they write, and start others, at other addresses."""
        for peer, waiting in self.writing.items():
            if not self.nodes[peer].crashed and waiting:
                for application, operator, kept in waiting[: (cut := self.rng.randrange(len(waiting)))]:
                    self._write(application, operator, kept, peer)
                application, operator, kept = waiting[cut]
                self._write(application, operator, kept, peer, most=self.rng.randrange(len(kept.writes) + 1))
        for node in self.nodes.values():
            node.crashed = True
        self.writing.clear()
        self.copies.clear()
        self.generation += 1
        for peer in peers:
            self._add_node(peer)

    def restart(self, application: str, peers: Mapping[str, str], rng: random.Random) -> None:
        """Deploy an application anew, to other peers; its results are collected from where they were."""
        known = self.deployments[application]
        epoch = 1 + max(each.epoch for each in known.assignments.values()) + rng.randrange(3)
        assignments = {
            name: msgspec.structs.replace(each, active=peers[name], epoch=epoch, backups=(), follower="", move=0)
            for name, each in known.assignments.items()
        }
        self.deployments[application] = known
        self._publish(Deployment(application, known.version + 1, self._with_techniques(application, assignments)))

    def collect_again(self, application: str, sink: str) -> None:
        """Collect results at the present interval, which was endless before."""
        self.after(0.05, self._collect, application, sink)
