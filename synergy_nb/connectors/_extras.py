"""Client libraries that not every installation has."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["imported"]


def imported(module: str, extra: str) -> Any:
    """Return a module that an extra of this project brings; ValueError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(
            f"module {module!r} is not installed where this peer runs; expected `pip install 'synergy-nb[{extra}]'`"
        ) from None
