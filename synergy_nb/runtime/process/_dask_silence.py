"""No messages of Dask in a notebook for as long as any cluster of its process is open."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager


class Silence:
    """Silence of Dask below errors, which several clusters share.

    Dask itself restores the level of its messages when the cluster that has changed it is closed, even if others are
    open: these would print how workers leave.
    """

    def __init__(self, silent: Callable[[], AbstractContextManager[None]]) -> None:
        self._silent = silent
        self._lock = threading.Lock()
        self._clusters = 0
        self._level = contextlib.ExitStack()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep silent within the context."""
        with self._lock:
            if not self._clusters:
                self._level.enter_context(self._silent())
            self._clusters += 1
        try:
            yield
        finally:
            with self._lock:
                self._clusters -= 1
                if not self._clusters:
                    self._level.close()
