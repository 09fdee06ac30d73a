"""Recovery of the order in which a component with several inputs read these before a take-over. No IO, no clock.

A peer knows the :class:`Orders` that came with the chunks that anything on it depends on.

A backup that takes over from a dead component asks all peers of the application. Each answers once it knows the
deployment named in the question: from its answer on it refuses frames of the replaced component, so the answer covers
all that anybody will ever depend on. Peers of applications that share the streams answer once they read from the
present components. With a new deployment all are asked anew, as a peer has died that may have passed determinants on to
others.

After a move nobody has to be asked, as the old peer lives: it stops, and states the whole order in which it has read
(:class:`.log.frames.LastOrder`). All peers are asked only if that does not arrive in time, as
where the old peer itself still repeated a component before it. A component that reads its inputs aligned
(:mod:`~synergy_nb.dataflow.streams.component._alignment`) does not wait for the answers; from them it learns how far it
repeats what others have received.
"""

from __future__ import annotations

from collections.abc import Iterable

from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting._copies import Copy
from synergy_nb.dataflow.streams.log.frames import Determinants, Recall
from synergy_nb.dataflow.streams.log.values import ORIGIN, ComponentStream, Determinant, Point

RECALL_S = 0.1
LAST_ORDER_S = 0.5  # seconds that a former follower waits for the order of the component that it replaces


class Orders:
    """Determinants of all streams that something on this peer depends on, until they are stable.

    Examples
    --------
    >>> stream = ComponentStream("app", "join")
    >>> first = Determinant(stream, Point(0, 0), Point(5, 0), (), ORIGIN)
    >>> second = Determinant(stream, Point(5, 0), Point(9, 0), (), Point(5, 0))
    >>> orders = Orders()
    >>> orders.add([first, first]), len(orders.of(stream))
    (None, 1)
    >>> orders.add([second]), orders.of(stream) == (second,)
    (None, True)
    """

    def __init__(self) -> None:
        self._found: dict[ComponentStream, dict[tuple[Point, Point], Determinant]] = {}
        self._stable: dict[ComponentStream, Point] = {}

    def add(self, determinants: Iterable[Determinant]) -> None:
        """Add determinants, and drop those that have become stable."""
        for each in determinants:
            stable = self._stable.get(each.stream, ORIGIN)
            if each.stable > stable:
                stable = self._stable[each.stream] = each.stable
                known = self._found.get(each.stream, {})
                for key in [key for key in known if key[1] <= stable]:
                    del known[key]
            if each.end > stable:
                found = self._found.setdefault(each.stream, {})
                found.setdefault((each.start, each.end), each)

    def of(self, stream: ComponentStream) -> tuple[Determinant, ...]:
        """Return all known determinants of a stream."""
        return tuple(self._found.get(stream, {}).values())

    def forget(self, application: str) -> None:
        """Drop the determinants of an application that has ended."""
        for stream in [stream for stream in self._found if stream.application == application]:
            del self._found[stream]
        for stream in [stream for stream in self._stable if stream.application == application]:
            del self._stable[stream]


def arrived(components: Iterable[Component], copy: Copy | None, stream: ComponentStream) -> Point:
    """Return the point up to which a stream has arrived at a peer: at readers among its components, and at its copy."""
    found = copy.merge.received if copy is not None and copy.merge.joined else ORIGIN
    for component in components:
        for number, port in component.ports.items():
            if component.feeds[number] == (stream.application, stream.operator) and port.joined:
                found = found.joined(port.received)
    return found


def still_repeats(component: Component) -> bool:
    """Whether a component repeats what one before it had emitted, so that others depend on more than it has read."""
    reading = component.reading
    return component.alignment.behind or not reading.free or reading.next_run(component.ports) is not None


class Recovery:
    """The answers that a component waits for before it reads freely.

    Parameters
    ----------
    component
        Component that has taken over.
    wait_s
        Seconds until it asks for the first time.

    Attributes
    ----------
    missing : set of str
        Addresses of the peers that have not answered.
    found : list of Determinant
        Determinants in the answers so far.
    end : Point
        Point up to which the stream has arrived at any of the peers that have answered.
    retry_at : float
        Time in seconds at which the missing peers are asked again.
    """

    def __init__(self, component: Component, wait_s: float = 0.0) -> None:
        self.component = component
        self._wait_s = wait_s
        self.missing: set[str] = set()
        self.found: list[Determinant] = []
        self.end = ORIGIN
        self.retry_at = 0.0
        self._deployment: Deployment | None = None
        self._question = 0

    def begin(self, deployment: Deployment, now: float) -> None:
        """Ask all peers of a deployment."""
        self._deployment = deployment
        self._question += 1
        self.missing = set(deployment.peers)
        self.found.clear()
        self.retry_at = now + self._wait_s
        self._wait_s = 0.0

    def recall(self, now: float) -> tuple[Recall, list[str]]:
        """Return the question, and the peers to ask now."""
        self.retry_at = now + RECALL_S
        known = self._deployment
        if known is None:
            return Recall(self.component.output, 0), []
        epochs = {operator: assignment.epoch for operator, assignment in known.assignments.items() if assignment.epoch}
        question = Recall(self.component.output, known.version, self._question, epochs, known.requires)
        return question, sorted(self.missing)

    def answer(self, sender: str, answer: Determinants) -> bool:
        """Record an answer; True if it was the last missing one."""
        known = self._deployment
        if known is None or answer.stream != self.component.output.stream or answer.version != known.version:
            return False
        if answer.question != self._question or sender not in self.missing:
            return False
        self.missing.remove(sender)
        self.found += answer.found
        self.end = self.end.joined(answer.end)
        return not self.missing
