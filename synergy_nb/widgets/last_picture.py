"""The picture of a view that a notebook's file keeps: the last one, not that of the moment in which the cell ran.

Theory of operation
-------------------
A notebook's file holds no state of widgets. A file that is opened later shows "model not found" in place of a view, and
an export shows the picture that came with the cell's output, which is that of its first moment. So a view is displayed
as two outputs: the live one, and a still picture that is replaced from time to time, and at the end. The live part
hides the picture while it is on a page (``loader.js``); where it cannot be shown, a rule beside the picture hides the
notebook's message in its place.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Final, Protocol

import anywidget
import traitlets

__all__ = ["EVERY", "LastPicture", "StillView"]

EVERY: Final = 5.0  # least time between two pictures, seconds
#: Hides the output before the picture, in JupyterLab and Notebook, unless it holds a live view.
INSTEAD: Final = (
    ".jp-OutputArea-child:has(+ .jp-OutputArea-child [data-synergy-last]):not(:has([class^=synergy-])){display:none}"
)


class Publish(Protocol):
    """Displays an output, or replaces the one with the same id."""

    def __call__(self, data: Mapping[str, Any], metadata: Mapping[str, Any], key: str, *, update: bool) -> None:
        """Publish MIME types and their contents; ``key`` is the id of the output, empty for none."""


def in_notebook(data: Mapping[str, Any], metadata: Mapping[str, Any], key: str, *, update: bool) -> None:
    """Publish in the running kernel."""
    shown = importlib.import_module("IPython.display")  # it is installed: a notebook's kernel is running
    options = {"display_id": key, "update": update} if key else {}
    shown.display(dict(data), metadata=dict(metadata), raw=True, **options)


class LastPicture:
    """The picture beside a live view."""

    def __init__(
        self,
        key: str = "",
        *,
        publish: Publish = in_notebook,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,
    ) -> None:
        # name of the view, by which its live part finds the picture; it may be set until the picture is shown
        self.key = key
        self._publish = publish  # function that displays outputs
        self._clock = clock  # seconds that never step back
        self._lock = threading.RLock() if lock is None else lock  # lock of the view, which is held while it draws
        self._shown = False
        self._at = 0.0
        self._timer: threading.Timer | None = None
        self._drawn = ""

    def show(self, live: Mapping[str, Any], metadata: Mapping[str, Any], text: str, drawn: str) -> None:
        """Display a live view and, below it, its picture.

        ``live``, ``metadata``: MIME types of the live view with their contents, and metadata; ``text``: state in words,
        for where there are no pictures; ``drawn``: picture, as HTML.
        """
        with self._lock:
            self._publish({**live, "text/plain": "", "text/html": ""}, metadata, "", update=False)
            self._publish({"text/plain": text, "text/html": self._html(drawn)}, {}, self.key, update=False)
            self._shown, self._drawn, self._at = True, drawn, self._clock()

    def changed(self, draw: Callable[[], tuple[str, str]], *, final: bool = False) -> None:
        """Replace the picture soon, as the view has changed; at once if the change is ``final``.

        ``draw``: function that returns text and picture; ``final``: whether nothing may follow.
        """
        with self._lock:
            if not self._shown or (self._timer is not None and not final):
                return
            left = self._at + EVERY - self._clock()
            if final or left <= 0.0:
                self.stop()
                self._replace(draw)
                return
            self._timer = threading.Timer(left, self._due, (draw,))
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Forget a picture that waits."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _due(self, draw: Callable[[], tuple[str, str]]) -> None:
        with self._lock:
            self._timer = None
            self._replace(draw)

    def _replace(self, draw: Callable[[], tuple[str, str]]) -> None:
        text, drawn = draw()
        self._at = self._clock()
        if drawn != self._drawn:
            self._drawn = drawn
            self._publish({"text/plain": text, "text/html": self._html(drawn)}, {}, self.key, update=True)

    def _html(self, drawn: str) -> str:
        return f'<div data-synergy-last="{escape(self.key)}"><style>{INSTEAD}</style>{drawn}</div>'


class StillView(anywidget.AnyWidget):
    """A widget that is displayed with its last picture; its MIME bundle has both, and the picture as HTML."""

    _still = traitlets.Unicode().tag(sync=True)  # name of the last picture, which the page hides

    def __init__(self, **traits: Any) -> None:
        self._last_picture = LastPicture(lock=getattr(self, "_lock", None))  # which a view may have set
        super().__init__(**traits)
        self._still = self._last_picture.key = str(self.model_id)

    def keep_picture(self) -> None:
        """Replace the picture soon, as what it shows has changed."""
        self._last_picture.changed(self._drawn)

    def _drawn(self) -> tuple[str, str]:
        bundle: Any = self._repr_mimebundle_()
        data = bundle[0]
        return data["text/plain"], data["text/html"]

    def _ipython_display_(self) -> None:
        bundle: Any = self._repr_mimebundle_()
        data, metadata = bundle
        text, drawn = data.pop("text/plain"), data.pop("text/html")
        self._last_picture.show(data, metadata, text, drawn)
