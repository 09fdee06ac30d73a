"""The objects of a store, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from synergy_nb.durable._objects import Objects
from tests.connectors.broken_disk import Killed


class AtOnce(Executor):
    """Threads that do all at once, one after another."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except (OSError, Killed) as error:
            done.set_exception(error)
        return done


class MemoryObjects(Objects):
    """Objects in memory, until the process that writes them ends, or the store fails."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}
        self.left: int | None = None  # steps after which the process ends; None: it does not
        self.error: OSError | None = None  # what each further step raises
        self.lost: OSError | None = None  # what the next step raises once it is done

    def _step(self) -> None:
        if self.error is not None:
            raise self.error
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def _answer(self) -> None:
        lost, self.lost = self.lost, None
        if lost is not None:
            raise lost

    def top(self) -> tuple[list[str], list[str]]:
        split = [name.partition("/") for name in self.found]
        names, folders = ({first for first, folder, _ in split if bool(folder) is within} for within in (False, True))
        return sorted(names), sorted(folders)

    def has(self, name: str) -> bool:
        return name in self.found or bool(self.names(f"{name}/"))

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.found if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        if name not in self.found:
            raise FileNotFoundError(name)
        return self.found[name]

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        return [self.read(name) for name in names]

    def put(self, name: str, data: bytes) -> None:
        self._step()
        self.found[name] = data
        self._answer()

    def create(self, name: str, data: bytes) -> bool:
        self._step()
        created = self.found.setdefault(name, data) == data
        self._answer()
        return created

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._step()
            self.found.pop(name, None)
        self._answer()
