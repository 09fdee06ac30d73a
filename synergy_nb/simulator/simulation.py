"""A simulated cluster for notebooks: many whole peers in virtual time, with the methods of a live cluster.

The peers execute the same code as those on Dask workers. Time passes only within calls such as :meth:`Simulation.run`,
and a run depends on nothing but the seed and the calls.

Examples
--------
>>> from synergy_nb.plan import source
>>> simulation = Simulation(peers=8, seed=1)
>>> packets = source("packets", seed=1, rate="200 tuples/s", duration="2 s")
>>> application = simulation.submit(packets.filter("bytes > 1000").sink(delay="2 s"))
>>> application.status, application.results().height > 50, application.status
('running', True, 'finished')
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly.peer_options import check_positive, peer_config
from synergy_nb.connectors import POLLED
from synergy_nb.connectors.secret_values import given_secrets
from synergy_nb.control import driver_messages as driver
from synergy_nb.dataflow.functions.calls import found
from synergy_nb.dataflow.tuples import END, START
from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import user_facing
from synergy_nb.events.application_states import ENDED, LASTING, Status
from synergy_nb.events.journal import Journal
from synergy_nb.events.table import Events
from synergy_nb.lifecycle.changes.knobs import checked_operator
from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.lifecycle.requests.origins import CLIENT, ends_of, nearest
from synergy_nb.lifecycle.requests.submission import check_submission
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan, PlanError
from synergy_nb.plan.checks.memory_estimates import check_memory, on_peers
from synergy_nb.plan.checks.requirements import check_discipline
from synergy_nb.plan.derived.placement_modes import placement_of
from synergy_nb.plan.derived.plan_changes import PlanChange
from synergy_nb.plan.derived.source_readers import with_readers_apart
from synergy_nb.plan.operators.destinations import place_of
from synergy_nb.plan.operators.sources import OWN, is_endless
from synergy_nb.plan.terms.units import duration, type_of
from synergy_nb.recording.descriptions import describe
from synergy_nb.recording.moments import Replay
from synergy_nb.recording.replay import Step
from synergy_nb.recording.stage import RING_EVENTS
from synergy_nb.recording.stage import replay as replayed
from synergy_nb.reporting.application_list import Applications, chosen_id
from synergy_nb.reporting.cluster_errors import ClosedClusterError, ClusterError, NotAdmitted
from synergy_nb.reporting.formatting import seconds as span
from synergy_nb.reporting.one_sided import ONLY_LIVE, OneSided
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.plan_trials import PlanTrial, trial_of
from synergy_nb.reporting.replacements import promises, quiet_sources
from synergy_nb.simulator._asynchronous_rows import InTurn
from synergy_nb.simulator._knobs import SimulatedKnobs
from synergy_nb.simulator._network_choice import peers_named, topology_of
from synergy_nb.simulator._peer_changes import PeerChanges
from synergy_nb.simulator._simulation_display import displayed
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.composed_world import STABLE, ComposedWorld
from synergy_nb.simulator.scripted_faults import Faults
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.traces.rows import check_rows, row_reader
from synergy_nb.traces.trace_sizes import sized_by_traces, sizes_of_rows

__all__ = ["Simulation"]

Network: TypeAlias = Any
"""``"wide area"``, ``"local"``, a matrix or the path of one, the name of a published network, or a Topology."""
VIEW_INTERVAL: Final = 0.25  # virtual seconds between two updates of views
READABLE: Final = ("__iter__", "__aiter__", "collect")  # a table or an iterable has one of these
FEW_PEERS: Final = 50  # number of peers up to which the failure detector pings as often as on live peers


class Simulation(PeerChanges, SimulatedKnobs, OneSided):
    """Peers in virtual time, with the methods of a :class:`~synergy_nb.Cluster`.

    Parameters
    ----------
    peers
        Number of peers, named ``peer-1`` and so on, or their names.
    network
        Network between the peers: ``"wide area"``, a generated transit-stub network; ``"local"``, 1 ms between any two;
        round-trip times in ms, as a square array or an ``.npz`` file with ``rtt_ms``; a published network such as
        ``"sndlib/germany50"``, which needs the package ``topohub``; or a ``Topology``.
    cores
        Processing capacity of each peer, in cores; None: 0.5, 1 or 2, as in the dissertation (section 2.4.2).
    bandwidth
        Greatest bandwidth of each virtual link that may be promised, bytes/s.
    loss, duplication, reordering
        Probabilities that a message is lost, that it arrives twice, and that later ones overtake it.
    secrets
        Passwords, tokens and keys by the name that plans use for them: as ``bytes``, or where they are,
        ``"env:VARIABLE"``, ``"file:PATH"`` or ``"keyring:SERVICE/USER"``.
    composition
        Parameters of composition, such as the probing ratio.
    discipline
        Order in which peers execute waiting tuples: ``"fcfs"``, ``"edf"`` or ``"least_slack"``.
    hotspots
        Treatment of hot spots: ``"on"``, ``"observe"`` or ``"off"``, or all parameters as a ``HotSpotConfig``.
    replication
        Parameters of the streams between active replicas, as a ``ReplicationConfig``.
    overload
        Whether peers admit plans that exceed their capacity or break limits, to show the consequences.
    patience
        Time for which an application waits for a silent peer that nothing can replace, in seconds or as ``"1 min"``.
    seed
        Seed of the network, of the peers and of all faults.

    Attributes
    ----------
    world : ComposedWorld
        The peers, their data paths and the network.
    journal : Journal
        The events of all peers.
    closed : bool
        Whether time does not pass any more, see :meth:`close`.

    Examples
    --------
    >>> from synergy_nb import Simulation, source
    >>> simulation = Simulation(8, seed=1)
    >>> packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s")
    >>> application = simulation.submit(packets.filter("bytes > 1000").sink(delay="10 s"))
    >>> application.results().height, application.status, application.graph["filter"]
    (794, 'finished', 'peer-4')
    """

    _elsewhere = ONLY_LIVE

    @user_facing
    def __init__(
        self,
        peers: int | Sequence[str] = 100,
        *,
        network: Network = "wide area",
        cores: float | None = None,
        bandwidth: float = 125e6,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: float = 0.0,
        secrets: Mapping[str, bytes | str] | None = None,
        composition: CompositionConfig | None = None,
        discipline: str = "fcfs",
        hotspots: str | HotSpotConfig = "on",
        replication: ReplicationConfig | None = None,
        overload: bool = False,
        patience: float | str = 60.0,
        seed: int = 0,
    ) -> None:
        check_positive(cores=cores, bandwidth=bandwidth)
        for field, value in (("loss", loss), ("duplication", duplication), ("reordering", reordering)):
            if not isinstance(value, int | float) or not 0.0 <= value < 1.0:
                raise ValueError(f"{field}: {value!r}; expected a probability from 0 to less than 1")
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ValueError(f"seed: {seed!r}; expected an integer of at least 0")
        topology = topology_of(peers_named(peers), network, cores, seed)
        config = peer_config(bandwidth, composition, hotspots, replication, overload, patience)
        config = msgspec.structs.replace(config, pings=config.pings * max(1.0, len(topology) / FEW_PEERS))
        faults = Faults(loss, duplication, reordering, delay=(0.0, 0.0), deployment=0.0)
        order = check_discipline("discipline", discipline)
        self.world = ComposedWorld(seed, topology, config, faults, discipline=order, secrets=given_secrets(secrets))
        self.world.run(STABLE)
        self.world.noted.noting = True
        self._applications, self._listeners = dict[str, SimulatedApplication](), list[Callable[[], None]]()
        self._count = self._commands = 0
        self.closed = False

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all applications; time does not pass any more. Results, events and accounts remain readable."""
        if self.closed:
            return
        try:
            for application in self._applications.values():
                if application.status in LASTING:
                    self.world.end(application.id)
                    self.until(lambda: application.status in ENDED, 10.0)  # noqa: B023 - called at once
                    self.world.close_programs(application.id)
        finally:
            self.closed = True
            self._call_listeners()
            self._listeners.clear()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedClusterError("simulation")

    # -- peers -------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual time in seconds; the ring of the peers has settled by second 12."""
        return self.world.now

    @property
    def journal(self) -> Journal:
        """The events of all peers."""
        return self.world.control.journal

    @property
    def peers(self) -> dict[str, str]:
        """Peer name to address, which are the same here; without peers that were killed or have left."""
        return {name: name for name in self.world.topology.peers if not self.world.dead(name)}

    @property
    def names(self) -> dict[str, str]:
        """Peer address to name, also of peers that were killed or have left."""
        return {name: name for name in self.world.topology.peers}

    def states(self) -> dict[str, PeerState | None]:
        """Return the state of each peer; None for one that is suspended."""
        self._check_open()
        return {name: self.world.peer_state(name) for name in self.peers}

    def events(self, subject: str = "") -> Events:
        """Return the events of all peers by time; those about ``subject`` if it is given. ``table()`` makes a table."""
        journal = self.journal
        return Events(journal.about(subject) if subject else journal)

    # -- time --------------------------------------------------------------------------------------------------------

    @user_facing
    def run(self, seconds: float | str) -> Simulation:
        """Let virtual time pass; return the simulation, so that a notebook shows it.

        Parameters
        ----------
        seconds
            Time in seconds or as ``"2 min"``.
        """
        self.until(lambda: False, duration("seconds", seconds, least=0.0))
        return self

    @user_facing
    def until(self, condition: Callable[[], bool], seconds: float | str = 60.0) -> bool:
        """Let virtual time pass until a condition holds; return whether it does.

        Parameters
        ----------
        condition
            Function that returns whether the condition holds; it is called after each event.
        seconds
            Longest time, in seconds or as ``"2 min"``.
        """
        self._check_open()
        if not callable(condition):
            raise ClusterError(f"condition: {condition!r}; expected a function, such as lambda: application.status ...")
        end = self.now + duration("seconds", seconds, least=0.0)
        while not condition() and self.now < end:
            self.world.until(condition, min(VIEW_INTERVAL, end - self.now))
            self._call_listeners()
        self._call_listeners()
        return condition()

    @user_facing
    def step(self, messages: int = 1) -> list[str]:
        """Let virtual time pass until peers have handled a number of messages of requests; return these in words.

        Messages that maintain the ring and the directory do not count. Fewer messages are returned if a minute of
        virtual time passes.

        Parameters
        ----------
        messages
            Number of messages to wait for.
        """
        if isinstance(messages, bool) or not isinstance(messages, int) or messages < 1:
            raise ClusterError(f"messages: {messages!r}; expected a number of messages, at least 1")
        noted = self.world.noted
        before = noted.messages
        self.until(lambda: noted.messages >= before + messages, 60.0)
        found = (
            [each for each in noted.steps if each.arrived][-(noted.messages - before) :]
            if noted.messages > before
            else []
        )
        return [_step_text(each) for each in found]

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each quarter of a virtual second; return a function that ends this."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave

    def _call_listeners(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # -- applications ------------------------------------------------------------------------------------------------

    @property
    def applications(self) -> Applications[SimulatedApplication]:
        """All applications that were admitted: id to application, running ones first; a notebook shows a table."""
        listed = {name: each.listed for name, each in self._applications.items()}
        return Applications(listed, self._applications, owner="simulation")

    @user_facing
    def application(self, application: str) -> SimulatedApplication:
        """Return an application by its id or the name of its plan; if none of that name runs, the last that has ended.

        Parameters
        ----------
        application
            Id of the application, or the name of its plan if exactly one running application has that name.

        Raises
        ------
        UnknownApplication
            If there is no such application.
        ClusterError
            If several that run have that name; the message names them.
        """
        listed = {name: each.listed for name, each in self._applications.items()}
        return self._applications[chosen_id(application, listed, ended=True)]

    @user_facing
    def submit(
        self,
        plan: Plan,
        *,
        origin: str | None = None,
        feeds: Mapping[str, Any] | None = None,
        placement: str = "composed",
        spread: bool = False,
        timeout: float | str = 90.0,
    ) -> SimulatedApplication:
        """Let the peers compose and start a plan; virtual time passes until they have decided.

        Parameters
        ----------
        plan
            Query plan, as ``.sink(...)`` returns it.
        origin
            Peer at which the plan is submitted: its name, or ``"source"``, ``"sink"`` or ``"near"`` for the one with
            the least delays to the plan's sources, sinks, or all of them. By default the peers take turns.
        feeds
            Rows of each source with connector ``python``: a table, or an iterable of dictionaries or tables. They enter
            at the rate that the source states.
        placement
            Algorithm that selects peers for components: ``composed`` or ``resilient``.
        spread
            Whether to prefer the graphs with the most peers, as a light plan is otherwise executed by few.
        timeout
            Longest virtual time until composition is decided, in seconds or as ``"2 min"``; silent peers have a minute.

        Raises
        ------
        NotAdmitted
            If composition was refused; the message names the failed conditions and peers; ``explain()`` has the rest.
        ClusterError
            If a name is unknown, or a source cannot be simulated.
        """
        application = self._admitted(self._submit_and_wait(plan, origin, feeds or {}, placement, spread, timeout))
        self._applications[application.id] = application
        return application

    def _admitted(self, application: SimulatedApplication) -> SimulatedApplication:
        if application.status == Status.REJECTED:
            reason = f"{application.plan.name}: {application.reason}"
            raise NotAdmitted(reason, application.explain(), application.replay)
        return application

    def _replace(self, application: SimulatedApplication, plan: Plan, change: PlanChange, patience: float) -> None:
        """Run a plan beside an application until it has caught up; then the handle is one of the new application.

        ``patience``: virtual time that it may take, seconds.
        """
        old, world = application.id, self.world
        new = self._admitted(
            self._submit_and_wait(plan, application.origin, {}, "composed", False, patience, beside=old)
        )
        before = {sink: world.results[old, sink] for sink in plan.sinks}
        after = {sink: world.results[new.id, sink] for sink in plan.sinks}
        both = [*before.values(), *after.values()]
        ends = self.now + patience

        def until(enough: Callable[[CollectedResults], bool]) -> None:
            def ended() -> bool:
                return not LASTING.issuperset((application.status, new.status))

            self.until(lambda: all(map(enough, both)) or ended(), ends - self.now)
            if not all(map(enough, both)):
                states = f"{old} is {application.status}, the new plan {new.status}"
                give_up(f"the new plan has not caught up: {states}{quiet_sources(plan, earlier, made())}")

        def made() -> list[tuple[str, int]]:
            states = self.states().values()
            return promises(plan, (each for state in states if state is not None for each in state.components))

        def promised() -> list[int]:
            found = [until for _, until in made()]
            if max(found, default=END) == END:
                give_up("its streams have ended")
            return found

        def give_up(why: str) -> NoReturn:
            new.stop()
            raise ClusterError(f"{old} goes on as before: {why}")

        earlier = made()
        until(lambda results: results.until > START)  # then it has joined all streams
        before_that = max(promised())
        until(lambda results: results.until > before_that)  # what they gave before is promised now
        at = change.point([*promised(), *(each.latest for each in before.values())])
        until(lambda results: results.until > at)
        for sink, results in before.items():
            results.go_on_with(after[sink], at)
            world.results[new.id, sink] = results
            world.results[old, sink] = after[sink]
        former = SimulatedApplication(self, old, application.plan)
        application._become(new.id, plan)
        self._applications[new.id], self._applications[old] = application, former
        former.stop()

    @user_facing
    def check(
        self,
        plan: Plan,
        *,
        origin: str | None = None,
        placement: str = "composed",
        spread: bool = False,
        timeout: float | str = 90.0,
    ) -> PlanTrial:
        """Find the graph that composition would choose for a plan, without starting it.

        Probes reserve as for a submission, and all that they have reserved is released.

        Parameters
        ----------
        plan
            Query plan, as ``.sink(...)`` returns it; its sources need no rows.
        origin, placement, spread, timeout
            Origin, algorithm and time limit, see :meth:`submit`.
        """
        fed = {plan.operators[each].params["name"] for each in plan.sources if "name" in plan.operators[each].params}
        tried = self._submit_and_wait(plan, origin, dict.fromkeys(fed, ()), placement, spread, timeout, trial=True)
        roles = self.world.synergy[tried.origin].requests[tried.id].roles
        return trial_of(tried.plan, roles.peers, roles.backups, tried.reason, self.events(tried.id), self.names)

    def _submit_and_wait(
        self, plan: Plan, origin: str | None, feeds: Mapping[str, Any], placement: str, spread: bool,
        timeout: float | str, *, trial: bool = False, beside: str = "",
    ) -> SimulatedApplication:  # fmt: skip
        """Submit a plan, and let virtual time pass until it is decided."""
        patience = duration("timeout", timeout)
        living, names, plan = list(self.peers), self.names, with_readers_apart(plan)
        self._check_open()
        if not living:
            raise ClusterError("peers: none of this simulation lives any more; expected at least one")
        chosen, rows = check_submission(plan, origin, feeds, names, living, "a simulation has none", local=True)
        for operator, given in rows.items():
            if hasattr(given, "source_columns") or not any(hasattr(given, name) for name in READABLE):
                raise ClusterError(
                    f"operator {operator!r}: feeds: {type_of(given)}; expected a table or an iterable of rows, "
                    "as virtual time does not wait for a program that pushes rows"
                )
        for operator in plan.sources:
            params = plan.operators[operator].params
            if params["connector"] in (*POLLED, OWN) and is_endless(params):
                raise ClusterError(
                    f"operator {operator!r}: connector: {params['connector']!r}, which waits for what comes; expected "
                    "a source that ends, such as a trace or a directory with ends=True: virtual time waits for nobody"
                )
        rows = {operator: check_rows(given, row_reader(plan, operator)) for operator, given in rows.items()}
        rows = {name: InTurn(each) if isinstance(each, AsyncIterable) else each for name, each in rows.items()}
        for sink in plan.sinks:
            to = plan.operators[sink].params.get("to")
            if to is not None and not trial:
                raise ClusterError(
                    f"operator {sink!r}: to: {place_of(to)}; expected no destination, as a simulation writes nothing: "
                    "results() returns the rows"
                )
        try:
            mode = placement_of(plan, placement, spread=spread, peers=len(living))
        except ValueError as error:
            raise ClusterError(str(error)) from None
        self._send_contents(plan)
        at = self._origin(plan, chosen, living)
        self._count += 1
        name = f"{plan.name}-{self._count}"
        number = self._command_number()
        sized = sized_by_traces(plan.sized(sizes_of_rows(plan, plan.rows if trial else rows)))
        try:
            check_memory(sized, on_peers(sized, spark=False), math.inf)
        except PlanError as error:
            raise ClusterError(f"{at}: {error}") from None
        self.world.submit(name, sized, at, rows, mode, number, trial=trial, beside=beside)
        if (answer := self.world.answers.get(number)) is not None and answer.refusal:
            raise ClusterError(f"{plan.name}: {answer.refusal}")
        application = SimulatedApplication(self, name, plan)
        if not self.until(lambda: application.status != Status.COMPOSING, patience):
            application.stop()
            raise ClusterError(f"{plan.name}: not decided after {span(patience)} of virtual time")
        return application

    def _send_contents(self, plan: Plan) -> None:
        """Have all peers offer the functions and tables of a plan, as a client of live peers does.

        Raises ``ClusterError`` if one is not known here.
        """
        for operator, each in plan.operators.items():
            if "function" in each.params:
                try:
                    found(each.params["function"])
                except ValueError as error:
                    raise ClusterError(f"operator {operator!r}: {error}") from None
        needed = tuple(needed_contents(plan))
        if needed and self.world.offer(needed):
            self.until(self.world.all_confirmed, 60.0)

    def _command_number(self) -> int:
        """Number of a new command to a peer, by which its answer is found."""
        self._commands += 1
        return self._commands

    def _origin(self, plan: Plan, origin: str | None, living: Sequence[str]) -> str:
        """Return the peer at which a plan is submitted."""
        if origin in self.world.topology.peers:
            return self._living("origin", str(origin))
        start = self._count % len(living)
        turn = [*living[start:], *living[:start]]
        if origin in (None, "client"):
            return turn[0]
        offers = {name: self.world.synergy[name].config.components for name in turn}
        ends = [end for end in ends_of(plan, str(origin), offers, self.names) if end is not CLIENT]
        delay = self.world.topology.delay
        return nearest(turn, ends, {}, lambda one, other: 2.0 * delay(one, other))[0]

    @user_facing
    def stop(self, application: str | SimulatedApplication) -> None:
        """End an application, given itself or its id."""
        self._found(application).stop()

    @user_facing
    def move(self, application: str | SimulatedApplication, operator: str, to: str) -> None:
        """Move a component to another peer while its application runs; virtual time passes until it has moved.

        Parameters
        ----------
        application
            Application or its id.
        operator
            Operator id of the component.
        to
            Name of the peer to move it to.

        Raises
        ------
        ClusterError
            If there is no such application, operator or peer, or the component cannot move; the message says why.
        """
        found = self._found(application)
        checked_operator(found.plan, operator)
        self._living("to", to)
        refusal = self._command(found, lambda number: driver.MoveComponent(found.id, operator, to, number))
        if refusal:
            raise ClusterError(f"{found.id}: {operator} did not move: {refusal}")

    def _command(
        self, application: SimulatedApplication, command: Callable[[int], driver.HoldApplication | driver.MoveComponent]
    ) -> str:
        """Give the peer that leads an application a command, and return why it was refused; empty if it was not.

        ``command``: function that makes the message, with the number of the command.
        """
        number, answers = self._command_number(), self.world.answers
        self.world.command(application.id, command(number))
        self.until(lambda: number in answers or application.status in ENDED, 150.0)
        return answers[number].refusal if number in answers else application.status

    def _found(self, application: str | SimulatedApplication) -> SimulatedApplication:
        """Return an application, given itself, its id, or the name of its plan if one running application has it."""
        named: Any = application if isinstance(application, str) else getattr(application, "id", None)
        listed = {name: each.listed for name, each in self._applications.items()}
        return self._applications[chosen_id(named, listed)]

    # -- accounts ----------------------------------------------------------------------------------------------------

    @user_facing
    def replay(self, application: str | SimulatedApplication) -> Replay:
        """Return the replay of a request: all messages that peers handled for it, also if it was not admitted.

        Parameters
        ----------
        application
            Application, or the id of a request.
        """
        named = application if isinstance(application, str) else getattr(application, "id", "")
        if named not in self.world.plans:
            named = self._found(application).id
        topology = self.world.topology
        replay = replayed(
            named,
            self.world.plans[named],
            self.world.noted.steps,
            names=self.names,
            delays=(topology.peers, topology.delays()),
            cores=topology.cores,
            ring_events=[event for event in self.journal if isinstance(event, RING_EVENTS)],
            noted=True,
            made_from="every message that the simulated peers handled for it",
        )
        return replay.completed(self.world.origin(named), self.world.status(named) or "undecided")

    def watch(self) -> Any:
        """Return the live view of all applications and peers, as ``watch(simulation)`` does."""
        return view_of("watch", self)

    # -- displays ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return displayed(self.world, self._applications.values(), closed=self.closed)

    def _repr_html_(self) -> str:
        return displayed(self.world, self._applications.values(), closed=self.closed, as_page=True)


def _step_text(step: Step) -> str:
    """Return a step in words: time, sender and receiver, message."""
    message = step.received
    assert message is not None
    way = f"{step.deliveries[0].sender or 'driver'} → {step.life.name}"
    return f"{step.at:.4f} s  {way}  {type(message).__name__}  {describe(message)}".rstrip()
