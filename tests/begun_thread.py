"""A function that starts a thread, as a fork server must not."""

from __future__ import annotations

import threading

__all__ = ["begin"]


def begin() -> None:
    """Start a thread that does not end."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
