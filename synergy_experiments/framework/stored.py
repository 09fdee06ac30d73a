"""Stored results: the measurements of a claim as a small file that names commit, seed and kind of machine.

A file has the values of all repetitions and no verdicts: these are computed from it by the present rules.
Of panels that show an example, only the first repetition is stored; of examples that no panel shows, nothing.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from synergy_experiments.framework.claim import Claim, Result
from synergy_experiments.framework.measurements import Measured, Point

__all__ = ["FOLDER", "Origin", "load", "restore", "save"]

#: Folder of the results that belong to the project.
FOLDER: Final = Path(__file__).resolve().parent.parent / "results"
DIGITS: Final = 10  # significant digits of a stored value; closed forms are judged to 1e-9


@dataclass(frozen=True)
class Origin:
    """Code and machine by which a stored result was measured.

    Parameters
    ----------
    commit
        Commit of the code, with ``+`` if files differ from it; outside a repository, the version of the package.
    machine
        Kind of machine: system, processor and cores, without names.
    """

    commit: str
    machine: str

    @classmethod
    def here(cls) -> Origin:
        """Return the origin of results of this process."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        kind = f"{platform.system()} on {platform.machine()}, {cores} cores, Python {platform.python_version()}"
        return cls(_commit(), kind)


def _commit() -> str:
    """Commit of the code, with ``+`` if files differ from it; outside a repository, the version of the package."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(FOLDER.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", "../synergy_nb")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return f"synergy-nb {version('synergy-nb')}"


def save(result: Result, folder: Path, origin: Origin | None = None) -> Path:
    """Write the measurements of a result to ``ID.json`` in a folder, which is created; return the path."""
    found = origin or Origin.here()
    head = {
        "id": result.claim.id,
        "commit": found.commit,
        "machine": found.machine,
        "seconds": round(result.seconds, 1),
        "setup": {name: _without_folder(value) for name, value in result.setup.items()},
        **({"failed": list(result.failed)} if result.failed else {}),
    }
    lines = [f"  {json.dumps(row)}" for row in (*_rows(result), *_examples(result))]
    rows = ",\n".join(lines)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.claim.id}.json"
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "points": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    return path


def _without_folder(value: Any) -> Any:
    """Return a value of a set-up without the folder of a file, which belongs to the machine."""
    if isinstance(value, tuple):
        return [_without_folder(each) for each in value]
    return Path(value).name if isinstance(value, str) and os.sep in value and Path(value).is_file() else value


def _rows(result: Result) -> Iterator[list[Any]]:
    """Yield coordinate, algorithm, metric, and the value in each repetition (null where it was not measured)."""
    once, examples = {panel.metric for panel in result.claim.panels if panel.example}, result.claim.examples
    values: dict[tuple[Any, str, str], list[float | None]] = {}
    for number, points in enumerate(result.repetitions):
        for x, algorithm, metric, value in points:
            example = metric in once or (examples and metric.startswith(examples))
            if not example and math.isfinite(value):
                own = values.setdefault((x, algorithm, metric), [])
                own += [None] * (number - len(own))
                own.append(float(f"{value:.{DIGITS}g}"))
    for key, own in values.items():
        yield [*key, own]


def _examples(result: Result) -> Iterator[list[Any]]:
    """Yield for each line of an example: coordinates, algorithm, metric, values; all of the first repetition."""
    once = {panel.metric for panel in result.claim.panels if panel.example}
    lines: dict[tuple[str, str], list[tuple[Any, float]]] = {}
    for x, algorithm, metric, value in result.repetitions[0] if result.repetitions else ():
        if metric in once and math.isfinite(value):
            lines.setdefault((algorithm, metric), []).append((x, float(f"{value:.{DIGITS}g}")))
    for key, line in lines.items():
        yield [[x for x, _ in line], *key, [value for _, value in line]]


def _points(stored: Mapping[str, Any]) -> Iterator[tuple[int, Point]]:
    """Yield the number of the repetition and the point of each stored value."""
    for x, algorithm, metric, values in stored["points"]:
        for number, value in enumerate(values):
            if isinstance(x, list):
                yield 0, Point(x[number], algorithm, metric, value)
            elif value is not None:
                yield number, Point(x, algorithm, metric, value)


def load(path: Path) -> dict[str, Any]:
    """Read a stored result.

    Raises
    ------
    ValueError
        If the file is no stored result.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
        whole = found.keys() >= {"id", "commit", "machine", "seconds", "setup", "points"}
    except (OSError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"{str(path)!r}; expected a result that --store has written")
    return dict(found)


def restore(claim: Claim, stored: Mapping[str, Any]) -> Result:
    """Return a stored result with the verdicts of the claim's present rules."""
    repetitions: list[list[Point]] = []
    for number, point in _points(stored):
        repetitions += [[] for _ in range(number + 1 - len(repetitions))]
        repetitions[number].append(point)
    setup = {name: tuple(value) if isinstance(value, list) else value for name, value in stored["setup"].items()}
    # Single runs at one place are stored side by side, as if there were more repetitions: they are drawn, not judged.
    checks, errors = claim.judged(Measured(repetitions[: stored["setup"]["repeat"]], claim.shares), setup)
    return Result(
        claim=claim,
        setup=setup,
        rows=Measured(repetitions, claim.shares).rows(),
        checks=checks,
        seconds=stored["seconds"],
        repetitions=repetitions,
        failed=tuple(dict.fromkeys([*stored.get("failed", ()), *errors])),
    )
