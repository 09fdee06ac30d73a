"""Views whose script a page requests from the kernel, once for all views of a version (``loader.js``)."""

from __future__ import annotations

import contextlib
import hashlib
from html import escape
from importlib import resources
from typing import Any, ClassVar

import traitlets

from synergy_nb.errors import SynergyError
from synergy_nb.widgets.last_picture import StillView

__all__ = ["BundleMissing", "BundledView", "bundle"]


class BundleMissing(SynergyError, RuntimeError):
    """The JavaScript bundle of a view has not been built."""


def bundle(name: str) -> tuple[str, str, str]:
    """Version, script and style of the browser's part of a view.

    Raises BundleMissing if the checkout has not been built.
    """
    folder = resources.files("synergy_nb.widgets").joinpath("static")
    try:
        script = folder.joinpath(f"{name}.js").read_text("utf-8")
    except FileNotFoundError:
        raise BundleMissing(
            f"the live view has not been built: synergy_nb/widgets/static/{name}.js is missing; "
            "run `make lab` in the checkout, which builds it"
        ) from None
    style = folder.joinpath(f"{name}.css")
    sheet = style.read_text("utf-8") if style.is_file() else ""
    return hashlib.sha256(f"{script}\n{sheet}".encode()).hexdigest()[:16], script, sheet


class BundledView(StillView):
    """A view with a script; where that has not been built, it is a picture that says so."""

    SCRIPT: ClassVar[str]  # name of the script, see bundle
    _esm = resources.files("synergy_nb.widgets").joinpath("loader.js").read_text("utf-8")
    _version = traitlets.Unicode().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        with contextlib.suppress(BundleMissing):
            traits["_version"] = bundle(self.SCRIPT)[0]
        super().__init__(**traits)

    def send_bundle(self) -> None:
        """Send the script to the page that has requested it."""
        with contextlib.suppress(BundleMissing):
            version, script, style = bundle(self.SCRIPT)
            self.send({"kind": "bundle", "version": version, "script": script, "style": style})

    def _live(self, options: Any, instead: str, *, closed: bool = False) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """What is missing, and MIME types and metadata of the live view; none of it where it cannot be shown.

        ``instead``: sentence about the picture, after the one about what is missing.
        """
        try:
            self._version = bundle(self.SCRIPT)[0]
        except BundleMissing as missing:
            return f"<p>{f'{escape(str(missing)).capitalize()}. {instead}'.rstrip()}</p>", {}, {}
        found = None if closed else super()._repr_mimebundle_(**options)
        return "", *(({}, {}) if found is None else found)
