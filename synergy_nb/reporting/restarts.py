"""What a restart of an application has meant for it, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["restarted"]


def restarted(kept: bool, lost: Mapping[str, str]) -> str:
    """Return what an application goes on from, and what is lost; ``lost``: source to that, in words.

    Examples
    --------
    >>> restarted(True, {})
    'restarted from its durable folder; nothing is lost'
    >>> restarted(False, {"lines": "lines that were sent until it runs again"})
    'restarted from the beginning of its sources; lost of lines: lines that were sent until it runs again'
    """
    since = "its durable folder" if kept else "the beginning of its sources"
    gone = "; ".join(f"lost of {source}: {what}" for source, what in lost.items()) or "nothing is lost"
    return f"restarted from {since}; {gone}"
