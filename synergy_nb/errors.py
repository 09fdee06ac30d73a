"""The base of all errors of this package, and the marking of those that it raised on purpose.

IPython asks an exception for its traceback (``_render_traceback_``). An error that we raised on purpose answers with
the lines that :mod:`synergy_nb.notebook.short_errors` makes of it. IPython shows all other errors, and bugs of
this package, in its usual form. ``docs/errors.md`` lists the classes of errors.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from synergy_nb.drawing.notebook_views import view_of

__all__ = ["SynergyError", "brief", "harmless", "is_ours", "user_facing"]

F = TypeVar("F", bound=Callable[..., Any])

HERE: Final = Path(__file__).resolve().parent
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OURS: Final = tuple(f"{folder}{os.sep}" for folder in (HERE, HERE.parent / "spark_stream"))


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

    def __str__(self) -> str:
        return harmless(super().__str__())

    def _render_traceback_(self) -> list[str]:
        return _rendered(self)


def harmless(text: str) -> str:
    r"""Write the control characters of a text out, except ends of lines and tabs: a terminal would obey them.

    Texts of others, such as the error of a function, are shown to whoever reads its application.

    >>> harmless("\x1b[31mred\x1b[0m"), harmless("two\nlines")
    ('\\x1b[31mred\\x1b[0m', 'two\nlines')
    """
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def brief(error: BaseException) -> BaseException:
    """Make notebooks show an error in the short form if this package raised it on purpose; return the error.

    This package raised it on purpose if the innermost frame of its traceback is in this package and executes ``raise``.
    """
    if not isinstance(error, SynergyError) and isinstance(error, Exception) and _on_purpose(error.__traceback__):
        with contextlib.suppress(AttributeError, TypeError):
            error._render_traceback_ = lambda: _rendered(error)  # type: ignore[attr-defined]
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


def is_ours(file: str) -> bool:
    """Whether a file is part of this package."""
    return file.startswith(OURS)


def _on_purpose(trace: TracebackType | None) -> bool:
    """Whether the innermost frame of a traceback is in this package and executes ``raise``."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return is_ours(code.co_filename) and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _rendered(error: BaseException) -> list[str]:
    """Lines that a notebook shows for an error."""
    lines: list[str] = view_of("error", error)
    return lines
