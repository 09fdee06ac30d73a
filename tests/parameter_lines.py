"""Reads the sections of numpydoc docstrings, and finds descriptions that do not name the thing that they describe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

__all__ = ["SECTIONS", "described", "fault"]

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields")

PREPOSITIONS = """
    about above across after against along among around as at before behind below beneath beside besides between
    beyond by despite down during except for from in inside into like near of off on onto out outside over past per
    since through throughout till to toward towards under until up upon versus via with within without
"""
RELATIVES = """
    that these this those how however what whatever when whenever where wherever which whichever who whoever whom
    whose why
"""
CONJUNCTIONS = "although and because but either if neither nor once or so than though unless while yet"
PRONOUNS = "anybody everybody everything he her his it its itself nobody she somebody their theirs them they"
OPENERS = frozenset(f"{PREPOSITIONS} {RELATIVES} {CONJUNCTIONS} {PRONOUNS} none true false".split())
# "Whether" opens the description of a condition; "the number", "all peers", "each link" name things.
OTHERS = """
    a all also an any are be been both can could did do does each few had has have here is likewise many may might
    more most much must no not one ones only other others same several should some such the there was were whether
    will would
"""
FUNCTION_WORDS = OPENERS | frozenset(OTHERS.split())
HEADER = re.compile(r"(?m)^([A-Z][A-Za-z ]+)\n-{3,}$")


def described(docstring: str) -> Iterator[tuple[str, str]]:
    """Name and description of each entry of the sections that list things.

    Entries of "Returns" and "Yields" may have no name: their text stands where names stand.
    """
    headers = list(HEADER.finditer(docstring))
    for header, following in zip_longest(headers, headers[1:]):
        if header[1] in SECTIONS:
            body = docstring[header.end() : following.start() if following else None]
            yield from _entries(body, named=header[1] in {"Parameters", "Attributes"})


def _entries(body: str, *, named: bool) -> Iterator[tuple[str, str]]:
    name, text = "", ""
    for line in body.splitlines():
        if line and not line[0].isspace():
            if text:
                yield name, text
            name, text = line, ""
            if not named and (" " in line or line[0].isupper()) and not re.match(r"\w+(\[.*\])?$|\w+ : ", line):
                name, text = "", line  # prose without a name or a type
        elif line.strip():
            text = f"{text} {line.strip()}".strip()
    if text:
        yield name, text


def fault(text: str) -> str:
    """Say why the first sentence of a description names no thing; empty if it names one."""
    sentence = re.split(r"(?<=[.;])(?:\s|$)", text.replace("``", "`"), maxsplit=1)[0]
    words = re.findall(r"`[^`]*`|[\w.-]+[:,]?|[^\s\w]", sentence)
    if not words:
        return "says nothing"
    first = words[0].lower()
    if first in OPENERS or first.rstrip(":,") in OPENERS or sentence.startswith("One of"):
        return f"begins with {words[0]!r}"
    said = [word for word in words if re.match(r"[`\w]", word)]
    if all(word.lower().rstrip(":,.") in FUNCTION_WORDS for word in said):
        return "has no noun"
    return ""
