"""The short form of our errors in notebooks: the user's line and the message.

It has the lines of the user that led to an error, and its message, without the frames of this package. ``%tb`` shows
every frame; so does the first output if the environment variable :data:`FULL` is ``full``.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import site
import sysconfig
import traceback
from collections.abc import Iterator
from typing import Final

from synergy_nb.drawing.notebook_views import running_shell
from synergy_nb.errors import SynergyError, is_ours

__all__ = ["FULL", "rendered"]

#: Environment variable; if it is ``full``, notebooks show every frame of an error.
FULL: Final = "SYNERGY_TRACEBACK"
PYTHON: Final = (*site.getsitepackages(), *(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")))
LIBRARIES: Final = tuple(sorted({f"{folder}{os.sep}" for folder in PYTHON}))
SHOWN: Final = 6  # the largest number of the user's frames that are shown, the innermost ones
MARKED: Final = "_synergy_shown"  # attribute of an exception: id of its traceback that was shown in the short form


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
    return not (is_ours(file) or file.startswith(("<frozen", *LIBRARIES)))


def _file_name(file: str) -> str:
    """Name of a file in notebooks: the number of the cell, or the path."""
    shell = running_shell()
    known: tuple[str, str] | None = None
    with contextlib.suppress(Exception):  # older versions of IPython lack this method
        known = shell.compile.format_code_name(file)
    return " ".join(known) if known else f"File {file}"


def _every_frame(error: BaseException) -> list[str]:
    shell = running_shell()
    if shell is None:
        return traceback.format_exception(error)
    found: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=1)
    return found
