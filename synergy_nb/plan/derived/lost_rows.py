"""What of each source is lost when an application is restarted after the death of its peers, in words."""

from __future__ import annotations

from synergy_nb.plan.operators.sources import OWN
from synergy_nb.plan.query_plan import Plan

__all__ = ["lost_rows", "restarts"]

_LOST = {
    "python": "rows that its program had not sent; its stream ends with those that had come",
    "peers": "measurements until it runs again",
    "socket": "lines that were sent until it runs again",
    "websocket": "messages that were sent until it runs again",
    "sse": "events that the server does not repeat",
    "http": "rows that have left the page until it runs again",
    OWN: "rows that it does not give again",
}


def lost_rows(plan: Plan) -> dict[str, str]:
    """Return each source that cannot be read again, with what of it is lost.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> lines = source("socket", address="127.0.0.1:9999", columns={"time": "time", "v": "int"}, id="lines")
    >>> lost_rows(lines.sink()), lost_rows(source("packets").sink())
    ({'lines': 'lines that were sent until it runs again'}, {})
    """
    connectors = {name: str(plan.operators[name].params.get("connector")) for name in plan.sources}
    repeats = {name for name in plan.sources if plan.operators[name].params.get("repeats")}
    return {name: _LOST[each] for name, each in connectors.items() if each in _LOST and name not in repeats}


def restarts(plan: Plan, *, durable: bool) -> bool:
    """Whether an application is restarted when a peer dies that executes an operator without a backup.

    ``durable``: whether its cluster is durable. One whose rows only a program has is not.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> packets = source("packets")
    >>> [restarts(packets.sink(on_death=what), durable=False) for what in (None, "fail", "restart")]
    [False, False, True]
    >>> restarts(packets.sink(), durable=True)
    True
    """
    pushed = any(plan.operators[name].params.get("connector") == "python" for name in plan.sources)
    return not pushed and (plan.qos.on_death or ("restart" if durable else "fail")) == "restart"
