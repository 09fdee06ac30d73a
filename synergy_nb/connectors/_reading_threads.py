"""A thread that reads what blocks, and hands it over to who polls.

It reads no more than some messages ahead, so that a server whose client does not go on has to wait, too.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Final

AHEAD: Final = 256  # messages that are read before they are asked for


class ReadingThread:
    """A thread that calls a function with the function by which it hands over messages, until that returns."""

    def __init__(self, read: Callable[[Callable[[Any], bool]], None], name: str) -> None:
        self._read = read
        self._messages: queue.Queue[Any] = queue.Queue(AHEAD)
        self._stopped = threading.Event()
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._read(self._put)
        except Exception as error:  # noqa: BLE001 - it is raised where it is polled
            self._error = error
        finally:
            self._over.set()

    def _put(self, message: Any) -> bool:
        """Hand over a message; return whether more are wanted."""
        while not self._stopped.is_set():
            try:
                self._messages.put(message, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def take(self, seconds: float) -> list[Any]:
        """Return the messages that are there, or the first one to come within a time; none if nothing comes.

        Raises what the thread has raised, after all messages; ``EOFError`` if it has returned.
        """
        over = self._over.is_set()  # before it is looked whether anything is there
        try:
            found = [self._messages.get(timeout=seconds) if seconds > 0.0 and not over else self._messages.get_nowait()]
        except queue.Empty:
            if over:
                raise self._error or EOFError from None
            return []
        while True:
            try:
                found.append(self._messages.get_nowait())
            except queue.Empty:
                return found

    def stop(self) -> None:
        """Let nothing be handed over any more."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until the thread has returned."""
        self._thread.join()
