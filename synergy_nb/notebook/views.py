"""Which function makes each kind of view that values of lower rooms ask for.

They ask by :func:`synergy_nb.drawing.notebook_views.view_of`. A maker is imported when its first view is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from synergy_nb.drawing.notebook_views import show_with

__all__ = ["MAKERS", "register"]

#: Kind of a view to the module and the name of what makes it.
MAKERS: Final[Mapping[str, tuple[str, str]]] = {
    "watch": ("synergy_nb.notebook.watching", "watch"),
    "knobs": ("synergy_nb.widgets.knob_panel", "KnobPanel"),
    "stage": ("synergy_nb.widgets.protocol_stage", "ProtocolStage"),
    "error": ("synergy_nb.notebook.short_errors", "rendered"),
    "waiting": ("synergy_nb.notebook.waiting_lines", "line_for"),
}


def register() -> None:
    """Register the maker of each kind of view."""
    for kind, (module, name) in MAKERS.items():
        show_with(kind, partial(_made, module, name))


def _made(module: str, name: str, value: Any) -> Any:
    return getattr(importlib.import_module(module), name)(value)
