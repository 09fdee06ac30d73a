"""Names of applications that a guest may not read, in what he is told of his own: there stands "another application".

Events and reasons name others: the application that a request would slow down, the one whose component has no slack,
who makes the same stream. Their ids say whose plans run here and what these are called. A peer knows the rights to the
applications in which it takes part, but a reason may come from another peer; so each text of the form of an id
(``NAME-NUMBER-6 DIGITS``) is hidden unless the guest may read an application of that id, together with an operator
beside it (``OPERATOR of ID``, ``ID/OPERATOR``). Numbers stay, such as the delay of the application that would be
harmed: they are why the guest was refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from synergy_nb.events import Event

__all__ = ["OTHER", "HiddenNames"]

OTHER: Final = "another application"
FORM: Final = r"[\w.-]+-\d+-[0-9a-f]{6}"  # of the ids that clients make
ID: Final = re.compile(FORM)
E = TypeVar("E", bound=Event)


def _named(application: str) -> re.Pattern[str]:
    """Pattern of an application in a text, with an operator of it before or behind."""
    return re.compile(rf"(?<![\w.-])(?:[^\s:;,()]+ of )?(?P<id>{application})(?![\w-]|\.\w)(?:/[^\s:;,()]+)?")


NAMED: Final = _named(FORM)


class HiddenNames:
    """Hides names of applications.

    ``known``: function that returns the ids that this peer knows; ``readable``: whether a user may read an application,
    by its id.
    """

    def __init__(self, known: Callable[[], Iterable[str]], readable: Callable[[str, str], bool]) -> None:
        self._known = known
        self._readable = readable

    def event(self, user: str, event: E) -> E:
        """An event about an application that the user may read, without the names of others."""
        fields = msgspec.to_builtins(event)
        hidden = self._hidden(user, fields, self._odd(user))
        return event if hidden == fields else msgspec.convert(hidden, type(event))

    def answer(self, user: str, answer: bytes) -> bytes:
        """An answer in MessagePack, without the names of others."""
        if not answer:
            return answer
        found = msgspec.msgpack.decode(answer)
        hidden = self._hidden(user, found, self._odd(user))
        return answer if hidden == found else msgspec.msgpack.encode(hidden)

    def _odd(self, user: str) -> re.Pattern[str] | None:
        """Finds the ids of another form: clients make none, programs that submit plans themselves may."""
        odd = sorted(each for each in self._known() if not ID.fullmatch(each) and not self._readable(user, each))
        if not odd:
            return None
        return _named("|".join(map(re.escape, odd)))

    def _hidden(self, user: str, value: Any, odd: re.Pattern[str] | None) -> Any:
        if isinstance(value, str):
            return self._text(user, value, odd)
        if isinstance(value, dict):
            return {self._hidden(user, key, odd): self._hidden(user, each, odd) for key, each in value.items()}
        if isinstance(value, list | tuple):
            found = [self._hidden(user, each, odd) for each in value]
            if found[:1] == [OTHER] and len(found) > 1 and isinstance(found[1], str):
                found[1] = ""  # a component, of which the second field is the operator
            return found
        return value

    def _text(self, user: str, text: str, odd: re.Pattern[str] | None) -> str:
        if odd is not None:
            text = odd.sub(OTHER, text)
        return NAMED.sub(lambda found: found[0] if self._readable(user, found["id"]) else OTHER, text)
