"""The alternatives of a plan: from streams that run already (section 2.3.3), with parts on Spark, on peers alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Peer
from synergy_nb.events import EnginesChosen, EstimatesFound, SignaturesFound
from synergy_nb.lifecycle.records.request import Alternative
from synergy_nb.lifecycle.records.spark_offer import MICRO_BATCH, SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import NAMED_BY_PLAN, choose
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import held
from synergy_nb.plan.checks.trace_facts import TraceFacts
from synergy_nb.plan.derived.coarser_windows import WINDOWS, finer_streams, read_windows
from synergy_nb.plan.derived.plan_changes import apart
from synergy_nb.plan.derived.spark_parts import PART, Profile, parts_of, profiled, replace_parts, trusted_profiles
from synergy_nb.plan.derived.stream_containment import PARTS, Container, containers, read_parts
from synergy_nb.plan.derived.stream_sharing import Provider, is_live, reduced, sharable_points
from synergy_nb.plan.derived.stream_signatures import Rates, read, signature
from synergy_nb.plan.derived.wider_projections import COLUMNS, read_columns, wider_streams

__all__ = ["Alternatives", "DirectoryEntries", "sharing_alternative"]

DirectoryEntries: TypeAlias = Mapping[str, tuple[Entry, ...]]
"""Entries of the directory by name."""

_S = TypeVar("_S")
_NUMBERS: Final = ("rate", "cost", "selectivity")  # attributes of a profile that are numbers

_producers_decoder = msgspec.json.Decoder(tuple[Producer, ...])


def sharing_alternative(
    plan: Plan,
    found: DirectoryEntries,  # entries of the directory by the names of streams
    is_dead: Callable[[str], bool],  # function from an address to whether that peer is known to have died
    *,
    everything: bool,  # whether to share also streams whose beginning a later reader misses
    without: Collection[str] = (),
    # operator to the streams of which it can make its own
    within: Mapping[str, Sequence[Container]] = MappingProxyType({}),
) -> Alternative | None:
    """The alternative that starts from the maximum sharable points of a plan; None if it can share no stream."""
    providers: dict[str, dict[str, Provider]] = {}
    shared: dict[str, dict[str, tuple[Producer, ...]]] = {}
    used: dict[str, Container] = {}

    def provided(name: str, tap: str) -> bool:
        for entry in found.get(name, ()):
            producers = _producers(entry)
            if producers and not any(is_dead(peer) for producer in producers for peer in _needed(producer)):
                at = str(entry.attributes["application"]), str(entry.attributes["operator"])
                providers.setdefault(tap, {})[entry.host] = at
                shared.setdefault(tap, {})[entry.host] = producers
        return tap in providers

    def runs(operator: str) -> bool:
        if operator in without or not _may_share(plan, operator, everything=everything):
            return False
        if provided(plan.stream_name(operator), operator):
            return True
        for container in within.get(operator, ()):
            if provided(container.form.name, container.tap):
                measured = (float(each.attributes.get("rate", 0.0)) for each in found[container.form.name])
                rate = max(measured) or container.rate
                used[operator] = container._replace(rate=max(rate, plan.rate(operator)))
                return True
        return False

    points = sharable_points(plan, runs)
    if not points:
        return None
    taps = [used[point].tap if point in used else point for point in points]
    shared_plan = reduced(plan, {tap: providers[tap] for tap in taps}, used)
    return Alternative(
        shared_plan,
        {tap: shared[tap] for tap in taps if tap in shared_plan.operators},
        {name: (container.form.name, container.left) for name, container in used.items()},
    )


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


def _containers(
    plan: Plan, found: DirectoryEntries
) -> tuple[dict[str, tuple[Container, ...]], dict[str, tuple[str, str]]]:
    """Streams of which operators can make their own, of those that peers state under names of their bases.

    Returns: also the aggregates for which streams are fine enough, without the values that they need.
    """
    parts = {name: _stated(entries, PARTS, read_parts) for name, entries in found.items()}
    finer = {name: _stated(entries, WINDOWS, read_windows) for name, entries in found.items()}
    wider = {name: _stated(entries, COLUMNS, read_columns) for name, entries in found.items()}
    filters = containers(plan, parts) if any(parts.values()) else {}
    aggregates, unfit = finer_streams(plan, finer) if any(finer.values()) else ({}, {})
    projections = wider_streams(plan, wider) if any(wider.values()) else {}
    return {**filters, **aggregates, **projections}, unfit


def _stated(entries: Iterable[Entry], attribute: str, read_text: Callable[[object], list[_S]]) -> list[_S]:
    texts = (entry.attributes[attribute] for entry in entries if attribute in entry.attributes)
    return [each for text in texts for each in read_text(text)]


def _of(entry: Entry) -> tuple[str, str]:
    """Application and operator that make the stream of an entry."""
    return str(entry.attributes.get("application")), str(entry.attributes.get("operator"))


def _producers(entry: Entry) -> tuple[Producer, ...]:
    """The components that produce the stream of a directory entry; empty if the entry is malformed or no stream."""
    if not {"application", "operator", "producers"} <= entry.attributes.keys():
        return ()
    try:
        return _producers_decoder.decode(str(entry.attributes["producers"]))
    except msgspec.MsgspecError:
        return ()


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
        made = [name for name, each in plan.operators.items() if each.kind != "sink"]
        streams = {*map(plan.stream_name, made), *map(plan.work_name, made)}
        return streams if self._spark() is None else {*streams, PART}

    def containing(self, plan: Plan, found: DirectoryEntries) -> set[str]:
        """Names of streams of which those of a plan can be made, by what is found: :meth:`of` needs them, too."""
        if self._sharing == "off":
            return set()
        made = [each for several in _containers(plan, found)[0].values() for each in several]
        # a count of coarser windows is an aggregate, which the plan itself may not have
        # (test_a_count_of_coarser_windows_is_an_aggregate)
        kinds = {operator.kind for each in made for operator in each.rewritten.values()}
        kinds -= {operator.kind for operator in plan.operators.values()}
        return ({each.form.name for each in made} | kinds) - found.keys()

    def of(self, application: str, plan: Plan, found: DirectoryEntries) -> list[Alternative]:
        """The alternatives of a plan, the preferred one first.

        They are: from streams that run already, with parts on Spark, and with fewer parts on Spark.

        ``found``: entries of the directory by name.
        """
        alternatives: list[Alternative] = []
        if self._sharing != "off":
            refused: set[str] = set()
            everything = self._sharing == "all"
            within, unfit = _containers(plan, found)
            part = sharing_alternative(plan, found, self._is_dead, everything=everything, within=within)
            if part is not None and part.rests:
                alternatives.append(self._planned(application, part, found, unfit))
            while shared := sharing_alternative(plan, found, self._is_dead, everything=everything, without=refused):
                alternatives.append(self._planned(application, shared, found, unfit))
                refused.update(shared.shared)
                if not self._backtracks:
                    break
        alternatives.extend(Alternative(each) for each in self._on_engines(application, plan, found))
        self._record_signatures(application, plan, alternatives[0].plan)
        return alternatives

    def beside(
        self, application: str, plan: Plan, found: DirectoryEntries, streams: Collection[tuple[str, str]]
    ) -> list[Alternative]:
        """The alternative of a plan that reads no source of its own, but streams of these (application, operator).

        If any operator is to have replicas, all begin anew, on the engines that they name.
        """
        entries = {name: tuple(each for each in several if _of(each) in streams) for name, several in found.items()}
        alone = apart(plan)
        shared = sharing_alternative(plan, entries, self._is_dead, everything=True, without=alone)
        if shared is None or set(shared.plan.sources) - shared.shared.keys():
            return []
        if alone:
            return [shared._replace(plan=self.as_requested(application, shared.plan).plan)]
        return [self._planned(application, shared, found, {})]

    def _planned(
        self, application: str, shared: Alternative, found: DirectoryEntries, unfit: Mapping[str, tuple[str, str]]
    ) -> Alternative:
        """Choose the engines of an alternative that shares streams; tell which others its aggregates do not read."""
        made = shared.plan.operators.keys() - shared.shared.keys()
        unfit = {name: why for name, why in unfit.items() if name in made}
        return shared._replace(plan=self._on_engines(application, shared.plan, found)[0], unfit=unfit)

    def _record_signatures(self, application: str, plan: Plan, profiled_plan: Plan) -> None:
        """Record the signatures from which impact is projected: stated by the plan, or measured before."""
        stated: dict[str, Rates] = {}
        measured: dict[str, Rates] = {}
        by_profile: dict[str, Rates] = {}
        for name in profiled_plan.sources:
            rates = signature(profiled_plan, name)
            if rates:
                own = name in plan.operators and plan.operators[name].params.get("signature")
                before = profiled_plan.operators[name].params.get("signature")
                (stated if own else measured if before else by_profile)[name] = rates
        if stated or measured or by_profile:
            self._peer.record(SignaturesFound, application, stated=stated, measured=measured, profiled=by_profile)
        profiles = {name: facts.name for name in plan.sources if (facts := _facts(plan, name)) is not None}
        if profiles:
            numbers, kept = _estimates(plan, profiled_plan), _held(profiled_plan)
            self._peer.record(EstimatesFound, application, numbers=numbers, profiles=profiles, held=kept)

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
        profiles = _profiles({name: found.get(name, ()) for name in map(plan.work_name, plan.operators)})
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


def _facts(plan: Plan, source: str) -> TraceFacts | None:
    size = plan.sizes.get(source)
    return None if size is None else size.facts


def _estimates(plan: Plan, profiled_plan: Plan) -> dict[str, tuple[str, float, str]]:
    """Rates of sources and selectivities that depend on data, as the plan was decided on, and their origins."""
    found: dict[str, tuple[str, float, str]] = {}
    for name, operator in plan.operators.items():
        basis, decided = plan.basis(name), profiled_plan.operators.get(name)
        if not basis or decided is None or decided.kind != operator.kind:
            continue
        origin = basis if profiled_plan.basis(name) == basis else "before"
        if operator.inputs:
            found[name] = "selectivity", profiled_plan.selectivity(name), origin
        else:
            found[name] = "rate", profiled_plan.rate(name), origin
    return found


def _held(plan: Plan) -> dict[str, tuple[float, float]]:
    """Bytes that operators keep in a busy window and in a mean one, where a profile tells them apart."""
    found = {name: (held(plan, name).nbytes, held(plan, name, mean=True).nbytes) for name in plan.operators}
    return {name: (busy, mean) for name, (busy, mean) in found.items() if busy > mean}


def _profiles(entries: DirectoryEntries) -> dict[str, Profile]:
    """Measured profiles by the names of the work; of several hosts, the one with the highest rate counts."""
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
