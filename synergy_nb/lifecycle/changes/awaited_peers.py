"""Pauses: an application waits for a silent peer without which it cannot continue.

A peer that the failure detector has declared dead may only be late: its machine is overloaded, its process was stopped,
or it is cut off. If nothing can replace its components, the application is *paused* at the origin. Its graph stays as
it is, and so do the sessions, the streams and the results at all other peers. When the peer answers again, the streams
go on where they stopped, as after any lost frame. The application ends if the peer is silent for longer than
``patience`` (:class:`~synergy_nb.lifecycle.records.session_config.SessionConfig`), and at once if its process has ended
(:meth:`.Membership.has_ended`). The reason says which of these it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from synergy_nb.control.peer import Peer, Timer
from synergy_nb.events import ApplicationContinued, ApplicationPaused, awaited_text
from synergy_nb.lifecycle.records.request import Request

__all__ = ["AwaitedPeers"]


class _Pause:
    """What an application waits for."""

    __slots__ = ("began", "peers", "since", "timer")

    def __init__(self, now: float) -> None:
        self.began = now  # time at which the pause began, seconds
        self.peers: dict[str, list[str]] = {}  # address of each awaited peer to the names of its components
        self.since: dict[str, float] = {}  # address of each awaited peer to the time since when it is awaited, seconds
        self.timer: Timer | None = None  # timer that ends the application


class AwaitedPeers:
    """The peers that the applications of one origin wait for."""

    def __init__(
        self, peer: Peer, led: Mapping[str, Request], patience: float, fail: Callable[[str, int, str], None]
    ) -> None:
        self._peer = peer
        self._led = led
        self.patience = patience  # time for which an application waits for a peer, seconds
        self._fail = fail  # callback with (application, attempt, reason) when an application has waited too long
        self._pauses: dict[str, _Pause] = {}

    def of(self, application: str) -> Mapping[str, Sequence[str]]:
        """Address of each peer that an application waits for to its components; empty if it does not wait."""
        pause = self._pauses.get(application)
        return {} if pause is None else pause.peers

    def reason(self, application: str) -> str:
        """What an application waits for, for people; empty if it does not wait."""
        return awaited_text(self.of(application))

    def wait(self, application: str, awaited: Mapping[str, Sequence[str]]) -> None:
        """Have an application wait for these peers, each with the names of its components; or for nobody."""
        now, pause = self._peer.now, self._pauses.get(application)
        if pause is None:
            if not awaited:
                return
            pause = self._pauses[application] = _Pause(now)
        elif pause.peers == {address: list(names) for address, names in awaited.items()}:
            return
        if not awaited:
            self.end(application)
            self._peer.record(ApplicationContinued, application, awaited=pause.peers, seconds=now - pause.began)
            return
        pause.peers = {address: list(names) for address, names in awaited.items()}
        pause.since = {address: pause.since.get(address, now) for address in awaited}
        self._peer.record(ApplicationPaused, application, awaited=pause.peers, patience=self.patience)
        self._set_timer(application, pause)

    def _set_timer(self, application: str, pause: _Pause) -> None:
        if pause.timer is not None:
            pause.timer.cancel()
        due = min(pause.since.values()) + self.patience
        pause.timer = self._peer.after(max(due - self._peer.now, 0.0), self._tired, application, pause, due)

    def _tired(self, application: str, pause: _Pause, due: float) -> None:
        """End an application that has waited long enough, unless this peer was late itself."""
        if self._pauses.get(application) is not pause:
            return
        now = self._peer.now
        late = now - due
        if late > 1.0:  # this peer was stopped: the others had no chance to answer it meanwhile
            pause.since = {address: since + late + 0.1 * self.patience for address, since in pause.since.items()}
            self._set_timer(application, pause)
            return
        silent = sorted(address for address, since in pause.since.items() if since + self.patience <= now + 1e-6)
        reasons = [
            f"peer {each} has not answered for {now - pause.since[each]:.0f} s ({', '.join(sorted(pause.peers[each]))})"
            for each in silent
        ]
        self._fail(application, self._led[application].graph.attempt, " and ".join(reasons))

    def end(self, application: str) -> None:
        """Forget the pause of an application that continues, has ended, or that this peer leads no more."""
        pause = self._pauses.pop(application, None)
        if pause is not None and pause.timer is not None:
            pause.timer.cancel()
