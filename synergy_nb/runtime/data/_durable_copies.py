"""The copies of a peer's components in a durable folder: written in a thread, read again after the death of all peers.

Frames for the folder never leave the peer. What they ask to be written is written in the order in which they came, by
one thread; only then the folder answers, unless somebody else reads what was written by now. If the disk takes nothing,
the same write is tried again later, and the streams wait as for any backup that is slow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

import msgspec

from synergy_nb.dataflow.deployments import FOLDER, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Ack, Frame, PieceReply
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output, Point
from synergy_nb.durable.component_files import Files
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.durable.folder_copy import FolderCopy, FolderWork
from synergy_nb.durable.records import DurableError
from synergy_nb.durable.restoring import Restored, restored
from synergy_nb.durable.writing import CarriedOut, ComponentWork, carry_out, fence
from synergy_nb.events import FolderBroken, Recorder

__all__ = ["DurableCopies"]

SOON_S: Final = 0.1  # seconds until a write is tried again for the first time; doubled each time
LATE_S: Final = 10.0  # longest time until it is tried again, seconds
TOGETHER: Final = 4  # most pieces of states that are written at a time: rows of others may wait for the same disk
SAID: Final = 3  # number of tries that are journaled, and after that each power of two

Key = tuple[str, str]


class _Waiting(NamedTuple):
    """Something that is to be written."""

    output: Output
    todo: ComponentWork
    on_spark: bool = False  # whether Spark keeps a state of it, too, in the same folder

    @property
    def is_piece(self) -> bool:
        """Whether it has a piece of a large state."""
        return any(isinstance(each.frame, PieceReply) for each in self.todo.work.writes)


class DurableCopies:
    """The copies of one peer's components in a folder."""

    def __init__(
        self,
        folder: DurableFolder,
        hosting: Hosting,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Recorder,
        deliver: Callable[[Frame], None],  # has the folder say something to the peer
        converge: Callable[[Deployment], None],  # carries a deployment out, once what it restores has been read
        failed: Callable[[str, str, str], None],  # reports that a component could not be restored, and why
        # reports that somebody else goes on from what a component here has written, in this later epoch
        outdated: Callable[[str, str, int], None],
    ) -> None:
        self._folder = folder
        self._hosting = hosting
        self._loop = loop
        self._clock = clock
        self._record = record
        self._deliver = deliver
        self._converge = converge
        self._failed = failed
        self._outdated = outdated
        self._copies: dict[Key, FolderCopy] = {}
        self._ends: dict[Key, Point] = {}  # components that were restored here: how far the folder had their output
        self._pending: dict[str, Deployment] = {}  # applications whose components are being read: what comes then
        self._read: set[tuple[str, str, int]] = set()  # application, operator and epoch of those that have been read
        self._unfenced = Counter[str]()  # application to how often the disk did not take what is left before a reading
        self._outdated_outputs: set[Output] = set()  # of components here from whose files somebody else goes on
        self._waiting: list[_Waiting] = []  # what is to be written
        self._others_next = True  # whether what comes next is of components that write no pieces, if there are such
        self._unwritten: Counter[Output] = Counter()  # number of these, by output
        self._files: dict[str, Files] = {}  # application to its files; for the thread alone
        self._busy = False
        self._tries = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="synergy durable")
        self._closed = False

    # -- deployments -----------------------------------------------------------------------------------------------

    def defers(self, deployment: Deployment) -> bool:
        """Whether a deployment waits until what the folder has of its components here has been read."""
        application = deployment.application
        if application in self._pending:
            self._pending[application] = deployment
            return True
        found = deployment.assignments.items()
        lacking = {name: each.epoch for name, each in found if self._restores(deployment, name)}
        if not lacking:
            return False
        self._pending[application] = deployment
        self._thread.submit(self._load, application, lacking)
        return True

    def reads(self, application: str) -> bool:
        """Whether a deployment of an application waits for what is read from the folder."""
        return application in self._pending

    def _restores(self, deployment: Deployment, operator: str) -> bool:
        """Whether a component begins here from what the folder has of it."""
        assignment, key = deployment.assignments[operator], (deployment.application, operator)
        if assignment.active != self._hosting.peer or not assignment.epoch or FOLDER not in assignment.copies:
            return False
        copy = self._hosting.roles.copy(key)  # a backup that has got no snapshot yet has less than the folder
        backed = copy is not None and copy.state is not None
        held = backed or key in self._hosting.components or assignment.state_from
        return not held and (*key, assignment.epoch) not in self._read

    def _load(self, application: str, epochs: dict[str, int]) -> None:
        files, limits = self._folder.files(application), self._hosting.limits
        try:
            fence(files, epochs)
        except FileNotFoundError:  # the application has ended, or is one that is not kept
            pass
        except OSError as error:
            self._on_loop(self._not_read, application, self._said(error))
            return
        found: dict[str, Restored | str | None] = {}
        for operator in epochs:
            try:
                found[operator] = restored(files, operator, limits)
            except (DurableError, OSError) as error:
                found[operator] = str(error)
        self._on_loop(self._loaded, application, epochs, found)

    def _not_read(self, application: str, error: str) -> None:
        self._unfenced[application] += 1
        wait = self._broken(error, self._unfenced[application])
        self._loop.call_later(wait, self._loaded, application, {}, {})

    def _loaded(self, application: str, epochs: dict[str, int], found: dict[str, Restored | str | None]) -> None:
        if self._closed:
            return
        deployment = self._pending.pop(application)
        for operator, each in found.items():
            assignment = deployment.assignments.get(operator)
            if assignment is None or assignment.epoch != epochs[operator] or not self._restores(deployment, operator):
                continue
            self._read.add((application, operator, assignment.epoch))
            if isinstance(each, str):
                self._failed(application, operator, each)
            elif each is not None:
                self._ends[application, operator] = each.copy.log.end
                self._hosting.hold(each.copy, each.determinants)
        if found:
            del self._unfenced[application]
        if not deployment.assignments:
            self._read = {each for each in self._read if each[0] != application}
        if not self.defers(deployment):  # it may have more components than the one before
            self._converge(deployment)

    def converged(self, deployment: Deployment) -> None:
        """Have the folder copy the components that execute here now, and no others."""
        application, components = deployment.application, self._hosting.components
        for key in [key for key in self._copies if key[0] == application]:
            component = components.get(key)
            if component is None or not self._kept(component) or component.output != self._copies[key].output:
                del self._copies[key]
        if not deployment.assignments:
            self._outdated_outputs = {each for each in self._outdated_outputs if each.application != application}
            self._thread.submit(self._files.pop, application, None)
        for key, component in components.items():
            if key[0] == application and key not in self._copies and self._kept(component):
                self._begin(key, component)

    def _kept(self, component: Component) -> bool:
        here = component.role is Role.ACTIVE and FOLDER in component.copies
        return here and not component.failed and component.output not in self._outdated_outputs

    def _begin(self, key: Key, component: Component) -> None:
        if not component.epoch:
            self._begun(key, component, ORIGIN)
        elif key in self._ends:
            self._begun(key, component, self._ends.pop(key))
        else:  # a backup has taken it over, or it has moved here
            self._thread.submit(self._look, key, component)

    def _look(self, key: Key, component: Component) -> None:
        try:
            found = restored(self._folder.files(key[0]), key[1])
        except (DurableError, OSError):
            found = None
        self._on_loop(self._begun, key, component, ORIGIN if found is None else found.copy.log.end)

    def _begun(self, key: Key, component: Component, repeats: Point) -> None:
        if self._hosting.components.get(key) is component and key not in self._copies:
            waited = FOLDER in component.copy_holders.confirming
            unsaved = None if waited else partial(component.unsaved_at, FOLDER)
            copy = self._copies[key] = FolderCopy(
                component.output, repeats, least=self._folder.least_write, unsaved=unsaved
            )
            self._deliver(copy.begin())

    # -- writing ---------------------------------------------------------------------------------------------------

    def take(self, frame: Frame) -> None:
        """Take a frame for the folder."""
        output = getattr(frame, "output", None)
        copy = None if output is None else self._copies.get((output.application, output.operator))
        if copy is None or copy.output != output:
            return
        kept = copy.take(frame, self._clock())
        if not kept.writes and (copy.makes_again or not self._unwritten[output]):
            # what is made again is not written: a source would wait for the disk, as it waits for each of its readers
            answers = [_unwritten(each) for each in kept.answers] if self._unwritten[output] else kept.answers
            self._loop.call_soon(self._answer, output, kept._replace(answers=answers))  # after what calls this one
            return
        self._unwritten[output] += 1
        component = self._hosting.components.get((output.application, output.operator))
        on_spark = component is not None and component.external
        self._waiting.append(_Waiting(output, ComponentWork(output.operator, output.epoch, kept), on_spark))
        self._next()

    def _next(self) -> None:
        if not self._busy and self._waiting and not self._closed:
            self._busy = True
            self._thread.submit(self._write, self._batch())

    def _batch(self) -> list[_Waiting]:
        """What is written next: in turn a few pieces of states, and all that is of other components.

        What is of one component is written in its order, and nothing relies on any other order.
        """
        large = {each.output for each in self._waiting if each.is_piece}
        others = [each for each in self._waiting if each.output not in large]
        pieces = [each for each in self._waiting if each.output in large][:TOGETHER]
        found = (others or pieces) if self._others_next else (pieces or others)
        self._others_next = found is pieces
        return found

    def _write(self, batch: list[_Waiting]) -> None:
        """Write in the thread, as far as the disk takes it."""
        done, outdated, error = list[_Waiting](), dict[Output, int](), ""
        for application in dict.fromkeys(each.output.application for each in batch):
            works = [each for each in batch if each.output.application == application]
            on_spark = any(each.on_spark for each in works)
            number, problem, fences = self._write_of(application, [each.todo for each in works], on_spark=on_spark)
            done += works[:number]
            outdated |= {each.output: epoch for each in works if (epoch := each.todo.outdated_by(fences))}
            if problem is not None:
                error = self._said(problem)
        self._on_loop(self._written, done, outdated, error)

    def _write_of(self, application: str, todo: list[ComponentWork], *, on_spark: bool) -> CarriedOut:
        files = self._files.setdefault(application, self._folder.files(application))
        try:
            if on_spark:  # before a snapshot says that it is there, and anybody reads what follows from it
                files.sync_checkpoints()
            return carry_out(files, todo)
        except FileNotFoundError:
            del self._files[application]
        try:
            self._folder.check_there()
        except OSError as problem:
            return CarriedOut(0, problem)
        return CarriedOut(len(todo))  # the application has ended, or is one that is not kept

    def _said(self, problem: OSError) -> str:
        return f"{self._folder.where!r}: {problem.strerror or problem}"

    def _written(self, done: list[_Waiting], outdated: dict[Output, int], error: str) -> None:
        self._busy = False
        gone = {id(each) for each in done}
        self._waiting = [each for each in self._waiting if id(each) not in gone]
        for output, epoch in outdated.items():
            self._end(output, epoch)
        for output, (_, _, work), _ in done:
            self._unwritten[output] -= 1
            if not self._unwritten[output]:
                del self._unwritten[output]
            self._answer(output, work)
        if error:
            self._wait(error)
            return
        self._tries = 0
        self._next()

    def _end(self, output: Output, epoch: int) -> None:
        """Write no more of a component, and answer nothing: somebody else goes on from its files."""
        key = output.application, output.operator
        if key in self._copies and self._copies[key].output == output:
            del self._copies[key]
            self._outdated_outputs.add(output)
            self._outdated(*key, epoch)

    def _answer(self, output: Output, work: FolderWork) -> None:
        copy = self._copies.get((output.application, output.operator))
        if copy is not None and copy.output == output and not self._closed:
            for answer in work.answers:
                self._deliver(answer)

    def _wait(self, error: str) -> None:
        """Try again later what the disk does not take."""
        self._tries += 1
        self._busy = True
        self._loop.call_later(self._broken(error, self._tries), self._again)

    def _broken(self, error: str, tries: int) -> float:
        """Say that the disk takes nothing; returns the time until it is asked again, seconds."""
        wait = min(SOON_S * 2.0 ** min(tries - 1, 10), LATE_S)
        if tries <= SAID or not tries & (tries - 1):
            self._record(FolderBroken, self._hosting.peer, reason=error, tries=tries, wait_s=wait)
        return wait

    def _again(self) -> None:
        self._busy = False
        self._next()

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop was closed without closing the host
            return

    async def close(self) -> None:
        """Write what has come, and let go of the folder."""
        self._closed = True
        await self._loop.run_in_executor(None, self._thread.shutdown)
        self._folder.unlock()


def _unwritten(answer: Frame) -> Frame:
    """An answer that says nothing of snapshots, the last of which may not be written yet."""
    return msgspec.structs.replace(answer, snapshot=-1) if isinstance(answer, Ack) else answer
