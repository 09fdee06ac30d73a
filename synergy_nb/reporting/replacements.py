"""Which sources have given nothing while one plan took the place of another, which needs rows of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from synergy_nb.plan import Plan

__all__ = ["promises", "quiet_sources"]


def promises(plan: Plan, components: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the streams of a plan that are made, each with the event time that it has promised, microseconds.

    ``components``: what all peers say of theirs.
    """
    streams = {plan.stream_name(name) for name in plan.operators}
    return [(str(each["stream"]), int(each["promised"])) for each in components if each["stream"] in streams]


def quiet_sources(plan: Plan, before: Iterable[tuple[str, int]], after: Iterable[tuple[str, int]]) -> str:
    """Return the end of a sentence that names the sources which have promised nothing since; empty if all have.

    >>> from synergy_nb.plan import source
    >>> plan = source("packets", id="slow").sink("out")
    >>> at = [(plan.stream_name("slow"), 7)]
    >>> quiet_sources(plan, at, at), quiet_sources(plan, [], at)
    (": source 'slow' has given no row meanwhile, and the new plan begins with one", '')
    """
    known, now = dict(before), dict(after)
    names = {each: plan.stream_name(each) for each in plan.sources}
    quiet = [each for each, stream in names.items() if stream in now and known.get(stream) == now[stream]]
    if not quiet:
        return ""
    which = f"sources {', '.join(map(repr, quiet))} have" if len(quiet) > 1 else f"source {quiet[0]!r} has"
    return f": {which} given no row meanwhile, and the new plan begins with one"
