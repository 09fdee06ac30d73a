"""The decision of admission about a plan, and the outcome of that plan: live or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Answer", "summarised"]


class Answer(NamedTuple):
    """The outcome of one plan.

    Parameters
    ----------
    limit
        Delay limit in seconds.
    reason
        Reason why the plan was refused with that limit; empty if it was admitted.
    projected, measured
        Seconds that all but the promised share of the tuples keep: as projected for the graph that ran, and as measured
        at its sink. None if the plan could not run without a limit either, or no tuple came to its sink.
    """

    limit: float
    reason: str
    projected: float | None
    measured: float | None

    @property
    def kept(self) -> bool:
        """Whether the limit was kept, or would have been."""
        return self.measured is not None and self.measured <= self.limit


def _spread(answers: Sequence[Answer]) -> dict[str, float]:
    """How far measured times are from projected ones: median ratio, and the middle half of the ratios."""
    ratios = sorted(each.measured / each.projected for each in answers if each.measured and each.projected)
    if not ratios:
        return {}
    return {f"q{share}": round(ratios[len(ratios) * share // 100], 3) for share in (25, 50, 75)}


def summarised(answers: Sequence[Answer]) -> dict[str, Any]:
    """Counts and shares: of those admitted that kept their limit, and of those refused that would have."""
    admitted = [each for each in answers if not each.reason]
    refused = [each for each in answers if each.reason]
    would = [each for each in refused if each.kept]
    return {
        "admitted": len(admitted),
        "admitted_kept": round(sum(each.kept for each in admitted) / max(len(admitted), 1), 4),
        "refused": len(refused),
        "refused_would_have_kept": round(len(would) / max(len(refused), 1), 4),
        "measured_to_projected": _spread(answers),
    }
