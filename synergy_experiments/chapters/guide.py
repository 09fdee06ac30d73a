"""What the page of claims says around the claims, from ``guide.toml`` beside this module."""

from __future__ import annotations

import tomllib
from pathlib import Path

from synergy_experiments.framework.guide import Guide, Headline, Paper, Word

__all__ = ["guide"]


def guide() -> Guide:
    """Return the papers, the main number of each claim, and the words that are explained.

    >>> guide().headlines["C1"].of
    'delay saved against Composition'
    """
    given = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return Guide(
        {letter: Paper(**paper) for letter, paper in given["papers"].items()},
        {claim: Headline(**headline) for claim, headline in given["headlines"].items()},
        [Word(tuple(forms.split("|")), meaning) for forms, meaning in given["words"].items()],
        given["ways"],
    )
