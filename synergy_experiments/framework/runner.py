"""Runs experiments: repetitions cell by cell, in this process or in several.

A cell that several claims share, such as the figures of one sweep, is measured once. A cell that fails has no points
and loses no others: the result names it, with the error. Processes end with this one, even if it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from synergy_experiments.framework.claim import Cell, Claim, Result
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import IncompatibleParameters, Scale, Setup, Value, at_scale
from synergy_experiments.framework.verdicts import corrected

__all__ = ["Progress", "reproduce", "seed_of"]

Progress: TypeAlias = Callable[[str, int, int], None]
"""Function of a claim, the number of its measured cells, and the number of all its cells."""

#: Function of a cell, its arguments, and the seed.
Key: TypeAlias = tuple[Callable[..., Any], tuple[Hashable, ...], int]
#: Result of the function, or its failure, and the seconds that it took.
Timed: TypeAlias = tuple[Any, float]


class Failed(NamedTuple):
    """The failure of a cell: its error in words."""

    error: str


SEEDS_APART: Final = 1000  # difference of the seeds of the repetitions of two runs whose seeds differ by one


def seed_of(seed: int, repetition: int) -> int:
    """Return the seed of a repetition; repetition 0 of seed 2 differs from all repetitions of seed 1."""
    return SEEDS_APART * seed + repetition


def reproduce(
    claims: Sequence[tuple[Claim, Mapping[str, Value]]],
    *,
    scale: Scale = "quick",
    seed: int = 1,
    repeat: int | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Reproduce claims, one after the other.

    Parameters
    ----------
    claims
        Each claim with the values that replace those of its set-up at ``scale``.
    scale
        Scale: ``quick`` or ``paper``.
    seed
        Seed of the run; :func:`seed_of` gives those of the repetitions.
    repeat
        Number of repetitions, each with its own seed; None: the claim's number at this scale.
    processes
        Number of processes that measure at the same time.
    progress
        Callback for the progress, see :data:`Progress`.
    """
    known: dict[Key, Timed] = {}
    with _Pool(processes) as pool:
        for claim, chosen in claims:
            setup = {**at_scale(claim.parameters, scale), **chosen}
            times = repeat if repeat is not None else claim.repeat[scale == "paper"]
            cells, failed = _cells(claim, setup)
            wanted = list(
                dict.fromkeys(
                    (cell.function, cell.arguments, seed_of(seed, number)) for number in range(times) for cell in cells
                )
            )
            done = sum(key in known for key in wanted)
            if progress is not None:
                progress(claim.id, done, len(wanted))
            new = [key for key in wanted if key not in known]
            alone = {(cell.function, cell.arguments) for cell in cells if cell.alone}
            together = [key for key in new if key[:2] not in alone]
            by_itself = ((key, _measure(*key)) for key in new if key[:2] in alone)
            for key, timed in chain(pool.measure(together), by_itself):
                known[key] = timed
                done += 1
                if progress is not None:
                    progress(claim.id, done, len(wanted))
            failed += [f"{_named(key)}: {known[key][0].error}" for key in wanted if isinstance(known[key][0], Failed)]
            repetitions: list[list[Point]] = []
            for number in range(times):
                points: list[Point] = []
                for cell in cells:
                    found = known[cell.function, cell.arguments, seed_of(seed, number)][0]
                    points += () if isinstance(found, Failed) else cell.points(found)
                try:
                    derived = list(claim.derive(points)) if claim.derive is not None else []
                except Exception as error:  # noqa: BLE001 - points may be missing
                    derived, failed = [], [*failed, f"derived points of repetition {number}: {_told(error)}"]
                failed += _given_twice(claim, [*points, *derived])
                repetitions.append([*points, *derived])
            measured = Measured(repetitions, claim.shares)
            checks, errors = claim.judged(measured, setup)
            yield Result(
                claim=claim,
                setup={**setup, "seed": seed, "repeat": times, "scale": scale},
                rows=measured.rows(),
                checks=corrected(checks),
                seconds=sum(known[key][1] for key in wanted),
                repetitions=repetitions,
                failed=(*failed, *errors),
            )


def _cells(claim: Claim, setup: Setup) -> tuple[list[Cell], list[str]]:
    """Return the cells of a claim, or none and why, as when a file of theirs is missing."""
    try:
        return list(dict.fromkeys(claim.cells(setup))), []
    except IncompatibleParameters:
        raise
    except Exception as error:  # noqa: BLE001 - the other claims go on
        return [], [f"no cells: {_told(error)}"]


def _given_twice(claim: Claim, points: Sequence[Point]) -> list[str]:
    """Return what several cells of a repetition measured at one place: only one of the values would count.

    A panel of single runs may have several of them at one place by chance.
    """
    runs = {panel.metric for panel in claim.panels if panel.runs or panel.example}
    times = Counter((x, algorithm, metric) for x, algorithm, metric, _ in points if metric not in runs)
    return [
        f"{metric} of {algorithm} at {x}: {count} cells measure it; expected one"
        for (x, algorithm, metric), count in times.items()
        if count > 1
    ]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _named(key: Key) -> str:
    """Return a cell in words, with files by their names."""
    function, arguments, seed = key
    shown = [Path(each).name if isinstance(each, str) and os.sep in each else str(each) for each in arguments]
    return f"{function.__name__}({', '.join(shown)}), seed {seed}"


class _Pool:
    """Processes that measure; they start when there are two cells to measure at the same time."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"processes: {processes}; expected at least 1")
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def measure(self, keys: Sequence[Key]) -> Iterator[tuple[Key, Timed]]:
        """Yield cells with their results and times, in the order in which they end."""
        if self._processes == 1 or len(keys) < 2:
            for key in keys:
                yield key, _measure(*key)
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._processes, multiprocessing.get_context("spawn"), _begin, (os.getpid(),)
            )
        asked: dict[Future[Timed], Key] = {self._pool.submit(_measure, *key): key for key in keys}
        for future in as_completed(asked):
            try:
                timed = future.result()
            except Exception as error:  # noqa: BLE001 - the process has ended, or the result cannot be sent
                timed = Failed(_told(error)), 0.0
                self._pool = None if isinstance(error, BrokenProcessPool) else self._pool
            yield asked[future], timed


def _measure(function: Callable[..., Any], arguments: tuple[Hashable, ...], seed: int) -> Timed:
    began = time.perf_counter()
    try:
        found = function(*arguments, seed)
    except IncompatibleParameters:
        raise
    except Exception as error:  # noqa: BLE001 - no cell loses the others
        found = Failed(_told(error))
    return found, time.perf_counter() - began


def _begin(parent: int) -> None:
    """In a new process: leave interrupts to the parent, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = multiprocessing.parent_process()
    if process is None or os.getppid() != parent:
        os._exit(1)

    def follow() -> None:
        process.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True, name="follows its parent").start()
