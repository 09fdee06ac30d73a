"""A live view whose messages to its pages a test reads."""

from __future__ import annotations

import json
import threading
from typing import Any

from synergy_nb.widgets.qos_view import QoSView


class Watched(QoSView):
    """A view that collects its messages."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.numbers: list[bytes] = []
        self.spoke = threading.Event()
        super().__init__(*arguments, **options)

    def send(self, content: Any, buffers: Any = None) -> None:
        if content["kind"] == "here":  # that the kernel lives
            return
        self.sent.append(json.loads(json.dumps(content, allow_nan=False)))
        self.numbers.append(bytes(buffers[0]) if buffers else b"")
        self.spoke.set()

    def say(self, content: dict[str, Any]) -> None:
        """Receive a message of a page, as its front end sends it."""
        self._msg_callbacks(self, content, [])

    def on_page_message(self, kind: str, copy: str = "page") -> None:
        super().on_page_message(kind, copy)
