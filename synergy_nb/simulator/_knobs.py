"""Knobs of a simulation: what may be changed while applications run."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from synergy_nb.control.cuts import Cut
from synergy_nb.events.application_states import LASTING
from synergy_nb.lifecycle.changes.knobs import Knobs
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.simulator.composed_world import ComposedWorld
from synergy_nb.simulator.simulated_application import SimulatedApplication

FOREVER: Final = 1e9  # virtual seconds of a cut without an end


class SimulatedKnobs(Knobs[SimulatedApplication]):
    """Changes of a running simulation; :class:`~synergy_nb.simulator.simulation.Simulation` has them."""

    world: ComposedWorld

    @abstractmethod
    def _check_open(self) -> None:
        """Raise an error if the simulation is closed."""

    def _kill(self, peer: str) -> None:
        self.world.crash(peer)

    def _suspend(self, peer: str) -> None:
        self.world.suspend(peer)

    def _resume(self, peer: str) -> None:
        self.world.resume(peer)

    def _cut(self, peer: str, other: str, seconds: float | None, how: Cut) -> None:
        self.world.cut(peer, other, FOREVER if seconds is None else seconds, how)

    def _mend(self, peer: str, other: str) -> None:
        self.world.mend(peer, other)

    def _load(self, peer: str, share: float) -> None:
        self.world.set_load(peer, share)

    def _pace(self, application: SimulatedApplication, source: str, factor: float) -> None:
        _check_runs(application)
        self.world.set_pace(application.id, source, factor)

    def _cost(self, application: SimulatedApplication, operator: str, seconds: float) -> None:
        _check_runs(application)
        self.world.cost_of[application.id, operator] = seconds

    def _living(self, field: str, peer: str) -> str:
        """Return the name of a peer that lives."""
        self._check_open()
        known = self.world.topology.peers
        if peer not in known:
            hint = did_you_mean(peer, known)
            shown = ", ".join(known[:8]) + (f" ... {known[-1]}" if len(known) > 8 else "")
            raise ClusterError(f"{field}: {peer!r}; expected a peer of this simulation: {shown}{hint}")
        if self.world.dead(peer):
            ended = "has left" if peer in self.world.left else "was killed"
            raise ClusterError(f"{field}: {peer!r} {ended}; expected a peer that lives")
        return peer


def _check_runs(application: SimulatedApplication) -> None:
    """Raise a ClusterError, as a cluster does, if an application does not run."""
    if application.status not in LASTING:
        raise ClusterError(f"application: {application.id!r} does not run; expected one that runs")
