"""A panel of knobs, with which a running cluster or simulation is changed from a notebook.

A *knob* is a method that changes something, such as ``kill(peer)``, and an *act* is one use of it. The panel calls the
methods of its cluster or simulation, by the names in :data:`ACTS`; it offers those that the object has. An error
becomes the message of the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from synergy_nb.errors import SynergyError
from synergy_nb.widgets.bundled_view import BundledView

__all__ = ["ACTS", "KnobPanel", "Knobbed"]

MOST_PEERS: Final = 1000  # maximum number of peers from which a page lets users choose


class Knobbed(Protocol):
    """A cluster or a simulation whose knobs the panel turns."""

    @property
    def peers(self) -> Mapping[str, str]:
        """Peer name to address."""

    @property
    def applications(self) -> Mapping[str, Any]:
        """Id to application, which has a plan and a status."""


#: Name of a knob to the names of its arguments, in the order of the method with that name.
ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "kill": ("peer",),
    "suspend": ("peer",),
    "resume": ("peer",),
    "join": ("peer",),
    "leave": ("peer",),
    "load": ("peer", "share"),
    "cut": ("peer", "other"),
    "mend": ("peer", "other"),
    "pace": ("application", "source", "factor"),
    "cost": ("application", "operator", "seconds"),
    "run": ("seconds",),
}


class KnobPanel(BundledView):
    """A panel of knobs.

    Parameters
    ----------
    knobbed
        Cluster or simulation that the panel changes.

    Attributes
    ----------
    message : str
        Outcome of the last act, in words.
    """

    SCRIPT = "knobpanel"

    def __init__(self, knobbed: Knobbed) -> None:
        self._knobbed = knobbed
        self.message = ""
        super().__init__()
        self.on_msg(lambda _, content, _buffers: self.on_page_message(content))

    def on_page_message(self, content: Mapping[str, Any]) -> None:
        """Handle a message of a page: ``bundle`` requests the script, ``ready`` the state, ``act`` turns a knob.

        ``here`` asks for an answer only, which says that the kernel lives.

        Parameters
        ----------
        content
            Message with its ``kind``; an act has its name and its arguments.
        """
        kind = content.get("kind")
        if kind == "bundle":
            self.send_bundle()
        elif kind == "ready":
            self.send({"kind": "state", **self.state()})
        elif kind == "here":
            self.send({"kind": "here"})
        elif kind == "act":
            self.act(str(content.get("act")), content.get("arguments"))

    def act(self, name: str, arguments: Any) -> None:
        """Turn a knob, and send the result to the pages.

        Parameters
        ----------
        name
            Name of the knob, a key of :data:`ACTS`.
        arguments
            Arguments of the method, by name.
        """
        wanted = ACTS.get(name)
        method: Callable[..., object] | None = getattr(self._knobbed, name, None) if wanted is not None else None
        failed = False
        if wanted is None or method is None or not isinstance(arguments, dict):
            self.message, failed = f"{name}: expected one of {', '.join(self._acts())}", True
        else:
            given = [arguments.get(each) for each in wanted]
            try:
                method(*given)
                words = " ".join("" if each is None else str(each) for each in given)
                self.message = f"{name} {words}".rstrip()
            except (SynergyError, ValueError, TypeError) as error:
                self.message, failed = str(error), True
        self.send({"kind": "state", **self.state(), "message": self.message, "failed": failed})

    def _acts(self) -> list[str]:
        return [name for name in ACTS if hasattr(self._knobbed, name)]

    def state(self) -> dict[str, Any]:
        """Return the state for the pages: knobs, peers, running applications with their operators, and virtual time."""
        now = getattr(self._knobbed, "now", None)
        running = {name: each for name, each in self._knobbed.applications.items() if each.status == "running"}
        return {
            "acts": self._acts(),
            "now": now,
            "peers": list(self._knobbed.peers)[:MOST_PEERS],
            "applications": {name: self._parts(each.plan.operators.values()) for name, each in running.items()},
        }

    def _parts(self, operators: Iterable[Any]) -> dict[str, list[str]]:
        """Return the sources, and the operators whose cost can be changed: in a simulation all others, else delays."""
        every = hasattr(self._knobbed, "run")
        return {
            "sources": [each.id for each in operators if each.kind == "source"],
            "operators": [each.id for each in operators if each.kind == "delay" or (every and each.kind != "source")],
        }

    def __repr__(self) -> str:
        return f"KnobPanel: {', '.join(self._acts())}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        missing, data, metadata = self._live(options, "")
        note = missing or "<p>The knobs need a kernel: run the cell again.</p>"
        return {**data, "text/plain": repr(self), "text/html": note}, metadata
