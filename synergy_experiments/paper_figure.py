"""A figure of a paper beside ours, in a notebook, with the verdicts: measured now at a small scale, or stored.

>>> paper_figure("A2", placements=2, components="3,5").result.claim.id
'A2'
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from synergy_experiments.chapters import find
from synergy_experiments.framework.claim import Claim, Result
from synergy_experiments.framework.figures import describe, drawn_panels, write
from synergy_experiments.framework.parameters import parse
from synergy_experiments.framework.runner import reproduce
from synergy_experiments.framework.stored import FOLDER, load, restore
from synergy_experiments.framework.verdicts import of_claim
from synergy_nb.reporting.formatting import cell
from synergy_nb.reporting.tables import as_text

__all__ = ["PaperFigure", "paper_figure"]


@dataclass(frozen=True)
class PaperFigure:
    """What was measured of a claim, and the paper's numbers.

    Parameters
    ----------
    result
        Result of the experiment.
    panels
        Greatest number of panels that are drawn.
    """

    result: Result
    panels: int = 4

    def __repr__(self) -> str:
        rows = [(each.name, cell(each.paper), cell(each.ours), each.verdict) for each in self.result.checks]
        claim = self.result.claim
        return f"{claim.id}: {claim.title} ({claim.source}); {self.result.size}; {self._verdict}\n" + as_text(
            "", ("claim", "paper", "ours", "verdict"), rows
        )

    @property
    def _verdict(self) -> str:
        """Verdict of the claim."""
        return of_claim(self.result.checks, whole=not self.result.failed)

    def to_svg(self) -> str:
        """The figure: our numbers as lines or bars, the paper's numbers as stars."""
        file = io.BytesIO()
        write(self.result, file, self.panels)
        return file.getvalue().decode("utf-8")

    def _repr_html_(self) -> str:
        claim = self.result.claim
        image = base64.b64encode(self.to_svg().encode("utf-8")).decode("ascii")
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{escape(text)}</td>" for text in row) + "</tr>"
            for row in ((each.name, cell(each.paper), cell(each.ours), each.verdict) for each in self.result.checks)
        )
        head = "".join(f"<th style='text-align:left'>{text}</th>" for text in ("claim", "paper", "ours", "verdict"))
        title = f"{escape(claim.id)}: {escape(claim.title)}"
        alt = escape(" ".join(describe(self.result, each) for each in drawn_panels(self.result)[: self.panels]))
        return (
            f"<p><strong>{title}</strong> ({escape(claim.source)})<br>The paper: {escape(claim.says)}.</p>"
            f"<img alt='{alt}' src='data:image/svg+xml;base64,{image}' style='max-width:100%;background:#fff'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p>{self._verdict} <small>({self.result.size})</small></p>"
        )


def paper_figure(
    claim: str, *, stored: bool = False, repeat: int = 3, seed: int = 1, panels: int = 4, **setup: object
) -> PaperFigure:
    """Show a claim of the papers beside the paper's numbers: measured now at a small scale, or as it is stored.

    Parameters
    ----------
    claim
        Id of the claim, such as ``"A2"``; ``synergy reproduce --list`` lists all.
    stored
        Whether to measure nothing, and show the stored result of the paper's scale.
    repeat
        Number of repetitions, if it is measured.
    seed
        Seed of all random choices, if it is measured.
    panels
        Greatest number of panels of the figure that are drawn.
    **setup
        Parameters of the set-up by name, as of ``synergy reproduce --set``, if it is measured.

    Raises
    ------
    ValueError
        If there is no such claim or parameter, or a value is invalid; or no result of the claim is stored.
    """
    found = find([claim])[0]
    if stored:
        return PaperFigure(_stored(found, setup), panels)
    chosen = parse([f"{name}={value}" for name, value in setup.items()], [found.parameters])[0]
    return PaperFigure(next(reproduce([(found, chosen)], seed=seed, repeat=repeat)), panels)


def _stored(claim: Claim, setup: Mapping[str, object]) -> Result:
    """Return the stored result of a claim, which has its own set-up."""
    if setup:
        name, value = next(iter(setup.items()))
        raise ValueError(f"{name}: {value!r}; expected no parameters of the set-up with stored=True")
    path = FOLDER / f"{claim.id}.json"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.json")))
        raise ValueError(f"stored: no result of {claim.id} is stored; expected one of {known}")
    return restore(claim, load(path))
