"""Notices of peers' errors on the standard error of the client: each error once, and at a limited rate.

Peers send the errors in their journals (:mod:`~synergy_nb.runtime.process.error_publisher`). A client briefly gathers
the reports of several peers about the same error, and writes one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.drawing.notebook_views import running_shell
from synergy_nb.events import Event, LinkBroken, decode_events
from synergy_nb.events.peer_names import readable
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.troubles import Trouble, joined, observers, trouble
from synergy_nb.runtime.process.error_publisher import AGAIN, KNOWN

__all__ = ["ErrorNotices", "user_sees_output"]

GATHERED: Final = 1.0  # seconds for which the reports of several peers are gathered
MOST: Final = 6  # maximum number of lines a minute

Later = Callable[[float, Callable[[], None]], Any]


class ErrorNotices:
    """Writes errors of peers for users."""

    def __init__(
        self,
        later: Later,  # function that calls another one after a number of seconds, such as `loop.call_later`
        names: Mapping[str, str] | None = None,  # peer address to a name for users; it may grow
        write: Callable[[str], None] | None = None,  # function that writes a line; by default to the standard error
    ) -> None:
        self.names: Mapping[str, str] = names or {}
        self._later = later
        self.write = write or _stderr
        self._reported: dict[str, None] = {}
        self._waiting: dict[str, Trouble] = {}
        self._left = MOST
        self._suppressed = 0  # errors that were not written, as there were too many
        self._closed = False

    def receive(self, _sender: str, payload: bytes) -> None:
        """Receive the report of a peer."""
        for event in decode_events(payload):
            self.add(event)

    def add(self, event: Event) -> None:
        """Handle an error of a peer."""
        text = trouble(event)
        about = f"link {event.subject}" if isinstance(event, LinkBroken) else text  # one notice for each broken link
        if self._closed or not text or about in self._reported:
            return
        if not self._waiting:
            self._later(GATHERED, self._write_waiting)
        known = self._waiting.get(about)
        self._waiting[about] = joined(known, event, text if known is None else known.text)

    def write_line(self, text: str) -> None:
        """Write a line about another matter."""
        if not self._closed:
            self.write(text)

    def close(self) -> None:
        """Stop writing: later broken links are due to the end of the cluster."""
        self._closed = True
        self._waiting.clear()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if self._closed:
            return
        for about, each in waiting.items():
            self._reported[about] = None
            if len(self._reported) > KNOWN:
                del self._reported[next(iter(self._reported))]
            if self._left == 0:
                self._suppressed += 1
                continue
            if self._left == MOST:
                self._later(AGAIN, self._refill)
            self._left -= 1
            self.write(f"synergy: {observers(each.peers, self.names)}: {readable(each.text, self.names)}")

    def _refill(self) -> None:
        suppressed, self._suppressed, self._left = self._suppressed, 0, MOST
        if suppressed and not self._closed:
            self.write(f"synergy: {counted(suppressed, 'more error')} of peers; watch(cluster) and explain() show them")


def user_sees_output() -> bool:
    """Whether a user sees the standard error of this process: in a notebook, or at a terminal."""
    return running_shell() is not None or sys.stderr.isatty()


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
