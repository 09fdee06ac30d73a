"""Errors of this package as a notebook shows them: the user's own line and what is wrong, without our frames.

IPython asks an exception how to show its traceback (``_render_traceback_``). Those of this package answer with the
lines of the user that led to it and the message. Every frame is shown by ``%tb``, and at once where the environment
variable :data:`FULL` is ``full``. Errors of other people, our own bugs among them, are shown as ever.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import linecache
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, cast

__all__ = ["FULL", "SynergyError", "brief", "user_facing"]

F = TypeVar("F", bound=Callable[..., Any])

#: Environment variable; ``full`` has every frame of our errors shown in notebooks.
FULL: Final = "SYNERGY_TRACEBACK"
HERE: Final = Path(__file__).resolve().parent
OURS: Final = tuple(f"{folder}{os.sep}" for folder in (HERE, HERE.parent / "spark_stream"))
PYTHON: Final = (*site.getsitepackages(), *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")))
LIBRARIES: Final = tuple(sorted({f"{folder}{os.sep}" for folder in PYTHON}))
SHOWN: Final = 6  # frames of the user; of more the innermost
MARKED: Final = "_synergy_shown"  # attribute of an exception: which of its tracebacks has been shown in brief


class SynergyError(Exception):
    """An error that this package raises on purpose; notebooks show it in brief."""

    def _render_traceback_(self) -> list[str]:
        return rendered(self)


def rendered(error: BaseException) -> list[str]:
    """Lines that a notebook shows for an error: in brief at first, and when asked again every frame."""
    again = getattr(error, MARKED, None) == id(error.__traceback__)
    if again or os.environ.get(FULL, "") == "full":
        return _every_frame(error)
    lines = list(_in_brief(error))
    if not lines:
        return _every_frame(error)
    with contextlib.suppress(AttributeError, TypeError):
        setattr(error, MARKED, id(error.__traceback__))
    return [*lines, "", "(%tb shows every frame)"]


def brief(error: BaseException) -> BaseException:
    """Have notebooks show an error in brief if this package raised it on purpose, and as ever otherwise.

    That is so where the innermost frame of its traceback is ours and executes ``raise``.
    """
    if not isinstance(error, SynergyError) and isinstance(error, Exception) and _on_purpose(error.__traceback__):
        with contextlib.suppress(AttributeError, TypeError):
            error._render_traceback_ = lambda: rendered(error)  # type: ignore[attr-defined]
    return error


def user_facing(function: F) -> F:
    """Make notebooks show the errors of a function that users call in brief; coroutines and their generators, too.

    It keeps its name and signature.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*arguments: Any, **options: Any) -> Any:
            try:
                return await function(*arguments, **options)
            except Exception as error:
                brief(error)
                raise

        return cast("F", awaited)

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def iterated(*arguments: Any, **options: Any) -> Any:
            found = function(*arguments, **options)
            try:
                async for each in found:
                    yield each
            except Exception as error:
                brief(error)
                raise
            finally:
                await found.aclose()

        return cast("F", iterated)

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except Exception as error:
            brief(error)
            raise

    return cast("F", called)


def _on_purpose(trace: TracebackType | None) -> bool:
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(OURS) and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _in_brief(error: BaseException) -> Iterator[str]:
    """The user's lines that led to an error, and what it says; nothing if no line is the user's."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, SynergyError):
        said = list(_in_brief(cause))  # an error in the user's own code, such as a feed's
        if said:
            yield from said
            yield ""
            yield "which led to"
            yield ""
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code, line) for frame, line in trace if _users(frame.f_code.co_filename)]
    if not frames:
        return
    for code, line in frames[-SHOWN:]:
        function = "" if code.co_name == "<module>" else f", in {code.co_name}"
        yield f"{_place(code.co_filename)}, line {line}{function}"
        source = linecache.getline(code.co_filename, line).strip()
        if source:
            yield f"----> {line} {source}"
    yield ""
    yield f"{type(error).__name__}: {error}"


def _users(file: str) -> bool:
    """True if a file is the user's: not one of this package, of a library, or of Python."""
    return not file.startswith((*OURS, "<frozen", *LIBRARIES))


def _place(file: str) -> str:
    """Name of a file as notebooks show it: the number of the cell, or the path."""
    shell = _shell()
    known: tuple[str, str] | None = None
    with contextlib.suppress(Exception):  # what an older IPython has not
        known = shell.compile.format_code_name(file)
    return " ".join(known) if known else f"File {file}"


def _shell() -> Any:
    """The running IPython, or None."""
    python = sys.modules.get("IPython")
    return None if python is None else python.get_ipython()


def _every_frame(error: BaseException) -> list[str]:
    shell = _shell()
    if shell is None:
        return traceback.format_exception(error)
    found: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=1)
    return found
