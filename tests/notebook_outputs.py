"""Outputs of a cell, without a notebook: what a view displays, and what replaces its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from synergy_nb.widgets import last_picture

__all__ = ["Notebook", "notebook"]


class Notebook:
    """Outputs of a cell, and a clock for pictures that stand alone."""

    def __init__(self) -> None:
        self.outputs: list[Mapping[str, Any]] = []
        self.replaced: list[str] = []
        self.keys: list[str] = []  # of the outputs that were displayed or replaced, in order
        self.now = 100.0

    def publish(self, data: Mapping[str, Any], metadata: Mapping[str, Any], key: str, *, update: bool) -> None:
        """Note what is displayed."""
        self.keys.append(key)
        if update:
            self.replaced.append(data["text/html"])
        else:
            self.outputs.append({**data, "key": key})

    def display(
        self,
        data: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any],
        raw: bool,
        display_id: str = "",
        update: bool = False,
    ) -> None:
        """Note what a view has IPython display."""
        assert raw
        self.publish(data, metadata, display_id, update=update)

    def last(self) -> last_picture.LastPicture:
        """A picture in this notebook that belongs to no view."""
        return last_picture.LastPicture("k", publish=self.publish, clock=lambda: self.now)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Notebook:
    """What views display in this test; a picture is replaced at each change, or at the end if the parameter says so."""
    made = Notebook()
    monkeypatch.setattr("IPython.display.display", made.display)
    monkeypatch.setattr(last_picture, "EVERY", getattr(request, "param", 0.0))
    return made
