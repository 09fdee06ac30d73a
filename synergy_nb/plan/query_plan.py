"""Query plan ξ: the operators of a request, the streams between them, and the QoS requirement.

Theory of operation
-------------------
A plan is a value: it is checked when it is made, never changes, and is equal to each plan with the same operators and
the same requirement. Everybody who has its bytes computes the same names, rates and loads from it, so that peers need
not agree upon them: that is why the bytes contain the schemas, and no peer infers SQL types.

There are three ways to make one. Users give operators in any spelling (``Plan(...)``, or YAML), which are validated and
brought to normal form. The platform composes plans of operators that were validated before, of other plans: parts on
Spark, taps, replicas (:meth:`Plan.composed`). Peers decode bytes (:meth:`Plan.from_bytes`), of which a cache holds the
latest: a probe carries its whole plan, and a peer decodes it once.

Two things travel with a plan and are no part of it, so that they do not make two plans different: what its author wrote
although it is the default, so that a written plan reads like the author's; and what is known of the rows of its
sources, by which memory and rates are estimated (:meth:`Plan._identity`).

What follows from the operators (names, flows, routes, bytes) is computed at its first use, and kept: the attributes are
written by ``object.__setattr__``, past the refusal of changes. Reading a plan from several threads is harmless: each
would compute the same value.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

import msgspec

from synergy_nb.plan._stream_names import StreamForm, own_name, stream_form, stream_key, work_name
from synergy_nb.plan.checks.exact_costs import exact_sums_factor
from synergy_nb.plan.checks.memory_estimates import check_memory, on_peers
from synergy_nb.plan.checks.operator_flows import OperatorFlow, flows
from synergy_nb.plan.checks.replica_degrees import sums_exactly
from synergy_nb.plan.checks.requirements import check_qos, check_together
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.validation import (
    NO_TRANSITION,
    Checked,
    Operator,
    PlanError,
    Problem,
    Transition,
    check,
)
from synergy_nb.plan.operators.catalogue import KINDS, PART, TAP
from synergy_nb.plan.terms.naming import NAME, is_name
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.result_names import named_like_a_file
from synergy_nb.plan.terms.units import counted
from synergy_nb.plan.text import plan_encoding

__all__ = ["DecodedPlans", "Plan", "part_of"]


class Plan:
    """A query plan ξ with its QoS requirement Q_ξ: immutable, valid, equal to every plan with the same bytes.

    Parameters
    ----------
    operators
        Operators, with parameters in any spelling that the catalogue reads.
    qos
        QoS requirement, or its fields with units.
    name
        Name of the plan for people.

    Raises
    ------
    PlanError
        If the plan is invalid; it holds all problems.

    Notes
    -----
    Loads, rates and names are computed once, at first use. Rates follow from the rates of sources and the
    selectivities; where the plan states none, the defaults of :mod:`synergy_nb.plan.operators.catalogue` hold.

    Examples
    --------
    Streams make plans, and so do files of YAML:

    >>> from synergy_nb import Plan, source
    >>> plan = source("packets", rate="1000 tuples/s").filter("bytes > 1000").sink(delay="2 s")
    >>> list(plan.operators), plan.qos.delay, list(plan.schema("filter"))[:2]
    (['source', 'filter', 'sink'], 2.0, ['time', 'link'])
    >>> Plan.from_yaml(plan.to_yaml()) == plan
    True
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_drafts",
        "_flows",
        "_followers",
        "_names",
        "_routes",
        "_rows",
        "_schemas",
        "_stated",
        "_windows",
        "name",
        "operators",
        "qos",
        "sinks",
        "sizes",
        "sources",
        "transition",
    )

    name: str
    operators: dict[str, Operator]
    qos: QoS
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    sizes: Mapping[str, SourceSize]  # what is known of the rows of sources, which the plan does not state
    transition: Transition  # what it has of a plan whose place it takes, or has taken
    _schemas: dict[str, dict[str, str]]
    _stated: Mapping[str, Collection[str]]  # operator id to the fields that its author stated
    _windows: dict[str, dict[str, Any] | None]
    _followers: dict[str, tuple[str, ...]]
    # values derived from these, computed at first use
    _bytes: bytes | None
    _drafts: tuple[Any, ...] | None
    _flows: dict[str, OperatorFlow] | None
    _names: dict[str, tuple[str, str, StreamForm]] | None
    _routes: tuple[tuple[str, ...], ...] | None
    _rows: Mapping[str, Any] | None

    def __init__(
        self,
        operators: Iterable[Operator],
        qos: QoS | Mapping[str, Any] | None = None,
        name: str = "plan",
    ) -> None:
        problems: list[Problem] = []
        if not is_name(name):
            problems.append(Problem("", "name", name, NAME))
        wanted = msgspec.structs.asdict(qos) if isinstance(qos, QoS) else qos or {}
        requirement = check_qos(wanted, problems)
        checked = check(list(operators), problems)
        check_together(checked, requirement, problems)
        if problems:
            raise PlanError(problems)
        self._fill(name, requirement, checked, {}, NO_TRANSITION)
        if requirement.memory is not None:
            check_memory(self, on_peers(self, spark=True), math.inf)

    @classmethod
    def composed(
        cls,
        name: str,
        qos: QoS,
        checked: Checked,
        sizes: Mapping[str, SourceSize] = MappingProxyType({}),
        transition: Transition = NO_TRANSITION,
    ) -> Plan:
        """Make a plan of operators that were validated before, which may include parts on Spark."""
        plan: Plan = object.__new__(cls)
        known = {each: size for each, size in sizes.items() if each in checked.operators} if sizes else {}
        plan._fill(name, qos, checked, known, transition)
        return plan

    def _fill(
        self, name: str, qos: QoS, checked: Checked, sizes: Mapping[str, SourceSize], transition: Transition
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "qos", qos)
        put(self, "operators", checked.operators)
        put(self, "_schemas", checked.schemas)
        put(self, "_stated", {})
        put(self, "sizes", sizes)
        put(self, "transition", transition)
        put(self, "_windows", checked.windows)
        put(self, "sources", tuple(each.id for each in checked.operators.values() if not each.inputs))
        put(self, "sinks", tuple(each.id for each in checked.operators.values() if each.kind == "sink"))
        followers: dict[str, list[str]] = {each: [] for each in checked.operators}
        for operator in checked.operators.values():
            for up in operator.inputs:
                followers[up].append(operator.id)
        put(self, "_followers", {each: tuple(names) for each, names in followers.items()})
        for lazy in ("_bytes", "_drafts", "_flows", "_names", "_routes", "_rows"):
            put(self, lazy, None)

    def stating(self, fields: Mapping[str, Collection[str]]) -> Plan:
        """Note the fields of each operator that the author of the plan stated, so that files and Python state them."""
        object.__setattr__(self, "_stated", fields)
        object.__setattr__(self, "_bytes", None)
        return self

    def sized(self, sizes: Mapping[str, SourceSize]) -> Plan:
        """Return an equal plan with what is known of the rows of its sources, on which estimates rest."""
        if not sizes:
            return self
        checked = Checked(self.operators, self._schemas, self._windows)
        sized = Plan.composed(self.name, self.qos, checked, {**self.sizes, **sizes}, self.transition)
        return sized.stating(self._stated)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a plan does not change; build another one")

    @property
    def rows(self) -> Mapping[str, Any]:
        """Rows of sources made by ``source(rows)``, by operator id; the plan's bytes and files do not hold them."""
        return self._rows or {}

    # -- the graph ---------------------------------------------------------------------------------------------------

    def upstream(self, operator: str) -> tuple[str, ...]:
        """Operators whose streams ``operator`` reads, by port."""
        return self.operators[operator].inputs

    def downstream(self, operator: str) -> tuple[str, ...]:
        """Operators that read the stream of ``operator``."""
        return self._followers[operator]

    def sink(self, given: str | None) -> str:
        """Return the operator id of the sink with this id, or with this name if one sink has it; None: the only one.

        Raises ``ValueError`` if there is none, or more than one.
        """
        if given is None and len(self.sinks) == 1:
            return self.sinks[0]
        named = [each for each in self.sinks if self.operators[each].params["name"] == given]
        if given in self.sinks or len(named) == 1:
            return given if given in self.sinks else named[0]
        known = [f"{each} (named {self.operators[each].params['name']!r})" for each in self.sinks]
        stated = "not given" if given is None else repr(given)
        raise ValueError(f"sink: {stated}; expected one of {', '.join(known)}")

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """All paths from a source to a sink, as ids of operators."""
        routes = self._routes
        if routes is None:
            ends: dict[str, list[tuple[str, ...]]] = {}
            for name, operator in self.operators.items():
                ends[name] = [(*path, name) for up in operator.inputs for path in ends[up]] or [(name,)]
            routes = tuple(path for sink in self.sinks for path in ends[sink])
            object.__setattr__(self, "_routes", routes)
        return routes

    # -- streams -----------------------------------------------------------------------------------------------------

    def to_networkx(self) -> Any:
        """Convert to a ``networkx.DiGraph``: operators with ``kind`` and ``load``, streams with name and bandwidth."""
        import networkx as nx  # noqa: PLC0415 - only analysis needs it

        graph = nx.DiGraph(name=self.name)
        for name, operator in self.operators.items():
            graph.add_node(name, kind=operator.kind, load=self.load(name))
        for name, operator in self.operators.items():
            for port, up in enumerate(operator.inputs):
                graph.add_edge(up, name, port=port, stream=self.stream_name(up), bandwidth=self.bandwidth(up))
        return graph

    def schema(self, operator: str) -> dict[str, str]:
        """Columns of the operator's stream with their types."""
        return dict(self._schemas[operator])

    def window(self, operator: str) -> dict[str, Any] | None:
        """The window of the operator's stream in normal form, or None."""
        window = self._windows[operator]
        return None if window is None else dict(window)

    def stream_name(self, operator: str) -> str:
        """Canonical name of the operator's stream (section 2.2.1), such as ``count(filter[...](packets))``.

        Equal work has equal names: they do not contain ids, profiles and QoS; parameters are in normal form and omitted
        at their default; inputs of commutative operators are in order; filters and projections one after another are
        one of each. A sink's stream has the name of its input.
        """
        return self._named()[operator][0]

    def stream_key(self, operator: str) -> str:
        """Key of the operator's stream on the ring: the leading 32 hex digits of the SHA-1 of its name."""
        return self._named()[operator][1]

    def stream_form(self, operator: str) -> StreamForm:
        """What the rows of the operator's stream are, by which it is named: of which stream, and which of its rows."""
        return self._named()[operator][2]

    def work_name(self, operator: str) -> str:
        """Name of what the operator itself does, for its profile: streams of equal names may be made in other steps."""
        asked = self.operators[operator]
        if asked.kind in (PART, TAP):
            return self.stream_name(operator)
        return work_name(asked, [self.stream_name(up) for up in asked.streams])

    def _named(self) -> dict[str, tuple[str, str, StreamForm]]:
        names = self._names
        if names is None:
            names = {}
            for each in self.operators.values():
                if each.kind == PART:
                    # where an operator runs is no part of its work: a stream has the same name on Spark and on peers
                    # (test_a_placed_plan_is_a_plan_of_the_same_streams)
                    form = part_of(each)[0].stream_form(each.id)
                elif each.kind == TAP:
                    name, stated = each.params["name"], each.params.get("form")
                    form = StreamForm(name) if stated is None else msgspec.convert(stated, StreamForm)
                else:
                    inputs = [names[up][2] for up in each.streams]
                    form = stream_form(each, inputs, self._schemas[each.streams[0]] if inputs else ())
                names[each.id] = form.name, stream_key(form.name), form
            object.__setattr__(self, "_names", names)
        return names

    # -- resources ---------------------------------------------------------------------------------------------------

    def input_rate(self, operator: str) -> float:
        """Input rate of the operator, tuples/s; for a source, its output rate."""
        return self._flow()[operator].taken

    def rate(self, operator: str) -> float:
        """Rate of the operator's stream, tuples/s; for a sink, the rate of its results."""
        return self._flow()[operator].given

    def selectivity(self, operator: str) -> float:
        """Tuples out over tuples in: as profiled, or the default of its kind."""
        flow = self._flow()[operator]
        return flow.given / flow.taken if flow.taken else 1.0

    def basis(self, operator: str) -> str:
        """Origin of the rate of a source, or of a selectivity: ``stated``, ``rows``, ``profile`` or ``assumed``."""
        return self._flow()[operator].basis

    def tuple_bytes(self, operator: str) -> float:
        """Mean bytes of a tuple of the operator's stream."""
        return self._flow()[operator].tuple_bytes

    def processing_time(self, operator: str) -> float:
        """Processing time τ of a tuple, seconds; beside active replicas that of exact sums, unless a cost is stated."""
        asked = self.operators[operator]
        if asked.cost is not None:
            return asked.cost  # of a part: a micro-batch
        exact = asked.kind == "aggregate" and sums_exactly(asked, self.operators.values(), self.qos)
        factor = exact_sums_factor(asked, self._schemas[asked.inputs[0]]) if exact else 1.0
        return KINDS[asked.kind].cost * factor

    def on_spark(self, operator: str) -> bool:
        """Whether the operator is a part on Spark, which no thread of a peer executes."""
        return self.operators[operator].kind == PART

    def load(self, operator: str) -> float:
        """Processing requirement p_o of the operator, cores."""
        return self._flow()[operator].load

    def bandwidth(self, operator: str) -> float:
        """Bandwidth requirement b_s of the operator's stream, bytes/s."""
        flow = self._flow()[operator]
        return flow.given * flow.tuple_bytes

    def _flow(self) -> dict[str, OperatorFlow]:
        found = self._flows
        if found is None:
            found = flows(self.operators, self._schemas, self._windows, self.sizes, self.processing_time, part_of)
            object.__setattr__(self, "_flows", found)
        return found

    # -- as bytes, YAML, picture -------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Encode the plan as MessagePack for :meth:`from_bytes`, with what its author stated, and :attr:`sizes`."""
        data = self._bytes
        if data is None:
            data = self._encoded(self._stated, self.sizes)
            object.__setattr__(self, "_bytes", data)
        return data

    def _encoded(self, stated: Mapping[str, Collection[str]], sizes: Mapping[str, SourceSize]) -> bytes:
        checked = Checked(self.operators, self._schemas, self._windows)
        return plan_encoding.encode(self.name, self.qos, checked, stated, sizes, self.transition)

    def _identity(self) -> bytes:
        """Bytes by which plans are compared: without what authors wrote at a default, and what is known of rows."""
        return self._encoded({}, {}) if self._stated or self.sizes else self.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Plan:
        """Decode the plan in ``data``; a cache holds the plans decoded last.

        This validates the structure (kinds, ids, order, types of fields). The author's builder has validated the
        expressions; :meth:`validate` and the engine that compiles them do so again.

        Raises
        ------
        PlanError
            If ``data`` is not a valid plan.
        """
        return _decoded.of(bytes(data))

    def to_yaml(self) -> str:
        """Write YAML of format version 1, with units, which :meth:`from_yaml` reads as an equal plan.

        Values that equal their default are written if the author of the plan stated them.
        """
        from synergy_nb.plan.text.plan_file import write  # noqa: PLC0415 - peers never read YAML

        return write(self.name, self.qos, self.operators.values(), self._stated)

    def to_python(self) -> str:
        """Write Python that builds an equal plan as the variable ``query``, with ``source``, ``plan`` and streams.

        Values that equal their default are written if the author of the plan stated them. Rows of sources made by
        ``source(rows)`` are not part of it; ``submit(..., feeds={name: rows})`` gives them.

        Examples
        --------
        >>> from synergy_nb import source
        >>> print(source("packets").filter("bytes > 40").sink("large", delay="2 s").to_python(), end="")
        from synergy_nb import source
        <BLANKLINE>
        packets = source("packets")
        filter_ = packets.filter("bytes > 40")
        query = filter_.sink("large", delay="2 s")
        """
        from synergy_nb.plan.text.python_source import python_source  # noqa: PLC0415 - peers never write Python

        return python_source(self.name, self.qos, self.operators, self._stated)

    def to_sql(self) -> str:
        """Write the query in SQL whose stream is that of the plan's sink: ``sql(text)`` makes a stream of equal name.

        The text does not hold the sink and its QoS requirement: ``sql(text).sink("large", delay="2 s")`` states them.

        Raises
        ------
        PlanError
            If SQL cannot say an operator, which the error names, or if the plan has several sinks.

        Examples
        --------
        >>> from synergy_nb import source
        >>> print(source("packets").filter("bytes > 40").project("link").sink("large").to_sql(), end="")
        SELECT link
        FROM packets
        WHERE bytes > 40
        """
        from synergy_nb.plan.text.sql_text import sql_text  # noqa: PLC0415 - peers never write SQL

        return sql_text(self.operators, self._schemas)

    @classmethod
    def from_yaml(cls, text: str) -> Plan:
        """Read the plan in a YAML text of format version 1.

        Raises
        ------
        PlanError
            If the plan is invalid; it holds all problems.
        """
        from synergy_nb.plan.text.plan_file import read  # noqa: PLC0415 - peers never read YAML

        written = read(text)
        problems = written.problems
        requirement = check_qos(written.qos, problems)
        checked = check(written.operators, problems) if written.operators is not None else None
        if checked is not None:
            check_together(checked, requirement, problems)
        if problems or checked is None:
            raise PlanError(written.named(problems))
        plan = cls(written.operators or (), written.qos, written.name).stating(written.stated)
        for sink in plan.sinks:
            name = plan.operators[sink].params.get("name")
            if notice := named_like_a_file(f"operator {sink!r}, name: {name!r}", name):
                warnings.warn(notice, stacklevel=2)
        return plan

    def validate(self) -> list[Problem]:
        """Validate the plan again and return all problems; none for a plan that this process has built."""
        problems: list[Problem] = []
        requirement = check_qos(msgspec.structs.asdict(self.qos), problems)
        checked = check(list(self.operators.values()), problems)
        check_together(checked, requirement, problems)
        if not problems and (checked.schemas, checked.operators) != (self._schemas, self.operators):
            problems.append(
                Problem("", "schemas", "other columns or parameters", "those that follow from its operators")
            )
        return problems

    def to_text(self, details: Mapping[str, str] | None = None, states: Mapping[str, str] | None = None) -> str:
        """Draw the plan for a terminal; ``details`` (such as peers) and ``states`` are by id, as for :meth:`to_svg`."""
        from synergy_nb.drawing import graphs  # noqa: PLC0415 - only people need pictures

        return graphs.text(*_picture(self, details, states))

    def to_svg(self, details: Mapping[str, str] | None = None, states: Mapping[str, str] | None = None) -> str:
        """Draw the plan as a self-contained SVG.

        Parameters
        ----------
        details
            Second line of a node, by id, such as the peer that it runs on; None: what the operator does.
        states
            State of a node by id, an element of ``drawing.STATES``.
        """
        from synergy_nb.drawing import graphs  # noqa: PLC0415 - only people need pictures

        return graphs.svg(*_picture(self, details, states), title=f"query plan {self.name}")

    def to_png(self) -> bytes:
        """Draw the plan as PNG, on white, twice as fine as the SVG.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        from synergy_nb.drawing.graph_png import png  # noqa: PLC0415 - only people need pictures

        return png(*_picture(self, None, None), title=f"query plan {self.name}")

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return f"<div>{self.to_svg()}</div>"  # JupyterLab cuts the image of an SVG off in a narrow page

    def __repr__(self) -> str:
        return f"<Plan {self.name!r}: {counted(len(self.operators), 'operator')}, {', '.join(self.operators)}>"

    def __str__(self) -> str:
        return self.to_text()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return False
        return self.to_bytes() == other.to_bytes() or self._identity() == other._identity()

    def __hash__(self) -> int:
        # of what equality compares: equal plans may have different bytes
        # (test_what_the_author_stated_at_a_default_stays_in_the_bytes_and_does_not_make_another_plan)
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return Plan.from_bytes, (self.to_bytes(),)


class DecodedPlans:
    """The plans that were decoded last: so many that their bytes are at most ``most``, and the very last in any case.

    A decoded plan takes about eight times the memory of its bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()
        self._lock = Lock()  # plans are decoded in threads, too

    def of(self, data: bytes) -> Plan:
        """Return the plan that is encoded as ``data``; raise ``PlanError`` if there is none."""
        with self._lock:
            plan = self._plans.get(data)
            if plan is not None:
                self._plans.move_to_end(data)
                return plan
        name, qos, checked, stated, sizes, transition = plan_encoding.decode(data)
        plan = Plan.composed(name, qos, checked, sizes, transition).stating(stated)
        with self._lock:
            if data not in self._plans:
                self._bytes += len(data)
            self._plans[data] = plan
            while self._bytes > self._most and len(self._plans) > 1:
                self._bytes -= len(self._plans.popitem(last=False)[0])
        return plan


# of plans of a kilobyte those of 500 applications; a number of plans would be no bound of memory
_decoded: Final = DecodedPlans(1 << 19)


def part_of(operator: Operator) -> tuple[Plan, tuple[str, ...]]:
    """The plan of a part on Spark, and the ids of the part's operators, inputs before their readers."""
    return Plan.from_bytes(operator.params["plan"]), tuple(operator.params["members"])


def _picture(plan: Plan, details: Mapping[str, str] | None, states: Mapping[str, str] | None) -> tuple[Any, Any]:
    """Make nodes and edges for :mod:`synergy_nb.drawing.graphs`."""
    from synergy_nb.drawing.graphs import Node  # noqa: PLC0415 - only people need pictures
    from synergy_nb.plan.text import operator_texts  # noqa: PLC0415 - as above

    nodes = []
    for name, operator in plan.operators.items():
        own = "on Spark" if operator.kind == PART else operator.params["name"] if operator.kind in ("sink", TAP) else ""
        own = own or own_name(operator)
        label = name if operator.kind in (name, "source") else f"{name} ({operator.kind})"
        columns = ", ".join(f"{column} {kind}" for column, kind in plan.schema(name).items())
        tooltip = f"{own}\ncolumns: {columns}\n{plan.rate(name):.4g} tuples/s, {counted(plan.load(name), 'core')}"
        does = operator_texts.brief(operator) if details is None else ""
        at = f"at {operator.at}" if operator.at else ""
        detail = (details or {}).get(name) or ", ".join(filter(None, (does, at, operator.availability)))
        nodes.append(Node(name, label, detail=detail, state=(states or {}).get(name, ""), tooltip=tooltip))
    return nodes, [(up, name) for name, operator in plan.operators.items() for up in operator.inputs]
