"""Ways to run a plan: from streams that run already (section 2.3.3), with parts on Spark, or by peers alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from synergy_nb.control.graph import Use
from synergy_nb.control.peer import Peer
from synergy_nb.events import EnginesChosen, SignaturesFound
from synergy_nb.lifecycle.engine_choice import MICRO_BATCH, WHY, Offer, choose
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from synergy_nb.plan.spark_parts import PART, Profile, parts_of, profiled, replace_parts, trusted_profiles
from synergy_nb.plan.stream_sharing import Provider, is_live, reduced, sharable_points
from synergy_nb.plan.stream_signatures import Rates, read, signature

__all__ = ["Alternative", "Alternatives", "Found", "sharing_alternative"]

Found: TypeAlias = Mapping[str, tuple[Entry, ...]]
"""What the directory has, by name."""

_NUMBERS: Final = ("rate", "cost", "selectivity")  # of a profile

_uses = msgspec.json.Decoder(tuple[Use, ...])


class Alternative(NamedTuple):
    """A plan that gives what was asked for.

    Parameters
    ----------
    plan
        Query plan that is to be run.
    shared
        For each of its taps, by the address of a peer that gives the stream: the components that it is made by.
    """

    plan: Plan
    shared: Mapping[str, Mapping[str, tuple[Use, ...]]] = {}


def sharing_alternative(
    plan: Plan, found: Found, is_dead: Callable[[str], bool], *, everything: bool
) -> Alternative | None:
    """The plan from its maximum sharable points on; None if no stream that it needs can be shared.

    Parameters
    ----------
    plan
        Query plan ξ.
    found
        Entries of the directory by the names of streams.
    is_dead
        Whether a peer is known to have died.
    everything
        Whether streams are shared that a later reader gets without their beginning.
    """
    providers: dict[str, dict[str, Provider]] = {}
    shared: dict[str, dict[str, tuple[Use, ...]]] = {}

    def runs(operator: str) -> bool:
        if not _may_share(plan, operator, everything=everything):
            return False
        for entry in found.get(plan.stream_name(operator), ()):
            made_by = _made_by(entry)
            if made_by and not any(is_dead(peer) for use in made_by for peer in _needed(use)):
                at = str(entry.attributes["application"]), str(entry.attributes["operator"])
                providers.setdefault(operator, {})[entry.host] = at
                shared.setdefault(operator, {})[entry.host] = made_by
        return operator in providers

    points = sharable_points(plan, runs)
    if not points:
        return None
    way = reduced(plan, {point: providers[point] for point in points})
    return Alternative(way, {point: shared[point] for point in points if point in way.operators})


def _needed(use: Use) -> tuple[str, ...]:
    """Peers that have to agree that a component is used."""
    return (use.peer, *use.copies, *((use.origin,) if use.origin else ()))


def _may_share(plan: Plan, operator: str, *, everything: bool) -> bool:
    """Whether a stream is the same whoever asks for it; what a notebook pushes into its own source is not."""
    if is_live(plan, operator):
        return True
    return everything and "python" not in _connectors(plan, operator)


def _connectors(plan: Plan, operator: str) -> set[str]:
    asked = plan.operators[operator]
    own = {str(asked.params.get("connector"))} if asked.kind == "source" else set()
    return own.union(*(_connectors(plan, up) for up in plan.upstream(operator)))


def _made_by(entry: Entry) -> tuple[Use, ...]:
    """The components that a stream is made by; empty if the entry does not offer it."""
    if not {"application", "operator", "uses"} <= entry.attributes.keys():
        return ()
    try:
        return _uses.decode(str(entry.attributes["uses"]))
    except msgspec.MsgspecError:
        return ()


class Alternatives:
    """Which ways there are to run the plans that are submitted at a peer.

    Parameters
    ----------
    peer
        The peer.
    is_dead
        Tells whether a peer is known to have died.
    sharing
        Running streams that are used again, as in :class:`~synergy_nb.algorithms.composition.CompositionConfig`.
    spark
        Gives what this peer knows of the Spark that it can use; None: it has none.

    Attributes
    ----------
    on_parts : list of callables (application)
        Told of each application for which there is a way with parts on Spark.
    """

    def __init__(
        self, peer: Peer, is_dead: Callable[[str], bool], sharing: str, spark: Callable[[], Offer | None]
    ) -> None:
        self._peer = peer
        self._is_dead = is_dead
        self._sharing = sharing
        self._spark = spark
        self.on_parts: list[Callable[[str], None]] = []

    def names(self, plan: Plan) -> set[str]:
        """Names in the directory by which :meth:`of` finds the ways to run a plan, besides those of its components."""
        streams = {plan.stream_name(name) for name, each in plan.operators.items() if each.kind != "sink"}
        return streams if self._spark() is None else {*streams, PART}

    def of(self, application: str, plan: Plan, found: Found) -> list[Alternative]:
        """The ways to run a plan, the preferred one first.

        They are: from streams that run already, with parts on Spark, and with fewer of these.

        Parameters
        ----------
        application
            Application that asks.
        plan
            Query plan that was submitted.
        found
            Entries of the directory by name.
        """
        ways: list[Alternative] = []
        if self._sharing != "off":
            shared = sharing_alternative(plan, found, self._is_dead, everything=self._sharing == "all")
            if shared is not None:
                ways.append(Alternative(self._on_engines(application, shared.plan, found)[0], shared.shared))
        ways.extend(Alternative(each) for each in self._on_engines(application, plan, found))
        self._signed(application, plan, ways[0].plan)
        return ways

    def _signed(self, application: str, plan: Plan, profiled_plan: Plan) -> None:
        """Record the signatures by which impact is projected: of the plan, or of what was measured."""
        known: tuple[dict[str, Rates], dict[str, Rates]] = {}, {}
        for name in profiled_plan.sources:
            rates = signature(profiled_plan, name)
            if rates:
                stated = name in plan.operators and bool(signature(plan, name))
                known[not stated][name] = rates
        if any(known):
            self._peer.record(SignaturesFound, application, stated=known[0], measured=known[1])

    def bound(self, application: str, plan: Plan) -> Alternative:
        """The way to run a plan with those parts on Spark that it asks for by name, and everything else on peers."""
        named = {name for name, operator in plan.operators.items() if operator.engine == "spark"}
        if not named:
            return Alternative(plan)
        offer = self._spark()
        parts = replace_parts(plan, named, MICRO_BATCH if offer is None else offer.micro_batch)
        self._chosen(application, parts, dict.fromkeys(sorted(named), ("spark", WHY)))
        return Alternative(parts)

    def _on_engines(self, application: str, plan: Plan, found: Found) -> list[Plan]:
        """Plans to run in place of one, the preferred one first: with its parts on Spark, and with less on it."""
        profiles = _profiles({name: found.get(name, ()) for name in map(plan.stream_name, plan.operators)})
        choice = choose(profiled(plan, _unstated(plan, profiles)), self._spark(), profiles)
        self._chosen(application, choice.plan, choice.reasons)
        return [choice.plan, *([choice.otherwise] if choice.otherwise is not None else [])]

    def _chosen(self, application: str, plan: Plan, reasons: Mapping[str, tuple[str, str]]) -> None:
        parts = parts_of(plan)
        if reasons:
            self._peer.record(EnginesChosen, application, reasons=reasons, parts=parts)
        if parts:
            for listener in self.on_parts:
                listener(application)


def _profiles(entries: Found) -> dict[str, Profile]:
    """What hosts have measured of operators, by the names of their streams; where several have, of the busiest."""
    found: dict[str, Profile] = {}
    for name, known in entries.items():
        measured = [entry.attributes for entry in known if "rate" in entry.attributes]
        if measured:
            busiest = max(measured, key=lambda attributes: float(attributes["rate"]))
            numbers = {field: float(busiest[field]) for field in _NUMBERS if field in busiest}
            found[name] = Profile(**numbers, signature=read(busiest.get("signature", "")) or None)
    return found


def _unstated(plan: Plan, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """What was measured of those operators whose cost, selectivity or rate a plan does not state, by their ids."""
    known: dict[str, Profile] = {}
    for name, measured in trusted_profiles(plan, profiles).items():
        operator = plan.operators[name]
        if operator.kind == "sink":
            continue
        stated = operator.kind != "source" or operator.params.get("rate") is not None
        signed = bool(operator.inputs) or operator.params.get("signature") is not None
        known[name] = Profile(
            rate=None if stated else measured.rate,
            cost=measured.cost if operator.cost is None else None,
            selectivity=measured.selectivity if operator.selectivity is None else None,
            signature=None if signed else measured.signature,
        )
    return known
