"""Modules of compiled code, which may be loaded in a thread of their own while plain Python does the same work.

To load Numba and its compiled code takes a second of processor time, several seconds where all peers of a small machine
begin at once. Streams do not wait for that: a live peer loads such a module in the background
(:meth:`CompiledModule.load_in_background`), and its users have slower code that gives the same results until then.
Who does not ask for it, as the simulator, gets the compiled code at once.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["CompiledModule"]


class CompiledModule:
    """A module whose functions are compiled."""

    def __init__(self, name: str, warm: Callable[[Any], object]) -> None:
        self.name = name  # name of the module, which is imported when it is first needed
        # function of the module that calls each of its functions once, since each is loaded or compiled at its first
        # call
        self._warm = warm
        self._module: ModuleType | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def loaded(self) -> Any:
        """Return the module, loaded now unless a thread is loading it; None until that thread is done."""
        if self._module is None and (self._thread is None or not self._thread.is_alive()):
            self._load()
        return self._module

    def load_in_background(self) -> None:
        """Load the module in another thread, if that has not begun."""
        with self._lock:
            if self._module is None and self._thread is None:
                self._thread = threading.Thread(target=self._load, name=f"synergy {self.name}")
                self._thread.start()

    def _load(self) -> None:
        module = importlib.import_module(self.name)
        self._warm(module)
        self._module = module
