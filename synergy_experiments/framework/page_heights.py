"""Heights of the parts of a claim's section, estimated from numbers of letters, so that it fits on one screen.

A screen is 1280 by 800. Letters are those of the page's style: 15 px in text, 13.5 px in tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["LINE", "SCREEN", "Height", "begins", "fitting", "lines"]

SCREEN: Final = 800.0  # height of a screen, px
BAR: Final = 40.0  # height of the contents at its top, px
HEADING: Final = 52.0  # height of the heading of a section, px
FOLDED: Final = 64.0  # height of what can be opened, and of the space around a section, px
LINE, BETWEEN = 21.0, 8.0  # height of a line of text, and the space behind a paragraph, px
LETTERS: Final = 150  # letters in a line of text as wide as the page
ROW_LINE, ROW_BETWEEN = 18.0, 7.0  # height of a line of a table, and the space of a row, px
COLUMNS: Final = (42, 14, 16)  # letters in a line of the columns of checks: name, paper, ours
TABLE: Final = 56.0  # height of the head of a table and of the line that counts what is below, px
BEGINNING: Final = 600  # letters of a reason that are shown; the whole is folded
BESIDE: Final = 400.0  # height that is kept for the table and the figure, px


@dataclass(frozen=True)
class Height:
    """Height of the parts of a section.

    Parameters
    ----------
    used
        Height so far, px.
    """

    used: float = BAR

    def heading(self) -> Height:
        """Return the height with the heading of a section."""
        return Height(self.used + HEADING)

    def text(self, text: str) -> Height:
        """Return the height with a paragraph."""
        return Height(self.used + (lines(text, LETTERS) * LINE + BETWEEN if text else 0.0))

    def folded(self) -> Height:
        """Return the height with what can be opened."""
        return Height(self.used + FOLDED)

    @property
    def left(self) -> float:
        """Height that is left of a screen, px."""
        return SCREEN - self.used


def lines(text: str, letters: int) -> int:
    """Return the number of lines of a text, whose words are not divided.

    >>> lines("to be or not to be", 8)
    3
    """
    count, used = 1, 0
    for word in text.split():
        if used and used + 1 + len(word) > letters:
            count, used = count + 1, 0
        used += len(word) + (1 if used else 0)
    return count


def fitting(rows: Sequence[Sequence[str]], height: float) -> int:
    """Return how many rows of checks fit into a height, at least one.

    Parameters
    ----------
    rows
        Texts of each row: name, paper and ours, as HTML.
    height
        Height, px.
    """
    used = TABLE
    for number, row in enumerate(rows):
        texts = (re.sub(r"<br>", " " * 99, text) for text in row)
        high = max(
            sum(lines(re.sub(r"<[^>]*>", "", part), letters) for part in text.split(" " * 99))
            for text, letters in zip(texts, COLUMNS, strict=True)
        )
        used += high * ROW_LINE + ROW_BETWEEN
        if used > height:
            return max(number, 1)
    return len(rows)


def begins(text: str, height: Height, most: int = BEGINNING) -> tuple[str, bool]:
    """Return the first sentences of a text, and whether there are more.

    Parameters
    ----------
    text
        Text.
    height
        Height without it; the table and the figure keep theirs.
    most
        Greatest number of letters.

    >>> begins("One is short. Two is longer. Three.", Height(), 30)
    ('One is short. Two is longer.', True)
    """
    shown = ""
    for sentence in re.split(r"(?<=[.!?]) (?=[A-Z'0-9])", text) if text else ():
        longer = f"{shown} {sentence}".strip()
        if (len(longer) > most and shown) or height.text(f"Why: {longer}").left < BESIDE:
            return shown, True
        shown = longer
    return shown, False
