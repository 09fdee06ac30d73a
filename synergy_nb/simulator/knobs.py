"""Knobs of a simulation: what may be changed while applications run, with the names that a live cluster has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import user_facing
from synergy_nb.lifecycle.knob_values import checked_factor, checked_operator, checked_share, checked_source
from synergy_nb.plan.units import WrongValue, did_you_mean, duration
from synergy_nb.reporting.cluster_errors import ClusterError

if TYPE_CHECKING:
    from synergy_nb.simulator.composed_world import ComposedWorld
    from synergy_nb.simulator.simulated_application import SimulatedApplication

__all__ = ["Knobs"]

FOREVER = 1e9  # virtual seconds of a cut without an end


class Knobs:
    """Changes of a running simulation; :class:`~synergy_nb.simulator.simulation.Simulation` has them."""

    world: ComposedWorld

    def _found(self, application: str | SimulatedApplication) -> SimulatedApplication:
        raise ClusterError(f"application: {application!r}; expected one of a simulation")

    # -- peers and links ---------------------------------------------------------------------------------------------

    @user_facing
    def kill(self, peer: str) -> None:
        """End a peer without warning, to see how the others react.

        Parameters
        ----------
        peer
            Name of the peer.
        """
        self.world.crash(self._living("peer", peer))

    @user_facing
    def suspend(self, peer: str) -> None:
        """Stop a peer: it hangs until :meth:`resume`, and then handles what has arrived meanwhile.

        Parameters
        ----------
        peer
            Name of the peer.
        """
        self.world.suspend(self._living("peer", peer))

    @user_facing
    def resume(self, peer: str) -> None:
        """Have a suspended peer go on.

        Parameters
        ----------
        peer
            Name of the peer.
        """
        self.world.resume(self._living("peer", peer))

    @user_facing
    def cut(self, peer: str, other: str, seconds: float | str | None = None) -> None:
        """Cut the link between two peers; what is under way on it is lost.

        Parameters
        ----------
        peer, other
            Names of the peers.
        seconds
            Time after which the link works again, in seconds or as ``"2 min"``; None: until :meth:`mend`.
        """
        one, two = self._living("peer", peer), self._living("other", other)
        if one == two:
            raise ClusterError(f"other: {other!r}; expected another peer than {peer!r}")
        self.world.cut(one, two, FOREVER if seconds is None else duration("seconds", seconds))

    @user_facing
    def mend(self, peer: str, other: str) -> None:
        """Mend the link between two peers.

        Parameters
        ----------
        peer, other
            Names of the peers.
        """
        self.world.mend(self._living("peer", peer), self._living("other", other))

    @user_facing
    def load(self, peer: str, share: float) -> None:
        """Have other programs use a share of a peer's cores, from 0 to 0.99; its tuples take longer.

        Parameters
        ----------
        peer
            Name of the peer.
        share
            Share of the cores.
        """
        wanted = checked_share(share)
        self.world.load_of[self._living("peer", peer)] = wanted

    # -- applications ------------------------------------------------------------------------------------------------

    @user_facing
    def pace(self, application: str | SimulatedApplication, source: str, factor: float) -> None:
        """Have the tuples of a source come at another pace than its own, from now on.

        Parameters
        ----------
        application
            Application or its id.
        source
            Operator id of the source.
        factor
            Factor of its own pace: 2 is twice as fast, 0 stops it.
        """
        found = self._found(application)
        checked_source(found.plan, source)
        self.world.set_pace(found.id, source, checked_factor(factor))

    @user_facing
    def cost(self, application: str | SimulatedApplication, operator: str, seconds: float | str) -> None:
        """Have an operator need another time for each tuple than its plan states, from now on.

        Parameters
        ----------
        application
            Application or its id.
        operator
            Operator id.
        seconds
            Processing time of a tuple on one core, in seconds or as ``"2 ms"``.
        """
        found = self._found(application)
        checked_operator(found.plan, operator)
        try:
            self.world.cost_of[found.id, operator] = duration("seconds", seconds, least=0.0)
        except WrongValue as wrong:
            raise ClusterError(f"seconds: {wrong}") from None

    def knobs(self) -> Any:
        """Return a panel for a notebook with which all of these are done, and virtual time passes."""
        return view_of("knobs", self)

    # -- checks ------------------------------------------------------------------------------------------------------

    def _living(self, field: str, peer: str) -> str:
        """Return the name of a peer that lives."""
        known = self.world.topology.peers
        if peer not in known:
            hint = did_you_mean(peer, known)
            shown = ", ".join(known[:8]) + (f" ... {known[-1]}" if len(known) > 8 else "")
            raise ClusterError(f"{field}: {peer!r}; expected a peer of this simulation: {shown}{hint}")
        if self.world.dead(peer):
            ended = "has left" if peer in self.world.left else "was killed"
            raise ClusterError(f"{field}: {peer!r} {ended}; expected a peer that lives")
        return peer
