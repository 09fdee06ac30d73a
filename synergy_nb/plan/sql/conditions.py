"""Conjunctions of conditions in canonical text: their one form, and which implies which. No parser, no engine.

Names of streams are made of the canonical texts of conditions (:mod:`.sql`), on peers that never import a parser. So
this module reads these texts, and no others: strings and quoted columns are tokens, words that :func:`.sql.quoted`
would quote are keywords. What it does not recognise it leaves as it is: two texts may then differ that mean the same,
and never the other way round.

A filter keeps a tuple if its condition is TRUE, neither FALSE nor NULL. So each condition of a conjunction is TRUE for
a tuple that passes, and one that the others imply can be left out. NaN is greater than any number, as in comparisons.

Examples
--------
>>> conjunction(["bytes > 5 AND link = 'B'", "bytes > 3", "link IN ('A', 'B')"])
('bytes > 5', "link = 'B'")
>>> conjunction(["bytes > 5", "bytes < 3"])
('FALSE',)
>>> implies(("bytes > 5", "link = 'B'"), ("bytes > 3",)), implies(("bytes > 3",), ("bytes > 5",))
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from synergy_nb.plan.sql._sql_types import quoted

__all__ = ["columns_in", "conjunction", "implies", "joined", "renamed", "with_calls"]

_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*")|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*(?:(?<=e)[+-]?\d+)?)"""
    r"|(?P<sign><>|<=|>=|//|\S)|(?P<blank>\s+)"
)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_STRING: Final = re.compile(r"'(?:[^']|'')*'")
_EXACT: Final = 2**53  # up to here, integers and floats compare alike
_ORDERED: Final = ("<", "<=", ">", ">=")


class _Token(NamedTuple):
    """A token of a canonical text, with the number of parentheses and of CASE around it."""

    text: str
    kind: str
    start: int
    end: int
    depth: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        token, kind = match[0], match.lastgroup or ""
        if kind == "blank":
            continue
        depth -= token in (")", "END")
        found.append(_Token(token, kind, match.start(), match.end(), depth))
        depth += token in ("(", "CASE")
    return found


def _split(text: str, word: str) -> list[str]:
    """Split a text at a word, or a sign, outside of parentheses and CASE."""
    if word not in text:
        return [text]
    parts, start = [], 0
    for token in _tokens(text):
        if token.text == word and not token.depth:
            parts.append(text[start : token.start].strip())
            start = token.end
    return [*parts, text[start:].strip()]


@lru_cache(maxsize=4096)
def _conjuncts(text: str) -> tuple[str, ...]:
    """Conditions that a condition connects by AND, without the parentheses around each."""
    either = _split(text, "OR")
    if len(either) > 1:  # columns that were renamed may have another order
        return (" OR ".join(sorted(either, key=lambda each: (each in ("TRUE", "FALSE", "NULL"), each))),)
    return tuple(_bare(part) for part in _split(text, "AND"))


def _bare(text: str) -> str:
    """Remove the parentheses around a whole condition, which stand only around an OR."""
    if text.startswith("(") and text.endswith(")") and all(token.depth for token in _tokens(text)[1:-1]):
        return text[1:-1]
    return text


def joined(conditions: Sequence[str]) -> str:
    """Canonical text of a conjunction; TRUE if it has no conditions."""
    if len(conditions) < 2:
        return conditions[0] if conditions else "TRUE"
    return " AND ".join(f"({each})" if len(_split(each, "OR")) > 1 else each for each in conditions)


# -- columns -----------------------------------------------------------------------------------------------------------


def _columns(text: str) -> Iterator[_Token]:
    """Tokens that are columns, or words that this module does not know."""
    tokens = _tokens(text)
    for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        if token.kind == "quoted":
            yield token
        elif token.kind == "word" and quoted(token.text) == token.text:
            called = after is not None and after.text == "("
            typed = before is not None and (before.text == "AS" or before.kind == "text")  # of CAST; of an interval
            if not called and not typed:
                yield token


@lru_cache(maxsize=1024)
def columns_in(text: str) -> frozenset[str]:
    """Columns of an expression, as they are written in it; perhaps with words that are none."""
    return frozenset(token.text for token in _columns(text))


def renamed(text: str, columns: Mapping[str, str]) -> str | None:
    """Write an expression over other columns; None if one of its columns is not in ``columns``.

    >>> renamed("link = 'link' AND abs(n) > 1", {"link": "link", "n": '"n 1"'})
    'link = \\'link\\' AND abs("n 1") > 1'
    """
    parts, start = [], 0
    for token in _columns(text):
        if token.text not in columns:
            return None
        parts += [text[start : token.start], columns[token.text]]
        start = token.end
    return "".join([*parts, text[start:]])


def with_calls(text: str, names: Collection[str], write: Callable[[str], str]) -> str:
    """Write other texts in the place of the outermost calls of functions of these names.

    >>> with_calls("-sum(b * (b + 1)) / count(*)", ("sum", "count"), lambda call: f"<{call}>")
    '-<sum(b * (b + 1))> / <count(*)>'
    """
    parts, start, tokens = [], 0, _tokens(text)
    for token, after in pairwise(tokens):
        if token.start >= start and token.kind == "word" and token.text in names and after.text == "(":
            end = next(each.end for each in tokens if each.start > after.start and each.depth == after.depth)
            parts += [text[start : token.start], write(text[token.start : end])]
            start = end
    return "".join([*parts, text[start:]])


# -- conjunctions ------------------------------------------------------------------------------------------------------


class _Bound(NamedTuple):
    """A bound of a value: it is ``strict`` if the value is not the bound itself."""

    value: Fraction
    strict: bool
    text: str


class _Values:
    """What a conjunction states of one value: which literals it is, which it is not, and between which it is."""

    def __init__(self) -> None:
        self.among: dict[str, str | Fraction] | None = None  # text to value of the literals that it is one of
        self.excluded: dict[str, str | Fraction] = {}
        self.low: _Bound | None = None
        self.high: _Bound | None = None

    def add(self, sign: str, literals: Mapping[str, str | Fraction]) -> None:
        """Add a comparison."""
        if sign == "IN":
            known = self.among
            kept = set(literals.values())
            self.among = dict(literals) if known is None else {t: v for t, v in known.items() if v in kept}
        elif sign == "NOT IN":
            self.excluded.update(literals)
        else:
            ((text, value),) = literals.items()
            assert isinstance(value, Fraction)
            bound = _Bound(value, sign in ("<", ">"), text)
            if sign.startswith(">"):
                tighter = self.low is None or (value, bound.strict) > (self.low.value, self.low.strict)
                self.low = bound if tighter else self.low
            else:
                tighter = self.high is None or (-value, bound.strict) > (-self.high.value, self.high.strict)
                self.high = bound if tighter else self.high

    def _between(self, value: str | Fraction) -> bool:
        if isinstance(value, str):
            return True
        low, high = self.low, self.high
        above = low is None or value > low.value or (value == low.value and not low.strict)
        return above and (high is None or value < high.value or (value == high.value and not high.strict))

    def conditions(self, subject: str) -> list[str]:
        """Return the fewest conditions that state the same of ``subject``."""
        low, high = self.low, self.high
        if self.among is None and low is not None and high is not None and low.value == high.value:
            self.among = {low.text: low.value}
        if self.among is not None:
            gone = set(self.excluded.values())
            left = sorted(text for text, value in self.among.items() if value not in gone and self._between(value))
            return [_one_of(subject, left)] if left else ["FALSE"]
        if low is not None and high is not None and low.value > high.value:
            return ["FALSE"]
        found = [f"{subject} {'>' if low.strict else '>='} {low.text}"] if low is not None else []
        if high is not None:
            found.append(f"{subject} {'<' if high.strict else '<='} {high.text}")
        kinds: dict[str, list[str]] = {}  # an integer beside a float would be compared as one
        for text, value in self.excluded.items():
            if self._between(value):
                kinds.setdefault(_kind(text), []).append(text)
        return found + [_one_of(subject, sorted(texts), negation="NOT ") for texts in kinds.values()]


def _one_of(subject: str, literals: Sequence[str], negation: str = "") -> str:
    if len(literals) > 1:
        return f"{subject} {negation}IN ({', '.join(literals)})"
    return f"{subject} {'<>' if negation else '='} {literals[0]}"


def _kind(literal: str) -> str:
    return "str" if literal.startswith("'") else "int" if literal.lstrip("-").isdigit() else "float"


def _value(literal: str) -> str | Fraction | None:
    """Value of a literal that is compared exactly by every engine; None for any other text."""
    if _STRING.fullmatch(literal):
        return literal
    if not _NUMBER.fullmatch(literal):
        return None
    value = Fraction(literal)
    return value if abs(value) < _EXACT else None


@lru_cache(maxsize=4096)
def _comparison(condition: str) -> tuple[str, str, dict[str, str | Fraction]] | None:
    """Subject, sign and literals of a comparison with literals, with ``IN`` and ``NOT IN`` for ``=`` and ``<>``."""
    if len(_split(condition, "OR")) > 1:
        return None
    tokens = [token for token in _tokens(condition) if not token.depth]
    for number, token in enumerate(tokens):
        subject, rest = condition[: token.start].strip(), condition[token.end :].strip()
        if token.text in ("=", "<>", *_ORDERED):
            sign, texts = {"=": "IN", "<>": "NOT IN"}.get(token.text, token.text), [rest]
        elif token.text == "IN" and rest.startswith("(") and rest.endswith(")"):
            negated = number > 0 and tokens[number - 1].text == "NOT"
            subject = condition[: tokens[number - 1].start].strip() if negated else subject
            sign, texts = ("NOT IN" if negated else "IN"), _split(rest[1:-1], ",")
        else:
            continue
        literals = {text: value for text in texts if (value := _value(text)) is not None}
        whole = len(literals) == len(texts) and (sign not in _ORDERED or isinstance(literals[rest], Fraction))
        return (subject, sign, literals) if whole else None
    return None


def _never(condition: str) -> bool:
    return condition in ("FALSE", "NULL")


def conjunction(conditions: Iterable[str]) -> tuple[str, ...]:
    """Return the conditions of a conjunction in their one form: sorted, without those that others imply.

    ``conditions``: canonical texts. Empty if all tuples pass, ``FALSE`` alone if none does.
    """
    return _conjunction(tuple(conditions))


@lru_cache(maxsize=4096)
def _conjunction(conditions: tuple[str, ...]) -> tuple[str, ...]:
    values: dict[str, _Values] = {}
    others: set[str] = set()
    for condition in (each for text in conditions for each in _conjuncts(text)):
        compared = _comparison(condition)
        if compared is None:
            others.add(condition)
        else:
            subject, sign, literals = compared
            values.setdefault(subject, _Values()).add(sign, literals)
    found = others.union(*(each.conditions(subject) for subject, each in values.items())) - {"TRUE"}
    return ("FALSE",) if any(map(_never, found)) else tuple(sorted(found))


def implies(given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether all tuples that pass one conjunction pass another; False also if that is not known."""
    return conjunction((*given, *wanted)) == conjunction(given)
