"""The streams of one peer in the directory: offers to share them, and measured profiles of their operators.

A stream is identified by its canonical name, and a host has one entry for a name, of kind ``stream``. This module
combines three kinds of information in it, which come from different parts of the peer at different times:

* an *offer*: a component of this peer makes the stream for an application, and others may share it (dissertation,
  section 2.3.3). If several components make the same stream, the one that was offered first is advertised, since it has
  run for longest; the next one follows when it is withdrawn.
* *parts*: what is stated of the streams that this peer offers and that have some rows of this one, or aggregates of
  them. Who makes another stream of the same base finds them with the base, which it looks up anyway.
* a *profile*: the measured rate, cost and selectivity of the operator. It outlives the component, so that plans need
  not state the cost of their operators (section 2.2.2).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.overlay.directory import Directory
from synergy_nb.plan.derived.stream_containment import StatedStream, write_parts

__all__ = ["PROFILED", "RETAINED_PROFILES", "PublishedStreams"]

RETAINED_PROFILES: Final = 64  # number of latest profiles that a peer publishes

#: Attributes of a profile: rate of the stream, tuples/s; cost of its operator, core seconds per input tuple;
#: selectivity of its operator, output tuples per input tuple; and, for a stream of varying rate, its signature as text
#: (see :func:`synergy_nb.plan.derived.stream_signatures.write`).
PROFILED: Final = ("rate", "cost", "selectivity", "signature")

MOST_PARTS: Final = 32  # streams made of one stream of which a peer states something, for each attribute

Attributes = Mapping[str, str | float | int]


class PublishedStreams:
    """Publishes the streams of one peer in the directory.

    Notes
    -----
    The entry of an offered stream has the attributes ``application`` and ``operator``, the attributes of the offer, and
    those of :data:`PROFILED` that have been measured; a measured attribute replaces one of the offer.
    """

    def __init__(self, directory: Directory, retained: int = RETAINED_PROFILES) -> None:
        # directory protocol of the peer. Call the methods of this class only while the peer handles a message or timer
        self._directory = directory
        self._retained = retained  # maximum number of published profiles; the oldest is removed first
        self._offers: dict[str, OrderedDict[tuple[str, str], dict[str, str | float | int]]] = {}
        self._profiles: OrderedDict[str, dict[str, float | str]] = OrderedDict()
        self._parts: dict[str, dict[str, StatedStream]] = {}  # stream to those made of it, and what is stated of them
        self._published: dict[str, dict[str, str | float | int]] = {}

    def offer(
        self,
        name: str,
        application: str,
        operator: str,
        attributes: Attributes | None = None,
        part: StatedStream | None = None,
    ) -> None:
        """Offer the stream ``name``, which a component of this peer makes, to other applications.

        ``name``: canonical name of the stream; ``attributes``: attributes that look-ups return; ``part``: what is
        stated of it under the name of another stream. A repeated offer replaces the attributes without changing the
        order of offers.
        """
        if part is not None:
            self._parts.setdefault(part.base, {})[name] = part
            self._publish(part.base)
        offers = self._offers.setdefault(name, OrderedDict())
        offers[application, operator] = dict(attributes or {})
        self._publish(name)

    def withdraw(self, name: str, application: str, operator: str) -> None:
        """Withdraw an offer; no effect if there is none."""
        offers = self._offers.get(name)
        if offers is None or offers.pop((application, operator), None) is None:
            return
        if not offers:
            del self._offers[name]
            for base in [base for base, parts in self._parts.items() if name in parts]:
                del self._parts[base][name]
                if not self._parts[base]:
                    del self._parts[base]
                self._publish(base)
        self._publish(name)

    def profile(self, name: str, measured: Mapping[str, float | str]) -> None:
        """Publish the measured profile of the operator that makes a stream, replacing an earlier one.

        Raises ``ValueError`` if a field is not in :data:`PROFILED`.
        """
        unknown = [field for field in measured if field not in PROFILED]
        if unknown:
            raise ValueError(f"measured: {unknown[0]!r}; expected one of {', '.join(PROFILED)}")
        self._profiles[name] = dict(measured)
        self._profiles.move_to_end(name)
        self._publish(name)
        while len(self._profiles) > self._retained:
            self.forget(next(iter(self._profiles)))

    def forget(self, name: str) -> None:
        """Remove the profile of a stream; its offer stays."""
        if self._profiles.pop(name, None) is not None:
            self._publish(name)

    def offered(self, name: str) -> tuple[str, str] | None:
        """Application and operator of the component that is advertised under a name, or None."""
        offers = self._offers.get(name)
        return next(iter(offers)) if offers else None

    def _publish(self, name: str) -> None:
        offers = self._offers.get(name)
        published: dict[str, str | float | int] = {}
        if offers:
            (application, operator), attributes = next(iter(offers.items()))
            published = {**attributes, "application": application, "operator": operator}
        published.update(self._profiles.get(name, {}))
        parts: dict[str, list[Any]] = {}
        for part in self._parts.get(name, {}).values():
            parts.setdefault(part.attribute, []).append(part.value)
        published.update({attribute: write_parts(several[:MOST_PARTS]) for attribute, several in parts.items()})
        if published == self._published.get(name, {}):
            return
        if published:
            self._published[name] = published
            self._directory.register(name, "stream", published)
        else:
            del self._published[name]
            self._directory.unregister(name, "stream")
