"""Claims: a request waits while another one for the same stream is composed, so that it can share that stream.

Theory of operation
-------------------
A stream can be shared from when its application runs, about a second after the request. Requests for a popular query
that arrive within this second find nothing to share; each is composed apart, at the same fastest peers.

An origin therefore claims the stream that a plan ends with, in the directory, before it looks up the streams that run.
The claim is *waiting* until the answer of the directory, and *composing* from then on. A request waits if the answer
has the claim of another one that is composing, or that waits and has the smaller id, and if the stream does not run
yet; then its origin looks up again. A claim ends shortly after its request runs or is rejected: by then the stream is
in the directory. If an origin dies, its claim ends with the lease of the entry, and in any case a request waits for a
limited time only.

A claim is an entry of a stream without producers, so peers that know no claims find no stream in it. Two requests that
claim a stream within the time of a message do not see each other; both are composed.
"""

from __future__ import annotations

from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.stream_sharing import is_live

__all__ = ["Claims"]

INTERVAL: Final = 0.25  # seconds until a waiting request looks up again
RETAINED: Final = 1.0  # seconds that a claim stays after the decision, until the directory has the running stream
CLAIM: Final = "claim"  # attribute of a claim's entry in the directory
WAITING: Final = "waiting"
COMPOSING: Final = "composing"


class Claims:
    """Claims the streams of the requests of one origin."""

    def __init__(self, peer: Peer, streams: PublishedStreams, patience: float) -> None:
        self._peer = peer
        self._streams = streams
        # greatest number of seconds that a request waits; 0: it claims nothing and does not wait
        self._patience = patience
        self._claimed: dict[str, str] = {}  # request to the name of its stream

    def claim(self, request: Request) -> None:
        """Claim the stream of a request that is about to look up the streams that run."""
        name = _last_stream(request.plan) if self._patience and not request.trial else ""
        if name:
            self._claimed[request.name] = name
            self._streams.offer(name, request.name, "", {CLAIM: WAITING})

    def compose(self, request: Request) -> None:
        """Note that a request waits no longer."""
        name = self._claimed.get(request.name)
        if name is not None:
            self._streams.offer(name, request.name, "", {CLAIM: COMPOSING})

    def end(self, request: Request) -> None:
        """End the claim of a request that runs or has ended, after a short time."""
        name = self._claimed.pop(request.name, None)
        if name is not None:
            self._peer.after(RETAINED, self._streams.withdraw, name, request.name, "")

    def waits(self, request: Request) -> bool:
        """Whether a request still has time to wait."""
        return self._peer.now < request.submitted + self._patience

    def first(self, request: Request, found: DirectoryEntries) -> str:
        """Return the id of the request that this one has to wait for; empty if there is none."""
        name = self._claimed.get(request.name)
        if name is None or not self.waits(request):
            return ""
        entries = [each.attributes for each in found.get(name, ())]
        if any("producers" in each for each in entries):
            return ""
        others = {str(each["application"]): each[CLAIM] for each in entries if CLAIM in each}
        others.pop(request.name, None)
        return min((other for other, state in others.items() if state == COMPOSING or other < request.name), default="")


def _last_stream(plan: Plan) -> str:
    """Canonical name of the stream that a plan ends with; empty if it has several, or none that may be shared."""
    ends = {up for sink in plan.sinks for up in plan.upstream(sink)}
    if len(ends) != 1:
        return ""
    end = ends.pop()
    return plan.stream_name(end) if is_live(plan, end) else ""
