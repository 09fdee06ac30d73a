"""What the peers of applications have promised to an origin, and kept: who breaks promises is chosen last.

Theory of operation
-------------------
A peer can state no load, accept whatever it is asked for, and do nothing. What it says of itself cannot be checked, but
what becomes of an application can be measured where its results arrive. So an origin passes a verdict on each of its
applications that states a limit of the delay, once it has run for :data:`JUDGED` seconds on the same peers: *kept* if
its sinks have measured a delay within the limit, and *broken* if they have measured a longer one, or none where the
plan has no windows and should have led to :data:`RESULTS` results by then. It is broken, too, if peers that had
accepted it have not confirmed its set-up in time.

A verdict counts for all peers of the application except the origin itself, as nobody can tell which of them it was. One
that lies is in each broken application, and others only by chance. A peer with :data:`BROKEN` broken promises, and no
fewer than it has kept, is *distrusted*: look-ups return it only for components that nobody else offers. Verdicts are
forgotten after :data:`REMEMBERED` seconds, so that a peer that was only unlucky, or is mended, gets another chance.

Nothing of this is told to others: a peer could lie about others then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events import PeerDistrusted
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.overlay.directory_entries import Entry

__all__ = ["BROKEN", "JUDGED", "KeptPromises"]

JUDGED: Final = 30.0  # seconds after which a running application is judged
BROKEN: Final = 3  # broken promises from which on a peer is distrusted, unless it has kept more
RESULTS: Final = 10.0  # results that should have come before their absence counts
REMEMBERED: Final = 600.0  # seconds for which a verdict counts
MOST: Final = 64  # verdicts that count for a peer, the latest ones


class KeptPromises:
    """The verdicts of one origin on the peers of its applications."""

    def __init__(
        self,
        peer: Peer,
        # function from an application to the delay that its sinks have measured, seconds; negative before the first
        # measurement, None if the peer does not lead it any more
        delay: Callable[[str], float | None],
    ) -> None:
        self._peer = peer
        self._delay = delay
        self._verdicts: dict[str, deque[tuple[float, bool]]] = {}  # peer to times of verdicts, and whether it kept
        self._named: set[str] = set()  # peers that count as distrusted by the journal

    def distrusts(self, address: str) -> bool:
        """Whether a peer has broken promises, and no fewer than it has kept."""
        kept, broken = self._counts(address)
        return broken >= BROKEN and broken >= kept

    def trusted(self, found: Mapping[str, tuple[Entry, ...]]) -> dict[str, tuple[Entry, ...]]:
        """Entries of a look-up without those of distrusted peers, where others offer the same."""
        doubted = {address for address in tuple(self._verdicts) if self.distrusts(address)}
        if not doubted:
            return dict(found)
        return {
            name: tuple(each for each in entries if each.host not in doubted) or entries
            for name, entries in found.items()
        }

    def _counts(self, address: str) -> tuple[int, int]:
        """Numbers of promises that a peer has kept, and has broken."""
        verdicts = self._verdicts.get(address)
        if verdicts is None:
            return 0, 0
        while verdicts and verdicts[0][0] < self._peer.now - REMEMBERED:
            verdicts.popleft()
        if not verdicts:
            del self._verdicts[address]
        kept = sum(each for _, each in verdicts)
        return kept, len(verdicts) - kept

    def set_up(self, request: Request, refusal: str) -> None:
        """The set-up of a request has ended: its application runs, or there is a refusal."""
        if not refusal:
            self._peer.after(JUDGED, self._judge, request)
        elif request.unanswered:
            self._note(request.graph.roles.addresses, kept=False)

    def _judge(self, request: Request) -> None:
        """Pass a verdict on an application that has run for a while."""
        plan, limit = request.plan, request.plan.qos.delay
        if request.state is not State.RUNNING or limit is None or request.former:
            return
        delay = self._delay(request.name)
        if delay is None:
            return
        windowed = any(plan.window(name) for name in plan.operators)
        if delay >= 0.0:
            self._note(request.graph.roles.addresses, kept=delay <= limit)
        elif not windowed and min(map(plan.rate, plan.sinks), default=0.0) * JUDGED >= RESULTS:
            self._note(request.graph.roles.addresses, kept=False)

    def _note(self, addresses: Iterable[str], *, kept: bool) -> None:
        for address in sorted(addresses):
            if address == self._peer.address:
                continue
            self._verdicts.setdefault(address, deque(maxlen=MOST)).append((self._peer.now, kept))
            doubted = self.distrusts(address)
            if doubted and address not in self._named:
                kept_promises, broken = self._counts(address)
                self._peer.record(PeerDistrusted, address, broken=broken, kept=kept_promises)
            (self._named.add if doubted else self._named.discard)(address)
