"""The streams of one peer in the directory: which of them can be shared, and what was measured of their operators.

A stream goes by its canonical name, and a host has one entry of a name, of kind ``stream``. Two things are said there
of a stream, each by somebody else and at another time, so they are put together here:

* an *offer*: a component of this peer makes it for an application, and others may share it (dissertation, section
  2.3.3). Where several components make the same stream, the one that was offered first is advertised, and the next one
  when it is withdrawn: who comes later had better share what has been running for longest.
* a *profile*: what was measured of the operator that makes it. It outlives the component, so that plans need not say
  what their operators cost (section 2.2.2).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from synergy_nb.overlay.directory import Directory

__all__ = ["KEPT", "PROFILED", "PublishedStreams"]

KEPT: Final = 64  # profiles that a peer goes on telling, the latest ones

#: Attributes of a profile: tuples/s of the stream; of the operator that makes it, seconds of one core for a tuple that
#: it takes in, and tuples out over tuples in; of a stream whose rate goes up and down, its signature as a text (see
#: :func:`synergy_nb.plan.stream_signatures.write`).
PROFILED: Final = ("rate", "cost", "selectivity", "signature")

Attributes = Mapping[str, str | float | int]


class PublishedStreams:
    """What one peer says of streams.

    Parameters
    ----------
    directory
        The peer's part of the directory. Calls belong where its own do: inside a call of the peer.
    kept
        Profiles told at most; the one that was measured longest ago is forgotten first.

    Notes
    -----
    The entry of an offered stream has the attributes ``application`` and ``operator``, those of the offer, and of the
    profile, where there is one, any of :data:`PROFILED`; what was measured takes the place of what was offered.
    """

    def __init__(self, directory: Directory, kept: int = KEPT) -> None:
        self._directory = directory
        self._kept = kept
        self._offers: dict[str, OrderedDict[tuple[str, str], dict[str, str | float | int]]] = {}
        self._profiles: OrderedDict[str, dict[str, float | str]] = OrderedDict()
        self._told: dict[str, dict[str, str | float | int]] = {}

    def offer(self, name: str, application: str, operator: str, attributes: Attributes | None = None) -> None:
        """Say that the stream ``name``, made by a component of this peer, can be shared.

        Parameters
        ----------
        name
            Canonical name of the stream.
        application, operator
            Application and operator of the component that makes it.
        attributes
            Plain values that look-ups return; offered again, they change, and the offer keeps its place.
        """
        offers = self._offers.setdefault(name, OrderedDict())
        offers[application, operator] = dict(attributes or {})
        self._tell(name)

    def withdraw(self, name: str, application: str, operator: str) -> None:
        """Take an offer back; harmless if there is none."""
        offers = self._offers.get(name)
        if offers is None or offers.pop((application, operator), None) is None:
            return
        if not offers:
            del self._offers[name]
        self._tell(name)

    def profile(self, name: str, measured: Mapping[str, float | str]) -> None:
        """Say what was measured of the operator that makes a stream, in place of what was said before.

        Raises
        ------
        ValueError
            If a field is none of :data:`PROFILED`.
        """
        unknown = [field for field in measured if field not in PROFILED]
        if unknown:
            raise ValueError(f"measured: {unknown[0]!r}; expected one of {', '.join(PROFILED)}")
        self._profiles[name] = dict(measured)
        self._profiles.move_to_end(name)
        self._tell(name)
        while len(self._profiles) > self._kept:
            self.forget(next(iter(self._profiles)))

    def forget(self, name: str) -> None:
        """Forget what was measured; an offer stays."""
        if self._profiles.pop(name, None) is not None:
            self._tell(name)

    def offered(self, name: str) -> tuple[str, str] | None:
        """Application and operator of the component that is advertised under a name, or None."""
        offers = self._offers.get(name)
        return next(iter(offers)) if offers else None

    def _tell(self, name: str) -> None:
        offers = self._offers.get(name)
        said: dict[str, str | float | int] = {}
        if offers:
            (application, operator), attributes = next(iter(offers.items()))
            said = {**attributes, "application": application, "operator": operator}
        said.update(self._profiles.get(name, {}))
        if said == self._told.get(name, {}):
            return
        if said:
            self._told[name] = said
            self._directory.register(name, "stream", said)
        else:
            del self._told[name]
            self._directory.unregister(name, "stream")
