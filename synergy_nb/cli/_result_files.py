"""The files that ``synergy run --out`` asks for, by sink."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from synergy_nb.plan import Plan
from synergy_nb.plan.derived.allowed_paths import paths_of
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.runtime.client.result_files import FORMATS


def chosen_files(given: Sequence[str], plan: Plan) -> dict[str, Path]:
    """Return the file of each sink, from texts ``FILE`` or, if there are several sinks, ``SINK=FILE``.

    Raises ``ValueError`` if a text names no sink, or has another suffix than :data:`FORMATS`, or a sink or file is
    named twice, or a file is one that the plan reads or writes.
    """
    files: dict[str, Path] = {}
    used = {Path(each.path).resolve(): each for each in paths_of(plan)}
    for text in given:
        sink, equals, file = text.partition("=")
        if not (equals and sink in plan.sinks):
            if len(plan.sinks) > 1:
                raise ValueError(f"{text!r}; expected SINK=FILE with one of the sinks {', '.join(plan.sinks)}")
            sink, file = plan.sinks[0], text
        path = Path(file)
        if path.suffix.lower() not in FORMATS:
            expected = f"a file {', '.join(f'NAME{each}' for each in FORMATS[:-1])} or NAME{FORMATS[-1]}"
            raise ValueError(f"{text!r}; expected {expected}{did_you_mean(path.suffix, FORMATS)}")
        if sink in files:
            raise ValueError(f"{text!r}; expected one file for each sink, and {sink} has {str(files[sink])!r} already")
        if path.absolute() in {each.absolute() for each in files.values()}:
            raise ValueError(f"{text!r}; expected another file than that of another sink")
        if (named := used.get(path.resolve())) is not None:
            does = "writes" if named.written else "reads"
            raise ValueError(f"{text!r}; expected another file than the one that {named.operator} {does}")
        files[sink] = path
    return files
