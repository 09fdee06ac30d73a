"""Streams in virtual time with a durable folder: all peers are killed at once, and others go on from what it has."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, Role
from synergy_nb.dataflow.streams.hosting.effects import Effect, SendFrame
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Frame
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output
from synergy_nb.durable._disk_files import DiskFiles
from synergy_nb.durable._object_files import ObjectFiles
from synergy_nb.durable.component_files import Files, latest_fences
from synergy_nb.durable.folder_copy import FolderCopy, FolderWork
from synergy_nb.durable.records import DurableError
from synergy_nb.durable.restoring import restored
from synergy_nb.durable.writing import ComponentWork, carry_out, fence
from synergy_nb.simulator.scripted_faults import Faults
from tests.connectors.broken_disk import Killed
from tests.connectors.power_loss import PowerDisk
from tests.durable.memory_objects import AtOnce, MemoryObjects


class MemoryFiles:
    """The files of an application, in memory, until the process that writes them ends."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}
        self.left: int | None = None  # steps after which the process ends; None: it does not
        self.part = 0.0  # share of the bytes that are written as it ends

    def _step(self) -> bool:
        """Whether the process ends in this step."""
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0

    def names(self) -> list[str]:
        return sorted(self.found)

    def read(self, name: str) -> bytes:
        if name not in self.found:
            raise FileNotFoundError(name)
        return self.found[name]

    def append(self, name: str, data: bytes) -> None:
        ends = self._step()
        self.found[name] = self.found.get(name, b"") + (data[: int(self.part * len(data))] if ends else data)
        if ends:
            raise Killed

    def sync(self) -> None:
        if self._step():
            raise Killed

    def sync_checkpoints(self) -> None:
        """There are none."""

    def fences(self) -> dict[str, int]:
        return latest_fences(self.names())

    def remove(self, *names: str) -> None:
        for name in names:
            if self._step():
                raise Killed
            self.found.pop(name, None)


class BucketFiles:
    """The folder of one application in an object store; the process that writes may end between two objects."""

    def __init__(self) -> None:
        self.objects = MemoryObjects()
        self._writers: dict[Output, ObjectFiles] = {}

    def files(self, output: Output | None) -> ObjectFiles:
        """The files, for whoever executes a component, or for a reader."""
        opened = ObjectFiles(self.objects, "app", AtOnce())
        return opened if output is None else self._writers.setdefault(output, opened)

    def again(self) -> None:
        """Be used by other processes."""
        self.objects.left = None


class PowerFiles:
    """The folder of one application on a disk that may lose power."""

    def __init__(self, path: Path) -> None:
        self.disk = PowerDisk(path)
        self._path = path / "app"
        self._path.mkdir()
        self.disk.sync_folder(path)
        self.opened = DiskFiles(self._path, self.disk)

    def lose(self, seed: int) -> None:
        """Lose power."""
        self.disk.lose(seed)
        self.again()

    def again(self) -> None:
        """Be used by another process."""
        self.disk.left = None
        self.opened = DiskFiles(self._path, self.disk)


class DurableWorld(StreamWorld):
    """Peers that have a folder; what they write reaches it after a while, or in part, if they die."""

    def __init__(self, seed: int, peers: Sequence[str], faults: Faults | None = None, **settings: Any) -> None:
        self.segment, self.small = settings.pop("segment", 400), settings.pop("small", 300)
        self.slow = settings.pop("slow", 0.05)  # longest time until what is written is there, seconds
        self.disks: Path | None = settings.pop("disks", None)  # where disks are that may lose power; None: in memory
        self.bucket = settings.pop("bucket", False)  # whether the folder is in an object store
        self.held = random.Random(f"{seed} held").choice((0, 2_000, 1 << 20))  # bytes of output in memory
        super().__init__(seed, peers, faults, **settings)
        self.disk: dict[str, MemoryFiles] = {}
        self.powers: dict[str, PowerFiles] = {}
        self.buckets: dict[str, BucketFiles] = {}
        self.announced: dict[tuple[Output, int], ComponentState] = {}  # snapshots by their number
        self.kept: dict[tuple[str, str], ComponentState] = {}  # application, operator: the last one that it has
        self.copies: dict[tuple[str, str, str], FolderCopy] = {}  # peer, application, operator
        self.writing: dict[str, list[tuple[Output, FolderWork]]] = {}  # peer to what is not there yet
        self.begun: dict[str, list[int]] = {}  # application to the versions with which its attempts begin
        self.outdated: set[Output] = set()  # of components from whose files a later attempt goes on
        self.generation = 0

    def files(self, application: str, output: Output | None = None) -> Files:
        """The files of an application; ``output``: that of the component whose peer writes to them."""
        if self.bucket:
            return self.buckets.setdefault(application, BucketFiles()).files(output)
        if self.disks is None:
            return self.disk.setdefault(application, MemoryFiles())
        if application not in self.powers:
            self.powers[application] = PowerFiles(self.disks / application)
        return self.powers[application].opened

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
            application, files = deployment.application, self.files(deployment.application)
            latest = hosting.deployments.get(application)
            is_late = latest is not None and latest.version > deployment.version
            effects: list[Effect] = []
            for begun in self.begun.get(application, ()):
                if latest is not None and latest.version < begun <= deployment.version:  # who joins one leaves others
                    effects += hosting.converge(Deployment(application, begun - 1), self.now)
            for operator, assignment in deployment.assignments.items() if not is_late else ():
                if assignment.active == peer and (application, operator) not in hosting.components and assignment.epoch:
                    fence(files, {operator: assignment.epoch})
                    found = restored(files, operator, hosting.limits)
                    if found is not None:
                        hosting.hold(*found)
            effects += hosting.converge(deployment, self.now)
            for (owner, operator), component in hosting.components.items():
                key = peer, owner, operator
                known = self.copies.get(key)
                if component.output in self.outdated:
                    continue
                if component.role is Role.ACTIVE and (known is None or known.output != component.output):
                    found = restored(files, operator)
                    repeats = ORIGIN if found is None else found.copy.log.end
                    waited = FOLDER in component.copy_holders.confirming
                    unsaved = None if waited else partial(component.unsaved_at, FOLDER)
                    copy = FolderCopy(component.output, repeats, self.segment, self.small, self.held, unsaved=unsaved)
                    self.copies[key] = copy
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
        if isinstance(frame, ComponentState):
            self.announced[output, frame.number] = frame
        kept = copy.take(frame, self.now)
        self.writing.setdefault(peer, []).append((output, kept))
        self.after(self.rng.uniform(0.0, self.slow), self._written, peer, self.generation)

    def _written(self, peer: str, generation: int) -> None:
        if generation != self.generation or self.nodes[peer].crashed or not self.writing.get(peer):
            return
        output, kept = self.writing[peer].pop(0)
        key = output.application, output.operator
        self._write(output, kept)
        copy = self.copies.get((peer, *key))
        if copy is None or copy.output != output:
            return
        if output in self.outdated:
            del self.copies[peer, *key]
            return
        for answer in kept.answers:
            if isinstance(answer, Ack) and answer.snapshot >= 0:
                known = self.kept.get(key)
                if known is None or known.output.epoch <= answer.output.epoch:
                    self.kept[key] = self.announced[answer.output, answer.snapshot]
            self._hear(peer, answer)

    def _hear(self, peer: str, answer: Frame) -> None:
        self._at(peer, lambda hosting: hosting.receive(FOLDER, answer, self.now))

    def _write(self, output: Output, work: FolderWork) -> None:
        """Write what a copy asks for, and note whether a later attempt goes on from its files."""
        todo = ComponentWork(output.operator, output.epoch, work)
        number, error, fences = carry_out(self.files(output.application, output), [todo])
        assert (number, error) == (1, None)
        if todo.outdated_by(fences):
            self.outdated.add(output)

    # -- the end of everything -------------------------------------------------------------------------------------

    def kill_all(self, peers: Sequence[str]) -> None:
        """Kill all peers at once, at any step of what they write, and start others, at other addresses."""
        for peer in self.writing:
            self._end_writing(peer)
        for node in self.nodes.values():
            node.crashed = True
        self.writing.clear()
        self.copies.clear()
        self.generation += 1
        for peer in peers:
            self._add_node(peer)

    def crash(self, peer: str) -> None:
        """Kill a peer, at any step of what it writes; the director learns of it later."""
        self._end_writing(peer)
        super().crash(peer)

    def _end_writing(self, peer: str) -> None:
        waiting = self.writing.get(peer)
        if self.nodes[peer].crashed or not waiting:
            return
        for output, kept in waiting[: (cut := self.rng.randrange(len(waiting)))]:
            self._write(output, kept)
        output, kept = waiting[cut]
        self._end(output.application, self.rng.randrange(len(kept.writes) + 2))
        with contextlib.suppress(Killed):
            self._write(output, kept)
        self._begin(output.application)

    def _end(self, application: str, steps: int) -> None:
        """Have the process of a peer end after some steps of what it writes, or in the middle of one."""
        if self.bucket:
            self.buckets[application].objects.left = steps
        elif self.disks is not None:
            disk = self.powers[application].disk
            disk.left, disk.done = 2 * steps, 0
        else:
            files = self.disk[application]
            files.left, files.part = steps, self.rng.random()

    def _begin(self, application: str) -> None:
        if self.bucket:
            self.buckets[application].again()
        elif self.disks is not None:
            self.powers[application].again()
        else:
            self.disk[application].left = None

    def lose_power(self) -> None:
        """Lose the power of all disks."""
        for each in self.powers.values():
            each.lose(self.rng.getrandbits(32))

    def forgotten(self) -> list[str]:
        """Components of which the folder has acknowledged a snapshot that nobody can go on from."""
        found = []
        for (application, operator), kept in self.kept.items():
            try:
                there = restored(self.files(application), operator)
            except DurableError as error:
                found.append(f"{application}: {error}")
                continue
            state = None if there is None else there.copy.state
            read = {} if state is None else {number: point.position for number, point in state.inputs.items()}
            wanted = {number: point.position for number, point in kept.inputs.items()}
            old = state is None or state.end.position < kept.end.position
            if old or any(read.get(number, -1) < position for number, position in wanted.items()):
                found.append(f"{application}: {operator}: inputs were acknowledged up to {wanted}, and it has {read}")
        return found

    def restart_in(self, generation: int, application: str, peers: Mapping[str, str], rng: random.Random) -> None:
        """Restart an application, unless its peers have been killed meanwhile."""
        if generation == self.generation:
            self.restart(application, peers, rng)

    def restart(self, application: str, peers: Mapping[str, str], rng: random.Random) -> None:
        """Deploy an application anew, to other peers; its results are collected from where they were."""
        known = self.deployments[application]
        epoch = 1 + max(each.epoch for each in known.assignments.values()) + rng.randrange(3)
        assignments = {
            name: msgspec.structs.replace(each, active=peers[name], epoch=epoch, backups=(), follower="", move=0)
            for name, each in known.assignments.items()
        }
        self.deployments[application] = known
        version = known.version + 2
        self.begun.setdefault(application, []).append(version)
        self._publish(Deployment(application, version, self._with_techniques(application, assignments)))

    def collect_again(self, application: str, sink: str) -> None:
        """Collect results at the present interval, which was endless before."""
        self.after(0.05, self._collect, application, sink)
