"""A text with its history: each gesture is one entry, which can be undone and redone, whoever made it.

An entry holds what was replaced, not the whole text. So undoing all entries gives exactly the first text, however many
there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from synergy_nb.plan.units import WrongValue

__all__ = ["Change", "History", "difference", "merged"]

_REMEMBERED: Final = 100  # latest versions to which a page may refer


class Change(NamedTuple):
    """A replacement of characters.

    Parameters
    ----------
    at
        Number of characters before it.
    removed, inserted
        Text before and after.
    """

    at: int
    removed: str
    inserted: str

    def do(self, text: str) -> str:
        """Make the change."""
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def undo(self, text: str) -> str:
        """Take the change back."""
        return text[: self.at] + self.removed + text[self.at + len(self.inserted) :]


def difference(before: str, after: str) -> Change:
    """The smallest single change from one text to another.

    >>> difference("a: 1\\nb: 2\\n", "a: 1\\nc: 2\\n")
    Change(at=5, removed='b', inserted='c')
    """
    most = min(len(before), len(after))
    start = _longest(most, lambda length: before[:length] == after[:length])
    ends = len(before), len(after)
    end = _longest(most - start, lambda length: before[ends[0] - length :] == after[ends[1] - length :])
    return Change(start, before[start : len(before) - end], after[start : len(after) - end])


def _longest(most: int, holds: Callable[[int], bool]) -> int:
    """Largest length up to ``most`` for which something holds that holds for all smaller ones."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least


def merged(base: str, ours: str, theirs: str) -> str:
    """Text with the changes that two people made to the same text.

    >>> merged("a: 1\\nb: 2\\n", "a: 5\\nb: 2\\n", "a: 1\\nb: 3\\n")
    'a: 5\\nb: 3\\n'

    Raises
    ------
    WrongValue
        If they changed the same place.
    """
    one, other = difference(base, ours), difference(base, theirs)
    if ours == theirs or not (other.removed or other.inserted):
        return ours
    if not (one.removed or one.inserted):
        return theirs
    first, second = (one, other) if one.at <= other.at else (other, one)
    if first.at + len(first.removed) > second.at or first.at == second.at:
        line = base.count("\n", 0, second.at) + 1
        shown = (one.inserted or one.removed).strip()[:60]
        raise WrongValue(
            shown, f"a change of other lines than those changed since (line {line}); make it again", None, "text"
        )
    return first.do(second.do(base))


class _Entry(NamedTuple):
    gesture: str
    changes: tuple[Change, ...]


class History:
    """A text and its changes.

    Parameters
    ----------
    text
        First text.

    Examples
    --------
    >>> history = History("a")
    >>> history.change("ab", "type b"), history.change("abc", "type c", continues=True), history.undo(), history.text
    (True, True, 'type c', 'ab')
    """

    def __init__(self, text: str) -> None:
        self.text = text
        #: Number of the text: each change, and what is undone or redone, gives the next one.
        self.version = 1
        self._done: list[_Entry] = []
        self._undone: list[_Entry] = []
        self._texts: dict[int, str] = {1: text}

    @property
    def undoable(self) -> str:
        """Gesture that would be undone; empty if there is none."""
        return self._done[-1].gesture if self._done else ""

    @property
    def redoable(self) -> str:
        """Gesture that would be redone; empty if there is none."""
        return self._undone[-1].gesture if self._undone else ""

    def change(self, text: str, gesture: str, *, continues: bool = False) -> bool:
        """Make a new text the present one, and return whether it differs from the one before.

        Parameters
        ----------
        text
            New text.
        gesture
            Name of the gesture for people.
        continues
            Whether it belongs to the latest entry, if that is of the same gesture.
        """
        if text == self.text:
            return False
        change = difference(self.text, text)
        if continues and self._done and self._done[-1].gesture == gesture and not self._undone:
            self._done[-1] = _Entry(gesture, (*self._done[-1].changes, change))
        else:
            self._done.append(_Entry(gesture, (change,)))
        self._undone.clear()
        self._becomes(text)
        return True

    def undo(self) -> str:
        """Take the latest gesture back, and return its name; empty if there is none."""
        if not self._done:
            return ""
        entry = self._done.pop()
        self._undone.append(entry)
        text = self.text
        for change in reversed(entry.changes):
            text = change.undo(text)
        self._becomes(text)
        return entry.gesture

    def redo(self) -> str:
        """Make the gesture that was taken back last again, and return its name; empty if there is none."""
        if not self._undone:
            return ""
        entry = self._undone.pop()
        self._done.append(entry)
        text = self.text
        for change in entry.changes:
            text = change.do(text)
        self._becomes(text)
        return entry.gesture

    def rebased(self, text: str, version: int) -> str:
        """The text that someone made of an earlier version, with what has changed since.

        Raises
        ------
        WrongValue
            If both changed the same place, or the version is unknown.
        """
        if version == self.version:
            return text
        base = self._texts.get(version) if isinstance(version, int) else None
        if base is None:
            raise WrongValue(version, f"a version from {min(self._texts)} to {self.version}", None, "version")
        return merged(base, text, self.text)

    def _becomes(self, text: str) -> None:
        self.text = text
        self.version += 1
        self._texts[self.version] = text
        self._texts.pop(self.version - _REMEMBERED, None)
