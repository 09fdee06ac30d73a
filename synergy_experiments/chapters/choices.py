"""What the papers leave open about each claim, from ``choices.toml`` beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from synergy_experiments.framework.claim import Choices

__all__ = ["choices"]


def choices() -> Mapping[str, Choices]:
    """Return id of a claim to its choices.

    >>> choices()["C2"].open[0][0]
    "Are '100 components ... with a replication degree of 5' 20 unique ones five times, or 100 unique ones five times?"
    """
    given = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    shared = given.pop("shared")
    return {
        name: Choices(
            tuple((str(question), str(chosen)) for question, chosen in
                  [*(shared[each] for each in claim["shared"]), *claim.get("open", ())]),
            claim["doubt"],
            claim.get("reason", ""),
        )
        for name, claim in given.items()
    }  # fmt: skip
