"""One call in the future, for whoever draws or looks at most so many times a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["LaterCall"]


class LaterCall:
    """At most one call that waits, which a thread of its own makes; used with the lock held.

    ``lock``: lock that is held during the call, and that may be taken again by who holds it.
    """

    def __init__(self, lock: contextlib.AbstractContextManager[Any]) -> None:
        self._lock = lock
        self._timer: threading.Timer | None = None

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Make a call after some time, unless one waits already."""
        if self._timer is None:
            self._timer = threading.Timer(seconds, self._due, (call,))
            self._timer.daemon = True
            self._timer.start()

    def _due(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._timer = None
            call()

    def cancel(self) -> None:
        """Make no call that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
