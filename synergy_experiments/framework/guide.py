"""What the page of claims says around the claims: the papers, the main number of each claim, and what words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from html import escape
from typing import NamedTuple

from synergy_experiments.framework.claim import Check

__all__ = ["Glossary", "Guide", "Headline", "Paper", "Word", "main_checks"]


class Paper(NamedTuple):
    """A paper, or a chapter of one.

    Parameters
    ----------
    title
        Subject, as a heading.
    who
        Authors, with the name and the year.
    about
        Paragraph that explains the subject in the words that its claims use.
    reference
        Full reference.
    """

    title: str
    who: str
    about: str
    reference: str = ""


class Headline(NamedTuple):
    """The main number of a claim.

    Parameters
    ----------
    of
        Name of what it measures.
    check
        Beginning of the names of the checks that have it, one for each reading of the text, with ``*`` for any letters;
        empty: the first check of the paper's statements.
    unit
        Unit in which it is shown; ``%`` shows shares in per cent.
    panel
        Metric of the panel that is shown; empty: the first one.
    paper
        Statement of the paper where it has no number, and the check compares with a bound of ours; empty: the check's.
    how
        Letter that tells how the claim was measured, of those that the guide explains.
    """

    of: str
    check: str = ""
    unit: str = ""
    panel: str = ""
    paper: str = ""
    how: str = ""


class Word(NamedTuple):
    """A term that the page explains.

    Parameters
    ----------
    forms
        Forms in a sentence; the first is its name. Those that begin with ``=`` are listed and never links, as they have
        other senses, too.
    meaning
        Explanation in one sentence.
    """

    forms: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Guide:
    """What the page of claims says around the claims.

    Parameters
    ----------
    papers
        Papers, by the first letter of their claims.
    headlines
        Main number of each claim, by its id.
    words
        Terms that are explained.
    ways
        Ways of measuring, by the letter of each.
    """

    papers: Mapping[str, Paper]
    headlines: Mapping[str, Headline]
    words: Sequence[Word]
    ways: Mapping[str, str] = field(default_factory=dict)


def main_checks(headline: Headline, checks: Sequence[Check]) -> list[Check]:
    """Return the checks that have the main number of a claim, or else the first one.

    Parameters
    ----------
    headline
        Main number.
    checks
        Checks of the claim's statements.
    """
    if headline.check:
        named = [check for check in checks if fnmatchcase(check.name, f"{headline.check}*")]
        alike = [check for check in named if check.paper == named[0].paper]
        if alike:
            return alike
    return list(checks[:1])


class Glossary:
    """Explains words where they first stand in a text.

    Parameters
    ----------
    words
        Terms that are explained.

    Examples
    --------
    >>> Glossary([Word(("peer", "peers"), "a computer")]).explained("Peers and peers", set())
    '<a class=w href="#w-peer" title="a computer">Peers</a> and peers'
    """

    def __init__(self, words: Sequence[Word]) -> None:
        self._words = sorted(words, key=lambda word: word.forms[0].lstrip("=").casefold())
        self._of_form = {form: word for word in words for form in word.forms}
        linked = [form for form in self._of_form if form[0] != "="]
        forms = "|".join(_either_case(form) for form in sorted(linked, key=len, reverse=True))
        self._any = re.compile(rf"(?<![\w-])(?:{forms})(?![\w-])") if forms else None

    def explained(self, text: str, seen: set[str]) -> str:
        """Return a text as HTML, in which the words that are not among those ``seen`` are links to what they mean."""
        if self._any is None:
            return escape(text)
        parts, end = [], 0
        for found in self._any.finditer(text):
            word = self._of(found[0])
            if word.forms[0] not in seen:
                seen.add(word.forms[0])
                link = f'<a class=w href="#{_anchor(word)}" title="{escape(word.meaning)}">{escape(found[0])}</a>'
                parts += [escape(text[end : found.start()]), link]
                end = found.end()
        return "".join([*parts, escape(text[end:])])

    def knows(self, term: str) -> bool:
        """Whether a term is explained."""
        return term in self._of_form or f"={term}" in self._of_form

    def listed(self) -> str:
        """Return all words with their meanings as HTML."""
        rows = (
            f'<dt id="{_anchor(word)}">{escape(word.forms[0].lstrip("="))}<dd>{escape(word.meaning)}'
            for word in self._words
        )
        return f"<dl>{''.join(rows)}</dl>"

    def _of(self, form: str) -> Word:
        """Return the word of a form, which may begin a sentence."""
        return self._of_form.get(form) or self._of_form[form[0].lower() + form[1:]]


def _either_case(form: str) -> str:
    """Return the pattern of a form; one in small letters may begin a sentence."""
    if form[0].islower() and form.islower():
        return f"[{form[0]}{form[0].upper()}]{re.escape(form[1:])}"
    return re.escape(form)


def _anchor(word: Word) -> str:
    return "w-" + re.sub(r"\W+", "-", word.forms[0]).strip("-")
