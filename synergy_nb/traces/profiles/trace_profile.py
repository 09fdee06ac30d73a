"""The profile of a trace, kept as JSON beside its rows, and shown as sentences and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.traces.profiles._page import content, page
from synergy_nb.traces.profiles._sentences import text
from synergy_nb.traces.profiles._values import MeasuredTrace

__all__ = ["PAGE", "PROFILE", "NotAProfile", "TraceProfile", "read_profile"]

#: Names of the files with the profile and with its page, in a folder of prepared data.
PROFILE: Final = "_profile.json"
PAGE: Final = "_profile.html"
_VERSION: Final = 1


class NotAProfile(SynergyError, ValueError):
    """A file is no profile of a trace, or one of another version, or it is damaged."""


class TraceProfile(MeasuredTrace, frozen=True):
    """What was measured of the rows of a trace; the fields are those of :class:`.MeasuredTrace`.

    ``str()`` has a sentence for each part, a notebook shows the page, and :meth:`save_page` writes it.
    """

    def to_json(self) -> bytes:
        """Return it as JSON with the version of the format, as :func:`read_profile` reads it."""
        return msgspec.json.format(msgspec.json.encode(_Kept(_VERSION, self)), indent=1) + b"\n"

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        Path(path).write_bytes(self.to_json())

    def to_page(self) -> str:
        """Return it as a page in HTML that needs nothing else."""
        return page(self)

    def save_page(self, path: str | Path) -> None:
        """Write it as a page in HTML that needs nothing else."""
        Path(path).write_text(self.to_page(), "utf-8")

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return content(self)


class _Kept(msgspec.Struct, frozen=True):
    """A profile as its file has it."""

    version: int
    profile: TraceProfile


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def read_profile(path: str | Path) -> TraceProfile:
    """Read the profile of a trace.

    Parameters
    ----------
    path
        Path of the file, or of a folder of prepared data with ``_profile.json``.

    Raises
    ------
    NotAProfile
        If there is none, it has another version, or it is damaged.

    Examples
    --------
    >>> read_profile("none.json")
    Traceback (most recent call last):
    ...
    synergy_nb.traces.profiles.trace_profile.NotAProfile: none.json: no such file; expected the profile of a trace
    """
    place = Path(path)
    if place.is_dir():
        place = place / PROFILE
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        raise NotAProfile(f"{place}: no such file; expected the profile of a trace") from None
    except OSError as error:
        raise NotAProfile(f"{place}: {error.strerror}; expected the profile of a trace") from None
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != _VERSION:
            raise NotAProfile(
                f"{place}: a profile of version {version}; expected {_VERSION}: remove it, and let profile() measure "
                "again"
            )
        return msgspec.json.decode(data, type=_Kept).profile
    except msgspec.DecodeError as error:
        why = str(error).partition(" - ")[0]
        raise NotAProfile(
            f"{place}: {why}; expected the profile of a trace: remove it, and let profile() measure again"
        ) from None
