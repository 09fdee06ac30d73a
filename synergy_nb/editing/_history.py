"""A text with its history: each gesture is one entry, which can be undone and redone, by whomever it was made.

An entry holds the characters that it replaced, not the whole text. There is no limit of entries: undoing all of them
gives exactly the first text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from synergy_nb.plan.terms.units import WrongValue

_KEPT_VERSIONS: Final = 100  # number of latest versions that a change of a page may be based on


class Change(NamedTuple):
    """A replacement of characters."""

    start: int  # number of characters before the replaced ones
    # removed, inserted: characters before and after the change
    removed: str
    inserted: str

    def do(self, text: str) -> str:
        """Text with the change."""
        return text[: self.start] + self.inserted + text[self.start + len(self.removed) :]

    def undo(self, text: str) -> str:
        """Text without the change."""
        return text[: self.start] + self.removed + text[self.start + len(self.inserted) :]


def difference(before: str, after: str) -> Change:
    """The smallest single change from one text to another.

    >>> difference("a: 1\\nb: 2\\n", "a: 1\\nc: 2\\n")
    Change(start=5, removed='b', inserted='c')
    """
    most = min(len(before), len(after))
    start = _largest(most, lambda length: before[:length] == after[:length])
    ends = len(before), len(after)
    end = _largest(most - start, lambda length: before[ends[0] - length :] == after[ends[1] - length :])
    return Change(start, before[start : len(before) - end], after[start : len(after) - end])


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """Largest length up to ``most`` for which a condition holds, by bisection: it holds for all smaller ones, too."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least


def merge_texts(base: str, ours: str, theirs: str) -> str:
    """Merge the changes that two people made to the same text.

    Raises ``WrongValue`` if they changed the same place.

    >>> merge_texts("a: 1\\nb: 2\\n", "a: 5\\nb: 2\\n", "a: 1\\nb: 3\\n")
    'a: 5\\nb: 3\\n'
    """
    one, other = difference(base, ours), difference(base, theirs)
    if ours == theirs or not (other.removed or other.inserted):
        return ours
    if not (one.removed or one.inserted):
        return theirs
    first, second = (one, other) if one.start <= other.start else (other, one)
    if first.start + len(first.removed) > second.start or first.start == second.start:
        line = base.count("\n", 0, second.start) + 1
        shown = (one.inserted or one.removed).strip()[:60]
        raise WrongValue(
            shown, f"a change of other lines than those changed since (line {line}); make it again", None, "text"
        )
    return first.do(second.do(base))


class _Entry(NamedTuple):
    """One gesture and its changes, in the order in which they were made."""

    gesture: str
    changes: tuple[Change, ...]


class History:
    """A text and the gestures that changed it.

    Examples
    --------
    >>> history = History("a")
    >>> history.change("ab", "type b"), history.change("abc", "type c", continues=True), history.undo(), history.text
    (True, True, 'type c', 'ab')
    """

    def __init__(self, text: str) -> None:
        self.text = text  # first text
        #: Number of the present text, from 1: each change, undo and redo gives the next one.
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
        """Replace the text, and return whether the new one differs.

        ``gesture``: name of the gesture for people; ``continues``: whether the change belongs to the latest entry if
        that has the same name, as typing does.
        """
        if text == self.text:
            return False
        change = difference(self.text, text)
        if continues and self._done and self._done[-1].gesture == gesture and not self._undone:
            self._done[-1] = _Entry(gesture, (*self._done[-1].changes, change))
        else:
            self._done.append(_Entry(gesture, (change,)))
        self._undone.clear()
        self._set_text(text)
        return True

    def undo(self) -> str:
        """Undo the latest gesture, and return its name; empty if there is none."""
        if not self._done:
            return ""
        entry = self._done.pop()
        self._undone.append(entry)
        text = self.text
        for change in reversed(entry.changes):
            text = change.undo(text)
        self._set_text(text)
        return entry.gesture

    def redo(self) -> str:
        """Redo the gesture that was undone last, and return its name; empty if there is none."""
        if not self._undone:
            return ""
        entry = self._undone.pop()
        self._done.append(entry)
        text = self.text
        for change in entry.changes:
            text = change.do(text)
        self._set_text(text)
        return entry.gesture

    def rebase(self, text: str, version: int) -> str:
        """Merge a text that somebody made of an earlier version with the changes since that version.

        ``version``: number of the earlier version.

        Raises ``WrongValue`` if both changed the same place, or the version is unknown.
        """
        if version == self.version:
            return text
        base = self._texts.get(version) if isinstance(version, int) else None
        if base is None:
            raise WrongValue(version, f"a version from {min(self._texts)} to {self.version}", None, "version")
        return merge_texts(base, text, self.text)

    def _set_text(self, text: str) -> None:
        self.text = text
        self.version += 1
        self._texts[self.version] = text
        self._texts.pop(self.version - _KEPT_VERSIONS, None)
