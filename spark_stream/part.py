"""The part of a plan that one query executes, and the name of the query."""

from __future__ import annotations

import re
import secrets
from typing import Final

import msgspec

from synergy_nb.plan import Plan

__all__ = ["Part", "named"]

_SHOWN: Final = 40  # maximum number of characters of an application's name in the name of its query


class Part(msgspec.Struct, frozen=True):
    """A connected part of a plan with one result."""

    application: str
    operator: str  # exit of the part, whose stream is the result
    plan: Plan
    members: tuple[str, ...]  # ids of the operators of the part, inputs before their readers
    inputs: tuple[str, ...]  # ids of the operators outside the part whose streams it reads, by port


def named(part: Part) -> str:
    """Make a name for the query of a part and its folder.

    Names of plans are free text, but names of folders are not. So the name contains only letters, digits and hyphens of
    the application's and operator's names, for people to recognise. The random end distinguishes queries.
    """
    words = (re.sub(r"[^A-Za-z0-9]+", "-", each).strip("-")[:_SHOWN] for each in (part.application, part.operator))
    return "-".join([*filter(None, words), secrets.token_hex(8)])
