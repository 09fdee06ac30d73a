"""Are too many lines of a file malformed? And the quarantine: a folder with the lines that were left out.

Each file is judged by itself and at its end, so the verdict does not depend on the order of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from spark_stream.pipeline._units import Rejected, Unit, UnitCounts, write_whole
from spark_stream.pipeline._work_folder import QUARANTINE
from synergy_nb.plan.terms.units import counted, ratio_of


def quarantine(folder: Path, found: Mapping[Unit, UnitCounts]) -> list[Rejected]:
    """Write the lines that were left out, and return them; nothing without any."""
    rejected = [each for counts in found.values() for each in counts.rejected]
    if rejected:
        (folder / QUARANTINE).mkdir(exist_ok=True)
        text = b"".join(msgspec.json.encode(each) + b"\n" for each in rejected)
        write_whole(folder / QUARANTINE / "lines.jsonl", text)
    return rejected


def judge(
    folder: Path, form: str, tolerance: float, found: Mapping[Unit, UnitCounts], rejected: Sequence[Rejected]
) -> None:
    """Raise ``ValueError`` if more than a share of the lines of a file is malformed, or no file has a row."""
    part, whole = ratio_of(tolerance)
    files: dict[str, list[int]] = {}
    for unit, counts in found.items():
        sums = files.setdefault(unit.path, [0, 0])
        sums[0] += counts.malformed
        sums[1] += counts.lines
    for path, (malformed, lines) in files.items():
        if malformed * whole > part * lines:
            first = next(each for each in rejected if each.path == path and each.why == "malformed")
            value = first.value if len(first.value) <= 120 else first.value[:117] + "..."
            raise ValueError(
                f"{path}: {malformed:,} of {counted(lines, 'line', 'is', 'are')} not of format {form!r} (up to "
                f"{tolerance * 100:g} % are skipped); line {first.line}: field {first.field!r}: {value!r}; expected "
                f"{first.expected}; {folder / QUARANTINE} has more of them"
            )
    if not any(counts.rows for counts in found.values()):
        raise ValueError(f"{', '.join(files)}: no rows; expected at least one row of format {form!r}")
