r"""Regular expressions that mean the same on all engines.

Engines differ in regular expressions: ``\d`` is any digit of Unicode here and one of ten there, ``$`` may match before
a last line feed, some have look-around. So a pattern is read as the following grammar, what is outside of it is
refused, and it is written for the two engines that execute it, that of Polars on peers and RE2 (of DuckDB, and of Arrow
on Spark), such that no difference is left. Neither backtracks: the time to find a match is bounded by the
length of the text times the pattern's.

* characters; ``.`` is any but a line feed; escapes ``\d \w \s`` (of ASCII) and ``\D \W \S``, ``\t \n \r \f \v``,
  ``\xHH``, and a backslash before a sign
* classes ``[a-z\d_]`` and ``[^...]``; groups ``(...)``, ``(?:...)``, ``(?P<name>...)``; alternatives ``a|b``
* ``* + ? {m} {m,} {m,n}``, also lazy, as ``*?``; anchors ``^ $ \A \z``, ends of the whole text; ``\b`` and ``\B``
  of ASCII words
* ``(?i)`` at the beginning: a letter is equal to its upper and lower case (in ranges those of ASCII); ``(?s)``: ``.``
  is also a line feed

The leftmost match counts, and of those the one that is found first (as in Perl), which these engines agree on.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from synergy_nb.plan.terms.units import WrongValue

__all__ = ["RegularExpression", "read_pattern", "read_replacement"]

_MOST_REPEATS: Final = 1000  # limit of RE2 and of the engine of Polars
# of a pattern whose repetitions are written out: engines need some hundred bytes for each, and that of Polars has 10 MB
_MOST_STATES: Final = 50_000
_ANY: Final = 10  # states of what is one of many characters of Unicode
_CLASSES: Final = {"d": r"0-9", "w": r"0-9A-Za-z_", "s": r"\t\n\x0B\f\r "}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_NAMED: Final = re.compile(r"\?P?<([A-Za-z_]\w*)>")
_REPEAT: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_EXPECTED: Final = "a regular expression of the documented subset (docs/plans.md)"


class RegularExpression(NamedTuple):
    """A regular expression, as each engine takes it.

    Attributes
    ----------
    plain
        Text for Polars, whose syntax is that of Rust.
    re2
        Text for RE2.
    groups
        Number of groups.
    empty
        Whether it may match no character at all.
    """

    plain: str
    re2: str
    groups: int
    empty: bool


def read_pattern(text: str) -> RegularExpression:
    r"""Read a regular expression, and write it for each engine.

    Raises :class:`~synergy_nb.plan.terms.units.WrongValue` if it is outside of the grammar of this module.

    Examples
    --------
    >>> read_pattern(r"^(\d+)-[a-c]*$").plain
    '\\A([0-9]+)\\-[a-c]*\\z'
    >>> read_pattern("a(?=b)")
    Traceback (most recent call last):
    synergy_nb.plan.terms.units.WrongValue: 'a(?=b)'; expected a regular expression ... without (?= at character 2
    """
    return _Reader(text).pattern()


def read_replacement(text: str, groups: int) -> list[str | int]:
    r"""Read the replacement of a match: pieces of text, and numbers of groups (0 is the whole match).

    Raises :class:`~synergy_nb.plan.terms.units.WrongValue` if it names a group that the pattern has not.

    Examples
    --------
    >>> read_replacement(r"\2 and \1", 2)
    [2, ' and ', 1]
    """
    pieces: list[str | int] = []
    for number, escaped, plain in re.findall(r"\\(\d)|\\(.?)|([^\\]+)", text, re.DOTALL):
        if number:
            if int(number) > groups:
                raise WrongValue(text, f"at most \\{groups}, the last group of the pattern, not \\{number}")
            pieces.append(int(number))
        elif plain:
            pieces.append(plain)
        elif escaped == "\\":
            pieces.append(escaped)
        else:
            raise WrongValue(text, r"\1 to \9 for groups, \0 for the match, and \\ for a backslash")
    return pieces


class _Written(NamedTuple):
    """A part of a pattern: its text, whether it may match nothing, and how many states it needs."""

    text: str
    empty: bool
    states: int = 1


def _joined(parts: list[_Written], between: str = "") -> _Written:
    text = between.join(part.text for part in parts)
    return _Written(text, empty=False, states=sum(part.states for part in parts))


def _letter(sign: str) -> str:
    """Write one character outside of a class."""
    if sign in "\n\t\r\f\v":
        return f"\\x{ord(sign):02X}"
    return f"\\{sign}" if sign.isascii() and not sign.isalnum() and sign not in " _" else sign


_ASCII: Final = re.compile(r"\(\?-u:(\\[bB])\)")  # an edge of ASCII words for Rust; in RE2 all edges are
_ANCHORS: Final = {
    "^": _Written(r"\A", empty=True),
    "$": _Written(r"\z", empty=True),
    "A": _Written(r"\A", empty=True),
    "z": _Written(r"\z", empty=True),
    "b": _Written(r"(?-u:\b)", empty=True),
    "B": _Written(r"(?-u:\B)", empty=True),
}


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0
        self.depth = 0

    def pattern(self) -> RegularExpression:
        flags = _FLAGS.match(self.text)
        given = set(flags[1]) if flags else set()
        self.at = flags.end() if flags else 0
        self.dot = "(?s:.)" if "s" in given else r"[^\n]"
        self.folds = "i" in given  # engines differ in which letters of Unicode are equal, so both cases are written out
        body = self.alternatives()
        if self.at < len(self.text):
            raise self.wrong("with an opening parenthesis for ')'")
        return RegularExpression(body.text, _ASCII.sub(r"\1", body.text), self.groups, body.empty)

    def wrong(self, why: str, at: int | None = None) -> WrongValue:
        return WrongValue(self.text, f"{_EXPECTED} {why} at character {(self.at if at is None else at) + 1}")

    @property
    def sign(self) -> str:
        return self.text[self.at : self.at + 1]

    def alternatives(self) -> _Written:
        branches = [self.branch()]
        while self.sign == "|":
            self.at += 1
            branches.append(self.branch())
        return _joined(branches, "|")._replace(empty=any(branch.empty for branch in branches))

    def branch(self) -> _Written:
        parts: list[_Written] = []
        while self.sign and self.sign not in "|)":
            parts.append(self.repeated(self.atom()))
        return _joined(parts)._replace(empty=all(part.empty for part in parts))

    def repeated(self, atom: _Written) -> _Written:
        start = self.at
        written, least, copies = self.repeat()
        if not written:
            return atom
        if atom in _ANCHORS.values():
            raise self.wrong("with something to repeat", start)
        if self.sign == "?":
            written += "?"
            self.at += 1
        follows = self.at
        if self.repeat()[0] or self.sign == "+":
            raise self.wrong("with one repetition, and no possessive one,", follows)
        states = atom.states * max(copies, 1)
        if states > _MOST_STATES:  # engines write a repetition out
            raise self.wrong(f"whose repetitions, written out, have at most {_MOST_STATES:,} characters", start)
        return _Written(atom.text + written, atom.empty or least == 0, states)

    def repeat(self) -> tuple[str, int, int]:
        """Read a repetition: its text, empty if there is none, the least number of times, and the number of copies."""
        if self.sign and self.sign in "*+?":
            self.at += 1
            return self.text[self.at - 1], int(self.text[self.at - 1] == "+"), 1
        found = _REPEAT.match(self.text, self.at)
        if found is None or not (found[1] or found[3]):
            return "", 1, 1
        least, most = int(found[1] or 0), int(found[3]) if found[3] else None if found[2] else int(found[1])
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise self.wrong(f"with {{m,n}} in order and at most {_MOST_REPEATS}")
        self.at = found.end()
        written = f"{{{least}}}" if most == least else f"{{{least},{'' if most is None else most}}}"
        return written, least, max(least, most or 0)

    def atom(self) -> _Written:
        sign = self.sign
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.characters()
        if sign in "*+?" or (
            _REPEAT.match(self.text, self.at) and self.text[self.at : self.at + 2] not in ("{}", "{,")
        ):
            raise self.wrong("with something to repeat")
        self.at += 1
        if sign in "^$":
            return _ANCHORS[sign]
        if sign == ".":
            return _Written(self.dot, empty=False, states=_ANY)
        if sign != "\\":
            return self.one(sign)
        letter = self.sign
        if letter in ("A", "z", "b", "B"):
            self.at += 1
            return _ANCHORS[letter]
        if letter and letter in "dwsDWS":
            self.at += 1
            written = f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"
            return _Written(written, empty=False, states=_ANY if letter.isupper() else 1)
        return self.one(self.escaped())

    def one(self, sign: str) -> _Written:
        both = self.cases(sign)
        written = _letter(sign) if len(both) == 1 else f"[{''.join(map(_member, both))}]"
        return _Written(written, empty=False)

    def cases(self, sign: str) -> list[str]:
        """The character and, if upper and lower case are equal, its other one."""
        other = [each for each in (sign.lower(), sign.upper()) if len(each) == 1 and each != sign and self.folds]
        return [sign, *other]

    def escaped(self) -> str:
        """Read what follows a backslash; return the character."""
        sign = self.sign
        if sign in _CONTROLS:
            self.at += 1
            return _CONTROLS[sign]
        if found := re.compile(r"x([0-9A-Fa-f]{2})").match(self.text, self.at):
            self.at = found.end()
            return chr(int(found[1], 16))
        if not sign or sign.isalnum():
            raise self.wrong(f"without \\{sign}" if sign else "with a character after the backslash", self.at - 1)
        self.at += 1
        return sign

    def group(self) -> _Written:
        start = self.at
        self.at += 1
        opened = "("
        if self.sign == "?":
            if self.text.startswith("?:", self.at):
                opened, self.at = "(?:", self.at + 2
            elif found := _NAMED.match(self.text, self.at):
                self.at = found.end()
            else:
                raise self.wrong(f"without {self.text[start : start + 3]}", start)
        self.groups += opened == "("
        self.depth += 1
        if self.depth > 100:
            raise self.wrong("that is nested less deeply")
        inner = self.alternatives()
        self.depth -= 1
        if self.sign != ")":
            raise self.wrong("with a closing parenthesis for '('", start)
        self.at += 1
        return _Written(f"{opened}{inner.text})", inner.empty, inner.states)

    def characters(self) -> _Written:
        start = self.at
        self.at += 1
        written = "["
        if self.sign == "^":
            written, self.at = "[^", self.at + 1
        first = self.at
        while self.sign and (self.sign != "]" or self.at == first):
            if self.text.startswith(("[:", "[.", "[="), self.at):
                raise self.wrong(f"without {self.text[self.at : self.at + 2]} in a class")
            low = self.member()
            if self.sign == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                place = self.at
                self.at += 1
                high = self.member()
                if len(low) != 1 or len(high) != 1 or high < low:
                    raise self.wrong("with a range from a lower to a higher character", place)
                written += f"{_member(low)}-{_member(high)}{self.other_range(low, high)}"
            else:
                written += "".join(map(_member, self.cases(low))) if len(low) == 1 else low
        if self.sign != "]":
            raise self.wrong("with a closing bracket for '['", start)
        self.at += 1
        many = written.startswith("[^") or not written.isascii()
        return _Written(f"{written}]", empty=False, states=_ANY if many else 1)

    def other_range(self, low: str, high: str) -> str:
        """The letters of ASCII within a range, in their other case."""
        letters = [chr(code) for code in range(ord(low), min(ord(high), 127) + 1) if chr(code).isalpha()]
        return "".join(letter.swapcase() for letter in letters) if self.folds else ""

    def member(self) -> str:
        """Read a member of a class: one character, or what a class such as ``\\d`` stands for."""
        sign = self.sign
        self.at += 1
        if sign != "\\":
            return sign
        if self.sign and self.sign in "dws":
            self.at += 1
            return _CLASSES[self.text[self.at - 1]]
        if self.sign and self.sign in "DWS":
            raise self.wrong(f"without \\{self.sign} in a class", self.at - 1)
        return self.escaped()


def _member(sign: str) -> str:
    return f"\\x{ord(sign):02X}" if sign.isascii() and not sign.isalnum() else sign
