"""The alternatives of a plan: from streams that run already (section 2.3.3), with parts on Spark, on peers alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Peer
from synergy_nb.events import EnginesChosen, SignaturesFound
from synergy_nb.lifecycle.records.request import Alternative
from synergy_nb.lifecycle.records.spark_offer import MICRO_BATCH, SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import NAMED_BY_PLAN, choose
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART, Profile, parts_of, profiled, replace_parts, trusted_profiles
from synergy_nb.plan.derived.stream_sharing import Provider, is_live, reduced, sharable_points
from synergy_nb.plan.derived.stream_signatures import Rates, read, signature

__all__ = ["Alternatives", "DirectoryEntries", "owners_of", "sharing_alternative"]

DirectoryEntries: TypeAlias = Mapping[str, tuple[Entry, ...]]
"""Entries of the directory by name."""

_NUMBERS: Final = ("rate", "cost", "selectivity")  # attributes of a profile that are numbers

_producers_decoder = msgspec.json.Decoder(tuple[Producer, ...])


def sharing_alternative(
    plan: Plan,
    found: DirectoryEntries,  # entries of the directory by the names of streams
    is_dead: Callable[[str], bool],  # function from an address to whether that peer is known to have died
    *,
    everything: bool,  # whether to share also streams whose beginning a later reader misses
    without: Collection[str] = (),
) -> Alternative | None:
    """The alternative that starts from the maximum sharable points of a plan; None if it can share no stream."""
    providers: dict[str, dict[str, Provider]] = {}
    shared: dict[str, dict[str, tuple[Producer, ...]]] = {}

    def runs(operator: str) -> bool:
        if operator in without or not _may_share(plan, operator, everything=everything):
            return False
        for entry in found.get(plan.stream_name(operator), ()):
            producers = _producers(entry)
            if producers and not any(is_dead(peer) for producer in producers for peer in _needed(producer)):
                at = str(entry.attributes["application"]), str(entry.attributes["operator"])
                providers.setdefault(operator, {})[entry.host] = at
                shared.setdefault(operator, {})[entry.host] = producers
        return operator in providers

    points = sharable_points(plan, runs)
    if not points:
        return None
    shared_plan = reduced(plan, {point: providers[point] for point in points})
    return Alternative(shared_plan, {point: shared[point] for point in points if point in shared_plan.operators})


def _needed(producer: Producer) -> tuple[str, ...]:
    """Peers that have to agree to the use of a component: its own, those of its copies, and its origin."""
    return (producer.peer, *producer.copies, *((producer.origin,) if producer.origin else ()))


def _may_share(plan: Plan, operator: str, *, everything: bool) -> bool:
    """Whether another application may read the stream; one whose rows a notebook pushes is never shared."""
    if is_live(plan, operator):
        return True
    return everything and "python" not in _connectors(plan, operator)


def _connectors(plan: Plan, operator: str) -> set[str]:
    node = plan.operators[operator]
    own = {str(node.params.get("connector"))} if node.kind == "source" else set()
    return own.union(*(_connectors(plan, up) for up in plan.upstream(operator)))


def _producers(entry: Entry) -> tuple[Producer, ...]:
    """The components that produce the stream of a directory entry; empty if the entry is malformed or no stream."""
    if not {"application", "operator", "producers"} <= entry.attributes.keys():
        return ()
    try:
        return _producers_decoder.decode(str(entry.attributes["producers"]))
    except msgspec.MsgspecError:
        return ()


def owners_of(alternatives: Iterable[Alternative]) -> set[str]:
    """Return the applications whose components make the shared streams of alternatives."""
    hosts = (hosts for each in alternatives for hosts in each.shared.values())
    return {producer.application for each in hosts for producers in each.values() for producer in producers}


class Alternatives:
    """Finds the alternatives of the plans that are submitted at a peer."""

    def __init__(
        self,
        peer: Peer,
        is_dead: Callable[[str], bool],  # function from an address to whether that peer is known to have died
        sharing: str,  # running streams to share: `all`, `live` or `off`, see `CompositionConfig`
        # function that returns the properties of the Spark server of this peer, or None where it has none
        spark: Callable[[], SparkOffer | None],
        *,
        backtracks: bool,  # whether the sharable points before the maximum ones are alternatives, too
    ) -> None:
        self._peer = peer
        self._is_dead = is_dead
        self._sharing = sharing
        self._spark = spark
        self._backtracks = backtracks
        # listeners, called with each application that has an alternative with parts on Spark
        self.on_spark_parts: list[Callable[[str], None]] = []

    def names(self, plan: Plan) -> set[str]:
        """Names that :meth:`of` needs from the directory, besides the names of the components of the plan."""
        streams = {plan.stream_name(name) for name, each in plan.operators.items() if each.kind != "sink"}
        return streams if self._spark() is None else {*streams, PART}

    def of(self, application: str, plan: Plan, found: DirectoryEntries) -> list[Alternative]:
        """The alternatives of a plan, the preferred one first.

        They are: from streams that run already, with parts on Spark, and with fewer parts on Spark.

        ``found``: entries of the directory by name.
        """
        alternatives: list[Alternative] = []
        if self._sharing != "off":
            refused: set[str] = set()
            everything = self._sharing == "all"
            while shared := sharing_alternative(plan, found, self._is_dead, everything=everything, without=refused):
                alternatives.append(Alternative(self._on_engines(application, shared.plan, found)[0], shared.shared))
                refused.update(shared.shared)
                if not self._backtracks:
                    break
        alternatives.extend(Alternative(each) for each in self._on_engines(application, plan, found))
        self._record_signatures(application, plan, alternatives[0].plan)
        return alternatives

    def _record_signatures(self, application: str, plan: Plan, profiled_plan: Plan) -> None:
        """Record the signatures from which impact is projected: stated by the plan, or measured before."""
        known: tuple[dict[str, Rates], dict[str, Rates]] = {}, {}
        for name in profiled_plan.sources:
            rates = signature(profiled_plan, name)
            if rates:
                stated = name in plan.operators and bool(signature(plan, name))
                known[not stated][name] = rates
        if any(known):
            self._peer.record(SignaturesFound, application, stated=known[0], measured=known[1])

    def as_requested(self, application: str, plan: Plan) -> Alternative:
        """Return the alternative in which Spark executes the operators that name it, and peers execute all others."""
        named = {name for name, operator in plan.operators.items() if operator.engine == "spark"}
        if not named:
            return Alternative(plan)
        offer = self._spark()
        parts = replace_parts(plan, named, MICRO_BATCH if offer is None else offer.micro_batch)
        self._record_engines(application, parts, dict.fromkeys(sorted(named), ("spark", NAMED_BY_PLAN)))
        return Alternative(parts)

    def _on_engines(self, application: str, plan: Plan, found: DirectoryEntries) -> list[Plan]:
        """Equivalent plans, the preferred one first: with all chosen parts on Spark, and with fewer."""
        profiles = _profiles({name: found.get(name, ()) for name in map(plan.stream_name, plan.operators)})
        choice = choose(profiled(plan, _unstated(plan, profiles)), self._spark(), profiles)
        self._record_engines(application, choice.plan, choice.reasons)
        return [choice.plan, *([choice.otherwise] if choice.otherwise is not None else [])]

    def _record_engines(self, application: str, plan: Plan, reasons: Mapping[str, tuple[str, str]]) -> None:
        parts = parts_of(plan)
        if reasons:
            self._peer.record(EnginesChosen, application, reasons=reasons, parts=parts)
        if parts:
            for listener in self.on_spark_parts:
                listener(application)


def _profiles(entries: DirectoryEntries) -> dict[str, Profile]:
    """Measured profiles of operators by stream name; of several hosts, the one with the highest rate counts."""
    found: dict[str, Profile] = {}
    for name, known in entries.items():
        measured = [entry.attributes for entry in known if "rate" in entry.attributes]
        if measured:
            busiest = max(measured, key=lambda attributes: float(attributes["rate"]))
            numbers = {field: float(busiest[field]) for field in _NUMBERS if field in busiest}
            found[name] = Profile(**numbers, signature=read(busiest.get("signature", "")) or None)
    return found


def _unstated(plan: Plan, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Operator id to the measured values (cost, selectivity, rate of a source) that the plan does not state."""
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
