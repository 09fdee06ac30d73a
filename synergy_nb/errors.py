"""The base of all errors of this package, and their short form in notebooks: the user's line and the message.

IPython asks an exception for its traceback (``_render_traceback_``). An error of this package returns the lines of the
user that led to it, and the message, without the frames of this package. ``%tb`` shows every frame; so does the first
output if the environment variable :data:`FULL` is ``full``. IPython shows all other errors, and bugs of this package,
in its usual form. ``docs/errors.md`` lists the classes of errors.
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

#: Environment variable; if it is ``full``, notebooks show every frame of an error.
FULL: Final = "SYNERGY_TRACEBACK"
HERE: Final = Path(__file__).resolve().parent
OURS: Final = tuple(f"{folder}{os.sep}" for folder in (HERE, HERE.parent / "spark_stream"))
PYTHON: Final = (*site.getsitepackages(), *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")))
LIBRARIES: Final = tuple(sorted({f"{folder}{os.sep}" for folder in PYTHON}))
SHOWN: Final = 6  # the largest number of the user's frames that are shown, the innermost ones
MARKED: Final = "_synergy_shown"  # attribute of an exception: id of its traceback that was shown in the short form


class SynergyError(Exception):
    """Base of all errors that this package raises on purpose; notebooks show them in the short form.

    Examples
    --------
    >>> from synergy_nb import SynergyError, source
    >>> try:
    ...     source("packets").filter("byts > 1000").sink()
    ... except SynergyError as error:
    ...     type(error).__name__
    'PlanError'
    """

    def _render_traceback_(self) -> list[str]:
        return rendered(self)


def rendered(error: BaseException) -> list[str]:
    """Lines that a notebook shows for an error: the short form the first time, every frame after that."""
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
    """Make notebooks show an error in the short form if this package raised it on purpose; return the error.

    This package raised it on purpose if the innermost frame of its traceback is in this package and executes ``raise``.
    """
    if not isinstance(error, SynergyError) and isinstance(error, Exception) and _on_purpose(error.__traceback__):
        with contextlib.suppress(AttributeError, TypeError):
            error._render_traceback_ = lambda: rendered(error)  # type: ignore[attr-defined]
    return error


def user_facing(function: F) -> F:
    """Decorate a function that users call, so that notebooks show its errors in the short form.

    It may be a coroutine or an asynchronous generator. Its name and signature remain.
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
    """Whether the innermost frame of a traceback is in this package and executes ``raise``."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(OURS) and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _in_brief(error: BaseException) -> Iterator[str]:
    """The user's lines that led to an error, and its message; nothing if no line is the user's."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, SynergyError):
        lines = list(_in_brief(cause))  # an error in the user's own code, such as the generator of a feed
        if lines:
            yield from lines
            yield ""
            yield "which led to"
            yield ""
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code, line) for frame, line in trace if _users(frame.f_code.co_filename)]
    if not frames:
        return
    for code, line in frames[-SHOWN:]:
        function = "" if code.co_name == "<module>" else f", in {code.co_name}"
        yield f"{_file_name(code.co_filename)}, line {line}{function}"
        source = linecache.getline(code.co_filename, line).strip()
        if source:
            yield f"----> {line} {source}"
    yield ""
    yield f"{type(error).__name__}: {error}"


def _users(file: str) -> bool:
    """Whether a file is the user's, so not part of this package, of a library, or of Python."""
    return not file.startswith((*OURS, "<frozen", *LIBRARIES))


def _file_name(file: str) -> str:
    """Name of a file in notebooks: the number of the cell, or the path."""
    shell = _shell()
    known: tuple[str, str] | None = None
    with contextlib.suppress(Exception):  # older versions of IPython lack this method
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
