"""Functions and tables on their way: a client sends what a plan only names to its peers before it submits the plan.

It asks all peers first, each time: a peer may have got it from its neighbours, or may have started anew at its address.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.runtime.process.contents import is_table, piece
from synergy_nb.runtime.process.requests import ClusterError, ContentsFound, FindContents, SendContent, pack, unpack
from synergy_nb.runtime.transport.wire import RemoteError

__all__ = ["ContentShipping"]

ANSWER: Final = 30.0  # seconds within which a peer says what it has, and the directory knows what it offers
KEPT: Final = 60.0  # seconds within which a peer has taken a piece, and at last the content


class ContentShipping:
    """Sends contents to the peers of a cluster: a function to each, a table to one of each machine."""

    def __init__(
        self,
        # function that sends a request to peers, and returns the answers of those that answer
        request_all: Callable[[str, bytes, Iterable[str], float], Awaitable[dict[str, bytes]]],
        # function that sends a request to one peer: peer, operation, argument, seconds
        request: Callable[[str, str, bytes, float], Awaitable[bytes]],
        name: Callable[[str], str],  # function that returns the name of the peer at an address
    ) -> None:
        self._request_all = request_all
        self._request = request
        self._name = name
        self._sender = uuid.uuid4().hex

    async def send(self, plan: Plan, addresses: Iterable[str]) -> None:
        """Send the contents that a plan needs to the peers that have not got them.

        Raises ``ClusterError`` if no peer has one at the end; the text has the reasons.
        """
        needed = needed_contents(plan)
        if not needed:
            return
        terms = {each: plan.operators[operator].params.get("table", {}) for each, operator in needed.items()}
        request = pack(FindContents(terms))
        had: set[str] = set()  # components whose contents some peer has
        reasons: dict[str, dict[str, str]] = {each: {} for each in needed}  # component and address to why not
        asked = list(addresses)
        while asked:
            answers = await self._request_all("contents", request, asked, ANSWER)
            takers: dict[tuple[str, str], list[str]] = {}  # by component and machine, or peer
            for address, data in answers.items():
                answer = unpack(data, ContentsFound)
                had |= needed.keys() - answer.refused.keys() - set(answer.lacking)
                for component, reason in answer.refused.items():
                    reasons[component][address] = reason
                for component in answer.lacking:
                    where = answer.machine if is_table(component) else address
                    takers.setdefault((component, where), []).append(address)
            sent = await asyncio.gather(*(self._send(each[0], component) for (component, _), each in takers.items()))
            asked = list(dict.fromkeys(rest for each in takers.values() for rest in each[1:]))  # they may have it now
            for ((component, _), (address, *_)), reason in zip(takers.items(), sent, strict=True):
                if reason:
                    reasons[component][address] = reason
                else:
                    had.add(component)
        for component, operator in needed.items():
            if component not in had:
                field = KINDS[plan.operators[operator].kind].component
                what = f"operator {operator!r}: {field}: {component.partition(':')[2]!r}"
                raise ClusterError(f"{what}: {self._why(reasons[component])}")

    async def _send(self, address: str, component: str) -> str:
        """Send a content to a peer; return the reason if it has not got it at the end."""
        start, size = 0, 1
        while start < size:
            found = await asyncio.to_thread(piece, component, start)
            if found is None:
                does = "reads" if is_table(component) else "declares"
                return f"this peer has not got it: the program that {does} it sends it"
            try:
                await self._request(address, "content sent", pack(SendContent(self._sender, found)), KEPT)
            except ClusterError as error:  # what the peer says has no need of its name, which is told with it
                why = error.__cause__
                return str(why).removeprefix("ValueError: ") if isinstance(why, RemoteError) else str(error)
            start, size = start + max(len(found.data), 1), found.size
        return ""

    def _why(self, refused: Mapping[str, str]) -> str:
        if not refused:
            return "no peer answers; expected one that accepts it"
        reasons: dict[str, list[str]] = {}
        for address, reason in refused.items():
            reasons.setdefault(reason, []).append(self._name(address))
        told = "; ".join(f"{reason} ({', '.join(sorted(names))})" for reason, names in reasons.items())
        return f"no peer accepts it: {told}"
